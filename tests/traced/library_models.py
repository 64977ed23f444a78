"""Models of JAX libraries as they are published, at small sizes, and what is known of
their parameters from their source.

Sources are read from the folder SHARDC_LIBRARIES: `flax/examples` and `bonsai/bonsai` of
their repositories, and `google_tunix` as installed there by `pip install --no-deps
--target`. Modules that are not installed and that a model does not need, such as
TensorFlow in an example's input pipeline, are replaced by empty ones.

The answers give the structure of each parameter's dimensions by patterns of names, in the
language of testdata/programs/README.md."""

import contextlib
import importlib
import importlib.util
import os
import sys
import types
import unittest.mock

import jax
import jax.numpy as jnp
import optax
from flax import nnx

from layers import F32, I32, Model, next_token, shape

LIBRARIES = os.environ.get("SHARDC_LIBRARIES", "")
# The commits of the repositories and the release for which the answers were written.
VERSIONS = {"flax examples": "18f8f311", "bonsai": "36284254", "google-tunix": "0.1.7",
            "equinox": "0.13.8"}
B, T = 2, 10


@contextlib.contextmanager
def without(*names):
    """Empty modules of these names, for what imports them and does not use them."""
    missing = {name: unittest.mock.MagicMock() for name in names}
    with unittest.mock.patch.dict(sys.modules, missing):
        yield


def example(folder, name="models", *missing):
    """A module of flax/examples, which imports its neighbours by their bare names."""
    path = os.path.join(LIBRARIES, "flax", "examples", folder)
    kept = dict(sys.modules)
    neighbours = {one[:-3] for one in os.listdir(path) if one.endswith(".py")}
    for one in neighbours:
        sys.modules.pop(one, None)
    sys.path.insert(0, path)
    try:
        with without(*missing):
            return importlib.import_module(name)
    finally:
        sys.path.remove(path)
        for one in neighbours:
            sys.modules.pop(one, None)
            if one in kept:
                sys.modules[one] = kept[one]


def package(folder, name):
    """A module of a package, without what the package's own __init__ imports."""
    sys.path.insert(0, os.path.join(LIBRARIES, folder))
    try:
        parts = name.split(".")[:-1]
        for n in range(1, len(parts) + 1):
            top = ".".join(parts[:n])
            if top not in sys.modules:
                sys.modules[top] = types.ModuleType(top)
                sys.modules[top].__path__ = [os.path.join(LIBRARIES, folder, *parts[:n])]
        return importlib.import_module(name)
    finally:
        sys.path.pop(0)


def linen(module, batch, answers, *, loss=None, state=(), **named):
    """A module of Flax linen, of the inputs `batch` in this order or by name."""
    given = dict(named)

    def call(variables, batch, **more):
        args = [batch[one] for one in sorted(batch) if one.isdigit()]
        by_name = {one: x for one, x in batch.items() if one[0] == "_"}
        return module.apply(variables, *args,
                            **{one[1:]: x for one, x in by_name.items()}, **given,
                            **more)

    def initial(batch):
        args = [batch[one] for one in sorted(batch) if one.isdigit()]
        by_name = {one[1:]: x for one, x in batch.items() if one[0] == "_"}
        keys = {one: jax.random.key(0) for one in ("params", "lstm", "dropout")}
        return module.init(keys, *args, **by_name, **given)

    variables = jax.eval_shape(initial, batch)
    keys = {"rngs": {"lstm": jax.random.key(1)}} if "lstm" in state else {}
    if "batch_stats" not in variables:
        return Model(lambda p, b: call({"params": p}, b, **keys), variables["params"],
                     batch, answers, loss=loss)
    return Model(lambda p, s, b: call({"params": p, "batch_stats": s}, b, **keys),
                 variables["params"], batch, answers, state=variables["batch_stats"])


def tokens(*, labels=False, **more):
    batch = {"0": shape(B, T, dtype=I32), **more}
    return {**batch, "labels": shape(B, T, dtype=I32)} if labels else batch


# ---- The examples of Flax

NORM = {"*LayerNorm_*/*": "stream", "*_norm/*": "stream"}
MHA = {"*query/kernel": "stream | heads | head_dim", "*key/kernel":
       "stream | heads | head_dim", "*value/kernel": "stream | heads | head_dim",
       "*out/kernel": "heads | head_dim | stream"}
MHA_BIAS = {"*query/bias": "heads | head_dim", "*key/bias": "heads | head_dim",
            "*value/bias": "heads | head_dim", "*out/bias": "stream"}
MLP = {"*MlpBlock_0/Dense_0/kernel": "stream | inner", "*MlpBlock_0/Dense_0/bias": "inner",
       "*MlpBlock_0/Dense_1/kernel": "inner | stream",
       "*MlpBlock_0/Dense_1/bias": "stream"}
SIZES = {"emb_dim": 40, "num_heads": 5, "num_layers": 2, "qkv_dim": 40, "mlp_dim": 112,
         "max_len": 24}
FACTORS = {"stream": 40, "heads": 5, "head_dim": 8, "inner": 112}


def flax_lm1b():
    models = example("lm1b")
    config = models.TransformerConfig(vocab_size=96, output_vocab_size=96,
                                      deterministic=True, **SIZES)
    return linen(models.TransformerLM(config), tokens(labels=True), {
        **NORM, **MHA, **MLP, "*Embed_0/embedding": "vocab | stream",
        "*logitdense/kernel": "stream | vocab", "*logitdense/bias": "vocab",
    }, loss=next_token), {**FACTORS, "vocab": 96}


def flax_wmt():
    models = example("wmt")
    config = models.TransformerConfig(
        vocab_size=96, output_vocab_size=96, share_embeddings=True, deterministic=True,
        logits_via_embedding=True, **SIZES)
    batch = {"0": shape(B, 12, dtype=I32), "1": shape(B, T, dtype=I32),
             "labels": shape(B, T, dtype=I32)}
    return linen(models.Transformer(config), batch, {
        **NORM, **MHA, **MLP, "*embedding": "vocab | stream"},
        loss=next_token), {**FACTORS, "vocab": 96}


def flax_nlp_seq():
    models = example("nlp_seq")
    config = models.TransformerConfig(vocab_size=96, output_vocab_size=17, **SIZES)
    return linen(models.Transformer(config), {"_inputs": shape(B, T, dtype=I32)}, {
        **NORM, **MHA, **MLP, "embed/embedding": "vocab | stream",
        "Dense_0/kernel": "stream | out", "Dense_0/bias": "out",
    }, train=False), {**FACTORS, "vocab": 96, "out": 17}


def flax_seq2seq():
    models = example("seq2seq")
    # The cell of the decoder has as many features as the vocabulary has entries, and
    # starts from the state of the encoder: only equal sizes run.
    return linen(models.Seq2seq(True, 15, 15),
                 {"0": shape(B, 7, 15), "1": shape(B, 6, 15)}, {
                     "LSTMCell_0/i?/kernel": "in | state",
                     "LSTMCell_0/h?/kernel": "state | state",
                     "LSTMCell_0/h?/bias": "state",
                     "DecoderLSTMCell_0/LSTMCell_0/i?/kernel": "out | state",
                     "DecoderLSTMCell_0/LSTMCell_0/h?/kernel": "state | state",
                     "DecoderLSTMCell_0/LSTMCell_0/h?/bias": "state",
                     "DecoderLSTMCell_0/Dense_0/kernel": "state | out",
                     "DecoderLSTMCell_0/Dense_0/bias": "out",
                 }, state=("lstm",)), {"in": 15, "in2": 15, "state": 15, "out": 15}


def flax_ppo():
    models = example("ppo")
    return linen(models.ActorCritic(6), {"0": shape(B, 24, 24, 4)}, {
        "conv1/kernel": "window | window2 | in | channels", "conv1/bias": "channels",
        "conv2/kernel": "window3 | window4 | channels | channels2",
        "conv2/bias": "channels2",
        "conv3/kernel": "window5 | window6 | channels2 | channels3",
        "conv3/bias": "channels3",
        "hidden/kernel": "rows*columns*channels3 | inner", "hidden/bias": "inner",
        "logits/kernel": "inner | out", "logits/bias": "out",
        "value/kernel": "inner | 1", "value/bias": "1",
    }), {"window": 8, "window2": 8, "window3": 4, "window4": 4, "window5": 3,
         "window6": 3, "in": 4, "channels": 32, "channels2": 64, "channels3": 64,
         "rows": 3, "columns": 3, "inner": 512, "out": 6}


def flax_vae():
    models = example("vae")
    module = models.model(20)
    key = jax.eval_shape(lambda: jax.random.key(0))
    params = jax.eval_shape(module.init, key, shape(B, 784), key)["params"]

    def forward(params, batch):
        return module.apply({"params": params}, batch["x"], batch["key"])

    return Model(forward, params, {"x": shape(B, 784), "key": key}, {
        "encoder/fc1/kernel": "in | inner", "encoder/fc1/bias": "inner",
        "encoder/fc2_*/kernel": "inner | latent", "encoder/fc2_*/bias": "latent",
        "decoder/fc1/kernel": "latent | inner2", "decoder/fc1/bias": "inner2",
        "decoder/fc2/kernel": "inner2 | out", "decoder/fc2/bias": "out",
    }), {"in": 784, "inner": 500, "latent": 20, "inner2": 500, "out": 784}


def flax_sst2():
    models = example("sst2")
    module = models.TextClassifier(36, 28, 96, 5, 0.0, 0.0, deterministic=True)
    both = "sum(state,state2)"
    answers = {"embedder/embedding": "vocab | stream",
               "classifier/keys_only_mlp_attention/keys/kernel": f"{both} | inner",
               "classifier/keys_only_mlp_attention/energy/kernel": "inner | 1",
               "classifier/mlp/intermediate_layer/kernel": f"{both} | inner2",
               "classifier/mlp/intermediate_layer/bias": "inner2",
               "classifier/mlp/output_layer/kernel": "inner2 | out"}
    for folder, state in (("forward", "state"), ("backward", "state2")):
        answers |= {f"encoder/{folder}*/i?/kernel": f"stream | {state}",
                    f"encoder/{folder}*/h?/kernel": f"{state} | {state}",
                    f"encoder/{folder}*/h?/bias": state}
    return linen(module, {"0": shape(B, T, dtype=I32), "1": shape(B, dtype=I32)},
                 answers), {"vocab": 96, "stream": 36, "state": 28, "state2": 28,
                            "inner": 28, "inner2": 28, "out": 5}


def flax_imagenet():
    models = example("imagenet")
    module = models.ResNet(stage_sizes=[1, 1], block_cls=models.ResNetBlock,
                           num_classes=10, num_filters=12)
    one, two = "ResNetBlock_0/", "ResNetBlock_1/"
    return linen(module, {"0": shape(B, 32, 32, 3)}, {
        "conv_init/kernel": "window | window2 | in | channels", "bn_init/*": "channels",
        one + "Conv_0/kernel": "window3 | window4 | channels | channels2",
        one + "BatchNorm_0/*": "channels2",
        one + "Conv_1/kernel": "window3 | window4 | channels2 | channels",
        one + "BatchNorm_1/*": "channels",
        two + "Conv_0/kernel": "window3 | window4 | channels | channels3",
        two + "BatchNorm_0/*": "channels3",
        two + "Conv_1/kernel": "window3 | window4 | channels3 | channels4",
        two + "BatchNorm_1/*": "channels4",
        two + "conv_proj/kernel": "1 | 1 | channels | channels4",
        two + "norm_proj/*": "channels4",
        "Dense_0/kernel": "channels4 | out", "Dense_0/bias": "out",
    }, train=False), {
        "window": 7, "window2": 7, "window3": 3, "window4": 3, "in": 3, "channels": 12,
        "channels2": 12, "channels3": 24, "channels4": 24, "out": 10}


def flax_mnist():
    models = example("mnist", "train", "tensorflow", "tensorflow_datasets",
                     "ml_collections", "flax.metrics.tensorboard")
    model = nnx.eval_shape(lambda: models.CNN(nnx.Rngs(0)))

    def forward(model, batch):
        return model(batch["image"], nnx.Rngs(dropout=1))

    return Model(forward, model, {"image": shape(B, 28, 28, 1)}, {
        "conv1/kernel": "window | window2 | 1 | channels", "conv1/bias": "channels",
        "batch_norm1/*": "channels",
        "conv2/kernel": "window3 | window4 | channels | channels2",
        "conv2/bias": "channels2", "batch_norm2/*": "channels2",
        "linear1/kernel": "rows*columns*channels2 | inner", "linear1/bias": "inner",
        "linear2/kernel": "inner | out", "linear2/bias": "out",
    }), {"window": 3, "window2": 3, "window3": 3, "window4": 3, "channels": 32,
         "channels2": 64, "rows": 7, "columns": 7, "inner": 256, "out": 10}


def decoded(batch):
    """What the decoders below take: tokens, positions, no cache, and a causal mask."""
    return (batch["tokens"], jnp.broadcast_to(jnp.arange(T), (B, T)), None,
            jnp.broadcast_to(jnp.tril(jnp.ones((T, T), bool)), (B, T, T)))


def lm_batch():
    return {"tokens": shape(B, T, dtype=I32), "labels": shape(B, T, dtype=I32)}


LM = {"stream": 40, "kv": 2, "group": 3, "heads": 5, "head_dim": 8, "inner": 72,
      "vocab": 96}
GATED = {"*gate_proj/kernel": "stream | inner", "*up_proj/kernel": "stream | inner",
         "*down_proj/kernel": "inner | stream"}


def decoder(build, answers, call=lambda model, batch: model(*decoded(batch))[0]):
    model = nnx.eval_shape(lambda: build(nnx.Rngs(0)))
    return Model(call, model, lm_batch(), answers, loss=next_token), LM


def flax_gemma():
    transformer = example("gemma", "transformer", "input_pipeline", "tokenizer",
                          "sampler", "kagglehub")
    config = transformer.TransformerConfig(
        num_layers=2, num_embed=96, embed_dim=40, hidden_dim=72, num_heads=6, head_dim=8,
        num_kv_heads=2, final_logit_softcap=30.0, use_post_attn_norm=True,
        use_post_ffw_norm=True, use_qk_norm=True, sliding_window_size=4,
        attention_types=[transformer.modules.AttentionType.LOCAL_SLIDING,
                         transformer.modules.AttentionType.GLOBAL])
    return decoder(lambda rngs: transformer.Transformer(config, rngs=rngs), {
        **GATED, "embedder/embedding": "vocab | stream",
        "*_query_norm/scale": "head_dim", "*_key_norm/scale": "head_dim",
        "layers/?/p*_norm/scale": "stream", "final_norm/scale": "stream",
        "*q_einsum/kernel": "kv*group | stream | head_dim",
        "*kv_einsum/kernel": "2 | kv | stream | head_dim",
        "*attn_vec_einsum/kernel": "kv*group | head_dim | stream",
    })


# ---- Tunix

PROJECTIONS = {"*q_proj/w": "stream | kv*group | head_dim",
               "*k_proj/w": "stream | kv | head_dim",
               "*v_proj/w": "stream | kv | head_dim",
               "*o_proj/w": "kv*group | head_dim | stream"}
TUNIX = {"num_layers": 2, "vocab_size": 96, "embed_dim": 40, "hidden_dim": 72,
         "num_heads": 6, "head_dim": 8, "num_kv_heads": 2, "rope_theta": 10000,
         "norm_eps": 1e-6}
TUNIX_TOP = {"embedder/input_embedding": "vocab | stream", "lm_head/w": "stream | vocab",
             "*layernorm/w": "stream", "final_norm/w": "stream"}


def tunix_llama3():
    model = package("google_tunix", "tunix.models.llama3.model")
    return decoder(lambda rngs: model.Llama3(model.ModelConfig(**TUNIX), rngs=rngs),
                   {**TUNIX_TOP, **PROJECTIONS, **GATED})


def tunix_qwen2():
    model = package("google_tunix", "tunix.models.qwen2.model")
    return decoder(lambda rngs: model.Qwen2(model.ModelConfig(**TUNIX), rngs=rngs), {
        **TUNIX_TOP, **PROJECTIONS, **GATED, "*q_bias": "kv*group*head_dim",
        "*k_bias": "kv*head_dim", "*v_bias": "kv*head_dim"})


QWEN3 = {"*q_norm/w": "head_dim", "*k_norm/w": "head_dim"}


def tunix_qwen3():
    model = package("google_tunix", "tunix.models.qwen3.model")
    return decoder(lambda rngs: model.Qwen3(model.ModelConfig(**TUNIX), rngs=rngs),
                   {**TUNIX_TOP, **PROJECTIONS, **GATED, **QWEN3})


def tunix_qwen3_moe():
    model = package("google_tunix", "tunix.models.qwen3.model")
    config = model.ModelConfig(**TUNIX, num_experts=7, num_experts_per_tok=2)
    made, sizes = decoder(lambda rngs: model.Qwen3(config, rngs=rngs), {
        **TUNIX_TOP, **PROJECTIONS, **QWEN3, "*router/kernel": "stream | experts",
        "*gate_proj": "experts | stream | inner", "*up_proj": "experts | stream | inner",
        "*down_proj": "experts | inner | stream"})
    return made, {**sizes, "experts": 7}


def tunix_gemma():
    model = package("google_tunix", "tunix.models.gemma.model")
    # One head for keys and values.
    config = model.ModelConfig(
        num_layers=2, num_embed=96, embed_dim=40, hidden_dim=72, num_heads=5, head_dim=8,
        num_kv_heads=1, final_logit_softcap=None, use_post_attn_norm=False,
        use_post_ffw_norm=False, attention_types=[model.AttentionType.GLOBAL] * 2)
    return decoder(lambda rngs: model.Gemma(config, rngs=rngs), {
        **GATED, "embedder/input_embedding": "vocab | stream", "*norm/scale": "stream",
        "*q_einsum/w": "heads | stream | head_dim",
        "*kv_einsum/w": "2 | 1 | stream | head_dim",
        "*attn_vec_einsum/w": "heads | head_dim | stream",
    })


def tunix_gemma3():
    model = package("google_tunix", "tunix.models.gemma3.model")
    # As many heads for keys and values as for queries: one tensor for the three.
    config = model.ModelConfig(
        num_layers=6, num_embed=96, embed_dim=40, hidden_dim=72, num_heads=5, head_dim=8,
        num_kv_heads=5, sliding_window_size=4, param_dtype=F32)
    return decoder(lambda rngs: model.Gemma3(config, rngs=rngs), {
        **GATED, "embedder/input_embedding": "vocab | stream",
        "layers/?/p*_norm/scale": "stream", "final_norm/scale": "stream",
        "*_query_norm/scale": "head_dim", "*_key_norm/scale": "head_dim",
        "*qkv_einsum/w": "3 | heads | stream | head_dim",
        "*attn_vec_einsum/w": "heads | head_dim | stream",
    })


def tunix_gemma4():
    model = package("google_tunix", "tunix.models.gemma4.model")
    kinds = model.AttentionType
    config = model.ModelConfig(
        num_layers=2, num_embed=96, embed_dim=40, hidden_dim=72, num_heads=6, head_dim=8,
        num_kv_heads=2, sliding_window_size=4, global_key_size=16, enable_moe=True,
        num_experts=7, num_experts_per_tok=2, expert_dim=28,
        attention_pattern=(kinds.LOCAL_SLIDING, kinds.GLOBAL))
    made, sizes = decoder(lambda rngs: model.Gemma4(config, rngs=rngs), {
        **GATED, "embedder/input_embedding": "vocab | stream",
        "layers/?/[!a]*_norm/scale": "stream", "final_norm/scale": "stream",
        "*skip_scale": "1",
        "layers/0/attn/_*_norm/scale": "head_dim",
        "layers/1/attn/_*_norm/scale": "head_dim2",
        "layers/0/attn/q_einsum/w": "kv*group | stream | head_dim",
        "layers/0/attn/kv_einsum/w": "2 | kv | stream | head_dim",
        "layers/0/attn/attn_vec_einsum/w": "kv*group | head_dim | stream",
        "layers/1/attn/q_einsum/w": "kv*group | stream | head_dim2",
        "layers/1/attn/kv_einsum/w": "2 | kv | stream | head_dim2",
        "layers/1/attn/attn_vec_einsum/w": "kv*group | head_dim2 | stream",
        "*moe/router_logits": "stream | experts", "*moe/router_scale": "stream",
        "*moe/per_expert_scale": "experts",
        "*moe/gating_einsum": "experts | 2 | inner2 | stream",
        "*moe/linear": "experts | inner2 | stream",
    })
    return made, {**sizes, "head_dim2": 16, "experts": 7, "inner2": 28}


# ---- Bonsai


def bonsai(name):
    return package("bonsai", f"bonsai.models.{name}.modeling")


NNX_MHA = {**MHA, **MHA_BIAS}


def bonsai_qwen3():
    model = bonsai("qwen3")
    config = model.ModelConfig(
        num_layers=2, vocab_size=96, emb_dim=40, mlp_dim=72, num_heads=6, head_dim=8,
        num_kv_heads=2, rope_theta=10000, rope_scaling_factor=8.0, local_rope_theta=1e4,
        norm_eps=1e-6, tie_word_embeddings=False)
    module = nnx.eval_shape(lambda: model.Qwen3(config, rngs=nnx.Rngs(0)))
    cache = nnx.eval_shape(lambda: nnx.List(model.init_cache(config, B, T, 6, jnp.float32)))

    def forward(module, cache, batch):
        return module(batch["tokens"], cache=cache, segment_ids=batch["segments"])

    batch = {"tokens": shape(B, T, dtype=I32), "segments": shape(B, T, dtype=I32)}
    return Model(forward, module, batch, {
        **GATED, "embedder/embedding": "vocab | stream", "*layernorm/scale": "stream",
        "final_norm/scale": "stream", "lm_head/kernel": "stream | vocab",
        "*q_norm/scale": "head_dim", "*k_norm/scale": "head_dim",
        **{one.replace("/w", "/kernel"): text for one, text in PROJECTIONS.items()},
    }, state=cache), LM


def bonsai_vit():
    model = bonsai("vit")
    config = model.ModelConfig(
        image_size=(16, 16), patch_size=(4, 4), num_channels=3, hidden_dim=40,
        attn_dropout_prob=0.0, dropout_prob=0.0, num_heads=5, mlp_dim=112, eps=1e-6,
        num_layers=2, num_labels=10)
    module = nnx.eval_shape(
        lambda: model.ViTClassificationModel(config, rngs=nnx.Rngs(0)))
    return Model(lambda m, batch: m(batch["image"], rngs=None), module,
                 {"image": shape(B, 16, 16, 3)}, {
                     **NNX_MHA, "pos_embeddings/projection/kernel":
                         "window | window2 | in | stream",
                     "pos_embeddings/projection/bias": "stream",
                     "pos_embeddings/cls_token": "1 | 1 | stream",
                     "pos_embeddings/pos_embeddings": "1 | position | stream",
                     "*layernorm_*/*": "stream", "ln/*": "stream",
                     "*linear1/kernel": "stream | inner", "*linear1/bias": "inner",
                     "*linear2/kernel": "inner | stream", "*linear2/bias": "stream",
                     "classifier/kernel": "stream | out", "classifier/bias": "out",
                 }), {**FACTORS, "window": 4, "window2": 4, "in": 3, "position": 17,
                      "out": 10}


def bonsai_convnext():
    model = bonsai("convnext")
    config = model.ModelConfig(stage_depths=(2, 1), stage_dims=(12, 20),
                               drop_path_rate=0.0, num_classes=10)
    module = nnx.eval_shape(lambda: model.ConvNeXt(config, rngs=nnx.Rngs(0)))
    answers = {"embedding_layer/layers/0/kernel": "window | window2 | in | channels",
               "embedding_layer/layers/0/bias": "channels",
               "embedding_layer/layers/1/*": "channels",
               "stages/1/downsample_layers/0/*": "channels",
               "stages/1/downsample_layers/1/kernel":
                   "window3 | window4 | channels | channels2",
               "stages/1/downsample_layers/1/bias": "channels2",
               "norm/*": "channels2", "head/kernel": "channels2 | out", "head/bias": "out"}
    for stage, channels, inner in ((0, "channels", "inner"), (1, "channels2", "inner2")):
        start = f"stages/{stage}/layers/*"
        answers |= {start + "dwconv/kernel": f"window5 | window6 | 1 | {channels}",
                    start + "dwconv/bias": channels, start + "/norm/*": channels,
                    start + "pwconv1/kernel": f"{channels} | {inner}",
                    start + "pwconv1/bias": inner,
                    start + "pwconv2/kernel": f"{inner} | {channels}",
                    start + "pwconv2/bias": channels, start + "gamma": channels}
    return Model(lambda m, batch: m(batch["image"], rngs=None), module,
                 {"image": shape(B, 16, 16, 3)}, answers), {
        "window": 4, "window2": 4, "window3": 2, "window4": 2, "window5": 7,
        "window6": 7, "in": 3, "channels": 12, "channels2": 20, "inner": 48,
        "inner2": 80, "out": 10}


def bonsai_mamba2():
    model = bonsai("mamba2")
    config = model.ModelConfig(vocab_size=96, hidden_size=36, state_size=6, head_dim=8,
                               chunk_size=4, num_hidden_layers=2)
    module = nnx.eval_shape(lambda: model.Mamba2ForCausalLM(config, rngs=nnx.Rngs(0)))
    out = "heads*head_dim"
    return Model(lambda m, batch: m(batch["tokens"])["logits"], module,
                 {"tokens": shape(B, T, dtype=I32)}, {
                     "*embedding": "vocab | stream",
                     "*in_proj/kernel": f"stream | sum({out},{out},state,state,heads)",
                     "*conv1d/conv/kernel": f"window | 1 | sum({out},state,state)",
                     "*conv1d/conv/bias": f"sum({out},state,state)",
                     "*dt_bias": "heads", "*A_log": "heads", "*D": "heads",
                     "*mixer/norm/weight": out, "*layers/?/norm/weight": "stream",
                     "*final_norm/weight": "stream",
                     "*out_proj/kernel": f"{out} | stream",
                 }), {"stream": 36, "vocab": 96, "state": 6, "heads": 9, "head_dim": 8,
                      "window": 4}


def bonsai_umt5():
    model = bonsai("umt5")
    config = model.ModelConfig(vocab_size=96, d_model=36, d_kv=8, d_ff=76, num_layers=2,
                               num_heads=4, relative_attention_num_buckets=16)
    module = nnx.eval_shape(lambda: model.UMT5Model(config, rngs=nnx.Rngs(0)))

    def forward(module, batch):
        return module(input_ids=batch["tokens"], decoder_input_ids=batch["targets"])

    batch = {"tokens": shape(B, 12, dtype=I32), "targets": shape(B, T, dtype=I32)}
    q = {f"*Attention/{one}/kernel": "stream | heads*head_dim" for one in "qkv"}
    return Model(forward, module, batch, {
        **q, "*Attention/o/kernel": "heads*head_dim | stream",
        "*relative_attention_bias/embedding": "position | heads",
        "*embed_tokens/embedding": "vocab | stream", "*norm/scale": "stream",
        "*wi_?/kernel": "stream | inner", "*wo/kernel": "inner | stream",
        "lm_head/kernel": "stream | vocab",
    }), {"stream": 36, "heads": 4, "head_dim": 8, "inner": 76, "vocab": 96,
         "position": 16}


def bonsai_whisper():
    model = bonsai("whisper")
    import dataclasses
    config = dataclasses.replace(
        model.ModelConfig.whisper_tiny(), d_model=40, encoder_attention_heads=5,
        decoder_attention_heads=5, encoder_ffn_dim=112, decoder_ffn_dim=112,
        encoder_layers=2, decoder_layers=2, max_source_positions=12, max_length=14,
        num_mel_bins=20, vocab_size=96)
    module = nnx.eval_shape(lambda: model.Whisper(config, rngs=nnx.Rngs(0)))

    def forward(module, batch):
        hidden = module.encoder(batch["sound"])
        return module.decoder(batch["tokens"], None, hidden, None, False)

    batch = {"sound": shape(B, 24, 20), "tokens": shape(B, T, dtype=I32)}
    return Model(forward, module, batch, {
        **NNX_MHA, "encoder/conv1/kernel": "window | in | channels",
        "encoder/conv1/bias": "channels",
        "encoder/conv2/kernel": "window2 | channels | stream",
        "encoder/conv2/bias": "stream", "*layer_norm/*": "stream",
        "encoder/embed_positions/embedding": "position | stream", "decoder/embed_positions/embedding": "position2 | stream",
        "*embed_tokens/embedding": "vocab | stream",
        "*fc1/kernel": "stream | inner", "*fc1/bias": "inner",
        "*fc2/kernel": "inner | stream", "*fc2/bias": "stream",
    }), {**FACTORS, "vocab": 96, "window": 3, "window2": 3, "in": 20, "channels": 40,
         "position": 12, "position2": 14}


# ---- Equinox, whose layers are of one element: batches are those of vmap

def equinox_lm():
    import equinox as eqx

    class Block(eqx.Module):
        norm: eqx.nn.LayerNorm
        attention: eqx.nn.MultiheadAttention
        mlp: eqx.nn.MLP

        def __init__(self, key):
            self.norm = eqx.nn.LayerNorm(40)
            self.attention = eqx.nn.MultiheadAttention(5, 40, key=key)
            self.mlp = eqx.nn.MLP(40, 40, 112, 1, key=key)

        def __call__(self, x):
            h = jax.vmap(self.norm)(x)
            x = x + self.attention(h, h, h, mask=jnp.tril(jnp.ones((T, T), bool)))
            return x + jax.vmap(self.mlp)(x)

    class Language(eqx.Module):
        table: eqx.nn.Embedding
        blocks: list
        head: eqx.nn.Linear

        def __init__(self, key):
            self.table = eqx.nn.Embedding(96, 40, key=key)
            self.blocks = [Block(key), Block(key)]
            self.head = eqx.nn.Linear(40, 96, key=key)

        def __call__(self, tokens):
            x = jax.vmap(self.table)(tokens)
            for block in self.blocks:
                x = block(x)
            return jax.vmap(self.head)(x)

    params, static = eqx.partition(
        eqx.filter_eval_shape(Language, jax.random.key(0)),
        lambda x: isinstance(x, jax.ShapeDtypeStruct))

    def forward(params, batch):
        return jax.vmap(eqx.combine(params, static))(batch["tokens"])

    return Model(forward, params, lm_batch(), {
        "table/weight": "vocab | stream", "head/weight": "vocab | stream",
        "head/bias": "vocab", "*norm/*": "stream",
        "*query_proj/weight": "heads*head_dim | stream",
        "*key_proj/weight": "heads*head_dim | stream",
        "*value_proj/weight": "heads*head_dim | stream",
        "*output_proj/weight": "stream | heads*head_dim",
        "*layers/0/weight": "inner | stream", "*layers/0/bias": "inner",
        "*layers/1/weight": "stream | inner", "*layers/1/bias": "stream",
    }, loss=next_token), {**FACTORS, "vocab": 96}


MODELS = {one.__name__: one for one in (
    flax_lm1b, flax_wmt, flax_nlp_seq, flax_seq2seq, flax_ppo, flax_vae, flax_sst2,
    flax_imagenet, flax_mnist, flax_gemma, tunix_llama3, tunix_qwen2, tunix_qwen3,
    tunix_qwen3_moe, tunix_gemma, tunix_gemma3, tunix_gemma4, bonsai_qwen3, bonsai_vit,
    bonsai_convnext, bonsai_mamba2, bonsai_umt5, bonsai_whisper,
    equinox_lm)}
