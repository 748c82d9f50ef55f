"""Files of tables/ that are kept by hand, and that the package reads."""

from __future__ import annotations

from importlib import resources
from pathlib import Path

__all__ = ["reviewed"]


def reviewed(name: str) -> str:
    """Return the text of a file: of the installed package, or beside it in a checkout."""
    packed = resources.files("lowprec") / "tables" / name
    beside = Path(__file__).parents[3] / "tables" / name
    return packed.read_text() if packed.is_file() else beside.read_text()
