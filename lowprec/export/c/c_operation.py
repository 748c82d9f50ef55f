"""An operation as a C99 header: the kernels' formula in integers alone, with flags."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence

from lowprec.export.c.c_header import identifier
from lowprec.export.filling import filled
from lowprec.export.formula import Formula, formula
from lowprec.export.words import Word, in_order
from lowprec.kernels.request import CONVERT
from lowprec.spec.format import Format
from lowprec.spec.projection import DEFAULT, Flag, Projection

__all__ = ["operation_function", "operation_header", "operation_name"]

#: Longer expressions have a line of their own.
_LONGEST = 60

#: An expression in C, of the arguments' texts.
_TEXTS = {
    "add": "{} + {}",
    "subtract": "{} - {}",
    "multiply": "{} * {}",
    "and": "{} & {}",
    "or": "{} | {}",
    "xor": "{} ^ {}",
    "equal": "{} == {}",
    "not": "!{}",
    "select": "{} ? {} : {}",
    "up": "lowprec_up({}, {})",
    "down": "lowprec_down({}, {})",
    "length": "lowprec_bits({})",
    "quotient": "lowprec_quotient({}, {})",
    "root": "lowprec_root({}, {})",
}
_CALLS = ("up", "down", "length", "quotient", "root")


def operation_name(operation: str, sources: Sequence[Format], target: Format, projection: Projection) -> str:
    """Return the name of the function: the operation, its formats, and its mode and policy if they are named.

    >>> from lowprec.spec.catalog import BINARY16, E5M2
    >>> operation_name("fma", (E5M2, E5M2, E5M2), E5M2, DEFAULT)
    'lowprec_fma_e5m2'
    >>> operation_name("convert", (BINARY16,), E5M2, Projection(rounding="toward_zero"))
    'lowprec_convert_binary16_to_e5m2_toward_zero'
    """
    names = list(dict.fromkeys(fmt.name for fmt in sources))
    if operation != CONVERT and names == [target.name]:
        words = [operation, target.name]
    else:
        words = [operation, *(fmt.name for fmt in sources), "to", target.name]
    if projection.rounding != DEFAULT.rounding:
        words.append(str(projection.rounding))
    if projection.saturation != DEFAULT.saturation:
        words += ["saturate", projection.saturation.value]
    return "lowprec_" + "_".join(identifier(word) for word in words)


def operation_header(
    operation: str,
    sources: Sequence[Format],
    target: Format,
    projection: Projection = DEFAULT,
    provenance: str = "",
    name: str = "",
) -> str:
    """Return the header's text.

    Parameters
    ----------
    operation : str
        "convert", or a name of `lowprec.OPERATIONS`.
    sources : sequence of Format
        One for each operand.
    target : Format
    projection : Projection
    provenance : str
        Its first line: where it comes from.
    name : str
        Of the function; by default as `operation_name` says.

    Raises ValueError: what `formula` refuses.
    """
    function = operation_function(operation, sources, target, projection, provenance, name)
    return filled("words.h") + function + "\n#endif\n"


def operation_function(
    operation: str,
    sources: Sequence[Format],
    target: Format,
    projection: Projection,
    provenance: str,
    name: str = "",
    dpi: bool = True,
) -> str:
    """Return the function alone: not what all headers begin with (words.h), and not its last #endif."""
    found = formula(operation, sources, target, projection)
    name = name or operation_name(operation, sources, target, projection)
    given = [f"uint{fmt.code_bits}_t {word.name}" for word, fmt in zip(found.given, sources, strict=False)]
    takes = [f"{word.name} of {fmt.name}" for word, fmt in zip(found.given, sources, strict=False)]
    if len(found.given) > len(sources):
        given.append("uint32_t random")
        takes.append(f"a random integer of {projection.rounding.bits} bits")
    if operation == "scaleb":
        takes[1] += ", a whole number"
    said = {
        "provenance": provenance,
        "what": f"{operation}: {', '.join(takes)}; the result in {target.name}, {projection}",
        "guard": f"{name.upper()}_H",
        "name": name,
        "code": f"uint{target.code_bits}_t",
        "given": ", ".join(given),
        "body": "\n".join(f"    {line}" for line in _body(found, f"uint{target.code_bits}_t")),
        "flags": ", ".join(
            f"{flag.value} {flag.name.lower().replace('_', ' ')}" for flag in Flag if flag.name
        ),
        "dpi": ", ".join(["uint32_t " + word.name for word in found.given]),
        "passed": ", ".join(
            [f"({text.split()[0]}){word.name}" for text, word in zip(given, found.given, strict=True)]
        ),
    }
    has_dpi = dpi and max(fmt.width for fmt in (*sources, target)) <= 32
    parts = ["operation.h", *["operation_dpi.h"] * has_dpi]
    return "".join("\n" + filled(part, said) for part in parts)


def _body(found: Formula, code: str) -> Iterator[str]:
    """Yield the lines of the function."""
    ordered, ends = in_order([found.code, found.flags])
    for unused in sorted({word.name for word in found.given} - {word.name for word, _ in ordered}):
        yield f"(void){unused};"
    used = Counter(place for _, args in ordered for place in args)
    texts: list[str] = []
    names: Counter[str] = Counter()
    for place, (word, args) in enumerate(ordered):
        text = _text(word, [texts[each] for each in args])
        if used[place] > 1 and args or len(text) > _LONGEST:
            stem = word.name or "word"
            names[stem] += 1
            yield f"const uint64_t {stem}{names[stem]} = {_bare(text)};"
            text = f"{stem}{names[stem]}"
        texts.append(text)
    made, raised = (_bare(texts[end]) for end in ends)
    yield "if (flags)"
    yield f"    *flags = (uint8_t)({raised});"
    yield f"return ({code})({made});"


def _text(word: Word, args: Sequence[str]) -> str:
    """Return an expression, in parentheses where it has an operator between others."""
    if word.operation == "given":
        return word.name if word.name != "random" else "(uint64_t)random"
    if word.value is not None:
        return str(word.value) if word.value < 1 << 12 else f"UINT64_C({word.value:#x})"
    if word.operation in ("of_truth", "same"):
        return f"(uint64_t){args[0]}" if args[0].startswith("!") else args[0]
    if word.operation == "less":
        signed = word.args[0].kind == "signed"
        return f"lowprec_less({args[0]}, {args[1]})" if signed else f"({args[0]} < {args[1]})"
    if word.operation == "down" and word.kind == "signed":
        return f"lowprec_halved({args[0]}, {args[1]})"
    if word.operation in ("and", "or", "xor") and word.kind == "truth":
        args = [f"(uint64_t){each}" if each.startswith("!") else each for each in args]
    text = _TEXTS[word.operation].format(*(map(_bare, args) if word.operation in _CALLS else args))
    return text if word.operation in _CALLS or word.operation == "not" else f"({text})"


def _bare(text: str) -> str:
    """Return an expression without the parentheses around all of it."""
    if not (text.startswith("(") and text.endswith(")")):
        return text
    depth = 0
    for place, sign in enumerate(text):
        depth += (sign == "(") - (sign == ")")
        if depth == 0:
            return text[1:-1] if place == len(text) - 1 else text
    return text
