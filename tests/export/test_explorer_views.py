"""What the explorer shows of a code, formats defined on it, its address and its use without a mouse."""

import random
from fractions import Fraction

import pytest

from lowprec.export.explorer_page import page
from lowprec.oracle import block as blocks
from lowprec.oracle.convert import decode, project
from lowprec.oracle.exact import Special
from lowprec.oracle.order import nextafter, ulp
from lowprec.spec.catalog import BLOCK_FORMATS, FORMATS
from lowprec.spec.codebook import TIES, Codebook
from lowprec.spec.codebooks import named
from lowprec.spec.format import Format, Sign
from lowprec.spec.projection import DEFAULT, Projection
from lowprec.spec.rounding import MODES

pytestmark = pytest.mark.apart

SHOWN = [
    *(
        FORMATS[name]
        for name in ("e4m3fn", "e5m2", "e4m3fnuz", "e2m1fn", "ue4m3", "e8m0fnu", "int8f6", "int4")
    ),
    *(named(name) for name in ("posit8", "nf4", "iq4_nl", "udynamic8")),
]
NEAR = """name => { const fmt = FORMATS[name];
  const number = code => (code === null ? null : Number(code));
  return [...Array(1 << Number(fmt.width)).keys()].map(BigInt).map(code => {
    const gap = ulpOf(code, fmt);
    const beside = [-1, 1].map(step => number(neighbour(code, fmt, step)));
    return [...beside, gap && fractionText(gap)]; }); }"""
INTERVALS = """([name, mode]) => { const fmt = FORMATS[name];
  const end = each => each && [fractionText(each.at), each.closed];
  return [...Array(1 << Number(fmt.width)).keys()].map(BigInt).map(code => {
    const found = intervalOf(code, fmt, MODES[mode]);
    return found && [end(found.low), end(found.high)]; }); }"""
DEFINED = """texts => texts.map(text => { try { const fmt = definedFormat(text);
  const count = 1 << Math.min(Number(fmt.width), 8);
  return [...Array(count).keys()].map(code => fractionText(decode(BigInt(code), fmt)));
  } catch (error) { if (error instanceof Refused) return null; throw error; } })"""
ROUNDED = """([text, numbers]) => { const fmt = definedFormat(text);
  return numbers.map(number => { try { return Number(project(parse(number), fmt, DEFAULT)); }
    catch (error) { if (error instanceof Refused) return null; throw error; } }); }"""
TILES = """([name, text]) => { update({ block: name, values: text });
  const block = BLOCKS[name], rows = typedRows();
  const tensor = tensorScale(rows.flat(), block);
  return blocksOf(rows, block).map(({ values }) => {
    const { scale, codes } = encodeBlock(values, block, RULES[block.rule], tensor);
    return [Number(scale), codes.map(Number)]; }); }"""


def _text(value):
    return value.value if isinstance(value, Special) else str(value)


def _projected(value, fmt, how=DEFAULT):
    try:
        return project(value, fmt, how)
    except ValueError:
        return None


@pytest.mark.parametrize("fmt", SHOWN, ids=str)
def test_neighbours_and_ulps_of_every_code(tab, fmt):
    """As nextafter toward the infinities has them; nothing where that stays at the same value."""
    near = tab.evaluate(NEAR, fmt.name)
    for code, (below, above, gap) in enumerate(near):
        value = decode(code, fmt)
        assert gap == (None if ulp(value, fmt) is None else str(ulp(value, fmt))), hex(code)
        for end, found in ((Special.NEGATIVE_INFINITY, below), (Special.INFINITY, above)):
            want = nextafter(value, end, fmt) if value != end else None
            same = want is not None and _same(decode(want, fmt), value)
            assert found == (None if same else want), hex(code)


def _same(x, y):
    return x == y or {x, y} == {Fraction(0), Special.NEGATIVE_ZERO}


@pytest.mark.parametrize("mode", MODES, ids=str)
def test_the_numbers_rounded_to_every_code(tab, mode):
    """An end is inside where it says so, and what is just beyond it becomes another code."""
    how, tiny = Projection(rounding=mode), Fraction(1, 1 << 400)
    for fmt in SHOWN:
        for code, interval in enumerate(tab.evaluate(INTERVALS, [fmt.name, mode.name])):
            value = decode(code, fmt)
            finite = not isinstance(value, Special) or value is Special.NEGATIVE_ZERO
            assert (interval is not None) == finite, (fmt.name, hex(code))
            if interval is None:
                continue
            number = value if isinstance(value, Fraction) else Fraction(0)
            for end, step in zip(interval, (-1, 1), strict=True):
                if end is None:
                    assert _projected(step * Fraction(2) ** 1100, fmt, how) == code, (fmt.name, hex(code))
                    continue
                at, closed = Fraction(end[0]), end[1]
                assert _projected(at + step * tiny, fmt, how) != code, (fmt.name, hex(code), step)
                assert at == number or _projected(at - step * tiny, fmt, how) == code, (fmt.name, hex(code))
                if at:  # which of two zeros it becomes says the sign
                    assert (_projected(at, fmt, how) == code) == closed, (fmt.name, hex(code), step)


def test_formats_defined_on_the_page_are_the_packages(tab):
    """Drawn parameters: the same values of the first 256 codes, and the same refusals."""
    draw, texts, want = random.Random(1), [], []
    for _ in range(600):
        e, t, bias, nans = draw.randint(0, 9), draw.randint(0, 7), draw.randint(-20, 300), draw.randint(0, 4)
        sign, marks = draw.choice(list(Sign)), [draw.random() < 0.3 for _ in range(3)]
        named_marks = ("infinity", "no_negative_zero", "no_subnormals")
        said = [mark for mark, chosen in zip(named_marks, marks, strict=True) if chosen]
        texts.append(",".join(["binary", *map(str, (e, t, bias)), sign.value, str(nans), *said]))
        try:
            fmt = Format(
                name="mine", exponent_bits=e, trailing_bits=t, bias=bias, sign=sign, nans=nans,
                infinity=marks[0], negative_zero=not marks[1], subnormals=not marks[2],
            )  # fmt: skip
        except ValueError:
            want.append(None)
        else:
            want.append([_text(decode(code, fmt)) for code in range(1 << min(fmt.width, 8))])
    assert 50 < sum(each is None for each in want) < 550
    assert tab.evaluate(DEFINED, texts) == want


@pytest.mark.parametrize(
    "values",
    [
        [0.0, 1.0, 2.0, 4.0, -1.0, -2.0, -4.0, float("nan")],
        [0.0, -0.0, 0.1, -0.3, 1.0, -1.0, float("inf"), float("-inf")],
        [1.0, 3.0, 10.0, 11.0],
        [-5.0, -2.0, 1.0, 3.0],
        [0.0, 2.0, 1e300, 5e-324],
    ],
)
@pytest.mark.parametrize("ties", TIES)
def test_codebooks_defined_on_the_page_round_as_the_packages(tab, values, ties):
    """Values, thresholds, what is beside them and specials; refused where the package refuses."""
    text = ",".join(["codebook", ties, " ".join(map(repr, values))])
    try:
        fmt = Codebook("mine", values, ties=ties)
    except ValueError:
        assert tab.evaluate(DEFINED, [text]) == [None]
        return
    points = [Fraction(each) for each in (*fmt.thresholds, *(x for x in values if abs(x) < float("inf")))]
    near = [
        point * factor for point in points for factor in (1, 2, Fraction(8191, 8192), Fraction(8193, 8192))
    ]
    tried = [*Special, Fraction(0), *near]
    assert tab.evaluate(ROUNDED, [text, [_text(x) for x in tried]]) == [_projected(x, fmt) for x in tried]


@pytest.mark.parametrize(
    "text",
    [
        "codebook,even,1 2 3",
        "codebook,even,1 1 2 3",
        "codebook,even,-0 1 2 3",
        "codebook,even,1 2 3 x",
        "codebook,odd,1 2 3 4",
        "binary,4,3",
        "other",
    ],
)
def test_definitions_that_are_no_format_are_refused(tab, text):  # fmt: skip
    """Too few values, equal ones, -0 alone, no number, an unknown rule, too few fields, an unknown kind."""
    assert tab.evaluate(DEFINED, [text]) == [None]


@pytest.mark.parametrize("fmt", list(BLOCK_FORMATS.values()), ids=str)
def test_rows_are_cut_into_blocks(tab, fmt):
    """18 rows of 35 values: blocks along one axis or two, short ones at the edges, one tensor scale."""
    draw = random.Random(2)
    rows = [[Fraction(draw.randint(-4096, 4096), 512) for _ in range(35)] for _ in range(18)]
    down, along = fmt.sizes if len(fmt.sizes) == 2 else (1, fmt.sizes[0])
    tensor = blocks.tensor_scale([x for row in rows for x in row], fmt)
    want = []
    for i in range(0, 18, down):
        for j in range(0, 35, along):
            scale, codes = blocks.encode(
                [x for row in rows[i : i + down] for x in row[j : j + along]], fmt, tensor
            )
            want.append([scale, codes])
    text = "\n".join(" ".join(map(str, row)) for row in rows)
    assert tab.evaluate(TILES, [fmt.name, text]) == want
    assert f"block {len(want)}:" in tab.text_content("#scale")


def test_the_address_holds_every_choice(open_page):
    """Choices made by the page's own fields are shown by a page that is opened with the same address."""
    first = open_page(page())
    first.click("text=Define a format")
    first.fill("#own-e", "3")
    first.fill("#own-bias", "3")
    first.click("text=Use this format")
    first.fill("#hex", "0x2b")
    first.select_option("#mode", "toward_zero")
    first.select_option("#line-scale", "logarithmic")
    first.click("#zoom-in")
    first.click("#line-right")
    first.fill("#number", "1/3")
    first.select_option("#block", "nvfp4_2d")
    first.select_option("#rule", "even")
    first.click("#random")
    first.fill("#search", "normal")
    first.click("#page-on")
    first.select_option("#theme", "dark")
    chosen = first.evaluate("JSON.stringify({...state, code: state.code.toString()})")
    second = open_page(page(), first.evaluate("location.hash"))
    assert second.evaluate("JSON.stringify({...state, code: state.code.toString()})") == chosen
    seen = "document.querySelector('main').innerText + document.querySelector('#drawing').innerHTML"
    for tab in (first, second):
        tab.evaluate("document.querySelector('details').open = true; document.activeElement.blur()")
    assert first.evaluate(seen) == second.evaluate(seen)
    assert first.evaluate("Object.entries(FIRST).filter(([name, said]) => state[name] === said)") == []


@pytest.mark.parametrize("word", ["nonsense", "constructor", "__proto__", "hasOwnProperty"])
def test_an_address_that_is_damaged_is_left_out(open_page, word):
    """What no choice can be falls back to the first one; names that every object of JavaScript has, too."""
    others = (
        f"m={word}&l={word}&b={word}&r={word}&t={word}&d=codebook,{word},1 2 3 4&p=codebook,{word},1 2 3 4"
    )
    tab = open_page(page(), f"#f={word}&c=zz&z=-1&o=a&s=1.5&{others}")
    assert tab.evaluate("Object.entries(FIRST).filter(([name, said]) => state[name] !== said)") == []
    assert tab.text_content("#address-said") == f"This page has no format {word}; it shows e4m3fn."
    assert tab.inner_text("#codes tbody").split()[:3] == ["0x00", "00000000", "0"]
    tab.fill("#hex", "0x38")
    assert tab.text_content("#address-said") == ""


@pytest.mark.parametrize(
    ("said", "fields"),
    [
        *(
            (f"{letter}=binary,4,3,{bias},magnitude,1&f=mine", [])
            for letter in "dp"
            for bias in (-9999999999, -999999999)
        ),
        ("d=binary,30,1,0,unsigned,0&f=mine", []),
        ("p=codebook,even,1e99999 0 1 2&f=mine", []),
        *((f"x={number}", ["number"]) for number in ("1e99999/3", "0x1p-99999", "99^9999", "1e-99999")),
        ("v=1e99999 1e-99999 3", ["values"]),
        ("z=41", []),
    ],
)
def test_an_address_of_numbers_beyond_all_measure_is_shown_at_once(open_page, said, fields):
    """The page stood still, was drawn by half, or had lines at no place."""
    tab = open_page(page(), f"#{said}")
    assert tab.evaluate("Object.keys(FIRST).filter(name => state[name] !== FIRST[name])") == fields
    wrong = "That is no number, or one that is too long." if fields == ["number"] else ""
    assert tab.text_content("#number-error") == wrong
    assert tab.inner_text("#codes tbody").split()[:3] == ["0x00", "00000000", "0"]
    assert "NaN" not in tab.evaluate(
        "[...document.querySelectorAll('[x1]')].map(each => each.getAttribute('x1')).join()"
    )


OTHERS = [
    Format(name="tiny", exponent_bits=3, trailing_bits=2, bias=9, sign=Sign.UNSIGNED, nans=1),
    Format(name="spent", exponent_bits=2, trailing_bits=1, negative_zero=False, nans=1, infinity=True),
    Format(name="fixed", exponent_bits=0, trailing_bits=6, bias=-3, sign=Sign.TWOS_COMPLEMENT),
    Format(name="wide", exponent_bits=8, trailing_bits=23, bias=126, nans=(1 << 23) - 1, infinity=True),
    Format(name="e4m3fn", exponent_bits=3, trailing_bits=4, bias=4, nans=1, subnormals=False),
    Format(name="mine", exponent_bits=2, trailing_bits=2, bias=0),
    Codebook("book", [0.0, -0.0, 0.1, -0.3, 2.0**-40, float("nan"), float("inf"), -2.0], ties="even"),
    Codebook("away", [float(2**70 + 2**20), 3.0, 10.0, -11.0], ties="away"),
]  # fmt: skip
SHOWN_VALUES = """([...Array(256).keys()].map(code => BigInt(code) * 31n)
  .map(code => fractionText(decode(code & ((1n << currentFormat().width) - 1n), currentFormat()))))"""


@pytest.mark.parametrize("fmt", OTHERS, ids=str)
def test_an_address_carries_a_format_that_other_pages_lack(open_page, fmt):
    """Defined there by its parameters, whatever format of that name the other page has; kept on its own."""
    own = open_page(page([fmt], fmt.name))
    own.fill("#hex", "0x1")
    address = own.evaluate("location.hash")
    other = open_page(page(), address)
    assert other.evaluate("state.format") == "mine"
    assert other.evaluate(SHOWN_VALUES) == own.evaluate(SHOWN_VALUES)
    assert other.evaluate("state.code.toString()") == "1"
    assert other.text_content("#address-said") == (
        "" if fmt.name == "mine" else f"The address defines {fmt.name}, which is mine on this page."
    )
    again = open_page(page([fmt]), address)
    assert again.evaluate("[state.format, state.definition]") == [fmt.name, ""]
    assert again.text_content("#address-said") == ""
    back = open_page(page([OTHERS[5]]), other.evaluate("location.hash"))
    assert back.evaluate(SHOWN_VALUES) == own.evaluate(SHOWN_VALUES)


def test_a_format_that_an_address_cannot_carry_is_named(open_page):
    """A codebook with thresholds of its own: the other page says what it lacks."""
    book = Codebook("odd", [0.0, 1.0, 2.0, 4.0], thresholds=[0.25, 1.5, 3.0])
    own = open_page(page([book], "odd"))
    other = open_page(page(), own.evaluate("location.hash"))
    assert other.text_content("#address-said") == "This page has no format odd; it shows e4m3fn."


@pytest.mark.parametrize(
    ("name", "code", "value", "below", "above"),
    [
        ("binary32", "40490fdb", "≈3.1415927", "≈3.1415925", "≈3.141593"),
        ("binary32", "7f7fffff", "≈3.4028235e+38", "≈3.4028233e+38", "Inf"),
        ("binary32", "1", "≈1.4013e−45", "0", "≈2.8026e−45"),
        ("e4m3fn", "3c", "1.5", "1.375", "1.625"),
    ],
)
def test_neighbours_are_told_apart(open_page, name, code, value, below, above):
    tab = open_page(page(), f"#f={name}&c={code}")
    assert tab.text_content("#value") == value
    said = [tab.text_content(f"dd[data-fact='next {side}']").split("  ")[0] for side in ("below", "above")]
    assert said == [below, above]


@pytest.mark.parametrize("code", ["3f8ccccd", "40490fdb", "7f7ffff0", "123", "00800000", "c0490fdb"])
def test_rows_results_and_intervals_are_told_apart(open_page, code):
    """Of binary32: values of the table, results of modes, and both ends of what is rounded to a code."""
    start = int(code, 16) & ~63
    tab = open_page(page(), f"#f=binary32&c={code}&x=1.1&s={start}")
    values = tab.eval_on_selector_all("#codes tbody tr", "rows => rows.map(row => row.cells[2].innerText)")
    assert len(set(values)) == 64
    for text, row in zip(values, range(start, start + 64), strict=True):
        number = Fraction(text.replace("≈", "").replace("−", "-"))
        assert project(number, FORMATS["binary32"], DEFAULT) == row
    results = tab.eval_on_selector_all("#rounded b", "each => [...new Set(each.map(one => one.innerText))]")
    assert sorted(results) == ["≈1.0999999", "≈1.1"]
    low, high = tab.text_content("dd[data-fact='numbers rounded to it']")[1:-1].split(", ")
    assert low != high
    assert tab.text_content("#value") not in (low, high)


def test_the_page_is_used_by_keyboard(open_page):
    """Arrows walk the values and the rows; a code can be typed; each has the focus after it."""
    tab = open_page(page(), "#f=e4m3fn&c=38")
    tab.focus("#line")
    tab.keyboard.press("ArrowRight")
    assert tab.evaluate("state.code.toString(16)") == "39"
    tab.keyboard.press("+")
    assert tab.evaluate("state.zoom") == "1"
    tab.focus("#codes [data-row='0']")
    tab.keyboard.press("ArrowDown")
    tab.keyboard.press("Enter")
    assert tab.evaluate("[state.code.toString(), document.activeElement.dataset.row]") == ["1", "1"]
    tab.fill("#integer", "126")
    assert tab.input_value("#hex") == "0x7e"
    assert tab.text_content("#value") == "448"
    tab.fill("#hex", "0x100")
    assert tab.text_content("#code-error") == "No code of e4m3fn, whose codes are 0 to 0xff."
    assert tab.evaluate("state.code.toString()") == "126"
    tab.fill("#search", "0x7f")
    assert tab.inner_text("#codes tbody").split() == ["0x7f", "01111111", "NaN", "NaN", "NaN"]


CONTRASTS = """() => { const channel = c => (c /= 255) <= 0.04045 ? c / 12.92 : ((c + 0.055) / 1.055) ** 2.4;
  const parts = color => color.match(/[\\d.]+/g).map(Number);
  const light = ([r, g, b]) => 0.2126 * channel(r) + 0.7152 * channel(g) + 0.0722 * channel(b);
  const ground = node => { for (; node; node = node.parentElement) {
    const seen = parts(getComputedStyle(node).backgroundColor); if (seen[3] !== 0) return seen; } };
  document.querySelectorAll("details").forEach(each => { each.open = true; });
  const found = [], walk = document.createTreeWalker(document.body, NodeFilter.SHOW_TEXT);
  while (walk.nextNode()) { const node = walk.currentNode.parentElement;
    if (!walk.currentNode.data.trim() || !node.checkVisibility() || node.closest("script")) continue;
    const style = getComputedStyle(node), svg = node instanceof SVGElement;
    const pair = [light(parts(svg ? style.fill : style.color)),
      light(ground(svg ? node.closest("div") : node))];
    found.push([(Math.max(...pair) + 0.05) / (Math.min(...pair) + 0.05), node.outerHTML.slice(0, 80)]); }
  return found; }"""


@pytest.mark.parametrize("theme", ["light", "dark"])
def test_text_has_contrast(open_page, theme):
    """At least 4.5 to 1 against what is behind it, of all text that is seen, errors too."""
    tab = open_page(page(), f"#t={theme}&x=wrong&c=39&f=e5m2")
    tab.click("text=Define a format")
    tab.fill("#own-e", "99")
    tab.click("text=Use this format")
    contrasts = tab.evaluate(CONTRASTS)
    assert len(contrasts) > 200
    assert [each for each in contrasts if each[0] < 4.5] == []
    tab.evaluate("document.documentElement.style.setProperty('--quiet', 'var(--line)')")
    assert [each for each in tab.evaluate(CONTRASTS) if each[0] < 4.5] != []


def test_what_can_be_used_has_a_name(tab):
    """Fields, buttons and regions, for those who hear the page."""
    tab.evaluate("document.querySelectorAll('details').forEach(each => { each.open = true; })")
    nameless = """() => [...document.querySelectorAll(
        "input, select, textarea, button, table, section, svg, [role=region], [role=group]")]
      .filter(each => !(each.labels?.length || each.textContent.trim() && each.matches("button")
        || each.getAttribute("aria-label") || each.caption || each.querySelector("h2")
        || document.getElementById(each.getAttribute("aria-labelledby"))
        || each.matches("table") && !each.rows.length)).map(each => each.outerHTML.slice(0, 80))"""
    assert tab.evaluate(nameless) == []
    assert (
        tab.evaluate("[...document.querySelectorAll('[tabindex]')].filter(each => each.tabIndex > 0).length")
        == 0
    )


@pytest.mark.parametrize("width", [390, 1280])
@pytest.mark.parametrize("name", ["e2m1fn", "binary32", "posit8"])
def test_nothing_is_cut_off_at_the_side(open_page, width, name):
    """The page is as wide as the window, on a phone and on a desk; wide tables scroll by themselves."""
    tab = open_page(page(), f"#f={name}&c=3")
    tab.set_viewport_size({"width": width, "height": 900})
    assert tab.evaluate("document.documentElement.scrollWidth") == width
