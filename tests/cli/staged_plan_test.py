"""Plans with stages (shardc.plan/v2): what each rank holds, by an account of its
own, is what the plan, its readers and checkpoints say."""

import json
import os
import random
import sys
import unittest

from checkpoint_case import read_safetensors, write_safetensors
from driver import ROOT, run
from staged_case import BY_RANK, LLAMA, StagedCase

sys.path.insert(0, os.path.join(ROOT, "python"))

import shardc  # noqa: E402


def layers_of(plan):
    return [stage["layers"][1] - stage["layers"][0]
            for stage in plan["stages"]["of"]]


class StagedPlan(StagedCase):
    MODEL = {"embed.weight": [6, 4],
             **{f"layers.{layer}.up.weight": [2, 8] for layer in range(5)},
             "lm_head.weight": [6, 4]}

    STACKED = {"embed/embedding": [6, 4], "layers/up/kernel": [5, 2, 8],
               "head/kernel": [4, 6]}

    def test_llama_by_rank(self):
        path, plan = self.llama("{axis: pp, assign: even}")
        self.assertEqual(plan["schema"], "shardc.plan/v2")
        self.assertEqual(layers_of(plan), [8, 8, 8, 8])
        self.assertEqual(plan["summary"]["bytes_by_rank"],
                         {"most": max(BY_RANK), "least": min(BY_RANK),
                          "of": BY_RANK})
        self.assertEqual(plan["summary"]["bytes_per_device"], max(BY_RANK))
        params = plan["params"]
        self.assertEqual(
            params["model.layers.9.mlp.up_proj.weight"]["stages"], [1])
        self.assertEqual(params["model.embed_tokens.weight"]["stages"], [0])
        self.assertEqual(params["lm_head.weight"]["stages"], [3])
        read = shardc.Plan.load(path)
        self.assertEqual(read.stages.axis, "pp")
        self.assertEqual(read["lm_head.weight"].ranks, (3,))

    def test_cost_has_the_same_bytes(self):
        _, plan = self.llama("{axis: pp, assign: cost, microbatches: 8}")
        rules = self.path("llama.yaml")
        done = run("cost", "--no-project", "--mesh", "pp:4,tp:2", "--rules",
                   rules, *LLAMA, "--batch", "16", "--seq", "4096",
                   "--format", "json")
        self.assertEqual(done.rc, 0, done)
        cost = done.json()
        self.assertEqual([rank["memory"]["parameters"]
                          if "memory" in rank else rank["parameters"]
                          for rank in cost["ranks"]],
                         plan["summary"]["bytes_by_rank"]["of"])

    def test_names_of_a_schedule_are_not_in_the_fingerprint(self):
        _, plain = self.llama("{axis: pp, schedule: 1f1b, microbatches: 8}")
        done = run("schedule", "1f1b", "--ranks", "4", "--microbatches", "8",
                   "--csv")
        self.assertEqual(done.rc, 0, done)
        self.write("table.csv", done.out)
        _, file = self.llama("{axis: pp, schedule: {file: table.csv}}")
        _, other = self.llama("{axis: pp, schedule: gpipe, microbatches: 8}")
        self.assertEqual(plain["fingerprint"], file["fingerprint"])
        self.assertNotEqual(plain["fingerprint"], other["fingerprint"])

    def test_edited_plans_are_refused_by_all_readers(self):
        path, plan = self.llama("{axis: pp, assign: even}")
        name = "model.layers.9.mlp.up_proj.weight"

        def edits():
            yield lambda p: p["params"][name].update(stages=[2])
            yield lambda p: p["params"][name].update(stages=[9])
            yield lambda p: p["params"][name].update(stages=[])
            yield lambda p: p["params"][name].pop("stages")
            yield lambda p: p["params"][name].update(spec=["pp"])
            yield lambda p: p["stages"].update(axis="xx")
            yield lambda p: p["stages"].update(virtual=0)
            yield lambda p: p["stages"]["of"][1].update(ranks=[4])
            yield lambda p: p["stages"]["of"][1].update(layers=[9, 16])
            yield lambda p: p["stages"].pop("of")
            yield lambda p: p["stages"].update(table="sha256:" + "0" * 64)
            yield lambda p: p["summary"]["bytes_by_rank"].update(most=1)
            yield lambda p: p["summary"].pop("bytes_by_rank")
            yield lambda p: p.pop("stages")
            yield lambda p: p.update(schema="shardc.plan/v1")

        for number, edit in enumerate(edits()):
            with self.subTest(edit=number):
                changed = json.loads(json.dumps(plan))
                edit(changed)
                self.write("edited.json", json.dumps(changed))
                done = run("export", "megatron", "--plan",
                           self.path("edited.json"), "--axis", "tp",
                           "--format", "json")
                self.assertEqual(done.rc, 2, done)
                with self.assertRaises(shardc.PlanError):
                    shardc.Plan.load(self.path("edited.json"))
        changed = json.loads(json.dumps(plan))
        changed["summary"].pop("bytes_by_rank")
        self.write("edited.json", json.dumps(changed))
        done = run("show", "layout", name, "--plan", self.path("edited.json"))
        self.assertIn("the summary has no `bytes_by_rank`", done.err)
        drawn = run("show", "layout", name, "--plan", path)
        self.assertEqual(drawn.rc, 0, drawn)
        self.assertIn("rank 1 of pp", drawn.out)

    def checkpoint(self, manifest):
        draw = random.Random(7)
        tensors = {}
        for name, shape in manifest.items():
            count = 4
            for size in shape:
                count *= size
            tensors[name] = ("F32", shape, draw.randbytes(count))
        write_safetensors(self.path("model.safetensors"), tensors)
        return tensors

    def files(self, folder):
        out = {}
        for name in sorted(os.listdir(folder)):
            if name.endswith(".safetensors"):
                out[name] = read_safetensors(os.path.join(folder, name))[0]
        return out

    def split(self, plan, source, out, *flags):
        done = run("checkpoint", "split", "--checkpoint", source, "--plan", plan, "-o", self.path(out),
                   *flags)
        self.assertEqual(done.rc, 0, done)
        return self.path(out)

    def merged(self, source, out):
        done = run("checkpoint", "merge", source, "-o", self.path(out))
        self.assertEqual(done.rc, 0, done)
        return read_safetensors(self.path(out))[0]

    def columns(self, tensor, part, parts):
        dtype, (rows, width), data = tensor
        each = width // parts
        rows_of = [data[(r * width + part * each) * 4:
                        (r * width + (part + 1) * each) * 4]
                   for r in range(rows)]
        return (dtype, [rows, each], b"".join(rows_of))

    def test_split_gives_each_rank_its_layers(self):
        tensors = self.checkpoint(self.MODEL)
        plan, data = self.plan("pp:2,tp:2", "{axis: pp, assign: [3, 2]}",
                               self.MODEL)
        self.assertEqual(layers_of(data), [3, 2])
        files = self.files(self.split(plan, self.path("model.safetensors"),
                                      "shards"))
        held = [["embed.weight", "layers.0.up.weight", "layers.1.up.weight",
                 "layers.2.up.weight"],
                ["layers.3.up.weight", "layers.4.up.weight",
                 "lm_head.weight"]]
        for device in range(4):
            rank, part = divmod(device, 2)
            expected = {
                name: self.columns(tensors[name], part, 2) if "up" in name
                else tensors[name] for name in held[rank]}
            self.assertEqual(files[f"device-{device:05}.safetensors"],
                             expected)
        self.assertEqual(self.merged(self.path("shards"), "all.safetensors"),
                         tensors)

    def test_reshard_moves_layers_between_assignments(self):
        tensors = self.checkpoint(self.MODEL)
        one, _ = self.plan("pp:2,tp:2", "{axis: pp, assign: [3, 2]}",
                           self.MODEL, "one.json")
        two, _ = self.plan("pp:2,tp:2", "{axis: pp, assign: [1, 4]}",
                           self.MODEL, "two.json")
        self.split(one, self.path("model.safetensors"), "from")
        done = run("checkpoint", "reshard", self.path("from"), "--plan", two, "-o",
                   self.path("to"))
        self.assertEqual(done.rc, 0, done)
        self.split(two, self.path("model.safetensors"), "direct")
        self.assertEqual(self.files(self.path("to")),
                         self.files(self.path("direct")))
        self.assertEqual(self.merged(self.path("to"), "back.safetensors"),
                         tensors)

    def test_stacked_layers_of_uneven_stages(self):
        tensors = self.checkpoint(self.STACKED)
        stages = ("{axis: pp, assign: [3, 2], "
                  "stacked: [{match: '^layers/', dim: 0}]}")
        plan, data = self.plan("pp:2,tp:2", stages, self.STACKED,
                               up="[null, null, tp]")
        self.assertEqual(data["params"]["layers/up/kernel"]["slices"],
                         {"dim": 0, "of": [[0, 3], [3, 5]]})
        for per in ("device", "process", "shard"):
            with self.subTest(per=per):
                folder = self.split(plan, self.path("model.safetensors"),
                                    per, "--per", per)
                self.assertEqual(self.merged(folder, per + ".safetensors"),
                                 tensors)
        files = self.files(self.path("device"))
        read = shardc.Plan.load(plan)
        dtype, shape, values = tensors["layers/up/kernel"]
        for device in range(4):
            rows, _, width = read["layers/up/kernel"].slices(device)
            expected = b"".join(
                values[(8 * at + width.start) * 4:(8 * at + width.stop) * 4]
                for at in range(2 * rows.start, 2 * rows.stop))
            own = files[f"device-{device:05}.safetensors"]["layers/up/kernel"]
            self.assertEqual(
                own, (dtype, [rows.stop - rows.start, 2, 4], expected))
        with self.assertRaises(shardc.PlanError):
            read["layers/up/kernel"].mesh_spec()
        done = run("export", "jax", "--plan", plan)
        self.assertEqual(done.rc, 2, done)
        self.assertIn("`jax` cannot express the stages of "
                      "`layers/up/kernel`: on some ranks of `pp`, or with "
                      "different numbers of layers", done.err)
        # A file has one part of a tensor, so that a rank has one range.
        data["stages"]["of"][1]["ranks"] = [0]
        self.write("edited.json", json.dumps(data))
        done = run("checkpoint", "split", "--checkpoint", self.path("model.safetensors"),
                   "--plan", self.path("edited.json"), "--allow-edited", "-o",
                   self.path("none"))
        self.assertEqual(done.rc, 2, done)
        self.assertIn("rank 0 has several ranges of layers of "
                      "`layers/up/kernel`, and a file holds one part of a "
                      "tensor", done.err)
        self.assertFalse(os.path.exists(self.path("none")))

    def test_stacked_layers_of_even_stages_are_a_spec(self):
        manifest = {**self.STACKED, "layers/up/kernel": [4, 2, 8]}
        manifest.pop("head/kernel")
        manifest.pop("embed/embedding")
        stages = "{axis: pp, stacked: [{match: '^layers/', dim: 0}]}"
        plan, _ = self.plan("pp:2,tp:2", stages, manifest,
                            up="[null, null, tp]")
        done = run("export", "jax-json", "--plan", plan)
        self.assertEqual(done.rc, 0, done)
        entry = json.loads(done.out)["params"]["layers/up/kernel"]
        self.assertEqual(entry["partition_spec"], ["pp", None, "tp"])
        read = shardc.Plan.load(plan)
        self.assertEqual(read["layers/up/kernel"].mesh_spec(),
                         ("pp", None, "tp"))

    def test_exports_within_a_stage_leave_its_axis_out(self):
        plan, _ = self.llama("{axis: pp, assign: even}")
        done = run("export", "dtensor", "--plan", plan, "--format", "json")
        self.assertEqual(done.rc, 0, done)
        value = done.json()
        self.assertNotIn("pp", json.dumps(value["mesh"]))
        done = run("export", "vllm-pipeline", "--plan", plan)
        self.assertEqual(done.rc, 0, done)
        self.assertIn("VLLM_PP_LAYER_PARTITION=8,8,8,8", done.out)

    def test_the_axis_of_a_plan_by_its_name_keeps_its_stages(self):
        plan, _ = self.llama("{axis: pp, assign: [9, 9, 8, 6]}")
        done = run("export", "vllm-pipeline", "--plan", plan, "--stages", "pp")
        self.assertEqual(done.rc, 0, done)
        self.assertIn("VLLM_PP_LAYER_PARTITION=9,9,8,6", done.out)

    def test_an_export_of_pipelines_needs_stages(self):
        plan, _ = self.llama("{axis: pp, assign: even}")
        for form in ("torch-pipeline", "megatron-pipeline",
                     "maxtext-pipeline", "vllm-pipeline"):
            done = run("export", form, "--plan", plan, "--stages", "none")
            self.assertEqual((done.rc, done.out), (2, ""), done)
            self.assertIn(f"`{form}` writes how layers are divided into "
                          "stages, and `--stages none` divides them into none",
                          done.err)

    def test_lists_have_the_ranks(self):
        model = {name.replace("embed", "embed_tokens"): shape
                 for name, shape in self.MODEL.items()
                 if name != "lm_head.weight"}
        plan, data = self.plan("pp:4,tp:2", "{axis: pp, assign: even}", model)
        self.assertEqual(
            data["stages"]["copies"],
            [{"param": "embed_tokens.weight", "ranks": [0, 3],
              "stages": [0, 3]}])
        done = run("export", "csv", "--plan", plan)
        self.assertEqual(done.rc, 0, done)
        rows = done.out.splitlines()
        self.assertTrue(rows[1].endswith(',"pp=0,3"'), rows[1])
        self.assertTrue(rows[-1].endswith(",pp=3"), rows[-1])
        done = run("export", "markdown", "--plan", plan)
        self.assertEqual(done.rc, 0, done)
        most = max(data["summary"]["bytes_by_rank"]["of"])
        self.assertIn(f"{most} B per device", done.out)
        self.assertIn("<br>by `pp`", done.out)
        # The embedding is on two ranks of four.
        self.assertEqual(run("export", "jax-json", "--plan", plan).rc, 2)

    def test_memory_and_costs_are_those_of_ranks(self):
        plan, _ = self.llama("{axis: pp, assign: even}")
        done = run("cost", "--plan", plan, "--batch", "16", "--seq", "4096",
                   "--format", "json")
        self.assertEqual(done.rc, 0, done)
        self.assertEqual([rank["parameters"] for rank in done.json()["ranks"]],
                         BY_RANK)
        done = run("show", "memory", "--plan", plan)
        self.assertEqual(done.rc, 2, done)
        self.assertIn("the memory of each rank of the pipeline needs a batch "
                      "and a length", done.err)

    def test_report_draws_the_schedule(self):
        self.llama("{axis: pp, assign: even, microbatches: 8}")
        done = run("report", "--no-project", "--mesh", "pp:4,tp:2", "--rules",
                   self.path("llama.yaml"), *LLAMA, "-o",
                   self.path("page.html"))
        self.assertEqual(done.rc, 0, done)
        with open(self.path("page.html"), encoding="utf-8") as file:
            page = file.read()
        self.assertIn("<h2 id=h-pipeline>Pipeline</h2>", page)
        self.assertIn("layers 24-31, what is after the layers", page)
        self.assertIn("hatched parts are bubbles", page)
        # 8 forward and 8 backward tasks of 1 and 2 on each of 4 ranks.
        self.assertIn("The step takes <b>33", page)

    def test_layouts_of_some_ranks_are_drawn_for_one(self):
        # The embedding is the head too, on the first and the last rank.
        tied, _ = self.plan("pp:3,tp:2", "{axis: pp, assign: even}", {
            "embed_tokens.weight": [8, 4], "layers.0.up.weight": [4, 4],
            "layers.1.up.weight": [4, 4], "norm.weight": [4]})
        uneven, _ = self.plan(
            "pp:2,tp:2", "{axis: pp, assign: [3, 2], "
            "stacked: [{match: '^layers/', dim: 0}]}", self.STACKED,
            name="uneven.json", up="[null, null, tp]")
        for plan, param, ranks, devices in (
                (tied, "embed_tokens.weight", "ranks 0 and 2 of pp", "0-1"),
                (uneven, "layers/up/kernel", "ranks 0 and 1 of pp",
                 "dim 0   3 unsharded")):
            done = run("show", "layout", param, "--plan", plan)
            self.assertEqual(done.rc, 0, done)
            self.assertIn(ranks, done.out)
            self.assertIn("drawn   for pp 0, a rank that holds it", done.out)
            self.assertIn(devices, done.out)
            self.assertNotIn("every device", done.out)
            done = run("report", "--plan", plan)
            self.assertEqual(done.rc, 0, done)
            self.assertIn(", a rank that holds it</li>", done.out)

    def test_refused_stages_are_no_plan(self):
        rules = self.write(
            "llama.yaml", "version: 1\nextends: builtin:llama/hf\n"
            "stages: {axis: pp, schedule: interleaved, microbatches: 13}\n")
        flags = ["--no-project", "--mesh", "pp:4,tp:2", "--rules", rules,
                 *LLAMA]
        done = run("plan", *flags, "-o", self.path("none.json"))
        self.assertEqual(done.rc, 1, done)
        self.assertIn("SHD248", done.err)
        self.assertFalse(os.path.exists(self.path("none.json")))
        self.write("llama.yaml", "version: 1\nextends: builtin:llama/hf\n"
                   "stages: {axis: zz}\n")
        done = run("plan", *flags, "-o", self.path("none.json"))
        self.assertEqual(done.rc, 2, done)
        self.assertIn("the mesh has no axis `zz`", done.err)


if __name__ == "__main__":
    unittest.main()
