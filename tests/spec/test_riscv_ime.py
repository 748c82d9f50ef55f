"""Sums of RISC-V's integrated matrix extension: (G, psm, rnd) against the text's own steps, in fractions."""

import itertools
import json
from fractions import Fraction

import numpy as np
import pytest

import lowprec as lp
from lowprec.export.sail import fragment
from lowprec.methods.riscv_ime import scaled_dot
from lowprec.oracle.convert import decode, project
from lowprec.oracle.exact import Special
from lowprec.spec.accumulations import ACCUMULATIONS
from lowprec.spec.projection import Projection
from lowprec.spec.riscv_ime import FRM, disclosed, riscv_ime
from lowprec.spec.rounding import TO_ODD

E4M3, E5M2, SINGLE, HALF = (lp.format(name) for name in ("e4m3fn", "e5m2", "binary32", "binary16"))


def step(value, fmt, rounding):
    """Round a number to a format; infinities stay."""
    how = Projection(rounding=rounding, overflow_test="exponent" if rounding == TO_ODD else "after")
    return decode(project(value, fmt, how), fmt)


def number(value):
    """A value as a fraction; -0 is 0."""
    return Fraction(0) if value == Special.NEGATIVE_ZERO else value


def by_the_text(x, y, c, fmt, products, rnd, mode):
    """C after the groups of a row of numbers."""
    terms = [Fraction(a) * Fraction(b) for a, b in zip(x, y, strict=True)]
    for start in range(0, len(x), products):
        partial = sum(terms[start : start + products], Fraction(0))
        if rnd != "xct":
            partial = number(step(partial, fmt, mode if rnd == "frm" else TO_ODD))
        c = number(step(number(c) + partial, fmt, mode))
    return c


@pytest.mark.parametrize(("rnd", "frm"), [*itertools.product(("frm", "rto", "xct"), FRM)])
def test_exact_groups_are_what_the_text_says(rnd, frm):
    """Groups of 1 to 16 products, on both engines; no result is an infinity or a zero."""
    rng = np.random.default_rng(7)
    for products, fmt in ((1, HALF), (4, SINGLE), (8, HALF), (16, SINGLE)):
        x, y = (rng.integers(0, 256, (12, 16)).astype(np.uint8) for _ in range(2))
        a, b = lp.decode(x & 0xBF, E5M2), lp.decode(y & 0xF7, E4M3)
        c = np.asarray(lp.quantize(rng.normal(size=12), fmt), np.float32)
        how = riscv_ime((E5M2, E4M3), fmt, products, rnd, frm=frm)
        want = [
            float(
                by_the_text(
                    *map(np.ndarray.tolist, row), Fraction(float(start)), fmt, products, rnd, FRM[frm]
                )
            )
            for *row, start in zip(a, b, c, strict=True)
        ]
        for backend in ("oracle", "scalar"):
            got = lp.dot(a, b, how, addend=c, dtype=np.float64, backend=backend)
            assert np.asarray(got).tolist() == want, backend


def test_what_is_made_is_disclosed():
    """Every combination, and its reduction where it has one."""
    for n, rnd, frm in itertools.product((1, 2, 16, 64), ("frm", "rto", "xct"), FRM):
        found = disclosed(riscv_ime((E4M3, E5M2), SINGLE, n, rnd, frm=frm))
        assert (found.products, found.psm, found.rnd, found.frm, found.window) == (n, 0, rnd, frm, None)
        if n > 1 and rnd != "xct":
            found = disclosed(riscv_ime((E4M3, E5M2), SINGLE, n, rnd, psm=1, frm=frm))
            assert (found.products, found.psm, found.rnd, found.frm) == (n, 1, rnd, frm)
            assert (found.window.step, found.window.cut) == (n, "to_odd")
    others = [
        how for name, how in ACCUMULATIONS.items() if name.startswith(("hopper", "cdna3", "riscv", "ace"))
    ]
    assert not any(map(disclosed, others))


@pytest.mark.parametrize(
    ("arguments", "match"),
    [
        ({"products": 3}, "power of two"),
        ({"products": 4, "rnd": "odd"}, "rnd='odd'"),
        ({"products": 4, "frm": "dyn"}, "frm='dyn'"),
        ({"products": 4, "psm": 1}, "bulk normalization"),
        ({"products": 1, "psm": 1, "rnd": "rto"}, "two products"),
    ],
)
def test_what_the_extension_has_not_is_refused(arguments, match):
    """The message says what is wanted."""
    with pytest.raises(ValueError, match=match):
        riscv_ime((E4M3, E4M3), SINGLE, **arguments)


@pytest.mark.apart
@pytest.mark.parametrize("arguments", [(4, "rto", 0, "rup"), (8, "frm", 1, "rmm")])
def test_identify_says_it_in_these_terms(arguments):
    """As text and as data; a sum whose C is aligned too has none."""
    products, rnd, psm, frm = arguments
    how = riscv_ime((E4M3, E4M3), SINGLE, products, rnd, psm=psm, frm=frm)
    found = lp.identify(lambda a, b, c: lp.dot(a, b, how, addend=c), (E4M3, E4M3), SINGLE, k=16)
    said = f"G * W = {products}, psm = {psm}, rnd = {rnd}, frm = {frm}"
    assert f"As RISC-V's integrated matrix extension says it: {said}" in found.as_text()
    assert json.loads(found.as_json())["riscv_ime"] == {
        "products": products, "psm": psm, "rnd": rnd, "frm": frm,
    }  # fmt: skip


# -- scales -----------------------------------------------------------------------------------------


def blocks(codes, scales, size=16):
    """E4M3 in blocks along K."""
    fmt = lp.BlockFormat(name="mx", element=E4M3, scale=lp.format("e8m0fnu"), size=size)
    return lp.BlockArray(codes, scales, fmt, (1,))


@pytest.mark.parametrize("rnd", ["frm", "rto", "xct"])
def test_scales_within_the_range_of_c_join_exactly(rnd):
    """Then the plain dot product of blocks gives the same codes."""
    rng = np.random.default_rng(3)
    codes = [
        (rng.integers(0, 0x7F, (40, 64)) | rng.integers(0, 2, (40, 64)) << 7).astype(np.uint8) for _ in "xy"
    ]
    x, y = (blocks(each, rng.integers(110, 140, (40, 4)).astype(np.uint8)) for each in codes)
    how, c = riscv_ime((E4M3, E4M3), SINGLE, 8, rnd), rng.normal(size=40).astype(np.float32)
    assert (scaled_dot(x, y, how, c) == lp.dot(x, y, how, addend=c, dtype=np.uint32)).all()


@pytest.mark.parametrize(
    ("scales", "frm", "fmt", "want"),
    [
        ((254, 254), "rne", SINGLE, 0x7F800000),  # 2**127 * 2**127 overflows, and so does 1 * infinity
        ((254, 254), "rtz", SINGLE, 0x7F7FFFFF),  # to the largest number
        ((0, 0), "rne", SINGLE, 0x3F800000),  # 2**-254 is zero in binary32
        ((0, 254), "rne", SINGLE, 0x41800000),  # 2**-127 * 2**127: exact, 1 + 15
        ((0, 254), "rne", HALF, 0x7E00),  # 0 * infinity
        ((0, 254), "rtz", HALF, 0x3C00),  # 0 * 65504
        ((0, 254), "rup", HALF, 0x7C00),  # 2**-24 * infinity
        ((255, 127), "rne", HALF, 0x7E00),
    ],
)
@pytest.mark.parametrize("rnd", ["frm", "rto", "xct"])
def test_scales_are_converted_by_frm_first(scales, frm, fmt, want, rnd):
    """A block of sixteen products, of which fifteen are 1 and one is 0; C is 1."""
    codes = np.full((1, 16), 0x38, np.uint8)
    codes[0, 3] = 0
    x, y = (blocks(codes, np.array([[scale]], np.uint8)) for scale in scales)
    made = scaled_dot(x, y, riscv_ime((E4M3, E4M3), fmt, 16, rnd, frm=frm), np.ones(1))
    assert [hex(code) for code in made] == [hex(want)]


def test_a_disclosed_reduction_needs_whole_groups():
    """Blocks of 16 cut groups of 32."""
    x = blocks(np.full((1, 32), 0x38, np.uint8), np.full((1, 2), 127, np.uint8))
    how = riscv_ime((E4M3, E4M3), SINGLE, 32, "rto", psm=1)
    with pytest.raises(ValueError, match="groups of 32 products are cut by blocks of 16"):
        scaled_dot(x, x, how, np.zeros(1))
    whole = riscv_ime((E4M3, E4M3), SINGLE, 8, "rto", psm=1)
    assert lp.decode(scaled_dot(x, x, whole, np.zeros(1)), SINGLE) == [32]


@pytest.mark.parametrize(
    ("addend", "error", "match"),
    [
        (np.ones(2), ValueError, r"addend has shape \(2,\), and the rows of x and y are 1"),
        (np.array([1j]), TypeError, "addend must be real numbers"),
        (["1"], TypeError, "addend must be real numbers"),
    ],
)
def test_addends_are_a_real_number_a_row(addend, error, match):
    x = blocks(np.full((1, 16), 0x38, np.uint8), np.full((1, 1), 127, np.uint8))
    with pytest.raises(error, match=match):
        scaled_dot(x, x, riscv_ime((E4M3, E4M3), SINGLE, 8, "frm"), addend)


@pytest.mark.parametrize("rnd", ["frm", "xct"])
@pytest.mark.parametrize("swapped", [False, True])
@pytest.mark.parametrize(
    ("fmt", "other", "match"),
    [
        ("nvfp4", "nvfp4", r"x has the tensor scale 0\.0022\d*, .* blocks of a format without one"),
        ("mxfp4", {"size": 16}, r"x and y must be in blocks of one size, not of (32 and 16|16 and 32)"),
        ("mxfp4", {"element": E4M3}, r"takes [xy] of 'e2m1fn', not of 'e4m3fn' in blocks of 'other'"),
    ],
)
def test_blocks_that_the_extension_cannot_multiply_are_refused(fmt, other, match, swapped, rnd):
    if isinstance(other, dict):
        fields = {"element": "e2m1fn", "scale": "e8m0fnu", "size": 32}
        other = lp.BlockFormat(name="other", **(fields | other))
    sides = [lp.encode(np.full((1, 32), 6.0), each) for each in (fmt, other)]
    how = riscv_ime((lp.format("e2m1fn"),) * 2, SINGLE, 8, rnd)
    with pytest.raises(ValueError, match=match):
        scaled_dot(*(sides[::-1] if swapped else sides), how, np.zeros(1))


# -- what vendors write -----------------------------------------------------------------------------


def test_the_fragment_says_the_parameters():
    """G counts sub-dot-products: 8 products of 8 bits are two of 32."""
    exact = fragment(riscv_ime((E4M3, E4M3), SINGLE, 8, "frm"))
    assert "SEW == 32 & W == 4 & lambda >= 2 then 2" in exact
    assert "then PSM_EXACT" in exact
    assert "then RND_FRM" in exact
    assert "fp_disclosed_reduce_group" not in exact
    bulk = fragment(riscv_ime((E4M3, E5M2), SINGLE, 8, "rto", psm=1))
    assert "then PSM_DISCLOSED" in bulk
    assert "let place : int = e - 26;" in bulk  # 23, and 3 for 8 products
    assert "kept % 2 == 0" in bulk
    assert "+ 5;" in bulk  # 3 bits behind the point of E4M3, 2 of E5M2


def test_the_fragment_of_another_sum_is_refused():
    """One that aligns C too, and groups that are no whole sub-dot-products."""
    with pytest.raises(ValueError, match="hopper_mma_binary16_binary32 is no sum"):
        fragment(ACCUMULATIONS["hopper_mma_binary16_binary32"])
    with pytest.raises(ValueError, match="whole sub-dot-products"):
        fragment(riscv_ime((E4M3, E4M3), SINGLE, 2, "frm"))
