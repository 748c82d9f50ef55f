"""Files that a user names: whole or not at all, and nothing else is touched.

No device is written to here: pipes and links of the test's own stand for what is no regular file.
"""

import errno
import io
import os
import pathlib
import socket
import stat
import subprocess
import sys
import threading

import numpy
import pytest

import lowprec as lp
from lowprec import files
from tests.command import lowprec
from tests.support import most_apart

pytestmark = pytest.mark.skipif(not hasattr(os, "geteuid"), reason="links, pipes and modes are POSIX's")
as_root = pytest.mark.skipif(
    not hasattr(os, "geteuid") or os.geteuid() != 0, reason="needs root, for two users"
)

#: Nobody's number.
ANOTHER = 54321

#: What the commands below write.
TABLE = lowprec("table", "e2m1fn").stdout_bytes

#: Of programs that run elsewhere: with the package that is tested.
ENVIRONMENT = {**os.environ, "PYTHONPATH": str(pathlib.Path(__file__).parents[2])}


def mode(path):
    return stat.S_IMODE(path.stat().st_mode)


def table(path, code=0):
    """Let `lowprec table` write to a path; what it said."""
    result = lowprec("table", "e2m1fn", "-o", path)
    assert result.exit_code == code, result.output
    return result.output


def names(folder):
    return sorted(path.name for path in folder.iterdir())


PORTS = ("--formats", "binary16", "binary16", "--output", "binary32", "--k", "2")
COMPARED = ("compare", "x.npy", "x.npy", "--to", "mine.toml")
ADDED = tuple("compare c.npy c.npy c.npy --operation add --to e4m3fn".split())
SCALED = ("--scale", "1,x.npy", "--junit", "x.npy")
CAST = ("numpy", "--operation", "cast", "--source", "float32", "--target", "binary16", "--samples", "16")


@pytest.mark.parametrize(
    "words",
    [
        ("table", "mine.toml", "-o", "mine.toml"),
        ("vectors", "convert", "e2m1fn", "mine.toml", "-o", "./mine.toml"),
        ("vectors", "convert", "mine.toml", "e2m1fn", "-o", "link"),
        ("export", "c", "--operation", "add", "--format", "mine.toml", "-o", "link"),
        ("export", "smt", "--operation", "add", "--format", "mine.toml", "-o", "mine.toml"),
        ("explorer", "--format", "mine.toml:e4m3fn", "-o", "link"),
        ("compare", "x.npy", "x.npy", "--to", "mine.toml", "--html", "x.npy"),
        ("compare", "x.npy", "x.npy", "--to", "mine.toml", "--junit", "link"),
        ("compare", "x.bin:float32:4", "x.npy", "--html", "x.bin"),
        (*COMPARED, "--baseline", "b.json", "--html", "b.json"),
        ("compare", "folder:w", "x.npy", "--to", "e4m3fn", "--html", "folder/model.safetensors"),
        (*ADDED, "--from", "mine.toml,e4m3fn", "--junit", "mine.toml"),
        (*"compare m.npy m.npy m.npy --operation matmul --accumulation fp32_fma".split(), *SCALED),
        ("conform", *CAST, "--baseline", "c.json", "--json", "-o", "c.json"),
        ("conform", *CAST[:-2], "--values", "x.npy", "--junit", "x.npy"),
        ("conform", *CAST, "--json", "-o", "y", "--junit", "y"),
        *(
            pytest.param(("identify", "--rows", "rows.txt", *others), marks=pytest.mark.apart)
            for others in (
                (*PORTS, "--save", "rows.txt"),
                (*PORTS, "--sail", "rows.txt"),
                ("--formats", "binary16", "half.toml", *PORTS[3:], "--save", "half.toml"),
            )
        ),
    ],
)
def test_what_a_command_reads_is_not_replaced_by_what_it_writes(tmp_path, monkeypatch, words):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr("lowprec.export.sail.fragment", lambda unit: "of any unit")
    (tmp_path / "mine.toml").write_bytes(lowprec("show", "e4m3fn", "--toml").stdout_bytes)
    numpy.save("x.npy", numpy.ones(4, "f4"))
    numpy.ones(4, "f4").tofile("x.bin")
    numpy.save("c.npy", numpy.full(4, 0, "u1"))
    numpy.save("m.npy", numpy.eye(4, dtype="f4"))
    (tmp_path / "half.toml").write_text('base = "binary16"\n')
    (tmp_path / "folder").mkdir()
    lp.save(tmp_path / "folder" / "model.safetensors", {"w": numpy.ones(4, "f4")})
    (tmp_path / "rows.txt").write_text("3c00 3c00 3c00 3c00 00000000 40000000\n")
    (tmp_path / "link").symlink_to("mine.toml")
    for name, command in (("b.json", COMPARED), ("c.json", ("conform", *CAST))):
        if name in words:
            (tmp_path / name).write_bytes(lowprec(*command, "--json").stdout_bytes)
    before = {path: path.read_bytes() for path in tmp_path.rglob("*") if path.is_file()}
    result = lowprec(*words)
    assert (result.exit_code, "and would be replaced; name another output" in result.output) == (2, True)
    assert {path: path.read_bytes() for path in before} == before


@pytest.mark.parametrize("umask", [0o022, 0o077, 0o002])
def test_a_new_file_has_the_mode_that_the_umask_leaves(tmp_path, umask):
    """A file that a shell writes has it too."""
    before = os.umask(umask)
    try:
        table(tmp_path / "table.csv")
    finally:
        os.umask(before)
    assert (tmp_path / "table.csv").read_bytes() == TABLE
    assert mode(tmp_path / "table.csv") == 0o666 & ~umask
    assert names(tmp_path) == ["table.csv"]


@pytest.mark.parametrize("kept", [0o600, 0o644, 0o660, 0o755, 0o200])
def test_a_file_that_is_replaced_keeps_its_mode(tmp_path, kept):
    """A private file stays private: 0600 became 0644."""
    path = tmp_path / "table.csv"
    path.write_text("old")
    path.chmod(kept)
    table(path)
    assert mode(path) == kept
    path.chmod(0o600)
    assert path.read_bytes() == TABLE


def test_the_file_beside_is_private_from_its_first_moment(tmp_path, monkeypatch):
    """Its name cannot be guessed, it is made with O_EXCL, and it is closed to others where the file is."""
    path, opened, plain_open = tmp_path / "table.csv", [], os.open
    path.write_text("old")
    path.chmod(0o600)

    def watched(at, flags, *given, **options):
        if flags & os.O_CREAT and pathlib.Path(at).parent == tmp_path:
            opened.append((pathlib.Path(at).name, flags, *given))
        return plain_open(at, flags, *given, **options)

    monkeypatch.setattr(os, "open", watched)
    table(path)
    table(path)
    (first, flags, given), (second, *_) = opened
    assert flags & os.O_EXCL
    assert given == 0o600
    assert first != second
    assert len(first) >= 32
    assert str(os.getpid()) not in (first, second)


def test_a_planted_temporary_name_is_not_followed(tmp_path):
    """The name was the file's and the process's number: a link there had its target overwritten."""
    program = (
        "import os, sys; from lowprec.cli.main import main\n"
        "os.symlink('precious', f'.table.csv.{os.getpid()}')\n"
        "main(['table', 'e2m1fn', '-o', 'table.csv'])"
    )
    (tmp_path / "precious").write_text("precious")
    subprocess.run([sys.executable, "-c", program], cwd=tmp_path, env=ENVIRONMENT, check=True)
    assert (tmp_path / "precious").read_text() == "precious"
    assert (tmp_path / "table.csv").read_bytes() == TABLE


@as_root
def test_a_file_that_is_replaced_keeps_its_owner(tmp_path):
    """Root writes here."""
    path = tmp_path / "table.csv"
    path.write_text("old")
    os.chown(path, ANOTHER, ANOTHER + 1)
    path.chmod(0o640)
    table(path)
    assert (path.stat().st_uid, path.stat().st_gid, mode(path)) == (ANOTHER, ANOTHER + 1, 0o640)


def test_a_group_that_cannot_be_kept_gives_no_rights_to_another(tmp_path, monkeypatch):
    """A user who is neither root nor of the group writes here."""
    path = tmp_path / "table.csv"
    path.write_text("old")
    path.chmod(0o664)
    fstat = os.fstat
    monkeypatch.setattr(
        os,
        "fstat",
        lambda descriptor: os.stat_result((*fstat(descriptor)[:4], ANOTHER, ANOTHER, *fstat(descriptor)[6:])),
    )

    def refused(*_):
        raise PermissionError

    monkeypatch.setattr(os, "fchown", refused)
    files.write(path, b"new")
    assert (path.read_bytes(), mode(path)) == (b"new", 0o604)


def test_a_link_is_followed_to_its_target(tmp_path):
    """Also one to a link, one to a file that is not there yet, and one through a folder's link."""
    (tmp_path / "folder").mkdir()
    (tmp_path / "link").symlink_to("second")
    (tmp_path / "second").symlink_to(tmp_path / "folder" / "table.csv")
    (tmp_path / "way").symlink_to("folder")
    for path in (tmp_path / "link", tmp_path / "link", tmp_path / "way" / "table.csv"):
        table(path)
        assert (tmp_path / "folder" / "table.csv").read_bytes() == TABLE
        (tmp_path / "folder" / "table.csv").write_text("old")
    assert (tmp_path / "link").is_symlink()
    assert (tmp_path / "second").is_symlink()
    assert names(tmp_path / "folder") == ["table.csv"]


def test_a_circle_of_links_is_refused(tmp_path):
    """And stays as it is."""
    (tmp_path / "a").symlink_to("b")
    (tmp_path / "b").symlink_to("a")
    assert f"cannot write {str(tmp_path / 'a')!r}: {os.strerror(errno.ELOOP)}" in table(tmp_path / "a", 2)
    assert (tmp_path / "a").is_symlink()


@as_root
def test_another_users_link_in_a_folder_that_all_may_write_is_refused(tmp_path):
    """Such a folder is /tmp: Linux itself follows no such link, and its target would be overwritten."""
    (tmp_path / "shared").mkdir()
    (tmp_path / "shared").chmod(0o1777)
    (tmp_path / "precious").write_text("precious")
    link = tmp_path / "shared" / "table.csv"
    link.symlink_to(tmp_path / "precious")
    os.chown(link, ANOTHER, ANOTHER, follow_symlinks=False)
    said = table(link, 2)
    assert f"cannot write {str(link)!r}: it is another user's link, in a folder that all may write" in said
    assert (tmp_path / "precious").read_text() == "precious"
    os.chown(link, os.geteuid(), -1, follow_symlinks=False)
    table(link)
    assert (tmp_path / "precious").read_bytes() == TABLE


@pytest.mark.parametrize("linked", [False, True], ids=["pipe", "link to a pipe"])
def test_a_pipe_is_written_through(tmp_path, linked):
    """It was replaced by a regular file, as a device was."""
    os.mkfifo(tmp_path / "pipe")
    path = tmp_path / "pipe"
    if linked:
        path = tmp_path / "link"
        path.symlink_to("pipe")
    read = []
    reader = threading.Thread(target=lambda: read.append((tmp_path / "pipe").read_bytes()), daemon=True)
    reader.start()
    table(path)
    reader.join(60)
    assert read == [TABLE]
    assert stat.S_ISFIFO((tmp_path / "pipe").stat().st_mode)


def test_a_socket_and_a_folder_are_refused_and_stay(tmp_path, monkeypatch):
    """Neither can be opened to be written."""
    (tmp_path / "folder").mkdir()
    with socket.socket(socket.AF_UNIX) as listening:
        monkeypatch.chdir(tmp_path)  # a socket's path must be short
        listening.bind("socket")
        with pytest.raises(OSError, match=os.strerror(errno.ENXIO)):
            files.write(pathlib.Path("socket"), b"")
        assert stat.S_ISSOCK(pathlib.Path("socket").stat().st_mode)
    with pytest.raises(IsADirectoryError):
        files.write(tmp_path / "folder", b"")
    assert names(tmp_path) == ["folder", "socket"]


@pytest.mark.skipif(sys.platform == "win32", reason="limits of files are those of Unix")
def test_output_without_a_buffer_is_written_whole_or_fails(tmp_path):
    """A write that takes a part of what is given is no error; the next one says why there is no more."""
    with (tmp_path / "table").open("wb") as out:
        words = [sys.executable, "-m", "lowprec", "table", "binary16", "--as", "csv"]
        run = subprocess.run(
            ["sh", "-c", 'ulimit -f 100; exec "$@"', "sh", *words],
            stdout=out, stderr=subprocess.PIPE, env={**os.environ, "PYTHONUNBUFFERED": "1"}, check=False,
        )  # fmt: skip
    assert (run.returncode, run.stderr) == (2, b"Error: File too large\n")


@pytest.mark.parametrize(
    "name",
    most_apart(
        ["/dev/stdout", "/dev/fd/1", "/proc/self/fd/1", "link", "/dev/stderr"], ["/dev/stdout", "link"]
    ),
)
def test_standard_streams_are_written_to_where_they_are(tmp_path, name):
    """Behind what was written, and before what will be: a file that a shell opened is not replaced."""
    if not os.path.exists(os.path.dirname(name) or "."):
        pytest.skip(f"there is no {name} here")
    (tmp_path / "link").symlink_to("/dev/stdout")
    command = [sys.executable, "-m", "lowprec", "table", "e2m1fn", "-o", name]
    for kind in ("file", "pipe"):
        with (tmp_path / "all").open("wb") as file:
            file.write(b"before\n")
            file.flush()
            streams = dict.fromkeys(("stdout", "stderr"), file if kind == "file" else subprocess.PIPE)
            run = subprocess.run(command, cwd=tmp_path, env=ENVIRONMENT, check=True, **streams)
            file.write((run.stdout or b"") + (run.stderr or b""))
            file.seek(0, os.SEEK_END)
            file.write(b"after\n")
        assert (tmp_path / "all").read_bytes() == b"before\n" + TABLE + b"after\n"
        assert names(tmp_path) == ["all", "link"]


def test_a_file_that_may_not_be_written_is_not_replaced(tmp_path, monkeypatch):
    """Though its folder would allow it. Root may write all, so the system is made to deny it."""
    path = tmp_path / "table.csv"
    path.write_text("old")
    path.chmod(0o400)
    monkeypatch.setattr(os, "access", lambda *_: False)
    with pytest.raises(PermissionError, match="permission denied"):
        files.write(path, b"new")
    assert "is not writable" in table(path, 2)
    assert path.read_text() == "old"


@pytest.mark.parametrize("step", ["write", "rename"])
@pytest.mark.parametrize(
    "error", [OSError(errno.ENOSPC, "No space left on device"), KeyboardInterrupt()], ids=str
)
def test_what_fails_leaves_the_old_file_and_nothing_beside_it(tmp_path, monkeypatch, step, error):
    """A disk that is full, and Ctrl-C."""
    path = tmp_path / "table.csv"
    path.write_text("old")

    def fail(*_, **__):
        raise error

    monkeypatch.setattr(os, "replace" if step == "rename" else "fchmod", fail)
    with pytest.raises(type(error)):
        files.write(path, b"new")
    assert path.read_text() == "old"
    assert names(tmp_path) == ["table.csv"]


def test_a_full_disk_leaves_the_old_file(tmp_path):
    """A limit on the size of files makes a write beyond it fail, as a full disk does."""
    resource = pytest.importorskip("resource")
    program = (
        "import resource, signal, sys; from lowprec.cli.main import main\n"
        "sys.dont_write_bytecode = True  # it would be cut, and stay\n"
        "resource.setrlimit(resource.RLIMIT_FSIZE, (100, resource.RLIM_INFINITY))\n"
        "main(['table', 'e4m3fn', '-o', 'table.csv'])"
    )
    assert resource
    (tmp_path / "table.csv").write_text("old")
    command = [sys.executable, "-c", program]
    run = subprocess.run(command, cwd=tmp_path, env=ENVIRONMENT, capture_output=True, text=True, check=False)
    assert run.returncode == 2
    assert run.stderr.endswith("Error: cannot write 'table.csv': File too large\n")
    assert (tmp_path / "table.csv").read_text() == "old"
    assert names(tmp_path) == ["table.csv"]


FULL = [
    (["vectors", "convert", "binary32", "e4m3fn", "-o", "x.txt"], "cannot write 'x.txt': File too large"),
    (["golden", "--write", "--tables", "x"], "File too large: 'x/values/a.csv'"),
]


@pytest.mark.parametrize(("arguments", "words"), FULL, ids=lambda words: words[0])
def test_a_full_disk_is_named_by_other_commands(tmp_path, arguments, words):
    """Golden data ended with "File too large", of no file."""
    pytest.importorskip("resource")
    program = (
        "import resource, sys; from lowprec.cli.main import main; from lowprec.export import golden\n"
        "data = {'values/a.csv': bytes(10_000), 'digests.json': b'{\\n}'}\n"
        "golden.generate, golden._with_sweeps = lambda watch: data.items(), lambda made, before: made\n"
        "sys.dont_write_bytecode = True  # it would be cut, and stay\n"
        "resource.setrlimit(resource.RLIMIT_FSIZE, (100, resource.RLIM_INFINITY))\n"
        "main(sys.argv[1:])"
    )
    command = [sys.executable, "-c", program, *arguments]
    run = subprocess.run(command, cwd=tmp_path, env=ENVIRONMENT, capture_output=True, text=True, check=False)
    assert run.returncode == 2
    assert run.stderr.endswith(f"Error: {words}\n")
    assert [path.name for path in tmp_path.rglob("*") if path.is_file()] == []


OTHERS = [
    ["table", "e2m1fn", "--thresholds", "-o", "{}"],
    ["vectors", "convert", "e4m3fn", "e2m1fn", "-o", "{}"],
    ["conform", *CAST, "--json", "-o", "{}"],
    ["compare", "x.npy", "codes.npy", "--to", "e4m3fn", "--junit", "{}"],
    ["compare", "x.npy", "codes.npy", "--to", "e4m3fn", "--html", "{}"],
]


@pytest.mark.parametrize("arguments", OTHERS, ids=lambda words: " ".join(words[:1] + words[-2:-1]))
def test_every_option_that_names_a_file_writes_it_so(tmp_path, monkeypatch, arguments):
    """Through a link, into a file whose mode stays."""
    import numpy as np

    import lowprec as lp

    monkeypatch.chdir(tmp_path)
    np.save("x.npy", np.float32([1, 2]))
    np.save("codes.npy", lp.encode(np.float32([1, 2]), "e4m3fn"))
    pathlib.Path("target").write_text("old")
    pathlib.Path("target").chmod(0o600)
    pathlib.Path("link").symlink_to("target")
    result = lowprec(*[word.format("link") for word in arguments])
    assert result.exit_code in (0, 1), result.output
    assert pathlib.Path("link").is_symlink()
    assert pathlib.Path("target").stat().st_size > 100
    assert mode(pathlib.Path("target")) == 0o600


@pytest.mark.parametrize(
    "words",
    [
        ["table", "e2m1fn", "-o", "-"],
        ["conform", "numpy", "--junit", "-"],
        ["checkpoint", "dequantize", "x.safetensors", "-o", "-"],
    ],
)
def test_an_output_of_a_dash_is_refused(tmp_path, monkeypatch, words):
    """A file or folder of that name was made."""
    monkeypatch.chdir(tmp_path)
    result = lowprec(*words)
    assert (result.exit_code, list(tmp_path.iterdir())) == (2, [])
    assert "'-' does not stand for the standard output here; name a file" in result.output


@pytest.mark.parametrize(
    ("words", "name"),
    [
        (["compare", "x.npy", "y.npy", "--to", "e4m3fn"], "x.npy"),
        (
            ["identify", "--rows", "rows.txt", "--formats", "binary16", "binary16", "--output", "binary32"],
            "rows",
        ),
        (["show", "mine.toml"], "mine.toml"),
        (["compare", "x.npz"], "x.npz"),
    ],
)
def test_files_that_cannot_be_read_are_named_without_the_number_of_the_error(
    tmp_path, monkeypatch, words, name
):
    monkeypatch.chdir(tmp_path)
    for each in ("x.npy", "y.npy", "rows.txt", "mine.toml", "x.npz"):
        (tmp_path / each).touch()
    opened = io.open

    def denied(path, *arguments, **options):
        if pathlib.Path(str(path)).suffix not in (".npy", ".txt", ".toml", ".npz"):
            return opened(path, *arguments, **options)
        raise PermissionError(errno.EACCES, "Permission denied", str(path))

    monkeypatch.setattr("io.open", denied)
    monkeypatch.setattr("click.open_file", denied)
    result = lowprec(*words)
    assert (result.exit_code, "Errno" in result.output) == (2, False)
    assert "Permission denied" in result.output
    assert name in result.output
