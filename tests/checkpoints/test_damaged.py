"""A few hundred of the damaged files that `python -m tests.sweep files` has 100,000 of."""

import pytest

from tests import file_sweep
from tests.programs import need_package

#: Of each kind.
CASES = 120


@pytest.fixture(scope="module")
def whole():
    need_package("gguf")
    return file_sweep.seeds()


@pytest.mark.parametrize("kind", file_sweep.KINDS)
def test_damaged_files_are_read_or_refused(tmp_path, whole, kind):
    """Anything else is raised. Some are still right, and some are not, so that both ways are gone."""
    if not whole[kind]:
        need_package("onnx")
    found = [file_sweep.outcome(kind, case, whole[kind], whole["header"], tmp_path) for case in range(CASES)]
    assert found.count("read") > 5
    assert kind == "journal" or found.count("refused") > 5


def test_a_case_is_the_same_every_time(whole):
    one, other = (file_sweep.damaged("header", 7, whole["header"]) for _ in range(2))
    assert one == other != file_sweep.damaged("header", 8, whole["header"])
