"""Every operation's vjp against finite differences of the unscaled function, times beta.

In float64, with central differences of step h = 1e-6: the error is h**2 of third derivatives and 1e-16 / h of
values, both below 1e-9 for functions and inputs of size 1, so that 1e-7 catches every wrong term.
"""

import functools

import numpy as np
import pytest

import lowprec as lp
from lowprec.methods import unit_scaling as us

STEP = 1e-6


def normal(*shape, seed=0):
    return np.random.default_rng(seed).standard_normal(shape)


def differences(function, arrays, index):
    """The derivative by arrays[index], element by element."""
    found = np.empty_like(arrays[index])
    for place in np.ndindex(found.shape):
        sides = []
        for sign in (STEP, -STEP):
            moved = [each.copy() for each in arrays]
            moved[index][place] += sign
            sides.append(function(*moved))
        found[place] = (sides[0] - sides[1]) / (2 * STEP)
    return found


INDICES = np.array([[2, 0, 2], [1, 2, 0]])
LABELS = np.array([[0, 3], [2, 2], [1, 0]])
CASES = {
    "matmul": (us.matmul, normal(3, 4), normal(4, 2)),
    "matmul, batches": (us.matmul, normal(2, 1, 3, 4), normal(5, 4, 2)),
    "linear": (us.linear, normal(2, 3, 4), normal(4, 5), normal(5)),
    "linear, one row": (us.linear, normal(4), normal(4, 5)),
    "readout": (us.readout, normal(3, 4), normal(4, 5), normal(5)),
    "conv1d": (us.conv1d, normal(2, 3, 8), normal(4, 3, 3), normal(4)),
    "conv1d, all settings": (
        functools.partial(us.conv1d, stride=2, padding=3, dilation=2, groups=2), normal(2, 1, 4, 7),
        normal(6, 2, 3), normal(6),
    ),
    "conv1d, without batch": (functools.partial(us.conv1d, stride=3), normal(2, 7), normal(1, 2, 2)),
    "conv2d": (us.conv2d, normal(2, 3, 4, 5), normal(4, 3, 3, 2), normal(4)),
    "conv2d, all settings": (
        functools.partial(us.conv2d, stride=(2, 1), padding=(1, 2), dilation=(1, 2), groups=2),
        normal(2, 4, 4, 3), normal(6, 2, 2, 3), normal(6),
    ),
    "conv2d, without batch": (functools.partial(us.conv2d, stride=2), normal(2, 4, 5), normal(1, 2, 2, 2)),
    "multiply": (us.multiply, normal(3, 4), normal(3, 4, seed=1)),
    "multiply, broadcast": (us.multiply, normal(3, 1, 4), normal(2, 1, seed=1)),
    "multiply, one element": (us.multiply, normal(3, 4), normal(1, 1, seed=1)),
    "embedding": (lambda table: us.embedding(INDICES, table), normal(4, 3)),
    "gelu": (us.gelu, normal(12)),
    "gelu, mult": (functools.partial(us.gelu, mult=2.5), normal(12)),
    "silu": (us.silu, normal(12)),
    "silu, mult": (functools.partial(us.silu, mult=0.3), normal(12)),
    "tanh": (us.tanh, normal(12)),
    "sigmoid": (us.sigmoid, normal(12)),
    "relu": (us.relu, normal(12)),
    "hardtanh": (us.hardtanh, normal(12)),
    **{
        f"glu, {name}": (functools.partial(us.glu, activation=name), normal(3, 4), normal(3, 4, seed=1))
        for name in ("silu", "gelu", "sigmoid", "tanh", "relu", "hardtanh")
    },
    "glu, mult": (functools.partial(us.glu, mult=3.0), normal(3, 4), normal(3, 4, seed=1)),
    "softmax": (us.softmax, normal(3, 4)),
    "softmax, mult and axis": (functools.partial(us.softmax, axis=0, mult=0.7), normal(3, 4)),
    "attention": (us.attention, normal(2, 3, 4), normal(2, 5, 4, seed=1), normal(2, 5, 3, seed=2)),
    "attention, causal": (
        functools.partial(us.attention, causal=True, mult=2.0),
        normal(4, 3), normal(4, 3, seed=1), normal(4, 3, seed=2),
    ),
    "attention, mask": (
        functools.partial(us.attention, mask=np.array([[1, 0, 1], [0, 1, 1]], bool)),
        normal(2, 2, 3), normal(2, 3, 3, seed=1), normal(2, 3, 2, seed=2),
    ),
    "add": (us.add, normal(3, 4), normal(3, 4, seed=1)),
    "add, broadcast": (us.add, normal(3, 1, 4), normal(2, 1, seed=1)),
    "add, one element": (us.add, normal(3, 4), normal(1, 1, seed=1)),
    "add, number": (us.add, np.array(2.0), normal(3, 4)),
    "sum": (us.sum, normal(3, 4)),
    "sum, axes": (functools.partial(us.sum, axis=(0, -1)), normal(2, 3, 4)),
    "weighted_sum": (
        lambda *arrays: us.weighted_sum(arrays, [0.5, -2.0, 3.0]), normal(3), normal(3), normal(3),
    ),
    "residual_add": (functools.partial(us.residual_add, tau=0.4), normal(3), normal(3, seed=1)),
    "layer_norm": (us.layer_norm, normal(3, 4), normal(4), normal(4, seed=1)),
    "layer_norm, plain": (us.layer_norm, normal(3, 4)),
    "layer_norm, bias alone": (lambda x, bias: us.layer_norm(x, bias=bias), normal(3, 4), normal(4)),
    "layer_norm, two axes": (
        functools.partial(us.layer_norm, axis=(1, 2), eps=0.1), normal(3, 2, 2), normal(2, 2),
        normal(2, 2, seed=1),
    ),
    "rms_norm": (us.rms_norm, normal(3, 4), normal(4)),
    "rms_norm, eps": (functools.partial(us.rms_norm, eps=0.5), normal(3, 4)),
    "dropout": (functools.partial(us.dropout, p=0.4, rng=3), normal(12)),
    "cross_entropy": (lambda x: us.cross_entropy(x, LABELS), normal(3, 2, 4)),
    "cross_entropy, sum and mult": (lambda x: us.cross_entropy(x, LABELS, "sum", mult=2.5), normal(3, 2, 4)),
    "cross_entropy, one": (lambda x: us.cross_entropy(x, 2), normal(4)),
    "mse": (us.mse, normal(3, 4), normal(3, 4, seed=1)),
    "mse, sum": (functools.partial(us.mse, reduction="sum"), normal(3, 4), normal(3, 4, seed=1)),
    "elementwise": (us.elementwise(np.cos, lambda x: -np.sin(x)), normal(12)),
}  # fmt: skip


@pytest.mark.parametrize("name", CASES)
@pytest.mark.parametrize("unscaled", [False, True], ids=["scaled", "unscaled"])
def test_gradients_are_finite_differences_of_the_unscaled_function_times_beta(name, unscaled):
    operation, *arrays = CASES[name]
    used = us.unscaled(operation) if unscaled else operation
    y, vjp = used(*arrays)
    grad = normal(*y.shape, seed=9)
    found = vjp(grad)
    assert len(found) == len(vjp.beta) == len(arrays)

    def plain(*operands):
        result, factors = used(*operands)
        return float((result / factors.alpha * grad).sum())

    for index, (got, beta) in enumerate(zip(found, vjp.beta, strict=True)):
        want = beta * differences(plain, arrays, index)
        assert got.shape == arrays[index].shape
        assert np.abs(got - want).max() <= 1e-7 * max(1, np.abs(want).max()), (name, index)
    if unscaled:
        assert (vjp.alpha, *vjp.beta) == (1,) * (1 + len(arrays))


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("operation", [us.gelu, us.silu], ids=lambda operation: operation.__name__)
@pytest.mark.parametrize("mult", [0.5, 1.0])
def test_far_out_gelu_and_silu_are_0_and_the_operand(operation, mult, dtype):
    """Infinite numbers and huge ones, in both passes; 0 below comes with the sign of what is nearly 0."""
    far = dtype([np.inf, np.finfo(dtype).max / 4])
    above, vjp = operation(far, mult, constraint=None)
    assert above[0] == np.inf
    assert above[1] == dtype(vjp.alpha) * far[1]
    assert (vjp(np.ones(2))[0] == dtype(vjp.beta[0])).all()
    below, vjp = operation(-far, mult)
    assert (below == 0).all()
    assert np.signbit(below).all()
    assert (vjp(np.ones(2))[0] == 0).all()
    for number, want in ((-np.inf, 0), (np.nan, np.nan)):  # of a single number too
        np.testing.assert_array_equal(operation(number, mult)[0], want)
        np.testing.assert_array_equal(operation(number, mult)[1](1.0)[0], want)


@pytest.mark.parametrize("activation", ["gelu", "silu"])
def test_a_gate_far_below_is_closed(activation):
    """Of glu: what comes through, and both gradients."""
    y, vjp = us.glu(np.ones(1), np.array([-np.inf]), activation)
    assert y == 0
    assert [float(each[0]) for each in vjp(np.ones(1))] == [0, 0]


CONSTRAINED = [
    "matmul", "linear", "conv1d", "conv2d", "multiply", "multiply, broadcast", "gelu", "silu", "tanh",
    "glu, silu", "softmax", "add", "sum",
]  # fmt: skip


@pytest.mark.parametrize("name", CONSTRAINED)
@pytest.mark.parametrize("constraint", ["gmean", "hmean", "amean", "to_output_scale", min])
def test_under_a_constraint_gradients_of_activations_are_true(name, constraint):
    """Finite differences of y itself: alpha and beta are one factor. Weights cut the graph, and go free."""
    operation, *arrays = CASES[name]
    y, vjp = operation(*arrays, constraint=constraint)
    grad = normal(*y.shape, seed=9)
    free = {"linear": 1, "conv1d": 1, "conv2d": 1}.get(name, len(arrays))
    for index, got in enumerate(vjp(grad)[:free]):
        want = differences(
            lambda *given: float((operation(*given, constraint=constraint)[0] * grad).sum()), arrays, index
        )
        assert np.abs(got - want).max() <= 1e-7 * max(1, np.abs(want).max())


@pytest.mark.parametrize("tau", [0.3, 1.0, 4.0])
def test_a_residual_layer_has_a_true_gradient(tau):
    """Though the factor of the branch is applied at its end forward, and at its beginning backward."""
    x, w = normal(3, 4), normal(4, 4, seed=1)
    branch = functools.partial(us.linear, weight=w)
    y, vjp = us.residual_apply(branch, x, tau)
    grad = normal(*y.shape, seed=9)
    dx, dw = vjp(grad)
    want = differences(lambda values: float((us.residual_apply(branch, values, tau)[0] * grad).sum()), [x], 0)
    assert np.abs(dx - want).max() <= 1e-7
    # The weight's gradient is that of a branch by itself: unit-scaled, not multiplied by tau / sqrt(1 +
    # tau**2).
    assert dw == pytest.approx(us.linear(x, w)[1](grad)[1], rel=1e-12)


def test_the_gradient_of_a_weighted_sum_has_the_sign_of_its_weight():
    """A step against it lowers y, for what is subtracted too."""
    grads = us.weighted_sum([normal(3), normal(3), normal(3)], [0.5, -2.0, 3.0])[1](np.ones(3))
    assert [each.tolist() for each in grads] == [[1.0] * 3, [-1.0] * 3, [1.0] * 3]


def test_operations_of_nothing_give_nothing():
    """Sums of no products are 0, and factors that depend on their number 1."""
    nothing = normal(0, 3)
    for operation, arrays in (
        (us.add, (nothing, normal(3))),
        (us.add, (normal(3), nothing)),
        (us.linear, (nothing, normal(3, 2), normal(2))),
        (us.linear, (normal(4, 0), normal(0, 2))),
        (us.linear, (normal(4, 3), normal(3, 0))),
        (us.matmul, (normal(0, 2, 3), normal(3, 2))),
        (us.matmul, (normal(2, 0), normal(0, 2))),
        (us.conv1d, (normal(0, 2, 5), normal(2, 2, 3))),
        (us.conv2d, (normal(0, 2, 5, 4), normal(2, 2, 3, 2))),
        (us.multiply, (nothing, normal(3))),
        (us.multiply, (normal(3), nothing)),
    ):
        y, vjp = operation(*arrays)
        assert np.isfinite([vjp.alpha, *vjp.beta]).all()
        assert not y.any()
        for grad, each in zip(vjp(np.ones(y.shape)), arrays, strict=True):
            assert grad.shape == each.shape
            assert not grad.any()


def test_an_ordinary_residual_layer_is_the_weighted_sum():
    """(tau f(x) + x) / sqrt(1 + tau**2); the paper writes sqrt(t) and sqrt(1 - t)."""
    x = normal(5)
    y, _ = us.residual_apply(us.tanh, x, tau=0.75)
    assert y == pytest.approx(0.6 * us.tanh(x)[0] + 0.8 * x, rel=1e-14)


# -- definitions, by other formulas ------------------------------------------------------------------


def test_values_of_operations_are_alpha_times_the_ordinary_ones():
    """Differences say nothing of constants: each f by its definition, in plain loops or NumPy."""
    x, w, bias = normal(3, 4), normal(4, 5, seed=1), normal(5, seed=2)
    q, k, v = normal(4, 3), normal(4, 3, seed=1), normal(4, 3, seed=2)
    logits = np.where(np.tri(4) > 0, q @ k.T / 3, -np.inf)
    weights = np.exp(logits) / np.exp(logits).sum(-1, keepdims=True)
    seen = weights * [[1, 0, 0, 1], [0, 1, 1, 0], [0, 1, 1, 0], [1, 0, 0, 1]]
    seen /= seen.sum(-1, keepdims=True)
    signal, taps = normal(2, 9), normal(3, 2, 2, seed=1)
    padded = np.pad(signal, ((0, 0), (1, 1)))
    conv = [
        [sum(taps[o, c, s] * padded[c, 2 * t + 3 * s] for c in range(2) for s in range(2)) for t in range(4)]
        for o in range(3)
    ]
    image, kernel = normal(4, 5, 6, seed=3), normal(6, 2, 2, 3, seed=4)
    framed = np.pad(image, ((0, 0), (1, 1), (2, 2)))
    conv2 = [
        [
            [
                sum(
                    kernel[o, c, s, t] * framed[o // 3 * 2 + c, 2 * i + 3 * s, j + 2 * t]
                    for c in range(2) for s in range(2) for t in range(3)
                )
                for j in range(6)
            ]
            for i in range(2)
        ]
        for o in range(6)
    ]  # fmt: skip
    centered = x - x.mean(-1, keepdims=True)
    pairs = [
        (
            us.conv2d(image, kernel, stride=(2, 1), padding=(1, 2), dilation=(3, 2), groups=2),
            np.array(conv2),
        ),
        (us.multiply(x, w[:, 0]), [[x[i, j] * w[j, 0] for j in range(4)] for i in range(3)]),
        (us.linear(x, w, bias), x @ w + bias),
        (us.readout(x, w, bias), x @ w + bias),
        (us.attention(q, k, v, causal=True), weights @ v),
        (
            us.attention(q, k, v, causal=True, mask=np.eye(4, dtype=bool)[::-1] | np.eye(4, dtype=bool)),
            seen @ v,
        ),
        (us.conv1d(signal, taps, stride=2, padding=1, dilation=3), np.array(conv)),
        (
            us.layer_norm(x, w[:, 0], w[:, 1]),
            centered / np.sqrt((centered**2).mean(-1, keepdims=True) + 1e-5) * w[:, 0] + w[:, 1],
        ),
        (us.rms_norm(x), x / np.sqrt((x**2).mean(-1, keepdims=True) + 1e-5)),
        (us.gelu(x, mult=2.0), us.gelu(2 * x)[0] / us.gelu(0.0)[1].alpha / 2),
        (us.silu(x, mult=2.0), x / (1 + np.exp(-2 * x))),
        (us.sigmoid(x), 1 / (1 + np.exp(-x))),
        (us.softmax(x, axis=0, mult=2.0), np.exp(2 * x) / np.exp(2 * x).sum(0)),
        (us.embedding(INDICES, x.T), x.T[INDICES]),
    ]
    for (y, vjp), want in pairs:
        assert y / vjp.alpha == pytest.approx(np.array(want), rel=1e-12, abs=1e-14), vjp.name


def test_gelu_is_exact_far_out():
    """The lower tail of Phi, where 1 + erf would have lost everything."""
    y, vjp = us.gelu([-10.0, 10.0, 0.0])
    assert y / vjp.alpha == pytest.approx([-10 * 7.619853024160527e-24, 10.0, 0.0], rel=1e-12)


def test_extreme_values_give_no_warnings_and_no_nans():
    """Warnings are errors here."""
    x = np.array([-1e4, -800.0, 0.0, 800.0, 1e4])
    for operation in (us.sigmoid, us.silu, us.gelu, us.tanh, us.relu, us.hardtanh, us.softmax):
        y, vjp = operation(x)
        assert np.isfinite(y).all()
        assert np.isfinite(vjp(np.ones(5))[0]).all()
    loss, vjp = us.cross_entropy(x, 2)
    assert (float(loss), np.isfinite(vjp()[0]).all()) == (1e4, True)


# -- types -------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", CASES)
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_results_have_the_type_of_the_operands(name, dtype):
    """Factors are Python numbers, and widen nothing."""
    operation, *arrays = CASES[name]
    y, vjp = operation(*(each.astype(dtype) for each in arrays))
    assert y.dtype == dtype
    assert {each.dtype for each in vjp(np.ones(y.shape))} == {np.dtype(dtype)}


def test_narrow_floats_and_integers_are_widened():
    assert us.relu(np.array([1, 2], np.float16))[0].dtype == np.float32
    assert us.relu(np.array([1, 2], lp.dtype("bfloat16")))[0].dtype == np.float32
    assert us.relu(np.array([1, 2], lp.dtype("e4m3fn")))[0].dtype == np.float32
    assert us.relu(np.array([1, 2], np.int64))[0].dtype == np.float64


def test_a_product_of_ones_own_makes_both_passes():
    """One that rounds what it gives: each output and gradient is alpha or beta times a format's value."""
    x, w = normal(4, 8).astype(np.float32), normal(8, 5, seed=1).astype(np.float32)
    q, k, v = (normal(2, 4, 8, seed=seed).astype(np.float32) for seed in range(3))

    def product(left, right):
        calls.append(1)
        return lp.quantize(left @ right, "bfloat16")

    for operation, arrays, count in ((us.linear, (x, w), 3), (us.readout, (x, w), 3), (us.matmul, (x, w), 3)):
        calls = []
        y, vjp = us.unscaled(operation)(*arrays, product=product)
        for each in (y, *vjp(normal(4, 5, seed=2).astype(np.float32))):
            assert each == pytest.approx(lp.quantize(each, "bfloat16"), rel=1e-6)
        assert len(calls) == count
    calls = []
    y, vjp = us.attention(q, k, v, product=product)
    plain, exact = us.attention(q, k, v)
    for got, want in zip((y, *vjp(v)), (plain, *exact(v)), strict=True):
        assert got == pytest.approx(want, abs=0.05)
        assert not np.array_equal(got, want)
    assert len(calls) == 6
