"""Structure that names do not show, by the commands other than `check`: KV heads
next to linear attention, experts that files store transposed, the layers of
trees with LoRA adapters, dimensions with parts, and registered axis fields.
The lints about structure have tests in tests/lint/rules/structure_test.cc."""

import gzip
import json
import os
import re
import tempfile
import unittest

from driver import TESTDATA, Case, run

REPORTS = os.path.join(TESTDATA, "reports")


def write(folder, name, value):
    path = os.path.join(folder, name)
    with open(path, "w", encoding="utf-8") as file:
        file.write(value if isinstance(value, str) else json.dumps(value))
    return path


def manifest(params):
    return {"schema": "shardc.manifest/v1", "separator": ".", "params": {
        name: {"shape": shape, "dtype": "BF16"}
        for name, shape in params.items()}}


class KvHeads(Case):
    """Layers with KV heads that are fewer than the devices, next to layers with
    linear attention, whose query, key and value are one matrix."""

    def plan(self, mixer, params, rc):
        keys, values, size = mixer
        with tempfile.TemporaryDirectory() as folder:
            rules = write(folder, "r.yaml", """version: 1
separator: "."
kv_replicate: true
rules:
  - {match: '(q|k|v)_proj\\.weight$', spec: [tp, null]}
  - {match: 'qkv\\.weight$', spec: [tp, null]}
  - {match: '.*', spec: []}
""")
            width = 2 * keys * size + values * size
            tree = {"layers.0.self_attn.q_proj.weight": [1024, 512],
                    "layers.0.self_attn.k_proj.weight": [128, 512],
                    "layers.0.self_attn.v_proj.weight": [128, 512]}
            tree.update({name: [width if n == "W" else n for n in shape]
                         for name, shape in params.items()})
            model = write(folder, "c.json", {
                "model_type": "llama", "hidden_size": 512,
                "num_attention_heads": 16, "num_key_value_heads": 2,
                "head_dim": 64, "num_hidden_layers": 2})
            got = run("plan", "--no-project", "--mesh", "tp:4", "--rules",
                      rules, "--manifest", write(folder, "m.json",
                                                 manifest(tree)),
                      "--model", model, "-q")
            self.assertEqual(got.rc, rc, got.err)
            return got.err

    def test_linear_attention_has_no_kv_heads(self):
        for mixer, block, conv in (
                ((16, 32, 32), "linear_attn", "conv1d.weight"),
                ((8, 8, 64), "delta", "short.kernel"),
                ((4, 16, 16), "scan", "taps.weight")):
            with self.subTest(block=block):
                path = f"layers.1.{block}."
                self.plan(mixer, {path + "in_proj_qkv.weight": ["W", 512],
                                  path + conv: ["W", 1, 4]}, 0)
        self.plan((16, 32, 32), {
            "layers.1.gdn.A_log": [32],
            "layers.1.gdn.in_proj_qkv.weight": ["W", 512]}, 0)

    def test_groups_of_a_mixer_are_no_kv_heads(self):
        """B and C of Mamba-2, and the keys of a gated delta net: those of a program,
        and those of a configuration whose split ends inside a group."""
        for name, mixers in (("programs/mamba2", 32), ("programs/gdn", 16),
                             ("torch_programs/mamba2", 48),
                             ("torch_programs/qwen3_next", 24)):
            got = run("explain", "--program",
                      os.path.join(TESTDATA, name + ".program.json.gz"))
            self.assertEqual(got.out.count("state_groups 2"), mixers, name)
            for line in got.out.splitlines():
                if "state_groups" in line:
                    self.assertNotIn("kv_heads", line)
        rules = {"version": 1, "separator": ".", "rules": [
            {"match": r"in_proj|conv1d|(A_log|dt_bias|D|mixer\.norm\.weight)$",
             "spec": ["tp"]}, {"match": "out_proj", "spec": [None, "tp"]},
            {"match": ".*", "spec": []}]}
        for groups, tp in ((2, 4), (3, 2), (1, 8)):
            model = {"model_type": "mamba2", "num_heads": 24 * groups, "head_dim": 64,
                     "n_groups": groups, "state_size": 64,
                     "hidden_size": 24 * groups * 32, "expand": 2, "vocab_size": 1024,
                     "num_hidden_layers": 2, "conv_kernel": 4, "use_conv_bias": True,
                     "use_bias": False, "tie_word_embeddings": True}
            with self.subTest(groups=groups), tempfile.TemporaryDirectory() as folder:
                got = run("check", "--no-project", "--mesh", f"tp:{tp}", "--rules",
                          write(folder, "r.yaml", rules), "--model",
                          write(folder, "c.json", model))
                self.assertNotIn("KV head", got.out + got.err)
                self.assertRegex(got.out + got.err, "groups? of B and C")
                self.assertRegex(got.out + got.err, f"{groups} state groups? of 64")

    def test_one_matrix_of_attention_is_still_refused(self):
        err = self.plan((2, 16, 64), {
            "layers.1.self_attn.qkv.weight": [1280, 512]}, 1)
        self.assertIn("query heads next to KV heads", err)


class TransposedExperts(Case):
    """A plan of transformers shards the loaded weights. Files may store stacked
    experts transposed."""

    def specs(self, plan, params):
        with tempfile.TemporaryDirectory() as folder:
            out = os.path.join(folder, "r.yaml")
            got = run("import", "hf-tp-plan", write(folder, "p.json", plan),
                      "--manifest", write(folder, "m.json", manifest(params)),
                      "-o", out)
            self.assertEqual(got.rc, 0, got.err)
            with open(out, encoding="utf-8") as file:
                text = file.read()
        return text, [tuple(spec.split(", ")) for spec in
                      re.findall(r"spec: \[(.*)\]", text)]

    def test_the_dimensions_with_the_inner_size_are_sharded(self):
        for experts, hidden, inner, name in ((128, 2048, 768, "experts"),
                                             (16, 512, 512, "pool"),
                                             (4, 96, 160, "guild"),
                                             (8, 64, 32, "moe")):
            packed = {f"layers.*.{name}.gate_up_proj": "packed_colwise",
                      f"layers.*.{name}.down_proj": "rowwise"}
            at = f"layers.0.{name}."
            with self.subTest(name=name, stored="transposed"):
                text, specs = self.specs(packed, {
                    at + "gate_up_proj": [experts, hidden, 2 * inner],
                    at + "down_proj": [experts, inner, hidden]})
                self.assertEqual(specs[:2], [("null", "null", "tp"),
                                             ("null", "tp")])
                self.assertIn("parts: [null, null, 2]", text)
                self.assertIn("[experts, in, out]", text)
            with self.subTest(name=name, stored="as loaded"):
                text, specs = self.specs(packed, {
                    at + "gate_up_proj": [experts, 2 * inner, hidden],
                    at + "down_proj": [experts, hidden, inner]})
                self.assertEqual(specs[:2], [("null", "tp"),
                                             ("null", "null", "tp")])
                self.assertNotIn("[experts, in, out]", text)

    def test_a_plan_for_transposed_weights_is_kept(self):
        # Llama 4 holds its experts as [experts, in, out] when they are loaded.
        _, specs = self.specs(
            {"layers.*.experts.gate_up_proj": "packed_rowwise",
             "layers.*.experts.down_proj": "colwise"},
            {"layers.0.experts.gate_up_proj": [16, 512, 256],
             "layers.0.experts.down_proj": [16, 128, 512]})
        self.assertEqual(specs[:2], [("null", "null", "tp"), ("null", "tp")])


def decoder(layers, hidden, inner, heads, kv, size, vocab, rank=0,
            modules=("q_proj", "k_proj", "v_proj", "o_proj", "gate_proj",
                     "up_proj", "down_proj")):
    """A tree, with PEFT's names and adapters if `rank` is above 0."""
    root = "base_model.model.model." if rank else "model."
    tree = {root + "embed_tokens.weight": [vocab, hidden],
            root + "norm.weight": [hidden]}
    tree[root.removesuffix("model.") + "lm_head.weight"] = [vocab, hidden]
    shapes = {"self_attn.q_proj": [heads * size, hidden],
              "self_attn.k_proj": [kv * size, hidden],
              "self_attn.v_proj": [kv * size, hidden],
              "self_attn.o_proj": [hidden, heads * size],
              "mlp.gate_proj": [inner, hidden], "mlp.up_proj": [inner, hidden],
              "mlp.down_proj": [hidden, inner]}
    for layer in range(layers):
        at = f"{root}layers.{layer}."
        tree[at + "input_layernorm.weight"] = [hidden]
        tree[at + "post_attention_layernorm.weight"] = [hidden]
        for name, shape in shapes.items():
            if rank == 0 or name.split(".")[1] not in modules:
                tree[at + name + ".weight"] = shape
                continue
            tree[at + name + ".base_layer.weight"] = shape
            tree[at + name + ".lora_A.default.weight"] = [rank, shape[1]]
            tree[at + name + ".lora_B.default.weight"] = [shape[0], rank]
    config = {"model_type": "llama", "hidden_size": hidden,
              "intermediate_size": inner, "num_attention_heads": heads,
              "num_key_value_heads": kv, "head_dim": size,
              "num_hidden_layers": layers, "vocab_size": vocab,
              "hidden_act": "silu", "max_position_embeddings": 4096}
    return tree, config


RULES = """version: 1
separator: "."
rules:
  - {match: 'lora_', spec: []}
  - {match: '(embed_tokens|lm_head)\\.weight$', spec: [VOCAB, [FSDP, SP]]}
  - {match: 'q_proj\\.(base_layer\\.)?weight$', spec: [HEAD, [FSDP, SP]]}
  - {match: '(k|v)_proj\\.(base_layer\\.)?weight$', spec: [KV_HEAD, [FSDP, SP]]}
  - {match: 'o_proj\\.(base_layer\\.)?weight$', spec: [[FSDP, SP], HEAD]}
  - {match: '(gate|up)_proj\\.(base_layer\\.)?weight$', spec: [MLP_INTERMEDIATE, [FSDP, SP]]}
  - {match: 'down_proj\\.(base_layer\\.)?weight$', spec: [[FSDP, SP], MLP_INTERMEDIATE]}
  - {match: '.*', spec: []}
"""


class Adapters(Case):
    """Layers are those of the base, whatever adapters it has."""

    def cost(self, folder, tree, config, *flags, rc=0, mesh="fsdp:2,tp:2"):
        model = ["--model", write(folder, "c.json", config)] if config else []
        got = run("cost", "--no-project", "--mesh", mesh, "--rules",
                  write(folder, "r.yaml", RULES), "--manifest",
                  write(folder, "m.json", manifest(tree)), *model,
                  "--batch", "4", "--seq", "128", "--format", "json", *flags)
        self.assertEqual(got.rc, rc, got.err + got.out[:2000])
        return json.loads(got.out)

    def test_activations_are_those_of_the_base(self):
        for sizes in ((4, 64, 128, 4, 2, 16, 256), (7, 96, 256, 6, 2, 16, 320),
                      (2, 128, 384, 8, 8, 16, 512)):
            for modules in (("q_proj", "v_proj"), ("down_proj",),
                            ("q_proj", "k_proj", "v_proj", "o_proj",
                             "gate_proj", "up_proj", "down_proj")):
                with self.subTest(sizes=sizes, modules=modules), \
                        tempfile.TemporaryDirectory() as folder:
                    base = self.cost(folder, *decoder(*sizes))
                    tree, config = decoder(*sizes, rank=8, modules=modules)
                    lora = self.cost(folder, tree, config)
                    without = self.cost(folder, tree, None)
                    self.assertEqual(lora["memory"]["activations"],
                                     base["memory"]["activations"])
                    self.assertLess(
                        lora["memory"]["optimizer"],
                        base["memory"]["optimizer"])
                    # Without a configuration the heads are not known, and neither
                    # is the sum that attention keeps for each of them. The total
                    # has the other tensors.
                    self.assertIsNone(without["memory"]["activations"])
                    self.assertIsNone(without["time"]["flops"])
                    self.assertTrue(without["at_least"])
                    self.assertLessEqual(without["memory"]["total"],
                                         lora["memory"]["total"])
                    self.assertGreater(without["memory"]["total"],
                                       0.9 * lora["memory"]["total"])

    def test_qwen3_32b_has_64_layers_with_adapters(self):
        at = os.path.join(REPORTS, "qwen3-32b-lora")
        with tempfile.TemporaryDirectory() as folder:
            with gzip.open(os.path.join(at, "manifest.json.gz"), "rt",
                           encoding="utf-8") as file:
                tree = write(folder, "m.json", file.read())
            got = run("cost", "--no-project", "--mesh", "fsdp:2,tp:2",
                      "--rules", os.path.join(at, "rules.yaml"), "--manifest",
                      tree, "--batch", "4", "--seq", "4096", "--profile",
                      "h100-sxm", "--explain")
        self.assertRegex(got.out, r"layer_input +80 MiB +64 +kept")

    def test_public_models_have_one_figure_under_each_naming(self):
        """Memory, bytes and time of a step of LoRA: each figure is one under all names
        of adapters, and without a configuration it is the same one or not known. Only
        the total of memory is a lower bound."""
        known = {}
        for model in ("qwen3-32b", "llama-3.1-8b", "llama-3.1-70b", "mistral-7b",
                      "gemma-2-9b"):
            path = os.path.join(TESTDATA, "configs", model + ".config.json")
            with open(path, encoding="utf-8") as file:
                config = json.load(file)
            shown = run("show", "manifest", "--no-project", "--model", path,
                        "--format", "json")
            base = {one["name"]: one["shape"]
                    for one in json.loads(shown.out)["params"]}
            figures = {}
            for title, root, down, up in (
                    ("base", "", "", ""),
                    ("PEFT", "base_model.model.", "lora_A.default",
                     "lora_B.default"),
                    ("own", "net.", "lora_a", "lora_b"),
                    ("unknown", "net.", "dn", "uq")):
                tree = self.with_adapters(base, root, down, up) if down else base
                with tempfile.TemporaryDirectory() as folder:
                    figures[title] = [self.priced(folder, tree, one)
                                      for one in (config, None)]
            with self.subTest(model):
                self.assertEqual(figures["PEFT"], figures["own"])
                for part in ("activations", "logits"):
                    self.assertEqual(figures["PEFT"][0]["memory." + part],
                                     figures["base"][0]["memory." + part])
                heads = config["num_attention_heads"] // 2  # over tp 2
                sums = config["num_hidden_layers"] * heads * (4 * 4096 // 2) * 4
                for title in ("base", "PEFT"):
                    stated, without = figures[title]
                    self.assertEqual(stated["not_known"], [])
                    self.assertTrue(without["not_known"])
                    for name, figure in without.items():
                        if figure is not None and name not in ("not_known",
                                                               "memory.total"):
                            self.assertEqual(figure, stated[name], name)
                    self.assertIsNone(without["time.flops"])
                    for name in ("time.least_s", "time.expected_s"):
                        self.assertIsNone(without.get(name), name)
                    self.assertEqual(without["communication_bytes.total"],
                                     stated["communication_bytes.total"])
                    lacks = without["memory.activations"] is None
                    self.assertEqual("memory.peak" not in without, lacks)
                    self.assertIsNot(without["memory.fits"], True)
                    # Memory that is allocated in blocks is a few percent more.
                    more = stated["memory.total"] - without["memory.total"]
                    self.assertLessEqual(sums if lacks else 0, more)
                    self.assertLessEqual(more, 1.06 * sums if lacks else 0)
                known[model] = not lacks
                for one in figures["unknown"]:
                    self.assertTrue(one["not_known"])
                    for name, figure in one.items():
                        if name.startswith("communication_bytes.") or (
                                name.startswith("time.")):
                            self.assertIsNone(figure, name)
                    for part in ("gradients", "optimizer", "activations"):
                        self.assertIsNone(one["memory." + part])
        # The norms of Qwen3's queries show how many heads there are.
        self.assertEqual([model for model, one in known.items() if one], ["qwen3-32b"])

    def test_parameters_show_the_heads(self):
        """A dimension of heads, the norm of a head and sinks show their number, in
        trees of other sizes and names; a norm of all columns, and parameters that
        disagree, do not."""
        for heads, size, layers in ((4, 16, 3), (6, 32, 2), (24, 64, 5)):
            width = heads * size
            base = {"embed_tokens.weight": [256, 96], "lm_head.weight": [256, 96]}
            for layer in range(layers):
                at = f"layers.{layer}."
                base |= {at + "self_attn.q_proj.weight": [width, 96],
                         at + "self_attn.k_proj.weight": [size * 2, 96],
                         at + "self_attn.v_proj.weight": [size * 2, 96],
                         at + "self_attn.o_proj.weight": [96, width],
                         at + "input_layernorm.weight": [96],
                         at + "mlp.up_proj.weight": [160, 96],
                         at + "mlp.down_proj.weight": [96, 160]}
            config = {"model_type": "llama", "hidden_size": 96, "vocab_size": 256,
                      "num_attention_heads": heads, "num_key_value_heads": 2,
                      "head_dim": size, "num_hidden_layers": layers,
                      "intermediate_size": 160}
            flax = {"embedder.embedding": [256, 96], "lm_head.kernel": [96, 256]}
            for layer in range(layers):
                at = f"layers_{layer}."
                flax |= {at + "attn.query.kernel": [96, heads, size],
                         at + "attn.key.kernel": [96, 2, size],
                         at + "attn.value.kernel": [96, 2, size],
                         at + "attn.out.kernel": [heads, size, 96],
                         at + "norm.scale": [96],
                         at + "mlp.up.kernel": [96, 160],
                         at + "mlp.down.kernel": [160, 96]}
            every = [f"layers.{layer}.self_attn." for layer in range(layers)]
            normed = base | {at + "q_norm.weight": [size] for at in every}
            for title, tree, shown in (
                    ("none", base, False), ("norm", normed, True),
                    ("all columns",
                     base | {at + "q_norm.weight": [width] for at in every}, False),
                    ("sinks", base | {at + "sinks": [heads] for at in every}, True),
                    ("disagree",
                     normed | {at + "sinks": [heads + 1] for at in every}, False),
                    ("dimension", flax, True)):
                with self.subTest(title, heads=heads), \
                        tempfile.TemporaryDirectory() as folder:
                    without = self.cost(folder, tree, None)["memory"]
                    stated = self.cost(folder, tree, config)["memory"]
                    if shown:
                        self.assertEqual(without["activations"],
                                         stated["activations"])
                    else:
                        self.assertIsNone(without["activations"])
                    # Which tensors a policy keeps by name depends on more facts.
                    named = self.cost(folder, tree, None, "--remat",
                                      "save_only_these_names(q_proj)")["memory"]
                    self.assertIsNone(named["activations"])

    def test_an_unknown_part_hides_no_mesh(self):
        """Where only the sums of attention are missing, a mesh is chosen, memory is
        drawn and meshes are compared as before."""
        tree, _ = decoder(4, 64, 128, 4, 2, 16, 256, rank=8)
        with tempfile.TemporaryDirectory() as folder:
            files = ["--manifest", write(folder, "m.json", manifest(tree))]
            ruled = ["--no-project", "--rules", write(folder, "r.yaml", RULES), *files]
            step = ["--batch", "4", "--seq", "128"]
            sized = run("show", "memory", *ruled, "--mesh", "fsdp:2,tp:2", *step,
                        "--memory", "8GiB")
            self.assertEqual(sized.rc, 0, sized.err)
            self.assertIn("at least", sized.out)
            small = run("show", "memory", *ruled, "--mesh", "fsdp:2,tp:2", *step,
                        "--memory", "16KiB")
            self.assertEqual(small.rc, 1, small.err)
            verdicts = {}
            for memory in ("8GiB", "16KiB"):
                got = run("cost", *ruled, "--mesh", "fsdp:2,tp:2", *step, "--memory",
                          memory, "--format", "json")
                self.assertEqual(got.rc, 1)
                verdicts[memory] = json.loads(got.out)["memory"]["fits"]
            self.assertEqual(verdicts, {"8GiB": None, "16KiB": False})

    def test_bytes_of_attention_over_a_sequence_are_not_known_without_heads(self):
        tree, config = decoder(4, 64, 128, 4, 2, 16, 256, rank=8)
        with tempfile.TemporaryDirectory() as folder:
            got = [self.cost(folder, tree, one, mesh="sp:2,tp:2")
                   for one in (config, None)]
        self.assertGreater(got[0]["communication_bytes"]["total"], 0)
        self.assertIsNone(got[1]["communication_bytes"]["total"])
        self.assertIsNone(got[1]["communication_bytes"]["per_token"])

    @staticmethod
    def with_adapters(base, root, down, up):
        tree = {}
        for name, shape in base.items():
            if not name.endswith("_proj.weight"):
                tree[root + name] = shape
                continue
            at = root + name.removesuffix(".weight")
            tree[at + ".base_layer.weight"] = shape
            tree[f"{at}.{down}.weight"] = [8, shape[1]]
            tree[f"{at}.{up}.weight"] = [shape[0], 8]
        return tree

    @staticmethod
    def priced(folder, tree, config):
        """The figures of a step on H100s, by their paths, and what is not known."""
        model = ["--model", write(folder, "c.json", config)] if config else []
        got = run("cost", "--no-project", "--mesh", "fsdp:2,tp:2", "--rules",
                  write(folder, "r.yaml", RULES), "--manifest",
                  write(folder, "m.json", manifest(tree)), *model, "--batch", "4",
                  "--seq", "4096", "--profile", "h100-sxm", "--format", "json")
        shown = json.loads(got.out)
        return {"not_known": [one["what"] for one in shown["not_known"]],
                **{f"{part}.{name}": figure
                   for part in ("memory", "communication_bytes", "time")
                   for name, figure in shown[part].items()
                   if name not in ("tokens", "profile", "least")}}

    def test_adapters_of_other_names_are_not_known(self):
        tree, config = decoder(4, 64, 128, 4, 2, 16, 256, rank=8)
        renamed = {name.replace("lora_A.default", "dn").replace(
            "lora_B.default", "uq"): shape for name, shape in tree.items()}
        with tempfile.TemporaryDirectory() as folder:
            got = self.cost(folder, renamed, config)
        self.assertTrue(got["not_known"])
        for part in ("gradients", "optimizer", "activations"):
            self.assertIsNone(got["memory"][part])


class Facts(Case):
    def test_a_stream_of_parts_has_facts(self):
        path = os.path.join(REPORTS, "canine-parts", "program.json.gz")
        got = run("explain", "--program", path)
        self.assertEqual(got.rc, 0, got.err)
        self.assertIn("stream 6 | stream 6", got.out)

    def test_rows_that_are_set_by_index_are_those_of_the_whole(self):
        """An adapter's rows are set at the rows of query and value among zeros, and
        added to the fused projection: they have its heads."""
        for name, param, wanted in (
                ("query-value", "transformer.h.0.attn.qkv.lora_B",
                 ["(kv_heads 2 x group 3 x (head_dim 4 | head_dim 4) | "
                  "kv_heads 2 x head_dim 8)",
                  "tied to transformer.h.0.attn.qkv.linear.weight dimension 0",
                  "transformer.h.0.attn.proj.linear.weight dimension 1"]),
                ("query-value-wide", "l.0.b",
                 ["kv_heads 4 x group 2 x head_dim 16 | kv_heads 4 x head_dim 16",
                  "tied to l.0.linear.weight dimension 0"]),
                ("key-value", "l.1.b",
                 ["kv_heads 2 x head_dim 16 | kv_heads 2 x head_dim 16",
                  "tied to l.1.linear.weight dimension 0"]),
                ("value", "l.0.b", ["kv_heads 3 x head_dim 16",
                                    "tied to l.0.linear.weight dimension 0"])):
            with self.subTest(name):
                got = run("explain", param, "--program", os.path.join(
                    REPORTS, "scattered-adapter", name + ".program.json.gz"))
                self.assertEqual(got.rc, 0, got.err)
                for text in wanted:
                    self.assertIn(text, re.sub(r" and l\.[^ ]+ dimension \d",
                                               "", got.out))

    def suggested(self, name, mesh):
        with tempfile.TemporaryDirectory() as folder:
            out = os.path.join(folder, "r.yaml")
            got = run("suggest", "--no-project", "--program", os.path.join(
                REPORTS, "sentences-of-programs", name + ".program.json.gz"),
                "--mesh", mesh, "-o", out)
            self.assertEqual(got.rc, 0, got.err)
            with open(out, encoding="utf-8") as file:
                return re.sub(r"\s*\n *#\s*", " ", file.read())

    def test_sentences_about_a_mixer_do_not_name_heads(self):
        """Mamba-1 has no heads, no query and no feed-forward block; its stream is the
        width of its embedding, although its inner width is in more dots."""
        for mesh in ("fsdp:2,tp:4", "fsdp:4,tp:2", "fsdp:4,tp:4"):
            text = self.suggested("mamba1", mesh)
            self.assertIn("width 256", text)
            for word in ("heads", "Query", "Feed-forward", "gate and up"):
                self.assertNotIn(word, text)

    def test_no_sentence_states_that_heads_do_not_divide_which_do(self):
        text = self.suggested("moe_sort", "fsdp:2,tp:4")
        self.assertNotIn("Heads do not divide", text)
        self.assertIn("although tp 4 divides them", text)


class Policies(Case):
    def test_a_policy_is_about_the_rules_of_files_that_it_extends(self):
        with tempfile.TemporaryDirectory() as folder:
            tree = write(folder, "m.json", manifest({"a.q": [10, 8]}))
            write(folder, "base.yaml", """version: 1
rules:
  - {match: 'q', spec: [tp, null], illegal: shrink}
""")
            for policy, spec in (("", [None, None]),
                                 ("policy: {illegal: pad}", ["tp", None]),
                                 ("policy: {min_size: 0}", [None, None])):
                rules = write(folder, "r.yaml", f"""version: 1
extends: [base.yaml]
{policy}
rules: []
""")
                got = run("plan", "--no-project", "--mesh", "tp:4", "--rules",
                          rules, "--manifest", tree)
                self.assertEqual(got.rc, 0, got.err)
                self.assertEqual(json.loads(got.out)["params"]["a.q"]["spec"], spec)

    def test_what_the_help_of_an_indivisible_dimension_writes_is_accepted(self):
        """The policy in the rule, as the help states it, makes the plan legal; a
        policy at the top of the file is refused with the line that is accepted."""
        tree = manifest({"a.up.weight": [10, 64], "a.gu.weight": [12, 64]})
        tree["params"]["a.block.weight"] = {"shape": [64, 96], "dtype": "Q4_0"}
        with tempfile.TemporaryDirectory() as folder:
            tree = write(folder, "m.json", tree)

            def checked(rule, top=""):
                rules = write(folder, "r.yaml", f"""version: 1
{top}
rules:
  - {{{rule}}}
  - {{match: '.*', spec: []}}
""")
                return run("check", "--no-project", "--mesh", "tp:4", "--rules", rules,
                           "--manifest", tree)
            for rule, policies in (
                    ("match: 'up', spec: [tp, null]", ("shrink", "pad")),
                    ("match: 'gu', spec: [tp, null], parts: [2]", ("shrink",)),
                    ("match: 'block', spec: [null, tp]", ("shrink",))):
                said = checked(rule)
                self.assertIn("error[SHD202", said.err + said.out)
                help_ = (said.err + said.out).split("= help: ")[1].split("\n")[0]
                self.assertEqual(re.findall("`illegal: ([a-z]+)`", help_),
                                 list(policies), help_)
                for policy in policies:
                    fixed = checked(f"{rule}, illegal: {policy}")
                    self.assertNotIn("error[SHD202", fixed.err + fixed.out)
            for key, policy in (("illegal", "pad"), ("unmatched", "replicate"),
                                ("min_size", "1024"), ("compat", "eformer")):
                said = checked("match: 'up', spec: [tp, null]", f"{key}: {policy}")
                self.assertEqual(said.rc, 2)
                line = f"policy: {{{key}: {policy}}}"
                self.assertIn(f"`{line}`", said.err + said.out)
                accepted = checked("match: 'up', spec: [tp, null]", line)
                self.assertNotIn("SHD021", accepted.err + accepted.out)

    def test_devices_of_a_data_axis_do_not_have_the_same_work(self):
        with tempfile.TemporaryDirectory() as folder:
            tree = write(folder, "m.json", manifest({"a.up.weight": [64, 32]}))
            rules = write(folder, "r.yaml", """version: 1
rules:
  - {match: 'up', spec: [tp, null]}
""")
            for axis, same in (("replica", False), ("ddp", False), ("x", True)):
                got = run("check", "--no-project", "--mesh", f"{axis}:2,tp:4",
                          "--rules", rules, "--manifest", tree)
                self.assertIn(f"nothing uses mesh axis `{axis}`", got.err + got.out)
                self.assertEqual("do the same work" in got.err + got.out, same)


class Registrations(Case):
    def test_a_field_of_partition_axis_is_its_axis_rule(self):
        with tempfile.TemporaryDirectory() as folder:
            tree = write(folder, "m.json", manifest({"a.q": [8, 8]}))
            for key, used in (("head_axis", "head"), ("head", "head_axis"),
                              ("head_axis", "head_axis"),
                              ("vocab_axis", "vocab")):
                with self.subTest(key=key, used=used):
                    rules = write(folder, "r.yaml", f"""version: 1
register:
  {key}: {{rule: sp}}
rules:
  - {{match: 'q', spec: [{used}, null]}}
""")
                    got = run("plan", "--no-project", "--mesh", "tp:2,sp:2",
                              "--rules", rules, "--manifest", tree)
                    self.assertEqual(got.rc, 0, got.err)
                    self.assertEqual(
                        json.loads(got.out)["params"]["a.q"]["spec"][0], "sp")


if __name__ == "__main__":
    unittest.main()
