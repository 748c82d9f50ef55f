"""progress=: what is told, in which order, and that nothing else changes."""

import io
import itertools

import numpy as np
import pytest

import lowprec as lp
from lowprec.arrays import functions, progress
from lowprec.arrays.dots import dot
from lowprec.arrays.measures import scale_search
from lowprec.arrays.random import is_plain
from lowprec.kernels.vector.dot_program import Dots
from lowprec.spec import catalog
from lowprec.spec.layouts import lanes

RNG = np.random.default_rng(0)
X, Y = (RNG.standard_normal(shape).astype(np.float32) for shape in ((3, 200, 40), (40, 30)))
DRAWN = (catalog.BFLOAT16, lp.Projection(rounding=lp.stochastic(8)))
AT_RANDOM = lp.Accumulation(name="drawn", accumulator=DRAWN, output=DRAWN)
CALLS = {
    "matmul": (lambda **more: lp.matmul(X, Y, "fp32_fma", **more), 3 * 200 * 30),
    "matmul of special values": (lambda **more: lp.matmul(X * np.inf, Y, "exact", **more), 3 * 200 * 30),
    "matmul at random": (
        lambda **more: lp.matmul(X[:, :20], Y, AT_RANDOM, rng=3, **more),
        3 * 20 * 30,
    ),
    "matmul with addend": (
        lambda **more: lp.matmul(X, Y, "fp32_fma", addend=np.ones(30, np.float32), **more),
        3 * 200 * 30,
    ),
    "matmul with scales of blocks": (
        lambda **more: lp.matmul(
            X, Y, "fp32_fma", scales=(np.ones((3, 200, 5)), None), epilogue=lp.Epilogue(block=8), **more
        ),
        5,
    ),
    "dot": (lambda **more: lp.dot(X[0], X[1], "fp32_sequential", **more), 200),
    "scales": (lambda **more: lp.scale_for(X, "int4", "mse", axis=1, **more), X.size),
    "scales of a wide format": (lambda **more: lp.scale_for(X, "bfloat16", "mse", **more), X.size),
}


@pytest.fixture(autouse=True)
def small_steps(monkeypatch):
    """So that small calls have several."""
    monkeypatch.setattr(dot, "_steps", lambda *_: 17)
    monkeypatch.setattr(scale_search, "_REPORTED", 5000)
    monkeypatch.setattr(scale_search, "PART", 5000)


@pytest.mark.parametrize(("call", "total"), CALLS.values(), ids=CALLS)
def test_what_is_done_ascends_from_0_to_the_total(call, total):
    told = []
    got = call(progress=lambda *each: told.append(each))
    done = [each[0] for each in told]
    assert {each[1] for each in told} == {total}
    assert done[0] == 0
    assert done[-1] == total
    assert len(done) > 3
    assert all(a < b for a, b in itertools.pairwise(done))
    assert np.array_equal(got, call(), equal_nan=True)


@pytest.mark.parametrize(("call", "total"), CALLS.values(), ids=CALLS)
def test_what_the_function_raises_ends_the_call(call, total):
    """As Ctrl-C does."""
    told = []

    def stop(done, _):
        told.append(done)
        if len(told) == 2:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        call(progress=stop)
    assert len(told) == 2
    assert told[-1] < total


@pytest.mark.parametrize("nothing", [None, False])
def test_without_it_a_matrix_is_done_at_once(nothing, monkeypatch):
    seen, real = [], Dots.run
    monkeypatch.setattr(Dots, "run", lambda *args: (seen.append(args[4].shape), real(*args))[1])
    lp.matmul(X, Y, "fp32_fma", progress=nothing)
    assert seen == [(600, 30)]  # all rows meet one matrix


def test_true_shows_a_bar_on_stderr_that_goes(monkeypatch):
    class Terminal(io.StringIO):
        def isatty(self):
            return True

    shown = Terminal()
    monkeypatch.setattr("sys.stderr", shown)
    monkeypatch.setenv("TERM", "xterm")
    lp.matmul(X, Y, "fp32_fma", progress=True)
    assert "dot products, fp32_fma" in shown.getvalue()
    assert shown.getvalue().endswith("\x1b[2K")  # the line is cleared


@pytest.mark.parametrize("wrong", [1, "yes", [print]], ids=repr)
def test_anything_else_is_refused(wrong):
    with pytest.raises(TypeError) as caught:
        lp.matmul(X, Y, "fp32_fma", progress=wrong)
    assert (
        str(caught.value) == f"progress must be a function of (done, total), or True for a bar, not {wrong!r}"
    )


def test_nothing_to_do_is_done():
    told = []
    lp.matmul(X[:, :0], Y, "fp32_fma", progress=lambda *each: told.append(each))
    assert told == [(0, 0)]


def test_rows_between_reports_are_a_hundredth_or_worth_preparing_the_other_side(monkeypatch):
    monkeypatch.undo()
    told = []
    for shape in ((1000, 8), (30, 8)):
        lp.matmul(np.ones(shape), np.ones((8, 4)), "fp32_fma", progress=lambda *each: told.append(each))
    assert told == [(0, 4000), (4000, 4000), (0, 120), (120, 120)]


def test_a_step_is_told_in_sums():
    told = []
    with progress.reporting(lambda *each: told.append(each), 5, "") as step:
        step(2)
        step(3)
    assert told == [(0, 5), (2, 5), (5, 5)]


@pytest.mark.parametrize(
    ("variant", "bits", "fmt"),
    [
        ("A", 8, "e4m3fn"), ("B", 8, "e4m3fn"), ("C", 8, "e4m3fn"), ("hip", 20, "e4m3fn"),
        ("rdna4", 20, "e4m3fn"), ("rdna4", 21, "e5m2"), ("avx10_2", 7, "e4m3fn"), ("avx10_2", 8, "e5m2"),
        ("ptx_rs", 16, "e4m3fn"), ("ptx_rs", 16, "bfloat16"), ("ptx_rs", 13, "binary16"),
    ],
)  # fmt: skip
def test_functions_watched_round_at_random_by_the_same_bits(variant, bits, fmt, monkeypatch):
    """In parts, of which each has its own share of words that several elements have together."""
    monkeypatch.setattr(functions, "_PART", 10)
    values, rounding = np.linspace(0.1, 3, 43).reshape(1, 43).astype(np.float32), lp.stochastic(bits, variant)
    words = lp.random_bits(
        (1, -(-43 // lanes(rounding, lp.format(fmt)))), 3, bits if is_plain(rounding) else 32
    )
    for drawn in ({"rng": 3}, {"random": words}):
        want = lp.exp(values, fmt, rounding=rounding, **drawn)
        got = lp.exp(values, fmt, rounding=rounding, progress=lambda done, total: None, **drawn)
        assert got.tobytes() == want.tobytes()
