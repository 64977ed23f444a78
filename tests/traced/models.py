"""The models whose programs testdata/programs has, by name."""

import dense_models
import expert_models

MODELS = {one.__name__: one for one in (
    dense_models.gpt_fused, dense_models.llama, dense_models.mqa,
    dense_models.parallel, dense_models.grouped_fused, expert_models.moe_dense)}
# Without gradients only.
FORWARD = ()
