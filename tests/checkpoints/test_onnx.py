"""ONNX models: every type in every field, what DequantizeLinear makes of it, models that are written."""

import functools
import itertools

import ml_dtypes
import numpy as np
import pytest

import lowprec as lp
from lowprec.arrays.convert import encode
from lowprec.checkpoints import quantizing
from lowprec.checkpoints.converting import convert_checkpoint, dequantize_checkpoint
from lowprec.checkpoints.decoding import as_blocks, codes_of, ranges, stored_scales, values_of
from lowprec.checkpoints.folder import open_checkpoint
from lowprec.checkpoints.inspecting import inspect
from lowprec.checkpoints.linting import lint
from lowprec.checkpoints.quantizing import FAMILIES, quantize_checkpoint, target
from lowprec.checkpoints.schemes.schemes import find
from lowprec.checkpoints.verifying import verify_checkpoint
from lowprec.checkpoints.weights import weights_of
from lowprec.verify.dumps.files import open_dump
from tests.checkpoints.files import quantized, refusal, source
from tests.programs import need_package

need_package("onnx")
import onnx  # noqa: E402
from onnx import TensorProto, checker, helper, numpy_helper  # noqa: E402
from onnx.reference import ReferenceEvaluator  # noqa: E402

pytestmark = [pytest.mark.apart, pytest.mark.filterwarnings("ignore:overflow encountered in cast")]

#: Types of elements: those with numbers from 17 to 26 but E8M0, and wider integers.
FP8 = ("FLOAT8E4M3FN", "FLOAT8E4M3FNUZ", "FLOAT8E5M2", "FLOAT8E5M2FNUZ")
FEW = {"UINT4": 4, "INT4": 4, "FLOAT4E2M1": 4, "UINT2": 2, "INT2": 2}
WHOLE = ("INT8", "UINT8", "INT16", "UINT16", "INT32")
SHARED = {
    "tensor": ((), 1, 0), "rows": ((7,), 0, 0), "columns": ((13,), 1, 0), "blocks down": ((3, 13), 0, 3),
    "blocks": ((7, 3), 1, 5), "blocks from the end": ((7, 4), -1, 4),
}  # fmt: skip
NEWEST = helper.make_opsetid("", 25)


def _elements(kind, shape, rng):
    """Any elements of a type but NaN and infinities."""
    dtype = np.dtype(helper.tensor_dtype_to_np_dtype(getattr(TensorProto, kind)))
    if kind in FEW:
        return rng.integers(0, 1 << FEW[kind], shape, dtype=np.uint8).view(dtype)
    codes = rng.integers(0, 256, (*shape, dtype.itemsize), dtype=np.uint8).view(dtype).reshape(shape)
    return codes if kind in WHOLE else np.where(np.isfinite(codes.astype(np.float32)), codes, dtype.type(1))


def _packed(array, bits):
    """Bytes of codes without gaps, the first in the lowest bits, zeros at the end, as the layout defines."""
    codes = [int(code) & (1 << bits) - 1 for code in array.view(np.uint8).reshape(-1)]
    codes += [0] * (-len(codes) % (8 // bits))
    runs = zip(*[iter(codes)] * (8 // bits), strict=True)
    return bytes(sum(code << bits * place for place, code in enumerate(run)) for run in runs)


def _tensor(name, array, kind, field):
    """A TensorProto with data in raw_data, or in the field of numbers that the type has."""
    array = np.asarray(array)
    made = TensorProto(name=name, data_type=getattr(TensorProto, kind), dims=array.shape)
    raw = _packed(array, FEW[kind]) if kind in FEW else array.tobytes()
    if field == "raw":
        made.raw_data = raw
    elif kind in FEW:
        made.int32_data.extend(raw)
    elif kind in ("FLOAT", "DOUBLE", "INT64", "UINT32", "UINT64"):
        field = {"FLOAT": "float_data", "DOUBLE": "double_data", "INT64": "int64_data"}.get(
            kind, "uint64_data"
        )
        getattr(made, field).extend(array.reshape(-1).tolist())
    else:
        words = array.view(f"{'i' if kind.startswith('INT') else 'u'}{array.dtype.itemsize}")
        made.int32_data.extend(words.reshape(-1).tolist())
    return made


def _model(nodes, tensors, outputs, inputs=(), opset=NEWEST):
    graph = helper.make_graph(nodes, "g", list(inputs), outputs, tensors)
    return helper.make_model(graph, opset_imports=[opset])


@pytest.mark.parametrize("kind", [*FP8, *FEW, *WHOLE])
def test_dequantize_linear_gives_the_values_of_onnx_s_reference(tmp_path, kind):
    """Of every type, scales of every type and shape, with zero points, in both kinds of fields."""
    rng = np.random.default_rng(0)
    cases = itertools.product(("FLOAT", "FLOAT16", "BFLOAT16", "FLOAT8E8M0"), SHARED.items(), (False, True))
    for place, (scale, (_, (grid, axis, size)), zeros) in enumerate(cases):
        if zeros and kind in (*FP8, "INT32", "FLOAT4E2M1"):
            continue
        field = "raw" if place % 2 else "numbers"
        units = np.exp2(rng.integers(-5, 5, grid)) * (1 if scale == "FLOAT8E8M0" else rng.uniform(1, 2, grid))
        units = np.asarray(units).astype(helper.tensor_dtype_to_np_dtype(getattr(TensorProto, scale)))
        tensors = [
            _tensor("q", _elements(kind, (7, 13), rng), kind, field),
            _tensor("s", units, scale, field),
        ]
        if zeros:
            tensors.append(_tensor("z", _elements(kind, grid, rng), kind, field))
        of = {"axis": axis} | ({"block_size": size} if size else {})
        of |= {"output_dtype": TensorProto.FLOAT} if scale == "FLOAT8E8M0" else {}
        node = helper.make_node("DequantizeLinear", [item.name for item in tensors], ["w"], **of)
        made = TensorProto.FLOAT if scale == "FLOAT8E8M0" else getattr(TensorProto, scale)
        model = _model([node], tensors, [helper.make_tensor_value_info("w", made, (7, 13))])
        onnx.save(model, tmp_path / "x.onnx")
        expected = ReferenceEvaluator(model).run(None, {})[0].astype(np.float32)
        (weight,) = weights_of(open_checkpoint(tmp_path / "x.onnx"))
        assert (weight.name, weight.problem) == ("w", None)
        assert np.array_equal(values_of(weight), expected), (scale, grid, zeros)
        parts = [values_of(weight, *rows) for rows in ranges(weight, 1)]
        assert np.array_equal(np.concatenate(parts), expected)


@pytest.mark.parametrize("field", ["raw", "numbers"])
def test_initializers_of_every_type_are_read(tmp_path, field):
    """Bit for bit, ragged ends too; strings are left out."""
    rng = np.random.default_rng(1)
    kinds = (*FP8, *FEW, *WHOLE, "BFLOAT16", "FLOAT16", "FLOAT", "DOUBLE", "INT64", "UINT32", "UINT64",
             "FLOAT8E8M0")  # fmt: skip
    arrays = {kind: _elements(kind, (3, 5), rng) for kind in kinds}
    tensors = [_tensor(kind, array, kind, field) for kind, array in arrays.items()]
    tensors.append(helper.make_tensor("text", TensorProto.STRING, [1], [b"x"]))
    onnx.save(_model([], tensors, []), tmp_path / "x.onnx")
    entries = open_checkpoint(tmp_path / "x.onnx").entries
    assert set(entries) == set(kinds)
    for kind, array in arrays.items():
        found = entries[kind].read()
        assert found.dtype == array.dtype
        assert found.shape == (3, 5)
        assert np.array_equal(found.view(np.uint8), array.view(np.uint8)), kind
        assert np.array_equal(entries[kind].read(1, 3), found[1:3])
        theirs = numpy_helper.to_array(next(item for item in tensors if item.name == kind))
        assert np.array_equal(theirs.view(np.uint8), found.view(np.uint8))


@pytest.mark.parametrize(
    ("kind", "field", "own"),
    [
        ("FLOAT", "double_data", "float_data"),
        ("FLOAT16", "float_data", "int32_data"),
        ("INT64", "float_data", "int64_data"),
        ("INT32", "int64_data", "int32_data"),
        ("UINT32", "int32_data", "uint64_data"),
        ("UINT8", "string_data", "int32_data"),
        ("FLOAT", "float_data", "raw_data"),
    ],
)
def test_data_in_the_field_of_another_type_are_refused(tmp_path, kind, field, own):
    """Beside raw_data too: one of both would be wrong."""
    made = TensorProto(name="w", data_type=getattr(TensorProto, kind), dims=[2])
    getattr(made, field).extend([b"a", b"b"] if field == "string_data" else [1, 2])
    if own == "raw_data":
        made.raw_data = bytes(8)
    onnx.save(_model([], [made], []), tmp_path / "x.onnx")
    with refusal(f"has data in {field}, and those of [A-Z0-9]+ are in {own}"):
        open_checkpoint(tmp_path / "x.onnx")


@pytest.mark.parametrize(("kind", "name"), [("FLOAT6E2M3", "float6_e2m3fn"), ("FLOAT6E3M2", "float6_e3m2fn")])
@pytest.mark.parametrize("field", ["raw", "numbers"])
def test_codes_of_six_bits_are_read(tmp_path, kind, name, field):
    if not hasattr(TensorProto, kind):
        pytest.skip("this version of onnx lacks them")
    codes = np.random.default_rng(2).integers(0, 64, (3, 7), dtype=np.uint8)
    made = numpy_helper.from_array(codes.view(getattr(ml_dtypes, name)), "x")
    if field == "numbers":
        made.ClearField("raw_data")
        made.int32_data.extend(codes.reshape(-1).tolist())
    onnx.save(_model([], [made], []), tmp_path / "x.onnx")
    assert np.array_equal(open_checkpoint(tmp_path / "x.onnx").entries["x"].read().view(np.uint8), codes)


def test_external_data_are_read_in_place(tmp_path):
    """By rows, from the file beside; the dump of `compare` too."""
    weight = np.arange(96, dtype=np.float32).reshape(8, 12)
    model = _model([], [numpy_helper.from_array(weight, "a.weight")], [])
    onnx.save(model, tmp_path / "x.onnx", save_as_external_data=True, location="x.data", size_threshold=0)
    found = open_checkpoint(tmp_path / "x.onnx")
    assert sorted(map(str, found.files)) == ["x.data", "x.onnx"]
    assert np.array_equal(found.entries["a.weight"].read(2, 5), weight[2:5])
    assert np.array_equal(np.asarray(open_dump(f"{tmp_path / 'x.onnx'}:a.weight")), weight)
    found.check_output(tmp_path / "x.onnx", [])  # the file that is named may be replaced
    with refusal(r"x\.data' is one of 2 files that are read"):
        found.check_output(tmp_path / "x.data", [])


@pytest.mark.parametrize(
    ("said", "message"),
    [
        ({"location": "../x.data"}, "only files below the model's folder are read"),
        ({"location": "/etc/passwd"}, "only files below the model's folder are read"),
        ({"location": "link/x.data"}, "a link that leaves the model's folder"),
        ({"location": "none.data"}, "which is missing: download it too"),
        ({"location": "folder"}, "'folder', which is no regular file"),
        (
            {"location": "x.data", "offset": "8"},
            "is said to lie at 8, 16 bytes long, in 'x.data' of 16 bytes",
        ),
        ({"location": "x.data", "length": "4"}, "is said to lie at 0, 4 bytes long"),
        ({"location": "x.data", "offset": "x"}, "which are no numbers"),
        ({"location": "a\0b"}, r"the file 'a\\x00b', which"),  # why, Python's versions say otherwise
        ({"location": "a" * 5000}, r"the file 'a{77}\.\.\.', which cannot be read: File name too long"),
        ({"location": "self"}, "the file 'self', which"),
    ],
)
def test_external_data_elsewhere_are_refused(tmp_path, said, message):
    (tmp_path / "out").mkdir()
    (tmp_path / "x.data").write_bytes(bytes(16))
    room = tmp_path / "model"
    room.mkdir()
    (room / "x.data").write_bytes(bytes(16))
    (room / "folder").mkdir()
    (room / "link").symlink_to(tmp_path)
    (room / "self").symlink_to(room / "self")
    made = TensorProto(name="w", data_type=TensorProto.FLOAT, dims=[4])
    made.data_location = TensorProto.EXTERNAL
    for key, value in said.items():
        made.external_data.add(key=key, value=value)
    (room / "x.onnx").write_bytes(_model([], [made], []).SerializeToString())
    with refusal(message):
        open_checkpoint(room / "x.onnx")


def test_what_is_no_model_is_refused(tmp_path):
    short = TensorProto(name="w", data_type=TensorProto.FLOAT, dims=[1 << 40], raw_data=b"1234")
    empty = TensorProto(name="w", data_type=TensorProto.FLOAT, dims=[0, 1 << 62], raw_data=b"")
    texts = TensorProto(name="w", data_type=TensorProto.STRING, dims=[1], string_data=[b"x"])
    number = TensorProto(name="w", data_type=TensorProto.UINT8, dims=[1], raw_data=b"1")
    for data, message in (
        (_model([], [texts, number], []).SerializeToString(), "has two initializers 'w'"),
        (b"no model at all", "as an ONNX model"),
        (b"", "it has neither nodes nor initializers"),
        (_model([], [short], []).SerializeToString(), "has 4 bytes of data, and F32 of shape"),
        (_model([], [empty], []).SerializeToString(), "which no array has"),
    ):
        (tmp_path / "x.onnx").write_bytes(data)
        with refusal(message):
            open_checkpoint(tmp_path / "x.onnx")


def test_scales_that_do_not_fit_are_a_finding(tmp_path):
    tensors = [_tensor("q", np.zeros((4, 6), np.int8), "INT8", "raw"),
               _tensor("s", np.ones((4, 2), np.float32), "FLOAT", "raw")]  # fmt: skip
    node = helper.make_node("DequantizeLinear", ["q", "s"], ["w"], axis=1, block_size=4)
    onnx.save(_model([node], tensors, []), tmp_path / "x.onnx")
    assert weights_of(open_checkpoint(tmp_path / "x.onnx"))[0].problem is None
    node = helper.make_node("DequantizeLinear", ["q", "s"], ["w"], axis=0, block_size=4)
    onnx.save(_model([node], tensors, []), tmp_path / "x.onnx")
    (finding,) = lint(open_checkpoint(tmp_path / "x.onnx"))
    assert finding.rule == "shape"
    assert "do not fit [4, 6] codes by axis 0 and block_size 4" in finding.evidence


@pytest.mark.parametrize(
    ("rule", "name", "number", "place"),
    [
        ("scale-nan", "_scale", np.nan, (0, 0)),
        ("scale-zero", "_scale", 0, (3, 1)),
        ("scale-infinite", "_scale", np.inf, (3, 1)),
        ("scale-subnormal", "_scale", 1e-40, (3, 1)),
        ("scale-inverted", "_scale", 1e6, ...),
    ],
)
def test_a_defect_of_scales_is_named(tmp_path, rule, name, number, place):
    found, _ = quantized(tmp_path, "onnx", "int4", (96, 192))
    model = onnx.load(found.path)
    (tensor,) = [item for item in model.graph.initializer if item.name == f"m.q.weight{name}"]
    scales = numpy_helper.to_array(tensor).copy()
    scales[place] = number
    tensor.raw_data = scales.tobytes()
    onnx.save(model, tmp_path / "bad.onnx")
    (finding,) = lint(open_checkpoint(tmp_path / "bad.onnx"))
    assert (finding.rule, finding.tensor) == (rule, f"m.q.weight{name}")


def test_scales_of_floats_have_no_sign(tmp_path):
    codes, scales = np.ones((4, 8), ml_dtypes.float8_e4m3fn), np.float32([1, -1, 1, 1])
    node = helper.make_node("DequantizeLinear", ["q", "s"], ["w"], axis=0)
    tensors = [helper.make_tensor("q", TensorProto.FLOAT8E4M3FN, codes.shape, codes.tobytes(), raw=True)]
    tensors.append(numpy_helper.from_array(scales, "s"))
    outputs = [helper.make_tensor_value_info("w", TensorProto.FLOAT, codes.shape)]
    graph = helper.make_graph([node], "g", [], outputs, tensors)
    onnx.save(helper.make_model(graph), tmp_path / "x.onnx")
    (finding,) = lint(open_checkpoint(tmp_path / "x.onnx"))
    assert (finding.rule, finding.tensor, finding.severity) == ("scale-negative", "s", "error")


def test_graphs_inside_of_nodes_are_noted(tmp_path):
    inner = helper.make_graph([], "then", [], [], [numpy_helper.from_array(np.ones(3, np.float32), "w")])
    node = helper.make_node("If", ["c"], [], name="choice", then_branch=inner, else_branch=inner)
    (tmp_path / "x.onnx").write_bytes(_model([node], [], []).SerializeToString())
    (finding,) = lint(open_checkpoint(tmp_path / "x.onnx"))
    assert (finding.rule, finding.tensor, finding.severity) == ("not-read", "choice", "note")
    assert finding.evidence == "choice has graphs inside with 2 tensors"


# -- what is written --------------------------------------------------------------------------------


@pytest.mark.parametrize("to", FAMILIES["onnx"])
def test_what_is_written_runs_in_onnx_s_reference(tmp_path, to):
    """Its checker takes the model, whose outputs are the weights; the bytes are those of the layout."""
    found, made = quantized(tmp_path, "onnx", to, (96, 192))
    model = onnx.load(found.path)
    checker.check_model(model, full_check=True)
    theirs, norm = ReferenceEvaluator(model).run(None, {})
    assert np.array_equal(norm, made.entries["m.norm.weight"].read())
    weight = next(item for item in weights_of(found) if item.is_quantized)
    assert (weight.name, weight.scheme.name) == ("m.q.weight", FAMILIES["onnx"][to])
    assert np.array_equal(values_of(weight), theirs)
    (verdict,) = verify_checkpoint(found, made)
    assert verdict.holds
    assert verdict.codes_differ == 0
    assert lint(found) == lint(found, made) == ()
    tensors = {tensor.name: tensor for tensor in model.graph.initializer}
    if to == "nvfp4":
        values = made.entries["m.q.weight"].read()
        blocks = encode(values, "nvfp4")
        assert tensors["m.q.weight_quantized"].raw_data == _packed(blocks.codes, 4)
        assert tensors["m.q.weight_quantized"].data_type == 23
        assert tensors["m.q.weight_scale"].raw_data == blocks.scales.tobytes()
        assert tensors["m.q.weight_scale_2"].raw_data == np.float32(blocks.tensor_scale).tobytes()
    if to in ("mxfp4", "mxfp8_e4m3"):
        assert tensors["m.q.weight_scale"].data_type == 24
        assert np.array_equal(as_blocks(weight).values(), theirs)


def _layers(path, dtype=np.float32, opset=NEWEST):
    """A model of two products: by MatMul, which sums over rows of its weight, and by Gemm, transposed."""
    rng = np.random.default_rng(0)
    kind = {np.float32: TensorProto.FLOAT, np.float16: TensorProto.FLOAT16}[dtype]
    first, second = (rng.standard_normal(shape).astype(dtype) for shape in ((64, 96), (32, 96)))
    nodes = [
        helper.make_node("Constant", [], ["onnx::MatMul_1"], value=numpy_helper.from_array(first)),
        helper.make_node("MatMul", ["x", "onnx::MatMul_1"], ["y"]),
        helper.make_node("Gemm", ["y", "second"], ["z"], transB=1),
    ]
    ends = [helper.make_tensor_value_info(name, kind, (3, size)) for name, size in (("x", 64), ("z", 32))]
    model = _model(nodes, [numpy_helper.from_array(second, "second")], ends[1:], ends[:1], opset)
    onnx.save(model, path)
    return model, {"x": rng.standard_normal((3, 64)).astype(dtype)}


@pytest.mark.parametrize("dtype", [np.float32, np.float16])
@pytest.mark.parametrize("to", ["nvfp4", "mxfp4", "e4m3fn", "int4"])
def test_nodes_of_a_source_are_kept(tmp_path, to, dtype):
    """Blocks lie along the axis that each product sums over; dequantised it is the same model."""
    _, given = _layers(tmp_path / "s.onnx", dtype)
    made = open_checkpoint(tmp_path / "s.onnx")
    quantize_checkpoint(made, tmp_path / "q.onnx", target("onnx", to))
    found = open_checkpoint(tmp_path / "q.onnx")
    weights = {weight.name: weight for weight in weights_of(found)}
    if to != "e4m3fn":
        size = 16 if to == "nvfp4" else 32
        assert {name: weight.sizes for name, weight in weights.items()} == {
            "onnx::MatMul_1": (size, 1), "second": (1, size)
        }  # fmt: skip
    assert all(verdict.codes_differ == 0 for verdict in verify_checkpoint(found, made))
    ours = onnx.load(found.path)
    checker.check_model(ours, full_check=True)
    (expected,) = ReferenceEvaluator(ours).run(None, given)
    dequantize_checkpoint(found, tmp_path / "d.onnx", "F32" if dtype is np.float32 else "F16")
    again = onnx.load(tmp_path / "d.onnx")
    checker.check_model(again, full_check=True)
    assert [node.op_type for node in again.graph.node] == ["MatMul", "Gemm"]
    assert np.array_equal(ReferenceEvaluator(again).run(None, given)[0], expected)


def test_a_quantised_source_is_quantised_further_and_kept_where_it_is_not(tmp_path):
    """Names of results that exporters give, scales that weights share, and a node whose weight changes."""
    rng = np.random.default_rng(0)
    weights = [rng.integers(-128, 128, (32, 32), dtype=np.int8) for _ in range(2)]
    tensors = [
        numpy_helper.from_array(weight, f"{name}_quantized")
        for name, weight in zip("ab", weights, strict=True)
    ]
    tensors.append(numpy_helper.from_array(np.float32(0.5), "scale"))
    nodes = [
        helper.make_node(
            "DequantizeLinear", [f"{name}_quantized", "scale"], [f"{name}_DequantizeLinear_Output"]
        )
        for name in "ab"
    ]
    nodes += [
        helper.make_node("MatMul", ["x", "a_DequantizeLinear_Output"], ["y"]),
        helper.make_node("MatMul", ["y", "b_DequantizeLinear_Output"], ["z"]),
    ]
    ends = [helper.make_tensor_value_info(name, TensorProto.FLOAT, (2, 32)) for name in "xz"]
    onnx.save(_model(nodes, tensors, ends[1:], ends[:1]), tmp_path / "s.onnx")
    made = open_checkpoint(tmp_path / "s.onnx")
    assert [weight.name for weight in weights_of(made)] == ["a", "b"]
    convert_checkpoint(made, tmp_path / "out.onnx", target("onnx", "nvfp4"), include=["a"])
    found = open_checkpoint(tmp_path / "out.onnx")
    checker.check_model(onnx.load(found.path), full_check=True)
    kinds = {weight.name: weight.scheme.name for weight in weights_of(found)}
    assert kinds == {"a": "onnx nvfp4", "b": "onnx int8"}
    x = {"x": np.eye(2, 32, dtype=np.float32)}
    (ours,) = ReferenceEvaluator(onnx.load(found.path)).run(None, x)
    known = {weight.name: values_of(weight) for weight in weights_of(found)}
    assert np.array_equal(ours, x["x"] @ known["a"] @ known["b"])
    assert np.array_equal(known["b"], weights[1] * np.float32(0.5))


def test_operators_that_are_too_old_are_refused(tmp_path):
    _layers(tmp_path / "s.onnx", opset=helper.make_opsetid("", 17))
    made = open_checkpoint(tmp_path / "s.onnx")
    with refusal("of version 17, and DequantizeLinear takes these types and blocks from 23 on"):
        quantize_checkpoint(made, tmp_path / "q.onnx", target("onnx", "nvfp4"))
    assert not (tmp_path / "q.onnx").exists()
    quantize_checkpoint(made, tmp_path / "q.onnx", target("onnx", "int8"))


def test_onnx_runtime_reads_the_same_values(tmp_path):
    runtime = pytest.importorskip("onnxruntime")
    for to in ("int8", "int4", "e4m3fn"):
        (tmp_path / to).mkdir()
        found, _ = quantized(tmp_path / to, "onnx", to, (96, 192))
        model = onnx.load(found.path)
        model.opset_import[0].version, model.ir_version = 21, 10
        session = runtime.InferenceSession(model.SerializeToString(), providers=["CPUExecutionProvider"])
        weight = next(item for item in weights_of(found) if item.is_quantized)
        assert np.array_equal(session.run(None, {})[0], values_of(weight)), to


def test_initializers_without_elements_are_read(tmp_path):
    """Of every type, in the field of numbers and as bytes: Resize has such `scales`."""
    kinds = [*FP8, *FEW, *WHOLE, "FLOAT", "DOUBLE", "INT64", "UINT64", "FLOAT8E8M0", "FLOAT16", "BFLOAT16"]
    tensors = [TensorProto(name=kind, data_type=getattr(TensorProto, kind), dims=[0]) for kind in kinds]
    tensors += [numpy_helper.from_array(np.zeros((3, 0), np.float32), "raw")]
    tensors += [numpy_helper.from_array(np.ones((32, 32), np.float32), "a.weight")]
    onnx.save(_model([], tensors, []), tmp_path / "x.onnx")
    found = open_checkpoint(tmp_path / "x.onnx")
    assert {name: entry.shape for name, entry in found.entries.items()} == {
        **dict.fromkeys(kinds, (0,)), "raw": (3, 0), "a.weight": (32, 32),
    }  # fmt: skip
    assert all(found.entries[kind].read().size == 0 for kind in kinds)
    assert inspect(found).parameters == 1024
    assert lint(found) == ()
    quantize_checkpoint(found, tmp_path / "o.onnx", target("onnx", "int8"))
    dequantize_checkpoint(open_checkpoint(tmp_path / "o.onnx"), tmp_path / "d.onnx")
    assert {item.name: item.dims for item in onnx.load(tmp_path / "d.onnx").graph.initializer}["FLOAT"] == [0]


#: Schemes whose blocks lie along the last axis alone; those of gpt-oss are of weights of three axes.
BLOCKS_ALONG_THE_LAST = [
    (family, to)
    for family, made in FAMILIES.items()
    for to, name in made.items()
    if (find(name).block or (2,))[0] == 1
    if family not in ("onnx", "bitsandbytes", "transformer-engine", "gpt-oss")
]


@pytest.mark.parametrize(("family", "to"), BLOCKS_ALONG_THE_LAST)
def test_blocks_lie_along_the_axis_that_products_sum_over(tmp_path, family, to):
    """Where a layout has them along the last axis alone, weights that MatMul reads are left as they are."""
    rng = np.random.default_rng(2)
    values = {name: rng.standard_normal((128, 128)).astype(np.float32) for name in ("a.weight", "b.weight")}
    tensors = [numpy_helper.from_array(array, name) for name, array in values.items()]
    nodes = [
        helper.make_node("MatMul", ["x", "a.weight"], ["y"]),
        helper.make_node("Gemm", ["y", "b.weight"], ["z"], transB=1),
    ]
    onnx.save(_model(nodes, tensors, []), tmp_path / "x.onnx")
    out = tmp_path / f"o.{'gguf' if family == 'gguf' else 'safetensors'}"
    how = target(family, to)
    reports, kept = quantize_checkpoint(open_checkpoint(tmp_path / "x.onnx"), out, how)
    assert list(reports) == ["b.weight"]
    assert kept == {
        "a.weight": f"products sum over its axis -2, and blocks of {how.scheme.name} lie along the last; "
        "use --scheme onnx"
    }
    for weight in weights_of(open_checkpoint(out)):
        error = np.sum((values_of(weight) - values[weight.name]) ** 2) / np.sum(values[weight.name] ** 2)
        assert error < 0.02
        assert weight.is_quantized == (weight.name == "b.weight")


CAST = {"to": TensorProto.FLOAT}


@pytest.mark.parametrize(
    ("before", "product", "axis"),
    [
        ([], ("MatMul", "x v", {}), 0),
        ([], ("MatMul", "v x", {}), 1),
        ([], ("Gemm", "x v", {"transB": 1}), 1),
        ([], ("Gemm", "v x", {"transA": 1}), 0),
        ([], ("FusedMatMul", "x v", {"transB": 1, "domain": "com.microsoft"}), 1),
        ([], ("FusedMatMul", "x v", {"domain": "com.microsoft"}), 0),
        ([("Identity", {})], ("MatMul", "x v", {}), 0),
        ([("Cast", CAST)], ("MatMul", "x v", {}), 0),
        ([("Transpose", {})], ("MatMul", "x v", {}), 1),
        ([("Transpose", {"perm": [0, 1]})], ("MatMul", "x v", {}), 0),
        ([("Transpose", {"perm": [1, 0]}), ("Cast", CAST)], ("MatMul", "v x", {}), 0),
        ([("Transpose", {}), ("Transpose", {})], ("Gemm", "x v", {}), 0),
    ],
)
def test_what_only_casts_or_transposes_is_passed_on_the_way_to_a_product(tmp_path, before, product, axis):
    nodes, given = [], "w"
    for place, (kind, attributes) in enumerate(before):
        nodes.append(helper.make_node(kind, [given], [f"v{place}"], **attributes))
        given = f"v{place}"
    kind, operands, attributes = product
    inputs = [given if name == "v" else name for name in operands.split()]
    nodes.append(helper.make_node(kind, inputs, ["y"], **attributes))
    tensor = numpy_helper.from_array(np.ones((64, 64), np.float16), "w")
    onnx.save(_model(nodes, [tensor], []), tmp_path / "x.onnx")
    quantize_checkpoint(open_checkpoint(tmp_path / "x.onnx"), tmp_path / "o.onnx", target("onnx", "mxfp4"))
    (weight,) = weights_of(open_checkpoint(tmp_path / "o.onnx"))
    assert weight.sizes == ((32, 1) if axis == 0 else (1, 32))


@pytest.mark.parametrize("to", ["nvfp4", "mxfp4", "mxfp8_e4m3", "int4"])
def test_a_weight_of_one_row_of_blocks_is_not_cut(tmp_path, monkeypatch, to):
    """Blocks lie along columns for MatMul: in the smallest ranges, results are those of `encode`."""
    values = np.random.default_rng(2).standard_normal((32, 64)).astype(np.float32)
    values[:16] *= 1000
    node = helper.make_node("MatMul", ["x", "a.weight"], ["y"])
    onnx.save(_model([node], [numpy_helper.from_array(values, "a.weight")], []), tmp_path / "x.onnx")
    monkeypatch.setattr(quantizing, "ranges", functools.partial(ranges, part=1))
    how = target("onnx", to)
    quantize_checkpoint(open_checkpoint(tmp_path / "x.onnx"), tmp_path / "o.onnx", how)
    (weight,) = weights_of(open_checkpoint(tmp_path / "o.onnx"))
    expected = lp.encode(values, how.blocks, axis=0)
    assert np.array_equal(codes_of(weight), expected.codes)
    assert np.array_equal(stored_scales(weight).view(expected.scales.dtype), expected.scales)


@pytest.mark.parametrize("shape", [(64, 48), (48, 64)])
def test_blocks_without_an_axis_need_whole_rows(tmp_path, shape):
    """Those of bitsandbytes are runs of the flat weight, whichever axis products sum over."""
    values = np.random.default_rng(3).standard_normal(shape).astype(np.float32)
    node = helper.make_node("MatMul", ["x", "a.weight"], ["y"])
    model = _model([node], [numpy_helper.from_array(values, "a.weight")], [])
    onnx.save(model, tmp_path / "x.onnx")
    found, how = open_checkpoint(tmp_path / "x.onnx"), target("bitsandbytes", "nf4")
    if shape[1] % 64:
        with refusal(r"a\.weight: 48 elements are no multiple of 64"):
            quantize_checkpoint(found, tmp_path / "o.safetensors", how)
        return
    reports, _ = quantize_checkpoint(found, tmp_path / "o.safetensors", how)
    assert reports["a.weight"]["sqnr"] > 19


def test_types_that_safetensors_lacks_are_named(tmp_path):
    codes = np.zeros((2, 3), ml_dtypes.int4)
    tensors = [
        numpy_helper.from_array(codes, "x"),
        numpy_helper.from_array(np.ones((32, 32), np.float32), "a.weight"),
    ]
    onnx.save(_model([], tensors, []), tmp_path / "x.onnx")
    with refusal("'x' is I4 of ONNX, which safetensors files do not hold"):
        quantize_checkpoint(
            open_checkpoint(tmp_path / "x.onnx"), tmp_path / "o.safetensors", target("quark", "mxfp4")
        )
    with refusal(r"onnx mxfp4 is written to \.onnx files, not to 'o\.safetensors'"):
        quantize_checkpoint(
            source(tmp_path / "s.safetensors"), tmp_path / "o.safetensors", target("onnx", "mxfp4")
        )


def test_weights_of_nodes_stay_in_onnx(tmp_path):
    """Elsewhere their codes and scales were copied, and nothing said any more what they mean."""
    layers = {"m.b.weight": np.ones((2, 32, 64), np.float32)}
    made, model = source(tmp_path / "s.safetensors", (64, 64), **layers), tmp_path / "s.onnx"
    quantize_checkpoint(made, model, target("onnx", "e4m3fn"))
    found, out = open_checkpoint(model), tmp_path / "out.safetensors"
    why = "weight 'm.b.weight' would stay as it is, and nodes of its ONNX model say what its codes are, which"
    with refusal(f"{why} 'out.safetensors' does not hold; dequantise the model"):
        convert_checkpoint(found, out, target("deepseek", "e4m3fn"))  # whose tiles need two axes
    with refusal(why):
        dequantize_checkpoint(found, out, exclude=["m.b.*"])
    assert not out.exists()
    assert dequantize_checkpoint(found, out) == ("m.b.weight", "m.q.weight")
    assert dequantize_checkpoint(found, tmp_path / "out.onnx", exclude=["m.b.*"]) == ("m.q.weight",)


def test_weights_are_chosen_by_what_nodes_do_with_them(tmp_path):
    """Convolutions have blocks along inputs; what nothing takes is judged by its shape, others stay."""
    rng = np.random.default_rng(0)
    shapes = {
        "conv": (8, 32, 3),
        "matrix": (16, 32),
        "gathered": (8, 32),
        "added": (2, 32),
        "alone": (8, 32),
    }
    arrays = {name: rng.standard_normal(shape).astype(np.float32) for name, shape in shapes.items()}
    tensors = [numpy_helper.from_array(array, name) for name, array in arrays.items()]
    tensors += [numpy_helper.from_array(np.array([0, 3]), "rows")]
    nodes = [
        helper.make_node("Conv", ["x", "conv"], ["y"]),
        helper.make_node("Transpose", ["matrix"], ["turned"], perm=[1, 0]),
        helper.make_node("MatMul", ["z", "turned"], ["product"]),
        helper.make_node("Gather", ["gathered", "rows"], ["some"]),
        helper.make_node("Add", ["some", "added"], ["sum"]),
    ]
    graph = {"x": [1, 32, 9], "z": [2, 32]}
    inputs = [helper.make_tensor_value_info(name, TensorProto.FLOAT, of) for name, of in graph.items()]
    results = ("y", [1, 8, 7]), ("product", [2, 16])
    outputs = [helper.make_tensor_value_info(name, TensorProto.FLOAT, of) for name, of in results]
    model = _model(nodes[:3], tensors, outputs, inputs)
    model.graph.node.extend(nodes[3:])
    onnx.save(model, tmp_path / "m.onnx")
    made = open_checkpoint(tmp_path / "m.onnx")
    reports, kept = quantize_checkpoint(made, tmp_path / "q.onnx", target("onnx", "int4"))
    assert reports.keys() == {"conv", "matrix", "alone"}
    assert kept == {
        "gathered": "taken by Gather, and by no product or convolution",
        "added": "taken by Add, and by no product or convolution",
        "rows": "I64 is no format of floats",
    }
    found = {weight.name: weight for weight in weights_of(open_checkpoint(tmp_path / "q.onnx"))}
    assert (found["conv"].sizes, found["matrix"].sizes) == ((1, 32, 1), (1, 32))
    assert lint(open_checkpoint(tmp_path / "q.onnx")) == ()
    given = {name: rng.standard_normal(shape).astype(np.float32) for name, shape in graph.items()}
    dequantize_checkpoint(open_checkpoint(tmp_path / "q.onnx"), tmp_path / "d.onnx")
    runs = [ReferenceEvaluator(str(tmp_path / f"{name}.onnx")).run(None, given) for name in "qd"]
    assert all(map(np.array_equal, *runs))
