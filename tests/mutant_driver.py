"""Tries the kit on a package with a mistake in it, and prints as JSON which laws found it.

Run by `tests.mutants` with the changed package on the path. What is tried is a list of items, in order, until
one breaks a law: `arrays:e2m1fn`, `oracle blocks:rceil`, `flagged arithmetic:add e5m2`; `arrays:e2m1fn:types`
tries one law alone. `dots:fp32_fma e4m3fn` holds matrix products of an accumulation against the oracle,
`values:rceil` blocks read as float32 against the same as float64.
"""

from __future__ import annotations

import dataclasses
import functools
import json
import os
import sys
import traceback
import warnings

warnings.simplefilter("ignore")

#: Laws that take long without the compiler, and find little that others do not: tried only by name.
LATE = ("types", "place", "quantize", "cast")


def subjects():
    """From an item's kind to a function from its name to a subject and what laws are about."""
    import lowprec as lp
    from lowprec.spec import catalog, families
    from lowprec.testing import block, operation
    from lowprec.testing.subjects import Arrays, Oracle

    unsigned = lp.Format(
        name="unsigned", exponent_bits=2, trailing_bits=2, bias=1, sign=lp.Sign.UNSIGNED, nans=1
    )
    known = {
        "ieee": lambda: families.ieee("ieee", 3, 2),
        "fnuz": lambda: families.fnuz("fnuz", 2, 2),
        "powers": lambda: families.power_of_two("powers", 3),
        "unsigned": lambda: unsigned,
        "ieee_unsigned": lambda: dataclasses.replace(unsigned, name="ieee_unsigned", nans=3, infinity=True),
    }

    def fmt(name):
        return known[name]() if name in known else catalog.format(name)

    def blocks(name):
        scale = catalog.UE4M3 if name == "divide" else catalog.E8M0FNU
        return lp.BlockFormat(name=name, element=catalog.E2M1FN, scale=scale, size=4, rule=name)

    def arithmetic(make, name):
        verb, of, mode = (*name.split(), "nearest_even")[:3]
        count = {"sqrt": 1, "fma": 3}.get(verb, 2)
        return "operation", make(verb, (fmt(of),) * count, fmt(of), lp.Projection(rounding=mode), 300, 0)

    return {
        "arrays": lambda name: ("format", Arrays(fmt(name))),
        "flagged": lambda name: ("format", Arrays(fmt(name), flagged=True)),
        "oracle": lambda name: ("format", Oracle(fmt(name))),
        "arrays blocks": lambda name: ("blocks", block.ArrayBlocks(blocks(name), 4, 0)),
        "oracle blocks": lambda name: ("blocks", block.OracleBlocks(blocks(name), 4, 0)),
        "arithmetic": lambda name: arithmetic(operation.of_arrays, name),
        "flagged arithmetic": lambda name: arithmetic(
            functools.partial(operation.of_arrays, flagged=True), name
        ),
        "oracle arithmetic": lambda name: arithmetic(operation.of_oracle, name),
        "dots": lambda name: ("others", dots(name)),
        "values": lambda name: ("others", values(blocks(name))),
    }


def dots(name):
    """Compare an accumulation's matrix products with the oracle's: rows of any numbers, or near 1."""
    import numpy as np

    import lowprec as lp
    from lowprec.oracle.convert import decode
    from lowprec.oracle.dot import dot
    from lowprec.oracle.exact import from_float
    from lowprec.spec import catalog
    from lowprec.spec.accumulations import accumulation

    how, fmt = accumulation(name.split()[0]), catalog.format(name.split()[1])
    rng = np.random.default_rng(0)
    for near in (False, True):
        x, y = rng.integers(0, 1 << fmt.width, (2, 4, 19))
        if near:
            x, y = (lp.encode(rng.normal(size=(4, 19)), fmt).astype(np.int64) for _ in range(2))
        x, y = (np.where((side & ~fmt.sign_code) > fmt.max_magnitude, 1, side) for side in (x, y))
        x, y = (np.where(side == (0 if fmt.negative_zero else fmt.sign_code), 1, side) for side in (x, y))
        addend = np.ldexp(rng.normal(size=(4, 4)), rng.integers(-4, 12, (4, 4))).astype(np.float32)
        left, right = (lp.decode(side, fmt) for side in (x, y))
        made = lp.matmul(left, right.T, how, addend=addend, dtype=f"u{how.output[0].code_bits // 8}")
        exact = [[[decode(int(code), fmt) for code in row] for row in side] for side in (x, y)]
        for (i, j), got in np.ndenumerate(made):
            want = dot(exact[0][i], exact[1][j], how, from_float(float(addend[i, j])))
            if int(got) != want:
                yield "agrees with the oracle", {"x": x[i].tolist(), "got": hex(int(got)), "want": hex(want)}
                return


def values(fmt):
    """Compare blocks decoded to binary32 with the same in binary64."""
    import numpy as np

    import lowprec as lp

    blocks = lp.encode(np.random.default_rng(0).normal(size=(8, 64)), fmt)
    got, want = lp.decode(blocks), lp.decode(blocks, dtype="float64")
    if (got != want).any():
        yield "decodes alike", {"got": str(got[got != want][0]), "want": str(want[got != want][0])}


def broken(about, subject, only):
    """The laws that a subject breaks, each with a counterexample; a verb's error breaks the law in trial."""
    import numpy as np

    from lowprec.testing.laws import LAWS

    if about == "others":
        with np.errstate(all="ignore"):
            yield from subject
    for law in LAWS.values():
        late = law.name in LATE and not only and os.environ.get("NUMBA_DISABLE_JIT")
        if law.topic != about or law.name != (only or law.name) or late:
            continue
        try:
            if law.applies(subject):
                with np.errstate(all="ignore"):
                    found = law.check(subject).found
                if found is not None:
                    yield law.name, dict(found.rows)
        except Exception as error:
            yield law.name, {"error": f"{type(error).__name__}: {error}"}


def main():
    """Print what was found on the first item that breaks a law."""
    for item in json.loads(sys.argv[1]):
        kind, name, only = (*item.split(":"), "")[:3]
        try:
            about, subject = subjects()[kind](name)
        except Exception as error:  # of a package that cannot even say what its formats are
            place = traceback.extract_tb(error.__traceback__)[-1]
            said = {"error": f"{type(error).__name__}: {error}, in {place.name}"}
            print(json.dumps({"item": item, "laws": [[type(error).__name__, said]]}))
            return
        found = list(broken(about, subject, only))
        if found:
            print(json.dumps({"item": item, "laws": found}))
            return
    print(json.dumps({"item": "", "laws": []}))


if __name__ == "__main__":
    main()
