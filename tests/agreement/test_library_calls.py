"""Split-K and epilogues against the oracle, and against steps in fractions."""

import dataclasses
import re
from fractions import Fraction

import numpy as np
import pytest

import lowprec as lp
from lowprec.arrays.blocks.block import BlockArray
from lowprec.oracle.convert import decode
from lowprec.oracle.dot import dot as oracle
from lowprec.spec import catalog
from lowprec.spec.accumulations import accumulation
from lowprec.spec.order import Split
from lowprec.spec.projection import Projection
from tests.support import refusal_test

pytestmark = pytest.mark.apart

E4M3FN, BINARY32 = catalog.E4M3FN, (catalog.BINARY32, Projection())
ADA = accumulation("ada_mma_e4m3fn_binary32")


def codes(shape, rng, specials=0.1):
    made = rng.integers(0, 256, shape).astype(np.uint8)
    return np.where(((made & 0x7F) == 0x7F) & (rng.random(shape) >= specials), 0, made).astype(np.uint8)


# -- split-K ----------------------------------------------------------------------------------------


def test_splits_of_blocks_take_whole_blocks():
    """Their scales go with them; the tensors' scales multiply the total, exactly."""
    rng = np.random.default_rng(2)
    how = dataclasses.replace(
        accumulation("fp32_fma"), split=Split(3, tile=16, deal="interleaved"), output="bfloat16"
    )
    fmt = lp.block_formats["nvfp4"]
    elements, scales = rng.integers(0, 16, (2, 3, 100)), rng.integers(1, 120, (2, 3, 7))
    x, y = (
        BlockArray(e.astype(np.uint8), s.astype(np.uint8), fmt, tensor_scale=t)
        for e, s, t in zip(elements, scales, (0.7, 1.3), strict=True)
    )
    got = lp.dot(x, y, how, dtype="u2")
    tensor = Fraction(float(np.float32(0.7))) * Fraction(float(np.float32(1.3)))
    for i in range(3):
        sides = [[decode(int(code), fmt.element) for code in each[i]] for each in elements]
        of = [[decode(int(code), fmt.scale) for code in each[i]] for each in scales]
        want = oracle(*sides, how, scales=(of[0], of[1], 16), tensor=tensor)
        assert int(got[i]) == want
    for tile, deal in ((8, "interleaved"), (1, "contiguous")):
        narrow = dataclasses.replace(how, split=Split(3, tile=tile, deal=deal))
        with pytest.raises(
            ValueError, match=r"a split of K takes products \d+ to \d+, which are no whole blo"
        ):
            lp.dot(x, y, narrow)


# -- epilogues --------------------------------------------------------------------------------------


def test_no_products_give_zero_whatever_the_scales():
    for order in ("product", "x_first"):
        made = lp.matmul(
            np.zeros((2, 0)),
            np.zeros((0, 3)),
            ADA,
            scales=(np.nan, -np.inf),
            epilogue=lp.Epilogue(scales=order),
        )
        assert made.view(np.uint32).tolist() == [[0] * 3] * 2


def test_a_call_is_an_accumulation_and_its_epilogue():
    """The example of the docs: split-K, promotion every 128, and the scales rounded before they are used."""
    rng = np.random.default_rng(6)
    x, y = (lp.decode(codes((3, 300), rng, 0), E4M3FN) for _ in range(2))
    call = lp.library_calls["ada_cublaslt_fp8"](fast=False, split=(3, "halves"))
    split = Split(3, tile=64, deal="interleaved", combine="halves")
    how = dataclasses.replace(ADA, order="chunked(128)", split=split)
    want = lp.matmul(x, y.T, how, scales=(0.3, 0.7), epilogue=call.epilogue, dtype="u2")
    spelled = "ada_cublaslt_fp8(fast=false, split=3:halves)"
    for given in (call, spelled):
        assert (lp.matmul(x, y.T, given, scales=(0.3, 0.7), dtype="u2") == want).all()
    alone = lp.matmul(x, y.T, dataclasses.replace(how, split=None), scales=(0.3, 0.7), epilogue=call.epilogue)
    assert (alone.astype(np.float32) != lp.matmul(x, y.T, call, scales=(0.3, 0.7))).any()
    assert call.epilogue.output[0] == catalog.BFLOAT16


@pytest.mark.parametrize(
    ("options", "error", "message"),
    [
        ({"scales": 2.0}, TypeError, "scales must be a pair: those of x and those of y, or None"),
        ({"scales": (np.ones(5), None)}, ValueError, "scale of x of shape (5,) does not fit (4, 48)"),
        ({"scales": ("a", 1)}, TypeError, "scale of x must be real numbers of at most 64 bits, not <U1"),
        (
            {"scales": (None, np.ones((4, 1)))},
            ValueError,
            "scale of y has 4 numbers along K of 48: say how many elements share one, such as epilogue=",
        ),
        (
            {"scales": (np.ones((4, 3)), None), "epilogue": lp.Epilogue(block=32)},
            ValueError,
            "scale of x has 3 numbers along an axis of 48, and blocks of 32 make 2",
        ),
        (
            {"epilogue": lp.Epilogue(), "output": ("bfloat16", "stochastic(8)")},
            ValueError,
            "an epilogue's output is not rounded stochastically: use another output",
        ),
        (
            {"bias": np.ones(3)},
            ValueError,
            "bias of shape (3,) does not broadcast to the result's shape",
        ),
        ({"epilogue": "bfloat16"}, TypeError, "epilogue must be an Epilogue, not 'bfloat16'"),
        (
            {"scales": (np.ones((4, 3)), np.ones((6, 4))), "epilogue": lp.Epilogue(block=16)},
            ValueError,
            "scale of y has 6 numbers along an axis of 48, and blocks of 16 make 3",
        ),
        (
            {"addend": 1.0, "bias": np.ones(4), "epilogue": lp.Epilogue(fused_bias=True)},
            ValueError,
            "an epilogue with fused_bias adds the bias in the addend's place: give one of them",
        ),
    ],
    ids=str,
)
def test_what_does_not_fit_is_refused(options, error, message):
    how = dataclasses.replace(ADA, output=options.pop("output", ADA.output))
    with pytest.raises(error, match=re.escape(message)):
        lp.matmul(np.ones((4, 48)), np.ones((48, 4)), how, **options)


def test_blocks_along_k_are_as_many_on_both_sides():
    """Products that only one side has were dropped."""
    blocks, epilogue = (np.ones((2, 2)), None), lp.Epilogue(block=128)
    for verb, y in ((lp.matmul, np.ones((256, 2))), (lp.dot, np.ones(256))):
        with pytest.raises(ValueError, match="x has 200 elements along K, y has 256; they must be equal"):
            verb(np.ones((2, 200)), y, "fp32_fma", scales=blocks, epilogue=epilogue)
    with pytest.raises(ValueError, match="a single number has no K; use multiply or fma"):
        lp.matmul(np.float32(3), np.ones((2, 2)), "fp32_fma", scales=(1, 1))


def test_vectors_have_scales_too():
    """Of one axis, and batches of matrices."""
    rng = np.random.default_rng(8)
    x, y = rng.random((3, 4, 16), np.float32), rng.random((16, 5), np.float32)
    rows, columns = rng.random((4, 1), np.float32), rng.random((1, 5), np.float32)
    whole = lp.matmul(x, y, "fp32_fma", scales=(rows[None], columns))
    assert (lp.matmul(x[1], y, "fp32_fma", scales=(rows, columns)) == whole[1]).all()
    assert (lp.matmul(x[1], y[:, 2], "fp32_fma", scales=(rows, columns[0, 2])) == whole[1, :, 2]).all()
    assert (lp.matmul(x, y[:, 2], "fp32_fma", scales=(rows[None], columns[0, 2])) == whole[..., 2]).all()
    assert (lp.matmul(x[1, 3], y, "fp32_fma", scales=(rows[3, 0], columns)) == whole[1, 3]).all()
    assert lp.matmul(x[1, 3], y[:, 2], "fp32_fma", scales=(rows[3, 0], columns[0, 2])) == whole[1, 3, 2]


def test_vectors_have_scales_of_blocks_too():
    rng = np.random.default_rng(8)
    x, y = rng.random((3, 4, 16), np.float32), rng.random((2, 16, 5), np.float32)[:, None]
    rows, columns = rng.random((3, 4, 4), np.float32), rng.random((2, 1, 4, 5), np.float32)
    whole = _product_of_blocks(x, y, rows, columns)
    assert (_product_of_blocks(x, y[0, 0, :, 2], rows, columns[0, 0, :, 2]) == whole[0, ..., 2]).all()
    assert (_product_of_blocks(x[1, :1], y[0, 0, :, 2], rows[1, :1], None)
            == _product_of_blocks(x[1, :1], y[0, 0], rows[1, :1], None)[:, 2]).all()  # fmt: skip
    assert (_product_of_blocks(x[1, 3], y, rows[1, 3], columns) == whole[:, 1:2, 3]).all()
    assert (_product_of_blocks(x[1, 3], y[0, 0], rows[1, 3], columns[0, 0]) == whole[0, 1, 3]).all()
    assert _product_of_blocks(x[1, 3], y[0, 0, :, 2], rows[1, 3], columns[0, 0, :, 2]) == whole[0, 1, 3, 2]


def _product_of_blocks(x, y, *scales):
    return lp.matmul(x, y, "fp32_fma", scales=scales, epilogue=lp.Epilogue(block=4))


def test_scales_of_rows_of_no_products():
    x, y = np.ones((2, 0)), np.ones((0, 3))
    for scales in ((np.ones((2, 1)), np.ones((1, 3))), (np.ones((2, 0)), None)):
        assert lp.matmul(x, y, ADA, scales=scales).tolist() == [[0.0] * 3] * 2


@pytest.mark.parametrize("name", ["ada_mma_e4m3fn_binary32", "exact", "fp64_sequential"])
def test_sums_are_not_rounded_to_the_output_first(name):
    """Where an addend would join, or that there is no accumulator, changes nothing."""
    rng = np.random.default_rng(9)
    x, y = (lp.decode(codes((4, 64), rng, 0), E4M3FN) for _ in range(2))
    how = dataclasses.replace(accumulation(name), output="bfloat16")
    wanted = lp.matmul(x, y.T, dataclasses.replace(how, output="binary32"))
    places = ("first",) if name == "exact" else ("first", "last")
    for place in places:
        other = dataclasses.replace(how, addend=place)
        assert (lp.matmul(x, y.T, other, epilogue=lp.Epilogue(output="binary32")) == wanted).all()
        if name != "fp64_sequential":
            split = dataclasses.replace(other, split=Split(2, tile=64), output="binary32")
            assert (lp.matmul(x, y.T, split) == wanted).all()


def test_steps_without_scales_need_no_one():
    """Add a bias in a format without 1, whose largest number it was multiplied by on its way."""
    small = lp.Format(name="small", exponent_bits=3, trailing_bits=2, bias=8)
    assert small.max_finite == 0.875
    epilogue = lp.Epilogue(compute=(small, Projection(nan="max")), output="binary32", fused_bias=True)
    made = lp.matmul([[0.5]], [[0.5]], "fp32_fma", bias=[0.25], epilogue=epilogue)
    assert made.tolist() == [[0.5]]


def test_scales_of_tensors_in_blocks_are_rounded_to_nearest():
    """By Blackwell's window, which cuts its sums, they were cut too."""
    rng = np.random.default_rng(0)
    x = lp.encode(rng.standard_normal((4, 128)), "nvfp4")
    y = lp.encode(rng.standard_normal((128, 4)), "nvfp4", axis=0)
    how = accumulation("blackwell_tcgen05_e2m1fn_binary32_ue4m3_4")
    assert (lp.matmul(x, y, how, scales=(1, 1)) == lp.matmul(x, y, how)).all()


def test_stochastic_sums_have_no_blocks_of_scales():
    how = dataclasses.replace(accumulation("fp32_fma"), accumulator=("bfloat16", "stochastic(8)"))
    with pytest.raises(ValueError, match="rounds stochastically, and scales of blocks along K are for"):
        lp.matmul(
            np.ones((2, 32)), np.ones((32, 2)), how, rng=1, scales=(np.ones((2, 2)), None),
            epilogue=lp.Epilogue(block=16),
        )  # fmt: skip


def test_a_machine_s_splits_have_an_epilogue():
    how = dataclasses.replace(accumulation("cdna3_mfma_bfloat16_binary32"), split=Split(2, total="binary16"))
    made = lp.matmul(np.ones((2, 32)), np.ones((32, 2)), how, scales=(2.0, 0.5))
    assert made.tolist() == [[32.0, 32.0]] * 2


test_what_cannot_be_is_refused = refusal_test(
    globals(),
    """
lp.matmul(np.ones((4, 48)), np.ones((48, 4)), dataclasses.replace(ADA, split=Split(2)), scales=(np.ones((4,
        3)), None), epilogue=lp.Epilogue(block=16))
    ValueError: scales of blocks along K join their sums one after the other: leave out split
lp.matmul(np.ones((2, 32)), np.ones((32, 2)), "ada_cublaslt_fp8", epilogue=lp.Epilogue())
    ValueError: ada_cublaslt_fp8 has an epilogue of its own, and epilogue= is...
lp.matmul(np.ones((2, 32)), np.ones((32, 2)), lp.library_calls["ada_cublaslt_fp8"])
    TypeError: a library call must be called: lowprec.library_calls[name](output=..., fast=...)
""",
)
