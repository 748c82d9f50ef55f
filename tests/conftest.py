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

settings.register_profile("deterministic", derandomize=True, deadline=None, database=None, max_examples=100)
settings.load_profile("deterministic")


#: Kernels against the oracle: of each sixth function one test runs always.
AGREEMENT = "tests/agreement/"
#: Tests of many parameters, most of which have kernels of their own: one of each function's runs always.
SAMPLED = (
    AGREEMENT,
    "tests/arrays/test_block.py::test_quantize_is_decode_of_encode",
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


#: Tests whose parameters take seconds each: one of so many stands apart, and the others are `long`.
COSTLY = {
    "tests/agreement/test_codebooks.py::test_operations_in_lanes_are_the_scalar_kernels": 5,
    "tests/agreement/test_codebooks.py::test_operations_are_the_oracles": 3,
    "tests/agreement/test_environment.py::test_no_verb_changes_its_answer": 3,
    "tests/agreement/test_flags_by_vectors.py::test_they_are_those_of_the_scalar_engine": 4,
    "tests/agreement/test_kernels_of_many.py::test_operations": 2,
    "tests/export/test_c_operation.py::test_all_results_of_formats_of_eight_bits_are_the_oracles": 4,
    "tests/export/test_units.py::test_vectors_catch_every_bug_of_the_converter_and_its_cause_is_named": 2,
    "tests/testing/test_codebook_laws.py::test_every_named_codebook_keeps_the_laws": 3,
    "tests/testing/test_laws.py::test_every_format_of_the_catalog_keeps_all_laws": 3,
    "tests/testing/test_mistakes.py::test_special_operands_are_among_the_samples": 3,
    "tests/verify/test_compare_causes.py::test_what_is_wrong_with_blocks_is_the_first_hypothesis": 4,
    "tests/verify/test_compare_faults.py::test_the_cause_of_a_planted_bug_is_named": 2,
    "tests/verify/test_conditions.py::test_a_bug_that_no_catalogue_lists_is_explained": 4,
    "tests/verify/test_step_faults.py::test_every_fault_is_named": 4,
}


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Let the first parameters of sampled tests run always, and mark the others as `apart`, or as `long`."""
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
    costly = [
        item for item in items if item.get_closest_marker("apart") and not item.get_closest_marker("long")
    ]
    for name, group in itertools.groupby(costly, key=lambda item: item.nodeid.partition("[")[0]):
        for place, item in enumerate(group):
            if place % COSTLY.get(name, 1):
                item.add_marker(pytest.mark.long)


@pytest.fixture
def compiled_while_collecting() -> list[str]:
    return _COMPILED


def pytest_collection_finish() -> None:
    """What was imported and collected stays: it need not be looked at again."""
    if compiling := sys.modules.get("lowprec.kernels.compiling"):
        _COMPILED.extend(each.kernel for each in compiling.COMPILED)
    gc.collect()
    gc.freeze()
