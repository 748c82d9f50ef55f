"""Codes where values are meant: refused with a question, and nothing else is."""

import re

import numpy as np
import pytest

import lowprec as lp

CODES = np.uint8([0x38, 0x40])  #: 1 and 2 in e4m3fn
HALVES = np.uint16([0x3F80, 0x4000])  #: 1 and 2 in bfloat16
FP8 = "hopper_wgmma_e4m3fn_binary32"


def _message(name, kind, fmt, taker, *, viewed=True):
    view = f", or {name}.view(lowprec.dtype({fmt!r}))" if viewed else ""
    wider = "int16" if kind == "uint8" else "int32"
    return re.escape(
        f"{name} is of {kind}, the type of codes of {fmt!r}, but {taker} takes values. Are these codes? Pass "
        f"lowprec.decode({name}, {fmt!r}){view}. Of whole numbers pass {name}.astype({wider!r})"
    )


REFUSED = {
    "add": (lambda: lp.add(CODES, 1.0, "e4m3fn"), _message("x", "uint8", "e4m3fn", "add")),
    "fma": (lambda: lp.fma(1.0, 1.0, CODES, "e4m3fn"), _message("z", "uint8", "e4m3fn", "fma")),
    "exp": (lambda: lp.exp(HALVES, "bfloat16"), _message("x", "uint16", "bfloat16", "exp")),
    "scaleb": (lambda: lp.scaleb(CODES, 1, "e4m3fn"), _message("x", "uint8", "e4m3fn", "scaleb")),
    "single": (lambda: lp.sqrt(CODES[0], "e4m3fn"), _message("x", "uint8", "e4m3fn", "sqrt")),
    "nextafter": (lambda: lp.nextafter(1.0, CODES, "e4m3fn"), _message("y", "uint8", "e4m3fn", "nextafter")),
    "ulp": (lambda: lp.ulp(CODES, "e4m3fn"), _message("x", "uint8", "e4m3fn", "ulp")),
    "codebook": (lambda: lp.add(1.0, CODES, "posit8"), _message("y", "uint8", "posit8", "add", viewed=False)),
    "dot": (lambda: lp.dot(CODES, CODES, FP8), _message("x", "uint8", "e4m3fn", FP8)),
    "matmul": (
        lambda: lp.matmul(np.ones((1, 2)), HALVES, "hopper_mma_bfloat16_binary32"),
        _message("y", "uint16", "bfloat16", "hopper_mma_bfloat16_binary32"),
    ),
}


@pytest.mark.parametrize("name", REFUSED)
def test_codes_in_place_of_values_are_asked_about(name):
    """The message names the argument, both ways out, and who takes values."""
    call, message = REFUSED[name]
    with pytest.raises(TypeError, match=f"^{message}$"):
        call()


def test_the_ways_out_are_ways():
    """Decoded, viewed as the format's own type, or as wider integers."""
    assert lp.add(lp.decode(CODES, "e4m3fn"), 1.0, "e4m3fn").tolist() == [2.0, 3.0]
    assert lp.add(CODES.view(lp.dtype("e4m3fn")), 1.0, "e4m3fn").tolist() == [2.0, 3.0]
    assert lp.add(np.array([1, 2], np.uint8).astype("int16"), 1.0, "e4m3fn").tolist() == [2.0, 3.0]
    assert lp.dot(CODES.view(lp.dtype("e4m3fn")), CODES.view(lp.dtype("e4m3fn")), FP8) == 5.0


@pytest.mark.parametrize("kind", ["int8", "int16", "int32", "int64", "uint16", "uint32", "uint64"])
def test_other_integers_are_numbers(kind):
    """Of every other type; lists and Python's too."""
    whole = np.array([1, 2], kind)
    assert lp.add(whole, 1, "e4m3fn").tolist() == [2.0, 3.0]
    assert lp.dot(whole, [1, 1], FP8) == 3.0
    assert lp.ulp(whole, "e4m3fn").tolist() == [0.125, 0.25]


def test_what_is_meant_to_be_encoded_may_be_of_any_type():
    """Images into FP8, powers of `scaleb`, formats whose codes are numbers, and sums that name no format."""
    whole = np.array([1, 2], np.uint8)
    assert lp.encode(whole, "e4m3fn").tolist() == [0x38, 0x40]
    assert lp.quantize(whole, "e4m3fn").tolist() == [1.0, 2.0]
    assert lp.scaleb(1.0, whole, "e4m3fn").tolist() == [2.0, 4.0]
    assert lp.add(whole, 1, "uint8").tolist() == [2.0, 3.0]
    assert lp.add(whole, 1, "binary16").tolist() == [2.0, 3.0]
    assert lp.dot(whole, whole, "fp32_fma") == 5.0


def test_integers_that_an_operand_does_not_have_may_be_codes_too():
    """Of a type that says nothing, the values tell: then the refusal asks as well."""
    with pytest.raises(ValueError, match=r"Quantize x to 'e4m3fn' first, or decode it if these are codes$"):
        lp.dot(np.array([57, 126]), [1, 1], FP8)
    with pytest.raises(TypeError, match=r"^codes of 'e4m3fn' must be integers, not float64"):
        lp.less([1.0], [2.0], "e4m3fn")
