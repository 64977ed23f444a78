"""One parameter of a plan: its type, and what every device holds in each mode."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, NoReturn, cast

from shardc.mesh import Entry, Mesh, PlanError, Spec
from shardc.seal import uneven_dims
from shardc.stages import Slices, Stages, held_stages

MODES = ("train", "prefill", "decode", "insert")


@dataclasses.dataclass(frozen=True)
class Placement:
    """The one coordinate of an axis at which a parameter is."""

    axis: str
    coordinate: int


def _entry(value: Any) -> Entry:
    return tuple(value) if isinstance(value, list) else cast(Entry, value)


def spec_of(value: Any, rank: int | None = None) -> Spec:
    out = tuple(_entry(entry) for entry in value)
    return out + (None,) * max(0, (rank or 0) - len(out))


def not_planned(mode: str, modes: tuple[str, ...]) -> PlanError:
    return PlanError(f"the plan has no mode {mode!r}: {', '.join(modes)}")


def no_attribute(what: str, name: str, written: Mapping[str, str]) -> AttributeError:
    """The error for an attribute that `what` lacks, with what is written for it."""
    hint = f"; write {written[name]}" if name in written else ""
    return AttributeError(f"{what} has no attribute {name!r}{hint}")


# What an attribute that a parameter lacks is written as.
_WRITTEN = {
    "partition_spec": "parameter.spec(mode)",
    "partspec": "parameter.spec(mode)",
    "sharding": "parameter.spec(mode), or plan.named_shardings() for JAX",
    "size": "parameter.bytes_per_device",
}


def shape_of(value: Any) -> tuple[int, ...] | None:
    return None if value is None else tuple(value)


def parts_text(parts: int | tuple[int, ...]) -> str:
    """ "2 parts", or "the parts (64, 16, 16)"."""
    return f"{parts} parts" if isinstance(parts, int) else f"the parts {parts}"


class Parameter:
    """One parameter of a plan, with its sharding in each mode."""

    __slots__ = ("_data", "_mesh", "_modes", "_rules", "_stages", "name")

    def __init__(
        self,
        name: str,
        data: Mapping[str, Any],
        mesh: Mesh,
        modes: tuple[str, ...] = MODES,
        stages: Stages | None = None,
        rules: Mapping[str, int] | None = None,
    ) -> None:
        self.name = name
        self._data = data
        self._mesh = mesh
        self._modes = modes
        self._stages = stages
        self._rules = rules or {}

    def __repr__(self) -> str:
        return f"Parameter({self.name!r}, {self.shape}, {self.dtype}, {self.spec()})"

    @property
    def mesh(self) -> Mesh:
        """The plan's mesh."""
        return self._mesh

    @property
    def shape(self) -> tuple[int, ...] | None:
        """None where the manifest has names alone."""
        return shape_of(self._data["shape"])

    @property
    def dtype(self) -> str | None:
        """As safetensors writes it: "BF16", "F32"."""
        return cast("str | None", self._data["dtype"])

    @property
    def rule(self) -> int | None:
        """Of `Plan.rules`; None where no rule matches."""
        rule = self._data["rule"]  # an index in plans of earlier versions
        return self._rules[rule] if isinstance(rule, str) else rule

    @property
    def placement(self) -> Placement | None:
        placed = self._data.get("placement")
        return Placement(placed["axis"], placed["coordinate"]) if placed else None

    def parts_in(self, mode: str = "train") -> dict[int, int | tuple[int, ...]]:
        """The parts of each dimension that has several, and that the mode shards:
        the number of equal parts, or the sizes of parts in their order. The axes
        divide each part."""
        parts = self._data.get("parts", ())
        return {
            dim: of if isinstance(of, int) else tuple(of)
            for dim, (of, entry) in enumerate(zip(parts, self.spec(mode)))
            if of and entry
        }

    @property
    def stages(self) -> tuple[int, ...] | None:
        """The stages of the pipeline that have it; None in a plan without."""
        return None if self._stages is None else held_stages(self._data)

    @property
    def stage_axis(self) -> str | None:
        """The axis whose coordinates are the ranks of the pipeline."""
        return None if self._stages is None else self._stages.axis

    @property
    def ranks(self) -> tuple[int, ...] | None:
        """The ranks of the pipeline that hold it; None in a plan without."""
        if self._stages is None:
            return None
        return self._stages.ranks_of(held_stages(self._data))

    @property
    def layer_slices(self) -> Slices | None:
        """Of a tensor that holds layers in a plan with stages: which of them
        each stage has."""
        data = self._data.get("slices")
        if data is None:
            return None
        of = tuple(range(*one) for one in data["of"])
        return Slices(data["dim"], data.get("dims", 1), of)

    def _layers_on(self, rank: int) -> tuple[int, range] | None:
        """The dimension that the stages split, and what the rank has of it: all
        but a tensor that holds layers has no such dimension."""
        layers = self.layer_slices
        if layers is None or self._stages is None:
            return None
        if layers.dims > 1:
            return layers.dim + 1, range(rank, rank + 1)
        own = [
            layers.of[stage.number]
            for stage in self._stages.of
            if rank in stage.ranks and layers.of[stage.number]
        ]
        if len(own) != 1:
            raise PlanError(f"rank {rank} has several ranges of layers of {self.name}")
        return layers.dim, own[0]

    def mesh_spec(self, mode: str = "train") -> Spec:
        """The spec on the whole mesh: of a tensor that holds layers, with the
        axis of the stages on the dimension that counts them. Uneven layers have
        no such spec, which is a PlanError."""
        spec = self.spec(mode)
        layers = self.layer_slices
        if layers is None or self._stages is None:
            return spec
        dim = layers.dim + (1 if layers.dims > 1 else 0)
        even = layers.dims > 1 or (
            len({len(one) for one in layers.of}) == 1
            and [stage.ranks for stage in self._stages.of]
            == [(rank,) for rank in range(self._mesh.size(self._stages.axis))]
        )
        if not even:
            raise PlanError(
                f"the stages have different numbers of layers of {self.name},"
                " which no spec states"
            )
        entry = spec[dim] if dim < len(spec) else None
        others = (entry,) if isinstance(entry, str) else tuple(entry or ())
        group: Entry = (self._stages.axis, *others) if others else self._stages.axis
        return (*spec[:dim], group, *spec[dim + 1 :])

    @property
    def weight_decay(self) -> bool | None:
        """None where no file speaks of it."""
        return cast("bool | None", self._data.get("weight_decay"))

    @property
    def corrections(self) -> list[dict[str, Any]]:
        """What was changed to make the spec legal, as shardc-plan(5) has it."""
        return list(self._data.get("corrections", ()))

    @property
    def shard_shape(self) -> tuple[int, ...] | None:
        """The largest shard in training. Other devices may hold less only where
        `uneven_in` names dimensions."""
        return self.shard_shape_in("train")

    @property
    def bytes_per_device(self) -> int | None:
        """In training; None where shapes are unknown."""
        return self.bytes_per_device_in("train")

    if not TYPE_CHECKING:  # or every attribute would be one to a type checker

        def __getattr__(self, name: str) -> NoReturn:
            raise no_attribute("a parameter", name, _WRITTEN)

    def _layout(self, mode: str) -> Mapping[str, Any]:
        if mode not in MODES:
            raise ValueError(f"{mode!r} is no mode: {', '.join(MODES)}")
        # Other modes are listed where they differ from training, planned or not.
        if mode != "train" and mode not in self._modes:
            raise not_planned(mode, self._modes)
        modes = self._data.get("modes", {})
        return cast("Mapping[str, Any]", modes.get(mode, self._data))

    def spec(self, mode: str = "train") -> Spec:
        """An entry for each dimension, where the rank is known."""
        shape = self._data["shape"]
        rank = None if shape is None else len(shape)
        return spec_of(self._layout(mode)["spec"], rank)

    def shard_shape_in(self, mode: str) -> tuple[int, ...] | None:
        return shape_of(self._layout(mode)["shard_shape"])

    def bytes_per_device_in(self, mode: str) -> int | None:
        return cast("int | None", self._layout(mode)["bytes_per_device"])

    def uneven_in(self, mode: str = "train") -> tuple[int, ...]:
        """The dimensions that their axes do not divide, so that the last shards are
        shorter or empty: rules with `illegal: pad` permit it."""
        if "uneven" not in self._data or self.shard_shape_in(mode) is None:
            return ()
        return uneven_dims(self.shape, self.spec(mode), self._mesh.sizes)

    def slices(self, device: int, mode: str = "train") -> tuple[slice, ...] | None:
        """What the device holds, a slice for each dimension; None where the
        parameter is placed on other devices, or in stages of other ranks."""
        at = self._mesh.coordinates(device)
        placed = self.placement
        if placed and at[placed.axis] != placed.coordinate:
            return None
        layers = None
        if self._stages is not None:
            rank = at[self._stages.axis]
            if rank not in (self.ranks or ()):
                return None
            layers = self._layers_on(rank)
        if self.shard_shape_in(mode) is None:
            raise PlanError(f"the plan knows no shape of {self.name}")
        for dim, parts in self.parts_in(mode).items():
            raise PlanError(
                f"a device has a range of each of {parts_text(parts)} of dimension {dim}"
                f" of {self.name}, which is no slice"
            )
        out = []
        for dim, (size, entry) in enumerate(zip(self.shape or (), self.spec(mode))):
            begin, end = 0, size
            if layers is not None and layers[0] == dim:
                begin, end = layers[1].start, layers[1].stop
            # Each axis divides what the axes before it have left, as torch.chunk.
            for axis in (entry,) if isinstance(entry, str) else entry or ():
                share = -((begin - end) // self._mesh.size(axis))
                begin = min(begin + self._mesh.index(at, axis) * share, end)
                end = min(begin + share, end)
            out.append(slice(begin, end))
        return tuple(out)
