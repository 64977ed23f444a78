"""Correct trees of the kinds of right_structure_test.py, with drawn sizes and with the
words of several libraries: none has a finding. SHARDC_CASES is the number of trees, and
SHARDC_SEED selects others."""

import os
import random
import re
import tempfile
import unittest

from driver import Case
from right_structure_test import block, findings

TREES = int(os.environ.get("SHARDC_CASES", "42"))
SEED = int(os.environ.get("SHARDC_SEED", "89"))

# Query, key, value, output, gate, up and down.
LLAMA = ("self_attn.q_proj", "self_attn.k_proj", "self_attn.v_proj",
         "self_attn.o_proj", "mlp.gate_proj", "mlp.up_proj", "mlp.down_proj")
WORDS = [LLAMA,
         ("attention.wq", "attention.wk", "attention.wv", "attention.wo",
          "feed_forward.w1", "feed_forward.w3", "feed_forward.w2"),
         ("attn.query", "attn.key", "attn.value", "attn.out", "ffn.gate", "ffn.up",
          "ffn.down"),
         ("attn.to_q", "attn.to_k", "attn.to_v", "attn.to_out", "ff.w1", "ff.w3",
          "ff.w2"),
         ("mixer.q_proj", "mixer.k_proj", "mixer.v_proj", "mixer.o_proj",
          "mlp.gate_proj", "mlp.up_proj", "mlp.down_proj")]
ROOTS = ["model.layers", "net.blocks", "decoder.layer", "h", "transformer.h",
         "body.stack"]


class Model:
    """A language model with drawn words and sizes."""

    def __init__(self, rng, words=None, layers=2):
        self.rng, self.words, self.layers = rng, words or rng.choice(WORDS), layers
        self.root = rng.choice(ROOTS)
        self.size = rng.choice([32, 48, 64, 80, 96, 128])
        self.kv = rng.choice([2, 4, 8])
        self.heads = self.kv * rng.choice([1, 2, 3, 4])
        self.width = rng.choice([256, 384, 512, 768, 1024])
        self.inner = rng.choice([2, 3, 4]) * self.width
        self.tree = {}
        for at in self.paths():
            self.tree.update(block(at, self.heads, self.size, self.kv, self.width,
                                   self.inner, self.words))
            for norm in ("norm1", "norm2"):
                self.tree[f"{at}.{norm}.weight"] = ([self.width], "BF16")
        self.config = {
            "model_type": "llama", "hidden_size": self.width,
            "intermediate_size": self.inner, "num_attention_heads": self.heads,
            "num_key_value_heads": self.kv, "head_dim": self.size,
            "num_hidden_layers": layers, "vocab_size": 1024}
        self.columns = self.pattern(self.words[:3] + self.words[4:6])
        self.rows = self.pattern((self.words[3], self.words[6]))

    def paths(self):
        return [f"{self.root}.{layer}" for layer in range(self.layers)]

    @staticmethod
    def pattern(words):
        return "(" + "|".join(re.escape(one.partition(".")[2]) for one in words) + ")"

    def rules(self, leaf=r"\.weight$"):
        return [(self.columns + leaf, ["tp", None]), (self.rows + leaf, [None, "tp"]),
                (r"norm\d\.weight$", [])]

    def matrices(self):
        return [(name, *shape) for name, (shape, _) in self.tree.items()
                if len(shape) == 2]

    def mesh(self, *counts):
        """An axis that divides the KV heads and these counts."""
        sizes = [size for size in (2, 4, 8)
                 if all(count % size == 0 for count in (self.kv, *counts))]
        return f"tp:{self.rng.choice(sizes)}" if sizes else None


def scaled(rng):
    model = Model(rng)
    rows, columns, name, dtype, scale = rng.choice([
        (32, 32, "weight_scale_inv", "F8_E4M3", "F32"),
        (1, 32, "weight_scale", "F8_E4M3", "U8"),
        (1, 16, "weight_scale", "F8_E4M3", "F8_E4M3"),
        (1, 64, "weight_scale", "I8", "BF16")])
    mesh = model.mesh()
    axis = int(mesh.partition(":")[2])
    for weight, out, into in model.matrices():
        if out % (rows * axis) or into % (columns * axis):
            return None
        model.tree[weight] = ([out, into], dtype)
        model.tree[weight.replace("weight", name)] = (
            [out // rows, into // columns], scale)
    return mesh, model.tree, model.rules(rf"\.(weight|{name})$"), None


def gptq(rng):
    model, group = Model(rng), rng.choice([32, 64, 128])
    reordered = rng.random() < 0.5
    for weight, out, into in model.matrices():
        if into % (2 * group):
            return None
        del model.tree[weight]
        at = weight.removesuffix("weight")
        model.tree[at + "qweight"] = ([into // 8, out], "I32")
        model.tree[at + "qzeros"] = ([into // group, out // 8], "I32")
        model.tree[at + "scales"] = ([into // group, out], "F16")
        model.tree[at + "g_idx"] = ([into], "I32")
    model.config["quantization_config"] = {
        "quant_method": "gptq", "bits": 4, "group_size": group, "desc_act": reordered}
    return "tp:2", model.tree, [
        (model.columns + r"\.(qweight|qzeros|scales)$", [None, "tp"]),
        (model.columns + r"\.g_idx$", []), (model.rows + r"\.qweight$", ["tp", None]),
        (model.rows + r"\.(qzeros|scales)$", [] if reordered else ["tp", None]),
        (model.rows + r"\.g_idx$", ["tp"]), model.rules()[-1]], model.config


def tower(rng):
    model = Model(rng, LLAMA)
    heads, size = rng.choice([8, 12, 16, 20, 24]), rng.choice([32, 48, 64, 72])
    prefix, kind = rng.choice([
        ("vision_tower.encoder.layers", "vision"), ("visual.blocks", "vision"),
        ("audio_tower.layers", "audio"), ("eyes.rows", "vision")])
    width = heads * size
    for layer in range(2):
        at = f"{prefix}.{layer}"
        for name in ("query", "key", "value", "proj"):
            model.tree[f"{at}.attn.{name}.weight"] = ([width, width], "BF16")
        model.tree[f"{at}.mlp.fc1.weight"] = ([4 * width, width], "BF16")
        model.tree[f"{at}.mlp.fc2.weight"] = ([width, 4 * width], "BF16")
    return model.mesh(heads), model.tree, [
        (r"(query|key|value|fc1)\.weight$", ["tp", None]),
        (r"(attn\.proj|fc2)\.weight$", [None, "tp"]), *model.rules()], {
            "model_type": "llava", "text_config": model.config, f"{kind}_config": {
                "hidden_size": width, "num_hidden_layers": 2,
                "num_attention_heads": heads}}


def by_head(rng):
    """Numbers for each head, split with the heads."""
    model = Model(rng)
    heads, width = model.heads, model.width
    if heads == model.size:
        return None
    name, shape, spec = rng.choice([
        ("valve.weight", [heads, width], ["tp", None]),
        ("head_gate.weight", [width, heads], [None, "tp"]),
        ("alibi_slopes", [heads], ["tp"]), ("sinks", [heads], ["tp"]),
        ("gate.bias", [heads], ["tp"]),
        ("relative_attention_bias.weight", [32, heads], [None, "tp"]),
        ("relative_position_bias_table", [225, heads], [None, "tp"])])
    attention = model.words[0].partition(".")[0]
    for at in model.paths():
        model.tree[f"{at}.{attention}.{name}"] = (shape, "BF16")
    return model.mesh(), model.tree, [
        (re.escape(name) + "$", spec), *model.rules()], model.config


def experts(rng):
    words, root = rng.choice(WORDS), rng.choice(ROOTS)
    count, width = rng.choice([4, 8, 16, 32]), rng.choice([256, 512, 768])
    inner = rng.choice([64, 128, 192, 384])
    second = rng.choice(["mtp.layers.0", "draft.layers.0", "model.nextn.0",
                         "encoder.block.0", "tail.0"])
    box = rng.choice(["mlp", "moe", "block_sparse_moe"])
    tree = {}
    for at in (root + ".0", root + ".1", second):
        tree.update(block(at, 8, 64, 8, width, 4 * width, words))
        tree[f"{at}.{box}.experts.gate_up_proj"] = ([count, width, 2 * inner], "BF16")
        tree[f"{at}.{box}.experts.down_proj"] = ([count, inner, width], "BF16")
        tree[f"{at}.{box}.router.weight"] = ([count, width], "BF16")
    return f"ep:{rng.choice([2, 4])}", tree, [
        (r"experts\.(gate_up_proj|down_proj)$", ["ep", None, None]),
        (r"router\.weight$", []), (r"\.weight$", [None, "ep"])], None


def transposed(rng):
    model, count = Model(rng, LLAMA), rng.choice([4, 8, 16])
    inner = rng.choice([128, 256, 384])
    for name in [name for name in model.tree if ".mlp." in name]:
        del model.tree[name]
    for at in model.paths():
        model.tree[f"{at}.mlp.experts.gate_up_proj"] = (
            [count, model.width, 2 * inner], "BF16")
        model.tree[f"{at}.mlp.experts.down_proj"] = ([count, inner, model.width],
                                                     "BF16")
        model.tree[f"{at}.mlp.gate.weight"] = ([count, model.width], "BF16")
    return model.mesh(), model.tree, [
        (r"experts\.gate_up_proj$", [None, None, "tp"], [None, None, 2]),
        (r"experts\.down_proj$", [None, "tp", None]), (r"mlp\.gate\.weight$", []),
        *model.rules()], None


def adapters(rng):
    model = Model(rng, layers=rng.choice([2, 3, 5]))
    rank, prefix = rng.choice([4, 8, 16, 32]), rng.choice(
        ["base_model.model.", "net.", ""])
    down, up = rng.choice([("lora_A.default", "lora_B.default"), ("lora_a", "lora_b"),
                           ("lora_A", "lora_B")])
    adapted = tuple(rng.sample(model.words, rng.randrange(1, 6)))
    tree = {}
    for name, one in model.tree.items():
        at = name.removesuffix(".weight")
        if not at.endswith(adapted):
            tree[prefix + name] = one
            continue
        out, into = one[0]
        tree[f"{prefix}{at}.base_layer.weight"] = one
        tree[f"{prefix}{at}.{down}.weight"] = ([rank, into], "BF16")
        tree[f"{prefix}{at}.{up}.weight"] = ([out, rank], "BF16")
    return model.mesh(), tree, [
        (rf"{model.columns}\.{re.escape(down)}\.weight$", []),
        (rf"{model.columns}\.{re.escape(up)}\.weight$", ["tp", None]),
        (rf"{model.rows}\.{re.escape(down)}\.weight$", [None, "tp"]),
        (rf"{model.rows}\.{re.escape(up)}\.weight$", []),
        *model.rules(r"(\.base_layer)?\.weight$")], model.config


KINDS = (scaled, gptq, tower, by_head, experts, transposed, adapters)


class DrawnStructure(Case):
    def test_correct_trees_have_no_finding(self):
        rng, judged = random.Random(SEED), 0
        while judged < TREES:
            kind = KINDS[judged % len(KINDS)]
            target = kind(rng)
            if target is None or target[0] is None:
                continue
            judged += 1
            with self.subTest(kind=kind.__name__, number=judged, seed=SEED), \
                    tempfile.TemporaryDirectory() as folder:
                self.assertEqual(findings(folder, *target), [])


if __name__ == "__main__":
    unittest.main()
