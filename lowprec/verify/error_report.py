"""Functions of arrays that take the names of arrays in files too."""

from __future__ import annotations

import functools
from typing import Any

from lowprec.arrays.measures import statistics
from lowprec.arrays.measures.errors import ErrorReport
from lowprec.spec import catalog

__all__ = ["error_report"]


@functools.wraps(statistics.error_report)
def error_report(values: Any, *arguments: Any, **options: Any) -> ErrorReport:
    """Measure what a format does to values, or to those that a string such as "m.safetensors:NAME" names."""
    if isinstance(values, str) and not _is_format(values):
        from lowprec.verify.dumps.files import open_dump

        values = open_dump(values)
        values.check_named()
    return statistics.error_report(values, *arguments, **options)


error_report.__module__ = __name__  # where pickle looks for it


def _is_format(name: str) -> bool:
    """Return whether a string names a format: then it is refused as before, since values come first."""
    try:
        catalog.format(name)
    except (TypeError, ValueError):
        return catalog.is_block(name)
    return True
