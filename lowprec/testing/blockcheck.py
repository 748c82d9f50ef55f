"""Checking a block format: laws of scales and elements, on the verbs and on the oracle.

Floor 5.
"""

from __future__ import annotations

import functools
from fractions import Fraction
from typing import Any

import numpy as np
import numpy.typing as npt

from lowprec.spec import catalog
from lowprec.spec.block import BlockFormat
from lowprec.spec.format import Format, Sign
from lowprec.testing.grid import grid_of
from lowprec.testing.law import LAWS, Report, Verdict, message
from lowprec.testing.operationcheck import decoded

__all__ = ["Blocks", "check_block_format", "report_of_blocks"]

Array = npt.NDArray[Any]

#: Elements of a block that laws look at one by one.
_SOME = 64


class Blocks:
    """An implementation of a block format, as laws see it: a block is a row of float64 values."""

    def __init__(self, fmt: BlockFormat, path: str, samples: int, seed: int) -> None:
        self.fmt, self.path, self.samples, self.seed = fmt, path, samples, seed

    @functools.cached_property
    def size(self) -> int:
        """Values of a block."""
        size = 1
        for length in self.fmt.sizes:
            size *= length
        return size

    @functools.cached_property
    def rows(self) -> npt.NDArray[np.float64]:
        """Blocks of finite float32 numbers: scales at every border of the rules, and random elements."""
        random = np.random.default_rng(self.seed)
        grid = grid_of(self.fmt.element)
        top = float(grid.value(grid.last))
        marks = np.array([1.0, 1.2, 4 / 3, 2**0.5, 1.5, 1.75, 1.99, top, top / 2, top * 1.5, top * 1.25], np.float32)
        near = np.concatenate([marks, np.nextafter(marks, np.float32(np.inf)), np.nextafter(marks, np.float32(0))])
        exponents = [0, 1, -1, 7, -20, 60, -60, 100, -110, -126, 119]
        few = 2 if self.size > 256 else len(exponents) if self.path == "arrays" else 3
        largest = np.concatenate([near * np.float32(2.0) ** power for power in exponents[:few]])
        drawn = np.exp2(random.uniform(-140, 120, self.samples)).astype(np.float32)
        largest = np.concatenate([largest, drawn])
        most = None if self.size <= 256 else 12 if self.path == "arrays" else 2
        largest = largest[np.isfinite(largest) & (largest > 0)][:most]
        shares = random.uniform(-1, 1, (largest.size, self.size)).astype(np.float32)
        shares *= np.exp2(random.integers(-6, 1, shares.shape)).astype(np.float32)
        rows = (shares * largest[:, None]).astype(np.float32)
        lead = random.integers(0, self.size, largest.size)
        signs = np.where(random.integers(0, 2, largest.size) > 0, -1, 1) if self.signed else np.ones(largest.size)
        rows[np.arange(largest.size), lead] = largest * signs
        rows = rows if self.signed else np.abs(rows)
        zeros = np.zeros((1, self.size), np.float32)
        return np.concatenate([zeros, -zeros if self.signed else zeros, rows]).astype(np.float64)

    @property
    def signed(self) -> bool:
        """Whether elements can be negative."""
        return self.fmt.element.sign is not Sign.UNSIGNED

    def encode(self, rows: Array) -> tuple[Array, Array, Fraction]:
        """Codes of the scales, codes of the elements, and the tensor's scale."""
        if self.path == "oracle":
            return self._by_oracle(rows)
        from lowprec.arrays.convert import encode

        made = encode(self._laid(rows), self.fmt)
        tensor = Fraction(1) if made.tensor_scale is None else Fraction(float(made.tensor_scale))
        return made.scales.reshape(-1).astype(np.int64), self._rows(made.codes.astype(np.int64)), tensor

    def decode(self, scales: Array, codes: Array, tensor: Fraction) -> Array:
        """The values of blocks, as float64."""
        if self.path == "oracle":
            from lowprec.oracle.block import decode as decode_block
            from lowprec.oracle.exact import to_float

            pairs = zip(scales.tolist(), codes.tolist(), strict=True)
            return np.array([[to_float(v) for v in decode_block(s, row, self.fmt, tensor)] for s, row in pairs])
        from lowprec.arrays.block import BlockArray
        from lowprec.arrays.checks import code_dtype
        from lowprec.arrays.convert import decode

        laid = self._laid(codes).astype(code_dtype(self.fmt.element))
        shape = (scales.size, 1) if len(self.fmt.sizes) == 2 else (scales.size,)
        given = None if self.fmt.tensor_scale == "none" else float(tensor)
        array = BlockArray(laid, scales.reshape(shape).astype(code_dtype(self.fmt.scale)), self.fmt, (), given)  # type: ignore[arg-type]
        return self._rows(np.asarray(decode(array, dtype="float64")))

    def _laid(self, rows: Array) -> Array:
        """Blocks in an array: one after the other along an axis, or tiles below each other."""
        kind = np.float32 if rows.dtype.kind == "f" else rows.dtype
        typed = rows.astype(kind)
        return typed.reshape(-1, self.fmt.sizes[-1]) if len(self.fmt.sizes) == 2 else typed.ravel()

    def _rows(self, laid: Array) -> Array:
        return laid.reshape(-1, self.size)

    def _by_oracle(self, rows: Array) -> tuple[Array, Array, Fraction]:
        from lowprec.oracle.block import encode as encode_block, tensor_scale
        from lowprec.oracle.exact import from_float

        exact = [[from_float(value) for value in row] for row in rows.tolist()]
        tensor = tensor_scale([value for row in exact for value in row], self.fmt)
        made = [encode_block(row, self.fmt, tensor) for row in exact]
        return np.array([scale for scale, _ in made]), np.array([codes for _, codes in made]), tensor.value

    @functools.cached_property
    def encoded(self) -> tuple[Array, Array, Fraction]:
        """The codes of `rows`."""
        return self.encode(self.rows)

    @functools.cached_property
    def scale_values(self) -> Array:
        """The values of the scales of `rows`, by the parameters of their format."""
        return decoded(self.encoded[0], self.fmt.scale)

    def shown(self, code: int, fmt: Format) -> str:
        """A code of an element or a scale."""
        from lowprec.testing.operationcheck import Shown

        return Shown(fmt).shown(int(code))


def report_of_blocks(fmt: BlockFormat | str, *, samples: int = 64, seed: int = 0) -> Report:
    """What `check_block_format` finds, without an error where a law does not hold."""
    import lowprec.testing.laws  # noqa: F401 - enters them

    if samples < 0 or seed < 0:
        raise ValueError(f"samples and seed must not be negative, not {samples} and {seed}")
    known = catalog.block_format(fmt)
    verdicts = []
    for path in ("arrays", "oracle"):
        subject = Blocks(known, path, samples if path == "arrays" else min(samples, 8), seed)
        for law in LAWS.values():
            if law.topic == "blocks" and law.applies(subject):
                with np.errstate(all="ignore"):
                    outcome = law.check(subject)
                verdicts.append(Verdict(law, path, outcome.tried, outcome.found))
    return Report(known.name, tuple(verdicts))


def check_block_format(fmt: BlockFormat | str, *, samples: int = 64, seed: int = 0) -> Report:
    """Try every law of blocks on a block format, and refuse it where one does not hold.

    The verbs on arrays and the oracle are tried on blocks whose largest values lie at every border of the
    scale rules, and on random ones. `check_format` is for its elements and its scale.

    >>> import lowprec as lp
    >>> mine = lp.BlockFormat(
    ...     name="mine", element=lp.format("e2m1fn"), scale=lp.format("e8m0fnu"), size=8, rule="rceil"
    ... )
    >>> check_block_format(mine)  # doctest: +ELLIPSIS
    <Report of mine: ... checks, ... cases, all hold>

    Parameters
    ----------
    fmt : BlockFormat or str
    samples : int
        Random blocks beside the cases.
    seed : int
        Of these.

    Returns
    -------
    report : Report

    Raises
    ------
    AssertionError
        A law that does not hold, with the smallest counterexample found.
    ValueError
        No block format.
    """
    report = report_of_blocks(fmt, samples=samples, seed=seed)
    if report.broken:
        raise AssertionError(message(report))
    return report
