"""The handover of a KV cache on simulated meshes (`shardc verify kv`)."""

import json
import os
import unittest

from driver import ROOT, run
from kv_test import GLM, QWEN, KvCase, changed_plans, config, llama


class Handovers(KvCase):
    def verify(self, source, destination, *flags, rc=0):
        done = self.check(run("verify", "kv", "--from", source, "--to",
                              destination, *flags, "--format", "json"), rc)
        return done.json()

    def equal(self, model, source, destination, *flags, **keys):
        """Runs the handover between two meshes, or arguments of plan()."""
        def plan(side):
            if isinstance(side, str):
                return self.plans.plan(model, side, **keys)
            return self.plans.plan(model, side[0], **{**keys, **side[1]})
        out = self.verify(plan(source), plan(destination), *flags)
        self.assertEqual((out["status"], out["complete"], out["run"]["faults"],
                          out["run"]["layer"]), ("equal", True, [], None))
        self.assertLessEqual(out["run"]["decode_error"], out["run"]["allowed"])
        return out

    def test_heads_pages_and_orders(self):
        model = config("llama-3-70b")
        out = self.equal(model, "tp:4", "tp:16", "--page", "64:16", "--order",
                         "HND:NHD", "--kv-tensors", "split:joint")
        run_ = out["run"]
        # Pages of 64 and 16 keep their ratio.
        self.assertEqual((run_["page"], run_["tokens"]), ([12, 3], 25))
        # Each of 8 heads is on two devices, in all of 80 layers.
        self.assertEqual(run_["rows"], 80 * 16 * 25)
        self.assertEqual(run_["kinds"][0]["layers"], [[0, 80]])
        self.assertEqual(run_["allowed"], 1e-12)
        out = self.equal(model, "tp:8", "tp:2", "--tokens", 8192, "--page", 64,
                         "--kv-dtype", "int8")
        self.assertEqual(out["run"]["allowed"], 1e-6)
        self.equal(model, "tp:2", "tp:4", "--kv-dtype",
                   "bfloat16:float8_e4m3fn", "--convert")

    def test_kinds_of_layers(self):
        out = self.equal(config("gpt-oss-120b"), "tp:4", "dp:2,tp:8", "--tokens",
                         1000, "--page", 16, "--dp-rank", "0:1")
        kinds = {kind["kind"]: kind for kind in out["run"]["kinds"]}
        self.assertLess(0, kinds["window"]["window"])
        self.assertLess(kinds["window"]["window"], out["run"]["tokens"])
        out = self.equal(QWEN, "tp:1", "tp:4", "--tokens", 40, "--page", 16)
        self.assertEqual([kind["kind"] for kind in out["run"]["kinds"]],
                         ["full", "state", "conv_key", "conv_value"])
        out = self.equal(config("deepseek-v3"), "tp:8", "fsdp:8", "--tokens",
                         8192, "--page", 64, "--share-replicas", "--draft", 1)
        self.assertGreater(out["run"]["pairs"], 1)
        self.equal(GLM, ("pp:4,tp:2", {"stages": "even"}), "dp:8")

    def test_stages_and_sharded_tokens(self):
        model = llama(layers=10)
        self.equal(model, ("pp:2,tp:2", {"stages": [7, 3]}),
                   ("pp:2,tp:4", {"stages": [4, 6]}))
        out = self.equal(llama(layers=2), "sp:2,tp:4", "sp:4,tp:2", "--page", 32,
                         "--interleave", "block:64")
        self.assertEqual(out["run"]["interleave"], [0, 6])

    def test_keys_of_an_indexer_in_int8_are_not_run(self):
        model = {**GLM, "num_hidden_layers": 3}
        plan = self.plans.plan(model, "tp:2")
        out = self.verify(plan, plan, "--kv-dtype", "int8")
        self.assertEqual((out["status"], out["complete"]), ("equal", False))
        self.assertEqual([kind["not_run"] for kind in out["run"]["kinds"]],
                         [None, "in int8 it shares the scale of the latent row"])
        done = self.check(run("verify", "kv", "--from", plan, "--to", plan,
                              "--kv-dtype", "int8"), 0)
        self.assertIn("equal, but for the layers that were not run\n", done.out)
        out = self.verify(plan, plan, "--kv-dtype", "int16", rc=1)
        self.assertEqual(out["status"], "not_run")
        self.assertEqual(out["run"]["kinds"][0]["not_run"],
                         "rows in I16 cannot be run")

    def test_what_kv_refuses_is_refused(self):
        model = llama(layers=2)
        out = self.verify(self.plans.plan(model, "tp:2"),
                          self.plans.plan(llama(layers=3), "tp:2"), rc=1)
        self.assertIn("which are not the same layers", out["refused"][0])
        self.assertEqual((out["status"], out["run"]), ("refused", None))
        plan = self.plans.plan(config("nemotron-h-56b"), "tp:4")
        out = self.verify(plan, plan, rc=1)
        self.assertEqual(out["status"], "equal")
        self.assertIn("the heads and bytes of the states",
                      out["not_known"][0]["what"])
        plan = self.plans.plan(None, "tp:4")
        self.verify(plan, plan, rc=1)

    def test_devices_that_have_the_same_part(self):
        out = self.equal(llama(layers=2), "tp:4,ep:2", "ep:2,tp:2", "--page", 16)
        # Four devices of the destination have half of the 8 heads each.
        self.assertEqual(out["run"]["rows"], 2 * 4 * 4 * out["run"]["tokens"])

    def test_limits(self):
        model = llama(layers=2)
        plan = self.plans.plan(model, "tp:4")
        done = self.check(run("verify", "kv", "--from", plan, "--to", plan,
                              "--page", "1000:999"), 2)
        self.assertIn("the handover of 2,001 tokens on 4 devices is too large to "
                      "run: at most 1,024 tokens, 1,024 devices and 1,048,576 "
                      "rows are run", done.err)
        self.assertIn("give pages that have a common factor, fewer devices, or a "
                      "request of few tokens with `--tokens`; `shardc kv` proves "
                      "maps of any size", done.err)
        self.verify(plan, plan, "--page", "1000:999", "--tokens", 9)
        wide = self.plans.plan(model, "tp:2048")
        done = self.check(run("verify", "kv", "--from", wide, "--to", plan), 2)
        self.assertIn("on 2,048 devices is too large", done.err)
        deep = self.plans.plan(llama(layers=300, heads=512, kv_heads=512),
                               "tp:512")
        done = self.check(run("verify", "kv", "--from", deep, "--to", deep,
                              "--tokens", 64), 2)
        self.assertIn("64 tokens on 512 devices is too large", done.err)
        done = self.check(run("verify", "kv", "--from", plan, "--to", plan,
                              "--order", "hnd"), 2)
        self.assertIn("`hnd` is not HND or NHD", done.err)

    def test_hostile_plans(self):
        plan = self.plans.plan(llama(layers=4), "dp:2,tp:4")
        for _, edited in changed_plans(self.plans, plan, 100):
            done = run("verify", "kv", "--from", edited, "--to", edited,
                       "--allow-edited", "--page", 16)
            self.assertIn(done.rc, (0, 1, 2), repr(done))
            self.assertEqual("error" in done.err, done.rc == 2, repr(done))
        # Kinds of layers that no model has together.
        with open(self.plans.plan(GLM, "tp:2"), encoding="utf-8") as file:
            value = json.load(file)
        for kinds, rc in ((["indexer"], 1), (["indexer", "full"], 0),
                          (["full", "latent"], 1), (["conv_key", "full"], 0),
                          (["state", "indexer"], 1), (["window", "window"], 1),
                          (["conv_value", "state"], 1)):
            kv = [{"kind": kind, "head_dim": 4, "layers": [[0, 2]],
                   "heads": 1 if kind in ("latent", "indexer") else 2,
                   **({"value_dim": 4} if kind == "state" else {})}
                  for kind in kinds]
            edited = self.plans.path({**value, "kv": kv})
            done = run("verify", "kv", "--from", edited, "--to", edited,
                       "--allow-edited")
            self.assertEqual(done.rc, rc, (kinds, repr(done)))

    def test_the_output_has_the_schema(self):
        import jsonschema
        with open(os.path.join(ROOT, "schemas", "kv-proof.schema.json"),
                  encoding="utf-8") as file:
            check = jsonschema.Draft7Validator(json.load(file))
        plan = self.plans.plan(QWEN, "tp:2")
        other = self.plans.plan(llama(layers=2), "tp:2")
        for out in (self.verify(plan, plan, "--page", 4),
                    self.verify(plan, other, rc=1)):
            self.assertEqual([error.message for error in check.iter_errors(out)],
                             [])


if __name__ == "__main__":
    unittest.main()
