"""Scalify in torch's autograd: bits and scales of the NumPy rules, loss scales, training. Needs torch."""

import copy
import functools
import operator
import pickle
import warnings
from pathlib import Path

import numpy as np
import pytest

from lowprec.methods import scale_propagation as sp
from tests.support import python, torch_code

pytestmark = pytest.mark.apart
with warnings.catch_warnings():
    warnings.simplefilter("ignore")
    torch = pytest.importorskip("torch", exc_type=ImportError)

PAGE = (Path(__file__).parents[2] / "docs" / "scale-propagation.md").read_text()
RNG = np.random.default_rng(5)


def scaled(*shape, scale=2.0**-30):
    return sp.ScaledArray(RNG.standard_normal(shape).astype(np.float32), scale)


A, P, W, B, G = (
    scaled(3, 4),
    sp.ScaledArray(RNG.random((3, 4)).astype(np.float32) / 4 + 0.125, 4.0),
    scaled(4, 5),
    scaled(5),
    scaled(3, 5),
)
PLACES = np.array([0, 1, 1])
PAIRS = {
    "linear": (sp.linear, A, W, B),
    "linear without bias": (functools.partial(sp.linear, backward="e4m3fn"), A, W),
    "relu": (sp.relu, A),
    "gelu": (sp.gelu, A),
    "silu": (sp.silu, A),
    "layer_norm": (sp.layer_norm, A),
    "embedding": (functools.partial(sp.embedding, PLACES), A),
    "on_forward": (functools.partial(sp.on_forward(sp.cast), fmt="e4m3fn"), A),
    "on_backward": (sp.on_backward(sp.dynamic_rescale), A),
}


def assert_same(found, want):
    """Data, scale and formats are equal, zeros by their signs."""
    assert isinstance(found, sp.ScaledArray)
    assert (float(found.scale), found.format) == (float(want.scale), want.format)
    assert np.array_equal(found.codes, want.codes)


def leaves(*arrays):
    return [sp.to_tensor(each, requires_grad=True) for each in arrays]


@pytest.mark.parametrize("name", PAIRS)
def test_operations_and_their_gradients_have_the_bits_of_the_numpy_rules(name):
    operation, *arrays = PAIRS[name]
    given = leaves(*arrays)
    y = sp.differentiable(operation)(*given)
    want, pull = operation(*arrays)
    gradient = scaled(*want.shape, scale=2.0**-50)
    y.backward(sp.to_tensor(gradient))
    assert_same(y.array, want)
    pulled = pull(gradient)
    pulled = [each for each in (pulled if isinstance(pulled, tuple) else (pulled,)) if each is not None]
    for tensor, each in zip(given, pulled, strict=True):
        assert_same(tensor.grad.array, each)


Y = np.newaxis
#: Torch's code of two operands a and p, the same in NumPy's, and the gradients at a and p from that at y.
CODE = {
    "add": (lambda a, p: a + p, np.add, lambda g, a, p, y: (g, g)),
    "sub": (lambda a, p: a - p, np.subtract, lambda g, a, p, y: (g, -g)),
    "mul": (lambda a, p: a * p, np.multiply, lambda g, a, p, y: (g * p, g * a)),
    "div": (lambda a, p: a / p, np.divide, lambda g, a, p, y: (g / p, -g * ((a / p) / p))),
    "neg": (lambda a, p: -a, lambda a, p: -a, lambda g, a, p, y: (-g,)),
    "1 - a": (lambda a, p: 1 - a, lambda a, p: 1 - a, lambda g, a, p, y: (-g,)),
    "3 a": (lambda a, p: a * 3.0, lambda a, p: a * 3.0, lambda g, a, p, y: (g * 3.0,)),
    "a / 3": (lambda a, p: a / 3.0, lambda a, p: a / 3.0, lambda g, a, p, y: (g / 3.0,)),
    "square": (lambda a, p: a**2, lambda a, p: np.power(a, 2.0), lambda g, a, p, y: (g * (a * 2.0),)),
    "1 / a": (lambda a, p: 1 / a, lambda a, p: np.reciprocal(a), lambda g, a, p, y: (-g * (y * y),)),
    "mm": (lambda a, p: a @ p.T, lambda a, p: a @ p.T, lambda g, a, p, y: (g @ p, g.T @ a)),
    "bmm": (
        lambda a, p: a.unsqueeze(0) @ p.T.unsqueeze(0),
        lambda a, p: (a @ p.T)[Y],
        lambda g, a, p, y: (g[0] @ p, g[0].T @ a),
    ),
    "exp": (lambda a, p: a.exp(), lambda a, p: np.exp(a), lambda g, a, p, y: (g * y,)),
    "log": (lambda p, a: p.log(), lambda p, a: np.log(p), lambda g, p, a, y: (g / p,)),
    "sqrt": (lambda p, a: p.sqrt(), lambda p, a: np.sqrt(p), lambda g, p, a, y: (g / (y * 2),)),
    "tanh": (lambda a, p: a.tanh(), lambda a, p: np.tanh(a), lambda g, a, p, y: (g * (1 - y * y),)),
    "abs": (lambda a, p: a.abs(), lambda a, p: np.abs(a), lambda g, a, p, y: (g * np.sign(a),)),
    "relu": (
        lambda a, p: a.relu(), lambda a, p: np.maximum(a, 0), lambda g, a, p, y: (np.where(y > 0, g, 0),)
    ),
    "where": (
        lambda a, p: torch.where(a > p, a, p),
        lambda a, p: np.where(a > p, a, p),
        lambda g, a, p, y: (np.where(a > p, g, 0.0), np.where(a > p, 0.0, g)),
    ),
    "sum": (
        lambda a, p: a.sum(1, keepdim=True),
        lambda a, p: np.sum(a, axis=1, keepdims=True),
        lambda g, a, p, y: (np.broadcast_to(g, a.shape),),
    ),
    "mean": (
        lambda a, p: a.mean(0), lambda a, p: np.mean(a, axis=0),
        lambda g, a, p, y: (np.broadcast_to(g, a.shape) / 3,),
    ),
    "broadcast": (
        lambda a, p: a + p.sum(0),
        lambda a, p: a + np.sum(p, axis=0),
        lambda g, a, p, y: (g, np.broadcast_to(np.sum(g, axis=0), p.shape)),
    ),
    "transpose": (lambda a, p: a.permute(1, 0), lambda a, p: a.T, lambda g, a, p, y: (g.T,)),
    "view": (lambda a, p: a.flatten(), lambda a, p: a.ravel(), lambda g, a, p, y: (g.reshape(3, 4),)),
    "expand": (
        lambda a, p: a.unsqueeze(0).expand(5, -1, -1), lambda a, p: np.broadcast_to(a, (5, 3, 4)),
        lambda g, a, p, y: (np.sum(g, axis=0),),
    ),
    "row": (lambda a, p: a[-1], lambda a, p: a[-1], lambda g, a, p, y: (np.pad(g[Y], ((2, 0), (0, 0))),)),
    "columns": (
        lambda a, p: a[:, 1:3], lambda a, p: a[:, 1:3], lambda g, a, p, y: (np.pad(g, ((0, 0), (1, 1))),),
    ),
    "cat": (
        lambda a, p: torch.cat([a, p], 1), lambda a, p: np.concatenate([a, p], 1),
        lambda g, a, p, y: (g[:, :4], g[:, 4:]),
    ),
    "stack": (
        lambda a, p: torch.stack([a, p], 1), lambda a, p: np.stack([a, p], 1),
        lambda g, a, p, y: (g[:, 0], g[:, 1]),
    ),
    "chunks": (
        lambda a, p: a.chunk(2, 1)[0] * a.split([1, 3], 1)[0], lambda a, p: a[:, :2] * a[:, :1],
        lambda g, a, p, y: (None,),
    ),
    "masked": (
        lambda a, p: a.masked_fill(torch.tensor(P.data > 1), 0.0), lambda a, p: np.where(P.data > 1, 0.0, a),
        lambda g, a, p, y: (np.where(P.data > 1, 0.0, g),),
    ),
    "sigmoid": (
        lambda p, a: p.sigmoid(), lambda p, a: 1 / (1 + np.exp(-p)), lambda g, p, a, y: (g * (y * (1 - y)),),
    ),
    "embedding": (
        lambda a, p: torch.nn.functional.embedding(torch.tensor(PLACES), a),
        lambda a, p: np.take(a, PLACES, axis=0),
        lambda g, a, p, y: (sp.scatter_add(g, PLACES, 3),),
    ),
    "embedding without a row": (
        lambda a, p: torch.nn.functional.embedding(torch.tensor(PLACES), a, padding_idx=-2),
        lambda a, p: np.take(a, PLACES, axis=0),
        lambda g, a, p, y: (sp.scatter_add(np.where(PLACES[:, Y] == 1, 0.0, g), PLACES, 3),),
    ),
    "add alpha": (lambda a, p: a.add(p, alpha=3), lambda a, p: a + p * 3, lambda g, a, p, y: (g, g * 3)),
    "add nothing": (lambda a, p: a.add(p, alpha=0), lambda a, p: a + p * 0, lambda g, a, p, y: (g, g * 0)),
    "sub alpha": (lambda a, p: a.sub(p, alpha=3), lambda a, p: a - p * 3, lambda g, a, p, y: (g, -g * 3)),
    "rsub alpha": (
        lambda a, p: torch.rsub(a, 3.0, alpha=2), lambda a, p: 3.0 - a * 2, lambda g, a, p, y: (-g * 2,),
    ),
    "addmm": (
        lambda a, p: torch.addmm(a[:, :3], a, p.T, beta=3, alpha=2),
        lambda a, p: (a @ p.T) * 2 + a[:, :3] * 3,
        lambda g, a, p, y: (None, g.T @ a * 2),
    ),
    "squeeze": (lambda a, p: a.squeeze(0).squeeze(-1), lambda a, p: a, lambda g, a, p, y: (g,)),
    "log_softmax": (
        lambda p, a: torch.log_softmax(p, 1),
        lambda p, a: (low := p - np.max(p, axis=1, keepdims=True))
        - np.log(np.sum(np.exp(low), axis=1, keepdims=True)),
        lambda g, p, a, y: (g - np.exp(y) * np.sum(g, axis=1, keepdims=True),),
    ),
    "softmax": (
        lambda p, a: torch.softmax(p, 1),
        lambda p, a: np.exp(
            (low := p - np.max(p, axis=1, keepdims=True)) - np.log(np.sum(np.exp(low), axis=1, keepdims=True))
        ),
        lambda g, p, a, y: (y * (g - np.sum(g * y, axis=1, keepdims=True)),),
    ),
}  # fmt: skip


#: Code whose first operand is p: of values as small as those of a it would be linear, or has no results.
OF_LARGE = ("exp", "tanh", "sigmoid", "log", "sqrt", "log_softmax", "softmax")


@pytest.mark.parametrize("name", CODE)
def test_torch_code_computes_by_the_rules_of_numpy_code(name):
    """Values and gradients, bit for bit, scales included."""
    code, numpy_code, pull = CODE[name]
    arrays = (P, A) if name in OF_LARGE else (A, P)
    given, want = leaves(*arrays), numpy_code(*arrays)
    y = code(*given)
    gradient = scaled(*want.shape, scale=2.0**-50)
    y.backward(sp.to_tensor(gradient))
    assert_same(y.array, want)
    for tensor, each in zip(given, pull(gradient, *arrays, want), strict=False):
        if each is not None:
            assert_same(tensor.grad.array, each)


@pytest.mark.parametrize("name", CODE)
def test_torch_code_computes_the_same_in_inference_mode(name):
    code, numpy_code, _ = CODE[name]
    arrays = (P, A) if name in OF_LARGE else (A, P)
    with torch.inference_mode():
        assert_same(code(*map(sp.to_tensor, arrays)).array, numpy_code(*arrays))


@pytest.mark.parametrize("name", ["linear", "linear without bias", "relu", "gelu", "silu", "layer_norm"])
def test_operations_take_plain_tensors_too(name):
    operation, *arrays = PAIRS[name]
    values = [each.data for each in arrays]
    given = [torch.tensor(each, requires_grad=True) for each in values]
    y, (want, pull) = sp.differentiable(operation)(*given), operation(*values)
    assert type(y) is torch.Tensor
    assert np.array_equal(y.detach().numpy(), want)
    y.sum().backward()
    pulled = pull(np.ones_like(want))
    for tensor, each in zip(given, pulled if isinstance(pulled, tuple) else (pulled,), strict=False):
        assert np.array_equal(tensor.grad.numpy(), each)


def test_gradients_of_two_uses_are_added_by_the_rule():
    (a,) = leaves(A)
    (a * 4.0 + sp.differentiable(sp.relu)(a)).backward(sp.to_tensor(P))
    assert_same(a.grad.array, P * 4.0 + sp.relu(A)[1](P))


@pytest.mark.parametrize("take", [lambda w: w[1][2], lambda w: w[-2, -2], lambda w: w.reshape(-1)[6]])
def test_a_single_element_gives_its_gradient_back(take):
    x = sp.to_tensor(sp.as_scaled(np.arange(12.0).reshape(3, 4), 2.0, "binary16"), requires_grad=True)
    take(x).backward()
    assert np.array_equal(x.grad.array.to_array(), np.arange(12).reshape(3, 4) == 6)


def test_gradients_pass_between_plain_tensors_and_those_with_scales():
    plain = torch.randn(3, 4).requires_grad_()
    x = sp.differentiable(sp.on_forward(sp.as_scaled))(plain, 2.0**-3, "e4m3fn")
    assert_same(x.array, sp.as_scaled(plain.detach().numpy(), 2.0**-3, "e4m3fn"))
    y = sp.differentiable(sp.on_forward(sp.stop_scaling))(x * 2.0)
    gradient = torch.randn(3, 4)
    y.backward(gradient)
    assert torch.equal(plain.grad, 2 * gradient)
    assert np.array_equal(y.detach().numpy(), sp.stop_scaling(x.array * 2.0))


def test_the_largest_are_found_as_in_numpy_code():
    (a,) = leaves(A)
    assert a.argmax().item() == np.argmax(A)
    assert a.argmax(1, keepdim=True).tolist() == np.argmax(A, axis=1, keepdims=True).tolist()


@pytest.mark.parametrize("name", ["eq", "ne", "lt", "le", "gt", "ge"])
def test_comparisons_are_those_of_the_values(name):
    a, p = leaves(A, sp.ScaledArray(np.where(A.data > 0, A.data, 1.0), A.scale))
    compare = getattr(operator, name)
    for other in (p, 0.0):
        want = compare(A.to_array(), other.array.to_array() if other is p else 0.0)
        assert compare(a, other).tolist() == want.tolist()


def test_single_elements_are_numbers_and_sums_of_themselves():
    a = sp.to_tensor(sp.ScaledArray(np.float32([[3.0]]), 4.0))
    assert a.item() == float(a) == 12.0
    assert a
    for same in (a[0, 0].sum(0), a[0, 0].mean(0), a[0, 0].squeeze(0)):
        assert_same(same.array, a.array[0, 0])


def test_plain_code_goes_on_behind_a_model_and_gives_its_gradients_back():
    """A loss of torch's that has no rule has the gradients of the same loss by the rules."""
    plain = sp.differentiable(sp.on_forward(sp.stop_scaling))
    (a,), labels = leaves(P), torch.tensor([1, 0, 3])
    values = plain(a)
    assert type(values) is torch.Tensor
    torch.nn.functional.cross_entropy(values, labels).backward()
    x = torch.tensor(P.to_array(), dtype=torch.float32, requires_grad=True)
    torch.nn.functional.cross_entropy(x, labels).backward()
    assert np.array_equal(values.detach(), x.detach())
    assert np.array_equal(a.grad.array.to_array(), x.grad)


def test_a_tensor_takes_new_weights_in_place():
    """An optimizer with states of its own gives them."""
    optimizer, (w,) = sp.Adam(learning_rate=2.0**-6), leaves(A)
    state = optimizer.start(w.array)
    (w * w).sum().backward()
    state = optimizer.step(state, w.grad.array)
    with torch.no_grad():
        w.copy_(sp.to_tensor(state.weights))
    assert_same(w.array, state.weights)


IN_PLACE = {
    "a part": lambda w, z: w.detach()[0].copy_(w[0] * 2.0),
    "a transposed one": lambda w, z: w.detach().T.copy_(w.T * 2.0),
    "a slice": lambda w, z: w.detach()[:, 1:].__setitem__(slice(None), w[:, 1:]),
    "a flattened one": lambda w, z: w.detach().flatten().copy_(w.flatten()),
    "plain, copied into": lambda w, z: z.copy_(w),
    "plain, assigned to": lambda w, z: z.__setitem__(slice(None), w),
    "plain, an element": lambda w, z: z.__setitem__((0, 0), w[0, 0]),
    "plain, added to": lambda w, z: operator.iadd(z, w),
    "plain, as out": lambda w, z: torch.add(w, z, out=z),
    "values of a plain one": lambda w, z: w.copy_(z),
    "another shape": lambda w, z: w.copy_(w[0]),
    "data of another shape": lambda w, z: setattr(w, "data", w[0]),
    "data of a plain one": lambda w, z: setattr(w, "data", z),
    "-=": lambda w, z: operator.isub(w, 0.5 * w),
    "+= of a plain one": lambda w, z: operator.iadd(w, z),
    "*=": lambda w, z: operator.imul(w, 2),
    "/=": lambda w, z: operator.itruediv(w, 2),
    "add_": lambda w, z: w.add_(1.0),
    "zero_": lambda w, z: w.zero_(),
    "fill_": lambda w, z: w.fill_(5.0),
    "uniform_": lambda w, z: torch.nn.init.uniform_(w),
    "transpose_": lambda w, z: w.t_(),
}


@pytest.mark.parametrize("name", IN_PLACE)
def test_what_would_change_in_place_is_refused_and_changes_nothing(name):
    """A plain tensor would drop the scale; and of a TypeError Python makes p = p - q."""
    (w,), z = leaves(A), torch.zeros(3, 4)
    with torch.no_grad(), pytest.raises(RuntimeError, match=r"torch's \S+ cannot change a tensor in place"):
        IN_PLACE[name](w, z)
    assert_same(w.array, A)
    assert not z.any()
    assert not hasattr(z, "array")


def test_states_with_scales_do_not_load_into_plain_models():
    net = torch.nn.Linear(4, 3, bias=False)
    with pytest.raises(RuntimeError, match="a plain tensor has no place for a scale"):
        net.load_state_dict({"weight": sp.to_tensor(A)})


SHARED = {
    "detach": lambda w: w.detach(),
    "data": lambda w: w.data,
    "parameter": torch.nn.Parameter,
    "state_dict": lambda w: torch.nn.ParameterList([w]).state_dict()["0"],
}


@pytest.mark.parametrize("name", SHARED)
def test_what_shares_memory_in_torch_changes_together(name):
    (w,) = leaves(A)
    shared = SHARED[name](w)
    with torch.no_grad():
        shared.copy_(sp.to_tensor(P))
        assert_same(w.array, P)
        w.copy_(sp.to_tensor(A * 2.0))
    assert_same(shared.array, A * 2.0)


def test_views_follow_a_tensor_that_changes():
    (w,) = leaves(A)
    with torch.no_grad():
        views = [w[1], w.T[1:], *w.split(2)], [P[1], P.T[1:], P[:2], P[2:]]
        w.copy_(sp.to_tensor(P))
    for view, want in zip(*views, strict=True):
        assert_same(view.array, want)


def test_data_may_be_exchanged():
    """Earlier views keep the values they had, as torch's do."""
    w, other = leaves(A, P)
    row = w.detach()[0]
    w.data = other.detach()
    assert_same(w.array, P)
    assert_same(row.array, A[0])


@pytest.mark.parametrize("fmt", ["binary16", "bfloat16", "e4m3fn", "binary32"])
def test_models_of_tensors_with_scales_are_saved_and_copied(fmt, tmp_path):
    net = torch.nn.Module()
    net.w = torch.nn.Parameter(sp.to_tensor(sp.as_scaled([[1.0, 3.0]], 2.0**-30, fmt)))
    torch.save(net.state_dict(), tmp_path / "net.pt")
    other = torch.nn.Module()
    other.w = torch.nn.Parameter(sp.to_tensor(sp.as_scaled([[0.0, 0.0]], 1.0, fmt)))
    other.load_state_dict(torch.load(tmp_path / "net.pt", weights_only=True))
    for each in (other, copy.deepcopy(net), pickle.loads(pickle.dumps(net))):
        assert_same(each.w.array, net.w.array)
        assert isinstance(each.w, torch.nn.Parameter)
        assert each.w.requires_grad


def test_a_program_that_goes_on_reads_tensors_before_it_makes_any(tmp_path):
    path = tmp_path / "run.pt"
    torch.save({"w": torch.nn.Parameter(sp.to_tensor(A))}, path)
    program = f"""
import torch
from lowprec.methods import scale_propagation as sp
linear = sp.differentiable(sp.linear)
print(float(torch.load({str(path)!r})["w"].array.scale))
"""
    assert python("-c", program) == f"{float(A.scale)}\n"


def test_what_has_no_rule_is_refused_by_name():
    (a,) = leaves(A)
    with pytest.raises(TypeError, match=r"torch's sort has no rule .*sp.on_forward\(sp.stop_scaling\)"):
        a.sort()
    for keywords in ({"dtype": torch.float64}, {"dim": 0, "dtype": torch.float16}):
        with pytest.raises(TypeError, match=r"torch's sum\S* with dtype=torch.float\d+ has no rule"):
            a.sum(**keywords)
    for keywords in ({"scale_grad_by_freq": True}, {"sparse": True}):
        with pytest.raises(TypeError, match=rf"embedding with {next(iter(keywords))}=True has no rule"):
            torch.nn.functional.embedding(torch.tensor(PLACES), a, **keywords)
    for sizes in ([1, 1], [1, 3]):
        with pytest.raises((ValueError, RuntimeError), match=r"split|sizes that add up to it"):
            a.split(sizes)
    assert repr(sp.to_tensor([1.5])) == "tensor of ScaledArray([1.5], scale=1.0, format='binary32')"


@pytest.mark.parametrize(
    "read",
    [
        np.from_dlpack,
        torch.from_dlpack,
        lambda x: x.apply_(abs),
        lambda x: torch.nn.ParameterList([x]).share_memory(),
    ],
    ids=["numpy", "torch", "apply_", "share_memory"],
)
def test_memory_that_torch_does_not_have_is_neither_read_nor_shared(read):
    with pytest.raises(TypeError, match=r"^a tensor of a ScaledArray has no memory that DLPack"):
        read(sp.to_tensor(A))


@pytest.fixture(scope="module")
def page():
    """Return the definitions and the output of the page's code."""
    known = {"__name__": "page", "printed": []}
    exec(torch_code(PAGE).replace("print(", "printed.append("), known)
    return known


def test_the_model_of_the_page_learns(page):
    assert page["printed"][-1] < 0.3
    assert page["y"].array.to_array().tolist() == [1.0, 9.0]


def test_gradients_at_another_loss_scale_are_the_same_bits(page):
    found = []
    for loss_scale in (1.0, 2.0**-40):
        model = page["Network"]()
        model.load_state_dict(page["model"].state_dict())
        loss = -(model(page["x"]) * page["targets"]).sum(1).mean()
        (loss * loss_scale).backward()
        found.append([each.grad / loss_scale for each in model.parameters()])
    assert all(map(torch.equal, *found))
