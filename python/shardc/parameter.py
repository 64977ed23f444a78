"""One parameter of a plan: its type, and what every device holds in each mode."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from typing import Any, cast

from shardc.mesh import Entry, Mesh, PlanError, Spec

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


def shape_of(value: Any) -> tuple[int, ...] | None:
    return None if value is None else tuple(value)


class Parameter:
    """One parameter of a plan, with its sharding in each mode."""

    __slots__ = ("_data", "_mesh", "_modes", "name")

    def __init__(
        self,
        name: str,
        data: Mapping[str, Any],
        mesh: Mesh,
        modes: tuple[str, ...] = MODES,
    ) -> None:
        self.name = name
        self._data = data
        self._mesh = mesh
        self._modes = modes

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
        return cast("int | None", self._data["rule"])

    @property
    def placement(self) -> Placement | None:
        placed = self._data.get("placement")
        return Placement(placed["axis"], placed["coordinate"]) if placed else None

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
        """What one device holds in training."""
        return self.shard_shape_in("train")

    @property
    def bytes_per_device(self) -> int | None:
        """In training; None where shapes are unknown."""
        return self.bytes_per_device_in("train")

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

    def slices(self, device: int, mode: str = "train") -> tuple[slice, ...] | None:
        """What the device holds, a slice for each dimension; None where the
        parameter is placed on other devices."""
        at = self._mesh.coordinates(device)
        placed = self.placement
        if placed and at[placed.axis] != placed.coordinate:
            return None
        shard = self.shard_shape_in(mode)
        if shard is None:
            raise PlanError(f"the plan knows no shape of {self.name}")
        out = []
        for length, entry in zip(shard, self.spec(mode)):
            index = 0
            for axis in (entry,) if isinstance(entry, str) else entry or ():
                index = index * self._mesh.size(axis) + at[axis]
            out.append(slice(index * length, (index + 1) * length))
        return tuple(out)
