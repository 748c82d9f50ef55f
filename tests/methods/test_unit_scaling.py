"""Unit Scaling: factors, and unit variance of outputs and gradients.

Numbers are those of the paper's appendix ("table"), of the tests of the authors' library ("repo"), of its
user guide ("guide"), or computed from shapes.
"""

import functools
import math

import numpy as np
import pytest

import lowprec as lp
from lowprec.methods import unit_scaling as us
from lowprec.methods.unit_scaling import activations

TABLE = {  # alpha, beta of the paper's appendix
    "relu": (math.sqrt(2 / (1 - 1 / math.pi)), math.sqrt(2)),
    "gelu": (1.7009, 1.4811),
    "silu": (1.7872, 1.6233),
    "tanh": (1.5925, 1.4674),
    "sigmoid": (4.8013, 4.7226),
    "hardtanh": (1.3920, 1.2103),
}


def normal(*shape, seed=0):
    return np.random.default_rng(seed).standard_normal(shape, dtype=np.float32)


def backward(result, seed=1):
    """Gradients that follow from a normal one."""
    y, vjp = result
    return vjp(normal(*y.shape, seed=seed))


def rms(values):
    return float(np.sqrt(np.square(values).mean()))


def assert_scale(*arrays, target=1.0, abs=0.1, statistic=np.std):
    """The repo's tolerance."""
    assert [float(statistic(each)) for each in arrays] == pytest.approx([target] * len(arrays), abs=abs)


# -- factors -----------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", TABLE)
def test_factors_of_elementwise_functions_are_the_papers(name):
    """Table, to 1e-4; the table itself is rounded to 4 digits."""
    _, vjp = getattr(us, name)([0.5], constraint=None)
    assert (vjp.alpha, *vjp.beta) == pytest.approx(TABLE[name], abs=1e-4)


@pytest.mark.parametrize("name", TABLE)
def test_a_million_samples_have_unit_variance_in_both_passes(name):
    """Monte Carlo within 0.3 %: the gradient's mean square, because its mean is 0 whatever f is."""
    x, grad = (np.random.default_rng(seed).standard_normal(1_000_000) for seed in (2, 3))
    y, vjp = getattr(us, name)(x, constraint=None)
    assert y.std() == pytest.approx(1, abs=0.003)
    assert rms(vjp(grad)[0]) == pytest.approx(1, abs=0.003)


@pytest.mark.parametrize(
    ("name", "want"), [("gelu", 1.5872), ("relu", math.sqrt(1.7128585504 * math.sqrt(2)))]
)
def test_by_default_both_factors_are_the_geometric_mean(name, want):
    """Table; the paper's code has 1.5876 for gelu, from samples."""
    _, vjp = getattr(us, name)([0.5])
    assert vjp.alpha == vjp.beta[0] == pytest.approx(want, abs=1e-4)


@pytest.mark.parametrize(("classes", "want"), [(5, 2.5), (256, 16.031)])
def test_factors_of_cross_entropy(classes, want):
    """Table: s / sqrt(s - 1)."""
    _, vjp = us.cross_entropy(np.zeros((3, classes)), [0, 1, 2], reduction="sum")
    assert (vjp.alpha, vjp.beta[0]) == (1, pytest.approx(want, abs=5e-4))


def test_factors_of_operations_that_depend_on_shapes_are_the_papers():
    """Table, each row."""
    x, w = np.ones((3, 16)), np.ones((16, 25))
    free = {"constraint": None}
    found = {
        "matmul": us.matmul(x, w, **free)[1],
        "linear": us.linear(x, w, np.zeros(25), **free)[1],
        "sum": us.sum(x, axis=1, **free)[1],
        "softmax": us.softmax(x)[1],
        "layer_norm": us.layer_norm(x, np.ones(16), np.zeros(16))[1],
        "mse": us.mse(x, x, reduction="sum")[1],
        "dropout": us.dropout(x, 0.75, rng=0)[1],
        "add": us.add(x, x[0], **free)[1],
        "scalar": us.add(x, 2.0, **free)[1],
        "embedding": us.embedding([[1, 2], [0, 1]], x)[1],
        "weighted_sum": us.weighted_sum([x, x], [3.0, -4.0])[1],
    }
    third = 3**-0.5
    want = {
        "matmul": (1 / 4, 1 / 5, third),
        "linear": (1 / 4, 1 / 5, third, third),
        "sum": (1 / 4, 1),
        "softmax": (16, 16),
        "layer_norm": (1, 1, third, third),
        "mse": (1, 8**-0.5, 8**-0.5),
        "dropout": (1 / 2, 1 / 2),
        "add": (2**-0.5, 1, third),
        "scalar": (1, 1, 48**-0.5),
        "embedding": (1, (3 / 4) ** 0.5),
        "weighted_sum": (
            1 / 5,
            1 / 3,
            1 / 4,
        ),  # of a difference too: a negative factor would turn the gradient around
    }
    for name, vjp in found.items():
        assert (vjp.alpha, *vjp.beta) == pytest.approx(want[name], rel=1e-14), name


def test_a_linear_layer_in_the_middle_of_a_network_has_the_constrained_factor():
    """Table: (m n)**-1/4 for the output and the gradient of x; the weight's stays free."""
    _, vjp = us.linear(np.ones((9, 16)), np.ones((16, 81)))
    assert (vjp.alpha, *vjp.beta) == pytest.approx((1 / 6, 1 / 6, 1 / 3))


@pytest.mark.parametrize(
    ("constraint", "want"),
    [
        ("gmean", 0.8884322),
        ("hmean", 0.00299971),
        ("amean", 22.583667),
        ("to_output_scale", 12.75),
        ("to_left_grad_scale", 55.0),
        ("to_right_grad_scale", 0.001),
        (max, 55.0),
    ],
)
def test_constraints_are_the_repos(constraint, want):
    assert us.constrain(constraint, 12.75, 55.0, 0.001) == pytest.approx((want,) * 3, rel=5e-7)


def test_a_constraint_of_two_factors_gives_the_gradients():
    assert us.constrain("to_grad_input_scale", 12.75, 55.0) == (55.0, 55.0)
    assert us.constrain(None, 12.75, 55.0) == (12.75, 55.0)


@pytest.mark.parametrize("name", ["gelu", "silu"])
@pytest.mark.parametrize("mult", [1 / 16, 1 / 4, 1, 4, 16])
def test_multipliers_keep_unit_variance_and_come_near_the_models_of_the_library(name, mult):
    """A model in closed form can only be near; integrals are right, as samples say."""
    exact = activations._scales(name, mult)
    assert us.empirical_scales(name, mult) == pytest.approx(exact, rel=0.04)
    x = np.random.default_rng(2).standard_normal(100_000)
    y, vjp = getattr(us, name)(x, mult=mult, constraint=None)
    assert y.std() == pytest.approx(1, abs=0.01)
    assert rms(vjp(np.random.default_rng(3).standard_normal(x.size))[0]) == pytest.approx(1, abs=0.01)


@pytest.mark.parametrize("mult", [1 / 4, 1, 4])
def test_glu_has_unit_variance(mult):
    """Repo; its model is within 4 % of the integrals."""
    x, gate = normal(100_000), normal(100_000, seed=5)
    y, vjp = us.glu(x, gate, mult=mult, constraint=None)
    assert_scale(y, *vjp(normal(100_000, seed=6)), abs=0.01)
    assert us.empirical_scales("glu", mult).alpha == pytest.approx(vjp.alpha, rel=0.04)
    assert us.empirical_scales("glu", mult).beta == pytest.approx(vjp.beta[1], rel=0.04)


def test_softmax_factors_go_from_the_papers_to_those_of_one_hot_results():
    """The library's model: flat results where the multiplier is small, one-hot ones where it is large."""
    assert us.softmax_scales(256) == (256, 256)
    assert us.softmax_scales(256, 1e-4) == pytest.approx((256, 256e4), rel=1e-6)
    assert us.softmax_scales(256, 1e4) == pytest.approx((16, 0.16), rel=1e-6)
    assert us.softmax_scales(256, 2.0) == pytest.approx((64, 256**0.75 / 2**0.75))


def test_attention_factor_is_the_librarys():
    assert us.attention_scale(64, 64) == pytest.approx(8 ** (256 / 257))
    assert us.attention_scale(64, 16, mult=2.0) == pytest.approx(8 ** (16 / 17))
    assert us.attention_scale(64, 64, causal=True) == pytest.approx((64 / math.log(64)) ** (128 / 257))
    assert us.attention_scale(1, 64, causal=True) == us.attention_scale(1, 64) == 1


# -- derived factors ---------------------------------------------------------------------------------


def shifted_relu(c):
    """Factors of max(x - c, 0), by moments of the truncated normal distribution."""
    tail, density = math.erfc(c / math.sqrt(2)) / 2, math.exp(-c * c / 2) / math.sqrt(2 * math.pi)
    mean, square = density - c * tail, (1 + c * c) * tail - c * density
    return 1 / math.sqrt(square - mean**2), 1 / math.sqrt(tail)


E = math.e
KNOWN = [
    (np.exp, None, (1 / math.sqrt(E * E - E), 1 / E)),
    (np.abs, None, (1 / math.sqrt(1 - 2 / math.pi), 1.0)),
    (np.cos, None, (1 / math.sqrt((1 - 1 / E) ** 2 / 2), 1 / math.sqrt((1 - E**-2) / 2))),
    (lambda x: 1e3 + x, None, (1.0, 1.0)),
    (lambda x: (1e4 + x) ** 2, None, (1 / math.sqrt(4e8 + 2), 1 / math.sqrt(4e8 + 4))),
    (lambda x: np.maximum(x - 1 / 3, 0), None, shifted_relu(1 / 3)),
    (np.sign, lambda x: np.ones_like(x), (1.0, 1.0)),
]


@pytest.mark.parametrize(("function", "derivative", "want"), KNOWN)
def test_derived_factors_are_those_of_closed_forms(function, derivative, want):
    """Kinks at 0 and elsewhere, a large mean, and a jump whose derivative is said to be another."""
    assert us.derive_scale(function, derivative) == pytest.approx(want, rel=1e-9)


@pytest.mark.parametrize("name", TABLE)
def test_slopes_of_polynomials_give_what_the_derivative_gives(name):
    function, derivative = activations._functions(name, 1.0)
    assert us.derive_scale(function) == pytest.approx(us.derive_scale(function, derivative), rel=1e-11)


def test_an_operation_of_ones_own_is_like_the_others():
    softplus = us.elementwise(lambda x: np.logaddexp(0, x), lambda x: 1 / (1 + np.exp(-x)))
    y, vjp = softplus(normal(100_000), constraint=None)
    assert_scale(y, abs=0.01)
    assert rms(vjp(normal(100_000, seed=1))[0]) == pytest.approx(1, abs=0.01)
    assert us.elementwise(np.tanh, np.cosh, scales=(2.0, 3.0))([0.0], constraint=None)[1].beta == (3.0,)


# -- unit variance: the repo's tests -----------------------------------------------------------------


def test_linear_and_readout_at_the_repos_size():
    """256 x 1024 to 4096: 1 +- 0.1; the readout's std is 2**-5."""
    x, w, bias = normal(256, 1024), normal(1024, 4096, seed=3), np.zeros(4096, np.float32)
    y, vjp = us.linear(x, w, bias, constraint=None)
    assert_scale(y, *vjp(normal(*y.shape, seed=4)))
    out, vjp = us.readout(x, w, bias)
    assert_scale(out, target=2**-5, abs=0.001)
    assert vjp.beta == us.linear(x[:1], w, bias, constraint=None)[1].beta[:1] + (1 / 16,) * 2


PAIRS = {
    "alike": (normal(256, 1024), normal(256, 1024, seed=3)),
    "rows": (normal(1024), normal(256, 1024, seed=3)),
    "both broadcast": (normal(64, 1, 256), normal(512, 256, seed=3)),
}
X, W, BIAS = normal(256, 1024), normal(1024, seed=3), np.zeros(1024, np.float32)
INDICES = np.random.default_rng(0).integers(0, 4096, (16, 32))
UNIT = {
    **{
        f"{operation.__name__}, {how}": functools.partial(operation, *pair, constraint=None)
        for operation in (us.add, us.multiply)
        for how, pair in PAIRS.items()
    },
    "matmul": lambda: us.matmul(X, normal(1024, 4096, seed=3), constraint=None),
    "layer_norm with a weight": lambda: us.layer_norm(X, W, BIAS),
    "layer_norm": lambda: us.layer_norm(X),
    "rms_norm with a weight": lambda: us.rms_norm(X, W),
    "rms_norm": lambda: us.rms_norm(X),
    "sum": lambda: us.sum(normal(4096, 256), axis=1, constraint=None),
    "weighted_sum": lambda: us.weighted_sum([normal(4096), normal(4096, seed=3)], [0.3, 20.0]),
    "embedding": lambda: us.embedding(INDICES, normal(4096, 64)),
    **{
        f"dropout {p}": functools.partial(us.dropout, normal(2**18), p, rng=np.random.default_rng(7))
        for p in (0.01, 0.1, 0.5, 0.9, 0.99)
    },
}


@pytest.mark.parametrize("name", UNIT)
def test_results_and_gradients_have_unit_variance(name):
    """Repo: 1 +- 0.1, at its sizes."""
    result = UNIT[name]()
    assert_scale(result[0], *backward(result, seed=4))


def test_constrained_linear_layers_have_one_pass_or_neither_at_unit_variance():
    """Repo, at a quarter of the size; the product of both stays 1 under the geometric mean."""
    x, w, bias = normal(64, 256), normal(256, 1024, seed=3), np.zeros(1024, np.float32)
    y, vjp = us.linear(x, w, bias, constraint="gmean")
    dx, dw, db = vjp(normal(*y.shape, seed=4))
    assert_scale(dw, db)
    assert y.std() * dx.std() == pytest.approx(1, abs=0.1)
    assert (y.std(), dx.std()) == (pytest.approx(0.71, abs=0.02), pytest.approx(1.41, abs=0.02))
    y, vjp = us.linear(x, w, constraint="to_output_scale")
    assert_scale(y)
    assert_scale(vjp(normal(*y.shape, seed=4))[0], target=2)
    y, vjp = us.linear(x, w, constraint="to_grad_input_scale")
    assert_scale(y, target=0.5)
    assert_scale(vjp(normal(*y.shape, seed=4))[0])


@pytest.mark.parametrize(
    ("constraint", "unit"), [("to_output_scale", 0), ("to_left_grad_scale", 1), ("to_right_grad_scale", 2)]
)
def test_a_constrained_matmul_has_unit_variance_where_it_is_asked(constraint, unit):
    y, vjp = us.matmul(normal(64, 256), normal(256, 1024, seed=3), constraint)
    found = [float(each.std()) for each in (y, *vjp(normal(*y.shape, seed=4)))]
    want = [(16, 32, 8)[index] / (16, 32, 8)[unit] for index in range(3)]
    assert found == pytest.approx(want, rel=0.1)


def test_an_operand_that_is_broadcast_counts_the_products_of_all_copies():
    """Batches of matrices with one matrix, on either side: its gradient is a sum over the batch too."""
    for left, right, side, count in (
        ((8, 32, 64), (64, 128), 1, 8 * 32),
        ((32, 64), (8, 64, 128), 0, 8 * 128),
    ):
        y, vjp = us.matmul(normal(*left), normal(*right, seed=3), constraint=None)
        assert_scale(y, *vjp(normal(*y.shape, seed=4)))
        assert vjp.beta[side] == count**-0.5


@pytest.mark.parametrize(
    "settings", [{}, {"stride": 3}, {"padding": 6}, {"dilation": 2}, {"groups": 16}], ids=str
)
def test_conv1d_has_unit_variance(settings):
    """Repo, at a quarter of each size; of 80 biases the std is 1 +- 0.24 (3 sigma)."""
    inputs, outputs, size, length = 48, 80, 11, 112
    w = normal(outputs, inputs // settings.get("groups", 1), size, seed=3)
    y, vjp = us.conv1d(normal(16, inputs, length), w, np.zeros(outputs, np.float32), None, **settings)
    dx, dw, db = vjp(normal(*y.shape, seed=4))
    assert_scale(y, dx, dw)
    assert_scale(db, abs=0.24)


@pytest.mark.parametrize(
    ("settings", "alpha"),
    [
        ({}, 12 * 9),
        ({"stride": (3, 2)}, 12 * 9),
        ({"padding": (2, 0)}, 12 * 9),
        ({"dilation": (1, 3)}, 12 * 9),
        ({"groups": 4}, 3 * 9),
    ],
    ids=str,
)
def test_conv2d_has_unit_variance(settings, alpha):
    """Alpha from the sum's length; the gradient of x away from its borders, where fewer windows reach."""
    w = normal(24, 12 // settings.get("groups", 1), 3, 3, seed=3)
    y, vjp = us.conv2d(normal(8, 12, 48, 48), w, np.zeros(24, np.float32), None, **settings)
    assert vjp.alpha == pytest.approx(alpha**-0.5)
    dx, dw, db = vjp(normal(*y.shape, seed=4))
    assert_scale(y if "padding" not in settings else y[:, :, 2:-2])
    assert_scale(dx[:, :, 9:-9, 9:-9], dw)
    assert_scale(db, abs=0.45)  # 3 sigma of 24


def test_a_product_of_a_value_with_itself_or_a_number():
    """Measure what has no unit variance; the page says so of a value with itself."""
    x = normal(256, 1024)
    y, vjp = us.multiply(x, x)
    assert y.var() == pytest.approx(2, rel=0.05)
    y, vjp = us.multiply(normal(256, 1024), np.float32(3.0))
    assert (vjp.alpha, vjp.beta[0]) == (1, 1)
    assert vjp.beta[1] == pytest.approx((256 * 1024) ** -0.5)


def test_convolutions_are_sums_of_the_library():
    """With a product in binary32 by fused multiply-adds: the same as of the windows by hand, bit for bit."""
    product = functools.partial(lp.matmul, accumulation="fp32_fma")
    x, w = normal(2, 3, 5, 6), normal(4, 3, 2, 2, seed=3)
    vjp = us.conv2d(x, w, constraint=None, product=product)[1]
    for row, column in np.ndindex(4, 5):
        window = x[:, :, row : row + 2, column : column + 2].reshape(2, -1)
        want = lp.matmul(window, w.reshape(4, -1).T, "fp32_fma")
        assert (vjp.plain[:, :, row, column] == want).all()


def test_a_number_is_added_at_unit_variance():
    """Repo."""
    for constraint in (None, "gmean", "to_right_grad_scale"):
        y, vjp = us.add(normal(256, 1024), 2.0, constraint)
        dx, number = vjp(normal(*y.shape, seed=4))
        assert_scale(y, dx)
        assert 0.0001 < abs(float(number)) < 5
        assert (vjp.alpha, vjp.beta) == (1, (1, 2**-9))
    y, vjp = us.add(*PAIRS["alike"])
    assert np.prod([each.std() for each in (y, *vjp(normal(*y.shape, seed=4)))]) == pytest.approx(1, abs=0.1)


@pytest.mark.parametrize("tau", [0.2, 1.0, 3.0])
def test_residual_layers_have_unit_variance_within_the_branch_too(tau):
    """Repo."""
    w = normal(1024, 1024, seed=3)
    (branch, skip), split = us.residual_split(normal(64, 1024), tau)
    branch, inner = us.linear(branch, w)
    y, outer = us.residual_add(branch, skip, tau)
    dbranch, dskip = outer(normal(*y.shape, seed=4))
    assert_scale(branch, y, dbranch, dskip, *split(inner(dbranch)[0], dskip), *inner(dbranch)[1:])
    y, vjp = us.residual_apply(lambda x: us.linear(x, w), normal(64, 1024), tau)
    assert_scale(y, *vjp(normal(*y.shape, seed=4)))


def test_softmax_with_a_small_multiplier_has_unit_mean_square():
    """Repo, with 1/4: the model is rough where it is 1."""
    result = us.softmax(normal(4096, 2), axis=0, mult=0.25, constraint=None)
    assert_scale(result[0], *backward(result), statistic=rms)


def test_attention_has_unit_variance():
    """Repo: output and gradient of value; the gradients of query and key have d**-1/2, 1/8."""
    y, vjp = us.attention(*(normal(256, 64, 64, seed=seed) for seed in (1, 2, 3)))
    dq, dk, dv = vjp(normal(*y.shape, seed=4))
    assert_scale(y, dv)
    assert_scale(dq, dk, target=1 / 8, abs=0.02)


@pytest.mark.apart
def test_causal_attention_has_about_unit_variance():
    y, vjp = us.attention(*(normal(64, 128, 64, seed=seed) for seed in (1, 2, 3)), causal=True)
    assert_scale(y, vjp(normal(*y.shape, seed=4))[2], abs=0.12)


@pytest.mark.parametrize("reduction", ["mean", "sum"])
@pytest.mark.parametrize("shape", [(256,), (4096, 256)])
def test_cross_entropy_is_the_ordinary_one_with_a_gradient_of_unit_variance(reduction, shape):
    """Repo; with the plain formula as the ordinary one."""
    logits, labels = normal(*shape).astype(np.float64), np.random.default_rng(1).integers(0, 256, shape[:-1])
    loss, vjp = us.cross_entropy(logits, labels, reduction)
    raised = np.exp(logits)
    shares = raised / raised.sum(-1, keepdims=True)
    each = -np.log(np.take_along_axis(shares, labels[..., None], -1))
    assert float(loss) == pytest.approx(float(each.mean() if reduction == "mean" else each.sum()), rel=1e-12)
    assert_scale(vjp()[0])


def test_the_gradient_of_cross_entropy_does_not_depend_on_the_size_of_a_multiplier():
    """Softmax less one-hot, times s / sqrt(s - 1): the multiplier changes the softmax, and no factor."""
    logits, labels = normal(8, 5).astype(np.float64), np.arange(8) % 5
    raised = np.exp(3 * logits)
    want = (raised / raised.sum(-1, keepdims=True) - np.eye(5)[labels]) * 2.5
    for reduction in ("mean", "sum"):
        assert us.cross_entropy(logits, labels, reduction, mult=3.0)[1]()[0] == pytest.approx(want, abs=1e-12)


def test_the_gradient_of_cross_entropy_at_the_size_of_a_language_model():
    """4096 tokens of 256: std 0.06258 raw, 1.003 scaled; 1.5e-5 by mean, about E5M2's least subnormal."""
    logits, labels = normal(4096, 256, seed=1), np.random.default_rng(1).integers(0, 256, 4096)
    scaled = us.cross_entropy(logits, labels)[1]()[0]
    raw = us.unscaled(us.cross_entropy)(logits, labels, "sum")[1]()[0]
    mean = us.unscaled(us.cross_entropy)(logits, labels)[1]()[0]
    assert raw.std() == pytest.approx(0.06258, abs=2e-4)
    assert scaled.std() == pytest.approx(1.003, abs=3e-3)
    assert mean.std() == pytest.approx(1.5e-5, abs=5e-7)
    assert 0.9 < mean.std() / 2.0**-16 < 1.1


@pytest.mark.parametrize("reduction", ["mean", "sum"])
def test_mse_is_the_ordinary_one_with_gradients_of_unit_variance(reduction):
    x, target = normal(2, 1024), normal(2, 1024, seed=1)
    loss, vjp = us.mse(x, target, reduction)
    error = np.square(x - target)
    assert float(loss) == pytest.approx(float(error.mean() if reduction == "mean" else error.sum()), rel=1e-5)
    assert_scale(*vjp())


# -- a multilayer perceptron: the guide's ------------------------------------------------------------

WIDTH, BATCH = 1024, 256


def mlp(constraint, scaled=True):
    """The guide's model, tracked: (std forward, std backward) of each tensor."""
    rng = np.random.default_rng(0)
    kept = (lambda operation: operation) if scaled else us.unscaled
    tracker = us.ScaleTracker()
    settings = {"constraint": constraint} if scaled else {}

    def weight(fan_in, fan_out):
        if scaled:
            return rng.standard_normal((fan_in, fan_out), np.float32), np.zeros(fan_out, np.float32)
        bound = fan_in**-0.5
        return tuple(
            rng.uniform(-bound, bound, size).astype(np.float32) for size in ((fan_in, fan_out), fan_out)
        )

    x = tracker.forward("x", rng.standard_normal((BATCH, WIDTH), np.float32))
    layers = [weight(WIDTH, 4 * WIDTH), weight(4 * WIDTH, WIDTH)]
    first, back1 = tracker.follow("linear_1", kept(us.linear)(x, *layers[0], **settings))
    middle, back2 = tracker.follow("gelu", kept(us.gelu)(first, **settings))
    out, back3 = tracker.follow("linear_2", kept(us.linear)(middle, *layers[1], **settings))
    dmiddle, dw2, db2 = back3(rng.standard_normal(out.shape, np.float32))
    (dfirst,) = back2(dmiddle)
    dx, dw1, db1 = back1(dfirst)
    for name, grad in {"x": dx, "w1": dw1, "b1": db1, "w2": dw2, "b2": db2}.items():
        tracker.backward(name, grad)
    return {
        name: tuple(side and side.std for side in (tracker[name].forward, tracker[name].backward))
        for name in tracker
    }


def test_the_guides_model_with_the_geometric_mean():
    """Guide and design: forward 0.707, 0.641, 0.977; backward 0.69, 0.708, 0.718, 0.717, 1.015."""
    found = mlp("gmean")
    assert [found[name][0] for name in ("linear_1", "gelu", "linear_2")] == pytest.approx(
        [0.707, 0.641, 0.977], abs=0.01
    )
    assert [found[name][1] for name in ("w2", "gelu", "linear_1", "w1", "x")] == (
        pytest.approx([0.69, 0.708, 0.718, 0.717, 1.015], abs=0.01)
    )


def test_the_guides_model_without_constraints():
    """All 1.00, but the last output and the second weight's gradient: gelu's mean makes them 1.11."""
    found = mlp(None)
    assert found["linear_2"][0] == pytest.approx(1.11, abs=0.01)
    assert found["w2"][1] == pytest.approx(1.11, abs=0.01)
    ones = [
        found["linear_1"][0],
        found["gelu"][0],
        *(found[name][1] for name in ("gelu", "linear_1", "w1", "x")),
    ]
    assert ones == pytest.approx([1.0] * 6, abs=0.01)
    gelu = us.unscaled(us.gelu)(np.random.default_rng(0).standard_normal(100_000))[0]
    assert rms(gelu) == pytest.approx(0.652, abs=0.005)
    assert rms(gelu) * 1.7009 == pytest.approx(1.11, abs=0.01)


def test_the_guides_model_unscaled():
    """Guide: output 0.198, gradient of x 0.204, of the second bias 16.1."""
    found = mlp(None, scaled=False)
    assert found["linear_2"][0] == pytest.approx(0.198, abs=0.005)
    assert found["x"][1] == pytest.approx(0.204, abs=0.005)
    assert found["b2"][1] == pytest.approx(16.1, abs=0.6)
    assert [found[name][1] for name in ("w1", "w2", "b1")] == pytest.approx([2.83, 5.48, 2.84], rel=0.03)


# -- u-muP -------------------------------------------------------------------------------------------


def test_learning_rates_follow_the_rules_of_umup():
    assert us.learning_rate_scale("weight", 1024) == 2**-5
    assert us.learning_rate_scale("weight", 1024, depth=4) == 2**-6
    assert [us.learning_rate_scale(kind, 1024) for kind in ("output", "bias", "norm")] == [1, 1, 1]
    assert us.learning_rate_scale("bias", 1024, depth=16) == 1 / 4
    behind = [
        us.learning_rate_scale(kind, 64, readout_constraint="to_output_scale")
        for kind in ("weight", "bias", "norm", "output")
    ]
    assert behind == [8, 64, 64, 1]
    assert us.weight_decay(0.5, 0.25) == 2


def test_tau_of_a_transformer_is_umups():
    """Repo: L = 4, all alike."""
    assert [us.transformer_tau(index, 4) for index in range(4)] == pytest.approx(
        [0.7071, 0.5774, 0.5, 0.4472], abs=5e-5
    )


@pytest.mark.parametrize(("mult", "ratio"), [(1.0, 1.0), (2.0, 0.5), (0.3, 4.0)])
def test_layers_of_a_kind_contribute_alike(mult, ratio):
    """Walk the stack with variances: what tau promises about the end of it."""
    layers, shares = 12, [1.0]
    for index in range(layers):
        tau = us.transformer_tau(index, layers, mult=mult, attention_ratio=ratio)
        shares = [share / (1 + tau**2) for share in shares] + [tau**2 / (1 + tau**2)]
    assert sum(shares) == pytest.approx(1)
    assert shares[1::2] == pytest.approx([shares[1]] * 6)
    assert shares[2::2] == pytest.approx([shares[2]] * 6)
    assert math.sqrt(shares[1] / shares[2]) == pytest.approx(ratio)
    assert sum(shares[1:]) / 2 / shares[0] == pytest.approx(mult**2)
