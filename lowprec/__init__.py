"""lowprec: the golden reference for low-precision number formats, bit for bit.

A code is the integer that stands for a number, its value, in a format. help(lowprec.encode) says how a verb
is called; `dir(lowprec)` has all names.

    encode decode quantize cast          between values and codes, of formats and of block formats
    add multiply fma sqrt ... exp sin    operations and functions of values, rounded once
    dot matmul                           sums as hardware and libraries make them: `accumulations`
    equal less classify total_order ...  of codes; nextafter and ulp of values
    scale_for error_report sweep_formats scales, what a format costs, which format fits
    compare identify read_capture        why results differ, and how unknown hardware computes
    equal_quantizers                     whether two quantisers give the same bits
    save load load_toml to_toml          arrays, and descriptions of formats, in files

    formats codebooks block_formats      what there is, by name: print one of them
    profiles accumulations library_calls
    Format Codebook BlockFormat          to describe what has no name; a name stands for an object everywhere
    Projection Rounding Accumulation

    testing methods p3109 plot           modules: laws to test with, published methods, the P3109 draft, plots

Names are imported when they are first used, so that `import lowprec` needs neither NumPy nor numba.
"""

from __future__ import annotations

import importlib

from lowprec import interrupts
from lowprec.graphs import leave_graphs as _leave_graphs
from lowprec.spec.arith import OPERANDS as _OPERATIONS
from lowprec.spec.functions import FUNCTIONS as _FUNCTIONS

__version__ = "0.2.0"

_HOMES = {
    "Accumulation": "lowprec.spec.accumulation",
    "BlockArray": "lowprec.arrays.blocks.block",
    "BlockFormat": "lowprec.spec.block",
    "ErrorReport": "lowprec.arrays.measures.errors",
    "Flag": "lowprec.spec.projection",
    "Format": "lowprec.spec.format",
    "Profile": "lowprec.spec.profiles",
    "Projection": "lowprec.spec.projection",
    "Rounding": "lowprec.spec.rounding",
    "Saturation": "lowprec.spec.projection",
    "ScaleRule": "lowprec.spec.block",
    "Sign": "lowprec.spec.format",
    "Threshold": "lowprec.spec.rounding",
    "block_formats": "lowprec.spec.catalog",
    "format": "lowprec.spec.catalog",
    "formats": "lowprec.spec.catalog",
    "get_threads": "lowprec.arrays.threads",
    "set_threads": "lowprec.arrays.threads",
    "Comparison": "lowprec.verify.compare.report",
    "equal_quantizers": "lowprec.verify.compare.equality",
    "cast": "lowprec.arrays.convert",
    "compare": "lowprec.verify.compare.compare",
    "Capture": "lowprec.verify.capture.reading",
    "read_capture": "lowprec.verify.capture.reading",
    "Identification": "lowprec.verify.identify.report",
    "identify": "lowprec.verify.identify.identify",
    "decode": "lowprec.arrays.convert",
    "encode": "lowprec.arrays.convert",
    "profiles": "lowprec.spec.profiles",
    "quantize": "lowprec.arrays.convert",
    "random_bits": "lowprec.arrays.random",
    "stochastic": "lowprec.spec.rounding",
    "load": "lowprec.checkpoints.containers.saving",
    "save": "lowprec.checkpoints.containers.saving",
    "load_toml": "lowprec.spec.toml_reading",
    "to_toml": "lowprec.spec.toml_writing",
    "Order": "lowprec.spec.order",
    "Split": "lowprec.spec.order",
    "Epilogue": "lowprec.spec.epilogue",
    "LibraryCall": "lowprec.spec.epilogue",
    "library_calls": "lowprec.spec.library_calls",
    "Window": "lowprec.spec.accumulation",
    "accumulations": "lowprec.spec.accumulations",
    "dot": "lowprec.arrays.dots.dot",
    "matmul": "lowprec.arrays.dots.dot",
    "dtype": "lowprec.arrays.checks",
    "error_report": "lowprec.verify.error_report",
    "scale_for": "lowprec.arrays.measures.statistics",
    "sweep_formats": "lowprec.arrays.measures.format_sweep",
    "FormatSweep": "lowprec.arrays.measures.format_results",
    "Class": "lowprec.spec.arith",
    "Codebook": "lowprec.spec.codebook",
    "codebooks": "lowprec.spec.codebooks",
    **dict.fromkeys(_OPERATIONS, "lowprec.arrays.arith"),
    **dict.fromkeys(_FUNCTIONS, "lowprec.arrays.functions"),
    **dict.fromkeys(
        ("equal", "greater", "greater_equal", "less", "less_equal", "not_equal", "total_order", "unordered"),
        "lowprec.arrays.orders.comparisons",
    ),
    **dict.fromkeys(
        ("classify", "nextafter", "ulp"),
        "lowprec.arrays.orders.order",
    ),
}

#: Names of the mappings behind the public ones.
_MAPPINGS = {
    "accumulations": "ACCUMULATIONS",
    "block_formats": "BLOCK_FORMATS",
    "codebooks": "CODEBOOKS",
    "formats": "FORMATS",
    "library_calls": "LIBRARY_CALLS",
    "profiles": "PROFILES",
}

#: Modules that are reached as attributes of the package.
_MODULES = ("methods", "p3109", "plot", "testing")

# There is no __all__: help() would then print every name's own help, and a star import would hide Python's
# format and pow.


def __getattr__(name: str) -> object:
    _leave_graphs()
    if name in _MODULES:
        with interrupts.held():
            return importlib.import_module(f"lowprec.{name}")
    if name not in _HOMES:
        raise AttributeError(f"module 'lowprec' has no attribute {name!r}")
    with interrupts.held():
        home = importlib.import_module(_HOMES[name])
    value = getattr(home, _MAPPINGS.get(name, name))
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted(["__version__", *_HOMES, *_MODULES])
