"""ONNX models: what nodes say of initializers, and no names; what becomes of the nodes of a source."""

import json

import ml_dtypes
import numpy as np
import pytest
from safetensors.numpy import save_file

import lowprec
from lowprec.checkpoints.containers import onnx_reading
from lowprec.checkpoints.converting import convert_checkpoint, dequantize_checkpoint
from lowprec.checkpoints.decoding import as_blocks, values_of
from lowprec.checkpoints.folder import open_checkpoint
from lowprec.checkpoints.linting import lint
from lowprec.checkpoints.quantizing import quantize_checkpoint, target
from lowprec.checkpoints.weights import weights_of
from tests.checkpoints.files import refusal
from tests.command import lowprec as command
from tests.programs import need_package

need_package("onnx")
import onnx  # noqa: E402
from onnx import TensorProto, checker, helper, numpy_helper  # noqa: E402
from onnx.reference import ReferenceEvaluator  # noqa: E402

pytestmark = pytest.mark.apart

RNG = np.random.default_rng(0)
CODES = RNG.integers(-128, 128, (4, 6), dtype=np.int8)
WEIGHT = RNG.standard_normal((32, 32)).astype(np.float32)
BYTES = RNG.integers(-100, 100, (32, 32), dtype=np.int8)
MXFP4 = target("onnx", "mxfp4")


def _node(kind, inputs, outputs, **attributes):
    return helper.make_node(kind, inputs.split(), outputs.split(), **attributes)


def _ends(kind=TensorProto.FLOAT, **shapes):
    return [helper.make_tensor_value_info(name, kind, shape) for name, shape in shapes.items()]


def _saved(path, nodes, arrays, outputs=(), inputs=(), version=25, **others):
    """Write a model and return it; arrays are initializers, or a TensorProto each."""
    tensors = [
        array if isinstance(array, TensorProto) else numpy_helper.from_array(np.asarray(array), name)
        for name, array in arrays.items()
    ]
    graph = helper.make_graph(nodes, "g", list(inputs), list(outputs), tensors)
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", version)], **others)
    path.write_bytes(model.SerializeToString())
    return model


def _run(path, **given):
    """Return the outputs of a model, which ONNX's checker takes, by ONNX's reference."""
    checker.check_model(onnx.load(path), full_check=True)
    return ReferenceEvaluator(onnx.load(path)).run(None, given)


def _known(path):
    return {weight.name: weight for weight in weights_of(open_checkpoint(path))}


# -- what comes before a scale ------------------------------------------------------------------------


@pytest.mark.parametrize(
    "scale", [np.float16, ml_dtypes.bfloat16, np.float32, ml_dtypes.float8_e8m0fnu, ml_dtypes.float8_e4m3fn]
)
@pytest.mark.parametrize("made", [TensorProto.FLOAT, TensorProto.FLOAT16, TensorProto.BFLOAT16, None])
def test_a_cast_of_scales_is_passed_where_it_is_exact(tmp_path, scale, made):
    """To FLOAT, which is the type of the result then; after others nothing is decoded, which is noted."""
    to = {} if made is None else {"to": made}
    nodes = [_node("Cast", "s", "t", **to), _node("DequantizeLinear", "q t", "w")]
    shape = {"w": (4, 6)}
    arrays = {"q": CODES, "s": np.array(0.1).astype(scale)}
    model = _saved(tmp_path / "x.onnx", nodes, arrays, _ends(made or TensorProto.FLOAT, **shape))
    found = _known(tmp_path / "x.onnx")
    if made == TensorProto.FLOAT:
        (expected,) = ReferenceEvaluator(model).run(None, {})
        assert expected.dtype == np.float32
        assert list(found) == ["w"]
        assert found["w"].rounded == ""
        assert np.array_equal(values_of(found["w"]), expected)
    else:
        assert list(found) == ["q", "s"]
        (finding,) = lint(open_checkpoint(tmp_path / "x.onnx"))
        assert (finding.rule, finding.tensor, finding.severity) == ("not-read", "q", "note")
        assert finding.evidence == "q becomes w by a scale of Cast, which is not followed"


@pytest.mark.parametrize("said", [None, TensorProto.FLOAT, TensorProto.FLOAT16, TensorProto.BFLOAT16])
def test_the_type_of_a_cast_scale_s_result_is_the_one_that_is_said(tmp_path, said):
    of = {} if said is None else {"output_dtype": said}
    nodes = [_node("Cast", "s", "t", to=TensorProto.FLOAT), _node("DequantizeLinear", "q t", "w", **of)]
    arrays = {"q": CODES, "s": np.float16(0.1)}
    model = _saved(tmp_path / "x.onnx", nodes, arrays, _ends(said or TensorProto.FLOAT, w=(4, 6)))
    expected = ReferenceEvaluator(model).run(None, {})[0].astype(np.float32)
    assert np.array_equal(values_of(_known(tmp_path / "x.onnx")["w"]), expected)


@pytest.mark.parametrize("zeros", [{}, {"z": np.int8(3)}])
def test_a_single_number_without_an_axis_is_decoded(tmp_path, zeros):
    """As tools that quantise constants too write them."""
    nodes = [_node("DequantizeLinear", f"q s {' '.join(zeros)}", "w")]
    model = _saved(tmp_path / "x.onnx", nodes, {"q": np.int8(5), "s": np.float32(0.3)} | zeros, _ends(w=()))
    (expected,) = ReferenceEvaluator(model).run(None, {})
    found = values_of(_known(tmp_path / "x.onnx")["w"])
    assert (found.shape, float(found)) == ((), float(expected))
    dequantize_checkpoint(open_checkpoint(tmp_path / "x.onnx"), tmp_path / "d.onnx")
    assert _run(tmp_path / "d.onnx") == [expected]


def test_one_number_has_any_shape(tmp_path):
    """Read biases of ONNX Runtime: a scale of shape (1,), and a zero point of shape ()."""
    arrays = {"q": np.int32([5, -70000, 3]), "s": np.float32([0.3]), "z": np.int32(2)}
    model = _saved(tmp_path / "x.onnx", [_node("DequantizeLinear", "q s z", "w")], arrays, _ends(w=(3,)))
    (expected,) = ReferenceEvaluator(model).run(None, {})
    assert np.array_equal(values_of(_known(tmp_path / "x.onnx")["w"]), expected)
    assert lint(open_checkpoint(tmp_path / "x.onnx")) == ()


def test_scales_of_integers_may_be_negative(tmp_path):
    """Read symmetric INT4 of ONNX Runtime: a scale has the sign of the largest value, which becomes -8."""
    arrays = {"q": CODES, "s": np.float32([-0.5, 0.25, -1, 2])}
    model = _saved(
        tmp_path / "x.onnx", [_node("DequantizeLinear", "q s", "w", axis=0)], arrays, _ends(w=(4, 6))
    )
    (expected,) = ReferenceEvaluator(model).run(None, {})
    assert np.array_equal(values_of(_known(tmp_path / "x.onnx")["w"]), expected)
    assert lint(open_checkpoint(tmp_path / "x.onnx")) == ()


@pytest.mark.parametrize("used", [False, True])
def test_scales_that_an_operator_takes_are_no_orphans(tmp_path, used):
    """Pass those that MatMulNBits of ONNX Runtime takes."""
    nodes = [_node("MatMulNBits", "x w_Q4 w_scales", "y", domain="com.microsoft", K=64, N=2, bits=4)]
    arrays = {"w_Q4": np.zeros((2, 2, 16), np.uint8), "w_scales": np.ones((2, 2), np.float32)}
    _saved(tmp_path / "x.onnx", nodes if used else [], arrays, _ends(y=(1, 2)), _ends(x=(1, 64)))
    found = [(finding.rule, finding.tensor) for finding in lint(open_checkpoint(tmp_path / "x.onnx"))]
    assert found == ([] if used else [("orphan-scale", "w_scales")])


SMALL = RNG.uniform(1, 100, (4, 2)).astype(ml_dtypes.float8_e4m3fn)
OVER = np.float32(0.0123)


@pytest.mark.parametrize(
    ("scales", "over", "of", "zeros", "is_read"),
    [
        (SMALL, OVER, {}, None, True),
        (SMALL, OVER.reshape(1), {}, None, True),
        (SMALL, OVER, {"output_dtype": TensorProto.FLOAT}, None, True),
        (SMALL, OVER, {"output_dtype": TensorProto.FLOAT16}, None, False),
        (SMALL, np.float16(OVER), {}, None, False),
        (SMALL, np.array([[OVER]]), {"block_size": 4, "axis": 0}, None, False),
        (SMALL, np.full(2, OVER), {}, None, False),
        (SMALL, OVER, {}, np.zeros((), SMALL.dtype), False),
        (np.int8([[1, 2], [3, 4], [5, 6], [7, 8]]), OVER, {}, None, False),
        (np.uint8([[1, 2], [3, 4], [5, 6], [7, 8]]), OVER, {}, None, False),
    ],
)
def test_scales_with_a_scale_are_read_as_float32_or_not_at_all(tmp_path, scales, over, of, zeros, is_read):
    """The product of both is one float32 number; what would be another is left alone, and noted."""
    arrays = {"q": CODES, "s": scales, "o": over} | ({} if zeros is None else {"z": zeros})
    nodes = [
        _node("DequantizeLinear", "s o" + (" z" if zeros is not None else ""), "t", **of),
        _node("DequantizeLinear", "q t", "w", axis=1, block_size=3),
    ]
    kind = TensorProto.FLOAT16 if over.dtype == np.float16 else of.get("output_dtype", TensorProto.FLOAT)
    model = _saved(tmp_path / "x.onnx", nodes, arrays, _ends(kind, w=(4, 6)))
    found = _known(tmp_path / "x.onnx")
    if is_read:
        (expected,) = ReferenceEvaluator(model).run(None, {})
        assert list(found) == ["w"]
        assert np.array_equal(values_of(found["w"]), expected)
    else:
        assert list(found) == list(arrays)
        (finding,) = lint(open_checkpoint(tmp_path / "x.onnx"))
        assert finding.evidence == "q becomes w by a scale of DequantizeLinear, which is not followed"


def test_codes_whose_scale_is_not_known_are_left_alone(tmp_path):
    """FP8 that looks like a weight: neither quantised, nor taken for numbers, nor changed in its type."""
    codes = WEIGHT.astype(ml_dtypes.float8_e4m3fn)
    nodes = [_node("Cast", "s", "t", to=TensorProto.FLOAT16), _node("DequantizeLinear", "x.weight t", "w"),
             _node("Cast", "w", "v", to=TensorProto.FLOAT), _node("MatMul", "a v", "b"),
             _node("MatMul", "b c.weight", "y")]  # fmt: skip
    arrays = {"x.weight": codes, "s": np.float32(0.1), "c.weight": WEIGHT}
    _saved(tmp_path / "x.onnx", nodes, arrays, _ends(y=(2, 32)), _ends(a=(2, 32)))
    made, a = open_checkpoint(tmp_path / "x.onnx"), WEIGHT[:2]
    _, kept = quantize_checkpoint(made, tmp_path / "q.onnx", MXFP4)
    assert kept["x.weight"] == "x.weight becomes w by a scale of Cast, which is not followed"
    (out,) = _run(tmp_path / "q.onnx", a=a)
    dequantize_checkpoint(open_checkpoint(tmp_path / "q.onnx"), tmp_path / "d.onnx")
    assert np.array_equal(_run(tmp_path / "d.onnx", a=a)[0], out)
    with refusal(r"weight 'x\.weight' cannot be decoded: x\.weight becomes w by"):
        dequantize_checkpoint(made, tmp_path / "d.safetensors")


@pytest.mark.parametrize(
    ("scale", "said", "message"),
    [
        (np.uint8(3), {}, "scales s are U8, and the result of DequantizeLinear would be U8"),
        (np.int64(3), {}, "scales s are I64, and the result"),
        (np.float64(3), {}, "scales s are F64, and the result"),
        (np.float64(3), {"output_dtype": TensorProto.FLOAT}, "scales s are F64, and the result"),
        (np.array(2, ml_dtypes.float8_e8m0fnu), {}, "the result of DequantizeLinear would be F8_E8M0"),
        (np.float32(3), {"output_dtype": TensorProto.DOUBLE}, "the result of DequantizeLinear would be F64"),
        (np.float32(3), {"output_dtype": 99}, "the result of DequantizeLinear would be 99"),
    ],
)
def test_types_that_dequantize_linear_has_not_are_a_finding(tmp_path, scale, said, message):
    _saved(tmp_path / "x.onnx", [_node("DequantizeLinear", "q s", "w", **said)], {"q": CODES, "s": scale})
    (finding,) = lint(open_checkpoint(tmp_path / "x.onnx"))
    assert (finding.rule, finding.tensor, finding.severity) == ("scale-type", "w", "error")
    assert message in finding.evidence


@pytest.mark.parametrize("codes", [np.float64, np.float32, np.int64, np.bool_])
def test_codes_of_types_that_dequantize_linear_has_not_are_a_finding(tmp_path, codes):
    arrays = {"q": np.ones((4, 6), codes), "s": np.float32(1)}
    _saved(tmp_path / "x.onnx", [_node("DequantizeLinear", "q s", "w")], arrays)
    (finding,) = lint(open_checkpoint(tmp_path / "x.onnx"))
    assert (finding.rule, finding.tensor) == ("shape", "w")
    assert finding.evidence.startswith("q is ")


def test_operators_of_others_are_not_onnx_s(tmp_path):
    arrays = {"q": CODES, "s": np.float32(1)}
    for domain, names in (("mine", ["q", "s"]), ("com.microsoft", ["w"])):
        _saved(tmp_path / "x.onnx", [_node("DequantizeLinear", "q s", "w", domain=domain)], arrays)
        assert list(_known(tmp_path / "x.onnx")) == names


def test_two_results_that_would_have_one_name_are_two_weights(tmp_path):
    nodes = [_node("DequantizeLinear", "q s", "w_dequantized"),
             _node("DequantizeLinear", "r s", "w_DequantizeLinear_Output")]  # fmt: skip
    arrays = {"q": CODES, "r": CODES + np.int8(1), "s": np.float32(1)}
    _saved(tmp_path / "x.onnx", nodes, arrays)
    found = _known(tmp_path / "x.onnx")
    assert {name: weight.codes.name for name, weight in found.items()} == {
        "w": "q", "w_DequantizeLinear_Output": "r"
    }  # fmt: skip


# -- names ------------------------------------------------------------------------------------------


def test_names_alone_say_nothing(tmp_path):
    """Neither of ONNX Runtime's parts in a safetensors file, nor of other software's in a model."""
    ours = {"b_quantized": BYTES, "b_scale": np.float32([0.5]), "a.weight": WEIGHT}
    save_file(ours, tmp_path / "x.safetensors")
    assert not any(weight.is_quantized for weight in _known(tmp_path / "x.safetensors").values())
    theirs = {"a.weight": WEIGHT.astype(ml_dtypes.float8_e4m3fn), "a.weight_scale": np.float32(0.5)}
    _saved(tmp_path / "x.onnx", [], theirs)
    assert not any(weight.is_quantized for weight in _known(tmp_path / "x.onnx").values())


@pytest.mark.parametrize("channel", [False, True])
def test_dynamic_quantisation_is_left_as_it_is(tmp_path, channel):
    """ONNX Runtime's names are ours, and MatMulInteger subtracts zero points: nothing is decoded or added."""
    shape = (32,) if channel else ()
    arrays = {"b_quantized": BYTES, "b_scale": np.full(shape, 0.1, np.float32),
              "b_zero_point": np.full(shape, 3, np.int8), "a": WEIGHT}  # fmt: skip
    nodes = [_node("DynamicQuantizeLinear", "x", "xq xs xz"),
             _node("MatMulInteger", "xq b_quantized xz b_zero_point", "p"),
             _node("Cast", "p", "f", to=TensorProto.FLOAT), _node("Mul", "xs b_scale", "m"),
             _node("Mul", "f m", "y"), _node("MatMul", "y a", "z")]  # fmt: skip
    _saved(tmp_path / "x.onnx", nodes, arrays, _ends(z=(2, 32)), _ends(x=(2, 32)))
    made = open_checkpoint(tmp_path / "x.onnx")
    assert not any(weight.is_quantized for weight in weights_of(made))
    quantize_checkpoint(made, tmp_path / "q.onnx", MXFP4)
    model = onnx.load(tmp_path / "q.onnx")
    assert [node.op_type for node in model.graph.node] == ["DequantizeLinear", *(n.op_type for n in nodes)]
    (out,) = _run(tmp_path / "q.onnx", x=WEIGHT[:2])
    dequantize_checkpoint(open_checkpoint(tmp_path / "q.onnx"), tmp_path / "d.onnx")
    assert np.array_equal(_run(tmp_path / "d.onnx", x=WEIGHT[:2])[0], out)


# -- what becomes of a source -----------------------------------------------------------------------


def test_parts_that_other_nodes_read_stay(tmp_path):
    """A zero point, and a scale behind a Cast, that weights share with each other and with activations."""
    codes = {name: RNG.integers(0, 256, (32, 32), dtype=np.uint8) for name in "ab"}
    arrays = {f"{name}_codes": array for name, array in codes.items()}
    arrays |= {"few": np.float16(0.01), "zero": np.uint8(128)}
    nodes = [_node("Cast", "few", "scale", to=TensorProto.FLOAT),
             _node("QuantizeLinear", "x scale zero", "xq"), _node("DequantizeLinear", "xq scale zero", "xd"),
             _node("DequantizeLinear", "a_codes scale zero", "a"), _node("MatMul", "xd a", "y"),
             _node("DequantizeLinear", "b_codes scale zero", "b"), _node("MatMul", "y b", "z")]  # fmt: skip
    _saved(tmp_path / "x.onnx", nodes, arrays, _ends(z=(2, 32)), _ends(x=(2, 32)))
    made = open_checkpoint(tmp_path / "x.onnx")
    (before,) = _run(tmp_path / "x.onnx", x=WEIGHT[:2])
    dequantize_checkpoint(made, tmp_path / "d.onnx")
    assert np.array_equal(_run(tmp_path / "d.onnx", x=WEIGHT[:2])[0], before)
    convert_checkpoint(made, tmp_path / "q.onnx", target("onnx", "int8"), include=["a"])
    _run(tmp_path / "q.onnx", x=WEIGHT[:2])
    found = _known(tmp_path / "q.onnx")
    assert found["a"].zeros is None
    assert np.array_equal(values_of(found["b"]), values_of(_known(tmp_path / "x.onnx")["b"]))


def test_codes_of_the_same_names_are_new_codes(tmp_path):
    """Converted into int8 again, without the zero points that the names had: the node is another."""
    arrays = {"a_quantized": BYTES, "a_scale": np.float32(0.5), "zero": np.int8(100), "b_quantized": BYTES}
    nodes = [_node("DequantizeLinear", "a_quantized a_scale zero", "a"),
             _node("DequantizeLinear", "b_quantized a_scale zero", "b"),
             _node("MatMul", "x a", "y"), _node("MatMul", "y b", "z")]  # fmt: skip
    _saved(tmp_path / "x.onnx", nodes, arrays, _ends(z=(2, 32)), _ends(x=(2, 32)))
    made = open_checkpoint(tmp_path / "x.onnx")
    with refusal("two tensors would be called 'a_scale'"):
        convert_checkpoint(made, tmp_path / "q.onnx", target("onnx", "int8"), include=["a"])
    convert_checkpoint(made, tmp_path / "q.onnx", target("onnx", "int8"))
    _run(tmp_path / "q.onnx", x=WEIGHT[:2])
    before = _known(tmp_path / "x.onnx")
    for name, weight in _known(tmp_path / "q.onnx").items():
        assert weight.zeros is None
        error = np.abs(values_of(weight) - values_of(before[name])).max()
        assert error <= np.abs(values_of(before[name])).max() / 254


def test_an_output_keeps_its_name(tmp_path):
    """Of a result whose weight has a shorter name: dequantised or quantised again."""
    nodes = [_node("DequantizeLinear", "q s", "w_dequantized"), _node("MatMul", "x w_dequantized", "y")]
    ends = _ends(w_dequantized=(32, 32), y=(2, 32))
    _saved(tmp_path / "x.onnx", nodes, {"q": BYTES, "s": np.float32(0.5)}, ends, _ends(x=(2, 32)))
    made = open_checkpoint(tmp_path / "x.onnx")
    before = _run(tmp_path / "x.onnx", x=WEIGHT[:2])
    dequantize_checkpoint(made, tmp_path / "d.onnx")
    assert list(open_checkpoint(tmp_path / "d.onnx").entries) == ["w"]
    assert open_checkpoint(tmp_path / "d.onnx").graph.summed == {"w": -2}
    for theirs, ours in zip(before, _run(tmp_path / "d.onnx", x=WEIGHT[:2]), strict=True):
        assert np.array_equal(theirs, ours)
    convert_checkpoint(made, tmp_path / "q.onnx", MXFP4)
    assert list(_known(tmp_path / "q.onnx")) == ["w"]
    out = _run(tmp_path / "q.onnx", x=WEIGHT[:2])[0]
    assert np.array_equal(out, values_of(_known(tmp_path / "q.onnx")["w"]))


def test_graphs_inside_of_nodes_read_what_they_did(tmp_path):
    """A weight of another name than its result, and a scale that is a part of it."""
    branch = helper.make_graph([_node("Mul", "w_dequantized s", "o")], "b", [], _ends(o=(32, 32)))
    nodes = [_node("DequantizeLinear", "q s", "w_dequantized"),
             _node("If", "k", "y", then_branch=branch, else_branch=branch)]  # fmt: skip
    ends = _ends(y=(32, 32)), _ends(TensorProto.BOOL, k=())
    _saved(tmp_path / "x.onnx", nodes, {"q": BYTES, "s": np.float32(0.5)}, *ends)
    made = open_checkpoint(tmp_path / "x.onnx")
    (before,) = _run(tmp_path / "x.onnx", k=np.True_)
    dequantize_checkpoint(made, tmp_path / "d.onnx")
    assert np.array_equal(_run(tmp_path / "d.onnx", k=np.True_)[0], before)
    convert_checkpoint(made, tmp_path / "q.onnx", MXFP4)
    (out,) = _run(tmp_path / "q.onnx", k=np.True_)
    assert np.array_equal(out, values_of(_known(tmp_path / "q.onnx")["w"]) * np.float32(0.5))


def test_a_scale_of_scales_is_no_part_of_mxfp4(tmp_path):
    """Count the scale where the weight is compared or becomes NVFP4; no BlockArray of MXFP4 has it."""
    blocks = lowprec.encode(WEIGHT, "mxfp4")
    parts = {"q": (TensorProto.FLOAT4E2M1, blocks.codes.shape, blocks.packed()),
             "s": (TensorProto.FLOAT8E8M0, blocks.scales.shape, blocks.scales)}  # fmt: skip
    arrays = {
        name: TensorProto(name=name, data_type=kind, dims=shape, raw_data=data.tobytes())
        for name, (kind, shape, data) in parts.items()
    }
    nodes = [_node("DequantizeLinear", "s s2", "sf"),
             _node("DequantizeLinear", "q sf", "w", axis=1, block_size=32)]  # fmt: skip
    _saved(tmp_path / "x.onnx", nodes, {**arrays, "s2": np.float32(2.0**-20)}, _ends(w=(32, 32)))
    weight = _known(tmp_path / "x.onnx")["w"]
    values = blocks.values() * np.float32(2.0**-20)
    assert np.array_equal(values_of(weight), values)
    with refusal("is in no block format"):
        as_blocks(weight)
    assert not lowprec.compare(WEIGHT, f"{tmp_path}/x.onnx:w", "mxfp4", why=False).agrees
    made = tmp_path / "n.safetensors"
    convert_checkpoint(open_checkpoint(tmp_path / "x.onnx"), made, target("modelopt", "nvfp4"))
    (found,) = _known(made).values()
    assert np.abs(values_of(found) - values).max() <= np.abs(values).max() / 6


def test_data_outside_of_a_model_are_replaced_by_no_report(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    _saved(tmp_path / "m.onnx", [], {"w": WEIGHT}, [])
    onnx.save(onnx.load("m.onnx"), "m.onnx", save_as_external_data=True, location="m.data", size_threshold=0)
    np.save("y.npy", lowprec.encode(WEIGHT, "e4m3fn"))
    before = (tmp_path / "m.data").read_bytes()
    result = command("compare", "m.onnx:w", "y.npy", "--to", "e4m3fn", "--html", "m.data")
    assert (result.exit_code, "would be replaced; name another output" in result.output) == (2, True)
    assert (tmp_path / "m.data").read_bytes() == before


@pytest.mark.parametrize("kind", ["initializer", "input", "result"])
def test_a_name_that_a_graph_inside_of_a_node_gives_is_no_other_s(tmp_path, kind):
    """The nodes inside read the codes of the weight instead of what they did, or the model was invalid."""
    name = "a.weight_quantized"
    held = [numpy_helper.from_array(WEIGHT, name)] if kind == "initializer" else []
    body = helper.make_graph(
        [
            *([_node("Identity", "v", name)] if kind == "result" else []),
            _node("Neg", name, "o"),
            _node("Identity", "c", "d"),
        ],
        "b",
        [
            *_ends(TensorProto.INT64, i=()),
            *_ends(TensorProto.BOOL, c=()),
            *_ends(**{name if kind == "input" else "v": (32, 32)}),
        ],
        [*_ends(TensorProto.BOOL, d=()), *_ends(o=(32, 32))],
        held,
    )
    nodes = [_node("MatMul", "x a.weight", "y"), _node("Loop", "n k y", "z", body=body)]
    arrays = {"a.weight": WEIGHT, "n": np.int64(2), "k": np.True_}
    _saved(tmp_path / "x.onnx", nodes, arrays, _ends(z=(32, 32)), _ends(x=(32, 32)))
    with refusal(f"two tensors of the model would be called '{name}'"):
        quantize_checkpoint(open_checkpoint(tmp_path / "x.onnx"), tmp_path / "q.onnx", MXFP4)


def test_operators_of_other_domains_are_kept(tmp_path):
    """The onnx package knows none of their versions, and their Constant is no tensor."""
    body = [_node("MatMul", "a b", "c")]
    function = helper.make_function("mine", "Layer", ["a", "b"], ["c"], body, [helper.make_opsetid("", 25)])
    constant = helper.make_function(
        "mine", "Constant", [], ["c"], [_node("Constant", "", "c", value_float=3.0)],
        [helper.make_opsetid("", 25)], ["value"],
    )  # fmt: skip
    nodes = [
        _node("Layer", "x a.weight", "t", domain="mine"),
        _node("Constant", "", "b.weight", domain="mine", value=numpy_helper.from_array(WEIGHT)),
        _node("Mul", "t b.weight", "y"),
    ]
    model = _saved(
        tmp_path / "x.onnx", nodes, {"a.weight": WEIGHT}, _ends(y=(32, 32)), _ends(x=(32, 32)),
        functions=[function, constant],
    )  # fmt: skip
    model.opset_import.append(helper.make_opsetid("mine", 1))
    (tmp_path / "x.onnx").write_bytes(model.SerializeToString())
    quantize_checkpoint(open_checkpoint(tmp_path / "x.onnx"), tmp_path / "q.onnx", MXFP4)
    found = _known(tmp_path / "q.onnx")
    assert list(found) == ["a.weight"]
    (out,) = _run(tmp_path / "q.onnx", x=np.eye(32, dtype=np.float32))
    assert np.array_equal(out, values_of(found["a.weight"]) * 3)


@pytest.mark.parametrize("fmt", ["mxfp8_e4m3", "bfp2"])
def test_codes_that_nodes_take_as_they_are_do_not_become_floats(tmp_path, fmt):
    """Blocks of lowprec.save that stayed in a model: its outputs are their codes, and would be floats."""
    kept, beside = lowprec.encode(WEIGHT, fmt), WEIGHT.astype(ml_dtypes.float8_e5m2)
    lowprec.save(tmp_path / "s.safetensors", {"a": WEIGHT, "kept": kept, "beside": beside})
    made = quantize_checkpoint(
        open_checkpoint(tmp_path / "s.safetensors"), tmp_path / "q.onnx", MXFP4, include=["a"]
    )
    assert [*made[0]] == ["a"]
    found = open_checkpoint(tmp_path / "q.onnx")
    for name in ("kept", "beside"):
        tag = found.entries[name].tag
        message = f"weight '{name}' of .* is {tag}, and DequantizeLinear makes F32, F16 or BF16"
        with refusal(message):
            quantize_checkpoint(found, tmp_path / "x.onnx", MXFP4, include=[name])
    message = f"weight 'kept' would be F32, and other nodes of .* expect {found.entries['kept'].tag}"
    with refusal(f"{message}; leave it out with --exclude, or write"):
        dequantize_checkpoint(found, tmp_path / "x.onnx")
    assert not (tmp_path / "x.onnx").exists()
    assert dequantize_checkpoint(found, tmp_path / "v.onnx", exclude=["kept"]) == ("a",)
    assert np.array_equal(values_of(_known(tmp_path / "v.onnx")["kept"]), kept.values())
    checker.check_model(onnx.load(tmp_path / "v.onnx"), full_check=True)
    dequantize_checkpoint(found, tmp_path / "v.safetensors")
    assert np.array_equal(open_checkpoint(tmp_path / "v.safetensors").entries["kept"].read(), kept.values())


def test_a_model_does_not_say_how_its_source_was_made(tmp_path):
    save_file({"a.weight": WEIGHT}, tmp_path / "s.safetensors")
    quantize_checkpoint(open_checkpoint(tmp_path / "s.safetensors"), tmp_path / "q.onnx", MXFP4)
    dequantize_checkpoint(open_checkpoint(tmp_path / "q.onnx"), tmp_path / "v.onnx")
    assert "lowprec" in open_checkpoint(tmp_path / "q.onnx").metadata
    assert "lowprec" not in open_checkpoint(tmp_path / "v.onnx").metadata


def test_without_a_source_all_weights_are_outputs(tmp_path):
    arrays = {"a.weight": WEIGHT, "norm": np.ones(4, np.float32)}
    save_file(arrays, tmp_path / "s.safetensors")
    quantize_checkpoint(
        open_checkpoint(tmp_path / "s.safetensors"), tmp_path / "q.safetensors", target("quark", "mxfp4")
    )
    found = open_checkpoint(tmp_path / "q.safetensors")
    dequantize_checkpoint(found, tmp_path / "d.onnx")
    convert_checkpoint(found, tmp_path / "q.onnx", MXFP4)
    expected = {"a.weight": values_of(_known(tmp_path / "q.safetensors")["a.weight"]), "norm": arrays["norm"]}
    for name in ("d.onnx", "q.onnx"):
        names = [item.name for item in onnx.load(tmp_path / name).graph.output]
        ours = dict(zip(names, _run(tmp_path / name), strict=True))
        assert ours.keys() == expected.keys()
        assert all(np.array_equal(ours[key], expected[key]) for key in ours)


def test_external_data_inside_of_nodes_are_taken_along(tmp_path):
    (tmp_path / "s").mkdir()
    (tmp_path / "s" / "in.data").write_bytes(np.float32([1, 2, 3, 4]).tobytes())
    inner = TensorProto(name="c", data_type=TensorProto.FLOAT, dims=[4], data_location=TensorProto.EXTERNAL)
    inner.external_data.add(key="location", value="in.data")
    branch = helper.make_graph([_node("Identity", "c", "o")], "b", [], _ends(o=(4,)), [inner])
    nodes = [_node("If", "k", "y", then_branch=branch, else_branch=branch), _node("MatMul", "x a", "z")]
    inputs = [*_ends(TensorProto.BOOL, k=()), *_ends(x=(2, 32))]
    _saved(tmp_path / "s" / "x.onnx", nodes, {"a": WEIGHT}, _ends(y=(4,), z=(2, 32)), inputs)
    made = open_checkpoint(tmp_path / "s" / "x.onnx")
    quantize_checkpoint(made, tmp_path / "q.onnx", MXFP4)
    assert np.array_equal(_run(tmp_path / "q.onnx", k=np.True_, x=WEIGHT[:2])[0], np.float32([1, 2, 3, 4]))
    (tmp_path / "s" / "in.data").write_bytes(b"short")
    with refusal(r"initializer 'c' of .* is said to lie at 0, 16 bytes long"):
        quantize_checkpoint(made, tmp_path / "q2.onnx", MXFP4)


def test_properties_of_a_source_are_kept(tmp_path):
    model = _saved(tmp_path / "x.onnx", [_node("MatMul", "x a", "y")], {"a": WEIGHT}, _ends(y=(2, 32)),
                   _ends(x=(2, 32)))  # fmt: skip
    helper.set_model_props(model, {"format": "mine", "author": "me"})
    onnx.save(model, tmp_path / "x.onnx")
    quantize_checkpoint(open_checkpoint(tmp_path / "x.onnx"), tmp_path / "q.onnx", MXFP4)
    found = {item.key: item.value for item in onnx.load(tmp_path / "q.onnx").metadata_props}
    assert json.loads(found.pop("lowprec"))["made"] == "quantize"
    assert found == {"format": "mine", "author": "me"}


@pytest.mark.parametrize(
    ("attribute", "expected"),
    [
        ({"value_float": 0.5}, np.float32(0.5)),
        ({"value_floats": [0.5, np.nan]}, np.float32([0.5, np.nan])),
        ({"value_int": -3}, np.int64(-3)),
        ({"value_ints": [1, 1 << 40]}, np.int64([1, 1 << 40])),
    ],
)
def test_constants_of_numbers_are_read_and_written(tmp_path, attribute, expected):
    nodes = [
        _node("Constant", "", "c", **attribute),
        _node("Identity", "c", "y"),
        _node("MatMul", "x a", "z"),
    ]
    kind = TensorProto.FLOAT if expected.dtype == np.float32 else TensorProto.INT64
    ends = [*_ends(kind, y=expected.shape), *_ends(z=(2, 32))]
    _saved(tmp_path / "x.onnx", nodes, {"a": WEIGHT}, ends, _ends(x=(2, 32)))
    made = open_checkpoint(tmp_path / "x.onnx")
    found = made.entries["c"].read()
    assert found.dtype == expected.dtype
    assert np.array_equal(found, expected, equal_nan=kind == TensorProto.FLOAT)
    quantize_checkpoint(made, tmp_path / "q.onnx", MXFP4)
    ours = _run(tmp_path / "q.onnx", x=WEIGHT[:2])[0]
    assert np.array_equal(ours, expected, equal_nan=kind == TensorProto.FLOAT)


def test_functions_and_sparse_tensors_are_noted(tmp_path):
    version = helper.make_opsetid("", 25)
    body = [_node("Constant", "", "k", value=numpy_helper.from_array(WEIGHT)), _node("MatMul", "a k", "b")]
    function = helper.make_function("mine", "Layer", ["a"], ["b"], body, [version])
    sparse = helper.make_sparse_tensor(
        numpy_helper.from_array(np.ones(2, np.float32), "few"),
        numpy_helper.from_array(np.array([1, 3], np.int64), "i"), [8],
    )  # fmt: skip
    nodes = [_node("Layer", "x", "y", domain="mine"), _node("Constant", "", "thin", sparse_value=sparse)]
    model = _saved(tmp_path / "x.onnx", nodes, {}, _ends(y=(2, 32)), _ends(x=(2, 32)), functions=[function])
    model.graph.sparse_initializer.append(sparse)
    (tmp_path / "x.onnx").write_bytes(model.SerializeToString())
    findings = lint(open_checkpoint(tmp_path / "x.onnx"))
    assert [(finding.rule, finding.evidence) for finding in findings] == [
        ("not-read", "thin is a sparse tensor"),
        ("not-read", "few is a sparse tensor"),
        ("not-read", "Layer is a function with 1 tensors"),
    ]


def test_values_of_another_type_than_nodes_expect_are_refused(tmp_path):
    nodes = [_node("DequantizeLinear", "q s", "w"), _node("MatMul", "x w", "y")]
    ends = _ends(TensorProto.FLOAT16, y=(2, 32)), _ends(TensorProto.FLOAT16, x=(2, 32))
    _saved(tmp_path / "x.onnx", nodes, {"q": BYTES, "s": np.float16(0.5)}, *ends)
    made = open_checkpoint(tmp_path / "x.onnx")
    message = "weight 'w' would be F32, and other nodes of .* expect F16; use --dtype F16"
    with refusal(message):
        dequantize_checkpoint(made, tmp_path / "d.onnx")
    dequantize_checkpoint(made, tmp_path / "d.onnx", "F16")
    _run(tmp_path / "d.onnx", x=WEIGHT[:2].astype(np.float16))


def test_initializers_that_are_inputs_too_are_no_inputs_without_their_values(tmp_path):
    """As models before version 4 of the format have all of them."""
    nodes = [_node("DequantizeLinear", "q s", "w"), _node("MatMul", "x w", "y"), _node("MatMul", "y a", "z")]
    inputs = [*_ends(x=(2, 32), a=(32, 32), s=()), *_ends(TensorProto.INT8, q=(32, 32))]
    arrays = {"q": BYTES, "s": np.float32(0.5), "a": WEIGHT}
    _saved(tmp_path / "x.onnx", nodes, arrays, _ends(z=(2, 32)), inputs)
    made = open_checkpoint(tmp_path / "x.onnx")
    quantize_checkpoint(made, tmp_path / "q.onnx", MXFP4, include=["w"])
    assert [item.name for item in onnx.load(tmp_path / "q.onnx").graph.input] == ["x", "a"]
    _run(tmp_path / "q.onnx", x=WEIGHT[:2])
    quantize_checkpoint(made, tmp_path / "q.onnx", MXFP4, include=["a"])
    assert [item.name for item in onnx.load(tmp_path / "q.onnx").graph.input] == ["x", "s", "q"]
    _run(tmp_path / "q.onnx", x=WEIGHT[:2])


@pytest.mark.parametrize("case", ["type", "node", "input"])
def test_what_no_node_can_make_is_refused_and_leaves_nothing(tmp_path, case):
    """Of double, or under a name that another node or an input has."""
    kind, dtype = (TensorProto.DOUBLE, np.float64) if case == "type" else (TensorProto.FLOAT, np.float32)
    x, y = ("a_scale", "y") if case == "input" else ("x", "a_scale")
    _saved(tmp_path / "x.onnx", [_node("MatMul", f"{x} a", y)], {"a": WEIGHT.astype(dtype)},
           _ends(kind, **{y: (2, 32)}), _ends(kind, **{x: (2, 32)}))  # fmt: skip
    message = "two tensors of the model would be called 'a_scale'"
    if case == "type":
        message = "weight 'a' of .* is F64, and DequantizeLinear makes F32, F16 or BF16"
    with refusal(message):
        quantize_checkpoint(open_checkpoint(tmp_path / "x.onnx"), tmp_path / "q.onnx", MXFP4)
    assert [item.name for item in tmp_path.iterdir()] == ["x.onnx"]


def test_a_scale_that_many_nodes_share_is_followed_once(tmp_path, monkeypatch):
    """A node with many attributes, looked at for each of many others, took time that grows with both."""
    followed, original = [], onnx_reading._scales
    monkeypatch.setattr(
        onnx_reading, "_scales", lambda name, *rest: followed.append(name) or original(name, *rest)
    )
    nodes = [_node("DequantizeLinear", f"w{number} s", f"y{number}") for number in range(9)]
    arrays = {f"w{number}": np.ones(4, np.int8) for number in range(9)} | {"s": np.float32(1)}
    _saved(tmp_path / "x.onnx", nodes, arrays)
    assert len(open_checkpoint(tmp_path / "x.onnx").graph.decoded) == 9
    assert followed == ["s"]


@pytest.mark.parametrize("kind", ["strings", "complex", "sparse", "inside"])
def test_another_file_lacks_no_tensor_without_a_word(tmp_path, kind):
    """What is not read was left out; a .onnx file keeps it."""
    ones = np.ones((32, 32), np.float32)
    model = _saved(tmp_path / "x.onnx", [_node("Identity", "w", "y")], {"w": ones}, _ends(y=(32, 32)))
    if kind == "strings":
        model.graph.initializer.append(helper.make_tensor("t", TensorProto.STRING, [1], [b"a"]))
    elif kind == "complex":
        model.graph.initializer.append(helper.make_tensor("t", TensorProto.COMPLEX128, [1], [1j]))
    elif kind == "sparse":
        parts = (numpy_helper.from_array(np.zeros(1, kind), "t") for kind in ("f4", "i8"))
        model.graph.sparse_initializer.append(helper.make_sparse_tensor(*parts, [4]))
    else:
        inner = helper.make_graph([], "inside", [], [], [numpy_helper.from_array(ones, "v")])
        model.graph.node.append(
            helper.make_node("If", ["w"], ["t"], name="t", then_branch=inner, else_branch=inner)
        )
    (tmp_path / "x.onnx").write_bytes(model.SerializeToString())
    found = open_checkpoint(tmp_path / "x.onnx")
    assert [(finding.rule, finding.tensor) for finding in lint(found)] == [("not-read", "t")]
    out, how = tmp_path / "out.safetensors", target("plain", "bfloat16")
    with refusal("another file would lack what is not read: t "):
        dequantize_checkpoint(found, out)
    with refusal("another file would lack what is not read: t "):
        quantize_checkpoint(found, out, how, include=["w"])
    quantize_checkpoint(found, out, how, include=["w"], exclude=["t"])
    assert [*open_checkpoint(out).entries] == ["w"]
    dequantize_checkpoint(found, tmp_path / "out.onnx")
    assert "t" in open_checkpoint(tmp_path / "out.onnx").unread
