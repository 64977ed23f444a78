"""Two programs of the same source, made by different compilers, say the same
byte for byte. SHARDC_PEER=PROGRAM names the other one, which tests/bootstrap
builds under sanitizers; SHARDC_PEER_VECTORS=fewer means that it knows fewer
widths of vectors, whose sums are others."""

import os
import unittest

import driver

PEER = os.environ.get("SHARDC_PEER")
MESHES = ["tp:8", "fsdp:16,tp:4", "dp:2,fsdp:4,ep:2,tp:2"]
MANIFESTS = sorted(name for name in os.listdir(driver.MODELS)
                   if ".manifest.json" in name)[::3]
CONFIGS = os.path.join(driver.TESTDATA, "configs")


def said(binary, *args):
    own, driver.BIN = driver.BIN, binary
    try:
        done = driver.run(*args)
    finally:
        driver.BIN = own
    return done.rc, done.out, done.err


@unittest.skipUnless(PEER, "SHARDC_PEER names no other program")
class Compilers(unittest.TestCase):
    def same(self, *args):
        with self.subTest(" ".join(args)):
            first = said(driver.BIN, *args)
            self.assertNotIn(first[0], (2, 3), first[2])
            self.assertEqual(first, said(PEER, *args))

    def test_plans_costs_and_findings(self):
        self.assertTrue(MANIFESTS)
        for index, name in enumerate(MANIFESTS):
            inputs = ("--mesh", MESHES[index % len(MESHES)], "--rules", "auto",
                      "--manifest", os.path.join(driver.MODELS, name))
            self.same("plan", *inputs)
            self.same("check", *inputs, "--format", "json")
            self.same("suggest", *inputs[:2], *inputs[4:])

    def test_steps(self):
        # The same data, cases and errors: arithmetic is the compiler's too.
        for seed, model in enumerate(("gemma-2-9b", "mixtral-8x7b")):
            config = os.path.join(CONFIGS, model + ".config.json")
            self.same("verify", "step", "--mode", "train,decode", "--mesh",
                      "fsdp:2,tp:2", "--seed", str(seed), "--format", "json",
                      "--rules", "auto", "--model", config, "--manifest",
                      os.path.join(driver.MODELS,
                                   model + ".hf.manifest.json.gz"))

    @unittest.skipIf(os.environ.get("SHARDC_PEER_VECTORS") == "fewer",
                     "kernels of other widths add in another order")
    def test_attention(self):
        for seed, model in enumerate(("bloom-176b", "deepseek-v3.1")):
            self.same("verify", "--mesh", "dp:2,sp:2,tp:2", "--seed",
                      str(seed), "--format", "json", "--model",
                      os.path.join(CONFIGS, model + ".config.json"))


if __name__ == "__main__":
    unittest.main()
