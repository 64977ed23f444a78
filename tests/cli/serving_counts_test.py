"""`cost --engine`: bytes and slots against a count from the sizes of a config.

The count below knows the parameters of each family and what an engine divides;
it shares nothing with the program's formulas.
"""

import itertools
import math
import tempfile
import unittest
from fractions import Fraction

from driver import run
from serving_layouts import MODELS, Folder, config

BITS = {"bf16": 16, "fp8": 8, "nvfp4": Fraction(72, 16),
        "mxfp4": Fraction(136, 32)}
LAYOUTS = {False: [(1, 1, 1, 1), (2, 1, 1, 1), (4, 1, 1, 1), (8, 1, 1, 1),
                   (1, 8, 1, 1), (2, 4, 1, 1)],
           True: [(1, 1, 1, 1), (4, 1, 1, 4), (8, 1, 8, 1), (8, 1, 2, 4),
                  (1, 8, 8, 1), (2, 4, 8, 1)]}
SLOTS, INPUT, OUTPUT = 8, 1000, 500
MEMORY = 4_000_000_000_000


def count(c, shape, bits):
    """The bytes of weights and of one token of the cache on a device."""
    tp, _, ep, moe_tp = shape
    d, layers, heads = (c["hidden_size"], c["num_hidden_layers"],
                        c["num_attention_heads"])
    latent, oss = "kv_lora_rank" in c, c["model_type"] == "gpt_oss"
    experts = (c.get("num_experts") or c.get("num_local_experts") or
               c.get("n_routed_experts") or 0)
    dense = layers if not experts else c.get("first_k_dense_replace", 0)
    wide, plain = 0, 0  # numbers in the format of the weights, and in bfloat16
    if latent:
        q, kv, rope = c["q_lora_rank"], c["kv_lora_rank"], c["qk_rope_head_dim"]
        nope, value = c["qk_nope_head_dim"], c["v_head_dim"]
        mine = heads // tp
        wide += layers * (d * (q + kv + rope) + q * mine * (nope + rope) +
                          kv * mine * (nope + value) + mine * value * d)
        plain += layers * (q + kv)
        token = layers * (kv + rope) * 2
    else:
        size = c.get("head_dim") or d // heads
        mine, pairs = heads // tp, max(c["num_key_value_heads"] // tp, 1)
        wide += layers * d * size * (2 * mine + 2 * pairs)
        token = layers * 2 * pairs * size * 2
        if oss:
            plain += layers * (size * (mine + 2 * pairs) + d + mine)
        if c["model_type"].startswith("qwen3"):
            plain += layers * 2 * size
        if c["model_type"] == "minimax_m2":
            plain += layers * size * (mine + pairs)
    wide += dense * 3 * d * c["intermediate_size"] // tp
    if experts:
        inner = c.get("moe_intermediate_size") or c["intermediate_size"]
        own = experts // ep
        wide += (layers - dense) * own * 3 * d * inner // moe_tp
        plain += (layers - dense) * d * experts
        wide += (layers - dense) * 3 * d * inner // tp * \
            c.get("n_shared_experts", 0)
        if oss:
            plain += layers * (experts + own * (2 * inner // moe_tp + d))
    plain += (2 * layers + 1) * d
    tables = 1 if c.get("tie_word_embeddings") else 2
    plain += tables * c["vocab_size"] * d // tp
    window = c["sliding_window"] if oss else None
    return wide * Fraction(bits, 8) + 2 * plain, token, window


class ServingCounts(unittest.TestCase):
    def test_bytes_and_slots_of_12_models_6_layouts_and_4_formats(self):
        self.assertEqual(len(MODELS), 12)
        with tempfile.TemporaryDirectory() as path:
            folder = Folder(path)
            for name in MODELS:
                self.layouts_of(name, folder)

    def layouts_of(self, name, folder):
        sizes = config(name)
        mixture = any("expert" in key for key in sizes)
        for shape, kind in itertools.product(LAYOUTS[mixture], BITS):
            with self.subTest(name=name, shape=shape, kind=kind):
                done = run("cost", "--mode", "decode",
                           *folder.inputs(name, shape), "--served-dtype", kind,
                           "--fill", "context", "--slots", SLOTS, "--osl",
                           OUTPUT, "--memory", str(MEMORY), "--format", "json")
                self.assertEqual(done.rc, 0, done)
                self.same(done.json(), count(sizes, shape, BITS[kind]), shape)
                done = run("cost", "--mode", "decode",
                           *folder.inputs(name, shape), "--served-dtype", kind,
                           "--fill", "slots", "--isl", INPUT, "--osl", OUTPUT,
                           "--memory", str(MEMORY), "--format", "json")
                self.slots(done.json(), count(sizes, shape, BITS[kind]), shape)

    @staticmethod
    def cache(length, token, window):
        if window is None:
            return length * token
        return (length + min(length, window)) * token // 2

    def room(self, weights):
        return MEMORY - MEMORY // 10 - 2_000_000_000 - math.ceil(weights)

    def same(self, report, counted, shape):
        weights, token, window = counted
        self.assertEqual(report["memory"]["weights"], math.ceil(weights))
        self.assertEqual(report["attention_ranks"], shape[1])
        each = -(-SLOTS // shape[1])
        longest = report["fits"]["tokens_of_request"]
        room = self.room(weights)
        self.assertLessEqual(each * self.cache(longest, token, window), room)
        if longest < 2**30:
            self.assertGreater(each * self.cache(longest + 1, token, window),
                               room)
        self.assertEqual(report["isl"], longest - OUTPUT)

    def slots(self, report, counted, shape):
        weights, token, window = counted
        room = self.room(weights)
        full = self.cache(INPUT + OUTPUT, token, window)
        self.assertEqual(report["memory"]["cache_of_request"], full)
        self.assertEqual(report["memory"]["cache_of_token"],
                         token if window is None else token // 2)
        self.assertEqual(report["slots"], room // full * shape[1])
        mean = self.cache(INPUT + OUTPUT * 3 // 5, token, window)
        self.assertEqual(report["fits"]["mean_length"],
                         room // mean * shape[1])


if __name__ == "__main__":
    unittest.main()
