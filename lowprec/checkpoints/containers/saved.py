"""Metadata that `lowprec.save` writes: which tensors are a `BlockArray`, and of which format.

Reading it needs neither NumPy's verbs nor numba.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from lowprec.checkpoints.container import CheckpointError, counts, parse_json
from lowprec.checkpoints.schemes.schemes import FLOATS
from lowprec.spec import catalog
from lowprec.spec.block import BlockFormat
from lowprec.spec.format import Format
from lowprec.spec.toml_reading import from_toml
from lowprec.spec.toml_writing import to_toml

__all__ = ["SCALES", "TENSOR", "Saved", "blocks_in", "holds", "in_catalog", "joined", "metadata_of"]
__all__ += ["said_by_lowprec", "saved_in"]

#: What is added to the name of a `BlockArray` for its scales, and for the tensor's scale.
SCALES, TENSOR = ".scales", ".tensor_scale"

_KEY = "lowprec"
#: Bytes of a format, at most: codebooks of 65,536 values, each with a threshold of 120 bits, fit.
_MOST = 1 << 23


class Saved(NamedTuple):
    """Contents of a file's metadata."""

    alone: bool  #: whether one array was saved, without a name
    blocks: dict[str, tuple[BlockFormat, tuple[int, ...]]]  #: format and axes of each BlockArray


def metadata_of(saved: Saved) -> dict[str, str]:
    """Return what goes into the header.

    Raises CheckpointError: a format that could not be read again, as its definition is too long.
    """
    texts = {name: to_toml(fmt) for name, (fmt, _) in saved.blocks.items()}
    for text, name in {text: name for name, text in texts.items()}.items():
        try:
            from_toml(text, most=_MOST)
        except ValueError as error:
            raise CheckpointError(
                f"BlockArray {name!r} cannot be saved, as its format could not be read again: {error}; save "
                f"its codes and its scales as arrays"
            ) from None
    blocks = {name: {"format": texts[name], "axes": list(axes)} for name, (_, axes) in saved.blocks.items()}
    return {_KEY: json.dumps({"alone": saved.alone, "blocks": blocks})}


def joined(files: Sequence[Mapping[str, str]], where: str) -> dict[str, str]:
    """Return the metadata of several files as that of one, with the `BlockArray`s of all.

    Raises CheckpointError: metadata that were damaged, or two files that contradict each other.
    """
    found = {key: text for metadata in files for key, text in metadata.items()}
    told = [metadata for metadata in files if _KEY in metadata]
    if len(told) > 1:
        said = [_said(metadata, where) for metadata in told]
        blocks: dict[str, Any] = {}
        for name, block in (item for each in said for item in _blocks(each, where).items()):
            if blocks.setdefault(name, block) != block:
                raise CheckpointError(f"two files of {where} give BlockArray {name!r} unlike formats or axes")
        found[_KEY] = json.dumps({**said[-1], **({"blocks": blocks} if blocks else {})})
    return found


def saved_in(metadata: Mapping[str, str], where: str) -> Saved:
    """Return what a header says; of files that `save` did not write, nothing.

    Raises CheckpointError: metadata that were damaged.
    """
    if _KEY not in metadata:
        return Saved(False, {})
    said = _said(metadata, where)
    return Saved(
        said.get("alone") is True,
        {
            name: _block(block, f"BlockArray {name!r} of {where}")
            for name, block in _blocks(said, where).items()
        },
    )


def blocks_in(metadata: Mapping[str, str], where: str) -> dict[str, Any]:
    """Return what a header says of each BlockArray, as it is spelled there.

    Raises CheckpointError: metadata that were damaged.
    """
    return _blocks(_said(metadata, where), where) if _KEY in metadata else {}


def said_by_lowprec(metadata: Mapping[str, str]) -> dict[str, Any]:
    """Return what lowprec wrote into a header, of `save` or of `quantize`; nothing if it cannot be read."""
    try:
        return _said(metadata, "it") if _KEY in metadata else {}
    except CheckpointError:
        return {}


def _said(metadata: Mapping[str, str], where: str) -> dict[str, Any]:
    return parse_json(metadata[_KEY].encode(), f"what lowprec wrote into {where}")


def _blocks(said: Mapping[str, Any], where: str) -> dict[str, Any]:
    blocks = said.get("blocks", {})
    if not isinstance(blocks, dict):
        raise CheckpointError(f"what lowprec wrote into {where} says of no BlockArrays, but {blocks!r}")
    return blocks


def _block(said: Any, where: str) -> tuple[BlockFormat, tuple[int, ...]]:
    try:
        (fmt,) = (
            each
            for each in from_toml(str(said["format"]), most=_MOST).values()
            if isinstance(each, BlockFormat)
        )
        return fmt, counts(said["axes"], "axes")
    except (KeyError, TypeError, ValueError) as error:
        raise CheckpointError(f"{where} has no format that can be read: {error}") from None


def holds(tag: str, fmt: Format) -> bool:
    """Return whether a tensor of a type may be codes of a format: by unsigned integers, or its own type.

    >>> holds("U8", catalog.E5M2), holds("F8_E5M2", catalog.E5M2), holds("F8_E4M3", catalog.E5M2)
    (True, True, False)
    """
    return tag == f"U{fmt.code_bits}" or (FLOATS.get(tag) == fmt.name and in_catalog(fmt))


def in_catalog(fmt: Format) -> bool:
    """Return whether the catalog has a format under its name."""
    try:
        return catalog.format(fmt.name) == fmt
    except ValueError:
        return False
