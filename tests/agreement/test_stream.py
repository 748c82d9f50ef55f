"""The memory-speed kernels against the general one, which the oracle checks: same codes, bit for bit.

Asking for flags takes the general kernel, so that each verb can be held against itself.
"""

import ml_dtypes
import numpy as np
import pytest

import lowprec as lp
from lowprec.arrays.checks import code_dtype
from lowprec.kernels.lower.vector import LIMITS, NEAREST, anywhere, lower_encoder, shapes
from lowprec.kernels.request import CONVERT, Elementwise
from lowprec.kernels.vector import program as vector
from lowprec.spec import catalog
from lowprec.spec.format import Format, Sign
from lowprec.spec.projection import Projection
from lowprec.spec.rounding import MODES, stochastic
from tests.support import UP_TO_8, assert_same_codes, engines_agree, most_apart, value_of

SOURCES = {
    "float32": catalog.BINARY32,
    "float64": catalog.BINARY64,
    "float16": catalog.BINARY16,
    "bfloat16": catalog.BFLOAT16,
}


def _spread(fmt, source, count=400, seed=1):
    """Patterns of a source: around a format's values and the midpoints between, specials, and random ones."""
    width, t = source.width, source.trailing_bits
    rng = np.random.default_rng([seed, fmt.width, fmt.trailing_bits])
    with np.errstate(all="ignore"):
        last = fmt.max_magnitude
        magnitudes = np.unique(
            np.concatenate([np.arange(0, min(last, 40) + 1), np.linspace(0, last, 60).astype(int)])
        )
        values = np.array([float(value_of(magnitude, fmt)) for magnitude in magnitudes.tolist()])
        values = np.concatenate(
            [values, (values[1:] + values[:-1]) / 2, values * 1.5, values[-1:] * [2, 4, 8]]
        )
        named = values.astype(
            np.dtype(getattr(ml_dtypes, source.name, {32: "f4", 64: "f8", 16: "f2"}[width]))
        )
    near = named.view(f"u{width // 8}").astype(object)
    limit = 1 << (width - 1)
    steps = [0, 1, -1, 2, -2, 1 << (t // 2), 1 << max(t - fmt.trailing_bits - 1, 0)]
    patterns = {int(bits) + step for bits in near for step in steps}
    infinity = source.infinity_code
    patterns |= {0, 1, 2, (1 << t) - 1, 1 << t, infinity - 1, infinity, infinity + 1, limit - 1}
    patterns |= {int(bits) for bits in rng.integers(0, limit, count, dtype=np.uint64)}
    kept = np.array(sorted(bits for bits in patterns if 0 <= bits < limit), np.uint64)
    both = np.concatenate([kept, kept | np.uint64(limit)]).astype(f"u{width // 8}")
    return both if fmt.has_nan else both[(both & (limit - 1)) <= infinity]


def _as(patterns, name):
    return patterns.view(np.dtype(getattr(ml_dtypes, name, name)))


def _both(values, fmt, projection, **options):
    """Hold codes and values of both kernels against each other; return whether the fast one did them."""
    for verb in (lp.encode, lp.quantize):
        engines_agree(verb, values, fmt, projection=projection, **options)
    source = catalog.carrier(values.dtype)
    return vector.lower(Elementwise(CONVERT, (source,), fmt, projection)) is not None


@pytest.mark.apart
@pytest.mark.parametrize("source", most_apart(SOURCES, ["float32", "float64"]))
def test_all_small_formats_in_all_modes(source):
    """142 formats, every mode and saturation in turn; all from binary32, a third from the others.

    Those of 16 bits, apart here, are held against the oracle as a whole in test_oracle_and_kernels.
    """
    served = 0
    formats = UP_TO_8 if source == "float32" else UP_TO_8[list(SOURCES).index(source) % 3 :: 3]
    for index, fmt in enumerate(formats):
        values = _as(_spread(fmt, SOURCES[source]), source)
        for mode, rounding in enumerate(MODES):
            saturation = ("none", "finite", "propagate")[(index + mode) % 3]
            served += _both(values, fmt, Projection(rounding=rounding, saturation=saturation))
    assert served > 0.9 * len(formats) * len(MODES)


@pytest.mark.parametrize(
    "name", ["binary16", "binary32", "bfloat16", "tf32", "binary12p5se", "binary16p9ue", "int8f6", "uint8"]
)
@pytest.mark.parametrize("source", ["float32", "float64"])
def test_wider_formats(name, source):
    """Those that have routes of their own, and those whose codes fill a word."""
    fmt = lp.format(name)
    values = _as(_spread(fmt, SOURCES[source]), source)
    for rounding in MODES:
        _both(values, fmt, Projection(rounding=rounding))


@pytest.mark.parametrize("bias", [104, 108, 112, 116])
def test_random_integers_that_decide_over_subnormal_operands(bias):
    """Tails that begin far below the last place: the integer that just takes them up, and one less."""
    fmt = Format(name="low", exponent_bits=7, trailing_bits=3, bias=bias)
    patterns = np.array(
        [1, 2, 3, 5, 1 << 10, (1 << 22) + 1, (1 << 23) - 1, 1 << 23, (1 << 23) + 5], np.uint32
    )
    smallest = fmt.emin - fmt.trailing_bits
    shares = [(int(bits) << 32 >> smallest + 149) for bits in patterns]  # in units of 2**-32
    values = patterns.view(np.float32)
    for less in (0, 1):
        integers = np.array([(1 << 32) - max(share, 1) - less for share in shares], np.uint32)
        projection = Projection(rounding=stochastic(32))
        _both(values, fmt, projection, random=integers)
        codes = lp.encode(values, fmt, projection=projection, random=integers)
        assert codes.tolist() == [int(not less and share > 0) for share in shares]


@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("bias", range(-124, -99))
def test_formats_whose_smallest_step_is_near_the_largest_numbers_of_binary32(bias, dtype):
    """Found by the laws: no binary32 number has that last place, and subnormals were read as tiny numbers."""
    fmt = lp.Format(name="high", exponent_bits=2, trailing_bits=1, bias=bias, nans=1)
    codes = np.arange(1 << fmt.width)
    assert engines_agree(lp.decode, codes, fmt, dtype=dtype)[1] == fmt.min_subnormal


@pytest.mark.parametrize("dtype", ["float32", "float64", "float16", "bfloat16"])
def test_decoding_every_code(dtype):
    """Every format of at most 16 bits is decoded to each type that holds its values."""
    wanted = np.dtype(getattr(ml_dtypes, dtype, dtype))
    compared = 0
    for fmt in dict.fromkeys(
        [*UP_TO_8, *catalog.FORMATS.values(), lp.format("binary10p3se"), lp.format("binary11p2uf")]
    ):
        if fmt.width > 16 or not SOURCES[dtype].contains(fmt):
            continue
        codes = np.arange(1 << fmt.width, dtype=code_dtype(fmt))
        engines_agree(lp.decode, codes, fmt, dtype=wanted)
        compared += 1
    assert compared > 50


def test_routes_that_use_the_processors_rounding_have_one_that_does_not():
    """The plan for threads in which the processor rounds otherwise gives the same codes."""
    for name in ("e4m3fn", "e5m2", "binary16", "e2m1fn"):
        fmt = lp.format(name)
        patterns = _spread(fmt, catalog.BINARY32)
        plan = vector.lower(Elementwise(CONVERT, (catalog.BINARY32,), fmt, Projection())).plan
        other = anywhere(plan)
        assert shapes(plan)[1][0] != LIMITS
        assert shapes(other)[1][0] == LIMITS
        want = lp.encode(patterns.view(np.float32), fmt)
        got = np.empty_like(want)
        vector.kernels(other, False)[1](other, np.empty(0, np.uint32), patterns, got)
        assert_same_codes(got, want, fmt, patterns)


def test_formats_whose_results_could_be_flushed_never_take_those_routes():
    """A result's or operand's subnormal number would be at the mercy of the process."""
    for fmt in UP_TO_8:
        words = lower_encoder(fmt, Projection(nan="max"))
        if words is not None and words[0] == NEAREST:
            assert fmt.emin - fmt.trailing_bits > -126


def test_unsigned_codes_of_32_bits_are_left_to_the_scalar_engine():
    """Vectors compare magnitudes as signed numbers: those of 32 bits would be below all others."""
    fmt = Format(
        name="m",
        exponent_bits=11,
        trailing_bits=21,
        bias=-7,
        sign=Sign.UNSIGNED,
        nans=2**32 - 3,
        infinity=True,
    )
    codes = np.array([0, 1, 2, 3, 2**31 - 1, 2**31, 2**32 - 1], np.uint32)
    got = lp.decode(codes, fmt).view(np.uint32).tolist()
    assert got == [0, 0x39000000, 0x7F800000, *[0x7FC00000] * 4]
    assert got == lp.decode(codes, fmt, backend="oracle").view(np.uint32).tolist()
