"""`shardc cost`: the figures of device profiles, meshes and training software."""

import json
import os
import tempfile
import unittest

from cost_case import LLAMA, TRAIN, CostCase
from driver import run


class CostProfiles(CostCase):
    def profile(self, folder, text):
        path = os.path.join(folder, "profile.yaml")
        with open(path, "w", encoding="utf-8") as file:
            file.write("schema: shardc.profile/v1\n" + text)
        return path

    def expected(self, *arguments):
        return self.cost("--batch", "32", "--seq", "2048",
                         *arguments)["time"]["expected_s"]

    def test_profiles_have_curves(self):
        """A flat curve is a share; one that falls for small matmuls makes a
        step slower; measured rates of collectives take the place of the
        links'."""
        def expected(**more):
            with tempfile.TemporaryDirectory() as folder:
                path = os.path.join(folder, "own.yaml")
                with open(path, "w", encoding="utf-8") as file:
                    json.dump({"schema": "shardc.profile/v1",
                               "base": "h100-sxm", **more}, file)
                return self.cost(*TRAIN, "--memory", "1TiB", "--profile",
                                 path, inputs=(
                    *LLAMA, "--mesh", "fsdp:4,tp:2"))["time"]
        def matmuls(curve):
            return expected(efficiency={"matmul": {"bf16": curve}})
        flat = matmuls([[1, 0.5], [1e6, 0.5]])
        self.assertEqual(flat["expected_s"], matmuls(0.5)["expected_s"])
        falling = matmuls([[1, 0.1], [14336, 0.5]])
        self.assertGreater(falling["expected_s"], flat["expected_s"])
        self.assertEqual(falling["least_s"], flat["least_s"])
        # Within a host of h100-sxm a collective reaches 0.8 of 450 GB/s.
        plain = expected()
        slow = expected(links={"curve": {
            "all_gather": [[1, 1e9], [1e12, 1e9]]}})
        self.assertGreater(slow["expected_s"], plain["expected_s"])
        fast = expected(links={"curve": {
            "reduce_scatter": [[1, 1e13], [1e12, 1e13]]}})
        self.assertLess(fast["expected_s"], plain["expected_s"])
        with tempfile.TemporaryDirectory() as folder:
            path = os.path.join(folder, "own.yaml")
            for curve, words in (
                    ("[[512, 0.4], [512, 0.5]]", "the sizes of `bf16` do not "
                     "rise"),
                    ("[[512]]", "a point of `bf16` is not a pair"),
                    ("[]", "is not a curve of 1 to 1,000 points"),
                    ("[[512, 1.4]]", "a point's value")):
                with open(path, "w", encoding="utf-8") as file:
                    file.write("schema: shardc.profile/v1\nbase: h100-sxm\n"
                               f"efficiency: {{matmul: {{bf16: {curve}}}}}\n")
                got = self.check(run("cost", *LLAMA, "--mesh", "fsdp:4",
                                     *TRAIN, "--profile", path), 2)
                self.assertIn(words, got.err)
                self.assertIn("own.yaml:3:", got.err)
                if "point" not in words or "pair" in words:
                    self.assertIn("write points such as [[512, 0.4], "
                                  "[4096, 0.71]]", got.err)

    def test_a_profile_of_a_file(self):
        with tempfile.TemporaryDirectory() as folder:
            known = self.expected("--profile", "h100-sxm")
            same = self.profile(folder, "base: h100-sxm\n")
            self.assertEqual(self.expected("--profile", same), known)
            for slower in (
                    "memory: {bandwidth: 1.6e12}",
                    "peaks: {bf16: 400e12}",
                    "efficiency: {matmul: {bf16: 0.35}}",
                    "efficiency: {attention: {flash_attn2: 0.15}}",
                    "efficiency: {memory_ops: 0.35}",
                    "links: {near: {efficiency: 0.4}}",
                    "links: {near: {bandwidth: 100e9}}",
                    "links: {near: {latency: 1e-3}}",
                    "links: {far: {bandwidth: 1e9}}",
                    "scale: 0.1"):
                path = self.profile(folder, "base: h100-sxm\n" + slower)
                self.assertGreater(self.expected("--profile", path), known,
                                   slower)
            value = self.cost(
                "--batch", "32", "--seq", "2048", "--profile",
                self.profile(folder, "base: h100-sxm\nname: slow\n"
                                     "memory: {bytes: 40GiB}\n"))
            self.assertEqual(value["time"]["profile"], "slow")
            self.assertEqual(value["memory"]["capacity"], 40 << 30)

    def test_wrong_profiles(self):
        with tempfile.TemporaryDirectory() as folder:
            for text, word in (
                    ("base: h1000\n", "which is no profile"),
                    ("name: x\n", "`base`"),
                    ("base: h100-sxm\nefficiency: {matmul: {bf16: 1.2}}\n",
                     "more than 1"),
                    ("base: h100-sxm\nefficiency: {matmul: {bf16: 0}}\n",
                     "less than"),
                    ("base: h100-sxm\npeak: {bf16: 1}\n", "`peak`"),
                    ("base: h100-sxm\nlinks: {far: {latency: 1}}\n",
                     "no latency"),
                    ("base: h100-sxm\nmemory: {bytes: -1}\n", "`bytes`"),
                    ("base: [h100-sxm]\n", "`base`")):
                done = run("cost", *LLAMA, "--mesh", "fsdp:8", *TRAIN,
                           "--profile", self.profile(folder, text))
                self.assertEqual(done.rc, 2, text)
                self.assertIn(word, done.err, text)
                self.assertIn("profile.yaml:", done.err, text)
            done = run("cost", *LLAMA, "--mesh", "fsdp:8", *TRAIN,
                       "--profile", os.path.join(folder, "none.yaml"))
            self.assertEqual(done.rc, 2)
            self.assertIn("there is no file", done.err)

    def test_stacks_and_overlap(self):
        base = ["--profile", "h100-sxm", "--stack"]
        times = {name: self.expected(*base, name) for name in
                 ("compiled", "megatron", "xla", "eager", "eager-bf16",
                  "hf", "megatron-2021", "deepspeed-2021")}
        self.assertGreater(times["eager"], times["eager-bf16"])
        self.assertGreater(times["eager-bf16"], times["compiled"])
        self.assertLess(self.expected(*base, "compiled", "--overlap-tp"),
                        times["compiled"])
        self.assertLess(self.expected(*base, "compiled", "--matmul-dtype",
                                      "float8_e4m3fn"), times["compiled"])
        # The parameters are named as PyTorch names them.
        self.assertEqual(self.expected("--profile", "h100-sxm"),
                         times["compiled"])
        self.assertEqual(
            self.cost("--batch", "32", "--seq", "2048", "--profile",
                      "v5p")["time"]["calibration"]["stack"], "xla")

    def test_less_kept_takes_longer(self):
        kept = [self.expected("--profile", "h100-sxm", "--remat", policy)
                for policy in ("everything_saveable", "dots_saveable",
                               "save_only_these_names(context)",
                               "nothing_saveable")]
        self.assertEqual(kept, sorted(kept))
        self.assertLess(kept[0], kept[-1])

    def test_a_mesh_s_own_figures_win(self):
        with tempfile.TemporaryDirectory() as folder:
            path = os.path.join(folder, "mesh.yaml")
            with open(path, "w", encoding="utf-8") as file:
                file.write("axes: {fsdp: 8, tp: 4}\n"
                           "device: h100-80gb\n")
            named = self.cost(*TRAIN, inputs=(*LLAMA, "--mesh", path))
            self.assertEqual(named["time"]["profile"], "h100-sxm")
            with open(path, "w", encoding="utf-8") as file:
                file.write("axes: {fsdp: 8, tp: 4}\nprocesses: 32\n"
                           "device: {memory: 70GiB}\n")
            own = self.cost(*TRAIN, "--profile", "h100-sxm",
                            inputs=(*LLAMA, "--mesh", path))
            self.assertEqual(own["memory"]["capacity"], 70 << 30)
            self.assertGreater(own["time"]["communication_s"],
                               named["time"]["communication_s"])

    def test_the_accelerators_fit_the_schema(self):
        value = self.check(run("cost", "--profiles", "--format", "json"),
                           0).json()
        self.assertEqual([], list(self.schema.iter_errors(value)))
        names = {one["name"] for one in value["profiles"]}
        self.assertLessEqual(
            {"a100-80-sxm", "h100-sxm", "h200-sxm", "b200-hgx", "mi300x",
             "tpu-v4", "tpu-v5e", "tpu-v5p", "tpu-v6e", "trn2"}, names)


if __name__ == "__main__":
    unittest.main()
