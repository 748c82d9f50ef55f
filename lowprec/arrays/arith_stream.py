"""Operations at the speed of memory: which plan serves one, and how arrays are gone through together.

Arrays of one shape as they are, large ones in threads; all others through small buffers.

Floor 3.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from lowprec.arrays.checks import Operand, unlocked
from lowprec.arrays.stream import PAST_FROM
from lowprec.arrays.threads import SHARED_FROM, share
from lowprec.kernels.lower.vector import (
    DECODER_SHAPE,
    ENCODER_SHAPE,
    NOTHING,
    Encoder,
    is_usual,
    lower_decoder,
    lower_encoder,
    past_caches,
)
from lowprec.kernels.modes import usual_arithmetic
from lowprec.kernels.vector.arith import OPERATIONS, SHORT, is_near, kernel, plan
from lowprec.kernels.vector.ir.lanes import LANES
from lowprec.spec import catalog
from lowprec.spec.format import Carrier, Format
from lowprec.spec.projection import DEFAULT, Projection

__all__ = ["Way", "depends_on_values", "narrowed", "run", "run_flat", "way_of"]

Array = npt.NDArray[Any]

#: Elements that are gone through at a time where they do not lie one after the other.
_BUFFER = 1 << 14

_NO_RANDOM = np.empty(0, np.uint32)

#: Steps of operands that have an element for each result.
_ALL = (1, 1, 1)


class Way(NamedTuple):
    """A kernel, and the plan that says what it does."""

    kernel: Callable[..., int]
    plan: Array
    refuses: bool  #: whether a NaN is refused
    in_singles: bool  #: whether operands must be given as float32: only usual formats are read on the way


@functools.lru_cache(maxsize=4096)
def way_of(
    operation: str, sources: tuple[Format, ...], target: Format, rule: Projection, carrier: Format | None
) -> Way | None:
    """How to make codes of a target of operands in these formats, and on to a type that carries their values.

    None where only the general kernel does.
    """
    if operation not in OPERATIONS or any(source == catalog.BINARY64 for source in sources):
        return None
    if rule.nan_payload == "signaling_first":  # vectors know only the first NaN operand
        return None
    bits = rule.rounding.bits + (rule.rounding.variant == "B")
    short = operation in SHORT and is_near(target) and bits < 20 - target.trailing_bits
    native = target == catalog.BINARY32 and rule == DEFAULT
    encoder = NOTHING if native else lower_encoder(target, rule, not short)
    result = NOTHING if carrier is None else lower_decoder(target, carrier == catalog.BINARY64)
    plain = carrier is None or carrier in (catalog.BINARY32, catalog.BINARY64)
    carry = NOTHING if plain or carrier is None else lower_encoder(carrier, DEFAULT)
    decoders = [decoder for source in sources if (decoder := lower_decoder(source)) is not None]
    if encoder is None or result is None or carry is None or len(decoders) < len(sources):
        return None
    first = _shape(decoders[0], DECODER_SHAPE)
    usual = (native or is_usual(encoder)) and all(_shape(decoder, DECODER_SHAPE) == first for decoder in decoders)
    if not usual:
        decoders, first = [NOTHING], _shape(NOTHING, DECODER_SHAPE)
    ends = ((encoder, ENCODER_SHAPE), (result, DECODER_SHAPE), (carry, ENCODER_SHAPE))
    shapes = tuple(_shape(stage, size) if usual else () for stage, size in ends)
    stages = (*decoders, *decoders[:1] * (3 - len(decoders)), encoder, result, carry)
    return Way(
        kernel(operation, (first, first, first, *shapes), short, native),
        plan(stages, rule.rounding.downward),
        not native and bool(encoder[Encoder._fields.index("refuses")]),
        not usual,
    )


def _shape(stage: Array, size: int) -> tuple[int, ...]:
    return tuple(int(word) for word in stage[:size])


def depends_on_values(operand: Operand) -> bool:
    """Whether it depends on the values how they are read: float64 and wide integers may be binary32 numbers."""
    kinds = "f" if operand.fmt.exponent_bits else "iu"
    return isinstance(operand.fmt, Carrier) and operand.array.dtype.itemsize >= 4 and operand.array.dtype.kind in kinds


def narrowed(operand: Operand) -> Operand:
    """The same values as float32, if they all are such and are not now in a type that is read at once."""
    if not depends_on_values(operand):
        return operand
    array = operand.array
    with usual_arithmetic():
        single = array.astype(np.float32)
        back = single.astype(np.float64)
        if array.dtype.kind == "f":
            same = bool(((back == array) | ((back != back) & (array != array))).all())
        else:
            same = bool((np.abs(back) <= 1 << 24).all())
    return Operand(single.view(np.uint32), catalog.BINARY32, single, True) if same else operand


def run(way: Way, operands: list[Array], out: Array, random: Array) -> int:
    """Write results to `out`; what a kernel returns. Operands broadcast to its shape; `random` has it, or is empty.

    They must not lie in its memory: where the processor is not suited, some of it may be written.
    """
    operands = [unlocked(array) for array in operands]
    if not out.ndim:
        out, operands, random = out.reshape(1), [array.reshape(1) for array in operands], random.reshape(-1)
    if _in_order(out) and all(
        array.dtype.isnative and (array.size == 1 or (array.shape == out.shape and _in_order(array)))
        for array in operands
    ):
        return _flat(way, operands, out.reshape(-1), random.reshape(-1))
    reading, writing = ["readonly", "aligned", "nbo", "contig"], ["writeonly", "aligned", "contig"]
    given = [*operands, *([random] if random.size else []), out]
    status = 0
    with np.nditer(
        given,
        flags=["external_loop", "buffered", "zerosize_ok"],
        op_flags=[*[reading] * (len(given) - 1), writing],
        buffersize=_BUFFER,
        casting="equiv",
    ) as parts:  # type: ignore[call-overload]
        for part in parts:
            *read, result = part
            read = [unlocked(array) for array in read]
            words = read.pop() if random.size else _NO_RANDOM
            status = max(status, _flat(way, read, result, words))
    return status


def run_flat(way: Way, operands: list[Array], out: Array) -> int:
    """As `run`, of one-dimensional arrays of one size that lie one element after the other."""
    if out.size >= SHARED_FROM:
        return _flat(way, operands, out, _NO_RANDOM)
    x, y, z = (*operands, *[operands[0]] * (3 - len(operands)))
    return way.kernel(x, y, z, _ALL, out, way.plan, _NO_RANDOM)


def _in_order(array: Array) -> bool:
    return bool(array.flags.c_contiguous and array.flags.aligned and array.dtype.isnative)


def _flat(way: Way, operands: list[Array], out: Array, random: Array) -> int:
    """One element after the other; single ones go with all."""
    if out.nbytes >= PAST_FROM and not out.__array_interface__["data"][0] % 16:
        way = way._replace(plan=past_caches(way.plan))
    steps = [0 if array.size == 1 != out.size else 1 for array in operands]
    flat = [array.reshape(-1) if step else np.repeat(array, LANES) for array, step in zip(operands, steps, strict=True)]
    flat, steps = [*flat, *flat[:1] * (3 - len(flat))], [*steps, *steps[:1] * (3 - len(steps))]

    def part(start: int, stop: int) -> int:
        x, y, z = (array[start:stop] if step else array for array, step in zip(flat, steps, strict=True))
        return way.kernel(x, y, z, tuple(steps), out[start:stop], way.plan, random[start:stop])

    return share(part, out.size)
