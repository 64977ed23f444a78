"""What a PyTorch step sends, as a program that `shardc audit` reads.

A step of PyTorch is no text of XLA, but its collectives are known from a
recorder that runs with it, a trace of the profiler, the graph of torch.compile,
or the counts of CommDebugMode. Each is turned into one line for each collective
in XLA's form, so that `shardc.audit` shows the same report of it:

    with shardc.torch_programs.record() as step:
        train_step(batch)
    print(shardc.audit(step, mesh={"dp": 2, "tp": 2}))

or, for `shardc audit step.hlo.txt --mesh dp:2,tp:2`:

    python -m shardc.torch_programs trace.json --mesh dp:2,tp:2 > step.hlo.txt

Only `record` needs PyTorch.
"""

from __future__ import annotations

import argparse
import dataclasses
import json
import math
import os
import re
import sys
from collections.abc import Mapping, Sequence
from types import FrameType
from typing import Any

from shardc.collectives import Program as Program
from shardc.collectives import Sent as Sent
from shardc.collectives import dtype_of, is_own, kind_of

# ---- Traces of torch.profiler


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
    info = trace.get("distributedInfo", {})
    rank = int(info.get("rank", 0))
    out = Program("torch_trace", int(info.get("world_size", 1)), rank)
    groups = {
        str(one.get("pg_name")): tuple(one.get("ranks", ()))
        for one in info.get("pg_config", ())
        if axis is None or one.get("pg_desc") == f"mesh_{axis}"
    }
    events = [one for one in trace["traceEvents"] if one.get("ph") == "X"]
    if step is not None:
        span = next((one for one in events if one.get("name") == step), None)
        if span is None:
            raise ValueError(f"the trace has no event {step!r}")
        end = span["ts"] + span.get("dur", 0)
        events = [one for one in events if span["ts"] <= one["ts"] < end]
    calls = [one for one in events if one.get("cat") == "cpu_op"]
    calls.sort(key=lambda one: (one["ts"], -one.get("dur", 0)))
    nccl = [one for one in calls if one["name"] == "record_param_comms"]
    around = _Around(events)
    for event in nccl or _outermost(calls):
        read = _of_nccl if nccl else _of_dispatch
        one = read(event, groups, rank)
        if one is not None:
            out.sent.append(around.describe(event, one))
    out.world = max(out.world, *(1 + max(one.ranks, default=0) for one in out.sent), 1)
    return out


_SPACES = ("c10d::", "_c10d_functional::")


def _outermost(calls: Sequence[Mapping[str, Any]]) -> list[Mapping[str, Any]]:
    """Leaves out collectives that run in another one: `_c10d_functional.all_reduce`
    calls `c10d.allreduce_`. The calls are in the order of their beginnings."""
    ends: dict[Any, float] = {}
    out = []
    for one in calls:
        name = str(one["name"])
        if not name.startswith(_SPACES) or kind_of(name) is None:
            continue
        thread = one.get("tid")
        if one["ts"] >= ends.get(thread, -math.inf):
            ends[thread] = one["ts"] + one.get("dur", 0)
            out.append(one)
    return out


def _of_nccl(
    event: Mapping[str, Any], groups: Mapping[str, tuple[int, ...]], rank: int
) -> Sent | None:
    args = event.get("args", {})
    kind = kind_of(str(args.get("Collective name", "")))
    dtype = dtype_of(str(args.get("dtype", "")))
    if kind is None or dtype is None:
        return None
    ranks = groups.get(str(args.get("Process Group Name")), ())
    listed = str(args.get("Process Group Ranks", ""))
    if not ranks and "..." not in listed:
        ranks = tuple(map(int, re.findall(r"\d+", listed)))
    size = int(args.get("Group size", len(ranks)))
    start, stride = args.get("Global rank start"), args.get("Global rank stride")
    if not ranks and start is not None and stride is not None:
        ranks = tuple(int(start) + i * int(stride) for i in range(size))
    target = args.get("Dst Rank")
    return Sent(
        kind,
        dtype,
        (int(args.get("In msg nelems", 0)),),
        ranks,
        size,
        target=int(target) if kind == "collective-permute" and target else None,
    )


def _of_dispatch(
    event: Mapping[str, Any], groups: Mapping[str, tuple[int, ...]], rank: int
) -> Sent | None:
    name = str(event["name"])
    kind = kind_of(name)
    args = event.get("args", {})
    dims, types = args.get("Input Dims", []), args.get("Input type", [])
    tensors = [
        (tuple(dim), type_)
        for dim, type_ in zip(dims, types)
        if isinstance(dim, list) and dim and not isinstance(dim[0], list)
    ]
    if kind is None:
        return None
    if not tensors:
        # Lists of tensors, each sent together: the results, then the operands.
        tensors = [
            (_together(dim), "float") for dim in dims if isinstance(dim, list) and dim
        ][-2:]
        if not tensors:
            return None
    # The functions of c10d have the result first.
    at = 1 if name.startswith("c10d::") and len(tensors) > 1 else 0
    shape, type_ = tensors[at]
    dtype = dtype_of(type_) or "f32"
    size = 0
    if at == 1:
        big, small = (math.prod(tensors[i][0]) for i in (0, 1))
        if kind == "reduce-scatter":
            big, small = small, big
        size = big // small if small and kind in ("all-gather", "reduce-scatter") else 0
    elif kind in ("all-gather", "reduce-scatter"):
        # A functional collective is given the size.
        numbers = [
            int(one) for one in args.get("Concrete Inputs", ()) if str(one).isdigit()
        ]
        size = numbers[0] if name.startswith("_c10d_functional::") and numbers else 0
    own = [one for one in groups.values() if rank in one and size in (0, len(one))]
    ranks = own[0] if len(own) == 1 else ()
    return Sent(kind, dtype, shape, ranks, size)


def _together(dims: list[Any]) -> tuple[int, ...]:
    """The shape of a list's only tensor, or the elements of all its tensors."""
    if all(isinstance(one, int) for one in dims):
        return tuple(dims)
    shapes = [_together(one) for one in dims]
    return shapes[0] if len(shapes) == 1 else (sum(map(math.prod, shapes)),)


class _Around:
    """What encloses an event on its thread: the user's line, the module of an
    annotation of FSDP, and the backward pass."""

    def __init__(self, events: Sequence[Mapping[str, Any]]) -> None:
        kept = ("python_function", "user_annotation")
        self._spans: dict[Any, list[Mapping[str, Any]]] = {}
        for one in events:
            if one.get("cat") in kept or str(one.get("name", "")).startswith(
                "autograd::engine::evaluate_function"
            ):
                self._spans.setdefault(one.get("tid"), []).append(one)
        for spans in self._spans.values():
            spans.sort(key=lambda one: one["ts"])

    def describe(self, event: Mapping[str, Any], sent: Sent) -> Sent:
        file, line, module, backward = "", 0, "", False
        for one in self._spans.get(event.get("tid"), ()):
            if one["ts"] > event["ts"]:
                break
            if one["ts"] + one.get("dur", 0) < event["ts"]:
                continue
            name = str(one["name"])
            found = re.match(r"(.*\.py)\((\d+)\): ", name)
            if found and is_own(found.group(1)):
                file, line = found.group(1), int(found.group(2))
            fsdp = re.match(r"FSDP::\w+ \((.*)\)", name)
            if fsdp:
                module = fsdp.group(1)
            backward = (
                backward or name.startswith("autograd::engine") or "backward" in name
            )
        return dataclasses.replace(
            sent,
            file=file,
            line=line,
            module=module,
            backward=backward,
            of_parameter=bool(module) and sent.kind == "all-gather",
        )


# ---- Graphs of torch.compile

_NODE = re.compile(
    r'^\s*(\w+)(?:: "(\w+)\[([\d, ]*)\][^"]*")? = '
    r"torch\.ops\._c10d_functional\.(\w+)\.\w+\((.*?)\)(?:;|$)"
)
_TYPED = re.compile(r'(\w+): "(\w+)\[([\d, ]*)\]')
_FILE = re.compile(r"# .*?File: (.+?):(\d+) in ")


def of_graph(
    text: str,
    groups: Mapping[str, Sequence[int]],
    *,
    backward: bool = False,
    rank: int = 0,
) -> Program:
    """Reads the text of a graph, `gm.print_readable(print_output=False)`, with its
    calls of `_c10d_functional`. `groups` has the ranks of each process group by
    name, which the graph lacks: `process_groups()` returns it. Below a line
    `# backward`, and with `backward`, collectives are those of the backward
    pass."""
    world = 1 + max((max(ranks) for ranks in groups.values() if ranks), default=0)
    out = Program("torch_graph", world, rank)
    types: dict[str, tuple[str, tuple[int, ...]]] = {}
    file, line = "", 0
    for row in text.splitlines():
        if row.strip() in ("# forward", "# backward"):
            backward = row.strip() == "# backward"
        place = _FILE.search(row)
        if place and is_own(place.group(1)):
            file, line = place.group(1), int(place.group(2))
        for name, dtype, dims in _TYPED.findall(row):
            shape = tuple(int(n) for n in dims.replace(" ", "").split(",") if n)
            types[name] = (dtype, shape)
        node = _NODE.match(row)
        kind = kind_of(node.group(4)) if node else None
        if node is None or kind is None:
            continue
        arguments = node.group(5)
        names = re.findall(r"'([^']*)'", arguments)
        group = names[-1] if names else ""
        if group not in groups:
            raise ValueError(f"`groups` lacks the process group {group!r} of: {row}")
        ranks = tuple(groups[group])
        listed = re.match(r"\[(.*?)\]", arguments)
        for operand in (listed.group(1) if listed else arguments.split(",")[0]).split(
            ","
        ):
            dtype, shape = types.get(operand.strip(), ("", ()))
            if not dtype:
                raise ValueError(f"the graph has no shape of {operand.strip()!r}")
            out.sent.append(
                Sent(
                    kind,
                    dtype,
                    shape,
                    ranks,
                    len(ranks),
                    backward=backward,
                    file=file,
                    line=line,
                )
            )
    return out


def process_groups() -> dict[str, list[int]]:
    """Returns the ranks of every process group of this process by name."""
    import torch.distributed as dist

    names = dist.distributed_c10d._world.pg_names
    return {name: dist.get_process_group_ranks(group) for group, name in names.items()}


# ---- CommDebugMode


def of_comm_debug(tree: Mapping[str, Any], world: int = 1) -> Program:
    """Reads the JSON of CommDebugMode, `generate_json_dump`. It has numbers of
    calls by module, and neither bytes nor groups: every collective counts 0
    bytes."""
    out = Program("torch_comm_debug", world)

    def visit(node: Mapping[str, Any]) -> dict[str, int]:
        below: dict[tuple[str, bool], int] = {}
        inner: list[Any] = []
        for child in node.get("children", ()):
            for key, count in visit(child).items():
                below[key] = below.get(key, 0) + count
        total: dict[Any, int] = {}
        for backward in (False, True):
            key = "collectives_backward" if backward else "collectives_forward"
            for name, count in node.get(key, ()):
                total[name, backward] = total.get((name, backward), 0) + int(count)
        for (name, backward), count in total.items():
            kind = kind_of(str(name).split("'")[1] if "'" in str(name) else str(name))
            # A module's counts include those of the modules in it.
            own = count - below.get((name, backward), 0)
            if kind is not None and own > 0:
                inner += [
                    Sent(
                        kind,
                        "u8",
                        (0,),
                        size=world,
                        backward=backward,
                        module=str(node.get("fqn", "")),
                    )
                ] * own
        out.sent.extend(inner)
        return {**below, **total}

    visit(tree)
    return out


# ---- Recording


class Recorder(Program):
    """Records the collectives of a block: a dispatch mode sees the group of each,
    its tensors and the Python stack, with every backend. Of asynchronous waits
    and barriers nothing is recorded."""

    def __enter__(self) -> Recorder:
        import torch.distributed as dist

        self.world = dist.get_world_size() if dist.is_initialized() else 1
        self.rank = dist.get_rank() if dist.is_initialized() else 0
        self._mode = _mode_for(self)
        self._mode.__enter__()
        return self

    def __exit__(self, *error: Any) -> None:
        self._mode.__exit__(*error)


def record(name: str = "torch_step") -> Recorder:
    """Returns a recorder for `with`, which `shardc.audit` takes."""
    return Recorder(name)


def _mode_for(program: Recorder) -> Any:
    import torch
    import torch.distributed as dist
    from torch.utils._python_dispatch import TorchDispatchMode

    def ranks_of(args: Sequence[Any], functional: bool) -> tuple[int, ...]:
        group: Any = None
        if functional:
            names = [one for one in args if isinstance(one, str)]
            group = dist.distributed_c10d._resolve_process_group(names[-1])
        else:
            for one in args:
                if isinstance(one, torch.ScriptObject):
                    try:
                        group = dist.ProcessGroup.unbox(one)
                        break
                    except RuntimeError:  # an operation such as sum
                        continue
        return tuple(dist.get_process_group_ranks(group))

    def tensors_of(value: Any) -> list[Any]:
        if isinstance(value, torch.Tensor):
            return [value]
        if isinstance(value, (list, tuple)):
            return [one for item in value for one in tensors_of(item)]
        return []

    class Mode(TorchDispatchMode):
        def __torch_dispatch__(self, func, types, args=(), kwargs=None):  # type: ignore[no-untyped-def]
            self.note(func, args)
            return func(*args, **(kwargs or {}))

        def note(self, func: Any, args: Sequence[Any]) -> None:
            space = func.namespace
            if space not in ("c10d", "_c10d_functional", "c10d_functional"):
                return
            kind = kind_of(func._opname)
            if kind is None:
                return
            functional = space != "c10d"
            ranks = ranks_of(args, functional)
            # The functions of c10d that have two begin with the result.
            own = tensors_of(args[0])
            second = tensors_of(args[1]) if len(args) > 1 else []
            if not functional and second and kind != "all-reduce":
                own = second
            file, line, module = _caller()
            for one in own:
                dtype = dtype_of(str(one.dtype)) or "u8"
                program.sent.append(
                    Sent(
                        kind,
                        dtype,
                        tuple(one.shape),
                        ranks,
                        len(ranks),
                        backward=torch._C._current_graph_task_id() != -1,
                        module=module,
                        of_parameter=bool(module) and kind == "all-gather",
                        file=file,
                        line=line,
                    )
                )

    return Mode()


def _caller() -> tuple[str, int, str]:
    """The innermost line of the user, and the module that FSDP gathers."""
    module = ""
    frame: FrameType | None = sys._getframe(2)
    while frame is not None:
        owner = frame.f_locals.get("self")
        if not module and type(owner).__name__ == "FSDPParamGroup":
            module = str(getattr(owner, "_module_fqn", "") or "root")
        if is_own(frame.f_code.co_filename):
            return frame.f_code.co_filename, frame.f_lineno, module
        frame = frame.f_back
    return "", 0, module


# ---- Files


def read(path: str | os.PathLike[str]) -> Program:
    """Reads a trace of the profiler or the JSON of CommDebugMode."""
    with open(path, encoding="utf-8") as file:
        data = json.load(file)
    return of_data(data, os.fspath(path))


def of_data(data: Any, name: str) -> Program:
    if isinstance(data, Mapping) and "traceEvents" in data:
        return of_trace(data)
    if isinstance(data, Mapping) and "collectives_forward" in data:
        return of_comm_debug(data)
    raise ValueError(f"{name} is neither a trace of PyTorch nor from CommDebugMode")


def main() -> None:
    parser = argparse.ArgumentParser(
        prog="python -m shardc.torch_programs",
        description="Writes the collectives of a trace or graph of PyTorch as a"
        " program that `shardc audit` reads.",
    )
    parser.add_argument("file", help="a trace, a graph, or CommDebugMode's JSON")
    parser.add_argument("--mesh", default="", help="dp:2,tp:2, in the ranks' order")
    parser.add_argument("--groups", help="JSON of ranks by group, for a graph")
    flags = parser.parse_args()
    sizes = {}
    for part in filter(None, flags.mesh.split(",")):
        axis, size = part.split(":")
        sizes[axis] = int(size)
    if flags.groups:
        with open(flags.groups, encoding="utf-8") as file:
            groups = json.load(file)
        with open(flags.file, encoding="utf-8") as file:
            program = of_graph(file.read(), groups)
    else:
        program = read(flags.file)
    sys.stdout.write(program.as_hlo(sizes))


if __name__ == "__main__":
    main()
