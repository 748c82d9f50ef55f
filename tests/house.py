"""Lines of code, files and words of this checkout, counted: `python -m tests.house`.

Lines of code are those without docstrings, comments and blanks.
"""

import ast
import io
import re
import subprocess
import tokenize
from collections import Counter
from pathlib import Path

from rich.console import Console
from rich.table import Table

ROOT = Path(__file__).parents[1]
#: Tokens that make no line a line of code.
_BLANK = {
    *(tokenize.COMMENT, tokenize.NL, tokenize.NEWLINE),
    *(tokenize.INDENT, tokenize.DEDENT, tokenize.ENDMARKER),
}
_DOCUMENTED = (ast.Module, ast.ClassDef, ast.FunctionDef, ast.AsyncFunctionDef)
#: A function of more lines, without its docstring, or of more parameters, says why.
LINES, PARAMETERS = 60, 8


def _docstring(node: ast.AST) -> range:
    """Return the lines of a docstring; none of what has none."""
    if not isinstance(node, _DOCUMENTED) or ast.get_docstring(node) is None:
        return range(0)
    return range(node.body[0].lineno, (node.body[0].end_lineno or 0) + 1)


def code_lines(source: str) -> int:
    """Return the lines of code of a file."""
    lines: set[int] = set()
    for token in tokenize.generate_tokens(io.StringIO(source).readline):
        if token.type not in _BLANK:
            lines.update(range(token.start[0], token.end[0] + 1))
    return len(lines.difference(*map(_docstring, ast.walk(ast.parse(source)))))


def _sizes(source: str) -> list[tuple[int, int]]:
    """Return the lines and the parameters of each function."""
    functions = [node for node in ast.walk(ast.parse(source)) if isinstance(node, ast.FunctionDef)]
    return [
        (
            (node.end_lineno or 0) - node.lineno + 1 - len(_docstring(node)),
            len([*node.args.posonlyargs, *node.args.args, *node.args.kwonlyargs]),
        )
        for node in functions
    ]


def main() -> None:
    """Print a table of folders, and what else there is to count."""
    table = Table("folder", "files", "lines of code")
    for column in table.columns[1:]:
        column.justify = "right"
    sources = {top: {p: p.read_text() for p in (ROOT / top).rglob("*.py")} for top in ("lowprec", "tests")}
    for top, files in sources.items():
        counts, lines = Counter[str](), Counter[str]()
        for path, source in files.items():
            for name in {top, "/".join(path.relative_to(ROOT).parts[:2])}:
                counts[name] += 1
                lines[name] += code_lines(source)
        for name, count in sorted(lines.items()):
            if (ROOT / name).is_dir():
                table.add_row(name, f"{counts[name]:,}", f"{count:,}")
    sizes = [size for source in sources["lowprec"].values() for size in _sizes(source)]
    kept = subprocess.run(
        ["git", "ls-files", "docs", "*.md"], cwd=ROOT, capture_output=True, text=True, check=True
    )
    pages = [ROOT / name for name in kept.stdout.split() if re.fullmatch(r"docs/.*\.md|[^/]*\.md", name)]
    words = sum(len(re.findall(r"\S+", page.read_text())) for page in pages)
    console = Console()
    console.print(table)
    console.print(f"{sum(size[0] > LINES for size in sizes)} functions of more than {LINES} lines")
    console.print(
        f"{sum(size[1] > PARAMETERS for size in sizes)} functions of more than {PARAMETERS} parameters"
    )
    console.print(f"{words:,} words on {len(pages)} pages")


if __name__ == "__main__":
    main()
