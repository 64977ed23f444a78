"""Commands give the same figures for the same step.

`cost`, `fit`, `report`, `suggest` and `verify step` on the same model, mesh and
size: bytes that a device holds, bytes that it sends by collective, and the order
of meshes. SHARDC_AGREEMENT_EVERY=1 compares all cases instead of a sample.
"""

import collections
import html
import itertools
import json
import os
import re
import tempfile
import unittest

from driver import MODELS, ROOT, TESTDATA, Case, run

# Model, naming, mesh, batch, length, policy.
CASES = [
    ("llama-3-8b", "hf", "dp:2,fsdp:4,tp:2", 32, 4096, "nothing_saveable"),
    ("llama-3-8b", "flax", "fsdp:8,tp:4", 64, 8192, "everything_saveable"),
    ("mixtral-8x7b", "hf", "fsdp:4,ep:2,tp:2", 32, 2048, "nothing_saveable"),
    ("gemma-2-9b", "hf", "fsdp:8,tp:2", 32, 4096, "dots_saveable"),
    ("gpt2", "hf", "dp:4,tp:2", 16, 1024, "everything_saveable"),
    ("qwen3-8b", "hf", "fsdp:16", 32, 4096, "nothing_saveable"),
    ("llama-3.2-1b", "hf", "dp:2,fsdp:2,tp:2", 16, 2048, "nothing_saveable"),
    ("llama-3.2-1b", "flax", "fsdp:4,tp:4", 64, 1024, "dots_saveable"),
    ("devstral-small-24b", "hf", "dp:4,fsdp:4", 64, 2048, "nothing_saveable"),
    ("devstral-small-24b", "flax", "fsdp:2,tp:8", 32, 4096, "dots_saveable"),
    ("qwen2-7b", "hf", "fsdp:4,tp:4", 32, 4096, "nothing_saveable"),
    ("qwen2-0.5b", "hf", "dp:8,tp:2", 64, 512, "everything_saveable"),
    ("gemma-2b", "hf", "fsdp:8", 16, 2048, "nothing_saveable"),
    ("gemma-3-1b", "hf", "dp:2,fsdp:4", 16, 1024, "dots_saveable"),
    ("gemma-3-27b", "hf", "fsdp:8,tp:8", 64, 8192, "nothing_saveable"),
    ("llama-2-7b", "hf", "fsdp:4,tp:8", 32, 4096, "everything_saveable"),
    ("llama-2-70b", "hf", "fsdp:16,tp:8", 128, 4096, "nothing_saveable"),
    ("mixtral-8x22b", "hf", "fsdp:8,ep:4,tp:2", 64, 4096, "nothing_saveable"),
    ("qwen3-32b", "hf", "dp:2,fsdp:8,tp:4", 64, 4096, "nothing_saveable"),
    ("gpt2-xl", "flax", "dp:2,fsdp:2,tp:1", 16, 1024, "dots_saveable"),
]
# Flags that once changed the formulas of `cost`, by case: model, naming, mesh,
# batch, length, flags.
FLAGS = [
    ("llama-3.2-1b", "hf", "dp:2,fsdp:4", 64, 1024, ["--microbatches", "2"]),
    ("llama-3.2-1b", "hf", "dp:2,fsdp:4", 64, 1024,
     ["--microbatches", "8", "--reduce", "once"]),
    ("qwen2-0.5b", "hf", "dp:2,fsdp:2,tp:2", 64, 512,
     ["--microbatches", "4", "--reduce", "each"]),
    ("llama-3-8b", "hf", "dp:4,tp:2", 64, 2048, ["--zero", "1"]),
    ("llama-3-8b", "flax", "dp:8", 32, 2048,
     ["--zero", "2", "--microbatches", "4"]),
    ("llama-3-8b", "hf", "dp:4,fsdp:2,tp:2", 64, 2048, ["--zero", "3"]),
    ("llama-3-8b", "hf", "fsdp:8,tp:4", 64, 4096,
     ["--grad-dtype", "float32"]),
    ("gpt2", "hf", "dp:4,tp:2", 16, 1024, []),
    ("gpt2", "flax", "fsdp:4,tp:2", 16, 1024, ["--dtype", "float32"]),
    ("mixtral-8x7b", "hf", "fsdp:4,ep:2,tp:2", 64, 1024,
     ["--microbatches", "4", "--grad-dtype", "float32"]),
    ("llama-3-8b", "hf", "fsdp:4,sp:2,tp:2", 32, 8192, []),
    ("llama-3-8b", "hf", "fsdp:4,sp:4", 32, 8192, ["--operation", "ring"]),
    ("llama-2-7b", "hf", "fsdp:4,sp:4", 32, 4096,
     ["--operation", "ulysses", "--microbatches", "2"]),
]
# And of serving: cache dtypes.
SERVED = [
    ("llama-3-8b", "hf", "fsdp:2,tp:4", "decode", ["--kv-dtype", "int8"]),
    ("qwen2-7b", "hf", "fsdp:2,tp:4", "decode", ["--kv-dtype", "float32"]),
    ("gpt2", "hf", "dp:2,tp:2", "prefill", []),
]

# Models of which `cost` and `verify step` count the same products.
PRODUCTS = [
    ("llama-3-8b", "hf", "fsdp:2,tp:2"),
    ("llama-3.2-1b", "flax", "dp:2,tp:4"),
    ("qwen2-7b", "hf", "fsdp:4,tp:4"),
    ("devstral-small-24b", "flax", "fsdp:4,tp:2"),
    ("gemma-2-9b", "hf", "fsdp:8"),
]

# The configurations whose products differ, by the reason.
VOCABULARY = ("gpt2", "gpt2-xl")
PLACES = ("deepseek-v3", "deepseek-v3.1", "gpt-oss-120b", "gpt-oss-20b",
          "granite-3.1-1b-a400m", "llama-4-maverick", "mixtral-8x22b",
          "mixtral-8x7b", "qwen3-235b-a22b", "qwen3-30b-a3b")
OTHER_PRODUCTS = (
    {(model, "train") for model in (*VOCABULARY, *PLACES)} |
    {(model, "decode") for model in PLACES})
PRODUCTS_HEAD = """\
# Products of `cost` as a fraction of those of the step of `verify step`, of 16 rows
# of 32 tokens on fsdp:2,tp:2. The reasons for more than 0.005 in training and 0.0005
# in decoding:
# - gpt2, granite: tp does not divide the vocabulary. The step computes one of the two
#   gradients of the head on every device of tp, where `cost` counts a part.
# - experts: the step has queues with places for more tokens than there are, of which
#   `cost` counts those of the router's choices.
# model, mode, ratio
"""

MODES = ("train", "prefill", "decode")
SECTIONS_HEAD = """\
# Bytes that a device sends in a step by the program of a pack's `model:` section
# and by the formulas without it, their ratio, and where they differ by more than a
# hundredth, the collective that differs most: bytes of the program less those of
# the formulas. The reasons:
# - decode, all_gather of a fully sharded axis: the formulas gather the weights, and
#   a program moves the few activations; logits stay sharded in a program.
# - train, backward all_gather over tp: a program gathers the sharded input of each
#   half of a layer again for the gradients of its weights, the formulas once.
# - train, backward all_gather of a fully sharded axis: a program does not gather an
#   embedding that the backward pass does not read.
# - forward all_reduce over tp (Gemma): a norm after a half of a layer reads the
#   complete sum, so that a program all-reduces it instead of reduce-scattering.
# - experts (Mixtral): a program adds the outputs of a token's experts before it
#   sums them over the experts' axis, and sums over tp what each axis still holds.
# model, naming, mesh, mode, program, formulas, ratio, largest difference
"""


def pack_of(case):
    name = next((name for name in ("mixtral", "gemma", "gpt2")
                 if case[0].startswith(name)), "llama")
    return f"{name}.{case[1]}.yaml"


def asked(every):
    text = os.environ.get("SHARDC_AGREEMENT_EVERY")
    return CASES[::int(text) if text else every]


def inputs(model, naming):
    path = os.path.join(MODELS, f"{model}.{naming}.manifest.json")
    return ["--manifest", path if os.path.exists(path) else path + ".gz",
            "--model", os.path.join(TESTDATA, "configs",
                                    f"{model}.config.json"),
            "--rules", "auto", "--no-project"]


class Agreement(Case):
    def setUp(self):
        self.folder = tempfile.TemporaryDirectory()
        self.addCleanup(self.folder.cleanup)

    def cost(self, *arguments):
        words = [word for one in arguments
                 for word in (one if isinstance(one, list) else [one])]
        got = run("cost", *words, "--format", "json")
        self.assertIn(got.rc, (0, 1), got.err)
        return json.loads(got.out)

    def by_collective(self, rows):
        out = {}
        for one in rows:
            key = (one["phase"] != "forward", one["collective"],
                   tuple(one["axes"]))
            count, sent = out.get(key, (0, 0))
            out[key] = (count + one["count"], sent + one["bytes_per_device"])
        return out

    def largest_difference(self, program, formulas):
        less = collections.Counter()
        for cost, sign in ((program, 1), (formulas, -1)):
            for one in cost["communication"]:
                less[f"{one['phase']} {one['collective']} "
                     f"{','.join(one['axes'])}"] += (
                         sign * one["bytes_per_device"])
        name = max(sorted(less), key=lambda one: abs(less[one]))
        return f"{name} {less[name]:+d}"

    def step_of(self, case):
        model, naming, _, batch, length, remat = case
        return [*inputs(model, naming), "--batch", str(batch), "--seq",
                str(length), "--remat", remat]

    def with_batch(self, step, axes):
        """Mixtral's pack with the batch over these axes."""
        rules = os.path.join(self.folder.name, "rules.yaml")
        with open(rules, "w", encoding="utf-8") as file:
            file.write("version: 1\nextends: [builtin:mixtral]\n"
                       f"axes: {{batch: [{', '.join(axes)}]}}\n")
        return [rules if one == "auto" else one for one in step]

    def of_step(self, flags):
        """Flags of `cost` as `verify step` has them."""
        return ["--activation-dtype" if one == "--dtype" else one
                for one in flags]

    def verified_is(self, cost, *arguments):
        """`verify step` sends what `cost` counts, and holds the same memory,
        component by component."""
        self.assertEqual(cost["communication_from"], "program")
        got = run("verify", "step", *arguments, "--format", "json")
        self.assertEqual(got.rc, 0, got.err + got.out[-2000:])
        (step,) = json.loads(got.out)["steps"]
        self.assertEqual(self.by_collective(cost["communication"]),
                         self.by_collective(step["totals"]["by_collective"]))
        self.assertEqual(step["memory"]["peak"], cost["memory"]["total"])
        for name in ("parameters", "gradients", "optimizer", "kv_cache",
                     "activations", "logits", "gathered"):
            self.assertEqual(step["memory"][name],
                             cost["memory"].get(name) or 0, name)

    def test_no_flag_changes_what_commands_say(self):
        for model, naming, mesh, batch, length, flags in FLAGS:
            step = [*inputs(model, naming), "--batch", str(batch), "--seq",
                    str(length), "--remat", "nothing_saveable"]
            with self.subTest(model=model, mesh=mesh, flags=flags):
                cost = self.cost(*[step, ["--mesh", mesh], flags, ["--profile",
                                          "h100-sxm"]])
                self.verified_is(cost, *step, "--mesh", mesh,
                                 *self.of_step(flags))
                sizes = {name: int(size) for name, size in (
                    one.split(":") for one in mesh.split(","))}
                devices = 1
                for size in sizes.values():
                    devices *= size
                fit = json.loads(run(
                    "fit", *step, *flags, "--devices", str(devices), "--axes",
                    ",".join(sizes), "--profile", "h100-sxm", "--format",
                    "json").out)
                (one,) = [one for one in fit["meshes"] if one["axes"] == sizes]
                self.assertTrue(one["legal"], one["reason"])
                if one["batch"]:
                    continue
                self.assertEqual(one["bytes_per_device"],
                                 cost["memory"]["total"])
                self.assertEqual(one["communication"],
                                 cost["communication_bytes"]["total"])
                self.assertEqual(one["seconds"], cost["time"]["expected_s"])

    def test_serving_sends_and_holds_the_same(self):
        for model, naming, mesh, mode, flags in SERVED:
            sizes = ["--batch", "16", "--mesh", mesh, "--mode", mode]
            with self.subTest(model=model, mode=mode, flags=flags):
                cost = self.cost(*[inputs(model, naming), sizes, flags,
                                   ["--seq", "512", "--kv-len", "512"]])
                self.verified_is(cost, *inputs(model, naming), *sizes, "--seq",
                                 "512", *self.of_step(flags))

    def test_products_of_the_step_are_those_of_the_cost_model(self):
        """`cost` counts products by the roles of parameters, `verify step` by
        the ops of the step. They agree where a query attends to every key (in
        decoding), or where attention is little (32 tokens): `cost` counts half
        of the keys under a causal mask, the step all of them. They do not
        agree, and are not compared here, where heads or the vocabulary do not
        divide, where experts have more places than tokens, and for an encoder,
        whose input has a length of its own."""
        for model, naming, mesh in PRODUCTS:
            step = [*inputs(model, naming), "--batch", "16", "--mesh", mesh]
            for mode, within in (("train", 0.005), ("decode", 0.0005)):
                with self.subTest(model=model, mode=mode):
                    cost = self.cost(*step, "--mode", mode, "--seq", "32",
                                     "--kv-len", "32")
                    got = run("verify", "step", *step, "--mode", mode, "--seq",
                              "32", "--format", "json")
                    self.assertEqual(got.rc, 0, got.err)
                    (one,) = json.loads(got.out)["steps"]
                    flops = one["flops"]
                    self.assertLess(
                        abs(cost["time"]["flops"] / flops["products"] - 1),
                        within, flops)
                    # The rest is norms, functions, sums and the optimizer.
                    whole = sum(flops[phase] for phase in
                                ("forward", "backward", "optimizer"))
                    self.assertLess(1 - flops["products"] / whole, 0.02)
                    self.assertEqual(flops["backward"] > 0, mode == "train")

    def test_products_of_all_configurations(self):
        """The products of `cost` and of the step, of every configuration that
        has both. testdata/tables/products.txt lists their ratios; those that
        differ have their reason in OTHER_PRODUCTS."""
        lines = []
        folder = os.path.join(TESTDATA, "configs")
        for file in sorted(os.listdir(folder)):
            model = file.removesuffix(".config.json")
            config = ["--model", os.path.join(folder, file), "--no-project"]
            made = run("manifest", *config, "--format", "json")
            if made.rc != 0:
                continue
            path = os.path.join(self.folder.name, "manifest.json")
            with open(path, "w", encoding="utf-8") as out:
                out.write(made.out)
            for mode in ("train", "decode"):
                step = [*config, "--manifest", path, "--rules", "auto",
                        "--mesh", "fsdp:2,tp:2", "--batch", "16", "--mode",
                        mode, "--seq", "32"]
                got = run("verify", "step", *step, "--format", "json")
                if got.rc not in (0, 1):
                    continue
                (one,) = json.loads(got.out)["steps"]
                if not one["flops"]:
                    continue
                # The step leaves out axes that do not divide the heads.
                cost = self.cost(*step, "--kv-len", "32", "--illegal", "drop")
                ratio = cost["time"]["flops"] / one["flops"]["products"]
                lines.append(f"{model} {mode} {ratio:.4f}\n")
                within = 0.005 if mode == "train" else 0.0005
                if abs(ratio - 1) > within:
                    with self.subTest(model=model, mode=mode):
                        self.assertIn((model.split(".alt-")[0], mode),
                                      OTHER_PRODUCTS, ratio)
        path = os.path.join(TESTDATA, "tables", "products.txt")
        if os.environ.get("SHARDC_WRITE_TABLES"):
            with open(path, "w", encoding="utf-8") as out:
                out.write(PRODUCTS_HEAD + "".join(lines))
        with open(path, encoding="utf-8") as listed:
            self.assertEqual(listed.read().split("\n"),
                             (PRODUCTS_HEAD + "".join(lines)).split("\n"))

    def test_the_default_operation_written_out_is_the_default(self):
        step = [*inputs("llama-3-8b", "hf"), "--batch", "32", "--seq", "4096",
                "--kv-len", "4096", "--mesh", "fsdp:4,sp:2,tp:2"]
        for mode, name in (("train", "flash_attn2"), ("prefill", "flash_attn2"),
                           ("decode", "flash_decoding")):
            with self.subTest(mode=mode):
                left_out = self.cost(*step, "--mode", mode)
                written = self.cost(*step, "--mode", mode, "--operation", name)
                for key in ("memory", "communication", "activations"):
                    self.assertEqual(left_out[key], written[key], key)

    def test_keys_are_gathered_before_they_are_repeated(self):
        """Llama 3.1 405B has 16 query heads for each KV head. A device sends
        its own keys and values of 8 of 16 parts, not those of all heads."""
        cost = self.cost(*inputs("llama-3.1-405b", "hf"), "--batch", "16",
                         "--seq", "131072", "--mesh", "fsdp:16,sp:16,tp:8",
                         "--remat", "nothing_saveable")
        layers, rows, heads, head, parts = 126, 1, 8 // 8, 128, 16
        shard = rows * 131072 // parts * heads * head * 2
        (gathers,) = [one for one in cost["communication"]
                      if one["collective"] == "all_gather" and
                      one["axes"] == ["sp"] and one["phase"] == "forward" and
                      one["part"] == "attention"]
        positions = 131072 // parts * 4 * (parts - 1)
        self.assertEqual(gathers["bytes_per_device"],
                         2 * layers * shard * (parts - 1) + positions)

    def test_cost_and_fit_hold_and_send_the_same(self):
        for case in asked(3):
            mesh = case[2]
            sizes = dict(one.split(":") for one in mesh.split(","))
            devices = 1
            for size in sizes.values():
                devices *= int(size)
            step = [*self.step_of(case), "--profile", "h100-sxm"]
            with self.subTest(case=case):
                cost = self.cost([*step, "--mesh", mesh])
                fit = json.loads(run("fit", *step, "--devices", str(devices),
                                     "--axes", ",".join(sizes), "--format",
                                     "json").out)
                (one,) = [one for one in fit["meshes"]
                          if one["axes"] == {name: int(size) for name, size
                                             in sizes.items()}]
                if one["batch"]:
                    cost = self.cost([*self.with_batch(step, one["batch"]),
                                      "--mesh", mesh])
                self.assertTrue(one["legal"], one["reason"])
                self.assertEqual(one["bytes_per_device"],
                                 cost["memory"]["total"])
                self.assertEqual(one["communication"],
                                 cost["communication_bytes"]["total"])
                self.assertEqual(one["seconds"], cost["time"]["expected_s"])

    def test_cost_with_and_without_a_model_section(self):
        """Memory is the same; where a program sends other bytes than the
        formulas, both are listed in testdata/tables/model_sections.txt."""
        lines = []
        for case, mode in itertools.product(CASES, MODES):
            model, naming, mesh, batch, length, remat = case
            with open(os.path.join(ROOT, "rules", pack_of(case)),
                      encoding="utf-8") as file:
                section = file.read()
            bare = re.sub(r"(?ms)^model:\n.*?(?=^\S|\Z)", "", section)
            self.assertNotEqual(section, bare)
            costs = []
            for text in (section, bare):
                rules = os.path.join(self.folder.name, "rules.yaml")
                with open(rules, "w", encoding="utf-8") as file:
                    file.write(text)
                costs.append(self.cost([
                    *(rules if one == "auto" else one
                      for one in inputs(model, naming)),
                    "--mesh", mesh, "--mode", mode, "--batch", str(batch),
                    "--seq", str(length), "--kv-len", str(length),
                    *(["--remat", remat] if mode == "train" else [])]))
            program, formulas = costs
            with self.subTest(case=case, mode=mode):
                self.assertEqual(program["memory"], formulas["memory"])
                self.assertEqual(program["activations"],
                                 formulas["activations"])
                self.assertEqual(formulas["communication_from"], "formulas")
            sent = [one["communication_bytes"]["total"] for one in costs]
            line = [model, naming, mesh, mode, *map(str, sent),
                    f"{sent[0] / sent[1]:.3f}"]
            if abs(sent[0] / sent[1] - 1) > 0.01:
                line.append(self.largest_difference(program, formulas))
            lines.append(" ".join(line) + "\n")
        path = os.path.join(TESTDATA, "tables", "model_sections.txt")
        if os.environ.get("SHARDC_WRITE_TABLES"):
            with open(path, "w", encoding="utf-8") as file:
                file.write(SECTIONS_HEAD + "".join(lines))
        with open(path, encoding="utf-8") as file:
            listed = file.read()
        self.assertEqual(listed.split("\n"),
                         (SECTIONS_HEAD + "".join(lines)).split("\n"))

    def test_formulas_gather_no_experts(self):
        """Experts in one tensor, whose axis shards the batch too."""
        path = os.path.join(self.folder.name, "experts.json")
        model = ["--model", os.path.join(TESTDATA, "configs",
                                         "mixtral-8x7b.config.json")]
        with open(path, "w", encoding="utf-8") as file:
            file.write(self.check(run(
                "manifest", "--no-project", *model, "--naming", "hf",
                "--format", "json"), 0).out)
        with open(os.path.join(ROOT, "rules", "mixtral.hf.yaml"),
                  encoding="utf-8") as file:
            section = file.read().replace(
                "rules:\n", "axes: {batch: [fsdp, dp, ep]}\nrules:\n", 1)
        bare = re.sub(r"(?ms)^model:\n.*?(?=^\S|\Z)", "", section)
        costs = []
        for text in (section, bare):
            rules = os.path.join(self.folder.name, "rules.yaml")
            with open(rules, "w", encoding="utf-8") as file:
                file.write(text)
            costs.append(self.cost([
                "--no-project", *model, "--manifest", path, "--rules", rules,
                "--mesh", "fsdp:2,ep:4", "--mode", "prefill", "--batch", "64",
                "--seq", "2048"]))
        program, formulas = costs
        self.assertEqual(program["communication_from"], "program")
        self.assertEqual(formulas["communication_from"], "formulas")
        self.assertEqual(self.sent_by(formulas), self.sent_by(program))
        self.assertEqual(formulas["memory"], program["memory"])

    def sent_by(self, cost):
        out = collections.Counter()
        for one in cost["communication"]:
            out[one["collective"], tuple(one["axes"])] += one[
                "bytes_per_device"]
        return out

    def test_cost_and_verify_step_send_and_hold_the_same(self):
        for case in asked(5):
            step = [*self.step_of(case), "--mesh", case[2]]
            with self.subTest(case=case):
                cost = self.cost(step)
                self.verified_is(cost, *step)

    def test_cost_and_report_show_the_same(self):
        for case in asked(7):
            step = [*self.step_of(case), "--mesh", case[2], "--modes", "train"]
            with self.subTest(case=case):
                text = run("cost", *step).out
                page = html.unescape(re.sub("<[^>]*>", " ", run(
                    "report", *step).out))
                total = re.search(r"^  total +([0-9.]+ [A-Za-z]+)", text,
                                  re.M).group(1)
                self.assertIn(total, re.sub(r"\s+", " ", page))

    def test_suggest_and_fit_choose_the_same_mesh(self):
        for model, devices in (("llama-3-8b", 64), ("qwen2-7b", 64),
                               ("llama-3.1-405b", 512)):
            step = ["--seq", "8192", "--batch", str(devices), "--memory",
                    "80GiB", "--profile", "h100-sxm", "--devices",
                    str(devices)]
            with self.subTest(model=model):
                fit = json.loads(run("fit", *inputs(model, "hf"), *step,
                                     "--remat", "nothing_saveable",
                                     "--format", "json").out)
                text = run("fit", *inputs(model, "hf"), *step, "--remat",
                           "nothing_saveable").out
                self.assertTrue(fit["meshes"][0]["may_fit"])
                # Both break ties by memory, but suggest's own rules may hold
                # other activations: over tp it does not shard the hidden state.
                tied = [",".join(f"{name}:{size}" for name, size
                                 in one["axes"].items() if size > 1)
                        for one in fit["meshes"] if one["rank"] == 1]
                said = run("suggest", "--no-project", *inputs(
                    model, "hf")[:4], *step).err
                chosen = re.search(r"^ +\* ([a-z0-9:,]+) +(.*) per device, "
                                   r"(.*) a step(?:, may exceed the memory)?$",
                                   said, re.M)
                self.assertIn(chosen.group(1), tied)
                if not any("tp" in mesh for mesh in tied):
                    self.assertEqual(chosen.group(1), tied[0])
                # The same bytes and the same time.
                words = chosen.group(1).replace(":", "=").replace(",", " ")
                row = next(line for line in text.split("best first")[1]
                           .splitlines() if line.strip().startswith(
                               words + "  "))
                self.assertIn(chosen.group(2), row)
                self.assertRegex(row, "  " + re.escape(chosen.group(3)) +
                                 r"( *$|  +tie for 1$)")

    def test_fit_orders_meshes_as_cost_does(self):
        step = [*inputs("llama-3-8b", "hf"), "--batch", "64", "--seq", "4096",
                "--remat", "nothing_saveable", "--profile", "h100-sxm"]
        fit = json.loads(run("fit", *step, "--devices", "16", "--format",
                             "json").out)
        times, ranks = [], []
        for one in fit["meshes"]:
            if not one["fits"]:
                continue
            ranks.append(one["rank"])
            mesh = ",".join(f"{name}:{size}"
                            for name, size in one["axes"].items())
            times.append(self.cost([*step, "--mesh", mesh])["time"]["expected_s"])
        self.assertGreater(len(times), 3)
        self.assertEqual(ranks, sorted(ranks))
        # Times of `cost` decide the ranks: a tie is within 5 % of its fastest.
        fastest = [min(time for time, other in zip(times, ranks)
                       if other == rank) for rank in ranks]
        self.assertEqual(fastest, sorted(fastest))
        for time, first in zip(times, fastest):
            self.assertLess(time, 1.05 * first)
        for i, j in itertools.combinations(range(len(ranks)), 2):
            if ranks[i] != ranks[j]:
                self.assertGreaterEqual(fastest[j], 1.05 * fastest[i])


if __name__ == "__main__":
    unittest.main()
