"""`shardc search`: its winner is never worse than what other commands choose,
costs what `cost` prints, and is the same whatever the number of threads.

SHARDC_EVERY=1 compares all configurations of testdata/configs with `fit`,
`suggest` and the packs, and not a sample.
"""

import glob
import itertools
import json
import math
import os
import re
import shlex
import shutil
import tempfile
import unittest

from driver import MODELS, TESTDATA, run
from search_case import SearchCase

CONFIGS = os.path.join(TESTDATA, "configs")
STEP = ["--batch", "64", "--seq", "2048"]
H100 = ["--profile", "h100-sxm"]
# The fraction by which two sums of the same seconds may differ.
ROUNDING = 1e-9


def config(name):
    return ["--no-project", "--model",
            os.path.join(CONFIGS, f"{name}.config.json")]


LLAMA = config("llama-3.2-1b")


class Search(SearchCase):
    FOUND = {}

    def search(self, *arguments, rc=0):
        """The report of a search. One that writes no file is made once for all
        tests, which read it and change nothing."""
        key = arguments, rc
        if key not in self.FOUND or "-o" in arguments:
            self.FOUND[key] = self.described(
                run("search", *arguments, "--format", "json"), rc)
        return self.FOUND[key]

    def mesh(self, one):
        return ",".join(f"{name}:{size}" for name, size in one["mesh"].items())

    def settings(self, one):
        return ["--remat", one["remat"], "--zero", one["zero"],
                "--microbatches", one["microbatches"]]

    def cost(self, *arguments):
        result = run("cost", *arguments, "--format", "json")
        self.assertIn(result.rc, (0, 1), repr(result))
        return json.loads(result.out)

    def test_in_a_project_the_mesh_of_the_target_is_searched(self):
        """It need not have as many devices, unless it is to be kept."""
        model = os.path.join(CONFIGS, "llama-3.2-1b.config.json")
        with tempfile.TemporaryDirectory() as folder:
            for mesh, device in (("{fsdp: 4, tp: 2}", "h100-sxm"),
                                 ("{fsdp: -1, tp: 2}", "h200-sxm")):
                with open(os.path.join(folder, "m.yaml"), "w",
                          encoding="utf-8") as file:
                    file.write(f"axes: {mesh}\ndevice: {device}\n")
                with open(os.path.join(folder, "shardc.yaml"), "w",
                          encoding="utf-8") as file:
                    file.write("version: 1\ntargets:\n  train:\n    mesh: "
                               "m.yaml\n    rules: [auto]\n    model: "
                               "config.json\n    batch: 64\n    seq: 2048\n")
                shutil.copy(model, os.path.join(folder, "config.json"))
                found = self.described(
                    run("search", "--devices", "16", "--format", "json",
                        "--prove", "0", cwd=folder), 0)
                sizes = found["winner"]["mesh"].values()
                self.assertEqual(math.prod(sizes), 16)
                alone = self.described(
                    run("search", "--no-project", "--devices", "16",
                        "--profile", device, "--rules", "auto", "--model",
                        model, "--batch", "64", "--seq", "2048", "--format",
                        "json", "--prove", "0"), 0)
                self.assertEqual(found["winner"]["mesh"],
                                 alone["winner"]["mesh"])
                self.assertEqual(found["winner"]["expected_s"],
                                 alone["winner"]["expected_s"])
            with open(os.path.join(folder, "m.yaml"), "w",
                      encoding="utf-8") as file:
                file.write("axes: {fsdp: 4, tp: 2}\n")
            for words in (["--keep", "mesh"], ["--mesh", "m.yaml"]):
                got = self.check(run("search", "--devices", "16", "--profile",
                                     "h100-sxm", *words, cwd=folder), 2)
                self.assertIn("the axes make 4 * 2 = 8 devices, not 16",
                              got.err)

    def test_cost_prints_the_same_figures(self):
        for name in ("llama-3.2-1b", "mixtral-8x7b"):
            found = self.search(*config(name), *STEP, *H100, "--devices", "16",
                                "--prove", "0")
            plain = [one for one in [found["winner"], *found["front"]]
                     if one["rules"].startswith("builtin:") and
                     "," not in one["rules"] and not one["schedule"]]
            for one in plain[:6]:
                with self.subTest(model=name, mesh=one["mesh"]):
                    cost = self.cost(*config(name), *STEP, *H100, "--rules",
                                     one["rules"], "--mesh", self.mesh(one),
                                     *self.settings(one))
                    self.assertEqual(cost["time"]["expected_s"],
                                     one["expected_s"])
                    self.assertEqual(cost["memory"]["peak"]["expected"],
                                     one["bytes_per_device"])

    def test_the_printed_command_prints_the_same_figures(self):
        profile = self.path("own.yaml")
        with open(profile, "w", encoding="utf-8") as file:
            file.write("schema: shardc.profile/v1\nbase: h100-sxm\n"
                       "name: slower\nlinks: {near: {bandwidth: 200e9}}\n")
        flax = os.path.join(MODELS, "llama-3.2-1b.flax.manifest.json.gz")
        folders = (self.path(f"out-{i}") for i in itertools.count())
        for flags in ([*LLAMA, *H100, "--optimizer", "muon", "--grad-dtype",
                       "float32", "--moments-dtype", "bfloat16,float32",
                       "--stack", "megatron", "--loss", "fused", "--memory",
                       "60GiB", "--master-dtype", "none"],
                      [*LLAMA, *H100, "--reduce", "each", "--loss-chunk",
                       "512", "--operation", "flash_attn2", "--matmul-dtype",
                       "float8_e4m3fn", "--overlap-tp"],
                      [*LLAMA, "--profile", profile],
                      [*LLAMA, *H100, "--manifest", flax],
                      [*config("qwen2-0.5b"), *H100, "--mesh", "fsdp:2,tp:4",
                       "--keep", "mesh", "--illegal", "shrink"],
                      [*config("gemma-2-9b"), *H100, "--mesh", "fsdp:2,tp:4",
                       "--keep", "mesh,rules"]):
            for output in ([], ["-o", next(folders)]):
                with self.subTest(flags=flags, output=output):
                    given = [*flags, *STEP, "--devices", "8", "--prove", "0"]
                    found = self.search(*given)["winner"]
                    text = run("search", *given, *output).out
                    command = re.search("^the same figures: shardc (.*)$",
                                        text, re.M)
                    if not output and command is None:
                        self.assertIn("are in no file", text)
                        continue
                    cost = self.cost(*shlex.split(command[1])[1:])
                    self.assertEqual(cost["time"]["expected_s"],
                                     found["expected_s"])
                    self.assertEqual(cost["memory"]["peak"]["expected"],
                                     found["bytes_per_device"])

    def test_nothing_is_compared_without_the_heads(self):
        flax = os.path.join(MODELS, "llama-3.2-1b.flax.manifest.json.gz")
        found = self.search("--no-project", *H100, "--manifest", flax, *STEP,
                            "--devices", "8", rc=1)
        self.assertIsNone(found["winner"])
        self.assertTrue(found["at_least"])
        self.assertIn("--model", [one["settled_by"]
                                  for one in found["not_known"]])

    def test_a_written_project_has_the_policy_of_the_flags(self):
        with open(LLAMA[-1], encoding="utf-8") as file:
            value = json.load(file)
        value["vocab_size"] = 128255
        model = self.path("odd.json")
        with open(model, "w", encoding="utf-8") as file:
            json.dump(value, file)
        rules = self.path("own.yaml")
        with open(rules, "w", encoding="utf-8") as file:
            file.write("version: 1\nextends: [builtin:llama/hf]\n"
                       "rules: [{match: embed_tokens, spec: [tp, null]}]\n")
        folder = self.path("policy")
        self.check(run("search", "--no-project", "--model", model, *STEP,
                       *H100, "--mesh", "fsdp:2,tp:4", "--rules", rules,
                       "--keep", "mesh,rules", "--illegal", "shrink",
                       "--prove", "0", "-o", folder), 0)
        project = os.path.join(folder, "shardc.yaml")
        self.check(run("check", "--allow-outside", "--project", project), 0)

    def test_the_memory_of_the_mesh_is_written(self):
        mesh = self.path("mesh.yaml")
        with open(mesh, "w", encoding="utf-8") as file:
            file.write("axes: {fsdp: 8}\ndevice: {memory: 20GiB}\n")
        folder = self.path("sharded")
        step = [*LLAMA, *STEP, *H100, "--mesh", mesh, "--keep", "mesh",
                "--prove", "0"]
        self.check(run("search", *step, "-o", folder), 0)
        with open(os.path.join(folder, "shardc.yaml"),
                  encoding="utf-8") as file:
            self.assertIn(f"    memory: {20 << 30}\n", file.read())
        text = run("search", *step).out
        self.assertIn(f" --memory {20 << 30}\n", text)

    def test_a_written_winner_has_the_same_figures(self):
        # A model with a pack, and one whose heads tp 4 does not divide.
        for name, mesh in (("llama-3.2-1b", "fsdp:4,tp:4"),
                           ("falcon-7b", "fsdp:4,tp:4")):
            with self.subTest(model=name):
                folder = self.path(name)
                found = self.search(*config(name), *STEP, *H100, "--mesh", mesh,
                                    "--keep", "mesh", "-o", folder)
                project = os.path.join(folder, "shardc.yaml")
                winner = found["winner"]
                cost = self.cost("--project", project, "--seq", "2048", *H100,
                                 *self.settings(winner))
                self.assertEqual(cost["time"]["expected_s"],
                                 winner["expected_s"])
                self.assertEqual(cost["memory"]["peak"]["expected"],
                                 winner["bytes_per_device"])
                self.check(run("check", "--project", project), 0)
                again = run("search", *config(name), *STEP, *H100, "--mesh",
                            mesh, "--keep", "mesh", "-o", folder)
                self.check(again, 2)
                self.assertIn("mesh.yaml", again.err)

    def test_a_pipeline_that_wins_is_written_with_its_stages(self):
        step = [*config("llama-3.1-405b"), "--devices", "128", "--batch", "128",
                "--seq", "4096", *H100, "--prove", "0"]
        folder = self.path("405b")
        found = self.search(*step[:-2], "-o", folder)
        pipeline, winner = found["pipeline"], found["winner"]
        self.assertTrue(pipeline["wins"])
        self.assertEqual(winner["mesh"], pipeline["mesh"])
        self.assertEqual(winner["stages"], len(pipeline["layers"]))
        for key in ("expected_s", "least_s", "most_s"):
            self.assertEqual(winner[key], pipeline[key])
        self.assertLess(winner["least_s"], winner["expected_s"])
        self.assertLess(winner["expected_s"], winner["most_s"])
        other = found["without_stages"]
        self.assertLess(1.05 * winner["expected_s"], other["expected_s"])
        self.assertEqual(other["stages"], 1)
        self.assertEqual(sum(pipeline["layers"]), 126)
        self.assertEqual(len(pipeline["layers"]), pipeline["virtual"] *
                         pipeline["mesh"][pipeline["axis"]])
        # Published runs divide the layers evenly; a faster division is
        # printed.
        inner = pipeline["layers"][1:-1]
        self.assertLessEqual(max(inner) - min(inner), 1)
        if pipeline["by_times"]:
            self.assertLess(pipeline["by_times"]["expected_s"],
                            pipeline["expected_s"])
            self.assertEqual(sum(pipeline["by_times"]["layers"]), 126)
        project = os.path.join(folder, "shardc.yaml")
        flags = ["--batch", "128", "--seq", "4096", *H100, "--p2p", "exposed",
                 *self.settings(pipeline)]
        stages = ["--stages", pipeline["axis"], "--schedule",
                  pipeline["schedule"], "--virtual", pipeline["virtual"],
                  "--assign", ",".join(map(str, pipeline["layers"]))]
        for arguments in (
                ["--project", project],
                [*config("llama-3.1-405b"), "--rules",
                 *pipeline["rules"].split(", ")[:1],
                 "--mesh", self.mesh(pipeline), *stages]):
            cost = self.cost(*arguments, *flags)
            self.assertEqual(cost["time"]["step"], pipeline["expected_s"])
            self.assertEqual(cost["time"]["least"], pipeline["least_s"])
            self.assertEqual(cost["time"]["most"], pipeline["most_s"])
            self.assertEqual(max(rank["total"] for rank in cost["ranks"]),
                             pipeline["tensor_bytes"])
            self.assertTrue(cost["fits"])
        self.check(run("check", "--project", project), 0)
        plan = json.loads(self.check(
            run("plan", "--project", project, "-o", "-"), 0).out)
        self.assertEqual(plan["summary"]["bytes_by_rank"]["of"],
                         [rank["parameters"] for rank in cost["ranks"]])
        text = self.check(run("search", *step), 0).out
        self.assertIn("\nno stages ", text)
        self.assertIn("whose layers are divided " + pipeline["division"], text)
        self.assertIn("--p2p exposed", text)
        self.assertTrue(winner["proved"])
        self.assertEqual(found["front"][0]["mesh"], pipeline["mesh"])
        self.assertEqual(found["front"][0]["stages"], len(pipeline["layers"]))
        ranks = pipeline["mesh"][pipeline["axis"]]
        line = next(one for one in found["why_not"]
                    if one["change"] == f"pp 1 -> {ranks}")
        self.assertEqual(line["verdict"], "faster")
        self.assertNotIn("excluded", line["because"])
        self.assertAlmostEqual(sum(part["seconds"] for part in line["parts"]),
                               line["expected_s"] - other["expected_s"])

    def test_a_pipeline_that_wins_is_on_the_page(self):
        with open(config("llama-3.1-405b")[-1], encoding="utf-8") as file:
            value = json.load(file)
        model = self.path("fewer-layers.json")
        with open(model, "w", encoding="utf-8") as file:
            json.dump({**value, "num_hidden_layers": 16}, file)
        step = ["--no-project", "--model", model, "--devices", "16", "--batch",
                "128", "--seq", "4096", *H100, "--prove", "0"]
        pipeline = self.search(*step)["pipeline"]
        self.assertTrue(pipeline["wins"])
        self.assertIsNone(pipeline["proved"])
        page = self.check(run("search", *step, "--format", "html"), 0).out
        self.assertIn("<h2 id=h-pipelines>Pipelines</h2>", page)
        self.assertIn("<b>Without stages</b>", page)

    def test_models_with_experts_have_pipelines(self):
        found = self.search(*config("mixtral-8x7b"), *STEP, *H100, "--devices",
                            "16", "--prove", "0")
        self.assertIsNone(found["pipelines"]["why_not"])
        self.assertEqual(found["known"][-1]["choice"], "experts")
        one = found["pipeline"]
        mesh = ",".join(f"{name}:{size}" for name, size in one["mesh"].items())
        rules, _, change = one["rules"].partition(", ")
        axes = {"batch over the experts' axis": "batch: [fsdp, dp, ep]",
                "experts not sharded over tp": "expert: [ep, tp]"}
        changes = change.split(", ") if change else []
        with open(self.path("own.yaml"), "w", encoding="utf-8") as file:
            file.write("version: 1\naxes: {"
                       + ", ".join(axes[one] for one in changes) + "}\n")
        cost = self.cost(*config("mixtral-8x7b"), *STEP, *H100, "--rules",
                         self.path("own.yaml"), "--rules", rules, "--mesh",
                         mesh, *self.settings(one), "--p2p", "exposed",
                         "--stages", one["axis"], "--schedule",
                         one["schedule"], "--virtual", one["virtual"],
                         "--assign", ",".join(map(str, one["layers"])))
        self.assertEqual(cost["time"]["step"], one["expected_s"])

    def test_the_winner_is_proved(self):
        found = self.search(*LLAMA, *STEP, *H100, "--devices", "16")
        self.assertEqual(found["proof"]["status"], "pass")
        self.assertTrue(found["winner"]["proved"])
        found = self.search(*LLAMA, *STEP, *H100, "--devices", "16", "--prove",
                            "3")
        self.assertEqual([one["proved"] for one in found["front"][:3]],
                         [True, True, None])

    def fitting(self, name, devices, *step):
        """The seconds of the mesh that `fit` would choose, if one fits."""
        result = run("search", "--all", *config(name), *STEP, *H100, "--devices", devices,
                     "--rules", "auto", "--format", "json", *step)
        if result.rc == 2:
            return None
        meshes = json.loads(result.out)["meshes"]
        return meshes[0]["seconds"] if meshes[0].get("fits") else None

    def suggested(self, name, devices):
        """The seconds of the mesh and the rules that `suggest` chooses."""
        rules = self.path(name + ".yaml")
        result = run("suggest", *config(name), *STEP, *H100, "--devices",
                     devices, "-o", rules, "--memory", "79GiB")
        if result.rc != 0:
            return None
        mesh = next(line for line in result.err.splitlines()
                    if line.startswith("          * ")).split()[1]
        arguments = [*config(name), *STEP, *H100, "--rules", rules, "--mesh",
                     mesh, "--remat", "nothing_saveable", "--memory", "79GiB"]
        # With the pack's description of the model the communication is that of
        # the step's program, as `search` and `suggest` have it. The formulas
        # lack the exchange of gate and up in one weight, over tp.
        described = [*arguments, "--rules", "auto"]
        known = run("cost", *described).rc != 2
        cost = self.cost(*(described if known else arguments))
        fits = cost["memory"]["peak"]["most"] <= 79 << 30
        return cost["time"]["expected_s"] if fits else None

    def test_the_winner_is_never_slower_than_other_commands_choose(self):
        names = sorted(os.path.basename(one)[:-len(".config.json")]
                       for one in glob.glob(os.path.join(CONFIGS, "*.json")))
        every = os.environ.get("SHARDC_EVERY")
        if every:
            names = names[::int(every)]
        else:
            names = ["gpt2", "llama-3.2-1b", "qwen2-0.5b"]
        compared = 0
        for name in names:
            step = ["--devices", "32", "--memory", "79GiB", "--prove", "0"]
            result = run("search", *config(name), *STEP, *H100, *step,
                         "--format", "json")
            if result.rc == 2:
                continue
            winner = json.loads(result.out)["winner"]
            others = {
                "fit": self.fitting(name, "32", "--memory", "79GiB"),
                "fit, nothing kept": self.fitting(
                    name, "32", "--memory", "79GiB", "--remat",
                    "nothing_saveable"),
                "suggest": self.suggested(name, "32")}
            for command, seconds in others.items():
                if seconds is None:
                    continue
                compared += 1
                with self.subTest(model=name, command=command):
                    self.assertIsNotNone(winner)
                    self.assertLessEqual(winner["expected_s"],
                                         seconds * (1 + ROUNDING))
        self.assertGreater(compared, len(names))

    def test_the_number_of_threads_changes_nothing(self):
        arguments = [*LLAMA, *STEP, *H100, "--devices", "32", "--prove", "0",
                     "--format", "json"]
        once = self.check(run("search", *arguments, "--threads", "1"), 0).out
        for threads in ("1", "2", "5"):
            self.assertEqual(
                run("search", *arguments, "--threads", threads).out, once)

    def test_the_front_falls_in_memory_as_it_rises_in_time(self):
        found = self.search(*LLAMA, *STEP, *H100, "--devices", "32", "--prove",
                            "0")
        front = found["front"]
        self.assertGreater(len(front), 3)
        for one, other in zip(front, front[1:]):
            self.assertLess(one["expected_s"], other["expected_s"])
            self.assertGreater(one["bytes_per_device"],
                               other["bytes_per_device"])
        self.assertLessEqual(front[-1]["expected_s"],
                             1.3 * front[0]["expected_s"])
        self.assertEqual(found["fastest"]["expected_s"],
                         front[0]["expected_s"])

    def test_the_page_has_the_front_as_a_drawing_and_as_a_table(self):
        step = [*LLAMA, *STEP, *H100, "--devices", "32", "--prove", "0"]
        found = self.search(*step)
        page = self.check(run("search", *step, "--format", "html"), 0).out
        self.assertEqual(run("search", *step, "--format", "html", "--threads",
                             "2").out, page)
        drawing, table = page.split(
            "<h2 id=h-front>Front of time and memory</h2>")[1] \
            .split("</section>")[0].split("</svg></div>", 1)
        # The points, the runner-up and the winner.
        self.assertEqual(drawing.count("<g><title>"), len(found["front"]) + 2)
        self.assertEqual(table.count("<tr><th scope=row"), len(found["front"]))
        self.assertIn('<svg role=img aria-label="Expected time of a step over '
                      'the memory of a device: '
                      f'{len(found["front"])} shardings, from ', drawing)
        for mark in ("a point of the front", "the runner-up", "the winner"):
            self.assertEqual(table.count(mark), 1)
        self.assertEqual(page.count("<h1>"), 1)
        for words in ("Winner and runner-up", "Ties", "Why not",
                      "What was searched"):
            self.assertRegex(page, f"<h2(?: id=h-[a-z-]+)?>{words}</h2>")
        compared = page.split("<h2>Winner and runner-up</h2>")[1] \
            .split("</section>")[0]
        for one in (found["winner"], found["runner_up"]):
            self.assertIn(f"<code>{self.mesh(one)}</code>", compared)
        # The page has its own script, whose hash the policy states.
        self.assertEqual(page.count("<script"), 1)
        for outside in ("http:", "https:", "src=", "style="):
            self.assertNotIn(outside, page.split("</style>")[1])

    def test_the_page_states_what_is_missing_if_nothing_fits(self):
        page = self.check(run("search", *config("llama-3-8b"), *STEP, *H100,
                              "--devices", "2", "--memory", "10GiB",
                              "--format", "html"), 1).out
        self.assertIn("<h2>Nothing fits</h2>", page)
        self.assertIn("Least memory", page)

    def test_alternatives_name_what_decides(self):
        found = self.search(*LLAMA, *STEP, *H100, "--devices", "32", "--prove",
                            "0")
        winner = found["winner"]["expected_s"]
        changes = {}
        for one in found["why_not"]:
            for change in one["change"].split("; "):
                changes[change] = one
            if one["best"] is None:
                self.assertIn(one["verdict"], ("exceeds_memory", "illegal"))
                self.assertTrue(one["because"])
                continue
            self.assertAlmostEqual(
                sum(part["seconds"] for part in one["parts"]),
                one["expected_s"] - winner, places=9)
            if one["verdict"] == "slower":
                self.assertTrue(one["because"])
        self.assertTrue(any(one.startswith("tp ") for one in changes))
        self.assertTrue(any(one.startswith("remat ") for one in changes))
        sequence = next(one for name, one in changes.items()
                        if name.startswith("sp 1 -> 2"))
        self.assertIn("no measured run", sequence["because"])

    def test_what_is_given_is_kept(self):
        rules = self.path("own.yaml")
        with open(rules, "w", encoding="utf-8") as file:
            file.write("version: 1\nextends: [builtin:llama/hf]\n"
                       "axes: {hidden_state: null}\n")
        found = self.search(*LLAMA, *STEP, *H100, "--devices", "16", "--rules",
                            rules, "--keep", "rules", "--remat",
                            "nothing_saveable", "--zero", "1",
                            "--microbatches", "2", "--prove", "0")
        self.assertEqual(found["counts"]["rules"], 1)
        for one in [found["winner"], *found["front"]]:
            self.assertEqual(one["rules"], rules)
            self.assertEqual(one["remat"], "nothing_saveable")
            self.assertEqual(one["microbatches"], 2)
        found = self.search(*LLAMA, *STEP, *H100, "--mesh", "dp:2,fsdp:4,tp:2",
                            "--keep", "mesh", "--prove", "0")
        for one in [found["winner"], *found["front"]]:
            self.assertEqual(one["mesh"], {"dp": 2, "fsdp": 4, "tp": 2})

    def test_limits_of_models_with_experts(self):
        """No published run of a model with experts has tp 8, and no pipeline of
        them more than three sequences in a micro-batch of a replica."""
        step = ["--model", os.path.join(TESTDATA, "configs",
                                        "mixtral-8x7b.config.json"),
                "--profile", "h100-sxm", "--batch", "64", "--seq", "4096",
                "--remat", "everything_saveable"]
        wide = self.search("--devices", "16", "--mesh", "ep:2,tp:8",
                           "--keep", "mesh", "--prove", "0", *step)
        self.assertEqual(wide["winner"]["unmeasured"],
                         "no measured run of a model with experts has a tensor "
                         "group of 8")
        found = self.search("--devices", "32", *step, "--prove", "0")
        for one in [found["winner"], *found["front"]]:
            mesh = {"pp": 1, "tp": 1, **one["mesh"]}
            self.assertLessEqual(mesh["tp"], 4)
            replicas = 32 // mesh["pp"] // mesh["tp"]
            if mesh["pp"] > 1:
                self.assertLessEqual(64 / replicas / one["microbatches"], 3)

    def test_choices_without_a_measured_run_win_only_on_request(self):
        step = [*LLAMA, "--batch", "8", "--seq", "2048", *H100, "--devices",
                "16", "--prove", "0"]
        found = self.search(*step)
        for one in [found["winner"], *found["front"]]:
            self.assertIsNone(one["unmeasured"])
        every = self.search(*step, "--unmeasured")
        self.assertGreater(every["counts"]["shardings"],
                           found["counts"]["shardings"])
        self.assertLessEqual(every["fastest"]["expected_s"],
                             found["fastest"]["expected_s"])
        self.assertTrue(any(one["unmeasured"] for one in every["front"]))

    def test_a_model_without_known_logits_has_no_winner(self):
        """No time is given without one of its terms, and so no rank."""
        found = self.search(*config("vit-base-patch16-224"), "--batch", "64",
                            "--seq", "197", "--devices", "4", *H100, "--prove",
                            "0", rc=1)
        self.assertIsNone(found["winner"])

    def test_nothing_that_fits_is_a_finding(self):
        text = self.check(run("search", *config("llama-3-8b"), *STEP, *H100,
                              "--devices", "2", "--memory", "10GiB"), 1).out
        self.assertIn("nothing fits 2 devices", text)
        self.assertIn("least ", text)
        found = self.search(*config("llama-3-8b"), *STEP, *H100, "--devices",
                            "2", "--memory", "10GiB", rc=1)
        self.assertIsNone(found["winner"])
        self.assertGreater(found["least"]["bytes_per_device"], 10 << 30)

    def test_a_winner_that_may_not_fit_is_a_finding(self):
        step = [*LLAMA, *STEP, *H100, "--devices", "2", "--memory", "10GiB"]
        found = self.search(*step, "--prove", "0", rc=1)
        self.assertTrue(found["may_fit"])
        self.assertFalse(found["winner"]["fits"])
        text = self.check(run("search", *step, "--prove", "0"), 1).out
        self.assertIn(", may not fit: a step may take ", text)
        fit = self.check(run("search", "--all", *step, "--rules", "auto", "--format",
                             "json", *self.settings(found["winner"])), 1).json()
        self.assertFalse(any(one["fits"] for one in fit["meshes"]))
        self.assertTrue(any(one.get("may_fit") for one in fit["meshes"]))

    def test_bytes_that_do_not_fit_in_64_bits_are_no_least_memory(self):
        step = [*LLAMA, *H100, "--devices", "8", "--prove", "0", "--batch"]
        found = self.search(*step, str(2**40), "--seq", str(2**40), rc=1)
        self.assertIsNone(found["least"])
        self.assertEqual(found["reasons"][1],
                         "activations do not fit in 64 bits")
        found = self.search(*step, str(2**30), "--seq", "8192", rc=1)
        self.assertGreater(found["least"]["bytes_per_device"], 2**40)

    def test_the_text_names_what_was_not_searched_and_what_was_assumed(self):
        given = ["search", *LLAMA, *H100, "--devices", "8", "--prove", "0"]
        short = self.check(run(*given), 0).out
        self.assertLess(short.count("\n"), 14)
        self.assertNotIn("why not", short)
        self.assertIn("`--details` lists the front", short)
        text = self.check(run(*given, "--details"), 0).out
        for words in ("winner ", "front of time and memory", "why not",
                      "not searched: pipelines with", "assumed: --batch 8",
                      "--seq 8192", "the same figures: shardc cost"):
            self.assertIn(words, text)

    def test_wrong_options_have_a_reason(self):
        for arguments, words in (
                ([*LLAMA, "--devices", "8"], "no accelerator is named"),
                ([*LLAMA, *H100], "the number of devices is not given"),
                (["--no-project", *H100, "--devices", "8"],
                 "no model is given"),
                ([*LLAMA, *H100, "--devices", "0"], "--devices"),
                ([*LLAMA, *H100, "--devices", "99999999999"],
                 "more than 1,048,576"),
                ([*LLAMA, *H100, "--devices", "8", "--keep", "mash"],
                 "none of: mesh, rules"),
                ([*LLAMA, *H100, "--devices", "8", "--keep", "mesh"],
                 "there is no mesh to keep"),
                ([*LLAMA, *H100, "--devices", "8", "--seconds", "0"],
                 "--seconds"),
                ([*LLAMA, *H100, "--devices", "8", "--prove", "x"],
                 "--prove"),
                ([*LLAMA, *H100, "--devices", "8", "--remat", "all"],
                 "all")):
            with self.subTest(arguments=arguments):
                result = self.check(run("search", *arguments), 2)
                self.assertIn(words, result.err)
                self.assertEqual(result.out, "")


if __name__ == "__main__":
    unittest.main()
