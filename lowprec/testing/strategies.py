"""Hypothesis strategies: formats, codes, values, projections, blocks and accumulations that are valid.

They say what is valid; what is drawn shrinks toward the simple, and ties and borders come often.

Importing them lifts Hypothesis's own deadline of 200 ms for one example, which a first call that compiles
exceeds.
"""

from __future__ import annotations

from datetime import timedelta
from fractions import Fraction
from math import isfinite
from typing import TYPE_CHECKING, Any, get_args

import numpy as np

from lowprec.oracle.convert import decode
from lowprec.oracle.exact import to_float
from lowprec.spec import catalog
from lowprec.spec.accumulation import Accumulation, Cut, Window
from lowprec.spec.block import RULES, BlockFormat
from lowprec.spec.codebook import Codebook
from lowprec.spec.format import Format, Sign
from lowprec.spec.projection import OverflowTest, Projection, Saturation, SignPolicy, Tininess
from lowprec.spec.rounding import MODES, stochastic
from lowprec.testing.grid import grid_of
from lowprec.verify.codes.codebooks import marks as book_marks
from lowprec.verify.inputs.operands import special_codes

try:
    from hypothesis import settings, strategies as st
    from hypothesis.extra import numpy as hnp
except ImportError as error:
    raise ImportError('strategies need hypothesis: pip install "lowprec[test]"') from error

if TYPE_CHECKING:
    from lowprec.arrays.blocks.block import BlockArray

Strategy = st.SearchStrategy


def _lift_deadline() -> None:
    """Lift the deadline from Hypothesis's settings in force, unless a user chose one.

    The first call of a verb compiles a kernel or reads it from the cache: the first example would take too
    long, fail and then not fail again.
    """
    current = settings.default
    if current is not None and current.deadline == timedelta(milliseconds=200):
        settings.register_profile("lowprec", current, deadline=None)
        settings.load_profile("lowprec")


_lift_deadline()


def formats(
    *, min_width: int = 2, max_width: int = 12, signs: tuple[Sign, ...] = tuple(Sign)
) -> Strategy[Format]:
    """Return formats: of the catalog, and of any parameters that make one.

    >>> from hypothesis import given
    >>> @given(formats(max_width=8))
    ... def test(fmt):
    ...     assert fmt.width <= 8
    >>> test()

    Parameters
    ----------
    min_width, max_width : int
        Bits of a code, 2 to 32.
    signs : tuple of Sign
        How negative numbers may be written.
    """
    if not 2 <= min_width <= max_width <= 32:
        raise ValueError(f"min_width={min_width} and max_width={max_width} must be in order, from 2 to 32")
    if isinstance(signs, str) or not signs:
        raise ValueError(
            f"signs={signs!r} must be one or more of {', '.join(sign.value for sign in Sign)} in a tuple"
        )
    signs = tuple(Sign(sign) for sign in signs)
    known = [
        fmt
        for fmt in sorted(dict.fromkeys(catalog.FORMATS.values()), key=lambda fmt: fmt.width)
        if min_width <= fmt.width <= max_width and fmt.sign in signs
    ]
    drawn = _formats(min_width, max_width, signs)
    return st.one_of(st.sampled_from(known), drawn) if known else drawn


@st.composite
def _formats(draw: Any, min_width: int, max_width: int, signs: tuple[Sign, ...]) -> Format:
    sign = draw(st.sampled_from(signs))
    whole = sign is Sign.TWOS_COMPLEMENT
    bits = draw(st.integers(min_width, max_width)) - (sign is not Sign.UNSIGNED)
    exponent_bits = 0 if whole else draw(st.integers(0, min(bits, 11)))
    trailing_bits = bits - exponent_bits
    subnormals = exponent_bits == 0 or draw(st.integers(0, 7)) > 0
    negative_zero = sign is not Sign.MAGNITUDE or not subnormals or draw(st.booleans())
    infinity = not whole and bits > 1 and draw(st.booleans())
    spare = 0 if whole else 2**bits - infinity - 1 - subnormals  # one number other than 0 is left
    nans = min(
        draw(st.one_of(st.integers(0, 1), st.just(2**trailing_bits - 1), st.integers(0, 2**bits))), spare
    )
    # Every value is a multiple of 2**-1074 below 2**1024.
    least, most = max(2**exponent_bits - 1, 1) - 1022, 1074 - trailing_bits + subnormals
    usual = (1 << exponent_bits >> 1) - 1 if exponent_bits else 1 - trailing_bits
    bias = draw(st.one_of(st.just(usual), st.integers(-8, 8), st.integers(least, most)))
    return Format(
        name="drawn",
        exponent_bits=exponent_bits,
        trailing_bits=trailing_bits,
        bias=min(max(bias, least), most),
        sign=sign,
        nans=nans,
        infinity=infinity,
        negative_zero=negative_zero,
        subnormals=subnormals,
    )


def codes(fmt: Format | str, *, finite: bool = False) -> Strategy[int]:
    """Return codes of a format, as integers: simple ones are small; zeros, ends and specials come often.

    >>> from hypothesis import given
    >>> @given(codes("e2m1fn", finite=True))
    ... def test(code):
    ...     assert 0 <= code < 16
    >>> test()

    Parameters
    ----------
    fmt : Format or str
    finite : bool
        Only codes of finite numbers.
    """
    known = catalog.format(fmt)
    top = (1 << known.width) - 1
    if isinstance(known, Codebook):
        every = st.one_of(st.integers(0, top), st.sampled_from(special_codes(known).tolist()))
        return every.filter(lambda code: isfinite(known.values[code])) if finite else every
    marks = {*_borders(known), known.max_magnitude + 1, known.nan_code or 0, top}
    marks |= {mark | known.sign_code for mark in marks}
    drawn = st.one_of(st.integers(0, top), st.sampled_from(sorted(mark for mark in marks if mark <= top)))
    return drawn.filter(lambda code: isfinite(_value(code, known))) if finite else drawn


def _borders(fmt: Format) -> list[int]:
    """Return magnitudes at the ends of the subnormals, of the normals, and of all."""
    normal, last = 1 << fmt.trailing_bits, fmt.max_magnitude
    return sorted(
        {magnitude for magnitude in (0, 1, normal - 1, normal, last - 1, last) if 0 <= magnitude <= last}
    )


def _value(code: int, fmt: Format) -> float:
    return to_float(decode(code, fmt))


def values(fmt: Format | str, *, finite: bool = True) -> Strategy[float]:
    """Return values of a format, as Python floats.

    >>> from hypothesis import given
    >>> @given(values("e2m1fn"))
    ... def test(value):
    ...     assert abs(value) in (0, 0.5, 1, 1.5, 2, 3, 4, 6)
    >>> test()

    Parameters
    ----------
    fmt : Format or str
    finite : bool
        Only finite numbers; else also its infinities and NaNs.
    """
    known = catalog.format(fmt)
    return codes(known, finite=finite).map(lambda code: _value(code, known))


def near_ties(fmt: Format | str) -> Strategy[float]:
    """Return numbers where rounding can go wrong: a format's values and ties, and the float64 beside them.

    The tie past the largest value, the overflow threshold, is one of them.

    >>> from hypothesis import given
    >>> @given(near_ties("e4m3fn"))
    ... def test(value):
    ...     assert abs(value) < 480
    >>> test()

    Parameters
    ----------
    fmt : Format or str
    """
    known = catalog.format(fmt)
    return _near_marks(known) if isinstance(known, Codebook) else _near_ties(known)


@st.composite
def _near_marks(draw: Any, known: Codebook) -> float:
    points = book_marks(known).tolist()
    number, step = draw(st.sampled_from(points)), draw(st.sampled_from((0, 1, -1)))
    sign: float = draw(st.sampled_from((1.0,) if known.sign is Sign.UNSIGNED else (1.0, -1.0)))
    return sign * _beside(number, step)


@st.composite
def _near_ties(draw: Any, known: Format) -> float:
    grid = grid_of(known)

    def point(magnitude: int, half: bool) -> float:
        """Return a value, or the middle of it and the next if that is a float64 below 2**1023."""
        low, middle = grid.value(magnitude), (grid.value(magnitude) + grid.value(magnitude + 1)) / 2
        return float(middle if half and middle < 2**1023 and Fraction(float(middle)) == middle else low)

    magnitude = draw(st.one_of(st.integers(0, known.max_magnitude), st.sampled_from(_borders(known))))
    half, step = draw(st.sampled_from((True, False))), draw(st.sampled_from((0, 1, -1)))
    sign: float = draw(st.sampled_from((1.0,) if known.sign is Sign.UNSIGNED else (1.0, -1.0)))
    return sign * _beside(point(magnitude, half), step)


def _beside(value: float, step: int) -> float:
    """Return a float64 next to one that is not negative."""
    bits = int(np.float64(value).view(np.int64)) + step
    return float(np.int64(max(bits, 0)).view(np.float64))


def arrays(
    fmt: Format | str, shape: Any = None, *, dtype: Any = None, elements: Strategy[float] | None = None
) -> Strategy[Any]:
    """Return arrays of numbers for a format: its values, ties and what lies next to them.

    >>> from hypothesis import given
    >>> @given(arrays("e4m3fn", (2, 3)))
    ... def test(x):
    ...     assert x.shape == (2, 3)
    >>> test()

    Parameters
    ----------
    fmt : Format or str
    shape : int, tuple of int or strategy, optional
        As of `hypothesis.extra.numpy.arrays`; by default up to 2 axes of up to 8.
    dtype : dtype, optional
        float64 by default; elements are rounded to it by NumPy.
    elements : strategy, optional
        Instead of values and near ties.
    """
    known = catalog.format(fmt)
    kind = np.dtype(np.float64 if dtype is None else dtype)
    wanted = hnp.array_shapes(max_dims=2, max_side=8) if shape is None else shape
    drawn = st.one_of(values(known), near_ties(known)) if elements is None else elements
    if kind == np.float64:
        return hnp.arrays(kind, wanted, elements=drawn)
    return _narrowed(hnp.arrays(np.float64, wanted, elements=drawn), kind)


@st.composite
def _narrowed(draw: Any, wide: Strategy[Any], kind: np.dtype[Any]) -> Any:
    made = draw(wide)
    with np.errstate(all="ignore"):
        return made.astype(kind)


def projections(*, random: bool = False, others: bool = True) -> Strategy[Projection]:
    """Return projections that every format takes: modes, policies, and what else a conversion may differ in.

    >>> from hypothesis import given
    >>> @given(projections(others=False))
    ... def test(projection):
    ...     assert projection == Projection(rounding=projection.rounding, saturation=projection.saturation)
    >>> test()

    Parameters
    ----------
    random : bool
        Stochastic modes too, of 1 to 32 bits.
    others : bool
        Whether other fields than rounding and saturation may differ from their defaults.
    """
    modes: Strategy[Any] = st.sampled_from(MODES)
    if random:
        modes = st.one_of(modes, st.builds(stochastic, st.integers(1, 32), st.sampled_from("ABC")))
    fields: dict[str, Strategy[Any]] = {"rounding": modes, "saturation": st.sampled_from(Saturation)}
    if others:
        fields |= {
            "nan": st.sampled_from(("error", "max", "zero")),
            "nan_sign": st.sampled_from(get_args(SignPolicy)),
            "negative": st.sampled_from(("nan", "zero", "drop_sign")),
            "zero": st.sampled_from(("nan", "smallest")),
            "subnormals": st.sampled_from(("keep", "flush_results", "flush_operands", "flush_both")),
            "symmetric": st.booleans(),
            "overflow_test": st.sampled_from(get_args(OverflowTest)),
            "tininess": st.sampled_from(get_args(Tininess)),
        }
    return st.builds(Projection, **fields)


def block_formats(*, max_size: int = 32) -> Strategy[BlockFormat]:
    """Return block formats along one axis: the catalog's, and any element, rule and one of six scales.

    >>> from hypothesis import given
    >>> @given(block_formats(max_size=8))
    ... def test(fmt):
    ...     assert fmt.sizes[0] <= 8
    >>> test()

    Parameters
    ----------
    max_size : int
        The most values of a block.
    """
    if max_size < 1:
        raise ValueError(f"max_size={max_size} must be 1 or more")
    scales = (catalog.E8M0FNU, catalog.UE4M3, catalog.UE5M3, catalog.E5M2, catalog.BINARY16, catalog.BINARY32)
    drawn = st.builds(
        BlockFormat,
        name=st.just("drawn"),
        element=formats(max_width=8),
        scale=st.sampled_from(scales),
        size=st.integers(1, max_size),
        rule=st.sampled_from(RULES),
        tensor_scale=st.sampled_from(("none", "divide", "reciprocal")),
        zero=st.sampled_from(("smallest", "one", "rule")),
    )
    known = [
        fmt for fmt in catalog.BLOCK_FORMATS.values() if len(fmt.sizes) == 1 and fmt.sizes[0] <= max_size
    ]
    return st.one_of(drawn, st.sampled_from(known)) if known else drawn


def blocks(fmt: BlockFormat | str, *, count: int = 2) -> Strategy[BlockArray]:
    """Return arrays in a block format: codes, finite scales, up to `count` blocks, the last perhaps short.

    >>> from hypothesis import given
    >>> @given(blocks("mxfp4", count=3))
    ... def test(array):
    ...     assert array.codes.size <= 3 * 32 and array.scales.size <= 3
    >>> test()

    Parameters
    ----------
    fmt : BlockFormat or str
        Of blocks along one axis.
    count : int
        The most blocks.
    """
    known = catalog.block_format(fmt)
    if count < 1:
        raise ValueError(f"count={count} must be 1 or more")
    if len(known.sizes) != 1:
        raise ValueError(f"blocks of {known.name!r} lie along two axes; draw codes and scales yourself")
    return _blocks(known, count)


@st.composite
def _blocks(draw: Any, known: BlockFormat, count: int) -> BlockArray:
    from lowprec.arrays.blocks.block import BlockArray
    from lowprec.arrays.checks import code_dtype

    size = known.sizes[0]
    length = draw(st.integers(1, count * size))
    made = draw(hnp.arrays(code_dtype(known.element), length, elements=codes(known.element)))
    number = -(-length // size)
    scales = draw(hnp.arrays(code_dtype(known.scale), number, elements=codes(known.scale, finite=True)))
    tensor = draw(st.sampled_from((1.0, 0.5, 3.0))) if known.tensor_scale != "none" else None
    return BlockArray(made, scales, known, (0,), tensor)


def accumulations(*, operands: tuple[Format, Format] | None = None) -> Strategy[Accumulation]:
    """Return accumulations: exact; in sequence, pairs or chunks of 16 or 32 bits; windows as in hardware.

    >>> from hypothesis import given
    >>> @given(accumulations())
    ... def test(accumulation):
    ...     assert accumulation.output[0].width in (16, 32)
    >>> test()

    Parameters
    ----------
    operands : pair of Format, optional
        Formats of the operands, which windows need: e4m3fn by default.
    """
    single = (catalog.BINARY32, Projection())
    places = [
        single,
        (catalog.BINARY16, Projection()),
        (catalog.BFLOAT16, Projection(rounding="toward_zero")),
    ]
    rounded = st.sampled_from(places)
    pair = operands or (catalog.E4M3FN, catalog.E4M3FN)
    exact = st.builds(Accumulation, output=rounded, order=st.just("exact"), operands=st.just(operands))
    sums = st.builds(
        Accumulation,
        output=rounded,
        accumulator=rounded,
        product=st.one_of(st.none(), rounded),
        order=st.one_of(
            st.sampled_from(("sequential", "pairwise")),
            st.integers(1, 64).map(lambda size: f"chunked({size})"),
        ),
        addend=st.sampled_from(("first", "last")),
        operands=st.just(operands),
    )
    windows = st.builds(
        Window,
        step=st.integers(1, 32),
        fraction_bits=st.one_of(st.none(), st.integers(1, 48)),
        result=st.just(single),
        cut=st.sampled_from(get_args(Cut)),
    )
    hardware = st.builds(Accumulation, output=rounded, accumulator=windows, operands=st.just(pair))
    return st.one_of(exact, sums, hardware)
