"""Unit Scaling in torch's autograd: bits of the NumPy rules, reports, a transformer. Needs torch."""

import functools
import pickle
import re
import warnings
from pathlib import Path

import numpy as np
import pytest

from lowprec.methods import scale_propagation as sp, unit_scaling as us
from tests.examples import cells, example_script, printed, shown
from tests.methods.test_unit_scaling_gradients import CASES, INDICES, LABELS, normal
from tests.support import python, torch_code

pytestmark = pytest.mark.apart
with warnings.catch_warnings():
    warnings.simplefilter("ignore")
    torch = pytest.importorskip("torch", exc_type=ImportError)

PAGE = (Path(__file__).parents[2] / "docs" / "unit-scaling.md").read_text()
X, W, B = normal(2, 3, 4), normal(4, 5), normal(5)


def tensors(*arrays, dtype=torch.float32):
    return [torch.tensor(each, dtype=dtype).requires_grad_() for each in arrays]


def assert_same_bits(operation, given, *operands):
    """Hold results and gradients of an operation of tensors against those of arrays."""
    results = us.differentiable(operation)(*given)
    results = results if isinstance(results, tuple) else (results,)
    want, vjp = operation(*(each.detach() if isinstance(each, torch.Tensor) else each for each in given))
    want = want if isinstance(want, tuple) else (want,)
    grads = [normal(*each.shape, seed=9).astype(each.dtype) for each in want]
    sum((y * torch.tensor(g)).sum() for y, g in zip(results, grads, strict=True)).backward()
    for y, each in zip(results, want, strict=True):
        assert y.detach().numpy().dtype == each.dtype
        assert np.array_equal(y.detach().numpy(), each)
    for operand, each in zip(operands, vjp(*grads), strict=True):
        assert np.array_equal(operand.grad.numpy(), each)


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64], ids=str)
@pytest.mark.parametrize("name", CASES)
def test_results_and_gradients_are_those_of_the_numpy_rules(name, dtype):
    operation, *arrays = CASES[name]
    given = tensors(*arrays, dtype=dtype)
    assert_same_bits(operation, given, *given)


def test_operands_are_found_among_settings_lists_and_integers():
    (table,), (logits,) = tensors(normal(4, 3)), tensors(normal(3, 2, 4))
    assert_same_bits(us.embedding, (torch.tensor(INDICES), table), table)
    assert_same_bits(us.cross_entropy, (logits, torch.tensor(LABELS), "sum", 2.5), logits)
    several = tensors(normal(3), normal(3, seed=1))
    y = us.differentiable(us.weighted_sum)(several, [3.0, 4.0])
    y.backward(torch.ones(3))
    for each, grad in zip(several, us.weighted_sum(several, [3.0, 4.0])[1](np.ones(3)), strict=True):
        assert np.array_equal(each.grad.numpy(), grad.astype(np.float32))


def test_keywords_may_have_any_order():
    x, w, b = tensors(X, W, B)
    us.differentiable(us.linear)(bias=b, weight=w, x=x).sum().backward()
    for each, grad in zip((x, w, b), us.linear(x, w, b)[1](np.ones((2, 3, 5))), strict=True):
        assert np.array_equal(each.grad.numpy(), grad)


def test_two_outputs_have_gradients():
    (x,) = tensors(X)
    assert_same_bits(functools.partial(us.residual_split, tau=0.5), (x,), x)


@pytest.mark.parametrize("make", [us.quantized, us.unscaled])
def test_changed_operations_are_operations_too(make):
    given = tensors(X, W, B)
    assert_same_bits(make(us.linear), given, *given)


def test_an_array_as_operand_has_no_gradient():
    (x,) = tensors(X)
    y = us.differentiable(us.linear)(x, W.astype(np.float32))
    y.sum().backward()
    assert np.array_equal(x.grad.numpy(), us.linear(x, W.astype(np.float32))[1](np.ones((2, 3, 5)))[0])


def test_narrow_tensors_are_widened_and_get_gradients_of_their_type():
    x, w = tensors(X, W, dtype=torch.bfloat16)
    y = us.differentiable(us.linear)(x, w)
    y.sum().backward()
    want = us.linear(x.detach().float(), w.detach().float())[1](np.ones((2, 3, 5)))[0]
    assert (y.dtype, x.grad.dtype) == (torch.float32, torch.bfloat16)
    assert torch.equal(x.grad, torch.tensor(want).bfloat16())


def test_gradients_are_rounded_once_to_the_type_of_their_operand():
    """A gradient in float64 beyond the middle of two numbers of bfloat16 by less than float32 has."""
    for value, want in ((1 + 2**-8 + 2**-40, 1 + 2**-7), (1 + 2**-8, 1.0), (1e300, np.inf)):
        (x,) = tensors(np.ones(1), dtype=torch.bfloat16)
        us.differentiable(lambda x, g=value: (x, lambda _: np.array([g])))(x).sum().backward()
        assert (x.grad.tolist(), x.grad.dtype) == ([want], torch.bfloat16)


def test_a_list_as_operand_is_refused():
    (w,) = tensors(W)
    y = us.differentiable(us.linear)([[1.0, 2.0, 3.0, 4.0]], w)
    message = (
        "linear gives 2 gradients, and 1 of its operands are tensors or arrays of floats; give every operand "
        "that has a gradient as one, zeros for a bias that is not there"
    )
    with pytest.raises(ValueError, match=re.escape(message)):
        y.sum().backward()


def test_an_operand_that_changed_before_the_gradient_is_refused():
    x, w = tensors(X, W)
    y = us.differentiable(us.linear)(x, w)
    with torch.no_grad():
        w += 1
    with pytest.raises(RuntimeError, match="modified by an inplace operation"):
        y.sum().backward()


def test_second_derivatives_are_refused():
    (x,) = tensors(X)
    (grad,) = torch.autograd.grad(us.differentiable(us.gelu)(x).square().sum(), x, create_graph=True)
    with pytest.raises(
        RuntimeError, match=r"gelu has first derivatives only: .* leave out create_graph=True"
    ):
        grad.sum().backward()


def test_second_derivatives_are_refused_beside_others_that_exist():
    """Of a sum the gradient was a constant to torch, and the penalty's part of it was silently left out."""
    (x,) = tensors(X)
    (grad,) = torch.autograd.grad(us.differentiable(us.gelu)(x).sum(), x, create_graph=True)
    with pytest.raises(RuntimeError, match="gelu has first derivatives only"):
        (grad.square().sum() + x.square().sum()).backward()


def test_results_do_not_share_memory_with_operands():
    (x,) = tensors(X)
    branch, _ = us.differentiable(us.residual_split)(x)
    branch.detach().zero_()
    assert np.array_equal(x.detach().numpy(), X.astype(np.float32))


@pytest.mark.filterwarnings("ignore:.*torch.jit.*:DeprecationWarning")
@pytest.mark.filterwarnings("ignore:The .grad attribute of a Tensor:UserWarning")
def test_compiled_and_pickled_functions_give_the_same_bits():
    torch.compiler.reset()
    linear = us.differentiable(us.linear)
    x, w = tensors(X, W)

    def model(x, w):
        return linear(2 * x, w).square()

    y = torch.compile(model, backend="eager")(x, w)
    y.sum().backward()
    assert torch.equal(y, model(x, w))
    assert w.grad is not None
    assert torch.equal(pickle.loads(pickle.dumps(linear))(x, w), linear(x, w))


def test_without_torch_it_says_how_to_install_it():
    program = (
        "import sys; sys.modules['torch'] = None; from lowprec.methods import unit_scaling as us\n"
        "try: us.differentiable(us.linear)\nexcept ImportError as error: print(error)"
    )
    assert python("-c", program) == 'gradients of torch need torch: pip install "lowprec[torch]"\n'


# -- reports ------------------------------------------------------------------------------------------


class Plain(torch.nn.Module):
    """Modules of torch, a sum outside of modules, and an operation of Unit Scaling."""

    def __init__(self):
        super().__init__()
        torch.manual_seed(0)
        self.first, self.norm = torch.nn.Linear(4, 5), torch.nn.LayerNorm(5)

    def forward(self, x):
        """Return a loss."""
        self.hidden = us.differentiable(us.gelu)(self.norm(self.first(x)))
        return self.hidden.square().mean()


def test_a_report_has_every_activation_gradient_and_weight():
    model = Plain()
    found = us.report(model, torch.tensor(X).float())
    assert list(found) == [
        "first", "norm", "gelu", "first.weight", "first.bias", "norm.weight", "norm.bias",
    ]  # fmt: skip
    model(torch.tensor(X).float()).backward()
    for name, each in model.named_parameters():
        assert found[name].backward == us.TensorStatistics.of(each.grad)
    assert found["first.weight"].forward == us.TensorStatistics.of(model.first.weight)
    assert found["norm.weight"].forward is None  # all are 1
    assert found["gelu"].forward == us.TensorStatistics.of(model.hidden)
    loss = model(torch.tensor(X).float())
    (gradient,) = torch.autograd.grad(loss, model.hidden)
    assert found["gelu"].backward == us.TensorStatistics.of(gradient)


@pytest.mark.parametrize("kept", ["plain parameters", "parameters with scales"])
def test_a_report_has_the_values_of_tensors_with_scales(kept):
    linear = sp.differentiable(sp.linear)
    scaled = sp.differentiable(sp.on_forward(sp.as_scaled))

    class Model(torch.nn.Module):
        def __init__(self):
            super().__init__()
            w = torch.randn(32, 8)
            self.w = torch.nn.Parameter(w if kept == "plain parameters" else sp.to_tensor(w.numpy()))

        def forward(self, x):
            w = scaled(self.w, 1.0) if kept == "plain parameters" else self.w
            return (linear(scaled(x, 2.0**-8), w) * 2.0**10).mean()

    torch.manual_seed(0)
    found = us.report(Model(), torch.randn(64, 32) * 2.0**-8)
    assert found["linear"].forward.std == pytest.approx(32**0.5 / 256, rel=0.2)
    assert found["w"].forward.std == pytest.approx(1, rel=0.2)
    assert found["w"].backward.std > 0


@pytest.mark.parametrize("kind", [tuple, list, dict])
def test_a_report_takes_batches_as_loaders_give_them(kind):
    class Model(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.w = torch.nn.Parameter(torch.randn(8, 4))

        def forward(self, x, target):
            return us.differentiable(us.mse)(us.differentiable(us.linear)(x, self.w), target)

    batch = {"x": torch.randn(16, 8), "target": torch.randn(16, 4)}
    given = batch if kind is dict else kind(batch.values())
    assert list(us.report(Model(), given)) == ["linear", "w"]


def test_a_report_leaves_the_model_as_it_was():
    model = Plain()
    us.report(model, (torch.tensor(X).float(),))
    assert all(each.grad is None for each in model.parameters())
    assert not model.first._forward_hooks
    assert not torch.nn.modules.module._global_forward_hooks


def test_a_model_without_a_loss_is_refused():
    message = "the model gives shape (2, 3, 5); let it return its loss, a single number"
    with pytest.raises(ValueError, match=re.escape(message)):
        us.report(torch.nn.Linear(4, 5), torch.tensor(X).float())
    assert not torch.nn.modules.module._global_forward_hooks


def test_outside_keeps_what_is_too_small_or_too_large_in_either_pass():
    tracker = us.ScaleTracker()
    for name, sizes in {"good": (1, 2), "small": (0.4, 1), "large": (1, 2.1), "unknown": (1, None)}.items():
        tracker.forward(name, [-sizes[0], sizes[0]])
        if sizes[1] is not None:
            tracker.backward(name, [-sizes[1], sizes[1]])
    assert list(tracker.outside()) == ["small", "large"]
    assert list(tracker.outside(0.4, 2.1)) == []


# -- the transformer, and the page --------------------------------------------------------------------


@pytest.fixture(scope="module")
def example():
    return example_script("unit_scaling_torch")


def test_a_transformer_begins_at_one_but_for_queries_and_keys(example):
    found = example.reports()["independent bytes"]
    assert len(found) == 49
    outside = [
        *(f"blocks.{block}.{name}" for block in (0, 1) for name in ("linear", "linear 2")),
        *(f"blocks.{block}.{name}" for block in (0, 1) for name in ("query", "key")),
    ]
    assert list(found.outside()) == outside
    for name in outside:
        assert 0.5 < found[name].forward.std < 2
        assert 0.05 < found[name].backward.std < 0.2


def test_the_example_says_and_draws_what_the_page_shows(example, tmp_path):
    """All lines but those of losses: which tensors lie outside, and their count."""
    made = printed(example, "--steps", "0", "--plot", tmp_path / "figure.png")
    wanted = shown("unit-scaling", "unit_scaling_torch").split("\nbinary32")[0]
    assert [row[0] for row in cells(made)] == [row[0] for row in cells(wanted)]


@pytest.mark.parametrize("narrow", [False, True])
def test_the_transformer_learns(example, narrow):
    losses = example.train(narrow, 6)
    assert losses[-1] < 0.8 * losses[0]


def test_the_model_of_the_page_learns(capsys):
    known = {"__name__": "page"}
    exec(torch_code(PAGE), known)
    *report, last = capsys.readouterr().out.splitlines()
    assert [line.split()[0] for line in report] == ["linear", "tanh", "linear", "first", "second"]
    assert float(last) < 0.3
    assert known["y"].std().item() == pytest.approx(1, rel=0.2)


def test_a_branch_without_a_backward_pass_is_refused_with_the_way_of_torch():
    with pytest.raises(
        TypeError, match=r"gives ndarray, and must give \(y, vjp\).*differentiable\(residual_sp"
    ):
        us.differentiable(us.residual_apply)(lambda branch: branch, torch.ones(2, 4))
