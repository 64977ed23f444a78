"""The options of `shardc cost` for published training runs of models with experts
(testdata/published/moe.csv)."""

import csv
import itertools
import json
import os
import re
import statistics

from driver import ROOT, TESTDATA, run

RUNS = os.path.join(TESTDATA, "published", "moe.csv")
PACKS = {"qwen3-235b-a22b": "qwen_moe", "qwen3-30b-a3b": "qwen_moe",
         "deepseek-v3": "deepseek", "gpt-oss-120b": "gpt_oss",
         "llama4-maverick": "llama4"}
# The configurations whose names differ from those of the rows.
CONFIGS = {"llama4-maverick": "llama-4-maverick"}
DEVICES = {"h100": "h100-sxm", "b200": "b200-hgx"}
GRAPHS = {"none": "none", "te": "partial", "full": "step"}
# The tensors that the recomputed modules of Megatron do not keep. `mlp` is that
# of dense layers only, which have the same names.
MODULES = {"mla_up_proj": ["latent_up"], "layernorm": ["norm"],
           "moe_act": ["product"],
           "moe": ["gate_proj", "product", "dispatched", "router"],
           "mlp": [], "offload": []}
POLICIES = {"": "everything_saveable", "full": "nothing_saveable"}
# The layers of DeepSeek-V3's stages, by their number, as the recipes of
# Megatron-Bridge state them: the last stage has the further predicted token.
DEEPSEEK = {4: [16] * 3 + [13], 8: [8] * 7 + [5], 16: [4] * 15 + [1],
            32: [1] + [2] * 30 + [0]}
# The layers of models whose recipes count the embedding and the loss as a layer
# each if the stages divide their sum.
LAYERS = {"qwen3-235b-a22b": 94, "qwen3-30b-a3b": 48, "llama4-maverick": 48}


# Keys of measured runs whose values are numbers.
COUNTS = ("batch", "seq", "microbatches", "zero", "virtual")
GUIDE = os.path.join(ROOT, "docs", "guides", "cost.md")


def write_run(folder, name, arguments, step_s):
    """Writes a measured run, whose inputs are options of `cost`, and returns its
    path."""
    value = {"schema": "shardc.run/v1", "name": name, "step_s": step_s}
    for flag, more in itertools.zip_longest(arguments, arguments[1:]):
        key = flag.removeprefix("--").replace("-", "_")
        if not flag.startswith("--") or key in ("profile", "no_project"):
            continue
        switch = more is None or more.startswith("--")
        value[key] = True if switch else int(more) if key in COUNTS else more
    path = os.path.join(folder, name + ".run.yaml")
    with open(path, "w", encoding="utf-8") as file:
        json.dump(value, file)
    return path


def held_out(folder, runs):
    """Calibrates a device with the last three of the runs, and returns the median
    errors of the times of the others, before and after, in percent. A run is its
    name, its options and its seconds."""
    def errors(profile):
        out = []
        for _, arguments, real in runs[:-3]:
            arguments = list(arguments)
            if profile:
                arguments[arguments.index("--profile") + 1] = profile
            time = run("cost", *arguments, "--format", "json").json()["time"]
            expected = time["step"] if "step" in time else time["expected_s"]
            out.append(abs(expected / real - 1))
        return round(100 * statistics.median(out), 1)
    own = os.path.join(folder, "own.yaml")
    arguments = runs[-1][1]
    done = run("calibrate", "--profile",
               arguments[arguments.index("--profile") + 1], "--run",
               *(write_run(folder, *one) for one in runs[-3:]), "-o", own)
    assert done.rc == 0, done.err
    return errors(None), errors(own)


def recorded(kind):
    """The rows of the guide's table of families that were calibrated with three
    runs: the number of other runs and their median errors before and after, by
    family. `kind` is the second column."""
    with open(GUIDE, encoding="utf-8") as file:
        rows = re.findall(r"^\| (\S+) \| (\w+) \| (\d+) \| ([\d.]+) \| "
                          r"([\d.]+) \|$", file.read(), re.M)
    return {name: (int(count), float(before), float(after))
            for name, own, count, before, after in rows if own == kind}


def policy(row):
    if row["remat"] in POLICIES:
        return POLICIES[row["remat"]]
    names = sum((MODULES[one] for one in row["remat"].split(",")), [])
    return (f"save_anything_except_these_names({','.join(names)})" if names
            else "everything_saveable")


def assigned(row):
    """The value of `--assign`."""
    stages = int(row["pp"]) * int(row["vp"])
    if row["model"] == "deepseek-v3":
        return ",".join(map(str, DEEPSEEK[stages]))
    each, rest = divmod(LAYERS[row["model"]] + 2, stages)
    if rest != 0:
        return "even"
    return ",".join(str(each - (stage in (0, stages - 1)))
                    for stage in range(stages))


def folded(row):
    """The sizes of tp, cp and dp of a stage, and the parts of them over which
    experts are distributed: first over tp, then over cp and dp, as Megatron
    numbers its devices."""
    tp, cp, pp, ep, n = (int(row[key]) for key in ("tp", "cp", "pp", "ep", "n"))
    if row["device"] == "tpu-7x":
        n *= 2  # the row counts chips, which have two devices each
    experts_tp = min(tp, ep)
    experts_cp = min(cp, ep // experts_tp)
    return (tp, cp, n // (tp * cp * pp), experts_tp, experts_cp,
            ep // experts_tp // experts_cp)


class Runs:
    """Writes the rules of runs to a folder."""

    def __init__(self, folder):
        self.folder = folder
        self.known = {}
        with open(RUNS, encoding="utf-8", newline="") as file:
            self.rows = list(csv.DictReader(file))

    def rules(self, row):
        _, cp, _, tp, experts_cp, ep = folded(row)
        experts = [axis for axis, size in (("ep", ep), ("sq", experts_cp),
                                           ("tp", tp)) if size > 1] or ["ep"]
        axes = {"batch": ["dp", "fsdp", "ep"], "expert": experts}
        if cp > 1:
            for key in ("sequence", "query_sequence", "key_sequence"):
                axes[key] = ["sp", "sq"]
        rules = {"version": 1, "axes": axes,
                 "extends": [f"builtin:{PACKS[row['model']]}/hf"]}
        path = os.path.join(self.folder, row["id"] + ".yaml")
        with open(path, "w", encoding="utf-8") as file:
            json.dump(rules, file)
        return path

    @staticmethod
    def device(name):
        return DEVICES.get(name, name)

    def mesh(self, row):
        tp, cp, dp, _, experts_cp, ep = folded(row)
        data = "fsdp" if row["fsdp"] == "1" else "dp"
        axes = [("pp", int(row["pp"])), (data, dp // ep), ("ep", ep),
                ("sp", cp // experts_cp), ("sq", experts_cp), ("tp", tp)]
        return ",".join(f"{axis}:{size}" for axis, size in axes
                        if size > 1 or axis == "ep")

    def arguments(self, row):
        """All options but those of the rules."""
        device = row["device"]
        xla = row["stack"] == "xla"
        fused = row["software"][:10] in ("NeMo 26.06", "NeMo 26.08")
        config = CONFIGS.get(row["model"], row["model"])
        out = ["--model", os.path.join(TESTDATA, "configs",
                                       config + ".config.json"),
               "--mesh", self.mesh(row), "--illegal", "drop",
               "--profile", self.device(device),
               "--batch", row["gbs"], "--microbatches", row["ga"],
               "--seq", row["seq"], "--remat", policy(row), "--stack",
               "xla" if xla else "megatron-2026-06" if fused else "megatron"]
        if row["fsdp"] != "1":
            out += ["--zero", row["zero"]]
        if not xla:
            out += ["--dispatcher", row["dispatcher"], "--graphs",
                    GRAPHS[row["graphs"]], "--overlap-tp"]
        if row["overlap"] == "1":
            out.append("--ep-overlap")
        if row.get("optimizer") == "host":
            out.append("--offload-optimizer")
        if row["balance"] == "natural":
            out += ["--routing", "natural"]
        if row["balance"] == "drop":
            out += ["--capacity-factor", "1"]
        if row["prec"] != "bf16":
            out += ["--matmul-dtype",
                    "mxfp8" if row["prec"] == "mxfp8" else "float8_e4m3fn"]
        if int(row["cp"]) > 1:
            out += ["--operation", "ring"]
        if int(row["pp"]) > 1:
            schedule = "interleaved" if int(row["vp"]) > 1 else "1f1b"
            out += ["--stages", "pp", "--schedule", schedule, "--virtual",
                    row["vp"], "--p2p", "exposed", "--assign", assigned(row)]
        return out

    def cost(self, row, *more):
        return run("cost", "--no-project", "--rules", self.rules(row),
                   *self.arguments(row), *more, "--format", "json")

    def times(self, row):
        """The least, the expected and the most seconds of a step, or None if
        they are not known. Runs of several releases with the same options are
        computed once."""
        key = tuple(self.arguments(row))
        if key not in self.known:
            done = self.cost(row)
            assert done.rc in (0, 1) and done.out, row["id"] + done.err
            time = json.loads(done.out)["time"]
            self.known[key] = (
                {one: time[one] for one in ("least", "step", "most")}
                if "step" in time else
                {"least": time.get("least_s"), "step": time.get("expected_s"),
                 "most": time.get("most_s")})
        return self.known[key]

    def seconds(self, row):
        """The expected seconds of a step, or None if they are not known."""
        return self.times(row)["step"]
