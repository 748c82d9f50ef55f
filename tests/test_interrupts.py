"""Ctrl-C during what cannot be begun again once it was stopped: imports of NumPy and numba."""

import signal
import subprocess
import sys
import threading

import pytest

from lowprec.interrupts import held

#: Presses Ctrl-C once, where a module is about to be imported.
PRESS = """
import signal, sys

class Press:
    def find_spec(name, path=None, target=None):
        if name == sys.argv[1] and Press in sys.meta_path:
            sys.meta_path.remove(Press)
            signal.raise_signal(signal.SIGINT)

signal.signal(signal.SIGINT, signal.default_int_handler)
sys.meta_path.insert(0, Press)
"""

ENCODE = """
import lowprec as lp

for _ in range(2):
    try:
        print(lp.encode([1.0], "e4m3fn"))
    except KeyboardInterrupt:
        print("stopped")
"""

#: Pressed where numba has taken functions of complex numbers out of a list, to put them where they are found.
COMPILE = """
import cmath
from numba.core.registry import cpu_target
from lowprec.kernels.jit import jit

def root(number):
    return cmath.sqrt(number)

def pressed(function, kind):
    if function is cmath.tan and pressed is vars(context).pop("insert_global", None):
        signal.raise_signal(signal.SIGINT)
    type(context).insert_global(context, function, kind)

context = cpu_target.typing_context
context.insert_global = pressed
for _ in range(2):
    try:
        print(jit(root)(-4.0))
    except KeyboardInterrupt:
        print("stopped")
"""


@pytest.mark.parametrize(
    ("program", "module", "answer"),
    [
        (ENCODE, "numpy.linalg", "[56]"),
        (ENCODE, "numba.core.types", "[56]"),
        (COMPILE, "", "2j"),
    ],
)
def test_after_ctrl_c_in_a_first_call_the_next_call_answers(program, module, answer, monkeypatch):
    """As `numba` has no attribute `core`, and NumPy loads once a process, where an import was stopped."""
    monkeypatch.setenv("LOWPREC_CACHE_DIR", "")
    run = subprocess.run([sys.executable, "-c", PRESS + program, module], capture_output=True, text=True)
    assert (run.stdout.split(), run.stderr) == (["stopped", answer], "")


@pytest.fixture
def interruptible():
    """Workers that run tests ignore Ctrl-C."""
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    yield
    signal.signal(signal.SIGINT, before)


@pytest.mark.usefixtures("interruptible")
def test_ctrl_c_waits_for_the_body_alone():
    """Whether the body ends well or not, and only in the thread that gets it."""
    done = []

    def body(error):
        with held():
            signal.raise_signal(signal.SIGINT)
            done.append("all")
            if error is not None:
                raise error

    for error in (None, ValueError("its own")):
        with pytest.raises(KeyboardInterrupt) as stopped:
            body(error)
        assert stopped.value.__context__ is error
    before = signal.getsignal(signal.SIGINT)

    def elsewhere():
        with held():
            done.append(signal.getsignal(signal.SIGINT))

    thread = threading.Thread(target=elsewhere)
    thread.start()
    thread.join()
    assert done == ["all", "all", before]
