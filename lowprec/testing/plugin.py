"""The pytest plugin: fixtures with the checks, and profiles of Hypothesis.

`lowprec_check` gives the checks by short names, `lowprec_exhaustive` checks on every input and keeps digests
beside the tests. The profile `lowprec-ci` draws the same examples every
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


@pytest.fixture
def lowprec_exhaustive(request: pytest.FixtureRequest) -> Any:
    """The check on every input, `lowprec_exhaustive(function, to, key=...)`; it keeps digests."""
    from lowprec.testing.exhaustive import Exhaustive

    folder, (_, _, test) = request.path.parent / "lowprec-digests", request.node.nodeid.partition("::")
    shard, fresh = request.config.getoption("lowprec_shard"), request.config.getoption("lowprec_fresh")
    return Exhaustive(folder, f"{request.path.stem}::{test}", shard or "1/1", fresh)


def pytest_addoption(parser: pytest.Parser) -> None:
    """Add the options of `lowprec_exhaustive`."""
    group = parser.getgroup("lowprec")
    says = "let lowprec_exhaustive check only the part I of N of all inputs, such as 1/4"
    group.addoption("--lowprec-shard", metavar="I/N", help=says)
    says = "let lowprec_exhaustive check again what digests say is checked"
    group.addoption("--lowprec-fresh", action="store_true", help=says)


def register_profiles() -> None:
    """Enter the profiles `lowprec-ci` and `lowprec-explore` into Hypothesis."""
    from hypothesis import settings

    settings.register_profile("lowprec-ci", derandomize=True, deadline=None, database=None)
    settings.register_profile(
        "lowprec-explore", derandomize=False, deadline=None, max_examples=1000, print_blob=True
    )


@pytest.hookimpl(tryfirst=True)
def pytest_configure(config: Any) -> None:
    """Register the profiles before Hypothesis looks for the one that is asked for; refuse a wrong shard."""
    if (part := config.getoption("lowprec_shard", None)) is not None:
        from lowprec.verify.sweeps.exhaustive import shard

        try:
            shard(part)
        except ValueError as error:
            raise pytest.UsageError(f"--lowprec-shard: {error}") from None
    asked = config.getoption("--hypothesis-profile", None)
    if "hypothesis" in sys.modules or str(asked).startswith("lowprec-"):
        register_profiles()
