"""Seeded manifests, and rules for them. The same seed gives the same bytes.

    spread    any order, the rules' names mixed, about 8% for the catch-all
    dense     a model's order: layer by layer, its parts in turn
    experts   the same with 64 experts a layer
    digits    any order, long numbers, and rules that look into them
    distinct  names that fold to no template, and rules that match none of them
    gaps      a rule for each such name, with alternatives and `.*` between texts
"""

import json
import random

KINDS = ("spread", "dense", "experts", "digits", "distinct", "gaps")
LEAVES = ["self_attn/q_proj", "self_attn/k_proj", "self_attn/v_proj",
          "self_attn/o_proj", "mlp/gate_proj", "mlp/up_proj", "mlp/down_proj",
          "experts/w1", "experts/w2", "norm"]
EXPERTS = 64
# Names that collapsing runs of digits does not distinguish.
NUMBERS = [r"\d*[02468]", r"\d*[13579]", r"[0-4]\d{2,}", r"1[0-9]*", r"\d\d+"]


def word(number):
    """Six letters, different for each number below 26 ** 6."""
    number = number * 123_457 % 26 ** 6  # neighbours differ in all letters
    out = ""
    for _ in range(6):
        number, letter = divmod(number, 26)
        out += "abcdefghijklmnopqrstuvwxyz"[letter]
    return out


def rules(count, kind="spread"):
    """(pattern, spec) pairs; the last takes everything."""
    out = []
    for i in range(count - 1):
        leaf = LEAVES[i % len(LEAVES)]
        block = i // len(LEAVES)
        if kind == "distinct":
            pattern = r"head_%s/kernel$" % word(i)
        elif kind == "gaps":
            pattern = r"(block|blick_%s).*%s.*kernel$" % (word(i), word(i))
        elif kind == "digits":
            pattern = r"block_%d/layers/%s/%s/kernel$" % (
                block, NUMBERS[i % len(NUMBERS)], leaf)
        else:
            pattern = r"block_%d/.*%s/kernel$" % (block, leaf)
        out.append((pattern,
                    [["fsdp"], ["tp"]] if i % 2 else [["tp"], ["fsdp"]]))
    out.append((".*", []))
    return out


def names(count, rule_count, kind="spread", seed=1):
    chooser = random.Random(seed)
    groups = max((rule_count - 1) // len(LEAVES), 1)
    for i in range(count):
        group = i * groups // count
        if kind in ("distinct", "gaps"):
            yield "model/block_%s/kernel" % word(i)
        elif kind == "dense":
            yield "model/block_%d/layers/%d/%s/kernel" % (
                group, i // len(LEAVES), LEAVES[i % len(LEAVES)])
        elif kind == "experts":
            expert, layer = i // len(LEAVES) % EXPERTS, i // (
                len(LEAVES) * EXPERTS)
            yield "model/block_%d/layers/%d/experts/%d/%s/kernel" % (
                group, layer, expert, LEAVES[i % len(LEAVES)])
        elif kind == "digits":
            yield "model/block_%d/layers/%d%06d/%s/kernel" % (
                chooser.randrange(groups), chooser.randrange(100), i,
                chooser.choice(LEAVES))
        elif chooser.random() < 0.08:
            yield "model/other/%d/bias" % i
        else:
            yield "model/block_%d/layers/%d/%s/kernel" % (
                chooser.randrange(groups), i, chooser.choice(LEAVES))


def manifest(count, rule_count, kind="spread"):
    return [{"name": name, "shape": [1024, 4096], "dtype": "BF16"}
            for name in names(count, rule_count, kind)]


def write(folder, count, rule_count, kind="spread"):
    base = "%s/%s-%d-%d" % (folder, kind, count, rule_count)
    with open(base + ".json", "w") as out:
        json.dump({"schema": "shardc.manifest/v1", "separator": "/",
                   "params": manifest(count, rule_count, kind)}, out)
    with open(base + ".yaml", "w") as out:
        out.write("version: 1\nrules:\n")
        for pattern, spec in rules(rule_count, kind):
            out.write("  - match: '%s'\n    spec: %s\n" % (
                pattern, json.dumps([s[0] for s in spec])))
    with open(base + ".rules.json", "w") as out:
        json.dump(rules(rule_count, kind), out)
    return base


def write_lines(folder, count, rule_count, kind):
    """Names and patterns alone, a line each."""
    base = "%s/%s-%d-%d" % (folder, kind, count, rule_count)
    with open(base + ".names", "w") as out:
        for name in names(count, rule_count, kind):
            out.write(name + "\n")
    with open(base + ".patterns", "w") as out:
        for pattern, _ in rules(rule_count, kind):
            out.write(pattern + "\n")
    return base
