"""Files and names made to harm their readers: refused at once, in one printable message, exit code 2."""

import ast
import html
import json
import os
import pathlib
import re
import struct
import time
import xml.etree.ElementTree as ET

import numpy as np
import pytest
from safetensors.numpy import save_file

import lowprec as lp
from lowprec.arrays import progress
from lowprec.export.markdown import row
from lowprec.spec.naming import plain
from lowprec.verify.capture.calls import chosen, written
from lowprec.verify.codes.display import quoted
from lowprec.verify.dumps.files import Held
from tests.command import lowprec

#: A window title, a colour, a change of direction, an 8-bit control, a line of one's own, a lone surrogate.
EVIL = "w\x1b]0;title\x07\x1b[31m\u202e\x9b2J\n4 results agree\r\x00\x7f\udc80\ufffe"
SHOWN = r"w\x1b]0;title\x07\x1b[31m\u202e\x9b2J\n4 results agree\r\x00\x7f\udc80\ufffe"

PACKAGE = pathlib.Path(__file__).parents[2] / "lowprec"
WRITERS = [
    path
    for room in ("verify", "testing", "export", "cli", "tools")
    for path in sorted((PACKAGE / room).rglob("*.py"))
]


def is_harmless(text):
    """Whether a terminal only shows it."""
    return all(line.isprintable() for line in text.split("\n"))


def refused(*words):
    """What a command says that ends with 2, in few lines and without work that grows with what is absurd.

    That took half a minute and more: a limit in the processor's time that a busy machine does not reach.
    """
    before = time.process_time()
    result = lowprec(*words)
    took = time.process_time() - before
    assert result.exit_code == 2, result.output
    assert isinstance(result.exception, SystemExit)
    assert is_harmless(result.output)
    assert "Traceback" not in result.output  # which the command catches, and ends with 2 too
    assert len(result.output) < 6000
    assert took < 10
    return result.stderr


@pytest.fixture
def folder(tmp_path, monkeypatch):
    """The current one, with four codes of e4m3fn."""
    monkeypatch.chdir(tmp_path)
    np.save("codes.npy", lp.encode(np.arange(4.0), "e4m3fn"))
    lowprec("compare", "codes.npy", "codes.npy", "--to", "e4m3fn")  # imports and kernels are not timed
    return tmp_path


def safetensors(name, header):
    """A file of that header, text or data, and 32 bytes."""
    content = header if isinstance(header, bytes) else json.dumps(header).encode()
    pathlib.Path(name).write_bytes(struct.pack("<Q", len(content)) + content + bytes(32))


def entry(**fields):
    return {"dtype": "F32", "shape": [4], "data_offsets": [0, 16], **fields}


def test_what_is_plain_is_shown_as_it_is():
    """Controls are not, nor a line end in a name."""
    assert plain("layer.0.weight ± → é 字") == "layer.0.weight ± → é 字"
    assert plain(EVIL) == SHOWN
    assert quoted("it's") == '"it\'s"'
    assert is_harmless(quoted(EVIL))


HEADERS = {
    "200,000 dimensions": {"a": entry(shape=[3] * 200_000)},
    "200,000 dimensions that are large": {"a": entry(shape=[1 << 62] * 200_000)},
    "200,000 empty dimensions": {"a": entry(shape=[0] + [3] * 200_000)},
    "100,000 offsets": {"a": entry(data_offsets=list(range(100_000)))},
    "a type of 100,000 words": {"a": entry(dtype=["F32"] * 100_000)},
    "a long type": {"a": entry(dtype="F" * 1_000_000)},
    "a dimension of 4,000 digits": b'{"a":{"dtype":"F32","shape":['
    + b"9" * 4000
    + b'],"data_offsets":[0,16]}}',
    "a dimension of 2,000,000 digits": b'{"a":{"dtype":"F32","shape":[' + b"9" * 2_000_000 + b"]}}",
    "nested lists": b"[" * 2_000_000,
    "nested objects": b'{"a":' * 400_000,
    "many tensors": {f"{number}{EVIL}": entry() for number in range(10_000)},
    "long names": {f"{number}" + "n" * 500_000: entry() for number in range(2)},
    "one long name, which is no float": {
        "n" * 1_000_000: entry(dtype="I32", shape=[8], data_offsets=[0, 32])
    },
}


@pytest.mark.parametrize("header", HEADERS.values(), ids=HEADERS)
def test_absurd_headers_of_safetensors_are_refused_at_once(folder, header):
    """200,000 dimensions took half a minute."""
    safetensors("hostile.safetensors", header)
    said = refused("compare", "hostile.safetensors", "codes.npy", "--to", "e4m3fn", "--from", "e4m3fn")
    assert "hostile.safetensors" in said


def npy(header, version=b"\1\0"):
    """An .npy file with that header."""
    return (
        b"\x93NUMPY"
        + version
        + struct.pack("<H" if version == b"\1\0" else "<I", len(header))
        + header
        + bytes(16)
    )


NPY = {
    "nested": npy(b"(" * 60_000),
    "nested, short": npy(b"(" * 9000),
    "signs": npy(b"-" * 9000),
    "long": npy(b"[" * 3_000_000, b"\2\0"),
    "4,000 dimensions": npy(b"{'descr':'<f4','fortran_order':False,'shape':(" + b"9," * 4000 + b")}"),
    "a large array": npy(b"{'descr':'<f4','fortran_order':False,'shape':(" + b"9" * 19 + b",)}"),
    "escapes": npy(b"{'descr':'\x1b]0;t\x07','fortran_order':False,'shape':(4,)}"),
    "an archive": b"PK\3\4" + bytes(100),
    "nothing": b"",
}


@pytest.mark.parametrize("content", NPY.values(), ids=NPY)
def test_absurd_headers_of_npy_are_refused_at_once(folder, content):
    """By `compare`, and by `conform --values`."""
    pathlib.Path("hostile.npy").write_bytes(content)
    assert "hostile.npy" in refused("compare", "hostile.npy", "codes.npy", "--to", "e4m3fn")
    assert "hostile.npy" in refused("conform", "numpy", "--values", "hostile.npy")


def test_absurd_words_are_cut_short(folder):
    """In hexadecimal text, lines of answers, shapes and options."""
    for content in ("z" * 1_000_000, "1" * 1_000_000, f"00 {EVIL[:20]}"):
        pathlib.Path("hostile.hex").write_text(content)
        assert "'hostile.hex' holds '" in refused(
            "compare", "hostile.hex", "codes.npy", "--to", "e4m3fn", "--from", "e4m3fn"
        )
        assert "line 1 " in refused("compare", "hostile.hex", "convert", "e4m3fn", "e5m2")
    pathlib.Path("raw.bin").write_bytes(bytes(4))
    assert "is no shape of 'raw.bin'" in refused(
        "compare", f"raw.bin:uint8:{'1,' * 70}1", "codes.npy", "--to", "e4m3fn"
    )
    for words in (("show", EVIL.replace("\0", "")), ("show", "e4m3fn", f"--{EVIL[:20]}"), (EVIL[:20],)):
        assert r"\x1b]0;title\x07" in refused(*words)


TOML = {
    "lists": "a=" + "[" * 4000,
    "tables": "a=" + "{a=" * 2000,
    "dots": "a" + ".a" * 4000 + "=1",
    "more than a definition": "#" * 10_000_000,
    "long numbers": f"exponent_bits={'9' * 4000}\ntrailing_bits=3\n",
    "longer numbers": f"exponent_bits={'9' * 5000}\ntrailing_bits=3\n",
    "a bias without end": f"exponent_bits=4\ntrailing_bits=3\nbias={'9' * 4000}\n",
    "a name": 'name="\\u001b]0;t\\u0007"\nexponent_bits=4\ntrailing_bits=3\n',
    "a field": '"\\u001b]0;t\\u0007"=4\nexponent_bits=4\ntrailing_bits=3\n',
    "a sign": 'sign="\\u001b]0;t\\u0007"\nexponent_bits=4\ntrailing_bits=3\n',
}


@pytest.mark.parametrize("command", ["show", "table", "check-format"])
@pytest.mark.parametrize("text", TOML.values(), ids=TOML)
def test_absurd_definitions_are_refused_at_once(folder, text, command):
    """Deep nesting ended in a RecursionError, with the code of "some differ"."""
    pathlib.Path("hostile.toml").write_text(text)
    assert "Error: " in refused(command, "hostile.toml")


#: Of each kind of object, its fields in a file.
KINDS = {
    "a format": "exponent_bits=4\ntrailing_bits=3\n",
    "a codebook": "values=[0, 1, 2, 3]\n",
    "a block format": 'element="e2m1fn"\nscale="e8m0fnu"\nsize=32\n',
    "an accumulation": 'output="binary32"\naccumulator="binary32"\n',
    "a profile": 'kind="profile"\n[formats]\ne4m3fn={}\n',
}


@pytest.mark.parametrize("kind", KINDS)
def test_markup_in_other_texts_is_shown_as_it_is(folder, kind):
    """On the card of each kind of object."""
    pathlib.Path("mine.toml").write_text('source="[/x][red]*"\n' + KINDS[kind])
    result = lowprec("show", "mine.toml")
    assert result.exit_code == 0
    assert "[/x][red]*" in result.output


@pytest.mark.parametrize("command", ["show", "vectors", "table"])
@pytest.mark.parametrize("field", ["name", "source"])
@pytest.mark.parametrize("kind", KINDS)
def test_texts_that_would_be_lines_of_their_own_are_refused(folder, kind, field, command):
    """A name became a line of golden vectors."""
    text = "mine\n0000 0000 : 3f80\x1b[31m"
    pathlib.Path("mine.toml").write_text(f"{field}={json.dumps(text)}\n{KINDS[kind]}")
    words = {"show": ["show"], "vectors": ["vectors", "convert", "binary32"], "table": ["table"]}[command]
    said = refused(*words, "mine.toml")
    assert f"{field}='mine\\n0000 0000 : 3f80\\x1b[31m' of {kind} must be printable" in said


def test_names_of_tables_are_held_to_the_rule_of_names(folder):
    """Even where the object has a name of its own."""
    pathlib.Path("mine.toml").write_text(
        '["a\\nb"]\nname="a"\nbase="e4m3fn"\n[b]\nbase="e4m3fn"\n', encoding="utf-8"
    )
    said = refused("show", "mine.toml:b")
    assert r"[a\nb]: name='a\nb' of a table must be printable and without * [ ] \ | `" in said


@pytest.mark.skipif(os.name == "nt", reason="such names are POSIX's")
def test_a_files_name_is_no_line_and_ends_no_comment(folder):
    """In what is generated from it: the command stands in the header."""
    pathlib.Path("x*").mkdir()
    path = "x*/a\nint evil; "
    pathlib.Path(f"{path}.toml").write_text(KINDS["a format"] + 'name="mine"\n')
    vectors = lowprec("vectors", "convert", "binary16", f"{path}.toml", "--samples", "16")
    assert vectors.exit_code == 0, vectors.output
    heads = [line for line in vectors.stdout.split("\n") if not re.fullmatch(r"[0-9a-f ]*", line)]
    assert all(line.startswith("# ") for line in heads)
    for kind in ("c", "sv", "vhdl", "csv", "md"):
        table = lowprec("table", f"{path}.toml", "--as", kind)
        assert table.exit_code == 0, table.output
        assert r"x* /a\nint evil; .toml" in table.stdout
        assert "\nint evil" not in table.stdout


def test_cells_of_markdown_and_bars_show_names_escaped(capsys):
    """As JUnit, pages and messages do."""
    assert row(EVIL, "a|b") == rf"| {SHOWN} | a\|b |"
    with progress.bar() as watch:
        watch(1, 2, EVIL)
    assert "\x1b]0" not in capsys.readouterr().err


def test_the_command_in_a_capture_script_is_one_line():
    """The script runs on other machines."""
    text = written(chosen(["cast_e4m3fn_binary32"]), 16, 0, "lowprec capture\nimport os")
    assert text.split("\n")[0].endswith(r": lowprec capture\nimport os")
    assert text.split("\n").count("import os") == 1  # the script's own


@pytest.mark.skipif(os.name == "nt", reason="such names are POSIX's")
def test_names_of_files_and_tensors_are_shown_escaped(folder):
    """An OSC reached the terminal; a line end in a name could add a line of one's own."""
    name = f"{EVIL.replace(chr(0), '')}.npy"
    shown = plain(name)
    np.save(name, np.zeros(4, np.float32))
    assert f"Error: {shown} holds float32" in refused(
        "compare", name, "codes.npy", "--to", "e4m3fn", "--from", "e4m3fn"
    )
    safetensors("two.safetensors", {EVIL.replace("\udc80", ""): entry(), "b": entry()})
    assert repr(EVIL.replace("\udc80", ""))[:60] in refused(
        "compare", "two.safetensors", "codes.npy", "--to", "e4m3fn"
    )
    safetensors("type.safetensors", {"a": entry(dtype=EVIL)})
    assert repr(EVIL)[:60] in refused("compare", "type.safetensors", "codes.npy", "--to", "e4m3fn")
    for words in (["table", "e2m1fn", "-o", f"none/{name}"], ["golden", "--check", "--tables", name + "d"]):
        refused(*words)


def test_names_of_tensors_begin_no_line_in_checkpoint_commands(folder):
    """Tables and findings had the lines that a name holds."""
    name, zeros = EVIL.replace("\udc80", ""), np.zeros((32, 32), np.float32)
    save_file(
        {f"{name}.weight": zeros, "b.weight": zeros, f"{name}.weight_scale": zeros}, "model.safetensors"
    )
    commands = [
        ["inspect", "model.safetensors", "--all"],
        ["lint", "model.safetensors"],
        ["lint", "model.safetensors", "--against", "model.safetensors"],
        ["quantize", "model.safetensors", "--to", "mxfp4", "-o", "out.safetensors"],
        ["verify", "out.safetensors", "model.safetensors"],
        ["quantize", "model.safetensors", "--to", "mxfp4", "--exclude", "*", "-o", "none.safetensors"],
    ]
    shown = 0
    for words in commands:
        result = lowprec("checkpoint", *words)
        assert isinstance(result.exception, SystemExit | None), words
        assert is_harmless(result.output), words
        assert not any(line.startswith("4 results agree") for line in result.output.splitlines()), words
        shown += plain(name) in result.output
    assert shown >= 4


def test_a_damaged_note_of_lowprec_in_a_file_is_a_message(folder):
    """`inspect` ended in a traceback."""
    save_file({"a": np.zeros(4, np.float32)}, "model.safetensors", {"lowprec": "no JSON"})
    said = refused("checkpoint", "inspect", "model.safetensors")
    assert "Error: what lowprec wrote into 'model.safetensors' is no JSON" in said


@pytest.mark.parametrize("same", [True, False], ids=["agrees", "differs"])
def test_reports_are_well_formed_whatever_the_names(folder, same):
    """JUnit holds no control character, and neither does the page; both say the name."""
    pytest.importorskip("junitparser")
    pytest.importorskip("matplotlib")
    values = np.arange(4, dtype=np.float32)
    codes = lp.encode(values if same else values + 1, "e4m3fn")
    report = lp.compare(Held(values, EVIL), Held(codes, "<&>\"']]>"), "e4m3fn")
    tree = ET.fromstring(report.as_junit())
    (compared,) = [item.get("value") for item in tree.iter("property") if item.get("name") == "compared"]
    assert compared == f"{SHOWN}, <&>\"']]>"
    page = report.as_html()
    assert f"{html.escape(SHOWN)} and &lt;&amp;&gt;" in page
    assert is_harmless(page)
    assert is_harmless(report.as_text())
    assert json.loads(report.as_json())["names"][0] == EVIL  # data is as it is


def test_junit_of_a_tensor_with_a_hostile_name_is_well_formed(folder):
    """Through the command, to a file."""
    pytest.importorskip("junitparser")
    name = EVIL.replace("\udc80", "")
    safetensors("model.safetensors", {name: entry()})
    result = lowprec("compare", "model.safetensors", "codes.npy", "--to", "e4m3fn", "--junit", "report.xml")
    assert result.exit_code == 1
    assert is_harmless(result.output)
    assert plain(name) in ET.parse("report.xml").getroot().find(".//property[@name='compared']").get("value")


MANY = "1" * 5000
SIZE = "matmul needs --size M,N,K, such as 16,8,32, not "
RANGES = " must be such as 0,60-63, of ranges 0 to 255"
SHARD = " is no shard; give I/N, such as 1/4 to 4/4, with at most 256 shards"


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["vectors", "matmul", "fp32_fma", "--size", f"{MANY},8,8"], SIZE),
        (["vectors", "matmul", "fp32_fma", "--size", "\u00b2,8,8"], f"{SIZE}'\u00b2,8,8'"),
        (["vectors", "matmul", "fp32_fma", "--size", "0,8,8"], f"{SIZE}'0,8,8'"),
        (["compare", "-", "matmul", "fp32_fma", "--size", f"{MANY},8,8"], SIZE),
        (
            ["compare", "-", "add", "e4m3fn", "e4m3fn", "e4m3fn", "--ulps", MANY],
            "--ulps takes a number of codes",
        ),
        (["conform", "--exhaustive", "--ranges", MANY], RANGES),
        (["conform", "--exhaustive", "--ranges", "\uff11"], f"'\uff11'{RANGES}"),
        (["conform", "--exhaustive", "--shard", f"1/{MANY}"], SHARD),
        (["conform", "--exhaustive", "--shard", "\uff11/\uff12"], f"'\uff11/\uff12'{SHARD}"),
        (
            [
                *"identify --command true --formats e4m3fn e4m3fn --output binary32 --scale".split(),
                f"e8m0fnu:{MANY}",
            ],
            "is not FORMAT:SIZE, such as e8m0fnu:32",
        ),
    ],
)
def test_numbers_too_long_or_in_other_digits_are_refused_in_our_words(words, message):
    output = refused(*words)
    assert message in output
    assert "Exceeds the limit" not in output
    assert len(output) < 500


def test_long_integers_in_json_are_refused_in_our_words(folder):
    """Python's own reader names a function of its own as the way out."""
    tables = pathlib.Path("tables")
    tables.mkdir()
    (tables / "digests.json").write_text(f'{{"schema": "lowprec.golden/1", "files": {MANY}}}')
    pathlib.Path("report.json").write_text(f'{{"schema": {MANY}}}')
    pathlib.Path("model.safetensors.index.json").write_text(f'{{"weight_map": {MANY}}}')
    for words in (
        ["golden", "--freeze", "--tables", tables],
        ["compare", "x.npy", "codes.npy", "--to", "e4m3fn", "--baseline", "report.json"],
        ["checkpoint", "inspect", "model.safetensors.index.json"],
    ):
        assert "it has an integer of 5,000 characters, 2,000 at most" in refused(*words)


def test_a_baseline_of_other_kinds_is_refused_in_our_words(folder):
    """Python's own would be of objects and attributes."""
    np.save("x.npy", np.arange(4.0))
    whole = json.loads(lowprec("compare", "x.npy", "codes.npy", "--to", "e4m3fn", "--json").stdout)
    refusals = 0
    for key in whole:
        pathlib.Path("report.json").write_text(json.dumps(whole | {key: "text"}))
        result = lowprec("compare", "x.npy", "codes.npy", "--to", "e4m3fn", "--baseline", "report.json")
        assert "object" not in result.output
        assert result.exit_code in (0, 2)
        assert result.exit_code == 0 or "'report.json' is " in result.output, result.output
        refusals += result.exit_code == 2
    assert refusals > 2


def test_no_lines_are_nothing_compared_whatever_they_are_of():
    units = (
        "dot fp32_fma e4m3fn e4m3fn",
        "matmul fp32_fma e4m3fn e4m3fn --size 2,2,2",
        "block bfloat16 mxfp4",
    )
    for words in ("add e4m3fn e4m3fn e4m3fn", *units, "block mxfp4 bfloat16"):
        result = lowprec("compare", "-", *words.split())
        assert (result.exit_code, result.output[:20]) == (3, "nothing was compared"), result.output


def test_a_file_for_two_reports_is_refused_before_either_is_written(folder):
    link = pathlib.Path("link")
    link.symlink_to("report")
    output = refused("compare", "x.npy", "codes.npy", "--to", "e4m3fn", "--html", link, "--junit", "report")
    assert "--html and --junit both name 'link'; give each a file of its own" in output
    assert not pathlib.Path("report").exists()


def test_all_that_is_printed_and_written_goes_through_one_function():
    """`say` escapes; `deliver` prints what is not for people alone; `files.write` writes."""
    allowed = {"terminal.py": {"click.echo"}, "arguments.py": {"click.echo"}, "files.py": {"os.replace"}}
    allowed |= {"asking.py": {"print"}, "script.py": {"os.replace"}}  # of captures, which run without lowprec
    forbidden = {"print", "click.echo", "click.secho", "os.replace", ".write_text", ".write_bytes", ".rename"}
    last = {name.rpartition(".")[2] for name in forbidden}
    for path in WRITERS:
        found = set()
        for node in ast.walk(ast.parse(path.read_text())):
            called = getattr(node, "func", None) if isinstance(node, ast.Call) else None
            if getattr(called, "attr", getattr(called, "id", "")) in last:
                name = ast.unparse(called)
                found |= {name, name[name.rfind(".") :]} & forbidden
        written = {".write_bytes"} if path.name == "startup.py" else set()
        assert found - allowed.get(path.name, set()) <= written, path
