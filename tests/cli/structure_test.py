"""`check` finds the structure of models by shapes: matrices that hold several
parts, heads by layer, and what is split together (testdata/reports)."""

import json
import os
import re
import tempfile
import unittest

from driver import Case, TESTDATA, run

REPORTS = os.path.join(TESTDATA, "reports")

# The parameter and the parts that `check` states, by manifest.
FUSED = {
    "f_flux": {"attn.to_qkv_mlp_proj.weight":
               "queries, keys and values each 3072 and gate and up each 9216"},
    "f_gdn35": {"linear_attn.in_proj_qkv.weight":
                "queries 2048, keys 2048 and values 4096",
                "linear_attn.conv1d.weight":
                "queries 2048, keys 2048 and values 4096"},
    "f_granite_shared": {"shared_mlp.input_linear.weight":
                         "gate and up each 1536"},
    "f_lfm2": {"conv.in_proj.weight": "3 equal parts, each 2048"},
    "f_linear_fc1": {"mlp.linear_fc1.weight": "gate and up each 6144"},
    "megatron": {"self_attention.in_proj.weight":
                 "queries 2048, keys 2048, values 4096, gate 4096, beta 32 and "
                 "decay 32",
                 "self_attention.conv1d.weight":
                 "queries 2048, keys 2048 and values 4096",
                 "mlp.linear_fc1.weight": "gate and up each 6144"},
}
ABOUT_PARTS = ("SHD221", "SHD230", "SHD232")


def named(folder, name):
    return os.path.join(REPORTS, folder, name)


def renamed(name):
    """The name with other words for its parts; its numbers are kept."""
    def word(match):
        return "w" + "".join(chr(ord("a") + (ord(c) * 7 + 3 * i) % 26)
                             for i, c in enumerate(match.group()))
    return re.sub(r"[A-Za-z_][A-Za-z_0-9]*", word, name)


class Structure(Case):
    def found(self, *args, mesh="tp:4"):
        result = run("check", "--no-project", "--notes", "--mesh", mesh,
                     "--format", "json", *args)
        return result.json()

    def codes(self, *args, **kwargs):
        return sorted({f["code"] for f in self.found(*args, **kwargs)})

    def test_parts_are_found_by_shape(self):
        rules = named("fused-by-shape", "col.yaml")
        for manifest, expected in FUSED.items():
            found = self.found("--rules", rules, "--manifest",
                               named("fused-by-shape", manifest + ".json"))
            messages = [f["message"] for f in found
                        if f["code"] in ABOUT_PARTS]
            for param, parts in expected.items():
                with self.subTest(manifest=manifest, param=param):
                    own = [m for m in messages if f".{param}`" in m]
                    self.assertEqual(len(own), 1, messages)
                    self.assertIn(parts, own[0])
            self.assertEqual(len(messages), len(expected), messages)

    def test_parts_are_found_under_other_names(self):
        for manifest, expected in FUSED.items():
            with open(named("fused-by-shape", manifest + ".json"),
                      encoding="utf-8") as file:
                tree = json.load(file)
            rules = ["version: 1", "separator: '.'", "rules:"]
            wanted = set()
            for param in tree["params"]:
                name, param["name"] = param["name"], renamed(param["name"])
                reads = re.search("fc2|out_proj|output_linear|to_out", name)
                spec = ("[null, tp]" if reads else
                        "[]" if "norm" in name else "[tp]")
                rules.append(f"  - {{match: '^{param['name']}$', spec: {spec}}}")
                if name.split(".", 3)[-1] in expected or \
                        name.split(".", 2)[-1] in expected:
                    wanted.add(param["name"])
            with tempfile.TemporaryDirectory() as folder:
                paths = [os.path.join(folder, name)
                         for name in ("r.yaml", "m.json")]
                for path, text in zip(paths, ("\n".join(rules),
                                              json.dumps(tree))):
                    with open(path, "w", encoding="utf-8") as file:
                        file.write(text)
                found = self.found("--rules", paths[0], "--manifest", paths[1])
            with self.subTest(manifest=manifest):
                self.assertEqual({param for f in found
                                  if f["code"] in ABOUT_PARTS
                                  for param in f["params"]}, wanted)
                self.assertEqual(len(wanted), 2 * len(expected))

    def test_heads_differ_by_layer(self):
        folder = "heads-differ-by-layer"
        args = ["--rules", named(folder, "r2.yaml"),
                "--manifest", named(folder, "nas.json")]
        found = self.found(*args, "--model", named(folder, "nas.config.json"),
                           mesh="tp:8")
        heads = [f for f in found if f["code"] == "SHD220"]
        self.assertEqual(
            sorted((re.search(r"(\d+) KV heads of 128", f["message"]).group(1),
                    tuple(sorted(f["params"]))) for f in heads),
            [(count, tuple(f"model.layers.{layer}.self_attn.{name}_proj.weight"
                           for name in "kv"))
             for layer, count in ((3, "2"), (2, "4"))])
        self.assertEqual(len(found), 2, found)
        # The configuration of each layer gives the same findings.
        with open(named(folder, "nas.config.json"), encoding="utf-8") as file:
            config = json.load(file)
        groups = [2, 2, 4, 8, 2, 2]
        for keys in ({"num_key_value_heads": [8, 8, 4, 2, 8, 8]},
                     {"num_key_value_heads": None, "block_configs": [
                         {"attention": {"n_heads_in_group": g}}
                         for g in groups]}):
            with tempfile.TemporaryDirectory() as temporary:
                path = os.path.join(temporary, "config.json")
                with open(path, "w", encoding="utf-8") as file:
                    json.dump({**config, **keys}, file)
                again = self.found(*args, "--model", path, mesh="tp:8")
            with self.subTest(keys=list(keys)):
                self.assertEqual([f["message"] for f in again],
                                 [f["message"] for f in found])

    def sized_heads(self, mesh, norms, config=None, stored=None):
        """The findings about heads of layers with 32 query heads and a
        projection of 1024 columns to keys and to values: `norms` has the size
        of each layer's head, `stored` that of its norm where they differ."""
        params = {}
        for layer, size in enumerate(norms):
            shapes = {"q_proj": [32 * size, 4096], "k_proj": [1024, 4096],
                      "v_proj": [1024, 4096], "o_proj": [4096, 32 * size]}
            norm = (stored or norms)[layer]
            if norm:
                shapes.update(q_norm=[norm], k_norm=[norm])
            for name, shape in shapes.items():
                params[f"model.layers.{layer}.self_attn.{name}.weight"] = {
                    "shape": shape, "dtype": "BF16"}
        texts = {
            "m.json": json.dumps({"schema": "shardc.manifest/v1",
                                  "params": params}),
            "c.json": json.dumps({
                "model_type": "llama", "hidden_size": 4096,
                "num_attention_heads": 32, "num_key_value_heads": 8,
                "head_dim": 128, "num_hidden_layers": len(norms),
                **(config or {})}),
            "r.yaml": "version: 1\nseparator: '.'\nrules:\n"
                      "  - {match: '(q|k|v)_proj', spec: [tp]}\n"
                      "  - {match: 'o_proj', spec: [null, tp]}\n"
                      "  - {match: '.', spec: []}\n"}
        with tempfile.TemporaryDirectory() as folder:
            for name, text in texts.items():
                with open(os.path.join(folder, name), "w",
                          encoding="utf-8") as file:
                    file.write(text)
            found = self.found("--rules", os.path.join(folder, "r.yaml"),
                               "--manifest", os.path.join(folder, "m.json"),
                               "--model", os.path.join(folder, "c.json"),
                               mesh=mesh)
        return sorted(
            (re.search(r"\d+ (KV )?heads of \d+", f["message"]).group(),
             sorted({param.split(".", 2)[2].replace("self_attn.", "")
                     .removesuffix("_proj.weight") for param in f["params"]}))
            for f in found if f["code"] == "SHD220")

    def test_the_norm_of_a_layer_shows_the_size_of_its_heads(self):
        wide = [128, 128, 128, 256]
        gemma = {"global_head_dim": 256, "num_global_key_value_heads": 4}
        of_wide = ("4 KV heads of 256", ["3.k", "3.v"])
        for mesh, norms, expected in (
                ("tp:4", wide, []), ("tp:8", wide, [of_wide]),
                ("tp:8", [128] * 4, []),
                ("tp:16", wide, [of_wide, ("8 KV heads of 128",
                                           [f"{layer}.{name}" for layer in
                                            range(3) for name in "kv"])])):
            for config in ({}, gemma):
                with self.subTest(mesh=mesh, norms=norms, config=config):
                    self.assertEqual(
                        self.sized_heads(mesh, norms, config), expected)
        # 32 heads of 256 are no 64 heads of 128.
        self.assertEqual(
            [one for one in self.sized_heads("tp:64", wide)
             if one[0] == "32 heads of 256"],
            [("32 heads of 256", ["3.o", "3.q"])])
        # Without norms, or with norms over all heads, no size is shown.
        for stored in ([0] * 4, [4096] * 4):
            self.assertEqual(
                self.sized_heads("tp:8", [128] * 4, stored=stored), [])

    def test_each_layer_caches_its_own_heads(self):
        """Six layers have 38 KV heads of 128 elements in all, of which tp:8
        leaves one head a layer on each device."""
        folder = "heads-differ-by-layer"
        for mesh, dtype, heads, of_head in (
                ("tp:1", "bfloat16", 38, 4 * 128), ("tp:8", "bfloat16", 6, 4 * 128),
                ("tp:1", "int8", 38, 2 * (128 + 4))):
            done = run("cost", "--rules", named(folder, "r2.yaml"),
                       "--manifest", named(folder, "nas.json"),
                       "--model", named(folder, "nas.config.json"),
                       "--mesh", mesh, "--mode", "decode", "--batch", "2",
                       "--kv-len", "100", "--kv-dtype", dtype,
                       "--format", "json")
            self.assertEqual(done.json()["memory"]["kv_cache"],
                             2 * 100 * heads * of_head)

    def of_tree(self, layer, rules, path="model.layers.{}.", layers=2):
        """The findings about a tree of equal layers."""
        with tempfile.TemporaryDirectory() as folder:
            manifest = os.path.join(folder, "m.json")
            with open(manifest, "w", encoding="utf-8") as file:
                json.dump({"schema": "shardc.manifest/v1", "separator": ".",
                           "params": {path.format(i) + name:
                                      {"shape": shape, "dtype": "BF16"}
                                      for i in range(layers)
                                      for name, shape in layer.items()}}, file)
            written = os.path.join(folder, "r.yaml")
            with open(written, "w", encoding="utf-8") as file:
                file.write("version: 1\nseparator: '.'\nrules:\n" + "".join(
                    f"  - {{match: '{match}', spec: {spec}}}\n"
                    for match, spec in rules))
            return self.found("--rules", written, "--manifest", manifest)

    def whole(self, found, layer):
        """The replicated parameters of a layer, next to split ones."""
        names = {param.split(".", 3)[3] for f in found
                 if f["code"] == "SHD231" for param in f["params"]}
        self.assertLessEqual(names, set(layer))
        return names

    def test_each_projection_of_a_delta_net_has_its_convolution(self):
        for keys, values in ((2048, 4096), (2048, 2048)):
            layer = {"q_proj.weight": [keys, 2048],
                     "k_proj.weight": [keys, 2048],
                     "v_proj.weight": [values, 2048],
                     "g_proj.weight": [values, 2048],
                     "q_conv1d.weight": [keys, 1, 4],
                     "k_conv1d.weight": [keys, 1, 4],
                     "v_conv1d.weight": [values, 1, 4],
                     "a_proj.weight": [32, 2048], "b_proj.weight": [32, 2048],
                     "A_log": [32], "dt_bias": [32],
                     "o_norm.weight": [values // 32],
                     "o_proj.weight": [2048, values]}
            own = {name for name in layer if re.search("conv1d|A_log|dt_b", name)}
            split = [("(q|k|v|g|a|b)_proj", "[tp]"), ("o_proj", "[null, tp]")]
            for more, expected in (([], own), ([("conv1d", "[tp]")],
                                               {"A_log", "dt_bias"}),
                                   ([("conv1d|A_log|dt_bias", "[tp]")], set())):
                found = self.of_tree(layer, [*split, *more, (".", "[]")],
                                     "model.layers.{}.")
                with self.subTest(keys=keys, values=values, more=more):
                    self.assertEqual(
                        {p.split(".", 3)[3] for f in found
                         if f["code"] == "SHD231" for p in f["params"]},
                        expected)
                    self.assertFalse({"SHD230", "SHD232"} & {
                        f["code"] for f in found})
        # Without a name that shows the output, nothing is stated of matrices
        # that all have one shape.
        odd = {renamed(name): shape for name, shape in layer.items()}
        rules = [(re.escape(renamed(name)), "[tp]" if "proj" in name else "[]")
                 for name in layer]
        self.assertFalse({"SHD230", "SHD231", "SHD232"} & {
            f["code"] for f in self.of_tree(odd, rules)})

    def test_the_channels_of_mamba_1_are_split_with_its_projections(self):
        layer = {"norm.weight": [2560], "in_proj.weight": [10240, 2560],
                 "conv1d.weight": [5120, 1, 4], "conv1d.bias": [5120],
                 "x_proj.weight": [192, 5120], "dt_proj.weight": [5120, 160],
                 "dt_proj.bias": [5120], "A_log": [5120, 16], "D": [5120],
                 "out_proj.weight": [2560, 5120]}
        split = [("in_proj|dt_proj", "[tp]"), ("(x|out)_proj", "[null, tp]")]
        for more, expected in (
                ([], {"conv1d.weight", "A_log", "D"}),
                ([("conv1d|A_log", "[tp]")], {"D"}),
                ([(r"conv1d|A_log|\bD$", "[tp]")], set())):
            for name in (str, renamed):
                rules = [*split, *more, (".", "[]")]
                tree = {name(one): shape for one, shape in layer.items()}
                if name is renamed:
                    rules = [("^.*" + re.escape(name(one)) + "$", next(
                        spec for match, spec in rules if re.search(match, one)))
                             for one in layer]
                found = self.of_tree(tree, rules)
                with self.subTest(more=more, name=name):
                    # No name shows that a vector is a bias.
                    if name is renamed and not more:
                        expected = {*expected, "conv1d.bias"}
                    self.assertEqual(self.whole(found, tree),
                                     {name(one) for one in expected})

    def test_parts_of_siblings_are_found_by_shape(self):
        """What the publishers' names and other names show."""
        def fused(layer, parts, names=(str, renamed)):
            for name in names:
                tree = {name(one): shape for one, shape in layer.items()}
                rules = [(re.escape(name(one)) + "$",
                          "[null, tp]" if re.search("out|linear2|w3|pw2", one)
                          and len(layer[one]) > 1 else "[tp]" if
                          layer[one][0] > 128 else "[]") for one in layer]
                found = {re.sub("^model.layers.0.", "", param):
                         re.search(r"parts (?:one after the other )?\(([^;)]*)",
                                   f["message"]).group(1)
                         for f in self.of_tree(tree, rules)
                         if f["code"] == "SHD230" for param in f["params"]
                         if ".0." in param}
                with self.subTest(tree=tree):
                    self.assertEqual(found, {name(one): text for one, text
                                             in parts.items()})
        fused({"linear1.weight": [21504, 3072], "linear1.bias": [21504],
               "linear2.weight": [3072, 15360], "linear2.bias": [3072],
               "modulation.lin.weight": [9216, 3072],
               "modulation.lin.bias": [9216],
               "norm.query_norm.scale": [128], "norm.key_norm.scale": [128]},
              {"linear1.weight": "queries, keys and values each 3072 and up "
                                 "12288",
               "modulation.lin.weight": "3 equal parts, each 3072"}, (str,))
        for groups in (1024, 256):
            fused({"attn.to_q.weight": [1024, 1024],
                   "attn.to_kv.weight": [2 * groups, 1024],
                   "attn.to_out.weight": [1024, 1024]},
                  {"attn.to_kv.weight": f"keys and values each {groups}"},
                  (str,))
        fused({"x.a_in.weight": [1024, 1024], "x.b_in.weight": [2048, 1024],
               "x.out.weight": [1024, 1024]},
              {"x.b_in.weight": "2 equal parts, each 1024"})
        fused({"attn.qkv.weight": [3072, 1024],
               "attn.proj_out.weight": [1024, 1024],
               "ff.w12.weight": [8192, 1024], "ff.w3.weight": [1024, 4096]},
              {"attn.qkv.weight": "queries, keys and values each 1024",
               "ff.w12.weight": "gate and up each 4096"}, (str,))
        fused({"pw1.weight": [2048, 1024, 1], "dw.weight": [1024, 1, 31],
               "pw2.weight": [1024, 1024, 1]},
              {"pw1.weight": "of unknown sizes"})
        for count in (3, 4):
            fused({"weight_ih": [count * 512, 300],
                   "weight_hh": [count * 512, 512], "bias": [count * 512]},
                  {name: f"{count} equal parts, each 512"
                   for name in ("weight_ih", "weight_hh")})
        # Matrices of one part.
        fused({"attn.to_q.weight": [1024, 1024],
               "attn.to_k.weight": [256, 1024],
               "attn.to_v.weight": [256, 1024],
               "attn.to_out.weight": [1024, 1024],
               "ff.fc1.weight": [2048, 1024],
               "ff.fc2_out.weight": [1024, 2048]}, {})

    def test_splits_of_adapters_without_their_base(self):
        sizes = {"q_proj": (4096, 4096), "up_proj": (14336, 4096),
                 "o_proj": (4096, 4096), "down_proj": (4096, 14336)}
        names = {"{}.lora_A.weight": "{}.lora_B.weight",
                 "{}.lora_A.default.weight": "{}.lora_B.default.weight",
                 "{}.lora.down.weight": "{}.lora.up.weight",
                 "processor.{}_lora.down.weight":
                 "processor.{}_lora.up.weight"}
        for down, up in names.items():
            layer = {}
            for name, (out, width) in sizes.items():
                layer[down.format(name)] = [16, width]
                layer[up.format(name)] = [out, 16]
            half = "({})(_|.)lora(_A|.down)", "({})(_|.)lora(_B|.up)"
            columns, rows = "q_proj|up_proj", "o_proj|down_proj"
            standard = [(half[1].format(columns), "[tp]"),
                        (half[0].format(rows), "[null, tp]")]
            ranks = [("lora(_A|.down)", "[tp]"), ("lora(_B|.up)", "[null, tp]")]
            for rules, expected in (
                    ([*standard, (".", "[]")], set()),
                    ([*standard, ("lora", "[]")], set()),
                    (ranks, {name for name in layer})):
                found = self.of_tree(layer, rules)
                with self.subTest(down=down, rules=rules):
                    self.assertEqual(
                        {p.split(".", 3)[3] for f in found
                         if f["code"] == "SHD229" for p in f["params"]},
                        expected)
                    self.assertFalse({"SHD101", "SHD103", "SHD207", "SHD214",
                                      "SHD215"} & {f["code"] for f in found},
                                     found)

    def test_standard_split_of_adapters(self):
        folder = "lora-standard-split"
        self.assertEqual(self.codes("--rules", named(folder, "strict.yaml"),
                                    "--manifest", named(folder, "peft.json"),
                                    mesh="fsdp:2,tp:8"), [])

    def test_delta_net(self):
        folder = "gated-delta-net"
        for plan, expected in (("col", True), ("gather", False)):
            with tempfile.TemporaryDirectory() as temporary:
                rules = os.path.join(temporary, "r.yaml")
                self.check(run("import", "hf-tp-plan",
                               named(folder, f"tp_plan_{plan}.json"),
                               "--manifest", named(folder, "hybrid.json"),
                               "-o", rules), 0)
                found = self.found("--rules", rules, "--manifest",
                                   named(folder, "hybrid.json"), "--model",
                                   named(folder, "config.json"))
            codes = {f["code"] for f in found}
            with self.subTest(plan=plan):
                self.assertNotIn("SHD214", codes)
                self.assertEqual("SHD230" in codes, expected, found)
                replicated = {
                    param.split(".", 4)[4].removesuffix(".weight")
                    for f in found if f["code"] == "SHD231"
                    for param in f["params"]}
                self.assertEqual(
                    replicated,
                    {"A_log", "dt_bias", "conv1d"} if expected else set())


if __name__ == "__main__":
    unittest.main()
