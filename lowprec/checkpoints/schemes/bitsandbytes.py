"""bitsandbytes' files of 4 bits: NF4 and FP4 in blocks of one long row, whose scales may be quantised too.

A weight is `NAME.weight` with bytes, the first element in the high half; `NAME.weight.absmax` with a scale
for each block; `NAME.weight.quant_map`; and `NAME.weight.quant_state.bitsandbytes__nf4`, JSON with block size
and shape. Nested, scales are codes of `nested_quant_map`, times `nested_absmax` for 256 of them, plus an
offset.

Source: [BNB] functional.py, QuantState.
"""

from __future__ import annotations

import dataclasses
import json
import math
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
import numpy.typing as npt

from lowprec.checkpoints.container import CheckpointError, Entry, counts, held_shape, parse_json
from lowprec.checkpoints.schemes.schemes import NESTED_ABSMAX, NESTED_MAP, Scheme
from lowprec.spec import catalog

if TYPE_CHECKING:
    from lowprec.checkpoints.weights import Weight

__all__ = [
    "NESTED",
    "State",
    "is_nested",
    "nested_values",
    "padded",
    "part",
    "resolved",
    "state_of",
    "state_text",
    "zero_code",
]

Array = npt.NDArray[Any]

#: Block sizes that bitsandbytes has, of elements; and how many scales share one when they are nested.
_BLOCKS, NESTED = (32, 64, 128, 256, 512, 1024, 2048, 4096), 256
#: What no state has reason to exceed, in bytes.
_LONGEST = 1 << 16
#: Bytes of a nested state beyond one without an offset: what any float64 is spelled in, and more.
_ROOM = 128


class State(NamedTuple):
    """Contents of the JSON of a weight's state."""

    shape: tuple[int, ...]
    block: int
    offset: float
    nested: int


def is_nested(scheme: Scheme) -> bool:
    """Return whether the scales are quantised too."""
    return NESTED_ABSMAX in scheme.extras


def state_of(weight: Weight) -> State:
    """Return the state of a weight, checked."""
    entry = part(weight, weight.scheme.state)
    if entry.tag != "U8" or entry.nbytes > _LONGEST:
        raise CheckpointError(
            f"{entry.name} has {entry.nbytes:,} bytes of {entry.tag}, and must be short JSON"
        )
    said = parse_json(entry.read().tobytes(), entry.name)
    where = f"the shape in {entry.name}"
    shape = held_shape(counts(said.get("shape"), where), where)
    block, nested, offset = said.get("blocksize"), said.get("nested_blocksize"), said.get("nested_offset")
    if block not in _BLOCKS or said.get("quant_type") != weight.scheme.state.rpartition("__")[2]:
        raise CheckpointError(
            f"{entry.name} says quant_type {said.get('quant_type')!r} and blocksize {block!r}; known are "
            f"{', '.join(map(str, _BLOCKS))}"
        )
    if is_nested(weight.scheme) and (type(nested) is not int or nested < 1 or type(offset) is not float):
        raise CheckpointError(
            f"{entry.name} says nested_blocksize {nested!r} and nested_offset {offset!r}, and scales are "
            f"nested"
        )
    return State(shape, int(block), offset if is_nested(weight.scheme) else 0.0, nested or 0)  # type: ignore[arg-type]


def resolved(weight: Weight) -> Weight:
    """Return a weight with the shape that its state says, and what shares a scale, or its problem."""
    try:
        state = state_of(weight)
        size, columns = math.prod(state.shape), state.shape[-1] if state.shape else 1
        blocks = -(-size // state.block)
        lengths: dict[Entry | None, int] = {weight.codes: -(-size // 2), weight.scales: blocks}
        if is_nested(weight.scheme):
            lengths |= {
                part(weight, NESTED_ABSMAX): -(-blocks // state.nested),
                part(weight, NESTED_MAP): 256,
            }
            for end in (NESTED_ABSMAX, NESTED_MAP):
                if (beside := part(weight, end)).tag != "F32":
                    raise CheckpointError(f"{beside.name} is {beside.tag}, and must be F32")
        for entry, length in lengths.items():
            if entry is not None and (size := math.prod(entry.shape)) != length:
                raise CheckpointError(
                    f"{entry.name} has {size:,} elements, and {list(state.shape)} in blocks of {state.block} "
                    f"need {length:,}"
                )
    except CheckpointError as error:
        return dataclasses.replace(weight, shape=weight.codes.shape, problem=("quant-state", str(error)))
    whole = dataclasses.replace(weight, shape=state.shape)
    ones = (1,) * (len(state.shape) - 2)
    if columns and columns % state.block == 0:
        return dataclasses.replace(whole, sizes=(*(1,) * (len(state.shape) - 1), state.block))
    if len(state.shape) >= 2 and state.block % columns == 0 and state.shape[-2] * columns % state.block == 0:
        return dataclasses.replace(whole, sizes=(*ones, state.block // columns, columns))
    what = f"blocks of {state.block} lie across the ends of rows of {columns}, which lowprec does not read"
    return dataclasses.replace(whole, problem=("quant-state", what))


def nested_values(weight: Weight, codes: Array, first: int) -> npt.NDArray[np.float32]:
    """Return nested scales as bitsandbytes computes them in float32.

    Parameters
    ----------
    weight : Weight
    codes : array of uint8, shape (...)
        Scales first and following, in the order of C.
    first : int
    """
    state = state_of(weight)
    values = part(weight, NESTED_MAP).read().reshape(-1)[codes.reshape(-1)]
    over = part(weight, NESTED_ABSMAX).read().reshape(-1)
    places = np.arange(first, first + codes.size) // state.nested
    return np.asarray(values * over[places] + np.float32(state.offset), np.float32).reshape(codes.shape)


def state_text(scheme: Scheme, dtype: str, shape: tuple[int, ...], offset: float | None = None) -> bytes:
    """Return the JSON of a state, as bitsandbytes spells it."""
    assert scheme.block is not None
    said: dict[str, Any] = {"quant_type": scheme.state.rpartition("__")[2], "blocksize": scheme.block[1]}
    said |= {"dtype": dtype, "shape": list(shape)}
    if is_nested(scheme):
        said |= {"nested_blocksize": NESTED, "nested_dtype": "float32", "nested_offset": offset}
    return json.dumps(said).encode()


def padded(scheme: Scheme, dtype: str, shape: tuple[int, ...]) -> int:
    """Return how many bytes a state takes in a file: nested ones, whose offset comes late, with spaces."""
    return len(state_text(scheme, dtype, shape)) + (_ROOM if is_nested(scheme) else 0)


def quant_map(name: str) -> npt.NDArray[np.float32]:
    """Return the values of a format's codes, as files have them."""
    from lowprec.arrays.convert import decode

    fmt = catalog.format(name)
    values = decode(np.arange(1 << fmt.width, dtype=np.uint8), fmt)
    return np.asarray(values, np.float32) + np.float32(0)  # which has no sign there


def zero_code() -> int:
    """Return the code of a nested scale that is the mean itself."""
    return int(np.flatnonzero(quant_map("dynamic8") == 0)[0])


def part(weight: Weight, end: str) -> Entry:
    """Return the tensor of an ending beside a weight, which needs it."""
    found = weight.extra(end)
    if found is None:
        raise CheckpointError(f"{weight.codes.name} has no {end.removeprefix('.weight.')} beside it")
    return found
