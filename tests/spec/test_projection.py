"""Projections: defaults, coercion, text, and which values each field refuses."""

import dataclasses
import re

import pytest

from lowprec.spec.catalog import BINARY16
from lowprec.spec.projection import DEFAULT, Projection, Saturation, saturation
from lowprec.spec.rounding import MODES, Rounding, Threshold


def test_the_defaults_are_nearest_even_without_saturation_and_errors_for_nan():
    """What a call without keywords does."""
    assert Projection() == DEFAULT
    assert {field.name: str(getattr(DEFAULT, field.name)) for field in dataclasses.fields(DEFAULT)} == {
        "rounding": "nearest_even", "saturation": "none", "nan": "error", "nan_code": "None",
        "nan_payload": "drop", "nan_sign": "keep", "negative": "nan", "zero": "nan", "smallest": "itself",
        "subnormals": "keep", "symmetric": "False", "overflow_test": "after", "tininess": "after",
        "via": "()",
    }  # fmt: skip


@pytest.mark.parametrize("mode", MODES, ids=str)
@pytest.mark.parametrize("policy", Saturation, ids=str)
def test_names_become_values(mode, policy):
    """So that equal projections are equal however they were written, and are keys of caches."""
    named, valued = (
        Projection(rounding=mode.name, saturation=policy.value),
        Projection(rounding=mode, saturation=policy),
    )
    assert named == valued
    assert hash(named) == hash(valued)
    assert (named.rounding, named.saturation) == (mode, policy)


def test_projections_cannot_be_changed():
    """They are keys; `dataclasses.replace` makes another."""
    with pytest.raises(dataclasses.FrozenInstanceError):
        DEFAULT.symmetric = True
    assert dataclasses.replace(DEFAULT, rounding="to_odd") == Projection(rounding="to_odd")


EXAMPLES = [
    (Projection(), "Projection()", "nearest_even, saturation none"),
    (
        Projection(rounding="to_odd", saturation="finite"),
        "Projection(rounding='to_odd', saturation='finite')",
        "to_odd, saturation finite",
    ),
    (
        Projection(nan="zero", nan_sign="drop", negative="drop_sign", zero="smallest", symmetric=True),
        "Projection(nan='zero', nan_sign='drop', negative='drop_sign', zero='smallest', symmetric=True)",
        "nearest_even, saturation none, nan zero, nan_sign drop, negative drop_sign, zero smallest, "
        "symmetric True",
    ),
]


@pytest.mark.parametrize(("projection", "expected", "words"), EXAMPLES, ids=str)
def test_a_repr_makes_the_projection_again_and_a_str_says_it_in_words(projection, expected, words):
    """The repr says what is not the default; the str always says rounding and saturation."""
    assert repr(projection) == expected
    assert eval(expected) == projection
    assert str(projection) == words


def test_a_mode_of_ones_own_has_a_repr_too():
    """It is spelled out, since its name is not known."""
    mine = Rounding("mine", Threshold.ANY, Threshold.ANY, Threshold.NEVER, Threshold.NEVER)
    projection = Projection(rounding=mine)
    assert eval(repr(projection)) == projection
    assert str(projection) == "mine, saturation none"


CHOICES = {
    "nan": ("error", "zero", "max", "negative_zero"),
    "nan_sign": ("keep", "drop", "positive"),
    "negative": ("nan", "zero", "error", "drop_sign"),
    "zero": ("nan", "smallest"),
    "smallest": ("itself", "zero"),
    "subnormals": ("keep", "flush_results", "flush_operands", "flush_both"),
    "overflow_test": ("after", "before", "exponent"),
    "tininess": ("after", "before"),
}


@pytest.mark.parametrize("field", CHOICES)
@pytest.mark.parametrize("given", ["other", None, "", 3], ids=repr)
def test_a_value_that_a_field_does_not_take_is_refused_with_those_that_it_does(field, given):
    """Each field by name."""
    message = f"{field}={given!r} of a projection is unknown; use one of {', '.join(CHOICES[field])}"
    with pytest.raises(ValueError, match=f"^{re.escape(message)}$"):
        Projection(**{field: given})


@pytest.mark.parametrize("field", CHOICES)
def test_every_choice_of_a_field_is_taken(field):
    """And is kept as it was given."""
    for choice in CHOICES[field]:
        assert getattr(Projection(**{field: choice}), field) == choice


@pytest.mark.parametrize("given", [-1, True, 1.0, "7F"], ids=repr)
def test_a_nan_code_is_a_code_or_none(given):
    """Whether a format has it as a NaN is seen where both are known."""
    message = f"nan_code={given!r} of a projection must be a code, 0 or more, or None"
    with pytest.raises(ValueError, match=f"^{re.escape(message)}$"):
        Projection(nan_code=given)
    assert Projection(nan_code=0x7D).nan_code == 0x7D


def test_via_is_a_tuple_of_formats():
    """A list becomes one, so that the projection stays a key."""
    assert Projection(via=[BINARY16]) == Projection(via=(BINARY16,))
    assert hash(Projection(via=[BINARY16])) == hash(Projection(via=(BINARY16,)))
    with pytest.raises(TypeError, match=r"^via of a projection must be a tuple of Format, not \(16,\)$"):
        Projection(via=(16,))


@pytest.mark.parametrize("given", [1, 0, None, "yes"], ids=repr)
def test_symmetric_is_a_bool(given):
    """Not what is merely true or false."""
    message = f"symmetric of a projection must be True or False, not {given!r}"
    with pytest.raises(TypeError, match=f"^{re.escape(message)}$"):
        Projection(symmetric=given)


def test_saturation_is_found_by_name_and_refused_otherwise():
    """Names are exact."""
    assert [saturation(name) for name in ("none", "finite", "propagate")] == list(Saturation)
    assert saturation(Saturation.FINITE) is Saturation.FINITE
    assert repr(Saturation.PROPAGATE) == "Saturation.PROPAGATE"
    assert str(Saturation.PROPAGATE) == "propagate"
    with pytest.raises(ValueError, match=r"^unknown saturation 'sat'; use one of none, finite, propagate$"):
        saturation("sat")
    with pytest.raises(TypeError, match=r"^saturation must be a Saturation or a name, not True$"):
        saturation(True)
    with pytest.raises(ValueError, match=r"^unknown rounding 'up'; use one of nearest_even"):
        Projection(rounding="up")
