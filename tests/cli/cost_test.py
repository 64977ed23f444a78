"""`shardc cost`: its JSON fits its schema and agrees with the sizes of the
plan."""

import json
import os
import tempfile
import unittest

from cost_case import LLAMA, SERVE, TRAIN, CostCase
from driver import TESTDATA, run

POLICIES = [
    "everything_saveable", "nothing_saveable", "dots_saveable",
    "checkpoint_dots", "dots_with_no_batch_dims_saveable",
    "checkpoint_dots_with_no_batch_dims",
    "save_anything_except_these_names(context)",
    "save_any_names_but_these(context)", "save_only_these_names(context)",
    "save_from_both_policies(dots_saveable,save_only_these_names(context))"]


class Cost(CostCase):
    def test_the_names_of_a_model_do_not_change_its_memory(self):
        """MaxText stores attention by heads, and layers in dimension 1 or,
        without a scan, as `layers_0` and so on."""
        layer = {"self_attention/query/kernel": (4096, 32, 128),
                 "self_attention/key/kernel": (4096, 8, 128),
                 "self_attention/value/kernel": (4096, 8, 128),
                 "self_attention/out/kernel": (32, 128, 4096),
                 "mlp/wi_0/kernel": (4096, 14336),
                 "mlp/wi_1/kernel": (4096, 14336),
                 "mlp/wo/kernel": (14336, 4096),
                 "pre_self_attention_layer_norm/scale": (4096,),
                 "post_self_attention_layer_norm/scale": (4096,)}
        others = {"token_embedder/embedding": (128256, 4096),
                  "decoder/decoder_norm/scale": (4096,),
                  "decoder/logits_dense/kernel": (4096, 128256)}
        scanned = {"decoder/layers/" + name: (shape[0], 32, *shape[1:])
                   for name, shape in layer.items()}
        apart = {f"decoder/layers_{i}/{name}": shape
                 for i in range(32) for name, shape in layer.items()}
        for layers in (scanned, apart):
            with tempfile.TemporaryDirectory() as folder:
                path = os.path.join(folder, "maxtext.json")
                with open(path, "w", encoding="utf-8") as file:
                    json.dump({"schema": "shardc.manifest/v1", "params": [
                        {"name": name, "shape": shape, "dtype": "BF16"}
                        for name, shape in {**others, **layers}.items()]}, file)
                inputs = ("--manifest", path, *LLAMA[2:], "--mesh",
                          "fsdp:8,tp:4")
                for stack in ("xla", "compiled"):
                    settings = (*TRAIN, "--stack", stack)
                    self.assertEqual(
                        self.cost(*settings, inputs=inputs)["memory"],
                        self.cost(*settings)["memory"])

    def test_a_tree_with_adapters_states_what_is_trained(self):
        shapes = {"base_layer.weight": [64, 64], "lora_A.default.weight":
                  [8, 64], "lora_B.default.weight": [64, 8]}
        for names, stated in ((list(shapes), 1), (["base_layer.weight"], 0)):
            with tempfile.TemporaryDirectory() as folder:
                path = os.path.join(folder, "tree.json")
                with open(path, "w", encoding="utf-8") as file:
                    json.dump({"schema": "shardc.manifest/v1", "params": [
                        {"name": f"model.layers.{i}.self_attn.q_proj.{name}",
                         "shape": shapes[name], "dtype": "BF16"}
                        for i in range(2) for name in names]}, file)
                done = run("cost", "--no-project", "--manifest", path,
                           "--rules", "builtin:llama/hf", "--mesh", "fsdp:2",
                           "--unmatched", "replicate", "--batch", "2", "--seq",
                           "8", "--format", "json")
                assumed = [one for one in json.loads(done.out)["assumptions"]
                           if one.startswith("only LoRA adapters are trained")]
                self.assertEqual(len(assumed), stated, done.out)
                # An adapter has 2 * 8 * 64 elements in each of two layers, and
                # the optimizer 12 bytes of each.
                trained = 2 * 2 * 8 * 64 if stated else 2 * 64 * 64
                memory = json.loads(done.out)["memory"]
                self.assertEqual(memory["optimizer"], 12 * trained,
                                 memory)

    def test_every_mode_fits_the_schema(self):
        for mode in ("train", "prefill", "decode", "insert"):
            value = self.cost("--mode", mode, *TRAIN, "--kv-len", "4096")
            self.assertEqual(value["mode"], mode)
            self.assertEqual(value["not_known"], [])
            self.assertFalse(value["at_least"])

    def test_what_is_sent_is_the_step_s(self):
        inputs = (*LLAMA, "--mesh", "dp:2,fsdp:2,tp:2")
        for mode, sizes in (("train", TRAIN), ("prefill", TRAIN),
                            ("decode", SERVE)):
            for remat in ("everything_saveable", "nothing_saveable"):
                cost = self.cost("--mode", mode, *sizes, "--remat", remat,
                                 inputs=inputs)
                self.assertEqual(cost["communication_from"], "program")
                length = sizes[3]
                # Nothing is computed again where nothing goes back.
                again = ("--remat", remat) if mode == "train" else ()
                (step,) = self.check(run(
                    "verify", "step", *inputs, "--mode", mode, "--batch",
                    sizes[1], "--seq", length, *again, "--format", "json"),
                    0).json()["steps"]
                want = {}
                for one in step["totals"]["by_collective"]:
                    key = (one["phase"] != "forward", one["collective"],
                           tuple(one["axes"]))
                    count, sent = want.get(key, (0, 0))
                    want[key] = (count + one["count"],
                                 sent + one["bytes_per_device"])
                got = {}
                for one in cost["communication"]:
                    key = (one["phase"] != "forward", one["collective"],
                           tuple(one["axes"]))
                    count, sent = got.get(key, (0, 0))
                    got[key] = (count + one["count"],
                                sent + one["bytes_per_device"])
                self.assertEqual(got, want)

    def test_only_training_has_micro_batches(self):
        for mode in ("prefill", "decode", "insert"):
            flags = ("--mode", mode, *TRAIN, "--kv-len", "4096")
            self.assertEqual(self.cost(*flags, "--microbatches", "2"),
                             self.cost(*flags))

    def test_the_default_operation_written_out_is_the_default(self):
        inputs = (*LLAMA, "--mesh", "dp:2,fsdp:2,tp:2")
        for mode, sizes, operation in (("train", TRAIN, "flash_attn2"),
                                       ("prefill", TRAIN, "flash_attn2"),
                                       ("decode", SERVE, "flash_decoding")):
            default = self.cost("--mode", mode, *sizes, inputs=inputs)
            self.assertEqual(default["communication_from"], "program")
            self.assertEqual(
                self.cost("--mode", mode, *sizes, "--operation", operation,
                          inputs=inputs), default)

    def test_the_rules_name_the_loss(self):
        with tempfile.TemporaryDirectory() as folder:
            path = os.path.join(folder, "rules.yaml")
            def with_loss(loss, *flags):
                with open(path, "w", encoding="utf-8") as file:
                    file.write("version: 1\nextends: [builtin:llama]\nmodel: "
                               "{extends: builtin:llama/hf, loss: "
                               f"{loss}}}\n")
                inputs = [path if one in ("auto", "builtin:llama") else one
                          for one in LLAMA]
                self.assertIn(path, inputs)
                return self.cost(*TRAIN, *flags, inputs=(
                    *inputs, "--mesh", "fsdp:4"))["memory"]
            none = with_loss("null")
            self.assertEqual(with_loss("{kind: fused}"),
                             with_loss("null", "--loss", "fused"))
            self.assertEqual(with_loss("{chunk: 512}"),
                             with_loss("null", "--loss-chunk", "512"))
            self.assertNotEqual(with_loss("{kind: fused}"), none)
            # A flag wins.
            self.assertEqual(with_loss("{kind: fused}", "--loss", "eager"),
                             with_loss("null", "--loss", "eager"))
            # Null is a value that is not given.
            for loss in ("{kind: null}", "{chunk: null}", "{}"):
                self.assertEqual(with_loss(loss), none)
            for loss, words in (("{kind: some}", "`kind` of `loss` is the "
                                 "string `some`, not `eager`, `compiled` or "
                                 "`fused`"),
                                ("{chunk: 0}", "`chunk`"),
                                ("{kinds: fused}", "kinds")):
                with open(path, "w", encoding="utf-8") as file:
                    file.write("version: 1\nextends: [builtin:llama]\nmodel: "
                               "{extends: builtin:llama/hf, loss: "
                               f"{loss}}}\n")
                got = run("cost", *[path if one in ("auto", "builtin:llama")
                                    else one for one in LLAMA], "--mesh",
                          "fsdp:4", *TRAIN)
                self.check(got, 2)
                self.assertIn(words, got.err)

    def test_fused_weights_by_part_are_not_exchanged(self):
        # 12 heads of GPT-2 divide by 4, and its three parts do not.
        model = ["--model", os.path.join(TESTDATA, "configs",
                                         "gpt2.config.json"),
                 "--no-project", "--mesh", "dp:2,tp:4"]
        with tempfile.TemporaryDirectory() as folder:
            path = os.path.join(folder, "rules.yaml")
            sent, notes = {}, {}
            for fused in ("contiguous", "by_part"):
                with open(path, "w", encoding="utf-8") as file:
                    file.write("version: 1\nextends: [builtin:gpt2/hf]\nmodel: "
                               "{extends: builtin:gpt2/hf, fused: "
                               f"{fused}}}\naxes: {{hidden_state: null}}\n")
                rules = [*model, "--rules", path]
                out = self.check(run("cost", *rules, *TRAIN, "--format",
                                     "json"), 0).out
                sent[fused] = json.loads(out)["communication_bytes"]["total"]
                step = json.loads(self.check(run(
                    "verify", "step", *rules, "--mode", "train", "--batch",
                    "8", "--seq", "64", "--format", "json"), 0).out)
                gathers = [op for one in step["steps"] for op in one["ops"]
                           if op["collective"] == "all_gather"]
                self.assertEqual(bool(gathers), fused == "contiguous")
                notes[fused] = "SHD230" in run("check", *rules, "--notes").out
        self.assertLess(sent["by_part"], sent["contiguous"])
        self.assertEqual(notes, {"contiguous": True, "by_part": False})

    def test_formulas_where_there_is_no_program(self):
        for more, why in ((["--microbatches", "3"],
                           "the batch is no multiple of the number of "
                           "micro-batches"),
                          (["--operation", "ragged_page_attention_v3"],
                           "keeps keys in caches, not in pages")):
            out = self.check(run("cost", *LLAMA, "--mesh", "fsdp:4", *TRAIN,
                                 *more), 0).out
            self.assertIn("by formulas of a layer", out)
            self.assertIn(why, out)
            value = self.cost(*TRAIN, *more, inputs=(*LLAMA, "--mesh",
                                                     "fsdp:4"))
            self.assertEqual(value["communication_from"], "formulas")

    def test_parameters_are_the_plan_s(self):
        with tempfile.TemporaryDirectory() as folder:
            path = os.path.join(folder, "plan.json")
            self.check(run("plan", *LLAMA, "--mesh", "fsdp:8,tp:4", "-o",
                           path), 0)
            with open(path, encoding="utf-8") as file:
                plan = json.load(file)
            for mode in plan["modes"]:
                held = sum(
                    p.get("modes", {}).get(mode, p)["bytes_per_device"]
                    for p in plan["params"].values())
                inputs = self.cost("--mode", mode, *TRAIN, *SERVE[2:])
                written = self.cost("--mode", mode, *TRAIN, *SERVE[2:],
                                    inputs=("--plan", path, *LLAMA[2:4]))
                for value in (inputs, written):
                    self.assertEqual(value["memory"]["parameters"], held)
                for key in ("gradients", "optimizer", "kv_cache"):
                    self.assertEqual(inputs["memory"][key],
                                     written["memory"][key])

    def test_what_is_sent_adds_up(self):
        for more in (TRAIN, ["--mode", "decode", *SERVE]):
            value = self.cost(*more, "--profile", "v5p")
            for phase in ("forward", "backward"):
                self.assertEqual(
                    sum(one["bytes_per_device"]
                        for one in value["communication"]
                        if one["phase"] == phase),
                    value["communication_bytes"][phase])
            time = value["time"]
            self.assertAlmostEqual(
                sum(one["seconds"] for one in value["communication"]),
                time["communication_s"])
            parts = {name: time[name + "_s"] for name in
                     ("compute", "memory", "communication")}
            self.assertEqual(parts[time["bound_by"]], max(parts.values()))
            if value["mode"] != "train":
                self.assertEqual(max(parts.values()), time["least_s"])
                self.assertAlmostEqual(sum(parts.values()), time["most_s"])
                continue
            self.assertAlmostEqual(
                sum(one["seconds"] for one in time["parts"]),
                time["expected_s"], delta=1e-9)
            self.assertLess(time["least_s"], time["expected_s"])
            self.assertLess(time["expected_s"], time["most_s"])

    def test_the_total_is_the_sum(self):
        for more in (TRAIN, ["--mode", "decode", *SERVE]):
            memory = self.cost(*more)["memory"]
            for held in (memory, memory["least"]):
                parts = [value for key, value in held.items()
                         if key not in ("total", "least", "capacity", "fits",
                                        "peak")]
                self.assertEqual(sum(parts), held["total"])

    def test_a_policy_that_keeps_more_holds_more(self):
        kept = {}
        for policy in POLICIES:
            value = self.cost(*TRAIN, "--remat", policy)
            kept[policy] = value["activations"]["kept"]
            names = [tensor["name"] for tensor in
                     value["activations"]["tensors"] if tensor["kept"]]
            self.assertIn("layer_input", names)
        self.assertEqual(kept["dots_saveable"], kept["checkpoint_dots"])
        self.assertLess(kept["nothing_saveable"],
                        kept["save_only_these_names(context)"])
        self.assertLess(kept["dots_saveable"], kept["everything_saveable"])
        self.assertEqual(kept[POLICIES[-1]] - kept["dots_saveable"],
                         kept["save_only_these_names(context)"]
                         - kept["nothing_saveable"])

    def test_it_exits_with_1_where_memory_does_not_suffice(self):
        value = self.cost(*TRAIN, "--memory", "1GiB", rc=1)
        self.assertFalse(value["memory"]["fits"])
        value = self.cost(*TRAIN, "--profile", "h100-sxm")
        self.assertTrue(value["memory"]["fits"])
        self.assertEqual(value["memory"]["capacity"], 85520809984)

    def test_memory_with_an_unknown_part_fits_only_if_it_is_known_to(self):
        decode = ["--mode", "decode", "--batch", "64"]
        for arguments, fits, rc in (
                ([*decode, "--memory", "80GiB"], None, 1),
                ([*decode, "--memory", "1MiB"], False, 1),
                ([*decode, "--memory", "80GiB", "--kv-len", "8192"], True, 0),
                (["--memory", "80GiB"], None, 0)):
            with self.subTest(arguments=arguments):
                memory = self.cost(*arguments, rc=rc)["memory"]
                self.assertEqual(memory["fits"], fits)
                text = run("cost", *LLAMA, "--mesh", "fsdp:8,tp:4", *arguments)
                self.check(text, rc)
                self.assertEqual("at least" in text.out,
                                 "--kv-len" not in arguments)
                self.assertEqual("% free" in text.out, fits is True)

    def test_what_is_not_given_is_reported(self):
        value = self.cost()
        self.assertIsNone(value["memory"]["activations"])
        self.assertNotIn("activations", value)
        self.assertTrue(value["not_known"])

    def test_bad_flags_are_reported_together(self):
        wrong = self.check(run(
            "cost", *LLAMA, "--mesh", "tp:2", "--optimizer", "adam",
            "--remat", "dots_savable", "--zero", "4", "--profile", "h100",
            "--grad-dtype", "I4", "--batch", "0"), 2)
        for word in ("adamw", "dots_saveable", "stages", "h100-sxm",
                     "--grad-dtype", "--batch"):
            self.assertIn(word, wrong.err)

    def test_sizes_that_do_not_fit(self):
        large = str(1 << 40)
        for mode in ("train", "prefill", "decode"):
            value = self.cost("--mode", mode, "--batch", large, "--seq", large,
                              "--kv-len", large)
            self.assertTrue(value["not_known"])

    def test_policies_that_are_none(self):
        for policy, word in (
                ("save_only_these_names", "takes some"),
                ("save_only_these_names(q_prj)", "q_proj"),
                ("save_from_both_policies(dots_saveable)", "takes two"),
                ("dots_saveable(context)", "no names"),
                ("save_only_these_names(context", "not closed")):
            wrong = self.check(run("cost", *LLAMA, "--mesh", "tp:2",
                                   "--remat", policy), 2)
            self.assertIn(word, wrong.err)

    def test_tokens_that_do_not_fit_in_64_bits_are_unknown(self):
        text = run("cost", *LLAMA, "--mesh", "fsdp:8", "--batch", 2**40,
                   "--seq", 2**40).out
        self.assertIn("not known: activations do not fit in 64 bits", text)
        self.assertIn("number of tokens does not fit in 64 bits", text)

    def test_a_plan_that_cannot_be_is_none_to_cost(self):
        self.check(run("cost", *LLAMA[:4], "--no-project", "--mesh", "tp:3",
                       "--rules", "auto"), 1)


if __name__ == "__main__":
    unittest.main()
