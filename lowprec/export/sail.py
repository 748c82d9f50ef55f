"""Sail fragment by which a vendor discloses a sum to RISC-V's integrated matrix extension.

It composes with the shared pseudocode of the extension's text, whose types and names it uses; what the text
leaves abstract of `fp_internal` it takes from two functions of the model, which it declares. No Sail compiler
has read it.

Floor 4. Imports the standard library.
Source: [RISCVIME].
"""

from __future__ import annotations

from lowprec.export.filling import filled
from lowprec.spec.accumulation import Accumulation
from lowprec.spec.riscv_ime import disclosed

__all__ = ["fragment"]

#: What is kept of a product whose last `places` bits are cut, by the rule.
_CUTS = {
    "toward_zero": "kept",
    "floor": "if lost & number < 0 then kept - 1 else kept",
    "to_odd": "if lost & kept % 2 == 0 then (if number < 0 then kept - 1 else kept + 1) else kept",
    "nearest_away": "if 2 * abs_int(number - kept * unit) >= unit "
    "then (if number < 0 then kept - 1 else kept + 1) else kept",
}


def fragment(how: Accumulation) -> str:
    r"""Return the Sail fragment of a sum.

    >>> from lowprec.spec.catalog import BINARY32, E4M3FN
    >>> from lowprec.spec.riscv_ime import riscv_ime
    >>> how = riscv_ime((E4M3FN, E4M3FN), BINARY32, 8, "rto", psm=1)
    >>> print(*fragment(how).splitlines()[3:5], sep="\n")
      if SEW == 32 & W == 4 & lambda >= 2 then 2 else undisclosed_grouping(SEW, W, lambda)
    function get_fp_psm(SEW : int, W : int, lambda : int) -> psm_mode =

    Raises ValueError: an accumulation that is no sum of the extension.
    """
    terms = disclosed(how)
    if terms is None or how.operands is None:
        raise ValueError(
            f"{how.name or 'the accumulation'} is no sum of RISC-V's matrix extension: groups of "
            f"products in sequence, each rounded to C's format or not, and added to C"
        )
    x, y = how.operands
    sew, width = how.output[0].width, max(x.width, y.width)
    w = sew // width
    if x.width != y.width or sew % width or terms.products % w:
        raise ValueError(
            f"groups of {terms.products} products of {x.name} and {y.name} in {how.output[0].name} are not "
            f"whole sub-dot-products of W elements: the extension has no such instruction"
        )
    said = {
        "said": terms, "sew": sew, "w": w, "g": terms.products // w, "rnd": terms.rnd.upper(),
        "psm": "PSM_DISCLOSED" if terms.psm else "PSM_EXACT",
    }  # fmt: skip
    text = filled("disclosed.sail", said)
    if terms.window is not None:
        window, points = terms.window, x.trailing_bits + y.trailing_bits
        how_cut = {"cut": _CUTS[window.cut], "points": points, "bits": window.fraction_bits}
        text += "\n" + filled("reduction.sail", {**how_cut, "lowest": window.lowest_exponent - points})
    return text
