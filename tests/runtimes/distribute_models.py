"""Small models that plan.distribute runs on several processes, by the names of their
libraries, and one's own. Each entry makes a module and its arguments: a tuple, or a dict
of them by name."""

import torch
from torch import nn
from torch.nn import functional

VOCABULARY, WIDTH, INNER, LENGTH = 96, 48, 80, 8


def tokens(rows=2, length=LENGTH):
    return torch.randint(3, VOCABULARY, (rows, length),
                         generator=torch.Generator().manual_seed(5))


def drawn(*shape):
    return torch.randn(shape, generator=torch.Generator().manual_seed(6))


# ---- One's own

class Norm(nn.Module):
    def __init__(self, width):
        super().__init__()
        self.scale = nn.Parameter(torch.ones(width))

    def forward(self, x):
        return x * torch.rsqrt(x.pow(2).mean(-1, keepdim=True) + 1e-5) * self.scale


class Block(nn.Module):
    """Grouped queries and a gate, with the number of heads as a literal."""

    def __init__(self, fused, written_out):
        super().__init__()
        self.heads, self.kv, self.size = 8, 4, WIDTH // 8
        self.fused, self.written_out = fused, written_out
        inside = self.kv * self.size
        self.one, self.two = Norm(WIDTH), Norm(WIDTH)
        if fused:
            self.kv, inside = 8, WIDTH
            self.qkv = nn.Linear(WIDTH, 3 * WIDTH)
        else:
            self.q = nn.Linear(WIDTH, WIDTH, bias=False)
            self.k, self.v = (nn.Linear(WIDTH, inside, bias=False) for _ in range(2))
        self.o = nn.Linear(WIDTH, WIDTH, bias=False)
        self.gate, self.up = (nn.Linear(WIDTH, INNER, bias=False) for _ in range(2))
        self.down = nn.Linear(INNER, WIDTH, bias=False)

    def attend(self, x):
        rows, length, _ = x.shape
        parts = self.qkv(x).chunk(3, -1) if self.fused else (
            self.q(x), self.k(x), self.v(x))
        q, k, v = (one.view(rows, length, heads, self.size).transpose(1, 2)
                   for one, heads in zip(parts, (self.heads, self.kv, self.kv)))
        k, v = (one.repeat_interleave(self.heads // self.kv, 1) for one in (k, v))
        if self.written_out:
            hidden = torch.ones(length, length, dtype=torch.bool).triu(1)
            scores = (q @ k.transpose(-1, -2) / self.size ** 0.5).masked_fill(
                hidden, float("-inf"))
            out = scores.softmax(-1) @ v
        else:
            out = functional.scaled_dot_product_attention(q, k, v, is_causal=True)
        return self.o(out.transpose(1, 2).reshape(rows, length, WIDTH))

    def forward(self, x):
        x = x + self.attend(self.one(x))
        y = self.two(x)
        return x + self.down(functional.silu(self.gate(y)) * self.up(y))


class Decoder(nn.Module):
    """`table` is how tokens are looked up: by a module, a function or an index."""

    def __init__(self, fused=False, written_out=False, tied=False, table="module",
                 convolved=False):
        super().__init__()
        self.embedding = nn.Embedding(VOCABULARY, WIDTH, padding_idx=4)
        self.positions = nn.Embedding(32, WIDTH)
        self.table = table
        self.taps = nn.Conv1d(WIDTH, WIDTH, 3, padding=2, groups=WIDTH) \
            if convolved else None
        self.blocks = nn.ModuleList(Block(fused, written_out) for _ in range(2))
        self.norm = Norm(WIDTH)
        self.head = nn.Linear(WIDTH, VOCABULARY, bias=False)
        if tied:
            self.head.weight = self.embedding.weight

    def forward(self, ids):
        if self.table == "module":
            x = self.embedding(ids)
        elif self.table == "function":
            x = functional.embedding(ids, self.embedding.weight)
        else:
            x = self.embedding.weight[ids]
        x = x + self.positions(torch.arange(ids.shape[1], device=ids.device))
        if self.taps is not None:
            x = x + self.taps(x.transpose(1, 2))[..., :ids.shape[1]].transpose(1, 2)
        for block in self.blocks:
            x = block(x)
        return self.head(self.norm(x))


def own(**given):
    return lambda: (Decoder(**given), (tokens(),))


OWN = {
    "own": own(),
    "own.written_out": own(written_out=True),
    "own.tied": own(tied=True),
    "own.function": own(table="function"),
    "own.index": own(table="index"),
    "own.fused": own(fused=True),
    "own.convolved": own(convolved=True),
    "own.ruled": own(fused=True, convolved=True),
}


# ---- transformers

LLAMA = {"vocab_size": VOCABULARY, "hidden_size": WIDTH, "intermediate_size": INNER,
         "num_hidden_layers": 2, "num_attention_heads": 8, "num_key_value_heads": 4,
         "head_dim": 8, "max_position_embeddings": 64, "pad_token_id": 0,
         "bos_token_id": 1, "eos_token_id": 2}
EXPERTS = {**LLAMA, "num_experts": 4, "num_local_experts": 4, "num_experts_per_tok": 2,
           "moe_intermediate_size": 32}
LATENT = {**EXPERTS, "num_attention_heads": 4, "num_key_value_heads": 4,
          "q_lora_rank": 16, "kv_lora_rank": 12, "qk_rope_head_dim": 4,
          "qk_nope_head_dim": 8, "v_head_dim": 8, "head_dim": 4, "n_routed_experts": 4, "n_group": 1,
          "topk_group": 1, "first_k_dense_replace": 1}
WINDOW = {**LLAMA, "sliding_window": 4, "query_pre_attn_scalar": 8}


def transformers_model(model_type, given, attention="sdpa"):
    def make():
        import transformers
        config = transformers.CONFIG_MAPPING[model_type](**given)
        config._attn_implementation = attention
        config._experts_implementation = "batched_mm"
        model = transformers.AutoModelForCausalLM.from_config(config)
        return model, {"input_ids": tokens(), "use_cache": False}
    return make


TRANSFORMERS = {f"transformers.{name}": transformers_model(*given) for name, given in {
    "llama": ("llama", LLAMA),
    "llama.tied": ("llama", {**LLAMA, "tie_word_embeddings": True}),
    "qwen3": ("qwen3", LLAMA),
    "qwen3.eager": ("qwen3", LLAMA, "eager"),
    "gemma3_text": ("gemma3_text", WINDOW),
    "glm4": ("glm4", {**LLAMA, "partial_rotary_factor": 0.5}),
    "olmo2": ("olmo2", {**LLAMA, "head_dim": 6}),
    "phi3": ("phi3", {**LLAMA, "head_dim": 6}),
    "granite": ("granite", LLAMA),
    "starcoder2": ("starcoder2", LLAMA),
    "mixtral": ("mixtral", EXPERTS),
    "qwen3_moe": ("qwen3_moe", EXPERTS),
    "gpt_oss": ("gpt_oss", {**EXPERTS, "sliding_window": 4}, "eager"),
    "deepseek_v3": ("deepseek_v3", LATENT),
    "gpt2": ("gpt2", {"vocab_size": VOCABULARY, "n_embd": WIDTH, "n_layer": 2,
                      "n_head": 4, "n_positions": 64, "bos_token_id": 1,
                      "eos_token_id": 2}),
    "gpt_neox": ("gpt_neox", {**LLAMA, "num_attention_heads": 4}),
    "falcon": ("falcon", {"vocab_size": VOCABULARY, "hidden_size": WIDTH,
                          "num_hidden_layers": 2, "num_attention_heads": 4,
                          "num_kv_heads": 2, "new_decoder_architecture": True}),
    "opt": ("opt", {**LLAMA, "ffn_dim": INNER, "word_embed_proj_dim": WIDTH}),
}.items()}


# ---- Libraries that the tests' environment may lack

def litgpt_model(name, rows=2, **given):
    def make():
        from litgpt import Config, GPT
        sizes = {"n_layer": 2, "padded_vocab_size": VOCABULARY,
                 "vocab_size": VOCABULARY, "block_size": 32, "n_embd": WIDTH,
                 "n_head": 8, "n_query_groups": 4, "head_size": 8,
                 "intermediate_size": INNER, **given}
        return GPT(Config.from_name(name, **sizes)), (tokens(rows),)
    return make


LITGPT = {f"litgpt.{key}": litgpt_model(name, **given) for key, (name, given) in {
    "pythia": ("pythia-14m", {"n_query_groups": 8, "head_size": 6}),
    "llama": ("Llama-3.1-8B", {}),
    "gemma2": ("Gemma-2-2b", {"sliding_window_size": 4}),
    "qwen3": ("Qwen3-0.6B", {}),
    "olmo2": ("OLMo-2-1124-7B", {"n_query_groups": 8, "head_size": 6}),
    # Rows and positions are flattened, so that the processes must divide the rows.
    "mixtral": ("Mixtral-8x7B-v0.1", {"n_expert": 4, "n_expert_per_token": 2,
                                      "rows": 4}),
}.items()}


def diffusers_model(cls, inputs, **given):
    def make():
        import diffusers
        return getattr(diffusers, cls)(**given), {**inputs(), "return_dict": False}
    return make


def image_and_text(**more):
    return lambda: {"hidden_states": drawn(2, 4, 8, 8), "timestep": torch.tensor([3., 7.]),
                    "encoder_hidden_states": drawn(2, 5, 24), **more}


DIT = {"in_channels": 4, "num_attention_heads": 4, "attention_head_dim": 12}
DIFFUSERS = {
    "diffusers.flux": diffusers_model(
        "FluxTransformer2DModel", lambda: {
            "hidden_states": drawn(2, 16, 16), "encoder_hidden_states": drawn(2, 5, 24),
            "pooled_projections": drawn(2, 20), "timestep": torch.tensor([3., 7.]),
            "img_ids": torch.zeros(16, 3), "txt_ids": torch.zeros(5, 3),
            "guidance": torch.tensor([3., 7.])},
        patch_size=1, in_channels=16, num_layers=1, num_single_layers=1,
        attention_head_dim=12, num_attention_heads=4, joint_attention_dim=24,
        pooled_projection_dim=20, guidance_embeds=True, axes_dims_rope=[4, 4, 4]),
    "diffusers.sd3": diffusers_model(
        "SD3Transformer2DModel", image_and_text(pooled_projections=drawn(2, 20)),
        **DIT, sample_size=8, patch_size=2, num_layers=2, joint_attention_dim=24,
        caption_projection_dim=48, pooled_projection_dim=20, out_channels=4),
    "diffusers.wan": diffusers_model(
        "WanTransformer3DModel", lambda: {
            "hidden_states": drawn(2, 4, 1, 8, 8), "timestep": torch.tensor([3, 7]),
            "encoder_hidden_states": drawn(2, 5, 24)},
        **DIT, out_channels=4, text_dim=24, freq_dim=16, ffn_dim=INNER, num_layers=2,
        rope_max_seq_len=32),
    "diffusers.unet": diffusers_model(
        "UNet2DConditionModel", lambda: {
            "sample": drawn(2, 4, 16, 16), "timestep": torch.tensor(5),
            "encoder_hidden_states": drawn(2, 5, 24)},
        sample_size=16, block_out_channels=(16, 32), layers_per_block=1,
        down_block_types=("CrossAttnDownBlock2D", "DownBlock2D"),
        up_block_types=("UpBlock2D", "CrossAttnUpBlock2D"), cross_attention_dim=24,
        attention_head_dim=4, norm_num_groups=4),
}


def timm_model(cls, **given):
    def make():
        import timm.models
        return getattr(timm.models, cls)(num_classes=10, **given), (drawn(2, 3, 32, 32),)
    return make


TIMM = {
    "timm.vit": timm_model("VisionTransformer", img_size=32, patch_size=8,
                           embed_dim=WIDTH, depth=2, num_heads=4),
    "timm.swin": timm_model("SwinTransformer", img_size=32, patch_size=2, embed_dim=24,
                            depths=(2, 2), num_heads=(2, 4), window_size=4),
    "timm.eva": timm_model("Eva", img_size=32, patch_size=8, embed_dim=WIDTH, depth=2,
                           num_heads=4, swiglu_mlp=True, use_rot_pos_emb=True,
                           mlp_ratio=2),
}


def peft_model(**given):
    def make():
        import peft
        model, inputs = transformers_model("llama", LLAMA)()
        config = peft.LoraConfig(r=4, task_type="CAUSAL_LM", target_modules=[
            "q_proj", "v_proj", "o_proj", "gate_proj", "down_proj"], **given)
        return peft.get_peft_model(model, config), inputs
    return make


PEFT = {"peft.lora": peft_model(), "peft.dora": peft_model(use_dora=True)}
MODELS = {**OWN, **TRANSFORMERS, **LITGPT, **DIFFUSERS, **TIMM, **PEFT}


def model_of(name):
    """The model without dropout, with drawn weights that are all trained."""
    torch.manual_seed(0)
    model, given = MODELS[name]()
    draw = torch.Generator().manual_seed(1)
    with torch.no_grad():
        for values in model.parameters():
            normal = torch.randn(values.shape, generator=draw)
            values.copy_(normal * values[0].numel() ** -0.5 if values.dim() > 1
                         else values + 0.1 * normal)
            values.requires_grad_()
    return model.eval(), given


def run(model, given):
    return model(**given) if isinstance(given, dict) else model(*given)
