"""What people got wrong in configurations of training and serving systems, as
their public reports have it: `shardc check` finds each, with a line of the
configuration and what to write, and finds nothing in configurations that run."""

import json
import os
import re
import tempfile
import unittest

from driver import Case, run


def model(**sizes):
    """Returns a config.json."""
    out = {"model_type": "llama", "vocab_size": 32000, "hidden_size": 4096,
           "intermediate_size": 11008, "num_hidden_layers": 32,
           "num_attention_heads": 32, "dtype": "bfloat16"}
    out.update(sizes)
    return out


GROUPED = model(num_key_value_heads=8, intermediate_size=14336,
                vocab_size=128256)
QWEN_MOE = model(model_type="qwen3_moe", num_attention_heads=64,
                 num_key_value_heads=4, num_hidden_layers=4, num_experts=128,
                 num_experts_per_tok=8, moe_intermediate_size=1536,
                 head_dim=128, vocab_size=151936)
BLOCKS = {"quant_method": "fp8", "weight_block_size": [128, 128]}
DEEPSEEK = model(
    model_type="deepseek_v3", hidden_size=1024, num_attention_heads=64,
    num_hidden_layers=4, n_routed_experts=256, num_experts_per_tok=8,
    moe_intermediate_size=2048, n_shared_experts=1, first_k_dense_replace=1,
    q_lora_rank=512, kv_lora_rank=512, qk_nope_head_dim=128,
    qk_rope_head_dim=64, v_head_dim=128, vocab_size=129280,
    intermediate_size=2048)


def megatron(flags, nodes=1, layers=24, vocab=50304):
    return {"train.sh": f"torchrun --nnodes {nodes} --nproc-per-node 8 "
                        "pretrain_gpt.py \\\n  --num-layers "
                        f"{layers} --hidden-size 1024 \\\n  "
                        f"--vocab-size {vocab} --seq-length 1024 \\\n  "
                        "--max-position-embeddings 1024 --bf16 \\\n  "
                        f"{flags}\n"}


def titan(flags, nproc=8, **sizes):
    sizes = {"layers": 32, "dim": 4096, "heads": 32, "kv_heads": 8,
             "vocab": 128256, "hidden": 14336, **sizes}
    return {"run.sh": f"torchrun --nnodes {nproc // 8} --nproc-per-node 8 "
                      f"-m torchtitan.train {flags}\n",
            "model_sizes.json": json.dumps(sizes)}


def serve(command, config):
    return {"serve.sh": command + "\n", "config.json": json.dumps(config)}


def mapping(name, text, config=None):
    out = {name: text if isinstance(text, str) else json.dumps(text)}
    if config:
        out["config.json"] = json.dumps(config)
    return out


def fsdp(sizes, processes=8):
    return {"distributed_type": "FSDP", "num_processes": processes,
            "mixed_precision": "bf16",
            "fsdp_config": {"fsdp_version": 2},
            "parallelism_config": {"parallelism_config_" + key: value
                                   for key, value in sizes.items()}}


TITAN = "--parallelism."
HEADS = "--num-attention-heads 16"
# The report, the files, the options of `check`, the code of the finding, and
# words of it.
MISTAKES = [
    ("executed with Megatron-LM 0.20.0",
     megatron(HEADS + " --tensor-model-parallel-size 4 --num-query-groups 2 "
              "--sequence-parallel"), [], "SHD702",
     "`--num-query-groups 2` has no effect"),
    ("Megatron-Bridge#4007, #546",
     megatron(HEADS + " --tensor-model-parallel-size 2 --sequence-parallel "
              "--num-experts 8 --expert-model-parallel-size 4"), [],
     "SHD702", "`--expert-tensor-parallel-size` is unset and thus 2"),
    ("Megatron-LM#1304",
     megatron(HEADS + " --pipeline-model-parallel-size 4", layers=30), [],
     "SHD701", "30 layers"),
    ("ms-swift#5737",
     megatron(HEADS + " --pipeline-model-parallel-size 4", layers=46), [],
     "SHD701", "46 layers"),
    ("Megatron-LM#1778",
     megatron(HEADS + " --decoder-last-pipeline-num-layers 4", layers=20), [],
     "SHD701", "layers of an end stage are given"),
    ("Megatron-LM#1754",
     megatron(HEADS + " --tensor-model-parallel-size 2 --sequence-parallel "
              "--make-vocab-size-divisible-by 1", vocab=50257), [],
     "SHD702", "padded to 50258 only"),
    ("Megatron-LLM#103",
     {**megatron(HEADS + " --tensor-model-parallel-size 4 "
                 "--sequence-parallel --load checkpoints", vocab=32000),
      "config.json": json.dumps(model())}, [], "SHD702",
     "has 32256 rows here"),
    ("Megatron-Bridge#5353, #1331",
     {**megatron(HEADS + " --tensor-model-parallel-size 8 "
                 "--sequence-parallel --load checkpoints", vocab=151936),
      "config.json": json.dumps(model(vocab_size=151936))}, [], "SHD702",
     "has 152576 rows here"),
    ("torchtitan#932, #2574",
     titan(TITAN + "tensor_parallel_degree 16", 16, heads=64, dim=8192), [],
     "SHD701", "8 KV heads are not a multiple"),
    ("transformers#48307",
     mapping("accelerate.yaml",
             fsdp({"dp_shard_size": 2, "tp_size": 8}, 16),
             model(num_key_value_heads=4)), [], "SHD701",
     "4 KV heads are not a multiple"),
    ("DeepSpeed#7259",
     mapping("ds_config.json",
             {"train_batch_size": 8, "zero_optimization": {"stage": 1},
              "tensor_parallel": {"autotp_size": 4}},
             model(num_key_value_heads=2)), ["--devices", "4"], "SHD702",
     "2 KV heads"),
    ("DeepSpeed#8316",
     mapping("ds_config.json",
             {"train_batch_size": 8, "zero_optimization": {"stage": 1},
              "sequence_parallel_size": 4, "num_attention_heads": 12},
             model(num_attention_heads=16)), ["--devices", "4"], "SHD702",
     "12"),
    ("accelerate#3798",
     mapping("accelerate.yaml", fsdp({"tp_size": 8})), [], "SHD701",
     "KeyError dp_shard_cp"),
    ("Model-Optimizer#1302",
     mapping("accelerate.yaml", fsdp({"dp_shard_size": 4})), [], "SHD701",
     "total_size (4) does not match num_processes (8)"),
    ("executed with Accelerate 1.15.0",
     mapping("accelerate.yaml", fsdp({"dp_shard_size": 4, "tp_size": 2})), [],
     "SHD702", "splits nothing by itself"),
    ("InferenceX#1157",
     serve("vllm serve M --tensor-parallel-size 8",
           {**QWEN_MOE, "quantization_config": BLOCKS}), [], "SHD701",
     "block_n = 128"),
    ("sglang#4791",
     serve("python -m sglang.launch_server --model-path M --tp-size 16",
           {**QWEN_MOE, "moe_intermediate_size": 576,
            "quantization_config": BLOCKS}), [], "SHD701", "block_n = 128"),
    ("sglang#8243",
     serve("python -m sglang.launch_server --model-path M --tp 8",
           {**QWEN_MOE, "moe_intermediate_size": 2112,
            "quantization_config": BLOCKS}), [], "SHD701", "block_n = 128"),
    ("InferenceX#1157, a dense part",
     serve("python -m sglang.launch_server --model-path M --tp-size 8 "
           "--moe-dense-tp-size 1", QWEN_MOE), [], "SHD702",
     "has no effect without data parallel attention"),
    ("vllm#52435, experts",
     serve("vllm serve M --tensor-parallel-size 1 --data-parallel-size 3 "
           "--enable-expert-parallel", DEEPSEEK), [], "SHD70", "256 experts"),
    ("vllm#52435, heads",
     serve("vllm serve M --tensor-parallel-size 3", DEEPSEEK), [], "SHD701",
     "64 attention heads are not a multiple"),
    ("torchtitan#4258",
     titan(TITAN + "expert_parallel_degree 4", experts=6, moe_hidden=1024),
     [], "SHD70", "6 experts are not a multiple"),
]

ZERO = {"train_micro_batch_size_per_gpu": 1, "gradient_accumulation_steps": 4,
        "bf16": {"enabled": True}}
EIGHT = ["--devices", "8"]
GQA = HEADS + " --group-query-attention --num-query-groups 4"
SGLANG = "python -m sglang.launch_server --model-path M "
# Configurations that run: the files, and the options of `check`.
RIGHT = [
    (megatron(HEADS), []),
    (megatron(GQA + " --tensor-model-parallel-size 4 --sequence-parallel"),
     []),
    (megatron(GQA + " --tensor-model-parallel-size 8 --sequence-parallel"),
     []),
    (megatron(HEADS + " --pipeline-model-parallel-size 4 "
              "--num-layers-per-virtual-pipeline-stage 3 "
              "--micro-batch-size 1 --global-batch-size 16"), []),
    (megatron(HEADS + " --pipeline-model-parallel-size 4 "
              "--decoder-first-pipeline-num-layers 5 "
              "--decoder-last-pipeline-num-layers 5"), []),
    (megatron(HEADS + " --context-parallel-size 2", nodes=2), []),
    (megatron(HEADS + " --num-experts 8 --expert-model-parallel-size 8 "
              "--moe-router-topk 2"), []),
    (megatron(HEADS + " --tensor-model-parallel-size 2 --num-experts 8 "
              "--expert-model-parallel-size 4 --sequence-parallel "
              "--expert-tensor-parallel-size 1"), []),
    (megatron(HEADS + " --use-distributed-optimizer --overlap-grad-reduce "
              "--overlap-param-gather --recompute-activations"), []),
    (megatron(HEADS + " --recompute-granularity full --recompute-method "
              "uniform --recompute-num-layers 1"), []),
    (megatron(HEADS + " --tensor-model-parallel-size 2 --sequence-parallel "
              "--make-vocab-size-divisible-by 128", vocab=50257), []),
    (megatron(HEADS + " --pipeline-model-parallel-size 2 --pipeline-model-"
              "parallel-layout 'E" + "t" * 13 + "|" + "t" * 11 + "L'"), []),
    (titan(TITAN + "data_parallel_shard_degree -1"), []),
    (titan(TITAN + "tensor_parallel_degree 8"), []),
    (titan(TITAN + "data_parallel_replicate_degree 2 " + TITAN +
           "tensor_parallel_degree 2"), []),
    (titan(TITAN + "pipeline_parallel_degree 2 --training.local_batch_size "
           "8"), []),
    (titan(TITAN + "expert_parallel_degree 4", experts=8, moe_hidden=1024),
     []),
    (mapping("ds_config.json", {**ZERO, "zero_optimization": {"stage": 1}},
             GROUPED), EIGHT),
    (mapping("ds_config.json", {**ZERO, "zero_optimization": {"stage": 2}},
             GROUPED), EIGHT),
    (mapping("ds_config.json", {**ZERO, "zero_optimization": {"stage": 3}},
             GROUPED), EIGHT),
    (mapping("ds_config.json",
             {**ZERO, "zero_optimization": {"stage": 1},
              "tensor_parallel": {"autotp_size": 4}}, GROUPED), EIGHT),
    (mapping("accelerate.yaml", fsdp({"dp_shard_size": 8}), GROUPED), []),
    (mapping("accelerate.yaml",
             fsdp({"dp_replicate_size": 2, "dp_shard_size": 4}), GROUPED),
     []),
    (mapping("accelerate.yaml", fsdp({"dp_shard_size": 4, "cp_size": 2}),
             GROUPED), []),
    (serve("vllm serve M --tensor-parallel-size 8", GROUPED), []),
    (serve("vllm serve M --tensor-parallel-size 4 --pipeline-parallel-size 2",
           GROUPED), []),
    (serve("vllm serve M --tensor-parallel-size 8 --data-parallel-size 2 "
           "--enable-expert-parallel", DEEPSEEK), []),
    (serve("vllm serve M --tensor-parallel-size 4",
           {**QWEN_MOE, "quantization_config": BLOCKS}), []),
    (serve(SGLANG + "--tp-size 8", GROUPED), []),
    (serve(SGLANG + "--tp-size 8 --dp-size 8 --enable-dp-attention "
           "--moe-dense-tp-size 1", DEEPSEEK), []),
    (serve(SGLANG + "--tp-size 8 --ep-size 8",
           {**QWEN_MOE, "quantization_config": BLOCKS}), []),
    (serve(SGLANG + "--tp-size 4 --pp-size 2", GROUPED), []),
]


class Mistakes(Case):
    def checked(self, files, options):
        """Returns what `check` reports in a folder without a project."""
        with tempfile.TemporaryDirectory() as folder:
            for name, text in files.items():
                with open(os.path.join(folder, name), "w",
                          encoding="utf-8") as file:
                    file.write(text)
            got = run("check", "--notes", *options, cwd=folder)
        self.assertRegex(got.err, r"^[\w.]+: \w+: ")
        return got

    def test_mistakes_are_found(self):
        for report, files, options, code, words in MISTAKES:
            with self.subTest(report):
                got = self.checked(files, options)
                text = got.out + got.err
                found = re.search(code + r"\d? [\w-]+\]: [^\n]*" +
                                  re.escape(words), text)
                self.assertTrue(found, text)
                self.assertEqual(got.rc, 1 if "error[SHD701" in text else 0,
                                 text)
                after = text[found.end():]
                self.assertRegex(after.split("= help", 1)[0],
                                 r"--> [\w.]+:\d+")
                self.assertRegex(after, r"= help: \S+")

    def test_right_configurations_have_no_finding(self):
        self.assertGreaterEqual(len(RIGHT), 30)
        for files, options in RIGHT:
            with self.subTest(files=files):
                got = self.checked(files, options)
                self.assertEqual(got.rc, 0, got.err)
                self.assertRegex(got.err, "target: 0 errors, 0 warnings, "
                                          "0 notes")


if __name__ == "__main__":
    unittest.main()
