"""The catalog of accumulations: those of named hardware and of plain loops.

Hardware is named <architecture>_<instruction>_<operand>[_<operand>]_<output>[_<scale>_<scales>], where
the number of scales is that of one instruction's K, as in PTX's scale_vec.

Floor 1. Imports the standard library only.
Source: [MMASIM], [KHATTAK], [FASI], [DEEPSEEK], [RISCVDOT], [ARMFP], [ARMFP8], [ACE].
"""

from __future__ import annotations

import itertools
import re
from collections.abc import Iterator, Mapping
from dataclasses import replace

from lowprec.spec.accumulation import Accumulation, Window
from lowprec.spec.catalog import (
    BFLOAT16,
    BINARY16,
    BINARY32,
    BINARY64,
    E2M1FN,
    E2M3FN,
    E3M2FN,
    E4M3FN,
    E4M3FNUZ,
    E5M2,
    E5M2FNUZ,
    E8M0FNU,
    INT8F6,
    TF32,
    UE4M3,
)
from lowprec.spec.families import ieee
from lowprec.spec.format import Format
from lowprec.spec.naming import Catalog, by_name, close_names
from lowprec.spec.order import EXACT, PAIRWISE, chunked
from lowprec.spec.projection import Projection, Saturation
from lowprec.spec.rounded import Rounded
from lowprec.spec.rounding import TO_ODD, TOWARD_ZERO

__all__ = [
    "ACCUMULATIONS",
    "E8M13",
    "NAMES",
    "accumulation",
    "arm_fp8_dot",
    "bulk_normalized",
    "deepseek_promote",
]

#: What FP8 tensor cores of Ada and Hopper keep sums in: binary32 without its last ten bits.
E8M13 = ieee("e8m13", 8, 13, source="MMASIM")

_NEAREST = Projection()
_SINGLE, _HALF, _BFLOAT = (BINARY32, _NEAREST), (BINARY16, _NEAREST), (BFLOAT16, _NEAREST)


def _canonical(fmt: Format, how: Projection = _NEAREST) -> Rounded:
    """Return a format with a projection whose NaN is one code, all ones but for the sign."""
    code = fmt.sign_code - 1
    return fmt, Projection(rounding=how.rounding, nan_code=code, nan_sign="drop")


#: Results of tensor cores: binary32 and E8M13 are cut, binary16 is rounded to nearest.
_CUT = Projection(rounding=TOWARD_ZERO)
_BINARY32, _BINARY16, _E8M13 = _canonical(BINARY32, _CUT), _canonical(BINARY16), _canonical(E8M13, _CUT)

#: The lowest exponents of alignment, of binary32 and of binary16 results.
_LOWEST = {23: (-131, -19), 24: (-132, -20), 25: (-133, -21)}

FP8 = (E4M3FN, E5M2)
F8F6F4 = (E5M2, E4M3FN, E3M2FN, E2M3FN, E2M1FN)

#: tf32 operands are binary32 numbers whose last bits are not read.
_READ_TF32 = Projection(rounding=TOWARD_ZERO)


def _pairs(formats: tuple[Format, ...]) -> list[tuple[Format, Format]]:
    return [(x, y) for x in formats for y in formats]


def _name(machine: str, operands: tuple[Format, Format], output: Format) -> str:
    x, y = operands
    return "_".join([machine, x.name, *([y.name] if x != y else []), output.name])


def _tensor_core(
    machine: str, operands: tuple[Format, Format], output: Format, step: int, bits: int, generation: int = 0
) -> Accumulation:
    """Return a sum in windows; `generation` is the fraction bits of 16-bit products."""
    wide = output == BINARY32
    result = _BINARY16 if not wide else _E8M13 if bits == 13 else _BINARY32
    lowest = _LOWEST[generation or bits][0 if wide else 1]
    return Accumulation(
        name=_name(machine, operands, output),
        operands=operands,
        operand_rounding=_READ_TF32 if operands[0] == TF32 else None,
        accumulator=Window(step=step, fraction_bits=bits, result=result, lowest_exponent=lowest),
        output=_canonical(output) if wide else _BINARY16,
        source="KHATTAK",
    )


def _sixteen_bits(machine: str, step: int, bits: int, *, bfloat: bool = True) -> Iterator[Accumulation]:
    """Yield those of binary16, bfloat16 and tf32: all that the architectures before FP8 have."""
    for output in (BINARY32, BINARY16):
        yield _tensor_core(machine, (BINARY16, BINARY16), output, step, bits)
    if bfloat:
        yield _tensor_core(machine, (BFLOAT16, BFLOAT16), BINARY32, step, bits)
        yield _tensor_core(machine, (TF32, TF32), BINARY32, step // 2, bits)


def _all_pairs(
    machine: str, formats: tuple[Format, ...], step: int, bits: int, generation: int
) -> Iterator[Accumulation]:
    for operands in _pairs(formats):
        for output in (BINARY32, BINARY16):
            yield _tensor_core(machine, operands, output, step, bits, generation)


def _emulated(machine: str, output: Format) -> Iterator[Accumulation]:
    """Yield mma.sync of FP8 where the tensor core lacks it: sums of 32 products, then the addend."""
    for operands in _pairs(FP8):
        half = output == BINARY16
        yield Accumulation(
            name=_name(machine, operands, output),
            operands=operands,
            order=chunked(32),
            accumulator=Window(
                step=16,
                fraction_bits=25,
                result=_BINARY16 if half else _BINARY32,
                lowest_exponent=-21 if half else -133,
                groups="alternate_pairs" if half else "consecutive",
            ),
            total=_canonical(output),
            output=_canonical(output),
            source="KHATTAK",
        )


#: To odd, and infinite from 2**128 on.
_ODD = Projection(rounding=TO_ODD, overflow_test="exponent", nan_sign="drop")


def bulk_normalized(operands: tuple[Format, Format], products: int) -> Accumulation:
    """Return RISC-V's sum of so many products: aligned to the largest and to odd, and then added to odd.

    K is a multiple of `products`, which is the vector's length in elements: 8 of bfloat16 where VLEN is 128.

    >>> from lowprec.spec.catalog import E5M2
    >>> bulk_normalized((E5M2, E5M2), 4).name
    'riscv_bulk4_e5m2_binary32'

    Parameters
    ----------
    operands : (Format, Format)
        Of at most 12 bits of precision.
    products : int
        2 to 1024.

    Source: [RISCVDOT].
    """
    single = (BINARY32, _ODD)
    return Accumulation(
        name=_name(f"riscv_bulk{products}", operands, BINARY32),
        operands=operands,
        order=chunked(products),
        accumulator=Window(
            step=products, fraction_bits=23 + (products - 1).bit_length(), result=single, cut="to_odd"
        ),
        total=single,
        output=single,
        source="RISCVDOT",
    )


def _risc_v() -> Iterator[Accumulation]:
    """Yield sums of vectors of 128 bits, and of 4 products of FP8, as matrix extensions add them."""
    yield bulk_normalized((BFLOAT16, BFLOAT16), 8)
    for operands, products in itertools.product(_pairs(FP8), (4, 16)):
        yield bulk_normalized(operands, products)


def _arm_bfdot() -> Accumulation:
    """Return BFDOT where FPCR.EBF is 0: pairs of rounded products, to odd, without subnormals."""
    rule = replace(_ODD, subnormals="flush_results", tininess="before")
    single = (BINARY32, rule)
    return Accumulation(
        name="arm_bfdot_bfloat16_binary32",
        operands=(BFLOAT16, BFLOAT16),
        operand_rounding=Projection(subnormals="flush_results"),
        product=single,
        order=chunked(2, "pairwise"),
        accumulator=single,
        output=single,
        source="ARMFP",
    )


def arm_fp8_dot(
    operands: tuple[Format, Format],
    products: int,
    output: Format,
    *,
    lscale: int = 0,
    saturate: bool = False,
    instruction: str = "fdot",
) -> Accumulation:
    """Return Arm's FP8 sums: so many products, times 2**-lscale, join the addend, and are rounded once.

    FDOT has 2 products in binary16 and 4 in binary32, FMMLA 4 and 8, FMLAL and FMLALL one. The documents that
    were read leave open the sign of a zero sum: here it is -0 only if all its terms are.

    >>> how = arm_fp8_dot((E4M3FN, E4M3FN), 4, BINARY32, lscale=3)
    >>> how.name, how.operands[0].bias
    ('arm_fdot_e4m3fn_binary32', 10)

    Parameters
    ----------
    operands : (Format, Format)
        E5M2 or E4M3FN, as FPMR.F8S1 and F8S2 say.
    products : int
    output : Format
        BINARY16 or BINARY32.
    lscale : int
        FPMR.LSCALE: 0 to 15 for binary16, 0 to 127 for binary32. The codes of x then stand for values
        2**-lscale times as large: its format has another bias.
    saturate : bool
        FPMR.OSM: finite sums that overflow become the largest value, not infinity.
    instruction : str
        For the name.

    Raises ValueError: other formats, or a scale that the field does not hold.

    Source: [ARMFP8].
    """
    if not set(operands) <= set(FP8) or output not in (BINARY16, BINARY32):
        raise ValueError(
            f"Arm's FP8 sums are of e4m3fn and e5m2 in binary16 or binary32, not of "
            f"{' and '.join(map(str, operands))} in {output}"
        )
    most = 15 if output == BINARY16 else 127
    if not 0 <= lscale <= most:
        raise ValueError(f"lscale={lscale} is out of range; FPMR.LSCALE has 0 to {most} for {output.name}")
    x, y = operands
    saturation = Saturation.PROPAGATE if saturate else Saturation.NONE
    into = output, Projection(nan_sign="drop", saturation=saturation)
    return Accumulation(
        name=_name(f"arm_{instruction}", operands, output),
        operands=(replace(x, bias=x.bias + lscale), y),
        term=products,
        accumulator=into,
        output=into,
        source="ARMFP8",
    )


def _arm_fp8() -> Iterator[Accumulation]:
    """Yield those of FPMR = 0, but for the formats: no scale, and overflow to infinity."""
    for instruction, products in (("fdot", (2, 4)), ("fmmla", (4, 8))):
        for operands in _pairs(FP8):
            for output, count in zip((BINARY16, BINARY32), products, strict=True):
                yield arm_fp8_dot(operands, count, output, instruction=instruction)


def _ace() -> Iterator[Accumulation]:
    """Yield ACE's outer products of MX elements: 4 exact products and their scales, rounded, then added.

    Subnormal sums are flushed; the elements are not. NaNs of elements are NaNs here; the specification
    reads their codes as numbers.
    """
    single = BINARY32, Projection(subnormals="flush_results", nan_sign="drop")
    for operands in (*_pairs(FP8), (INT8F6, INT8F6)):
        yield Accumulation(
            name=_name("ace_top4mx", operands, BINARY32),
            operands=operands,
            product=single,
            term=4,
            accumulator=single,
            output=single,
            source="ACE",
        )


def _scaled(machine: str) -> Iterator[Accumulation]:
    """Yield those of operands in blocks, of Blackwell."""
    for operands in _pairs(F8F6F4):
        yield Accumulation(
            name=_name(machine, operands, BINARY32) + "_e8m0fnu_1",
            operands=operands,
            accumulator=Window(
                step=32, fraction_bits=25, result=_BINARY32, lowest_exponent=-133, scales="products"
            ),
            scale=(E8M0FNU, 32),
            output=_canonical(BINARY32),
            source="MMASIM",
        )
    for scale, count in ((E8M0FNU, 2), (E8M0FNU, 4), (UE4M3, 4)):
        yield Accumulation(
            name=_name(machine, (E2M1FN, E2M1FN), BINARY32) + f"_{scale.name}_{count}",
            operands=(E2M1FN, E2M1FN),
            accumulator=Window(
                step=64, fraction_bits=35, result=_BINARY32, lowest_exponent=-139, scales="groups", group=16
            ),
            scale=(scale, 64 // count),
            output=_canonical(BINARY32),
            source="MMASIM",
        )


def _matrix_core(
    name: str, operands: tuple[Format, Format], machine: str = "", window: Window | None = None
) -> Accumulation:
    return Accumulation(
        name=_name(name, operands, BINARY32),
        operands=operands,
        operand_rounding=_READ_TF32 if operands[0] == TF32 else None,
        accumulator=window,
        machine=machine,
        output=_canonical(BINARY32),
        source="MMASIM",
    )


def _nvidia() -> Iterator[Accumulation]:
    yield from _sixteen_bits("volta_mma", 4, 23, bfloat=False)
    yield from _sixteen_bits("turing_mma", 8, 24, bfloat=False)
    yield from _sixteen_bits("ampere_mma", 8, 24)
    yield from _sixteen_bits("ada_mma", 8, 24)
    yield from _all_pairs("ada_mma", FP8, 16, 13, 24)
    for machine in ("hopper_mma", "hopper_wgmma", "blackwell_mma", "blackwell_tcgen05", "rtx_blackwell_mma"):
        yield from _sixteen_bits(machine, 16, 25)
    yield from _all_pairs("hopper_wgmma", FP8, 32, 13, 25)
    yield from _emulated("hopper_mma", BINARY16)
    yield from _emulated("blackwell_mma", BINARY16)
    yield from _emulated("blackwell_mma", BINARY32)
    for machine in ("blackwell_tcgen05", "rtx_blackwell_mma"):
        yield from _all_pairs(machine, F8F6F4, 32, 25, 25)
        yield from _scaled(machine)


def _amd() -> Iterator[Accumulation]:
    for fmt, step in ((BINARY16, 4), (BFLOAT16, 2)):
        exact = Window(step=step, fraction_bits=None, result=_canonical(BINARY32), negative_zero=True)
        yield _matrix_core("cdna1_mfma", (fmt, fmt), window=exact)
    yield _matrix_core("cdna2_mfma", (BINARY16, BINARY16), "cdna2")
    yield _matrix_core("cdna2_mfma", (BFLOAT16, BFLOAT16), "cdna2_pairs")
    yield _matrix_core("cdna2_mfma1k", (BFLOAT16, BFLOAT16), "cdna2")
    for fmt in (BINARY16, BFLOAT16, TF32):
        yield _matrix_core("cdna3_mfma", (fmt, fmt), "cdna3")
    for operands in _pairs((E4M3FNUZ, E5M2FNUZ)):
        yield _matrix_core("cdna3_mfma", operands, "cdna3_fp8")


def _plain() -> Iterator[Accumulation]:
    yield Accumulation(name="fp32_sequential", product=_SINGLE, accumulator=_SINGLE, output=_SINGLE)
    yield Accumulation(name="fp32_fma", accumulator=_SINGLE, output=_SINGLE)
    yield Accumulation(
        name="fp32_pairwise", product=_SINGLE, order=PAIRWISE, accumulator=_SINGLE, output=_SINGLE
    )
    yield Accumulation(name="fp16_sequential", accumulator=_HALF, output=_HALF)
    yield Accumulation(name="bf16_sequential", accumulator=_BFLOAT, output=_BFLOAT)
    yield Accumulation(name="fp64_sequential", accumulator=(BINARY64, _NEAREST), output=_SINGLE)
    yield Accumulation(name="exact", order=EXACT, output=_SINGLE)


#: Every named accumulation, by name.
ACCUMULATIONS: Mapping[str, Accumulation] = Catalog(
    "accumulations",
    by_name(itertools.chain(_plain(), _nvidia(), _amd(), _risc_v(), [_arm_bfdot()], _arm_fp8(), _ace())),
    operands=lambda how: "any" if how.operands is None else how.operands,
    step=lambda how: getattr(how.accumulator, "step", None),
    order=lambda how: how.order,
    output=lambda how: how.output[0],
)

#: Hardware whose sums no public document or measurement describes, by the beginnings of names.
_UNDOCUMENTED = {
    ("cdna4", "gfx950"): "how CDNA4's matrix cores align, cut and round",
    (
        "rdna3",
        "rdna4",
        "gfx11",
        "gfx12",
    ): "how matrix instructions of RDNA and gfx1250 align, cut and round",
    (
        "amx_fp8",
        "amx_tdp",
        "tdp",
    ): "in which order AMX adds the four products of FP8: its descriptions disagree",
    ("ace_top2",): "whether TOP2BF16PS flushes its products: its descriptions disagree",
    ("tensix", "tenstorrent"): "how Tensix aligns, rounds and orders: its description calls itself a guide",
    ("gaudi", "ascend", "groq", "tpu"): "how its matrix units align, cut and round",
}

#: What `accumulation` takes: these names, and deepseek_promote with any number of products.
NAMES = (*ACCUMULATIONS, "deepseek_promote(128)")


def deepseek_promote(size: int = 128) -> Accumulation:
    """Return FP8 sums of Hopper, `size` products at a time, added up in binary32.

    >>> deepseek_promote(128).order
    Order(name='chunked', size=128, inner='sequential')

    Source: [DEEPSEEK] 3.3.2.
    """
    inner = ACCUMULATIONS["hopper_wgmma_e4m3fn_binary32"]
    return Accumulation(
        name=f"deepseek_promote({size})",
        operands=inner.operands,
        order=chunked(size),
        accumulator=inner.accumulator,
        total=_canonical(BINARY32),
        output=_canonical(BINARY32),
        source="DEEPSEEK",
    )


def accumulation(name: Accumulation | str) -> Accumulation:
    """Return the accumulation of that name, or the accumulation itself.

    >>> accumulation("hopper_wgmma_e4m3fn_binary32").accumulator.fraction_bits
    13

    Raises ValueError: an unknown name; the message has close ones.
    """
    if isinstance(name, Accumulation):
        return name
    if not isinstance(name, str):
        raise TypeError(f"accumulation must be an Accumulation or a name, not {name!r}")
    found = re.fullmatch(r"deepseek_promote\((\d+)\)", name.strip())
    if found:
        return deepseek_promote(int(found[1]))
    if name.strip() in ACCUMULATIONS:
        return ACCUMULATIONS[name.strip()]
    for beginnings, what in _UNDOCUMENTED.items():
        if name.strip().lower().startswith(beginnings):
            raise ValueError(
                f"accumulation {name!r} is not here: no public document or measurement settles {what}. Ask "
                f"the hardware: `lowprec capture` and `lowprec identify` find its accumulation"
            )
    near = close_names(name, NAMES)
    hint = f"did you mean {' or '.join(map(repr, near))}?" if near else "`lowprec.accumulations` lists all"
    raise ValueError(f"unknown accumulation {name!r}; {hint}")
