"""NVFP4 training: operands by the oracle's blocks, products in fractions; scales; MXFP4 carried over."""

import dataclasses
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given, settings, strategies as st

import lowprec as lp
from lowprec.methods import nvfp4
from lowprec.oracle import block as oracle_block
from lowprec.oracle.convert import project
from lowprec.spec import catalog
from lowprec.spec.catalog import BINARY32, E2M1FN, UE4M3

RNG = np.random.default_rng(16)
STOCHASTIC = dataclasses.replace(
    catalog.NVFP4, elements=lp.Projection(rounding=lp.stochastic(32), saturation="finite")
)


def rounded(number, fmt=BINARY32):
    """A Fraction as a value of a format, by the oracle."""
    return float(lp.decode(project(number, fmt), fmt))


def in_blocks(values, words=None, tiles=False):
    """A matrix of Fractions as NVFP4 makes it, blocks along the last axis: by the oracle alone."""
    rows = [[Fraction(float(v)) for v in row] for row in values]
    height, width = np.shape(values)
    fmt = catalog.NVFP4_2D if tiles else (catalog.NVFP4 if words is None else STOCHASTIC)
    tensor = oracle_block.tensor_scale([v for row in rows for v in row], fmt)
    tall = 16 if tiles else 1
    made = [[Fraction(0)] * width for _ in range(height)]
    for top in range(0, height, tall):
        for left in range(0, width, 16):
            places = [
                (i, j)
                for i in range(top, min(top + tall, height))
                for j in range(left, min(left + 16, width))
            ]
            random = None if words is None else [int(words[place]) for place in places]
            scale, codes = oracle_block.encode([rows[i][j] for i, j in places], fmt, tensor, random=random)
            found = oracle_block.decode(scale, codes, fmt, tensor.value)
            for (i, j), value in zip(places, found, strict=True):
                made[i][j] = Fraction(0) if not isinstance(value, Fraction) else value
    return made


def product(x, y):
    """Return x @ y.T of Fractions, each sum rounded to binary32 once."""
    return np.float32([[rounded(sum(a * b for a, b in zip(r, c, strict=True))) for c in y] for r in x])


def turned(matrix):
    return [list(column) for column in zip(*matrix, strict=True)]


def mixed(values, size, key):
    """The transform along axis 0: signs by their words, Sylvester's matrix by recursion."""
    signs = [(-1) ** int(word) for word in lp.random_bits(size, key, 1)]
    matrix = [[1]]
    while len(matrix) < size:
        matrix = [row + row for row in matrix] + [row + [-v for v in row] for row in matrix]
    root = {4: 2, 16: 4, 64: 8}[size]
    columns = []
    for column in np.asarray(values, np.float64).T:
        padded = [Fraction(v) for v in column] + [Fraction(0)] * (-len(column) % size)
        out = []
        for first in range(0, len(padded), size):
            flipped = [v * s for v, s in zip(padded[first : first + size], signs, strict=True)]
            out += [rounded(sum(h * v for h, v in zip(row, flipped, strict=True)) / root) for row in matrix]
        columns.append(out)
    return np.float32(columns).T


def layer_by_definition(x, w, grad, recipe, key):
    """The three products, each operand by its own definition."""
    y = product(in_blocks(x), in_blocks(w, tiles=recipe.tiles))
    backward = turned(in_blocks(w, tiles=True)) if recipe.tiles else in_blocks(w.T)
    words = lp.random_bits(grad.shape, key, 32) if recipe.stochastic else None
    grad_x = product(in_blocks(grad, words), backward)
    if recipe.hadamard:
        grad, x = (mixed(each, recipe.hadamard, recipe.sign_key) for each in (grad, x))
    words = lp.random_bits(grad.shape, key, 32, stream=2).T if recipe.stochastic else None
    return y, grad_x, product(in_blocks(grad.T, words), in_blocks(x.T))


WHOLE = nvfp4.Recipe()


@pytest.mark.apart
@pytest.mark.parametrize(
    "recipe",
    [
        WHOLE,
        WHOLE.without("tiles"),
        WHOLE.without("hadamard"),
        WHOLE.without("stochastic"),
        nvfp4.Recipe(tiles=False, hadamard=0, stochastic=False),
        nvfp4.Recipe(hadamard=4, sign_key=5),
    ],
    ids=str,
)
def test_every_product_of_the_layer_is_what_its_operands_define(recipe):
    """Ragged in all three axes: 18 of a batch, 20 in-features, 17 out-features."""
    x, w, grad = (RNG.standard_normal(shape).astype(np.float32) for shape in ((18, 20), (17, 20), (18, 17)))
    grad *= np.float32(2.0**-9)
    want = layer_by_definition(x, w, grad, recipe, 99)
    y, gradients = nvfp4.linear(x, w, recipe=recipe, rng=99, accumulation="exact")
    got = (y, *gradients(grad))
    for name, one, other in zip(("y", "grad_x", "grad_w"), got, want, strict=False):
        assert np.array_equal(one, other), name
    sums = [rounded(sum(Fraction(float(v)) for v in column)) for column in grad.T]
    assert got[3].tolist() == sums


def test_bias_and_batches():
    x, w, bias = RNG.standard_normal((2, 3, 16)), RNG.standard_normal((5, 16)), np.float32([1, 2, 3, 4, 5])
    plain = nvfp4.linear(x, w, rng=0)[0]
    y, gradients = nvfp4.linear(x, w, bias, rng=0)
    assert np.array_equal(y, plain + bias)
    grad_x, grad_w, grad_bias = gradients(np.ones((2, 3, 5)))
    assert (grad_x.shape, grad_w.shape, grad_bias.tolist()) == ((2, 3, 16), (5, 16), [6] * 5)


def test_the_same_key_gives_the_same_gradients_and_another_others():
    x, w, grad = (RNG.standard_normal((16, 16)) for _ in range(3))
    one, again, other = (nvfp4.linear(x, w, rng=key)[1](grad) for key in (3, 3, 4))
    assert all(map(np.array_equal, one, again))
    assert not np.array_equal(one[0], other[0])
    assert not np.array_equal(one[1], other[1])


def test_stochastic_gradients_are_unbiased_over_all_words():
    """Of 4 random bits all 16 words: the mean of what a value becomes is the value, exactly."""
    values = np.float32([6.0, 1.25, -2.5, 0.125, -4.5, 3.0, 0.0, 5.75])
    total = np.zeros(8)
    for word in range(16):
        words = np.full(8, word, np.uint32)
        total += lp.quantize(values, "nvfp4", rounding=lp.stochastic(4), random=words, tensor_scale=1.0)
    assert (total / 16).tolist() == values.tolist()


# -- Hadamard -----------------------------------------------------------------------------------------


@pytest.mark.parametrize("size", [4, 16, 64])
@pytest.mark.parametrize("axis", [0, 1])
def test_the_transform_is_its_definition(size, axis):
    x = RNG.standard_normal((2 * size - 3, 3)).astype(np.float32)
    x[0] *= 1e20
    want = mixed(x, size, 7)
    got = nvfp4.hadamard(x if axis == 0 else x.T, size, axis=axis, signs=nvfp4.signs(size, 7))
    assert np.array_equal(got if axis == 0 else got.T, want)


def test_the_transform_keeps_inner_products_of_integers_exactly():
    """Both operands transformed: sums of squares of 16 integers over 16."""
    x, y = RNG.integers(-8, 9, (2, 3, 32)).astype(np.float32)
    turn = nvfp4.signs(16, 1)
    a, b = (nvfp4.hadamard(each, 16, signs=turn) for each in (x, y))
    assert np.array_equal(a @ b.T, x @ y.T)
    assert not np.array_equal(a, x)


def test_transforms_that_there_are_not():
    with pytest.raises(TypeError, match="values must be real numbers"):
        nvfp4.hadamard(np.array([object()] * 16))
    with pytest.raises(ValueError, match=r"size=8 of a Hadamard transform must be one of \(4, 16, 64\)"):
        nvfp4.hadamard(np.ones(8), 8)
    with pytest.raises(ValueError, match=r"must be 4 numbers \+1 and -1"):
        nvfp4.hadamard(np.ones(8), 4, signs=[1, 1, 1, 0])


# -- four over six ------------------------------------------------------------------------------------


def by_definition(row, choice, tensor):
    """The values of one block, by scales and errors in Fractions."""
    amax = max(abs(v) for v in row)
    kept, least = None, None
    for largest in (6, 4):
        code = project(amax / largest / tensor, UE4M3, lp.Projection(saturation="finite"))
        scale = Fraction(float(lp.decode(code, UE4M3)))
        made = []
        for v in row:
            quotient = v / (scale * tensor) if scale else Fraction(0)
            element = project(quotient, E2M1FN, lp.Projection(saturation="finite"))
            made.append(Fraction(float(lp.decode(element, E2M1FN))) * scale * tensor)
        errors = [abs(a - b) for a, b in zip(row, made, strict=True)]
        error = {"mse": sum(e * e for e in errors), "mae": sum(errors), "max": max(errors)}[choice]
        if least is None or error < least:
            kept, least = (code, made), error
    return kept


@pytest.mark.parametrize("choice", ["mse", "mae", "max"])
def test_the_better_scale_is_kept(choice):
    x = RNG.standard_normal((20, 40)).astype(np.float32)
    x[3] = 0
    x[4] *= np.float32(1e-4)
    blocks = nvfp4.encode(x, choice)
    tensor = Fraction(rounded(Fraction(float(np.abs(x).max())) / 1536))
    assert Fraction(float(blocks.tensor_scale)) == tensor
    values, at_four = blocks.values(np.float64), 0
    for i, row in enumerate(x):
        for j in range(0, 40, 16):
            code, made = by_definition([Fraction(float(v)) for v in row[j : j + 16]], choice, tensor)
            assert blocks.scales[i, j // 16] == code
            assert [Fraction(v) for v in values[i, j : j + 16]] == made
            largest = int((blocks.codes[i, j : j + 16] & 7).max())
            at_four += largest == 6  # the code of 4
    assert 5 < at_four < 55
    again = lp.encode(x, "nvfp4", scales=blocks.scales, tensor_scale=float(blocks.tensor_scale))
    assert np.array_equal(again.codes, blocks.codes)


def test_tiles_choose_as_one_block():
    """A tile of 16 x 16 is a block of 256 neighbours."""
    x = RNG.standard_normal((20, 36)).astype(np.float32)
    blocks = nvfp4.encode(x, "mse", tiles=True)
    tensor = Fraction(float(blocks.tensor_scale))
    for i in range(0, 20, 16):
        for j in range(0, 36, 16):
            tile = [Fraction(float(v)) for v in x[i : i + 16, j : j + 16].ravel()]
            assert blocks.scales[i // 16, j // 16] == by_definition(tile, "mse", tensor)[0]
    turned = nvfp4.encode(x.T, "mse", tiles=True)
    assert np.array_equal(turned.codes.T, blocks.codes)


def test_four_over_six_loses_less():
    """Less squared error for normal values, as the paper says; "six" is the format itself."""
    x = np.random.default_rng(0).standard_normal((256, 256)).astype(np.float32)
    errors = {
        choice: float(np.square(nvfp4.encode(x, choice).values() - x).mean()) for choice in ("six", "mse")
    }
    assert np.array_equal(nvfp4.encode(x, "six").values(), lp.quantize(x, "nvfp4"))
    assert 0.6 < errors["mse"] / errors["six"] < 0.95


def test_values_that_are_not_finite_keep_six():
    x = np.float32([[10, 20, 30, 40] * 4, [np.nan] + [1.0] * 15, [np.inf] + [1.0] * 15, [0.0] * 16])
    blocks = nvfp4.encode(x, "mse")
    plain = lp.encode(x, "nvfp4", tensor_scale=float(blocks.tensor_scale))
    assert np.array_equal(blocks.scales[1:], plain.scales[1:])
    assert blocks.scales[0] != plain.scales[0]
    assert nvfp4.encode(np.zeros((2, 16)), "mse").values().any() == np.False_
    assert nvfp4.encode(np.float32([1e-45] * 16), "mae").tensor_scale > 0


# -- messages -----------------------------------------------------------------------------------------


def test_what_is_refused():
    x = np.ones((16, 16), np.float32)
    with pytest.raises(ValueError, match="rounded stochastically and need rng="):
        nvfp4.linear(x, x)
    nvfp4.linear(x, x, recipe=nvfp4.Recipe(stochastic=False))
    with pytest.raises(ValueError, match="choice='five' of scales is unknown; use one of six, mse, mae, max"):
        nvfp4.encode(x, "five")
    with pytest.raises(ValueError, match="choice='five' of a recipe is unknown"):
        nvfp4.Recipe(choice="five")
    with pytest.raises(ValueError, match="hadamard=8 of a recipe must be 0"):
        nvfp4.Recipe(hadamard=8)
    with pytest.raises(ValueError, match="ingredient='choice' cannot be left out"):
        WHOLE.without("choice")


# -- MXFP4 carried over -------------------------------------------------------------------------------


def can_be_exact(values, tensor):
    """Whether any of the 127 scales of E4M3 gives exactly these values, by trying all."""
    elements = {Fraction(float(lp.decode(np.uint8(code), E2M1FN))) for code in range(16)}
    for code in range(127):
        scale = Fraction(float(lp.decode(np.uint8(code), UE4M3))) * tensor
        if all((v == 0 if not scale else v / scale in elements) for v in values):
            return True
    return False


@pytest.mark.apart
@settings(deadline=None, max_examples=25)
@given(st.integers(0, 2**32), st.integers(-12, 12), st.sampled_from([1, 3, 8, 16]))
def test_exact_blocks_are_those_for_which_there_is_a_scale(seed, spread, few):
    """Both ways, block by block, around the ends of the range; 48 values: a block and a half of MXFP4."""
    rng = np.random.default_rng(seed)
    codes = rng.choice(rng.choice(16, few, replace=False), (4, 48)).astype(np.uint8)
    scales = (127 + spread + rng.integers(-2, 3, (4, 2))).astype(np.uint8)
    blocks = lp.BlockArray(codes, scales, "mxfp4")
    made = nvfp4.from_mxfp4(blocks, tensor_scale=1.0)
    values, got = blocks.values(np.float64), made.blocks.values(np.float64)
    for i in range(4):
        for j in range(3):
            part = slice(16 * j, 16 * j + 16)
            want = can_be_exact([Fraction(v) for v in values[i, part]], Fraction(1))
            assert made.exact[i, j] == want
            same = (values[i, part] == got[i, part]) & (
                np.signbit(values[i, part]) == np.signbit(got[i, part])
            )
            assert same.all() == want
    nearest = lp.encode(values, "nvfp4", tensor_scale=1.0)
    assert np.array_equal(nearest.codes.reshape(4, 3, 16)[~made.exact],
                          made.blocks.codes.reshape(4, 3, 16)[~made.exact])  # fmt: skip


def test_the_ends_of_the_range_value_by_value():
    """Blocks of one value, or of two a power of two apart, with scales from 2**-18 to 2**15."""
    pairs = [(code, other) for code in range(1, 8) for other in {code, min(code + 2, 7)}]
    codes = np.array([pair * 16 for pair in pairs for _ in range(34)], np.uint8)
    powers = np.tile(np.arange(-18, 16), len(pairs))
    blocks = lp.BlockArray(codes, (127 + powers[:, None]).astype(np.uint8), "mxfp4")
    made = nvfp4.from_mxfp4(blocks, tensor_scale=1.0)
    values, got = blocks.values(np.float64), made.blocks.values(np.float64)
    elements = lp.decode(np.arange(16, dtype=np.uint8), "e2m1fn").astype(np.float64)
    scales = lp.decode(np.arange(1, 127, dtype=np.uint8), "ue4m3").astype(np.float64)
    possible = scales[:, None] * elements  # exact: at most 6 bits
    for row, result, exact in zip(values, got, made.exact, strict=True):
        fits = np.isin(possible, row[0]).any(axis=1) & np.isin(possible, row[1]).any(axis=1)
        assert exact.tolist() == [fits.any()] * 2
        assert np.array_equal(row, result) == fits.any()


def test_the_scale_of_the_tensor_is_the_best_power_of_two():
    """No other power of two has more exact blocks."""
    codes = RNG.integers(0, 16, (30, 32)).astype(np.uint8)
    scales = RNG.integers(100, 150, (30, 1)).astype(np.uint8)
    blocks = lp.BlockArray(codes, scales, "mxfp4")
    best = nvfp4.from_mxfp4(blocks)
    counts = [nvfp4.from_mxfp4(blocks, 2.0**power).exact.sum() for power in range(-50, 50)]
    assert best.exact.sum() == max(counts)
    assert 0 < max(counts) < 60
    assert not best.is_lossless


@pytest.mark.parametrize("axis", [0, 1])
def test_weights_of_a_layer_are_carried_over_without_loss(axis):
    """Codes stay as they are, and decoded values are the same."""
    x = RNG.standard_normal((70, 45)).astype(np.float32)
    blocks = lp.encode(x, "mxfp4", axis=axis)
    made = nvfp4.from_mxfp4(blocks)
    assert made.is_lossless
    assert made.blocks.axes == (axis,)
    assert np.array_equal(made.blocks.codes, blocks.codes)
    assert np.array_equal(made.blocks.values(), blocks.values())


def test_nan_and_zero_blocks():
    blocks = lp.BlockArray(np.zeros((3, 32), np.uint8), np.uint8([[255], [0], [254]]), "mxfp4")
    made = nvfp4.from_mxfp4(blocks)
    assert made.is_lossless
    assert np.array_equal(made.blocks.values(), blocks.values(), equal_nan=True)


def test_what_cannot_be_carried_over():
    with pytest.raises(ValueError, match="from_mxfp4 takes blocks of 'mxfp4', not of 'nvfp4'"):
        nvfp4.from_mxfp4(lp.encode(np.ones(16), "nvfp4"))
    with pytest.raises(ValueError, match=r"tensor_scale=3\.0 must be a power of two that float32 holds"):
        nvfp4.from_mxfp4(lp.encode(np.ones(16), "mxfp4"), 3.0)
