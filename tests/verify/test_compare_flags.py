"""Exception flags are compared with those that must be raised, and the rule that was broken is named."""

from __future__ import annotations

import functools
import json
from pathlib import Path

import numpy as np
import pytest
from click.testing import CliRunner

import lowprec as lp
from lowprec.cli.main import main
from lowprec.spec import catalog
from lowprec.verify.compare.lines import compare_lines
from lowprec.verify.dumps.files import DumpError
from lowprec.verify.questions.elements.flags import shown_flags
from lowprec.verify.reference.operations import flags_of

ROOT = Path(__file__).parents[2]
FLAG = lp.Flag
E5M2 = lp.dtype("e5m2")
FORMATS = (catalog.E5M2, catalog.E5M2, catalog.E5M2)


def operands(size=20_000, seed=0):
    """Numbers around the smallest normal one of e5m2, its largest, and between."""
    rng = np.random.default_rng(seed)
    near = np.nextafter(np.float32(2.0**-14), np.float32(0)) - np.float32(2.0**-24) * rng.random(
        200, np.float32
    )
    wide = rng.standard_normal(size) * np.exp2(rng.integers(-20, 17, size))
    return np.concatenate([wide.astype(np.float32), near, np.float32([2.0**-16, 3 * 2.0**-16, 0.0, np.inf])])


X = operands()


@functools.cache
def encoded():
    """The codes and their flags."""
    flags = np.zeros(X.size, np.uint8)
    return np.asarray(lp.encode(X, "e5m2", flags=flags)), flags


def changed(flags, name):
    raised = {flag: (flags & flag) != 0 for flag in FLAG}
    bits = {
        "inexact lost": flags & ~np.uint8(FLAG.INEXACT),
        "none": flags * 0,
        "stuck": flags | np.uint8(FLAG.INEXACT),
        "alone": np.where(raised[FLAG.OVERFLOW], flags & ~np.uint8(FLAG.INEXACT), flags),
        "reverse": sum(raised[flag].astype(np.uint8) << (4 - place) for place, flag in enumerate(FLAG)),
        "x86": sum(
            raised[flag].astype(np.uint8) << place for place, flag in zip((5, 4, 3, 2, 0), FLAG, strict=True)
        ),
    }
    return bits[name].astype(np.uint8)


PLANTED = {
    "inexact lost": "inexact is never raised",
    "none": "no flags at all",
    "stuck": "inexact is always raised",
    "alone": "overflow raised without inexact",
    "reverse": "flags in reverse order: invalid is 1, inexact 16",
    "x86": "flags numbered as in x86's MXCSR: inexact is 32",
}


def test_right_flags_agree():
    codes, right = encoded()
    report = lp.compare(X, codes, "e5m2", flags=right)
    assert report.agrees
    assert report.flags.agrees
    assert report.flags.compared == X.size


@pytest.mark.parametrize(("name", "words"), PLANTED.items(), ids=PLANTED)
def test_a_broken_rule_is_named(name, words):
    codes, right = encoded()
    report = lp.compare(X, codes, "e5m2", flags=changed(right, name))
    assert not report.mismatches
    assert not report.agrees
    assert report.flags.cause.words == words
    assert report.flags.cause.explained == report.flags.mismatches


def test_tininess_before_rounding_is_named():
    """Numbers just below the smallest normal one, that round to it: no underflow after rounding."""
    (codes, right), tiny = encoded(), np.abs(X) < 2.0**-14
    before = np.where(tiny & ((right & FLAG.INEXACT) != 0), right | FLAG.UNDERFLOW, right).astype(np.uint8)
    assert (before != right).sum() > 50
    report = lp.compare(X, codes, "e5m2", flags=before)
    words = "tininess judged before rounding"
    assert report.flags.cause.words == words
    assert report.flags.cause.explained == report.flags.mismatches == (before != right).sum()
    assert report.flags.tally.situations == {
        "underflow raised, though it must not be": report.flags.mismatches
    }


def test_underflow_of_exact_results_is_named():
    x = np.float32(np.arange(1, 40)) * np.float32(2.0**-18)
    right = np.zeros(x.size, np.uint8)
    codes = lp.encode(x, "e5m2", flags=right)
    tiny = np.where(np.abs(np.asarray(lp.decode(codes, "e5m2"))) > 0, right | FLAG.UNDERFLOW, right)
    tiny = np.where(np.abs(x) < 2.0**-14, tiny, right).astype(np.uint8)
    assert lp.compare(x, codes, "e5m2", flags=tiny).flags.cause.words == (
        "underflow raised for every tiny result, the exact ones too"
    )


def test_flags_beside_results_in_a_codebook_are_compared():
    """No value of it is tiny, which some hypotheses ask."""
    x, flags = np.linspace(-2, 2, 300, dtype=np.float32), np.zeros(300, np.uint8)
    codes = lp.encode(x, "nf4", flags=flags)
    flags[3] ^= lp.Flag.UNDERFLOW
    assert "index 3:" in str(lp.compare(x, codes, "nf4", flags=flags))


def test_flags_of_another_rounding_are_named():
    """Right results in the question's mode, flags of flushing hardware."""
    flushed = np.zeros(X.size, np.uint8)
    lp.encode(X, "e5m2", projection=lp.Projection(subnormals="flush_results"), flags=flushed)
    report = lp.compare(X, encoded()[0], "e5m2", flags=flushed)
    assert report.flags.cause.words == "flush to zero: subnormal results become zeros"


def test_flags_of_operations_are_compared():
    rng = np.random.default_rng(3)
    x, y = (rng.integers(0, 256, 2000, np.uint8) for _ in range(2))
    right = flags_of("divide", [x, y], FORMATS, lp.Projection())
    codes = np.asarray(lp.divide(x.view(E5M2), y.view(E5M2), "e5m2", dtype=np.uint8))
    options = {"operation": "divide", "source": "e5m2", "any_nan": True}
    assert lp.compare((x, y), codes, "e5m2", flags=right, **options).agrees
    wrong = right & ~np.uint8(FLAG.DIVIDE_BY_ZERO)
    report = lp.compare((x, y), codes, "e5m2", flags=wrong, **options)
    assert report.flags.cause.words == "divide by zero is never raised"
    assert report.flags.mismatches == ((right & FLAG.DIVIDE_BY_ZERO) != 0).sum()


def test_flags_of_scaled_conversions_are_those_of_the_division():
    right, scale = np.zeros(X.size, np.uint8), np.float64(0.3)
    codes = lp.divide(X, np.full(X.size, scale), "e5m2", dtype=np.uint8, flags=right)
    assert lp.compare(X, codes, "e5m2", scale=scale, flags=right).agrees
    report = lp.compare(X, codes, "e5m2", scale=scale, flags=changed(right, "none"))
    assert report.flags.cause.words == "no flags at all"


def test_a_difference_says_which_flags():
    x = np.float32([1.0, 1.1])
    report = lp.compare(x, lp.encode(x, "e5m2"), "e5m2", flags=np.uint8([4, 0]))
    first, second = report.flags.details
    assert (first["got"], first["want"], first.situation) == (
        "overflow",
        "none",
        "overflow raised, though it must not be",
    )
    assert (second["got"], second["want"], second.situation) == ("none", "inexact", "inexact missing")
    assert f"\n\nflags:\n{report.flags.sum()}\n" in str(report)
    assert "\n\nindex 0:\n    operand" in str(report).partition("flags:\n")[2]


def test_unknown_bits_are_told():
    assert shown_flags(0x41) == "inexact, 0x40"
    report = lp.compare(np.float32([1.0]), np.uint8([0x3C]), "e5m2", flags=np.uint8([0x40]))
    assert report.flags.details[0].situation == "no flags of lowprec.Flag"


def test_the_report_has_both(tmp_path):
    import jsonschema

    codes, right = encoded()
    report = lp.compare(X, codes, "e5m2", flags=changed(right, "none"))
    data = json.loads(report.as_json())
    jsonschema.validate(data, json.loads((ROOT / "tables/schema/compare.schema.json").read_text()))
    assert data["mismatches"] == 0
    assert data["flags"]["mismatches"] == report.flags.mismatches > 0
    text = report.as_junit()
    assert 'failures="1"' in text
    assert "no flags at all" in text


LINES = ["3f800000 3c 00", "3f8ccccd 3c 01", "7f800000 7c 00", "7f7fffff 7c 05"]


def test_flags_stand_at_the_end_of_lines():
    report = compare_lines(LINES, "convert", (catalog.BINARY32, catalog.E5M2), flags=True)
    assert report.agrees
    assert report.flags.compared == 4
    wrong = [*LINES[:3], "7f7fffff 7c 04"]
    report = compare_lines(wrong, "convert", (catalog.BINARY32, catalog.E5M2), flags=True)
    assert not report.mismatches
    assert report.flags.mismatches == 1
    assert report.flags.details[0].data["line"] == 4


def test_flags_of_any_size_are_wrong():
    """Bits beyond those that a word of 64 has are not dropped."""
    for word in ("4000000000000000", "1" + "0" * 30):
        report = compare_lines(
            [f"3f800000 3c {word}"], "convert", (catalog.BINARY32, catalog.E5M2), flags=True
        )
        assert (report.mismatches, report.flags.mismatches) == (0, 1)


@pytest.mark.parametrize(
    ("line", "message"),
    [
        (
            "3f800000 3c",
            "line 1 has 2 words, but convert needs 1 operand(s) and a result and flags: '3f800000 3c'",
        ),
        ("3f800000 3c xy", "line 1 ends with 'xy', which are no flags: a hexadecimal number"),
    ],
)
def test_lines_without_flags_are_refused(line, message):
    with pytest.raises(DumpError) as refused:
        compare_lines([line], "convert", (catalog.BINARY32, catalog.E5M2), flags=True)
    assert str(refused.value) == message


def test_lines_without_an_answer_have_no_flags():
    report = compare_lines(["3f800000"], "convert", (catalog.BINARY32, catalog.E5M2), flags=True)
    assert (report.mismatches, report.unanswered, report.flags.mismatches) == (1, 1, 1)


def run(*words, **options):
    return CliRunner().invoke(main, [str(word) for word in words], **options)


def test_the_command_compares_flags(tmp_path):
    codes, right = encoded()
    for name, array in {"x": X, "codes": codes, "flags": right, "wrong": changed(right, "none")}.items():
        np.save(tmp_path / f"{name}.npy", array)
    words = ("compare", tmp_path / "x.npy", tmp_path / "codes.npy", "--to", "e5m2", "--flags")
    assert run(*words, tmp_path / "flags.npy").exit_code == 0
    wrong = run(*words, tmp_path / "wrong.npy")
    assert wrong.exit_code == 1
    assert "explained by no flags at all" in wrong.output
    missing = run(*words)
    assert missing.exit_code == 2
    assert "--flags needs a file with the flags of the results" in missing.output
    lines = run("compare", "-", "convert", "binary32", "e5m2", "--flags", input="\n".join(LINES))
    assert lines.exit_code == 0
    assert lines.output.count("4 lines agree") == 2
    early = run("compare", "--flags", "-", "convert", "binary32", "e5m2", input="\n".join(LINES))
    assert early.exit_code == 2


REFUSED = {
    "blocks": ({"to": "mxfp4"}, "flags= is for single values, and 'mxfp4' has blocks"),
    "size": ({"to": "e5m2", "flags": np.zeros(3, np.uint8)}, "flags has 3 flags, but there are 32 results"),
    "shape": (
        {"to": "e5m2", "flags": np.zeros((2, 16), np.uint8), "shape": (4, 8)},
        "flags has shape (2, 16), but the results have (4, 8)",
    ),
    "type": (
        {"to": "e5m2", "flags": np.zeros(32)},
        "flags holds float64; flags are integers, numbered as lowprec.Flag",
    ),
}


@pytest.mark.parametrize(("options", "message"), REFUSED.values(), ids=REFUSED)
def test_flags_that_do_not_fit_are_refused(options, message):
    options = {"flags": np.zeros(32, np.uint8)} | options
    shape = options.pop("shape", (32,))
    with pytest.raises(ValueError, match="flags") as refused:
        lp.compare(np.ones(shape, np.float32), np.zeros(shape, np.uint8), **options)
    assert str(refused.value).startswith(message)
