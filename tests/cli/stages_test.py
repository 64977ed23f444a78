"""`stages:` in rules files and projects: the commands that use it agree, and
sections that cannot be are refused with one diagnostic."""

import json
import os
import tempfile
import unittest

from driver import MODELS, TESTDATA, FolderCase, run

LLAMA = ["--manifest", os.path.join(MODELS, "llama-3-8b.hf.manifest.json"),
         "--model", os.path.join(TESTDATA, "configs",
                                 "llama-3-8b.config.json")]
SIZES = ["--batch", "16", "--seq", "4096"]
RULES = """version: 1
extends: builtin:llama/hf
stages: {stages}
"""
STACKED = {"schema": "shardc.manifest/v1", "params": {
    "embed/embedding": {"shape": [64, 32], "dtype": "BF16"},
    "layers/up/kernel": {"shape": [8, 32, 64], "dtype": "BF16"},
    "layers/down/kernel": {"shape": [8, 64, 32], "dtype": "BF16"},
    "head/kernel": {"shape": [32, 64], "dtype": "BF16"}}}


class Stages(FolderCase):
    def rules(self, stages):
        return self.write("rules.yaml", RULES.format(stages=stages))

    def inputs(self, stages, mesh="pp:4,tp:2"):
        return [*LLAMA, "--rules", self.rules(stages), "--mesh", mesh,
                "--no-project"]

    def cost(self, stages, *flags, rc=0, **of):
        done = run("cost", *self.inputs(stages, **of), *SIZES, *flags,
                   "--format", "json")
        self.assertEqual(done.rc, rc, done)
        return done.json() if rc == 0 else done

    def layers(self, value):
        return [stage["layers"][1] - stage["layers"][0]
                for stage in value["stages"]]

    def fit(self, stages, *flags, rc=0):
        done = run("search", "--all", *self.inputs(stages), *SIZES, *flags, "--format",
                   "json")
        self.assertEqual(done.rc, rc, done)
        return done

    def test_fit_has_the_costs_of_the_command_cost(self):
        profile = ["--profile", "h100-sxm"]
        for stages, flags in (
                ("{axis: pp}", ["--microbatches", "8"]),
                ("{axis: pp, schedule: interleaved, virtual: 2}", []),
                ("{axis: pp, schedule: zbv, microbatches: 16}",
                 ["--p2p", "exposed"]),
                ("{axis: tp}", ["--stages", "pp", "--assign", "cost"])):
            value = self.fit(stages, *profile, *flags, "--devices", "8",
                             "--axes", "pp,fsdp,tp").json()
            self.assertEqual(len(value["meshes"]), 10)
            legal = [one for one in value["meshes"] if one["legal"]]
            self.assertGreater(len(legal), 2, value)
            self.assertEqual(legal, sorted(
                legal, key=lambda one: (not one["fits"], one["rank"] or 99)))
            for one in legal:
                mesh = ",".join(f"{axis}:{size}"
                                for axis, size in one["axes"].items())
                with self.subTest(stages=stages, mesh=mesh):
                    cost = run("cost", *self.inputs(stages, mesh), *SIZES,
                               *profile, *flags, "--format", "json")
                    self.assertEqual(cost.rc, 0 if one["fits"] else 1)
                    self.same(one, cost.json())

    def same(self, one, cost):
        ranks = cost["ranks"]
        self.assertEqual(one["seconds"], cost["time"]["step"])
        self.assertEqual(one["fits"], cost["fits"])
        self.assertEqual(one["bytes_per_device"],
                         max(rank["total"] for rank in ranks))
        self.assertEqual(one["expected_bytes_per_device"],
                         max(rank["peak"]["expected"] for rank in ranks))
        self.assertEqual(one["communication"],
                         max(rank["communication"] for rank in ranks))
        self.assertEqual(one["stages"], {
            "axis": cost["axis"], "schedule": cost["schedule"],
            "microbatches": cost["microbatches"],
            "layers": self.layers(cost),
            "bubble": cost["time"]["step_bubble"]})

    def test_fit_has_a_reason_where_the_stages_cannot_be_divided(self):
        value = self.fit("{axis: pp, schedule: interleaved, virtual: 3, "
                         "microbatches: 4}", "--devices", "16", "--axes",
                         "pp,tp").json()
        reasons = {one["axes"]["pp"]: one["reason"] for one in value["meshes"]}
        self.assertIn("32 layers", reasons[16])
        self.assertIn("(SHD248)", reasons[16])
        self.assertIsNone(reasons[4])
        alone = {(one["axis"], one["size"]): one for one in value["sizes"]}
        self.assertIn("stages", alone["pp", 4])
        self.assertNotIn("stages", alone["tp", 4])

    def test_fit_reports_stages_that_no_mesh_can_have(self):
        done = self.fit("{axis: pp, first: []}", "--devices", "8", rc=1)
        self.assertEqual(done.err.count("SHD243"), 1, done)
        self.assertIn("rules.yaml", done.err)
        self.assertFalse(any(one["legal"] for one in done.json()["meshes"]))

    def test_fit_needs_what_stages_need(self):
        for flags, text in (
                (["--axes", "fsdp,tp"], "add `pp` to `--axes`"),
                (["--mode", "decode"], "or pass `--stages none`")):
            done = self.fit("{axis: pp}", "--devices", "8", *flags, rc=2)
            self.assertIn(text, done.err)
        done = run("search", "--all", *self.inputs("{axis: pp}"), "--devices", "8")
        self.assertEqual(done.rc, 2, done)
        self.assertIn("give `--batch` and `--seq`", done.err)
        none = self.fit("{axis: pp}", "--devices", "8", "--axes", "fsdp,tp",
                        "--stages", "none")
        of_pack = run("search", "--all", *LLAMA, "--rules", "builtin:llama/hf",
                      "--no-project", *SIZES, "--devices", "8", "--axes",
                      "fsdp,tp", "--format", "json")
        self.assertEqual(none.json(), of_pack.json())

    def test_cost_takes_declared_stages_as_its_flags(self):
        flags = self.cost("{axis: tp}", "--stages", "pp", "--schedule",
                          "zb-h1", "--assign", "9,9,8,6", "--microbatches", "8")
        declared = self.cost("{axis: pp, schedule: zb-h1, microbatches: 8, "
                             "assign: [9, 9, 8, 6]}")
        self.assertEqual(declared, flags)
        other = self.cost("{axis: pp, schedule: zb-h1, microbatches: 8, "
                          "assign: [9, 9, 8, 6]}", "--assign", "even",
                          "--schedule", "gpipe", "--microbatches", "4")
        self.assertEqual(self.layers(other), [8, 8, 8, 8])
        self.assertEqual(other["schedule"], "gpipe")
        self.assertEqual(other["microbatches"], 4)

    def test_weights_divide_the_layers_as_the_head_is_worth(self):
        value = self.cost("{axis: pp, microbatches: 8}")
        self.assertEqual(self.layers(value), [8, 9, 9, 6])

    def test_none_ignores_the_declaration(self):
        done = self.cost("{axis: pp}", "--stages", "none")
        self.assertEqual(done["schema"], "shardc.cost/v1")

    def test_the_target_overrides_keys(self):
        self.rules("{axis: pp, schedule: 1f1b, microbatches: 8, assign: even}")
        project = self.write("shardc.yaml", f"""version: 1
targets:
  t:
    mesh: 'pp:4,tp:2'
    rules: [rules.yaml]
    manifest: {os.path.relpath(LLAMA[1], self.folder)}
    model: {os.path.relpath(LLAMA[3], self.folder)}
    batch: 64
    stages: {{schedule: zbv, microbatches: 16}}
""")
        done = run("cost", "--project", project, "--allow-outside", "--seq",
                   "4096", "--format", "json")
        self.assertEqual(done.rc, 0, done)
        value = done.json()
        self.assertEqual(value["schedule"], "zbv")
        self.assertEqual(value["microbatches"], 16)
        self.assertEqual(self.layers(value), [4] * 8)

    def test_the_same_division_everywhere(self):
        stages = "{axis: pp, schedule: 1f1b, microbatches: 8}"
        cost = self.layers(self.cost(stages))
        export = run("export", "vllm-pipeline", *self.inputs(stages))
        self.assertIn("VLLM_PP_LAYER_PARTITION=" +
                      ",".join(map(str, cost)), export.out, export)
        named = run("export", "vllm-pipeline", *self.inputs(stages),
                    "--stages", "pp")
        self.assertEqual(named.out, export.out, named)
        proof = run("verify", "step", *self.inputs(stages), "--format", "json")
        self.assertEqual(proof.rc, 0, proof)
        self.assertEqual(proof.json()["steps"][0]["stages"]["layers"], cost)

    def test_a_step_of_stages_is_refused_with_full_and_part(self):
        stages = "{axis: pp, microbatches: 8}"
        for flag in (["--full"], ["--part", "layer 3"]):
            done = run("verify", "step", *self.inputs(stages), *flag)
            self.assertEqual(done.rc, 2, done)
            self.assertIn("--stages none", done.err)
        done = run("verify", "step", *self.inputs(stages), "--part", "layer 3",
                   "--stages", "none")
        self.assertEqual(done.rc, 0, done)

    def test_check_knows_the_axis_and_reports_refusals(self):
        sound = run("check", *self.inputs("{axis: pp, microbatches: 8}"),
                    "--format", "json")
        codes = {one["code"] for one in sound.json()}
        self.assertNotIn("SHD206", codes)
        for stages, code in (
                ("{axis: pp, assign: [9, 9, 8, 5]}", "SHD242"),
                ("{axis: tp}", "SHD241"),
                ("{axis: pp, first: []}", "SHD243"),
                ("{axis: pp, schedule: zbv, virtual: 4}", "SHD248")):
            with self.subTest(stages):
                done = run("check", *self.inputs(stages), "--format", "json")
                self.assertEqual(done.rc, 1, done)
                found = [one for one in done.json() if one["code"] == code]
                self.assertEqual(len(found), 1, done)
                self.assertTrue(found[0]["file"].endswith("rules.yaml"), done)
                self.assertGreater(found[0]["line"], 0)
                ignored = run("check", *self.inputs(stages), "--ignore", code)
                self.assertEqual(ignored.rc, 0, ignored)

    def test_a_rank_of_one_device_replicates_nothing(self):
        inputs = self.inputs("{axis: pp, assign: even}", "pp:4")
        done = run("plan", *inputs, "-o", os.path.join(self.folder, "p.json"))
        self.assertNotIn("SHD207", self.check(done, 0).err)
        found = run("check", *inputs, "--format", "json").json()
        self.assertNotIn("SHD207", {one["code"] for one in found})
        # dp has two devices for each rank, and no spec uses it.
        inputs = self.inputs("{axis: pp, assign: even}", "pp:4,dp:2")
        found = run("check", *inputs, "--select", "SHD207", "--format",
                    "json").json()
        self.assertIn("replicated on 2 devices", found[0]["message"])

    def test_replicated_parameters_are_on_the_devices_of_a_rank(self):
        for code, pattern in (("SHD101", r"q_proj\.weight$"),
                              ("SHD102", "q_proj/kernel$"),
                              ("SHD103", r"(proj|head)\.weight$")):
            rules = (f"rules:\n  - {{match: '{pattern}', spec: [TP]}}\n"
                     "  - {match: '.*', spec: []}\n")
            for stages, devices in (
                    ("", "every device"),
                    ("stages: {axis: pp, assign: even}\n",
                     "every device of a pipeline rank")):
                with self.subTest(code=code, stages=stages):
                    path = self.write("r.yaml", stages + rules)
                    found = run("check", *LLAMA, "--rules", path, "--mesh",
                                "pp:4,tp:2", "--no-project", "--select",
                                code, "--format", "json").json()
                    self.assertEqual(len(found), 1, found)
                    self.assertRegex(found[0]["message"],
                                     f"replicated on {devices}(:|$)")

    def test_bytes_of_a_step_are_added_over_the_ranks(self):
        # Rules that gather the activation of the query's weight.
        rules = ("extends: builtin:llama/hf\n"
                 "rules: [{match: q_proj, spec: [null, [fsdp, tp]]}]\n")
        for stages, end in (
                ("", "(unsharded|of the weight)"),
                ("stages: {axis: pp, assign: even}\n",
                 "each added over the 4 ranks of the pipeline")):
            path = self.write("r.yaml", stages + rules)
            found = run("check", *LLAMA, "--rules", path, "--mesh",
                        "pp:4,fsdp:2,tp:2", "--no-project", "--batch", "32",
                        "--select", "SHD237,SHD411", "--format",
                        "json").json()
            self.assertIn("SHD411", {one["code"] for one in found})
            for one in found:
                self.assertRegex(one["message"], end + "$")

    def test_check_finds_uneven_stages_and_large_bubbles(self):
        def found(stages, code):
            done = run("check", *self.inputs(stages), "--format", "json")
            self.assertEqual(done.rc, 0, done)
            return [one for one in done.json() if one["code"] == code]

        uneven = found("{axis: pp, assign: even}", "SHD246")
        self.assertEqual(len(uneven), 1)
        # 8 layers and a head of 2.41 layers, of 34.41 on 4 ranks.
        self.assertIn("stage 3 with 8 layers takes 1.21 times",
                      uneven[0]["message"])
        self.assertIn("`assign: [8, 9, 9, 6]`", uneven[0]["help"])
        self.assertEqual(found("{axis: pp, assign: [8, 9, 9, 6]}", "SHD246"),
                         [])
        bubble = found("{axis: pp, microbatches: 8}", "SHD250")
        self.assertEqual(len(bubble), 1)
        self.assertIn("27.3 % of the step is bubble", bubble[0]["message"])
        self.assertIn("`zb-h1` with 11.1 % in the same memory of 4 activations",
                      bubble[0]["help"])
        self.assertEqual(found("{axis: pp, microbatches: 32}", "SHD250"), [])

    def test_a_file_of_three_stages_on_two_ranks_has_no_better_schedule(self):
        # No schedule by name has three stages on two ranks.
        self.write("three.csv", "0F0,2F0,2B0,0B0\n1F0,1B0\n")
        done = run("check", *self.inputs(
            "{axis: pp, schedule: {file: three.csv}}", mesh="pp:2,tp:4"),
            "--format", "json")
        bubble = [one for one in done.json() if one["code"] == "SHD250"]
        self.assertEqual(len(bubble), 1, done)
        self.assertEqual(bubble[0]["help"], "use more micro-batches")

    def test_a_schedule_of_a_file_is_proven(self):
        self.write("bad.csv", "0F0,0F1,0B1,0B0\n1F0,1B0,1B1,1F1\n")
        done = run("check", *self.inputs("{axis: pp, schedule: {file: bad.csv}}",
                                         mesh="pp:2,tp:4"))
        self.assertEqual(done.rc, 1, done)
        self.assertIn("SHD249", done.out + done.err)
        self.write("good.csv", "0F0,0F1,0B0,0B1\n1F0,1B0,1F1,1B1\n")
        value = self.cost("{axis: pp, schedule: {file: good.csv}}",
                          mesh="pp:2,tp:4")
        self.assertEqual(value["microbatches"], 2)

    def test_two_ranges_of_a_stack_on_one_rank_of_a_file_are_refused(self):
        self.write("three.csv", "0F0,2F0,2B0,0B0\n1F0,1B0\n")
        rules = self.write(
            "stacked.yaml", "version: 1\nstages: {axis: pp, schedule: {file: "
            "three.csv}, stacked: [{match: ^layers/}]}\n"
            "rules: [{match: '.*', spec: []}]\n")
        manifest = self.write("m.json", json.dumps(STACKED))
        done = run("plan", "--no-project", "--mesh", "pp:2", "--rules", rules,
                   "--manifest", manifest)
        self.assertEqual((done.rc, done.out), (1, ""), done)
        self.assertIn("SHD244", done.err)
        self.assertIn("takes layers 0-1 and layers 5-7 to rank 0", done.err)
        self.assertIn("take a schedule with one stage on a rank", done.err)

    def test_a_step_names_the_stages_of_uneven_ranks(self):
        for stages, table in (
                (3, "0F0,0F1,2F0,2B0,2F1,2B1,0B0,0B1\n1F0,1F1,1B0,1B1\n"),
                (4, "0F0,0F1,2F0,3F0,3B0,2B0,2F1,3F1,3B1,2B1,0B0,0B1\n"
                    "1F0,1F1,1B0,1B1\n")):
            self.write("uneven.csv", table)
            step = ["verify", "step", *self.inputs(
                "{axis: pp, schedule: {file: uneven.csv}}", mesh="pp:2,tp:2"),
                "--batch", "4"]
            done = run(*step)
            self.assertEqual(done.rc, 0, done)
            self.assertEqual(
                done.out.count(f" on 2 ranks, {stages} stages, 2 "), 2)
            (one,) = run(*step, "--format", "json").json()["steps"]
            self.assertIsNone(one["stages"]["virtual_stages"])
            self.assertIsNone(one["stages"]["proof"]["virtual_stages"])

    def test_an_export_of_refused_stages_exits_with_1(self):
        for stages, code in (("{axis: pp, assign: [1, 2, 3, 4]}", "SHD242"),
                             ("{axis: pp, schedule: zbv, virtual: 3}",
                              "SHD248")):
            done = run("export", "torch-pipeline", *self.inputs(stages))
            self.assertEqual((done.rc, done.out), (1, ""), done)
            self.assertIn(code, done.err)

    def test_indivisible_rows_are_a_finding_of_every_command(self):
        stages = "{axis: pp, microbatches: 12}"
        page = os.path.join(self.folder, "report.html")
        for command in (["cost"], ["show", "memory"], ["report", "-o", page]):
            with self.subTest(command=command[0]):
                done = run(*command, *self.inputs(stages), *SIZES)
                self.assertEqual((done.rc, done.out), (1, ""), done)
                self.assertIn("SHD247", done.err)
        self.assertFalse(os.path.exists(page))

    def test_memory_is_judged_on_the_fullest_rank(self):
        # A rank has at most 2.3 GiB of parameters, all of them 7.5 GiB.
        stages = "{axis: pp, assign: even}"
        fits = run("check", *self.inputs(stages), "--memory", "3GiB")
        self.assertEqual(fits.rc, 0, fits)
        full = run("check", *self.inputs(stages), "--memory", "2GiB")
        self.assertEqual(full.rc, 1, full)
        self.assertIn("a device of rank 3 needs 2.11 GiB", full.out)

    def test_stacked_layers_cost_what_their_stages_hold(self):
        manifest = self.write("m.json", json.dumps(STACKED))
        rules = self.write("stacked.yaml", """version: 1
stages:
  axis: pp
  stacked: [{match: '^layers/'}]
  first: embed
  last: head
  microbatches: 4
rules:
  - match: 'layers/'
    spec: [null, null, tp]
  - match: '.*'
    spec: [tp]
""")
        done = run("cost", "--manifest", manifest, "--rules", rules, "--mesh",
                   "pp:4,tp:2", "--no-project", "--batch", "8", "--seq", "16",
                   "--format", "json")
        self.assertEqual(done.rc, 0, done)
        layer = 2 * 2 * 32 * 64 // 2
        end = 2 * 64 * 32 // 2
        self.assertEqual([rank["parameters"] for rank in done.json()["ranks"]],
                         [2 * layer + end, 2 * layer, 2 * layer,
                          2 * layer + end])

    def test_bytes_of_a_stack_are_those_of_all_layers_or_of_a_rank(self):
        manifest = self.write("m.json", json.dumps(STACKED))
        inputs = ["--manifest", manifest, "--mesh", "pp:4", "--no-project",
                  "--rules", self.write(
                      "stacked.yaml", "stages: {axis: pp, assign: [3, 2, 2, "
                      "1], stacked: [{match: ^layers/}]}\n"
                      "rules: [{match: '.*', spec: []}]\n")]
        # 8 layers of 32 * 64 numbers, of which rank 0 has 3.
        done = run("explain", "layers/up/kernel", *inputs)
        self.assertIn("32 KiB with the layers of all stages\n", done.out)
        done = run("export", "markdown", *inputs)
        self.assertIn("| [8, 32, 64] BF16 | `replicated`<br>by `pp` | 12 KiB |",
                      done.out)

    def test_explain_names_the_stages_of_a_parameter(self):
        stages = "{axis: pp, schedule: interleaved, assign: even}"
        name = "model.layers.9.mlp.up_proj.weight"
        done = run("explain", name, *self.inputs(stages))
        self.assertIn("stage 2 of 8 over `pp`, on rank 2\n", done.out)
        value = run("explain", name, *self.inputs(stages), "--device", "0",
                    "--format", "json").json()
        self.assertEqual(value["stages"],
                         {"axis": "pp", "of": [{"stage": 2, "ranks": [2]}]})
        self.assertFalse(value["holds"])
        mine = run("explain", name, *self.inputs(stages), "--device", "4",
                   "--format", "json").json()
        self.assertTrue(mine["holds"])

    def test_hostile_sections_exit_with_2_and_one_error(self):
        for stages in ("5", "[]", "{}", "{axis: zz}", "{axis: pp, virtual: 0}",
                       "{axis: pp, schedule: nope}", "{axis: pp, axis: pp}",
                       "{axis: pp, assign: many}",
                       "{axis: pp, microbatches: 1e9}",
                       "{axis: pp, schedule: {file: gone.csv}}",
                       "{axis: pp, layers: '('}",
                       "{axis: pp, virtual: 1048576, schedule: looped-bfs}"):
            for command in ("check", "cost"):
                with self.subTest(stages, command=command):
                    more = SIZES if command == "cost" else []
                    done = run(command, *self.inputs(stages), *more)
                    self.assertEqual(done.rc, 2, done)
                    text = done.out + done.err
                    self.assertEqual(text.count("error["), 1, done)

    def test_an_export_needs_one_chain_of_layers(self):
        for names, words in (
                (["layers.w"], "no parameter's name has the number of its "
                 "layer"),
                (["encoder.0.w", "decoder.0.w"],
                 "layers are counted below `encoder` and below `decoder`"),
                (["layers.0.w", "layers.2.w"], "is of layer 1 of 3"),
                (["layers.0.w", "extra.w"], "`extra.w` is of no layer, and "
                 "nothing shows an embedding, a norm or a head")):
            with self.subTest(names), tempfile.TemporaryDirectory() as folder:
                tree = os.path.join(folder, "m.json")
                with open(tree, "w", encoding="utf-8") as file:
                    json.dump({"schema": "shardc.manifest/v1", "params": {
                        name: {"shape": [8, 8], "dtype": "BF16"}
                        for name in names}}, file)
                rules = os.path.join(folder, "r.yaml")
                with open(rules, "w", encoding="utf-8") as file:
                    file.write("rules: [{match: '.*', spec: []}]\n")
                done = run("export", "vllm-pipeline", "--manifest", tree,
                           "--rules", rules, "--no-project", "--mesh", "pp:1",
                           "--stages", "pp")
                self.assertEqual(done.rc, 2)
                self.assertIn(words, done.err)


if __name__ == "__main__":
    unittest.main()
