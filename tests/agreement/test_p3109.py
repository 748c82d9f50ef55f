"""`lowprec.p3109` against the draft's definitions, written down once more in `p3109_draft`."""

import hashlib
import itertools

import numpy as np
import pytest

from lowprec import p3109
from lowprec.p3109.queries import COMPARISONS, PREDICATES
from lowprec.p3109.values import VALUES
from lowprec.spec import catalog
from tests import p3109_sweep
from tests.agreement import p3109_draft as draft, p3109_reals as reals

SPECIFICATIONS = list(itertools.product(draft.ROUNDINGS, draft.SATURATIONS))
FORMATS = ["B" + fmt.name[1:] for fmt in catalog.P3109_UP_TO_8]
ONE = [name for name in VALUES if len(p3109.OPERATIONS[name].operands) == 1]
TWO = [name for name in VALUES if len(p3109.OPERATIONS[name].operands) == 2]
THREE = [name for name in VALUES if len(p3109.OPERATIONS[name].operands) == 3]


def width(name):
    return draft.named(name).K


def codes_of(name):
    return np.arange(1 << width(name), dtype=np.uint16)


def agrees(name, sources, target, specifications=SPECIFICATIONS, operands=None):
    """Compare an operation on given operands, or on all of them, with the draft."""
    operation = p3109.OPERATIONS[name]
    if operands is None:
        operands = np.meshgrid(*map(codes_of, sources), indexing="ij")
    operands = [np.asarray(each).reshape(-1) for each in operands]
    formats = [draft.named(each) for each in sources]
    numbers = [
        draft.OMEGA[name](*map(draft.decode, formats, row))
        for row in zip(*(o.tolist() for o in operands), strict=True)
    ]
    for rho in specifications:
        found = operation[(*sources, target, rho)](*operands)
        expected = np.array([draft.project(draft.named(target), rho, X) for X in numbers])
        wrong = np.flatnonzero(found != expected)[:3]
        assert not wrong.size, (
            name,
            sources,
            target,
            rho,
            [o[wrong] for o in operands],
            found[wrong],
            expected[wrong],
        )


def some(names, most):
    return [name for name in names if width(name) <= most]


@pytest.mark.apart
@pytest.mark.parametrize("name", ONE)
def test_operations_of_one_operand(name):
    """On every code of formats of both signednesses and domains, in half of all specifications each."""
    for place, fmt in enumerate(("Binary3p1se", "Binary4p3ue", "Binary4p1uf", "Binary4p2sf")):
        agrees(name, [fmt], fmt, SPECIFICATIONS[place // 2 :: 2])


@pytest.mark.apart
@pytest.mark.parametrize("name", TWO)
def test_operations_of_two_operands(name):
    """On every pair of codes of formats of both signednesses and domains, and into other formats."""
    for fmt in ("Binary3p1se", "Binary3p2uf", "Binary3p1ue"):
        agrees(name, [fmt, fmt], fmt)
    agrees(name, ["Binary4p2sf"] * 2, "Binary4p2sf", SPECIFICATIONS[::5])
    agrees(name, ["Binary4p2se", "Binary3p3uf"], "Binary3p2ue", SPECIFICATIONS[2::3])
    agrees(name, ["Binary3p1ue", "Binary4p1se"], "binary16", SPECIFICATIONS[1::6])


@pytest.mark.apart
@pytest.mark.parametrize("name", THREE)
def test_operations_of_three_operands(name):
    for fmt in ("Binary3p1se", "Binary3p2ue", "Binary3p2sf"):
        agrees(name, [fmt] * 3, fmt)
    agrees(name, ["Binary4p1se", "Binary3p1se", "Binary4p3ue"], "Binary4p2ue")


# -- the digests ---------------------------------------------------------------------------------------------

CLASSES = {member.name: member.value for member in p3109.ClassEnum}


def defined(name, fmt):
    """Return the digest of what the definitions give in a format, as `p3109_sweep.digest` has it."""
    f, codes, made = draft.named(fmt), range(1 << width(fmt)), hashlib.sha256()
    values = [draft.decode(f, code) for code in codes]
    if name in VALUES:
        operands = itertools.product(values, repeat=1 if name in ONE else 2)
        places: dict[object, int] = {}
        index = [places.setdefault(draft.OMEGA[name](*each), len(places)) for each in operands]
        for rho in p3109_sweep.SPECIFICATIONS:
            of_values = np.array([draft.project(f, rho, X) for X in places], np.uint8)
            made.update(of_values[index].tobytes())
    elif name in COMPARISONS:
        made.update(bytes(draft.COMPARE[name](X, Y) for X, Y in itertools.product(values, repeat=2)))
    elif name == "Class":
        made.update(bytes(CLASSES[draft.class_of(f, X)] for X in values))
    elif name in PREDICATES:
        made.update(bytes(draft.SAYS[name](f, X) for X in values))
    else:
        made.update(bytes(draft.next_value(f, code, name == "NextLessThan") for code in codes))
    return made.hexdigest()[:16]


def check_digests(fmt, names):
    """Compare digests of the file with the definitions': no result of lowprec is asked for."""
    committed = p3109_sweep.read()
    assert [name for name in names if committed[fmt, name] != defined(name, fmt)] == []


@pytest.mark.parametrize("fmt", ["Binary3p2ue", "Binary4p1se"])
def test_digests_of_small_formats_are_those_of_the_definitions(fmt):
    check_digests(fmt, p3109_sweep.COLUMNS)


@pytest.mark.long
@pytest.mark.parametrize("fmt", FORMATS)
def test_digests_of_one_operand_are_those_of_the_definitions(fmt):
    check_digests(fmt, [name for name in p3109_sweep.COLUMNS if name not in (*TWO, *COMPARISONS)])


@pytest.mark.long
@pytest.mark.parametrize("fmt", some(FORMATS, 6))
def test_digests_of_pairs_are_those_of_the_definitions(fmt):
    check_digests(fmt, [*TWO, *COMPARISONS])


@pytest.mark.long
@pytest.mark.parametrize("fmt", some(FORMATS, 4))
def test_operations_of_three_operands_on_formats_of_four_bits(fmt):
    for name in THREE:
        agrees(name, [fmt] * 3, fmt)


# -- external formats ----------------------------------------------------------------------------------------

#: Zeros, subnormals, normals, the largest, infinities, NaNs and others.
AIMED = {
    "binary32": "0 80000000 1 7fffff 800000 3f800000 bf800000 7f7fffff ff7fffff 7f800000 ff800000 7f800001 "
    "ffc00000 42f00000 c2f00000 3f000001 40490fdb",
    "binary16": "0 8000 1 3ff 400 3c00 bc00 7bff fbff 7c00 fc00 7c01 fe00 4900",
    "BFloat16": "0 8000 1 7f 80 3f80 bf80 7f7f ff7f 7f80 ff80 7f81 ffc0 4120",
}


EASY = ("Convert", "Negate", "Recip", "Exp", "Log", "Add", "Divide", "ArcTan2")


@pytest.mark.parametrize(
    "name", [name if name in EASY else pytest.param(name, marks=pytest.mark.long) for name in [*ONE, *TWO]]
)
@pytest.mark.parametrize("fmt", AIMED)
def test_external_formats(fmt, name):
    """No -0 comes in or goes out, and one NaN; overflow in every mode."""
    codes = np.array([int(code, 16) for code in AIMED[fmt].split()], np.uint32)
    operands = [codes] if name in ONE else [each.reshape(-1) for each in np.meshgrid(codes, codes)]
    agrees(name, [fmt] * len(operands), fmt, operands=operands)
    agrees(name, [fmt] * len(operands), "Binary8p1ue", SPECIFICATIONS[::5], operands)


# -- stochastic rounding -------------------------------------------------------------------------------------


@pytest.mark.parametrize("variant", "ABC")
@pytest.mark.parametrize("target", ["Binary4p2se", "Binary5p2ue", "Binary3p1uf", "Binary4p1sf"])
def test_stochastic_rounding(variant, target):
    """Every random integer of 3 bits, on every code of wider formats."""
    x, random = (each.reshape(-1) for each in np.meshgrid(np.arange(32), np.arange(8)))
    for name, source, saturation in itertools.product(
        ("Convert", "Exp"), ("Binary5p3se", "Binary5p2ue"), draft.SATURATIONS
    ):
        rho = (f"Stochastic{variant}[3]", saturation)
        found = p3109.OPERATIONS[name][source, target, rho](x, random=random)
        fmt = draft.named(source)
        numbers = [draft.OMEGA[name](draft.decode(fmt, code)) for code in x.tolist()]
        expected = [
            draft.project(draft.named(target), rho, X, R)
            for X, R in zip(numbers, random.tolist(), strict=True)
        ]
        assert found.tolist() == expected


# -- what values and formats are -----------------------------------------------------------------------------


@pytest.mark.parametrize("name", COMPARISONS)
def test_comparisons(name):
    for fx, fy in [*((fmt, fmt) for fmt in some(FORMATS, 4)), ("Binary5p2se", "Binary4p4ue")]:
        x, y = (each.reshape(-1) for each in np.meshgrid(codes_of(fx), codes_of(fy)))
        expected = [
            draft.COMPARE[name](draft.decode(draft.named(fx), a), draft.decode(draft.named(fy), b))
            for a, b in zip(x.tolist(), y.tolist(), strict=True)
        ]
        assert p3109.OPERATIONS[name][fx, fy](x, y).tolist() == expected


@pytest.mark.parametrize("fmt", [*FORMATS, "binary16", "BFloat16"])
def test_predicates_and_classes(fmt):
    f, codes = draft.named(fmt), codes_of(fmt)[:: 1 if width(fmt) <= 8 else 61]
    values = [draft.decode(f, code) for code in codes.tolist()]
    for name in PREDICATES:
        found = p3109.OPERATIONS[name][fmt](codes).tolist()
        if name == "Class":
            assert [p3109.ClassEnum(each).name for each in found] == [draft.class_of(f, X) for X in values]
        else:
            assert found == [draft.SAYS[name](f, X) for X in values]


@pytest.mark.parametrize(
    "fmt", [fmt if width(fmt) < 5 else pytest.param(fmt, marks=pytest.mark.long) for fmt in FORMATS]
)
def test_neighbours(fmt):
    f, codes = draft.named(fmt), codes_of(fmt)
    for name, down in {"NextGreaterThan": False, "NextLessThan": True}.items():
        expected = [draft.next_value(f, code, down) for code in codes.tolist()]
        assert p3109.OPERATIONS[name][fmt](codes).tolist() == expected


@pytest.mark.parametrize("fmt", [*FORMATS, *draft.EXTERNAL])
def test_operations_on_formats(fmt):
    f = draft.named(fmt)
    values = sorted(
        {draft.decode(f, code) for code in range(1 << min(f.K, 8))} - {reals.NAN, reals.INF, reals.NINF}
    )
    least = next(value for value in values if value > 0)
    normal = [value for value in values if draft.is_normal(f, value) and value > 0]
    subnormal = [value for value in values if draft.is_subnormal(f, value) and value > 0]
    if f.external:
        normal, subnormal = [reals.two(1 - f.B)], [reals.two(1 - f.B) - least]
    expected = {
        "BitwidthOf": f.K,
        "PrecisionOf": f.P,
        "SignednessOf": "Signed" if f.signed else "Unsigned",
        "DomainOf": "Extended" if f.extended else "Finite",
        "ExponentBitwidthOf": f.K - f.P + (not f.signed),
        "TrailingSignificandBitwidthOf": f.P - 1,
        "ExponentBiasOf": f.B,
        "MaxFiniteOf": draft.encode(f, draft.largest(f)),
        "MinFiniteOf": draft.encode(f, -draft.largest(f) if f.signed else 0 * least),
        "MinPositiveOf": draft.encode(f, least),
        "MaxSubnormalOf": draft.encode(f, max(subnormal, default=reals.NAN)),
        "MinNormalOf": draft.encode(f, min(normal)),
    }
    assert {name: p3109.OPERATIONS[name](fmt) for name in expected} == expected


def test_operations_on_projection_specifications():
    assert p3109.RoundOf(("ToOdd", "SatNone")) == "ToOdd"
    assert p3109.SatOf(("StochasticA[4]", "SatPropagate")) == "SatPropagate"
    assert p3109.specialization("RoundOf<(TowardZero, SatFinite)>")() == "TowardZero"


# -- blocks --------------------------------------------------------------------------------------------------

#: Formats of operands' scales and elements, of the result's scale and elements.
SHAPES = [
    ("Binary4p1uf", "Binary4p2se", "Binary3p1ue", "Binary4p3se"),
    ("Binary4p3ue", "Binary3p2uf", "Binary4p2se", "Binary4p2ue"),
    ("Binary8p1uf", "Binary8p4se", "Binary8p4se", "binary16"),
    ("binary16", "Binary5p1sf", "Binary3p2sf", "Binary6p3uf"),
]
MODES = [
    ("NearestTiesToEven", "SatNone"),
    ("TowardPositive", "SatNone"),
    ("TowardNegative", "SatPropagate"),
    ("ToOdd", "SatNone"),
    ("StochasticB[4]", "SatFinite"),
]
SIZE, BLOCKS = 3, 12


def drawn(shape, seed):
    """Codes of scales and elements, of the result's scales, and random integers."""
    generator = np.random.default_rng(seed)
    fs, fx, fr, _ = map(width, shape)
    scales, elements = (
        generator.integers(0, 1 << fs, (3, BLOCKS)),
        generator.integers(0, 1 << fx, (3, BLOCKS, SIZE)),
    )
    scales[:, 0] = 0
    return scales, elements, generator.integers(0, 1 << fr, BLOCKS), generator.integers(0, 16, (BLOCKS, SIZE))


def with_random(rho, integers):
    return {"random": integers} if rho[0].startswith("Stochastic") else {}


@pytest.mark.parametrize("name", VALUES)
def test_operations_on_blocks_and_scaled_ones(name):
    """Element after element, rounded once; scales that are zero, infinite and NaN among them."""
    for number, (shape, rho) in enumerate(zip(SHAPES * 2, MODES * 2, strict=False)):
        fs, fx, fsr, fr = shape
        s, x, sr, integers = drawn(shape, number)
        count = len(p3109.OPERATIONS[name].operands)
        f = {each: draft.named(each) for each in shape}
        rows, single = [], []
        for i in range(BLOCKS):
            decoded = [draft.block_decode(f[fs], f[fx], int(s[k, i]), x[k, i].tolist()) for k in range(count)]
            made = [draft.OMEGA[name](*each) for each in zip(*decoded, strict=True)]
            random = integers[i].tolist()
            rows.append(draft.block_project(f[fsr], f[fr], rho, int(sr[i]), made, random))
            single.append([draft.project(f[fr], rho, X, R) for X, R in zip(made, random, strict=True)])
        keywords = with_random(rho, integers)
        block = p3109.OPERATIONS[f"Block{name}"][(SIZE, *[(fs, fx)] * count, fsr, fr, rho)]
        scale, found = block(*((s[k], x[k]) for k in range(count)), sr, **keywords)
        assert (scale.tolist(), found.tolist()) == (sr.tolist(), rows), block
        scaled = p3109.OPERATIONS[f"Scaled{name}"][(*[(fs, fx)] * count, fr, rho)]
        operands = [each for k in range(count) for each in (s[k][:, None], x[k])]
        assert scaled(*operands, **keywords).tolist() == single, scaled


@pytest.mark.parametrize("rho", MODES)
@pytest.mark.parametrize("shape", SHAPES)
def test_conversions_of_blocks(shape, rho):
    fs, fx, fsr, fr = shape
    (s, _, _), (x, _, _), sr, integers = drawn(shape, 1)
    f, keywords = {each: draft.named(each) for each in shape}, with_random(rho, integers)
    found = p3109.ConvertFromBlock[SIZE, fs, fx, fr, rho](s, x, **keywords)
    kept, to = p3109.ConvertToBlock[SIZE, fx, fsr, fr, rho](x, sr, **keywords)
    assert kept.tolist() == sr.tolist()
    by = ("TowardPositive", "SatNone") if rho[0] != "ToOdd" else ("TowardZero", "SatFinite")
    scales, by_max = p3109.ConvertToBlockMaxAbsFinite[SIZE, fx, fsr, fr, by, rho](x, **keywords)
    for i in range(BLOCKS):
        random = integers[i].tolist()
        numbers = draft.block_decode(f[fs], f[fx], int(s[i]), x[i].tolist())
        assert found[i].tolist() == [
            draft.project(f[fr], rho, X, R) for X, R in zip(numbers, random, strict=True)
        ]
        numbers = [draft.decode(f[fx], int(each)) for each in x[i]]
        assert to[i].tolist() == draft.block_project(f[fsr], f[fr], rho, int(sr[i]), numbers, random)
        largest = draft.reduced(draft.OMEGA["MaximumFinite"], [reals.NAN, *map(reals.absolute, numbers)])
        assert scales[i] == draft.project(f[fsr], by, largest)
        assert by_max[i].tolist() == draft.block_project(f[fsr], f[fr], rho, int(scales[i]), numbers, random)


@pytest.mark.parametrize("rho", [*SPECIFICATIONS, *MODES[-1:]])
@pytest.mark.parametrize("shape", SHAPES)
def test_reductions(shape, rho):
    fs, fx, _, fr = shape
    s, x, _, integers = drawn(shape, 2)
    f, random = {each: draft.named(each) for each in shape}, integers[:, 0]
    keywords = with_random(rho, random)
    total = p3109.BlockReduceAdd[SIZE, fs, fx, fr, rho]((s[0], x[0]), **keywords)
    made = p3109.BlockReduceMultiply[SIZE, fs, fx, fr, rho]((s[0], x[0]), **keywords)
    dot = p3109.BlockDotProduct[SIZE, fs, fx, fs, fx, fr, rho]((s[0], x[0]), (s[1], x[1]), **keywords)
    zero, one = 0 * reals.two(0), reals.two(0)
    for i in range(BLOCKS):
        first, second = (draft.block_decode(f[fs], f[fx], int(s[k, i]), x[k, i].tolist()) for k in range(2))
        R = int(random[i])
        assert total[i] == draft.project(f[fr], rho, draft.reduced(reals.add, [zero, *first]), R)
        assert made[i] == draft.project(f[fr], rho, draft.reduced(reals.multiply, [one, *first]), R)
        products = map(reals.multiply, first, second)
        assert dot[i] == draft.project(f[fr], rho, draft.reduced(reals.add, [zero, *products]), R)
