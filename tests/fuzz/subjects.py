"""Functions that are asked where one verb does not do: they write files, make frames, or compare.

They return arrays, which programs that show failures print.
"""

import importlib
import io
import tempfile
import warnings
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

import lowprec as lp
from lowprec.checkpoints.converting import dequantize_checkpoint
from lowprec.checkpoints.decoding import values_of
from lowprec.checkpoints.folder import open_checkpoint
from lowprec.checkpoints.quantizing import quantize_checkpoint, target
from lowprec.checkpoints.weights import weights_of
from lowprec.verify.compare.lines import compare_lines
from lowprec.verify.compare.report import Comparison

Array = npt.NDArray[Any]

# -- comparisons ------------------------------------------------------------------------------------


def compared(*given: Any, **keywords: Any) -> Array:
    """Compare, and return the number of mismatches."""
    *operands, got = given
    report = lp.compare(operands[0] if len(operands) == 1 else tuple(operands), got, limit=2, **keywords)
    return _told(report)


def compared_lines(text: str, *given: Any) -> Array:
    """Compare lines, and return a zero."""
    return 0 * _told(compare_lines(io.StringIO(text), *given))


def compared_captures(content: Array, names: tuple[str, ...]) -> Array:
    """Compare some questions of a capture with these bytes, and return a zero."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder, "capture.npz")
        path.write_bytes(content.tobytes())
        capture = lp.read_capture(path)
    return 0 * sum(_told(capture[name].compare()) for name in names)


def _told(report: Comparison) -> Array:
    assert str(report)
    assert report.as_json()
    return np.array([report.mismatches], np.uint64)


# -- files ------------------------------------------------------------------------------------------


def saved(*arrays: Any, names: tuple[str, ...]) -> Array:
    """Save arrays and load them again, and return all that they hold."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder, "x.safetensors")
        lp.save(path, dict(zip(names, arrays, strict=True)))
        found = lp.load(path)
        assert sorted(found) == sorted(names)
        return held(*(found[name] for name in names))


def held(*arrays: Any) -> Array:
    """Return the types, shapes, elements and formats of arrays as bytes."""
    parts: list[bytes] = []
    for array in arrays:
        blocks = isinstance(array, lp.BlockArray)
        if blocks:
            parts.append(f"{array.format!r} {array.axes}".encode())
        for part in (array.codes, array.scales, array.tensor_scale) if blocks else (array,):
            if part is not None:
                each = np.asarray(part)
                native = each.astype(each.dtype.newbyteorder("="))
                parts += [f"{native.dtype} {native.shape}".encode(), native.tobytes()]
    return np.frombuffer(b"|".join(parts), np.uint8)


def file_bytes(*arrays: Any) -> Array:
    """Return the bytes of a file of arrays, named by numbers."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder, "x.safetensors")
        lp.save(path, {str(number): array for number, array in enumerate(arrays)})
        return np.frombuffer(path.read_bytes(), np.uint8)


def loaded(content: Array) -> Array:
    """Load what a file of these bytes holds, read it as a checkpoint too, and return a zero."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder, "x.safetensors")
        path.write_bytes(content.tobytes())
        lp.load(path)
        for weight in weights_of(open_checkpoint(path)):
            if weight.problem is None:
                values_of(weight)
    return np.zeros(1, np.uint64)


def checkpointed(*weights: Any, family: str, to: str) -> Array:
    """Quantise a checkpoint and return the values that it is dequantised to, of all weights in a row."""
    names = [f"m.{number}.weight" for number in range(len(weights))]
    with tempfile.TemporaryDirectory() as folder:
        source, made, back = (Path(folder, f"{name}.safetensors") for name in ("source", "made", "back"))
        lp.save(source, dict(zip(names, weights, strict=True)))
        quantize_checkpoint(open_checkpoint(source), made, target(family, to))
        dequantize_checkpoint(open_checkpoint(made), back)
        found = lp.load(back)
    return np.concatenate([np.asarray(found[name], np.float32).reshape(-1) for name in names])


def near(*weights: Any, family: str, to: str) -> Array:
    """Return where the values of a quantised checkpoint lie within a quarter of the weight's largest."""
    right = []
    found = checkpointed(*weights, family=family, to=to).astype(np.float64)
    for weight in weights:
        own, found = found[: weight.size], found[weight.size :]
        exact = np.asarray(weight, np.float64).reshape(-1)
        far = max(np.abs(exact).max(initial=0) / 4, 2.0**-126)
        right.append(np.isfinite(own) & (np.abs(own - exact) <= far))
    return np.concatenate(right)


# -- frames and labels ------------------------------------------------------------------------------


def framed(
    *columns: Any, verb: str, given: tuple[Any, ...], absent: tuple[Any, ...], sides: int = 1
) -> Array:
    """Return what a verb makes of frames, column by column; `absent` are the places of missing values."""
    pandas = importlib.import_module("pandas")
    count = len(columns) // sides
    frames = []
    for side in range(sides):
        own = {}
        for number, column in enumerate(columns[side * count : (side + 1) * count]):
            series = pandas.Series(column)
            if absent[number]:
                series = series.astype(column.dtype.name.title().replace("Ui", "UI"))
                series[list(absent[number])] = pandas.NA
            own[f"c{number}"] = series
        frames.append(pandas.DataFrame(own))
        frames[-1].index = [f"r{row}" for row in range(len(frames[-1]))]
    made = getattr(lp, verb)(*frames, *given)
    assert list(made.columns) == list(frames[0].columns)
    assert list(made.index) == list(frames[0].index)
    return numbers(*(made[name].to_numpy() for name in made))


def numbers(*columns: Any) -> Array:
    """Return the elements of columns as bits of float64, in which each number has one code."""
    wide = np.concatenate([np.asarray(column).astype(np.float64) for column in columns])
    return np.where(np.isnan(wide), np.copysign(np.nan, wide), wide).view(np.uint64)


def labelled(
    *arrays: Any, verb: str, dims: tuple[Any, ...], chunks: tuple[Any, ...], given: tuple[Any, ...],
    names: tuple[str, ...] = (), named: bool = True, rounding: str | None = None,
) -> Array:  # fmt: skip
    """Return what a verb makes of labelled arrays, or of Dask's, its dimensions in the order of their names.

    The last arrays are the keywords `names`.
    """
    xarray, dask = (importlib.import_module(name) for name in ("xarray", "dask.array"))
    values = [
        each if parts is None else dask.from_array(each, chunks=parts)
        for each, parts in zip(arrays, chunks, strict=True)
    ]
    if named:
        values = [xarray.DataArray(each, dims=own) for each, own in zip(values, dims, strict=True)]
    count = len(values) - len(names)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", dask.PerformanceWarning)
        keywords = dict(zip(names, values[count:], strict=True)) | (
            {"rounding": rounding} if rounding else {}
        )
        made = getattr(lp, verb)(*values[:count], *given, **keywords)
        if named:
            made = made.transpose(*sorted(made.dims)).data
        return np.asarray(made.compute(scheduler="synchronous") if hasattr(made, "compute") else made)
