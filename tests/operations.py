"""What tests of operations share: the oracle on arrays, and operands that matter."""

from collections.abc import Sequence

import numpy as np

import lowprec as lp
from lowprec.arrays.checks import Operand, code_dtype, codes_operand
from lowprec.arrays.operations import codes_of
from lowprec.oracle import arith as oracle
from lowprec.oracle.convert import decode, project
from lowprec.oracle.flags import is_signaling
from lowprec.spec import catalog
from lowprec.spec.arith import OPERANDS
from lowprec.spec.format import Carrier, Format
from lowprec.spec.projection import Projection
from lowprec.spec.rounding import NEAREST_EVEN, TOWARD_NEGATIVE, Rounding
from tests.support import assert_same_codes

Columns = Sequence[np.ndarray]


class Expected:
    """What the oracle gives of operands: it is asked once for each exact result."""

    def __init__(self, operation: str, columns: Columns, formats: Sequence[Format]) -> None:
        """Operands are columns of codes."""
        self.operation, self.formats = operation, tuple(formats)
        self.rows = list(zip(*(column.tolist() for column in columns), strict=True))
        codes = [set(column.tolist()) for column in columns]
        pairs = list(zip(codes, formats, strict=True))
        self._values = [{code: decode(code, fmt) for code in known} for known, fmt in pairs]
        self._signaling = [{code for code in known if is_signaling(code, fmt)} for known, fmt in pairs]
        self._exact: dict[object, list[tuple[oracle.Result, bool]]] = {}

    def exact(self, rounding: Rounding) -> list[tuple[oracle.Result, bool]]:
        """Each exact result, and whether an operand signals. Of the mode only what it says of zero counts."""
        key: object = rounding if self.operation == "round_to_integral" else rounding.downward
        if key not in self._exact:
            mode = rounding if key is rounding else TOWARD_NEGATIVE if key else NEAREST_EVEN
            self._exact[key] = [
                (
                    oracle.exact(
                        self.operation,
                        [known[code] for known, code in zip(self._values, row, strict=True)],
                        mode,
                    ),
                    any(code in known for known, code in zip(self._signaling, row, strict=True)),
                )
                for row in self.rows
            ]
        return self._exact[key]

    def codes(self, target: Format, projection: Projection) -> np.ndarray:
        """The codes in a format."""
        results = [result.value for result, _ in self.exact(projection.rounding)]
        found = {value: project(value, target, projection) for value in set(results)}
        return np.array([found[value] for value in results])

    def codes_and_flags(self, target: Format, projection: Projection) -> tuple[np.ndarray, np.ndarray]:
        """And what is signaled."""
        keys = self.exact(projection.rounding)
        first = dict(zip(reversed(keys), reversed(self.rows), strict=True))
        found = {
            key: oracle.operate(self.operation, row, self.formats, target, projection)
            for key, row in first.items()
        }
        return np.array([found[key][0] for key in keys]), np.array(
            [int(found[key][1]) for key in keys], np.uint8
        )


def operand(codes: np.ndarray, fmt: Format) -> Operand:
    """Codes of a format, or of a type that is none."""
    if fmt == catalog.BINARY32:  # as float32, which is how it comes: one kernel less for each operation
        bits = codes.astype(np.uint32)
        return Operand(bits, fmt, bits.view(np.float32), True)
    if not isinstance(fmt, Carrier):
        return codes_operand(codes.astype(code_dtype(fmt)), fmt)
    kind = "f" if fmt.exponent_bits else "i" if fmt.sign_code else "u"
    bits = codes.astype(f"u{fmt.width // 8}")
    return Operand(bits, fmt, bits.view(f"{kind}{fmt.width // 8}"), True)


def agrees(expected: Expected, columns: Columns, target: Format, projection: Projection) -> None:
    """Both kernels have the oracle's codes, and the general one its flags."""
    operands = [operand(column, fmt) for column, fmt in zip(columns, expected.formats, strict=True)]
    want, signals = expected.codes_and_flags(target, projection)
    flags = np.zeros(want.size, np.uint8)
    general = codes_of(expected.operation, operands, target, projection, code_dtype(target), flags=flags)
    fast = codes_of(expected.operation, operands, target, projection, code_dtype(target))
    for got in (general, fast):
        assert_same_codes(got, want, target, expected.rows, projection)
    wrong = np.flatnonzero(flags != signals)[:1]
    assert wrong.size == 0, (
        f"{expected.operation} of {expected.rows[wrong[0]]}: {flags[wrong]}, not {signals[wrong]}"
    )


def policy(fmt: Format, **fields: object) -> Projection:
    """A projection that has a code for everything."""
    return Projection(nan="error" if fmt.has_nan else "max", **fields)  # type: ignore[arg-type]


def all_tuples(fmt: Format, count: int) -> list[np.ndarray]:
    """All combinations of codes, as columns."""
    grid = np.meshgrid(*[np.arange(1 << fmt.width)] * count, indexing="ij")
    return [column.reshape(-1) for column in grid]


def chosen(operation: str, fmt: Format, count: int, seed: int) -> list[np.ndarray]:
    """Columns of codes: random patterns; neighbours, for cancellation; results that lie at ties; specials."""
    rng = np.random.default_rng(seed)
    width, operands = fmt.width, OPERANDS[operation]
    columns = [rng.integers(0, 1 << width, count) for _ in range(operands)]
    near = slice(0, count // 3)
    if operands > 1:  # alike but for the sign and some of the last bits
        columns[1][near] = columns[0][near] ^ fmt.sign_code ^ rng.integers(0, 16, columns[0][near].size)
    few = slice(count // 3, 2 * (count // 3))
    for column in columns:  # few significant bits: exact results, and ties
        keep = ~((1 << rng.integers(0, fmt.trailing_bits, column[few].size)) - 1)
        column[few] &= keep
    if operands > 1:  # and exponents that are close
        shift = rng.integers(-3, fmt.trailing_bits + 3, columns[1][few].size) << fmt.trailing_bits
        columns[1][few] = (columns[0][few] + shift) & ((1 << width) - 1) ^ (columns[1][few] & fmt.sign_code)
        columns[1][few] ^= rng.integers(0, 2, columns[1][few].size) << max(fmt.trailing_bits - 2, 0)
    if operands == 3:  # an addend next to what the product is
        third = slice(0, count // 2)
        values = [
            lp.decode(column[third].astype(code_dtype(fmt)), fmt, dtype="float64") for column in columns[:2]
        ]
        with np.errstate(all="ignore"):
            product = lp.encode(-values[0] * values[1], fmt).astype(np.int64)
        columns[2][third] = (
            product ^ rng.integers(0, 3, product.size) ^ (rng.integers(0, 2, product.size) * fmt.sign_code)
        )
    normal, last = 1 << fmt.trailing_bits, (1 << fmt.width) - 1 & ~fmt.sign_code
    special = [
        0, 1, normal - 1, normal, fmt.max_magnitude, fmt.max_magnitude + 1, fmt.max_magnitude + 2, last,
    ]  # fmt: skip
    special = [magnitude for magnitude in special if magnitude <= last]
    for column in columns:
        column[-count // 12 :] = (
            rng.choice(special, column[-count // 12 :].size) | rng.integers(0, 2, 1) * fmt.sign_code
        )
    return columns
