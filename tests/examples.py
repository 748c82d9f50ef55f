"""The scripts of docs/examples: each as a module, what it prints, and what a page shows of that."""

import importlib.util
import re
import sys
from pathlib import Path
from types import ModuleType

import pytest
from click.testing import CliRunner

import lowprec as lp

DOCS = Path(__file__).parents[1] / "docs"


def example_script(name: str) -> ModuleType:
    """Return a script of docs/examples as a module, which finds those beside it."""
    spec = importlib.util.spec_from_file_location(name, DOCS / "examples" / f"{name}.py")
    assert spec is not None
    assert spec.loader is not None
    module = sys.modules[name] = importlib.util.module_from_spec(spec)
    with pytest.MonkeyPatch.context() as patch:
        patch.syspath_prepend(DOCS / "examples")
        spec.loader.exec_module(module)
    return module


def printed(example: ModuleType, *arguments: str | Path) -> str:
    """Return what an example prints; an argument that is a path is a picture that it draws."""
    before = lp.get_threads()
    try:
        run = CliRunner().invoke(example.main, [str(each) for each in arguments], catch_exceptions=False)
    finally:
        lp.set_threads(before)
    assert run.exit_code == 0, run.output
    assert all(each.read_bytes()[:4] == b"\x89PNG" for each in arguments if isinstance(each, Path))
    return run.stdout


def shown(page: str, command: str) -> str:
    """Return what a page shows below the command that runs an example."""
    below = rf"^\$ python docs/examples/{command}.*\n((?s:.*?))^```"
    found = re.search(below, (DOCS / f"{page}.md").read_text(), re.M)
    assert found, f"{page}.md does not run {command}"
    return found[1]


def cells(table: str) -> list[list[str]]:
    """Return the rows of a table, whose cells stand two blanks apart."""
    return [re.split(r"\s{2,}", line.strip()) for line in table.strip("\n").splitlines()]
