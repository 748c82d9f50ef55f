"""Calls: arguments become a request, a request a program, and the program runs.

A call that differs from an earlier one in the values of its arrays alone takes the program from the memo.

Floor 3.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Hashable, Sequence
from typing import Any, NamedTuple

import numpy as np

from lowprec.arrays import traverse
from lowprec.arrays.checks import (
    Array,
    Operand,
    broadcast_shape,
    code_dtype,
    narrowed,
    refuse_operands,
    refuse_results,
    share_memory,
    values_depend,
)
from lowprec.arrays.outputs import outputs
from lowprec.arrays.random import Place, integers_for, is_plain, key_of
from lowprec.arrays.threads import SHARED_FROM
from lowprec.graphs import leave_graphs
from lowprec.kernels import engine
from lowprec.kernels.codes import unlocked
from lowprec.kernels.engine import DONE, MANY, Backend, ElementwiseProgram
from lowprec.kernels.request import CONVERT, Elementwise, known
from lowprec.spec.codebook import Codebook
from lowprec.spec.format import Format
from lowprec.spec.projection import Projection

__all__ = ["again", "again_all", "convert", "elementwise", "empty_like", "remember", "thorough"]

_FLAGS = np.dtype(np.uint8)
_NO_RANDOM, _NO_FLAGS = np.empty(0, np.uint32), np.empty(0, np.uint8)
_ndarray = np.ndarray

Bound = Callable[..., int]

#: Of ndarray.flags: one element after the other in C order, at their natural addresses; writeable; both; in
#: memory of its own, which two arrays do not share; all of it.
_PLAIN, _WRITEABLE, _OUTPUT, _OWNED, _OWN_OUTPUT = 0x101, 0x400, 0x501, 0x4, 0x505


# -- the memo ----------------------------------------------------------------------------------------


class _Known(NamedTuple):
    """A call once its arguments are understood: its program, and the types of its arrays."""

    program: ElementwiseProgram
    reads: tuple[tuple[int, np.dtype[Any]], ...]  #: the operands to view as other types
    given: np.dtype[Any]
    writes: np.dtype[Any] | None  #: the type to view results as, if another
    stochastic: bool
    bound: Bound | None  #: what runs the program if arrays go in as they are, and results come so


#: Earlier calls by all their arguments and the types of their arrays. On small arrays most of a call's time
#: is to find out what is asked.
_known: dict[Hashable, _Known] = {}


def again(
    asked: tuple[object, ...], array: Any, out: Any, flags: Any, random: object, rng: Any
) -> tuple[tuple[object, ...] | None, Any]:
    """Return the key and the result of a call on one operand, as `again_all` does for several.

    A call on a small array spends most of its time here, so the common case is checked inline. Each check is
    needed: `bound` checks no types, so a missed one corrupts memory.
    """
    if type(array) is not _ndarray or random is not None:
        leave_graphs()
        return None, None
    if flags is not None or rng is not None:
        return again_all(asked, (array,), out, flags, random, rng)
    key = asked, array.dtype
    try:
        known = _known.get(key)
    except TypeError:  # what cannot be hashed is refused by name later
        return None, None
    if known is None:
        return key, None
    size, layout, bound = array.size, array.flags.num, known.bound
    if bound is None or array.ndim != 1 or layout & _OUTPUT != _OUTPUT:
        return key, _answer(known, (array,), out, None, None)
    if size >= MANY:
        return key, _answer(known, (array,), out, None, None)
    if out is None:
        made = np.empty(size, known.given)
    else:
        made, owner = out, array if layout & _OWNED else array.base
        if (
            type(out) is not _ndarray
            or out.size != size
            or out.ndim != 1
            or out.dtype != known.given
            or out.flags.num & _OWN_OUTPUT != _OWN_OUTPUT
            or out is owner
            or not (owner is array or (type(owner) is _ndarray and owner.flags.num & _OWNED))
        ):
            return key, _answer(known, (array,), out, None, None)
    return key, made if bound(array, made) == DONE else _answer(known, (array,), out, None, None)


def again_all(
    asked: tuple[object, ...], arrays: tuple[Any, ...], out: Any, flags: Any, random: object, rng: Any
) -> tuple[tuple[object, ...] | None, Any]:
    """Return a key for calls that ask the same, and the result if such a call was answered before.

    `asked` names every argument but these. No key where calls are not to be remembered, no result
    where this one must be looked at closely: then nothing is written.
    """
    if random is not None:
        leave_graphs()
        return None, None
    for array in arrays:
        if type(array) is not _ndarray:
            leave_graphs()
            return None, None
    if flags is not None:
        asked = (asked, "flags")
    key = (asked, *[array.dtype for array in arrays])
    try:
        known = _known.get(key)
    except TypeError:
        return None, None
    if known is None:
        return key, None
    if known.bound is not None and flags is None and rng is None:
        made = _answer_as_they_are(known, known.bound, arrays, out)
        if made is not None:
            return key, made
    return key, _answer(known, arrays, out, flags, rng)


def _answer_as_they_are(known: _Known, bound: Bound, arrays: tuple[Array, ...], out: Any) -> Any:
    """Return what `_answer` does, for arrays of one axis that are not shared between threads; else None."""
    size, layout = arrays[0].size, -1
    for array in arrays:
        if array.ndim != 1 or array.size != size:
            return None
        layout &= array.flags.num
    if layout & _OUTPUT != _OUTPUT:
        return None
    if size >= MANY:
        return None
    if out is None:
        out = np.empty(size, known.given)
    elif not _takes(out, known.given, arrays[0].shape, arrays, layout & _OWNED):
        return None
    return out if bound(*arrays, out) == DONE else None


def _answer(known: _Known, arrays: tuple[Array, ...], out: Any, flags: Any, rng: Any) -> Any:
    """Run a known program on arrays that lie in memory as it reads and writes them; else return None.

    Of calls on small arrays this takes most of the time: nothing is asked twice, or where it cannot matter.
    """
    program, reads, given, writes, stochastic, _ = known
    shape = arrays[0].shape
    if not shape:
        return None
    if (stochastic or rng is not None) and not (stochastic and type(rng) is int and 0 <= rng < 1 << 64):
        return None
    if program.refuses and (out is not None or flags is not None):
        return None
    layout = -1
    for array in arrays:
        if array.shape != shape:
            return None
        layout &= array.flags.num
    if layout & _PLAIN != _PLAIN:
        return None
    operands = list(arrays)
    for place, kind in reads:
        operands[place] = operands[place].view(kind)
    if not layout & _WRITEABLE:
        operands = [unlocked(array) for array in operands]
    owned = layout & _OWNED
    if flags is None:
        raised = _NO_FLAGS
    elif _takes(flags, _FLAGS, shape, arrays, owned):
        raised, arrays = flags, (*arrays, flags)
        owned &= flags.flags.num
    else:
        return None
    if out is None:
        out = np.empty(shape, given)
    elif not _takes(out, given, shape, arrays, owned):
        return None
    results = out if writes is None else out.view(writes)
    if len(shape) > 1:
        operands, results = [array.reshape(-1) for array in operands], results.reshape(-1)
        raised = raised.reshape(-1)
    if results.size >= SHARED_FROM:
        status = traverse.flat(program, operands, results, None if flags is None else raised, None, rng)
    elif rng is not None:
        status = program.draw(operands, results, rng, 0)
    else:
        status = program.run(operands, results, raised, _NO_RANDOM)
    return out if status == DONE else None


def _takes(
    given: Any, kind: np.dtype[Any], shape: tuple[int, ...], arrays: tuple[Array, ...], owned: int
) -> bool:
    """Return whether results may be written straight to `given`; `owned` if all arrays own their memory."""
    if type(given) is not _ndarray or given.shape != shape or given.dtype != kind:
        return False
    layout = given.flags.num
    if layout & _OUTPUT != _OUTPUT:
        return False
    owned &= layout  # two arrays that own their memory do not share it
    for array in arrays:
        if given is array or not (owned or not np.may_share_memory(given, array)):
            return False
    return True


def remember(
    key: tuple[object, ...] | None,
    program: ElementwiseProgram,
    codes: Sequence[Array],
    results: Array,
    stochastic: bool = False,
) -> None:
    """Keep what a call with a key of `again` came down to: its program, operands and results."""
    if key is None:
        return
    given, writes = results.dtype, traverse.bits_of(results).dtype
    as_they_are = {np.dtype(np.float32), np.dtype(np.float64)} if program.floats else set()
    reads = tuple(
        (i, array.dtype)
        for i, array in enumerate(codes)
        if array.dtype != key[1 + i] and key[1 + i] not in as_they_are
    )
    written = None if writes == given or given in as_they_are else writes
    known = _Known(program, reads, given, written, stochastic, None)
    bind = program.bound
    if bind and not reads and written is None and not stochastic and not program.refuses:

        def first(*arrays: Array) -> int:
            """Bind at a first call that may use it: of many results it would compile a kernel of few."""
            bound = bind([np.empty(0, kind) for kind in key[1:]], np.empty(0, given))  # type: ignore[call-overload]
            _known[key] = known._replace(bound=bound)
            return bound(*arrays)

        known = known._replace(bound=first)
    if len(_known) >= 1024:
        _known.clear()
    _known[key] = known


# -- answers -----------------------------------------------------------------------------------------


def convert(
    operand: Operand, fmt: Format, rule: Projection, given: np.dtype[Any], carrier: Format | None = None,
    **options: Any,
) -> Any:  # fmt: skip
    """Convert to a format, then to a type that carries its values if named; options: see `elementwise`."""
    what = f"values of {fmt.name!r}" if carrier else repr(fmt.name)
    return elementwise(CONVERT, [operand], fmt, rule, given, carrier, what=what, **options)


def thorough(backend: Backend | None) -> Backend | None:
    """Return the engine for conversions on the way of another request: the oracle's are the oracle's too."""
    return backend if backend == "oracle" else None


def elementwise(
    operation: str,
    operands: Sequence[Operand],
    fmt: Format,
    rule: Projection,
    given: np.dtype[Any],
    carrier: Format | None,
    *,
    what: str,
    random: object = None,
    rng: object = None,
    flags: object = None,
    out: object = None,
    backend: Backend | None = None,
    key: tuple[object, ...] | None = None,
) -> Any:
    """Return an operation's results: codes of a format, or values in a type that carries them.

    `what` are the results, for messages; `key`, of `again`, remembers the call for arrays of the same types.
    """
    shape = broadcast_shape(operation, *(operand.array for operand in operands))
    place, signals = outputs(out, flags, given, shape, what)
    if not all(_is_known(operand, operation) for operand in operands):
        key = None
    program, arrays = _program(operation, operands, fmt, rule, carrier, signals is not None, backend)
    integers, seed = _random(program, rule, fmt, shape, random, rng)

    results = _room(program, place, arrays, shape, given)
    raised = signals
    if signals is not None and (program.refuses or share_memory(signals, arrays)):
        raised = np.empty(shape, np.uint8)
    status = traverse.run(program, arrays, traverse.bits_of(results), raised, integers, seed)
    if status != DONE:
        _refuse(operation, operands, fmt, rule, carrier, shape, integers, seed)
    if raised is not signals and signals is not None:
        signals[...] = raised
    if integers is None:
        remember(key, program, arrays, results, seed is not None)
    if place is None:
        return results if shape else results[()]
    if place is not results:
        place[...] = results
    return out


def _is_known(operand: Operand, operation: str) -> bool:
    """Return whether all arrays of this operand's type are read alike; an empty array cannot tell."""
    return bool(
        operand.whole and operand.array.size and operand.codes.dtype.isnative and not values_depend(operand)
    )


def _program(
    operation: str,
    operands: Sequence[Operand],
    fmt: Format,
    rule: Projection,
    carrier: Format | None,
    flags: bool,
    backend: Backend | None,
) -> tuple[ElementwiseProgram, list[Array]]:
    """Return the program and the operands' codes; in binary32 where that holds all, and vectors take it."""
    sources = tuple(operand.fmt for operand in operands)
    request = known(Elementwise, operation, sources, fmt, rule, carrier, flags, backend=backend)
    converted = operation == CONVERT
    if backend in (None, "vector") and any(values_depend(operand) for operand in operands):
        narrow = [narrowed(each, converted) if values_depend(each) else each for each in operands]
        other = dataclasses.replace(request, sources=tuple(operand.fmt for operand in narrow))
        last = None if isinstance(fmt, Codebook) else "vector"  # codebooks are looked up by floats
        program: ElementwiseProgram | None = engine.lower(other, last=last)
        if program is not None:
            return program, [operand.codes for operand in narrow]
    return engine.lower(request), [operand.codes for operand in operands]


def _random(
    program: ElementwiseProgram,
    rule: Projection,
    fmt: Format,
    shape: tuple[int, ...],
    random: object,
    rng: object,
) -> tuple[Array | None, int | None]:
    """Return the random integers of each element, or the key that the program draws them from, or neither."""
    if (
        program.draws
        and random is None
        and rng is not None
        and not isinstance(rng, Place)
        and is_plain(rule.rounding)
        and rule.rounding.bits
    ):
        return None, key_of(rng)
    integers = integers_for(rule.rounding, fmt, shape, random, rng)
    return (integers.reshape(shape) if rule.rounding.bits else None), None


def _room(
    program: ElementwiseProgram,
    place: Array | None,
    arrays: list[Array],
    shape: tuple[int, ...],
    given: np.dtype[Any],
) -> Array:
    """Return the array to write to: `out` itself, but where a refusal would leave it half written.

    Nor where it overlaps an operand that is still to be read.
    """
    if place is not None and not program.refuses:
        in_place = program.in_place and _same_places(place, arrays[0])
        if in_place or not share_memory(place, arrays):
            return place
    return empty_like(arrays, shape, given)


def empty_like(arrays: list[Array], shape: tuple[int, ...], given: np.dtype[Any]) -> Array:
    """Return an array to write to: in Fortran order, if all arrays of its shape are, and not in C order."""
    fortran = len(shape) > 1 and all(array.flags.f_contiguous for array in arrays if array.shape == shape)
    fortran = fortran and any(array.shape == shape and not array.flags.c_contiguous for array in arrays)
    return np.empty(shape, given, order="F" if fortran else "C")


def _same_places(out: Array, codes: Array) -> bool:
    """Return whether the elements of two arrays have the same addresses."""
    return (
        out.itemsize == codes.itemsize
        and out.strides == codes.strides
        and out.__array_interface__["data"][0] == codes.__array_interface__["data"][0]
    )


def _refuse(
    operation: str,
    operands: Sequence[Operand],
    fmt: Format,
    rule: Projection,
    carrier: Format | None,
    shape: tuple[int, ...],
    integers: Array | None,
    seed: int | None,
) -> None:
    """Say which operands are refused, as the scalar engine finds them in the order of elements."""
    sources = tuple(operand.fmt for operand in operands)
    program = engine.lower(Elementwise(operation, sources, fmt, rule, carrier, backend="scalar"))
    if seed is not None:
        integers = integers_for(rule.rounding, fmt, shape, None, seed)
    flat = [
        np.ascontiguousarray(
            np.broadcast_to(operand.codes, shape), operand.codes.dtype.newbyteorder("=")
        ).reshape(-1)
        for operand in operands
    ]
    results = np.empty(flat[0].size, code_dtype(carrier or fmt))
    random = _NO_RANDOM if integers is None else integers.reshape(-1)
    refusal = program.attempt([unlocked(array) for array in flat], results, _NO_FLAGS, random)
    assert refusal is not None, "another engine refused what the scalar one does not"
    if operation == CONVERT:
        refuse_operands(operands[0], refusal.fmt, refusal.projection, refusal.refused, refusal.first)
    refuse_results(operation, operands, shape, refusal.first, refusal.fmt, refusal.projection)
