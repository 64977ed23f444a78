"""The collectives that a rank of a PyTorch step runs, written as a program that
`shardc audit` reads. shardc.torch_programs fills them in."""

from __future__ import annotations

import dataclasses
import math
import os
import re
from collections.abc import Mapping, Sequence

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


# The most ranks of a program that `shardc audit` reads, and those that are written one
# by one in the groups that no axes of the mesh have.
MOST_RANKS = 1 << 20
_MOST_LISTED = 1 << 22


class TraceError(ValueError):
    """What is read is no trace or graph of PyTorch, or its numbers do not fit."""


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
        same axes. Raises TraceError if the mesh is too large, or the text would be."""
        grid = _Grid(mesh or {}, self.world, self.rank)
        text = [
            f"HloModule {self.name}, num_partitions={grid.world}",
            "",
            "ENTRY %main {",
        ]
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
                f" {grid.groups(one)}, metadata={{{_metadata(one)}}}"
            )
        text += ["  ROOT %end = () tuple()", "}", ""]
        return "\n".join(text)


class _Grid:
    """The ranks as places of a mesh, and groups of them in XLA's text. A group over
    axes is written by its sizes (`replica_groups=[2,4]<=[2,4]`), so that the work does
    not grow with the ranks."""

    def __init__(self, mesh: Mapping[str, int], world: int, rank: int) -> None:
        self._sizes = dict(mesh)
        self.world = math.prod(self._sizes.values()) if self._sizes else world
        if self.world > MOST_RANKS:
            raise TraceError(
                f"there are {self.world:,} ranks, and a program has at most {MOST_RANKS:,}"
            )
        self._rank = rank
        self._known: dict[tuple[tuple[int, ...], int], str] = {}
        self._listed = 0  # ranks that are written one by one

    def groups(self, one: Sent) -> str:
        if one.kind == "collective-permute":
            target = (
                one.target if one.target is not None else (self._rank + 1) % self.world
            )
            return f"source_target_pairs={{{{{self._rank},{target}}}}}"
        key = (one.ranks, 0 if one.ranks else one.size)
        text = self._known.get(key)
        if text is None:
            text = self._known[key] = self._groups(one)
        if text.startswith("{"):
            self._listed += text.count(",") + 1
            if self._listed > _MOST_LISTED:
                raise TraceError(
                    f"the groups over no axes of the mesh have more than"
                    f" {_MOST_LISTED:,} ranks in all: give the mesh with `--mesh`"
                )
        return f"replica_groups={text}"

    def _groups(self, one: Sent) -> str:
        axes = self.axes_of(one.ranks) if one.ranks else self._axes_of_size(one.size)
        if axes is not None:
            return self._over(axes)
        if not one.ranks and one.size in (0, self.world):
            return f"[1,{self.world}]<=[{self.world}]"
        # A group that is not known is written as one that no axes have, so that
        # only its size is reported.
        ranks = one.ranks or self._unlike(one.size)
        return "{{" + ",".join(map(str, ranks)) + "}}"

    def _over(self, axes: tuple[str, ...]) -> str:
        """All groups over some axes: the ranks as an array, with these axes last."""
        names = list(self._sizes)
        order = [i for i, name in enumerate(names) if name not in axes]
        order += [i for i, name in enumerate(names) if name in axes]
        size = math.prod(self._sizes[axis] for axis in axes)
        text = f"[{self.world // size},{size}]<=[{','.join(map(str, self._sizes.values()))}]"
        if order != sorted(order):
            text += f"T({','.join(map(str, order))})"
        return text

    def axes_of(self, ranks: Sequence[int]) -> tuple[str, ...] | None:
        """The axes over which these ranks are a group; None if there are none."""
        if len(ranks) < 2 or not all(0 <= rank < self.world for rank in ranks):
            return None
        differing: list[str] = []
        stride = self.world
        for axis, size in self._sizes.items():
            stride //= size
            places = {rank // stride % size for rank in ranks}
            if len(places) > 1:
                differing.append(axis)
        count = math.prod(self._sizes[axis] for axis in differing)
        # As many different ranks as there are places over these axes are all of them.
        if not differing or count != len(ranks) or len(set(ranks)) != count:
            return None
        return tuple(differing)

    def _axes_of_size(self, size: int) -> tuple[str, ...] | None:
        """The only axes whose group has this size; None if there are several."""
        wide = {axis: n for axis, n in self._sizes.items() if n > 1}
        if size in (0, self.world):
            return tuple(wide) or None
        if size < 2 or self._rank >= self.world:
            return None
        # The axes of each product, or None for a product that several have.
        found: dict[int, tuple[str, ...] | None] = {1: ()}
        for axis, n in wide.items():
            for product, axes in list(found.items()):
                made = None if axes is None else (*axes, axis)
                new = product * n
                found[new] = None if new in found else made
        return found.get(size)

    def _unlike(self, size: int) -> tuple[int, ...]:
        """Ranks that are a group over no axes, if there are any."""
        first = tuple(range(size - 1))
        for last in range(max(size - 1, 0), min(self.world, size + 1000)):
            if self.axes_of((*first, last)) is None:
                return (*first, last)
        return tuple(range(size))


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
