"""What a step of a model with experts sends and reads, counted by hand."""

import json
import os
import unittest

from agreeing import CostCase
from driver import ROOT, TESTDATA, run

# The configuration, its pack, and what of it is counted: the layers with experts,
# the width, the experts of a layer and those of a token.
MODELS = [
    ("mixtral-8x7b", "mixtral", 32, 4096, 8, 2),
    ("deepseek-v3", "deepseek", 58, 7168, 256, 8),
    ("gpt-oss-120b", "gpt_oss", 36, 2880, 128, 4),
]
# Meshes of eight devices, and the axes that shard the batch.
GATHERS = [("tp:8", ["fsdp", "dp"]), ("ep:8", ["fsdp", "dp"])]
ROWS = 16
HIDDEN = "axes: {hidden_state: null, batch: %s}\nrules:\n"
MEMORY = 3.35e12  # bytes per second of h100-sxm


class Experts(CostCase):
    def inputs(self, model, *naming):
        config = ["--model", os.path.join(TESTDATA, "configs",
                                          f"{model}.config.json")]
        path = os.path.join(self.folder.name, f"{model}.json")
        if model.startswith("gpt-oss"):
            # tp does not divide the blocks of its MXFP4.
            naming = (*naming, "--weights-dtype", "bfloat16")
        with open(path, "w", encoding="utf-8") as file:
            file.write(self.check(run("show", "manifest", "--no-project", *config,
                                      *naming, "--format", "json"), 0).out)
        return ["--no-project", *config, "--manifest", path, "--profile",
                "h100-sxm"]

    def rules(self, pack, batch):
        with open(os.path.join(ROOT, "rules", f"{pack}.hf.yaml"),
                  encoding="utf-8") as file:
            return file.read().replace("rules:\n", HIDDEN % json.dumps(batch),
                                       1)

    def decode(self, model, pack, mesh, batch=("fsdp", "dp"), rows=ROWS):
        return list(self.of_both(
            self.rules(pack, list(batch)), *self.inputs(model), "--mesh", mesh,
            "--mode", "decode", "--batch", str(rows), "--kv-len", "4096"))

    def reductions(self, cost):
        return sum(one["bytes_per_device"] for one in cost["communication"]
                   if one["collective"] == "all_reduce")

    def test_rows_of_a_token_are_added_before_they_are_reduced(self):
        """By the step and by formulas, each layer with experts all-reduces one
        row for a token: 7 MiB for Mixtral on eight devices, 22 MiB for
        DeepSeek-V3, 5.5 MiB for gpt-oss. One expert sends a layer less."""
        for model, pack, layers, width, _, _ in MODELS:
            for mesh, batch in GATHERS:
                costs = self.decode(model, pack, mesh, batch)
                for cost in costs:
                    with self.subTest(model=model, mesh=mesh,
                                      by=cost["communication_from"]):
                        each = 2 * ROWS * width * 2 * 7 // 8
                        # Besides experts: the embedding, attention's output
                        # and, in DeepSeek-V3, three dense layers.
                        others = {"tp:8": {"mixtral": 33, "deepseek": 65,
                                           "gpt_oss": 37}[pack],
                                  "ep:8": 0}[mesh]
                        self.assertEqual(self.reductions(cost),
                                         (layers + others) * each)

    def test_only_routed_tokens_are_sent_to_experts(self):
        """Each of a device's rows is sent to its experts and back, not one row
        to each of all experts. gpt-oss adds biases of experts, and the step
        sends the router's weights of a row to the devices that have them."""
        for model, pack, layers, width, experts, chosen in MODELS:
            for cost in self.decode(model, pack, "ep:8",
                                    ("fsdp", "dp", "ep")):
                sent = sum(one["bytes_per_device"]
                           for one in cost["communication"]
                           if one["collective"] == "all_to_all")
                with self.subTest(model=model, by=cost["communication_from"]):
                    elements = 2 * ROWS // 8 * chosen * width
                    if (pack == "gpt_oss"
                            and cost["communication_from"] == "program"):
                        elements += ROWS // 8 * experts
                    self.assertEqual(sent, layers * elements * 2 * 7 // 8)

    def test_the_experts_that_no_token_chooses_are_not_read(self):
        for model, pack, _, _, experts, chosen in MODELS:
            for rows in (1, 16, 4096):
                cost, _ = self.decode(model, pack, "tp:8", rows=rows)
                share = 1 - (1 - chosen / experts) ** rows
                (said,) = [one for one in cost["assumptions"]
                           if one.startswith("all experts are chosen")]
                with self.subTest(model=model, rows=rows):
                    percent = float(said.split(" reads ")[1].split(" %")[0])
                    self.assertAlmostEqual(percent, 100 * share, delta=1e-3)
                    held = (cost["memory"]["parameters"] +
                            cost["memory"]["kv_cache"])
                    read = cost["time"]["memory_s"] * MEMORY
                    if share < 0.9:
                        self.assertLess(read, 0.97 * held)
                    self.assertLessEqual(read, 1.000001 * held)

    def test_a_plan_of_square_experts_has_the_memory_of_its_inputs(self):
        """Gate and up of one of its experts are a square matrix, whose
        orientation the other matrices of the layer show."""
        config = os.path.join(TESTDATA, "configs",
                              "granite-3.1-1b-a400m.config.json")
        inputs = ["--no-project", "--model", config, "--rules", "auto",
                  "--mesh", "fsdp:2,ep:2,tp:2"]
        path = os.path.join(self.folder.name, "plan.json")
        self.check(run("plan", *inputs, "-o", path), 0)
        sizes = ["--batch", "64", "--seq", "512"]
        of_plan = self.cost("--no-project", "--model", config, "--plan", path,
                            *sizes)
        of_inputs = self.cost(*inputs, *sizes)
        for member in ("activations", "total"):
            self.assertEqual(of_plan["memory"][member],
                             of_inputs["memory"][member])

    def test_both_namings_of_mixtral_cost_the_same(self):
        config = os.path.join(TESTDATA, "configs", "mixtral-8x7b.config.json")
        names = json.loads(self.check(run(
            "show", "manifest", "--no-project", "--model", config, "--format",
            "json"), 0).out)["params"]
        names = {one.pop("name"): one for one in names}
        old = {}
        for name, one in names.items():
            if "mlp.experts." not in name:
                old[name.replace("mlp.gate.", "block_sparse_moe.gate.")] = one
                continue
            experts, *rest = one["shape"]
            layer = name.split(".mlp.")[0] + ".block_sparse_moe.experts"
            parts = {"w2": rest} if "down" in name else {
                part: [rest[0] // 2, rest[1]] for part in ("w1", "w3")}
            old.update({f"{layer}.{i}.{part}.weight": {**one, "shape": shape}
                        for i in range(experts)
                        for part, shape in parts.items()})
        path = os.path.join(self.folder.name, "tree.json")
        for mesh in ("tp:8", "ep:8", "ep:4,tp:2", "fsdp:8", "fsdp:2,sp:4",
                     "fsdp:2,ep:2,tp:2"):
            for mode in ("decode", "prefill", "train"):
                costs = []
                for params in (names, old):
                    with open(path, "w", encoding="utf-8") as file:
                        json.dump({"schema": "shardc.manifest/v1",
                                   "params": [{"name": name, **one} for name, one
                                          in params.items()]}, file)
                    costs.append(self.cost(
                        "--no-project", "--model", config, "--manifest", path,
                        "--rules", "builtin:mixtral/hf", "--mesh", mesh,
                        "--profile", "h100-sxm", "--mode", mode, "--batch",
                        "16", "--seq", "2048", "--kv-len", "2048"))
                with self.subTest(mesh=mesh, mode=mode):
                    self.assertEqual(costs[0]["memory"], costs[1]["memory"])
                    sent = [[(one["phase"], one["collective"], one["axes"],
                              one["bytes_per_device"])
                             for one in cost["communication"]]
                            for cost in costs]
                    self.assertEqual(*sent)
                    # Gate and up are gathered by one collective or by two.
                    seconds = [cost["time"]["least_s"] for cost in costs]
                    self.assertLess(abs(seconds[0] / seconds[1] - 1), 0.01)


if __name__ == "__main__":
    unittest.main()
