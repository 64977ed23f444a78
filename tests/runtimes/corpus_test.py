"""`plan --compat eformer` over the public rule sets and trees gives what
eformer itself gives: matching and correction."""

import json
import os
import sys
import tempfile
import unittest

import records
import shardc_answers

sys.path.insert(0, os.path.join(records.HERE, "..", "cli"))
import corpus_rules  # noqa: E402

# Three pairs have trees without shapes, which eformer does not judge.
WITHOUT_SHAPES = 3


def expand(numbered):
    for number, count in numbered["runs"]:
        for _ in range(count):
            yield numbered["specs"][number]


def meaning(spec):
    """Without the nulls at its end: eformer pads a spec that it corrects to
    the rank, a plan keeps it as the rule has it."""
    if isinstance(spec, list):
        spec = list(spec)
        while spec and spec[-1] is None:
            spec.pop()
    return spec


def plan(folder, mesh, pair):
    """By parameter, the plan's spec; nothing where no rule matches."""
    params = corpus_rules.load(pair["manifest"])["params"]
    rules = corpus_rules.Rules(corpus_rules.load(pair["ruleset"]), params)
    rules_file = os.path.join(folder, "rules.yaml")
    with open(rules_file, "w", encoding="utf-8") as file:
        file.write(rules.text)
    shardc_answers.write(os.path.join(folder, "mesh.yaml"), {"axes": mesh})
    done = shardc_answers.run(
        "plan", "--no-project", "-q", "--keep-going", "--modes", "train",
        "--compat", "eformer", "--mesh", os.path.join(folder, "mesh.yaml"),
        "--rules", rules_file, "--manifest",
        corpus_rules.find(pair["manifest"]), check=False)
    assert done.stdout, done
    out = json.loads(done.stdout)
    return {name: None if param["rule"] is None and param["shape"] else
            meaning(param["spec"]) for name, param in out["params"].items()}


class Corpus(unittest.TestCase):
    maxDiff = 2000

    def test_plans_are_what_eformer_matches_and_corrects(self):
        record = records.load("eformer/corpus")
        recorded = {case["pair"]: case for case in record["cases"]}
        compared = corrected = unmatched = without = 0
        with tempfile.TemporaryDirectory() as folder:
            for pair in corpus_rules.some_pairs():
                case = recorded[pair["pair"]]
                if not case.get("shapes", True):
                    without += 1
                    continue
                for name, mesh in record["meshes"].items():
                    wanted = [meaning(spec) for spec
                              in expand(case["corrected"][name])]
                    with self.subTest(pair=pair["pair"], mesh=name):
                        specs = list(plan(folder, mesh, pair).values())
                        self.assertEqual(len(specs), len(wanted))
                        wrong = [(i, s, w) for i, (s, w)
                                 in enumerate(zip(specs, wanted)) if s != w]
                        self.assertEqual(wrong[:3], [])
                    compared += len(wanted)
                    before = [meaning(spec) for spec
                              in expand(case["matched"])]
                    corrected += sum(a != b for a, b
                                     in zip(wanted, before))
                    unmatched += sum(w is None for w in wanted)
        self.assertLessEqual(without, WITHOUT_SHAPES)
        # What could differ does occur.
        self.assertGreater(corrected, compared // 20)
        print(f"corpus: {compared} parameters on {len(record['meshes'])} "
              f"meshes, {corrected} corrected, {unmatched} unmatched")


if __name__ == "__main__":
    unittest.main()
