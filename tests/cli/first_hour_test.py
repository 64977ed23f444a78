"""What a first hour with the program meets: a model's config.json alone, results
in files, and messages that name the right word for a wrong one."""

import json
import os
import shutil
import subprocess
import tempfile
import unittest

from driver import BIN, MODELS, ROOT, TESTDATA, Case, run

CONFIG = os.path.join(TESTDATA, "configs", "llama-3-8b.config.json")
MESH = ("--mesh", "fsdp:4,tp:2")
PACK = ("--rules", "builtin:llama", "--no-project")
NORM = "model.norm.weight"
PROGRAM = os.path.join(ROOT, "examples", "jax", "own_names.program.json.gz")
SCRIPT = os.path.join(TESTDATA, "systems", "vllm-tp4", "serve.sh")
TREE = os.path.join(MODELS, "llama-3-8b.hf.manifest.json")

GPT = {"h.0.attn.c_attn.weight": [768, 2304],
       "h.0.attn.c_proj.weight": [768, 768],
       "h.0.mlp.c_fc.weight": [768, 3072],
       "h.0.mlp.c_proj.weight": [3072, 768]}


class FirstHour(Case):
    def setUp(self):
        self.folder = tempfile.mkdtemp()
        self.addCleanup(shutil.rmtree, self.folder)

    def write(self, name, text):
        path = os.path.join(self.folder, name)
        with open(path, "w", encoding="utf-8") as file:
            file.write(text)
        return path

    def inputs(self, patterns, params=None, spec="[fsdp, tp]"):
        """Flags of rules with these patterns and a manifest."""
        rules = self.write("rules.yaml", "version: 1\nrules:\n" + "".join(
            f"- match: '{pattern}'\n  spec: "
            + ("[]" if pattern == ".*" else spec) + "\n"
            for pattern in patterns))
        manifest = self.write("manifest.json", json.dumps({
            "schema": "shardc.manifest/v1", "params": {
                name: {"shape": shape, "dtype": "F32"}
                for name, shape in (params or GPT).items()}}))
        return ["--mesh", "fsdp:2,tp:2", "--rules", rules, "--manifest",
                manifest, "--no-project"]

    def test_a_config_alone_is_a_model(self):
        """Its tree is that of `shardc show manifest --model`."""
        tree = os.path.join(self.folder, "tree.json")
        self.check(run("show", "manifest", "--model", CONFIG, "--format", "json",
                       "-o", tree), 0)
        for words in (["plan", "-q"], ["check", "--format", "json"],
                      ["explain", NORM], ["report"], ["cost"],
                      ["export", "jax-json"]):
            alone = self.check(run(*words, *MESH, *PACK, "--model", CONFIG), 0)
            both = self.check(run(*words, *MESH, *PACK, "--model", CONFIG,
                                  "--manifest", tree), 0)
            self.assertTrue(alone.out)
            if words[0] != "report":  # whose title names the file
                self.assertEqual(alone.out, both.out, words)
        flax = self.check(run("plan", "-q", *MESH, "--rules",
                              "builtin:llama/flax", "--no-project", "--model",
                              CONFIG), 0)
        self.assertIn('"model/norm/', flax.out)
        self.assertNotIn("model.norm.weight", flax.out)

    def test_a_wrong_config_is_reported_once(self):
        wrong = self.write("config.json", '{"model_type": "lama"}')
        result = self.check(run("plan", *MESH, *PACK, "--model", wrong), 2)
        self.assertEqual(result.err.count("error["), 1, result)
        self.assertIn("lama", result.err)

    def test_results_go_to_files(self):
        for words in (["show", "manifest", "--model", CONFIG], ["show", "rules"],
                      ["show", "rules", "--rules", "builtin:llama"],
                      ["show", "rules", "--rules", "builtin:llama/hf", "--format",
                       "yaml"],
                      ["show", "rules", "--rules", "builtin:llama", "--all-names"],
                      ["show", "mesh", *MESH], ["resolve", "[BATCH]"],
                      ["resolve", "attention", *MESH]):
            out = os.path.join(self.folder, "out")
            printed = self.check(run(*words), 0)
            written = self.check(run(*words, "-o", out), 0)
            self.assertEqual(written.out, "")
            with open(out, encoding="utf-8") as file:
                self.assertEqual(file.read(), printed.out, words)

    def test_wrong_words_are_answered_with_the_right_ones(self):
        missing = os.path.join(self.folder, "plans", "a.json")
        for words, said in (
                (["plan", "--mesh", "2x4", *PACK, "--model", CONFIG],
                 "name each axis, such as `fsdp:2,tp:4`"),
                (["show", "mesh", "--mesh", "2x2x4"], "`dp:2,fsdp:2,tp:4`"),
                (["show", "mesh", "--mesh", "8"], "`fsdp:8`"),
                (["show", "mesh", "--mesh", "tp"], "or axes such as `dp:2,tp:4`"),
                (["show", "mesh", "--mesh", "dp:2 tp:4"], "the axes by commas"),
                (["cost", *MESH, *PACK, "--model", CONFIG, "--dtype", "bf16"],
                 "write `bfloat16`"),
                (["cost", *MESH, *PACK, "--model", CONFIG, "--kv-dtype",
                  "FP8"], "write `float8_e4m3fn`"),
                (["verify", "--mesh", "tp:2", "--dtype", "fp16", "--attention",
                  "heads=4,kv_heads=2,head_dim=16"], "write `float16`"),
                (["plan", *MESH, *PACK, "--model", CONFIG, "-q", "-o",
                  missing], "create it first: `mkdir -p "),
                (["explain", "SHD1"], "there is no diagnostic `SHD1`"),
                (["explain", "shd999"], "explain --codes` lists all codes"),
                (["explain", "catch-all-replicate"],
                 "did you mean `catch-all-replicates`?"),
                (["plan", "--verbose"], "explain PARAM` prints how"),
                (["check", "-v"], "`--notes` prints the notes too"),
                (["check", "--deny", "warnings"], "`--fail-on warning` exits"),
                (["check", "--strict"], "`--fail-on warning` exits"),
                (["plan", "--json"], "write `--format json`"),
                (["plan", "--dry-run"], "`--diff` prints what would change"),
                (["verify", "step", *MESH, *PACK, "--manifest", TREE],
                 "give the model's config.json: `--model config.json`"),
                (["plan", "--program", "p.json"], "write `--manifest FILE`: the "
                 "parameters of a traced program"),
                (["plan", *MESH, *PACK, "--model", PROGRAM], "this is a traced "
                 "program, whose parameters are given with `--manifest`"),
                (["suggest", "--program", PROGRAM, "--devices", "8"],
                 "`shardc search --program FILE --devices N` compares meshes"),
                (["plan", *MESH, "--rules", "auto", "--manifest", PROGRAM],
                 "`--mesh`, `--manifest`, `--program` and `--model`"),
                (["show", "memory", "lost.json"], "no file `lost.json`"),
                (["show", "layout", NORM, "lost.json"], "no file `lost.json`"),
                (["show", "memory", "norm", *MESH, *PACK, "--model", CONFIG],
                 "`norm` has no effect on `memory`"),
                (["check", SCRIPT], "`shardc show config "),
                (["plan", *MESH, *PACK], "`--model config.json`")):
            with self.subTest(words):
                result = self.check(run(*words, cwd=self.folder), 2)
                self.assertIn(said, result.err)
        self.assertFalse(os.path.exists(os.path.dirname(missing)))

    def test_auto_in_a_project_is_the_pack_of_its_manifest(self):
        """For commands, too, that read no manifest otherwise."""
        shutil.copy(TREE, os.path.join(self.folder, "m.json"))
        self.write("shardc.yaml", "version: 1\ntargets:\n  a:\n"
                   "    mesh: fsdp:4,tp:2\n    rules: auto\n"
                   "    manifest: m.json\n")
        for words, said in (
                (["resolve", "[BATCH]"], '["fsdp"]\n'),
                (["resolve", "attention"], 'query3d         ["fsdp", "tp", null]'),
                (["show", "rules", "--target", "a"], "(builtin:llama/hf:14)")):
            with self.subTest(words):
                result = self.check(run(*words, cwd=self.folder), 0)
                self.assertIn(said, result.out)
        result = self.check(run("show", "rules", "--rules", "auto"), 2)
        self.assertIn("name the pack, such as `builtin:llama`", result.err)

    def test_a_plan_on_a_terminal_is_its_summary(self):
        inputs = [BIN, "plan", *MESH, *PACK, "--manifest", TREE]

        def on_a_terminal(*options):
            """What a command prints on a terminal, both streams."""
            reads, writes = os.openpty()
            with subprocess.Popen([*inputs, *options], stdout=writes,
                                  stderr=writes, stdin=subprocess.DEVNULL) as runs:
                os.close(writes)
                text = b""
                try:
                    while part := os.read(reads, 65536):
                        text += part
                except OSError:  # Linux reports the end so.
                    pass
            os.close(reads)
            self.assertEqual(runs.returncode, 0, text)
            return text.decode()

        summary = on_a_terminal()
        self.assertIn("largest replicated parameters", summary)
        self.assertIn("`-o plan.json` writes it", summary)
        self.assertNotIn("shardc.plan/v1", summary)
        for options in (["--format", "json"], ["-q"]):
            self.assertIn("shardc.plan/v1", on_a_terminal(*options))
        text = self.check(run(*inputs[1:], "--format", "text"), 0)
        self.assertEqual(text.out, "")
        self.assertIn("parameters  291", text.err)
        result = self.check(run(*inputs[1:], "--format", "text", "-o",
                                os.path.join(self.folder, "p.json")), 2)
        self.assertIn("`--format text` writes no plan to the file of `--output`",
                      result.err)
        self.assertEqual(os.listdir(self.folder), [])
        result = self.check(run("plan", "--diff", "--format", "json"), 2)
        self.assertIn("`--format` has no effect with `--write-locked` or `--diff`",
                      result.err)

    def test_a_file_of_another_kind_is_named(self):
        self.write("m.yaml", "axes: {tp: 2}\ndevice: h100-sxm\n")
        self.write("sizes.yaml", "axes: {fsdp: 4, tp: 2}\n")
        self.write("r.yaml", "version: 1\nrules: []\n")
        self.write("shardc.yaml", "version: 1\ntargets: {}\n")
        for words, said in (
                (["--rules", "auto", "--mesh", "r.yaml"],
                 "`r.yaml` is a rules file, and `--mesh` takes a mesh"),
                (["--rules", "auto", "--mesh", "shardc.yaml"],
                 "`shardc.yaml` is a project file, and `--mesh` takes a mesh"),
                (["--mesh", "tp:2", "--rules", "m.yaml"],
                 "write `--mesh m.yaml`, and give a rules file"),
                (["--mesh", "tp:2", "--rules", "sizes.yaml"],
                 "`sizes.yaml` is a mesh, and `--rules` takes a rules file"),
                (["--rules", "auto", "--mesh", "m.yml"], "did you mean `m.yaml`?")):
            with self.subTest(words):
                result = self.check(run("plan", "--no-project", *words,
                                        "--manifest", TREE, cwd=self.folder), 2)
                self.assertIn(said, result.err)

    def test_names_that_no_pack_knows_lead_to_suggest(self):
        inputs = self.inputs([".*"], {"verse/lookback/query": [64, 64]})
        inputs[inputs.index("--rules") + 1] = "auto"
        result = self.check(run("plan", *inputs), 2)
        self.assertIn("`shardc suggest` proposes rules for these names",
                      result.err)

    def test_auto_fits_packs_to_scanned_layers(self):
        """With the layers at any position, and with either separator."""
        layer = {"self_attn/q_proj/kernel": [64, 96],
                 "self_attn/k_proj/kernel": [64, 48],
                 "self_attn/v_proj/kernel": [64, 48],
                 "self_attn/o_proj/kernel": [96, 64],
                 "mlp/gate_proj/kernel": [64, 256],
                 "mlp/up_proj/kernel": [64, 256],
                 "mlp/down_proj/kernel": [256, 64],
                 "input_layernorm/scale": [64],
                 "post_attention_layernorm/scale": [64]}
        specs = {"self_attn/q_proj/kernel": ["fsdp", "tp"],
                 "self_attn/o_proj/kernel": ["tp", "fsdp"],
                 "mlp/down_proj/kernel": ["tp", "fsdp"]}
        for at in 0, 1:
            for separator in "/.":
                tree = {"model/embed_tokens/embedding": [512, 64],
                        "model/norm/scale": [64]}
                for name, shape in layer.items():
                    tree["model/layers/" + name] = (shape[:at] + [6]
                                                    + shape[at:])
                inputs = self.inputs([".*"], {
                    name.replace("/", separator): shape
                    for name, shape in tree.items()})
                inputs[inputs.index("--rules") + 1] = "auto"
                plan = self.check(run("plan", "-q", *inputs), 0).json()
                for name, spec in specs.items():
                    name = ("model/layers/" + name).replace("/", separator)
                    self.assertEqual(plan["params"][name]["spec"],
                                     spec[:at] + [None] + spec[at:], name)
                self.assertEqual(
                    self.check(run("check", "-q", *inputs), 0).out, "")

    def test_auto_knows_maxtext(self):
        """Scanned at dimension 1 as by default, at 0, and not at all."""
        for at in 1, 0, None:
            def stored(*shape):
                return (list(shape) if at is None
                        else [*shape[:at], 12, *shape[at:]])
            head = "decoder/layers" + ("_0/" if at is None else "/")
            tree = {"token_embedder/embedding": [512, 64],
                    "decoder/decoder_norm/scale": [64],
                    head + "pre_self_attention_layer_norm/scale": stored(64),
                    head + "self_attention/query/kernel": stored(64, 12, 8),
                    head + "self_attention/key/kernel": stored(64, 12, 8),
                    head + "self_attention/value/kernel": stored(64, 12, 8),
                    head + "self_attention/out/kernel": stored(12, 8, 64),
                    head + "mlp/wi_0/kernel": stored(64, 256),
                    head + "mlp/wi_1/kernel": stored(64, 256),
                    head + "mlp/wo/kernel": stored(256, 64)}
            inputs = self.inputs([".*"], tree)
            inputs[inputs.index("--rules") + 1] = "auto"
            plan = self.check(run("plan", "-q", *inputs), 0).json()
            for name, spec in (("query", ["fsdp", "tp", None]),
                               ("out", ["tp", None, "fsdp"])):
                if at is not None:
                    spec.insert(at, None)
                name = head + f"self_attention/{name}/kernel"
                self.assertEqual(plan["params"][name]["spec"], spec, at)
            self.assertEqual(
                self.check(run("check", "-q", *inputs), 0).out, "")

    def test_a_typing_error_is_corrected_to_the_nearest_name(self):
        """Not to the largest parameter that the catch-all matches."""
        result = self.check(run("check", *self.inputs(
            [r"attn\.c_attn", r"atn\.c_proj\.weight$", r"mlp\.c_fc", ".*"])),
            1)
        self.assertIn("intended for `h.0.attn.c_proj.weight`: the rule has "
                      "`atn` where the tree has `attn`", result.out)
        self.assertIn(r"write `attn\.c_proj\.weight$`", result.out)
        self.assertNotIn(r"`mlp\.c_proj", result.out)

    def test_of_two_near_names_both_are_given(self):
        result = self.check(run("check", *self.inputs(
            [r"a\.w$", r"mlq\.c_proj\.weight$", ".*"],
            {"h.0.mlp.c_proj.weight": [512, 512],
             "h.0.mla.c_proj.weight": [512, 512], "h.0.a.w": [512, 512]})), 1)
        self.assertIn("`h.0.mlp.c_proj.weight` or `h.0.mla.c_proj.weight`",
                      result.out)
        self.assertIn(r"`mlp\.c_proj\.weight$` or `mla\.c_proj\.weight$`",
                      result.out)
        result = self.check(run("check", *self.inputs(
            [r"attm\.c_proj\.weight$", r"attb\.c_proj\.weight$", "wte"],
            {"h.0.attn.c_proj.weight": [512, 512], "wte": [512, 512]})), 1)
        self.assertIn("as near: this rule has `attb`", result.out)

    def test_a_dead_rule_names_the_path_of_the_tree(self):
        result = run("check", *self.inputs(
            [r"attn\.", r"mlp\.c_fc", r"mlp\.c_proj", r"h\.\d+\.mlp\.c_fcc"]))
        self.assertIn("SHD105 dead-rule", result.out)
        self.assertIn("the tree has `h.0.mlp.c_fc.weight`: write "
                      r"`h\.\d+\.mlp\.c_fc`", result.out)

    def test_skipped_lints_take_one_line(self):
        inputs = self.inputs([r"attn\.", r"mlp\."])
        result = run("check", *inputs)
        skipped = [line for line in result.err.splitlines()
                   if " not run: " in line]
        self.assertEqual(len(skipped), 1, result)
        self.assertRegex(skipped[0], r"^\d+ lints not run: pass --model .*, "
                         r"--batch N.* \(--notes lists them\)$")
        self.assertNotIn("SHD408", result.err + result.out)
        self.assertIn("  without a batch: SHD408",
                      run("check", *inputs, "--notes").err)

    def test_several_committed_plans_take_a_line_each(self):
        names = ["a", "b", "c"]
        self.write("rules.yaml",
                   "version: 1\nrules:\n- match: .*\n  spec: [tp]\n")
        self.write("m.json", json.dumps({
            "schema": "shardc.manifest/v1",
            "params": {"w": {"shape": [1024], "dtype": "F32"}}}))
        self.write("shardc.yaml", "version: 1\ntargets:\n" + "".join(
            f"  {name}:\n    mesh: tp:{2 ** n}\n    rules: rules.yaml\n"
            f"    manifest: m.json\n    plan: {name}.plan.json\n"
            for n, name in enumerate(names)))
        result = self.check(run("plan", "--write-locked", cwd=self.folder), 0)
        lines = result.err.splitlines()
        self.assertEqual(len(lines), 3, result)
        self.assertEqual(lines[1], "target      b: 1 parameter, 2 KiB per "
                         "device; check: nothing found")

    def test_the_ignore_comment_of_the_guide(self):
        """On the finding's line and on the line above it; elsewhere it is
        reported."""
        with open(os.path.join(ROOT, "docs", "guides", "ci.md"),
                  encoding="utf-8") as file:
            guide = " ".join(file.read().split())
        self.assertIn("`# shardc: ignore[SHD105] kept for the next model`",
                      guide)
        comment = "# shardc: ignore[SHD105] kept for the next model"
        rule = "- match: 'w_qkv/kernel'"
        for lines, ignored in (([comment, rule, "  spec: []"], True),
                               ([rule + "  " + comment, "  spec: []"], True),
                               ([rule, "  spec: []  " + comment], False)):
            inputs = self.inputs(["attn", "mlp"])
            with open(inputs[3], "a", encoding="utf-8") as file:
                file.write("\n".join(lines) + "\n")
            result = run("check", *inputs)
            self.assertEqual("1 ignored by comments" in result.err, ignored,
                             result)
            self.assertEqual("[SHD105" in result.out, not ignored)


if __name__ == "__main__":
    unittest.main()
