"""Functions on every input, by the fixture `lowprec_exhaustive`: what is kept, refused and divided."""

import itertools
import json
import re

import ml_dtypes
import numpy as np
import pytest
import yaml

import lowprec as lp
from lowprec.testing import exhaustive
from lowprec.testing.exhaustive import Exhaustive
from lowprec.verify.sweeps import keeping
from lowprec.verify.sweeps.exhaustive import plan, shard, steps_of, sweep_range
from tests.testing.test_plugin import ROOT, run_pytest

PAGE = (ROOT / "docs" / "exhaustive.md").read_text()


class Cast:
    """A right cast to e4m3fn that counts its inputs, and of some sets a wrong bit."""

    name = "cast"

    def __init__(self, *wrong):
        self.wrong, self.seen = wrong, 0

    def __call__(self, x):
        """Return codes."""
        self.seen += x.size
        codes = x.astype(ml_dtypes.float8_e4m3fn).view(np.uint8)
        codes[np.isin(x.astype(np.float64), self.wrong)] ^= 1
        x[:] = 0  # it may write to what it is given
        return codes


def check(folder, cast, *, key="1", source="bfloat16", part="1/1", fresh=False, test="test::one", **how):
    """Run one check, as the fixture does for a test."""
    return Exhaustive(folder, test, part, fresh)(cast, "e4m3fn", key=key, source=source, **how)


def test_what_is_right_for_a_key_is_not_computed_again(tmp_path):
    """Compute again for another key, other rules, another test, or with `fresh`."""
    first = Cast()
    digests = check(tmp_path / "kept", first)
    assert first.seen == 1 << 16
    assert check(tmp_path / "kept", again := Cast()) == digests
    assert again.seen == 0
    for other in (
        {"key": "2"},
        {"test": "test::two"},
        {"fresh": True},
        {"any_nan": True},
        {"source": "float16"},
    ):
        assert set(check(tmp_path / "kept", again := Cast(), **other)) == {0}
        assert again.seen == 1 << 16, other
    mine = lp.Format(name="e4m3fn", exponent_bits=4, trailing_bits=3, bias=8, nans=1)
    with pytest.raises(AssertionError, match="results differ"):  # a format of the same name
        Exhaustive(tmp_path / "kept", "test::one")(Cast(), mine, key="1", source="bfloat16")


def test_a_profile_that_was_changed_is_checked_again(tmp_path):
    """Also where its name and versions are the same."""
    rules = {"nearest_even": "none", "toward_zero": "finite"}
    first, second = (
        lp.Profile("mine", "1", {"e4m3fn": lp.Projection(rounding=mode, saturation=policy)})
        for mode, policy in rules.items()
    )
    check(tmp_path, Cast(), profile=first)
    with pytest.raises(AssertionError, match="results differ"):
        check(tmp_path, Cast(), profile=second)
    check(tmp_path, again := Cast(), profile=first)
    assert again.seen == 0


def test_one_wrong_result_fails_and_is_not_kept(tmp_path):
    """Show the report of `compare`, each time."""
    for _ in range(2):
        with pytest.raises(AssertionError) as told:
            check(tmp_path, Cast(-448))
        assert str(told.value).startswith(
            "cast is not convert of bfloat16 to e4m3fn:\n1 of 65,536 results differ (0.00153%): 1 exact\n"
        )
        assert "got     ff" in str(told.value)
        assert "want    fe" in str(told.value)
    assert list(tmp_path.iterdir()) == []


def test_a_function_may_use_its_buffer_again(tmp_path, monkeypatch):
    """Copy each answer before the next call, whatever its type."""
    monkeypatch.setattr(exhaustive, "CHUNK", 1 << 14)
    buffer = np.empty(1 << 14, ml_dtypes.float8_e4m3fn)

    def cast(x):
        buffer[:] = x
        return buffer

    for given in (cast, lambda x: cast(x).view(np.uint8)):
        assert check(tmp_path, given, key=given.__name__) == check(tmp_path, Cast(), fresh=True)


def test_codes_pairs_and_decoders_are_tried_too(tmp_path):
    """Try each code or combination once; plant a wrong last pair."""

    def convert(codes):
        assert codes.tolist() == list(range(256))
        return lp.cast(codes, "e4m3fn", "e5m2")

    def values(codes):
        return lp.decode(codes, "e4m3fn")

    asked = []

    def add(x, y):
        asked.extend(zip(x.tolist(), y.tolist(), strict=True))
        return lp.encode(lp.decode(x, "e2m3fn") + lp.decode(y, "e2m3fn"), "e2m3fn")

    def wrong(x, y):
        return add(x, y) ^ ((x == 63) & (y == 63))

    every = Exhaustive(tmp_path, "test::some")
    every(convert, "e5m2", key="1", source="e4m3fn")
    every(values, "binary32", key="1", source="e4m3fn")
    how = {"source": "e2m3fn", "operation": "add", "key": "1"}
    every(add, "e2m3fn", **how)
    assert sorted(asked) == list(itertools.product(range(64), repeat=2))
    with pytest.raises(
        AssertionError, match=r"wrong is not add of e2m3fn to e2m3fn:\n1 of 4,096 results differ"
    ):
        every(wrong, "e2m3fn", **how)


def test_digests_of_float32_are_those_of_sweeps(tmp_path):
    """Compare one range of 256, which is that of the shard."""
    (sweep,) = plan(["lowprec"], [lp.format("e4m3fn")])
    found = sweep_range(sweep, 60, steps_of(sweep).within(60))
    assert check(tmp_path, cast := Cast(), source="float32", part="61/256") == {60: found.sha256}
    assert cast.seen == 1 << 24


@pytest.mark.parametrize("count", [1, 3, 4, 100, 256])
def test_shards_are_all_ranges_each_once(count):
    """Divide the ranges by any number of shards."""
    parts = [shard(f"{number}/{count}") for number in range(1, count + 1)]
    assert sorted(index for part in parts for index in part) == list(range(256))
    assert max(map(len, parts)) - min(map(len, parts)) <= 1


def test_shards_together_are_the_whole(tmp_path, monkeypatch):
    """Take ranges of 64 numbers; nothing is left to do then. A narrow source is in the first shard."""
    monkeypatch.setattr(exhaustive, "SIZE", 64)
    casts = [Cast() for _ in range(3)]
    parts = [
        check(tmp_path / "parts", cast, source="float32", part=f"{number}/3")
        for number, cast in enumerate(casts, 1)
    ]
    assert [cast.seen for cast in casts] == [86 * 64, 85 * 64, 85 * 64]
    whole = check(tmp_path / "whole", Cast(), source="float32")
    assert whole == parts[0] | parts[1] | parts[2]
    assert check(tmp_path / "parts", last := Cast(), source="float32") == whole
    assert last.seen == 0
    assert [check(tmp_path / str(one), Cast(), part=f"{one}/2").keys() for one in (1, 2)] == [{0}, set()]


@pytest.mark.parametrize("fresh", [False, True])
def test_shards_at_once_keep_what_each_other_did(tmp_path, monkeypatch, fresh):
    """Let each shard begin while the others are under way, with nothing done or all of it."""
    monkeypatch.setattr(exhaustive, "SIZE", 64)
    if fresh:
        check(tmp_path, Cast(), source="float32")
    parts = [shard(f"{number}/3") for number in (1, 2, 3)]

    class Nested(Cast):
        """Begins the next shard at its second range."""

        def __call__(self, x):
            """Return codes."""
            codes = super().__call__(x)
            if self.seen == 2 * x.size and nested:
                check(tmp_path, nested.pop(), source="float32", part=f"{3 - len(nested)}/3", fresh=fresh)
            return codes

    nested = [Nested(), Nested()]
    check(tmp_path, first := Nested(), source="float32", part="1/3", fresh=fresh)
    assert (first.seen, nested) == (len(parts[0]) * 64, [])
    assert len(list(tmp_path.iterdir())) == 1
    assert check(tmp_path, last := Cast(), source="float32").keys() == set(range(256))
    assert last.seen == 0


MANY = (
    "inputs, which are too many; all are tried of one float32, or of operands of 16 bits together. "
    "lowprec_check tries those that matter"
)
REFUSED = [
    ({"key": ""}, "key must be a text that changes whenever the function does, such as a version, not ''"),
    ({"source": "tf32"}, f"convert of tf32 has 2**19 {MANY}"),
    ({"operation": "add"}, f"add of bfloat16 has 2**32 {MANY}"),
    ({"source": "float64"}, "'float64' is a type that values come in, not a format to encode to"),
    ({"operation": "sum"}, "unknown operation 'sum'; use one of add,"),
    ({"part": "0/4"}, "'0/4' is no shard; give I/N, such as 1/4 to 4/4, with at most 256 shards"),
    (
        {"rounding": "stochastic(4)"},
        "needs a random integer for each operand; give random=, or use a deterministic mode",
    ),
    ({"saturation": "some"}, "unknown saturation 'some'; use one of none, finite, propagate"),
]


@pytest.mark.parametrize(("how", "message"), REFUSED)
def test_what_cannot_be_tried_is_refused(how, message, tmp_path):
    """Refuse it, and keep nothing."""
    with pytest.raises((TypeError, ValueError), match=re.escape(message)):
        check(tmp_path, Cast(), **how)
    assert list(tmp_path.iterdir()) == []


def test_what_is_no_function_is_refused(tmp_path):
    """Name the fixture as the test does."""
    with pytest.raises(TypeError, match="lowprec_exhaustive takes a function on arrays first, not 3"):
        check(tmp_path, 3)


def test_two_functions_of_one_name_in_a_test_are_refused(tmp_path):
    """Refuse the second, which would have the digests of the first."""
    every = Exhaustive(tmp_path, "test::one")
    every(lambda x: Cast()(x), "e4m3fn", key="1", source="bfloat16")
    message = (
        "test::one checks two functions called <lambda> alike, and their digests would have one name; "
        "give them names of their own, or put them into two tests"
    )
    with pytest.raises(ValueError, match=re.escape(message)):
        every(lambda x: Cast(448)(x), "e4m3fn", key="1", source="bfloat16")


def test_digests_of_another_version_are_refused_by_name(tmp_path, monkeypatch):
    """Refuse them until they are checked again."""
    with monkeypatch.context() as earlier:
        earlier.setattr(exhaustive, "__version__", "0.1.0")
        check(tmp_path, Cast())
    (file,) = tmp_path.iterdir()
    with pytest.raises(keeping.SweepError) as told:
        check(tmp_path, Cast())
    assert str(told.value) == (
        f"{str(file)!r} is of lowprec 0.1.0, this is {lp.__version__}, whose rules may be others; remove it, "
        "or check again with pytest --lowprec-fresh"
    )
    check(tmp_path, Cast(), fresh=True)
    check(tmp_path, again := Cast())
    assert again.seen == 0


@pytest.mark.parametrize("damage", ["cut", "digest", "no JSON", "another shape"])
def test_damaged_digests_are_told_of_and_checked_again(damage, tmp_path):
    """Believe nothing of them."""
    check(tmp_path, Cast())
    (file,) = tmp_path.iterdir()
    text = file.read_text()
    if damage == "cut":
        file.write_text(text[:-3])
    elif damage == "digest":
        file.write_text(re.sub(r'("0": ")(.)', lambda found: found[1] + "0f"[found[2] == "0"], text))
    else:
        keeping.Keeper(tmp_path).store(file.name, b"{" if damage == "no JSON" else b"[1]")
    with pytest.warns(UserWarning, match=re.escape(f"{file} is not used, so what it kept is done again: ")):
        check(tmp_path, cast := Cast())
    assert cast.seen == 1 << 16
    assert file.read_text() == text


def test_a_folder_that_cannot_be_written_is_named(tmp_path):
    """Ask for a folder below a file."""
    (tmp_path / "file").touch()
    folder = tmp_path / "file" / "below"
    with pytest.raises(keeping.SweepError) as told:
        check(folder, Cast())
    assert (
        str(told.value)
        == f"cannot keep what is done in {str(folder)!r}: Not a directory; let pytest write there"
    )


# -- in pytest --------------------------------------------------------------------------------------


@pytest.mark.apart
def test_the_example_of_the_page_is_checked_once(tmp_path):
    """Run one shard of 256, which has one range of float32; then another key."""
    (example,) = [
        block for block in re.findall(r"^```python\n(.*?)^```", PAGE, re.M | re.S) if "exhaustive(" in block
    ]
    file = tmp_path / "test_cast.py"
    file.write_text(example)
    options = ("--lowprec-shard", "1/256")
    run = run_pytest(tmp_path, *options)
    assert "2 passed" in run.stdout, run.stdout
    kept = {each.name: each.read_text() for each in (tmp_path / "lowprec-digests").iterdir()}
    assert len(kept) == 2
    assert all(json.loads(text.partition("\n")[2])["digests"].keys() == {"0"} for text in kept.values())
    never = example.replace("    return ", "    raise RuntimeError\n    return ")
    file.write_text(never.replace("KEY = hashlib", f"KEY = {next(iter_key(kept))!r} or hashlib"))
    run = run_pytest(tmp_path, *options)
    assert "2 passed" in run.stdout, run.stdout
    run = run_pytest(tmp_path, *options, "--lowprec-fresh")
    assert "2 failed" in run.stdout
    file.write_text(never)
    run = run_pytest(tmp_path, *options)
    assert "1 failed, 1 passed" in run.stdout, run.stdout
    assert {each.name: each.read_text() for each in (tmp_path / "lowprec-digests").iterdir()} == kept


def iter_key(kept):
    """Yield the keys of files whose checks are additions."""
    for text in kept.values():
        asked = json.loads(text.partition("\n")[2])["asked"]
        if " add " in asked["check"]:
            yield asked["key"]


@pytest.mark.apart
@pytest.mark.parametrize("part", ["0/4", "5/4", "a/b", "1/257", "3", "-1/4"])
def test_a_wrong_shard_ends_pytest(part, tmp_path):
    """Refuse it before any test."""
    run = run_pytest(tmp_path, f"--lowprec-shard={part}")
    assert run.returncode == pytest.ExitCode.USAGE_ERROR
    assert run.stderr.strip() == (
        f"ERROR: --lowprec-shard: {part!r} is no shard; give I/N, such as 1/4 to 4/4, with at most 256 shards"
    )


def test_the_workflow_of_the_page_has_all_shards_and_their_folder():
    """Hold matrix, options, paths and keys of the cache against each other."""
    page = (ROOT / "docs" / "github-action.md").read_text()
    flows = [yaml.safe_load(block) for block in re.findall(r"^```yaml\n(.*?)^```", page, re.M | re.S)]
    assert all({"jobs"} < set(map(str, flow)) for flow in flows)  # YAML reads on: as true
    (job,) = [flow["jobs"]["exhaustive"] for flow in flows if "exhaustive" in flow["jobs"]]
    shards, steps = job["strategy"]["matrix"]["shard"], job["steps"]
    run = steps[-1]["run"]
    given = [
        re.search(r"--lowprec-shard (\S+)", run.replace("${{ matrix.shard }}", str(one)))[1] for one in shards
    ]
    assert sorted(index for part in given for index in shard(part)) == list(range(256))
    (cache,) = [step["with"] for step in steps if step.get("uses", "").startswith("actions/cache@")]
    assert cache["path"] == f"{run.split()[1]}/lowprec-digests"
    for key in (cache["key"], cache["restore-keys"]):
        assert key.startswith("lowprec-${{ matrix.shard }}-${{ hashFiles('requirements.txt') }}-")
