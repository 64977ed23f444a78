"""The rows of docs/parity.md that are compared with live eformer, fjformer and
EasyDeL on new inputs: one entry for each, and how its cases end.

An entry is the family of recorded cases whose reader compares it
(reference_rows.py), or the commands that it compares (reference_commands.py)."""

import collections
import json
import random
import re

import reference_commands
import reference_rows
from parity_live_test import product_test

ROWS = {
    "attention_shardings": "attn_rules", "fjformer_match": "match",
    "get_weight_decay_mask": "names", "tree_path_to_string": "names",
    "get_ranks_and_size": "names", "partition_manager_from_json": "names",
    "fjformer_create_mesh": "mesh", "get_jax_mesh": "mesh",
    "rotate_half": "numeric", "precompute_freq_cis": "numeric",
    "apply_rotary_pos_emb": "numeric", "repeat_kv_bnsh": "numeric",
    "repeat_kv_bsnh": "numeric", "quantize_int8": "numeric",
    "concatenate_to_cache": "numeric", "attention": "numeric",
    "resolve": ("resolve",), "shard": ("resolve",),
    "import_eformer": ("import eformer",),
    "export_eformer": ("export eformer",), "rules_resolved": ("show rules",),
    "fingerprint": ("eval",), "mesh": ("show mesh",),
    "attention_command": ("resolve attention",), "plan": ("plan",),
    "plan_fjformer": ("plan",), "weight_decay": ("plan",),
    "manifest_tree": ("show manifest",), "import_python": ("shardc.import_python",),
    "shard_and_gather": ("checkpoint split", "checkpoint merge",
                         "checkpoint reshard")}
# The functions of `eval` with other names than their operations.
FUNCTIONS = {
    "fjformer_match": "match_partition_rules",
    "partition_manager_from_json": "partition_axis",
    "fjformer_create_mesh": "create_mesh",
    "get_jax_mesh": "parse_mesh_from_string", "repeat_kv_bnsh": "repeat_kv",
    "repeat_kv_bsnh": "repeat_kv"}
# Which environment an operation needs as well.
NEEDS = {"get_ranks_and_size": "sources", "rotate_half": "sources",
         "precompute_freq_cis": "sources", "repeat_kv_bsnh": "sources",
         "repeat_kv_bnsh": "sources", "apply_rotary_pos_emb": "sources",
         "quantize_int8": "int8_cache", "concatenate_to_cache": "int8_cache"}
# Commands that answer questions which the reference does not, or of which its
# functions make something else: advice, costs, and files of other systems.
OTHERS = {"suggest", "check", "cost", "diff", "export", "verify"}
# The inputs that one run of the program evaluates: arrays of a list of inputs have
# 8 million numbers together.
BATCH = 1000
# What the readers call errors with these words.
KINDS = (("nested tuple", "nested_tuple_in_spec"),)


def beyond_re2(given):
    patterns = [rule["pattern"] for rule in given.get("rules", [])] + \
        given.get("exclusions", [])
    return any(re.search(r"\(\?[!=<]", pattern) for pattern in patterns)


def cases(operation, seed, count):
    """New cases of an operation, each with what the packages return."""
    rng = random.Random(f"{seed}/{operation}")
    for number in range(count):
        given = getattr(reference_rows, "draw_" + operation)(rng)
        try:
            answer = {"expect": getattr(reference_rows, operation)(given)}
        except Exception as error:
            message = str(error)
            answer = {"error": {
                "type": type(error).__name__, "message": message,
                "kind": next((kind for words, kind in KINDS
                              if words in message), type(error).__name__)}}
        if ROWS[operation] not in ("attn_rules", "match"):
            given = {"op": operation, **given}
        yield json.loads(json.dumps({
            "id": f"{seed}/{operation}/{number}", "input": given, **answer,
            "tags": ["python_only_syntax"] if beyond_re2(given) else []}))


def judged(operation, seed, count):
    """How many new cases of a row end in each way; the failed ones."""
    kinds, failed = collections.Counter(), []
    family = ROWS[operation]
    if isinstance(family, tuple):
        for case in reference_commands.cases(operation, seed, count):
            kind = reference_commands.outcome(operation, case)
            kinds[kind or "failed"] += reference_commands.IN_ONE.get(operation, 1)
            failed += [] if kind else [case]
        return kinds, failed
    made = list(cases(operation, seed, count))
    for at in range(0, len(made), BATCH):
        for name, outcome in product_test.judge(
                {family: made[at:at + BATCH]})[family]:
            kinds[outcome.why if outcome.kind == "differs"
                  else outcome.kind] += 1
            if outcome.kind == "failed":
                failed.append((name, outcome.why))
    return kinds, failed


def commands_of(text):
    """The commands that the tables of docs/parity.md name."""
    rows = re.findall(r"^\| .*? \| (.*) \|$", text, re.M)
    named = set(re.findall(
        r"`((?:(?:import|export|show|resolve|checkpoint) |shardc\.)?[a-z_]+)",
        " ".join(rows)))
    return named & {"resolve", "plan", "show mesh", "resolve attention",
                    "checkpoint split", "checkpoint merge",
                    "checkpoint reshard", "show manifest", "show rules",
                    "cost", "diff", "export", "verify", "suggest", "check",
                    "eval", "import eformer", "export eformer",
                    "shardc.import_python"}
