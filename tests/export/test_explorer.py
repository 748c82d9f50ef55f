"""The explorer in a real browser: each answer of its scripts against the oracle, as exact text."""

import dataclasses
import itertools
import random
from fractions import Fraction

import pytest

from lowprec.export.explorer_page import page
from lowprec.export.tabulate import classify
from lowprec.oracle import block as blocks, codebook
from lowprec.oracle.convert import decode, project, value_of
from lowprec.oracle.exact import Special
from lowprec.spec.block import RULES
from lowprec.spec.catalog import BLOCK_FORMATS, FORMATS
from lowprec.spec.codebook import Codebook
from lowprec.spec.codebooks import ENTRIES, named
from lowprec.spec.profiles import PROFILES
from lowprec.spec.projection import Projection, Saturation
from lowprec.spec.rounding import MODES

pytestmark = pytest.mark.apart

NARROW = [
    *(fmt for fmt in FORMATS.values() if fmt.width <= 8),
    *(named(name) for name, entry in ENTRIES.items() if entry.width <= 8),
]
SPECIALS = (*Special, Fraction(0))

CODES = """name => { const fmt = FORMATS[name];
  return [...Array(1 << Number(fmt.width)).keys()].map(BigInt).map(code =>
    [fractionText(decode(code, fmt)), classOf(code, fmt).toLowerCase()]); }"""
ROUNDED = """([name, texts, saturations]) => { const fmt = FORMATS[name];
  return DATA.modes.map(rounding => saturations.map(saturation => texts.map(text => {
    try { return Number(project(parse(text), fmt, {...DEFAULT, rounding, saturation})); }
    catch (error) { if (error instanceof Refused) return null; throw error; } }))); }"""
BLOCK = """([name, rule, blocks]) => blocks.map(texts => {
  const values = texts.map(parse), block = BLOCKS[name];
  try { const { scale, codes } = encodeBlock(values, block, RULES[rule], tensorScale(values, block));
    return [Number(scale), codes.map(Number)]; }
  catch (error) { if (error instanceof Refused) return null; throw error; } })"""
PROFILED = """([profile, name, texts]) => { const how = makeProjection(DATA.profiles[profile].formats[name]);
  return texts.map(text => { try { return Number(project(parse(text), FORMATS[name], how)); }
    catch (error) { if (error instanceof Refused) return null; throw error; } }); }"""


def _text(value):
    return value.value if isinstance(value, Special) else str(value)


def _projected(value, fmt, how):
    try:
        return project(value, fmt, how)
    except ValueError:
        return None


def _points(fmt):
    """Values, ties and thresholds of a format, what is next to each, and what is beyond, of both signs."""
    if isinstance(fmt, Codebook):
        points = codebook.points(fmt, False) | codebook.points(fmt, True)
    else:
        grid = [value_of(magnitude, fmt) for magnitude in range(fmt.max_magnitude + 4)]
        points = {*grid, *((low + high) / 2 for low, high in itertools.pairwise(grid))}
    near = Fraction(1, 1 << 40)
    sizes = {size for point in points for size in (point, point * (1 - near), point * (1 + near)) if size}
    return [*SPECIALS, *sorted({*sizes, *(-size for size in sizes)})]


@pytest.mark.parametrize("fmt", NARROW, ids=str)
def test_every_code_has_its_exact_value_and_class(tab, fmt):
    """All codes of all formats and codebooks of at most 8 bits."""
    want = [[_text(decode(code, fmt)), classify(code, fmt)] for code in range(1 << fmt.width)]
    assert tab.evaluate(CODES, fmt.name) == want


@pytest.mark.parametrize(
    "name", ["e4m3fn", "e5m2", "e8m0fnu", "int8f6", "e4m3fnuz", "posit8", "nf4", "iq4_nl"]
)
def test_every_mode_and_saturation_at_all_ties(tab, name):
    """Values, ties and their neighbours, and specials."""
    fmt = named(name) or FORMATS[name]
    points = _points(fmt)
    policies = [each.value for each in Saturation]
    want = [
        [
            [_projected(x, fmt, Projection(rounding=mode, saturation=each)) for x in points]
            for each in policies
        ]
        for mode in MODES
    ]
    assert tab.evaluate(ROUNDED, [name, [_text(x) for x in points], policies]) == want


@pytest.mark.parametrize(
    ("right", "wrong"),
    [
        ('case "above_half": return twice > tail.d;', 'case "above_half": return twice >= tail.d;'),
        ("nearer % 2n === 1n) ? 1n : 0n", "nearer % 2n === 0n) ? 1n : 0n"),
        ("if (nearer > last) nearer = last;", "if (nearer >= last) nearer = last - 1n;"),
    ],
    ids=["ties away from zero", "ties to odd", "the largest value lost"],
)
def test_a_mistake_in_the_script_is_found(open_page, right, wrong):
    """Planted in a copy of the page: the same comparison as above fails, on ties of e4m3fn."""
    source = page()
    assert source.count(right) == 1
    planted, fmt = open_page(source.replace(right, wrong)), FORMATS["e4m3fn"]
    points = _points(fmt)
    want = [[[_projected(x, fmt, Projection(rounding=mode)) for x in points]] for mode in MODES]
    asked = ["e4m3fn", [_text(x) for x in points], ["none"]]
    assert planted.evaluate(ROUNDED, asked) != want
    assert open_page(source).evaluate(ROUNDED, asked) == want


@pytest.mark.parametrize("profile", [each for each in PROFILES.values() if each.name != "p3109"], ids=str)
def test_profiles_answer_as_the_oracle_does(tab, profile):
    """Specials, and numbers around the limits of each format of the catalog."""
    for fmt in FORMATS.values():
        if fmt not in profile.formats:
            continue
        if profile.projection(fmt).rounding.bits:  # no answer without random integers
            continue
        most = Fraction(fmt.max_finite)
        sizes = [value_of(magnitude, fmt) / 2 for magnitude in (0, 1, 2, 3)]
        sizes += [most, most * Fraction(33, 32), most * Fraction(17, 16), 2 * most, 8 * most, Fraction(1, 3)]
        points = [*SPECIALS, *(sign * size for size in sizes if size for sign in (1, -1))]
        want = [_projected(x, fmt, profile.projection(fmt)) for x in points]
        asked = [profile.name, fmt.name, [_text(x) for x in points]]
        assert tab.evaluate(PROFILED, asked) == want, fmt.name


def test_an_address_restores_what_was_chosen(tab):
    """Format, code and number are in the fragment; the space bar toggles the bit that has the focus."""
    tab.evaluate("location.hash = '#f=e5m2&c=7b&x=1/3'; undefined")
    tab.wait_for_function("state.format === 'e5m2'")
    assert tab.evaluate("[state.code.toString(16), state.number]") == ["7b", "1/3"]
    tab.focus("[data-bit='7']")
    tab.keyboard.press("Space")
    assert tab.evaluate("[state.code.toString(16), document.activeElement.dataset.bit]") == ["fb", "7"]
    assert "c=fb" in tab.evaluate("location.hash")


def _encoded(values, fmt):
    try:
        scale, codes = blocks.encode(values, fmt, blocks.tensor_scale(values, fmt))
    except ValueError:
        return None
    return [scale, codes]


@pytest.mark.parametrize("fmt", list(BLOCK_FORMATS.values()), ids=str)
def test_blocks_are_the_oracles_under_every_rule(tab, fmt):
    """Drawn values of all sizes, largest magnitudes near powers of two and the element's own, specials."""
    draw, most = random.Random(0), Fraction(fmt.element.max_finite)
    tops = [Fraction(1), Fraction(3, 2), Fraction(7, 4), most, most * Fraction(5, 4), Fraction(2) ** -140]
    drawn = [
        [top, *(top * Fraction(draw.randint(-255, 255), 256) for _ in range(7))]
        for each in tops
        for top in (each, each * Fraction(4097, 4096), each * Fraction(4095, 4096))
    ]
    tried = [*drawn, [Fraction(0)] * 3, [Special.NEGATIVE_ZERO], *([Fraction(2), each] for each in Special)]
    texts = [[_text(value) for value in values] for values in tried]
    for rule in RULES:
        try:
            ruled = dataclasses.replace(fmt, rule=rule)
        except ValueError:  # a rule that asks for the precision of a codebook
            continue
        want = [_encoded(values, ruled) for values in tried]
        assert tab.evaluate(BLOCK, [fmt.name, rule.name, texts]) == want, rule.name
