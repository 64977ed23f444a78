"""The sharded run of a training step as a program against that of the named step
from which the program is written, on the same mesh, in processor time.
"""

import json
import os
import subprocess
import tempfile

LLAMA = {"architectures": ["LlamaForCausalLM"], "model_type": "llama",
         "hidden_size": 256, "num_hidden_layers": 4, "num_attention_heads": 8,
         "num_key_value_heads": 4, "head_dim": 32, "intermediate_size": 1024,
         "vocab_size": 1024, "max_position_embeddings": 64,
         "rms_norm_eps": 1e-5, "hidden_act": "silu", "rope_theta": 10000.0,
         "tie_word_embeddings": False}
MIXTRAL = {**LLAMA, "architectures": ["MixtralForCausalLM"],
           "model_type": "mixtral", "num_hidden_layers": 2,
           "num_local_experts": 4, "num_experts_per_tok": 2,
           "intermediate_size": 512, "sliding_window": None}
GPT2 = {"architectures": ["GPT2LMHeadModel"], "model_type": "gpt2",
        "n_embd": 256, "n_head": 8, "n_layer": 4, "n_positions": 64,
        "vocab_size": 1024, "n_inner": 1024,
        "activation_function": "gelu_new", "layer_norm_epsilon": 1e-5}
GEMMA = {**LLAMA, "architectures": ["Gemma2ForCausalLM"],
         "model_type": "gemma2", "hidden_activation": "gelu_pytorch_tanh",
         "query_pre_attn_scalar": 32, "attn_logit_softcapping": 50.0,
         "final_logit_softcapping": 30.0, "sliding_window": 32,
         "tie_word_embeddings": True}
# (name, config, mesh)
CASES = [("Llama", LLAMA, "fsdp:2,tp:4"), ("Llama", LLAMA, "dp:2,fsdp:2,sp:2"),
         ("Gemma 2", GEMMA, "fsdp:2,tp:4"), ("GPT-2", GPT2, "fsdp:8"),
         ("Mixtral", MIXTRAL, "fsdp:2,ep:4")]
BATCH, LENGTH = "16", "64"
# The kinds of work into which the worker divides a run.
KINDS = ["matmul", "attention", "norm", "rope", "elementwise", "optimizer",
         "collectives", "whole run"]


class Suite:
    def __init__(self, build):
        self.worker = os.path.join(build, "bench", "program_worker")

    def __enter__(self):
        self.folder = tempfile.TemporaryDirectory()
        self.seconds = {}
        return self

    def __exit__(self, *_):
        self.folder.cleanup()

    def rows(self):
        return [{"name": f"{kind}, {model} on {mesh}", "case": (model, mesh),
                 "config": config, "kind": kind, "against": "the named step",
                 "rate": False, "target": 1 / 1.5, "unit": "s"}
                for model, config, mesh in CASES for kind in KINDS
                if not (kind == "rope" and config is GPT2)]

    def run(self, spec):
        """The seconds of both sides by kind, in one run of the worker."""
        path = os.path.join(self.folder.name, "config.json")
        with open(path, "w", encoding="utf-8") as file:
            json.dump(spec["config"], file)
        done = subprocess.run(
            [self.worker, path, spec["case"][1], BATCH, LENGTH, "1"],
            capture_output=True, check=True, text=True)
        rows = (line.split("\t") for line in done.stdout.splitlines())
        return {kind: (float(ours), float(step)) for kind, ours, step in rows}

    def round(self, spec):
        # The rows of a case in a round are of the same run.
        taken = self.seconds.setdefault(spec["case"], {})
        if spec["kind"] not in taken:
            taken.update(self.run(spec))
        ours, step = taken.pop(spec["kind"])
        return {"ours": ours, "against": step}
