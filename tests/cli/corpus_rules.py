"""Rule sets of the corpus as rules files, and their meaning by
Python's own `re` and arithmetic."""

import gzip
import json
import math
import os
import re

from driver import ROOT, part_of

CORPUS = os.environ.get("SHARDC_CORPUS",
                        os.path.join(ROOT, "testdata", "corpus"))
if os.path.isdir(os.path.join(CORPUS, "public")):
    CORPUS = os.path.join(CORPUS, "public")
CONFIGS = os.path.join(ROOT, "testdata", "configs")


def find(path):
    """The file, gzipped or not, whichever is there."""
    path = os.path.join(CORPUS, path)
    if os.path.exists(path):
        return path
    other = path[:-3] if path.endswith(".gz") else path + ".gz"
    return other


def load(path):
    path = find(path)
    opener = gzip.open if path.endswith(".gz") else open
    with opener(path, "rb") as file:
        return json.loads(file.read())


def pairs():
    return load("PAIRS.json")["pairs"]


def some_pairs():
    """A third, or all with SHARDC_COMPLETE=1."""
    return part_of(pairs(), 3)


BUNDLES = load("BUNDLES.json")
NAMED = dict(BUNDLES["bundles"])
GPT_OSS = {k: v for k, v in BUNDLES["easydel_gpt_oss_bundles"].items()
           if k != "source"}
NAMED.update(GPT_OSS)

COLUMN = (["tp", None], ["tp"])
ROW = ([None, "tp"], [None])
HF = {"colwise": COLUMN, "colwise_rep": COLUMN,
      "colwise_gather_output": COLUMN, "local_colwise": COLUMN,
      "packed_colwise": COLUMN, "rowwise": ROW, "rowwise_rep": ROW,
      "rowwise_split_input": ROW, "local_rowwise": ROW,
      "packed_rowwise": ROW, "local_packed_rowwise": ROW}
SUFFIX = "(\\.(weight|bias))?$"


class Rules:
    """(pattern, spec) in order; `text` is the rules file."""

    def __init__(self, rule_set, params):
        self.hf = any("glob" in rule for rule in rule_set["rules"])
        self.separator = "." if self.hf else (
            rule_set.get("name_separator") or "/")
        self.rules = []
        for rule in rule_set["rules"]:
            if self.hf:
                self._hf(rule, params)
            else:
                self.rules.append((rule["pattern"], rule["spec"]))
        self.text = self._text()

    def _hf(self, rule, params):
        pattern, style = rule["pattern"], rule["spec"]
        if style not in HF:
            self.rules.append((pattern, ["tp"] if style == "grouped_gemm"
                               else "Replicated"))
            return
        weight, bias = HF[style]
        if not pattern.endswith(SUFFIX):
            self.rules.append((pattern, weight))
            return
        base = pattern[:-len(SUFFIX)]
        hits = [p for p in params if re.search(pattern, p["name"])]
        leaves = {p["name"].rsplit(".", 1)[1] for p in hits} or {"weight"}
        if "weight" in leaves:
            self.rules.append((base + "\\.weight$", weight))
        if "bias" in leaves:
            self.rules.append((base + "\\.bias$", bias))
        bare = [p for p in hits
                if not p["name"].endswith((".weight", ".bias"))]
        if bare:
            rank = max(len(p["shape"] or [0, 0]) for p in bare)
            self.rules.append((base + "$", [None] * (rank - 2) + weight
                               if rank > 1 else bias))

    def _text(self):
        lines = ["version: 1", f'separator: "{self.separator}"']
        used = {spec for _, spec in self.rules if isinstance(spec, str)}
        bundles = {k: v for k, v in GPT_OSS.items() if k in used}
        if bundles:
            lines.append("bundles:")
            lines += [f"  {k}: {json.dumps(v)}" for k, v in bundles.items()]
        lines.append("rules:")
        for pattern, spec in self.rules:
            quoted = pattern.replace("'", "''")
            shown = spec if isinstance(spec, str) else json.dumps(spec)
            lines.append(f"  - match: '{quoted}'\n    spec: {shown}")
        if self.hf:
            lines.append("policy: {unmatched: replicate}")
        return "\n".join(lines) + "\n"

    def spec(self, index):
        """One list of axes per dimension."""
        spec = self.rules[index][1]
        if isinstance(spec, str):
            spec = NAMED[spec]
        return [[] if e is None else [e] if isinstance(e, str)
                else [a for a in e if a] for e in spec]

    def first(self, name):
        for index, (pattern, _) in enumerate(self.rules):
            if re.search(pattern, name):
                return index
        return -1


BYTES = {"BF16": 2, "F16": 2, "F32": 4, "F8_E4M3": 1, "U8": 1, "I8": 1,
         "I32": 4, "I64": 8}


def expected(rules, params, mesh):
    """Errors that the pair must give: {code: set of what}."""
    out = {"SHD101": set(), "SHD108": set(), "SHD109": set(),
           "SHD202": set(), "SHD204": set()}
    firsts, fallen, total, maybe = {}, {}, 0, set()
    catch_all = [i for i, (p, _) in enumerate(rules.rules) if p == ".*"]
    for param in params:
        name, shape = param["name"], param["shape"]
        index = rules.first(name)
        firsts.setdefault(index, []).append(name)
        if not shape:
            continue
        spec = rules.spec(index) if index >= 0 else []
        elements = math.prod(shape)
        size = elements * BYTES[param["dtype"]]
        total += size
        if len(spec) > len(shape):
            out["SHD204"].add(name)
        parts = 1
        for dim, axes in enumerate(spec[:len(shape)]):
            product = math.prod(mesh[a] for a in axes)
            parts *= product
            if shape[dim] % product:
                out["SHD202"].add(name)
        if index in catch_all and parts == 1 and elements >= 65536:
            names, bytes_ = fallen.get(index, (set(), 0))
            fallen[index] = (names | {name}, bytes_ + size)
    specific = [i for i in range(len(rules.rules)) if i not in catch_all]
    for names, bytes_ in fallen.values():
        if specific and bytes_ * 5 >= total:
            out["SHD101"] |= names
        elif specific and bytes_ * 20 >= total:
            maybe |= names  # an error where a dead rule was meant for them
    seen = {}
    for index, (pattern, spec) in enumerate(rules.rules):
        if pattern in seen and rules.spec(seen[pattern]) != rules.spec(index):
            out["SHD108"].add(pattern)
        seen.setdefault(pattern, index)
    for index in catch_all[:1]:
        if any(i > index for i in specific):
            out["SHD109"].add(".*")
    return out, maybe


def config_of(manifest):
    name = os.path.basename(manifest)
    for end in (".easydel", ".hf", ".flax", ".easylm"):
        name = name.split(end)[0]
    name = name.replace("-bf16", "").replace("-mxfp4", "")
    path = os.path.join(CONFIGS, name + ".config.json")
    return path if os.path.exists(path) else None
