"""save and load: the same arrays and blocks, files that others read, and what is refused."""

import dataclasses
import json
import os
import re
import sys
from concurrent.futures import ThreadPoolExecutor

import ml_dtypes
import numpy as np
import pytest
from safetensors import safe_open
from safetensors.numpy import load_file, save_file

import lowprec as lp
from lowprec.checkpoints import container
from lowprec.checkpoints.container import open_file, tag_of
from lowprec.checkpoints.containers import saved, saving
from lowprec.checkpoints.containers.safetensors_writing import SafetensorsWriter
from lowprec.checkpoints.converting import convert_checkpoint, dequantize_checkpoint
from lowprec.checkpoints.decoding import as_blocks, values_of
from lowprec.checkpoints.folder import open_checkpoint
from lowprec.checkpoints.inspecting import inspect
from lowprec.checkpoints.linting import lint
from lowprec.checkpoints.quantizing import target
from lowprec.checkpoints.verifying import verify_checkpoint
from lowprec.checkpoints.weights import weights_of
from lowprec.spec import catalog
from tests.checkpoints.files import changed, refusal

VALUES = np.random.default_rng(0).standard_normal((32, 64)).astype(np.float32)


def assert_same(found: lp.BlockArray, saved: lp.BlockArray) -> None:
    assert (found.format, found.axes, found.tensor_scale) == (saved.format, saved.axes, saved.tensor_scale)
    for part in ("codes", "scales"):
        assert getattr(found, part).dtype == getattr(saved, part).dtype
        np.testing.assert_array_equal(getattr(found, part), getattr(saved, part))


@pytest.mark.parametrize("name", catalog.BLOCK_FORMATS)
def test_blocks_of_every_format_come_back(tmp_path, name):
    fmt = lp.block_formats[name]
    for axis in (-2, -1) if len(fmt.sizes) == 1 else (None,):
        saved = lp.encode(VALUES, name, axis=axis)
        lp.save(tmp_path / "x.safetensors", saved)
        assert_same(lp.load(tmp_path / "x.safetensors"), saved)


def test_formats_of_ones_own_come_back(tmp_path):
    """With elements that no catalog has, and more than one array in the file."""
    element = lp.Format(name="mine", exponent_bits=2, trailing_bits=4, bias=1)
    mine = lp.BlockFormat(name="blocks of mine", element=element, scale="e8m0fnu", size=8, rule="rceil")
    nf4 = lp.BlockFormat(name="nf4 in 32", element="nf4", scale="binary16", size=32, rule="divide")
    saved = {"a": lp.encode(VALUES, mine), "b": lp.encode(VALUES, nf4), "c": VALUES}
    lp.save(tmp_path / "x.safetensors", saved)
    found = lp.load(tmp_path / "x.safetensors")
    assert list(found) == ["a", "b", "c"]
    assert_same(found["a"], saved["a"])
    assert_same(found["b"], saved["b"])
    np.testing.assert_array_equal(found["c"], VALUES)


@pytest.mark.parametrize(
    "dtype",
    ["bool", "int8", "uint16", "int64", "float16", "float64", "complex64", ">f4",
     *("bfloat16", "float8_e4m3fn", "float8_e5m2fnuz", "float8_e8m0fnu", "float6_e3m2fn", "float4_e2m1fn")],
)  # fmt: skip
@pytest.mark.parametrize("shape", [(4, 6), (8,), (0, 3), ()])
def test_arrays_of_every_type_come_back(tmp_path, dtype, shape):
    kind = np.dtype(getattr(ml_dtypes, dtype, None) or dtype)
    saved = np.random.default_rng(1).integers(0, 2, shape).astype(np.float32).astype(kind)
    if shape == () and dtype.startswith(("float6_", "float4_")):
        with refusal("bits, which are no whole bytes"):
            lp.save(tmp_path / "x.safetensors", saved)
        return
    lp.save(tmp_path / "x.safetensors", saved)
    found = lp.load(tmp_path / "x.safetensors")
    assert (found.dtype, found.shape) == (kind.newbyteorder("="), shape)
    assert found.tobytes() == saved.astype(found.dtype).tobytes()


@pytest.mark.parametrize("name", ["nvfp4", "bnb_nf4", "fp8_block_128x128", "mine"])
def test_blocks_of_big_endian_numbers_come_back(tmp_path, name):
    """Their bytes were taken for little-endian ones."""
    wide = lp.BlockFormat(name="mine", element="binary16", scale="bfloat16", size=32, rule="divide")
    plain = lp.encode(VALUES, wide if name == "mine" else name, axis=None if "128x" in name else -1)
    codes, scales = (part.astype(part.dtype.newbyteorder(">")) for part in (plain.codes, plain.scales))
    lp.save(
        tmp_path / "x.safetensors", lp.BlockArray(codes, scales, plain.format, plain.axes, plain.tensor_scale)
    )
    assert_same(lp.load(tmp_path / "x.safetensors"), plain)


@pytest.mark.parametrize("dtype", [">u2", ">i4", ">f8", ">c8", ">f2"])
def test_big_endian_tensors_are_written_as_little_endian_ones(tmp_path, dtype):
    """By whichever writer."""
    values = np.arange(1, 7).astype(dtype)
    with SafetensorsWriter(
        (tmp_path / "x.safetensors").open("w+b"), [("x", tag_of(dtype), (6,))], {}
    ) as file:
        file.write("x", values)
    np.testing.assert_array_equal(load_file(tmp_path / "x.safetensors")["x"], values)


@pytest.mark.skipif(not hasattr(os, "geteuid"), reason="links, pipes and modes are POSIX's")
def test_modes_links_and_kinds_of_files_are_kept(tmp_path):
    """A private file stays private, a link is followed, and a pipe or socket is refused."""
    place, link = tmp_path / "x.safetensors", tmp_path / "link.safetensors"
    lp.save(place, VALUES)
    place.chmod(0o600)
    link.symlink_to("x.safetensors")
    lp.save(link, VALUES[0])
    assert link.is_symlink()
    assert place.stat().st_mode & 0o777 == 0o600
    np.testing.assert_array_equal(lp.load(place), VALUES[0])
    os.mkfifo(tmp_path / "pipe.safetensors")
    (tmp_path / "folder.safetensors").mkdir()
    (tmp_path / "stream.safetensors").symlink_to("/dev/stdout")
    for name in ("pipe", "folder", "stream"):
        path = tmp_path / f"{name}.safetensors"
        words = "it is a pipe, device or folder, and this file is written at many places; name a regular file"
        with refusal(re.escape(f"cannot write {str(path)!r}: {words}")):
            lp.save(path, VALUES)
    assert (tmp_path / "pipe.safetensors").is_fifo()
    assert (tmp_path / "stream.safetensors").is_symlink()


@pytest.mark.skipif(not hasattr(os, "geteuid"), reason="links are POSIX's")
def test_a_planted_temporary_name_is_not_followed(tmp_path):
    """The name was the file's and the process's number: the target was overwritten, the result the link."""
    (tmp_path / "precious").write_text("precious")
    (tmp_path / f".x.safetensors.{os.getpid()}").symlink_to("precious")
    lp.save(tmp_path / "x.safetensors", VALUES)
    assert (tmp_path / "precious").read_text() == "precious"
    assert not (tmp_path / "x.safetensors").is_symlink()


def test_threads_that_save_to_one_path_leave_one_of_their_files(tmp_path):
    """One's header stood over the other's data, and names were gone that were to be renamed."""
    place = tmp_path / "x.safetensors"
    arrays = [np.full((200, 300), number, np.float32) for number in (1, 2)]
    arrays = [{"a": arrays[0]}, {"b": arrays[1]}]

    def saves(which):
        for _ in range(40):
            lp.save(place, arrays[which])
            ((name, found),) = lp.load(place).items()
            assert (found == {"a": 1, "b": 2}[name]).all()

    with ThreadPoolExecutor(2) as pool:
        assert list(pool.map(saves, (0, 1))) == [None, None]
    assert [path.name for path in tmp_path.iterdir()] == ["x.safetensors"]


def test_a_file_that_is_replaced_while_it_is_read_is_one_of_both(tmp_path, monkeypatch):
    """The header was one file's, and the data another's."""
    place, original = tmp_path / "x.safetensors", saving.saved_in
    lp.save(place, {"a": VALUES, "b": lp.encode(VALUES, "mxfp4")})

    def replaced(*given):
        lp.save(place, {"a": VALUES + 1, "b": lp.encode(VALUES + 1, "mxfp4")})
        return original(*given)

    monkeypatch.setattr(saving, "saved_in", replaced)
    found = lp.load(place)
    np.testing.assert_array_equal(found["a"], VALUES)
    assert_same(found["b"], lp.encode(VALUES, "mxfp4"))


def test_other_software_reads_the_parts(tmp_path):
    blocks = lp.encode(VALUES, "mxfp8_e4m3")
    lp.save(tmp_path / "x.safetensors", {"w": blocks, "b": VALUES[0]})
    with safe_open(tmp_path / "x.safetensors", "numpy") as file:
        assert set(file.keys()) == {"w", "w.scales", "b"}
        assert file.get_slice("w").get_dtype() == "F8_E4M3"
        assert file.get_slice("w.scales").get_dtype() == "F8_E8M0"
    plain = {"w": lp.encode(VALUES, "nvfp4").codes, "b": VALUES}
    lp.save(tmp_path / "y.safetensors", plain)
    for name, array in load_file(tmp_path / "y.safetensors").items():
        np.testing.assert_array_equal(array, plain[name])


@pytest.mark.parametrize("shape", [(2, 32), (4, 15), (2, 1), (0, 3), (16,), (3, 2, 5)])
def test_torch_reads_files_with_blocks_of_any_shape(tmp_path, shape):
    """A row of four-bit codes that ends within a byte is stored as unsigned integers."""
    torch = pytest.importorskip("safetensors.torch")
    blocks = lp.encode(np.ones(shape, np.float32), "mxfp4")
    lp.save(tmp_path / "x.safetensors", {"w": blocks})
    with safe_open(tmp_path / "x.safetensors", "numpy") as file:
        assert file.get_slice("w").get_dtype() == ("U8" if shape[-1] % 2 else "F4")
    assert set(torch.load_file(tmp_path / "x.safetensors")) == {"w", "w.scales"}
    assert_same(lp.load(tmp_path / "x.safetensors")["w"], blocks)


def _blocks_of_4096():
    """Return blocks of a codebook whose definition has more than the 64 KiB that files of TOML have."""
    numbers = np.random.default_rng(1).standard_normal(4096)
    book = lp.Codebook("wide", [float(number) for number in numbers])
    return lp.encode(VALUES, dataclasses.replace(lp.block_formats["mxfp4"], name="mine", element=book))


def test_codebooks_of_thousands_of_values_come_back(tmp_path):
    """They were refused, as definitions in files are."""
    saved = _blocks_of_4096()
    lp.save(tmp_path / "x.safetensors", saved)
    assert_same(lp.load(tmp_path / "x.safetensors"), saved)


def test_headers_that_nobody_would_read_are_not_written(tmp_path):
    """The file was written, and `load` refused it: headers have 100 MB at most."""
    lp.save(tmp_path / "x.safetensors", VALUES)
    why = "would take 100,000,.* bytes, and headers of safetensors have at most 100,000,000; write fewer"
    with refusal(why):
        lp.save(tmp_path / "x.safetensors", {"x" * 100_000_000: VALUES})
    np.testing.assert_array_equal(lp.load(tmp_path / "x.safetensors"), VALUES)


def test_a_format_that_could_not_be_read_again_is_not_saved(tmp_path, monkeypatch):
    """The file was written, and `load` refused it: definitions have a limit."""
    monkeypatch.setattr(saved, "_MOST", 1 << 16)
    blocks = _blocks_of_4096()
    lp.save(tmp_path / "x.safetensors", VALUES)
    why = "BlockArray 'w' cannot be saved, as its format could not be read again: .* save its codes and its"
    with refusal(why):
        lp.save(tmp_path / "x.safetensors", {"w": blocks})
    np.testing.assert_array_equal(lp.load(tmp_path / "x.safetensors"), VALUES)
    lp.save(tmp_path / "x.safetensors", {"codes": blocks.codes, "scales": blocks.scales})
    assert [path.name for path in tmp_path.iterdir()] == ["x.safetensors"]


def test_a_file_that_is_written_while_it_is_read_is_refused(tmp_path, monkeypatch):
    place, original = tmp_path / "x.safetensors", container._held
    lp.save(place, {"a": VALUES, "b": VALUES})

    def held(entry, file):
        found = original(entry, file)
        place.write_bytes(bytes(place.stat().st_size))
        os.utime(place, (1, 1))
        return found

    monkeypatch.setattr(container, "_held", held)
    with refusal("was changed or replaced while it was read; start again"):
        lp.load(place)


def test_files_of_others_are_arrays(tmp_path):
    save_file({"w": VALUES, "b": VALUES[0]}, tmp_path / "x.safetensors")
    found = lp.load(tmp_path / "x.safetensors")
    assert set(found) == {"w", "b"}
    np.testing.assert_array_equal(found["w"], VALUES)


def test_what_cannot_be_written_leaves_the_file_that_is_there(tmp_path):
    place = tmp_path / "x.safetensors"
    lp.save(place, VALUES)
    before = place.read_bytes()
    blocks = lp.encode(VALUES, "mxfp4")
    for arrays, words in (
        ({"a": np.array(["text"])}, "array 'a' cannot be saved: safetensors has no name for <U4"),
        ({"a": np.zeros(3, np.complex128)}, "no name for complex128"),
        ({"a": blocks, "a.scales": VALUES}, "'a.scales' is the name of a part of BlockArray 'a'; rename one"),
        ({"a.scales": VALUES, "a": blocks}, "'a.scales' is the name of a part of BlockArray 'a'; rename one"),
        ({"a": blocks, "a.tensor_scale": np.float32(4)}, "'a.tensor_scale' is the name of a part of"),
        ({"__metadata__": VALUES}, "'__metadata__' is no name for a tensor"),
        ({"a": np.zeros(3, ml_dtypes.float4_e2m1fn)}, "no whole bytes; add elements, or store codes as U8"),
        (
            {"a": np.uint8([2, 0x35]).view(ml_dtypes.float4_e2m1fn)},
            "'a' cannot be saved: its elements have bits beyond the 4 of F4, the first at index \\(1,\\)",
        ),
        (
            {"a": np.full((2, 2), 0x40, np.uint8).view(ml_dtypes.float6_e2m3fn)},
            "the 6 of F6_E2M3, .*\\(0, 0\\)",
        ),
        (
            {"a": np.zeros(3, np.longdouble)},
            "Convert numbers to one of these, and save codes as unsigned integers",
        ),
    ):
        with refusal(words):
            lp.save(place, arrays)
    assert place.read_bytes() == before
    assert [path.name for path in tmp_path.iterdir()] == ["x.safetensors"]
    with refusal(r"must end with \.safetensors"):
        lp.save(tmp_path / "x.npz", VALUES)
    with refusal("there is no folder"):
        lp.save(tmp_path / "none" / "x.safetensors", VALUES)
    for name in ("\0", "\ud800"):
        with refusal("no file can have the name"):
            lp.save(tmp_path / f"{name}.safetensors", VALUES)
        with refusal("no file can have the name"):
            lp.load(tmp_path / f"{name}.safetensors")
    da = pytest.importorskip("dask.array")
    for lazy in (da.ones(4), lp.encode(da.ones((4, 64)), "mxfp4")):
        with refusal(r"is of Dask.*compute\(\) returns"):
            lp.save(place, lazy)


def test_a_full_disk_is_an_error_with_the_path_that_was_named(tmp_path, monkeypatch):
    """It named a hidden file that nobody had asked for."""
    monkeypatch.setattr(sys, "dont_write_bytecode", True)  # it would be cut, and stay
    resource = pytest.importorskip("resource", reason="limits of files are POSIX's")
    before, place = resource.getrlimit(resource.RLIMIT_FSIZE), tmp_path / "x.safetensors"
    try:
        resource.setrlimit(resource.RLIMIT_FSIZE, (2000, before[1]))
        with refusal(f"cannot write '{place}': File too large"):
            lp.save(place, np.zeros(10_000))
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize(
    ("change", "words"),
    [
        (lambda said: said["blocks"]["w"].pop("format"), "has no format that can be read"),
        (lambda said: said["blocks"]["w"].update(format="kind = 'format'"), "has no format that can be read"),
        (lambda said: said["blocks"]["w"].update(axes="x"), "has no format that can be read"),
        (lambda said: said["blocks"]["w"].update(axes=[float("inf")]), "has no format that can be read"),
        (
            lambda said: said["blocks"]["w"].update(format="a" + ".a" * 20_000 + " = 1"),
            "is nested too deeply",
        ),
        (lambda said: said["blocks"]["w"].update(format="a = " + "[" * 3000), "is nested too deeply"),
        (lambda said: said["blocks"]["w"].update(axes=[0]), "does not hold together"),
        (lambda said: said.update(blocks={"v": said["blocks"]["w"]}), "lacks 'v'"),
        (lambda said: said.update(blocks=7), "no BlockArrays"),
    ],
)
def test_files_that_were_changed_are_refused(tmp_path, change, words):
    lp.save(tmp_path / "x.safetensors", {"w": lp.encode(VALUES, "mxfp4")})
    header = open_file(tmp_path / "x.safetensors")
    said = json.loads(header.metadata["lowprec"])
    change(said)
    tensors = {name: entry.read().view(np.uint8) for name, entry in header.entries.items()}
    save_file(tensors, tmp_path / "y.safetensors", {"lowprec": json.dumps(said)})
    with refusal(words):
        lp.load(tmp_path / "y.safetensors")


@pytest.mark.parametrize("name", ["mxfp4", "mxfp6_e2m3", "nvfp4", "nvfp4_2d", "bnb_nf4", "fp8_block_1x128"])
def test_checkpoint_commands_know_saved_blocks(tmp_path, name):
    """As one weight, whose values are the BlockArray's; nothing is wrong with it."""
    blocks = lp.encode(VALUES, name)
    lp.save(tmp_path / "x.safetensors", {"layer.weight": blocks, "b": VALUES[0]})
    found = open_checkpoint(tmp_path / "x.safetensors")
    (weight,) = (each for each in weights_of(found) if each.is_quantized)
    assert (weight.name, weight.element, weight.scale) == ("layer.weight", blocks.format.element.name,
                                                           blocks.format.scale.name)  # fmt: skip
    np.testing.assert_array_equal(values_of(weight), blocks.values())
    assert lint(found) == ()
    assert dequantize_checkpoint(found, tmp_path / "y.safetensors") == ("layer.weight",)
    plain = lp.load(tmp_path / "y.safetensors")
    assert set(plain) == {"layer.weight", "b"}
    np.testing.assert_array_equal(plain["layer.weight"], blocks.values())


def _own(name, **changes):
    return dataclasses.replace(lp.block_formats[name], name="mine", **changes)


@pytest.mark.parametrize(
    ("fmt", "axis", "spelled"),
    [
        ("mxint8", 1, "32"),
        ("bfp2", 0, "16x1"),
        ("mxfp4", 0, "32x1"),
        (_own("mxfp4", size=16, rule="project"), 1, "16"),
        (_own("nvfp4", size=32), 1, "32"),
        (_own("nvfp4", size=32, scale="e8m0fnu"), 0, "32x1"),
        (_own("nvfp4", size=(2, 32), element="e4m3fn"), (0, 1), "2x32"),
    ],
)
def test_checkpoint_commands_take_the_format_and_axes_of_the_file(tmp_path, fmt, axis, spelled):
    """Read the file's own format, whatever the catalog has for such elements and blocks."""
    has_tensor = not isinstance(fmt, str) and fmt.tensor_scale != "none"
    blocks = lp.encode(VALUES, fmt, axis=axis, tensor_scale=2.0**-9 if has_tensor else None)
    lp.save(tmp_path / "x.safetensors", {"w": blocks})
    lp.save(tmp_path / "s.safetensors", {"w": VALUES})
    found, source = (open_checkpoint(tmp_path / f"{name}.safetensors") for name in "xs")
    (weight,) = weights_of(found)
    assert_same(as_blocks(weight), blocks)
    assert inspect(found).as_json()["weights"][0]["block"] == spelled
    (verdict,) = verify_checkpoint(found, source)
    assert (verdict.rule, verdict.codes_differ) == (blocks.format.rule.name, 0)
    assert lint(found, source) == ()


def test_blocks_along_the_first_of_three_axes_are_spelled_so(tmp_path):
    lp.save(tmp_path / "x.safetensors", {"w": lp.encode(VALUES.reshape(64, 4, 8), "mxfp4", axis=0)})
    (weight,) = weights_of(open_checkpoint(tmp_path / "x.safetensors"))
    assert weight.blocks == "32x1x1"


@pytest.mark.parametrize("size", [32, (2, 32)])
def test_blocks_with_a_scale_of_the_tensor_are_no_mxfp4(tmp_path, size):
    """Keep the tensor's scale in what becomes NVFP4, and quantise tiles anew."""
    tensor = "none" if size != 32 else "divide"
    fmt = _own("nvfp4", scale="e8m0fnu", size=size, tensor_scale=tensor)
    blocks = lp.encode(VALUES, fmt, tensor_scale=2.0**-20 if size == 32 else None)
    lp.save(tmp_path / "x.safetensors", {"w": blocks})
    made = tmp_path / "n.safetensors"
    convert_checkpoint(open_checkpoint(tmp_path / "x.safetensors"), made, target("modelopt", "nvfp4"))
    (weight,) = weights_of(open_checkpoint(made))
    assert np.abs(values_of(weight) - blocks.values()).max() <= np.abs(blocks.values()).max() / 6


@pytest.mark.parametrize("axes", [[2], [0, 1], []])
def test_axes_that_a_saved_array_has_not_are_named(tmp_path, axes):
    lp.save(tmp_path / "x.safetensors", {"w": lp.encode(VALUES, "mxfp4")})
    found = open_checkpoint(tmp_path / "x.safetensors")
    said = json.loads(found.metadata["lowprec"])
    said["blocks"]["w"]["axes"] = axes
    made = changed(found, tmp_path / "y.safetensors", lambda tensors: None, {"lowprec": json.dumps(said)})
    (finding,) = lint(made)
    assert finding.rule == "shape"
    assert finding.evidence == f"w is in mxfp4, whose blocks lie along 1 of the 2 axes, and not along {axes}"


@pytest.mark.parametrize(
    ("part", "tag", "fits"),
    [("w", "U8", True), ("w", "F8_E5M2", False), ("w", "I8", False), ("w", "BOOL", False),
     ("w.scales", "U8", True), ("w.scales", "F8_E4M3", False)],
)  # fmt: skip
def test_a_type_that_contradicts_the_format_is_refused(tmp_path, part, tag, fits):
    """Codes that the header calls E5M2 were decoded as E4M3, as the metadata say."""
    blocks = lp.encode(VALUES, "mxfp8_e4m3")
    lp.save(tmp_path / "x.safetensors", {"w": blocks})
    found = open_checkpoint(tmp_path / "x.safetensors")
    data = {name: (entry.tag, entry.read().view(np.uint8)) for name, entry in found.entries.items()}
    data[part] = tag, data[part][1]
    made = changed(
        found, tmp_path / "y.safetensors", lambda tensors: tensors.update(data), dict(found.metadata)
    )
    if fits:
        assert_same(lp.load(made.path)["w"], blocks)
        assert lint(made) == ()
        return
    with refusal(f"'{part}' is {tag}, which are no codes of"):
        lp.load(made.path)
    (finding,) = lint(made)
    assert finding.rule == "saved-type"
    with refusal("weight 'w' cannot be decoded"):
        dequantize_checkpoint(made, tmp_path / "z.safetensors")


def test_lint_names_codes_that_the_format_lacks_and_goes_on(tmp_path):
    """The first such weight ended it."""
    lp.save(tmp_path / "x.safetensors", {name: lp.encode(VALUES, "mxfp4") for name in "abc"})
    found = open_checkpoint(tmp_path / "x.safetensors")

    def damaged(tensors):
        for name in "ac":
            tensors[name] = "U8", tensors[name][1].view(np.uint8) | np.uint8(name == "a" and 16 or 255)

    made = changed(found, tmp_path / "y.safetensors", damaged, dict(found.metadata))
    assert [(finding.rule, finding.tensor, finding.evidence) for finding in lint(made)] == [
        ("code-out-of-range", "a", "the codes are up to 31, and those of e2m1fn up to 15"),
        ("code-out-of-range", "c", "the codes are up to 255, and those of e2m1fn up to 15"),
    ]


def test_checkpoint_commands_say_what_is_wrong_with_saved_blocks(tmp_path):
    mine = lp.BlockFormat(
        name="mine", element=lp.Format(name="own", exponent_bits=2, trailing_bits=4, bias=1), scale="e8m0fnu",
        size=8,
    )  # fmt: skip
    lp.save(tmp_path / "x.safetensors", {"w": lp.encode(VALUES, mine)})
    (finding,) = lint(open_checkpoint(tmp_path / "x.safetensors"))
    assert (finding.rule, finding.remedy) == ("private-format", "lowprec.load reads it")
    lp.save(tmp_path / "x.safetensors", {"w": lp.encode(VALUES, "mxfp4")})
    lost = changed(
        open_checkpoint(tmp_path / "x.safetensors"), tmp_path / "y.safetensors", lambda t: t.pop("w.scales"),
        open_file(tmp_path / "x.safetensors").metadata,
    )  # fmt: skip
    (finding,) = lint(lost)
    assert (finding.rule, finding.evidence) == (
        "shape", "scales of w must have shape [32, 2], and the file has none"
    )  # fmt: skip
    with refusal("weight 'w' cannot be decoded"):
        dequantize_checkpoint(lost, tmp_path / "z.safetensors")


def test_arrays_with_names_are_saved_by_place(tmp_path):
    """Files have no names of dimensions."""
    xarray = pytest.importorskip("xarray")
    values = np.arange(6, dtype=np.float32).reshape(2, 3)
    lp.save(tmp_path / "a.safetensors", {"w": xarray.DataArray(values, dims=("p", "q"))})
    assert lp.load(tmp_path / "a.safetensors")["w"].tolist() == values.tolist()


def test_blocks_in_several_files_of_a_folder_are_known(tmp_path):
    """Only those of the last file were: scales of the others were said to belong to no weight."""
    folder, out = tmp_path / "m", tmp_path / "out.safetensors"
    folder.mkdir()
    saved = {
        name: lp.encode(VALUES, fmt) for name, fmt in (("a", "mxfp4"), ("b", "nvfp4"), ("c", "mxfp8_e4m3"))
    }
    for name, blocks in saved.items():
        lp.save(folder / f"{name}.safetensors", {name: blocks, f"{name}.bias": VALUES[0]})
    found = open_checkpoint(folder)
    assert lint(found) == ()
    assert dequantize_checkpoint(found, out) == ("a", "b", "c")
    for name, blocks in saved.items():
        np.testing.assert_array_equal(lp.load(out)[name], blocks.values())
    header = open_file(folder / "a.safetensors")
    tensors = {name: entry.read().view(np.uint8) for name, entry in header.entries.items()}
    save_file(tensors, folder / "a.safetensors", {"lowprec": '{"blocks": 7}'})
    with refusal("no BlockArrays, but 7"):
        open_checkpoint(folder)


def test_files_that_give_a_block_array_unlike_formats_are_refused(tmp_path):
    """The last file was believed, whichever has the codes."""
    blocks = lp.encode(np.ones((4, 32), np.float32), "mxfp8_e4m3")
    lp.save(tmp_path / "a.safetensors", {"w": blocks})
    said = open_file(tmp_path / "a.safetensors").metadata["lowprec"]
    save_file({"b": np.zeros(2, np.float32)}, tmp_path / "b.safetensors", {"lowprec": said})
    assert len(weights_of(open_checkpoint(tmp_path))) == 2
    other = said.replace('"axes": [1]', '"axes": [0]')
    assert other != said
    save_file({"b": np.zeros(2, np.float32)}, tmp_path / "b.safetensors", {"lowprec": other})
    with refusal(r"two files of .* give BlockArray 'w' unlike formats or axes"):
        open_checkpoint(tmp_path)
