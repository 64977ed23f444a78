"""Specs in DTensor's words, without PyTorch."""

from __future__ import annotations

import math
from typing import Optional

from shardc.mesh import Mesh, Spec, no_factors

# The dimension that a mesh axis splits, and the parts that more major axes of
# it make which come later on the mesh; None where the axis splits nothing.
Split = Optional[tuple[int, int]]


def splits_of(spec: Spec, mesh: Mesh) -> list[Split]:
    """One for each mesh axis. DTensor splits by them from the left; an axis of
    which a more major one comes later takes every factor-th part, so that the
    order of the parts is the spec's:

        (("tp", "dp"),) on dp 2, tp 4  ->  [(0, 4), (0, 1)]
    """
    no_factors(spec, "DTensor")
    out: list[Split] = [None for _ in mesh.axes]
    for dim, entry in enumerate(spec):
        group = (entry,) if isinstance(entry, str) else entry or ()
        numbers = [mesh.axis_names.index(axis) for axis in group]
        for at, number in enumerate(numbers):
            later = [mesh.axes[n].size for n in numbers[:at] if n > number]
            out[number] = (dim, math.prod(later))
    return out
