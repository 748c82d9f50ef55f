"""Codebooks: engines against the oracle, at every value, threshold and step, and next to them."""

import itertools
import math
import re

import numpy as np
import pytest

import lowprec as lp
from lowprec.kernels.codes import code_dtype
from lowprec.kernels.general.program import Step, reader
from lowprec.kernels.lower.words import DOUBLE
from lowprec.oracle import order
from lowprec.oracle.convert import decode
from lowprec.oracle.exact import from_float
from lowprec.spec.arith import OPERANDS
from lowprec.spec.codebook import Codebook
from lowprec.spec.codebooks import lns, posit, takum
from lowprec.spec.projection import Projection
from lowprec.spec.rounding import MODES, stochastic
from tests.support import engines_agree, most_apart, refusal_test

NAN, INFINITY = math.nan, math.inf

#: One of each kind: with and without zero, sign, NaN, infinities; values next to zero on one side or both.
BOOKS = {
    "nf4": lp.format("nf4"),
    "fp4_bnb": lp.format("fp4_bnb"),
    "iq4_nl": lp.format("iq4_nl"),
    "hif8": lp.format("hif8"),
    "posit5": posit(5),
    "posit6_es0": posit(6, 0),
    "takum7": takum(7),
    "takum_linear7": takum(7, linear=True),
    "lns6_2": lns(3, 2),
    "ternary": Codebook("ternary", [0.0, 1.0, NAN, -1.0]),
    "unsigned": Codebook("unsigned", [0.0, 1.0, 3.0, 2.5], overflow=4.75),
    "powers": Codebook("powers", [1.0, 2.0, 4.0, 8.0, 16.0, 32.0, 64.0, NAN], overflow=80.0),
    "beyond": Codebook(
        "beyond",
        [0.0, 0.5, 1.0, 1.75, 3.0, 6.5, INFINITY, NAN, -0.0, -0.25, -1.0, -1.5, -3.0, -9.5, -INFINITY, NAN],
        ties="away",
    ),
    "one_infinity": Codebook("one_infinity", [2.0, 0.0, INFINITY, -2.0]),
    "far": Codebook(
        "far",
        [0.0, 0.0625, 1.0, 16.0, NAN, -16.0, -1.0, -0.0625],
        thresholds=[-4, -0.25, 0, 0, 0.25, 4],
        overflow="never",
    ),
    "halves": Codebook("halves", [-1.5, -0.5, 0.5, 1.5]),
    "borders": Codebook("borders", [-1.0, 0.0, 1.0, 2.0], thresholds=[-1.0, 1.0, 1.0]),
    "down": Codebook("down", [-3.0, -1.0, 2.0, 4.0], ties="down", thresholds=[-2.5, 0.0, 2.0]),
    "fine": Codebook(
        "fine",
        [0.0, 1 + 2.0**-52, 1 + 2.0**-51, 1.5, 2.0**60, NAN, -(2.0**-1074), -1 / 3],
        thresholds=[-0.25, 0.0, 0.5, 1 + 2.0**-52, 1.25, 2.0],
        overflow=2.0**70,
    ),
}

ROUNDINGS = (*MODES, stochastic(1), stochastic(8), stochastic(3, "B"), stochastic(5, "C"), stochastic(32))

OTHERS = (
    {},
    {"overflow_test": "before"},
    {"negative": "drop_sign"},
    {"negative": "zero"},
    {"zero": "smallest"},
    {"nan_sign": "drop", "nan_code": 1},
    {"subnormals": "flush_both"},
    {"nan_payload": "first"},
)


def operands(book: Codebook) -> np.ndarray:
    """Every number where results may change, its neighbours in float64, and some far away."""
    finite = [float(value) for value in book.values if math.isfinite(value)]
    points = [*finite, *map(float, book.thresholds)]
    for ray in (book.ray(False), book.ray(True)):
        points += [float(each) for each in (ray.beyond, ray.thresholds[-1]) if each is not None]
    points += [80.0, 1e300, 1e-300, 5e-324, 0.3, 2.2, 7.7]
    exact = np.array(points)
    exact = np.concatenate(
        [exact, np.nextafter(exact, INFINITY), np.nextafter(exact, -INFINITY), 0.97 * exact]
    )
    return np.unique(np.concatenate([exact, -exact, [0.0, INFINITY, -INFINITY, NAN]]))


def asked(book: Codebook, rounding: object, saturation: str, others: dict[str, object]) -> Projection:
    return Projection(rounding=rounding, saturation=saturation, nan="max", **others)


#: To nearest and by random integers; all modes are tried with those tests that stand apart.
FEW = (MODES[0], stochastic(8))


@pytest.mark.parametrize("rounding", most_apart(ROUNDINGS, FEW), ids=str)
@pytest.mark.parametrize("name", most_apart(BOOKS, set(BOOKS) - {"hif8", "takum7", "takum_linear7"}))
def test_codes_and_flags_are_the_oracles(name, rounding):
    book = BOOKS[name]
    values = np.append(operands(book), -0.0)
    generator = np.random.default_rng(sum(map(ord, name)))
    random = None
    if rounding.bits:
        random = generator.integers(0, 1 << rounding.bits, values.size, dtype=np.uint64).astype(np.uint32)
    if name == "fine" and rounding.bits:
        with pytest.raises(ValueError, match="stochastic rounding to 'fine' is not served: the gap above"):
            lp.encode(values, book, rounding=rounding, random=random)
        return
    some = OTHERS if rounding in (MODES[0], MODES[3]) else OTHERS[:2]
    for saturation, others in [
        *((each, {}) for each in ("finite", "propagate")),
        *(("none", each) for each in some),
    ]:
        if "nan_code" in others and name in ("unsigned", "ternary"):
            continue
        given = {"projection": asked(book, rounding, saturation, others), "random": random, "flags": True}
        engines_agree(lp.encode, values, book, backends=("scalar", "oracle"), **given)


@pytest.mark.parametrize(
    "dtype",
    ["float32", "int16", *(pytest.param(each, marks=pytest.mark.apart) for each in ("float64", "float16"))],
)
@pytest.mark.parametrize("name", BOOKS)
def test_tables_give_what_the_scalar_kernel_gives(name, dtype):
    book = BOOKS[name]
    with np.errstate(over="ignore", under="ignore", invalid="ignore"):
        values = operands(book)
        values = values[np.isfinite(values)] if dtype == "int16" else values
        values = np.clip(values, -32768, 32767).astype(dtype) if dtype == "int16" else values.astype(dtype)
        if dtype != "int16":
            values = np.concatenate(
                [values, np.nextafter(values, dtype(0) if callable(dtype) else values.dtype.type(0))]
            )
    for rounding in MODES:
        for saturation in ("none", "finite"):
            projection = asked(book, rounding, saturation, {})
            given = {"projection": projection}
            backend = None if dtype == "int16" else "table"
            for verb in (lp.encode, lp.quantize):
                engines_agree(verb, values, book, backends=(backend, "scalar"), **given)


@pytest.mark.parametrize(
    "name",
    [
        each if each in ("nf4", "hif8", "halves", "beyond") else pytest.param(each, marks=pytest.mark.apart)
        for each in BOOKS
    ],
)
def test_flags_of_float32_are_the_oracles(name):
    """Of every value, threshold and step, the numbers next to them, and every kind of NaN."""
    book = BOOKS[name]
    with np.errstate(over="ignore", under="ignore", invalid="ignore"):
        values = operands(book).astype(np.float32)
    signaling = np.array([0x7F800001], np.uint32).view(np.float32)
    values = np.concatenate([values, np.float32([-0.0]), signaling])
    for rounding, saturation, others in (
        (MODES[0], "none", {}),
        (MODES[3], "finite", {}),
        (MODES[5], "none", OTHERS[2]),
        (MODES[0], "none", OTHERS[3]),
    ):
        projection = asked(book, rounding, saturation, others)
        for verb in (lp.encode, lp.quantize):
            engines_agree(verb, values, book, backends=(None, "oracle"), projection=projection, flags=True)


def in_lanes_as_one_by_one(operation, given, book, projection, random):
    """Codes and flags of 64-bit lanes, and of what they leave, are those of the scalar kernels."""
    source = lp.format("binary32") if given[0].dtype == np.float32 else DOUBLE
    step = Step(operation, [source] * len(given), [reader(source)] * len(given), book, projection)
    words = [each.view(f"u{each.itemsize}") for each in given]
    made = []
    for run in (step.run, step._by_scalar):
        codes, flags = np.zeros(words[0].size, code_dtype(book)), np.full(words[0].size, 99, np.uint8)
        found = run(words, codes, flags, random)
        assert found is None or found == (0, -1)
        made.append((codes, flags))
    for lanes, one_by_one in zip(*made, strict=True):
        np.testing.assert_array_equal(lanes, one_by_one, err_msg=str(projection))


USUAL = ("add", "subtract", "multiply", "divide", "sqrt", "fma")

#: Codebooks of short values and thresholds, and the last ones of long ones.
WIDE = ("posit5", "hif8", "halves", "beyond", "nf4", "takum7", "fine")


@pytest.mark.apart
@pytest.mark.parametrize("operation", USUAL)
@pytest.mark.parametrize("name", [*WIDE, "posit16", "takum16"])
def test_operations_in_lanes_are_the_scalar_kernels(name, operation):
    """Numbers at and beside values and thresholds, of binary32 and binary64; sums near a threshold."""
    book = BOOKS.get(name) or lp.format(name)
    rng, count = np.random.default_rng(7), OPERANDS[operation]
    size = max(8000, 5 * len(book.values))
    with np.errstate(over="ignore", under="ignore", invalid="ignore"):
        points = rng.permutation(operands(book))[:20_000]
        points = np.concatenate([points, np.nextafter(points, 0.0), np.nextafter(points, INFINITY)])
        given = [rng.choice(points, size) for _ in range(count)]
        if operation in ("add", "subtract"):
            given[1][::2] = (rng.choice(points, size) - given[0])[::2]
        if operation in ("multiply", "divide"):
            given[1][::3] = 1
        short = [each.astype(np.float32) for each in given]
    for numbers in (given, short):
        for rounding in (MODES[0], MODES[3], stochastic(8), stochastic(3, "B"), stochastic(5, "C")):
            if rounding.bits and name == "fine":
                continue
            random = np.empty(0, np.uint32)
            if rounding.bits:
                random = rng.integers(0, 1 << rounding.bits, size, dtype=np.uint32)
            for saturation in ("none", "finite"):
                projection = asked(book, rounding, saturation, {})
                in_lanes_as_one_by_one(operation, numbers, book, projection, random)


@pytest.mark.parametrize(
    "name",
    [
        "posit5",
        "powers",
        *(
            pytest.param(each, marks=pytest.mark.apart)
            for each in ("nf4", "halves", "down", "beyond", "far", "takum7", "lns6_2", "unsigned")
        ),
    ],
)
@pytest.mark.parametrize("rounding", [stochastic(3), stochastic(3, "B"), stochastic(3, "C")], ids=str)
def test_every_tail_is_drawn_as_by_the_scalar_kernel(name, rounding):
    """Sixty-fourths of every gap, and numbers beside them, with each random integer."""
    book = BOOKS[name]
    points = []
    for ray in (book.ray(False), book.ray(True)):
        sizes = [*ray.sizes, *([] if ray.beyond is None else [float(ray.beyond)])]
        for low, high in itertools.pairwise(sizes):
            points += (low + (high - low) * np.arange(64) / 64).tolist()
    values = np.array(points)
    values = np.unique(np.concatenate([values, np.nextafter(values, 0), np.nextafter(values, INFINITY)]))
    values = np.concatenate([values, -values, [0.0, -0.0, INFINITY, -INFINITY, NAN]])
    values, random = np.repeat(values, 8), np.tile(np.arange(8, dtype=np.uint32), values.size)
    with np.errstate(over="ignore", under="ignore"):
        singles = values.astype(np.float32)
    for saturation, negative in itertools.product(("none", "finite"), ("nan", "drop_sign")):
        projection = asked(book, rounding, saturation, {"negative": negative})
        for given in (values, singles):
            in_lanes_as_one_by_one("convert", [given], book, projection, random)


def test_random_rounding_in_a_gap_of_more_than_128_bits_is_refused():
    """Also where the lower value is so small that binary64 has nothing of it in the gap's units."""
    book = Codebook("wide", [0.0, 2.0**-600, 2.0**600, NAN], thresholds=[2.0**-601, 1.0], overflow="never")
    why = f"stochastic rounding to 'wide' is not served: the gap above {2.0**-600!r} is too wide"
    with np.errstate(all="raise"), pytest.raises(ValueError, match=re.escape(why)):
        lp.encode(np.ones(64), book, rounding=stochastic(4), rng=1, backend="scalar")


@pytest.mark.parametrize("power", [-20, -60, -63, -100, -118])
def test_random_rounding_to_a_small_negative_value_next_to_a_positive_one(power):
    """Zero lies between them, nearer to the one than binary64 tells from the other: 1 + 2**-60 is 1 there."""
    book = Codebook("between", [-(2.0**power), 1.0, 2.0, 3.0])
    sizes = [2.0 ** (power + up) for up in (-30, -1, 0, 1)] + [0.0, 0.25, 0.999]
    values = np.repeat([*sizes, *(-size for size in sizes)], 8)
    random = np.tile(np.arange(8, dtype=np.uint32) * 36, values.size // 8)
    for count in (1, values.size):
        given = {"rounding": stochastic(8), "random": random[-count:]}
        engines_agree(lp.encode, values[-count:], book, backends=(None, "scalar", "oracle"), **given)


@pytest.mark.parametrize("name", BOOKS)
def test_values_come_back_from_their_codes(name):
    book = BOOKS[name]
    codes = np.arange(len(book.values), dtype=np.uint8)
    expected = np.array([float(value) for value in book.values])
    for backend in ("scalar", "oracle", "table"):
        values = lp.decode(codes, book, dtype=np.float64, backend=backend)
        np.testing.assert_array_equal(values, expected)
        np.testing.assert_array_equal(np.signbit(values), np.signbit(expected) & ~np.isnan(expected))
    finite = codes[~np.isnan(expected)]
    if book.subnormals or name not in ("powers",):
        np.testing.assert_array_equal(lp.encode(expected[finite], book), finite)
    back = lp.cast(finite, book, book)
    np.testing.assert_array_equal(back, finite)


@pytest.mark.parametrize("size", [3, 40_000])
def test_a_value_without_a_code_is_refused_wherever_it_stands(size):
    values = np.zeros(size, np.float32)
    values[size // 2] = NAN
    out = np.full(size, 77, np.uint8)
    place = size // 2
    with pytest.raises(
        ValueError,
        match=rf"cannot encode NaN values as 'nf4'.*1 of {size:,} is NaN, the first at index \({place},\)",
    ):
        lp.encode(values, "nf4", out=out)
    assert np.all(out == 77)
    with pytest.raises(ValueError, match="cannot encode NaN values as 'nf4'"):
        lp.encode(values.astype(np.float16), "nf4")


@pytest.mark.parametrize(
    "operation",
    [*USUAL, "remainder", "logb", "minimum", "maximum_number", "round_to_integral", "absolute"],
)
@pytest.mark.parametrize("name", ["posit5", "hif8", "lns6_2", "halves", "beyond"])
def test_operations_are_the_oracles(name, operation):
    book, rng = BOOKS[name], np.random.default_rng(5)
    finite = np.array([float(value) for value in book.values])
    given = [rng.choice(finite, 100) for _ in range(OPERANDS[operation])]
    for rounding in (MODES[0], MODES[4], stochastic(8)):
        how = {"random": rng.integers(0, 256, 100, dtype=np.uint32)} if rounding.bits else {}
        how |= {"projection": asked(book, rounding, "none", {}), "dtype": np.uint8, "flags": True}
        engines_agree(getattr(lp, operation), *given, book, backends=("scalar", "oracle"), **how)


def test_posits_never_overflow_nor_vanish():
    values = np.array([1e300, -1e300, 1e-300, -1e-300, 0.0, -0.0, INFINITY, -INFINITY, NAN])
    assert lp.encode(values, "posit8").tolist() == [0x7F, 0x81, 0x01, 0xFF, 0, 0, 0x80, 0x80, 0x80]
    flags = np.empty(values.shape, np.uint8)
    lp.encode(values, "posit8", flags=flags)
    assert flags.tolist() == [1, 1, 1, 1, 0, 0, 16, 16, 0]


def test_posits_are_rounded_on_the_string_of_bits():
    """Between 65,536 and 262,144 lies 131,072, the posit of nine bits, not the middle."""
    values = np.array([65536, 131071, 131072, 131073, 163840, 262144], np.float32)
    assert lp.encode(values, "posit8").tolist() == [0x7C, 0x7C, 0x7C, 0x7D, 0x7D, 0x7D]


def test_hifloat8_is_rounded_as_its_published_goldens():
    """Of the unit tests of CANN's graph engine: words of binary32 and codes."""
    words = """3638c290 3698aeb6 36e515dd 371c2ff8 358b4f67 3f48849e 3cfdc7cd 3f112a2c 3f655965 3e2040ed
               43411383 438e0e21 42356389 43b308db 42536b25 4686c7e7 46e1ca4a 453d6d1b 462b0bbf 4743505e"""
    codes = "04 05 06 06 03 1d 54 19 1e 3a 4e 60 46 61 47 6c 6e 67 6b 6f"
    values = np.array([int(word, 16) for word in words.split()], np.uint32).view(np.float32)
    assert lp.encode(values, "hif8").tolist() == [int(code, 16) for code in codes.split()]
    border = np.array(
        [
            40960,
            np.nextafter(np.float32(40960), np.float32(0)),
            2.0**-23,
            np.nextafter(np.float32(2.0**-23), np.float32(0)),
        ],
        np.float32,
    )
    assert lp.encode(border, "hif8").tolist() == [0x6F, 0x6E, 0x01, 0x00]


def test_nf4_takes_the_lower_code_at_its_thresholds():
    book = lp.format("nf4")
    at = np.array([float(each) for each in book.thresholds], np.float32)
    above = np.nextafter(at, np.float32(2))
    assert lp.encode(at, "nf4").tolist() == list(range(15))
    assert lp.encode(above, "nf4").tolist() == list(range(1, 16))
    assert lp.encode(at, "nf4", rounding="nearest_away").tolist() == [*range(7), *range(8, 16)]


# -- order -----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", BOOKS)
def test_codes_are_ordered_as_the_oracle_orders_them(name):
    book = BOOKS[name]
    codes = np.arange(len(book.values), dtype=np.uint8)
    x, y = np.repeat(codes, codes.size)[:4000], np.tile(codes, codes.size)[:4000]
    values = [decode(int(code), book) for code in codes]
    compared = [order.compare(values[i], values[j]) for i, j in zip(x, y, strict=True)]
    flags = np.empty(x.shape, np.uint8)
    assert lp.less(x, y, book, flags=flags).tolist() == [each == -1 for each in compared]
    assert flags.tolist() == [16 * (each is None) for each in compared]
    assert lp.equal(x, y, book).tolist() == [each == 0 for each in compared]
    assert lp.unordered(x, y, book).tolist() == [each is None for each in compared]
    expected = [order.total_order(int(i), int(j), book) for i, j in zip(x, y, strict=True)]
    assert lp.total_order(x, y, book).tolist() == expected
    assert lp.classify(codes, book).tolist() == [int(order.classify(int(code), book)) for code in codes]


@pytest.mark.apart
@pytest.mark.parametrize("name", BOOKS)
def test_neighbours_and_gaps_are_the_oracles(name):
    book = BOOKS[name]
    finite = [value for value in book.values if math.isfinite(value)]
    points = np.array(
        [*finite, *(1.25 * value for value in finite[:20]), 0.0, -0.0, 0.01, -0.01, 1e30, -1e30]
    )
    toward = np.array([0.3, -2.0, INFINITY, -INFINITY, NAN, 1.0])
    x, y = (each.reshape(-1) for each in np.meshgrid(points, toward))
    found = lp.nextafter(x, y, book).astype(np.float64)
    for i in range(x.size):
        code = order.nextafter(from_float(x[i]), from_float(y[i]), book)
        expected = NAN if code is None else book.values[code]
        assert found[i] == expected or (code is None and math.isnan(found[i])), (x[i], y[i])
    gaps = lp.ulp(points, book)
    expected = [np.array(float(order.ulp(from_float(point), book)), gaps.dtype) for point in points]
    np.testing.assert_array_equal(gaps, expected)
    assert np.isnan(lp.ulp([INFINITY, NAN], book)).all()


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("name", ["posit8", "nf4", "iq4_nl"])
def test_a_nan_of_all_ones_is_looked_up_too(name, dtype):
    """No word lies behind the last step."""
    values = np.full(5000, -1, f"i{np.dtype(dtype).itemsize}").view(dtype)
    how = {"projection": lp.Projection(nan="max")}
    want = lp.encode(values[:1], name, backend="oracle", **how)[0]
    assert (lp.encode(values, name, backend="table", **how) == want).all()


test_what_cannot_be_is_refused = refusal_test(
    globals(),
    """
lp.encode([1.0], "posit8", projection=Projection(overflow_test="exponent"))
    ValueError: overflow_test='exponent' of a projection is for binary formats; 'posit8' is a codebook,
    which has no exponents. Leave it out
lp.encode([1.0], "posit8", projection=Projection(smallest="zero"))
    ValueError: smallest='zero' of a projection is for binary formats; 'posit8' is a codebook, which has
    no exponents. Leave it out
lp.encode([1.0], "posit8", projection=Projection(nan_code=256))
    ValueError: nan_code=0x100 of a projection is no code of 'posit8'; use 0 to 0xff
""",
)
