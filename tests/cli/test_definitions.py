"""Private formats: what people type becomes a format or a message that says what to type."""

import pytest

from lowprec.cli.definitions import from_text
from lowprec.spec import catalog
from lowprec.spec.format import Sign
from lowprec.spec.toml_reading import load_toml
from tests.support import refusal_test


def test_a_definition_is_the_format_it_describes():
    """Equal to the catalog's, whose constructors are another way to the same fields."""
    assert from_text("exponent_bits=4,trailing_bits=3,nans=1") == catalog.E4M3FN
    assert from_text("exponent_bits=4, trailing_bits=3, bias=8, negative_zero=false") == catalog.E4M3FNUZ
    e8m0 = from_text("name=scale,exponent_bits=8,trailing_bits=0,sign=unsigned,nans=1,subnormals=False")
    assert (e8m0, e8m0.name) == (catalog.E8M0FNU, "scale")
    assert from_text("exponent_bits=0,trailing_bits=7,bias=-6,sign=twos_complement") == catalog.INT8


def test_a_file_is_named_after_itself(tmp_path):
    """Unless it says otherwise."""
    path = tmp_path / "mine.toml"
    path.write_text('exponent_bits = 5\ntrailing_bits = 2\nnans = 3\ninfinity = true\nsign = "magnitude"\n')
    fmt = load_toml(path)["mine"]
    assert (fmt, fmt.name, fmt.sign) == (catalog.E5M2, "mine", Sign.MAGNITUDE)


def test_a_bad_file_is_refused(tmp_path):
    """Wrong types and broken TOML alike."""
    path = tmp_path / "bad.toml"
    path.write_text("exponent_bits = ")
    with pytest.raises(ValueError, match=r"cannot read .*bad\.toml' as TOML"):
        load_toml(path)
    path.write_text('exponent_bits = "4"\ntrailing_bits = 3')
    with pytest.raises(ValueError, match="exponent_bits of a format must be of type int, not '4'"):
        load_toml(path)


test_what_cannot_be_is_refused = refusal_test(
    globals(),
    """
from_text("exponent_bits")
    ValueError: 'exponent_bits' of a format's definition is no key=value pair
from_text("exponent_bits=4")
    ValueError: a format's definition needs trailing_bits=
from_text("exponent_bits=four,trailing_bits=3")
    ValueError: exponent_bits='four' of a format must be an integer
from_text("exponent_bits=4,trailing_bits=3,infinity=maybe")
    ValueError: infinity='maybe' of a format must be true or false
from_text("exponent_bits=4,trailing_bits=3,sign=plus")
    ValueError: sign='plus' of a format is unknown; use one of magnitude, unsigned, twos_complement
from_text("exponent_bits=4,trailing_bits=3,mantissa=3")
    ValueError: unknown field 'mantissa' of a format; the fields are name,...
from_text("exponent_bits=4,exponent_bits=3")
    ValueError: 'exponent_bits' is given twice in a format's definition
from_text("exponent_bits=30,trailing_bits=30")
    ValueError: exponent_bits=30 of format 'private' with trailing_bits=30 makes 61 bits in all; use 2
    to 32
""",
)
