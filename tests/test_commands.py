"""The commands of pages that no other test runs: each as it is written, beside the files that it names.

Those that take minutes are parsed here, and not run; tests of the examples run them reduced.
"""

import doctest
import importlib
import importlib.util
import os
import re
import runpy
import shlex
import socket
import subprocess
import sys
from pathlib import Path

import click
import numpy as np
import pytest

import lowprec as lp
from lowprec.cli.main import main as lowprec_command
from lowprec.kernels import cache
from tests.programs import need_package

ROOT = Path(__file__).parents[1]
DOCS = ROOT / "docs"

pytestmark = pytest.mark.apart

#: Commands that take minutes, or other machines and libraries, by what they begin with.
LEFT_OUT = (
    "pip install",
    "python -m tests.",
    "python capture.py",
    "lowprec warm --all",
    "lowprec warm e4m3fn",
    "pytest",
    "dask ",
    "export TRANSFORMER_ENGINE",
    "lowprec equal transformer_engine_references",
    "lowprec conform ml_dtypes torch --exhaustive",
    "lowprec conform --exhaustive --check",
    "lowprec conform --exhaustive --rounding all",
    "lowprec conform --exhaustive --target e4m3fn --target e5m2",
)

#: `./unit` of docs/identify.md: it reads lines of operands, and prints a code for each.
UNIT = f"""#!{sys.executable}
import sys
import numpy as np
import lowprec as lp
codes = np.array([[int(word, 16) for word in line.split()] for line in sys.stdin], np.uint32)
x, y = (lp.decode(part.astype(np.uint8), "e4m3fn") for part in (codes[:, :16], codes[:, 16:32]))
addend = np.ascontiguousarray(codes[:, 32]).view(np.float32)
for code in lp.dot(x, y, "ada_mma_e4m3fn_binary32", addend=addend, dtype=np.uint32):
    print(f"{{code:08x}}")
"""

#: Commands of exit code 1: results that differ on purpose, and a question about a library that is missing.
FAILING = {
    "lowprec vectors convert binary32 e4m3fn --rounding nearest_away "
    "| lowprec compare - convert binary32 e4m3fn",
    "lowprec equal torchao_rceil ocp --to mxfp4 --source bfloat16",
}
if importlib.util.find_spec("torch") is None:
    FAILING.add("lowprec doctor --import torch --import scipy")

#: Pages, and how many of their commands are run.
COMMANDS = {
    "howto-hardware": 3, "capture": 5, "command-line": 11, "compare": 19, "dot-products": 1,
    "exhaustive": 1, "explorer": 3, "hardware": 4, "identify": 2, "testing-your-format": 9,
}  # fmt: skip

#: Pages whose commands other tests run.
ELSEWHERE = {
    "vectors": "verify/test_operands.py",
    "functions": "verify/test_operands.py",
    "verify-your-dot-unit": "export/test_devices.py",
    "checkpoints": "checkpoints/test_page.py",
    "unit-scaling": "methods/test_unit_scaling_torch.py",
    "methods": "methods/test_layers_torch.py",
}

#: Commands of other programs, of which nothing is parsed.
OTHERS = (
    "pip install",
    "python -m tests.",
    "python capture.py",
    "pytest",
    "dask ",
    "export TRANSFORMER_ENGINE",
    "LOWPREC_NUM_THREADS=1 dask ",
)


def commands(page, *, all_of_them=False):
    """Return the commands of a page's console blocks, but those left out, each with what it prints."""
    text = (DOCS / f"{page}.md").read_text()
    found = []
    for block in re.findall(r"^```console\n(.*?)^```", text, re.M | re.S):
        for part in re.split(r"^\$ ", block, flags=re.M)[1:]:
            command, printed = re.fullmatch(r"((?:[^\n]*\\\n)*[^\n]*)\n(.*)", part, re.S).groups()
            if all_of_them or not command.startswith(LEFT_OUT):
                found.append((command, printed))
    return found


@pytest.fixture(scope="module")
def files(tmp_path_factory):
    """Return a folder with the files that the commands name: of right results."""
    folder = tmp_path_factory.mktemp("files")
    (folder / "docs").symlink_to(DOCS)
    (folder / "capture.npz").symlink_to(DOCS / "examples" / "capture.npz")
    rng = np.random.default_rng(0)

    def keep(**arrays):
        for name, array in arrays.items():
            np.save(folder / f"{name}.npy", array)

    numbers = rng.standard_normal((64, 768), np.float32)
    keep(input=numbers, output=lp.encode(numbers, "e4m3fn"))
    numbers.tofile(folder / "x.bin")
    codes = lp.encode(numbers, "e4m3fn", saturation="finite")
    (folder / "codes.hex").write_text("\n".join(f"{code:02x}" for code in codes.ravel()) + "\n")
    lp.save(folder / "model.safetensors", {"layer.weight": numbers})
    quantize = "checkpoint quantize model.safetensors -o model-nvfp4.safetensors --to nvfp4 --scheme modelopt"
    subprocess.run(
        [sys.executable, "-m", "lowprec", *quantize.split()],
        cwd=folder, env=os.environ | {"PYTHONPATH": str(ROOT)}, check=True, capture_output=True,
    )  # fmt: skip
    (folder / "unit").write_text(UNIT)
    (folder / "unit").chmod(0o755)
    (folder / "serving.py").write_text(
        "import lowprec as lp\n\ndef quantize(x):\n"
        "    return lp.encode(x, 'nvfp4', profile='transformer_engine')\n"
    )
    (folder / "mine.toml").write_text("exponent_bits = 3\ntrailing_bits = 2\n")
    (folder / "operands.txt").write_text("")
    (folder / "device").write_text("#!/bin/sh\ncat > /dev/null\nlowprec vectors add e5m2 e5m2 e5m2 --flags\n")
    (folder / "device").chmod(0o755)
    return folder


def arrays_of(command, folder):
    """Return arrays for a command of compare, by the names that it has for them: of right results."""
    rng = np.random.default_rng(0)
    x, y = (lp.quantize(rng.standard_normal((32, 32), np.float32), "e4m3fn") for _ in range(2))
    made = {"x": x, "y": y}
    if "model.safetensors" in command:
        made["out"] = np.load(folder / "output.npy")
    elif "--operation add" in command:
        made["out"] = lp.add(x, y, "e4m3fn")
    elif "train_scales.npy" in command:
        made |= {"w": x}
        for name in ("train", "serve"):
            blocks = lp.encode(x, "mxfp8_e4m3")
            made |= {name: blocks.codes, f"{name}_scales": blocks.scales}
    elif "--scales scales.npy" in command:
        blocks = lp.encode(x, "mxfp4", axis=0)
        made |= {"w": x, "codes": blocks.codes, "scales": blocks.scales}
    elif "--scale 0.5" in command:
        made |= {"sy": np.float32(0.25), "bias": np.ones(32, np.float32)}
        made["out"] = lp.matmul(
            x,
            y,
            "ada_cublaslt_fp8(output=e4m3fn)",
            scales=(0.5, made["sy"]),
            bias=made["bias"],
            output_scale=2,
        )
    elif "--accumulation" in command:
        kind = command.split("--accumulation ")[1].split()[0]
        if kind.endswith(".toml"):
            (kind,) = lp.load_toml(folder / kind).values()
        made["out"] = lp.matmul(x, y, kind)
    elif "--scale scales.npy" in command:
        scales = lp.scale_for(x, "e4m3fn", axis=0)
        made |= {"codes": lp.encode(x / scales, "e4m3fn"), "scales": scales}
    elif "--flags" in command:
        flags = np.zeros(x.shape, np.uint8)
        made |= {"codes": lp.encode(x, "e5m2", flags=flags), "flags": flags}
    elif "--random" in command:
        words = rng.integers(0, 1 << 32, x.size // 4, dtype=np.uint32)
        codes = lp.encode(x.ravel(), "e4m3fn", rounding="stochastic(16, ptx_rs)", random=words)
        made |= {"x": x.ravel(), "codes": codes, "words": words}
    return made


def test_every_command_is_run_or_at_least_parsed(tmp_path, monkeypatch):
    """Of guides all are run; of other pages those that are not are parsed as they are written."""
    for page, file in ELSEWHERE.items():
        assert f"{page}.md" in (ROOT / "tests" / file).read_text()
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(DOCS / "examples")
    Path("before.json").touch()
    Path(".github").mkdir()
    parsed = 0
    for page in sorted(path.stem for path in DOCS.glob("*.md")):
        if page in ELSEWHERE:
            continue
        run = commands(page) if page in COMMANDS else []
        for command, printed in commands(page, all_of_them=True):
            if (command, printed) in run or command.startswith(OTHERS):
                continue
            assert not page.startswith(("howto-", "tutorial")), f"no test runs {command!r} of {page}.md"
            try:
                parse(command)
            except click.ClickException as error:
                pytest.fail(f"docs/{page}.md: {command}: {error.format_message()}")
            parsed += 1
    assert parsed > 20


def parse(command):
    """Let a command's own parser take its words, without running it."""
    words = shlex.split(command.replace("\\\n", " "), comments=True)
    while re.match(r"\w+=", words[0]):
        del words[0]
    if ">" in words:
        del words[words.index(">") :]
    if words[0] == "lowprec":
        program, arguments = lowprec_command, words[1:]
    elif words[1] == "-m":
        name = words[2] if "." in words[2] else f"{words[2]}.__main__"
        program, arguments = importlib.import_module(name).main, words[3:]
    else:
        assert words[0] == "python", command
        program, arguments = runpy.run_path(str(ROOT / words[1]))["main"], words[2:]
    context = program.make_context(words[0], arguments)
    if isinstance(program, click.Group):
        name, program, arguments = program.resolve_command(context, [*context._protected_args, *context.args])
        program.make_context(name, arguments, parent=context)


def test_the_cluster_of_the_page_compares(files, tmp_path):
    """The three commands of docs/scale-out.md, on this machine and at a free port."""
    need_package("distributed")
    (start, _), (work, _), (compare, _) = commands("scale-out", all_of_them=True)[:3]
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        place = f"127.0.0.1:{free.getsockname()[1]}"
    made = np.random.default_rng(0).standard_normal((300, 1000), np.float32)
    np.save(tmp_path / "x.npy", made)
    codes = lp.encode(made, "e4m3fn")
    codes[7, 7] ^= 1
    np.save(tmp_path / "codes.npy", codes)
    environment = os.environ | {
        "PATH": f"{Path(sys.executable).parent}:{os.environ['PATH']}",
        "PYTHONPATH": str(ROOT),
    }

    def start_one(command, words):
        command = f"exec {command.partition('#')[0]} {words}".replace("exec LOWPREC", "export LOWPREC")
        command = re.sub(r"^export (\S+) ", r"export \1; exec ", command).replace("host:8786", place)
        return subprocess.Popen(
            ["bash", "-c", command], cwd=tmp_path, env=environment, stderr=subprocess.DEVNULL
        )

    host, port = place.split(":")
    running = [start_one(start, f"--host {host} --port {port} --no-dashboard")]
    try:
        running.append(start_one(work.replace("--nworkers auto", "--nworkers 1"), "--no-dashboard"))
        run = subprocess.run(
            [sys.executable, "-m", *shlex.split(compare.replace("host:8786", place))],
            cwd=tmp_path, env=environment, capture_output=True, text=True, check=False, timeout=120,
        )  # fmt: skip
        assert run.returncode == 1, run.stderr
        assert run.stdout.startswith("1 of 300,000 results differ")
    finally:
        for process in reversed(running):
            process.terminate()
            process.wait(60)


@pytest.mark.parametrize("page", COMMANDS)
def test_commands_of_a_page_run_as_they_are_written(page, files, tmp_path):
    """What a page shows is printed; the exit code is 0, of `FAILING` 1, and 2 where the page shows misuse."""
    for each in files.iterdir():
        (tmp_path / each.name).symlink_to(each)
    program = tmp_path / "bin" / "lowprec"
    program.parent.mkdir()
    program.write_text(f'#!/bin/sh\nexec "{sys.executable}" -m lowprec "$@"\n')
    program.chmod(0o755)
    environment = os.environ | {
        "PATH": f"{program.parent}:{Path(sys.executable).parent}:{os.environ['PATH']}",
        "PYTHONPATH": str(ROOT),
        "COLUMNS": "200" if page != "command-line" else "100",
    }
    if (kernels := cache.directory()) is not None:  # compiled kernels are shared, finished sweeps are not
        (tmp_path / "cache" / "lowprec").mkdir(parents=True)
        kernels.mkdir(parents=True, exist_ok=True)
        (tmp_path / "cache" / "lowprec" / "kernels").symlink_to(kernels.absolute())
        environment["XDG_CACHE_HOME"] = str(tmp_path / "cache")
        environment.pop("LOWPREC_CACHE_DIR", None)
    found = commands(page)
    assert len(found) == COMMANDS[page]
    for command, printed in found:
        if command.startswith("cat "):
            file = tmp_path / command.split()[1]
            file.unlink(missing_ok=True)
            file.write_text(printed)
            continue
        fails = printed.startswith("Usage:")
        if fails:  # the page shows what is said of a field that is spelt wrongly
            file = tmp_path / command.split()[-1]
            file.write_text(file.read_text().replace("fraction_bits", "fraction_bit"))
        if command.startswith(("lowprec compare", "lowprec equal")) and "capture" not in command:
            for name, array in arrays_of(command, tmp_path).items():
                np.save(tmp_path / f"{name}.npy", array)
        run = subprocess.run(
            ["bash", "-c", command],
            cwd=tmp_path,
            env=environment,
            capture_output=True,
            text=True,
            check=False,
        )
        said = f"$ {command}\n{run.stdout}{run.stderr}"
        assert run.returncode == (2 if fails else command in FAILING), said
        if printed:
            got = run.stderr.replace("python -m lowprec", "lowprec") if fails else run.stdout
            got = re.sub(r" +$", "", got, flags=re.M)
            assert doctest.OutputChecker().check_output(printed, got, doctest.ELLIPSIS), said
