"""Draw codebooks: named ones, members of their families, and any values with any thresholds."""

import itertools
import math
from fractions import Fraction

from lowprec.spec.codebook import TIES, Codebook
from lowprec.spec.codebooks import ENTRIES, named
from tests.fuzz.drawing import Draw, accepted

#: Named codebooks and members of families that are made at once.
NAMES = (
    *(name for name, entry in ENTRIES.items() if entry.width <= 8),
    "posit6_es1",
    "posit10_es0",
    "lns6_2",
)


def any_codebook(draw: Draw) -> Codebook:
    """A codebook: a named one in one of three cases."""
    if draw.alike.random() < 0.35:
        found = named(draw.one_of_few("codebook", NAMES))
        assert found is not None
        return found
    return accepted(lambda: _any(draw))


def _any(draw: Draw) -> Codebook:
    """Any values: of few or many bits, of both signs or not, with zeros, infinities and NaNs or without."""
    count = 1 << draw.choice((2, 2, 3, 4, 4, 6, 8))
    bits, far = draw.choice((1, 2, 3, 8, 24, 28, 53)), draw.choice((2, 6, 20, 120, 1000))
    signs = draw.choice(((1,), (1, -1)))
    values: set[float] = {0.0} if draw.chance(0.7) else set()
    specials = [each for each in (math.inf, -math.inf, -0.0) if draw.chance(0.2) and len(signs) > 1]
    specials += [math.nan] * draw.choice((0, 0, 1, 1, 2))
    for _ in range(4 * count):  # of few bits there may not be as many: the constructor refuses that
        significand = draw.randint(1 << bits - 1, (1 << bits) - 1)
        value = draw.choice(signs) * math.ldexp(significand, draw.randint(-far, far) - bits)
        values |= {value, -value} if len(signs) > 1 and draw.chance(0.5) else {value}
    listed = [*draw.sample(sorted(values), min(count - len(specials), len(values))), *specials]
    if draw.chance(0.6):
        draw.shuffle(listed)
    finite = sorted({each for each in listed if math.isfinite(each)})
    thresholds = None
    if draw.chance(0.5):
        shares = (Fraction(0), Fraction(1), Fraction(1, 2), Fraction(draw.randint(1, 255), 256))
        thresholds = [
            float(Fraction(low) + (Fraction(high) - Fraction(low)) * draw.choice(shares))
            for low, high in itertools.pairwise(finite)
        ]
    most = max(map(abs, finite))
    return Codebook(
        "drawn",
        listed,
        thresholds=thresholds,
        ties=draw.choice(tuple(TIES)),
        overflow=draw.choice(("gap", "gap", "never", most * draw.choice((1.0625, 1.5, 2.0)))),
    )
