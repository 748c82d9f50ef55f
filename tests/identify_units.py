"""Accumulations drawn at random, as units to identify: python -m tests.identify_units --count 60 --seed 1."""

import argparse
import dataclasses
import time
from typing import get_args

import numpy as np

import lowprec as lp
from lowprec.spec import catalog, families
from lowprec.spec.accumulation import MACHINES, Accumulation, Cut, Window
from lowprec.spec.order import EXACT, PAIRWISE, SEQUENTIAL, Order, chunked
from lowprec.spec.projection import Projection
from lowprec.spec.rounding import MODES
from lowprec.verify.identify.identify import asked
from lowprec.verify.identify.ports import Ports, Prepared
from lowprec.verify.identify.probes import TOPICS, draw

#: Formats of operands, of outputs, and of what sums are kept in.
OPERANDS = (
    "e4m3fn", "e5m2", "e4m3fnuz", "e5m2fnuz", "binary16", "bfloat16", "tf32", "e3m2fn", "e2m1fn", "int8",
)  # fmt: skip
OUTPUTS = ("binary32", "binary16", "bfloat16")
INNER = ("binary32", "binary16", "bfloat16", "tf32")


def drawn(seed):
    """Return a random accumulation, its operands' formats and the length of its dot products."""
    rng = np.random.default_rng([24, seed])
    while True:
        try:
            return _drawn(rng)
        except (ValueError, TypeError):  # parameters that contradict each other
            continue


def _drawn(rng):
    def choose(*options):
        return options[int(rng.integers(len(options)))]

    def projection(fmt, **fields):
        mode = choose(*MODES) if rng.random() < 0.6 else choose(MODES[0], MODES[3])
        if rng.random() < 0.2:
            fields["saturation"] = choose("finite", "propagate")
        if rng.random() < 0.2:
            fields["subnormals"] = "flush_results"
        return fmt, Projection(rounding=mode, **fields)

    def inner():
        if rng.random() < 0.5:
            return projection(lp.format(choose(*INNER)))
        return projection(families.ieee("inner", int(rng.integers(5, 9)), int(rng.integers(4, 24))))

    first = choose(*OPERANDS)
    second = first if rng.random() < 0.7 else choose(*OPERANDS)
    operands = (lp.format(first), lp.format(second))
    output = projection(lp.format(choose(*OUTPUTS)))
    if rng.random() < 0.3:
        code = output[0].sign_code - 1
        output = (output[0], dataclasses.replace(output[1], nan_code=code, nan_sign=choose("keep", "drop")))
    length = choose(16, 24, 32, 48, 64)
    addend = choose("first", "first", "last")
    kind = rng.random()
    flushed = Projection(
        subnormals="flush_results", nan="error" if all(f.has_nan for f in operands) else "max"
    )
    rounding = flushed if rng.random() < 0.15 else None
    common = dict(operands=operands, operand_rounding=rounding, output=output)
    if kind < 0.45:
        order = choose(
            SEQUENTIAL, PAIRWISE, chunked(int(rng.integers(2, length // 2))),
            chunked(int(rng.integers(2, length // 2)), "pairwise"),
        )  # fmt: skip
        product = choose(None, None, inner())
        into = (catalog.BINARY64, Projection()) if rng.random() < 0.1 else inner()
        total = inner() if order.name == "chunked" and rng.random() < 0.5 else None
        how = Accumulation(
            product=product, order=order, accumulator=into, total=total, addend=addend, **common
        )
    elif kind < 0.9:
        step = int(rng.integers(1, length + 1)) if rng.random() < 0.5 else choose(1, 2, 4, 8, 16, 32)
        groups = choose("consecutive", "consecutive", "alternate_pairs")
        both = step * (2 if groups == "alternate_pairs" else 1)
        order, total = SEQUENTIAL, None
        if rng.random() < 0.3 and both * 2 <= length:
            order, total = chunked(both * int(rng.integers(1, length // both))), inner()
        window = Window(
            step=step,
            fraction_bits=choose(None, *map(int, rng.integers(3, 40, 6))),
            result=inner(),
            lowest_exponent=choose(-4096, -4096, int(rng.integers(-140, -10))),
            cut=choose(*get_args(Cut)),
            groups=groups,
            negative_zero=choose(False, True),
        )
        how = Accumulation(accumulator=window, order=order, total=total, addend=addend, **common)
    elif kind < 0.95:
        how = Accumulation(order=EXACT, **common)
    else:
        how = Accumulation(machine=choose(*MACHINES), **common)
    return how, operands, length


# -- orders of any kind, and sums that no accumulation says ------------------------------------------


def _tree(lanes, rng):
    """Return a random tree of sums of two."""
    if len(lanes) == 1:
        return lanes[0]
    cut = int(rng.integers(1, len(lanes))) if rng.random() < 0.5 else max(1, len(lanes) // 2)
    return _tree(lanes[:cut], rng), _tree(lanes[cut:], rng)


def _ordered(rng):
    """Return a random accumulation of a tree or of lanes, in formats and roundings as above."""
    while True:
        try:
            how, operands, length = _drawn(rng)
        except (ValueError, TypeError):
            continue
        if isinstance(how.accumulator, tuple):
            break
    if rng.random() < 0.5:
        length = int(rng.integers(4, 25))
        order = Order.of_tree(_tree(rng.permutation(length).tolist(), rng))
    else:
        order = Order("lanes", int(rng.integers(2, 17)), str(rng.choice(["sequential", "pairwise"])))
    return dataclasses.replace(how, order=order, total=None), operands, length


def _fixed_point(rng):
    """Return the function of a random fixed-point accumulator of E4M3 products."""
    unit, bits = int(rng.integers(-18, 1)), int(rng.integers(14, 30))
    wraps, limit = rng.random() < 0.4, 1 << (bits - 1)

    def unit_of(rows):
        terms = np.floor(np.ldexp(rows.x * rows.y, -unit))
        finite = np.isfinite(terms).all(axis=1)
        terms, sums = np.where(finite[:, None], terms, 0).astype(np.int64), np.zeros(len(terms), np.int64)
        for k in range(terms.shape[1]):
            sums = sums + terms[:, k]
            sums = (sums + limit) % (2 * limit) - limit if wraps else np.clip(sums, -limit, limit - 1)
        values = np.where(finite, np.ldexp(sums.astype(np.float64), unit), np.nan)
        return values.astype(np.float32).view(np.uint32).astype(np.int64), True

    return unit_of


def any_unit(seed, number):
    """Return a random unit: what it is, its function of rows, and its ports."""
    rng = np.random.default_rng([52, seed, number])
    kind = rng.random()
    if kind < 0.15:
        single = lp.format("binary32")
        return "fixed point", _fixed_point(rng), Ports((lp.format("e4m3fn"),) * 2, single, 16, None)
    how, operands, length = _ordered(rng) if kind < 0.65 else drawn(int(rng.integers(1 << 30)))
    ports = Ports(operands, how.output[0], length, how.output[0])
    return how.order.name, lambda rows: (Prepared(rows, ports).codes(how), False), ports


def judged(unit, ports):
    """Identify a unit; return the verdict, the questions and the seconds of a processor that it took."""
    begun = time.process_time()
    found = asked(unit, ports)
    seconds = time.process_time() - begun
    verdict = "named" if found.named else "missed"
    if not found.wrong:
        rng = np.random.default_rng(2026)
        held = [draw(ports, topic, 100, rng) for topic in TOPICS]
        given = [(unit(rows), Prepared(rows, ports).codes(found.accumulation)) for rows in held]
        same = [
            (codes == made) | (any_nan & np.isnan(lp.decode(made.astype(np.uint32), "binary32")))
            if any_nan
            else codes == made
            for (codes, any_nan), made in given
        ]
        verdict = "found" if all(each.all() for each in same) else "false"
    return verdict, found, seconds


def main():
    """Print a line for each unit, and how many were found, named, missed, and falsely identified."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--count", type=int, default=60)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--first", type=int, default=0)
    given = parser.parse_args()
    counts = {"found": 0, "named": 0, "missed": 0, "false": 0}
    slowest = most = 0.0
    for number in range(given.first, given.first + given.count):
        what, unit, ports = any_unit(given.seed, number)
        verdict, found, seconds = judged(unit, ports)
        counts[verdict] += 1
        slowest, most = max(slowest, seconds), max(most, found.asked)
        what = f"{number} {what}, K = {ports.length}: {verdict}"
        print(f"{what}, {found.wrong} missed, {found.asked:,} asked, {seconds:.1f} s", flush=True)
    print(f"{counts}; at most {most:,} questions and {slowest:.0f} s")


if __name__ == "__main__":
    main()
