"""The shortest rule that tells some results from others by their features.

A rule is a condition on one feature, or two or three conditions together; or a few of these joined by "or".
It is taken only if the results prove it: if a rule as short would hardly be found for as many results that
were drawn at random.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace

import numpy as np
import numpy.typing as npt

from lowprec.verify.questions.features import Feature
from lowprec.verify.questions.question import Array

__all__ = ["Condition", "Rule", "entries", "is_whole", "learn"]

Mask = npt.NDArray[np.bool_]

#: Results that rules are looked for in, of each kind, and conditions that are tried in pairs and in threes.
_INSIDE, _OUTSIDE, _PAIRS, _THREES = 1024, 4096, 600, 80
#: Values of a number that are tried as limits, where no condition holds of all.
_LIMITS = 24
#: How features of the result and of operands begin.
_WHOLES = (
    *("the result", "the exact result", "the quotient is below"),
    *("the operand", "the addend", "operand", "the block has", "the block before has"),
    "some zero is multiplied by infinity",
)
#: Key of how many these are, among the counts of the values of features.
_WHOLE_ONES = ""
#: Of fewer results a rule of one or two such features is told, as a guess.
_FEW = 8
#: Distance from a limit to the next result beyond it, if there is none.
_OPEN = 1 << 40
#: Times that a rule is sought again, with results that the last one wrongly holds of.
_ROUNDS = 4
#: Features of single bits, which are seldom what a cause is about.
_OF_BITS = re.compile(r"\bbit (\d+ )?of |number, counted from 0")
#: Conditions on operands that are as likely as one on what stood before.
_STATE = 256
#: Alternatives that are joined by "or".
_ALTERNATIVES = 3


@dataclass(frozen=True)
class Condition:
    """A feature that is equal to a value, at least or at most; or not, if `holds` is False."""

    feature: str
    relation: str  #: "=", ">=", "<=", "between" or, of two values, "or"
    value: int
    last: int = 0
    label: str = ""  #: of the value
    holds: bool = True
    statement: bool = False  #: whether the feature is true or false
    least: int | None = None  #: of limits that tell the same results apart the lowest, and the highest
    most: int | None = None

    def where(self, values: Array) -> Mask:
        """Return where a feature's values meet the condition."""
        if self.relation == "between":
            return np.asarray((values >= self.value) & (values <= self.last))
        if self.relation == "or":
            return np.asarray((values == self.value) | (values == self.last))
        compare = {"=": np.equal, ">=": np.greater_equal, "<=": np.less_equal}[self.relation]
        return np.asarray(compare(values, self.value) == self.holds)

    def __str__(self) -> str:
        if self.statement:
            return self.feature if self.holds else _negated(self.feature)
        no = "" if self.holds else "not "
        if self.label:
            return f"{self.feature} is {no}{self.label}"
        limit = {">=": "at least ", "<=": "at most "}.get(self.relation, "")
        to = f" {self.relation.replace('between', 'to')} {self.last}" if self.relation in _OF_TWO else ""
        untold = [f"down to {self.least}"] * (self.least is not None)
        untold += [f"up to {self.most}"] * (self.most is not None)
        if untold:
            to += f" (or {' or '.join(untold)}: no results lie between)"
        value = f"{self.value:x}" if self.feature.endswith(AS_CODE) else str(self.value)
        return f"{self.feature} is {no}{limit}{value}{to}"


#: Relations to two values.
_OF_TWO = ("between", "or")
#: How features end whose values are codes.
AS_CODE = "as a code,"
#: What a statement is negated by: the first of its words that is here.
_NEGATED = {"some ": "no ", " is ": " is not ", " are ": " are not ", " has ": " does not have "}
_NEGATED |= {" have ": " do not have ", " goes ": " does not go ", " carries ": " does not carry "}
_NEGATED |= {" cuts ": " does not cut ", " cancel ": " do not cancel ", " needs no ": " needs "}


def _negated(statement: str) -> str:
    """Return the opposite of a statement."""
    for word, other in _NEGATED.items():
        if word in statement:
            return statement.replace(word, other, 1)
    return f"not: {statement}"


@dataclass(frozen=True)
class Rule:
    """Alternatives, each of conditions that hold together."""

    alternatives: tuple[tuple[Condition, ...], ...]

    @property
    def size(self) -> int:
        """Conditions in all."""
        return sum(map(len, self.alternatives))

    def where(self, features: Sequence[Feature]) -> Mask:
        """Return where the rule holds."""
        values = {feature.name: feature.values for feature in features}
        found = [
            np.logical_and.reduce([condition.where(values[condition.feature]) for condition in together])
            for together in self.alternatives
        ]
        return np.asarray(np.logical_or.reduce(found))

    @property
    def of_codes(self) -> bool:
        """Codes of operands alone as conditions: such a rule says nothing about other operands."""
        return all(
            c.relation == "=" and c.feature.endswith(AS_CODE) for each in self.alternatives for c in each
        )

    def __str__(self) -> str:
        return ", or where ".join(" and ".join(map(str, _joined(each))) for each in self.alternatives)


def of_classes(features: Sequence[Feature]) -> Iterator[Rule]:
    """Yield rules of one class, or of one statement."""
    for feature in features:
        plain = feature.values.dtype == bool
        for value, label in [(1, "")] * plain or enumerate(feature.labels):
            yield Rule(((Condition(feature.name, "=", value, label=label, statement=plain),),))


def _joined(together: Sequence[Condition]) -> list[Condition]:
    """Return conditions of which a lower and an upper limit of one feature are a range."""
    made: list[Condition] = []
    for one in together:
        ends = {"<=", ">="} - {one.relation}
        twin = next((c for c in made if c.feature == one.feature and {c.relation} == ends), None)
        if twin is None or len(ends) > 1:
            made.append(one)
            continue
        low, high = (one, twin) if one.relation == ">=" else (twin, one)
        whole = replace(low, relation="between", last=high.value, most=high.most)
        made[made.index(twin)] = whole if low.holds and high.holds else twin
        made += [] if low.holds and high.holds else [one]
    return made


def entries(features: Sequence[Feature], inside: Mask, outside: Mask) -> Rule | None:
    """Return a rule that names the few codes of an operand that results inside have, and none outside."""
    for feature in features:
        if feature.name.endswith(AS_CODE):
            codes = np.unique(feature.values[inside])
            if codes.size <= _ALTERNATIVES and not np.isin(feature.values[outside], codes).any():
                return Rule(tuple((Condition(feature.name, "=", int(code)),) for code in codes))
    return None


def learn(
    features: Sequence[Feature],
    inside: Mask,
    outside: Mask,
    spent: float = 0,
    *,
    of: Mask | None = None,
    spared: int = 0,
    distinct: Callable[[Mask], int] = np.count_nonzero,
    behind: Callable[[Mask], int] = np.count_nonzero,
) -> Rule | None:
    """Return the shortest rule that holds inside and not outside, or the one with the fewest exceptions.

    None where no rule is proven by so few results; `spent` are bits of choice before that of the rule, `of`
    are those that might have been inside, if more than those outside, and so many as `spared` may meet the
    rule outside. Results that repeat each other, as `distinct` counts them, prove no more than one of them;
    `behind` counts for a rule on what stood before.
    """
    drawn = np.random.default_rng(5)
    some = _some(inside, _INSIDE, drawn), _some(outside, _OUTSIDE, drawn)
    if not some[0].size:
        return None
    sides = inside, outside if of is None else of
    counts = [(count(sides[0]), count(sides[1])) for count in (distinct, behind)]
    proofs = [(int(count), _bits_of_choice(int(count), int(others)) - spent) for count, others in counts]
    found: Rule | None = None
    for _ in range(_ROUNDS):
        found = _learnt(features, inside, outside, np.concatenate(some), some[0].size, proofs, spared)
        missed = np.zeros(inside.size, bool) if found is None else found.where(features) & outside
        if found is None or not missed.any() or np.isin(np.flatnonzero(missed), some[1]).any():
            break
        some = some[0], np.union1d(some[1], _some(missed, _OUTSIDE // 8, drawn))
    return found


def _learnt(
    features: Sequence[Feature],
    inside: Mask,
    outside: Mask,
    held: Array,
    first: int,
    proofs: Sequence[tuple[int, float]],
    spared: int,
) -> Rule | None:
    """Return the rule of the results that are held, of which the first so many are inside.

    `proofs`: how many results prove a rule, and the bits of choice that they prove: of rules on
    results themselves, and of those on what stood before too.
    """
    given = [
        replace(f, values=f.values[held].astype(np.int64)) for f in features if not f.name.endswith(AS_CODE)
    ]
    wanted = np.arange(held.size) < first
    statements = {f.name for f in features if f.values.dtype == bool}
    tried = [c for f in given for c in _conditions(f, wanted, f.name in statements, covering=True)]
    values = {f.name: f.values for f in given}
    holds = np.array([c.where(values[c.feature]) for c in tried], bool).reshape(-1, held.size)
    counts = {f.name: len(_distinct(f.values)) * (_STATE if f.before else 1) for f in given}
    counts[_WHOLE_ONES] = sum(name.startswith(_WHOLES) for name in counts)
    costs = np.array([_bits(condition, counts) for condition in tried])
    found = _covering(tried, costs, ~holds[:, ~wanted], spared)
    states = {f.name for f in given if f.before}
    count, proof = proofs[any(one.feature in states for one in found or ())]
    plain = found is not None and count < _FEW and len(found) < 3 and all(map(is_whole, found))
    if found is not None and (plain or sum(_bits(condition, counts) for condition in found) <= proof):
        bits = {condition: cost for condition, cost in zip(tried, costs.tolist(), strict=True)}
        rows = {condition: row for condition, row in zip(tried, holds, strict=True)}
        if all(_proven(one, found, rows, bits[one], ~wanted, min(count, first)) for one in found):
            return Rule((tuple(_with_limits(one, found, rows, values, ~wanted) for one in found),))
    tried = [c for f in given for c in _conditions(f, wanted, f.name in statements, covering=False)]
    if not tried:
        return None
    holds = np.array([c.where(values[c.feature]) for c in tried], bool)
    rule = _alternatives(tried, holds, wanted)
    if rule is None:
        return None
    where = rule.where([Feature(f.name, f.values.astype(np.int64), f.labels) for f in features])
    hit, missed = int(np.count_nonzero(where & inside)), int(np.count_nonzero(where & outside))
    least = 2 * missed < hit and 2 * hit >= np.count_nonzero(inside)
    errors = int(np.count_nonzero(inside)) - hit + missed
    proof = proofs[any(one.feature in states for together in rule.alternatives for one in together)][1]
    cost = sum(_bits(condition, counts) for together in rule.alternatives for condition in together)
    cost += 2 * errors * math.log2(max(held.size, 2)) ** 0.5
    return rule if least and cost <= proof else None


def _proven(
    one: Condition,
    together: list[Condition],
    rows: dict[Condition, Mask],
    bits: float,
    outside: Mask,
    inside: int,
) -> bool:
    """Return whether a condition excludes more of what the others admit than one by chance would.

    Class and sign of the result or of an operand matter so often that one exclusion is enough.
    """
    others = [rows[condition] for condition in together if condition is not one]
    admitted = np.logical_and.reduce(others) & outside if others else outside
    return (1.0 if is_whole(one) else bits) <= _bits_of_choice(inside, int(np.count_nonzero(admitted)))


def is_whole(one: Condition) -> bool:
    """Return whether a condition is the class or the sign of a result or of an operand."""
    return bool(one.statement or one.label) and one.feature.startswith(_WHOLES)


def _with_limits(
    one: Condition,
    together: list[Condition],
    rows: dict[Condition, Mask],
    values: dict[str, Array],
    outside: Mask,
) -> Condition:
    """Return a condition with the limits that results which meet the others do not tell from its own."""
    if one.statement or one.label or not one.holds or one.relation == "or":
        return one
    others = [rows[condition] for condition in together if condition is not one]
    seen = values[one.feature][np.logical_and.reduce([outside, *others])]
    low, high = one.value, one.last if one.relation == "between" else one.value
    below, above = seen[seen < low].max(initial=low - _OPEN), seen[seen > high].min(initial=high + _OPEN)
    least = int(below) + 1 if one.relation != "<=" and _OPEN > low - below > 1 else None
    most = int(above) - 1 if one.relation != ">=" and _OPEN > above - high > 1 else None
    return replace(one, least=least, most=most)


def _some(mask: Mask, most: int, drawn: np.random.Generator) -> Array:
    places = np.flatnonzero(mask)
    return places if places.size <= most else np.sort(drawn.permutation(places)[:most])


def _bits_of_choice(inside: int, outside: int) -> float:
    """Return the logarithm, to base 2, of how many ways there are to choose so many of all."""
    n = inside + outside
    return (math.lgamma(n + 1) - math.lgamma(inside + 1) - math.lgamma(outside + 1)) / math.log(2)


def _bits(condition: Condition, counts: dict[str, int]) -> float:
    """Return the logarithm, to base 2, of how many such conditions there are on such features."""
    values, seldom = counts[condition.feature], bool(_OF_BITS.search(condition.feature))
    kinds = 2 if condition.statement else 2 * values if condition.label else 3 * values
    kinds = values * values if condition.relation in _OF_TWO else kinds
    features = counts[_WHOLE_ONES] if is_whole(condition) else len(counts)
    return 1 + math.log2(features) + math.log2(kinds) + seldom


def _distinct(values: Array) -> list[int]:
    """Return the values that integers have, in order."""
    if not values.size:
        return []
    least, most = int(values.min()), int(values.max())
    if most - least > 1:
        return [*map(int, np.unique(values))]
    return [least, most] if least < most else [least]


def _conditions(feature: Feature, wanted: Mask, statement: bool, *, covering: bool) -> list[Condition]:
    """Return conditions on a feature: those that hold of all that are wanted, or those that may help."""
    name, values = feature.name, feature.values
    inside, outside = values[wanted], values[~wanted]
    if statement or feature.labels:
        here, there = ({*_distinct(side)} for side in (inside, outside))
        made = []
        for value in sorted(here | there):
            label = feature.labels[value] if feature.labels else ""
            one = Condition(name, "=", 1 if statement else value, label=label, statement=statement)
            if statement:
                one = Condition(name, "=", 1, holds=bool(value), statement=True)
            if here == {value} or (not covering and value in here):
                made.append(one)
            elif not statement and value not in here:
                made.append(Condition(name, "=", value, label=label, holds=False))
        made.sort(key=lambda one: not one.holds)  # of two that exclude as much the positive one is told
        return made if len(here | there) > 1 else []
    low, high = int(inside.min()), int(inside.max())
    if covering:
        made = [Condition(name, ">=", low)] if (outside < low).any() else []
        made += [Condition(name, "<=", high)] if (outside > high).any() else []
        if len(made) == 2:
            both = Condition(name, "between", low, high) if low < high else Condition(name, "=", low)
            made.append(both)
        between = (inside > low) & (inside < high), (outside > low) & (outside < high)
        if between[1].any() and not between[0].any():
            made.append(Condition(name, "or", low, high))
        return made
    limits = _distinct(inside)
    if len(limits) > _LIMITS:
        limits = _distinct(np.quantile(limits, np.linspace(0, 1, _LIMITS), method="nearest"))
    made = [Condition(name, ">=", value) for value in limits]
    made += [Condition(name, "<=", value) for value in limits]
    return made + [Condition(name, "=", value) for value in limits]


def _first_of_each(masks: Mask) -> Array:
    """Return the first of the conditions that hold of the same results, for all of them."""
    rows = np.packbits(masks, axis=1)
    firsts: dict[bytes, int] = {}
    for number, row in enumerate(rows):
        firsts.setdefault(row.tobytes(), number)
    return np.array([*firsts.values()], np.intp)


def _covering(tried: list[Condition], costs: Array, excluded: Mask, spared: int) -> list[Condition] | None:
    """Return the cheapest one, two or three conditions that together exclude all outside but a few."""
    if not tried or not excluded.shape[1]:
        return None
    counts = excluded.sum(1)
    alone = np.flatnonzero(counts >= excluded.shape[1] - spared)
    if alone.size:
        return [tried[int(alone[np.argmin(costs[alone])])]]
    # Of conditions that exclude the same results the cheapest alone.
    cheap = np.argsort(costs, kind="stable")
    single = np.sort(cheap[_first_of_each(excluded[cheap])])
    order = single[np.argsort(-counts[single], kind="stable")]
    best = np.sort(order[:_PAIRS])
    left = (~excluded[best]).astype(np.float32)
    both = np.where(
        left @ left.T <= spared, costs[best][:, None] + costs[best], np.inf
    )  # together they exclude all
    first, second = np.divmod(int(np.argmin(both)), best.size)
    if np.isfinite(both[first, second]):
        return [tried[int(best[place])] for place in sorted((first, second))]
    best = np.sort(order[:_THREES])
    left = (~excluded[best]).astype(np.float32)
    for place in range(best.size):
        together = (left * left[place]) @ left.T
        one, other = np.divmod(int(np.argmin(together)), best.size)
        if together[one, other] <= spared:
            return [tried[int(best[at])] for at in sorted((place, one, other))]
    return None


def _alternatives(tried: list[Condition], holds: Mask, wanted: Mask) -> Rule | None:
    """Return alternatives, of one or two conditions each, that cover most of what is wanted."""
    single = _first_of_each(holds)
    holds = holds[single]
    wide = holds[:, ~wanted].astype(np.float32)
    missed, together = wide.sum(1), 3 * (wide @ wide.T)
    left, found = wanted.copy(), list[tuple[Condition, ...]]()
    for _ in range(_ALTERNATIVES):
        if not left.any():
            break
        gain = np.count_nonzero(holds[:, left], axis=1) - 1.5 * missed * left.sum() / max(wide.shape[1], 1)
        best = np.sort(np.argsort(-gain, kind="stable")[:_PAIRS])
        inner = holds[best][:, left].astype(np.float32)
        score = inner @ inner.T - together[np.ix_(best, best)]
        np.fill_diagonal(score, np.diag(score) + 0.5)  # one condition, if it does as much as two
        first, second = np.divmod(int(np.argmax(score)), best.size)
        if score[first, second] < 2:
            break
        pair = tuple(tried[int(single[best[place]])] for place in sorted({int(first), int(second)}))
        found.append(pair)
        left &= ~(holds[best[first]] & holds[best[second]])
    return Rule(tuple(found)) if found else None
