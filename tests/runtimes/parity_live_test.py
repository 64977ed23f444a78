"""Each function of docs/parity.md that `shardc eval` reaches and eformer has,
on inputs that are in no record: both live eformer and the program answer them.

A new input takes each part from one of the recorded inputs of its function, so
that every odd value meets every other."""

import collections
import copy
import json
import os
import random
import re
import sys
import unittest

import eformer_answers
import records

sys.path.insert(0, os.path.join(records.ROOT, "tests", "vectors"))
os.environ.setdefault("SHARDC_SOURCE_ROOT", records.ROOT)
import product_test  # noqa: E402

NEW_CASES = int(os.environ.get("SHARDC_CASES", "400"))  # of each operation
FAMILIES = ("resolve", "bundles", "match", "correct", "mesh", "names")
# Which function of `eval` each recorded operation uses.
FUNCTIONS = {
    "resolve_axis": "resolve", "manager_resolve": "resolve",
    "bundles": "bundle", "match": "match_partition_rules",
    "named_sharding": "get_corrected_named_sharding",
    "constraint": "with_sharding_constraint",
    "create_mesh": "create_mesh",
    "parse_mesh_from_string": "parse_mesh_from_string",
    "calculate_host_mesh_shape": "calculate_host_mesh_shape",
    "get_names_from_partition_spec": "get_names_from_partition_spec",
    "names_in_mesh": "names_in_mesh",
    "partition_axis_to_dict": "partition_axis",
    "partition_axis_from_dict": "partition_axis",
    "partition_axis_round_trip": "partition_axis",
    "get_safe_hash_int": "get_safe_hash_int"}
# Judged by new cases in eformer_live_test.py.
ELSEWHERE = {"registered"}
# What the vectors' reader calls an error, by words of eformer's.
KINDS = (("nested tuple", "nested_tuple_in_spec"),
         ("unhashable type", "nested_composite"),
         ("Unknown semantic axis", "unknown_axis"))


def operation(family, given):
    return given.get("op", family)


def spliced(rng, cases):
    """A recorded input with parts of others of the same operation."""
    given = copy.deepcopy(rng.choice(cases))
    for key in given:
        if key in ("op", "impl", "via") or rng.random() < 0.5:
            continue
        other = rng.choice(cases)
        if key in other:
            given[key] = copy.deepcopy(other[key])
    return given


def patterns(given):
    return {rule["pattern"] for rule in given.get("rules", [])}


def kind_of(error):
    for words, kind in KINDS:
        if words in error["message"]:
            return {**error, "kind": kind}
    return {**error, "kind": error["type"]}


def is_hostile(family, given):
    """Inputs that eformer cannot take on one machine: more devices than
    there are made."""
    count = given.get("device_count", 1)
    sizes = given.get("mesh") or {}
    product = 1
    for size in sizes.values() if isinstance(sizes, dict) else ():
        product *= size
    return count > eformer_answers.DEVICES or \
        product > eformer_answers.DEVICES


class Rows(unittest.TestCase):
    maxDiff = 2000

    def test_new_inputs_of_every_function(self):
        seed = int(os.environ.get("SHARDC_SEED", "340"))
        rng = random.Random(seed)
        asked = collections.Counter()
        cases = {}
        beyond_re2 = set()
        for family in FAMILIES:
            by_operation = collections.defaultdict(list)
            for case in eformer_answers.vector_cases(family):
                # A bundle and the axes of an instance belong together.
                key = (operation(family, case["input"]),
                       "instance" in case["input"])
                by_operation[key].append(case["input"])
                if "python_only_syntax" in case.get("tags", []):
                    beyond_re2 |= patterns(case["input"])
            cases[family] = []
            for group in sorted(by_operation) * NEW_CASES:
                given = spliced(rng, by_operation[group])
                while is_hostile(family, given):
                    given = spliced(rng, by_operation[group])
                answer = json.loads(json.dumps(
                    eformer_answers.answer(family, given)))
                for key in ("error", "spec_error"):
                    for where in (answer, answer.get("expect", {})):
                        if isinstance(where, dict) and key in where:
                            where[key] = kind_of(where[key])
                asked[FUNCTIONS[group[0]]] += 1
                cases[family].append({
                    "id": f"{seed}/{family}/{len(cases[family])}",
                    "input": given, **answer,
                    "tags": ["python_only_syntax"]
                    if patterns(given) & beyond_re2 else []})
        failed = []
        for family, outcomes in product_test.judge(cases).items():
            kinds = collections.Counter(
                outcome.kind for _, outcome in outcomes)
            print(f"{family}: {dict(kinds)}")
            failed += [(name, outcome.why) for name, outcome in outcomes
                       if outcome.kind == "failed"]
        self.assertEqual(failed[:20], [], len(failed))
        self.assertEqual(self.rows() - set(asked), ELSEWHERE)
        print(dict(asked))

    def rows(self):
        """The functions of `eval` in the table's rows of eformer."""
        with open(os.path.join(records.ROOT, "docs", "parity.md"),
                  encoding="utf-8") as file:
            text = file.read()
        table = text[:text.index("### EasyDeL and fjformer")]
        return set(re.findall(r"`eval (\w+)", table))


if __name__ == "__main__":
    unittest.main(warnings="ignore")
