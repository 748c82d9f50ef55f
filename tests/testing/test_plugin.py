"""The plugin, the profiles, and what is imported when."""

from __future__ import annotations

import importlib.metadata
import os
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parents[2]


def run_pytest(folder, *options):
    """A fresh pytest in a folder, with the plugin whether lowprec is installed or only on the path."""
    known = {entry.value for entry in importlib.metadata.entry_points(group="pytest11")}
    given = [] if "lowprec.testing.plugin" in known else ["-p", "lowprec.testing.plugin"]
    return subprocess.run(
        [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", *given, *options],
        cwd=folder,
        env={**os.environ, "PYTHONPATH": str(ROOT)},
        capture_output=True,
        text=True,
    )


def test_the_fixture_checks_and_the_profile_is_there(tmp_path):
    """A user's test file of four lines; a broken format fails with the law's name."""
    (tmp_path / "test_mine.py").write_text(
        "class Broken:\n"
        "    name, width = 'broken', 3\n"
        "    def decode(self, codes):\n"
        "        return [[0, 2, 1, 3, 0, -2, -1, -3][code] for code in codes]\n"
        "def test_mine(lowprec_check):\n"
        "    lowprec_check.format(Broken())\n"
        "def test_profile():\n"
        "    from hypothesis import settings\n"
        "    assert settings.default.max_examples == 1000\n"
    )
    run = run_pytest(tmp_path, "--hypothesis-profile=lowprec-explore")
    assert "broken breaks the law 'increasing' (broken)" in run.stdout
    assert "1 failed, 1 passed" in run.stdout


def test_importing_testing_loads_nothing_heavy():
    """It is imported wherever pytest runs."""
    program = "import sys, lowprec.testing, lowprec.testing.plugin; "
    program += "print(sorted({'numba', 'numpy', 'hypothesis'} & set(sys.modules)))"
    run = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, cwd=ROOT)
    assert run.stdout.strip() == "[]"


def test_without_hypothesis_one_line_says_how_to_install_it():
    """And checks work all the same."""
    program = (
        "import sys; sys.modules['hypothesis'] = None\n"
        "from lowprec.testing import check_format\n"
        "try:\n    from lowprec.testing import formats\n"
        "except ImportError as error:\n    print(error)\n"
    )
    run = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, cwd=ROOT)
    assert run.stdout.strip() == 'strategies need hypothesis: pip install "lowprec[test]"', run.stderr
