"""Vectors of units are right, aimed where they say, and the same in every kind of file."""

import csv
import io
import json
from fractions import Fraction

import numpy as np
import pytest

import lowprec as lp
from lowprec.arrays.blocks.block import asked as block_asked
from lowprec.export.block_vectors import block_suite, decoder_suite
from lowprec.export.unit_vectors import comparison_suite, dot_suite, matmul_suite
from lowprec.export.vectors import suite
from lowprec.spec import catalog
from lowprec.spec.rounding import stochastic
from lowprec.verify.inputs.dot_shape import values_of
from tests import planted_bugs

pytestmark = pytest.mark.apart

HALF = (catalog.BINARY16, catalog.BINARY16)
UNITS = {
    "ada_mma_e4m3fn_binary32": None,
    "hopper_mma_e4m3fn_binary16": None,
    "blackwell_tcgen05_e4m3fn_e5m2_binary32": None,
    "cdna1_mfma_bfloat16_binary32": None,
    "cdna3_mfma_e4m3fnuz_binary32": None,
    "fp32_sequential": HALF,
    "fp32_pairwise": HALF,
    "fp64_sequential": HALF,
    "exact": (catalog.INT8, catalog.E4M3FN),
}
SCALED = ("blackwell_tcgen05_e2m1fn_binary32_ue4m3_4", "rtx_blackwell_mma_e3m2fn_binary32_e8m0fnu_1")


def columns(made):
    """The codes of each column, by its name."""
    return {column.name: column.codes for column in made.file.columns}


@pytest.mark.parametrize("name", UNITS)
def test_sums_are_the_oracles(name):
    """Of a sample of the cases, from their codes."""
    how = lp.accumulations[name]
    made = dot_suite(how, UNITS[name])
    held, formats = columns(made), how.operands or UNITS[name]
    rows = np.random.default_rng(0).integers(0, len(held["x"]), 60)
    x, y = (values_of(held[side][rows], fmt) for side, fmt in zip("xy", formats, strict=True))
    begin = catalog.carrier(json.loads(made.render("jsonl").splitlines()[0])["formats"][2])
    addend = values_of(held["addend"][rows], begin)
    want = lp.dot(x, y, how, addend=addend, dtype=held["result"].dtype, backend="oracle")
    assert (held["result"][rows] == want).all()


@pytest.mark.parametrize("name", SCALED)
def test_sums_of_blocks_have_their_scales_as_operands(name):
    """A code of each block on either side."""
    how = lp.accumulations[name]
    held = columns(dot_suite(how))
    fmt, size = how.scale
    blocks = [lp.BlockFormat(name="b", element=operand, scale=fmt, size=size) for operand in how.operands]
    rows = np.random.default_rng(0).integers(0, len(held["x"]), 40)
    x, y = (
        lp.BlockArray(held[side][rows], held[f"{side}scale"][rows], block, (1,))
        for side, block in zip("xy", blocks, strict=True)
    )
    addend = held["addend"][rows].view(np.float32)
    want = lp.dot(x, y, how, addend=addend, dtype=np.uint32, backend="oracle")
    assert (held["result"][rows] == want).all()
    assert held["xscale"].shape == (len(held["x"]), how.accumulator.step // size)


@pytest.mark.parametrize(
    "name", ["ada_mma_e4m3fn_binary32", "hopper_mma_binary16_binary32", "fp32_sequential"]
)
def test_every_point_of_the_plan_is_hit(name):
    """By the default vectors, whatever the seed."""
    for seed in (0, 1):
        plan = dot_suite(lp.accumulations[name], UNITS.get(name), seed=seed).plan()
        assert {point.words for point in plan.points if not point.count} == set()
        assert len({point.words for point in plan.points}) > 50


def test_a_point_is_counted_from_the_operands():
    """Carries, recomputed in fractions: those of one step of exact products, with the window as it is."""
    made = dot_suite(lp.accumulations["ada_mma_e4m3fn_binary32"])
    held, plan = columns(made), {(p.group, str(p)): p.hits for p in made.plan().points}
    x, y = values_of(held["x"], catalog.E4M3FN), values_of(held["y"], catalog.E4M3FN)
    addend = values_of(held["addend"], catalog.BINARY32)

    def exponent(value, least):
        return max(int(np.frexp(value)[1]) - 1, least)

    for row in range(0, len(x), 7):
        if not (np.isfinite(x[row]).all() and np.isfinite(y[row]).all() and np.isfinite(addend[row])):
            continue
        pairs = [(a, b) for a, b in zip(x[row], y[row], strict=True) if a and b]
        tops = [exponent(a, -6) + exponent(b, -6) for a, b in pairs]
        terms = [Fraction(a) * Fraction(b) for a, b in pairs]
        if addend[row]:
            tops, terms = [*tops, exponent(addend[row], -126)], [*terms, Fraction(addend[row])]
        largest = max(tops, default=0)
        unit = Fraction(2) ** (largest - 13)
        total = abs(sum(int(term / unit) for term in terms))
        places = total.bit_length() - 1 - 13
        for carried in range(1, 6):
            assert plan["sum", f"carries {carried} place{'s' * (carried > 1)} to the left"][row] == (
                total > 0 and places == carried
            )
        assert plan["sum", "cancels to the last bit"][row] == (total == 1)


def test_every_kind_of_file_holds_the_same_cases():
    """Lanes apart, or as one number; of readmemh always as one."""
    made = dot_suite(lp.accumulations["volta_mma_binary16_binary32"], length=3, samples=32)
    held = columns(made)
    want = [
        [*x, *y, c, result]
        for x, y, c, result in zip(
            *(held[name].tolist() for name in ("x", "y", "addend", "result")), strict=True
        )
    ]
    lines = [line for line in made.render("text").decode().splitlines() if line[0] != "#"]
    assert [[int(word, 16) for word in line.split()] for line in lines] == want
    assert made.operand_lines().splitlines() == [line[:-9] for line in lines]
    rows = csv.DictReader(line for line in made.render("csv").decode().splitlines() if line[0] != "#")
    names = ["x0", "x1", "x2", "y0", "y1", "y2", "addend", "result"]
    assert [[int(row[name], 16) for name in names] for row in rows] == want
    header, *cases = map(json.loads, made.render("jsonl").decode().splitlines())
    assert header["columns"][0] == {"name": "x", "bits": 16, "lanes": 3, "result": False}
    assert [int(word, 16) for case in cases for word in case["x"]] == [
        code for row in want for code in row[:3]
    ]
    table = np.load(io.BytesIO(made.render("npy")))
    assert (table["x"] == held["x"]).all()
    assert (table["result"] == held["result"]).all()

    numbers = [sum(code << 16 * lane for lane, code in enumerate(row[:3])) for row in want]
    packed = [
        line.split() for line in made.render("text", packed=True).decode().splitlines() if line[0] != "#"
    ]
    assert [int(words[0], 16) for words in packed] == numbers
    assert {len(words[0]) for words in packed} == {12}
    words = [line for line in made.render("mem").decode().splitlines() if line[:2] != "//"]
    assert words == ["".join(line) for line in packed]
    assert "lane 0 in the lowest bits" in made.render("mem").decode()
    table = np.load(io.BytesIO(made.render("npy", packed=True)))
    assert [int.from_bytes(bytes(row), "little") for row in table["x"]] == numbers


def test_packed_codes_of_six_bits_have_no_gaps():
    """Four in three bytes."""
    held = block_suite(catalog.BFLOAT16, lp.block_formats["mxfp6_e3m2"], samples=8)
    (column,) = (each for each in held.file.columns if each.name == "element")
    assert column.packed_bytes().shape[1] == 24
    assert (column.packed_bytes() == lp.BlockArray(
        column.codes, np.zeros((len(column.codes), 1), np.uint8), "mxfp6_e3m2", (1,)
    ).packed()).all()  # fmt: skip


def test_matrices_are_products_of_the_same_dot_products():
    """Row by row; and every output is aimed at by turns."""
    how = lp.accumulations["ampere_mma_binary16_binary32"]
    made = matmul_suite(how, (3, 2, 8), samples=64)
    held = columns(made)
    x, y = (values_of(held[side], catalog.BINARY16) for side in "xy")
    addend = held["addend"].view(np.float32).reshape(-1, 3, 2)
    want = lp.matmul(x.reshape(-1, 3, 8), y.reshape(-1, 8, 2), how, addend=addend, dtype=np.uint32)
    assert (held["result"].reshape(-1, 3, 2) == want).all()
    plan = {str(point): point.count for point in made.plan().points}
    assert all(
        plan[f"an aimed dot product at {row}, {column}"] > 9 for row in range(3) for column in range(2)
    )
    assert plan["the rows of x one further"] > 9
    assert plan["the addend of another output"] > 9


ASKED = ("rule", "rounding", "saturation", "projection", "profile")
BLOCKS = [
    ("binary32", "mxfp4", {}),
    ("bfloat16", "mxfp8_e5m2", {"rule": "rceil"}),
    ("binary16", "nvfp4", {}),
    ("bfloat16", "bfp8", {}),
    ("binary32", "mxfp6_e2m3", {"profile": "torchao_even"}),
]


@pytest.mark.parametrize(("source", "name", "more"), BLOCKS, ids=lambda given: str(given))
def test_blocks_are_the_oracles(source, name, more):
    """A sample, each alone, with the scale of its tensor."""
    fmt = block_asked(lp.block_formats[name], *(more.get(key) for key in ASKED))
    made = block_suite(lp.format(source), fmt, samples=256)
    held = columns(made)
    for row in np.random.default_rng(0).integers(0, len(held["x"]), 12):
        values = (
            lp.decode(held["x"][row], source) if source != "binary32" else held["x"][row].view(np.float32)
        )
        tensor = held["tensorscale"][row].view(np.float32) if "tensorscale" in held else None
        want = lp.encode(values, fmt, tensor_scale=tensor, backend="oracle")
        assert (held["element"][row] == want.codes).all()
        assert held["scale"][row] == want.scales[0]
    assert not {p.words for p in made.plan().points if not p.count and p.group == "lanes"}


def test_blocks_of_two_dimensions_are_row_by_row():
    """A tile of sixteen by sixteen is 256 lanes."""
    held = columns(block_suite(catalog.BFLOAT16, lp.block_formats["nvfp4_2d"], samples=16))
    row = len(held["x"]) // 2
    values = lp.decode(held["x"][row], "bfloat16").reshape(16, 16)
    want = lp.encode(values, "nvfp4_2d", axis=(0, 1), tensor_scale=held["tensorscale"][row].view(np.float32))
    assert (held["element"][row].reshape(16, 16) == want.codes).all()


def test_random_integers_of_elements_are_operands():
    """One for each element."""
    drawn = lp.Projection(rounding=stochastic(8), saturation="finite")
    fmt = lp.BlockFormat(name="drawn", element="e2m1fn", scale="e8m0", size=32, elements=drawn)
    held = columns(block_suite(catalog.BINARY32, fmt, samples=64))
    want = lp.encode(held["x"].view(np.float32), fmt, random=held["random"], backend="oracle")
    assert (held["element"] == want.codes).all()
    assert held["random"].max() == 255


@pytest.mark.parametrize(
    ("name", "target"), [("mxfp4", "bfloat16"), ("nvfp4", "binary32"), ("mxfp8_e5m2", "binary16")]
)
def test_blocks_are_decoded_to_what_decode_gives(name, target):
    """Every code in every lane."""
    made = decoder_suite(lp.block_formats[name], lp.format(target), samples=64)
    held, kept = (
        columns(made),
        {"bfloat16": lp.dtype("bfloat16"), "binary32": "float32", "binary16": "float16"}[target],
    )
    for row in range(0, len(held["scale"]), 5):
        tensor = {"tensor_scale": held["tensorscale"][row].view(np.float32)} if "tensorscale" in held else {}
        block = lp.BlockArray(
            held["element"][row], held["scale"][[row]], lp.block_formats[name], (0,), **tensor
        )
        assert (block.values(kept).view(held["result"].dtype) == held["result"][row]).all()
    lanes = [point for point in made.plan().points if point.words == "every code"]
    assert len(lanes) == held["element"].shape[1]


@pytest.mark.parametrize("name", ["e5m2", "binary16", "e4m3fnuz"])
def test_relations_are_those_of_the_values(name):
    """And of signaling NaNs the quiet ones raise the flag too."""
    held = columns(comparison_suite(lp.format(name), flags=True))
    x, y = (np.asarray(lp.decode(held[side], name, dtype="float64")) for side in "xy")
    for relation, want in (
        ("less", x < y),
        ("equal", x == y),
        ("greater", x > y),
        ("unordered", (x != x) | (y != y)),
    ):
        assert (held[relation] == want).all()
    assert (held["flags"] == 16 * ((x != x) | (y != y))).all()
    assert set(np.unique(held["quietflags"])) == ({0, 16} if name != "e4m3fnuz" else {0})


# -- flags and random integers of conversions and operations -----------------------------------------------


@pytest.mark.parametrize(
    "words", ["convert binary32 e4m3fn", "fma binary16 binary16 binary32 binary16", "divide e5m2 e5m2 e5m2"]
)
def test_flags_are_those_that_the_verbs_raise(words):
    """As TestFloat has them, behind the result."""
    operation, *names = words.split()
    made = suite(operation, tuple(map(lp.format, names)), samples=64, flags=True)
    line = made.render("text").decode().splitlines()[-1].split()
    assert (int(line[-2], 16), int(line[-1], 16)) == (made.results[-1], made.flags[-1])
    assert {len(line[-1])} == {2}
    flags = np.zeros(made.results.shape, np.uint8)
    if operation == "convert":
        lp.encode(made.operands[0].view(np.float32), names[-1], flags=flags)
        assert (made.flags == flags).all()
    plan = {(p.group, p.words): p.count for p in made.plan().points}
    assert plan["flags", "overflow"] > 0
    assert plan["flags", "divide by zero"] == (492 if operation == "divide" else 0)


@pytest.mark.parametrize(
    "mode", [stochastic(8), stochastic(5, "C"), stochastic(20, "rdna4"), stochastic(7, "avx10_2")]
)
def test_random_integers_lie_where_the_result_changes(mode):
    """Of each five cases the third has the first that rounds away, and the fourth the one before it."""
    made = suite("convert", (catalog.BINARY32, catalog.E4M3FN), lp.Projection(rounding=mode), samples=64)
    values, words = made.operands[0].view(np.float32), made.random
    again = lp.encode(values, "e4m3fn", rounding=mode, random=words, backend="oracle")
    assert (made.results == again).all()
    shift = {"rdna4": 12, "avx10_2": 1}.get(mode.variant, 0)
    near = np.arange(values.size) % 5 == 2
    finite = near & np.isfinite(values) & (words >> shift > 0) & (np.abs(values) < 448)
    before = lp.encode(values, "e4m3fn", rounding=mode, random=words - np.uint32(finite << shift))
    inexact = np.asarray(lp.decode(before, "e4m3fn")) != values
    assert (made.results != before)[finite & inexact & (words >> shift < (1 << mode.bits) - 1)].all()


def test_lanes_that_share_a_word_are_a_case_together():
    """Four of PTX's conversions to 8 bits."""
    made = suite(
        "convert",
        (catalog.BINARY32, catalog.E5M2),
        lp.Projection(rounding=stochastic(16, "ptx_rs")),
        flags=True,
    )
    assert made.results.shape == (len(made.random), 4) == made.flags.shape
    values = made.operands[0].view(np.float32)
    want = lp.encode(values, "e5m2", rounding=stochastic(16, "ptx_rs"), random=made.random)
    assert (made.results == want).all()
    names = made.render("csv").decode().splitlines()[4].split(",")
    assert names[3:6] == ["operand3", "random0", "result0"]
    assert sum(point.count for point in made.plan().points if point.words == "at a tie") > 0


def test_nan_cases_without_a_code_are_left_out_of_drawn_ones_too():
    """As of deterministic modes."""
    made = suite("convert", (catalog.E4M3FN, catalog.E2M1FN), lp.Projection(rounding=stochastic(4)))
    assert made.left_out == 2


def test_every_planted_bug_is_caught():
    """By the default count of vectors, and the table says which point of the plan did it."""
    rows = list(planted_bugs.table())
    assert len(rows) == len(planted_bugs.DOT_BUGS) + len(planted_bugs.BLOCK_BUGS) >= 70
    for unit, bug, count, point in rows:
        print(f"{unit:<16} {bug:<51} {count:>5,}  {point.group}: {point}")
        assert count >= 3, (unit, bug)
