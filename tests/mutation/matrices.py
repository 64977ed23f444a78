"""What `shardc verify` is run with to judge a change, and the files that these
command lines name."""

import json

STEP = ("--batch", "4", "--seq", "16", "--kv-len", "32")
SMALL = ("--attention", "heads=8,kv_heads=4,head_dim=16", *STEP)
# A head dimension that no vector of a processor divides.
ODD = ("--attention", "heads=8,kv_heads=4,head_dim=20", *STEP)
CACHES = ("--mode", "decode,insert")
# What people would run: axes of every kind, then what only some settings reach;
# words that name a file of FILES stand for it.
MATRICES = (
    ("--mesh", "sp:4,tp:2", *SMALL, "--dtype", "float32",
     "--operation", "ring,ulysses", "--ring-order", "zig_zag", "--mode", "train"),
    ("--mesh", "dp:2,tp:2", *SMALL, "--dtype", "float32",
     "--mode", "train,decode", "--operation",
     "vanilla,sdpa,flash_attn2", "--dot-bits", "8"),
    ("--mesh", "sp:2,tp:4", *SMALL, "--dtype", "float32",
     "--rules", "dim.yaml"),
    ("--mesh", "dp:2,sp:2,tp:2", *SMALL, "--dtype", "float32",
     *CACHES, "--kv-dtype", "int8"),
    ("--mesh", "dp:2,tp:4", *SMALL, "--dtype",
     "bfloat16,float16"),
    ("--mesh", "dp:2,sp:2,tp:2", "--attention",
     "heads=8,kv_heads=4,head_dim=16,window=12", *STEP,
     "--dtype", "float32", "--features", "all"),
    # Models that stretch their positions, each in its way.
    *(("--mesh", "sp:2,tp:2", "--model", f"{name}.config.json", "--dtype",
       "float32", *CACHES) for name in ("linear", "dynamic", "yarn", "llama3",
                                        "longrope", "latent")),
    ("--mesh", "dp:2,tp:4", "--model", "latent.config.json", "--dtype",
     "float32", "--settings", "cast.yaml"),
    # One device of many key heads, and more devices than key heads.
    ("--mesh", "dp:1", "--attention", "heads=8,kv_heads=8,head_dim=16",
     "--batch", "4", "--seq", "1", "--kv-len", "32", "--dtype",
     "float32", "--features", "bias_by_head,segments,left_padding"),
    ("--mesh", "dp:2,sp:8", "--attention", "heads=16,kv_heads=2,head_dim=20",
     *STEP, "--dtype",
     "float32", "--features", "all", "--operation", "ulysses"),
    ("--mesh", "tp:8", *ODD, "--dtype", "bfloat16", "--features",
     "sinks,soft_cap,additive_mask", "--kv-dtype", "bfloat16"),
    # Rings within an exchange, striped and alone.
    ("--mesh", "sp:4,tp:2", *ODD, "--dtype", "float32",
     "--features", "all", "--operation", "ring", "--ring-order", "striped"),
    ("--mesh", "dp:2,sp:2,cp:2", *ODD, "--dtype", "float32",
     "--features", "all", "--mode", "train", "--operation", "ring,ulysses",
     "--rules", "two.yaml", "--settings", "ring.yaml"),
    # Partial softmaxes joined in other ways, and arithmetic of other widths.
    ("--mesh", "sp:4,tp:2", *ODD, "--dtype", "float32,bfloat16",
     "--features", "all", "--mode", "decode", "--operation", "flash_decoding",
     "--settings", "gather.yaml"),
    ("--mesh", "dp:2,tp:2,tq:2", "--attention",
     "heads=8,kv_heads=2,head_dim=20", *STEP, "--dtype", "float32", "--features", "all", "--mode", "decode", "--operation",
     "flash_decoding", "--rules", "shared.yaml"),
    ("--mesh", "dp:2,tp:2", *ODD, "--dtype", "float32",
     "--features", "all", "--mode", "train,decode", "--settings",
     "narrow.yaml", "--soft-cap", "5"),
    ("--mesh", "dp:2,tp:2,tq:2", *ODD, "--dtype", "float32",
     "--mode", "train,decode", "--features", "bias,sinks_by_key_head",
     "--rules", "value.yaml"),
    # Caches as they are given, not reduced: rounded, rolling, split by dims,
    # moved between modes.
    ("--full", "--mesh", "dp:2,tp:2", *ODD, "--dtype", "float32",
     "--kv-dtype", "bfloat16", *CACHES, "--page-size", "4"),
    ("--full", "--mesh", "dp:2,tp:2", "--attention",
     "heads=8,kv_heads=4,head_dim=20,window=12", *STEP,
     "--dtype", "float32", "--kv-dtype", "int8", *CACHES, "--rules",
     "dim.yaml"),
    ("--full", "--mesh", "dp:2,sp:2,tp:2", "--attention",
     "heads=8,kv_heads=4,head_dim=20,window=12", *STEP,
     "--dtype", "float32", "--kv-dtype", "int8", *CACHES, "--rules",
     "rows.yaml"),
    ("--full", "--mesh", "dp:2,sp:2,tp:2", "--attention",
     "heads=8,kv_heads=4,head_dim=20,window=12", *STEP,
     "--dtype", "bfloat16,float16", *CACHES, "--rules", "length.yaml"),
)
RULES = {
    "dim": "head: [], kv_head: [], attention_dim: tp, attention_kv_dim: tp",
    "value": "attention_dim: [], attention_kv_dim: tq",
    "two": "query_sequence: [sp, cp], key_sequence: [sp, cp]",
    "shared": "head: [tp, tq], kv_head: tp, decode_key_sequence: tq",
    "rows": "batch: dp, decode_batch: [dp, sp], decode_key_sequence: []",
    "length": "batch: dp, decode_batch: [], decode_key_sequence: [dp, sp]",
}
SETTINGS = {
    "cast": "defaults: {runtime_dtype: bfloat16}",
    "gather": "operations: {flash_decoding: {merge: all_gather}}",
    "ring": "operations: {ulysses: {ring_axes: [cp]}, ring: {order: striped}}",
    "narrow": "operations: {vanilla: {softmax_dtype: float16}, "
              "sdpa: {softmax_dtype: bfloat16, dropout: 0.25}, "
              "blocksparse: {block_mask: global, global_blocks: 2}}",
}
MODEL = {
    "model_type": "llama", "hidden_size": 128, "num_attention_heads": 8,
    "num_key_value_heads": 4, "head_dim": 16, "rope_theta": 500000.0,
    "max_position_embeddings": 131072,
}
MODELS = {
    "linear": {"rope_scaling": {"rope_type": "linear", "factor": 4.0}},
    "dynamic": {"max_position_embeddings": 8,
                "rope_scaling": {"rope_type": "dynamic", "factor": 2.0}},
    "yarn": {"rope_scaling": {"rope_type": "yarn", "factor": 4.0,
                              "original_max_position_embeddings": 32768}},
    "llama3": {"rope_scaling": {
        "rope_type": "llama3", "factor": 8.0, "low_freq_factor": 1.0,
        "high_freq_factor": 4.0, "original_max_position_embeddings": 8192}},
    "longrope": {"original_max_position_embeddings": 8, "rope_scaling": {
        "rope_type": "longrope", "short_factor": [1 + i / 10 for i in range(8)],
        "long_factor": [1.5 + i / 2 for i in range(8)]}},
    "latent": {"model_type": "deepseek_v3", "num_key_value_heads": 8,
               "kv_lora_rank": 24, "q_lora_rank": 48, "qk_nope_head_dim": 12,
               "qk_rope_head_dim": 8, "v_head_dim": 10, "head_dim": 20,
               "rope_scaling": {"type": "yarn", "factor": 40, "beta_fast": 32,
                                "beta_slow": 1, "mscale": 1.0,
                                "mscale_all_dim": 1.0,
                                "original_max_position_embeddings": 4096}},
}
FILES = {
    **{f"{name}.yaml": f"version: 1\naxes: {{{axes}}}\n"
       for name, axes in RULES.items()},
    **{f"{name}.yaml": f"version: 1\n{text}\n"
       for name, text in SETTINGS.items()},
    **{f"{name}.config.json": json.dumps({**MODEL, **own})
       for name, own in MODELS.items()},
}
