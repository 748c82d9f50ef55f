"""Block profiles: each makes the scales and the codes that its stack makes.

torchao and gfloat are run. Transformer Engine's and ModelOpt's quantisers need GPUs or CUDA builds;
their binary32 steps are written out here, from their sources. Where a stack does what no block
format says, a test says where, and what it does instead; everywhere else all codes are equal.
"""

import functools
from types import SimpleNamespace
from typing import Any

import ml_dtypes
import numpy as np
import pytest

import lowprec as lp
from lowprec.spec import catalog
from lowprec.spec.block import BlockFormat
from tests import programs

#: Each program has kernels of its own.
pytestmark = pytest.mark.apart

Array = np.ndarray[Any, Any]

MXFP = (catalog.MXFP8_E4M3, catalog.MXFP8_E5M2, catalog.MXFP6_E2M3, catalog.MXFP6_E3M2, catalog.MXFP4)
MX = (*MXFP, catalog.MXINT8)
MODES = ("floor", "ceil", "even", "rceil")

f32 = np.float32
LARGEST = np.finfo(f32).max
NAN, INF = f32(np.nan), f32(np.inf)


@pytest.fixture(scope="module")
def torchao():
    """Of torchao 0.18: blocks of 32 and of 16, as scale codes and element codes."""
    programs.need_package("torchao", "0.18")
    import torch
    from torchao.prototype.mx_formats.config import ScaleCalculationMode
    from torchao.prototype.mx_formats.mx_tensor import to_mx
    from torchao.prototype.mx_formats.nvfp4_tensor import nvfp4_quantize, per_tensor_amax_to_scale

    elements = {
        catalog.MXFP8_E4M3: torch.float8_e4m3fn,
        catalog.MXFP8_E5M2: torch.float8_e5m2,
        catalog.MXFP6_E2M3: "fp6_e2m3",
        catalog.MXFP6_E3M2: "fp6_e3m2",
        catalog.MXFP4: torch.float4_e2m1fn_x2,
    }

    def tensor(values):
        if values.dtype == ml_dtypes.bfloat16:
            return torch.from_numpy(values.view(np.int16)).view(torch.bfloat16)
        return torch.from_numpy(values)

    def parts(scales, codes, shape, nibbles):
        scales, codes = scales.view(torch.uint8).numpy(), codes.view(torch.uint8).numpy()
        codes = np.stack([codes & 15, codes >> 4], axis=-1) if nibbles else codes
        return scales.reshape(shape[0], -1), codes.reshape(shape)

    def mx(values, fmt, mode):
        scales, codes = to_mx(tensor(values), elements[fmt], 32, ScaleCalculationMode(mode))
        return parts(scales, codes, values.shape, fmt is catalog.MXFP4)

    def nvfp4(values, scale=None):
        scales, codes = nvfp4_quantize(tensor(values), 16, None if scale is None else torch.tensor(scale))
        return parts(scales, codes, values.shape, True)

    def tensor_scale(values):
        return per_tensor_amax_to_scale(torch.tensor(np.abs(values).max())).numpy()[()]

    return SimpleNamespace(mx=mx, nvfp4=nvfp4, tensor_scale=tensor_scale)


def _assert_same_blocks(blocks: lp.BlockArray, scales: Array, codes: Array, values: Array) -> None:
    """Scales and codes are equal, or an AssertionError shows the first block that differs."""
    size = blocks.format.sizes[0]
    wrong = (blocks.scales != scales) | (blocks.codes != codes).reshape(*scales.shape, size).any(axis=-1)
    if not wrong.any():
        return
    row, column = first = tuple(int(i) for i in np.argwhere(wrong)[0])
    lanes = np.s_[row, column * size : (column + 1) * size]
    raise AssertionError(
        f"{int(wrong.sum()):,} of {wrong.size:,} blocks of {blocks.format.name} differ, the first is {first} "
        f"of amax {float(np.abs(values[lanes]).max()).hex()}: scale {blocks.scales[first]:02x}, not "
        f"{scales[first]:02x}\n    values {[float(value).hex() for value in values[lanes]]}\n"
        f"    got    {blocks.codes[lanes].tolist()}\n"
        f"    want   {codes[lanes].tolist()}"
    )


# -- blocks at the borders -----------------------------------------------------------------------------


def _ties(fmt: BlockFormat) -> Array:
    """The magnitudes of an element format, and the midpoints between them."""
    codes = np.arange(1 << fmt.element.width, dtype=np.uint8)
    grid = np.unique(np.abs(lp.decode(codes, fmt.element, dtype="f8")))
    grid = grid[np.isfinite(grid)]
    return np.concatenate([grid, (grid[:-1] + grid[1:]) / 2])


def _stepped(values: Array, steps: Array) -> Array:
    """float32 magnitudes so many representable numbers further, none below 0 or infinite."""
    bits = values.astype(f32).view(np.int32) + steps.astype(np.int32)
    return np.clip(bits, 0, LARGEST.view(np.int32)).astype(np.int32).view(f32)


def _amaxes(fmt: BlockFormat) -> Array:
    """Around each border of a scale rule, in each of binary32's binades: up to 40 numbers beyond."""
    largest, precision = fmt.element.max_finite, fmt.element.precision
    borders = [1.0, largest / 2.0 ** np.floor(np.log2(largest)), 2 - 2.0**-precision, np.sqrt(2), 1.2]
    points = np.ldexp(np.array(borders)[:, None], np.arange(-150, 128)).astype(f32).reshape(-1)
    beside = np.array([*range(-4, 5), 5, 6, 11, 12, 22, 23, 24, -23, 40])
    subnormals = np.arange(1, 1 << 9).astype(np.int32).view(f32)
    return np.unique(np.concatenate([_stepped(points[:, None], beside).reshape(-1), subnormals, [LARGEST]]))


def _blocks(fmt: BlockFormat, amaxes: Array, units: Array, seed: int) -> Array:
    """A block for each amax: elements' values and ties times its unit, the numbers beside; few zeros."""
    generator = np.random.default_rng(seed)
    size = fmt.sizes[0]
    points = generator.choice(_ties(fmt), (amaxes.size, size)) * units[:, None]
    with np.errstate(over="ignore", under="ignore"):
        points = np.minimum(points, float(LARGEST)).astype(f32)
    points = np.minimum(_stepped(points, generator.integers(-1, 2, points.shape)), amaxes[:, None])
    points[generator.random(points.shape) < 1 / 16] = 0
    points[np.arange(amaxes.size), generator.integers(0, size, amaxes.size)] = amaxes
    return np.where(generator.random(points.shape) < 0.5, points, -points)


def _in(source: str, values: Array) -> Array:
    """Values in a type, the largest of which is not exceeded."""
    largest = f32(ml_dtypes.finfo(source).max)
    return np.clip(values, -largest, largest).astype(source)


@functools.lru_cache
def _mx_blocks(fmt: BlockFormat) -> Array:
    """Blocks for each border of each rule, with that rule's scale and adjacent ones, and two of zeros."""
    amaxes = np.tile(_amaxes(fmt), 1 + 20000 // _amaxes(fmt).size)
    exponents = np.maximum(np.frexp(amaxes)[1] - 1, -126) - int(np.floor(np.log2(fmt.element.max_finite)))
    lower = np.random.default_rng(1).integers(-1, 2, amaxes.size)
    zeros = np.zeros((2, 32), f32)
    zeros[1, 1::2] = -0.0
    return np.concatenate(
        [_blocks(fmt, amaxes, np.ldexp(1.0, np.maximum(exponents + lower, -127)), 2), zeros]
    )


# -- torchao, MX ----------------------------------------------------------------------------------------

#: Quotients 2**k * (1 + j * 2**-23), up to which j a binary32 logarithm loses what is above the power of two:
#: from this |k + 1/2| on.
LOST = {1: 4, 2: 8, 3: 16, 6: 32, 12: 64, 23: np.inf}


def _lost(quotients: Array) -> Array:
    """Whether a binary32 logarithm of a number just above a power of two is that of the power."""
    fractions, exponents = np.frexp(quotients.astype(np.float64))
    beyond, k = (fractions * 2 - 1) * 2.0**23, exponents - 1
    far = np.maximum(k, -1 - k)
    lost = np.zeros(quotients.shape, bool)
    for least, border in LOST.items():
        lost = np.where(beyond >= least, far >= border, lost)
    return lost & (quotients > 2.0**-127)


def _amax(values: Array, size: int) -> Array:
    return np.abs(values.astype(f32)).reshape(len(values), -1, size).max(axis=-1)


@pytest.mark.parametrize("source", ["float32", "bfloat16"])
@pytest.mark.parametrize("fmt", MXFP, ids=str)
@pytest.mark.parametrize("mode", ["floor", "ceil", "even"])
def test_torchao_makes_the_blocks_of_its_profile(mode, fmt, source, torchao):
    """Some 24,000 blocks at the borders of scales and elements; all scale codes from 0 to the largest."""
    values = _in(source, _mx_blocks(fmt))
    assert len(values) >= 20000
    scales, codes = torchao.mx(values, fmt, mode)
    _assert_same_blocks(lp.encode(values, fmt, profile=f"torchao_{mode}"), scales, codes, values)
    assert set(range(scales.max() + 1)) == set(scales.reshape(-1).tolist())
    assert scales.max() > 238


@pytest.mark.parametrize("source", ["float32", "bfloat16"])
@pytest.mark.parametrize("fmt", MXFP, ids=str)
def test_torchao_loses_what_its_binary32_logarithm_does_not_see(fmt, source, torchao):
    """RCEIL: scales are one too low where the quotient is a few last places above a power of two; only there.

    That never is a quotient of a bfloat16. What is then too large is clamped; all other blocks are the
    profile's.
    """
    values = _in(source, _mx_blocks(fmt))
    scales, codes = torchao.mx(values, fmt, "rceil")
    blocks = lp.encode(values, fmt, profile="torchao_rceil")
    lost = _lost(_amax(values, 32) / f32(fmt.element.max_finite))
    assert lost.any() == (source == "float32")
    assert np.array_equal(blocks.scales - scales, lost.astype(np.uint8))
    wide = (lost & (scales > 0)).reshape(-1)
    lower = values[wide].astype(np.float64) / np.ldexp(1.0, scales[wide].astype(int) - 127)
    assert np.array_equal(codes[wide], lp.encode(lower, fmt.element, saturation="finite"))
    same = ~lost.reshape(-1)
    _assert_same_blocks(
        lp.BlockArray(blocks.codes[same], blocks.scales[same], fmt), scales[same], codes[same], values
    )


#: Of one block: 1, -1, 3.3, a tiny number, zeros of both signs, and what is special.
SPECIALS = {
    "nan": [NAN],
    "negative_nan": [-NAN],
    "infinity": [INF],
    "negative_infinity": [-INF, INF],
    "nan_and_infinity": [NAN, INF, -INF, -NAN],
}


def _special(name: str, size: int) -> Array:
    block = np.zeros((1, size), f32)
    block[0, :6] = 1, -1, 3.3, -1e-30, 0, -0.0
    block[0, 6 : 6 + len(SPECIALS[name])] = SPECIALS[name]
    return block


@pytest.mark.parametrize("name", SPECIALS)
@pytest.mark.parametrize("fmt", MXFP, ids=str)
@pytest.mark.parametrize("mode", MODES)
def test_torchao_has_the_specials_of_its_profile(mode, fmt, name, torchao):
    """The NaNs have no payload: in formats without NaN torchao rounds a payload as if it were a number's.

    Next to a NaN an infinity is divided by one; the sign of such a NaN is the processor's choice, and the
    profile has a zero there.
    """
    values = _special(name, 32)
    scales, codes = torchao.mx(values, fmt, mode)
    if name == "nan_and_infinity" and mode != "rceil":
        infinite = np.isinf(values)
        nans = lp.encode(values, fmt, profile=f"torchao_{mode}").codes[np.isnan(values)]
        assert set(codes[infinite].tolist()) <= set(nans.tolist())
        codes[infinite] = np.where(values[infinite] < 0, fmt.element.sign_code, 0)
    _assert_same_blocks(lp.encode(values, fmt, profile=f"torchao_{mode}"), scales, codes, values)


# -- NVFP4 ----------------------------------------------------------------------------------------------

SCALES = lp.decode(np.arange(127, dtype=np.uint8), "ue4m3", dtype="f8", backend="oracle")
SCALE_TIES = np.concatenate(
    [SCALES, (SCALES[:-1] + SCALES[1:]) / 2, [464.0, 480.0, 1000.0, 2.0**-12, 2.0**-30]]
)

#: Largest magnitudes of tensors: any, those of the documents, whole powers of two and the ends of binary32.
TENSORS = [950.51324, 2688.0, 1.0, 6.0, 1e-3, 3.7e5, 1.2345e-20, 7.7e30, 2.0**-100, 2.0**127, LARGEST]


def _nvfp4_blocks(most: float, scale: float, seed: int = 3) -> Array:
    """Blocks whose scales are values and ties of their format; in front, the tensor's largest value."""
    amaxes = np.concatenate([[most], 6 * SCALE_TIES * float(scale)])
    amaxes = np.minimum(amaxes, float(LARGEST)).astype(f32)
    amaxes = np.minimum(_stepped(amaxes[:, None], np.arange(-4, 5)), f32(most)).reshape(-1)
    units = lp.quantize(
        amaxes.astype(f32) / (6 * np.float64(scale)), "ue4m3", saturation="finite"
    ) * np.float64(scale)
    return _blocks(catalog.NVFP4, amaxes, units, seed)


def test_torchao_makes_nvfp4_blocks_without_a_tensor_scale(torchao):
    """1 is none: (amax / 6) / 1, and (1 / 1) / scale."""
    values = np.concatenate([_nvfp4_blocks(LARGEST, 1.0, seed) for seed in range(9)])
    assert len(values) > 20000
    scales, codes = torchao.nvfp4(values)
    _assert_same_blocks(
        lp.encode(values, "nvfp4", profile="torchao_nvfp4", tensor_scale=1.0), scales, codes, values
    )
    assert set(scales.reshape(-1).tolist()) == set(range(8, 127))


@pytest.mark.parametrize("source", ["float32", "bfloat16"])
def test_torchao_makes_nvfp4_blocks_with_a_tensor_scale(source, torchao):
    """The scale that it makes of the tensor, and blocks at its ties: 2,300 for each of eleven tensors."""
    for most in TENSORS:
        values = _in(source, _nvfp4_blocks(most, most / 2688))
        scale = torchao.tensor_scale(values.astype(f32))
        blocks = lp.encode(values, "nvfp4", profile="torchao_nvfp4")
        assert blocks.tensor_scale == scale
        scales, codes = torchao.nvfp4(values, scale)
        _assert_same_blocks(blocks, scales, codes, values)


def test_a_block_of_zeros_has_the_smallest_normal_scale_in_torchao(torchao):
    """08, and zeros of the values' signs; Transformer Engine has 00 and ModelOpt 1, see below."""
    values = np.zeros((2, 16), f32)
    values[0, 0], values[1, ::2] = 5, -0.0
    scales, codes = torchao.nvfp4(values, torchao.tensor_scale(values))
    assert scales.tolist() == [[126], [8]]
    assert codes[1].tolist() == [8, 0] * 8
    _assert_same_blocks(lp.encode(values, "nvfp4", profile="torchao_nvfp4"), scales, codes, values)


@pytest.mark.parametrize("name", SPECIALS)
@pytest.mark.parametrize("scale", [1.0, 0.01])
def test_torchao_has_the_nvfp4_specials_of_its_profile(scale, name, torchao):
    """A NaN makes +2 of all sixteen elements; an infinity takes the largest scale."""
    values = _special(name, 16)
    scales, codes = torchao.nvfp4(values, f32(scale))
    blocks = lp.encode(values, "nvfp4", profile="torchao_nvfp4", tensor_scale=scale)
    _assert_same_blocks(blocks, scales, codes, values)


# -- Transformer Engine and ModelOpt ----------------------------------------------------------------------


def _e2m1(values: Array) -> Array:
    return np.clip(values, f32(-6), f32(6)).astype(ml_dtypes.float4_e2m1fn).view(np.uint8)


def _e4m3(values: Array) -> Array:
    return np.minimum(values, f32(448)).astype(ml_dtypes.float8_e4m3fn).view(np.uint8)


def _wide(scales: Array) -> Array:
    """The scale of each element."""
    return np.repeat(scales.view(ml_dtypes.float8_e4m3fn).astype(f32), 16, axis=-1)


@np.errstate(over="ignore", divide="ignore", under="ignore")
def _transformer_engine_nvfp4(values: Array) -> tuple[Array, Array, f32]:
    """Encoding scale and its inverse; scales: amax times (that scale / 6); elements: times one number."""
    encoding = np.minimum(f32(2688) / np.abs(values).max(), LARGEST)
    decoding = f32(1) / encoding
    scales = _e4m3(np.minimum(_amax(values, 16) * (encoding * f32(1 / 6)), LARGEST))
    multiplier = np.minimum(f32(1) / (_wide(scales) * decoding), LARGEST)
    codes = _e2m1(values * multiplier)
    codes[values == 0] = 0
    return scales, codes, decoding


@np.errstate(over="ignore", under="ignore")
def _modelopt_nvfp4(values: Array) -> tuple[Array, Array, f32]:
    """Scales: the block's amax over (6 * the tensor's scale); elements: over the product of both."""
    scale = np.abs(values).max() / f32(2688)
    quotients = _amax(values, 16) / (f32(6) * scale)
    scales = _e4m3(np.maximum(np.where(quotients == 0, f32(1), quotients), f32(2.0**-9)))
    codes = _e2m1(values / (_wide(scales) * scale))
    codes[values == 0] = 0
    return scales, codes, scale


@pytest.mark.parametrize(
    ("profile", "formula"),
    [("transformer_engine", _transformer_engine_nvfp4), ("modelopt", _modelopt_nvfp4)],
    ids=["transformer_engine", "modelopt"],
)
def test_nvfp4_blocks_are_those_of_a_stack_s_own_steps(profile, formula):
    """2,300 blocks at ties for each of 11 tensors. Both stacks drop the sign of -0, not of what becomes it.

    ModelOpt takes a scale of 1 not only for zeros: also where the quotient becomes 0 in binary32.
    """
    for most in TENSORS:
        values = _nvfp4_blocks(most, most / 2688)
        scales, codes, scale = formula(values)
        blocks = lp.encode(values, "nvfp4", profile=profile)
        assert blocks.tensor_scale == scale
        codes[(values == 0) & np.signbit(values)] = 8
        if profile == "modelopt":
            nothing = (_amax(values, 16) / (f32(6) * scale) == 0) & (_amax(values, 16) > 0)
            assert (scales[nothing] == 0x38).all()
            scales[nothing] = 0x01
        _assert_same_blocks(blocks, scales, codes, values)


def test_three_stacks_round_the_same_nvfp4_scale_to_three_results():
    """Blocks of 9.017146 in a tensor of 950.51324, and of zeros."""
    values = np.zeros((3, 16), f32)
    values[:2, 0] = 950.51324, 9.017146
    scales = {
        name: lp.encode(values, "nvfp4", profile=name).scales.reshape(-1).tolist()
        for name in ("torchao_nvfp4", "transformer_engine", "modelopt")
    }
    assert scales == {
        "torchao_nvfp4": [0x7E, 0x48, 0x08],
        "transformer_engine": [0x7E, 0x49, 0x00],
        "modelopt": [0x7E, 0x49, 0x38],
    }


@np.errstate(over="ignore", under="ignore")
def _transformer_engine_mxfp8(values: Array, fmt: BlockFormat) -> tuple[Array, Array]:
    """Scales: amax times the largest value's inverse, bits rounded up; elements: times a power of two."""
    bits = (_amax(values, 32) * f32(1 / fmt.element.max_finite)).view(np.uint32)
    exponents, fractions = bits >> np.uint32(23), bits & np.uint32(0x7FFFFF)
    scales = exponents + (fractions > np.where(exponents == 0, 0x400000, 0))
    multiplier = ((254 - scales).astype(np.uint32) << np.uint32(23)).view(f32)
    most = f32(fmt.element.max_finite)
    products = np.clip(values * np.repeat(multiplier, 32, axis=-1), -most, most)
    return scales.astype(np.uint8), products.astype(lp.dtype(fmt.element)).view(np.uint8)


@pytest.mark.parametrize("fmt", [catalog.MXFP8_E4M3, catalog.MXFP8_E5M2], ids=str)
def test_mxfp8_blocks_are_those_of_transformer_engine_s_own_steps(fmt):
    """Some 24,000 blocks at borders: one product with a rounded inverse, where others divide."""
    values = _mx_blocks(fmt)
    scales, codes = _transformer_engine_mxfp8(values, fmt)
    _assert_same_blocks(lp.encode(values, fmt, profile="transformer_engine"), scales, codes, values)


def _modelopt_mx(values: Array, fmt: BlockFormat) -> tuple[Array, Array]:
    """The quotient's binary32 logarithm rounded up; elements over that power of two."""
    quotients = _amax(values, 32) / f32(fmt.element.max_finite)
    with np.errstate(divide="ignore"):
        logarithms = np.log2(quotients.astype(np.float64)).astype(f32)
    exponents = np.clip(np.ceil(logarithms), -127, 127).astype(np.int64)
    ratios = values.astype(np.float64) / np.repeat(np.ldexp(1.0, exponents), 32, axis=-1)
    if fmt is catalog.MXFP4:
        borders = [0.25, 0.75, 1.25, 1.75, 2.5, 3.5, 5]
        codes = np.searchsorted(borders, np.abs(ratios), side="left") + np.where(values <= 0, 8, 0)
    else:
        codes = np.clip(ratios, -448, 448).astype(ml_dtypes.float8_e4m3fn).view(np.uint8)
    return (exponents + 127).astype(np.uint8), codes.astype(np.uint8)


@pytest.mark.parametrize("fmt", [catalog.MXFP8_E4M3, catalog.MXFP4], ids=str)
def test_mx_blocks_are_those_of_modelopt_s_own_steps(fmt):
    """Where its logarithm equals a power of two's, scales are one too low; its MXFP4 signs every zero."""
    values = _mx_blocks(fmt)
    scales, codes = _modelopt_mx(values, fmt)
    blocks = lp.encode(values, fmt, profile="modelopt")
    lost = _lost(_amax(values, 32) / f32(fmt.element.max_finite))
    assert lost.any()
    assert np.array_equal(blocks.scales - scales, lost.astype(np.uint8))
    if fmt is catalog.MXFP4:
        assert (codes[values == 0] == 8).all()
        codes[values == 0] = np.where(np.signbit(values[values == 0]), 8, 0)
    same = ~lost.reshape(-1)
    _assert_same_blocks(
        lp.BlockArray(blocks.codes[same], blocks.scales[same], fmt), scales[same], codes[same], values
    )


# -- gfloat ---------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def gfloat():
    """Of gfloat: a block to its scale code and element codes."""
    programs.need_package("gfloat")
    from gfloat import formats
    from gfloat.block import compute_scale_amax, encode_block

    known = dict(
        zip(MX, ("mxfp8_e4m3", "mxfp8_e5m2", "mxfp6_e2m3", "mxfp6_e3m2", "mxfp4_e2m1", "mxint8"), strict=True)
    )

    def encode(values, fmt):
        info = getattr(formats, f"format_info_{known[fmt]}")
        scale = compute_scale_amax(info.etype.emax, values)
        first, *codes = encode_block(info, scale, values / scale)
        return int(first), [int(code) for code in codes]

    return encode


@pytest.mark.parametrize("fmt", MX, ids=str)
def test_gfloat_makes_the_blocks_of_the_ocp_profile(fmt, gfloat):
    """1,500 blocks at the borders, in float64, whose logarithms are exact enough; but it uses MXINT8's -2."""
    values = _mx_blocks(fmt)[::16]
    assert len(values) > 1400
    theirs = [gfloat(block, fmt) for block in values.astype(np.float64)]
    scales, codes = (np.array(part) for part in zip(*theirs, strict=True))
    if fmt == catalog.MXINT8:
        assert (codes == 0x80).any()
        codes[codes == 0x80] = 0x81
    _assert_same_blocks(lp.encode(values, fmt, profile="ocp"), scales[:, None], codes, values)


@pytest.mark.parametrize("fmt", MX, ids=str)
def test_gfloat_takes_binary32_logarithms_of_float32(fmt, gfloat):
    """The number below 2**20 has the scale of 2**20; as float64 it has its own."""
    below = np.full(32, np.nextafter(f32(2**20), f32(0)))
    [want] = lp.encode(below, fmt, profile="ocp").scales
    assert gfloat(below.astype(np.float64), fmt)[0] == want
    assert gfloat(below, fmt)[0] == want + 1


@pytest.mark.parametrize("fmt", MX, ids=str)
def test_gfloat_has_other_specials_than_the_ocp_profile(fmt, gfloat):
    """Infinities get the largest scale and saturate. NaN makes all NaN, or is refused if there is none.

    The standard leaves both open; here the scale is NaN and all elements are 0.
    """
    values = np.array([1, -1, np.inf, -np.inf] + [0] * 28, np.float64)
    largest = lp.encode([INF, -INF], fmt.element, saturation="finite").tolist()
    small = [0, 0 if fmt is catalog.MXINT8 else fmt.element.sign_code]
    assert gfloat(values, fmt) == (254, [*small, *largest, *[0] * 28])
    values[2] = np.nan
    if fmt.element.has_nan:
        assert gfloat(values, fmt) == (255, [255] * 32)
    else:
        with pytest.raises(ValueError, match=r"^No NaN in format "):
            gfloat(values, fmt)
    blocks = lp.encode(values, fmt, profile="ocp")
    assert blocks.scales.tolist() == [255]
    assert blocks.codes.tolist() == [0] * 32
