"""Sums of RISC-V's integrated matrix extension, as (G, psm, rnd) describe them.

An instruction's K products are dealt to consecutive groups of G sub-dot-products, which are W products
each. A group's sum S is exact (psm 0) or a reduction that the vendor discloses (psm 1). S is rounded by
`frm`, to odd or not at all (rnd "frm", "rto", "xct"), and then C becomes C + S, rounded by `frm`.

Floor 1. Imports the standard library only.
Source: [RISCVIME].
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Literal, get_args

from lowprec.spec.accumulation import Accumulation, Window
from lowprec.spec.accumulations import bulk_normalized
from lowprec.spec.format import Format
from lowprec.spec.formats import BINARY32
from lowprec.spec.order import SEQUENTIAL, chunked
from lowprec.spec.projection import Projection
from lowprec.spec.rounding import (
    NEAREST_AWAY,
    NEAREST_EVEN,
    TO_ODD,
    TOWARD_NEGATIVE,
    TOWARD_POSITIVE,
    TOWARD_ZERO,
    Rounding,
)

__all__ = ["FRM", "Disclosure", "Rnd", "disclosed", "riscv_ime"]

Rnd = Literal["frm", "rto", "xct"]

#: The modes of `frm`, by their names in the ISA.
FRM = {
    "rne": NEAREST_EVEN,
    "rtz": TOWARD_ZERO,
    "rdn": TOWARD_NEGATIVE,
    "rup": TOWARD_POSITIVE,
    "rmm": NEAREST_AWAY,
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Disclosure:
    """Terms of the extension that an accumulation has.

    Parameters
    ----------
    products : int
        G * W: the products of a group.
    psm : int
        0: the group's sum is exact. 1: it is aligned and cut as `window` says.
    rnd : {"frm", "rto", "xct"}
    frm : str
        A key of `FRM`.
    window : Window, optional
        Of psm 1.
    """

    products: int
    psm: int
    rnd: Rnd
    frm: str
    window: Window | None = None

    def __str__(self) -> str:
        return f"G * W = {self.products}, psm = {self.psm}, rnd = {self.rnd}, frm = {self.frm}"


def riscv_ime(
    operands: tuple[Format, Format],
    output: Format,
    products: int,
    rnd: Rnd = "xct",
    *,
    psm: int = 0,
    frm: str = "rne",
) -> Accumulation:
    """Return the sum of an instruction whose groups have so many products, G * W.

    The draft leaves open what rounding to odd makes of an overflow, which here is infinite as in RVBNA, and
    the sign of a sum of zeros, which here is -0 only if all its terms are. Scales of operands in blocks
    join a group's sum exactly, as if C's format held them: `lowprec.methods.riscv_ime` converts them
    first.

    >>> from lowprec.spec.catalog import E4M3FN
    >>> how = riscv_ime((E4M3FN, E4M3FN), BINARY32, 8, "rto")
    >>> how.name, how.term, str(how.product[1].rounding)
    ('riscv_ime8_rto_e4m3fn_binary32', 8, 'to_odd')

    Parameters
    ----------
    operands : (Format, Format)
    output : Format
        That of C.
    products : int
    rnd : {"frm", "rto", "xct"}
    psm : int
        1 is RISC-V's bulk normalization (RVBNA), of binary32 outputs.
    frm : {"rne", "rtz", "rdn", "rup", "rmm"}

    Raises ValueError: other values, products of no power of two, or what psm 1 does not describe.

    Source: [RISCVIME], [RISCVDOT] for psm 1.
    """
    if frm not in FRM or rnd not in get_args(Rnd) or psm not in (0, 1):
        raise ValueError(
            f"psm={psm!r}, rnd={rnd!r} and frm={frm!r} are no sum of the extension: psm is 0 or 1, rnd "
            f"frm, rto or xct, and frm {', '.join(FRM)}"
        )
    if products < 1 or products & (products - 1):
        raise ValueError(f"products={products} is no power of two, as the group size G and the width W are")
    into = output, Projection(rounding=FRM[frm], nan_sign="drop")
    odd = output, Projection(rounding=TO_ODD, overflow_test="exponent", nan_sign="drop")
    x, y = operands
    parts = [f"riscv_ime{products}", *(["rvbna"] if psm else []), rnd, *([] if frm == "rne" else [frm])]
    parts += [x.name, *([y.name] if x != y else []), output.name]
    if not psm:
        return Accumulation(
            name="_".join(parts),
            operands=operands,
            term=products,
            product={"frm": into, "rto": odd, "xct": None}[rnd],
            accumulator=into,
            output=into,
            source="RISCVIME",
        )
    if rnd == "xct" or output != BINARY32 or products < 2:
        raise ValueError(
            f"psm=1 with rnd={rnd!r}, {products} products and {output.name!r} outputs is not described: the "
            f"bulk normalization that is has two products or more, rounds to binary32, and takes rnd frm or "
            f"rto; give an Accumulation with a Window for another reduction"
        )
    how = bulk_normalized(operands, products)
    assert isinstance(how.accumulator, Window)
    window = replace(how.accumulator, result=odd if rnd == "rto" else into)
    return replace(how, name="_".join(parts), accumulator=window, total=into, output=into, source="RISCVIME")


def disclosed(how: Accumulation) -> Disclosure | None:
    """Return what an accumulation is in the extension's terms, or None if it is no sum of the extension.

    >>> from lowprec.spec.accumulations import accumulation
    >>> print(disclosed(accumulation("fp32_fma")))
    G * W = 1, psm = 0, rnd = xct, frm = rne
    >>> disclosed(accumulation("hopper_mma_binary16_binary32")) is None  # C is aligned with the products
    True
    """
    window = how.accumulator if isinstance(how.accumulator, Window) else None
    into = how.total if window else how.accumulator
    if not isinstance(into, tuple) or into[0] != how.output[0] or how.addend != "first" or how.split:
        return None
    partial = window.result if window else how.product
    products = window.step if window else max(how.term, 1)
    frm = _frm_of(into[1].rounding)
    plain = how.order == (chunked(products) if window else SEQUENTIAL) and how.operand_rounding is None
    if not plain or frm is None or into[1].subnormals != "keep" or (window and window.scales != "none"):
        return None
    if partial is None:
        return Disclosure(products=products, psm=0, rnd="xct", frm=frm)
    rules: dict[Rounding, Rnd] = {TO_ODD: "rto", FRM[frm]: "frm"}
    rnd = rules.get(partial[1].rounding)
    if partial[0] != into[0] or rnd is None:
        return None
    if window and window.fraction_bits is not None:
        return Disclosure(products=products, psm=1, rnd=rnd, frm=frm, window=window)
    return Disclosure(products=products, psm=0, rnd=rnd, frm=frm)


def _frm_of(rounding: Rounding) -> str | None:
    return next((name for name, mode in FRM.items() if mode == rounding), None)
