"""Differences of plans with stages: layers that move between ranks, and what each
rank holds."""

import json
import unittest

from driver import run
from staged_case import BY_RANK, LLAMA, StagedCase


class StagedDifference(StagedCase):
    def test_difference_lists_layers_that_move(self):
        one, _ = self.llama("{axis: pp, assign: even}", name="one.json")
        two, after = self.llama("{axis: pp, assign: [9, 9, 8, 6]}",
                                name="two.json")
        done = run("diff", one, two)
        self.assertEqual(done.rc, 1, done)
        self.assertIn("layer 8 moves from stage 1 on rank 1 to stage 0 on "
                      "rank 0", done.out)
        self.assertIn("layers 24-25 move from stage 3 on rank 3 to stage 2 on "
                      "rank 2", done.out)
        self.assertNotIn("mlp", done.out)
        value = run("diff", one, two, "--format", "json").json()
        self.assertEqual([move["layers"] for move in value["stages"]["layers"]],
                         [[8, 9], [16, 18], [24, 26]])
        self.assertEqual(value["stages"]["bytes_by_rank"], {
            "before": BY_RANK, "after": after["summary"]["bytes_by_rank"]["of"]})
        self.assertEqual(run("diff", one, one).rc, 0)
        # Without stages there are no ranks that could hold nothing.
        none = self.path("none.json")
        run("plan", "--no-project", "--mesh", "pp:4,tp:2", "--rules",
            "builtin:llama/hf", *LLAMA, "-o", none)
        for plans in ((one, none), (none, one)):
            for form in ("text", "markdown"):
                done = run("diff", *plans, "--format", form)
                self.assertIn("`stages` is n", done.out)
                self.assertNotIn("nothing", done.out)

    def test_a_committed_plan_is_compared_by_layers(self):
        self.write("shardc.yaml", f"""version: 1
targets:
  t:
    mesh: pp:4,tp:2
    rules: [llama.yaml]
    manifest: {LLAMA[1]}
    plan: plan.json
""")
        rules = "version: 1\nextends: builtin:llama/hf\nstages: "
        self.write("llama.yaml", rules + "{axis: pp, assign: even}\n")
        flags = ["--project", self.path("shardc.yaml"), "--allow-outside"]
        written = run("plan", "--write-locked", *flags)
        self.assertEqual(written.rc, 0, written)
        locked = run("check", "--locked", "--select", "SHD195", *flags)
        self.assertEqual(locked.rc, 0, locked)
        self.write("llama.yaml", rules + "{axis: pp, assign: [9, 9, 8, 6]}\n")
        done = run("check", "--locked", "--select", "SHD195", *flags,
                   "--format", "json")
        self.assertEqual(done.rc, 1, done)
        messages = [one["message"].removesuffix(" (in target `t`)")
                    for one in json.loads(done.out)]
        self.assertEqual(messages, [
            "layer 8 moves from stage 1 on rank 1 to stage 0 on rank 0",
            "layers 16-17 move from stage 2 on rank 2 to stage 1 on rank 1",
            "layers 24-25 move from stage 3 on rank 3 to stage 2 on rank 2"])
        done = run("plan", "--diff", *flags)
        self.assertIn("5 layers in another stage", done.out)

    def test_differences_count_what_a_rank_holds(self):
        tree = {"embed": [8, 8], "head": [8, 8],
                **{f"layers.{i}.up": [64, 8] for i in range(4)}}
        plans = [self.plan(mesh, "{axis: pp, assign: %s}" % assign, tree, name,
                           up)[0]
                 for mesh, assign, name, up in (
                     ("pp:2,tp:2", "[3, 1]", "a.json", "[tp, null]"),
                     ("pp:2,tp:2", "[3, 1]", "b.json", "[]"),
                     ("pp:4,tp:1", "[1, 1, 1, 1]", "c.json", "[tp, null]"))]
        # Three layers of 1 KiB each on a device of rank 0.
        text = run("diff", plans[0], plans[1]).out
        self.assertIn("holds  1 KiB -> 2 KiB per device of each, "
                      "3 KiB -> 6 KiB of all\n", text)
        self.assertIn("moves  all_gather over `tp`, 1 KiB sent per device, "
                      "of each\n", text)
        # No collective of all devices moves a parameter of some ranks.
        text = run("diff", plans[0], plans[2]).out
        self.assertIn("1 KiB -> 2 KiB per device of each, "
                      "3 KiB -> 2 KiB of all\n", text)
        self.assertNotIn("    moves ", text)

    def test_difference_of_other_members(self):
        one, _ = self.llama("{axis: pp, assign: even, microbatches: 8}",
                            name="one.json")
        two, _ = self.llama("{axis: pp, assign: even, microbatches: 16, "
                            "schedule: gpipe}", name="two.json")
        done = run("diff", one, two)
        self.assertEqual(done.rc, 1, done)
        self.assertIn("`microbatches` of the stages was 8 and is 16", done.out)
        self.assertIn('`schedule` of the stages was "1f1b" and is "gpipe"',
                      done.out)
        self.assertNotIn("layer", done.out)


if __name__ == "__main__":
    unittest.main()
