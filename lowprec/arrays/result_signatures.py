"""Signatures of operations, functions and sums, for type checkers; see `signatures`.

Floor 3.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Any, Protocol, TypedDict, Union, Unpack, overload

import numpy as np
import numpy.typing as npt

from lowprec.arrays.names import SingleName
from lowprec.arrays.signatures import Array, As, Element, Kind, Like, Number, Out, Rounded, Value, Verb
from lowprec.kernels.engine import Backend
from lowprec.spec.accumulation import Accumulation
from lowprec.spec.epilogue import Epilogue, LibraryCall
from lowprec.spec.profiles import Profile
from lowprec.spec.projection import Projection, Saturation
from lowprec.spec.rounding import Rounding

if TYPE_CHECKING:
    from lowprec.arrays.blocks.block import BlockArray
    from lowprec.arrays.progress import Progress

__all__ = [
    "Dot",
    "FunctionOfCoordinates",
    "FunctionOfOne",
    "FunctionOfTwo",
    "MatMul",
    "NextAfter",
    "OfOne",
    "OfThree",
    "OfTwo",
    "ScaleB",
    "ScaleFor",
    "Ulp",
]

# -- keywords ----------------------------------------------------------------------------------------


class _Anyhow(Rounded, total=False):
    """All keywords of operations."""

    dtype: npt.DTypeLike | None
    out: Array | None


class _Watched(Rounded, total=False):
    """Keywords of functions that say nothing of the result's type."""

    progress: Progress


class _WatchedAnyhow(_Anyhow, total=False):
    """All keywords of functions."""

    progress: Progress


class _Summed(TypedDict, total=False):
    """Keywords of products that say nothing of the result's type."""

    addend: npt.ArrayLike | None
    scales: Any
    bias: npt.ArrayLike | None
    output_scale: npt.ArrayLike | None
    rng: int | np.random.Generator | None
    backend: Backend | None
    progress: Progress


class _SummedAnyhow(_Summed, total=False):
    """All keywords of products."""

    epilogue: Epilogue | None
    dtype: npt.DTypeLike | None
    out: Array | None


# -- operations and functions ------------------------------------------------------------------------


_Reals = npt.ArrayLike


class OfOne(Verb, Protocol):
    """The signature of operations of one number."""

    @overload
    def __call__(self, x: npt.ArrayLike, fmt: Like, *, out: Out, **how: Unpack[Rounded]) -> Out: ...
    @overload
    def __call__(self, x: Kind, fmt: Like, **how: Unpack[Rounded]) -> Kind: ...
    @overload
    def __call__(self, x: Number, fmt: Like, *, dtype: As[Element], **how: Unpack[Rounded]) -> Element: ...
    @overload
    def __call__(self, x: Number, fmt: SingleName, **how: Unpack[Rounded]) -> np.float32: ...
    @overload
    def __call__(self, x: Number, fmt: Like, **how: Unpack[Rounded]) -> Value: ...
    @overload
    def __call__(
        self, x: npt.ArrayLike, fmt: Like, *, dtype: As[Element], **how: Unpack[Rounded]
    ) -> npt.NDArray[Element]: ...
    @overload
    def __call__(
        self, x: npt.ArrayLike, fmt: SingleName, **how: Unpack[Rounded]
    ) -> npt.NDArray[np.float32]: ...
    @overload
    def __call__(self, x: npt.ArrayLike, fmt: Like, **how: Unpack[Rounded]) -> npt.NDArray[Value]: ...
    @overload
    def __call__(self, x: npt.ArrayLike, fmt: Like, **how: Unpack[_Anyhow]) -> Any: ...


class OfTwo(Verb, Protocol):
    """The signature of operations of two numbers."""

    @overload
    def __call__(
        self, x: npt.ArrayLike, y: npt.ArrayLike, fmt: Like, *, out: Out, **how: Unpack[Rounded]
    ) -> Out: ...
    @overload
    def __call__(self, x: Kind, y: Kind | npt.ArrayLike, fmt: Like, **how: Unpack[Rounded]) -> Kind: ...
    @overload
    def __call__(self, x: npt.ArrayLike, y: Kind, fmt: Like, **how: Unpack[Rounded]) -> Kind: ...
    @overload
    def __call__(
        self, x: Number, y: Number, fmt: Like, *, dtype: As[Element], **how: Unpack[Rounded]
    ) -> Element: ...
    @overload
    def __call__(self, x: Number, y: Number, fmt: SingleName, **how: Unpack[Rounded]) -> np.float32: ...
    @overload
    def __call__(self, x: Number, y: Number, fmt: Like, **how: Unpack[Rounded]) -> Value: ...
    @overload
    def __call__(
        self, x: npt.ArrayLike, y: npt.ArrayLike, fmt: Like, *, dtype: As[Element], **how: Unpack[Rounded]
    ) -> npt.NDArray[Element]: ...
    @overload
    def __call__(
        self, x: npt.ArrayLike, y: npt.ArrayLike, fmt: SingleName, **how: Unpack[Rounded]
    ) -> npt.NDArray[np.float32]: ...
    @overload
    def __call__(
        self, x: npt.ArrayLike, y: npt.ArrayLike, fmt: Like, **how: Unpack[Rounded]
    ) -> npt.NDArray[Value]: ...
    @overload
    def __call__(self, x: npt.ArrayLike, y: npt.ArrayLike, fmt: Like, **how: Unpack[_Anyhow]) -> Any: ...


class ScaleB(Verb, Protocol):
    """The signature of `scaleb`."""

    @overload
    def __call__(
        self, x: npt.ArrayLike, n: npt.ArrayLike, fmt: Like, *, out: Out, **how: Unpack[Rounded]
    ) -> Out: ...
    @overload
    def __call__(self, x: Kind, n: Kind | npt.ArrayLike, fmt: Like, **how: Unpack[Rounded]) -> Kind: ...
    @overload
    def __call__(self, x: npt.ArrayLike, n: Kind, fmt: Like, **how: Unpack[Rounded]) -> Kind: ...
    @overload
    def __call__(
        self, x: Number, n: Number, fmt: Like, *, dtype: As[Element], **how: Unpack[Rounded]
    ) -> Element: ...
    @overload
    def __call__(self, x: Number, n: Number, fmt: SingleName, **how: Unpack[Rounded]) -> np.float32: ...
    @overload
    def __call__(self, x: Number, n: Number, fmt: Like, **how: Unpack[Rounded]) -> Value: ...
    @overload
    def __call__(
        self, x: npt.ArrayLike, n: npt.ArrayLike, fmt: Like, *, dtype: As[Element], **how: Unpack[Rounded]
    ) -> npt.NDArray[Element]: ...
    @overload
    def __call__(
        self, x: npt.ArrayLike, n: npt.ArrayLike, fmt: SingleName, **how: Unpack[Rounded]
    ) -> npt.NDArray[np.float32]: ...
    @overload
    def __call__(
        self, x: npt.ArrayLike, n: npt.ArrayLike, fmt: Like, **how: Unpack[Rounded]
    ) -> npt.NDArray[Value]: ...
    @overload
    def __call__(self, x: npt.ArrayLike, n: npt.ArrayLike, fmt: Like, **how: Unpack[_Anyhow]) -> Any: ...


class OfThree(Verb, Protocol):
    """The signature of operations of three numbers."""

    @overload
    def __call__(
        self,
        x: npt.ArrayLike,
        y: npt.ArrayLike,
        z: npt.ArrayLike,
        fmt: Like,
        *,
        out: Out,
        **how: Unpack[Rounded],
    ) -> Out: ...
    @overload
    def __call__(
        self,
        x: Kind,
        y: Kind | npt.ArrayLike,
        z: Kind | npt.ArrayLike,
        fmt: Like,
        **how: Unpack[Rounded],
    ) -> Kind: ...
    @overload
    def __call__(
        self, x: npt.ArrayLike, y: Kind, z: Kind | npt.ArrayLike, fmt: Like, **how: Unpack[Rounded]
    ) -> Kind: ...
    @overload
    def __call__(
        self, x: npt.ArrayLike, y: npt.ArrayLike, z: Kind, fmt: Like, **how: Unpack[Rounded]
    ) -> Kind: ...
    @overload
    def __call__(
        self, x: Number, y: Number, z: Number, fmt: Like, *, dtype: As[Element], **how: Unpack[Rounded]
    ) -> Element: ...
    @overload
    def __call__(
        self, x: Number, y: Number, z: Number, fmt: SingleName, **how: Unpack[Rounded]
    ) -> np.float32: ...
    @overload
    def __call__(self, x: Number, y: Number, z: Number, fmt: Like, **how: Unpack[Rounded]) -> Value: ...
    @overload
    def __call__(
        self,
        x: npt.ArrayLike,
        y: npt.ArrayLike,
        z: npt.ArrayLike,
        fmt: Like,
        *,
        dtype: As[Element],
        **how: Unpack[Rounded],
    ) -> npt.NDArray[Element]: ...
    @overload
    def __call__(
        self, x: npt.ArrayLike, y: npt.ArrayLike, z: npt.ArrayLike, fmt: SingleName, **how: Unpack[Rounded]
    ) -> npt.NDArray[np.float32]: ...
    @overload
    def __call__(
        self, x: npt.ArrayLike, y: npt.ArrayLike, z: npt.ArrayLike, fmt: Like, **how: Unpack[Rounded]
    ) -> npt.NDArray[Value]: ...
    @overload
    def __call__(
        self, x: npt.ArrayLike, y: npt.ArrayLike, z: npt.ArrayLike, fmt: Like, **how: Unpack[_Anyhow]
    ) -> Any: ...


class FunctionOfOne(Verb, Protocol):
    """The signature of functions of one number."""

    @overload
    def __call__(self, x: npt.ArrayLike, fmt: Like, *, out: Out, **how: Unpack[_Watched]) -> Out: ...
    @overload
    def __call__(self, x: Kind, fmt: Like, **how: Unpack[_Watched]) -> Kind: ...
    @overload
    def __call__(self, x: Number, fmt: Like, *, dtype: As[Element], **how: Unpack[_Watched]) -> Element: ...
    @overload
    def __call__(self, x: Number, fmt: SingleName, **how: Unpack[_Watched]) -> np.float32: ...
    @overload
    def __call__(self, x: Number, fmt: Like, **how: Unpack[_Watched]) -> Value: ...
    @overload
    def __call__(
        self, x: npt.ArrayLike, fmt: Like, *, dtype: As[Element], **how: Unpack[_Watched]
    ) -> npt.NDArray[Element]: ...
    @overload
    def __call__(
        self, x: npt.ArrayLike, fmt: SingleName, **how: Unpack[_Watched]
    ) -> npt.NDArray[np.float32]: ...
    @overload
    def __call__(self, x: npt.ArrayLike, fmt: Like, **how: Unpack[_Watched]) -> npt.NDArray[Value]: ...
    @overload
    def __call__(self, x: npt.ArrayLike, fmt: Like, **how: Unpack[_WatchedAnyhow]) -> Any: ...


class FunctionOfTwo(Verb, Protocol):
    """The signature of functions of two numbers."""

    @overload
    def __call__(self, x: _Reals, y: _Reals, fmt: Like, *, out: Out, **how: Unpack[_Watched]) -> Out: ...
    @overload
    def __call__(self, x: Kind, y: Kind | _Reals, fmt: Like, **how: Unpack[_Watched]) -> Kind: ...
    @overload
    def __call__(self, x: _Reals, y: Kind, fmt: Like, **how: Unpack[_Watched]) -> Kind: ...
    @overload
    def __call__(
        self, x: Number, y: Number, fmt: Like, *, dtype: As[Element], **how: Unpack[_Watched]
    ) -> Element: ...
    @overload
    def __call__(self, x: Number, y: Number, fmt: SingleName, **how: Unpack[_Watched]) -> np.float32: ...
    @overload
    def __call__(self, x: Number, y: Number, fmt: Like, **how: Unpack[_Watched]) -> Value: ...
    @overload
    def __call__(
        self, x: _Reals, y: _Reals, fmt: Like, *, dtype: As[Element], **how: Unpack[_Watched]
    ) -> npt.NDArray[Element]: ...
    @overload
    def __call__(
        self, x: _Reals, y: _Reals, fmt: SingleName, **how: Unpack[_Watched]
    ) -> npt.NDArray[np.float32]: ...
    @overload
    def __call__(self, x: _Reals, y: _Reals, fmt: Like, **how: Unpack[_Watched]) -> npt.NDArray[Value]: ...
    @overload
    def __call__(self, x: _Reals, y: _Reals, fmt: Like, **how: Unpack[_WatchedAnyhow]) -> Any: ...


class FunctionOfCoordinates(Verb, Protocol):
    """The signature of functions of the coordinates of a point, the second first."""

    @overload
    def __call__(self, y: _Reals, x: _Reals, fmt: Like, *, out: Out, **how: Unpack[_Watched]) -> Out: ...
    @overload
    def __call__(self, y: Kind, x: Kind | _Reals, fmt: Like, **how: Unpack[_Watched]) -> Kind: ...
    @overload
    def __call__(self, y: _Reals, x: Kind, fmt: Like, **how: Unpack[_Watched]) -> Kind: ...
    @overload
    def __call__(
        self, y: Number, x: Number, fmt: Like, *, dtype: As[Element], **how: Unpack[_Watched]
    ) -> Element: ...
    @overload
    def __call__(self, y: Number, x: Number, fmt: SingleName, **how: Unpack[_Watched]) -> np.float32: ...
    @overload
    def __call__(self, y: Number, x: Number, fmt: Like, **how: Unpack[_Watched]) -> Value: ...
    @overload
    def __call__(
        self, y: _Reals, x: _Reals, fmt: Like, *, dtype: As[Element], **how: Unpack[_Watched]
    ) -> npt.NDArray[Element]: ...
    @overload
    def __call__(
        self, y: _Reals, x: _Reals, fmt: SingleName, **how: Unpack[_Watched]
    ) -> npt.NDArray[np.float32]: ...
    @overload
    def __call__(self, y: _Reals, x: _Reals, fmt: Like, **how: Unpack[_Watched]) -> npt.NDArray[Value]: ...
    @overload
    def __call__(self, y: _Reals, x: _Reals, fmt: Like, **how: Unpack[_WatchedAnyhow]) -> Any: ...


class Ulp(Verb, Protocol):
    """The signature of `ulp`."""

    @overload
    def __call__(self, x: Kind, fmt: Like) -> Kind: ...
    @overload
    def __call__(self, x: Number, fmt: SingleName) -> np.float32: ...
    @overload
    def __call__(self, x: Number, fmt: Like) -> Value: ...
    @overload
    def __call__(self, x: npt.ArrayLike, fmt: SingleName) -> npt.NDArray[np.float32]: ...
    @overload
    def __call__(self, x: npt.ArrayLike, fmt: Like) -> npt.NDArray[Value]: ...


class NextAfter(Verb, Protocol):
    """The signature of `nextafter`."""

    @overload
    def __call__(self, x: Kind, y: Kind | npt.ArrayLike, fmt: Like) -> Kind: ...
    @overload
    def __call__(self, x: npt.ArrayLike, y: Kind, fmt: Like) -> Kind: ...
    @overload
    def __call__(self, x: Number, y: Number, fmt: SingleName) -> np.float32: ...
    @overload
    def __call__(self, x: Number, y: Number, fmt: Like) -> Value: ...
    @overload
    def __call__(self, x: npt.ArrayLike, y: npt.ArrayLike, fmt: SingleName) -> npt.NDArray[np.float32]: ...
    @overload
    def __call__(self, x: npt.ArrayLike, y: npt.ArrayLike, fmt: Like) -> npt.NDArray[Value]: ...


# -- sums --------------------------------------------------------------------------------------------

_Accumulated = Accumulation | LibraryCall | str
_Factors = Union[npt.ArrayLike, "BlockArray"]
_Row = Sequence[float]


class Dot(Verb, Protocol):
    """The signature of `dot`: arrays may be rows, whose product is a number."""

    @overload
    def __call__(
        self, x: _Factors, y: _Factors, accumulation: _Accumulated, *, out: Out,
        epilogue: Epilogue | None = ..., **how: Unpack[_Summed],
    ) -> Out: ...  # fmt: skip
    @overload
    def __call__(
        self, x: Kind, y: Kind | _Factors, accumulation: _Accumulated, **how: Unpack[_SummedAnyhow]
    ) -> Kind: ...
    @overload
    def __call__(
        self, x: _Factors, y: Kind, accumulation: _Accumulated, **how: Unpack[_SummedAnyhow]
    ) -> Kind: ...
    @overload
    def __call__(self, x: _Row, y: _Row, accumulation: str, **how: Unpack[_Summed]) -> np.float32: ...
    @overload
    def __call__(
        self, x: _Factors, y: _Factors, accumulation: str, **how: Unpack[_Summed]
    ) -> np.float32 | npt.NDArray[np.float32]: ...
    @overload
    def __call__(
        self, x: _Factors, y: _Factors, accumulation: _Accumulated, *, dtype: As[Element],
        epilogue: Epilogue | None = ..., **how: Unpack[_Summed],
    ) -> Element | npt.NDArray[Element]: ...  # fmt: skip
    @overload
    def __call__(
        self, x: _Factors, y: _Factors, accumulation: _Accumulated, *, epilogue: Epilogue | None = ...,
        **how: Unpack[_Summed],
    ) -> Value | npt.NDArray[Value]: ...  # fmt: skip
    @overload
    def __call__(
        self, x: _Factors, y: _Factors, accumulation: _Accumulated, **how: Unpack[_SummedAnyhow]
    ) -> Any: ...


class MatMul(Verb, Protocol):
    """The signature of `matmul`."""

    @overload
    def __call__(
        self, x: _Factors, y: _Factors, accumulation: _Accumulated, *, out: Out,
        epilogue: Epilogue | None = ..., **how: Unpack[_Summed],
    ) -> Out: ...  # fmt: skip
    @overload
    def __call__(
        self, x: Kind, y: Kind | _Factors, accumulation: _Accumulated, **how: Unpack[_SummedAnyhow]
    ) -> Kind: ...
    @overload
    def __call__(
        self, x: _Factors, y: Kind, accumulation: _Accumulated, **how: Unpack[_SummedAnyhow]
    ) -> Kind: ...
    @overload
    def __call__(
        self, x: _Factors, y: _Factors, accumulation: str, **how: Unpack[_Summed]
    ) -> npt.NDArray[np.float32]: ...
    @overload
    def __call__(
        self, x: _Factors, y: _Factors, accumulation: _Accumulated, *, dtype: As[Element],
        epilogue: Epilogue | None = ..., **how: Unpack[_Summed],
    ) -> npt.NDArray[Element]: ...  # fmt: skip
    @overload
    def __call__(
        self, x: _Factors, y: _Factors, accumulation: _Accumulated, *, epilogue: Epilogue | None = ...,
        **how: Unpack[_Summed],
    ) -> npt.NDArray[Value]: ...  # fmt: skip
    @overload
    def __call__(
        self, x: _Factors, y: _Factors, accumulation: _Accumulated, **how: Unpack[_SummedAnyhow]
    ) -> Any: ...


class _Scaled(TypedDict, total=False):
    """Keywords of `scale_for` that say nothing of the result's type."""

    percentile: float
    power_of_two: bool
    rounding: Rounding | str | None
    saturation: Saturation | str | None
    projection: Projection | None
    profile: Profile | str | None
    progress: Progress


class ScaleFor(Verb, Protocol):
    """The signature of `scale_for`."""

    @overload
    def __call__(
        self, values: Kind, fmt: Like, method: str | None = ..., axis: Iterable[int] | int | None = ...,
        **how: Unpack[_Scaled],
    ) -> Kind: ...  # fmt: skip
    @overload
    def __call__(
        self, values: npt.ArrayLike, fmt: Like, method: str | None = ..., axis: None = ...,
        **how: Unpack[_Scaled],
    ) -> np.float32: ...  # fmt: skip
    @overload
    def __call__(
        self, values: npt.ArrayLike, fmt: Like, method: str | None = ..., *, axis: Iterable[int] | int,
        **how: Unpack[_Scaled],
    ) -> npt.NDArray[np.float32]: ...  # fmt: skip
    @overload
    def __call__(
        self, values: npt.ArrayLike, fmt: Like, method: str | None, axis: Iterable[int] | int,
        **how: Unpack[_Scaled],
    ) -> npt.NDArray[np.float32]: ...  # fmt: skip
    @overload
    def __call__(
        self, values: npt.ArrayLike, fmt: Like, method: str | None = ...,
        axis: Iterable[int] | int | None = ..., **how: Unpack[_Scaled],
    ) -> Any: ...  # fmt: skip
