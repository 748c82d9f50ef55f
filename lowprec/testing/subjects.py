"""Subjects of laws of formats: the verbs on arrays, and the oracle; with which codes and numbers."""

from __future__ import annotations

import functools
from collections.abc import Sequence

import numpy as np
import numpy.typing as npt

from lowprec.spec.codebook import Codebook
from lowprec.spec.format import Format, Sign
from lowprec.spec.projection import DEFAULT, Projection, Saturation
from lowprec.spec.rounding import MODES, Rounding
from lowprec.testing.book import Stops, stops_of
from lowprec.testing.grid import Array, Grid, Positions, grid_of
from lowprec.verify.codes.codebooks import marks
from lowprec.verify.codes.display import shown_float, split, widths
from lowprec.verify.inputs.conversions import magnitudes, sample
from lowprec.verify.inputs.operands import special_codes
from lowprec.verify.reference import oracle_arrays

Floats = npt.NDArray[np.float64]


class Subject:
    """An implementation of a format, as laws see it: codes are arrays of int64, values of float64.

    Parameters
    ----------
    fmt : Format or None
        None for someone's own that is described by nothing but its `decode`.
    samples, seed : int
        Random numbers beside the cases.
    """

    path = ""  #: whose answers these are
    slow = False  #: whether one number takes as long as a thousand do elsewhere
    few = False  #: whether the neighbourhoods of few magnitudes do
    encodes = True  #: whether it has `encode`
    projects = True  #: whether `encode` takes every projection; else one mode and one policy, below
    modes: Sequence[Rounding] = MODES
    policies: Sequence[Saturation] = tuple(Saturation)

    def __init__(self, fmt: Format | None, samples: int = 0, seed: int = 0) -> None:
        self.fmt, self.samples, self.seed = fmt, samples, seed

    # -- what is tried -------------------------------------------------------------------------------

    def decode(self, codes: Array) -> Floats:
        """Return the values of codes."""
        raise NotImplementedError

    def encode(self, values: Array, projection: Projection = DEFAULT, random: Array | None = None) -> Array:
        """Return the codes of values."""
        raise NotImplementedError

    def flags(self, values: Array, projection: Projection = DEFAULT) -> Array:
        """Return what encoding signals."""
        raise NotImplementedError

    def quantize(self, values: Array, projection: Projection = DEFAULT) -> Floats:
        """Return the values that values are rounded to."""
        return self.decode(self.encode(values, projection))

    def like(self, fmt: Format) -> Subject:
        """Return the same implementation, of another format."""
        return type(self)(fmt, self.samples, self.seed)

    # -- what is known of it -------------------------------------------------------------------------

    @property
    def known(self) -> bool:
        """True if there are parameters that the subject is held against."""
        return self.fmt is not None

    @property
    def format(self) -> Format:
        """The format, where it is known."""
        assert self.fmt is not None
        return self.fmt

    @property
    def name(self) -> str:
        """Name of the subject."""
        return self.format.name

    @property
    def sign(self) -> Sign:
        """Representation of negative numbers."""
        return self.format.sign

    @property
    def fields(self) -> tuple[int, ...]:
        """Widths of the fields of a code, from the top."""
        return widths(self.format)

    @property
    def width(self) -> int:
        """Bits of a code."""
        return sum(self.fields)

    @functools.cached_property
    def grid(self) -> Grid:
        """Its values, by the parameters of the format."""
        return grid_of(self.format)

    @property
    def placed(self) -> bool:
        """True if numbers have places among the subject's values."""
        return True

    # -- cases ---------------------------------------------------------------------------------------

    @functools.cached_property
    def codes(self) -> Array:
        """All codes up to 16 bits, slow ones' up to 8; else the ends of binades, specials and random ones."""
        top = 1 << self.width
        if self.width <= (8 if self.slow else 16):
            return np.arange(top)
        if isinstance(self.fmt, Codebook):
            drawn = np.random.default_rng(self.seed).integers(0, top, 64)
            return np.unique(np.concatenate([special_codes(self.fmt).astype(np.int64), drawn]))
        ends = magnitudes(self.format, sparse=self.slow)
        specials = np.arange(self.grid.last - 8, self.grid.last + 9)
        drawn = np.random.default_rng(self.seed).integers(0, top, 64 if self.slow else 1024)
        codes = np.concatenate(
            [ends, specials, ends | top // 2, specials | top // 2, drawn, top - 1 - np.arange(16)]
        )
        return np.unique(codes[(codes >= 0) & (codes < top)])

    @functools.cached_property
    def points(self) -> Floats:
        """Finite numbers to encode, smallest first, -0 among them; none with a sign for unsigned formats."""
        chosen = self._marked() if isinstance(self.fmt, Codebook) else self._points()
        chosen = chosen[np.isfinite(chosen)]
        if self.sign is Sign.UNSIGNED:
            chosen = chosen[~np.signbit(chosen)]
        return chosen[np.argsort(np.abs(chosen), kind="stable")]

    def _points(self) -> Floats:
        """Return values and ties with numbers beside them, every bit of a tail, far and random numbers."""
        near = self._around(self._near)
        bits = [near - 1, near, near + 1]
        if not self.slow:
            few, tails = self._around(self._walked)[:, None], np.int64(1) << np.arange(52)
            bits += [(few + tails).ravel(), (few - tails).ravel()]
        top = self.grid.number(self.grid.last + 1)
        far = [0.0, 2.0**-1074, 2.0**-1022, 2.0**-149, 2.0**-127, 1.0, 2.0**127, 2.0**128, 2.0**1023]
        far += [top * times for times in (1.0, 1.5, 2.0, 3.0, 1e6)]
        patterns = np.concatenate([*bits, np.array(far).view(np.int64)])
        sizes = np.unique(patterns[(patterns >= 0) & (patterns < 0x7FF << 52)]).view(np.float64)
        return np.concatenate([sizes, -sizes, self._drawn()])

    def _marked(self) -> Floats:
        """Return values and thresholds of a codebook with numbers beside them, far and random numbers."""
        assert isinstance(self.fmt, Codebook)
        near = marks(self.fmt)
        most = 48 if self.slow else 640
        if near.size > most:
            near = np.concatenate([near[:16], near[16 : -16 : near.size // (most - 32) + 1], near[-16:]])
        near = np.concatenate([near, np.nextafter(near, np.inf), np.nextafter(near, 0)])
        top = max(abs(self.fmt.min_finite), self.fmt.max_finite)
        few = self.samples // 2
        random = np.random.default_rng(self.seed).uniform(-1.5, 1.5, few) * top
        drawn = sample(np.float64, self.samples - few, self.seed)
        sizes = np.unique(np.concatenate([near, [2.0**-1074, 2.0**-149, 1.0, top * 1.5, top * 2, top * 1e6]]))
        return np.concatenate([sizes, -sizes, random, drawn])

    @functools.cached_property
    def stops(self) -> Stops:
        """Between which codes of a codebook the points lie."""
        assert isinstance(self.fmt, Codebook)
        return stops_of(self.points.tolist(), self.fmt)

    def _around(self, places: Sequence[int]) -> Array:
        """Return the bits of the values of magnitudes, and of the ties above them."""
        grid = self.grid
        numbers = [(grid.number(m), _middle(grid, m)) for m in places]
        return np.array(numbers).ravel().view(np.int64)

    @property
    def _near(self) -> list[int]:
        """Magnitudes whose neighbours are examined: all up to 8 bits, else the ends of some binades."""
        last = max(self.grid.last, self.grid.last_negative)
        if self.few:
            normal = 1 << self.format.trailing_bits
            places = {0, 1, 2, normal - 1, normal, normal + 1, last // 2, last - 1, last}
            return sorted(place for place in places if 0 <= place <= last)
        if self.width <= 8:
            return list(range(last + 1))
        return [place for place in magnitudes(self.format, sparse=True).tolist() if place <= last]

    @property
    def _walked(self) -> list[int]:
        """Two magnitudes of a low, a middle and the highest binade."""
        last = self.grid.last
        return sorted(
            {place for place in (1, 2, last // 2, last // 2 + 1, last - 1, last) if 0 <= place <= last}
        )

    def _drawn(self) -> Floats:
        """Return random numbers in the range of the format, and random patterns."""
        if not self.samples:
            return np.empty(0)
        within = self.samples // 2
        top = min(self.grid.number(self.grid.last), 2.0**1000)
        random = np.random.default_rng(self.seed).uniform(-1.25, 1.25, within) * top
        return np.concatenate([random, sample(np.float64, self.samples - within, self.seed)])

    @functools.cached_property
    def places(self) -> Positions:
        """Positions of the points on the grid."""
        return Positions.of(self.points.tolist(), self.grid)

    # -- words ---------------------------------------------------------------------------------------

    def shown(self, code: int) -> str:
        """Return a code, its fields, and the value that it is decoded to."""
        if not 0 <= code < 1 << self.width:
            return f"{code}, no code of {self.width} bits"
        value = float(self.decode(np.array([code]))[0])
        return f"0x{int(code):0{-(-self.width // 4)}x}  {split(int(code), self.fields)}  {shown_float(value)}"


class Arrays(Subject):
    """The verbs of lowprec on arrays.

    With `flagged` they are asked for flags, and then the one kernel that knows every format and projection
    answers.
    """

    def __init__(self, fmt: Format, samples: int = 0, seed: int = 0, *, flagged: bool = False) -> None:
        super().__init__(fmt, samples, seed)
        self.flagged, self.few = flagged, flagged
        self.path = "arrays with flags" if flagged else "arrays"

    def like(self, fmt: Format) -> Subject:
        """Return the same verbs, of another format."""
        return Arrays(fmt, self.samples, self.seed, flagged=self.flagged)

    def decode(self, codes: Array) -> Floats:
        """Decode by `lowprec.decode`."""
        from lowprec.arrays.convert import decode

        return np.asarray(decode(codes, self.format, dtype="float64", flags=self._room(codes)))

    def encode(self, values: Array, projection: Projection = DEFAULT, random: Array | None = None) -> Array:
        """Encode by `lowprec.encode`."""
        from lowprec.arrays.convert import encode

        words = None if random is None else random.astype(np.uint32)
        made = encode(values, self.format, projection=projection, random=words, flags=self._room(values))
        return np.asarray(made).astype(np.int64)

    def flags(self, values: Array, projection: Projection = DEFAULT) -> Array:
        """Return the flags that `lowprec.encode` writes."""
        from lowprec.arrays.convert import encode

        signals = np.zeros(values.shape, np.uint8)
        encode(values, self.format, projection=projection, flags=signals)
        return signals.astype(np.int64)

    def quantize(self, values: Array, projection: Projection = DEFAULT) -> Floats:
        """Quantize by `lowprec.quantize`."""
        from lowprec.arrays.convert import quantize

        made = quantize(values, self.format, projection=projection, flags=self._room(values))
        return np.asarray(made).astype(np.float64)

    def _room(self, given: Array) -> Array | None:
        return np.zeros(given.shape, np.uint8) if self.flagged else None


class Oracle(Subject):
    """The oracle, one number after the other."""

    path = "oracle"
    slow = few = True

    def decode(self, codes: Array) -> Floats:
        """Decode by the oracle."""
        return oracle_arrays.decode(codes, self.format)

    def encode(self, values: Array, projection: Projection = DEFAULT, random: Array | None = None) -> Array:
        """Encode by the oracle."""
        return oracle_arrays.encode(values, self.format, projection, random=random)

    def flags(self, values: Array, projection: Projection = DEFAULT) -> Array:
        """Return the oracle's flags."""
        signals = np.zeros(values.shape, np.uint8)
        oracle_arrays.encode(values, self.format, projection, flags=signals)
        return signals.astype(np.int64)


def is_verbs(subject: Subject) -> bool:
    """Return whether it is the verbs on arrays, by the kernels that answer where no flags are asked for."""
    return isinstance(subject, Arrays) and not subject.flagged


def _middle(grid: Grid, magnitude: int) -> float:
    """Return the tie above a magnitude, or the float64 next to it."""
    try:
        return float((grid.value(magnitude) + grid.value(magnitude + 1)) / 2)
    except OverflowError:
        return np.inf
