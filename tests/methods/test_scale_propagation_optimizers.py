"""Adam and SGD with scales: each step against float64 formulas, scales against the rules written again."""

import math
import sys
import types
from pathlib import Path

import numpy as np
import pytest

import lowprec as lp
from lowprec.methods import scale_propagation as sp
from lowprec.methods.scale_propagation import optimizers
from tests.support import refusal_test

SHAPE = (7, 5)


def down(x):
    """The power of two at or below a number, by its exponent."""
    return 2.0 ** (math.frexp(x)[1] - 1)


def summed(s, t):
    """The scale of a sum."""
    return down(math.sqrt(s * s + t * t))


def given(seed=0, scale=2.0**-24, steps=4):
    """Weights, and gradients whose elements lie within four binades."""
    rng = np.random.default_rng(seed)
    w = rng.standard_normal(SHAPE).astype(np.float32)
    signs = rng.choice([-1.0, 1.0], (steps, *SHAPE))
    g = (signs * 2.0 ** rng.uniform(-2, 2, (steps, *SHAPE)) * scale).astype(np.float32)
    return w, g


def near(kept, exact, work):
    """Whether what is kept is the exact value, rounded to nearest in its format after `work` of binary32."""
    fmt = lp.format(kept.format)
    bits = fmt.trailing_bits + 1
    step = float(kept.scale) * (fmt.min_subnormal or 0.0)
    bound = 2.0**-bits * np.abs(exact) * (1 + 2.0**-20) + step / 2 + work
    return (np.abs(kept.to_array() - exact) <= bound).all()


def adam_in_float64(old, g, steps, optimizer):
    """Moments and weights after a step from what was kept, and how far binary32 may be from these."""
    beta1, beta2 = optimizer.betas
    w, m, v = (each.to_array() for each in (old.weights, old.first, old.second))
    m = m + (1 - beta1) * (g - m)
    v = v + (1 - beta2) * (g * g - v)
    root = np.sqrt(v) / math.sqrt(1 - beta2**steps)
    way = m / (1 - beta1**steps) / (root + optimizer.eps)
    shrunk = w - optimizer.learning_rate * optimizer.weight_decay * w
    unit = 2.0**-21
    sizes = unit * (np.abs(m) + np.abs(g)), unit * v, unit * (np.abs(w) + 20 * optimizer.learning_rate)
    return (m, v, shrunk - optimizer.learning_rate * way), sizes


def every_adam_step_is_right(**options):
    """Four steps, each from what was kept after the one before."""
    optimizer = sp.Adam(learning_rate=2.0**-5, **options)
    w, gradients = given()
    state = optimizer.start(sp.as_scaled(w, 0.5))
    for steps, g in enumerate(gradients, 1):
        exact, work = adam_in_float64(state, np.float64(g), steps, optimizer)
        state = optimizer.step(state, sp.as_scaled(g, 2.0**-26))
        kept = (state.first, state.second, state.weights)
        right = all(near(*each) for each in zip(kept, exact, work, strict=True))
        formats = [optimizer.first, optimizer.second, optimizer.weights]
        if not right or state.steps != steps or [each.format for each in kept] != formats:
            return False
    return True


KEPT = [
    {},
    {"weights": "binary32", "first": "binary32", "second": "binary32"},
    {"weights": "bfloat16", "first": "e4m3fn", "second": "e5m2"},
    {"rescale": None},
    {"rescale": "max", "weight_decay": 0.25, "eps": 2.0**-24, "betas": (0.5, 0.9)},
]


@pytest.mark.parametrize("options", KEPT)
def test_every_step_of_adam_is_that_of_float64_rounded_once(options):
    assert every_adam_step_is_right(**options)


@pytest.mark.apart
@pytest.mark.parametrize(
    ("right", "wrong"),
    [
        ("np.square(g) * (1 - beta2)", "np.square(g) * (1 - beta1)"),
        ("v / (1 - beta2**steps)", "v / (1 - beta2 ** (steps + 1))"),
        ("+ self.eps", ""),
        ("old_m * beta1", "old_m"),
        ("rebalance(x, 2.0)", "ScaledArray(x.data, 2 * x.scale)"),
        ("1 - self.learning_rate * self.weight_decay", "1 - self.weight_decay"),
        ("self._kept(v, self.second))", 'self._kept(v, "e5m2"))'),
    ],
)
def test_planted_mistakes_in_adam_are_found(right, wrong, monkeypatch):
    """The module with one expression changed fails the test above."""
    source = Path(optimizers.__file__).read_text()
    assert source.count(right) == 1, right
    module = types.ModuleType(optimizers.__name__)
    monkeypatch.setitem(sys.modules, optimizers.__name__, module)
    exec(compile(source.replace(right, wrong), optimizers.__file__, "exec"), module.__dict__)
    monkeypatch.setattr(sp, "Adam", module.Adam)
    assert not all(every_adam_step_is_right(**options) for options in KEPT)


def test_every_step_of_sgd_is_that_of_float64_rounded_once():
    optimizer = sp.SGD(learning_rate=2.0**10, momentum=0.75, weight_decay=2.0**-14)
    w, gradients = given()
    state = optimizer.start(sp.as_scaled(w, 0.5))
    assert state.second is None
    for g in gradients:
        m = 0.75 * state.first.to_array() + np.float64(g)
        exact = state.weights.to_array() * (1 - 2.0**-4) - 2.0**10 * m
        state = optimizer.step(state, sp.as_scaled(g, 2.0**-26))
        assert near(state.first, m, 2.0**-22 * np.abs(m))
        assert near(state.weights, exact, 2.0**-21)


def test_states_begin_as_zeros_without_a_scale_and_take_the_gradients():
    """By the rules alone: that of v is a product and two sums of scales, written out again here."""
    optimizer = sp.Adam(rescale=None)
    w, gradients = given()
    state = optimizer.start(sp.as_scaled(w, 0.5))
    assert [float(each.scale) for each in (state.first, state.second)] == [0.0, 0.0]
    of_m, of_v, of_g = 0.0, 0.0, 2.0**-26
    for g in gradients:
        state = optimizer.step(state, sp.as_scaled(g, of_g))
        of_m = summed(of_m * down(0.9), of_g * down(1 - 0.9))
        of_v = summed(of_v * down(0.999), of_g**2 * down(1 - 0.999))
        assert (float(state.first.scale), float(state.second.scale)) == (of_m, of_v)
        assert float(state.weights.scale) == 0.5


def test_of_an_array_without_gradient_nothing_changes():
    """Zeros of scale 0 in, zeros of scale 0 kept: nothing is divided by zero."""
    for optimizer in (sp.Adam(), sp.SGD(), sp.Adam(eps=1e-12, rescale="max")):
        state = optimizer.start(sp.as_scaled(np.float32([1.0, -2.0]), 1.0))
        state = optimizer.step(state, sp.as_scaled(np.zeros(2, np.float32)))
        assert state.first.scale == 0
        assert state.weights.to_array().tolist() == [1.0, -2.0]


@pytest.mark.parametrize("optimizer", [sp.Adam(rescale="l2"), sp.SGD()], ids=["adam", "sgd"])
def test_a_loss_scale_is_in_the_scales_alone(optimizer):
    """2**-40 or 2**40 before, divided away: the same bits. eps is of the gradient, not of the loss."""
    w, gradients = given()
    ends = []
    for loss_scale in map(np.float32, (1.0, 2.0**-40, 2.0**40)):
        state = optimizer.start(sp.as_scaled(w, 0.5))
        for g in gradients:
            state = optimizer.step(
                state, sp.as_scaled(g * loss_scale, 2.0**-26 * loss_scale) * (1 / loss_scale)
            )
        ends.append(state.weights)
    assert len({(end.data.tobytes(), float(end.scale)) for end in ends}) == 1


def test_in_binary32_scales_change_no_bit():
    """With and without: scales are powers of two, and the root's of v too."""
    wide = {"weights": "binary32", "first": "binary32", "second": "binary32"}
    w, gradients = given(scale=2.0**-6)
    for optimizer in (sp.Adam(weight_decay=0.01, **wide), sp.SGD(weights="binary32", first="binary32")):
        scaled, plain = optimizer.start(sp.as_scaled(w, 0.5)), optimizer.start(w)
        for g in gradients:
            scaled, plain = optimizer.step(scaled, sp.as_scaled(g, 2.0**-9)), optimizer.step(plain, g)
        assert plain.weights.dtype == np.float32
        assert (scaled.weights.to_array(np.float32) == plain.weights).all()


def test_stochastic_states_in_eight_bits_follow_in_the_mean():
    """Steps of a sixteenth of the last place: to nearest nothing moves, in the mean of 4,000 all does."""
    w = sp.as_scaled(np.full(4000, 1.0, np.float32), 1.0)
    g = sp.as_scaled(np.full(4000, 1.0, np.float32), 2.0**-20)
    ends = {}
    for name, options in (("nearest", {}), ("random", {"rounding": "stochastic(16)", "rng": 1})):
        optimizer = sp.Adam(learning_rate=2.0**-8, weights="e4m3fn", first="e4m3fn", second="e5m2", **options)
        state = optimizer.start(w)
        for _ in range(8):
            state = optimizer.step(state, g)
        ends[name] = float(state.weights.to_array().mean())
    assert ends["nearest"] == 1.0
    assert ends["random"] == pytest.approx(1 - 8 * 2.0**-8, abs=0.004)


def test_what_is_kept_saturates_and_nan_stays():
    state = sp.SGD(rescale=None, first="e4m3fn").start(sp.as_scaled(np.float32([1.0, 1.0]), 1.0))
    kept = sp.SGD(rescale=None, first="e4m3fn").step(state, sp.as_scaled(np.float32([1e4, np.nan]), 1.0))
    assert kept.first.data[0] == 448
    assert np.isnan(kept.first.data[1])


test_what_cannot_be_is_refused = refusal_test(
    globals(),
    """
sp.Adam(learning_rate=-1)
    ValueError: learning_rate=-1 of Adam must be a finite number, 0 or more
sp.SGD(momentum=1.0)
    ValueError: momentum=1.0 of SGD must be below 1, 0 or more
sp.Adam(eps=math.nan)
    ValueError: eps=nan of Adam must be a finite number, 0 or more
sp.Adam(betas=(0.9, 1.0))
    ValueError: betas=(0.9, 1.0) of Adam must be two numbers, at least 0 and below 1
sp.Adam(rescale="l3")
    ValueError: rescale='l3' of Adam is unknown; use one of max, l1, l2, or None
sp.Adam(second="e9m9")
    ValueError: unknown format 'e9m9'; `lowprec formats` lists all names
sp.Adam().step(sp.Adam().start(np.zeros(3, np.float32)), np.zeros(2, np.float32))
    ValueError: gradient of shape (2,) is not of the weights' shape (3,)
""",
)
