"""Scripts that capture: `script.py` and `asking.py` of this folder, with questions and operands in them."""

from __future__ import annotations

import base64
import fnmatch
import pprint
import re
import textwrap
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from lowprec import __version__
from lowprec.spec.naming import close_names, plain
from lowprec.verify.capture import script
from lowprec.verify.capture.calls import CAPTURES, CaptureQuestion

__all__ = ["chosen", "written"]


def chosen(names: Sequence[str]) -> list[CaptureQuestion]:
    """Return the questions of these names, or of patterns such as cast_*; without names all.

    >>> [question.name for question in chosen(["matmul_b*16"])]
    ['matmul_binary16', 'matmul_bfloat16']

    Raises ValueError: a name or pattern of none.
    """
    for name in names:
        if not fnmatch.filter(CAPTURES, name):
            near = close_names(name, CAPTURES)
            hint = f"did you mean {' or '.join(near)}?" if near else "`lowprec capture --list` lists all"
            raise ValueError(f"nothing to capture is called {name!r}; {hint}")
    return [
        question
        for name, question in CAPTURES.items()
        if not names or any(fnmatch.fnmatchcase(name, pattern) for pattern in names)
    ]


def written(questions: Sequence[CaptureQuestion], count: int, seed: int, command: str) -> str:
    """Return a script that asks these questions.

    >>> text = written(chosen(["cast_e4m3fn_binary32"]), 16, 0, "lowprec capture")
    >>> "torch.from_numpy" in text, "import lowprec" in text
    (True, False)

    Parameters
    ----------
    questions : sequence of CaptureQuestion
    count : int
        Random operands of each conversion, and rows of each dot product up to K = 32; fewer of longer ones.
    seed : int
        Of the operands that are drawn.
    command : str
        How the script was asked for, in words.
    """
    arrays: dict[str, npt.NDArray[Any]] = {
        f"all_{bits}_bits": np.arange(1 << bits, dtype=f"u{bits // 8}") for bits in (8, 16)
    }
    generated = list(arrays)
    names = {script.digest(array): name for name, array in arrays.items()}
    records, used = [], {}
    for question in questions:
        given = {}
        for operand, array in question.draw(count, seed).items():
            given[operand] = names.setdefault(script.digest(array), f"{question.name}_{operand}")
            arrays[given[operand]] = array
            used[given[operand]] = script.digest(array)
        records.append(question.record(given))
    held = {f"{name}.npy": script.npy(arrays[name]) for name in used if name not in generated}
    coded = base64.b64encode(script.archive(held)).decode()
    said = {"lowprec": __version__, "command": command}
    values = {
        "SCRIPT: dict[str, str] = {}": f"SCRIPT: dict[str, str] = {said}",
        "QUESTIONS: list[dict[str, Any]] = []": f"QUESTIONS: list[dict[str, Any]] = {_literal(records)}",
        "ARRAYS: dict[str, str] = {}": f"ARRAYS: dict[str, str] = {_literal(used)}",
        'OPERANDS = ""': f'OPERANDS = """\n{textwrap.fill(coded, 100)}\n"""',
    }
    text = _whole()
    for line, value in values.items():
        before, after = text.split(f"\n{line}\n")
        text = f"{before}\n{value}\n{after}"
    return f"# Written by lowprec {__version__}: {plain(command)}\n{text}"


def _whole() -> str:
    """Return script.py with asking.py behind it, as one program."""
    first, second = (
        Path(__file__).with_name(name).read_text(encoding="utf-8") for name in ("script.py", "asking.py")
    )
    imports = "\n".join(sorted(set(re.findall(r"^import \w+$", first + second, re.M))))
    first = re.sub(r"^import \w+\n(?:import \w+\n)*", f"{imports}\n", first, count=1, flags=re.M)
    return (
        f'{first}\n\n# -- asking{second.split("# -- asking")[1]}\n\nif __name__ == "__main__":\n    main()\n'
    )


def _literal(value: Any) -> str:
    return pprint.pformat(value, width=108, sort_dicts=False)
