"""Configurations of other systems, for mutated_inputs_test.py: scripts, YAML, JSON, TOML
and Python of testdata/systems and of the examples of systems/, and what reads them."""

import json
import os
import re

import yaml
from driver import ROOT, TESTDATA
from mutated_kinds import Kind, read
from mutators import ODD, mutate_flags, mutate_lines

SYSTEMS = ("accelerate", "deepspeed", "megatron", "sglang", "torchtitan", "vllm")
SAMPLES = {"megatron": ("megatron-dense", "megatron-moe-mla"),
           "torchtitan": ("torchtitan-moe-mla",), "vllm": ("vllm-tp4",),
           "sglang": ("sglang-dp-attention",)}

TITAN = {"job": {"description": "x"},
         "training": {"local_batch_size": 8, "seq_len": 64},
         "parallelism": {"data_parallel_shard_degree": -1, "tensor_parallel_degree": 2,
                         "pipeline_parallel_degree": 2, "context_parallel_degree": 1,
                         "pipeline_parallel_schedule": "Interleaved1F1B"},
         "activation_checkpoint": {"mode": "full"}}

PYTHON = """\
def base():
    return Trainer.Config(
        parallelism=ParallelismConfig(
            tensor_parallel_degree=2,
            pipeline_parallel_degree=2,  # a comment
        ),
        training={"seq_len": 64, 'local_batch_size': 8},
    )


def mine(size: int = 3):
    config = base()
    config.parallelism.expert_parallel_degree = 2
    return config
"""

CONTAINER = """\
apiVersion: apps/v1
kind: Deployment
spec:
  containers:
    - image: vllm/vllm-openai:latest
      command: [vllm, serve, MODEL]
      args:
        - --tensor-parallel-size
        - '4'
    - image: other
      command:
        - sh
        - -c
        - |
          TP=4
          python -m sglang.launch_server --model-path MODEL \\
            --tp-size $TP --dp-size 2 --enable-dp-attention
---
apiVersion: v1
kind: Service
"""

SCRIPT = """\
#!/bin/bash
#SBATCH --nodes=2
#SBATCH --ntasks-per-node=8
TP=${TP:-4}
PP=$((TP / 2))
GPUS=8
PARALLEL="
  --tensor-model-parallel-size $TP \\
  --pipeline-model-parallel-size ${PP}
"
MODEL_ARGS=(
  --num-layers 8  # layers
  --hidden-size 256 --num-attention-heads 8
  --seq-length 64 --max-position-embeddings 64
)
MODEL_ARGS+=(--micro-batch-size 1 --global-batch-size 16)
if [ "$SIZE" = big ]; then
  EXTRA="--sequence-parallel"
else
  EXTRA="--use-distributed-optimizer"
fi
export CUDA_DEVICE_MAX_CONNECTIONS=1
torchrun --nproc-per-node $GPUS --nnodes 2 pretrain_gpt.py $PARALLEL \\
  "${MODEL_ARGS[@]}" $EXTRA --pipeline-model-parallel-layout Ett|tt|tt|ttL 2>&1 | tee log
"""


class Script(Kind):
    """A shell script, with the flags that the systems know."""

    def __init__(self, *given, flags):
        super().__init__(*given)
        self.flags = flags

    def text(self, rng):
        return mutate_flags(rng, rng.choice(self.seeds), self.flags).encode(
            "utf-8", "replace")


class Toml(Kind):
    def text(self, rng):
        text = "".join(
            f"[{section}]\n" + "".join(f"{key} = {json.dumps(value)}\n"
                                       for key, value in keys.items())
            for section, keys in rng.choice(self.seeds).items())
        for _ in range(rng.choice([0, 1, 2])):
            old = rng.choice(re.findall(r"= (.*)\n", text) or [""])
            text = text.replace(f"= {old}\n", f"= {json.dumps(rng.choice(ODD))}\n", 1)
        return mutate_lines(rng, text).encode("utf-8", "replace")


def examples(described):
    """The wrong and the right examples of a system's checks, by their form."""
    scripts, mappings = [], []
    for check in described.get("checks", []):
        for text in (check["example"], check["right"]):
            lines = [line for line in text.split("\n")
                     if not re.match(r"(config|model_sizes)\.json|devices|environment",
                                     line)]
            text = "\n".join(lines)
            if text.startswith("--"):
                scripts.append(f"{described['commands'][0]} {text}\n")
            elif text.startswith("{"):
                mappings.append(json.loads(text))
            elif text.strip():
                mappings.append(yaml.safe_load(text))
    return scripts, mappings


def systems():
    described = {}
    for name in SYSTEMS:
        described[name] = yaml.safe_load(read(ROOT, "systems", name + ".yaml"))
    known = {spelling.removeprefix("*.") for one in described.values()
             for spellings in one["keys"].values()
             for spelling in spellings or ()}
    flags = sorted("--" + (key if "." in key else key.replace("_", "-"))
                   for key in known if re.fullmatch(r"[\w.]+", key))
    model = os.path.join(TESTDATA, "configs", "llama-3-8b.config.json")

    def commands(system):
        return [["show", "config", "{}", "--devices", "16"],
                ["show", "config", "{}", "--system", system, "--format", "json",
                 "--devices", "16"],
                ["show", "config", "{}", "--system", system, "--model", model,
                 "--devices", "16"],
                ["import", system, "{}", "--devices", "16", "--model", model,
                 "--mesh-output", "written.mesh.yaml", "--manifest-output", "written.m.json",
                 "--project-output", "written.shardc.yaml", "-o", "written.rules.yaml"],
                ["import", system, "{}"]]

    found = [["{inside}", "check", "--devices", "16"], ["{inside}", "check"],
             ["{inside}", "init", "--devices", "16", "--model", model]]
    nothing = os.path.join(ROOT, "examples", "start", "none")
    out = []
    for name, one in described.items():
        scripts, mappings = examples(one)
        for sample in SAMPLES.get(name, ()):
            folder = os.path.join(TESTDATA, "systems", sample)
            script = "run.sh" if os.path.exists(os.path.join(folder, "run.sh")) \
                else "serve.sh"
            out.append(Script(sample, script, [read(folder, script).decode()],
                              commands(name) + found, folder, flags=flags))
        if scripts:
            out.append(Script(name + "-examples", "run.sh", scripts,
                              commands(name) + found, nothing, flags=flags))
        if mappings:
            out.append(Kind(name + "-mappings", "config.yaml", mappings,
                            commands(name) + found, nothing))
    for name in ("accelerate-fsdp2", "accelerate-tp2-not-applied"):
        folder = os.path.join(TESTDATA, "systems", name)
        manifest = os.path.join(folder, "manifest.json")
        out.append(Kind(
            name, "accelerate.yaml", [yaml.safe_load(read(folder, "accelerate.yaml"))],
            [["show", "config", "{}"],
             *([["show", "config", "{}", "--manifest", manifest, "--format", "json"]]
               if os.path.exists(manifest) else []),
             ["import", "accelerate", "{}"], *found], folder))
    for name in ("deepspeed-autotp2-zero1", "deepspeed-autotp4-kv2"):
        folder = os.path.join(TESTDATA, "systems", name)
        out.append(Kind(name, "ds_config.json",
                        [json.loads(read(folder, "ds_config.json"))],
                        commands("deepspeed") + found, folder))
    return [
        *out,
        Script("script", "train.sh", [SCRIPT, SCRIPT.replace("fi\n", "fi\nEXTRA=--bf16\n")],
               commands("megatron") + found, nothing,
               flags=flags),
        Toml("torchtitan-toml", "train.toml", [TITAN], commands("torchtitan") + found,
             nothing),
        Kind("torchtitan-python", "configs.py", [PYTHON, PYTHON.split("\n\n")[0] + "\n"],
             [*commands("torchtitan"), *found,
              ["show", "config", "{}", "--symbol", "mine", "--devices", "8"]], nothing),
        Kind("container", "serve.yaml", [CONTAINER], commands("vllm") + found, nothing),
    ]
