"""The cost of the stages that a plan states is that of the target from which
the plan was written."""

import json
import os
import re
import unittest

from driver import MODELS, TESTDATA, FolderCase, run
from reported import Page

CONFIGS = os.path.join(TESTDATA, "configs")
SIZES = ["--batch", "64", "--seq", "2048", "--profile", "h100-sxm"]
# What a plan file of an earlier version lacks.
OF_FILES = "the plan has no `activations`"

# Model, pack, mesh, stages. Tied embeddings, experts, biases and windows;
# every placement of stages; tokens, weights and hidden states sharded.
CASES = [
    ("llama-3-8b.hf", "llama/hf", "pp:4,tp:2", "{axis: pp, assign: even}"),
    ("llama-3-8b.hf", "llama/hf", "fsdp:2,pp:4,tp:2",
     "{axis: pp, schedule: zbv, microbatches: 16}"),
    ("llama-3.2-1b.hf", "llama/hf", "pp:4,fsdp:2",
     "{axis: pp, schedule: zb-h1, microbatches: 8}"),
    ("llama-3.2-1b.hf", "llama/hf", "pp:4,tp:4",
     "{axis: pp, schedule: zbv, microbatches: 8, tied: error}"),
    ("gemma-2b.hf", "gemma/hf", "dp:2,pp:2,tp:2",
     "{axis: pp, schedule: interleaved, virtual: 3, microbatches: 4}"),
    ("qwen2-7b.hf", "llama/hf", "pp:4,sp:2,tp:2",
     "{axis: pp, schedule: dualpipe, microbatches: 16}"),
    ("qwen3-0.6b.hf", "llama/hf", "pp:2,fsdp:2,tp:2",
     "{axis: pp, schedule: dualpipev, microbatches: 4}"),
    ("mixtral-8x7b.hf", "mixtral/hf", "pp:4,fsdp:2,ep:2,tp:2",
     "{axis: pp, schedule: looped-bfs, virtual: 2, microbatches: 8}"),
    ("mixtral-8x7b.hf", "mixtral/hf", "pp:2,ep:4",
     "{axis: pp, assign: [20, 12], schedule: gpipe, microbatches: 4}"),
    ("llama-3.1-405b.hf", "llama/hf", "pp:16,tp:8",
     "{axis: pp, assign: cost, microbatches: 32}"),
    ("llama-3-8b.flax", "llama/flax", "pp:1,tp:2", "{axis: pp}"),
]


class StagedCost(FolderCase):
    def inputs(self, pack, mesh, stages, manifest, model=None):
        rules = self.write("rules.yaml", "version: 1\n"
                           f"extends: builtin:{pack}\nstages: {stages}\n")
        return ["--no-project", "--mesh", mesh, "--rules", rules,
                "--manifest", manifest] + model_of(model)

    def plan(self, inputs):
        done = run("plan", *inputs, "-o", self.path("plan.json"))
        self.assertEqual(done.rc, 0, done)
        return self.path("plan.json")

    def costs(self, inputs, plan, model, *flags):
        """The cost of the target, and that of its plan."""
        of_target = run("cost", *inputs, *SIZES, *flags, "--format", "json")
        of_plan = run("cost", "--plan", plan, *model_of(model), *SIZES,
                      *flags, "--format", "json")
        self.assertEqual(of_plan.rc, of_target.rc, of_plan)
        self.assertIn(of_target.rc, (0, 1), of_target)
        return of_target.json(), of_plan.json()

    def test_a_plan_costs_what_its_target_costs(self):
        for name, pack, mesh, stages in CASES:
            with self.subTest(model=name, mesh=mesh, stages=stages):
                model = name.split(".flax")[0].split(".hf")[0]
                inputs = self.inputs(pack, mesh, stages, manifest_of(name),
                                     model)
                target, plan = self.costs(inputs, self.plan(inputs), model)
                self.assertEqual(plan, target)

    def test_the_axes_of_the_hidden_state_are_in_the_plan(self):
        for hidden, axes in (("[]", []), ("[tp]", ["tp"])):
            inputs = self.inputs("llama/hf", "fsdp:2,pp:4,tp:2", "{axis: pp}\n"
                                 f"axes: {{hidden_state: {hidden}}}",
                                 manifest_of("llama-3-8b.hf"), "llama-3-8b")
            plan = self.plan(inputs)
            target, own = self.costs(inputs, plan, "llama-3-8b")
            self.assertEqual(own, target)
            with open(plan, encoding="utf-8") as file:
                value = json.load(file)
            self.assertEqual(value["stages"].pop("hidden"), axes)
            # A file of an earlier version lacks them, and the activations.
            del value["activations"]
            earlier = self.write("earlier.json", json.dumps(value))
            done = run("cost", "--plan", earlier, "--allow-edited",
                       *model_of("llama-3-8b"), *SIZES, "--format", "json")
            note, = [one for one in done.json()["assumptions"]
                     if one.startswith(OF_FILES)]
            self.assertIn("assumed to be sharded as the query's heads", note)
            self.assertIs(done.json()["ranks"] == own["ranks"], hidden != "[]")
        value["stages"]["hidden"] = ["zz"]
        wrong = self.write("wrong.json", json.dumps(value))
        done = run("cost", "--plan", wrong, *SIZES)
        self.assertEqual(done.rc, 2, done)
        self.assertIn("the plan's mesh has no axis `zz`", done.err)

    def test_flags_of_the_step_have_the_same_effect(self):
        inputs = self.inputs("llama/hf", "fsdp:2,pp:4,tp:2",
                             "{axis: pp, microbatches: 8}",
                             manifest_of("llama-3-8b.hf"), "llama-3-8b")
        plan = self.plan(inputs)
        for flags in (["--microbatches", "16"], ["--p2p", "exposed"],
                      ["--remat", "nothing_saveable"],
                      ["--optimizer", "sgd"], ["--stages", "none"]):
            with self.subTest(flags=flags):
                target, own = self.costs(inputs, plan, "llama-3-8b", *flags)
                if flags[0] == "--stages":
                    # Without stages the step's program gives the traffic.
                    target, own = target["memory"], own["memory"]
                    target = {key: target[key] for key in
                              ("parameters", "gradients", "optimizer")}
                    own = {key: own[key] for key in target}
                self.assertEqual(own, target)

    def test_the_hosts_of_a_stage_are_those_of_the_mesh(self):
        def seconds(mesh):
            inputs = self.inputs("llama/hf", mesh, "{axis: pp, assign: even, "
                                 "microbatches: 8}",
                                 manifest_of("llama-3-8b.hf"), "llama-3-8b")
            value, plan = self.costs(inputs, self.plan(inputs), "llama-3-8b")
            self.assertEqual(plan, value)
            stage = value["stages"][0]
            return (value["time"]["after"] + stage["forward"] +
                    stage["input"] + stage["weight"])

        # Within a host of eight, fsdp has four devices, or one if the host has
        # devices of all stages.
        self.assertGreater(seconds("fsdp:8,pp:4,tp:2"),
                           1.01 * seconds("pp:4,fsdp:8,tp:2"))

    def test_layers_of_stacks(self):
        tree = {"schema": "shardc.manifest/v1", "params": {
            "embed/embedding": [1024, 64],
            "dense/up/kernel": [4, 64, 256], "dense/down/kernel": [4, 256, 64],
            "moe/up/kernel": [8, 64, 512], "moe/down/kernel": [8, 512, 64],
            "norm/scale": [64], "lm_head/kernel": [64, 1024]}}
        tree["params"] = {name: {"shape": shape, "dtype": "BF16"}
                          for name, shape in tree["params"].items()}
        manifest = self.write("tree.json", json.dumps(tree))
        rules = self.write("rules.yaml", """version: 1
stages:
  axis: pp
  stacked: [{match: '^dense/', dim: 0}, {match: '^moe/', dim: 0}]
  microbatches: 8
rules:
- {match: 'up', spec: [null, null, tp]}
- {match: '.*', spec: []}
""")
        for mesh in ("pp:2,tp:2", "pp:3,tp:2", "pp:6"):
            inputs = ["--no-project", "--mesh", mesh, "--rules", rules,
                      "--manifest", manifest]
            target, plan = self.costs(inputs, self.plan(inputs), None)
            self.assertEqual(plan, target)
        # Of two stacks in one stage the plan does not state which is first.
        inputs = ["--no-project", "--mesh", "pp:1,tp:2", "--rules", rules,
                  "--manifest", manifest]
        target, plan = self.costs(inputs, self.plan(inputs), None)
        self.assertEqual(plan["ranks"], target["ranks"])

    def test_a_schedule_file_is_given_again(self):
        done = run("schedule", "1f1b", "--ranks", "4", "--microbatches", "8",
                   "--csv")
        file = self.write("steps.csv", done.out)
        inputs = self.inputs("llama/hf", "pp:4,tp:2",
                             "{axis: pp, schedule: {file: steps.csv}}",
                             manifest_of("llama-3-8b.hf"), "llama-3-8b")
        plan = self.plan(inputs)
        done = run("cost", "--plan", plan, *SIZES)
        self.assertEqual(done.rc, 2, done)
        self.assertIn(", of which the plan has the digest alone", done.err)
        self.assertIn("give the file with `--schedule FILE`", done.err)
        of_target = run("cost", *inputs, *SIZES, "--format", "json").json()
        of_plan = run("cost", "--plan", plan, *model_of("llama-3-8b"), *SIZES,
                      "--schedule", file, "--format", "json")
        self.assertEqual(of_plan.json()["ranks"], of_target["ranks"])
        done = run("schedule", "gpipe", "--ranks", "4", "--microbatches", "8",
                   "--csv")
        other = self.write("other.csv", done.out)
        done = run("cost", "--plan", plan, *SIZES, "--schedule", other)
        self.assertEqual(done.rc, 2, done)
        self.assertIn("has another table than the one that the plan was made "
                      "with", done.err)

    def test_a_rank_with_both_ends_has_a_tied_embedding_once(self):
        # Rank 1 has the last stage without the first one, rank 0 has both.
        self.write("steps.csv", "0F0,1F0,1B0,0B0,0F1,0B1\n1F1,1B1\n")
        inputs = self.inputs("llama/hf", "pp:2",
                             "{axis: pp, schedule: {file: steps.csv}}",
                             manifest_of("llama-3.2-1b.hf"), "llama-3.2-1b")
        with open(self.plan(inputs), encoding="utf-8") as file:
            held = json.load(file)["summary"]["bytes_by_rank"]["of"]
        done = run("cost", *inputs, *SIZES, "--format", "json")
        self.assertEqual([rank["parameters"] for rank in done.json()["ranks"]],
                         held)

    def test_an_export_of_a_plan_does_not_read_its_schedule_file(self):
        # The file of that name may have another table by now.
        table = run("schedule", "1f1b", "--ranks", "4", "--microbatches", "6",
                    "--csv").out
        file = self.write("steps.csv", table)
        plan = self.plan(self.inputs("llama/hf", "pp:4,tp:2", "{axis: pp, "
                                     "schedule: {file: steps.csv}}",
                                     manifest_of("llama-3-8b.hf")))
        done = self.check(run("export", "torch-pipeline", "--plan", plan), 2)
        self.assertIn(", of which the plan has the digest alone", done.err)
        done = run("export", "torch-pipeline", "--plan", plan, "--schedule",
                   file)
        self.assertEqual(self.check(done, 0).out, table)
        done = self.check(run("export", "vllm-pipeline", "--plan", plan), 0)
        self.assertIn("VLLM_PP_LAYER_PARTITION=", done.out)
        dual = self.plan(self.inputs("llama/hf", "pp:4,tp:2",
                                     "{axis: pp, schedule: dualpipe}",
                                     manifest_of("llama-3-8b.hf")))
        done = self.check(run("export", "vllm-pipeline", "--plan", dual), 2)
        self.assertIn("has stage n on rank n, and `dualpipe`", done.err)

    def test_flags_cannot_divide_a_plan_again(self):
        inputs = self.inputs("llama/hf", "pp:4,tp:2", "{axis: pp}",
                             manifest_of("llama-3-8b.hf"))
        plan = self.plan(inputs)
        for flag, value in (("--assign", "even"),
                            ("--virtual", "2"), ("--schedule", "gpipe")):
            done = run("cost", "--plan", plan, *SIZES, flag, value)
            self.assertEqual(done.rc, 2, done)
            self.assertIn("the plan is divided into stages already, which "
                          f"`{flag}` would replace", done.err)
        done = run("cost", "--plan", plan)
        self.assertEqual(done.rc, 2, done)
        self.assertIn("give `--batch` and `--seq`", done.err)

    def test_one_rank_takes_the_memory_of_a_step_without_stages(self):
        for flags in ([], ["--remat", "nothing_saveable"],
                      ["--stack", "megatron"]):
            inputs = self.inputs("llama/hf", "pp:1,fsdp:2,tp:2",
                                 "{axis: pp, microbatches: 1}",
                                 manifest_of("llama-3-8b.hf"), "llama-3-8b")
            of_rank = run("cost", *inputs, *SIZES, *flags, "--format", "json")
            without = run("cost", *inputs, *SIZES, *flags, "--stages", "none",
                          "--format", "json").json()["memory"]["peak"]
            own = of_rank.json()["ranks"][0]["peak"]
            for key in ("least", "expected", "most"):
                self.assertEqual(own[key], without[key], flags)

    def test_without_a_configuration_the_sums_of_attention_are_not_known(self):
        # Middle stages have no embedding, which has the hidden size.
        inputs = self.inputs("llama/hf", "pp:4,tp:2", "{axis: pp}",
                             manifest_of("llama-3-8b.hf"))
        bare = run("cost", *inputs, *SIZES, "--format", "json").json()
        cost = run("cost", *inputs, *model_of("llama-3-8b"), *SIZES, "--format",
                   "json").json()
        for one, other in zip(bare["ranks"], cost["ranks"], strict=True):
            self.assertEqual(one["logits"], other["logits"])
            # Nothing shows the heads, for each of which attention keeps a sum.
            # The other activations, in the total, are those of the weights.
            self.assertIsNone(one["activations"])
            self.assertNotIn("peak", one)
            self.assertLess(one["total"], other["total"])
            self.assertGreater(one["total"],
                               other["total"] - 0.05 * other["activations"])
        self.assertTrue(all(one["kept"] is None for one in bare["stages"]))
        self.assertEqual([one["settled_by"] for one in bare["not_known"]],
                         ["--model"])
        self.assertGreater(cost["ranks"][2]["activations"], 1 << 30)

    def test_unknown_activations_are_not_counted_as_none(self):
        manifest = self.write("tree.json", json.dumps({
            "schema": "shardc.manifest/v1", "params": {
                f"layers.{i}.{name}.weight": {"shape": shape, "dtype": "F32"}
                for i in range(4) for name, shape in (
                    ("self_attn.q_proj", [256, 256]),
                    ("mlp.up_proj", [1024, 256]))}}))
        inputs = self.inputs("llama/hf", "pp:2,tp:2", "{axis: pp}", manifest)
        why = ("the hidden size, and with it activations; settled by "
               "--model")
        for memory, fits in (("1GiB", None), ("1MiB", False)):
            done = run("cost", *inputs, *SIZES, "--memory", memory, "--format",
                       "json")
            self.assertEqual(done.rc, 1 if fits is False else 0, done)
            cost = done.json()
            self.assertEqual(cost["fits"], fits)
            for rank in cost["ranks"]:
                self.assertIsNone(rank["activations"])
                self.assertIsNone(rank["logits"])
                self.assertNotIn("peak", rank)
                self.assertGreater(rank["total"], 1 << 20)
        for command in (["cost"], ["show", "memory"]):
            done = run(*command, *inputs, *SIZES)
            self.assertIn(why, " ".join(done.out.split()))
        page = run("report", *inputs, *SIZES)
        text = " ".join(re.sub("<[^>]*>", " ", page.out).split())
        self.assertRegex(text, "the hidden size, and with it activations.{1,40}--model")
        done = run("cost", *inputs, *SIZES)
        self.assertNotIn("the fullest rank", done.out)

    def test_unknown_logits_are_not_counted_as_none(self):
        shapes = {f"layers.{i}.{name}.weight": shape for i in range(4)
                  for name, shape in (("self_attn.q_proj", [4096, 4096]),
                                      ("mlp.up_proj", [14336, 4096]))}
        shapes.update({"rotary_emb.inv_freq": [64], "norm.weight": [4096]})
        inputs = self.inputs(
            "llama/hf", "pp:2,tp:2", "{axis: pp, first: [rotary], "
            "last: [norm]}", self.write("tree.json", json.dumps({
                "schema": "shardc.manifest/v1", "params": {
                    name: {"shape": shape, "dtype": "BF16"}
                    for name, shape in shapes.items()}})), "llama-3-8b")
        cost = run("cost", *inputs, *SIZES, "--memory", "9999GiB", "--format",
                   "json").json()
        self.assertIsNone(cost["fits"])
        self.assertEqual([rank["logits"] for rank in cost["ranks"]], [0, None])
        self.assertGreater(cost["ranks"][1]["activations"], 0)
        done = run("cost", *inputs, *SIZES, "--memory", "9999GiB")
        self.assertIn("not known: logits: no embedding and no head was found",
                      done.out)
        self.assertNotIn("free", done.out)

    def test_a_rank_that_may_not_fit(self):
        # What the allocator and the context add is no part of the tensors.
        inputs = self.inputs("llama/hf", "pp:4,tp:2", "{axis: pp}",
                             manifest_of("llama-3-8b.hf"), "llama-3-8b")
        cost = run("cost", *inputs, *SIZES, "--format", "json").json()
        self.assertGreater(min(rank["peak"]["most"] - rank["total"]
                               for rank in cost["ranks"]), 0)
        for rank in cost["ranks"]:
            peak = rank["peak"]
            self.assertLessEqual(peak["least"], peak["expected"])
            self.assertLessEqual(peak["expected"], peak["most"])
        tensors = max(rank["total"] for rank in cost["ranks"])
        most = max(rank["peak"]["most"] for rank in cost["ranks"])
        done = run("cost", *inputs, *SIZES, "--memory", str(tensors))
        self.assertEqual(done.rc, 1, done)
        self.assertIn(", may not fit", done.out)
        done = run("cost", *inputs, *SIZES, "--memory", str(most))
        self.assertEqual(done.rc, 0, done)
        done = run("cost", *inputs, *SIZES, "--memory", "1GiB")
        self.assertEqual(done.rc, 1, done)
        self.assertIn("it exceeds 1 GiB by", done.out)

    def test_a_division_that_fits_is_searched_for(self):
        # The logits of the last rank need more than its layers do.
        cost = ["cost", "--rules", "auto", "--no-project", "--manifest",
                manifest_of("gpt2.hf"), "--model",
                os.path.join(CONFIGS, "gpt2.config.json"), "--mesh",
                "pp:3,tp:2", "--stages", "pp", "--schedule", "gpipe",
                "--microbatches", "12", "--batch", "24", "--seq", "512",
                "--profile", "h100-sxm", "--memory", "4400000000"]
        for more, rc in (["--assign", "4,7,1"], 0), (["--assign", "even"], 1):
            self.check(run(*cost, *more), rc)
        self.check(run(*cost), 0)

    def test_pictures_and_pages_have_the_memory_of_ranks(self):
        inputs = self.inputs("llama/hf", "pp:4,tp:2", "{axis: pp}",
                             manifest_of("llama-3-8b.hf"), "llama-3-8b")
        plan = ["--plan", self.plan(inputs), *model_of("llama-3-8b")]
        of_plan, of_target = (run("show", "memory", *of, *SIZES[:4])
                              for of in (plan, inputs))
        self.assertEqual(of_plan.rc, 0, of_plan)
        self.assertEqual(of_plan.out, of_target.out)
        # Ranks differ, so the devices are not all equal.
        self.assertEqual(of_plan.out.splitlines()[0],
                         "memory per device, fullest of each rank")
        for rank in range(4):
            self.assertIn(f"rank {rank}", of_plan.out)
        done = run("show", "memory", *plan)
        self.assertEqual(done.rc, 2, done)
        self.assertIn("give `--batch` and `--seq`", done.err)
        for of in (plan, inputs):
            done = run("report", *of, *SIZES)
            self.assertEqual(done.rc, 0, done)
            texts = Page(done.out).texts
            self.assertNotIn("GiB", texts["pipeline"])
            for rank in range(4):
                self.assertIn(f"rank {rank}", texts["memory"])
        # Without the sizes of a step, only the bytes of parameters are known.
        pages = [run("report", *of).out for of in (plan, inputs)]
        for texts in (Page(page).texts for page in pages):
            self.assertIn("GiB", texts["pipeline"])
            self.assertNotIn("rank 0", texts["memory"])

    def test_a_page_has_the_costs_of_each_rank(self):
        inputs = self.inputs("llama/hf", "pp:4,tp:2", "{axis: pp}",
                             manifest_of("llama-3-8b.hf"), "llama-3-8b")
        cost = run("cost", *inputs, *SIZES, "--format", "json").json()
        texts = Page(run("report", *inputs, *SIZES).out).texts
        texts = {name: text.replace("\u00a0", " ")
                 for name, text in texts.items()}
        for number, rank in enumerate(cost["ranks"]):
            self.assertIn(f"rank {number}", texts["memory"])
            self.assertIn(gibibytes(rank["communication"]),
                          texts["communication"])
            for part in ("parameters", "optimizer", "total"):
                self.assertIn(gibibytes(rank[part]), texts["memory"])
            for size in ("expected", "most"):
                self.assertIn(gibibytes(rank["peak"][size]), texts["memory"])
        for ranks in ("rank 0", "ranks 1, 2", "rank 3", "ppermute"):
            self.assertIn(ranks, texts["communication"])
        self.assertIn(f"{cost['time']['step']:.2f} s", texts["time"])
        self.assertIn("of which", texts["time"])
        self.assertIn("Assumed in train", texts["assumptions"])

    def test_cost_has_the_micro_batches_of_the_plan(self):
        # A section without micro-batches has two for each rank.
        inputs = self.inputs("llama/hf", "pp:4,tp:2", "{axis: pp}",
                             manifest_of("llama-3-8b.hf"), "llama-3-8b")
        plan = self.plan(inputs)
        with open(plan, encoding="utf-8") as file:
            own = json.load(file)["stages"]["microbatches"]
        self.assertEqual(own, 8)
        cost = run("cost", *inputs, *SIZES, "--format", "json").json()
        self.assertEqual(cost["microbatches"], own)


def gibibytes(size):
    """As a report has it."""
    return f"{size / 2 ** 30:.2f}".rstrip("0").rstrip(".") + " GiB"


def manifest_of(name):
    plain = os.path.join(MODELS, name + ".manifest.json")
    return plain if os.path.exists(plain) else plain + ".gz"


def model_of(model):
    path = os.path.join(CONFIGS, f"{model}.config.json")
    return ["--model", path] if os.path.exists(path) else []


if __name__ == "__main__":
    unittest.main()
