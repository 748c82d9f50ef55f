"""Ranges of words in which step functions change at most once: every step, and the words next to it."""

import numpy as np
import pytest

import lowprec as lp
from lowprec.kernels.lower.codebook import part
from lowprec.kernels.table.steps import look_up


def steps(name: str, kind: type) -> np.ndarray:
    """The first words of steps: few, as far apart as in no float, next to each other, or in all binades."""
    width, rng = 8 * np.dtype(kind).itemsize, np.random.default_rng(3)
    last = (1 << width) - 1
    found = {
        "one": [],
        "ends": [1, last],
        "even": [i << width - 5 for i in range(32)],
        "powers": [1 << i for i in range(width)],
        "neighbours": [*range(1000, 1100), (1 << width - 1) + 5, (1 << width - 1) + 6],
        "random": rng.integers(0, last, 3000, dtype=np.uint64).tolist(),
        "crowded": (rng.integers(0, 1 << 20, 5000) << width - 31).tolist(),
    }[name]
    return np.unique(np.array([0, *found], np.uint64)).astype(kind)


@pytest.mark.parametrize("kind", [np.uint32, np.uint64])
@pytest.mark.parametrize("name", ["one", "ends", "even", "powers", "neighbours", "random", "crowded"])
def test_a_word_has_the_result_of_its_step(name, kind):
    firsts = steps(name, kind)
    results = np.random.default_rng(4).integers(0, 1 << 16, firsts.size).astype(np.uint16)
    ends = np.array([0, ~kind(0), kind(1) << kind(8 * firsts.itemsize - 1)], kind)
    words = np.concatenate([firsts, firsts - kind(1), firsts + kind(1), ends])
    out = np.empty(words.size, np.uint16)
    look_up(words, *part(firsts, results), out)
    expected = results[np.searchsorted(firsts, words, side="right") - 1]
    np.testing.assert_array_equal(out, expected)


@pytest.mark.parametrize(
    "name",
    [
        "posit16",
        *(pytest.param(each, marks=pytest.mark.long) for each in ("takum16", "takum_linear16", "lns16_8")),
    ],
)
@pytest.mark.parametrize("rounding", ["nearest_even", "toward_negative"])
def test_codebooks_of_16_bits_are_looked_up_as_the_scalar_kernel_answers(name, rounding):
    """Any words of float32, and those of each value and the words next to it."""
    book = lp.format(name)
    with np.errstate(over="ignore", under="ignore", invalid="ignore"):
        near = np.array(book.values).astype(np.float32).view(np.uint32)
    some = np.random.default_rng(5).integers(0, 1 << 32, 200_000, dtype=np.uint64).astype(np.uint32)
    words = np.concatenate([some, near, near + np.uint32(1), near - np.uint32(1)])
    values = words.view(np.float32)
    expected = lp.encode(values, book, rounding=rounding, backend="scalar")
    np.testing.assert_array_equal(lp.encode(values, book, rounding=rounding, backend="table"), expected)
