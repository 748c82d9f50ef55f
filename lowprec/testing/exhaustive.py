"""Checking a function on every input, once for each key: what the plugin's `lowprec_exhaustive` is."""

from __future__ import annotations

import hashlib
import json
import re
import warnings
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from lowprec import __version__
from lowprec.arrays.checks import code_dtype
from lowprec.spec import catalog
from lowprec.spec.arith import operands_of
from lowprec.spec.format import Format
from lowprec.spec.profiles import Profile
from lowprec.spec.projection import Projection, Saturation
from lowprec.spec.rounding import Rounding
from lowprec.testing.answers import check_callable, codes_or_values
from lowprec.testing.grid import Array
from lowprec.testing.implementation import name_of
from lowprec.verify.compare.compare import compare
from lowprec.verify.inputs.conversions import SOURCES
from lowprec.verify.sweeps.exhaustive import CHUNK, SIZE, shard
from lowprec.verify.sweeps.keeping import Keeper, SweepError

#: Bits of all operands of a range together, at most, except for those of float32.
_BITS = 16


@dataclass
class Exhaustive:
    """Checks of one test on every input; what was right for a key is not computed again.

    Parameters
    ----------
    folder : Path
        Where digests are kept, a file for each check.
    test : str
        The test's name.
    shard : str
        Such as "1/4": the ranges to check.
    fresh : bool
        Whether what is kept is checked again.
    """

    folder: Path
    test: str
    shard: str = "1/1"
    fresh: bool = False
    _seen: set[str] = field(default_factory=set)

    def __call__(
        self,
        function: Callable[..., Any],
        to: Format | str,
        *,
        key: str,
        source: Format | str = "float32",
        operation: str = "convert",
        rounding: Rounding | str | None = None,
        saturation: Saturation | str | None = None,
        projection: Projection | None = None,
        profile: Profile | str | None = None,
        any_nan: bool = False,
        ulps: int | None = None,
    ) -> dict[int, str]:
        """Hold a function against the reference on every input, and refuse it where one result differs.

        Conversions from float32 are 256 ranges of 2**24 numbers. From a narrower source all numbers, codes,
        or combinations of codes are one range, which is in the first shard.

        Parameters
        ----------
        function : function
            Takes an array of one axis for each operand, and gives codes or values, as for `check_cast`.
        to : Format or str
            The format of its results.
        key : str
            A text that changes whenever the function does: a version, the hash of a file.
        source : Format or str
            Of the operands: float32, float16 or bfloat16 for arrays of it, else a format, for its codes.
        operation, rounding, saturation, projection, profile, any_nan, ulps
            What it should do, as for `lowprec.compare`.

        Returns
        -------
        digests : dict of int to str
            SHA-256 of the codes of each range of the shard.

        Raises
        ------
        AssertionError
            Results differ: the report of `lowprec.compare` on the first range where they do.
        SweepError
            Digests cannot be kept, or are those of another version of lowprec.
        TypeError, ValueError
            No function, no key, more inputs than are tried, or a second check of the same name.
        """
        check_callable("lowprec_exhaustive", function)
        if not (isinstance(key, str) and key):
            raise TypeError(
                f"key must be a text that changes whenever the function does, such as a version, not {key!r}"
            )
        given, fmt, subject = catalog.format(source), catalog.format(to), name_of(function)
        count, singles = 1 if operation == "convert" else operands_of(operation), source == "float32"
        if given.width * count > _BITS and not (singles and count == 1):
            raise ValueError(
                f"{operation} of {given.name} has 2**{given.width * count} inputs, which are too many; all "
                f"are tried of one float32, or of operands of {_BITS} bits together. lowprec_check tries "
                "those that matter"
            )
        how: dict[str, Any] = {"rounding": rounding, "saturation": saturation, "projection": projection}
        how |= {"profile": profile, "any_nan": any_nan, "ulps": ulps}
        called = f"{self.test} {subject} {operation} {source} {fmt.name} {' '.join(map(str, how.values()))}"
        file = re.sub("[^A-Za-z0-9]+", "-", f"{self.test} {fmt.name}").strip("-")[:80]
        file += f"-{hashlib.sha256(called.encode()).hexdigest()[:12]}.json"
        if file in self._seen:
            raise ValueError(
                f"{self.test} checks two functions called {subject} alike, and their digests would have one "
                "name; give them names of their own, or put them into two tests"
            )
        self._seen.add(file)
        rules = how | ({"profile": profile.projection(fmt)} if isinstance(profile, Profile) else {})
        asked = {"key": key, "check": called, "formats": repr((given, fmt)), "how": repr(rules)}

        def read(content: bytes) -> dict[int, str]:
            kept = json.loads(content)
            if kept["lowprec"] != __version__:
                raise SweepError(
                    f"{str(self.folder / file)!r} is of lowprec {kept['lowprec']}, this is {__version__}, "
                    "whose rules may be others; remove it, or check again with pytest --lowprec-fresh"
                )
            return {int(index): digest for index, digest in kept["digests"].items() if kept["asked"] == asked}

        keeper = Keeper(self.folder, fresh=self.fresh, way_out="let pytest write there")
        digests: dict[int, str] = keeper.load(file, read) or {}
        for line in keeper.damaged:
            warnings.warn(line, stacklevel=2)
        ranges = [index for index in shard(self.shard) if singles or not index]
        for index in [each for each in ranges if each not in digests]:
            operands = _operands(given, count, index)
            if source in SOURCES:
                operands = tuple(column.view(SOURCES[str(source)]) for column in operands)
            answers = []
            for place in range(0, operands[0].size, CHUNK):
                part = [column[place : place + CHUNK] for column in operands]
                with np.errstate(all="ignore"):  # it is judged by its results, and may write to its operands
                    answer = function(*(column.copy() for column in part))
                answers.append(
                    codes_or_values(answer, part, fmt, subject).copy()
                )  # it may use its buffer again
            results = np.concatenate(answers)
            report = compare(
                operands if operation != "convert" else operands[0],
                results,
                fmt,
                operation=operation,
                source=None if source in SOURCES else given,
                limit=1,
                **how,
            )
            if report.mismatches:
                raise AssertionError(f"{subject} is not {operation} of {source} to {fmt.name}:\n{report}")
            results = results.astype(results.dtype.newbyteorder("<"), copy=False)
            digests[index] = hashlib.sha256(results.data).hexdigest()
            with keeper.adding(file, read, ranges) as others:
                kept = {"lowprec": __version__, "asked": asked, "digests": others | digests}
                keeper.store(file, json.dumps(kept, indent=1).encode())
        return {index: digests[index] for index in ranges}


def _operands(fmt: Format, count: int, index: int) -> tuple[Array, ...]:
    """Return all combinations of codes of narrow operands, or a range of those of float32."""
    if fmt.width * count > _BITS:
        return (np.arange(index * SIZE, (index + 1) * SIZE, dtype=np.uint32),)
    size = 1 << fmt.width
    columns = np.unravel_index(np.arange(size**count), (size,) * count)
    return tuple(column.astype(code_dtype(fmt)) for column in columns)
