"""The PyTorch programs of testdata/torch_programs: models of transformers at small
sizes, and one of this folder's own whose names say nothing.

Each entry gives a function and what it is called with; the function is a module, or a
training step."""

import copy
import os
import sys

import torch
import transformers
from torch import nn

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, os.path.join(os.path.dirname(HERE), "runtimes"))

# The configurations must be found first.
# pylint: disable=wrong-import-position
import families
import tp_logits_models

ROWS, LENGTH = 2, 7
# Sequences are padded to a chunk, which is 256 by default.
for chunked, key in (("mamba2", "chunk_size"), ("bamba", "mamba_chunk_size"),
                     ("falcon_h1", "mamba_chunk_size"),
                     ("granitemoehybrid", "mamba_chunk_size"),
                     ("zamba2", "chunk_size")):
    if chunked in families.FAMILIES:
        families.FAMILIES[chunked][1][key] = 8
# The configurations of now take the number of layers from the list of their types.
families.FAMILIES["kimi_linear"][1].pop("num_hidden_layers", None)


class Own(nn.Module):
    """Two blocks with fused projections, under names that say nothing."""

    def __init__(self, width=40, heads=5, inner=72, vocabulary=96):
        super().__init__()
        self.heads = heads
        self.zab = nn.Embedding(vocabulary, width)
        self.kel = nn.ModuleList(nn.ModuleDict({
            "ora": nn.LayerNorm(width), "wim": nn.Linear(width, 3 * width),
            "tuk": nn.Linear(width, width), "pes": nn.LayerNorm(width),
            "dof": nn.Linear(width, 2 * inner, bias=False),
            "gan": nn.Linear(inner, width, bias=False)}) for _ in range(2))
        self.lir = nn.Linear(width, vocabulary, bias=False)

    def attend(self, block, x):
        rows, length, width = x.shape
        split = block["wim"](x).view(rows, length, self.heads, 3, -1)
        q, k, v = split.transpose(1, 2).unbind(3)
        scores = q @ k.transpose(-1, -2) / q.shape[-1] ** 0.5
        hidden = torch.ones(length, length, device=x.device).triu(1).bool()
        scores = scores.masked_fill(hidden, float("-inf")).softmax(-1)
        return block["tuk"]((scores @ v).transpose(1, 2).reshape(rows, length, width))

    def forward(self, tokens):
        x = self.zab(tokens)
        for block in self.kel:
            x = x + self.attend(block, block["ora"](x))
            gate, up = block["dof"](block["pes"](x)).chunk(2, -1)
            x = x + block["gan"](nn.functional.silu(gate) * up)
        return self.lir(x)


def drawn(high, rows=ROWS, length=LENGTH, seed=2):
    return torch.randint(1, high, (rows, length),
                         generator=torch.Generator().manual_seed(seed))


def model_of(model_type, cache=False):
    model = tp_logits_models.model_of(model_type).float()
    config = model.config
    config._experts_implementation = "batched_mm"
    for part in [config, *vars(config).values()]:
        if isinstance(part, transformers.PretrainedConfig):
            part.use_cache = cache
    return model


def tokens_of(model, length=LENGTH):
    return drawn(model.config.get_text_config().vocab_size, length=length)


def run(model, tokens, **more):
    """Logits of tokens that are all attended to. Without a mask, transformers looks
    for packed sequences."""
    return model(input_ids=tokens, attention_mask=torch.ones_like(tokens), **more)


def prefill(model_type):
    model = model_of(model_type)
    return run, (model, tokens_of(model)), {"use_cache": False}


def decode(model_type):
    """One more token, with the cache of those before."""
    model = model_of(model_type, cache=True)
    tokens = tokens_of(model, LENGTH + 1)
    with torch.no_grad():
        out = run(model, tokens[:, :LENGTH], use_cache=True)
    name = "past_key_values" if getattr(out, "past_key_values", None) is not None \
        else "cache_params"
    cache = getattr(out, name, None)
    if cache is None:
        raise LookupError("the model returns no cache")
    return more, (model, tokens[:, LENGTH:]), {name: copy.deepcopy(cache)}


def more(model, tokens, **cache):
    """Logits of tokens after those of a cache."""
    mask = torch.ones(tokens.shape[0], LENGTH + tokens.shape[1], dtype=torch.long,
                      device=tokens.device)
    return model(input_ids=tokens, attention_mask=mask, use_cache=True, **cache)


def step(model_type):
    """A training step: the loss, its gradients, and AdamW."""
    model = Own() if model_type == "own" else model_of(model_type)
    tokens = drawn(96) if model_type == "own" else tokens_of(model)
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3)

    def train(model, batch, optimizer):
        optimizer.zero_grad()
        logits = model(batch) if model_type == "own" else \
            run(model, batch, use_cache=False).logits
        loss = nn.functional.cross_entropy(logits[:, :-1].flatten(0, 1),
                                           batch[:, 1:].flatten())
        loss.backward()
        optimizer.step()
        return loss

    # The optimizer's moments are inputs once it has them.
    train(model, tokens, optimizer)
    model.zero_grad()
    return train, (model, tokens, optimizer), {}


def own():
    return Own().eval(), (drawn(96),), {}


def of_class(name, config, given):
    """A model of transformers that no list of decoders has."""
    torch.manual_seed(0)
    config = getattr(transformers, name[0])(**config)
    config._attn_implementation = "eager"
    model = getattr(transformers, name[1])(config).eval()
    return model, (), given(config)


SIZES = {"num_hidden_layers": 2, "num_attention_heads": 6, "hidden_size": 48,
         "intermediate_size": 112}
ENCODERS = {
    "vit": lambda: of_class(("ViTConfig", "ViTForImageClassification"), {
        **SIZES, "image_size": 12, "patch_size": 4, "num_labels": 20},
        lambda config: {"pixel_values": torch.randn(ROWS, 3, 12, 12)}),
    "clip": lambda: of_class(("CLIPConfig", "CLIPModel"), {
        "projection_dim": 36,
        "text_config": {**SIZES, "vocab_size": 160, "max_position_embeddings": 20,
                        "eos_token_id": 159},
        "vision_config": {**SIZES, "hidden_size": 60, "intermediate_size": 100,
                          "image_size": 12, "patch_size": 4}},
        lambda config: {"input_ids": drawn(150), "pixel_values": torch.randn(ROWS, 3, 12, 12)}),
    "whisper": lambda: of_class(("WhisperConfig", "WhisperForConditionalGeneration"), {
        "d_model": 48, "encoder_layers": 2, "decoder_layers": 2, "vocab_size": 160,
        "encoder_attention_heads": 6, "decoder_attention_heads": 6, "num_mel_bins": 10,
        "encoder_ffn_dim": 112, "decoder_ffn_dim": 112, "max_source_positions": 9,
        "max_target_positions": 20, "pad_token_id": 0, "bos_token_id": 1,
        "eos_token_id": 2, "decoder_start_token_id": 1, "use_cache": False},
        lambda config: {"input_features": torch.randn(ROWS, 10, 18),
                        "decoder_input_ids": drawn(160)}),
    "t5": lambda: of_class(("T5Config", "T5ForConditionalGeneration"), {
        "d_model": 48, "d_kv": 8, "num_heads": 6, "d_ff": 112, "num_layers": 2,
        "vocab_size": 160, "use_cache": False, "relative_attention_num_buckets": 14},
        lambda config: {"input_ids": drawn(160), "decoder_input_ids": drawn(160, length=5)}),
    "bert": lambda: of_class(("BertConfig", "BertForMaskedLM"), {
        **SIZES, "vocab_size": 160, "max_position_embeddings": 20},
        lambda config: {"input_ids": drawn(160)}),
}

# The recorded programs, by the names of their files.
RECORDED = {
    **{name: (lambda name=name: prefill(name)) for name in (
        "llama", "gpt2", "phi3", "qwen3_next", "gpt_oss", "mamba2", "falcon",
        "llama4_text", "olmo2", "deepseek_v3", "gpt_neox", "gemma2", "mixtral",
        "qwen3_moe", "glm4", "cohere2", "mamba", "starcoder2", "olmoe", "stablelm",
        "jamba", "bloom")},
    **{f"{name}.decode": (lambda name=name: decode(name)) for name in (
        "llama", "deepseek_v3", "gemma3_text", "mixtral", "gpt2", "falcon", "mamba",
        "qwen2_moe", "gpt_oss", "qwen3")},
    **ENCODERS,
    "own": own,
    **{f"{name}.step": (lambda name=name: step(name)) for name in (
        "llama", "own", "mistral", "mixtral", "olmo", "nanochat", "granitemoe", "mamba")},
}
