"""Thirty correct trees of the kinds of structure that lints report elsewhere: scales
that follow their weights, reordered inputs with complete scales, towers whose heads
divide, gates that are split with their heads, second stacks of experts, experts that
files store transposed, linear attention, and adapters. None has a finding."""

import json
import os
import re
import tempfile
import unittest

from driver import Case, run


def block(at, heads, size, kv, width, inner, words, dtype="BF16"):
    """A layer of attention and of a feed-forward block, by the words of its names."""
    q, k, v, o, gate, up, down = words
    return {f"{at}.{q}.weight": ([heads * size, width], dtype),
            f"{at}.{k}.weight": ([kv * size, width], dtype),
            f"{at}.{v}.weight": ([kv * size, width], dtype),
            f"{at}.{o}.weight": ([width, heads * size], dtype),
            f"{at}.{gate}.weight": ([inner, width], dtype),
            f"{at}.{up}.weight": ([inner, width], dtype),
            f"{at}.{down}.weight": ([width, inner], dtype)}


LLAMA = ("self_attn.q_proj", "self_attn.k_proj", "self_attn.v_proj",
         "self_attn.o_proj", "mlp.gate_proj", "mlp.up_proj", "mlp.down_proj")
LLAMA_RULES = [(r"(q|k|v|gate|up)_proj\.weight$", ["tp", None]),
               (r"(o|down)_proj\.weight$", [None, "tp"]),
               (r"norm\.weight$", []),
               (r"(embed_tokens|lm_head)\.weight$", ["tp", None])]


def llama(heads, size, kv, width, inner, layers=2, vocabulary=1024):
    tree = {"model.embed_tokens.weight": ([vocabulary, width], "BF16"),
            "model.norm.weight": ([width], "BF16"),
            "lm_head.weight": ([vocabulary, width], "BF16")}
    for i in range(layers):
        at = f"model.layers.{i}"
        tree.update(block(at, heads, size, kv, width, inner, LLAMA))
        tree[f"{at}.input_layernorm.weight"] = ([width], "BF16")
        tree[f"{at}.post_attention_layernorm.weight"] = ([width], "BF16")
    config = {"model_type": "llama", "hidden_size": width,
              "intermediate_size": inner, "num_attention_heads": heads,
              "num_key_value_heads": kv, "head_dim": size,
              "num_hidden_layers": layers, "vocab_size": vocabulary,
              "torch_dtype": "bfloat16"}
    return tree, config


def plain(tp, *sizes):
    tree, config = llama(*sizes)
    return f"tp:{tp}", tree, LLAMA_RULES, config


def with_scales(name, blocked, dtype, scale):
    """A Llama whose projections have a scale for each block of inputs."""
    tree, config = llama(8, 64, 4, 512, 1536)
    for weight, (shape, _) in list(tree.items()):
        if "_proj" not in weight:
            continue
        tree[weight] = (shape, dtype)
        rows, columns = shape
        tree[weight.replace("weight", name)] = (
            [rows // blocked[0], columns // blocked[1]], scale)
    rules = [(rf"(q|k|v|gate|up)_proj\.{name}$", ["tp", None]),
             (rf"(o|down)_proj\.{name}$", [None, "tp"]), *LLAMA_RULES]
    return "tp:2", tree, rules, None


def gptq(reordered, group, heads):
    """Weights of GPTQ, [inputs / 8, outputs]: with act-order every device of a row
    split needs the scales of all groups."""
    tree, config = llama(heads, 64, heads, heads * 64, 1536)
    config["quantization_config"] = {"quant_method": "gptq", "bits": 4,
                                     "group_size": group, "desc_act": reordered}
    for weight, (shape, _) in list(tree.items()):
        if "_proj" not in weight:
            continue
        del tree[weight]
        out, into = shape
        at = weight.removesuffix("weight")
        tree[at + "qweight"] = ([into // 8, out], "I32")
        tree[at + "qzeros"] = ([into // group, out // 8], "I32")
        tree[at + "scales"] = ([into // group, out], "F16")
        tree[at + "g_idx"] = ([into], "I32")
    whole = [] if reordered else ["tp", None]
    rules = [(r"(q|k|v|gate|up)_proj\.(qweight|qzeros|scales)$", [None, "tp"]),
             (r"(q|k|v|gate|up)_proj\.g_idx$", []),
             (r"(o|down)_proj\.qweight$", ["tp", None]),
             (r"(o|down)_proj\.(qzeros|scales)$", whole),
             (r"(o|down)_proj\.g_idx$", ["tp"]), *LLAMA_RULES]
    return "tp:2", tree, rules, config


def tower(prefix, heads, size, words, tp, kind):
    """A Llama with a tower whose heads the axis divides."""
    tree, config = llama(16, 64, 8, 1024, 2048)
    width = heads * size
    for i in range(2):
        at = f"{prefix}.{i}"
        tree.update({f"{at}.{words[n]}.weight": ([width, width], "BF16")
                     for n in range(4)})
        tree[f"{at}.{words[4]}.weight"] = ([4 * width, width], "BF16")
        tree[f"{at}.{words[5]}.weight"] = ([width, 4 * width], "BF16")
    out = "|".join(word.replace(".", r"\.") for word in (*words[:3], words[4]))
    back = "|".join(word.replace(".", r"\.") for word in (words[3], words[5]))
    rules = [(rf"{prefix}\.\d+\.({out})\.weight$", ["tp", None]),
             (rf"{prefix}\.\d+\.({back})\.weight$", [None, "tp"]), *LLAMA_RULES]
    outer = {"model_type": "llava", "text_config": config,
             f"{kind}_config": {"hidden_size": width, "num_hidden_layers": 2,
                                "num_attention_heads": heads}}
    return f"tp:{tp}", tree, rules, outer


def gate(name, shape, spec, tp, heads=16):
    """A Llama with a parameter that has numbers for each head."""
    tree, config = llama(heads, 64, heads // 2, 1024, 2048)
    for i in range(2):
        tree[f"model.layers.{i}.self_attn.{name}"] = (
            [heads if n == "H" else n for n in shape], "BF16")
    rules = [(rf"self_attn\.{name}$".replace(".weight", r"\.weight"), spec),
             *LLAMA_RULES]
    return f"tp:{tp}", tree, rules, config


def experts(prefix, count, inner, width, ep, words=LLAMA):
    """Layers with fused experts, and one more stack below another prefix."""
    tree = {}
    for at in ("model.layers.0", "model.layers.1", prefix):
        tree.update(block(at, 8, 64, 8, width, 4 * width, words))
        tree[f"{at}.mlp.experts.gate_up_proj"] = ([count, width, 2 * inner], "BF16")
        tree[f"{at}.mlp.experts.down_proj"] = ([count, inner, width], "BF16")
        tree[f"{at}.mlp.gate.weight"] = ([count, width], "BF16")
    rules = [(r"experts\.(gate_up_proj|down_proj)$", ["ep", None, None]),
             (r"mlp\.gate\.weight$", []),
             (r"\.weight$", [None, "ep"])]
    return f"ep:{ep}", tree, rules, None


def transposed(count, width, inner, tp):
    """Experts as published files of Qwen3-VL-MoE store them."""
    tree = {}
    for i in range(2):
        at = f"model.language_model.layers.{i}"
        tree.update({f"{at}.self_attn.q_proj.weight": ([8 * 64, width], "BF16"),
                     f"{at}.self_attn.k_proj.weight": ([8 * 64, width], "BF16"),
                     f"{at}.self_attn.v_proj.weight": ([8 * 64, width], "BF16"),
                     f"{at}.self_attn.o_proj.weight": ([width, 8 * 64], "BF16"),
                     f"{at}.mlp.experts.gate_up_proj":
                         ([count, width, 2 * inner], "BF16"),
                     f"{at}.mlp.experts.down_proj": ([count, inner, width], "BF16"),
                     f"{at}.mlp.gate.weight": ([count, width], "BF16")})
    rules = [(r"experts\.gate_up_proj$", [None, None, "tp"], [None, None, 2]),
             (r"experts\.down_proj$", [None, "tp", None]),
             (r"mlp\.gate\.weight$", []), *LLAMA_RULES]
    return f"tp:{tp}", tree, rules, None


def adapters(rank, layers, modules, width):
    """PEFT's adapters of a Llama, each split with the weight that it changes."""
    base, config = llama(8, 64, 4, width, 2 * width, layers)
    tree = {}
    for name, one in base.items():
        at = name.removesuffix(".weight")
        if at.rpartition(".")[2] not in modules:
            tree["base_model.model." + name] = one
            continue
        (out, into), _ = one
        tree[f"base_model.model.{at}.base_layer.weight"] = one
        tree[f"base_model.model.{at}.lora_A.default.weight"] = ([rank, into], "BF16")
        tree[f"base_model.model.{at}.lora_B.default.weight"] = ([out, rank], "BF16")
    rules = [(r"(q|k|v|gate|up)_proj\.lora_A\.default\.weight$", []),
             (r"(q|k|v|gate|up)_proj\.lora_B\.default\.weight$", ["tp", None]),
             (r"(o|down)_proj\.lora_A\.default\.weight$", [None, "tp"]),
             (r"(o|down)_proj\.lora_B\.default\.weight$", []),
             (r"(q|k|v|gate|up)_proj(\.base_layer)?\.weight$", ["tp", None]),
             (r"(o|down)_proj(\.base_layer)?\.weight$", [None, "tp"]),
             *LLAMA_RULES[2:]]
    return "tp:2", tree, rules, config


CLIP = ("self_attn.q_proj", "self_attn.k_proj", "self_attn.v_proj",
        "self_attn.out_proj", "mlp.fc1", "mlp.fc2")
VIT = ("attn.query", "attn.key", "attn.value", "attn.proj", "mlp.up", "mlp.down")
TREES = {
    "fp8 blocks": with_scales("weight_scale_inv", (128, 128), "F8_E4M3", "F32"),
    "fp8 blocks of 64": with_scales("weight_scale_inv", (64, 64), "F8_E4M3", "F32"),
    "mxfp8": with_scales("weight_scale", (1, 32), "F8_E4M3", "U8"),
    "nvfp4": with_scales("weight_scale", (1, 16), "F8_E4M3", "F8_E4M3"),
    "groups of 128": with_scales("weight_scale", (1, 128), "I8", "BF16"),
    "act-order": gptq(True, 64, 8),
    "act-order, wider groups": gptq(True, 128, 16),
    "no act-order": gptq(False, 64, 8),
    "clip tower": tower("vision_tower.encoder.layers", 16, 64, CLIP, 8, "vision"),
    "audio tower": tower("audio_tower.layers", 8, 48, CLIP, 4, "audio"),
    "vit tower": tower("visual.blocks", 16, 80, VIT, 8, "vision"),
    "small tower": tower("model.vision_model.layers", 12, 32, CLIP, 4, "vision"),
    "gate of a head": gate("g_proj.weight", ["H", 1024], ["tp", None], 8),
    "logits of a gate": gate("to_gate_logits.weight", ["H", 1024], ["tp", None], 4),
    "sinks": gate("sinks", ["H"], ["tp"], 8),
    "slopes": gate("alibi_slopes", ["H"], ["tp"], 2, 8),
    "relative positions": gate("relative_attention_bias.weight", [32, "H"],
                               [None, "tp"], 8),
    "mtp": experts("mtp.layers.0", 8, 256, 512, 4),
    "draft": experts("draft.layers.0", 16, 128, 512, 8),
    "nextn": experts("model.nextn.0", 4, 512, 1024, 2),
    "more experts": experts("mtp.layers.0", 64, 128, 512, 8),
    "a gate that is no router": experts("encoder.block.0", 8, 128, 768, 4, (
        "attn.query", "attn.key", "attn.value", "attn.out", "ffn.gate", "ffn.up",
        "ffn.down")),
    "transposed experts": transposed(8, 512, 256, 4),
    "transposed, many": transposed(64, 1024, 384, 4),
    "transposed, few": transposed(4, 512, 768, 2),
    "adapters of q and v": adapters(8, 2, ("q_proj", "v_proj"), 512),
    "adapters of all": adapters(16, 4, ("q_proj", "k_proj", "v_proj", "o_proj",
                                        "gate_proj", "up_proj", "down_proj"), 512),
    "adapters of the mlp": adapters(4, 3, ("up_proj", "down_proj"), 1024),
    "adapters of rank 64": adapters(64, 2, ("o_proj", "gate_proj"), 512),
    "plain": plain(4, 8, 128, 4, 1024, 4096),
    "plain, many heads": plain(8, 32, 64, 8, 2048, 4096),
}


# The same trees with one mistake: the code of its finding, the tree, and the pattern
# whose rule has another spec.
MISTAKES = [("SHD212", "mxfp8", "weight_scale", []),
            ("SHD212", "groups of 128", "weight_scale", []),
            ("SHD254", "act-order", "qzeros", ["tp", None]),
            ("SHD231", "gate of a head", "g_proj", []),
            ("SHD231", "slopes", "alibi_slopes", [])]


def is_used(rule, tree, rules):
    """Whether the rule is the first of some name: one that is not has a finding."""
    return any(next((one for one in rules if re.search(one[0], name)), None) is rule
               for name in tree)


def findings(folder, mesh, tree, rules, config):
    """The codes and the messages of all warnings and errors."""
    def write(name, value):
        path = os.path.join(folder, name)
        with open(path, "w", encoding="utf-8") as file:
            json.dump(value, file)
        return path
    manifest = write("m.json", {
        "schema": "shardc.manifest/v1", "separator": ".", "params": {
            name: {"shape": shape, "dtype": dtype}
            for name, (shape, dtype) in tree.items()}})
    written = write("r.yaml", {"version": 1, "separator": ".", "rules": [
        {"match": rule[0], "spec": rule[1],
         **({"parts": rule[2]} if len(rule) > 2 else {})}
        for rule in rules if is_used(rule, tree, rules)]})
    model = ["--model", write("c.json", config)] if config else []
    got = run("check", "--no-project", "--mesh", mesh, "--rules", written,
              "--manifest", manifest, *model, "--format", "json")
    return [(one["code"], one["message"][:300]) for one in json.loads(got.out)
            if one["level"] in ("warning", "error")]


class RightStructure(Case):
    def test_correct_trees_have_no_finding(self):
        self.assertGreaterEqual(len(TREES), 30)
        for title, target in TREES.items():
            with self.subTest(title), tempfile.TemporaryDirectory() as folder:
                self.assertEqual(findings(folder, *target), [])

    def test_a_mistake_in_one_of_them_has_one(self):
        for code, title, word, spec in MISTAKES:
            mesh, tree, rules, config = TREES[title]
            wrong = [(rule[0], spec) if word in rule[0] and not (
                code in ("SHD212", "SHD254") and "down" not in rule[0]) else rule
                for rule in rules]
            with self.subTest(title), tempfile.TemporaryDirectory() as folder:
                self.assertIn(code, [one for one, _ in findings(
                    folder, mesh, tree, wrong, config)])


if __name__ == "__main__":
    unittest.main()
