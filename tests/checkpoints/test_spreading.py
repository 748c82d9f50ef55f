"""Roundings of every mode, and clusters: the same bytes, however the work is cut and whoever does it."""

import functools
import json
import pickle

import numpy as np
import pytest

import lowprec as lp
from lowprec.checkpoints import bitsandbytes_writing, converting, quantizing, transformer_engine, verifying
from lowprec.checkpoints.converting import dequantize_checkpoint
from lowprec.checkpoints.correcting import Statistics
from lowprec.checkpoints.decoding import codes_of, ranges, stored_scales
from lowprec.checkpoints.folder import open_checkpoint
from lowprec.checkpoints.quantizing import FAMILIES, quantize_checkpoint, target
from lowprec.checkpoints.verifying import verify_checkpoint
from lowprec.checkpoints.weights import weights_of
from tests.checkpoints.files import ENDINGS, SMALL, refusal, source
from tests.command import lowprec
from tests.programs import need_package

QUICK = (("deepseek", "e4m3fn", 128), ("comfyui", "nvfp4", 112), ("transformer-engine", "mxfp8_e4m3", 32))
cloudpickle = pytest.importorskip("cloudpickle")
TARGETS = [
    ("modelopt", "nvfp4"),
    ("quark", "mxfp6_e3m2"),
    ("compressed-tensors", "e4m3fn"),
    ("deepseek", "e4m3fn"),
    ("gpt-oss", "mxfp4"),
    ("plain", "e5m2"),
    ("gguf", "mxfp4"),
    ("onnx", "int4"),
]
OTHERS = {
    f"m.{name}.weight": np.full((2, 64, 96), 1.1 + place, np.float32) for place, name in enumerate("abc")
}


def _weight(checkpoint):
    return next(weight for weight in weights_of(checkpoint) if weight.name == "m.q.weight")


def _shuffled(count, function, tasks):
    """Everything as another process would get it, done from the last to the first; `count` says how much."""
    count.append(len(tasks))
    tasks = [pickle.loads(cloudpickle.dumps(task)) for task in tasks]
    done = {place: function(*tasks[place]) for place in reversed(range(len(tasks)))}
    return iter([done[place] for place in range(len(tasks))])


@pytest.mark.parametrize(("family", "to"), TARGETS)
def test_stochastic_rounding_has_the_same_bytes_however_it_is_cut(tmp_path, monkeypatch, family, to):
    shape = (2, 64, 96) if family == "gpt-oss" else (300, 96)
    made, how = (
        source(tmp_path / "s.safetensors", shape, **OTHERS),
        target(family, to, rounding="stochastic(8)", seed=7),
    )
    if family in ("gguf", "onnx"):
        need_package(family)
    ending = ENDINGS.get(family, ".safetensors")
    whole, parts, other = (tmp_path / name / f"out{ending}" for name in ("whole", "parts", "other"))
    count = []
    for path in (whole, parts, other):
        path.parent.mkdir()
    quantize_checkpoint(made, whole, how)
    with monkeypatch.context() as patched:
        patched.setattr(quantizing, "ranges", functools.partial(ranges, part=128 * 7))
        quantize_checkpoint(made, parts, how, spread=functools.partial(_shuffled, count))
    assert count == [5]  # tensors: every one was handed out
    assert parts.read_bytes() == whole.read_bytes()
    quantize_checkpoint(made, other, target(family, to, rounding="stochastic(8)", seed=8))
    seven, eight = (codes_of(_weight(open_checkpoint(path))) for path in (whole, other))
    assert 0.05 < (seven != eight).mean() < 0.6


@pytest.mark.apart
@pytest.mark.parametrize("to", ["mxfp8_e4m3", "nvfp4"])
def test_both_copies_have_the_same_bytes_however_they_are_cut(tmp_path, monkeypatch, to):
    """Transformer Engine's, in ranges of few rows and by other processes; checksums are of the whole."""
    others = {name: array[0] for name, array in OTHERS.items()}
    made, how = source(tmp_path / "s.safetensors", (320, 96), **others), target("transformer-engine", to)
    count = []
    for name in ("whole", "parts"):
        (tmp_path / name).mkdir()
    quantize_checkpoint(made, tmp_path / "whole" / "out.pt", how)
    monkeypatch.setattr(transformer_engine, "ranges", functools.partial(ranges, part=96 * 32))
    spread = functools.partial(_shuffled, count)
    quantize_checkpoint(made, tmp_path / "parts" / "out.pt", how, spread=spread)
    whole, parts = (tmp_path / name / "out.pt" for name in ("whole", "parts"))
    assert count == [5]
    assert parts.read_bytes() == whole.read_bytes()


def _cut(monkeypatch, part):
    """Let everything that reads or writes weights take ranges of some `part` elements."""
    for module in (quantizing, transformer_engine, bitsandbytes_writing, verifying, converting):
        monkeypatch.setattr(module, "ranges", functools.partial(_ranges, part))


def _ranges(part, weight, _=None, **unit):
    return ranges(weight, part, **unit)


#: Rows around those of a block, or of a tile of scales, of which schemes with such rows take any multiple.
ROWS = {
    ("deepseek", "e4m3fn"): (1, 127, 128, 129),
    ("deepseek-v4", "e4m3fn"): (1, 127, 128, 129),
    ("comfyui", "nvfp4"): (112, 128, 144),
    ("comfyui", "mxfp8_e4m3"): (96, 128, 160),
    ("transformer-engine", "mxfp8_e4m3"): (32, 64),
    ("transformer-engine", "nvfp4"): (16, 32),
}
CASES = [
    pytest.param(family, to, rows, marks=() if (family, to, rows) in QUICK else pytest.mark.apart)
    for family, formats in FAMILIES.items()
    for to in formats
    for rows in ROWS.get((family, to), (1, 2))
]


@pytest.mark.parametrize(("family", "to", "rows"), CASES)
def test_weights_of_few_rows_are_cut_through_no_block(tmp_path, monkeypatch, family, to, rows):
    """In the smallest ranges, files are those of one range; codes and scales are those of `encode`."""
    if family in ("gguf", "onnx"):
        need_package(family)
    shape = (rows, 64, 96) if family == "gpt-oss" else (rows, 192)
    made, how = source(tmp_path / "s.safetensors", shape), target(family, to, **SMALL.get((family, to), {}))
    ending = ENDINGS.get(family, ".safetensors")
    for name in ("whole", "parts"):
        (tmp_path / name).mkdir()
        if name == "parts":
            _cut(monkeypatch, 1)
        quantize_checkpoint(made, tmp_path / name / f"o{ending}", how)
        dequantize_checkpoint(
            open_checkpoint(tmp_path / name / f"o{ending}"), tmp_path / name / "v.safetensors"
        )
    for file in (f"o{ending}", "v.safetensors"):
        assert (tmp_path / "parts" / file).read_bytes() == (tmp_path / "whole" / file).read_bytes()
    found = open_checkpoint(tmp_path / "parts" / f"o{ending}")
    assert all(verdict.holds and not verdict.codes_differ for verdict in verify_checkpoint(found, made))
    if (family, to) in ROWS and family != "transformer-engine":
        expected = lp.encode(made.entries["m.q.weight"].read(), how.blocks)
        assert np.array_equal(codes_of(_weight(found)), expected.codes)
        scales = stored_scales(_weight(found))
        assert np.array_equal(scales.view(f"u{scales.dtype.itemsize}"), expected.scales)


def test_blocks_of_the_source_are_not_cut_either(tmp_path, monkeypatch):
    """Blocks of 128 rows are read and blocks of 32 rows are written: ranges are of rows of both."""
    made = source(tmp_path / "s.safetensors", (320, 96))
    quantize_checkpoint(made, tmp_path / "d.safetensors", target("deepseek", "e4m3fn"))
    tiles, how = open_checkpoint(tmp_path / "d.safetensors"), target("transformer-engine", "mxfp8_e4m3")
    for name in ("whole", "parts"):
        (tmp_path / name).mkdir()
        if name == "parts":
            _cut(monkeypatch, 160 * 96)
        quantize_checkpoint(tiles, tmp_path / name / "o.pt", how)
    assert (tmp_path / "parts" / "o.pt").read_bytes() == (tmp_path / "whole" / "o.pt").read_bytes()
    quantize_checkpoint(tiles, tmp_path / "mx.safetensors", target("quark", "mxfp4"))
    rows = open_checkpoint(tmp_path / "mx.safetensors")
    _cut(monkeypatch, 1)
    assert all(verdict.holds for verdict in verify_checkpoint(rows, tiles))


def test_random_integers_are_those_of_places_and_names(tmp_path):
    """As `encode` with the integers of the whole weight; another weight of the same values has others."""
    made = source(tmp_path / "s.safetensors", (64, 96))
    again = source(
        tmp_path / "again.safetensors", (64, 96), **{"m.z.weight": made.entries["m.q.weight"].read()}
    )
    how = target("quark", "mxfp4", rounding=lp.stochastic(8), seed=3)
    quantize_checkpoint(again, tmp_path / "out.safetensors", how)
    found = {
        item.name: codes_of(item)
        for item in weights_of(open_checkpoint(tmp_path / "out.safetensors"))
        if item.is_quantized
    }
    key = quantizing.key_of("m.q.weight", 3)
    expected = lp.encode(made.entries["m.q.weight"].read(), "mxfp4", rounding=lp.stochastic(8), rng=key)
    assert np.array_equal(found["m.q.weight"], expected.codes)
    assert not np.array_equal(found["m.q.weight"], found["m.z.weight"])
    said = json.loads(open_checkpoint(tmp_path / "out.safetensors").metadata["lowprec"])
    assert (said["rounding"], said["seed"]) == ("stochastic(8, A)", 3)


@pytest.mark.parametrize(
    ("family", "to", "shape"),
    [
        ("quark", "mxfp4", (1024, 512)),
        ("modelopt", "nvfp4", (1024, 512)),
        *(("deepseek", "e4m3fn", shape) for shape in ((1024, 512), (1000, 512), (1000, 500))),
    ],
)
def test_reports_are_those_of_error_report(tmp_path, family, to, shape):
    """To the last bit where blocks are runs; those of tiles are added up in another order."""
    made = source(tmp_path / "s.safetensors", shape)
    how = target(family, to)
    reports, _ = quantize_checkpoint(made, tmp_path / "o.safetensors", how)
    expected = lp.error_report(made.entries["m.q.weight"].read(), how.blocks).as_dict()
    for key in ("size", "clipped", "flushed"):
        assert reports["m.q.weight"][key] == expected[key]
    for key in ("sqnr", "worst_block"):
        close = pytest.approx(expected[key], rel=1e-12)
        assert reports["m.q.weight"][key] == (close if family == "deepseek" else expected[key])


def test_other_modes_round_by_them(tmp_path):
    made = source(tmp_path / "s.safetensors", (64, 96))
    quantize_checkpoint(made, tmp_path / "o.safetensors", target("quark", "mxfp4", rounding="toward_zero"))
    expected = lp.encode(made.entries["m.q.weight"].read(), "mxfp4", rounding="toward_zero")
    assert np.array_equal(codes_of(_weight(open_checkpoint(tmp_path / "o.safetensors"))), expected.codes)


def test_roundings_that_there_are_not(tmp_path):
    with refusal("is rounded to the nearest value, not by toward_zero"):
        target("bitsandbytes", "nf4", rounding="toward_zero")
    with refusal(r"shares words between elements; use stochastic\(bits\)"):
        target("quark", "mxfp4", rounding=lp.stochastic(16, "ptx_rs"))
    made = source(tmp_path / "s.safetensors", (64, 96))
    with refusal("a correction is for roundings to nearest"):
        quantize_checkpoint(
            made,
            tmp_path / "o.safetensors",
            target("quark", "mxfp4", rounding="stochastic(8)"),
            statistics=Statistics(made, correct=True),
        )


@pytest.mark.apart
@pytest.mark.parametrize("folder", [False, True])
def test_a_cluster_writes_the_bytes_of_one_process(tmp_path, folder):
    """Two workers, with stochastic rounding; the same reports too."""
    distributed = pytest.importorskip("distributed")
    source(tmp_path / "s.safetensors", (300, 96), **OTHERS)
    name = "out" if folder else "out.safetensors"
    words = [
        "checkpoint",
        "quantize",
        str(tmp_path / "s.safetensors"),
        "--to",
        "nvfp4",
        "--scheme",
        "modelopt",
    ]
    words += ["--rounding", "stochastic(8)", "--seed", "5", "--json"]
    for place in ("one", "many"):
        (tmp_path / place).mkdir()
    alone = lowprec(*words, "-o", tmp_path / "one" / name)
    assert alone.exit_code == 0, alone.output
    with distributed.LocalCluster(n_workers=2, threads_per_worker=1, dashboard_address=None) as workers:
        at = ["--scheduler", workers.scheduler_address]
        many = lowprec(*words, "-o", tmp_path / "many" / name, *at)
        assert many.exit_code == 0, many.output
        refused = lowprec(*words, "-o", tmp_path / "none" / name, *at)
        ran = [entry[0] for entry in workers.scheduler.transition_log if entry[2] == "memory"]
    assert many.output == alone.output
    assert len(ran) >= 2 + len(OTHERS)  # a task for each tensor
    assert (refused.exit_code, "there is no folder" in refused.output) == (2, True)
    one, other = (
        path / "s.safetensors" if folder else path
        for path in (tmp_path / "one" / name, tmp_path / "many" / name)
    )
    assert one.read_bytes() == other.read_bytes()
    assert [path.name for path in (tmp_path / "many").iterdir()] == [name]
