"""The pytest plugin: fixtures with the checks, and profiles of Hypothesis.

`lowprec_check` gives the checks by short names. The profile `lowprec-ci` draws the same examples every
time, `lowprec-explore` other ones, and more of them: `pytest --hypothesis-profile=lowprec-explore`.

Imported wherever pytest runs, so it imports nothing until it is asked.
"""

from __future__ import annotations

import sys
from types import SimpleNamespace
from typing import Any

import pytest


@pytest.fixture(scope="session")
def lowprec_check() -> SimpleNamespace:
    """The checks: `lowprec_check.format(fmt)`, `.block_format(fmt)`, `.cast(...)`, `.operation(...)`."""
    from lowprec import testing

    return SimpleNamespace(
        format=testing.check_format,
        block_format=testing.check_block_format,
        cast=testing.check_cast,
        operation=testing.check_operation,
    )


def register_profiles() -> None:
    """Enter the profiles `lowprec-ci` and `lowprec-explore` into Hypothesis."""
    from hypothesis import settings

    settings.register_profile("lowprec-ci", derandomize=True, deadline=None, database=None)
    settings.register_profile(
        "lowprec-explore", derandomize=False, deadline=None, max_examples=1000, print_blob=True
    )


@pytest.hookimpl(tryfirst=True)
def pytest_configure(config: Any) -> None:
    """Register the profiles before Hypothesis looks for the one that is asked for."""
    asked = config.getoption("--hypothesis-profile", None)
    if "hypothesis" in sys.modules or str(asked).startswith("lowprec-"):
        register_profiles()
