"""Block formats and scale rules: their defaults, which are equal, how they are spelled and refused."""

import dataclasses
import re
from fractions import Fraction

import pytest

import lowprec as lp
from lowprec.spec import catalog
from lowprec.spec.block import RULES, BlockFormat, ScaleRule, rule
from lowprec.spec.catalog import BINARY32, E2M1FN, E4M3FN, E8M0FNU
from lowprec.spec.codebook import Codebook
from lowprec.spec.profiles import PROFILES, Profile
from lowprec.spec.projection import Projection, Saturation
from tests.support import refusal_test

MINE = BlockFormat(name="mine", element=E2M1FN, scale=E8M0FNU, size=32)

# -- scale rules ------------------------------------------------------------------------------------


def test_there_are_seven_rules():
    """Each is a divisor and what becomes of the quotient."""
    assert [(item.name, item.divisor, item.powers) for item in RULES] == [
        ("floor", "binade", "down"),
        ("ceil", "binade", "up"),
        ("even", "binade", "even"),
        ("rceil", "maximum", "up"),
        ("nearest", "maximum", "nearest"),
        ("project", "one", "none"),
        ("divide", "maximum", "none"),
    ]
    assert all(item.threshold is None for item in RULES)


@pytest.mark.parametrize("item", RULES, ids=str)
def test_a_rule_is_found_by_its_name(item):
    """Or by itself, and its text is its name."""
    assert rule(item.name) is rule(item) is item
    assert str(item) == item.name
    assert eval(repr(item)) == item


def test_a_rule_says_what_it_divides_by_and_where_the_next_power_begins():
    """For e2m1fn, whose largest value is 6; rounded to its two bits, 1.75 is 2."""
    found = [
        (item.divides_by(E2M1FN), item.next_power_from(E2M1FN)) for item in RULES if item.powers != "none"
    ]
    assert found == [
        (4, (4, True)),
        (4, (1, False)),
        (4, (Fraction(7, 4) ** 2, True)),
        (6, (1, False)),
        (6, (2, True)),
    ]
    assert rule("nearest(4/3)").next_power_from(E4M3FN) == (Fraction(16, 9), True)
    assert (rule("project").divides_by(E4M3FN), rule("divide").divides_by(E4M3FN)) == (1, 448)
    message = (
        "scale rule 'divide' has powers='none': its quotients become no powers of two; use a rule with "
        "another"
    )
    with pytest.raises(ValueError, match=f"^{re.escape(message)}$"):
        rule("divide").next_power_from(E2M1FN)


@pytest.mark.parametrize(
    ("name", "threshold", "spelled"),
    [
        ("nearest(4/3)", Fraction(4, 3), "nearest(4/3)"),
        ("nearest(3/2)", Fraction(3, 2), "nearest(3/2)"),
        ("nearest(6/4)", Fraction(3, 2), "nearest(3/2)"),
        ("nearest(999999999/999999998)", Fraction(999999999, 999999998), "nearest(999999999/999999998)"),
    ],
)
def test_a_threshold_is_part_of_the_name_of_nearest(name, threshold, spelled):
    """In lowest terms, so that equal rules have one name."""
    found = rule(name)
    assert found == ScaleRule(spelled, "maximum", "nearest", threshold)
    assert rule(str(found)) == found
    assert eval(repr(found)) == found


@pytest.mark.parametrize(
    "name",
    [
        "", "Floor", "up", "nearest(1.5)", "nearest(4/0)", "nearest()", "nearest(4/3", "nearest(-4/3)",
        "nearest(4/3)x",
    ],
)  # fmt: skip
def test_an_unknown_rule_is_refused_with_those_that_there_are(name):
    """Names are exact."""
    message = (
        f"unknown scale rule {name!r}; use one of floor, ceil, even, rceil, nearest, project, divide "
        "or nearest(<fraction>)"
    )
    with pytest.raises(ValueError, match=f"^{re.escape(message)}$"):
        rule(name)


@pytest.mark.parametrize("given", [None, 3, b"floor", ("floor",)], ids=repr)
def test_what_is_no_name_is_no_rule(given):
    """A type error."""
    with pytest.raises(
        TypeError, match=f"^{re.escape(f'rule must be a ScaleRule or a name, not {given!r}')}$"
    ):
        rule(given)


@pytest.mark.parametrize("given", [1.5, "4/3", 2], ids=repr)
def test_a_threshold_is_a_fraction(given):
    """A float is not what it seems to be."""
    message = f"threshold of a scale rule must be a Fraction, not {given!r}"
    with pytest.raises(TypeError, match=f"^{re.escape(message)}$"):
        ScaleRule("x", "one", "nearest", given)


# -- block formats ----------------------------------------------------------------------------------


def test_the_defaults_are_ocps():
    """What a block format is that says no more than it must."""
    finite = Projection(saturation="finite")
    left = {field.name: getattr(MINE, field.name) for field in dataclasses.fields(MINE)}
    assert left == {
        "name": "mine",
        "element": E2M1FN,
        "scale": E8M0FNU,
        "size": 32,
        "rule": rule("floor"),
        "tensor_scale": "none",
        "elements": finite,
        "scales": finite,
        "arithmetic": "exact",
        "min_scale": 0.0,
        "smallest_divides_as": None,
        "zero": "smallest",
        "nan": "block",
        "infinity": "block",
        "flush_subnormals": False,
        "source": "",
    }
    assert catalog.MXFP4 == MINE
    assert MINE.elements.saturation is Saturation.FINITE


OTHERS = {
    "element": E4M3FN,
    "scale": BINARY32,
    "size": 16,
    "rule": "rceil",
    "tensor_scale": "divide",
    "elements": Projection(),
    "scales": Projection(),
    "arithmetic": "product",
    "min_scale": 2.0**-6,
    "smallest_divides_as": 1.0,
    "zero": "one",
    "nan": "all",
    "infinity": "power",
    "flush_subnormals": True,
}


def test_a_name_and_a_source_make_no_difference():
    """Everything else does."""
    same = dataclasses.replace(MINE, name="other", source="OCPMX")
    assert same == MINE
    assert hash(same) == hash(MINE)
    others = [dataclasses.replace(MINE, **{name: value}) for name, value in OTHERS.items()]
    assert {field.name for field in dataclasses.fields(MINE)} - set(OTHERS) == {"name", "source"}
    assert len({MINE, same, *others}) == 1 + len(OTHERS)


def test_names_and_lists_become_values():
    """So that equal block formats are equal however they were written, and are keys of caches."""
    named, valued = dataclasses.replace(MINE, rule="even"), dataclasses.replace(MINE, rule=rule("even"))
    assert named == valued
    assert hash(named) == hash(valued)
    listed, paired = dataclasses.replace(MINE, size=[2, 16]), dataclasses.replace(MINE, size=(2, 16))
    assert listed == paired
    assert hash(listed) == hash(paired)
    assert (listed.size, listed.sizes, MINE.sizes) == ((2, 16), (2, 16), (32,))
    with pytest.raises(dataclasses.FrozenInstanceError):
        MINE.size = 16


SPELLED = [
    *catalog.BLOCK_FORMATS.values(),
    *dict.fromkeys(fmt for profile in PROFILES.values() for fmt in profile.blocks.values()),
    *(dataclasses.replace(MINE, **{name: value}) for name, value in OTHERS.items()),
    dataclasses.replace(MINE, rule="nearest(4/3)"),
    dataclasses.replace(MINE, rule=ScaleRule("floor", "one", "up")),
]


@pytest.mark.parametrize("fmt", SPELLED, ids=str)
def test_a_repr_makes_the_block_format_again(fmt):
    """It says what is not the default; the str is the name."""
    scope = {name: getattr(lp, name) for name in ("BlockFormat", "Format", "Projection", "ScaleRule", "Sign")}
    again = eval(repr(fmt), scope | {"Fraction": Fraction})
    assert again == fmt
    assert (again.name, again.source) == (fmt.name, fmt.source)
    assert str(fmt) == fmt.name


def test_a_repr_is_short():
    """Rules by their names."""
    assert repr(dataclasses.replace(MINE, rule="rceil", zero="one")) == (
        f"BlockFormat(name='mine', element={E2M1FN!r}, scale={E8M0FNU!r}, size=32, rule='rceil', zero='one')"
    )


BITS = {
    "mxfp8_e4m3": 8.25,
    "mxfp8_e5m2": 8.25,
    "mxfp6_e2m3": 6.25,
    "mxfp6_e3m2": 6.25,
    "mxfp4": 4.25,
    "mxint8": 8.25,
    "nvfp4": 4.5,
    "nvfp4_2d": 4 + 8 / 256,
    "fp8_block_1x128": 8.25,
    "fp8_block_128x128": 8 + 32 / 16384,
    "msfp12": 4.5,
    "msfp16": 8.5,
    "bfp8": 8.5,
    "bfp4": 4.5,
    "bfp2": 2.5,
    "bnb_nf4": 4.5,
    "bnb_fp4": 4.5,
}


def test_every_value_takes_its_own_bits_and_a_share_of_the_scale():
    """Of all block formats of the catalog; nvfp4's scale has 7 bits, and takes a byte."""
    assert {name: fmt.bits_per_value for name, fmt in catalog.BLOCK_FORMATS.items()} == BITS


# -- refusals ---------------------------------------------------------------------------------------

CHOICES = {
    "tensor_scale": "none, divide, reciprocal",
    "arithmetic": "exact, product, reciprocal, reciprocals",
    "zero": "smallest, one, rule",
    "nan": "block, scale, all, elements",
    "infinity": "block, power, largest, elements",
}


@pytest.mark.parametrize("field", CHOICES)
@pytest.mark.parametrize("given", ["other", None, "", 3], ids=repr)
def test_a_value_that_a_field_does_not_take_is_refused_with_those_that_it_does(field, given):
    """Each field by name."""
    message = f"{field}={given!r} of a block format is unknown; use one of {CHOICES[field]}"
    with pytest.raises(ValueError, match=f"^{re.escape(message)}$"):
        dataclasses.replace(MINE, **{field: given})


def test_a_scale_that_would_be_negative_instead_of_nan_is_refused():
    """Positive numbers and NaNs of either sign are taken, for formats with and without -0."""
    for scale, wrong, right in (
        (catalog.E4M3FNUZ, (0x81, 0xFF), (0x80, 0x7F, 0)),
        (catalog.E5M2, (0x81, 0xFC), (0xFE, 0x7C, 0x80)),
        (catalog.INT8, (0x80, 0xFF), (0x7F,)),
        (dataclasses.replace(catalog.E5M2, name="no zero", subnormals=False), (0x80, 0xFC), (0, 0x7C)),
        (catalog.UE4M3, (), (0x7E, 0x7F)),
    ):
        for code in right:
            dataclasses.replace(MINE, scale=scale, scales=Projection(nan_code=code))
        for code in wrong:
            message = (
                f"scales of block format 'mine' have nan_code={code}, a negative number of {scale.name!r}, "
                f"but no scale is negative; use a NaN's code or that of a positive number"
            )
            with pytest.raises(ValueError, match=f"^{re.escape(message)}$"):
                dataclasses.replace(MINE, scale=scale, scales=Projection(nan_code=code))


@pytest.mark.parametrize("field", CHOICES)
def test_every_choice_of_a_field_is_taken(field):
    """And is kept as it was given."""
    for choice in CHOICES[field].split(", "):
        assert getattr(dataclasses.replace(MINE, **{field: choice}), field) == choice


@pytest.mark.parametrize("given", [0.0, -1.0, float("inf"), float("nan")])
def test_elements_are_divided_by_something_positive(given):
    """And finite."""
    message = f"smallest_divides_as={given!r} of block format 'mine' must be finite and above 0"
    with pytest.raises(ValueError, match=f"^{re.escape(message)}$"):
        dataclasses.replace(MINE, smallest_divides_as=given)


@pytest.mark.parametrize("field", ["min_scale", "smallest_divides_as"])
def test_numbers_that_take_part_in_binary32_are_binary32s(field):
    """24 bits at most, however large or small."""
    message = (
        f"{field}=0.1 of block format 'mine' has more than 24 significant bits; use a number that "
        "binary32 has"
    )
    with pytest.raises(ValueError, match=f"^{re.escape(message)}$"):
        dataclasses.replace(MINE, **{field: 0.1})
    for value in (float((1 << 24) - 1), 2.0**-140, 3.0, 2.0**127):
        assert getattr(dataclasses.replace(MINE, **{field: value}), field) == value
    with pytest.raises(ValueError, match="more than 24 significant bits"):
        dataclasses.replace(MINE, **{field: float((1 << 24) + 1)})


@pytest.mark.parametrize(("field", "value"), [("overflow_test", "exponent"), ("smallest", "zero")])
def test_codebooks_have_no_rules_of_exponents(field, value):
    message = f"{field}='{value}' of the elements of block format 'bnb_nf4' is for binary formats; 'nf4' is a"
    with pytest.raises(ValueError, match=f"^{re.escape(message)}"):
        dataclasses.replace(lp.block_formats["bnb_nf4"], elements=Projection(**{field: value}))
    message = f"{field}='{value}' of the scales of block format 'mine' is for binary formats; 'positive' is a"
    scale = Codebook("positive", [2.0**power for power in range(-8, 8)])
    with pytest.raises(ValueError, match=f"^{re.escape(message)}"):
        dataclasses.replace(MINE, scale=scale, scales=Projection(**{field: value}))


# -- the catalog ------------------------------------------------------------------------------------


@pytest.mark.parametrize(("name", "fmt"), catalog.BLOCK_FORMATS.items(), ids=str)
def test_a_block_format_is_found_by_its_name(name, fmt):
    """Case and spaces around it do not matter; a block format stands for itself."""
    assert fmt.name == name
    assert (
        catalog.block_format(name)
        is catalog.block_format(f" {name.upper()} ")
        is catalog.block_format(fmt)
        is fmt
    )
    assert catalog.is_block(name)
    assert catalog.is_block(fmt)
    assert fmt.source


@pytest.mark.parametrize(
    ("alias", "name"),
    [
        ("mxfp8_e4m3fn", "mxfp8_e4m3"),
        ("mxfp6_e2m3fn", "mxfp6_e2m3"),
        ("mxfp6_e3m2fn", "mxfp6_e3m2"),
        ("mxfp4_e2m1", "mxfp4"),
        ("MXFP4_E2M1FN", "mxfp4"),
    ],
)
def test_other_spellings_are_known(alias, name):
    """Those with the element's whole name."""
    assert catalog.block_format(alias) is catalog.BLOCK_FORMATS[name]
    assert catalog.is_block(alias)


@pytest.mark.parametrize(
    ("name", "choices"),
    [("mxfp8", "'mxfp8_e4m3' or 'mxfp8_e5m2'"), ("MXFP6", "'mxfp6_e2m3' or 'mxfp6_e3m2'")],
)
def test_an_ambiguous_name_is_refused_with_the_choices(name, choices):
    """Two element formats go by it."""
    assert catalog.is_block(name)
    with pytest.raises(
        ValueError, match=f"^{re.escape(f'block format {name!r} is ambiguous: use {choices}')}$"
    ):
        catalog.block_format(name)


@pytest.mark.parametrize(
    ("name", "hint"),
    [("mxfp5", "did you mean 'mxfp4'"), ("nvfp4_2", "did you mean 'nvfp4_2d' or 'nvfp4'"), ("zzzz", "")],
)
def test_an_unknown_name_is_refused_with_all_that_there_are(name, hint):
    """And with what was probably meant."""
    assert not catalog.is_block(name)
    beginning, ending = f"unknown block format {name!r}; {hint}", f"`lowprec formats` lists {', '.join(BITS)}"
    with pytest.raises(ValueError, match=f"^{re.escape(beginning)}.*{re.escape(ending)}$"):
        catalog.block_format(name)


@pytest.mark.parametrize("given", [None, 3, E2M1FN, b"mxfp4"], ids=repr)
def test_what_is_neither_a_name_nor_a_block_format_is_refused(given):
    """Formats of single values too."""
    assert not catalog.is_block(given)
    message = f"a block format must be a BlockFormat or a name, not {given!r}"
    with pytest.raises(TypeError, match=f"^{re.escape(message)}$"):
        catalog.block_format(given)


@pytest.mark.parametrize("name", ["mxfp4", "MXFP8", "nvfp4", "mxfp4_e2m1"])
def test_a_block_format_is_no_format_of_single_values(name):
    """`lp.format` says where it is."""
    message = f"{name!r} is a block format, whose elements share scales: see lowprec.block_formats"
    with pytest.raises(ValueError, match=f"^{re.escape(message)}$"):
        lp.format(name)


def test_the_packages_names_are_the_specifications():
    """`lp.block_formats` is what users see of the catalog, and cannot be changed."""
    assert lp.block_formats is catalog.BLOCK_FORMATS
    assert (lp.BlockFormat, lp.ScaleRule) == (BlockFormat, ScaleRule)
    assert list(lp.block_formats) == list(BITS)
    with pytest.raises(TypeError):
        lp.block_formats["mine"] = MINE


# -- profiles ---------------------------------------------------------------------------------------


def test_the_ocp_profile_has_every_block_format_as_it_is():
    """The catalog's defaults are its values."""
    for name, fmt in catalog.BLOCK_FORMATS.items():
        assert PROFILES["ocp"].block(name) == fmt
        assert PROFILES["ocp"].block(name).name == name


@pytest.mark.parametrize(
    ("name", "known", "fields"),
    [
        ("torchao_floor", "mxfp4", {"rule": rule("floor"), "nan": "scale", "infinity": "power"}),
        ("torchao_ceil", "mxfp8_e5m2", {"rule": rule("ceil"), "smallest_divides_as": 2.0**-126}),
        ("torchao_even", "mxfp6_e2m3", {"rule": rule("even"), "arithmetic": "exact"}),
        ("torchao_rceil", "mxfp8_e4m3", {"rule": rule("rceil"), "smallest_divides_as": 1.0, "nan": "all"}),
        ("torchao_nvfp4", "nvfp4", {"arithmetic": "reciprocals", "min_scale": 2.0**-6, "zero": "rule"}),
        ("transformer_engine", "nvfp4_2d", {"size": (16, 16), "tensor_scale": "reciprocal"}),
        (
            "transformer_engine",
            "mxfp8_e4m3",
            {"rule": rule("rceil"), "nan": "elements", "infinity": "largest"},
        ),
        (
            "modelopt",
            "mxfp4",
            {"rule": rule("rceil"), "elements": Projection(rounding="nearest_zero", saturation="finite")},
        ),
        ("modelopt", "nvfp4", {"zero": "one", "min_scale": 2.0**-9}),
        ("cublaslt", "mxfp8_e4m3", {"rule": rule("rceil"), "arithmetic": "exact"}),
        ("cublaslt", "nvfp4", {"tensor_scale": "none", "arithmetic": "reciprocal"}),
        ("microxcaling", "mxint8", {"rule": rule("floor"), "scales": Projection()}),
        ("p3109", "nvfp4", {"rule": rule("project"), "tensor_scale": "none", "nan": "elements"}),
    ],
)
def test_a_profile_says_what_a_block_format_is(name, known, fields):
    """By name, and by the catalog's block format under any other name."""
    fmt = PROFILES[name].block(known)
    assert {field: getattr(fmt, field) for field in fields} == fields
    other = dataclasses.replace(catalog.BLOCK_FORMATS[known], name="other", source="")
    assert PROFILES[name].block(other) == fmt
    assert (fmt.name, PROFILES[name].block(other).name) == (known, "other")


def test_what_a_profile_does_not_have_is_refused_with_what_it_has():
    """Block formats by name, and a stack without any."""
    message = "profile 'torchao_nvfp4' does not say what 'mxfp4' is; it has nvfp4"
    with pytest.raises(ValueError, match=f"^{re.escape(message)}$"):
        PROFILES["torchao_nvfp4"].block("mxfp4")
    message = "profile 'ml_dtypes' does not say what 'mxfp4' is; it has no block formats"
    with pytest.raises(ValueError, match=f"^{re.escape(message)}$"):
        PROFILES["ml_dtypes"].block(catalog.MXFP4)
    with pytest.raises(ValueError, match=r"^unknown block format 'e4m3fn'; "):
        PROFILES["ocp"].block("e4m3fn")
    message = "profile 'torchao_even' does not say how to convert to 'e4m3fn'; it has blocks alone"
    with pytest.raises(ValueError, match=f"^{re.escape(message)}$"):
        PROFILES["torchao_even"].projection(E4M3FN)


def test_a_profile_of_ones_own_has_blocks_too():
    """A mapping from the catalog's to its own."""
    mine = Profile("mine", "1", {}, blocks={catalog.MXFP4: dataclasses.replace(MINE, rule="even")})
    assert mine.block("mxfp4").rule is rule("even")
    assert hash(mine) == hash(Profile("mine", "1", {}))


def test_the_blocks_of_a_profile_do_not_change_with_the_mapping_that_they_came_in():
    """It is copied."""
    mapping = {catalog.MXFP4: dataclasses.replace(MINE, rule="even")}
    mine = Profile("mine", "1", {}, blocks=mapping)
    mapping[catalog.MXFP4] = MINE
    assert mine.block("mxfp4").rule is rule("even")
    message = f"blocks of a profile must map BlockFormat to BlockFormat, not {catalog.MXFP4!r} to {E4M3FN!r}"
    with pytest.raises(TypeError, match=f"^{re.escape(message)}$"):
        Profile("mine", "1", {}, blocks={catalog.MXFP4: E4M3FN})


test_what_cannot_be_is_refused = refusal_test(
    globals(),
    """
rule("nearest(1/1)")
    ValueError: threshold=1 of a scale rule must lie above 1 and below 2
rule("nearest(2/1)")
    ValueError: threshold=2 of a scale rule must lie above 1 and below 2
rule("nearest(1/2)")
    ValueError: threshold=1/2 of a scale rule must lie above 1 and below 2
rule("nearest(7/3)")
    ValueError: threshold=7/3 of a scale rule must lie above 1 and below 2
ScaleRule("x", "half", "up")
    ValueError: divisor='half' of a scale rule is unknown; use one of binade, maximum, one
ScaleRule("x", "one", "away")
    ValueError: powers='away' of a scale rule is unknown; use one of none, down, up, even, nearest
ScaleRule("x", "one", "up", Fraction(4, 3))
    ValueError: threshold=4/3 of a scale rule is for powers='nearest'; leave it out
ScaleRule("x", "one", "nearest", Fraction(2))
    ValueError: threshold=2 of a scale rule must lie above 1 and below 2
dataclasses.replace(MINE, size=0)
    ValueError: size=0 of block format 'mine' must be 1 to 4,294,967,296, or a pair of such
dataclasses.replace(MINE, size=-32)
    ValueError: size=-32 of block format 'mine' must be 1 to 4,294,967,296, or a pair of such
dataclasses.replace(MINE, size=(16, 0))
    ValueError: size=(16, 0) of block format 'mine' must be 1 to 4,294,967,296, or a pair of such
dataclasses.replace(MINE, size=1 << 62)
    ValueError: size=4611686018427387904 of block format 'mine' must be 1 to 4,294,967,296, or a pair of
    such
dataclasses.replace(MINE, size=(16,))
    ValueError: size=(16,) of block format 'mine' must be 1 to 4,294,967,296, or a pair of such
dataclasses.replace(MINE, size=(2, 2, 2))
    ValueError: size=(2, 2, 2) of block format 'mine' must be 1 to 4,294,967,296, or a pair of such
dataclasses.replace(MINE, size=())
    ValueError: size=() of block format 'mine' must be 1 to 4,294,967,296, or a pair of such
dataclasses.replace(MINE, size=32.0)
    TypeError: size of a block format must be an integer or a pair of them, not 32.0
dataclasses.replace(MINE, size=True)
    TypeError: size of a block format must be an integer or a pair of them, not True
dataclasses.replace(MINE, size="32")
    TypeError: size of a block format must be an integer or a pair of them, not '32'
dataclasses.replace(MINE, size=None)
    TypeError: size of a block format must be an integer or a pair of them, not None
dataclasses.replace(MINE, size=(16, 1.5))
    TypeError: size of a block format must be an integer or a pair of them, not (16, 1.5)
dataclasses.replace(MINE, element=4)
    TypeError: element of a block format must be a Format, not 4
dataclasses.replace(MINE, element=MINE)
    TypeError: element of a block format must be a Format, not BlockFormat(name='mine',
    element=Format(name='e2m1fn', exponent_bits=2, trailing_bits=1, bias=1, source='OCPMX'),
    scale=Format(name='e8m0fnu', exponent_bits=8, trailing_bits=0, bias=127, sign=Sign.UNSIGNED, nans=1,
    subnormals=False, source='OCPMX'), size=32)
dataclasses.replace(MINE, scale=None)
    TypeError: scale of a block format must be a Format, not None
dataclasses.replace(MINE, elements="finite")
    TypeError: elements of a block format must be a Projection, not 'finite'
dataclasses.replace(MINE, scales=None)
    TypeError: scales of a block format must be a Projection, not None
dataclasses.replace(MINE, rule=3)
    TypeError: rule must be a ScaleRule or a name, not 3
dataclasses.replace(MINE, min_scale=0)
    TypeError: min_scale of a block format must be a float, not 0
dataclasses.replace(MINE, min_scale=None)
    TypeError: min_scale of a block format must be a float, not None
dataclasses.replace(MINE, smallest_divides_as=1)
    TypeError: smallest_divides_as of a block format must be a float, not 1
dataclasses.replace(MINE, flush_subnormals=1)
    TypeError: flush_subnormals of a block format must be True or False, not 1
dataclasses.replace(MINE, elements=Projection(via=(BINARY32,)))
    ValueError: elements of block format 'mine' goes via other formats; blocks round once
dataclasses.replace(MINE, scales=Projection(via=(BINARY32,)))
    ValueError: scales of block format 'mine' goes via other formats; blocks round once
dataclasses.replace(MINE, elements=Projection(nan_payload="first"))
    ValueError: elements of block format 'mine' keeps payloads of NaNs, but those of a block are made by
    its rules; use nan_payload='drop'
dataclasses.replace(MINE, min_scale=-1.0)
    ValueError: min_scale=-1.0 of block format 'mine' must be finite and 0 or more
dataclasses.replace(MINE, min_scale=float("inf"))
    ValueError: min_scale=inf of block format 'mine' must be finite and 0 or more
dataclasses.replace(MINE, min_scale=float("nan"))
    ValueError: min_scale=nan of block format 'mine' must be finite and 0 or more
BlockFormat(name="mine", element=E2M1FN, scale=E8M0FNU)
    TypeError: BlockFormat.__init__() missing 1 required keyword-only argument: 'size'
BlockFormat("mine", E2M1FN, E8M0FNU, 32)
    TypeError: BlockFormat.__init__() takes 1 positional argument but 5 were given
dataclasses.replace(MINE, element=catalog.BINARY64)
    ValueError: element='binary64' of block format 'mine' is a type that values come in, not a format to
    encode to; use a Format of at most 32 bits
dataclasses.replace(MINE, scale=catalog.BINARY64)
    ValueError: scale='binary64' of block format 'mine' is a type that values come in, not a format to
    encode to; use a Format of at most 32 bits
""",
)
