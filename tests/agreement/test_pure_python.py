"""The kernels are Python first: without the compiler they give the oracle's answers too."""

import pathlib

import pytest

from lowprec.spec.arith import OPERANDS
from tests.support import python

pytestmark = pytest.mark.apart

ROOT = pathlib.Path(__file__).parents[2]

BEGIN = """
import warnings
import numpy as np
import lowprec as lp
from lowprec.kernels.scalar import convert
from lowprec.spec.accumulations import accumulation
from lowprec.spec.arith import OPERANDS
from tests.agreement import test_engines
from tests.agreement.test_dots import E6M25, groups_of_16, near_one, pairs_of_rows
from tests.support import engines_agree

assert not hasattr(convert.convert_to_codebook, "py_func"), "compiled"
warnings.simplefilter("error")
np.seterr(over="ignore")  # a Python int would wrap where np.uint64 does; NumPy only warns of it
test_engines.SIZE = 60
"""

CONVERSIONS = """
print(sum(test_engines.agree_where_drawn(verb, 0, 25) for verb in ("encode", "quantize", "cast")))
"""

OPERATIONS = """
np.seterr(all="ignore")  # numbers overflow
print(sum(test_engines.agree_where_drawn(name, 0, 6) for name in OPERANDS))
x, y = np.resize(np.float32([1, -0.0, np.nan, np.inf, 3]), 300), np.resize(np.float32([0.0, 2, np.nan]), 300)
for operation in ("minimum", "maximum_number"):  # of so many numbers vectors choose
    engines_agree(getattr(lp, operation), x, y, "e4m3fn")
"""

BLOCKS = """
for number, name in enumerate(("mxfp8_e4m3", "mxfp4", "mxint8", "nvfp4", "nvfp4", "fp8_block_1x128")):
    for kind in (np.float32, np.float64):
        x = test_engines.rows(name, (3, 70), kind)
        made = engines_agree(lp.encode, x, name, axis=number % 2, backends=(None, "scalar", "oracle"))
        for dtype in (np.float32, np.float64):
            engines_agree(lp.decode, made, dtype=dtype, backends=(None, "scalar", "oracle"))
print(number)
"""

DOTS = """
np.seterr(all="ignore")
rng = np.random.default_rng(4)
for number, (name, fmt) in enumerate((
    ("fp32_fma", "binary32"), ("fp32_sequential", "e5m2"), ("bf16_sequential", "e4m3fn"),
    ("fp16_sequential", "e4m3fn"),
    ("hopper_wgmma_e4m3fn_binary32", "e4m3fn"), ("volta_mma_binary16_binary16", "binary16"),
    ("blackwell_mma_e4m3fn_binary32", "e4m3fn"), (groups_of_16(E6M25), "e4m3fn"), ("exact", "bfloat16"),
    ("fp32_pairwise", "binary16"), ("cdna2_mfma_binary16_binary32", "binary16"),
    ("cdna3_mfma_e4m3fnuz_binary32", "e4m3fnuz"), ("cdna1_mfma_bfloat16_binary32", "bfloat16"),
)):
    how, fmt = accumulation(name), lp.format(fmt)
    x, y = pairs_of_rows((fmt, fmt), 3, 19, rng)
    for near in (False, True):
        if near:
            x, y = near_one(x, fmt, rng), near_one(y, fmt, rng)
        addend = rng.normal(size=(3, 3)).astype(np.float32)
        sides = [lp.decode(codes, fmt, dtype="float64") for codes in (x, y)]
        engines_agree(lp.matmul, sides[0], sides[1].T, how, addend=addend, backends=(None, "oracle"))
print(number)
"""


#: Memory that nothing was written to holds signaling NaNs, which no operation takes in silence.
UNWRITTEN = """
import numpy as np
def empty(shape, dtype=float, order="C", *, like=None):
    made = np.zeros(shape, dtype, order)
    if made.dtype.kind in "uif" and made.flags.c_contiguous:
        made.reshape(-1).view(np.uint8)[:] = np.resize(np.array([1, 0, 0x80, 0x7F], np.uint8), made.nbytes)
    return made
np.empty = empty
"""


def interpreted(script: str) -> int:
    """Return what a script prints, run without the compiler and with warnings as errors."""
    return int(python("-W", "error", "-c", UNWRITTEN + BEGIN + script, NUMBA_DISABLE_JIT="1"))


@pytest.mark.parametrize(
    ("script", "least"),
    [(CONVERSIONS, 38), (OPERATIONS, 3 * len(OPERANDS)), (BLOCKS, 5), (DOTS, 12)],
    ids=["conversions", "operations", "blocks", "dots"],
)
def test_without_the_compiler_kernels_agree_with_the_oracle(script, least):
    """Vectors, lanes, tables and general kernels: no answer rests on what compiled integers alone do."""
    assert interpreted(script) >= least
