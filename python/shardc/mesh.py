"""The mesh of a plan, partition specs over it, and the package's error.

The other modules build on this one, which imports none of them.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from typing import Union

# One entry for each dimension: unsharded, an axis, or several, the first major.
Entry = Union[None, str, tuple[str, ...]]
Spec = tuple[Entry, ...]


class PlanError(ValueError):
    """The file is no plan, or the plan does not fit the model or the devices."""


@dataclasses.dataclass(frozen=True)
class Axis:
    """An axis of the mesh. `type` is "auto", "explicit" or "manual"."""

    name: str
    size: int
    type: str = "auto"


@dataclasses.dataclass(frozen=True)
class Mesh:
    """The device mesh, the slowest axis first."""

    axes: tuple[Axis, ...]
    devices: int
    processes: int = 1
    slices: int = 1
    dcn: tuple[int, ...] = ()

    @property
    def shape(self) -> tuple[int, ...]:
        return tuple(axis.size for axis in self.axes)

    @property
    def axis_names(self) -> tuple[str, ...]:
        return tuple(axis.name for axis in self.axes)

    @property
    def sizes(self) -> dict[str, int]:
        """Axes and their sizes, in order."""
        return {axis.name: axis.size for axis in self.axes}

    def size(self, axis: str) -> int:
        """Returns the axis's size; raises KeyError if the mesh lacks the axis."""
        for one in self.axes:
            if one.name == axis:
                return one.size
        raise KeyError(axis)

    def coordinates(self, device: int) -> dict[str, int]:
        """Returns the device's coordinate along each axis."""
        if not 0 <= device < self.devices:
            raise IndexError(f"device {device} of {self.devices}")
        factors = self.dcn or (1,) * len(self.axes)
        slice_, local = divmod(device, self.devices // self.slices)
        out: dict[str, int] = {}
        for axis, factor in reversed(list(zip(self.axes, factors))):
            inner = axis.size // factor
            out[axis.name] = slice_ % factor * inner + local % inner
            slice_, local = slice_ // factor, local // inner
        return {axis.name: out[axis.name] for axis in self.axes}

    def device_at(self, coordinates: Mapping[str, int]) -> int:
        """Returns the number of the device at these coordinates."""
        factors = self.dcn or (1,) * len(self.axes)
        slice_ = local = 0
        for axis, factor in zip(self.axes, factors):
            if not 0 <= coordinates[axis.name] < axis.size:
                raise IndexError(f"{axis.name} {coordinates[axis.name]} of {axis.size}")
            inner = axis.size // factor
            outside, inside = divmod(coordinates[axis.name], inner)
            slice_ = slice_ * factor + outside
            local = local * inner + inside
        return slice_ * (self.devices // self.slices) + local
