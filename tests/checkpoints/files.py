"""Small checkpoints for tests."""

import numpy as np
import pytest
from safetensors.numpy import save_file

from lowprec.checkpoints.container import CheckpointError, open_file
from lowprec.checkpoints.containers.safetensors_writing import SafetensorsWriter
from lowprec.checkpoints.folder import open_checkpoint
from lowprec.checkpoints.quantizing import quantize_checkpoint, target
from tests.programs import need_package

#: Of files that schemes of a family are written to, where that is another container.
ENDINGS = {"gguf": ".gguf", "onnx": ".onnx", "transformer-engine": ".pt"}
#: Options with which weights of 32, 64 and 192 columns are written too.
SMALL = {("compressed-tensors", "int4"): {"group": 32}}


def refusal(words):
    """Return a context in which a checkpoint is refused with words that match."""
    return pytest.raises(CheckpointError, match=words)


def source(path, shape=(256, 192), seed=0, **others):
    """Write weights whose rows differ in size by powers of two, and return the checkpoint."""
    rng = np.random.default_rng(seed)
    rows = 2.0 ** rng.integers(-9, -3, shape[:-1])
    weights = {"m.q.weight": (rng.standard_normal(shape) * rows[..., None]).astype(np.float32)}
    weights |= {"m.norm.weight": np.ones(8, np.float32), **others}
    save_file(weights, path)
    return open_checkpoint(path)


def quantized(path, family, to, shape=(256, 192), **options):
    """Write a quantised checkpoint beside its source, and return both."""
    if family in ("gguf", "onnx"):
        need_package(family)
    made = source(path / "source.safetensors", shape)
    out = path / f"{family}-{to}{ENDINGS.get(family, '.safetensors')}"
    known = {} if options.get("channel") else SMALL.get((family, to), {})
    quantize_checkpoint(made, out, target(family, to, **(known | options)))
    return open_checkpoint(out), made


def changed(checkpoint, path, change, metadata=None):
    """Write the tensors of a checkpoint after `change`, a function of the dict of names to (tag, array)."""
    tensors = {name: (entry.tag, entry.read()) for name, entry in checkpoint.entries.items()}
    change(tensors)
    with SafetensorsWriter(
        path.open("w+b"), [(name, tag, array.shape) for name, (tag, array) in tensors.items()], metadata or {}
    ) as writer:
        for name, (_, array) in tensors.items():
            writer.write(name, array)
    assert open_file(path).gaps == 0
    return open_checkpoint(path)
