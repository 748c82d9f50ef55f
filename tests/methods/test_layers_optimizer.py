"""Layers and optimizers as objects: the functions' steps in place, groups, a loop in each recipe."""

import dataclasses

import ml_dtypes
import numpy as np
import pytest

from lowprec.methods import fp8, layers, nvfp4, scale_propagation as sp
from lowprec.methods.expansion import STRATEGIES, AdamW

RNG = np.random.default_rng(9)
X, W, B, G = (RNG.standard_normal(shape).astype(np.float32) for shape in ((9, 32), (16, 32), (16,), (9, 16)))


# -- layers -------------------------------------------------------------------------------------------


@pytest.mark.parametrize("recipe", layers.RECIPES)
def test_a_layer_is_the_function_with_its_own_keys(recipe):
    """Two steps, bit for bit; weights are copies."""
    layer, keys = layers.Linear(W, B, recipe, rng=3), np.random.default_rng(3)
    for _ in range(2):
        y, gradients = layer(X)
        want, own = layers.linear(X, W, B, recipe, rng=keys)
        assert np.array_equal(y, want)
        assert all(map(np.array_equal, gradients(G), own(G)))
    layer.weight[...] = 0
    assert W.any()
    assert [each.shape for each in layer.parameters] == [(16, 32), (16,)]
    assert len(layers.Linear(W).parameters) == 1


def test_delayed_scaling_remembers_in_a_layer():
    """As the scaling that is given by hand; each layer has its own, and a new recipe begins anew."""
    recipe = fp8.Recipe(scaling="delayed", history=4)
    layer, scaling = layers.Linear(W, B, recipe), recipe.start()
    for factor in (1, 8, 1):
        y, gradients = layer(factor * X)
        want, own = fp8.linear(factor * X, W, B, scaling=scaling)
        assert np.array_equal(y, want)
        assert all(map(np.array_equal, gradients(G), own(G)))
    other = layers.Linear(W, B, recipe)
    assert not np.array_equal(other(X)[0], layer(X)[0])
    layer.recipe = recipe
    assert np.array_equal(layer(X)[0], layers.linear(X, W, B, recipe.start())[0])
    with pytest.raises(
        ValueError, match=r"scaling='delayed' remembers each layer's values: give recipe.start\(\)"
    ):
        layers.linear(X, W, B, recipe)
    current = layers.linear(X, W, B, fp8.Recipe(grad="e4m3fn"))[1](G)
    assert not np.array_equal(current[0], layers.linear(X, W, B, "fp8")[1](G)[0])


def test_a_recipe_is_changed_in_one_line():
    layer = layers.Linear(W, B)
    plain = layer(X)[0]
    layer.recipe = "mxfp4"
    assert np.array_equal(layer(X)[0], layers.linear(X, W, B, "mxfp4")[0])
    layer.recipe = "float32"
    assert np.array_equal(layer(X)[0], plain)
    with pytest.raises(ValueError, match="recipe='fp3' is unknown"):
        layer.recipe = "fp3"
    assert np.array_equal(layer(X)[0], plain)
    assert isinstance(layers.Linear(W, recipe="nvfp4").recipe, nvfp4.Recipe)


# -- optimizers ---------------------------------------------------------------------------------------


@pytest.mark.parametrize("strategy", STRATEGIES)
def test_steps_are_those_of_adamw_in_place(strategy):
    """Each parameter with a key of its own, each group with its options over those of all."""
    w, b = W.copy(), B.copy()
    groups = [
        {"params": [w], "weight_decay": 0.1},
        {"params": [b], "learning_rate": 0.02, "betas": (0.8, 0.9)},
    ]
    optimizer = layers.Optimizer(groups, strategy=strategy, learning_rate=0.01, rng=5)
    one = AdamW(strategy=strategy, learning_rate=0.01, weight_decay=0.1, rng=5)
    other = AdamW(strategy=strategy, learning_rate=0.02, betas=(0.8, 0.9), rng=6)
    states = [one.start(W), other.start(B)]
    assert np.array_equal(w, states[0].weights)
    for _ in range(3):
        found = RNG.standard_normal(W.shape), RNG.standard_normal(B.shape)
        optimizer.step(found)
        states = [
            each.step(state, grad) for each, state, grad in zip((one, other), states, found, strict=True)
        ]
        assert np.array_equal(w, states[0].weights)
        assert np.array_equal(b, states[1].weights)
    assert optimizer.states[1].steps == 3


def test_groups_may_differ_in_strategy_and_change_their_rate():
    """Norms and biases in binary32 beside weights in bfloat16; a schedule; a parameter without gradient."""
    w, b = W.copy(), B.copy()
    optimizer = layers.Optimizer(
        [{"params": [w], "strategy": "plus"}, {"params": [b]}], strategy="fp32", learning_rate=0.5
    )
    assert np.array_equal(w, W.astype(ml_dtypes.bfloat16))
    assert np.array_equal(b, B)
    optimizer.groups[1]["learning_rate"] = 0.0
    before = w.copy()
    optimizer.step([np.ones_like(W), np.ones_like(B)])
    assert np.array_equal(b, B)
    assert (w != before).all()
    before = w.copy()
    optimizer.step([None, np.ones_like(B)])
    assert np.array_equal(w, before)
    assert [state.steps for state in optimizer.states] == [1, 2]


def test_arrays_of_bfloat16_hold_what_is_computed_with():
    w = W.astype(ml_dtypes.bfloat16)
    layers.Optimizer([w], strategy="light").step([np.ones(W.shape, ml_dtypes.bfloat16)])
    want = AdamW(strategy="light")
    assert np.array_equal(w, want.step(want.start(W.astype(ml_dtypes.bfloat16)), np.ones(W.shape)).weights)


def test_what_is_refused_changes_nothing():
    w, b = W.copy(), B.copy()
    narrow = W.astype(ml_dtypes.bfloat16)
    cases = {
        "an optimizer needs parameters, and was given none": lambda: layers.Optimizer([]),
        "a parameter is in the optimizer twice": lambda: layers.Optimizer([w, w]),
        "'lr' is no option of AdamW; it has betas, eps": lambda: layers.Optimizer([w], lr=0.1),
        "'decay' is no option": lambda: layers.Optimizer([{"params": [w], "decay": 1.0}]),
        "bfloat16 does not hold weights of 'binary32', with which strategy='fp32' computes": (
            lambda: layers.Optimizer([w, narrow], strategy="fp32")
        ),
        "int64 does not hold": lambda: layers.Optimizer([np.arange(3)]),
        "strategy 'lite' is unknown": lambda: layers.Optimizer([w], strategy="lite"),
        r"parameters of shapes \(16, 32\) and \(16, 32\) share memory": lambda: layers.Optimizer(
            [w, b, w[:]]
        ),
        r"parameters of shapes \(.*\) and \(.*\) share memory": lambda: layers.Optimizer([w, w[1:].T]),
        r"is out of range for 2 parameters, .*; use 0 to 2\*\*64 - 2": (
            lambda: layers.Optimizer([w, b], strategy="stochastic", rng=2**64 - 1)
        ),
    }
    for message, call in cases.items():
        with pytest.raises(ValueError, match=message):
            call()
    pair = W.copy(), B.copy()
    layers.Optimizer(pair, strategy="stochastic", rng=2**64 - 2).step(pair)
    halves = np.zeros((4, 4), np.float32)
    assert layers.Optimizer([halves[::2], halves[1::2]]).states  # of interleaved rows
    with pytest.raises(TypeError, match=r"rng=0\.5 of an optimizer must be an integer"):
        layers.Optimizer([w], rng=0.5)
    optimizer = layers.Optimizer([w, b])
    for message, gradients in {
        "1 gradients are not those of 2 parameters": [W],
        "gradient of shape": [np.ones_like(W), W],
        "arrays have no .grad": None,
    }.items():
        with pytest.raises(ValueError, match=message):
            optimizer.step(gradients)
    assert np.array_equal(w, W)
    assert np.array_equal(b, B)
    assert [state.steps for state in optimizer.states] == [0, 0]


@pytest.mark.parametrize("strategy", ["fp32", "light", "fp32_master", "kahan"])
def test_a_step_begins_from_values_that_a_program_wrote(strategy):
    """Where nothing was written the rounding errors that parts keep go on."""
    w, kept = np.full(4, 200, np.float32), np.full(4, 200, np.float32)
    optimizer, undisturbed = (
        layers.Optimizer([each], strategy=strategy, learning_rate=0.01) for each in (w, kept)
    )
    for each in (optimizer, undisturbed):
        each.step([np.ones(4)])
    w[:2] = 1, np.nan
    optimizer.step([np.ones(4)])
    undisturbed.step([np.ones(4)])
    state = optimizer.states[0]
    assert abs(state.parameter.values()[0] - 0.99) < 0.005
    assert np.isnan(w[1])
    assert np.array_equal(state.parameter.values()[2:], undisturbed.states[0].parameter.values()[2:])
    assert np.array_equal(state.second.values(), undisturbed.states[0].second.values())
    assert np.array_equal(w, state.weights, equal_nan=True)


@pytest.mark.parametrize("strategy", ["light", sp.Adam()])
def test_a_parameter_without_a_gradient_keeps_what_a_program_wrote(strategy):
    w = np.float32([1, 2])
    optimizer = layers.Optimizer([w], strategy=strategy)
    w[:] = 5, 6
    optimizer.step([None])
    assert w.tolist() == [5, 6]
    optimizer.step([np.float32([1, -1])])
    assert np.abs(w - [5, 6]).max() < 0.01


def test_parameters_of_binary64_hold_narrower_weights():
    wide, narrow = W.astype(np.float64), W.copy()
    for each in (wide, narrow):
        layers.Optimizer([each], strategy="light").step([np.ones(W.shape)])
    assert np.array_equal(wide, narrow)


def test_refused_optimizers_name_the_way_out():
    half = W.astype(np.float16)
    with pytest.raises(ValueError, match=r"float16 does not hold .* give format='binary16', or use another"):
        layers.Optimizer([half], strategy="light")
    assert layers.Optimizer([half], strategy="light", format="binary16", eps=1e-6).states
    with pytest.raises(TypeError, match="give strategy='light' and its other options to Optimizer"):
        layers.Optimizer([W.copy()], strategy=AdamW(strategy="light"))


# -- both ---------------------------------------------------------------------------------------------


@pytest.mark.apart
@pytest.mark.parametrize("strategy", ["fp32", "plus"])
@pytest.mark.parametrize("recipe", [*layers.RECIPES, fp8.Recipe(scaling="delayed", history=8)], ids=str)
def test_a_loop_learns_by_every_recipe(recipe, strategy):
    """The sign of the first of 16 numbers: the loss falls."""
    rng = np.random.default_rng(0)
    x = rng.standard_normal((64, 16)).astype(np.float32)
    wanted = np.sign(x[:, :1])
    first = layers.Linear(rng.standard_normal((16, 16)) / 4, np.zeros(16), recipe)
    last = layers.Linear(rng.standard_normal((1, 16)) / 4, np.zeros(1), recipe)
    optimizer = layers.Optimizer([*first.parameters, *last.parameters], strategy=strategy, learning_rate=0.02)
    losses = []
    for _ in range(60):
        hidden, back_first = first(x)
        y, back_last = last(np.maximum(hidden, 0))
        losses.append(float(np.square(y - wanted).mean()))
        into, of_w2, of_b2 = back_last(2 * (y - wanted) / len(x))
        _, of_w1, of_b1 = back_first(into * (hidden > 0))
        optimizer.step([of_w1, of_b1, of_w2, of_b2])
    assert np.mean(losses[-5:]) < 0.4 * losses[0]


@pytest.mark.parametrize("kind", ["read-only", "list"])
def test_parameters_that_cannot_be_written_are_refused_before_any_is(kind):
    first, last = np.float32([1.03, 2.0]), np.ones(2, np.float32)
    last.setflags(write=False)
    if kind == "list":
        last = [1.0, 2.0]
    with pytest.raises(TypeError, match=r"a parameter must be a NumPy array or a torch tensor that can be"):
        layers.Optimizer([first, last], strategy="light")
    assert first.tolist() == np.float32([1.03, 2.0]).tolist()


def _damaged(kept, damage):
    if damage == "all":
        return {}
    if damage == "key":
        return kept | {"rng": 2**64 - 1}
    kept["state"] = {place: dict(state) for place, state in kept["state"].items()}
    if damage == "no state":
        del kept["state"][1]
    elif damage == "no weights":
        del kept["state"][1]["weights"]
    elif damage == "no strategy":
        del kept["param_groups"][0]["strategy"]
    else:
        kept["state"][1]["weights"] = "some"
    return kept


@pytest.mark.parametrize(
    ("damage", "words"),
    [
        ("no state", "states of parameter 1 lack parameter, weights"),
        ("no weights", "states of parameter 1 lack weights"),
        ("no strategy", "states of group 0 are of strategy None"),
        ("text", "a state must be real numbers"),
        ("all", "states lack param_groups, state, rng; give what state_dict"),
        ("key", r"rng=18446744073709551615 is out of range for 2 parameters"),
    ],
)
def test_damaged_states_are_refused_and_nothing_changes(damage, words):
    kept = layers.Optimizer([W.copy(), B.copy()], strategy="light").state_dict()
    w, b = np.zeros_like(W), np.zeros_like(B)
    other = layers.Optimizer([w, b], strategy="light")
    with pytest.raises((ValueError, TypeError), match=words):
        other.load_state_dict(_damaged(kept, damage))
    assert not w.any()
    assert not b.any()


@pytest.mark.parametrize("strategy", ["light", "stochastic", "fp32"])
def test_loaded_states_bring_all_their_options(strategy):
    """Also those that neither optimizer was given, or only the one that loads."""
    own = {"learning_rate": 0.5, "betas": (0.5, 0.5), "eps": 0.1, "weight_decay": 0.1}
    own |= {"eps_place": "textbook", "scalars": "format", "stochastic_bits": 3}
    w, v = W.copy(), np.zeros_like(W)
    saved = layers.Optimizer([w], strategy=strategy)
    saved.step([np.full_like(W, 1e-8)])
    loaded = layers.Optimizer([v], strategy=strategy, rng=5, **own)
    loaded.load_state_dict(saved.state_dict())
    for optimizer in (saved, loaded):
        optimizer.step([W])
    assert np.array_equal(w, v)
    loaded = layers.Optimizer([{"params": [v], **own}], strategy=strategy)
    other = layers.Optimizer([{"params": [w]}], strategy=strategy)
    other.load_state_dict(loaded.state_dict())
    assert {name: other.groups[0][name] for name in own} == own


@pytest.mark.parametrize("strategy", ["light", "plus", "fp32", sp.Adam(), sp.SGD()])
def test_states_of_another_shape_are_refused_part_by_part(strategy):
    """Refuse steps that were never taken, too."""
    w = W.copy()
    optimizer = layers.Optimizer([w], strategy=strategy)
    optimizer.step([np.ones_like(W)])
    held = w.copy()
    for name, value in layers.optimizer.fields(optimizer.states[0]):
        kept = optimizer.state_dict()
        part = kept["state"][0][name]
        if name == "steps":
            changed = [-1, 0.5, None]
        elif isinstance(value, np.ndarray):
            changed = [part[:1], part.T]
        elif isinstance(value, sp.ScaledArray):
            changed = [[part[0][:1], part[1]]]
        else:
            changed = [] if value is None else [[each[:1] for each in part], [*part, part[-1]]]
        for each in changed:
            kept["state"][0][name] = each
            with pytest.raises(ValueError, match=f"states of parameter 0.* have {name}"):
                optimizer.load_state_dict(kept)
    assert np.array_equal(w, held)


# -- optimizers with scales ---------------------------------------------------------------------------

SCALED = {
    "adam": sp.Adam(weight_decay=0.1),
    "sgd": sp.SGD(learning_rate=0.5, momentum=0.5),
    "of 8 bits": sp.Adam(weights="e4m3fn", first="e5m2", second="e5m2", rounding="stochastic(16)"),
    "by the rules alone": sp.Adam(rescale=None, first="bfloat16"),
}


def same_state(found, want):
    for name in ("weights", "first", "second"):
        one, two = getattr(found, name), getattr(want, name)
        assert (one is None) == (two is None)
        if one is not None:
            assert (float(one.scale), one.format) == (float(two.scale), two.format)
            assert np.array_equal(one.codes, two.codes)
    assert found.steps == want.steps


@pytest.mark.parametrize("name", SCALED)
def test_steps_with_scales_are_those_of_scale_propagation(name):
    """Step by gradients whose squares are subnormal in binary32; float32 parameters hold the values."""
    given, w = SCALED[name], W.copy()
    optimizer = layers.Optimizer([w], strategy=given, learning_rate=0.01, rng=5)

    def seeded(step):
        return dataclasses.replace(given, learning_rate=0.01, rng=np.random.default_rng((5, step)))

    state = seeded(0).start(sp.as_scaled(W, 2.0 ** np.floor(np.log2(np.abs(W).max()))))
    for step in range(1, 4):
        gradient = RNG.standard_normal(W.shape).astype(np.float32) * np.float32(1e-20)
        scale = 2.0 ** np.floor(np.log2(np.abs(gradient).max()))
        optimizer.step([gradient])
        state = seeded(step).step(state, sp.as_scaled(gradient, scale))
        same_state(optimizer.states[0], state)
        assert np.array_equal(w, state.weights.to_array(np.float32))
    if state.second is not None:
        assert state.second.data.any()


@pytest.mark.parametrize("name", SCALED)
def test_states_with_scales_go_on_bit_for_bit(name):
    """Resume random rounding too, beside a group in binary32 whose rate is another."""

    def begun(rate):
        w, b = W.copy(), B.copy()
        groups = [{"params": [w]}, {"params": [b], "strategy": "fp32", "learning_rate": 0.5}]
        return [w, b], layers.Optimizer(groups, strategy=SCALED[name], learning_rate=rate)

    found = [(RNG.standard_normal(W.shape), RNG.standard_normal(B.shape)) for _ in range(4)]
    (held, one), (other, two) = begun(0.25), begun(0.5)
    for gradients in found[:2]:
        one.step(gradients)
    two.load_state_dict(one.state_dict())
    for gradients in found[2:]:
        one.step(gradients)
        two.step(gradients)
    assert all(np.array_equal(*pair) for pair in zip(held, other, strict=True))
    assert two.groups[0]["learning_rate"] == 0.25
    same_state(one.states[0], two.states[0])


def test_options_of_an_optimizer_with_scales_are_its_own_by_default():
    w, b = W.copy(), np.zeros_like(B)
    optimizer = layers.Optimizer(
        [{"params": [w], "eps": 1.0}, {"params": [b]}], strategy=sp.Adam(learning_rate=0.5)
    )
    assert [group["learning_rate"] for group in optimizer.groups] == [0.5, 0.5]
    assert [group["eps"] for group in optimizer.groups] == [1.0, 1e-8]
    optimizer.step([np.zeros_like(W), np.ones_like(B)])
    assert b.tolist() == [-0.5] * b.size


def test_what_has_no_scale_to_keep_is_refused():
    for message, call in {
        r"type float16 does not hold weights of 'binary32', with which strategy='Adam of binary16, binary16, "
        r"binary16' computes": lambda: layers.Optimizer([W.astype(np.float16)], strategy=sp.Adam()),
        "strategy has an rng of its own": lambda: layers.Optimizer([W.copy()], strategy=sp.SGD(rng=0)),
        "of strategy 'SGD of binary16, binary16', and the group is of 'SGD of binary16, bfloat16'": lambda: (
            layers.Optimizer([W.copy()], strategy=sp.SGD(first="bfloat16")).load_state_dict(
                layers.Optimizer([W.copy()], strategy=sp.SGD()).state_dict()
            )
        ),
    }.items():
        with pytest.raises(ValueError, match=message):
            call()
