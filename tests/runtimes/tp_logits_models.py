"""The small models of the architectures whose logits are compared: sizes, classes
and inputs where those of `families` do not do, and drawn weights."""

import importlib
import inspect
import math

import torch
import transformers
from torch.distributed.tensor import DTensor
from transformers.initialization import no_tie_weights
from transformers.models.auto import modeling_auto

import families
import tree_answers

LENGTH = 6
# What the sizes of `families` leave open, or what a class does not accept.
LATENT = {"num_key_value_heads": 6, "head_dim": 4, "qk_head_dim": 12}
GROUPS = {"n_group": 2, "topk_group": 1}
ROPE = {"rope_type": "default", "rope_theta": 1e4}
SECTIONS = {"rope_parameters": {**ROPE, "mrope_section": [2, 1, 1]}}
# Vision models whose heads' size rotary positions divide by four.
VISION = {"num_attention_heads": 6, "num_heads": 6, "hidden_size": 48}
# Four patches become one.
PIXELS = {"intermediate_size": 192, "vision_output_dim": 60}
MERGED = {"out_hidden_size": 192, "projector_hidden_size": 40}
LINEAR = {"linear_head_dim": 8, "linear_num_heads": 6}
EXPERTS = {"num_local_experts": 4, "num_experts_per_tok": 2}
MORE = {
    "axk1": {**LATENT, **GROUPS},
    "axk2": LATENT, "deepseek_v3": LATENT, "deepseek_v32": LATENT,
    "deepseek_v2": {**LATENT, "num_experts_per_tok": 2},
    "glm4_moe_lite": LATENT, "glm_moe_dsa": LATENT, "minicpm3": LATENT,
    "mistral_large4_text": LATENT, "youtu": LATENT,
    "unlimited_ocr_text": LATENT,
    "longcat_flash": {**LATENT, "moe_topk": 2, "zero_expert_num": 2,
                      "expert_ffn_hidden_size": 28},
    "mistral4": {**LATENT, "first_k_dense_replace": 1,
                 "rope_parameters": {
                     **ROPE, "partial_rotary_factor": 1 / 3,
                     "llama_4_scaling_beta": 0.1,
                     "original_max_position_embeddings": 64}},
    "bailing_hybrid": {
        **LATENT, **LINEAR, "num_expert_group": 2, "topk_group": 1,
        "num_experts_per_token": 2,
        "layer_types": ["linear_attention", "linear_attention",
                        "full_attention"],
        "mlp_layer_types": ["dense", "sparse", "sparse"]},
    "kimi_linear": {
        "num_hidden_layers": 3,
        **LATENT, **LINEAR, "num_experts_per_token": 2,
        "layer_types": ["linear_attention", "full_attention",
                        "linear_attention"],
        "mlp_layer_types": ["dense", "sparse", "sparse"]},
    "dots3_note_text": {
        **LATENT, "head_dim": 12, "index_topk": 4, "index_head_dim": 8,
        "index_n_heads": 2, "shared_experts_intermediate_size": 28,
        "layer_types": ["indexed_attention", "sliding_attention",
                        "indexed_attention"],
        "mlp_layer_types": ["dense", "sparse", "sparse"],
        "per_layer_config": {}},
    "dots3_note_vision_encoder": {
        **VISION, "adapter_in_dim": 48, "adapter_out_dim": 48,
        "mlp_layer_types": ["dense", "sparse", "sparse"],
        "per_layer_config": {}},
    "glm5_next_text": {
        **LATENT, **LINEAR, "qk_rope_head_dim": 0, "qk_head_dim": 8,
        "head_dim": 0, "index_topk": 4, "index_kpool": 2,
        "index_head_dim": 8, "index_n_heads": 2,
        "layer_types": ["linear_attention", "indexed_attention",
                        "linear_attention"],
        "indexer_types": ["full"] * 3,
        "mlp_layer_types": ["dense", "sparse", "sparse"]},
    "helium": {"head_dim": 8},
    "esmc": {"num_key_value_heads": 6, "head_dim": 8},
    "cohere_compass_text": {
        "layer_types": ["full_attention", "sliding_attention",
                        "full_attention"],
        "rope_parameters": {"full_attention": ROPE,
                            "sliding_attention": ROPE}},
    "deepseek_ocr2_text": {
        "num_experts_per_tok": 2, "head_dim": 8,
        "mlp_layer_types": ["dense", "sparse", "sparse"]},
    "deepseek_v4": {
        "num_key_value_heads": 1, "head_dim": 16, "o_groups": 2,
        "o_lora_rank": 10, "index_n_heads": 2, "index_head_dim": 8,
        "index_topk": 2, "hc_mult": 2,
        "layer_types": ["sliding_attention", "compressed_sparse_attention",
                        "heavily_compressed_attention"],
        "compress_rates": {"compressed_sparse_attention": 2,
                           "heavily_compressed_attention": 3},
        "mlp_layer_types": ["hash_moe", "moe", "moe"],
        "partial_rotary_factor": 0.5},
    "diffusion_gemma_text": {
        "num_experts": 4, "top_k_experts": 2, "moe_intermediate_size": 28,
        "per_layer_config": {}},
    "ernie4_5_vl_moe_text": {
        "moe_intermediate_size": [28, 20], "head_dim": 8,
        "rope_parameters": {**ROPE, "mrope_section": [1, 1, 2]}},
    "ernie4_5_vl_moe_vision": VISION,
    "gemma4_text": {"vocab_size_per_layer_input": 160,
                    "per_layer_config": {}},
    "gemma4_vision": {"head_dim": 8, "num_key_value_heads": 6,
                      "pooling_kernel_size": 2, "position_embedding_size": 16},
    "inkling2_text": {
        "swa_num_attention_heads": 6, "swa_num_key_value_heads": 2,
        "swa_head_dim": 10, "unpadded_vocab_size": 150,
        "n_layers_per_attn_res_block": 2},
    "lfm2_moe": {"layer_types": ["conv", "full_attention", "conv"],
                 "num_dense_layers": 1},
    "llama4": {"image_token_index": 158, "text_config": {"num_hidden_layers": 4,
                               "interleave_moe_layer_step": 2,
                               "num_experts_per_tok": 1},
               "vision_config": PIXELS, "pad_token_id": 0},
    "llama4_vision_model": PIXELS,
    "mimo_v2_flash": {
        "num_attention_heads": 8, "head_dim": 12, "v_head_dim": 6,
        "layer_types": ["full_attention", "sliding_attention",
                        "sliding_attention"],
        "mlp_layer_types": ["dense", "sparse", "sparse"],
        "per_layer_config": {}},
    "muse_glimmer": {**MERGED, "image_token_id": 158, "video_token_id": 159},
    "muse_spark": {**MERGED, "image_token_id": 157, "video_token_id": 158,
                   "audio_token_id": 159,
                   "text_config": {"moe_hidden_size": 36, "head_dim": 10},
                   "audio_config": {"num_hidden_layers": 4,
                                    "hidden_sizes": [8, 12, 16, 20]}},
    "muse_glimmer_assistant": {"target_layer_ids": [1, 2], "block_size": 4,
                               "vocab_size": 160},
    "muse_spark_text": {"moe_hidden_size": 36, "head_dim": 10},
    "neomme": {"head_dim": 16},
    "phi4_multimodal": {
        "vision_config": {"crop_size": 32, "image_token_id": 158},
        "audio_config": {
            "num_blocks": 1, "ext_pw_out_channel": 48,
            "depthwise_separable_out_channel": 48, "nemo_conv_channels": 16,
            "audio_token_id": 159}},
    "qwen3_omni_moe_talker_text": {"shared_expert_intermediate_size": 28,
                                   "head_dim": 8, **SECTIONS},
    "step3p5": {
        "share_expert_dim": 28, "sliding_window": 4,
        "num_sliding_attention_heads": 6, "query_pre_attn_scalar": 10,
        "mlp_layer_types": ["dense", "sparse", "sparse"]},
    "t5gemma2_text": {"dropout_rate": 0.0, "query_pre_attn_scalar": 10},
    "t5gemma2_decoder": {"dropout_rate": 0.0, "query_pre_attn_scalar": 10},
    "t5_gemma_module": {"dropout_rate": 0.0, "query_pre_attn_scalar": 10},
    **{name: {"head_dim": 8, **SECTIONS}
       for name in ("glm4v_text", "glm_image_text", "glm_ocr_text",
                    "paddleocr_vl_text", "qwen2_vl_text", "qwen2_5_vl_text",
                    "qwen2_5_omni_text", "cosmos3_edge_text")},
    "glm4v_moe_text": {"head_dim": 8, "rope_parameters": {
        **ROPE, "partial_rotary_factor": 1.0, "mrope_section": [2, 1, 1]}},
}
# Classes that no table of transformers names for a configuration's type.
CLASSES = {"llama4": "Llama4ForConditionalGeneration",
           "muse_glimmer": "MuseGlimmerForConditionalGeneration",
           "muse_spark": "MuseSparkForConditionalGeneration",
           "t5_gemma_module": "T5GemmaEncoder",
           "t5": "T5ForConditionalGeneration",
           "vit": "ViTForImageClassification",
           "whisper": "WhisperForConditionalGeneration"}
# Parameters of code that computes in float32 whatever the model's dtype is.
SINGLE = {"inkling2_text": ".mlp.gate.weight"}
def class_of(model_type, config_class):
    """The class with the most of the model: with logits where there is one."""
    if model_type in CLASSES:
        return getattr(importlib.import_module(
            config_class.__module__.replace(".configuration_", ".modeling_")),
            CLASSES[model_type])
    for names in (modeling_auto.MODEL_FOR_CAUSAL_LM_MAPPING_NAMES,
                  modeling_auto.MODEL_MAPPING_NAMES):
        name = names.get(model_type)
        name = name[0] if isinstance(name, (list, tuple)) else name
        if name and hasattr(transformers, name):
            return getattr(transformers, name)
    module = importlib.import_module(config_class.__module__.replace(
        ".configuration_", ".modeling_"))
    found = [item for _, item in inspect.getmembers(module, inspect.isclass)
             if issubclass(item, transformers.PreTrainedModel)
             and getattr(item, "config_class", None) is config_class
             and "forward" in vars(item)]
    found.sort(key=lambda item: ("ForConditional" not in item.__name__,
                                 "ForCausalLM" not in item.__name__,
                                 -len(item.__name__)))
    return found[0] if found else None


def config_of(model_type, config_class):
    more = {**families.FAMILIES.get(model_type, (0, {}))[1],
            **MORE.get(model_type, {})}
    given = tree_answers.sized(config_class().to_dict(), more)
    given = {key: value for key, value in given.items()
             if key != "model_type"}
    return config_class.from_dict({**given, "model_type": model_type})


def model_of(model_type, tied=True):
    """The model with drawn weights. Without `tied`, those that share a tensor
    have one each, of the same values, as where transformers shards a model."""
    config_class = transformers.CONFIG_MAPPING[model_type]
    config = config_of(model_type, config_class)
    made = class_of(model_type, config_class)
    if made is None:
        raise LookupError("no model class")
    config._attn_implementation = config._experts_implementation = "eager"
    config.use_cache = False
    for part in [config, *(v for v in vars(config).values() if isinstance(
            v, transformers.PretrainedConfig))]:
        for key in list(vars(part)):
            if "dropout" in key or key.endswith("pdrop"):
                none = 0 if isinstance(getattr(part, key), int) else 0.0
                setattr(part, key, none)
    torch.manual_seed(0)
    if not tied:
        with no_tie_weights():
            model = made._from_config(config).double().eval()
        given = model_of(model_type)
        for (name, values), (_, of_given) in [
                *zip(model.named_parameters(remove_duplicate=False),
                     given.named_parameters(remove_duplicate=False)),
                *zip(model.named_buffers(), given.named_buffers())]:
            values.data = of_given.data.clone()
        return model
    model = made._from_config(config)
    model = model.double().eval()
    with torch.no_grad():
        draw = torch.Generator().manual_seed(1)
        for name, values in model.named_parameters():
            normal = torch.randn(values.shape, generator=draw,
                                 dtype=torch.float64)
            values.copy_(1 + 0.1 * normal if values.ndim < 2 else
                         normal * values.shape[-1] ** -0.5)
            if name.endswith(SINGLE.get(model_type, "none")):
                values.data = values.data.float()
    return model


def drawn(*shape):
    return torch.randn(shape, generator=torch.Generator().manual_seed(2),
                       dtype=torch.float64)


def image_patches(config, grid=(1, 4, 4), channels=3, frames=1):
    """The pixels of a grid of patches, one row for each patch."""
    patch = getattr(config, "patch_size", 8)
    return drawn(math.prod(grid), channels * frames * patch * patch)


def with_image(ids, token, count):
    """The first row's tokens from the second on are those of an image."""
    longer = torch.cat([ids, ids, ids], dim=1)
    longer[longer == token] = 1
    longer[0, 1:1 + count] = token
    return longer


GRID = torch.tensor([[1, 4, 4]])
# What goes into a model that does not take tokens, or not tokens alone.
INPUTS = {
    "clip": lambda config, ids: {
        "input_ids": ids % config.text_config.vocab_size,
        "pixel_values": drawn(2, 3, *2 * (config.vision_config.image_size,))},
    "t5": lambda config, ids: {"input_ids": ids, "decoder_input_ids": ids[:, :4]},
    "vit": lambda config, ids: {
        "pixel_values": drawn(2, 3, *2 * (config.image_size,))},
    "whisper": lambda config, ids: {
        "input_features": drawn(
            2, config.num_mel_bins, 2 * config.max_source_positions),
        "decoder_input_ids": ids},
    "deepseek_ocr2_encoder": lambda config, ids: {
        "inputs_embeds": drawn(2, LENGTH, config.hidden_size),
        "num_patches": 3},
    "dots3_note_vision_encoder": lambda config, ids: {
        "pixel_values": image_patches(config), "grid_thw": GRID},
    "ernie4_5_vl_moe_vision": lambda config, ids: {
        "hidden_states": image_patches(config), "grid_thw": GRID},
    "gemma4_vision": lambda config, ids: {
        "pixel_values": torch.rand(
            2, 16, 3 * config.patch_size ** 2, dtype=torch.float64,
            generator=torch.Generator().manual_seed(2)),
        "pixel_position_ids": torch.tensor([[
            [x, y] for y in range(4) for x in range(4)]] * 2)},
    "llama4": lambda config, ids: {
        "input_ids": with_image(ids, config.image_token_index, 4),
        "pixel_values": drawn(1, 3, 32, 32)},
    "llama4_vision_model": lambda config, ids: {
        "pixel_values": drawn(2, 3, 32, 32)},
    "muse_glimmer": lambda config, ids: {
        "input_ids": with_image(ids, config.image_token_id, 4),
        "pixel_values": image_patches(config.vision_config, frames=2),
        "image_grid_thw": GRID},
    "muse_glimmer_assistant": lambda config, ids: {
        "noise_embeds": drawn(2, config.block_size, config.hidden_size),
        "context_hidden_states": drawn(
            2, LENGTH, config.hidden_size * len(config.target_layer_ids)),
        "position_ids": torch.arange(LENGTH + config.block_size)[None]},
    "muse_glimmer_vision": lambda config, ids: {
        "pixel_values": image_patches(config, frames=2), "grid_thw": GRID},
    "muse_spark": lambda config, ids: {
        "input_ids": with_image(ids, config.image_token_id, 4),
        "pixel_values": image_patches(config.vision_config, frames=2),
        "image_grid_thw": GRID},
    "qwen3_omni_moe_talker_code_predictor": lambda config, ids: {
        "inputs_embeds": drawn(2, 4, config.hidden_size)},
    "qwen3_omni_moe_talker_text": lambda config, ids: {
        "inputs_embeds": drawn(2, LENGTH, config.hidden_size)},
    "t5gemma2_decoder": lambda config, ids: {
        "input_ids": ids,
        "encoder_hidden_states": drawn(2, 5, config.hidden_size)},
    "voxtral_realtime_text": lambda config, ids: {
        "input_ids": ids, "t_cond": drawn(1, config.hidden_size)},
}


def inputs_of(model):
    draw = torch.Generator().manual_seed(2)
    config = model.config
    vocabulary = getattr(config.get_text_config(), "vocab_size", 100)
    ids = torch.randint(1, vocabulary, (2, LENGTH), generator=draw)
    made = INPUTS.get(config.model_type)
    given = made(config, ids) if made else {"input_ids": ids}
    if "use_cache" in inspect.signature(model.forward).parameters:
        given["use_cache"] = False
    return given


def result_of(model, backward=False):
    """What the model computes: its logits, or else its first tensor."""
    with torch.set_grad_enabled(backward):
        out = model(**inputs_of(model))
    value = out.logits if getattr(out, "logits", None) is not None else out[0]
    if isinstance(value, DTensor):
        value = value.full_tensor()
    return value


def gradients_of(model):
    value = result_of(model, backward=True)
    draw = torch.Generator().manual_seed(3)
    weights = torch.randn(value.shape, generator=draw, dtype=torch.float64)
    (value.double() * weights).sum().backward()
    return {name: param.grad.full_tensor() if isinstance(param.grad, DTensor)
            else param.grad for name, param in model.named_parameters()
            if param.grad is not None}
