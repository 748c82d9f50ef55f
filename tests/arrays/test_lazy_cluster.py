"""Lazy arrays on a cluster of processes: the bits of NumPy; and more data than its memory holds."""

import dataclasses
import hashlib
import re
import subprocess
import sys
from pathlib import Path

import dask
import dask.array as da
import numpy as np
import pytest
import xarray as xr

import lowprec as lp
from tests.programs import need_package

EXAMPLE = Path(__file__).parents[2] / "docs" / "examples" / "larger_than_memory.py"

pytestmark = pytest.mark.filterwarnings("ignore::dask.array.PerformanceWarning")


@pytest.fixture(scope="module")
def client():
    """Two processes of one thread each."""
    need_package("distributed")
    from distributed import Client, LocalCluster

    quiet = {"dashboard_address": ":0", "silence_logs": 50}
    with LocalCluster(n_workers=2, threads_per_worker=1, **quiet) as cluster, Client(cluster) as made:
        yield made


def digest(*arrays):
    """SHA-256 of the bytes of arrays."""
    return hashlib.sha256(b"".join(np.ascontiguousarray(array).tobytes() for array in arrays)).hexdigest()


@pytest.mark.apart
def test_processes_give_the_bits_of_numpy(client):
    """Of all that works on lazy arrays, in chunks that must be repaired."""
    x = (np.random.default_rng(4).standard_normal((300, 500)) * 20).astype(np.float32)
    y = np.random.default_rng(5).standard_normal((500, 40)).astype(np.float32)
    lazy, other = da.from_array(x, chunks=(70, 130)), da.from_array(y, chunks=(33, 11))
    how = {"rounding": lp.stochastic(8), "rng": 21}
    sequential = lp.accumulations["bf16_sequential"]
    stochastic = dataclasses.replace(
        sequential, accumulator=(sequential.accumulator[0], lp.Projection(rounding=lp.stochastic(8)))
    )
    blocks = lp.encode(lazy, "nvfp4", **how)
    lazily = [
        lp.encode(lazy, "e4m3fn", **how),
        lp.quantize(lazy, "mxfp4", axis=0, **how),
        blocks.codes,
        blocks.scales,
        blocks.values(),
        lp.matmul(lazy, other, "fp32_fma"),
        lp.matmul(lp.encode(lazy, "mxfp8_e4m3"), lp.encode(other, "mxfp8_e4m3", axis=0), "fp32_fma"),
        lp.matmul(lp.quantize(lazy, "bfloat16"), lp.quantize(other, "bfloat16"), stochastic, rng=3),
        lp.scale_for(lazy, "int8", axis=0),
        lp.scale_for(lazy, "int8", "percentile"),
        lp.encode(xr.DataArray(lazy, dims=("a", "b")), "mxfp4").codes.data,
        lp.less(lp.encode(lazy, "e5m2"), 0x40, "e5m2"),
        lp.nextafter(lazy, 0.0, "bfloat16"),
        lp.matmul(lazy, other, "fp32_fma", scales=(0.5, None), bias=other[0]),
    ]
    held = lp.encode(x, "nvfp4", **how)
    want = [
        lp.encode(x, "e4m3fn", **how),
        lp.quantize(x, "mxfp4", axis=0, **how),
        held.codes,
        held.scales,
        held.values(),
        lp.matmul(x, y, "fp32_fma"),
        lp.matmul(lp.encode(x, "mxfp8_e4m3"), lp.encode(y, "mxfp8_e4m3", axis=0), "fp32_fma"),
        lp.matmul(lp.quantize(x, "bfloat16"), lp.quantize(y, "bfloat16"), stochastic, rng=3),
        lp.scale_for(x, "int8", axis=0),
        lp.scale_for(x, "int8", "percentile"),
        lp.encode(x, "mxfp4").codes,
        lp.less(lp.encode(x, "e5m2"), 0x40, "e5m2"),
        lp.nextafter(x, 0.0, "bfloat16"),
        lp.matmul(x, y, "fp32_fma", scales=(0.5, None), bias=y[0]),
    ]
    assert [digest(each) for each in dask.compute(*lazily)] == [digest(each) for each in want]
    assert lp.error_report(lazy, "nvfp4", **how).compute() == lp.error_report(x, "nvfp4", **how)
    assert blocks.compute().tensor_scale == held.tensor_scale


@pytest.mark.long
def test_more_than_the_memory_of_the_workers_comes_out_the_same():
    """The example, with four times the memory of one worker."""
    need_package("distributed")
    command = [sys.executable, str(EXAMPLE), "--workers", "1", "--memory", "480MB", "--times", "4"]
    run = subprocess.run(command, capture_output=True, text=True, check=False)
    assert run.stdout.splitlines()[-1:] == ["the same"], run.stdout + run.stderr
    assert run.returncode == 0
    rows, size = re.match(
        r"([\d,]+) x 4,096 float32, 1\.79 GiB; 1 workers of 457\.76 MiB\n(.*)", run.stdout, re.S
    ).groups()
    assert int(rows.replace(",", "")) * 4096 * 4 > 3.99 * 480e6
    assert f"int8: {int(rows.replace(',', '')) * 4096:,} values" in size
