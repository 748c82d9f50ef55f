"""The laws hold for every format of the catalog and for others, and what breaks them is told as text."""

import numpy as np
import pytest

import lowprec as lp
from lowprec.spec import catalog
from lowprec.testing import check_block_format, check_format, check_operation
from lowprec.testing.laws import LAWS, TOPICS
from tests.mutants import LAWS_PAGE, MUTANTS, PAGE, ROOT, planted, with_laws
from tests.support import most_apart, refusal_test

#: One of each kind; other narrow ones stand apart. Formats of more than 8 bits have forty kernels each: with
#: `pytest -m long`.
USUAL = ("e4m3fn", "e5m2", "e2m1fn", "int8f6", "ue4m3")
NARROW = [fmt for fmt in dict.fromkeys(catalog.FORMATS.values()) if fmt.width <= 8]
FORMATS = [
    *most_apart(NARROW, map(catalog.format, USUAL)),
    *(pytest.param(fmt, marks=pytest.mark.long) for fmt in catalog.FORMATS.values() if fmt.width > 8),
]


@pytest.mark.parametrize("fmt", FORMATS, ids=str)
def test_every_format_of_the_catalog_keeps_all_laws(fmt):
    """On arrays, with flags and in the oracle."""
    report = check_format(fmt, samples=0)
    assert {verdict.path for verdict in report.verdicts} == {"arrays", "arrays with flags", "oracle"}
    assert report.tried > 10_000


#: NaNs both in the place of -0 and on top, of either half: one, more, those of IEEE 754, and of fixed point.
LONE_AND_TOP = [
    lp.Format(exponent_bits=1, trailing_bits=1, negative_zero=False, nans=1),
    lp.Format(exponent_bits=2, trailing_bits=1, negative_zero=False, nans=2),
    lp.Format(exponent_bits=2, trailing_bits=2, negative_zero=False, nans=3, infinity=True),
    lp.Format(exponent_bits=0, trailing_bits=3, negative_zero=False, nans=1, infinity=True),
]


@pytest.mark.apart
@pytest.mark.parametrize("fmt", LONE_AND_TOP, ids=repr)
def test_formats_with_nans_in_two_places_keep_all_laws(fmt):
    """No catalog has them. None of their NaNs has a sign."""
    assert check_format(fmt, samples=0).broken == ()


@pytest.mark.apart
@pytest.mark.parametrize("name", catalog.BLOCK_FORMATS)
def test_every_block_format_of_the_catalog_keeps_all_laws(name):
    """Scales and elements."""
    report = check_block_format(name, samples=8)
    assert {verdict.path for verdict in report.verdicts} == {"arrays", "oracle"}
    assert report.tried > 1_000


@pytest.mark.parametrize("operation", ["add", "divide", "fma", "sqrt", "copysign", "remainder"])
def test_operations_keep_the_laws_of_arithmetic(operation):
    """Those of lowprec, as anyone's function, with codes and with values."""

    def mine(*codes):
        return getattr(lp, operation)(*(lp.decode(column, "e4m3fn") for column in codes), "e4m3fn")

    report = check_operation(mine, operation, "e4m3fn", samples=500)
    assert "oracle" in {verdict.law.name for verdict in report.verdicts}
    again = check_operation(
        lambda *codes: lp.encode(mine(*codes), "e4m3fn"), operation, "e4m3fn", samples=500
    )
    assert (again.subject, again.tried) == ("<lambda>", report.tried)


def test_laws_that_do_not_hold_under_a_projection_are_left_out():
    """Flushed results are not the real ones, rounded; the oracle knows."""

    def mine(x, y):
        values = lp.decode(x, "e5m2"), lp.decode(y, "e5m2")
        return lp.multiply(*values, "e5m2", projection=lp.Projection(subnormals="flush_results"))

    report = check_operation(
        mine, "multiply", "e5m2", projection=lp.Projection(subnormals="flush_results"), samples=2000
    )
    assert {verdict.law.name for verdict in report.verdicts} == {"oracle", "commutativity"}
    with pytest.raises(AssertionError, match="mine breaks the law 'real result'"):
        check_operation(mine, "multiply", "e5m2", samples=2000)


def test_laws_have_a_statement_and_a_domain():
    """A sentence or two each, from the docstring of the function that tries it."""
    assert len(LAWS) >= 50
    for law in LAWS.values():
        assert law.statement.endswith("."), law.name
        assert law.domain
        assert law.check.__module__.removeprefix("lowprec.testing.laws.") in TOPICS


# -- what is wrong, as text --------------------------------------------------------------------------


class Own:
    """An implementation of four bits, sign and magnitude, by its table."""

    name, width = "mine", 4

    def __init__(self, values, **more):
        self.values = np.array(values, float)
        self.__dict__.update(more)

    def decode(self, codes):
        """Values, from the table."""
        return np.concatenate([self.values, -self.values])[codes]


class Rounds(Own):
    """One that encodes too."""

    def encode(self, values):
        """Codes, by the middles between values."""
        table = self.values
        middle = table[:-1] + np.diff(table) / 2
        codes = np.searchsorted(
            middle, np.minimum(np.abs(values), table[-1]), side="right"
        )  # ties away from zero
        return codes | np.where(np.signbit(values), 8, 0)


E2M1FN = (0, 0.5, 1, 1.5, 2, 3, 4, 6)


def told(own):
    """The message of a check that fails."""
    with pytest.raises(AssertionError) as caught:
        check_format(own)
    return str(caught.value)


def test_codes_out_of_order_are_named():
    """With both codes, their bits and values."""
    assert told(Own([0, 0.5, 1, 1.5, 3, 2, 4, 6])) == (
        "mine breaks the law 'increasing'\n"
        "  law     A larger magnitude stands for a larger value.\n"
        "  domain  finite codes with a clear sign bit\n"
        "  smallest counterexample\n"
        "    code  0x4  0 100  3.0 = 0x1.8p+1\n"
        "    next  0x5  0 101  2.0 = 0x1p+1\n"
        "    want  more than 3.0 = 0x1.8p+1"
    )


def test_a_nan_inside_the_finite_range_is_named():
    """With the finite code above it."""
    assert told(Rounds([0, 0.5, 1, np.nan, 2, 3, 4, 6])) == (
        "mine breaks the law 'specials on top'\n"
        "  law     Finite codes come first, then at most one infinity, then NaNs: none lies inside the "
        "finite range.\n  domain  codes with a clear sign bit\n"
        "  smallest counterexample\n"
        "    code          0x3  0 011  nan\n"
        "    finite above  0x7  0 111  6.0 = 0x1.8p+2\n"
        "    want          a finite value\n"
        "  broken too: 'round trip', 'nearest'"
    )


def test_two_infinities_and_no_number_at_all_are_named():
    """What lies above an infinity is NaN."""
    assert "code  0x7  0 111  inf\n    want  NaN" in told(Own([0, 1, 2, 3, 4, 5, np.inf, np.inf]))
    assert "code  0x0  0 000  nan\n    want  a finite value" in told(Own([np.nan] * 8))


def test_a_wrong_bias_is_named():
    """Held against the format that it is meant to be; its codes have the fields of that."""
    message = told(Own([0, 0.25, 0.5, 0.75, 1, 1.5, 2, 3], format="e2m1fn"))
    assert message.startswith(
        "mine breaks the law 'values'\n  law     A code stands for what the parameters say: "
    )
    assert (
        "    code  0x1  0 00 1  0.25 = 0x1p-2\n    want  0.5 = 0x1p-1\n  broken too: 'published type'"
        in message
    )


def test_a_broken_encode_is_named():
    """Its law, the number, where that lies, the code and its value; and the right mode passes."""
    assert told(Rounds(E2M1FN)) == (
        "mine breaks the law 'nearest'\n"
        "  law     No value of the format is closer; ties go to the even code, away from zero or toward "
        "zero, as the mode says.\n"
        "  domain  numbers in range; nearest modes\n"
        "  smallest counterexample\n"
        "    value     0.25 = 0x1p-2, the tie\n"
        "    rounding  nearest_even\n"
        "    got       0x1  0 001  0.5 = 0x1p-1\n"
        "    want      0x0  0 000  0.0, the nearest"
    )
    check_format(Rounds(E2M1FN, rounding="nearest_away"))


def test_an_encode_says_how_it_saturates():
    """E2m1fn has nothing but numbers; with a NaN on top, numbers past the largest become that by default."""
    fmt = lp.Format(name="small", exponent_bits=2, trailing_bits=1, bias=1, nans=1)
    own = Rounds([*E2M1FN[:-1], np.nan], format=fmt, rounding="nearest_away")

    def encode(values):
        made = Rounds(E2M1FN[:-1]).encode(np.nan_to_num(values))
        return np.where(np.isnan(values), 7 + 8 * np.signbit(values), made)

    own.encode = encode
    assert told(own).startswith("mine breaks the law 'overflow'\n")
    own.saturation = "finite"
    check_format(own)


def test_a_broken_operation_is_named():
    """With its operands, bit by bit; the smallest ones."""

    def careless(x, y):
        return lp.add(lp.decode(x, "e3m2fn"), lp.decode(y, "e3m2fn"), "e3m2fn", rounding="toward_zero")

    with pytest.raises(AssertionError) as caught:
        check_operation(careless, "add", "e3m2fn")
    assert str(caught.value) == (
        "careless breaks the law 'real result'\n"
        "  law     The code is that of the exact real result, rounded and saturated once.\n"
        "  domain  add, subtract, multiply, divide, sqrt, fma, minimum, maximum; finite operands, results "
        "other than 0, a projection of rounding and saturation alone\n"
        "  smallest counterexample\n"
        "    x           0x09  0 010 01  0.625 = 0x1.4p-1\n"
        "    y           0x01  0 000 01  0.0625 = 0x1p-4\n"
        "    got         0x09  0 010 01  0.625 = 0x1.4p-1\n"
        "    want        0x0a  0 010 10  0.75 = 0x1.8p-1\n"
        "    projection  nearest_even, saturation none, nan max\n"
        "  broken too: 'oracle'"
    )


class OwnBlocks:
    """Mxfp4, by lowprec's own verbs."""

    name, format = "my blocks", "mxfp4"

    def encode(self, rows):
        """Codes of scales and elements."""
        made = lp.encode(rows, self.format, axis=1)
        return made.scales[:, 0], made.codes

    def decode(self, scales, codes):
        """Values."""
        return lp.decode(codes, "e2m1fn") * lp.decode(scales, "e8m0fnu")[:, None]


def test_blocks_of_ones_own_are_held_against_the_laws():
    """Encode, decode, or both."""
    report = check_block_format(OwnBlocks())
    assert {"scale rule", "elements", "scale identity"} <= {verdict.law.name for verdict in report.verdicts}
    assert report.subject == "my blocks"


def test_broken_blocks_are_named():
    """Another rule than that of the format, and a scale that is forgotten."""

    class OtherRule(OwnBlocks):
        def encode(self, rows):
            made = lp.encode(rows, self.format, axis=1, rule="rceil")
            return made.scales[:, 0], made.codes

    with pytest.raises(AssertionError) as caught:
        check_block_format(OtherRule())
    assert str(caught.value).startswith("my blocks breaks the law 'scale rule'\n")
    assert "    rule  floor\n    got   0x" in str(caught.value)
    own = OwnBlocks()
    own.decode = lambda scales, codes: lp.decode(codes, "e2m1fn")
    with pytest.raises(AssertionError, match="my blocks breaks the law 'scale identity'"):
        check_block_format(own)


def test_bad_questions_to_the_other_checks_are_refused():
    """The number of formats, stochastic modes, and answers that are none."""
    with pytest.raises(ValueError, match="add takes 2 operands, and 1 formats are given; give one for each"):
        check_operation(lambda x, y: x, "add", ["e4m3fn"])
    with pytest.raises(ValueError, match="is not among the deterministic modes"):
        check_operation(lambda x, y: x, "add", "e4m3fn", rounding=lp.stochastic(4))
    with pytest.raises(ValueError, match="unknown operation 'plus'"):
        check_operation(lambda x, y: x, "plus", "e4m3fn")
    with pytest.raises(
        ValueError, match=r"<lambda> gave 0\.3 for 0, 0, which is no value of e2m1fn; give values"
    ):
        check_operation(lambda x, y: np.full(x.shape, 0.3), "add", "e2m1fn")
    with pytest.raises(
        TypeError, match="check_block_format takes a BlockFormat, a name, or an object with format"
    ):
        check_block_format(lp.format("e4m3fn"))
    own = OwnBlocks()
    own.encode = lambda rows: (rows[:, 0], rows)
    with pytest.raises(
        ValueError, match=r"encode of my blocks gave scales of float32 and shape .*; give unsigned"
    ):
        check_block_format(own)


# -- documents ---------------------------------------------------------------------------------------


def test_the_list_of_laws_in_the_docs_is_that_of_the_code():
    """`python -m tests.mutants --laws` writes it."""
    text = LAWS_PAGE.read_text()
    assert with_laws(text) == text


def test_every_mutant_changes_one_place_and_is_found():
    """`python -m tests.mutants --write` runs them and writes the page."""
    page = PAGE.read_text()
    assert len(MUTANTS) == len({mutant.name for mutant in MUTANTS}) >= 40
    assert f"{len(MUTANTS)} of {len(MUTANTS)} mutants are found." in page
    for mutant in MUTANTS:
        planted(mutant, (ROOT / "lowprec" / mutant.file).read_text())
        assert f"| {mutant.name} | `{mutant.file}` | {mutant.what} |" in page
    assert "**" not in page


#: Kernel files without rules of their own: what they do shows in others, or changes no answer.
WITHOUT_RULES = {
    "cache.py": "machine code on disk",
    "compiling.py": "times and a log record",
    "engine.py": "which engine answers, all of which give the same",
    "lower/words.py": "names of formats; a wrong one only sends requests to another engine",
    "modes.py": "the processor's modes, which the kit does not change",
    "parts.py": "how helpers are compiled",
    "request.py": "what is asked",
    "special.py": "functions of the C library",
}


def test_every_file_of_kernels_has_a_mutant():
    """A rule that nothing breaks may be wrong unseen."""
    kernels = ROOT / "lowprec" / "kernels"
    files = {path.relative_to(kernels).as_posix() for path in kernels.rglob("*.py")}
    files = {name for name in files if not name.endswith("__init__.py")}
    mutated = {mutant.file.removeprefix("kernels/") for mutant in MUTANTS}
    assert files - mutated == set(WITHOUT_RULES)


def test_every_law_is_broken_by_a_mutant():
    """One that nothing breaks would say nothing."""
    second = PAGE.read_text().split("## Every law can fail")[1]
    assert all(f"\n| {law} | " in second for law in LAWS)


test_what_cannot_be_is_refused = refusal_test(
    globals(),
    """
check_format(Own([0] * 8, width=40))
    ValueError: width=40 of mine must be the bits of a code, 2 to 16; of more bits...
check_format(Own([0] * 8, sign="plus"))
    ValueError: sign='plus' of mine is unknown; use one of magnitude, unsigned, twos_complement
check_format(Own([0] * 8, rounding="stochastic(4)"))
    ValueError: rounding of mine is stochastic; a check of `encode` needs a deterministic mode
check_format(Own([0] * 8, decode=lambda codes: 0))
    ValueError: decode of mine was given shape (8,) and gave shape...
check_format(Rounds(E2M1FN, encode=lambda values: values))
    ValueError: encode of mine was given shape (16,) and gave float64 of shape (16,); it must give one
    code, an unsigned integer, for each value
check_format(3)
    TypeError: check_format takes a Format, a name, or an object with decode(codes) and width, not 3
check_format("e4m3")
    ValueError: format 'e4m3' is ambiguous...
""",
)
