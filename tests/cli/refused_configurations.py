"""Refused configurations of model families."""

from refused_documents import INPUTS, Reader

CONFIGURATIONS = [
    Reader("families", "show manifest --model IN", [
        ('{"model_type": "llama", "vocab_size": null, "hidden_size": 8, '
         '"intermediate_size": 12, "num_hidden_layers": 2, '
         '"num_attention_heads": 2}',
         "SHD022 1:39 the configuration has no `vocab_size`"),
        ('{"model_type": "llama", "vocab_size": -1, "hidden_size": 8, '
         '"intermediate_size": 12, "num_hidden_layers": 2, '
         '"num_attention_heads": 2}',
         "SHD023 1:39 `vocab_size` is -1, and a size is at least 1"),
        ('{"model_type": "llama", "vocab_size": "8", "hidden_size": 8, '
         '"intermediate_size": 12, "num_hidden_layers": 2, '
         '"num_attention_heads": 2}',
         "SHD023 1:39 `vocab_size` is the string `8`, not an integer"),
        ('{"model_type": "llama", "vocab_size": 4611686018427387904, '
         '"hidden_size": 8, "intermediate_size": 12, "num_hidden_layers": '
         '2, "num_attention_heads": 2}',
         "SHD005 1:39 `vocab_size` is larger than in any model"),
        ('{"model_type": "llama", "vocab_size": 0, "hidden_size": 8, '
         '"intermediate_size": 12, "num_hidden_layers": 2, '
         '"num_attention_heads": 2}',
         "SHD023 1:39 `vocab_size` is 0, and a size is at least 1"),
        ('{"model_type": "llama", "vocab_size": 10, "hidden_size": null, '
         '"intermediate_size": 12, "num_hidden_layers": 2, '
         '"num_attention_heads": 2}',
         "SHD022 1:58 the configuration has no `hidden_size`"),
        ('{"model_type": "llama", "vocab_size": 10, "hidden_size": NaN, '
         '"intermediate_size": 12, "num_hidden_layers": 2, '
         '"num_attention_heads": 2}',
         "SHD023 1:58 `hidden_size` is the number `NaN`, not an integer"),
        ('{"model_type": "llama", "vocab_size": 10, "hidden_size": -1, '
         '"intermediate_size": 12, "num_hidden_layers": 2, '
         '"num_attention_heads": 2}',
         "SHD023 1:58 `hidden_size` is -1, and a size is at least 1"),
        ('{"model_type": "llama", "vocab_size": 10, "hidden_size": "8", '
         '"intermediate_size": 12, "num_hidden_layers": 2, '
         '"num_attention_heads": 2}',
         "SHD023 1:58 `hidden_size` is the string `8`, not an integer"),
        ('{"model_type": "llama", "vocab_size": 10, "hidden_size": '
         '4611686018427387904, "intermediate_size": 12, '
         '"num_hidden_layers": 2, "num_attention_heads": 2}',
         "SHD005 1:58 `hidden_size` is larger than in any model"),
        ('{"model_type": "llama", "vocab_size": 10, "hidden_size": 0, '
         '"intermediate_size": 12, "num_hidden_layers": 2, '
         '"num_attention_heads": 2}',
         "SHD023 1:58 `hidden_size` is 0, and a size is at least 1"),
        ('{"model_type": "llama", "vocab_size": 10, "hidden_size": 8, '
         '"intermediate_size": null, "num_hidden_layers": 2, '
         '"num_attention_heads": 2}',
         "SHD022 1:82 the configuration has no `intermediate_size`"),
        ('{"model_type": "llama", "vocab_size": 10, "hidden_size": 8, '
         '"intermediate_size": -1, "num_hidden_layers": 2, '
         '"num_attention_heads": 2}',
         "SHD023 1:82 `intermediate_size` is -1, and a size is at least 1"),
        ('{"model_type": "llama", "vocab_size": 10, "hidden_size": 8, '
         '"intermediate_size": "8", "num_hidden_layers": 2, '
         '"num_attention_heads": 2}',
         "SHD023 1:82 `intermediate_size` is the string `8`, not an integer"),
        ('{"model_type": "llama", "vocab_size": 10, "hidden_size": 8, '
         '"intermediate_size": 4611686018427387904, "num_hidden_layers": 2, '
         '"num_attention_heads": 2}',
         "SHD005 1:82 `intermediate_size` is larger than in any model"),
        ('{"model_type": "llama", "vocab_size": 10, "hidden_size": 8, '
         '"intermediate_size": 0, "num_hidden_layers": 2, '
         '"num_attention_heads": 2}',
         "SHD023 1:82 `intermediate_size` is 0, and a size is at least 1"),
        ('{"model_type": "llama", "vocab_size": 10, "hidden_size": 8, '
         '"intermediate_size": 12, "num_hidden_layers": null, '
         '"num_attention_heads": 2}',
         "SHD022 1:107 the configuration has no `num_hidden_layers`"),
        ('{"model_type": "llama", "vocab_size": 10, "hidden_size": 8, '
         '"intermediate_size": 12, "num_hidden_layers": -1, '
         '"num_attention_heads": 2}',
         "SHD023 1:107 `num_hidden_layers` is -1, and a size is at least 1"),
        ('{"model_type": "llama", "vocab_size": 10, "hidden_size": 8, '
         '"intermediate_size": 12, "num_hidden_layers": "8", '
         '"num_attention_heads": 2}',
         "SHD023 1:107 `num_hidden_layers` is the string `8`, not an integer"),
        ('{"model_type": "llama", "vocab_size": 10, "hidden_size": 8, '
         '"intermediate_size": 12, "num_hidden_layers": '
         '4611686018427387904, "num_attention_heads": 2}',
         "SHD005 1:107 `num_hidden_layers` is larger than in any model"),
        ('{"model_type": "llama", "vocab_size": 10, "hidden_size": 8, '
         '"intermediate_size": 12, "num_hidden_layers": 0, '
         '"num_attention_heads": 2}',
         "SHD023 1:107 `num_hidden_layers` is 0, and a size is at least 1"),
        ('{"model_type": "llama", "vocab_size": 10, "hidden_size": 8, '
         '"intermediate_size": 12, "num_hidden_layers": 2, '
         '"num_attention_heads": null}',
         "SHD022 1:133 the configuration has no `num_attention_heads`"),
        ('{"model_type": "llama", "vocab_size": 10, "hidden_size": 8, '
         '"intermediate_size": 12, "num_hidden_layers": 2, '
         '"num_attention_heads": -1}',
         "SHD023 1:133 `num_attention_heads` is -1, and a size is at least 1"),
        ('{"model_type": "llama", "vocab_size": 10, "hidden_size": 8, '
         '"intermediate_size": 12, "num_hidden_layers": 2, '
         '"num_attention_heads": "8"}',
         "SHD023 1:133 `num_attention_heads` is the string `8`, not an "
         "integer"),
        ('{"model_type": "llama", "vocab_size": 10, "hidden_size": 8, '
         '"intermediate_size": 12, "num_hidden_layers": 2, '
         '"num_attention_heads": 4611686018427387904}',
         "SHD005 1:133 `num_attention_heads` is larger than in any model"),
        ('{"model_type": "llama", "vocab_size": 10, "hidden_size": 8, '
         '"intermediate_size": 12, "num_hidden_layers": 2, '
         '"num_attention_heads": 0}',
         "SHD023 1:133 `num_attention_heads` is 0, and a size is at least 1"),
        ("[]",
         "SHD022 1:1 a model's configuration is a list, not an object"),
        ("{}",
         "SHD022 1:1 the configuration has no `model_type`"),
        ('{"model_type": 5, "vocab_size": 10, "hidden_size": 8, '
         '"intermediate_size": 12, "num_hidden_layers": 2, '
         '"num_attention_heads": 2}',
         "SHD022 1:16 `model_type` is the number `5`, not a string"),
        ('{"model_type": "lama", "vocab_size": 10, "hidden_size": 8, '
         '"intermediate_size": 12, "num_hidden_layers": 2, '
         '"num_attention_heads": 2}',
         "SHD061 1:16 there is no description of model type `lama`"),
        ('{"model_type": "llama", "vocab_size": 10, "hidden_size": 8, '
         '"intermediate_size": 12, "num_hidden_layers": 2000000, '
         '"num_attention_heads": 2}',
         "SHD005 1:107 `num_hidden_layers` is 2,000,000 layers, and a model has "
         "at most 10,000"),
        ('{"model_type": "llama", "vocab_size": 10, "hidden_size": 8, '
         '"intermediate_size": 12, "num_hidden_layers": 2, '
         '"num_attention_heads": 2, "architectures": ["X"]}',
         "SHD061 1:153 the tree of `X` is not described"),
    ]),
    Reader("types", "cost --mesh tp:2 --rules r.yaml --manifest m.json --model "
           "IN", [
        ('{"model_type": 5}',
         "SHD022 1:16 `model_type` is the number `5`, not a string"),
        ('{"model_type": "llama", "rope_scaling": 5}',
         "SHD022 1:41 `rope_scaling` is the number `5`, not an object"),
        ('{"model_type": "llama", "rope_scaling": {"rope_type": ["yarn"]}}',
         "SHD022 1:55 `rope_type` is a list, not a string"),
        ('{"model_type": "llama", "tie_word_embeddings": 5}',
         "SHD022 1:48 `tie_word_embeddings` is the number `5`, not a boolean"),
        ('{"model_type": "llama", "tie_word_embeddings": "false"}',
         "SHD022 1:48 `tie_word_embeddings` is the string `false`, not a "
         "boolean"),
        ('{"model_type": "llama", "rope_scaling": {"truncate": 1}}',
         "SHD022 1:54 `truncate` is the number `1`, not a boolean"),
    ], INPUTS),
]
