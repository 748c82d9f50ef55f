"""Hypothesis strategies: formats, codes, values, projections, blocks and accumulations that are valid.

They say what is valid; what is drawn shrinks toward the simple, and ties and borders come often.

Floor 5.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from lowprec.spec import catalog
from lowprec.spec.accumulation import Accumulation, Window
from lowprec.spec.block import RULES, BlockFormat
from lowprec.spec.format import Format, Sign
from lowprec.spec.projection import Projection, Saturation
from lowprec.spec.rounding import MODES, stochastic

try:
    from hypothesis import strategies as st
    from hypothesis.extra import numpy as hnp
except ImportError as error:
    raise ImportError('strategies need hypothesis: pip install "lowprec[test]"') from error

if TYPE_CHECKING:
    from lowprec.arrays.block import BlockArray

__all__ = [
    "accumulations",
    "arrays",
    "block_formats",
    "blocks",
    "codes",
    "formats",
    "near_ties",
    "projections",
    "values",
]

Strategy = st.SearchStrategy


def formats(*, min_width: int = 2, max_width: int = 12, signs: tuple[Sign, ...] = tuple(Sign)) -> Strategy[Format]:
    """Formats: of the catalog, and any parameters that make one.

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
    width = draw(st.integers(min_width, max_width))
    bits = width - (sign is not Sign.UNSIGNED)
    exponent_bits = 0 if sign is Sign.TWOS_COMPLEMENT else draw(st.integers(0, min(bits, 11)))
    trailing_bits = bits - exponent_bits
    subnormals = exponent_bits == 0 or draw(st.integers(0, 7)) > 0
    negative_zero = sign is not Sign.MAGNITUDE or not subnormals or draw(st.booleans())
    infinity = sign is not Sign.TWOS_COMPLEMENT and draw(st.booleans())
    spare = 2**bits - (1 if infinity else 0) - (2 if subnormals else 1)  # one finite number is left
    ieee = 2**trailing_bits - 1
    nans = 0
    if sign is not Sign.TWOS_COMPLEMENT:
        nans = draw(st.one_of(st.integers(0, 1), st.just(ieee), st.integers(0, 2**bits)))
    if infinity and spare < 0:
        infinity, spare = False, spare + 1
    nans = max(min(nans, spare), 0)
    # Every value is a multiple of 2**-1074 below 2**1024.
    low = (1 if subnormals else 0) - trailing_bits
    top = max(2**exponent_bits - 1, 1)
    usual = max((1 << exponent_bits >> 1) - 1, 0) if exponent_bits else 1 - trailing_bits
    least, most = max(top - 1022, -1200), 1074 + low
    bias = draw(st.one_of(st.just(min(max(usual, least), most)), st.integers(-8, 8), st.integers(least, most)))
    fields: dict[str, Any] = {
        "name": "drawn",
        "exponent_bits": exponent_bits,
        "trailing_bits": trailing_bits,
        "bias": min(max(bias, least), most),
        "sign": sign,
        "nans": nans,
        "infinity": infinity,
        "negative_zero": negative_zero,
        "subnormals": subnormals,
    }
    return Format(**fields)


def codes(fmt: Format | str, *, finite: bool = False) -> Strategy[int]:
    """Codes of a format, as integers: simple ones are small; zeros, ends and specials come often.

    >>> from hypothesis import given
    >>> @given(codes("e2m1fn", finite=True))
    ... def test(code):
    ...     assert 0 <= code < 16
    >>> test()

    Parameters
    ----------
    fmt : Format or str
    finite : bool
        Whether only those of finite numbers.
    """
    known = catalog.format(fmt)
    top = (1 << known.width) - 1
    last = known.max_magnitude
    marks = {0, 1, last - 1, last, last + 1, top, known.nan_code or 0, 1 << known.trailing_bits}
    marks |= {mark | known.sign_code for mark in marks}
    special = sorted(mark for mark in marks if 0 <= mark <= top)
    drawn = st.one_of(st.integers(0, top), st.sampled_from(special))
    return drawn.filter(lambda code: _is_finite(code, known)) if finite else drawn


def _is_finite(code: int, fmt: Format) -> bool:
    if fmt.sign is Sign.TWOS_COMPLEMENT:
        return True
    magnitude = code & ~fmt.sign_code
    return magnitude <= fmt.max_magnitude and not (code == fmt.sign_code and not fmt.negative_zero and code > 0)


def _value(code: int, fmt: Format) -> float:
    """What a finite code stands for."""
    from lowprec.oracle.convert import decode
    from lowprec.oracle.exact import to_float

    return to_float(decode(code, fmt))


def values(fmt: Format | str, *, finite: bool = True) -> Strategy[float]:
    """Values of a format, as Python floats.

    Parameters
    ----------
    fmt : Format or str
    finite : bool
        Whether only numbers; else also its infinities and NaNs.
    """
    known = catalog.format(fmt)
    return codes(known, finite=finite).map(lambda code: _value(code, known))


def near_ties(fmt: Format | str) -> Strategy[float]:
    """Numbers where rounding can go wrong: values and ties of a format, and the float64 just below and above.

    Past the largest value the grid goes on by one: the overflow threshold is one of them.

    Parameters
    ----------
    fmt : Format or str
    """
    known = catalog.format(fmt)
    signs = (1.0,) if known.sign is Sign.UNSIGNED else (1.0, -1.0)
    # The step of 0 is simplest, and then it is the tie itself.
    return st.builds(
        lambda magnitude, half, step, sign: sign * _beside(_point(magnitude, half, known), step),
        st.integers(0, known.max_magnitude + 2).map(lambda magnitude: min(magnitude, known.max_magnitude)),
        st.sampled_from((True, False)),
        st.sampled_from((0, 1, -1)),
        st.sampled_from(signs),
    )


def _point(magnitude: int, half: bool, fmt: Format) -> float:
    """A value, or the middle of it and the next; or, where float64 has none, the value."""
    from fractions import Fraction

    from lowprec.oracle.convert import value_of

    low, high = value_of(magnitude, fmt), value_of(magnitude + 1, fmt)
    middle = (low + high) / 2
    known = middle < Fraction(2) ** 1024 - Fraction(2) ** 970  # what rounds to a float64
    chosen = middle if half and known and Fraction(float(middle)) == middle else low
    return float(chosen)


def _beside(value: float, step: int) -> float:
    """A float64 next to one that is not negative."""
    bits = int(np.float64(value).view(np.int64)) + step
    return float(np.int64(max(bits, 0)).view(np.float64))


def arrays(
    fmt: Format | str, shape: Any = None, *, dtype: Any = None, elements: Strategy[float] | None = None
) -> Strategy[Any]:
    """Arrays of numbers for a format: its values, ties and what lies next to them.

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

    def narrowed(array: Any) -> Any:
        with np.errstate(all="ignore"):
            return array.astype(kind)

    return hnp.arrays(np.float64, wanted, elements=drawn).map(narrowed)


def projections(*, random: bool = False, whole: bool = True) -> Strategy[Projection]:
    """Projections: modes and policies, and if `whole` every other field that refuses nothing.

    Parameters
    ----------
    random : bool
        Whether stochastic modes too.
    whole : bool
        Whether other fields than rounding and saturation may differ from their defaults.
    """
    modes: Strategy[Any] = st.sampled_from(MODES)
    if random:
        drawn = st.builds(stochastic, st.integers(1, 32), st.sampled_from("ABC"))
        modes = st.one_of(modes, drawn)
    fields: dict[str, Strategy[Any]] = {"rounding": modes, "saturation": st.sampled_from(Saturation)}
    if whole:
        fields |= {
            "nan": st.sampled_from(("error", "max")),
            "nan_sign": st.sampled_from(("keep", "drop")),
            "negative": st.sampled_from(("nan", "zero", "drop_sign")),
            "zero": st.sampled_from(("nan", "smallest")),
            "subnormals": st.sampled_from(("keep", "flush_results", "flush_operands", "flush_both")),
            "symmetric": st.booleans(),
            "overflow_test": st.sampled_from(("after", "before")),
        }
    return st.builds(Projection, **fields)


def block_formats(*, sizes: Strategy[int] | None = None) -> Strategy[BlockFormat]:
    """Block formats: of the catalog, and any element and scale format with any rule.

    Parameters
    ----------
    sizes : strategy of int, optional
        Of the blocks drawn; by default 1 to 32.
    """
    drawn = st.builds(
        BlockFormat,
        name=st.just("drawn"),
        element=formats(max_width=8).filter(lambda fmt: fmt.has_nan or fmt.width > 2),
        scale=st.sampled_from(
            (catalog.E8M0FNU, catalog.UE4M3, catalog.UE5M3, catalog.BINARY32, catalog.BINARY16, catalog.E5M2)
        ),
        size=st.integers(1, 32) if sizes is None else sizes,
        rule=st.sampled_from(RULES),
        tensor_scale=st.sampled_from(("none", "divide", "reciprocal")),
        zero=st.sampled_from(("smallest", "one", "rule")),
    )
    known = [fmt for fmt in catalog.BLOCK_FORMATS.values() if len(fmt.sizes) == 1 and fmt.sizes[0] <= 32]
    return st.one_of(st.sampled_from(known), drawn) if sizes is None else drawn


@st.composite
def blocks(draw: Any, fmt: BlockFormat | str, *, count: int = 2) -> BlockArray:
    """Arrays in a block format, of any codes: up to `count` blocks along one axis, the last one perhaps short.

    Parameters
    ----------
    fmt : BlockFormat or str
        Of blocks along one axis.
    count : int
        The most blocks.
    """
    from lowprec.arrays.block import BlockArray
    from lowprec.arrays.checks import code_dtype

    known = catalog.block_format(fmt)
    if len(known.sizes) != 1:
        raise ValueError(f"blocks of {known.name!r} lie along two axes; draw codes and scales yourself")
    size = known.sizes[0]
    length = draw(st.integers(1, count * size))
    made = draw(hnp.arrays(code_dtype(known.element), length, elements=codes(known.element)))
    number = -(-length // size)
    scales = draw(hnp.arrays(code_dtype(known.scale), number, elements=codes(known.scale, finite=True)))
    tensor = draw(st.sampled_from((1.0, 0.5, 3.0))) if known.tensor_scale != "none" else None
    return BlockArray(made, scales, known, (0,), tensor)


def accumulations(*, operands: tuple[Format, Format] | None = None) -> Strategy[Accumulation]:
    """Accumulations: orders, accumulators and windows of hardware.

    Parameters
    ----------
    operands : pair of Format, optional
        What the factors are values of; windows need them, e4m3fn where nothing is said.
    """
    single = (catalog.BINARY32, Projection())
    places = [single, (catalog.BINARY16, Projection()), (catalog.BFLOAT16, Projection(rounding="toward_zero"))]  # type: ignore[arg-type]
    rounded = st.sampled_from(places)
    pair = operands or (catalog.E4M3FN, catalog.E4M3FN)
    exact = st.builds(Accumulation, output=rounded, order=st.just("exact"), operands=st.just(operands))
    sums = st.builds(
        Accumulation,
        output=rounded,
        accumulator=rounded,
        product=st.one_of(st.none(), rounded),
        order=st.one_of(
            st.sampled_from(("sequential", "pairwise")), st.integers(1, 64).map(lambda size: f"chunked({size})")
        ),
        addend=st.sampled_from(("first", "last")),
        operands=st.just(operands),
    )
    windows = st.builds(
        Window,
        step=st.integers(1, 32),
        fraction_bits=st.one_of(st.none(), st.integers(1, 48)),
        result=st.just(single),
        cut=st.sampled_from(("toward_zero", "floor")),
    )
    hardware = st.builds(Accumulation, output=rounded, accumulator=windows, operands=st.just(pair))
    return st.one_of(exact, sums, hardware)
