"""What a compiled program sends: `shardc audit`, whose result is an object.

>>> compiled = jax.jit(step).lower(params, batch).compile()    # doctest: +SKIP
>>> audit(compiled, mesh={"dp": 2, "tp": 4}).bytes_by_route    # doctest: +SKIP
{('all_reduce', 'tp'): 65536}

JAX is not imported: a compiled step is any object that has `as_text`.
"""

from __future__ import annotations

import dataclasses
import json
import os
import tempfile
from collections.abc import Mapping, Sequence
from html import escape
from typing import Any, Union

from shardc import files
from shardc.mesh import Mesh
from shardc.notebook import size_text
from shardc.plan import Plan
from shardc.command import (
    Finding,
    Path,
    findings_of_json,
    flags_of,
    json_of,
    run,
)

# A file, `dp:2,tp:4`, sizes by axis, a mesh of a plan or of JAX.
MeshLike = Union[Path, Mapping[str, int], Mesh, Any]

# Rows that a notebook draws; `str(audit)` has all of them.
_ROWS = 60


@dataclasses.dataclass(frozen=True)
class Line:
    """A line of Python source. `function` is None in texts of older versions."""

    file: str
    line: int
    function: str | None = None

    def __str__(self) -> str:
        name = f"{os.path.basename(self.file)}:{self.line}"
        return f"{name} {self.function}" if self.function else name


@dataclasses.dataclass(frozen=True)
class Collective:
    """What one operand of a collective sends in all of its runs."""

    kind: str  # "all_gather", "all_reduce", ...
    axes: tuple[str, ...] | None  # None if no axes of the mesh have these groups
    group_size: int
    times: int
    bytes_per_device: int  # that the busiest device sends
    what: str  # "parameter", "gradient", "activation", ...
    parameter: str | None
    shape: str  # on one device, before the collective
    phase: str | None = None  # "forward", "backward" or "recomputed"
    scope: str | None = None
    seconds: float | None = None  # None without a profile
    line: Line | None = None
    stack: tuple[Line, ...] = ()

    @property
    def over(self) -> str:
        """Returns `dp+fsdp`, or `groups of 4` if the axes are not known."""
        return over_text(self.axes, self.group_size)

    @property
    def moved(self) -> str:
        """Returns `layers/up`, `gradient of layers/up` or `activation`."""
        if self.parameter is None or self.what == "parameter":
            return self.parameter or self.what
        return f"{self.what} of {self.parameter}"

    def __str__(self) -> str:
        return (
            f"{self.kind} over {self.over}, {self.moved} {self.shape}, {self.times}x,"
            f" {size_text(self.bytes_per_device)}, {self.line or 'no source line'}"
        )


@dataclasses.dataclass(frozen=True)
class Totals:
    """Sums over all collectives. `bound` is "exact", "at_least" (a loop runs an
    unknown number of times), "at_most" (a conditional) or "unknown"."""

    bytes_per_device: int
    calls: int
    seconds: float | None
    bound: str


class Audit:
    """The result of `shardc audit`. Printed, it is the command's table; `data` is
    the command's JSON output (shardc.audit/v1)."""

    def __init__(self, data: Mapping[str, Any], text: str) -> None:
        self.data = data
        self.text = text
        self.program: str = data["program"]
        self.devices: int = data["devices"]
        self.totals = Totals(**data["total"])
        self.collectives = tuple(map(_collective, data["collectives"]))
        self.findings: tuple[Finding, ...] = tuple(findings_of_json(data["findings"]))
        # Arguments whose sharding differs from the plan's; empty without a plan.
        self.drift: tuple[Mapping[str, Any], ...] = tuple(data.get("drift", ()))
        # What is sent more than in the audit of `against`; empty without one.
        self.growth: tuple[Mapping[str, Any], ...] = tuple(data.get("growth", ()))
        # How the program differs from the step program of `step`: "routes",
        # "missing" and "extra"; None without one.
        self.difference: Mapping[str, Any] | None = data.get("difference")

    @property
    def bytes_by_route(self) -> dict[tuple[str, str], int]:
        """Returns the bytes that a device sends by kind and axes, the most first.
        Compiling the program again, also with another version, keeps them."""
        sums: dict[tuple[str, str], int] = {}
        for one in self.collectives:
            route = (one.kind, one.over)
            sums[route] = sums.get(route, 0) + one.bytes_per_device
        return dict(sorted(sums.items(), key=lambda item: (-item[1], item[0])))

    def of_parameter(self, name: str) -> tuple[Collective, ...]:
        """Returns the collectives of a parameter and of its gradient."""
        return tuple(one for one in self.collectives if one.parameter == name)

    def save(self, path: Path) -> None:
        """Writes the JSON output, which `against` takes."""
        files.write(path, json.dumps(self.data, indent=1) + "\n")

    def __str__(self) -> str:
        return self.text

    def __repr__(self) -> str:
        total = self.totals
        return (
            f"Audit({self.program} on {self.devices} devices;"
            f" {total.calls} collectives, {size_text(total.bytes_per_device)} per"
            f" device; {len(self.findings)} findings)"
        )

    def _repr_html_(self) -> str:
        return _html(self)


def over_text(axes: Sequence[str] | None, group_size: int) -> str:
    """Returns how tables write the devices of a group."""
    return f"groups of {group_size}" if axes is None else "+".join(axes)


def audit(
    program: Any,
    *,
    mesh: MeshLike | None = None,
    plan: Plan | Path | None = None,
    against: Audit | Path | None = None,
    **settings: Any,
) -> Audit:
    """Reads what a compiled program sends: `shardc audit`. `program` is a
    `jax.stages.Compiled`, a `Lowered` or `Traced`, which is compiled, the text, or its
    file; of PyTorch a recorder (`shardc.torch_programs.record`), a graph, a trace of
    the profiler or the JSON of CommDebugMode.
    `mesh` or the plan's mesh names the axes; other keywords are the command's
    flags: `profile="h100-sxm"`, `step="step.json"`, `ignore="SHD609"`. Raises ShardcError if the
    program cannot be read. Findings do not raise an error."""
    with tempfile.TemporaryDirectory() as folder:
        arguments = ["audit", _program_file(program, folder, mesh)]
        if mesh is not None:
            arguments += ["--mesh", _mesh_text(mesh)]
        if plan is not None:
            if isinstance(plan, Plan):
                plan_file = files.scratch(folder, "plan.json", json.dumps(plan.data))
                arguments += ["--plan", plan_file, "--allow-edited"]
            else:
                arguments += ["--plan", os.fspath(plan)]
        if isinstance(against, Audit):
            before = os.path.join(folder, "before.json")
            against.save(before)
            arguments += ["--against", before]
        elif against is not None:
            arguments += ["--against", os.fspath(against)]
        arguments += flags_of(settings)
        # The text first: it raises the error of an invalid input.
        text = run(arguments).stdout
        return Audit(json_of(arguments)[1], text)


def _program_file(program: Any, folder: str, mesh: MeshLike | None = None) -> str:
    # Here, because it is also run as a program.
    from shardc import torch_programs

    path_like = isinstance(program, os.PathLike) or (
        isinstance(program, str) and "\n" not in program
    )
    if path_like and os.fspath(program).endswith((".json", ".json.gz")):
        program = torch_programs.read(program)
    if isinstance(program, os.PathLike):
        return str(os.fspath(program))
    if isinstance(program, Mapping):
        program = torch_programs.of_data(program, "the mapping")
    if isinstance(program, torch_programs.Program):
        program = program.as_hlo(_sizes(mesh))
    if hasattr(program, "jaxpr") and callable(getattr(program, "lower", None)):
        program = program.lower()  # what `jax.jit(f).trace(...)` returns
    if hasattr(program, "as_text"):
        # A Lowered is not partitioned yet, so it has no collectives.
        compile_ = getattr(program, "compile", None)
        program = (compile_() if callable(compile_) else program).as_text()
    if not isinstance(program, str):
        raise TypeError(
            "program is a compiled or lowered step of JAX, its text, or the path"
            f" of its text, not {type(program).__name__}"
        )
    if "\n" not in program and not program.startswith("HloModule"):
        return program
    return files.scratch(folder, "program.hlo.txt", program)


def _sizes(mesh: MeshLike | None) -> dict[str, int]:
    """Returns the sizes of a mesh that is written `dp:2,tp:4`; none of a file."""
    text = "" if mesh is None else _mesh_text(mesh)
    parts = [part.partition(":") for part in text.split(",")]
    if not all(size.isdigit() for _, _, size in parts):
        return {}
    return {axis.strip(): int(size) for axis, _, size in parts}


def _mesh_text(mesh: MeshLike) -> str:
    if isinstance(mesh, (str, os.PathLike)):
        return os.fspath(mesh)
    # A mesh of a plan has `sizes`, one of JAX has `shape`: a mapping.
    sizes = mesh.sizes if isinstance(mesh, Mesh) else getattr(mesh, "shape", mesh)
    if not isinstance(sizes, Mapping):
        raise TypeError(
            "mesh is a file, a text such as `dp:2,tp:4`, sizes by axis, or a mesh"
            f" of JAX, not {type(mesh).__name__}"
        )
    return ",".join(f"{axis}:{size}" for axis, size in sizes.items())


def _collective(data: Mapping[str, Any]) -> Collective:
    axes = data["axes"]
    line = data["line"]
    return Collective(
        kind=data["collective"],
        axes=None if axes is None else tuple(axes),
        group_size=data["group_size"],
        times=data["times"],
        bytes_per_device=data["bytes_per_device"],
        what=data["what"],
        parameter=data["parameter"],
        shape=data["shape"],
        phase=data["phase"],
        scope=data["scope"],
        seconds=data["seconds"],
        line=Line(**line) if line else None,
        stack=tuple(Line(**one) for one in data["stack"]),
    )


def _html(audit: Audit) -> str:
    """Returns the table of the collectives and the findings. Names come from the
    program's text, so every text is escaped."""
    rows = sorted(audit.collectives, key=lambda one: -one.bytes_per_device)
    total = audit.totals
    bound = {"exact": "", "at_least": "at least ", "at_most": "at most "}
    titles = ("kind", "axes", "times", "bytes", "phase", "what", "shape", "line")
    cells = [
        (
            one.kind,
            one.over,
            str(one.times),
            size_text(one.bytes_per_device),
            one.phase or "",
            one.moved,
            one.shape,
            str(one.line or ""),
        )
        for one in rows[:_ROWS]
    ]
    more = len(rows) - _ROWS
    return (
        f"<div><div><b>shardc audit</b> {escape(audit.program)} on {audit.devices}"
        f" devices: {total.calls} collectives,"
        f" {bound.get(total.bound, 'about ')}{size_text(total.bytes_per_device)}"
        " sent per device</div><table><thead><tr>"
        + "".join(f'<th style="text-align:left">{title}</th>' for title in titles)
        + "</tr></thead><tbody>"
        + "".join(
            "<tr>"
            + "".join(f'<td style="text-align:left">{escape(c)}</td>' for c in row)
            + "</tr>"
            for row in cells
        )
        + "</tbody></table>"
        + (f"<div>{more} more rows: print(audit) has them</div>" if more > 0 else "")
        + "".join(f"<div>{escape(str(one))}</div>" for one in audit.findings)
        + "</div>"
    )
