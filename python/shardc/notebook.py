"""A plan as HTML for notebooks: its mesh, its totals, and a table of the layouts
of its parameters, one row for identical layers.

Names come from files, so every text is escaped.
"""

from __future__ import annotations

from html import escape

from shardc.mesh import Spec
from shardc.plan_data import Folded, PlanData

# Rows that are drawn; `shardc report` has all of them.
_ROWS = 60
# Dark enough for white text; the axis is written too, never shown by colour alone.
_COLOURS = ("#0b6e99", "#9a3c00", "#3d6b00", "#7a3e9d", "#a01e4e", "#5a5a00")


def size_text(size: int | None) -> str:
    """`3.5 MiB` of a number of bytes; `?` where it is unknown."""
    if size is None:
        return "?"
    for unit, power in (("TiB", 40), ("GiB", 30), ("MiB", 20), ("KiB", 10)):
        if size >= 1 << power:
            return f"{size / (1 << power):.3g} {unit}"
    return f"{size} B"


def _chip(axis: str, plan: PlanData, text: str = "") -> str:
    names = plan.mesh.axis_names
    colour = _COLOURS[names.index(axis) % len(_COLOURS)] if axis in names else "#555"
    return (
        f'<span style="background:{colour};color:#fff;border-radius:3px;'
        f'padding:0 4px;margin-right:3px">{escape(text or axis)}</span>'
    )


def _spec(spec: Spec, plan: PlanData) -> str:
    out = []
    for entry in spec:
        group = (entry,) if isinstance(entry, str) else entry or ()
        out.append("".join(_chip(axis, plan) for axis in group) or "&minus;")
    return " , ".join(out) if any(entry for entry in spec) else "replicated"


def _row(one: Folded, plan: PlanData, largest: int) -> str:
    parameter = one.parameter
    size = parameter.bytes_per_device
    total = None if size is None else size * len(one.names)
    layout = _spec(parameter.spec(), plan)
    for mode in plan.modes:
        if parameter.spec(mode) != parameter.spec():
            layout += f"<br>{escape(mode)}: {_spec(parameter.spec(mode), plan)}"
    if parameter.placement:
        layout += (
            f"<br>on {escape(parameter.placement.axis)}"
            f" {parameter.placement.coordinate} alone"
        )
    width = round(100 * (total or 0) / largest) if largest else 0
    bar = (
        f'<div style="background:#0b6e99;height:4px;width:{width}%"></div>'
        if width
        else ""
    )
    shape, shard = (
        "?" if s is None else " &times; ".join(map(str, s)) or "scalar"
        for s in (parameter.shape, parameter.shard_shape)
    )
    cells = (
        f"<code>{escape(one.template)}</code>",
        str(len(one.names)),
        shape,
        layout,
        shard,
        size_text(total) + bar,
    )
    return (
        "<tr>"
        + "".join(f'<td style="text-align:left">{cell}</td>' for cell in cells)
        + "</tr>"
    )


def html(plan: PlanData) -> str:
    """The plan's mesh, totals and layouts."""
    rows = list(plan.folded())
    sizes = [(one.parameter.bytes_per_device or 0) * len(one.names) for one in rows]
    mesh = "".join(_chip(a.name, plan, f"{a.name} {a.size}") for a in plan.mesh.axes)
    summary = plan.summary
    devices = plan.mesh.devices
    head = (
        f"<b>shardc plan</b> {mesh} {devices} device{'s' * (devices != 1)},"
        f" {summary.params} parameter{'s' * (summary.params != 1)}"
        f" ({size_text(summary.bytes)}),"
        f" {size_text(summary.bytes_per_device)} per device"
    )
    titles = ("parameter", "count", "shape", "layout", "per device", "bytes per device")
    table = (
        "<table><thead><tr>"
        + "".join(f'<th style="text-align:left">{title}</th>' for title in titles)
        + "</tr></thead><tbody>"
        + "".join(_row(one, plan, max(sizes)) for one in rows[:_ROWS])
        + "</tbody></table>"
    )
    more = len(rows) - _ROWS
    rest = f"<div>{more} more rows: plan.report() has them</div>" if more > 0 else ""
    return f"<div><div>{head}</div>{table}{rest}</div>"
