"""How the figures of `cost --program` compare with what XLA compiled: each difference is
explained by a rule with a name and an amount, or it is unexplained.

of what is sent (the amounts are exact):
  again     XLA gathers a value twice that shardc gathers once
  unsliced  XLA reduces a sum entirely and slices it, since one of the ops that read it
            is not sliced: an all-reduce of twice the bytes of the reduce-scatter
  numbers   single numbers, such as those of a gradient's norm, are reduced over other
            axes at once: 8 bytes at most for each
  moved     XLA adds two gradients before it reduces them, and shardc reduces one before
            a transpose: the bytes of its reduce-scatter
  batch     integers that are reshaped are exchanged by an all-to-all, where shardc
            gathers them: twice the bytes of the gather
of results:
  tuple     XLA's results have a table of 8 bytes each
of arguments:
  unread    XLA has no argument for labels that nothing reads
of temporaries (bounds):
  gathered  XLA's compiler for CPUs gathers weights before they are needed
  copies    it holds copies of operands in other layouts, or padded for windows
  elements  it keeps elements that two ops read, where shardc computes them again
  packing   gaps between the values that a block of memory holds one after the other,
            and values that change in place: 12 % of its bytes
"""

import gzip
import json
import os
import tempfile

from driver import TESTDATA, run

COSTS = os.path.join(TESTDATA, "program_costs")
PACKING = 0.12
# The labels of forward passes.
UNREAD = {"forward": 2048, "forward_tp": 2048}


def report_of(path, mesh, rules):
    """What `cost --program --format json` has of a program under the text of rules."""
    with tempfile.TemporaryDirectory() as folder:
        file = os.path.join(folder, "rules.yaml")
        with open(file, "w", encoding="utf-8") as opened:
            opened.write(rules)
        done = run("cost", "--no-project", "--program", path, "--mesh", mesh, "--rules",
                   file, "--format", "json")
    assert done.rc == 0, done
    return done.json()


def sent_of(report, mesh):
    """The bytes by `kind axes`, the axes in the order of the mesh."""
    order = [axis.split(":")[0] for axis in mesh.split(",")]
    out = {}
    for one in report["collectives"]:
        axes = "+".join(axis for axis in order if axis in one["axes"])
        key = f"{one['collective']} {axes}"
        out[key] = out.get(key, 0) + one["bytes_per_device"]
    return out


def sent_rules(ours, theirs):
    """(rules with their bytes, the unexplained differences by kind and axes)."""
    theirs = dict(theirs)
    rules = {}

    def apply(rule, amount):
        rules[rule] = rules.get(rule, 0) + amount

    for key in [one for one in theirs if one.startswith("again ")]:
        amount = theirs.pop(key)
        gather = "all_gather " + key.split()[1]
        if theirs[gather] - amount >= ours.get(gather, 0):
            theirs[gather] -= amount
            apply("again", amount)
    left = {key: ours.get(key, 0) - theirs.get(key, 0)
            for key in sorted({*ours, *theirs}) if ours.get(key, 0) != theirs.get(key, 0)}
    for key in [one for one in left if one.startswith("reduce_scatter ")]:
        whole = "all_reduce " + key.split()[1]
        if left[key] > 0 and left.get(whole) == -2 * left[key]:
            apply("unsliced", left.pop(key))
            del left[whole]
        elif left[key] > 0 and whole not in left:
            apply("moved", left.pop(key))
    for key in [one for one in left if one.startswith("all_reduce ")]:
        if abs(left[key]) <= 8:
            apply("numbers", abs(left.pop(key)))
    for key in [one for one in left if one.startswith("all_to_all ")]:
        gather = "all_gather " + key.split()[1]
        if left[key] == -2 * left.get(gather, 0):
            apply("batch", left.pop(gather))
            del left[key]
    return rules, left


def memory_rules(case, report, unread):
    ours, rules, left = report["memory"], {}, {}
    arguments = ours["parameters"] + ours["state"] + ours["data"]
    if arguments - case["arguments"] == unread:
        rules.update({"unread": unread} if unread else {})
    else:
        left["arguments"] = arguments - case["arguments"]
    table = case["results"] - ours["results"]
    if table % 8 == 0 and 0 <= table <= 8 * 100:
        rules.update({"tuple": table} if table else {})
    else:
        left["results"] = -table
    gap = case["temporaries"] - ours["temporaries"]
    most = PACKING * case["temporaries"]
    for rule in ("gathered", "copies", "elements"):
        if gap > most and case[rule]:
            rules[rule] = case[rule]
            most += case[rule]
    if most >= gap >= -PACKING * case["temporaries"]:
        if gap:
            rules["packing"] = min(abs(gap), int(PACKING * case["temporaries"]))
    else:
        left["temporaries"] = -gap
    return rules, left


def compared(case):
    """Of a case of `costed`: the rules that apply by figure, and what is unexplained."""
    path = os.path.join(COSTS, case["name"] + ".program.json.gz")
    report = report_of(path, case["mesh"], case["rules"])
    flops = report["flops"]["device"] + report["flops"]["device_masked"]
    sent, rest = sent_rules(sent_of(report, case["mesh"]), case["sent"])
    memory, more = memory_rules(case, report, UNREAD.get(case["name"], 0))
    if flops != case["products"]:
        rest["products"] = flops - case["products"]
    return {"products": {}, "sent": sent, "memory": memory}, {**rest, **more}, report


def table(cases):
    lines = [f"{'program':12} {'matmuls':>14}  {'sent':>9}  {'temporaries':>11} of XLA's  rules"]
    for case in cases:
        rules, left, report = compared(case)
        ratio = report["memory"]["temporaries"] / case["temporaries"]
        named = ", ".join(f"{rule} {size}" for part in rules.values()
                          for rule, size in part.items()) or "right"
        named += "".join(f"; UNEXPLAINED {key} {size}" for key, size in left.items())
        lines.append(f"{case['name']:12} {case['products']:14} "
                     f"{report['communication_bytes']:10}  {ratio:11.2f}           {named}")
    return "\n".join(lines)


def recorded():
    with gzip.open(os.path.join(COSTS, "XLA.json.gz"), "rt", encoding="utf-8") as file:
        return json.load(file)


if __name__ == "__main__":
    print(table(recorded()["costed"]))
