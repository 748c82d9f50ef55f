"""`lowprec identify`: a program as the unit, recorded rows, and exit codes."""

import json
import sys

import pytest

from tests.command import lowprec as command

#: A unit of two products of e4m3fn and a binary32 addend, summed in binary64: it knows nothing of lowprec.
UNIT = """
import struct, sys
def e4m3(code):
    sign, field, trailing = -1.0 if code & 0x80 else 1.0, code >> 3 & 15, code & 7
    if code & 0x7F == 0x7F:
        return float("nan")
    return sign * (trailing / 512 if field == 0 else (8 + trailing) / 8 * 2.0 ** (field - 7))
for number, line in enumerate(sys.stdin):
    *ab, _ = (int(word, 16) for word in line.split())
    a, b, c, d = map(e4m3, ab)
    total = struct.unpack(">f", struct.pack(">I", int(line.split()[-1], 16)))[0]
    total = (total + a * c) + b * d
    code = 0x7FC00000 if total != total else struct.unpack(">I", struct.pack(">f", total))[0]
    print(f"{code:08x}")
"""
PORTS = ("--formats", "e4m3fn", "e4m3fn", "--output", "binary32", "--k", "2")


def lowprec(*arguments):
    return command("identify", *arguments)


def unit(folder, text):
    """Return the command that runs a program."""
    path = folder / "unit.py"
    path.write_text(text)
    return f"{sys.executable} {path}"


@pytest.mark.apart
def test_a_program_is_identified_and_its_answers_are_saved(tmp_path):
    """Rows that were saved give the same without the program."""
    saved = tmp_path / "answers.txt"
    result = lowprec("--command", unit(tmp_path, UNIT), *PORTS, "--save", saved)
    assert result.exit_code == 0, result.output
    assert "In the catalog: fp64_sequential" in result.stdout
    rows = len(saved.read_text().splitlines())
    assert f"Reproduces all {rows:,} answers" in result.stdout
    again = lowprec("--rows", saved, *PORTS, "--json")
    assert again.exit_code == 0
    found = json.loads(again.stdout)
    assert (found["schema"], found["reproduces"], found["asked"]) == ("lowprec.identify/1", True, 0)
    assert "fp64_sequential" in found["names"]


@pytest.mark.parametrize(
    ("program", "said"),
    [
        ("import sys\nlines = list(sys.stdin)\nprint('0\\n' * (len(lines) - 2))",
         "results for 395 lines of operands; the first without one is line 394"),
        ("import sys\nfor n, line in enumerate(sys.stdin, 1): print('0' if n != 5 else 'zero')",
         "line 5 that command"),
        ("import sys\nfor line in sys.stdin: print('100000000')", "which is no 32-bit code of 'binary32'"),
        ("import sys\nsys.exit('out of order')", "ended with code 1: out of order"),
        ("import time\ntime.sleep(9)", "did not end within 1 s of 395 lines"),
        ("import os, time\nos.close(1)\nos.close(2)\ntime.sleep(9)", "did not end within 1 s of 395 lines"),
        ("while True: print('0\\n' * 9999)", "printed more than 4,096 characters for a line of operands"),
        ("import sys\nwhile True: sys.stderr.write('0\\n' * 9999)", "printed more than 4,096 characters for"),
        ("import sys\nsys.stdout.buffer.write(b'\\xff\\n')", "holds '\ufffd', which is no hexadecimal"),
    ],
)  # fmt: skip
def test_a_program_that_misbehaves(tmp_path, program, said):
    """The message says which line, and what to do."""
    result = lowprec("--command", unit(tmp_path, program), *PORTS, "--time-limit", 1)
    assert result.exit_code == 2
    assert said in result.stderr


def test_bad_arguments(tmp_path):
    """Named with the way out."""
    rows = tmp_path / "rows.txt"
    rows.write_text("# a comment\n38 38 38 38 0 40000000\n38 38 38\n")
    for arguments, said in (
        (PORTS, "give a --command to ask, or --rows that were recorded"),
        (("--rows", rows, *PORTS), "row 3 has 3 words, but a row has 6: 2 codes of a, 2 of b, the addend"),
        (("--rows", tmp_path / "none", *PORTS), "No such file"),
        (("--command", "./nowhere-to-be-found", *PORTS), "does not run: No such file"),
        (("--command", "x", *PORTS[:-1], "3", "--scale", "e8m0fnu"), "is not FORMAT:SIZE, such as"),
        (("--command", "x", *PORTS[:-1], "3", "--scale", "e8m0fnu:2"), "k=3 is no whole number of blocks"),
    ):  # fmt: skip
        result = lowprec(*arguments)
        assert result.exit_code == 2, result.output
        assert said in result.stderr


@pytest.mark.apart
def test_the_fragment_of_risc_v_is_written_or_refused(tmp_path):
    """FP64 sums round twice, which is no sum of the extension; groups of one product are."""
    path = tmp_path / "sum.sail"
    result = lowprec("--command", unit(tmp_path, UNIT), *PORTS, "--sail", path)
    assert result.exit_code == 2
    assert "is no sum of RISC-V's matrix extension" in result.stderr
    assert not path.exists()
    rounding = "    total = struct.unpack('>f', struct.pack('>f', total))[0]\n"
    single = UNIT.replace(
        "    total = (total + a * c) + b * d\n", f"    total += a * c\n{rounding}    total += b * d\n"
    )
    ports = ("--formats", "e4m3fn", "e4m3fn", "--output", "binary32", "--k", "2")
    result = lowprec("--command", unit(tmp_path, single), *ports, "--sail", path)
    assert "G * W = 1, psm = 0" in result.stdout
    assert result.exit_code == 2  # W is 4
    assert "whole sub-dot-products" in result.stderr
