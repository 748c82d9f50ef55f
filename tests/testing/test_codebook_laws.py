"""Every named codebook keeps the laws; what is wrong with one of somebody's own is found, and named."""

import dataclasses
import math

import numpy as np
import pytest
from hypothesis import given, settings

import lowprec as lp
from lowprec.spec.codebook import Codebook
from lowprec.spec.codebooks import CODEBOOKS, ENTRIES, named
from lowprec.testing import (
    check_block_format,
    check_cast,
    check_format,
    check_operation,
    codes,
    near_ties,
    values,
)
from lowprec.testing.laws import LAWS
from lowprec.testing.laws.codebooks import law_of_codebook
from lowprec.testing.subjects import Arrays

SMALL = [name for name, entry in ENTRIES.items() if entry.width <= 8]
POSIT, NF4, HIF8 = named("posit8"), named("nf4"), named("hif8")
NAN = math.nan
TIED = Codebook("t", POSIT.values, thresholds=POSIT.thresholds, ties="away", overflow="never")
MIDPOINTS = Codebook("m", POSIT.values, overflow="never")
OTHERS = [
    Codebook("positive", [0.5, 1, 3, 4]),
    Codebook("positive with NaN", [0.5, 1, 3, NAN], overflow="never"),
    Codebook("uneven", [1.5, -1.0, NAN, 6.0, math.inf, -0.25, 20.0, NAN],
             thresholds=[-0.5, 0.5, 4.0, 7.0], ties="away"),
    Codebook("zeros", [0.0, 1, 2, NAN, -0.0, -1, -3, -math.inf], ties="zero", overflow=5.0),
    Codebook("parities", [0, 2, 4, 6, 1, 3, 5, NAN], thresholds=[0, 1, 2.5, 3.5, 4.25, 6]),
]  # fmt: skip


@pytest.mark.apart
@pytest.mark.parametrize(
    "book", [*(pytest.param(name, id=name) for name in ("posit5", "nf4", "iq4_nl")), *OTHERS]
)
def test_a_codebook_keeps_the_laws(book):
    """By arrays, with flags and by the oracle: with a zero or none, signs, NaNs and infinities or not."""
    assert check_format(book).tried > 5_000


#: Of 65,536 values each law takes seconds.
NAMED = [
    pytest.param(name, marks=pytest.mark.long if "16" in name else pytest.mark.apart)
    for name in (*CODEBOOKS, "posit6_es1", "takum12", "lns10_4", "posit10_es0")
]


@pytest.mark.parametrize("name", NAMED)
def test_every_named_codebook_keeps_the_laws(name):
    """Of 16 bits too."""
    check_format(name)


def test_a_codebook_of_two_numbers_keeps_the_laws():
    check_format(Codebook("one bit", [-1.0, 1.0, NAN, NAN]))


def test_laws_say_which_codebooks_they_are_about():
    """A set without sign, zero, NaN or symmetry keeps the others."""

    def tried(book):
        return {law.name for law in LAWS.values() if law.topic == "format" and law.concerns(Arrays(book))}

    posit, nf4, unsigned = tried(POSIT), tried(NF4), tried(named("udynamic8"))
    assert "sign symmetry of codebooks" in posit - nf4 - unsigned
    assert "negatives of unsigned codebooks" in unsigned - posit - nf4
    assert not {"increasing", "signs", "specials on top", "powers of two", "limits"} & (posit | nf4)
    assert not {name for name in tried(lp.format("e4m3fn")) if "codebook" in name}
    for name in ("thresholds", "codebook values", "monotone", "round trip", "neighbours"):
        assert name in posit & nf4 & unsigned
        assert LAWS[name].codebooks


class Own:
    """Someone's implementation of a codebook, by another codebook that has something wrong."""

    def __init__(self, fmt, wrong, **projection):
        self.name, self.format, self.wrong, self.how = "own", fmt, wrong, projection

    def decode(self, given):
        """Look values up."""
        return np.array(self.wrong.values)[given]

    def encode(self, numbers):
        """Encode as the other codebook does."""
        return lp.encode(numbers, self.wrong, **self.how)


def posit_with_regime_off_by_one():
    """A posit whose longest regimes are one bit too short."""
    return named("posit8_es1")


def swapped_codes():
    found = list(NF4.values)
    found[3], found[4] = found[4], found[3]
    return Codebook("swapped", found, thresholds=NF4.thresholds, ties="down")


def with_threshold(place, value):
    found = list(POSIT.thresholds)
    found[place] = value
    return Codebook("threshold", POSIT.values, thresholds=found, overflow="never")


MISTAKES = {
    "regime": (POSIT, posit_with_regime_off_by_one(), {}, "codebook values"),
    "swapped codes": (NF4, swapped_codes(), {}, "codebook values"),
    "midpoints": (POSIT, MIDPOINTS, {}, "thresholds"),
    "one threshold": (POSIT, with_threshold(200, math.nextafter(POSIT.thresholds[200], math.inf)), {},
                      "thresholds"),
    "at zero": (POSIT, with_threshold(127, POSIT.values[1] / 2), {}, "thresholds"),
    "ties": (POSIT, TIED, {}, "thresholds"),
    "ties of nf4": (NF4, Codebook("t", NF4.values, thresholds=NF4.thresholds), {}, "thresholds"),
    "overflow": (POSIT, Codebook("o", POSIT.values, thresholds=POSIT.thresholds), {}, "codebook overflow"),
    "HiFloat8's bound": (HIF8, Codebook("h", HIF8.values, ties="away"), {}, "codebook overflow"),
    "truncated": (NF4, NF4, {"rounding": "toward_zero"}, "thresholds"),
    "saturated": (HIF8, HIF8, {"saturation": "finite"}, "round trip"),
    "another takum": (named("takum8"), named("takum_linear8"), {}, "codebook values"),
}  # fmt: skip


@pytest.mark.parametrize(("fmt", "wrong", "how", "law"), MISTAKES.values(), ids=MISTAKES)
def test_a_planted_mistake_breaks_a_law(fmt, wrong, how, law):
    """The first that is broken says what is wrong; the right implementation keeps all."""
    check_format(Own(fmt, fmt, projection=lp.Projection(nan="max")))
    how = {"projection": lp.Projection(nan="max", **how)}
    with pytest.raises(AssertionError, match=f"own breaks the law '{law}'") as error:
        check_format(Own(fmt, wrong, **how))
    assert "smallest counterexample" in str(error.value)


def test_swapped_thresholds_are_no_codebook_at_all():
    """They are refused where a codebook is made."""
    found = list(NF4.thresholds)
    found[2], found[3] = found[3], found[2]
    with pytest.raises(ValueError, match="lies outside its gap"):
        Codebook("swapped", NF4.values, thresholds=found)


def test_a_cast_is_held_against_a_codebook():
    """Right ones pass; a wrong one breaks the law about its first difference."""
    assert check_cast(lambda x: lp.encode(x, "posit8"), "posit8").mismatches == 0
    finite = {"projection": lp.Projection(nan="max")}
    assert check_cast(lambda x: lp.encode(x, "iq4_nl", **finite), "iq4_nl", **finite).mismatches == 0
    with pytest.raises(AssertionError, match="breaks the law 'thresholds' of posit8") as error:
        check_cast(lambda x: lp.encode(x, MIDPOINTS), "posit8")
    assert "thresholds at the middles between values, not posit8's own" in str(error.value)


def test_laws_of_a_number_by_where_it_lies():
    """Of the three parts that numbers have."""
    assert [law_of_codebook(x, named("udynamic8")) for x in (0.0, -1.0, 0.3, 5.0, math.nan)] == [
        "thresholds", "negatives of unsigned codebooks", "thresholds", "codebook overflow",
        "specials of codebooks",
    ]  # fmt: skip
    assert law_of_codebook(0.0, OTHERS[0]) == "specials of codebooks"


@pytest.mark.parametrize("operation", [pytest.param("add", marks=pytest.mark.apart), "divide", "fma"])
def test_a_unit_of_posits_is_held_against_the_laws(operation):
    """One that rounds by midpoints is found."""

    def unit(fmt):
        def compute(*columns):
            given = [np.asarray(lp.decode(column, POSIT)) for column in columns]
            return np.asarray(getattr(lp, operation)(*given, fmt, dtype=np.uint8))

        return compute

    samples = 1 << 16 if operation == "add" else 2_000
    check_operation(unit(POSIT), operation, "posit8", samples=2_000)
    with pytest.raises(AssertionError, match="breaks the law 'real result'"):
        check_operation(unit(MIDPOINTS), operation, "posit8", samples=samples)


@given(
    codes("posit8"), codes("nf4", finite=True), values("takum8"), near_ties("udynamic8"), near_ties("posit8")
)
@settings(max_examples=60, deadline=None)
def test_strategies_draw_of_codebooks(code, finite, value, near, signed):
    """Codes, values, and numbers next to thresholds."""
    assert 0 <= code < 256
    assert 0 <= finite < 16
    assert value in named("takum8").values
    assert near >= 0
    assert math.isfinite(signed)


@pytest.mark.apart
@pytest.mark.parametrize("scale", ["posit8", "lns8_3"])
def test_blocks_with_scales_in_a_codebook_keep_the_laws(scale):
    """Also the one that rounds the quotient by the codebook's thresholds, which middles break."""
    fmt = lp.BlockFormat(
        name="mine", element="e2m1fn", scale=scale, size=8, rule="divide",
        scales=lp.Projection(saturation="finite", nan="max"),
    )  # fmt: skip
    assert check_block_format(fmt, samples=8).tried > 1_000
    middles = Codebook("middles", fmt.scale.values, overflow="never")

    class Middles:
        name, format = "middles", fmt

        def encode(self, rows):
            made = lp.encode(rows, dataclasses.replace(fmt, scale=middles), axis=1)
            return made.scales[:, 0], made.codes

    with pytest.raises(AssertionError, match="middles breaks the law 'scale rule'"):
        check_block_format(Middles())
