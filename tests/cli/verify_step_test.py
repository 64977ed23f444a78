"""`shardc verify step`: a whole step of a model, proved and priced."""

import os
import tempfile
import unittest

from driver import run
from verify_step_case import GEMMA, GPT2, LLAMA, MIXTRAL, StepCase, inputs


class VerifyStep(StepCase):
    def passes(self, *args):
        for step in self.steps(*args):
            self.assertEqual(step["problems"], [])
            self.assertEqual(step["status"], "pass")
            self.assertLessEqual(step["proof"]["worst_error"],
                                 step["proof"]["allowed"])

    def test_families_and_meshes(self):
        for model in (LLAMA, MIXTRAL, GPT2, GEMMA):
            for mesh in ("dp:2,fsdp:2,tp:2", "fsdp:2,sp:2,tp:2",
                         "fsdp:2,ep:2,tp:2"):
                with self.subTest(model=model[5], mesh=mesh):
                    self.passes("--mesh", mesh, *model, "--batch", "16",
                                "--mode", "train,prefill,decode",
                                "--dtype", "float64,float32")

    def test_heads_that_do_not_divide_are_noted(self):
        # Eight KV heads, which `cost` and `search --all` refuse on tp:16.
        step = ("verify", "step", "--no-project", *LLAMA, "--batch", "16",
                "--mode", "train,decode", "--mesh")
        note = ('note: "tp" of 16 does not divide the 8 KV heads that '
                "attention shards over it: the step leaves out what does not "
                "divide, but `cost` and `search --all` refuse it without `--illegal "
                "drop`\n")
        noted = self.check(run(*step, "tp:16"), 0)
        self.assertEqual(noted.err, note)
        self.assertIn("tp does not divide 8 and is left out", noted.out)
        self.assertEqual(self.check(run(*step, "tp:8"), 0).err, "")
        self.check(run("cost", "--no-project", *LLAMA, "--batch", "16",
                       "--mesh", "tp:16"), 1)

    def test_a_prompt_of_one_token(self):
        self.passes("--mesh", "fsdp:2,tp:2", *LLAMA, "--mode", "prefill",
                    "--seq", "1")

    def test_policies(self):
        for more in (("--policy", "cost"), ("--keep-gathered",),
                     ("--seed", "3")):
            with self.subTest(more=more):
                self.passes("--mesh", "dp:2,fsdp:2,tp:2", *LLAMA,
                            "--batch", "16", "--mode", "train,decode", *more)

    def counts(self, step, phase, axes):
        return {one["collective"]: one["count"]
                for one in step["totals"]["by_collective"]
                if one["phase"] == phase and one["axes"] == axes}

    def test_published_counts(self):
        # Two all_reduces a layer forward and backward, one of the embedding
        # and three of the loss; backward one of the head. The residual is
        # unsharded, as it was where these counts were published.
        with tempfile.TemporaryDirectory() as folder:
            rules = os.path.join(folder, "rules.yaml")
            with open(rules, "w", encoding="utf-8") as file:
                file.write("version: 1\nextends: [builtin:llama]\n"
                           "axes: {hidden_state: null}\nrules: []\n")
            args = ("--mesh", "dp:2,fsdp:2,tp:2", "--rules", rules,
                    *LLAMA[2:], "--batch", "16", "--mode", "train")
            (step,) = self.steps(*args)
        self.assertEqual(step["status"], "pass")
        self.assertEqual(self.counts(step, "forward", ["tp"]),
                         {"all_reduce": 68})
        self.assertEqual(self.counts(step, "backward", ["tp"]),
                         {"all_reduce": 65})
        self.assertEqual(step["layers"], 32)
        self.assertEqual({op["part"] for op in step["ops"]},
                         {"model", "layer 0-31", "optimizer"})
        self.assertEqual(step["proof"]["layers"], [0, 1])

    def sent_by_attention(self, step, phase):
        return sum(op["bytes_per_device"] for op in step["ops"]
                   if op["op"].endswith("attention") and op["phase"] == phase)

    def test_published_bytes_of_operations(self):
        # Llama 3 8B, 131072 tokens over 8 devices, a layer: keys and values of
        # a device go round n - 1 times, and backward again with their
        # gradients (Liu et al. 2023); queries, keys, values and outputs are
        # exchanged, and so are their gradients (Jacobs et al. 2023).
        args = ("--mesh", "sp:8", *LLAMA, "--batch", "1", "--seq", "131072",
                "--mode", "train", "--operation")
        (ring,) = self.steps(*args, "ring")
        self.assertEqual(ring["status"], "pass")
        self.assertEqual(ring["operation"], "ring")
        self.assertEqual(self.sent_by_attention(ring, "forward"), 469762048)
        self.assertEqual(self.sent_by_attention(ring, "backward"),
                         2 * 469762048)
        self.assertEqual(self.counts(ring, "forward", ["sp"])["ppermute"],
                         32 * 2 * 7)
        self.assertEqual(self.counts(ring, "backward", ["sp"])["ppermute"],
                         32 * 4 * 7)
        (ulysses,) = self.steps(*args, "ulysses")
        self.assertEqual(ulysses["status"], "pass")
        for phase in ("forward", "backward"):
            exchanged = [one for one in ulysses["totals"]["by_collective"]
                         if one["collective"] == "all_to_all"
                         and one["phase"] == phase]
            self.assertEqual([(one["count"], one["bytes_per_device"])
                              for one in exchanged],
                             [(32 * 4, 32 * 293601280)])

    def test_operations(self):
        for mesh in ("fsdp:2,sp:2,tp:2", "sp:4,tp:2"):
            for operation in ("vanilla", "sdpa", "flash_attn2", "blocksparse",
                              "ulysses", "ring"):
                with self.subTest(mesh=mesh, operation=operation):
                    self.passes("--mesh", mesh, *LLAMA, "--batch", "16",
                                "--mode", "train,prefill", "--dtype",
                                "float64,float32,bfloat16", "--operation",
                                operation)
        for operation in ("vanilla", "sdpa", "flash_decoding"):
            with self.subTest(operation=operation):
                self.passes("--mesh", "sp:2,tp:2", *LLAMA, "--batch", "16",
                            "--mode", "decode", "--operation", operation)

    def test_an_operation_that_reads_other_heads(self):
        # KV heads are replicated on devices that share its heads.
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        rules = os.path.join(folder.name, "rules.yaml")
        with open(rules, "w", encoding="utf-8") as file:
            file.write("version: 1\nextends: [builtin:gemma]\n"
                       "axes: {kv_head: null}\n")
        inputs = [rules if one == "auto" else one for one in GEMMA]
        self.assertIn(rules, inputs)
        for operation in ("sdpa", "ulysses"):
            with self.subTest(operation=operation):
                (step,) = self.steps("--mesh", "sp:2,tp:2", *inputs, "--batch",
                                     "16", "--mode", "train", "--operation",
                                     operation, rc=1)
                self.assertEqual(step["status"], "fail")
                self.assertIn("attention: has an error of", step["problems"][0])

    def test_an_operation_that_cannot_run(self):
        for mesh, operation, mode, reason in (
                ("sp:4", "ring", "decode",
                 "ring: one query cannot be split over `sp`, and keys are "
                 "split as queries are"),
                ("sp:128", "ulysses", "train",
                 "ulysses: a device's 32 query heads do not divide over `sp` "
                 "(128 parts)"),
                ("sp:2", "unified_attention", "train",
                 "unified_attention: a step keeps keys in caches, not in "
                 "pages"),
                ("sp:2", "flash_decoding", "train",
                 "flash_decoding: is for decoding alone")):
            with self.subTest(operation=operation):
                (step,) = self.steps("--mesh", mesh, *LLAMA, "--batch", "16",
                                     "--mode", mode, "--operation", operation,
                                     rc=1)
                self.assertEqual(step["status"], "unsupported")
                self.assertEqual(step["reason"], reason)
        out = run("verify", "step", "--no-project", "--mesh", "sp:2", *LLAMA, "--mode",
                  "train", "--operation", "ring,sdpa")
        self.check(out, 2)
        self.assertIn("a step has one attention operation", out.err)

    def test_a_flag_of_training_is_refused_in_other_modes(self):
        training = "has an effect only in a training step"
        for more, message in (
                (["--remat", "nothing_saveable"], f"`--remat` {training}"),
                (["--microbatches", "2"], f"`--microbatches` {training}"),
                (["--keep-gathered"], f"`--keep-gathered` {training}"),
                (["--reduce-each"], "`--reduce-each` has no effect without "
                                    "micro-batches")):
            with self.subTest(more=more):
                out = run("verify", "step", "--no-project", "--mesh", "tp:2",
                          *LLAMA, "--mode", "prefill,decode", *more)
                self.check(out, 2)
                self.assertIn(message, out.err)
        out = run("verify", "step", "--no-project", "--mesh", "tp:2", *LLAMA,
                  "--microbatches", "2", "--reduce", "once", "--reduce-each")
        self.check(out, 2)
        self.assertIn("`--reduce-each` and `--reduce` differ", out.err)

    def test_plans_with_errors(self):
        """Exit 1 for unmatched and illegal parameters, as in other commands."""
        with tempfile.TemporaryDirectory() as folder:
            rules = os.path.join(folder, "rules.yaml")
            with open(rules, "w", encoding="utf-8") as file:
                file.write("version: 1\nrules: []\n")
            for mesh, own, code in (("tp:3", [], "SHD202"),
                                    ("tp:2", ["--rules", rules], "SHD104")):
                args = ["--no-project", "--mesh", mesh, *LLAMA[2:],
                        "--batch", "4", "--seq", "8", *(own or LLAMA[:2])]
                for command in (["cost"], ["verify", "step"]):
                    with self.subTest(command=command, code=code):
                        done = run(*command, *args)
                        self.assertEqual((done.rc, done.out), (1, ""))
                        self.assertIn(f"error[{code} ", done.err)

    def test_numbers_beyond_64_bits(self):
        out = run("verify", "step", "--no-project", "--mesh", "tp:2", *LLAMA,
                  "--seed", "9223372036854775808")
        self.check(out, 2)
        self.assertIn("`9223372036854775808` is larger than "
                      "9223372036854775807, the largest number that is read",
                      out.err)

    def test_an_option_of_the_other_command_gets_that_command(self):
        for more in (["--part", "model"],
                     ["--policy", "cost"], ["--keep-gathered"],
                     ["--remat", "nothing_saveable"], ["--microbatches", "2"],
                     ["--reduce-each"]):
            with self.subTest(more=more):
                out = run("verify", "--no-project", "--mesh", "tp:2", *more)
                self.check(out, 2)
                self.assertIn("`verify` has no option `%s`" % more[0], out.err)
                self.assertIn("`shardc verify step` has it", out.err)
        for more in (["--attention", "heads=4"], ["--layout", "bthd"],
                     ["--features", "none"], ["--steps", "4"], ["--list"],
                     ["--metrics", "stacked"]):
            with self.subTest(more=more):
                out = run("verify", "step", "--no-project", "--mesh", "tp:2",
                          *more)
                self.check(out, 2)
                self.assertIn("`verify step` has no option `%s`" % more[0],
                              out.err)
                self.assertIn("`shardc verify` has it", out.err)

    def test_options_before_the_second_word_are_refused(self):
        out = run("verify", "--mesh", "tp:2", "step", "--mode", "train")
        self.check(out, 2)
        self.assertIn("`--mesh` stands before the end of the command `verify "
                      "step`", out.err)
        self.assertIn("write it after it: `shardc verify step --mesh ...`",
                      out.err)

    def test_without_a_mode_it_trains(self):
        args = ("--mesh", "tp:2", *LLAMA, "--batch", "4", "--part", "layer 0")
        self.assertEqual(self.steps(*args), self.steps(*args, "--mode",
                                                       "train"))

    def test_tokens_reach_experts(self):
        with tempfile.TemporaryDirectory() as folder:
            rules = os.path.join(folder, "rules.yaml")
            with open(rules, "w", encoding="utf-8") as file:
                file.write("version: 1\nextends: [builtin:mixtral]\n"
                           "axes: {batch: [fsdp, dp, ep]}\nrules: []\n")
            args = ("--mesh", "fsdp:2,ep:4", "--rules", rules, *MIXTRAL[2:],
                    "--batch", "16", "--mode", "train")
            (step,) = self.steps(*args)
        self.assertEqual(step["status"], "pass")
        # Two a layer, each way.
        for phase in ("forward", "backward"):
            self.assertEqual(
                self.counts(step, phase, ["ep"])["all_to_all"], 64)

    def test_text(self):
        out = self.check(run("verify", "step", "--no-project", "--mesh", "dp:2,tp:2",
                             *LLAMA, "--mode", "decode", "--batch", "8"), 0)
        self.assertIn("step decode  dp=2 tp=2  batch 8 x 8192", out.out)
        self.assertIn("pass: F64, logits, 4 caches equal", out.out)

    def test_a_split_cache_stays_where_it_is(self):
        (step,) = self.steps("--mesh", "sp:4,tp:2", *LLAMA, "--batch", "16",
                             "--mode", "decode")
        self.assertEqual(step["status"], "pass")
        attention = [op for op in step["ops"] if op["op"] == "attention"]
        # Partial softmaxes: maxima, sums and what they weigh.
        self.assertEqual([(op["collective"], op["axes"], op["result"])
                          for op in attention],
                         [("all_reduce", ["sp"], "[b,n,t]"),
                          ("all_reduce", ["sp"], "[b,n,t]"),
                          ("all_reduce", ["sp"], "[b,t,n,h]")])
        for op in step["ops"]:
            self.assertNotIn(",s,", op["result"])

    def test_recomputing(self):
        args = ("--mesh", "dp:2,fsdp:2,tp:2", *LLAMA, "--batch", "16",
                "--mode", "train")
        (plain,) = self.steps(*args)
        (none,) = self.steps(*args, "--remat", "nothing_saveable")
        self.assertEqual(plain["remat"], "everything_saveable")
        self.assertEqual(none["remat"], "nothing_saveable")
        self.assertEqual(none["status"], "pass")
        again = [op for op in none["ops"] if op["op"].startswith("r:")]
        self.assertTrue(again)
        first = {(op["op"], op["collective"], *op["axes"]):
                 op["bytes_per_device"] for op in none["ops"]}
        for op in again:
            self.assertEqual(op["phase"], "backward")
            self.assertIsNotNone(op["error"])
            self.assertEqual(
                first[(op["op"][2:], op["collective"], *op["axes"])],
                op["bytes_per_device"])
        self.assertEqual(none["totals"]["forward"], plain["totals"]["forward"])
        self.assertGreater(none["totals"]["backward"],
                           plain["totals"]["backward"])
        self.assertLess(none["memory"]["peak"], plain["memory"]["peak"])
        for step in (plain, none):
            memory = step["memory"]
            self.assertEqual(memory["peak"], sum(
                memory[name] for name in (
                    "parameters", "gradients", "optimizer", "kv_cache",
                    "activations", "logits", "gathered")))
            unfused = memory["unfused"]
            self.assertEqual(unfused["peak"], sum(
                unfused[name] for name in (
                    "parameters", "moments", "gradients", "caches", "inputs",
                    "gathered", "activations")))
            self.assertLess(unfused["instruction"], unfused["instructions"])
        wrong = run("verify", "step", "--no-project", *args, "--remat", "nothing")
        self.check(wrong, 2)
        self.assertIn("is no policy", wrong.err)

    def test_micro_batches(self):
        args = ("--mesh", "dp:2,fsdp:2,tp:2", *LLAMA, "--batch", "32",
                "--mode", "train")
        (one,) = self.steps(*args)
        (once,) = self.steps(*args, "--microbatches", "2", "--reduce", "once")
        (sharded,) = self.steps(*args, "--microbatches", "2")
        (each,) = self.steps(*args, "--microbatches", "2", "--reduce-each",
                             "--remat", "dots_saveable")
        for step in (once, sharded, each):
            self.assertEqual(step["status"], "pass")
            self.assertEqual(step["microbatches"], 2)
            self.assertEqual({op["microbatch"] for op in step["ops"]},
                             {None, 0, 1})
            self.assertLess(step["memory"]["peak"], one["memory"]["peak"])

        def sent(step, collective, axis):
            return sum(total["bytes_per_device"]
                       for total in step["totals"]["by_collective"]
                       if total["collective"] == collective
                       and total["phase"] == "backward"
                       and total["axes"] == [axis])
        # FSDP scatters the gradients of each part, and HSDP adds up the sums.
        for step, scatters, adds in ((once, 1, 1), (sharded, 2, 1),
                                     (each, 2, 2)):
            self.assertEqual(sent(step, "reduce_scatter", "fsdp"),
                             scatters * sent(one, "reduce_scatter", "fsdp"))
            self.assertEqual(sent(step, "all_reduce", "dp"),
                             adds * sent(one, "all_reduce", "dp"))
        self.assertEqual([step["reduction"] for step in (once, sharded, each)],
                         ["once", "sharded", "each"])
        self.assertEqual(one["microbatches"], 1)
        self.assertFalse(once["reduce_each"])
        wrong = run("verify", "step", "--no-project", *args, "--microbatches", "3")
        self.check(wrong, 2)
        self.assertIn("is no multiple of 3 micro-batches", wrong.err)

    def test_16_bits(self):
        for model in (LLAMA, MIXTRAL, GPT2, GEMMA):
            with self.subTest(model=model[5]):
                self.passes("--mesh", "fsdp:2,ep:2,tp:2", *model, "--batch",
                            "16", "--mode", "train,decode",
                            "--dtype", "bfloat16,float16")

    def test_one_parameter(self):
        name = "model.layers.3.self_attn.q_proj.weight"
        args = ("explain", name, "--no-project", "--mesh", "dp:2,fsdp:2,tp:2",
                *LLAMA, "--ops", "train,decode")
        value = self.check(run(*args, "--format", "json"), 0).json()
        self.assertEqual(list(self.schema.iter_errors(value)), [])
        self.assertEqual(value["parameter"], name)
        train, decode = value["steps"]
        self.assertEqual(train["role"], "q of layer 3")
        self.assertEqual([op["op"] for op in train["ops"]],
                         ["linear q", "d:linear q", "adamw q"])
        self.assertEqual([(m["of"], m["collective"], m["axes"])
                          for m in train["collectives"]],
                         [("parameter", "all_gather", ["fsdp"]),
                          ("parameter", "all_gather", ["fsdp"]),
                          ("gradient", "reduce_scatter", ["fsdp"]),
                          ("gradient", "all_reduce", ["dp"])])
        # The step's report has the same collectives.
        (step,) = self.steps("--mesh", "dp:2,fsdp:2,tp:2", *LLAMA, "--mode",
                             "train", "--batch", "16")
        told = [(op["phase"], op["op"], op["specs"], op["collective"],
                 op["axes"], op["bytes_per_device"]) for op in step["ops"]]
        for m in train["collectives"]:
            self.assertIn((m["phase"], m["op"], m["specs"], m["collective"],
                           m["axes"], m["bytes_per_device"]), told)
        self.assertEqual(train["bytes_per_device"],
                         sum(m["bytes_per_device"]
                             for m in train["collectives"]))
        self.assertIsNone(decode["gradient"])
        text = self.check(run(*args), 0).out
        self.assertIn("gradient  (n h):tp pending dp+fsdp\n", text)
        wrong = run(*args[:-1], "sideways")
        self.assertEqual(wrong.rc, 2)

    def test_what_is_wrong(self):
        for args, words in (
                (("--mode", "train", "--dtype", "int8"), "is none of"),
                (("--mode", "train", "--batch", "0"), "--batch"),
                (("--mode", "sideways"), "sideways"),
                (("--mode", "train", "--part", "layer 32"),
                 "`layer 0` to `layer 31`"),
                (("--mode", "decode", "--part", "optimizer"), "no part"),
                (("--mode", "train", "--policy", "luck"), "luck")):
            with self.subTest(args=args):
                done = run("verify", "step", "--no-project", "--mesh", "tp:2", *LLAMA,
                           *args)
                self.assertEqual(done.rc, 2)
                self.assertIn(words, done.err)


if __name__ == "__main__":
    unittest.main()
