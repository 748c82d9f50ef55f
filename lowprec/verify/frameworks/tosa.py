"""Arm's reference model of TOSA, a program: casts, and casts to MX blocks, each a graph of one operator."""

from __future__ import annotations

import importlib.metadata
import io
import json
import subprocess
from dataclasses import replace
from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np

from lowprec import files
from lowprec.arrays.checks import code_dtype
from lowprec.spec import catalog
from lowprec.spec.block import BlockFormat, ScaleRule, rule
from lowprec.spec.format import Format
from lowprec.verify.frameworks.base import Answer, Array
from lowprec.verify.frameworks.tasks import Blocks, Cast, Task

__all__ = ["cast", "others"]

#: Types as the model names them.
_TYPES = {
    catalog.BINARY32: "FP32",
    catalog.BINARY16: "FP16",
    catalog.BFLOAT16: "BF16",
    catalog.E4M3FN: "FP8E4M3",
    catalog.E5M2: "FP8E5M2",
    catalog.E2M3FN: "FP6E2M3",
    catalog.E3M2FN: "FP6E3M2",
    catalog.E2M1FN: "FP4E2M1",
    catalog.INT8F6: "MXINT8",
    catalog.E8M0FNU: "FP8UE8M0",
}


def _answer(operator: str, attribute: dict[str, Any], values: Array, outputs: dict[Format, Array]) -> None:
    """Run an operator on an array, and write its results into arrays of bytes."""
    name = "".join(word.capitalize() for word in operator.split("_"))
    (source,) = (fmt for fmt in _TYPES if catalog.carrier(values.dtype) == fmt)
    names = [f"y{place}" for place in range(len(outputs))]
    tensors = [{"name": "x", "shape": list(values.shape), "type": _TYPES[source]}]
    for made, (fmt, out) in zip(names, outputs.items(), strict=True):
        shape = [len(out), out.shape[1] * 8 // fmt.width]
        tensors.append({"name": made, "shape": shape, "type": _TYPES[fmt]})
    step = {"op": operator, "attribute_type": f"{name}Attribute", "attribute": attribute}
    block = {"operators": [step | {"inputs": ["x"], "outputs": names}], "tensors": tensors}
    block |= {"name": "main", "inputs": ["x"], "outputs": names}
    version = {"_major": 1, "_minor": 1, "_patch": 0, "_draft": True}
    graph = {"version": version, "regions": [{"name": "main", "blocks": [block]}]}
    programs = Path(str(importlib.metadata.distribution("tosa-tools").locate_file("bin")))
    content = io.BytesIO()
    np.lib.format.write_array(content, values)
    place = files.scratch(content)
    files.write(place / "graph.json", json.dumps(graph).encode())
    files.write(place / "x.npy", content.getvalue())
    subprocess.run(
        [
            programs / "tosa_reference_model",
            *(f"--operator_fbs={programs / 'tosa.fbs'}", "--tosa_file=graph.json", "--tosa_level=NONE"),
            *("--flatbuffer_dir=.", "--output_dir=.", "--ifm_name=x", "--ifm_file=x.npy"),
            f"--ofm_name={','.join(names)}",
            f"--ofm_file={','.join(f'{made}.npy' for made in names)}",
        ],
        cwd=place,
        check=True,
        capture_output=True,
    )
    for made, out in zip(names, outputs.values(), strict=True):
        out[...] = np.load(place / f"{made}.npy").view(np.uint8).reshape(out.shape)


def cast(values: Array, fmt: Format) -> Array:
    """Cast by the operator CAST."""
    codes = np.empty((values.size, 1), code_dtype(fmt))
    _answer("CAST", {}, values.reshape(-1, 1), {fmt: codes.view(np.uint8)})
    return codes.reshape(values.shape)


def _blocks(fmt: BlockFormat) -> Answer:
    def blocks(values: Array) -> Array:
        width = fmt.element.width
        packed = np.empty((len(values), values.shape[1] * width // 8), np.uint8)
        scales = np.empty((len(values), 1), np.uint8)
        outputs = {fmt.element: packed, fmt.scale: scales}
        _answer("CAST_TO_BLOCK_SCALED", {"block_size": "BLOCK_SIZE_32"}, values, outputs)
        bits = np.unpackbits(packed, axis=1, bitorder="little").reshape(*values.shape, width)
        return np.hstack([scales, np.packbits(bits, axis=-1, bitorder="little")[..., 0]])

    return blocks


def others() -> dict[Task, Answer]:
    """Return the casts of binary32 to 16 bits, and the tasks of blocks."""
    made: dict[Task, Answer] = {
        Cast("float32", fmt): lambda values, fmt=fmt: cast(values, fmt)
        for fmt in (catalog.BINARY16, catalog.BFLOAT16)
    }
    # Inferred from its answers: from 464 * 2**k on, which no longer rounds to 448 * 2**k, the next scale.
    e4m3 = ScaleRule(name="tosa", divisor="binade", powers="nearest", threshold=Fraction(29, 16))
    rules = {catalog.MXFP8_E4M3: e4m3} | dict.fromkeys(
        (catalog.MXFP8_E5M2, catalog.MXFP6_E2M3, catalog.MXFP6_E3M2, catalog.MXFP4, catalog.MXINT8),
        rule("even"),
    )
    for fmt, how in rules.items():
        asked = replace(fmt, rule=how)
        made[Blocks("float32", asked)] = _blocks(asked)
    return made
