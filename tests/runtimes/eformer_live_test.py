"""eformer asked again: its records hold, the older vectors are its own, and
shardc corrects cases that are in no record as it does."""

import inspect
import json
import os
import random
import re
import sys
import tempfile
import unittest

import eformer_answers
import random_shardings
import records
import shardc_answers

sys.path.insert(0, os.path.join(records.ROOT, "tests", "vectors"))
os.environ.setdefault("SHARDC_SOURCE_ROOT", records.ROOT)
import product  # noqa: E402
import product_test  # noqa: E402

NEW_REGISTRATIONS = int(os.environ.get("SHARDC_CASES", "400"))
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


def kind_of(error):
    """The name of an error of the registry, as the vectors have it."""
    message = error["message"]
    for words, kind in (("Cyclic", "cyclic_registration"),
                        ("already exists", "already_registered"),
                        ("non-empty", "empty_name"),
                        ("not registered", "not_registered"),
                        ("Unknown semantic axis", "unknown_axis")):
        if words in message:
            return kind
    return error["type"]


AXES = ["dp", "fsdp", "tp", "sp", "ep", "x"]


def random_rule(rng, names):
    """Null, a name, a list of one or a list of two."""
    def name():
        return rng.choice([rng.choice(AXES), rng.choice(sorted(product.FIELDS)),
                           rng.choice(names)])
    kind = rng.randrange(10)
    if kind == 0:
        return None
    if kind < 5:
        return name()
    return [name() for _ in range(1 if kind < 8 else 2)]


def random_registrations(rng):
    """A case of the family register: axis rules, chains of registrations,
    overrides, generation rules and null rules, resolved in every mode."""
    fields = {}
    for field in rng.sample(sorted(product.FIELDS), 6):
        fields[field] = rng.choice(
            [None, rng.choice(AXES), rng.sample(AXES, 2)])
    names = sorted(product.TOKENS)
    steps = []
    for number in range(rng.randrange(1, 4)):
        override = rng.random() < 0.25
        name = rng.choice(sorted(product.TOKENS)) if override else \
            f"__R{number}__"
        step = {"op": "register", "name": name, "override": override,
                "rule": random_rule(rng, names)}
        if rng.random() < 0.4:
            step["generation_rule"] = random_rule(rng, names)
        names = [*names, name]
        steps.append(step)
        if rng.random() < 0.2:
            steps.append({"op": "unregister", "name": name})
    for mode in ("__train__", "__prefill__", "__autoregressive__",
                 "__insert__"):
        for name in rng.sample(names[-4:], 2):
            steps.append({"op": "resolve", "axes": [name], "mode": mode})
    return {"partition_axis": fields, "steps": steps}


class Eformer(unittest.TestCase):
    maxDiff = 2000

    def test_new_registrations_are_resolved_as_it_resolves_them(self):
        seed = int(os.environ.get("SHARDC_SEED", "34"))
        rng = random.Random(seed)
        cases = []
        for number in range(NEW_REGISTRATIONS):
            given = random_registrations(rng)
            eformer_answers.manager_module.PartitionAxis.\
                clear_registered_axes()
            expect = json.loads(json.dumps(eformer_answers.register(given)))
            for step in expect["steps"]:
                if "error" in step:
                    step["error"] = {"kind": kind_of(step["error"])}
                if "spec_error" in step:
                    step["spec_error"] = {"kind": "nested_tuple_in_spec"}
            cases.append({"id": f"{seed}/{number}", "input": given,
                          "expect": expect})
        outcomes = product_test.judge({"register": cases})["register"]
        kinds = {}
        for name, outcome in outcomes:
            kinds[outcome.kind] = kinds.get(outcome.kind, 0) + 1
            self.assertNotEqual(outcome.kind, "failed", (name, outcome.why))
        self.assertGreater(kinds["passed"], len(cases) // 4)
        print(f"{len(cases)} new cases of registrations: {kinds}")

    def test_every_public_name_is_in_the_table(self):
        with open(os.path.join(records.ROOT, "docs", "parity.md"),
                  encoding="utf-8") as file:
            text = file.read()
        known = set(re.findall(r"`([A-Za-z_.]+)`", text))
        manager = eformer_answers.manager_module
        modules = {"jax", "jnp", "np", "tp"}
        missing = [name for name in dir(eformer_answers.common_types)
                   if not name.startswith("_") and name not in modules | known]
        for name in dir(manager):
            value = getattr(manager, name)
            if name.startswith("_") or \
                    getattr(value, "__module__", "") != manager.__name__:
                continue
            missing += [name] if name not in known else []
            if inspect.isclass(value):
                missing += [
                    f"{name}.{method}" for method in vars(value)
                    if not method.startswith("_") and
                    callable(getattr(value, method)) and
                    f"{name}.{method}" not in known]
        self.assertEqual(missing, [])

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
