"""Profiles: what a named stack does, as a projection for each of its formats.

A profile of a library is checked against that library, one of hardware against published data
where there is some; docs/references.md has the sources.

Floor 1. Imports the standard library only.
"""

from __future__ import annotations

import contextlib
import itertools
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace

from lowprec.spec import catalog
from lowprec.spec.block import BlockFormat
from lowprec.spec.families import p3109
from lowprec.spec.fields import Table, text
from lowprec.spec.format import Format, Sign, exact_float
from lowprec.spec.naming import read_only
from lowprec.spec.projection import Projection, Saturation
from lowprec.spec.rounding import AWAY_FROM_ZERO, NEAREST_AWAY, NEAREST_ZERO, stochastic

__all__ = ["PROFILES", "Profile", "profile"]


@dataclass(frozen=True)
class Profile:
    """A named stack, the versions it is true of, how it projects onto its formats and what its blocks are.

    >>> profile("ocp_sat").projection(catalog.E4M3FN)
    Projection(saturation='finite')
    >>> profile("torchao_even").block(catalog.MXFP4).rule.name
    'even'

    Parameters
    ----------
    name : str
    versions : str
        The release or document that it was read from or tested against.
    formats : mapping of Format to Projection
        Copied: later changes to the mapping change nothing here.
    blocks : mapping of BlockFormat to BlockFormat
        What the catalog's block formats are in this stack. Copied likewise.
    source : str
        Key in docs/references.md.
    """

    name: str
    versions: str
    formats: Mapping[Format, Projection] = field(hash=False)
    source: str = ""
    blocks: Mapping[BlockFormat, BlockFormat] = field(hash=False, default_factory=dict)

    def __post_init__(self) -> None:
        text(self, "a profile", "name", "versions", "source")
        for name, key, value in (("formats", Format, Projection), ("blocks", BlockFormat, BlockFormat)):
            given = getattr(self, name)
            if isinstance(given, (Table, _P3109)):
                continue
            if not isinstance(given, Mapping):
                raise TypeError(f"{name} of a profile must be a mapping, not {given!r}")
            for item in given.items():
                if not (isinstance(item[0], key) and isinstance(item[1], value)):
                    wanted = f"{key.__name__} to {value.__name__}"
                    raise TypeError(f"{name} of a profile must map {wanted}, not {item[0]!r} to {item[1]!r}")
            object.__setattr__(self, name, Table(given))

    def projection(self, fmt: Format) -> Projection:
        """How the stack projects onto a format.

        Raises
        ------
        ValueError
            A format that it does not have.
        """
        fmt = catalog.format(fmt)
        if fmt not in self.formats:
            names = ", ".join(known.name for known in itertools.islice(self.formats, 40)) or "blocks alone"
            raise ValueError(f"profile {self.name!r} does not say how to convert to {fmt.name!r}; it has {names}")
        return self.formats[fmt]

    def block(self, fmt: BlockFormat) -> BlockFormat:
        """What a block format is in this stack.

        Raises
        ------
        ValueError
            A block format that it does not have.
        """
        fmt = catalog.block_format(fmt)
        if fmt not in self.blocks:
            names = ", ".join(known.name for known in self.blocks) or "no block formats"
            raise ValueError(f"profile {self.name!r} does not say what {fmt.name!r} is; it has {names}")
        return replace(self.blocks[fmt], name=fmt.name)  # two that differ in name alone are equal

    def __str__(self) -> str:
        return self.name


class _P3109(Mapping[Format, Projection]):
    """The formats of P3109, made on demand: there are hundreds."""

    def __getitem__(self, fmt: Format) -> Projection:
        signed = fmt.sign is Sign.MAGNITUDE
        try:
            known = p3109(fmt.width, fmt.trailing_bits + 1, signed=signed, extended=fmt.infinity)
        except ValueError:
            raise KeyError(fmt) from None
        if known != fmt:
            raise KeyError(fmt)
        # Formats of the finite domain clamp under every policy; negative values become 0 in unsigned ones.
        return Projection(saturation="none" if fmt.infinity else "finite", negative="zero")  # type: ignore[arg-type]

    def __iter__(self) -> Iterator[Format]:
        for width in range(3, 17):
            for signed in (True, False):
                for precision in range(1, width + (not signed)):
                    for extended in (True, False):
                        with contextlib.suppress(ValueError):  # float64 does not hold its values
                            yield p3109(width, precision, signed=signed, extended=extended)

    def __len__(self) -> int:
        return sum(1 for _ in self)

    def __repr__(self) -> str:
        return "_P3109()"


_E4M3_E5M2 = (catalog.E4M3FN, catalog.E5M2)
_OCP_AND_FNUZ = (catalog.E4M3FN, catalog.E5M2, catalog.E4M3FNUZ, catalog.E5M2FNUZ)

_NONE = Projection()
_FINITE = Projection(saturation=Saturation.FINITE)
_PROPAGATE = Projection(saturation=Saturation.PROPAGATE)
#: Through binary32: right for every operand, since what binary32 holds passes unchanged.
_TWICE = Projection(via=(catalog.BINARY32,))
_TWICE_FINITE = replace(_TWICE, saturation=Saturation.FINITE)


def _each(formats: Iterable[Format], projection: Projection) -> dict[Format, Projection]:
    return dict.fromkeys(formats, projection)


# A NaN becomes -0 where there is no code for it; in ml_dtypes and ONNX, but not in JAX, a negative one +0.
_NO_NAN = replace(_TWICE, nan="negative_zero")

_ML_DTYPES = {
    **_each(
        (
            catalog.BFLOAT16,
            *_OCP_AND_FNUZ,
            catalog.FLOAT8_E4M3,
            catalog.E3M4,
            catalog.E4M3B11FNUZ,
        ),
        _TWICE,
    ),
    **_each((catalog.E2M3FN, catalog.E3M2FN, catalog.E2M1FN), _NO_NAN),
    # Ties go up, and so do all values between 2**-127 and 2**-126, which no projection says.
    catalog.E8M0FNU: replace(_TWICE, rounding=NEAREST_AWAY),
}

_TORCH_213 = {
    catalog.BINARY32: _NONE,
    catalog.BINARY16: _TWICE,
    # So much for single elements. Vectors make ffff of NaNs from float32 and float64.
    catalog.BFLOAT16: replace(_TWICE, nan_sign="drop"),
    catalog.E4M3FN: _TWICE_FINITE,
    catalog.E5M2: replace(_TWICE, nan_code=0x7F),
    catalog.E4M3FNUZ: _TWICE,
    catalog.E5M2FNUZ: _TWICE,
    catalog.E8M0FNU: replace(_TWICE, rounding=NEAREST_AWAY, negative="drop_sign", zero="smallest"),
}

_JAX = {
    # XLA rounds float64 once, except for binary16 and bfloat16.
    **_each(
        (
            catalog.BINARY32,
            *_OCP_AND_FNUZ,
            catalog.FLOAT8_E4M3,
            catalog.E3M4,
            catalog.E4M3B11FNUZ,
        ),
        _NONE,
    ),
    catalog.E2M1FN: replace(_NO_NAN, via=()),
    catalog.BINARY16: _TWICE,
    catalog.BFLOAT16: _TWICE,
    catalog.E8M0FNU: Projection(rounding=NEAREST_AWAY),
}

# round_mode="up", the default, is away from zero for magnitudes.
_ONNX_E8M0 = replace(_TWICE, rounding=AWAY_FROM_ZERO, negative="drop_sign", zero="smallest")
_ONNX_NOSAT = {
    catalog.BINARY32: _NONE,
    catalog.BINARY16: _NONE,
    catalog.BFLOAT16: _TWICE,
    **_each(_OCP_AND_FNUZ, _TWICE),
    catalog.E2M1FN: _NO_NAN,
    catalog.E8M0FNU: _ONNX_E8M0,
}
_ONNX = {
    **_ONNX_NOSAT,
    **_each(_OCP_AND_FNUZ, _TWICE_FINITE),
    # Finite values stop at the top, infinities become NaN.
    catalog.E8M0FNU: replace(_ONNX_E8M0, saturation=Saturation.PROPAGATE),
}

# A NaN of e5m2 is the last code. E8M0 is rounded up too, and saturates.
_ONNXRUNTIME = {
    catalog.BINARY32: _NONE,
    catalog.BINARY16: _TWICE,
    catalog.BFLOAT16: _TWICE,
    **_each(_OCP_AND_FNUZ, _TWICE_FINITE),
    catalog.E5M2: replace(_TWICE_FINITE, nan_code=0x7F),
    catalog.E8M0FNU: replace(_ONNX_E8M0, saturation=Saturation.FINITE, negative="zero"),
}

# Every NaN is the first code above infinity; integers go through binary64.
_APYTYPES = {
    fmt: Projection(nan_code=fmt.max_magnitude + 2, via=(catalog.BINARY64,))
    for fmt in (
        catalog.BINARY32,
        catalog.BINARY16,
        catalog.BFLOAT16,
        catalog.TF32,
        catalog.E5M2,
        catalog.FLOAT8_E4M3,
        catalog.E3M4,
    )
}

# From float; from double the NaN keeps its sign. E8M0 is rounded up, as block scales are.
_CUDA_NOSAT = {
    **_each(_E4M3_E5M2, Projection(nan_code=0x7F, nan_sign="drop")),
    catalog.E8M0FNU: Projection(rounding=AWAY_FROM_ZERO, negative="drop_sign", zero="smallest"),
}
_CUDA_SATFINITE = {
    **{fmt: replace(rule, saturation=Saturation.FINITE) for fmt, rule in _CUDA_NOSAT.items()},
    **_each((catalog.E2M3FN, catalog.E3M2FN, catalog.E2M1FN), replace(_FINITE, nan="max", nan_sign="drop")),
}

# A NaN of the FNUZ formats has no sign of its own, but 7F and FF, the extreme values, have.
_HIP_SAT = _each(_OCP_AND_FNUZ, replace(_FINITE, nan_code=0x7F))
_HIP_NOSAT = {
    **_each(_E4M3_E5M2, Projection(nan_code=0x7F, overflow_test="before")),
    **_each((catalog.E4M3FNUZ, catalog.E5M2FNUZ), Projection(overflow_test="before")),
}

# NaNs are Arm's default NaN. FPCR does not matter: to nearest even, and nothing is flushed.
_ARM = _each(_E4M3_E5M2, Projection(nan_sign="drop"))
_ARM_SAT = _each(_E4M3_E5M2, replace(_FINITE, nan_sign="drop"))


_IEEE = (catalog.BINARY16, catalog.BFLOAT16, catalog.BINARY32)

# SSE and AVX: the first NaN operand, quiet; if none is one, the "real indefinite", which is negative.
_X86 = {fmt: Projection(nan_payload="first", nan_code=(fmt.nan_code or 0) | fmt.sign_code) for fmt in _IEEE}

# FPCR.DN = 0. To integers what does not fit saturates, and NaN is 0.
_ARM_INTEGERS = _each((catalog.INT8, catalog.UINT8), replace(_FINITE, nan="zero", nan_sign="drop", negative="zero"))
_ARM_NANS = {**_each(_IEEE, Projection(nan_payload="signaling_first")), **_ARM_INTEGERS}

# FPCR.DN = 1, as RISC-V: one NaN, which is positive.
_ARM_DEFAULT_NAN = {**_each(_IEEE, Projection(nan_sign="drop")), **_ARM_INTEGERS}
_RISCV = {
    **_each(_IEEE, Projection(nan_sign="drop")),
    **_each((catalog.INT8, catalog.UINT8), replace(_FINITE, nan="max", nan_sign="drop", negative="zero")),
}


def _unit_scaling(fmt: Format) -> Projection:
    """Scaled in binary32 so that the format's subnormals are binary32's, then its last bits are drawn and cut off.

    The values are the FNUZ formats': one binade more than OCP's, and nothing special. Binary32's
    subnormals round once on their own: `via` is binary32 with the format's bias.
    """
    scaled = Format(
        name=f"binary32 with the bias of {fmt.name}",
        exponent_bits=8,
        trailing_bits=23,
        bias=fmt.bias,
        nans=(1 << 23) - 1,
        infinity=True,
    )
    return Projection(
        rounding=stochastic(23 - fmt.trailing_bits), saturation=Saturation.FINITE, via=(catalog.BINARY32, scaled)
    )


# -- blocks -----------------------------------------------------------------------------------------

_MXFP = (catalog.MXFP8_E4M3, catalog.MXFP8_E5M2, catalog.MXFP6_E2M3, catalog.MXFP6_E3M2, catalog.MXFP4)
_MX = (*_MXFP, catalog.MXINT8)

#: Quotients that are 0 become the smallest scale.
_NO_ZERO = replace(_FINITE, zero="smallest")

#: The NaN, and what one without payload becomes when torchao rounds it like a number, in formats without NaN.
_TORCHAO_NANS = {catalog.E5M2: 0x7F, catalog.E2M3FN: 0x0C, catalog.E3M2FN: 0x0E, catalog.E2M1FN: 0x03}


def _torchao(rule: str, **fields: object) -> dict[BlockFormat, BlockFormat]:
    """Elements are divided by the scale as a normal binary32 number, which code 0 is not."""
    return {
        fmt: replace(
            fmt,
            rule=rule,  # type: ignore[arg-type]
            elements=replace(_FINITE, nan_code=_TORCHAO_NANS.get(fmt.element)),
            source="TORCHAO",
            **({"smallest_divides_as": exact_float(1, -126), "nan": "scale", "infinity": "power"} | fields),  # type: ignore[arg-type]
        )
        for fmt in _MXFP
    }


def _changed(formats: Iterable[BlockFormat], **fields: object) -> dict[BlockFormat, BlockFormat]:
    return {fmt: replace(fmt, **fields) for fmt in formats}  # type: ignore[arg-type]


_TORCHAO_NVFP4 = _changed(
    [catalog.NVFP4],
    arithmetic="reciprocals",
    min_scale=exact_float(1, -6),
    zero="rule",
    nan="all",
    infinity="largest",
    # The NaN of the scale carries a payload, which rounds up.
    elements=replace(_FINITE, nan_code=4),
    source="TORCHAO",
)

_TRANSFORMER_ENGINE = {
    **_changed(
        (catalog.MXFP8_E4M3, catalog.MXFP8_E5M2),
        rule="rceil",
        elements=replace(_FINITE, nan_code=0x7F),
        scales=_NO_ZERO,
        arithmetic="reciprocal",
        nan="elements",
        infinity="largest",
        source="TRANSFORMER_ENGINE",
    ),
    **_changed(
        (catalog.NVFP4, catalog.NVFP4_2D),
        tensor_scale="reciprocal",
        arithmetic="reciprocal",
        source="TRANSFORMER_ENGINE",
    ),
}

_MODELOPT = {
    **_changed([catalog.MXFP8_E4M3], rule="rceil", arithmetic="product", scales=_NO_ZERO, source="MODELOPT"),
    **_changed(
        [catalog.MXFP4],
        rule="rceil",
        arithmetic="product",
        elements=replace(_FINITE, rounding=NEAREST_ZERO),
        scales=_NO_ZERO,
        source="MODELOPT",
    ),
    **_changed([catalog.NVFP4], arithmetic="product", min_scale=exact_float(1, -9), zero="one", source="MODELOPT"),
}

_MICROXCALING = _changed(
    _MX,
    elements=replace(_FINITE, rounding=NEAREST_AWAY, symmetric=True),
    scales=_NONE,
    source="MICROXCALING",
)

_P3109_BLOCKS = _changed(
    (*_MX, catalog.NVFP4),
    rule="project",
    tensor_scale="none",
    scales=_NO_ZERO,
    zero="rule",
    nan="elements",
    infinity="elements",
    source="P3109",
)

_OCP = {fmt: fmt for fmt in catalog.BLOCK_FORMATS.values()}


#: Every profile, by name.
PROFILES: Mapping[str, Profile] = read_only(
    "profiles",
    (
        Profile("ml_dtypes", "0.5 and 0.6", _ML_DTYPES, "ML_DTYPES"),
        Profile("numpy", "2", _each((catalog.BINARY16, catalog.BINARY32), _NONE), "NUMPY"),
        Profile(
            "torch<2.13",
            "before 2.13, on CPUs; from its published behaviour, never run",
            {**_TORCH_213, catalog.E4M3FN: _TWICE},
            "TORCH",
        ),
        Profile("torch>=2.13", "2.13.0, on CPUs", _TORCH_213, "TORCH"),
        Profile("jax", "0.10.2, on CPUs", _JAX, "JAX"),
        Profile("onnx", "1.23.2, reference evaluator: Cast with saturate=1", _ONNX, "ONNX"),
        Profile("onnx_nosat", "1.23.2, reference evaluator: Cast with saturate=0", _ONNX_NOSAT, "ONNX"),
        Profile("onnxruntime", "1.31.1 and 1.32.0, on CPUs: Cast with saturate=1", _ONNXRUNTIME, "ONNXRUNTIME"),
        Profile("apytypes", "0.5.1, from arrays of NumPy", _APYTYPES, "APYTYPES"),
        Profile("ocp_sat", "OFP8 1.0", _each(_E4M3_E5M2, _FINITE), "OFP8"),
        Profile("ocp_ovf", "OFP8 1.0", _each(_E4M3_E5M2, _NONE), "OFP8"),
        Profile("fp8_paper", "arXiv:2209.05433", _each(_E4M3_E5M2, _PROPAGATE), "FP8"),
        Profile("cuda_satfinite", "CUDA 13 headers, on the host, from float", _CUDA_SATFINITE, "CUDA"),
        Profile("cuda_nosat", "CUDA 13 headers, on the host, from float", _CUDA_NOSAT, "CUDA"),
        Profile("hip_sat", "ROCm clr headers, on the host", _HIP_SAT, "HIP"),
        Profile("hip_nosat", "ROCm clr headers, on the host", _HIP_NOSAT, "HIP"),
        Profile(
            "avx10_2",
            "AVX10.2, the forms that do not saturate; NaNs but for their payloads; never run",
            {**_each(_E4M3_E5M2, _NONE), catalog.BFLOAT16: Projection(subnormals="flush_both")},
            "AVX10",
        ),
        Profile("arm_fp8", "FEAT_FP8 with FPMR.OSC = 0 and NSCALE = 0; never run", _ARM, "ARM"),
        Profile("arm_fp8_sat", "FEAT_FP8 with FPMR.OSC = 1 and NSCALE = 0; never run", _ARM_SAT, "ARM"),
        Profile("x86", "SSE and AVX: the NaNs of arithmetic, of fma in the order x, y, z; not its flags", _X86, "X86"),
        Profile("arm", "FPCR.DN = 0: the NaNs of arithmetic; to integers; never run", _ARM_NANS, "ARMFP"),
        Profile("arm_default_nan", "FPCR.DN = 1: likewise; never run", _ARM_DEFAULT_NAN, "ARMFP"),
        Profile("riscv", "F and Zfh: the NaNs of arithmetic; to integers; never run", _RISCV, "RISCV"),
        Profile("p3109", "interim report 4.0, a draft", _P3109(), "P3109", _P3109_BLOCKS),
        Profile("ocp", "MX 1.0, and what it leaves open as this catalog has it", {}, "OCPMX", _OCP),
        Profile("torchao_floor", "0.18.0, eager, on CPUs", {}, "TORCHAO", _torchao("floor")),
        Profile("torchao_ceil", "0.18.0, eager, on CPUs", {}, "TORCHAO", _torchao("ceil")),
        Profile("torchao_even", "0.18.0, eager, on CPUs", {}, "TORCHAO", _torchao("even")),
        Profile(
            "torchao_rceil",
            "0.18.0, eager, on CPUs, but for the binary32 logarithm that it takes",
            {},
            "TORCHAO",
            _torchao(
                "rceil",
                arithmetic="product",
                scales=_NO_ZERO,
                smallest_divides_as=1.0,
                nan="all",
                infinity="largest",
            ),
        ),
        Profile("torchao_nvfp4", "0.18.0, eager, on CPUs", {}, "TORCHAO", _TORCHAO_NVFP4),
        Profile(
            "transformer_engine",
            "August 2026: its NVFP4 reference in Python, finite values; MXFP8 from its kernels, never run",
            {},
            "TRANSFORMER_ENGINE",
            _TRANSFORMER_ENGINE,
        ),
        Profile("modelopt", "August 2026, finite values", {}, "MODELOPT", _MODELOPT),
        Profile(
            "microxcaling",
            "1.1.0, elements of blocks with round=nearest, the default",
            {
                **_each(
                    (*_E4M3_E5M2, catalog.E2M3FN, catalog.E3M2FN, catalog.E2M1FN),
                    replace(_PROPAGATE, rounding=NEAREST_AWAY),
                ),
                catalog.INT8F6: replace(_PROPAGATE, rounding=NEAREST_AWAY, symmetric=True),
            },
            "MICROXCALING",
            _MICROXCALING,
        ),
        Profile(
            "unit_scaling",
            "FPFormat.quantise of its public code, the default; its E4M3 and E5M2 have the values of FNUZ",
            {fmt: _unit_scaling(fmt) for fmt in (catalog.E4M3FNUZ, catalog.E5M2FNUZ)},
            "UNIT_SCALING",
        ),
    ),
)


def profile(name: Profile | str) -> Profile:
    """The profile of that name, or the profile itself.

    >>> profile("ocp_ovf").source
    'OFP8'
    """
    if isinstance(name, Profile):
        return name
    if not isinstance(name, str):
        raise TypeError(f"profile must be a Profile or a name, not {name!r}")
    if name not in PROFILES:
        raise ValueError(f"unknown profile {name!r}; use one of {', '.join(PROFILES)}")
    return PROFILES[name]
