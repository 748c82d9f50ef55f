"""Transformer Engine's reference quantisers, of a checkout that TRANSFORMER_ENGINE names, against lowprec."""

from __future__ import annotations

import importlib
import os
from pathlib import Path

import numpy as np
import pytest

import lowprec as lp
from tests.programs import need_package

pytestmark = pytest.mark.apart

needs_checkout = pytest.mark.skipif("TRANSFORMER_ENGINE" not in os.environ, reason="needs a checkout")


@pytest.fixture
def references(monkeypatch):
    need_package("torch")
    monkeypatch.syspath_prepend(Path(__file__).parents[2] / "docs" / "examples")
    return importlib.import_module("transformer_engine_references")


def matrix(seed):
    """Values of many magnitudes, without -0.0, whose sign the reference drops."""
    rng = np.random.default_rng(seed)
    x = rng.standard_normal((128, 256)) * np.exp2(rng.integers(-12, 12, (128, 1)))
    return np.where(rng.random(x.shape) < 0.1, 0, x).astype(np.float32)


@needs_checkout
@pytest.mark.parametrize("to", ["nvfp4", "nvfp4_2d"])
def test_nvfp4_is_that_of_the_profile(to, references):
    for seed in range(4):
        report = lp.equal_quantizers(
            getattr(references, to), "transformer_engine", to, matrix(seed), why=False
        )
        assert report, report


@needs_checkout
def test_of_what_differs_all_is_negative_zero(references):
    x = matrix(0)
    x[x == 0] = -0.0
    report = lp.equal_quantizers(references.nvfp4, "transformer_engine", "nvfp4", x, why=False)
    assert report.differ == np.count_nonzero(x == 0)


@needs_checkout
def test_current_scaling_is_three_steps_in_binary32(references):
    for seed in range(4):
        assert lp.equal_quantizers(references.fp8, references.fp8_steps, "e4m3fn", matrix(seed), why=False)


def test_steps_of_current_scaling_scale_the_largest_to_448(references):
    x = matrix(1)
    codes, scale = references.fp8_steps(x)
    assert lp.decode(codes, "e4m3fn").max() == 448
    assert scale == np.float32(1) / (np.float32(448) / np.abs(x).max())


def test_what_is_no_checkout_is_refused_by_name(references, monkeypatch, tmp_path):
    monkeypatch.setenv("TRANSFORMER_ENGINE", str(tmp_path))
    references._reference.cache_clear()
    with pytest.raises(ImportError, match="names no checkout of Transformer Engine"):
        references.nvfp4(matrix(0))
    references._reference.cache_clear()
