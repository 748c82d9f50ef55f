"""The SystemVerilog packages and their DPI function under Verilator, in all modes."""

import re

import numpy as np
import pytest

import lowprec as lp
from lowprec.export.c.c_header import identifier
from lowprec.export.tables import Table
from lowprec.spec import catalog
from lowprec.spec.format import Format, Sign
from lowprec.spec.projection import Projection, Saturation
from lowprec.spec.rounding import MODES
from lowprec.verify.inputs import conversions
from tests.programs import need, run, succeed

pytestmark = pytest.mark.apart

#: Names that are none in C: with blanks, signs, letters that are not ASCII, a digit first.
PRIVATE = [
    Format(name="my format", exponent_bits=3, trailing_bits=2, bias=9, nans=2, infinity=True),
    Format(name="8-bit/größer.1", exponent_bits=5, trailing_bits=2, bias=20, subnormals=False),
    Format(name="case", exponent_bits=4, trailing_bits=2, bias=3, sign=Sign.UNSIGNED),
]
#: With and without sign, zero, subnormals, infinities and NaNs, of floating and of fixed point.
NAMED = ["e4m3fn", "e5m2", "e5m2fnuz", "e8m0fnu", "ue4m3", "ue5m3", "e3m0fn", "e2m1fn", "e2m3fn", "int8f6"]
NAMED += ["sm8f6", "int4", "uint4", "uint8", "binary8p1uf", "binary8p3se"]
FORMATS = [*map(lp.format, NAMED), *PRIVATE]

#: What the packages encode under.
ROUNDING = "toward_positive"

BENCH = """
module bench;
    reg [55:0] rows [0:{last}];     // format, mode, saturation, operand, code
    int wrong = 0;
    int compared = 0;
    bit [31:0] x;

    // The code by the DPI function, and by the table, which knows one mode.
    function automatic bit [15:0] codes(int fmt, bit [31:0] x, int rounding, int saturation);
        case (fmt)
{cases}
            default: codes = 16'hxxxx;
        endcase
    endfunction

    task automatic judge(int fmt, bit [31:0] x, int rounding, int saturation, int want);
        bit [15:0] made;
        made = codes(fmt, x, rounding, saturation);
        compared++;
        if (int'(made[15:8]) != want
                || (rounding == {rounding} && saturation == 0 && made[15:8] != made[7:0])) begin
            wrong++;
            if (wrong < 10)
                $display("format %0d, %0d, %0d: %h is %h", fmt, rounding, saturation, x, made);
        end
    endtask

    initial begin
        $readmemh("{file}", rows);
        foreach (rows[i])
            judge(int'(rows[i][55:48]), rows[i][39:8], int'(rows[i][47:44]), int'(rows[i][43:40]),
                  int'(rows[i][7:0]));
        for (int fmt = 0; fmt < {count}; fmt++)
            for (int i = 0; i < 1 << 16; i++) begin
                x = {{i[15:0], 16'($urandom)}};
                judge(fmt, x, {rounding}, 0, int'(8'(codes(fmt, x, {rounding}, 0))));
            end
        $display("%0d compared, %0d wrong", compared, wrong);
        $finish;
    end
endmodule
"""


def test_dpi_functions_give_lowprecs_codes_in_every_mode(tmp_path):
    """Formats of all kinds in one bench, private ones too; the table agrees, on all of binary32."""
    verilator = need("verilator")
    rows, cases, headers, packages = [], [], [], []
    for number, fmt in enumerate(FORMATS):
        name = f"lowprec_{identifier(fmt.name)}"
        (tmp_path / f"{name}.h").write_bytes(Table(fmt).render("c"))
        (tmp_path / f"{name}_pkg.sv").write_bytes(Table(fmt, Projection(rounding=ROUNDING)).render("sv"))
        headers.append(f'#include "{tmp_path / name}.h"\n')
        packages.append(tmp_path / f"{name}_pkg.sv")
        cases.append(
            f"            {number}: codes = {{8'({name}_pkg::{name}_dpi(x, rounding, saturation)), "
            f"8'({name}_pkg::encode(x))}};"
        )
        values = conversions.inputs(fmt, np.float32)
        values = values if fmt.nan_code is not None else values[~np.isnan(values)]
        values = np.ascontiguousarray(values[:: max(values.size // 500, 1)])
        for (mode, rounding), (policy, saturation) in (
            (m, s) for m in enumerate(MODES) for s in enumerate(Saturation)
        ):
            codes = lp.encode(values, fmt, rounding=rounding, saturation=saturation)
            rows += [
                f"{number:02x}{mode:x}{policy:x}{operand:08x}{code:02x}\n"
                for operand, code in zip(values.view(np.uint32).tolist(), codes.tolist(), strict=True)
            ]
    (tmp_path / "rows.mem").write_text("".join(rows))
    (tmp_path / "dpi.c").write_text("".join(headers))
    (tmp_path / "bench.sv").write_text(
        BENCH.format(
            last=len(rows) - 1,
            cases="\n".join(cases),
            file=tmp_path / "rows.mem",
            rounding=[mode.name for mode in MODES].index(ROUNDING),
            count=len(FORMATS),
        )
    )
    succeed(
        verilator, "--binary", "--top-module", "bench", "-O0", "-CFLAGS", "-DLOWPREC_DPI -O0",
        "-DLOWPREC_DPI", *packages, tmp_path / "bench.sv", tmp_path / "dpi.c", cwd=tmp_path,
    )  # fmt: skip
    said = succeed(tmp_path / "obj_dir" / "Vbench", cwd=tmp_path).decode()
    assert f"{len(rows) + (len(FORMATS) << 16)} compared, 0 wrong\n" in said, said


@pytest.mark.parametrize("fmt", [catalog.E4M3FN, catalog.E8M0FNU, PRIVATE[1]], ids=str)
def test_a_package_has_no_warning(fmt, tmp_path):
    """Under all of Verilator's, with DPI and without, whatever the file's name."""
    verilator = need("verilator")
    (tmp_path / "anything.sv").write_bytes(Table(fmt).render("sv"))
    for options in ((), ("-DLOWPREC_DPI",)):
        done = run(verilator, "--lint-only", "-Wall", *options, tmp_path / "anything.sv")
        assert (done.returncode, done.stdout, done.stderr) == (0, b"", b"")


def test_a_package_names_modes_and_policies_as_the_header_numbers_them():
    """In the order of its enumerations."""
    package, header = (Table(catalog.E5M2).render(kind).decode() for kind in ("sv", "c"))
    numbers = dict(re.findall(r"localparam int (\w+) = (\d+);", package.split("`ifdef")[1]))
    named = [
        re.findall(r"LOWPREC_(\w+)", part) for part in re.findall(r"typedef enum \{(.*?)\}", header, re.S)
    ]
    assert numbers == {name: str(number) for part in named for number, name in enumerate(part)}
    assert set(numbers) >= {"NEAREST_EVEN", "SATURATE_FINITE"}
