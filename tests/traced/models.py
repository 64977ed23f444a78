"""The models whose programs testdata/programs has, by name."""

import dense_models as dense
import expert_models as experts
import other_models as other

MODELS = {one.__name__: one for one in (
    dense.gpt_fused, dense.llama, dense.mqa, dense.parallel, dense.grouped_fused,
    dense.scan_llama, dense.lora, dense.int8, dense.decode, dense.t5,
    experts.moe_dense, experts.moe_ragged, experts.mla,
    other.dit, other.vit, other.gdn, other.mamba2, other.hybrid, other.odd)}
# Without gradients only.
FORWARD = ("int8", "decode")
