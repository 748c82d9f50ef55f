"""Scales of tensors, channels and blocks, in conversions and dot products; and scales that are wrong."""

from __future__ import annotations

import dataclasses
import re
from fractions import Fraction

import ml_dtypes
import numpy as np
import pytest
from click.testing import CliRunner

import lowprec as lp
from lowprec.cli.main import main
from lowprec.spec.rounding import NEAREST_EVEN
from lowprec.verify.questions.scales import factor_between

pytestmark = pytest.mark.apart

RNG = np.random.default_rng(0)
X = RNG.standard_normal((48, 256)).astype(np.float32)
TENSOR = np.float32(np.abs(X).max() / 448)
ROWS = (np.abs(X).max(axis=1) / 448).astype(np.float32)
COLUMNS = (np.abs(X).max(axis=0) / 448).astype(np.float32)
BLOCKS = (np.abs(X.reshape(48, 2, 128)).max(axis=2) / 448).astype(np.float32)
TILES = (np.abs(X.reshape(3, 16, 2, 128)).max(axis=(1, 3)) / 448).astype(np.float32)

SCALES = {
    "tensor": (TENSOR, TENSOR),
    "number": (0.0123, 0.0123),
    "rows": (ROWS, ROWS[:, None]),
    "columns": (COLUMNS, COLUMNS),
    "blocks": (BLOCKS, np.repeat(BLOCKS, 128, axis=1)),
    "tiles": (TILES, np.repeat(np.repeat(TILES, 16, axis=0), 128, axis=1)),
}


def test_blocks_of_which_the_last_is_shorter_are_asked_for_and_named():
    x = X[:8, :200]
    scales = np.stack([np.abs(x[:, :128]).max(1), np.abs(x[:, 128:]).max(1)], 1).astype(np.float32) / 448
    codes = lp.encode(x / np.repeat(scales, 128, axis=1)[:, :200], "e4m3fn", saturation="finite")
    given = {"scale": scales, "saturation": "finite"}
    assert lp.compare(x, codes, "e4m3fn", block=128, **given).agrees
    report = lp.compare(x, codes, "e4m3fn", **given)  # of blocks of 100
    assert report.cause.words == "scales of blocks of 128"
    assert (report.cause.explained, report.cause.contradicted) == (report.mismatches, 0)
    message = r"block=64, and scale of shape \(8, 2\) has as many numbers along no axis of \(8, 200\)"
    with pytest.raises(ValueError, match=message):
        lp.compare(x, codes, "e4m3fn", block=64, **given)
    with pytest.raises(ValueError, match="block= says how many elements share one of scale="):
        lp.compare(x, codes, "e4m3fn", block=128)


def test_scales_of_another_axis_beside_right_elements_are_refused():
    x = X[:, :48]
    blocks = lp.encode(x, "mxfp4")
    other = lp.encode(x, "mxfp4", axis=0).scales
    with pytest.raises(ValueError, match=r"^the elements are right, but scales of shape \(2, 48\) are those"):
        lp.compare(x, blocks.codes, "mxfp4", scales=other)


def divided(by, fmt="e4m3fn", **options):
    """Exact quotients, rounded once: the reference's own division into the format."""
    wide = np.broadcast_to(np.asarray(by, np.float64), X.shape)
    dtype = np.uint8
    return np.asarray(lp.divide(X, wide, fmt, dtype=dtype, **options))


@pytest.mark.parametrize("kind", SCALES)
@pytest.mark.parametrize("form", ["codes", "own type", "values"])
def test_scaled_conversions_agree(kind, form):
    scale, wide = SCALES[kind]
    got = divided(wide)
    got = {"codes": got, "own type": got.view(lp.dtype("e4m3fn")), "values": lp.decode(got, "e4m3fn")}[form]
    report = lp.compare(X, got, "e4m3fn", scale=scale)
    assert report.agrees, str(report)
    assert lp.compare(X, got, "e4m3fn", scale=scale, ulps=1).exact == X.size
    assert not lp.compare(X, got, "e4m3fn", why=False).agrees


@pytest.mark.parametrize("kind", SCALES)
def test_the_inverse_of_the_scale_is_named(kind):
    scale, wide = SCALES[kind]
    report = lp.compare(
        X, lp.multiply(X, np.asarray(wide, np.float64), "e4m3fn", dtype=np.uint8), "e4m3fn", scale=scale
    )
    assert report.cause.words == "the inverse of the scale: values times the scale, not divided by it"
    assert report.cause.explained == report.mismatches


def test_a_missing_scale_is_named_on_both_sides():
    assert lp.compare(X, lp.encode(X, "e4m3fn"), "e4m3fn", scale=TENSOR).cause.words == "the scale left out"
    report = lp.compare(X, divided(TENSOR), "e4m3fn")
    assert report.cause.words.startswith("every operand times ")
    assert report.cause.explained == report.mismatches
    report = lp.compare(X, divided(0.25), "e4m3fn")
    assert report.cause.words == "a bias or scale off by -2: operands times 2**2"


@pytest.mark.parametrize("scale", [1e-308, 1e300])
def test_quotients_beyond_binary64_are_compared_without_a_warning(scale):
    assert lp.compare(X * np.float32(1e30), divided(TENSOR), "e4m3fn", scale=scale).mismatches


@pytest.mark.parametrize("factor", [1.7, 0.003, 3 * 2.0**-20, 2.0**-6])
def test_scales_that_are_off_by_one_factor_are_named_with_it(factor):
    report = lp.compare(X, divided(BLOCKS.repeat(128, axis=1) / factor, "e5m2"), "e5m2", scale=BLOCKS)
    assert report.cause.words.startswith("scales off by one factor: results are times ")
    assert float(
        report.cause.words.split("times ")[1].split()[0].replace("2^-6", "0.015625")
    ) == pytest.approx(factor, rel=0.003)
    assert report.cause.explained == report.mismatches


def test_ways_to_divide_are_named():
    """Most quotients are the same; where they are not, the way of dividing tells."""
    big = np.random.default_rng(4).standard_normal(400_000).astype(np.float32)
    single = lp.encode(big / np.float32(0.0137), "e4m3fn")
    report = lp.compare(big, single, "e4m3fn", scale=np.float32(0.0137))
    assert not report.mismatches or "binary32" in report.cause.words
    coarse = (np.float32(1) / np.float32(0.0137)) * np.round(big, 2)
    report = lp.compare(np.round(big, 2), lp.encode(coarse, "e4m3fn"), "e4m3fn", scale=np.float32(0.0137))
    assert report.mismatches == 0 or report.cause is not None


def test_scales_rounded_to_powers_of_two_are_named():
    up = np.exp2(np.ceil(np.log2(ROWS)))
    report = lp.compare(X, divided(up[:, None]), "e4m3fn", scale=ROWS)
    assert report.cause.words == "the scale rounded up to a power of two"
    assert report.cause.explained == report.mismatches


def test_scales_of_the_other_axis_are_named():
    square = X[:, :48]
    scale = ROWS
    got = lp.divide(square, scale[None, :].astype(np.float64), "e4m3fn", dtype=np.uint8)
    report = lp.compare(square, got, "e4m3fn", scale=scale, axis=0)
    assert report.cause.words == "scales along axis 1"


def test_a_fault_beside_a_scale_is_named():
    report = lp.compare(X, divided(TENSOR, rounding="toward_zero"), "e4m3fn", scale=TENSOR)
    assert report.cause.words.startswith("truncation: rounded toward zero")


def test_formats_are_ranked_with_a_scale():
    report = lp.compare(X, divided(BLOCKS.repeat(128, axis=1), "e5m2"), scale=BLOCKS)
    assert report.ranking[0].name == "e5m2"
    assert report.agrees


def test_the_factor_that_results_have_in_common_is_the_simplest():
    values = np.linspace(0.5, 3, 400)
    for factor in (0.1, 12.0, 3.25, 2.0**-20):
        codes = np.asarray(lp.encode(values * factor, "binary16"))
        assert factor_between(values, codes, lp.format("binary16"), NEAREST_EVEN) == factor
    codes = np.asarray(lp.encode(values, "binary16"))
    assert factor_between(values, codes, lp.format("binary16"), NEAREST_EVEN) is None
    mixed = np.asarray(lp.encode(values * np.where(np.arange(400) % 2, 2.5, 0.3), "binary16"))
    assert factor_between(values, mixed, lp.format("binary16"), NEAREST_EVEN) is None


# -- dot products ----------------------------------------------------------------------------------------

# Some values of e4m3fn.
A = X.astype(ml_dtypes.float8_e4m3fn).astype(np.float32)
B = RNG.standard_normal((256, 32)).astype(ml_dtypes.float8_e4m3fn).astype(np.float32)
OF_COLUMNS = (RNG.random(32) + 0.5).astype(np.float32)


def product(factor, how="fp32_fma"):
    """Sums times exact factors, rounded once more."""
    return np.asarray(lp.multiply(lp.matmul(A, B, how), np.asarray(factor, np.float64), "binary32"))


PAIRS = {
    "tensors": ((0.25, TENSOR), 0.25 * float(TENSOR)),
    "one": ((None, 0.3), 0.3),
    "channels": ((ROWS, OF_COLUMNS), ROWS[:, None].astype(np.float64) * OF_COLUMNS),
    "rows in two axes": ((ROWS[:, None], None), ROWS[:, None].astype(np.float64)),
    "results": (0.75, 0.75),
    "results, each": (np.float32(RNG.random((48, 32)) + 1), None),
}


@pytest.mark.parametrize("how", ["fp32_fma", "hopper_wgmma_e4m3fn_binary32", "deepseek_promote(128)"])
@pytest.mark.parametrize("kind", PAIRS)
def test_scaled_products_agree(kind, how):
    scale, factor = PAIRS[kind]
    got = product(scale if factor is None else factor, how)
    report = lp.compare((A, B), got, operation="matmul", accumulation=how, scale=scale, ulps="auto")
    assert report.exact == report.compared, str(report)
    assert not lp.compare((A, B), got, operation="matmul", accumulation=how, why=False).agrees


def test_scaled_dots_agree():
    y = np.asarray(lp.quantize(RNG.standard_normal((48, 256)).astype(np.float32), "e4m3fn"))
    sums = np.asarray(lp.dot(A, y, "fp32_fma"))
    got = lp.multiply(sums, ROWS.astype(np.float64) * 0.5, "binary32")
    report = lp.compare((A, y), got, operation="dot", accumulation="fp32_fma", scale=(ROWS, 0.5))
    assert report.agrees, str(report)


@pytest.mark.parametrize("kind", ["loop", "window"])
def test_scaled_sums_are_rounded_to_the_output_once(kind):
    """The sum is in binary32 when it meets its scale, and then in bfloat16."""
    single, brain = (lp.format(name) for name in ("binary32", "bfloat16"))
    fields = {"accumulator": (single, lp.Projection())}
    if kind == "window":
        e4m3 = lp.format("e4m3fn")
        window = lp.Window(step=8, fraction_bits=24, result=(single, lp.Projection()))
        fields = {"operands": (e4m3, e4m3), "accumulator": window}
    how = lp.Accumulation(output=(brain, lp.Projection()), **fields)
    sums = lp.matmul(A, B, lp.Accumulation(output=(single, lp.Projection()), **fields))
    got = lp.multiply(sums, np.float64(0.7), "bfloat16")
    twice = lp.multiply(lp.matmul(A, B, how), np.float64(0.7), "bfloat16")
    assert (np.asarray(got) != np.asarray(twice)).any()
    assert lp.compare((A, B), got, operation="matmul", accumulation=how, scale=0.7).agrees


def test_blocks_along_k_are_terms():
    """As `lowprec.matmul` has it for arrays in blocks: DeepSeek's 1 x 128 and 128 x 128."""
    x, w = (
        lp.encode(X, "fp8_block_1x128"),
        lp.encode(RNG.standard_normal((256, 256)), "fp8_block_128x128", axis=(0, 1)),
    )
    right = lp.matmul(x, w, "fp32_fma")
    scales = tuple(lp.decode(each.scales, "binary32") for each in (x, w))
    codes = tuple(lp.decode(each.codes, "e4m3fn") for each in (x, w))
    options = {"operation": "matmul", "accumulation": "fp32_fma", "scale": scales, "block": 128}
    assert lp.compare(codes, right, **options).agrees
    typed = tuple(each.codes for each in (x, w))
    assert lp.compare(typed, right, source="e4m3fn", **options).agrees
    wrong = lp.compare(codes, lp.matmul(*codes, "fp32_fma"), **options)
    assert wrong.mismatches == wrong.compared
    assert lp.compare(codes, right, ulps="auto", **options).agrees


def test_hardware_takes_the_scales_of_blocks():
    name = "blackwell_tcgen05_e4m3fn_binary32_e8m0fnu_1"
    x, y = lp.encode(X, "mxfp8_e4m3"), lp.encode(RNG.standard_normal((256, 8)), "mxfp8_e4m3", axis=0)
    right = lp.matmul(x, y, name)
    scales = tuple(lp.decode(each.scales, "e8m0fnu") for each in (x, y))
    codes = tuple(lp.decode(each.codes, "e4m3fn") for each in (x, y))
    report = lp.compare(codes, right, operation="matmul", accumulation=name, scale=scales)
    assert report.agrees, str(report)


@pytest.mark.parametrize(
    ("got", "words"),
    [
        (
            lambda: product(1 / (0.3 * 0.7)),
            "the inverse of the scales: sums divided by them",
        ),
        (lambda: lp.matmul(A, B, "fp32_fma"), "the scales left out"),
        (lambda: product(0.3), "the scale of x alone"),
        (lambda: product(0.7), "the scale of y alone"),
        (lambda: product(0.3 * 0.7 * 1.25), "scales off by one factor: results are times 1.25"),
        (lambda: product(np.float32(0.3 * 0.7)), "the product of the scales rounded to binary32 first"),
    ],
    ids=["inverse", "none", "x", "y", "factor", "rounded"],
)
def test_wrong_scales_of_products_are_named(got, words):
    report = lp.compare((A, B), got(), operation="matmul", accumulation="fp32_fma", scale=(0.3, 0.7))
    assert report.cause.words.startswith(words)
    assert report.cause.explained == report.mismatches


def test_a_factor_of_unscaled_products_is_named():
    report = lp.compare((A, B), product(0.37), operation="matmul", accumulation="fp32_fma")
    assert report.cause.words == "every sum times 0.37 (a scale of 2.7027), as if by a scale"
    assert report.cause.explained == report.mismatches


def test_another_order_of_scaled_products_is_within_the_budget():
    order = np.random.default_rng(1).permutation(256)
    x, y = (np.asarray(lp.quantize(side, "bfloat16")) for side in (X, RNG.standard_normal((256, 8))))
    sums = lp.matmul(x[:, order], y[order], "fp32_fma")
    got = lp.multiply(sums, 0.3, "binary32")
    report = lp.compare(
        (x, y), got, operation="matmul", accumulation="fp32_fma", scale=(0.3, 1.0), ulps="auto"
    )
    assert report.agrees
    assert report.spent.within > 100


REFUSED = {
    "zero": ({"scale": 0.0}, "scale holds 0.0; a scale is a positive, finite number"),
    "nan in a row": ({"scale": np.float32([1] * 47 + [np.nan])}, "scale holds nan at index (47,); a scale"),
    "codes": ({"scale": np.ones(48, np.uint8)}, "scale holds uint8; scales are given as values"),
    "bytes": ({"scale": np.zeros(48, "V2")}, "scale holds |V2; scales are given as values"),
    "shape": ({"scale": np.ones(7)}, "scale of shape (7,) does not fit (48, 256): give one number"),
    "axis": ({"scale": np.ones(48), "axis": 1}, "scale of shape (48,) does not fit (48, 256) along axis 1"),
    "pair": ({"scale": (1.0, 2.0)}, "scale= is one number or array for a conversion"),
    "two axes": ({"scale": 2.0, "axis": (0, 1)}, "axis=(0, 1) of scale= must be one axis"),
    "blocks": ({"scale": 2.0, "to": "mxfp4"}, "scale= is for single values, and 'mxfp4' has blocks"),
}


@pytest.mark.parametrize(("options", "message"), REFUSED.values(), ids=REFUSED)
def test_scales_that_do_not_fit_are_refused(options, message):
    options = {"to": "e4m3fn"} | options
    with pytest.raises((ValueError, TypeError)) as refused:
        lp.compare(X, np.zeros(X.shape, np.uint8), **options)
    assert str(refused.value).startswith(message)


def test_scales_of_a_square_need_an_axis():
    square = X[:, :48]
    with pytest.raises(ValueError, match="axes 0 and 1") as refused:
        lp.compare(square, np.zeros(square.shape, np.uint8), "e4m3fn", scale=ROWS)
    assert str(refused.value).endswith("have as many elements: say which it belongs to, axis=")


def test_the_command_takes_numbers_and_files(tmp_path):
    def run(*words):
        return CliRunner().invoke(main, [str(word) for word in words])

    arrays = {"x": X, "codes": divided(BLOCKS.repeat(128, axis=1)), "scale": BLOCKS, "b": B, "a": A}
    arrays |= {"c": product(0.25 * ROWS[:, None].astype(np.float64)), "rows": ROWS}
    for name, array in arrays.items():
        np.save(tmp_path / f"{name}.npy", array)
    words = ("compare", tmp_path / "x.npy", tmp_path / "codes.npy", "--to", "e4m3fn", "--scale")
    assert run(*words, tmp_path / "scale.npy").exit_code == 0
    wrong = run(*words, "0.01")
    assert wrong.exit_code == 1
    words = ("compare", tmp_path / "a.npy", tmp_path / "b.npy", tmp_path / "c.npy", "--operation", "matmul")
    words = (*words, "--accumulation", "fp32_fma", "--scale")
    assert run(*words, f"{tmp_path / 'rows.npy'},0.25").exit_code == 0
    assert run(*words, "1,2,3").exit_code == 2


def test_the_command_takes_what_joins_the_sums(tmp_path):
    """A bias from a file, an output scale, and blocks of a size that shapes do not tell."""
    u, v, rows = U[:, :300], V[:300], np.linspace(0.5, 2, 72, dtype=np.float32).reshape(24, 3)
    got = lp.matmul(
        u, v, "fp32_fma", scales=(rows, None), epilogue=lp.Epilogue(block=128), bias=BIAS, output_scale=2.0
    )
    for name, array in {"u": u, "v": v, "got": got, "rows": rows, "bias": BIAS}.items():
        np.save(tmp_path / f"{name}.npy", array)
    words = ["compare", *(tmp_path / f"{name}.npy" for name in ("u", "v", "got")), "--operation", "matmul"]
    words += ["--accumulation", "fp32_fma", "--scale", f"{tmp_path / 'rows.npy'},1", "--bias"]
    words += [tmp_path / "bias.npy", "--output-scale"]

    def run(*more):
        return CliRunner().invoke(main, [str(word) for word in (*words, *more)])

    assert run("2", "--block", "128").exit_code == 0
    assert run("0.5", "--block", "128").exit_code == 1
    assert "the inverse of the output scale" in run("0.5", "--block", "128").stdout
    assert run("2", "--block", "100").exit_code == 1
    unsaid = run("2")
    assert unsaid.exit_code == 2
    assert "3 numbers along K of 300: say how many elements share one, such as block=128" in unsaid.stderr
    assert run("2", "--block", "0").exit_code == 2
    assert CliRunner().invoke(main, ["compare", "-", "dot", "fp32_fma", "--bias", "b.npy"]).exit_code == 2


# -- library calls ------------------------------------------------------------------------------------

U = (RNG.standard_normal((24, 512)) * 4).astype(ml_dtypes.float8_e4m3fn).astype(np.float32)
V = (RNG.standard_normal((512, 20)) * 4).astype(ml_dtypes.float8_e4m3fn).astype(np.float32)
PAIR = np.float32(0.013), np.float32(0.77)


TILES_IN_TURN = "K split in 3: tiles of 64 products in turn, their sums added one after the other"
PROMOTED = "sums of 128 products added up in binary32"


@pytest.mark.parametrize(
    ("spelled", "words"),
    [
        ("split=3:halves", TILES_IN_TURN),
        ("split=2", "K split in 2: tiles of 64 products in turn"),
        ("fast=false, split=3", f"{TILES_IN_TURN}; in each, {PROMOTED}"),
        ("fast=false", PROMOTED),
    ],
)
def test_how_a_library_splits_k_is_recovered(spelled, words):
    """It was blamed on products in reverse order. Sums in halves are among the same ones."""
    asked = "ada_cublaslt_fp8(output=binary32)"
    got = lp.matmul(U, V, f"ada_cublaslt_fp8(output=binary32, {spelled})", scales=PAIR)
    cause = lp.compare((U, V), got, operation="matmul", accumulation=asked, scale=PAIR).cause
    assert (cause.words, cause.contradicted) == (words, 0)
    if "halves" in spelled:
        assert words.replace("one after the other", "in halves") in cause.same


def test_other_splits_are_told_apart():
    """Sums in binary32 show in which order they are added, and consecutive products are no tiles."""
    how, x, y = lp.accumulations["fp32_fma"], X[:, :252], X[:20, :252].T
    for split, words in (
        (lp.Split(4, combine="pairwise"), "63 consecutive products each, their sums added in pairs"),
        (lp.Split(3, tile=32), "up to 3 consecutive tiles of 32, their sums added one after the other"),
        (
            lp.Split(5, tile=32, deal="balanced", combine="halves"),
            "up to 2 consecutive tiles of 32, in equal shares, their sums added in halves",
        ),
    ):
        got = lp.matmul(x, y, dataclasses.replace(how, split=split))
        cause = lp.compare((x, y), got, operation="matmul", accumulation="fp32_fma").cause
        assert cause.words == f"K split in {split.count}: {words}"


def test_epilogues_are_hypotheses():
    """Of results in bfloat16, whose sums were scaled in binary32."""
    how = dataclasses.replace(lp.accumulations["fp32_fma"], output="bfloat16")
    pair = RNG.random((24, 1), np.float32), RNG.random((1, 20), np.float32)
    for order in ("x_first", "y_first"):
        got = lp.matmul(U, V, how, scales=pair, epilogue=lp.Epilogue(scales=order, output="binary32"))
        single = dataclasses.replace(how, output="binary32")
        cause = lp.compare((U, V), got, operation="matmul", accumulation=single, scale=pair).cause
        assert cause.words.startswith(f"sums times the scale of {order[0]}, and then times that of ")


def test_library_calls_have_no_bound_of_any_order():
    with pytest.raises(ValueError, match="ulps='auto' knows no bound for the library call ada_cublaslt_fp8"):
        lp.compare((U, V), U @ V, operation="matmul", accumulation="ada_cublaslt_fp8", ulps="auto")
    how = dataclasses.replace(lp.accumulations["fp32_fma"], split=lp.Split(2))
    with pytest.raises(ValueError, match="it splits K; name the accumulation of a split, whose bound is"):
        lp.compare((U, V), U @ V, operation="matmul", accumulation=how, ulps="auto")


def test_a_machine_s_call_has_any_output():
    """Its accumulation has binary32 results alone, and the epilogue rounds them."""
    how = lp.accumulations["cdna3_mfma_bfloat16_binary32"]
    call = lp.LibraryCall(accumulation=how, epilogue=lp.Epilogue(output="bfloat16"))
    got = lp.matmul(U, V, call, scales=PAIR)
    assert lp.compare((U, V), got, operation="matmul", accumulation=call, scale=PAIR).agrees
    other = lp.matmul(U, V, dataclasses.replace(call, epilogue=lp.Epilogue(output="binary16")), scales=PAIR)
    assert not lp.compare((U, V), other, operation="matmul", accumulation=call, scale=PAIR).agrees


def test_scales_of_a_call_are_those_of_its_operands():
    """One number for each result was taken for blocks along K."""
    call = "ada_cublaslt_fp8(output=binary32)"
    got = lp.matmul(U, V, call, scales=(0.5, None))
    assert lp.compare((U, V), got, operation="matmul", accumulation=call, scale=0.5).agrees
    with pytest.raises(
        ValueError, match="scales x and y, and scale has a number for each result: give a pair"
    ):
        lp.compare((U, V), got, operation="matmul", accumulation=call, scale=np.full(got.shape, 0.5))


def test_scales_of_blocks_of_a_call_are_compared():
    call = lp.library_calls["hopper_cublaslt_fp8"](output="binary32")
    blocked = dataclasses.replace(call, epilogue=dataclasses.replace(call.epilogue, block=128))
    pair = RNG.random((24, 4), np.float32), RNG.random((4, 1), np.float32)
    got = lp.matmul(U, V, blocked, scales=pair)
    options = {"operation": "matmul", "scale": pair}
    assert lp.compare((U, V), got, accumulation=call, block=128, **options).agrees
    assert lp.compare((U, V), got, accumulation=blocked, **options).agrees
    assert not lp.compare((U, V), got * 2, accumulation=blocked, **options).agrees


# -- a bias, an output scale, and blocks --------------------------------------------------------------------

BIAS = RNG.standard_normal(20).astype(np.float32)
JOINED = {"bias": BIAS, "output_scale": np.float32(0.625)}


@pytest.mark.parametrize("accumulation", ["ada_cublaslt_fp8(output=e4m3fn)", "fp32_fma"])
def test_a_bias_and_an_output_scale_are_compared(accumulation):
    """As `lowprec.matmul` takes them, of a library call and of an accumulation."""
    got = lp.matmul(U, V, accumulation, scales=PAIR, **JOINED)
    options = {"operation": "matmul", "accumulation": accumulation, "scale": PAIR}
    report = lp.compare((U, V), got, **options, **JOINED)
    assert report.agrees
    assert "scaled, with a bias, with an output scale" in report.question
    assert not lp.compare((U, V), got, **options).agrees


LEFT_OUT = {
    "the bias left out": {"output_scale": JOINED["output_scale"]},
    "the output scale left out": {"bias": BIAS},
    "the inverse of the output scale": {"bias": BIAS, "output_scale": np.float32(1.6)},
    "the scales left out": {**JOINED, "scales": None},
    "the scale of x alone": {**JOINED, "scales": (PAIR[0], None)},
    "the scale of y alone": {**JOINED, "scales": (None, PAIR[1])},
    "the inverse of the scales: sums divided by them, not multiplied": {
        **JOINED, "scales": tuple(np.reciprocal(each) for each in PAIR)
    },
    "the bias joins before the sums are rounded": {**JOINED, "epilogue": lp.Epilogue(fused_bias=True)},
}  # fmt: skip


@pytest.mark.parametrize(("words", "given"), LEFT_OUT.items(), ids=LEFT_OUT)
def test_what_was_joined_otherwise_is_named(words, given):
    got = lp.matmul(U, V, "fp32_fma", **{"scales": PAIR, **given})
    options = {"operation": "matmul", "accumulation": "fp32_fma", "scale": PAIR}
    report = lp.compare((U, V), got, **options, **JOINED)
    assert report.cause.words == words
    assert report.cause.explained == report.mismatches > 0


def test_a_bias_joins_vectors_too():
    """One for each dot product."""
    bias = RNG.standard_normal(24).astype(np.float32)
    got = lp.dot(U, U[::-1], "fp32_fma", bias=bias)
    options = {"operation": "dot", "accumulation": "fp32_fma"}
    assert lp.compare((U, U[::-1]), got, bias=bias, **options).agrees
    assert lp.compare((U, U[::-1]), got, bias=bias + 1, **options).mismatches > 20


def test_windows_take_scales_of_blocks_as_products_do():
    """Each block's sum times its scales joins that before it: 1 x 128 and 128 x 128, on Hopper."""
    how, scales = (
        "hopper_wgmma_e4m3fn_binary32",
        (RNG.random((24, 4), np.float32), RNG.random((4, 1), np.float32)),
    )
    got = lp.matmul(U, V, how, scales=scales, epilogue=lp.Epilogue(block=128))
    options = {"operation": "matmul", "accumulation": how}
    assert lp.compare((U, V), got, scale=scales, block=128, **options).agrees
    assert not lp.compare((U, V), got * 2, scale=scales, block=128, **options).agrees


def test_the_size_of_blocks_is_not_guessed():
    """Three scales for 300 products may be for 100 each, or for 128; two for 40 for 20 each, or for 32."""
    u, v = U[:, :300], V[:300]
    scales = RNG.random((24, 3), np.float32), None
    options = {"operation": "matmul", "accumulation": "hopper_wgmma_e4m3fn_binary32"}
    for block in (128, 100):
        got = lp.matmul(u, v, options["accumulation"], scales=scales, epilogue=lp.Epilogue(block=block))
        assert lp.compare((u, v), got, scale=scales, block=block, **options).agrees
    call = lp.LibraryCall(accumulation=lp.accumulations["fp32_fma"], epilogue=lp.Epilogue(block=128))
    got = lp.matmul(u, v, call, scales=scales)
    assert lp.compare((u, v), got, scale=scales, operation="matmul", accumulation=call).agrees
    long = U[:, :301], V[:301]
    wrong = {
        "scale of x has 3 numbers along K of 300: say how many elements share one, such as block=128": (
            (u, v),
            {},
        ),
        "scale of x has 3 numbers along K of 301: say how many elements share one, such as block=128": (
            long,
            {},
        ),
        "scale of x has 3 numbers along K of 90: say how many elements share one, such as block=32": (
            (U[:, :90], V[:90]),
            {},
        ),
        "scale of x has 3 numbers along K of 60: say how many elements share one, such as block=20": (
            (U[:, :60], V[:60]),
            {},
        ),
        "scale of x of shape (24, 3) does not fit (24, 2)": ((U[:, :2], V[:2]), {}),
        "has 3 numbers along an axis of 300, and blocks of 64 make 5": ((u, v), {"block": 64}),
        "block= is a number of elements, 1 or more, not 0": ((u, v), {"block": 0}),
        "block=32 says how many elements share a scale, and there is no scale=: leave it out": (
            (u, v),
            {"block": 32, "scale": None},
        ),
        "the scales, of shape (24, 1), are in no blocks of 32: leave it out": (
            (u, v),
            {"block": 32, "scale": (np.ones((24, 1), np.float32), None)},
        ),
        "the scales, of shape (), are in no blocks of 32: leave it out": (
            (u, v),
            {"block": 32, "scale": 2.0},
        ),
    }
    for message, (pair, more) in wrong.items():
        with pytest.raises(ValueError, match=re.escape(message)):
            lp.compare(pair, got, **{"scale": scales, **more}, **options)


def test_tiles_of_rows_say_their_size_too():
    """Two scales for 24 rows, and none along K: of 12 rows each, or of 16."""
    scales = np.ones((2, 1), np.float32), None
    options = {"operation": "matmul", "accumulation": "fp32_fma"}
    got = lp.matmul(U, V, "fp32_fma")
    with pytest.raises(
        ValueError,
        match=re.escape("numbers along axis 0 of 24: say how many elements share one, such as block=16"),
    ):
        lp.compare((U, V), got, scale=scales, **options)
    for block in (12, 16):
        assert lp.compare((U, V), got, scale=scales, block=block, **options).agrees


def test_messages_name_blocks_by_what_they_are():
    """Not by a name that nobody gave them."""
    scales = np.ones((48, 16), np.float32), np.ones((16, 8), np.float32)
    x, y = (np.asarray(lp.quantize(side, "e4m3fn", saturation="finite")) for side in (X, X.T[:, :8]))
    with pytest.raises(ValueError, match="blocks of 32 make 8"):
        lp.compare(
            (x, y), x @ y, operation="matmul", accumulation="blackwell_tcgen05_e4m3fn_binary32_e8m0fnu_1",
            scale=scales,
        )  # fmt: skip
    few = np.ones((48, 8), np.float32), None
    with pytest.raises(ValueError, match="takes operands in blocks, but y is float32"):
        lp.compare(
            (x, y), x @ y, operation="matmul", accumulation="blackwell_tcgen05_e4m3fn_binary32_e8m0fnu_1",
            scale=few,
        )  # fmt: skip


@pytest.mark.parametrize("product", [None, "binary32"])
def test_any_order_of_blocks_is_within_the_bound(product):
    """Scales that are powers of two; others have too many bits for the bound, and are refused."""
    single = {"accumulator": "binary32", "output": "binary32"}
    how = lp.Accumulation(product=product, **single)
    u, v = (np.asarray(lp.quantize(RNG.standard_normal(shape), "e4m3fn")) for shape in ((24, 256), (256, 20)))
    scales = np.exp2(RNG.integers(-9, 9, (24, 8))).astype(np.float32), np.exp2(RNG.integers(-9, 9, (8, 20)))
    element = {
        "source": "e4m3fn",
        "operation": "matmul",
        "accumulation": how,
        "ulps": "auto",
        "scale": scales,
        "block": 32,
    }
    codes = tuple(lp.encode(side, "e4m3fn") for side in (u, v))
    form = lp.BlockFormat(name="mine", element="e4m3fn", scale="binary32", size=32)
    order = np.random.default_rng(4).permutation(8)
    places = (order[:, None] * 32 + np.arange(32)).reshape(-1)
    x = lp.BlockArray(codes[0][:, places], lp.encode(scales[0][:, order], "binary32"), form, (1,))
    y = lp.BlockArray(codes[1][places], lp.encode(scales[1][order], "binary32"), form, (0,))
    got = lp.matmul(x, y, how)
    report = lp.compare(codes, got, **element)
    assert report.agrees
    assert report.spent.within > 10
    assert not lp.compare(codes, got * np.float32(1.001), **element).agrees
    odd = scales[0] * np.float32(1.1)
    with pytest.raises(ValueError, match="ulps='auto' takes factors of at most 26 bits of precision"):
        lp.compare(codes, got, **{**element, "scale": (odd, None)})


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"operation": "add", "to": "binary32", "bias": 1.0}, "bias= is for dot and matmul, not for 'add'"),
        ({"operation": "add", "to": "binary32", "block": 8}, "block= says how many elements share one"),
        ({"operation": "matmul", "accumulation": "fp32_fma", "bias": 1.0, "ulps": "auto"},
         "ulps='auto' knows no bound for an epilogue: it scales in steps; give a number of codes"),
        ({"operation": "matmul", "accumulation": "fp32_fma", "bias": np.ones(7)},
         r"bias of shape \(7,\) does not broadcast to the results' \(24, 20\)"),
        ({"operation": "matmul", "accumulation": "fp32_fma", "output_scale": np.ones(1, np.int8)},
         "output_scale holds int8; an output scale is given as values, float16 to float64"),
        ({"operation": "matmul", "accumulation": "fp32_fma", "bias": 1.0, "scale": np.ones((24, 20))},
         "an epilogue scales x and y, and scale has a number for each result: give a pair"),
    ],
)  # fmt: skip
def test_what_joins_is_refused_where_it_does_not_belong(given, message):
    pair = (U, V) if given["operation"] == "matmul" else (U, U)
    with pytest.raises(ValueError, match=message):
        lp.compare(pair, U @ V if given["operation"] == "matmul" else U, **given)


@pytest.mark.parametrize("axis", [2, 3, 5, -3])
def test_axes_that_an_operand_lacks_are_refused(axis):
    """And not counted round: axis 3 of two is no axis 1."""
    values, scale = np.float32([[2, 4, 6], [8, 10, 12]]), np.float32([1, 2, 3])
    codes = lp.encode(values / scale, "int8")
    assert lp.compare(values, codes, "int8", scale=scale, axis=-1).agrees
    with pytest.raises(ValueError, match=rf"^scale of shape \(3,\) does not fit \(2, 3\) along axis {axis}"):
        lp.compare(values, codes, "int8", scale=scale, axis=axis)


def test_integers_that_are_no_float64_are_refused_as_scales():
    """Rounded unsaid, they would make right results wrong."""
    number = 2**62 + 2**38 + 1
    right = lp.dot([[1.0]], [[1.0]], "exact", scales=(np.int64(number), None))
    options = {"operation": "dot", "accumulation": "exact"}
    with pytest.raises(ValueError, match=f"^scale of x={number} is no float64 number: give one that is$"):
        lp.compare(([[1.0]], [[1.0]]), right, scale=(number, None), **options)
    assert lp.compare(([[1.0]], [[1.0]]), np.float32([2**62]), scale=(2**62, None), **options).agrees
    with pytest.raises(ValueError, match=r"^scale of x=1000.* is no float64 number: give one that is$"):
        lp.compare(([[1.0]], [[1.0]]), right, scale=(10**400, None), **options)


@pytest.mark.parametrize("operation", ["dot", "matmul"])
@pytest.mark.parametrize("kind", ["blocks", "rows"])
def test_exact_results_are_told_with_their_scales(operation, kind):
    x, y = (lp.decode(lp.encode(part, "e4m3fn"), "e4m3fn") for part in (X[:2, :64], X[2:4, :64]))
    if kind == "blocks":
        scales = np.float32([[2, 0.5], [4, 8]]), np.float32([[0.25, 2], [1, 16]])
        wide = [np.repeat(part, 32, 1) for part in scales]
    else:
        scales = np.float32([3, 5]), np.float32([0.5, 7])
        wide = [part[:, None] for part in scales]
    left, right = (
        np.asarray(part * scale, np.float64) for part, scale in zip((x, y), wide, strict=True)
    )  # exact
    given = (x, y) if operation == "dot" else (x, y.T)
    if operation == "matmul":
        scales = scales[0], scales[1].T
    options = {"operation": operation, "accumulation": "fp32_fma", "scale": scales, "why": False}
    options |= {"block": 32} if kind == "blocks" else {}
    wrong = np.zeros(2 if operation == "dot" else (2, 2), np.float32)
    report = lp.compare(given, wrong, **options)
    pairs = [(0, 0), (1, 1)] if operation == "dot" else [(0, 0), (0, 1), (1, 0), (1, 1)]
    exact = [sum(Fraction(a) * Fraction(b) for a, b in zip(left[i], right[j], strict=True)) for i, j in pairs]
    assert [float.fromhex(text.split("= ")[1]) for text in re.findall("exact (.*)", str(report))] == exact


@pytest.mark.parametrize("name", ["bfloat16", "binary16"])
def test_scales_that_are_rounded_before_the_division_are_named(name):
    """As where a framework keeps scales in the type of its weights."""
    values = (np.random.default_rng(5).standard_normal((64, 256)) * 0.02).astype(np.float32)
    scales = np.abs(values).max(axis=1) / np.float32(448)
    narrow = np.asarray(lp.quantize(scales, name), np.float32)
    codes = lp.encode(values / narrow[:, None], "e4m3fn", saturation="finite")
    report = lp.compare(values, codes, "e4m3fn", saturation="finite", scale=scales, axis=0)
    assert report.mismatches
    assert report.cause.words == f"the scale rounded to {name}"
    assert report.cause.net == report.mismatches
