"""Kinds of structure of which a command once stated something wrong: for each kind the
input that was reported, and at least three more under other names and with other sizes.
What is stated about each, and what is not, is one row of the table CASES."""

import json
import os
import re
import tempfile
import unittest

from driver import TESTDATA, Case, run

REPORTS = os.path.join(TESTDATA, "reports")


def tree(*lines):
    """A manifest of lines such as "layers.*.up.weight BF16 64 32", where `*` stands for
    two layers."""
    params = {}
    for line in lines:
        name, dtype, *shape = line.split()
        for layer in "01" if "*" in name else "0":
            params[name.replace("*", layer)] = {
                "shape": [int(size) for size in shape], "dtype": dtype}
    return {"schema": "shardc.manifest/v1", "separator": ".", "params": params}


def rules(*lines, **settings):
    """Rules of lines such as "up[.]weight$ [tp, null]", above a catch-all."""
    listed = []
    for line in lines:
        match, _, spec = line.partition(" ")
        listed.append({"match": match, "spec": [
            None if axis in ("null", "") else axis
            for axis in spec.strip("[]").split(", ")] if spec != "[]" else []})
    return {"version": 1, "separator": ".", **settings,
            "rules": [*listed, {"match": ".*", "spec": []}]}


class Checked:
    """A target for `check`: the codes that it has about which parameters (a part of
    their name), and the codes that it does not have at all."""

    def __init__(self, mesh, manifest, ruleset, found=(), absent=(), model=None):
        self.mesh, self.manifest, self.ruleset = mesh, manifest, ruleset
        self.found, self.absent, self.model = found, absent, model

    def judge(self, test, write):
        model = ["--model", write("c.json", self.model)] if self.model else []
        got = run("check", "--no-project", "--mesh", self.mesh, "--rules",
                  write("r.yaml", self.ruleset), "--manifest",
                  write("m.json", self.manifest), *model, "--format", "json")
        findings = [(one["code"], one["message"]) for one in json.loads(got.out)]
        for code, name in self.found:
            test.assertTrue(any(code == one and name in message
                                for one, message in findings), (code, name, findings))
        for code in self.absent:
            test.assertNotIn(code, [one for one, _ in findings], findings)


class Ran:
    """A command, its status, patterns that its output has, and those that it lacks.
    Arguments that are no text are written to files."""

    def __init__(self, *arguments, has=(), lacks=(), rc=0):
        self.arguments, self.has, self.lacks, self.rc = arguments, has, lacks, rc

    def judge(self, test, write):
        arguments = [one if isinstance(one, str) else write(f"{number}.json", one)
                     for number, one in enumerate(self.arguments)]
        got = run(*arguments)
        test.assertEqual(got.rc, self.rc, got.err + got.out)
        # Comments are wrapped.
        out = re.sub(r"\s*\n\s*#\s*", " ", got.out + got.err)
        for pattern in self.has:
            test.assertRegex(out, pattern)
        for pattern in self.lacks:
            test.assertNotRegex(out, pattern)


def program(folder, name):
    return os.path.join(REPORTS, folder, name + ".program.json.gz")


def explained(folder, name, *parameter, **expected):
    return Ran("explain", *parameter, "--program", program(folder, name), **expected)


def suggested(folder, name, mesh, **expected):
    return Ran("suggest", "--no-project", "--program", program(folder, name), "--mesh",
               mesh, "-o", "-", **expected)


# ---- Scales along the inputs that a weight is split over

def companion(mesh, weights, split, scales):
    return [Checked(mesh, tree(*weights), rules(split), [("SHD212", one)
                                                         for one in scales]),
            Checked(mesh, tree(*weights), rules(split, *(
                f"{one}$ [null, tp]" if "null, tp" in split else f"{one}$ [tp, null]"
                for one in scales)), absent=["SHD212"])]


# ---- GPTQ with reordered inputs

def act_order(mesh, lines, split, scales, quantised):
    method = quantised.get("quant_method", "")
    kept = {**quantised, "desc_act": False} if method == "gptq" else None
    whole = split.replace("|scales", "").replace("|qzeros", "").replace("_scale", "_no")
    out = [Checked(mesh, tree(*lines), rules(split), [("SHD254", one) for one in scales],
                   model={"quantization_config": quantised}),
           Checked(mesh, tree(*lines), rules(whole), absent=["SHD254", "SHD212"],
                   model={"quantization_config": quantised})]
    if kept:
        out.append(Checked(mesh, tree(*lines), rules(split), absent=["SHD254"],
                           model={"quantization_config": kept}))
    return out


def gptq_lines(at, inputs, outputs, group):
    return [f"{at}.qweight I32 {inputs // 8} {outputs}",
            f"{at}.qzeros I32 {inputs // group} {outputs // 8}",
            f"{at}.scales F16 {inputs // group} {outputs}", f"{at}.g_idx I32 {inputs}"]


GPTQ = {"quant_method": "gptq", "bits": 4, "group_size": 32, "desc_act": True}


# ---- Heads of towers

def llm(root, heads, kv, size, width):
    return [f"{root}.layers.*.self_attn.q_proj.weight BF16 {heads * size} {width}",
            f"{root}.layers.*.self_attn.k_proj.weight BF16 {kv * size} {width}",
            f"{root}.layers.*.self_attn.v_proj.weight BF16 {kv * size} {width}",
            f"{root}.layers.*.self_attn.o_proj.weight BF16 {width} {heads * size}",
            f"{root}.layers.*.mlp.up_proj.weight BF16 {3 * width} {width}",
            f"{root}.layers.*.mlp.down_proj.weight BF16 {width} {3 * width}"]


TOWER_RULES = rules(r"(q|k|v)_proj\.weight$ [tp, null]", r"w?qkv\.weight$ [tp, null]",
                    r"(o_proj|out_proj|attn\.proj|wo)\.weight$ [null, tp]",
                    r"(up_proj|fc1)\.weight$ [tp, null]",
                    r"(down_proj|fc2)\.weight$ [null, tp]")


def text(heads, kv, size, width):
    return {"hidden_size": width, "intermediate_size": 3 * width, "num_hidden_layers": 2,
            "num_attention_heads": heads, "num_key_value_heads": kv, "head_dim": size,
            "vocab_size": 32000}


# ---- Parameters with numbers for each head

def by_head(mesh, heads, size, kv, width, own, words=("q_proj", "k_proj", "v_proj",
                                                       "o_proj"), block="self_attn"):
    q, k, v, o = words
    at = f"layers.*.{block}"
    name = own.split()[0]
    side = own.split()[2:].index(str(heads))
    spec = ["null"] * len(own.split()[2:])
    spec[side] = "tp"
    listed = [f"{q}.weight$ [tp, null]", f"({k}|{v}).weight$ [tp, null]",
              f"{o}.weight$ [null, tp]"]
    lines = [f"{at}.{q}.weight BF16 {heads * size} {width}",
             f"{at}.{k}.weight BF16 {kv * size} {width}",
             f"{at}.{v}.weight BF16 {kv * size} {width}",
             f"{at}.{o}.weight BF16 {width} {heads * size}", f"{at}.{own}"]
    model = {"hidden_size": width, "num_attention_heads": heads, "head_dim": size,
             "num_key_value_heads": kv}
    out = [Checked(mesh, tree(*lines), rules(*listed), [("SHD231", name)], model=model),
           Checked(mesh, tree(*lines), rules(
               *listed, f"{re.escape(name)}$ [{', '.join(spec)}]"),
               absent=["SHD231", "SHD202"], model=model)]
    return [*out, Suggested(mesh, tree(*lines), model)]


class Suggested:
    """Rules that `suggest` writes, about which `check` finds nothing."""

    def __init__(self, mesh, manifest, model=None):
        self.mesh, self.manifest, self.model = mesh, manifest, model

    def judge(self, test, write):
        inputs = ["--mesh", self.mesh, "--manifest", write("m.json", self.manifest)]
        if self.model:
            inputs += ["--model", write("c.json", self.model)]
        path = write("suggested.yaml", "")
        got = run("suggest", "--no-project", *inputs, "-o", path, "--force")
        test.assertEqual(got.rc, 0, got.err)
        got = run("check", "--no-project", *inputs, "--rules", path, "--format", "json")
        test.assertEqual([one["message"] for one in json.loads(got.out)
                          if one["level"] in ("warning", "error")], [])


# ---- A second stack of experts

def second_stack(experts, inner, width, second, mesh="ep:4", layers="model.layers.*"):
    lines = []
    for at in (layers, second):
        lines += [f"{at}.mlp.experts.gate_up_proj BF16 {experts} {2 * inner} {width}",
                  f"{at}.mlp.experts.down_proj BF16 {experts} {width} {inner}",
                  f"{at}.mlp.gate.weight BF16 {experts} {width}"]
    return [Checked(mesh, tree(*lines),
                    rules(r"experts\.(gate_up_proj|down_proj)$ [ep, null, null]"),
                    absent=["SHD224"])]


# ---- Experts that files store transposed

def transposed(experts, hidden, inner, at):
    plan = {f"{at}.gate_up_proj": "packed_colwise", f"{at}.down_proj": "rowwise"}
    name = at.replace("*", "0")
    stored = tree(f"{name}.gate_up_proj BF16 {experts} {hidden} {2 * inner}",
                  f"{name}.down_proj BF16 {experts} {inner} {hidden}")
    return [Ran("import", "hf-tp-plan", plan, "--manifest", stored, "-o", "-",
                has=[r"gate_up_proj\$'\s+spec: \[null, null, tp\]\s+"
                     r"parts: \[null, null, 2\]", r"down_proj\$'\s+spec: \[null, tp\]"])]


# ---- KV heads next to linear attention

def linear_attention(config, mesh="tp:4", **sizes):
    made = {"model_type": "qwen3_5_moe_text", "hidden_size": 2048,
            "num_attention_heads": 16, "num_key_value_heads": 2, "head_dim": 256,
            "num_hidden_layers": 4, "vocab_size": 4096, "moe_intermediate_size": 512,
            "num_experts": 8, "num_experts_per_tok": 2, "intermediate_size": 1024,
            "shared_expert_intermediate_size": 512, "linear_num_key_heads": 16,
            "linear_num_value_heads": 32, "linear_key_head_dim": 128,
            "linear_value_head_dim": 128, "linear_conv_kernel_dim": 4,
            "tie_word_embeddings": False, "rms_norm_eps": 1e-6, "hidden_act": "silu",
            "layer_types": ["linear_attention"] * 3 + ["full_attention"], **config,
            **sizes}
    return [Ran("plan", "--no-project", "--mesh", mesh, "--rules", rules(
        r"self_attn\.(q|k|v)_proj\.weight$ [tp, null]",
        r"self_attn\.o_proj\.weight$ [null, tp]",
        r"linear_attn\.in_proj_(qkv|z|a|b|qkvz|ba)\.weight$ [tp, null]",
        r"linear_attn\.out_proj\.weight$ [null, tp]", kv_replicate=True),
        "--model", made, "-q", "-o", "-")]


# ---- Layers of adapters

def adapters(layers, width, inner, heads, kv, size, rank, root, down, up):
    base = {"self_attn.q_proj": (heads * size, width),
            "self_attn.k_proj": (kv * size, width),
            "self_attn.v_proj": (kv * size, width),
            "self_attn.o_proj": (width, heads * size), "mlp.gate_proj": (inner, width),
            "mlp.up_proj": (inner, width), "mlp.down_proj": (width, inner)}
    lines = [f"{root}model.embed_tokens.weight BF16 512 {width}",
             f"{root}model.norm.weight BF16 {width}",
             f"{root}lm_head.weight BF16 512 {width}"]
    for layer in range(layers):
        at = f"{root}model.layers.{layer}"
        lines += [f"{at}.input_layernorm.weight BF16 {width}",
                  f"{at}.post_attention_layernorm.weight BF16 {width}"]
        for name, (out, into) in base.items():
            lines += [f"{at}.{name}.base_layer.weight BF16 {out} {into}",
                      f"{at}.{name}.{down}.weight BF16 {rank} {into}",
                      f"{at}.{name}.{up}.weight BF16 {out} {rank}"]
    model = {"model_type": "llama", "hidden_size": width, "intermediate_size": inner,
             "num_attention_heads": heads, "num_key_value_heads": kv, "head_dim": size,
             "num_hidden_layers": layers, "vocab_size": 512, "hidden_act": "silu",
             "max_position_embeddings": 4096, "tie_word_embeddings": False}
    split = rules("lora_ []", r"(q|k|v|gate|up)_proj\.base_layer\.weight$ [tp, fsdp]",
                  r"(o|down)_proj\.base_layer\.weight$ [fsdp, tp]")
    step = ["cost", "--no-project", "--mesh", "fsdp:2,tp:2", "--rules", split,
            "--manifest", tree(*lines), "--batch", "4", "--seq", "128", "--memory",
            "8GiB", "--explain"]
    counted = [rf"layer_input +\S+ KiB +{layers} +kept"]
    return [Ran(*step, "--model", model, has=counted, lacks=["not known"]),
            Ran(*step, rc=1, has=[*counted, "not known: the heads", r"activations +-\n",
                                  "total +at least"], lacks=["tokens/s"])]


# ---- Sentences of programs

def mixer(name, width, meshes=("fsdp:2,tp:4", "fsdp:4,tp:2")):
    """Sentences of a mixer that has no heads, no query and no feed-forward block."""
    return [suggested("sentences-of-programs", name, mesh, has=[f"width {width}[;.]"],
                      lacks=["heads", "Query", "Feed-forward", "gate and up",
                             "norm reads", "role"]) for mesh in meshes]


def narrow(name, inward, outward, mesh="fsdp:2,tp:4"):
    return [suggested("narrow-blocks", name, mesh, has=[
        rf"Feed-forward, into its width[^']*'{re.escape(inward)}\$'\s+"
        r"spec: \[\[FSDP, SP\], TP\]",
        rf"Feed-forward, out of its width[^']*'{re.escape(outward)}\$'\s+"
        r"spec: \[TP, \[FSDP, SP\]\]"], lacks=["norm reads"])]


# ---- Classes of Python's patterns beyond ASCII

def unicode_class(pattern, name, other):
    """`name` matches, and `other` does not."""
    at = {"schema": "shardc.manifest/v1", "separator": "/", "params": {
        one: {"shape": [8, 8], "dtype": "F32"} for one in (name, other)}}
    split = {"version": 1, "separator": "/", "rules": [
        {"match": pattern, "spec": ["tp"]}, {"match": ".*", "spec": []}]}
    exact = re.escape(json.dumps(name, ensure_ascii=False))
    plain = re.escape(json.dumps(other, ensure_ascii=False))
    return [Ran("plan", "--no-project", "--mesh", "tp:2", "--rules", split, "--manifest",
                at, "--weight-decay-exclude", pattern, "-q", "-o", "-",
                has=[exact + r': .*"spec": \["tp"\].*"weight_decay": false',
                     plain + r': .*"spec": \[\].*"weight_decay": true'])]


CASES = {
    "companion-on-contracted-dim": {
        "MXFP8 of a diffusion model": [
            Checked("tp:2", tree(
                "transformer_blocks.*.attn.to_out.0.weight F8_E4M3 4096 3072",
                "transformer_blocks.*.attn.to_out.0.weight_scale U8 4096 96",
                "transformer_blocks.*.attn.to_q.weight F8_E4M3 3072 4096",
                "transformer_blocks.*.attn.to_q.weight_scale U8 3072 128",
                "transformer_blocks.*.ff.net.0.proj.weight F8_E4M3 16384 4096",
                "transformer_blocks.*.ff.net.0.proj.weight_scale U8 16384 128",
                "transformer_blocks.*.ff.net.2.weight F8_E4M3 4096 16384",
                "transformer_blocks.*.ff.net.2.weight_scale U8 4096 512"), rules(
                    r"(to_q|net\.0\.proj)\.weight(_scale)?$ [tp, null]",
                    r"(to_out\.0|net\.2)\.weight$ [null, tp]"),
                [("SHD212", "to_out.*.weight_scale"),
                 ("SHD212", "ff.net.*.weight_scale")])],
        "blocks of float8": companion(
            "tp:4", ["tower.*.mix.exit.weight F8_E4M3 768 2048",
                     "tower.*.mix.exit.weight_scale_inv F32 6 16"],
            r"exit\.weight$ [null, tp]", ["exit.weight_scale_inv"]),
        "NVFP4": companion(
            "tp:2", ["cells.*.fold.back.weight U8 512 1024",
                     "cells.*.fold.back.weight_scale F8_E4M3 512 128"],
            r"back\.weight$ [null, tp]", ["back.weight_scale"]),
        "AWQ": companion(
            "tp:8", ["h.*.ffn.shrink.qweight I32 4096 128",
                     "h.*.ffn.shrink.qzeros I32 32 128",
                     "h.*.ffn.shrink.scales F16 32 1024"],
            r"shrink\.qweight$ [tp, null]", ["shrink.qzeros", "shrink.scales"]),
    },
    "act-order": {
        "experts": act_order(
            "tp:2", gptq_lines("model.layers.0.mlp.experts.*.down_proj", 768, 2048, 32),
            r"down_proj\.(qweight|qzeros|scales)$ [tp, null]",
            ["down_proj.qzeros", "down_proj.scales"], GPTQ),
        "dense": act_order(
            "tp:4", gptq_lines("net.*.ffn.leave", 2048, 768, 64),
            r"leave\.(qweight|qzeros|scales)$ [tp, null]",
            ["leave.qzeros", "leave.scales"], {**GPTQ, "group_size": 64}),
        "attention": act_order(
            "tp:2", gptq_lines("decoder.*.attn.out", 1024, 1536, 128),
            r"out\.(qweight|qzeros|scales)$ [tp, null]",
            ["out.qzeros", "out.scales"], {**GPTQ, "group_size": 128}),
        "compressed-tensors": act_order(
            "tp:2", ["rows.*.o_proj.weight_packed I32 768 128",
                     "rows.*.o_proj.weight_scale BF16 768 16",
                     "rows.*.o_proj.weight_g_idx I32 1024"],
            r"o_proj\.weight(_packed|_scale)$ [null, tp]", ["o_proj.weight_scale"],
            {"quant_method": "compressed-tensors", "config_groups": {"group_0": {
                "targets": ["Linear"], "weights": {"num_bits": 4, "group_size": 64,
                                                   "actorder": "group"}}}}),
    },
    "tower-heads": {
        "GLM-4.1V": [Checked("tp:8", tree(
            *llm("model.language_model", 16, 8, 128, 2048),
            "model.visual.blocks.*.attn.qkv.weight BF16 3456 1152",
            "model.visual.blocks.*.attn.proj.weight BF16 1152 1152",
            "model.visual.blocks.*.mlp.fc1.weight BF16 4608 1152",
            "model.visual.blocks.*.mlp.fc2.weight BF16 1152 4608"), TOWER_RULES,
            [("SHD220", "visual.blocks.*.attn.qkv.weight")], model={
                "model_type": "glm4v", "text_config": text(16, 8, 128, 2048),
                "vision_config": {"hidden_size": 1152, "num_heads": 12, "depth": 2,
                                  "intermediate_size": 4608}})],
        "InternVL": [Checked("tp:8", tree(
            *llm("language_model.model", 16, 8, 128, 2048),
            "vision_model.encoder.layers.*.attn.qkv.weight BF16 3456 1152",
            "vision_model.encoder.layers.*.attn.proj.weight BF16 1152 1152"),
            TOWER_RULES, [("SHD220", "vision_model.encoder.layers.*.attn.qkv.weight")],
            model={"model_type": "internvl_chat", "llm_config": text(16, 8, 128, 2048),
                   "vision_config": {"hidden_size": 1152, "num_attention_heads": 12}})],
        "InternVL2-26B": [Checked("tp:16", tree(
            "vision_model.encoder.layers.*.attn.qkv.weight BF16 9600 3200",
            "vision_model.encoder.layers.*.attn.proj.weight BF16 3200 3200",
            "language_model.model.layers.*.attention.wqkv.weight BF16 8192 6144",
            "language_model.model.layers.*.attention.wo.weight BF16 6144 6144"),
            TOWER_RULES, [("SHD220", "vision_model"), ("SHD220", "wqkv")], ["SHD223"],
            model={"model_type": "internvl_chat", "vision_config": {
                "hidden_size": 3200, "num_attention_heads": 25}, "llm_config": {
                    "model_type": "internlm2", "hidden_size": 6144,
                    "num_attention_heads": 48, "num_key_value_heads": 8}})],
        "audio": [Checked("tp:4", tree(
            *llm("language_model.model", 32, 8, 64, 2048),
            "audio_tower.layers.*.self_attn.q_proj.weight BF16 896 896",
            "audio_tower.layers.*.self_attn.k_proj.weight BF16 896 896",
            "audio_tower.layers.*.self_attn.out_proj.weight BF16 896 896"), TOWER_RULES,
            [("SHD220", "audio_tower.layers.*.self_attn.q_proj.weight")], model={
                "model_type": "qwen2_audio", "text_config": text(32, 8, 64, 2048),
                "audio_config": {"d_model": 896, "encoder_attention_heads": 14}})],
        "SigLIP": [Checked("tp:16", tree(
            *llm("model.language_model", 32, 16, 128, 4096),
            "model.vision_tower.vision_model.encoder.layers.*.self_attn.q_proj.weight "
            "BF16 1728 1728"), TOWER_RULES, [("SHD220", "vision_tower")], model={
                "model_type": "gemma3", "text_config": text(32, 16, 128, 4096),
                "vision_config": {"hidden_size": 1728, "num_attention_heads": 24}})],
        "names of no tower": [Checked("tp:8", tree(
            *llm("text.decoder", 16, 16, 64, 1024),
            "seeing.*.attn.wqkv.weight BF16 2880 960",
            "seeing.*.attn.wo.weight BF16 960 960"), TOWER_RULES,
            [("SHD220", "seeing.*.attn.wqkv.weight")], model={
                "model_type": "llava", "text_config": text(16, 16, 64, 1024),
                "vision_config": {"hidden_size": 960, "num_attention_heads": 12}})],
    },
    "per-head-matrix-whole": {
        "Step-3.5": by_head("tp:8", 64, 128, 8, 4096, "g_proj.weight BF16 64 4096"),
        "LTX-2": by_head("tp:2", 32, 128, 32, 4096, "to_gate_logits.weight BF16 32 4096",
                         ("to_q", "to_k", "to_v", "to_out.0"), "attn1"),
        "a bias of a gate": by_head("tp:2", 32, 128, 32, 4096,
                                    "to_gate_logits.bias BF16 32",
                                    ("to_q", "to_k", "to_v", "to_out.0"), "attn1"),
        "a valve": by_head("tp:4", 24, 64, 8, 1536, "valve.weight BF16 24 1536"),
        "stored [in, out]": by_head("tp:2", 12, 96, 12, 1152, "flow.weight BF16 1152 12"),
        "slopes": by_head("tp:8", 16, 64, 16, 1024, "alibi_slopes F32 16"),
        "relative positions": by_head(
            "tp:4", 12, 64, 12, 768, "relative_attention_bias.weight BF16 32 12"),
        "relative positions of windows": by_head(
            "tp:2", 6, 32, 6, 192, "relative_position_bias_table F32 169 6",
            ("query", "key", "value", "proj"), "attn"),
    },
    "mtp-experts-are-layers": {
        "mtp": second_stack(8, 512, 2048, "mtp.layers.0"),
        "draft": second_stack(16, 128, 768, "draft.layers.*", layers="body.*"),
        "nextn": second_stack(4, 96, 512, "model.nextn.0"),
        "an encoder": second_stack(128, 64, 256, "encoder.layers.*", "ep:8"),
        "a stack of one layer": second_stack(32, 192, 640, "tail.block.0", "ep:2"),
    },
    "experts-stored-transposed": {
        "Qwen3-VL-MoE": transposed(128, 2048, 768,
                                   "model.language_model.layers.*.mlp.experts"),
        "as wide as deep": transposed(16, 512, 512, "layers.*.mlp.experts"),
        "other names": transposed(4, 96, 160, "net.*.guild"),
        "narrow experts": transposed(64, 1024, 352, "model.blocks.*.moe.experts"),
    },
    "kv-replicate-and-linear-attention": {
        "Qwen3.5 with experts": linear_attention({}),
        "Qwen3.5, dense": linear_attention(
            {"model_type": "qwen3_5_text"}, linear_num_value_heads=16),
        "Qwen3-Next": linear_attention({"model_type": "qwen3_next"}),
        "one KV head": linear_attention({}, "tp:8", num_key_value_heads=1,
                                        hidden_size=1024, head_dim=128,
                                        linear_num_key_heads=8, linear_num_value_heads=8,
                                        linear_key_head_dim=64, linear_value_head_dim=64),
    },
    "peft-layers": {
        "PEFT": adapters(4, 64, 128, 4, 2, 16, 8, "base_model.model.", "lora_A.default",
                         "lora_B.default"),
        "seven layers": adapters(7, 96, 256, 6, 2, 16, 4, "base_model.model.",
                                 "lora_A.tuned", "lora_B.tuned"),
        "names of one's own": adapters(5, 128, 384, 8, 8, 16, 16, "net.", "lora_a",
                                       "lora_b"),
        "down and up": adapters(3, 192, 512, 6, 2, 32, 2, "", "lora_down", "lora_up"),
    },
    "narrow-mlp": {
        "gated": narrow("gated", "(a|b)", "c"),
        "wide": narrow("wide", "(a|b)", "c"),
        "gated with biases": narrow("gated-bias", "(r0|r1|r2)/(u|v)", "(r0|r1|r2)/d"),
        "a quarter": narrow("gated-quarter", "(r0|r1)/(u|v)", "(r0|r1)/d"),
        "without a gate": narrow("ungated", "(r0|r1)/u", "(r0|r1)/d"),
        "without a gate, with biases": narrow("ungated-bias", "(r0|r1|r2)/u",
                                              "(r0|r1|r2)/d", "fsdp:2,tp:2"),
        "next to attention": narrow("ungated-attention", "(m0|m1)/u", "(m0|m1)/d"),
        "next to a latent": narrow("ungated-latent", "(m0|m1)/u", "(m0|m1)/d"),
    },
    "wrong-sentences": {
        "Mamba-1": mixer("mamba1", 256),
        "Mamba-1 of one layer": mixer("mamba1-one", 160),
        "a wide Mamba-1": mixer("mamba1-wide", 128),
        "Mamba-1 of three layers": mixer("mamba1-three", 192),
        "experts by a sort": [suggested(
            "sentences-of-programs", "moe_sort", "fsdp:2,tp:4",
            has=["although tp 4 divides them"], lacks=["Heads do not divide"])],
        # The layout with the lowest cost divides the experts, and no columns.
        **{f"whole experts on {mesh}": [suggested(
            "sentences-of-programs", "moe_sort", mesh,
            has=[r"Experts, gate and up in one matrix: experts over tp\.",
                 r"Experts, out of the feed-forward width: experts over tp\."],
            lacks=["columns over tp"])]
           for mesh in ("tp:2", "tp:4", "fsdp:2,tp:4", "fsdp:2,tp:8")},
        "whole experts of dense dots": [Ran(
            "suggest", "--no-project", "--program",
            os.path.join(TESTDATA, "programs", "moe_dense.program.json.gz"), "--mesh",
            "tp:2", "-o", "-", lacks=["columns over tp"],
            has=["Experts, into the feed-forward width: experts over tp"])],
        **{name: [suggested("sentences-of-programs", name, "fsdp:2,tp:4",
                            has=["Projections to heads: heads over tp"],
                            lacks=["Heads do not divide", "Router"])]
           for name in ("moe-sort-eight", "moe-sort-wide", "moe-sort-two")},
    },
    "facts-missing-tie-through-scatter": {
        "lora of litgpt": [explained(
            "scattered-adapter", "query-value", "transformer.h.0.attn.qkv.lora_B",
            has=[r"kv_heads 2 x group 3 x \(head_dim 4 \| head_dim 4\) \| "
                 r"kv_heads 2 x head_dim 8", "tied to transformer.h.0.attn.qkv.linear",
                 "transformer.h.0.attn.proj.linear.weight dimension 1"])],
        "wide": [explained("scattered-adapter", "query-value-wide", "l.0.b",
                           has=[r"kv_heads 4 x group 2 x head_dim 16 \| "
                                r"kv_heads 4 x head_dim 16", r"tied to l\.0\.linear"])],
        "key and value": [explained(
            "scattered-adapter", "key-value", "l.1.b",
            has=[r"kv_heads 2 x head_dim 16 \| kv_heads 2 x head_dim 16",
                 r"tied to l\.1\.linear"])],
        "value": [explained("scattered-adapter", "value", "l.0.b",
                            has=["kv_heads 3 x head_dim 16", r"tied to l\.0\.linear"])],
    },
    "internal-error-facts": {
        "CANINE": [Ran("explain", "--program", os.path.join(
            REPORTS, "canine-parts", "program.json.gz"),
            has=[r"stream 6 \| stream 6"], lacks=["internal error"])],
        **{f"{name} hashes": [
            explained("canine-parts", name, has=[r"stream \d+ \| stream"],
                      lacks=["internal error", "unknown"]),
            suggested("canine-parts", name, "fsdp:2,tp:2", has=[f"width {width}[;.]"],
                      lacks=["gate and up"])]
           for name, width in (("four", 32), ("three", 48), ("five", 30))},
    },
    "unicode-w-decay": {
        "a letter": unicode_class(r"\w+/kernel", "é/kernel", "./kernel"),
        "a digit": unicode_class(r"layer\d/weight", "layer٣/weight", "layer²/weight"),
        "a blank": unicode_class(r"a\sb", "a\u3000b", "a_b"),
        "an edge": unicode_class(r"norm\b", "norm-日", "norm日"),
    },
}


class ReportedKinds(Case):
    def test_each_kind_has_its_report_and_three_more(self):
        self.assertEqual(len(CASES), 13)
        for folder, cases in CASES.items():
            self.assertGreaterEqual(len(cases), 4, folder)

    def test_what_is_stated_about_each(self):
        for folder, cases in CASES.items():
            for title, judged in cases.items():
                for number, one in enumerate(judged):
                    with self.subTest(folder, title=title, number=number), \
                            tempfile.TemporaryDirectory() as at:
                        def write(name, value, at=at):
                            path = os.path.join(at, name)
                            with open(path, "w", encoding="utf-8") as file:
                                file.write(value if isinstance(value, str)
                                           else json.dumps(value))
                            return path
                        one.judge(self, write)


if __name__ == "__main__":
    unittest.main()
