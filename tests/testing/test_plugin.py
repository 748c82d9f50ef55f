"""The plugin, the profiles, and what is imported when."""

import doctest
import importlib.metadata
import os
import subprocess
import sys
from pathlib import Path

import pytest

pytestmark = pytest.mark.apart

ROOT = Path(__file__).parents[2]


def run_pytest(folder, *options):
    """A fresh pytest in a folder, with the plugin whether lowprec is installed or only on the path."""
    known = {entry.value for entry in importlib.metadata.entry_points(group="pytest11")}
    given = [] if "lowprec.testing.plugin" in known else ["-p", "lowprec.testing.plugin"]
    return subprocess.run(
        [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", *given, *options],
        cwd=folder,
        env={**os.environ, "PYTHONPATH": str(ROOT), "PYTHONHASHSEED": "0"},
        capture_output=True,
        text=True,
    )


def run_program(program):
    """A fresh interpreter."""
    return subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, cwd=ROOT)


def test_the_fixture_checks(tmp_path):
    """A user's test file; a broken format fails with the law's name."""
    (tmp_path / "test_mine.py").write_text(
        "class Broken:\n"
        "    name, width = 'broken', 3\n"
        "    def decode(self, codes):\n"
        "        return [[0, 2, 1, 3, 0, -2, -1, -3][code] for code in codes]\n"
        "def test_mine(lowprec_check):\n"
        "    lowprec_check.format(Broken())\n"
        "def test_others(lowprec_check):\n"
        "    assert lowprec_check.cast and lowprec_check.operation and lowprec_check.block_format\n"
    )
    run = run_pytest(tmp_path)
    assert "broken breaks the law 'increasing'" in run.stdout
    assert "1 failed, 1 passed" in run.stdout


def test_one_profile_draws_the_same_every_time_and_one_does_not(tmp_path):
    """In fresh processes; `lowprec-explore` draws more, too."""
    (tmp_path / "test_mine.py").write_text(
        "from hypothesis import given, strategies as st\n"
        "drawn = []\n"
        "@given(st.integers())\n"
        "def test_draw(number):\n"
        "    drawn.append(number)\n"
        "def test_tell():\n"
        "    print('drawn', len(drawn), hash(tuple(drawn)))\n"
    )

    def drawn(profile):
        told = run_pytest(tmp_path, "-s", f"--hypothesis-profile={profile}").stdout
        return next(line for line in told.splitlines() if "drawn" in line)

    assert drawn("lowprec-ci") == drawn("lowprec-ci")
    first, second = drawn("lowprec-explore"), drawn("lowprec-explore")
    assert first != second
    assert int(first.split()[1]) >= 1000


def example_of_the_page():
    """The definition of the format in docs/testing-your-format.md, and the tests under "With Hypothesis"."""
    page = (ROOT / "docs" / "testing-your-format.md").read_text()
    section = page.partition("## With Hypothesis")[2].partition("\n## ")[0]
    first = doctest.DocTestParser().get_examples(page)[:2]
    tests = [
        example for example in doctest.DocTestParser().get_examples(section) if example.source[:5] != "test_"
    ]
    return "\n".join(example.source for example in [*first, *tests])


def run_plainly(folder, *options):
    """A fresh pytest as a user starts it: not as in CI, where Hypothesis has no deadline."""
    environment = {name: os.environ[name] for name in ("PATH", "HOME", "SYSTEMROOT") if name in os.environ}
    environment |= {"PYTHONPATH": str(ROOT), "LOWPREC_CACHE_DIR": str(folder / "cache")}
    command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", *options]
    return subprocess.run(command, cwd=folder, env=environment, capture_output=True, text=True)


def test_the_example_of_the_page_passes_under_plain_pytest_with_cold_and_warm_caches(tmp_path):
    """The first call compiles or loads compiled code: either exceeds Hypothesis's deadline of 200 ms."""
    (tmp_path / "test_mine.py").write_text(example_of_the_page())
    for cache in ("cold", "warm"):
        run = run_plainly(tmp_path)
        assert "2 passed" in run.stdout, f"{cache}: {run.stdout}"


def test_strategies_lift_the_deadline_of_hypothesis_but_not_a_chosen_one(tmp_path):
    """All else of the profile in force stays."""
    (tmp_path / "test_mine.py").write_text(
        "import sys, hypothesis\n"
        "from datetime import timedelta\n"
        "settings = hypothesis.settings\n"
        "def test_lifted():\n"
        "    settings.register_profile('few', max_examples=7)\n"
        "    settings.load_profile('few')\n"
        "    assert settings.default.deadline is not None and 'lowprec.testing.strategies' not in "
        "sys.modules\n    import lowprec.testing.strategies\n"
        "    assert (settings.default.deadline, settings.default.max_examples) == (None, 7)\n"
        "def test_kept():\n"
        "    settings.register_profile('slow', deadline=500)\n"
        "    settings.load_profile('slow')\n"
        "    del sys.modules['lowprec.testing.strategies']\n"
        "    import lowprec.testing.strategies\n"
        "    assert settings.default.deadline == timedelta(milliseconds=500)\n"
    )
    run = run_plainly(tmp_path)
    assert "2 passed" in run.stdout, run.stdout


def test_every_public_name_is_there():
    """Each is imported when it is first used; another is refused."""
    run = run_program(
        "import lowprec.testing as t\n"
        "print(all(callable(getattr(t, name)) for name in t.__all__), sorted(t.__all__) == dir(t))\n"
        "try:\n    t.check\nexcept AttributeError as error:\n    print(error)\n"
    )
    assert run.stdout == "True True\nmodule 'lowprec.testing' has no attribute 'check'\n", run.stderr


def test_without_hypothesis_one_line_says_how_to_install_it():
    """And checks work all the same."""
    run = run_program(
        "import sys; sys.modules['hypothesis'] = None\n"
        "from lowprec.testing import check_format\n"
        "try:\n    from lowprec.testing import formats\n"
        "except ImportError as error:\n    print(error)\n"
    )
    assert run.stdout.strip() == 'strategies need hypothesis: pip install "lowprec[test]"', run.stderr
