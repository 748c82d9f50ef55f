"""Hypothesis runs the same examples every time: a failure here is a failure everywhere."""

from __future__ import annotations

import gc
import itertools
import os
import pathlib
import sys

import pytest
from hypothesis import settings

# Compiling a kernel makes so many objects that last that looking for garbage takes an eighth of the time.
gc.set_threshold(100_000, 20, 20)

# Memory that goes back to the system is asked for by the next test: workers, which start later, keep it.
for name in ("MALLOC_TRIM_THRESHOLD_", "MALLOC_MMAP_THRESHOLD_"):
    os.environ.setdefault(name, str(1 << 30))

# A hypothesis of a comparison that fails is left out elsewhere; here it fails the test.
os.environ["LOWPREC_RAISE"] = "hypotheses"

#: Run by a test, in an interpreter's own way; imported by nobody.
collect_ignore = ["typing/documented_calls.py"]

#: Kernels that were compiled while tests were collected.
_COMPILED: list[str] = []

settings.register_profile("deterministic", derandomize=True, deadline=None, database=None, max_examples=200)
settings.load_profile("deterministic")


#: Folders where a test has many parameters, most of which have kernels of their own, and how many run always.
_SAMPLED, _ALWAYS = ("agreement",), 4


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Let some parameters of a test, from first to last, run always, and the others with what stands apart."""
    folders = [pathlib.Path(__file__).parent / name for name in _SAMPLED]
    usual = [
        item
        for item in items
        if item.path.parent in folders and not any(map(item.get_closest_marker, ("apart", "long")))
    ]
    for _, group in itertools.groupby(usual, key=lambda item: item.nodeid.partition("[")[0]):
        tests = list(group)
        step = max(len(tests) - 1, 1) / (_ALWAYS - 1)
        kept = {round(step * place) for place in range(_ALWAYS)}
        for place, item in enumerate(tests):
            if place not in kept and len(tests) > _ALWAYS:
                item.add_marker(pytest.mark.apart)


@pytest.fixture
def compiled_while_collecting() -> list[str]:
    return _COMPILED


def pytest_collection_finish() -> None:
    """What was imported and collected stays: it need not be looked at again."""
    if compiling := sys.modules.get("lowprec.kernels.compiling"):
        _COMPILED.extend(each.kernel for each in compiling.COMPILED)
    gc.collect()
    gc.freeze()
