"""What `lowprec explain` says of a value: each profile's own answer, and rules that make it so."""

from __future__ import annotations

import dataclasses
import json
import re
import subprocess
import sys
from fractions import Fraction
from pathlib import Path

import numpy as np
import pytest
from click.testing import CliRunner

import lowprec as lp
from lowprec.cli.main import main
from lowprec.oracle.convert import decode, project
from lowprec.oracle.exact import Special, from_float
from lowprec.spec.projection import DEFAULT
from lowprec.verify import explanation
from lowprec.verify.explanation import explain, parse

VALUES = [
    "464",
    "465",
    "500",
    "-470",
    "1.0625",
    "-1e-9",
    "0x1.1000001p0",
    "3",
    "-3",
    "0",
    "-0",
    "nan",
    "-nan",
    "inf",
]
FORMATS = ["e4m3fn", "e5m2", "e8m0fnu", "e2m1fn", "binary16", "int8", "e4m3fnuz", "nf4", "binary8p3se"]


def run(*arguments):
    result = CliRunner().invoke(main, ["explain", *arguments])
    assert result.exit_code == 0, result.output
    return result.stdout


def _operand(text):
    """The float64 of a text, with the sign of a NaN; None where none is equal to it."""
    exact = parse(text)
    if isinstance(exact, Special):
        return np.copysign(np.float64(text.lstrip("-")), -1.0 if text.startswith("-") else 1.0)
    return np.float64(float(exact)) if Fraction(float(exact)) == exact else None


def _codes(operand, fmt, profile):
    """The codes of the kernels, with the least and the greatest random integer."""
    bits = lp.profiles[profile].projection(fmt).rounding.bits
    randoms = [{"random": np.uint32(each)} for each in (0, (1 << bits) - 1)] if bits else [{}]
    made = [np.asarray(lp.encode(operand, fmt, profile=profile, **given)) for given in randoms]
    return tuple(dict.fromkeys(int(code.view(f"u{code.itemsize}")) for code in made))


@pytest.mark.parametrize("name", FORMATS)
def test_every_profile_is_in_the_answer_that_it_gives(name):
    """Once, by the kernels; and no other profile is there."""
    fmt = lp.format(name)
    has = {profile for profile, of in lp.profiles.items() if name != "nf4" and fmt in of.formats}
    for text in VALUES:
        found = explain(parse(text), fmt)
        given = {
            each: answer for answer in found.answers for reason in answer.reasons for each in reason.profiles
        }
        assert given.keys() == {"lowprec", *has}
        assert "lowprec" in found.answers[0].reasons[0].profiles
        operand = _operand(text)
        for each, answer in given.items():
            if each == "lowprec" or operand is None:
                continue
            if answer.refusal:
                with pytest.raises(ValueError, match="NaN"):
                    lp.encode(operand, fmt, profile=each)
            else:
                assert answer.codes == _codes(operand, fmt, each), (text, each)


@pytest.mark.parametrize("name", FORMATS)
def test_the_rules_that_are_named_are_the_reason(name):
    """The default with them gives the answer, and without any of them another."""
    fmt = lp.format(name)
    for text in VALUES:
        value = parse(text)
        found = explain(value, fmt)
        for answer in found.answers:
            for reason in answer.reasons:
                for each in reason.profiles:
                    if not reason.words:
                        assert answer == found.answers[0]
                        continue
                    rule = lp.profiles[each].projection(fmt)
                    changed = [
                        field.name
                        for field in dataclasses.fields(rule)
                        if getattr(rule, field.name) != getattr(DEFAULT, field.name)
                    ]
                    assert len(changed) >= len(reason.words) > 0
                    assert answer != found.answers[0]


@pytest.mark.parametrize(
    ("value", "name", "words"),
    [
        (
            "464",
            "e4m3fn",
            "464.0 = 0x1.dp+8 lies half-way between 448.0 = 0x1.cp+8, the largest value of e4m3fn, and "
            "480.0 = 0x1.ep+8, which would come next",
        ),
        (
            "-465",
            "e4m3fn",
            "lies nearer to the second, between -448.0 = -0x1.cp+8, the largest value of e4m3fn, and -480.0",
        ),
        ("463", "e4m3fn", "lies nearer to the first, between 448.0"),
        ("480", "e4m3fn", "480.0 = 0x1.ep+8 lies beyond the largest value of e4m3fn, 448.0 = 0x1.cp+8"),
        ("1.0625", "e4m3fn", "lies half-way between 1.0 = 0x1p+0 and 1.125 = 0x1.2p+0 in e4m3fn"),
        (
            "-1.1",
            "e4m3fn",
            "lies nearer to the second, between -1.0 = -0x1p+0 and -1.125 = -0x1.2p+0 in e4m3fn",
        ),
        ("1e-9", "e4m3fn", "lies nearer to the first, between 0.0 and 0.001953125 = 0x1p-9 in e4m3fn"),
        ("-0", "e4m3fn", "-0.0 is a value of e4m3fn"),
        ("-0", "e4m3fnuz", "-0.0 is zero in e4m3fnuz, whose zero has no sign"),
        ("7/4", "e4m3fn", "1.75 = 0x1.cp+0 is a value of e4m3fn"),
        ("-3", "e8m0fnu", "-3.0 = -0x1.8p+1 is negative, and e8m0fnu is unsigned"),
        ("0", "e8m0fnu", "0.0 lies below the smallest value of e8m0fnu"),
        ("1e300", "int8", "lies beyond the largest value of int8, 127.0"),
        ("-127.5", "int8", "lies half-way between -127.0 = -0x1.fcp+6 and -128.0 = -0x1p+7 in int8"),
        ("-200", "int8", "lies beyond the largest value of int8, -128.0 = -0x1p+7"),
        ("0.3", "nf4", "lies between 0.24611230194568634 = 0x1.f809bap-3 and 0.33791524171829224"),
        ("nan", "e4m3fn", "nan in e4m3fn, which has NaN"),
        ("inf", "e5m2", "inf in e5m2, which has an infinity and NaN"),
        ("-inf", "e2m1fn", "-inf in e2m1fn, which has no infinity and no NaN"),
    ],
)
def test_the_place_of_a_value_is_told(value, name, words):
    """Among the values of the format, on either side of zero."""
    assert words in explain(parse(value), lp.format(name)).place


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("464", Fraction(464)),
        (" -1.5e-3 ", Fraction(-3, 2000)),
        ("1/3", Fraction(1, 3)),
        ("0x1.8p+3", Fraction(12)),
        ("-0X1P-1074", -Fraction(1, 2**1074)),
        ("0x1p-1080", Fraction(1, 2**1080)),
        ("0x1f", Fraction(31)),
        ("+inf", Special.INFINITY),
        ("-NaN", Special.NEGATIVE_NAN),
        ("-0.0", Special.NEGATIVE_ZERO),
        ("0.1", Fraction(1, 10)),
    ],
)
def test_numbers_are_read_exactly(text, value):
    """Not as floats."""
    assert parse(text) == value


@pytest.mark.parametrize("text", ["", "four", "1/0", "0x", "0x1.8.2p1", "1e", "--1", "0x1p", "_1", "0x1px"])
def test_what_is_no_number_is_refused(text):
    """With what would do."""
    with pytest.raises(ValueError, match=r"is no number; write it as 464, 1.5e-3, 1/3"):
        parse(text)


@pytest.mark.parametrize("text", ["1e99999", "0x1p-99999", "9" * 3000, "1e-000099999"])
def test_numbers_that_would_fill_the_memory_are_refused(text):
    """Before they are made."""
    with pytest.raises(ValueError, match="is too long a number"):
        parse(text)


def test_the_command_tells_ocp_from_torch():
    """Both answers of 465, the one that saturates and the one that does not."""
    text = run("465", "e4m3fn")
    first, second, third = text.split("\n\n")[1:]
    assert first.startswith("7f  0 1111 111  nan\n    by the default rules: nearest_even, saturation none\n")
    assert "ocp_ovf" in first
    assert second.startswith(
        "7e  0 1111 110  448.0 = 0x1.cp+8\n    saturation: overflow becomes the largest finite value\n"
    )
    assert "torch>=2.13" in second
    assert "NaN is ff" in third
    assert max(map(len, text.splitlines())) <= 100


def test_the_page_shows_what_is_printed():
    """Word for word."""
    page = (Path(__file__).parents[2] / "docs" / "command-line.md").read_text()
    ((command, printed),) = re.findall(r"^\$ lowprec (explain [^\n]*)\n(.*?)^```", page, re.M | re.S)
    assert run(*command.split()[1:]) == printed


def test_json_has_the_same():
    """With the versions of each profile."""
    data = json.loads(run("465", "e4m3fn", "--json"))
    assert data["schema"] == "lowprec.explain/1"
    assert [answer["codes"] for answer in data["answers"]] == [["7f"], ["7e"], ["ff"]]
    second = data["answers"][1]["reasons"][0]
    assert second["rules"] == ["saturation: overflow becomes the largest finite value"]
    assert {"name": "ocp_sat", "versions": "OFP8 1.0"} in second["profiles"]


def test_values_come_in_a_format():
    """Rounded to it first; as its code; and its subnormals are flushed where a profile flushes operands."""
    assert "39  0 0111 001" in run("1.06250000001", "e4m3fn").split("\n\n")[1]
    assert "1.0625 = 0x1.1p+0 lies half-way" in run("1.06250000001", "e4m3fn", "--from", "binary32")
    assert run("3f880000", "e4m3fn", "--from", "binary32", "--code") == run("1.0625", "e4m3fn")
    assert "7f  0 1111 111  nan" in run("-5", "e4m3fn", "--from", "ue4m3").split("\n\n")[1]
    assert run("-1.0625", "e4m3fn").splitlines()[0].startswith("-1.0625 = -0x1.1p+0 lies half-way")


def test_flushed_operands_are_told():
    """A subnormal of bfloat16: x86 in a process that treats them as zeros, by a profile of one's own."""
    fmt = lp.format("e4m3fn")
    profile = lp.Profile(
        "mine", "1", {fmt: lp.Projection(rounding="away_from_zero", subnormals="flush_operands")}
    )

    tiny = decode(1, lp.format("bfloat16"))
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(explanation, "PROFILES", {"mine": profile})
        (answer,) = explain(tiny, fmt, lp.format("bfloat16")).answers
        assert answer.codes == (0,)
        zero, up = explain(tiny, fmt).answers
    assert (zero.codes, up.codes) == ((0,), (1,))
    assert up.reasons[0].words == ("rounded away from zero (away_from_zero)",)


def test_the_payload_of_a_nan_counts():
    """Of the code that is given; x86 makes it quiet and keeps it."""
    text = run("7f802000", "binary16", "--from", "binary32", "--code")
    quiet, *_, kept = text.split("\n\n")[1:]
    assert quiet.startswith("7e00 ")
    assert "    the payloads of NaNs kept" in kept
    assert kept.startswith("7e01 ")
    assert "x86" in kept


def test_random_integers_decide():
    """The two codes between which a stochastic mode chooses."""
    fmt = lp.format("e4m3fn")
    profile = lp.Profile("mine", "1", {fmt: lp.Projection(rounding="stochastic(8)")})

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(explanation, "PROFILES", {"mine": profile})
        found = explain(Fraction(17, 16), fmt)
    assert [answer.codes for answer in found.answers] == [(0x38,), (0x38, 0x39)]
    assert "or 39  0 0111 001  1.125 = 0x1.2p+0, by a random integer" in found.as_text()


def test_a_refusal_is_an_answer():
    """NaN in a format without it."""
    found = explain(Special.NAN, lp.format("e2m1fn"))
    assert found.answers[0].codes == ()
    assert "NaN" in found.answers[0].refusal
    assert any(line.startswith("refused: ") for line in found.as_text())


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["four", "e4m3fn"], "'four' is no number"),
        (["464", "e4m3"], "format 'e4m3' is ambiguous"),
        (["464"], "name a FORMAT"),
        (["7e", "e4m3fn", "--code"], "--code needs --from FORMAT"),
        (["zz", "e4m3fn", "--from", "e5m2", "--code"], "'zz' is no code in hexadecimal"),
        (["1ff", "e4m3fn", "--from", "e5m2", "--code"], "is no code of 'e5m2'"),
        (["464", "mxfp4"], "mxfp4"),
    ],
)
def test_misuse_is_refused(arguments, message):
    """Exit code 2."""
    result = CliRunner().invoke(main, ["explain", *arguments])
    assert result.exit_code == 2
    assert message in result.output


def test_the_source_must_have_the_value():
    """Else it would be no operand."""
    with pytest.raises(ValueError, match="is no value of 'binary32'"):
        explain(Fraction(1, 3), lp.format("e4m3fn"), lp.format("binary32"))


def test_no_kernel_is_compiled():
    """It answers at once, however cold the cache is."""
    script = (
        "from lowprec.cli.main import main\n"
        "try: main(['explain', '464', 'e4m3fn'])\n"
        "except SystemExit as stop: assert not stop.code, stop.code\n"
        "from lowprec.kernels.compiling import COMPILED\nassert not COMPILED"
    )
    assert subprocess.run([sys.executable, "-c", script], capture_output=True, check=False).returncode == 0


def test_values_are_those_of_the_reference():
    """A few by hand, with the oracle."""
    fmt = lp.format("e5m2")
    for value in (0.1, -3.7, 1e9, 1e-9):
        found = explain(from_float(value), fmt)
        assert found.answers[0].codes == (project(from_float(value), fmt),)
