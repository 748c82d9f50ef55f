"""Accumulations: what contradicts itself is refused with words, orders and names are spelled and found."""

import collections
import dataclasses
import functools
import pickle
import re
from fractions import Fraction

import pytest

from lowprec.oracle.dot import dot
from lowprec.spec.accumulation import MACHINES, Accumulation, Window
from lowprec.spec.accumulations import ACCUMULATIONS, E8M13, accumulation, arm_fp8_dot, deepseek_promote
from lowprec.spec.catalog import (
    BINARY16,
    BINARY32,
    BINARY64,
    CARRIERS,
    E2M1FN,
    E4M3FN,
    E4M3FNUZ,
    E5M2,
    E5M2FNUZ,
    E8M0FNU,
    FORMATS,
    INT8,
    TF32,
)
from lowprec.spec.families import ieee
from lowprec.spec.order import EXACT, PAIRWISE, SEQUENTIAL, Order, chunked, order
from lowprec.spec.projection import Projection
from tests.support import refusal_test, refusals

SINGLE, HALF, DOUBLE = (BINARY32, Projection()), (BINARY16, Projection()), (BINARY64, Projection())
HALVES = (BINARY16, BINARY16)
STEP = Window(step=4, fraction_bits=24, result=SINGLE)
SCALED = dataclasses.replace(STEP, step=32, scales="products")
GROUPED = dataclasses.replace(STEP, step=64, scales="groups", group=16)
RANDOM = (BINARY16, Projection(rounding="stochastic(8)"))


# -- orders -----------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("spelled", "meant"),
    [
        ("sequential", SEQUENTIAL),
        ("pairwise", PAIRWISE),
        ("exact", EXACT),
        ("chunked(128)", chunked(128)),
        ("chunked(4, pairwise)", chunked(4, "pairwise")),
        ("chunked(4,pairwise)", chunked(4, "pairwise")),
        ("chunked(4, sequential)", chunked(4)),
    ],
)
def test_orders_have_names(spelled, meant):
    """An order is itself; its own spelling gives it back."""
    assert order(spelled) == meant == order(meant) == order(str(meant))


@pytest.mark.parametrize("groups", [f"({'1' * 99}x)", f"({'1' * 5000})"])
def test_long_numbers_are_no_terms_and_are_refused_at_once(groups):
    with pytest.raises(ValueError, match=r"1x?\)' is no tree: it has numbers, brackets"):
        Order("tree", groups=groups)


@pytest.mark.parametrize("terms", [1, 2, 3, 5, 8, 17])
@pytest.mark.parametrize(
    "name", ["sequential", "reversed", "pairwise", "lanes(3)", "lanes(4, pairwise)", "chunked(3)",
             "chunked(4, pairwise)"]
)  # fmt: skip
def test_trees_of_orders_with_names_are_recognised(name, terms):
    """By their groups; of few terms several orders are alike."""
    tree = order(name).nodes(terms)
    assert Order.of_tree(tree).spelled(terms) == order(name).spelled(terms)
    if terms == 17:
        assert str(Order.of_tree(tree)) in (name, name.replace("lanes(3, pairwise)", "lanes(3)"))


def test_trees_are_values_like_other_orders():
    """Text, code and pickles give them back, however deep they are."""
    deep = Order("tree", groups=order("reversed").spelled(3000))
    for tree in (deep, Order.of_tree(((0, 2), (1, 3, ())))):
        assert order(str(tree)) == (tree if tree != deep else order("reversed"))
        assert eval(repr(tree), {"Order": Order}) == tree
        assert pickle.loads(pickle.dumps(tree)) == tree
        assert hash(Order("tree", groups=f" {tree.groups} ")) == hash(tree)
    assert deep.length == 3000
    with pytest.raises(TypeError, match=r"a tree of terms has integers and tuples, not 1\.5"):
        Order.of_tree((0, 1.5))


def test_trees_are_for_their_number_of_terms():
    """Whoever sums; steps of hardware are in no tree."""
    how = Accumulation(order="((0, 2), (1, 3))", accumulator=SINGLE, output=SINGLE, addend="last")
    said = re.escape("order '((0, 2), (1, 3))' is for 4 terms, and this sum has 3; use another order")
    with pytest.raises(ValueError, match=said):
        dot([Fraction(1)] * 3, [Fraction(1)] * 3, how)
    window = Window(step=4, fraction_bits=24, result="binary32")
    for name in ("reversed", "lanes(2)", "(0, 1, 2)"):
        with pytest.raises(ValueError, match="a window is in sequence, not in order"):
            Accumulation(operands="e4m3fn", order=name, accumulator=window, output=SINGLE, addend="last")


@pytest.mark.parametrize("size", [4.0, True, "4", None], ids=repr)
def test_the_size_of_chunks_is_an_integer(size):
    """Of any integer type."""
    with pytest.raises(
        TypeError, match=f"^size of order 'chunked' must be an integer, not {re.escape(repr(size))}$"
    ):
        Order("chunked", size)
    with pytest.raises(TypeError, match=r"^size of order 'pairwise' must be an integer, not False$"):
        Order("pairwise", False)


# -- windows ----------------------------------------------------------------------------------------


test_windows_that_are_none_are_refused = refusal_test(
    globals(),
    """
dataclasses.replace(STEP, step=0, fraction_bits=24)
    ValueError: step=0 of a window is out of range; use 1 to 4,294,967,296, so that the sum of a step
    with fraction_bits=24 has at most 63 bits
dataclasses.replace(STEP, step=4098, fraction_bits=48)
    ValueError: step=4098 of a window is out of range; use 1 to 4,096, so that the sum of a step with
    fraction_bits=48 has at most 63 bits
dataclasses.replace(STEP, group=0)
    ValueError: group=0 of a window is out of range; use 1 to 4
dataclasses.replace(STEP, group=8)
    ValueError: group=8 of a window is out of range; use 1 to 4
dataclasses.replace(STEP, lowest_exponent=-32769)
    ValueError: lowest_exponent=-32769 of a window is out of range; use -32,768 to 32,768
dataclasses.replace(STEP, fraction_bits=0)
    ValueError: fraction_bits=0 of a window is out of range; use 1 to 48, or None to keep all
dataclasses.replace(STEP, fraction_bits=49)
    ValueError: fraction_bits=49 of a window is out of range; use 1 to 48, or None to keep all
dataclasses.replace(STEP, cut="nearest")
    ValueError: cut='nearest' of a window is unknown; use one of toward_zero, floor, to_odd,
    nearest_away
dataclasses.replace(STEP, groups="halves")
    ValueError: groups='halves' of a window is unknown; use one of consecutive, alternate_pairs
dataclasses.replace(STEP, scales="all")
    ValueError: scales='all' of a window is unknown; use one of none, products, groups
dataclasses.replace(STEP, scales="groups", group=3)
    ValueError: group=3 of a window must divide step=4, and be above 1 for scales='groups' only, not for
    'groups'
dataclasses.replace(STEP, scales="groups")
    ValueError: group=1 of a window must divide step=4, and be above 1 for scales='groups' only, not for
    'groups'
dataclasses.replace(STEP, group=2)
    ValueError: group=2 of a window must divide step=4, and be above 1 for scales='groups' only, not for
    'none'
dataclasses.replace(STEP, groups="alternate_pairs", step=3)
    ValueError: step=3 of a window of alternate pairs must be even
dataclasses.replace(STEP, scales="products", fraction_bits=None)
    ValueError: scales='products' of a window join what aligns its terms, and fraction_bits=None aligns
    none; give fraction_bits
dataclasses.replace(STEP, result=(FORMATS["int8"], Projection(nan="max")))
    ValueError: result='int8' of an accumulation lacks exponents, by which a window aligns; use another
dataclasses.replace(STEP, result=(E8M0FNU, Projection()))
    ValueError: result='e8m0fnu' of an accumulation has no zero, which a sum begins with; use another
dataclasses.replace(STEP, result=DOUBLE)
    ValueError: result of an accumulation cannot be 'binary64': it is a type that values come in
dataclasses.replace(STEP, step=1 << 62, fraction_bits=None, groups="alternate_pairs")
    ValueError: step=4611686018427387904 of a window is out of range; use 1 to 4,294,967,296
dataclasses.replace(STEP, lowest_exponent=1 << 40)
    ValueError: lowest_exponent=1099511627776 of a window is out of range; use -32,768 to 32,768
""",
)


@pytest.mark.parametrize("field", ["step", "group", "fraction_bits", "lowest_exponent"])
@pytest.mark.parametrize("value", [True, 0.5, 4.0, "4"], ids=repr)
def test_integers_of_a_window_are_integers(field, value):
    """A lowest exponent of 0.5 was taken, and cut off."""
    with pytest.raises(
        TypeError, match=f"^{field} of a window must be an integer, not {re.escape(repr(value))}$"
    ):
        dataclasses.replace(STEP, **{field: value})


@pytest.mark.parametrize("value", [0, 1, None, "yes"], ids=repr)
def test_the_sign_of_a_windows_zero_is_a_bool(value):
    """Not what is merely true or false."""
    message = f"negative_zero of a window must be True or False, not {value!r}"
    with pytest.raises(TypeError, match=f"^{re.escape(message)}$"):
        dataclasses.replace(STEP, negative_zero=value)


# -- accumulations ----------------------------------------------------------------------------------


CONTRADICTORY = [
    *(
        (
            {"machine": "cdna3", "operands": HALVES, **more},
            "machine 'cdna3' takes no product, order, accumulator, total or scale: it is all of that",
        )
        for more in (
            {"product": SINGLE},
            {"accumulator": SINGLE},
            {"total": SINGLE},
            {"scale": (E8M0FNU, 32)},
            {"order": "pairwise"},
            {"order": "exact"},
        )
    ),
    *(
        (
            {"machine": machine, "operands": (fmt, fmt)},
            f"machine {machine!r} takes no operands in {fmt.name!r}: its multipliers take floats of at "
            f"most {most} bits of precision, below 2**{limit}, that binary32 holds; use {such} or the "
            "like",
        )
        for machine, most, limit, such, formats in (
            ("cdna3_fp8", 4, 64, "e4m3fnuz, e5m2fnuz", (HALVES[0], INT8, ieee("far", 8, 1))),
            ("cdna3", 11, 128, "binary16, bfloat16", (SINGLE[0], ieee("wide", 10, 4), INT8)),
        )
        for fmt in formats
    ),
    *(
        (
            {"order": "exact", **more},
            "order 'exact' has no accumulator and no total: its sum is rounded once, to the output",
        )
        for more in ({"accumulator": SINGLE}, {"total": SINGLE})
    ),
    *(
        (
            {"accumulator": STEP, "operands": HALVES, "total": total, "order": spelled},
            f"a window is in sequence, not in order '{spelled}'",
        )
        for spelled, total in (("pairwise", None), ("chunked(8, pairwise)", SINGLE))
    ),
    *(
        (
            {"accumulator": window, "operands": HALVES, "scale": (FORMATS[name], 64)},
            f"scale={name!r} of an accumulation has a sign or an infinity, and a window's scales have "
            f"none; use a format such as 'e8m0fnu' or 'ue4m3'",
        )
        for window, name in ((SCALED, "binary16"), (GROUPED, "e4m3fn"))
    ),
]


@pytest.mark.parametrize(
    ("call", "error", "message"),
    [
        *refusals(
            {**globals(), "CARRIERS": CARRIERS},
            """
Accumulation(accumulator=SINGLE, addend="in_sum", output=SINGLE)
    ValueError: addend='in_sum' of an accumulation is unknown; use one of first, last
Accumulation(machine="cdna4", operands=HALVES, output=SINGLE)
    ValueError: unknown machine 'cdna4'; use one of cdna2, cdna2_pairs, cdna3, cdna3_fp8
Accumulation(machine="cdna3", output=SINGLE)
    ValueError: machine 'cdna3' needs operands: it aligns by their exponents
Accumulation(machine="cdna3", operands=HALVES, addend="last", output=SINGLE)
    ValueError: machine 'cdna3' has its addend in the sum: use addend='first'
Accumulation(machine="cdna3", operands=HALVES, output=HALF)
    ValueError: machine 'cdna3' has binary32 results, not 'binary16'
Accumulation(order="exact", product=SINGLE, output=SINGLE)
    ValueError: order 'exact' adds exact products; leave out product
Accumulation(order="exact", addend="last", output=SINGLE)
    ValueError: order 'exact' has its addend in the sum: use addend='first'
Accumulation(output=SINGLE)
    ValueError: order 'sequential' needs an accumulator
Accumulation(order="chunked(4, pairwise)", output=SINGLE)
    ValueError: order 'chunked(4, pairwise)' needs an accumulator
Accumulation(accumulator=SINGLE, total=SINGLE, order="pairwise", output=SINGLE)
    ValueError: order 'pairwise' has no total; chunked(n) has
Accumulation(accumulator=STEP, output=SINGLE)
    ValueError: a window needs operands: it aligns by their exponents
Accumulation(accumulator=STEP, operands=HALVES, product=SINGLE, output=SINGLE)
    ValueError: a window adds exact products; leave out product
Accumulation(accumulator=STEP, operands=HALVES, term=4, output=SINGLE)
    ValueError: term=4 is of sums in an accumulator, and a window has no terms of its own
Accumulation(machine="cdna3", operands=HALVES, term=4, output=SINGLE)
    ValueError: term=4 is of sums in an accumulator, and a machine has no terms of its own
Accumulation(order="exact", operands=HALVES, term=4, output=SINGLE)
    ValueError: term=4 is of sums in an accumulator, and order 'exact' has no terms of its own
Accumulation(accumulator=SINGLE, term=4, output=SINGLE)
    ValueError: term=4 needs operands, whose products are summed exactly
Accumulation(accumulator=SINGLE, operands=HALVES, term=5000, output=SINGLE)
    ValueError: term=5000 of an accumulation is out of range; use 0 to 4,096
Accumulation(accumulator=SINGLE, operand_rounding=Projection(), output=SINGLE)
    ValueError: operand_rounding needs operands: the formats that factors are rounded to
Accumulation(accumulator=SINGLE, operands=(E4M3FN, E4M3FN),
        operand_rounding=Projection(subnormals="flush_both"), output=SINGLE)
    ValueError: operand_rounding knows no type that factors come in: use subnormals='flush_results',
    which flushes the subnormals of the operands' formats
Accumulation(accumulator=SCALED, operands=HALVES, output=SINGLE)
    ValueError: a window with scales needs scale=(Format, size), and nothing else takes it
Accumulation(accumulator=SINGLE, scale=(E8M0FNU, 32), output=SINGLE)
    ValueError: a window with scales needs scale=(Format, size), and nothing else takes it
Accumulation(accumulator=SCALED, operands=HALVES, scale=(E8M0FNU, 16), output=SINGLE)
    ValueError: scale for 16 elements does not fill groups of 32
Accumulation(accumulator=GROUPED, operands=HALVES, scale=(E8M0FNU, 24), output=SINGLE)
    ValueError: scale for 24 elements does not fill groups of 16
Accumulation(accumulator=SCALED, operands=HALVES, scale=(FORMATS["ue4m3"], 32), output=SINGLE)
    ValueError: scale='ue4m3' of an accumulation has more than powers of two, and only exponents of
    scales join those of products; use a format such as 'e8m0fnu', or scales='groups'
Accumulation(accumulator=STEP, operands=HALVES, output=(FORMATS["int8"], Projection(nan="max")))
    ValueError: output='int8' of an accumulation lacks exponents, by which a window aligns; use another
Accumulation(accumulator=(E8M0FNU, Projection()), output=SINGLE)
    ValueError: accumulator='e8m0fnu' of an accumulation has no zero, which a sum begins with; use
    another
Accumulation(accumulator=SINGLE, output=DOUBLE)
    ValueError: output of an accumulation cannot be 'binary64': it is a type that values come in
Accumulation(accumulator=SINGLE, product=DOUBLE, output=SINGLE)
    ValueError: product of an accumulation cannot be 'binary64': it is a type that values come in
Accumulation(accumulator=(CARRIERS["int64"], Projection()), output=SINGLE)
    ValueError: accumulator of an accumulation cannot be 'int64': it is a type that values come in
Accumulation(accumulator=(BINARY64, Projection(rounding="toward_zero")), output=SINGLE)
    ValueError: accumulator in 'binary64' is rounded as the processor does: use Projection()
Accumulation(accumulator=SINGLE, order="chunked(2)", total=(BINARY64, Projection(nan_sign="drop")),
        output=SINGLE)
    ValueError: total in 'binary64' is rounded as the processor does: use Projection()
Accumulation(accumulator=SINGLE, product=RANDOM, output=SINGLE)
    ValueError: product of an accumulation cannot be rounded stochastically; the accumulator and the
    output can
Accumulation(accumulator=(FORMATS["int8"], Projection(nan="negative_zero")), output=SINGLE)
    ValueError: accumulator in 'int8', which has neither NaN nor negative zero, needs another
    Projection(nan=...) than 'negative_zero'
Accumulation(accumulator=SINGLE, product=(FORMATS["e2m1fn"], Projection(nan="max", nan_code=16)),
        output=SINGLE)
    ValueError: product in 'e2m1fn' has codes 0 to 0xf: Projection(nan_code=0x10) is none
""",
        ),
        *(
            (functools.partial(Accumulation, **{"output": SINGLE, **given}), ValueError, message)
            for given, message in CONTRADICTORY
        ),
    ],
)
def test_accumulations_that_contradict_themselves_are_refused(call, error, message):
    """With the field at fault, and what to use."""
    with pytest.raises(error, match=f"^{re.escape(message)}$"):
        call()


def test_orders_may_be_given_by_name():
    """They are kept as what they mean."""
    assert Accumulation(order="chunked(4)", accumulator=SINGLE, output=SINGLE).order == chunked(4)


@pytest.mark.parametrize(
    ("parameters", "randomly"),
    [
        ({"accumulator": SINGLE}, False),
        ({"accumulator": RANDOM}, True),
        ({"accumulator": SINGLE, "output": RANDOM}, True),
        ({"accumulator": SINGLE, "order": "chunked(4)", "total": RANDOM}, True),
        ({"accumulator": dataclasses.replace(STEP, result=RANDOM), "operands": HALVES}, True),
        ({"accumulator": STEP, "operands": HALVES}, False),
    ],
)
def test_an_accumulation_knows_whether_it_needs_random_integers(parameters, randomly):
    """For any sum, or for the output."""
    assert Accumulation(**{"output": SINGLE, **parameters}).rounds_randomly is randomly


# -- the catalog ------------------------------------------------------------------------------------


def machine_of(name: str) -> str:
    """What comes before the operands in a name."""
    return re.match(r"\w+?_(wgmma|mma|tcgen05|mfma1k|mfma|bfdot|fdot|fmmla|top4mx|bulk[0-9]+)(?=_)", name)[0]


@pytest.mark.parametrize("name", ACCUMULATIONS)
def test_every_name_gives_its_accumulation(name):
    """And the accumulation itself, which says its name."""
    found = accumulation(name)
    assert found is ACCUMULATIONS[name] is accumulation(found) is accumulation(f" {name} ")
    assert str(found) == found.name == name


def test_names_say_operands_output_and_scales():
    """So that nobody reads a name that means something else; plain loops have names of their own."""
    for name, found in ACCUMULATIONS.items():
        if found.source:
            x, y = found.operands
            said = [machine_of(name), x.name, *([y.name] if x != y else []), found.output[0].name]
            if found.scale is not None:
                said += [found.scale[0].name, str(found.accumulator.step // found.scale[1])]
            assert name == "_".join(said)


def test_the_catalog_is_complete():
    """How many there are of each machine: an instruction less, or more, is meant."""
    counts = collections.Counter(
        machine_of(name) if found.source else "" for name, found in ACCUMULATIONS.items()
    )
    assert counts == {
        "": 7, "volta_mma": 2, "turing_mma": 2, "ampere_mma": 4, "ada_mma": 12, "hopper_mma": 8,
        "hopper_wgmma": 12, "blackwell_mma": 12, "blackwell_tcgen05": 82, "rtx_blackwell_mma": 82,
        "cdna1_mfma": 2, "cdna2_mfma": 2, "cdna2_mfma1k": 1, "cdna3_mfma": 7, "riscv_bulk4": 4,
        "riscv_bulk8": 1, "riscv_bulk16": 4, "arm_bfdot": 1, "arm_fdot": 8, "arm_fmmla": 8,
        "ace_top4mx": 5,
    }  # fmt: skip


def test_every_machine_is_in_the_catalog():
    """And nothing else is a machine."""
    assert {found.machine for found in ACCUMULATIONS.values()} == {"", *MACHINES}


@pytest.mark.parametrize(
    ("name", "step", "bits", "result"),
    [
        ("volta_mma_binary16_binary32", 4, 23, BINARY32),
        ("turing_mma_binary16_binary16", 8, 24, BINARY16),
        ("ampere_mma_bfloat16_binary32", 8, 24, BINARY32),
        ("ampere_mma_tf32_binary32", 4, 24, BINARY32),
        ("ada_mma_e4m3fn_e5m2_binary32", 16, 13, E8M13),
        ("hopper_mma_binary16_binary32", 16, 25, BINARY32),
        ("hopper_wgmma_e4m3fn_binary32", 32, 13, E8M13),
        ("blackwell_tcgen05_e2m1fn_binary32", 32, 25, BINARY32),
        ("rtx_blackwell_mma_e2m1fn_binary32_ue4m3_4", 64, 35, BINARY32),
        ("cdna1_mfma_bfloat16_binary32", 2, None, BINARY32),
    ],
)
def test_steps_and_bits_are_those_of_the_literature(name, step, bits, result):
    """Read off the tables of the sources by hand."""
    window = ACCUMULATIONS[name].accumulator
    assert (window.step, window.fraction_bits, window.result[0]) == (step, bits, result)


def test_tf32_operands_are_binary32_numbers_cut():
    """Every machine that takes them reads them so; others are not rounded, but for Arm's subnormals."""
    for found in ACCUMULATIONS.values():
        cuts = found.source == "ARMFP" or TF32 in (found.operands or ())
        assert (found.operand_rounding is not None) == cuts


@pytest.mark.parametrize("pair", [(E4M3FN, E5M2), (E4M3FNUZ, E5M2FNUZ), (E2M1FN, E5M2)])
def test_products_of_two_formats_are_there_both_ways(pair):
    """The first is that of x."""
    names = {found.operands for found in ACCUMULATIONS.values()}
    assert {pair, pair[::-1]} <= names


def test_promotion_is_in_chunks_of_any_size():
    """By its name too; not in the catalog, for there would be no end of it."""
    assert accumulation("deepseek_promote(128)") == deepseek_promote() == deepseek_promote(128)
    assert accumulation("deepseek_promote(64)").order == chunked(64)
    assert str(deepseek_promote(64)) == "deepseek_promote(64)"
    assert "deepseek_promote(128)" not in ACCUMULATIONS


@pytest.mark.parametrize(
    ("name", "what"),
    [
        ("cdna4_mfma_e4m3fn_binary32", "how CDNA4's matrix cores align, cut and round"),
        ("gfx1250_wmma_e4m3fn_binary32", "how matrix instructions of RDNA and gfx1250 align, cut and round"),
        ("tdphbf8ps", "in which order AMX adds the four products of FP8: its descriptions disagree"),
        ("rdna3_5_wmma", "how matrix instructions of RDNA and gfx1250 align, cut and round"),
        (
            "ace_top2bf16_bfloat16_binary32",
            "whether TOP2BF16PS flushes its products: its descriptions disagree",
        ),
    ],
)
def test_what_no_document_settles_is_refused_with_that(name, what):
    """Not as a name that nobody knows."""
    message = (
        f"accumulation {name!r} is not here: no public document or measurement settles {what}. Ask the "
        f"hardware: `lowprec capture` and `lowprec identify` find its accumulation"
    )
    with pytest.raises(ValueError, match=f"^{re.escape(message)}$"):
        accumulation(name)


def test_the_format_of_hoppers_sums_is_binary32_without_its_last_ten_bits():
    """It is no format of the catalog: nothing is stored in it."""
    assert (E8M13.width, E8M13.bias, E8M13.emin, E8M13.emax) == (22, 127, -126, 127)
    assert E8M13.name not in FORMATS


def test_names_and_sources_are_not_compared():
    """Turing and Ampere do the same."""
    assert accumulation("turing_mma_binary16_binary32") == accumulation("ampere_mma_binary16_binary32")
    assert accumulation("fp16_sequential") != accumulation("bf16_sequential")


def test_outputs_of_tensor_cores_are_rounded_to_nearest():
    """Where a tensor's scale multiplies the sum; the sum itself is cut in steps."""
    for found in ACCUMULATIONS.values():
        mode = "to_odd" if found.source in ("RISCVDOT", "ARMFP") else "nearest_even"
        assert found.output[1].rounding.name == mode


def test_a_tree_of_tuples_that_stand_in_many_places_is_refused_at_once():
    """Forty doublings of a pair take 40 tuples, and 2^40 terms as text."""
    tree = (0, 1)
    for _ in range(40):
        tree = (tree, tree)
    with pytest.raises(ValueError, match="at most 1,048,576 numbers, brackets and commas"):
        Order.of_tree(tree)


test_what_cannot_be_is_refused = refusal_test(
    {**globals(), "arm_fp8_dot": arm_fp8_dot},
    """
Order("any")
    ValueError: name='any' of an order is unknown; use one of sequential, reversed, pairwise, chunked,
    lanes, exact, tree
Order(["exact"])
    ValueError: name=['exact'] of an order is unknown; use one of sequential, reversed, pairwise,
    chunked, lanes, exact, tree
Order("chunked", 4, "exact")
    ValueError: inner='exact' of an order is unknown; use one of sequential, pairwise
Order("chunked")
    ValueError: size=0 of order 'chunked' is out of range; use 1 to 4,294,967,296
Order("chunked", -1)
    ValueError: size=-1 of order 'chunked' is out of range; use 1 to 4,294,967,296
Order("chunked", 1 << 62)
    ValueError: size=4611686018427387904 of order 'chunked' is out of range; use 1 to 4,294,967,296
Order("pairwise", 4)
    ValueError: size=4 is for orders 'chunked' and 'lanes', not for 'pairwise'; leave it out
Order("sequential", 0, "pairwise")
    ValueError: inner='pairwise' is for orders 'chunked' and 'lanes', not for 'sequential'; leave it out
Order("exact", 0, "pairwise")
    ValueError: inner='pairwise' is for orders 'chunked' and 'lanes', not for 'exact'; leave it out
Order("lanes")
    ValueError: size=0 of order 'lanes' is out of range; use 1 to 4,294,967,296
Order("reversed", 0, "sequential", "(0)")
    ValueError: groups='(0)' are for order 'tree', not for 'reversed'
Order("tree")
    ValueError: '' is no tree: brackets hold the whole sum
Order("tree", 0, "sequential", "(0, 1")
    ValueError: '(0, 1' is no tree: a bracket is not closed
Order("tree", 0, "sequential", "(0, 0)")
    ValueError: '(0, 0)' is no tree of terms: each number from 0 to at most 65535 stands once
Order("tree", 0, "sequential", "(0))")
    ValueError: '(0))' is no tree: a bracket closes that was not opened
Order("tree", 0, "sequential", "(a)")
    ValueError: '(a)' is no tree: it has numbers, brackets and commas, such as '((0, 1), (2, 3))'
order("chunked")
    ValueError: unknown order 'chunked'; use sequential, reversed, pairwise, chunked(n), chunked(n,
    pairwise), lanes(n), lanes(n, pairwise), exact or a tree such as '((0, 2), (1, 3))'
order("chunked(4, exact)")
    ValueError: unknown order 'chunked(4, exact)'; use sequential, reversed, pairwise, chunked(n),
    chunked(n, pairwise), lanes(n), lanes(n, pairwise), exact or a tree such as '((0, 2), (1, 3))'
order("chunked(0)")
    ValueError: size=0 of order 'chunked' is out of range; use 1 to 4,294,967,296
order(4)
    TypeError: order must be an Order or a name, not 4
dataclasses.replace(STEP, result=32)
    TypeError: result of an accumulation must be (Format, Projection), not 32
Accumulation(**{"output": SINGLE, "accumulator": SINGLE, **{"output": 32}})
    TypeError: output of an accumulation must be (Format, Projection), not 32
Accumulation(**{"output": SINGLE, "accumulator": SINGLE, **{"product": (BINARY32,)}})
    TypeError: product of an accumulation must be (Format, Projection), not (Format(name='binary32',
    exponent_bits=8, trailing_bits=23, bias=127, nans=8388607, infinity=True, source='IEEE754'),)
Accumulation(**{"output": SINGLE, "accumulator": SINGLE, **{"accumulator": (1, 2)}})
    TypeError: accumulator of an accumulation must be (Format, Projection), not (1, 2)
Accumulation(**{"output": SINGLE, "accumulator": SINGLE, **{"accumulator": 32}})
    TypeError: accumulator must be (Format, Projection) or a Window, not 32
Accumulation(**{"output": SINGLE, "accumulator": SINGLE, **{"operands": (BINARY16,)}})
    TypeError: operands of an accumulation must be two Formats, not (Format(name='binary16',
    exponent_bits=5, trailing_bits=10, bias=15, nans=1023, infinity=True, source='IEEE754'),)
Accumulation(**{"output": SINGLE, "accumulator": SINGLE, **{"operands": (BINARY64,) * 2}})
    TypeError: operands of an accumulation must be two Formats, not (Carrier(name='binary64',
    exponent_bits=11, trailing_bits=52, bias=1023, nans=4503599627370495, infinity=True,
    source='IEEE754'), Carrier(name='binary64', exponent_bits=11, trailing_bits=52, bias=1023,
    nans=4503599627370495, infinity=True, source='IEEE754'))
Accumulation(**{"output": SINGLE, "accumulator": SINGLE, **{"order": 4}})
    TypeError: order must be an Order or a name, not 4
accumulation("hopper_wgma_e4m3fn_binary32")
    ValueError: unknown accumulation 'hopper_wgma_e4m3fn_binary32'; did you mean
    'hopper_wgmma_e4m3fn_binary32' or 'hopper_wgmma_e4m3fn_binary16' or
    'hopper_wgmma_e5m2_e4m3fn_binary32'?
accumulation("fp32")
    ValueError: unknown accumulation 'fp32'; did you mean 'fp32_fma'?
accumulation("?")
    ValueError: unknown accumulation '?'; `lowprec.accumulations` lists all
accumulation("deepseek")
    ValueError: unknown accumulation 'deepseek'; did you mean 'deepseek_promote(128)'?
accumulation("Hopper")
    ValueError: unknown accumulation 'Hopper'; did you mean 'hopper_mma_binary16_binary32' or
    'hopper_mma_binary16_binary16' or 'hopper_mma_bfloat16_binary32'?
arm_fp8_dot(**{"operands": (E4M3FN, E5M2), "products": 4, "output": BINARY32, **{"operands": (E4M3FN,
        BINARY16)}})
    ValueError: Arm's FP8 sums are of e4m3fn and e5m2 in binary16 or binary32, not of e4m3fn and
    binary16 in binary32
arm_fp8_dot(**{"operands": (E4M3FN, E5M2), "products": 4, "output": BINARY32, **{"lscale": 128}})
    ValueError: lscale=128 is out of range; FPMR.LSCALE has 0 to 127 for binary32
arm_fp8_dot(**{"operands": (E4M3FN, E5M2), "products": 4, "output": BINARY32, **{"lscale": 16,
        "output": BINARY16}})
    ValueError: lscale=16 is out of range; FPMR.LSCALE has 0 to 15 for binary16
arm_fp8_dot(**{"operands": (E4M3FN, E5M2), "products": 4, "output": BINARY32, **{"lscale": -1}})
    ValueError: lscale=-1 is out of range; FPMR.LSCALE has 0 to 127 for binary32
accumulation("deepseek_promote(0)")
    ValueError: size=0 of order 'chunked' is out of range; use 1 to 4,294,967,296
accumulation(7)
    TypeError: accumulation must be an Accumulation or a name, not 7
""",
)
