"""Products of matrices by vectors and lanes: the codes of the scalar kernels, which the oracle checks.

And that these do them: what is left to the scalar kernels is counted.
"""

import contextlib
import dataclasses
import itertools
from fractions import Fraction
from typing import get_args

import ml_dtypes
import numba
import numpy as np
import pytest

import lowprec as lp
from lowprec.kernels import engine
from lowprec.kernels.dots import DotProgram
from lowprec.kernels.general import sums_program
from lowprec.kernels.general.sums_program import Sums, Windows
from lowprec.kernels.vector.rounding import added_once, summed_to_odd, three_to_odd
from lowprec.oracle.convert import project
from lowprec.spec import catalog
from lowprec.spec.accumulation import Accumulation, Cut, Window
from lowprec.spec.accumulations import accumulation
from lowprec.spec.block import BlockFormat
from lowprec.spec.families import ieee
from lowprec.spec.format import Format, Sign
from lowprec.spec.projection import Projection
from lowprec.spec.rounding import MODES, TOWARD_NEGATIVE, TOWARD_ZERO

#: Each program has kernels of its own.
pytestmark = pytest.mark.apart

MXFP8_STEPS = "blackwell_tcgen05_e5m2_binary32_e8m0fnu_1"
BLOCKS = ("mxfp8_e4m3", "mxfp8_e5m2", "mxfp6_e2m3", "mxfp6_e3m2", "mxfp4_e2m1", "mxint8", "nvfp4")


def numbers(shape, seed, spread=6):
    """Numbers of many sizes, some zeros, and rows whose second half takes back the first."""
    rng = np.random.default_rng(seed)
    made = rng.standard_normal(shape) * 2.0 ** rng.integers(-spread, spread, shape)
    made[rng.random(shape) < 0.1] = 0
    half = shape[1] // 2
    made[::2, half : 2 * half] = -made[::2, :half]
    return made.astype(np.float32)


def _fraction(number):
    return Fraction(float(number))


@pytest.fixture
def left(monkeypatch):
    """Count the outputs that the scalar kernels make, and those of windows that 64-bit lanes make."""
    counted, serve = {"scalar": 0, "windows": 0}, DotProgram.run

    def counting(program, x, y, addends, out, *others):
        if not isinstance(program, Sums):
            counted["windows" if isinstance(program, Windows) else "scalar"] += out.size
        serve(program, x, y, addends, out, *others)

    monkeypatch.setattr(DotProgram, "run", counting)
    return counted


@contextlib.contextmanager
def one_output_at_a_time():
    """Let `backend="scalar"` name the scalar kernels alone; but windows are 64-bit lanes' alone."""

    def windows_alone(request, lower=sums_program.lower):
        program = lower(request)
        return program if isinstance(program, Windows) else None

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(sums_program, "lower", windows_alone)
        engine.lower_by.cache_clear()
        yield
    engine.lower_by.cache_clear()


def agree(left, x, y, how, most=0, **options):
    """Lanes have the results of the other kernels, of windows in 64-bit lanes the oracle's.

    The scalar kernels made at most `most` of them.
    """
    left.update(scalar=0, windows=0)
    got = lp.matmul(x, y, how, **options)
    assert left["scalar"] <= most, (left, got.size)
    other = "oracle" if left["windows"] else "scalar"
    if other == "oracle" and got.size > 100:  # which is slow: every third row and fifth column of them
        if np.ndim(options.get("addend", 0)):
            options["addend"] = np.broadcast_to(options["addend"], got.shape)[::3, ::5]
        x, y, got = x[::3], y[:, ::5], got[::3, ::5]
    with one_output_at_a_time():
        want = lp.matmul(x, y, how, backend=other, **options)
    bits = f"u{got.itemsize}"
    assert np.array_equal(np.asarray(got).view(bits), np.asarray(want).view(bits)), how


@pytest.mark.parametrize("length", [1, 2, 3, 7, 8, 21, 64])
@pytest.mark.parametrize("name", ["fp32_pairwise", "fp64_sequential", "bf16_sequential", "fp16_sequential"])
def test_running_sums_of_binary32_numbers(left, name, length):
    """With an addend and without; in pairs every number of terms has a tree of its own.

    More columns than go through a loop together, and rows that such groups of them do not divide.
    """
    x, y = numbers((7, length), length), numbers((131, length), length + 1).T
    agree(left, x, y, name)
    agree(left, x, y, name, addend=numbers((7, 131), 5))


@pytest.mark.parametrize("mode", MODES, ids=str)
@pytest.mark.parametrize("saturation", ["none", "finite"])
def test_accumulators_of_any_format_and_mode(left, mode, saturation):
    """A sum is rounded to odd in binary64, and then as casts round."""
    x, y = numbers((5, 20), 1, 3), numbers((33, 20), 2, 3).T
    for fmt in (catalog.BINARY16, catalog.BFLOAT16, catalog.E5M2, catalog.E4M3FN, ieee("e5m12", 5, 12)):
        rule = Projection(rounding=mode, saturation=saturation)
        how = Accumulation(name="m", accumulator=(fmt, rule), output=(fmt, Projection()))
        agree(left, x, y, how)


def test_ties_of_narrow_accumulators(left):
    """Sums on ties of bfloat16 and beside them, by less than binary32 shows."""
    one, tiny = np.float32(1), np.float32(2.0**-60)
    rows = [[one, 2.0**-8, tail] for tail in (0, tiny, -tiny)] + [
        [-one, -(2.0**-8), tail] for tail in (tiny, -tiny)
    ]
    x = np.array(rows, np.float32)
    agree(left, x, np.ones((3, 1), np.float32), "bf16_sequential")
    products = np.array([[one, 1 + 2.0**-9], [one, 1 - 2.0**-9]], np.float32)
    agree(left, products, np.array([[1.0], [2.0**-8]], np.float32), "bf16_sequential")


@numba.njit
def summed(total, term, rest):
    return added_once(total, term, rest)


def test_a_sum_is_rounded_once():
    """What binary64 rounds onto a tie of binary32 goes where the exact sum is, in each binade."""
    rng = np.random.default_rng(0)
    for _ in range(300):
        total = np.float32(
            rng.choice([1, -1]) * (1 + rng.integers(0, 3) * 2.0**-23) * 2.0 ** rng.integers(-20, 20)
        )
        half = float(np.spacing(total)) / rng.choice([2, 4])
        for tail in (0.0, 2.0**-40, 2.0**-80, 2.0**-200):
            for sign in (1, -1):
                for term, rest in (
                    (half * (1 + sign * tail), 0.0),
                    (half, sign * half * tail),
                    (-half, half * tail),
                ):
                    exact = catalog.BINARY32
                    want = project(_fraction(total) + _fraction(term) + _fraction(rest), exact)
                    got = summed(total, np.float64(term), np.float64(rest))
                    assert int(np.float32(got).view(np.uint32)) == want, (total, term, rest)


@pytest.mark.parametrize("name", ["fp32_fma", "fp32_sequential", "fp32_pairwise", "exact"])
@pytest.mark.parametrize("fmt", BLOCKS)
def test_blocks(left, fmt, name):
    """Exact sums of blocks, times both scales; with an addend where that may be."""
    x = lp.encode(numbers((6, 96), 3, 12), fmt, axis=1)
    y = lp.encode(numbers((35, 96), 4, 12).T, fmt, axis=0)
    most = 0 if name != "exact" else 20  # zeros, whose sign vectors do not know
    agree(left, x, y, name, most)
    if name != "exact" and fmt != "nvfp4":
        agree(left, x, y, name, addend=numbers((6, 35), 9))


@pytest.mark.parametrize("size", [32, 64, 128])
def test_the_least_product_of_a_block_counts(left, size):
    """Where binary32 holds a block's sum, where binary64 must, and where it takes two or more of these."""
    short = lp.BlockFormat(name="short", element=catalog.E3M2FN, scale=catalog.E8M0FNU, size=size)
    x, y = np.full((2, size), 28.0, np.float32), np.full((size, 3), 28.0, np.float32)
    x[:, -1], y[-1] = 2.0**-4, 2.0**-4
    blocks = lp.encode(x, short, axis=1), lp.encode(y, short, axis=0)
    addend = np.full((2, 3), -784.0 * (size - 1), np.float32)
    for name in ("fp32_fma", "fp64_sequential"):
        agree(left, *blocks, name, addend=addend)
        assert (lp.matmul(*blocks, name, addend=addend) == 2.0**-8).all()
    for element, steps in ((catalog.E5M2, (15, -16)), (catalog.BINARY16, (15, -20))):
        wide = lp.BlockFormat(name="wide", element=element, scale=catalog.E8M0FNU, size=size)
        x, y = np.zeros((2, 2 * size), np.float32), np.zeros((2 * size, 3), np.float32)
        x[:, :2], x[:, 2] = 2.0 ** steps[0], 2.0 ** steps[1]
        y[:2], y[2] = 2.0 ** steps[0], 2.0 ** steps[1]
        # The first block's sum, 2**31 and a little, is more than half a unit of the sum before.
        for name, bits, result in (("fp32_fma", 55, 2.0**32), ("fp64_sequential", 84, 2.0**32)):
            x[:, size], y[size] = -(2.0 ** (bits // 2)), 2.0 ** (bits - bits // 2)
            blocks = lp.encode(x, wide, axis=1), lp.encode(y, wide, axis=0)
            addend = np.full((2, 3), 2.0**bits, np.float32)
            agree(left, *blocks, name, addend=addend)
            assert (lp.matmul(*blocks, name, addend=addend) == result).all()


def test_blocks_of_zeros(left):
    """Their scale, the smallest there is, makes no sum too small for vectors."""
    x, y = numbers((6, 128), 3, 4), numbers((35, 128), 4, 4).T
    x[:, 32:64], x[2], y[64:96, 5] = 0, 0, 0
    for fmt in ("mxfp8_e4m3", "mxfp4_e2m1"):
        blocks = lp.encode(x, fmt, axis=1), lp.encode(y, fmt, axis=0)
        assert blocks[0].scales.min() == 0
        agree(left, *blocks, "fp32_fma")
        agree(left, *blocks, "fp32_sequential", most=2, addend=numbers((6, 35), 9))  # of -0


def test_blocks_of_different_formats_and_sizes(left):
    """The smaller blocks count; and a tensor's scale, which multiplies the sum."""
    x = lp.encode(numbers((4, 64), 3), "mxfp8_e5m2", axis=1)
    y = lp.encode(numbers((9, 64), 4).T, "mxfp4_e2m1", axis=0)
    z = lp.encode(numbers((9, 64), 5).T, "nvfp4", axis=0)
    for other in (y, z, lp.quantize(numbers((9, 64), 5).T, "e4m3fn")):
        agree(left, x, other, "fp32_fma")


@pytest.mark.parametrize("spread", [1, 10, 20, 60])
def test_exact_sums_of_any_range(left, spread):
    """In one product of matrices, in several of slices, and where those were too many by integers."""
    x, y = numbers((6, 24), 3, spread), numbers((35, 24), 4, spread).T
    agree(left, x, y, "exact", most=6 * 35 if spread == 60 else 0)
    how = dataclasses.replace(
        accumulation("exact"), output=(catalog.E4M3FN, Projection(rounding=TOWARD_ZERO, saturation="finite"))
    )
    agree(left, x, y, how, most=6 * 35 if spread == 60 else 0)


def test_exact_sums_that_binary64_rounds_to_a_tie(left):
    """The least product decides: a bound of the error says that binary64 does not, and slices do."""
    x = np.zeros((3, 200), np.float32)
    x[:, [0, 90, 199]] = [
        [1, 2.0**-12, 2.0**-40],
        [1, 2.0**-12, -(2.0**-40)],
        [2.0**60, 2.0**-60, -(2.0**60)],
    ]
    y = np.abs(x).T.copy()
    assert lp.matmul(x, y, "exact")[:2, 0].tolist() == [1 + 2.0**-23, 1.0]
    for output in ("binary32", "bfloat16", "e5m2"):
        how = dataclasses.replace(accumulation("exact"), output=(catalog.format(output), Projection()))
        agree(left, x, y, how)
        agree(left, np.tile(x, (40, 1)), y, how)


@pytest.mark.parametrize("output", ["binary32", "bfloat16"])
def test_products_with_the_scales_of_tensors_are_rounded_once(left, output):
    """Where the product of the scales has more bits than binary64 gives it, too."""
    rng = np.random.default_rng(5)
    x, y = (rng.standard_normal((40, 32)).astype(np.float32) for _ in range(2))
    x[3], y[7] = 0, 0
    how = dataclasses.replace(accumulation("fp32_fma"), output=(catalog.format(output), Projection()))
    agree(left, lp.encode(x, "nvfp4"), lp.encode(y.T, "nvfp4", axis=0), how)


SPECIALS = ("exact", "hopper_wgmma_e5m2_binary32", "fp64_sequential", "bf16_sequential", "fp16_sequential")


@pytest.mark.parametrize("name", [*SPECIALS, "fp32_fma", "fp32_sequential", "fp32_pairwise"])
def test_positive_nans_leave_nothing_to_the_scalar_engine(left, name):
    """Nor do infinities where no sum overflows; of a negative NaN its row or column is left."""
    x, y = (lp.quantize(numbers(shape, 3), "e5m2") for shape in ((40, 32), (32, 50)))
    x[3, 5] = y[7, 9] = np.nan
    agree(left, x, y, name)
    x[2, 4] = y[3, 7] = np.inf
    agree(left, x, y, name, most=49 + 39 if name == "fp16_sequential" else 0)
    x[8, 5] = -np.nan
    agree(left, x, y, name, most=3 * 50 + 2 * 40)


@pytest.mark.parametrize("seed", range(4))
@pytest.mark.parametrize("name", SPECIALS)
def test_specials_at_random(left, name, seed):
    """Zeros that meet infinities, infinities of both signs, NaNs, and numbers that overflow beside them."""
    rng = np.random.default_rng(seed)
    for often in (0.003, 0.05):
        x, y = numbers((40, 16), seed), numbers((16, 50), seed + 9)
        for side in (x, y):
            for value in (np.inf, -np.inf, np.nan, *([-np.nan] if seed == 3 else [])):
                side[rng.random(side.shape) < often] = value
            if seed == 2:
                side[rng.random(side.shape) < 0.1] = 2.0**63
        for fmt in ["e5m2"] if name.startswith("hopper") else ["e5m2", "bfloat16", "binary32"]:
            agree(left, lp.quantize(x, fmt), lp.quantize(y, fmt), name, most=2000)


@pytest.mark.long
def test_one_infinity_of_another_sign_counts_among_very_many():
    """Binary32 does not count so many: there the sum of their signs is the number of them."""
    x = np.full((1, (1 << 25) + 2), np.inf, np.float32).astype(ml_dtypes.float8_e5m2)
    y = np.ones(x.T.shape, np.float32).astype(ml_dtypes.float8_e5m2)
    assert lp.matmul(x, y, "exact") == np.inf
    y[y.size // 2] = -1
    assert np.isnan(lp.matmul(x, y, "exact"))


@pytest.mark.parametrize("negative", ["nan", "zero", "drop_sign"])
@pytest.mark.parametrize("order", ["sequential", "pairwise", "chunked(3)"])
def test_infinities_in_accumulators_without_a_sign(left, order, negative):
    """A negative infinity is no infinity there: what it becomes is the projection's."""
    fmt = Format(
        name="unsigned",
        exponent_bits=8,
        trailing_bits=10,
        bias=127,
        nans=1,
        infinity=True,
        sign=Sign.UNSIGNED,
    )
    place = (fmt, Projection(negative=negative))
    x, y = np.abs(numbers((9, 8), 1)), numbers((8, 40), 2)
    x[2, 3], y[5, 7], y[1, 3], x[4, 4] = np.inf, -np.inf, np.inf, np.nan
    for product in (None, place):
        how = Accumulation(
            name="m", accumulator=place, product=product, order=order, output=(catalog.BINARY32, Projection())
        )
        agree(left, x, y, how, most=9 * 40)


def test_accumulators_that_have_no_nan_or_infinity(left):
    """A NaN becomes a number there, or an infinity the largest one: nothing is decided by the operands."""
    x, y = numbers((9, 8), 1), numbers((8, 40), 2)
    x[3, 2], y[5, 7], x[4, 1], y[6, 30] = np.nan, np.nan, np.inf, -np.inf
    for fmt, rule in (
        (catalog.BFLOAT16, Projection(saturation="finite")),
        (catalog.BINARY16, Projection(saturation="propagate")),
        (catalog.BINARY16, Projection(nan_code=0)),
        (catalog.BFLOAT16, Projection(nan_code=0x8000)),
        (catalog.E4M3FN, Projection()),
        (catalog.E2M1FN, Projection(nan="max")),
    ):
        how = Accumulation(name="m", accumulator=(fmt, rule), output=(catalog.BINARY32, Projection()))
        agree(left, x, y, how, most=9 * 40)


@pytest.mark.parametrize("name", ["fp32_fma", "fp32_pairwise", "exact", "bf16_sequential"])
def test_types_that_binary32_holds_cost_the_same(left, name):
    """float64 and integers of values that binary32 has; others are left to the scalar engine."""
    x, y = numbers((4, 12), 3), numbers((12, 35), 4)
    for a in (x.astype(np.float64), np.arange(48, dtype=np.int64).reshape(4, 12)):
        agree(left, a, y, name)
    agree(left, x.astype(np.float64) + 2.0**-60, y, name, most=4 * 35)


def test_sums_that_could_become_a_negative_zero_are_left(left):
    """Tiny scales, and addends of -0."""
    x = lp.encode(numbers((3, 32), 3) * np.float32(2.0**-70), "mxfp4_e2m1", axis=1)
    y = lp.encode(numbers((33, 32), 3).T * np.float32(2.0**-70), "mxfp4_e2m1", axis=0)
    agree(left, x, y, "fp32_fma", most=99)
    zeros = lp.encode(-np.zeros((3, 32), np.float32), "mxfp4_e2m1", axis=1)
    agree(left, zeros, lp.encode(numbers((33, 32), 3).T, "mxfp4_e2m1", axis=0), "fp32_fma", most=99,
          addend=np.full((3, 33), -0.0))  # fmt: skip


def test_downward_sums_of_opposite_numbers(left):
    """Exact zeros are -0."""
    how = Accumulation(
        name="m", accumulator=(catalog.BINARY16, Projection(rounding=TOWARD_NEGATIVE)),
        output=(catalog.BINARY32, Projection()),
    )  # fmt: skip
    agree(left, np.float32([[1, -1], [2, 2], [0, -0.0]]), np.ones((2, 33), np.float32), how)


def test_sums_of_blocks_of_a_wide_range(left):
    """Two binary64 numbers hold them up to some range; beyond it they would lose the smallest term."""
    fmt = BlockFormat(name="m", element=catalog.BFLOAT16, scale=catalog.E8M0FNU, size=8)
    codes = np.zeros((1, 8), np.uint16)
    for least, most in ((10, 0), (-40, 1)):
        terms = [2.0**100, 2.0**30, 2.0**least, -(2.0**100), -(2.0**30)]
        codes[0, :5] = lp.encode(terms, "bfloat16")
        x = lp.BlockArray(codes, np.full((1, 1), 127, np.uint8), fmt, (1,))
        ones = np.full((8, 1), 0x3F80, np.uint16)
        y = lp.BlockArray(ones, np.full((1, 1), 127, np.uint8), fmt, (0,))
        agree(left, x, y, "fp32_fma", most)
        assert lp.matmul(x, y, "fp32_fma").tolist() == [[2.0**least]]


def test_negative_scales_tell_whether_sums_are_too_small(left):
    """A sum that is rounded to -0 stays that where only products of -0 follow."""
    fmt = BlockFormat(name="m", element=catalog.E2M1FN, scale=catalog.BFLOAT16, size=4)
    scales = lp.encode([[-(2.0**-80), 1.0]], "bfloat16")
    x = lp.BlockArray(np.array([[2, 0, 0, 0, 8, 8, 8, 8]], np.uint8), scales, fmt, (1,))
    y = lp.BlockArray(np.full((8, 1), 2, np.uint8), lp.encode([[2.0**-80], [1.0]], "bfloat16"), fmt, (0,))
    agree(left, x, y, "fp32_fma", most=1)
    assert np.signbit(lp.matmul(x, y, "fp32_fma")).all()


def test_a_nan_that_rounding_made_comes_first(left):
    """Of a product that a format has no value for: its sign counts, not that of a NaN operand after it."""
    zeroless = Format(exponent_bits=7, trailing_bits=20, bias=63, nans=3, infinity=True, subnormals=False)
    narrow, y = (catalog.E4M3FN, Projection()), np.array([[1], [-1], [2]] * 40, np.float32)
    for first, how in (
        (-0.0, Accumulation(product=(zeroless, Projection()), accumulator=SINGLE, output=SINGLE)),
        (-1000, Accumulation(product=narrow, accumulator=SINGLE, output=SINGLE)),
        (-1000, Accumulation(order="chunked(2)", accumulator=SINGLE, total=narrow, output=SINGLE)),
    ):
        x = np.resize(np.float32([first, 1, np.nan]), (9, 120))
        agree(left, x, y, how, most=9)
        want = lp.matmul(x, y, how, backend="oracle")
        assert np.array_equal(lp.matmul(x, y, how).view(np.uint32), want.view(np.uint32))
        assert np.signbit(want).all()


def test_a_nan_scale_elsewhere_hides_no_sums_that_are_too_small(left):
    """As above; the blocks of another row have a scale of NaN."""
    fmt = catalog.block_format("mxfp4")
    one, minus_zero = 2, 8
    codes = np.zeros((2, 64), np.uint8)
    codes[0, 0], codes[0, 32:] = minus_zero | one, minus_zero
    x = lp.BlockArray(codes, np.array([[0, 127], [255, 127]], np.uint8), fmt, (1,))
    y = lp.BlockArray(np.full((64, 1), one, np.uint8), np.array([[0], [127]], np.uint8), fmt, (0,))
    agree(left, x, y, "fp32_fma", most=2)
    assert np.signbit(lp.matmul(x, y, "fp32_fma")[0]).all()


# -- step by step --------------------------------------------------------------------------------------

SINGLE, HALF = (catalog.BINARY32, Projection()), (catalog.BINARY16, Projection())
CUT = (catalog.BFLOAT16, Projection(rounding=TOWARD_ZERO))
E4M3 = (catalog.E4M3FN, Projection(saturation="finite", subnormals="flush_results"))

#: Accumulations that no loop over terms has, in every order.
STEPPED = {
    "pairs of products": Accumulation(product=HALF, order="pairwise", accumulator=CUT, output=SINGLE),
    "pairs of exact products": Accumulation(order="pairwise", accumulator=HALF, output=SINGLE),
    "chunks": Accumulation(order="chunked(5)", accumulator=SINGLE, output=HALF),
    "chunks of pairs": Accumulation(
        product=SINGLE, order="chunked(3, pairwise)", accumulator=HALF, total=SINGLE, output=SINGLE
    ),
    "chunks into binary64": Accumulation(
        order="chunked(4)", accumulator=CUT, total=(catalog.BINARY64, Projection()), output=SINGLE
    ),
    "rounded products": Accumulation(product=E4M3, accumulator=E4M3, output=SINGLE),
    "rounded products in binary64": Accumulation(
        product=SINGLE, accumulator=(catalog.BINARY64, Projection()), output=CUT
    ),
    "toward zero in binary32": Accumulation(
        accumulator=(catalog.BINARY32, Projection(rounding=TOWARD_ZERO)), output=SINGLE
    ),
}


@pytest.mark.parametrize("length", [1, 2, 7, 16])
@pytest.mark.parametrize("how", STEPPED.values(), ids=STEPPED)
def test_any_order_and_accumulator(left, how, length):
    """Sums of products, with an addend and without, in trees and chunks of every shape."""
    x, y = numbers((6, length), length, 3), numbers((37, length), length + 1, 3).T
    agree(left, x, y, how)
    agree(left, x, y, how, addend=numbers((6, 37), 5))


@pytest.mark.parametrize("mode", MODES, ids=str)
def test_modes_of_steps(left, mode):
    """Exact zeros have the mode's sign."""
    x, y = numbers((6, 12), 1, 3), numbers((37, 12), 2, 3).T
    for fmt in (catalog.BINARY16, catalog.BINARY32):
        place = (fmt, Projection(rounding=mode))
        for order in ("pairwise", "chunked(4)"):
            agree(left, x, y, Accumulation(product=place, order=order, accumulator=place, output=place))


@pytest.mark.parametrize("fmt", BLOCKS)
@pytest.mark.parametrize(
    "how",
    ["fp64_sequential", "fp32_pairwise", "bf16_sequential", "fp16_sequential", *STEPPED.values()],
    ids=["fp64", "fp32_pairwise", "bf16", "fp16", *STEPPED],
)
def test_blocks_step_by_step(left, fmt, how):
    """Their exact sums are terms: of one binary64 number, or of two."""
    x = lp.encode(numbers((6, 192), 3, 8), fmt, axis=1)
    y = lp.encode(numbers((35, 192), 4, 8).T, fmt, axis=0)
    order = accumulation(how).order
    pairs = "pairwise" in (order.name, order.inner)
    most = 40 if pairs else 8  # zeros, whose sign vectors do not know
    if how is STEPPED["pairs of exact products"] and fmt == "mxfp8_e5m2":
        most = 6 * 35  # sums of four numbers
    if pairs and fmt == "nvfp4" and how != "fp32_pairwise":
        most = 6 * 35  # they overflow, and sums of opposite infinities are NaN
    agree(left, x, y, how, most)
    if fmt != "nvfp4":
        agree(left, x, y, how, most, addend=numbers((6, 35), 9))


@pytest.mark.parametrize(
    "how", ["fp64_sequential", "fp32_pairwise", "bf16_sequential", "fp32_fma", "exact", MXFP8_STEPS]
)
def test_blocks_that_are_not_finite(left, how):
    """Neither NaN scales, which NaNs and infinities make, nor NaN elements are left to the scalar engine."""
    x, y = numbers((9, 64), 3), numbers((35, 64), 4).T
    x[2, 7], x[4, 40], y[9, 3] = np.nan, np.inf, -np.inf
    a, b = lp.encode(x, "mxfp8_e5m2", axis=1), lp.encode(y, "mxfp8_e5m2", axis=0)
    agree(left, a, b, how)
    codes, scales = a.codes.copy(), a.scales.copy()
    codes[1, 5], scales[6, 1] = 0x7F, 0xFF
    agree(left, lp.BlockArray(codes, scales, a.format, (1,)), b, how)
    codes[8, 50] = 0x7C
    agree(left, lp.BlockArray(codes, scales, a.format, (1,)), b, how, most=35)


def test_signs_of_zero_sums_of_blocks(left):
    """Sums of -0 alone are -0, whichever sign the vectors' sums have."""
    x = lp.encode(-np.zeros((2, 64), np.float32), "mxfp8_e5m2", axis=1)
    y = lp.encode(np.ones((33, 64), np.float32).T, "mxfp8_e5m2", axis=0)
    for name in ("fp64_sequential", "fp32_pairwise", "bf16_sequential"):
        agree(left, x, y, name, most=66)
        agree(left, x, y, name, most=66, addend=np.full((2, 33), -0.0, np.float32))
    assert np.signbit(lp.matmul(x, y, "fp32_pairwise")).all()


@pytest.mark.parametrize("count", [1, 2, 3, 7])
def test_signs_of_zero_sums_of_blocks_in_pairs(left, count):
    """They are +0 where a single product is not -0, and no such output is left to the scalar engine."""
    rng = np.random.default_rng(count)
    x = np.where(rng.random((4, 32 * count)) < 0.5, -0.0, 0.0).astype(np.float32)
    y = np.where(rng.random((32 * count, 35)) < 0.5, -1.0, 1.0).astype(np.float32)
    x[0], x[1], y[:, 0] = -0.0, 0.0, -1.0
    x[3, :2], y[:2, 1:] = (1, -1), 2
    blocks = lp.encode(x, "mxfp8_e5m2", axis=1), lp.encode(y, "mxfp8_e5m2", axis=0)
    agree(left, *blocks, "fp32_pairwise", most=1)
    made = lp.matmul(*blocks, "fp32_pairwise")
    assert (made == 0).all()
    assert np.argwhere(np.signbit(made)).tolist() == [[1, 0]]


@pytest.mark.parametrize("name", ["fp32_pairwise", "fp32_sequential", "fp64_sequential"])
@pytest.mark.parametrize(
    ("codes", "scales"),
    [([0xA] + [2] * 15, 0), ([0] * 16, 0xB8), ([0] * 16, 0x80), ([0xA] + [2] * 15, 0x80)],
    ids=["zero", "negative, of zeros", "-0, of zeros", "-0"],
)
def test_signs_of_zero_sums_by_scales(left, name, codes, scales):
    """Scales that are zero or negative make -0 of what is neither."""
    fmt = lp.BlockFormat(name="signed", element="e2m1fn", scale="e4m3fn", size=16, rule="divide")
    x = lp.BlockArray(np.uint8([codes] * 4), np.uint8([[scales]] * 4), fmt, (1,))
    y = lp.BlockArray(np.uint8([[2] + [0] * 15] * 33).T, np.uint8([[0x38]] * 33).T, fmt, (0,))
    agree(left, x, y, name, most=4 * 33)
    agree(left, x, y, name, most=4 * 33, addend=np.full((4, 33), -0.0, np.float32))


@pytest.mark.parametrize("name", ["fp32_pairwise", "fp32_fma", "fp64_sequential"])
def test_infinite_scales_of_zeros(left, name):
    """They make NaNs of them."""
    fmt = lp.BlockFormat(name="infinite", element="e2m1fn", scale="e5m2", size=16, rule="divide")
    x = lp.BlockArray(np.zeros((4, 16), np.uint8), np.uint8([[0x7C]] * 4), fmt, (1,))
    y = lp.BlockArray(np.ones((16, 33), np.uint8), np.uint8([[0x3C]] * 33).T, fmt, (0,))
    agree(left, x, y, name, most=4 * 33)
    assert np.isnan(lp.matmul(x, y, name)).all()


@numba.njit
def odd(x, y, z):
    high, rest = three_to_odd(x, y, z)
    return summed_to_odd(x, y), summed_to_odd(high, rest)


def test_sums_in_binary64_are_rounded_to_odd():
    """Of two numbers, and of three as [BOLDO] has them; their last bit is 1 unless they are exact."""
    rng = np.random.default_rng(0)
    for _ in range(2000):
        x, y, z = rng.choice([1, -1], 3) * (1 + rng.integers(0, 4, 3) * 2.0**-52)
        x, y, z = (x, y, z) * 2.0 ** rng.choice([0, -1, -2, -52, -53, -54, -105, -107, -160], 3)
        for got, exact in zip(
            odd(x, y, z), (sum(map(_fraction, (x, y))), sum(map(_fraction, (x, y, z)))), strict=True
        ):
            beyond = _fraction(np.nextafter(got, -np.inf)), _fraction(np.nextafter(got, np.inf))
            if _fraction(got) != exact:
                assert np.float64(got).view(np.uint64) & np.uint64(1), (x, y, z)
                assert beyond[0] < exact < beyond[1], (x, y, z)


def test_exact_zeros_of_downward_steps(left):
    """Sums of opposite numbers are -0, in pairs and between chunks."""
    place = (catalog.BINARY16, Projection(rounding=TOWARD_NEGATIVE))
    x = np.float32([[1, -1, 0, -0.0], [2, 3, -2, -3], [0, 0, 0, 0], [-0.0] * 4])
    for order in ("pairwise", "chunked(2)", "chunked(2, pairwise)"):
        agree(
            left, x, np.ones((4, 33), np.float32), Accumulation(order=order, accumulator=place, output=SINGLE)
        )


def test_totals_of_negative_zero(left):
    """Chunks of products of -0 leave a total of -0 as it is."""
    x = lp.encode(-np.zeros((1, 64), np.float32), "mxfp8_e5m2", axis=1)
    y = lp.encode(np.ones((64, 33), np.float32), "mxfp8_e5m2", axis=0)
    how = Accumulation(order="chunked(1, pairwise)", accumulator=HALF, total=SINGLE, output=SINGLE)
    for order in ("chunked(1)", "chunked(1, pairwise)"):
        agree(left, x, y, dataclasses.replace(how, order=order), most=33, addend=np.full((1, 33), -0.0))


def blocks_of_32(rows):
    """Blocks of e5m2 with these elements and scale 1."""
    codes = np.zeros((len(rows), 64), np.uint8)
    for code, row in zip(codes, rows, strict=True):
        code[: len(row)] = lp.encode(np.float32(row), "e5m2")
    return lp.BlockArray(
        codes, np.full((len(rows), 2), 127, np.uint8), lp.encode(np.zeros((1, 32)), "mxfp8_e5m2").format, (1,)
    )


def test_sums_of_blocks_of_two_numbers(left):
    """Every bit of them counts: a tie of bfloat16 and 2**-32 is rounded up."""
    x = blocks_of_32([[8.0] * 17 + [2.0**-16], [57344.0]])
    y = blocks_of_32([[32768.0] * 16 + [2.0**11, 2.0**-16], [57344.0]])
    y = lp.BlockArray(y.codes.T, y.scales.T, y.format, (0,))
    agree(left, x, y, "bf16_sequential")
    assert lp.matmul(x, y, "bf16_sequential")[0, 0] == 2.0**22 + 2.0**15


def test_infinite_sums_of_blocks_stay(left):
    """What overflows is infinite, and is not left to the scalar engine."""
    x = blocks_of_32([[57344.0] * 40 + [2.0**-16]])
    y = lp.BlockArray(x.codes.T, x.scales.T, x.format, (0,))
    agree(left, x, y, "fp16_sequential")
    assert lp.matmul(x, y, "fp16_sequential") == np.inf


# -- windows of any width ------------------------------------------------------------------------------


SINGLE = (catalog.BINARY32, Projection())
CUT_SINGLE = (catalog.BINARY32, Projection(rounding=TOWARD_ZERO))
ODD_SINGLE = (catalog.BINARY32, Projection(rounding="to_odd", overflow_test="exponent", nan_sign="drop"))
SHORT = (ieee("e8m13", 8, 13), Projection(rounding=TOWARD_ZERO, nan_sign="drop"))
AWAY = (catalog.BFLOAT16, Projection(rounding="nearest_away"))


def in_windows(operands, result, total=None, order="sequential", scale=None, **window):
    """An accumulation in windows; binary32 comes out."""
    return Accumulation(
        name="w",
        operands=operands,
        order=order,
        accumulator=Window(result=result, **window),
        total=total,
        scale=scale,
        output=ODD_SINGLE if result == ODD_SINGLE else SINGLE,
    )


@pytest.mark.parametrize("cut", get_args(Cut))
@pytest.mark.parametrize(
    ("result", "total", "order"),
    [
        (CUT_SINGLE, None, "sequential"),
        (SHORT, None, "sequential"),
        (ODD_SINGLE, ODD_SINGLE, "chunked(8)"),
        (CUT_SINGLE, CUT_SINGLE, "chunked(12)"),
        ((catalog.BINARY16, Projection()), SINGLE, "chunked(10)"),
        (AWAY, (catalog.BINARY32, Projection(rounding="toward_positive")), "chunked(16)"),
    ],
    ids=["single", "short", "odd", "chunks", "half", "modes"],
)  # fmt: skip
def test_windows_of_any_width(left, cut, result, total, order):
    """Of bits that lanes do not hold, of any range, in steps that are cut short, with addends and without."""
    single = catalog.BINARY32
    for fmt, bits, step, groups, spread in (
        (catalog.BFLOAT16, 13, 8, "consecutive", 6),
        (catalog.BFLOAT16, 40, 4, "alternate_pairs", 30),
        (single, 25, 4, "consecutive", 40),
        (single, 48, 1, "consecutive", 3),
        (catalog.E5M2, 7, 8, "alternate_pairs", 6),
    ):
        if order in ("chunked(8)", "chunked(10)", "chunked(12)"):
            groups = "consecutive"
        how = in_windows(
            (fmt, fmt), result, total, order, fraction_bits=bits, step=step, cut=cut, groups=groups,
            negative_zero=bits == 40,
        )  # fmt: skip
        for length in (1, 7, 21, 40):
            x, y = (lp.quantize(numbers((n, length), n + length, spread), fmt) for n in (5, 37))
            most = 5 * 37 if result[0] == catalog.BINARY16 else 0  # which becomes infinite both ways
            agree(left, x, y.T, how, most)
        agree(left, x, y.T, how, most, addend=numbers((5, 37), 5, spread))


@pytest.mark.parametrize("cut", ["toward_zero", "to_odd"])
@pytest.mark.parametrize("bits", [1, 27])
@pytest.mark.parametrize("lowest", [-32768, -100, 3])
def test_sums_of_windows_that_overflow_or_are_subnormal(left, cut, bits, lowest):
    """Infinite from twice the largest binade on; results among the subnormal numbers; zeros of both signs."""
    how = in_windows(
        (catalog.BFLOAT16,) * 2, CUT_SINGLE, fraction_bits=bits, step=4, cut=cut, lowest_exponent=lowest
    )
    x, y = lp.quantize(numbers((6, 12), 1), "bfloat16"), lp.quantize(numbers((40, 12), 2), "bfloat16").T
    for up in (62, 63, -74, -80):
        scaled_x, scaled_y = x * np.float32(2.0**up), y * np.float32(2.0**up)
        agree(left, scaled_x, scaled_y, how)
        agree(left, scaled_x, scaled_y, how, addend=np.float32(-np.abs(scaled_x.max())))
    agree(left, x * np.float32(0), -y, how, addend=np.float32(-0.0))
    agree(left, x, y, how, addend=np.where(np.arange(40) % 7, np.inf, np.nan), most=240 if bits == 1 else 36)


@pytest.mark.parametrize("bits", [1, 23, 25])
@pytest.mark.parametrize("beyond", [0, 1, 2, 200, 2000])
def test_least_exponents_above_those_of_all_terms(bits, beyond):
    """Lanes multiply terms by 2**(fraction_bits - e), which becomes subnormal, and then no number at all."""
    how = in_windows(
        (catalog.E4M3FN,) * 2, CUT_SINGLE, fraction_bits=bits, step=16, lowest_exponent=126 + bits + beyond
    )
    x, y = lp.quantize(numbers((3, 20), 1), "e4m3fn"), lp.quantize(numbers((20, 5), 2), "e4m3fn")
    addend = np.ldexp(np.float32([1.5, -1.0, 1.0, 0.0, 1.9]), 127)
    for given in (None, addend):
        made = lp.matmul(x, y, how, addend=given)
        wanted = lp.matmul(x, y, how, addend=given, backend="oracle")
        np.testing.assert_array_equal(made.view(np.uint32), wanted.view(np.uint32))


@pytest.mark.parametrize("cut", ["toward_zero", "to_odd"])
def test_windows_of_scaled_operands(left, cut):
    """The exponents of scales join those of products."""
    how = in_windows(
        (catalog.E4M3FN,) * 2, CUT_SINGLE, scale=(catalog.E8M0FNU, 32), fraction_bits=30, step=32, cut=cut,
        scales="products",
    )  # fmt: skip
    x, y = numbers((6, 96), 1, 30), numbers((35, 96), 2, 30).T
    x[2, 5] = np.nan
    a, b = lp.encode(x, "mxfp8_e4m3", axis=1), lp.encode(y, "mxfp8_e4m3", axis=0)
    agree(left, a, b, how)


@pytest.mark.parametrize("wide", [(8, 1), (11, 20)], ids=str)
def test_accumulators_that_are_cut_at_the_borders_of_binary64(left, wide):
    """Infinite sums with one trailing bit, and formats whose least numbers binary64 has as subnormals."""
    fmt = ieee("cut", *wide)
    for mode in ("toward_zero", "to_odd"):
        how = Accumulation(
            name="m", accumulator=(fmt, Projection(rounding=mode)), output=(catalog.BINARY32, Projection())
        )
        x, y = numbers((5, 12), 1, 60), numbers((33, 12), 2, 60).T
        x[2, 3] = np.inf
        agree(left, x, y, how, most=5 * 33)
        agree(left, x * np.float32(2.0**-60), y * np.float32(2.0**-60), how, most=5 * 33)


def test_nans_of_infinities_that_an_accumulator_makes_numbers(left):
    """Positive ones: what the processor makes of infinities of unlike signs may be negative."""
    for fmt in (catalog.BFLOAT16, catalog.BINARY32):
        for order, code in itertools.product(
            ("sequential", "pairwise", "chunked(3)"), (0x3F80, fmt.sign_code)
        ):
            how = Accumulation(
                name="m",
                accumulator=(fmt, Projection(nan_code=code)),
                order=order,
                output=(catalog.BINARY32, Projection()),
            )
            x, y = numbers((5, 12), 1), numbers((33, 12), 2).T
            x[:, 2], x[:, 7] = np.inf, -np.inf
            agree(left, x, np.abs(y), how, most=5 * 33)


@pytest.mark.parametrize("into", [("e2m3fn", {"nan": "max"}), ("e4m3fnuz", {"nan_code": 0x7F})], ids=str)
def test_the_sign_of_a_nan_that_is_added_to_a_window_is_lost(into):
    """A sum with a NaN is a positive one, also where a number stands for it, which has a sign."""
    name, rule = into
    result = catalog.format(name), Projection(**rule)
    how = Accumulation(
        output="binary32", operands="e4m3fn", accumulator=Window(step=2, fraction_bits=24, result=result)
    )
    x = lp.quantize(numbers((3, 4), 1, 1), "e4m3fn", saturation="finite")
    found, want = (
        lp.matmul(x, x.T, how, addend=np.float32([1.0, -np.nan, np.nan]), backend=each)
        for each in (None, "oracle")
    )
    assert found.tolist() == want.tolist()
