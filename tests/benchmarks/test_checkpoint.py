"""The benchmark of checkpoint files runs, and says what its contenders wrote."""

import pytest

from benchmarks.checkpoint import measure

pytestmark = pytest.mark.apart


@pytest.mark.parametrize("to", ["mxfp4", "mxfp8_e4m3"])
def test_contenders_are_timed(tmp_path, to):
    """torchao, where it is installed, has the same bytes."""
    found = measure(to, 32, 1, tmp_path)
    assert {"lowprec", "file system"} <= found.keys() <= {"lowprec", "file system", "torchao", "differ"}
    assert all(found[name] > 0 for name in found if name != "differ")
    assert found.get("differ", 0) == 0
