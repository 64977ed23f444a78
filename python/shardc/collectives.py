"""The collectives that a rank of a PyTorch step runs, written as a program that
`shardc audit` reads. shardc.torch_programs fills them in."""

from __future__ import annotations

import dataclasses
import itertools
import math
import os
import re
from collections.abc import Iterator, Mapping, Sequence

# What each name of a collective is in XLA. Others send no data.
_KINDS = {
    "all_gather_into_tensor": "all-gather",
    "allgather_base": "all-gather",
    "all_gather": "all-gather",
    "allgather": "all-gather",
    "allgather_into_tensor_coalesced": "all-gather",
    "all_gather_into_tensor_coalesced": "all-gather",
    "all_reduce": "all-reduce",
    "all_reduce_coalesced": "all-reduce",
    "allreduce": "all-reduce",
    "allreduce_coalesced": "all-reduce",
    "reduce_scatter_tensor": "reduce-scatter",
    "reduce_scatter_base": "reduce-scatter",
    "reduce_scatter": "reduce-scatter",
    "reduce_scatter_tensor_coalesced": "reduce-scatter",
    "all_to_all_single": "all-to-all",
    "alltoall_base": "all-to-all",
    "all_to_all": "all-to-all",
    "alltoall": "all-to-all",
    "all_to_allv": "all-to-all",
    "broadcast": "collective-broadcast",
    "send": "collective-permute",
}
_WIDTHS = {
    "float": "f32",
    "float32": "f32",
    "double": "f64",
    "float64": "f64",
    "half": "f16",
    "float16": "f16",
    "bfloat16": "bf16",
    "int": "s32",
    "int32": "s32",
    "long": "s64",
    "long int": "s64",
    "int64": "s64",
    "bool": "pred",
    "byte": "u8",
    "uint8": "u8",
    "char": "s8",
    "int8": "s8",
    "short": "s16",
    "float8_e4m3fn": "f8e4m3fn",
    "float8_e5m2": "f8e5m2",
}


@dataclasses.dataclass(frozen=True)
class Sent:
    """One run of a collective on one rank."""

    kind: str  # of XLA: "all-gather"
    dtype: str  # of XLA: "bf16"
    shape: tuple[int, ...]  # of the rank's own operand
    ranks: tuple[int, ...] = ()  # of the group; empty: not known
    size: int = 0  # of the group; 0: not known
    backward: bool = False
    module: str = ""  # "layers.0", of a parameter that is gathered by its module
    of_parameter: bool = False
    file: str = ""
    line: int = 0
    target: int | None = None  # of a send


class Program:
    """The collectives that one rank has run or would run."""

    def __init__(self, name: str = "torch_step", world: int = 1, rank: int = 0) -> None:
        self.name = name
        self.world = world
        self.rank = rank
        self.sent: list[Sent] = []

    def as_hlo(self, mesh: Mapping[str, int] | None = None) -> str:
        """Returns the text that `shardc audit` reads. `mesh` has the sizes of the
        axes in the order of the ranks: groups of other ranks are those over the
        same axes."""
        sizes = dict(mesh or {})
        world = math.prod(sizes.values()) if sizes else self.world
        text = [f"HloModule {self.name}, num_partitions={world}", "", "ENTRY %main {"]
        for i, one in enumerate(self.sent):
            operand = f"{one.dtype}[{','.join(map(str, one.shape))}]"
            name = f"p['{_plain(one.module)}']" if one.of_parameter else f"x{i}"
            source = "parameter" if one.of_parameter else "opaque"
            text.append(
                f"  %x.{i} = {operand} {source}({i if one.of_parameter else ''}),"
                f' metadata={{op_name="{name}"}}'
            )
            text.append(
                f"  %c.{i} = {operand} {one.kind}(%x.{i}),"
                f" {self._groups(one, sizes, world)},"
                f" metadata={{{_metadata(one)}}}"
            )
        text += ["  ROOT %end = () tuple()", "}", ""]
        return "\n".join(text)

    def _groups(self, one: Sent, sizes: Mapping[str, int], world: int) -> str:
        if one.kind == "collective-permute":
            target = one.target if one.target is not None else (self.rank + 1) % world
            return f"source_target_pairs={{{{{self.rank},{target}}}}}"
        ranks = one.ranks or self._ranks_of_size(one.size, sizes, world)
        # A group that is not known is written as one that no axes have, so that
        # only its size is reported.
        groups = (_alike(ranks, sizes) if ranks else None) or [
            ranks or _unlike(one.size, sizes, world)
        ]
        lists = ",".join("{" + ",".join(map(str, group)) + "}" for group in groups)
        return f"replica_groups={{{lists}}}"

    def _ranks_of_size(
        self, size: int, sizes: Mapping[str, int], world: int
    ) -> tuple[int, ...]:
        """The ranks of the only axis, or of the only axes, of this size; empty if
        there are several."""
        if size in (0, world):
            return tuple(range(world))
        found = [
            group
            for axes in _subsets(sizes)
            if math.prod(sizes[axis] for axis in axes) == size
            for group in _grid(sizes, axes)
            if self.rank in group
        ]
        return found[0] if len(found) == 1 else ()


def _plain(text: str) -> str:
    return re.sub(r"[^\w. /:-]", "_", text)


def _metadata(one: Sent) -> str:
    scope = _plain(one.module).replace(".", "/") or "step"
    pass_ = f"transpose(jvp({scope}))" if one.backward else f"jvp({scope})"
    out = f'op_name="jit(step)/{pass_}/{one.kind}"'
    if one.file:
        file = re.sub(r'[^\x20-\x7e]|["\\]', "_", one.file)
        out += f' source_file="{file}" source_line={one.line}'
    return out


def _subsets(sizes: Mapping[str, int]) -> Iterator[tuple[str, ...]]:
    wide = [axis for axis, size in sizes.items() if size > 1]
    for count in range(1, len(wide) + 1):
        yield from itertools.combinations(wide, count)


def _grid(sizes: Mapping[str, int], axes: Sequence[str]) -> list[tuple[int, ...]]:
    """Groups of ranks that differ along the axes only."""
    groups: dict[tuple[int, ...], list[int]] = {}
    places = itertools.product(*(range(size) for size in sizes.values()))
    for rank, place in enumerate(places):
        rest = tuple(at for axis, at in zip(sizes, place) if axis not in axes)
        groups.setdefault(rest, []).append(rank)
    return [tuple(group) for group in groups.values()]


def _alike(
    ranks: Sequence[int], sizes: Mapping[str, int]
) -> list[tuple[int, ...]] | None:
    """All groups over the axes over which this is one; None if it is none."""
    for axes in _subsets(sizes):
        groups = _grid(sizes, axes)
        if any(set(group) == set(ranks) for group in groups):
            return groups
    return None


def kind_of(name: str) -> str | None:
    name = name.split("::")[-1].split(".")[-1].strip("_")
    return _KINDS.get(name)


def dtype_of(name: str) -> str | None:
    name = name.removeprefix("torch.").removeprefix("c10::").lower()
    return _WIDTHS.get(name)


def is_own(path: str) -> bool:
    """Whether a file is the user's: neither PyTorch's nor an installed one."""
    path = path.replace(os.sep, "/")
    if path.startswith(os.path.dirname(__file__).replace(os.sep, "/") + "/"):
        return False
    # A trace shortens the paths of installed packages.
    return not re.search(r"^torch/|^<|(site|dist)-packages/|/lib/python3", path)


def _unlike(size: int, sizes: Mapping[str, int], world: int) -> tuple[int, ...]:
    choices = itertools.combinations(range(world), size)
    for ranks in itertools.islice(choices, 1000):
        if _alike(ranks, sizes) is None:
            return ranks
    return tuple(range(size))
