"""Models of MaxText as it is published, at small sizes, and what is known of their
parameters from their source, as in library_models.py.

`maxtext` is read from the folder SHARDC_LIBRARIES, installed there by `pip install
--no-deps --target`. It needs Python 3.12, the JAX that it names and what it imports."""

import os
import sys

import jax
import jax.numpy as jnp

from layers import I32, Model, next_token, shape

B, T = 2, 10
SIZES = {"base_emb_dim": 40, "base_num_query_heads": 6, "base_num_kv_heads": 2,
         "base_mlp_dim": 72, "base_num_decoder_layers": 2, "head_dim": 8,
         "vocab_size": 96, "max_target_length": T, "per_device_batch_size": B,
         "attention": "dot_product", "dtype": "float32", "weight_dtype": "float32",
         "scan_layers": False}
FACTORS = {"stream": 40, "kv": 2, "group": 3, "head_dim": 8, "inner": 72, "vocab": 96}
TOP = {"token_embedder/embedding": "vocab | stream",
       "decoder/logits_dense/kernel": "stream | vocab", "decoder/decoder_norm/*": "stream"}
NORMS = {"*layer_norm/scale": "stream"}
MLP = {"*wi_?/kernel": "stream | inner", "*wo/kernel": "inner | stream"}
ATTENTION = {"*query/kernel": "stream | kv*group | head_dim",
             "*key/kernel": "stream | kv | head_dim",
             "*value/kernel": "stream | kv | head_dim",
             "*out/kernel": "kv*group | head_dim | stream"}
EXPERTS = {"*gate/kernel": "stream | experts", "*/wi_?": "experts | stream | inner",
           "*/wo": "experts | inner | stream"}


def maxtext(settings, answers, **factors):
    """A transformer with these settings in place of those of base.yml."""
    library = os.path.join(os.environ["SHARDC_LIBRARIES"], "maxtext")
    if library not in sys.path:
        sys.path.append(library)
    from flax import linen as nn
    from jax.sharding import Mesh
    from maxtext.common.common_types import MODEL_MODE_TRAIN
    from maxtext.configs import pyconfig
    from maxtext.models import models
    from maxtext.utils import maxtext_utils

    config = pyconfig.initialize(
        ["train", os.path.join(library, "maxtext", "configs", "base.yml")],
        run_name="trace", skip_jax_distributed_system=True, enable_checkpointing=False,
        **{**SIZES, **settings})
    mesh = Mesh(maxtext_utils.create_device_mesh(config), config.mesh_axes)
    module = models.transformer_as_linen(config=config, mesh=mesh, quant=None,
                                         model_mode=MODEL_MODE_TRAIN)
    given = {"decoder_segment_ids": jnp.ones((B, T), jnp.int32),
             "enable_dropout": False}

    def initial(tokens):
        keys = {one: jax.random.key(0) for one in ("params", "dropout")}
        return module.init(keys, tokens, tokens, **given)

    def forward(params, batch):
        with mesh, nn.logical_axis_rules(config.logical_axis_rules):
            return module.apply({"params": params}, batch["tokens"],
                                batch["positions"], **given)

    batch = {one: shape(B, T, dtype=I32) for one in ("tokens", "positions", "labels")}
    with mesh, nn.logical_axis_rules(config.logical_axis_rules):
        params = nn.unbox(jax.eval_shape(initial, batch["tokens"]))["params"]
    return Model(forward, params, batch, {**TOP, **answers},
                 loss=next_token), {**FACTORS, **factors}


def maxtext_llama2():
    return maxtext({"decoder_block": "llama2"}, {**NORMS, **ATTENTION, **MLP})


def maxtext_llama2_scanned():
    """Layers are the second dimension."""
    second = {name: answer.replace(" | ", " | layers | ", 1) if " | " in answer
              else answer + " | layers"
              for name, answer in {**NORMS, **ATTENTION, **MLP}.items()}
    return maxtext({"decoder_block": "llama2", "scan_layers": True}, second, layers=2)


def maxtext_gemma2():
    return maxtext(
        {"decoder_block": "gemma2", "attn_logits_soft_cap": 50.0,
         "final_logits_soft_cap": 30.0, "sliding_window_size": 4,
         "use_post_attn_norm": True, "use_post_ffw_norm": True},
        {"*layers_?/p*norm_*/scale": "stream", **ATTENTION, **MLP})


def maxtext_qwen3_moe():
    return maxtext(
        {"decoder_block": "qwen3_moe", "use_qk_norm": True, "num_experts": 7,
         "num_experts_per_tok": 2, "base_moe_mlp_dim": 72, "sparse_matmul": False},
        {**NORMS, **ATTENTION, **EXPERTS, "*query_norm/scale": "head_dim",
         "*key_norm/scale": "head_dim"}, experts=7)


def maxtext_mixtral():
    """Tokens are sorted by their experts for ragged products."""
    return maxtext(
        {"decoder_block": "mixtral", "num_experts": 8, "num_experts_per_tok": 2,
         "base_moe_mlp_dim": 72, "sparse_matmul": True, "megablox": False},
        {**NORMS, **ATTENTION, **EXPERTS}, experts=8)


def maxtext_deepseek():
    """A dense layer and one with experts. A key has the rotated columns of all heads
    and columns of each; a query has both."""
    return maxtext(
        {"decoder_block": "deepseek", "attention_type": "mla", "q_lora_rank": 20,
         "kv_lora_rank": 12, "qk_nope_head_dim": 8, "qk_rope_head_dim": 4,
         "v_head_dim": 8, "base_num_kv_heads": 6, "num_experts": 8,
         "num_experts_per_tok": 2, "shared_experts": 1, "base_moe_mlp_dim": 24,
         "first_num_dense_layers": 1, "sparse_matmul": False},
        {**NORMS, "*wq_a/kernel": "stream | latent", "*q_norm/scale": "latent",
         "*wq_b/kernel": "latent | heads | (nope + rope)",
         "*wkv_a/kernel": "stream | (latent2 + rope)", "*kv_norm/scale": "latent2",
         "*wkv_b/kernel": "latent2 | heads | (nope + head_dim)",
         "*out/kernel": "heads | head_dim | stream",
         "*/mlp/wi_?/kernel": "stream | inner", "*/mlp/wo/kernel": "inner | stream",
         "*shared_experts/wi_?/kernel": "stream | inner3",
         "*shared_experts/wo/kernel": "inner3 | stream",
         "*gate/kernel": "stream | experts",
         "*MoeBlock_0/wi_?": "experts | stream | inner2",
         "*MoeBlock_0/wo": "experts | inner2 | stream"},
        experts=8, latent=20, latent2=12, nope=8, rope=4, heads=6, inner2=24, inner3=24)


def maxtext_gpt_oss():
    return maxtext(
        {"decoder_block": "gpt_oss", "base_mlp_dim": 24, "num_experts": 7,
         "num_experts_per_tok": 2, "base_moe_mlp_dim": 24, "sparse_matmul": False,
         "attention_sink": True, "attention_bias": True, "sliding_window_size": 4,
         "mlp_bias": True},
        {**NORMS, **ATTENTION, **EXPERTS, "*query/bias": "kv*group | head_dim",
         "*key/bias": "kv | head_dim", "*value/bias": "kv | head_dim",
         "*out/bias": "stream", "*sinks": "kv*group", "*wi_?_bias": "experts | inner",
         "*wo_bias": "experts | stream"}, experts=7, inner=24)


MODELS = {one.__name__: one for one in (
    maxtext_llama2, maxtext_llama2_scanned, maxtext_gemma2, maxtext_qwen3_moe,
    maxtext_mixtral, maxtext_deepseek, maxtext_gpt_oss)}
