"""What the code may import and do, and what every claim must name: checked on the source itself."""

import ast
import collections
import functools
import inspect
import pathlib
import re
import sys

import pytest

import lowprec as lp
from lowprec.arrays import arith
from lowprec.arrays.orders import comparisons, order
from lowprec.spec import catalog
from lowprec.spec.codebooks import ENTRIES
from tests.conftest import SAMPLED, WHOLE
from tests.seconds import seconds
from tests.support import python

ROOT = pathlib.Path(__file__).parents[1]
PACKAGE = ROOT / "lowprec"
MODULES = sorted(PACKAGE.rglob("*.py"))
FLOORS = {path.parent.name for path in PACKAGE.glob("*/__init__.py")}
KERNELS = sorted((PACKAGE / "kernels").rglob("*.py"))


@functools.cache
def _tree(path):
    return ast.parse(path.read_text())


@functools.cache
def _walk(path):
    """Return every node of a file's tree."""
    return tuple(ast.walk(_tree(path)))


def _name(path):
    return path.relative_to(ROOT).as_posix()


@functools.cache
def _imports(path):
    """Return the top-level names of all modules imported anywhere in a file."""
    found = []
    for node in _walk(path):
        if isinstance(node, ast.Import):
            found += [alias.name for alias in node.names]
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, f"{_name(path)}: relative import"
            found += [f"{node.module}.{alias.name}" for alias in node.names]
    return found


HEAVY = {"numba", "numpy", "ml_dtypes", "hypothesis"}


@pytest.mark.parametrize(
    "modules",
    [
        *("lowprec", "lowprec, lowprec.oracle.convert, lowprec.spec.catalog; lowprec.format('e4m3fn')"),
        *("lowprec.testing", "lowprec.testing.plugin"),
    ],
)
def test_importing_loads_neither_numpy_nor_numba(modules):
    """A format looked up by name needs them no more; pytest imports the plugin wherever it runs."""
    program = f"import sys, {modules}; print(sorted({HEAVY} & set(sys.modules)))"
    assert python("-c", program).strip() == "[]"


def test_only_the_kernels_import_numba():
    """Whoever else wanted speed would hide arithmetic where no oracle looks."""
    assert {
        _name(path) for path in MODULES if any(name.split(".")[0] == "numba" for name in _imports(path))
    } == {
        "lowprec/kernels/cache.py",
        "lowprec/kernels/compiling.py",
        "lowprec/kernels/jit.py",
        "lowprec/kernels/parts.py",
        "lowprec/kernels/vector/ir/language.py",
    }


def test_floors_import_only_floors_below_them():
    """The import contracts of pyproject.toml, in short, so that a plain test run has them too."""
    floors = {"spec": (), "oracle": ("spec",), "kernels": ("spec",), "arrays": ("spec", "kernels")}
    floors["checkpoints"] = ("arrays", "kernels", "spec")
    floors["verify"] = ("checkpoints", "arrays", "kernels", "oracle", "spec")
    floors["testing"] = floors["export"] = floors["plot"] = ("verify", *floors["verify"])
    for path in MODULES:
        floor = path.relative_to(PACKAGE).parts[0]
        if floor in floors:
            ours = {name.split(".")[1] for name in _imports(path) if name.startswith("lowprec.")}
            assert ours & FLOORS <= {floor, *floors[floor]}, _name(path)
        if floor in ("spec", "oracle"):
            outside = {name.split(".")[0] for name in _imports(path)} - {"lowprec"}
            assert outside <= set(sys.stdlib_module_names), _name(path)


def test_methods_stand_alone():
    """Nothing imports a published method, not even another one: each can be taken out without the rest.

    But for `methods.layers`, which has no method of its own, only a common way to call those that are there;
    `methods._layer` and `methods._torch` are none, only what linear layers and operations of torch share.
    """
    faces = {"layers": {"layers", "expansion", "fp8", "mx", "nvfp4", "scale_propagation"}}
    for path in MODULES:
        home = path.relative_to(PACKAGE).parts[:2]
        imported = {name.split(".")[2] for name in _imports(path) if name.startswith("lowprec.methods.")}
        others = faces.get(home[1], {home[1]}) | {"_layer", "_torch"} if home[0] == "methods" else set()
        assert imported <= others, _name(path)


def _module(path):
    return ".".join(path.relative_to(ROOT).with_suffix("").parts).removesuffix(".__init__")


@functools.cache
def _arrows():
    """Return the modules that each module imports, anywhere in its file but for type checkers alone."""
    names = {_module(path): path for path in MODULES}
    arrows = {}
    for name, path in names.items():
        nodes = _walk(path)
        ifs = [node for node in nodes if isinstance(node, ast.If)]
        typing = [node for node in ifs if ast.unparse(node.test) == "TYPE_CHECKING"]
        unseen = {id(inner) for node in typing for inner in ast.walk(node)}
        found = set()
        for node in nodes:
            if isinstance(node, ast.ImportFrom) and id(node) not in unseen:
                wholes = [f"{node.module}.{alias.name}" for alias in node.names]
                found |= {name if name in names else node.module for name in wholes}
            elif isinstance(node, ast.Import) and id(node) not in unseen:
                found |= {alias.name for alias in node.names}
        arrows[name] = found & set(names) - {name, "lowprec"}
    return arrows


def test_no_files_import_each_other_in_a_circle():
    """Neither at import nor later: what a function imports counts too."""
    arrows, circles = _arrows(), []
    for name in arrows:
        reached, waiting = set(), [name]
        while waiting:
            new = arrows[waiting.pop()] - reached
            reached |= new
            waiting += new
        if name in reached:
            circles.append(name)
    assert circles == []


def test_a_circle_would_be_seen():
    """The arrows are the sources' own: verify's comparison reaches its pages, these only type checkers."""
    arrows = _arrows()
    assert "lowprec.verify.compare.report_pages" in arrows["lowprec.verify.compare.report"]
    assert "lowprec.verify.compare.report" not in arrows["lowprec.verify.compare.report_pages"]


def test_a_class_of_the_tools_has_a_name_of_its_own():
    """One name means one thing in verify, testing, export and cli."""
    homes = {}
    for path in MODULES:
        if path.relative_to(PACKAGE).parts[0] in ("verify", "testing", "export", "cli"):
            for node in _walk(path):
                if isinstance(node, ast.ClassDef):
                    homes.setdefault(node.name, []).append(_name(path))
    assert len(homes) > 40
    assert {name: where for name, where in homes.items() if len(where) > 1} == {}


def test_no_kernel_is_compiled_with_fastmath():
    """It lets the compiler change results. No keyword, name or string in code has it; docstrings may."""
    docstrings = {id(node.value) for node in _nodes() if isinstance(node, ast.Expr)}
    said = [
        node
        for node in _nodes()
        if (isinstance(node, ast.keyword) and node.arg == "fastmath")
        or (isinstance(node, ast.Name) and "fastmath" in node.id)
        or (isinstance(node, ast.Constant) and node.value == "fastmath" and id(node) not in docstrings)
    ]
    assert said == []


def _nodes():
    """Yield every node of every kernel's source."""
    for path in KERNELS:
        yield from _walk(path)


def test_kernels_know_no_format():
    """Formats reach them as integers: no name of one is in their code, as an identifier or a string."""
    names = {fmt.name.lower() for fmt in catalog.FORMATS.values()} - {
        "int8",
        "uint8",
    }  # these are NumPy's types too
    docstrings = {id(node.value) for node in _nodes() if isinstance(node, ast.Expr)}
    used = set()
    for node in _nodes():
        if isinstance(node, ast.Name):
            used.add(node.id.lower())
        elif isinstance(node, ast.Attribute):
            used.add(node.attr.lower())
        elif isinstance(node, ast.Constant) and isinstance(node.value, str) and id(node) not in docstrings:
            used.add(node.value.lower())
    assert used & names == set()
    imported = {name for path in KERNELS for name in _imports(path)}
    assert not any(name.startswith(("lowprec.spec.catalog", "lowprec.spec.formats")) for name in imported)


@pytest.mark.parametrize(
    "name",
    [
        "scalar/convert",
        "scalar/rounding",
        "lower/scalar",
        "vector/convert",
        "vector/rounding",
        "lower/vector",
    ],
)
def test_conversion_computes_no_floats(name):
    """No float literal, no float type, no division: the environment of the process has nothing to act on."""
    tree = ast.parse((PACKAGE / "kernels" / f"{name}.py").read_text())
    floats = [
        node.value
        for node in ast.walk(tree)
        if isinstance(node, ast.Constant) and isinstance(node.value, float)
    ]
    types = [
        node.attr
        for node in ast.walk(tree)
        if isinstance(node, ast.Attribute) and node.attr.startswith("float")
    ]
    divisions = [
        node for node in ast.walk(tree) if isinstance(node, ast.BinOp) and isinstance(node.op, ast.Div)
    ]
    assert floats == types == divisions == []


def test_files_are_short_enough_to_be_read():
    """500 lines at most."""
    lines = {_name(path): len(path.read_text().splitlines()) for path in MODULES}
    assert {name: count for name, count in lines.items() if count > 500} == {}


def test_folders_are_small_enough_to_be_found_in():
    """25 files at most."""
    files = collections.Counter(path.parent for path in MODULES)
    assert {str(folder): count for folder, count in files.items() if count > 25} == {}


# -- files that are written -------------------------------------------------------------------------

#: What opens files for writing: one module, and a script that runs on machines without the package.
OPENERS = {"lowprec/files.py", "lowprec/verify/capture/asking.py", "lowprec/verify/capture/script.py"}
OPENING = {"open", "fdopen", "memmap", "open_memmap", "ZipFile", "TarFile", "GzipFile", "FileIO"}
WRITING = {"write_text", "write_bytes", "touch", "symlink_to", "hardlink_to", "tofile"}
#: These write to their first argument, which may be a buffer in memory.
DUMPING = {"save", "savez", "savez_compressed", "savetxt", "savefig", "dump", "ZipFile"}
MOVING = {
    *("os.replace", "os.rename", "os.renames", "os.link", "os.symlink", "os.truncate", "os.mkfifo"),
    *("shutil.copy", "shutil.copy2", "shutil.copyfile", "shutil.copytree", "shutil.move"),
}
SUSPECTS = OPENING | WRITING | DUMPING | {name.partition(".")[2] for name in MOVING}


def _file_writes(nodes):
    """Every expression that opens a file for writing, moves one, or uses temporary files."""
    calls = [node for node in nodes if isinstance(node, ast.Assign) and isinstance(node.value, ast.Call)]
    buffers = {
        target.id
        for node in calls
        if ast.unparse(node.value) in ("io.BytesIO()", "io.StringIO()")
        for target in node.targets
        if isinstance(target, ast.Name)
    }
    for node in nodes:
        if isinstance(node, ast.Import | ast.ImportFrom):
            names = [alias.name for alias in node.names] + [getattr(node, "module", "")]
            if "tempfile" in names or getattr(node, "module", "") in ("os", "shutil"):
                yield ast.unparse(node)
        name = getattr(node.func, "attr", getattr(node.func, "id", "")) if isinstance(node, ast.Call) else ""
        if name not in SUSPECTS:
            continue
        whole = ast.unparse(node.func)
        given = [*node.args, *(word.value for word in node.keywords)]
        texts = [each.value for each in given if isinstance(each, ast.Constant)]
        modes = [text for text in texts if isinstance(text, str) and re.fullmatch(r"[rwaxbt+]{1,4}", text)]
        if whole == "os.open":
            said = ast.unparse(node)
            wrong = "O_RDONLY" not in said or re.search("O_(WRONLY|RDWR|CREAT|TRUNC|APPEND)", said)
            wrong = wrong and "os.devnull" not in said
        elif whole in ("open", "io.open") and len(node.args) > 1 and not modes:
            wrong = True  # a mode that only a run knows
        else:
            goals = [*node.args[:1], *(word.value for word in node.keywords if word.arg == "fileobj")]
            into = next((goal.id for goal in goals if isinstance(goal, ast.Name)), "")
            wrong = whole in MOVING or name in WRITING
            wrong = wrong or (name in OPENING and into not in buffers and set("wax+") & set("".join(modes)))
            wrong = wrong or (
                name in DUMPING - OPENING and "." in whole and node.args and into not in buffers
            )
        if wrong:
            yield ast.unparse(node)


def test_one_module_opens_what_the_package_writes():
    """Elsewhere a planted link would be followed, and a mode, an owner or half a file be lost."""
    found = {_name(path): [*_file_writes(_walk(path))] for path in MODULES if _name(path) not in OPENERS}
    assert {name: writes for name, writes in found.items() if writes} == {}


@pytest.mark.parametrize(
    "line",
    [
        *(
            "open(path, 'w')",
            "open(path, mode='ab')",
            "open(path, mode)",
            "path.open('x')",
            "path.open('r+b')",
        ),
        *("path.write_text(text)", "path.write_bytes(data)", "os.open(path, os.O_WRONLY | os.O_CREAT)"),
        *(
            "os.open(path, flags)",
            "os.fdopen(number, 'wb')",
            "import tempfile",
            "from tempfile import mkdtemp",
        ),
        *("np.save(path, array)", "np.savez(path, array)", "json.dump(found, file)", "figure.savefig(path)"),
        *("zipfile.ZipFile(path, 'w')", "np.memmap(path, kind, 'w+')", "array.tofile(path)", "path.touch()"),
        *("os.replace(path, other)", "shutil.copyfile(path, other)", "from os import open as begin"),
    ],
)
def test_a_file_that_is_written_elsewhere_would_be_seen(line):
    assert [*_file_writes([*ast.walk(ast.parse(line))])] == [line]


@pytest.mark.parametrize(
    "line",
    [
        *("open(path)", "open(path, 'rb')", "path.open('rb')", "os.open(path, os.O_RDONLY | more)"),
        *(
            "buffer = io.BytesIO(); np.save(buffer, array)",
            "text.replace('w', 'x')",
            "np.memmap(path, kind, 'r')",
        ),
    ],
)
def test_a_file_that_is_read_is_no_file_that_is_written(line):
    assert [*_file_writes([*ast.walk(ast.parse(line))])] == []


def test_no_file_is_mapped_into_memory():
    """Where one is cut while it is read, the system would end the process without a word."""
    words = re.compile(r"\bmmap\b|memmap|mmap_mode")
    assert [_name(path) for path in MODULES if words.search(path.read_text())] == []


# -- docstrings -------------------------------------------------------------------------------------

#: No first line begins so: a module, class or property is a noun, and a function does something.
CLAUSE = re.compile(r"(What|Whether|Where|Which|How|As|Of|The same|One|That)\b")
#: Nor does that of a function, which begins with a verb.
NOUN = re.compile(r"(The|A|An|All|Each|Every|Both|No|Two)\b")
#: Decorators of functions that need no verb: properties, fixtures, and texts for users of commands and laws.
NEED_NO_VERB = re.compile(r"property\b|fixture\b|\.(command|group)\b|\blaw\(")
#: Golden files print the docstrings of the oracle's machines, one of which begins with "As".
PRINTED = "lowprec/oracle/machines"


def _wrong_first_lines(nodes):
    """Yield every first line that begins with a clause, or with a noun where a function needs a verb."""
    for node in nodes:
        if isinstance(node, ast.Module | ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef):
            line = (ast.get_docstring(node) or "").partition("\n")[0]
            decorators = " ".join(ast.unparse(each) for each in getattr(node, "decorator_list", ()))
            nouns = isinstance(node, ast.Module | ast.ClassDef) or re.fullmatch("__.*__", node.name)
            nouns = nouns or NEED_NO_VERB.search(decorators)
            if CLAUSE.match(line) or (not nouns and NOUN.match(line)):
                yield line


def test_first_lines_of_docstrings_are_no_clauses_and_those_of_functions_verbs():
    found = {_name(path): [*_wrong_first_lines(_walk(path))] for path in MODULES}
    assert {name: lines for name, lines in found.items() if lines and not name.startswith(PRINTED)} == {}


@pytest.mark.parametrize(
    ("code", "wrong"),
    [
        ("'What it is.'", True),
        ("class A:\n 'One of two.'", True),
        ("class A:\n @property\n def f(): 'Of the data.'", True),
        ("class A:\n def f(): 'The sum.'", True),
        ("def f():\n def g(): 'A sum.'", True),
        ("class A:\n 'A sum.'\n @functools.cached_property\n def f(): 'The sum.'", False),
        ("@law('name')\ndef f(): 'No number is lost.'", False),
        ("def f(): 'Return whether all are alike.'", False),
    ],
)
def test_a_wrong_first_line_would_be_seen(code, wrong):
    assert bool([*_wrong_first_lines(ast.walk(ast.parse(code)))]) == wrong


# -- sources ----------------------------------------------------------------------------------------

REFERENCES = {
    line.removeprefix("## ").strip()
    for line in (ROOT / "docs" / "references.md").read_text().splitlines()
    if line.startswith("## ")
}
KEY = re.compile(r"\[([A-Z][A-Z0-9_]+)\]")


def test_every_source_that_a_docstring_cites_is_in_the_references():
    """A key in brackets is a heading of docs/references.md."""
    for path in MODULES:
        for node in _walk(path):
            if isinstance(node, ast.Module | ast.ClassDef | ast.FunctionDef):
                cited = set(KEY.findall(ast.get_docstring(node) or ""))
                assert cited <= REFERENCES, f"{_name(path)}: {getattr(node, 'name', 'module')}"


def test_every_format_names_a_source_in_the_references():
    """The catalog's, the carriers' (integers need none), P3109's, and codebooks'."""
    formats = [*catalog.FORMATS.values(), *catalog.P3109_UP_TO_8, catalog.BINARY64, *ENTRIES.values()]
    assert {fmt.source for fmt in formats} <= REFERENCES
    assert all(fmt.source for fmt in formats)


def test_type_checkers_see_every_public_name():
    """What `__init__.pyi` declares is what there is."""
    declared = set()
    for node in ast.parse((PACKAGE / "__init__.pyi").read_text()).body:
        if isinstance(node, ast.ImportFrom) and node.module.startswith("lowprec"):
            declared |= {alias.asname for alias in node.names}
        elif isinstance(node, ast.AnnAssign):
            declared.add(node.target.id)
    assert declared == set(dir(lp))
    assert all(hasattr(lp, name) for name in declared)


@pytest.mark.parametrize("module", [arith, comparisons, order])
def test_every_verb_is_public(module):
    """What these modules offer is all of it, and under its own name."""
    assert all(getattr(lp, name) is getattr(module, name) for name in module.__all__)
    assert set(module.__all__) == {name for name, home in lp._HOMES.items() if home == module.__name__}


def test_every_public_name_has_a_docstring_that_ends_its_first_line():
    """A summary line, ended with a full stop."""
    names = [name for name in dir(lp) if callable(getattr(lp, name))]
    wrong = [name for name in names if not inspect.getdoc(getattr(lp, name)).splitlines()[0].endswith(".")]
    assert len(names) > 100
    assert wrong == []


def test_no_kernel_is_compiled_while_tests_are_collected(compiled_while_collecting):
    """Every worker would compile it, whichever tests are asked for. Only a cold cache tells.

    Any verb exchanges the processor's modes, the oracle too; that is compiled in a moment.
    """
    assert [name for name in compiled_while_collecting if name != "exchange"] == []


def test_tests_that_are_chosen_by_name_exist():
    """A misspelled name would be chosen by nobody, unseen."""
    names = (*SAMPLED, *WHOLE, *(name.partition("[")[0] for name in seconds()))
    texts = {str(path.relative_to(ROOT)): path.read_text() for path in (ROOT / "tests").rglob("test_*.py")}
    wrong = []
    for name in names:
        path, _, test = name.partition("::")
        if path.startswith("tests/"):
            found = [text for file, text in texts.items() if file.startswith(path)]
            if not any(f"def {test}(" in text if test else text for text in found):
                wrong.append(name)
    assert wrong == []
