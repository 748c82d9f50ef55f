"""What is timed, and the ratios that the project sets itself.

A row is one conversion of one array, one operation, or one product of matrices; a topic is a family of
rows that answer one question. docs/bench.md says how to read them.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from benchmarks import startup
from lowprec.spec.block import BlockFormat
from lowprec.spec.format import Format
from lowprec.spec.rounding import MODES

__all__ = ["LARGEST", "TARGETS", "TOPICS", "Job", "Target", "Topic"]

_64K, _16M = 1 << 16, 1 << 24

#: Rows of the smallest matrices, and of the largest that may be asked for.
_SMALL, LARGEST = 192, 4096


@dataclass(frozen=True)
class Job:
    """A row to be measured."""

    topic: str
    variant: str
    fmt: Format | BlockFormat
    size: int  #: elements, or rows of a square matrix
    kind: str  #: of the data
    threads: int

    def __str__(self) -> str:
        if self.topic == "import":
            return f"{self.topic}: {self.variant}"
        shared = f"{self.threads} threads" if self.threads > 1 else ""
        return " ".join(
            filter(None, (self.topic, self.variant, self.fmt.name, self.kind, f"n={self.size}", shared))
        )

    @property
    def work(self) -> str:
        """The topic whose work it is: `threads` does that of others."""
        return self.variant if self.topic == "threads" else self.topic

    def as_json(self) -> dict[str, Any]:
        """Return plain data, in a fixed order."""
        return {
            "topic": self.topic,
            "variant": self.variant,
            "format": self.fmt.name,
            "size": self.size,
            "data": self.kind,
            "threads": self.threads,
        }


@dataclass(frozen=True)
class Topic:
    """Rows that answer one question, and their defaults."""

    about: str
    formats: tuple[str, ...] = ("e4m3fn", "bfloat16")
    sizes: tuple[int, ...] = (_64K, _16M)
    kinds: tuple[str, ...] = ("normal",)
    variants: tuple[str, ...] = ("",)


_TIMED = ("add", "multiply", "divide", "sqrt", "fma")
_PRODUCTS = ("fp32_fma", "fp32_sequential", "bf16_sequential", "hopper_wgmma", "groups_of_16", "exact")

#: Every topic, by name.
TOPICS = {
    "cast": Topic(
        "float32 to codes, nearest_even",
        ("e4m3fn", "e5m2", "e2m1fn", "e3m2fn", "e4m3fnuz", "bfloat16", "binary16"),
        kinds=("normal", "hard"),
    ),
    "decode": Topic("codes to float32", ("e4m3fn", "e5m2", "bfloat16", "binary16")),
    "quantize": Topic("float32 to values of the format in float32", ("e4m3fn", "e2m1fn", "bfloat16")),
    "modes": Topic(
        "float32 to codes, the other rounding modes", variants=tuple(mode.name for mode in MODES[1:])
    ),
    "stochastic": Topic("float32 to codes, stochastic(32)", variants=("rng", "random")),
    "f64": Topic("float64 to codes, nearest_even", ("e4m3fn", "bfloat16", "binary16")),
    "small": Topic("float32 to codes, nearest_even: what a call costs", ("e4m3fn",), (1, 10, 100, 1000)),
    "block": Topic(
        "float32 to blocks that share scales, and back",
        ("mxfp8_e4m3", "mxfp4", "nvfp4"),
        (_16M,),
        variants=("encode", "axis 0", "decode"),
    ),
    "arith": Topic(
        "operations, nearest_even: of float32 to values of the format in float32, and of codes to codes",
        ("e4m3fn", "e5m2"),
        variants=(*_TIMED, *(f"{operation} codes" for operation in _TIMED)),
    ),
    "compare": Topic(
        "comparisons of codes, and the lesser of two",
        ("e4m3fn", "e5m2", "bfloat16"),
        variants=("less", "less_equal", "equal", "minimum"),
    ),
    "matmul": Topic(
        "products of square matrices, in codes and in float32",
        ("e4m3fn",),
        (_SMALL, 384, 768),
        variants=(*(f"{name} codes" for name in _PRODUCTS), *_PRODUCTS[:4]),
    ),
    "threads": Topic(
        "several threads beside one",
        ("e4m3fn",),
        (_16M,),
        variants=("cast", "decode", "quantize", "stochastic"),
    ),
    "import": Topic("processes, from start to end", ("e4m3fn",), (0,), variants=tuple(startup.VARIANTS)),
}


@dataclass(frozen=True)
class Target:
    """How many times as fast as something lowprec should be, in rows of a topic."""

    topic: str
    against: str  #: name of a contender; "own ..." is lowprec doing something else
    floor: float
    formats: tuple[str, ...] = ()  #: only these; by default all
    sizes: tuple[int, ...] = ()
    kind: str = "normal"
    out: bool = True  #: into memory of the caller, or new memory
    variants: tuple[str, ...] = ()
    threads: int = 1
    aim: float | None = None  #: what is aimed at, above the floor

    def concerns(self, job: Job) -> bool:
        """Return whether it is for this row."""
        return (
            (self.topic, self.kind, self.threads) == (job.topic, job.kind, job.threads)
            and job.fmt.name in (self.formats or (job.fmt.name,))
            and job.size in (self.sizes or (job.size,))
            and job.variant in (self.variants or (job.variant,))
        )


_BOTH = (_64K, _16M)
_FP8 = ("e4m3fn", "e5m2", "float8_e4m3", "e3m4", "e4m3fnuz", "e5m2fnuz", "e4m3b11fnuz")
_NARROW = (*_FP8, "e2m3fn", "e3m2fn", "e2m1fn")
_MX = ("mxfp8_e4m3", "mxfp8_e5m2", "mxfp6_e2m3", "mxfp6_e3m2", "mxfp4")

TARGETS = (
    Target("cast", "ml_dtypes", 20, _NARROW, (_64K,)),
    Target("cast", "ml_dtypes", 15, _NARROW, (_16M,)),
    Target("cast", "stream", 0.70, sizes=(_16M,)),
    Target("cast", "torch", 1.6, ("e4m3fn",), _BOTH),
    Target("cast", "torch", 1.1, ("e5m2",), _BOTH),
    Target("cast", "torch", 0.95, ("bfloat16",), _BOTH),
    Target("cast", "torch", 0.9, ("binary16",), _BOTH),
    Target("cast", "torch", 1.2, ("e4m3fn",), _BOTH, out=False),
    Target("cast", "own normal", 0.9, sizes=_BOTH, kind="hard"),
    Target("decode", "stream", 0.9, _FP8, (_16M,)),
    Target("quantize", "np.copyto", 0.9, sizes=(_16M,)),
    Target("modes", "own nearest_even", 0.65, sizes=_BOTH),
    Target("stochastic", "own nearest_even", 0.30, sizes=_BOTH, variants=("rng",)),
    Target("f64", "ml_dtypes", 9, _NARROW, _BOTH),
    Target("small", "ml_dtypes", 0.25, sizes=(1, 10, 100), out=False),  # at most four times as long
    Target("block", "torchao", 5, ("mxfp8_e4m3",), (_16M,), out=False, variants=("encode",)),
    Target("block", "torchao", 20, ("mxfp4",), (_16M,), out=False, variants=("encode",)),
    Target("block", "own plain cast", 0.45, _MX, (_16M,), out=False, variants=("encode",)),
    Target("block", "own last axis", 0.85, _MX, (_16M,), out=False, variants=("axis 0",)),
    Target("block", "stream", 0.6, _MX, (_16M,), variants=("decode",)),
    Target("arith", "own quantize", 0.5, _FP8, _BOTH),
    Target("arith", "ml_dtypes", 10, _FP8, _BOTH),
    Target("compare", "ml_dtypes", 5, _FP8, _BOTH, out=False),
    Target("compare", "ml_dtypes", 1, ("bfloat16",), (_64K,), out=False),
    Target("arith", "VeriFloat", 10, _FP8, _BOTH, out=False, variants=("add codes", "multiply codes")),
    Target("arith", "VeriFloat", 100, _FP8, (_64K,), out=False, variants=("sqrt codes", "fma codes")),
    *(
        Target(
            "matmul",
            "np.matmul",
            floor,
            _FP8,
            (384, 768),
            out=False,
            variants=(name, f"{name} codes"),
            aim=aim,
        )
        for name, floor, aim in (
            ("fp32_fma", 0.2, 0.7),
            ("fp32_sequential", 0.2, 0.7),
            ("bf16_sequential", 0.1, 0.3),
        )
    ),
    Target("matmul", "VeriFloat", 20, _FP8, out=False, variants=("fp32_fma codes", "fp32_sequential codes")),
    Target("matmul", "VeriFloat", 50, _FP8, (_SMALL,), out=False, variants=("groups_of_16 codes",)),
    Target("matmul", "mmasim", 1000, _FP8, (384, 768), out=False, variants=("hopper_wgmma codes",)),
    Target("threads", "own 1 thread", 1.5, sizes=(_16M,), threads=2),
)
