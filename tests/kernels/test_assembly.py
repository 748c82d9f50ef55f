"""What the compiler makes of the loops for named processors: vectors of 32-bit lanes, nothing harmful.

Times are noisy, assembly is not. numba widens 32-bit arithmetic to 64 bits, and a loop in 64-bit
lanes gives the same codes at half the speed: no other test would see it.

The kernels are compiled for processors with AVX2 and with AVX-512, in a process of their own for each, and
not run: the processor at hand may be any x86-64.
"""

import functools
import json
import platform
import re

import numba
import pytest

from tests.support import python

pytestmark = [
    pytest.mark.apart,
    pytest.mark.skipif(
        platform.machine() not in ("x86_64", "AMD64") or bool(numba.config.DISABLE_JIT),
        reason="reads the assembly of x86-64",
    ),
]

#: LLVM's names of a processor with AVX2 and of one with AVX-512.
PROCESSORS = ("haswell", "skylake-avx512")

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
    """The instructions of each innermost loop that computes with 32 bytes or more at a time, loop by loop."""
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
    return sorted(
        {name for names in loops for name in names if name in WIDE_SHIFTS or name.startswith(ONE_BY_ONE)}
    )


# -- the kernels ------------------------------------------------------------------------------------


@functools.cache
def assembly_for(processor):
    """Return the assembly of each function of `compiled_functions`, by its name."""
    environment = {"NUMBA_CPU_NAME": processor, "NUMBA_CPU_FEATURES": "", "LOWPREC_CACHE_DIR": ""}
    return json.loads(python("-m", "tests.kernels.compiled_functions", **environment))


@pytest.mark.parametrize("processor", PROCESSORS)
def test_hot_loops_are_vectors_of_32_bit_lanes(processor):
    """In the registers of 32 or 64 bytes; no shift in lanes of 64 bits, no call, no lane by itself."""
    kernels = assembly_for(processor)["kernels"]
    assert {name: found for name, text in kernels.items() if (found := shortcomings(text))} == {}


@pytest.mark.parametrize("processor", PROCESSORS)
def test_random_words_are_drawn_in_vectors(processor):
    """Philox multiplies in 64-bit lanes on purpose, and shifts in them; nothing else is wrong with it."""
    assembly = assembly_for(processor)["philox"]
    assert any(_names(loop) & {"vpmuludq", "vpmullq"} for loop in vector_loops(assembly))
    assert set(shortcomings(assembly)) <= WIDE_SHIFTS


# -- what is to be found is found -------------------------------------------------------------------


@pytest.mark.parametrize("processor", PROCESSORS)
def test_a_loop_in_lanes_of_64_bits_is_found(processor):
    """The trap itself, in plain numba; with its shift masked the same loop passes."""
    loops = assembly_for(processor)["loops"]
    assert set(shortcomings(loops["shifted_in_wide_lanes"])) & WIDE_SHIFTS
    assert shortcomings(loops["shifted_in_narrow_lanes"]) == []


@pytest.mark.parametrize("processor", PROCESSORS)
def test_a_loop_without_vectors_is_found(processor):
    """Otherwise a kernel that is no vector loop at all would have no shortcomings."""
    assert shortcomings(assembly_for(processor)["loops"]["one_after_the_other"]) == ["no vectors"]


@pytest.mark.parametrize("planted", ["callq", "vpinsrd", "vpextrb", "vpsrlvq"])
@pytest.mark.parametrize("processor", PROCESSORS)
def test_an_instruction_in_the_midst_of_a_hot_loop_is_found(processor, planted):
    """Each vector loop of a real kernel, with one more instruction after its first."""
    assembly = assembly_for(processor)["kernels"]["encode_e4m3fn"]
    loops = list(vector_loops(assembly))
    for loop in loops:
        first = f"\t{loop[0]}\n"
        assert first in assembly
        assert planted in shortcomings(assembly.replace(first, f"{first}\t{planted}\t%rax\n", 1))
    assert loops
