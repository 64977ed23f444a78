"""`import hf-tp-plan` and `export hf-tp-plan`, judged by what transformers
itself made of its plans (testdata/runtimes/transformers)."""

import glob
import gzip
import itertools
import json
import os
import subprocess
import tempfile
import unittest

import records
from records import RECORDS

BIN = os.environ["SHARDC_BIN"]
# A vocabulary of 49,155 over two devices: transformers cuts unevenly.
UNEVEN = {"granite-3.0-8b-base", "granite-3.1-1b-a400m"}


def dim_of(placement):
    """`S(0)`, `_S(1, 2)`: the dimension; nothing of `R`."""
    if placement == "R":
        return None
    return int(placement.partition("(")[2].partition(",")[0].rstrip(")"))


def split_dim(spec):
    dims = [dim for dim, group in enumerate(spec) if group]
    return dims[0] if dims else None


class Plans(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = folder.name

    def path(self, name, value=None):
        path = os.path.join(self.folder, name)
        if value is not None:
            with open(path, "w", encoding="utf-8") as file:
                json.dump(value, file)
        return path

    def run_program(self, *arguments, rc=0):
        done = subprocess.run([BIN, *arguments], capture_output=True,
                              text=True, check=False, cwd=self.folder)
        self.assertEqual(done.returncode, rc,
                         f"{arguments}\n{done.stdout[-2000:]}{done.stderr}")
        return done

    def plan(self, rules, manifest):
        out = self.path("plan.json")
        self.run_program("plan", "--no-project", "--quiet", "--mesh", "tp:2",
                         "--rules", rules, "--manifest", manifest, "-o", out)
        with open(out, encoding="utf-8") as file:
            return json.load(file)["params"]

    def test_weights_are_sharded_as_transformers_does(self):
        models = params = 0
        for path in sorted(glob.glob(os.path.join(
                RECORDS, "transformers", "known", "*.json.gz"))):
            name = os.path.basename(path).partition(".json")[0]
            with gzip.open(path) as file:
                record = json.load(file)
            placed = (record.get("tensor_parallel") or {}).get("placements")
            if not placed or name in UNEVEN:
                continue
            models += 1
            source = self.path("source.json", record["plans"])
            rules = self.path("rules.yaml")
            self.run_program("import", "hf-tp-plan", "--contiguous", source, "-o", rules)
            plan = self.plan(rules, path)
            for param, entry in plan.items():
                want = dim_of(placed.get(param, ["R"])[0])
                self.assertEqual(split_dim(entry["spec"]), want,
                                 (name, param))
                params += 1
            if models % 5 == 1:
                self.there_and_back(plan, path)
        self.assertGreater(models, 60)
        print(f"transformers' plans of {models} models: {params} parameters "
              "sharded in the same way")

    def there_and_back(self, plan, manifest):
        """What is exported means the same when it is imported again, but for
        what is left out."""
        done = self.run_program("export", "hf-tp-plan", "--plan",
                                self.path("plan.json"), "-o",
                                self.path("back.json"))
        again = self.path("again.yaml")
        if not json.loads(self.read("back.json")):
            self.assertIn("warning", done.stderr)
            return
        self.run_program("import", "hf-tp-plan", "--contiguous", self.path("back.json"),
                         "-o", again)
        back = self.plan(again, manifest)
        for name, entry in plan.items():
            if "warning" not in done.stderr:
                self.assertEqual(back[name]["spec"], entry["spec"], name)
            elif split_dim(back[name]["spec"]) is not None:
                self.assertEqual(back[name]["spec"], entry["spec"], name)

    def read(self, name):
        with open(self.path(name), encoding="utf-8") as file:
            return file.read()

    def test_what_no_style_expresses_is_left_out_and_listed(self):
        params = {
            "up.weight": [8, 8], "up.bias": [8],     # bias whole: no colwise
            "down.weight": [8, 8], "down.bias": [8],
            "norm.weight": [8], "wide.weight": [8, 8],
            "h.0.w.weight": [8, 8], "h.1.w.weight": [8, 8]}
        manifest = self.path("m.json", {
            "schema": "shardc.manifest/v1",
            "params": {name: {"shape": shape, "dtype": "F32"}
                       for name, shape in params.items()}})
        rules = self.path("r.json", {"version": 1, "rules": [
            {"match": "up.weight", "spec": ["tp"]},
            {"match": "down.weight", "spec": [None, "tp"]},
            {"match": "norm", "spec": ["tp"]},
            {"match": "wide", "spec": [["fsdp", "tp"]]},
            {"match": "h.0", "spec": ["tp"]},
            {"match": ".*", "spec": []}]})
        done = self.run_program(
            "export", "hf-tp-plan", "--no-project", "--mesh", "fsdp:2,tp:2",
            "--rules", rules, "--manifest", manifest)
        self.assertEqual(json.loads(done.stdout), {
            "down": "rowwise_split_input", "up": "replicate",
            "norm": "replicate", "wide": "replicate", "h.*.w": "replicate"})
        for words in ("`up` replicated: `colwise` shards the bias",
                      "`norm` replicated: styles shard matrices",
                      "`wide` replicated: other axes shard the dimension",
                      "`h.*.w` replicated: modules of this name have "
                      "different shardings"):
            self.assertIn(words, done.stderr)
        self.assertEqual(done.stderr.count("warning["), 4)

    def exported(self, params, rules, *more, mesh="tp:2"):
        """The styles of the plan of these shapes and rules, and the errors."""
        manifest = self.path("m.json", {
            "schema": "shardc.manifest/v1",
            "params": {name: {"shape": shape, "dtype": "F32"}
                       for name, shape in params.items()}})
        path = self.path("r.json", {"version": 1, "rules": [
            *({"match": match, "spec": spec} for match, spec in rules),
            {"match": ".*", "spec": []}]})
        done = self.run_program("export", "hf-tp-plan", "--no-project",
                                "--mesh", mesh, "--rules", path, "--manifest",
                                manifest, *more)
        return json.loads(done.stdout), done.stderr

    def block(self, name, **shapes):
        return {f"model.layers.0.{name}.{part}.weight": shape
                for part, shape in shapes.items()}

    def test_only_known_blocks_stay_local(self):
        rules = [("(q|k|v|qkv|up|gate|gate_up)_proj.weight|query_key_value",
                  ["tp"]), ("(o|down)_proj.weight|dense.weight", [None, "tp"])]
        square = {part + "_proj": [8, 8] for part in "qkvo"}
        cases = (
            (self.block("self_attn", **square), "colwise", "rowwise"),
            (self.block("self_attn", **square, q_norm=[4]), "colwise",
             "rowwise"),
            (self.block("self_attn", **square, q_norm=[8]),
             "colwise_gather_output", "rowwise_split_input"),
            (self.block("self_attn", **square, g_proj=[8, 8]),
             "colwise_gather_output", "rowwise_split_input"),
            (self.block("self_attn", qkv_proj=[24, 8], o_proj=[8, 8]),
             "colwise_gather_output", "rowwise_split_input"),
            (self.block("attention", query_key_value=[24, 8], dense=[8, 8]),
             "colwise", "rowwise"),
            (self.block("mlp", up_proj=[16, 8], gate_proj=[16, 8],
                        down_proj=[8, 16]), "colwise", "rowwise"),
            (self.block("mlp", up_proj=[16, 8], norm=[16], down_proj=[8, 16]),
             "colwise_gather_output", "rowwise_split_input"),
            (self.block("mlp", gate_up_proj=[32, 8], down_proj=[8, 16]),
             "colwise_gather_output", "rowwise_split_input"))
        for params, first, last in cases:
            styles, _ = self.exported(params, rules)
            for name, style in styles.items():
                part = name.rpartition(".")[2]
                if "norm" in part or part == "g_proj":
                    continue
                self.assertEqual(style, last if part in (
                    "o_proj", "dense", "down_proj") else first, params)
        styles, _ = self.exported(cases[1][0], rules)
        self.assertEqual(styles["model.layers.*.self_attn.q_norm"],
                         "replicated_with_grad_allreduce")
        styles, _ = self.exported(cases[2][0], rules)
        self.assertEqual(styles["model.layers.*.self_attn.q_norm"],
                         "replicate")

    def test_experts_and_what_sums_them(self):
        up, down = ("model.layers.0.mlp.experts." + name
                    for name in ("gate_up_proj", "down_proj"))
        key = "model.layers.*.mlp.experts"
        for rules, want, words in (
                ([("gate_up", [None, "tp"]), ("down", [None, None, "tp"])],
                 ["packed_colwise", "rowwise", "moe_tp_experts"], ""),
                ([("experts", ["tp"])],
                 ["grouped_gemm", "grouped_gemm", "ep_dispatch_experts"], ""),
                ([("gate_up", [None, "tp"])], ["replicate"] * 3,
                 "not sharded over one inner width"),
                ([("experts", ["tp"]), ("up_proj", ["tp"])],
                 ["replicate"] * 3, "expert parallel plan"),
                ([], ["replicate"] * 3, "")):
            styles, said = self.exported(
                {up: [4, 32, 8], down: [4, 8, 16],
                 "model.layers.0.mlp.up_proj.weight": [16, 8]}, rules)
            self.assertEqual([styles[key + end] for end in (
                ".gate_up_proj", ".down_proj", "")], want, rules)
            self.assertIn(words, said)
        styles, _ = self.exported(
            {up: [4, 8, 32], down: [4, 16, 8]},
            [("gate_up", [None, None, "tp"]), ("down", [None, "tp"])])
        self.assertEqual(list(styles.values()),
                         ["colwise", "packed_rowwise", "moe_tp_experts"])

    def test_a_tied_head_follows_its_embedding(self):
        params = {"model.embed_tokens.weight": [16, 8]}
        for spec, style, first in (
                (["tp"], "colwise_gather_output", "colwise_rep"),
                ([], "replicate", None),
                ([None, "tp"], "rowwise_split_input", "rowwise_rep")):
            styles, _ = self.exported(params, [("embed", spec)])
            self.assertEqual(styles.get("lm_head"), style)
            styles, _ = self.exported(params, [("embed", spec)],
                                      "--transformers", "4.57")
            self.assertEqual(styles.get("lm_head"), first)
        for name in ("embed_tokens", "layers.0.embed_tokens", "model.score"):
            styles, _ = self.exported(
                {"model.embed_tokens.weight" if "score" in name else
                 "x.y.z.weight": [16, 8], name + ".weight": [16, 8]},
                [("embed", ["tp"])])
            self.assertNotIn("lm_head", styles)

    def test_names_of_files_become_those_of_modules(self):
        """The weights of experts are one parameter in a model, in which those of
        the gate and of the projection up are one after the other."""
        layer = "model.layers.{}."
        rules = [("experts.*(w1|w3|gate_proj|up_proj)", ["tp"]),
                 ("experts.*(w2|down_proj)", [None, "tp"])]

        def experts(path, gate, up, down):
            return {f"{path}.experts.{number}.{name}.weight": shape
                    for number in range(2)
                    for name, shape in ((gate, [16, 8]), (up, [16, 8]),
                                        (down, [8, 16]))}

        for path, module, names in (
                ("mlp", "mlp", ("gate_proj", "up_proj", "down_proj")),
                ("block_sparse_moe", "mlp", ("w1", "w3", "w2")),
                ("feed_forward", "feed_forward", ("w1", "w3", "w2"))):
            params = {**experts(layer.format(0) + path, *names),
                      f"{layer.format(0)}{path}.gate.weight": [2, 8]}
            styles, _ = self.exported(params, rules)
            key = layer.format("*") + module
            self.assertEqual(styles, {
                key + ".experts.gate_up_proj": "packed_colwise",
                key + ".experts.down_proj": "rowwise",
                key + ".experts": "moe_tp_experts",
                key + ".gate": "replicate"})
            styles, _ = self.exported(params, rules, "--transformers", "4.57")
            self.assertEqual(styles, {
                f"{layer.format('*')}{path}.experts.*.{name}": style
                for name, style in zip(names, (
                    "colwise", "colwise", "rowwise"))})
        params = experts(layer.format(0) + "mlp", "gate_proj", "up_proj",
                         "down_proj")
        styles, said = self.exported(
            params, [("gate_proj", ["tp"]), ("up_proj", [None, "tp"])])
        self.assertEqual(set(styles.values()), {"replicate"})
        self.assertIn("different shardings", said)
        styles, _ = self.exported(
            {"gpt_neox.embed_in.weight": [16, 8], "embed_out.weight": [16, 8]},
            [("embed", ["tp"])])
        self.assertEqual(styles, {"gpt_neox.embed_in": "embedding_rowwise",
                                  "lm_head": "colwise_gather_output"})
        key = layer.format(0) + "block_sparse_moe."
        styles, _ = self.exported(
            {key + "input_linear.weight": [2, 32, 8],
             key + "output_linear.weight": [2, 8, 16],
             key + "router.layer.weight": [2, 8]},
            [("input", [None, "tp"]), ("output", [None, None, "tp"])])
        key = layer.format("*") + "block_sparse_moe."
        self.assertEqual(styles, {
            key + "experts.gate_up_proj": "packed_colwise",
            key + "experts.down_proj": "rowwise",
            key + "experts": "moe_tp_experts", key + "router": "replicate"})

    def test_buffers_have_no_style(self):
        params = {"model.layers.0.mlp.gate.weight": [8, 8],
                  "model.layers.0.mlp.gate.e_score_correction_bias": [8]}
        styles, said = self.exported(params, [])
        self.assertEqual(styles, {"model.layers.*.mlp.gate": "replicate"})
        self.assertEqual(said, "")
        _, said = self.exported(params, [("bias", ["tp"])])
        self.assertIn("it is a buffer", said)

    def test_attention_that_views_all_heads_is_gathered(self):
        """By the type of the model, which the configuration states."""
        block = self.block("self_attn", q_proj=[16, 16], k_proj=[16, 16],
                           v_proj=[16, 16], o_proj=[16, 16])
        rules = [("(q|k|v)_proj", ["tp"]), ("o_proj", [None, "tp"])]
        for model_type, styles in (
                ("llama", {"colwise", "rowwise"}),
                ("stablelm", {"colwise_gather_output",
                              "rowwise_split_input"})):
            model = self.path("config.json", {
                "model_type": model_type, "hidden_size": 16,
                "num_attention_heads": 4, "num_hidden_layers": 1,
                "intermediate_size": 16, "vocab_size": 16})
            self.assertEqual(set(self.exported(
                block, rules, "--model", model)[0].values()), styles)

    def test_exports_are_those_whose_logits_were_compared(self):
        """The plans of every architecture are exported as they were when
        transformers ran them on two processes."""
        record = records.load("transformers/tp_logits")
        self.assertGreaterEqual(len(record["cases"]), 144)
        self.assertEqual(record["not_run"], {})
        for case in record["cases"]:
            manifest = self.path("m.json", {
                "schema": "shardc.manifest/v1",
                "params": {name: {"shape": shape, "dtype": "F32"}
                           for name, shape in case["params"].items()}})
            rules = self.path("rules.yaml")
            for name, plan in case["plans"].items():
                if name == "own":
                    self.run_program("import", "hf-tp-plan", "--contiguous", self.path(
                        "own.json", plan["given"]), "-o", rules)
                else:
                    with open(rules, "w", encoding="utf-8") as file:
                        file.write(record["rules"][name])
                done = self.run_program(
                    "export", "hf-tp-plan", "--no-project", "--mesh", "tp:2",
                    "--rules", rules, "--manifest", manifest)
                self.assertEqual(json.loads(done.stdout), plan["exported"],
                                 (case["model_type"], name))
                self.assertLess(plan["logits"], 1e-5)
                if "gradients" in plan:
                    self.assertLess(plan["gradients"], 1e-5)
                self.assertEqual(plan["sharded"] > 0, any(
                    style != "replicate"
                    for style in plan["exported"].values()))
                if name == "own":
                    self.assertGreater(plan["sharded"], 0)
                    self.same_with_a_manifest(rules, manifest)

    def test_exports_are_those_by_which_checkpoints_were_loaded(self):
        """The plans of the names in files are exported as they were when
        transformers loaded the files by them."""
        record = records.load("transformers/tp_checkpoints")
        self.assertGreaterEqual(len(record["cases"]), 10)
        for case in record["cases"]:
            manifest = self.path("m.json", {
                "schema": "shardc.manifest/v1",
                "params": {name: {"shape": shape, "dtype": "F64"}
                           for name, shape in case["params"].items()}})
            done = self.run_program(
                "export", "hf-tp-plan", "--no-project", "--mesh", "tp:2",
                "--rules", "auto", "--manifest", manifest, "--model",
                self.path("config.json", case["config"]))
            self.assertEqual(json.loads(done.stdout), case["exported"],
                             case["model_type"])
            self.assertLess(case["logits"], 1e-5)
            self.assertGreater(case["sharded"], 0)

    def same_with_a_manifest(self, rules, manifest):
        """A plan that is imported for the parameters of a manifest gives them
        the same specs, and each of its rules matches one of them."""
        wanted = self.plan(rules, manifest)
        self.run_program("import", "hf-tp-plan", "--contiguous", self.path("own.json"), "-o",
                         rules, "--manifest", manifest)
        self.assertEqual({name: split_dim(param["spec"])
                          for name, param in wanted.items()},
                         {name: split_dim(param["spec"]) for name, param in
                          self.plan(rules, manifest).items()})
        with open(self.path("plan.json"), encoding="utf-8") as file:
            for rule in json.load(file)["rules"]:
                self.assertGreater(rule["params"], 0, rule)

    def test_hooks_of_the_models_own_plan_are_replaced(self):
        """transformers keeps what its plan has and the exported one does not,
        also hooks of modules without parameters."""
        sinks = {"model.layers.0.self_attn.sinks": [8]}
        styles, _ = self.exported(sinks, [])
        self.assertEqual(styles["model.layers.*.self_attn"], "replicate")
        shared = {"model.layers.0.mlp.shared_experts.gate_proj": [1, 16, 8]}
        styles, said = self.exported(shared, [("gate", [None, "tp"])])
        self.assertEqual(set(styles.values()), {"replicate"})
        self.assertIn("model.layers.*.mlp.shared_experts", styles)
        self.assertIn("no style covers this parameter", said)
        heads = {f"lm_head.{i}.weight": [8, 8] for i in range(2)}
        styles, _ = self.exported(heads, [])
        self.assertEqual(styles, {"lm_head.*": "replicate",
                                  "lm_head": "replicate"})
        styles, _ = self.exported(heads, [("lm_head", ["tp"])])
        self.assertEqual(styles, {"lm_head.*": "colwise_gather_output",
                                  "lm_head": "replicate"})

    def test_experts_that_return_their_input_have_a_hook(self):
        key = "model.layers.*.mlp.experts.identity_expert"
        params = {"model.layers.0.mlp.experts.gate_up_proj": [6, 32, 8],
                  "model.layers.0.mlp.experts.down_proj": [4, 8, 16]}
        rules = [("gate_up", [None, "tp"]), ("down", [None, None, "tp"])]
        styles, _ = self.exported(params, rules)
        self.assertEqual(styles[key], "moe_identity_expert")
        styles, _ = self.exported(params, [])
        self.assertEqual(styles[key], "replicate")
        params["model.layers.0.mlp.experts.down_proj"] = [6, 8, 16]
        styles, _ = self.exported(params, rules)
        self.assertNotIn(key, styles)

    def test_modules_that_compute_more_than_their_style_are_replicated(self):
        styles, said = self.exported(
            {"model.embed_tokens.weight": [16, 8],
             "model.embed_tokens.embed_norm.weight": [8],
             "model.layers.0.self_attn.o_a_proj.weight": [16, 8]},
            [("tokens.weight|o_a", ["tp"])])
        self.assertEqual(set(styles.values()), {"replicate"})
        self.assertIn("modules inside, whose code a style does not", said)
        self.assertIn("linear layers, and it multiplies groups", said)

    def test_experts_with_a_norm_inside_are_replicated(self):
        key = "model.layers.0.mlp.experts."
        params = {key + "gate_up_proj": [4, 32, 8],
                  key + "down_proj": [4, 8, 16],
                  key + "post_expert_norm.weight": [8]}
        styles, said = self.exported(params, [
            ("gate_up", [None, "tp"]), ("down", [None, None, "tp"])])
        self.assertEqual(set(styles.values()), {"replicate"})
        self.assertIn("modules inside, whose code a style does not", said)
        # Each device computes all of an expert.
        styles, _ = self.exported(params, [("experts.[a-z_]+$", ["tp"])])
        self.assertIn("ep_dispatch_experts", styles.values())

    def test_a_head_of_another_name_is_no_tied_one(self):
        styles, _ = self.exported({"model.embed_tokens.weight": [16, 8],
                                   "audio_lm_head.weight": [16, 8]},
                                  [("tokens", [None, "tp"])])
        self.assertNotIn("lm_head", styles)

    def test_an_import_for_a_manifest(self):
        manifest = self.path("m.json", {
            "schema": "shardc.manifest/v1",
            "params": {name: {"shape": shape, "dtype": "F32"}
                       for name, shape in (
                           ("model.layers.0.a.weight", [8, 8]),
                           ("model.layers.0.a.bias", [8]),
                           ("model.layers.1.a.weight", [8, 8]),
                           ("model.layers.1.b.weight", [8, 8]),
                           ("model.layers.1.b.bias", [8]),
                           ("model.layers.1.b.scale", [8]),
                           ("model.layers.1.b.sinks", [8]),
                           ("model.layers.1.shared_experts.up", [2, 8, 8]),
                           ("model.layers.1.x.a.weight", [8, 8]))}})
        plan = {"layers.*.a": "colwise", "x.a": "rowwise",
                "layers.*.b": "rowwise", "layers.*.c": "colwise",
                "layers.*.b.sinks": "local_rowwise",
                "layers.*.shared_experts.up": "rowwise",
                "layers.*.shared_experts": "all_reduce"}

        def imported():
            rules = self.path("rules.yaml")
            self.run_program("import", "hf-tp-plan", "--contiguous", self.path(
                "p.json", plan), "--manifest", manifest, "-o", rules)
            plan_of = self.plan(rules, manifest)
            return self.read("rules.yaml"), {
                name.removeprefix("model.layers."): param["spec"]
                for name, param in plan_of.items()}

        text, specs = imported()
        self.assertEqual(specs, {
            "0.a.weight": ["tp"], "0.a.bias": ["tp"],
            "1.a.weight": ["tp"], "1.b.weight": [None, "tp"],
            "1.b.bias": [], "1.b.scale": [], "1.b.sinks": ["tp"],
            "1.shared_experts.up": [None, None, "tp"],
            "1.x.a.weight": [None, "tp"]})
        self.assertNotIn("'.*'", text)
        self.assertIn("Keys that name nothing here: `layers.*.c`.", text)
        # A key of one layer, and a longer key, have priority.
        plan["layers.1.a"] = "replicate"
        text, specs = imported()
        self.assertEqual((specs["0.a.weight"], specs["1.a.weight"]),
                         (["tp"], []))
        plan["model.layers.*.b"] = "colwise"
        self.assertEqual(imported()[1]["1.b.weight"], ["tp"])
        del plan["x.a"], plan["layers.*.a"]
        self.assertIn("'.*'", imported()[0])
        other = self.path("other.json", {
            "schema": "shardc.manifest/v1",
            "params": {"x.b.w": {"shape": [8, 8], "dtype": "F32"},
                       "y.b.w": {"shape": [8, 8, 8], "dtype": "F32"}}})
        done = self.run_program(
            "import", "hf-tp-plan", "--contiguous", self.path("p.json", {"b": "colwise"}),
            "--manifest", other, rc=2)
        self.assertIn("shards parameters with different numbers of "
                      "dimensions, such as", done.stderr)

    def test_a_key_of_one_layer_has_priority_over_longer_keys(self):
        manifest = self.path("m.json", {
            "schema": "shardc.manifest/v1",
            "params": {name: {"shape": [8, 8], "dtype": "F32"}
                       for name in ("model.layers.0.down.weight",
                                    "x.layers.0.down.weight",
                                    "model.layers.1.down.weight",
                                    "model.layers.1.up.weight")}})
        rules = self.path("rules.yaml")
        styles = {"model.layers.*.down.weight": "colwise",
                  "layers.0.down.weight": "rowwise",
                  "x.layers.0.down.weight": "replicate",
                  "up": "rowwise", "layers.*.up": "colwise"}
        for keys in itertools.permutations(styles):
            self.run_program("import", "hf-tp-plan", "--contiguous", self.path(
                "p.json", {key: styles[key] for key in keys}), "--manifest",
                manifest, "-o", rules)
            self.assertEqual(
                [param["spec"] for param in
                 self.plan(rules, manifest).values()],
                [[None, "tp"], [], ["tp"], ["tp"]], keys)

    def test_parameters_of_a_list_have_the_key_of_the_list(self):
        manifest = self.path("m.json", {
            "schema": "shardc.manifest/v1",
            "params": {f"model.scales.{i}": {"shape": [8, 8], "dtype": "F32"}
                       for i in (0, 1, 10)}})
        rules = self.path("rules.yaml")
        self.run_program("import", "hf-tp-plan", "--contiguous", self.path(
            "p.json", {"scales": "colwise"}), "--manifest", manifest, "-o",
            rules)
        self.assertEqual([param["spec"] for param in
                          self.plan(rules, manifest).values()], [["tp"]] * 3)

    def test_words_of_versions(self):
        manifest = self.path("m.json", {
            "schema": "shardc.manifest/v1",
            "params": {"embed_tokens.weight": {"shape": [8, 8], "dtype": "F32"},
                       "lm_head.weight": {"shape": [8, 8], "dtype": "F32"}}})
        rules = self.path("r.json", {"version": 1, "rules": [
            {"match": ".*", "spec": ["tp"]}]})
        words = {"4.57": ["rowwise", "colwise_rep"],
                 "5.0": ["rowwise", "colwise_rep"],
                 "5": ["embedding_rowwise", "colwise_gather_output"],
                 "5.16.1": ["embedding_rowwise", "colwise_gather_output"]}
        command = ["export", "hf-tp-plan", "--no-project", "--mesh", "tp:2",
                   "--rules", rules, "--manifest", manifest,
                   "--transformers"]
        for version, styles in words.items():
            said = json.loads(self.run_program(*command, version).stdout)
            self.assertEqual(list(said.values()), styles)
        for version in ("4.49", "new", "5.x", "-1"):
            done = self.run_program(*command, version, rc=2)
            self.assertIn("not a version of transformers", done.stderr)

    def test_bad_plans(self):
        out = self.path("out.yaml")
        for value, words in (
                ({"a": "diagonal"}, "style `diagonal` is not known"),
                ({"a": 3}, "a style is a word"),
                ([], "no plan of names and styles"),
                ({}, "no plan of names and styles"),
                ({"tp_plan": {}}, "a style is a word")):
            done = self.run_program("import", "hf-tp-plan", "--contiguous",
                                    self.path("bad.json", value), "-o", out,
                                    rc=2)
            self.assertIn(words, done.stderr)
            self.assertIn("bad.json:1:", done.stderr)
            self.assertFalse(os.path.exists(out))
        source = self.path("p.json", {"other": {"a": "colwise"}})
        self.run_program("import", "hf-tp-plan", "--contiguous", source, "--symbol", "other")
        done = self.run_program("import", "hf-tp-plan", "--contiguous", source, "--symbol",
                                "none", rc=2)
        self.assertIn("no plan `none`", done.stderr)


if __name__ == "__main__":
    unittest.main(argv=["hf_plans_test"])
