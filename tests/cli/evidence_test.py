"""What the program prints about trees whose names help nobody: each figure is
that of the same tree under its usual names, or the facts that it lacks are
listed, totals are lower bounds, and there is no verdict.

The trees are those of known models. Every part of every name but numbers is
replaced by letters drawn at random, with and without a `model:` section."""

import functools
import json
import os
import random
import re
import tempfile
import unittest

import yaml

from described import DescribedCase
from driver import ROOT, TESTDATA, part_of, run

TRAIN = ("--batch", "64", "--seq", "4096", "--remat", "nothing_saveable",
         "--profile", "h100-sxm")
DECODE = ("--mode", "decode", "--batch", "64", "--kv-len", "4096",
          "--profile", "h100-sxm")
# A pack, a model that it describes without biases, and meshes that divide the
# model's heads.
MODELS = [("llama", "llama-3-8b", ("fsdp:8", "tp:8")),
          ("llama", "qwen3-0.6b", ("fsdp:4,tp:2", "dp:2,fsdp:2,tp:4")),
          ("llama", "llama-3.2-1b", ("tp:8", "dp:2,fsdp:4")),
          ("gemma", "gemma-2-9b", ("fsdp:4,tp:2", "dp:8")),
          ("mixtral", "mixtral-8x7b", ("fsdp:8", "dp:2,fsdp:2,tp:4")),
          ("mixtral", "qwen3-30b-a3b", ("fsdp:4,tp:2", "tp:4")),
          ("llama", "llama-2-70b", ("tp:8", "fsdp:4,tp:2")),
          ("gemma", "gemma-2b", ("fsdp:8", "dp:2,fsdp:4")),
          ("llama", "mistral-7b", ("dp:2,fsdp:2,tp:4", "fsdp:8")),
          ("deepseek", "deepseek-v3.1", ("fsdp:8", "fsdp:4,tp:2"))]
TREES = 4 * len(MODELS)  # each with and without a `model:` section


def template(name):
    return re.sub(r"(?<=\.)\d+(?=\.)", "*", name)


def pattern_of(one):
    """A rule's pattern for the names of a template."""
    return "^" + re.escape(one).replace(r"\*", r"\d+") + "$"


@functools.cache
def model_section(pack):
    """The `model:` section of a pack."""
    path = os.path.join(ROOT, "rules", pack + ".hf.yaml")
    with open(path, encoding="utf-8") as file:
        return yaml.safe_load(file)["model"]


def described_params(pack):
    """The roles of a pack's `model:` section, with those that it inherits."""
    model = model_section(pack)
    inherited = {}
    if "extends" in model:
        inherited = described_params(
            model["extends"].removeprefix("builtin:").split("/")[0])
    params = {**inherited, **(model.get("params") or {})}
    return {role: value for role, value in params.items() if value is not None}


class Tree:
    """A model's parameters, and the same under other names."""

    def __init__(self, pack, model, mesh, folder, seed):
        draw = random.Random(seed)
        self.folder, self.mesh, self.pack = folder, mesh, pack
        self.config = os.path.join(TESTDATA, "configs", model + ".config.json")
        with open(self.config, encoding="utf-8") as file:
            config = json.load(file)
        if config.get("num_nextn_predict_layers"):
            # The parameters of a configuration do not have these layers, without
            # which memory has no total to compare.
            config["num_nextn_predict_layers"] = 0
            self.config = self.write(model + ".config.json", config)
        # No optimizer updates quantised weights, so that a step which trains
        # them has no figures to compare.
        made = run("show", "manifest", "--model", self.config, "--format", "json",
                   "--weights-dtype", "bfloat16")
        self.manifest = json.loads(made.out)
        tensors = self.manifest["params"]
        self.words = {}
        for part in sorted({part for one in tensors
                            for part in one["name"].split(".")
                            if not part.isdigit()}):
            word = ""
            while not word or word in self.words.values():
                word = "".join(draw.choices("bdfhjklmnprstvxz", k=5))
            self.words[part] = word
        named = self.write("named.json", self.manifest)
        plan = json.loads(run(
            "plan", "--no-project", "--mesh", mesh, "--rules",
            f"builtin:{pack}/hf", "--manifest", named, "--illegal",
            "shrink").out)
        self.rules = {}
        for name, param in plan["params"].items():
            modes = {mode: one["spec"] for mode, one in
                     param.get("modes", {}).items() if "spec" in one}
            self.rules[template(name)] = (param["spec"], modes)

    def rename(self, name):
        return ".".join(self.words.get(part, part)
                        for part in name.split("."))

    def write(self, name, value):
        path = os.path.join(self.folder, name)
        with open(path, "w", encoding="utf-8") as file:
            json.dump(value, file)
        return path

    def section(self, rename):
        """The `model:` section of the pack, with patterns of these names."""
        params = {}
        for role, (text, *rest) in described_params(self.pack).items():
            pattern = re.compile(text.replace("$i", r"\d+")
                                 .replace("$e", r"\d+"))
            numbers = re.findall(r"\$[ie]", text)
            found = []
            for one in self.rules:
                if not pattern.search(one.replace("*", "0")):
                    continue
                new = re.escape(rename(one))
                for number in numbers:
                    new = new.replace(r"\*", number, 1)
                found.append(new)
            if found:
                rest = [{key: value for key, value in one.items()
                         if key not in ("bias", "optional_bias")}
                        if isinstance(one, dict) else one for one in rest]
                params[role] = [f"^({'|'.join(found)})$", *rest]
        skipped = model_section(self.pack).get("skip") or []
        skip = [pattern_of(rename(one)) for one in self.rules
                if any(re.search(pattern, one.replace("*", "0"))
                       for pattern in skipped)]
        return {"extends": f"builtin:{self.pack}/hf", "params": params,
                "skip": skip}

    def inputs(self, odd, section):
        rename = self.rename if odd else str
        rules = [{"match": pattern_of(rename(one)), "spec": spec, "modes": modes}
                 if modes else {"match": pattern_of(rename(one)), "spec": spec}
                 for one, (spec, modes) in self.rules.items()]
        value = {"version": 1, "separator": ".", "rules": rules}
        if section:
            value["model"] = self.section(rename)
        manifest = {**self.manifest, "params": [
            {**one, "name": rename(one["name"])}
            for one in self.manifest["params"]]}
        kind = f"{'odd' if odd else 'named'}-{'section' if section else 'bare'}"
        return ("--no-project", "--rules", self.write(kind + ".yaml", value),
                "--manifest", self.write(kind + ".json", manifest),
                "--model", self.config)


class Evidence(DescribedCase):
    SCHEMA = "cost"

    def tree(self, seed):
        pack, model, meshes = MODELS[seed % len(MODELS)]
        mesh = meshes[seed // len(MODELS) % len(meshes)]
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        return Tree(pack, model, mesh, folder.name, seed)

    def cost(self, inputs, mesh, settings):
        result = run("cost", *inputs, "--mesh", mesh, *settings, "--format",
                     "json")
        return self.described(result, result.rc), result.rc

    def agree(self, named, odd):
        """Asserts that no figure of `odd` is confident and wrong."""
        (named, named_rc), (odd, odd_rc) = named, odd
        # Collectives of fused experts are not known under any names.
        facts = [[(fact["what"], len(fact["params"]))
                  for fact in one["not_known"]] for one in (named, odd)]
        if facts[0] == facts[1]:
            for member in ("memory", "communication_bytes", "time"):
                self.assertEqual(odd[member], named[member])
            self.assertEqual(odd_rc, named_rc)
            return
        self.assertEqual(odd_rc, 1)
        self.assertTrue(all(fact["what"] for fact in odd["not_known"]))
        self.assertTrue(any(fact["settled_by"] for fact in odd["not_known"]))
        time = odd["time"]
        for member in ("compute_s", "least_s", "most_s", "flops"):
            self.assertIsNone(time[member])
        self.assertTrue(odd["at_least"])
        self.assertNotIn("expected_s", time)
        self.assertIsNot(odd["memory"]["fits"], True)
        for member, least in odd["memory"].items():
            most = named["memory"].get(member)
            if isinstance(least, int) and isinstance(most, int):
                self.assertLessEqual(least, most, member)

    def test_figures_of_odd_names_are_those_of_usual_names_or_not_known(self):
        known, seeds = 0, part_of(range(TREES), 3)
        for seed in seeds:
            tree = self.tree(seed)
            for section in (False, True):
                odd = tree.inputs(True, section)
                named = tree.inputs(False, section)
                for settings in (TRAIN, DECODE):
                    with self.subTest(seed=seed, section=section,
                                      settings=settings):
                        found = self.cost(odd, tree.mesh, settings)
                        self.agree(self.cost(named, tree.mesh, settings),
                                   found)
                        known += not found[0]["at_least"]
                        if section:
                            self.assertEqual(found[0]["not_known"], [])
        # A `model:` section is as good as the names.
        self.assertGreaterEqual(known, 2 * len(seeds))

    def test_one_odd_word_changes_no_figure(self):
        """Each word of a tree alone is replaced."""
        for seed in range(len(MODELS)):
            tree = self.tree(seed)
            words = tree.words
            named = [self.cost(tree.inputs(False, False), tree.mesh, settings)
                     for settings in (TRAIN, DECODE)]
            for word, other in part_of(words.items(), 3):
                tree.words = {word: other}
                odd = tree.inputs(True, False)
                for wanted, settings in zip(named, (TRAIN, DECODE)):
                    with self.subTest(seed=seed, word=word,
                                      settings=settings):
                        self.agree(wanted, self.cost(odd, tree.mesh, settings))

    def test_a_section_counts_more_than_names(self):
        """The words of roles change places, so that each name is that of
        another role."""
        for seed in range(len(MODELS)):
            tree = self.tree(seed)
            words = [word for word in tree.words
                     if re.search("proj|gate|head|embed_tokens", word)]
            tree.words = dict(zip(words, words[1:] + words[:1]))
            odd, named = tree.inputs(True, True), tree.inputs(False, True)
            for settings in (TRAIN, DECODE):
                with self.subTest(seed=seed, settings=settings):
                    found = self.cost(odd, tree.mesh, settings)
                    self.assertFalse(found[0]["at_least"])
                    self.agree(self.cost(named, tree.mesh, settings), found)

    def test_no_command_gives_a_verdict_about_odd_names(self):
        tree = self.tree(0)
        odd = tree.inputs(True, False)
        fit = run("search", "--all", *odd, "--devices", "8", *TRAIN, "--format", "json")
        value = self.check(fit, 1).json()
        self.assertTrue(value["at_least"])
        for mesh in value["meshes"]:
            self.assertIsNone(mesh["rank"])
            self.assertIsNone(mesh["seconds"])
            self.assertIsNot(mesh["fits"], True)
        self.assertIn("is not known", self.check(
            run("search", "--all", *odd, "--devices", "8", *TRAIN), 1).out)
        search = run("search", *odd, "--devices", "8", *TRAIN[:4],
                     *TRAIN[-2:], "--format", "json")
        value = self.check(search, 1).json()
        self.assertIsNone(value["winner"])
        self.assertTrue(value["at_least"])
        text = self.check(run("cost", *odd, "--mesh", "fsdp:8", *TRAIN), 1).out
        self.assertNotIn("free", text)
        self.assertNotIn("tokens/s", text)
        self.assertIn("at least", text)

    def test_a_section_shows_the_ends_of_a_pipeline(self):
        """The head and the embedding have each other's names, or names of no
        known word."""
        tree = self.tree(0)
        named = tree.inputs(False, True)
        words = dict(tree.words)
        stages = ("--mesh", "pp:2,fsdp:4", "--stages", "pp",
                  "--microbatches", "4", *TRAIN, "--format", "json")
        wanted = self.check(run("cost", *named, *stages), 0).json()
        for changed in ({"lm_head": "unembed"}, {"embed_tokens": "head_table"},
                        {"lm_head": "embed_tokens", "embed_tokens": "lm_head"},
                        words):
            with self.subTest(changed=changed):
                tree.words = changed
                odd = tree.inputs(True, True)
                found = self.check(run("cost", *odd, *stages), 0).json()
                self.assertEqual(found["ranks"], wanted["ranks"])
                self.assertEqual(found["time"], wanted["time"])

    def test_a_section_counts_more_than_the_names_of_towers(self):
        """A language model whose container has the name of a vision tower or
        of an encoder, and stages whose costs follow from the section."""
        for seed, words in ((0, {"model": "visual"}),
                            (0, {"model": "encoder", "layers": "vision_model"}),
                            (4, {"mlp": "img", "experts": "audio_tower"})):
            tree = self.tree(seed)
            self.assertLessEqual(set(words), set(tree.words))
            tree.words = words
            for section in (False, True):
                odd = tree.inputs(True, section)
                named = tree.inputs(False, section)
                for settings in (TRAIN, DECODE):
                    with self.subTest(words=words, section=section,
                                      settings=settings):
                        found = self.cost(odd, tree.mesh, settings)
                        self.assertTrue(not section or
                                        not found[0]["at_least"])
                        self.agree(self.cost(named, tree.mesh, settings),
                                   found)

    def test_a_section_shows_the_costs_of_stages(self):
        for seed in (0, 4, 9):
            tree = self.tree(seed)
            bounds = []
            for odd in (False, True):
                inputs = list(tree.inputs(odd, True))
                path = inputs[inputs.index("--rules") + 1]
                with open(path, encoding="utf-8") as file:
                    rules = json.load(file)
                rules["stages"] = {"axis": "pp", "assign": "cost",
                                   "microbatches": 8}
                with open(path, "w", encoding="utf-8") as file:
                    json.dump(rules, file)
                plan = self.check(run("plan", *inputs, "--mesh", "pp:4,fsdp:2",
                                      "--illegal", "shrink"), 0).json()
                bounds.append([stage["layers"] for stage in
                               plan["stages"]["of"]])
            with self.subTest(seed=seed):
                self.assertEqual(*bounds)

    def test_neighbours_show_gates_and_experts(self):
        """`gate` next to an equal `up` is no router, and as many blocks as
        experts are experts, whatever their container is called."""
        for seed, words in (
                (0, {"gate_proj": "gate", "up_proj": "up",
                     "down_proj": "down"}),
                (4, {"experts": "ffns", "gate": "router"})):
            tree = self.tree(seed)
            self.assertLessEqual(set(words), set(tree.words))
            tree.words = words
            odd, named = tree.inputs(True, False), tree.inputs(False, False)
            for settings in (TRAIN, DECODE):
                with self.subTest(seed=seed, settings=settings):
                    found = self.cost(odd, tree.mesh, settings)
                    self.assertFalse(found[0]["at_least"])
                    self.agree(self.cost(named, tree.mesh, settings), found)

    def files(self, name, shapes, rules, model=None):
        """Inputs of parameters, given as {name: shape} or {name: (shape,
        dtype)}, with keys of the config.json that `model` replaces."""
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        params = []
        for key, shape in shapes.items():
            shape, dtype = shape if isinstance(shape, tuple) else (shape, "BF16")
            params.append({"name": key, "shape": shape, "dtype": dtype})
        with open(os.path.join(TESTDATA, "configs", "llama-3-8b.config.json"),
                  encoding="utf-8") as file:
            config = json.load(file)
        config["num_hidden_layers"] = len(
            {number for key in shapes for number in re.findall(r"[./](\d+)[./]", key)})
        files = {"manifest": {"schema": "shardc.manifest/v1", "params": params},
                 "rules": {"version": 1, **rules},
                 "model": {**config, **(model or {})}}
        arguments = []
        for kind, value in files.items():
            path = os.path.join(folder.name, f"{name}.{kind}.json")
            with open(path, "w", encoding="utf-8") as file:
                json.dump(value, file)
            arguments += [f"--{kind}", path]
        return ("--no-project", *arguments)

    def of(self, name, shapes, rules, *more, mesh="fsdp:4,tp:2", model=None):
        """The costs of these parameters."""
        return self.cost(self.files(name, shapes, rules, model), mesh,
                         more or TRAIN)

    ALL = {"rules": [{"match": ".", "spec": "Replicated"}]}

    def layer(self, **renamed):
        """Llama 3 8B with one layer; words in `renamed` replace others."""
        shapes = {"model.embed_tokens.weight": [128256, 4096],
                  "lm_head.weight": [128256, 4096],
                  "model.norm.weight": [4096]}
        for part, shape in (
                ("self_attn.q_proj", [4096, 4096]),
                ("self_attn.k_proj", [1024, 4096]),
                ("self_attn.v_proj", [1024, 4096]),
                ("self_attn.o_proj", [4096, 4096]),
                ("mlp.gate_proj", [14336, 4096]),
                ("mlp.up_proj", [14336, 4096]),
                ("mlp.down_proj", [4096, 14336]),
                ("input_layernorm", [4096]),
                ("post_attention_layernorm", [4096])):
            shapes[f"model.layers.0.{part}.weight"] = shape
        return {".".join(renamed.get(word, word) for word in key.split(".")): shape
                for key, shape in shapes.items()}

    def test_a_config_of_another_model_is_no_evidence(self):
        """`check` reports it (SHD223), and no figure is computed with it."""
        for model, what in (
                ({"num_key_value_heads": 4},
                 "the heads and their size: the configuration gives 4 KV heads "
                 "of 128, and `model.layers.*.self_attn.k_proj.weight` has "
                 "1,024 outputs"),
                ({"num_attention_heads": 16, "head_dim": 128,
                  "num_key_value_heads": 8},
                 "the heads and their size: the configuration gives 16 heads of "
                 "128, and `model.layers.*.self_attn.q_proj.weight` has 4,096 "
                 "outputs"),
                ({"hidden_size": 5120, "head_dim": 128},
                 "the hidden size: the configuration gives 5,120, which is no "
                 "dimension of any matrix"),
                ({"num_hidden_layers": 2},
                 "the number of layers: the configuration gives 2, and the "
                 "parameters are those of 1")):
            with self.subTest(model):
                files = self.files("other", self.layer(), self.ALL, model)
                found, _ = self.cost(files, "tp:4", TRAIN)
                self.assertEqual([one["what"] for one in found["not_known"]], [what])
                self.assertEqual(found["not_known"][0]["settled_by"],
                                 "the config.json of these parameters")
                self.assertNotIn("expected_s", found["time"])
                checked = run("check", *files, "--mesh", "tp:4", "--select",
                              "SHD223", "--format", "json")
                self.assertIn("SHD223", checked.out)
                compared = run("search", *files, "--devices", "8", *TRAIN)
                self.assertEqual(compared.rc, 1, compared.out)
                self.assertIn(what, compared.out)
                # Where shapes show other heads, their text states it.
                shown = [value for at, value in enumerate(files)
                         if "--rules" not in files[max(at - 1, 0):at + 1]]
                suggested = run("suggest", "--mesh", "tp:4", *shown[1:]).out
                self.assertEqual("unlike config.json" in suggested,
                                 what.startswith("the heads"))
        experts = {**self.layer(),
                   "model.layers.0.mlp.experts.gate_up_proj": [16, 4096, 1024],
                   "model.layers.0.mlp.experts.down_proj": [16, 512, 4096],
                   "model.layers.0.mlp.router.weight": [16, 4096]}
        for count, known in ((16, True), (8, False)):
            found, _ = self.of("experts", experts, self.ALL,
                               model={"num_local_experts": count,
                                      "num_experts_per_tok": 2})
            self.assertEqual(
                [one["what"] for one in found["not_known"]],
                [] if known else
                ["the experts: the configuration gives 8, and "
                 "`model.layers.*.mlp.experts.gate_up_proj` has 16"])

    def test_a_tree_is_compared_with_the_one_that_the_config_describes(self):
        layer = self.layer()
        up = "model.layers.0.mlp.up_proj.weight"
        second = {key.replace(".0.", ".1."): shape for key, shape in layer.items()}
        without = {key: shape for key, shape in layer.items()
                   if key != "lm_head.weight"}
        norm = "model.layers.*.input_layernorm.weight"
        adapted = {**layer, "model.layers.0.self_attn.q_proj.lora_A.weight": [8, 4096]}
        packed = {**layer, up: ([7168, 4096], "U8")}
        gptq = {key.replace("up_proj.weight", "up_proj.qweight"): shape
                for key, shape in layer.items()}
        padded = {**layer, "model.embed_tokens.weight": [128512, 4096]}
        for shapes, model, message in (
                (layer, {}, None), (adapted, {}, None), (packed, {}, None),
                (gptq, {}, None), (padded, {}, None),
                (without, {"tie_word_embeddings": True}, None),
                ({**layer, up: [28672, 4096]}, {},
                 f"the configuration describes `{up}` as [14336, 4096], and it is "
                 "[28672, 4096]"),
                ({**layer, up: [28672, 4096],
                  up.replace("up", "down"): [4096, 28672],
                  up.replace("up", "gate"): [28672, 4096]}, {},
                 "the configuration describes "
                 f"`{up.replace('up', 'gate')}` as [14336, 4096], and it is "
                 "[28672, 4096]; 2 other shapes differ"),
                ({**layer, **second}, {"num_hidden_layers": 1},
                 f"the configuration describes 1 parameter `{norm}`, and the "
                 "manifest has 2"),
                (without, {},
                 "the configuration describes 1 parameter `lm_head.weight`, and "
                 "the manifest has none")):
            with self.subTest(message):
                found = run("check", *self.files("tree", shapes, self.ALL, model),
                            "--mesh", "tp:4", "--select", "SHD223", "--format",
                            "json").json()
                self.assertEqual([one["message"] for one in found],
                                 [] if message is None else [message])

    def test_companions_under_odd_names_are_no_further_projections(self):
        for leaf, shape, dtype in (
                ("qzeros", [32, 512], "I32"), ("scales", [32, 4096], "F16"),
                ("weight_scale_inv", [32, 32], "F32"),
                ("g_idx", [4096], "I32")):
            shapes = self.layer()
            shapes[f"model.layers.0.self_attn.o_proj.{leaf}"] = (shape, dtype)
            named = self.of("named", shapes, self.ALL, *DECODE)
            self.assertFalse(named[0]["at_least"], leaf)
            odd = {key.replace(leaf, "drosk"): value
                   for key, value in shapes.items()}
            with self.subTest(leaf=leaf):
                self.agree(named, self.of("odd", odd, self.ALL, *DECODE))

    def test_norms_and_containers_under_odd_names_are_not_taken_for_others(self):
        named = self.of("named", self.layer(), self.ALL)
        for word in ("self_attn", "mlp", "weight", "input_layernorm",
                     "embed_tokens", "o_proj"):
            with self.subTest(word=word):
                odd = self.of("odd", self.layer(**{word: "drosk"}), self.ALL)
                self.assertTrue(odd[0]["at_least"])
                self.agree(named, odd)

    def test_adapters_under_odd_names_may_be_all_that_is_trained(self):
        shapes = self.layer()
        for key in ("q_proj", "v_proj"):
            out = 4096 if key == "q_proj" else 1024
            base = f"model.layers.0.self_attn.{key}."
            shapes[base + "lora_A.default.weight"] = [16, 4096]
            shapes[base + "lora_B.default.weight"] = [out, 16]
        named, _ = self.of("named", shapes, self.ALL)
        self.assertFalse(named["at_least"])
        for words in (("lora_A",), ("lora_B",), ("lora_A", "lora_B")):
            odd = shapes
            for word in words:
                odd = {key.replace(word, "drosk" + word[-1].lower()): value
                       for key, value in odd.items()}
            with self.subTest(words=words):
                found, rc = self.of("odd", odd, self.ALL, *TRAIN, "--memory",
                                    "40GiB")
                self.assertEqual(rc, 1)
                for member in ("gradients", "optimizer", "fits"):
                    self.assertIsNone(found["memory"][member])

    def test_a_mesh_axis_that_only_specs_name_may_shard_activations(self):
        rules = [{"match": r"(q|k|v|gate|up)_proj\.weight$",
                  "spec": ["rows", "fsdp"]},
                 {"match": ".", "spec": "Replicated"}]
        for mode in (TRAIN, DECODE):
            for axes, known in (({}, False), ({"head": "rows",
                                               "kv_head": "rows"}, True)):
                with self.subTest(mode=mode, axes=axes):
                    inputs = self.files("tree", self.layer(), {
                        "rules": rules, **({"axes": axes} if axes else {})})
                    mesh = "fsdp:4,rows:2"
                    found, _ = self.cost(inputs, mesh, mode)
                    plan = inputs[2].replace("manifest", "plan")
                    self.check(run("plan", "-q", *inputs, "--mesh", mesh,
                                   "-o", plan), 0)
                    planned = run("cost", "--plan", plan, *inputs[-2:], *mode,
                                  "--format", "json")
                    same = self.described(planned, planned.rc)
                    self.assertEqual(
                        [fact["what"] for fact in same["not_known"]],
                        [fact["what"] for fact in found["not_known"]])
                    texts = [fact["what"] for fact in found["not_known"]]
                    self.assertEqual(
                        any('"rows" shards besides' in text
                            for text in texts), not known)
                    if not known:
                        self.assertIsNone(found["memory"]["fits"])
                        self.assertNotIn("expected_s", found["time"])
                        if mode is DECODE:
                            self.assertIsNone(found["memory"]["kv_cache"])

    def test_square_weights_have_the_orientation_of_the_others(self):
        """Names say [out, in] where the sizes of siblings say [in, out]."""
        transposed = {key: shape[::-1] if "embed" not in key else shape
                  for key, shape in self.layer().items()}
        rules = {"rules": [
            {"match": r"(q|k|v|gate|up)_proj\.\w+$", "spec": ["fsdp", "tp"]},
            {"match": r"(o|down)_proj\.\w+$", "spec": ["tp", "fsdp"]},
            {"match": ".", "spec": "Replicated"}]}
        kernels = {key.replace("weight", "kernel") if "proj" in key else key:
                   shape for key, shape in transposed.items()}
        by_name, by_sizes = (self.of("tree", one, rules)[0]["communication"]
                             for one in (kernels, transposed))
        self.assertEqual(by_name, by_sizes)
        self.assertTrue(any(one["part"].startswith("attention")
                            for one in by_sizes))

    def test_fused_parts_in_one_range_are_gathered_by_a_compiler(self):
        """`check` states it (SHD230), and `cost` does not know how."""
        shapes = self.layer()
        for part in ("q", "k", "v"):
            del shapes[f"model.layers.0.self_attn.{part}_proj.weight"]
        for part in ("gate", "up"):
            del shapes[f"model.layers.0.mlp.{part}_proj.weight"]
        gate = "model.layers.0.mlp.gate_up_proj.weight"
        qkv = "model.layers.0.self_attn.{}.weight"
        shapes[gate] = [28672, 4096]
        last = [{"match": r"(o|down)_proj\.\w+$", "spec": ["fsdp", "tp"]},
                {"match": ".", "spec": "Replicated"}]

        def unknown(name, qkv_spec, gate_rule):
            tree = {**shapes, qkv.format(name): [6144, 4096]}
            rules = {"rules": [{"match": name, "spec": qkv_spec}, gate_rule,
                               *last]}
            value, _ = self.of("tree", tree, rules)
            return [one["params"] for one in value["not_known"]
                    if "fused" in one["what"]]

        whole = {"match": "gate_up", "spec": ["fsdp", None]}
        split = {"match": "gate_up", "spec": ["tp", "fsdp"]}
        self.assertEqual(unknown("qkv_proj", ["fsdp", None], whole), [])
        self.assertEqual(unknown("qkv_proj", ["fsdp", None], split),
                         [[gate.replace(".0.", ".*.")]])
        self.assertEqual(
            unknown("qkv_proj", ["fsdp", None], {**split, "parts": [2]}), [])
        self.assertEqual(unknown("qkv_proj", ["tp", "fsdp"], whole),
                         [[qkv.format("qkv_proj").replace(".0.", ".*.")]])
        # Megatron-Core's are interleaved by head.
        self.assertEqual(unknown("linear_qkv", ["tp", "fsdp"], whole), [])

    def test_towers_under_odd_names_are_gathered_as_well(self):
        shapes = self.layer()
        for part, shape in (("attn.qkv", [3840, 1280]),
                            ("attn.proj", [1280, 1280]),
                            ("mlp.fc1", [5120, 1280]),
                            ("mlp.fc2", [1280, 5120])):
            shapes[f"model.visual.blocks.0.{part}.weight"] = shape
        rules = {"rules": [
            {"match": r"\.weight$", "spec": ["fsdp"]}]}
        named = self.of("named", shapes, rules)
        for word in ("qkv", "proj", "fc1", "fc2", "attn", "blocks"):
            odd = {".".join("drosk" if one == word and "visual" in key else one
                            for one in key.split(".")): shape
                   for key, shape in shapes.items()}
            with self.subTest(word=word):
                self.agree(named, self.of("odd", odd, rules))

    def test_a_plan_has_the_heads_of_each_layer(self):
        """The config states 8 KV heads; layers have 8, 4, 2 and 8."""
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        with open(os.path.join(TESTDATA, "configs", "llama-3-8b.config.json"),
                  encoding="utf-8") as file:
            config = {**json.load(file), "num_hidden_layers": 4}
        params = []
        for layer, heads in enumerate((8, 4, 2, 8)):
            for part, size in (("q", 4096), ("k", 128 * heads),
                               ("v", 128 * heads)):
                params.append({
                    "name": f"model.layers.{layer}.self_attn.{part}_proj.weight",
                    "shape": [size, 4096], "dtype": "BF16"})
        rules = [{"match": "q_proj", "spec": ["tp"]}, *self.ALL["rules"]]
        inputs = {"model": config, "rules": {"version": 1, "rules": rules},
                  "manifest": {"schema": "shardc.manifest/v1",
                               "params": params}}
        arguments = ["--no-project", "--mesh", "tp:2"]
        for kind, value in inputs.items():
            path = os.path.join(folder.name, kind + ".json")
            with open(path, "w", encoding="utf-8") as file:
                json.dump(value, file)
            arguments += ["--" + kind, path]
        plan = os.path.join(folder.name, "plan.json")
        self.check(run("plan", "-q", *arguments, "-o", plan), 0)
        with open(plan, encoding="utf-8") as file:
            kv = json.load(file)["kv"]
        self.assertEqual({one["heads"]: one["layers"] for one in kv},
                         {2: [[2, 3]], 4: [[1, 2]], 8: [[0, 1], [3, 4]]})
        shown = self.check(run("show", "kv", *arguments, "--ascii"), 0)
        self.assertIn("layers with 2, 4, 8 heads", shown.out)
        self.assertNotRegex(shown.out, r"head +8")

    def test_each_fact_about_a_stage_has_a_text(self):
        tree = self.tree(0)
        tree.words = {name: word for name, word in tree.words.items()
                      if name.endswith("_proj")}
        odd = tree.inputs(True, False)
        done = run("cost", *odd, "--mesh", "pp:2,fsdp:4",
                   "--stages", "pp", "--microbatches", "4", *TRAIN)
        self.assertNotIn(done.rc, (0, 2), done.err)
        lines = [line for line in done.out.splitlines()
                 if line.startswith("not known")]
        self.assertTrue(lines)
        for line in lines:
            self.assertRegex(line, r"^not known: \w", done.out)

    def test_stages_of_odd_names_have_no_times(self):
        """A pipeline's step is as long as all of its stages: an embedding of
        known role gives no time if a projection in layers has none."""
        tree = self.tree(0)
        everything = tree.words
        sizes = ("--stages", "pp", "--microbatches", "4", *TRAIN)
        for words, divided in (
                ({"q_proj": everything["q_proj"]}, True),
                ({word: other for word, other in everything.items()
                  if word.endswith("_proj")}, True),
                (everything, False)):
            tree.words = words
            odd = tree.inputs(True, False)
            with self.subTest(words=words):
                fit = ("search", "--all", *odd, "--devices", "8", "--axes", "pp,fsdp,tp",
                       *sizes)
                value = self.check(run(*fit, "--format", "json"), 1).json()
                self.assertTrue(value["at_least"])
                self.assertTrue(value["not_known"][0]["params"])
                self.assertEqual(any(mesh["legal"]
                                     for mesh in value["meshes"]), divided)
                for mesh in value["meshes"]:
                    self.assertIsNone(mesh["rank"])
                    self.assertIsNone(mesh["seconds"])
                    self.assertIsNone(mesh["communication"])
                    self.assertIsNot(mesh["fits"], True)
                    if mesh["legal"]:
                        self.assertIsNone(mesh["stages"]["bubble"])
                text = self.check(run(*fit), 1).out
                self.assertIn("not known: the role of ", text)
                self.assertNotRegex(text, r"\d %|\bms\b|\bus\b|tie|bubble")
                if not divided:
                    continue
                cost = ("cost", *odd, "--mesh", "pp:2,fsdp:4", *sizes)
                value = self.check(run(*cost, "--format", "json"), 1).json()
                for member in ("schedule", "step", "step_bubble"):
                    self.assertIsNone(value["time"][member])
                for rank in value["ranks"]:
                    self.assertIsNone(rank["communication"])
                    self.assertIsNone(rank["busy"])
                self.assertNotRegex(self.check(run(*cost), 1).out,
                                    r"\d %|bubble|step ")

    def test_a_report_of_odd_names_states_what_is_not_known(self):
        tree = self.tree(0)
        odd = tree.inputs(True, False)
        report = ("report", *odd, "--mesh", tree.mesh)
        page = self.check(run(*report, *TRAIN), 1).out
        self.assertIn("What is sent is not known.", page)
        self.assertNotIn("No communication.", page)
        self.assertIn("Not known</h2>", page)
        self.assertIn("at least ", page)
        # Without the sizes of a step no verdict is wanted.
        self.assertNotIn("No communication.", self.check(run(*report), 0).out)

    def test_no_tensor_parallel_plan_of_odd_names(self):
        """The styles of modules follow from what they do."""
        tree = self.tree(len(MODELS))
        self.assertEqual(tree.mesh, "tp:8")
        everything = tree.words
        for words, name in (
                ({"weight": everything["weight"]}, everything["weight"]),
                (everything, everything["q_proj"])):
            tree.words = words
            odd = tree.inputs(True, False)
            with self.subTest(words=words):
                done = self.check(run("export", "hf-tp-plan", *odd, "--mesh",
                                      "tp:8"), 2)
                self.assertEqual(done.out, "")
                self.assertIn("nothing shows what the modules do", done.err)
                self.assertIn(name, done.err)
        tree.words = {"input_layernorm": "zorp"}
        named = ("export", "hf-tp-plan", *tree.inputs(True, False), "--mesh",
                 "tp:8")
        self.assertIn("colwise", self.check(run(*named), 0).out)

    def test_a_vector_of_no_layer_and_not_memory_forbids_a_pipeline(self):
        tree = self.tree(0)
        tree.words = {"norm": tree.words["norm"]}
        odd = tree.inputs(True, False)
        search = ("search", *odd, "--devices", "8", *TRAIN[:4], *TRAIN[-2:],
                  "--prove", "0")
        value = run(*search, "--format", "json").json()
        self.assertIsNone(value["pipeline"])
        self.assertIsNone(value["winner"])
        text = self.check(run(*search), 1).out
        self.assertIn("not known: the role of 1 vector", text)
        self.assertNotIn("none that fits", text)

    def test_pictures_and_stages_give_no_share_of_odd_names(self):
        tree = self.tree(0)
        odd = tree.inputs(True, False)
        sizes = (*TRAIN[:4], "--memory", "80GiB")
        shown = self.check(run("show", "memory", *odd, "--mesh", "fsdp:8",
                               *sizes), 1).out
        self.assertIn("at least", shown)
        self.assertNotRegex(shown, r"\d %")
        tree.words = {name: word for name, word in tree.words.items()
                      if name.endswith("_proj")}
        odd = tree.inputs(True, False)
        staged = self.check(run(
            "cost", *odd, "--mesh", "pp:2,fsdp:4", "--stages", "pp",
            "--microbatches", "4", *sizes), 1).out
        self.assertIn("at least", staged)
        self.assertNotRegex(staged, r"\d %")

    def test_one_matrix_of_unknown_role_is_enough(self):
        """Only the head has an odd name: without its role the logits are not
        known, so nothing is stated about the memory that is left."""
        tree = self.tree(0)
        self.assertIn("lm_head", tree.words)
        tree.words = {"lm_head": "unlex"}
        odd = tree.inputs(True, False)
        named = tree.inputs(False, False)
        value, rc = self.cost(odd, "fsdp:8", TRAIN)
        self.agree(self.cost(named, "fsdp:8", TRAIN), (value, rc))
        self.assertEqual([fact["params"] for fact in value["not_known"]
                          if fact["params"]], [["unlex.weight"]])
        self.assertIsNone(value["memory"]["logits"])


if __name__ == "__main__":
    unittest.main()
