"""Operations of the draft, and their specializations, which are called on codes.

Floor 3b.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any

import numpy as np
import numpy.typing as npt

from lowprec.arrays.kinds import apply, is_outside
from lowprec.arrays.orders.order_parts import codes_in
from lowprec.kernels.modes import usual_arithmetic
from lowprec.p3109.parameters import (
    SATURATIONS,
    Specified,
    bits_of,
    format_of,
    name_of,
    projection,
    specified,
)
from lowprec.p3109.projecting import block_projected, check_bits, projected
from lowprec.p3109.queries import COMPARISONS, NEIGHBOURS, OF_FORMATS, OF_SPECIFICATIONS, PREDICATES
from lowprec.p3109.values import VALUES, Numbers, decoded, multiplied, product, summed
from lowprec.spec.format import Format
from lowprec.spec.naming import close_names
from lowprec.spec.projection import DEFAULT

__all__ = ["OPERATIONS", "Operation", "Specialization", "specialization"]

Random = npt.ArrayLike | None


@dataclass(frozen=True)
class Operation:
    """An operation of the draft: indexed by formats and projections it gives a specialization.

    >>> from lowprec import p3109
    >>> p3109.Add["Binary8p4se", "Binary8p4se", "Binary8p3se", ("NearestTiesToEven", "SatNone")]
    Add<Binary8p4se, Binary8p4se, Binary8p3se, (NearestTiesToEven, SatNone)>
    >>> p3109.Add.signature
    'Add<fx, fy, fr, ρ>(x, y) → r'

    Parameters
    ----------
    name : str
    parameters : tuple of str
        What it is specialized by: B a block size, f a format, ρ a projection specification.
    operands : tuple of str
        Of a call; ``(s, x)`` is a block, a pair of a scale factor and elements.
    results : str
    section : str
        Of the draft.

    Source: [P3109] 4.1.
    """

    name: str
    parameters: tuple[str, ...]
    operands: tuple[str, ...]
    results: str
    section: str

    @property
    def signature(self) -> str:
        """The operation with its parameters, operands and results, as the draft writes it."""
        given = ", ".join(self.parameters)
        return f"{self.name}<{given}>({', '.join(self.operands)}) → {self.results}"

    @property
    def is_numeric(self) -> bool:
        """True if the operation has results that are floating-point values, rounded or not."""
        return "ρ" in self.parameters or self.name in NEIGHBOURS

    def __getitem__(self, parameters: Any) -> Specialization:
        given, wanted = parameters, self.parameters
        if not isinstance(given, tuple) or (wanted == ("ρ",) and not isinstance(given[0], tuple)):
            given = (given,)
        flat: list[Any] = []
        for each in given:  # formats may come in pairs, such as (fs, fx)
            specifies = wanted[len(flat) : len(flat) + 1] in (("ρ",), ("ρs",)) or _is_specified(each)
            flat += each if isinstance(each, tuple) and not specifies else (each,)
        if len(flat) != len(wanted):
            raise TypeError(
                f"{self.name} is specialized by {len(wanted)} parameters, {self.name}<{', '.join(wanted)}>, "
                f"not by {len(flat)}"
            )
        made = tuple(_parameter(each, kind, self.name) for each, kind in zip(flat, wanted, strict=True))
        return Specialization(self, made)

    def __call__(self, parameter: Any) -> Any:
        """Return what an operation on a format or a projection specification says of it."""
        if self.operands:
            raise TypeError(
                f"{self.name} is called once it is specialized: {self.name}[{', '.join(self.parameters)}]"
                f"({', '.join(self.operands)})"
            )
        return self[parameter]()

    def __repr__(self) -> str:
        return f"{self.name}<{', '.join(self.parameters)}>"


def _is_specified(given: object) -> bool:
    return isinstance(given, tuple) and len(given) == 2 and given[1] in tuple(SATURATIONS)


def _parameter(given: object, kind: str, name: str) -> Format | Specified | int:
    if kind == "B":
        if isinstance(given, bool) or not isinstance(given, int) or given < 1:
            raise ValueError(f"{name} takes a block size here, an integer of 1 or more, not {given!r}")
        return given
    return specified(given, name) if kind.startswith("ρ") else format_of(given, name)


@dataclass(frozen=True, repr=False)
class Specialization:
    """An operation with its parameters: called on codes it gives codes, or what they are.

    >>> from lowprec import p3109
    >>> exp = p3109.specialization("Exp<Binary8p3se, Binary8p4se, (NearestTiesToEven, SatFinite)>")
    >>> exp([0x40, 0x7F])
    array([ 75, 126], dtype=uint8)

    Parameters
    ----------
    operation : Operation
    parameters : tuple of int, Format and Specified

    Source: [P3109] 4.1, 4.6.
    """

    operation: Operation
    parameters: tuple[Any, ...]

    def parameter(self, name: str) -> Any:
        """Return a parameter by the name that it has in the signature.

        >>> specialization("BitwidthOf<Binary6p2uf>").parameter("f").name
        'binary6p2uf'

        Raises ValueError: no such parameter.
        """
        return self.parameters[self.operation.parameters.index(name)]

    @property
    def formats(self) -> tuple[Format, ...]:
        """The formats of the operands, in their order; of a block that of its scale, then of its elements.

        >>> [fmt.name for fmt in specialization("Exp<binary16, Binary8p4se, (ToOdd, SatNone)>").formats]
        ['binary16']
        """
        names = [name for name in self.operation.parameters if name.startswith("f") and name != "fr"]
        if self.operation.name == "ConvertToBlockMaxAbsFinite":
            names.remove("fs")
        return tuple(self.parameter(name) for name in names)

    @property
    def results(self) -> tuple[Format, ...]:
        """The formats of the results, none where they are no floating-point values."""
        if self.operation.name in NEIGHBOURS:
            return self.formats
        if "ρ" not in self.operation.parameters:
            return ()
        pair = self.operation.results.startswith("(")
        return (*((self.parameter("fs"),) if pair else ()), self.parameter("fr"))

    def __call__(self, *operands: Any, random: Random = None, random_scale: Random = None) -> Any:
        """Return the results for operands, arrays of codes of any kind that broadcast; blocks in memory.

        `random` has the integers of stochastic rounding, one for each element of the result; `random_scale`
        those of a scale that is rounded so.
        """
        names = self.operation.operands
        if len(operands) != len(names):
            raise TypeError(
                f"{self.operation.name} takes {len(names)} operands, ({', '.join(names)}), "
                f"not {len(operands)}"
            )
        self._check_random("ρ", random, "random")
        self._check_random("ρs", random_scale, "random_scale")
        given = [each for part in operands for each in (part if isinstance(part, tuple) else (part,))]
        if any(map(is_outside, (*given, random, random_scale))):
            if (
                len(given) > len(operands)
                or self.operation.results.startswith("(")
                or "B" in self.operation.parameters
            ):
                raise TypeError(
                    f"{self} takes blocks as arrays of NumPy; give .to_numpy(), or compute() lazy ones first"
                )
            rounds = "ρ" in self.operation.parameters
            rule = projection(self.parameter("fr"), self.parameter("ρ")) if rounds else DEFAULT
            return apply(self._run, *operands, rule=rule, random=random)
        return self._run(*operands, random=random, random_scale=random_scale)

    def _run(self, *operands: Any, random: Random = None, random_scale: Random = None) -> Any:
        with usual_arithmetic():
            return _RUN[self.operation.name](self, *operands, random=random, random_scale=random_scale)

    def _check_random(self, which: str, given: Random, keyword: str) -> None:
        mode = self.parameter(which).rounding if which in self.operation.parameters else None
        bits = bits_of(mode) if mode and self.operation.operands else 0
        if bits and given is None:
            raise ValueError(
                f"{self} needs {keyword}=, an integer from 0 to {(1 << bits) - 1} for each result: the draft "
                f"takes random bits as they come"
            )
        if not bits and given is not None:
            raise TypeError(f"{self} takes no {keyword}=, as nothing is rounded stochastically; leave it out")

    def __str__(self) -> str:
        return f"{self.operation.name}<{', '.join(self._spelled())}>"

    __repr__ = __str__

    def _spelled(self) -> Iterator[str]:
        parts = [name_of(each) if isinstance(each, Format) else str(each) for each in self.parameters]
        names = self.operation.parameters
        while parts:
            paired = names[0].startswith("fs") and names[0][2:].isdigit()  # (fs1, fx1), as the draft has it
            count = 2 if paired else 1
            yield f"({', '.join(parts[:2])})" if paired else parts[0]
            parts, names = parts[count:], names[count:]


def specialization(text: str) -> Specialization:
    """Return the specialization that a string names, as the draft writes it.

    >>> specialization("FMA<Binary8p4se, Binary8p4se, binary16, binary16, (TowardZero, SatNone)>")
    FMA<Binary8p4se, Binary8p4se, binary16, binary16, (TowardZero, SatNone)>

    Raises ValueError, TypeError: no operation, format or mode of the draft, or not those that it takes.

    Source: [P3109] 4.6.
    """
    name, bracket, rest = text.strip().partition("<")
    if not bracket or not rest.endswith(">"):
        raise ValueError(
            f"{text!r} is no specialization; write such as 'Exp<Binary8p3se, Binary8p4se, (ToOdd, SatNone)>'"
        )
    return find(name.strip())[tuple(_parsed(rest[:-1]))]


def _parsed(text: str) -> Iterator[Any]:
    """Yield parameters: integers, names, and pairs in parentheses."""
    depth, part = 0, ""
    for sign in [*text, ","]:
        if sign == "," and depth == 0:
            part = part.strip()
            if part.startswith("(") and part.endswith(")"):
                yield tuple(each.strip() for each in part[1:-1].split(","))
            else:
                yield int(part) if part.isdecimal() else part
            part = ""
            continue
        depth += (sign == "(") - (sign == ")")
        part += sign


def find(name: str) -> Operation:
    """Return the operation of that name, or say which names are near.

    >>> find("Sqrt")
    Sqrt<fx, fr, ρ>
    """
    if name in OPERATIONS:
        return OPERATIONS[name]
    lower = {known.lower(): known for known in OPERATIONS}
    near = [lower[each] for each in close_names(name, lower)]
    hint = f"did you mean {' or '.join(near)}? " if near else ""
    raise ValueError(f"unknown operation {name!r} of P3109; {hint}lowprec.p3109.OPERATIONS has all names")


# -- what calls do -----------------------------------------------------------------------------------------

Run = Callable[..., Any]


def _given(made: Any) -> Any:
    """Return an array, or a scalar where there are no axes."""
    return made if np.ndim(made) else np.asarray(made)[()]


def _block(block: Any, spec: Specialization, scale: str, element: str) -> Numbers:
    """Return the products of a block's scale and elements: ωBlockDecode. Source: [P3109] 5.1.1."""
    name = spec.operation.name
    if not isinstance(block, tuple) or len(block) != 2:
        raise TypeError(f"{name} takes blocks as pairs (s, x), not {type(block).__name__}")
    return product(decoded(block[0], spec.parameter(scale))[..., None], _elements(block[1], spec, element))


def _elements(codes: npt.ArrayLike, spec: Specialization, element: str) -> Numbers:
    x, size = decoded(codes, spec.parameter(element)), spec.parameter("B")
    if not x.ndim or x.shape[-1] != size:
        raise ValueError(
            f"{spec.operation.name} has blocks of {size} along the last axis, and elements of shape "
            f"{x.shape} were given"
        )
    return x


def _into(spec: Specialization, x: Numbers, random: Random) -> Any:
    how = spec.parameter("ρ")
    check_bits(spec.parameter("fr"), how, None, spec.operation.name)
    return _given(projected(x, spec.parameter("fr"), how, random))


def _into_block(spec: Specialization, x: Numbers, s: npt.ArrayLike, random: Random) -> Any:
    """Return the scale factor and the elements of a block: ωBlockProject."""
    how, fmt, fs = spec.parameter("ρ"), spec.parameter("fr"), spec.parameter("fs")
    check_bits(fmt, how, fs, spec.operation.name)
    scale = decoded(s, fs)
    return _given(codes_in(s, fs)), _given(block_projected(x, scale[..., None], fmt, how, random))


def _elementwise(spec: Specialization, *codes: npt.ArrayLike, random: Random, random_scale: Random) -> Any:
    numbers = [decoded(each, fmt) for each, fmt in zip(codes, spec.formats, strict=True)]
    return _into(spec, VALUES[spec.operation.name](*numbers), random)


def _scaled(spec: Specialization, *codes: npt.ArrayLike, random: Random, random_scale: Random) -> Any:
    numbers = [decoded(each, fmt) for each, fmt in zip(codes, spec.formats, strict=True)]
    products = [product(s, x) for s, x in zip(numbers[::2], numbers[1::2], strict=True)]
    return _into(spec, VALUES[spec.operation.name.removeprefix("Scaled")](*products), random)


def _block_op(spec: Specialization, *operands: Any, random: Random, random_scale: Random) -> Any:
    *blocks, s = operands
    numbers = [_block(block, spec, f"fs{i}", f"fx{i}") for i, block in enumerate(blocks, 1)]
    return _into_block(spec, VALUES[spec.operation.name.removeprefix("Block")](*numbers), s, random)


def _compared(spec: Specialization, x: Any, y: Any, *, random: Random, random_scale: Random) -> Any:
    fx, fy = spec.formats
    return _given(COMPARISONS[spec.operation.name](decoded(x, fx), decoded(y, fy)))


def _said(spec: Specialization, x: Any, *, random: Random, random_scale: Random) -> Any:
    (fmt,) = spec.formats
    return _given(PREDICATES[spec.operation.name](decoded(x, fmt), fmt))


def _neighbour(spec: Specialization, x: Any, *, random: Random, random_scale: Random) -> Any:
    (fmt,) = spec.formats
    return _given(NEIGHBOURS[spec.operation.name](x, fmt))


def _of_format(spec: Specialization, *, random: Random, random_scale: Random) -> Any:
    return OF_FORMATS[spec.operation.name](spec.parameter("f"))


def _of_specification(spec: Specialization, *, random: Random, random_scale: Random) -> Any:
    return OF_SPECIFICATIONS[spec.operation.name](spec.parameter("ρ"))


def _from_block(spec: Specialization, s: Any, x: Any, *, random: Random, random_scale: Random) -> Any:
    return _into(spec, _block((s, x), spec, "fs", "fx"), random)


def _to_block(spec: Specialization, x: Any, s: Any, *, random: Random, random_scale: Random) -> Any:
    return _into_block(spec, _elements(x, spec, "fx"), s, random)


def _to_block_by_max(spec: Specialization, x: Any, *, random: Random, random_scale: Random) -> Any:
    elements = _elements(x, spec, "fx")
    sizes = np.moveaxis(np.abs(elements), -1, 0)
    largest = functools.reduce(VALUES["MaximumFinite"], sizes, np.full(sizes.shape[1:], np.nan))
    fs, how = spec.parameter("fs"), spec.parameter("ρs")
    check_bits(fs, how, None, spec.operation.name)
    return _into_block(spec, elements, projected(largest, fs, how, random_scale), random)


def _sum(spec: Specialization, block: Any, *, random: Random, random_scale: Random) -> Any:
    return _into(spec, summed(x := _block(block, spec, "fs", "fx"), np.ones(x.shape[-1])), random)


def _product(spec: Specialization, block: Any, *, random: Random, random_scale: Random) -> Any:
    return _into(spec, multiplied(_block(block, spec, "fs", "fx")), random)


def _dot_product(spec: Specialization, x: Any, y: Any, *, random: Random, random_scale: Random) -> Any:
    return _into(spec, summed(_block(x, spec, "fsx", "fx"), _block(y, spec, "fsy", "fy")), random)


# -- the table -----------------------------------------------------------------------------------------------

#: Sections of operations on values, and what their operands are called.
_SECTIONS: Mapping[str, tuple[str, Sequence[str]]] = {
    "4.9.1": ("x", ("Convert",)),
    "4.10.1": ("x", ("Abs", "Negate")),
    "4.10.2": ("x y", ("CopySign",)),
    "4.10.3": ("x y", ("Add", "Subtract")),
    "4.10.4": ("x y", ("Multiply",)),
    "4.10.5": ("x y", ("Divide",)),
    "4.10.6": ("x y z", ("FMA",)),
    "4.10.7": ("x y z", ("FAA",)),
    "4.10.8": ("x", ("Sqrt", "Recip", "RSqrt")),
    "4.10.9": ("x", ("Exp", "Exp2", "Log", "Log2", "LogOnePlus", "ExpMinusOne")),
    "4.10.10": ("x", ("Sin", "Cos", "Tan", "ArcSin", "ArcCos", "ArcTan")),
    "4.10.11": ("x", ("Sinh", "Cosh", "Tanh", "ArcSinh", "ArcCosh", "ArcTanh")),
    "4.10.12": ("x", ("SinPi", "CosPi", "TanPi", "ArcSinPi", "ArcCosPi", "ArcTanPi")),
    "4.10.13": ("x", ("Softplus",)),
    "4.10.14": ("x y", ("Hypot",)),
    "4.10.15": ("y x", ("ArcTan2",)),
    "4.10.16": ("y x", ("ArcTan2Pi",)),
    "4.11.1": ("x y", ("Minimum", "Maximum", "MinimumNumber", "MaximumNumber")),
    "4.11.2": (
        "x y",
        ("MinimumMagnitude", "MaximumMagnitude", "MinimumMagnitudeNumber", "MaximumMagnitudeNumber"),
    ),
    "4.11.3": ("x y", ("MinimumFinite", "MaximumFinite")),
    "4.11.4": ("x lo hi", ("Clamp",)),
}


def _rows() -> Iterator[tuple[Operation, Run]]:
    """Yield every operation, in the order of the draft, and what a call of it does."""
    single = [
        (name, tuple(given.split()), section)
        for section, (given, names) in _SECTIONS.items()
        for name in names
    ]
    for name, operands, section in single:
        formats = tuple(f"f{operand}" for operand in operands)
        yield Operation(name, (*formats, "fr", "ρ"), operands, "r", section), _elementwise
    for name in COMPARISONS:
        section = "4.12.1" if name == "TotalOrder" else "4.12"
        yield Operation(name, ("fx", "fy"), ("x", "y"), "b", section), _compared
    for name in PREDICATES:
        section, result = ("4.13.1", "c") if name == "Class" else ("4.13", "b")
        yield Operation(name, ("f",), ("x",), result, section), _said
    for name in OF_FORMATS:
        yield Operation(name, ("f",), (), "n", "4.14"), _of_format
    for name in OF_SPECIFICATIONS:
        yield Operation(name, ("ρ",), (), "e", "4.15"), _of_specification
    for name in NEIGHBOURS:
        yield Operation(name, ("f",), ("x",), "r", "4.16"), _neighbour
    yield Operation("ConvertFromBlock", ("B", "fs", "fx", "fr", "ρ"), ("s", "x"), "r", "5.2.1"), _from_block
    yield Operation("ConvertToBlock", ("B", "fx", "fs", "fr", "ρ"), ("x", "s"), "(s, r)", "5.2.2"), _to_block
    by: tuple[str, ...] = ("B", "fx", "fs", "fr", "ρs", "ρ")
    yield Operation("ConvertToBlockMaxAbsFinite", by, ("x",), "(s, r)", "5.2.3"), _to_block_by_max
    for name, run in {"BlockReduceAdd": _sum, "BlockReduceMultiply": _product}.items():
        yield Operation(name, ("B", "fs", "fx", "fr", "ρ"), ("(s, x)",), "r", "5.3.1"), run
    by = ("B", "fsx", "fx", "fsy", "fy", "fr", "ρ")
    yield Operation("BlockDotProduct", by, ("(sx, x)", "(sy, y)"), "r", "5.3.2"), _dot_product
    for name, operands, _ in single:
        count = range(1, len(operands) + 1)
        pairs = tuple(each for i in count for each in (f"fs{i}", f"fx{i}"))
        blocks = tuple(f"(s{i}, x{i})" for i in count)
        block = Operation(f"Block{name}", ("B", *pairs, "fs", "fr", "ρ"), (*blocks, "sr"), "(sr, r)", "5.4")
        yield block, _block_op
    for name, operands, _ in single:
        count = range(1, len(operands) + 1)
        pairs = tuple(each for i in count for each in (f"fs{i}", f"fx{i}"))
        flat = tuple(each for i in count for each in (f"s{i}", f"x{i}"))
        yield Operation(f"Scaled{name}", (*pairs, "fr", "ρ"), flat, "r", "5.5"), _scaled


_BY_NAME = {operation.name: (operation, run) for operation, run in _rows()}

#: Every operation of the draft by its name.
OPERATIONS: Mapping[str, Operation] = MappingProxyType({name: row[0] for name, row in _BY_NAME.items()})

_RUN = {name: run for name, (_, run) in _BY_NAME.items()}
