"""Completions of the command line besides options: names of formats, profiles and the like."""

from __future__ import annotations

import importlib
import itertools
from collections.abc import Callable, Iterable

import click
from click.shell_completion import CompletionItem

#: What click asks: the context, the parameter and the word as far as it is typed.
Completer = Callable[[click.Context, click.Parameter, str], list[CompletionItem]]


def _completer(*catalogs: str | tuple[str, ...], files: bool = False) -> Completer:
    """Return a completer of names in catalogs, each "module:name"; or of files, where no name begins so.

    Catalogs are imported when they are first asked; a tuple has the names themselves. Items are names, or
    have one.
    """

    def complete(context: click.Context, parameter: click.Parameter, incomplete: str) -> list[CompletionItem]:
        known = itertools.chain.from_iterable(map(_names, catalogs))
        found = [CompletionItem(name) for name in known if name.startswith(incomplete)]
        return found or ([CompletionItem(incomplete, type="file")] if files else [])

    return complete


def _names(catalog: str | tuple[str, ...]) -> Iterable[str]:
    if isinstance(catalog, tuple):
        return catalog
    module, _, name = catalog.partition(":")
    items = getattr(importlib.import_module(f"lowprec.{module}"), name)
    return (each if isinstance(each, str) else getattr(each, "value", None) or each.name for each in items)


_FORMATS = ("spec.catalog:FORMATS", "spec.codebooks:ENTRIES")
_BLOCKS = "spec.catalog:BLOCK_FORMATS"
_ACCUMULATIONS = ("spec.accumulations:ACCUMULATIONS", "spec.library_calls:LIBRARY_CALLS")
_PROFILES = "spec.profiles:PROFILES"

formats = _completer(*_FORMATS, files=True)
targets = _completer(*_FORMATS, _BLOCKS, files=True)
operands = _completer(*_FORMATS, ("int32", "int64"), files=True)
accumulations = _completer(*_ACCUMULATIONS, files=True)
profiles = _completer(_PROFILES, files=True)
anything = _completer(*_FORMATS, _BLOCKS, *_ACCUMULATIONS, _PROFILES, files=True)
roundings = _completer("spec.rounding:MODES")
saturations = _completer("spec.projection:Saturation")
rules = _completer("spec.block:RULES")
_verbs = ("convert", "cast", "blocks", "block", "dot", "matmul")
operations = _completer(_verbs, "spec.arith:OPERANDS", "spec.functions:FUNCTIONS")
sources = _completer("verify.inputs.conversions:SOURCES")
frameworks = _completer("verify.frameworks:FRAMEWORKS")
paths = _completer(files=True)
