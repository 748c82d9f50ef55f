"""Rounding modes are four thresholds each; what they mean is checked in tests/oracle/test_convert.py."""

import re

import pytest

from lowprec.spec.rounding import MODES, Rounding, Threshold, rounding

NAMES = [
    "nearest_even",
    "nearest_away",
    "nearest_zero",
    "toward_zero",
    "toward_positive",
    "toward_negative",
    "away_from_zero",
    "to_odd",
]


def test_modes_are_in_the_order_of_documents():
    """Names are part of the interface, and the order of vector files."""
    assert [mode.name for mode in MODES] == [str(mode) for mode in MODES] == NAMES


@pytest.mark.parametrize("name", NAMES)
def test_a_mode_is_found_by_its_name_and_is_itself(name):
    """Names and values are interchangeable."""
    mode = rounding(name)
    assert mode.name == name
    assert rounding(mode) is mode
    assert mode in MODES


def test_thresholds_are_asked_by_sign_and_parity():
    """A mode of four different thresholds shows that none is mistaken for another."""
    mode = Rounding("odd_one", Threshold.ANY, Threshold.HALF_OR_ABOVE, Threshold.ABOVE_HALF, Threshold.NEVER)
    assert [
        mode.threshold(negative=negative, odd=odd) for negative in (False, True) for odd in (False, True)
    ] == [
        Threshold.ANY,
        Threshold.HALF_OR_ABOVE,
        Threshold.ABOVE_HALF,
        Threshold.NEVER,
    ]
    assert mode.threshold(negative=True, odd=False) is mode.negative_even


def test_mirrored_modes_mirror_each_other():
    """A law: -x toward positive is -(x toward negative); the others treat both signs alike."""
    mirror = {"toward_positive": "toward_negative", "toward_negative": "toward_positive"}
    for mode in MODES:
        other = rounding(mirror.get(mode.name, mode.name))
        for odd in (False, True):
            assert mode.threshold(negative=True, odd=odd) is other.threshold(negative=False, odd=odd)


def test_thresholds_grow():
    """The order ANY < HALF_OR_ABOVE < ABOVE_HALF < NEVER is that of how large a tail must be."""
    assert sorted(Threshold) == [
        Threshold.ANY,
        Threshold.HALF_OR_ABOVE,
        Threshold.ABOVE_HALF,
        Threshold.NEVER,
    ]
    assert repr(Threshold.ABOVE_HALF) == "Threshold.ABOVE_HALF"


@pytest.mark.parametrize("name", ["up", "", "NEAREST_EVEN", "nearest-even", "rne"])
def test_an_unknown_name_is_refused_with_all_that_are_known(name):
    """Names are exact."""
    message = f"unknown rounding {name!r}; use one of {', '.join(NAMES)} or stochastic(<bits>)"
    with pytest.raises(ValueError, match=f"^{re.escape(message)}$"):
        rounding(name)


@pytest.mark.parametrize("given", [None, 3, b"to_odd", Threshold.ANY], ids=repr)
def test_what_is_no_name_is_refused(given):
    """A type error."""
    message = f"rounding must be a Rounding or a name, not {given!r}"
    with pytest.raises(TypeError, match=f"^{re.escape(message)}$"):
        rounding(given)


@pytest.mark.parametrize(
    ("arguments", "error", "message"),
    [
        (("x", 3, 3, 3, 3), TypeError, "positive_even of a rounding mode must be a Threshold, not 3"),
        (("x", *[Threshold.NEVER] * 4, 40, "A"), ValueError, "bits=40 of a rounding mode is out of range"),
        (("x", *[Threshold.NEVER] * 4, -3, "A"), ValueError, "bits=-3 of a rounding mode is out of range"),
        (
            ("x", *[Threshold.NEVER] * 4, 8, "Q"),
            ValueError,
            "variant='Q' of stochastic rounding is unknown",
        ),
        (
            ("x", *[Threshold.NEVER] * 4, 0, "A"),
            ValueError,
            "variant='A' .* use one of none where bits=0",
        ),
    ],
)
def test_impossible_modes_are_refused(arguments, error, message):
    """A mode made by hand is checked like one by name."""
    with pytest.raises(error, match=message):
        Rounding(*arguments)
