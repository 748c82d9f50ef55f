from collections.abc import Callable, Mapping

from lowprec import methods as methods, p3109 as p3109, plot as plot, testing as testing
from lowprec.arrays.arith import (
    absolute as absolute,
    add as add,
    copysign as copysign,
    divide as divide,
    fma as fma,
    logb as logb,
    maximum as maximum,
    maximum_number as maximum_number,
    minimum as minimum,
    minimum_number as minimum_number,
    multiply as multiply,
    negative as negative,
    remainder as remainder,
    round_to_integral as round_to_integral,
    scaleb as scaleb,
    sqrt as sqrt,
    subtract as subtract,
)
from lowprec.arrays.blocks.block import BlockArray as BlockArray
from lowprec.arrays.checks import dtype as dtype
from lowprec.arrays.convert import cast as cast, decode as decode, encode as encode, quantize as quantize
from lowprec.arrays.dots.dot import dot as dot, matmul as matmul
from lowprec.arrays.functions import (
    acos as acos,
    acosh as acosh,
    acospi as acospi,
    asin as asin,
    asinh as asinh,
    asinpi as asinpi,
    atan as atan,
    atan2 as atan2,
    atan2pi as atan2pi,
    atanh as atanh,
    atanpi as atanpi,
    cbrt as cbrt,
    cos as cos,
    cosh as cosh,
    cospi as cospi,
    erf as erf,
    erfc as erfc,
    exp as exp,
    exp2 as exp2,
    exp2m1 as exp2m1,
    exp10 as exp10,
    exp10m1 as exp10m1,
    expm1 as expm1,
    gelu as gelu,
    gelu_tanh as gelu_tanh,
    hypot as hypot,
    log as log,
    log1p as log1p,
    log2 as log2,
    log2p1 as log2p1,
    log10 as log10,
    log10p1 as log10p1,
    pow as pow,
    reciprocal as reciprocal,
    rsqrt as rsqrt,
    sigmoid as sigmoid,
    silu as silu,
    sin as sin,
    sinh as sinh,
    sinpi as sinpi,
    softplus as softplus,
    tan as tan,
    tanh as tanh,
    tanpi as tanpi,
)
from lowprec.arrays.measures.errors import ErrorReport as ErrorReport
from lowprec.arrays.measures.format_results import FormatSweep as FormatSweep
from lowprec.arrays.measures.format_sweep import sweep_formats as sweep_formats
from lowprec.arrays.measures.statistics import scale_for as scale_for
from lowprec.arrays.orders.comparisons import (
    equal as equal,
    greater as greater,
    greater_equal as greater_equal,
    less as less,
    less_equal as less_equal,
    not_equal as not_equal,
    total_order as total_order,
    unordered as unordered,
)
from lowprec.arrays.orders.order import (
    classify as classify,
    nextafter as nextafter,
    ulp as ulp,
)
from lowprec.arrays.random import random_bits as random_bits
from lowprec.arrays.threads import get_threads as get_threads, set_threads as set_threads
from lowprec.checkpoints.containers.saving import load as load, save as save
from lowprec.spec.accumulation import Accumulation as Accumulation, Window as Window
from lowprec.spec.arith import Class as Class
from lowprec.spec.block import BlockFormat as BlockFormat, ScaleRule as ScaleRule
from lowprec.spec.catalog import format as format
from lowprec.spec.codebook import Codebook as Codebook
from lowprec.spec.epilogue import Epilogue as Epilogue, LibraryCall as LibraryCall
from lowprec.spec.format import Format as Format, Sign as Sign
from lowprec.spec.order import Order as Order, Split as Split
from lowprec.spec.profiles import Profile as Profile
from lowprec.spec.projection import Flag as Flag, Projection as Projection, Saturation as Saturation
from lowprec.spec.rounding import Rounding as Rounding, Threshold as Threshold, stochastic as stochastic
from lowprec.spec.toml_reading import load_toml as load_toml
from lowprec.spec.toml_writing import to_toml as to_toml
from lowprec.verify.capture.reading import Capture as Capture, read_capture as read_capture
from lowprec.verify.compare.compare import compare as compare
from lowprec.verify.compare.equality import equal_quantizers as equal_quantizers
from lowprec.verify.compare.report import Comparison as Comparison
from lowprec.verify.error_report import error_report as error_report
from lowprec.verify.identify.identify import identify as identify
from lowprec.verify.identify.report import Identification as Identification

__version__: str
accumulations: Mapping[str, Accumulation]
block_formats: Mapping[str, BlockFormat]
codebooks: Mapping[str, Codebook]
formats: Mapping[str, Format]
library_calls: Mapping[str, Callable[..., LibraryCall]]
profiles: Mapping[str, Profile]
