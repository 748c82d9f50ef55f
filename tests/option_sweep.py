"""Options that change nothing: each command line with each option of its command that it does not have.

    python -m tests.option_sweep [TEXT]      those of commands with this text in them

An option must change the output, the files or the exit code, or be refused; it may change nothing where its
help says so, which `SILENT` lists. What else changes nothing is printed, and so is what ends in a traceback.
"""

import hashlib
import os
import shlex
import sys
import tempfile
from pathlib import Path

import click
import numpy as np
from click.testing import CliRunner
from safetensors.numpy import save_file

import lowprec as lp
from lowprec.cli.main import main

#: Command lines in a folder that `prepare` fills; most results differ from the right ones.
LINES = """
check-format mine.toml --samples 20
explain 464 e4m3fn
show e4m3fn
show mxfp4
show fp32_fma
table e3m2fn
table e3m2fn --thresholds
vectors convert binary32 e2m1fn
vectors add e2m1fn e2m1fn e2m1fn
vectors add e2m1fn e2m1fn e2m1fn --operands
vectors dot fp32_fma e4m3fn e4m3fn --samples 32
vectors dot ada_mma_e4m3fn_binary32 --samples 32 --coverage
vectors matmul fp32_fma e4m3fn e4m3fn --samples 8 --size 4,4,8
vectors block bfloat16 mxfp4 --samples 32
vectors block mxfp4 bfloat16 --samples 32
vectors compare e2m1fn
compare x.npy bad.npy --to e4m3fn
compare x.npy bad.npy
compare bx.npy bc.npy --to mxfp4 --scales bs.npy
compare x.npy y.npy sum.npy --operation add --to bfloat16
compare y.npy yt.npy m.npy --operation matmul --accumulation bf16_sequential
compare y.npy z.npy d.npy --operation dot --accumulation fp32_fma
compare convert.txt convert binary16 e4m3fn
compare add.txt add e2m1fn e2m1fn e2m1fn
compare dot.txt dot fp32_fma e4m3fn e4m3fn
compare matmul.txt matmul fp32_fma e4m3fn e4m3fn --size 4,4,8
compare block.txt block bfloat16 mxfp4
compare decode.txt block mxfp4 bfloat16
equal ocp_sat ocp_ovf --to e4m3fn --samples 64
equal torchao_floor torchao_ceil --to mxfp4 --samples 64
export c --accumulation hopper_wgmma_e4m3fn_binary32
export c --operation add --format e4m3fn
export smt --operation add --format e4m3fn
checkpoint inspect model.safetensors
checkpoint quantize model.safetensors -o q.safetensors --to mxfp4
checkpoint quantize model.safetensors -o q.safetensors --to int4 --group 32
capture --list
identify --rows rows.txt --formats binary16 binary16 --output binary32 --k 2
warm fp32_fma --list
"""

#: Values of options that take one; of each that is not here, a 3.
VALUES = {
    "--define": "exponent_bits=3,trailing_bits=4,nans=1", "--rounding": "toward_zero",
    "--saturation": "overflow", "--subnormals": "flush_results", "--profile": "cuda_satfinite",
    "--rule": "ceil", "--size": "3,5,7", "--as": "json", "--scheduler": "tcp://127.0.0.1:1",
    "--output": "out", "--to": "e5m2", "--from": "e5m2", "--operation": "multiply",
    "--accumulation": "fp32_sequential", "--addend": "add.npy", "--bias": "add.npy",
    "--scales": "bs.npy", "--scale": "0.5", "--flags": "flags.npy", "--random": "random.npy",
    "--nan": "any", "--baseline": "none.json", "--junit": "j.xml", "--html": "h.html",
    "--input": "x.npy", "--source": "float16", "--only": "cast_*", "--format": "e5m2",
    "--dtype": "float16", "--include": "a*", "--exclude": "a*", "--scheme": "modelopt",
    "--statistics": "x.npy", "--correct": "gptq", "--command": "cat", "--save": "s.txt",
    "--sail": "s.sail", "--type": "float64", "--verb": "dot",
}  # fmt: skip

#: Options that may change nothing, by what the command begins with: for what says so in their help.
SILENT = {
    "vectors add": ("--samples", "--seed"),  # where all operands are tried
    "vectors add e2m1fn e2m1fn e2m1fn --operands": (
        "--rounding",
        "--saturation",
        "--subnormals",
        "--profile",
        "--flags",
    ),
    # No NaN differs: formats without, values, and results of which none is a NaN.
    "compare bx.npy": ("--nan",),
    "compare x.npy y.npy": ("--nan", "--subnormals"),  # nor is a number subnormal
    "compare y.npy": ("--nan",),
    "compare add.txt": ("--nan", "--profile"),  # which is the default there
    "compare block.txt": ("--nan",),
    "compare convert.txt": ("--nan",),
    "compare decode.txt": ("--nan",),
    "equal": ("--seed",),
    "identify": ("--nan",),
}


def prepare() -> None:
    """Write what the command lines name into the working folder."""
    drawn = np.random.default_rng(1)
    x, y, z = drawn.standard_normal((3, 16, 64)).astype(np.float32)
    x[0] *= 300
    x[1, :2] = np.nan, 1e-3  # a subnormal number of E4M3
    codes, sums = lp.encode(x, "e4m3fn"), lp.add(x, y, "bfloat16", dtype=np.uint16)
    codes[1:4] ^= np.uint8([[0x80], [1], [1]])
    sums[3:5] ^= 1
    blocks = lp.encode(np.nan_to_num(x), "mxfp4")
    product, dots = np.array(lp.matmul(y, y.T[:, :8], "bf16_sequential")), np.array(lp.dot(y, z, "fp32_fma"))
    product[2:4] += 1
    dots[:8] += 1
    held = {
        "x": x, "y": y, "z": z, "bad": codes, "sum": sums, "bx": np.nan_to_num(x),
        "bc": np.roll(blocks.codes, 1, 1), "bs": blocks.scales, "m": product, "d": dots,
        "yt": np.ascontiguousarray(y.T[:, :8]),
        "add": np.ones(16, np.float32), "flags": np.zeros(x.shape, np.uint8),
        "random": drawn.integers(0, 1 << 16, x.shape, dtype=np.uint32),
    }  # fmt: skip
    for name, array in held.items():
        np.save(f"{name}.npy", array)
    Path("mine.toml").write_text(lp.to_toml(lp.Format(name="mine", exponent_bits=4, trailing_bits=2, nans=1)))
    Path("rows.txt").write_text("3c00 3c00 3c00 3c00 00000000 40000000\n")
    save_file({f"{name}.weight": x[:, :32].copy() for name in "ab"}, "model.safetensors")
    for line in LINES.splitlines():
        path, *vectors = line.removeprefix("compare ").split()[:1], *line.split()[2:]
        if line.startswith("compare ") and path[0].endswith(".txt"):
            _write_lines(path[0], vectors)


def _write_lines(path: str, words: list[str]) -> None:
    """Write vectors of which the last digit of every ninth result differs."""
    lines = CliRunner().invoke(main, ["vectors", *words, "--samples", "64"]).output.splitlines()
    for number, line in enumerate(lines):
        if number % 9 == 0 and line and line[0] not in "#/":
            lines[number] = line[:-1] + f"{int(line[-1], 16) ^ 1:x}"
    Path(path).write_text("\n".join(lines) + "\n")


def ran(words: list[str]) -> tuple[object, ...]:
    """Return the exit code of a command, what it printed and what it wrote, which is removed."""
    before = set(Path().iterdir())
    result = CliRunner().invoke(main, words)
    if result.exception is not None and not isinstance(result.exception, SystemExit):
        return "traceback", repr(result.exception)
    made = sorted(set(Path().iterdir()) - before)
    digests = [(path.name, hashlib.sha256(path.read_bytes()).hexdigest()) for path in made if path.is_file()]
    for path in made:
        path.unlink()
    return result.exit_code, result.output, digests


def sweep(line: str) -> list[str]:
    """Return the options of a command line that change nothing, or end in a traceback."""
    words, command = shlex.split(line), main
    path = iter(words)
    while isinstance(command, click.Group):
        command = command.commands[next(path)]
    silent = {option for start, some in SILENT.items() if line.startswith(start) for option in some}
    right, found = ran(words), []
    if right[0] not in (0, 1):
        return [f"{line}: {right[1]}"]
    for option in (each for each in command.params if isinstance(each, click.Option)):
        name = option.opts[-1]
        if set(option.opts) & set(words) or name in silent:
            continue
        value = [] if option.is_flag else [VALUES.get(name, "3")] * option.nargs
        got = ran([*words, name, *value])
        if got == right or got[0] == "traceback":
            found.append(
                f"{line} {' '.join([name, *value])}: {got[1] if got[0] == 'traceback' else 'the same'}"
            )
    return found


if __name__ == "__main__":
    chosen = [line for line in LINES.split("\n") if line and "".join(sys.argv[1:2]) in line]
    with tempfile.TemporaryDirectory() as folder:
        os.chdir(folder)
        prepare()
        count = 0
        for line in chosen:
            for found in sweep(line):
                print(found, flush=True)
                count += 1
    print(f"{count} options of {len(chosen)} command lines change nothing, or fail")
    sys.exit(count > 0)
