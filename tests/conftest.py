"""Hypothesis runs the same examples every time: a failure here is a failure everywhere."""

from __future__ import annotations

import gc
import itertools
import os
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


#: Tests of many parameters, most of which have kernels of their own: two of each function's run always.
SAMPLED = (
    "tests/agreement/",
    "tests/checkpoints/test_spreading.py",
    "tests/cli/test_cli.py::test_operands_are_answered_and_the_answers_judged",
    "tests/export/test_tables.py",
    "tests/export/test_vectors.py",
    "tests/methods/test_layers.py::test_a_name_is_the_recipes_own_layer",
    "tests/testing/test_codebook_laws.py",
    "tests/testing/test_laws.py",
)


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Let the first and the last parameters of a sampled test run always, and mark the others as `apart`."""
    usual = [
        item
        for item in items
        if item.nodeid.startswith(SAMPLED) and not any(map(item.get_closest_marker, ("apart", "long")))
    ]
    for _, group in itertools.groupby(usual, key=lambda item: item.nodeid.partition("[")[0]):
        for item in list(group)[1:-1]:
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
