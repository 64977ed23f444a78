"""Cases of the reference's functions at their edges: the functions of `shardc eval`
for them, and how its results are compared. Used with recorded answers, and with
answers of the installed packages to new cases."""

import json
import os
import subprocess

import records

BIN = os.environ.get("SHARDC_BIN", os.path.join(
    records.ROOT, "build", "src", "cli", "shardc"))


def evaluated(function, inputs):
    """The results of a function: {"result": ...} or {"error": ...} of each."""
    done = subprocess.run(
        [BIN, "eval", function], input=json.dumps(inputs), check=True,
        capture_output=True, encoding="utf-8", timeout=600)
    return json.loads(done.stdout)


# Of which function of `eval` the cases of each family are, and which members of
# its result are compared.
FAMILIES = {
    "canonicalize_dtype": ("canonicalize_dtype", ("dtype",)),
    "constraint": ("with_sharding_constraint", ("applied", "spec")),
    "named_tree_map": ("named_tree_map", ("names",)),
    "hash": ("get_safe_hash_int", ("decimal",)),
    "create_mesh": ("create_mesh", ("shape", "device_ids")),
    "rotary": ("apply_rotary_pos_emb", ("y",)),
    "repeat": ("repeat_kv", ("y",)),
}


def near(a, b):
    if isinstance(a, list) and isinstance(b, list):
        return len(a) == len(b) and all(map(near, a, b))
    if isinstance(a, float) or isinstance(b, float):
        return abs(a - b) <= 1e-6 * max(1, abs(b))
    return a == b


def differences(cases):
    """The cases, by family, whose answer is not the reference's; and how many
    were compared and refused by both."""
    wrong, counts = [], {}
    for family, (function, members) in FAMILIES.items():
        of_family = cases[family]
        ours = evaluated(function, [case["input"] for case in of_family])
        refused = 0
        for case, answer in zip(of_family, ours):
            expected = case.get("expect")
            if expected is None:
                same = "error" in answer
                refused += 1
            else:
                same = "result" in answer and all(
                    near(answer["result"].get(member), expected[member])
                    for member in members if member in expected)
            if not same:
                wrong.append((family, case, answer))
        counts[family] = (len(of_family), refused)
    return wrong, counts
