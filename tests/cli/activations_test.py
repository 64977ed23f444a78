"""The specs of activations in plans: what follows from the axis rules, what
`activations:` of the rules states, and the commands that read them."""

import json
import os
import sys
import unittest

from driver import ROOT, TESTDATA, FolderCase, run

sys.path.insert(0, os.path.join(ROOT, "python"))
import shardc  # noqa: E402
from shardc.mesh import PlanError  # noqa: E402

RULES = """version: 1
extends: [builtin:llama/hf]
"""
MIXTRAL = RULES.replace("llama", "mixtral")
STATED = RULES + """activations:
  hidden: [BATCH, [SP, TP], null]
  conv: {spec: [BATCH, null, TP], modes: {decode: [BATCH, null, null]}}
"""


class Activations(FolderCase):
    def inputs(self, rules=RULES, mesh="fsdp:4,tp:2", model="llama-3.2-1b"):
        return ("--no-project", "--rules", self.write("rules.yaml", rules), "--mesh", mesh,
                "--model", os.path.join(TESTDATA, "configs", model + ".config.json"))

    def plan(self, *args, rc=0, **inputs):
        return self.check(run("plan", *self.inputs(**inputs), *args), rc)

    def written(self, name="plan.json", **inputs):
        path = os.path.join(self.folder, name)
        self.plan("-o", path, **inputs)
        return path

    def test_they_follow_from_the_axis_rules(self):
        plan = self.plan(rules=MIXTRAL, mesh="dp:2,ep:2,tp:2", model="mixtral-8x7b").json()
        self.assertEqual(plan["activations"]["train"], {
            "hidden": ["dp", None, "tp"],
            "mlp": ["dp", None, "tp"],
            "logits": ["dp", None, "tp"],
            "experts": ["dp", "ep", None, None]})
        self.assertEqual(list(plan["activations"]), plan["modes"])
        self.assertNotIn("activations_stated", plan)
        self.assertNotIn("activation_corrections", plan)

    def test_a_dimension_keeps_no_axis_of_an_earlier_one(self):
        plan = self.plan(
            rules=RULES + "axes: {hidden_state: [fsdp, tp], expert: fsdp}\n").json()
        train = plan["activations"]["train"]
        self.assertEqual(train["hidden"], ["fsdp", None, "tp"])
        self.assertEqual(train["experts"], [None, "fsdp", None, None])
        first = plan["activation_corrections"][0]
        self.assertEqual((first["tensor"], first["dim"], first["reason"]),
                         ("hidden", 2, "repeated_axis"))

    def test_rules_state_others(self):
        derived, stated = self.plan().json(), self.plan(rules=STATED).json()
        self.assertEqual(stated["activations"]["train"],
                         {**derived["activations"]["train"],
                          "hidden": ["fsdp", "tp", None],
                          "conv": ["fsdp", None, "tp"]})
        self.assertEqual(stated["activations"]["decode"]["conv"], ["fsdp", None, None])
        self.assertEqual(stated["activations_stated"], ["hidden", "conv"])
        # Only specs that the rules state are part of the fingerprint.
        self.assertNotEqual(derived["fingerprint"], stated["fingerprint"])
        del derived["activations"], derived["activations_digest"]
        self.assertEqual(shardc.Plan.loads(json.dumps(derived)).activations(), {})

    def test_what_is_wrong_in_them_is_reported_at_its_place(self):
        for written, rc, code, text in (
                ("hidden: [BATCH, sq, null]", 2, "SHD028", "sq"),
                ("hidden: {axes: [BATCH]}", 2, "SHD021", "axes"),
                ("hidden: {modes: {decode: []}}", 2, "SHD022", "spec"),
                ("hidden: {like: x}", 2, "SHD021", "like"),
                ("[BATCH]", 2, "SHD022", "activations"),
                ("'': [BATCH]", 2, "SHD022", "the name of an activation is an empty string"),
                ("hidden: [tp, tp, null]", 2, "SHD027", "tp"),
                ("hidden: [BATCH, [fsdp, tp], null]", 1, "SHD203", "activation `hidden`")):
            with self.subTest(written):
                block = "activations:" + (f" {written}" if written[0] == "["
                                          else f"\n  {written}") + "\n"
                result = self.plan(rc=rc, rules=RULES + block)
                self.assertIn(code, result.err)
                self.assertIn(text, result.err)
                self.assertIn("rules.yaml:", result.err)

    def test_the_policy_corrects_stated_specs(self):
        block = "policy: {illegal: shrink}\nactivations: {hidden: [BATCH, [fsdp, tp], null]}\n"
        plan = self.plan(rules=RULES + block).json()
        self.assertEqual(plan["activations"]["train"]["hidden"], ["fsdp", "tp", None])
        self.assertEqual(plan["activation_corrections"][0]["from"], ["fsdp", "tp"])

    def test_the_nearest_file_wins_and_rules_are_written_with_them(self):
        base = self.write("base.yaml", STATED)
        near = f"version: 1\nextends: [{os.path.basename(base)}]\n" \
               "activations: {conv: [BATCH]}\n"
        plan = self.plan(rules=near).json()
        self.assertEqual(plan["activations"]["decode"]["conv"], ["fsdp"])
        self.assertEqual(plan["activations"]["train"]["hidden"], ["fsdp", "tp", None])
        one = self.check(run("show", "rules", "--resolved", *self.inputs(rules=near)[:3]), 0).out
        again = self.plan(rules=one).json()
        self.assertEqual(again["activations"], plan["activations"])

    def test_cost_of_a_plan_file_is_that_of_its_inputs(self):
        work = ("--batch", "32", "--seq", "4096", "--profile", "h100-sxm",
                "--format", "json")
        for mesh, model, rules in (
                ("fsdp:4,tp:2", "llama-3.2-1b", RULES),
                ("fsdp:4,tp:2", "llama-3.2-1b", RULES + "axes: {hidden_state: []}\n"),
                ("fsdp:2,ep:2,tp:2", "mixtral-8x7b", MIXTRAL),
                ("fsdp:4,tp:2", "mixtral-8x7b", MIXTRAL +
                 "axes: {expert: [fsdp]}\n")):
            with self.subTest(mesh=mesh, rules=rules):
                inputs = self.inputs(mesh=mesh, model=model, rules=rules)
                direct = run("cost", *inputs, *work).json()
                plan = self.written(mesh=mesh, model=model, rules=rules)
                of_file = run("cost", "--no-project", "--plan", plan, *inputs[-2:],
                              *work).json()
                self.assertEqual(of_file["memory"], direct["memory"])
                self.assertFalse([one for one in of_file["assumptions"]
                                  if "`activations`" in one])

    def test_cost_of_stated_specs(self):
        """A hidden state whose length is sharded takes what one takes whose width
        is. What other specs send is not known."""
        work = ("--batch", "32", "--seq", "4096", "--profile", "h100-sxm",
                "--format", "json")
        derived = run("cost", *self.inputs(), *work).json()
        for block, listed in (("hidden: [BATCH, [SP, TP], null]", None),
                              ("hidden: [null, SP, null]", "hidden"),
                              ("mlp: [BATCH, null, null]", "mlp"),
                              ("conv: [BATCH]", "conv")):
            rules = RULES + "activations: {" + block + "}\n"
            plan = self.written(rules=rules)
            inputs = self.inputs(rules=rules)
            for command in (("cost", *inputs, *work),
                            ("cost", "--no-project", "--plan", plan, *inputs[-2:], *work)):
                with self.subTest(block, command=command[2]):
                    report = self.check(run(*command), 1 if listed else 0).json()
                    self.assertEqual(
                        [one["what"].split("`")[1] for one in report["not_known"]],
                        [listed] if listed else [])
                    if not listed:
                        self.assertEqual(report["memory"]["activations"],
                                         derived["memory"]["activations"])

    def test_the_step_runs_with_them(self):
        flags = ("--batch", "8", "--seq", "64", "--mode", "train", "--format", "json")
        sent = []
        for rules in (RULES, RULES + "activations: {hidden: [BATCH, TP, null]}\n"):
            report = self.check(
                run("verify", "step", *self.inputs(rules=rules), *flags), 0).json()
            step = report["steps"][0]
            self.assertEqual(step["status"], "pass")
            sent.append(step["totals"]["by_collective"])
        self.assertNotEqual(sent[0], sent[1])

    def test_diff_and_locked_find_them(self):
        before = self.written("before.json")
        after = self.written("after.json", rules=STATED)
        found = self.check(run("diff", before, after), 1)
        self.assertIn("~ activation hidden\n", found.out)
        changed = self.check(run("diff", before, after, "--format", "json"), 1).json()
        self.assertEqual([one["tensor"] for one in changed["activations"]], ["hidden"])
        with open(before, encoding="utf-8") as file:
            plan = json.load(file)
        plan["activations"]["train"]["hidden"][2] = None
        edited = self.write("edited.json", json.dumps(plan))
        self.check(run("diff", before, edited, "--allow-edited"), 1)
        # A plan of an earlier version has none.
        del plan["activations"], plan["activations_digest"]
        old = self.write("old.json", json.dumps(plan))
        self.check(run("diff", before, old), 0)
        self.check(run("diff", after, old), 1)

    def test_an_edit_of_a_stated_spec_is_refused(self):
        with open(self.written(rules=STATED), encoding="utf-8") as file:
            plan = json.load(file)
        plan["activations"]["train"]["hidden"] = [None, None, None]
        edited = self.write("edited.json", json.dumps(plan))
        self.assertIn("edited", self.check(run("show", "mesh", "--plan", edited), 2).err)
        with self.assertRaises(PlanError):
            shardc.Plan.load(edited)

    def test_python_has_them_by_name(self):
        plan = shardc.Plan.load(self.written(rules=STATED))
        self.assertEqual(plan.activation("hidden"), ("fsdp", "tp", None))
        self.assertEqual(plan.activation("query"), plan.attention()["query"])
        self.assertEqual(plan.activations("decode")["conv"], ("fsdp", None, None))
        with self.assertRaisesRegex(PlanError, "hiden.*hidden"):
            plan.activation("hiden")

    def test_exports_have_them(self):
        plan = self.written(rules=STATED)
        module = self.check(run("export", "jax", "--plan", plan), 0).out
        self.assertIn('"conv": P("fsdp", None, "tp"),', module)
        data = self.check(run("export", "jax-json", "--plan", plan), 0).json()
        self.assertEqual(data["activations"]["train"]["hidden"], ["fsdp", "tp", None])


if __name__ == "__main__":
    unittest.main(argv=[sys.argv[0]])
