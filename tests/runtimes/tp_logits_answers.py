"""What transformers computes under an exported tensor parallel plan: the logits
of two processes, and the gradients where the model trains, against those of one
device, for every architecture that has a plan of its own."""

import importlib
import inspect
import json
import os
import subprocess
import sys
import tempfile
import time

os.environ["HF_HUB_OFFLINE"] = "1"

import torch
import torch.distributed as dist
import transformers
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.tensor import DTensor
from transformers.distributed import DistributedConfig
from transformers.distributed.tensor_parallel import apply_tensor_parallelism
from transformers.initialization import no_tie_weights
from transformers.models.auto import modeling_auto

import families
import records
import tree_answers

BIN = os.environ.get("SHARDC_BIN", "shardc")
RANKS = 2
LENGTH = 6
# Errors are a part of the largest value; sums in another order give the last
# digits of float64, or of float32 where a model computes in it.
NEAR = 1e-6
# Plans besides the model's own: every projection sharded as Megatron-LM does,
# and a mixture that fits no block.
RULES = {
    "all": """version: 1
rules:
  - match: '(o_proj|down_proj|out_proj|c_proj|fc2|dense|w2)[.]weight$'
    spec: [null, tp]
  - match: '(_proj|_proj_.*|fc1|c_fc|lm_head|embed_tokens|query_key_value)[.](weight|bias)$'
    spec: [tp]
  - match: '.*'
    spec: []
""",
    "mixed": """version: 1
rules:
  - match: '(o_proj|up_proj|k_proj|embed_tokens|lm_head)[.]weight$'
    spec: [null, tp]
  - match: '(q_proj|v_proj|down_proj)[.](weight|bias)$'
    spec: [tp]
  - match: '.*'
    spec: []
"""}
# Their small configurations still take minutes.
TOO_LARGE = {"longcat_flash", "kimi_linear", "phi4_multimodal",
             "muse_glimmer", "muse_spark_text"}
# Seconds without a result after which a pair of processes is given up.
PATIENCE = 60
# What the sizes of `families` leave open, or what a class does not accept.
LATENT = {"num_key_value_heads": 6, "head_dim": 4}
MORE = {
    "axk1": LATENT, "axk2": LATENT, "deepseek_v2": LATENT,
    "deepseek_v3": LATENT, "deepseek_v32": LATENT, "glm4_moe_lite": LATENT,
    "glm_moe_dsa": LATENT, "minicpm3": LATENT, "mistral4": LATENT,
    "mistral_large4_text": LATENT, "youtu": LATENT, "longcat_flash": LATENT,
    "unlimited_ocr_text": LATENT, "glm5_next_text": LATENT,
    "dots3_note_text": LATENT,
    "helium": {"head_dim": 8}, "esmc": {"num_key_value_heads": 6,
                                        "head_dim": 8},
    "cohere_compass_text": {"layer_types": ["full_attention"] * 3},
    "lfm2_moe": {"layer_types": ["conv", "full_attention", "conv"],
                 "num_dense_layers": 1},
    "neomme": {"head_dim": 16},
    "mimo_v2_flash": {"head_dim": 12, "v_head_dim": 6},
    **{name: {"head_dim": 8, "rope_parameters": {
        "rope_type": "default", "rope_theta": 1e4, "mrope_section": [2, 1, 1]}}
       for name in ("glm4v_text", "glm4v_moe_text", "glm_image_text",
                    "glm_ocr_text", "paddleocr_vl_text", "qwen2_vl_text",
                    "qwen2_5_vl_text", "qwen2_5_omni_text",
                    "cosmos3_edge_text")},
}


def class_of(model_type, config_class):
    """The class with the most of the model: with logits where there is one."""
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
                setattr(part, key, 0.0)
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
        for values in model.parameters():
            drawn = torch.randn(values.shape, generator=draw,
                                dtype=torch.float64)
            values.copy_(1 + 0.1 * drawn if values.ndim < 2 else
                         drawn * values.shape[-1] ** -0.5)
    return model


def result_of(model, backward=False):
    """What the model computes: its logits, or else its first tensor."""
    draw = torch.Generator().manual_seed(2)
    vocabulary = getattr(model.config.get_text_config(), "vocab_size", 100)
    ids = torch.randint(1, vocabulary, (2, LENGTH), generator=draw)
    with torch.set_grad_enabled(backward):
        out = model(input_ids=ids, use_cache=False) if "use_cache" in \
            inspect.signature(model.forward).parameters else \
            model(input_ids=ids)
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


def error_between(found, wanted):
    """The largest difference, as a part of the largest value."""
    scale = wanted.abs().max().item() or 1.0
    return (found.double() - wanted.double()).abs().max().item() / scale


def parallel(model_type, plan, gradients, mesh):
    model = model_of(model_type)
    wanted = result_of(model)
    try:
        reference = gradients_of(model) if gradients else None
    except Exception:
        reference = None
    model = model_of(model_type, tied=False)
    given = DistributedConfig(tp_size=RANKS, tp_plan=plan)
    resolved = model._resolve_parallel_plans(given)[0]
    apply_tensor_parallelism(model, mesh, resolved)
    model.tie_weights()
    answer = {"logits": error_between(result_of(model), wanted)}
    if reference is not None:
        try:
            found = gradients_of(model)
            worst = [(error_between(found[name], value), name)
                     for name, value in reference.items()
                     if value.abs().max() > 1e-12]
            answer["gradients"], answer["gradient_of"] = max(worst)
        except Exception as error:
            answer["gradient_error"] = brief(error)
    return answer


def brief(error):
    text = str(error).strip().splitlines() or [""]
    return f"{type(error).__name__}: {text[0][:160]}"


def work(rank, folder, first):
    """One of the processes: every job from the first on, in turn."""
    transformers.logging.set_verbosity_error()
    torch.set_num_threads(1)
    dist.init_process_group(
        "gloo", init_method=f"file://{folder}/meeting{first}", rank=rank,
        world_size=RANKS)
    mesh = init_device_mesh("cpu", (RANKS,), mesh_dim_names=("tp",))
    with open(os.path.join(folder, "jobs.json"), encoding="utf-8") as file:
        jobs = json.load(file)
    for number in range(first, len(jobs)):
        try:
            answer = parallel(*jobs[number], mesh)
        except Exception as error:
            answer = {"error": brief(error)}
        dist.barrier()
        if rank == 0:
            path = os.path.join(folder, f"answer{number}")
            with open(path + ".new", "w", encoding="utf-8") as file:
                json.dump(answer, file)
            os.rename(path + ".new", path)
    os._exit(0)


def run_pairs(jobs):
    """The answers to the jobs, each (model type, plan,
    whether gradients are compared too). A pair of processes
    that waits for each other is ended and the next job begins in another."""
    answers = []
    with tempfile.TemporaryDirectory() as folder:
        with open(os.path.join(folder, "jobs.json"), "w",
                  encoding="utf-8") as file:
            json.dump(jobs, file)
        while len(answers) < len(jobs):
            pair = [subprocess.Popen(
                [sys.executable, os.path.abspath(__file__), str(rank), folder,
                 str(len(answers))], stdout=subprocess.DEVNULL,
                stderr=subprocess.DEVNULL, cwd=records.HERE)
                for rank in range(RANKS)]
            last = time.monotonic()
            while len(answers) < len(jobs):
                path = os.path.join(folder, f"answer{len(answers)}")
                if os.path.exists(path):
                    with open(path, encoding="utf-8") as file:
                        answers.append(json.load(file))
                    last = time.monotonic()
                elif time.monotonic() - last > PATIENCE or any(
                        one.poll() for one in pair):
                    answers.append({"error": "the processes wait for each "
                                             "other, or one ended"})
                    break
                else:
                    time.sleep(0.05)
            for one in pair:
                one.kill()
                one.wait()
    return answers


def exported(folder, shapes, own, name):
    """The plan that shardc exports; nothing where the rules do not fit."""
    paths = {key: os.path.join(folder, key + ".json")
             for key in ("manifest", "own", "out")}
    rules = os.path.join(folder, "rules.yaml")
    with open(paths["manifest"], "w", encoding="utf-8") as file:
        json.dump({"schema": "shardc.manifest/v1", "params": {
            param: {"shape": shape, "dtype": "F32"}
            for param, shape in shapes.items()}}, file)
    if name == "own":
        with open(paths["own"], "w", encoding="utf-8") as file:
            json.dump(own, file)
        subprocess.run([BIN, "import", "hf-tp-plan", paths["own"], "-o",
                        rules], check=True, capture_output=True)
    else:
        with open(rules, "w", encoding="utf-8") as file:
            file.write(RULES[name])
    done = subprocess.run(
        [BIN, "export", "hf-tp-plan", "--no-project", "--mesh", f"tp:{RANKS}",
         "--rules", rules, "--manifest", paths["manifest"], "-o",
         paths["out"]], check=False, capture_output=True)
    if done.returncode:
        return None  # the two devices do not divide a size
    with open(paths["out"], encoding="utf-8") as file:
        return json.load(file)


def architectures():
    return [name for name in sorted(transformers.CONFIG_MAPPING.keys())
            if getattr(transformers.CONFIG_MAPPING[name],
                       "base_model_tp_plan", None)]


def answers(names=None):
    """The architectures that were run, and the reasons of the others."""
    transformers.logging.set_verbosity_error()
    cases, unrun, jobs = [], {}, []
    with tempfile.TemporaryDirectory() as folder:
        for name in names or architectures():
            try:
                if name in TOO_LARGE:
                    raise MemoryError("its small configuration is too large")
                model = model_of(name)
                if not torch.isfinite(result_of(model)).all():
                    raise ArithmeticError("its result is not finite")
            except Exception as error:
                unrun[name] = brief(error)
                continue
            shapes = {param: list(values.shape)
                      for param, values in model.named_parameters()}
            case = {"model_type": name, "class": type(model).__name__,
                    "params": shapes, "plans": {}}
            for plan in ("own", *RULES):
                made = exported(folder, shapes, model.tp_plan, plan)
                if made is None:
                    continue
                case["plans"][plan] = {"exported": made}
                jobs.append((name, made, plan == "own"))
            if "own" in case["plans"]:
                case["plans"]["own"]["given"] = dict(model.tp_plan)
            cases.append(case)
    found = iter(run_pairs(jobs))
    for case in cases:
        for plan in case["plans"].values():
            for key, value in next(found).items():
                plan[key] = float(f"{value:.1e}") if isinstance(
                    value, float) else value
    return cases, unrun


def record():
    cases, unrun = answers()
    yield "transformers/tp_logits", {
        "format": "shardc.runtimes.tp_logits/v1",
        "versions": records.versions("transformers", "torch"),
        "rules": RULES, "not_run": unrun, "cases": cases}


if __name__ == "__main__":
    work(int(sys.argv[1]), sys.argv[2], int(sys.argv[3]))
