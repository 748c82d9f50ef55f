"""The block converter and the dot unit of docs/examples/hdl, simulated: what is said of planted bugs."""

import re
import sys
from pathlib import Path

import pytest

import lowprec as lp
from lowprec.cli.main import main
from lowprec.export.block_vectors import block_suite
from lowprec.verify.compare.block_lines import compare_block_lines
from tests.programs import need, run, succeed

pytestmark = pytest.mark.apart

HDL = Path(__file__).parents[2] / "docs" / "examples" / "hdl"
MX = [HDL / "mx_tb.v", HDL / "mx_convert.v"]

#: What the page says of each planted bug.
NAMED = re.findall(r"^\| `(\w+=-?\w+)` \| (.+) \|$", (HDL / "README.md").read_text(), re.M)
FP4 = ["FRACTION=7", "EXPONENT=2", "TRAILING=1", "LARGEST=7", "EMAX=2"]


@pytest.fixture(scope="module")
def vectors(tmp_path_factory):
    """Files of the default vectors by block format."""
    folder = tmp_path_factory.mktemp("vectors")
    for source, fmt in (("binary32", "mxfp8_e4m3"), ("bfloat16", "mxfp4")):
        made = block_suite(lp.format(source), lp.block_formats[fmt])
        (folder / f"{fmt}.mem").write_bytes(made.render("mem"))
    return folder


def judged(parameters, source, fmt, vectors, tmp_path):
    """The testbench's last line, and the report on what the unit gave."""
    iverilog = need("iverilog")
    options = [f"-Pmx_tb.{each}" for each in parameters]
    succeed(iverilog, "-g2001", "-Wall", *options, "-o", tmp_path / "bench", *MX)
    results = tmp_path / "results.txt"
    said = succeed("vvp", "-n", tmp_path / "bench", f"+vectors={vectors / fmt}.mem", f"+results={results}")
    report = compare_block_lines(results.read_text().splitlines(), lp.format(source), lp.block_formats[fmt])
    return said.decode().splitlines()[-1], report


def test_the_page_names_every_parameter_that_plants_a_bug():
    """In the order of the file, from EMAX on."""
    _, planted = (HDL / "mx_convert.v").read_text().split("LARGEST    =")
    assert list(dict.fromkeys(name.split("=")[0] for name, _ in NAMED)) == re.findall(
        r"parameter (\w+)", planted
    )


@pytest.mark.parametrize(("bug", "words"), NAMED)
def test_vectors_catch_every_bug_of_the_converter_and_its_cause_is_named(bug, words, vectors, tmp_path):
    """All mismatches are explained, and nothing speaks against it."""
    said, report = judged([bug], "binary32", "mxfp8_e4m3", vectors, tmp_path)
    assert re.fullmatch(r"1218 cases, [1-9]\d* differ", said)
    assert report.cause.words == words
    assert report.cause.explained == report.mismatches
    assert report.cause.contradicted == 0


@pytest.mark.parametrize(
    ("bug", "words"),
    [
        ("EMAX=2", None),
        ("EMAX=3", "scales half as large: emax taken as one more"),
        ("UNSEEN=16", "lane 16 of 32 left out of the largest magnitude"),
        ("ZERO_SIGNS=0", "zeros lose their sign"),
    ],
)
def test_the_converter_makes_mxfp4_of_bfloat16(bug, words, vectors, tmp_path):
    """By its parameters alone; bugs are named too."""
    said, report = judged([*FP4, bug], "bfloat16", "mxfp4", vectors, tmp_path)
    assert said.endswith(" 0 differ") == report.agrees == (words is None)
    assert (report.cause and report.cause.words) == words


@pytest.mark.parametrize(
    ("unit", "bench", "parameters", "differ"),
    [
        ("mx_convert", "mx_tb", [], 0),
        ("e4m3fn_dot", "dot_tb", [], 0),
        ("e4m3fn_dot", "dot_tb", ["-GFLOOR=1"], 229),
    ],
)
def test_benches_run_under_verilator(unit, bench, parameters, differ, vectors, tmp_path, monkeypatch):
    """They pass, and a planted bug does not; without vectors nothing was compared."""
    verilator = need("verilator")
    monkeypatch.chdir(HDL)
    file = vectors / "mxfp8_e4m3.mem"
    if bench == "dot_tb":
        file = tmp_path / "dot.mem"
        main(f"vectors dot unit.toml --as mem -o {file}".split(), standalone_mode=False)
    succeed(
        verilator, "--binary", "--top-module", bench, *parameters, "-Mdir", tmp_path / "built",
        f"{bench}.v", f"{unit}.v",
    )  # fmt: skip
    program = tmp_path / "built" / f"V{bench}"
    assert f" cases, {differ} differ\n" in succeed(program, f"+vectors={file}").decode()
    assert b"nothing was compared" in succeed(program, f"+vectors={tmp_path / 'none'}")


@pytest.mark.parametrize("bug", [None, "STORED=1"])
def test_a_scoreboard_of_blocks_names_the_bug(bug, tmp_path):
    """Under cocotb, from the signals of the unit."""
    need("iverilog")
    need("cocotb")
    done = run(sys.executable, HDL / "test_mx.py", tmp_path / "build", *([bug] if bug else []))
    assert done.returncode == (1 if bug else 0), done.stdout + done.stderr
    words = b"explained by scale codes one too high, above elements" if bug else b"38,976 results agree"
    assert words in done.stdout
