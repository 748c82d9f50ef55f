"""Philox4x32-10 gives the published words, and position alone decides which."""

import numpy as np
import pytest
import randomgen

import lowprec as lp
from lowprec.kernels.random import philox

ONES = 0xFFFFFFFF

#: Random123 1.14, kat_vectors: philox4x32, 10 rounds: counter, key, result.
KNOWN = [
    ((0, 0, 0, 0), (0, 0), (0x6627E8D5, 0xE169C58D, 0xBC57AC4C, 0x9B00DBD8)),
    ((ONES, ONES, ONES, ONES), (ONES, ONES), (0x408F276D, 0x41C83B0E, 0xA20BC7C6, 0x6D5451FD)),
    (
        (0x243F6A88, 0x85A308D3, 0x13198A2E, 0x03707344),
        (0xA4093822, 0x299F31D0),
        (0xD16CFE09, 0x94FDCCEB, 0x5001E420, 0x24126EA1),
    ),
]


@pytest.mark.parametrize(("counter", "key", "want"), KNOWN)
def test_philox_gives_the_known_answers(counter, key, want):
    """All three that Random123 publishes."""
    words = [np.uint64(word) for word in (*counter, *key)]
    python = getattr(philox, "py_func", philox)  # compiled for kernels alone
    assert tuple(int(word) for word in python(*words)) == want


@pytest.mark.parametrize("key", [0, 1, 7, (1 << 64) - 1, 0x0123456789ABCDEF])
def test_words_are_those_of_randomgens_generator(key):
    """Another implementation, word after word, from a block far into the stream too."""
    for start in (4, 4 * ((1 << 32) - 2)):
        other = randomgen.Philox(
            counter=start // 4 - 1, key=key, number=4, width=32
        )  # it counts before it draws
        first = np.asarray(other.random_raw(64), np.uint64)
        words = lp.random_bits(64, key, 32, origin=(start,), within=(start + 64,))
        assert words.tolist() == first.tolist()


def test_streams_and_keys_give_other_words():
    """Both words of the key count, and the stream."""
    words = [
        lp.random_bits(8, key, 32, stream=stream).tolist()
        for key, stream in ((1, 0), (2, 0), (1 << 32, 0), (1, 1))
    ]
    assert len({tuple(row) for row in words}) == 4
