"""A format of at most 8 bits as a SystemVerilog or VHDL package: a decode table and an encoder.

The encoder compares the operand's magnitude with the thresholds of one projection, which is how a
designer checks a rounding circuit: as a table it can hardly be wrong. Both are plain functions,
so that simulators without unpacked array constants or DPI take them too.
"""

from __future__ import annotations

from lowprec.export.c.c_header import identifier
from lowprec.export.filling import filled
from lowprec.export.tabulate import nan_codes, value_words
from lowprec.spec.codebook import Codebook
from lowprec.spec.format import Format
from lowprec.spec.projection import Projection, Saturation
from lowprec.spec.rounding import MODES
from lowprec.verify.reference.binary32_steps import binary32_steps


def _chains(fmt: Format, projection: Projection, first: str, then: str, code: str) -> list[str]:
    """Return the encoder's comparisons for each sign: of the first code, and of each that follows."""
    chains = []
    for magnitudes, codes in binary32_steps(fmt, projection):
        named = [code.format(each) for each in codes]
        lines = [first.format(named[0])]
        lines += [
            then.format(magnitude, each) for magnitude, each in [*zip(magnitudes, named, strict=True)][1:]
        ]
        chains.append("\n".join(f"            {line}" for line in lines))
    return chains


def _said(fmt: Format, projection: Projection, provenance: str) -> tuple[dict[str, object], list[int], int]:
    """Return what both packages say, the words of the values, and the bits of a word."""
    kind, values = value_words(fmt)
    bits = 32 if kind == "binary32" else 64
    said = {
        "provenance": provenance,
        "format": fmt.name,
        "kind": kind,
        "projection": projection,
        "name": f"lowprec_{identifier(fmt.name)}",
        "width": fmt.width,
        "code_top": fmt.width - 1,
        "bits": bits,
        "value_top": bits - 1,
    }
    return said, values, bits


def systemverilog(fmt: Format, projection: Projection, provenance: str) -> str:
    """Return the package's text."""
    said, values, bits = _said(fmt, projection, provenance)
    w = fmt.width
    cases = "\n".join(
        f"            {w}'h{code:x}: decode = {bits}'h{word:0{bits // 4}x};"
        for code, word in enumerate(values)
    )
    then = "if (magnitude >= 31'h{:08x}) encode = {};"
    chains = _chains(fmt, projection, "encode = {};", then, f"{w}'h{{:x}}")
    nans = nan_codes(fmt)
    names = [mode.name.upper() for mode in MODES], [f"SATURATE_{policy.name}" for policy in Saturation]
    fields = ""
    if not isinstance(fmt, Codebook):
        fields = (
            f"    localparam int EXPONENT_BITS = {fmt.exponent_bits};\n"
            f"    localparam int TRAILING_BITS = {fmt.trailing_bits};\n"
        )
    modes = "\n".join(
        f"    localparam int {name} = {number};" for each in names for number, name in enumerate(each)
    )
    said |= {
        "fields": fields,
        "cases": cases,
        "positive": chains[0],
        "negative": chains[1],
        "nan": f"{nans[0]:x}",
        "negative_nan": f"{nans[1]:x}",
        "modes": modes,
    }
    return filled("package.sv", said)


def vhdl(fmt: Format, projection: Projection, provenance: str) -> str:
    """Return the package's text, VHDL-93 with numeric_std."""
    said, values, bits = _said(fmt, projection, provenance)
    w = fmt.width
    code = f'"{{:0{w}b}}"'
    table = ",\n".join(f'        {place} => x"{word:0{bits // 4}x}"' for place, word in enumerate(values))
    then = 'if magnitude >= unsigned\'(x"{:08x}") then code := {}; end if;'
    chains = _chains(fmt, projection, "code := {};", then, code)
    nans = [code.format(each) for each in nan_codes(fmt)]
    said |= {
        "table": table,
        "last": len(values) - 1,
        "positive": chains[0],
        "negative": chains[1],
        "nan": nans[0],
        "negative_nan": nans[1],
    }
    return filled("package.vhd", said)
