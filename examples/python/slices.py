"""What one device holds of every parameter, from a plan and nothing else.

    python3 slices.py plan.json 5 decode

Plans with stages are refused: see Stages in shardc-plan(5).
"""

import json
import sys


def coordinates(mesh, device):
    """Of a device's number, by axis; see DEVICES in shardc-plan(5)."""
    sizes = [axis["size"] for axis in mesh["axes"]]
    dcn = mesh.get("dcn") or [1] * len(sizes)
    slice_, local = divmod(device, mesh["devices"] // mesh.get("slices", 1))
    out = {}
    for axis, size, factor in reversed(list(zip(mesh["axes"], sizes, dcn))):
        inner = size // factor
        out[axis["name"]] = slice_ % factor * inner + local % inner
        slice_, local = slice_ // factor, local // inner
    return out


def slices(plan, name, device, mode="train"):
    """(begin, end) of each dimension; nothing where another device has it."""
    param, at = plan["params"][name], coordinates(plan["mesh"], device)
    placed = param.get("placement")
    if placed and at[placed["axis"]] != placed["coordinate"]:
        return None
    layout = param.get("modes", {}).get(mode, param)
    sizes = {axis["name"]: axis["size"] for axis in plan["mesh"]["axes"]}
    out = []
    for dim, end in enumerate(param["shape"]):
        group = layout["spec"][dim] if dim < len(layout["spec"]) else None
        begin = 0
        for axis in [group] if isinstance(group, str) else group or []:
            share = -((begin - end) // sizes[axis])  # rounded up
            begin = min(begin + at[axis] * share, end)
            end = min(begin + share, end)
        out.append((begin, end))
    return out


if __name__ == "__main__":
    with open(sys.argv[1], encoding="utf-8") as file:
        PLAN = json.load(file)
    if "stages" in PLAN:
        sys.exit("error: a device of a plan with stages holds the parameters "
                 "of its stages only")
    for parameter in PLAN["params"]:
        print(parameter, slices(PLAN, parameter, int(sys.argv[2]),
                                *sys.argv[3:]))
