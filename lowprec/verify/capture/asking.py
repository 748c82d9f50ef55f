"""The part of a capture script that asks, by a second process, and keeps what was answered.

`calls.py` puts what follows the imports behind `script.py`.
"""

from __future__ import annotations

import argparse
import contextlib
import io
import json
import os
import queue
import signal
import subprocess
import sys
import threading
import time
from typing import Any

import numpy as np

from lowprec.verify.capture.script import (
    CALLS,
    QUESTIONS,
    SCRIPT,
    Missing,
    check_place,
    machine,
    npy,
    operands,
    save,
)

# -- asking -----------------------------------------------------------------------------------------

#: Seconds after which the file is written once more.
EVERY = 5.0


def tell(line: str) -> None:
    """Print a line where there is still somebody who reads it, as answers are worth more than lines."""
    with contextlib.suppress(OSError):
        print(line.encode("ascii", "backslashreplace").decode(), flush=True)


def answered(device: str, question: Any, arrays: dict[str, Any]) -> tuple[Any, str, bool]:
    """Return what a question gives, or None and why not, and whether that was an error.

    Whatever torch raises leaves this question out, and the file says why.
    """
    given = {key: arrays[of] for key, of in question["operands"].items()}
    try:
        return CALLS[question["call"]](device, question, **given), "", False
    except Missing as error:
        return None, str(error), False
    except Exception as error:
        return None, f"{type(error).__name__}: {error}", True


def found_device(wanted: str | None) -> str:
    """Return the device to ask."""
    try:
        import torch
    except ImportError as error:
        raise SystemExit(f"this needs torch: pip install torch ({error})") from None
    device = wanted or ("cuda" if torch.cuda.is_available() else "cpu")
    if device == "cuda" and not torch.cuda.is_available():
        raise SystemExit("torch sees no GPU; use --device cpu")
    return device


def serve(wanted: str | None) -> None:
    """Answer the numbers of questions that standard input holds, each by a line of JSON and an .npy file."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # the first process is interrupted, and ends this one
    pipe = os.fdopen(os.dup(1), "wb")
    os.dup2(2, 1)  # what libraries print is no answer

    def say(said: Any, body: bytes = b"") -> None:
        pipe.write(json.dumps([said, len(body)]).encode() + b"\n" + body)
        pipe.flush()

    device = found_device(wanted)
    arrays, (facts, words) = operands(), machine(device)
    say({"facts": facts, "words": sorted(words)})
    for line in sys.stdin:
        out, why, failed = answered(device, QUESTIONS[int(line)], arrays)
        say({"why": why}, b"" if out is None else npy(out))
        if failed and device == "cuda":  # after an error of CUDA nothing works in this process
            return


class Child:
    """The second process; where it hangs or dies a new one takes its place."""

    def __init__(self, wanted: str | None, limit: float) -> None:
        self.wanted, self.limit = wanted, limit
        self.process: Any = None
        self.heard: Any = None

    def start(self) -> Any:
        """Start it where there is none, and return what it says of the machine."""
        command = [sys.executable, os.path.abspath(__file__), "--serve"]
        command += ["--device", self.wanted] if self.wanted else []
        pipe = subprocess.PIPE
        self.process, self.heard = subprocess.Popen(command, stdin=pipe, stdout=pipe), queue.Queue()
        threading.Thread(target=self.listen, args=(self.process.stdout, self.heard), daemon=True).start()
        said, _ = self.hear(max(self.limit, 600))  # torch may take minutes to come from a slow disk
        return said

    @staticmethod
    def listen(pipe: Any, heard: Any) -> None:
        """Pass on its whole answers, and None at its end, which may be in the middle of an answer."""
        for line in pipe:
            if not line.endswith(b"\n"):
                break
            said, size = json.loads(line)
            body = pipe.read(size)
            if len(body) < size:
                break
            heard.put((said, body))
        heard.put(None)

    def hear(self, limit: float) -> Any:
        """Return its next answer. Raises Missing where it gives none in time, or dies."""
        try:
            answer = self.heard.get(timeout=limit)
        except queue.Empty:
            self.stop()
            raise Missing(f"there was no answer within {limit:g} s") from None
        if answer is None:
            code = self.process.wait()
            self.stop()
            raise Missing(f"the process died: {f'signal {-code}' if code < 0 else f'exit code {code}'}")
        return answer

    def ask(self, number: int) -> tuple[Any, str]:
        """Return what a question gives, or None and why not."""
        try:
            if self.process is None or self.process.poll() is not None:
                self.start()
            self.process.stdin.write(f"{number}\n".encode())
            self.process.stdin.flush()
            said, body = self.hear(self.limit)
        except (Missing, OSError) as error:
            return None, str(error)
        return (np.load(io.BytesIO(body), allow_pickle=False) if body else None), said["why"]

    def stop(self) -> None:
        """End it."""
        if self.process is not None:
            self.process.kill()
            self.process.wait()
            self.process = None


def capture(path: str, facts: Any, words: set[str], arrays: dict[str, Any], ask: Any) -> int:
    """Ask every question, keep what is answered in the file, and return the exit code."""
    asked: list[dict[str, Any]] = []
    for question in QUESTIONS:
        fitting = [each for each in question["expects"] if set(each["when"]) & words]
        asked.append(
            {**question, "expects": fitting[0] if fitting else None, "skipped": "it was not asked yet"}
        )

    def keep() -> int:
        """Write the file, and return how many questions it answers."""
        done = [said for said in asked if "output" in said]
        used = {name for said in done for name in [*said["operands"].values(), said["output"]]}
        kept = {name: array for name, array in arrays.items() if name in used}
        save(path, {"machine": facts, "script": SCRIPT, "questions": asked}, kept)
        return len(done)

    code, kept = 0, time.monotonic()
    try:
        for number, said in enumerate(asked):
            out, why = ask(number)
            if out is None:
                said["skipped"] = " ".join(why.split())[:500] or "there was no reason given"
                tell(f"skipped  {said['name']}: {said['skipped']}")
            else:
                del said["skipped"]
                said["output"] = f"{said['name']}_output"
                arrays[said["output"]] = out
                tell(f"captured {said['name']}: {len(out)} results")
            if time.monotonic() - kept > EVERY:
                try:
                    keep()
                except OSError as error:  # such as a full disk, where room may be made until the end
                    tell(f"cannot write {path!r} now: {error.strerror}; it is tried again")
                kept = time.monotonic()
    except KeyboardInterrupt:
        code = 130
        for said in asked:
            if said.get("skipped") == "it was not asked yet":
                said["skipped"] = "the run was interrupted before it was answered"
    try:
        count = keep()
    except KeyboardInterrupt:  # while the file is written
        code, count = 130, keep()
    except OSError as error:
        raise SystemExit(f"cannot write {path!r}: {error.strerror}; name another --out") from None
    tell(f"wrote {path}: {count} of {len(asked)} questions answered" + ", then interrupted" * bool(code))
    return code if count or code else 1


def seconds(text: str) -> float:
    """Return a number of seconds that a wait can take."""
    if not 0 < float(text) <= threading.TIMEOUT_MAX:
        raise ValueError
    return float(text)


def main() -> None:
    """Ask, and write."""
    parser = argparse.ArgumentParser(description="Ask this machine's casts and dot products; see the file.")
    parser.add_argument("--out", default="capture.npz", metavar="FILE", help="the file to write")
    parser.add_argument("--device", choices=["cpu", "cuda"], help="default: cuda where there is one")
    parser.add_argument(
        "--limit", type=seconds, default=300, metavar="SECONDS",
        help="how long one question may take (default 300; then it is left out)",
    )  # fmt: skip
    parser.add_argument("--serve", action="store_true", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.serve:
        serve(options.device)
        return

    check_place(options.out)
    if not os.path.isfile(__file__):  # but read from a pipe
        raise SystemExit("this script starts itself once more: save it in a file, and run that")

    def interrupted(number: int, frame: Any) -> None:
        raise KeyboardInterrupt

    signal.signal(signal.SIGTERM, interrupted)  # what schedulers send at the end of a job's time
    arrays, child = operands(), Child(options.device, options.limit)
    try:
        try:
            said = child.start()
        except Missing as error:
            raise SystemExit(f"torch does not start here, see above: {error}") from None
        except KeyboardInterrupt:
            print("interrupted while torch started: nothing was asked or written", file=sys.stderr)
            raise SystemExit(130) from None
        code = capture(options.out, said["facts"], set(said["words"]), arrays, child.ask)
    finally:
        child.stop()
    raise SystemExit(code)
