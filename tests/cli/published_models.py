"""Models of published training runs, in the names of Llama."""

import json
import os


class Models:
    """Writes manifest and config of each model once."""

    def __init__(self, folder):
        self.folder = folder
        self.made = {}

    def write(self, name, value):
        path = os.path.join(self.folder, name)
        with open(path, "w", encoding="utf-8") as file:
            json.dump(value, file)
        return path

    def arguments(self, row):
        """The options that name a model with the sizes of `row`."""
        dtype = row.get("dtype", "bfloat16")
        name = row["model"] + "-" + dtype
        if name not in self.made:
            width, heads, key_heads, head, inner, vocabulary = (
                int(row[key]) for key in ("d", "H", "K", "hd", "ffn", "V"))
            gated = row["gated"] == "1"
            layer = {"self_attn.q_proj": [heads * head, width],
                     "self_attn.k_proj": [key_heads * head, width],
                     "self_attn.v_proj": [key_heads * head, width],
                     "self_attn.o_proj": [width, heads * head],
                     "mlp.up_proj": [inner, width],
                     "mlp.down_proj": [width, inner],
                     "input_layernorm": [width],
                     "post_attention_layernorm": [width]}
            if gated:
                layer["mlp.gate_proj"] = [inner, width]
            shapes = {"model.embed_tokens": [vocabulary, width],
                      "model.norm": [width]}
            if gated:
                shapes["lm_head"] = [vocabulary, width]
            for i in range(int(row["L"])):
                for key, shape in layer.items():
                    shapes[f"model.layers.{i}.{key}"] = shape
            manifest = {"schema": "shardc.manifest/v1", "params": {
                key + ".weight": {"shape": shape, "dtype": dtype}
                for key, shape in shapes.items()}}
            config = {"model_type": "llama", "hidden_size": width,
                      "num_attention_heads": heads,
                      "num_key_value_heads": key_heads, "head_dim": head,
                      "intermediate_size": inner,
                      "num_hidden_layers": int(row["L"]),
                      "vocab_size": vocabulary,
                      "tie_word_embeddings": not gated}
            if row.get("rope") == "1":
                config["rope_theta"] = 10000.0
            self.made[name] = [
                "--manifest", self.write(name + ".json", manifest),
                "--model", self.write(name + ".config.json", config)]
        return self.made[name]
