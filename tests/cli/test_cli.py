"""The command line: what it prints, and the exit codes that scripts rely on."""

import io
import json
import os
import re
import shlex
import subprocess
import sys

import click
import numpy as np
import pytest
from rich.console import Console

from lowprec.cli.main import main
from lowprec.export import cards
from lowprec.spec import catalog
from lowprec.spec.accumulations import ACCUMULATIONS
from lowprec.spec.arith import OPERANDS
from lowprec.spec.codebooks import CODEBOOKS
from lowprec.spec.profiles import PROFILES
from lowprec.verify.frameworks import FRAMEWORKS
from tests.command import lowprec
from tests.support import pairs, python


def test_formats_lists_the_whole_catalog():
    """One row a format, and below them one a block format."""
    result = lowprec("formats")
    assert result.exit_code == 0
    formats, books, blocks = (part.splitlines() for part in result.stdout.split("\n\n"))
    assert [line.split()[0] for line in formats[1:]] == list(catalog.FORMATS)
    assert [line.split()[0] for line in blocks[1:]] == list(catalog.BLOCK_FORMATS)
    assert [line.split()[0] for line in books[1:]] == list(CODEBOOKS)


def test_show_a_block_format():
    """What it is, what it is in a profile, as JSON; and what is asked in vain."""
    result = lowprec("show", "mxfp4")
    assert result.exit_code == 0
    assert result.stdout.startswith(
        "mxfp4  blocks of 32 along an axis: e2m1fn elements, a scale in e8m0fnu\n"
    )
    assert "profiles: p3109, ocp, torchao_floor" in result.stdout
    result = lowprec("show", "mxfp4", "--profile", "torchao_even", "--json")
    shown = json.loads(result.stdout)
    assert (shown["rule"], shown["smallest_divides_as"], shown["bits_per_value"]) == ("even", 2.0**-126, 4.25)
    for arguments, said in (
        (("mxfp8",), "block format 'mxfp8' is ambiguous: use 'mxfp8_e4m3' or 'mxfp8_e5m2'"),
        (("mxfp4", "--profile", "modelop"), "unknown profile 'modelop'"),
        (("mxint8", "--profile", "modelopt"), "profile 'modelopt' does not say what 'mxint8' is"),
    ):
        result = lowprec("show", *arguments)
        assert result.exit_code == 2
        assert said in result.stderr


@pytest.mark.parametrize(
    ("command", "names", "has"),
    [
        ("block-formats", catalog.BLOCK_FORMATS, {"element", "scale", "rule"}),
        ("accumulations", ACCUMULATIONS, {"operands", "order", "evidence"}),
        ("profiles", PROFILES, {"versions", "formats", "block_formats", "source"}),
    ],
)
def test_each_catalog_has_a_list(command, names, has):
    """A row for each name, and the same as JSON."""
    result = lowprec(command)
    assert result.exit_code == 0
    assert [line.split()[0] for line in result.stdout.splitlines()[1:]] == list(names)
    listed = json.loads(lowprec(command, "--json").stdout)
    assert [entry["name"] for entry in listed] == list(names)
    assert has <= set(listed[0])


def test_the_lists_say_what_there_is():
    """A row of each."""
    rows = {line.split()[0]: line.split()[1:] for line in lowprec("accumulations").stdout.splitlines()}
    assert rows["hopper_wgmma_e4m3fn_binary32"] == [
        "e4m3fn",
        "e4m3fn",
        "steps",
        "of",
        "32",
        "binary32",
        "measured",
    ]
    assert rows["fp32_fma"] == ["any", "any", "sequential", "in", "binary32", "binary32", "-"]
    rows = {line.split()[0]: line for line in lowprec("profiles").stdout.splitlines()}
    assert rows["ocp_sat"].split()[1:] == ["e4m3fn", "e5m2", "-", "-", "OFP8", "1.0"]
    assert " and 449 more " in rows["p3109"]
    described = {entry["name"]: entry for entry in json.loads(lowprec("profiles", "--json").stdout)}
    assert described["ocp_sat"]["formats"] == {"e4m3fn": "saturation=finite", "e5m2": "saturation=finite"}


@pytest.mark.parametrize(
    ("name", "lines"),
    [
        ("hopper", ["lowprec show hopper_mma_binary16_binary32  (accumulation)"]),
        ("int88", ["lowprec show int8  (format)"]),
        (
            "nvfp",
            [
                "lowprec show nvfp4  (block format)",
                "lowprec show nvfp4_2d  (block format)",
                "lowprec show torchao_nvfp4  (profile)",
            ],
        ),
        ("torch", ["lowprec show 'torch<2.13'  (profile)", "lowprec show 'torch>=2.13'  (profile)"]),
        ("deepseek", ["lowprec show 'deepseek_promote(128)'  (accumulation)"]),
        ("qqqq", []),
    ],
)
def test_an_unknown_name_is_answered_with_close_names_of_all_catalogs(name, lines):
    """Each as the command that shows it, which works; and the commands that list all."""
    result = lowprec("show", name)
    assert result.exit_code == 2
    assert (
        f"unknown {'accumulation' if name in ('hopper', 'deepseek') else 'format'} {name!r}" in result.stderr
    )
    said = [line.strip() for line in result.stderr.splitlines()]
    assert set(lines) <= set(said)
    every = "All names: `lowprec formats`, `lowprec accumulations`, `lowprec profiles`, `lowprec list calls`."
    assert said[-1] == every
    shown = [line for line in said if line.startswith("lowprec show ")]
    assert bool(shown) == bool(lines)
    for line in shown:
        assert lowprec(*shlex.split(line.partition("  (")[0])[1:]).exit_code == 0


def test_show_a_profile_by_its_name():
    """As --profile alone shows it, and as JSON."""
    assert lowprec("show", "ocp_sat").stdout == lowprec("show", "--profile", "ocp_sat").stdout
    assert lowprec("show", "ocp_sat").exit_code == 0
    shown = json.loads(lowprec("show", "ocp_sat", "--json").stdout)
    assert (shown["name"], shown["formats"]["e5m2"]) == ("ocp_sat", "saturation=finite")
    result = lowprec("show", "ocp_sat", "--profile", "arm")
    assert "--profile is of formats, and 'ocp_sat' is a profile; leave it out" in result.stderr
    assert result.exit_code == 2


def test_python_dash_m_is_the_command():
    """With its exit codes."""
    run = subprocess.run([sys.executable, "-m", "lowprec", "formats"], capture_output=True, text=True)
    assert (run.returncode, run.stdout) == (0, lowprec("formats").stdout)
    run = subprocess.run([sys.executable, "-m", "lowprec", "show", "e4m3"], capture_output=True, text=True)
    assert (run.returncode, run.stdout) == (2, "")
    assert "Usage: python -m lowprec show [OPTIONS] [NAME]" in run.stderr


def test_show_an_accumulation():
    """In words and by its parameters, as JSON; and what is asked in vain."""
    result = lowprec("show", "hopper_wgmma_e4m3fn_binary32")
    assert result.exit_code == 0
    assert result.stdout.startswith(
        "hopper_wgmma_e4m3fn_binary32\n"
        "x and y are e4m3fn; other values are refused.\n"
        "Each 32 products make a step with the running sum.\n"
        "All are cut toward zero 13 bits behind the point of the largest exponent, which is at least -133.\n"
        "Their sum is exact, and then rounded to e8m13, toward_zero, NaN 0x1fffff.\n"
        "Sums of 2^128 and more count as infinite in every mode.\n"
        "The sum begins as the addend, or as +0.\n"
        "The result is binary32, nearest_even, NaN 0x7fffffff.\n"
    )
    assert "  fraction_bits    13" in result.stdout
    shown = json.loads(lowprec("show", "deepseek_promote(64)", "--json").stdout)
    assert (shown["order"], shown["accumulator"]["step"], shown["evidence"]) == ("chunked(64)", 32, [])
    for arguments, said in (
        (
            ("hopper_wgmma_e4m3_binary32",),
            "unknown accumulation 'hopper_wgmma_e4m3_binary32'; did you mean 'hopper_wg",
        ),
        (
            ("exact", "--profile", "arm"),
            "--profile is of formats, and 'exact' is an accumulation; leave it out",
        ),
        (("deepseek_promote(0)",), "out of range"),
    ):
        result = lowprec("show", *arguments)
        assert result.exit_code == 2
        assert said in result.stderr


def test_formats_as_json_has_the_derived_quantities():
    """For scripts."""
    found = {entry["name"]: entry for entry in json.loads(lowprec("formats", "--json").stdout)}
    assert found["e4m3fn"]["max_finite"] == 448.0
    assert found["e4m3fn"]["nan_code"] == 0x7F
    assert found["int8f6"]["min_finite"] == -2.0


def test_show_gives_a_card_with_every_code():
    """Parameters, limits and the encoding table."""
    text = lowprec("show", "e2m1fn").stdout
    assert "signed floating point, 4 bits: 2 exponent, 1 trailing; no specials" in text
    assert "max_finite     6" in text
    assert text.rstrip().splitlines()[-1].split() == [
        "8", "-0", "-2^-1", "-1", "-1.5", "-2", "-3", "-4", "-6",
    ]  # fmt: skip


@pytest.mark.parametrize("fmt", [*catalog.FORMATS, "binary8p3se", "float8_e4m3fn", "half"])
def test_show_works_for_every_format(fmt):
    """Aliases and P3109 names included."""
    assert lowprec("show", fmt).exit_code == 0
    assert json.loads(lowprec("show", fmt, "--json").stdout)["width"] == catalog.format(fmt).width


@pytest.mark.parametrize(
    "arguments", [["--help"], ["formats"], ["show", "e4m3fn"], ["show", "fp32_fma"], ["conform", "--help"]]
)
def test_commands_that_only_inform_start_without_numba(arguments):
    """It takes longer to import than they take to run."""
    script = (
        "import sys; from lowprec.cli.main import main\n"
        f"try: main({arguments!r})\n"
        "except SystemExit as stop: assert not stop.code\n"
        "assert not {'numba', 'numpy'} & set(sys.modules)"
    )
    python("-c", script)


def test_conform_exits_0_where_only_known_divergences_are_found():
    """And says so."""
    result = lowprec("conform", "ml_dtypes", "--source", "float64", "--target", "e4m3fn", "--samples", 1000)
    assert result.exit_code == 0
    assert "double rounding* 2,344" in result.stdout
    assert "0 of them beyond the known divergences" in result.stdout


def test_conform_exits_1_where_something_else_differs(monkeypatch):
    """The reviewed file is the only excuse."""
    monkeypatch.setattr("lowprec.verify.conform.conformance.known_divergences", tuple)
    result = lowprec("conform", "ml_dtypes", "--source", "float64", "--target", "e4m3fn", "--samples", 0)
    assert result.exit_code == 1
    assert "2,344 of them beyond the known divergences" in result.stdout


def test_conform_takes_own_values(tmp_path):
    """One value that ml_dtypes rounds twice."""
    path = tmp_path / "values.npy"
    np.save(path, np.array([1.0, 1.0625 + 2.0**-40]))
    result = lowprec("conform", "ml_dtypes", "--values", path, "--target", "e4m3fn", "--json")
    assert result.exit_code == 0
    (row,) = json.loads(result.stdout)["rows"]
    assert (row["source"], row["tried"], row["mismatches"]) == ("float64", 2, 1)


MISUSED = """
conform tensorflop | unknown framework 'tensorflop'; use one of ml_dtypes, numpy
conform --source float8 | unknown source 'float8'; use one of float16, bfloat16
conform --target e4m3 | format 'e4m3' is ambiguous: use 'e4m3fn'
conform --values nowhere.npy | 'nowhere.npy' does not exist
conform --samples -1 | --samples and --seed must not be negative
show e4m3fm | unknown format 'e4m3fm'; did you mean 'e4m3fn'
frobnicate | No such command 'frobnicate'
"""


@pytest.mark.parametrize(("words", "message"), pairs(MISUSED))
def test_misuse_exits_2_and_says_what_to_do(words, message):
    """No traceback is printed."""
    result = lowprec(*words.split())
    assert result.exit_code == 2
    assert message in result.output


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b"not an array", "as an .npy file"),
        (b"", "as an .npy file"),
        (np.array(["a"]), "holds <U1; only numbers of at most 64 bits are compared"),
    ],
)
def test_bad_files_exit_2(content, message, tmp_path):
    """A file is user input like any other."""
    path = tmp_path / "bad.npy"
    if isinstance(content, bytes):
        path.write_bytes(content)
    else:
        np.save(path, content)
    result = lowprec("conform", "--values", path)
    assert result.exit_code == 2
    assert message in result.output


def test_nothing_compared_exits_3(tmp_path, monkeypatch):
    """An empty comparison must never pass."""
    assert lowprec("conform", "numpy", "--target", "e4m3fn").exit_code == 3
    np.save(tmp_path / "empty.npy", np.zeros(0))
    assert lowprec("conform", "--values", tmp_path / "empty.npy").exit_code == 3
    monkeypatch.setattr(type(FRAMEWORKS["numpy"]), "version", None)
    result = lowprec("conform", "numpy")
    assert result.exit_code == 3
    assert "numpy is not installed; pip install numpy" in result.output


def test_vectors_piped_into_compare_agree_and_wrong_ones_do_not():
    """The two commands take the same arguments."""
    arguments = ["convert", "binary32", "e5m2", "--saturation", "finite"]
    right = lowprec("vectors", *arguments).stdout
    assert lowprec("compare", "-", *arguments, input=right).exit_code == 0
    wrong = lowprec("vectors", *arguments, "--rounding", "toward_zero").stdout
    result = lowprec("compare", "-", *arguments, input=wrong)
    assert result.exit_code == 1
    assert "above a tie" in result.output
    operands = lowprec("vectors", *arguments, "--operands").stdout
    assert lowprec("compare", "-", *arguments, input=operands).exit_code == 1
    assert lowprec("compare", "-", *arguments, input="").exit_code == 3
    assert lowprec("compare", "-", *arguments, input="zz 00\n").exit_code == 2


@pytest.mark.parametrize(
    "arguments",
    [
        ["add", "e3m2fn", "e3m2fn", "e3m2fn", "--rounding", "toward_negative"],
        ["fma", "binary16", "binary16", "binary16", "binary16"],
        ["scaleb", "bfloat16", "int32", "bfloat16"],
        ["divide", "binary32", "binary32", "e2m1fn"],
        ["sqrt", "binary64", "mine", "--define", "name=mine,exponent_bits=4,trailing_bits=9,bias=7,nans=1"],
    ],
    ids=lambda arguments: arguments[0],
)
def test_operands_are_answered_and_the_answers_judged(arguments):
    """A program reads the operands; its right answers agree, and one wrong bit is found."""
    operands = lowprec("vectors", *arguments, "--samples", 100, "--operands").stdout.splitlines()
    right = lowprec("vectors", *arguments, "--samples", 100).stdout.splitlines()
    answers = {line.rpartition(" ")[0]: line.rpartition(" ")[2] for line in right if line[0] != "#"}
    answered = [f"{line} {answers[line]}" for line in operands]
    result = lowprec("compare", "-", *arguments, input="\n".join(answered))
    assert (result.exit_code, result.output) == (0, f"{len(operands):,} lines agree\n")
    code = int(answered[17].rpartition(" ")[2], 16) ^ 1
    answered[17] = f"{operands[17]} {code:0{len(answers[operands[17]])}x}"
    result = lowprec("compare", "-", *arguments, input="\n".join(answered))
    assert result.exit_code == 1
    assert result.output.startswith(f"1 of {len(operands):,} lines differ (")
    assert re.search(r"\n(may be|unexplained|explained)\b.*\n\nline 18:\n", result.output, re.S)


@pytest.mark.parametrize("command", [None, *main.commands])
def test_help_is_laid_out_for_a_reader(command):
    """No marker of click's is printed, and no first sentence is cut short in the list of commands."""
    text = lowprec(*([] if command is None else [command]), "--help").stdout
    assert "\\" not in text
    assert "\b" not in text
    assert not any(line.endswith("...") for line in text.partition("\nCommands:")[2].splitlines())


@pytest.mark.parametrize(
    "command", [name for name, command in main.commands.items() if not isinstance(command, click.Group)]
)
def test_help_says_of_every_option_what_it_does_or_takes(command):
    """A phrase in plain words, not a fragment that goes on from the option's name; and the default."""
    known = {
        option: option.get_help_record(click.Context(main.commands[command]))
        for option in main.commands[command].params
        if isinstance(option, click.Option) and not option.hidden
    }
    assert known
    for option, (name, text) in known.items():
        assert text, name
        assert text[0].isupper(), name
        assert text.partition("  [")[0].endswith("."), name
        assert text.split()[0] not in ("Of", "Or", "Only", "What", "Which", "A", "The"), name
        if not option.is_flag and option.flag_value is None and option.default is not None:
            assert "[default: " in text, name


def test_help_of_compare_has_an_example_a_line():
    """As they are typed, and as wide as a terminal of 80 columns lets them be."""
    lines = lowprec("compare", "--help").stdout.splitlines()
    assert "  lowprec compare input.npy output.npy --to e4m3fn" in lines
    assert "  lowprec compare x.npy y.npy out.npy --operation add --to e4m3fn" in lines
    assert "  lowprec compare - add e4m3fn e4m3fn e4m3fn" in lines


@pytest.mark.parametrize("command", ["vectors", "compare"])
def test_help_tells_the_operations(command):
    """With an example of one."""
    text = " ".join(lowprec(command, "--help").stdout.split())
    assert "convert 1, add 2, subtract 2" in text
    assert all(f"{name} {count}" in text for name, count in OPERANDS.items())
    assert (
        f"{'lowprec compare - add' if command == 'compare' else 'lowprec vectors fma'} e4m3fn e4m3fn" in text
    )


def test_private_formats_work_in_every_command(tmp_path):
    """By --define and by file."""
    define = ["--define", "name=mine,exponent_bits=3,trailing_bits=2,bias=4,nans=1"]
    assert json.loads(lowprec("show", *define, "--json").stdout)["max_finite"] == 12.0
    assert lowprec("table", *define).stdout.splitlines()[2].startswith("0x00,zero")
    vectors = lowprec("vectors", "convert", "binary32", "mine", *define).stdout
    result = lowprec("compare", "-", "convert", "binary32", "mine", *define, input=vectors)
    assert result.exit_code == 0
    (tmp_path / "mine.toml").write_text("exponent_bits = 3\ntrailing_bits = 2\nbias = 4\nnans = 1\n")
    assert json.loads(lowprec("show", tmp_path / "mine.toml", "--json").stdout)["name"] == "mine"


def test_files_are_written_whole_or_not_at_all(tmp_path):
    """An error leaves what was there."""
    path = tmp_path / "table.csv"
    path.write_text("before")
    assert lowprec("table", "binary32", "-o", path).exit_code == 2
    assert path.read_text() == "before"
    assert lowprec("table", "e2m1fn", "-o", path).exit_code == 0
    assert path.read_text() == lowprec("table", "e2m1fn").stdout
    result = lowprec("table", "e2m1fn", "-o", tmp_path / "no" / "folder.csv")
    assert result.exit_code == 2
    assert f"there is no folder '{tmp_path / 'no'}'" in " ".join(result.output.split())
    assert [entry.name for entry in tmp_path.iterdir()] == ["table.csv"]


MISUSED_FILES = """
vectors cosine binary32 e4m3fn | unknown operation 'cosine'; use one of convert, add, subtract
compare - cosine binary32 e4m3fn | unknown operation 'cosine'; use one of convert, add
vectors fma e4m3fn e4m3fn e4m3fn | fma takes 4 formats, of each operand and of the result
vectors add e4m3fn | not 1 (e4m3fn); for instance add e4m3fn e4m3fn e4m3fn
compare - scaleb e4m3fn | not 1 (e4m3fn); for instance scaleb e4m3fn int32 e4m3fn
vectors scaleb e4m3fn e4m3fn e4m3fn | scaleb takes an integer as its second operand
compare - scaleb e4m3fn e4m3fn e4m3fn | use a format such as 'int8' or 'int32'
vectors add binary64 binary64 binary64 | 'binary64' is a type that values come in
vectors convert binary32 | convert takes 2 formats, of each operand and of the result, not 1
vectors convert binary32 binary64 | 'binary64' is a type that values come in
vectors convert binary32 e4m3fn --rounding odd | unknown rounding 'odd'; use one of
vectors convert binary32 e4m3fn --operands --as csv | --operands prints text
table | name a FORMAT, or define one with --define
table e4m3fn --as c --thresholds | c files encode already
table mine --define exponent_bits=3 | a format's definition needs trailing_bits=
table nowhere.toml | cannot read 'nowhere.toml' as TOML
"""


@pytest.mark.parametrize(("words", "message"), pairs(MISUSED_FILES))
def test_misuse_of_the_file_commands_exits_2(words, message):
    """Each message has its way out."""
    result = lowprec(*words.split())
    assert result.exit_code == 2
    assert message in result.output


def test_show_says_what_a_profile_does():
    """For one format and for all that it has."""
    text = lowprec("show", "e4m3fn", "--profile", "ocp_sat").stdout
    assert text.splitlines()[-1].split()[:8] == [
        "e4m3fn", "0x7e", "0x7e", "0xfe", "0x7f", "0xff", "0x00", "0x80",
    ]  # fmt: skip
    assert "saturation=finite" in text
    assert {line.split()[0] for line in lowprec("show", "--profile", "ocp_ovf").stdout.splitlines()[3:]} == {
        "e4m3fn",
        "e5m2",
    }
    assert "unknown profile 'gpu'; use one of" in lowprec("show", "e4m3fn", "--profile", "gpu").output
    assert "does not say how to convert to 'int8'" in lowprec("show", "int8", "--profile", "ocp_sat").output
    assert lowprec("show", "e4m3fn", "--profile", "ocp_sat", "--json").exit_code == 2


def test_a_narrow_terminal_loses_nothing():
    """Lines may wrap; no cell is cut or left out."""
    for renderable in (
        cards.card(catalog.E4M3FN),
        cards.listing(),
        cards.profile_card(PROFILES["ml_dtypes"], None),
    ):
        text = {}
        for width, terminal in ((80, True), (300, False)):
            console = Console(width=width, force_terminal=terminal, file=io.StringIO(), color_system=None)
            cards.show(renderable, console)
            text[width] = console.file.getvalue().split()
        assert "…" not in "".join(text[80])
        assert text[80] == text[300]


@pytest.mark.parametrize("name", PROFILES)
def test_every_profile_is_shown_in_names(name):
    """Formats and modes by name, not as Python writes them, and no operand refused that the stack takes."""
    result = lowprec("show", "--profile", name)
    assert result.exit_code == 0
    assert "Format(" not in result.stdout
    assert len(result.stdout.splitlines()) == 3 + len(PROFILES[name].formats)


@pytest.mark.parametrize(
    ("definition", "message"),
    [
        ("exponent_bits=1000000000000,trailing_bits=4", "makes 1000000000005 bits in all; use 2 to 32"),
        (
            "name=[/foo],exponent_bits=2,trailing_bits=1",
            "name='[/foo]' of a format must be printable and without",
        ),
        (
            "name=x*/int y; /*,exponent_bits=2,trailing_bits=1",
            "of a format must be printable and without * [ ]",
        ),
    ],
)
def test_definitions_that_would_break_files_are_refused(definition, message):
    """No traceback, no comment that ends early."""
    result = lowprec("table", "--as", "c", "--define", definition)
    assert result.exit_code == 2
    assert message in " ".join(result.output.split())


def test_tables_of_stochastic_modes_are_refused():
    """Each operand would need its integer; of vectors it is a column."""
    result = lowprec("table", "e4m3fn", "--thresholds", "--rounding", "stochastic(8)")
    assert result.exit_code == 2
    assert "needs a random integer for each operand; use a deterministic mode" in result.stderr
    assert lowprec("vectors", "convert", "e5m2", "e4m3fn", "--rounding", "stochastic(8)").exit_code == 0


# -- how commands end that something else ends ---------------------------------------------------------

PROGRAM = [sys.executable, "-m", "lowprec"]

#: Text, a table that rich prints, JSON, bytes, and what click prints itself.
PRINTING = [
    ["--help"],
    ["table", "--help"],
    ["formats"],
    ["formats", "--json"],
    ["table", "binary16"],
    ["show", "e4m3fn"],
]


@pytest.mark.apart
@pytest.mark.skipif(not os.path.exists("/dev/full"), reason="there is no full device here")
@pytest.mark.parametrize("arguments", PRINTING, ids=" ".join)
def test_a_full_output_ends_with_2_and_one_line(arguments):
    """It ended in a traceback and 1, which means that some differ. If stderr is full too, nothing is said."""
    with open("/dev/full", "wb") as full:
        run = subprocess.run(
            [*PROGRAM, *arguments], stdout=full, stderr=subprocess.PIPE, text=True, check=False
        )
        assert (run.returncode, run.stderr) == (2, "Error: No space left on device\n")
        run = subprocess.run([*PROGRAM, *arguments], stdout=full, stderr=full, check=False)
        assert run.returncode == 2


@pytest.mark.apart
@pytest.mark.parametrize("arguments", PRINTING, ids=" ".join)
def test_a_closed_pipe_ends_quietly(arguments):
    """With 128 and the signal's number, as other programs; click and rich exit with 1."""
    read, write = os.pipe()
    os.close(read)
    run = subprocess.run([*PROGRAM, *arguments], stdout=write, stderr=subprocess.PIPE, check=False)
    os.close(write)
    assert (run.returncode, run.stderr) == (141, b"")


@pytest.mark.apart
@pytest.mark.skipif(os.name == "nt", reason="a shell closes it")
@pytest.mark.parametrize("arguments", PRINTING, ids=" ".join)
def test_without_an_output_nothing_is_said(arguments):
    """As after `>&-`."""
    command = ["sh", "-c", '"$@" >&-', "sh", *PROGRAM, *arguments]
    run = subprocess.run(command, stderr=subprocess.PIPE, check=False)
    assert (run.returncode, run.stderr) == (0, b"")


@pytest.mark.apart
def test_a_full_output_hides_no_difference():
    """Where the report could not be printed, nothing is said of it."""
    if not os.path.exists("/dev/full"):
        pytest.skip("there is no full device here")
    arguments = ["compare", "-", "convert", "binary32", "e4m3fn", "--no-why"]
    for words, code in (("3f800000 38", 0), ("3f800000 39", 1)):
        run = subprocess.run([*PROGRAM, *arguments], input=words, text=True, capture_output=True, check=False)
        assert run.returncode == code
        with open("/dev/full", "wb") as full:
            run = subprocess.run(
                [*PROGRAM, *arguments], input=words, text=True, stdout=full, stderr=full, check=False
            )
        assert run.returncode == 2


@pytest.mark.parametrize(
    ("error", "code", "said"),
    [
        (KeyboardInterrupt(), 130, "\nError: interrupted\n"),
        (BrokenPipeError(), 141, ""),
        (MemoryError(), 2, "Error: there is not enough memory for this input\n"),
        (RecursionError(), 2, "Error: the input is nested too deeply\n"),
        (
            PermissionError(13, "Permission denied", "a\x1b[31m"),
            2,
            "Error: Permission denied: 'a\\x1b[31m'\n",
        ),
        (OSError("something"), 2, "Error: something\n"),
        (SystemExit(3), 3, ""),
        (SystemExit(), 0, ""),
    ],
    ids=repr,
)
def test_whatever_ends_a_command_has_its_exit_code(monkeypatch, error, code, said):
    """1 is for differences alone."""

    def fail(*shown):
        raise error

    monkeypatch.setattr(cards, "listing", fail)
    result = lowprec("formats")
    assert (result.exit_code, result.stdout, result.stderr) == (code, "", said)


@pytest.mark.parametrize("error", [ValueError("defect"), EOFError("defect")], ids=repr)
def test_a_defect_is_told_in_full_and_ends_with_2(monkeypatch, error):
    """Not with Python's 1."""

    def fail():
        raise error

    monkeypatch.setattr(cards, "listing", fail)
    result = lowprec("formats")
    assert (result.exit_code, result.stdout) == (2, "")
    assert "Traceback (most recent call last)" in result.stderr
    assert "defect" in result.stderr


def test_the_command_can_be_called_from_python():
    """As click's can."""
    assert main(["show", "e4m3fn"], standalone_mode=False) is None
    with pytest.raises(click.UsageError):
        main(["show", "e4m3"], standalone_mode=False)
