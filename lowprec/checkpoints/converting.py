"""Convert quantised weights to another scheme, or to their values."""

from __future__ import annotations

import functools
import logging
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from lowprec.arrays.blocks.block import BlockArray
from lowprec.arrays.blocks.mxfp4 import from_mxfp4, tensor_scale_for
from lowprec.arrays.convert import decode, encode
from lowprec.checkpoints import configs, transformer_engine
from lowprec.checkpoints.container import TAGS, CheckpointError
from lowprec.checkpoints.decoding import PART, check, codes_of, ranges, scale_codes, tensor_scale, values_of
from lowprec.checkpoints.folder import Checkpoint
from lowprec.checkpoints.patterns import exactly, matching
from lowprec.checkpoints.quantizing import Target, quantize_checkpoint
from lowprec.checkpoints.scaling import Given
from lowprec.checkpoints.schemes.schemes import FLOATS, is_mark
from lowprec.checkpoints.staying import with_staying
from lowprec.checkpoints.targets import SMALLEST_SCALE
from lowprec.checkpoints.weights import Weight, weights_of
from lowprec.checkpoints.writing import SINGLE, Task, Watch, Write, source_of, with_copies, write_checkpoint
from lowprec.kernels.modes import usual_arithmetic
from lowprec.spec import catalog

__all__ = ["convert_checkpoint", "dequantize_checkpoint"]

Array = npt.NDArray[Any]

#: Undecodable weights that an error names, at most; `lint` lists all.
_NAMED = 10


def convert_checkpoint(
    checkpoint: Checkpoint,
    out: Path,
    how: Target,
    *,
    include: Sequence[str] = (),
    exclude: Sequence[str] = (),
    watch: Watch = None,
) -> tuple[dict[str, dict[str, Any]], dict[str, str]]:
    """Write the quantised weights of a checkpoint in another scheme; others stay as they are.

    Scales are kept if both schemes have the same elements, formats of scales and sizes of blocks. MXFP4
    becomes NVFP4 as by `lowprec.methods.nvfp4.from_mxfp4`, exactly where that is possible. All others are
    quantised anew. Reports count all `blocks`, and as `exact_blocks` those whose values stay the same before
    they are rounded to the type that they are decoded to.

    Parameters
    ----------
    checkpoint : Checkpoint
    out : Path
    how : Target
    include, exclude : sequence of str
        Patterns of names. By default `include` has all quantised weights.
    watch : callable, optional
    """
    names = [weight.name for weight in weights_of(checkpoint) if weight.is_quantized]
    if not names:
        raise CheckpointError(f"{str(checkpoint.path)!r} has no quantised weights; use quantize")
    chosen = tuple(include) or tuple(map(exactly, names))
    return quantize_checkpoint(
        checkpoint, out, how, include=chosen, exclude=exclude, watch=watch, scales=_scales
    )


def _scales(weight: Weight, how: Target) -> Given | None:
    """Return the scales that a weight keeps or MXFP4 gives, or None if it is quantised anew."""
    if how.blocks is None or not weight.is_quantized or weight.problem is not None:
        return None
    sizes = (*[1] * (len(weight.shape) - len(how.blocks.sizes)), *how.blocks.sizes)
    turned = weight.scheme.transposed != how.scheme.transposed
    if turned or weight.element != how.element.name or weight.zeros is not None:
        return None
    if weight.scale == how.blocks.scale.name and weight.sizes == sizes:
        tensor = tensor_scale(weight)
        if how.blocks.tensor_scale == "none":
            return None if tensor is not None else Given(None, functools.partial(scale_codes, weight))
        number: Any = np.float32(1) if tensor is None else tensor
        if number.size != 1:
            return None
        with usual_arithmetic():
            number = np.float32(1) / number if weight.scheme.divides else number / np.float32(weight.over)
        if not SMALLEST_SCALE <= number <= 1 / SMALLEST_SCALE:  # flushed, or without an inverse
            return None
        return Given(np.float32(number), functools.partial(scale_codes, weight))
    of_mxfp4 = weight.scale == "e8m0fnu" and weight.sizes == (*sizes[:-1], 32) and weight.tensor is None
    if of_mxfp4 and how.blocks.name == "nvfp4":
        return _of_powers(weight)
    return None


def _of_powers(weight: Weight) -> Given:
    """Return scales of NVFP4 that keep the values of MXFP4's blocks where that is possible."""

    def blocks(start: int, stop: int) -> BlockArray:
        return BlockArray(codes_of(weight, start, stop), scale_codes(weight, start, stop), catalog.MXFP4)

    # Some schemes store the inverse of the tensor's scale: both must be normal float32 numbers.
    best = tensor_scale_for(blocks(start, stop) for start, stop in ranges(weight))
    tensor = np.clip(best, SMALLEST_SCALE, 1 / SMALLEST_SCALE)

    def scales(start: int, stop: int) -> Array:
        return from_mxfp4(blocks(start, stop), float(tensor)).blocks.scales

    return Given(tensor, scales)


def dequantize_checkpoint(
    checkpoint: Checkpoint,
    out: Path,
    dtype: str = "F32",
    *,
    include: Sequence[str] = (),
    exclude: Sequence[str] = (),
    watch: Watch = None,
) -> tuple[str, ...]:
    """Write the values of quantised weights and of floats of at most 8 bits; return their names.

    Other tensors are copied.

    Parameters
    ----------
    checkpoint : Checkpoint
    out : Path
        A .safetensors file or a new folder.
    dtype : {"F32", "BF16", "F16"}
        Type of the values, which are computed in float32, then rounded to this type.
    include, exclude : sequence of str
        Patterns of weights; the others are copied as they are stored. A tensor that cannot be read is left
        out if `exclude` names it.
    watch : callable, optional

    Raises
    ------
    CheckpointError
        A weight that cannot be decoded, or a tensor that is not read.
    """
    checkpoint.check_output(out, exclude)
    pairs: list[tuple[Weight, Task | None]] = []
    names, broken = [], []
    # Where an ONNX model's nodes are kept, floats of 8 bits keep the type that the nodes expect.
    kept = out.suffix == ".onnx" and source_of(checkpoint, out) is not None
    for weight in weights_of(checkpoint):
        narrow = (
            not kept
            and not weight.is_quantized
            and TAGS.get(weight.codes.tag, (None, 8))[1] <= 8
            and weight.codes.tag in FLOATS
            and not is_mark(weight.codes)
        )
        chosen = not include or matching(weight.name, include) is not None
        chosen = chosen and matching(weight.name, exclude) is None
        if chosen and weight.problem is not None and (weight.is_quantized or not kept):
            broken.append(f"weight {weight.name!r} cannot be decoded: {weight.problem[1]}")
        elif chosen and (weight.is_quantized or narrow):
            names.append(weight.name)
            pairs.append((weight, _values_task(weight, dtype)))
        else:
            pairs.append((weight, None))
    if broken:
        more = f"; and {len(broken) - _NAMED:,} others" if broken[_NAMED:] else ""
        raise CheckpointError(
            f"{'; '.join(broken[:_NAMED])}{more}; nothing is written. Restore what is missing, or "
            f"copy them as they are stored with --exclude"
        )
    made = {"format": "pt"}
    weights = [weight for weight, _ in pairs]
    made |= transformer_engine.metadata_of(weights, names, None, checkpoint.metadata)
    tasks = with_copies(pairs, out)
    made = with_staying(made, {}, out, checkpoint, pairs, tasks)
    others = configs.beside(checkpoint) if out.suffix not in SINGLE else None
    source = source_of(checkpoint, out)
    reports = write_checkpoint(out, tasks, made, "dequantize", others=others, watch=watch, source=source)
    for name, report in reports.items():
        what = "%s values of weight %r lie beyond %s's largest number and became infinite; name F32 or BF16"
        logging.getLogger("lowprec").warning(what, f"{report['lost']:,}", name, dtype)
    return tuple(names)


def _values_task(weight: Weight, dtype: str) -> Task:
    check(weight)

    def work(write: Write) -> dict[str, Any] | None:
        lost = 0
        for start, stop in ranges(weight, PART):
            values = values_of(weight, start, stop)
            if dtype != "F32":
                made = encode(values, FLOATS[dtype])
                lost += int(np.count_nonzero(np.isfinite(values) & ~np.isfinite(decode(made, FLOATS[dtype]))))
                values = made
            write(weight.name, values, start)
        return {"lost": lost} if lost else None

    size = int(np.prod(weight.shape, dtype=np.int64))
    plan = ((weight.name, dtype, weight.value_shape),)
    return Task(weight.name, weight.codes.path.name, plan, size, work, weight.parts, repr(weight))
