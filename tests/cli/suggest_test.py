"""`shardc suggest`: every tree gets rules that `plan` and `check` take."""

import gzip
import hashlib
import json
import os
import pty
import random
import re
import subprocess
import sys
import tempfile
import unittest

from driver import BIN, MODELS, TESTDATA, FolderCase, run

MESHES = ["tp:8", "fsdp:16,tp:4", "dp:4,fsdp:16,tp:4"]
EXPERT_MESH = "fsdp:8,ep:8"
CONFIGS = os.path.join(TESTDATA, "configs")
# Read when they change; `--write` puts those of now there.
GOLDEN = [("llama-3-8b", "fsdp:16,tp:4"), ("gpt2", "tp:8"),
          ("falcon-7b", "tp:8"), ("deepseek-v3", "fsdp:8,ep:8"),
          ("gpt-oss-20b", "fsdp:16,tp:4"), ("t5-small", "fsdp:4,tp:2")]
WRITE = "--write" in sys.argv
EVEN = re.compile(r"([\d.]+) of the fully sharded size")


def layered(count, *tensors):
    return [(name.replace("#", str(i)), *rest)
            for i in range(count) for name, *rest in tensors]


# Trees of other programs: name, shape, dtype (BF16 if not given), and the spec
# of some on fsdp:16,tp:4.
OTHERS = {
    "scan": ([
        ("token_embedder/embedding", [128256, 4096]),
        ("decoder/layers/self_attention/query/kernel", [4096, 32, 32, 128]),
        ("decoder/layers/self_attention/key/kernel", [4096, 32, 8, 128]),
        ("decoder/layers/self_attention/value/kernel", [4096, 32, 8, 128]),
        ("decoder/layers/self_attention/out/kernel", [32, 32, 128, 4096]),
        ("decoder/layers/mlp/wi_0/kernel", [4096, 32, 14336]),
        ("decoder/layers/mlp/wi_1/kernel", [4096, 32, 14336]),
        ("decoder/layers/mlp/wo/kernel", [14336, 32, 4096]),
        ("decoder/layers/pre_norm/scale", [4096, 32])],
        {"decoder/layers/mlp/wo/kernel": ["tp", None, "fsdp"]}),
    "a scan under a name of its own": ([
        ("tok/embedding", [32000, 1024]),
        ("verses/lookback/query/kernel", [12, 1024, 16, 64]),
        ("verses/lookback/key/kernel", [12, 1024, 16, 64]),
        ("verses/lookback/value/kernel", [12, 1024, 16, 64]),
        ("verses/lookback/out/kernel", [12, 16, 64, 1024]),
        ("verses/mull/gate/kernel", [12, 1024, 4096]),
        ("verses/mull/up/kernel", [12, 1024, 4096]),
        ("verses/mull/down/kernel", [12, 4096, 1024]),
        ("verses/calm/scale", [12, 1024])],
        {"verses/lookback/query/kernel": [None, "fsdp", "tp", None],
         "verses/lookback/out/kernel": [None, "tp", None, "fsdp"],
         "verses/mull/gate/kernel": [None, "fsdp", "tp"],
         "verses/mull/down/kernel": [None, "tp", "fsdp"]}),
    "a scan on dimension 1 with as many heads as layers": ([
        ("verses/attention/query/kernel", [1024, 16, 16, 64]),
        ("verses/attention/key/kernel", [1024, 16, 16, 64]),
        ("verses/attention/value/kernel", [1024, 16, 16, 64]),
        ("verses/attention/out/kernel", [16, 16, 64, 1024]),
        ("verses/attention/query/bias", [16, 16, 64]),
        ("verses/mlp/wi/kernel", [1024, 16, 4096]),
        ("verses/mlp/wi/bias", [4096, 16]),
        ("verses/mlp/wo/kernel", [4096, 16, 1024]),
        ("verses/norm/scale", [1024, 16])],
        {"verses/attention/query/kernel": ["fsdp", None, "tp", None],
         "verses/attention/out/kernel": ["tp", None, None, "fsdp"],
         "verses/mlp/wi/bias": ["tp", None]}),
    "packed in columns": ([
        *layered(4, ("l.#.self_attn.q_proj.qweight", [512, 4096], "I32"),
                 ("l.#.self_attn.q_proj.scales", [32, 4096], "F16"),
                 ("l.#.self_attn.q_proj.qzeros", [32, 512], "I32"),
                 ("l.#.self_attn.o_proj.qweight", [512, 4096], "I32"),
                 ("l.#.self_attn.o_proj.scales", [32, 4096], "F16"),
                 ("l.#.self_attn.o_proj.qzeros", [32, 512], "I32"),
                 ("l.#.mlp.up_proj.qweight", [512, 14336], "I32"),
                 ("l.#.mlp.up_proj.scales", [32, 14336], "F16"),
                 ("l.#.mlp.down_proj.qweight", [1792, 4096], "I32"),
                 ("l.#.mlp.down_proj.scales", [112, 4096], "F16"),
                 ("l.#.input_layernorm.weight", [4096], "F16"))],
        {"l.0.self_attn.q_proj.qweight": ["fsdp", "tp"],
         "l.0.self_attn.o_proj.qweight": ["tp", "fsdp"],
         "l.0.self_attn.o_proj.scales": ["tp", "fsdp"],
         "l.0.mlp.up_proj.qweight": ["fsdp", "tp"]}),
    "packed in rows": ([
        *layered(4, ("l.#.self_attn.q_proj.weight", [4096, 512], "U32"),
                 ("l.#.self_attn.q_proj.scales", [4096, 64], "F16"),
                 ("l.#.self_attn.q_proj.biases", [4096, 64], "F16"),
                 ("l.#.self_attn.o_proj.weight", [4096, 512], "U32"),
                 ("l.#.self_attn.o_proj.scales", [4096, 64], "F16"),
                 ("l.#.self_attn.o_proj.biases", [4096, 64], "F16"),
                 ("l.#.input_layernorm.weight", [4096], "F16"))],
        {"l.0.self_attn.q_proj.weight": ["tp", "fsdp"],
         "l.0.self_attn.o_proj.weight": ["fsdp", "tp"]}),
    "one matrix of three": ([
        *layered(8, ("encoder.layers.#.self_attn.in_proj_weight",
                     [3072, 1024]),
                 ("encoder.layers.#.self_attn.in_proj_bias", [3072]),
                 ("encoder.layers.#.self_attn.out_proj.weight", [1024, 1024]),
                 ("encoder.layers.#.linear1.weight", [4096, 1024]),
                 ("encoder.layers.#.linear2.weight", [1024, 4096]),
                 ("encoder.layers.#.norm1.weight", [1024])),
        ("embedding.weight", [32000, 1024])],
        {"encoder.layers.0.self_attn.in_proj_weight": ["tp", "fsdp"],
         "encoder.layers.0.self_attn.in_proj_bias": ["tp"],
         "encoder.layers.0.self_attn.out_proj.weight": ["fsdp", "tp"],
         "embedding.weight": ["tp", "fsdp"]}),
    "state space": ([
        *layered(8, ("layers.#.mixer.in_proj.weight", [10576, 2560]),
                 ("layers.#.mixer.conv1d.weight", [5376, 1, 4]),
                 ("layers.#.mixer.A_log", [80]),
                 ("layers.#.mixer.norm.weight", [5120]),
                 ("layers.#.mixer.out_proj.weight", [2560, 5120]),
                 ("layers.#.norm.weight", [2560]))],
        {"layers.0.mixer.in_proj.weight": [None, ["fsdp", "tp"]]}),
    "experts in stacks": ([
        *layered(4, ("blk.#.attn_q.weight", [4096, 4096]),
                 ("blk.#.attn_k.weight", [1024, 4096]),
                 ("blk.#.attn_v.weight", [1024, 4096]),
                 ("blk.#.attn_output.weight", [4096, 4096]),
                 ("blk.#.ffn_gate_inp.weight", [8, 4096]),
                 ("blk.#.ffn_gate_exps.weight", [8, 14336, 4096]),
                 ("blk.#.ffn_up_exps.weight", [8, 14336, 4096]),
                 ("blk.#.ffn_down_exps.weight", [8, 4096, 14336]),
                 ("blk.#.attn_norm.weight", [4096])),
        ("output.weight", [32000, 4096])],
        {"blk.0.ffn_down_exps.weight": [None, "fsdp", "tp"],
         "blk.0.attn_output.weight": ["fsdp", "tp"],
         "output.weight": ["tp", "fsdp"]}),
}


def read(path):
    with (gzip.open if path.endswith(".gz") else open)(path, "rb") as file:
        return json.load(file)


def tensors_of(path):
    params = read(path)["params"]
    if isinstance(params, dict):
        params = [{"name": name, **of} for name, of in params.items()]
    return params


def models():
    """Each tree once."""
    seen = set()
    for name in sorted(os.listdir(MODELS)):
        path = os.path.join(MODELS, name)
        if "manifest.json" not in name:
            continue
        digest = hashlib.sha256(
            json.dumps(tensors_of(path)).encode()).hexdigest()
        if digest not in seen:
            seen.add(digest)
            yield name, path


class Suggest(FolderCase):
    def write(self, name, params):
        path = self.path(name)
        with open(path, "w", encoding="utf-8") as file:
            json.dump({"schema": "shardc.manifest/v1", "params": params}, file)
        return path

    def suggest(self, mesh, manifest, *more, rc=0):
        out = self.path("rules.yaml")
        if os.path.exists(out):
            os.remove(out)
        done = self.check(run("suggest", "--no-project", "--mesh", mesh,
                              "--manifest", manifest, "-o", out, *more), rc)
        self.assertEqual(os.path.exists(out), rc == 0)
        share = EVEN.search(done.err)
        return out, float(share[1]) if share else None

    def assert_clean(self, mesh, manifest, rules, *more, known=True):
        done = self.check(run("check", "--no-project", "--mesh", mesh,
                              "--manifest", manifest, "--rules", rules,
                              "--format", "json", *more), 0)
        loud = [one for one in done.json()
                if one["level"] != "note" and
                # What a tree has, whatever its rules are.
                one["code"] not in ("SHD217", "SHD223")]
        # Names that show no role are reported, and no rules can change that.
        self.assertEqual([one["code"] for one in loud],
                         [] if known else ["SHD120"], loud)

    def plan(self, mesh, manifest, rules):
        return self.check(run("plan", "-q", "--no-project", "--mesh", mesh,
                              "--manifest", manifest, "--rules", rules,
                              "--modes", "train"), 0).json()

    def test_every_model_on_every_mesh(self):
        worst = 0
        for number, (name, path) in enumerate(models()):
            meshes = list(MESHES)
            if "mixtral" in name or "wizardlm" in name:
                meshes.append(EXPERT_MESH)
            for mesh in meshes:
                rules, share = self.suggest(mesh, path)
                worst = max(worst, share)
                # The program proves it itself; here it is checked again.
                if number % 5 == 0:
                    self.assert_clean(mesh, path, rules)
        self.assertLess(worst, 1.12)

    def test_every_configuration_on_every_mesh(self):
        """Trees that a config.json makes: many families, four namings."""
        trees, worst = 0, 0
        for number, name in enumerate(sorted(os.listdir(CONFIGS))):
            path = os.path.join(CONFIGS, name)
            naming = ("hf", "easydel")[number % 2]
            done = run("show", "manifest", "--model", path, "--naming", naming,
                       "--format", "json")
            if done.rc != 0:
                continue
            trees += 1
            meshes = list(MESHES[:2])
            if "xpert" in done.out:
                meshes.append(EXPERT_MESH)
            for mesh in meshes:
                out = self.check(run("suggest", "--no-project", "--mesh", mesh,
                                     "--model", path, "--naming", naming), 0)
                worst = max(worst, float(EVEN.search(out.err)[1]))
        self.assertGreater(trees, 30)
        # A vision tower of 12 heads over tp 8, in slices.
        self.assertLess(worst, 1.17)

    def test_files_that_people_read(self):
        for name, mesh in GOLDEN:
            done = self.check(run(
                "suggest", "--no-project", "--mesh", mesh, "--model",
                os.path.join(CONFIGS, name + ".config.json"), "-q"), 0)
            path = os.path.join(TESTDATA, "golden", "suggest", name + ".yaml")
            if WRITE:
                os.makedirs(os.path.dirname(path), exist_ok=True)
                with open(path, "w", encoding="utf-8") as file:
                    file.write(done.out)
            with open(path, encoding="utf-8") as file:
                self.assertEqual(done.out, file.read(), name)

    def test_meshes_for_devices(self):
        for name, devices, memory, mesh in (
                ("llama-3-8b", 64, "80GiB", "fsdp=64"),
                ("qwen2-7b", 8, "24GiB", "fsdp=8"),
                ("llama-3.1-405b", 512, "80GiB", "fsdp=512"),
                # Few tokens for each device: tensor parallelism pays.
                ("llama-3-8b", 64, "80GiB --batch 16 --seq 2048", None)):
            memory, *more = memory.split()
            done = self.check(run(
                "suggest", "--no-project", "--devices", devices, "--memory",
                memory, *more, "--model",
                os.path.join(CONFIGS, name + ".config.json")), 0)
            told = re.search(r"^# Rules suggested for ([^:]*):", done.out)[1]
            if mesh:
                self.assertEqual(told, mesh)
            else:
                self.assertIn("tp=", told)
        done = self.check(run(
            "suggest", "--no-project", "--devices", 8, "--memory", "40GiB",
            "--model", os.path.join(CONFIGS, "llama-3-70b.config.json")), 1)
        self.assertEqual(done.out, "")
        self.assertIn("such devices would", done.err)
        # Without --memory a device has the memory of the accelerator.
        for size, *profile in (("16 GiB", "--profile", "tpu-v5e"), ("80 GiB",)):
            done = self.check(run(
                "suggest", "--no-project", "--devices", 16, *profile, "--model",
                f"{CONFIGS}/llama-3-8b.config.json", "--batch", 16, "--seq", 4096),
                0)
            self.assertIn(f"of 16 devices of {size}; assumed", done.err)

    def test_same_bytes_each_time(self):
        _, path = next(models())
        once, again = [run("suggest", "--mesh", "tp:8", "--no-project",
                           "--manifest", path, "--threads", threads).out
                       for threads in ("1", "4")]
        self.assertEqual(once, again)

    def test_transposed_matrices(self):
        """Every matrix transposed, names kept: the specs are transposed."""
        for name in ("llama-3-8b.hf.manifest.json",
                     "gemma-2b.flax.manifest.json.gz",
                     "mixtral-8x7b.hf.manifest.json.gz"):
            params = tensors_of(os.path.join(MODELS, name))
            turned = [dict(one) for one in params]
            for one in turned:
                # Embeddings are tables: their rows are looked up.
                if len(one["shape"]) == 2 and "embed" not in one["name"]:
                    one["shape"] = one["shape"][::-1]
            straight = self.write("straight.json", params)
            other = self.write("turned.json", turned)
            for mesh in MESHES[:2]:
                rules, _ = self.suggest(mesh, straight)
                before = self.plan(mesh, straight, rules)["params"]
                rules, _ = self.suggest(mesh, other)
                self.assert_clean(mesh, other, rules)
                after = self.plan(mesh, other, rules)["params"]
                for one in params:
                    spec = before[one["name"]]["spec"]
                    if len(one["shape"]) == 2 and "embed" not in one["name"]:
                        spec = spec[::-1]
                    self.assertEqual(after[one["name"]]["spec"], spec,
                                     one["name"])

    def test_names_that_say_nothing(self):
        for name in ("llama-3.2-1b.hf.manifest.json.gz",
                     "gpt2.hf.manifest.json.gz",
                     "qwen3-8b.hf.manifest.json.gz"):
            params = tensors_of(os.path.join(MODELS, name))
            order = list(range(len(params)))
            random.Random(5).shuffle(order)
            for numbers in (range(len(params)), order):
                opaque = self.write("opaque.json", [
                    {**one, "name": f"p{number:05d}"}
                    for one, number in zip(params, numbers)])
                for mesh in MESHES[:2]:
                    rules, share = self.suggest(mesh, opaque)
                    self.assert_clean(mesh, opaque, rules, known=False)
                    self.assertLess(share, 1.12)

    def test_layers_or_experts_are_printed_as_undecided(self):
        path = self.write("trunk.json", [
            {"name": name, "shape": shape, "dtype": "BF16"}
            for name, shape in (("embed/embedding", [32000, 1024]),
                                ("trunk/up/kernel", [8, 1024, 4096]),
                                ("trunk/down/kernel", [8, 4096, 1024]))])
        ask = ("suggest", "--no-project", "--mesh", "fsdp:4,tp:2",
               "--manifest", path)
        done = self.check(run(*ask), 0)
        self.assertIn("undecided   whether dimension 0 of 2 parameters below "
                      "`trunk/` counts 8 layers", done.err)
        self.assertIn("# Undecided: whether dimension 0", done.out)
        self.assertIn("Confidence: low", done.out)
        for axis in ("0", "none"):
            done = self.check(run(*ask, "--scan-axis", axis), 0)
            self.assertNotIn("ndecided", done.out + done.err)
        done = self.check(run(*ask, "--scan-axis", "first"), 2)
        self.assertIn("`first` is no axis of scanned layers", done.err)

    def test_a_question_in_a_terminal_decides(self):
        """There is none with --quiet or without a terminal."""
        path = self.write("trunk.json", [
            {"name": name, "shape": shape, "dtype": "BF16"}
            for name, shape in (("embed/embedding", [32000, 1024]),
                                ("trunk/up/kernel", [8, 1024, 4096]),
                                ("trunk/down/kernel", [8, 4096, 1024]))])
        ask = ("suggest", "--no-project", "--mesh", "fsdp:4,tp:2",
               "--manifest", path)
        for answer, flag in (("", "0"), ("0", "0"), ("none", "none")):
            shown, out = self.answer(ask, answer + "\n")
            self.assertIn("Which dimension counts layers?", shown)
            self.assertEqual(out, run(*ask, "--scan-axis", flag).out)
        shown, out = self.answer(ask, "first\n")
        self.assertIn("`first` is neither", shown)
        self.assertEqual(out, run(*ask).out)
        self.assertEqual(self.answer((*ask, "-q"), "")[0], "")
        self.assertNotIn("Which", run(*ask).err)

    def answer(self, words, text):
        """What a terminal shows, and the standard output."""
        terminal, end = pty.openpty()
        with subprocess.Popen([BIN, *words], stdin=end, stderr=end,
                              stdout=subprocess.PIPE) as process:
            os.close(end)
            os.write(terminal, text.encode())
            out = process.stdout.read().decode()
            process.wait(60)
        shown = b""
        while True:
            try:
                more = os.read(terminal, 4096)
            except OSError:  # the other end is closed
                break
            if not more:
                break
            shown += more
        os.close(terminal)
        return shown.decode(), out

    def test_check_reports_split_layers_whatever_they_are_called(self):
        tensors, _ = OTHERS["a scan under a name of its own"]
        path = self.write("verses.json", [
            {"name": name, "shape": shape, "dtype": "BF16"}
            for name, shape in tensors])
        rules = self.path("split.yaml")
        with open(rules, "w", encoding="utf-8") as file:
            file.write("version: 1\nseparator: '/'\nrules:\n"
                       "  - {match: 'kernel$', spec: [FSDP]}\n"
                       "  - {match: '.', spec: Replicated}\n")
        done = run("check", "--no-project", "--mesh", "fsdp:4", "--manifest",
                   path, "--rules", rules, "--format", "json")
        found = [one for one in done.json() if one["code"] == "SHD224"]
        self.assertIn("dimension 0", found[0]["message"])
        self.assertIn("counts 12 layers", found[0]["message"])

    def test_check_sees_layers_where_suggest_does(self):
        """MaxText scans over dimension 1; both find it by its size."""
        kernels = [("attention/query", [1024, 16, 16, 64]),
                   ("attention/out", [16, 16, 64, 1024]),
                   ("mlp/wi", [1024, 16, 4096]),
                   ("mlp/wo", [4096, 16, 1024])]
        for container in ("decoder/layers", "verses"):
            params = [{"name": f"{container}/{name}/kernel", "shape": shape,
                       "dtype": "BF16"} for name, shape in kernels]
            params.append({"name": f"{container}/norm/scale",
                           "shape": [1024, 16], "dtype": "BF16"})
            path = self.write("maxtext.json", params)
            rules = self.path("maxtext.yaml")
            for split, spec in ((True, "[null, TP]"), (False, "[FSDP, null]")):
                with open(rules, "w", encoding="utf-8") as file:
                    file.write("version: 1\nseparator: '/'\nrules:\n"
                               f"  - {{match: 'kernel$', spec: {spec}}}\n"
                               "  - {match: '.', spec: Replicated}\n")
                done = run("check", "--no-project", "--mesh", "fsdp:2,tp:4",
                           "--manifest", path, "--rules", rules, "--format",
                           "json")
                found = [one["message"] for one in done.json()
                         if one["code"] == "SHD224"]
                self.assertEqual(bool(found), split, done)
                for message in found:
                    self.assertIn("dimension 1", message)
                    self.assertIn("counts 16 layers", message)
            text = self.check(run("suggest", "--no-project", "--mesh",
                                  "fsdp:2,tp:4", "--manifest", path), 0).out
            self.assertIn("dimension 1", text)
            self.assertIn("16 layers", text)

    def test_names_without_numbers_are_refused_in_one_message(self):
        """A file without rules would have a finding for each of them."""
        with tempfile.TemporaryDirectory() as folder:
            with open(os.path.join(folder, "m.json"), "w",
                      encoding="utf-8") as file:
                json.dump({"schema": "shardc.manifest/v1", "params": {
                    "".join("abcdefgh"[n // 8 ** i % 8] for i in range(5))
                    + ".weight": {"shape": [64, 64], "dtype": "BF16"}
                    for n in range(4097)}}, file)
            got = run("suggest", "--no-project", "--mesh", "fsdp:4,tp:2",
                      "--manifest", "m.json", cwd=folder)
        self.assertEqual((got.rc, got.out), (1, ""))
        self.assertIn("4,097 parameters would need one pattern each", got.err)
        self.assertLess(got.err.count("\n"), 12)

    def test_trees_of_other_programs(self):
        for name, (tensors, wanted) in OTHERS.items():
            path = self.write("other.json", [
                {"name": tensor, "shape": shape,
                 "dtype": dtype[0] if dtype else "BF16"}
                for tensor, shape, *dtype in tensors])
            for mesh in reversed(MESHES[:2]):
                rules, share = self.suggest(mesh, path)
                self.assert_clean(mesh, path, rules)
                self.assertLess(share, 1.12, name)
                if mesh == MESHES[0]:
                    continue
                plan = self.plan(mesh, path, rules)["params"]
                for tensor, spec in wanted.items():
                    self.assertEqual(plan[tensor]["spec"], spec, tensor)

    def test_names_only(self):
        path = self.path("names.json")
        with open(path, "w", encoding="utf-8") as file:
            json.dump({"schema": "shardc.manifest/v1", "params": [
                {"name": "a.weight", "shape": None, "dtype": None}]}, file)
        done = self.check(run("suggest", "--mesh", "tp:8", "--no-project",
                              "--manifest", path), 2)
        self.assertIn("1 of 1 parameter have no shape", done.err)
        self.assertEqual(done.out, "")

    def test_a_mesh_that_does_not_fit(self):
        path = os.path.join(MODELS, "llama-3-8b.hf.manifest.json")
        done = self.check(run("suggest", "--mesh", "tp:7,fsdp:5",
                              "--no-project", "--manifest", path), 1)
        self.assertEqual(done.out, "")
        self.assertIn("no suitable rules found for mesh", done.err)
        forced = self.check(run("suggest", "--mesh", "tp:7,fsdp:5", "--force",
                                "--no-project", "--manifest", path), 1)
        self.assertIn("version: 1", forced.out)

    def test_the_meshes_that_fit_have_rules(self):
        for name, mesh, *more in (
                ("models/gemma-2-9b.flax", "tp:7", "--prefer", "traffic"),
                ("corpus/manifests/qwen1.5-moe-a2.7b.hf-v5", "tp:3,sp:5")):
            path = os.path.join(TESTDATA, name + ".manifest.json.gz")
            given = ("--no-project", "--manifest", path, *more)
            done = self.check(run("suggest", "--mesh", mesh, *given), 1)
            line = re.search("meshes that fit: (.*`);", done.err)[1]
            for one in re.findall("`(.*?)`", line):
                self.check(run("suggest", "--mesh", one, *given), 0)

    def test_bad_input(self):
        self.check(run("suggest", "--no-project", "--mesh", "tp:8"), 2)
        self.check(run("suggest", "--no-project", "--manifest", os.path.join(
            MODELS, "llama-3-8b.hf.manifest.json")), 2)
        self.check(run("suggest", "--no-project", "--mesh", "tp:8",
                       "--manifest", self.path("none.json")), 2)
        empty = self.write("empty.json", [])
        self.check(run("suggest", "--no-project", "--mesh", "tp:8",
                       "--manifest", empty), 2)


if __name__ == "__main__":
    unittest.main(argv=[one for one in sys.argv if one != "--write"])
