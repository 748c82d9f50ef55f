"""`lowprec.p3109` as it is called: parameters, strings, shapes, messages, κ, and planted mistakes."""

import hashlib
import pathlib
import re

import dask.array
import numpy as np
import pytest
import xarray

import lowprec as lp
from lowprec import p3109
from lowprec.p3109 import approximation, operations, projecting, queries, values
from tests import p3109_page, p3109_sweep
from tests.agreement import test_p3109 as agreement
from tests.support import python, refusal_test

ROOT = pathlib.Path(__file__).parents[2]

HOW = ("NearestTiesToEven", "SatNone")
E, U = "Binary8p4se", "Binary8p1uf"


# -- specializations -----------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "text",
    [
        "Exp<Binary8p3se, Binary8p4se, (NearestTiesToEven, SatFinite)>",
        "ScaledAdd<(Binary8p1uf, Binary4p2sf), (Binary8p1uf, Binary8p4se), BFloat16, (ToOdd, SatNone)>",
        "BlockAbs<32, (Binary8p1uf, binary16), Binary8p1uf, Binary8p4se, (StochasticC[8], SatPropagate)>",
        "BlockDotProduct<8, Binary8p1uf, Binary8p4se, Binary8p1uf, Binary8p4se, binary32, (ToOdd, SatNone)>",
        "ConvertToBlockMaxAbsFinite<4, binary32, Binary8p1uf, binary16, (ToOdd, SatNone), (ToOdd, SatNone)>",
        "CompareLess<Binary4p2sf, Binary8p4se>",
        "BitwidthOf<Binary3p1uf>",
        "RoundOf<(ToOdd, SatNone)>",
    ],
)
def test_a_specialization_is_written_as_the_draft_writes_it(text):
    made = p3109.specialization(text)
    assert repr(made) == str(made) == text
    assert made == p3109.specialization(text.replace(" ", "").replace("Binary", "binary"))
    assert hash(made) == hash(p3109.specialization(text))


def test_formats_may_come_in_pairs_or_one_after_the_other():
    pairs = p3109.BlockAdd[2, (U, E), (U, "binary16"), U, E, HOW]
    assert pairs == p3109.BlockAdd[2, U, E, U, "binary16", U, E, HOW]
    assert pairs.formats == tuple(map(lp.format, (U, E, U, "binary16", U)))
    assert pairs.results == (lp.format(U), lp.format(E))
    assert p3109.NextLessThan[E].results == (lp.format(E),)
    assert p3109.IsOne[E].results == ()


def test_formats_of_the_catalog_are_those_of_the_same_name():
    assert p3109.Exp[lp.format("binary8p4se"), lp.format("bfloat16"), HOW] == p3109.Exp[E, "BFloat16", HOW]


def test_every_operation_is_an_attribute_and_has_a_signature():
    assert set(p3109.OPERATIONS) <= set(dir(p3109))
    for name, operation in p3109.OPERATIONS.items():
        assert getattr(p3109, name) is operation
        assert operation.signature.startswith(f"{name}<")
    assert len(p3109.OPERATIONS) == 3 * 52 + 6 + 9 + 12 + 2 + 2 + 6


def test_every_required_specialization_is_there():
    """Those of 4.5 with all three external formats; each is called."""
    required = list(p3109.required())
    assert len(set(required)) == 36 + 36 + 6 + 30 + 15 + 30 + 5 * 9 * 3 * 2 + 27 * 2 + 72
    for each in required:
        codes = [np.zeros(2, np.uint8) for _ in each.operation.operands]
        assert np.size(each(*codes)) == (2 if codes else 1)


def test_results_have_the_shape_of_the_operands():
    add = p3109.Add[E, E, "binary16", HOW]
    assert add(0x40, 0x40) == 0x4000
    assert add(0x40, 0x40).dtype == np.uint16
    assert add(np.zeros((3, 1), np.uint8), [0, 1]).shape == (3, 2)
    scale, codes = p3109.ConvertToBlock[2, E, U, E, HOW](np.full((3, 2), 0x40), [0x80, 0x81, 0x7F])
    assert (scale.tolist(), codes.tolist()) == ([0x80, 0x81, 0x7F], [[0x40] * 2, [0x38] * 2, [0x48] * 2])
    assert scale.dtype == codes.dtype == np.uint8
    assert p3109.BlockReduceAdd[2, U, E, E, HOW]((0x80, [0x40, 0x40])) == 0x48


# -- messages ------------------------------------------------------------------------------------------------


def refuses(error, message, call):
    with pytest.raises(error, match=re.escape(message)):
        call()


def test_unknown_operations_are_answered_with_near_names():
    near = "unknown operation 'ArcTan3' of P3109; did you mean ArcTan"
    refuses(AttributeError, near, lambda: p3109.ArcTan3)
    refuses(ValueError, near, lambda: p3109.specialization("ArcTan3<Binary8p4se>"))
    refuses(
        ValueError, "'Exp' is no specialization; write such as 'Exp<", lambda: p3109.specialization("Exp")
    )
    with pytest.raises(AttributeError):
        _ = p3109.__wrapped__


def test_operands_are_refused_by_name():
    add = p3109.Add[E, E, E, HOW]
    refuses(TypeError, "Add takes 2 operands, (x, y), not 1", lambda: add(1))
    refuses(ValueError, "codes of 'binary8p4se' are 0 to 255: 1 of 2 is not, the first at index (1,), which "
            "is 256",
            lambda: add([1, 256], 1))  # fmt: skip
    refuses(TypeError, "codes of 'binary8p4se' must be integers, not float64", lambda: add(1.0, 1))
    drawn = p3109.Exp[E, E, ("StochasticB[8]", "SatNone")]
    refuses(ValueError, "needs random=, an integer from 0 to 255 for each result", lambda: drawn([1]))
    refuses(TypeError, "takes no random=, as nothing is rounded stochastically; leave it out",
            lambda: add(1, 1, random=[3]))  # fmt: skip
    sums = p3109.BlockReduceAdd[2, U, E, E, HOW]
    refuses(TypeError, "BlockReduceAdd takes blocks as pairs (s, x), not int", lambda: sums(3))
    refuses(ValueError, "BlockReduceAdd has blocks of 2 along the last axis, and elements of shape (3,) were "
            "given",
            lambda: sums((1, [1, 2, 3])))  # fmt: skip
    refuses(TypeError, "Add is called once it is specialized: Add[fx, fy, fr, ρ](x, y)", lambda: p3109.Add(E))
    wide = p3109.BlockExp[1, (U, E), "binary32", "binary32", HOW]
    refuses(ValueError, "BlockExp to binary32 by NearestTiesToEven times the result's scale, of 24 bits, "
            "needs results of 50 bits, and 42 is the most here; take fewer random bits, or narrower formats",
            lambda: wide((1, [1]), 1))  # fmt: skip


def test_a_scale_may_be_rounded_stochastically():
    how = ("StochasticA[4]", "SatNone")
    to = p3109.ConvertToBlockMaxAbsFinite[2, E, U, E, how, HOW]
    x = np.tile(p3109.Convert["binary32", E, HOW](np.float32([1.25, 0.5]).view(np.uint32)), (16, 1))
    scales, _ = to(x, random_scale=np.arange(16))
    assert scales.tolist() == [0x80] * 12 + [0x81] * 4
    refuses(ValueError, "needs random_scale=", lambda: to(x))


# -- κ -------------------------------------------------------------------------------------------------------

EXP = "Exp<binary16, Binary8p4se, (NearestTiesToEven, SatNone)>"


def flushed(codes):
    """Annex D.1: subnormal results become zero or the smallest normal value, ties zero."""
    exact = p3109.specialization(EXP)(codes)
    return np.where(exact <= 4, 0, np.where(exact < 8, 8, exact)).astype(np.uint8)


def test_kappa_of_the_example_of_the_draft():
    """Over every 13th of binary16, and those around the cuts; docs/p3109.md has all."""
    cuts = [np.log(2.0**-11), np.log(9 * 2.0**-11), np.log(15 * 2.0**-11)]
    sets = {
        "I0": lambda x: (x < cuts[0]) | (x > cuts[2]),
        "I3": lambda x: (x > cuts[1]) & (x < cuts[2]),
        "I4": lambda x: (x > cuts[0]) & (x < cuts[1]),
    }
    operands = np.unique(np.r_[0:65536:13, 0xC500:0xC800])
    found = p3109.kappa(EXP, flushed, (operands,), sets=sets)
    assert (found.kappa, found.sets) == (4, {"I0": 0, "I3": 3, "I4": 4})
    assert (found.result, found.defined, found.tried) == (0, 4, operands.size)
    assert str(found).startswith("κ ∈ {I0: 0, I3: 3, I4: 4}, ")
    refuses(
        ValueError,
        "sets= must have each operand with a finite result in exactly one of them",
        lambda: p3109.kappa(EXP, flushed, (operands,), sets={"I0": sets["I0"]}),
    )


def test_kappa_of_operands_that_are_given():
    wide = p3109.specialization(EXP.replace("binary16", "binary32"))
    operands = np.linspace(-8, -4, 4000).astype(np.float32).view(np.uint32)
    cut = lambda codes: np.where((made := wide(codes)) < 8, 0, made)  # noqa: E731
    assert p3109.kappa(wide, cut, (operands,)).kappa == 7
    assert p3109.kappa(wide, wide, (operands,)) == approximation.Approximation(
        0, {}, None, None, None, 4000, 0
    )
    refuses(
        ValueError,
        "have 32 bits, too many to try all, up to 20; give operands=",
        lambda: p3109.kappa(wide, cut),
    )
    refuses(TypeError, "operands= for Exp must be a tuple of 1 arrays of codes",
            lambda: p3109.kappa(wide, cut, operands))  # fmt: skip


@pytest.mark.parametrize(
    ("defined", "given", "measure"),
    [
        (0x7F, 0x7E, "inf"), (0x7F, 0xFF, "inf"), (0x7E, 0x7F, "inf"), (0x80, 0x00, "nan"),
        (0x01, 0x80, "nan"), (0x01, 0x81, "2"), (0x00, 0x81, "1"), (0x40, 0x3D, "3"), (0xC0, 0x40, "128"),
    ],
)  # fmt: skip
def test_kappa_of_one_wrong_result(defined, given, measure):
    """NaNs count before infinities, and these before steps; zero has one place."""
    same = p3109.Convert[E, E, HOW]

    def wrong(codes):
        return np.where(codes == defined, given, codes).astype(np.uint8)

    found = p3109.kappa(same, wrong)
    assert str(found.kappa) == measure
    assert (found.operands, found.result, found.defined, found.differ) == ((defined,), given, defined, 1)


def test_kappa_takes_all_pairs_and_both_zeros():
    add = p3109.Add["Binary6p3se", "Binary6p3se", "binary16", HOW]
    found = p3109.kappa(add, lambda x, y: np.where((made := add(x, y)) == 0, 0x8000, made))
    assert (found.kappa, found.tried, found.differ) == (0, 4096, 0)


def test_kappa_refuses_what_it_cannot_measure():
    refuses(
        TypeError, "and IsOne is none; take the scaled operation", lambda: p3109.kappa(f"IsOne<{E}>", np.abs)
    )
    same = p3109.Convert[E, E, HOW]
    refuses(TypeError, "the implementation must return codes of 'Binary8p4se', integers of shape (256,), not "
            "float64 of shape (256,)", lambda: p3109.kappa(same, lambda x: x * 1.0))  # fmt: skip
    refuses(ValueError, "are 0 to 255: 1 of 1 is not", lambda: p3109.kappa(same, same, ([0x140],)))
    refuses(TypeError, "must be integers, not float64", lambda: p3109.kappa(same, same, ([1.5],)))


# -- the page and the digests --------------------------------------------------------------------------------


def test_the_page_has_every_operation_and_a_test_that_checks_it():
    """No cell is empty, and every test that a row names is there."""
    text = p3109_page.PAGE.read_text()
    assert p3109_page.page(text) == text
    rows = [line.split(" | ") for line in p3109_page.table().splitlines()[2:]]
    assert len(rows) == len(p3109.OPERATIONS)
    assert all(len(row) == 5 and all(cell.strip(" |") for cell in row) for row in rows)
    command = [
        "-m", "pytest", "--collect-only", "-q", "-n", "0", "-m", "long or not long", agreement.__file__,
    ]  # fmt: skip
    collected = python(*command)
    for operation in p3109.OPERATIONS.values():
        assert p3109_page.checked(operation)[1] in collected


@pytest.mark.parametrize("fmt", ["Binary3p1ue", "Binary4p2se", "Binary4p3uf"])
def test_digests_are_those_of_the_file(fmt):
    """Of all 120 formats: python -m tests.sweep p3109 --check."""
    committed = p3109_sweep.read()
    assert p3109_sweep.row(fmt) == (fmt, [committed[fmt, name] for name in p3109_sweep.COLUMNS])
    assert {key for key, _ in committed} == set(agreement.FORMATS)


def test_digests_are_of_what_specializations_give():
    """Operations are done once and projected 18 times there."""
    fmt = "Binary5p2uf"
    x, y = (each.astype(np.uint8) for each in np.meshgrid(np.arange(32), np.arange(32), indexing="ij"))
    made = [p3109.ArcTan2[fmt, fmt, fmt, how](x, y).tobytes() for how in p3109_sweep.SPECIFICATIONS]
    digest = hashlib.sha256(b"".join(made)).hexdigest()[:16]
    assert digest == p3109_sweep.read()[fmt, "ArcTan2"]


# -- planted mistakes ----------------------------------------------------------------------------------------


def test_planted_mistakes_in_values_are_seen(monkeypatch):
    """Each is what the general verbs do, where the draft has another rule."""
    general = {
        "Divide": values._verb("divide"),
        "Recip": values._verb("reciprocal"),
        "RSqrt": values._verb("rsqrt"),
        "TanPi": values._verb("tanpi"),
        "Hypot": values._verb("hypot"),
        "ArcTan2": values._verb("atan2"),
        "ArcTan2Pi": values._verb("atan2pi"),
        "MinimumFinite": np.fmin,
        "MaximumMagnitude": np.maximum,
        "CopySign": np.copysign,
        "Clamp": lambda x, low, high: np.maximum(low, np.minimum(x, high)),
    }
    for name, wrong in general.items():
        monkeypatch.setattr(operations, "VALUES", {**values.VALUES, name: wrong})
        sources = ["Binary4p2se"] * len(p3109.OPERATIONS[name].operands)
        with pytest.raises(AssertionError):
            agreement.agrees(name, sources, "Binary4p2se", [HOW])


def test_planted_mistakes_in_projections_are_seen(monkeypatch):
    """Negative results of unsigned formats; external formats' zeros, NaNs and overflow."""
    every, external = agreement.SPECIFICATIONS, np.array([0x8000, 0x7BFF, 0x7C00, 0xFE00])

    def sees(module, name, wrong, *asked):
        with monkeypatch.context() as planted:
            planted.setattr(module, name, wrong)
            with pytest.raises(AssertionError):
                agreement.agrees(*asked)

    unsigned = ("Negate", ["Binary4p2se"], "Binary4p2ue", every)
    sees(projecting, "is_negative_invalid", lambda how: True, *unsigned)
    right = projecting.projection
    sees(
        projecting,
        "projection",
        lambda fmt, how: lp.Projection(saturation="finite", negative="zero"),
        *unsigned,
    )
    sees(projecting, "is_external", lambda fmt: False, "Negate", ["binary16"], "binary16", [HOW], [external])

    def after(fmt, how):
        return lp.Projection(rounding=right(fmt, how).rounding)

    to_odd = ("Add", ["binary16"] * 2, "binary16", [("ToOdd", "SatNone")], [external[1:2]] * 2)
    sees(projecting, "projection", after, *to_odd)
    agreement.agrees(*to_odd)


def test_planted_mistakes_in_sums_are_seen(monkeypatch):
    """A sum that is rounded to nearest on its way is not what three numbers make."""

    def rounded(x, y, z):
        return (x.astype(np.float32) + y.astype(np.float32)).astype(np.float64) + z

    monkeypatch.setattr(operations, "VALUES", {**values.VALUES, "FAA": rounded})
    with pytest.raises(AssertionError):
        agreement.agrees("FAA", [U] * 3, U, [("TowardPositive", "SatNone")], [[0xF0], [0x80], [0x01]])


def test_planted_mistakes_in_queries_are_seen(monkeypatch):
    monkeypatch.setattr(operations, "COMPARISONS", {**queries.COMPARISONS, "TotalOrder": np.less_equal})
    with pytest.raises(AssertionError):
        agreement.test_comparisons("TotalOrder")
    monkeypatch.setattr(queries, "_last", lambda fmt: fmt.max_magnitude)
    with pytest.raises(AssertionError):
        agreement.test_neighbours("Binary4p2se")


def test_importing_it_needs_no_functions():
    """python-flint is for functions alone: the rest works without it."""
    program = "import sys; sys.modules['flint'] = None; from lowprec import p3109; "
    program += f"print(p3109.Add[{E!r}, {E!r}, {E!r}, {HOW!r}](0x40, 0x40))"
    assert python("-c", program).strip() == "72"


def test_operands_of_the_draft_are_aligned_by_name_and_stay_lazy():
    """As in every verb: xarray by names, Dask by chunks; blocks are arrays in memory."""
    codes = (np.arange(9, dtype=np.uint8) * 7).reshape(3, 3)
    named, turned = xarray.DataArray(codes, dims=("i", "j")), xarray.DataArray(codes.T, dims=("j", "i"))
    lazy = dask.array.from_array(codes, chunks=(2, 1))
    eight = "Binary8p3se"
    add = p3109.Add[eight, eight, eight, ("NearestTiesToEven", "SatNone")]
    below, is_nan = p3109.CompareLess[eight, eight], p3109.IsNaN[eight]
    for call, operands in ((add, (codes, codes)), (below, (codes, codes[::-1])), (is_nan, (codes,))):
        want = call(*operands)
        made = call(*(dask.array.from_array(each, chunks=(2, 1)) for each in operands))
        assert isinstance(made, dask.array.Array)
        assert made.dtype == want.dtype
        np.testing.assert_array_equal(made.compute(), want)
    np.testing.assert_array_equal(add(named, turned).transpose("i", "j"), add(codes, codes))
    drawn = p3109.Add[eight, eight, eight, ("StochasticA[4]", "SatNone")]
    words = np.arange(9).reshape(3, 3)
    made = drawn(lazy, lazy, random=dask.array.from_array(words, chunks=2))
    np.testing.assert_array_equal(made.compute(), drawn(codes, codes, random=words))
    blocks = p3109.BlockAbs[3, eight, eight, eight, eight, ("NearestTiesToEven", "SatNone")]
    with pytest.raises(TypeError, match=r"takes blocks as arrays of NumPy; give"):
        blocks((codes[:, 0], named), codes[:, 0])


test_what_cannot_be_is_refused = refusal_test(
    globals(),
    """
p3109.Add[E, E, HOW]
    TypeError: Add is specialized by 4 parameters, Add<fx, fy, fr, ρ>, not by 3
p3109.Exp["e4m3fn", E, HOW]
    ValueError: Exp cannot be specialized by 'e4m3fn': it takes formats of P3109, such as 'Binary8p4se',
    and the external binary32, binary16 and BFloat16; for others use a verb such as lowprec.add
p3109.Exp["binary64", E, HOW]
    ValueError: Exp cannot be specialized by 'binary64': operations go through binary64, which must hold
    more than their formats; use 'binary32', or a verb such as lowprec.add on float64
p3109.Exp["Binary10p1ue", E, HOW]
    ValueError: Exp cannot be specialized by 'Binary10p1ue': its values do not lie between 2**-500 and
    2**500, so binary64 would not hold their products; use a verb such as lowprec.add
p3109.Exp[3, E, HOW]
    TypeError: Exp takes a format here, by name or as lowprec.Format, not 3
p3109.Exp["Binary8p4", E, HOW]
    ValueError: unknown format 'Binary8p4'...
p3109.Exp[E, E, ("NearestTiesEven", "SatNone")]
    ValueError: unknown rounding mode 'NearestTiesEven' of Exp, did you mean NearestTiesToEven...
p3109.Exp[E, E, ("ToOdd", "OvfInf")]
    ValueError: unknown saturation mode 'OvfInf' of Exp; use one of SatFinite, SatPropagate, SatNone
p3109.Exp[E, E, ("StochasticA[33]", "SatNone")]
    ValueError: bits=33 of stochastic rounding is out of range; use 1 to 32
p3109.Exp[E, E, "ToOdd"]
    TypeError: Exp takes a projection specification here, such as ('NearestTiesToEven', 'SatNone'), not
    'ToOdd'
p3109.BlockReduceAdd[0, U, E, E, HOW]
    ValueError: BlockReduceAdd takes a block size here, an integer of 1 or more, not 0
""",
)
