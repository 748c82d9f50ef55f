"""Products of matrices as libraries return them, by name: instruction, chunks, split-K and epilogue.

Which kernel a library takes depends on shapes and versions; a call here says what one of them computes.

Floor 1. Imports the standard library only.
Source: [CUBLAS], [CUTLASS], [TORCH], [PANTHEON]; [MMASIM] and [KHATTAK] for the instructions.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import replace
from functools import partial
from typing import Any

from lowprec.spec.accumulations import ACCUMULATIONS
from lowprec.spec.epilogue import Epilogue, LibraryCall
from lowprec.spec.formats import find
from lowprec.spec.naming import Catalog
from lowprec.spec.order import Split, chunked
from lowprec.spec.projection import Projection, Saturation
from lowprec.spec.rounded import Rounded

#: Products between promotions of sums of FP8 tensor cores, with use_fast_accum=False.
_PROMOTED = 128
#: Products of the tiles that split-K deals.
_TILE = 64

_INSTRUCTION = "the instruction {}: its published results, where tables/accumulations.md says measured"
_PROMOTION = "promotion every 128 products to binary32: CUTLASS's mainloop for FP8, [DEEPSEEK] 3.3.2"
_SPLIT = "split-K: given by the caller; how libraries deal K and combine sums is not documented"
_EPILOGUE = {
    "product": "the epilogue: [CUBLAS], D = scale_d (scale_a scale_b A B + C), computed in binary32",
    "x_first": "the epilogue: [TORCH], RowwiseScaledMM.cu, the scale of rows, then that of columns",
}
_MEASURED = "epilogue and output, of exact sums: what cuBLASLt 13.3 returned on {}, [PANTHEON]"
_GPUS = {"ada_cublaslt_fp8": "an L4 and an L40S", "rtx_blackwell_cublaslt_fp8": "an RTX PRO 6000"}


def _output(name: str) -> Rounded:
    """Return the output of a device's conversion from binary32: one NaN; FP8 saturates infinities too."""
    fmt = find(name)
    saturation = Saturation.FINITE if fmt.width <= 8 else Saturation.NONE
    return fmt, Projection(saturation=saturation, nan_code=fmt.sign_code - 1, nan_sign="drop")


def _fp8(
    name: str,
    instruction: str,
    scales: str,
    promotes: bool,
    /,
    *,
    formats: tuple[str, str] | str = ("e4m3fn", "e4m3fn"),
    output: str = "bfloat16",
    fast: bool = True,
    split: Split | tuple[int, str] | None = None,
    **unknown: object,
) -> LibraryCall:
    """Return what a library's product of two FP8 matrices computes.

    Parameters
    ----------
    formats : (str, str) or str
        "e4m3fn" or "e5m2", of x and of y, or of both.
    output : {"bfloat16", "binary16", "binary32", "e4m3fn", "e5m2"}
    fast : bool
        use_fast_accum: False promotes the sum of every 128 products, of a split's own, to binary32.
    split : Split or (int, str), optional
        Split-K. A pair stands for so many splits, to which tiles of 64 products are dealt in turn, and how
        they are combined: `Split(count, tile=64, deal="interleaved", combine=...)`.

    Raises ValueError: formats, outputs or splits that there are not.
    """
    if unknown:
        raise TypeError(f"{name} has no {next(iter(unknown))!r}; it has formats, output, fast and split")
    if type(fast) is not bool:
        raise TypeError(f"fast of {name} must be True or False, not {fast!r}")
    if isinstance(formats, str):
        formats = formats, formats
    if not isinstance(formats, tuple) or len(formats) != 2:
        raise ValueError(f"formats={formats!r} of {name} must be two: of x and of y")
    pair = isinstance(split, tuple) and len(split) == 2
    if split is not None and not isinstance(split, Split) and not pair:
        raise TypeError(f"split of {name} must be a Split or a pair such as (3, 'halves'), not {split!r}")
    x, y = formats
    operands = x if x == y else f"{x}_{y}"
    found = f"{instruction}_{operands}_binary32"
    if found not in ACCUMULATIONS or not {x, y} <= {"e4m3fn", "e5m2"}:
        raise ValueError(f"formats={formats!r} of {name}: it multiplies 'e4m3fn' and 'e5m2'")
    if output not in ("bfloat16", "binary16", "binary32", "e4m3fn", "e5m2"):
        raise ValueError(
            f"output={output!r} of {name} is unknown; use bfloat16, binary16, binary32, e4m3fn or e5m2"
        )
    if isinstance(split, tuple):
        split = Split(split[0], tile=_TILE, deal="interleaved", combine=split[1])
    how, evidence = ACCUMULATIONS[found], [_INSTRUCTION.format(found)]
    if promotes and not fast:
        how, evidence = replace(how, order=chunked(_PROMOTED)), [*evidence, _PROMOTION]
    if split is not None:
        how, evidence = replace(how, split=split), [*evidence, _SPLIT]
    evidence.append(_EPILOGUE[scales])
    if name in _GPUS:
        evidence.append(_MEASURED.format(_GPUS[name]))
    return LibraryCall(
        name=name,
        accumulation=replace(how, name=name),
        epilogue=Epilogue(output=_output(output), scales=scales),  # type: ignore[arg-type]
        evidence="; ".join(evidence) + ". Not measured by this project",
    )


#: Functions that return a `LibraryCall`. Each takes formats, output, fast and split, all optional.
LIBRARY_CALLS: Mapping[str, Callable[..., LibraryCall]] = Catalog(
    "library calls",
    {
        name: partial(_fp8, name, *parts)
        for name, parts in {
            "ada_cublaslt_fp8": ("ada_mma", "product", True),
            "hopper_cublaslt_fp8": ("hopper_wgmma", "product", True),
            "blackwell_cublaslt_fp8": ("blackwell_tcgen05", "product", False),
            "rtx_blackwell_cublaslt_fp8": ("rtx_blackwell_mma", "product", False),
            "hopper_torch_rowwise_fp8": ("hopper_wgmma", "x_first", True),
            "blackwell_torch_rowwise_fp8": ("blackwell_tcgen05", "x_first", False),
        }.items()
    },
    instruction=lambda call: call.args[1],
    scales=lambda call: call.args[2],
    promotes=lambda call: call.args[3],
)


def library_call(spelled: str) -> LibraryCall | None:
    """Return the library call of that name, with or without what it takes; None if it names none.

    >>> library_call("ada_cublaslt_fp8(output=binary32, fast=false, split=3:halves)").accumulation.split.count
    3

    Parameters
    ----------
    spelled : str
        A key of `LIBRARY_CALLS`, and in parentheses any of formats=X:Y, output=FORMAT, fast=true or false,
        split=COUNT or COUNT:COMBINE.

    Raises ValueError: something else in the parentheses, and what the call refuses.
    """
    found = re.fullmatch(r"\s*(\w+)\s*(?:\((.*)\))?\s*", spelled)
    if found is None or found[1] not in LIBRARY_CALLS:
        return None
    given: dict[str, Any] = {}
    for part in filter(None, (part.strip() for part in (found[2] or "").split(","))):
        key, _, value = (piece.strip() for piece in part.partition("="))
        if key in given:
            raise ValueError(f"{key!r} of {spelled!r} is given twice")
        if key == "output" and value:
            given[key] = value
        elif key == "fast" and value.lower() in ("true", "false"):
            given[key] = value.lower() == "true"
        elif key == "formats" and value.count(":") == 1:
            given[key] = tuple(each.strip() for each in value.split(":"))
        elif key == "split" and (split := re.fullmatch(r"(\d+)\s*(?::\s*(.+))?", value)):
            given[key] = int(split[1]), split[2] or "sequential"
        else:
            raise ValueError(
                f"{part!r} of {spelled!r} is unknown; use formats=X:Y, output=FORMAT, fast=true or false, "
                f"split=COUNT or split=COUNT:COMBINE"
            )
    return LIBRARY_CALLS[found[1]](**given)
