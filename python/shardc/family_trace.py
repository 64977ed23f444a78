"""What a class builds from a config, and which of the config's values made it so.

The values of the config are integers, texts and lists that remember their expression:
an integer of `hidden_size` times 2 has the expression 2 * hidden_size. The shape of a
parameter is known with its expressions at the call that makes its tensor, on PyTorch's
meta device. Comparisons are recorded, because the conditions of a tree are among them.
Loops over such an integer count with integers that remember the loop.
"""

from __future__ import annotations

import contextlib
import dataclasses
import sys
from collections.abc import Iterator, Mapping
from fractions import Fraction
from typing import Any, Callable, Optional

from shardc.family_expressions import Expression, simplified

_recorder: Optional["Recorder"] = None


class Recorder:
    """What the values of one build took part in."""

    def __init__(self) -> None:
        self.conditions: dict[Expression, None] = {}
        self.loops: dict[Expression, None] = {}
        self.sizes: dict[int, tuple[Any, list[Expression]]] = {}
        self.absent: dict[str, None] = {}  # keys that were read and absent


def _seen(condition: Expression) -> None:
    if _recorder is not None:
        _recorder.conditions[condition] = None


def expression_of(x: Any) -> Expression:
    """The expression of a value; of an ordinary one the value itself."""
    if isinstance(x, (Integer, Text, List, Quotient)):
        return x.expression
    return x


def _is_plain(x: Any) -> bool:
    return isinstance(x, (int, Quotient)) and not isinstance(x, bool)


class Integer(int):
    """An integer with its expression."""

    expression: Expression

    def __new__(cls, value: int, expression: Expression) -> "Integer":
        made = int.__new__(cls, value)
        made.expression = expression
        return made

    def __deepcopy__(self, memo: Any) -> "Integer":
        return self

    def __copy__(self) -> "Integer":
        return self

    def __reduce__(self) -> Any:
        return int, (int(self),)

    __hash__ = int.__hash__

    def __bool__(self) -> bool:
        _seen(("!=", self.expression, 0))
        return int.__bool__(self)

    def __truediv__(self, other: Any) -> Any:
        return _quotient(self, other)

    def __rtruediv__(self, other: Any) -> Any:
        return _quotient(other, self)

    def __divmod__(self, other: Any) -> Any:
        return self // other, self % other

    def __pow__(self, other: Any, modulo: Any = None) -> Any:
        if modulo is None and type(other) is int and 0 < other < 4:
            made: Any = self
            for _ in range(other - 1):
                made = made * self
            return made
        return int.__pow__(self, int(other))

    def __neg__(self) -> Any:
        return 0 - self

    def __pos__(self) -> Any:
        return self

    def __round__(self, digits: Any = None) -> Any:
        return self

    __floor__ = __ceil__ = __trunc__ = __pos__


def _arithmetic(sign: str, plain: Callable[[Any, Any], Any]) -> None:
    def forward(self: Any, other: Any) -> Any:
        if isinstance(other, float) and sign == "*":
            return _quotient(self, 1) * other
        if not isinstance(other, int):
            return NotImplemented
        value = plain(int(self), int(other))
        made = simplified((sign, self.expression, expression_of(other) + 0 if
                           isinstance(other, bool) else expression_of(other)))
        return Integer(value, made)

    def backward(self: Any, other: Any) -> Any:
        if isinstance(other, float) and sign == "*":
            return _quotient(self, 1) * other
        if not isinstance(other, int):
            return NotImplemented
        value = plain(int(other), int(self))
        return Integer(value, simplified((sign, expression_of(other), self.expression)))

    name = {"+": "add", "-": "sub", "*": "mul", "//": "floordiv", "%": "mod"}[sign]
    setattr(Integer, f"__{name}__", forward)
    setattr(Integer, f"__r{name}__", backward)


def _comparison(kind: type, name: str, sign: str, plain: type) -> None:
    compare = getattr(plain, f"__{name}__")

    def method(self: Any, other: Any) -> Any:
        result = compare(self, other)
        if result is not NotImplemented and isinstance(other, plain):
            _seen((sign, self.expression, expression_of(other)))
        return result

    setattr(kind, f"__{name}__", method)


class Real(float):
    """A fraction. The language has none, so it is a constant of expressions."""

    def __mul__(self, other: Any) -> Any:
        if isinstance(other, (Integer, Quotient)):
            return _quotient(other, 1) * float(self)
        return float(self) * other

    __rmul__ = __mul__

    def __deepcopy__(self, memo: Any) -> "Real":
        return self

    def __reduce__(self) -> Any:
        return float, (float(self),)


class Text(str):
    """A text with its expression."""

    expression: Expression

    def __new__(cls, value: str, expression: Expression) -> "Text":
        made = str.__new__(cls, value)
        made.expression = expression
        return made

    def __deepcopy__(self, memo: Any) -> "Text":
        return self

    def __reduce__(self) -> Any:
        return str, (str(self),)

    __hash__ = str.__hash__

    def __iter__(self) -> Iterator[Any]:
        for at in range(len(self)):
            yield self[at]

    def __getitem__(self, at: Any) -> Any:
        found = str.__getitem__(self, at)
        return _item(self, found, at)


class List(list):
    """A list with its expression; its entries have theirs."""

    expression: Expression

    def __init__(self, values: Any, expression: Expression) -> None:
        super().__init__(values)
        self.expression = expression

    def __deepcopy__(self, memo: Any) -> "List":
        return List(list.__iter__(self), self.expression)

    __copy__ = copy = lambda self: List(list.__iter__(self), self.expression)  # type: ignore[assignment]

    def __reduce__(self) -> Any:
        return list, (list(list.__iter__(self)),)

    def __iter__(self) -> Iterator[Any]:
        for at in range(list.__len__(self)):
            yield self[at]

    def __getitem__(self, at: Any) -> Any:
        return _item(self, list.__getitem__(self, at), at)

    def __contains__(self, x: Any) -> bool:
        _seen(("in", expression_of(x), self.expression))
        plain = [bare(y) for y in list.__iter__(self)]
        return bare(x) in plain

    def count(self, x: Any) -> Any:
        number = [bare(y) for y in list.__iter__(self)].count(bare(x))
        return Integer(number, ("count", self.expression, expression_of(x)))

    def __bool__(self) -> bool:
        _seen((">", ("len", self.expression), 0))
        return list.__len__(self) > 0


def _item(whole: Any, found: Any, at: Any) -> Any:
    """An entry of a list or a text."""
    if isinstance(at, slice):
        return found
    number = int(at)
    index = expression_of(at)
    if number < 0:
        index = number + (list.__len__(whole) if isinstance(whole, list) else len(str(whole)))
    expression = ("item", whole.expression, index)
    return found if isinstance(found, (Integer, Text, List)) else traced(found, expression)


@dataclasses.dataclass
class Quotient:
    """What `/` makes of integers; int(), floor and ceil make an integer of it."""

    above: Any
    below: Any

    @property
    def expression(self) -> Expression:
        return ("//", expression_of(self.above), expression_of(self.below))

    def __float__(self) -> float:
        return int(self.above) / int(self.below)

    def __mul__(self, other: Any) -> Any:
        if isinstance(other, float):
            exact = Fraction(other).limit_denominator(1000)
            return Quotient(self.above * exact.numerator, self.below * exact.denominator)
        return Quotient(self.above * other, self.below)

    __rmul__ = __mul__

    def __truediv__(self, other: Any) -> Any:
        return Quotient(self.above, self.below * other)

    def __floordiv__(self, other: Any) -> Any:
        return self.above // (self.below * other)

    def __add__(self, other: Any) -> Any:
        if isinstance(other, int):
            return Quotient(self.above + other * self.below, self.below)
        return float(self) + float(other)

    __radd__ = __add__

    def __sub__(self, other: Any) -> Any:
        if isinstance(other, int):
            return Quotient(self.above - other * self.below, self.below)
        return float(self) - float(other)

    def __rsub__(self, other: Any) -> Any:
        return float(other) - float(self)

    def __neg__(self) -> Any:
        return -float(self)

    def __pow__(self, other: Any) -> Any:
        return float(self) ** float(other)

    def __rpow__(self, other: Any) -> Any:
        return float(other) ** float(self)

    def __rtruediv__(self, other: Any) -> Any:
        return float(other) / float(self)

    def __eq__(self, other: Any) -> bool:
        return float(self) == other

    def __lt__(self, other: Any) -> bool:
        return float(self) < float(other)

    def __gt__(self, other: Any) -> bool:
        return float(self) > float(other)

    def __trunc__(self) -> Any:
        return self.above // self.below

    __floor__ = __trunc__

    def __int__(self) -> int:
        return int(self.above) // int(self.below)

    def __ceil__(self) -> Any:
        return (self.above + self.below - 1) // self.below

    def __round__(self, digits: Any = None) -> Any:
        return self.__trunc__() if digits is None else round(float(self), digits)

    def is_integer(self) -> bool:
        return int(self.above) % int(self.below) == 0


def _quotient(above: Any, below: Any) -> Any:
    if not _is_plain(above) or not _is_plain(below):
        return float(above) / float(below)
    if isinstance(above, Quotient):
        return above / below
    if isinstance(below, Quotient):
        return Quotient(above * below.below, below.above)
    return Quotient(above, below)


for _sign, _plain in (
    ("+", int.__add__), ("-", int.__sub__), ("*", int.__mul__),
    ("//", int.__floordiv__), ("%", int.__mod__),
):  # fmt: skip
    _arithmetic(_sign, _plain)
for _name, _sign in (
    ("eq", "=="), ("ne", "!="), ("lt", "<"), ("le", "<="), ("gt", ">"), ("ge", ">="),
):  # fmt: skip
    _comparison(Integer, _name, _sign, int)
    if _name in ("eq", "ne"):
        _comparison(Text, _name, _sign, str)
        setattr(Text, "__hash__", str.__hash__)
setattr(Integer, "__hash__", int.__hash__)


def bare(x: Any) -> Any:
    """The ordinary value."""
    if isinstance(x, Integer):
        return int(x)
    if isinstance(x, Text):
        return str.__str__(x)
    if isinstance(x, (Quotient, Real)):
        return float(x)
    if isinstance(x, (list, tuple)):
        return [bare(y) for y in list.__iter__(list(x) if isinstance(x, tuple) else x)]
    if isinstance(x, dict):
        return {key: bare(y) for key, y in x.items()}
    return x


def traced(x: Any, expression: Expression) -> Any:
    """A value that remembers the expression, if values of its kind can."""
    if isinstance(x, bool):
        return x
    if isinstance(x, int):
        return Integer(int(x), expression)
    if isinstance(x, float):
        return Real(x)
    if isinstance(x, str):
        return Text(str.__str__(x), expression)
    if isinstance(x, (list, tuple)):
        return List([traced(y, ("item", expression, at)) for at, y in
                     enumerate(list.__iter__(list(x)))], expression)
    return x


class _CountingInt(type):
    """`int` of a traced module: its calls keep expressions."""

    def __instancecheck__(cls, x: Any) -> bool:
        return isinstance(x, int)

    def __call__(cls, *given: Any, **named: Any) -> Any:
        if len(given) == 1 and isinstance(given[0], Integer):
            return given[0]
        if len(given) == 1 and isinstance(given[0], Quotient):
            return given[0].__trunc__()
        return int(*given, **named)

    def __or__(cls, other: Any) -> Any:
        return Optional[int]

    __ror__ = __or__


class _Int(metaclass=_CountingInt):
    pass


def _range(*given: Any) -> Any:
    """`range` of a traced module: numbers that remember their loop."""
    if len(given) == 3 or not any(isinstance(x, Integer) for x in given):
        return range(*map(int, given))
    start, stop = (0, given[0]) if len(given) == 1 else given
    count = expression_of(stop)
    if _recorder is not None:
        _recorder.loops[count] = None
        if expression_of(start) != 0:
            _recorder.loops[simplified(("-", count, expression_of(start)))] = None
    return [Integer(at, ("loop", count, at)) for at in range(int(start), int(stop))]


def _enumerate(values: Any, start: int = 0) -> Any:
    if not isinstance(values, List) or start:
        return enumerate(values, start)
    count = ("len", values.expression)
    if _recorder is not None:
        _recorder.loops[count] = None
    return [(Integer(at, ("loop", count, at)), x) for at, x in enumerate(values)]


def _len(x: Any) -> Any:
    if isinstance(x, (List, Text)) and not (isinstance(x, Text) and x.expression is None):
        number = list.__len__(x) if isinstance(x, list) else str.__len__(x)
        return Integer(number, ("len", x.expression))
    return len(x)


def _isinstance(x: Any, kinds: Any) -> bool:
    if isinstance(x, (Integer, List)):
        names = kinds if isinstance(kinds, tuple) else (kinds,)
        if list in names or tuple in names:
            _seen(("is_list", x.expression))
    if isinstance(kinds, tuple):
        return any(_isinstance(x, kind) for kind in kinds)
    return isinstance(x, int if kinds is _Int else kinds)


_BUILTINS = {"range": _range, "int": _Int, "enumerate": _enumerate, "len": _len,
             "isinstance": _isinstance}


@contextlib.contextmanager
def recording(modules: list[str]) -> Iterator[Recorder]:
    """Records what traced values do in the code of these modules."""
    global _recorder
    before, changed = _recorder, []
    _recorder = made = Recorder()
    for name in modules:
        module = sys.modules.get(name)
        for word, own in _BUILTINS.items():
            if module is not None and word not in vars(module):
                setattr(module, word, own)
                changed.append((module, word))
    try:
        yield made
    finally:
        _recorder = before
        for module, word in changed:
            delattr(module, word)


@contextlib.contextmanager
def paused() -> Iterator[None]:
    """Within it nothing is recorded."""
    global _recorder
    before, _recorder = _recorder, None
    try:
        yield
    finally:
        _recorder = before


@contextlib.contextmanager
def absent_keys(kind: type, prefix: Callable[[Any], Optional[str]]) -> Iterator[None]:
    """Records which attributes of a class of configs are read and absent."""
    if any("__getattr__" in vars(base) for base in kind.__mro__):
        yield
        return

    def missing(self: Any, name: str) -> Any:
        if _recorder is not None and not name.startswith("_"):
            path = prefix(self)
            if path is not None:
                _recorder.absent[path + name] = None
        raise AttributeError(name)

    setattr(kind, "__getattr__", missing)
    try:
        yield
    finally:
        delattr(kind, "__getattr__")


def _plain_arguments(x: Any) -> Any:
    if isinstance(x, (Integer, Quotient, List)):
        return bare(x)
    if type(x) in (tuple, list):
        return type(x)(_plain_arguments(y) for y in x)
    return x


def _expressions_in(x: Any) -> Iterator[tuple[int, Expression]]:
    if isinstance(x, Integer):
        yield int(x), x.expression
    elif isinstance(x, (tuple, list)):
        for y in x:
            yield from _expressions_in(y)


def _given_sizes(given: tuple[Any, ...], named: dict[str, Any]) -> list[Any]:
    """The sizes that a call such as torch.empty(2, 3) is given."""
    sizes = named.get("size", given)
    if len(sizes) == 1 and isinstance(sizes[0], (tuple, list)):
        sizes = sizes[0]
    return list(sizes)


_FACTORIES = {"empty", "zeros", "ones", "rand", "randn"}


def _sizes_of(
    name: str, made: Any, given: tuple[Any, ...], named: dict[str, Any]
) -> list[Expression]:
    """The expressions of a new tensor's sizes; None for one that is not known."""
    shape = list(made.shape)
    assert _recorder is not None
    if name in _FACTORIES:
        sizes = [expression_of(x) for x in _given_sizes(given, named)]
        if len(sizes) == len(shape):
            return sizes
    if name == "full" and given and isinstance(given[0], (tuple, list)):
        return [expression_of(x) for x in given[0]]
    known: dict[int, set[Expression]] = {}
    for x in list(given) + list(named.values()):
        entry = _recorder.sizes.get(id(x))
        if entry is not None:
            if list(x.shape) == shape:
                return list(entry[1])
            for size, expression in zip(x.shape, entry[1]):
                known.setdefault(size, set()).add(expression)
    if name == "arange" and given:
        stop = given[1] if len(given) > 1 else given[0]
        first = given[0] if len(given) > 1 else 0
        if isinstance(stop, Integer) or isinstance(first, Integer):
            difference = stop - first
            if int(difference) == shape[0]:
                return [expression_of(difference)]
    for size, expression in _expressions_in(list(given) + list(named.values())):
        known.setdefault(size, set()).add(expression)
    found: list[Expression] = []
    for size in shape:
        options = known.get(size, set()) - {None}
        found.append(next(iter(options)) if len(options) == 1 else 1 if size == 1 else None)
    return found


def _mode() -> Any:
    from torch import Tensor
    from torch.overrides import TorchFunctionMode

    class Mode(TorchFunctionMode):
        def __torch_function__(
            self, function: Any, types: Any, args: Any = (), kwargs: Any = None
        ) -> Any:
            kwargs = kwargs or {}
            made = function(*map(_plain_arguments, args),
                            **{key: _plain_arguments(x) for key, x in kwargs.items()})
            if isinstance(made, Tensor) and _recorder is not None:
                if id(made) not in _recorder.sizes:
                    name = getattr(function, "__name__", "")
                    with paused_sizes():
                        sizes = _sizes_of(name, made, args, kwargs)
                    _recorder.sizes[id(made)] = (made, sizes)
            return made

    return Mode()


@contextlib.contextmanager
def paused_sizes() -> Iterator[None]:
    """Sizes are looked at without making a tensor of them."""
    import torch

    with torch._C.DisableTorchFunction():
        yield


@contextlib.contextmanager
def tracing_tensors() -> Iterator[None]:
    """Tensors are made on the meta device, and the expressions of their sizes kept."""
    import torch

    original = torch.nn.Parameter.__new__

    def parameter(cls: Any, data: Any = None, requires_grad: bool = True, *more: Any) -> Any:
        made = original(cls, data, requires_grad, *more)
        if _recorder is not None and id(data) in _recorder.sizes:
            _recorder.sizes[id(made)] = (made, _recorder.sizes[id(data)][1])
        return made

    torch.nn.Parameter.__new__ = parameter  # type: ignore[method-assign,assignment]
    try:
        with torch.device("meta"), _mode():
            yield
    finally:
        torch.nn.Parameter.__new__ = original  # type: ignore[method-assign]


@dataclasses.dataclass
class Tensor:
    """A parameter or a buffer that a class made."""

    name: str
    shape: tuple[int, ...]
    dtype: str
    sizes: tuple[Expression, ...]  # None for one that is not known
    module: str = ""  # the class of its module


def values_under(config: Any, prefix: str = "") -> Iterator[tuple[Any, str, str, Any]]:
    """(holder, key, dotted name, value) of every value of a config object or dict, and
    of those inside it."""
    members = config if isinstance(config, Mapping) else vars(config)
    for key, value in list(members.items()):
        if not isinstance(key, str) or key.startswith("_"):
            continue
        yield config, key, prefix + key, value
        if is_config(value):
            yield from values_under(value, f"{prefix}{key}.")


def is_config(x: Any) -> bool:
    """Whether it is a part of a config that has values of its own."""
    if isinstance(x, dict):
        return all(isinstance(key, str) for key in x)
    return any(kind.__name__.endswith(("PretrainedConfig", "PreTrainedConfig"))
               for kind in type(x).__mro__) or dataclasses.is_dataclass(x)


def mark(config: Any, prefix: str = "") -> dict[str, Expression]:
    """Gives every value of a config its own name for an expression, and returns the
    expressions that they had."""
    before: dict[str, Expression] = {}
    for holder, key, name, value in list(values_under(config, prefix)):
        if is_config(value):
            continue
        before[name] = expression_of(value)
        members = holder if isinstance(holder, dict) else vars(holder)
        if isinstance(value, List):
            before[name] = ("whole", value.expression, tuple(
                expression_of(x) for x in list.__iter__(value)))
        elif isinstance(value, list):
            before[name] = ("whole", None, tuple(expression_of(x) for x in value))
        members[key] = traced(value if isinstance(value, dict) else bare(value)
                              if isinstance(value, (int, float, str, list, tuple, Quotient))
                              else value, ("name", name))
    return before
