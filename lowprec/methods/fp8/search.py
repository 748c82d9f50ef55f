"""Searches for scales and biases, and their errors.

Floor 4. Source: [FP8] 4.2 and 4.3.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from lowprec.arrays import convert
from lowprec.arrays.checks import Array, as_array
from lowprec.arrays.doubles import real, reals
from lowprec.arrays.kinds import check_labels
from lowprec.arrays.measures import statistics
from lowprec.arrays.measures.errors import decibels
from lowprec.methods.fp8.codes import encode, projection_of
from lowprec.spec import catalog
from lowprec.spec.codebook import Codebook
from lowprec.spec.format import Format

Like = Format | str | npt.DTypeLike


@dataclass(frozen=True)
class Calibration:
    """The scale that a search found.

    Parameters
    ----------
    method : str
        What found it: "max", "mse" or "percentile 99.9".
    scale : array of float32
    scores : mapping of str to float
        What each method scored.
    """

    method: str
    scale: Array = dataclasses.field(compare=False)
    scores: Mapping[str, float] = dataclasses.field(hash=False)


def calibrate(
    values: npt.ArrayLike,
    fmt: Like = "e4m3fn",
    *,
    axis: int | Iterable[int] | None = None,
    percentiles: Sequence[float] = (99.0, 99.9, 99.99),
    power_of_two: bool = False,
    judge: Callable[[Array], float] | None = None,
) -> Calibration:
    """Try every way to find a scale, and keep the one that is judged best.

    >>> import numpy as np
    >>> values = np.append(np.random.default_rng(0).standard_normal(4096), 40.0)
    >>> found = calibrate(values, "int4")
    >>> found.method, {name: round(score, 1) for name, score in found.scores.items()}
    ('mse', {'max': 1.5, 'percentile 99': 5.9, 'percentile 99.9': 6.0, 'percentile 99.99': 2.1, 'mse': 6.1})

    Parameters
    ----------
    values, fmt, axis, power_of_two
        As for `encode`.
    percentiles : sequence of float
    judge : callable, optional
        From a scale to a number, the larger the better: the accuracy of a network, for instance. By
        default the SQNR of the values themselves.

    Returns
    -------
    found : Calibration
        The first of the best, in the order max, percentiles, mse.

    Source: [FP8] 4.2: for activations the best of the three.
    """
    values = as_array(values)
    trials = {"max": ("max", 100.0)}
    trials |= {f"percentile {real(each, 'a percentile'):g}": ("percentile", each) for each in percentiles}
    trials["mse"] = ("mse", 100.0)
    score = judge or (lambda scale: sqnr(values, encode(values, fmt, scale=scale).values(np.float64)))
    options: dict[str, Any] = {"power_of_two": power_of_two, "projection": projection_of()}
    scales = {
        name: np.asarray(statistics.scale_for(values, fmt, method, axis, percentile=percentile, **options))
        for name, (method, percentile) in trials.items()
    }
    scores = {name: float(score(scale)) for name, scale in scales.items()}
    best = max(scores, key=lambda name: scores[name])
    return Calibration(best, scales[best], scores)


@dataclass(frozen=True, eq=False)
class BiasSweep:
    """The SQNR of tensors in decibels, with each exponent bias and with a scale for each tensor.

    Parameters
    ----------
    biases : tuple of int
    by_bias : array of float64, shape (biases, tensors)
    scaled, scaled_by_powers : array of float64, shape (tensors,)
        With a scale of its own for each tensor, any number or a power of two.
    """

    biases: tuple[int, ...]
    by_bias: Array
    scaled: Array
    scaled_by_powers: Array

    @property
    def best(self) -> int:
        """The bias with the largest mean."""
        return self.biases[int(self.by_bias.mean(axis=1).argmax())]

    def __str__(self) -> str:
        named = {f"bias {bias}": row for bias, row in zip(self.biases, self.by_bias, strict=True)}
        named |= {"scale of its own": self.scaled, "power of two of its own": self.scaled_by_powers}
        lines = [f"{name:24}{row.mean():9.2f}{row.min():9.2f}" for name, row in named.items()]
        return "\n".join([f"{'SQNR in dB':24}{'mean':>9}{'worst':>9}", *lines])


def bias_sweep(
    tensors: Iterable[npt.ArrayLike], fmt: Like = "e4m3fn", biases: Iterable[int] = range(3, 16)
) -> BiasSweep:
    """Compare one exponent bias for all tensors with a scale for each.

    >>> import numpy as np
    >>> normal = np.random.default_rng(0).standard_normal(4096)
    >>> print(bias_sweep([normal * 2.0**-8, normal, normal * 2.0**8], biases=(7, 10)))
    SQNR in dB                   mean    worst
    bias 7                      21.61    16.61
    bias 10                     21.32     1.59
    scale of its own            31.47    31.47
    power of two of its own     31.49    31.49

    Parameters
    ----------
    tensors : iterable of array_like
    fmt : Format, str or dtype
    biases : iterable of int
        The format's own is `fmt.bias`; each more halves all values. Larger values saturate.

    Returns
    -------
    sweep : BiasSweep

    Source: [FP8] 4.3, figure 2.
    """
    arrays, target, tried = [as_array(tensor) for tensor in tensors], catalog.format(fmt), tuple(biases)
    if isinstance(target, Codebook):
        raise ValueError(
            f"bias_sweep takes binary formats, whose bias changes, and {target.name!r} is a codebook"
        )
    formats = [
        dataclasses.replace(target, name=f"{target.name} with bias {bias}", bias=bias) for bias in tried
    ]
    by_bias = [
        [sqnr(array, convert.quantize(array, other, saturation="finite")) for array in arrays]
        for other in formats
    ]
    scaled = [
        [sqnr(array, encode(array, target, power_of_two=powers).values(np.float64)) for array in arrays]
        for powers in (False, True)
    ]
    return BiasSweep(tried, np.array(by_bias), *map(np.array, scaled))


def sqnr(values: npt.ArrayLike, results: npt.ArrayLike) -> float:
    """Return the signal to quantisation noise in decibels, computed in float64.

    >>> round(sqnr([3.0, 4.0], [3.0, 3.5]), 6)
    20.0

    Parameters
    ----------
    values, results : array_like of float, shapes (...)
        The signal, and its quantised form.

    Returns
    -------
    decibels : float
        inf where nothing differs.

    Raises ValueError: unequal shapes.
    """
    check_labels(values, results)
    signal, found = reals(values, "values").astype(np.float64), reals(results, "results").astype(np.float64)
    if signal.shape != found.shape:
        raise ValueError(f"values and results must have one shape, not {signal.shape} and {found.shape}")
    noise, power = float(np.square(found - signal).sum()), float(np.square(signal).sum())
    with np.errstate(all="ignore"):
        return float(decibels(power, noise, 1))
