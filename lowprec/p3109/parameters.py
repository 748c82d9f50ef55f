"""Parameters that specialize operations: formats and projection specifications, by the draft's names.

Floor 3b.
"""

from __future__ import annotations

import functools
import re
from typing import NamedTuple

from lowprec.spec import catalog
from lowprec.spec.families import p3109
from lowprec.spec.format import Format, Sign
from lowprec.spec.naming import close_names
from lowprec.spec.projection import Projection
from lowprec.spec.rounding import stochastic

__all__ = [
    "EXTERNAL",
    "ROUNDINGS",
    "SATURATIONS",
    "Specified",
    "bits_of",
    "format_of",
    "is_external",
    "name_of",
    "projection",
    "specified",
]

#: The external formats that operations take, by the draft's names.
EXTERNAL = {"binary32": catalog.BINARY32, "binary16": catalog.BINARY16, "BFloat16": catalog.BFLOAT16}

#: Rounding modes by the draft's names, but the stochastic ones, which are StochasticA[N] to StochasticC[N].
ROUNDINGS = {
    "NearestTiesToEven": "nearest_even",
    "NearestTiesToAway": "nearest_away",
    "TowardPositive": "toward_positive",
    "TowardNegative": "toward_negative",
    "TowardZero": "toward_zero",
    "ToOdd": "to_odd",
}

#: Saturation modes by the draft's names.
SATURATIONS = {"SatFinite": "finite", "SatPropagate": "propagate", "SatNone": "none"}

_STOCHASTIC = re.compile(r"Stochastic([ABC])\[(\d+)\]")

#: Largest exponent of what formats hold: then products of a scale and an element fit binary64.
_FAR = 500


class Specified(NamedTuple):
    """A projection specification: a rounding mode and a saturation mode, by the draft's names.

    Source: [P3109] 4.2.
    """

    rounding: str
    saturation: str

    def __str__(self) -> str:
        return f"({self.rounding}, {self.saturation})"


def is_external(fmt: Format) -> bool:
    """Return whether a format is one of IEEE 754's or bfloat16."""
    return fmt in EXTERNAL.values()


def name_of(fmt: Format) -> str:
    """Return the draft's name of a format.

    >>> name_of(catalog.format("binary8p4se")), name_of(catalog.BFLOAT16)
    ('Binary8p4se', 'BFloat16')
    """
    return next((name for name, known in EXTERNAL.items() if known == fmt), "B" + fmt.name[1:])


def format_of(given: object, operation: str) -> Format:
    """Return the format that an operation is specialized by, or say why it cannot be."""
    if isinstance(given, str):
        if given.lower() == "binary64":
            raise ValueError(
                f"{operation} cannot be specialized by 'binary64': operations go through binary64, which "
                f"must hold more than their formats; use 'binary32', or a verb such as lowprec.add on float64"
            )
        fmt = catalog.format(given)
    elif isinstance(given, Format):
        fmt = given
    else:
        raise TypeError(f"{operation} takes a format here, by name or as lowprec.Format, not {given!r}")
    if not (is_external(fmt) or _is_p3109(fmt)):
        raise ValueError(
            f"{operation} cannot be specialized by {fmt.name!r}: it takes formats of P3109, such as "
            f"'Binary8p4se', and the external binary32, binary16 and BFloat16; for others use a verb such as "
            f"lowprec.add"
        )
    if fmt.emax >= _FAR or fmt.emin - fmt.trailing_bits <= -_FAR:
        raise ValueError(
            f"{operation} cannot be specialized by {name_of(fmt)!r}: its values do not lie between "
            f"2**-{_FAR} and 2**{_FAR}, so binary64 would not hold their products; use a verb such "
            f"as lowprec.add"
        )
    return fmt


def _is_p3109(fmt: Format) -> bool:
    signed = fmt.sign is Sign.MAGNITUDE
    try:
        return fmt == p3109(fmt.width, fmt.precision, signed=signed, extended=fmt.infinity)
    except ValueError:
        return False


def specified(given: object, operation: str) -> Specified:
    """Return the projection specification that an operation is specialized by, or say why it cannot be."""
    if not isinstance(given, tuple) or len(given) != 2 or not all(isinstance(part, str) for part in given):
        raise TypeError(
            f"{operation} takes a projection specification here, such as ('NearestTiesToEven', 'SatNone'), "
            f"not {given!r}"
        )
    rounding, saturation = given
    if rounding not in ROUNDINGS and not _STOCHASTIC.fullmatch(rounding):
        raise ValueError(
            f"unknown rounding mode {rounding!r} of {operation}{_near(rounding, ROUNDINGS)}; use one of "
            f"{', '.join(ROUNDINGS)}, or StochasticA[N], StochasticB[N] or StochasticC[N] with N random bits"
        )
    if saturation not in SATURATIONS:
        raise ValueError(
            f"unknown saturation mode {saturation!r} of {operation}{_near(saturation, SATURATIONS)}; use one "
            f"of {', '.join(SATURATIONS)}"
        )
    bits_of(rounding)
    return Specified(rounding, saturation)


def _near(name: str, known: dict[str, str]) -> str:
    near = close_names(name, known)
    return f", did you mean {' or '.join(near)}?" if near else ""


def bits_of(rounding: str) -> int:
    """Return the random bits of a rounding mode, 0 of a deterministic one.

    >>> bits_of("StochasticB[8]"), bits_of("ToOdd")
    (8, 0)
    """
    match = _STOCHASTIC.fullmatch(rounding)
    return stochastic(int(match[2]), match[1]).bits if match else 0


@functools.lru_cache(maxsize=1024)
def projection(fmt: Format, how: Specified) -> Projection:
    """Return what ωProject of the draft does, as a projection of the general verbs.

    All but one case: of an unsigned format under SatNone, minus infinity is NaN even where the rounding mode
    makes 0 of finite negative numbers. `projecting.project` knows it.

    Source: [P3109] 4.7.3 to 4.7.6.
    """
    match = _STOCHASTIC.fullmatch(how.rounding)
    mode = stochastic(int(match[2]), match[1]) if match else ROUNDINGS[how.rounding]
    # To odd, what has an exponent above the largest overflows, as it is saturated once it is rounded.
    test = "exponent" if how.rounding == "ToOdd" and is_external(fmt) else "after"
    return Projection(
        rounding=mode,
        # Formats of the finite domain clamp under every policy.
        saturation=SATURATIONS[how.saturation] if fmt.infinity else "finite",
        negative="nan" if is_negative_invalid(how) else "zero",
        overflow_test=test,  # type: ignore[arg-type]
    )


def is_negative_invalid(how: Specified) -> bool:
    """Return whether negative results of unsigned formats are NaN, once they are rounded."""
    return how.saturation == "SatNone" and how.rounding not in ("TowardZero", "TowardPositive")
