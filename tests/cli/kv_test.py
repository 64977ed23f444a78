"""The map of a KV cache (`shardc kv`): published sizes, published mistakes of
servers, agreement with the figures of `cost`, and files that are not plans."""

import json
import os
import random
import tempfile
import time
import unittest

from driver import ROOT, TESTDATA, Case, run

CONFIGS = os.path.join(TESTDATA, "configs")
TOKENS = 8192


def config(name):
    with open(os.path.join(CONFIGS, name + ".config.json"),
              encoding="utf-8") as file:
        return json.load(file)


def llama(layers=80, heads=64, kv_heads=8, head_dim=128, **keys):
    return {"model_type": "llama", "num_hidden_layers": layers,
            "num_attention_heads": heads, "num_key_value_heads": kv_heads,
            "head_dim": head_dim, "hidden_size": heads * head_dim,
            "intermediate_size": 128, "vocab_size": 128, **keys}


# Qwen3.5: every fourth of 60 layers has attention, with 2 KV heads of 256; the
# others have linear attention.
QWEN = {"model_type": "qwen3_next", "num_hidden_layers": 60,
        "num_attention_heads": 32, "num_key_value_heads": 2, "head_dim": 256,
        "hidden_size": 4096, "vocab_size": 128, "full_attention_interval": 4,
        "linear_num_key_heads": 16, "linear_num_value_heads": 64,
        "linear_key_head_dim": 128, "linear_value_head_dim": 128,
        "linear_conv_kernel_dim": 4}
# GLM-5: 78 layers with latent attention; its indexer is a key of 128.
GLM = {"model_type": "glm_moe_dsa", "num_hidden_layers": 78,
       "num_attention_heads": 64, "hidden_size": 6144, "vocab_size": 128,
       "kv_lora_rank": 512, "qk_rope_head_dim": 64, "qk_nope_head_dim": 192,
       "v_head_dim": 256, "index_head_dim": 128}

RULES = {"version": 1, "rules": [{"match": ".*", "spec": []}]}


class Plans:
    """Writes plans of one parameter a layer, whose attention the mesh shards."""

    def __init__(self, folder):
        self.folder = folder
        self.count = 0

    def path(self, value):
        self.count += 1
        path = os.path.join(self.folder, f"{self.count}.json")
        with open(path, "w", encoding="utf-8") as file:
            file.write(value if isinstance(value, str) else json.dumps(value))
        return path

    def plan(self, model, mesh, *flags, axes=None, stages=None, replicate=True):
        layers = model.get("num_hidden_layers", 1) if model else 1
        rules = {**RULES, "kv_replicate": replicate}
        if axes:
            rules["axes"] = axes
        if stages:
            rules["stages"] = {"axis": "pp", "schedule": "1f1b",
                               "microbatches": 8, "assign": stages,
                               "layers": "layers[.](\\d+)[.]"}
        manifest = {"schema": "shardc.manifest/v1", "separator": ".", "params": [
            {"name": f"layers.{i}.w", "shape": [64], "dtype": "BF16"}
            for i in range(layers)]}
        out = self.path("")
        done = run("plan", "--mesh", mesh, "--rules", self.path(rules),
                   "--manifest", self.path(manifest),
                   *(["--model", self.path(model)] if model else []),
                   "--no-project", "--quiet", "-o", out, *flags)
        if done.rc != 0:
            raise AssertionError(repr(done))
        return out


def changed_plans(plans, plan, count):
    """Copies of a plan with changes of `kv` and the mesh, with the draws."""
    with open(plan, encoding="utf-8") as file:
        text = file.read()
    draws = random.Random(1)
    values = [None, -1, 0, 1, 2**24, 2**31, 2**63 - 1, 2**64, 1.5, "x", "tp",
              [], {}, [[0, 0]], [[3, 1]], [[0, 2], [1, 4]], [[0, 10**9]],
              [[0, 4]] * 3, ["tp", "tp"], {"prefill": "tp"},
              {"decode": ["none", "tp"]}, {"prefill": ["tp", "tp"]}]
    for _ in range(count):
        value = json.loads(text)
        kind = value["kv"][0]
        for _ in range(draws.randint(1, 3)):
            key = draws.choice(["heads", "head_dim", "value_dim", "window",
                                "layers", "kind", "axes"])
            kind[key] = draws.choice(values)
        if draws.random() < 0.2:
            value["mesh"]["axes"][1]["size"] = draws.choice([1, 2**20, 2**40])
            value["mesh"]["devices"] = 2 * value["mesh"]["axes"][1]["size"]
        yield draws, plans.path(value)


class KvCase(Case):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.plans = Plans(folder.name)

    def kv(self, source, destination, *flags, rc=0):
        done = self.check(run("kv", "--from", source, "--to", destination,
                              *flags, "--format", "json"), rc)
        return done.json()

    def map(self, model, source, destination, *flags, rc=0, **keys):
        """The map between two meshes, or between arguments of plan()."""
        def plan(side):
            if isinstance(side, str):
                return self.plans.plan(model, side, **keys)
            return self.plans.plan(model, side[0], **{**keys, **side[1]})
        return self.kv(plan(source), plan(destination), *flags, rc=rc)

    def refusal(self, *arguments, **keys):
        out = self.map(*arguments, rc=1, **keys)
        self.assertEqual(out["pairs"], [])
        self.assertIsNone(out["totals"])
        return "; ".join(out["refused"])


class Published(KvCase):
    """Bytes in MB of 10^6, as the sources have them."""

    def row(self, model, source, destination, flags, once, times, pairs,
            largest, descriptors, kind="full"):
        flags = ["--tokens", TOKENS, *flags]
        if "--page" not in flags:
            flags += ["--page", "64"]
        out = self.map(model, source, destination, *flags)
        at = [one["kind"] for one in out["kinds"]].index(kind)
        one = out["kinds"][at]
        self.assertEqual(round(one["once"] / 1e6, 1), once)
        self.assertEqual(one["sent"], one["once"] * times)
        self.assertEqual(one["pairs"], pairs)
        self.assertEqual((round(one["largest_source"] / 1e6),
                          round(one["largest_destination"] / 1e6)), largest)
        self.assertEqual(one["descriptors"], descriptors)
        return out

    def test_llama_70b(self):
        model = config("llama-3-70b")
        for order in ("HND", "NHD"):
            self.row(model, "tp:4", "tp:4", ["--order", order], 2684.4, 1, 4,
                     (671, 671), 81920)
        hnd = ["--order", "HND"]
        self.row(model, "tp:4", "tp:8", hnd, 2684.4, 1, 8, (671, 336), 163840)
        self.row(model, "tp:8", "tp:2", hnd, 2684.4, 1, 8, (336, 1342), 163840)
        self.row(model, "tp:4", "tp:16", hnd, 2684.4, 2, 16, (1342, 336),
                 327680)
        out = self.row(model, "tp:4", "tp:8", ["--order", "HND:NHD"], 2684.4, 1,
                       8, (671, 336), 10485760)
        # A page of one head is the same memory in both orders.
        self.assertEqual(out["totals"]["least_descriptors"], 163840)
        self.row(model, "tp:4", "tp:4", ["--page", "64:16", "--order", "NHD"],
                 2684.4, 1, 4, (671, 671), 327680)
        # A page of two heads is two ranges if a page of the other side has a
        # quarter of its tokens.
        self.row(model, "tp:4", "tp:4", ["--page", "64:16", "--order", "HND"],
                 2684.4, 1, 4, (671, 671), 655360)

    def test_qwen_3_5(self):
        out = self.row(QWEN, "tp:1", "tp:4", ["--kv-dtype", "float8_e4m3fn",
                                               "--order", "HND"],
                       125.8, 2, 4, (252, 63), 15360)
        kinds = {one["kind"]: one for one in out["kinds"]}
        self.assertEqual([kinds["full"]["layers"][:2], kinds["state"]["layers"][:2]],
                         [[[3, 4], [7, 8]], [[0, 3], [4, 7]]])
        # A state of 64 heads of 128 x 128 float32 numbers in 45 layers.
        self.assertEqual(kinds["state"]["once"], 45 * 64 * 128 * 128 * 4)
        self.assertEqual(kinds["state"]["sent"], kinds["state"]["once"])
        # The convolution keeps 3 inputs: queries, keys and values in bfloat16.
        self.assertEqual(kinds["conv_key"]["once"], 45 * 2 * 16 * 128 * 3 * 2)
        self.assertEqual(kinds["conv_value"]["once"], 45 * 64 * 128 * 3 * 2)

    def test_deepseek(self):
        model = config("deepseek-v3")
        self.row(model, "tp:8", "dp:8", [], 575.7, 1, 1, (576, 576), 7808,
                 "latent")
        out = self.row(model, "tp:8", "dp:8", ["--share-replicas"], 575.7, 1, 8,
                       (72, 576), 7808, "latent")
        self.assertEqual(out["idle_sources"], 0)
        self.assertEqual(
            [pair["pieces"][0]["range"] for pair in out["pairs"]],
            [[i * 1024, (i + 1) * 1024] for i in range(8)])
        self.row(model, "dp:8", "tp:8", [], 575.7, 8, 8, (4605, 576), 62464,
                 "latent")
        idle = self.map(model, "tp:8", "dp:8", "--tokens", 64)
        self.assertEqual(idle["idle_sources"], 7)

    def test_glm(self):
        out = self.row(GLM, ("pp:4,tp:8", {"stages": "even"}), "dp:8", [], 736.1,
                       1, 4, (189, 736), 9984, "latent")
        self.assertEqual(out["kinds"][1]["kind"], "indexer")
        self.assertEqual(out["kinds"][1]["once"], 78 * 128 * 2 * TOKENS)
        # Each stage sends its layers: 19, 20, 19, 20.
        self.assertEqual(
            sorted(pair["pieces"][0]["layers"] for pair in out["pairs"]),
            [[[0, 19]], [[19, 39]], [[39, 58]], [[58, 78]]])


class Mistakes(KvCase):
    """Mistakes of servers that were published: each is mapped right or refused."""

    def test_heads_of_a_device_times_tp_are_not_the_heads(self):
        # 2 KV heads over 4 devices: a device has one head, and the model not 4.
        out = self.map(llama(layers=4, kv_heads=2), "tp:4", "tp:1", "--tokens", 8)
        self.assertEqual(
            [(pair["from"], piece["heads"], piece["from_head"], piece["to_head"])
             for pair in out["pairs"] for piece in pair["pieces"]],
            [(0, [0, 1], 0, 0), (2, [1, 2], 0, 1)])
        self.assertEqual(out["totals"]["once"], 4 * 2 * 2 * 128 * 2 * 8)

    def test_groups_are_those_of_heads_and_not_of_devices(self):
        # tp 1 -> tp 4 with 2 heads: two heads of the source, each sent twice.
        out = self.map(llama(layers=4, kv_heads=2), "tp:1", "tp:4", "--tokens", 8)
        self.assertEqual([pair["pieces"][0]["from_head"] for pair in out["pairs"]],
                         [0, 0, 1, 1])
        self.assertEqual(out["totals"]["sent"], 2 * out["totals"]["once"])

    def test_fewer_devices_of_the_destination(self):
        for source, destination, pairs in (("tp:2", "tp:1", 2),
                                           ("tp:4", "tp:1", 4)):
            out = self.map(llama(layers=4), source, destination, "--tokens", 8)
            self.assertEqual(out["totals"]["pairs"], pairs)
            self.assertTrue(out["proof"]["enumerated"])

    def test_windows_with_other_tensor_parallelism(self):
        out = self.map(config("gpt-oss-120b"), "tp:4", "tp:8", "--tokens", 1000)
        kinds = {one["kind"]: one for one in out["kinds"]}
        self.assertEqual(kinds["window"]["layers"], [[i, i + 1] for i in
                                                     range(0, 36, 2)])
        # 18 layers keep all tokens, 18 the last 128; 8 heads of 64.
        row = 2 * 8 * 64 * 2
        self.assertEqual(kinds["full"]["once"], 18 * row * 1000)
        self.assertEqual(kinds["window"]["once"], 18 * row * 128)
        pieces = [piece for pair in out["pairs"] for piece in pair["pieces"]
                  if out["kinds"][piece["kind"]]["kind"] == "window"]
        self.assertEqual({tuple(piece["range"]) for piece in pieces},
                         {(872, 1000)})

    def test_orders_of_pages(self):
        model = llama(layers=1)
        same = self.map(model, "tp:4", "tp:4", "--tokens", 128, "--page", 64,
                        "--order", "HND")
        other = self.map(model, "tp:4", "tp:4", "--tokens", 128, "--page", 64,
                         "--order", "HND:NHD")
        self.assertEqual(same["totals"]["descriptors"], 2 * 2 * 4)
        self.assertEqual(other["totals"]["descriptors"], 2 * 128 * 2 * 4)
        # Pages of another size in NHD: one range for each page of 16 tokens.
        ratio = self.map(model, "tp:4", "tp:4", "--tokens", 128, "--page", "64:16",
                         "--order", "NHD")
        self.assertEqual(ratio["totals"]["descriptors"], 2 * 8 * 4)
        # Heads that are copied in part need the order.
        unknown = self.map(model, "tp:4", "tp:8", "--tokens", 128, "--page", 64)
        self.assertIsNone(unknown["totals"]["descriptors"])
        self.assertEqual([fact["settled_by"] for fact in unknown["not_known"]],
                         ["--order"])

    def test_dtypes_differ_only_where_that_is_stated(self):
        # Each kind has its own dtype: a state is no sample for the pages.
        dtype = ["--kv-dtype", "float8_e4m3fn:bfloat16", "--tokens", 8]
        text = self.refusal(QWEN, "tp:1", "tp:2", *dtype)
        self.assertIn("F8_E4M3 and the destination BF16 (`--kv-dtype`)", text)
        self.map(QWEN, "tp:1", "tp:2", *dtype, "--convert")
        text = self.refusal(QWEN, "tp:1", "tp:2", "--tokens", 8,
                            "--state-dtype", "float32:bfloat16")
        self.assertIn("`--state-dtype`", text)
        # Llama has no states.
        self.map(llama(layers=2), "tp:1", "tp:2", "--tokens", 8,
                 "--state-dtype", "float32:bfloat16")

    def test_pages_of_hybrid_models(self):
        out = self.map(config("gpt-oss-120b"), "tp:4", "tp:8", "--tokens", 256,
                       "--page", "64:16", "--order", "HND")
        # 2 heads of 64 in 64 tokens, 1 head in 16 tokens; keys and values.
        self.assertEqual([one["page_bytes"] for one in out["kinds"]],
                         [[2 * 2 * 64 * 2 * 64, 2 * 64 * 2 * 16]] * 2)

    def test_stages_send_their_layers_by_number(self):
        model = llama(layers=10)
        out = self.map(model, ("pp:2,tp:2", {"stages": [7, 3]}),
                       ("pp:2,tp:2", {"stages": [4, 6]}), "--tokens", 8)
        got = {(pair["from"], pair["to"]): pair["pieces"][0]["layers"]
               for pair in out["pairs"]}
        self.assertEqual(got, {(0, 0): [[0, 4]], (1, 1): [[0, 4]],
                               (0, 2): [[4, 7]], (1, 3): [[4, 7]],
                               (2, 2): [[7, 10]], (3, 3): [[7, 10]]})

    def test_keys_and_values_joint_or_split(self):
        model = llama(layers=1)
        for tensors, descriptors in (("split", 2 * 2 * 4), ("joint", 2 * 4),
                                     ("joint:split", 2 * 2 * 4)):
            out = self.map(model, "tp:4", "tp:4", "--tokens", 128, "--page", 64,
                           "--order", "HND", "--kv-tensors", tensors)
            self.assertEqual(out["totals"]["descriptors"], descriptors, tensors)

    def test_draft_layers_are_on_both_sides_or_refused(self):
        model = config("deepseek-v3")
        flags = ["--tokens", 64]
        text = self.refusal(model, "tp:8", "dp:8", *flags, "--draft", "1:0")
        self.assertIn("the source has layer 61 of the kind `latent, draft`, and "
                      "the destination has none", text)
        out = self.map(model, "tp:8", "dp:8", *flags, "--draft", "1")
        self.assertEqual([(one["draft"], one["layers"]) for one in out["kinds"]],
                         [(False, [[0, 61]]), (True, [[61, 62]])])
        out = self.map(llama(layers=4), ("pp:2,tp:2", {"stages": "even"}), "tp:2",
                       *flags, "--draft", "2")
        self.assertEqual({(pair["from"], piece["layers"][0][0])
                          for pair in out["pairs"] for piece in pair["pieces"]
                          if piece["kind"] == 1}, {(2, 4), (3, 4)})

    def test_a_head_is_not_sharded(self):
        text = self.refusal(llama(layers=2), ("tp:4", {"axes": {
            "kv_head": [], "attention_kv_dim": "tp"}}), "tp:4", "--tokens", 8)
        self.assertIn("the source shards the numbers of each head over \"tp\"",
                      text)

    def test_tokens_are_sharded_as_stated(self):
        sides = llama(layers=2), "sp:2,tp:4", "sp:4,tp:2"
        text = self.refusal(*sides, "--tokens", 64)
        self.assertIn("the source shards the tokens over \"sp\" of 2, and the "
                      "plan does not state which tokens a device has: give "
                      "`--interleave`", text)
        out = self.map(*sides, "--tokens", 64, "--interleave", "block:1")
        # A device has half of the tokens and 2 of 8 heads, then a quarter of the
        # tokens and 4 heads: 8 tokens are in common.
        self.assertEqual({piece["tokens"] for pair in out["pairs"]
                          for piece in pair["pieces"]}, {8})
        self.assertEqual(out["totals"]["sent"], out["totals"]["once"])

    def test_each_side_has_its_own_data_parallel_ranks(self):
        model = llama(layers=2)
        out = self.map(model, "dp:2,tp:2", "dp:4,tp:4", "--tokens", 8,
                       "--dp-rank", "1:3")
        self.assertEqual([(pair["from"], pair["to"]) for pair in out["pairs"]],
                         [(2, 12), (2, 13), (3, 14), (3, 15)])
        got = self.check(run("kv", "--from", self.plans.plan(model, "dp:2,tp:2"),
                             "--to", self.plans.plan(model, "dp:4,tp:4"),
                             "--dp-rank", "2:0"), 2)
        self.assertIn("has 2 data parallel ranks, and no rank 2", got.err)

    def test_heads_that_do_not_divide(self):
        text = self.refusal(llama(layers=2), ("tp:16", {"replicate": False}),
                            "tp:8", "--tokens", 8)
        self.assertIn("the source's 8 heads of the kind `full` over \"tp\" of 16 "
                      "devices would split a head: plan with `kv_replicate: true`",
                      text)
        text = self.refusal(llama(layers=2), ("tp:3", {"replicate": False}),
                            "tp:8", "--tokens", 8)
        self.assertIn("neither number divides the other", text)

    def test_other_models_are_refused(self):
        def plan(**keys):
            return self.plans.plan(llama(**keys), "tp:2")
        base = plan(layers=4)
        for other, reason in (
                (plan(layers=5), "which are not the same layers"),
                (plan(layers=4, kv_heads=4), "has heads 8 in the source and 4"),
                (plan(layers=4, head_dim=64), "has a head of 128 in the source"),
                (plan(layers=4, sliding_window=16, model_type="mistral"),
                 "the source has layers 0-3 of the kind `full`, and the "
                 "destination has none")):
            out = self.kv(base, other, "--tokens", 8, rc=1)
            self.assertIn(reason, "; ".join(out["refused"]))


class Figures(KvCase):
    def test_bytes_are_those_of_cost(self):
        """A device of the destination has what `cost` prints as its cache."""
        tokens = 3000
        for name in ("llama-3-8b", "gemma-3-27b", "gpt-oss-20b", "deepseek-v3",
                     "mistral-7b", "llama-4-maverick", "gemma-2-9b"):
            for mesh, dtype in (("tp:4", "bfloat16"), ("dp:2,tp:8", "int8"),
                                ("tp:1", "float8_e4m3fn")):
                plan = self.plans.plan(config(name), mesh)
                out = self.kv(plan, plan, "--tokens", tokens, "--kv-dtype", dtype)
                model = os.path.join(CONFIGS, name + ".config.json")
                cost = self.check(
                    run("cost", "--plan", plan, "--model", model, "--mode",
                        "decode", "--batch", 2 if "dp" in mesh else 1, "--kv-len",
                        tokens, "--kv-dtype", dtype, "--format", "json"), 0)
                self.assertEqual(out["totals"]["largest_destination"],
                                 cost.json()["memory"]["kv_cache"],
                                 (name, mesh, dtype))

    def test_without_tokens_and_pages(self):
        out = self.map(llama(), "tp:4", "tp:8")
        self.assertIsNone(out["totals"])
        self.assertEqual([fact["settled_by"] for fact in out["not_known"]],
                         ["--tokens", "--page"])
        self.assertTrue(out["at_least"])
        self.assertEqual({piece["bytes_per_token"] for pair in out["pairs"]
                          for piece in pair["pieces"]}, {80 * 2 * 128 * 2})

    def test_72_devices_take_less_than_a_second(self):
        source = self.plans.plan(config("deepseek-v3"), "dp:2,tp:36")
        destination = self.plans.plan(config("deepseek-v3"), "tp:72")
        begin = time.monotonic()
        out = self.kv(source, destination, "--tokens", 131072, "--page", 64,
                      "--share-replicas")
        self.assertLess(time.monotonic() - begin, 1)
        self.assertEqual(out["totals"]["pairs"], 36 * 72)

    def test_states_of_unknown_size(self):
        model = config("nemotron-h-56b")
        out = self.map(model, "tp:4", "tp:8", "--tokens", 64, rc=1)
        self.assertEqual(out["refused"], [])
        self.assertIn("the heads and bytes of the states",
                      out["not_known"][0]["what"])

    def test_states_of_layers_that_also_have_attention(self):
        """Each layer of Falcon-H1 has attention and a mixer."""
        report = os.path.join(TESTDATA, "reports", "hybrid-state-missing")
        with tempfile.TemporaryDirectory() as folder:
            paths = []
            for tensor in (1, 2):
                paths.append(os.path.join(folder, f"{tensor}.json"))
                done = run("plan", "--no-project", "--mesh", f"tp:{tensor}",
                           "--rules", os.path.join(report, "r.yaml"),
                           "--model", os.path.join(report, "config.json"),
                           "-o", paths[-1])
                self.assertEqual(done.rc, 0, done.err)
            done = run("kv", "--from", paths[0], "--to", paths[1], "--tokens",
                       "64", "--page", "16", "--order", "HND")
            self.assertEqual(done.rc, 1, done.err)
            self.assertIn("state  0-3", done.out)
            self.assertIn("not known: the heads and bytes of the states that "
                          "4 layers keep", done.out)
            self.assertNotIn("proved", done.out)
            out = run("kv", "--from", paths[0], "--to", paths[1], "--tokens",
                      "64", "--page", "16", "--order", "HND", "--format",
                      "json").json()
            self.assertIsNone(out["proof"])
            self.assertIn("checked  each of 512 elements", done.out)

    def test_text(self):
        source = self.plans.plan(llama(), "tp:4")
        destination = self.plans.plan(llama(), "tp:8")
        done = self.check(run("kv", "--from", source, "--to", destination,
                              "--tokens", TOKENS, "--page", 64, "--order", "HND"),
                          0)
        self.assertIn("request  2.5 GiB (2,684,354,560 B) for 8192 tokens",
                      done.out.replace("8,192", "8192"))
        self.assertIn("3 -> 7   full  0-79    7 (1 -> 0)", done.out)
        self.assertIn("is sent exactly once", done.out)

    def test_the_same_inputs_give_the_same_bytes(self):
        plan = self.plans.plan(QWEN, "tp:4")
        runs = {run("kv", "--from", plan, "--to", plan, "--tokens", 100, "--format",
                    "json").out for _ in range(2)}
        self.assertEqual(len(runs), 1)


class Inputs(KvCase):
    def test_the_plan_states_what_layers_keep(self):
        with open(self.plans.plan(config("gemma-3-27b"), "tp:4"),
                  encoding="utf-8") as file:
            kv = json.load(file)["kv"]
        full = [i for i in range(62) if (i + 1) % 6 == 0]
        self.assertEqual(kv[0], {"head_dim": 128, "heads": 16, "kind": "full",
                                 "layers": [[i, i + 1] for i in full]})
        self.assertEqual((kv[1]["kind"], kv[1]["window"],
                          sum(b - a for a, b in kv[1]["layers"])),
                         ("window", 1024, 52))

    def test_the_layers_of_each_kind(self):
        """By the layer's number, as the families' own code has it."""
        pattern = config("nemotron-h-56b")["hybrid_override_pattern"]
        borrowing = llama(layers=8, model_type="hunyuan_v1_moe", use_cla=True,
                          cla_share_factor=2)
        third = llama(layers=6, model_type="exaone4", sliding_window=16,
                      sliding_window_pattern="LLG")
        late = llama(layers=6, model_type="qwen2", sliding_window=16,
                     use_sliding_window=True, max_window_layers=4)
        for model, kinds in (
                (config("gemma-2-9b"), {"full": lambda i: i % 2 == 1,
                                        "window": lambda i: i % 2 == 0}),
                (config("gpt-oss-20b"), {"full": lambda i: i % 2 == 1,
                                         "window": lambda i: i % 2 == 0}),
                (config("llama-4-maverick"), {"full": lambda i: i % 4 == 3,
                                              "window": lambda i: i % 4 != 3}),
                (config("mistral-7b"), {"full": lambda i: True}),
                (llama(layers=4, model_type="mistral", sliding_window=16),
                 {"window": lambda i: True}),
                (config("deepseek-v3"), {"latent": lambda i: True}),
                (config("nemotron-h-56b"), {"full": lambda i: pattern[i] == "*",
                                            "state": lambda i: pattern[i] == "M"}),
                (QWEN, {"full": lambda i: i % 4 == 3,
                        "state": lambda i: i % 4 != 3,
                        "conv_key": lambda i: i % 4 != 3,
                        "conv_value": lambda i: i % 4 != 3}),
                (borrowing, {"full": lambda i: i % 2 == 0}),
                (third, {"full": lambda i: i in (2, 5),
                         "window": lambda i: i not in (2, 5)}),
                (late, {"full": lambda i: i < 4, "window": lambda i: i >= 4}),
                (GLM, {"latent": lambda i: True, "indexer": lambda i: True})):
            with open(self.plans.plan(model, "tp:1"), encoding="utf-8") as file:
                kv = json.load(file)["kv"]
            text = model.get("text_config", model)
            layers = text.get("num_hidden_layers")
            self.assertEqual(
                {one["kind"]: [i for a, b in one["layers"] for i in range(a, b)]
                 for one in kv},
                {kind: [i for i in range(layers) if has(i)]
                 for kind, has in kinds.items()}, text.get("model_type"))
        # Which layers have a window is not stated: no `kv`.
        even = llama(layers=4, model_type="qwen2_moe", sliding_window=16,
                     use_sliding_window=True)
        with open(self.plans.plan(even, "tp:1"), encoding="utf-8") as file:
            self.assertNotIn("kv", json.load(file))

    def test_without_kv_in_the_plan(self):
        plan = self.plans.plan(None, "tp:4")
        out = self.kv(plan, plan, "--tokens", 8, rc=1)
        self.assertIn("--model", out["not_known"][0]["settled_by"])
        model = self.plans.path(llama(layers=4))
        out = self.kv(plan, plan, "--tokens", 8, "--model", model)
        self.assertEqual(out["totals"]["once"], 4 * 2 * 8 * 128 * 2 * 8)

    def test_an_edited_plan_is_refused(self):
        plan = self.plans.plan(llama(layers=4), "tp:4")
        with open(plan, encoding="utf-8") as file:
            value = json.load(file)
        value["kv"][0]["heads"] = 4
        edited = self.plans.path(value)
        done = self.check(run("kv", "--from", edited, "--to", plan), 2)
        self.assertIn("the plan was edited", done.err)
        # With --allow-edited its sizes are taken as they are.
        self.assertIn("has heads 4 in the source", "".join(self.kv(
            edited, plan, "--allow-edited", rc=1)["refused"]))

    def test_hostile_plans(self):
        """A changed `kv` or mesh is an error, a refusal or a map, never a crash."""
        plan = self.plans.plan(llama(layers=4), "dp:2,tp:4")
        with open(plan, encoding="utf-8") as file:
            text = file.read()
        statuses = set()
        for draws, edited in changed_plans(self.plans, plan, 150):
            done = run("kv", "--from", edited, "--to", edited, "--allow-edited",
                       "--tokens", draws.choice([1, 8192, 2**30]), "--page", 16,
                       "--order", "HND:NHD")
            self.assertIn(done.rc, (0, 1, 2), repr(done))
            if done.rc == 2:
                self.assertIn("error", done.err)
            statuses.add(done.rc)
        self.assertEqual(statuses, {0, 1, 2})
        for bad in ("", "{", "[]", '{"schema": "shardc.plan/v1"}', text[:500]):
            done = self.check(run("kv", "--from", self.plans.path(bad), "--to",
                                  plan), 2)
            self.assertEqual(done.out, "")

    def test_limits(self):
        model = llama(layers=2)

        def refused(source, destination, *flags, **keys):
            return self.check(run("kv", "--from", source, "--to", destination,
                                  *flags, **keys), 2).err
        wide = self.plans.plan(model, "tp:8192")
        self.assertIn("the source has more than 4,096 devices in a data parallel "
                      "rank", refused(wide, wide))
        wider = self.plans.plan(model, "tp:2097152")
        self.assertIn("the source's mesh has more than 1,048,576 devices",
                      refused(wider, wide))
        parts = self.plans.plan(model, "sp:512")
        self.assertIn("the map has more than 250,000 pieces", refused(
            parts, parts, "--tokens", 2**20, "--interleave", "1:1500"))
        self.assertIn("16,777,216 tokens, which are sharded, is not mapped",
                      refused(parts, parts, "--tokens", 2**24 + 1,
                              "--interleave", "1"))
        plan = self.plans.plan(model, "tp:4")
        with open(plan, encoding="utf-8") as file:
            value = json.load(file)
        value["kv"][0].update(heads=2**24, head_dim=2**24)
        large = self.plans.path(value)
        self.assertIn("bytes exceed 64 bits", refused(
            large, large, "--allow-edited", "--tokens", 8192))
        value["kv"][0]["layers"] = [[4, 2]]
        bad = self.plans.path(value)
        self.assertIn("`shardc plan --model CONFIG.json -o FILE` writes it",
                      refused(bad, bad, "--allow-edited"))

    def test_flags(self):
        plan = self.plans.plan(llama(layers=4), "tp:4")
        for flags, text in (
                (["--order", "hnd"], "`hnd` is not HND or NHD for both sides, or "
                 "one for each with `:` between them"),
                (["--page", "0"], "is not an integer from 1"),
                (["--page", "16:"], "is not an integer from 1"),
                (["--page", "1:2:3"], "is not an integer from 1"),
                (["--tokens", "0"], "--tokens"),
                (["--tokens", str(2**31)], "a request has at most"),
                (["--kv-dtype", "mxfp4"], "is not a dtype of at least one byte"),
                (["--mode", "prefill:decoding"], "is not a mode"),
                (["--share-replicas"], "`--share-replicas` divides the pages of a "
                 "request, whose number is not given"),
                (["--draft", "65"], "up to 64"),
                (["--interleave", "0"], "or `block`")):
            done = self.check(run("kv", "--from", plan, "--to", plan, *flags), 2)
            self.assertIn(text, done.err)
            self.assertEqual(done.out, "")
        short = self.plans.plan(llama(layers=4), "tp:4", "--modes", "train")
        done = self.check(run("kv", "--from", short, "--to", plan), 2)
        self.assertIn("the source's plan has no attention specs for the mode "
                      "`prefill`", done.err)
        self.check(run("kv", "--from", short, "--to", plan, "--mode",
                       "train:decode"), 0)
        self.check(run("kv", "--from", "-", "--to", "-"), 2)

    def test_the_output_has_the_schema(self):
        import jsonschema
        with open(os.path.join(ROOT, "schemas", "kv-map.schema.json"),
                  encoding="utf-8") as file:
            check = jsonschema.Draft7Validator(json.load(file))
        for out in (self.map(QWEN, "tp:1", "tp:4", "--tokens", 8, "--page", 4),
                    self.map(llama(layers=2), "tp:1", "tp:4"),
                    self.map(llama(layers=2), "sp:2", "tp:4", rc=1),
                    self.map(None, "tp:1", "tp:4", rc=1)):
            self.assertEqual([error.message for error in check.iter_errors(out)],
                             [])


if __name__ == "__main__":
    unittest.main()
