"""What tests of benchmarks share."""

import pytest

from benchmarks import peers, timing


@pytest.fixture
def core(monkeypatch):
    """The peers of an installation with nothing but what lowprec depends on."""
    found = {peer.name: peer for peer in peers.PEERS if peer.name in ("ml_dtypes", "numpy")}
    missing = {peer.name: "not installed" for peer in peers.PEERS if peer.name not in found}
    monkeypatch.setattr(peers, "find", lambda threads: (dict(found), missing))
    monkeypatch.setattr(timing, "_SAMPLE", 1e-5)
    return found
