"""Recomputes dumped attention cases with numpy, from the definitions alone.

Written apart from the program: it shares no code and no constants but the
file format. For every case the stated reference must be the attention of the
stated inputs to float64 accuracy, the stated result must be within the
stated tolerance of it, and the stated error must be the error.

Run by hand on a folder that `shardc verify --dump` wrote:
    recompute.py DIR
"""

import glob
import json
import os
import random
import subprocess
import sys
import tempfile
import unittest

from dense_numpy import (attention, computed_in, from_int8, in_runtime_dtype,
                         np, read_safetensors, to_bthd)
from narrow_numpy import ROWS, check_narrow

CASES = int(os.environ.get("SHARDC_RECOMPUTE_CASES", "200"))
SEED = int(os.environ.get("SHARDC_RECOMPUTE_SEED", "1"))


def check_case(path):
    """What is wrong with a case, or nothing."""
    with open(path) as file:
        document = json.load(file)
    case, settings = document["case"], document["settings"]
    dtypes = {}
    tensors = read_safetensors(path[:-len(".json")] + ".safetensors", dtypes)
    layout = case["layout"]
    key = "latent" if "latent" in tensors else "key"
    want = computed_in(settings, dtypes["query"], dtypes[key])
    if dtypes["output"] != want:
        return f"the output is {dtypes['output']}, computed in {want}"
    scale = settings["scale"] or tensors["query"].shape[-1] ** -0.5
    if abs(settings["softmax_scale"] - scale) > 1e-15 * scale:
        return f"scale {settings['softmax_scale']}, recomputed {scale}"
    tensors = dict(in_runtime_dtype(tensors, settings))
    if case["kv_dtype"] == "I8":  # written to pages after that
        tensors.update({name: from_int8(tensors[name], want)
                        for name in ("key", "value")})
    own = attention(tensors, settings, layout)
    reference = tensors["reference"]
    if own.shape != reference.shape:
        return f"reference {reference.shape}, recomputed {own.shape}"
    narrow = settings["dot_bits"] > 0 or settings["softmax_dtype"] != "F32"
    size = max(1.0, float(np.abs(own).max(initial=0.0)))
    result = to_bthd(tensors["output"], layout)
    if narrow:
        # The stated reference rounds as the settings select, so it differs
        # from the dense one: it and the result are compared with the
        # rounding recomputed here.
        settings["blocked"] = case["operation"] == "flash_attn2"
        return (check_narrow(tensors, settings, layout, reference,
                             dtypes["output"]) or
                check_narrow(tensors, settings, layout, result,
                             dtypes["output"]))
    off = float(np.abs(own - reference).max(initial=0.0))
    if not off <= 1e-11 * size:
        return f"the stated reference has an error of {off}"
    error = float(np.abs(result - own).max(initial=0.0))
    if case["status"] == "pass" and not error <= case["tolerance"]:
        return f"the result has an error of {error}, tolerance {case['tolerance']}"
    if abs(error - case["max_abs_error"]) > 1e-11 * size:
        return f"error {error}, stated {case['max_abs_error']}"
    return None


def cases_in(folder):
    return [path[:-len(".safetensors")] + ".json"
            for path in sorted(glob.glob(os.path.join(
                glob.escape(folder), "*.safetensors")))]


def random_settings(rng, path):
    """A settings file of random values, written where they go."""
    def pick(**choices):
        return {key: rng.choice(values) for key, values in choices.items()
                if rng.random() < 0.5}

    blocks = {"blocksize_q": [1, 3, 64], "blocksize_k": [1, 2, 5, 512]}
    document = {
        "defaults": pick(softmax_scale=[0.1, 0.5], soft_cap=[0, 2, 30],
                         dropout=[0, 0.2], **blocks),
        "operations": {
            "ring": pick(order=["contiguous", "zig_zag", "striped"],
                         soft_cap=[5], scan_ring_attention=[True, False]),
            "blocksparse": pick(
                block_mask=["causal", "sliding", "global", "custom"],
                global_blocks=[0, 2], **blocks),
            "vanilla": pick(dot_bits=[0, 8], runtime_dtype=["float32", "F16"],
                            softmax_dtype=["float32", "bfloat16"]),
            "flash_decoding": pick(merge=["all_reduce", "all_gather"]),
            "unified_attention": pick(page_size=[1, 3, 64])}}
    with open(path, "w") as file:
        json.dump(document, file)  # YAML too


def random_run(rng, folder):
    """Arguments of a verification of random sizes."""
    dp, sp, tp = (rng.choice([1, 2]) for _ in range(3))
    key_heads = tp * rng.choice([1, 2])
    heads = key_heads * rng.choice([1, 2, 4]) * sp
    length = 4 * sp * rng.choice([1, 2, 3])
    queries = rng.choice([length, length // 2])
    sizes = f"heads={heads},kv_heads={key_heads},head_dim={rng.choice([4, 8, 16])}"
    return ["verify", "--no-project", "--mesh", f"dp:{dp},sp:{sp},tp:{tp}",
            "--attention", sizes, "--batch", str(dp * rng.choice([1, 2])),
            "--seq", str(queries), "--kv-len", str(length), "--seed", str(rng.randrange(2 ** 32)),
            "--layout", rng.choice(["bthd", "bhtd", "thd"]),
            "--mode", rng.choice(["train", "prefill", "decode"]),
            "--dtype", rng.choice(["float32", "bfloat16", "float16"]),
            "--kv-dtype", rng.choice(["float32", "bfloat16", "float16", "int8"]),
            "--settings", os.path.join(os.path.dirname(folder), "s.yaml"),
            "--features", "all", "--full", "--dump", folder]


@unittest.skipIf(np is None, "numpy is not installed")
class Recompute(unittest.TestCase):
    def check_folder(self, folder):
        paths = cases_in(folder)
        for path in paths:
            with self.subTest(case=os.path.basename(path)):
                with open(path) as file:
                    text = file.read()
                self.assertIsNone(check_case(path), text)
        return len(paths)

    def test_random_cases_with_every_feature(self):
        program = os.environ["SHARDC_DUMP_RANDOM"]
        with tempfile.TemporaryDirectory() as folder:
            subprocess.run([program, folder, str(SEED), str(CASES)],
                           check=True)
            self.assertEqual(self.check_folder(folder), CASES)
        if CASES >= 200:
            self.assertGreater(ROWS["narrow"], 500)
            self.assertGreater(ROWS["sure"], 0.5 * ROWS["narrow"])

    def test_what_the_command_dumps(self):
        rng = random.Random(SEED)
        seen = 0
        for _ in range(3):
            with tempfile.TemporaryDirectory() as top:
                folder = os.path.join(top, "dump")
                random_settings(rng, os.path.join(top, "s.yaml"))
                done = subprocess.run(
                    [os.environ["SHARDC_BIN"]] + random_run(rng, folder),
                    capture_output=True, text=True)
                self.assertEqual(done.returncode, 0, done.stderr)
                seen += self.check_folder(folder)
        self.assertGreater(seen, 20)

    def test_a_wrong_result_is_detected(self):
        program = os.environ["SHARDC_DUMP_RANDOM"]
        with tempfile.TemporaryDirectory() as folder:
            subprocess.run([program, folder, "3", "1"], check=True)
            (path,) = cases_in(folder)
            self.assertIsNone(check_case(path))
            with open(path) as file:
                document = json.load(file)
            document["settings"]["scale"] = (
                1.01 * document["settings"]["softmax_scale"])
            with open(path, "w") as file:
                json.dump(document, file)
            self.assertIsNotNone(check_case(path))


if __name__ == "__main__":
    if len(sys.argv) == 2 and os.path.isdir(sys.argv[1]):
        wrong = 0
        for case_path in cases_in(sys.argv[1]):
            problem = check_case(case_path)
            if problem:
                wrong += 1
                print(os.path.basename(case_path), problem)
        print(f"{len(cases_in(sys.argv[1]))} cases, {wrong} wrong")
        sys.exit(1 if wrong else 0)
    unittest.main()
