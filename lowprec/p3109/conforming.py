"""The specializations that the draft requires of every implementation, as data.

Floor 3b. Source: [P3109] 4.5.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator

from lowprec.p3109.operations import OPERATIONS, Specialization
from lowprec.p3109.parameters import EXTERNAL
from lowprec.p3109.queries import NEIGHBOURS, OF_FORMATS

__all__ = ["required"]

_F8, _F4 = ("Binary8p4se", "Binary8p3se"), ("Binary4p2sf",)
_SCALES = ("Binary8p1uf",)
_OURS = _F4 + _F8
_HOW = ("NearestTiesToEven", "SatNone")

_EXTREMA = [name for name in OPERATIONS if name.startswith(("Minimum", "Maximum"))]
_COMPARISONS = [name for name in OPERATIONS if name.startswith("Compare")]
_OF_VALUES = [name for name in OPERATIONS if name.startswith("Is")] + [*NEIGHBOURS]


def required(external: tuple[str, ...] = tuple(EXTERNAL)) -> Iterator[Specialization]:
    """Yield every specialization that a conforming implementation provides.

    >>> sum(1 for _ in required()), next(required())
    (549, Convert<Binary4p2sf, Binary4p2sf, (NearestTiesToEven, SatNone)>)

    Parameters
    ----------
    external : tuple of str
        The external formats, of which an implementation has at least one.
    """
    every, wide = _OURS + external, _F8 + external
    for f, fr in itertools.product(every, repeat=2):
        yield OPERATIONS["Convert"][f, fr, _HOW]
        yield OPERATIONS["Recip"][f, fr, _HOW]
    for f in _OURS:
        yield from (OPERATIONS[name][f, f, _HOW] for name in ("Negate", "Abs"))
        yield from (OPERATIONS[name][f, f, f, _HOW] for name in _EXTREMA)
        yield from (OPERATIONS[name][f, f] for name in _COMPARISONS)
        yield from (OPERATIONS[name][f] for name in _OF_VALUES)
    for f1, f2, fr in itertools.product(_OURS, _OURS, wide):
        yield from (OPERATIONS[name][f1, f2, fr, _HOW] for name in ("Add", "Subtract", "Multiply"))
        for name, fs in itertools.product(("ScaledAdd", "ScaledSubtract", "ScaledMultiply"), _SCALES):
            yield OPERATIONS[name][(fs, f1), (fs, f2), fr, _HOW]
    for f1, f2, fr in itertools.product(_OURS, _OURS, external):
        yield from (OPERATIONS[name][f1, f2, fr, fr, _HOW] for name in ("FMA", "FAA"))
    yield from (OPERATIONS[name][f] for name, f in itertools.product(OF_FORMATS, every))
