"""Files of torch.save: tensors of every kind, what is said of others, hostile pickles."""

import pickle
import struct
import warnings
import zipfile

import ml_dtypes
import numpy as np
import pytest

from lowprec.checkpoints.container import CheckpointError
from lowprec.checkpoints.containers import pickles
from lowprec.checkpoints.containers.pickles import Call, Global, Stored, read_pickle, write_pickle
from lowprec.checkpoints.converting import dequantize_checkpoint
from lowprec.checkpoints.decoding import values_of
from lowprec.checkpoints.folder import open_checkpoint
from lowprec.checkpoints.linting import lint
from lowprec.checkpoints.quantizing import quantize_checkpoint, target
from lowprec.checkpoints.weights import weights_of
from tests.command import lowprec
from tests.programs import need_framework

pytestmark = pytest.mark.apart


# -- what torch saves ---------------------------------------------------------------------------------


def _saved(path, value):
    need_framework("torch")
    import torch

    torch.save(value, path)
    return open_checkpoint(path)


def test_tensors_of_every_kind_are_read(tmp_path):
    """With attributes, as parameters and buffers, complex, in lists, under numbers; all as torch has them."""
    need_framework("torch")
    import torch

    parameter, marked = torch.nn.Parameter(torch.arange(3.0)), torch.arange(4.0)
    both = torch.nn.Parameter(torch.arange(5.0))
    parameter.tensor_model_parallel, marked.note, both.partition = True, [1, {"a": None}], (2, "x")
    state = {
        "parameter": parameter, "marked": marked, "both": both, "buffer": torch.nn.Buffer(torch.arange(6.0)),
        "complex": torch.arange(3).to(torch.complex64), "list": [torch.arange(2), (torch.arange(7),)],
        "state": {0: {"exp_avg": torch.ones(2)}}, "empty": torch.ones(1, 0, 3)[1:],
        "size": torch.Size((2, 3)), "word": "x", "none": [None, 1],
    }  # fmt: skip
    found = _saved(tmp_path / "x.pt", state)
    assert found.unread == {}
    expected = {name: state[name] for name in ("parameter", "marked", "both", "buffer", "complex")}
    expected |= {"list.0": state["list"][0], "list.1.0": state["list"][1][0]}
    expected |= {"state.0.exp_avg": state["state"][0]["exp_avg"], "empty": state["empty"]}
    assert list(found.entries) == list(expected)
    for name, tensor in expected.items():
        read = found.entries[name].read()
        assert str(tensor.dtype) == f"torch.{read.dtype}"
        assert np.array_equal(read, tensor.detach().numpy()), name


def _unread():
    """Return tensors that are not read, with what is said of them."""
    import torch

    class Other(torch.Tensor):
        pass

    with_tensor, parameter = torch.ones(2), torch.nn.Parameter(torch.ones(2))
    with_tensor.scale = parameter.scale = torch.ones(1)
    globals()["Other"], Other.__qualname__ = Other, "Other"
    return {
        "transposed": (torch.ones(2, 3).T, "is not contiguous; save what its contiguous"),
        "negative": (torch.ones(2, dtype=torch.complex64).conj().imag, "is a negative or conjugate view"),
        "conjugate": (torch.ones(2, dtype=torch.complex64).conj(), "is a negative or conjugate view"),
        "wide": (torch.ones(2, dtype=torch.complex128), "is of a type that is not read"),
        "sparse": (
            torch.eye(3).to_sparse(),
            "is made by torch._utils._rebuild_sparse_tensor, which is not read",
        ),
        "subclass": (torch.ones(2).as_subclass(Other), "_rebuild_from_type_v2, which is not read"),
        "attribute": (with_tensor, "has attributes that are tensors too"),
        "parameter": (parameter, "has attributes that are tensors too"),
        "module": (torch.nn.Linear(2, 2), "is made by torch.nn.modules.linear.Linear, which is not read"),
        "array": (np.ones(2), "_reconstruct, which is not read"),
        "meta": (torch.ones(2, device="meta"), "has no values: it is on the meta device"),
        "missing": (torch.nn.Parameter(torch.ones(2, device="meta")), "has no values"),
        "lazy": (torch.nn.UninitializedParameter(), "has no values"),
        "later": (torch.nn.parameter.UninitializedBuffer(), "has no values"),
        "storage": (torch.ones(2).untyped_storage(), "is made by no function of a module"),
    }


@pytest.mark.filterwarnings("ignore::UserWarning")
def test_what_is_not_read_is_told(tmp_path):
    """One such tensor neither hides nor refuses the others, and no other file lacks it in silence."""
    need_framework("torch")
    import torch

    told = _unread()
    state = {name: tensor for name, (tensor, _) in told.items()}
    state |= {"weight": torch.ones(32, 64), ("a", 1): torch.ones(3), "more": {2.5: [torch.ones(1)], None: 1}}
    found = _saved(tmp_path / "x.pt", state)
    assert set(found.unread) == {*told, "?", "more.?"}
    for name, (_, why) in told.items():
        assert why in found.unread[name]
    assert "under a key that is no name" in found.unread["more.?"]
    assert list(found.entries) == ["weight"]
    notes = {(finding.rule, finding.tensor, finding.severity) for finding in lint(found)}
    calls = {("pickle-calls", "x.pt", "warning")}  # of the array, the module and the class
    assert notes == {("not-read", name, "note") for name in found.unread} | calls
    shown = lowprec("checkpoint", "inspect", found.path)
    assert "tensors that are not read: 17; see `lowprec checkpoint lint`" in shown.output


def test_nothing_is_left_out_unless_it_is_said(tmp_path):
    need_framework("torch")
    import torch

    eye = torch.eye(3).to_sparse()
    found = _saved(tmp_path / "x.pt", {"m.weight": torch.ones(32, 64), "eye[0]": eye, "other": eye})
    how, out = target("modelopt", "e4m3fn"), tmp_path / "q.safetensors"
    message = (
        r"another file would lack what is not read: tensor 'eye\[0\]' of .* is made by .*, and 1 others; "
    )
    message += r"lint lists them, and --exclude 'eye\[\[\]0\]' leaves it out"
    with pytest.raises(CheckpointError, match=message):
        quantize_checkpoint(found, out, how)
    with pytest.raises(CheckpointError, match=r"tensor 'other' of .*, which is not read; save .* lint lists"):
        dequantize_checkpoint(found, out, exclude=["eye[[]0]"])
    quantize_checkpoint(found, out, how, exclude=["eye[[]0]", "oth*"])
    assert set(open_checkpoint(out).entries) == {"m.weight", "m.weight_scale"}
    done = lowprec("checkpoint", "dequantize", found.path, "-o", tmp_path / "d.pt")
    assert done.exit_code == 2
    assert "another file would lack what is not read" in done.output


def test_a_whole_module_is_not_read_and_told(tmp_path):
    need_framework("torch")
    import torch

    found = _saved(tmp_path / "x.pt", torch.nn.Linear(2, 2))
    assert found.entries == {}
    assert "Linear, which is not read; save plain tensors, in a state_dict" in found.unread[""]
    assert [finding.rule for finding in lint(found)] == ["pickle-calls", "not-read"]
    assert "'torch.nn.modules.linear.Linear'" in lint(found)[0].evidence


# -- Transformer Engine's, byte by byte ---------------------------------------------------------------


#: As torch.save writes them: 32x32 and 128x4 bytes in storages "0" and "1", and what is called with them.
_BYTES = b"ctorch._utils\n_rebuild_tensor_v2\n((X\7\0\0\0storagectorch\nByteStorage\nX\1\0\0\0"
_DATA = _BYTES + b"0X\3\0\0\0cpuM\0\4tQK\0K K \x86K K\1\x86\x89ccollections\nOrderedDict\n)RtR"
_SCALE = _BYTES + b"1X\3\0\0\0cpuM\0\2tQK\0K\x80K\4\x86K\4K\1\x86\x89ccollections\nOrderedDict\n)RtR"
_MAKE = b"ctransformer_engine.pytorch.tensor.mxfp8_tensor\n_make_mxfp8_tensor_in_reduce_ex\n"
_METHOD = b"c__builtin__\ngetattr\nctransformer_engine.pytorch.tensor.mxfp8_tensor\nMXFP8Tensor\n"
_METHOD += b"X\x12\0\0\0_make_in_reduce_ex\x86R"
_ENUM = b"ctransformer_engine.pytorch.constants\nDType\nK%c\x85R"
_OLD = b"ctransformer_engine_torch\nDType\n)\x81K%cb"
_TYPE, _SIZE = b"ctorch\nbfloat16\n", b"ctorch\nSize\nK K \x86\x85R"


@pytest.mark.parametrize(
    ("function", "enum", "number", "rest", "tag"),
    [
        (_MAKE, _ENUM, 7, _SIZE + b"N\x89", "F8_E4M3"),
        (_MAKE, _ENUM, 8, _SIZE + b"N\x89", "F8_E5M2"),
        (_METHOD, _OLD, 7, _SIZE + b"N", "F8_E4M3"),
        (_METHOD, _OLD, 8, _SIZE, "F8_E5M2"),
        (_METHOD, _OLD, 6, _SIZE, "F8_E4M3"),
        (_METHOD, _OLD, 6, b"", "F8_E4M3"),
        (_METHOD, _OLD, 7, b"", "F8_E5M2"),
        (_METHOD, _OLD, 8, b"", ""),
        (_METHOD, _OLD, 10, _SIZE, ""),
        (_METHOD, _OLD, 7, _SIZE + b"N\x89\x89", ""),
    ],
)
def test_numbers_of_types_by_version(tmp_path, function, enum, number, rest, tag):
    """Before 2.4 they were lower by one; before 2.3 no shape was given. What is not known is not read."""
    call = function + b"(" + _DATA + _SCALE + b"NN" + enum % number + _TYPE + rest + b"tR"
    codes, scales = np.arange(1024, dtype=np.uint16).astype(np.uint8), np.full(512, 128, np.uint8)
    with zipfile.ZipFile(tmp_path / "x.pt", "w") as file:
        file.writestr("x/data.pkl", b"\x80\x02}X\1\0\0\0w" + call + b"s.")
        file.writestr("x/data/0", codes.tobytes())
        file.writestr("x/data/1", scales.tobytes())
    found = open_checkpoint(tmp_path / "x.pt")
    assert list(found.unread) == ([] if tag else ["w"])
    if not tag:
        assert found.entries == {}
        return
    (weight,) = weights_of(found)
    assert (weight.scheme.name, weight.codes.tag, weight.problem) == ("transformer-engine mxfp8", tag, None)
    kind = ml_dtypes.float8_e4m3fn if tag == "F8_E4M3" else ml_dtypes.float8_e5m2
    assert np.array_equal(
        values_of(weight), 2 * codes.view(kind).astype(np.float32).reshape(32, 32), equal_nan=True
    )


# -- files that are wrong ---------------------------------------------------------------------------


def _archive(path, data, records=(("data/0", bytes(16)),), **options):
    with zipfile.ZipFile(path, "w", **options) as file:
        for name, content in (("data.pkl", data), *records):
            file.writestr(f"x/{name}", content)
    return path


_FLOATS = Global("torch", "FloatStorage")


_FLOAT = Call(
    Global("torch._utils", "_rebuild_tensor_v2"),
    (Stored(("storage", _FLOATS, "0", "cpu", 4)), 0, (4,), (1,), False),
)
_PARAMETER, _GETATTR = Global("torch._utils", "_rebuild_parameter"), Global("builtins", "getattr")


def _state(call, name="w"):
    return write_pickle(Call(Global("collections", "OrderedDict"), (), [(name, call)]))


def _engine(part):
    """A state dict with an MXFP8 tensor of that part."""
    function = Global("transformer_engine.pytorch.tensor.mxfp8_tensor", "_make_mxfp8_tensor_in_reduce_ex")
    element = Call(Global("transformer_engine.pytorch.constants", "DType"), (7,))
    return _state(Call(function, (part, None, None, None, element, None, None, None, False)))


def _tensor(offset=0, shape=(4,), strides=(1,), storage=("storage", _FLOATS, "0", "cpu", 4)):
    """A state dict with one tensor, as torch.save writes it."""
    call = Call(
        Global("torch._utils", "_rebuild_tensor_v2"), (Stored(storage), offset, shape, strides, False)
    )
    return write_pickle(Call(Global("collections", "OrderedDict"), (), [("w", call)]))


def test_keys_that_are_no_names_are_left_out(tmp_path):
    """A tuple of 2**60 parts is never hashed."""
    found = open_checkpoint(_archive(tmp_path / "x.pt", b"\x80\x02}" + _NEST + b"K\x01s."))
    assert found.entries == found.unread == {}


def test_tensors_in_arguments_and_attributes_of_dicts_are_told(tmp_path):
    """They were left out in silence: `torch.load` makes them items of the dict."""
    ordered, cause = Global("collections", "OrderedDict"), "among the arguments or attributes of its dict"
    for inner in (
        _state(Call(ordered, ((("w", _FLOAT),),)), "m"),
        b"\x80\x02}X\x01\0\0\0m" + _built(Call(ordered, ()), ("w", _FLOAT)) + b"s.",
    ):
        found = open_checkpoint(_archive(tmp_path / "x.pt", inner))
        assert cause in found.unread.pop("m.?")
        assert found.entries == found.unread == {}
    bare = open_checkpoint(_archive(tmp_path / "x.pt", write_pickle(Call(ordered, ((("w", _FLOAT),),)))))
    assert f"the file has tensors {cause}" in bare.unread["?"]


def test_a_state_of_a_tensor_that_holds_another_is_told(tmp_path):
    """`torch.load` calls `set_` with such a state, and the tensor has its values."""
    data = b"\x80\x02}X\x01\0\0\0w" + _built(_FLOAT, _FLOAT.arguments[:4]) + b"s."
    assert "has attributes that are tensors" in open_checkpoint(_archive(tmp_path / "x.pt", data)).unread["w"]


def _built(call, state):
    """Return the opcodes of a call whose result gets a state."""
    return write_pickle(call)[2:-1] + write_pickle(state)[2:-1] + b"b"


def test_nothing_of_a_pickle_is_run(tmp_path):
    class Harmful:
        def __reduce__(self):
            return (tmp_path / "made").touch, ()

    found = open_checkpoint(_archive(tmp_path / "x.pt", pickle.dumps({"w": Harmful()})))
    assert found.entries == {}
    assert not (tmp_path / "made").exists()


_NEST = b")" + b"2\x86" * 60  # a tuple of a tuple ..., each twice: 2**60 parts
_LONG = b"\x8b" + struct.pack("<i", 100_000) + b"\x7f" * 100_000  # a number of 800,000 bits


@pytest.mark.parametrize(
    ("data", "message"),
    [
        (b"\x80\x02}", "is no pickle that can be read"),
        (b"\x80\x05\x96" + struct.pack("<Q", 1 << 40) + b"abc.", "is no pickle that can be read"),
        (b"\x80\x02}q\0X\x01\0\0\0ah\0s.", "dicts or lists nested too deeply"),
        (b"\x80\x02]q\0h\0a.", "dicts or lists nested too deeply"),
        (_state(Call(Call(_GETATTR, ()), (1,))), "is not made as torch.save writes it"),
        (_state(Call(Call(_GETATTR, None), (1,))), "is not made as torch.save writes it"),
        (_state(Call(_PARAMETER, ())), "is not made as torch.save writes it"),
        (_state(Call(_PARAMETER, None)), "is not made as torch.save writes it"),
        (_state(Call(Global("torch._tensor", "_rebuild_from_type_v2"), (1,))), "is not made as torch.save"),
        (_engine(Call(_PARAMETER, ())), "is not made as torch.save writes it"),
        (_engine(Call(_PARAMETER, (1,))), "is not made as torch.save writes it"),
        (_engine(Call(_PARAMETER, None)), "is not made as torch.save writes it"),
        (_engine(Call(None, (1, 2, 3, 4))), "is not made as torch.save writes it"),
        (_engine(1), "is not made as torch.save writes it"),
        (_state(Call(_PARAMETER, (_FLOAT,)), "n" * 5000), "has a name of 5,000 characters"),
        (_tensor(shape=(-1,)), "must be numbers from 0"),
        (_tensor().replace(b"(\x8a\x01\x04t(", b"(" + _NEST + b"t("), "is not made of numbers below"),
        (_tensor().replace(b"(\x8a\x01\x04t(", b"(" + _LONG + b"t("), "is not made of numbers below"),
        (_tensor(shape=(5,)), r"F32 of shape \[5\] ends behind its 16 bytes"),
        (_tensor(offset=1), "ends behind its 16 bytes"),
        (_tensor(storage=("storage", _FLOATS, "9", "cpu", 4)), "its data are missing"),
        (_tensor(storage=("storage", _FLOATS, "0", "cpu", 3)), "its storage has 12 bytes, but its data 16"),
        (_tensor(storage=("storage", _FLOATS, "0", "cpu", "4")), "the storage of .* is not made of numbers"),
        (_tensor(storage=("x",)), "lies in no storage"),
    ],
)  # fmt: skip
def test_hostile_pickles_are_refused(tmp_path, data, message):
    with pytest.raises(CheckpointError, match=message):
        open_checkpoint(_archive(tmp_path / "x.pt", data))


def test_long_integers_as_keys_are_no_names(tmp_path):
    """They have no text; a list under one held the file up with a ValueError of Python."""
    found = open_checkpoint(
        _archive(tmp_path / "x.pt", b"\x80\x02}" + _LONG + write_pickle(_FLOAT)[2:-1] + b"s.")
    )
    assert [*found.unread] == ["?"]


def test_parameters_within_parameters_are_not_followed(tmp_path):
    within = b"ctorch._utils\n_rebuild_parameter\n" * 3000 + write_pickle(_FLOAT)[2:-1] + b"\x85R" * 3000
    found = open_checkpoint(_archive(tmp_path / "x.pt", b"\x80\x02}X\x01\0\0\0w" + within + b"s."))
    assert "is made by torch._utils._rebuild_parameter, which is not read" in found.unread["w"]


@pytest.mark.parametrize(
    "data",
    [b"(d", b"]", b"N", b"P\n", b"c\n\n", b"K\1", b"X\0\0\0\0", b"N\x94\x94", b"N)R", b"N)\x81",
     b"NN}\x92", b"N2", b"(t"],
)  # fmt: skip
def test_every_opcode_counts(monkeypatch, data):
    """Each makes something that takes memory."""
    monkeypatch.setattr(pickles, "_MOST", 100)
    read_pickle(data * 20 + b".", "it")
    with pytest.raises(CheckpointError, match="it has more than 100 opcodes"):
        read_pickle(data * 101 + b".", "it")


def test_values_that_are_in_many_places_are_counted(tmp_path):
    """32 lists of the 32 before, and so on: 2**30 places for one object, of which few are looked at."""
    data = b"\x80\x02](" + b"K\1" * 32 + b"e"
    for place in range(6):
        data += b"q%c]" % place + b"(" + b"h%c" % place * 32 + b"e"
    data += b"."
    with pytest.raises(CheckpointError, match=f"has more than {4 * len(data):,} values"):
        open_checkpoint(_archive(tmp_path / "x.pt", data))


def test_a_tensor_under_a_million_names_is_refused(tmp_path):
    """Lists of 1,000 times the list of 1,000 times a tensor: 4 kB took minutes and gigabytes."""
    data = b"\x80\x02" + write_pickle(_FLOAT)[2:-1]
    for place in range(2):
        data += b"q%c0](" % place + b"h%c" % place * 1000 + b"e"
    with pytest.raises(CheckpointError, match=f"has more than {4 * (len(data) + 1):,} values"):
        open_checkpoint(_archive(tmp_path / "x.pt", data + b"."))
    twice = data.removesuffix(b"h\1" * 1000 + b"e") + b"h\1h\1e."
    assert len(open_checkpoint(_archive(tmp_path / "y.pt", twice)).entries) == 2000


def test_files_of_old_torch_are_told_from_others(tmp_path):
    need_framework("torch")
    import torch

    torch.save({"w": torch.ones(2)}, tmp_path / "old.pt", _use_new_zipfile_serialization=False)
    with pytest.raises(CheckpointError, match=r"before torch 1\.6; load it with torch and save it again$"):
        open_checkpoint(tmp_path / "old.pt")
    (tmp_path / "ggml.bin").write_bytes(b"lmgg" + bytes(60))
    with pytest.raises(CheckpointError, match=r"is no archive of torch\.save: File is not a zip file$"):
        open_checkpoint(tmp_path / "ggml.bin")


def test_what_is_no_archive_of_torch_is_refused(tmp_path):
    (tmp_path / "x.pt").write_bytes(b"\x80\x02no archive")
    with pytest.raises(CheckpointError, match=r"is no archive of torch\.save"):
        open_checkpoint(tmp_path / "x.pt")
    with pytest.raises(CheckpointError, match="is compressed or ends behind the file"):
        open_checkpoint(_archive(tmp_path / "x.pt", b"\0" * 99, compression=zipfile.ZIP_DEFLATED))
    for twice in ("x/data/0", "y/data/0"):
        with zipfile.ZipFile(_archive(tmp_path / "x.pt", _tensor()), "a") as file, warnings.catch_warnings():
            warnings.simplefilter("ignore")  # of zipfile
            file.writestr(twice, bytes(16))
        with pytest.raises(CheckpointError, match="has the record 'data/0' twice"):
            open_checkpoint(tmp_path / "x.pt")
    with pytest.raises(CheckpointError, match="was saved on a big-endian machine"):
        open_checkpoint(_archive(tmp_path / "x.pt", _tensor(), [("byteorder", b"big")]))


def test_pickles_of_every_protocol_are_read():
    value = {"a": [1, 2.5, True, None, ("x", b"y")], "b": {"c": {1, 2}}, "long": 1 << 70, "d": frozenset([3])}
    for protocol in range(pickle.HIGHEST_PROTOCOL + 1):
        found = read_pickle(pickle.dumps(value, protocol), "this")
        assert (found["a"][:4], found["long"]) == ([1, 2.5, True, None], 1 << 70)
        assert found["a"][4][0] == "x"


class _Run:
    """What a pickle makes by a call of some function."""

    def __init__(self, function, *arguments):
        self.made = function, arguments

    def __reduce__(self):
        return self.made


def test_a_pickle_that_calls_code_has_a_finding(tmp_path, capsys):
    """And nothing is called; tensors beside it are read. torch refuses it with weights_only=True too."""
    torch = pytest.importorskip("torch")
    state = {"m.q.weight": torch.ones(4, 32), "note": _Run(print, "called")}
    torch.save(state, tmp_path / "x.pt")
    checkpoint = open_checkpoint(tmp_path / "x.pt")
    (finding,) = lint(checkpoint)
    assert (finding.rule, finding.severity) == ("pickle-calls", "warning")
    assert "calls '__builtin__.print' when it is loaded" in finding.evidence
    assert "called" not in capsys.readouterr().out
    assert checkpoint.entries["m.q.weight"].shape == (4, 32)
    with pytest.raises(Exception, match="print"):
        torch.load(tmp_path / "x.pt", weights_only=True)


def test_pickles_of_tensors_call_nothing_else(tmp_path):
    """Parameters, dicts, types and devices, all of which torch loads with weights_only=True."""
    torch = pytest.importorskip("torch")
    model = torch.nn.Sequential(torch.nn.Linear(32, 4), torch.nn.Conv1d(2, 4, 3))
    optimizer = torch.optim.Adam(model.parameters())
    state = {"model": model.state_dict(), "optimizer": optimizer.state_dict(), "parameter": model[0].weight}
    state |= {
        "size": torch.Size([2, 3]),
        "dtype": torch.bfloat16,
        "device": torch.device("cpu"),
        "set": {1, 2},
    }
    torch.save(state, tmp_path / "x.pt")
    torch.load(tmp_path / "x.pt", weights_only=True)
    assert lint(open_checkpoint(tmp_path / "x.pt")) == ()


def test_getattr_is_a_call_unless_it_is_of_what_is_known(tmp_path):
    torch = pytest.importorskip("torch")
    torch.save({"w": torch.ones(2, 2), "x": _Run(getattr, np.ndarray, "sum")}, tmp_path / "x.pt")
    finding, *_ = lint(open_checkpoint(tmp_path / "x.pt"))
    assert "'__builtin__.getattr of numpy.ndarray'" in finding.evidence
