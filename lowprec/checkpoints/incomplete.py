"""Parts of quantised weights whose other parts are missing, so that their values cannot be known.

Names and types tell codes and scales; whether FP8 needs a scale is told by what is beside it.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping
from typing import NamedTuple

from lowprec.checkpoints.configured import Configured
from lowprec.checkpoints.container import Entry
from lowprec.checkpoints.containers.saved import SCALES, TENSOR, said_by_lowprec, saved_in
from lowprec.checkpoints.folder import Checkpoint
from lowprec.checkpoints.schemes.schemes import FLOATS, INTEGERS, NESTED_ABSMAX, ONNX, PLAIN, SCHEMES, is_mark
from lowprec.checkpoints.schemes.words import Words

__all__ = ["Incomplete", "incomplete"]

#: Schemes whose weights are found by names.
_NAMED = [scheme for scheme in SCHEMES if scheme.family not in (ONNX.family, "gguf")]
#: Endings of scales, and the types that scales have there.
_SCALES: dict[str, set[str]] = {NESTED_ABSMAX: {"F32"}}
for _scheme in _NAMED:
    if isinstance(_scheme.packing, Words):  # whose scales have names that other tensors of floats have
        _SCALES.setdefault(_scheme.zeros, set()).update({"I32"})
    else:
        _SCALES.setdefault(_scheme.scales, set()).update(_scheme.scale_tags)
    if _scheme.tensor:
        _SCALES.setdefault(_scheme.tensor, set()).add("F32")
#: Endings of codes, longer ones first, and of all that belongs to codes.
_CODES = sorted({"weight", *(scheme.codes for scheme in _NAMED)}, key=len, reverse=True)
_PARTS = {
    end for scheme in _NAMED for end in (*scheme.extras, scheme.state, scheme.scales, scheme.zeros) if end
} | set(_SCALES)
#: Parts that no scheme knows and that are named.
_NAMED_OTHERS = 3
_WIDE = ("F64", "F32", "BF16", "F16")


class Incomplete(NamedTuple):
    """A weight that lacks parts: the tensor that it is named by, those beside it, and rule and evidence."""

    entry: Entry
    beside: tuple[Entry, ...]
    problem: tuple[str, str]


def incomplete(left: Mapping[str, Entry], checkpoint: Checkpoint, scaled: bool) -> Iterator[Incomplete]:
    """Yield what is left of quantised weights among tensors that belong to no weight.

    Parameters
    ----------
    left : mapping of str to Entry
    checkpoint : Checkpoint
    scaled : bool
        Whether other weights of the checkpoint have scales.
    """
    taken: set[str] = set()
    modules = _modules(left)
    scaled, configured = scaled or _is_marked(checkpoint), Configured(checkpoint.config, len(left))
    for name, entry in left.items():
        end = next((end for end in _CODES if name.endswith(end)), None)
        if end is None or len(entry.shape) < 2:
            continue
        stem = name.removesuffix(end).removesuffix(".")
        beside = tuple(left[stem + part] for part in sorted(_PARTS) if stem + part in left)
        of = f"{entry.tag} of shape {list(entry.shape)}"
        if entry.tag in INTEGERS:
            scales = [part.name for part in beside if any(part.name.endswith(each) for each in _SCALES)]
            what = f"with {', '.join(scales)} alone" if scales else "without scales"
            problem = "missing-scale", f"{of}, {what}"
            named = {part.name for part in beside}
            others = modules[name.rpartition(".")[0]] - {name} | named
            unnamed = others - named
            if not _is_part(name, entry, beside) if scales else unnamed:
                problem = "unknown-scheme", f"{of}, beside {_told(entry, [left[each] for each in others])}"
        elif _is_narrow(entry) and (beside or scaled and _needs_scale(configured, stem)):
            problem = "fp8-without-scale", f"{of} without a scale, among weights that are scaled"
        else:
            continue
        taken |= {name, *(part.name for part in beside)}
        yield Incomplete(entry, beside, problem)
    yield from _orphans({name: entry for name, entry in left.items() if name not in taken}, checkpoint)


def _told(codes: Entry, others: Iterable[Entry]) -> str:
    """Return what is said of tensors beside codes in no known scheme: those that may be scales come first."""
    like = {part.name: _like_scales(codes, part) for part in others}
    few = sorted(like, key=lambda name: (not like[name], name))[:_NAMED_OTHERS]
    scales = " or ".join(name for name in few if like[name])
    may = scales and f"; by type and shape its scales may be {scales}"
    return f"{', '.join(few)}, which is no scheme that lowprec knows{may}"


def _is_part(name: str, codes: Entry, beside: tuple[Entry, ...]) -> bool:
    """Return whether some scheme has codes of this type and name, and a scale as one beside them."""
    return any(
        name.endswith(scheme.codes or "weight")
        and codes.tag in scheme.code_tags
        and any(
            part.name.endswith(end) and part.tag in _SCALES.get(end, ())
            for part in beside
            for end in (scheme.scales, scheme.tensor, *scheme.extras)
            if end
        )
        for scheme in _NAMED
    )


def _like_scales(codes: Entry, part: Entry) -> bool:
    """Return whether a tensor may hold the scales of codes: one, or one for each of some equal blocks."""
    if part.tag not in (*_WIDE, "U8", "F8_E8M0", "F8_E4M3") or not math.prod(part.shape):
        return False
    if math.prod(part.shape) == 1 or len(part.shape) == 1:
        return part.tag in _WIDE and part.shape in ((), (1,), codes.shape[:1])
    if len(part.shape) != len(codes.shape) or part.shape == codes.shape:
        return False
    pairs = [
        (length, count, -(-length // count)) for length, count in zip(codes.shape, part.shape, strict=True)
    ]
    return all(size and -(-length // size) == count for length, count, size in pairs)


def _modules(left: Mapping[str, Entry]) -> dict[str, set[str]]:
    """Return the tensors of each module that may be parts of a quantised weight."""
    found: dict[str, set[str]] = {}
    for name in left:
        module, _, part = name.rpartition(".")
        found.setdefault(module, set()).update({name} if part != "bias" else ())
    return found


def _orphans(left: dict[str, Entry], checkpoint: Checkpoint) -> Iterator[Incomplete]:
    """Yield scales without codes, which no operator of a model takes.

    Those beside a weight of wide floats are not needed for its values.
    """
    found: dict[str, list[Entry]] = {}
    for name in saved_in(checkpoint.metadata, repr(str(checkpoint.path))).blocks:
        if name not in checkpoint.entries:
            found[name] = [left.pop(name + end) for end in (SCALES, TENSOR) if name + end in left]
    for name, entry in left.items():
        for end, tags in _SCALES.items():
            stem = name.removesuffix(end)
            wide = any(
                of is not None and of.tag in _WIDE
                for of in (checkpoint.entries.get(stem), checkpoint.entries.get(f"{stem}.weight"))
            )
            if name.endswith(end) and entry.tag in tags and not wide and name not in checkpoint.graph.used:
                found.setdefault(stem, []).append(entry)
                break
    for entry, *beside in filter(None, found.values()):
        of = f"no weight uses it: {entry.tag} of shape {list(entry.shape)}"
        yield Incomplete(entry, tuple(beside), ("orphan-scale", of))


def _is_narrow(entry: Entry) -> bool:
    return entry.tag in FLOATS and entry.bits <= 8 and entry.tag != "F8_E8M0"


def _is_marked(checkpoint: Checkpoint) -> bool:
    """Return whether a mark, a configuration or lowprec's metadata say that weights are scaled."""
    if checkpoint.config or any(map(is_mark, checkpoint.entries.values())):
        return True
    headers = checkpoint.headers.values() or (checkpoint.metadata,)
    return any(said_by_lowprec(metadata).get("scheme", PLAIN.name) != PLAIN.name for metadata in headers)


def _needs_scale(configured: Configured, module: str) -> bool:
    """Return whether a configuration lets a module have scales; one that is not understood does."""
    said = configured.said_of(module)
    return said is None or (not said.ignored and said.targeted is not False)
