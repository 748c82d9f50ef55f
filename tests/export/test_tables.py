"""Exported tables are read back by what they are made for: a parser, a C compiler, two simulators."""

import csv
import io
import json
import re

import numpy as np
import pytest

import lowprec as lp
from lowprec.export.tables import Table
from lowprec.spec import catalog
from lowprec.spec.format import Format
from lowprec.spec.projection import Projection
from lowprec.verify.inputs import conversions
from tests.programs import assert_c_header_is_right, need, succeed
from tests.support import most_apart, refusal_test

PRIVATE = Format(name="my format", exponent_bits=3, trailing_bits=2, bias=9, nans=2, infinity=True)
SMALL = [*(fmt for fmt in catalog.FORMATS.values() if fmt.width <= 8), lp.format("binary8p1uf"), PRIVATE]


def bits(values):
    return np.asarray(values, np.float64).view(np.uint64)


def values_of(fmt):
    return lp.decode(np.arange(1 << fmt.width), fmt, dtype=np.float64)


def parsed(text):
    return np.copysign(np.nan, -1.0) if text == "-nan" else float.fromhex(text)


@pytest.mark.parametrize("fmt", most_apart([*SMALL, catalog.BINARY16], SMALL), ids=str)
def test_csv_json_and_npy_load_back_as_the_values_of_all_codes(fmt):
    """Signs of zeros and NaNs included; both columns of the CSV are lossless."""
    want = bits(values_of(fmt))
    lines = [line for line in Table(fmt).render("csv").decode().splitlines() if not line.startswith("#")]
    table = list(csv.DictReader(lines))
    assert [int(row["code"], 16) for row in table] == list(range(1 << fmt.width))
    assert (bits([parsed(row["value"]) for row in table]) == want).all()
    assert (
        bits([parsed(row["decimal"]) if "n" in row["decimal"] else float(row["decimal"]) for row in table])
        == want
    ).all()
    document = json.loads(Table(fmt).render("json"))
    assert (bits([parsed(entry["value"]) for entry in document["codes"]]) == want).all()
    assert (bits(np.load(io.BytesIO(Table(fmt).render("npy")))) == want).all()
    shown = re.findall(r"^\| 0x\w+ \| \w+ \| (\S+) \|", Table(fmt).render("md").decode(), re.MULTILINE)
    assert (bits([parsed(text) for text in shown]) == want).all()


@pytest.mark.parametrize("fmt", SMALL, ids=str)
def test_mem_holds_the_values_as_binary32(fmt):
    """One word a code, all its digits."""
    words = [line for line in Table(fmt).render("mem").decode().splitlines() if not line.startswith("//")]
    assert {len(word) for word in words} == {8}
    want = lp.decode(np.arange(1 << fmt.width), fmt, dtype=np.float32).view(np.uint32)
    assert [int(word, 16) for word in words] == want.tolist()


def test_classes_are_ieee_classes():
    """Of the codes at the borders of e5m2."""
    lines = Table(catalog.E5M2).render("csv").decode().splitlines()
    kinds = {int(line.split(",")[0], 16): line.split(",")[1] for line in lines[2:]}
    assert [kinds[code] for code in (0x00, 0x01, 0x03, 0x04, 0x7B, 0x7C, 0x7D, 0xFF, 0x80, 0x83)] == [
        "zero", "subnormal", "subnormal", "normal", "normal", "infinity", "nan", "nan", "zero", "subnormal",
    ]  # fmt: skip


def operands(fmt, dtype):
    values = conversions.inputs(fmt, dtype)
    return values if fmt.nan_code is not None else values[~np.isnan(values)]


def looked_up(values, sides):
    """Codes by the last threshold not above the magnitude."""
    codes = np.zeros(values.size, np.int64)
    for negative, (firsts, results) in enumerate(sides):
        here = np.signbit(values) == bool(negative)
        codes[here] = np.asarray(results)[np.searchsorted(firsts, np.abs(values[here]), side="right") - 1]
    return codes


@pytest.mark.parametrize(
    "rounding", most_apart(["nearest_even", "toward_negative", "to_odd"], ["nearest_even", "to_odd"])
)
@pytest.mark.parametrize("fmt", SMALL, ids=str)
def test_thresholds_encode_as_the_library_does(fmt, rounding):
    """A table of first magnitudes is the whole projection, in float64 and in binary32."""
    projection = Projection(rounding=rounding)
    values = operands(fmt, np.float64)
    values = values[~np.isnan(values)]
    table = np.load(io.BytesIO(Table(fmt, projection, thresholds=True).render("npy")))
    sides = [
        (side["magnitude"], side["code"]) for side in (table[~table["negative"]], table[table["negative"]])
    ]
    assert (looked_up(values, sides) == lp.encode(values, fmt, rounding=rounding)).all()
    lines = [
        line for line in Table(fmt, projection, True).render("csv").decode().splitlines() if line[0] in "+-"
    ]
    assert [(line[0], parsed(line.split(",")[1]), int(line.split(",")[2], 16)) for line in lines] == [
        ("-" if row["negative"] else "+", row["magnitude"], row["code"]) for row in table
    ]
    singles = operands(fmt, np.float32)
    singles = singles[~np.isnan(singles)]
    sides = []
    for part in Table(fmt, projection, True).render("mem").decode().split("// operands of sign ")[1:]:
        words = part.splitlines()[1:]
        firsts = np.array([int(word[:8], 16) for word in words], np.uint32).view(np.float32)
        sides.append((firsts, [int(word[8:], 16) for word in words]))
    assert (looked_up(singles, sides) == lp.encode(singles, fmt, rounding=rounding)).all()


@pytest.mark.apart
@pytest.mark.parametrize("fmt", [*SMALL[::-2], catalog.BINARY16, catalog.BFLOAT16], ids=str)
def test_the_c_header_compiles_and_gives_every_code(fmt, tmp_path):
    """All modes and policies, from binary32 and from binary64, with every warning an error."""
    for dtype, function, every in ((np.float32, "encode", 1), (np.float64, "encode64", 7)):
        values = operands(fmt, dtype)[:: every * (997 if fmt.width > 8 else 1)]
        # A copy has the layout of the usual kernels.
        assert_c_header_is_right(fmt, Table(fmt).render("c"), function, values.copy(), tmp_path)


def cases_file(fmt, path):
    """Binary32 operands and codes, as $readmemh reads them: 8 and 8 digits."""
    values = operands(fmt, np.float32)
    codes = lp.encode(values, fmt, rounding="toward_positive")
    pairs = zip(values.view(np.uint32).tolist(), codes.tolist(), strict=True)
    path.write_text("".join(f"{operand:08x}{code:08x}\n" for operand, code in pairs))
    return values.size


BENCH = """
`timescale 1ns/1ps
module bench;
    import {package}::*;
    reg [63:0] encodes [0:{encodes_last}];
    reg [31:0] decodes [0:{decodes_last}];
    integer i, wrong;
    initial begin
        $readmemh("{encode_file}", encodes);
        $readmemh("{decode_file}", decodes);
        wrong = 0;
        for (i = 0; i <= {encodes_last}; i = i + 1)
            if (encode(encodes[i][63:32]) !== encodes[i][{top}:0]) wrong = wrong + 1;
        for (i = 0; i <= {decodes_last}; i = i + 1)
            if (decode(i) !== decodes[i]) wrong = wrong + 1;
        $display("%0d wrong", wrong);
        $finish;
    end
endmodule
"""


@pytest.mark.apart
@pytest.mark.parametrize("fmt", SMALL, ids=str)
def test_the_systemverilog_package_simulates_to_the_same_codes(fmt, tmp_path):
    """Icarus Verilog: all codes decoded, all binary32 cases encoded."""
    iverilog = need("iverilog")
    package = tmp_path / "package.sv"
    package.write_bytes(Table(fmt, Projection(rounding="toward_positive")).render("sv"))
    count = cases_file(fmt, tmp_path / "encode.mem")
    (tmp_path / "decode.mem").write_bytes(Table(fmt).render("mem"))
    name = f"lowprec_{fmt.name.replace(' ', '_')}_pkg"
    (tmp_path / "bench.sv").write_text(
        BENCH.format(
            package=name,
            encodes_last=count - 1,
            decodes_last=(1 << fmt.width) - 1,
            encode_file=tmp_path / "encode.mem",
            decode_file=tmp_path / "decode.mem",
            top=fmt.width - 1,
        )
    )
    succeed(iverilog, "-g2012", "-Wall", "-o", tmp_path / "bench", package, tmp_path / "bench.sv")
    assert succeed("vvp", "-n", tmp_path / "bench").split(b"\n")[0] == b"0 wrong"


VHDL_BENCH = """
library ieee;
use ieee.std_logic_1164.all;
use ieee.numeric_std.all;
use std.textio.all;
use ieee.std_logic_textio.all;
use work.{package}.all;
entity bench is end entity;
architecture test of bench is
begin
    process
        file cases : text open read_mode is "{encode_file}";
        variable text_line : line;
        variable word : std_logic_vector(63 downto 0);
        variable wrong, tried : natural := 0;
    begin
        while not endfile(cases) loop
            readline(cases, text_line);
            hread(text_line, word);
            tried := tried + 1;
            if encode(word(63 downto 32)) /= word({top} downto 0) then wrong := wrong + 1; end if;
        end loop;
        file_close(cases);
        for i in VALUES'range loop
            if decode(std_logic_vector(to_unsigned(i, CODE_WIDTH))) /= VALUES(i)
            then wrong := wrong + 1; end if;
        end loop;
        report integer'image(tried) & " tried, " & integer'image(wrong) & " wrong";
        wait;
    end process;
end architecture;
"""


@pytest.mark.apart
@pytest.mark.parametrize("fmt", SMALL[::3], ids=str)
def test_the_vhdl_package_simulates_to_the_same_codes(fmt, tmp_path):
    """GHDL: all binary32 cases encoded; the table's words are those of the mem file."""
    ghdl = need("ghdl")
    text = Table(fmt, Projection(rounding="toward_positive")).render("vhdl")
    (tmp_path / "package.vhdl").write_bytes(text)
    words = re.findall(r'=> x"([0-9a-f]{8})"', text.decode())
    assert words == [line for line in Table(fmt).render("mem").decode().splitlines() if line[0] != "/"]
    count = cases_file(fmt, tmp_path / "encode.mem")
    name = f"lowprec_{fmt.name.replace(' ', '_')}_pkg"
    (tmp_path / "bench.vhdl").write_text(
        VHDL_BENCH.format(package=name, encode_file=tmp_path / "encode.mem", top=fmt.width - 1)
    )
    for file in ("package.vhdl", "bench.vhdl"):
        succeed(ghdl, "-a", "-fsynopsys", tmp_path / file, cwd=tmp_path)
    out = succeed(ghdl, "--elab-run", "-fsynopsys", "bench", cwd=tmp_path)
    assert f"{count} tried, 0 wrong".encode() in out


@pytest.mark.apart
def test_the_systemverilog_package_imports_the_c_header_where_there_is_dpi(tmp_path):
    """The C side at least exists, with the types of the import."""
    gcc = need("gcc")
    (tmp_path / "dpi.c").write_bytes(Table(catalog.E4M3FN).render("c"))
    succeed(
        gcc, "-std=c99", "-DLOWPREC_DPI", "-shared", "-fPIC", tmp_path / "dpi.c", "-o", tmp_path / "dpi.so"
    )
    import ctypes

    encode = ctypes.CDLL(str(tmp_path / "dpi.so")).lowprec_e4m3fn_dpi
    encode.restype, encode.argtypes = ctypes.c_uint32, [ctypes.c_uint32, ctypes.c_int32, ctypes.c_int32]
    assert encode(0x3F800000, 0, 0) == 0x38
    assert b'import "DPI-C" function int unsigned lowprec_e4m3fn_dpi' in Table(catalog.E4M3FN).render("sv")


test_what_cannot_be_is_refused = refusal_test(
    globals(),
    """
Table(catalog.BINARY32).render("csv")
    ValueError: 'binary32' has 32-bit codes; tables as csv are for at most 16 bits
Table(catalog.BFLOAT16).render("sv")
    ValueError: 'bfloat16' has 16-bit codes; tables as sv are for at most 8 bits, as csv, json, md, npy,
    mem or c for 16
""",
)
