"""sweep_formats: which format serves given values best, at how many bits.

Candidates are made from parameters: splits of a width into exponent and trailing bits, integers, codebooks;
each alone with a bias of its own, under a scale of the whole tensor, or in blocks. Floor 3.
"""

from __future__ import annotations

import contextlib
import dataclasses
import itertools
import math
from collections.abc import Iterable, Iterator, Mapping
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from lowprec.arrays import lazy
from lowprec.arrays.blocks.block_stream import axes_of, grid_of
from lowprec.arrays.checks import values_operand
from lowprec.arrays.convert import decode, encode
from lowprec.arrays.measures.errors import sqnr
from lowprec.arrays.measures.format_results import Candidate, FormatSweep, Scaling, sorted_rows
from lowprec.arrays.measures.scale_search import measured
from lowprec.arrays.measures.statistics import error_report, scale_for
from lowprec.arrays.progress import Progress, reporting
from lowprec.kernels.modes import usual_arithmetic
from lowprec.spec import catalog, codebooks, families
from lowprec.spec.block import BlockFormat
from lowprec.spec.codebook import Codebook
from lowprec.spec.format import Format, Sign

__all__ = ["elements_of", "sweep_formats"]

Array = npt.NDArray[Any]
Doubles = npt.NDArray[np.float64]
Like = Format | str

#: Values from which on kernels of a candidate's own are worth their compilation.
_MANY = 1 << 22
#: Rules of scales that are powers of two; others divide.
_RULES = ("floor", "even", "rceil")
#: Powers of two beside the largest magnitude that are tried as scales of codebooks, which may be densest
#: anywhere; and biases from the first that clips nothing.
_POWERS, _BIASES = range(-24, 9), 3


#: What leaves a candidate out: some rules need what a codebook may not have, such as a short largest value.
_UNFIT: dict[bool, tuple[type[Exception], ...]] = {False: (), True: (ValueError,)}


class _Trial(NamedTuple):
    """A format, and where its scales are."""

    format: Format | BlockFormat
    scaling: Scaling


class _Noise(NamedTuple):
    """Errors of a candidate on a tensor."""

    squares: float  #: their sum; infinity where a result is not finite
    inexact: bool  #: whether there is any, also if its square is 0


def elements_of(width: int) -> tuple[Format, ...]:
    """Return what values may be encoded as in so many bits, from 2 to 8.

    >>> [fmt.name for fmt in elements_of(4)]
    ['e1m2', 'e2m1fn', 'e3m0fn', 'int4', 'nf4', 'fp4_bnb', 'iq4_nl', 'posit4_es0', 'posit4_es1', 'posit4']

    Every split of them into exponent and trailing bits, all codes finite; the integer; the named formats and
    codebooks that have a sign; posits.
    """
    made: list[Format] = []
    known = [fmt for fmt in catalog.FORMATS.values() if fmt.width == width]
    for bits in range(1, width):
        split = families.finite(f"e{bits}m{width - 1 - bits}", bits, width - 1 - bits, source="")
        made.append(next((fmt for fmt in known if fmt == split), split))
    made += [fmt for fmt in known if fmt.name == f"int{width}"]
    made += [fmt for fmt in known if fmt.sign is Sign.MAGNITUDE and fmt.exponent_bits]
    named = (codebooks.CODEBOOKS[name] for name, entry in codebooks.ENTRIES.items() if entry.width == width)
    made += [fmt for fmt in named if fmt.sign is not Sign.UNSIGNED]
    if width > 2:
        made += [codebooks.posit(width, bits) for bits in range(3)]
    return tuple(dict.fromkeys(made))


@usual_arithmetic()
def sweep_formats(
    data: npt.ArrayLike | Mapping[str, npt.ArrayLike],
    width: int | Iterable[int] = (),
    *,
    elements: Iterable[Like | BlockFormat] | None = None,
    sizes: Iterable[int] = (16, 32, 64, 128),
    scales: Iterable[Like] = ("e8m0fnu", "ue4m3", "bfloat16"),
    rules: Iterable[str] = _RULES,
    axis: int = -1,
    progress: Progress = None,
) -> FormatSweep:
    """Try formats of a width on values, alone and in blocks, and rank them by error and by bits.

    >>> import numpy as np
    >>> values = np.random.default_rng(0).normal(size=(64, 256)).astype(np.float32)
    >>> found = sweep_formats(values, 4, sizes=[32], scales=["e8m0fnu", "bfloat16"])
    >>> print(found)
    59 candidates, 16,384 values; those that none beats with as few bits:
         bits   SQNR dB  format
       4.0000     19.00  e2m1fn, bias 2
       4.0020     20.10  nf4, one scale
       4.5000     21.25  nf4 in blocks of 32, scales bfloat16 by divide
    >>> print(found.best(bits=4.3))
    nf4, one scale

    Parameters
    ----------
    data : array_like of float or integer, or mapping of str to such
        Tensors by name. NaNs and infinities take no part. Dask arrays are computed at once, by the scheduler
        that is in use.
    width : int, or several
        Bits of a code, 2 to 8.
    elements : iterable of Format, BlockFormat or str, optional
        Beside `elements_of(width)`, or alone where no width is given. Block formats are tried as they are.
    sizes : iterable of int
        Of blocks, along `axis`.
    scales : iterable of Format or str
        Of blocks. Those of 8 bits with trailing bits, such as ue4m3, come with a scale of the tensor too, as
        NVFP4 has them.
    rules : iterable of str
        For scales that are powers of two; elements that are codebooks have "project" too, and not the rules
        that they cannot have. Other scales divide.
    axis : int
        Of the blocks; tiles lie along the last two.
    progress : callable or True, optional
        Called with (done, total), in candidates times tensors; True shows a bar on stderr.

    Returns
    -------
    found : FormatSweep
        Floating-point formats alone have the bias under which nothing is clipped, or one of the next two.
        The scale of a tensor is that of `scale_for` by "mse", of codebooks in memory the best power of two if
        that is better. Overflow saturates.

    Raises
    ------
    ValueError
        No finite value but zeros; a width outside 2 to 8; neither a width nor elements; values whose squares
        leave the range of float64, above 1e154, or those of all errors, below 1e-162.

    Source: [OCPMX] 5 for blocks; docs/finding-formats.md.
    """
    lists = {"elements": elements or (), "sizes": sizes, "scales": scales, "rules": rules}
    for name, several in lists.items():
        if isinstance(several, str) or not np.iterable(several):
            raise TypeError(f"{name} takes several: give [{getattr(several, 'name', several)!r}]")
    tensors, counts, amax = _finite(data)
    trials = list(_trials(_chosen(width, elements), amax, sizes, scales, rules))
    with reporting(progress, len(trials) * len(tensors), "formats") as step:
        if any(map(lazy.is_lazy, tensors.values())):
            sums = _lazily(tensors, trials, axis)
            if step:
                step(len(trials) * len(tensors))
        else:
            sums = {}
            for name, values in tensors.items():
                exact = measured(values).astype(np.float64)
                signal = float(np.sum(exact * exact))
                for place, trial in enumerate(trials):
                    sums[place, name] = signal, _noise_of(values, exact, trial, axis)
                    if step:
                        step(1)
    rows = [
        _row(trial, {name: sums[place, name] for name in tensors}, counts, _bits(trial.format, tensors, axis))
        for place, trial in enumerate(trials)
    ]
    if not any(row.sqnr > -math.inf for row in rows) and any(math.isnan(row.sqnr) for row in rows):
        raise ValueError(
            f"squares of these values, up to {amax:.3g}, or of their errors leave the range of float64, so "
            f"candidates cannot be ranked; give values times a power of two, such as "
            f"np.ldexp(values, {-math.frexp(amax)[1]})"
        )
    return FormatSweep(sorted_rows(rows), sum(counts.values()))


def _finite(data: Any) -> tuple[dict[str, Any], dict[str, int], float]:
    """Return the tensors by name, zeros for what is not finite; how many are; and the largest magnitude."""
    given = dict(data) if isinstance(data, Mapping) else {"values": data}
    tensors, found = {}, []
    for name, each in given.items():
        lazy.check(each)
        plain = lazy.plain(each)
        values: Any = lazy.dask_of(plain) if lazy.is_dask(plain) else values_operand(plain).array
        lazy.check_sizes("formats are ranked by errors of whole tensors", values)
        values = np.atleast_1d(values)
        finite = np.isfinite(values)
        if str(name) in tensors:
            raise ValueError(f"two tensors are named {str(name)!r}; give each a name of its own")
        known = tensors[str(name)] = np.where(finite, values, 0).astype(values.dtype)
        found += [np.sum(finite), *((np.max(known), np.min(known)) if known.size else (0, 0))]
    numbers = lazy.computed(found)
    amax = max((abs(float(each)) for place, each in enumerate(numbers) if place % 3), default=0.0)
    if not amax:
        raise ValueError("sweep_formats needs a finite value other than zero; there is none in the data")
    return tensors, dict(zip(tensors, map(int, numbers[::3]), strict=True)), amax


# -- candidates -----------------------------------------------------------------------------------------


def _chosen(
    width: int | Iterable[int], elements: Iterable[Like | BlockFormat] | None
) -> list[Format | BlockFormat]:
    """Return what candidates are made from."""
    found: list[Format | BlockFormat] = []
    for each in [*width] if np.iterable(width) else [width]:
        if not hasattr(each, "__index__") or not 2 <= each <= 8:
            raise ValueError(f"width must be 2 to 8 bits, not {each!r}; name wider formats as elements=")
        found += elements_of(int(each))
    for element in elements or ():
        found.append(catalog.block_format(element) if catalog.is_block(element) else catalog.format(element))
    if not found:
        raise ValueError("sweep_formats needs a width, such as 4, or elements, such as ['nf4', 'mxfp4']")
    return list(dict.fromkeys(found))


def _trials(
    elements: list[Format | BlockFormat],
    amax: float,
    sizes: Iterable[int],
    scales: Iterable[Like],
    rules: Iterable[str],
) -> Iterator[_Trial]:
    """Yield every candidate."""
    sizes, rules, holders = list(sizes), list(rules), [catalog.format(scale) for scale in scales]
    for element in elements:
        if isinstance(element, BlockFormat):
            yield _Trial(element, "blocks")
            continue
        if not isinstance(element, Codebook) and element.exponent_bits:
            (part, power), (most, limit) = math.frexp(amax), math.frexp(element.max_finite)
            first = power - limit + (part > most)
            for power in range(first, first - _BIASES, -1):
                bias = element.bias - power
                with contextlib.suppress(ValueError):  # a bias beyond the range of float64
                    name = f"{element.name}, bias {bias}"
                    yield _Trial(dataclasses.replace(element, name=name, bias=bias), "bias")
        yield _Trial(element, "tensor")
        for size, scale in itertools.product(sizes, holders):
            book = isinstance(scale, Codebook)
            powers = not book and scale.exponent_bits > 0 and not scale.trailing_bits
            named = [*rules, *["project"] * isinstance(element, Codebook)] if powers else ["divide"]
            tensor: Any = "divide" if scale.width <= 8 and not powers and not book else "none"
            above = "" if tensor == "none" else ", and of the tensor"
            for rule in named:
                with contextlib.suppress(*_UNFIT[isinstance(element, Codebook)]):
                    block = BlockFormat(
                        name=f"{element.name} in blocks of {size}, scales {scale.name} by {rule}{above}",
                        element=element,
                        scale=scale,
                        size=size,
                        rule=rule,
                        tensor_scale=tensor,
                    )
                    yield _Trial(block, "blocks")


# -- errors ---------------------------------------------------------------------------------------------


def _bits(fmt: Format | BlockFormat, tensors: Mapping[str, Any], axis: int) -> float:
    """Return the bits of an element, and its share of the scales of blocks, some of which may be short."""
    if isinstance(fmt, Format):
        return float(fmt.width)
    shapes = [tuple(map(int, values.shape)) for values in tensors.values()]
    grids = (grid_of(each, axes_of(fmt, _axis_of(fmt, axis), len(each)), fmt.sizes) for each in shapes)
    scales = sum(map(math.prod, grids))
    each = fmt.bits_per_value - fmt.element.width  # the share of a scale, in whole blocks
    return fmt.element.width + each * math.prod(fmt.sizes) * scales / sum(map(math.prod, shapes))


def _row(
    trial: _Trial, sums: Mapping[str, tuple[float, _Noise]], counts: Mapping[str, int], bits: float
) -> Candidate:
    """Return the candidate with its errors; `bits` are those without the scales of tensors."""
    counted = sum(counts.values())
    of_tensor = isinstance(trial.format, BlockFormat) and trial.format.tensor_scale != "none"
    scaled = of_tensor or trial.scaling == "tensor"
    bits += 32 * len(sums) / counted if scaled else 0
    by_tensor = {name: sqnr(signal, *noise, counts[name]) for name, (signal, noise) in sums.items()}
    signals, noises = zip(*sums.values(), strict=True)
    squares, inexact = (sum(each) for each in zip(*noises, strict=True))
    whole = sqnr(sum(signals), squares, inexact, counted)
    return Candidate(trial.format, trial.scaling, bits, whole, by_tensor)


def _noise_of(values: Array, exact: Doubles, trial: _Trial, axis: int) -> _Noise:
    """Return the errors of a candidate."""
    backend: Any = "scalar" if values.size < _MANY else None
    fmt = trial.format
    if isinstance(fmt, BlockFormat):
        blocks = encode(values, fmt, axis=_axis_of(fmt, axis), backend=backend)
        return _noise(exact, decode(blocks, dtype=np.float64))
    tried = (_scaled(values, exact, fmt, scale, backend) for scale in _scales(exact, fmt, trial.scaling))
    return min(_noise(exact, made) for made in tried)


def _axis_of(fmt: BlockFormat, axis: int) -> int | None:
    """Return the axis that blocks lie along; of tiles None, which are the last two."""
    return axis if len(fmt.sizes) == 1 else None


def _noise(exact: Doubles, made: Doubles) -> _Noise:
    """Return the errors of results. `made` is overwritten."""
    made -= exact
    inexact = bool(made.any())
    noise = float(np.sum(np.square(made, out=made)))
    return _Noise(noise if math.isfinite(noise) else math.inf, inexact)


def _scales(exact: Doubles, fmt: Format, scaling: Scaling) -> list[float]:
    """Return the scales of a tensor that are tried."""
    if scaling == "bias":
        return [1.0]
    scales = [float(scale_for(exact, fmt, "mse"))]
    if isinstance(fmt, Codebook):
        place = math.frexp(float(np.max(np.abs(exact), initial=0)) or 1.0)[1]
        scales += [math.ldexp(1.0, place + power) for power in _POWERS]
    return scales


def _scaled(values: Array, exact: Doubles, fmt: Format, scale: float, backend: Any) -> Doubles:
    """Return values divided by a scale, encoded, decoded and multiplied by it."""
    given = values if scale == 1 else exact / scale
    codes = encode(given, fmt, saturation="finite", backend=backend)
    return np.asarray(decode(codes, fmt, dtype=np.float64)) * scale


def _lazily(tensors: Mapping[str, Any], trials: list[_Trial], axis: int) -> dict[Any, tuple[float, _Noise]]:
    """Return the sums of Dask arrays, all in one computation."""
    asked: dict[Any, Any] = {}
    for (place, trial), (name, values) in itertools.product(enumerate(trials), tensors.items()):
        options: dict[str, Any] = {"saturation": "finite"}
        if isinstance(trial.format, BlockFormat):
            options = {"axis": _axis_of(trial.format, axis)}
        elif trial.scaling == "tensor":
            options["scale"] = scale_for(values, trial.format, "mse")
        asked[place, name] = error_report(values, trial.format, **options)
    squares = [np.sum(values.astype(np.float64) ** 2) for values in tensors.values()]
    *reports, signals = lazy.computed([*asked.values(), squares])
    known = dict(zip(tensors, signals, strict=True))
    return {
        key: (
            float(known[key[1]]),
            _Noise(
                math.inf if report.lost else report.mse * report.size if report.size else 0.0,
                report.max_abs_error > 0,
            ),
        )
        for key, report in zip(asked, reports, strict=True)
    }
