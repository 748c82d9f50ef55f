"""Frameworks that convert numbers, each as a small adapter. None is trusted: all are under test.

Floor 5.
"""

from __future__ import annotations

import functools
import importlib.metadata
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any

import ml_dtypes
import numpy as np
import numpy.typing as npt

from lowprec.arrays.checks import code_dtype, dtype
from lowprec.spec import catalog
from lowprec.spec.format import Format
from lowprec.tools.cases import SOURCES

__all__ = ["FRAMEWORKS", "Framework"]

Array = npt.NDArray[Any]

_TORCH = {
    catalog.BINARY32: "float32",
    catalog.BINARY16: "float16",
    catalog.BFLOAT16: "bfloat16",
    catalog.E5M2: "float8_e5m2",
    catalog.E4M3FN: "float8_e4m3fn",
    catalog.E4M3FNUZ: "float8_e4m3fnuz",
    catalog.E5M2FNUZ: "float8_e5m2fnuz",
    catalog.E8M0FNU: "float8_e8m0fnu",
}

#: jax.numpy also names 6-bit types, but XLA has them on no CPU: "Invalid XLA PrimitiveType".
_JAX = (
    catalog.BINARY32,
    catalog.BINARY16,
    catalog.BFLOAT16,
    catalog.E5M2,
    catalog.E4M3FN,
    catalog.FLOAT8_E4M3,
    catalog.E3M4,
    catalog.E4M3FNUZ,
    catalog.E5M2FNUZ,
    catalog.E4M3B11FNUZ,
    catalog.E8M0FNU,
    catalog.E2M1FN,
)

_ONNX = {
    catalog.BINARY32: "FLOAT",
    catalog.BINARY16: "FLOAT16",
    catalog.BFLOAT16: "BFLOAT16",
    catalog.E5M2: "FLOAT8E5M2",
    catalog.E4M3FN: "FLOAT8E4M3FN",
    catalog.E4M3FNUZ: "FLOAT8E4M3FNUZ",
    catalog.E5M2FNUZ: "FLOAT8E5M2FNUZ",
    catalog.E8M0FNU: "FLOAT8E8M0",
    catalog.E2M1FN: "FLOAT4E2M1",
}


@dataclass(frozen=True)
class Framework:
    """A library whose casts can be run: which types it reads, which formats it makes, and how.

    Parameters
    ----------
    name : str
        As on the command line.
    package : str
        The distribution to install.
    install : str
        What to type to have it.
    sources : tuple of str
        Names in `cases.SOURCES`.
    targets : function
        Gives the formats; called where the package is installed.
    cast : function
        Values of a source type and a format to the format's codes.
    """

    name: str
    package: str
    install: str
    sources: tuple[str, ...]
    targets: Callable[[], tuple[Format, ...]]
    cast: Callable[[Array, Format], Array]

    @property
    def version(self) -> str | None:
        """The installed version, or None."""
        try:
            return importlib.metadata.version(self.package)
        except importlib.metadata.PackageNotFoundError:
            return None


def _ml_dtypes_targets() -> tuple[Format, ...]:
    # Casts to its integers truncate and are undefined out of range, as NumPy's own are: no projections.
    floats = (fmt for fmt in catalog.FORMATS.values() if fmt.exponent_bits)
    return tuple(fmt for fmt in floats if hasattr(ml_dtypes, catalog.ml_dtypes_name(fmt) or ""))


def _astype(values: Array, fmt: Format) -> Array:
    with np.errstate(all="ignore"):
        return values.astype(dtype(fmt)).view(code_dtype(fmt))


def _torch_type(name: str) -> Any:
    import torch

    return getattr(torch, name, None)


def _torch_targets() -> tuple[Format, ...]:
    # Casts to float4_e2m1fn_x2 and to the 1- to 7-bit integers raise NotImplementedError.
    return tuple(fmt for fmt, name in _TORCH.items() if _torch_type(name) is not None)


def _torch_cast(values: Array, fmt: Format) -> Array:
    import torch

    if values.dtype == ml_dtypes.bfloat16:  # NumPy's own bridge knows no bfloat16
        given = torch.from_numpy(values.view(np.int16)).view(torch.bfloat16)
    else:
        given = torch.from_numpy(values)
    codes = code_dtype(fmt)
    made = given.to(_torch_type(_TORCH[fmt])).view(getattr(torch, f"int{8 * codes.itemsize}"))
    return np.asarray(made.numpy().view(codes))


def _jax_targets() -> tuple[Format, ...]:
    import jax.numpy as jnp

    return tuple(fmt for fmt in _JAX if hasattr(jnp, dtype(fmt).name))


def _jax_cast(values: Array, fmt: Format) -> Array:
    import jax

    # 64-bit operands are narrowed to 32 bits without this; as a context it leaves the process as it was.
    with jax.enable_x64(True), jax.default_device(jax.devices("cpu")[0]):
        made = jax.numpy.asarray(values).astype(dtype(fmt))
    return np.asarray(made).view(code_dtype(fmt))


def _onnx_targets() -> tuple[Format, ...]:
    import onnx

    return tuple(fmt for fmt, name in _ONNX.items() if hasattr(onnx.TensorProto, name))


def _onnx_cast(values: Array, fmt: Format, *, saturate: bool) -> Array:
    import onnx
    from onnx import TensorProto, helper
    from onnx.reference import ReferenceEvaluator

    goal = getattr(TensorProto, _ONNX[fmt])
    node = helper.make_node("Cast", ["x"], ["y"], to=goal, saturate=int(saturate))
    graph = helper.make_graph(
        [node],
        "cast",
        [helper.make_tensor_value_info("x", helper.np_dtype_to_tensor_dtype(values.dtype), [None])],
        [helper.make_tensor_value_info("y", goal, [None])],
    )
    opset = helper.make_opsetid("", onnx.defs.onnx_opset_version())
    with np.errstate(all="ignore"):
        (made,) = ReferenceEvaluator(helper.make_model(graph, opset_imports=[opset])).run(None, {"x": values})
    return np.asarray(made).view(code_dtype(fmt))


def _by_name(frameworks: Iterable[Framework]) -> dict[str, Framework]:
    return {framework.name: framework for framework in frameworks}


#: Every framework that there is an adapter for, by name.
FRAMEWORKS = _by_name(
    [
        Framework(
            name="ml_dtypes",
            package="ml_dtypes",
            install="pip install ml_dtypes",
            sources=tuple(SOURCES),
            targets=_ml_dtypes_targets,
            cast=_astype,
        ),
        Framework(
            name="numpy",
            package="numpy",
            install="pip install numpy",
            sources=("float32", "float64", "int32", "int64"),
            targets=lambda: (catalog.BINARY16, catalog.BINARY32),
            cast=_astype,
        ),
        Framework(
            name="torch",
            package="torch",
            install='pip install "lowprec[torch]"',
            sources=tuple(SOURCES),
            targets=_torch_targets,
            cast=_torch_cast,
        ),
        Framework(
            name="jax",
            package="jax",
            install='pip install "lowprec[jax]"',
            sources=tuple(SOURCES),
            targets=_jax_targets,
            cast=_jax_cast,
        ),
        Framework(
            name="onnx",
            package="onnx",
            install='pip install "lowprec[onnx]"',
            sources=tuple(SOURCES),
            targets=_onnx_targets,
            cast=functools.partial(_onnx_cast, saturate=True),
        ),
        Framework(
            name="onnx_nosat",
            package="onnx",
            install='pip install "lowprec[onnx]"',
            sources=tuple(SOURCES),
            targets=_onnx_targets,
            cast=functools.partial(_onnx_cast, saturate=False),
        ),
    ]
)
