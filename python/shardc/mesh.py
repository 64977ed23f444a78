"""The mesh of a plan, partition specs over it, and the package's error.

The other modules build on this one, which imports none of them.
"""

from __future__ import annotations

import dataclasses
import re
from collections.abc import Iterable, Mapping
from typing import Union

# One entry for each dimension: unsharded, an axis, or several, the first major.
Entry = Union[None, str, tuple[str, ...]]
Spec = tuple[Entry, ...]


# A factor of an axis, as Shardy writes it: the factor of size 8 of which the
# more significant factors have the product 1.
_FACTOR = re.compile(r"(.+):\((\d+)\)(\d+)")


def factor_of(axis: str) -> tuple[str, int, int] | None:
    """("tp", 1, 8) for `tp:(1)8`; None for an axis."""
    found = _FACTOR.fullmatch(axis)
    return None if found is None else (found[1], int(found[2]), int(found[3]))


def no_factors(spec: Iterable[Entry], what: str) -> None:
    """Raises PlanError if the spec has a factor of an axis."""
    for entry in spec:
        for axis in (entry,) if isinstance(entry, str) else entry or ():
            if factor_of(axis) is not None:
                raise PlanError(
                    f"{what} has no factor of an axis, such as {axis!r}, over which"
                    " `kv_replicate` shards KV heads"
                )


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
        """Returns the size of an axis, or of a factor of one (factor_of); raises
        KeyError if the mesh lacks the axis."""
        factor = factor_of(axis)
        if factor is not None:
            name, before, size = factor
            if self.size(name) % (before * size):
                raise KeyError(axis)
            return size
        for one in self.axes:
            if one.name == axis:
                return one.size
        raise KeyError(axis)

    def index(self, at: Mapping[str, int], axis: str) -> int:
        """Returns the coordinate on an axis, or on a factor of one, of a device
        whose coordinates along the axes are `at`."""
        factor = factor_of(axis)
        if factor is None:
            return at[axis]
        name, before, size = factor
        return at[name] // (self.size(name) // before // size) % size

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
