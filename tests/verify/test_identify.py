"""Units whose accumulation is withheld are identified, and units that misbehave lose nothing."""

from __future__ import annotations

import dataclasses
import re
import time

import numpy as np
import pytest

import lowprec as lp
from lowprec.spec.accumulation import Window
from lowprec.spec.accumulations import ACCUMULATIONS
from lowprec.spec.projection import Projection
from lowprec.verify.identify import units
from lowprec.verify.identify.identify import asked, ports_of
from lowprec.verify.identify.ports import Ports, Prepared, joined
from lowprec.verify.identify.probes import TOPICS, draw
from lowprec.verify.identify.run import Run
from lowprec.verify.identify.search import Answers, Search
from lowprec.verify.identify.sum_order import orders_of, reveal, said as name_of
from tests import identify_multipliers, identify_table

E4M3 = ("e4m3fn", "e4m3fn")


def unit_of(how, **options):
    """Return a unit that sums by an accumulation."""
    return lambda a, b, c=None: lp.dot(a, b, how, addend=c, **options)


def differences(how, found, ports, seed=99, count=60):
    """Count rows of all topics, not asked before, on which two accumulations differ."""
    rng = np.random.default_rng(seed)
    drawn = [draw(ports, topic, count, rng) for topic in TOPICS]
    return sum(
        int(np.count_nonzero(Prepared(rows, ports).codes(how) != Prepared(rows, ports).codes(found)))
        for rows in drawn
    )


@pytest.mark.parametrize(
    "name",
    [
        "hopper_wgmma_e4m3fn_binary32",
        *(
            pytest.param(name, marks=pytest.mark.apart)
            for name in ("cdna3_mfma_bfloat16_binary32", "hopper_mma_e5m2_binary16")
        ),
    ],
)
def test_an_accumulation_of_the_catalog_is_found(name):
    """Its very name, or one of the same results."""
    how = ACCUMULATIONS[name]
    formats = how.operands or ("bfloat16", "bfloat16")
    found = lp.identify(unit_of(how), formats, how.output[0], k=32)
    assert not found.wrong
    assert name in found.names
    assert found.asked <= 10_000
    assert differences(how, found.accumulation, found.answers.ports) == 0


@pytest.mark.apart
def test_a_private_window_is_found_without_a_name():
    """Each parameter that its results tell: the ones that do not are listed."""
    how = ACCUMULATIONS["ampere_mma_binary16_binary32"]
    result = (lp.format("binary16"), Projection(rounding="toward_zero"))
    window = Window(step=6, fraction_bits=17, result=result, cut="floor")
    how = dataclasses.replace(how, name="", accumulator=window, output=(lp.format("binary32"), Projection()))
    found = lp.identify(unit_of(how), how.operands, "binary32", k=24)
    assert not found.wrong
    assert found.names == ()
    made = found.accumulation.accumulator
    assert (made.step, made.fraction_bits, made.cut) == (6, 17, "floor")
    assert str(made.result[1].rounding) == "toward_zero"
    assert differences(how, found.accumulation, found.answers.ports) == 0
    assert "output rounding" in {each.field for each in found.undecided}


@pytest.mark.apart
def test_a_question_that_could_be_asked_is_no_open_one():
    """Rounding shows in few rows of a window of 21 bits: they are asked, not left to the reader."""
    rounded = ("binary32", Projection(rounding="toward_zero", subnormals="flush_results"))
    window = Window(step=8, fraction_bits=21, cut="floor", negative_zero=True, result=rounded)
    operands = ("e5m2", "e4m3fn")
    how = lp.Accumulation(output=("binary32", "toward_zero"), accumulator=window, operands=operands)
    found = lp.identify(unit_of(how), operands, "binary32", k=8)
    assert found.wrong == 0
    asked_for = [each for each in found.undecided if each.question is not None]
    assert {each.ports.length for each in asked_for} <= {16}
    assert differences(how, found.accumulation, found.answers.ports) == 0


@pytest.mark.apart
def test_what_is_too_long_to_be_seen_has_a_question_of_a_longer_k():
    """With K = 16, steps of 16 and of 32 are one."""
    how = ACCUMULATIONS["hopper_wgmma_e4m3fn_binary32"]
    found = lp.identify(unit_of(how), E4M3, "binary32", k=16)
    assert {"hopper_wgmma_e4m3fn_binary32", "ada_mma_e4m3fn_binary32"} <= set(found.names)
    longer = next(each for each in found.undecided if each.field == "step" and each.ports.length == 32)
    rows = longer.question
    assert Prepared(rows, longer.ports).codes(how) != Prepared(rows, longer.ports).codes(
        ACCUMULATIONS["ada_mma_e4m3fn_binary32"]
    )
    assert f"(K = 32): {longer.line()[:100]}" in found.as_text()


@pytest.mark.parametrize(
    ("name", "order"),
    [
        ("fma chain from the last to the first", "reversed"),
        *(
            pytest.param(name, order, marks=pytest.mark.apart)
            for name, order in (
                ("four lanes", "lanes(4)"),
                ("even and odd", "lanes(2)"),
                ("pairs of halves", "lanes(8, pairwise)"),
                ("window of 24 bits and sticky", "sequential"),
            )
        ),
    ],
)
def test_multipliers_that_nobody_listed_are_found(name, order):
    """They are written in NumPy; fresh rows are answered alike."""
    found, _ = identify_multipliers.identified(name)
    assert not found.wrong
    assert str(found.accumulation.order) == order
    ports = found.answers.ports
    rows = joined([draw(ports, topic, 40, np.random.default_rng(7)) for topic in TOPICS])
    unit = units.function(identify_multipliers.quiet(identify_multipliers.UNITS[name]), ports, 60)
    wrong = Search(found.answers, np.random.default_rng(0), any_nan=True).differ(
        unit(rows)[0], Prepared(rows, ports).codes(found.accumulation)
    )
    assert not wrong.any()


@pytest.mark.parametrize(
    ("name", "named"),
    [
        ("saturating fixed point", "a fixed-point accumulator of 24 bits in units of 2**-10 that saturates"),
        ("wrapping fixed point", "a fixed-point accumulator of 20 bits in units of 2**-6 that wraps"),
        ("sorted by magnitude", "exact products sorted, the largest magnitude first, added in sequential"),
        ("Kahan", "Kahan's compensated sum in binary32, products rounded: gives all"),
    ],
)
def test_sums_that_no_accumulation_says_are_named(name, named):
    """With how many answers the model gives: all finite ones."""
    found, _ = identify_multipliers.identified(name)
    assert found.wrong
    (said_so,) = found.named
    assert said_so.startswith(named)
    assert f"The unit is no accumulation, but {named}" in found.as_text()


@pytest.mark.apart
@pytest.mark.parametrize("output", ["binary16", "bfloat16"])
def test_a_sum_in_which_nothing_cancels_is_no_other_than_it_is(output):
    """Search before naming: masks show no order there, and sums by magnitude give many of the answers."""
    how = lp.Accumulation(accumulator="binary32", output=output)
    found = lp.identify(lambda a, b, c: lp.dot(a, b, how, addend=c), ("ue4m3", "ue4m3"), output, k=8)
    assert (found.wrong, found.named) == (0, ())
    assert found.accumulation == how


@pytest.mark.apart
def test_random_rounding_is_named_with_its_bits():
    """By asking the same rows again and again."""
    rng = np.random.default_rng(0)
    how = lp.Accumulation(accumulator=("bfloat16", "stochastic(4)"), output="binary32")
    found = lp.identify(lambda a, b: lp.dot(a, b, how, rng=rng), E4M3, "binary32", k=8, addend=None)
    assert "for the same operands" in found.stopped
    assert found.named[0].startswith("not deterministic: one row, asked 4,096 times, has ")
    assert found.named[1].startswith(
        "stochastic rounding at 8 bits of precision, with random integers of 4 bits: "
    )


@pytest.mark.apart
def test_lanes_that_differ_are_named():
    """Lane 3 loses a bit of its product."""

    def unit(a, b):
        made = (a * b).astype(np.float32)
        made[:, 3] = lp.quantize(made[:, 3], "bfloat16", rounding="toward_zero")
        with np.errstate(all="ignore"):
            return made.sum(axis=1)

    found = lp.identify(unit, ("binary16", "binary16"), "binary32", k=4, addend=None, nan="any")
    assert found.wrong
    assert "in lane 3" in found.named[0]
    assert found.named[0].endswith("(1 of 4 lanes)")


def tree_of(how, formats, output, length):
    """Return the tree that masks show, and the questions that it took."""
    ports, asked = ports_of(formats, output, length, None, None), []

    def ask(rows):
        asked.append(len(rows.x))
        return Prepared(rows, ports).codes(how)

    return reveal(ask, ports, np.random.default_rng(0)), sum(asked)


@pytest.mark.parametrize("mode", ["nearest_even", "toward_zero", "away_from_zero", "toward_positive"])
def test_orders_by_masks(mode):
    """In sequence, in pairs, in lanes; whatever the rounding, which may leave multiples of large numbers."""
    into = ("binary32", mode)
    for name in (
        "sequential",
        "reversed",
        "pairwise",
        "lanes(4, pairwise)",
        "chunked(5)",
        "((0, 2), (1, 3))",
    ):
        how = lp.Accumulation(order=name, accumulator=into, output="binary32")
        length = how.order.length or 12
        tree, asked = tree_of(how, E4M3, "binary32", length)
        assert how.order in orders_of(tree)
        assert asked <= length**2 + 100


def test_groups_of_several_products_by_masks():
    """Steps of windows; nothing shows in exact sums."""
    formats = ("binary16", "binary16")
    tree, _ = tree_of(ACCUMULATIONS["volta_mma_binary16_binary32"], formats, "binary32", 8)
    assert name_of(tree) == "((0, 1, 2, 3), 4, 5, 6, 7)"
    assert orders_of(tree) == []
    assert tree_of(ACCUMULATIONS["exact"], E4M3, "binary32", 8)[0] is None


def test_long_sums_take_few_questions():
    """Of 1,024 products."""
    how = lp.Accumulation(order="reversed", accumulator="binary32", output="binary32")
    tree, asked = tree_of(how, ("bfloat16", "bfloat16"), "binary32", 1024)
    assert name_of(tree) == "reversed"
    assert asked < 20_000


def test_prepared_rows_give_what_dot_gives():
    """A search sums past `lowprec.dot`: in every family, with scales and without an addend."""
    rng = np.random.default_rng(3)
    for name in (
        "ampere_mma_tf32_binary32",
        "hopper_mma_e4m3fn_binary16",
        "blackwell_tcgen05_e2m1fn_binary32_ue4m3_4",
        "cdna3_mfma_e4m3fnuz_binary32",
        "fp64_sequential",
        "fp32_pairwise",
        "exact",
    ):
        how = ACCUMULATIONS[name]
        operands = how.operands or (lp.format("e5m2"), lp.format("bfloat16"))
        for addend in (how.output[0], None):
            ports = Ports(operands, how.output[0], 64, addend, how.scale)
            rows = joined([draw(ports, topic, 6, rng) for topic in TOPICS])
            x, y = rows.x, rows.y
            if how.scale is not None:
                blocks = [
                    lp.BlockFormat(name="b", element=fmt, scale=how.scale[0], size=16) for fmt in operands
                ]
                x, y = (
                    lp.BlockArray(np.asarray(lp.encode(values, form.element)), scales, form)
                    for values, scales, form in zip(rows[:2], rows[3:], blocks, strict=True)
                )
            given = None if addend is None else rows.addend
            want = lp.dot(x, y, how, addend=given, dtype=f"u{how.output[0].code_bits // 8}")
            assert (Prepared(rows, ports).codes(how) == want.astype(np.int64)).all(), (name, addend)


def test_a_right_order_is_nearer_than_a_right_rounding():
    """Both miss answers; what is only rounded otherwise misses them by a code or two."""
    down = Projection(rounding="toward_zero")
    ports = ports_of(("bfloat16", "bfloat16"), "bfloat16", 16, None, None)
    hows = [
        lp.Accumulation(order=order, accumulator=("bfloat16", rule), output=("bfloat16", rule))
        for order, rule in (("sequential", down), ("sequential", Projection()), ("pairwise", down))
    ]
    rng = np.random.default_rng(0)
    rows = joined([draw(ports, topic, 40, rng) for topic in ("masks", "swings", "kept")])
    answers = Answers(ports)
    answers.add(rows, Prepared(rows, ports).codes(hows[0]), ["any"] * len(rows.x))
    search, places = Search(answers, rng), np.arange(len(answers))
    exact, rounded, ordered = (search.far(how, places) for how in hows)
    assert not exact.any()
    assert np.count_nonzero(rounded) > 20
    assert np.median(rounded[rounded > 0]) < np.median(ordered[ordered > 0])
    assert max(ordered) <= 12


# -- bad input ---------------------------------------------------------------------------------------


@pytest.mark.parametrize("kind", ["<f8", ">f8", "<f4", ">f4"])
def test_answers_are_read_in_either_byte_order(kind):
    codes, _ = units._codes(np.array([1, -2.5, 448], kind), 3, lp.format("e4m3fn"))
    assert codes.tolist() == [0x38, 0xC2, 0x7E]


@pytest.mark.apart
@pytest.mark.parametrize(
    ("answer", "said"),
    [
        (lambda a: 1 / 0, "the unit raised ZeroDivisionError: division by zero"),
        (lambda a: np.zeros((len(a), 1)), r"the unit answered shape \(\d+, 1\) to \d+ rows of operands, not"),
        (lambda a: np.array(["x"] * len(a)), "the unit answered <U1; answer codes of 'binary32' as integers"),
        (lambda a: np.full(len(a), 0.1), "the unit answered 0.1, no value of 'binary32'"),
        (lambda a: np.full(len(a), 1 << 40), "the unit answered 1099511627776, which is no 32-bit code"),
        (lambda a: time.sleep(5), "the unit did not answer within 0.2 s"),
    ],
)
def test_a_unit_that_fails_loses_nothing(answer, said):
    """What it answered before is in the result, from which the search goes on."""
    good = unit_of("fp32_fma")
    calls = []

    def unit(a, b, c):
        calls.append(len(a))
        return good(a, b, c) if len(calls) == 1 else answer(a)

    with pytest.raises(units.UnitError, match=said):
        lp.identify(lambda a, b, c: answer(a), E4M3, "binary32", k=4, time_limit=0.2)
    found = lp.identify(unit, E4M3, "binary32", k=4, time_limit=60 if "Zero" in said else 0.2)
    assert len(found.answers) == calls[0]
    assert not found.wrong
    assert re.search(said, found.stopped)
    assert found.as_text().startswith("Stopped: the unit")


@pytest.mark.parametrize("limit", [float("inf"), float("nan"), 1e12, 0, -1, "60"])
def test_a_limit_that_is_no_time_to_wait_is_refused(limit):
    """Infinity ended in a traceback, and a negative one was waited for."""
    with pytest.raises(ValueError, match="must be seconds, more than 0 and at most 1,000,000"):
        lp.identify(unit_of("fp32_fma"), E4M3, "binary32", k=4, time_limit=limit)
    with pytest.raises(ValueError, match="must be seconds, more than 0 and at most 1,000,000"):
        units.command("unit", ports_of(E4M3, "binary32", 4, None, None), limit)


@pytest.mark.apart
def test_a_search_goes_on_from_what_was_answered():
    """With the identification, or its lines."""
    good = unit_of("fp32_fma")
    found = lp.identify(good, E4M3, "binary32", k=4, budget=100)
    assert found.asked == len(found.answers) == 100
    more = lp.identify(good, E4M3, "binary32", k=4, rows=found)
    again = lp.identify(None, E4M3, "binary32", k=4, rows=list(more.lines()))
    assert len(more.answers) > 100
    assert again.asked == 0
    assert "fp32_fma" in more.names
    assert "fp32_fma" in again.names
    with pytest.raises(ValueError, match="rows= are of a unit with other formats or another k"):
        lp.identify(good, E4M3, "binary32", k=8, rows=found)


def test_a_unit_that_answers_otherwise_the_second_time_is_told_so():
    """Some rows are asked twice."""
    calls = []

    def unit(a, b, c):
        calls.append(len(a))
        return lp.dot(a, b, "fp32_fma", addend=c) + np.float32(len(calls) - 1)

    found = lp.identify(unit, E4M3, "binary32", k=4)
    assert "for the same operands" in found.stopped


def test_recorded_rows():
    """Lines that are no rows are told by number; so are those that contradict each other."""
    ports = ports_of(E4M3, "binary32", 2, None, None)
    for lines, said in (
        (
            ["38 38 38 38 40000000", "38 38 38"],
            "row 2 has 3 words, but a row has 5: 2 codes of a, 2 of b, the result",
        ),
        (["38 38 38 3x 40000000"], "row 1 holds '3x', which is no hexadecimal number"),
        (["38 38 38 138 40000000"], "row 1 holds '138', which is no 8-bit code of 'e4m3fn'"),
        (
            ["38 38 38 38 40000000", "38 38 38 38 40000001"],
            "rows 1 and 2 have the same operands but the results 0x40000000 and 0x40000001",
        ),
    ):
        with pytest.raises(units.UnitError) as caught:
            asked(None, ports, rows=lines)
        assert str(caught.value).startswith(said)
    with pytest.raises(
        ValueError, match="there is nothing to identify: give a unit, or rows that were recorded"
    ):
        asked(None, ports)


def test_nans_of_recorded_operands_keep_their_codes():
    """By hand: one times one, and a NaN that comes out as it went in."""
    ports = ports_of(("bfloat16", "bfloat16"), "binary32", 2, None, None)
    lines = ["3f80 3f80 3f80 3f80 40000000", "7fc1 3f80 3f80 3f80 7fc10000", "ffc2 3f80 3f80 3f80 ffc20000"]
    rows, codes = units.parsed(lines, ports, "row")
    assert list(units.lines_of(rows, ports, codes)) == lines
    other = ["3f80 3f80 3f80 3f80 40000000", "7fc0 3f80 3f80 3f80 7fc00000", "7fc0 3f80 3f80 3f80 ffc00000"]
    run = Run(None, ports, budget=0, seed=0, watch=None, any_nan=True)
    run.take(other)
    assert len(run.answers) == 2
    with pytest.raises(units.UnitError, match=r"^rows 2 and 3 have the same operands but the results 0x7fc"):
        asked(None, ports, rows=other)


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        ({"k": 1}, "k=1 is out of range: a sum to identify has 2 to 4096 products"),
        ({"formats": ("e4m3fn",)}, r"formats=\('e4m3fn',\) must be two: of a and of b"),
        ({"formats": ("e4m3", "e4m3fn")}, "ambiguous|unknown format"),
        ({"scale": ("e8m0fnu", 32), "k": 48}, "k=48 is no whole number of blocks of 32 elements"),
        ({"formats": ("nf4", "nf4")}, "'nf4' is a codebook, not a format of a unit's ports"),
    ],
)
def test_ports_that_cannot_be(arguments, said):
    """The message names what was given."""
    given = {"formats": E4M3, "output": "binary32", "k": 32, "addend": "output", "scale": None} | arguments
    with pytest.raises(ValueError, match=said):
        ports_of(**given)


def test_operands_of_a_function():
    """Values in float32 or codes, scales too; answers as values or codes."""
    seen = []

    def unit(*operands):
        seen.append([(part.dtype.name, part.shape) for part in operands])
        return np.zeros(len(operands[0]), np.uint32)

    single, scale = lp.format("binary32"), (lp.format("e8m0fnu"), 32)
    ports = Ports((lp.format("e4m3fn"), lp.format("binary16")), single, 64, single, scale)
    rows = draw(ports, "few", 3, np.random.default_rng(0))
    units.function(unit, ports, 9)(rows)
    units.function(unit, ports, 9, codes=True)(rows)
    wide, thin = ("float32", (3, 64)), ("float32", (3, 2))
    assert seen[0] == [wide, wide, ("float32", (3,)), thin, thin]
    assert [name for name, _ in seen[1]] == ["uint8", "uint16", "uint32", "uint8", "uint8"]


# -- other people's units ----------------------------------------------------------------------------


@pytest.mark.parametrize(
    "seed",
    [
        *(pytest.param(seed, marks=pytest.mark.apart) for seed in (4, 8, 85, 103)),
        pytest.param(27, marks=pytest.mark.long),  # half a minute
    ],
)
def test_drawn_accumulations_are_identified(seed):
    """Two hundred of them: python -m tests.identify_table drawn."""
    (result,) = identify_table.random(1, seed)
    assert (result["wrong"], result["differ"]) == (0, 0)
    assert result["asked"] <= 10_000


@pytest.mark.long
def test_every_accumulation_of_the_catalog_is_identified():
    """Its name is among those that no question tells apart."""
    for result in identify_table.catalog():
        assert (result["wrong"], result["differ"]) == (0, 0), result
        assert result["unit"] in result["names"]
        assert result["asked"] <= 10_000


@pytest.mark.apart
@pytest.mark.parametrize(
    ("name", "found"),
    [
        ("mma Volta m8n8k4.f32.f16.f16.f32", "volta_mma_binary16_binary32"),
        ("wgmma m64n8k32.f32.e4m3.e5m2", "hopper_wgmma_e4m3fn_e5m2_binary32"),
        ("mfma CDNA3 f32_16x16x32_fp8_fp8", "cdna3_mfma_e4m3fnuz_binary32"),
    ],
)
def test_instructions_of_mmasim_are_identified(name, found):
    """As the accumulations that were read from the same papers."""
    pytest.importorskip("mmasim")
    (result,) = identify_table.mmasim({name})
    assert result["wrong"] == 0
    assert found in result["names"]


def test_an_identification_is_printed_as_its_report():
    """And shown in a line."""
    found = lp.identify(lambda a, b: (a * b).sum(1), ("e2m1fn", "e2m1fn"), "binary32", k=2, addend=None)
    assert str(found) == found.as_text()
    assert repr(found).startswith("<Identification: ")
    assert "asked" in repr(found)
    assert "\n" not in repr(found)


def test_parameters_without_another_value_are_passed_over(monkeypatch):
    """When a search goes on from a changed accumulation: one parameter at random may have no other value."""
    start, goal = (ACCUMULATIONS[name] for name in ("fp32_fma", "fp32_sequential"))
    for name, put in (
        ("climb", lambda self, how, *_, **__: (how, int(how != goal))),
        ("distance", lambda self, *_: 1.0),
        ("_options", lambda self, *_: [[], [lambda how: goal]]),
    ):
        monkeypatch.setattr(Search, name, put)
    stuck = object.__new__(Search)
    stuck.rng, stuck.tried, stuck.summed = np.random.default_rng(0), 0, 0
    assert stuck._kicked([start], np.arange(3)) == (goal, 0)


@pytest.mark.parametrize(
    "name", ["e4m3fn", "e2m1fn", "ue4m3", "int8", "int8f6", "sm8f6", "uint4", "bfloat16", "binary8p3se"]
)
def test_operands_of_all_topics_are_numbers_of_their_format(name):
    """Fixed points, and formats without a sign, too."""
    fmt = lp.format(name)
    ports = ports_of((fmt, fmt), "binary32", 8, None, None)
    for topic in TOPICS:
        rows = draw(ports, topic, 40, np.random.default_rng(1))
        for side in (rows.x, rows.y):
            finite = side[np.isfinite(side)]
            assert np.array_equal(lp.quantize(finite, fmt, saturation="finite"), finite), topic
