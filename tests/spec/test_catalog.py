"""The catalog: what names, aliases and dtypes stand for, and which are refused."""

import copy
import importlib
import operator
import pickle
import pydoc
import re
import types
from collections.abc import Mapping

import ml_dtypes
import numpy as np
import pytest

import lowprec as lp
from lowprec.spec import catalog, naming
from lowprec.spec.families import p3109
from lowprec.spec.format import Format
from tests.support import pairs

#: What frameworks and papers write for formats.
ALIASES = """
binary32 | float32 fp32 single
tf32 | tensorfloat32
binary16 | float16 fp16 half
bfloat16 | bf16
e5m2 | float8_e5m2 fp8_e5m2
e4m3fn | float8_e4m3fn fp8_e4m3fn
e3m4 | float8_e3m4
e4m3fnuz | float8_e4m3fnuz
e5m2fnuz | float8_e5m2fnuz
e4m3b11fnuz | float8_e4m3b11fnuz
e8m0fnu | float8_e8m0fnu e8m0 ue8m0
e2m3fn | float6_e2m3fn fp6_e2m3 e2m3
e3m2fn | float6_e3m2fn fp6_e3m2 e3m2
e2m1fn | float4_e2m1fn float4_e2m1fn_x2 fp4_e2m1 e2m1
"""


@pytest.mark.parametrize("name", catalog.FORMATS)
def test_every_format_is_found_by_its_name_in_any_case_and_is_itself(name):
    """The same object, so that `is` works."""
    fmt = catalog.FORMATS[name]
    assert catalog.format(name) is catalog.format(name.upper()) is catalog.format(f" {name} ") is fmt
    assert catalog.format(fmt) is fmt
    assert fmt.name == name


@pytest.mark.parametrize(("name", "aliases"), pairs(ALIASES))
def test_aliases_stand_for_their_format(name, aliases):
    for alias in aliases.split():
        assert catalog.format(alias) is catalog.FORMATS[name]


def test_no_two_names_of_the_catalog_stand_for_equal_formats():
    """A second name is an alias, not a second entry."""
    assert len(set(catalog.FORMATS.values())) == len(catalog.FORMATS) == 28


@pytest.mark.parametrize(
    ("dtype", "name"),
    [
        (np.float32, "binary32"),
        (np.dtype("float16"), "binary16"),
        (np.dtype("<f4"), "binary32"),
        (np.int8, "int8"),
        (np.dtype("uint8"), "uint8"),
        (ml_dtypes.bfloat16, "bfloat16"),
        (np.dtype(ml_dtypes.bfloat16), "bfloat16"),
        (ml_dtypes.float8_e4m3fn, "e4m3fn"),
        (np.dtype(ml_dtypes.float8_e4m3), "float8_e4m3"),
        (ml_dtypes.float8_e8m0fnu, "e8m0fnu"),
        (ml_dtypes.float4_e2m1fn, "e2m1fn"),
        (ml_dtypes.int4, "int4"),
        (np.dtype(ml_dtypes.uint2), "uint2"),
    ],
    ids=str,
)
def test_dtypes_stand_for_their_format(dtype, name):
    """Types and dtype objects, NumPy's and ml_dtypes'."""
    assert catalog.format(dtype) is catalog.FORMATS[name]


@pytest.mark.parametrize(
    ("spelled", "name"),
    [
        ("torch.float16", "binary16"),
        ("torch.bfloat16", "bfloat16"),
        ("torch.float8_e4m3fn", "e4m3fn"),
        ("torch.float8_e5m2fnuz", "e5m2fnuz"),
        ("torch.float8_e8m0fnu", "e8m0fnu"),
        ("torch.float4_e2m1fn_x2", "e2m1fn"),
        ("torch.int8", "int8"),
    ],
)
def test_torch_dtypes_stand_for_their_format(spelled, name):
    """torch.dtype has a module and a str, and nothing else is used; so a stand-in suffices."""
    stub = types.new_class(
        "dtype", exec_body=lambda body: body.update(__module__="torch", __str__=lambda self: spelled)
    )
    assert catalog.format(stub()) is catalog.FORMATS[name]


def test_there_are_120_p3109_formats_of_at_most_8_bits():
    """4 for each width and precision where signed and unsigned both exist, 2 for precision = width."""
    assert len(catalog.P3109_UP_TO_8) == len(set(catalog.P3109_UP_TO_8)) == 120
    assert [sum(fmt.width == width for fmt in catalog.P3109_UP_TO_8) for width in range(3, 9)] == [
        10,
        14,
        18,
        22,
        26,
        30,
    ]
    for fmt in catalog.P3109_UP_TO_8:
        assert catalog.format(fmt.name) == fmt


@pytest.mark.parametrize("name", ["binary8p3se", "Binary8P3SE", "binary16p6uf"])
def test_p3109_names_are_made_on_demand(name):
    """They are in no list; their name says all."""
    assert catalog.format(name).name == name.lower()
    assert name.lower() not in catalog.FORMATS


# -- refusals ---------------------------------------------------------------------------------------


_EIGHT = (
    "'e4m3fn' (OCP, no infinities, max 448), 'float8_e4m3' (with infinities, max 240) or 'e4m3fnuz' (one "
    "NaN, max 240)"
)


@pytest.mark.parametrize(
    ("name", "choices"),
    [
        *((name, _EIGHT) for name in ("e4m3", "E4M3", "fp8_e4m3", "f8e4m3", "fp8", "float8")),
        ("fp6", "'e2m3fn' (max 7.5) or 'e3m2fn' (max 28)"),
        ("float4", "'e2m1fn' (of MXFP4 and NVFP4, max 6) or 'fp4_bnb' (of bitsandbytes, max 1)"),
    ],
)
def test_an_ambiguous_name_is_refused_with_the_choices(name, choices):
    """Several formats go by it in the literature, and each choice has the largest value that is said."""
    with pytest.raises(ValueError, match=f"^{re.escape(f'format {name!r} is ambiguous: use {choices}')}$"):
        catalog.format(name)
    for choice, largest in re.findall(r"'(\w+)' [^']*max ([\d.]+)", choices):
        assert catalog.format(choice).max_finite == float(largest)


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("e5m3", "unknown format 'e5m3'; did you mean 'ue5m3' or "),
        ("bfloat61", "unknown format 'bfloat61'; did you mean 'bfloat16'"),
        ("int3", "unknown format 'int3'; did you mean 'int8' or 'int4' or 'int2'? "),
        ("zzzz", "unknown format 'zzzz'; "),
        ("", "unknown format ''; "),
        ("binary8p3", "unknown format 'binary8p3'"),
        ("binary8p3sx", "unknown format 'binary8p3sx'"),
    ],
)
def test_an_unknown_name_is_refused_with_what_was_probably_meant(name, message):
    """And with the command that lists all."""
    with pytest.raises(ValueError, match=f"^{re.escape(message)}.*`lowprec formats` lists all names$"):
        catalog.format(name)


@pytest.mark.parametrize(
    ("given", "spelled"),
    [
        ("float64", "float64"),
        ("double", "double"),
        ("binary64", "binary64"),
        (np.float64, "float64"),
        (np.dtype("int16"), "int16"),
        (np.uint64, "uint64"),
        (bool, "bool"),
        (np.bool_, "bool"),
        (catalog.BINARY64, "binary64"),
        (catalog.CARRIERS["int32"], "int32"),
    ],
    ids=str,
)
def test_types_that_values_come_in_are_no_formats_to_encode_to(given, spelled):
    """As names, dtypes and carriers themselves; the way out is named."""
    message = (
        f"'{spelled}' is a type that values come in, not a format to encode to: lowprec carries values in "
        "float64 and codes in at most 32 bits. Use 'binary32' or narrower; for integers, "
        "`lowprec.spec.families.fixed`"
    )
    with pytest.raises(ValueError, match=f"^{re.escape(message)}$"):
        catalog.format(given)


@pytest.mark.parametrize("given", [None, 3, 1.5, ("e4m3fn",), object, b"e4m3fn"], ids=repr)
def test_what_is_neither_a_name_nor_a_dtype_is_refused(given):
    """A type error for what can be no name; a class is taken for a type and its name looked up."""
    if given is object:
        with pytest.raises(ValueError, match=r"^unknown format <class 'object'>"):
            catalog.format(given)
        return
    message = f"a format must be a Format, a name or a dtype, not {given!r}"
    with pytest.raises(TypeError, match=f"^{re.escape(message)}$"):
        catalog.format(given)


# -- carriers and ml_dtypes -------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("given", "name"),
    [
        ("float64", "binary64"),
        (np.float32, "binary32"),
        (np.bool_, "uint1"),
        (np.dtype("int64"), "int64"),
        (np.int8, "int8"),
        (ml_dtypes.uint4, "uint4"),
        (ml_dtypes.float8_e5m2, "e5m2"),
    ],
    ids=str,
)
def test_every_type_of_values_has_a_carrier(given, name):
    """Formats carry themselves."""
    assert catalog.carrier(given).name == name


@pytest.mark.parametrize("given", ["complex64", np.complex128, np.dtype("U3"), None, 3], ids=str)
def test_other_types_have_no_carrier(given):
    """None, not an error: the caller says what it was asked for."""
    assert catalog.carrier(given) is None


def test_ml_dtypes_names_are_those_of_ml_dtypes():
    """Each name that the installed ml_dtypes has is of a type with as many bytes as our codes."""
    named = {name: fmt for fmt in catalog.FORMATS.values() if (name := catalog.ml_dtypes_name(fmt))}
    assert len(named) == 16
    for name, fmt in named.items():
        if hasattr(ml_dtypes, name):
            assert np.dtype(getattr(ml_dtypes, name)).itemsize * 8 == fmt.code_bits
    assert catalog.ml_dtypes_name(catalog.TF32) is None
    assert catalog.ml_dtypes_name(p3109(8, 4, extended=False)) == "float8_e4m3fnuz"


def test_the_packages_names_are_the_catalogs():
    """`lp.format` and `lp.formats` are what users see of it."""
    assert lp.format is catalog.format
    assert lp.formats is catalog.FORMATS
    assert isinstance(lp.formats["e4m3fn"], Format)
    with pytest.raises(TypeError):
        lp.formats["mine"] = catalog.E4M3FN
    with pytest.raises(AttributeError, match=r"^module 'lowprec' has no attribute 'nonsense'$"):
        _ = lp.nonsense


CATALOGS = {
    "formats": (lp.formats, 28, "uint8       8    0        8        255       1         -        -"),
    "block_formats": (lp.block_formats, 17, "bnb_fp4           fp4_bnb binary32 64      divide 4.5"),
    "accumulations": (lp.accumulations, 266, "ace_top4mx_int8f6_binary32   int8f6 int8f6     -    "
                                             "sequential binary32"),
    "profiles": (lp.profiles, 42, "unit_scaling         e4m3fnuz e5m2fnuz            -"),
    "codebooks": (lp.codebooks, 14, "udynamic8      8    the same without negatives"),
    "library_calls": (lp.library_calls, 6, "blackwell_torch_rowwise_fp8 blackwell_tcgen05 x_first -"),
}  # fmt: skip


@pytest.mark.parametrize("name", CATALOGS)
def test_a_catalog_prints_as_a_short_table(name):
    """A row for each item, or the first of many and the last; in at most 110 columns."""
    catalogue, count, last = CATALOGS[name]
    lines = repr(catalogue).splitlines()
    assert lines[0] == f"{count} {name.replace('_', ' ')}; wherever one is taken, its name will do"
    assert lines[1].split()[0] == "name"
    assert lines[-1].strip().startswith(last)
    assert len(lines) == (count + 2 if count <= 44 else 16)
    assert max(map(len, lines)) <= 110
    if count > 44:
        assert lines[-2] == f"  ... {count - 13} more; list() of this has all names"


@pytest.mark.parametrize("name", CATALOGS)
def test_nobody_changes_a_catalog(name):
    """It is a mapping, as it was: equal to a dictionary of its items, and read-only."""
    catalogue = CATALOGS[name][0]
    with pytest.raises(TypeError):
        catalogue["mine"] = None
    assert isinstance(catalogue, Mapping)
    assert len(catalogue) == len(list(catalogue))
    assert "mine" not in catalogue
    assert catalogue.get("mine") is None


@pytest.mark.parametrize("name", [*CATALOGS, "encode", "scale_for", "error_report"])
def test_what_the_package_names_is_itself_after_a_pickle_or_a_copy(name):
    thing = getattr(lp, name)
    assert pickle.loads(pickle.dumps(thing)) is copy.copy(thing) is copy.deepcopy(thing) is thing


def test_a_catalog_of_ones_own_is_pickled_as_it_is():
    own = naming.Catalog("formats", {"mine": lp.formats["e5m2"]}, bits=operator.attrgetter("width"))
    assert dict(pickle.loads(pickle.dumps(own))) == dict(copy.deepcopy(own)) == {"mine": lp.formats["e5m2"]}


@pytest.mark.parametrize(
    ("names", "name", "message"),
    [
        (lp.formats, "e4m3fm", "'e4m3fm' is none of the 28 formats; did you mean 'e4m3fn' or 'ue4m3' or "
                               "'e4m3fnuz'? list() of these has all names"),
        (lp.profiles, "ocpsat", "'ocpsat' is none of the 42 profiles; did you mean 'ocp_sat' or 'ocp' or "
                                "'hip_sat'? list() of these has all names"),
        (lp.codebooks, "posit9", "'posit9' is none of the 14 codebooks; did you mean 'posit8' or 'posit16'? "
                                 "list() of these has all names"),
        (lp.library_calls, "hopper", "'hopper' is none of the 6 library calls; did you mean "
                                     "'hopper_cublaslt_fp8' or 'hopper_torch_rowwise_fp8'? list() of these "
                                     "has all names"),
        (lp.block_formats, 3, "3 is none of the 17 block formats; list() of these has all names"),
    ],
)  # fmt: skip
def test_a_name_that_a_catalog_lacks_is_answered_with_close_ones(names, name, message):
    """As a KeyError, without the quotes that Python puts around others'; it survives pickling."""
    with pytest.raises(KeyError) as caught:
        names[name]
    assert str(caught.value) == message
    assert str(pickle.loads(pickle.dumps(caught.value))) == message


def test_help_of_the_package_is_short():
    """A page or two, and not the help of every name; dir() has the names, and modules are attributes."""
    text = pydoc.plain(pydoc.render_doc(lp))
    assert len(text.splitlines()) < 80
    assert "encode decode quantize cast" in text
    assert {"encode", "exp", "formats", "testing", "methods", "p3109", "plot", "__version__"} <= set(dir(lp))
    assert not {"importlib", "annotations"} & set(dir(lp))
    assert lp.testing.check_format is importlib.import_module("lowprec.testing").check_format
    assert lp.methods.fp8 is importlib.import_module("lowprec.methods.fp8")
    assert "nvfp4" in dir(lp.methods)
    with pytest.raises(AttributeError, match=r"^module 'lowprec.methods' has no attribute 'nonsense'$"):
        _ = lp.methods.nonsense


def test_a_part_of_a_name_finds_block_formats_too():
    """Where no name is like it."""
    with pytest.raises(ValueError, match=r"^unknown format 'nvfp'; did you mean 'nvfp4' or 'nvfp4_2d'\? "):
        lp.format("nvfp")
