"""The rules of functions: of NumPy's, and of those that `custom_scale` marks.

Floor 4.
"""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable, Iterable
from typing import Any, TypeVar

Function = Callable[..., Any]
Rule = TypeVar("Rule", bound=Function)

_rules: dict[Function, Function] = {}

#: Signatures of rules that were applied: finding one takes as long as computing a small result.
_signatures: dict[Function, inspect.Signature] = {}

#: Python functions that look for rules: those that `custom_scale` returns.
_marked: set[Function] = set()


def register_scaled_op(*functions: Function) -> Callable[[Rule], Rule]:
    """Register what a function does with `ScaledArray` arguments.

    The rule is called with the function's arguments, ScaledArrays among them. Keywords that its signature
    lacks are refused by name.

    >>> import numpy as np
    >>> from lowprec.methods import scale_propagation as sp
    >>> @sp.register_scaled_op(np.trapezoid)
    ... def trapezoid(x, *, dx=1.0):
    ...     return (np.sum(x) - (x[0] + x[-1]) / 2) * dx
    >>> float(np.trapezoid(sp.as_scaled(np.float32([1, 2, 3]), 2.0)))
    4.0

    Parameters
    ----------
    *functions : ufunc or function
        Of NumPy, or made by `custom_scale`.

    Raises ValueError: a function that has a rule. TypeError: no function is given, or
    a Python function that `custom_scale` did not make.
    """
    strange = [function for function in functions if not _looks_for_rules(function)]
    if strange or not functions:
        given = "none" if not functions else _name(strange[0]) if callable(strange[0]) else repr(strange[0])
        raise TypeError(
            "register_scaled_op takes the functions that a rule is for, of NumPy or made by custom_scale, "
            f"not {given}: write @register_scaled_op(numpy.median) above the rule"
        )

    def register(rule: Rule) -> Rule:
        for function in functions:
            if function in _rules:
                raise ValueError(
                    f"{_name(function)} has a rule for ScaledArrays: {_name(_rules[function])}. Register "
                    f"rules for other functions, or mark a function of your own with custom_scale"
                )
        for function in functions:
            _rules[function] = rule
        return rule

    return register


def register_each(*functions: Function) -> Callable[[Rule], Rule]:
    """Register, for each of several functions, a rule that is given the function before its arguments."""

    def register(rule: Rule) -> Rule:
        for function in functions:
            bound: Any = functools.partial(rule, function)
            bound.__module__, bound.__name__ = rule.__module__, rule.__name__
            register_scaled_op(function)(bound)
        return rule

    return register


def mark(function: Function) -> None:
    """Mark a Python function as one that looks for rules."""
    _marked.add(function)


def _looks_for_rules(function: Any) -> bool:
    return callable(function) and (not inspect.isfunction(function) or function in _marked)


def has_rule(function: Function) -> bool:
    """Return whether a function has a rule for ScaledArrays.

    >>> import numpy as np
    >>> has_rule(np.add), has_rule(np.median)
    (True, False)
    """
    return function in _rules


def answer(
    function: Function, args: Iterable[Any], keywords: dict[str, Any], method: str = "__call__"
) -> Any:
    """Apply the rule of a function; raise a TypeError that names the function where it has none."""
    args, name = tuple(args), _name(function) if method == "__call__" else f"{_name(function)}.{method}"
    rule = _rules.get(function) if method == "__call__" else None
    if rule is None:
        known = {"__call__": "register_scaled_op gives it one", "at": "scatter_add gives a new array"}
        hint = known.get(method, "use functions such as numpy.sum")
        raise TypeError(
            f"{name} has no rule for ScaledArrays: {hint}; stop_scaling(x) gives a plain array; x.data and "
            f"x.scale are the parts of x"
        )
    if (signature := _signatures.get(function)) is None:
        signature = _signatures[function] = inspect.signature(rule)
    try:
        signature.bind(*args, **keywords)
    except TypeError as error:
        taken = ", ".join(signature.parameters)
        hint = "; ScaledArrays do not change: write x = x + y" if keywords.get("out") is not None else ""
        raise TypeError(f"{name} of ScaledArrays takes {taken}: {error}{hint}") from None
    return rule(*args, **keywords)


def _name(function: Function) -> str:
    """Return a function's name with its module: numpy.add, numpy.linalg.norm."""
    module = getattr(function, "__module__", None) or "numpy"  # old ufuncs name no module
    return f"{module}.{getattr(function, '__qualname__', function.__name__)}"
