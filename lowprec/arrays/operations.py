"""How operations are answered: by what answered such a call before, by `arith_stream`, or by the general kernel.

Floor 3.
"""

from __future__ import annotations

import dataclasses
import functools
from collections.abc import Hashable
from typing import Any, NamedTuple, TypedDict

import numpy as np
import numpy.typing as npt

from lowprec.arrays import arith_stream, calls, lazy
from lowprec.arrays.checks import (
    Array,
    Operand,
    code_dtype,
    float_dtype,
    nans,
    output,
    projection as projection_of,
    signaling_nans,
    values_operand,
)
from lowprec.arrays.random import integers_for
from lowprec.arrays.stream import known_to_kernels
from lowprec.kernels.lower.scalar import lower_source, lower_target
from lowprec.kernels.scalar import arith as general
from lowprec.kernels.vector.convert import DONE
from lowprec.spec import catalog
from lowprec.spec.arith import SIGN_ONLY
from lowprec.spec.format import Format, Sign
from lowprec.spec.profiles import Profile
from lowprec.spec.projection import DEFAULT, Flag, Projection, Saturation
from lowprec.spec.rounding import Rounding

__all__ = ["Like", "Options", "codes_of", "operate", "result_type"]

Like = Format | str | npt.DTypeLike


class Options(TypedDict, total=False):
    """Keywords of operations; see `add`."""

    rounding: Rounding | str | None
    saturation: Saturation | str | None
    projection: Projection | None
    profile: Profile | str | None
    random: npt.ArrayLike | None
    rng: int | np.random.Generator | None
    dtype: npt.DTypeLike | None
    flags: Array | None
    out: Array | None


#: Elements that the general kernel does at a time.
_PART = 1 << 15

_FLAGS = np.dtype(np.uint8)
_NO_RANDOM = np.empty(0, np.uint32)

#: Of ndarray.flags: one element after the other in C order, at their natural addresses; and writeable.
_PLAIN, _OUTPUT = 0x101, 0x501


def operate(
    operation: str,
    values: tuple[npt.ArrayLike, ...],
    fmt: Like,
    *,
    rounding: Rounding | str | None = None,
    saturation: Saturation | str | None = None,
    projection: Projection | None = None,
    profile: Profile | str | None = None,
    random: npt.ArrayLike | None = None,
    rng: int | np.random.Generator | None = None,
    dtype: npt.DTypeLike | None = None,
    flags: Array | None = None,
    out: Array | None = None,
    **unknown: object,
) -> Any:
    """Values of an operation. The keywords are those of the verbs; see `add`."""
    if unknown:
        raise TypeError(
            f"{operation} has no keyword {next(iter(unknown))!r}; it has {', '.join(Options.__annotations__)}"
        )
    if catalog.is_block(fmt):
        raise TypeError(
            f"{operation} gives single values, and {str(fmt)!r} has blocks: operate into a format such as 'binary32', "
            f"then encode"
        )
    asked = None
    if flags is None and random is None and rng is None and all(type(array) is np.ndarray for array in values):
        types = tuple(array.dtype for array in values)  # type: ignore[union-attr]
        asked = (operation, types, fmt, rounding, saturation, projection, profile, dtype, getattr(out, "dtype", None))
        made = _again(asked, values, out)
        if made is not None:
            return made
    target = catalog.format(fmt)
    how = projection_of(target, rounding, saturation, projection, profile)
    if any(lazy.is_lazy(given) for given in values):
        verb = functools.partial(_operate_on, operation, fmt=target, projection=how, dtype=dtype)
        return lazy.apply(verb, *values, fmt=target, rule=how, random=random, rng=rng, flags=flags, out=out)
    operands = [values_operand(given) for given in values]
    if operation == "scaleb" and operands[1].fmt.exponent_bits and operands[1].array.size:
        raise TypeError(f"scaleb takes integers as powers of two, not {operands[1].array.dtype}; use .astype('int32')")
    wanted = getattr(out, "dtype", None) if dtype is None else np.dtype(dtype)
    given, carrier = result_type(target, wanted)
    made = codes_of(operation, operands, target, how, given, carrier, random, rng, flags, out)
    if asked is not None:
        _remember(asked, operation, operands, target, how, given, carrier)
    return made


class _Job(NamedTuple):
    """What a call comes down to once its arguments are understood."""

    way: arith_stream.Way
    given: np.dtype[Any]


#: Calls of the past. On small arrays most of a call's time is to find out what is asked.
_jobs: dict[Hashable, _Job] = {}


def _remember(
    asked: Hashable,
    operation: str,
    operands: list[Operand],
    target: Format,
    rule: Projection,
    given: np.dtype[Any],
    carrier: Format | None,
) -> None:
    """Keep what was found out, where neither the values nor the results have to be looked at."""
    for operand in operands:
        if arith_stream.depends_on_values(operand) or not (operand.whole and operand.array.dtype.isnative):
            return
    way = arith_stream.way_of(operation, tuple(operand.fmt for operand in operands), target, rule, carrier)
    if way is not None and not way.refuses and not way.in_singles:
        if len(_jobs) >= 1024:
            _jobs.clear()
        _jobs[asked] = _Job(way, given)


def _again(asked: Hashable, arrays: Any, out: Any) -> Any:
    """The result of a call that was answered before and needs no thought; else None."""
    try:
        job = _jobs.get(asked)
    except TypeError:  # what cannot be hashed is refused by name later
        return None
    if job is None:
        return None
    shape = arrays[0].shape
    if not shape or any(array.shape != shape or array.flags.num & _PLAIN != _PLAIN for array in arrays):
        return None
    if out is None:
        out = np.empty(shape, job.given)
    elif type(out) is not np.ndarray or out.dtype != job.given or out.shape != shape:
        return None
    elif out.flags.num & _OUTPUT != _OUTPUT or any(np.may_share_memory(out, array) for array in arrays):
        return None
    plain = [known_to_kernels(array).reshape(-1) for array in arrays]
    return out if arith_stream.run_flat(job.way, plain, known_to_kernels(out).reshape(-1)) == DONE else None


def _operate_on(operation: str, *values: Any, **keywords: Any) -> Any:
    return operate(operation, values, **keywords)


@functools.lru_cache(maxsize=1024)
def result_type(fmt: Format, wanted: np.dtype[Any] | None) -> tuple[np.dtype[Any], Format | None]:
    """The type of results, and its format; none where results are codes."""
    if wanted is not None and wanted.isnative and (wanted == code_dtype(fmt) or catalog.carrier(wanted) == fmt):
        return wanted, None
    given, carrier = float_dtype(fmt, wanted)
    return given, None if carrier == fmt else carrier


def codes_of(
    operation: str,
    operands: list[Operand],
    fmt: Format,
    rule: Projection,
    given: np.dtype[Any],
    carrier: Format | None = None,
    random: object = None,
    rng: object = None,
    flags: object = None,
    out: object = None,
) -> Any:
    """What an operation gives of operands in any formats: codes, or values in a type that carries them."""
    try:
        shape = np.broadcast_shapes(*(operand.array.shape for operand in operands))
    except ValueError:
        shapes = " and ".join(str(operand.array.shape) for operand in operands)
        raise ValueError(f"{operation} takes operands that broadcast together, not of shapes {shapes}") from None
    place = output(out, given, shape, f"values of {fmt.name!r}")
    signals = output(flags, _FLAGS, shape, "what is signaled", name="flags")
    if place is not None and signals is not None and np.may_share_memory(place, signals):
        raise ValueError("out and flags share memory; give each an array of its own")
    integers = integers_for(rule.rounding, fmt, shape, random, rng).reshape(shape if rule.rounding.bits else 0)
    if signals is None:
        narrow = [arith_stream.narrowed(operand) for operand in operands]
        way = arith_stream.way_of(operation, tuple(operand.fmt for operand in narrow), fmt, rule, carrier)
        if way is not None:
            made = _fast(way, narrow, shape, given, integers, place)
            if made is not None:
                return made
    codes, raised = _generally(operation, operands, shape, fmt, rule, integers)
    if carrier is None:
        result = codes.astype(code_dtype(fmt)).view(given)
    else:
        keeps = Projection(nan_payload=rule.nan_payload)
        made = codes.astype(code_dtype(fmt))
        result = calls.convert(Operand(made, fmt, made, True), carrier, keeps, given, None, None, None, None)
    result = np.asarray(result).reshape(shape)
    if signals is not None:
        signals[...] = raised.reshape(shape)
    if place is None:
        return result if shape else result[()]
    place[...] = result
    return place


def _fast(
    way: arith_stream.Way,
    operands: list[Operand],
    shape: tuple[int, ...],
    given: np.dtype[Any],
    integers: Array,
    place: Array | None,
) -> Any:
    """None where only the general kernel can say."""
    single = np.dtype(np.float32)
    if way.in_singles:
        operands = [_as_singles(operand) for operand in operands]
    arrays = [
        operand.array if operand.array.dtype.newbyteorder("=") == single else operand.codes for operand in operands
    ]
    whole = place
    if whole is None or way.refuses or any(np.may_share_memory(whole, array) for array in arrays):
        fortran = len(shape) > 1 and all(array.flags.f_contiguous for array in arrays if array.shape == shape)
        fortran = fortran and any(array.shape == shape and not array.flags.c_contiguous for array in arrays)
        whole = np.empty(shape, given, order="F" if fortran else "C")
    if arith_stream.run(way, arrays, known_to_kernels(whole), integers) != DONE:
        return None
    if place is None:
        return whole if shape else whole[()]
    if place is not whole:
        place[...] = whole
    return place


def _as_singles(operand: Operand) -> Operand:
    """The same values in binary32, which holds them."""
    if operand.fmt == catalog.BINARY32:
        return operand
    single = calls.convert(operand, catalog.BINARY32, DEFAULT, np.dtype(np.float32), None, None, None, None)
    return Operand(operand.codes, catalog.BINARY32, np.asarray(single), True)


def _generally(
    operation: str, operands: list[Operand], shape: tuple[int, ...], fmt: Format, rule: Projection, integers: Array
) -> tuple[Array, Array]:
    """Codes and flags, by the kernel that knows every format, projection and flag."""
    first = Projection(nan_payload=rule.nan_payload, subnormals=_operands_only(rule)) if rule.via else rule
    target = rule.via[0] if rule.via else fmt
    words = lower_target(target, first)
    flush = rule.subnormals in ("flush_operands", "flush_both") and operation not in SIGN_ONLY
    sources = [lower_source(operand.fmt, flush) for operand in operands]
    sources += sources[:1] * (3 - len(sources))
    flat = [np.broadcast_to(operand.codes, shape) for operand in operands]
    size = int(np.prod(shape, dtype=np.int64))
    codes, raised = np.zeros(size, np.uint64), np.zeros(size, np.uint8)
    drawn = integers.reshape(-1) if not rule.via else integers.reshape(-1)[:0]
    for start in range(0, size, _PART):
        part = slice(start, min(start + _PART, size))
        x, *others = (_wide(array, part, size) for array in flat)
        y, z = (*others, *[x] * (2 - len(others)))
        refused, at = general.operate(
            general.KNOWN[operation], len(operands), x, sources[0], y, sources[1], z, sources[2], codes[part], words,
            first.rounding.downward, rule.nan_payload == "signaling_first", drawn[part], raised[part],
        )  # fmt: skip
        if refused:
            _refuse(operation, operands, shape, start + at, target, first)
    if rule.via:
        brought = _brought(operation, flat, operands, raised, rule)
        return _onward(codes, raised, target, fmt, rule, integers, brought)
    return codes, raised


def _brought(
    operation: str, flat: list[Array], operands: list[Operand], raised: Array, rule: Projection
) -> Array | None:
    """Say which results are a NaN operand, whose payload may be kept; None where payloads are dropped.

    With `signaling_first` an invalid product makes a NaN of its own, whatever quiet one is added to it.
    """
    if rule.nan_payload == "drop":
        return None
    pairs = list(zip(flat, (operand.fmt for operand in operands), strict=True))
    if operation in SIGN_ONLY:
        pairs = pairs[:1]
    join = np.logical_and if operation.endswith("_number") else np.logical_or
    nan = join.reduce([nans(codes, fmt) for codes, fmt in pairs]).reshape(-1)
    if rule.nan_payload == "signaling_first":
        signaling = np.logical_or.reduce([signaling_nans(codes, fmt) for codes, fmt in pairs]).reshape(-1)
        nan &= signaling | (raised & Flag.INVALID == 0)
    return np.asarray(nan)


def _operands_only(rule: Projection) -> Any:
    return "flush_operands" if rule.subnormals in ("flush_operands", "flush_both") else "keep"


def _onward(
    codes: Array,
    raised: Array,
    source: Format,
    fmt: Format,
    rule: Projection,
    integers: Array,
    brought: Array | None,
) -> tuple[Array, Array]:
    """From the first format that results pass through on to the others, and to the last."""
    results: Any = "flush_results" if rule.subnormals in ("flush_results", "flush_both") else "keep"
    rest = dataclasses.replace(rule, via=rule.via[1:], subnormals=results)
    made, later = codes.astype(code_dtype(source)), np.zeros(codes.size, np.uint8)
    final = calls.generally(
        Operand(made, source, made, True), fmt, rest, code_dtype(fmt), integers.reshape(-1), None, later, None, brought
    )
    divided, invalid = raised & Flag.DIVIDE_BY_ZERO, (raised | later) & Flag.INVALID
    return final.astype(np.uint64), np.where(divided, divided, np.where(invalid, invalid, raised | later))


def _refuse(
    operation: str, operands: list[Operand], shape: tuple[int, ...], first: int, fmt: Format, rule: Projection
) -> None:
    """Say of which operands the result has no code, and what to do about it."""
    place = tuple(int(i) for i in np.unravel_index(first, shape))
    given = ", ".join(str(np.broadcast_to(operand.array, shape)[place]) for operand in operands)
    lacks = "has no NaN code" if fmt.nan_code is None else "is unsigned"
    field = "nan=..." if fmt.nan_code is None else "negative=..."
    if fmt.nan_code is None and fmt.sign is Sign.UNSIGNED and rule.negative == "error":
        lacks, field = "has no NaN code and is unsigned", "nan=..., negative=..."
    raise ValueError(
        f"{operation} of {given} at index {place} has a result that {fmt.name!r} has no code for, which {lacks}. "
        f"Replace such operands, say what becomes of it with Projection({field}), or use another format such as "
        f"'e4m3fn'"
    )


def _wide(array: Array, part: slice, size: int) -> Array:
    """A part of an array's elements as 64-bit integers, one after the other."""
    if array.size == size and array.flags.c_contiguous:
        return array.reshape(-1)[part].astype(np.uint64)
    return np.asarray(array.flat[part]).astype(np.uint64)
