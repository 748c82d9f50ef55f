"""Detection of stochastic rounding, and of its random bits, in results next to the exact ones.

A result with the tail t, from 0 to 1, is the farther neighbour with a probability that follows from t and the
random bits. The other hypothesis is mistakes: the nearer neighbour, and now and then the farther one.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from lowprec.verify.compare.sample import MATCHES
from lowprec.verify.questions.question import Question, differ

__all__ = ["STOCHASTIC", "chances", "random_bits_of"]

STOCHASTIC = "stochastic rounding"

#: Up to how many random bits can be told from more of them.
_FEW = 7
#: By how much the logarithm of the likelihood must exceed that of mistakes.
_MARGIN = 12.0
#: Tails this near 0, a half or 1 tell nothing.
_NEXT = 2.0**-6


def chances(question: Question) -> str | None:
    """Return stochastic rounding in words, if results lie on either side as often as it would have them."""
    if not question.size:
        return None
    places = np.random.default_rng(1).integers(0, question.size, 2 * MATCHES)
    batch = question.sample(np.sort(places), places[:0])
    sides = question.random(batch)
    if sides is None:
        return None
    (down, up, far), got = sides, batch.got
    inside = (down != up) & (far > 0) & (far < 1)
    is_up, is_down = ~differ(question, got, up), ~differ(question, got, down)
    faithful = inside & (is_up | is_down)
    if np.count_nonzero(faithful) < 0.98 * np.count_nonzero(inside):
        return None
    bits = random_bits_of(far[faithful], is_up[faithful])
    if bits is None:
        return None
    which = f" with {bits} random bit{'s' * (bits > 1)}" if bits else ""
    return f"{STOCHASTIC}{which}: each result is a neighbour, taken as often as it is near"


def random_bits_of(tails: npt.NDArray[np.float64], farther: npt.NDArray[np.bool_]) -> int | None:
    """Return random bits of stochastic rounding, 0 for too many to be told; None where it is none.

    >>> tails = np.linspace(0.01, 0.99, 999)
    >>> drawn = np.random.default_rng(0).random(999)
    >>> random_bits_of(tails, drawn < tails), random_bits_of(tails, drawn < np.floor(tails * 4) / 4)
    (0, 2)
    >>> random_bits_of(tails, (tails > 0.5) ^ (drawn < 0.05)) is None
    True
    >>> ties = np.repeat([0.001, 0.4999, 0.5001, 0.999], 100)
    >>> random_bits_of(ties, (ties > 0.4) & (np.arange(400) % 2 == 0) | (ties > 0.9)) is None
    True

    Parameters
    ----------
    tails : array of float64, shape (n,)
        Above 0 and below 1.
    farther : array of bool, shape (n,)
        Whether the result is the neighbour farther from zero.

    Notes
    -----
    P(farther) is floor(t * 2**bits) / 2**bits for variant A of P3109, and for B and C the multiple of
    2**-bits that t is rounded to.
    """
    # At ties, and next to a code, rounding to nearest and its mistakes look as random as chance does.
    telling = np.abs(tails % 0.5 - 0.25) < 0.25 - _NEXT
    tails, farther = tails[telling], farther[telling]
    if not tails.size:
        return None
    flips = int(np.count_nonzero(farther != (tails > 0.5)))
    mistakes = max(_coins(flips, tails.size), _coins(int(np.count_nonzero(farther)), tails.size))
    best, found = mistakes + _MARGIN, None
    for bits in (0, *range(1, _FEW + 1)):
        size = float(1 << bits)
        chances = [tails] if not bits else [np.floor(tails * size) / size, np.round(tails * size) / size]
        for chance in chances:
            likelihood = _likelihood(chance, farther)
            # More likely by far than more bits, or not told from them.
            if likelihood > best + (_MARGIN if bits and found is not None else 0):
                if _is_calibrated(chance, farther):
                    best, found = likelihood, bits
    return found


def _coins(count: int, size: int) -> float:
    """Return the logarithm of the likelihood of so many among all, by a share of their own."""
    share = np.clip(count / size, 1e-12, 1 - 1e-12)
    return float(count * np.log(share) + (size - count) * np.log1p(-share))


def _likelihood(chance: npt.NDArray[np.float64], farther: npt.NDArray[np.bool_]) -> float:
    with np.errstate(divide="ignore"):
        return float(np.log(np.where(farther, chance, 1 - chance)).sum())


def _is_calibrated(chance: npt.NDArray[np.float64], farther: npt.NDArray[np.bool_]) -> bool:
    """Return whether the farther neighbour was taken as often as it should be, wherever the tails lie."""
    places = np.minimum((chance * 8).astype(np.int64), 7)
    expected, seen = np.bincount(places, chance, 8), np.bincount(places, farther, 8)
    spread = np.sqrt(np.bincount(places, chance * (1 - chance), 8))
    return not (np.abs(seen - expected) > 6 * spread + 0.5).any()
