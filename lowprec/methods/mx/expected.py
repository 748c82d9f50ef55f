"""The signal-to-noise ratio of a block of normal values, by theory.

Floor 4. Source: [INTFP].

Notation, beside the source's:

    crest      kappa: the largest magnitude of a block over its root mean square
    overshoot  rho: how much larger the scale is than needed, between 1 and 2 for powers of two
"""

from __future__ import annotations

import math

import numpy.typing as npt

from lowprec.arrays.doubles import real
from lowprec.spec import catalog
from lowprec.spec.codebook import Codebook
from lowprec.spec.format import Format


def expected_sqnr(element: Format | str | npt.DTypeLike, crest: float, overshoot: float = 1.5) -> float:
    """Predict the SQNR of normal values in blocks, in decibels, from the crest factor alone.

    Errors are taken as uniform between neighbours: of integers everywhere, of floats in each binade, and
    below the smallest normal number. Nothing is clipped.

    >>> [round(expected_sqnr("int8", crest), 1) for crest in (2, 4, 8, 16)]
    [43.4, 37.4, 31.4, 25.3]
    >>> [round(expected_sqnr("e4m3fn", crest), 1) for crest in (2, 4, 8, 16)]
    [31.9, 31.9, 31.9, 31.9]

    Parameters
    ----------
    element : Format, str or dtype
        Integers, fixed point, or floats with subnormals.
    crest : float
        1 or more.
    overshoot : float
        From 1 to 2.

    Returns
    -------
    decibels : float

    Raises ValueError: a crest factor or an overshoot out of range, another format.

    Source: [INTFP]: 4.78 + 6.02 * bits - 20 * log10(overshoot * crest) for integers, and
    13.80 + 6.02 * trailing bits for floats of ample range.
    """
    fmt = catalog.format(element)
    if isinstance(fmt, Codebook) or not fmt.subnormals:
        raise ValueError(
            f"the SQNR is predicted for integers, fixed point and floats with subnormals, and {fmt.name!r} "
            f"is none of them; measure it with lowprec.error_report"
        )
    if not (real(crest, "crest") >= 1 and 1 <= real(overshoot, "overshoot") <= 2):
        raise ValueError(f"crest={crest!r} must be 1 or more, and overshoot={overshoot!r} between 1 and 2")
    largest = overshoot * crest  # in units of the root mean square
    if not fmt.exponent_bits:
        return 10 * math.log10(3 * 4.0**fmt.width / largest**2)
    below = 2.0 ** (1 - fmt.bias) * largest / fmt.max_finite  # the smallest normal number, in the same units
    subnormal = math.erf(below / math.sqrt(2))
    energy = 1 - subnormal + below * math.sqrt(2 / math.pi) * math.exp(-below * below / 2)
    step = below / 2**fmt.trailing_bits
    return -10 * math.log10(energy / (24 * 4.0**fmt.trailing_bits) + subnormal * step**2 / 12)
