"""`lowprec.compare`: results held against what they must be."""

from __future__ import annotations

import functools
import math
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from lowprec.arrays.blocks.block import asked as block_asked
from lowprec.arrays.blocks.block_stream import axes_of, grid_of
from lowprec.arrays.checks import as_array, code_dtype, keeps_dtype, projection as projection_of
from lowprec.arrays.kinds import check_labels, check_products
from lowprec.arrays.random import integers_for, with_integers
from lowprec.kernels.modes import usual_modes
from lowprec.spec import catalog
from lowprec.spec.accumulation import Accumulation
from lowprec.spec.accumulations import accumulation as accumulation_of
from lowprec.spec.block import BlockFormat, ScaleRule
from lowprec.spec.epilogue import LibraryCall
from lowprec.spec.format import Format
from lowprec.spec.library_calls import library_call
from lowprec.spec.profiles import Profile
from lowprec.spec.projection import Projection, Saturation
from lowprec.spec.rounding import Rounding
from lowprec.verify.codes.display import quoted
from lowprec.verify.codes.values import is_values, on_grid, words_of
from lowprec.verify.compare.failures import Failures
from lowprec.verify.compare.judging import Watch, judge, judge_flags, rank_accumulations, rank_formats
from lowprec.verify.compare.report import Comparison, Ranked
from lowprec.verify.dumps.files import Dump, Held, Values, open_dump, open_results
from lowprec.verify.dumps.weights import WeightDump
from lowprec.verify.questions.blocks.blocks import BlockQuestion
from lowprec.verify.questions.dots.dots import DotQuestion
from lowprec.verify.questions.elements.elements import ElementQuestion
from lowprec.verify.questions.elements.flags import FlagQuestion
from lowprec.verify.questions.elements.scaled import ScaledQuestion, Scaling
from lowprec.verify.questions.question import Budget, Each, Question, budget, each_here
from lowprec.verify.reference.operations import OPERATIONS, check_operands

__all__ = ["DOTS", "compare", "drawn_integers"]

#: Operations that sum products by an accumulation.
DOTS = ("dot", "matmul")

Scale = float | npt.ArrayLike | Dump


@usual_modes()
def compare(
    operands: npt.ArrayLike | Dump | tuple[Any, ...] | list[Any],
    outputs: npt.ArrayLike | Dump,
    to: Format | BlockFormat | str | None = None,
    *,
    operation: str = "convert",
    source: Format | str | Sequence[Format | str | None] | None = None,
    accumulation: Accumulation | LibraryCall | str | None = None,
    addend: npt.ArrayLike | Dump | None = None,
    scales: npt.ArrayLike | Dump | None = None,
    axis: int | tuple[int, ...] | None = None,
    tensor_scale: float | None = None,
    rounding: Rounding | str | None = None,
    saturation: Saturation | str | None = None,
    projection: Projection | None = None,
    profile: Profile | str | None = None,
    rule: ScaleRule | str | None = None,
    scale: Scale | tuple[Scale | None, Scale | None] | None = None,
    block: int | None = None,
    bias: npt.ArrayLike | Dump | None = None,
    output_scale: npt.ArrayLike | Dump | None = None,
    flags: npt.ArrayLike | Dump | None = None,
    random: npt.ArrayLike | Dump | None = None,
    ulps: int | str | None = None,
    any_nan: bool = False,
    limit: int | None = 20,
    why: bool = True,
    watch: Watch | None = None,
    scheduler: str | None = None,
) -> Comparison:
    """Hold results against what they must be: what differs, where, and the hypothesis that explains it.

    >>> import numpy as np, lowprec as lp
    >>> x = np.linspace(0.0, 2.0, 1025, dtype=np.float32)
    >>> report = compare(x, lp.encode(x, "e4m3fn", rounding="nearest_away"), "e4m3fn", limit=0)
    >>> print(report.sum())
    24 of 1,025 results differ (2.34%): 24 at a tie
    >>> report.cause.words
    'ties away from zero (nearest_away instead of nearest_even)'
    >>> compare(x, lp.encode(x, "e5m2")).ranking[0].name           # what are these codes?
    'e5m2'

    Parameters
    ----------
    operands : array_like, or tuple of array_like
        What was converted; or the operands of an operation, one array each, but none of xarray. Here and
        below a string is the name of an array in a file, such as "model.safetensors:w" (`open_dump`).
    outputs : array_like, of the operands' shape
        Codes, as integers or in the format's own ml_dtypes type; or values, in any other type, another
        format's too. What values the target does not have differs.
    to : Format, BlockFormat or str, optional
        Of the results. Where it is left out formats are ranked, and the best is taken.
    operation : str, default "convert"
        Or an operation such as "add", "dot" or "matmul".
    source : Format, str or a sequence of them, optional
        Of operands that are given as codes; of "dot" and "matmul" the format that has all their values, too.
    accumulation : Accumulation, LibraryCall or str, optional
        Of "dot" and "matmul". Where it is left out those are ranked whose factors and results fit.
    addend : array_like, optional
        Of "dot" and "matmul".
    scales : array_like, optional
        Of block formats: the codes of scales, as in `BlockArray`. Without them elements alone are compared.
    axis, tensor_scale, rounding, saturation, projection, profile, rule
        As for `lowprec.encode`.
    scale : float or array_like, or a pair of them, optional
        What codes are multiplied by to give values: a conversion divides by it. One number; one for each
        place along an axis (`axis` says which, where several fit); or, with as many axes as the operand,
        one for each block. Of "dot" and "matmul" a pair, for x and for y, either of them None; or one that
        broadcasts to the results.
    block : int, optional
        Elements along an axis that share a scale of `scale`, where blocks at the end may be shorter, as
        `Epilogue.block`: by default blocks are as small as can be. Of "dot" and "matmul" along K, and of rows
        or columns of tiles; needed for scales of blocks, unless the accumulation has a size of its own.
    bias, output_scale : array_like that broadcasts to the results', optional
        Of "dot" and "matmul", as `lowprec.matmul` takes them: with an accumulation that is no library call
        by `Epilogue()`, which scales in binary32.
    flags : array_like of integers, optional
        Exception flags recorded beside each result of a conversion or operation, as `lowprec.Flag`
        numbers them; `report.flags` compares them.
    random : array_like of integers, optional
        Random integers of a stochastic `rounding`, as `lowprec.encode` takes them, but in one dimension:
        one for each result, or for each group of results that share one. Of "dot" those of all roundings of
        an accumulation that rounds stochastically, in their order, in a row for each result.
    ulps : int or "auto", optional
        Codes that a finite result may lie from the right one, 1 or more. "auto", of "dot" and "matmul":
        what any order of summation by this accumulation can give, for each output. By default nothing.
    any_nan : bool
        Take any NaN where a NaN is right. Of values any NaN will do in any case.
    limit : int or None
        Mismatches that are told in full; None tells all.
    why : bool
        Whether to look for the reason.
    watch : function, optional
        Called with the results done, the results in all, and what is under way.
    scheduler : str, optional
        Address of a Dask scheduler, such as tcp://host:8786, whose workers compare; they must see the files
        of the dumps by the same names. The report is the same. Not for "dot" and "matmul".

    Returns
    -------
    report : Comparison
        `report.agrees`, `report.cause`, `str(report)`, `report.as_json()`, `report.as_html()`, ...

    Raises
    ------
    ValueError
        Arrays that do not fit each other or what was asked.
    """
    allowed = budget(ulps, operation, DOTS)
    given = operands if isinstance(operands, tuple | list) and operation != "convert" else (operands,)
    if operation not in DOTS:
        check_labels(*given, outputs=outputs, scales=scales, scale=scale, flags=flags, random=random)
    elif len(given) == 2:
        pair, whole = (scale, None) if isinstance(scale, tuple) else (None, scale)
        joined = {"addend": addend, "bias": bias, "output_scale": output_scale, "outputs": outputs}
        check_products(given[0], given[1], -1 if operation == "dot" else 0, pair, joined | {"scale": whole})
    if limit is not None and (type(limit) is bool or not hasattr(limit, "__index__") or limit < 0):
        raise ValueError(f"limit={limit!r} must be a number of mismatches, 0 or more, or None for all")
    formats = _sources(source, len(given))
    pairs = zip(given, formats, strict=True)
    dumps = [_dump(item, f"operand {place}", fmt) for place, (item, fmt) in enumerate(pairs, 1)]
    shape = dumps[0].shape if operation == "convert" else None
    got = open_results(outputs, to, shape, axis) if isinstance(outputs, str) else _dump(outputs, "outputs")
    if isinstance(got, WeightDump) and operation == "convert" and scales is None and scale is None:
        got, to, scales, scale, own_axis, own_scale = got.answer(to)
        axis = own_axis if axis is None else axis
        tensor_scale = own_scale if tensor_scale is None else tensor_scale
    read_as = tuple(dump.read_as for dump in (*dumps, got) if dump.read_as)
    for dump in (*dumps, got):
        if dump.dtype.kind not in "iufV" or dump.dtype.itemsize > 8 or catalog.carrier(dump.dtype) is None:
            raise ValueError(
                f"{dump} holds {dump.dtype}; give codes as integers, or values as float16 to float64"
            )
    if operation in DOTS:
        if scheduler is not None:
            raise ValueError(
                f"scheduler= is for dumps that are read in pieces, and {operation} reads its factors at "
                f"once; leave it out"
            )
        others: dict[str, Any] = {"to": to, "scales": scales, "axis": axis, "tensor_scale": tensor_scale}
        others |= {"rounding": rounding, "saturation": saturation, "projection": projection}
        others |= {"profile": profile, "rule": rule, "flags": flags}
        _none_of(others, f"says nothing about {operation}, which goes by accumulation=; leave it out")
        for dump, source in zip(dumps, formats, strict=True):
            if source is not None and is_values(dump.dtype, source):
                if (on_grid(words_of(as_array(dump)), dump.dtype, source) < 0).any():
                    raise ValueError(
                        f"{dump} holds numbers that {source.name!r} does not have; leave source= out"
                    )
        joins = {"addend": addend, "bias": bias, "output_scale": output_scale}
        options: dict[str, Any] = {
            name: None if each is None else _dump(each, name) for name, each in joins.items()
        }
        options |= {"any_nan": any_nan, "budget": allowed, "scale": _dot_scale(scale), "block": _block(block)}
        options |= {"random": None if random is None else as_array(_dump(random, "random"))}
        return _compare_dots(operation, dumps, formats, got, accumulation, options, limit, why, watch)
    if operation not in OPERATIONS:
        raise ValueError(f"unknown operation {operation!r}; use one of {', '.join((*OPERATIONS, *DOTS))}")
    if accumulation is not None or addend is not None:
        raise ValueError(f"accumulation= and addend= are for {' and '.join(DOTS)}, not for {operation!r}")
    of_dots = {"bias": bias, "output_scale": output_scale}
    _none_of(of_dots, f"is for {' and '.join(DOTS)}, not for {operation!r}; leave it out")
    if scale is None:
        _none_of({"block": block}, "says how many elements share one of scale=; leave it out")
    if len(dumps) != OPERATIONS[operation].operands:
        raise ValueError(f"{operation} takes {OPERATIONS[operation].operands} operands, not {len(dumps)}")
    for dump in dumps:
        read_as = (*read_as, *_beside(dump, got, "elements"))
    read = [_source(dump, fmt) for dump, fmt in zip(dumps, formats, strict=True)]
    blocks: dict[str, Any] = {"scales": scales, "axis": axis, "tensor_scale": tensor_scale}
    ranking, failed = list[Ranked](), Failures()
    if isinstance(scale, tuple) or (scale is not None and operation != "convert"):
        raise ValueError(
            f"scale= is one number or array for a conversion, and may be a pair for dot and matmul; operands "
            f"of {operation} have none: give scaled operands"
        )
    scaled = _scale(scale)
    by = None if scaled is None else Scaling(scaled, axis, dumps[0].shape, _block(block) or 0)
    if to is None:
        if operation != "convert":
            raise ValueError(f"say which format the results of {operation} are in: to=")
        ranking = rank_formats(dumps[0], read[0], got, by, failed)
        to = ranking[0].name
    question: Question
    unfit = ""
    beside: FlagQuestion | None = None
    if catalog.is_block(to):
        _none_of(
            {"scale": scale, "flags": flags, "random": random},
            f"is for single values, and {str(to)!r} has blocks: their scales are scales= and tensor_scale=, "
            f"and they raise no flags",
        )
        if operation != "convert":
            raise ValueError(
                f"results of {operation} are no blocks; name the format of single results, not {str(to)!r}"
            )
        fmt = block_asked(to, rule, rounding, saturation, projection, profile)
        if formats[0] is not None:
            raise ValueError("source= is of codes; blocks are made of values")
        got = _shaped(got, dumps[0].shape)
        if scales is not None:
            grid = grid_of(dumps[0].shape, axes_of(fmt, axis, len(dumps[0].shape)), fmt.sizes)
            blocks["scales"] = _shaped(_dump(scales, "scales", fmt.scale), grid)
        if got.dtype.itemsize == 1 and scales is None:  # wider types are what blocks are decoded to
            got = _as_values(got, fmt.element)
        question = BlockQuestion(dumps[0], fmt, got, any_nan=any_nan, budget=allowed, **blocks)
        unfit = question.unfit
    else:
        _none_of(
            {**blocks, "axis": axis if by is None else None, "rule": rule},
            f"is for block formats, and {str(to)!r} is none",
        )
        target = catalog.format(to)
        how = projection_of(target, rounding, saturation, projection, profile)
        how, integers = drawn_integers(how, target, random, got.size)
        if how.rounding.bits and (flags is not None or by is not None):
            raise ValueError(
                f"flags= and scale= are compared with deterministic roundings, not with {how.rounding}"
            )
        check_operands(operation, (*read, target))
        got = _as_values(got, target)
        if by is not None:
            question = ScaledQuestion(
                dumps[0], by, (read[0], target), how, got, any_nan=any_nan, budget=allowed
            )
        else:
            question = ElementQuestion(
                operation, dumps, (*read, target), how, got, any_nan=any_nan, budget=allowed,
                integers=integers,
            )  # fmt: skip
        if flags is not None:
            recorded = _dump(flags, "flags")
            read_as = (*read_as, *_beside(recorded, got, "flags"))
            beside = FlagQuestion(question.operation, question.operands, question.formats, how, recorded)
    telling: dict[str, Any] = {"limit": limit, "why": why, "watch": watch}

    def judged(each_of: Callable[[Question], Each]) -> Comparison:
        found = judge(question, each=each_of(question), **telling)
        if beside is not None and isinstance(question, ElementQuestion):
            found.flags = judge_flags(beside, question.agreeing, found, each_of, **telling)
        return found

    if scheduler is None:
        report = judged(each_here)
    else:
        from lowprec.verify.sweeps.cluster import (  # it reads the sources, for workers to compare
            cluster,
            each_on,
        )

        with cluster(scheduler) as workers:
            report = judged(functools.partial(each_on, workers))
    if unfit and not report.mismatches:
        raise ValueError(f"the elements are right, but {unfit}; give the scales of these blocks, or none")
    report.failed |= failed
    report.ranking, report.names, report.read = ranking, (*(dump.name for dump in dumps), got.name), read_as
    return report


def drawn_integers(how: Projection, target: Format, random: Any, size: int) -> tuple[Projection, Dump | None]:
    """Return a projection whose random integers are those of single results, and these."""
    if random is None and how.rounding.bits:
        raise ValueError(
            f"rounding {how.rounding} needs a random integer for each operand; give random=, or use a "
            f"deterministic mode"
        )
    if random is None:
        return how, None
    words = _dump(random, "random")
    integers = integers_for(how.rounding, target, (size,), words.read(0, words.size), None)
    return with_integers(how), Held(integers, words.name)


def _none_of(options: dict[str, Any], why: str) -> None:
    """Refuse the first of some options that is given."""
    for name, value in options.items():
        if value is not None:
            raise ValueError(f"{name}= {why}")


def _scale(given: Any, name: str = "scale") -> Dump | None:
    if isinstance(given, int) and (abs(given) > catalog.BINARY64.max_finite or int(float(given)) != given):
        raise ValueError(f"{name}={quoted(given)} is no float64 number: give one that is")
    return None if given is None else _dump(float(given) if isinstance(given, int) else given, name)


def _dot_scale(scale: Any) -> Dump | tuple[Dump | None, Dump | None] | None:
    if not isinstance(scale, tuple):
        return _scale(scale)
    if len(scale) != 2:
        raise ValueError(f"scale= of dot and matmul is a pair, for x and for y, not {len(scale)} scales")
    return _scale(scale[0], "scale of x"), _scale(scale[1], "scale of y")


def _block(given: Any) -> int | None:
    if given is not None and (
        isinstance(given, bool) or not isinstance(given, int | np.integer) or given < 1
    ):
        raise ValueError(f"block= is a number of elements, 1 or more, not {given!r}")
    return None if given is None else int(given)


def _dump(given: object, name: str, fmt: Format | None = None) -> Dump:
    given = open_dump(given, fmt) if isinstance(given, str) else given
    return given if isinstance(given, Dump) else Held(given, name)


def _beside(dump: Dump, got: Dump, what: str) -> tuple[str, ...]:
    """Check that an array goes with results, and return what there is to note on the order of the two."""
    if dump.size != got.size:
        raise ValueError(f"{dump} has {dump.size:,} {what}, but there are {got.size:,} results")
    if len(dump.shape) < 2 or len(got.shape) < 2 or got.shape == dump.shape:
        return ()
    if got.shape != dump.shape[::-1]:
        raise ValueError(f"{dump} has shape {dump.shape}, but the results have {got.shape}")
    return (f"{dump} has shape {dump.shape} and the results {got.shape}: compared in order, row by row",)


def _shaped(dump: Dump, shape: tuple[int, ...]) -> Dump:
    """Return elements of one dimension in the shape that they must have."""
    return dump.reshaped(shape) if len(dump.shape) == 1 and dump.size == math.prod(shape) else dump


def _as_values(dump: Dump, target: Format) -> Dump:
    """Return results of a type that lacks values of their format as float32 or float64."""
    if dump.unnamed and dump.dtype.itemsize != code_dtype(target).itemsize:
        dump.check_named()
    if not is_values(dump.dtype, target) or keeps_dtype(dump.read(0, 0), target):
        return dump
    single = catalog.BINARY32.contains(target) and dump.dtype.itemsize < 8
    return Values(dump, np.dtype(np.float32 if single else np.float64))


def _sources(source: Any, count: int) -> list[Format | None]:
    spelled = [source] * count if source is None or isinstance(source, str | Format) else list(source)
    if len(spelled) != count:
        raise ValueError(f"source= names {len(spelled)} formats for {count} operands")
    kept = (type(None), Format)
    return [fmt if isinstance(fmt, kept) else catalog.carrier(fmt) or catalog.format(fmt) for fmt in spelled]


def _source(dump: Dump, fmt: Format | None) -> Format:
    """Return the format whose codes an operand's elements are."""
    if fmt is not None:
        if is_values(dump.dtype, fmt) and catalog.carrier(dump.dtype) != fmt:
            raise ValueError(
                f"{dump} holds {dump.dtype}, which are no codes of {fmt.name!r}; leave source= out"
            )
        return fmt
    dump.check_named()
    found = catalog.carrier(dump.dtype)
    if found is None:
        raise ValueError(
            f"{dump} holds {dump.dtype}; operands are real numbers, or codes whose source= is named"
        )
    return found


# -- dot products ------------------------------------------------------------------------------------


def _compare_dots(
    verb: str,
    dumps: list[Dump],
    formats: list[Format | None],
    got: Dump,
    named: Accumulation | LibraryCall | str | None,
    options: dict[str, Any],
    limit: int | None,
    why: bool,
    watch: Watch | None,
) -> Comparison:
    if len(dumps) != 2:
        raise ValueError(f"{verb} takes 2 operands, not {len(dumps)}; an addend is addend=")

    def question_of(how: Accumulation | LibraryCall, allowed: Budget | None = None) -> DotQuestion:
        pair, results = (formats[0], formats[1]), _as_values(got, how.output[0])
        return DotQuestion(
            verb, dumps[0], dumps[1], how, results, formats=pair, **(options | {"budget": allowed})
        )

    ranking, failed = list[Ranked](), Failures()
    if named is None:
        ranking = rank_accumulations(question_of, got, failed)
        named = ranking[0].name
    call = library_call(named) if isinstance(named, str) else named
    how = call if isinstance(call, LibraryCall) else accumulation_of(named)  # type: ignore[arg-type]
    report = judge(question_of(how, options["budget"]), limit=limit, why=why, watch=watch)
    report.ranking, report.names = ranking, (*(dump.name for dump in dumps), got.name)
    report.failed |= failed
    return report
