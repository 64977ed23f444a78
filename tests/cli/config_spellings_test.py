"""Mistakes of configurations in other spellings, and right configurations in
them: variables of the environment, continued lines, arrays and `eval` of a
shell, references and merge keys of YAML, files that name other files. `shardc
check` finds each mistake with its line, and nothing in the right ones."""

import json
import os
import re
import tempfile
import unittest

from driver import Case, run

SIZES = ("--num-layers 24 --hidden-size 1024 --num-attention-heads 16 "
         "--vocab-size 50304 --seq-length 1024 --max-position-embeddings 1024 "
         "--bf16")
LLAMA = json.dumps({
    "model_type": "llama", "vocab_size": 128256, "hidden_size": 4096,
    "intermediate_size": 14336, "num_hidden_layers": 32,
    "num_attention_heads": 32, "num_key_value_heads": 8, "dtype": "bfloat16"})
SECTION = """\
base: &base
  num_layers: {layers}
  hidden_size: 1024
  num_attention_heads: 16
  vocab_size: 50304
  seq_length: 1024
  max_position_embeddings: 1024
"""
ZERO = {"train_micro_batch_size_per_gpu": 1,
        "gradient_accumulation_steps": 1, "bf16": {"enabled": True}}
EIGHT = ["--devices", "8"]


def primus(overrides, model="num_layers: 30\nnum_experts: 8\n"):
    """A configuration that names two files of its repository."""
    return {"exp/run.yaml": "modules:\n  pre_trainer:\n    framework: megatron"
                            "\n    config: pre_trainer.yaml\n    model: "
                            "${PRIMUS_MODEL:small}.yaml\n    overrides:\n"
                            "      " + overrides + "\n",
            "primus/configs/modules/megatron/pre_trainer.yaml":
                "extends: [base.yaml]\nseq_length: 1024\n",
            "primus/configs/modules/megatron/base.yaml":
                "tensor_model_parallel_size: 1\nsequence_parallel: false\n",
            "primus/configs/models/megatron/small.yaml":
                "hidden_size: 1024\nnum_attention_heads: 16\n" + model}


# What is unusual, the files, options, the code, words and the place.
MISTAKES = [
    ("a variable, and lines that are continued",
     {"run.sh": "export PP=4\nNUM_LAYERS=30\ntorchrun --nproc-per-node 8 \\\n"
                "  pretrain_gpt.py " + SIZES + " \\\n"
                "  --num-layers ${NUM_LAYERS} \\\n"
                "  --pipeline-model-parallel-size=$PP\n"},
     [], "SHD701", "30 layers", "run.sh:5"),
    ("an array, and `eval`",
     {"run.sh": "ARGS=(\n  --tensor-model-parallel-size 4\n"
                "  --num-query-groups 2\n  --sequence-parallel\n)\n"
                "cmd=\"torchrun --nproc-per-node 8 pretrain_gpt.py " + SIZES +
                " ${ARGS[@]}\"\neval $cmd\n"},
     [], "SHD702", "`--num-query-groups 2` has no effect", "run.sh:3"),
    ("a merge key",
     {"run.yaml": SECTION.format(layers=30) + "model:\n  <<: *base\n"
                  "  pipeline_model_parallel_size: 4\n"},
     EIGHT, "SHD701", "30 layers", "run.yaml:2"),
    ("a size above the devices' heads",
     {"ds_config.json": json.dumps({**ZERO, "zero_optimization": {"stage": 1},
                                    "tensor_parallel": {"autotp_size": 16}}),
      "config.json": LLAMA},
     ["--devices", "16"], "SHD702", "8 KV heads", "ds_config.json:1"),
    ("an alias of a size",
     {"accelerate.yaml": "distributed_type: FSDP\nnum_processes: 16\n"
                         "mixed_precision: bf16\nx: &two 2\n"
                         "fsdp_config: {fsdp_version: *two}\n"
                         "parallelism_config:\n"
                         "  parallelism_config_dp_shard_size: 4\n"
                         "  parallelism_config_tp_size: *two\n",
      "config.json": LLAMA},
     [], "SHD701", "16", "accelerate.yaml:"),
    ("the arguments of a container",
     {"pod.yaml": "spec:\n  containers:\n  - command: [vllm, serve, M]\n"
                  "    args:\n    - --tensor-parallel-size=3\n",
      "config.json": LLAMA},
     [], "SHD701", "32 attention heads", "pod.yaml:5"),
    ("a variable of a container",
     {"pod.yaml": "spec:\n  containers:\n  - env:\n    - {name: TP, value: "
                  "'3'}\n    command: [sh, -c]\n    args: ['python -m "
                  "sglang.launch_server --model-path M --tp-size $(TP)']\n",
      "config.json": LLAMA},
     [], "SHD701", "heads", "pod.yaml:6"),
    ("a size of a file that a file names",
     primus("pipeline_model_parallel_size: 4"), EIGHT, "SHD701", "30 layers",
     "small.yaml:3"),
    ("a script that names a configuration",
     {**primus("pipeline_model_parallel_size: ${PP:2}"),
      "run.sh": "export PP=4\nEXP=exp/run.yaml\n./primus-cli direct -- train "
                "pretrain --config $EXP --tensor_model_parallel_size 1\n"},
     EIGHT, "SHD701", "30 layers", "small.yaml:3"),
    ("a configuration of Accelerate that a command names",
     {"run.sh": "accelerate launch --config_file fsdp.yaml --num_processes 6 "
                "train.py\n",
      "fsdp.yaml": "distributed_type: FSDP\nmixed_precision: bf16\n"
                   "fsdp_config: {fsdp_version: 2}\nparallelism_config:\n"
                   "  parallelism_config_dp_shard_size: 4\n",
      "config.json": LLAMA},
     [], "SHD701", "6", ":"),
]
RIGHT = [
    ({"run.sh": "export PP=4\nNUM_LAYERS=32\ntorchrun --nproc-per-node 8 \\\n"
                "  pretrain_gpt.py " + SIZES + " \\\n"
                "  --num-layers ${NUM_LAYERS} \\\n"
                "  --pipeline-model-parallel-size=$PP\n"}, []),
    # The second reading removes the backslashes.
    ({"run.sh": "ARGS=(\n  --pipeline-model-parallel-size 4\n"
                "  --pipeline-model-parallel-layout "
                r"'Ett\|\(tt\|\)*10ttL'" "\n)\n"
                "cmd=\"torchrun --nproc-per-node 8 pretrain_gpt.py " + SIZES +
                " ${ARGS[@]}\"\neval $cmd\n"}, []),
    # A layout that is not understood divides the layers in a way of its own.
    ({"run.sh": "torchrun --nproc-per-node 8 pretrain_gpt.py " + SIZES +
                " --num-layers 30 --pipeline-model-parallel-size 4 "
                "--pipeline-model-parallel-layout \"'Et*7|t*8|t*8|t*7L'\"\n"},
     []),
    ({"run.yaml": SECTION.format(layers=30) + "model:\n  <<: *base\n"
                  "  num_layers: 32\n  pipeline_model_parallel_size: 4\n"},
     EIGHT),
    # The scheduler states how many nodes there are.
    ({"run.sh": "NNODES=${SLURM_NNODES:-1}\ntorchrun --nnodes $NNODES "
                "--nproc-per-node 8 pretrain_gpt.py " + SIZES +
                " --pipeline-model-parallel-size 12\n"}, []),
    # A checkpoint may have the experts, and a recipe the sizes.
    ({"run.sh": "torchrun --nproc-per-node 8 serve.py "
                "--expert-model-parallel-size 8 --use-checkpoint-args\n"}, []),
    ({"recipe.yaml": "trainer.strategy.expert_model_parallel_size: 4\n"
                     "trainer.devices: 8\nmodel.config.num_layers: 12\n"}, []),
    (primus("expert_model_parallel_size: 8"), EIGHT),
    (primus("num_layers: 32\n      pipeline_model_parallel_size: 4"), EIGHT),
    # A name that is null in a configuration replaces that of the named file.
    (primus("pipeline_model_parallel_size: 1\n"
            "      decoder_last_pipeline_num_layers: null",
            "num_layers: 32\ndecoder_last_pipeline_num_layers: 8\n"), EIGHT),
    # A file that is not there may have what the configuration lacks.
    ({"run.sh": "primus-cli train --config gone.yaml "
                "--expert_model_parallel_size 8 --num_layers 30\n"}, EIGHT),
    ({"run.sh": "accelerate launch --config_file fsdp.yaml --num_processes 8 "
                "train.py\n",
      "fsdp.yaml": "distributed_type: FSDP\nmixed_precision: bf16\n"
                   "num_processes: 4\nfsdp_config: {fsdp_version: 2}\n"
                   "parallelism_config:\n"
                   "  parallelism_config_dp_shard_size: 4\n",
      "config.json": LLAMA}, ["--devices", "4"]),
]


class Spellings(Case):
    def check(self, files, options):
        with tempfile.TemporaryDirectory() as folder:
            for name, text in files.items():
                path = os.path.join(folder, name)
                os.makedirs(os.path.dirname(path), exist_ok=True)
                with open(path, "w", encoding="utf-8") as file:
                    file.write(text)
            return run("check", *options, cwd=folder)

    def test_mistakes_are_found(self):
        for name, files, options, code, words, place in MISTAKES:
            with self.subTest(name):
                got = self.check(files, options)
                found = re.search(code + r" [\w-]+\]: [^\n]*" +
                                  re.escape(words) + r"[^\n]*\n +--> \S*" +
                                  re.escape(place), got.out)
                self.assertTrue(found, got.out + got.err)
                self.assertEqual(got.rc, 1 if "error[" in got.out else 0)

    def test_right_configurations_have_no_finding(self):
        for files, options in RIGHT:
            with self.subTest(files=files):
                got = self.check(files, options)
                self.assertEqual((got.rc, got.out), (0, ""), got.err)
                self.assertRegex(got.err, "targets?: 0 errors, 0 warnings")

    def test_an_override_replaces_what_a_named_file_has(self):
        files = primus("num_layers: 32\n      pipeline_model_parallel_size: 4")
        got = self.check(files, EIGHT)
        self.assertIn("exp/run.yaml: megatron: 8 ranks, pp=4 dp=2", got.err)

    def test_why_keys_are_not_known(self):
        got = self.check({"run.sh": "x --config gone.yaml --tensor-model-"
                                    "parallel-size 2\n"},
                         [*EIGHT, "--notes"])
        self.assertIn("keys that this configuration lacks are not known: "
                      "`--config gone.yaml` names a file with further keys, "
                      "which may state it", got.out)


if __name__ == "__main__":
    unittest.main()
