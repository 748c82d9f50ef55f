"""Layers that servers join have one tensor scale."""

import numpy as np
import pytest

import lowprec as lp
from lowprec.checkpoints import quantizing
from lowprec.checkpoints.decoding import codes_of, scale_values
from lowprec.checkpoints.folder import open_checkpoint
from lowprec.checkpoints.linting import lint
from lowprec.checkpoints.quantizing import quantize_checkpoint, target
from lowprec.checkpoints.verifying import verify_checkpoint
from lowprec.checkpoints.weights import weights_of
from tests.checkpoints.files import source
from tests.checkpoints.test_writing import _stopped

JOINED = ("q_proj", "k_proj", "v_proj")
#: Layers of two blocks, in another order than that in which they are joined, and one that is not joined.
LAYERS = [f"m.{block}.{name}" for block in (0, 1) for name in ("v_proj", "o_proj", *JOINED[:2])]


def _source(path, **others):
    rng = np.random.default_rng(0)
    made = {
        f"{name}.weight": (rng.standard_normal((32, 64)) * 3.0**place).astype(np.float32)
        for place, name in enumerate(LAYERS)
    }
    return source(path, (64, 64), **(made | others))


@pytest.mark.parametrize("family", ["compressed-tensors", "modelopt", "torchao"])
def test_what_is_joined_is_quantised_as_if_it_were_one_weight(tmp_path, family):
    """Codes and scales are those of the weights one below the other; lint and verify agree."""
    made, out = _source(tmp_path / "s.safetensors"), tmp_path / "q.safetensors"
    quantize_checkpoint(made, out, target(family, "nvfp4"))
    found = {weight.name: weight for weight in weights_of(open_checkpoint(out))}
    for block in (0, 1):
        names = [f"m.{block}.{name}.weight" for name in JOINED]
        whole = lp.encode(np.concatenate([made.entries[name].read() for name in names]), "nvfp4")
        for place, name in enumerate(names):
            rows = slice(32 * place, 32 * (place + 1))
            assert np.array_equal(codes_of(found[name]), whole.codes[rows])
            scales = lp.decode(whole.scales[rows], whole.format.scale)
            assert np.array_equal(scale_values(found[name]), scales)
            stored = found[name].tensor.read()
            number = np.float32(whole.tensor_scale)
            assert stored == (1 / number if family == "compressed-tensors" else number)
    alone = lp.encode(made.entries["m.1.o_proj.weight"].read(), "nvfp4")
    assert np.array_equal(codes_of(found["m.1.o_proj.weight"]), alone.codes)
    assert lint(open_checkpoint(out), made) == ()
    assert all(verdict.rule for verdict in verify_checkpoint(open_checkpoint(out), made))


def test_only_weights_that_are_quantised_share_a_scale(tmp_path):
    made = _source(tmp_path / "s.safetensors")
    for name, excluded in (("two", ["*.0.v_proj.*"]), ("one", ["*.0.v_proj.*", "*.0.k_proj.*"])):
        out = tmp_path / f"{name}.safetensors"
        quantize_checkpoint(made, out, target("modelopt", "nvfp4"), exclude=excluded)
        found = open_checkpoint(out)
        amax = np.abs(made.entries[f"m.0.{'k' if name == 'two' else 'q'}_proj.weight"].read()).max()
        assert found.entries["m.0.q_proj.weight_scale_2"].read() == amax / np.float32(2688)
        assert lint(found) == ()


def test_schemes_whose_readers_join_nothing_have_a_scale_for_each(tmp_path):
    """Lint says nothing of them."""
    made, out = _source(tmp_path / "s.safetensors"), tmp_path / "q.safetensors"
    quantize_checkpoint(made, out, target("comfyui", "nvfp4"))
    found = open_checkpoint(out)
    scales = {float(found.entries[f"m.0.{name}.weight_scale_2"].read()) for name in JOINED}
    assert len(scales) == 3
    assert lint(found) == ()


def test_a_run_that_goes_on_looks_at_all_that_share_a_scale(tmp_path, monkeypatch):
    """A weight is done again if another one of its group has changed since."""
    made, out = _source(tmp_path / "s.safetensors"), tmp_path / "q.safetensors"
    run = lambda checkpoint, path: quantize_checkpoint(checkpoint, path, target("modelopt", "nvfp4"))  # noqa: E731
    written = []
    original = quantizing._written
    monkeypatch.setattr(
        quantizing, "_written", lambda weight, *rest: written.append(weight.name) or original(weight, *rest)
    )
    _stopped(monkeypatch, lambda: run(made, out), 16)
    assert {"m.0.k_proj.weight", "m.0.q_proj.weight", "m.0.o_proj.weight"} <= {*written[:-1]}
    changed = _source(
        tmp_path / "s.safetensors", **{"m.0.v_proj.weight": np.full((32, 64), 9999, np.float32)}
    )
    written.clear()
    run(changed, out)
    assert {"m.0.k_proj.weight", "m.0.q_proj.weight"} <= {*written}
    assert "m.0.o_proj.weight" not in written
    run(changed, tmp_path / "fresh.safetensors")
    assert out.read_bytes() == (tmp_path / "fresh.safetensors").read_bytes()
