"""Every operation of the IEEE P3109 draft, under its own names, on codes.

The draft is unapproved, and agreement with it is no conformance. See docs/p3109.md.

>>> from lowprec import p3109
>>> add = p3109.Add["Binary8p4se", "Binary8p4se", "Binary8p3se", ("NearestTiesToEven", "SatNone")]
>>> add([0x40, 0x7F], [0x48, 0xFF])
array([ 70, 128], dtype=uint8)

Operations are attributes of this module, and in `OPERATIONS`.

Floor 3b. Source: [P3109].
"""

from __future__ import annotations

from lowprec.p3109.approximation import Approximation, kappa
from lowprec.p3109.conforming import required
from lowprec.p3109.operations import OPERATIONS, Operation, Specialization, find, specialization
from lowprec.p3109.parameters import Specified
from lowprec.p3109.queries import ClassEnum

__all__ = [
    "OPERATIONS",
    "Approximation",
    "ClassEnum",
    "Operation",
    "Specialization",
    "Specified",
    "kappa",
    "required",
    "specialization",
]


def __getattr__(name: str) -> Operation:
    if name.startswith("_"):
        raise AttributeError(f"module 'lowprec.p3109' has no attribute {name!r}")
    try:
        return find(name)
    except ValueError as error:
        raise AttributeError(str(error)) from None


def __dir__() -> list[str]:
    return sorted([*__all__, *OPERATIONS])
