"""Tries the kit on a package with a mistake in it, and prints as JSON which laws found it.

Run by `tests.mutants` with the changed package on the path. What is tried is a list of items, in order, until
one breaks a law:

    arrays:e2m1fn, scalar blocks:rceil, flagged arithmetic:add e5m2    the laws; arrays:e2m1fn:types one alone

or until one finds another result than the oracle's:

    dots:fp32_fma e4m3fn                                 products of matrices of codes
    products:fp32_fma mxfp4 70                           of numbers in a format, or in blocks
    blocks:nvfp4                                         codes, scales and values of a block format
    engine:vector add binary16 binary32 to_odd flags     an engine's operation on codes, as codes of another
    doubles:vector add e4m3fn double                     an operation's values as binary64 numbers

`unit:exp e5m2` holds NumPy's function, rounded, against the laws of functions. `values:rceil` holds blocks
read as float32 against the same as float64, `statistics:e4m3fn` a report against NumPy's sums and the scale
that a search finds against others.
"""

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

    inf = float("inf")
    unsigned = lp.Format(
        name="unsigned", exponent_bits=2, trailing_bits=2, bias=1, sign=lp.Sign.UNSIGNED, nans=1
    )
    known = {
        "ieee": lambda: families.ieee("ieee", 3, 2),
        "fnuz": lambda: families.fnuz("fnuz", 2, 2),
        "powers": lambda: families.power_of_two("powers", 3),
        "book_infinite": lambda: lp.Codebook(
            "infinite", [0.0, 1.0, 3.0, inf, float("nan"), -inf, -3.0, -1.0]
        ),
        "book_unsigned": lambda: lp.Codebook("unsigned", [0.0, 1.0, 2.5, 4.0]),
        "unsigned": lambda: unsigned,
        "ieee_unsigned": lambda: dataclasses.replace(unsigned, name="ieee_unsigned", nans=3, infinity=True),
    }

    def fmt(name):
        return known[name]() if name in known else catalog.format(name)

    def blocks(name):
        scale = catalog.UE4M3 if name == "divide" else catalog.E8M0FNU
        return lp.BlockFormat(name=name, element=catalog.E2M1FN, scale=scale, size=4, rule=name)

    class ScalarBlocks(block.ArrayBlocks):
        path = "arrays, scalar engine"
        backend = "scalar"

    def arithmetic(make, name):
        verb, of, mode = (*name.split(), "nearest_even")[:3]
        count = {"sqrt": 1, "fma": 3}.get(verb, 2)
        return "operation", make(verb, (fmt(of),) * count, fmt(of), lp.Projection(rounding=mode), 300, 0)

    return {
        "arrays": lambda name: ("format", Arrays(fmt(name))),
        "flagged": lambda name: ("format", Arrays(fmt(name), flagged=True)),
        "oracle": lambda name: ("format", Oracle(fmt(name))),
        "arrays blocks": lambda name: ("blocks", block.ArrayBlocks(blocks(name), 4, 0)),
        "scalar blocks": lambda name: ("blocks", ScalarBlocks(blocks(name), 4, 0)),
        "oracle blocks": lambda name: ("blocks", block.OracleBlocks(blocks(name), 4, 0)),
        "arithmetic": lambda name: arithmetic(operation.of_arrays, name),
        "flagged arithmetic": lambda name: arithmetic(
            functools.partial(operation.of_arrays, flagged=True), name
        ),
        "oracle arithmetic": lambda name: arithmetic(operation.of_oracle, name),
        "dots": lambda name: ("others", dots(name)),
        "products": lambda name: ("others", products(*name.split())),
        "blocks": lambda name: ("others", whole_blocks(*name.split())),
        "engine": lambda name: ("others", engine(*name.split())),
        "doubles": lambda name: ("others", in_doubles(*name.split())),
        "statistics": lambda name: ("others", statistics(*name.split())),
        "values": lambda name: ("others", values(blocks(name))),
        "random": lambda name: ("others", random(int(name))),
        "refusals": lambda name: ("others", refusals(name)),
        "function": lambda name: ("others", function(*name.split())),
        "unit": lambda name: ("function", unit(*name.split())),
    }


def dots(name):
    """Compare an accumulation's matrix products with the oracle's: rows of any numbers, or near 1."""
    import numpy as np

    import lowprec as lp
    from lowprec.oracle.convert import decode
    from lowprec.oracle.dot import dot
    from lowprec.oracle.exact import from_float
    from lowprec.spec import catalog

    how, fmt = sums(name.split()[0]), catalog.format(name.split()[1])
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


def sums(name):
    """Return an accumulation by name, of those that no machine and no framework has too."""
    import lowprec as lp
    from lowprec.spec import families
    from lowprec.spec.accumulations import accumulation
    from lowprec.spec.catalog import BFLOAT16, BINARY16, BINARY32, E4M3FN
    from lowprec.spec.order import PAIRWISE, chunked

    def to(fmt, mode="nearest_even"):
        return fmt, lp.Projection(rounding=mode)

    def sum_of(accumulator, **fields):
        return lp.Accumulation(accumulator=accumulator, output=to(BINARY32), **fields)

    wide = lp.Window(step=16, fraction_bits=25, result=to(families.ieee("wide", 6, 25)), lowest_exponent=-40)
    odd = lp.Window(step=4, fraction_bits=13, result=to(BINARY16, "toward_zero"), cut="to_odd")
    known = {
        "odd_window": lambda: sum_of(odd, operands=(BFLOAT16, BFLOAT16)),
        "rounded_window": lambda: sum_of(
            dataclasses.replace(odd, cut="nearest_away"), operands=(BFLOAT16, BFLOAT16)
        ),
        "addend_last": lambda: sum_of(to(BINARY32), addend="last"),
        "toward_zero": lambda: sum_of(to(BINARY32, "toward_zero")),
        "ties_to_zero": lambda: sum_of(to(BINARY32, "nearest_zero")),
        "rounded_products": lambda: sum_of(to(BFLOAT16), product=to(BFLOAT16)),
        "chunks": lambda: sum_of(to(BFLOAT16), order=chunked(4), total=to(BINARY32)),
        "pairs_drawn": lambda: sum_of(to(BFLOAT16, "stochastic(8)"), order=PAIRWISE),
        "pairs_up": lambda: sum_of(to(BFLOAT16, "toward_positive"), order=PAIRWISE),
        "pairs_down": lambda: sum_of(to(BFLOAT16, "toward_negative"), order=PAIRWISE),
        "tree": lambda: sum_of(
            to(BFLOAT16, "toward_positive"),
            order=f"(((((), 18), 1), (0, 2), (4)), ((), 5), 3, {str([*range(6, 18)])[1:-1]})",
        ),
        "lanes": lambda: sum_of(to(BFLOAT16, "toward_positive"), order="lanes(4, pairwise)"),
        "wide_window": lambda: sum_of(wide, operands=(E4M3FN, E4M3FN), order=chunked(16), total=to(BINARY32)),
    }
    return known[name]() if name in known else accumulation(name)


def numbers(rng, shape, finite):
    """Return rows of numbers: the second twice the same and a small one between, zeros, infinity, NaN."""
    import numpy as np

    made = (
        rng.normal(size=shape) * 2.0 ** rng.integers(-6, 6, (shape[0], 1)) * 2.0 ** rng.integers(-4, 5, shape)
    )
    half, made[1, 1] = shape[1] // 2, -np.abs(made[1, 1])
    made[1, -half:] = made[1, :half]
    made[1, half : shape[1] - half] = 2.0**-28 * np.abs(made[1]).max()
    made[2] = -0.0
    if not finite:
        made[3, 1], made[4, 2] = np.inf, np.nan
    return made


def products(how, name, length, *options):
    """Compare an accumulation's products of matrices of numbers with the oracle's, blocks too.

    Infinities and NaNs are among them unless `finite` is asked for; if `wide`, some of 16 are far larger than
    others; if `tiny`, x are subnormal; if `tie`, the least product of a block decides a sum, and if `ties`
    every sum. With an addend too, but for exact sums; x have a type of FP8 and y are binary64 if `double`,
    and both are if `halves`, with products that only their last bits keep from lying on ties.
    Another option is the name of an engine.
    """
    import numpy as np

    import lowprec as lp

    rng, finite = np.random.default_rng(0), "finite" in options
    x, y = (numbers(rng, (5, int(length)), finite) for _ in range(2))
    x[1, -(int(length) // 2) :] *= -1
    y[0] = np.abs(y[0])
    if "wide" in options:
        for side in (x, y):
            side *= (2.0 ** rng.integers(-14, 14, (5, -(-int(length) // 16)))).repeat(16, axis=1)[
                :, : int(length)
            ]
    if "tiny" in options:
        x = lp.format(name).min_subnormal * rng.integers(-7, 8, x.shape)
    addend = rng.normal(size=(5, 5)).astype(np.float32)
    addend[:, 0], addend[2] = 2.0**-20, -0.0
    if "tie" in options:
        x[4], y[4], addend[4, 4] = 0.0, 0.0, 2.0**55
        x[4, :3] = y[4, :3] = 2.0**15, 2.0**15, 2.0**-16
    if "ties" in options:
        x[:], y[:] = 0.0, 0.0
        x[:, :3] = y[:, :3] = 1.0, 2.0**-12, 2.0**-40
    left, right = (
        lp.encode(side, name, axis=1 - place)
        if name in lp.block_formats
        else lp.quantize(side, name, saturation="propagate")
        for place, side in enumerate((x, y.T))
    )
    if "double" in options:
        left, right = left.astype(f"float8_{name}"), y.T / 3
    if "halves" in options:
        left, right = np.zeros(x.shape), np.zeros(y.T.shape)
        left[:, 0], right[0] = 1 + 2.0**-30, 1 + 2.0**-24 - 2.0**-30
    known = ("finite", "wide", "tiny", "tie", "ties", "double", "halves")
    engines = [option for option in options if option not in known] or [None]
    key = 1 if sums(how).rounds_randomly else None
    for begin in (None,) if how == "exact" or "nvfp4" in name else (None, addend):
        got, want = (
            np.asarray(lp.matmul(left, right, sums(how), addend=begin, rng=key, backend=backend))
            for backend in (engines[0], "oracle")
        )
        differ = np.argwhere(bits_of(got) != bits_of(want))
        if differ.size:
            i, j = differ[0].tolist()
            case = {"row": i, "column": j, "addend": "none" if begin is None else str(begin[i, j])}
            yield "agrees with the oracle", case | {"got": str(got[i, j]), "want": str(want[i, j])}
            return


def bits_of(array):
    """Return the bits of an array's elements."""
    return array.view(f"u{array.itemsize}")


def whole_blocks(name, backend=None):
    """Compare blocks of numbers, and the values of any codes, with the oracle's."""
    import numpy as np

    import lowprec as lp
    from lowprec.arrays.blocks.block import BlockArray
    from lowprec.spec import catalog

    known = {
        "largest": lambda: lp.BlockFormat(
            name="largest", element=catalog.E2M1FN, scale=catalog.E8M0FNU, size=8, infinity="largest"
        ),
        "powers": lambda: lp.BlockFormat(
            name="powers", element=catalog.E4M3FN, scale=catalog.E4M3FN, size=8, rule="rceil"
        ),
        "wide": lambda: lp.BlockFormat(
            name="wide",
            element=catalog.E4M3FN,
            size=8,
            rule="divide",
            tensor_scale="divide",
            scale=lp.Format(name="long", exponent_bits=2, trailing_bits=29, sign="unsigned", nans=1),
        ),
    }
    fmt, rng = known[name]() if name in known else lp.block_formats[name], np.random.default_rng(0)
    parts = numbers(rng, (5, 70), False), rng.normal(size=(5, 70)) * 1e-40, rng.normal(size=(1, 70)) * 1e30
    x = np.concatenate(parts).astype(np.float32)
    x[-1, ::7], x[-1, 1::7] = 0, 1e-20
    # Beside 1e30 a tensor's scale leaves little of others.
    near = numbers(rng, (5, 70), True).astype(np.float32)
    pairs = {}
    for what, given in (("near ", near), ("", x)):
        got, want = (lp.encode(given, fmt, backend=engine) for engine in (backend, "oracle"))
        pairs |= {f"{what}codes": (got.codes, want.codes), f"{what}scales": (got.scales, want.scales)}
        if len(fmt.sizes) == 1:  # the oracle and the kernels share what fills up blocks that lack elements
            full = given[:, : 70 // fmt.sizes[0] * fmt.sizes[0]]
            whole = lp.encode(full, fmt, tensor_scale=got.tensor_scale)
            pairs[f"{what}codes before a tail"] = got.codes[:, : full.shape[1]], whole.codes
    codes = rng.integers(0, 1 << fmt.element.width, got.codes.shape).astype(got.codes.dtype)
    scales = rng.integers(0, 1 << fmt.scale.width, got.scales.shape).astype(got.scales.dtype)
    scales[:4] = want.scales[:4]
    any_codes = BlockArray(codes, scales, fmt, got.axes, got.tensor_scale)
    pairs["values"] = lp.decode(any_codes, backend=backend), lp.decode(any_codes, backend="oracle")
    for what, (mine, theirs) in pairs.items():
        differ = np.argwhere(bits_of(mine) != bits_of(theirs))
        if differ.size:
            at = tuple(differ[0].tolist())
            case = {"what": what, "at": str(at), "got": str(mine[at]), "want": str(theirs[at])}
            yield "agrees with the oracle", case
            return


def engine(backend, operation, source, target, *options):
    """Compare an engine's codes, and `flags`, with the oracle's; of the `fastest` engine too.

    If `one`, the first operand is for all; if `finite`, results are numbers; if `drawn`, random integers are
    those of `rng=`; if `many`, the engine is asked 40 times together. Other options are a rounding mode and
    fields of a projection.
    """
    import numpy as np

    import lowprec as lp
    from lowprec.arrays.checks import code_dtype, codes_operand
    from lowprec.arrays.operations import codes_of
    from lowprec.spec.arith import OPERANDS
    from lowprec.spec.rounding import rounding
    from lowprec.verify.inputs.operands import operands
    from lowprec.verify.reference.operations import operand_format

    steps = lp.Codebook("steps", (1.0, 2.0, 4.0, float("nan")))
    rng, fmt = np.random.default_rng(0), steps if target == steps.name else operand_format(target)
    fields = dict(option.split("=") for option in options if "=" in option)
    if "via" in fields:
        fields["via"] = (lp.format(fields["via"]),)
    if "nan_code" in fields:
        fields["nan_code"] = int(fields["nan_code"])
    mode = [
        option
        for option in options
        if option not in ("flags", "one", "finite", "drawn", "many") and "=" not in option
    ]
    rule = lp.Projection(rounding=(*mode, "nearest_even")[0], **fields)
    sources = [operand_format(source)] * OPERANDS.get(operation, 1)
    if operation == "scaleb":
        sources[1] = operand_format("int16")
    columns = operands(operation, (*sources, fmt), 500, 0)
    if isinstance(fmt, lp.Codebook) and len(columns) == 1 and source == "binary32":
        points = np.float32([*map(float, fmt.thresholds), *map(float, fmt.values)])
        columns = [np.concatenate([columns[0], points.view(np.uint32).astype(columns[0].dtype)])]
    if "finite" in options:
        values = [lp.decode(codes, kind) for codes, kind in zip(columns, sources, strict=True)]
        kept = np.isfinite(values).all(axis=0) & (values[-1] != 0)
        columns = [column[kept] for column in columns]
    chosen = rng.permutation(columns[0].size)[:900]
    columns = [column[chosen] for column in columns]
    if "one" in options:
        columns[0] = columns[0][:1]
    bits = rounding(rule.rounding).bits
    drawn = (
        {"rng": 7}
        if "drawn" in options
        else {"random": rng.integers(0, 1 << bits, chosen.size)}
        if bits
        else {}
    )
    results = []
    for name in (None if backend == "fastest" else backend, "oracle"):
        times = 40 if "many" in options and name != "oracle" else 1
        flags = np.zeros(times * chosen.size, np.uint8) if "flags" in options else None
        given = [
            codes_operand(np.tile(column, times), of) for column, of in zip(columns, sources, strict=True)
        ]
        codes = codes_of(operation, given, fmt, rule, code_dtype(fmt), flags=flags, backend=name, **drawn)
        signals = codes * 0 if flags is None else flags
        results.append((codes[-chosen.size :], signals[-chosen.size :]))
    (got, got_flags), (want, want_flags) = results
    differ = np.flatnonzero((got != want) | (got_flags != want_flags))
    if differ.size:
        at = differ[0]
        case = {f"operand {i + 1}": hex(column[at % column.size]) for i, column in enumerate(columns)}
        case |= {
            "got": f"{got[at]:#x} flags {got_flags[at]}",
            "want": f"{want[at]:#x} flags {want_flags[at]}",
        }
        yield "agrees with the oracle", case


def in_doubles(backend, operation, name, *options):
    """Compare results that an engine gives as binary64 numbers with the oracle's; of codes if by `table`.

    Operands are of binary64 if `double`; if `finite` they are numbers alone, some far larger than others.
    """
    import numpy as np

    import lowprec as lp

    rng = np.random.default_rng(0)
    rows = numbers(rng, (5, 70), "finite" in options)
    if "finite" in options:
        rows[2] = 1.0
        rows *= 2.0 ** rng.integers(-14, 14, rows.shape)
    rows = rows / 3 if "double" in options else rows.astype(np.float32)
    if backend == "table":
        rows = lp.encode(rows, name).view(lp.dtype(name))
    results = []
    for engine in (backend, "oracle"):
        flags = np.zeros(rows.shape, np.uint8) if "flags" in options else None
        made = getattr(lp, operation)(rows, rows[::-1], name, dtype=np.float64, flags=flags, backend=engine)
        results.append((made, made * 0 if flags is None else flags))
    (got, got_flags), (want, want_flags) = results
    differ = np.argwhere((bits_of(got) != bits_of(want)) | (bits_of(got_flags) != bits_of(want_flags)))
    if differ.size:
        at = tuple(differ[0].tolist())
        yield "agrees with the oracle", {"at": str(at), "got": str(got[at]), "want": str(want[at])}


def statistics(name, count="1001"):
    """Compare a report with NumPy's sums, and the error of a searched scale with those of others."""
    import numpy as np

    import lowprec as lp

    rng = np.random.default_rng(0)
    size = int(count)
    x = (rng.normal(size=size) * 2.0 ** rng.integers(-6, 7, size)).astype(np.float32)
    x[::49] = 0
    scale = np.float32(np.abs(x).max() / lp.format(name).max_finite / 4)

    def results(scale):
        exact = lp.quantize(x / np.float32(scale), name, saturation="finite").astype(np.float64)
        return exact * np.float64(scale)

    report, errors = lp.error_report(x, name, scale=scale, saturation="finite"), results(scale) - x
    largest = scale * np.float64(lp.format(name).max_finite)
    found = report.mse, report.mean_error, report.max_abs_error, report.flushed, report.clipped
    wanted = (
        np.square(errors).sum() / x.size,
        errors.sum() / x.size,
        np.abs(errors).max(),
        ((results(scale) == 0) & (x != 0)).sum() / (x != 0).sum(),
        (np.abs(x.astype(np.float64)) > largest).sum() / x.size,
    )
    if found != tuple(map(float, wanted)):
        yield "sums as NumPy", {"got": str(found), "want": str(tuple(map(float, wanted)))}
        return
    best, tried = lp.scale_for(x, name, method="mse"), scale * 2.0 ** np.linspace(-4, 3, 400)
    least = min(np.square(results(other) - x).sum() for other in tried)
    if (error := np.square(results(best) - x).sum()) > least * (1 + 2.0**-8):
        yield "no other scale is better", {"scale": str(best), "got": str(error), "want": str(least)}


def random(key):
    """Compare random words with those of another implementation, which counts before it draws."""
    import numpy as np
    import randomgen

    import lowprec as lp

    other = randomgen.Philox(counter=0, key=key, number=4, width=32)
    want = np.asarray(other.random_raw(64), np.uint64).tolist()
    got = lp.random_bits(64, key, 32, origin=(4,), within=(68,)).tolist()
    if got != want:
        yield "published words", {"got": str(got[:4]), "want": str(want[:4])}


def refusals(name):
    """Encode numbers looked up by 16 bits, one of which is NaN: it has no code."""
    import numpy as np

    import lowprec as lp

    x = np.zeros(1 << 15, np.float16)
    x[77] = np.nan
    try:
        lp.encode(x, name)
    except ValueError:
        return
    yield "refuses", {"x": "NaN"}


def function(name, rounding):
    """Compare a function of all codes of 8 bits with MPFR's."""
    import gmpy2
    import ml_dtypes
    import numpy as np

    import lowprec as lp

    modes = {"nearest_even": gmpy2.RoundToNearest, "toward_positive": gmpy2.RoundUp}
    x = np.arange(0x78, dtype=np.uint8).view(ml_dtypes.float8_e4m3)
    got = getattr(lp, name)(x, "binary32", rounding=rounding, backend="scalar")
    with gmpy2.context(precision=24, emax=128, emin=-148, subnormalize=True, round=modes[rounding]):
        want = np.float32([float(getattr(gmpy2, name)(gmpy2.mpfr(float(each)))) for each in x])
    differ = np.flatnonzero(got != want)
    if differ.size:
        at = differ[0]
        yield "agrees with MPFR", {"x": str(x[at]), "got": str(got[at]), "want": str(want[at])}


def unit(name, fmt):
    """A unit that rounds NumPy's value in binary64 once more, as laws of functions see it."""
    import numpy as np

    import lowprec as lp
    from lowprec.spec import catalog
    from lowprec.testing.operation import OperationSubject

    target = catalog.format(fmt)

    def call(_, codes):
        given = lp.decode(codes[0].astype(np.uint8), target, dtype=np.float64)
        return lp.encode(getattr(np, name)(given), target).astype(np.int64)

    return OperationSubject(name, (target,), target, lp.Projection(), "numpy", call, 300, 0, siblings=False)


def values(fmt):
    """Compare blocks decoded to binary32 with those in binary64, and operands beyond binary32's range."""
    import numpy as np

    import lowprec as lp

    blocks = lp.encode(np.random.default_rng(0).normal(size=(8, 64)), fmt)
    got, want = lp.decode(blocks), lp.decode(blocks, dtype="float64")
    if (got != want).any():
        yield "decodes alike", {"got": str(got[got != want][0]), "want": str(want[got != want][0])}
    blocks.scales[...] = blocks.format.scale.max_magnitude
    got, want = (
        lp.divide(blocks, blocks.format.scale.max_finite, "binary32"),
        lp.decode(blocks.codes, fmt.element),
    )
    if (got != want).any():
        yield "operands are exact", {"got": str(got[got != want][0]), "want": str(want[got != want][0])}


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
            if law.concerns(subject):
                with np.errstate(all="ignore"):
                    found = law.check(subject).found
                if found is not None:
                    yield law.name, dict(found.rows)
        except Exception as error:
            yield law.name, {"error": f"{type(error).__name__}: {error}"}


def main():
    """Print what was found on the first item that breaks a law.

    Kernels that requests for few results share are tried first, and then those of the formats' own.
    """
    items = json.loads(sys.argv[1])
    for item in [*items, None, *items]:
        if item is None:
            own_kernels()
            continue
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


def own_kernels():
    """Have every request done by kernels of its own formats and rules, as if it were for many results."""
    from lowprec.arrays import calls
    from lowprec.kernels import engine

    engine.MANY = engine.PAYS = 0
    calls._known.clear()


if __name__ == "__main__":
    main()
