"""The stages of a pipeline, of plans with the schema shardc.plan/v2.

A device whose coordinate of `Stages.axis` is r is of rank r of the pipeline. It
holds the parameters of the stages that rank r has, and nothing of the others.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping, Sequence
from typing import Any


@dataclasses.dataclass(frozen=True)
class Stage:
    """One stage: its layers, and the ranks that hold its parameters."""

    number: int
    ranks: tuple[int, ...]
    layers: range
    first: bool  # has what is before the layers
    last: bool  # has what is after them


@dataclasses.dataclass(frozen=True)
class Stages:
    """How a model is divided into the stages of a pipeline."""

    axis: str
    virtual: int
    placement: str
    schedule: str
    microbatches: int
    of: tuple[Stage, ...]

    def ranks_of(self, stages: Sequence[int]) -> tuple[int, ...]:
        """The ranks that have any of these stages, ascending."""
        return tuple(sorted({rank for s in stages for rank in self.of[s].ranks}))


def read(data: Mapping[str, Any]) -> Stages:
    return Stages(
        data["axis"],
        data["virtual"],
        data["placement"],
        data["schedule"],
        data["microbatches"],
        tuple(
            Stage(
                number,
                tuple(one["ranks"]),
                range(*one["layers"]),
                "first" in one["parts"],
                "last" in one["parts"],
            )
            for number, one in enumerate(data["of"])
        ),
    )


@dataclasses.dataclass(frozen=True)
class Slices:
    """Which layers of a tensor that holds several each stage has."""

    dim: int
    dims: int  # 1, or 3: virtual stages, ranks, layers of a stage
    of: tuple[range, ...]  # by stage


def held_stages(param: Mapping[str, Any]) -> tuple[int, ...]:
    """The stages that have a parameter, from its entry in the plan."""
    if "slices" in param:
        ranges = enumerate(param["slices"]["of"])
        return tuple(s for s, (begin, end) in ranges if begin < end)
    return tuple(param["stages"])
