"""The configuration of all rules: how scales, sums and results are rounded; a `with` block changes it.

Floor 4.
"""

from __future__ import annotations

import contextlib
import contextvars
import dataclasses
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, Literal, get_args

import numpy as np

from lowprec.spec import catalog
from lowprec.spec.accumulation import Accumulation
from lowprec.spec.accumulations import ACCUMULATIONS, accumulation
from lowprec.spec.format import Format, Sign
from lowprec.spec.projection import DEFAULT, Projection

ScaleRounding = Literal["down", "up", "nearest", "stochastic", "none"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Config:
    """Settings of how rules round.

    Parameters
    ----------
    scale_rounding : {"down", "up", "nearest", "stochastic", "none"}
        How a scale becomes a power of two, where a rule says so; with "none" it stays what it is, rounded
        to the format of the scales alone. Divisions by such scales round ratios of scales to 24 bits first.
    scale_format : Format, str or dtype
        Format of the scales that constants and plain arrays get: one with exponents, such as "binary32",
        "binary16" or "e8m0fnu". Scales of results have the format of the operands' scales.
    projection : Projection
        How results become values of the format of the data.
    dots, sums : Accumulation or str
        How products of matrices and sums are summed.
    rng : int or Generator, optional
        For stochastic rounding of scales or of data. An integer is the seed of a generator, which is
        drawn from at every rounding.

    Source: [SCALIFY] 3.2: scales are rounded down.
    """

    scale_rounding: ScaleRounding = "down"
    scale_format: Format = catalog.BINARY32
    projection: Projection = DEFAULT
    dots: Accumulation = ACCUMULATIONS["fp32_fma"]
    sums: Accumulation = ACCUMULATIONS["exact"]
    rng: np.random.Generator | None = None

    def __post_init__(self) -> None:
        known = get_args(ScaleRounding)
        if self.scale_rounding not in known:
            raise ValueError(
                f"scale_rounding={self.scale_rounding!r} is unknown; use one of {', '.join(known)}"
            )
        fmt = catalog.format(self.scale_format)
        if not fmt.exponent_bits or fmt.sign is Sign.TWOS_COMPLEMENT:
            raise ValueError(
                f"scale_format={fmt.name!r} has no exponents, and scales are powers of two; use 'binary32', "
                f"'e8m0fnu' or another float format"
            )
        object.__setattr__(self, "scale_format", fmt)
        if not isinstance(self.projection, Projection):
            raise TypeError(f"projection must be a Projection, not {self.projection!r}")
        object.__setattr__(self, "dots", accumulation(self.dots))
        object.__setattr__(self, "sums", accumulation(self.sums))
        if self.rng is not None:
            object.__setattr__(self, "rng", np.random.default_rng(self.rng))


_DEFAULT = Config()

_config = contextvars.ContextVar("config", default=_DEFAULT)
_everything = contextvars.ContextVar("everything", default=False)


def current() -> Config:
    """Return the configuration of this thread or task.

    >>> current().scale_rounding
    'down'
    """
    return _config.get()


@contextlib.contextmanager
def config(**changes: Any) -> Iterator[Config]:
    """Change how rules round, within a `with` block and for this thread or task alone.

    >>> with config(scale_rounding="nearest", dots="hopper_wgmma_e4m3fn_binary32") as how:
    ...     how.scale_rounding, current() is how
    ('nearest', True)

    Parameters
    ----------
    **changes
        Fields of `Config`; the others stay as they are.

    Raises TypeError: a field that there is none of. ValueError: a value that the field does not take.
    """
    fields = [field.name for field in dataclasses.fields(Config)]
    for name in changes:
        if name not in fields:
            raise TypeError(f"a configuration has no {name!r}; it has {', '.join(fields)}")
    token = _config.set(dataclasses.replace(current(), **changes))
    try:
        yield current()
    finally:
        _config.reset(token)


@contextlib.contextmanager
def scaling_everything() -> Iterator[None]:
    """Let `scales_everything` be true within a block: in functions that `scalify` runs."""
    token = _everything.set(True)
    try:
        yield
    finally:
        _everything.reset(token)


def scales_everything() -> bool:
    """Return whether the caller is within a function that `scalify` runs."""
    return _everything.get()
