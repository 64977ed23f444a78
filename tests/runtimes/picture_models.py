"""Models of transformers that read pictures next to text, at small random sizes, and a
function that runs each: the features of a picture precede the tokens, as placing them
among the tokens depends on data."""

import random

import torch
import transformers

ROPE = {"rope_type": "default", "rope_theta": 1e4}
# A picture of four by four patches.
SIDE, PATCH, CHANNELS = 16, 4, 3
PICTURE = (CHANNELS, SIDE, SIDE)
# Patches of two frames, one row for each, and how many there are of each side.
PATCHES, GRID = (16, CHANNELS * 2 * PATCH * PATCH), [[1, 4, 4]]


def sections(head):
    """The parts of a head for times, rows and columns."""
    side = head // 8
    return {**ROPE, "mrope_section": [head // 2 - 2 * side, side, side]}


def sizes(seed):
    """Those of the text model and of the tower."""
    draw = random.Random(seed)
    heads, seen = draw.choice([4, 6]), draw.choice([2, 4])
    text = {"hidden_size": draw.choice([48, 60, 72]), "num_hidden_layers": 2,
            "intermediate_size": draw.choice([88, 104]), "num_attention_heads": heads,
            "num_key_value_heads": draw.choice([2, heads]), "head_dim": draw.choice([8, 12]),
            "vocab_size": draw.choice([144, 176]), "max_position_embeddings": 64}
    # Rotary positions divide a head by four.
    tower = {"hidden_size": seen * draw.choice([16, 24]), "num_attention_heads": seen,
             "intermediate_size": draw.choice([92, 116]), "num_hidden_layers": 3,
             "image_size": SIDE, "patch_size": PATCH, "num_channels": CHANNELS}
    return text, tower


def of_qwen(tower, out):
    """The keys of Qwen's towers."""
    return {"hidden_size": tower["hidden_size"], "out_hidden_size": out, "depth": 2,
            "num_heads": tower["num_attention_heads"], "in_channels": CHANNELS,
            "intermediate_size": tower["intermediate_size"], "patch_size": PATCH,
            "spatial_merge_size": 2, "temporal_patch_size": 2}


def llava(text, tower):
    return {"text_config": {**text, "model_type": "llama"},
            "vision_config": {**tower, "model_type": "clip_vision_model"}}


def mistral3(text, tower):
    head = tower["hidden_size"] // tower["num_attention_heads"]
    return {"text_config": {**text, "model_type": "mistral"}, "spatial_merge_size": 2,
            "vision_config": {**tower, "model_type": "pixtral", "head_dim": head}}


def gemma3(text, tower):
    return {"text_config": text, "mm_tokens_per_image": 4,
            "vision_config": {**tower, "vision_use_head": False}}


def llama4(text, tower):
    seen = {"vision_output_dim": 52, "projector_input_dim": 52, "projector_output_dim": 52,
            "pixel_shuffle_ratio": 0.5, "intermediate_size": 4 * tower["hidden_size"]}
    experts = {"num_local_experts": 4, "num_experts_per_tok": 1, "intermediate_size_mlp": 72,
               "interleave_moe_layer_step": 2}
    return {"text_config": {**text, **experts}, "vision_config": {**tower, **seen}}


def mllama(text, tower):
    heads = tower.pop("num_attention_heads")
    seen = {"attention_heads": heads, "num_global_layers": 1, "max_num_tiles": 2,
            "supported_aspect_ratios": [[1, 1], [1, 2]], "intermediate_layers_indices": [0],
            "vision_output_dim": 2 * tower["hidden_size"]}
    text = {**text, "hidden_size": 12 * text["num_attention_heads"], "num_hidden_layers": 3,
            "cross_attention_layers": [1], "pad_token_id": 0, "rope_parameters": ROPE}
    text.pop("head_dim")
    return {"text_config": text, "vision_config": {**tower, **seen}}


def qwen2_vl(text, tower):
    text = {**text, "hidden_size": 16 * text["num_attention_heads"],
            "rope_parameters": sections(16)}
    text.pop("head_dim")
    seen = of_qwen(tower, text["hidden_size"])
    return {"text_config": text, "vision_config": {
        **seen, "embed_dim": tower["hidden_size"], "hidden_size": text["hidden_size"],
        "mlp_ratio": 3}}


def qwen2_5_vl(text, tower):
    text = qwen2_vl(text, tower)["text_config"]
    return {"text_config": text, "vision_config": {
        **of_qwen(tower, text["hidden_size"]), "fullatt_block_indexes": [0, 1],
        "window_size": SIDE}}


def qwen3_vl(text, tower):
    return {"text_config": {**text, "rope_parameters": sections(text["head_dim"])},
            "vision_config": {**of_qwen(tower, text["hidden_size"]),
                              "num_position_embeddings": 16,
                              "deepstack_visual_indexes": [0]}}


def qwen3_vl_moe(text, tower):
    return qwen3_vl({**text, "num_experts": 4, "num_experts_per_tok": 2,
                     "moe_intermediate_size": 28}, tower)


QWEN = {"qwen2_vl": ("Qwen2VL", qwen2_vl), "qwen2_5_vl": ("Qwen2_5_VL", qwen2_5_vl),
        "qwen3_vl": ("Qwen3VL", qwen3_vl), "qwen3_vl_moe": ("Qwen3VLMoe", qwen3_vl_moe)}
TYPES = {"llava": ("Llava", llava), "mistral3": ("Mistral3", mistral3),
         "gemma3": ("Gemma3", gemma3), "llama4": ("Llama4", llama4),
         "mllama": ("Mllama", mllama), **QWEN}
# Types that are a part of these: the part of the config, and what its names begin with.
PARTS = {"pixtral": ("mistral3", "vision_config", "model.vision_tower."),
         "siglip_vision_model": ("gemma3", "vision_config", "model.vision_tower."),
         "qwen3_vl_text": ("qwen3_vl", "text_config", "model.language_model."),
         "qwen3_vl_moe_text": ("qwen3_vl_moe", "text_config", "model.language_model.")}


def pixels_of(model_type):
    """What differs between pictures, and what does not: their sizes."""
    if model_type in QWEN:
        return {"pixel_values": torch.randn(PATCHES)}, {"image_grid_thw": torch.tensor(GRID)}
    if model_type == "mllama":
        return {"pixel_values": torch.randn(1, 1, 2, *PICTURE),
                "aspect_ratio_ids": torch.ones(1, 1, dtype=torch.long),
                "aspect_ratio_mask": torch.ones(1, 1, 2, dtype=torch.long)}, {}
    same = {"image_sizes": torch.tensor([[SIDE, SIDE]])} if model_type == "mistral3" else {}
    return {"pixel_values": torch.randn(1, *PICTURE)}, same


def features_of(model, pixels):
    """The picture in the width of the text model."""
    out = model.get_image_features(**pixels)
    while not torch.is_tensor(out):
        pooled = getattr(out, "pooler_output", None)
        out = out[0] if pooled is None else pooled
    if model.config.model_type == "llama4":
        out = model.multi_modal_projector(out)
    return out.reshape(1, -1, out.shape[-1])


def ahead(model, tokens, pixels):
    """The logits of tokens behind a picture."""
    inner = getattr(model, "model", model)
    x = torch.cat([features_of(model, pixels), model.get_input_embeddings()(tokens)], 1)
    seen = torch.ones(x.shape[:2], dtype=torch.long)
    out = inner.language_model(inputs_embeds=x, attention_mask=seen, use_cache=False)[0]
    return out if inner is model else model.lm_head(out)


def crossed(model, tokens, pixels):
    """The logits of tokens of which some layers attend to a picture."""
    return model(input_ids=tokens, **pixels, use_cache=False).logits


def model_of(model_type, seed):
    """A function with a model, tokens and pixels."""
    name, make = TYPES[model_type]
    config = getattr(transformers, f"{name}Config")(**make(*sizes(seed)))
    for part in [config, *vars(config).values()]:
        if isinstance(part, transformers.PretrainedConfig):
            part.use_cache = False
            part._attn_implementation = "eager"
            part._experts_implementation = "batched_mm"
    torch.manual_seed(seed)
    model = getattr(transformers, f"{name}ForConditionalGeneration")(config).eval()
    pixels, same = pixels_of(model_type)
    run = crossed if model_type == "mllama" else ahead
    return (lambda model, tokens, pixels: run(model, tokens, {**pixels, **same}),
            (model, torch.randint(1, 130, (1, 7)), pixels))
