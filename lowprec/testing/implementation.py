"""Someone's own implementation of a format, as laws see it."""

from __future__ import annotations

import functools
from fractions import Fraction
from typing import Any

import numpy as np

from lowprec.arrays.checks import as_array
from lowprec.spec import catalog
from lowprec.spec.format import Sign
from lowprec.spec.projection import DEFAULT, Projection, Saturation, saturation
from lowprec.spec.rounding import NEAREST_EVEN, rounding
from lowprec.testing.answers import reals_of
from lowprec.testing.grid import Array, Grid, listed
from lowprec.testing.subjects import Floats, Subject

#: Bits of a code, at most, where no format is named.
_WIDEST = 16


class Implementation(Subject):
    """An object with `decode`: what it is comes from that, and from its `format` where it names one."""

    projects = False

    def __init__(self, given: Any, samples: int = 0, seed: int = 0) -> None:
        claimed = getattr(given, "format", None)
        super().__init__(None if claimed is None else catalog.format(claimed), samples, seed)
        self.given = given
        self.path = self._name = name_of(given)
        self.encodes = callable(getattr(given, "encode", None))
        self.modes = (rounding(getattr(given, "rounding", NEAREST_EVEN)),)
        self.policies = (saturation(getattr(given, "saturation", Saturation.NONE)),)
        if self.modes[0].bits:
            raise ValueError(
                f"rounding of {self.name} is stochastic; a check of `encode` needs a deterministic mode"
            )
        if self.fmt is not None and getattr(given, "width", self.fmt.width) != self.fmt.width:
            raise ValueError(
                f"width={given.width!r} of {self.name} is not that of its format {self.fmt.name!r}, whose "
                f"codes have {self.fmt.width} bits; leave one of them out"
            )
        if self.fmt is None:
            self._sign = _sign_of(given, self.name)
            self._fields = _fields_of(given, self.name, self._sign)

    @property
    def name(self) -> str:
        """Name that the implementation calls itself."""
        return self._name

    @property
    def sign(self) -> Sign:
        """Sign of the implementation's format, or as the implementation says; by default a bit of its own."""
        return super().sign if self.known else self._sign

    @property
    def fields(self) -> tuple[int, ...]:
        """Fields of the implementation's format, or the sign and the rest."""
        return super().fields if self.known else self._fields

    @functools.cached_property
    def grid(self) -> Grid:
        """Grid of the implementation's format, or its own values as `decode` gives them."""
        return super().grid if self.known else listed([Fraction(value) for value in self._finite.tolist()])

    @property
    def placed(self) -> bool:
        """True if numbers have places among the implementation's values, that is if these are in order."""
        return self.known or bool(
            self._finite.size > 1 and self._finite[0] >= 0 and (np.diff(self._finite) > 0).all()
        )

    @functools.cached_property
    def _finite(self) -> Floats:
        """The values of its magnitudes, from 0 on to the first that is not finite."""
        values = self.decode(np.arange(1 << (self.width - (self.sign is not Sign.UNSIGNED))))
        kept: Floats = values[np.logical_and.accumulate(np.isfinite(values))]
        return kept

    def _points(self) -> Floats:
        """Return the points of its format; else its values, ties and the floats beside, up to the largest."""
        if self.known:
            return super()._points()
        values = self._finite
        near = np.concatenate([values, values[:-1] + np.diff(values) / 2])
        near = np.unique(np.concatenate([near, np.nextafter(near, np.inf), np.nextafter(near, -np.inf)]))
        near = near[(near >= 0) & (near <= values[-1])]
        return np.concatenate([near, -near])

    def decode(self, codes: Array) -> Floats:
        """Decode by its own `decode`, from unsigned codes."""
        size = max(8, 1 << (self.width - 1).bit_length())
        made = reals_of(self.given.decode(codes.astype(f"u{size // 8}")), f"decode of {self.name}")
        if made.shape != codes.shape:
            raise ValueError(
                f"decode of {self.name} was given shape {codes.shape} and gave shape {made.shape}; "
                "it must give one value for each code"
            )
        return made.astype(np.float64)

    def encode(self, values: Array, projection: Projection = DEFAULT, random: Array | None = None) -> Array:
        """Encode by its own `encode`, from float64 values."""
        with np.errstate(all="ignore"):
            made = as_array(self.given.encode(values))
        if made.shape != values.shape or made.dtype.kind not in "iu":
            raise ValueError(
                f"encode of {self.name} was given shape {values.shape} and gave {made.dtype} of shape "
                f"{made.shape}; it must give one code, an unsigned integer, for each value"
            )
        wrong = (made < 0) | (made >= 1 << self.width)
        if wrong.any():
            place = int(np.argmax(wrong))
            raise ValueError(
                f"encode of {self.name} gave {made[place]} for {values[place]}, which is no code of "
                f"{self.width} bits; it must give unsigned codes"
            )
        return made.astype(np.int64)


def name_of(given: Any) -> str:
    """Return what someone's object or function is called in reports."""
    return str(getattr(given, "name", None) or getattr(given, "__name__", type(given).__name__))


def _sign_of(given: Any, name: str) -> Sign:
    sign = getattr(given, "sign", Sign.MAGNITUDE)
    try:
        return Sign(sign)
    except ValueError:
        names = ", ".join(member.value for member in Sign)
        raise ValueError(f"sign={sign!r} of {name} is unknown; use one of {names}") from None


def _fields_of(given: Any, name: str, sign: Sign) -> tuple[int, ...]:
    width = getattr(given, "width", None)
    if isinstance(width, np.integer):
        width = int(width)
    if type(width) is not int or not 2 <= width <= _WIDEST:
        raise ValueError(
            f"width={width!r} of {name} must be the bits of a code, 2 to {_WIDEST}; of more bits, or to be "
            "held against parameters, give it an attribute format=lowprec.Format(...)"
        )
    return (width,) if sign is Sign.UNSIGNED else (1, width - 1)
