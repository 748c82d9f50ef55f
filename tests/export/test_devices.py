"""Real devices under test, in Verilog and in C: the reference passes what is right and catches a planted bug.

The devices are those of docs/examples. Everything here runs as a user runs it: `lowprec` as a command, and
the simulator and the compiler on the files that it wrote.
"""

import doctest
import itertools
import os
import re
import shutil
import subprocess
import sys
import sysconfig
from pathlib import Path

import numpy as np
import pytest

import lowprec as lp
from lowprec.spec.projection import Saturation
from lowprec.spec.rounding import MODES
from tests.programs import need

pytestmark = pytest.mark.apart

EXAMPLES = Path(__file__).parents[2] / "docs" / "examples"
HDL, C = EXAMPLES / "hdl", EXAMPLES / "c"
STRICT = ["gcc", "-std=c99", "-Wall", "-Wextra", "-Werror", "-pedantic"]
CONVERT = ["convert", "binary32", "e4m3fn"]

#: What the commands in the examples find first: the `lowprec` and the `python` that run these tests.
ENVIRONMENT = {
    **{name: value for name, value in os.environ.items() if name != "PYTEST_CURRENT_TEST"},
    "PATH": os.pathsep.join([sysconfig.get_path("scripts"), os.environ.get("PATH", "")]),
}


def run(command, cwd, given=None):
    """Run a command to its end, and keep what it said."""
    return subprocess.run(
        [str(word) for word in command], cwd=cwd, input=given, env=ENVIRONMENT, capture_output=True, text=True
    )


def output(command, cwd, given=None):
    """Return the output of a command that must succeed."""
    done = run(command, cwd, given)
    assert done.returncode == 0, f"{done.args} exited with {done.returncode}\n{done.stdout}{done.stderr}"
    return done.stdout


def operands_of(text):
    """Binary32 operands in a bench's messages or a program's lines, as an array."""
    return np.array([int(word, 16) for word in text], dtype=np.uint32).view(np.float32)


def are_ties(values):
    """Return whether every value lies exactly between two codes: only there do away and zero differ."""
    away, zero = (lp.encode(values, "e4m3fn", rounding=mode) for mode in ("nearest_away", "nearest_zero"))
    return bool((away != zero).all())


@pytest.fixture(scope="module")
def vectors():
    """The vectors as Verilog reads them: operand and result in one word, after comments."""
    return output(["lowprec", "vectors", *CONVERT, "--as", "mem"], None)


@pytest.fixture(scope="module")
def operands(vectors):
    """The operands of the vectors, a hexadecimal word a line, as `lowprec vectors --operands` prints them."""
    return "".join(f"{line[:8]}\n" for line in vectors.splitlines() if not line.startswith("//"))


# -- what the examples' pages say ---------------------------------------------------------------------


def commands_of(page):
    """The commands in a page's console blocks, each with what it must print; `> ` goes on with a command."""
    blocks = re.findall(r"^```console\n(.*?)^```", page.read_text(), re.M | re.S)
    _, *parts = re.split(r"^\$ ", "".join(blocks), flags=re.M)
    return [re.fullmatch(r"([^\n]*\n(?:> [^\n]*\n)*)(.*)", part, re.S).groups() for part in parts]


PAGES = {
    "hdl": (HDL / "README.md", HDL, ["iverilog", "verilator", "cocotb"]),
    "c": (C / "README.md", C, ["gcc"]),
    "dot unit": (EXAMPLES.parent / "verify-your-dot-unit.md", HDL, ["iverilog", "cocotb"]),
}


@pytest.mark.parametrize(("page", "folder", "tools"), PAGES.values(), ids=PAGES)
def test_commands_of_a_page_print_what_it_shows(page, folder, tools, tmp_path):
    """So the devices are seen to pass: the pages show all cases, no difference, and the planted bug."""
    for tool in tools:
        need(tool)
    shutil.copytree(folder, tmp_path / "example", ignore=shutil.ignore_patterns("build", "__pycache__"))
    commands = commands_of(page)
    script = "".join(re.sub("^> ", "", command, flags=re.M) + "echo '--- next'\n" for command, _ in commands)
    printed = output(["bash", "-c", script], tmp_path / "example").split("--- next\n")
    assert len(printed) == len(commands) + 1
    for (command, want), got in zip(commands, printed[:-1], strict=True):
        same = doctest.OutputChecker().check_output(want, got, doctest.ELLIPSIS)
        assert same, f"$ {command}printed\n{got}\nand the page shows\n{want}"


# -- the planted bug, under Icarus Verilog -------------------------------------------------------------


def test_verilog_bench_catches_ties_away(vectors, tmp_path):
    """Every difference that it prints is a tie, and no tie with an even code below it is left out."""
    need("iverilog")
    (tmp_path / "convert.mem").write_text(vectors)
    sources = [HDL / "encode_tb.v", HDL / "e4m3fn_encode.v"]
    output(["iverilog", "-g2001", "-Wall", "-Pencode_tb.TIES_AWAY=1", "-o", "encode_tb", *sources], tmp_path)
    lines = output(["vvp", "encode_tb", "+vectors=convert.mem"], tmp_path).splitlines()
    values = operands_of(re.findall(r"^operand (\w+):", "\n".join(lines), re.M))
    assert are_ties(values)
    # Of each sign the ties above the even magnitudes 0, 2, ... 126, the last being the one at 464.
    assert len(values) == 2 * 64
    assert re.fullmatch(r"\d+ cases, 128 differ", lines[-1])


@pytest.mark.parametrize(
    "text", ["", "// a header and no vectors\n", None], ids=["empty", "header", "missing"]
)
def test_verilog_bench_never_passes_on_nothing(text, tmp_path):
    """Without vectors there is no line that could be taken for a success."""
    need("iverilog")
    if text is not None:
        (tmp_path / "convert.mem").write_text(text)
    output(["iverilog", "-g2001", "-o", "bench", HDL / "encode_tb.v", HDL / "e4m3fn_encode.v"], tmp_path)
    printed = output(["vvp", "bench", "+vectors=convert.mem"], tmp_path)
    assert "nothing was compared" in printed
    assert "0 differ" not in printed


def test_verilog_decoder_bench_notices_a_short_table(tmp_path):
    """Codes that the table lacks differ: nothing is assumed about them."""
    need("iverilog")
    table = output(["lowprec", "table", "e4m3fn", "--as", "mem"], tmp_path)
    (tmp_path / "e4m3fn.mem").write_text("".join(table.splitlines(keepends=True)[:-10]))
    output(["iverilog", "-g2001", "-o", "bench", HDL / "decode_tb.v", HDL / "e4m3fn_decode.v"], tmp_path)
    printed = output(["vvp", "bench", "+table=e4m3fn.mem"], tmp_path)
    assert printed.splitlines()[-1] == "256 cases, 10 differ"


def test_cocotb_catches_ties_away(tmp_path):
    """Python inside the simulator sees this bug too."""
    need("iverilog")
    need("cocotb")
    done = run([sys.executable, HDL / "test_e4m3fn.py", tmp_path / "build", "--ties-away"], tmp_path)
    assert done.returncode == 1, done.stdout + done.stderr
    words = re.findall(r" ERROR .* operand (\w+): got \w+, want \w+$", done.stdout, re.M)
    assert len(words) == 128
    assert are_ties(operands_of(words))


@pytest.mark.parametrize(
    ("bug", "cause"),
    [
        (None, None),
        ("FRACTION=23", "F = 23 instead of 24: fraction bits that alignment keeps"),
        ("DROPPED=0", "lane 0 of 4 left out"),
        ("FLOOR=1", "terms cut floor"),
        ("NEAREST=1", "sums of steps: ties away from zero"),
    ],
)
def test_scoreboard_names_the_bug_of_a_dot_product_unit(bug, cause, tmp_path):
    """In the report that ends the test; without a bug all sums agree."""
    need("iverilog")
    need("cocotb")
    done = run([sys.executable, HDL / "test_dot.py", tmp_path / "build", *([bug] if bug else [])], tmp_path)
    assert done.returncode == (1 if bug else 0), done.stdout + done.stderr
    if bug:
        assert re.search(r"\d of 3,000 results differ", done.stdout)
        explained = re.search(
            rf"explained by {re.escape(cause)}: ([\d,]+) of ([\d,]+) mismatches", done.stdout
        )
        assert explained, done.stdout
        assert explained[1] == explained[2]
    else:
        assert "3,000 results agree" in done.stdout


# -- the program in C ---------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def header(tmp_path_factory):
    """A folder with the exported header."""
    folder = tmp_path_factory.mktemp("header")
    (folder / "lowprec_e4m3fn.h").write_text(output(["lowprec", "table", "e4m3fn", "--as", "c"], folder))
    return folder


def compiled(header, name, *options, source=C / "convert.c"):
    """The path of a program, compiled with every warning an error."""
    output([*STRICT, *options, "-I.", "-o", name, source], header)
    return header / name


def test_header_encodes_as_lowprec_in_every_mode(header, operands):
    """Every mode under every saturation, every operand of the vectors."""
    need("gcc")
    program = compiled(header, "convert")
    values = operands_of(operands.split())
    assert len(values) > 3000
    for mode, saturation in itertools.product(MODES, Saturation):
        lines = output([program, mode, saturation], header, operands).split()
        assert lines[::2] == operands.split()
        wanted = lp.encode(values, "e4m3fn", rounding=mode, saturation=saturation)
        assert lines[1::2] == [f"{code:02x}" for code in wanted.tolist()], f"{mode}, {saturation}"


def test_header_decodes_as_lowprec(header):
    """All 256 codes, to the last bit."""
    need("gcc")
    source = header / "decode.c"
    source.write_text(
        "#include <stdio.h>\n"
        '#include "lowprec_e4m3fn.h"\n'
        "int main(void)\n"
        "{\n"
        "    unsigned code;\n"
        "    for (code = 0; code < 256; code++)\n"
        '        printf("%08lx\\n", (unsigned long)lowprec_e4m3fn_decode((uint8_t)code));\n'
        "    return 0;\n"
        "}\n"
    )
    lines = output([compiled(header, "decode", source=source)], header).split()
    wanted = lp.decode(np.arange(256, dtype=np.uint8), "e4m3fn").view(np.uint32)
    assert lines == [f"{word:08x}" for word in wanted.tolist()]


def test_pipe_catches_ties_away_and_names_ties(header, operands):
    """Exit code 1, and the sum says what all the wrong lines have in common."""
    need("gcc")
    results = output([compiled(header, "ties_away", "-DTIES_AWAY")], header, operands)
    done = run(["lowprec", "compare", "-", *CONVERT], header, results)
    assert done.returncode == 1, done.stdout + done.stderr
    # The two are those between 448 and what would be 480.
    assert "128 of " in done.stdout
    assert "126 at a tie, 2 at a tie, past the largest value" in done.stdout


def test_pipe_refuses_a_program_that_echoes(header, operands):
    """`cat` answers nothing; operands alone are no results."""
    printed = output(["cat"], header, operands)
    done = run(["lowprec", "compare", "-", *CONVERT], header, printed)
    assert done.returncode == 1, done.stdout + done.stderr


@pytest.mark.parametrize(
    "arguments", [["no_such_mode"], ["nearest_even", "no_such_policy"], ["to_odd", "none", "x"]]
)
def test_program_refuses_what_it_does_not_know(arguments, header):
    """Exit code 2 and no results, so that a mistyped mode is not a default."""
    need("gcc")
    done = run([compiled(header, "usage"), *arguments], header, "3f800000\n")
    assert (done.returncode, done.stdout) == (2, "")


@pytest.mark.parametrize("line", ["xyz", "3f80000000", "3f800000 38", ""])
def test_program_refuses_a_damaged_operand(line, header):
    """With the line's number."""
    need("gcc")
    done = run([compiled(header, "damaged")], header, f"3f800000\n{line}\n")
    assert done.returncode == 2
    assert "line 2 " in done.stderr


# -- missing tools ------------------------------------------------------------------------------------


def test_missing_tool_is_a_skip_or_a_failure(monkeypatch):
    """Nobody takes a test that did not run for one that passed."""
    monkeypatch.setenv("PATH", "")
    reason = "not run: iverilog is not installed .apt-get install iverilog."
    monkeypatch.delenv("LOWPREC_REQUIRE", raising=False)
    with pytest.raises(pytest.skip.Exception, match=reason):
        need("iverilog")
    monkeypatch.setenv("LOWPREC_REQUIRE", "frameworks,programs")
    with pytest.raises(pytest.fail.Exception, match=reason):
        need("iverilog")
