"""How long a newcomer waits: the how-to pages and the README's command, without compiled kernels.

    python -m tests.newcomers [PAGE ...]

Each page is followed in a new environment of Python and with an empty LOWPREC_CACHE_DIR: its installation,
its console commands and its Python blocks, in its order; blocks that follow each other run in one process.
Prints the seconds of each page's installation and of its steps, the processor's seconds of these, which other
programs change less, and exits with 1 where a step fails or the steps take longer than they may. Needs
what pip downloads.
"""

import os
import re
import resource
import subprocess
import sys
import tempfile
import time
from pathlib import Path

ROOT = Path(__file__).parents[1]

#: The most seconds of each page.
PAGES = {
    "README.md": 25,
    "docs/howto-formats.md": 180,
    "docs/howto-framework.md": 180,
    "docs/howto-hardware.md": 180,
    "docs/howto-models.md": 180,
}

_DOCTEST = (
    "import doctest, sys; "
    "failed, tried = doctest.testfile(sys.argv[1], False, optionflags=doctest.NORMALIZE_WHITESPACE); "
    "sys.exit(not tried or failed > 0)"
)


def steps(page: str) -> tuple[str, list[list[str]]]:
    """Return a page's installation, and its other commands in its order; of the README the main job."""
    text, found = (ROOT / page).read_text(), []
    for kind, block in re.findall(r"^```(console|python)\n(.*?)^```", text, re.M | re.S):
        if kind == "console":
            found += [["bash", "-c", each] for each in re.findall(r"^\$ (.*)$", block, re.M)]
        elif found[-1][0] == "python":
            found[-1][2] += block
        else:
            found.append(["python", "-c", block])
    install, _, job = found[0][2].partition(" && ")
    return install, [["bash", "-c", job]] if job else found[1:]


def run(page: str) -> tuple[float, float, float]:
    """Follow a page; return the seconds of its installation and of its steps, and the processor's of these.

    Raises RuntimeError: a step fails.
    """
    install, after = steps(page)
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        environment = os.environ | {
            "PATH": f"{folder / 'env' / 'bin'}:{os.environ['PATH']}",
            "LOWPREC_CACHE_DIR": str(folder / "kernels"),
        }
        environment.pop("PYTHONPATH", None)

        def seconds(command: list[str], where: Path) -> float:
            start = time.monotonic()
            done = subprocess.run(
                command, cwd=where, env=environment, capture_output=True, text=True, check=False
            )
            if done.returncode:
                raise RuntimeError(f"{page}: {command[-1]!r} failed:\n{done.stdout}{done.stderr}")
            return time.monotonic() - start

        seconds([sys.executable, "-m", "venv", "env"], folder)
        installing, taken, before = seconds(["bash", "-c", install], ROOT), 0.0, _processor()
        for program, option, text in after:
            if program == "python":
                (folder / "blocks.md").write_text(text)
                taken += seconds([program, option, _DOCTEST, "blocks.md"], folder)
            else:
                taken += seconds([program, option, text], folder)
    return installing, taken, _processor() - before


def _processor() -> float:
    """Return the processor's seconds of all processes that ended."""
    usage = resource.getrusage(resource.RUSAGE_CHILDREN)
    return usage.ru_utime + usage.ru_stime


def main(pages: list[str]) -> int:
    """Print the seconds of pages; return 1 where one takes longer than it may."""
    slow = 0
    print(f"{'page':26}{'install':>8}{'steps':>7}{'processor':>11}{'most':>6}")
    for page in pages or PAGES:
        installing, taken, processor = run(page)
        slow += taken > PAGES[page]
        print(f"{page:26}{installing:8.0f}{taken:7.0f}{processor:11.0f}{PAGES[page]:6}", flush=True)
    return int(slow > 0)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
