"""Only the rounding modules discard a significand's bits, and every dispatch ends in a branch that fails.

The first is read off the source: whatever can discard low bits (a shift down, a mask of high bits, an
instruction or a NumPy call that narrows) is in a rounding module, or in a function named here with the reason
why nothing is lost.
"""

import ast
import pathlib

import pytest

from tests.support import python

ROOT = pathlib.Path(__file__).parents[2]
KERNELS = ROOT / "lowprec" / "kernels"
ROUNDING = (
    "general/rounding.py",
    "scalar/rounding.py",
    "vector/rounding.py",
    "vector/ir/rounding.py",
    "vector/ir/numbers.py",
)

#: The kernels of all rooms, and what prepares arrays for them.
MODULES = sorted(
    path.relative_to(KERNELS).as_posix()
    for room in ("general", "scalar", "vector")
    for path in (KERNELS / room).rglob("*.py")
)

#: Methods of LLVM's builder, and functions of NumPy, whose result may lack low bits.
NARROWING = {
    "lshr", "ashr", "fptrunc", "fptosi", "fptoui", "sdiv", "udiv", "rint", "round", "floor", "ceil",
    "trunc",
}  # fmt: skip
NARROWING |= {"right_shift", "floor_divide", "astype", "frexp", "narrowed_to_half", "truncated"}

#: Functions that shift down or narrow, and why no bit of a significand is lost.
EXACT = {
    "general/block_program.py:run": "codes of scales, in wider words",
    "general/block_program.py:_part": "codes of scales, in wider words",
    "general/blocks.py:divided": "a factor in binary32, normalized: what goes are zeros",
    "general/blocks.py:whole": "zeros below the last bit that is set",
    "general/codebooks.py:_answers": "codes and flags, in the type that holds both",
    "general/codebooks.py:_draws": "a gap, of which a point about three quarters along is looked at",
    "general/codebooks.py:answer_words": "words of tables, in the types that hold them",
    "general/codebooks.py:answered": "the flags and the mark of an answer",
    "general/codebooks.py:is_farther": "an exponent field",
    "general/codebooks.py:look_up": "one of two answers",
    "general/codebooks.py:looked_up": "the range of a word, and one of two answers",
    "general/kernel.py:result": "the mark of a remainder that was folded",
    "general/numbers.py:read": "the exponent field of a code",
    "general/numbers.py:word_product": "halves of words, all of which are used",
    "general/operations.py:long_number": "bits that go down into the next word, and the last bit, which is 0",
    "general/operations.py:long_sum": "bits that go up into the next word",
    "general/operations.py:scaleb": "an integer, normalized: what goes are zeros",
    "general/operations.py:sqrt": "the sign of a rest; half of an even exponent",
    "general/quotients.py:as_53_bits": "a normalized number of at most 53 bits: what goes are zeros",
    "general/quotients.py:corrected": "the sign of a rest",
    "general/quotients.py:long_quotient": "the bits after the first 53, which join the rest",
    "general/scales.py:product": "normalized factors of 40 and 24 bits: what goes are zeros",
    "scalar/block.py:quotient": "digits of a quotient, whose remainder is kept; halves of a divisor "
    "that are zeros",
    "scalar/convert.py:on_ray": "the middle of two places",
    "scalar/convert.py:read": "the exponent field of a code",
    "scalar/dot.py:number_of_double": "the exponent field and the sign of a binary64 number",
    "scalar/dot.py:sums_of_doubles": "the sign of a binary64 number",
    "scalar/dot.py:work_of": "the place of a product",
    "scalar/exact_sum.py:add_number": "the word that a place is in",
    "scalar/exact_sum.py:number_of_sum": "the sign of a sum",
    "scalar/numbers.py:shifted_up": "bits that go up into the next word",
    "scalar/numbers.py:digits": "halves of a divisor, both of which are used",
    "scalar/numbers.py:square_root": "72 digits, of which the upper word has 64; half of an even exponent",
    "scalar/program.py:_scales_of": "codes of scales, in wider words",
    "scalar/program.py:part": "codes, in the type that holds all of them",
    "scalar/sums.py:leaf": "the kind of a number, beside its sign",
    "scalar/sums.py:drawn": "random words and places",
    "scalar/windows.py:factor": "a word of a panel: kind, sign, exponent",
    "vector/block.py:scales_of_powers": "whether an exponent is negative",
    "vector/block.py:single_of": "the exponent field of a binary32 number",
    "vector/block.py:as_double": "at most 53 bits, of which the upper is left out as binary64 has it",
    "vector/convert.py:keeps_subnormals": "a constant of the plan",
    "vector/dot.py:rows": "exponent fields; the products of a window are scaled to units before "
    "`truncated` cuts them",
    "vector/dot_operands.py:enclosed": "binary32 numbers as wider ones",
    "vector/dot_operands.py:places_of": "places of products",
    "vector/dot_operands.py:prepared": "exponent fields, and exponents as words",
    "vector/dot_operands.py:raised_by": "codes of powers of two, as exponents",
    "vector/dot_operands.py:scaled": "binary32 numbers as wider ones, and products that binary32 holds",
    "vector/dot_operands.py:values": "binary32 numbers as wider ones",
    "vector/dot_operands.py:span": "the sign of a binary64 number, and its significand as an integer",
    "vector/dot_operands.py:slices": "what is cut off is the next slice",
    "vector/dot_program.py:_doubles": "codes of binary32 numbers, in the type that holds them",
    "vector/dot_program.py:_sequence": "binary32 numbers as wider ones",
    "vector/dot_native_terms.py:_in_lanes": "scales that were binary32 numbers",
    "vector/dot_native_terms.py:_lowest_of": "an exponent",
    "vector/dot_native_terms.py:by_processor": "binary32 numbers as wider ones, and codes",
    "vector/dot_terms.py:by_terms": "binary32 numbers as wider ones",
    "vector/dot_native_terms.py:span_of": "the unit of a format's values",
    "vector/dot_program.py:_by_bounds": "binary32 numbers as wider ones",
    "vector/dot_program.py:_write_scaled": "binary32 numbers as wider ones",
    "vector/dot_program.py:_by_lanes": "codes, in the type that holds all of them",
    "vector/dot_specials.py:_stays_below": "exponent fields",
    "vector/dot_specials.py:_with_infinities": "truths as numbers",
    "vector/doubles.py:exponent_of": "an exponent field",
    "vector/doubles.py:joined": "digits, which are all kept or known not to be zero; halves of an integer",
    "vector/dot_terms.py:_matrix": "scales as wider numbers, and marks of words",
    "vector/dot_terms.py:_in_lanes": "codes, in the type that holds all of them",
    "general/tiles.py:factor": "the fields of a word",
    "general/tiles.py:draw": "the bits of a random word that are used",
    "general/sums.py:added": "bits that go to the upper word",
    "general/sums.py:terms": "a sign",
    "general/windows.py:pair_at": "the fields of words",
    "general/windows.py:align_group": "a mark",
    "general/windows.py:add_group": "a sign",
    "general/windows.py:close": "a sign",
    "general/sums_program.py:part": "one bit of an index",
    "vector/dot.py:to_half": "calls the rounding module",
    "vector/dot.py:fuse_to_half": "calls the rounding module",
    "vector/dot.py:add_halves": "calls the rounding module",
    "vector/convert.py:project": "calls the rounding module",
    "vector/exact.py:extent": "exponent fields, and places of bits",
    "vector/order.py:gap": "an exponent field",
    "vector/widened_program.py:_factors": "binary32 numbers as wider ones",
    "vector/ir/lanes.py:fused": "the meaning in NumPy of one instruction, the processor's own",
    "vector/ir/lanes.py:one_where": "a mask as words",
    "vector/ir/lanes.py:widened_from_half": "16 bits of a word, and a wider number",
    "vector/ir/lanes.py:_widened_from_half": "16 bits of a word",
    "vector/ir/lanes.py:load": "a wider word",
    "vector/ir/lanes.py:store": "the code in a word's low bits, or a wider number",
    "vector/ir/lanes.py:_store": "the code in a word's low bits",
    "vector/ir/longs.py:interleaved": "low halves, of random words",
    "vector/ir/language.py:_spread": "a number that lanes take, of as many bits as they have",
}


def _discards(node):
    """Whether a node of a syntax tree may discard low bits."""
    if isinstance(node, ast.BinOp | ast.AugAssign):
        if isinstance(node.op, ast.RShift):
            return True
        masks = [node.right, node.left] if isinstance(node, ast.BinOp) else [node.value]
        return isinstance(node.op, ast.BitAnd) and any(
            isinstance(mask, ast.Constant)
            and isinstance(mask.value, int)
            and mask.value > 1
            and not mask.value & 1
            for mask in masks
        )
    if isinstance(node, ast.Call):
        called = node.func
        name = (
            called.attr
            if isinstance(called, ast.Attribute)
            else called.id
            if isinstance(called, ast.Name)
            else ""
        )
        return name in NARROWING
    return False


def discarding(source, module):
    """A module's functions that may discard low bits, as module:function; code outside of functions too."""
    found = set()

    def visit(node, name):
        if isinstance(node, ast.FunctionDef):
            name = node.name
        if _discards(node):
            found.add(f"{module}:{name}")
        for child in ast.iter_child_nodes(node):
            visit(child, name)

    visit(ast.parse(source), "")
    return found


def test_bits_are_discarded_in_the_rounding_modules_alone():
    """And in no function that is not listed; nor is one listed that has no need of it."""
    others = [module for module in MODULES if module not in ROUNDING]
    found = set().union(*(discarding((KERNELS / module).read_text(), module) for module in others))
    assert found == set(EXACT)


def signed_sums(source):
    """Indices that are sums with the variable of a loop over a range, and not cast."""
    nodes = list(ast.walk(ast.parse(source)))
    loops = [n for n in nodes if isinstance(n, ast.For) and ast.unparse(n.iter).startswith("range(")]
    variables = {loop.target.id for loop in loops}
    places = [n.slice for n in nodes if isinstance(n, ast.Subscript)]
    places = [each for place in places for each in getattr(place, "elts", [place])]
    return [ast.unparse(p) for p in places if isinstance(p, ast.BinOp) and _addends(p) & variables]


def _addends(node):
    """Names in a sum or a product, not those of numbers that are looked up."""
    if isinstance(node, ast.BinOp):
        return _addends(node.left) | _addends(node.right)
    return {node.id} if isinstance(node, ast.Name) else set()


@pytest.mark.parametrize("path", sorted((KERNELS / "general").glob("*.py")), ids=lambda path: path.name)
def test_indices_that_are_sums_are_unsigned_in_lanes(path):
    """Of signed ones numba asks whether they count from the end: loops are not made of vectors then."""
    assert signed_sums(path.read_text()) == []


@pytest.mark.parametrize("index", ["first + j", "j - 1", "k, 2 * j"])
def test_a_signed_index_would_be_seen(index):
    loop = "for j in range(9):\n    out[_U(first + j)] = words[{}]"
    assert signed_sums(loop.format(index)) == [index.rpartition(", ")[2]]
    assert signed_sums(loop.format("_U(first + j)")) == signed_sums(loop.format("first + codes[j]")) == []


@pytest.mark.parametrize(
    "line",
    [
        "return significand >> _1",
        "significand >>= _1",
        "return word & 0xFFFF0000",
        "return builder.lshr(wide, one)",
        "return builder.fptrunc(wide, single)",
        "return wide.astype(np.float32)",
        "return narrowed_to_half(word)",
    ],
)
@pytest.mark.parametrize("module", ["scalar/numbers.py", "vector/arith.py"])
def test_a_function_that_discards_bits_is_found(module, line):
    """Planted at the end of a module that has no business with it."""
    planted = f"{(KERNELS / module).read_text()}\n\ndef planted(significand):\n    {line}\n"
    assert discarding(planted, module) - set(EXACT) == {f"{module}:planted"}


def test_only_the_vector_rounding_module_imports_primitives_that_round():
    """All others get them from there, where they are described."""
    for name in ("rounding", "numbers"):
        line = f"from lowprec.kernels.vector.ir.{name} import"
        importing = {module for module in MODULES if line in (KERNELS / module).read_text()}
        assert importing == {"vector/rounding.py"}


UNKNOWN = """
import numpy as np
from lowprec.kernels.general import scales
from lowprec.kernels.lower import block as blocks, vector as plans
from lowprec.kernels.lower.kinds import Kind
from lowprec.kernels.lower.scalar import lower_source, lower_target
from lowprec.kernels.scalar import arith, convert
from lowprec.kernels.vector import convert as vectors
from lowprec.spec import catalog
from lowprec.spec.projection import DEFAULT

np.seterr(all="ignore")
source, target = lower_source(catalog.E5M2), lower_target(catalog.E5M2, DEFAULT)
codes, none = np.ones(1, np.uint64), np.zeros(0, np.uint32)


def operation(count):
    flags = np.zeros(1, np.uint8)
    arith.operate(len(arith.KNOWN), count, codes, source, codes, source, codes, source, codes.copy(), target,
                  False, False, none, flags)


def kind():
    grid = convert.load_grid(target)
    convert.project(len(Kind), False, codes[0], codes[0], np.int64(0), codes[0], grid, target)


def route(place, value):
    decoder, encoder = plans.lower_decoder(catalog.BINARY32), plans.lower_encoder(catalog.E4M3FN, DEFAULT)
    words = plans.plan(decoder, encoder).copy()
    words[place] = value
    vectors.kernel(plans.shapes(words), False)(words, none, np.ones(40, np.uint32), np.zeros(40, np.uint8))


def policy(name, value):
    fmt = catalog.block_format("nvfp4")
    rule = blocks.lower_block(fmt).copy()
    rule[blocks.BlockRule._fields.index(name)] = value
    scales.load_rule(rule)


target_at = plans.PROBE + plans.DECODER
tries = [
    lambda: operation(1), lambda: operation(2), lambda: operation(3), kind,
    lambda: route(target_at, plans.HALF + 1),
    lambda: route(target_at + plans.Encoder._fields.index("limits"), plans.DRAWN + 1),
    lambda: route(plans.PROBE, plans.SHIFT + 1),
    lambda: policy("arithmetic", len(blocks.ARITHMETICS)), lambda: policy("zero", blocks.RULE + 1),
    lambda: policy("nan", blocks.LARGEST + 1), lambda: policy("infinity", blocks.LARGEST + 1),
]
failed = 0
for attempt in tries:
    try:
        attempt()
    except ValueError as error:
        failed += "without a" in str(error)
print(failed, "of", len(tries))
"""


def test_what_a_kernel_does_not_know_fails():
    """Give the number after the last, for an operation, kind, route, limit and policy; uncompiled."""
    assert python("-c", UNKNOWN, NUMBA_DISABLE_JIT="1").strip() == "11 of 11"
