"""Texts in other languages: files of `templates/`, whose places, such as $name, are filled."""

from __future__ import annotations

from collections.abc import Mapping
from importlib import resources
from string import Template
from types import MappingProxyType

__all__ = ["filled"]


def filled(name: str, said: Mapping[str, object] = MappingProxyType({})) -> str:
    """Return the text of a file, with what is said in its places."""
    text = (resources.files("lowprec.export") / "templates" / name).read_text("utf-8")
    return Template(text).substitute(said)
