"""A format of at most 8 bits as a SystemVerilog or VHDL package: a decode table and an encoder.

The encoder compares the operand's magnitude with the thresholds of one projection, which is how a
designer checks a rounding circuit: as a table it can hardly be wrong. Both are plain functions,
so that simulators without unpacked array constants or DPI take them too.
"""

from __future__ import annotations

from lowprec.export.c_header import identifier
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


def _named(fmt: Format) -> tuple[str, str, list[int], int]:
    """Return the name of a package, what values are written as, and they with their width."""
    kind, values = value_words(fmt)
    return f"lowprec_{identifier(fmt.name)}", kind, values, 32 if kind == "binary32" else 64


def systemverilog(fmt: Format, projection: Projection, provenance: str) -> str:
    """Return the package's text."""
    name, kind, values, bits = _named(fmt)
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
    return f"""\
// {provenance}
// {fmt.name}: the value of every code as {kind} bits; encode binary32 under {projection}.

// A file may have another name than its package, a package has no delays, and constants may be unused.
// verilator lint_off DECLFILENAME
// verilator lint_off TIMESCALEMOD
// verilator lint_off UNUSED
package {name}_pkg;

    localparam int WIDTH = {w};
{fields}
    function automatic [{bits - 1}:0] decode(input [{w - 1}:0] code);
        case (code)
{cases}
            default: decode = {{{bits}{{1'bx}}}};
        endcase
    endfunction

    function automatic [{w - 1}:0] encode(input [31:0] operand);
        reg [30:0] magnitude;
        magnitude = operand[30:0];
        if (magnitude > 31'h7f800000)
            encode = operand[31] ? {w}'h{nans[1]:x} : {w}'h{nans[0]:x};
        else if (!operand[31]) begin
{chains[0]}
        end else begin
{chains[1]}
        end
    endfunction

    // The C header's encode in every mode, where the simulator has DPI: compile it with -DLOWPREC_DPI.
`ifdef LOWPREC_DPI
{modes}
    import "DPI-C" function int unsigned {name}_dpi(
        input int unsigned operand, input int rounding, input int saturation);
`endif

endpackage
// verilator lint_on UNUSED
// verilator lint_on TIMESCALEMOD
// verilator lint_on DECLFILENAME
"""


def vhdl(fmt: Format, projection: Projection, provenance: str) -> str:
    """Return the package's text, VHDL-93 with numeric_std."""
    name, kind, values, bits = _named(fmt)
    w = fmt.width
    code = f'"{{:0{w}b}}"'
    table = ",\n".join(f'        {place} => x"{word:0{bits // 4}x}"' for place, word in enumerate(values))
    then = 'if magnitude >= unsigned\'(x"{:08x}") then code := {}; end if;'
    chains = _chains(fmt, projection, "code := {};", then, code)
    nans = [code.format(each) for each in nan_codes(fmt)]
    return f"""\
-- {provenance}
-- {fmt.name}: the value of every code as {kind} bits; encode binary32 under {projection}.

library ieee;
use ieee.std_logic_1164.all;
use ieee.numeric_std.all;

package {name}_pkg is
    constant CODE_WIDTH : positive := {w};
    subtype code_type is std_logic_vector({w - 1} downto 0);
    subtype value_type is std_logic_vector({bits - 1} downto 0);
    type table_type is array (0 to {len(values) - 1}) of value_type;
    constant VALUES : table_type := (
{table}
    );
    function decode(code : code_type) return value_type;
    function encode(operand : std_logic_vector(31 downto 0)) return code_type;
end package;

package body {name}_pkg is
    function decode(code : code_type) return value_type is
    begin
        return VALUES(to_integer(unsigned(code)));
    end function;

    function encode(operand : std_logic_vector(31 downto 0)) return code_type is
        variable magnitude : unsigned(31 downto 0);
        variable code : code_type;
    begin
        magnitude := unsigned(operand);
        magnitude(31) := '0';
        if magnitude > unsigned'(x"7f800000") then
            if operand(31) = '1' then code := {nans[1]}; else code := {nans[0]}; end if;
        elsif operand(31) = '0' then
{chains[0]}
        else
{chains[1]}
        end if;
        return code;
    end function;
end package body;
"""
