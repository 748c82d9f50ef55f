"""Stochastic results, held against the random integers that they took."""

from __future__ import annotations

import numpy as np
import pytest
from click.testing import CliRunner

import lowprec as lp
from lowprec.cli.main import main
from tests.support import refusal_test

RNG = np.random.default_rng(0)
X = RNG.standard_normal(4096).astype(np.float32)

#: Modes, formats, and how many results share a random integer of so many bits.
MODES = {
    "stochastic(8)": ("e4m3fn", 1, 8),
    "stochastic(5, C)": ("e5m2", 1, 5),
    "stochastic(16, ptx_rs)": ("e2m3fn", 4, 32),
    "stochastic(13, ptx_rs)": ("binary16", 2, 32),
    "stochastic(20, rdna4)": ("e4m3fn", 1, 32),
}


def words_of(mode):
    _, share, bits = MODES[mode]
    return RNG.integers(0, 1 << bits, X.size // share, dtype=np.uint32)


@pytest.mark.apart
@pytest.mark.parametrize("mode", MODES)
def test_results_agree_with_their_own_integers_and_no_others(mode):
    """A code that is changed is found where it is, and other integers are told for what they are."""
    fmt, words = MODES[mode][0], words_of(mode)
    how = {"rounding": mode, "saturation": "finite"}
    codes = np.asarray(lp.encode(X, fmt, random=words, **how))
    assert lp.compare(X, codes, fmt, random=words, **how).agrees
    wrong = codes.copy()
    wrong[1001] ^= 1
    report = lp.compare(X, wrong, fmt, random=words, **how)
    assert [detail.data["index"] for detail in report.details] == [1001]
    other = lp.compare(X, lp.encode(X, fmt, random=words[::-1].copy(), **how), fmt, random=words, **how)
    assert (
        other.cause.words == "stochastic rounding: each result is a neighbour, taken as often as it is near"
    )
    nearest = lp.compare(X, lp.encode(X, fmt, saturation="finite"), fmt, random=words, **how)
    assert nearest.cause.words.startswith("ties to even (nearest_even instead of stochastic(")


def test_files_have_them_too(tmp_path):
    """--random, with a stochastic --rounding."""
    mode = "stochastic(16, ptx_rs)"
    words = words_of(mode)
    np.save(tmp_path / "x.npy", X)
    np.save(tmp_path / "words.npy", words)
    np.save(tmp_path / "out.npy", np.asarray(lp.encode(X, "e2m3fn", rounding=mode, random=words)))
    given = ["compare", str(tmp_path / "x.npy"), str(tmp_path / "out.npy"), "--to", "e2m3fn"]
    done = CliRunner().invoke(main, [*given, "--rounding", mode, "--random", str(tmp_path / "words.npy")])
    assert (done.exit_code, done.output) == (0, "4,096 results agree\n")
    done = CliRunner().invoke(main, [*given, "--rounding", mode])
    assert done.exit_code == 2
    assert "needs a random integer for each operand; use a deterministic mode" in done.output


test_what_cannot_be_is_refused = refusal_test(
    globals(),
    """
lp.compare(X, np.zeros(4096, np.uint8), **{"to": "e4m3fn"} | {"rounding": "stochastic(8)"})
    ValueError: rounding stochastic(8, A) needs a random integer for each operand; give random=, or use
    a deterministic mode
lp.compare(X, np.zeros(4096, np.uint8), **{"to": "e4m3fn"} | {"random": np.zeros(4096, np.uint8)})
    ValueError: random= is for stochastic rounding, and rounding nearest_even is not; leave it out
lp.compare(X, np.zeros(4096, np.uint8), **{"to": "e4m3fn"} | {"rounding": "stochastic(8)",
        "random": np.zeros(7, np.uint8)})
    ValueError: random has shape (7,), but needs (4096,)
lp.compare(X, np.zeros(4096, np.uint8), **{"to": "e4m3fn"} | {"rounding": "stochastic(8)",
        "random": np.zeros(4096, np.uint8), "scale": 2.0})
    ValueError: flags= and scale= are compared with deterministic roundings, not with stochastic(8, A)
lp.compare(X, np.zeros(4096, np.uint8), **{"to": "e4m3fn"} | {"to": "mxfp4", "random": np.zeros(4096,
        np.uint8)})
    ValueError: random= is for single values, and 'mxfp4' has blocks...
""",
)


@pytest.mark.parametrize("variant", ["B", "C"])
def test_another_variant_of_stochastic_rounding_is_named(variant):
    """It takes the same integers; B and C often give the same."""
    rng = np.random.default_rng(3)
    values = rng.standard_normal(8192).astype(np.float32)
    integers = rng.integers(0, 16, values.size).astype(np.uint32)
    codes = lp.encode(values, "e4m3fn", rounding=lp.stochastic(4, variant), random=integers)
    report = lp.compare(values, codes, "e4m3fn", rounding=lp.stochastic(4), random=integers)
    assert report.mismatches
    words = f"the same random integers by variant {variant} (stochastic(4, {variant}))"
    assert words in (report.cause.words, *report.cause.same)
    assert report.cause.net == report.mismatches
