"""Ask this machine what its casts and dot products give, and write the answers to one file.

    python capture.py --out capture.npz

This needs Python 3.9 or later, NumPy and torch. It reads no file but itself, uses no network, and writes
nothing but that one file: the operands and results as integers (the bits of each number), what was asked, the
names and versions of the device and of the software, and the SHA-256 of every array.

Each question is asked in a second process, so that one that hangs or crashes costs its own answer only. What
was answered is in the file every few seconds, and when the run is interrupted.

What is asked is in QUESTIONS, at the end. The operands are in OPERANDS: an .npz file in base64, drawn by
lowprec, the same on every machine. What this machine or its torch lacks is left out, and the file says why.
NVIDIA's instructions are asked for by the few lines of CUDA in `cvt_kernel` and `mma_kernel`, which torch's
runtime compiler compiles.

`lowprec compare capture.npz` says what the answers mean.
"""

from __future__ import annotations

import base64
import contextlib
import hashlib
import io
import json
import os
import platform
import time
import zipfile
from typing import Any

import numpy as np

SCHEMA = "lowprec.capture/1"
MANIFEST = "capture.json"

#: The types of torch, by the names that formats have in lowprec.
TYPES = {
    "binary32": "float32",
    "binary16": "float16",
    "bfloat16": "bfloat16",
    "e4m3fn": "float8_e4m3fn",
    "e5m2": "float8_e5m2",
    "e4m3fnuz": "float8_e4m3fnuz",
    "e5m2fnuz": "float8_e5m2fnuz",
    "e8m0fnu": "float8_e8m0fnu",
}


#: Types whose sums torch may keep in fewer bits, as its settings name them.
SHORT = {"binary16": "fp16", "bfloat16": "bf16"}


class Missing(Exception):
    """Error raised where this machine, or its torch, lacks something."""


# -- torch ------------------------------------------------------------------------------------------


def tensor(codes: Any, name: str, device: str) -> Any:
    """Return a tensor whose elements have these bits."""
    import torch

    kind = getattr(torch, TYPES[name], None)
    if kind is None:
        raise Missing(f"torch {torch.__version__} has no {TYPES[name]}")
    return torch.from_numpy(codes.view(f"i{codes.itemsize}").copy()).view(kind).to(device)


def bits(result: Any) -> Any:
    """Return the bits of a tensor's elements, as unsigned integers."""
    import torch

    wide = result.element_size()
    kind = {1: torch.int8, 2: torch.int16, 4: torch.int32}[wide]
    return result.contiguous().view(kind).cpu().numpy().view(f"u{wide}")


def cast(device: str, asked: Any, x: Any) -> Any:
    """Convert x by Tensor.to."""
    import torch

    (source,), target = asked["from"], getattr(torch, TYPES[asked["to"]], None)
    if target is None:
        raise Missing(f"torch {torch.__version__} has no {TYPES[asked['to']]}")
    return bits(tensor(x, source, device).to(target))


def matmul(device: str, asked: Any, x: Any, y: Any) -> Any:
    """Multiply matrices by torch.matmul; of the results those of row r of x and row r of y."""
    import torch

    if device == "cpu" and asked["with"].get("tf32"):
        raise Missing("tf32 is of GPUs")
    settings = {"allow_tf32": bool(asked["with"].get("tf32"))}
    if device == "cuda" and asked["from"][0] in SHORT:
        settings[f"allow_{SHORT[asked['from'][0]]}_reduced_precision_reduction"] = False
    for name, value in settings.items():
        if hasattr(torch.backends.cuda.matmul, name):
            setattr(torch.backends.cuda.matmul, name, value)
        elif device == "cuda":
            raise Missing(f"torch {torch.__version__} has no torch.backends.cuda.matmul.{name}")
    left, right = tensor(x, asked["from"][0], device), tensor(y, asked["from"][1], device)
    return bits(torch.diagonal(torch.matmul(left, right.t())))


def scaled_mm(device: str, asked: Any, x: Any, y: Any) -> Any:
    """Multiply matrices of FP8 by torch._scaled_mm with scales of 1; as matmul else."""
    import torch

    left, right = tensor(x, asked["from"][0], device), tensor(y, asked["from"][1], device)
    one = torch.ones((), device=device)
    options = {"out_dtype": getattr(torch, TYPES[asked["to"]]), "use_fast_accum": asked["with"]["fast"]}
    result = torch._scaled_mm(left, right.t(), scale_a=one, scale_b=one, **options)
    # Before torch 2.5 the largest result came with the results.
    return bits(torch.diagonal(result[0] if isinstance(result, tuple) else result))


# -- instructions of NVIDIA's GPUs ---------------------------------------------------------------------


def launched(device: str, source: str, least: list[int], grid: list[int], given: list[Any], size: int) -> Any:
    """Run a kernel on arrays of 32-bit words, and return the words that it wrote.

    `least` is the compute capability that it needs, `grid` its blocks and the threads of each.
    """
    import torch

    if device != "cuda" or getattr(torch.version, "hip", None):
        raise Missing("it is an instruction of NVIDIA's GPUs")
    major, minor = torch.cuda.get_device_capability()
    if [major, minor] < least:
        raise Missing(f"it needs compute capability {least[0]}.{least[1]}, and this is {major}.{minor}")
    compiler = getattr(torch.cuda, "_compile_kernel", None)
    if compiler is None:
        raise Missing(f"torch {torch.__version__} has no runtime compiler (torch.cuda._compile_kernel)")
    from torch.utils import cpp_extension

    if cpp_extension.CUDA_HOME is None:  # the compiler asks for CUDA's headers; the kernels include none
        cpp_extension.CUDA_HOME = "/usr/local/cuda"
    suffix = "a" if major >= 9 else ""  # with the instructions that only this architecture has
    kernel = compiler(source, "capture", compute_capability=f"{major}{minor}{suffix}")
    arrays = [torch.from_numpy(np.ascontiguousarray(words).view(np.int32)).cuda() for words in given]
    out = torch.zeros(size, dtype=torch.int32, device="cuda")
    kernel(grid=(grid[0], 1, 1), block=(grid[1], 1, 1), args=[*arrays, out])
    torch.cuda.synchronize()
    return bits(out)


def cvt_kernel(instruction: str, inputs: int, register: int, random: bool) -> str:
    """Return the kernel of a conversion: each thread converts `inputs` numbers into one register."""
    given = ", ".join(f"%{number}" for number in range(1, inputs + 1))
    given = f"{{{given}}}" if inputs == 4 else given
    given += f", %{inputs + 1}" if random else ""
    held = {8: "unsigned", 16: "unsigned short", 32: "unsigned"}[register]
    text = f"{instruction} %0, {given};"
    if register == 8:  # no C type stands for a register of 8 bits
        text = f"{{ .reg .b8 t; {instruction} t, {given}; cvt.u32.u8 %0, t; }}"
    operands = [f'"f"(x[{inputs} * i + {place}])' for place in range(inputs)]
    operands += ['"r"(random[i])'] if random else []
    return f"""
extern "C" __global__ void capture(const float* x, const unsigned* random, unsigned* out) {{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    {held} d;
    asm("{text}" : "={"h" if register == 16 else "r"}"(d) : {", ".join(operands)});
    out[i] = d;
}}
"""


def elements(words: Any, count: int, register: int, kind: Any) -> Any:
    """Return what registers hold, that of the first input first: it is in the highest bits."""
    wide = register // count
    shifts = np.arange(count - 1, -1, -1, dtype=np.uint32) * np.uint32(wide)
    parts = words[:, None] >> shifts & np.uint32((1 << wide) - 1)
    return parts.reshape(-1).astype(kind)


def cvt(device: str, asked: Any, x: Any, random: Any = None) -> Any:
    """Convert x by an instruction; groups of neighbours are its inputs, the first in its highest bits."""
    how = asked["with"]
    inputs, register = how["inputs"], how["register"]
    source = cvt_kernel(how["instruction"], inputs, register, random is not None)
    count = x.size // inputs
    full = -(-count // 32) * 32
    given = [
        np.resize(x, full * inputs),
        np.resize(np.zeros(1, np.uint32) if random is None else random, full),
    ]
    words = launched(device, source, how["capability"], [full // 32, 32], given, full)
    return elements(words[:count], inputs, register, how["kind"])


def mma_kernel(instruction: str, half: bool) -> str:
    """Return the kernel of a product of matrices: each warp does one, on registers that lie in its order."""
    kind, letter, count = ("unsigned", "r", 2) if half else ("float", "f", 4)
    places = iter(range(32))
    lists = [", ".join(f"%{next(places)}" for _ in range(size)) for size in (count, 4, 2, count)]
    text = ", ".join(f"{{{names}}}" for names in lists)
    results = ", ".join(f'"={letter}"(d{place})' for place in range(count))
    operands = [f'"r"(a[{place}])' for place in range(4)] + [f'"r"(b[{place}])' for place in range(2)]
    operands += [f'"{letter}"(c[{place}])' for place in range(count)]
    return f"""
extern "C" __global__ void capture(const unsigned* a, const unsigned* b, const {kind}* c, {kind}* d) {{
    int thread = blockIdx.x * 32 + threadIdx.x;
    a += 4 * thread; b += 2 * thread; c += {count} * thread; d += {count} * thread;
    {kind} {", ".join(f"d{place}" for place in range(count))};
    asm volatile("{instruction} {text};" : {results} : {", ".join(operands)});
    {" ".join(f"d[{place}] = d{place};" for place in range(count))}
}}
"""


def places(matrix: str, wide: int) -> tuple[Any, Any]:
    """Return which row and column of a matrix each element of each thread's registers is.

    Matrices are a (16 x K), b (K x 8), and c and d (16 x 8) of mma.m16n8k*, whose elements have `wide` bits.
    Both results have shape (32 threads, elements), in the order of registers and of bits in them.
    """
    thread, group = np.arange(32)[:, None] % 4, np.arange(32)[:, None] // 4
    each = 32 // wide  # elements of a register
    element = np.arange({"a": 4 * each, "b": 2 * each, "c": 4}[matrix])
    register, inside = element // each, element % each
    if matrix == "a":
        return group + 8 * (register % 2), each * thread + inside + 4 * each * (register // 2)
    if matrix == "b":
        return each * thread + inside + 4 * each * register, group + 0 * element
    return group + 8 * (element // 2), 2 * thread + element % 2


def fragments(matrices: Any, matrix: str) -> Any:
    """Return the registers of each thread for matrices of shape (n, rows, columns), as 32-bit words."""
    rows, columns = places(matrix, 8 * matrices.itemsize)
    held = np.ascontiguousarray(matrices[:, rows, columns])
    return held.reshape(len(matrices), -1).view(np.uint32)


def gathered(words: Any, kind: Any) -> Any:
    """Return the results (n, 16, 8) that registers hold."""
    held = np.ascontiguousarray(words).view(kind).reshape(-1, 32, 4)
    rows, columns = places("c", 8 * held.itemsize)
    results = np.zeros((len(held), 16, 8), held.dtype)
    results[:, rows, columns] = held
    return results


def mma(device: str, asked: Any, x: Any, y: Any, addend: Any) -> Any:
    """Sum products by mma.sync: eight rows of x and y at a time, twice, so that layouts check themselves.

    Rows of x are rows 0 to 7 of a and again 8 to 15, rows of y the columns of b; results are the diagonals.
    """
    count, length = x.shape
    full = -(-count // 8) * 8
    if asked["from"] == ["tf32", "tf32"]:  # codes of 19 bits, which are the upper ones of a register
        x, y = x << np.uint32(13), y << np.uint32(13)
    x, y, addend = (np.resize(part, (full, *part.shape[1:])) for part in (x, y, addend))
    a = np.tile(x.reshape(-1, 8, length), (1, 2, 1))
    b = y.reshape(-1, 8, length).transpose(0, 2, 1)
    c = np.zeros((full // 8, 16, 8), addend.dtype)
    diagonal = np.arange(8)
    for first in (0, 8):
        c[:, first + diagonal, diagonal] = addend.reshape(-1, 8)
    source = mma_kernel(asked["with"]["instruction"], addend.itemsize == 2)
    given = [fragments(part, name) for part, name in ((a, "a"), (b, "b"), (c, "c"))]
    words = launched(device, source, asked["with"]["capability"], [full // 8, 32], given, given[2].size)
    results = gathered(words, addend.dtype)
    upper, lower = (results[:, first + diagonal, diagonal].reshape(-1)[:count] for first in (0, 8))
    if not np.array_equal(upper, lower):
        raise Missing("rows 0 to 7 and 8 to 15 of the matrices, which are alike, gave other results")
    return upper


CALLS: dict[str, Any] = {"cast": cast, "matmul": matmul, "scaled_mm": scaled_mm, "cvt": cvt, "mma": mma}

# -- the file ---------------------------------------------------------------------------------------


def npy(array: Any) -> bytes:
    """Return an array as an .npy file."""
    file = io.BytesIO()
    np.save(file, array, allow_pickle=False)
    return file.getvalue()


def archive(members: dict[str, bytes]) -> bytes:
    """Return a zip file of these members, without the time of day."""
    file = io.BytesIO()
    with zipfile.ZipFile(file, "w") as held:
        for name, content in members.items():
            held.writestr(zipfile.ZipInfo(name), content, zipfile.ZIP_DEFLATED)
    return file.getvalue()


def digest(array: Any) -> str:
    """Return the SHA-256 of an array: of its type and shape, such as "<u4 (16, 32)", then its bytes."""
    return hashlib.sha256(f"{array.dtype.str} {array.shape}".encode() + array.tobytes()).hexdigest()


def check_place(path: str) -> None:
    """Refuse a name without .npz, a link, a folder, a pipe or a device, or where no file can be made."""
    if not path.endswith(".npz"):
        raise SystemExit(
            f"{path!r} cannot be written: `lowprec compare` knows captures by the ending .npz; "
            f"name another --out"
        )
    folder = os.path.dirname(os.path.abspath(path))
    if not os.path.isdir(folder) or not os.access(folder, os.W_OK | os.X_OK):
        raise SystemExit(
            f"{path!r} cannot be written: {folder!r} is no folder, or not for you; name another --out"
        )
    if os.path.islink(path) or (os.path.exists(path) and not os.path.isfile(path)):
        raise SystemExit(f"{path!r} is a link or no regular file, and is not replaced; name another --out")
    try:
        with contextlib.suppress(FileNotFoundError):
            os.lstat(path)  # which says where a name is too long
        number, beside = opened_beside(path, 0o600)
    except OSError as error:
        raise SystemExit(f"{path!r} cannot be written: {error.strerror}; name another --out") from None
    os.close(number)
    os.remove(beside)


def opened_beside(path: str, mode: int) -> tuple[int, str]:
    """Make a file in the same folder, under a name that nobody can guess; return its descriptor and name."""
    beside = os.path.join(os.path.dirname(os.path.abspath(path)), f".{os.urandom(16).hex()}.part")
    flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | getattr(os, "O_NOFOLLOW", 0) | getattr(os, "O_BINARY", 0)
    return os.open(beside, flags, mode), beside


def save(path: str, manifest: dict[str, Any], arrays: dict[str, Any]) -> None:
    """Write the file beside its place, under a name that nobody can guess, and rename it when it is whole.

    A file that is replaced keeps its mode.
    """
    check_place(path)
    hashes = {name: digest(array) for name, array in arrays.items()}
    text = json.dumps({"schema": SCHEMA, **manifest, "arrays": hashes}, indent=1)
    members = {f"{name}.npy": npy(array) for name, array in arrays.items()}
    mode = os.stat(path).st_mode & 0o777 if os.path.exists(path) else None
    number, beside = opened_beside(path, 0o666 if mode is None else 0o600)
    try:
        with os.fdopen(number, "wb") as file:
            file.write(archive({MANIFEST: text.encode(), **members}))
            file.flush()
            os.fsync(file.fileno())
            if mode is not None and hasattr(os, "fchmod"):
                os.fchmod(file.fileno(), mode)
        os.replace(beside, path)
    finally:
        if os.path.exists(beside):
            os.remove(beside)


def operands() -> dict[str, Any]:
    """Return the operands, by name, after their hashes are checked."""
    with np.load(io.BytesIO(base64.b64decode(OPERANDS)), allow_pickle=False) as held:
        arrays = {name: held[name] for name in held.files}
    for wide in (8, 16):  # all codes there are need not be stored
        arrays[f"all_{wide}_bits"] = np.arange(1 << wide, dtype=f"u{wide // 8}")
    for name, wanted in ARRAYS.items():
        if digest(arrays[name]) != wanted:
            raise SystemExit(f"the operands {name!r} have another SHA-256 than ARRAYS says: a damaged script")
    return arrays


def machine(device: str) -> tuple[dict[str, Any], set[str]]:
    """Return what this machine is, and the words by which expectations are chosen."""
    import torch

    version, hip = torch.__version__.split("+")[0].split("."), getattr(torch.version, "hip", None)
    words = {"any", "torch>=2.13" if (int(version[0]), int(version[1])) >= (2, 13) else "torch<2.13"}
    facts: dict[str, Any] = {"kind": device, "device": processor(), "architecture": None, "driver": None}
    if device == "cuda":
        properties = torch.cuda.get_device_properties(torch.cuda.current_device())
        name = f"sm_{properties.major}{properties.minor}"
        name = properties.gcnArchName.split(":")[0] if hip else name
        facts["device"], facts["architecture"] = properties.name, name
        facts["driver"] = first_line("/proc/driver/nvidia/version")
        words.add(name)
    facts.update(torch=torch.__version__, cuda=torch.version.cuda, hip=hip)
    facts.update(python=platform.python_version(), numpy=np.__version__)
    facts["system"] = f"{platform.system()} {platform.machine()}"
    facts["date"] = time.strftime("%Y-%m-%d", time.gmtime())
    return facts, words


def processor() -> str:
    """Return the name of the processor."""
    return first_line("/proc/cpuinfo", "model name") or platform.processor() or platform.machine()


def first_line(path: str, start: str = "") -> str | None:
    """Return the first line of a file that begins so, without that beginning."""
    try:
        with open(path, encoding="utf-8", errors="replace") as lines:
            return next(
                (line[len(start) :].strip(" \t:\n") for line in lines if line.startswith(start)), None
            )
    except OSError:
        return None


# -- what is asked ----------------------------------------------------------------------------------

#: Who wrote this script, and how.
SCRIPT: dict[str, str] = {}

#: Questions: the call that answers, the formats of operands and results, the arrays of operands, and what
#: lowprec expects: of several expectations the first one of which a word in "when" holds here.
QUESTIONS: list[dict[str, Any]] = []

#: The SHA-256 of each array of operands; see `digest`.
ARRAYS: dict[str, str] = {}

OPERANDS = ""
