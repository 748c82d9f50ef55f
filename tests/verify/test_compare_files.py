"""Dumps are read as they were written, whatever their kind and size; what is no dump is refused in a line."""

from __future__ import annotations

import json
import math
import pathlib
import re
import time
import tracemalloc

import jsonschema
import ml_dtypes
import numpy as np
import pytest
from click.testing import CliRunner

import lowprec as lp
from lowprec.cli.main import main
from lowprec.spec import catalog
from lowprec.verify.compare import compare as comparing, report_pages
from lowprec.verify.dumps.files import Dump, DumpError, Held, Spool, open_dump
from lowprec.verify.questions.elements import elements
from tests.support import refusal_test

ROOT = pathlib.Path(__file__).parents[2]
E4M3FN, E2M1FN, E3M2FN = catalog.E4M3FN, catalog.E2M1FN, catalog.E3M2FN
RNG = np.random.default_rng(0)
CODES = RNG.integers(0, 256, (6, 20), dtype=np.uint8)


def whole(dump):
    return dump.read(0, dump.size).reshape(dump.shape)


def check(dump, want):
    """All of it, pieces of it, places of it: the same elements."""
    want = np.asarray(want)
    assert (dump.shape, dump.dtype, dump.size) == (want.shape, want.dtype, want.size)
    bits = f"u{want.itemsize}"
    flat = want.reshape(-1).view(bits)
    assert np.array_equal(whole(dump).reshape(-1).view(bits), flat)
    for start, stop in ((0, 1), (3, 10), (want.size - 3, want.size), (5, 5), (0, want.size + 7)):
        assert np.array_equal(dump.read(start, stop).view(bits), flat[start:stop])
    for index in (
        np.array([0]),
        np.array([2, 1, 1, want.size - 1]),
        np.arange(want.size)[::-1],
        np.empty(0, int),
    ):
        assert np.array_equal(dump.take(index).view(bits), flat[index])
    if want.ndim > 1:
        assert np.array_equal(dump.rows(1, 3).view(bits), want[1:3].view(bits))


@pytest.mark.parametrize(
    "array",
    [
        CODES,
        CODES[:, ::2],
        np.asfortranarray(CODES),
        CODES.reshape(2, 3, 20),
        CODES.astype(">u4"),
        RNG.standard_normal((4, 8)).astype(">f4"),
        RNG.standard_normal((4, 8)).astype(np.float16),
        RNG.standard_normal(40),
        RNG.integers(-9, 9, 33).astype(">i8"),
    ],
    ids=lambda array: f"{array.dtype.str}{array.shape}",
)
def test_npy_files_are_read_as_numpy_reads_them(tmp_path, array):
    """Any order and byte order, in memory and in a file."""
    np.save(tmp_path / "a.npy", array)
    want = array.astype(array.dtype.newbyteorder("="))
    check(open_dump(str(tmp_path / "a.npy")), want)
    check(Held(array), want)


def test_shapes_that_are_each_others_reverse_are_compared_in_order_and_said(tmp_path):
    """Either file may name its axes from the last to the first."""
    x = RNG.standard_normal((6, 20)).astype(np.float32)
    report = lp.compare(x, lp.encode(x, "e4m3fn").reshape(20, 6), "e4m3fn")
    assert report.agrees
    (said,) = report.read
    assert said.endswith("has shape (6, 20) and the results (20, 6): compared in order, row by row")
    assert lp.compare(x, lp.encode(x, "e4m3fn"), "e4m3fn").read == ()


@pytest.mark.parametrize("name", ["float8_e4m3fn", "float8_e5m2", "bfloat16", "float4_e2m1fn"])
def test_types_of_ml_dtypes_are_read_as_codes(tmp_path, name):
    """NumPy saves them without their names, and cannot load float8_e5m2 at all."""
    array = RNG.standard_normal(24).astype(getattr(ml_dtypes, name))
    np.save(tmp_path / "a.npy", array)
    check(open_dump(str(tmp_path / "a.npy")), array.view(f"u{array.itemsize}"))


def test_raw_files_have_the_type_and_shape_that_they_are_given(tmp_path):
    """Little-endian; of one dimension where no shape is given; a colon in a name is no harm."""
    path = tmp_path / "a:b.bin"
    CODES.tofile(path)
    check(open_dump(f"{path}:uint8:6,20"), CODES)
    check(open_dump(f"{path}:uint8:6x20"), CODES)
    check(open_dump(f"{path}:uint16"), CODES.reshape(-1).view("<u2"))
    check(open_dump(f"{path}:float8_e4m3fn"), CODES.reshape(-1).view(ml_dtypes.float8_e4m3fn))
    check(open_dump(f"{path}:>u2"), CODES.reshape(-1).view(">u2").astype("u2"))
    check(open_dump(f"{path}:<u2"), CODES.reshape(-1).view("<u2"))


@pytest.mark.parametrize("name", ["float4_e2m1fn", "float6_e2m3fn"])
def test_tensors_without_whole_bytes_are_read(tmp_path, name):
    codes = np.arange(12, dtype=np.uint8).view(getattr(ml_dtypes, name)).reshape(3, 4)
    lp.save(tmp_path / "m.safetensors", {"w": codes})
    dump = open_dump(f"{tmp_path}/m.safetensors:w")
    assert dump.shape == (3, 4)
    np.testing.assert_array_equal(dump.read(0, 12).view(np.uint8), np.arange(12))


def test_tensors_of_safetensors_are_read_by_name(tmp_path):
    """The library wrote them; alone a tensor needs no name."""
    import safetensors.numpy as safetensors

    numbers = RNG.standard_normal((4, 30)).astype(np.float32)
    path = tmp_path / "m.safetensors"
    safetensors.save_file({"layer.0:w": numbers, "codes": CODES}, path)
    check(open_dump(f"{path}:layer.0:w"), numbers)
    check(open_dump(f"{path}:codes"), CODES)
    with pytest.raises(DumpError, match="has 2 tensors; name one behind a colon: "):
        open_dump(str(path))
    with pytest.raises(DumpError, match="has no tensor 'z'; name one behind a colon: "):
        open_dump(f"{path}:z")
    safetensors.save_file({"codes": CODES}, path)
    check(open_dump(str(path)), CODES)


@pytest.mark.parametrize("fmt", [E2M1FN, E3M2FN], ids=str)
def test_packed_codes_are_unpacked(tmp_path, fmt):
    """Along the last axis, raw and as .npy; a shape may say that the last byte is not full."""
    codes = RNG.integers(0, 1 << fmt.width, (6, 20), dtype=np.uint8)
    packed = lp.BlockArray(
        codes, np.ones((6, 1), np.uint8), "mxfp4" if fmt == E2M1FN else "mxfp6_e3m2"
    ).packed()
    np.save(tmp_path / "p.npy", packed)
    packed.tofile(tmp_path / "p.bin")
    check(open_dump(f"{tmp_path / 'p.npy'}:packed", fmt), codes)
    check(open_dump(f"{tmp_path / 'p.bin'}:packed:6,20", fmt), codes)
    check(open_dump(f"{tmp_path / 'p.bin'}:packed", fmt, (6, 20)), codes)
    check(open_dump(f"{tmp_path / 'p.bin'}:packed", fmt), codes.reshape(-1))


def test_hexadecimal_text_is_read_with_its_comments(tmp_path):
    """Several words a line, $readmemh's underscores and both kinds of comment."""
    path = tmp_path / "codes.mem"
    path.write_text("// head\n0x7f 00 1_0 # three\n\nfF\n")
    check(open_dump(str(path), E4M3FN), np.array([0x7F, 0, 0x10, 0xFF], np.uint8))


def test_a_line_that_is_a_whole_file_takes_little_memory(tmp_path):
    """Its words took 25 times the memory of the file."""
    codes = np.random.default_rng(1).integers(0, 256, 100_000, np.uint8)
    (tmp_path / "a.hex").write_text(codes.tobytes().hex(" "))
    tracemalloc.start()
    try:
        found = open_dump(str(tmp_path / "a.hex"), E4M3FN)
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert peak < 8 * (tmp_path / "a.hex").stat().st_size
    np.testing.assert_array_equal(found.read(0, found.size), codes)


def test_spools_give_back_what_they_were_given():
    """And leave no file behind."""
    spool = Spool("int64", "numbers")
    for start in range(0, 3_000_000, 500_000):
        spool.append(np.arange(start, start + 500_000))
    dump = spool.dump()
    assert np.array_equal(dump.read(1_500_000, 1_500_003), [1_500_000, 1_500_001, 1_500_002])
    path = dump._path
    assert path.exists()
    del dump, spool
    assert not path.parent.exists()


def refused(tmp_path, name, content, spelled="", fmt=None):
    (tmp_path / name).write_bytes(content)
    with pytest.raises(DumpError) as error:
        open_dump(f"{tmp_path / name}{spelled}", fmt)
    return str(error.value).replace(str(tmp_path / name), name)


def test_files_that_are_no_dumps_are_refused(tmp_path):
    """In one line that says what there is, what was asked and what would do."""
    assert refused(tmp_path, "a.bin", b"12345") == (
        "'a.bin' does not say what it holds; give its type and shape, for instance 'a.bin:float32:1024,768', "
        "or save an .npy file"
    )
    assert (
        refused(tmp_path, "a.bin", b"12345", ":float32")
        == "'a.bin' has 5 bytes, which is no multiple of float32's 4"
    )
    assert "an array of shape 2x3 of uint8 takes 6" in refused(tmp_path, "a.bin", b"12345", ":uint8:2,3")
    assert refused(tmp_path, "a.bin", b"12345", ":uint8:2,y").startswith("'2,y' is no shape of 'a.bin'")
    assert refused(tmp_path, "a.bin", b"1", ":float33").startswith("'float33' is no type")
    assert "packed codes have 2, 4 or 6 bits, and 'e4m3fn' has 8" in refused(
        tmp_path, "a.bin", b"1", ":packed", E4M3FN
    )
    assert "packed codes have 2, 4 or 6 bits, and none is named" in refused(
        tmp_path, "a.bin", b"1", ":packed"
    )
    assert refused(tmp_path, "a.npy", b"12345").startswith("cannot read 'a.npy' as an .npy file: ")
    assert refused(tmp_path, "a.npy", b"").startswith("cannot read 'a.npy' as an .npy file: ")
    assert refused(tmp_path, "a.safetensors", b"123").startswith(
        "cannot read 'a.safetensors' as a safetensors file: "
    )
    assert "its header is said to have" in refused(tmp_path, "a.safetensors", b"\xff" * 8 + b"{}")
    assert refused(tmp_path, "a.hex", b"7f") == "'a.hex' holds codes in hexadecimal: say of which format"
    message = "line 2 of 'a.hex' holds 'zz', which is no hexadecimal number"
    assert refused(tmp_path, "a.hex", b"7f\nzz", fmt=E4M3FN) == message
    message = "line 1 of 'a.hex' holds '17f', which is no 8-bit code of 'e4m3fn'"
    assert refused(tmp_path, "a.hex", b"17f", fmt=E4M3FN) == message
    np.save(tmp_path / "b.npy", np.zeros(3, [("a", "u1")]))
    with pytest.raises(DumpError, match="only plain numbers are compared"):
        open_dump(str(tmp_path / "b.npy"))
    np.save(tmp_path / "c.npy", np.zeros(300))
    (tmp_path / "c.npy").write_bytes((tmp_path / "c.npy").read_bytes()[:-8])
    with pytest.raises(
        DumpError, match="has 2,392 bytes of data, but an array of shape 300 of float64 takes 2,400"
    ):
        open_dump(str(tmp_path / "c.npy"))
    with pytest.raises(DumpError, match="there is no file 'nix'"):
        open_dump("nix:uint8")


@pytest.mark.parametrize(
    ("entry", "message"),
    [
        ({"shape": [3], "data_offsets": [0, 3]}, "must have dtype, shape and data_offsets"),
        ({"dtype": "U8", "shape": [3]}, "must have dtype, shape and data_offsets"),
        ({"dtype": "U8", "shape": [3], "data_offsets": [-8, 3]}, "must be numbers from 0 to 2**63 - 1"),
        ({"dtype": "U8", "shape": [-3], "data_offsets": [0, 3]}, "must be numbers from 0 to 2**63 - 1"),
        (
            {"dtype": "U8", "shape": [3], "data_offsets": [0, 2]},
            "takes 3 bytes, not the 2 of its data_offsets",
        ),
        ({"dtype": "X8", "shape": [3], "data_offsets": [0, 3]}, "has type 'X8'; known are BOOL, F4"),
        (7, "must have dtype, shape and data_offsets, not 7"),
    ],
)
def test_a_header_that_contradicts_itself_is_refused(tmp_path, entry, message):
    """In one line, with the tensor's name."""
    header = json.dumps({"t": entry}).encode()
    content = len(header).to_bytes(8, "little") + header + b"abc"
    said = refused(tmp_path, "a.safetensors", content)
    assert message in said
    assert "'t' of 'a.safetensors'" in said


@pytest.mark.parametrize(
    "header",
    [
        "{'descr': '<f4', 'shape': (4,)}",
        "{'descr': '<f4', 'fortran_order': True, 'shape': (1000000, 1000000)}",
        "{'descr': '<f4', 'fortran_order': False, 'shape': (-4, -4)}",
        "{'descr': '<f4', 'fortran_order': False, 'shape': ('a',)}",
        "{'descr': '<c16', 'fortran_order': False, 'shape': (1,)}",
        "{'descr': 'f4,f4', 'fortran_order': False, 'shape': (2,)}",
        "{'descr': '(2,)f4', 'fortran_order': False, 'shape': (2,)}",
        "{'descr': '<f4', 'fortran_order': 'False', 'shape': (2, 2)}",
        "{'descr': '<f4', 'fortran_order': False, 'shape': (3,)}",
        "-" * 20_000,
    ],
)
def test_an_npy_header_that_cannot_be_is_refused(tmp_path, header):
    """Whatever it says; no memory is taken for what is not there."""
    content = b"\x93NUMPY\x01\x00" + len(header).to_bytes(2, "little") + header.encode() + bytes(16)
    said = refused(tmp_path, "a.npy", content)
    assert "a.npy" in said
    assert ("its header has no 'fortran_order'" in said) == (
        "descr" in header and "fortran_order" not in header
    )


def test_an_npy_file_of_another_version_or_of_two_arrays_is_refused(tmp_path):
    """Two arrays may be saved one behind the other; the first was compared, and the second was not."""
    with (tmp_path / "two.npy").open("wb") as file:
        np.save(file, np.zeros(4))
        np.save(file, np.ones(4))
    with pytest.raises(DumpError, match="160 bytes behind its array, which may be another one"):
        open_dump(str(tmp_path / "two.npy"))
    assert "its version is (9, 9)" in refused(tmp_path, "a.npy", b"\x93NUMPY\x09\x09" + bytes(64))


@pytest.mark.parametrize("spelled", [":str", ":U0", ":V0", ":complex64", ":uint8:-64,-64", ":packed:-6,-4"])
def test_types_and_shapes_that_cannot_be_are_refused(tmp_path, spelled):
    """Raw files have them in their names."""
    assert "a.bin" in refused(tmp_path, "a.bin", bytes(64), spelled, E2M1FN) or "is no type" in refused(
        tmp_path, "a.bin", bytes(64), spelled, E2M1FN
    )


def test_memory_files_have_addresses_and_comments(tmp_path):
    """An address is passed over where it is that of the next code; words of underscores are none."""
    path = tmp_path / "codes.mem"
    path.write_text("/* a\n12 */ @0 01 02 // three\n@2 03 /* */ 04\n")
    check(open_dump(str(path), E4M3FN), np.array([1, 2, 3, 4], np.uint8))
    path.write_text("// a /* b\n01 # /*\n02 /* // */ 03 /* a\n// */04\n")
    check(open_dump(str(path), E4M3FN), np.array([1, 2, 3, 4], np.uint8))  # a comment begins none
    message = "line 2 of 'a.mem' begins a comment /* that has no end"
    assert refused(tmp_path, "a.mem", b"01\n/* 02\n", fmt=E4M3FN) == message
    assert "holds '*/', which is no hexadecimal number" in refused(tmp_path, "a.mem", b"01 */", fmt=E4M3FN)
    message = "line 1 of 'a.mem' holds '@8', which is an address other than that of the next code, 1"
    assert refused(tmp_path, "a.mem", b"01 @8 02", fmt=E4M3FN) == message
    assert "holds '_', which is no hexadecimal number" in refused(tmp_path, "a.mem", b"_", fmt=E4M3FN)


# -- larger than memory --------------------------------------------------------------------------------


class Watched(Dump):
    """Numbers that are made as they are read, and a note of how much was read at once."""

    def __init__(self, size, make, dtype):
        self.name, self.shape, self.dtype, self.make, self.most = "made", (size,), np.dtype(dtype), make, 0

    def read(self, start, stop):
        """Read as a file would."""
        return self.take(np.arange(start, min(stop, self.size)))

    def take(self, index):
        """Read as a file would."""
        self.most = max(self.most, index.size)
        return self.make(index)


@pytest.mark.apart
def test_a_comparison_never_holds_more_than_a_piece():
    """Ten pieces have mismatches; docs/compare.md says what a pair of dumps of 3 GB takes."""
    size = 10 * elements._PIECE + 77
    x = Watched(size, lambda index: (index % 65521).astype(np.float32), np.float32)
    got = Watched(
        size,
        lambda index: lp.encode((index % 65521).astype(np.float32), "e5m2", rounding="toward_zero"),
        "u1",
    )
    report = comparing.compare(x, got, "e5m2")
    assert (report.compared, report.cause.explained) == (size, report.mismatches)
    assert report.cause.words.startswith("truncation")
    assert max(x.most, got.most) == elements._PIECE


# -- the report ----------------------------------------------------------------------------------------


@pytest.fixture
def files(tmp_path):
    x = np.random.default_rng(0).standard_normal((16, 64)).astype(np.float32)
    x[0, :3] = [np.inf, np.nan, 500]
    np.save(tmp_path / "x.npy", x)
    np.save(tmp_path / "cut.npy", lp.encode(x, "e4m3fn", rounding="toward_zero"))
    np.save(tmp_path / "right.npy", lp.encode(x, "e4m3fn"))
    return tmp_path


@pytest.mark.parametrize("name", ["float8_e4m3fn", "float8_e5m2", "bfloat16"])
def test_operands_whose_type_was_not_saved_need_a_format(tmp_path, name):
    """They were taken for integers."""
    x = RNG.standard_normal(24).astype(getattr(ml_dtypes, name))
    np.save(tmp_path / "x.npy", x)
    np.save(tmp_path / "y.npy", lp.encode(x, "e4m3fn"))
    arguments = open_dump(str(tmp_path / "x.npy")), open_dump(str(tmp_path / "y.npy")), "e4m3fn"
    message = (
        f"{tmp_path / 'x.npy'} holds elements of {x.itemsize} bytes, whose type NumPy did not save; say of "
        f"which format they are codes: --from, source=, or fmt= of open_dump; or save float32"
    )
    with pytest.raises(ValueError, match=f"^{re.escape(message)}$"):
        lp.compare(*arguments)
    assert lp.compare(*arguments, source=name).agrees
    with pytest.raises(ValueError, match=f"^{re.escape(message)}$"):
        lp.error_report(str(tmp_path / "x.npy"), "mxfp4")
    with pytest.raises(TypeError, match=re.escape(message)):
        lp.encode(open_dump(str(tmp_path / "x.npy")), "e4m3fn")
    named = open_dump(str(tmp_path / "x.npy"), catalog.format(name))
    assert np.array_equal(lp.encode(named, "e4m3fn"), lp.encode(x, "e4m3fn"))
    if x.itemsize == 2:
        with pytest.raises(ValueError, match="whose type NumPy did not save"):
            lp.compare(x, str(tmp_path / "x.npy"), "e4m3fn")


def test_strings_name_files_of_codes_in_the_format_that_is_asked_for(tmp_path):
    x = RNG.standard_normal((4, 32)).astype(np.float32)
    codes, blocks = lp.encode(x, "e4m3fn"), lp.encode(x, "mxfp4")
    files = {name: str(tmp_path / name) for name in ("x.npy", "c.hex", "p.npy", "s.hex", "y.hex")}
    np.save(files["x.npy"], x)
    np.save(files["p.npy"], blocks.packed())
    for name, written in (("c.hex", codes), ("y.hex", codes), ("s.hex", blocks.scales)):
        pathlib.Path(files[name]).write_text(written.tobytes().hex(" "))
    assert lp.compare(files["x.npy"], files["c.hex"], "e4m3fn").compared == x.size
    assert lp.compare(files["x.npy"], files["c.hex"], "e4m3fn").agrees
    report = lp.compare(files["x.npy"], f"{files['p.npy']}:packed", "mxfp4", scales=files["s.hex"])
    assert report.agrees
    assert lp.compare(files["y.hex"], codes.reshape(-1), "e4m3fn", source="e4m3fn").agrees


def test_operands_may_be_codes_of_binary64(tmp_path):
    x = RNG.standard_normal(16)
    (tmp_path / "x.hex").write_text(x.astype(">f8").tobytes().hex(" ", 8))
    np.save(tmp_path / "y.npy", lp.encode(x, "e4m3fn"))
    run = command(tmp_path / "x.hex", tmp_path / "y.npy", "--to", "e4m3fn", "--from", "binary64")
    assert (run.exit_code, run.output) == (0, "16 results agree\n")


def test_bytes_with_more_bits_than_their_type_are_refused(tmp_path):
    """Refuse packed codes as bytes of one code, whose upper halves were left out without a word."""
    path = tmp_path / "d.bin"
    np.array([0x01, 0x03, 0x25, 0x07], np.uint8).tofile(path)
    said = f"'{path}' has bits beyond the 4 of int4, the first at index 2; codes without gaps are FILE:packed"
    with pytest.raises(DumpError, match=f"^{re.escape(said)}"):
        lp.compare(np.array([1, 3, 5, 7], np.float32), f"{path}:int4", "int4")
    np.array([0x01, 0x03, 0x05, 0x0F], np.uint8).tofile(path)
    assert lp.compare(np.array([1, 3, 5, -1], np.float32), f"{path}:int4", "int4").agrees


def command(*words):
    return CliRunner().invoke(main, ["compare", *map(str, words)])


def test_exit_codes_say_what_was_found(files):
    """0 all agree, 1 some differ, 2 bad input, 3 nothing was compared."""
    x, cut, right = (files / f"{name}.npy" for name in ("x", "cut", "right"))
    assert command(x, right, "--to", "e4m3fn").exit_code == 0
    assert command(x, cut, "--to", "e4m3fn").exit_code == 1
    assert command(x, cut, "--to", "e4m3fn", "--rounding", "toward_zero").exit_code == 0
    assert command(x, right).exit_code == 0
    assert command(x, files / "nix.npy", "--to", "e4m3fn").exit_code == 2
    np.save(files / "none.npy", np.empty(0, np.float32))
    np.save(files / "codes.npy", np.empty(0, np.uint8))
    assert command(files / "none.npy", files / "codes.npy", "--to", "e4m3fn").exit_code == 3


def test_the_report_of_files_is_text_and_json_and_pages(files):
    """All of one comparison; the JSON obeys its schema and says what the text says."""
    words = (files / "x.npy", files / "cut.npy", "--to", "e4m3fn")
    page, tests = files / "r.html", files / "r.xml"
    text = command(*words, "--html", page, "--junit", tests).output
    found = json.loads(command(*words, "--json").output)
    schema = json.loads((ROOT / "tables" / "schema" / "compare.schema.json").read_text())
    jsonschema.Draft202012Validator.check_schema(schema)
    jsonschema.validate(found, schema)
    assert f"{found['mismatches']:,} of {found['compared']:,} results differ" in text
    assert f"explained by {found['diagnosis']['causes'][0]['hypothesis']}" in text
    assert found["compared"] == 16 * 64
    assert sum(found["situations"].values()) == sum(found["distances"].values()) + found["no_distance"]
    assert (
        sum(found["binades"].values()) == found["mismatches"] == sum(one["count"] for one in found["classes"])
    )
    assert len(found["first"]) == 20
    assert found["first"][0]["at"] == [0, 2]
    html, xml = page.read_text(), tests.read_text()
    assert "<svg" in html
    assert "http" not in html.replace("http://www.w3.org", "").replace("https://matplotlib.org", "").replace(
        "http://purl.org", ""
    ).replace("http://creativecommons.org", "")
    assert found["diagnosis"]["causes"][0]["hypothesis"] in html
    assert 'failures="1"' in xml
    assert "truncation" in xml


@pytest.mark.apart
@pytest.mark.parametrize("case", [("mxfp4", {"rule": "ceil"}), ("mxfp8_e4m3", {"axis": 0})])
def test_reports_of_blocks_obey_the_schema(case):
    """With scales and of values."""
    fmt, options = case
    schema = json.loads((ROOT / "tables" / "schema" / "compare.schema.json").read_text())
    x = np.random.default_rng(0).standard_normal((64, 64)).astype(np.float32)
    blocks = lp.encode(x, fmt, **options)
    for got, scales in ((blocks.codes, blocks.scales), (blocks.values(), None)):
        report = lp.compare(x, got, fmt, scales=scales)
        jsonschema.validate(json.loads(report.as_json()), schema)
        text = report.as_text()
        assert text.startswith(report.sum())
        assert "\n\nindex " in text
    sums = lp.compare((x, x), lp.matmul(x, x, "fp32_pairwise"), operation="matmul", accumulation="fp32_fma")
    jsonschema.validate(json.loads(sums.as_json()), schema)


def test_a_page_that_cannot_be_made_leaves_no_file(files, monkeypatch):
    """The way out is named."""

    def missing(package, what):
        raise ModuleNotFoundError(f'{what} needs {package}: pip install "lowprec[report]"')

    monkeypatch.setattr(report_pages, "_need", missing)
    run = command(files / "x.npy", files / "cut.npy", "--to", "e4m3fn", "--html", files / "r.html")
    assert run.exit_code == 2
    assert 'the plots of an HTML page needs matplotlib: pip install "lowprec[report]"' in run.output
    assert not (files / "r.html").exists()


def test_arguments_that_do_not_fit_are_refused(files):
    """Each in one line."""
    x, cut = files / "x.npy", files / "cut.npy"
    np.save(files / "short.npy", np.zeros(5, np.uint8))
    for words, message in (
        ((x,), "give the INPUT and the OUTPUT"),
        ((x, cut, cut, "--to", "e4m3fn"), "a conversion has one INPUT and one OUTPUT, not 3 files"),
        ((x, files / "short.npy", "--to", "e4m3fn"), "has 1,024 elements, but there are 5 results"),
        (
            (x, cut, "--to", "e4m3fn", "--operation", "foo"),
            "unknown operation 'foo'; use one of convert, add",
        ),
        ((x, cut, "--to", "e4m3fn", "--operation", "add"), "add takes 2 operands, not 1"),
        ((x, cut, "--to", "e4m3fn", "--axis", "0"), "axis= is for block formats, and 'e4m3fn' is none"),
        (
            (x, cut, "--to", "e4m3fn", "--accumulation", "exact"),
            "accumulation= and addend= are for dot and matmul",
        ),
        ((x, cut, "--to", "e4m3fn", "--from", "e5m2"), "which are no codes of 'e5m2'; leave source= out"),
        (
            (x, cut, "--to", "e4m3fn", "--rounding", "stochastic(8)"),
            "needs a random integer for each operand",
        ),
        (
            (x, cut, "--to", "e4m3fn", "--profile", "ocp_sat", "--saturation", "finite"),
            "all say how to convert",
        ),
        (("-", "convert", "binary32", "e4m3fn", "--to", "e4m3fn"), "--to is for files of arrays"),
    ):
        run = command(*words)
        assert run.exit_code == 2, words
        assert message in " ".join(run.output.split()), run.output


@pytest.mark.parametrize("shape", [(), (1,), (0,), (3, 0), (1, 1, 5)])
def test_arrays_of_any_shape_are_compared(shape):
    """Arrays without elements are not compared."""
    x = np.ones(shape, np.float32)
    report = lp.compare(x, lp.encode(x, "e4m3fn"), "e4m3fn")
    assert (report.compared, report.mismatches) == (math.prod(shape), 0)
    assert report.agrees == bool(math.prod(shape))


def test_results_that_are_no_codes_or_values_of_the_format_are_counted_as_such():
    """A code too large for 4 bits, a value between two of the format."""
    report = lp.compare(np.float32([1.0, 2.0]), np.uint8([0x12, 4]), "e2m1fn")
    assert (report.mismatches, report.tally.classes, report.tally.no_distance) == (
        1,
        {("no code", "normal"): 1},
        1,
    )
    assert "12  no code of e2m1fn" in report.as_text()
    report = lp.compare(np.float32([1.03, 2.0]), np.float32([1.03, 2.0]), "e4m3fn")
    assert (report.mismatches, report.tally.classes) == (1, {("no code", "normal"): 1})
    assert "which e4m3fn does not have" in report.as_text()


def test_results_that_were_not_quantised_are_asked_about():
    """Nothing explains them, and most mismatches are such; so are results given as operands."""
    x = np.random.default_rng(0).standard_normal(64, np.float32)
    asked = (
        "64 results are no values of the format: were they quantised, and to this format? "
        "Operands come first, results last"
    )
    assert asked in lp.compare(x, x, "e4m3fn").as_text().splitlines()
    assert asked in lp.compare(lp.encode(x, "e4m3fn"), x, "e4m3fn").as_text().splitlines()
    codes = lp.encode(x, "e4m3fn")
    codes[:9] = np.random.default_rng(1).integers(0, 120, 9)
    assert "no values of the format" not in lp.compare(x, codes, "e4m3fn").as_text()


def test_any_nan_will_do_of_values_and_where_it_is_asked():
    """-NaN for NaN."""
    x = np.float32([np.nan, 1.0])
    codes = lp.encode(x, "e4m3fn") | np.uint8([0x80, 0])
    assert lp.compare(x, codes, "e4m3fn").mismatches == 1
    assert lp.compare(x, codes, "e4m3fn", any_nan=True).mismatches == 0
    assert lp.compare(x, lp.decode(codes, "e4m3fn"), "e4m3fn").mismatches == 0
    assert lp.compare(x, np.float32([1.0, np.nan]), "e4m3fn").mismatches == 2


@pytest.mark.parametrize("how", ["replaced", "written", "cut"])
@pytest.mark.parametrize("kind", ["npy", "bin:uint8", "safetensors:x", "bin:packed"])
def test_a_dump_that_changes_while_it_is_read_is_refused(tmp_path, kind, how):
    """Two arrays were compared as if they were one; of one that was cut, fewer elements."""
    path = tmp_path / f"x.{kind.partition(':')[0]}"
    content = np.arange(4096, dtype=np.uint8)
    if path.suffix == ".npy":
        np.save(path, content)
    elif path.suffix == ".bin":
        path.write_bytes(content.tobytes())
    else:
        lp.save(path, {"x": content})
    dump = open_dump(str(path).replace(path.suffix, f".{kind}"), E2M1FN)
    first, data = dump.read(0, 4), path.read_bytes()
    assert first.size == 4
    time.sleep(0.05)  # longer than the clock of files takes from one time to the next
    if how == "replaced":
        (tmp_path / "other").write_bytes(data)
        (tmp_path / "other").rename(path)
    else:
        path.write_bytes(data[:-1] + b"x" if how == "written" else data[: len(data) // 2])
    for read in (
        lambda: dump.read(64, 128),
        lambda: dump.take(np.array([0, 5])),
        lambda: dump.take(np.array([0, 99])),
    ):
        with pytest.raises(ValueError, match="was changed or replaced while it was read; start again"):
            read()


def test_elements_are_taken_from_anywhere_in_a_file(tmp_path):
    """In any order, some twice, within and across what is read at once; none of none."""
    np.save(tmp_path / "x.npy", np.arange(300_000, dtype=np.uint32))
    dump = open_dump(str(tmp_path / "x.npy"))
    index = np.random.default_rng(0).integers(0, 300_000, 500)
    index[:6] = 0, 299_999, 65_535, 65_536, 65_535, 131_072
    for chosen in (index, np.sort(index), index[:1], index[:0], np.arange(65_530, 65_540)):
        assert dump.take(chosen).tolist() == chosen.tolist()


test_what_cannot_be_is_refused = refusal_test(
    globals(),
    """
lp.compare(np.ones((4, 4), np.float32), np.ones((4, 4), np.float32).astype(complex), "e4m3fn")
    ValueError: outputs holds complex128; give codes as integers, or values as float16 to float64
lp.compare(np.ones((4, 4), np.float32), np.ones((4, 4), np.float32) > 0, "e4m3fn")
    ValueError: outputs holds bool; give codes as integers, or values as float16 to float64
lp.compare((np.ones((4, 4), np.float32), np.ones((4, 4), np.float32)), np.ones((4, 4), np.float32),
        "mxfp4", operation="add")
    ValueError: results of add are no blocks; name the format of single results, not 'mxfp4'
lp.compare((np.ones((4, 4), np.float32), np.ones((4, 4), np.float32)), np.ones((4, 4), np.float32),
        operation="matmul", rounding="to_odd")
    ValueError: rounding= says nothing about matmul, which goes by accumulation=; leave it out
lp.compare(np.ones((4, 4), np.float32), np.ones((4, 4), np.float32).view("u4") * 0, "mxfp4",
        scales=np.ones((4, 1)))
    ValueError: scales holds float64, which are no codes of 'e8m0fnu'
lp.compare(np.ones((4, 6)), np.ones((3, 8), np.uint8), "e4m3fn")
    ValueError: operand 1 has shape (4, 6), but the results have (3, 8)
""",
)


def test_formats_are_ranked_by_what_they_give_though_the_type_says_which():
    x = np.random.default_rng(0).standard_normal(64).astype(np.float32)
    right = lp.encode(x, "e4m3fn").view(ml_dtypes.float8_e4m3fn)
    assert [(each.name, each.share) for each in lp.compare(x, right, why=False).ranking] == [("e4m3fn", 1.0)]
    wrong = (right.view(np.uint8) ^ 1).view(ml_dtypes.float8_e4m3fn)
    assert [(each.name, each.share) for each in lp.compare(x, wrong, why=False).ranking] == [("e4m3fn", 0.0)]


@pytest.mark.parametrize("shape", [(5, 0), (0, 5), (0,)])
def test_blocks_of_nothing_are_not_compared(shape):
    x = np.zeros(shape, np.float32)
    blocks = lp.encode(x, "mxfp4")
    assert lp.compare(x, blocks.codes, "mxfp4", scales=blocks.scales).sum() == "nothing was compared"


@pytest.mark.parametrize("name", ["nf4", "posit8", "binary8p3se", "ue4m3", "tf32", "int8f6"])
def test_doubles_are_values_of_formats_whose_codes_have_no_type(name):
    """Read float64 as values: to NumPy no type at all is equal to it."""
    x = np.abs(RNG.standard_normal(100))
    values = np.asarray(lp.quantize(x, name)).astype(np.float64)
    assert lp.compare(x, values, name).agrees
    values[7] = np.asarray(lp.nextafter(values[7], np.inf, name))
    assert lp.compare(x, values, name, why=False).mismatches == 1
    assert lp.compare(x, values.astype(np.float32), name, why=False).mismatches == 1


@pytest.mark.parametrize("name", ["mxint8", "bnb_nf4", "bfp8"])
def test_doubles_are_values_of_blocks_whose_elements_have_no_type(name):
    x = RNG.standard_normal((2, 64)).astype(np.float32)
    values = lp.decode(lp.encode(x, name), dtype=np.float64)
    assert lp.compare(x, values, name).agrees
    with pytest.raises(ValueError, match=r"scales holds? .*float64"):
        lp.compare(x, lp.encode(x, "nvfp4").codes, "nvfp4", scales=np.ones((2, 4)))


def test_numbers_of_a_product_are_of_the_format_that_is_said():
    x = np.ones((2, 8), np.float32)
    given = {"operation": "dot", "accumulation": "fp32_fma", "source": "e5m2"}
    assert lp.compare((x, x), np.float32([8, 8]), **given).agrees
    with pytest.raises(ValueError, match="operand 2 holds numbers that 'e5m2' does not have"):
        lp.compare((x, x + np.float32(0.1)), np.float32([8, 8]), **given)
