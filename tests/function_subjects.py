"""How often functions in binary32, rounded once more, are not the function's value rounded once.

    python -m tests.function_subjects

prints the table of docs/functions.md: NumPy's float32 functions, and torch's where it is installed, on every
number of bfloat16 and of binary16. Both depend on the processor and its libraries.
"""

from collections.abc import Callable
from typing import Any

import numpy as np

import lowprec as lp

FUNCTIONS = ("exp", "exp2", "expm1", "log", "log2", "log1p", "sin", "cos", "tan", "sinh", "cosh", "tanh")
FORMATS = ("bfloat16", "binary16")


def subjects() -> dict[str, Callable[[str, Any], Any]]:
    """Return what is tried: a function's name and float32 numbers to float32 numbers."""
    found: dict[str, Callable[[str, Any], Any]] = {
        f"NumPy {np.__version__}": lambda name, x: getattr(np, name)(x)
    }
    try:
        import torch
    except ImportError:
        return found
    found[f"torch {torch.__version__.split('+')[0]}"] = lambda name, x: getattr(torch, name)(
        torch.from_numpy(x)
    ).numpy()
    return found


def differing(name: str, fmt: str, subject: Callable[[str, Any], Any]) -> tuple[int, int]:
    """Return how many results differ: as float32, and rounded to the format that operands have."""
    x = lp.decode(np.arange(1 << 16).astype(np.uint16), fmt)
    x = x[np.isfinite(x)]
    with np.errstate(all="ignore"):
        made = subject(name, x)
    whole = getattr(lp, name)(x, "binary32")
    short = getattr(lp, name)(x, fmt, dtype=np.uint16)
    nan = np.isnan(whole)
    as_codes = lp.encode(np.where(nan, np.float32(np.nan), made), fmt)
    short = np.where(nan, lp.encode(np.float32([np.nan]), fmt)[0], short)
    assert np.array_equal(nan, np.isnan(made)), (name, fmt)
    return int(np.sum((made.view(np.uint32) != whole.view(np.uint32)) & ~nan)), int(np.sum(as_codes != short))


def main() -> None:
    """Print the table."""
    columns = [f"{label}, {fmt}" for label in subjects() for fmt in FORMATS]
    print(f"| function | {' | '.join(columns)} |")
    print("|---|" + "---|" * len(columns))
    for name in FUNCTIONS:
        cells = [differing(name, fmt, subject) for subject in subjects().values() for fmt in FORMATS]
        print(f"| `{name}` | {' | '.join(f'{wide:,} / {short}' for wide, short in cells)} |", flush=True)


if __name__ == "__main__":
    main()
