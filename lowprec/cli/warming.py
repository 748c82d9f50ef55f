"""Compile kernels before they are needed, by making the calls that need them on a few numbers."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any, NamedTuple, TypeAlias

import ml_dtypes
import numpy as np

from lowprec.arrays import arith, convert
from lowprec.arrays.dots import dot
from lowprec.kernels.compiling import at_once
from lowprec.kernels.engine import MANY
from lowprec.spec.accumulation import Accumulation
from lowprec.spec.arith import OPERANDS
from lowprec.spec.block import BlockFormat
from lowprec.spec.format import Format
from lowprec.spec.rounding import rounding as rounding_of

#: What kernels are compiled for.
Specification: TypeAlias = Format | BlockFormat | Accumulation

_CONVERSIONS, _SUMS = ("encode", "decode", "quantize", "cast"), ("dot", "matmul")

#: Verbs that can be named.
VERBS = (*_CONVERSIONS, *OPERANDS, *_SUMS)

#: Verbs of a specification of each kind where none is named.
_USUAL = {Format: _CONVERSIONS[:3], BlockFormat: _CONVERSIONS[:3], Accumulation: _SUMS}
_POSSIBLE = {Format: (*_CONVERSIONS, *OPERANDS), BlockFormat: _CONVERSIONS[:3], Accumulation: _SUMS}


class Call(NamedTuple):
    """A call whose kernels are to be compiled."""

    words: str  #: what it is, for people
    run: Callable[[], object]


def calls(
    specifications: Sequence[Specification],
    verbs: Iterable[str] = (),
    *,
    types: Iterable[str] = ("float32",),
    roundings: Iterable[str] = ("nearest_even",),
    flags: bool = False,
) -> list[Call]:
    """Return the calls of verbs on specifications, with each type of values and each rounding mode.

    Parameters
    ----------
    specifications : sequence of Format, BlockFormat or Accumulation
    verbs : iterable of str
        Of `VERBS`; by default `encode`, `decode` and `quantize` of formats, and `dot` and `matmul` of
        accumulations. A verb concerns the specifications that have it; `cast` goes from each format to each
        other one.
    types : iterable of str
        Of the values that come in, such as "float32" or "bfloat16".
    roundings : iterable of str
        Of conversions and operations.
    flags : bool
        Whether flags are asked for.

    Raises
    ------
    ValueError
        An unknown verb, type or mode, or a specification that has none of the verbs.
    """
    chosen, modes, dtypes = tuple(verbs), list(roundings), [_dtype(name) for name in types]
    for verb in chosen:
        if verb not in VERBS:
            raise ValueError(f"unknown verb {verb!r}; use one of {', '.join(VERBS)}")
    for mode in modes:
        rounding_of(mode)
    formats = [each for each in specifications if isinstance(each, Format)]
    found: list[Call] = []
    for specification in specifications:
        kind = next(kind for kind in _USUAL if isinstance(specification, kind))
        wanted = [verb for verb in chosen or _USUAL[kind] if verb in _POSSIBLE[kind]]
        if not wanted:
            raise ValueError(f"{specification.name!r} has none of the verbs {', '.join(chosen)}")
        for verb in wanted:
            found += _of_verb(verb, specification, formats, dtypes, modes, flags)
    if not found:
        raise ValueError("cast goes from each format to each other one: name two")
    return found


def _of_verb(
    verb: str, of: Specification, formats: list[Format], dtypes: list[Any], modes: list[str], flags: bool
) -> Iterator[Call]:
    """Yield the calls of one verb on one specification."""
    home = next(module for module in (convert, arith, dot) if hasattr(module, verb))
    function = getattr(home, verb)
    if isinstance(of, Accumulation):
        keys = {"rng": 0} if of.rounds_randomly else {}
        yield Call(f"{verb} {of.name}", lambda: function(*_factors(of, verb), of, **keys))
        return
    if verb == "decode":
        name = f"decode {of.name}"
        if isinstance(of, Format):
            yield _call(name, convert.decode, (np.zeros(64, f"uint{of.code_bits}"), of), {}, False)
        else:
            shape, axes = _shape(of)
            yield _call(name, _decode, (np.ones(shape, np.float32), of), {"axis": axes}, False)
        return
    for mode in modes:
        keywords: dict[str, Any] = {"rounding": mode, "rng": 0 if rounding_of(mode).bits else None}
        told = "" if mode == "nearest_even" else f", {mode}"
        if verb == "cast":
            assert isinstance(of, Format)
            codes = np.zeros(64, f"uint{of.code_bits}")
            for to in formats:
                if to != of:
                    words = f"cast {of.name} to {to.name}{told}"
                    yield _call(words, convert.cast, (codes, of, to), keywords, flags)
            continue
        for dtype in dtypes:
            name = f"{verb} {dtype.name} to {of.name}{told}"
            if isinstance(of, BlockFormat):
                shape, axes = _shape(of)
                yield _call(name, function, (np.ones(shape, dtype), of), {**keywords, "axis": axes}, False)
            else:
                operands = [np.ones(64, dtype)] * OPERANDS.get(verb, 1)
                if verb == "scaleb":  # by integers
                    operands[1] = np.ones(64, np.int32)
                yield _call(name, function, (*operands, of), keywords, flags)


def _call(
    words: str, verb: Callable[..., object], arguments: tuple[Any, ...], keywords: dict[str, Any], flags: bool
) -> Call:
    """Return a call on few elements and on many, which may have kernels of their own."""

    @at_once()
    def both() -> None:
        few = [each for each in arguments if isinstance(each, np.ndarray)]
        for times in (1, -(-MANY // few[0].size)):
            many = [np.concatenate([each] * times) for each in few]
            asked = {"flags": np.zeros(many[0].shape, np.uint8)} if flags else {}
            verb(*many, *arguments[len(few) :], **keywords, **asked)

    return Call(words + ", with flags" * flags, both)


def _decode(values: Any, fmt: BlockFormat, axis: int | tuple[int, int]) -> object:
    return convert.decode(convert.encode(values, fmt, axis=axis))


def _shape(of: BlockFormat) -> tuple[tuple[int, ...], int | tuple[int, int]]:
    """Return the shape of one block, and the axes along which it lies."""
    return ((1, of.size), 1) if isinstance(of.size, int) else (of.size, (0, 1))


def _factors(how: Accumulation, verb: str) -> list[Any]:
    """Return the operands of a product: ones, or what is next to them; in blocks where these are taken."""
    shapes = ((1, 64), (1, 64) if verb == "dot" else (64, 1))
    sides: list[Any] = [np.ones(shape, np.float32) for shape in shapes]
    if how.operands is None:
        return sides
    if how.scale is None:
        pairs = zip(sides, how.operands, strict=True)
        return [convert.quantize(side, element, saturation="finite") for side, element in pairs]
    scale, size = how.scale
    for place, element in enumerate(how.operands):
        fmt = BlockFormat(name="factor", element=element, scale=scale, size=size)
        sides[place] = convert.encode(sides[place], fmt, axis=shapes[place].index(64))
    return sides


def _dtype(name: str) -> np.dtype[Any]:
    try:
        return np.dtype(getattr(ml_dtypes, name, name))
    except TypeError:
        raise ValueError(f"unknown type {name!r}; use NumPy's or ml_dtypes', such as 'float32'") from None
