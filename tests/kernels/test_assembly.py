"""What the compiler made of the loops: vectors of 32-bit lanes, and nothing that would spoil them.

Times are noisy, assembly is not. numba widens 32-bit arithmetic to 64 bits, and a loop in 64-bit
lanes gives the same codes at half the speed: no other test would see it.
"""

from __future__ import annotations

import functools
import inspect
import platform
import re

import llvmlite.binding
import numba
import numpy as np
import pytest

import lowprec as lp
from lowprec.arrays import stream
from lowprec.kernels.random import philox_fill
from lowprec.spec import catalog

pytestmark = pytest.mark.skipif(
    platform.machine() not in ("x86_64", "AMD64")
    or not llvmlite.binding.get_host_cpu_features().get("avx2", False)
    or bool(numba.config.DISABLE_JIT),
    reason="reads the assembly of x86-64 with AVX2",
)

#: Shifts in lanes of 64 bits.
WIDE_SHIFTS = {"vpsrlq", "vpsllq", "vpsrlvq", "vpsllvq", "vpsraq", "vpsravq"}

#: How the names begin of what serves one lane at a time, or leaves the loop.
ONE_BY_ONE = ("call", "vpinsr", "vpextr", "pinsr", "pextr")


# -- reading assembly -------------------------------------------------------------------------------


def _functions(assembly):
    """The lines of each function, labels and instructions only, without its name."""
    found, lines = [], None
    for line in assembly.splitlines():
        text = line.split("#")[0].strip()
        if re.match(r"\.type\s.*@function", text):
            lines = []
            found.append(lines)
        elif text.startswith(".Lfunc_end"):
            lines = None
        elif lines is not None and text and (text.startswith(".LBB") or not text.startswith((".", '"'))):
            lines.append(text)
    return found


def _blocks(lines):
    """Basic blocks by number: their instructions, and the blocks that may come next."""
    instructions, labels = [[]], {}
    for line in lines:
        if line.endswith(":"):
            if instructions[-1]:
                instructions.append([])
            labels[line[:-1]] = len(instructions) - 1
        else:
            instructions[-1].append(line)
            if line.startswith(("j", "ret", "ud2")):
                instructions.append([])
    following = []
    for number, block in enumerate(instructions):
        last = block[-1] if block else ""
        target = labels.get(last.split()[-1]) if last.startswith("j") else None
        ends = last.startswith(("jmp", "ret", "ud2")) or number + 1 == len(instructions)
        following.append({*([] if target is None else [target]), *([] if ends else [number + 1])})
    return instructions, following


def _reached(start, following, within):
    """The blocks that may come after one, among some."""
    seen, waiting = set(), [start]
    while waiting:
        new = (following[waiting.pop()] & within) - seen
        seen |= new
        waiting.extend(new)
    return seen


def _loops(following, within):
    """Sets of blocks that may follow themselves, and hold no smaller such set but through their entry."""
    after = {block: _reached(block, following, within) for block in within}
    while within:
        block = min(within)
        loop = {other for other in after[block] if block in after[other]}
        within = within - loop - {block}
        if loop:
            entries = {b for other in after.keys() - loop for b in following[other] & loop}
            inner = list(_loops(following, loop - {min(entries or loop)}))
            yield from inner or [loop]


def vector_loops(assembly):
    """The instructions of each innermost loop that computes with 32 bytes or more at a time, one list for each."""
    for lines in _functions(assembly):
        instructions, following = _blocks(lines)
        for loop in _loops(following, set(range(len(instructions)))):
            body = [line for block in sorted(loop) for line in instructions[block]]
            if any(re.search(r"%[yz]mm", line) and not line.startswith("vmov") for line in body):
                yield body


def _names(loop):
    """The names of the instructions of a loop."""
    return {line.split()[0] for line in loop}


def shortcomings(assembly):
    """What is wrong with the vector loops of a function."""
    loops = [_names(loop) for loop in vector_loops(assembly)]
    if not loops:
        return ["no vectors"]
    return sorted({name for names in loops for name in names if name in WIDE_SHIFTS or name.startswith(ONE_BY_ONE)})


# -- the kernels ------------------------------------------------------------------------------------


def assembly_of(function, *arguments):
    """What a function becomes for these arguments: compiled again, as what comes from a disk has no assembly."""
    compiled = numba.njit(nogil=True)(function.py_func)
    compiled(*arguments)
    (text,) = compiled.inspect_asm().values()
    return text


STOCHASTIC = lp.Projection(rounding="stochastic(8)")
WAYS = {
    "encode_e4m3fn": (catalog.BINARY32, catalog.E4M3FN, lp.Projection(), None),
    "encode_e5m2": (catalog.BINARY32, catalog.E5M2, lp.Projection(), None),
    "encode_e2m1fn": (catalog.BINARY32, catalog.E2M1FN, lp.Projection(), None),
    "encode_bfloat16": (catalog.BINARY32, catalog.BFLOAT16, lp.Projection(), None),
    "encode_binary16": (catalog.BINARY32, catalog.BINARY16, lp.Projection(), None),
    "encode_to_odd": (catalog.BINARY32, catalog.E4M3FN, lp.Projection(rounding="to_odd"), None),
    "encode_stochastic": (catalog.BINARY32, catalog.E4M3FN, STOCHASTIC, None),
    "decode_e4m3fn": (catalog.E4M3FN, catalog.BINARY32, lp.Projection(), None),
    "quantize_e4m3fn": (catalog.BINARY32, catalog.E4M3FN, lp.Projection(), catalog.BINARY32),
}


def _array_type(fmt):
    """The type of the arrays that kernels get."""
    return np.dtype(np.float32) if fmt == catalog.BINARY32 else np.dtype(f"u{fmt.code_bits // 8}")


@functools.cache
def _kernel_assembly(name):
    source, target, rule, carrier = WAYS[name]
    way = stream.conversion(source, target, rule, carrier)
    codes, out = (np.zeros(64, _array_type(fmt)) for fmt in (source, carrier or target))
    random = np.zeros(64 if rule.rounding.bits else 0, np.uint32)
    return assembly_of(way.kernel, codes, out, way.plan, random)


@pytest.mark.parametrize("name", WAYS)
def test_hot_loops_are_vectors_of_32_bit_lanes(name):
    """In the registers of 32 or 64 bytes; no shift in lanes of 64 bits, no call, no lane by itself."""
    assert shortcomings(_kernel_assembly(name)) == []


def test_random_words_are_drawn_in_vectors():
    """Philox multiplies in lanes of 64 bits, on purpose, and so has their shifts; nothing else is wrong with it."""
    words, first, key = np.empty(64, np.uint32), np.uint64(0), np.uint64(7)
    given = {"out": words, "first": first, "key": key, "stream": np.uint64(0), "bits": np.uint32(8)}
    assembly = assembly_of(philox_fill, *map(given.get, inspect.signature(philox_fill.py_func).parameters))
    assert any("vpmuludq" in _names(loop) for loop in vector_loops(assembly))
    assert set(shortcomings(assembly)) <= WIDE_SHIFTS


# -- what is to be found is found -------------------------------------------------------------------


@numba.njit
def _shifted_in_wide_lanes(words, out, places):
    """In numba a uint32 shifted by a uint32 is a uint64, and LLVM cannot know that `places` is below 32."""
    for i in range(words.size):
        out[i] = np.uint32(words[i] >> places[0])


@numba.njit
def _shifted_in_narrow_lanes(words, out, places):
    """The same, and now it can."""
    for i in range(words.size):
        out[i] = np.uint32(words[i] >> np.uint32(places[0] & np.uint32(31)))


@numba.njit
def _one_after_the_other(words, out, places):
    """Each element needs the one before."""
    last = places[0]
    for i in range(words.size):
        last = np.uint32(last * np.uint32(5) ^ words[i])
        out[i] = last


def _plain(function):
    words = np.ones(64, np.uint32)
    return assembly_of(function, words, np.empty(64, np.uint32), words[:1].copy())


def test_a_loop_in_lanes_of_64_bits_is_found():
    """The trap itself, in plain numba; with its shift masked the same loop passes."""
    assert set(shortcomings(_plain(_shifted_in_wide_lanes))) & WIDE_SHIFTS
    assert shortcomings(_plain(_shifted_in_narrow_lanes)) == []


def test_a_loop_without_vectors_is_found():
    """Otherwise a kernel that is no vector loop at all would have no shortcomings."""
    assert shortcomings(_plain(_one_after_the_other)) == ["no vectors"]


@pytest.mark.parametrize("planted", ["callq", "vpinsrd", "vpextrb", "vpsrlvq"])
def test_an_instruction_in_the_midst_of_a_hot_loop_is_found(planted):
    """Each vector loop of a real kernel, with one more instruction after its first."""
    assembly = _kernel_assembly("encode_e4m3fn")
    loops = list(vector_loops(assembly))
    for loop in loops:
        first = f"\t{loop[0]}\n"
        assert first in assembly
        assert planted in shortcomings(assembly.replace(first, f"{first}\t{planted}\t%rax\n", 1))
    assert loops
