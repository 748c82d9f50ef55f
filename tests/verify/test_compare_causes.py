"""A comparison names the error: every planted cause is the first hypothesis, and corruption has none."""

from __future__ import annotations

import dataclasses

import ml_dtypes
import numpy as np
import pytest

import lowprec as lp
from lowprec.spec import catalog
from lowprec.spec.accumulations import accumulation
from lowprec.spec.projection import Projection
from lowprec.verify.codes.values import distances
from lowprec.verify.inputs import conversions
from lowprec.verify.questions.causes import cut_behind_guard, in_words
from lowprec.verify.questions.situations import names_of, situation, situations
from lowprec.verify.reference.operations import OPERATIONS

pytestmark = pytest.mark.apart

BINARY16, BFLOAT16 = catalog.BINARY16, catalog.BFLOAT16


def values(size=20_000, seed=0):
    """Numbers of 20 binades, and every tie of e4m3fn with its neighbours, without NaN."""
    rng = np.random.default_rng(seed)
    some = (rng.standard_normal(size) * np.exp2(rng.integers(-12, 9, size))).astype(np.float32)
    chosen = conversions.inputs(catalog.E4M3FN, np.float32, sparse=True)
    return np.concatenate([some, chosen[~np.isnan(chosen)]])


def told(report):
    """The words of the first hypothesis, after the checks that hold for each."""
    assert report.mismatches > 0
    assert not report.agrees
    assert report.cause.explained <= report.mismatches
    return report.cause.words


PLANTED = {
    "ties away": (Projection(rounding="nearest_away"), "ties away from zero"),
    "ties to zero": (Projection(rounding="nearest_zero"), "ties toward zero"),
    "truncation": (Projection(rounding="toward_zero"), "truncation: rounded toward zero"),
    "up": (Projection(rounding="toward_positive"), "rounded up, toward +infinity"),
    "down": (Projection(rounding="toward_negative"), "rounded down, toward -infinity"),
    "odd": (Projection(rounding="to_odd"), "rounded to odd"),
    "flush": (Projection(subnormals="flush_results"), "flush to zero: subnormal results become zeros"),
    "flush before": (
        Projection(subnormals="flush_results", tininess="before"),
        "flush to zero: subnormal results become zeros; and tininess judged before rounding",
    ),
    "saturation": (Projection(saturation="finite"), "saturation: overflow becomes the largest finite value"),
    "binary16 first": (Projection(via=(BINARY16,)), "double rounding: to binary16 first"),
    "bfloat16 first": (Projection(via=(BFLOAT16,)), "double rounding: to bfloat16 first"),
    "before": (Projection(overflow_test="before"), "overflow judged before rounding"),
}


@pytest.mark.parametrize(("projection", "words"), PLANTED.values(), ids=PLANTED)
@pytest.mark.parametrize("kind", ["codes", "own type", "values"])
def test_a_planted_projection_is_the_first_hypothesis(projection, words, kind):
    """Of all mismatches, in whatever form the results come."""
    x = values()
    got = lp.encode(x, "e4m3fn", projection=projection)
    got = {"codes": got, "own type": got.view(lp.dtype("e4m3fn")), "values": lp.decode(got, "e4m3fn")}[kind]
    report = lp.compare(x, got, "e4m3fn")
    assert told(report).startswith(words)
    assert (
        report.cause.explained
        == report.mismatches
        == np.count_nonzero(lp.encode(x, "e4m3fn") != lp.encode(x, "e4m3fn", projection=projection))
    )
    assert (report.cause.contradicted, report.diagnosis.unexplained) == (0, 0)


@pytest.mark.parametrize(
    ("asked", "given"), [("e4m3fn", "e4m3fnuz"), ("e4m3fn", "e5m2"), ("binary16", "bfloat16")]
)
def test_another_format_is_the_first_hypothesis(asked, given):
    """And it is what the ranking names, where no format was asked for."""
    x = values()
    got = lp.encode(x, given)
    assert told(lp.compare(x, got, asked)) == f"{given} instead of {asked}"
    ranked = lp.compare(x, got)
    assert (ranked.ranking[0].name, ranked.ranking[0].share, ranked.agrees) == (given, 1.0, True)


def test_two_causes_at_once_are_one_hypothesis_of_two():
    """Each alone explains less."""
    x = values()
    got = lp.encode(x, "e4m3fn", rounding="nearest_away", saturation="finite")
    report = lp.compare(x, got, "e4m3fn")
    parts = told(report).split("; and ")
    assert {part.split()[0] for part in parts} == {"ties", "saturation:"}
    assert report.cause.explained == report.mismatches


def test_stochastic_rounding_is_told_from_any_other_choice_of_neighbours():
    """Results are neighbours in both cases; as often as they are near in one."""
    x = values()[:20_000]
    got = lp.encode(x, "e4m3fn", rounding="stochastic(16)", rng=1)
    assert told(lp.compare(x, got, "e4m3fn")).startswith("stochastic rounding")
    coin = np.random.default_rng(0).random(x.size) < 0.5
    sides = [lp.encode(x, "e4m3fn", rounding=mode) for mode in ("toward_zero", "away_from_zero")]
    assert lp.compare(x, np.where(coin, *sides), "e4m3fn").cause is None


LAYOUTS = {
    "pairs": (lambda codes: codes.reshape(-1, 2)[:, ::-1], "neighbours swapped in pairs"),
    "words": (lambda codes: codes.reshape(-1, 4)[:, ::-1], "the order of four reversed"),
    "right": (lambda codes: np.roll(codes, 8), "shifted by 8 to the right"),
    "left": (lambda codes: np.roll(codes, -1), "shifted by 1 to the left"),
    "reverse": (lambda codes: codes.reshape(-1)[::-1], "in reverse order"),
    "transposed": (lambda codes: codes.T.copy(), "transposed: rows and columns exchanged"),
    "halves": (lambda codes: codes << 4 | codes >> 4, "swapped nibbles: the halves of each byte"),
    "sign": (lambda codes: codes ^ np.uint8(0x80), "signs inverted"),
}


@pytest.mark.parametrize(("move", "words"), LAYOUTS.values(), ids=LAYOUTS)
def test_right_codes_at_wrong_places_are_recognised(move, words):
    """Of a matrix that is not square."""
    x = values()[:9_600].reshape(80, 120)
    got = move(lp.encode(x, "e4m3fn")).reshape(80, 120)
    report = lp.compare(x, got, "e4m3fn")
    assert told(report).startswith(words)
    assert report.diagnosis.unexplained <= 8  # at the ends


def test_swapped_nibbles_and_bytes_are_recognised():
    """In files of two codes a byte, and in words of two bytes."""
    x = values()[:9_600]
    four = lp.encode(x, "e2m1fn", saturation="finite").reshape(-1, 2)[:, ::-1].reshape(-1)
    report = lp.compare(x, four, "e2m1fn", saturation="finite")
    assert told(report) == "swapped nibbles: the two codes of a byte"
    two = lp.encode(x, "bfloat16").byteswap()
    assert told(lp.compare(x, two, "bfloat16")) == "swapped bytes: the other byte order"


@pytest.mark.parametrize("bits", [1, 2, 3, 16])
def test_few_random_bits_are_counted(bits):
    """Of many it is only said that there are some."""
    x = values()[:20_000]
    for variant in "ABC":
        got = lp.encode(x, "e4m3fn", rounding=lp.stochastic(bits, variant), rng=1)
        which = f" with {bits} random bit{'s' * (bits > 1)}" if bits < 16 else ""
        assert told(lp.compare(x, got, "e4m3fn")).startswith(f"stochastic rounding{which}: ")


@pytest.mark.parametrize("size", [100, 200, 400, 1000])
def test_a_few_neighbours_by_mistake_are_not_taken_for_drawn_ones(size):
    """One in a hundred results has another last bit."""
    for seed in range(5):
        rng = np.random.default_rng(seed)
        x = rng.standard_normal(size).astype(np.float32)
        got = lp.encode(x, "e2m1fn", saturation="finite")
        got[rng.choice(size, size // 100, replace=False)] ^= 1
        report = lp.compare(x, got, "e2m1fn", saturation="finite")
        assert report.cause is None or "stochastic" not in report.cause.words


def test_a_rare_second_cause_is_named_too():
    """Of all 2**16 numbers two are infinite, and nothing but saturation explains what became of them."""
    x = np.arange(1 << 16, dtype=np.uint16).view(np.float16)
    report = lp.compare(x, lp.encode(x, "e4m3fn", rounding="toward_zero", saturation="finite"), "e4m3fn")
    assert {part.split()[0] for part in told(report).split("; and ")} == {"truncation:", "saturation:"}
    assert (report.cause.explained, report.diagnosis.unexplained) == (report.mismatches, 0)


@pytest.mark.parametrize(
    ("change", "words"),
    [
        (np.zeros_like, "zeros everywhere, as if nothing had been written"),
        (
            lambda codes: np.where(codes & 0x80, 0, codes).astype(np.uint8),
            "negative results become zero, as a ReLU",
        ),
        (lambda codes: codes & np.uint8(0x7F), "signs dropped"),
    ],
)
def test_plain_faults_have_plain_names(change, words):
    """Not the odd format that would explain them too."""
    x = values()
    assert told(lp.compare(x, change(lp.encode(x, "e4m3fn")), "e4m3fn")).startswith(words)


def test_the_type_of_results_says_which_format_they_are_in():
    """Of ml_dtypes' types, whatever was asked."""
    x = values()[:2_000]
    got = lp.encode(x, "e5m2").view(lp.dtype("e5m2"))
    assert told(lp.compare(x, got, "e4m3fn")) == "e5m2 instead of e4m3fn"
    assert lp.compare(x, got).ranking[0].name == "e5m2"


@pytest.mark.parametrize(
    "name", ["float8_e5m2", "float8_e4m3", "float8_e4m3fnuz", "float16", "bfloat16", "float4_e2m1fn"]
)
def test_results_of_another_type_are_values(name):
    """The bytes of [1, 2] in e5m2 are those of [0.5, 2] in e4m3fn: they agreed."""
    got = np.array([1, 2], getattr(ml_dtypes, name, name))
    report = lp.compare(np.float32([0.5, 2]), got, "e4m3fn", limit=1)
    assert (report.mismatches, report.compared) == (1, 2)
    assert "1.0 = 0x1p+0" in report.told()[0]
    assert lp.compare(np.float32([1, 2]), got, "e4m3fn").agrees


@pytest.mark.parametrize(
    ("name", "target"), [("float16", "bfloat16"), ("bfloat16", "binary16"), ("float16", "binary32")]
)
def test_results_of_a_type_that_lacks_values_of_the_target_are_values(name, target):
    """They were refused, or only with a message about float16."""
    x = np.float32([0.5, 3.0, 2.0**-30, 1 + 2.0**-9])
    got = x.astype(getattr(ml_dtypes, name, name))
    want = np.asarray(lp.quantize(x, target)).astype(np.float64)
    report = lp.compare(x, got, target)
    assert report.mismatches == np.count_nonzero(got.astype(np.float64) != want)
    assert report.compared == 4


def test_values_of_blocks_may_come_in_a_type_of_8_bits():
    """As codes only in that of the elements."""
    x = np.float32([0.5, 2, 3, -416])
    blocks = lp.encode(x, "mxfp8_e4m3")
    assert lp.compare(x, x.astype(ml_dtypes.float8_e5m2), "mxfp8_e4m3", limit=1).mismatches == 1  # -416
    assert lp.compare(
        x, blocks.codes.view(ml_dtypes.float8_e4m3fn), "mxfp8_e4m3", scales=blocks.scales
    ).agrees
    with pytest.raises(
        ValueError, match="results of type float8_e5m2 are values, which have no scales; leave scales out"
    ):
        lp.compare(x, blocks.codes.view(ml_dtypes.float8_e5m2), "mxfp8_e4m3", scales=blocks.scales)


def test_sums_of_products_in_another_type_are_values():
    """Of a type that does not hold all that the output's format has."""
    x = np.float32([0.5, 2])
    for name in ("float8_e5m2", "float16", "bfloat16"):
        kind = getattr(ml_dtypes, name, name)
        for value, agrees in ((4.0, True), (5.0, False)):
            got = np.array([value], kind)[0]
            assert (
                lp.compare((x, np.float32([0, 2])), got, operation="dot", accumulation="fp32_fma").agrees
                == agrees
            )


def test_unused_bits_of_narrow_types_count_nowhere():
    """Of results, and of operands."""
    x = np.float32([0.5, 2, 3, -6])
    codes = lp.encode(x, "e2m1fn")
    dirty = (codes | 0xF0).view(ml_dtypes.float4_e2m1fn)
    assert lp.compare(x, dirty, "e2m1fn").agrees
    assert lp.compare(dirty, lp.encode(x, "e4m3fn"), "e4m3fn").agrees


@pytest.mark.parametrize("share", [0.0005, 0.01, 0.3])
@pytest.mark.parametrize("kind", ["any code", "last bit", "one bit"])
def test_random_corruption_is_unexplained(share, kind):
    """Whatever part of the codes is hit, and however."""
    x, rng = values(), np.random.default_rng(3)
    got = lp.encode(x, "e4m3fn")
    hit = rng.choice(got.size, int(share * got.size), replace=False)
    flips = {"any code": rng.integers(1, 256, hit.size), "last bit": np.ones(hit.size, int)}
    got[hit] ^= flips.get(kind, 1 << rng.integers(0, 8, hit.size)).astype(np.uint8)
    report = lp.compare(x, got, "e4m3fn")
    assert (report.mismatches, report.cause) == (hit.size, None)
    assert report.diagnosis.unexplained == hit.size
    assert "unexplained" in report.as_text()


def test_corruption_beside_a_cause_stays_unexplained():
    """The first hypothesis explains what it is the cause of, and nothing else."""
    x, rng = values(), np.random.default_rng(3)
    got = lp.encode(x, "e4m3fn", rounding="toward_zero")
    got[rng.choice(got.size, 40, replace=False)] ^= 0x15
    report = lp.compare(x, got, "e4m3fn")
    assert told(report).startswith("truncation")
    assert 0 < report.diagnosis.unexplained <= 40
    assert sum(report.diagnosis.situations.values()) == report.diagnosis.unexplained


# -- operations, blocks, dot products ------------------------------------------------------------------


def test_operations_are_diagnosed_as_casts_are():
    """Double rounding of a sum through binary32; a quotient of swapped operands; truncated products."""
    rng = np.random.default_rng(0)
    x, y = lp.quantize(rng.standard_normal((2, 20_000)) * 8, "binary16")
    got = lp.fma(
        x, y, x * 0 + np.float16(2.0**-20), "binary16", projection=Projection(via=(catalog.BFLOAT16,))
    )
    report = lp.compare((x, y, x * 0 + np.float16(2.0**-20)), got, "binary16", operation="fma")
    assert told(report).startswith("double rounding: to bfloat16 first")
    got = lp.divide(y, x, "e5m2")
    assert told(lp.compare((x, y), got, "e5m2", operation="divide")) == "operands in the other order"
    codes = [lp.encode(side, "e4m3fn") for side in (x, y)]
    got = lp.multiply(*(lp.decode(side, "e4m3fn") for side in codes), "e4m3fn", rounding="toward_zero")
    report = lp.compare(tuple(codes), got, "e4m3fn", operation="multiply", source="e4m3fn")
    assert told(report).startswith("truncation")


def matrix():
    rng = np.random.default_rng(0)
    some = rng.standard_normal((96, 128)) * np.exp2(rng.integers(-6, 6, (96, 128)))
    return lp.quantize(some.astype(np.float32), "bfloat16")  # few bits, so that there are ties


BLOCKS = {
    "rule": ("mxfp8_e4m3", {"rule": "ceil"}, "scale rule 'ceil' instead of 'floor'"),
    "rceil": ("mxfp4", {"rule": "rceil"}, "scale rule 'rceil' instead of 'floor'"),
    "axis": ("mxfp4", {"axis": 0}, "blocks along axis 0, not 1"),
    "ties": ("mxint8", {"rounding": "nearest_away"}, "elements: ties away from zero"),
    "cut": ("nvfp4", {"rounding": "toward_zero"}, "elements: truncation: rounded toward zero"),
    "stochastic": ("mxfp4", {"rounding": "stochastic(16)", "rng": 1}, "stochastic rounding"),
}


@pytest.mark.parametrize(("fmt", "options", "words"), BLOCKS.values(), ids=BLOCKS)
@pytest.mark.parametrize("kind", ["codes", "scales too", "values"])
def test_what_is_wrong_with_blocks_is_the_first_hypothesis(fmt, options, words, kind):
    """From the elements alone, with their scales, or from the values; of data that no multiple of 32 fits."""
    x = matrix()[:, :120]
    blocks = lp.encode(x, fmt, **options)
    got = blocks.values() if kind == "values" else blocks.codes
    scales = blocks.scales if kind == "scales too" else None
    report = lp.compare(x, got, fmt, scales=scales)
    assert told(report).startswith(words)
    assert report.cause.explained == report.mismatches


def test_shifted_and_differently_sized_blocks_are_recognised():
    """And two codes of a byte in the wrong order; and an array that was transposed."""
    x = matrix()
    late = lp.encode(np.pad(x, ((0, 0), (28, 0))), "mxfp4").codes[:, 28:]
    assert told(lp.compare(x, late, "mxfp4")) == "blocks shifted: the first has 4 elements"
    half = dataclasses.replace(catalog.block_format("mxfp4"), size=16)
    assert told(lp.compare(x, lp.encode(x, half).codes, "mxfp4")) == "blocks of 16, not 32"
    blocks = lp.encode(x, "nvfp4")
    swapped = blocks.codes.reshape(-1, 2)[:, ::-1].reshape(x.shape)
    assert (
        told(lp.compare(x, swapped, "nvfp4", scales=blocks.scales))
        == "swapped nibbles: the two codes of a byte"
    )
    blocks = lp.encode(x, "mxfp8_e4m3", axis=0)
    report = lp.compare(x, blocks.codes, "mxfp8_e4m3", scales=blocks.scales)
    assert told(report) == "blocks along axis 0, not 1"
    assert "scales of shape (3, 128) are those of axis 0, and left out" in report.question


def test_blocks_are_compared_in_pieces_as_they_are_whole(monkeypatch):
    """The scale of the tensor is that of all of it; pieces end where blocks do."""
    from lowprec.verify.questions.blocks import blocks as subject

    x = np.concatenate([matrix()] * 8)
    x[500, 3] = 1e6
    for axis in (0, 1):
        made = lp.encode(x, "nvfp4", axis=axis, rounding="toward_zero")
        whole = lp.compare(x, made.codes, "nvfp4", scales=made.scales, axis=axis)
        with monkeypatch.context() as patch:
            patch.setattr(subject, "_PIECE", 1 << 14)
            parts = lp.compare(x, made.codes, "nvfp4", scales=made.scales, axis=axis)
        assert whole.as_dict() == parts.as_dict()
        assert told(whole).startswith("elements: truncation")


@pytest.mark.parametrize("fmt", ["mxfp4", "mxfp8_e4m3", "nvfp4"])
def test_values_that_were_narrowed_or_transposed_before_are_recognised(fmt):
    """As weights are that were cast to bfloat16; and a matrix taken by columns."""
    x = np.random.default_rng(0).standard_normal((128, 128)).astype(np.float32)
    narrow = lp.encode(x.astype(lp.dtype("bfloat16")), fmt)
    assert told(lp.compare(x, narrow.codes, fmt)) == "values rounded to bfloat16 first"
    flipped = lp.encode(np.ascontiguousarray(x.T), fmt)
    assert told(lp.compare(x, flipped.codes, fmt)) == "transposed: rows and columns exchanged"


def test_one_long_row_of_blocks_is_read_in_pieces():
    """And lines of codes or scales are taken in the shape that they must have."""
    x = np.random.default_rng(0).standard_normal(1 << 16).astype(np.float32)
    blocks = lp.encode(x, "mxfp4", rule="ceil")
    report = lp.compare(x[None], blocks.codes, "mxfp4", scales=blocks.scales)
    assert told(report).startswith("scale rule 'ceil'")
    assert report.details[0].data["at"] == [0, 0]


def test_nans_of_values_in_blocks_are_all_alike():
    """Whatever their signs and payloads."""
    x = matrix()[:, :64].copy()
    x[3, 3], x[5, 40] = np.nan, np.inf
    got = lp.quantize(x, "mxfp8_e4m3")
    got.view(np.uint32)[np.isnan(got)] = 0xFFC00001
    assert lp.compare(x, got, "mxfp8_e4m3").agrees


def factors(fmt="binary16"):
    rng = np.random.default_rng(0)
    return lp.quantize(rng.standard_normal((24, 96)), fmt), lp.quantize(rng.standard_normal((96, 20)), fmt)


def test_f_and_l_of_a_dot_product_are_found():
    """24 bits instead of 25, half the step, and both."""
    x, y = factors()
    how = accumulation("hopper_mma_binary16_binary32")

    def wrong(**fields):
        window = dataclasses.replace(how.accumulator, **fields)
        return lp.matmul(x, y, dataclasses.replace(how, accumulator=window, name=""))

    def asked(got):
        return lp.compare((x, y), got, operation="matmul", accumulation=how)

    assert told(asked(wrong(fraction_bits=24))).startswith("F = 24 instead of 25")
    assert told(asked(wrong(step=8))).startswith("L = 8 instead of 16")
    both = told(asked(wrong(fraction_bits=22, step=4)))
    assert {part[:6] for part in both.split("; and ")} == {"F = 22", "L = 4 "}


SHAPES = [
    ("dot", (96,), (96,)),
    ("dot", (5, 96), (3, 5, 96)),
    ("dot", (1, 96), (7, 96)),
    ("matmul", (96,), (96, 4)),
    ("matmul", (4, 96), (96,)),
    ("matmul", (3, 4, 96), (96, 5)),
    ("matmul", (3, 4, 96), (1, 96, 5)),
]


@pytest.mark.parametrize(("verb", "left", "right"), SHAPES)
def test_products_of_any_shapes_are_compared(monkeypatch, verb, left, right):
    """Whole and in pieces, with an addend; and their exact sums are those of their own rows and columns."""
    rng = np.random.default_rng(0)
    x, y = lp.quantize(rng.standard_normal(left), "e4m3fn"), lp.quantize(rng.standard_normal(right), "e4m3fn")
    x.reshape(-1)[0] = -0.0
    got = np.asarray(getattr(lp, verb)(x, y, "fp32_fma", addend=0.5))
    for piece in (1 << 25, 1 << 8):
        monkeypatch.setattr("lowprec.verify.questions.dots.dots._PIECE", piece)
        assert lp.compare((x, y), got, operation=verb, accumulation="fp32_fma", addend=0.5).agrees
        wrong = got.copy()
        wrong.reshape(-1)[-1] += 1
        report = lp.compare((x, y), wrong, operation=verb, accumulation="fp32_fma", addend=0.5)
        assert report.mismatches == 1
        exact = np.asarray(getattr(lp, verb)(x, y, "exact", addend=0.5, dtype=np.float64)).reshape(-1)[-1]
        assert report.details[0].rows[0][1].startswith(repr(float(exact))[:6])
    assert lp.compare((x, y), got, operation=verb, addend=0.5).ranking[0].share == 1.0


@pytest.mark.parametrize("shapes", [((0, 4), (4, 3)), ((2, 0), (0, 3)), ((2, 4), (4, 0))])
@pytest.mark.parametrize("ulps", [None, "auto"])
def test_products_of_empty_matrices_are_compared(shapes, ulps):
    """Without results there is nothing to compare; sums of nothing are +0."""
    x, y = (np.zeros(shape, np.float32) for shape in shapes)
    got, how = np.zeros((len(x), y.shape[1]), np.float32), {"operation": "matmul", "accumulation": "fp32_fma"}
    report = lp.compare((x, y), got, ulps=ulps, **how)
    assert report.compared == got.size
    assert report.agrees == bool(got.size)
    if got.size:
        assert lp.compare((x, y), got + 1, ulps=ulps, **how).mismatches == got.size


def test_accumulations_are_ranked():
    """The right one is first, or one that is the same."""
    x, y = factors()
    got = lp.matmul(x, y, "ampere_mma_binary16_binary32")
    report = lp.compare((x, y), got, operation="matmul")
    same = accumulation("ampere_mma_binary16_binary32")
    assert accumulation(report.ranking[0].name) == same
    assert report.agrees
    rows = lp.compare((x, y.T[:1]), lp.dot(x, y.T[:1], "fp32_pairwise"), operation="dot")
    assert (rows.ranking[0].name, rows.agrees) == ("fp32_pairwise", True)


def test_sums_in_another_order_are_named():
    """As NumPy's pairwise sums are."""
    x, y = factors("binary32")
    report = lp.compare(
        (x, y), lp.matmul(x, y, "fp32_pairwise"), operation="matmul", accumulation="fp32_sequential"
    )
    assert told(report) in ("order pairwise instead of sequential", "accumulation 'fp32_pairwise'")
    got = lp.matmul(x, y, "fp32_fma").copy()
    got.view(np.uint32).reshape(-1)[::7] ^= 0x40000
    assert lp.compare((x, y), got, operation="matmul", accumulation="fp32_fma").cause is None


@pytest.mark.parametrize("name", ["fp32_fma", "ampere_mma_bfloat16_binary32"])
def test_a_lane_or_an_addend_left_out_is_named(name):
    """Of steps of eight, or of a product as long as it is."""
    rng = np.random.default_rng(8)
    x, y = (np.asarray(lp.quantize(rng.standard_normal((20, 24)), "bfloat16")) for _ in range(2))
    y, c = y.T.copy(), rng.standard_normal((20, 20)).astype(np.float32)
    period = 8 if "ampere" in name else 24
    short = x.copy()
    short[:, 5::period] = 0
    options = {"operation": "matmul", "accumulation": name, "addend": c}
    report = lp.compare((x, y), lp.matmul(short, y, name, addend=c), **options)
    assert told(report) == f"lane 5 of {period} left out"
    assert report.cause.explained == report.mismatches
    report = lp.compare((x, y), lp.matmul(x, y, name), **options)
    assert told(report) == "the addend left out"


# -- situations ----------------------------------------------------------------------------------------


@pytest.mark.parametrize("fmt", catalog.FORMATS.values(), ids=str)
def test_situations_of_arrays_are_those_of_single_cases(fmt):
    """The kernels' four roundings against the oracle's position, for every format and two sources."""
    for source in (catalog.BINARY16, catalog.BINARY64):
        if source == fmt:
            continue
        (codes,) = OPERATIONS["convert"].choose((source, fmt), 60, 0)
        codes = np.random.default_rng(0).choice(codes, min(400, codes.size), replace=False)
        found = [
            names_of("convert")[number]
            for number in situations("convert", [codes], (source, fmt), Projection())
        ]
        assert found == [situation([int(code)], "convert", (source, fmt), Projection()) for code in codes]


SMALL = {
    "most negative": dict(sign="twos_complement", trailing_bits=3),
    "one bit": dict(exponent_bits=1, trailing_bits=0),
    "one bit and specials": dict(exponent_bits=1, trailing_bits=2, nans=1, infinity=True),
    "no zero": dict(exponent_bits=2, trailing_bits=1, subnormals=False),
}


@pytest.mark.parametrize("name", SMALL)
def test_situations_and_distances_follow_from_the_values_of_each_sign(name):
    """Hold both ways to say a situation, which count magnitudes, against sorted values."""
    fmt = lp.Format(**{"exponent_bits": 0} | SMALL[name])
    held = np.unique(lp.decode(np.arange(1 << fmt.width, dtype=np.uint8), fmt, dtype=np.float64))
    held = held[np.isfinite(held)]
    ends = held[[0, -1]][:, None] * (1 + np.array([1 / 64, 1 / 2, 3]))
    middle = (held[1:] + held[:-1]) / 2
    numbers = np.concatenate([held, middle, middle * (1 + 2**-20), middle * (1 - 2**-20), ends.ravel()])
    numbers = numbers[numbers != 0].astype(np.float32)
    found = situations("convert", [numbers.view(np.uint32)], (catalog.BINARY32, fmt), Projection())
    for number, kind in zip(numbers.tolist(), found, strict=True):
        name, own = names_of("convert")[kind], np.unique(np.abs(held[held * number >= 0]))
        size = abs(number)
        if size > own[-1]:
            assert "past the largest" in name or "beyond" in name, number
        elif size < own[0]:
            assert name == "below the smallest value", number
        else:
            low, high = own[own <= size][-1], own[own >= size][0]
            tail = (size - low) / (high - low) if high > low else 0
            where = ("below", "at", "above")[int(np.sign(tail - 0.5)) + 1]
            assert name == (f"{where} a tie" if tail else "exact")
    codes = lp.encode(held, fmt)
    assert (distances(codes[1:], codes[:-1], fmt) == 1).all()


def test_signs_alone_differ_of_numbers():
    """Count no NaN as a zero of the other sign, and negated numbers of two's complement."""
    report = lp.compare(np.float32([0, 1, 2]), np.uint8([0x80, 0xC0, 0x48]), "e4m3fnuz")
    assert report.tally.signs == 1
    values = np.float32([-3, 5, 7, -128])
    assert lp.compare(values, np.int8([3, -5, 7, -127]).view(np.uint8), "int8").tally.signs == 2


@pytest.mark.parametrize("operation", sorted(set(OPERATIONS) - {"convert"}))
def test_situations_of_operations_are_those_of_single_cases(operation):
    """Into formats with and without zero, NaN and exponents."""
    for fmt in (catalog.E4M3FN, catalog.BFLOAT16, catalog.E8M0FNU, catalog.INT8):
        formats = (fmt,) * (OPERATIONS[operation].operands + 1)
        formats = (fmt, catalog.INT8, fmt) if operation == "scaleb" else formats
        operands = OPERATIONS[operation].choose(formats, 100, 0)
        pick = np.random.default_rng(0).choice(operands[0].size, min(150, operands[0].size), replace=False)
        operands = [codes[pick] for codes in operands]
        numbers = situations(operation, operands, formats, Projection())
        found = [names_of(operation)[number] for number in numbers]
        single = zip(*(codes.tolist() for codes in operands), strict=True)
        assert found == [situation(list(codes), operation, formats, Projection()) for codes in single]


def test_modes_without_words_of_their_own_are_named():
    """A mode is added in the specification alone."""
    assert in_words("nearest_even") == "ties to even"
    assert in_words("nearest_odd") == "nearest odd"


@pytest.mark.parametrize("bits", [0, 2])
def test_a_lost_sticky_bit_is_named(bits):
    """Of a converter in integers that looks at the guard bit and few bits behind it, at ties and above."""
    ties = np.float32(1 + np.arange(8) / 8 + 1 / 16)
    x = (ties * np.float32([[1], [1 + 2.0**-6], [1 + 2.0**-8], [1 + 2.0**-12]])).ravel()
    x = np.concatenate([values(), x, -x])
    words = np.abs(x[np.abs(x) >= 2.0**-6]).view(np.uint32).astype(np.int64)  # normal results
    x = x[np.abs(x) >= 2.0**-6]
    kept, tail = words >> 20, (words & 0xFFFFF) >> 19 - bits
    half = 1 << bits
    made = kept + ((tail > half) | ((tail == half) & (kept & 1 == 1))) - (120 << 3)
    got = (np.minimum(made, 0x7F) | (np.signbit(x) << 7)).astype(np.uint8)
    report = lp.compare(x, got, "e4m3fn", limit=0)
    behind = "" if not bits else f" and {bits} bits behind it"
    assert told(report) == f"sticky bit lost: rounded by the guard bit{behind} alone"
    assert report.cause.explained == report.mismatches > 0


def test_a_negative_float64_next_to_a_positive_one_keeps_its_bits():
    """Together they have no integer type: 2**63 and more, and less."""
    x, got = np.float32([4, 9]), np.array([2, -(1.5 + 2**-23)])  # 0xBFC00001 and 0x40400000 in binary32
    (first,) = lp.compare(x, got, "binary32", operation="sqrt", why=False).details
    assert (first.data["got"], first.data["want"]) == ("bff8000020000000", "4008000000000000")
    assert first.distance == -0x3FC00001 - 0x40400000


def test_numbers_far_below_a_format_are_cut_without_a_warning():
    """A power of two between them and the format's last place is no float64."""
    high = lp.Format(name="high", exponent_bits=1, trailing_bits=14, bias=-1021)
    with np.errstate(all="raise"):
        assert cut_behind_guard([2.0**-300, 0.0], high, 3).tolist() == [0.0, 0.0]


@pytest.mark.parametrize("order", ["lanes(4)", "lanes(8, pairwise)", "reversed"])
@pytest.mark.parametrize("name", ["fp32_fma", "fp32_sequential"])
def test_orders_of_plain_sums_are_named_from_operands_and_outputs_alone(order, name):
    rng = np.random.default_rng(2)
    x, y = rng.standard_normal((2, 200, 64)).astype(np.float32)
    how = dataclasses.replace(lp.accumulations[name], name="", order=order)
    report = lp.compare((x, y), lp.dot(x, y, how), operation="dot", limit=0)
    assert report.ranking[0].name == name
    assert report.cause.words == f"order {order} instead of sequential"
    assert report.cause.explained == report.mismatches > 0
