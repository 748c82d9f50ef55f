"""The table of docs/checkpoints.md that says which files of schemes were read, and which damage is found.

python -m tests.scheme_table [--write]

Files are written by the scheme's own software where that is installed, by lowprec, or by the layout's
documents in the test itself; they must have no finding. Then the first file is damaged in each way of
`DEFECTS`: the last columns say which damage `lint` names, and which it does not.
"""

import argparse
import contextlib
import dataclasses
import importlib.metadata
import re
import sys
import tempfile
from pathlib import Path

import ml_dtypes
import numpy as np
import pytest

from lowprec.checkpoints.decoding import values_of
from lowprec.checkpoints.folder import open_checkpoint
from lowprec.checkpoints.linting import lint
from lowprec.checkpoints.quantizing import FAMILIES
from lowprec.checkpoints.weights import weights_of
from tests.checkpoints import writers
from tests.checkpoints.files import changed, quantized
from tests.checkpoints.test_integers import COLUMNS, ROWS, columns, rows

PAGE = Path(__file__).parents[1] / "docs" / "checkpoints.md"
_E8M0 = np.dtype(ml_dtypes.float8_e8m0fnu)


def _is_power(weight, array):
    return weight.scale == "e8m0fnu" and array.dtype in (np.uint8, _E8M0)


def _nan(weight, array):
    found = array.copy()
    if _is_power(weight, array):
        found.view(np.uint8).reshape(-1)[0] = 255
    elif array.dtype == np.uint8:  # codes of scales that are quantised too
        return None
    else:
        found.reshape(-1)[0] = np.nan
    return found


def _of_floats(change):
    return lambda weight, array: (
        None if array.dtype == np.uint8 or _is_power(weight, array) else change(array)
    )


def _transposed(weight, array):
    if array.ndim != 2 or array.shape[0] == array.shape[1] or 1 in array.shape:
        return None
    return np.ascontiguousarray(array.T)


def _as_floats(weight, array):
    return array.view(np.uint8).astype(np.float32) if _is_power(weight, array) else None


#: Damage of scales, or None where a scheme's cannot have it; parts that are missing come first.
DEFECTS = {
    "scales NaN": _nan,
    "0": _of_floats(np.zeros_like),
    "negative": _of_floats(np.negative),
    "transposed": _transposed,
    "bytes as floats": _as_floats,
}


def _damaged(checkpoint, folder):
    """Yield each damage of the weight of a checkpoint with its rules; None where lint is silent."""
    (weight,) = [each for each in weights_of(checkpoint) if each.is_quantized]
    metadata = checkpoint.metadata

    def rules(change):
        found = changed(checkpoint, folder / "damaged.safetensors", change, metadata)
        found = dataclasses.replace(found, config=checkpoint.config)
        return {each.rule for each in lint(found) if each.severity != "note"}

    kinds = {"codes": weight.codes, "scales": weight.scales, "tensor scale": weight.tensor}
    for name, part in (kinds | {"zero points": weight.zeros}).items():
        if part is not None:
            yield f"no {name}", rules(lambda tensors, part=part: tensors.pop(part.name))
    for name, change in DEFECTS.items() if weight.scales is not None else ():
        tag, array = weight.scales.tag, weight.scales.read()
        made = change(weight, array)
        if made is not None:
            tag = "F32" if name == "bytes as floats" else tag
            yield name, rules(lambda t, made=made, tag=tag: t.update({weight.scales.name: (tag, made)}))


def _damaged_blocks(checkpoint, folder):
    """Yield what becomes of a NaN in each place that a block has for one; scales of NVFP4 have none."""
    (weight,) = [each for each in weights_of(checkpoint) if each.is_quantized]
    kind, data = weight.codes.tag, checkpoint.path.read_bytes()
    places = {"MXFP4": ((0, 255),)}.get(kind, [(place, 0x7E) for place in writers.BLOCKS[kind]])
    for (place, byte), name in zip(places, ("scales NaN", "offsets NaN"), strict=False):
        path, at = folder / "damaged.gguf", weight.codes.start + place
        path.write_bytes(data[:at] + bytes([byte]) + data[at + 1 :])
        yield name, {each.rule for each in lint(open_checkpoint(path)) if each.severity != "note"}


def _version(package):
    return f"{package} {importlib.metadata.version(package)}"


def _sources(folder):
    """Yield of each scheme's name who wrote files and a function that gives them, with values or None."""
    for family, formats in FAMILIES.items():
        for to in formats if family not in ("gguf", "plain", "onnx") else ():
            options = [{"nested": True}, {}] if family == "bitsandbytes" else [{}]
            options = (
                [{}, {"channel": True}] if to == "e4m3fn" and family == "compressed-tensors" else options
            )
            shapes = [(2, 64, 96)] if family == "gpt-oss" else [(256, 192), (64, 128)]

            def made(family=family, to=to, options=options, shapes=shapes):
                for shape in shapes:
                    for some in options:
                        place = Path(tempfile.mkdtemp(dir=folder))
                        yield quantized(place, family, to, shape, **some)[0], None

            yield f"{family} {to}", "lowprec", made
    for kind in writers.BLOCKS:
        name = f"x-{kind}.gguf"
        path = folder / name
        yield f"gguf {kind.lower()}", _version("gguf"), lambda k=kind, p=path: [writers.of_gguf(p, k, False)]
    for family, cases in (("int-quantized", "Int"), ("pack-quantized", "Packed")):
        names = [name for name, case in writers.INTEGERS.items() if case[0] == cases]
        yield (
            family,
            "compressed-tensors",
            lambda names=names: (
                writers.of_compressed_tensors(folder / f"{name} {kind}", name, kind)
                for name in names
                for kind in ("float32", "bfloat16", "float16")
            ),
        )
        packed = family == "pack-quantized"
        own = [case for case in ROWS.values() if case.get("packed", True) == packed]
        yield family, "the layout", lambda own=own: _of_layout(folder, rows, own)
    for version in (1, 2):
        name = f"gptq{'' if version == 1 else ' v2'}"
        yield (
            name,
            "auto-round",
            lambda version=version: (
                writers.of_auto_round(folder / f"a{bits} {version} {in_order}", bits, version, in_order)
                for bits in (2, 3, 4, 5, 8)
                for in_order in (False, True)
            ),
        )
        own = [
            case
            for case in COLUMNS.values()
            if case["method"] == "gptq" and case.get("plus", 0) == 2 - version
        ]
        yield name, "the layout", lambda own=own: _of_layout(folder, columns, own)
    yield "awq", "auto-round", lambda: [writers.of_auto_round_awq(folder / "awq")]
    own = [case for case in COLUMNS.values() if case["method"] == "awq"]
    yield "awq", "the layout", lambda: _of_layout(folder, columns, own)


def _of_layout(folder, make, cases):
    for case in cases:
        tensors, config, values = make(**case)
        place = Path(tempfile.mkdtemp(dir=folder))
        yield writers.folder(place, tensors, config), values.astype(np.float32)


def _row(name, who, made, folder):
    """Return a row, and refuse files with a finding or other values than their writer's."""
    checkpoint = made[0][0]
    for each, values in made:
        assert lint(each) == (), (name, who, lint(each))
        if values is not None:
            (weight,) = [one for one in weights_of(each) if one.is_quantized]
            assert np.array_equal(values_of(weight), values), (name, who)
    found = list((_damaged_blocks if checkpoint.path.suffix == ".gguf" else _damaged)(checkpoint, folder))
    said, silent = (", ".join(what for what, rules in found if bool(rules) == is_said) for is_said in (1, 0))
    return f"| {name} | {who} | {len(made)} | 0 | {said or '-'} | {silent or '-'} |"


def table():
    """Return the rows of all schemes whose writers are installed, as Markdown."""
    lines = ["| scheme | files by | files | findings | damage that is found | not found |"]
    lines.append("|---|---|---|---|---|---|")
    with tempfile.TemporaryDirectory() as folder:
        for name, who, made in _sources(Path(folder)):
            with contextlib.suppress(pytest.skip.Exception):
                files = [*made()]
                who = _version(who) if who in ("auto-round", "compressed-tensors") else who
                lines.append(_row(name, who, files, Path(folder)))
    return "\n".join(lines)


def main():
    """Print the table, or write it to the page."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--write", action="store_true")
    lines = table()
    if not parser.parse_args().write:
        print(lines)
        return
    marks = r"(<!-- schemes -->\n)(?:.*?)(<!-- end -->)"
    text = PAGE.read_text()
    rows = r"^\| ([^|]+) \| ([^|]*?)(?: [\d.]+)? \|"  # scheme, writer and its version
    named = set(re.findall(rows, re.search(marks, text, flags=re.S)[0], flags=re.M))
    if lacking := sorted(named - set(re.findall(rows, lines, flags=re.M))):
        said = ", ".join(f"{scheme} by {who}" for scheme, who in lacking)
        sys.exit(f"not written: nothing here writes files of {said}, which the page has")
    PAGE.write_text(re.sub(marks, lambda match: match[1] + lines + "\n" + match[2], text, flags=re.S))


if __name__ == "__main__":
    main()
