"""Calls as the documentation has them, each with the type that it has for mypy and at run time."""

from collections.abc import Mapping
from typing import assert_type

import numpy as np
import numpy.typing as npt

import lowprec as lp

Bytes = npt.NDArray[np.uint8]
Singles = npt.NDArray[np.float32]
Doubles = npt.NDArray[np.float64]
Codes = npt.NDArray[np.uint8 | np.uint16 | np.uint32]
Values = npt.NDArray[np.float32 | np.float64]

x: Singles = np.linspace(-2, 2, 64, dtype=np.float32).reshape(4, 16)
y: Doubles = np.linspace(-2, 2, 64).reshape(4, 16)
whole: npt.NDArray[np.int32] = np.arange(8, dtype=np.int32)

# Descriptions: names stand for objects.
mine = lp.Format(exponent_bits=3, trailing_bits=4)
assert_type(mine, lp.Format)
assert_type(lp.Format(name="mine", exponent_bits=3, trailing_bits=4, bias=5, sign="unsigned"), lp.Format)
assert_type(lp.Projection(rounding="toward_zero", saturation="finite", via=("binary32",)), lp.Projection)
assert_type(
    lp.BlockFormat(name="m", element="e2m1fn", scale="e8m0fnu", size=32, rule="rceil"), lp.BlockFormat
)
assert_type(lp.Accumulation(output="binary32", accumulator=("binary32", "toward_zero")), lp.Accumulation)
assert_type(
    lp.Accumulation(
        output="binary32",
        operands="e4m3fn",
        accumulator=lp.Window(step=32, fraction_bits=13, result=("binary32", "toward_zero")),
    ),
    lp.Accumulation,
)
assert_type(lp.format("e4m3fn"), lp.Format)
assert_type(lp.formats, Mapping[str, lp.Format])
assert_type(lp.profiles["ocp_sat"].projection("e4m3fn"), lp.Projection)
assert_type(lp.Codebook("ternary", [0.0, 1.0, float("nan"), -1.0]), lp.Codebook)

# Values to codes.
assert_type(lp.encode([0.1, 448.0, 500.0], "e4m3fn"), Bytes)
assert_type(lp.encode([500.0], "e4m3fn", saturation="finite"), Bytes)
assert_type(lp.encode(x, "bfloat16", rounding=lp.stochastic(16), rng=7), npt.NDArray[np.uint16])
assert_type(lp.encode(x, "tf32"), npt.NDArray[np.uint32])
assert_type(lp.encode(x, mine), Codes)
assert_type(lp.encode(whole, "float8_e5m2", profile="ocp_sat", rounding="toward_zero"), Bytes)
assert_type(lp.encode(x, np.float16), Codes)
assert_type(lp.encode(448.0, "e4m3fn"), np.uint8)
assert_type(lp.encode(x, "e4m3fn", out=np.empty_like(x, np.uint8)), Bytes)
assert_type(lp.cast([126, 127], "e4m3fn", "e5m2"), Bytes)
assert_type(lp.cast(126, "e4m3fn", "binary16"), np.uint16)
assert_type(lp.random_bits((4,), 7, 16), npt.NDArray[np.uint32])

# Codes to values.
assert_type(lp.decode([57, 126, 127], "e4m3fn"), Singles)
assert_type(lp.decode(lp.encode([0.3, 9.0], mine, saturation="finite"), mine), Values)
assert_type(lp.decode([57], "takum8"), Values)
assert_type(lp.decode([57], "e4m3fn", dtype=np.float64), Doubles)
assert_type(lp.decode(126, "e4m3fn"), np.float32)

# Values to values.
assert_type(lp.quantize([1.1, 2.9, 500.0], "e4m3fn", saturation="finite"), Singles)
assert_type(lp.quantize(x, "e4m3fn"), Singles)
assert_type(lp.quantize(y, "e4m3fn"), Doubles)
assert_type(lp.quantize(np.float64(1.0625), "e4m3fn"), np.float64)
assert_type(lp.quantize(x, "nvfp4"), Singles)

# Blocks.
blocks = lp.encode(x, "mxfp4", axis=1)
assert_type(blocks, lp.BlockArray)
assert_type(lp.decode(blocks), Singles)
assert_type(lp.decode(blocks, dtype=np.float64), Doubles)
assert_type(blocks[1:3], lp.BlockArray)
assert_type(blocks.shape, tuple[int, ...])
assert_type(lp.encode(x, lp.block_formats["mxfp4"], rule="rceil"), lp.BlockArray)

# Operations and functions.
assert_type(lp.add([1.0, 448.0], [0.0625, 32.0], "e4m3fn"), Singles)
assert_type(lp.fma(1.125, 1.125, -1.265625, "e4m3fn"), np.float32)
assert_type(lp.multiply(x, 0.5, "e5m2", dtype=np.uint8), Bytes)
assert_type(lp.sqrt(np.abs(y), mine), Values)
assert_type(lp.exp(x, "e4m3fn"), Singles)
assert_type(lp.atan2(1.0, 2.0, "bfloat16"), np.float32)
assert_type(lp.nextafter(x, 2.0, "e4m3fn"), Singles)
assert_type(lp.ulp(1.0, "e4m3fn"), np.float32)

# Codes among themselves.
assert_type(lp.less([0x80, 0x81], [0x00, 0x00], "e4m3fn"), npt.NDArray[np.bool])
assert_type(lp.equal(0x00, 0x80, "e4m3fn"), np.bool)
assert_type(lp.total_order([0x80], [0x00], "e4m3fn"), npt.NDArray[np.bool])
assert_type(lp.classify([0x00, 0x7F], "e4m3fn"), Bytes)

# Sums.
assert_type(lp.dot([1.0, 2.0**-24, 2.0**-24], [1.0, 1.0, 1.0], "exact"), np.float32)
assert_type(lp.dot(x, x, "fp32_fma"), np.float32 | Singles)
assert_type(lp.matmul(x, x.T, "fp32_fma"), Singles)
assert_type(lp.matmul(x, x.T, lp.accumulations["fp16_sequential"], dtype=np.uint16), npt.NDArray[np.uint16])
assert_type(lp.matmul(x, x.T, lp.Accumulation(output="binary32", accumulator="binary32")), Values)

# Measures.
assert_type(lp.scale_for(x, "int8"), np.float32)
assert_type(lp.scale_for(x, "int8", axis=0), Singles)
assert_type(lp.error_report(x, "mxfp4"), lp.ErrorReport)
assert_type(lp.compare(x, lp.encode(x, "e4m3fn"), "e4m3fn"), lp.Comparison)
