"""Expressions of a description of a model family, as nested tuples.

An expression is an integer, a text, or one of these:

    ("name", "text_config.hidden_size")     a value of the config
    ("counter", level)                      the number of a repetition; level 0 is
                                            the outermost one of a parameter's name
    ("item", list, index)  ("len", list)
    ("has", name)          ("given", name)
    (operator, a, b)                        + - * // % == != < <= > >= in and or
    ("not", a)             ("if", a, condition, b)
    ("default", a, b)                       a ?? b

A traced expression has ("loop", count, number) where a counter is: the number that a
loop over `count` had. `places` makes counters of them.
"""

from __future__ import annotations

from typing import Any, Callable, Iterator, Optional

Expression = Any
COUNTERS = "ijkmnpq"  # names of the counters by level

_ARITHMETIC: dict[str, Callable[[Any, Any], Any]] = {
    "+": lambda a, b: a + b,
    "-": lambda a, b: a - b,
    "*": lambda a, b: a * b,
}
_INFIX = {"+", "-", "*", "//", "%", "==", "!=", "<", "<=", ">", ">=", "in", "and", "or"}

# The precedence of operators, from the lowest, as the program reads them.
_LEVELS = {
    "if": 0, "or": 1, "and": 2, "not": 3,
    "==": 4, "!=": 4, "<": 4, "<=": 4, ">": 4, ">=": 4, "in": 4,
    "default": 5, "+": 6, "-": 6, "*": 7, "//": 7, "%": 7,
}  # fmt: skip


Compiled = Callable[[dict[str, Any], tuple[int, ...]], Any]
_compiled: dict[str, Compiled] = {}


def compiled(x: Expression) -> Compiled:
    """A function of the values of a config by dotted name, and of the counters. It is
    None where the expression has no value, such as after the end of a list."""
    key = repr(x)
    if key not in _compiled:
        inner = eval(f"lambda N, C: {_code(x)}", {"item": _item})

        def value(names: dict[str, Any], counters: tuple[int, ...]) -> Any:
            try:
                return inner(names, counters)
            except (TypeError, LookupError, ZeroDivisionError):
                return None

        _compiled[key] = value
    return _compiled[key]


def value_of(x: Expression, names: dict[str, Any], counters: tuple[int, ...]) -> Any:
    return compiled(x)(names, counters)


def _item(values: Any, at: int) -> Any:
    if at < 0:
        raise IndexError
    return values[at]


def _code(x: Expression) -> str:
    """The expression in Python, with the values N and the counters C."""
    if not isinstance(x, tuple):
        # An object of the class's library, such as a dtype, is no value of a config.
        plain = x is None or isinstance(x, (int, float, str, list))
        return repr(x) if plain else "item((), 0)"
    kind = x[0]
    if kind == "name":
        return f"N.get({x[1]!r})"
    if kind == "counter":
        return f"C[{x[1]}]"
    if kind == "loop":
        return repr(x[2])
    if kind == "has":
        return f"(N.get({x[1]!r}) is not None)"
    if kind == "given":
        return f"({x[1]!r} in N)"
    inner = [_code(part) for part in x[1:]]
    if kind == "list":
        return "[" + ", ".join(inner) + "]"
    if kind == "if":
        return f"({inner[0]} if {inner[1]} else {inner[2]})"
    if kind == "default":
        return f"({inner[1]} if (t := {inner[0]}) is None else t)"
    if kind == "not":
        return f"(not {inner[0]})"
    if kind == "is_list":
        return f"isinstance({inner[0]}, list)"
    if kind == "len":
        return f"len({inner[0]})"
    if kind == "count":
        return f"list({inner[0]}).count({inner[1]})"
    if kind == "item":
        return f"item({inner[0]}, {inner[1]})"
    assert kind in _INFIX, kind
    return f"({inner[0]} {kind} {inner[1]})"


def cost(x: Expression) -> int:
    """How long an expression is: of two that agree the shorter one is right."""
    if not isinstance(x, tuple):
        return 2 if isinstance(x, int) and not isinstance(x, bool) and x > 4 else 1
    if x[0] in ("name", "counter", "has", "given"):
        return 1
    return 1 + sum(cost(part) for part in x[1:])


def parts(x: Expression) -> Iterator[Expression]:
    """The expression and all those inside it."""
    yield x
    if isinstance(x, tuple) and x[0] not in ("name", "has", "given"):
        for part in x[1:]:
            yield from parts(part)


def names_in(x: Expression) -> set[str]:
    return {
        p[1] for p in parts(x) if isinstance(p, tuple) and p[0] in ("name", "has", "given")
    }


def has_counter(x: Expression) -> bool:
    return any(isinstance(p, tuple) and p[0] == "counter" for p in parts(x))


def mapped(x: Expression, change: Callable[[Expression], Optional[Expression]]) -> Expression:
    """The expression with every part replaced for which `change` has another."""
    other = change(x)
    if other is not None:
        return other
    if not isinstance(x, tuple) or x[0] in ("name", "has", "given", "counter"):
        return x
    return simplified((x[0], *(mapped(part, change) for part in x[1:])))


def simplified(x: Expression) -> Expression:
    """Without what changes nothing: a * 1, a + 0, and sums of integers."""
    if not isinstance(x, tuple) or len(x) != 3 or x[0] not in _INFIX:
        return x
    sign, a, b = x
    plain = isinstance(a, int), isinstance(b, int)
    if all(plain) and sign in ("+", "-", "*"):
        return _ARITHMETIC[sign](a, b)
    if sign == "//" and a == b:
        return 1
    if sign in ("*", "//") and b == 1 and plain[1]:
        return a
    if sign in ("+", "-") and b == 0 and plain[1]:
        return a
    if sign == "*" and a == 1 and plain[0]:
        return b
    if sign == "+" and a == 0 and plain[0]:
        return b
    # A constant comes first in a product.
    if sign == "*" and plain[1] and not plain[0]:
        return simplified(("*", b, a))
    if sign == "*" and plain[0] and isinstance(b, tuple) and b[0] == "*":
        if isinstance(b[1], int):
            return simplified(("*", a * b[1], b[2]))
    return x


def without_indices(x: Expression) -> Expression:
    """A traced expression with the open counter for every number of a loop and
    every place in a list."""

    def change(part: Expression) -> Optional[Expression]:
        if not isinstance(part, tuple):
            return None
        if part[0] == "loop":
            return ("counter", -1)
        if part[0] == "item" and isinstance(part[2], int):
            return ("item", mapped(part[1], change), ("counter", -1))
        return None

    return mapped(x, change)


def at_level(x: Expression, level: int) -> Expression:
    """The expression with this counter for the open one."""
    return mapped(x, lambda part: ("counter", level) if part == ("counter", -1) else None)


def placed(x: Expression, counters: tuple[int, ...]) -> list[Expression]:
    """What a traced expression may mean at a parameter whose name has these numbers:
    each number of a loop is the counter that has it."""
    levels = range(len(counters))
    made = []
    for level in levels:

        def change(part: Expression, level: int = level) -> Optional[Expression]:
            if not isinstance(part, tuple):
                return None
            if part[0] == "loop" and part[2] == counters[level]:
                return ("counter", level)
            if part[0] == "item" and part[2] == counters[level]:
                return ("item", mapped(part[1], change), ("counter", level))
            return None

        made.append(mapped(x, change))
    return list(dict.fromkeys(made)) or [x]


def shown(x: Expression, name: Callable[[str], str] = str, above: int = 0) -> str:
    """The expression in the language of descriptions."""
    if x is None:
        return "null"
    if isinstance(x, bool):
        return "true" if x else "false"
    if isinstance(x, str):
        return "'" + x + "'"
    if isinstance(x, float) and x.is_integer():
        return str(int(x))
    if not isinstance(x, tuple):
        return str(x)
    kind = x[0]
    if kind == "name":
        return name(x[1])
    if kind == "counter":
        return COUNTERS[x[1]]
    if kind in ("has", "given"):
        return f"{kind}({name(x[1]) if kind == 'has' else x[1]})"
    if kind in ("len", "is_list"):
        return f"{kind}({shown(x[1], name)})"
    if kind == "count":
        return f"count({shown(x[1], name)}, {shown(x[2], name)})"
    if kind == "item":
        return f"{shown(x[1], name, 9)}[{shown(x[2], name)}]"
    if kind == "list":
        return "[" + ", ".join(shown(part, name) for part in x[1:]) + "]"
    level = _LEVELS[kind]
    if kind == "if":
        text = (
            f"{shown(x[1], name, 1)} if {shown(x[2], name, 1)}"
            f" else {shown(x[3], name, 0)}"
        )
    elif kind == "not":
        text = f"not {shown(x[1], name, level)}"
    else:
        sign = "??" if kind == "default" else kind
        # Comparisons are not written in a row.
        left = level + (level == 4)
        text = f"{shown(x[1], name, left)} {sign} {shown(x[2], name, level + 1)}"
    return f"({text})" if level < above else text
