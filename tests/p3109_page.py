"""The table of docs/p3109.md: every operation, its status, and the command that checks it.

python -m tests.p3109_page             print the table
python -m tests.p3109_page --write     and put it into the page
"""

import pathlib
import sys

from lowprec.p3109.operations import OPERATIONS, Operation
from lowprec.p3109.queries import COMPARISONS, NEIGHBOURS, OF_FORMATS, OF_SPECIFICATIONS, PREDICATES
from lowprec.p3109.values import VALUES

PAGE = pathlib.Path(__file__).parents[1] / "docs" / "p3109.md"
BEGIN, END = "<!-- python -m tests.p3109_page --write: begin -->\n", "<!-- end -->\n"

#: How rows are checked: letters that the page explains, and the test.
_OF = {
    1: ("A D", "test_operations_of_one_operand[{}]"),
    2: ("A D", "test_operations_of_two_operands[{}]"),
    3: ("A", "test_operations_of_three_operands[{}]"),
}
_REDUCTIONS = ("BlockReduceAdd", "BlockReduceMultiply", "BlockDotProduct")
_CONVERSIONS = ("ConvertFromBlock", "ConvertToBlock", "ConvertToBlockMaxAbsFinite")


def checked(operation: Operation) -> tuple[str, str]:
    """Return how an operation is checked, and the test that does."""
    name = operation.name
    if name in VALUES:
        how, test = _OF[len(operation.operands)]
        return how, test.format(name)
    if name in COMPARISONS:
        return "A D", f"test_comparisons[{name}]"
    if name in PREDICATES:
        return "A D", "test_predicates_and_classes"
    if name in NEIGHBOURS:
        return "A D", "test_neighbours"
    if name in OF_FORMATS:
        return "A", "test_operations_on_formats"
    if name in OF_SPECIFICATIONS:
        return "A", "test_operations_on_projection_specifications"
    if name in _REDUCTIONS:
        return "B", "test_reductions"
    if name in _CONVERSIONS:
        return "B", "test_conversions_of_blocks"
    return "B", f"scaled_ones[{name.removeprefix('Block').removeprefix('Scaled')}]"


def status(operation: Operation) -> str:
    """Return of which parameters an operation is served."""
    external = any(name.startswith("f") for name in operation.parameters)
    return "every format below, and external ones" if external else "every specification"


def table() -> str:
    """Return the rows of all operations."""
    command = 'pytest -m "not long" tests/agreement/test_p3109.py -k'
    lines = [f"| operation | section | status | checked | `{command}` |"]
    lines.append("|---|---|---|---|---|")
    for operation in OPERATIONS.values():
        how, test = checked(operation)
        lines.append(
            f"| `{operation.signature}` | {operation.section} | {status(operation)} | {how} | `{test}` |"
        )
    return "\n".join(lines) + "\n"


def page(text: str) -> str:
    """Return the page with the table of today."""
    before, _, rest = text.partition(BEGIN)
    _, _, after = rest.partition(END)
    return f"{before}{BEGIN}\n{table()}\n{END}{after}"


def main() -> int:
    """Print the table, or write it."""
    if sys.argv[1:] == ["--write"]:
        PAGE.write_text(page(PAGE.read_text()))
    else:
        print(table(), end="")
    return 0


if __name__ == "__main__":
    sys.exit(main())
