"""`shardc cost --engine`: what an engine reaches with a plan, and refusals."""

import json
import math
import os
import re
import tempfile
import unittest

from described import DescribedCase
from driver import ROOT, TESTDATA, run
from serving_layouts import Folder


def model(name):
    return ["--model", os.path.join(TESTDATA, "configs",
                                    name + ".config.json")]


LLAMA = ["--mesh", "tp:8", "--rules", "auto", *model("llama-3.1-70b"),
         "--no-project", "--profile", "h200-sxm"]
REQUESTS = ["--slots", "64", "--isl", "1024", "--osl", "1024"]
VLLM = ["--mode", "decode", "--engine", "vllm", *REQUESTS]


def part(time, name):
    return sum(one["seconds"] for one in time["parts"] if one["name"] == name)


class Serving(DescribedCase):
    SCHEMA = "serving"

    def cost(self, *arguments, rc=0):
        return self.described(run("cost", *arguments, "--format", "json"), rc)

    def missing(self, report):
        self.assertIsNone(report["time"])
        return " ".join(fact["what"] for fact in report["not_known"])

    def test_the_engine_and_its_month_are_named(self):
        for engine in ("vllm", "sglang", "tensorrt-llm", "trtllm", "tpu"):
            report = self.cost(*LLAMA, "--mode", "decode", "--engine", engine,
                               *REQUESTS)
            self.assertRegex(report["engine"]["month"], r"^\d{4}-\d\d$")
            text = run("cost", *LLAMA, "--mode", "decode", "--engine", engine,
                       *REQUESTS)
            self.assertIn(report["engine"]["name"] + " of " +
                          report["engine"]["month"], text.out)

    def test_the_parts_of_a_step_sum_and_bounds_are_around_it(self):
        report = self.cost(*LLAMA, *VLLM)
        times = report["time"]
        self.assertAlmostEqual(sum(part["seconds"] for part in times["parts"]),
                               times["step_s"])
        token = times["tpot_s"]
        self.assertAlmostEqual(token["expected"],
                               times["step_s"] + times["between_s"])
        for bounds in (token, times["ttft_s"], times["tokens_s_device"]):
            self.assertLess(bounds["least"], bounds["expected"])
            self.assertLess(bounds["expected"], bounds["most"])
        # Little's law: 64 requests, each with a prefill and 1,023 steps.
        first = times["ttft_s"]["expected"]
        self.assertAlmostEqual(
            times["tokens_s_device"]["expected"],
            64 * 1024 / (first + 1023 * token["expected"]) / 8, delta=3)

    def test_distinct_experts_follow_the_formula(self):
        """DeepSeek-V3: 8 of 256 experts; dp attention and ep on 8 devices."""
        with tempfile.TemporaryDirectory() as path:
            inputs = Folder(path).inputs("DeepSeek-V3/R1", (1, 8, 8, 1))
            for slots in (8, 32, 64, 512, 4096):
                report = self.cost(*inputs, "--profile", "h200-sxm",
                                   "--memory", "9TiB", "--served-dtype", "fp8",
                                   "--mode", "decode", "--engine", "sglang",
                                   "--slots", slots, "--isl", "512", "--osl",
                                   "512")
                running = report["time"]["running"]
                tokens = 8 * max(running / 8, 1)
                read = 32 * (1 - (1 - 8 / 256)**tokens)
                self.assertAlmostEqual(report["read"]["experts"], read,
                                       delta=0.01 * read)
                self.assertEqual(report["read"]["all_experts"], 32)
                self.assertLessEqual(report["read"]["weights"],
                                     report["memory"]["weights"])

    ALL = ["--set", "max_batched_tokens=8192", "--set", "max_requests=1024",
           "--set", "lengths=0.8:1", "--set", "prompts_per_slot=10", "--set",
           "prefix_hit=0"]

    def test_the_first_token_depends_on_settings(self):
        times = self.cost(*LLAMA, *VLLM)["time"]
        self.assertAlmostEqual(
            sum(one["seconds"] for one in times["ttft_parts"]),
            times["ttft_s"]["expected"])
        self.assertAlmostEqual(times["ttft_s"]["most"],
                               3 * times["ttft_s"]["expected"])
        moves = times["ttft_depends_on"]
        for value in moves["values"]:
            other = self.cost(*LLAMA, *VLLM, "--set",
                              moves["setting"] + "=" + value["value"])["time"]
            self.assertAlmostEqual(other["ttft_s"]["expected"],
                                   value["ttft_s"])
        stated = self.cost(*LLAMA, *VLLM, *self.ALL)
        self.assertAlmostEqual(stated["time"]["ttft_s"]["most"],
                               2 * stated["time"]["ttft_s"]["expected"])
        self.assertIsNone(stated["time"]["ttft_depends_on"])
        self.assertTrue(all(one["stated"] and one["source"]
                            for one in stated["engine"]["settings"]))
        steady = self.cost(*LLAMA, *VLLM, "--set", "prompts_per_slot=inf")
        self.assertLess(steady["time"]["ttft_s"]["expected"],
                        times["ttft_s"]["expected"])

    def test_what_is_not_stated_is_a_part_of_the_first_token(self):
        """Each other value of a setting moves the logarithm by a fifth."""
        def first(*settings):
            times = self.cost(*LLAMA, *VLLM, *settings)["time"]
            parts = {one["name"]: one["seconds"]
                     for one in times["ttft_parts"]}
            return (times["ttft_s"]["expected"],
                    parts.pop("unstated_settings", None), times)

        rest = self.ALL[2:]
        stated, none, times = first(*self.ALL)
        self.assertIsNone(none)
        expected, moved, some = first(*rest)
        self.assertAlmostEqual(expected - moved, stated)
        logarithm = sum(
            math.log(first(*rest, "--set", f"max_batched_tokens={value}")[0] /
                     stated)
            for value in (2048, 16384))
        self.assertAlmostEqual(math.log(expected / stated), logarithm / 5)
        for key in ("ttft_steady_s", "ttft_p50_s", "ttft_p99_s"):
            self.assertAlmostEqual(some[key] / times[key], expected / stated)
        # The more is not stated, the more of it is in the time.
        self.assertGreater(abs(first()[1]), abs(moved))

    def test_a_token_without_stated_lengths_is_between_those_with_them(self):
        def token(*settings):
            return self.cost(*LLAMA, "--mode", "decode", "--engine", "sglang",
                             *REQUESTS, *settings)["time"]["tpot_s"]["expected"]
        spread = token("--set", "lengths=0.8:1")
        equal = token("--set", "lengths=equal")
        self.assertLess(equal, 0.97 * spread)
        self.assertAlmostEqual(token(), (spread * equal) ** 0.5)

    def test_one_slot_waits_for_its_own_prefill_alone(self):
        one = ["--slots", "1", "--isl", "4096", "--osl", "1024"]
        for engine, shown in (("vllm", 0), ("sglang", 3),
                              ("tensorrt-llm", 0.5)):
            times = self.cost(*LLAMA, "--mode", "decode", "--engine", engine,
                              *one, *self.ALL, *(
                                  ["--set", "recv_interval=1", "--set",
                                   "mixed_chunk=off"]
                                  if engine == "sglang" else
                                  ["--set", "batch_wait=0"]
                                  if engine == "tensorrt-llm" else
                                  []))["time"]
            alone = self.cost(*LLAMA, "--mode", "prefill", "--engine", engine,
                              "--isl", "4096")["time"]
            self.assertAlmostEqual(
                times["ttft_s"]["expected"],
                15e-3 + alone["step_s"] + shown * times["step_s"],
                delta=0.01 * times["ttft_s"]["expected"])

    def test_kept_prefixes_shorten_both_times(self):
        plain = self.cost(*LLAMA, *VLLM)["time"]
        kept = self.cost(*LLAMA, *VLLM, "--set", "prefix_hit=0.9")["time"]
        for key in ("ttft_s", "tpot_s"):
            self.assertLess(kept[key]["expected"], plain[key]["expected"])
        # The lower bound of a token has no prefill.
        self.assertLess(plain["tpot_s"]["least"], plain["step_s"])

    def test_settings_that_an_engine_does_not_have_are_refused(self):
        for setting, word in (("recv_interval=10", "has no setting"),
                              ("max_batched_tokens=0", "states no value"),
                              ("lengths=2:1", "states no value"),
                              ("batch_tokens=1", "has no setting"),
                              ("prefix_hit", "states no value")):
            done = run("cost", *LLAMA, *VLLM, "--set", setting)
            self.assertEqual((done.rc, done.out), (2, ""), done)
            self.assertIn(word, done.err)
        done = run("cost", *LLAMA, *VLLM, "--set", "lengths=2:1")
        self.assertIn("`lengths=2:1` states no value of `lengths`", done.err)

    def test_requests_beyond_the_memory_wait(self):
        report = self.cost(*LLAMA, *VLLM[:4], "--slots", "64", "--isl",
                           "200000", "--osl", "1000")
        self.assertLess(report["fits"]["mean_length"], 64)
        self.assertLessEqual(report["time"]["running"],
                             report["fits"]["mean_length"])
        self.assertIsNone(report["time"]["ttft_s"])
        self.assertIn("80 %", report["time"]["ttft_unknown"])

    def test_prefill_of_a_prompt(self):
        report = self.cost(*LLAMA, "--mode", "prefill", "--engine", "vllm",
                           "--isl", "4096")
        self.assertNotIn("tpot_s", report["time"])
        longer = self.cost(*LLAMA, "--mode", "prefill", "--engine", "vllm",
                           "--isl", "8192")
        self.assertGreater(longer["time"]["step_s"],
                           1.8 * report["time"]["step_s"])

    def test_what_is_not_known_gives_no_time(self):
        qwen = [*model("qwen3-8b"), "--no-project", *VLLM]
        rules = ["--rules", "auto"]
        for inputs, fact in (
                ([*qwen, *rules, "--mesh", "tp:8", "--profile", "mi300x"],
                 "no operators of serving were measured on mi300x"),
                ([*qwen, *rules, "--mesh", "fsdp:8", "--profile", "h100-sxm"],
                 "sharded over the hidden size or gathered"),
                ([*qwen, *rules, "--mesh", "tp:8", "--profile", "h100-sxm",
                  "--served-dtype", "nvfp4"],
                 "the rate of matmuls in nvfp4 on h100-sxm")):
            self.assertIn(fact, self.missing(self.cost(*inputs, rc=1)))

    def test_states_of_mixers_give_no_time(self):
        with tempfile.TemporaryDirectory() as path:
            rules = os.path.join(path, "rules.yaml")
            with open(rules, "w", encoding="utf-8") as file:
                file.write("version: 1\nrules:\n  - match: .*\n"
                           "    spec: Replicated\n")
            report = self.cost("--mesh", "tp:1", "--rules", rules,
                               *model("nemotron-h-56b"), "--no-project",
                               "--profile", "h100-sxm", *VLLM, rc=1)
        self.assertIn("states that", self.missing(report))
        self.assertIsNone(report["fits"]["full_length"])

    def test_an_engine_pads_the_vocabulary_and_replicates_heads(self):
        """Sizes of Olmo-3 7B, whose vocabulary 4 divides once it is padded."""
        config = {"model_type": "llama", "vocab_size": 100278,
                  "hidden_size": 4096, "intermediate_size": 11008,
                  "num_hidden_layers": 32, "num_attention_heads": 32,
                  "num_key_value_heads": 2, "tie_word_embeddings": False,
                  "torch_dtype": "bfloat16"}
        with tempfile.TemporaryDirectory() as path:
            name = os.path.join(path, "config.json")
            with open(name, "w", encoding="utf-8") as file:
                json.dump(config, file)
            inputs = ["--rules", "auto", "--model", name, "--no-project",
                      "--profile", "h200-sxm", "--mode", "decode", "--slots",
                      "8", "--isl", "128", "--osl", "128"]
            hidden, inner, head = 4096, 11008, 128
            for tensor in (1, 2, 4, 8, 16):
                whole = max(2 // tensor, 1)
                layer = (2 * hidden * hidden // tensor +
                         2 * hidden * whole * head +
                         3 * hidden * inner // tensor + 2 * hidden)
                weights = 2 * (32 * layer + hidden +
                               2 * 100288 // tensor * hidden)
                for engine in ("vllm", "sglang"):
                    report = self.cost("--mesh", f"tp:{tensor}", *inputs,
                                       "--engine", engine)
                    self.assertEqual(report["memory"]["weights"], weights)
                    self.assertEqual(report["memory"]["cache_of_token"],
                                     32 * 2 * whole * head * 2)

    def test_kernels_pad_experts_in_mxfp4(self):
        """vLLM 0.14 logs 64.38 GiB for gpt-oss-120b on H100, and 13.72 GiB for
        gpt-oss-20b on A100. How other kernels pad is not known."""
        def memory(name, engine, profile, rc=0):
            return self.cost(
                "--mesh", "tp:1", "--rules", "auto", *model(name),
                "--no-project", "--profile", profile, "--weights-dtype",
                "bfloat16", "--served-dtype", "bf16,mxfp4", "--mode", "decode",
                "--engine", engine, "--slots", "1", "--isl", "1024", "--osl",
                "1024", rc=rc)["memory"]
        # No operators were measured on A100, so its times are not known.
        for name, profile, logged, rc in (
                ("gpt-oss-120b", "h200-sxm", 64.38, 0),
                ("gpt-oss-20b", "a100-80-sxm", 13.72, 1)):
            padded = memory(name, "vllm", profile, rc)
            self.assertAlmostEqual(padded["weights"] / 2**30 / logged, 1,
                                   delta=0.02)
            self.assertFalse(padded["weights_at_least"])
        plain = memory("gpt-oss-120b", "sglang", "h200-sxm")
        self.assertTrue(plain["weights_at_least"])
        self.assertLess(plain["weights"] / 2**30, 64.38)
        done = run("cost", "--mesh", "tp:1", "--rules", "auto",
                   *model("gpt-oss-120b"), "--no-project", "--profile",
                   "h200-sxm", "--weights-dtype", "bfloat16", "--served-dtype",
                   "bf16,mxfp4", "--mode", "decode", "--engine", "sglang",
                   "--slots", "1", "--isl", "1024", "--osl", "1024")
        self.assertIn("at least", done.out)

    def test_layouts_that_an_engine_refuses(self):
        config = {"model_type": "llama", "vocab_size": 32000,
                  "hidden_size": 896, "intermediate_size": 4864,
                  "num_hidden_layers": 4, "num_attention_heads": 14,
                  "num_key_value_heads": 2, "torch_dtype": "bfloat16"}
        with tempfile.TemporaryDirectory() as path:
            name = os.path.join(path, "config.json")
            with open(name, "w", encoding="utf-8") as file:
                json.dump(config, file)
            report = self.cost("--mesh", "tp:4", "--rules", "auto", "--model",
                               name, "--no-project", "--profile", "h200-sxm",
                               "--illegal", "drop", *VLLM, rc=1)
            self.assertIn("Total number of attention heads (14) must be "
                          "divisible by tensor parallel size (4)",
                          self.missing(report))

    def test_formats_of_a_quantised_configuration(self):
        with open(os.path.join(TESTDATA, "configs",
                               "llama-3.1-70b.config.json"),
                  encoding="utf-8") as file:
            config = json.load(file)
        layers = config["num_hidden_layers"]
        hidden, inner = config["hidden_size"], config["intermediate_size"]
        group = {"targets": ["Linear"],
                 "weights": {"num_bits": 8, "type": "float",
                             "strategy": "channel", "symmetric": True}}
        with tempfile.TemporaryDirectory() as path:
            def weights(ignored):
                name = os.path.join(path, "config.json")
                config["quantization_config"] = {
                    "quant_method": "compressed-tensors",
                    "format": "float-quantized", "ignore": ignored,
                    "config_groups": {"group_0": group}}
                with open(name, "w", encoding="utf-8") as file:
                    json.dump(config, file)
                return self.cost("--mesh", "tp:8", "--rules", "auto",
                                 "--model", name, "--no-project", "--profile",
                                 "h200-sxm", "--mode", "decode", "--fill",
                                 "slots", "--isl", "1024", "--osl",
                                 "1024")["memory"]["weights"]
            everything = weights(["lm_head"])
            named = self.cost(*LLAMA, "--served-dtype", "fp8", *VLLM)
            self.assertEqual(everything, named["memory"]["weights"])
            # Two layers whose feed-forward blocks stay in 16 bits.
            two = weights(["lm_head"] + [
                f"model.layers.{layer}.mlp.{part}_proj"
                for layer in (0, layers - 1)
                for part in ("gate", "up", "down")])
            self.assertAlmostEqual(two - everything,
                                   2 * 3 * hidden * inner / 8, delta=64)
            attention = weights(["lm_head", "re:.*self_attn.*"])
            self.assertGreater(attention, two)

    def test_an_engine_of_a_file(self):
        with open(os.path.join(ROOT, "engines", "vllm.yaml"),
                  encoding="utf-8") as file:
            text = file.read()
        with tempfile.TemporaryDirectory() as path:
            own = os.path.join(path, "own.yaml")
            with open(own, "w", encoding="utf-8") as file:
                file.write(text.replace("step: 400e-6", "step: 8.4e-3")
                           .replace("name: vllm", "name: mine"))
            report = self.cost(*LLAMA, "--mode", "decode", "--engine", own,
                               *REQUESTS)
            known = self.cost(*LLAMA, *VLLM)
            self.assertAlmostEqual(report["time"]["step_s"] -
                                   known["time"]["step_s"], 8e-3, delta=1e-4)
            for old, new, word in (
                    ("step: 400e-6", "", "has no `step`"),
                    ("expert_layer: 20e-6", "", "has no `expert_layer`"),
                    ("layer: 25e-6\ne", "layer: 3\ne", "`layer`"),
                    ("prefill_layer: 700e-6", "prefill_layer: 3",
                     "`prefill_layer`"),
                    ("prefill: mixed", "prefill: often", "`prefill`"),
                    ("prefill_work: {", "prefill_work: 3  # {",
                     "`prefill_work` is the number `3`, not a mapping of "
                     "profiles to factors"),
                    ("value: 8192", "value: 0", "`max_batched_tokens` is `0`"),
                    ("prompts_per_slot: {value: 10,", "prompts_per_slot: {",
                     "has no `value`"),
                    (re.search(r"  mxfp4:\n(?:    .*\n)+", text)[0],
                     "  mxfp4: 3\n", "`mxfp4` is the number `3`, not a mapping "
                     "of profiles to multiples"),
                    ("kv_heads: replicate", "kv_heads: share", "`kv_heads`"),
                    ("vocab_multiple: 64", "vocab_multiple: 0",
                     "`vocab_multiple`"),
                    ("engine/v1", "engine/v2", ", not `shardc.engine/v1`")):
                with open(own, "w", encoding="utf-8") as file:
                    file.write(text.replace(old, new))
                done = run("cost", *LLAMA, "--mode", "decode", "--engine", own,
                           *REQUESTS)
                self.assertEqual(done.rc, 2)
                self.assertIn(word, done.err)

    def test_an_engine_that_divides_kv_heads_refuses_more_devices(self):
        with open(os.path.join(ROOT, "engines", "vllm.yaml"),
                  encoding="utf-8") as file:
            text = file.read()
        more = ["--mesh", "tp:16", *LLAMA[2:], "--illegal", "drop", "--mode",
                "decode"]
        with tempfile.TemporaryDirectory() as path:
            own = os.path.join(path, "own.yaml")
            with open(own, "w", encoding="utf-8") as file:
                file.write(text.replace("kv_heads: replicate",
                                        "kv_heads: divide"))
            report = self.cost(*more, "--engine", own, *REQUESTS, rc=1)
            self.assertIn("8 KV heads and 16 devices: each device has equally "
                          "many", self.missing(report))
            # Without a layout of the engine, shards are those of the rules.
            with open(own, "w", encoding="utf-8") as file:
                file.write(re.sub(r"^layout:\n(  .*\n)+", "", text,
                                  flags=re.M))
            self.cost(*more, "--engine", own, *REQUESTS)

    def test_an_engine_without_settings_has_no_time_to_the_first_token(self):
        with open(os.path.join(ROOT, "engines", "vllm.yaml"),
                  encoding="utf-8") as file:
            text = re.sub(r"^settings:\n(  .*\n)+", "", file.read(), flags=re.M)
        with tempfile.TemporaryDirectory() as path:
            own = os.path.join(path, "own.yaml")
            with open(own, "w", encoding="utf-8") as file:
                file.write(text)
            command = [*LLAMA, "--mode", "decode", "--engine", own, *REQUESTS]
            times = self.cost(*command)["time"]
            self.assertIsNone(times["ttft_s"])
            self.assertIn("settings", times["ttft_unknown"])
            done = run("cost", *command, "--set", "max_batched_tokens=1")
            self.assertEqual(done.rc, 2)
            self.assertIn("the engine's file states no `settings`", done.err)

    def test_a_prefill_takes_the_time_that_the_host_needs_for_its_layers(self):
        short = self.cost(*LLAMA, "--mode", "prefill", "--engine", "vllm",
                          "--isl", "16")["time"]
        self.assertAlmostEqual(short["step_s"], 80 * 700e-6)
        self.assertGreater(part(short, "host"), 0)
        long = self.cost(*LLAMA, "--mode", "prefill", "--engine", "vllm",
                         "--isl", "8192")["time"]
        self.assertEqual(part(long, "host"), 0)
        self.assertGreater(long["step_s"], 80 * 700e-6)

    def test_prompts_that_are_prefilled_together(self):
        def prefill(slots):
            return self.cost(*LLAMA, "--mode", "prefill", "--engine", "vllm",
                             "--isl", "1024", "--slots", slots)["time"]
        one, four = prefill(1), prefill(4)
        self.assertLess(four["step_s"], 4 * one["step_s"])
        self.assertGreater(four["step_s"], one["step_s"])
        for key in ("expected", "least", "most"):
            self.assertAlmostEqual(
                four["tokens_s_device"][key] / one["tokens_s_device"][key],
                4 * one["step_s"] / four["step_s"])
        # As many as fit are prefilled together.
        self.assertEqual(prefill(2**29), prefill(2**30))
        self.assertLess(prefill(2**30)["step_s"], 2**20 * one["step_s"])

    def test_an_exchange_starts_once_for_both_directions(self):
        with tempfile.TemporaryDirectory() as path:
            inputs = Folder(path).inputs("Kimi-K2.5", (1, 8, 8, 1))
            report = self.cost(*inputs, "--mode", "decode", "--profile",
                               "h200-sxm", "--served-dtype", "fp8_block,int4",
                               "--engine", "vllm", "--slots", "8", "--isl",
                               "1024", "--osl", "64")
        # A token of each device goes to 7 others in 3 bytes a number.
        moved = 8 * 7 / 8 * 7168 * 3 / (0.35 * 450e9)
        running = report["time"]["running"] / 8
        self.assertAlmostEqual(part(report["time"], "all_to_all"),
                               60 * (30e-6 + max(running, 1) * moved),
                               delta=1e-9)

    def test_options_that_do_not_apply_are_refused(self):
        for arguments, word in (
                (["--engine", "vllm", *REQUESTS], "is for serving"),
                ([*VLLM, "--batch", "8"], "is the size of one step, and"),
                ([*VLLM, "--kv-len", "8"], "--kv-len"),
                (["--mode", "decode", "--slots", "8"],
                 "describes what an engine serves"),
                (["--mode", "decode", "--engine", "vllm", "--slots",
                  "2000000000"], "is more than 2^30"),
                (["--mode", "decode", "--engine", "vlm", *REQUESTS], "vllm"),
                (["--mode", "decode", "--engine", "vllm", "--slots", "8"],
                 "also needs"),
                ([*VLLM, "--served-dtype", "fp7"], "fp8"),
                ([*VLLM, "--fill", "all"], "--fill")):
            done = run("cost", *LLAMA, *arguments)
            self.assertEqual((done.rc, done.out), (2, ""), done)
            self.assertIn(word, done.err)

    def test_fill_finds_the_longest_prompts(self):
        report = self.cost(*LLAMA, "--mode", "decode", "--fill", "context",
                           "--slots", "64", "--osl", "1024")
        more = self.cost(*LLAMA, "--mode", "decode", "--fill", "slots",
                         "--isl", report["isl"], "--osl", "1024")
        self.assertEqual(more["slots"], 64)
        self.assertIsNone(report["engine"])

    def test_every_file_of_engines_is_known(self):
        names = sorted(os.listdir(os.path.join(ROOT, "engines")))
        schema = json.loads(run("schema", "engine").out)
        for name in names:
            with open(os.path.join(ROOT, "engines", name),
                      encoding="utf-8") as file:
                keys = {line.split(":")[0] for line in file
                        if line[0].isalpha()}
            self.assertLessEqual(set(schema["required"]), keys)


if __name__ == "__main__":
    unittest.main()
