"""Checking formats, operations and block formats: every law that says anything about them, tried at once."""

from __future__ import annotations

import dataclasses
import functools
import itertools
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any

import numpy as np

from lowprec.spec import catalog
from lowprec.spec.arith import operands_of
from lowprec.spec.block import BlockFormat
from lowprec.spec.format import Format
from lowprec.spec.functions import FUNCTIONS
from lowprec.spec.profiles import Profile
from lowprec.spec.projection import Projection, Saturation
from lowprec.spec.rounding import MODES, Rounding
from lowprec.testing.answers import check_count
from lowprec.testing.block import ArrayBlocks, BlockSubject, OracleBlocks, OwnBlocks
from lowprec.testing.grid import Array
from lowprec.testing.implementation import Implementation, name_of
from lowprec.testing.law import Report, Topic, Verdict
from lowprec.testing.laws import verdicts
from lowprec.testing.operation import OperationSubject, answered, of_arrays, of_oracle
from lowprec.testing.subjects import Arrays, Oracle, Subject
from lowprec.verify.difference import Difference


def check_format(fmt: Format | str | Any, *, samples: int = 256, seed: int = 0) -> Report:
    """Try every law on a format, or on an implementation of one, and refuse it where one does not hold.

    Of a `Format` the verbs on arrays and the oracle are tried: all codes up to 16 bits, and every value,
    tie and threshold with its neighbours. What is expected follows from the parameters alone.

    >>> import lowprec as lp
    >>> mine = lp.Format(name="mine", exponent_bits=2, trailing_bits=2, bias=1, nans=1)
    >>> check_format(mine)  # doctest: +ELLIPSIS
    <Report of mine: ... checks, ... cases, all hold>

    An implementation of your own is any object with `decode`, from an array of unsigned codes to their
    values, and optionally with `encode`, from an array of float64 to codes. It says how many bits its codes
    have (`width`) and may say its `sign` ("magnitude", "unsigned" or "twos_complement"), the `rounding` and
    the `saturation` of its `encode` ("nearest_even" and "none" by default) and its `name`; or the `format`
    that it is meant to be, a `Format` or a name, whose parameters it is then held against.

    >>> class Broken:
    ...     name, width = "broken", 4
    ...     def decode(self, codes):
    ...         return [[0, 1, 3, 2, 4, 5, 6, 7, -0.0, -1, -3, -2, -4, -5, -6, -7][code] for code in codes]
    >>> check_format(Broken())
    Traceback (most recent call last):
    AssertionError: broken breaks the law 'increasing'
      law     A larger magnitude stands for a larger value.
      domain  finite codes with a clear sign bit
      smallest counterexample
        code  0x2  0 010  3.0 = 0x1.8p+1
        next  0x3  0 011  2.0 = 0x1p+1
        want  more than 3.0 = 0x1.8p+1

    Parameters
    ----------
    fmt : Format, str, dtype, or an object with `decode`
    samples : int
        Random numbers beside the cases.
    seed : int
        Of these.

    Returns
    -------
    report : Report
        What was tried.

    Raises
    ------
    AssertionError
        A law that does not hold: its name and statement, the smallest counterexample, its code, bits and
        value.
    ValueError
        No format; or an implementation that does not say its width, or that answers in another shape.
    TypeError
        Something that is neither.
    """
    return report_of(fmt, samples=samples, seed=seed).demand()


#: Called with the verdicts that there are, None as nobody knows how many there will be, and the last law's
#: name.
Watch = Callable[[int, None, str], None]


def report_of(
    fmt: Format | str | Any, *, samples: int = 256, seed: int = 0, watch: Watch | None = None
) -> Report:
    """Return what `check_format` finds, without an error where a law does not hold."""
    _check_samples(samples, seed)
    if isinstance(fmt, BlockFormat) or (isinstance(fmt, str) and catalog.is_block(fmt)):
        name = fmt if isinstance(fmt, str) else fmt.name
        raise ValueError(f"{name!r} is a block format: check_block_format is for these")
    if isinstance(fmt, type) and callable(getattr(fmt, "decode", None)):
        raise TypeError(
            f"check_format takes an object, not the class {fmt.__name__}; make one: {fmt.__name__}()"
        )
    if not isinstance(fmt, Format) and callable(getattr(fmt, "decode", None)) and not isinstance(fmt, str):
        own = Implementation(fmt, samples, seed)
        return Report(own.name, _watched(verdicts("format", own), watch))
    try:
        known = catalog.format(fmt)
    except TypeError:
        raise TypeError(
            f"check_format takes a Format, a name, or an object with decode(codes) and width, not {fmt!r}"
        ) from None
    subjects: tuple[Subject, ...] = (Arrays(known, samples, seed), Arrays(known, flagged=True), Oracle(known))
    tried = itertools.chain(*(verdicts("format", subject) for subject in subjects), _arithmetic(known, seed))
    return Report(known.name, _watched(tried, watch))


def _watched(verdicts: Iterable[Verdict], watch: Watch | None) -> tuple[Verdict, ...]:
    """Collect verdicts, telling `watch` of each as it is found."""
    found: list[Verdict] = []
    for verdict in verdicts:
        found.append(verdict)
        if watch is not None:
            watch(len(found), None, f"{verdict.law.name} ({verdict.path})")
    return tuple(found)


#: The operations that a check of a format tries, and the operands that they take.
_OPERATIONS = {"add": 2, "subtract": 2, "multiply": 2, "divide": 2, "sqrt": 1, "fma": 3}


def _arithmetic(fmt: Format, seed: int) -> Iterator[Verdict]:
    """Yield the laws of arithmetic on operations in one format, a verdict for each law and path."""
    makers = (of_arrays, functools.partial(of_arrays, flagged=True), of_oracle)
    for make in makers:
        merged: dict[str, Verdict] = {}
        for mode in ("nearest_even", "toward_negative"):
            for name, count in _OPERATIONS.items():
                how = Projection(rounding=mode)
                for verdict in verdicts("operation", make(name, (fmt,) * count, fmt, how, 48, seed)):
                    known = merged.get(verdict.law.name, dataclasses.replace(verdict, tried=0, found=None))
                    found, tried = known.found or _of(verdict.found, name), known.tried + verdict.tried
                    merged[verdict.law.name] = dataclasses.replace(known, tried=tried, found=found)
        yield from merged.values()


def _of(found: Difference | None, name: str) -> Difference | None:
    """Return a counterexample that says of which operation it is."""
    return None if found is None else Difference((("operation", name), *found.rows))


def check_operation(
    function: Callable[..., Any],
    operation: str,
    formats: Format | str | Sequence[Format | str],
    *,
    target: Format | str | None = None,
    rounding: Rounding | str | None = None,
    saturation: Saturation | str | None = None,
    projection: Projection | None = None,
    profile: Profile | str | None = None,
    ulps: int = 0,
    samples: int = 1 << 14,
    seed: int = 0,
) -> Report:
    """Try every law of arithmetic or of functions on a function of codes; refuse it where one fails.

    >>> import lowprec as lp
    >>> def mine(x, y):
    ...     return lp.add(lp.decode(x, "e2m1fn"), lp.decode(y, "e2m1fn"), "e2m1fn")
    >>> check_operation(mine, "add", "e2m1fn")
    <Report of mine: 4 checks, 764 cases, all hold>

    A unit of a function, such as exp2, is held against its values, rounded once. Few units are that exact:
    `ulps` is their budget.

    >>> def unit(x):
    ...     return np.exp2(lp.decode(x, "bfloat16")).view(np.uint32) >> 16
    >>> check_operation(unit, "exp2", "bfloat16", ulps=1)
    <Report of unit: 2 checks, 131,072 cases, all hold>

    Parameters
    ----------
    function : function
        Takes an array of unsigned codes for each operand, all of one axis, and gives codes of the target as
        integers, the target's own type (`lowprec.dtype`), or values of it as floats.
    operation : str
        What it should be: add, subtract, multiply, divide, sqrt, fma, ... (`lowprec.spec.arith.OPERANDS`),
        or a function: exp, log, sin, ... (`lowprec.spec.functions.FUNCTIONS`; needs python-flint).
    formats : Format, str, or one of them for each operand
    target : Format or str, optional
        Of the result; by default the first operand's.
    rounding, saturation, projection, profile
        What it should do, as for `lowprec.add`; deterministic. What would be refused as a NaN without a code
        should be the largest value of its sign.
    ulps : int
        Codes by which results of a function may differ; NaNs and infinities may not.
    samples : int
        Cases, where not all combinations of operands are fewer; zeros, infinities and their like are among
        them, and single operands of 16 bits are all tried.
    seed : int
        Of the random ones.

    Returns
    -------
    report : Report

    Raises
    ------
    AssertionError
        A law that does not hold: its name, the smallest counterexample found and its bits.
    ValueError
        An unknown operation, formats or a projection that do not fit; or an answer of another shape.
    TypeError
        An answer that is neither codes nor values.
    """
    from lowprec.arrays.checks import code_dtype, projection as rules_of
    from lowprec.testing.answers import check_callable, codes_of

    check_callable("check_operation", function)
    count = operands_of(operation)
    given = [formats] * count if isinstance(formats, Format | str) else list(formats)
    chosen = tuple(catalog.format(fmt) for fmt in given)
    if len(chosen) != count:
        raise ValueError(
            f"{operation} takes {count} operands, and {len(chosen)} formats are given; give one for each"
        )
    into = chosen[0] if target is None else catalog.format(target)
    check_count("samples", samples, 1)
    check_count("seed", seed)
    check_count("ulps", ulps)
    if ulps and operation not in FUNCTIONS:
        raise ValueError(f"ulps= is for functions such as exp, which units approximate, not for {operation}")
    if count == 1 and chosen[0].width <= 16:
        samples = max(samples, 1 << chosen[0].width)
    how = answered(rules_of(into, rounding, saturation, projection, profile), into)
    if how.rounding not in MODES:
        raise ValueError(f"rounding {how.rounding} is not among the deterministic modes that laws are about")
    name = name_of(function)

    def call(_: str, codes: list[Array]) -> Array:
        typed = [column.astype(code_dtype(fmt)) for column, fmt in zip(codes, chosen, strict=True)]
        with np.errstate(all="ignore"):
            return codes_of(function(*typed), typed, into, name)

    topic: Topic = "function" if operation in FUNCTIONS else "operation"
    own = OperationSubject(
        operation, chosen, into, how, name, call, samples, seed, siblings=False, budget=ulps
    )
    return Report(name, tuple(verdicts(topic, own))).demand()


def check_block_format(fmt: BlockFormat | str | Any, *, samples: int = 64, seed: int = 0) -> Report:
    """Try every law of blocks on a block format or an implementation of one; refuse it where one fails.

    Of a `BlockFormat` the verbs on arrays and the oracle are tried, on blocks whose largest values lie at
    every border of the scale rules, on random ones, and on any codes. `check_format` is for its elements and
    its scale.

    >>> import lowprec as lp
    >>> mine = lp.BlockFormat(
    ...     name="mine", element=lp.format("e2m1fn"), scale=lp.format("e8m0fnu"), size=8, rule="rceil"
    ... )
    >>> check_block_format(mine)  # doctest: +ELLIPSIS
    <Report of mine: ... checks, ... cases, all hold>

    An implementation of your own is any object with the `format` that it is meant to be, and with `encode`,
    `decode` or both. BlockSubject are rows: `encode` takes float32 values of shape (n, size) and gives codes
    of the scales, shape (n,), and of the elements, shape (n, size); `decode` takes these and gives values.
    Where there is a scale of the whole tensor, it comes third.

    Parameters
    ----------
    fmt : BlockFormat, str, or an object with `format`
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
        No block format, or an implementation that answers in another shape.
    TypeError
        Something that is neither.
    """
    return report_of_blocks(fmt, samples=samples, seed=seed).demand()


def report_of_blocks(
    fmt: BlockFormat | str | Any, *, samples: int = 64, seed: int = 0, watch: Watch | None = None
) -> Report:
    """Return what `check_block_format` finds, without an error where a law does not hold."""
    _check_samples(samples, seed)
    subjects: tuple[BlockSubject, ...]
    if isinstance(fmt, BlockFormat | str):
        known = catalog.block_format(fmt)
        name, subjects = (
            known.name,
            (ArrayBlocks(known, samples, seed), OracleBlocks(known, min(samples, 8), seed)),
        )
    elif isinstance(fmt, type) and hasattr(fmt, "format"):
        raise TypeError(
            f"check_block_format takes an object, not the class {fmt.__name__}; make one: {fmt.__name__}()"
        )
    elif hasattr(fmt, "format") and any(callable(getattr(fmt, verb, None)) for verb in ("encode", "decode")):
        name, subjects = name_of(fmt), (OwnBlocks(fmt, samples, seed),)
    else:
        raise TypeError(
            "check_block_format takes a BlockFormat, a name, or an object with format and with encode or "
            f"decode, not {fmt!r}"
        )
    tried = itertools.chain.from_iterable(verdicts("blocks", subject) for subject in subjects)
    return Report(name, _watched(tried, watch))


def _check_samples(samples: int, seed: int) -> None:
    check_count("samples", samples)
    check_count("seed", seed)
