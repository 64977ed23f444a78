"""The logical axes of eformer, the axis rules that map them to mesh axes, and the
bundles, as rules files have them (shardc-rules(5))."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

# The fields of PartitionAxis without `_axis`, in the order of a rules file. The
# second is the rule, or the mesh axis, that a rule without a value takes it from.
AXIS_RULES: dict[str, str] = {
    "data_parallel": "dp",
    "fully_sharded_data_parallel": "fsdp",
    "tensor_parallel": "tp",
    "sequence_parallel": "sp",
    "expert_parallel": "ep",
    "batch": "fully_sharded_data_parallel data_parallel",
    "sequence": "sequence_parallel",
    "query_sequence": "sequence_parallel",
    "head": "tensor_parallel",
    "key_sequence": "sequence_parallel",
    "hidden_state": "tensor_parallel",
    "mlp_intermediate": "tensor_parallel",
    "vocab": "tensor_parallel",
    "expert": "expert_parallel",
    "expert_gate": "",
    "attention_dim": "",
    "kv_head": "tensor_parallel",
    "attention_kv_dim": "",
    "bias_head_sequence": "",
    "bias_key_sequence": "",
    "decode_batch": "batch",
    "decode_query_sequence": "",
    "decode_head": "head",
    "decode_key_sequence": "key_sequence",
    "decode_attention_dim": "",
    "decode_kv_head": "kv_head",
    "decode_attention_kv_dim": "",
}
# The logical axes and their axis rules. The long name of BATCH is __BATCH__.
_TOKENS = {
    "BATCH": "batch",
    "LENGTH": "sequence",
    "QUERY_LENGTH": "query_sequence",
    "KV_LENGTH": "key_sequence",
    "EMBED": "hidden_state",
    "HEAD": "head",
    "KV_HEAD": "kv_head",
    "HEAD_DIM": "attention_dim",
    "KV_HEAD_DIM": "attention_kv_dim",
    "MLP_INTERMEDIATE": "mlp_intermediate",
    "VOCAB": "vocab",
    "EXPERT": "expert",
    "EXPERT_GATE": "expert_gate",
    "BIAS_HEAD_SEQ": "bias_head_sequence",
    "BIAS_KV_SEQ": "bias_key_sequence",
    "DP": "data_parallel",
    "FSDP": "fully_sharded_data_parallel",
    "TP": "tensor_parallel",
    "EP": "expert_parallel",
    "SP": "sequence_parallel",
}
_BUNDLES = frozenset(
    """HiddenState AttnQ AttnKV RowWise SRowWise ColumnWise SColumnWise Replicated
    ExpertColumnWise ExpertRowWise ExpertColumnWiseAlt ExpertRowWiseAlt
    UnifiedExpertColumnWise UnifiedExpertRowWise ExpertActivations
    ExpertActivationsAlt ExpertTensorParallel""".split()
)
MODES = {
    "train": "__train__",
    "prefill": "__prefill__",
    "decode": "__autoregressive__",
    "insert": "__insert__",
}
GENERATION = ("decode", "insert")


class Token:
    """A logical axis. Its rule is None for `_`, an unsharded dimension."""

    def __init__(self, short: str, rule: str | None) -> None:
        self.short, self.rule = short, rule
        whole = rule.upper() if rule and rule.endswith("_parallel") else short
        self.long = "_" if rule is None else f"__{whole}__"
        self.names = {short, self.long, self.long.strip("_") if rule else "EMPTY"}


_FOUND = {
    name: token
    for token in [Token("_", None), *(Token(s, r) for s, r in _TOKENS.items())]
    for name in token.names
}
# What a rules file reads as logical axes and axis rules.
RESERVED = frozenset([*_TOKENS, *AXIS_RULES])


def token_of(name: str) -> Token | None:
    """The logical axis of a short or a long name, or of a constant of eformer."""
    return _FOUND.get(name)


def rule_of(name: str) -> str | None:
    """The axis rule of this name, with or without `_axis`."""
    name = name[: -len("_axis")] if name.endswith("_axis") else name
    return name if name in AXIS_RULES else None


def decode_twin(rule: str) -> str | None:
    """The axis rule that replaces one in decode and insert."""
    twin = "decode_" + rule
    return twin if twin in AXIS_RULES else None


# The bundles whose mode is decode if dimension 1 of the array is 1 long, else train.
OF_ACTIVATIONS = ("HiddenState", "AttnQ", "AttnKV")


def bundle_of(name: str) -> str | None:
    """The built-in bundle of a class of eformer: HiddenState of HiddenStateSharding."""
    name = name[: -len("Sharding")] if name.endswith("Sharding") else name
    return name if name in _BUNDLES else None


def mode_of(name: str) -> str | None:
    return next((mode for mode, long in MODES.items() if name in (mode, long)), None)


def axes_of_rule(
    rule: str, given: Mapping[str, Sequence[str] | None]
) -> list[str] | None:
    """The mesh axes of an axis rule, where a file gives the values `given`."""
    if rule in given:
        value = given[rule]
        return None if value is None else list(value)
    if rule not in AXIS_RULES:
        return [rule]
    parts = [axes_of_rule(one, given) for one in AXIS_RULES[rule].split()]
    known = [axis for part in parts for axis in part or ()]
    return known if any(part is not None for part in parts) else None
