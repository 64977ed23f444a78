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
import contextlib
import math
import os
import re
import sys
from collections.abc import Iterator, Mapping, Sequence
from types import FrameType
from typing import Any

from shardc import files
from shardc.collectives import MOST_RANKS, Sent, TraceError, dtype_of, is_own, kind_of
from shardc.collectives import Program as Program
from shardc.torch_traces import MOST_ELEMENTS, checked_ranks, kind_text
from shardc.torch_traces import of_trace as of_trace

# ---- Graphs of torch.compile

_NODE = re.compile(
    r'^\s*(\w+)(?:: "(\w+)\[([0-9, ]*)\][^"]*")? = '
    r"torch\.ops\._c10d_functional\.(\w+)\.\w+\((.*?)\)(?:;|$)"
)
# Each begins where a word does, so that a long word is read once.
_TYPED = re.compile(r'(?<!\w)(\w+): "(\w+)\[([0-9, ]*)\]')
_FILE = re.compile(r"(.+?):([0-9]{1,9}) in ")


def _place(row: str) -> tuple[str, int] | None:
    """The user's line of a comment `# File: train.py:12 in f, code: ...`."""
    _, mark, rest = row.partition("# ")
    _, found, rest = rest.partition("File: ")
    place = _FILE.match(rest) if mark and found else None
    if place is None or not is_own(place.group(1)):
        return None
    return place.group(1), int(place.group(2))


def _shape(dims: str, row: str) -> tuple[int, ...]:
    texts = [n for n in dims.replace(" ", "").split(",") if n]
    shape = tuple(int(n) for n in texts if len(n) < 19)
    if len(shape) < len(texts) or math.prod(shape) > MOST_ELEMENTS:
        raise TraceError(f"the shape [{dims[:60]}] has too many elements: {row[:120]}")
    return shape


def _checked_groups(groups: Any) -> dict[str, tuple[int, ...]]:
    """The ranks of each process group, of a mapping such as a JSON file has it."""
    if not isinstance(groups, Mapping):
        raise TraceError("the groups are no object with the ranks of each group by name")
    return {
        str(name): checked_ranks(ranks, f"the group {name!r}", MOST_RANKS)
        for name, ranks in groups.items()
    }


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
    known = _checked_groups(groups)
    world = 1 + max((max(ranks) for ranks in known.values() if ranks), default=0)
    out = Program("torch_graph", world, rank)
    types: dict[str, tuple[str, tuple[int, ...]]] = {}
    file, line = "", 0
    for row in text.splitlines():
        if row.strip() in ("# forward", "# backward"):
            backward = row.strip() == "# backward"
        file, line = _place(row) or (file, line)
        for name, dtype, dims in _TYPED.findall(row):
            types[name] = (dtype, _shape(dims, row))
        node = _NODE.match(row)
        kind = kind_of(node.group(4)) if node else None
        if node is None or kind is None:
            continue
        arguments = node.group(5)
        names = re.findall(r"'([^']*)'", arguments)
        group = names[-1] if names else ""
        if group not in known:
            raise TraceError(
                f"`groups` lacks the process group {group!r} of: {row[:200]}"
            )
        ranks = known[group]
        listed = re.match(r"\[(.*?)\]", arguments)
        for operand in (listed.group(1) if listed else arguments.split(",")[0]).split(
            ","
        ):
            dtype, shape = types.get(operand.strip(), ("", ()))
            if not dtype:
                raise TraceError(f"the graph has no shape of {operand.strip()[:200]!r}")
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


# A line of the program for each run of a collective.
_MOST_RUNS = 200_000


def of_comm_debug(tree: Mapping[str, Any], world: int = 1) -> Program:
    """Reads the JSON of CommDebugMode, `generate_json_dump`. It has numbers of
    calls by module, and neither bytes nor groups: every collective counts 0
    bytes."""
    out = Program("torch_comm_debug", world)

    def visit(node: Any) -> dict[tuple[str, bool], int]:
        if not isinstance(node, Mapping):
            raise TraceError(f"a module is {kind_text(node)} and no object")
        module = str(node.get("fqn", ""))
        below: dict[tuple[str, bool], int] = {}
        inner: list[Sent] = []
        for child in _list(node, "children", module):
            for key, count in visit(child).items():
                below[key] = below.get(key, 0) + count
        total: dict[tuple[str, bool], int] = {}
        for backward in (False, True):
            key = "collectives_backward" if backward else "collectives_forward"
            for name, count in _counts(node, key, module):
                total[name, backward] = total.get((name, backward), 0) + count
        for (name, backward), count in total.items():
            kind = kind_of(name.split("'")[1] if "'" in name else name)
            # A module's counts include those of the modules in it.
            own = count - below.get((name, backward), 0)
            if kind is None or own <= 0:
                continue
            if len(out.sent) + len(inner) + own > _MOST_RUNS:
                raise TraceError(
                    f"the module {module!r} runs {name!r} {own:,} times, and a program"
                    f" has at most {_MOST_RUNS:,} runs of collectives"
                )
            inner += [
                Sent(kind, "u8", (0,), size=world, backward=backward, module=module)
            ] * own
        out.sent.extend(inner)
        return {**below, **total}

    visit(tree)
    return out


def _list(node: Mapping[str, Any], key: str, module: str) -> Sequence[Any]:
    found = node.get(key, ())
    if not isinstance(found, (list, tuple)):
        raise TraceError(
            f"`{key}` of the module {module!r} is {kind_text(found)} and no list"
        )
    return found


def _counts(
    node: Mapping[str, Any], key: str, module: str
) -> Iterator[tuple[str, int]]:
    """The calls of each collective: pairs of its name and their number."""
    for pair in _list(node, key, module):
        if not (
            isinstance(pair, (list, tuple))
            and len(pair) == 2
            and isinstance(pair[1], int)
            and pair[1] >= 0
        ):
            raise TraceError(
                f"`{key}` of the module {module!r} has an entry that is no pair of a"
                " collective and a number of calls"
            )
        yield str(pair[0]), int(pair[1])


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
    """Reads a trace of the profiler or the JSON of CommDebugMode, also compressed with
    gzip. Raises FileError if it is neither, or damaged."""
    with _in_file(path):
        return of_data(files.read_json(path), "this file")


@contextlib.contextmanager
def _in_file(path: str | os.PathLike[str]) -> Iterator[None]:
    try:
        yield
    except TraceError as error:
        raise files.FileError(path, str(error), code="schema") from None
    except RecursionError:
        message = "this file is nested too deeply"
        raise files.FileError(path, message, code="json-depth") from None


def of_data(data: Any, name: str) -> Program:
    if isinstance(data, Mapping) and "traceEvents" in data:
        return of_trace(data)
    if isinstance(data, Mapping) and "collectives_forward" in data:
        return of_comm_debug(data)
    raise TraceError(
        f"{name} is neither a trace of PyTorch, which has `traceEvents`, nor from"
        " CommDebugMode, which has `collectives_forward`"
    )


def _mesh_of(text: str) -> dict[str, int]:
    """The sizes of a mesh that is written `dp:2,tp:2`."""
    sizes: dict[str, int] = {}
    for part in filter(None, text.split(",")):
        found = re.fullmatch(r"([A-Za-z_][\w.-]*):([1-9][0-9]{0,8})", part, re.ASCII)
        if found is None or found[1] in sizes:
            raise argparse.ArgumentTypeError(
                f"{files.printable(part)!r} is no axis with its size: write"
                " `--mesh dp:2,tp:2`, each axis once"
            )
        sizes[found[1]] = int(found[2])
    if math.prod(sizes.values()) > MOST_RANKS:
        raise argparse.ArgumentTypeError(f"a mesh has at most {MOST_RANKS:,} devices")
    return sizes


def main() -> int:
    parser = argparse.ArgumentParser(
        prog="python -m shardc.torch_programs",
        description="Writes the collectives of a trace or graph of PyTorch as a"
        " program that `shardc audit` reads.",
    )
    parser.add_argument("file", help="a trace, a graph, or CommDebugMode's JSON")
    parser.add_argument(
        "--mesh", type=_mesh_of, default={}, help="dp:2,tp:2, in the ranks' order"
    )
    parser.add_argument("--groups", help="JSON of ranks by group, for a graph")
    flags = parser.parse_args()
    if flags.groups:
        with _in_file(flags.groups):
            groups = _checked_groups(files.read_json(flags.groups))
        with _in_file(flags.file):
            program = of_graph(files.read_text(flags.file), groups)
    else:
        program = read(flags.file)
    with _in_file(flags.file):
        text = program.as_hlo(flags.mesh)
    files.write("-", text)
    return 0


if __name__ == "__main__":
    sys.exit(files.exit_status(main))
