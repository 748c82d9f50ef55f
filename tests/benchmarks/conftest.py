"""What tests of benchmarks share."""

import functools

import numpy as np
import pytest

from benchmarks import peers, timing


def checked(work, found=()):
    """Return what a contest keeps of its contenders, and how many results of each differ."""
    with np.errstate(all="ignore"):
        return work.checked(list(work.contenders(found)), lambda *_: None)


def wrong(module, name, place):
    """Return a function of a module with a last bit that is wrong at one place of its result."""
    right = getattr(module, name)

    @functools.wraps(right)
    def plant(*arguments, **keywords):
        made = right(*arguments, **keywords)
        made.view(f"u{made.itemsize}")[place] ^= 1
        return made

    return plant


@pytest.fixture
def core(monkeypatch):
    """The peers of an installation with nothing but what lowprec depends on."""
    found = {peer.name: peer for peer in peers.PEERS if peer.name in ("ml_dtypes", "numpy")}
    missing = {peer.name: "not installed" for peer in peers.PEERS if peer.name not in found}
    monkeypatch.setattr(peers, "find", lambda threads: (dict(found), missing))
    monkeypatch.setattr(timing, "_SAMPLE", 1e-5)
    return found
