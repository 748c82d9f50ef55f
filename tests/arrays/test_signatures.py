"""What type checkers are told of the verbs is what they do."""

import importlib.util
import inspect
import re
import shutil
import subprocess
import sys
import types
import typing
from collections.abc import Mapping
from pathlib import Path

import numpy as np
import pytest

import lowprec as lp
from lowprec.arrays import names, signatures
from lowprec.arrays.checks import code_dtype, float_dtype
from lowprec.spec import catalog, formats

CALLS = Path(__file__).parents[1] / "typing" / "documented_calls.py"
ROOT = Path(__file__).parents[2]


def _literals(hint):
    """The strings of a Literal, or of a union of such."""
    if typing.get_origin(hint) is typing.Literal:
        return set(typing.get_args(hint))
    return set().union(*map(_literals, typing.get_args(hint)))


# -- names ------------------------------------------------------------------------------------------


def test_the_names_are_the_catalogs():
    """Every name and alias is among those of the types that its codes and values have, and no other is."""
    known = {name: lp.format(name) for name in (*formats.FORMATS, *formats._ALIASES, *lp.codebooks)}
    for hint, wanted in ((names.Name8, np.uint8), (names.Name16, np.uint16), (names.Name32, np.uint32)):
        assert _literals(hint) == {name for name, fmt in known.items() if code_dtype(fmt) == wanted}
    singles = {name for name, fmt in known.items() if float_dtype(fmt)[0] == np.float32}
    assert _literals(names.SingleName) == singles
    assert _literals(names.BlockName) == {*catalog.BLOCK_FORMATS, *catalog._BLOCK_ALIASES}


def test_results_of_named_accumulations_are_float32():
    """So signatures say it of every accumulation that goes by name."""
    outputs = [how.output[0] for how in lp.accumulations.values()]
    outputs += [call().output[0] for call in lp.library_calls.values()]
    assert all(float_dtype(fmt)[0] == np.float32 for fmt in outputs)


# -- signatures -------------------------------------------------------------------------------------

VERBS = [
    name
    for name in dir(lp)
    if inspect.isfunction(verb := getattr(lp, name)) and verb.__module__.startswith("lowprec.arrays")
]


def _keywords(overload):
    """The names of the parameters of an overload; those of its TypedDict too."""
    found = inspect.signature(overload).parameters
    given = {name for name, each in found.items() if each.kind is not each.VAR_KEYWORD} - {"self"}
    for each in found.values():
        if each.kind is each.VAR_KEYWORD:
            kind = re.fullmatch(r"Unpack\[(\w+)\]", each.annotation)[1]
            given |= set(vars(sys.modules[overload.__module__])[kind].__annotations__)
    return given


def _signature(name):
    """The protocol that a verb is decorated with, or None."""
    source = inspect.getsource(inspect.unwrap(getattr(lp, name)))
    found = re.search(r"^@Returns\[(\w+)\]\(\)$", source, re.M)
    if found is None and name in _functions():
        operands = "".join([*inspect.signature(getattr(lp, name)).parameters][:2])
        kind = {"xfmt": "FunctionOfOne", "xy": "FunctionOfTwo", "yx": "FunctionOfCoordinates"}[operands]
        return vars(importlib.import_module("lowprec.arrays.result_signatures"))[kind]
    home = sys.modules[inspect.unwrap(getattr(lp, name)).__module__]
    return None if found is None else vars(home)[found[1]]


def _functions():
    """The names of the functions, whose verbs are made in a loop."""
    return importlib.import_module("lowprec.arrays.functions").__all__


@pytest.mark.parametrize("name", VERBS)
def test_signatures_have_the_parameters_of_their_verb(name):
    """Each overload begins with the verb's parameters, and all together know all of its keywords."""
    protocol = _signature(name)
    verb = inspect.signature(getattr(lp, name)).parameters
    if protocol is None:
        assert inspect.signature(getattr(lp, name)).return_annotation not in ("Any", inspect.Signature.empty)
        return
    wanted = {key for key, each in verb.items() if each.kind is not each.VAR_KEYWORD}
    if len(wanted) < len(verb):
        wanted |= set(importlib.import_module("lowprec.arrays.operations").Options.__annotations__)
    place = types.SimpleNamespace(
        __module__=protocol.__module__, __qualname__=f"{protocol.__name__}.__call__"
    )
    overloads = typing.get_overloads(place)
    assert len(overloads) >= 3
    assert _keywords(overloads[-1]) == wanted
    for overload in overloads:
        assert _keywords(overload) <= wanted
        first = [each for each in inspect.signature(overload).parameters if each != "self"]
        assert first[0] == next(iter(verb))


def test_a_signature_changes_nothing_at_run_time():
    """The decorator hands back the very function."""
    assert signatures.Returns()(test_a_signature_changes_nothing_at_run_time) is (
        test_a_signature_changes_nothing_at_run_time
    )
    assert isinstance(lp.encode, types.FunctionType)


# -- documented calls -------------------------------------------------------------------------------


def _fits(value, hint):
    """Whether a value has a type."""
    origin, arguments = typing.get_origin(hint), typing.get_args(hint)
    if origin is types.UnionType or origin is typing.Union:
        return any(_fits(value, each) for each in arguments)
    if origin is np.ndarray:
        element = typing.get_args(arguments[1])[0]
        kinds = typing.get_args(element) or (element,)
        return type(value) is np.ndarray and value.dtype.type in kinds
    if origin in (tuple, Mapping):
        return isinstance(value, origin)
    return isinstance(value, hint)


def _executed(path, monkeypatch):
    """The lines of a file of calls whose results do not have the type that it says, and how many fit."""
    wrong, right = [], []

    def check(value, hint):
        frame = sys._getframe(1)
        (right if _fits(value, hint) else wrong).append(frame.f_lineno)
        return value

    monkeypatch.setattr(typing, "assert_type", check)
    spec = importlib.util.spec_from_file_location("documented_calls", path)
    spec.loader.exec_module(importlib.util.module_from_spec(spec))
    return wrong, len(right)


PLANTS = {
    'lp.decode([57, 126, 127], "e4m3fn"), Singles': 'lp.decode([57, 126, 127], "e4m3fn"), Doubles',
    'lp.encode(448.0, "e4m3fn"), np.uint8': 'lp.encode(448.0, "e4m3fn"), np.uint16',
    "blocks, lp.BlockArray": "blocks, Singles",
    'lp.matmul(x, x.T, "fp32_fma"), Singles': 'lp.matmul(x, x.T, "fp32_fma"), Doubles',
}


def _planted(folder):
    """A copy of the file in which some types are wrong, and the numbers of these lines."""
    text = CALLS.read_text()
    for right, wrong in PLANTS.items():
        assert text.count(right) == 1
        text = text.replace(right, wrong)
    lines = zip(CALLS.read_text().splitlines(), text.splitlines(), strict=True)
    path = folder / "planted_calls.py"
    path.write_text(text)
    return path, [number for number, (old, new) in enumerate(lines, 1) if old != new]


def test_documented_calls_have_these_types_at_run_time(monkeypatch):
    """Fifty calls and more, each of the type that the file says; none says Any."""
    assert _executed(CALLS, monkeypatch) == ([], CALLS.read_text().count("\nassert_type("))
    assert CALLS.read_text().count("\nassert_type(") >= 50
    assert not re.search(r"\bAny\b", CALLS.read_text())


def test_a_wrong_type_would_be_seen_at_run_time(tmp_path, monkeypatch):
    path, lines = _planted(tmp_path)
    assert _executed(path, monkeypatch)[0] == lines


@pytest.mark.apart
def test_documented_calls_have_these_types_for_mypy(tmp_path):
    """`mypy --strict` reveals them of the same lines; and of a planted copy it finds the plants alone."""
    if shutil.which("mypy") is None:
        pytest.skip("mypy is not installed")
    path, lines = _planted(tmp_path)
    mixed = tmp_path / "mixed_calls.py"
    mixed.write_text(
        "import lowprec as lp\n"
        'lp.encode([1.0], "e4m3fn", rounding=3)\n'
        'lp.encode([1.0], "e4m3fn", tounding="to_odd")\n'
        "lp.Projection(saturation=1.0)\n"
        'lp.encode([1.0], "mxfp4").scale\n'
    )
    run = subprocess.run(
        [sys.executable, "-m", "mypy", "--strict", CALLS, path, mixed],
        cwd=ROOT, capture_output=True, text=True,
    )  # fmt: skip
    found = re.findall(r"(\w+\.py):(\d+): error: .*\[([\w-]+)\]", run.stdout)
    wrong = [int(line) for name, line, _ in found if name == path.name]
    assert [each for each in found if each[0] == CALLS.name] == []
    assert wrong == lines
    refused = {(int(line), kind) for name, line, kind in found if name == mixed.name}
    assert refused == {(2, "call-overload"), (3, "call-overload"), (4, "arg-type"), (5, "attr-defined")}
    assert run.returncode == 1
