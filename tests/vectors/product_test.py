"""Every recorded answer of the reference, asked of the program.

Prints the counts of each family. Fails on a failed case, on a family that no
reader knows, on a difference that docs/parity.md does not explain, and where a
difference explains another number of cases than before.
"""

import collections
import json
import os
import sys
import unittest

import product
import product_match
import product_names
import product_numeric

FAMILIES = {
    "resolve": product.resolve_case, "register": product.register_case,
    "bundles": product.bundles_case, "attn_rules": product.attention_case,
    "match": product_match.match_case, "correct": product_match.correct_case,
    "mesh": product_names.mesh_case, "names": product_names.names_case,
    "numeric": product_numeric.numeric_case}
# MaxText's logical rules: `import maxtext` and the reader of its dumps are
# judged by them in tests/importers and tests/runtimes.
OTHERS = {"logical_rules"}
# How many cases each deliberate difference explains; another number means that
# the program, or the vectors, changed.
COUNTS = {
    "bare-axis": 22, "bias-and-mask": 1, "circle-early": 23,
    "eager-patterns": 19, "empty-name": 9, "initial-scale": 1,
    "leading-bang": 1, "lookup-stripped": 2, "manager-json": 1,
    "mesh-names": 7, "nameless-leaf": 6, "nested-group": 43,
    "null-in-group": 35, "null-rule": 8, "owner-mask": 4, "past-the-end":
    16, "plain-integers": 6, "quantised-once": 13, "ranks-without-axes":
    13, "re2-syntax": 3, "remembered-mesh": 64, "repeat-bsnh": 6,
    "repeated-early": 34, "reserved-name": 1, "sinks-by-key-head": 13,
    "unknown-in-group": 2, "unknown-mode": 3, "yarn": 3}


def load(family):
    path = os.path.join(product.VECTORS, family + ".json")
    with open(path, encoding="utf-8") as file:
        return json.load(file)["cases"]


def run(families, environment=None):
    """Outcomes by family of all recorded cases."""
    return judge({family: load(family) for family in families}, environment)


def judge(cases, environment=None):
    """Outcomes by family: a list of (case's id, outcome)."""
    outcomes = {family: [] for family in cases}
    open_cases = [(family, case, FAMILIES[family](case), None)
                  for family in cases for case in cases[family]]
    while open_cases:
        going, asks = [], []
        for family, case, steps, last in open_cases:
            try:
                ask = steps.send(last)
            except StopIteration as stop:
                outcomes[family].append((case["id"], stop.value))
                continue
            except (KeyError, TypeError, IndexError, ValueError) as error:
                outcomes[family].append((case["id"], product.failed(
                    f"{type(error).__name__}: {error} in {last}")))
                continue
            going.append((family, case, steps, ask))
            asks.append(ask)
        product.evaluate(asks, environment=environment)
        open_cases = going
    return outcomes


class Product(unittest.TestCase):
    def test_every_file_is_known(self):
        files = {name.removesuffix(".json")
                 for name in os.listdir(product.VECTORS)
                 if name.endswith(".json")}
        self.assertEqual(files - OTHERS, set(FAMILIES))

    def test_the_program_gives_the_recorded_answers(self):
        found = run(FAMILIES)
        used, total = collections.Counter(), 0
        for family, outcomes in found.items():
            counts = collections.Counter(o.kind for _, o in outcomes)
            for name, outcome in outcomes:
                if outcome.kind == "failed":
                    print(f"  {name}: {outcome.why}")
                if outcome.kind == "differs":
                    used[outcome.why] += 1
            total += len(outcomes)
            print(f"{family}: " + ", ".join(
                f"{counts[kind]} {kind}" for kind in
                ("passed", "failed", "differs", "beyond RE2")
                if counts[kind] or kind in ("passed", "failed")))
        for name, count in sorted(used.items()):
            print(f"differs by design ({name}): {count}; "
                  f"{product.DIFFERENCES[name]}")
        self.assertEqual([name for outcomes in found.values()
                          for name, o in outcomes if o.kind == "failed"], [])
        print(f"{total} recorded cases, {sum(used.values())} differ by design")
        self.assertEqual(dict(used), COUNTS)

    def test_a_bundle_with_a_nested_group_differs_by_design(self):
        for entry, wanted in (
                (["__HEAD__", "sp"], ("differs", "nested-group")),
                # Both refuse it, each for its own reason.
                (["__HEAD__", "sp", "sp"], ("passed", ""))):
            case = {"id": "nested", "input": {
                "bundle": "DynamicShardingAxes", "via": "axes",
                "instance": {"axes": [entry], "mode": "__train__"},
                "partition_axis": {"head_axis": ["tp", "ep"]}},
                "error": {"type": "ValueError",
                          "kind": "nested_tuple_in_spec"}}
            (_, outcome), = judge({"bundles": [case]})["bundles"]
            self.assertEqual((outcome.kind, outcome.why or ""), wanted)

    def test_every_difference_is_explained(self):
        page = os.path.join(product.ROOT, "docs", "parity.md")
        with open(page, encoding="utf-8") as file:
            text = file.read()
        for name in product.DIFFERENCES:
            self.assertIn(f"`{name}`", text)


if __name__ == "__main__":
    unittest.main(argv=sys.argv)
