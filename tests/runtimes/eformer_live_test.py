"""eformer asked again: its records hold, the older vectors are its own, and
shardc corrects cases that are in no record as it does."""

import json
import os
import random
import tempfile
import unittest

import eformer_answers
import random_shardings
import records
import shardc_answers

NEW_MESHES = 30
NEW_CASES = 12  # for each mesh


def any_case(rng, mesh):
    """A spec that may be too long, not divide, or name a missing axis."""
    case = random_shardings.random_case(rng, mesh)
    case["shape"] = [max(1, n + rng.choice([0, 0, 0, 1, -1]))
                     for n in case["shape"]]
    spec = [entry if rng.random() < 0.9 else "ep" for entry in case["spec"]]
    used = set()
    for dim, entry in enumerate(spec):  # an axis twice is an error to us
        group = [a for a in (entry if isinstance(entry, list) else [entry])
                 if a and a not in used]
        used.update(group)
        spec[dim] = group[0] if len(group) == 1 else group or None
    return {"shape": case["shape"], "spec": spec + [None] * rng.choice(
        [0, 0, 0, 1])}


def stripped(spec):
    spec = list(spec)
    while spec and spec[-1] is None:
        spec.pop()
    return spec


class Eformer(unittest.TestCase):
    maxDiff = 2000

    def test_vectors_are_its_own(self):
        record = records.load("eformer/vectors")
        self.assertEqual(record["versions"],
                         records.versions(*record["versions"]))
        differences = []
        for family, asked in record["asked"].items():
            count, differing = eformer_answers.differences(family)
            self.assertEqual(count, asked)
            differences += [{"family": family, **case}
                            for case in differing]
        self.assertEqual(differences, record["differences"])
        print(f"vectors: {sum(record['asked'].values())} asked, "
              f"{len(differences)} answered otherwise")

    def test_vectors_that_differ_are_for_other_devices(self):
        """eformer gives a mesh that it made before, whatever the devices are
        now, and one process recorded them all."""
        differing = records.load("eformer/vectors")["differences"]
        self.assertEqual({case["family"] for case in differing}, {"mesh"})
        cases = {case["id"]: case
                 for case in eformer_answers.vector_cases("mesh")}
        for case in differing:
            self.assertTrue(eformer_answers.is_for_other_devices(
                cases[case["id"]]), case["id"])

    def test_corpus(self):
        record = records.load("eformer/corpus")
        parameters = 0
        for case, now in zip(
                record["cases"],
                eformer_answers.corpus_cases(eformer_answers.pairs()),
                strict=True):
            self.assertEqual(json.loads(json.dumps(now)), case)
            parameters += case.get("parameters", 0)
        print(f"corpus: {parameters} parameters of {len(record['cases'])} "
              "pairs are matched and corrected as recorded")

    def test_new_cases_are_corrected_as_it_corrects_them(self):
        seed = int(os.environ.get("SHARDC_SEED", "78"))
        rng = random.Random(seed)
        changed = 0
        for _ in range(NEW_MESHES):
            mesh = random_shardings.random_mesh(rng)
            cases = [any_case(rng, mesh) for _ in range(NEW_CASES)]
            with tempfile.TemporaryDirectory() as folder:
                made = shardc_answers.plan(folder, mesh, cases, "--compat",
                                           "eformer")
                with open(made, encoding="utf-8") as file:
                    params = json.load(file)["params"]
            correction = eformer_answers.Corrections(mesh)
            for number, case in enumerate(cases):
                spec = eformer_answers.PartitionSpec(
                    *eformer_answers.tuples(case["spec"]))
                wanted = stripped(correction.correct(case["shape"], spec))
                self.assertEqual(
                    stripped(params[f"w{number}"]["spec"]), wanted,
                    (seed, mesh, case))
                changed += wanted != stripped(case["spec"])
        self.assertGreater(changed, NEW_MESHES)
        print(f"{NEW_MESHES * NEW_CASES} new cases, {changed} of them "
              "corrected: shardc's specs are eformer's")


if __name__ == "__main__":
    unittest.main(warnings="ignore")
