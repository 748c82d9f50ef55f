"""A comparison finds every wrong line, says where it lies, and never passes on nothing."""

from __future__ import annotations

import json

import numpy as np
import pytest

from lowprec.export.vectors import suite
from lowprec.spec import catalog
from lowprec.spec.projection import Projection
from lowprec.verify.codes.display import fields
from lowprec.verify.compare.lines import compare_lines as check_lines
from lowprec.verify.dumps.files import DumpError
from lowprec.verify.questions.situations import situation

pytestmark = pytest.mark.apart

FORMATS = (catalog.BINARY32, catalog.E4M3FN)


def answers(**options):
    return suite("convert", FORMATS, **options).render("text").decode().splitlines()


def test_right_answers_agree_and_comments_are_passed_over():
    """Blank lines and both kinds of comment too."""
    lines = [*answers(), "", "  ", "// a comment", "#"]
    report = check_lines(lines, "convert", FORMATS)
    assert (report.mismatches, report.as_text()) == (0, f"{report.compared:,} lines agree")
    assert report.compared == suite("convert", FORMATS).results.size


def test_every_single_wrong_line_is_found():
    """One flipped bit in one line of many, wherever it is."""
    lines = answers(samples=0)
    for place in (3, len(lines) // 2, len(lines) - 1):
        operand, result = lines[place].split()
        wrong = [*lines]
        wrong[place] = f"{operand} {int(result, 16) ^ 1:02x}"
        report = check_lines(wrong, "convert", FORMATS)
        assert (report.mismatches, report.details[0].data["line"]) == (1, place + 1)


def test_a_wrong_line_is_explained():
    """Number, operand, both results with their bits, and where the operand lies."""
    text = check_lines(["3f880000 39"], "convert", FORMATS).as_text()
    assert text == (
        "1 of 1 lines differ (100%): 1 at a tie\n"
        "may be ties away from zero (nearest_away instead of nearest_even): 1 of 1 mismatches, 100%\n"
        "    the same: rounded up, toward +infinity (toward_positive instead of nearest_even); rounded away "
        "from zero (away_from_zero instead of nearest_even); rounded to odd (to_odd instead of "
        "nearest_even); what profile 'microxcaling' does\n"
        "\n"
        "line 1:\n"
        "    operand 3f880000  0 01111111 00010000000000000000000  1.0625 = 0x1.1p+0\n"
        "    got     39  0 0111 001  1.125 = 0x1.2p+0\n"
        "    want    38  0 0111 000  1.0 = 0x1p+0\n"
        "            at a tie; 1 code above"
    )


def test_ties_away_are_named_as_ties():
    """All of the mismatches and nothing else."""
    report = check_lines(answers(projection=Projection(rounding="nearest_away")), "convert", FORMATS)
    assert report.mismatches > 100
    assert set(report.tally.situations) == {"at a tie", "at a tie, past the largest value"}
    assert len(report.details) == 20
    assert f"... and {report.mismatches - 20} more" in report.as_text()
    everything = check_lines(
        answers(projection=Projection(rounding="nearest_away")), "convert", FORMATS, limit=None
    )
    assert len(everything.details) == report.mismatches


def test_an_echo_is_wrong_everywhere():
    """A line without a result is a wrong line, not a malformed one."""
    lines = suite("convert", FORMATS, samples=0).operand_lines().splitlines()
    report = check_lines(lines, "convert", FORMATS)
    assert report.mismatches == report.unanswered == report.compared == len(lines)
    assert "have no result" in report.as_text()


def test_any_nan_will_do_only_if_asked():
    """And only where a NaN is right."""
    lines = ["7fc00000 ff", "7f800001 ff", "3f800000 7f"]
    assert check_lines(lines, "convert", FORMATS).mismatches == 3
    assert check_lines(lines, "convert", FORMATS, any_nan=True).mismatches == 1


@pytest.mark.parametrize(
    ("operand", "where"),
    [
        (0x3F800000, "exact"),
        (0x3F87FFFF, "below a tie"),
        (0x3F880000, "at a tie"),
        (0x3F880001, "above a tie"),
        (0x43E7FFFF, "below a tie, past the largest value"),
        (0x43E80000, "at a tie, past the largest value"),
        (0x43F00000, "beyond the next value after the largest"),
        (0x7F800000, "infinite operand"),
        (0xFFC00000, "NaN operand"),
        (0x80000000, "zero operand"),
    ],
)
def test_the_situation_is_where_the_exact_value_lies(operand, where):
    """Around 1.0625 and 464, both ties of e4m3fn."""
    assert situation([operand], "convert", FORMATS, Projection()) == where


def test_below_the_smallest_value_of_a_format_without_zero():
    """Where e8m0fnu has no grid."""
    assert (
        situation([1], "convert", (catalog.BINARY32, catalog.E8M0FNU), Projection())
        == "below the smallest value"
    )


@pytest.mark.parametrize(
    ("line", "message"),
    [
        ("3f800000 38 00", "line 1 has 3 words, but convert needs 1 operand"),
        (
            "noise 38",
            "line 1 holds 'noise', which is no hexadecimal number; lines of other text begin with '#'",
        ),
        ("3f80000g 38", "line 1 holds '3f80000g', which is no hexadecimal number"),
        ("3f8_0000 38", "line 1 holds '3f8_0000', which is no hexadecimal number"),
        ("3f800000 \u0663\u0668", "which is no hexadecimal number"),
        ("13f800000 38", "line 1 holds '13f800000', which is no 32-bit code of 'binary32'"),
        ("3f800000 138", "line 1 holds '138', which is no 8-bit code of 'e4m3fn'"),
        ("3f800000 -1", "line 1 holds '-1', which is no hexadecimal number"),
    ],
)
def test_lines_that_are_no_cases_are_malformed(line, message):
    """With the number of the line."""
    with pytest.raises(DumpError, match=message):
        check_lines([line], "convert", FORMATS)


def test_a_nan_for_a_format_without_nan_is_left_out():
    """Nothing is right for it, and nothing wrong; a run of nothing else has compared nothing."""
    report = check_lines(["7fc00000 0", "3f800000 2"], "convert", (catalog.BINARY32, catalog.E2M1FN))
    assert (report.compared, report.left_out, report.mismatches) == (1, 1, 0)
    assert report.as_text() == "1 line agrees; 1 left out, whose result is NaN, which the format has not"
    report = check_lines(["7fc00000 0"], "convert", (catalog.BINARY32, catalog.E2M1FN))
    assert (report.agrees, report.as_text()) == (
        False,
        "nothing was compared: 1 results that are NaN left out",
    )


def test_nothing_compared_says_so():
    """The command line exits with 3."""
    report = check_lines(["# only a comment"], "convert", FORMATS)
    assert (report.compared, report.as_text()) == (0, "nothing was compared")


def test_the_report_is_json():
    """With codes as they were read."""
    report = json.loads(check_lines(["3f880000 39", "3f800000"], "convert", FORMATS).as_json())
    assert report["schema"] == "lowprec.compare/3"
    assert (report["compared"], report["mismatches"], report["unanswered"]) == (2, 2, 1)
    assert report["first"][0] == {
        "index": 0, "line": 1, "operands": ["3f880000"], "exact": "1.0625 = 0x1.1p+0", "got": "39",
        "want": "38", "situation": "at a tie", "ulps": 1,
    }  # fmt: skip
    assert report["first"][1]["got"] is None


def test_long_input_is_read_in_pieces():
    """More lines than one piece holds, the wrong one in the last."""
    lines = (f"3f800000 {38 + (number == 199_999)}" for number in range(200_000))
    report = check_lines(lines, "convert", FORMATS)
    assert (report.compared, report.mismatches, report.details[0].data["line"]) == (200_000, 1, 200_000)


def test_codes_are_split_into_fields():
    """Whatever the format has."""
    assert fields(0xF4, catalog.E5M2) == "1 11101 00"
    assert fields(0x7F, catalog.E8M0FNU) == "01111111"
    assert fields(0x80, catalog.INT8) == "1 0000000"
    assert np.all([fields(code, catalog.E2M1FN).replace(" ", "") == f"{code:04b}" for code in range(16)])


# -- operations ----------------------------------------------------------------------------------------

HALF = (catalog.BINARY16,) * 4


def test_a_wrong_sum_is_explained():
    """With all operands, in columns, after the cause."""
    text = check_lines(["3c00 1000 3c01"], "add", HALF[:3]).as_text()
    assert text.startswith(
        "1 of 1 lines differ (100%): 1 at a tie\n"
        "may be ties away from zero (nearest_away instead of nearest_even): 1 of 1 mismatches, 100%"
    )
    assert text.endswith(
        "\n\nline 1:\n"
        "    operand1 3c00  0 01111 0000000000  1.0 = 0x1p+0\n"
        "    operand2 1000  0 00100 0000000000  0.00048828125 = 0x1p-11\n"
        "    exact    1.00048828125 = 0x1.002p+0\n"
        "    got      3c01  0 01111 0000000001  1.0009765625 = 0x1.004p+0\n"
        "    want     3c00  0 01111 0000000000  1.0 = 0x1p+0\n"
        "             at a tie; 1 code above"
    )


@pytest.mark.parametrize(
    ("operation", "line", "where"),
    [
        ("add", "3c00 1001 3c00", "above a tie"),  # a sticky bit that is lost
        ("add", "3c00 0fff 3c01", "below a tie"),
        ("fma", "3c00 1000 0001 3c00", "below a tie"),
        ("fma", "3c00 1000 3c00 3c01", "at a tie"),
        ("fma", "1001 3bff 3c00 3c00", "above a tie"),  # the product's last bit says so
        ("add", "3c00 bc00 8000", "zero result"),
        ("multiply", "8000 3c00 0000", "zero result"),
        ("remainder", "c000 3c00 0000", "zero result"),
        ("sqrt", "4000 3da9", "below a tie"),
        ("add", "7bff 4c00 7bff", "at a tie, past the largest value"),
        ("multiply", "7bff 4000 7bff", "beyond the next value after the largest"),
        ("multiply", "0001 0001 0001", "below a tie"),
        ("divide", "3c00 0000 7e00", "division by zero"),
        ("logb", "0000 0000", "division by zero"),
        ("divide", "0000 0000 0000", "invalid operation"),
        ("add", "7c00 fc00 7c00", "invalid operation"),
        ("fma", "7c00 0000 3c00 3c00", "invalid operation"),
        ("sqrt", "bc00 bc00", "invalid operation"),
        ("add", "7e00 3c00 3c00", "NaN operand"),
        ("maximum_number", "7e00 3c00 7e00", "exact"),
        ("add", "7c00 3c00 7e00", "infinite result"),
        ("round_to_integral", "4100 4200", "at a tie between integers"),
        ("round_to_integral", "4101 4000", "above a tie between integers"),
        ("round_to_integral", "b400 bc00", "below a tie between integers"),
        ("round_to_integral", "4200 4000", "exact"),
    ],
)
def test_planted_errors_of_operations_are_found_and_named(operation, line, where):
    """One wrong line among all that are right."""
    formats = HALF[: len(line.split())]
    right = suite(operation, formats, samples=50).render("text").decode().splitlines()[-200:]
    report = check_lines([*right, line], operation, formats)
    assert (report.mismatches, report.details[0].data["line"], report.details[0].situation) == (1, 201, where)


def test_scaled_numbers_are_judged_by_their_integer():
    """2**-25, a tie between zero and the smallest."""
    formats = (catalog.BINARY16, catalog.CARRIERS["int32"], catalog.BINARY16)
    report = check_lines(["3c00 ffffffe7 0001", "3c00 00000001 4000"], "scaleb", formats)
    assert (report.mismatches, report.tally.situations) == (1, {"at a tie": 1})
    with pytest.raises(ValueError, match="scaleb takes an integer as its second operand"):
        check_lines([], "scaleb", HALF[:3])


def test_a_sum_of_zeros_is_judged_by_its_rounding():
    """Exactly opposite numbers give -0 under toward_negative alone."""
    line = ["3c00 bc00 8000"]
    assert check_lines(line, "add", HALF[:3], Projection(rounding="toward_negative")).mismatches == 0
    assert check_lines(line, "add", HALF[:3], Projection(rounding="toward_positive")).mismatches == 1


def test_a_nan_result_that_has_no_code_is_left_out():
    """0 / 0 in a format without NaN."""
    report = check_lines(["2 2 2", "8 0 0"], "divide", (catalog.E2M1FN,) * 3)
    assert (report.compared, report.left_out, report.mismatches) == (1, 1, 0)


def test_the_report_of_an_operation_is_json():
    """With all operands."""
    report = json.loads(check_lines(["3c00 1000 3c01"], "add", HALF[:3]).as_json())
    assert (report["operation"], report["formats"]) == ("add", ["binary16"] * 3)
    assert report["first"][0]["operands"] == ["3c00", "1000"]


def test_integers_that_are_no_floats_are_shown_exactly():
    """Of 64 bits."""
    text = check_lines(
        ["7fffffffffffffff 5eff"], "convert", (catalog.CARRIERS["int64"], catalog.BFLOAT16)
    ).as_text()
    assert "  9223372036854775807\n" in text


@pytest.mark.parametrize(
    "mode", ["stochastic(16)", "stochastic(5, C)", "stochastic(20, rdna4)", "stochastic(16, ptx_rs)"]
)
def test_stochastic_results_are_held_against_the_integers_of_their_lines(mode):
    """Where lanes share a word, a line has all of them."""
    how = Projection(rounding=mode)
    lines = suite("convert", FORMATS, how, samples=64).render("text").decode().splitlines()
    lanes = 4 if "ptx" in mode else 1
    report = check_lines(lines, "convert", FORMATS, how)
    assert report.mismatches == 0
    assert report.compared == lanes * sum(not line.startswith("#") for line in lines)
    other = []  # integers that belong to other lines
    kept = [line.split() for line in lines if not line.startswith("#")]
    for words, beside in zip(kept, kept[1:] + kept[:1], strict=True):
        other.append(" ".join([*words[:lanes], beside[lanes], *words[lanes + 1 :]]))
    assert check_lines(other, "convert", FORMATS, how).mismatches > 50
    without = check_lines([" ".join(words[: lanes + 1]) for words in kept], "convert", FORMATS, how)
    assert without.mismatches == without.compared == report.compared


@pytest.mark.parametrize(
    ("line", "message"),
    [
        ("3f800000 38", None),
        (
            "3f800000",
            "line 1 has 1 words, but convert needs 1 operand(s) and a random integer and a result: ",
        ),
        ("3f800000 100 38", "line 1 holds '100', which is no random integer of 8 bits"),
        ("3f800000 g 38", "line 1 holds 'g', which is no random integer of 8 bits"),
    ],
)
def test_lines_without_a_random_integer_are_refused(line, message):
    """Operand and integer without a result is wrong, as a line without a result is; two words are those."""
    how = Projection(rounding="stochastic(8)")
    if message is None:
        assert check_lines([line], "convert", FORMATS, how).mismatches == 1
        return
    with pytest.raises(DumpError) as refused:
        check_lines([line], "convert", FORMATS, how)
    assert str(refused.value).startswith(message)


def test_flags_have_no_stochastic_mode():
    with pytest.raises(
        ValueError, match=r"^flags are compared with deterministic roundings, not with stochastic"
    ):
        check_lines([], "convert", FORMATS, Projection(rounding="stochastic(8)"), flags=True)


@pytest.mark.parametrize("mode", ["nearest_even", "stochastic(16, ptx_rs)"])
def test_a_file_that_was_cut_between_lines_is_refused(mode):
    """Where lanes share a random integer too."""
    formats, how = (catalog.BINARY32, catalog.E4M3FN), Projection(rounding=mode)
    lines = suite("convert", formats, how, samples=64).render("text").decode().splitlines()
    assert check_lines(lines, "convert", formats, how).agrees
    with pytest.raises(DumpError, match=f"the file ends after line {len(lines) - 2} with .*it was cut short"):
        check_lines(lines[:-2], "convert", formats, how)
