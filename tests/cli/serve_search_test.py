"""`shardc search --serve`: the layouts of a server, against `cost --engine`."""

import json
import os
import re
import shlex
import tempfile
import unittest

import yaml

from described import DescribedCase
from driver import ROOT, TESTDATA, part_of, run
from serving_layouts import MODELS, Folder

LENGTHS = ["--isl", "1024", "--osl", "512"]
TARGETS = ["--ttft", "1s", "--tpot", "25ms"]


def model(name):
    return ["--model", os.path.join(TESTDATA, "configs",
                                    name + ".config.json")]


LLAMA = [*model("llama-3.1-70b"), "--devices", "8", "--profile", "h200-sxm",
         "--served-dtype", "fp8", "--engine", "vllm"]
DEEPSEEK = [*model("deepseek-v3"), "--devices", "16", "--profile", "h200-sxm",
            "--served-dtype", "fp8_block", "--engine", "sglang"]
GPT_OSS = [*model("gpt-oss-120b"), "--weights-dtype", "bfloat16", "--devices",
           "8", "--profile", "b200-hgx", "--served-dtype", "bf16,mxfp4",
           "--kv-dtype", "float8_e4m3fn", "--engine", "tensorrt-llm"]
CASES = [
    [*LLAMA, *LENGTHS, *TARGETS],
    [*LLAMA, *LENGTHS, *TARGETS, "--requests", "8"],
    [*DEEPSEEK, *LENGTHS, "--ttft", "2s", "--tpot", "60ms"],
    [*DEEPSEEK, "--weights-dtype", "bfloat16", *LENGTHS, "--ttft", "2s",
     "--tpot", "60ms"],
    [*GPT_OSS, "--isl", "8192", "--osl", "1024", "--ttft", "2s", "--tpot",
     "0.01s"],
    [*model("qwen3-235b-a22b"), "--devices", "16", "--profile", "h100-sxm",
     "--served-dtype", "fp8", "--engine", "vllm", *LENGTHS, *TARGETS],
]


class ServeSearch(DescribedCase):
    SCHEMA = "serve"

    FOUND = {}

    def search(self, *arguments, rc=0):
        """The report of a search, which several tests read and none changes."""
        if (arguments, rc) not in self.FOUND:
            self.FOUND[arguments, rc] = self.described(
                run("search", "--serve", "--no-project", "--prove", "0",
                    *arguments, "--format", "json"), rc)
        return self.FOUND[arguments, rc]

    def cost(self, side, case, path):
        """What `cost` prints for an instance."""
        rules = os.path.join(path, "rules.yaml")
        with open(rules, "w", encoding="utf-8") as file:
            file.write(side["rules"])
        mesh = ",".join(f"{axis['name']}:{axis['size']}"
                        for axis in side["mesh"]["axes"])
        names = {"--model", "--weights-dtype", "--profile", "--served-dtype",
                 "--kv-dtype", "--engine", "--isl"}
        kept = [word for at in range(0, len(case), 2) if case[at] in names
                for word in case[at:at + 2]]
        prefill = side["serves"] == "prefill"
        mode = ["--slots", side["slots"]] + (
            ["--mode", "prefill"] if prefill else
            ["--mode", "decode", "--osl", side["osl"]])
        own = [] if side["serves"] == "both" else ["--disaggregated"]
        return run("cost", "--no-project", "--mesh", mesh, "--rules", rules,
                   *kept, *mode, *own, "--format", "json").json()

    def same(self, a, b):
        for key in ("least", "expected", "most"):
            self.assertAlmostEqual(a[key] / b[key], 1, delta=1e-9)

    def device_time(self, entry, value):
        """The device's seconds for a token, by the rates of the instances."""
        served = min(side["instances"] * self.rate(side, value)
                     for side in entry["sides"])
        devices = value["devices"]
        if value["requests_s"]:
            served = value["requests_s"]
            devices = sum(side["instances"] * side["mesh"]["devices"]
                          for side in entry["sides"])
        return devices / (served * value["osl"])

    @staticmethod
    def rate(side, value):
        """The requests each second of an instance."""
        tokens = value["isl" if side["serves"] == "prefill" else "osl"]
        return (side["instance"]["tokens_s_device"]["expected"] *
                side["mesh"]["devices"] / tokens)

    def test_figures_are_those_of_cost(self):
        for case in CASES:
            value = self.search(*case)
            self.assertTrue(value["layouts"])
            with self.subTest(case), tempfile.TemporaryDirectory() as path:
                entries = value["layouts"] + value["others"]
                for entry in part_of(entries[:12], 3):
                    for side in entry["sides"]:
                        report = self.cost(side, case, path)
                        times = report["time"]
                        own = side["instance"]
                        if times is None:
                            self.assertIsNone(own)
                            continue
                        self.assertAlmostEqual(own["step_s"],
                                               times["step_s"])
                        self.same(own["tokens_s_device"],
                                  times["tokens_s_device"])
                        for key in ("tpot_s", "ttft_s"):
                            if key in own:
                                self.same(own[key], times[key])

    def test_listed_layouts_meet_the_targets(self):
        for case in CASES:
            with self.subTest(case):
                value = self.search(*case)
                rates = [one["tokens_s_device"] for one in value["layouts"]]
                self.assertEqual(rates, sorted(rates, reverse=True))
                self.assertGreaterEqual(rates[-1], 0.85 * rates[0])
                for one in value["layouts"]:
                    self.assertLessEqual(one["tpot_s"]["expected"],
                                         value["tpot_s"])
                    self.assertLessEqual(one["ttft_s"]["least"],
                                         value["ttft_s"])
                    self.assertEqual(
                        one["ttft_within_bounds"],
                        one["ttft_s"]["expected"] > value["ttft_s"])
                    self.assertLessEqual(one["used_devices"], 16)
                    self.assertAlmostEqual(
                        one["margin"],
                        value["tpot_s"] / one["floor_tpot_s"] - 1)
                    self.assertAlmostEqual(
                        one["tokens_s_device"] * self.device_time(one, value),
                        1)
                    if value["requests_s"]:
                        self.assertGreaterEqual(
                            one["requests_s"]["expected"],
                            value["requests_s"] * (1 - 1e-9))

    def test_parts_sum(self):
        for case in CASES:
            with self.subTest(case):
                value = self.search(*case)
                best = self.device_time(value["layouts"][0], value)
                for one in value["layouts"]:
                    total = sum(part["value"] for part in one["parts"])
                    self.assertAlmostEqual(total * one["tokens_s_device"], 1)
                    for part in one["parts"]:
                        self.assertGreaterEqual(part["value"], -1e-12)
                for one in value["others"]:
                    total = sum(part["value"] for part in one["parts"])
                    if one["shortfall"] == "requests":
                        self.assertLess(one["value"], one["limit"])
                        continue
                    self.assertAlmostEqual(total / one["value"], 1)
                    if one["shortfall"] == "rate":
                        more = self.device_time(one, value) - best
                        self.assertAlmostEqual(total / more, 1, delta=1e-6)
                        self.assertGreater(more, 0)
                    elif one["shortfall"] == "ttft":
                        self.assertGreater(one["least"], one["limit"])
                    else:
                        self.assertGreater(one["value"], one["limit"])

    def test_instances_serve_the_most_requests(self):
        """Every number of instances is tried in turn."""
        for devices in ("8", "12", "27"):
            value = self.search(*model("qwen3-32b"), "--devices", devices,
                                "--profile", "h100-sxm", "--engine", "vllm",
                                *LENGTHS, *TARGETS, "--disaggregated")
            count = int(devices)
            for one in value["layouts"]:
                first, then = one["sides"]
                p, d = self.rate(first, value), self.rate(then, value)
                np, nd = (side["mesh"]["devices"] for side in one["sides"])
                most = max(min(n * p, (count - n * np) // nd * d)
                           for n in range(1, count // np + 1))
                self.assertAlmostEqual(one["requests_s"]["expected"], most)
                self.assertLessEqual(
                    first["instances"] * np + then["instances"] * nd, count)

    def test_several_prompts_are_prefilled_where_they_serve_more(self):
        value = self.search(*DEEPSEEK, *LENGTHS, "--ttft", "2s", "--tpot",
                            "60ms", "--disaggregated")
        prompts = {}
        for one in value["layouts"] + value["others"]:
            side = one["sides"][0]
            if side["serves"] == "prefill" and side["instance"]:
                ranks = side["attention_dp"]
                self.assertEqual(side["slots"] % ranks, 0)
                prompts[side["tp"], ranks] = side["slots"] // ranks
        self.assertLessEqual(set(prompts.values()), {1, 2, 4})
        # Fewer tokens read all experts as well.
        self.assertGreater(max(prompts.values()), 1)
        quick = self.search(*DEEPSEEK, *LENGTHS, "--ttft", "400ms", "--tpot",
                            "60ms", "--disaggregated")
        for one in quick["layouts"]:
            self.assertLessEqual(one["ttft_s"]["least"], 0.4)

    def test_fewest_devices_serve_the_requests(self):
        value = self.search(*LLAMA, *LENGTHS, *TARGETS, "--requests", "8")
        used = [one["used_devices"] for one in value["layouts"]]
        self.assertLess(used[0], 8)
        many = self.search(*LLAMA, *LENGTHS, *TARGETS, "--requests", "1000",
                           rc=1)
        self.assertEqual(many["layouts"], [])
        self.assertIn("requests", [one["shortfall"] for one in many["others"]])

    def test_layouts_are_those_of_engines(self):
        """The same figures as rules that are written for each layout by hand."""
        value = self.search(*DEEPSEEK, "--weights-dtype", "bfloat16", *LENGTHS,
                            "--ttft", "2s", "--tpot", "60ms", "--aggregated")
        sides = [one["sides"][0] for one in value["layouts"] + value["others"]
                 if one["sides"][0]["instance"]]
        self.assertIn((1, 16, 16), {(side["tp"], side["attention_dp"],
                                     side["ep"]) for side in sides})
        with tempfile.TemporaryDirectory() as path:
            for side in sides:
                tp, dp, ep = side["tp"], side["attention_dp"], side["ep"]
                inputs = Folder(path).inputs("DeepSeek-V3/R1",
                                             (tp, dp, ep, tp * dp // ep))
                report = run("cost", *inputs, "--profile", "h200-sxm",
                             "--served-dtype", "fp8_block", "--mode", "decode",
                             "--engine", "sglang", "--slots", side["slots"],
                             *LENGTHS, "--format", "json").json()
                self.same(report["time"]["tpot_s"], side["instance"]["tpot_s"])

    def test_experts_that_rules_do_not_spread_so_are_refused(self):
        """Experts of an FP8 checkpoint are tensors that are placed along ep."""
        value = self.search(*DEEPSEEK, *LENGTHS, "--ttft", "2s", "--tpot",
                            "60ms")
        reasons = {text: one["reasons"] for one in value["refused"]
                   for text in one["layouts"]}
        self.assertIn("the rules put the experts on 4 groups of devices, and not on 8",
                      reasons["tp 2, attention dp 4, ep 8"])

    def test_the_written_project_is_checked_and_gives_the_figures(self):
        cases = [[*LLAMA, *LENGTHS, *TARGETS, "--disaggregated"],
                 [*LLAMA, *LENGTHS, *TARGETS, "--aggregated"],
                 [*DEEPSEEK, *LENGTHS, "--ttft", "2s", "--tpot", "60ms",
                  "--disaggregated"]]
        for case in cases:
            with self.subTest(case), tempfile.TemporaryDirectory() as path:
                out = os.path.join(path, "serve")
                done = self.check(run("search", "--serve", "--no-project",
                                      *case, "-o", out), 0)
                self.check(run("check", "--locked", "--project",
                               os.path.join(out, "shardc.yaml")), 0)
                with open(os.path.join(out, "serve.json"),
                          encoding="utf-8") as file:
                    value = json.load(file)
                self.assertEqual(list(self.schema.iter_errors(value)), [])
                best = value["layouts"][0]
                self.assertTrue(all(one["proved"] for one in value["proofs"]))
                self.assertEqual({one["mode"] for one in value["proofs"]},
                                 {"prefill", "decode"})
                commands = re.findall("^the same figures: shardc (.*)$",
                                      done.out, re.M)
                self.assertEqual(len(commands), len(best["sides"]))
                for side, command in zip(best["sides"], commands):
                    report = run(*shlex.split(command), "--format",
                                 "json").json()
                    self.same(report["time"]["tokens_s_device"],
                              side["instance"]["tokens_s_device"])
                if len(best["sides"]) == 1:
                    self.assertIsNone(value["kv_map"])
                    continue
                self.transfers(out, best, value)

    def transfers(self, out, best, value):
        """The written map is that of `kv`, and gives the time of a transfer."""
        with open(os.path.join(out, "kv-map.json"), encoding="utf-8") as file:
            written = json.load(file)
        plans = [os.path.join(out, name + ".plan.json")
                 for name in ("prefill", "decode")]
        made = self.check(run("kv", "--from", plans[0], "--to", plans[1],
                              "--tokens", value["isl"], "--format", "json"),
                          0).json()
        self.assertEqual(written["pairs"], made["pairs"])
        with open(os.path.join(ROOT, "profiles", value["profile"] + ".yaml"),
                  encoding="utf-8") as file:
            network = yaml.safe_load(file)
        totals = made["totals"]
        most = max(totals["largest_source"], totals["largest_destination"])
        rate = 0.8 * float(network["links"]["far"]["bandwidth"])
        # The cost model counts the first generated token too.
        self.assertAlmostEqual(best["transfer_s"] / (most / rate),
                               (value["isl"] + 1) / value["isl"], delta=1e-6)

    def test_nothing_is_compared_without_times(self):
        for arguments, fact in (
                ([*model("qwen3-8b"), "--devices", "8", "--profile", "mi300x",
                  "--engine", "vllm"], "no operators of serving"),
                ([*model("qwen3-8b"), "--devices", "8", "--profile",
                  "h100-sxm", "--engine", "vllm", "--served-dtype", "nvfp4"],
                 "the rate of matmuls in nvfp4"),
                ([*model("nemotron-h-56b"), "--devices", "8", "--profile",
                  "h100-sxm", "--engine", "vllm"], "")):
            value = self.search(*arguments, *LENGTHS, *TARGETS, rc=1)
            self.assertEqual((value["layouts"], value["others"]), ([], []))
            facts = " ".join(one["what"] for one in value["not_known"])
            self.assertIn(fact, facts)
            self.assertTrue(facts or value["refused"])
            text = run("search", "--serve", "--no-project", *arguments,
                       *LENGTHS, *TARGETS)
            self.assertNotIn("layouts within", text.out)

    def test_targets_that_nothing_meets(self):
        value = self.search(*LLAMA, *LENGTHS, "--ttft", "1s", "--tpot", "1ms",
                            rc=1)
        self.assertEqual(value["layouts"], [])
        self.assertEqual({one["shortfall"] for one in value["others"]},
                         {"tpot"})
        with tempfile.TemporaryDirectory() as path:
            out = os.path.join(path, "serve")
            self.check(run("search", "--serve", "--no-project", *LLAMA,
                           *LENGTHS, "--ttft", "1s", "--tpot", "1ms", "-o",
                           out), 1)
            self.assertFalse(os.path.exists(out))

    def test_a_target_near_a_floor_is_named(self):
        value = self.search(*LLAMA, *LENGTHS, *TARGETS, "--aggregated")
        floor = value["layouts"][0]["floor_tpot_s"]
        near = self.search(*LLAMA, *LENGTHS, "--ttft", "1s", "--tpot",
                           f"{1.1 * floor:.9f}s", "--aggregated")
        text = run("search", "--serve", "--no-project", "--prove", "0", *LLAMA,
                   *LENGTHS, "--ttft", "1s", "--tpot", f"{1.1 * floor:.9f}s",
                   "--aggregated").out
        self.assertTrue(any(one["near_floor"] or one["margin"] >= 0.2
                            for one in near["layouts"]))
        self.assertEqual("within the error of the time" in text,
                         any(one["near_floor"] for one in near["layouts"]) or
                         any(one["shortfall"] == "tpot" and
                             one["value"] < 1.2 * one["limit"]
                             for one in near["others"]))

    def test_what_no_published_step_supports_is_named(self):
        value = self.search(*model("llama-3.1-70b"), "--devices", "8",
                            "--profile", "tpu-v6e", "--engine", "tpu",
                            *LENGTHS, "--ttft", "5s", "--tpot", "100ms")
        for one in value["layouts"]:
            for side in one["sides"]:
                self.assertTrue(side["unmeasured"])

    def test_kv_heads_that_are_fewer_than_devices_are_replicated(self):
        """Qwen3-235B has 4 KV heads, and tp 8 is one of its usual layouts."""
        value = self.search(*CASES[-1])
        tried = {side["tp"] for one in value["layouts"] + value["others"]
                 for side in one["sides"] if side["instance"]}
        self.assertLessEqual({8, 16}, tried)

    def test_towers_do_not_limit_the_layouts_of_a_language_model(self):
        value = self.search(*model("gemma-3-27b"), "--devices", "4",
                            "--profile", "h100-sxm", "--engine", "vllm",
                            *LENGTHS, *TARGETS)
        tried = {side["tp"] for one in value["layouts"] + value["others"]
                 for side in one["sides"] if side["instance"]}
        self.assertEqual(tried, {1, 2, 4})

    def test_heads_that_a_mesh_does_not_divide(self):
        """6 KV heads: tp 4 is refused, and the others are compared."""
        name = "llama-3.1-8b"
        with open(os.path.join(TESTDATA, "configs", name + ".config.json"),
                  encoding="utf-8") as file:
            config = json.load(file)
        config.update(num_attention_heads=24, num_key_value_heads=6,
                      hidden_size=3072, head_dim=128)
        with tempfile.TemporaryDirectory() as path:
            file = os.path.join(path, "config.json")
            with open(file, "w", encoding="utf-8") as text:
                json.dump(config, text)
            value = self.search("--model", file, "--devices", "8", "--profile",
                                "h100-sxm", "--engine", "vllm", *LENGTHS,
                                *TARGETS)
        refused = {text for one in value["refused"]
                   for text in one["layouts"]}
        self.assertIn("tp 4", refused)
        tried = {side["tp"] for one in value["layouts"] + value["others"]
                 for side in one["sides"]}
        self.assertEqual(tried & {1, 2, 4}, {1, 2})

    def test_the_result_does_not_depend_on_threads(self):
        """With a proof, and without one of a model whose proof takes long."""
        for case in (CASES[0], [*CASES[2], "--prove", "0"]):
            runs = {run("search", "--serve", "--no-project", *case, "--threads",
                        threads, "--format", "json").out for threads in (1, 4)}
            self.assertEqual(len(runs), 1)

    def test_options_that_do_not_apply_are_refused(self):
        good = ["--serve", *LLAMA, *LENGTHS, *TARGETS]
        for arguments, word in (
                ([*good, "--batch", "8"], "`--batch` is for training steps"),
                ([*good, "--zero", "1"], "--zero"),
                ([*good, "--keep", "mesh"], "--keep"),
                ([*good, "--format", "html"], "`--serve` writes no page"),
                ([*LLAMA[:-2], "--tpot", "25ms"],
                 "is for layouts of a server"),
                ([*LLAMA[:-2], "--aggregated"], "add `--serve`"),
                (["--serve", *LLAMA[:-2], *LENGTHS, *TARGETS],
                 "`--serve` also needs `--engine`"),
                (["--serve", *LLAMA, *TARGETS], "--isl"),
                (["--serve", *LLAMA, *LENGTHS, "--ttft", "1s"],
                 "also needs `--tpot`, the most time of each further token"),
                ([*good, "--aggregated", "--disaggregated"],
                 "`--aggregated` and `--disaggregated` exclude each other"),
                ([*good, "--requests", "0"], "positive number"),
                ([*good, "--requests", "nan"], "positive number")):
            done = run("search", "--no-project", *arguments)
            self.assertEqual((done.rc, done.out), (2, ""), done)
            self.assertIn(word, done.err)

    def test_hostile_numbers(self):
        rest = [*model("llama-3.1-8b"), "--profile", "h100-sxm"]
        for arguments in (
                ["--devices", "0", "--engine", "vllm", *LENGTHS, *TARGETS],
                ["--devices", "8", "--engine", "vlm", *LENGTHS, *TARGETS],
                ["--devices", "8", "--engine", "vllm", "--isl", "2000000000",
                 "--osl", "8", *TARGETS],
                ["--devices", "8", "--engine", "vllm", *LENGTHS, "--ttft",
                 "1e400s", "--tpot", "1ms"],
                ["--devices", "8", "--engine", "vllm", *LENGTHS, "--ttft", "1h",
                 "--tpot", "1ms"],
                ["--devices", "8", "--engine", "vllm", *LENGTHS, "--ttft", "-1s",
                 "--tpot", "1ms"],
                ["--devices", "8", "--engine", "vllm", *LENGTHS, "--ttft", "1s",
                 "--tpot", "25"]):
            done = run("search", "--serve", "--no-project", *rest, *arguments)
            self.assertEqual((done.rc, done.out), (2, ""), done)
        # The longest prompts and the most devices that are read.
        value = self.search(*rest, "--devices", "8", "--engine", "vllm",
                            "--isl", str(2**30), "--osl", str(2**30), *TARGETS,
                            rc=1)
        self.assertEqual(value["layouts"], [])
        value = self.search(*rest, "--devices", str(2**20), "--engine", "vllm",
                            *LENGTHS, *TARGETS)
        self.assertLessEqual(value["layouts"][0]["used_devices"], 2**20)

    def test_models_of_the_guide_are_searched(self):
        for name in MODELS:
            with tempfile.TemporaryDirectory() as path:
                inputs = Folder(path).inputs(name, (1, 1, 1, 1))
                at = inputs.index("--model")
                value = self.search(
                    *inputs[at:at + 2], "--weights-dtype", "bfloat16",
                    "--devices", "8", "--profile", "b200-hgx", "--engine",
                    "vllm", "--served-dtype", "fp8", *LENGTHS, "--ttft", "5s",
                    "--tpot", "100ms")
                self.assertTrue(value["layouts"], name)


if __name__ == "__main__":
    unittest.main()
