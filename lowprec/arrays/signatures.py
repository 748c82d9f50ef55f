"""Signatures of the verbs, for type checkers: results by the format and by what is given.

An array has an array for a result, and a number a number; of an array without axes type checkers believe that
its result is an array too. A str that is no name of `names` may name blocks: `encode` to it gives Any.
Where no signature fits what is known of the arguments, the last one gives Any. Those of operations and sums
are in `result_signatures`.

At run time this changes nothing: `Returns` hands back the function.

Floor 3.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, Generic, Protocol, TypedDict, TypeVar, Unpack, overload

import numpy as np
import numpy.typing as npt

from lowprec.arrays.names import BlockName, Name8, Name16, Name32, SingleName
from lowprec.kernels.engine import Backend
from lowprec.spec.block import BlockFormat, ScaleRule
from lowprec.spec.format import Format
from lowprec.spec.profiles import Profile
from lowprec.spec.projection import Projection, Saturation
from lowprec.spec.rounding import Rounding

if TYPE_CHECKING:
    from lowprec.arrays.blocks.block import BlockArray

__all__ = [
    "AnyLike",
    "Array",
    "As",
    "Cast",
    "Classify",
    "Code",
    "Codes",
    "Compare",
    "Decode",
    "Element",
    "Encode",
    "Kind",
    "Like",
    "Number",
    "Out",
    "Quantize",
    "Returns",
    "Rounded",
    "TotalOrder",
    "Value",
    "Verb",
]

_Signature = TypeVar("_Signature")


class Returns(Generic[_Signature]):
    """A decorator that says which signature a function has for type checkers; it returns the function.

    >>> @Returns[Callable[[int], int]]()
    ... def double(number: Any) -> Any:
    ...     return 2 * number
    >>> double(4)
    8
    """

    def __call__(self, verb: Callable[..., Any]) -> _Signature:
        """Return the function itself."""
        return verb  # type: ignore[return-value]


# -- what is given -----------------------------------------------------------------------------------


class _Dask(Protocol):
    """Dask and xarray objects."""

    def __dask_graph__(self) -> Any: ...


class _Torch(Protocol):
    """Tensors of torch."""

    def requires_grad_(self, requires_grad: bool = ...) -> Any: ...


class _Pandas(Protocol):
    """Series and frames of pandas."""

    def to_xarray(self) -> Any: ...


class _Typed(Protocol):
    """Types of elements, of NumPy, ml_dtypes and torch."""

    @property
    def itemsize(self) -> int: ...


#: What has a result of its own kind.
Kind = TypeVar("Kind", bound=_Dask | _Torch | _Pandas)
Out = TypeVar("Out", bound=npt.NDArray[Any])
Element = TypeVar("Element", bound=np.generic)

Array = npt.NDArray[Any]
Number = float | np.number[Any] | np.bool
Code = int | np.integer[Any]
Codes = np.uint8 | np.uint16 | np.uint32
Value = np.float32 | np.float64
As = type[Element] | np.dtype[Element]

#: Formats that are no names: of these no more is known than that they have codes.
_Known = Format | type[Any] | _Typed
Like = Format | str | npt.DTypeLike | _Typed
AnyLike = Like | BlockFormat


class Rounded(TypedDict, total=False):
    """Keywords of conversions and operations that say nothing of the result's type."""

    rounding: Rounding | str | None
    saturation: Saturation | str | None
    projection: Projection | None
    profile: Profile | str | None
    random: npt.ArrayLike | None
    rng: int | np.random.Generator | None
    flags: Array | None
    backend: Backend | None


class _Blocks(Rounded, total=False):
    """Keywords of verbs that round, with those of block formats."""

    axis: int | tuple[int, ...] | None
    rule: ScaleRule | str | None
    tensor_scale: float | None


class _Encoded(_Blocks, total=False):
    """Keywords of `encode`, but `out`."""

    scales: npt.ArrayLike | None


# -- the verbs ---------------------------------------------------------------------------------------


class Verb(Protocol):
    """A function that has a name."""

    @property
    def __name__(self) -> str: ...


class Encode(Verb, Protocol):
    """The signature of `encode`."""

    @overload
    def __call__(self, values: npt.ArrayLike, fmt: Like, *, out: Out, **how: Unpack[_Encoded]) -> Out: ...
    @overload
    def __call__(self, values: Any, fmt: BlockName | BlockFormat, **how: Unpack[_Encoded]) -> BlockArray: ...
    @overload
    def __call__(self, values: Kind, fmt: Like, **how: Unpack[_Encoded]) -> Kind: ...
    @overload
    def __call__(self, values: Number, fmt: Name8, **how: Unpack[_Encoded]) -> np.uint8: ...
    @overload
    def __call__(self, values: Number, fmt: Name16, **how: Unpack[_Encoded]) -> np.uint16: ...
    @overload
    def __call__(self, values: Number, fmt: Name32, **how: Unpack[_Encoded]) -> np.uint32: ...
    @overload
    def __call__(self, values: Number, fmt: _Known, **how: Unpack[_Encoded]) -> Codes: ...
    @overload
    def __call__(
        self, values: npt.ArrayLike, fmt: Name8, **how: Unpack[_Encoded]
    ) -> npt.NDArray[np.uint8]: ...
    @overload
    def __call__(
        self, values: npt.ArrayLike, fmt: Name16, **how: Unpack[_Encoded]
    ) -> npt.NDArray[np.uint16]: ...
    @overload
    def __call__(
        self, values: npt.ArrayLike, fmt: Name32, **how: Unpack[_Encoded]
    ) -> npt.NDArray[np.uint32]: ...
    @overload
    def __call__(self, values: npt.ArrayLike, fmt: _Known, **how: Unpack[_Encoded]) -> npt.NDArray[Codes]: ...
    @overload
    def __call__(
        self, values: npt.ArrayLike, fmt: AnyLike, *, out: Array | None = ..., **how: Unpack[_Encoded]
    ) -> Any: ...


class Quantize(Verb, Protocol):
    """The signature of `quantize`."""

    @overload
    def __call__(self, values: npt.ArrayLike, fmt: AnyLike, *, out: Out, **how: Unpack[_Blocks]) -> Out: ...
    @overload
    def __call__(self, values: Kind, fmt: AnyLike, **how: Unpack[_Blocks]) -> Kind: ...
    @overload
    def __call__(  # type: ignore[overload-overlap]
        self, values: np.float64, fmt: AnyLike, **how: Unpack[_Blocks]
    ) -> np.float64: ...
    @overload
    def __call__(self, values: np.float32, fmt: SingleName, **how: Unpack[_Blocks]) -> np.float32: ...
    @overload
    def __call__(self, values: float, fmt: Like, **how: Unpack[_Blocks]) -> Value: ...
    @overload
    def __call__(  # type: ignore[overload-overlap]
        self, values: npt.NDArray[np.float64], fmt: AnyLike, **how: Unpack[_Blocks]
    ) -> npt.NDArray[np.float64]: ...
    @overload
    def __call__(
        self,
        values: npt.NDArray[np.float32] | npt.NDArray[np.integer[Any] | np.bool] | Sequence[Any],
        fmt: SingleName | BlockName | BlockFormat,
        **how: Unpack[_Blocks],
    ) -> npt.NDArray[np.float32]: ...
    @overload
    def __call__(
        self,
        values: npt.NDArray[np.float32] | npt.NDArray[np.integer[Any] | np.bool] | Sequence[Any],
        fmt: Like,
        **how: Unpack[_Blocks],
    ) -> npt.NDArray[Value]: ...
    @overload
    def __call__(
        self, values: npt.NDArray[np.floating[Any]], fmt: AnyLike, **how: Unpack[_Blocks]
    ) -> npt.NDArray[np.floating[Any]]: ...
    @overload
    def __call__(
        self, values: npt.ArrayLike, fmt: AnyLike, *, out: Array | None = ..., **how: Unpack[_Blocks]
    ) -> Any: ...


class _Decoding(TypedDict, total=False):
    """Keywords of `decode` that say nothing of the result's type."""

    flags: Array | None
    backend: Backend | None


class Decode(Verb, Protocol):
    """The signature of `decode`."""

    @overload
    def __call__(
        self, codes: npt.ArrayLike | BlockArray, fmt: AnyLike = ..., *, out: Out, **how: Unpack[_Decoding]
    ) -> Out: ...
    @overload
    def __call__(
        self, codes: BlockArray, fmt: BlockFormat | str | None = ..., *, dtype: None = ...,
        **how: Unpack[_Decoding],
    ) -> npt.NDArray[np.float32]: ...  # fmt: skip
    @overload
    def __call__(
        self, codes: Kind, fmt: Like, *, dtype: npt.DTypeLike = ..., **how: Unpack[_Decoding]
    ) -> Kind: ...
    @overload
    def __call__(
        self, codes: Code, fmt: Like, *, dtype: As[Element], **how: Unpack[_Decoding]
    ) -> Element: ...
    @overload
    def __call__(self, codes: Code, fmt: SingleName, **how: Unpack[_Decoding]) -> np.float32: ...
    @overload
    def __call__(self, codes: Code, fmt: Like, **how: Unpack[_Decoding]) -> Value: ...
    @overload
    def __call__(
        self,
        codes: npt.ArrayLike | BlockArray,
        fmt: AnyLike = ...,
        *,
        dtype: As[Element],
        **how: Unpack[_Decoding],
    ) -> npt.NDArray[Element]: ...
    @overload
    def __call__(
        self, codes: npt.ArrayLike, fmt: SingleName, **how: Unpack[_Decoding]
    ) -> npt.NDArray[np.float32]: ...
    @overload
    def __call__(self, codes: npt.ArrayLike, fmt: Like, **how: Unpack[_Decoding]) -> npt.NDArray[Value]: ...
    @overload
    def __call__(
        self,
        codes: npt.ArrayLike | BlockArray,
        fmt: AnyLike | None = ...,
        *,
        dtype: npt.DTypeLike | None = ...,
        out: Array | None = ...,
        **how: Unpack[_Decoding],
    ) -> Any: ...


class Cast(Verb, Protocol):
    """The signature of `cast`."""

    @overload
    def __call__(
        self, codes: npt.ArrayLike, source: Like, target: Like, *, out: Out, **how: Unpack[Rounded]
    ) -> Out: ...
    @overload
    def __call__(self, codes: Kind, source: Like, target: Like, **how: Unpack[Rounded]) -> Kind: ...
    @overload
    def __call__(self, codes: Code, source: Like, target: Name8, **how: Unpack[Rounded]) -> np.uint8: ...
    @overload
    def __call__(self, codes: Code, source: Like, target: Name16, **how: Unpack[Rounded]) -> np.uint16: ...
    @overload
    def __call__(self, codes: Code, source: Like, target: Name32, **how: Unpack[Rounded]) -> np.uint32: ...
    @overload
    def __call__(self, codes: Code, source: Like, target: Like, **how: Unpack[Rounded]) -> Codes: ...
    @overload
    def __call__(
        self, codes: npt.ArrayLike, source: Like, target: Name8, **how: Unpack[Rounded]
    ) -> npt.NDArray[np.uint8]: ...
    @overload
    def __call__(
        self, codes: npt.ArrayLike, source: Like, target: Name16, **how: Unpack[Rounded]
    ) -> npt.NDArray[np.uint16]: ...
    @overload
    def __call__(
        self, codes: npt.ArrayLike, source: Like, target: Name32, **how: Unpack[Rounded]
    ) -> npt.NDArray[np.uint32]: ...
    @overload
    def __call__(
        self, codes: npt.ArrayLike, source: Like, target: Like, **how: Unpack[Rounded]
    ) -> npt.NDArray[Codes]: ...
    @overload
    def __call__(
        self,
        codes: npt.ArrayLike,
        source: Like,
        target: Like,
        *,
        out: Array | None = ...,
        **how: Unpack[Rounded],
    ) -> Any: ...


# -- codes -------------------------------------------------------------------------------------------


class Compare(Verb, Protocol):
    """The signature of comparisons of codes."""

    @overload
    def __call__(
        self, x_codes: Kind, y_codes: Kind | npt.ArrayLike, fmt: Like, *, flags: Array | None = ...
    ) -> Kind: ...
    @overload
    def __call__(
        self, x_codes: npt.ArrayLike, y_codes: Kind, fmt: Like, *, flags: Array | None = ...
    ) -> Kind: ...
    @overload
    def __call__(self, x_codes: Code, y_codes: Code, fmt: Like, *, flags: Array | None = ...) -> np.bool: ...
    @overload
    def __call__(
        self, x_codes: npt.ArrayLike, y_codes: npt.ArrayLike, fmt: Like, *, flags: Array | None = ...
    ) -> npt.NDArray[np.bool]: ...


class Classify(Verb, Protocol):
    """The signature of `classify`."""

    @overload
    def __call__(self, codes: Kind, fmt: Like) -> Kind: ...
    @overload
    def __call__(self, codes: Code, fmt: Like) -> np.uint8: ...
    @overload
    def __call__(self, codes: npt.ArrayLike, fmt: Like) -> npt.NDArray[np.uint8]: ...


class TotalOrder(Verb, Protocol):
    """The signature of `total_order`."""

    @overload
    def __call__(self, x_codes: Kind, y_codes: Kind | npt.ArrayLike, fmt: Like) -> Kind: ...
    @overload
    def __call__(self, x_codes: npt.ArrayLike, y_codes: Kind, fmt: Like) -> Kind: ...
    @overload
    def __call__(self, x_codes: Code, y_codes: Code, fmt: Like) -> np.bool: ...
    @overload
    def __call__(self, x_codes: npt.ArrayLike, y_codes: npt.ArrayLike, fmt: Like) -> npt.NDArray[np.bool]: ...
