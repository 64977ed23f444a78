"""`shardc search --all`: what it reports to fit also fits by `cost` and `plan`."""

import json
import os
import tempfile
import unittest

from described import DescribedCase
from driver import MODELS, TESTDATA, run


def inputs(model, naming="hf", ending="json.gz", config=None):
    return ["--manifest",
            os.path.join(MODELS, f"{model}.{naming}.manifest.{ending}"),
            "--model", os.path.join(TESTDATA, "configs",
                                    f"{config or model}.config.json"),
            "--rules", "auto", "--no-project"]


LLAMA = inputs("llama-3-8b", ending="json")
TRAIN = ["--batch", "64", "--seq", "4096", "--remat", "nothing_saveable"]


class Fit(DescribedCase):
    SCHEMA = "meshes"

    def fit(self, *arguments, rc=0):
        return self.described(run("search", "--all", *arguments, "--format", "json"), rc)

    def mesh(self, one):
        return ",".join(f"{name}:{size}"
                        for name, size in one["axes"].items())

    def test_meshes_have_the_costs_of_the_command_cost(self):
        value = self.fit(*LLAMA, *TRAIN, "--devices", "16", "--profile",
                         "h100-sxm")
        self.assertEqual(len(value["meshes"]), 15)
        for one in value["meshes"][::4]:
            if not one["legal"]:
                continue
            cost = run("cost", *LLAMA, *TRAIN, "--mesh", self.mesh(one),
                       "--profile", "h100-sxm", "--format", "json")
            self.assertEqual(cost.rc, 0 if one["fits"] else 1)
            said = json.loads(cost.out)
            self.assertEqual(said["memory"]["total"], one["bytes_per_device"])
            self.assertEqual(said["communication_bytes"]["total"],
                             one["communication"])
            self.assertEqual(said["time"]["expected_s"], one["seconds"])

    def test_a_tensor_whose_bytes_no_number_can_hold(self):
        with tempfile.TemporaryDirectory() as folder:
            rules, manifest = (os.path.join(folder, name)
                               for name in ("rules.yaml", "manifest.json"))
            with open(rules, "w", encoding="utf-8") as file:
                file.write("version: 1\n"
                           "rules: [{match: up_proj, spec: [FSDP, null]}]\n")
            with open(manifest, "w", encoding="utf-8") as file:
                json.dump({"schema": "shardc.manifest/v1", "params": {
                    "layers.0.mlp.up_proj.weight": {"shape": [2 ** 31, 2 ** 29],
                                   "dtype": "F32"}}}, file)
            given = ("--no-project", "--rules", rules, "--manifest",
                     manifest, "--devices", "8", "--batch", "8", "--seq",
                     "16", "--axes", "fsdp,tp", "--profile", "h100-sxm")
            value = self.fit(*given)
            self.assertEqual(len(value["meshes"]), 4)
            self.assertIsNone(value["meshes"][0]["fits"])
            text = self.check(run("search", "--all", *given), 0).out
            self.assertRegex(text, r"\n  tp=8 +- ")

    def test_the_experts_are_those_of_the_model(self):
        with tempfile.TemporaryDirectory() as folder:
            with open(os.path.join(TESTDATA, "configs",
                                   "mixtral-8x7b.config.json"),
                      encoding="utf-8") as file:
                config = json.load(file)
            config.update(num_local_experts=32, num_hidden_layers=2)
            model = os.path.join(folder, "config.json")
            with open(model, "w", encoding="utf-8") as file:
                json.dump(config, file)
            tree = os.path.join(folder, "tree.json")
            with open(tree, "w", encoding="utf-8") as file:
                file.write(self.check(run(
                    "show", "manifest", "--no-project", "--model", model, "--naming",
                    "hf-files", "--format", "json"), 0).out)
            value = self.fit("--no-project", "--rules", "auto", "--manifest",
                             tree, "--model", model, "--devices", "8", *TRAIN)
        self.assertTrue(any(one["axes"].get("ep", 1) > 1 and one["legal"]
                            for one in value["meshes"]))

    def test_the_best_stands_first(self):
        value = self.fit(*LLAMA, *TRAIN, "--devices", "32", "--profile",
                         "h100-sxm")
        # Those that may fit stand behind those that fit, and have ranks too.
        ranks = [(0 if one["fits"] else 1 if one.get("may_fit") else
                  2 if one["legal"] else 3,
                  one["rank"] or 0 if one.get("may_fit") else
                  one["seconds"] or 0)
                 for one in value["meshes"]]
        self.assertEqual(ranks, sorted(ranks))
        fastest = []
        for rank in sorted({one["rank"] for one in value["meshes"]
                            if one["rank"]}):
            tied = [one for one in value["meshes"] if one["rank"] == rank]
            sizes = [one["bytes_per_device"] for one in tied]
            self.assertEqual(sizes, sorted(sizes))
            times = [one["seconds"] for one in tied]
            self.assertLess(max(times), 1.05 * min(times))
            fastest.append(min(times))
        self.assertGreater(len(fastest), 1)
        fitting = len({one["rank"] for one in value["meshes"] if one["fits"]})
        for i, (one, other) in enumerate(zip(fastest, fastest[1:])):
            if i + 1 != fitting:
                self.assertGreaterEqual(other, 1.05 * one)

    def test_meshes_that_are_not_legal_make_no_plan(self):
        value = self.fit(*LLAMA, "--batch", "48", "--seq", "4096",
                         "--devices", "48", "--remat", "nothing_saveable")
        legal = [one for one in value["meshes"] if one["legal"]]
        wrong = [one for one in value["meshes"] if not one["legal"]]
        self.assertTrue(legal and wrong)
        for one in legal[::3]:
            self.check(run("plan", *LLAMA, "--mesh", self.mesh(one), "-o",
                           os.devnull), 0)
        for one in wrong:
            self.assertTrue(one["reason"])
            self.assertIsNone(one["bytes_per_device"])

    def test_cost_judges_heads_as_fit_does(self):
        # 71 heads and one KV head.
        with tempfile.TemporaryDirectory() as folder:
            tree = os.path.join(folder, "tree.json")
            model = ["--model", os.path.join(TESTDATA, "configs",
                                             "falcon-7b.config.json")]
            with open(tree, "w", encoding="utf-8") as file:
                file.write(self.check(run(
                    "show", "manifest", "--no-project", *model, "--naming", "hf",
                    "--format", "json"), 0).out)
            given = ["--no-project", *model, "--manifest", tree, "--rules",
                     "auto", "--batch", "4", "--seq", "512"]
            own = os.path.join(folder, "own.yaml")
            with open(own, "w", encoding="utf-8") as file:
                file.write("version: 1\naxes: {head: [], kv_head: []}\n")
            plain = [*given[:-5], own, "--rules", *given[-5:]]
            self.assertEqual(plain.count("--rules"), 2)
            for inputs, legal in ((given, False),
                                  ([*given, "--illegal", "drop"], True),
                                  ([*given, "--illegal", "shrink"], True),
                                  (plain, True)):
                with self.subTest(inputs=inputs):
                    (tp,) = [one for one in self.fit(
                        *inputs, "--devices", "2")["meshes"]
                        if one["axes"]["tp"] == 2]
                    self.assertEqual(tp["legal"], legal)
                    cost = run("cost", *inputs, "--mesh", "tp:2", "--format",
                               "json")
                    self.check(cost, 0 if legal else 1)
                    if legal:
                        self.assertEqual(cost.json()["memory"]["total"],
                                         tp["bytes_per_device"])
                        self.assertEqual(
                            cost.json()["communication_bytes"]["total"],
                            tp["communication"])
                        continue
                    self.assertEqual(tp["reason"], "71 heads are not divisible "
                                     "by 2; 1 KV head is not divisible by 2")
                    found = {one["name"]: one for one in json.loads(cost.err)}
                    for name, heads in (("heads-indivisible", "71 heads"),
                                        ("kv-heads-indivisible", "1 KV head")):
                        self.assertEqual(
                            found[name]["message"], '"tp" of 2 does not divide '
                            f"the {heads} that attention shards over it")
                        self.assertEqual(found[name]["level"], "error")
                        self.assertIn("`--illegal drop`", found[name]["help"])

    def test_uneven_kv_heads_alone_are_refused_too(self):
        # 32 heads and eight KV heads.
        (tp,) = [one for one in self.fit(*LLAMA, *TRAIN, "--devices",
                                         "16")["meshes"]
                 if one["axes"]["tp"] == 16]
        self.assertEqual(tp["reason"], "8 KV heads are not divisible by 16")
        cost = run("cost", *LLAMA, *TRAIN, "--mesh", "tp:16")
        self.check(cost, 1)
        self.assertEqual(cost.out, "")
        self.assertIn("SHD404", cost.err)
        self.check(run("cost", *LLAMA, *TRAIN, "--mesh", "tp:16", "--illegal",
                       "drop"), 0)

    def test_meshes_of_which_a_part_is_not_known_have_no_verdict(self):
        given = (*LLAMA, "--mode", "decode", "--devices", "4", "--batch", "64",
                 "--profile", "h100-sxm")
        legal = [one for one in self.fit(*given)["meshes"] if one["legal"]]
        self.assertEqual({one["fits"] for one in legal}, {None})
        text = self.check(run("search", "--all", *given), 0).out
        self.assertIn(" by what is known of their memory, ", text)
        self.assertNotIn("% free", text)
        known = self.fit(*given, "--kv-len", "4096")["meshes"]
        self.assertEqual({one["fits"] for one in known if one["legal"]}, {True})

    def test_sizes_have_reasons(self):
        sizes = {(one["axis"], one["size"]): one
                 for one in self.fit(*LLAMA, *TRAIN)["sizes"]}
        self.assertTrue(sizes["tp", 8]["legal"])
        self.assertIn("8 KV heads are not divisible by 16",
                      sizes["tp", 16]["reason"])
        self.assertIn("32 heads are not divisible by 3",
                      sizes["tp", 3]["reason"])
        self.assertIn("64 rows are not divisible by 3", sizes["dp", 3]["reason"])

    def test_experts_have_an_axis_and_their_number(self):
        sizes = {(one["axis"], one["size"]): one for one in
                 self.fit(*inputs("mixtral-8x7b", "flax"), *TRAIN)["sizes"]}
        self.assertTrue(sizes["ep", 8]["legal"])
        self.assertFalse(sizes["ep", 16]["legal"])

    def test_blocks_of_scales_are_not_split(self):
        with tempfile.TemporaryDirectory() as folder:
            def path(name, text):
                full = os.path.join(folder, name)
                with open(full, "w", encoding="utf-8") as file:
                    file.write(text)
                return full
            value = self.fit(
                "--no-project", "--axes", "tp",
                "--rules", path("r.yaml", "version: 1\nrules:\n"
                                "  - {match: 'down', spec: [null, TP]}\n"
                                "  - {match: '.*', spec: []}\n"),
                "--manifest", path("m.json", json.dumps(
                    {"layers.0.mlp.down_proj.weight":
                     {"shape": [256, 512], "dtype": "F8_E4M3"},
                     "embed_tokens.weight":
                     {"shape": [1024, 256], "dtype": "BF16"}})),
                "--model", path("config.json", json.dumps(
                    {"hidden_size": 256, "quantization_config":
                     {"quant_method": "fp8", "weight_block_size":
                      [128, 128]}})))
        sizes = {one["size"]: one for one in value["sizes"]}
        self.assertTrue(sizes[4]["legal"])
        self.assertIn("a part of 64 splits blocks of 128", sizes[8]["reason"])

    def test_blocks_are_those_of_the_modules_that_have_them(self):
        """A part of 512 / 8 = 64 splits a block of 128 and none of 64."""
        def groups(**of):
            return {"config_groups": {name: {
                "targets": targets, "weights": {"group_size": size}}
                for name, (size, targets) in of.items()}}
        two = groups(a=(64, ["re:.*down"]), b=(128, ["Linear"]))
        for quantisation, legal in (
                (groups(a=(128, ["Linear"])), False),
                ({**groups(a=(128, ["Linear"])), "ignore": ["re:.*down"]},
                 True),
                ({**groups(a=(128, ["Linear"])), "ignore": ["layers.0"]},
                 False),
                ({"weight_block_size": [128, 128],
                  "modules_to_not_convert": ["mlp.down_proj"]}, True),
                (two, True),
                (groups(a=(64, ["re:.*up"]), b=(128, ["Linear"])), False)):
            with tempfile.TemporaryDirectory() as folder:
                def path(name, text):
                    full = os.path.join(folder, name)
                    with open(full, "w", encoding="utf-8") as file:
                        file.write(text)
                    return full
                value = self.fit(
                    "--no-project", "--axes", "tp",
                    "--rules", path("r.yaml", "version: 1\nrules:\n"
                                    "  - {match: 'down', spec: [null, TP]}\n"
                                    "  - {match: '.*', spec: []}\n"),
                    "--manifest", path("m.json", json.dumps(
                        {f"layers.{i}.mlp.down_proj.weight":
                         {"shape": [256, 512], "dtype": "F8_E4M3"}
                         for i in range(2)})),
                    "--model", path("config.json", json.dumps(
                        {"hidden_size": 256,
                         "quantization_config": quantisation})))
            sizes = {one["size"]: one for one in value["sizes"]}
            with self.subTest(quantisation=quantisation):
                self.assertEqual(sizes[8]["legal"], legal)

    def test_blocks_may_be_split_where_weights_are_gathered(self):
        # 2,880 inputs in blocks of 32: a part of 360 splits one.
        config = os.path.join(TESTDATA, "configs", "gpt-oss-20b.config.json")
        sizes = {(one["axis"], one["size"]): one for one in
                 self.fit("--no-project", "--model", config, "--rules", "auto",
                          "--axes", "fsdp,tp", *TRAIN)["sizes"]}
        self.assertTrue(sizes["fsdp", 8]["legal"])
        self.assertIn("mlp.experts.down_proj: a part of 360 splits blocks",
                      sizes["tp", 8]["reason"])

    def test_rules_with_an_unknown_name_cannot_be_compiled(self):
        with tempfile.TemporaryDirectory() as folder:
            rules = os.path.join(folder, "rules.yaml")
            with open(rules, "w", encoding="utf-8") as file:
                file.write("version: 1\n"
                           "rules: [{match: '.*', spec: [axis]}]\n")
            given = [*LLAMA[:-3], "--no-project", "--rules", rules]
            for command in (["plan", "--mesh", "dp:2"],
                            ["search", "--all", "--devices", "2"]):
                with self.subTest(command=command):
                    self.assertIn("SHD028", self.check(
                        run(*command, *given), 2).err)

    def test_rules_may_name_any_of_the_axes_that_are_tried(self):
        with tempfile.TemporaryDirectory() as folder:
            rules = os.path.join(folder, "rules.yaml")
            with open(rules, "w", encoding="utf-8") as file:
                file.write("version: 1\nextends: [builtin:llama/hf]\nrules:\n"
                           "  - {match: embed_tokens, spec: [rows, null]}\n")
            given = [*LLAMA[:-3], "--no-project", "--rules", rules, *TRAIN]
            value = self.fit(*given, "--devices", "4", "--axes", "fsdp,rows")
            self.assertEqual(
                {tuple(one["axes"]) for one in value["sizes"]},
                {("fsdp",), ("rows",)})
            for one in value["meshes"]:
                cost = run("cost", *given, "--mesh", self.mesh(one),
                           "--format", "json").json()
                self.assertEqual(cost["memory"]["total"],
                                 one["bytes_per_device"])

    def test_none_fits_and_the_nearest_is_reported(self):
        arguments = [*LLAMA, *TRAIN, "--devices", "4", "--memory", "16GiB"]
        value = self.fit(*arguments, rc=1)
        self.assertFalse(any(one["fits"] for one in value["meshes"]))
        least = min(one["bytes_per_device"] for one in value["meshes"]
                    if one["legal"])
        self.assertEqual(value["nearest"]["bytes_per_device"], least)
        text = self.check(run("search", "--all", *arguments), 1).out
        self.assertIn("nearest: ", text)
        self.assertIn("0 meshes fit of 6", text)

    def test_the_change_with_which_a_mesh_fits_is_reported(self):
        kept = [*LLAMA, "--batch", "64", "--seq", "4096", "--devices", "8",
                "--memory", "110GiB"]
        value = self.fit(*kept, rc=1)
        change = value["change"]
        self.assertEqual(change["flags"], ["--remat nothing_saveable"])
        self.assertTrue(change["fits"])
        flags = " ".join(change["flags"]).split()
        cost = self.check(run("cost", *kept[:-4], "--memory", "110GiB", *flags,
                              "--mesh", self.mesh(change), "--format",
                              "json"), 0).json()
        self.assertEqual(cost["memory"]["total"], change["bytes_per_device"])
        text = self.check(run("search", "--all", *kept), 1).out
        self.assertIn("with --remat nothing_saveable, ", text)
        # A policy that keeps nothing leaves micro-batches.
        value = self.fit(*kept[:-2], "--memory", "40GiB", "--remat",
                         "nothing_saveable", "--axes", "dp,fsdp", rc=1)
        (flag,) = value["change"]["flags"]
        self.assertRegex(flag, "^--microbatches (2|4|8)$")
        # All numbers of micro-batches that divide the batch are tried.
        value = self.fit(*inputs("llama-3.2-1b"), "--batch", "6", "--seq",
                         "16384", "--devices", "2", "--memory", "60GiB", rc=1)
        self.assertEqual(value["change"]["flags"], ["--microbatches 6"])
        # What no settings mend has no change.
        value = self.fit(*kept[:-2], "--memory", "1GiB", rc=1)
        self.assertIsNone(value["change"])
        self.assertIsNone(self.fit(*kept, "--remat",
                                   "nothing_saveable")["change"])

    def test_settings_behind_the_figures_are_printed(self):
        value = self.fit(*LLAMA, *TRAIN, "--devices", "16", "--profile",
                         "h100-sxm")
        self.assertEqual(value["assumed"], [
            "--batch 64", "--seq 4096", "--microbatches 1",
            "--optimizer adamw", "--zero 0", "--remat nothing_saveable",
            "--profile h100-sxm"])
        # Written out they change nothing.
        flags = " ".join(value["assumed"]).split()
        self.assertEqual(self.fit(*LLAMA, *flags, "--devices", "16"), value)
        more = ["--grad-dtype", "float32", "--moments-dtype", "bfloat16",
                "--stack", "megatron", "--loss", "fused", "--overlap-tp"]
        value = self.fit(*LLAMA, *TRAIN, *more, "--devices", "16",
                         "--profile", "h100-sxm")
        self.assertIn("--stack megatron", value["assumed"])
        flags = " ".join(value["assumed"]).split()
        self.assertEqual(self.fit(*LLAMA, *flags, "--devices", "16"), value)
        text = self.check(run("search", "--all", *LLAMA, *TRAIN, "--devices", "16"), 0).out
        self.assertIn("\nassumed: --batch 64 --seq 4096 --microbatches ",
                      text)

    def test_experts_with_the_batch_over_their_axis(self):
        model = inputs("mixtral-8x22b")
        step = ["--batch", "256", "--seq", "4096", "--remat",
                "nothing_saveable", "--profile", "h100-sxm"]
        value = self.fit(*model, *step, "--devices", "64", "--axes",
                         "fsdp,ep,tp")
        with tempfile.TemporaryDirectory() as folder:
            rules = os.path.join(folder, "rules.yaml")
            with open(rules, "w", encoding="utf-8") as file:
                file.write("version: 1\nextends: [builtin:mixtral]\n"
                           "axes: {batch: [fsdp, dp, ep]}\n")
            own = [rules if one == "auto" else one for one in model]
            over = [one for one in value["meshes"] if one["batch"]]
            self.assertGreater(len(over), 3)
            for one in over[::4]:
                self.assertEqual(one["batch"], ["fsdp", "dp", "ep"])
                self.assertGreater(one["axes"]["ep"], 1)
                mesh = self.mesh(one)
                cost = json.loads(run("cost", *own, *step, "--mesh", mesh,
                                      "--format", "json").out)
                self.assertEqual(cost["memory"]["total"],
                                 one["bytes_per_device"])
                self.assertEqual(cost["time"]["expected_s"], one["seconds"])
                # With the batch of the rules alone the mesh is worse.
                packed = json.loads(run("cost", *model, *step, "--mesh", mesh,
                                        "--format", "json").out)
                self.assertTrue(
                    packed["memory"]["total"] > 85520809984
                    or packed["time"]["expected_s"] > one["seconds"])
        text = self.check(run("search", "--all", *model, *step, "--devices", "64",
                              "--axes", "fsdp,ep,tp"), 0).out
        self.assertIn("the rules need `axes: {batch: [fsdp, dp, ep]}`", text)

    def test_serving_and_other_axes(self):
        value = self.fit(*LLAMA, "--mode", "decode", "--batch", "32",
                         "--kv-len", "8192", "--devices", "8", "--axes",
                         "sp,tp", "--memory", "80GiB")
        self.assertEqual(len(value["meshes"]), 4)
        self.assertEqual(list(value["meshes"][0]["axes"]), ["sp", "tp"])

    def test_serving_has_the_costs_of_the_command_cost(self):
        """A rule may have another spec in decode, which counts."""
        with tempfile.TemporaryDirectory() as folder:
            rules = os.path.join(folder, "rules.yaml")
            with open(rules, "w", encoding="utf-8") as file:
                file.write("version: 1\nextends: [builtin:llama]\nrules:\n"
                           "  - {match: '(gate|up)_proj', spec: [TP, FSDP], "
                           "modes: {decode: [TP, null]}}\n")
            own = [rules if one == "auto" else one for one in LLAMA]
            serve = ["--mode", "decode", "--batch", "32", "--kv-len", "8192"]
            value = self.fit(*own, *serve, "--devices", "8", "--axes",
                             "fsdp,tp")
            self.assertEqual(len(value["meshes"]), 4)
            for one in value["meshes"]:
                cost = json.loads(self.check(run(
                    "cost", *own, *serve, "--mesh", self.mesh(one), "--format",
                    "json"), 0).out)
                self.assertEqual(cost["memory"]["total"],
                                 one["bytes_per_device"], one["axes"])
                self.assertEqual(cost["communication_bytes"]["total"],
                                 one["communication"])

    def test_too_many(self):
        wrong = self.check(run("search", "--all", *LLAMA, "--devices", "720720", "--axes",
                               "dp,fsdp,ep,sp,tp"), 2)
        self.assertIn("more than 2,000", wrong.err)
        self.check(run("search", "--all", *LLAMA, "--devices", "0"), 2)


if __name__ == "__main__":
    unittest.main()
