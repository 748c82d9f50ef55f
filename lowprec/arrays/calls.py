"""How the verbs are answered: by what answered such a call before, by `stream`, or by the general kernel.

Floor 3.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Hashable
from typing import Any, NamedTuple

import numpy as np

from lowprec.arrays import stream
from lowprec.arrays.checks import UNSIGNED, Array, Operand, code_dtype, nans, output, refuse_operands, unlocked
from lowprec.arrays.random import integers_for, is_plain
from lowprec.arrays.threads import SHARED_FROM
from lowprec.kernels.lower.scalar import lower_source, lower_target, may_refuse
from lowprec.kernels.scalar import convert as general
from lowprec.kernels.vector.convert import DONE, magnitude_above
from lowprec.spec.format import Format
from lowprec.spec.projection import DEFAULT, Projection

__all__ = ["again", "convert", "generally"]

_no_random = np.empty(0, np.uint32)
_first = np.uint64(0)
_FLAGS = np.dtype(np.uint8)


class _Job(NamedTuple):
    """What a call comes down to once its arguments are understood."""

    kernel: Callable[..., int]
    plan: Array
    read: np.dtype[Any] | None  #: the type to view operands as, if another
    given: np.dtype[Any]
    write: np.dtype[Any] | None  #: the type to view results as, if another
    stochastic: bool
    nan_above: tuple[np.uint32, np.uint32] | None  #: what tells operands that may be refused, see `magnitude_above`


#: Calls of the past. On small arrays most of a call's time is to find out what is asked.
_jobs: dict[Hashable, _Job] = {}

#: Of ndarray.flags: one element after the other in C order, at their natural addresses; and writeable.
_PLAIN, _OUTPUT = 0x101, 0x501

#: What kernels read as it is; of all other types they get the bits.
_KNOWN = (np.dtype(np.float32), np.dtype(np.float64))


def again(
    asked: tuple[object, ...], array: Any, out: Any, flags: object, random: object = None, rng: Any = None
) -> tuple[tuple[object, ...] | None, Any]:
    """Return a key for calls that ask the same, and the result if such a call was answered before.

    `asked` names every argument but these. No key where calls are not to be remembered, no result
    where this one must be looked at closely: then nothing is written.
    """
    if type(array) is not np.ndarray or flags is not None or random is not None:
        return None, None
    key = (array.dtype, *asked)
    try:
        job = _jobs.get(key)
    except TypeError:  # what cannot be hashed is refused by name later
        return None, None
    return key, None if job is None else _answer(job, array, out, rng)


def _answer(job: _Job, array: Array, out: Any, rng: Any) -> Any:
    if array.flags.num & _PLAIN != _PLAIN or not array.ndim or array.size >= SHARED_FROM:
        return None
    if job.stochastic != (rng is not None) or (job.stochastic and not (type(rng) is int and 0 <= rng < 1 << 64)):
        return None
    given = out is not None
    if out is None:
        out = np.empty(array.shape, job.given)
    elif (
        type(out) is not np.ndarray
        or out.dtype != job.given
        or out.shape != array.shape
        or out.flags.num & _OUTPUT != _OUTPUT
        or np.may_share_memory(out, array)
    ):
        return None
    result = out if job.write is None else out.view(job.write)
    if job.read is not None:
        array = array.view(job.read)
    array = unlocked(array)
    if array.ndim > 1:
        array, result = array.reshape(-1), result.reshape(-1)
    if given and job.nan_above is not None and magnitude_above(array, *job.nan_above):
        return None
    if job.stochastic:
        status = job.kernel(array, result, job.plan, np.uint64(rng), _first)
    else:
        status = job.kernel(array, result, job.plan, _no_random)
    return out if status == DONE else None


def convert(
    operand: Operand,
    fmt: Format,
    rule: Projection,
    given: np.dtype[Any],
    random: object,
    rng: object,
    flags: object,
    out: object,
    carrier: Format | None = None,
    key: tuple[object, ...] | None = None,
) -> Any:
    """Convert to a format, and back to a type that carries its values if one is named.

    `key`, of `again`, remembers the call for arrays of the same type.
    """
    shape = operand.array.shape
    place = output(out, given, shape, f"values of {fmt.name!r}" if carrier else repr(fmt.name))
    signals = output(flags, _FLAGS, shape, "what is signaled", name="flags")
    if place is not None and signals is not None and np.may_share_memory(place, signals):
        raise ValueError("out and flags share memory; give each an array of its own")
    way = stream.conversion(operand.fmt, fmt, rule, carrier) if signals is None else None
    if way is None:
        return generally(
            operand, fmt, rule, given, integers_for(rule.rounding, fmt, shape, random, rng), place, signals, carrier
        )

    integers = None
    if random is not None or rng is None or not is_plain(rule.rounding):
        drawn = integers_for(rule.rounding, fmt, shape, random, rng)
        integers, rng = (drawn if rule.rounding.bits else None), None
    array = operand.array if operand.array.dtype.newbyteorder("=") in _KNOWN else operand.codes
    if place is None:
        whole = np.empty(shape, given, order="F" if array.flags.f_contiguous and array.ndim > 1 else "C")
    else:
        whole = place
        if np.may_share_memory(place, array) and not _same_places(place, array):
            array = array.copy()
        if way.refuses and stream.has_nan(operand.fmt, array):  # before anything is written
            _refuse_nan(operand, fmt, rule)
    result = stream.known_to_kernels(whole)
    if stream.run(way, array, result, integers, rng):
        _refuse_nan(operand, fmt, rule)
    nan_above = stream.nan_above(operand.fmt, array) if way.refuses else None
    if (
        key is not None
        and operand.whole
        and array.dtype.isnative
        and integers is None
        and not (way.refuses and operand.fmt.has_nan and nan_above is None)
    ):
        if len(_jobs) >= 1024:
            _jobs.clear()
        read = None if array.dtype == key[0] else array.dtype  # of the type that was given
        write = None if result is whole else result.dtype
        stochastic = rule.rounding.bits > 0
        kernel = stream.chosen(way.plan, stochastic)
        _jobs[key] = _Job(kernel, way.plan, read, given, write, stochastic, nan_above)
    return whole[()] if place is None and not shape else whole


def generally(
    operand: Operand,
    fmt: Format,
    rule: Projection,
    given: np.dtype[Any],
    integers: Array,
    place: Array | None,
    signals: Array | None,
    carrier: Format | None,
    brought: Array | None = None,
) -> Any:
    """Convert by the kernel that knows every format, projection and flag.

    `brought` says which NaNs, on their way through `rule.via`, are those of operands, whose payloads are
    kept where that is asked; by default those that are NaNs now.
    """
    words, shape = lower_target(fmt, rule), operand.array.shape
    codes = np.ascontiguousarray(operand.codes, operand.codes.dtype.newbyteorder("=")).reshape(-1)
    flat, whole = _room(operand, given, place, may_refuse(words))
    raised = np.zeros(0 if signals is None else codes.size, np.uint8)
    source = lower_source(operand.fmt, rule.subnormals in ("flush_operands", "flush_both"))

    at, onward = operand.fmt, Projection(nan_payload=rule.nan_payload)
    earlier = np.zeros_like(raised)
    keeps_payloads = rule.nan_payload != "drop"
    if brought is None and keeps_payloads and rule.via:
        brought = nans(codes, at)
    for stop in rule.via:
        shorter = keeps_payloads and (stop.payload_bits or 0) < (at.payload_bits or 0)
        if shorter or not stop.contains(at) or (at.has_signed_nan and not stop.has_signed_nan):
            passed = np.empty(codes.size, code_dtype(stop))
            count, first = general.convert(codes, source, passed, lower_target(stop, onward), _no_random, raised)
            if count:
                refuse_operands(operand, stop, DEFAULT, count, first)
            codes, source, at = passed, lower_source(stop), stop
            earlier |= raised

    def project(codes: Array, out: Array, words: Array, integers: Array, raised: Array) -> tuple[int, int]:
        if carrier is None:
            return general.convert(codes, source, out, words, integers, raised)
        last = lower_target(carrier, onward)
        return general.convert_twice(codes, source, words, lower_source(fmt), out, last, integers, raised)

    count, first = project(codes, _bits(flat), words, integers, raised)
    if count:
        refuse_operands(operand, fmt, rule, count, first)
    if brought is not None:
        (made,) = np.nonzero(nans(codes, at) & ~brought)
        if made.size:  # NaNs without a payload to keep, which `nan_code` is for
            fresh, plain = np.empty(made.size, flat.dtype), dataclasses.replace(rule, nan_payload="drop")
            project(codes[made], _bits(fresh), lower_target(fmt, plain), integers[:0], raised[:0])
            flat[made] = fresh
    if signals is not None:
        signals[...] = (raised | earlier).reshape(shape)
    return _deliver(whole, place)


def _room(operand: Operand, given: np.dtype[Any], place: Array | None, careful: bool) -> tuple[Array, Array]:
    """Where the kernel writes, flat and in shape: `out` itself if that is safe, else a new array.

    Not where a refusal would leave it half written, nor where it overlaps what is still to be read.
    """
    direct = place is not None and place.flags.c_contiguous and not careful
    if place is not None and direct and not np.may_share_memory(place, operand.array):
        return place.reshape(-1), place
    whole = np.empty(operand.array.shape, given)
    return whole.reshape(-1), whole


def _same_places(out: Array, codes: Array) -> bool:
    """Whether each element of one lies exactly where that of the other does."""
    return (
        out.itemsize == codes.itemsize
        and out.strides == codes.strides
        and out.__array_interface__["data"][0] == codes.__array_interface__["data"][0]
    )


def _refuse_nan(operand: Operand, fmt: Format, rule: Projection) -> None:
    """Say which operands are NaN, if any is."""
    nan = nans(operand.codes, operand.fmt)
    if nan.any():
        refuse_operands(operand, fmt, rule, int(nan.sum()), int(np.argmax(nan)))


def _bits(array: Array) -> Array:
    return array.view(UNSIGNED[array.dtype.itemsize])


def _deliver(whole: Array, place: Array | None) -> Any:
    if place is None:
        return whole[()] if whole.ndim == 0 else whole
    if place is not whole:
        place[...] = whole
    return place
