"""Wherever a specification takes a format or a rounding, its name will do."""

import ast
import dataclasses
import importlib
import inspect
import pkgutil
import re

import pytest

import lowprec as lp
from lowprec import spec
from lowprec.spec import catalog
from lowprec.spec.block import ScaleRule
from lowprec.spec.format import Carrier
from lowprec.spec.order import Order
from lowprec.spec.profiles import profile
from lowprec.spec.rounding import NEAREST_EVEN, TOWARD_ZERO
from tests.support import refusal_test

HALF, SINGLE = (catalog.BINARY16, lp.Projection()), (catalog.BINARY32, lp.Projection(rounding=TOWARD_ZERO))


def test_accumulations_take_names():
    """In each of their places, alone or with a mode."""
    window = lp.Window(step=8, fraction_bits=24, result=("binary32", "toward_zero"))
    assert window == lp.Window(step=8, fraction_bits=24, result=SINGLE)
    named = lp.Accumulation(operands=("e4m3fn", "fp8_e5m2"), accumulator=window, output="half")
    meant = lp.Accumulation(operands=(catalog.E4M3FN, catalog.E5M2), accumulator=window, output=HALF)
    assert (named, hash(named)) == (meant, hash(meant))
    for both in ("e4m3fn", catalog.E4M3FN):  # one for both, as in a file
        assert dataclasses.replace(named, operands=both).operands == (catalog.E4M3FN, catalog.E4M3FN)
    plain = lp.Accumulation(
        product=("binary32", TOWARD_ZERO),
        order="chunked(4)",
        accumulator=("binary32", "toward_zero"),
        total=("binary16", lp.Projection()),
        output=catalog.BINARY16,
    )
    assert (plain.product, plain.accumulator, plain.total, plain.output) == (SINGLE, SINGLE, HALF, HALF)


def test_the_accumulator_may_be_float64_by_name():
    """A type that values come in, not a format to encode to."""
    how = lp.Accumulation(accumulator="float64", output="binary32")
    assert how == dataclasses.replace(lp.accumulations["fp64_sequential"], name="")


def test_block_formats_projections_and_profiles_take_names():
    """And mean what the objects mean."""
    mine = lp.BlockFormat(name="mine", element="e2m1fn", scale="e8m0", size=32)
    assert mine == lp.block_formats["mxfp4"]
    assert lp.Projection(via=("binary32", "float64")).via == (catalog.BINARY32, catalog.BINARY64)
    mine = lp.Profile("mine", "1", {"e4m3fn": lp.Projection()}, blocks={"mxfp4": mine})
    assert mine.projection("e4m3fn") == lp.Projection()
    assert mine.block("mxfp4") == lp.block_formats["mxfp4"]


def test_a_scale_of_an_accumulation_is_named():
    """As the operands are."""
    known = lp.accumulations["blackwell_tcgen05_e2m1fn_binary32_ue4m3_4"]
    assert dataclasses.replace(known, scale=("ue4m3", 16), operands=("e2m1", "e2m1")) == known


CARD = "mine\n0000 0000 : 3f80"
#: Specifications with a text in place of one of their fields, by what a message calls them.
NAMED = {
    "a format": lambda **of: lp.Format(exponent_bits=2, trailing_bits=1, **of),
    "a codebook": lambda **of: lp.Codebook(**{"name": "mine", "values": [0.0, 1.0, 2.0, 3.0]} | of),
    "a block format": lambda **of: lp.BlockFormat(
        **{"name": "mine", "element": "e2m1fn", "scale": "e8m0", "size": 32} | of
    ),
    "a scale rule": lambda **of: ScaleRule(**{"name": "mine", "divisor": "one", "powers": "none"} | of),
    "a rounding mode": lambda **of: dataclasses.replace(NEAREST_EVEN, **of),
    "an accumulation": lambda **of: lp.Accumulation(output="binary32", accumulator="binary32", **of),
    "a profile": lambda **of: lp.Profile(**{"name": "mine", "versions": "1", "formats": {}} | of),
    "a library call": lambda **of: lp.LibraryCall(
        accumulation=lp.accumulations["fp32_fma"], epilogue=lp.Epilogue(compute="binary32"), **of
    ),
}


@pytest.mark.parametrize("kind", NAMED)
def test_names_are_one_line_of_text_without_markup(kind):
    """Of everything that has a name: they go into vectors, headers, packages, tables and terminals."""
    for name in (CARD, "\x1b[31m", "a\u202eb", "\udc80", "a\rb", "a*/b", "[bold]", "a\\b", "a|b", "a`b"):
        message = f"name={name!r} of {kind} must be printable and without * [ ] \\ | `; choose another"
        with pytest.raises(ValueError, match=f"^{re.escape(message)}$"):
            NAMED[kind](name=name)
    for name in ("mine", "NF4, one scale", "größer 字", "<!--", "a/b"):
        assert NAMED[kind](name=name).name == name


@pytest.mark.parametrize(
    ("kind", "field"),
    [
        *((kind, "source") for kind in ("a format", "a codebook", "a block format", "an accumulation")),
        *(("a profile", "source"), ("a profile", "versions"), ("a library call", "evidence")),
    ],
)
def test_other_texts_are_one_line(kind, field):
    message = f"{field}={CARD!r} of {kind} must be printable; choose another"
    with pytest.raises(ValueError, match=f"^{re.escape(message)}$"):
        NAMED[kind](**{field: CARD})
    assert getattr(NAMED[kind](**{field: "[X] 3.1 *"}), field) == "[X] 3.1 *"


def test_every_specification_with_a_name_is_tried():
    found = {
        cls
        for module in pkgutil.walk_packages(spec.__path__, "lowprec.spec.")
        for cls in vars(importlib.import_module(module.name)).values()
        if inspect.isclass(cls) and dataclasses.is_dataclass(cls) and not cls.__name__.startswith("_")
        if any(field.name == "name" for field in dataclasses.fields(cls))
    }
    made = {type(make()) for kind, make in NAMED.items() if kind != "a rounding mode"} | {type(NEAREST_EVEN)}
    assert found - {Carrier, Order} == made  # the former are the package's own, the latter's are a list


@pytest.mark.parametrize("cls", [lp.Window, lp.Accumulation, lp.BlockFormat, lp.Projection, lp.Profile])
def test_type_checkers_are_told_every_field(cls):
    """The constructor that they see is written by hand, so that names pass."""
    tree = ast.parse(inspect.getsource(cls))
    told = next(
        node for node in ast.walk(tree) if isinstance(node, ast.FunctionDef) and node.name == "__init__"
    )
    positional = [argument.arg for argument in told.args.args[1:]]
    optional = positional[len(positional) - len(told.args.defaults) :]
    for argument, default in zip(told.args.kwonlyargs, told.args.kw_defaults, strict=True):
        positional.append(argument.arg)
        optional += [argument.arg] * (default is not None)
    fields = dataclasses.fields(cls)
    assert positional == [field.name for field in fields]
    missing = dataclasses.MISSING
    assert optional == [
        field.name for field in fields if field.default is not missing or field.default_factory is not missing
    ]


def test_a_profile_by_name_is_as_it_was():
    """Its keys were formats, and are."""
    assert all(isinstance(fmt, lp.Format) for fmt in profile("ocp_sat").formats)


test_what_cannot_be_is_refused = refusal_test(
    globals(),
    """
lp.Accumulation(output="binray32")
    ValueError: output of an accumulation: unknown format 'binray32'; did you mean 'binary32'...
lp.Accumulation(accumulator=("binary32", "nearest"), output="binary32")
    ValueError: accumulator of an accumulation: unknown rounding 'nearest'; use one of nearest_even...
lp.Accumulation(operands=("e4m3", "e4m3fn"), output="binary32")
    ValueError: operands of an accumulation: format 'e4m3' is ambiguous...
lp.BlockFormat(name="mine", element="e2m1fm", scale="e8m0", size=32)
    ValueError: element of block format 'mine': unknown format 'e2m1fm'; did you mean 'e2m1fn'...
lp.Profile("mine", "1", {"e4m3": lp.Projection()})
    ValueError: format 'e4m3' is ambiguous...
""",
)
