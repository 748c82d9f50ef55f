"""Interface of frameworks to a conformance run: a framework's tasks, and how each is given to it."""

from __future__ import annotations

import importlib.metadata
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from lowprec.arrays.checks import code_dtype
from lowprec.spec import catalog
from lowprec.spec.format import Format
from lowprec.spec.projection import DEFAULT, Projection
from lowprec.verify.frameworks.tasks import Arithmetic, Cast, Task
from lowprec.verify.inputs.conversions import SOURCES

__all__ = ["Answer", "Array", "Framework", "arithmetic", "codes_in", "formats", "library", "none"]

Array = npt.NDArray[Any]

#: Operands to codes, one for each case; or to values, from a library that has no codes.
Answer = Callable[..., Array]


def none() -> dict[Task, Answer]:
    """Return no tasks: a framework that only casts."""
    return {}


@dataclass(frozen=True)
class Framework:
    """A library, or one of the ways to ask it: which tasks it can do, and how.

    Parameters
    ----------
    name : str
        As on the command line.
    package : str
        The distribution whose version counts.
    install : str
        What to type to have it.
    sources : tuple of str
        Names in `cases.SOURCES`: what its casts read.
    targets : function
        Gives the formats of its casts; called where the package is installed.
    cast : function
        Values of a source type and a format to the format's codes, or to its values as floats.
    others : function
        Gives the tasks that are no casts, each with its answer: arithmetic, blocks.
    projection : Projection
        What it is asked for, and so what the reference is asked for too.
    needs : tuple of str
        Further distributions that the adapter works with.
    few : bool
        One call for each value: ties, neighbours, thresholds, borders and specials, nothing random.
    """

    name: str
    package: str
    install: str
    sources: tuple[str, ...]
    targets: Callable[[], tuple[Format, ...]]
    cast: Callable[[Array, Format], Array]
    others: Callable[[], Mapping[Task, Answer]] = none
    projection: Projection = DEFAULT
    needs: tuple[str, ...] = ()
    few: bool = False

    @property
    def version(self) -> str | None:
        """The installed version, or None where anything that is needed is missing."""
        try:
            version, *_ = [importlib.metadata.version(name) for name in (self.package, *self.needs)]
        except importlib.metadata.PackageNotFoundError:
            return None
        return version

    def tasks(self) -> dict[Task, Answer]:
        """Return all that it can do, casts first."""

        def caster(target: Format) -> Answer:
            return lambda values: self.cast(values, target)

        casts: dict[Task, Answer] = {
            Cast(source, target): caster(target)
            for target in self.targets()
            for source in self.sources
            if catalog.carrier(source) != target
        }
        return casts | dict(self.others())


def formats(names: str) -> tuple[Format, ...]:
    """Return the formats of these names."""
    return tuple(map(catalog.format, names.split()))


def codes_in(fmt: Format, made: Any) -> Array:
    """Return the bits of what a library made as codes of a format."""
    return np.asarray(made).view(code_dtype(fmt))


def library(
    name: str,
    cast: Callable[[Array, Format], Array],
    targets: Callable[[], tuple[Format, ...]] | str,
    *,
    package: str = "",
    install: str = "",
    sources: str | None = "",
    others: Callable[[], Mapping[Task, Answer]] = none,
    **more: Any,
) -> Framework:
    """Return a library as a framework, whose casts may set NumPy's floating-point flags.

    Parameters
    ----------
    name, cast, others, more
        As for `Framework`.
    targets : function, or str
        As for `Framework`, or names of formats.
    package, install : str, optional
        By default the name, and its installation by pip.
    sources : str or None, optional
        Names; by default all; None: none.
    """
    return Framework(
        name,
        package or name,
        f"pip install {install or package or name}",
        () if sources is None else tuple(sources.split()) or tuple(SOURCES),
        (lambda: formats(targets)) if isinstance(targets, str) else targets,
        np.errstate(all="ignore")(cast),
        others,
        **more,
    )


def arithmetic(
    operations: Iterable[str], formats: Iterable[Format], function: Callable[..., Array]
) -> dict[Task, Answer]:
    """Return the tasks that one function of an operation, a format and codes does."""

    def answer(operation: str, fmt: Format) -> Answer:
        return lambda *operands: function(operation, fmt, *operands)

    return {Arithmetic(operation, fmt): answer(operation, fmt) for fmt in formats for operation in operations}
