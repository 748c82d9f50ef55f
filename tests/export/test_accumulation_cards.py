"""Accumulations in words: every parameter is said, and what is measured is what is tested against."""

import dataclasses
import json

import numpy as np
import pytest
from click.testing import CliRunner

import lowprec as lp
from lowprec.cli.main import main
from lowprec.export.accumulation_cards import (
    accumulation_tables,
    best_evidence,
    describe_accumulation,
    words as told,
)
from lowprec.spec import catalog
from lowprec.spec.accumulation import Accumulation, Window
from lowprec.spec.accumulations import ACCUMULATIONS, accumulation
from lowprec.spec.order import Split, chunked
from lowprec.spec.projection import Projection
from tests.agreement.test_published_dots import SETS, measured

SINGLE, DRAWN = (catalog.BINARY32, Projection()), (catalog.BFLOAT16, Projection(rounding="stochastic(8)"))


def test_the_best_evidence_is_what_was_measured():
    """Those whose published results are tested, and no model of them."""
    assert {best_evidence(accumulation(measured(name).name)) for name in SETS} == {"measured"}
    names = (
        "rtx_blackwell_mma_e2m1fn_binary32_ue4m3_4",
        "turing_mma_binary16_binary32",
        "arm_fdot_e5m2_binary32",
    )
    assert [best_evidence(accumulation(name)) for name in names] == ["measured", "model", "documents"]
    assert best_evidence(accumulation("exact")) == "-"


@pytest.mark.parametrize(
    ("name", "sentences"),
    [
        (
            "fp32_pairwise",
            [
                "x and y have any values.",
                "Products are rounded to binary32, nearest_even.",
                "Neighbours are added, then neighbours of their sums, and so on, each sum in binary32, "
                "nearest_even.",
                "The addend is the first term, if there is one.",
                "The result is binary32, nearest_even.",
            ],
        ),
        (
            "hopper_mma_e5m2_e4m3fn_binary16",
            [
                "x is e5m2 and y is e4m3fn; other values are refused.",
                "Of each 32 products, those whose index has bit 1 clear make a step with the running sum, "
                "and then the others.",
                "All are cut toward zero 25 bits behind the point of the largest exponent, which is at least "
                "-21.",
                "Their sum is exact, and then rounded to binary16, nearest_even, NaN 0x7fff.",
                "Sums of 2^16 and more count as infinite in every mode.",
                "Each 32 products are so summed from zero; these sums are added in binary16, nearest_even, "
                "NaN 0x7fff.",
                "The sum of those sums begins as the addend, or as +0.",
                "The result is binary16, nearest_even, NaN 0x7fff.",
            ],
        ),
        (
            "blackwell_tcgen05_e2m1fn_binary32_ue4m3_4",
            [
                "x and y are e2m1fn, in blocks of 16 with a scale in ue4m3; other values are refused.",
                "Each 64 products make a step with the running sum.",
                "Each 16 products are summed exactly and multiplied by both scales, whose exponents count as "
                "that of the sum.",
                "All are cut toward zero 35 bits behind the point of the largest exponent, which is at least "
                "-139.",
            ],
        ),
        (
            "cdna1_mfma_bfloat16_binary32",
            [
                "Each 2 products make a step with the running sum.",
                "Their sum is exact, and then rounded to binary32, nearest_even, NaN 0x7fffffff.",
                "Sums of 2^128 and more count as infinite in every mode.",
                "A negative sum that rounds to zero is -0.",
            ],
        ),
        ("ampere_mma_tf32_binary32", ["x and y are tf32; other values are rounded to it, toward_zero."]),
        ("blackwell_tcgen05_e5m2_binary32_e8m0fnu_1", ["The exponents of both scales join each product's."]),
        ("exact", ["Products are exact, and so is their sum.", "The addend is one more term."]),
        ("cdna2_mfma_bfloat16_binary32", ["As `cdna2`, two products at a time: c + (p0 + p1)."]),
    ],
)
def test_words_say_what_the_parameters_are(name, sentences):
    """One after the other."""
    said = list(told(accumulation(name)))
    start = said.index(sentences[0])
    assert said[start : start + len(sentences)] == sentences


def test_machines_that_are_like_others_say_these_too():
    """A reader needs no source."""
    said = list(told(accumulation("cdna3_mfma_e4m3fnuz_binary32")))
    assert any(sentence.startswith("cdna3: Eight products at a time, four of tf32") for sentence in said)


def test_rules_by_which_an_addend_joins_the_sum_are_said():
    """Those of the output, where a window's sum begins."""
    window = Window(step=4, fraction_bits=20, result=SINGLE)
    output = (catalog.BINARY32, Projection(subnormals="flush_results", saturation="finite"))
    how = Accumulation(operands=(catalog.E5M2, catalog.E5M2), accumulator=window, output=output)
    assert (
        "The sum begins as the addend, rounded to binary32 by saturation=finite, subnormals=flush_results, "
        "or as +0."
    ) in told(how)
    addend = np.float32(1e-40)
    assert lp.dot([0.0], [0.0], how, addend=addend) == 0


@pytest.mark.parametrize(("saturation", "want"), [("none", -np.inf), ("finite", -np.finfo(np.float32).max)])
def test_sums_that_count_as_infinite_are_so_in_every_mode(saturation, want):
    """An addend of the largest magnitude, cut downwards, is -2^128: toward zero it stays infinite."""
    rule = Projection(rounding="toward_zero", saturation=saturation)
    place = (catalog.BINARY32, rule)
    window = Window(step=4, fraction_bits=20, cut="floor", result=place)
    how = Accumulation(operands=(catalog.E5M2, catalog.E5M2), accumulator=window, output=place)
    assert "Sums of 2^128 and more count as infinite in every mode." in told(how)
    assert lp.dot([0.0], [0.0], how, addend=-np.finfo(np.float32).max) == want


def test_what_no_named_accumulation_has_is_said_too():
    """An addend that comes last, stochastic sums, cuts downwards."""
    floor = Window(step=4, fraction_bits=20, result=SINGLE, cut="floor")
    how = Accumulation(
        operands=(catalog.E5M2, catalog.E5M2), accumulator=floor, order=chunked(8), total=DRAWN,
        addend="last", output=SINGLE,
    )  # fmt: skip
    assert list(told(how))[2:] == [
        "All are cut downwards 20 bits behind the point of the largest exponent.",
        "Their sum is exact, and then rounded to binary32, nearest_even.",
        "Sums of 2^128 and more count as infinite in every mode.",
        "Each 8 products are so summed from zero; these sums are added in bfloat16, stochastic(8, A).",
        "The addend is added at the end.",
        "The result is binary32, nearest_even.",
        "Some of it is rounded stochastically: it needs rng.",
    ]


def test_terms_of_several_products_are_said():
    """Rounded before they are added, or not."""
    said = [list(told(accumulation(f"{name}_e4m3fn_binary32")))[1] for name in ("ace_top4mx", "arm_fdot")]
    exact = "Each 4 products, times the scales of their blocks if they have any, are summed exactly"
    assert said == [
        f"{exact}; that is rounded to binary32, nearest_even, nan_sign=drop, subnormals=flush_results.",
        f"{exact}.",
    ]


def test_two_accumulations_are_never_told_alike():
    """Unless they are equal; the description is plain data."""
    told = {}
    for how in ACCUMULATIONS.values():
        described = json.dumps({**describe_accumulation(how), "name": "", "evidence": "", "source": ""})
        assert told.setdefault(described, how) == how


def test_tables_have_a_row_for_each():
    """In the order of the catalog within each table."""
    rows = [line.split("`")[1] for line in accumulation_tables() if line.startswith("| `")]
    assert sorted(rows) == sorted(ACCUMULATIONS)


def test_a_library_call_is_told_in_words():
    """Sums, epilogue and output, and what each rests on."""
    runner = CliRunner()
    shown = runner.invoke(main, ["show", "ada_cublaslt_fp8(fast=false, split=3:halves)"])
    assert shown.exit_code == 0, shown.output
    for said in (
        "So are 3 splits of K summed, each by itself, which get tiles of 64 products in turn.",
        "They are added in 2 slots: those before the last in turn, and the slots to the last one in order",
        "α is the product of both scales.",
        "The result is bfloat16, nearest_even, NaN 0x7fff.",
        "Not measured by this project.",
    ):
        assert said in " ".join(shown.output.split())
    listed = runner.invoke(main, ["list", "calls", "rowwise"])
    assert [line.split()[0] for line in listed.output.splitlines()[1:]] == [
        "hopper_torch_rowwise_fp8",
        "blackwell_torch_rowwise_fp8",
    ]
    described = json.loads(runner.invoke(main, ["show", "hopper_cublaslt_fp8", "--json"]).output)
    assert described["output"] == "bfloat16"
    refused = runner.invoke(main, ["show", "ada_cublaslt_fp8", "--toml"])
    assert refused.exit_code == 2
    assert "'ada_cublaslt_fp8' is a library call: leave out --profile and --toml" in refused.output


@pytest.mark.parametrize(
    ("split", "words"),
    [
        (Split(2), "consecutive products, as many to each as to the first"),
        (Split(3, 64, "balanced"), "consecutive tiles of 64 products, as many to each, and one more"),
        (Split(3, 64, "interleaved"), "tiles of 64 products in turn"),
    ],
)
def test_splits_are_told(split, words):
    how = dataclasses.replace(ACCUMULATIONS["fp32_fma"], split=split)
    assert any(words in sentence for sentence in told(how))
