"""Operations in binary64, rounded to odd or by random integers there, against the scalar engine."""

from __future__ import annotations

import numpy as np
import pytest

import lowprec as lp
from lowprec.kernels.request import CONVERT, Elementwise
from lowprec.kernels.vector import program
from lowprec.kernels.vector.narrowed_program import Narrowed
from lowprec.kernels.vector.odd import OPERATIONS
from lowprec.kernels.vector.odd_program import Odd
from lowprec.spec import catalog
from lowprec.spec.arith import operands_of
from lowprec.spec.projection import Projection

SIZE = 4096
#: A minute of compilation: `.ci/run` has them in a step of its own.
pytestmark = pytest.mark.apart

FORMATS = ["binary32", "bfloat16", "binary16", "e4m3fn", "e5m2"]


def agree(verb, *operands, **options):
    """Results, and flags, are those of the scalar engine."""
    made = []
    for backend in (None, "scalar"):
        flags = np.zeros(SIZE, np.uint8)
        for given in ({}, {"flags": flags}):
            result = verb(*operands, backend=backend, **given, **options)
            made.append((result.view(f"u{result.itemsize}"), flags.copy()))
    for (got, raised), (want, wanted) in zip(made[:2], made[2:], strict=True):
        assert np.array_equal(got, want), options
        assert np.array_equal(raised, wanted), options


def numbers(seed, fmt=catalog.BINARY32):
    """Binary32 numbers of all sizes around a format's, zeros, and what is not finite."""
    rng = np.random.default_rng(seed)
    low, high = max(fmt.emin - 30, -149), fmt.emax + 2
    with np.errstate(over="ignore"):
        made = (rng.standard_normal(SIZE) * 2.0 ** rng.integers(low, high, SIZE)).astype(np.float32)
    made[::50], made[1::50], made[2::97], made[3::98] = 0, -0.0, np.nan, np.inf
    return made


@pytest.mark.parametrize("mode", ["stochastic(4)", "stochastic(26)", "stochastic(9, B)", "stochastic(1)"])
@pytest.mark.parametrize("operation", [name for name in OPERATIONS if name != CONVERT])
def test_operations_into_binary32(operation, mode):
    """Numbers of every size and of one; sums that cancel."""
    x, y, z = (numbers(seed) for seed in range(3))
    y[::3], z[::4] = x[::3], -x[::4]
    random = np.random.default_rng(3).integers(0, 1 << Projection(rounding=mode).rounding.bits, SIZE)
    near = [1 + np.arange(SIZE, dtype=np.float32) * np.float32(2.0**-23), x, z]
    for operands in ((np.abs(x), y, z), (x, z, y), near):
        agree(
            getattr(lp, operation),
            *operands[: operands_of(operation)],
            "binary32",
            rounding=mode,
            random=random.astype(np.uint32),
        )


@pytest.mark.parametrize("name", FORMATS)
@pytest.mark.parametrize("mode", ["stochastic(32)", "stochastic(4)", "stochastic(20, B)", "stochastic(3, C)"])
def test_conversions_of_binary64_numbers(name, mode):
    """Every tail in units of 2**-5, at the largest and the smallest numbers too, with each random integer."""
    fmt, rounding = lp.format(name), Projection(rounding=mode).rounding
    rng = np.random.default_rng(0)
    for at in (1.0, fmt.max_finite, float(fmt.min_normal), 3 * 2.0 ** (fmt.emin - fmt.trailing_bits), 0.0):
        gap = 2.0 ** (max(np.frexp(at)[1] - 1, fmt.emin) - fmt.trailing_bits)
        tails = np.repeat(np.arange(64), 64) / 32 + rng.choice([0, 2.0**-20, -(2.0**-20)], SIZE)
        x = (at + gap * tails) * rng.choice([1, -1], SIZE)
        random = np.tile(np.arange(64), 64) % (1 << min(rounding.bits, 31))
        random = random << max(0, rounding.bits - 6)
        for saturation in ("none", "finite"):
            for verb in (lp.encode, lp.quantize):
                agree(verb, x, fmt, rounding=mode, saturation=saturation, random=random.astype(np.uint32))


@pytest.mark.parametrize("name", ["int8", "int8f6", "int4"])
@pytest.mark.parametrize("mode", ["stochastic(32)", "stochastic(5)", "stochastic(20, B)"])
def test_fixed_point_numbers_are_drawn(name, mode):
    """Every tail in units of 2**-5 beside zero and both extreme numbers, with each random integer."""
    fmt, rounding = lp.format(name), Projection(rounding=mode).rounding
    step = 2.0 ** fmt.scaled(1)[1]
    random = (np.tile(np.arange(64), 64) % (1 << min(rounding.bits, 6)) << max(0, rounding.bits - 6)).astype(
        "u4"
    )
    for at in (0.0, fmt.max_finite, fmt.min_finite, 3 * fmt.max_finite, 1e30):
        x = at + np.repeat(np.arange(-32, 32) / 16, 64) * step + 2.0**-40
        for operands in ((x,), (x.astype(np.float32), np.float64(step) * random)):
            verb = lp.encode if len(operands) == 1 else lp.add
            agree(verb, *operands, fmt, rounding=mode, saturation="finite", random=random)


def test_the_largest_numbers_stay_finite():
    """They are far beyond the formats, but no infinities."""
    largest = np.finfo(np.float64).max
    x = np.tile([largest, -largest, np.nextafter(largest, 0), np.inf], SIZE // 4)
    for name in ("binary32", "e5m2"):
        for saturation in ("none", "propagate", "finite"):
            random = np.full(SIZE, (1 << 26) - 1, np.uint32)
            agree(lp.encode, x, name, rounding="stochastic(26)", saturation=saturation, random=random)


@pytest.mark.parametrize("name", FORMATS)
def test_numbers_drawn_by_key(name):
    """Random integers of `rng` are those of the same places."""
    for operands in ((numbers(1).astype(np.float64), numbers(2)), (numbers(3), numbers(4))):
        agree(lp.add, *operands, name, rounding="stochastic(23)", rng=5)
        agree(
            lp.encode, operands[0].astype(np.float64) * (1 + 2.0**-40), name, rounding="stochastic(32)", rng=5
        )


def doubles(seed, spread):
    """Binary64 numbers of 53 bits, of many sizes, and what is not finite; some beside numbers of 8 bits."""
    rng = np.random.default_rng(seed)
    made = rng.standard_normal(SIZE) * 2.0 ** rng.integers(-spread, spread, SIZE)
    near = np.ldexp(rng.integers(257, 512, SIZE).astype(np.float64), rng.integers(-spread, spread, SIZE))
    made = np.where(rng.random(SIZE) < 0.5, near * (1 + rng.integers(-2, 3, SIZE) * 2.0**-52), made)
    made[::50], made[1::50], made[2::97], made[3::98] = 0, -0.0, np.nan, np.inf
    return made


@np.errstate(all="ignore")
@pytest.mark.parametrize(
    "mode", ["nearest_even", "toward_zero", "toward_negative", "to_odd", "stochastic(9)"]
)
@pytest.mark.parametrize("operation", [name for name in OPERATIONS if name != CONVERT])
def test_operands_that_binary64_alone_holds(operation, mode):
    """Results next to ties by the last bit of binary64 or less, sums that cancel, and every size there is."""
    verb, count = getattr(lp, operation), operands_of(operation)
    for spread in (3, 60, 500):
        x, y, z = (doubles(seed, spread) for seed in range(3))
        x = np.abs(x) if operation == "sqrt" else x
        y[::3], z[::4] = -x[::3], -(x * y)[::4]
        exact = np.ldexp(np.arange(SIZE) + 0.5, -8) * (1 + 2.0**-52)
        operands = [(x, y, z), (exact, np.full(SIZE, 1 + 2.0**-52), z), (exact.astype(np.float32), y, z)]
        for some in operands:
            for name in FORMATS:
                rng = 3 if mode.startswith("stochastic") else None
                agree(verb, *some[:count], name, rounding=mode, rng=rng)


def test_vectors_serve_them():
    """As far as 53 bits tell the tail; and not by thresholds that depend on more."""
    single, double, brain = catalog.BINARY32, catalog.BINARY64, catalog.BFLOAT16

    def served(operation, source, target, mode, **rule):
        request = Elementwise(operation, (source,), target, Projection(rounding=mode, **rule))
        made = program.lower(request)
        return isinstance(made.own if isinstance(made, Narrowed) else made, Odd)

    assert served("sqrt", single, single, "stochastic(28)")
    assert served(CONVERT, double, brain, "stochastic(32)")
    assert served("sqrt", double, brain, "toward_zero")
    assert not served("sqrt", double, double, "nearest_even")
    assert not served("sqrt", double, brain, "toward_negative")
    for request in (
        ("sqrt", single, single, "stochastic(29)"),
        ("sqrt", single, single, "stochastic(28, B)"),
        ("sqrt", single, single, "stochastic(8, C)"),
        (CONVERT, double, catalog.E4M3FNUZ, "stochastic(32)"),
        (CONVERT, double, catalog.E8M0FNU, "stochastic(32)"),
    ):
        assert not served(*request)
    assert not served(CONVERT, double, brain, "stochastic(32)", subnormals="flush_results")
