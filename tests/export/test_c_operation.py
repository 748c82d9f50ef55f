"""Headers of operations, compiled as C99, against the oracle: codes and flags, any formats and rules."""

import ctypes
import itertools
import re
import subprocess
from fractions import Fraction

import numpy as np
import pytest
from click.testing import CliRunner

from lowprec.arrays.checks import code_dtype
from lowprec.cli.main import main
from lowprec.export import formula, words
from lowprec.export.c.c_operation import operation_header, operation_name
from lowprec.export.tabulate import provenance
from lowprec.oracle import arith, convert, flags
from lowprec.oracle.exact import Special
from lowprec.oracle.flags import is_signaling
from lowprec.spec import catalog
from lowprec.spec.arith import OPERANDS
from lowprec.spec.format import Format
from lowprec.spec.formats import find
from lowprec.spec.projection import DEFAULT, Projection
from tests.command import lowprec
from tests.fuzz.drawing import Draw
from tests.fuzz.specifications import any_format, any_projection
from tests.programs import need

FLAGS = ("-std=c99", "-O2", "-Wall", "-Wextra", "-Werror", "-pedantic", "-shared", "-fPIC")
SAID = ("convert", *OPERANDS)
TINY = Format(name="tiny", exponent_bits=2, trailing_bits=1, infinity=True, nans=1)
#: Compilers, and how each ends a program that does what C leaves undefined.
SANITIZED = {
    "gcc": ("-fsanitize=undefined", "-fno-sanitize-recover"),
    "clang": ("-fsanitize=undefined", "-fsanitize-trap=undefined"),
}


def compiled(operation, sources, target, projection, folder, compiler="gcc", more=()):
    """Return the header as a function of arrays of codes, and of random integers."""
    name = "lowprec_tried"
    text = operation_header(operation, sources, target, projection, "a test", name)
    given = [f"const uint{fmt.code_bits}_t *{word}" for fmt, word in zip(sources, "xyz", strict=False)]
    passed = [f"{word}[i]" for word in "xyz"[: len(sources)]] + ["random[i]"] * (projection.rounding.bits > 0)
    given += ["const uint32_t *random", "size_t n", f"uint{target.code_bits}_t *out", "uint8_t *flags"]
    head = f"void run({', '.join(given)})"
    (folder / "tried.h").write_text(text)
    (folder / "tried.c").write_text(
        f'#include <stddef.h>\n#include "tried.h"\n'
        f"{head};\n{head}\n{{ size_t i; (void)random; for (i = 0; i < n; i++) "
        f"out[i] = {name}({', '.join(passed)}, flags + i); }}\n"
    )
    library = folder / f"tried.{compiler}.so"
    subprocess.run([compiler, *FLAGS, *more, "-o", library, folder / "tried.c"], check=True)
    return ctypes.CDLL(str(library)).run


def results(run, operands, random, target):
    """Return codes and flags of arrays of codes."""
    count = len(operands[0])
    out, raised = np.zeros(count, code_dtype(target)), np.zeros(count, np.uint8)
    arrays = [*operands, np.asarray(random, np.uint32)]
    run(*(each.ctypes.data_as(ctypes.c_void_p) for each in arrays), ctypes.c_size_t(count),
        out.ctypes.data_as(ctypes.c_void_p), raised.ctypes.data_as(ctypes.c_void_p))  # fmt: skip
    return list(zip(out.tolist(), raised.tolist(), strict=True))


def expected(operation, codes, sources, target, projection, random):
    """Return the oracle's code and flags."""
    if operation == "convert":
        (code,), (fmt,) = codes, sources
        value, said = convert.decode(code, fmt), is_signaling(code, fmt)
        code = convert.cast(code, fmt, target, projection, random=random)
        tiny = convert.is_subnormal(codes[0], fmt)
        return code, flags.flags(
            value, target, projection, random=random, subnormal_operand=tiny, signaling=said
        )
    if operation == "scaleb" and not is_whole(convert.decode(codes[1], sources[1])):
        return None
    return arith.operate(operation, codes, sources, target, projection, random=random)


def is_whole(value):
    """Return whether `scaleb` takes a value."""
    if value in (Special.INFINITY, Special.NEGATIVE_INFINITY):
        return False
    return not isinstance(value, Fraction) or value.denominator == 1


def differing(operation, sources, target, projection, operands, random, folder, compiler="gcc", more=()):
    """Count the results that are not the oracle's."""
    arrays = [np.array(each, code_dtype(fmt)) for each, fmt in zip(operands, sources, strict=True)]
    run = compiled(operation, sources, target, projection, folder, compiler, more)
    made = results(run, arrays, random, target)
    bits = projection.rounding.bits
    wanted = (
        expected(operation, codes, sources, target, projection, drawn if bits else None)
        for *codes, drawn in zip(*operands, random, strict=True)
    )
    return sum(theirs not in (ours, None) for ours, theirs in zip(made, wanted, strict=True))


def every(fmt, count):
    """Return all tuples of codes, by operand."""
    return list(zip(*itertools.product(range(1 << fmt.width), repeat=count), strict=True))


@pytest.mark.parametrize(
    "operation",
    [
        pytest.param(
            name, marks=[] if name in ("add", "fma", "divide", "sqrt", "convert") else pytest.mark.apart
        )
        for name in SAID
        if name != "remainder"
    ],
)
def test_all_results_of_a_small_format_are_the_oracles(operation, tmp_path):
    """Compare every operation in four bits, with NaN, infinities and subnormals: codes and flags."""
    need("gcc")
    operands = every(TINY, OPERANDS.get(operation, 1))
    random = [0] * len(operands[0])
    assert differing(operation, [TINY] * len(operands), TINY, DEFAULT, operands, random, tmp_path) == 0


@pytest.mark.apart
@pytest.mark.parametrize("operation", ["add", "multiply", "divide", "sqrt", "minimum_number"])
@pytest.mark.parametrize("name", ["e4m3fn", "e5m2", "binary8p3se"])
def test_all_results_of_formats_of_eight_bits_are_the_oracles(operation, name, tmp_path):
    """Compare 65,536 pairs, or 256 operands."""
    need("gcc")
    fmt = find(name)
    operands = every(fmt, OPERANDS[operation])
    random = [0] * len(operands[0])
    assert differing(operation, [fmt] * len(operands), fmt, DEFAULT, operands, random, tmp_path) == 0


def drawn(number):
    """Draw an operation that a header can say: any formats of at most 32 bits, and any rule."""
    for place in itertools.count():
        draw = Draw(11, "headers", 1000 * number + place)
        operation = draw.choice(SAID)
        sources = [any_format(draw) for _ in range(OPERANDS.get(operation, 1))]
        target = any_format(draw)
        projection = any_projection(draw, target, via=())
        try:
            operation_header(operation, sources, target, projection)
        except ValueError:
            continue
        return operation, sources, target, projection
    raise AssertionError


@pytest.mark.parametrize(
    "number", [*range(2), *(pytest.param(number, marks=pytest.mark.apart) for number in range(2, 40))]
)
def test_drawn_operations_give_what_the_oracle_gives(number, tmp_path):
    """Compare codes and flags; nothing is undefined in C on the way, to gcc and to clang in turn."""
    compiler = ("gcc", "clang")[number % 2]
    need(compiler)
    operation, sources, target, projection = drawn(number)
    rng = np.random.default_rng(number)
    operands = [rng.integers(0, 1 << fmt.width, 400).tolist() for fmt in sources]
    for each, fmt in zip(operands, sources, strict=True):
        some = {0, 1, fmt.max_magnitude, fmt.sign_code, (1 << fmt.width) - 1, fmt.max_magnitude + 1}
        each[:6] = [code & (1 << fmt.width) - 1 for code in some][:6] + [0] * (6 - len(some))
    random = rng.integers(0, 1 << projection.rounding.bits, 400).tolist()
    asked = operation, sources, target, projection
    assert differing(*asked, operands, random, tmp_path, compiler, SANITIZED[compiler]) == 0, asked


def test_another_limit_of_rounding_is_seen(tmp_path, monkeypatch):
    """Plant a formula that rounds away from zero: agreement means something."""
    need("gcc")
    monkeypatch.setitem(formula._BY_NAME, "limit_of", lambda negative, odd, target: odd & words.word_of(0))
    operands = every(TINY, 2)
    random = [0] * len(operands[0])
    assert differing("add", [TINY, TINY], TINY, DEFAULT, operands, random, tmp_path) > 0


NO_FORMULA = "{} into 'e4m3fn' has no formula in 64-bit words: it has "
REFUSED = {
    "add nf4 e4m3fn": (DEFAULT, NO_FORMULA.format("add") + "the codebook 'nf4'"),
    "remainder e4m3fn e4m3fn": (
        DEFAULT,
        NO_FORMULA.format("remainder") + "as many steps as the quotient is long",
    ),
    "convert binary32 e4m3fn": (
        Projection(via=(catalog.BINARY16,)),
        NO_FORMULA.format("convert") + "a rounding on the way (via)",
    ),
    "add e4m3fn e2m1fn": (
        Projection(nan="error"),
        "add into 'e2m1fn' refuses some results, and a formula gives a code for each; use another "
        "Projection(nan=...), of the commands --nan-becomes, or Projection(negative=...)",
    ),
    "exp e4m3fn e4m3fn": (DEFAULT, "'exp' has no formula; use convert or one of add, subtract, "),
}


@pytest.mark.parametrize("asked", REFUSED)
def test_what_c_does_not_say_is_refused_by_name(asked):
    """Name the operation, and what it needs."""
    (operation, source, target), (rule, why) = asked.split(), REFUSED[asked]
    sources = [find(source)] * OPERANDS.get(operation, 1)
    with pytest.raises(ValueError, match=f"^{re.escape(why)}"):
        operation_header(operation, sources, find(target), rule)


def test_the_command_writes_a_header(tmp_path):
    """Let one format stand for all operands and the result; a mode and a policy are in the name."""
    path, run = tmp_path / "fma.h", CliRunner().invoke
    words = ["export", "c", "--operation", "fma", "--format", "e4m3fn", "--rounding", "toward_zero"]
    result = run(main, [*words, "--saturation", "finite", "-o", str(path)])
    assert (result.exit_code, result.output) == (0, "")
    name = operation_name(
        "fma",
        [catalog.E4M3FN] * 3,
        catalog.E4M3FN,
        Projection(rounding="toward_zero", saturation="finite"),
    )
    assert name == "lowprec_fma_e4m3fn_toward_zero_saturate_finite"
    assert (
        f"static inline uint8_t {name}(uint8_t x, uint8_t y, uint8_t z, uint8_t *flags)" in path.read_text()
    )
    assert "--operation fma --format e4m3fn --rounding toward_zero --saturation finite" in path.read_text()


WRONG_USE = {
    "": "give either --accumulation or --operation",
    "--accumulation exact --operation add": "give either --accumulation or --operation",
    "--operation add": "an operation needs its --format; for instance --format e4m3fn",
    "--operation add --format e4m3fn --operands e4m3fn e4m3fn": (
        "--operands and --scale are for --accumulation; give an operation its --format"
    ),
    "--accumulation fp32_fma --format e4m3fn": (
        "--format, --rounding, --saturation and --nan-becomes are for --operation; an accumulation says "
        "its own"
    ),
}


@pytest.mark.parametrize("words", WRONG_USE)
def test_options_that_do_not_go_together_are_refused(words):
    """Name the way out."""
    result = lowprec("export", "c", *words.split())
    assert (result.exit_code, result.stderr.splitlines()[-1]) == (2, f"Error: {WRONG_USE[words]}")


@pytest.mark.parametrize("language", ["c", "smt"])
def test_the_commands_write_formats_without_nan_by_an_option(language):
    """They named Projection(nan=...), which no option gave."""
    words = ["export", language, "--operation", "convert", "--format", "bfloat16", "--format", "e2m1fn"]
    refused = CliRunner().invoke(main, words)
    assert refused.exit_code == 2
    assert "use another Projection(nan=...), of the commands --nan-becomes, or" in refused.output
    made = {
        nan: CliRunner().invoke(main, [*words, "--nan-becomes", nan])
        for nan in ("zero", "max", "negative_zero")
    }
    assert {done.exit_code for done in made.values()} == {0}
    assert len({done.output for done in made.values()}) == 3
    assert "--format e2m1fn --nan-becomes max" in made["max"].output
    if language == "c":
        said = provenance(" ".join(["lowprec", *words, "--nan-becomes", "max"]))
        rule = Projection(nan="max")
        assert made["max"].output == operation_header(
            "convert", [catalog.BFLOAT16], catalog.E2M1FN, rule, said
        )
    other = CliRunner().invoke(main, [*words[:-1], "e5m2", "--nan-becomes", "max"])
    assert "--nan-becomes is for formats without NaN, and 'e5m2' has one" in other.output
