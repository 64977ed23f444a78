"""The layers, products and activations that `cost` counts in models whose layers
differ: shared experts, experts of their own, mixers, and names that mean something
else in another family."""

import json
import os
import unittest

from agreeing import CostCase
from driver import TESTDATA, run


class CountedLayers(CostCase):
    def assert_stages_add_up(self, given, sizes, flops):
        """The stages of a pipeline have all operations of a step."""
        for size in sizes:
            shown = self.cost([
                *[word for word in given
                  if word not in ("--profile", "h100-sxm")],
                "--mesh", f"pp:{size}", "--stages", "pp", "--assign", "even",
                "--microbatches", "2"])
            self.assertEqual(shown["time"]["unit"], "flops")
            tasks = sum(stage[task] for stage in shown["stages"]
                        for task in ("forward", "input", "weight"))
            self.assertAlmostEqual(2 * tasks / flops, 1, places=9)

    def write_whole(self):
        """Returns the path of rules that shard nothing."""
        path = os.path.join(self.folder.name, "whole.json")
        with open(path, "w", encoding="utf-8") as file:
            json.dump({"version": 1, "rules": [{"match": ".*", "spec": []}]},
                      file)
        return path

    def test_stages_of_layers_with_windows_add_up(self):
        config = os.path.join(TESTDATA, "configs", "gpt-oss-20b.config.json")
        given = ["--model", config, "--rules", "auto", "--batch", "2", "--seq",
                 "8192"]
        whole = self.cost([*given, "--mesh", "fsdp:1", "--profile",
                           "h100-sxm"])
        self.assert_stages_add_up(given, [2, 8], whole["time"]["flops"])

    def test_a_layer_with_shared_experts_is_one_layer(self):
        config = os.path.join(TESTDATA, "configs", "deepseek-v3.config.json")
        shown = self.cost(["--model", config, "--rules", "auto", "--mesh",
                           "fsdp:1", "--batch", "1", "--seq", "64"])
        layers = [(one["name"], one["layers"])
                  for one in shown["activations"]["tensors"]]
        # The layer that predicts a further token is one more.
        self.assertEqual(layers[:4], [("layer_input", 62), ("norm", 62),
                                      ("norm", 62), ("residual", 62)])
        # 64 tokens of the latents of queries and of keys and values, and of
        # what 128 heads compute from them.
        for name, widths in (("latent_down", [512 + 64, 1536]),
                             ("latent_up", [128 * 192, 128 * 256])):
            self.assertEqual(
                [(128 * width, 62, True) for width in widths],
                sorted((one["bytes"], one["layers"], one["kept"])
                       for one in shown["activations"]["tensors"]
                       if one["name"] == name))

    def test_layers_of_experts_are_counted_without_a_configuration(self):
        path = os.path.join(TESTDATA, "models",
                            "real-dolphin-2.5-mixtral-8x7b.hf.manifest.json.gz")
        shown = self.cost(["--manifest", path, "--rules", "auto", "--mesh",
                           "fsdp:8", "--batch", "8", "--seq", "64"])
        self.assertEqual({one["layers"]
                          for one in shown["activations"]["tensors"]}, {32})
        self.assertEqual([one["what"] for one in shown["not_known"]], [
            "the number of experts of a token",
            "the heads, and with them a sum for each token and head that attention "
            "keeps, and activations",
            "the heads and their size, and with them operations of attention"])
        self.assertEqual({one["settled_by"] for one in shown["not_known"]},
                         {"--model"})
        self.assertTrue(shown["at_least"])

    def test_two_projections_lead_into_a_block_of_the_first_qwen(self):
        config = os.path.join(TESTDATA, "configs", "qwen-72b.config.json")
        shown = self.cost(["--model", config, "--rules", "auto", "--mesh",
                           "fsdp:1", "--batch", "1", "--seq", "64"])
        tensors = [(one["name"], one["bytes"] // 128, one["layers"])
                   for one in shown["activations"]["tensors"]]
        for name, width in (("layer_input", 8192), ("residual", 8192),
                            ("gate_proj", 24576), ("up_proj", 24576),
                            ("down_proj", 8192)):
            self.assertEqual([one for one in tensors if one[0] == name],
                             [(name, width, 80)])

    def test_published_names_of_granite_count_as_those_of_transformers(self):
        config = os.path.join(TESTDATA, "configs",
                              "granite-3.1-1b-a400m.config.json")
        figures = []
        for naming in ("hf", "hf-files"):
            path = os.path.join(self.folder.name, naming + ".json")
            got = run("show", "manifest", "--model", config, "--naming", naming,
                      "--format", "json", "-o", path)
            self.assertEqual(got.rc, 0, got.err)
            shown = self.cost([
                "--manifest", path, "--model", config, "--rules", "auto",
                "--mesh", "fsdp:1", "--profile", "h100-sxm", "--batch", "1",
                "--seq", "64"])
            figures.append((shown["time"]["flops"], sorted(
                (one["name"], one["bytes"], one["layers"], one["kept"])
                for one in shown["activations"]["tensors"])))
        self.assertEqual(*figures)

    def test_attention_named_mixer_counts_as_attention(self):
        # The names of attention in the first files of Phi-2, next to names
        # that say attention.
        wide = 64
        figures = []
        for block in ("mixer", "attn"):
            params = {"transformer.embd.wte.weight": [100, wide],
                      "lm_head.linear.weight": [100, wide]}
            for layer in range(2):
                for name, shape in ((block + ".Wqkv", [3 * wide, wide]),
                                    (block + ".out_proj", [wide, wide]),
                                    ("mlp.fc1", [256, wide]),
                                    ("mlp.fc2", [wide, 256])):
                    params[f"transformer.h.{layer}.{name}.weight"] = shape
            paths = {}
            for name, value in (
                    ("manifest", {"schema": "shardc.manifest/v1", "params": {
                        name: {"shape": shape, "dtype": "BF16"}
                        for name, shape in params.items()}}),
                    ("config", {"model_type": "phi", "hidden_size": wide,
                                "num_attention_heads": 4,
                                "num_hidden_layers": 2}),
                    ("rules", {"version": 1, "rules": [
                        {"match": "Wqkv", "spec": ["tp", None],
                         "parts": [3]},
                        {"match": "fc1", "spec": ["tp", None]},
                        {"match": "out_proj|fc2", "spec": [None, "tp"]},
                        {"match": ".*", "spec": []}]})):
                paths[name] = os.path.join(self.folder.name,
                                           f"{block}.{name}.json")
                with open(paths[name], "w", encoding="utf-8") as file:
                    json.dump(value, file)
            shown = self.cost([
                "--manifest", paths["manifest"], "--model", paths["config"],
                "--rules", paths["rules"], "--mesh", "tp:2", "--profile",
                "h100-sxm", "--batch", "2", "--seq", "64"])
            figures.append({key: shown[key] for key in
                            ("activations", "communication", "time",
                             "not_known")})
        self.assertEqual(*figures)
        self.assertIn("context", [one["name"] for one in
                                  figures[0]["activations"]["tensors"]])

    def test_blocks_with_one_input_are_in_one_layer(self):
        wide = 64
        attention = {f"self_attn.{one}_proj": [wide, wide] for one in "qkvo"}
        norms = {"input_layernorm": [wide], "post_attention_layernorm": [wide]}
        dense = {"up_proj": [128, wide], "down_proj": [wide, 128]}
        experts = {f"mlp.experts.{i}.{name}": shape for i in range(2)
                   for name, shape in dense.items()}
        # An MLP next to experts, and attention next to a mixer.
        for blocks, kind in (
                ({"mlp.gate": [2, wide], **experts,
                  **{"mlp.shared_mlp." + name: shape
                     for name, shape in dense.items()}}, "hunyuan_v1_moe"),
                ({"mamba.in_proj": [256, wide], "mamba.out_proj": [wide, 128],
                  **{"mlp." + name: shape for name, shape in dense.items()}},
                 "falcon_h1")):
            manifest = os.path.join(self.folder.name, kind + ".json")
            config = os.path.join(self.folder.name, kind + ".config.json")
            rules = os.path.join(self.folder.name, "rules.yaml")
            params = {"model.embed_tokens.weight": [100, wide]}
            for layer in range(4):
                for name, shape in {**attention, **norms, **blocks}.items():
                    params[f"model.layers.{layer}.{name}.weight"] = shape
            for path, value in (
                    (manifest, {"schema": "shardc.manifest/v1", "params": {
                        name: {"shape": shape, "dtype": "BF16"}
                        for name, shape in params.items()}}),
                    (config, {"model_type": kind, "hidden_size": wide,
                              "num_attention_heads": 4,
                              "num_hidden_layers": 4}),
                    (rules, {"version": 1,
                             "rules": [{"match": ".*", "spec": []}]})):
                with open(path, "w", encoding="utf-8") as file:
                    json.dump(value, file)
            shown = self.cost([
                "--manifest", manifest, "--model", config, "--rules", rules,
                "--batch", "2", "--seq", "16", "--mesh", "fsdp:1"])
            self.assertEqual(
                [(one["name"], one["layers"])
                 for one in shown["activations"]["tensors"]][:4],
                [("layer_input", 4), ("norm", 4), ("norm", 4),
                 ("residual", 4)])

    def test_packed_weights_are_products_of_all_their_inputs(self):
        wide = 64
        layer = {f"self_attn.{one}_proj": [wide, wide] for one in "qkvo"}
        layer.update({"mlp.gate_proj": [128, wide], "mlp.up_proj": [128, wide],
                      "mlp.down_proj": [wide, 128]})
        # Plain weights, and those of compressed-tensors, GPTQ and AWQ.
        trees = [{"model.embed_tokens.weight": ([100, wide], "BF16")}
                 for _ in range(4)]
        for index in range(2):
            for name, (out, read) in layer.items():
                full = f"model.layers.{index}.{name}."
                trees[0][full + "weight"] = ([out, read], "BF16")
                trees[1][full + "weight_packed"] = ([out, read // 8], "I32")
                trees[1][full + "weight_scale"] = ([out, read // 32], "BF16")
                trees[2][full + "qweight"] = ([read // 8, out], "I32")
                trees[3][full + "qweight"] = ([read, out // 8], "I32")
                for tree in trees[2:]:
                    tree[full + "scales"] = ([read // 32, out], "F16")
        config = {"model_type": "llama", "hidden_size": wide,
                  "intermediate_size": 128, "num_attention_heads": 4,
                  "num_hidden_layers": 2}
        rules = {"version": 1, "rules": [{"match": ".*", "spec": []}]}
        flops = []
        for params in trees:
            files = {"config": config, "rules": rules, "manifest": {
                "schema": "shardc.manifest/v1", "params": {
                    name: {"shape": shape, "dtype": dtype}
                    for name, (shape, dtype) in params.items()}}}
            paths = {}
            for name, value in files.items():
                paths[name] = os.path.join(self.folder.name, name + ".json")
                with open(paths[name], "w", encoding="utf-8") as file:
                    json.dump(value, file)
            shown = self.cost([
                "--manifest", paths["manifest"], "--model", paths["config"],
                "--rules", paths["rules"], "--profile", "h100-sxm", "--batch",
                "2", "--seq", "16", "--mesh", "fsdp:1", "--mode", "prefill"])
            flops.append(shown["time"]["flops"])
        self.assertEqual(flops[1:], 3 * flops[:1])

    def test_weights_of_unusual_names_are_products(self):
        wide, tokens = 64, 256
        layer = {"attention.wqkv": [2 * wide, wide], "attention.wo": [wide, wide],
                 "feed_forward.w1": [128, wide], "feed_forward.w2": [wide, 128],
                 "feed_forward.w3": [128, wide]}
        params = {"model.tok_embeddings.weight": [100, wide],
                  "output.weight": [100, wide],
                  # A step looks up rows of tables.
                  "model.codebook_embeddings.0.weight": [50, wide],
                  "model.codebook_embeddings.1.weight": [50, wide]}
        for index in range(2):
            for name, shape in layer.items():
                params[f"model.layers.{index}.{name}.weight"] = shape
        files = {
            "manifest": {"schema": "shardc.manifest/v1", "params": {
                name: {"shape": shape, "dtype": "BF16"}
                for name, shape in params.items()}},
            "config": {"model_type": "internlm2", "hidden_size": wide,
                       "num_attention_heads": 4, "num_key_value_heads": 2,
                       "num_hidden_layers": 2},
            "rules": {"version": 1, "rules": [{"match": ".*", "spec": []}]}}
        paths = {}
        for name, value in files.items():
            paths[name] = os.path.join(self.folder.name, name + ".json")
            with open(paths[name], "w", encoding="utf-8") as file:
                json.dump(value, file)
        shown = self.cost([
            "--manifest", paths["manifest"], "--model", paths["config"],
            "--rules", paths["rules"], "--profile", "h100-sxm", "--batch", "2",
            "--seq", str(tokens // 2), "--mesh", "fsdp:1"])
        weights = sum(shape[0] * shape[1] for name, shape in params.items()
                      if "embed" not in name)
        self.assertEqual(shown["not_known"], [])
        self.assertEqual(shown["time"]["flops"],
                         3 * (2 * tokens * weights + 2 * tokens**2 * wide))
        # `output` outside of layers is no projection of a third layer.
        self.assertEqual({one["layers"]
                          for one in shown["activations"]["tensors"]}, {2})

    def test_projections_of_state_space_mixers_are_products(self):
        wide, inner, tokens = 64, 128, 256
        block = {"mlp.gate_proj": [256, wide], "mlp.up_proj": [256, wide],
                 "mlp.down_proj": [wide, 256]}
        mixer = {"mamba.in_proj": [2 * inner, wide],
                 "mamba.x_proj": [40, inner], "mamba.dt_proj": [inner, 8],
                 "mamba.out_proj": [wide, inner]}
        attention = {f"self_attn.{one}_proj": [wide, wide] for one in "qkvo"}
        params = {"model.embed_tokens.weight": [100, wide],
                  "lm_head.weight": [100, wide]}
        for layer in range(4):
            own = attention if layer == 1 else mixer
            for name, shape in {**own, **block}.items():
                params[f"model.layers.{layer}.{name}.weight"] = shape
            if layer != 1:
                mamba = f"model.layers.{layer}.mamba."
                params[mamba + "conv1d.weight"] = [inner, 1, 4]
                params[mamba + "A_log"] = [inner, 16]
        files = {
            "manifest": {"schema": "shardc.manifest/v1", "params": {
                name: {"shape": shape, "dtype": "BF16"}
                for name, shape in params.items()}},
            "config": {"model_type": "jamba", "hidden_size": wide,
                       "num_attention_heads": 4, "num_hidden_layers": 4,
                       "attn_layer_period": 4, "attn_layer_offset": 1},
            "rules": {"version": 1, "rules": [
                {"match": "(in|x)_proj", "spec": ["tp", None]},
                {"match": "out_proj", "spec": [None, "tp"]},
                {"match": ".*", "spec": []}]}}
        paths = {}
        for name, value in files.items():
            paths[name] = os.path.join(self.folder.name, name + ".json")
            with open(paths[name], "w", encoding="utf-8") as file:
                json.dump(value, file)
        given = ["--manifest", paths["manifest"], "--model", paths["config"],
                 "--rules", paths["rules"], "--profile", "h100-sxm", "--batch",
                 "2", "--seq", str(tokens // 2)]
        shown = self.cost([*given, "--mesh", "fsdp:1"])
        weights = sum(
            shape[0] * shape[1] for name, shape in params.items()
            if len(shape) == 2 and "embed" not in name and "A_log" not in name)
        self.assertEqual(
            shown["time"]["flops"],
            3 * (2 * tokens * weights + 2 * tokens * tokens // 2 * wide))
        names = [one["name"] for one in shown["activations"]["tensors"]]
        for name, times in (("in_proj", 3), ("mixed", 1), ("context", 1)):
            self.assertEqual(names.count(name), times)
        self.assertEqual(shown["not_known"], [])
        self.assertEqual(
            [one["what"] for one in
             self.cost([*given, "--mesh", "tp:2"])["not_known"]],
            ["communication within state-space mixers and linear attention"])
        # A KV cache is not all that the mixers keep in serving.
        served = self.cost([*given[:6], "--batch", "2", "--mode", "decode",
                            "--kv-len", "8", "--mesh", "fsdp:1"])
        self.assertTrue(served["at_least"])
        self.assertTrue(any("states" in one["what"]
                            for one in served["not_known"]))
        # The stage with the attention has its operations.
        self.assert_stages_add_up(given, [2, 4], shown["time"]["flops"])
        # Of layers that are a mixer, attention or an MLP, all have an input.
        files["config"]["num_hidden_layers"] = 8
        with open(paths["config"], "w", encoding="utf-8") as file:
            json.dump(files["config"], file)
        shown = self.cost([*given, "--mesh", "fsdp:1"])
        self.assertEqual(shown["activations"]["tensors"][0]["layers"], 8)

    def test_a_tied_head_without_an_embedding_gives_the_logits(self):
        """XLM-RoBERTa stores the shared matrix below the head's name, next to
        a square matrix `lm_head.dense`."""
        figures = []
        for tied in (True, False):
            path = os.path.join(self.folder.name, "config.json")
            with open(path, "w", encoding="utf-8") as file:
                json.dump({
                    "model_type": "xlm-roberta", "vocab_size": 1000,
                    "architectures": ["XLMRobertaForMaskedLM"],
                    "hidden_size": 64, "num_hidden_layers": 2,
                    "num_attention_heads": 4, "intermediate_size": 128,
                    "max_position_embeddings": 66, "type_vocab_size": 1,
                    "tie_word_embeddings": tied}, file)
            shown = self.cost([
                "--model", path, "--rules", "auto", "--profile", "h100-sxm",
                "--batch", "2", "--seq", "64", "--mesh", "fsdp:1", "--loss",
                "eager"])
            figures.append((shown["time"]["flops"],
                            shown["memory"]["logits"]))
        self.assertEqual(figures[0], figures[1])
        # An eager loss holds four copies.
        self.assertEqual(figures[0][1], 4 * 2 * 64 * 1000 * 4)

    def test_blocks_that_layers_share_run_in_each_of_them(self):
        wide, inner, tokens, rank = 64, 128, 256, 8
        mixer = {"in_proj": [2 * inner + 40, wide], "out_proj": [wide, inner]}
        # A block reads the hidden state and the embeddings.
        block = {**{f"self_attn.{one}_proj": [2 * wide, 2 * wide]
                    for one in "qkv"},
                 "self_attn.o_proj": [wide, 2 * wide],
                 "feed_forward.gate_up_proj": [256, wide],
                 "feed_forward.down_proj": [wide, 128]}
        params = {"model.embed_tokens.weight": [100, wide],
                  "lm_head.weight": [100, wide]}
        hybrid = [2, 3, 5, 6, 7]
        for layer in range(8):
            name = f"model.layers.{layer}."
            if layer in hybrid:
                params[name + "linear.weight"] = [wide, wide]
                name += "mamba_decoder."
            for one, shape in mixer.items():
                params[name + f"mamba.{one}.weight"] = shape
        once = sum(shape[0] * shape[1] for name, shape in params.items()
                   if "embed" not in name)
        # Two blocks run five times, each with an adapter for each layer.
        for layer in hybrid[:2]:
            name = f"model.layers.{layer}.shared_transformer."
            for one, shape in block.items():
                params[name + one + ".weight"] = shape
        adapters = 0
        for at, layer in enumerate(hybrid):
            name = (f"model.layers.{hybrid[at % 2]}.shared_transformer."
                    f"feed_forward.gate_up_proj_adapter_list.{at}.")
            params[name + "0.weight"] = [rank, wide]
            params[name + "1.weight"] = [256, rank]
            adapters += rank * (wide + 256)
        files = {
            "manifest": {"schema": "shardc.manifest/v1", "params": {
                name: {"shape": shape, "dtype": "BF16"}
                for name, shape in params.items()}},
            "config": {"model_type": "zamba2", "hidden_size": wide,
                       "num_attention_heads": 4, "num_hidden_layers": 8,
                       "hybrid_layer_ids": hybrid},
            "rules": {"version": 1, "rules": [
                {"match": "shared_transformer.*proj.weight$",
                 "spec": ["fsdp", None]},
                {"match": ".*", "spec": []}]}}
        paths = {}
        for name, value in files.items():
            paths[name] = os.path.join(self.folder.name, name + ".json")
            with open(paths[name], "w", encoding="utf-8") as file:
                json.dump(value, file)
        given = ["--manifest", paths["manifest"], "--model", paths["config"],
                 "--rules", paths["rules"], "--profile", "h100-sxm",
                 "--batch", "2", "--seq", str(tokens // 2)]
        shown = self.cost([*given, "--mesh", "fsdp:1"])
        shared = sum(shape[0] * shape[1] for shape in block.values())
        self.assertEqual(
            shown["time"]["flops"],
            3 * (2 * tokens * (once + adapters + len(hybrid) * shared)
                 + len(hybrid) * 2 * tokens * tokens // 2 * 2 * wide))
        kept = [(one["name"], one["layers"])
                for one in shown["activations"]["tensors"]]
        self.assertIn(("context", 5), kept)
        self.assertIn(("gate_proj", 5), kept)
        # One of two stages has both blocks.
        self.assert_stages_add_up(
            [word if word != paths["rules"] else self.write_whole()
             for word in given], [2], shown["time"]["flops"])
        # Each of the five gathers the block; the memory is that of one block.
        sharded = self.cost([*given, "--mesh", "fsdp:2"])
        (gathers,) = [one for one in sharded["communication"]
                      if one["part"] == "parameters" and
                      one["phase"] == "forward"]
        self.assertEqual(gathers["count"], len(hybrid) * len(block))
        self.assertEqual(sharded["memory"]["gathered"], 2 * 2 * shared)


if __name__ == "__main__":
    unittest.main()
