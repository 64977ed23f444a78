"""`export vllm` and `export sglang` against the layer classes of the engines.

The formulas are those of its own classes; SGLang's are the same:

  VocabParallelEmbedding, ParallelLMHead   vllm/model_executor/layers/
      vocab_parallel_embedding.py at 00db011; python/sglang/srt/layers/
      vocab_parallel_embedding.py at 04d5e39: rows are padded to a multiple of
      64, and then divided
  QKVParallelLinear                        layers/linear.py of both: with as
      many ranks as KV heads or more, a rank has one whole KV head
  ColumnParallelLinear, RowParallelLinear, MergedColumnParallelLinear,
  ReplicatedLinear                         layers/linear.py of both
  FusedMoE                                 with tensor parallelism, each rank
      has a part of the columns of every expert

Each of them refuses (`divide`) what does not divide equally.
"""

import json
import math
import os
import re
import unittest

from driver import TESTDATA, run

# Names of testdata/configs whose layers are of these classes.
MODELS = ("llama-2-7b", "llama-2-13b", "llama-2-70b", "llama-3-8b",
          "llama-3-70b", "llama-3.1-8b", "llama-3.1-70b", "llama-3.1-405b",
          "llama-3.2-1b", "mistral-7b", "devstral-small-24b", "mixtral-8x7b",
          "mixtral-8x22b", "qwen2-0.5b", "qwen2-7b", "qwen3-0.6b", "qwen3-8b",
          "qwen3-32b", "qwen3-30b-a3b", "qwen3-235b-a22b", "gemma-2b",
          "gemma-2-9b")
TENSOR = (1, 2, 4, 8, 16)


class Refused(Exception):
    pass


def divide(size, parts):
    """As `divide` of vllm/distributed/utils.py."""
    if size % parts:
        raise Refused(f"{size} is not divisible by {parts}")
    return size // parts


class Layers:
    """The shapes of a rank by the classes of the engines."""

    def __init__(self, config, tensor):
        self.hidden = config["hidden_size"]
        self.vocab = config["vocab_size"]
        self.heads = config["num_attention_heads"]
        self.kv = config.get("num_key_value_heads", self.heads)
        self.head = config.get("head_dim") or self.hidden // self.heads
        self.inner = config.get("intermediate_size")
        self.expert = config.get("moe_intermediate_size", self.inner)
        self.experts = config.get("num_experts",
                                  config.get("num_local_experts"))
        self.tensor = tensor

    def own_heads(self):
        return divide(self.heads, self.tensor)

    def own_kv_heads(self):
        if self.tensor >= self.kv:
            divide(self.tensor, self.kv)
            return 1
        return divide(self.kv, self.tensor)

    def shape(self, name):
        tensor, hidden = self.tensor, self.hidden
        module, kind = name.rsplit(".", 1)
        last = module.rsplit(".", 1)[-1]
        if last in ("embed_tokens", "lm_head"):
            return [divide(-(-self.vocab // 64) * 64, tensor), hidden]
        if "norm" in last:
            return [self.head if last in ("q_norm", "k_norm") else hidden]
        inner = self.expert if "experts" in module else self.inner
        # FusedMoE has the experts of a layer in one weight each.
        if name.endswith("experts.gate_up_proj"):
            return [self.experts, 2 * divide(inner, tensor), hidden]
        if name.endswith("experts.down_proj"):
            return [self.experts, hidden, divide(inner, tensor)]
        out = {"q_proj": lambda: self.own_heads() * self.head,
               "k_proj": lambda: self.own_kv_heads() * self.head,
               "v_proj": lambda: self.own_kv_heads() * self.head,
               "gate_proj": lambda: divide(inner, tensor),
               "up_proj": lambda: divide(inner, tensor),
               "w1": lambda: divide(inner, tensor),
               "w3": lambda: divide(inner, tensor)}
        into = {"o_proj": lambda: self.own_heads() * self.head,
                "down_proj": lambda: divide(inner, tensor),
                "w2": lambda: divide(inner, tensor)}
        if last in out:
            return [out[last]()] + ([hidden] if kind == "weight" else [])
        if last in into:
            return [hidden, into[last]()] if kind == "weight" else [hidden]
        return None  # a router, which each rank has


class EngineShards(unittest.TestCase):
    def test_shapes_are_those_of_the_layer_classes(self):
        for engine in ("vllm", "sglang"):
            compared = refused = 0
            for model in MODELS:
                path = os.path.join(TESTDATA, "configs",
                                    model + ".config.json")
                with open(path, encoding="utf-8") as file:
                    config = json.load(file)
                for tensor in TENSOR:
                    with self.subTest(engine=engine, model=model,
                                      tensor=tensor):
                        got = run("export", engine, "--format", "json",
                                  "--no-project", "--mesh", f"tp:{tensor}",
                                  "--rules", "auto", "--model", path)
                        if got.rc != 0:
                            refused += 1
                            self.assertEqual(got.out, "")
                            self.is_refused(Layers(config, tensor), got)
                            continue
                        compared += 1
                        self.compare(Layers(config, tensor),
                                     json.loads(got.out))
            self.assertGreater(compared, 80)
            self.assertGreater(refused, 3)

    def test_weights_are_those_of_the_layer_classes(self):
        """`cost --engine` has the bytes of the same shapes, in 16 bits."""
        for engine in ("vllm", "sglang"):
            for model in MODELS:
                path = os.path.join(TESTDATA, "configs",
                                    model + ".config.json")
                with open(path, encoding="utf-8") as file:
                    config = json.load(file)
                for tensor in TENSOR:
                    with self.subTest(engine=engine, model=model,
                                      tensor=tensor):
                        self.weights(engine, path, Layers(config, tensor))

    def weights(self, engine, path, layers):
        inputs = ["--no-project", "--mesh", f"tp:{layers.tensor}", "--rules",
                  "auto", "--model", path]
        shapes = run("export", engine, "--format", "json", *inputs)
        cost = run("cost", *inputs, "--mode", "decode", "--engine", engine,
                   "--slots", "1", "--isl", "128", "--osl", "128",
                   "--profile", "h200-sxm", "--memory", "4TiB",
                   "--weights-dtype", "bfloat16", "--format", "json")
        if shapes.rc != 0:
            self.assertNotEqual(cost.rc, 0, path)
            self.is_refused(layers, cost)
            return
        elements = 0
        for name, param in json.loads(shapes.out)["params"].items():
            shape = layers.shape(name) or param["shard_shape"]
            elements += math.prod(shape)
        self.assertEqual(json.loads(cost.out)["memory"]["weights"],
                         2 * elements)

    def is_refused(self, layers, got):
        """The engine refuses the layout, too: in its heads, its vocabulary or
        the columns of a feed-forward block."""
        self.assertRegex(got.err + got.out, "error|refuses")
        with self.assertRaises(Refused):
            layers.own_heads()
            layers.own_kv_heads()
            layers.shape("model.embed_tokens.weight")
            layers.shape("model.layers.0.mlp.down_proj.weight")
            layers.shape("model.layers.0.mlp.experts.0.down_proj.weight")

    def compare(self, layers, value):
        self.assertEqual(value["tensor_parallel_size"], layers.tensor)
        seen = set()
        for name, param in value["params"].items():
            template = re.sub(r"\.\d+", ".*", name)
            if template in seen:
                continue
            seen.add(template)
            shape = layers.shape(name)
            if shape is None:
                self.assertEqual(param["parallel"], "replicated", name)
            else:
                self.assertEqual(param["shard_shape"], shape, name)
            if ".k_proj." in name and param["parallel"] == "column":
                self.assertEqual(param.get("replicas", 1),
                                 max(layers.tensor // layers.kv, 1))
        self.assertGreater(len(seen), 8)


if __name__ == "__main__":
    unittest.main()
