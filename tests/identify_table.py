"""Which units `identify` identifies: python -m tests.identify_table [catalog|drawn|cpu|mmasim]...

Each accumulation is a unit whose name is withheld. It is identified where the accumulation found reproduces
every answer and, beside that, all of some thousand aimed rows that the unit was not asked.
"""

import argparse
import json
import time
from pathlib import Path

import numpy as np

import lowprec as lp
from lowprec.spec.accumulations import ACCUMULATIONS
from lowprec.verify.identify.identify import asked
from lowprec.verify.identify.ports import Ports, Prepared
from lowprec.verify.identify.probes import TOPICS, draw
from tests.identify_units import drawn

#: Rows of each topic that an accumulation is held against, beside its answers.
HELD = 150


def held(how, found, ports):
    """Count rows that were not asked, and those of them on which two accumulations differ."""
    rng = np.random.default_rng(2026)
    rows = [draw(ports, topic, HELD, rng) for topic in TOPICS]
    return HELD * len(TOPICS), sum(
        int(np.count_nonzero(Prepared(part, ports).codes(how) != Prepared(part, ports).codes(found)))
        for part in rows
    )


def of_accumulation(name, how, ports):
    """Identify a unit that sums by an accumulation."""
    begun = time.process_time()
    found = asked(lambda rows: (Prepared(rows, ports).codes(how), False), ports)
    rows, differ = held(how, found.accumulation, ports)
    return {
        "unit": name,
        "asked": found.asked,
        "wrong": found.wrong,
        "names": list(found.names),
        "held": rows,
        "differ": differ,
        "undecided": [str(each) for each in found.undecided if each.question is not None],
        "seconds": round(time.process_time() - begun, 1),
    }


def catalog(only=None):
    """Yield a result for every accumulation of the catalog; those of several names once."""
    plain, seen = (lp.format("bfloat16"),) * 2, set()
    for name, how in ACCUMULATIONS.items():
        if how not in seen and (only is None or name in only):  # names of the same parameters once
            seen.add(how)
            ports = Ports(how.operands or plain, how.output[0], 64, how.output[0], how.scale)
            yield of_accumulation(name, how, ports)


def random(count=200, first=0):
    """Yield a result for accumulations of drawn parameters."""
    for seed in range(first, first + count):
        how, operands, length = drawn(seed)
        yield of_accumulation(f"drawn {seed}", how, Ports(operands, how.output[0], length, how.output[0]))


def of_function(name, function, formats, output, k, **options):
    """Identify a function."""
    begun = time.process_time()
    with np.errstate(all="ignore"):
        found = lp.identify(function, formats, output, k=k, **{"addend": None, "nan": "any", **options})
    return {
        "unit": name,
        "asked": found.asked,
        "answers": len(found.answers),
        "wrong": found.wrong,
        "names": list(found.names),
        "order": "" if found.wrong else _order(found.accumulation),
        "tree": found.tree,
        "seconds": round(time.process_time() - begun, 1),
    }


def _order(how):
    """Return the order and the products of an accumulation, in words."""
    return f"{how.order}, {'rounded' if how.product else 'fused'} products"


def cpu(lengths=(8, 32)):
    """Yield results of NumPy's products in float32 on this processor, and torch's if it is installed."""

    def quiet(call):
        def unit(a, b):
            with np.errstate(all="ignore"):
                return call(a, b)

        return unit

    single = ("binary32", "binary32")
    for k in lengths:
        for name, call in (
            ("np.dot", lambda a, b: np.array([np.dot(x, y) for x, y in zip(a, b, strict=True)], np.float32)),
            ("np.matmul", lambda a, b: (a[:, None] @ b[:, :, None])[:, 0, 0]),
            ("np.einsum", lambda a, b: np.einsum("ij,ij->i", a, b)),
            ("(a * b).sum(1)", lambda a, b: (a * b).sum(1)),
        ):  # fmt: skip
            yield of_function(
                f"NumPy {np.__version__} {name} float32, K = {k}", quiet(call), single, "binary32", k
            )
    try:
        import torch
    except ImportError:
        return

    def product(a, b, dtype):
        x, y = (torch.tensor(part).to(dtype) for part in (a, b))
        return torch.stack([x[row] @ y[row] for row in range(len(a))])

    for k in lengths:
        yield of_function(
            f"torch {torch.__version__} float32, K = {k}",
            lambda a, b: product(a, b, torch.float32).numpy(),
            single,
            "binary32",
            k,
        )
        yield of_function(
            f"torch {torch.__version__} bfloat16, K = {k}",
            lambda a, b: product(a, b, torch.bfloat16).view(torch.uint16).numpy().astype(np.int64),
            ("bfloat16", "bfloat16"),
            "bfloat16",
            k,
        )


#: Types of mmasim's instructions, as formats.
TYPES = {
    **{"f16": "binary16", "bf16": "bfloat16", "tf32": "tf32", "xf32": "tf32", "f32": "binary32"},
    **{"e4m3": "e4m3fn", "e5m2": "e5m2", "e3m2": "e3m2fn", "e2m3": "e2m3fn", "e2m1": "e2m1fn"},
    **{"fp8": "e4m3fnuz", "bf8": "e5m2fnuz"},
}


def instructions():
    """Yield the name, the operation and the formats of mmasim's instructions, one for each pair of types."""
    from mmasim import amd, nv_ptx
    from mmasim.amd import isa_mfma
    from mmasim.nv_ptx import isa_mma

    for arch, shapes in isa_mma.mma_shape_and_type.items():
        seen = set()
        for shape in shapes:
            *_, result, x, y, _ = shape.split(".")
            if x != "f64" and (result, x, y) not in seen:
                seen.add((result, x, y))
                yield f"mma {arch} {shape}", nv_ptx.MMA(arch, shape), (TYPES[x], TYPES[y]), TYPES[result]
    for shape in (
        "m64n8k8.f32.tf32.tf32",
        "m64n8k16.f32.f16.f16",
        "m64n8k32.f32.e4m3.e5m2",
        "m64n8k32.f16.e4m3.e4m3",
    ):
        _, result, x, y = shape.split(".")
        yield f"wgmma {shape}", nv_ptx.WGMMA("Hopper", shape), (TYPES[x], TYPES[y]), TYPES[result]
    for arch, suffixes in isa_mfma.arch_mfma_suffix.items():
        seen = set()
        for suffix in suffixes:
            operation = amd.MFMA(arch, suffix)
            words = [
                word
                for word in ("xf32", "bf16", "f16", "bf8", "fp8")
                if suffix.removesuffix("_1k").endswith(word)
            ]
            types = (
                tuple(suffix.split("_")[-2:])
                if words[:1] in (["bf8"], ["fp8"])
                else (words[0],) * 2
                if words
                else ()
            )
            if types and (types, suffix.endswith("_1k")) not in seen:
                seen.add((types, suffix.endswith("_1k")))
                yield f"mfma {arch} {suffix}", operation, tuple(TYPES[word] for word in types), "binary32"


def as_tensor(values, fmt, dtype):
    """Return values as a tensor that mmasim takes."""
    import torch

    if dtype.itemsize > 1:
        return torch.from_numpy(values.copy()).to(dtype)
    codes = np.asarray(lp.encode(values, fmt))  # torch's own conversions lose NaNs
    if dtype == torch.uint8:  # six bits, of which four-bit codes are the upper ones
        return torch.from_numpy(codes << (6 - lp.format(fmt).width))
    return torch.from_numpy(codes).view(dtype)


def mmasim(only=None):
    """Yield a result for mmasim's instructions, with the K of one instruction."""
    import torch

    for name, operation, formats, output in instructions():
        if only is not None and name not in only:
            continue

        def unit(a, b, c, operation=operation, formats=formats, output=output):
            x = as_tensor(a, formats[0], operation.a_type)
            y = as_tensor(b, formats[1], operation.b_type)
            result = operation.dpa(x, y, torch.from_numpy(np.array(c)).to(operation.c_type))
            return result.numpy().view(np.uint32 if output == "binary32" else np.uint16).astype(np.int64)

        nan = "any" if name.startswith("mfma") else "exact"  # AMD's are the host's
        yield of_function(f"mmasim {name}", unit, formats, output, operation.k, addend="output", nan=nan)


PARTS = {"catalog": catalog, "drawn": random, "cpu": cpu, "mmasim": mmasim}


def row(result):
    """Return a row of the table."""
    if "held" in result:
        said = "identified"
        if result["wrong"]:
            said = f"{result['wrong']} answers missed"
        elif result["differ"]:
            said = f"{result['differ']} of {result['held']} other rows differ"
        return f"| {result['unit']} | {result['asked']:,} | {said} | {', '.join(result['names'])} |"
    said = result["order"] or f"none: {result['wrong']} of {result['answers']:,} missed; {result['tree']}"
    return f"| {result['unit']} | {result['asked']:,} | {said} | {', '.join(result['names'])} |"


def summary(results):
    """Return the table of docs/identify.md: a row for each part, then one for each unit of the processor."""
    lines = [
        "| units | tried | identified | dot products asked: median, most | seconds of a processor: median |"
    ]
    lines.append("|---|---|---|---|---|")
    words = {
        "catalog": "distinct accumulations of the catalog, K = 64",
        "drawn": "accumulations of drawn parameters, K = 16 to 64",
        "mmasim": "instructions of mmasim, their own K",
    }
    for part, said in words.items():
        some = [result for result in results if result["part"] == part]
        if some:
            good = [result for result in some if not result["wrong"] and not result.get("differ")]
            asked = sorted(result["asked"] for result in some)
            seconds = sorted(result["seconds"] for result in some)
            lines.append(
                f"| {said} | {len(some)} | {len(good)} | {asked[len(asked) // 2]:,}, {asked[-1]:,} | "
                f"{seconds[len(some) // 2]} |"
            )
    lines += ["", "| unit | asked | order | in the catalog |", "|---|---|---|---|"]
    lines += [row(result) for result in results if result["part"] == "cpu"]
    return "\n".join(lines)


def main():
    """Print a row for each unit, and counts of each part."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("parts", nargs="*", default=list(PARTS))
    parser.add_argument("--count", type=int, default=200)
    parser.add_argument("--first", type=int, default=0)
    parser.add_argument("--save", type=Path, help="add a line of JSON for each unit to this file")
    parser.add_argument(
        "--read", type=Path, nargs="+", help="print the summary of such files, and ask nothing"
    )
    given = parser.parse_args()
    if given.read:
        print(summary([json.loads(line) for path in given.read for line in path.read_text().splitlines()]))
        return
    for part in given.parts:
        kept = []
        results = PARTS[part](given.count, given.first) if part == "drawn" else PARTS[part]()
        for result in results:
            kept.append(result)
            print(row(result), f"{result['seconds']} s", flush=True)
            if given.save:
                with given.save.open("a") as file:
                    file.write(json.dumps({"part": part, **result}) + "\n")
        good = [each for each in kept if not each["wrong"] and not each.get("differ")]
        most = max((each["asked"] for each in kept), default=0)
        print(f"{part}: {len(good)} of {len(kept)} identified, at most {most:,} dot products asked")


if __name__ == "__main__":
    main()
