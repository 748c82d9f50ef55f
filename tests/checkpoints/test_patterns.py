"""Patterns of configurations: they match as Python's do, and hostile ones end after counted steps."""

import fnmatch
import json
import re
import warnings

import numpy as np
import pytest
from hypothesis import given, settings, strategies as st

from lowprec.checkpoints.folder import open_checkpoint
from lowprec.checkpoints.linting import lint
from lowprec.checkpoints.patterns import Names, Patterns, UnknownError
from lowprec.checkpoints.quantizing import quantize_checkpoint, target
from tests.checkpoints.files import source

MODULES = [
    "lm_head", "model.lm_head", "model.layers.0.mlp.gate", "model.layers.17.mlp.gate_proj",
    "model.layers.3.mlp.experts.12.down_proj", "model.layers.3.self_attn.q_proj", "visual.blocks.0.attn.qkv",
    "model.embed_tokens", "", "m\n",
]  # fmt: skip
REAL = [
    r".*lm_head.*", r"model\.layers\.\d+\.mlp\.gate$", r"^(?!.*experts).*$", r".*self_attn\.(q|k|v)_proj",
    r"(?!.*(?:down|gate)_proj).*",
    r"^((?!experts).)*$", r".*(?<!lm_head)$", r"model\.layers\.(?:1[0-9]|[0-9])\.",
    r"visual.*", r".*\bgate\b", r"[a-z_.]+\.\d{1,2}\..*?proj\Z", r"(?P<a>model|visual)\.[^.]+$", r"",
]  # fmt: skip


@pytest.mark.parametrize("pattern", REAL)
def test_patterns_of_real_models_match_as_in_python(pattern):
    patterns = Patterns(len(MODULES))
    for module in MODULES:
        assert patterns.matches(f"re:{pattern}", module) == (re.match(pattern, module) is not None), module
    assert patterns.unread == {}


_CHARACTERS = st.sampled_from(
    ["a", "b", ".", r"\d", r"\W", "[ab]", "[^a]", "[a-b1]", "1", "^", "$", r"\b", r"\B"]
)
_REPEATS = st.sampled_from(["", "", "*", "+", "?", "*?", "+?", "??", "{2}", "{1,}", "{0,2}", "{2,3}?"])
_GROUPS = st.sampled_from(["(", "(", "(?:", "(?=", "(?!", "(?<=", "(?<!", "(?P<n>"])
_PATTERNS = st.recursive(
    st.tuples(_CHARACTERS, _REPEATS).map("".join),
    lambda inner: (
        st.lists(inner, max_size=3).map("".join)
        | st.tuples(inner, inner).map("|".join)
        | st.tuples(_GROUPS, inner, st.just(")"), _REPEATS).map("".join)
    ),
    max_leaves=8,
)


@settings(max_examples=500)
@given(_PATTERNS, st.lists(st.text("ab1. \n", max_size=7), min_size=1, max_size=4))
def test_drawn_patterns_match_as_in_python(pattern, modules):
    """Those that Python takes; others match nothing."""
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            compiled = re.compile(pattern)
    except (re.error, Warning):
        assert not Patterns(1).matches(f"re:{pattern}", modules[0])
        return
    for module in modules:
        assert Patterns(1).matches(f"re:{pattern}", module) == (compiled.match(module) is not None)


@pytest.mark.parametrize("pattern", ["*", "m.?.gate", "*.[ab]*", "m.[!x]", "m.layers", "[", "**a*"])
def test_patterns_of_shells_match_as_in_python(pattern):
    listed = Names([pattern, 3, None], Patterns(9))
    for module in (*MODULES, "m.a.gate", "m.layers", "m.x", "m.b", "[", "aa"):
        assert (module in listed) == fnmatch.fnmatchcase(module, pattern)


@pytest.mark.parametrize(
    ("pattern", "why"),
    [
        (r"(a)\1", "it has syntax that is not read here"),
        (r"(?i:a)", "it has syntax that is not read here"),
        (r"(?i)a", "it has syntax that is not read here"),
        (r"(?(1)a|b)()", "it has syntax that is not read here"),
        (r"\x61", "it has syntax that is not read here"),
        ("a" * 1001, "it has 1,001 characters, and at most 1,000 are read"),
        ("(" * 21 + ")" * 21, "its groups are nested too deeply or lack an end"),
    ],
)
def test_what_is_not_understood_is_named(pattern, why):
    patterns = Patterns(1)
    for _ in range(2):
        with pytest.raises(UnknownError, match=re.escape(why)):
            patterns.matches(f"re:{pattern}", "a")
    assert patterns.unread == {f"re:{pattern}": why}


HOSTILE = [
    "(a+)+$",
    "(a|a)*$",
    "(a|aa)+$",
    "(.*a){20}$",
    ".*.*.*.*.*.*b",
    "(a*)*b",
    "(?=(a+)+$)b",
    "((a{0,99}){0,99}){0,99}b",
]


@pytest.mark.parametrize("pattern", HOSTILE)
def test_hostile_patterns_take_steps_that_grow_with_the_name(pattern):
    """Python takes 2**60 of some, or 60**6."""
    patterns = Patterns(1)
    before = patterns._left
    assert patterns.matches(f"re:{pattern}", "a" * 60 + "!") is (re.match(pattern, "a!") is not None)
    assert before - patterns._left < 1_000


def test_all_work_is_limited_by_the_count_of_names():
    """Long names, deep repetitions and many patterns: after that nothing is known."""
    for pattern, module in (
        ("re:(?:(?!.*z).)*q", "a" * 2000),
        ("re:.*b", "a" * 1_000_000),
        ("*a" * 500_000, "a" * 1_000_000),
    ):
        patterns = Patterns(1)
        with pytest.raises(UnknownError, match="take too much work"):
            patterns.matches(pattern, module)
    patterns = Patterns(1)
    many = Names([f"*{number}" for number in range(200_000)], patterns)
    with pytest.raises(UnknownError, match="take too much work"):
        _ = "a" in many


def test_lint_names_patterns_that_are_not_understood(tmp_path):
    """And holds no module against them; `(a+)+$` of a name of 40 letters did not end."""
    (tmp_path / "model").mkdir()
    made = source(
        tmp_path / "model" / "m.safetensors", (64, 64), **{f"{'a' * 40}!.weight": np.ones((4, 48), "f4")}
    )
    out = tmp_path / "out"
    quantize_checkpoint(open_checkpoint(tmp_path / "model"), out, target("compressed-tensors", "mxfp4"))
    config = json.loads((out / "config.json").read_text())
    for ignore, rules in (
        (["re:(a+)+$", f"{'a' * 40}!"], []),
        (["re:(a+)+$"], ["quantized-but-plain"]),
        (["re:(q)\\1"], ["not-read"]),
    ):
        config["quantization_config"]["ignore"] = ignore
        (out / "config.json").write_text(json.dumps(config))
        found = lint(open_checkpoint(out))
        assert [finding.rule for finding in found] == rules
    (note,) = found
    assert note.severity == "note"
    assert note.evidence == (
        r"the configuration has 're:(q)\\1', which is not understood: it has syntax that is not read here"
    )
    assert made.entries
