"""What `cost` states of small siblings of published models compared with what XLA
sends. Bytes are equal by collective and axes, or differ by the exact amount of a
rule, which is counted here from the sizes of the model.

docs/compiler.md has the table; `xla_siblings_test.py --write` writes it.
"""

import collections
import math
import os
import tempfile
import unittest

import page_tables
import records
from xla_siblings import BY_PART, LAYERS, LENGTH, MODELS, WIDTH, Asked, cases

RECORD = records.load("xla/siblings")
MOVES = ("ppermute", "all_to_all")
# The widths of the products of fused matrices that are stored in one range. Falcon's
# key and value, of one head, are gathered by the compiled program too.
ONE_RANGE = {"phi3": (512, 1536), "gpt2": (768,), "falcon": (256,)}
ROUTED = {"mixtral": 2, "qwen2_moe": 2, "qwen3_moe": 2, "gpt_oss": 2,
          "granitemoe": 2, "deepseek_v2": 1, "deepseek_v3": 1}


class Case:
    def __init__(self, recorded):
        self.model, self.mesh = recorded["model"], recorded["mesh"]
        self.mode, self.axes = recorded["mode"], recorded.get("axes", {})
        self.theirs = collections.Counter(recorded["sent"])
        with tempfile.TemporaryDirectory() as folder:
            asked = Asked(self.model, self.mesh, self.mode, self.axes, folder)
            self.config, self.batch = asked.config, asked.batch
            cost = asked.cost()
            self.stated = asked.sent(cost)
            self.source = cost["communication_from"]
            self.not_known = cost.get("not_known")
            self.ours = asked.kept() if self.mode == "train" else self.stated
        length = 1 if self.mode == "decode" else LENGTH
        shards = math.prod(self.mesh.get(a, 1) for a in ("fsdp", "ep", "sp"))
        self.tokens = self.batch * length // shards
        self.train = self.mode == "train"

    def gathered(self, elements, axis):
        """The bytes that a device sends in the gather of a float32 value."""
        n = self.mesh[axis]
        return elements * 4 * (n - 1) // n

    def reduced(self, elements, axis):
        return 2 * self.gathered(elements, axis)


def one_range(case):
    """A fused product in one range: the step gathers it, and its cotangent in
    training; XLA moves pieces, by permutes of its choice."""
    if case.model not in ONE_RANGE or "tp" not in case.mesh:
        return {}
    passes = 2 if case.train else 1
    moved = {key: -size for key, size in case.theirs.items()
             if key.split()[0] in MOVES}
    return {**moved, "all_gather tp": passes * LAYERS * case.gathered(
        case.tokens * sum(ONE_RANGE[case.model]), "tp")}


def scaled(case):
    """The result of Qwen2-MoE's shared experts is multiplied by its gate: XLA
    reduces it before, and again for the gradients; the step, as engines, reduces
    its sum with the routed experts' once."""
    if case.model != "qwen2_moe" or "tp" not in case.mesh:
        return {}
    passes = 3 if case.train else 1
    return {"reduce_scatter tp": -passes * LAYERS * case.gathered(
        case.tokens * WIDTH, "tp")}


def router(case):
    """The gradient of the renormalised weights of a token's experts: the step
    reduces one number a token more."""
    if not case.train or "tp" not in case.mesh:
        return {}
    return {"all_reduce tp": ROUTED.get(case.model, 0) *
            case.reduced(case.tokens, "tp")}


def latent(case):
    """Projections into a latent, which tp does not shard: XLA gathers the hidden
    state for their gradients, and the step the gradients; the step reduces the
    statistics of the norms of latents and their gradients apart."""
    if not case.train or "tp" not in case.mesh or "kv_lora_rank" not in \
            case.config:
        return {}
    rank, rope = (case.config["kv_lora_rank"],
                  case.config["qk_rope_head_dim"])
    query = case.config["q_lora_rank"] or 0
    norms = 1 + bool(query)
    out = {"all_reduce tp": LAYERS * case.reduced(
        norms * case.tokens + rank + query, "tp")}
    if query:
        out["all_gather tp"] = LAYERS * (
            case.gathered((rank + rope + query) * WIDTH, "tp") -
            case.gathered(case.tokens * WIDTH, "tp"))
    return out


def same_gradient(case):
    """The biases of both branches of a parallel layer have the same gradient,
    which XLA gathers once."""
    if case.model != "gpt_neox" or not case.train or \
            list(case.mesh) != ["tp"]:
        return {}
    return {"all_gather tp": LAYERS * case.gathered(WIDTH, "tp")}


def biases(case):
    """Biases of experts are added after the rows of a token, on its device, which
    gathers them over ep."""
    if case.model != "gpt_oss" or "ep" not in case.mesh:
        return {}
    return {"all_gather ep": LAYERS * case.gathered(
        8 * WIDTH // case.mesh["tp"], "ep")}


def last_token(case):
    """Tokens over sp: both add zeros to the last token to share it, and XLA's slice
    permutes it first."""
    if case.mode != "prefill" or "sp" not in case.mesh:
        return {}
    rows = case.batch // case.mesh.get("fsdp", 1)
    return {"ppermute ": -rows * WIDTH * 4}


def formulas(case):
    """Experts whose tokens are sharded over sp: `cost` has formulas, which repeat
    keys and values for the query heads before they are gathered, and lack what the
    last token and the positions send."""
    if case.source != "formulas":
        return {}
    heads, few = case.config["num_attention_heads"], \
        case.config["num_key_value_heads"]
    keys = LAYERS * 2 * case.batch // case.mesh.get("fsdp", 1) * LENGTH * \
        case.config["head_dim"]
    rows = case.batch // case.mesh.get("fsdp", 1)
    return {"all_gather sp": case.gathered(keys * (heads - few), "sp") -
            case.gathered(rows * LENGTH, "sp"),
            "all_reduce sp": -case.reduced(rows * WIDTH, "sp")}


def top_k(case):
    """XLA never shards top_k, and gathers the scores of tokens over sp for it."""
    if "experts" not in MODELS[case.model][1] or "sp" not in case.mesh:
        return {}
    rows = case.batch // case.mesh.get("fsdp", 1)
    return {"all_gather sp": -LAYERS * case.gathered(rows * LENGTH * 8, "sp")}


RULES = (one_range, scaled, router, latent, same_gradient, biases, last_token,
         formulas, top_k)


def explained(case):
    """What each rule adds to XLA's bytes to give the step's."""
    return {rule.__name__: {key: size for key, size in rule(case).items()
                            if size} for rule in RULES}


def without_zeros(sent):
    return {key: size for key, size in sent.items() if size}


class Siblings(unittest.TestCase):
    def test_bytes_are_equal_or_differ_by_a_rule(self):
        equal = 0
        for recorded in RECORD["cases"]:
            case = Case(recorded)
            expected = collections.Counter(case.theirs)
            for amounts in explained(case).values():
                for key, size in amounts.items():
                    expected[key] += size
            with self.subTest(model=case.model, mesh=case.mesh,
                              mode=case.mode):
                self.assertFalse(case.not_known)
                self.assertEqual(without_zeros(case.ours),
                                 without_zeros(expected))
                equal += case.ours == case.theirs
        self.assertGreater(equal, len(RECORD["cases"]) // 2)

    def test_the_record_is_of_these_cases(self):
        self.assertEqual(
            [(case["model"], case["mesh"], case["mode"], case.get("axes", {}))
             for case in RECORD["cases"]], list(cases()))
        self.assertGreaterEqual(len({case["model"] for case in
                                     RECORD["cases"]}), 20)
        self.assertLess(BY_PART, set(MODELS))

    def test_a_byte_more_would_be_seen(self):
        case = Case(RECORD["cases"][0])
        case.theirs["all_gather tp"] += 1
        self.assertNotEqual(case.ours, case.theirs)

    def test_the_page_has_what_the_record_has(self):
        page = the_page()
        self.assertEqual(page.made(), page.read(),
                         "tests/runtimes/xla_siblings_test.py --write writes it")


def row(recorded):
    case = Case(recorded)
    rules = [name for name, amounts in explained(case).items() if amounts]
    mine, theirs = sum(case.ours.values()), sum(case.theirs.values())
    return [case.model, ",".join(f"{a}:{n}" for a, n in case.mesh.items()),
            case.mode, f"{sum(case.stated.values()) / 1024:,.1f}",
            f"{mine / 1024:,.1f}", f"{theirs / 1024:,.1f}",
            f"{mine / theirs:.3f}",
            ", ".join(rules).replace("_", " ") or "equal"]


def table():
    used = ", ".join(f"{package} {version}" for package, version in
                     RECORD["versions"].items())
    lines = [["model", "mesh", "mode", "cost", "kept", "XLA", "kept / XLA",
              "rules"], ["---"] * 3 + ["--:"] * 4 + ["---"],
             *map(row, RECORD["cases"])]
    return f"Compiled with {used}, KiB of a device.\n\n" + "".join(
        "| " + " | ".join(line) + " |\n" for line in lines)


def the_page():
    return page_tables.Page(
        os.path.join(records.ROOT, "docs", "compiler.md"), siblings=table)


if __name__ == "__main__":
    the_page().main()
