"""safetensors files written in parts: the header, and tensors at their places."""

from __future__ import annotations

import json
import math
import struct
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from lowprec.checkpoints.container import LONGEST_HEADER, METADATA, TAGS, CheckpointError, Entry
from lowprec.checkpoints.containers.writer import Laid, Planned, Writer

__all__ = ["SafetensorsWriter"]


class SafetensorsWriter(Writer):
    """A safetensors file; see `Writer`.

    Raises
    ------
    CheckpointError
        A tensor that takes no whole bytes, or has the name of the metadata; a header that is too long.
    """

    def _laid(self, path: Path, plan: Sequence[Planned], metadata: Mapping[str, str]) -> Laid:
        header: dict[str, Any] = {METADATA: dict(sorted(metadata.items()))} if metadata else {}
        # As the safetensors library orders them, so that wide types stay aligned.
        tensors = sorted(plan, key=lambda item: (-TAGS[item[1]][1], item[0]))
        end = 0
        for name, tag, shape in tensors:
            if name == METADATA:
                raise CheckpointError(
                    f"tensor {name!r} has the name of the metadata in safetensors files; rename it"
                )
            bits = math.prod(shape) * TAGS[tag][1]
            if bits % 8:
                raise CheckpointError(
                    f"tensor {name!r} of {tag} and shape {shape} takes {bits} bits, which are no whole "
                    f"bytes; add elements, or store codes as U8"
                )
            header[name] = {"dtype": tag, "shape": list(shape), "data_offsets": [end, end + bits // 8]}
            end += bits // 8
        text = json.dumps(header, separators=(",", ":")).encode()
        text += b" " * (-len(text) % 8)
        if len(text) > LONGEST_HEADER:
            raise CheckpointError(
                f"names, shapes and metadata would take {len(text):,} bytes, and headers of safetensors have "
                f"at most {LONGEST_HEADER:,}; write fewer tensors into a file, or shorten their names"
            )
        head = struct.pack("<Q", len(text)) + text
        entries = []
        for name, tag, shape in tensors:
            first, last = header[name]["data_offsets"]
            entries.append(Entry(name, tag, shape, path, len(head) + first, last - first))
        return entries, [(0, head)], len(head) + end
