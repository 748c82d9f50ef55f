"""Identification: questions to a unit, until one accumulation is left that reproduces every answer."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Any, Literal

from lowprec.kernels.modes import in_modes_of_now, usual_modes
from lowprec.spec import catalog
from lowprec.spec.format import Format
from lowprec.verify.identify import units
from lowprec.verify.identify.ports import Ports
from lowprec.verify.identify.report import Identification
from lowprec.verify.identify.run import Run, Watch
from lowprec.verify.identify.search import ContradictionError
from lowprec.verify.identify.units import Ask, UnitError

__all__ = ["asked", "identify", "ports_of"]


def identify(
    unit: Callable[..., Any] | None,
    formats: Sequence[Format | str],
    output: Format | str,
    *,
    k: int = 32,
    addend: Format | str | None = "output",
    scale: tuple[Format | str, int] | None = None,
    codes: bool = False,
    nan: Literal["exact", "any"] = "exact",
    rows: Identification | Iterable[str] = (),
    budget: int = 10_000,
    time_limit: float = 60.0,
    seed: int = 0,
    watch: Watch | None = None,
) -> Identification:
    """Ask a unit for dot products until its accumulation is known.

    >>> import lowprec as lp
    >>> def unit(a, b, c):
    ...     return lp.dot(a, b, "hopper_wgmma_e4m3fn_binary32", addend=c)
    >>> found = identify(unit, ("e4m3fn", "e4m3fn"), "binary32", k=32)
    >>> found.names, found.wrong, found.accumulation.accumulator.fraction_bits
    (('hopper_wgmma_e4m3fn_binary32',), 0, 13)

    Parameters
    ----------
    unit : callable or None
        Takes arrays a and b of shape (rows, K), and returns results of shape (rows,): values of the
        output's format, or its codes as integers. With an addend it takes c, shape (rows,), too, and with
        scales those of a and of b, shape (rows, blocks). None: nothing is asked, rows are all there is.
    formats : pair of Format or str
        Of a and b.
    output : Format or str
    k : int
        Products in a dot product, 2 to 4096. Steps and chunks that are longer than half of it are seen in
        part only.
    addend : Format, str or None
        The format of c, by default that of the output; None for a unit without one.
    scale : (Format or str, int), optional
        Of operands in blocks: the format of scales, and how many elements share one.
    codes : bool
        Whether the unit takes codes as integers instead of values as float32 or float64.
    nan : {"exact", "any"}
        Whether a NaN must have the right code, or any will do. Of answers as floats of another type than the
        output's, any will.
    rows : Identification or iterable of str
        Answers that are known: of an earlier identification, or lines as `units.lines_of` has them.
    budget : int
        Dot products to ask at most.
    time_limit : float
        Seconds that one call of the unit may take, at most a million.
    seed : int
        Of the operands that are drawn.
    watch : callable, optional
        Told (asked, budget, what is under way).

    Raises
    ------
    ValueError
        Formats and lengths that cannot be; a unit that fails before it answered anything; rows that
        contradict each other.

    Notes
    -----
    A unit that raises, hangs, or answers other shapes or types ends the search: `stopped` says why, and
    what was answered before is in the result, from which `rows=` goes on.

    Source
    ------
    docs/identify.md.
    """
    made = ports_of(formats, output, k, addend, scale)
    own = None if unit is None else in_modes_of_now(unit)
    ask = None if own is None else units.function(own, made, time_limit, codes=codes)
    if nan not in ("exact", "any"):
        raise ValueError(f"nan={nan!r} must be 'exact' or 'any'")
    return asked(ask, made, any_nan=nan == "any", rows=rows, budget=budget, seed=seed, watch=watch)


def ports_of(
    formats: Sequence[Format | str],
    output: Format | str,
    k: int,
    addend: Format | str | None,
    scale: tuple[Format | str, int] | None,
) -> Ports:
    """Return the ports of a unit. Raises ValueError: what cannot be."""
    if isinstance(formats, str) or len(formats) != 2:
        raise ValueError(f"formats={formats!r} must be two: of a and of b")
    target = catalog.format(output)
    third = None if addend is None else target if addend == "output" else catalog.format(addend)
    scaled = None if scale is None else (catalog.format(scale[0]), scale[1])
    return Ports((catalog.format(formats[0]), catalog.format(formats[1])), target, k, third, scaled)


@usual_modes()
def asked(
    ask: Ask | None,
    ports: Ports,
    *,
    any_nan: bool = False,
    rows: Identification | Iterable[str] = (),
    budget: int = 10_000,
    seed: int = 0,
    watch: Watch | None = None,
) -> Identification:
    """Ask until the accumulation is known; see `identify`."""
    run = Run(ask, ports, budget=budget, seed=seed, watch=watch, any_nan=any_nan)
    run.take(rows)
    if ask is None and not len(run.answers):
        raise ValueError("there is nothing to identify: give a unit, or rows that were recorded")
    try:
        run.begin()
        run.go_on()
    except (UnitError, ContradictionError) as error:
        if not len(run.answers):
            raise
        run.stopped = str(error)
        if isinstance(error, ContradictionError):
            run.search.give_up()
            run.name_random(error.row)
        run.settle()
    return run.result()
