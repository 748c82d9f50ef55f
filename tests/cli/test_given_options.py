"""Options that are given replace what a format or a capture says, and files are as good as names."""

import dataclasses
import os
import re
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from click.testing import CliRunner
from junitparser import JUnitXml

import lowprec as lp
from lowprec.cli.main import main

CAPTURE = Path(__file__).parents[2] / "docs" / "examples" / "capture.npz"


def said(*words):
    """Return the first line of a command's output, or of its error."""
    done = CliRunner().invoke(main, [*map(str, words)])
    text = done.stdout.splitlines()
    return text[0] if text else done.stderr.splitlines()[-1]


@pytest.mark.parametrize(
    ("question", "words", "options"),
    [
        ("cast_binary32_e4m3fn", ("--saturation", "none"), {"saturation": "none"}),
        ("cast_binary32_e4m3fn", ("--rounding", "nearest_even"), {"rounding": "nearest_even"}),
        ("cast_e4m3fn_binary32", ("--nan", "exact"), {"any_nan": False}),
    ],
)
def test_an_option_replaces_what_a_capture_expects_though_it_is_the_default(question, words, options):
    wanted = lp.read_capture(CAPTURE)[question].compare(**options, why=False).sum()
    assert "differ" in wanted
    assert said("compare", f"{CAPTURE}:{question}", *words, "--no-why") == wanted
    assert "agree" in said("compare", f"{CAPTURE}:{question}", "--no-why")


def test_an_option_replaces_what_a_block_format_says_though_it_is_the_default(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    x = np.random.default_rng(0).standard_normal((8, 256)).astype(np.float32)
    blocks = lp.encode(x, "mxfp8_e4m3", saturation="none")
    for name, array in {"x": x, "c": blocks.codes, "s": blocks.scales}.items():
        np.save(f"{name}.npy", array)
    words = "compare", "x.npy", "c.npy", "--to", "mxfp8_e4m3", "--scales", "s.npy", "--no-why"
    assert said(*words) == "21 of 2,048 results differ (1.03%): 21 elements under the right scale"
    assert said(*words, "--saturation", "none") == "2,048 results agree"
    header = said("vectors", "block", "bfloat16", "mxfp8_e4m3", "--saturation", "none", "--samples", "1")
    assert "--saturation none" in header


def test_a_profile_beside_a_rounding_is_refused_of_lines_too(tmp_path):
    lines = tmp_path / "lines.txt"
    lines.write_text("3c00 00003c00\n")
    words = "compare", lines, "convert", "binary16", "binary32", "--profile", "x86", "--saturation", "none"
    assert said(*words).startswith(
        "Error: --profile and --rounding, --saturation or --subnormals all say how"
    )


@pytest.mark.parametrize(
    "words",
    [
        "block bfloat16 mxfp4 --rounding toward_zero",
        "block bfloat16 mxfp8_e4m3 --saturation none",
        "block bfloat16 mxfp8_e4m3 --subnormals flush_results",
        "convert binary16 e4m3fn --subnormals flush_results",
    ],
)
def test_vectors_are_judged_by_the_options_that_made_them(words, tmp_path):
    lines = tmp_path / "lines.txt"
    lines.write_text(CliRunner().invoke(main, ["vectors", *words.split(), "--samples", "1"]).stdout)
    operation, one, other, *options = words.split()
    assert said("compare", lines, operation, one, other, *options).endswith(" agree")
    assert "differ" in said("compare", lines, operation, one, other, "--no-why")


def test_files_of_profiles_accumulations_and_block_formats_are_names(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    accumulation = dataclasses.replace(lp.accumulations["fp32_fma"], name="mine")
    Path("a.toml").write_text(lp.to_toml(accumulation))
    Path("p.toml").write_text(lp.to_toml(dataclasses.replace(lp.profiles["ocp"], name="ours")))
    Path("cast.toml").write_text(lp.to_toml(dataclasses.replace(lp.profiles["cuda_satfinite"], name="cast")))
    Path("b.toml").write_text(lp.to_toml(dataclasses.replace(lp.block_formats["mxfp4"], name="blocks")))
    question = f"{CAPTURE}:matmul_binary32"
    assert "unknown" not in said("compare", question, "--accumulation", "a.toml", "--no-why")
    words = "compare", f"{CAPTURE}:cast_binary32_e4m3fn", "--no-why", "--profile"
    assert said(*words, "cast.toml") == said(*words, "cuda_satfinite")
    words = (
        "equal",
        "p.toml:ours",
        "ocp",
        "--to",
        "mxfp4",
        "--profile",
        "p.toml",
        "--samples",
        "64",
    )
    assert said(*words) == "ours and ocp give the same bits in mxfp4"
    lines = CliRunner().invoke(main, ["vectors", "block", "b.toml", "bfloat16", "--samples", "1"]).stdout
    Path("v.txt").write_text(lines)
    assert said("compare", "v.txt", "block", "b.toml", "bfloat16").endswith("results agree")


#: Commands, and how they are refused; `...` ends what every definition without a name is told.
IGNORED = """
table e4m3fn --rounding toward_zero | --rounding and --saturation are of --thresholds, and of sv
compare x.npy c.npy --subnormals keep | --subnormals is of the format of results: name it, --to
compare x.npy c.npy --define exponent_bits=3,trailing_bits=4 | ...
compare x.npy c.npy --to mxfp4 --define exponent_bits=3,trailing_bits=4 | ...
compare - dot fp32_fma --define exponent_bits=3,trailing_bits=4 | ...
vectors dot ada_mma_e4m3fn_binary32 --define exponent_bits=3,trailing_bits=4 | ...
vectors block bfloat16 mxfp4 --define exponent_bits=3,trailing_bits=4 | ...
vectors convert binary32 e4m3fn --define exponent_bits=3,trailing_bits=4 | ...
check-format mxfp4 --define exponent_bits=3,trailing_bits=4 | ...
show e4m3fn --define exponent_bits=3,trailing_bits=4 | ...
table e4m3fn --define exponent_bits=3,trailing_bits=4 | ...
check-format e4m3fn --laws | FORMAT says nothing about --laws, which lists all laws; leave it out
check-format --laws --json | --json says nothing about --laws, which lists all laws; leave it out
vectors add e5m2 e5m2 e5m2 --packed | --packed says nothing about add; leave it out
vectors dot fp32_fma e5m2 e5m2 --coverage --packed | --packed says nothing about the plan that
compare - add e5m2 e5m2 e5m2 --size 2,2,2 | --size says nothing about lines of add; leave it out
compare - add e5m2 e5m2 e5m2 --operation add | --operation is for files of arrays, and lines name
compare x.npy c.npy --to e5m2 --length 4 | --length is of lines, which a program printed, and files have
equal ocp floor --to mxfp4 --input x.npy --seed 1 | --seed is of matrices that are made, and --input is what
equal ocp floor --to mxfp4 --rule ceil --no-why | --rule is of the definition, which --no-why leaves out
warm fp32_fma --type bfloat16 | --type is of formats and block formats, and none is named; leave it out
warm mxfp4 --flags | --flags is of formats, and none is named; leave it out
warm e4m3fn --verb cast | cast goes from each format to each other one: name two
identify --rows rows.txt --budget 9 | --budget is of questions to a --command; leave it out
conform numpy --values x.npy --seed 9 | --seed is of inputs that are made, and --values are what is cast
capture --list -o capture.py | --output is of the script, which --list does not write; leave it out
compare x.npy y.npy o.npy --operation dot --scale 1,1,1 | --scale takes one factor, or two for x and y, not 3
export c --accumulation hopper_wgmma_e4m3fn_binary32 --operands e5m2 e5m2 | accumulation 'hopper_wgmma
"""
_UNNAMED = "--define defines 'private', which no argument names; name private, or leave --define out"


@pytest.mark.parametrize("case", IGNORED.strip().splitlines())
def test_options_that_would_be_ignored_are_refused(case, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    np.save("x.npy", np.ones(3))
    words, message = case.split(" | ")
    said_so = said(*words.split()).removeprefix("Error: ")
    assert said_so.startswith(message.replace("...", _UNNAMED))


def test_operands_are_codes_of_the_format_that_is_defined(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    fmt = lp.Format(exponent_bits=3, trailing_bits=4, nans=1)
    codes = np.arange(128, dtype=np.uint8)
    np.save("x.npy", codes)
    np.save("out.npy", lp.encode(lp.decode(codes, fmt), "binary16"))
    define = "--define", "exponent_bits=3,trailing_bits=4,nans=1"
    words = "compare", "x.npy", "out.npy", "--from", "private", "--to", "binary16", *define
    assert said(*words) == "128 results agree"
    explained = said("explain", "10", "e4m3fn", "--from", "private", "--code", *define)
    assert explained.startswith("0.25 ")  # the smallest normal number, by hand


def test_vectors_of_casts_are_judged_by_that_name(tmp_path):
    lines = tmp_path / "lines.txt"
    lines.write_text(CliRunner().invoke(main, ["vectors", "cast", "e5m2", "e4m3fn"]).stdout)
    assert said("compare", lines, "cast", "e5m2", "e4m3fn") == "256 lines agree"


def test_kernels_are_not_compiled_for_a_folder_that_cannot_keep_them(monkeypatch):
    monkeypatch.setenv("LOWPREC_CACHE_DIR", "/proc/nope")
    assert said("warm", "e4m3fn").startswith("Error: compiled kernels cannot be kept in '/proc/nope': ")


@pytest.mark.apart
def test_kernels_that_a_full_disk_did_not_take_are_not_said_to_be_kept(tmp_path):
    script = (
        "from lowprec import files\n"
        "def keep(path, content): raise OSError(28, 'No space left on device')\n"
        "files.keep = keep\n"
        "from lowprec.cli.main import main\n"
        "main(['warm', 'e4m3fn', '--verb', 'encode'])"
    )
    environment = {**os.environ, "LOWPREC_CACHE_DIR": str(tmp_path)}
    done = subprocess.run([sys.executable, "-c", script], env=environment, capture_output=True, text=True)
    assert done.returncode == 1
    assert re.fullmatch(
        r"Error: (\d+) of \1 kernels could not be kept in '.*': .*left on device\n", done.stderr
    )


@pytest.mark.apart
def test_a_terminal_shows_that_kernels_are_compiled(tmp_path):
    """Once, and nothing elsewhere."""
    environment = {**os.environ, "LOWPREC_CACHE_DIR": str(tmp_path)}
    master, terminal = os.openpty()
    command = [sys.executable, "-m", "lowprec", "vectors", "add", "e5m2", "e5m2", "bfloat16"]
    done = subprocess.run(command, env=environment, stdout=subprocess.DEVNULL, stderr=terminal)
    os.close(terminal)
    text = os.read(master, 10_000).decode()
    os.close(master)
    assert done.returncode == 0
    assert text.count("a call waits for kernels to be compiled, which lowprec does once") == 1


@pytest.mark.apart
def test_the_junit_report_of_a_capture_has_a_case_for_each_expectation(tmp_path):
    said("compare", CAPTURE, "--no-why", "--junit", tmp_path / "report.xml")
    (suite,) = JUnitXml.fromfile(str(tmp_path / "report.xml"))
    questions = lp.read_capture(CAPTURE).questions
    expected = [name for name, each in questions.items() if each.expects and not each.skipped]
    assert [case.name for case in suite] == expected
    assert (suite.tests, suite.failures) == (8, 0)
