"""What the dimensions of a PyTorch model's parameters are, by their names and the
configuration, in the language of testdata/programs/README.md. Programs are not read.

A name gives the structure, and the shape must have its size: where it has not, there is
no answer."""

import re

# The structure by the end of a name; the first that fits in size counts.
Q, KV = "kv*group*head_dim", "kv*head_dim"
RULES = [
    (r"(embed_tokens|wte|word_embeddings|embeddings|embed_in|shared|token_embedding|zab)"
     r"\.weight", ["vocab", "stream"]),
    (r"(lm_head|embed_out|proj_out|lir)\.weight", ["vocab", "stream"]),
    (r"(wpe|position_embeddings?|embed_positions|position_embedding)\.weight",
     ["position", "stream"]),
    (r"token_type_embeddings\.weight", ["part", "stream"]),
    # Fused projections.
    (r"attn\.c_attn\.weight", ["stream", f"sum({Q},{KV},{KV})"]),
    (r"self_attn\.qkv_proj\.weight", [f"sum({Q},{KV},{KV})", "stream"]),
    (r"query_key_value\.weight", ["(group+2)*head_dim", "stream"]),
    (r"query_key_value\.weight", ["kv*3*head_dim", "stream"]),
    (r"wim\.weight", ["kv*3*head_dim", "stream"]),
    (r"wim\.bias", ["kv*3*head_dim"]),
    (r"dof\.weight", ["sum(inner,inner)", "stream"]),
    (r"gan\.weight", ["stream", "inner"]),
    # Latent attention.
    (r"q_a_proj\.weight", ["latent", "stream"]),
    (r"q_a_layernorm\.weight", ["latent"]),
    (r"q_b_proj\.weight", ["heads*sum(nope,rope)", "latent"]),
    (r"kv_a_proj_with_mqa\.weight", ["sum(latent2,rope)", "stream"]),
    (r"kv_a_layernorm\.weight", ["latent2"]),
    (r"kv_b_proj\.weight", ["heads*sum(nope,value)", "latent2"]),
    (r"o_proj\.weight", ["stream", "heads*value"]),
    # Linear attention.
    (r"in_proj_qkvz\.weight",
     ["linear_kv*sum(linear_key,linear_key,linear_group*linear_value,"
      "linear_group*linear_value)", "stream"]),
    (r"in_proj_ba\.weight", ["linear_kv*sum(linear_group,linear_group)", "stream"]),
    (r"linear_attn\.conv1d\.weight",
     ["sum(linear_kv*linear_key,linear_kv*linear_key,linear_kv*linear_group*linear_value)",
      "1", "window"]),
    (r"linear_attn\.(A_log|dt_bias)", ["linear_kv*linear_group"]),
    (r"linear_attn\.out_proj\.weight", ["stream", "linear_kv*linear_group*linear_value"]),
    (r"self_attn\.q_proj\.weight", ["kv*group*sum(head_dim,head_dim)", "stream"]),
    # State-space models.
    (r"mixer\.in_proj\.weight",
     ["sum(groups*lanes*channels,groups*lanes*channels,groups*state,groups*state,"
      "groups*lanes)", "stream"]),
    (r"mixer\.conv1d\.weight",
     ["sum(groups*lanes*channels,groups*state,groups*state)", "1", "window"]),
    (r"mixer\.conv1d\.bias", ["sum(groups*lanes*channels,groups*state,groups*state)"]),
    (r"mixer\.(A_log|D|dt_bias)", ["groups*lanes"]),
    (r"mixer\.norm\.weight", ["groups*lanes*channels"]),
    (r"mixer\.out_proj\.weight", ["stream", "groups*lanes*channels"]),
    # Experts.
    (r"experts\.gate_up_proj", ["experts", "sum(expert_inner,expert_inner)", "stream"]),
    (r"feed_forward\.experts\.gate_up_proj",
     ["experts", "stream", "sum(expert_inner,expert_inner)"]),
    (r"experts\.gate_up_proj", ["experts", "stream", "expert_inner*2"]),
    (r"experts\.gate_up_proj_bias", ["experts", "expert_inner*2"]),
    (r"experts\.down_proj", ["experts", "stream", "expert_inner"]),
    (r"experts\.down_proj", ["experts", "expert_inner", "stream"]),
    (r"experts\.down_proj_bias", ["experts", "stream"]),
    (r"(mlp\.gate|router|block_sparse_moe\.gate|gate)\.weight", ["experts", "stream"]),
    (r"router\.bias", ["experts"]),
    (r"shared_experts?\.(gate|up)_proj\.weight", ["shared_inner", "stream"]),
    (r"shared_experts?\.down_proj\.weight", ["stream", "shared_inner"]),
    (r"sinks", ["kv*group"]),
    # Attention.
    (r"(q_proj|query|SelfAttention\.q|EncDecAttention\.q)\.weight", [Q, "stream"]),
    (r"(k_proj|v_proj|key|value|Attention\.k|Attention\.v)\.weight", [KV, "stream"]),
    (r"(q_proj|query)\.bias", [Q]),
    (r"(k_proj|v_proj|key|value)\.bias", [KV]),
    (r"(o_proj|out_proj|self_attention\.dense|attention\.dense|Attention\.o|tuk)\.weight",
     ["stream", Q]),
    (r"attention\.output\.dense\.weight", ["stream", Q]),
    (r"attn\.c_proj\.weight", [Q, "stream"]),
    (r"relative_attention_bias\.weight", ["position", "kv*group"]),
    # MLPs.
    (r"gate_up_proj\.weight", ["sum(inner,inner)", "stream"]),
    (r"mlp\.c_fc\.weight", ["stream", "inner"]),
    (r"mlp\.c_proj\.weight", ["inner", "stream"]),
    (r"(gate_proj|up_proj|fc1|fc_in|dense_h_to_4h|intermediate\.dense|wi|wi_0|wi_1)"
     r"\.weight", ["inner", "stream"]),
    (r"(gate_proj|up_proj|fc1|fc_in|dense_h_to_4h|intermediate\.dense|c_fc)\.bias",
     ["inner"]),
    (r"(down_proj|fc2|fc_out|dense_4h_to_h|output\.dense|wo)\.weight",
     ["stream", "inner"]),
    # Norms, and biases of what is added to the stream.
    (r"(q_norm|k_norm)\.weight", ["head_dim"]),
    (r"q_norm\.weight", [Q]),
    (r"k_norm\.weight", [KV]),
    (r"(\w*norm\w*|ln_\w+|LayerNorm|ora|pes)\.(weight|bias)", ["stream"]),
    (r"(o_proj|out_proj|dense|down_proj|fc2|fc_out|dense_4h_to_h|c_proj|tuk)\.bias",
     ["stream"]),
]
# Names that mean something else in a type: the query heads are one after the other,
# then one key and one value, and matrices are stored as those of nn.Linear.
OTHERS = {"gpt_bigcode": [
    (r"c_attn\.weight", ["sum(group*head_dim,head_dim,head_dim)", "stream"]),
    (r"attn\.c_proj\.weight", ["stream", "group*head_dim"]),
    (r"mlp\.c_fc\.weight", ["inner", "stream"]),
    (r"mlp\.c_proj\.weight", ["stream", "inner"]),
]}
NAMES = {
    "stream": ("hidden_size", "n_embd", "d_model"),
    "query_heads": ("num_attention_heads", "n_head", "num_heads", "n_heads",
                    "encoder_attention_heads"),
    "kv": ("num_key_value_heads", "num_kv_heads"),
    "head_dim": ("head_dim", "d_kv"),
    "inner": ("intermediate_size", "ffn_dim", "d_ff", "encoder_ffn_dim", "n_inner",
              "ffn_hidden_size"),
    "vocab": ("vocab_size",),
    "position": ("max_position_embeddings", "n_positions", "max_target_positions",
                 "relative_attention_num_buckets"),
    "experts": ("num_local_experts", "n_routed_experts", "num_experts",
                "moe_num_experts"),
    "expert_inner": ("moe_intermediate_size", "intermediate_size"),
    "latent": ("q_lora_rank",), "latent2": ("kv_lora_rank",),
    "nope": ("qk_nope_head_dim",), "rope": ("qk_rope_head_dim",),
    "value": ("v_head_dim",),
    "linear_kv": ("linear_num_key_heads",), "linear_key": ("linear_key_head_dim",),
    "linear_value": ("linear_value_head_dim",),
    "window": ("linear_conv_kernel_dim", "conv_kernel"),
    "groups": ("n_groups",), "state": ("state_size",),
    "part": ("type_vocab_size",),
}


def sizes_of(config):
    """The sizes of factors that a configuration gives."""
    out = {}
    for name, keys in NAMES.items():
        for key in keys:
            got = getattr(config, key, None)
            if isinstance(got, int) and not isinstance(got, bool) and got > 0:
                out.setdefault(name, got)
    heads = out.pop("query_heads", None)
    if heads:
        out["heads"] = heads
        if getattr(config, "multi_query", False) and not getattr(
                config, "new_decoder_architecture", False):
            out["kv"] = 1
        out.setdefault("kv", heads)
        out["group"] = max(1, heads // out["kv"])
        if "stream" in out:
            out.setdefault("head_dim", out["stream"] // heads)
    if "stream" in out:
        out.setdefault("inner", 4 * out["stream"])
    linear = getattr(config, "linear_num_value_heads", None)
    if linear and "linear_kv" in out:
        out["linear_group"] = linear // out["linear_kv"]
    if "groups" in out and heads:
        out["lanes"] = heads // out["groups"]
        out["channels"] = out["head_dim"]
    shared = getattr(config, "shared_expert_intermediate_size", None)
    if shared is None and "expert_inner" in out:
        shared = out["expert_inner"] * (getattr(config, "n_shared_experts", None) or 1)
    if shared:
        out["shared_inner"] = shared
    return out


def answers_of(config, shapes):
    """The answers about parameters with these shapes, and the sizes of factors. A
    parameter without an answer is left out."""
    sizes = sizes_of(config)
    out = {}
    for name, shape in shapes.items():
        for pattern, dims in OTHERS.get(getattr(config, "model_type", ""), []) + RULES:
            if re.search(rf"(^|\.)({pattern})$", name) is None or len(dims) != len(shape):
                continue
            if [size_of(one, sizes) for one in dims] == list(shape):
                out[name] = dims
                break
    return out, sizes


def size_of(text, sizes):
    """The size of a dimension, or None if a factor has no size."""
    words = set(re.findall(r"[a-z_]+[0-9]?", text)) - {"sum"}
    if not words <= set(sizes):
        return None
    sums = re.sub(r"sum\(([^()]*)\)", lambda got: f"({got[1].replace(',', '+')})", text)
    value = re.sub(r"[a-z_]+[0-9]?", lambda got: str(sizes[got[0]]), sums)
    assert re.fullmatch(r"[0-9+*()]+", value), value
    return eval(value)  # pylint: disable=eval-used
