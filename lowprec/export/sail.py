"""Sail fragment by which a vendor discloses a sum to RISC-V's integrated matrix extension.

It composes with the shared pseudocode of the extension's text, whose types and names it uses; what the text
leaves abstract of `fp_internal` it takes from two functions of the model, which it declares. No Sail compiler
has read it.

Floor 4. Imports the standard library.
Source: [RISCVIME].
"""

from __future__ import annotations

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

_MAPPING = """\
// {said}
// Against the draft of Zvvfmm, version 0.1, as of 2026-08.
function get_fp_grouping(SEW : int, W : int, lambda : int) -> int =
  if SEW == {sew} & W == {w} & lambda >= {g} then {g} else undisclosed_grouping(SEW, W, lambda)
function get_fp_psm(SEW : int, W : int, lambda : int) -> psm_mode =
  if SEW == {sew} & W == {w} & lambda >= {g} then {psm} else undisclosed_psm(SEW, W, lambda)
function get_fp_rnd(SEW : int, W : int, lambda : int) -> rnd_mode =
  if SEW == {sew} & W == {w} & lambda >= {g} then RND_{rnd} else undisclosed_rnd(SEW, W, lambda)
"""

_REDUCTION = """\

// A finite product that is not zero is number * 2 ^ exponent. The exponent is the sum of those of the last
// bits of its factors, and a subnormal factor has that of the smallest normal number.
val fp_product_parts : (fp_internal, fp_fmt, fp_fmt) -> option((int, int))
val fp_product_made  : (int, int) -> fp_internal

function cut_number(number : int, places : int) -> int =
  if places <= 0 then number * 2 ^ (0 - places)
  else {{
    let unit : int = 2 ^ places;
    let kept : int = tdiv_int(number, unit);
    let lost : bool = kept * unit != number;
    {cut}
  }}

function largest_exponent(prods, fmt_A : fp_fmt, fmt_B : fp_fmt, found : int) -> int =
  match prods {{
    [||]      => found,
    x :: rest => match fp_product_parts(x, fmt_A, fmt_B) {{
      Some(_, exponent) => largest_exponent(rest, fmt_A, fmt_B, max_int(found, exponent)),
      None()            => largest_exponent(rest, fmt_A, fmt_B, found)
    }}
  }}

function sum_of_cut(prods, fmt_A : fp_fmt, fmt_B : fp_fmt, place : int) -> int =
  match prods {{
    [||]      => 0,
    x :: rest => match fp_product_parts(x, fmt_A, fmt_B) {{
      Some(number, exponent) => cut_number(number, place - exponent) + sum_of_cut(rest, fmt_A, fmt_B, place),
      None()                 => sum_of_cut(rest, fmt_A, fmt_B, place)
    }}
  }}

// {points} are the bits behind the points of both factors. A group with an infinity or a NaN has the sum that
// fp_internal_add gives, product by product.
function fp_disclosed_reduce_group(prods, fmt_A, fmt_B, fmt_C, g_len, W) = {{
  if has_special(prods) then fp_sum_exact(prods)
  else {{
    let e     : int = largest_exponent(prods, fmt_A, fmt_B, {lowest}) + {points};
    let place : int = e - {bits};
    fp_product_made(sum_of_cut(prods, fmt_A, fmt_B, place), place)
  }}
}}
"""


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
    text = _MAPPING.format(
        said=terms, sew=sew, w=w, g=terms.products // w, rnd=terms.rnd.upper(),
        psm="PSM_DISCLOSED" if terms.psm else "PSM_EXACT",
    )  # fmt: skip
    if terms.window is not None:
        window, points = terms.window, x.trailing_bits + y.trailing_bits
        text += _REDUCTION.format(
            cut=_CUTS[window.cut],
            points=points,
            bits=window.fraction_bits,
            lowest=window.lowest_exponent - points,
        )
    return text
