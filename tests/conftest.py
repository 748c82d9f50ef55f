"""Hypothesis runs the same examples every time: a failure here is a failure everywhere."""

import gc
import itertools
import os
import sys

import pytest
from hypothesis import settings

from lowprec.kernels import engine
from tests.seconds import seconds

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

settings.register_profile("deterministic", derandomize=True, deadline=None, database=None, max_examples=100)
settings.load_profile("deterministic")


#: Kernels against the oracle: of each sixth function one test runs always.
AGREEMENT = "tests/agreement/"
#: Results after which a request has kernels of its own. Tests of kernels have them at once; elsewhere
#: compiling them would take a third of the time of all others.
PAYS = engine.PAYS
#: Tests of many parameters, most of which have kernels of their own: one of each function's runs always.
SAMPLED = (
    AGREEMENT,
    "tests/arrays/test_checks.py::test_unused_bits_of_narrow_types_are_no_part_of_codes",
    "tests/arrays/test_tensors.py::test_integers_in_frames_are_rounded_once",
    "tests/arrays/test_warnings.py::test_comparisons_signal_nothing",
    "tests/checkpoints/test_schemes.py::test_weights_of_float64_follow_a_known_rule",
    "tests/checkpoints/test_spreading.py",
    "tests/cli/test_cli.py::test_operands_are_answered_and_the_answers_judged",
    "tests/export/test_c_accumulation.py::test_headers_give_what_the_kernels_give",
    "tests/export/test_tables.py",
    "tests/export/test_vectors.py",
    "tests/methods/test_layers.py::test_a_name_is_the_recipes_own_layer",
    "tests/methods/test_scale_propagation_optimizers.py::test_every_step_of_adam_is_that_of_float64_rounded_once",
    "tests/methods/test_unit_scaling_formats.py",
    "tests/plot/",
    "tests/testing/test_codebook_laws.py",
    "tests/testing/test_laws.py",
    "tests/testing/test_scoreboard.py",
    "tests/verify/test_exhaustive.py::test_damaged_state_is_done_again",
    "tests/verify/test_exhaustive.py::test_the_kernels_are_right",
    "tests/verify/test_weight_dumps.py::test_a_weight_is_read_by_its_own_scales_and_judged_in_its_own_format",
)


#: Seconds from which on a test stands apart, and from which on it is `long`.
SLOW, LONG = 2, 15
#: Of a function that stands apart so many of its parameters run, spread over all of them, and one if they are
#: slow: the others are `long`.
APART = 2
#: What others recorded and what frameworks answer is run with all its parameters; what pages say too, by the
#: word in a test's name.
WHOLE = (
    "tests/agreement/test_block_profiles.py",
    "tests/agreement/test_cublaslt.py",
    "tests/agreement/test_engines.py",
    "tests/agreement/test_environment.py",
    "tests/agreement/test_profiles.py",
    "tests/agreement/test_published",
    "tests/agreement/test_pure_python.py",
    "tests/agreement/test_silicon.py",
    "tests/checkpoints/",
    "tests/test_",
    "tests/verify/test_capture.py",
    "tests/verify/test_conformance.py",
)


def _is_whole(item: pytest.Item) -> bool:
    function = item.nodeid.partition("[")[0].partition("::")[2]
    return item.nodeid.startswith(WHOLE) or "page" in function.split("_") or "pages" in function.split("_")


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Mark as `apart` what is sampled or slow, and as `long` what is very slow, and most parameters."""
    usual = [
        item
        for item in items
        if item.nodeid.startswith(SAMPLED) and not any(map(item.get_closest_marker, ("apart", "long")))
    ]
    groups = itertools.groupby(usual, key=lambda item: item.nodeid.partition("[")[0])
    for number, (name, group) in enumerate(groups):
        apart = name.startswith(AGREEMENT) and number % 6 > 0
        for item in list(group)[not apart :]:
            item.add_marker(pytest.mark.apart)
    slow = seconds()
    for item in items:
        if slow.get(item.nodeid, 0) >= SLOW:
            item.add_marker(pytest.mark.apart)
        if slow.get(item.nodeid, 0) >= LONG and not _is_whole(item):
            item.add_marker(pytest.mark.long)
    standing = [item for item in items if item.get_closest_marker("apart") and not _is_whole(item)]
    for _, group in itertools.groupby(standing, key=lambda item: item.nodeid.partition("[")[0]):
        parameters = [item for item in group if not item.get_closest_marker("long")]
        count = 1 if any(item.nodeid in slow for item in parameters) else min(APART, len(parameters))
        kept = {place * (len(parameters) - 1) // max(count - 1, 1) for place in range(count)}
        for place, item in enumerate(parameters):
            if place not in kept:
                item.add_marker(pytest.mark.long)


@pytest.hookimpl(tryfirst=True)
def pytest_runtest_setup(item: pytest.Item) -> None:
    """Have kernels of a request's own compiled at once where kernels are tested."""
    of_kernels = item.nodeid.startswith((AGREEMENT, "tests/kernels/"))
    engine.PAYS = 0 if of_kernels else PAYS


@pytest.fixture
def compiled_while_collecting() -> list[str]:
    return _COMPILED


def pytest_collection_finish() -> None:
    """What was imported and collected stays: it need not be looked at again."""
    if compiling := sys.modules.get("lowprec.kernels.compiling"):
        _COMPILED.extend(each.kernel for each in compiling.COMPILED)
    gc.collect()
    gc.freeze()
