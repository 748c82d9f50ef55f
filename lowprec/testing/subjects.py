"""What laws of formats are tried on: the verbs on arrays, the oracle, or an implementation of someone's own.

Floor 5.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Sequence
from fractions import Fraction
from typing import Any

import numpy as np
import numpy.typing as npt

from lowprec.oracle import convert as oracle
from lowprec.oracle.exact import to_float
from lowprec.oracle.flags import flags as oracle_flags
from lowprec.spec.format import Format, Sign
from lowprec.spec.projection import DEFAULT, Projection
from lowprec.spec.rounding import MODES, NEAREST_EVEN, Rounding, rounding
from lowprec.testing.grid import Grid, Places, grid_of, listed
from lowprec.testing.law import shown_code, shown_value
from lowprec.tools.cases import magnitudes, sample

__all__ = ["Arrays", "Flagged", "Implementation", "Oracle", "Subject"]

Array = npt.NDArray[Any]

#: Width up to which every code is looked at.
_ALL = 16


class Subject:
    """An implementation of a format, as laws see it: codes are int64, values float64.

    Parameters
    ----------
    fmt : Format or None
        None for someone's own that is described by nothing but its `decode`.
    samples, seed : int
        Random inputs beside the cases.
    """

    path = ""
    #: Width up to which every code is looked at.
    _all = _ALL
    modes: tuple[Rounding, ...] = MODES
    encodes = True

    def __init__(self, fmt: Format | None, samples: int = 0, seed: int = 0) -> None:
        self.fmt, self.samples, self.seed = fmt, samples, seed

    # -- what is tried -------------------------------------------------------------------------------

    def decode(self, codes: Array) -> npt.NDArray[np.float64]:
        """The values of codes."""
        raise NotImplementedError

    def encode(self, values: Array, projection: Projection = DEFAULT, random: Array | None = None) -> Array:
        """The codes of values."""
        raise NotImplementedError

    def flags(self, values: Array, projection: Projection = DEFAULT) -> Array:
        """What encoding signals."""
        raise NotImplementedError

    def quantize(self, values: Array, projection: Projection = DEFAULT) -> npt.NDArray[np.float64]:
        """The values that values are rounded to."""
        return self.decode(self.encode(values, projection))

    # -- what is known of it -------------------------------------------------------------------------

    @property
    def format(self) -> Format:
        """The format, where there is one."""
        assert self.fmt is not None
        return self.fmt

    @property
    def name(self) -> str:
        """Of what is checked."""
        return self.format.name

    @property
    def width(self) -> int:
        """Bits of a code."""
        fmt = self.format
        return fmt.exponent_bits + fmt.trailing_bits + (fmt.sign is not Sign.UNSIGNED)

    @property
    def sign(self) -> Sign:
        """How negative numbers are written."""
        return self.format.sign

    @property
    def fields(self) -> tuple[int, ...]:
        """Widths of the fields of a code, from the top."""
        if self.fmt is None:
            return (1, self.width - 1) if self.sign is not Sign.UNSIGNED else (self.width,)
        signs = int(self.fmt.sign is not Sign.UNSIGNED)
        return (signs, self.fmt.exponent_bits, self.fmt.trailing_bits)

    @functools.cached_property
    def grid(self) -> Grid:
        """Its values, by the parameters of the format."""
        return grid_of(self.format)

    # -- cases ---------------------------------------------------------------------------------------

    @functools.cached_property
    def codes(self) -> Array:
        """All codes up to 16 bits (the oracle's up to 8), else those at the ends of binades and random ones."""
        top = 1 << self.width
        if self.width <= self._all:
            return np.arange(top)
        near = magnitudes(self.format, sparse=self.path != "arrays").astype(np.int64)
        specials = np.arange(self.grid.last - 8, min(self.grid.last + 9, top // 2 or top))
        drawn = np.random.default_rng(self.seed).integers(0, top, 1024 if self.path == "arrays" else 64)
        ends = top - 1 - np.arange(16)
        codes = np.unique(np.concatenate([near, specials, drawn, near | top // 2, specials | top // 2, ends]))
        return codes[codes < top]

    @functools.cached_property
    def points(self) -> Array:
        """Finite numbers worth encoding, smallest first: values, ties, their neighbours, far ones, and samples."""
        near = np.array([point for magnitude in self._near for point in self._around(magnitude)])
        bits = near.view(np.int64)
        around = [bits - 1, bits, bits + 1]
        if self.path != "oracle":  # every bit of a tail by itself
            few = np.array([point for magnitude in self._walked for point in self._around(magnitude)]).view(np.int64)
            walks = np.int64(1) << np.arange(52)
            around += [(few[:, None] + walks).ravel(), (few[:, None] - walks).ravel()]
        top = _float(self.grid.value(self.grid.last + 1))
        far = [2.0**-1074, 2.0**-1022, 2.0**-149, 2.0**-127, 1.0, 2.0**127, 2.0**128, 2.0**1023, top]
        far += [top * times for times in (1.5, 2.0, 3.0, 1e6) if top * times < 2.0**1023]
        unsigned = np.concatenate([*around, np.array([0.0, *far]).view(np.int64)])
        unsigned = np.unique(unsigned[(unsigned >= 0) & (unsigned < 0x7FF << 52)]).view(np.float64)
        chosen: Array = np.concatenate([unsigned, -unsigned, self._drawn()])
        chosen = chosen[np.isfinite(chosen)]
        return chosen[np.argsort(np.abs(chosen), kind="stable")]

    def _around(self, magnitude: int) -> tuple[float, float]:
        """The value of a magnitude, and the tie above it."""
        low, high = self.grid.value(magnitude), self.grid.value(magnitude + 1)
        return _float(low), _float((low + high) / 2)

    @property
    def _near(self) -> list[int]:
        """Magnitudes whose neighbourhood is looked at: all up to 8 bits, else those at the ends of some binades."""
        last = max(self.grid.last, self.grid.last_negative)
        if self.width <= 8:
            return list(range(last + 1))
        return [int(magnitude) for magnitude in magnitudes(self.format, sparse=True) if magnitude <= last]

    @property
    def _walked(self) -> list[int]:
        """Two magnitudes of a low, a middle and the highest binade."""
        last = self.grid.last
        return sorted({place for place in (1, 2, last // 2, last // 2 + 1, last - 1, last) if 0 <= place <= last})

    def _drawn(self) -> Array:
        """Random numbers in the range of the format, and random patterns."""
        if not self.samples:
            return np.empty(0)
        random = np.random.default_rng(self.seed)
        top = float(self.grid.value(self.grid.last))
        sides = random.uniform(-1.25, 1.25, self.samples // 2) * min(top, 2.0**1000)
        return np.concatenate([sides, sample(np.float64, self.samples - sides.size, self.seed)])

    @functools.cached_property
    def places(self) -> Places:
        """Where the points lie on the grid."""
        return Places.of([float(value) for value in self.points], self.grid)

    # -- words ---------------------------------------------------------------------------------------

    def shown(self, code: int) -> str:
        """A code, its fields and its value."""
        text = shown_code(int(code), self.width, self.fields)
        if not 0 <= code < 1 << self.width:
            return text
        return f"{text}  {shown_value(float(self.decode(np.array([code]))[0]))}"


class Arrays(Subject):
    """The verbs of lowprec on arrays, and so the kernels."""

    path = "arrays"

    def decode(self, codes: Array) -> npt.NDArray[np.float64]:
        """By `lowprec.decode`."""
        from lowprec.arrays.convert import decode

        return np.asarray(decode(codes, self.format, dtype="float64"))

    def encode(self, values: Array, projection: Projection = DEFAULT, random: Array | None = None) -> Array:
        """By `lowprec.encode`."""
        from lowprec.arrays.convert import encode

        words = None if random is None else random.astype(np.uint32)
        return np.asarray(encode(values, self.format, projection=projection, random=words)).astype(np.int64)

    def flags(self, values: Array, projection: Projection = DEFAULT) -> Array:
        """By `flags=` of `lowprec.encode`."""
        from lowprec.arrays.convert import encode

        signals = np.zeros(values.shape, np.uint8)
        encode(values, self.format, projection=projection, flags=signals)
        return signals.astype(np.int64)

    def quantize(self, values: Array, projection: Projection = DEFAULT) -> npt.NDArray[np.float64]:
        """By `lowprec.quantize`."""
        from lowprec.arrays.convert import quantize

        return np.asarray(quantize(values, self.format, projection=projection)).astype(np.float64)


class Flagged(Arrays):
    """The verbs when they are asked for flags, which another kernel answers: it knows every format and projection."""

    path = "arrays with flags"

    @property
    def _near(self) -> list[int]:
        """As many as matter to one kernel for all formats."""
        return Oracle._near.fget(self)  # type: ignore[attr-defined,no-any-return]

    def decode(self, codes: Array) -> npt.NDArray[np.float64]:
        """By `lowprec.decode` with flags."""
        from lowprec.arrays.convert import decode

        return np.asarray(decode(codes, self.format, dtype="float64", flags=np.zeros(codes.shape, np.uint8)))

    def encode(self, values: Array, projection: Projection = DEFAULT, random: Array | None = None) -> Array:
        """By `lowprec.encode` with flags."""
        from lowprec.arrays.convert import encode

        words = None if random is None else random.astype(np.uint32)
        signals = np.zeros(values.shape, np.uint8)
        made = encode(values, self.format, projection=projection, random=words, flags=signals)
        return np.asarray(made).astype(np.int64)

    def quantize(self, values: Array, projection: Projection = DEFAULT) -> npt.NDArray[np.float64]:
        """By `lowprec.quantize` with flags."""
        from lowprec.arrays.convert import quantize

        signals = np.zeros(values.shape, np.uint8)
        return np.asarray(quantize(values, self.format, projection=projection, flags=signals)).astype(np.float64)


class Oracle(Subject):
    """The oracle, one number after the other."""

    path = "oracle"
    _all = 8

    @property
    def _near(self) -> list[int]:
        """Few: one number takes the oracle as long as a thousand take a kernel."""
        last, normal = max(self.grid.last, self.grid.last_negative), 1 << self.format.trailing_bits
        places = {0, 1, 2, normal - 1, normal, normal + 1, last // 2, last - 1, last}
        return sorted(place for place in places if 0 <= place <= last)

    def decode(self, codes: Array) -> npt.NDArray[np.float64]:
        """By `oracle.decode`."""
        return np.array([to_float(oracle.decode(code, self.format)) for code in codes.tolist()], np.float64)

    def encode(self, values: Array, projection: Projection = DEFAULT, random: Array | None = None) -> Array:
        """By `oracle.encode`."""
        words: Sequence[int | None] = [None] * values.size if random is None else random.tolist()
        pairs = zip(values.astype(np.float64).tolist(), words, strict=True)
        codes = [oracle.encode(value, self.format, projection, random=word) for value, word in pairs]
        return np.array(codes, np.int64)

    def flags(self, values: Array, projection: Projection = DEFAULT) -> Array:
        """By `oracle.flags`."""
        from lowprec.oracle.exact import from_float

        signals = [oracle_flags(from_float(value), self.format, projection) for value in values.tolist()]
        return np.array(signals, np.int64)


class Implementation(Subject):
    """Someone's own: what it is comes from its `decode`, and from its `format` where it names one."""

    def __init__(self, given: Any, samples: int = 0, seed: int = 0) -> None:
        from lowprec.spec import catalog

        claimed = getattr(given, "format", None)
        super().__init__(None if claimed is None else catalog.format(claimed), samples, seed)
        self.given = given
        self.path = self._name = str(getattr(given, "name", None) or getattr(given, "__name__", type(given).__name__))
        self.encodes = callable(getattr(given, "encode", None))
        self.modes = (rounding(getattr(given, "rounding", NEAREST_EVEN)),)
        if self.modes[0].bits:
            raise ValueError(f"rounding of {self._name} is stochastic; a check of `encode` needs a deterministic mode")
        self._width = super().width if self.fmt is not None else _width_of(given, self._name)
        self._sign = super().sign if self.fmt is not None else _sign_of(given, self._name)

    @property
    def name(self) -> str:
        """As it calls itself."""
        return self._name

    @property
    def width(self) -> int:
        """Of its format, or as it says."""
        return self._width

    @property
    def sign(self) -> Sign:
        """Of its format, or as it says; by default a bit of its own."""
        return self._sign

    @functools.cached_property
    def grid(self) -> Grid:
        """Of its format, or its own values as `decode` gives them."""
        return grid_of(self.fmt) if self.fmt is not None else listed(self.finite)

    @functools.cached_property
    def finite(self) -> list[Fraction]:
        """The values of its magnitudes, from 0 on to the first that is not finite."""
        half = 1 << (self.width - (self.sign is not Sign.UNSIGNED))
        values = self.decode(np.arange(half))
        stop = int(np.argmin(np.isfinite(values))) if not np.isfinite(values).all() else half
        return [Fraction(value) for value in values[:stop].tolist()]

    @functools.cached_property
    def points(self) -> Array:
        """As of a format; else values and ties of its own, with their neighbours."""
        if self.fmt is not None:
            return Subject.points.func(self)  # type: ignore[attr-defined,no-any-return]
        values = np.array([float(value) for value in self.finite])
        near = np.concatenate([values, values[:-1] + np.diff(values) / 2])
        near = np.unique(np.concatenate([near, np.nextafter(near, np.inf), np.nextafter(near, -np.inf)]))
        near = near[(near >= 0) & (near <= values[-1])]
        chosen = near if self.sign is Sign.UNSIGNED else np.concatenate([near, -near])
        return chosen[np.argsort(np.abs(chosen), kind="stable")]

    def decode(self, codes: Array) -> npt.NDArray[np.float64]:
        """By its own `decode`, of unsigned codes."""
        unsigned = codes.astype(f"u{max(1, 1 << (self.width - 1).bit_length() >> 3)}")
        made = np.asarray(self.given.decode(unsigned))
        if made.shape != codes.shape:
            raise ValueError(
                f"decode of {self.name} was given shape {codes.shape} and gave shape {made.shape}; "
                "it must give one value for each code"
            )
        try:
            return made.astype(np.float64)
        except (TypeError, ValueError):
            raise TypeError(
                f"decode of {self.name} gave {made.dtype}, which are no numbers; give values as float64"
            ) from None

    def encode(self, values: Array, projection: Projection = DEFAULT, random: Array | None = None) -> Array:
        """By its own `encode`, of float64 values."""
        with np.errstate(all="ignore"):
            made = np.asarray(self.given.encode(values))
        if made.shape != values.shape or made.dtype.kind not in "iu":
            raise ValueError(
                f"encode of {self.name} was given shape {values.shape} and gave {made.dtype} of shape {made.shape}; "
                "it must give one code, an unsigned integer, for each value"
            )
        return made.astype(np.int64)


def _float(number: Fraction) -> float:
    """The nearest float64, infinity past the largest."""
    try:
        return float(number)
    except OverflowError:
        return math.inf


def _width_of(given: Any, name: str) -> int:
    width = getattr(given, "width", None)
    if type(width) is not int or not 2 <= width <= _ALL:
        raise ValueError(
            f"width={width!r} of {name} must be the bits of a code, 2 to {_ALL}; of more bits, or to be held against "
            "parameters, give it an attribute format=lowprec.Format(...)"
        )
    return width


def _sign_of(given: Any, name: str) -> Sign:
    sign = getattr(given, "sign", Sign.MAGNITUDE)
    try:
        return Sign(sign)
    except ValueError:
        names = ", ".join(member.value for member in Sign)
        raise ValueError(f"sign={sign!r} of {name} is unknown; use one of {names}") from None
