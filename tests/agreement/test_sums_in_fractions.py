"""Kept sums, split-K and epilogues against fractions: every backend shares the code that computes them."""

import dataclasses
import itertools
import tracemalloc
from fractions import Fraction

import numpy as np
import pytest

import lowprec as lp
from lowprec.arrays.checks import code_dtype
from lowprec.arrays.dots import dot as arrays_dot, sums as arrays_sums
from lowprec.oracle import dot as oracle_dot
from lowprec.spec.accumulations import accumulation
from lowprec.spec.projection import Projection
from lowprec.spec.rounding import MODES
from tests.fraction_sums import code_of, library_dot, rounded, value_of

pytestmark = pytest.mark.apart

SINGLE = (lp.format("binary32"), Projection())
BACKENDS = [None, "scalar", "oracle"]


def numbers(rng, *shape):
    """Numbers of 24 bits about 1, of both signs."""
    return (rng.standard_normal(shape) * 2.0 ** rng.integers(-3, 4, shape)).astype(np.float32)


def values(row):
    return [value_of(float(each)) for each in row]


def check_library(x, y, how, epilogue, scales=(None, None), *, backend=None, **joins):
    """Compare one dot product with an epilogue; scales that are lists are those of blocks."""
    fmt = (epilogue.output or how.output)[0]
    given = tuple(np.array([each], np.float32) if isinstance(each, list) else each for each in scales)
    pair = tuple(
        values(each) if isinstance(each, list) else None if each is None else value_of(float(each))
        for each in scales
    )
    exact = {name: value_of(float(each)) for name, each in joins.items()}
    want = code_of(library_dot(values(x), values(y), how, epilogue, pair, **exact), fmt)
    got = lp.dot(
        x[None],
        y[None],
        how,
        scales=given,
        epilogue=epilogue,
        dtype=code_dtype(fmt),
        backend=backend,
        **joins,
    )
    assert int(got[0]) == want, (how, epilogue, scales, joins)
    return want


# -- what an epilogue finds -------------------------------------------------------------------------


@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize("mode", MODES, ids=str)
@pytest.mark.parametrize(
    "fields", [{"order": "exact"}, {"accumulator": "binary64"}], ids=["exact", "binary64"]
)
def test_sums_without_a_place_of_their_own_are_rounded_to_nearest(fields, mode, backend):
    """Whatever the mode of compute, which is of the steps."""
    rng = np.random.default_rng(1)
    how = lp.Accumulation(output="binary32", **fields)
    epilogue = lp.Epilogue(compute=("bfloat16", mode), output="binary32")
    found = {
        check_library(*numbers(rng, 2, 5), how, epilogue, (1.0, 1.0), backend=backend) for _ in range(20)
    }
    assert len(found) > 15
    one = lp.matmul([[1 + 2.0**-10]], [[1.0]], how, scales=(1.0, 1.0), epilogue=epilogue, backend=backend)
    assert one.tolist() == [[1.0]]


def test_scales_of_tensors_in_blocks_multiply_a_sum_that_is_rounded_to_nearest():
    """The sum times the scales of both tensors, once, whatever the mode of compute."""
    rng = np.random.default_rng(2)
    x, y = (lp.encode(rng.standard_normal((8, 64)), "nvfp4") for _ in range(2))
    alone = [dataclasses.replace(side, tensor_scale=np.float32(1)) for side in (x, y)]
    tensor = Fraction(float(x.tensor_scale)) * Fraction(float(y.tensor_scale))
    decoded = [[[Fraction(each) for each in row] for row in lp.decode(side).tolist()] for side in alone]
    exact = [sum(a * b for a, b in zip(*rows, strict=True)) for rows in zip(*decoded, strict=True)]
    into, single = lp.format("bfloat16"), lp.dot(*alone, "fp32_fma").tolist()
    epilogue = lp.Epilogue(compute=(into, "away_from_zero"), output=into)
    for name, sums in (("exact", exact), ("fp64_sequential", exact), ("fp32_fma", single)):
        got = lp.dot(x, y, name, epilogue=epilogue, dtype="u2")
        want = [code_of(rounded(Fraction(each) * tensor, (into, Projection())), into) for each in sums]
        assert got.tolist() == want, name


def test_the_sum_of_a_machine_reaches_an_epilogue_as_it_is():
    """Rules of its output are for what it returns."""
    how = accumulation("cdna3_mfma_bfloat16_binary32")
    flushing = dataclasses.replace(how, output=("binary32", Projection(subnormals="flush_results")))
    x, y = np.full((1, 8), 2.0**-70), np.full((1, 8), 2.0**-65)
    assert lp.dot(x, y, flushing).tolist() == [0.0]
    assert lp.dot(x, y, flushing, scales=(2.0**100, 1.0)).tolist() == [2.0**-32]


# -- the bias ---------------------------------------------------------------------------------------


def test_a_fused_bias_joins_by_one_rounding_in_every_order_of_scales():
    scale, bias = 1 + 2.0**-7, -(1 + 2.0**-6)
    how = lp.Accumulation(output="binary32", accumulator="binary32")
    for order in ("product", "x_first", "y_first"):
        epilogue = lp.Epilogue(compute="bfloat16", scales=order, fused_bias=True, output="binary32")
        made = lp.dot([scale], [1.0], how, scales=(scale, None), bias=bias, epilogue=epilogue)
        assert made == 2.0**-14, order


# -- splits -----------------------------------------------------------------------------------------


@pytest.mark.parametrize("backend", BACKENDS)
def test_exact_sums_of_splits_are_rounded_once_to_where_they_are_stored(backend):
    """Not to their total first: 1 + 2**-8 + 2**-30 is above a tie of bfloat16, and on it in binary32."""
    split = lp.Split(2, tile=3, stored="bfloat16")
    how = lp.Accumulation(output="binary32", order="exact", split=split)
    x = np.array([1.0, 2.0**-8, 2.0**-30, 0.0])
    assert lp.dot(x, np.ones(4), how, backend=backend) == 1 + 2.0**-7


@pytest.mark.parametrize("backend", BACKENDS)
def test_tiles_of_a_split_follow_each_other_without_a_gap(backend):
    """Products 0, 1, 4 and 5 share a step, which cuts the ones of 16 to units of 2; in steps apart: 34."""
    window = lp.Window(step=4, fraction_bits=3, result="binary32")
    split = lp.Split(2, tile=2, deal="interleaved")
    how = lp.Accumulation(operands="e4m3fn", accumulator=window, output="binary32", split=split)
    x = np.array([1.0, 1, 0, 0, 16, 16, 0, 0])
    assert lp.dot(x, np.ones(8), how, backend=backend) == 32


@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize(
    ("fmt", "rule", "x", "want", "nearest"),
    [
        ("e4m3fn", {"nan_sign": "drop"}, [-400.0, -400.0], 0xFFC00000, -200.0),
        ("binary16", {"saturation": "finite", "nan_code": 0x7C00}, [np.nan], 0x7F800000, 1e5),
        ("int8", {"symmetric": True, "nan": "max", "nan_code": 0x80}, [np.nan], 0xC3000000, -128.0),
    ],
    ids=["the sign of a NaN", "an infinity for NaN", "-128 for NaN"],
)
def test_sums_leave_their_accumulator_as_they_are(backend, fmt, rule, x, want, nearest):
    """Into another format or a codebook, in a split, and with an epilogue."""
    book = lp.Codebook("mine", [-200.0, -128.0, -127.0, 1e5])
    one = lp.Accumulation(accumulator=(fmt, lp.Projection(**rule)), output="binary32")
    for how in (one, dataclasses.replace(one, split=lp.Split(2, tile=2))):
        for epilogue in (None, lp.Epilogue(scales="x_first")):
            given = {"backend": backend, "epilogue": epilogue}
            assert lp.dot(x, np.ones(len(x)), how, dtype=np.uint32, **given) == want
        into = dataclasses.replace(how, output=(book, lp.Projection(nan="max")))
        assert lp.dot(x, np.ones(len(x)), into, backend=backend) == nearest


# -- lone terms -------------------------------------------------------------------------------------


@pytest.mark.parametrize("backend", BACKENDS)
def test_a_lone_term_in_pairs_is_rounded_as_sums_are(backend):
    """With an epilogue and without, in a split and in a chunk, as a sum in sequence is."""
    fields = {"output": "binary32", "accumulator": ("bfloat16", "toward_zero")}
    sequence = lp.Accumulation(**fields)
    pairs = lp.Accumulation(order="pairwise", **fields)
    chunks = lp.Accumulation(order="chunked(2, pairwise)", total="binary32", **fields)
    halves = dataclasses.replace(pairs, split=lp.Split(2))
    ten = 1 + 2.0**-10
    for how in (sequence, pairs, chunks, halves):
        assert lp.dot([ten], [1.0], how, backend=backend) == 1.0, how
        assert lp.dot([ten], [1.0], how, backend=backend, epilogue=lp.Epilogue()) == 1.0, how
        zero = lp.dot([-0.0], [1.0], how, backend=backend, dtype="u4")
        assert zero == (0x80000000 if how is pairs else 0), how
    assert lp.dot([1.0, 1.0, ten], [1.0, 1.0, 1.0], chunks, backend=backend) == 3.0


@pytest.mark.parametrize("backend", BACKENDS)
def test_a_lone_block_in_pairs_is_rounded_as_sums_are(backend):
    x, y = (lp.encode(np.array([[1.0, 1.75, 1.125, 1.0]]), "mxfp8_e4m3") for _ in range(2))
    how = lp.Accumulation(order="pairwise", output="binary32", accumulator="bfloat16")
    exact = lp.dot(x, y, "exact")
    want = float(rounded(Fraction(float(exact[0])), (lp.format("bfloat16"), Projection())))
    assert float(exact[0]) != want
    assert lp.dot(x, y, how, backend=backend).tolist() == [want]


def test_a_lone_term_draws_as_a_sum_does():
    """Rounding 0 is that of the sum, and the output's comes last, as in sequence."""
    drawn, output = ("bfloat16", lp.stochastic(8)), ("e5m2", lp.stochastic(8))
    x = np.random.default_rng(5).standard_normal((200, 1))
    made = [
        lp.dot(
            x,
            np.ones((200, 1)),
            lp.Accumulation(order=order, output=output, accumulator=drawn),
            rng=7,
            backend=backend,
        )
        for order, backend in itertools.product(("sequential", "pairwise"), BACKENDS)
    ]
    for other in made[1:]:
        assert (other.view(np.uint8) == made[0].view(np.uint8)).all()


# -- windows ----------------------------------------------------------------------------------------


@pytest.mark.parametrize("backend", BACKENDS)
def test_scales_of_tensors_multiply_windows_whose_addend_is_last(backend):
    rng = np.random.default_rng(6)
    x, y = (lp.encode(rng.standard_normal((6, 128)), "nvfp4") for _ in range(2))
    alone = [dataclasses.replace(side, tensor_scale=np.float32(1)) for side in (x, y)]
    tensor = Fraction(float(x.tensor_scale)) * Fraction(float(y.tensor_scale))
    how = dataclasses.replace(accumulation("blackwell_tcgen05_e2m1fn_binary32_ue4m3_4"), addend="last")
    sums = lp.dot(*alone, how, backend=backend)
    want = [code_of(rounded(Fraction(float(each)) * tensor, SINGLE), SINGLE[0]) for each in sums]
    assert lp.dot(x, y, how, backend=backend, dtype="u4").tolist() == want
    zeros = dataclasses.replace(x, codes=np.zeros_like(x.codes))
    assert lp.dot(zeros, y, how, backend=backend, dtype="u4").tolist() == [0] * 6


# -- room -------------------------------------------------------------------------------------------


@pytest.mark.parametrize("groups", ["consecutive", "alternate_pairs"])
@pytest.mark.parametrize("backend", BACKENDS)
def test_room_is_taken_for_the_products_that_there_are(groups, backend):
    """Not for those of a step, of which the last may be shorter."""
    x = np.random.default_rng(7).integers(-8, 9, (2, 7)).astype(np.float32)
    made, peaks = [], []
    for step in (8, 1 << 30):
        window = lp.Window(step=step, fraction_bits=20, result="binary32", groups=groups)
        for order in ("sequential", f"chunked({2 * step})"):
            how = lp.Accumulation(operands="bfloat16", accumulator=window, output="binary32", order=order)
            lp.matmul(x, x.T, how, backend=backend)
            tracemalloc.start()
            made.append(lp.matmul(x, x.T, how, backend=backend).tolist())
            peaks.append(tracemalloc.get_traced_memory()[1])
            tracemalloc.stop()
    assert made == [(x @ x.T).tolist()] * 4
    assert max(peaks) < 1 << 20


@pytest.mark.parametrize("combine", ["sequential", "pairwise", "halves", "slots(40000)"])
@pytest.mark.parametrize("backend", BACKENDS)
def test_splits_without_products_cost_no_sums(monkeypatch, combine, backend):
    """They add +0: of 65,536 splits three are summed, and few sums are new."""
    made = []
    places = [
        (arrays_dot, "_codes"),
        (arrays_sums, "computed"),
        (arrays_dot, "computed"),
        (oracle_dot, "project"),
    ]
    for module, name in places:
        right = getattr(module, name)

        def counted(*given, right=right, **named):
            made.append(right)
            return right(*given, **named)

        monkeypatch.setattr(module, name, counted)
    how = lp.Accumulation(
        output="binary32", accumulator="binary32", split=lp.Split(65536, combine=combine, total="bfloat16")
    )
    got = lp.dot([1.0, 2.0**-9, -0.0], [1.0, 1.0, 1.0], how, backend=backend)
    assert got == 1.0
    assert len(made) < 400
