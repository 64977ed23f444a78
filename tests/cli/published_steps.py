"""The options of `shardc cost` for the steps of published training runs
(testdata/published/runs.csv): dense models on 4 to 2,240 GPUs and TPUs, without
pipelines."""

import csv
import os

from driver import TESTDATA
from published_models import Models

RUNS = os.path.join(TESTDATA, "published", "runs.csv")
STACKS = {"compiled": "compiled", "eager": "eager", "eager_pure": "eager-bf16",
          "deepspeed": "deepspeed-2021", "xla": "xla", "fused": "megatron"}
DEVICES = {"a100-80": "a100-80-sxm", "a100-40": "a100-40-sxm",
           "h100": "h100-sxm", "b200": "b200-hgx"}
# The H100 of torchtitan's runs: 500 W, 96 GB of slower memory.
H100_500W = """schema: shardc.profile/v1
base: h100-sxm
name: h100-500w
memory: {bytes: 96000000000, bandwidth: 2.4e12}
efficiency:
  matmul: {bf16: 0.52, fp8: 0.49}
  attention: {flash_attn1: 0.1318, flash_attn2: 0.2197, cudnn: 0.498}
"""
# The weights of ranks of a pipeline under ZeRO stages 1 and 2, which shard no
# parameters: those that divide a sequence hold the same weights.
HELD = """version: 1
extends: [builtin:llama/hf]
axes: {sequence_parallel: null, sequence: sp, query_sequence: sp, key_sequence: sp}
rules: []
"""
POLICIES = {
    "none": "everything_saveable", "full": "nothing_saveable",
    "minimal": "dots_with_no_batch_dims_saveable",
    # Every second matmul is kept.
    "sac_op": "save_only_these_names(q_proj,v_proj,context,gate_proj,"
              "down_proj)",
    # Scores are recomputed, which no policy of names states.
    "attn": "everything_saveable"}


def offloads(row):
    """Whether the run keeps q, k and v in the memory of the host."""
    return row["model"] == "mxt-128b" and row["device"] == "tpu-v5e"


def on_device(row):
    """The row as far as the memory of the device is concerned, with the reason
    if it is not the row itself."""
    if offloads(row):
        return {**row, "remat": "full"}, "q, k and v are in the host's memory"
    if row["model"] == "palm-540b":
        return ({**row, "remat": "full", "V": "256008", "model": "palm-padded"},
                "the paper rematerialises, and XLA pads a vocabulary of 256,000 "
                "that 12 does not divide")
    return row, ""


def holds_weights(row):
    """Whether the ranks of a pipeline that divide a sequence hold the same
    weights."""
    return (int(row.get("pp") or 1) > 1 and row["cp"] != "1"
            and row["zero"] in ("1", "2"))


# The sources whose recipes sum and reduce gradients in bfloat16:
# `grad_sync_dtype=bf16` in NeMo-Framework-Launcher, examples/training at edc9045;
# `--grad-reduce-in-bf16` in Megatron-LM, examples/llama at 157006d;
# `grad_reduce_in_fp32 = False` in Megatron-Bridge,
# scripts/performance/configs/llama at 0013c9a.
BF16_GRADIENTS = ("performance_summary.md", "Megatron-LM examples/llama",
                  "Megatron-Bridge")


def gradient_dtype(row, zero):
    """The dtype of the sums of gradients; None for that of the parameters."""
    if any(one in row["source"] for one in BF16_GRADIENTS):
        return None
    sums = row["sw"] == "compiled" or (row["sw"] == "fused" and zero > 0)
    return "float32" if sums else None


class Steps:
    """Writes rules, models and profiles to a folder."""

    def __init__(self, folder):
        self.held = os.path.join(folder, "held.yaml")
        with open(self.held, "w", encoding="utf-8") as file:
            file.write(HELD)
        self.profile = os.path.join(folder, "h100-500w.yaml")
        with open(self.profile, "w", encoding="utf-8") as file:
            file.write(H100_500W)
        with open(RUNS, encoding="utf-8") as file:
            self.rows = list(csv.DictReader(file))
        self.models = Models(folder)

    def model(self, row):
        """The options that name the model and its rules."""
        rules = self.held if holds_weights(row) else "builtin:llama/hf"
        return ["--no-project", "--rules", rules, "--illegal", "drop",
                *self.models.arguments(row)]

    def arguments(self, row):
        """The options that name the mesh and the settings of a row."""
        stack = STACKS[row["sw"]]
        if row["sw"] == "fused" and row["attn"] == "unfused":
            stack = "megatron-2021"
        dp, fsdp, tp, cp, zero = (
            int(row[key]) for key in ("dp", "fsdp", "tp", "cp", "zero"))
        out = ["--stack", stack, "--seq", row["seq"],
               "--microbatches", row["ga"],
               "--profile", self.profile if row["device"] == "h100-500w"
               else DEVICES.get(row["device"], row["device"])]
        # DeepSpeed divides flat tensors, and ZeRO 2 no parameters.
        if zero == 2 or stack == "deepspeed-2021":
            dp, fsdp = dp * fsdp, 1
        if zero in (1, 2) or stack == "deepspeed-2021":
            out += ["--zero", row["zero"]]
        batch = float(row["mbs"]) * int(row["ga"]) * dp * fsdp
        # TorchTitan counts the devices of context parallelism in those of
        # FSDP, over which weights are sharded.
        if dp * fsdp * tp * cp > int(row["n"]) and fsdp % cp == 0:
            fsdp //= cp
        out += ["--mesh", f"dp:{dp},fsdp:{fsdp},sp:{cp},tp:{tp}",
                "--batch", str(max(1, round(batch)))]
        policy = POLICIES[row["remat"]]
        if offloads(row) and row["remat"] == "minimal":
            policy = "save_only_these_names(q_proj,k_proj,v_proj)"
        out += ["--remat", policy]
        if row["tpmode"] == "async":
            out.append("--overlap-tp")
        if row["prec"] == "fp8":
            out += ["--matmul-dtype", "float8_e4m3fn"]
        gradients = gradient_dtype(row, zero)
        if gradients:
            out += ["--grad-dtype", gradients]
        if cp > 1:
            out += ["--operation", "ring"]
        elif row["attn"] == "flash2" and row["sw"] == "eager":
            # torchtitan without a compiler, whose loss is PyTorch's.
            out += ["--operation", "flash_attn2", "--loss", "eager"]
        return out
