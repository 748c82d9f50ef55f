"""Lines that `lowprec vectors dot` and `block` write are judged, and the cause is found."""

from __future__ import annotations

import dataclasses

import pytest
from click.testing import CliRunner

import lowprec as lp
from lowprec.cli.main import main
from lowprec.export.block_vectors import block_suite
from lowprec.export.unit_vectors import dot_suite
from lowprec.verify.dumps import DumpError
from lowprec.verify.unit_lines import compare_block_lines, compare_dot_lines

UNIT = lp.accumulations["ada_mma_e4m3fn_binary32"]
HALF = (lp.format("binary16"),) * 2


def lines_of(made, *, packed=False):
    return made.render("text", packed=packed).decode().splitlines()


@pytest.mark.parametrize("packed", [False, True])
@pytest.mark.parametrize("length", [None, 1, 7])
def test_vectors_of_dots_agree_with_themselves(length, packed):
    """Lanes apart or as one number, however many; a sum in binary16 tells their order."""
    for how, formats in ((UNIT, None), (lp.accumulations["fp16_sequential"], HALF)):
        made = dot_suite(how, formats, length=length, samples=64)
        report = compare_dot_lines(lines_of(made, packed=packed), how, formats)
        assert (report.compared, report.mismatches) == (len(made.file.columns[0].codes), 0)


def test_another_window_is_found_and_lines_are_numbered():
    """By their numbers in the file, comments and all."""
    other = dataclasses.replace(UNIT, accumulator=dataclasses.replace(UNIT.accumulator, fraction_bits=12))
    lines = lines_of(dot_suite(other))
    report = compare_dot_lines(lines, UNIT, limit=1)
    assert report.mismatches > 200
    assert report.cause.words == "F = 12 instead of 13: fraction bits that alignment keeps"
    number = report.details[0].data["line"]
    assert f"line {number}:" in report.as_text() or f"line {number} (" in report.as_text()
    assert lines[number - 1].split()[-1] == f"{int(report.details[0].data['got'], 16):08x}"


@pytest.mark.parametrize("packed", [False, True])
def test_vectors_of_blocks_are_judged(packed):
    """And another rule is found."""
    fmt = lp.block_formats["mxfp4"]
    made = block_suite(lp.format("bfloat16"), dataclasses.replace(fmt, rule="rceil"), samples=256)
    lines = lines_of(made, packed=packed)
    assert compare_block_lines(lines, lp.format("bfloat16"), dataclasses.replace(fmt, rule="rceil")).agrees
    report = compare_block_lines(lines, lp.format("bfloat16"), fmt, limit=1)
    assert "rceil" in report.cause.words
    apart = compare_block_lines(lines_of(made), lp.format("bfloat16"), fmt, limit=1)
    assert report.details[0].data["at"] == apart.details[0].data["at"]
    assert lines[report.details[0].data["line"] - 1][0] not in "#"


@pytest.mark.parametrize(
    ("lines", "message"),
    [
        ([], "there are no lines to compare"),
        (
            ["38 38 00000000"],
            "line 1 has 3 words, not x and y of as many lanes, the addend and the result: '38 38",
        ),
        (
            ["# a", "38 38 00000000 3f800000", "38 38 0"],
            "line 3 has 3 words, not 4; it ends before its result",
        ),
        (["38 38 0 3f800000", "38 38 0 3f800000 0"], "line 2 has 5 words, not 4: '38 38 0 3f800000 0'"),
        (["38 xx 0 3f800000"], "line 1 holds 'xx', which is no hexadecimal number"),
        (["38 38 0 3f8000000"], "line 1 holds '3f8000000', which is no 32-bit code of 'binary32'"),
        (["3838 133838 0 0"], "line 1 holds '133838', which is no 2 codes of 'e4m3fn'"),
    ],
)
def test_lines_that_are_no_cases_are_refused_by_their_number(lines, message):
    """Cut short, of another width, or with other words."""
    with pytest.raises(DumpError) as refused:
        compare_dot_lines(lines, UNIT)
    assert message in str(refused.value)


def test_units_that_lines_do_not_describe_are_refused():
    """Scales of sums, and of tensors."""
    with pytest.raises(
        ValueError, match="takes operands in blocks, whose scales lines of results are not read"
    ):
        compare_dot_lines([], lp.accumulations["blackwell_tcgen05_e4m3fn_binary32_e8m0fnu_1"])
    with pytest.raises(ValueError, match="lines of 'nvfp4' are not read: it has a scale of the tensor"):
        compare_block_lines([], lp.format("binary32"), lp.block_formats["nvfp4"])


def test_the_command_reads_them(tmp_path, monkeypatch):
    """What one command writes, the other judges."""
    monkeypatch.chdir(tmp_path)

    def run(words, text=None):
        return CliRunner().invoke(main, words.split(), input=text)

    vectors = run("vectors dot fp32_fma binary16 bfloat16 --samples 64")
    judged = run("compare - dot fp32_fma binary16 bfloat16", vectors.output)
    assert judged.exit_code == 0, judged.output
    judged = run("compare - dot fp32_sequential binary16 bfloat16", vectors.output)
    assert judged.exit_code == 1
    vectors = run("vectors block binary32 mxfp4 --profile torchao_even --samples 64")
    assert run("compare - block binary32 mxfp4 --profile torchao_even", vectors.output).exit_code == 0
    assert run("compare - block binary32 mxfp4 --rule even", vectors.output).exit_code == 1
    assert "which says how sums are rounded" in run("compare - dot fp32_fma --rounding to_odd", "").output
    assert "lines of block take FORMAT BLOCK_FORMAT" in run("compare - block mxfp4", "").output
