"""Hardware in a file: what is read is what the objects are, and what cannot be is named."""

import dataclasses
import math
import os
import re
import tomllib
from fractions import Fraction

import numpy as np
import pytest

import lowprec as lp
from lowprec.spec import catalog, toml_reading
from lowprec.spec.block import ScaleRule
from lowprec.spec.families import ieee
from lowprec.spec.profiles.profile import OnDemand
from lowprec.spec.rounding import Rounding, Threshold
from lowprec.spec.toml_reading import from_toml
from lowprec.spec.toml_writing import to_toml

CATALOGS = [*lp.formats.values(), *lp.block_formats.values(), *lp.accumulations.values()]
PROFILES = [profile for profile in lp.profiles.values() if not isinstance(profile.formats, OnDemand)]


def test_what_is_written_is_read_back():
    """Everything that has a name, its name and source too; the last object of its text."""
    for spec in (*CATALOGS, *PROFILES):
        (*_, back) = from_toml(lp.to_toml(spec)).values()
        assert (back.name, back.source) == (spec.name, spec.source)
        if not isinstance(spec, lp.Profile):
            assert back == spec
            continue
        assert dict(back.formats) == dict(spec.formats), spec.name
        assert {key: (of, of.name) for key, of in back.blocks.items()} == {
            key: (of, of.name) for key, of in spec.blocks.items()
        }


def test_a_profile_of_too_many_formats_is_not_written():
    """P3109's are made as they are asked for."""
    with pytest.raises(ValueError, match="formats are made on demand cannot be written: they are too many"):
        lp.to_toml(lp.profiles["p3109"])


def test_every_field_can_be_written():
    """Private formats, thresholds of a rounding mode, a threshold of a rule, and what is None."""
    odd = Rounding("odd ends", *(Threshold.HALF_OR_ABOVE,) * 3, Threshold.ABOVE_HALF)
    wide = ieee("wide 22", 8, 13)
    how = lp.Accumulation(
        name="mine",
        operands=(ieee("tiny", 3, 2), lp.format("e4m3fn")),
        operand_rounding=lp.Projection(rounding="toward_zero", saturation="finite"),
        order="chunked(64)",
        accumulator=lp.Window(step=8, fraction_bits=None, result=(wide, lp.Projection(rounding=odd))),
        total=("binary32", "stochastic(4)"),
        output="bfloat16",
    )
    assert from_toml(lp.to_toml(how))["mine"] == how
    rule = ScaleRule("two thirds", "maximum", "nearest", Fraction(3, 2))
    block = lp.BlockFormat(
        name="mine", element="e2m1fn", scale="e8m0", size=(4, 8), rule=rule, elements=lp.Projection()
    )
    assert from_toml(lp.to_toml(block))["mine"] == block


FILE = """
[tiny]
exponent_bits = 3
trailing_bits = 2

[unit]
operands = "tiny"
output = "binary32"
accumulator = { step = 4, fraction_bits = 24, result = ["binary32", "toward_zero"] }

[exact-unit]
base = "unit"
accumulator = { fraction_bits = "all" }

[blocks]
element = "tiny"
scale = "e8m0fnu"
size = 32
rule = { divisor = "maximum", powers = "nearest", threshold = "4/3" }
elements = { rounding = "nearest_away" }

[stack]
kind = "profile"
[stack.formats]
tiny = { saturation = "finite" }
[stack.blocks]
mxfp4 = { rule = "rceil" }
"""


def test_a_file_may_hold_several_that_use_each_other(tmp_path):
    """Formats before what is made of them; `base` begins with another, and tables change parts of it."""
    path = tmp_path / "mine.toml"
    path.write_text(FILE)
    made = lp.load_toml(path)
    tiny = lp.Format(name="tiny", exponent_bits=3, trailing_bits=2, bias=3)
    window = lp.Window(step=4, fraction_bits=24, result=("binary32", "toward_zero"))
    unit = lp.Accumulation(name="unit", operands=(tiny, tiny), accumulator=window, output="binary32")
    exact = dataclasses.replace(unit, accumulator=dataclasses.replace(window, fraction_bits=None))
    assert list(made) == ["tiny", "unit", "exact-unit", "blocks", "stack"]
    assert (made["unit"], made["exact-unit"], made["exact-unit"].name) == (unit, exact, "exact-unit")
    # A table of a field that has a default changes that: saturation stays finite.
    assert made["blocks"].elements == lp.Projection(rounding="nearest_away", saturation="finite")
    assert made["blocks"].rule.threshold == Fraction(4, 3)
    assert made["stack"].projection(tiny) == lp.Projection(saturation="finite")
    assert made["stack"].block("mxfp4") == dataclasses.replace(lp.block_formats["mxfp4"], rule="rceil")


def test_a_file_of_one_is_named_after_itself(tmp_path):
    """Unless it says otherwise."""
    path = tmp_path / "mine.toml"
    path.write_text('output = "binary32"\naccumulator = "binary32"')
    assert list(lp.load_toml(path)) == ["mine"]
    path.write_text('name = "other"\nbase = "mxfp4"')
    assert lp.load_toml(path)["other"] == lp.block_formats["mxfp4"]


WINDOW = 'output = "binary32"\noperands = "e4m3fn"\n'
BLOCK = 'element = "e2m1fn"\nscale = "e8m0fnu"\n'


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "it is empty; give the fields of a format, a block format, an accumulation, a profile"),
        ("colour = 3", "colour does not say what it is; add kind, one of 'format', 'block format'"),
        (
            'kind = ["format"]',
            "unknown kind ['format']; use one of 'format', 'block format', 'accumulation', ",
        ),
        ('kind = "unit"', "unknown kind 'unit'; use one of 'format', 'block format', 'accumulation', 'prof"),
        ('base = "mxfp5"', "base='mxfp5' is the name of nothing; did you mean 'mxfp"),
        ('base = "mxfp8"', "base: block format 'mxfp8' is ambiguous: use 'mxfp8_e4m3' or 'mxfp8_e5m2'"),
        ('kind = "format"\nbase = "mxfp4"', "base: 'mxfp4' is a block format"),
        (
            'output = "binary32"\nacumulator = "binary32"',
            "unknown field 'acumulator' of an accumulation; did you mean accumulator? the fields are",
        ),
        (
            'output = "binary32"\nelement = "e2m1fn"\norder = "exact"',
            "unknown field 'element' of an accumulation; a block format has it; the fields are",
        ),
        (
            WINDOW + "[accumulator]\nstep = 8\nfraction_bit = 24",
            "unknown field 'fraction_bit' of a window; did you mean fraction_bits? the fields are step",
        ),
        (WINDOW + "[accumulator]\nstep = 8", "a window needs fraction_bits and result"),
        (
            WINDOW + 'accumulator = { step = 8, fraction_bits = 60, result = "binary32" }',
            "fraction_bits=60 of a window is out of range; use 1 to 48, or None to keep all",
        ),
        (
            WINDOW + 'accumulator = { rounding = "toward_zero" }',
            "accumulator needs format, beside the fields of a projection, or the fields of a window",
        ),
        (
            'output = "binary32"\norder = "exact"\naccumulator = "binary32"',
            "order 'exact' has no accumulator and no total: its sum is rounded once, to the output",
        ),
        (
            'output = "binray32"\norder = "exact"',
            "output: unknown format 'binray32'; did you mean 'binary32'",
        ),
        ('output = 32\norder = "exact"', "output=32 must be a format's name, a list of a format and a round"),
        (
            WINDOW + 'order = "exact"\noperand_rounding = "toward_zero"',
            "operand_rounding='toward_zero' must be a table with fields of a projection: rounding",
        ),
        (WINDOW + 'order = "exact"\nscale = "e8m0fnu"', "scale='e8m0fnu' must be a list [format, size]"),
        (BLOCK, "a block format needs size"),
        (BLOCK + 'size = 32\nrule = "flor"', "unknown scale rule 'flor'; use one of floor, ceil"),
        (BLOCK + 'size = 32\nmin_scale = "tiny"', "min_scale of a block format must be a float, not 'tiny'"),
        (
            BLOCK + 'size = 32\nrule = { divisor = "one", powers = "nearest", threshold = "4/0" }',
            "threshold: '4/0' is no number; write it as 464, 1.5e-3, 1/3, 0x1.8p+3 or 3*2^-140",
        ),
        ('[formats]\ne4m3fn = "finite"', "formats of a profile must be a table with a table for each format"),
        ('[unit]\noutput = "binary32"', "[unit]: order 'sequential' needs an accumulator"),
        (
            'exponent_bits = 4\ntrailing_bits = 3\nsign = "plus"',
            "sign='plus' of a format is unknown; use one of magnitude, unsigned, twos_complement",
        ),
    ],
)
def test_what_cannot_be_is_refused_by_its_field(tmp_path, text, message):
    """With the file, the object's table, what is close and what there is."""
    path = tmp_path / "mine.toml"
    path.write_text(text)
    with pytest.raises(ValueError, match=f"^{re.escape(repr(str(path)))}: {re.escape(message)}"):
        lp.load_toml(path)


def test_long_files_and_missing_ones_are_refused(tmp_path):
    """A hostile file is not parsed."""
    path = tmp_path / "long.toml"
    path.write_text("#" * 70_000)
    with pytest.raises(ValueError, match="as TOML: hardware is described in a few lines, and this has more"):
        lp.load_toml(path)
    with pytest.raises(ValueError, match=r"cannot read .*none\.toml' as TOML: .*No such file"):
        lp.load_toml(tmp_path / "none.toml")


@pytest.mark.parametrize("make", [os.mkdir, os.mkfifo])
def test_folders_and_pipes_are_refused_at_once(tmp_path, make):
    """A pipe that nobody writes to was waited for."""
    make(path := tmp_path / "it.toml")
    with pytest.raises(ValueError, match=r"cannot read .*it\.toml' as TOML: it is no regular file"):
        lp.load_toml(path)


@pytest.mark.parametrize("letters", ["\U0001f600", "\u00e9\u4e16", '"quoted"', "it's"])
@pytest.mark.parametrize("spec", [lp.formats["e4m3fn"], lp.codebooks["nf4"], lp.block_formats["nvfp4"]])
def test_names_and_sources_of_any_letters_come_back(spec, letters):
    """Letters beyond 16 bits were written as two halves of a pair, which no TOML has."""
    how = dataclasses.replace(lp.accumulations["fp32_fma"], name=f"sum {letters}")
    for each in (dataclasses.replace(spec, name=letters, source=rf"\u{letters}\ud83d"), how):
        text = lp.to_toml(each)
        (found,) = from_toml(text).values()
        assert (found, found.name, found.source) == (each, each.name, each.source)
        assert text.isascii()


def test_private_formats_of_one_name_are_told_apart():
    """A block format may be named as its element and scale, and as a format of the catalog."""
    names = ("own", "own", "own"), ("own", "e4m3fn", "e4m3fn"), ("private", "private", "private")
    for name, element, scale in names:
        fmt = lp.BlockFormat(
            name=name,
            element=lp.Format(name=element, exponent_bits=2, trailing_bits=2),
            scale=lp.Format(name=scale, exponent_bits=5, trailing_bits=1, sign="unsigned"),
            size=8,
        )
        (found,) = (each for each in from_toml(lp.to_toml(fmt)).values() if isinstance(each, lp.BlockFormat))
        assert repr(found) == repr(fmt)


def test_private_objects_named_like_fields_come_back():
    """Tables that are named so could be the fields of one object."""
    fmt = dataclasses.replace(lp.format("e4m3fn"), name="name", bias=6)
    block = lp.BlockFormat(name="values", element=fmt, scale="e8m0fnu", size=4)
    sums = lp.Accumulation(name="output", accumulator=(fmt, lp.Projection()), output="binary32")
    for spec in (block, sums):
        assert from_toml(to_toml(spec))[spec.name] == spec


def test_a_format_named_none_is_not_read_as_nothing():
    fmt = lp.Format(name="none", exponent_bits=4, trailing_bits=1, nans=1)
    sums = lp.Accumulation(name="a", product=fmt, accumulator="binary32", output="binary32")
    assert from_toml(to_toml(sums))["a"] == sums


def test_codebooks_without_usual_thresholds_come_back():
    """The midpoint of the two values would have 161 bits."""
    book = lp.Codebook("own", [0.0, 2.0**-60, 2.0**100, 2.0**101], thresholds=[2.0**-61, 1.0, 1.5 * 2.0**100])
    (found,) = from_toml(lp.to_toml(book)).values()
    assert found == book


DOTS, BRACKETS, LONG = (
    "it is nested too deeply: a key has more than 16 dots",
    "it is nested too deeply",
    "hardware is described in a few lines",
)
RULE = BLOCK + 'size = 32\nrule = {{ divisor = "one", powers = "nearest", threshold = "{}" }}'
BOOK = 'kind = "codebook"\nvalues = [0, 1, 2, {}]'
HOSTILE = {
    "dots": ("a" + ".a" * 20_000 + " = 1", DOTS),
    "dots with blanks": ("a" + " . a" * 10_000 + " = 1", DOTS),
    "dots between quoted parts": ('"=".' * 10_000 + "a = 1", DOTS),
    "dots behind a string": ('t = {s = """ "\' """, a' + ".a" * 10_000 + " = 1, u = 'x'}", DOTS),
    "dots of a table": ("[a" + ".a" * 10_000 + "]\n" + "b = 1\n" * 1000, DOTS),
    "lists": ("a = " + "[" * 3000, BRACKETS),
    "tables": ("a = " + "{a=" * 3000, BRACKETS),
    "strings without an end": ("a = " + '"""\\' * 16_000, "in a string (at end of document)"),
    "letters of two bytes": ("#" + "\u00e9" * 40_000, LONG),
    "a threshold": (RULE.format("1e99999999"), "threshold: '1e99999999' is too long a number; write it as"),
    "a small threshold": (RULE.format("1e-99999999"), "threshold: '1e-99999999' is too long a number"),
    "a value": (BOOK.format('"1e99999999"'), "values: '1e99999999' is too long a number"),
    "a power of two": (BOOK.format('"1*2^99999999"'), "values: '1*2^99999999' is too long a number"),
    "two powers": (BOOK.format('"1e99999999*2^3"'), "values: '1e99999999*2^3' is too long a number"),
    "a value beyond float64": (BOOK.format('"3*2^9000"'), "the value of code 0x3 of codebook"),
    "a long integer": (BOOK.format("9" * 400), "values is an integer beyond float64's range"),
    "a long hexadecimal integer": (
        f"exponent_bits = 0x{'f' * 9000}\ntrailing_bits = 3",
        "exponent_bits is an integer beyond float64's range",
    ),
    "a float that is none": (BLOCK + f"size = 32\nmin_scale = {'9' * 400}", "min_scale is an integer beyond"),
}


@pytest.mark.parametrize(("text", "message"), HOSTILE.values(), ids=HOSTILE)
def test_hostile_texts_are_refused_before_they_take_time(tmp_path, text, message):
    """In a file, and where a checkpoint's header holds them."""
    path = tmp_path / "mine.toml"
    path.write_text(text)
    with pytest.raises(ValueError, match=re.escape(message)) as found:
        lp.load_toml(path)
    assert len(str(found.value)) < 1000
    with pytest.raises(ValueError, match=re.escape(message)):
        from_toml(text)


@pytest.mark.parametrize(
    ("more", "message"),
    [
        (
            "".join(f"\n[t{place}]" for place in range(50_000)),
            r"50,00\d keys, tables and arrays, and at most",
        ),
        (
            "".join(f"\nk{place}=0" for place in range(50_000)),
            r"50,00\d keys, tables and arrays, and at most",
        ),
        ("\nz = [" + "0," * 300_000 + "]", "300,000 commas, and at most 262,144 are read"),
    ],
)
def test_long_texts_of_many_parts_are_refused_before_they_are_parsed(monkeypatch, more, message):
    """Codebooks of many values are let in by their length, and 8 MB of tables took 20 seconds."""
    monkeypatch.setattr("tomllib.loads", None)
    text = to_toml(catalog.MXFP4).replace("size = 32\n", "")
    with pytest.raises(ValueError, match=message):
        from_toml(text.split("source")[0] + 'scale = "e8m0fnu"' + more, most=1 << 23)


def test_dots_in_strings_comments_and_lists_are_no_nesting():
    """Sources are sentences, and values have dots."""
    text = f"# {'...' * 99}\nsource = \"{'A. ' * 99}\"\nkind = 'codebook'\nvalues = [0.5, 1.5, 2.5, 3.5]"
    assert from_toml(text)["private"].source == "A. " * 99


@pytest.mark.parametrize("number", ["1e400", "-1_0.5e9_99", "1e-400", "-0.1E-399"])
@pytest.mark.parametrize("field", ["values = [0.0, 1.0, 2.0, {}]", "min_scale = {}"])
def test_numbers_beyond_float64_are_refused(tmp_path, number, field):
    """They would be read as an infinity or as zero."""
    path = tmp_path / "mine.toml"
    path.write_text(field.format(number))
    message = f"cannot read '{path}' as TOML: {number} is beyond float64's range"
    with pytest.raises(ValueError, match=f"^{re.escape(message)}$"):
        lp.load_toml(path)


def test_zeros_infinities_and_nans_are_numbers():
    text = "values = [0e9, -inf, nan, +inf, 0.0e-999, 1.5, -2.5, 5e-324]"
    wanted = [0.0, -math.inf, math.nan, math.inf, 0.0, 1.5, -2.5, 5e-324]
    assert np.array_equal(
        tomllib.loads(text, parse_float=toml_reading.float64)["values"], wanted, equal_nan=True
    )


OTHER = dataclasses.replace(lp.formats["e4m3fn"], name="other", bias=9)


@pytest.mark.parametrize(
    "spec",
    [
        lp.formats["e4m3fn"],
        lp.codebooks["nf4"],
        lp.block_formats["mxfp4"],
        lp.accumulations["fp32_fma"],
        lp.profiles["ocp"],
        lp.Accumulation(output=OTHER, accumulator=OTHER),
    ],
)
def test_things_without_a_name_have_none_after_a_file(tmp_path, spec):
    nameless = dataclasses.replace(spec, name="")
    (tmp_path / "mine.toml").write_text(to_toml(nameless))
    assert lp.load_toml(tmp_path / "mine.toml")[""] == nameless


def test_several_objects_are_written_to_one_file(tmp_path):
    """Formats come before what is made of them, each once, and all are read back as they were."""
    six = lp.Format(name="six", exponent_bits=3, trailing_bits=2, bias=4, nans=1, negative_zero=False)
    block = lp.BlockFormat(name="twelve", element=six, scale="ue5m3", size=12, rule="divide")
    how = lp.Accumulation(name="mine", accumulator="binary32", output=(six, "toward_zero"))
    file = tmp_path / "mine.toml"
    file.write_text(lp.to_toml(block, six, how))
    read = lp.load_toml(file)
    assert read == {"six": six, "twelve": block, "mine": how}
    assert lp.to_toml(read) == file.read_text()
    assert file.read_text().count("[six]") == 1


def test_objects_of_one_name_are_refused():
    six = lp.Format(name="six", exponent_bits=3, trailing_bits=2, bias=4)
    with pytest.raises(
        ValueError, match=r"^of several objects each needs a name of its own, and one is .six.$"
    ):
        lp.to_toml(six, dataclasses.replace(six, bias=5))
    with pytest.raises(TypeError, match=r"^to_toml takes one of .*, or several, not none$"):
        lp.to_toml()
