"""The collectives of a trace of torch.profiler, for shardc.torch_programs.

A trace is the file of a run on another machine, and none of its numbers is trusted:
a group has at most as many ranks as the trace's `world_size`, and each rank is below
it. What does not fit raises TraceError, with the number of the event:

    {"distributedInfo": {"rank": 0, "world_size": 4, "pg_config": [...]},
     "traceEvents": [{"ph": "X", "cat": "cpu_op", "name": "c10d::allreduce_",
                      "ts": 1.0, "dur": 2.0, "tid": 7, "args": {...}}, ...]}

The work grows with the events and not faster.
"""

from __future__ import annotations

import dataclasses
import heapq
import math
import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from shardc.collectives import (
    MOST_RANKS,
    Program,
    Sent,
    TraceError,
    dtype_of,
    is_own,
    kind_of,
)

# The program counts elements in 64 bits.
MOST_ELEMENTS = (1 << 63) - 1

_SPACES = ("c10d::", "_c10d_functional::")
_AUTOGRAD = "autograd::engine::evaluate_function"
_ENCLOSING = ("python_function", "user_annotation")


def of_trace(
    trace: Mapping[str, Any], *, axis: str | None = None, step: str | None = None
) -> Program:
    """Reads a trace of `torch.profiler`, made with `record_shapes=True`. Events of
    `record_param_comms`, which NCCL writes, have the group. Those of gloo have
    sizes only, and those of an all_reduce not even these: `axis` names the dimension
    of the device mesh. Without it, groups of a size that several have are of no known
    axes, and an all_reduce counts over all ranks. gloo does not write the dtype of a
    list of tensors, which counts as float32. `step` is the name of an annotation,
    such as "ProfilerStep#3": what is outside of the first one is left out."""
    if not isinstance(trace, Mapping) or "traceEvents" not in trace:
        raise TraceError("this is no trace of PyTorch: it has no `traceEvents`")
    ranks = _Ranks(trace.get("distributedInfo", {}), axis)
    out = Program("torch_trace", ranks.world or 1, ranks.rank)
    events = list(_events(trace["traceEvents"], step))
    if step is not None:
        span = next((one for one in events if one.name == step), None)
        if span is None:
            raise TraceError(f"the trace has no event {step!r}")
        events = [one for one in events if span.start <= one.start < span.end]
    calls = [one for one in events if one.category == "cpu_op"]
    calls.sort(key=lambda one: (one.start, -one.duration))
    nccl = [one for one in calls if one.name == "record_param_comms"]
    around = _Around(events)
    for event in nccl or _outermost(calls):
        read = _of_nccl if nccl else _of_dispatch
        sent = read(event, ranks)
        if sent is not None:
            out.sent.append(around.describe(event, sent))
    out.world = max(out.world, ranks.seen)
    return out


# ---- Values of the file


def kind_text(value: Any) -> str:
    """What a value of JSON is, for a message."""
    if value is None:
        return "null"
    names = {bool: "a truth value", str: "a string", list: "a list"}
    for kind, name in names.items():
        if isinstance(value, kind):
            return name
    if isinstance(value, Mapping):
        return "an object"
    text = str(value) if not isinstance(value, int) or abs(value) < 1 << 64 else "large"
    return f"the number {text}"


def _is_integer(value: Any) -> bool:
    return isinstance(value, int) and not isinstance(value, bool)


def checked_ranks(ranks: Any, what: str, world: int) -> tuple[int, ...]:
    """The ranks of a group, each below `world` and once."""
    if not isinstance(ranks, (list, tuple)):
        raise TraceError(f"the ranks of {what} are {kind_text(ranks)} and no list")
    if len(ranks) > world:
        raise TraceError(
            f"{what} has {len(ranks):,} ranks, and there are at most {world:,}"
        )
    for one in ranks:
        if not _is_integer(one) or not 0 <= one < world:
            raise TraceError(
                f"{what} has {kind_text(one)} among its ranks, which are the numbers"
                f" from 0 to {world - 1:,}"
            )
    if len(set(ranks)) < len(ranks):
        raise TraceError(f"{what} has a rank twice")
    return tuple(ranks)


@dataclasses.dataclass
class _Event:
    """A complete event of the trace, `"ph": "X"`."""

    number: int  # in the file, from 1
    name: str
    category: str
    start: float
    duration: float
    thread: Any
    args: Mapping[str, Any]

    @property
    def end(self) -> float:
        return self.start + self.duration

    def wrong(self, text: str) -> TraceError:
        return TraceError(f"event {self.number:,} (`{self.name[:80]}`): {text}")

    def integer(self, key: str) -> int | None:
        """A number of the arguments, which PyTorch also writes as text."""
        value = self.args.get(key)
        if isinstance(value, str) and re.fullmatch(r"-?[0-9]{1,18}", value):
            value = int(value)
        if value is None or value == "":
            return None
        if not _is_integer(value) or abs(value) > MOST_ELEMENTS:
            raise self.wrong(f"`{key}` is {kind_text(value)} and no integer")
        return int(value)

    def items(self, key: str) -> Sequence[Any]:
        value = self.args.get(key, [])
        if not isinstance(value, list):
            raise self.wrong(f"`{key}` is {kind_text(value)} and no list")
        return value


def _events(found: Any, step: str | None) -> Iterator[_Event]:
    """The events that are read: calls, what may enclose them, and the step."""
    if not isinstance(found, list):
        raise TraceError(f"`traceEvents` is {kind_text(found)} and no list")
    for number, one in enumerate(found, 1):
        if not isinstance(one, Mapping):
            raise TraceError(f"event {number:,} is {kind_text(one)} and no object")
        if one.get("ph") != "X":
            continue
        name, category = one.get("name", ""), one.get("cat", "")
        if not isinstance(name, str):
            raise TraceError(
                f"event {number:,}: `name` is {kind_text(name)} and no string"
            )
        if not (
            category == "cpu_op"
            or category in _ENCLOSING
            or name.startswith(_AUTOGRAD)
            or (step is not None and name == step)
        ):
            continue
        event = _Event(number, name, category, 0, 0, None, {})
        event.start = _time(event, one, "ts", None)
        event.duration = _time(event, one, "dur", 0)
        thread, args = one.get("tid"), one.get("args", {})
        if not isinstance(thread, (int, str, float, type(None))):
            raise event.wrong(f"`tid` is {kind_text(thread)} and names no thread")
        if not isinstance(args, Mapping):
            raise event.wrong(f"`args` is {kind_text(args)} and no object")
        event.thread, event.args = thread, args
        yield event


def _time(
    event: _Event, one: Mapping[str, Any], key: str, default: float | None
) -> float:
    """A time in microseconds. It is finite, and a duration is not negative."""
    value = one.get(key, default)
    if value is None:
        raise event.wrong(f"it has no `{key}`")
    if not isinstance(value, (int, float)) or isinstance(value, bool):
        raise event.wrong(f"`{key}` is {kind_text(value)} and no number")
    # An integer beyond the range of floats is no time.
    if abs(value) > 1e300 or value != value or (key == "dur" and value < 0):
        raise event.wrong(f"`{key}` is {kind_text(value)}, which is no time")
    return value


class _Ranks:
    """The ranks of the trace and its process groups."""

    def __init__(self, info: Any, axis: str | None) -> None:
        if not isinstance(info, Mapping):
            raise TraceError(f"`distributedInfo` is {kind_text(info)} and no object")
        # 0 where the trace has none.
        self.world = self._number(info, "world_size", 0, 1, MOST_RANKS)
        self.rank = self._number(info, "rank", 0, 0, self.most - 1)
        self.seen = 0  # one more than the largest rank of a group
        self.groups: dict[str, tuple[int, ...]] = {}
        found = info.get("pg_config", ())
        if not isinstance(found, (list, tuple)):
            raise TraceError(f"`pg_config` is {kind_text(found)} and no list")
        for one in found:
            if not isinstance(one, Mapping):
                raise TraceError(
                    f"an entry of `pg_config` is {kind_text(one)} and no object"
                )
            if axis is None or one.get("pg_desc") == f"mesh_{axis}":
                name = str(one.get("pg_name"))
                ranks = one.get("ranks", ())
                self.groups[name] = self.checked(ranks, f"the group {name[:80]!r}")
        # Those with this rank, by their size.
        self._own: dict[int, list[tuple[int, ...]]] = {}
        for ranks in self.groups.values():
            if self.rank in ranks:
                self._own.setdefault(len(ranks), []).append(ranks)
                self._own.setdefault(0, []).append(ranks)

    @staticmethod
    def _number(
        info: Mapping[str, Any], key: str, default: int, least: int, most: int
    ) -> int:
        value = info.get(key)
        if value is None:
            return default
        if not _is_integer(value) or not least <= value <= most:
            raise TraceError(
                f"`{key}` of `distributedInfo` is {kind_text(value)}, and no integer"
                f" from {least:,} to {most:,}"
            )
        return int(value)

    @property
    def most(self) -> int:
        """The most ranks that a group can have."""
        return self.world or MOST_RANKS

    def checked(self, ranks: Any, what: str) -> tuple[int, ...]:
        out = checked_ranks(ranks, what, self.most)
        self.seen = max(self.seen, 1 + max(out, default=0))
        return out

    def size(self, size: int, event: _Event, why: str) -> int:
        """The size of a group, which is 0 where it is not known."""
        if not 0 <= size <= self.most:
            limit = (
                f"the trace's `world_size` is {self.world:,}"
                if self.world
                else f"a group has at most {MOST_RANKS:,}"
            )
            raise event.wrong(f"{why} a group of {size:,} ranks, and {limit}")
        return size

    def own(self, size: int) -> tuple[int, ...]:
        """The only group of this size, or of any for 0, that this rank is in."""
        found = self._own.get(size, [])
        return found[0] if len(found) == 1 else ()


# ---- Calls


def _outermost(calls: Sequence[_Event]) -> list[_Event]:
    """Leaves out collectives that run in another one: `_c10d_functional.all_reduce`
    calls `c10d.allreduce_`. The calls are in the order of their beginnings."""
    ends: dict[Any, float] = {}
    out = []
    for one in calls:
        if not one.name.startswith(_SPACES) or kind_of(one.name) is None:
            continue
        if one.start >= ends.get(one.thread, -math.inf):
            ends[one.thread] = one.end
            out.append(one)
    return out


def _of_nccl(event: _Event, known: _Ranks) -> Sent | None:
    args = event.args
    kind = kind_of(str(args.get("Collective name", "")))
    dtype = dtype_of(str(args.get("dtype", "")))
    if kind is None or dtype is None:
        return None
    ranks = known.groups.get(str(args.get("Process Group Name")), ())
    listed = str(args.get("Process Group Ranks", ""))
    if not ranks and "..." not in listed:
        texts = re.findall(r"[0-9]+", listed)
        if any(len(text) > 9 for text in texts):
            raise event.wrong("`Process Group Ranks` has a number that is no rank")
        ranks = known.checked(
            list(map(int, texts)),
            f"the group of event {event.number:,} (`{event.name}`)",
        )
    given = event.integer("Group size")
    size = known.size(len(ranks) if given is None else given, event, "it is of")
    start = event.integer("Global rank start")
    stride = event.integer("Global rank stride")
    # PyTorch writes no stride of ranks that have none.
    if not ranks and start is not None and stride is not None and stride > 0 <= start:
        last = start + max(size - 1, 0) * stride
        if last >= known.most:
            raise event.wrong(
                f"its last rank is {last:,}, and ranks are below {known.most:,}"
            )
        ranks = tuple(range(start, last + 1, stride)) if size else ()
        known.seen = max(known.seen, last + 1)
    elements = event.integer("In msg nelems") or 0
    if elements < 0:
        raise event.wrong(f"`In msg nelems` is {elements:,}")
    target = event.integer("Dst Rank") if kind == "collective-permute" else None
    if target is not None and not 0 <= target < known.most:
        raise event.wrong(f"`Dst Rank` is {target:,}, and ranks are below {known.most:,}")
    return Sent(kind, dtype, (elements,), ranks, size, target=target)


def _of_dispatch(event: _Event, known: _Ranks) -> Sent | None:
    kind = kind_of(event.name)
    dims, types = event.items("Input Dims"), event.items("Input type")
    tensors = [
        (_dims(dim, event), str(type_))
        for dim, type_ in zip(dims, types)
        if isinstance(dim, list) and dim and not isinstance(dim[0], list)
    ]
    if kind is None:
        return None
    if not tensors:
        # Lists of tensors, each sent together: the results, then the operands.
        tensors = [
            (_together(dim, event), "float")
            for dim in dims
            if isinstance(dim, list) and dim
        ][-2:]
        if not tensors:
            return None
    # The functions of c10d have the result first.
    at = 1 if event.name.startswith("c10d::") and len(tensors) > 1 else 0
    shape, type_ = tensors[at]
    dtype = dtype_of(type_) or "f32"
    size, why = 0, ""
    if at == 1:
        big, small = (math.prod(tensors[i][0]) for i in (0, 1))
        if kind == "reduce-scatter":
            big, small = small, big
        if small and kind in ("all-gather", "reduce-scatter"):
            size = big // small
            why = f"tensors of {big:,} and of {small:,} elements are those of"
    elif kind in ("all-gather", "reduce-scatter"):
        # A functional collective is given the size.
        numbers = [
            int(one)
            for one in map(str, event.items("Concrete Inputs"))
            if re.fullmatch("[0-9]{1,18}", one)
        ]
        if event.name.startswith("_c10d_functional::") and numbers:
            size, why = numbers[0], "`Concrete Inputs` has"
    return Sent(kind, dtype, shape, known.own(known.size(size, event, why)), size)


def _dims(dims: Sequence[Any], event: _Event) -> tuple[int, ...]:
    """The shape of a tensor."""
    for one in dims:
        if not _is_integer(one) or not 0 <= one <= MOST_ELEMENTS:
            raise event.wrong(f"`Input Dims` has {kind_text(one)}, which is no size")
    if math.prod(dims[:64]) > MOST_ELEMENTS or len(dims) > 64:
        raise event.wrong("`Input Dims` has a shape with too many elements")
    return tuple(dims)


def _together(dims: list[Any], event: _Event) -> tuple[int, ...]:
    """The shape of a list's only tensor, or the elements of all its tensors, which may
    be in lists of their own."""
    shapes: list[tuple[int, ...]] = []
    for one in dims:
        if not isinstance(one, list):
            raise event.wrong(f"`Input Dims` has {kind_text(one)} among lists")
        if one and all(isinstance(part, list) for part in one):
            shapes += [_dims(part, event) for part in one]
        else:
            shapes.append(_dims(one, event))
    return shapes[0] if len(shapes) == 1 else (sum(map(math.prod, shapes)),)


# ---- What encloses a call


class _Spans:
    """Spans of one thread, of which the one that began last and has not ended is
    found. Times are given in their order, so that a span that has ended at one is
    dropped for good."""

    def __init__(self) -> None:
        self._open: list[tuple[float, int, float, Any]] = []

    def add(self, start: float, order: int, end: float, what: Any) -> None:
        heapq.heappush(self._open, (-start, -order, end, what))

    def at(self, time: float) -> Any:
        while self._open and self._open[0][2] < time:
            heapq.heappop(self._open)
        return self._open[0][3] if self._open else None


class _Around:
    """What encloses an event on its thread: the user's line, the module of an
    annotation of FSDP, and the backward pass. Events come in the order of their
    beginnings."""

    def __init__(self, events: Sequence[_Event]) -> None:
        self._waiting: dict[Any, list[_Event]] = {}
        self._open: dict[Any, dict[str, _Spans]] = {}
        for one in events:
            if one.category in _ENCLOSING or one.name.startswith(_AUTOGRAD):
                self._waiting.setdefault(one.thread, []).append(one)
        for spans in self._waiting.values():
            # The first is at the end, to be taken from there.
            spans.sort(key=lambda one: one.start)
            spans.reverse()

    def describe(self, event: _Event, sent: Sent) -> Sent:
        waiting = self._waiting.get(event.thread, [])
        open_ = self._open.setdefault(
            event.thread, {"line": _Spans(), "module": _Spans(), "backward": _Spans()}
        )
        while waiting and waiting[-1].start <= event.start:
            one = waiting.pop()
            for what, value in _meaning(one.name):
                open_[what].add(one.start, -len(waiting), one.end, value)
        file, line = open_["line"].at(event.start) or ("", 0)
        module = open_["module"].at(event.start) or ""
        return dataclasses.replace(
            sent,
            file=file,
            line=line,
            module=module,
            backward=open_["backward"].at(event.start) is not None,
            of_parameter=bool(module) and sent.kind == "all-gather",
        )


def _meaning(name: str) -> Iterator[tuple[str, Any]]:
    """What a span with this name states about the calls in it."""
    found = re.match(r"(.*\.py)\(([0-9]{1,9})\): ", name)
    if found and is_own(found.group(1)):
        yield "line", (found.group(1), int(found.group(2)))
    fsdp = re.match(r"FSDP::\w+ \((.*)\)", name)
    if fsdp:
        yield "module", fsdp.group(1)
    if name.startswith("autograd::engine") or "backward" in name:
        yield "backward", True
