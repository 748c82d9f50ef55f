"""GGUF files that are written: by the layout, read back by the gguf package, with the source's keys."""

import os
import struct
import tracemalloc

import numpy as np
import pytest

from lowprec.checkpoints import quantizing
from lowprec.checkpoints.container import stamp
from lowprec.checkpoints.containers import gguf as reading
from lowprec.checkpoints.containers.gguf_writing import join_blocks
from lowprec.checkpoints.converting import convert_checkpoint, dequantize_checkpoint
from lowprec.checkpoints.decoding import as_blocks, codes_of, ranges, stored_scales, values_of
from lowprec.checkpoints.folder import open_checkpoint
from lowprec.checkpoints.linting import lint
from lowprec.checkpoints.quantizing import quantize_checkpoint, target
from lowprec.checkpoints.schemes.gguf_blocks import split_blocks
from lowprec.checkpoints.verifying import verify_checkpoint
from lowprec.checkpoints.weights import weights_of
from tests.checkpoints.files import quantized, refusal, source

gguf = pytest.importorskip("gguf")
KINDS = ["mxfp4", "nvfp4", "q8_0", "iq4_nl"]


def _quantized(tmp_path, to, shape=(96, 256)):
    made = source(tmp_path / "s.safetensors", shape)
    out = tmp_path / "out.gguf"
    quantize_checkpoint(made, out, target("gguf", to))
    return made, open_checkpoint(out)


@pytest.mark.parametrize("to", KINDS)
def test_gguf_dequantises_what_is_written_to_the_same_values(tmp_path, to):
    made, found = _quantized(tmp_path, to)
    reader = gguf.GGUFReader(found.path)
    tensors = {tensor.name: tensor for tensor in reader.tensors}
    (weight,) = [item for item in weights_of(found) if item.is_quantized]
    theirs = gguf.quants.dequantize(tensors["m.q.weight"].data, tensors["m.q.weight"].tensor_type)
    if to == "nvfp4":  # beside it lies the tensor's scale, which the package leaves to others
        assert tensors["m.q.scale"].data.shape == (1,)
        units = values_of(weight, dtype=np.float64)
        assert np.array_equal(units, theirs.astype(np.float64) * tensors["m.q.scale"].data[0])
    else:
        assert np.array_equal(values_of(weight), theirs)
    assert np.array_equal(tensors["m.norm.weight"].data, np.ones(8))
    assert reader.fields["general.file_type"].contents() in (7, 25, 38, 39)
    assert '"scheme": "gguf' in reader.fields["lowprec"].contents()
    assert lint(found) == lint(found, made) == ()
    (verdict,) = verify_checkpoint(found, made)
    assert verdict.holds
    assert verdict.codes_differ == 0
    assert verdict.rule
    if to != "nvfp4":
        assert np.array_equal(as_blocks(weight).values(), values_of(weight))


def test_a_file_does_not_say_how_its_source_was_made(tmp_path):
    _, found = _quantized(tmp_path, "q8_0")
    dequantize_checkpoint(found, tmp_path / "v.gguf")
    assert "lowprec" in gguf.GGUFReader(found.path).fields
    assert "lowprec" not in gguf.GGUFReader(tmp_path / "v.gguf").fields


@pytest.mark.filterwarnings("ignore::RuntimeWarning")
@pytest.mark.parametrize("to", ["mxfp4", "nvfp4"])
def test_scales_of_any_byte_are_those_of_the_package(tmp_path, to):
    """Of NVFP4 times the tensor's scale, once rounded; MXFP4's 0xFF is NaN, as in OCP's E8M0."""
    _, found = _quantized(tmp_path, to, (256, 64))
    (weight,) = [item for item in weights_of(found) if item.is_quantized]
    data, width = bytearray(found.path.read_bytes()), weight.codes.nbytes // 256
    for row in range(256):
        data[weight.codes.start + row * width] = row
    found.path.write_bytes(data)
    (weight,) = [item for item in weights_of(open_checkpoint(found.path)) if item.is_quantized]
    tensors = {tensor.name: tensor for tensor in gguf.GGUFReader(found.path).tensors}
    theirs = gguf.quants.dequantize(tensors["m.q.weight"].data, tensors["m.q.weight"].tensor_type)
    ours = values_of(weight)
    if to == "nvfp4":
        theirs = theirs * tensors["m.q.scale"].data[0]
    else:
        assert np.isnan(ours[255, :32]).all()
        ours, theirs = ours[:255], theirs[:255]
    assert np.array_equal(ours, theirs)
    assert np.array_equal(np.signbit(ours), np.signbit(theirs))


def test_values_beyond_the_type_asked_for_are_told(tmp_path, caplog):
    made = source(tmp_path / "s.safetensors", **{"m.k.weight": np.full((4, 32), 1e6, np.float32)})
    quantize_checkpoint(made, tmp_path / "q.safetensors", target("quark", "mxfp4"))
    found = open_checkpoint(tmp_path / "q.safetensors")
    for dtype, told in (("F32", []), ("BF16", []), ("F16", ["m.k.weight"])):
        caplog.clear()
        dequantize_checkpoint(found, tmp_path / "v.safetensors", dtype)
        why = (
            "128 values of weight 'm.k.weight' lie beyond F16's largest number and became infinite; name F32"
        )
        assert [why in caplog.text] == [bool(told)]
        assert len(caplog.records) == len(told)


def _strings(count, said=None):
    """Return a header of one key, an array of empty strings."""
    head = struct.pack("<IQQ", 3, 0, 1) + struct.pack("<Q", 1) + b"k"
    return b"GGUF" + head + struct.pack("<IIQ", 9, 8, said or count) + bytes(8 * count)


@pytest.mark.parametrize(
    ("data", "why"),
    [
        (_strings(10, 2_000_001), "its arrays have more than 2,000,000 strings"),
        (
            b"GGUF" + struct.pack("<IQQ", 3, 250_001, 0),
            "it has 250,001 tensors and 0 keys, and at most 250,000",
        ),
        (
            b"GGUF" + struct.pack("<IQQ", 3, 0, 250_001),
            "it has 0 tensors and 250,001 keys, and at most 250,000",
        ),
    ],
)
def test_headers_of_too_many_parts_are_refused_at_once(tmp_path, data, why):
    (tmp_path / "x.gguf").write_bytes(data)
    with refusal(why):
        open_checkpoint(tmp_path / "x.gguf")


def test_strings_of_a_tokenizer_are_read_through_a_buffer(tmp_path, monkeypatch):
    """Each string was two reads of the file."""
    (tmp_path / "x.gguf").write_bytes(_strings(300_000))
    calls, opened = [], reading.open_regular

    class Counted:
        def __init__(self, file):
            self._file = file

        def __getattr__(self, name):
            calls.append(name)
            return getattr(self._file, name)

        def __enter__(self):
            return self

        def __exit__(self, *error):
            self._file.close()

    monkeypatch.setattr(reading, "open_regular", lambda path: Counted(opened(path)))
    assert len(reading.open_gguf(tmp_path / "x.gguf").pairs["k"]) == 4 + 12 + 8 * 300_000
    assert calls.count("read") < 100


@pytest.mark.parametrize("to", KINDS)
def test_blocks_are_joined_as_they_are_split(to):
    each, size = {"mxfp4": (17, 32), "nvfp4": (36, 64), "q8_0": (34, 32), "iq4_nl": (18, 32)}[to]
    data = np.random.default_rng(0).integers(0, 256, (3, 5, 4 * each), dtype=np.uint8)
    codes, scales, _ = split_blocks(data, to)
    assert codes.shape == (3, 5, 4 * size)
    assert np.array_equal(join_blocks(codes, scales, to), data)


def test_codes_are_the_nearest_for_the_scale_that_is_stored(tmp_path):
    """Of Q8_0, in which ggml divides by the scale before it is rounded."""
    made, found = _quantized(tmp_path, "q8_0")
    (weight,) = [item for item in weights_of(found) if item.is_quantized]
    wide = made.entries["m.q.weight"].read().astype(np.float64).reshape(96, 8, 32)
    scales = stored_scales(weight).view(np.float16).astype(np.float64)
    assert np.array_equal(
        stored_scales(weight).view(np.float16), (np.abs(wide).max(-1) / 127).astype(np.float16)
    )
    nearest = np.rint(wide / scales[..., None]).clip(-127, 127).astype(np.int8)
    assert np.array_equal(codes_of(weight).view(np.int8).reshape(wide.shape), nearest)


@pytest.mark.parametrize("to", KINDS)
def test_a_gguf_file_keeps_its_keys_and_other_blocks(tmp_path, to):
    """Quantised once more: architecture, numbers, lists and alignment stay; so do blocks that are there."""
    writer = gguf.GGUFWriter(tmp_path / "in.gguf", "llama")
    writer.add_uint32("llama.block_count", 3)
    writer.add_array("tokenizer.ggml.tokens", ["a", "bé", "c"])
    writer.add_array("some.floats", [0.5, -1.0])
    writer.add_custom_alignment(64)
    writer.add_file_type(1)
    x = np.random.default_rng(0).standard_normal((16, 128)).astype(np.float16)
    writer.add_tensor("blk.0.attn_q.weight", x)
    writer.add_tensor("token_embd.weight", x)
    old = gguf.quants.quantize(x.astype(np.float32), gguf.GGMLQuantizationType.Q8_0)
    writer.add_tensor("blk.0.attn_k.weight", old, raw_dtype=gguf.GGMLQuantizationType.Q8_0)
    for step in (writer.write_header_to_file, writer.write_kv_data_to_file, writer.write_tensors_to_file):
        step()
    writer.close()
    out = tmp_path / "out.gguf"
    quantize_checkpoint(open_checkpoint(tmp_path / "in.gguf"), out, target("gguf", to), exclude=["*attn_k*"])
    reader = gguf.GGUFReader(out)
    assert reader.fields["general.architecture"].contents() == "llama"
    assert reader.fields["llama.block_count"].contents() == 3
    assert reader.fields["tokenizer.ggml.tokens"].contents() == ["a", "bé", "c"]
    assert reader.fields["some.floats"].contents() == [0.5, -1.0]
    assert reader.fields["general.file_type"].contents() != 1
    tensors = {tensor.name: tensor for tensor in reader.tensors}
    assert all(tensor.data_offset % 64 == 0 for tensor in tensors.values())
    assert np.array_equal(tensors["token_embd.weight"].data, x)
    assert np.array_equal(tensors["blk.0.attn_k.weight"].data, old)
    assert tensors["blk.0.attn_q.weight"].tensor_type.name == to.upper()


def test_mxfp4_of_other_schemes_becomes_ggufs_without_loss(tmp_path):
    found, _ = quantized(tmp_path, "quark", "mxfp4")
    reports, _ = convert_checkpoint(found, tmp_path / "out.gguf", target("gguf", "mxfp4"))
    assert reports["m.q.weight"]["exact_blocks"] == reports["m.q.weight"]["blocks"]
    both = [
        next(w for w in weights_of(item) if w.is_quantized)
        for item in (found, open_checkpoint(tmp_path / "out.gguf"))
    ]
    assert np.array_equal(values_of(both[0]), values_of(both[1]))
    dequantize_checkpoint(open_checkpoint(tmp_path / "out.gguf"), tmp_path / "plain.gguf", "F16")
    plain = open_checkpoint(tmp_path / "plain.gguf").entries["m.q.weight"]
    assert plain.tag == "F16"
    assert np.array_equal(plain.read(), values_of(both[0]).astype(np.float16))


def test_a_run_that_was_killed_goes_on(tmp_path, monkeypatch):
    others = {
        f"m.{name}.weight": np.full((32, 64), 1 + place, np.float32) for place, name in enumerate("abcd")
    }
    made = source(tmp_path / "s.safetensors", (64, 64), **others)
    (tmp_path / "once").mkdir()
    quantize_checkpoint(made, tmp_path / "once" / "out.gguf", target("gguf", "mxfp4"))
    original, tried = quantizing.largest, []

    def stops(weight, how):
        tried.append(weight.name)
        if len(tried) == 3:
            raise KeyboardInterrupt
        return original(weight, how)

    monkeypatch.setattr(quantizing, "largest", stops)
    with pytest.raises(KeyboardInterrupt):
        quantize_checkpoint(made, tmp_path / "out.gguf", target("gguf", "mxfp4"))
    assert not (tmp_path / "out.gguf").exists()
    quantize_checkpoint(made, tmp_path / "out.gguf", target("gguf", "mxfp4"))
    assert len(tried) == 6
    assert (tmp_path / "out.gguf").read_bytes() == (tmp_path / "once" / "out.gguf").read_bytes()
    assert sorted(path.name for path in tmp_path.iterdir()) == ["once", "out.gguf", "s.safetensors"]


@pytest.mark.parametrize(
    ("others", "message"),
    [
        (
            {"mask": np.ones(3, np.uint8)},
            "'mask' is U8, which this version of the gguf package has not; write a file of another kind, deq",
        ),
        ({"x" * 64: np.ones(3, np.float32)}, "names of at most 63 bytes; rename or reshape it in the source"),
        ({"deep": np.ones((1,) * 5, np.float32)}, "has 1 to 4 axes"),
    ],
)
def test_what_gguf_does_not_hold_is_refused_and_nothing_is_written(tmp_path, others, message):
    made = source(tmp_path / "s.safetensors", (32, 64), **others)
    with refusal(message):
        quantize_checkpoint(made, tmp_path / "out.gguf", target("gguf", "mxfp4"))
    assert not (tmp_path / "out.gguf").exists()


def test_scheme_and_file_go_together(tmp_path):
    made = source(tmp_path / "s.safetensors", (32, 64))
    with refusal(r"gguf MXFP4 is written to \.gguf files, not to 'out\.safetensors'"):
        quantize_checkpoint(made, tmp_path / "out.safetensors", target("gguf", "mxfp4"))
    with refusal(r"quark mxfp4 is not written to \.gguf files; use --scheme gguf"):
        quantize_checkpoint(made, tmp_path / "out.gguf", target("quark", "mxfp4"))


def _text(text):
    return struct.pack("<Q", len(text)) + text


def _file(path, pairs=(), tensors=(), *, version=3, counts=None, data=bytes(64)):
    """Write a GGUF file of keys and tensors that are bytes already."""
    head = struct.pack("<4sIQQ", b"GGUF", version, *(counts or (len(tensors), len(pairs))))
    path.write_bytes(head + b"".join(pairs) + b"".join(tensors) + data)
    return path


def _split(number, count):
    pairs = [_text(b"split.no") + struct.pack("<IH", 2, number)]
    return [*pairs, _text(b"split.count") + struct.pack("<IH", 2, count)]


@pytest.mark.parametrize(
    ("name", "pairs", "part"),
    [
        ("m.gguf", (), ""),
        ("m.gguf", _split(0, 1), ""),
        ("m-00001-of-00001.gguf", _split(0, 1), ""),
        ("m-00002-of-00003.gguf", (), "-00002-of-00003"),
        ("m.gguf", _split(1, 3), "-00002-of-00003"),
    ],
)
def test_one_of_several_files_becomes_one_of_several_files(tmp_path, name, pairs, part):
    """By its name or its keys; a part was made a model without a word."""
    made = open_checkpoint(_file(tmp_path / name, pairs, [_tensor(b"w.weight", (32, 1))], data=bytes(256)))
    assert made.part == part
    for out in ("out.gguf", "out.safetensors", "folder"):
        if part:
            with refusal(r"is one of several files of a model \(00002-of-00003\)"):
                dequantize_checkpoint(made, tmp_path / out)
        out = (tmp_path / out).with_stem((tmp_path / out).stem + part)
        dequantize_checkpoint(made, out)
        assert out.exists()


def _array(kind, count, content=b""):
    return _text(b"key") + struct.pack("<IIQ", 9, kind, count) + content


def _tensor(name=b"x", shape=(4,), kind=0, offset=0):
    return _text(name) + struct.pack(f"<I{len(shape)}QIQ", len(shape), *shape, kind, offset)


_ALIGNED = _text(b"general.alignment")
HOSTILE = {
    "a long array": (
        [_array(0, 1 << 40)],
        (),
        "1,099,511,627,776 bytes are said to follow at byte 51, and 64 do",
    ),
    "an array of 2**64 bytes": ([_array(12, (1 << 64) - 1)], (), "bytes are said to follow"),
    "an array of many strings": ([_array(8, 1 << 20)], (), "8 bytes are said to follow"),
    "an array of too many strings": ([_array(8, 1 << 40)], (), "more than 2,000,000 strings"),
    "an array of many arrays": ([_array(9, 1 << 20)], (), "bytes are said to follow"),
    "arrays nested deeply": ([_array(9, 1, struct.pack("<IQ", 9, 1) * 2000)], (), "arrays nested too deeply"),
    "an array of no type": ([_array(13, 1)], (), "a value of type 13"),
    "a long string": ([_text(b"key") + struct.pack("<IQ", 8, 1 << 62)], (), "bytes are said to follow"),
    "a long key": ([struct.pack("<Q", 1 << 62)], (), "bytes are said to follow"),
    "a key twice": ([_text(b"a") + bytes(5)] * 2, (), "has the key 'a' twice"),
    "an alignment of no power of two": ([_ALIGNED + struct.pack("<II", 4, 48)], (), "is no power of two"),
    "an alignment in 64 bits": ([_ALIGNED + struct.pack("<IQ", 10, 32)], (), "is no power of two"),
    "many axes": ((), [_text(b"x") + struct.pack("<I", 1 << 31)], "65 dimensions"),
    "a large shape": ((), [_tensor(shape=(1 << 62, 1 << 62))], "which no array has"),
    "a product that wraps around": ((), [_tensor(shape=(1 << 40, 1 << 24))], "which no array has"),
    "a tensor behind the file": ((), [_tensor(shape=(1 << 30,))], "tensor 'x' ends behind the file"),
    "an offset behind the file": ((), [_tensor(offset=1 << 62)], "tensor 'x' ends behind the file"),
    "parts of blocks": ((), [_tensor(shape=(33,), kind=8)], "no whole blocks of 32 elements"),
    "an unknown type": ((), [_tensor(kind=999)], "999 is not a valid"),
    "a tensor twice": ((), [_tensor(), _tensor()], "two tensors 'x'"),
}


@pytest.mark.parametrize(("pairs", "tensors", "message"), HOSTILE.values(), ids=HOSTILE)
def test_a_hostile_header_is_refused_before_it_takes_memory(tmp_path, pairs, tensors, message):
    """Whatever lengths it names."""
    path = _file(tmp_path / "x.gguf", pairs, tensors)
    tracemalloc.start()
    try:
        with refusal("as a GGUF file: ") as found:
            open_checkpoint(path)
        assert message in str(found.value)
        assert tracemalloc.get_traced_memory()[1] < 1 << 20
    finally:
        tracemalloc.stop()


def test_a_header_that_is_cut_while_it_is_read_is_refused(tmp_path, monkeypatch):
    """A file that is mapped into memory would end the process."""
    path = _file(tmp_path / "x.gguf", [_text(b"k" * 100_000) + bytes(5)], ())

    def cut(found):
        os.truncate(path, 50_000)
        return stamp(found)

    monkeypatch.setattr(reading, "stamp", cut)
    with refusal("as a GGUF file: it was cut while it was read"):
        open_checkpoint(path)


@pytest.mark.parametrize("key", ["split.no", "split.count"])
@pytest.mark.parametrize(
    "value",
    [struct.pack("<I", 8) + _text(b"1" * 9999), struct.pack("<If", 6, 2.0), struct.pack("<Ii", 5, -1)],
)
def test_numbers_of_files_that_are_no_numbers_are_refused(tmp_path, key, value):
    """They were counted as bytes: one of 1,073,741,824 files, or a number of too many digits."""
    head = struct.pack("<4sIQQ", b"GGUF", 3, 0, 1)
    (tmp_path / "x.gguf").write_bytes(head + _text(key.encode()) + value)
    with refusal(f"as a GGUF file: its {key} is no whole number from 0 on$"):
        open_checkpoint(tmp_path / "x.gguf")


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b"", "4 bytes are said to follow at byte 0, and 0 do"),
        (b"GGML" + bytes(60), "it does not begin with GGUF"),
        (struct.pack(">4sIQQ", b"GGUF", 3, 0, 0), "its version is 50331648, and little-endian files"),
        (struct.pack("<4sIQQ", b"GGUF", 3, 1 << 17, 0) + bytes(99), "bytes are said to follow"),
        (struct.pack("<4sIQQ", b"GGUF", 3, 0, 1 << 17) + bytes(99), "has the key '' twice"),
        (struct.pack("<4sIQ", b"GGUF", 3, 0), "8 bytes are said to follow at byte 16, and 0 do"),
    ],
)
def test_what_is_no_gguf_file_is_refused(tmp_path, content, message):
    (tmp_path / "x.gguf").write_bytes(content)
    with refusal(message):
        open_checkpoint(tmp_path / "x.gguf")


@pytest.mark.parametrize("shape", [(0, 32), (3, 0), (2, 0, 32), (0, 2, 32), (2, 3, 0)])
def test_weights_of_no_elements_are_read(tmp_path, shape):
    """Reading one of shape (2, 0, 32) ended in "cannot reshape array of size 0"."""
    gguf = pytest.importorskip("gguf")
    writer = gguf.GGUFWriter(tmp_path / "x.gguf", "test")
    kind, rows = gguf.GGMLQuantizationType.Q8_0, (*shape[:-1], shape[-1] // 32 * 34)
    writer.add_tensor("a.weight", np.zeros(rows, np.uint8), raw_shape=rows, raw_dtype=kind)
    for write in ("write_header_to_file", "write_kv_data_to_file", "write_tensors_to_file", "close"):
        getattr(writer, write)()
    made = open_checkpoint(tmp_path / "x.gguf")
    assert made.entries["a.weight"].read().shape == rows
    assert values_of(next(iter(weights_of(made)))).shape == shape
    lint(made)
    dequantize_checkpoint(made, tmp_path / "out.safetensors")
    assert open_checkpoint(tmp_path / "out.safetensors").entries["a.weight"].shape == shape


def test_long_arrays_of_keys_take_no_memory_and_are_kept(tmp_path):
    """A million bytes, and arrays of arrays, which the gguf package makes flat."""
    pairs = [
        _array(0, 1 << 20, bytes(1 << 20)),
        _text(b"deep") + struct.pack("<IIQIQ2H", 9, 9, 1, 2, 2, 7, 8),
    ]
    path = _file(tmp_path / "x.gguf", pairs, [_tensor(b"m.weight", (64, 32))], data=bytes(32 + 8192))
    tracemalloc.start()
    try:
        found = open_checkpoint(path)
        assert tracemalloc.get_traced_memory()[1] < 3 << 20
    finally:
        tracemalloc.stop()
    assert found.entries["m.weight"].shape == (32, 64)
    quantize_checkpoint(found, tmp_path / "out.gguf", target("gguf", "q8_0"))
    assert all(pair in (tmp_path / "out.gguf").read_bytes() for pair in pairs)


@pytest.mark.parametrize("kind", ["Q8_0", "MXFP4", "NVFP4", "IQ4_NL", "Q4_0", "Q6_K"])
def test_blocks_of_one_axis_are_read_and_copied(tmp_path, kind):
    """Bytes were counted by rows of one element each, of which no block has a whole number."""
    number = gguf.GGMLQuantizationType[kind]
    block, size = gguf.GGML_QUANT_SIZES[number]
    rng, path, out = np.random.default_rng(0), tmp_path / "s.gguf", tmp_path / "out.gguf"
    data = rng.integers(0, 100, (3, size), np.uint8)
    name, align = b"m.norm.weight", 32
    head = struct.pack("<4sIQQ", b"GGUF", 3, 1, 0) + struct.pack("<Q", len(name)) + name
    head += struct.pack("<IQIQ", 1, 3 * block, number, 0)
    path.write_bytes(head + bytes(-len(head) % align) + data.tobytes())
    found = open_checkpoint(path)
    (weight,) = weights_of(found)
    assert found.entries["m.norm.weight"].read(block, 3 * block).tobytes() == data[1:].tobytes()
    dequantize_checkpoint(found, out, exclude=["*"])
    assert open_checkpoint(out).entries["m.norm.weight"].read().tobytes() == data.tobytes()
    if weight.is_quantized:
        wanted = gguf.quants.dequantize(data, number).reshape(-1)
        assert np.array_equal(values_of(weight), wanted)
        assert list(ranges(weight, 1)) == [(0, 3 * block)]


@pytest.mark.parametrize("kind", "Q4_0 Q4_1 Q5_0 Q5_1 Q8_0".split())
def test_what_the_package_quantises_has_no_finding_and_the_codes_are_verified(tmp_path, kind):
    """Against the source too, with zeros, and rows of one sign; negative scales are usual."""
    made = source(tmp_path / "s.safetensors", (64, 256))
    x = made.entries["m.q.weight"].read().copy()
    x[3, :64], x[4] = 0, np.abs(x[4]) + 1
    made = source(tmp_path / "t.safetensors", **{"m.q.weight": x})
    which = gguf.GGMLQuantizationType[kind]
    data = gguf.quants.quantize(x, which)
    checkpoint = _blocks(tmp_path / "x.gguf", data, which, "m.q.weight")
    (weight,) = weights_of(checkpoint)
    assert np.array_equal(values_of(weight), gguf.quants.dequantize(data, which))
    assert lint(checkpoint) == lint(checkpoint, made) == ()
    (verdict,) = verify_checkpoint(checkpoint, made)
    assert verdict.codes_differ < x.size // 50  # it divides by the scale before that is rounded
    dequantize_checkpoint(checkpoint, tmp_path / "v.safetensors")
    (verdict,) = verify_checkpoint(checkpoint, open_checkpoint(tmp_path / "v.safetensors"))
    assert verdict.codes_differ == 0


@pytest.mark.parametrize("kind", "Q2_K Q3_K Q4_K Q5_K Q6_K".split())
def test_blocks_of_k_types_are_verified_where_scales_vanish(tmp_path, kind):
    """Groups with the scale 0 have any codes; an offset that is NaN or infinite is a finding."""
    which = gguf.GGMLQuantizationType[kind]
    size = gguf.GGML_QUANT_SIZES[which][1]
    data = np.random.default_rng(1).integers(0, 256, (8, 2 * size), dtype=np.uint8)
    places = {"Q2_K": (80, 82), "Q3_K": (108,), "Q6_K": (208,)}.get(kind, (0, 2))
    for place in places:
        data[:, place::size], data[:, place + 1 :: size] = 0, 0x24
    vanishing = {"Q2_K": (0, 0xF0), "Q3_K": (96, 0), "Q6_K": (192, 0)}.get(kind, (4, 0))
    data[:, vanishing[0] :: size] = vanishing[1]
    checkpoint = _blocks(tmp_path / "x.gguf", data, which)
    (weight,) = weights_of(checkpoint)
    assert kind == "Q3_K" or (split_blocks(data, kind.lower()).scales == 0).any()
    assert lint(checkpoint) == ()
    dequantize_checkpoint(checkpoint, tmp_path / "v.safetensors")
    plain = open_checkpoint(tmp_path / "v.safetensors")
    assert np.array_equal(plain.entries["x.weight"].read(), gguf.quants.dequantize(data, which))
    assert lint(checkpoint, plain) == ()
    (verdict,) = verify_checkpoint(checkpoint, plain)
    assert verdict.codes_differ == 0
    assert weight.blocks == ("16" if kind in ("Q2_K", "Q3_K", "Q6_K") else "32")
    data[0, places[-1] + 1] = 0x7C
    rules = {finding.rule for finding in lint(_blocks(tmp_path / "y.gguf", data, which))}
    assert rules == ({"offset-invalid"} if len(places) > 1 else {"scale-infinite", "scale-nan"})


def _blocks(path, data, which, name="x.weight"):
    """Write a file with one weight of blocks, and return its checkpoint."""
    writer = gguf.GGUFWriter(path, "llama")
    writer.add_tensor(name, data, raw_dtype=which)
    for step in (writer.write_header_to_file, writer.write_kv_data_to_file, writer.write_tensors_to_file):
        step()
    writer.close()
    return open_checkpoint(path)


@pytest.mark.parametrize("to", KINDS)
def test_names_that_end_otherwise_than_in_weight_are_kept_and_read(tmp_path, to):
    made = source(tmp_path / "s.safetensors", (64, 128), **{"m.weight_ih": np.ones((4, 64), np.float32)})
    reports, _ = quantize_checkpoint(made, tmp_path / "x.gguf", target("gguf", to))
    assert "note" not in reports["m.weight_ih"]
    found = {weight.name: weight for weight in weights_of(open_checkpoint(tmp_path / "x.gguf"))}
    assert found["m.weight_ih"].scheme.name == found["m.q.weight"].scheme.name == f"gguf {to.upper()}"
    assert (values_of(found["m.weight_ih"]) == 1).all() or to in ("q8_0", "iq4_nl")
    assert found.keys() == {"m.weight_ih", "m.q.weight", "m.norm.weight"}
    assert lint(open_checkpoint(tmp_path / "x.gguf"), made) == ()
