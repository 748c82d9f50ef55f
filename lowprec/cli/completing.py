"""Completions of the command line besides options: names of formats, profiles and the like."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator

import click
from click.shell_completion import CompletionItem

#: What click asks: the context, the parameter and the word as far as it is typed.
Completer = Callable[[click.Context, click.Parameter, str], list[CompletionItem]]


def _completer(names: Callable[[], Iterable[str]], *, files: bool = False) -> Completer:
    """Return a completer of names, imported when it is asked; or of files, where no name begins so."""

    def complete(context: click.Context, parameter: click.Parameter, incomplete: str) -> list[CompletionItem]:
        found = [CompletionItem(name) for name in names() if name.startswith(incomplete)]
        return found or ([CompletionItem(incomplete, type="file")] if files else [])

    return complete


def _formats() -> Iterator[str]:
    """Formats and codebooks."""
    from lowprec.spec.catalog import FORMATS
    from lowprec.spec.codebooks import ENTRIES

    yield from FORMATS
    yield from ENTRIES


def _block_formats() -> Iterator[str]:
    """Block formats."""
    from lowprec.spec.catalog import BLOCK_FORMATS

    yield from BLOCK_FORMATS


def _targets() -> Iterator[str]:
    """Formats, codebooks and block formats."""
    yield from _formats()
    yield from _block_formats()


def _operands() -> Iterator[str]:
    """Formats that operands may have, integers too."""
    yield from _formats()
    yield from ("int32", "int64")


def _accumulations() -> Iterator[str]:
    """Accumulations and library calls."""
    from lowprec.spec.accumulations import ACCUMULATIONS
    from lowprec.spec.library_calls import LIBRARY_CALLS

    yield from ACCUMULATIONS
    yield from LIBRARY_CALLS


def _profiles() -> Iterator[str]:
    """Profiles."""
    from lowprec.spec.profiles import PROFILES

    yield from PROFILES


def _anything() -> Iterator[str]:
    """Yield every name."""
    yield from _targets()
    yield from _accumulations()
    yield from _profiles()


def _roundings() -> Iterator[str]:
    """Rounding modes."""
    from lowprec.spec.rounding import MODES

    yield from (mode.name for mode in MODES)


def _saturations() -> Iterator[str]:
    """Saturation policies."""
    from lowprec.spec.projection import Saturation

    yield from (policy.value for policy in Saturation)


def _rules() -> Iterator[str]:
    """Scale rules."""
    from lowprec.spec.block import RULES

    yield from (rule.name for rule in RULES)


def _operations() -> Iterator[str]:
    """Operations and functions."""
    from lowprec.spec.arith import OPERANDS
    from lowprec.spec.functions import FUNCTIONS

    yield from ("convert", "cast", "blocks", "block", "dot", "matmul")
    yield from OPERANDS
    yield from FUNCTIONS


def _sources() -> Iterator[str]:
    """Types of the values that casts read."""
    from lowprec.verify.inputs.conversions import SOURCES

    yield from SOURCES


def _frameworks() -> Iterator[str]:
    """Frameworks that conform knows, installed or not."""
    from lowprec.verify.frameworks import FRAMEWORKS

    yield from FRAMEWORKS


def _none() -> Iterator[str]:
    """Yield no names."""
    yield from ()


formats, targets = _completer(_formats, files=True), _completer(_targets, files=True)
operands, anything = _completer(_operands, files=True), _completer(_anything, files=True)
accumulations, profiles = _completer(_accumulations, files=True), _completer(_profiles, files=True)
roundings, saturations, rules = _completer(_roundings), _completer(_saturations), _completer(_rules)
operations, sources, frameworks = _completer(_operations), _completer(_sources), _completer(_frameworks)
paths = _completer(_none, files=True)
