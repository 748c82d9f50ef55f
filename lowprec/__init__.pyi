from collections.abc import Mapping

from lowprec.arrays.block import BlockArray as BlockArray
from lowprec.arrays.checks import dtype as dtype
from lowprec.arrays.convert import cast as cast, decode as decode, encode as encode, quantize as quantize
from lowprec.arrays.random import random_bits as random_bits
from lowprec.arrays.statistics import ErrorReport as ErrorReport, error_report as error_report, scale_for as scale_for
from lowprec.arrays.threads import get_threads as get_threads, set_threads as set_threads
from lowprec.spec.block import BlockFormat as BlockFormat, ScaleRule as ScaleRule
from lowprec.spec.catalog import format as format
from lowprec.spec.format import Format as Format, Sign as Sign
from lowprec.spec.profiles import Profile as Profile
from lowprec.spec.projection import Flag as Flag, Projection as Projection, Saturation as Saturation
from lowprec.spec.rounding import Rounding as Rounding, Threshold as Threshold, stochastic as stochastic

__version__: str
block_formats: Mapping[str, BlockFormat]
formats: Mapping[str, Format]
profiles: Mapping[str, Profile]
