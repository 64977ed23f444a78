"""Records what programs of transformers' classes show about their parameters. Writes
testdata/family_facts.json.gz, which tests/cli/family_facts_test.py compares with the
descriptions of families.

Usage: SHARDC_BIN=... family_facts_answers.py [TYPE...], in an environment with PyTorch and
transformers. Each type is built from several small configs, of which the sizes, the
numbers of heads and KV heads and the numbers of experts differ; no description was
fitted to them."""

import contextlib
import gzip
import json
import os
import subprocess
import sys
import tempfile
import warnings

HERE = os.path.dirname(os.path.abspath(__file__))
ROOT = os.path.dirname(os.path.dirname(HERE))
sys.path[:0] = [HERE, os.path.join(ROOT, "tests", "traced"),
                os.path.join(ROOT, "tests", "cli"), os.path.join(ROOT, "python")]

# The paths above must be set first.
# pylint: disable=wrong-import-position
import torch
import transformers

import families
import family_facts_test
import picture_models
import torch_models
import tp_logits_models
from record_torch import versions
from shardc import program
from shardc.family_facts import facts_of

PATH = os.path.join(ROOT, "testdata", "family_facts.json.gz")
# Heads of which a quarter can be rotated.
SMALL = {"head_dim": 16, "num_attention_heads": 6}
OTHER = {
    "hidden_size": 96, "n_embd": 96, "d_model": 96, "embed_dim": 96, "intermediate_size": 80,
    "n_inner": 80, "ffn_dim": 80, "d_ff": 80, "encoder_ffn_dim": 80, "decoder_ffn_dim": 88,
    "hidden_dim": 80, "ffn_hidden_size": 80, "intermediate_size_mlp": 72,
    "num_key_value_heads": 3, "num_kv_heads": 3, "head_dim": 24, "d_kv": 12,
    "global_head_dim": 32, "vocab_size": 176, "num_experts": 6, "num_local_experts": 6,
    "n_routed_experts": 6, "moe_num_experts": 6, "moe_intermediate_size": 36,
    "shared_expert_intermediate_size": 52, "shared_intermediate_size": 52,
    "q_lora_rank": 28, "kv_lora_rank": 18, "qk_nope_head_dim": 12, "v_head_dim": 10,
    "word_embed_proj_dim": 96,
    "mamba_n_heads": 12, "mamba_d_head": 16, "mamba_n_groups": 3, "mamba_d_state": 28,
    "mamba_num_heads": 12, "mamba_head_dim": 16, "mamba_d_ssm": 192, "ssm_state_size": 28,
    "state_size": 28, "linear_num_key_heads": 3, "linear_num_value_heads": 6,
    "linear_key_head_dim": 6, "linear_value_head_dim": 10}
ALIKE = {
    "num_key_value_heads": 6, "num_kv_heads": 6, "vocab_size": 144, "hidden_size": 144,
    "n_embd": 144, "d_model": 144, "intermediate_size": 100, "n_inner": 100, "d_ff": 100,
    "word_embed_proj_dim": 144, "moe_intermediate_size": 20, "head_dim": 24,
    "mamba_d_head": 36, "mamba_head_dim": 36, "mamba_d_ssm": 288}
# What the sizes do not say, for one type: small, and with other sizes.
ALSO = {"recurrent_gemma": ({"head_dim": 12, "lru_width": 60},
                            {"head_dim": 16, "lru_width": 72}),
        # Slopes of ALiBi divide heads that are no power of two.
        "bloom": ({"n_head": 8}, {"n_head": 8}), "mpt": ({"n_heads": 8}, {"n_heads": 8}),
        "codegen": ({"n_head": 8}, {"n_head": 8}),
        "mamba2": ({}, {"num_heads": 12, "head_dim": 16, "n_groups": 3, "state_size": 28}),
        "nemotron_h": ({}, {"n_groups": 3}),
        "nemotron": ({}, {"num_key_value_heads": 3}),
        "hunyuan_v1_dense": ({}, {"head_dim": 12}),
        "dbrx": ({}, {
            "ffn_config": {"ffn_hidden_size": 52, "moe_num_experts": 6, "moe_top_k": 2},
            "attn_config": {"kv_n_heads": 3, "clip_qkv": 8, "rope_theta": 5e5}})}
CASES = {"small": (SMALL, 0), "other sizes": (OTHER, 1),
         "a KV head for each head": (ALIKE, 0)}


@contextlib.contextmanager
def sizes(more, which):
    """Other sizes of the small configs."""
    before = dict(families.SIZES), dict(families.FAMILIES), dict(tp_logits_models.MORE)
    families.SIZES.update(more)
    for name, own in ALSO.items():
        kind, own_before = families.FAMILIES.get(name, ("", {}))
        families.FAMILIES[name] = (kind, {**own_before, **own[which]})
    try:
        yield
    finally:
        for known, old in zip((families.SIZES, families.FAMILIES, tp_logits_models.MORE),
                              before):
            known.clear()
            known.update(old)


def model_of(model_type):
    if model_type in torch_models.ENCODERS:
        fn, args, kwargs = torch_models.ENCODERS[model_type]()
        return fn, args, kwargs
    config_class = transformers.CONFIG_MAPPING[model_type]
    config = tp_logits_models.config_of(model_type, config_class)
    config._attn_implementation = "eager"
    config._experts_implementation = "batched_mm"
    model = getattr(transformers, families.FAMILIES[model_type][0])(config).eval()
    for part in [config, *vars(config).values()]:
        if isinstance(part, transformers.PretrainedConfig):
            part.use_cache = False
    if model_type == "clip_vision_model":
        return model, (torch.randn(2, 3, *2 * (config.image_size,)),), {}
    try:
        tokens = torch_models.tokens_of(model)
        made = torch_models.run, (model, tokens), {"use_cache": False}
        with torch.no_grad():
            made[0](*made[1], **made[2])
        return made
    except Exception:  # pylint: disable=broad-except
        return model, (), tp_logits_models.inputs_of(model.double())


def facts_of_program(fn, args, kwargs, folder):
    with torch.no_grad():
        made = program.of_torch(fn, args, kwargs, "a model")
    path = os.path.join(folder, "program.json.gz")
    program.write(made.program, path)
    done = subprocess.run([os.environ["SHARDC_BIN"], "explain", "--no-project", "--program",
                           path, "--format", "json"], check=True, stdout=subprocess.PIPE)
    return facts_of(json.loads(done.stdout))


def cases_of(model_type, folder):
    for name, (more, which) in CASES.items():
        if name != "small" and model_type in torch_models.ENCODERS:
            continue
        with sizes(more, which):
            try:
                fn, args, kwargs = model_of(model_type)
                facts = facts_of_program(fn, args, kwargs, folder)
            except Exception as error:  # pylint: disable=broad-except
                print(f"{model_type}, {name}: {type(error).__name__}: {error}"[:150])
                continue
        module = fn if isinstance(fn, torch.nn.Module) else args[0]
        config = json.loads(module.config.to_json_string(use_diff=False))
        config["architectures"] = [type(module).__name__]
        yield {"name": name, "config": config, "params": facts}


# Random sizes of models that read pictures.
PICTURES = range(2)


def cases_with_pictures(model_type, folder):
    whole, part, prefix = picture_models.PARTS.get(model_type, (model_type, "", ""))
    for seed in PICTURES:
        fn, args = picture_models.model_of(whole, seed)
        facts = facts_of_program(fn, args, {}, folder)
        config = json.loads(args[0].config.to_json_string(use_diff=False))
        if part:
            config = config[part]
            facts = {name.removeprefix(prefix): dims for name, dims in facts.items()
                     if name.startswith(prefix)}
        else:
            config["architectures"] = [type(args[0]).__name__]
        yield {"name": f"with a picture, {seed}", "config": config, "params": facts}


def main(arguments):
    warnings.filterwarnings("ignore")
    transformers.logging.set_verbosity_error()
    os.chdir(ROOT)
    known = family_facts_test.recorded() if os.path.exists(PATH) else {"types": {}}
    named = arguments or [name[:-5] for name in sorted(os.listdir("families"))
                          if name.endswith(".yaml")]
    with tempfile.TemporaryDirectory() as folder:
        for model_type in named:
            cases = []
            if model_type in {**families.FAMILIES, **torch_models.ENCODERS}:
                cases += cases_of(model_type, folder)
            if model_type in {**picture_models.TYPES, **picture_models.PARTS}:
                cases += cases_with_pictures(model_type, folder)
            if cases:
                known["types"][model_type] = cases
            print(model_type, len(cases), flush=True)
    out = {"versions": versions(), "types": dict(sorted(known["types"].items()))}
    with open(PATH, "wb") as file, gzip.GzipFile("", "wb", mtime=0, fileobj=file) as zipped:
        zipped.write(json.dumps(out, separators=(",", ":")).encode())


if __name__ == "__main__":
    main(sys.argv[1:])
