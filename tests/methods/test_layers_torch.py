"""Recipes in torch's autograd: bits of the NumPy path, finite differences, models, types. Needs torch."""

import copy
import pathlib
import pickle
import re
import warnings

import numpy as np
import pytest

import lowprec as lp
from lowprec.methods import expansion, fp8, layers, nvfp4, scale_propagation as sp, unit_scaling as us
from tests.examples import example_script, printed, shown
from tests.programs import need_framework
from tests.support import torch_code

pytestmark = pytest.mark.apart
with warnings.catch_warnings():
    warnings.simplefilter("ignore")
    torch = pytest.importorskip("torch", exc_type=ImportError)

RNG = np.random.default_rng(8)
X, W, B, G = (
    RNG.standard_normal(shape).astype(np.float32) for shape in ((2, 9, 20), (12, 20), (12,), (2, 9, 12))
)


def tensors(dtype=None):
    made = [torch.tensor(each, dtype=dtype or torch.float32) for each in (X, W, B)]
    return [each.requires_grad_() for each in made]


@pytest.mark.parametrize("recipe", layers.RECIPES)
def test_forward_and_backward_have_the_bits_of_the_numpy_path(recipe):
    x, w, b = tensors()
    y = layers.apply(x, w, b, recipe, rng=3)
    y.backward(torch.tensor(G))
    want, gradients = layers.linear(X, W, B, recipe, rng=3)
    assert np.array_equal(y.detach().numpy(), want)
    for tensor, grad in zip((x, w, b), gradients(G), strict=True):
        assert np.array_equal(tensor.grad.numpy(), grad)


def test_gradients_are_those_of_the_layer_by_finite_differences():
    """In binary32 with integers, whose differences are exact."""
    x, w, b = (torch.tensor(np.rint(4 * each)).requires_grad_() for each in (X, W, B))
    grad = torch.tensor(np.rint(4 * G))
    (layers.apply(x, w, b, "float32") * grad).sum().backward()
    for tensor in (x, w, b):
        flat = tensor.detach().reshape(-1)
        for place in RNG.choice(flat.numel(), min(10, flat.numel()), replace=False):
            sums = []
            for step in (-1, 1):
                moved = flat.clone()
                moved[place] += step
                parts = [moved.reshape(tensor.shape) if each is tensor else each for each in (x, w, b)]
                sums.append((layers.apply(*parts, "float32") * grad).sum().item())
            assert (sums[1] - sums[0]) / 2 == tensor.grad.reshape(-1)[place].item()


@pytest.mark.parametrize("dtype", [torch.int64, torch.float8_e4m3fn])
def test_results_are_not_rounded_to_integers_or_to_eight_bits(dtype):
    """They are float32, as of arrays."""
    y, gradients = layers.linear(torch.tensor([[1.0, 2.0]]).to(dtype), torch.tensor([[0.53125, 0.5]]))
    assert y.tolist() == [[1.53125]]
    assert gradients(torch.tensor([[0.25]]))[0].tolist() == [[0.1328125, 0.125]]


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16])
def test_narrow_parameters_are_taken_and_given_back(dtype):
    """The sums are rounded to the tensors' type once."""
    x, w, b = tensors(dtype)
    y = layers.apply(x, w, b, "mxfp8")
    assert y.dtype == dtype
    y.sum().backward()
    assert {each.grad.dtype for each in (x, w, b)} == {dtype}
    name = {torch.bfloat16: "bfloat16", torch.float16: "binary16"}[dtype]
    arrays = [each.detach().float().numpy() for each in (x, w, b)]
    want = layers.linear(*arrays, "mxfp8", output=name)[0]
    assert np.array_equal(y.detach().float().numpy(), want)


def test_tensors_in_tensors_out_without_a_history():
    x, w, b = tensors()
    y, gradients = layers.linear(x, w, b, "mxfp4")
    assert isinstance(y, torch.Tensor)
    assert not y.requires_grad
    assert all(isinstance(each, torch.Tensor) for each in gradients(torch.tensor(G)))


def test_only_what_needs_a_gradient_gets_one():
    x, w, b = tensors()
    x.requires_grad_(False)
    layers.apply(x, w, None, "nvfp4", rng=0).sum().backward()
    assert x.grad is None
    assert b.grad is None
    assert w.grad is not None


@pytest.mark.parametrize("method", ["mx", "nvfp4", "fp8", "unit_scaling", "Linear"])
def test_layers_on_arrays_take_parameters_that_require_gradients(method):
    """Without their history, forward and backward; they have the bits of arrays."""
    from lowprec.methods import mx, unit_scaling

    call = {
        "mx": lambda x, w, b: mx.linear(x, w, b),
        "nvfp4": lambda x, w, b: nvfp4.linear(x, w, b, rng=1),
        "fp8": lambda x, w, b: fp8.linear(x, w, b),
        "unit_scaling": lambda x, w, b: unit_scaling.linear(x, w.T, b),
        "Linear": lambda x, w, b: layers.Linear(w, b, "mxfp4")(x),
    }[method]
    (y, back), (want, gradients) = call(*tensors()), call(X, W, B)
    assert np.array_equal(np.asarray(torch.as_tensor(y).detach()), want)
    grad = torch.tensor(G).requires_grad_()
    assert all(
        np.array_equal(np.asarray(torch.as_tensor(one).detach()), two)
        for one, two in zip(back(grad), gradients(G), strict=True)
    )


def model():
    torch.manual_seed(0)
    return torch.nn.Sequential(torch.nn.Linear(20, 32), torch.nn.ReLU(), torch.nn.Linear(32, 4))


def test_a_model_is_turned_to_a_recipe():
    """Its parameters are the same objects; a layer that is kept computes as torch does."""
    net = model()
    before, x = list(net.parameters()), torch.tensor(X[0])
    plain = net(x)
    assert layers.use_recipe(net, "mxfp4", keep=["2"]) == ["0"]
    assert all(one is other for one, other in zip(before, net.parameters(), strict=True))
    hidden = layers.linear(x, net[0].weight, net[0].bias, "mxfp4")[0]
    assert torch.equal(net[1](hidden), net[1](net[0](x)))
    assert torch.equal(net(x), net[2](torch.relu(hidden)))
    assert not torch.equal(net(x), plain)
    assert layers.use_recipe(net, "float32") == ["0", "2"]
    assert torch.allclose(net(x), plain, atol=1e-6)


def test_each_step_of_each_layer_draws_its_own_words():
    def gradients(seed, steps):
        net = model()
        layers.use_recipe(net, nvfp4.Recipe(hadamard=0), rng=seed)
        found = []
        for _ in range(steps):
            net.zero_grad()
            (net(torch.tensor(X[0])) * torch.tensor(G[0][:, :4])).sum().backward()
            found.append(net[0].weight.grad.clone())
        return found

    one, again, other = gradients(1, 2), gradients(1, 2), gradients(2, 1)
    assert all(map(torch.equal, one, again))
    assert not torch.equal(one[0], one[1])
    assert not torch.equal(one[0], other[0])


def test_an_encoder_layer_computes_the_same_in_evaluation():
    """Which torch fuses, past all modules; the output of its attention is no layer that is called."""
    torch.manual_seed(0)
    net = torch.nn.TransformerEncoderLayer(32, 4, 64, dropout=0.0, batch_first=True)
    x = torch.randn(2, 8, 32)
    with torch.no_grad():
        plain = net.eval()(x)
        assert layers.use_recipe(net, "mxfp4") == ["linear1", "linear2"]
        layers.use_recipe(net, "mxfp4")
        assert len(net.linear1._forward_pre_hooks) == 1
        evaluated, trained = net.eval()(x), net.train()(x)
        assert (evaluated - trained).abs().max() < 0.1 * (evaluated - plain).abs().max()
    assert layers.use_recipe(net, "float32", keep=["linear1"]) == ["linear2"]


@pytest.mark.parametrize("strategy", [*expansion.STRATEGIES, sp.SGD()])
def test_an_optimizer_steps_parameters_without_axes(strategy):
    results = []
    for shape in ((), (1,)):
        parameter = torch.nn.Parameter(torch.ones(shape))
        optimizer = layers.Optimizer([parameter], strategy=strategy, lr=0.1)
        for _ in range(2):
            parameter.grad = torch.ones(shape)
            optimizer.step()
        results.append(parameter.item())
    assert results[0] == results[1] != 1


@pytest.mark.filterwarnings("ignore:The PyTorch API of nested tensors")
def test_an_encoder_leaves_out_padding_in_evaluation():
    """torch.nn.TransformerEncoder makes a nested tensor of rows that are not padded."""
    torch.manual_seed(0)
    layer = torch.nn.TransformerEncoderLayer(32, 4, 64, dropout=0.0, batch_first=True)
    net = torch.nn.TransformerEncoder(layer, 2).eval()
    x, padding = torch.randn(2, 8, 32), torch.arange(8) >= torch.tensor([[8], [5]])
    with torch.no_grad():
        plain = net(x, src_key_padding_mask=padding)
        layers.use_recipe(net, recipe="mxfp8")
        nested = net(x, src_key_padding_mask=padding)
        net.enable_nested_tensor = False
        padded = net(x, src_key_padding_mask=padding)
    error = (nested - padded)[~padding].abs().max()
    assert error < 0.1 * (padded - plain)[~padding].abs().max()


@pytest.mark.filterwarnings("ignore:The PyTorch API of nested tensors")
@pytest.mark.parametrize("layout", [torch.strided, torch.jagged])
def test_nested_tensors_are_rows_of_one_product(layout):
    rows, w, bias = torch.randn(7, 32), torch.randn(16, 32), torch.randn(16)
    nested = torch.nested.nested_tensor(list(rows.split([3, 4])), layout=layout, requires_grad=True)
    y = layers.apply(nested, w, bias, "fp8")
    assert y.is_nested
    assert y.layout is layout
    assert torch.equal(torch.cat(y.unbind()), layers.apply(rows, w, bias, "fp8"))
    torch.cat(y.unbind()).square().sum().backward()
    rows.requires_grad_()
    layers.apply(rows, w, bias, "fp8").square().sum().backward()
    assert torch.equal(torch.cat(nested.grad.unbind()), rows.grad)


@pytest.mark.filterwarnings("ignore:.*torch.jit.*:DeprecationWarning")  # torch's own, where it compiles
@pytest.mark.parametrize("backend", ["eager", "aot_eager"])
@pytest.mark.parametrize("recipe", ["mxfp4", "fp8", "nvfp4"])
def test_a_compiled_model_computes_and_learns_by_the_recipe(backend, recipe):
    """Bits of outputs and of all gradients; the layers stand between graphs, and change recipes there too."""
    torch.compiler.reset()
    found = []
    for compile in (lambda net: net, lambda net: torch.compile(net, backend=backend)):
        net, x = model(), torch.tensor(X[0]).requires_grad_()
        layers.use_recipe(net, recipe, rng=5)
        run = compile(net)
        y = run(x)
        (y * torch.tensor(G[0][:, :4])).sum().backward()
        layers.use_recipe(net, "float32")
        found.append([y.detach(), run(x).detach(), x.grad, *(each.grad for each in net.parameters())])
    assert all(map(torch.equal, *found))


@pytest.mark.filterwarnings("ignore:.*torch.jit.*:DeprecationWarning")
@pytest.mark.filterwarnings("ignore:The .grad attribute of a Tensor:UserWarning")  # torch looks at it
def test_a_compiled_function_applies_a_layer_between_graphs():
    torch.compiler.reset()
    x, w, b = tensors()

    def layer(x):
        return 2 * layers.apply(x, w, b, "mxfp4").square()

    y = torch.compile(layer, backend="eager")(x)
    assert torch.equal(y, layer(x))
    y.sum().backward()
    assert w.grad is not None


def test_a_model_with_a_recipe_is_pickled_and_copied(tmp_path):
    net, x = model(), torch.tensor(X[0])
    layers.use_recipe(net, "mxfp4")
    torch.save(net, tmp_path / "model.pt")
    for other in (torch.load(tmp_path / "model.pt", weights_only=False), copy.deepcopy(net)):
        assert torch.equal(other(x), net(x))


def test_what_is_refused_leaves_the_model_as_it_was():
    net = model()
    with pytest.raises(ValueError, match=r"keep='head' names no module of this model; it has 0, 1, 2"):
        layers.use_recipe(net, keep=["head"])
    with pytest.raises(ValueError, match="recipe='fp3' is unknown"):
        layers.use_recipe(net, "fp3")
    assert all("forward" not in vars(each) for each in net)


def test_a_training_loop_learns():
    """Three lines changed: a plain loop of torch, in NVFP4."""
    x = torch.tensor(X.reshape(-1, 20))
    labels = (x[:, 0] > 0).long()
    net = model()
    layers.use_recipe(net, "nvfp4", keep=["2"])
    optimizer = torch.optim.Adam(net.parameters(), 0.01)
    losses = []
    for _ in range(40):
        loss = torch.nn.functional.cross_entropy(net(x), labels)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        losses.append(loss.item())
    assert losses[-1] < 0.3 * losses[0]


def test_the_loop_of_the_page_runs(capsys, tmp_path, monkeypatch):
    """Word for word; it learns."""
    page = (pathlib.Path(__file__).parents[2] / "docs" / "nvfp4-recipe.md").read_text()
    monkeypatch.chdir(tmp_path)
    exec(torch_code(page), {})
    assert float(capsys.readouterr().out) < 0.3


def test_the_convolution_of_the_page_has_gradients_of_the_numpy_path(capsys):
    page = (pathlib.Path(__file__).parents[2] / "docs" / "fp8-recipe.md").read_text()
    known = {}
    exec(torch_code(page), known)
    assert capsys.readouterr().out == "(2, 4, 4, 4) (4, 3, 3, 3)\n"
    images, kernels = (known[name].detach().numpy() for name in ("images", "kernels"))
    y, gradients = fp8.conv2d(images, kernels, np.zeros(4), stride=2, padding=1)
    assert np.array_equal(known["y"].detach().numpy(), y)
    want = gradients((2 * known["y"].detach() / y.size).numpy())[1]
    assert np.array_equal(known["kernels"].grad.numpy(), want)


# -- optimizers ---------------------------------------------------------------------------------------


def test_optimizer_steps_are_those_of_arrays():
    """In place, in the same objects, with the bits of the NumPy path; gradients are dropped by zero_grad."""
    net, rest = model(), model()
    optimizer = layers.Optimizer(net.parameters(), strategy="plus", learning_rate=0.01)
    arrays = [each.detach().numpy().copy() for each in rest.parameters()]
    by_arrays = layers.Optimizer(arrays, strategy="plus", learning_rate=0.01)
    assert all(np.array_equal(a, b.detach().numpy()) for a, b in zip(arrays, net.parameters(), strict=True))
    for _ in range(3):
        optimizer.zero_grad()
        assert all(each.grad is None for each in net.parameters())
        net(torch.tensor(X[0])).square().sum().backward()
        by_arrays.step([each.grad.numpy() for each in net.parameters()])
        optimizer.step()
        assert all(
            np.array_equal(a, b.detach().numpy()) for a, b in zip(arrays, net.parameters(), strict=True)
        )


def test_the_optimizer_is_near_that_of_torch():
    """In binary32, with eps where torch has it: one or two units in the last place a step."""
    net, other = model(), model()
    options = {"betas": (0.9, 0.99), "eps": 1e-6, "weight_decay": 0.1}
    ours = layers.Optimizer(net.parameters(), learning_rate=0.01, eps_place="textbook", **options)
    theirs = torch.optim.AdamW(other.parameters(), lr=0.01, **options)
    for _ in range(20):
        for each, optimizer in ((net, ours), (other, theirs)):
            optimizer.zero_grad()
            each(torch.tensor(X[0])).square().mean().backward()
            optimizer.step()
    for one, two in zip(net.parameters(), other.parameters(), strict=True):
        assert torch.allclose(one, two, rtol=0, atol=2e-5)


def test_a_model_of_bfloat16_learns_in_nvfp4_with_light_weights():
    """No binary32 anywhere: parameters that require gradients stay bfloat16 tensors."""
    net = model().to(torch.bfloat16)
    layers.use_recipe(net, "nvfp4", keep=["2"])
    optimizer = layers.Optimizer(net.parameters(), strategy="light", learning_rate=0.01)
    x = torch.tensor(X.reshape(-1, 20), dtype=torch.bfloat16)
    labels = (x[:, 0] > 0).long()
    losses = []
    for _ in range(40):
        loss = torch.nn.functional.cross_entropy(net(x).float(), labels)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        losses.append(loss.item())
    assert losses[-1] < 0.3 * losses[0]
    assert {each.dtype for each in net.parameters()} == {torch.bfloat16}
    with pytest.raises(ValueError, match="bfloat16 does not hold weights of 'binary32'"):
        layers.Optimizer(net.parameters(), strategy="fp32")


def test_delayed_scaling_in_a_model_remembers_each_layer():
    """The first step is by scales of 1, the next by those of the first."""
    net = model()
    recipe = fp8.Recipe(scaling="delayed", history=2)
    layers.use_recipe(net, recipe)
    scaling = recipe.start()
    w, b = (each.detach().numpy() for each in (net[0].weight, net[0].bias))
    for factor in (1.0, 4.0):
        x = torch.tensor(factor * X[0])
        want = layers.linear(x, w, b, scaling)[0]
        assert torch.equal(net[0](x).detach(), want)


def _train(net, optimizer, scheduler, steps):
    x = torch.tensor(X.reshape(-1, 20), dtype=torch.bfloat16)
    for _ in range(steps):
        optimizer.zero_grad()
        net(x).float().square().mean().backward()
        optimizer.step()
        scheduler.step()


@pytest.mark.parametrize("strategy", ["light", "plus", "stochastic", "fp32_master", "kahan"])
def test_a_saved_run_goes_on_bit_for_bit(strategy, tmp_path):
    """With torch's own schedulers, and files of tensors and plain data alone."""
    schedule = torch.optim.lr_scheduler.CosineAnnealingLR

    def begun(rate, rng):
        net = model().to(torch.bfloat16)
        optimizer = layers.Optimizer(net.parameters(), strategy=strategy, lr=rate, rng=rng)
        return net, optimizer, schedule(optimizer, 8)

    net, optimizer, scheduler = begun(0.01, 3)
    assert isinstance(optimizer, torch.optim.Optimizer)
    _train(net, optimizer, scheduler, 4)
    kept = {"optimizer": optimizer.state_dict(), "scheduler": scheduler.state_dict()}
    torch.save(kept, tmp_path / "run.pt")
    rates = [optimizer.param_groups[0]["lr"]]
    _train(net, optimizer, scheduler, 3)
    rates.append(optimizer.param_groups[0]["lr"])
    assert 0 < rates[1] < rates[0] < 0.01

    loaded = torch.load(tmp_path / "run.pt", weights_only=True)
    other, resumed, its = begun(0.5, 0)
    resumed.load_state_dict(loaded["optimizer"])
    its.load_state_dict(loaded["scheduler"])
    _train(other, resumed, its, 3)
    assert resumed.param_groups[0]["lr"] == rates[1]
    for one, two in zip(net.parameters(), other.parameters(), strict=True):
        assert torch.equal(one, two)


@pytest.mark.parametrize("kinds", ["tensors", "arrays and a tensor", "a tensor and arrays"])
def test_loaded_states_bring_all_their_options(kinds):
    """Also between arrays and tensors, which name the learning rate differently."""

    def begun(tensor, **options):
        w = np.float32([1, 200])
        given = torch.nn.Parameter(torch.tensor(w)) if tensor else w
        return given, layers.Optimizer([given], **options)

    (w, saved), (v, loaded) = (
        begun(not kinds.startswith("arrays")),
        begun(not kinds.endswith("arrays"), learning_rate=0.5, weight_decay=0.1, eps_place="textbook"),
    )
    saved.step([np.float32([1e-8, 1e-8])])
    loaded.load_state_dict(saved.state_dict())
    for optimizer in (saved, loaded):
        optimizer.step([np.float32([1e-8, 1e-8])])
    assert lp.decode(lp.encode(w, "binary32"), "binary32").tolist() == np.asarray(v.tolist()).tolist()


def test_torch_uses_it_as_one_of_its_own():
    """A closure, momentum by a scheduler, a group that is added, a copy that is stepped alone."""
    net = model()
    optimizer = layers.Optimizer(net.parameters(), learning_rate=0.01)
    scheduler = torch.optim.lr_scheduler.OneCycleLR(optimizer, 0.1, total_steps=10)
    before = optimizer.param_groups[0]["betas"][0]
    other = copy.deepcopy(optimizer)
    weights = [each.detach().clone() for each in net.parameters()]

    def closure():
        optimizer.zero_grad()
        loss = net(torch.tensor(X[0])).square().mean()
        loss.backward()
        return loss

    assert optimizer.step(closure).item() > 0
    scheduler.step()
    assert optimizer.param_groups[0]["betas"][0] != before
    assert all((one != two).any() for one, two in zip(net.parameters(), weights, strict=True))
    assert [state.steps for state in other.states] == [0] * len(weights)
    added = torch.nn.Parameter(torch.ones(3))
    optimizer.add_param_group({"params": [added], "lr": 0.5})
    added.grad = torch.ones(3)
    optimizer.step()
    assert (added != 1).all()
    assert optimizer.states[-1].steps == 1


def test_optimizers_are_pickled_with_their_states():
    """A copy goes on alone, alike."""
    given = torch.nn.Parameter(torch.tensor([1.0, 200.0]))
    optimizer = layers.Optimizer([given], strategy="stochastic", lr=0.1)
    torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, 8)
    optimizer.step([torch.ones(2)])
    other = pickle.loads(pickle.dumps(optimizer))
    for each in (optimizer, other):
        each.step([torch.ones(2)])
    (copied,) = other.param_groups[0]["params"]
    assert torch.equal(copied, given)
    assert copied.data_ptr() != given.data_ptr()
    assert other.groups is other.param_groups
    assert isinstance(other, torch.optim.Optimizer)


def test_parameters_in_one_memory_are_refused():
    whole = torch.ones(4, dtype=torch.bfloat16)
    parameters = [torch.nn.Parameter(each) for each in (whole[:3], whole[2:])]
    with pytest.raises(ValueError, match="share memory"):
        layers.Optimizer(parameters, strategy="light")
    optimizer = layers.Optimizer(parameters[:1], strategy="light")
    with pytest.raises(ValueError, match="share memory"):
        optimizer.add_param_group({"params": parameters[1:], "strategy": "light"})
    assert len(optimizer.param_groups) == 1


def test_states_of_others_are_refused_and_change_nothing():
    net = model()
    optimizer = layers.Optimizer(net.parameters())
    kept = optimizer.state_dict()
    for message, other in {
        "states are of groups of [4] parameters, and this has [1]": [torch.nn.Parameter(torch.ones(3))],
        "states of parameter 1 have parameter of shape [(32,)], and it has [(3,)]": [
            torch.nn.Parameter(torch.ones(each)) for each in ((32, 20), (3,), (4, 32), (4,))
        ],
    }.items():
        with pytest.raises(ValueError, match=re.escape(message)):
            layers.Optimizer(other).load_state_dict(kept)
    other = layers.Optimizer(model().parameters(), strategy="plus")
    with pytest.raises(
        ValueError, match="states of group 0 are of strategy 'fp32', and the group is of 'plus'"
    ):
        other.load_state_dict(kept)
    assert [state.steps for state in other.states] == [0] * 4


def test_the_transformer_example_prints_a_row_for_each_recipe():
    """After two steps losses are near those of a guess; times are of torch's row, as in methods.md."""
    example, recipes = example_script("transformer_torch"), ["torch", "float32", "mxfp4"]
    table = shown("methods", "transformer_torch").splitlines()
    assert [line.split()[0] for line in table] == ["recipe", *example.RECIPES]
    words = [word for name in recipes for word in ("--recipe", name)]
    made = printed(example, "--steps", "2", "--seeds", "1", *words)
    head, *rows = (line.split() for line in made.splitlines())
    assert head == ["recipe", "loss", "ms", "times"]
    assert [row[0] for row in rows] == recipes
    assert all(2 < float(row[1]) < 4.5 for row in rows)
    assert rows[0][3] == "1.0"


def test_arrays_of_the_other_byte_order_are_layers_operands():
    x, w = np.float32([[1, 2], [3, 4]]), np.float32([[1, 0.5]])
    wanted = layers.apply(x, w, recipe="bfloat16")
    assert torch.equal(
        layers.apply(x.astype(">f4"), w.astype(">f4")[:, ::-1][:, ::-1], recipe="bfloat16"), wanted
    )


def test_blocks_are_no_operands_of_a_layer_with_a_history():
    blocks = lp.encode(np.ones((2, 32), np.float32), "mxfp4")
    made = layers.apply(blocks, torch.ones(3, 32), recipe="bfloat16")
    assert made.tolist() == [[32.0] * 3] * 2


@pytest.mark.parametrize("strategy", [sp.Adam, sp.SGD, expansion.AdamW])
def test_a_class_as_strategy_is_refused_with_the_way_out(strategy):
    name = strategy.__name__
    with pytest.raises(TypeError, match=rf"strategy={name} is a class; give an object of it, .*{name}\(\)"):
        layers.Optimizer([torch.nn.Parameter(torch.ones(2))], strategy=strategy)


def test_groups_that_are_refused_leave_the_optimizer_as_it_was():
    held, narrow = (torch.nn.Parameter(torch.ones(2, dtype=kind)) for kind in (torch.float32, torch.bfloat16))
    optimizer = layers.Optimizer([held], strategy="fp32")
    with pytest.raises(ValueError, match="does not hold weights of 'binary32'"):
        optimizer.add_param_group({"params": [narrow]})
    held.grad = torch.ones(2)
    optimizer.step()
    assert len(optimizer.param_groups) == len(optimizer.states) == 1
    assert optimizer.states[0].steps == 1
    optimizer.add_param_group({"params": [narrow], "strategy": "light"})
    optimizer.step()
    assert [state.steps for state in optimizer.states] == [2, 0]


@pytest.mark.parametrize(
    "x", [np.full((2, 20), 1 + 2j), np.full((2, 20), "1"), np.array([[1, None] * 10] * 2, object)]
)
def test_apply_refuses_what_is_no_real_number(x):
    with pytest.raises((TypeError, ValueError), match="must be real numbers"):
        layers.apply(x, W, recipe="float32")


def test_gradients_may_be_tensors_of_bfloat16():
    optimizer, gradient = expansion.AdamW(strategy="plus"), np.float32([1.5, -2.0])
    state = optimizer.start(np.float32([1.0, 3.0]))
    found = optimizer.step(state, torch.from_numpy(gradient).bfloat16())
    assert np.array_equal(found.update, optimizer.step(state, gradient).update)


def test_parameters_of_jax_are_refused_before_any_is_written():
    need_framework("jax")
    import jax.numpy

    first = np.float32([1.03, 2.0])
    with pytest.raises(
        TypeError, match="a parameter must be a NumPy array or a torch tensor that can be written"
    ):
        layers.Optimizer([first, jax.numpy.ones(2)], strategy="light")
    assert first.tolist() == np.float32([1.03, 2.0]).tolist()


class Scaled(torch.nn.Module):
    """Compute a perceptron of tensors with scales, or of plain ones that get theirs on the way."""

    def __init__(self, kept):
        super().__init__()
        rng = np.random.default_rng(0)
        first, last = (rng.standard_normal(shape).astype(np.float32) / 4 for shape in ((16, 32), (32, 4)))
        made = [sp.to_tensor(sp.as_scaled(w, 0.25)) if kept else torch.tensor(w) for w in (first, last)]
        self.first, self.last = map(torch.nn.Parameter, made)

    def forward(self, x):
        """Return the logits."""
        scaled = sp.differentiable(sp.on_forward(sp.as_scaled))
        first, last = (scaled(w, 0.25) for w in (self.first, self.last))
        return (scaled(x, 1.0) @ first).relu() @ last


def trained(net, optimizer, scheduler, steps, loss_scale=1.0):
    """Learn the sign of the first number; return the losses."""
    x = torch.tensor(np.random.default_rng(1).standard_normal((64, 16)), dtype=torch.float32)
    wanted = torch.nn.functional.one_hot((x[:, 0] > 0).long(), 4).float()
    losses = []
    for _ in range(steps):
        optimizer.zero_grad()
        loss = -(torch.log_softmax(net(x), 1) * wanted).sum(1).mean()
        (loss * loss_scale).backward()
        optimizer.step()
        scheduler.step()
        losses.append(loss.item())
    return losses


@pytest.mark.parametrize("kept", [True, False], ids=["tensors with scales", "plain tensors"])
def test_states_with_scales_train_torch_parameters(kept, tmp_path):
    """Train by a scheduler of torch's, at any loss scale alike, and go on from a file bit for bit."""

    def begun(rate=0.02, eps=0.0):
        net = Scaled(kept)
        optimizer = layers.Optimizer(net.parameters(), strategy=sp.Adam(second="e5m2"), lr=rate, eps=eps)
        return net, optimizer, torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, 40)

    net, optimizer, scheduler = begun()
    assert isinstance(optimizer, torch.optim.Optimizer)
    losses = trained(net, optimizer, scheduler, 15)
    torch.save([optimizer.state_dict(), scheduler.state_dict()], tmp_path / "run.pt")
    losses += trained(net, optimizer, scheduler, 15)
    assert losses[-1] < 0.3 * losses[0]
    assert optimizer.states[0].weights.format.name == optimizer.states[0].first.format.name == "binary16"
    assert trained(*begun(), 30, 2.0**-30) == losses

    other, resumed, its = begun(0.5, 1e-8)
    for each, kept_state in zip((resumed, its), torch.load(tmp_path / "run.pt"), strict=True):
        each.load_state_dict(kept_state)
    assert trained(other, resumed, its, 15) == losses[15:]
    assert resumed.param_groups[0]["lr"] == optimizer.param_groups[0]["lr"]


def test_a_parameter_with_a_scale_needs_an_optimizer_with_scales():
    with pytest.raises(
        TypeError, match=r"needs an optimizer with scales, not strategy='light'; use strategy="
    ):
        layers.Optimizer(Scaled(True).parameters(), strategy="light")


def test_a_group_with_scales_is_added():
    net, plain = Scaled(True), torch.nn.Parameter(torch.ones(3))
    optimizer = layers.Optimizer([plain])
    optimizer.add_param_group(
        {"params": net.parameters(), "strategy": sp.SGD(learning_rate=0.5), "betas": (0, 0)}
    )
    assert [group["lr"] for group in optimizer.param_groups] == [1e-3, 0.5]
    plain.grad = torch.ones(3)
    net(torch.ones(2, 16)).sum().backward()
    before = net.last.array
    optimizer.step()
    assert [state.steps for state in optimizer.states] == [1, 1, 1]
    assert net.last.array is not before
    assert net.last.array.format.name == "binary16"


def test_weights_that_a_model_loads_are_those_of_the_next_step():
    net = torch.nn.Linear(3, 2)
    optimizer = layers.Optimizer(net.named_parameters(), strategy="light", lr=0.01)
    for value in (8.0, 16.0):
        net.load_state_dict({"weight": torch.full((2, 3), value), "bias": torch.zeros(2)})
        net(torch.ones(1, 3)).sum().backward()
        optimizer.step()
        assert (net.weight - value).abs().max() < 0.1


def test_sparse_gradients_and_states_of_torch_are_refused_with_a_way_out():
    table = torch.nn.Embedding(4, 2, sparse=True)
    optimizer = layers.Optimizer(table.parameters(), strategy="light")
    table(torch.tensor([1])).sum().backward()
    with pytest.raises(TypeError, match=r"use torch.nn.Embedding\(sparse=False\)"):
        optimizer.step()
    with pytest.raises(ValueError, match=r"states lack rng; .* which torch's own have not"):
        optimizer.load_state_dict(torch.optim.AdamW(table.parameters()).state_dict())


@pytest.mark.parametrize("recipe", ["nvfp4", fp8.Recipe(scaling="delayed", history=3), "mxfp4"])
def test_a_model_goes_on_bit_for_bit_from_a_saved_recipe_state(recipe, tmp_path):
    def begun():
        net = model()
        layers.use_recipe(net, recipe, keep="2", rng=5)
        return net, torch.optim.SGD(net.parameters(), lr=0.1)

    def train(net, optimizer, factor):
        for _ in range(3):
            optimizer.zero_grad()
            (factor * net(torch.tensor(factor * X.reshape(-1, 20)))).square().mean().backward()
            optimizer.step()

    net, optimizer = begun()
    train(net, optimizer, 2.0)
    torch.save({"net": net.state_dict(), "recipe": layers.recipe_state(net)}, tmp_path / "run.pt")
    train(net, optimizer, 0.5)
    loaded = torch.load(tmp_path / "run.pt", weights_only=True)
    other, its = begun()
    other.load_state_dict(loaded["net"])
    layers.load_recipe_state(other, loaded["recipe"])
    train(other, its, 0.5)
    assert list(loaded["recipe"]) == ["0"]
    for one, two in zip(net.parameters(), other.parameters(), strict=True):
        assert torch.equal(one, two)


class Remembering(torch.nn.Module):
    """A model that each forward pass changes: scales or keys of a recipe, statistics, dropped values."""

    def __init__(self):
        super().__init__()
        self.layers = torch.nn.Sequential(model(), torch.nn.BatchNorm1d(4), torch.nn.Dropout())

        self.scaling = fp8.Recipe(scaling="delayed", history=3).start()

    def forward(self, x):
        """Return a loss."""
        linear = us.differentiable(fp8.linear)
        return linear(self.layers(x), torch.ones(2, 4), torch.ones(2), scaling=self.scaling).square().mean()

    def get_extra_state(self):
        """Return the scales of the last layer."""
        return self.scaling.state_dict()

    def set_extra_state(self, state):
        """Go on from scales."""
        self.scaling.load_state_dict(state)


@pytest.mark.parametrize(
    "recipe", ["nvfp4", fp8.Recipe(scaling="delayed", history=3)], ids=["keys", "scales"]
)
def test_a_report_leaves_a_run_as_it_was(recipe):
    found = []
    for reported in (False, True):
        torch.manual_seed(1)
        net = Remembering()
        layers.use_recipe(net, recipe, rng=5)
        optimizer = torch.optim.SGD(net.parameters(), lr=0.1)
        for factor in (2.0, 0.5, 1.0):
            if reported:
                us.report(net, torch.tensor(100 * X.reshape(-1, 20)))
            optimizer.zero_grad()
            net(torch.tensor(factor * X.reshape(-1, 20))).backward()
            optimizer.step()
        found.append([*net.parameters(), *net.buffers(), torch.get_rng_state()])
    assert all(map(torch.equal, *found))


def test_a_model_that_a_report_refuses_is_left_as_it_was():
    net = model()
    layers.use_recipe(net, "nvfp4", rng=5)
    before = layers.recipe_state(net)
    with pytest.raises(ValueError, match="let it return its loss"):
        us.report(net, torch.tensor(X))
    assert layers.recipe_state(net) == before


def test_states_of_other_recipes_and_layers_are_refused():
    one, two, three = model(), model(), model()
    layers.use_recipe(one, "nvfp4")
    layers.use_recipe(two, "fp8")
    with pytest.raises(ValueError, match=r"state of layer '0' is of a recipe without scales of tensors"):
        layers.load_recipe_state(two, layers.recipe_state(one))
    with pytest.raises(ValueError, match=r"is of a recipe with scales of tensors"):
        layers.load_recipe_state(one, layers.recipe_state(two))
    with pytest.raises(ValueError, match=r"the state is of layers 0, 2, .* here none; call use_recipe"):
        layers.load_recipe_state(three, layers.recipe_state(one))
