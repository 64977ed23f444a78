"""A seeded manifest of a model with experts, and rules for it.

Names lie in 1/`rules` of the rules each, about 8% in the last, which takes
all; shapes divide the mesh. The same seed gives the same bytes.
"""

import json
import random

LEAVES = ["self_attn/q_proj", "self_attn/k_proj", "self_attn/v_proj",
          "self_attn/o_proj", "mlp/gate_proj", "mlp/up_proj", "mlp/down_proj",
          "experts/w1", "experts/w2", "norm"]


def rules(count):
    """(pattern, spec) pairs; the last takes everything."""
    out = []
    for i in range(count - 1):
        leaf = LEAVES[i % len(LEAVES)]
        out.append((r"block_%d/.*%s/kernel$" % (i // len(LEAVES), leaf),
                    [["fsdp"], ["tp"]] if i % 2 else [["tp"], ["fsdp"]]))
    out.append((".*", []))
    return out


def manifest(count, rule_count, seed=1):
    chooser = random.Random(seed)
    params = []
    groups = max((rule_count - 1) // len(LEAVES), 1)
    for i in range(count):
        if chooser.random() < 0.08:
            name = "model/other/%d/bias" % i
        else:
            name = "model/block_%d/layers/%d/%s/kernel" % (
                chooser.randrange(groups), i, chooser.choice(LEAVES))
        params.append({"name": name, "shape": [1024, 4096], "dtype": "BF16"})
    return params


def write(folder, count, rule_count):
    base = "%s/%d-%d" % (folder, count, rule_count)
    with open(base + ".json", "w") as out:
        json.dump({"schema": "shardc.manifest/v1", "separator": "/",
                   "params": manifest(count, rule_count)}, out)
    with open(base + ".yaml", "w") as out:
        out.write("version: 1\nrules:\n")
        for pattern, spec in rules(rule_count):
            out.write("  - match: '%s'\n    spec: %s\n" % (
                pattern, json.dumps([s[0] for s in spec])))
    with open(base + ".rules.json", "w") as out:
        json.dump(rules(rule_count), out)
    return base
