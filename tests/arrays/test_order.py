"""Comparisons, classes and neighbours, against the oracle: every pair of small formats."""

import math
from fractions import Fraction

import numpy as np
import pytest

import lowprec as lp
from lowprec.arrays.checks import code_dtype
from lowprec.oracle import order as oracle
from lowprec.oracle.convert import decode
from lowprec.oracle.exact import from_float, to_float
from lowprec.spec import catalog
from lowprec.spec.arith import Class
from lowprec.spec.format import Format, Sign
from lowprec.spec.projection import Flag
from tests.support import CATALOG_UP_TO_8

NAMES = (
    "e4m3fn", "e5m2", "e4m3fnuz", "e2m1fn", "e8m0fnu", "ue4m3", "int4", "int8f6", "uint4", "binary5p1se",
    "e3m4",
)  # fmt: skip
SMALL = [catalog.format(name) for name in (*NAMES, "binary4p2uf", "binary6p3se")]


def pairs(fmt):
    """All, or three thousand and each with itself."""
    codes = np.arange(1 << fmt.width)
    if fmt.width <= 6:
        return tuple(grid.reshape(-1) for grid in np.meshgrid(codes, codes))
    drawn = np.random.default_rng(0).integers(0, codes.size, (2, 3000))
    return tuple(np.concatenate([column, codes]) for column in drawn)


@pytest.mark.parametrize("fmt", SMALL, ids=str)
def test_comparisons_agree(fmt):
    """Each relation, by the oracle's comparison of what the codes stand for."""
    x, y = pairs(fmt)
    values = [decode(code, fmt) for code in range(1 << fmt.width)]
    order = [oracle.compare(values[i], values[j]) for i, j in zip(x.tolist(), y.tolist(), strict=True)]
    relations = {
        "less": {-1},
        "less_equal": {-1, 0},
        "equal": {0},
        "not_equal": {-1, 1, None},
        "greater": {1},
        "greater_equal": {0, 1},
        "unordered": {None},
    }
    before = [oracle.total_order(i, j, fmt) for i, j in zip(x.tolist(), y.tolist(), strict=True)]
    codes = [each.astype(code_dtype(fmt)) for each in (x, y)]  # compared as they are, where all are codes
    codes[0].flags.writeable = False
    for left, right in ((x, y), codes, [np.repeat(each, 2)[::2] for each in codes]):
        for name, wanted in relations.items():
            got = getattr(lp, name)(left, right, fmt)
            assert got.tolist() == [found in wanted for found in order], name
        assert lp.total_order(left, right, fmt).tolist() == before


def test_comparisons_signal_nans():
    """`equal` and `unordered` only signaling ones, the others every NaN."""
    x = np.uint16([0x7C01, 0x7E00, 0x3C00])
    flags = np.zeros(3, np.uint8)
    for name, want in (
        ("equal", [1, 0, 0]),
        ("unordered", [1, 0, 0]),
        ("less", [1, 1, 0]),
        ("greater_equal", [1, 1, 0]),
    ):
        getattr(lp, name)(x, 0x3C00, "binary16", flags=flags)
        assert flags.tolist() == [Flag.INVALID * bit for bit in want], name
    assert lp.less(0x3C00, 0x4000, "binary16") is np.True_


def test_nans_have_an_order_of_their_own():
    """By sign, then signaling before quiet, then by payload; the other way round where negative."""
    ordered = np.uint16(
        [0xFE01, 0xFE00, 0xFC01, 0xFC00, 0xBC00, 0x8000, 0x0000, 0x3C00, 0x7C00, 0x7C01, 0x7E00, 0x7E01]
    )
    assert lp.total_order(ordered[:-1], ordered[1:], "binary16").all()
    assert not lp.total_order(ordered[1:], ordered[:-1], "binary16").any()


MANY_NANS = (
    Format(
        name="no -0", exponent_bits=2, trailing_bits=2, bias=1, nans=3, infinity=True, negative_zero=False
    ),
    Format(name="no -0, one NaN more", exponent_bits=3, trailing_bits=1, bias=3, nans=1, negative_zero=False),
    Format(
        name="unsigned", exponent_bits=3, trailing_bits=2, bias=3, nans=5, infinity=True, sign=Sign.UNSIGNED
    ),
    Format(name="signed", exponent_bits=2, trailing_bits=2, bias=1, nans=3, infinity=True),
)


@pytest.mark.parametrize("fmt", [*(fmt for fmt in SMALL if fmt.width <= 8), *MANY_NANS], ids=str)
def test_the_total_order_puts_every_code_in_its_place(fmt):
    """Total, antisymmetric, transitive. NaNs whose codes differ in sign alone used to precede each other."""
    codes = np.arange(1 << fmt.width)
    before = lp.total_order(codes[:, None], codes, fmt)
    assert (before | before.T).all()
    assert ((before & before.T) == np.eye(codes.size, dtype=bool)).all()
    assert sorted(before.sum(1).tolist()) == list(range(1, codes.size + 1))
    if fmt.width <= 6:
        want = [[oracle.total_order(x, y, fmt) for y in codes.tolist()] for x in codes.tolist()]
        assert before.tolist() == want


def test_nans_without_a_sign_come_last_by_code():
    """After +Inf."""
    ordered = [0x0C, 0x0D, 0x0E, 0x0F, 0x10, 0x1D, 0x1E, 0x1F]
    assert lp.total_order(ordered[:-1], ordered[1:], MANY_NANS[0]).all()
    assert lp.total_order(0x1C, 0x0C, MANY_NANS[0])  # -Inf before +Inf


@pytest.mark.parametrize("fmt", CATALOG_UP_TO_8, ids=str)
def test_classes_agree(fmt):
    """Every code has its class."""
    codes = np.arange(1 << fmt.width)
    assert lp.classify(codes, fmt).tolist() == [oracle.classify(int(code), fmt) for code in codes]


def test_classes_of_wide_formats():
    """A signaling NaN among them; in the order of RISC-V."""
    codes = [0xFC00, 0xBC00, 0x8001, 0x8000, 0x0000, 0x0001, 0x3C00, 0x7C00, 0x7C01, 0x7E00]
    assert lp.classify(codes, "binary16").tolist() == list(Class)
    assert lp.classify(0x7F800001, "binary32") == lp.Class.SIGNALING_NAN


def points(fmt):
    """Values, the float64 on either side, and what lies beyond."""
    values = [to_float(decode(code, fmt)) for code in range(1 << fmt.width)]
    found = [-math.inf, math.inf, math.nan, -1e30, 1e30, 5e-324, -5e-324, 1.7e308]
    for value in values if fmt.width <= 6 else values[::7]:
        found += (
            [value]
            if not math.isfinite(value)
            else [value, *np.nextafter(value, [-math.inf, math.inf]).tolist()]
        )
    return found


@pytest.mark.apart
@pytest.mark.parametrize("fmt", SMALL, ids=str)
def test_neighbours_agree(fmt):
    """Values and numbers between them are moved up, down and toward themselves; NaN and extremes, too."""
    starts = points(fmt)
    toward = [0.0, -0.0, math.inf, -math.inf, 1.5, math.nan]
    x = np.concatenate([np.repeat(starts, len(toward)), starts])
    y = np.concatenate([np.tile(toward, len(starts)), starts])
    for start, end, got in zip(x.tolist(), y.tolist(), lp.nextafter(x, y, fmt).tolist(), strict=True):
        code = oracle.nextafter(from_float(start), from_float(end), fmt)
        want = math.nan if code is None else to_float(decode(code, fmt))
        assert (got != got and want != want) or (got, np.signbit(got)) == (want, np.signbit(want)), (
            start,
            end,
        )


@pytest.mark.parametrize("fmt", SMALL, ids=str)
def test_gaps_agree(fmt):
    """At values and beside them; NaN of what is no number."""
    starts = points(fmt)
    for start, got in zip(starts, lp.ulp(np.array(starts), fmt).tolist(), strict=True):
        want = oracle.ulp(from_float(start), fmt)
        assert got != got if want is None else Fraction(got) == want, start


@pytest.mark.parametrize("dtype", [np.float16, np.float32])
def test_numpy_has_the_same_neighbours(dtype):
    """In its own types."""
    bits = np.dtype(dtype).itemsize * 8
    x = (
        np.random.default_rng(0)
        .integers(0, 1 << bits, 3000, dtype=np.uint32)
        .astype(f"u{bits // 8}")
        .view(dtype)
    )
    x = x[np.isfinite(x) & (x != 0)]
    with np.errstate(all="ignore"):
        for end in (np.inf, -np.inf, 0.0):
            want = np.nextafter(x, dtype(end)).astype(np.float32)
            assert lp.nextafter(x, dtype(end), x.dtype).tobytes() == want.tobytes()
        assert np.array_equal(lp.ulp(x, x.dtype), np.abs(np.spacing(x)).astype(np.float32))


def test_what_float64_does_not_hold_is_refused():
    """An integer of 54 bits beside values."""
    with pytest.raises(ValueError, match="integers of more than 53 bits are not compared with values"):
        lp.nextafter(np.int64((1 << 53) + 1), 0.0, "e4m3fn")
    assert lp.nextafter(np.int64(3), 4, "e4m3fn") == 3.25


ODD = [
    lp.Format(name="no zero", exponent_bits=3, trailing_bits=2, bias=3, subnormals=False),
    lp.Format(name="only subnormals", exponent_bits=1, trailing_bits=2, bias=0, nans=4),
    lp.Format(
        name="IEEE's NaNs, no -0",
        exponent_bits=3,
        trailing_bits=3,
        bias=3,
        nans=7,
        infinity=True,
        negative_zero=False,
    ),
]


@pytest.mark.parametrize("fmt", ODD, ids=lambda fmt: fmt.name)
def test_odd_formats_agree(fmt):
    """Without zero; with nothing but subnormals; with signaling NaNs but without -0."""
    test_comparisons_agree(fmt)
    test_classes_agree(fmt)
    test_neighbours_agree(fmt)
    test_gaps_agree(fmt)


def test_scalars_have_scalars_for_neighbours():
    """Arrays have arrays."""
    assert type(lp.nextafter(1.0, 2.0, "e4m3fn")) is np.float32
    assert type(lp.ulp(1.0, "e4m3fn")) is np.float32


@pytest.mark.parametrize("fmt", ["nf4", "posit8"])
def test_signaling_nans_beside_codebooks_warn_of_nothing(fmt):
    """And their neighbours and gaps are NaN."""
    nan, one = np.uint32([0x7F800001]).view(np.float32), np.float32([1])
    assert np.isnan(lp.nextafter(nan, one, fmt)).all()
    assert np.isnan(lp.nextafter(one, nan, fmt)).all()
    assert np.isnan(lp.ulp(nan, fmt)).all()


def test_shapes_that_do_not_broadcast_are_refused_by_name():
    shapes = r"takes operands that broadcast together, not of shapes \(3,\) and \(2,\)$"
    for verb in (lp.less, lp.equal, lp.total_order):
        with pytest.raises(ValueError, match=f"^a comparison {shapes}"):
            verb(np.zeros(3, np.uint8), np.zeros(2, np.uint8), "e4m3fn")
    for fmt in ("e4m3fn", "posit8"):
        with pytest.raises(ValueError, match=f"^nextafter {shapes}"):
            lp.nextafter(np.zeros(3), np.zeros(2), fmt)


def test_results_lie_in_memory_as_operands_do():
    rows = np.random.default_rng(1).standard_normal((40, 70)).astype(np.float32)
    columns = np.asfortranarray(rows)
    verbs = lp.ulp, lp.classify, lambda x, fmt: lp.nextafter(x, -x, fmt)
    for verb in verbs:
        made = verb(columns, "binary32")
        assert np.array_equal(made, verb(rows, "binary32"))
        assert made.strides == tuple(step // 4 * made.itemsize for step in columns.strides)
