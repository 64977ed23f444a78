"""The models whose programs testdata/programs has, by name."""

import dense_models as dense
import expert_models as experts
import other_models as other

MODELS = {one.__name__: one for one in (
    dense.gpt_fused, dense.llama, dense.mqa, dense.parallel, dense.grouped_fused,
    dense.scan_llama, dense.lora, dense.int8, dense.decode, dense.t5, dense.generate,
    experts.moe_dense, experts.moe_ragged, experts.mla,
    other.dit, other.vit, other.gdn, other.mamba2, other.hybrid, other.odd,
    other.pooled, other.griffin, other.gla)}
# Without gradients only.
FORWARD = ("int8", "decode", "generate")

# The size of each factor in the answers.
_LLAMA = {"stream": 48, "kv": 2, "group": 3, "head_dim": 8, "inner": 80, "vocab": 112}
_EXPERTS = {"stream": 40, "kv": 2, "group": 2, "head_dim": 8, "inner": 56, "vocab": 112,
            "experts": 6}
SIZES = {
    "gpt_fused": {"stream": 40, "heads": 5, "head_dim": 8, "inner": 160, "vocab": 96,
                  "position": 12},
    "llama": _LLAMA,
    "mqa": {"stream": 40, "heads": 4, "head_dim": 8, "inner": 136, "vocab": 104},
    "parallel": {"stream": 36, "heads": 3, "head_dim": 12, "inner": 100, "vocab": 88},
    "grouped_fused": {"stream": 44, "kv": 2, "group": 2, "head_dim": 8, "inner": 72,
                      "vocab": 120},
    "scan_llama": {"layers": 3, "stream": 40, "kv": 2, "group": 2, "head_dim": 8,
                   "inner": 72, "vocab": 104},
    "lora": {**_LLAMA, "rank": 6, "rank2": 6, "rank3": 10},
    "int8": {"stream": 40, "kv": 2, "group": 2, "head_dim": 8, "inner": 64,
             "vocab": 104},
    "decode": _LLAMA,
    "t5": {"stream": 36, "vocab": 92, "inner": 76, "inner2": 76, "position": 16,
           "position2": 16, "heads": 4, "heads2": 4, "heads3": 4, "head_dim": 8,
           "head_dim2": 8, "head_dim3": 8},
    "moe_dense": _EXPERTS,
    "moe_ragged": _EXPERTS,
    "mla": {"stream": 40, "vocab": 112, "inner": 88, "heads": 4, "nope": 8, "rope": 4,
            "value": 12, "latent": 20, "latent2": 24},
    "dit": {"stream": 40, "window": 2, "window2": 2, "in": 3, "in2": 20, "cond": 40,
            "position": 16, "heads": 5, "head_dim": 8, "inner": 112},
    "vit": {"stream": 36, "window": 4, "window2": 4, "in": 3, "position": 17,
            "heads": 3, "head_dim": 8, "inner": 92, "out": 10},
    "gdn": {"stream": 40, "vocab": 104, "inner": 72, "kv": 2, "group": 2, "state": 6,
            "head_dim": 8, "window": 3},
    "mamba2": {"stream": 36, "vocab": 96, "kv": 2, "group": 2, "head_dim": 8,
               "state": 6, "window": 4},
    "hybrid": {"stream": 40, "vocab": 104, "kv": 2, "group": 2, "head_dim": 8,
               "channels": 24, "inner": 120},
    "odd": {"stream": 40, "vocab": 104, "channels": 40, "window": 3, "heads": 3,
            "head_dim": 8, "inner": 68, "inner2": 28, "experts": 4},
    "generate": {"stream": 40, "kv": 2, "group": 2, "head_dim": 8, "inner": 72,
                 "vocab": 96, "out": 96},
    "griffin": {"stream": 40, "vocab": 96, "blocks": 4, "channels": 12, "inner": 72},
    "gla": {"stream": 40, "vocab": 96, "heads": 4, "head_dim": 6, "head_dim2": 10,
            "rank": 5},
    "pooled": {"in": 6, "inner": 24, "stream": 20, "out": 10},
}
