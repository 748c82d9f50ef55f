"""Functions into binary32 held against CORE-MATH's, which claims that every result is correctly rounded.

python -m tests.core_math CHECKOUT [--count N]

CHECKOUT is one of CORE-MATH (Inria, https://core-math.gitlabpages.inria.fr). Its C files of binary32 are
compiled, called in the four modes that a processor has, and compared with lowprec on drawn operands, and on
those next to which its own code has special cases.
"""

import argparse
import ctypes
import re
import subprocess
import tempfile
from pathlib import Path

import numpy as np

import lowprec as lp
from lowprec.spec.functions import FUNCTIONS

#: The modes of `fesetround` on x86-64.
ROUNDING = {"nearest_even": 0, "toward_negative": 0x400, "toward_positive": 0x800, "toward_zero": 0xC00}

_LOOP = """
#include <fenv.h>
float cr_{name}f({types});
void run(int mode, long count, const float *x, const float *y, float *out)
{{
    fesetround(mode);
    for (long i = 0; i < count; i++)
        out[i] = cr_{name}f({arguments});
    fesetround(FE_TONEAREST);
}}
"""


def peer(checkout: Path, name: str, folder: Path):
    """Compile a function of CORE-MATH, and return what calls it on arrays; None if it has none."""
    source = checkout / "src" / "binary32" / name / f"{name}f.c"
    if not source.is_file():
        return None
    two = FUNCTIONS[name].operands == 2
    loop = folder / f"{name}_loop.c"
    loop.write_text(
        _LOOP.format(
            name=name, types="float, float" if two else "float", arguments="x[i], y[i]" if two else "x[i]"
        )
    )
    library = folder / f"{name}.so"
    command = ["gcc", "-O2", "-frounding-math", "-fPIC", "-shared", "-o", library, source, loop, "-lm"]
    subprocess.run(command, check=True, capture_output=True)
    run = ctypes.CDLL(str(library)).run
    run.argtypes = [ctypes.c_int, ctypes.c_long, *[ctypes.c_void_p] * 3]
    run.restype = None

    def call(mode, *operands):
        out = np.empty(len(operands[0]), np.float32)
        run(ROUNDING[mode], len(out), operands[0].ctypes.data, operands[-1].ctypes.data, out.ctypes.data)
        return out

    return call


def operands(checkout: Path, name: str, count: int, rng):
    """Return drawn operands, uniform in their codes and in [-4, 4], and numbers that the source names."""
    text = (checkout / "src" / "binary32" / name / f"{name}f.c").read_text()
    named = [float.fromhex(word) for word in re.findall(r"-?0x[0-9a-f]*\.?[0-9a-f]+p[-+]?\d+", text)]
    with np.errstate(over="ignore", under="ignore"):
        special = np.array(named, np.float64).astype(np.float32)
        beside = [np.nextafter(special, np.float32(end)) for end in (-np.inf, np.inf)]
    special = np.concatenate([special, *beside])
    parts = []
    for _ in range(FUNCTIONS[name].operands):
        codes = rng.integers(0, 1 << 32, count, dtype=np.uint64).astype(np.uint32).view(np.float32)
        near = rng.uniform(-4, 4, count).astype(np.float32)
        parts.append(np.concatenate([codes, near, rng.permutation(special), -rng.permutation(special)]))
    return parts


def main():
    """Print a row for each function that both have."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("checkout", type=Path)
    parser.add_argument("--count", type=int, default=2_000)
    asked = parser.parse_args()
    total = wrong = functions = 0
    rng = np.random.default_rng(0)
    with tempfile.TemporaryDirectory() as folder:
        for name in FUNCTIONS:
            call = peer(asked.checkout, name, Path(folder))
            if call is None:
                continue
            given, functions = operands(asked.checkout, name, asked.count, rng), functions + 1
            differ = 0
            for mode in ROUNDING:
                ours = getattr(lp, name)(*given, "binary32", rounding=mode).astype(np.float32)
                theirs = call(mode, *given)
                same = (ours.view(np.uint32) == theirs.view(np.uint32)) | (np.isnan(ours) & np.isnan(theirs))
                total, differ = total + same.size, differ + int(np.count_nonzero(~same))
                for place in np.flatnonzero(~same)[:3]:
                    at = ", ".join(float(part[place]).hex() for part in given)
                    print(f"  {name}({at}) {mode}: {ours[place]!r}, CORE-MATH {theirs[place]!r}")
            wrong += differ
            print(f"{name}: {differ} of {4 * len(given[0]):,} differ", flush=True)
    print(f"{functions} functions, {total:,} results, {wrong} differences")
    raise SystemExit(bool(wrong))


if __name__ == "__main__":
    main()
