"""Explanations of one value in one format: every profile's answer, and the rule that is the reason for it.

Answers come from the oracle alone; no kernel is compiled.
"""

from __future__ import annotations

import dataclasses
import itertools
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

from lowprec import __version__
from lowprec.oracle.convert import cast, decode, project, value_of
from lowprec.oracle.exact import Exact, Special, is_negative
from lowprec.spec.catalog import BINARY64
from lowprec.spec.codebook import Codebook
from lowprec.spec.format import Format, Sign
from lowprec.spec.number_text import read_number
from lowprec.spec.profiles import PROFILES, Profile
from lowprec.spec.projection import DEFAULT, Projection
from lowprec.verify.codes.display import fields, hex_of, shown_value
from lowprec.verify.questions.causes import in_words, projections

__all__ = ["SCHEMA", "GroupedAnswer", "Explanation", "Reason", "explain", "parse"]

SCHEMA = "lowprec.explain/1"

#: The name of the answer under the default projection, which is no profile's.
REFERENCE = "lowprec"

#: Words for what a value in text may be.
_SPECIALS = {
    "nan": Special.NAN,
    "-nan": Special.NEGATIVE_NAN,
    "inf": Special.INFINITY,
    "infinity": Special.INFINITY,
    "-inf": Special.NEGATIVE_INFINITY,
    "-infinity": Special.NEGATIVE_INFINITY,
}


@dataclass(frozen=True)
class Reason:
    """Profiles that give one answer for the same reason.

    Attributes
    ----------
    words : tuple of str
        The rules that make the answer what it is, each in words: those without which the default projection
        gives another. Empty where the default gives the same.
    profiles : tuple of str
        Their names; "lowprec" is the default projection.
    """

    words: tuple[str, ...]
    profiles: tuple[str, ...]


@dataclass(frozen=True)
class GroupedAnswer:
    """An answer, and the profiles that give it.

    Attributes
    ----------
    codes : tuple of int
        The code; two where random integers decide; none where the value is refused.
    refusal : str
        Why it is refused; else "".
    reasons : tuple of Reason
    """

    codes: tuple[int, ...]
    refusal: str
    reasons: tuple[Reason, ...]


@dataclass(frozen=True)
class Explanation:
    """Answers of every profile for a value, the default's first.

    >>> from fractions import Fraction
    >>> from lowprec.spec.catalog import E4M3FN
    >>> found = explain(Fraction(500), E4M3FN)
    >>> found.place
    '500.0 = 0x1.f4p+8 lies beyond the largest value of e4m3fn, 448.0 = 0x1.cp+8'
    >>> [answer.codes for answer in found.answers]
    [(127,), (126,), (255,)]
    >>> found.answers[1].reasons[0].words
    ('saturation: overflow becomes the largest finite value',)

    Attributes
    ----------
    value : Exact
    target : Format
    place : str
        Where the value lies among those of the format, in words.
    answers : tuple of GroupedAnswer
    """

    value: Exact
    target: Format
    place: str
    answers: tuple[GroupedAnswer, ...]

    def as_dict(self) -> dict[str, Any]:
        """Return plain data, in a fixed order: schema lowprec.explain/1."""
        return {
            "schema": SCHEMA,
            "lowprec": __version__,
            "value": shown_value(self.value),
            "format": self.target.name,
            "place": self.place,
            "answers": [
                {
                    "codes": [hex_of(code, self.target) for code in answer.codes],
                    "values": [shown_value(decode(code, self.target)) for code in answer.codes],
                    "refusal": answer.refusal or None,
                    "reasons": [
                        {
                            "rules": [*reason.words],
                            "profiles": [
                                {
                                    "name": name,
                                    "versions": PROFILES[name].versions if name in PROFILES else None,
                                }
                                for name in reason.profiles
                            ],
                        }
                        for reason in answer.reasons
                    ],
                }
                for answer in self.answers
            ],
        }

    def as_text(self) -> list[str]:
        """Return lines: where the value lies, then each answer with its reasons and profiles."""
        lines = [self.place]
        for answer in self.answers:
            lines.append("")
            for place, code in enumerate(answer.codes):
                value = shown_value(decode(code, self.target))
                bits = f"{hex_of(code, self.target)}  {fields(code, self.target)}  {value}"
                lines.append(f"{'or ' * (place > 0)}{bits}{', by a random integer' * (place > 0)}")
            if answer.refusal:
                lines.append(f"refused: {answer.refusal}")
            for reason in answer.reasons:
                lines.append(f"    {'; '.join(reason.words) or 'by the default rules: ' + str(DEFAULT)}")
                lines.append(f"        {', '.join(reason.profiles)}")
        return lines


def parse(text: str) -> Exact:
    """Return the exact value of a number in text: decimal, a fraction, hexadecimal, an infinity, a NaN or -0.

    >>> parse("0.1"), parse("1/3"), parse("0x1.8p+3"), parse("-0"), parse("-inf")
    (Fraction(1, 10), Fraction(1, 3), Fraction(12, 1), Special.NEGATIVE_ZERO, Special.NEGATIVE_INFINITY)

    Raises
    ------
    ValueError
        No number, or one with an exponent of more than four digits.
    """
    word = text.strip().lower()
    special = _SPECIALS.get(word.removeprefix("+"))
    if special is not None:
        return special
    try:
        value = read_number(word)
    except ValueError as error:
        raise ValueError(f"{error}; inf and nan are read too") from None
    return Special.NEGATIVE_ZERO if not value and word.startswith("-") else value


def explain(
    value: Exact, target: Format, source: Format | None = None, *, code: int | None = None
) -> Explanation:
    """Return what every profile that converts to a format makes of a value, and why.

    Parameters
    ----------
    value : Exact
        Of `lowprec.oracle.exact`: a Fraction or a Special.
    target : Format
    source : Format, optional
        The format that the value comes in, which must have it: some profiles flush its subnormals, and some
        keep the payloads of its NaNs. Default: none; for NaNs binary64.
    code : int, optional
        The value's code in the source. Default: the one that it is converted to.

    Raises
    ------
    ValueError
        The source does not have the value.
    """
    if source is None and value in (Special.NAN, Special.NEGATIVE_NAN):
        source = BINARY64
    operand: Exact | tuple[int, Format] = value
    if source is not None:
        operand = (_code_in(source, value) if code is None else code), source
    names = [name for name, profile in PROFILES.items() if _has(profile, target)]
    chosen = {REFERENCE: DEFAULT, **{name: PROFILES[name].projection(target) for name in names}}
    made = {name: _answer(operand, target, rule) for name, rule in chosen.items()}
    words = {(change.field, str(change.value)): change.words for change in projections(target, DEFAULT, ())}
    answers = []
    for codes, refusal in dict.fromkeys(made.values()):
        reasons: dict[tuple[str, ...], list[str]] = {}
        for name, rule in chosen.items():
            if made[name] == (codes, refusal):
                changed = _rules(operand, target, rule, (codes, refusal))
                said = tuple(_worded(field, getattr(rule, field), target, words) for field in changed)
                reasons.setdefault(said, []).append(name)
        answers.append(
            GroupedAnswer(codes, refusal, tuple(Reason(said, tuple(who)) for said, who in reasons.items()))
        )
    return Explanation(value, target, _place(value, target), tuple(answers))


def _has(profile: Profile, target: Format) -> bool:
    return not isinstance(target, Codebook) and target in profile.formats


def _code_in(source: Format, value: Exact) -> int:
    """Return the code of a value in the format that it comes in."""
    code = project(value, source, Projection(nan="zero", negative="zero", saturation="propagate"))
    if decode(code, source) != value:
        name = shown_value(value)
        raise ValueError(f"{name} is no value of {source.name!r}; leave the source out, or round it first")
    return code


def _answer(
    operand: Exact | tuple[int, Format], target: Format, rule: Projection
) -> tuple[tuple[int, ...], str]:
    """Return the codes that a projection gives for a value, or a code of a format; or none and why."""
    randoms = (0, (1 << rule.rounding.bits) - 1) if rule.rounding.bits else (None,)
    try:
        if isinstance(operand, tuple):
            codes = [cast(*operand, target, rule, random=random) for random in randoms]
        else:
            codes = [project(operand, target, rule, random=random) for random in randoms]
    except ValueError as error:
        return (), str(error)
    return tuple(dict.fromkeys(codes)), ""


def _rules(
    operand: Exact | tuple[int, Format], target: Format, rule: Projection, answer: tuple[tuple[int, ...], str]
) -> tuple[str, ...]:
    """Return the fewest fields of a projection with which the default one gives its answer."""
    differing = [
        field.name
        for field in dataclasses.fields(rule)
        if getattr(rule, field.name) != getattr(DEFAULT, field.name)
    ]
    for count in range(len(differing)):
        for some in itertools.combinations(differing, count):
            fewer = dataclasses.replace(DEFAULT, **{name: getattr(rule, name) for name in some})
            if _answer(operand, target, fewer) == answer:
                return some
    return tuple(differing)


def _worded(field: str, value: Any, target: Format, words: dict[tuple[str, str], str]) -> str:
    """Return what a field of a projection does, in words."""
    if field == "rounding":
        return f"{in_words(value)} ({value})"
    if field == "via":
        return f"rounded to {' and then to '.join(stop.name for stop in value)} first"
    if field == "nan_code":
        return f"NaN is {hex_of(value, target)}"
    return words.get((field, str(value)), f"{field}={value}")


def _place(value: Exact, target: Format) -> str:
    """Return where a value lies among those of a format, in words."""
    name, fmt = shown_value(value), target.name
    if isinstance(value, Special) and value is not Special.NEGATIVE_ZERO:
        return f"{name} in {fmt}, which has {' and '.join(_specials(target)) or 'no infinity and no NaN'}"
    low, high = (_next(value, target, mode) for mode in ("toward_negative", "toward_positive"))
    if value is Special.NEGATIVE_ZERO and not target.has_negative_zero and Fraction(0) in (low, high):
        return f"{name} is zero in {fmt}, whose zero has no sign"
    if is_negative(value) and target.sign is Sign.UNSIGNED:
        return f"{name} is negative, and {fmt} is unsigned"
    if value in (low, high):
        return f"{name} is a value of {fmt}"
    exact, *ends = (Fraction(0) if isinstance(each, Special) else each for each in (value, low, high))
    first, second = sorted(ends, key=abs)
    last = ""
    if first == second:
        if not abs(first) < abs(exact) < abs(_continued(target)):
            end = "beyond the largest" if abs(exact) > abs(first) else "below the smallest"
            return f"{name} lies {end} value of {fmt}, {shown_value(low)}"
        second = _continued(target) * (1 if exact > 0 else -1)
        last = ", which would come next"
    before, after = abs(exact - first), abs(second - exact)
    side = "half-way " if before == after else f"nearer to the {'first' if before < after else 'second'}, "
    side = "" if isinstance(target, Codebook) else side
    known = f", the largest value of {fmt}, and" if last else " and"
    where = last or f" in {fmt}"
    return f"{name} lies {side}between {shown_value(first)}{known} {shown_value(second)}{where}"


def _next(value: Exact, target: Format, mode: str) -> Exact:
    """Return the next value of a format on one side of a number, or the number; past the end the last."""
    rule = Projection(rounding=mode, saturation="finite", zero="smallest", negative="zero")
    return decode(project(value, target, rule), target)


def _continued(target: Format) -> Fraction:
    """Return the value that would come after the largest; 0 where the values have no such order."""
    if isinstance(target, Codebook) or target.sign is Sign.TWOS_COMPLEMENT:
        return Fraction(0)
    return value_of(target.max_magnitude + 1, target)


def _specials(target: Format) -> list[str]:
    return [name for name, has in (("an infinity", target.infinity), ("NaN", target.has_nan)) if has]
