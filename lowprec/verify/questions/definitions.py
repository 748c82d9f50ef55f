"""Texts by which a baseline knows the specifications that it was asked about."""

from __future__ import annotations

import hashlib
from typing import Any

from lowprec.spec import catalog
from lowprec.spec.accumulation import Accumulation
from lowprec.spec.accumulations import accumulation
from lowprec.spec.block import BlockFormat
from lowprec.spec.format import Carrier, Format

__all__ = ["definition"]


def definition(spec: Format | BlockFormat | Accumulation) -> str:
    """Return a text that equal specifications alone share: a name, with a digest where no catalog has it.

    >>> mine = Format(name="e4m3fn", exponent_bits=4, trailing_bits=3, bias=9)
    >>> definition(catalog.E4M3FN), definition(mine).partition(":")[0]
    ('e4m3fn', 'e4m3fn sha256')
    """
    found: Any = catalog.block_format if isinstance(spec, BlockFormat) else catalog.format
    found = accumulation if isinstance(spec, Accumulation) else found
    try:
        if isinstance(spec, Carrier) or found(spec.name) == spec:
            return spec.name
    except ValueError:  # no catalog has the name
        pass
    return f"{spec.name} sha256:{hashlib.sha256(repr(spec).encode()).hexdigest()[:16]}".lstrip()
