#!/usr/bin/env python3
"""The first hour with the program, from an empty folder, by script.

    python3 tests/trials/first_hour.py [--program FILE] [--package FOLDER] [-v]

Each trial is what a new user does, mistakes included. After a refusal the next
command is built from the text that was printed and from nothing else. Counted
are

    docs looked up  the next step is not in what was printed, but in a guide
    wrong leads     what was printed led to another refusal

Exits with 1 if a command ends with another exit status than it should, or if
there are more of either than BUDGET allows. `tests/cli/trials_test.py` runs all
trials.
"""

import argparse
import json
import os
import re
import subprocess
import sys
import tempfile

# Trial -> docs looked up that are expected. Wrong leads: none.
BUDGET = {"a finding is silenced": 1}

TREE = {"verses/lookback/query": [12, 1024, 16, 64],
        "verses/lookback/key": [12, 1024, 16, 64],
        "verses/lookback/value": [12, 1024, 16, 64],
        "verses/lookback/out": [12, 16, 64, 1024],
        "verses/mull/up": [12, 1024, 2816],
        "verses/mull/down": [12, 2816, 1024],
        "verses/calm/scale": [12, 1024],
        "words/embedding": [32000, 1024]}
CONFIG = {"model_type": "llama", "architectures": ["LlamaForCausalLM"],
          "hidden_size": 1024, "intermediate_size": 2816,
          "num_attention_heads": 16, "num_key_value_heads": 8,
          "num_hidden_layers": 4, "vocab_size": 32000,
          "torch_dtype": "bfloat16", "tie_word_embeddings": False}
FACTORY = """class Leaf:
    shape, dtype = (4, 4), "float32"


def params():
    return {"a/b": Leaf(), "a": {"b": Leaf()}}
"""
MESH = ["--mesh", "fsdp:4,tp:2"]
OWN = [*MESH, "--rules", "rules.yaml", "--manifest", "tree.json"]
HEADS = ["--attention", "heads=16,kv_heads=16,head_dim=64", "--batch", "8",
         "--seq", "8",
         "--operation", "vanilla", "--layout", "bthd", "--dtype", "float32"]


class Failed(Exception):
    """A command that does not do what a user needs."""


class Trial:
    """A folder, the text of the last command, and the counts."""

    def __init__(self, title, folder, program, package, verbose):
        self.title, self.folder, self.program = title, folder, program
        self.package, self.verbose = package, verbose
        self.steps = self.docs = self.wrong_leads = 0
        self.text, self.led = "", False

    def write(self, name, text):
        with open(os.path.join(self.folder, name), "w",
                  encoding="utf-8") as file:
            file.write(text if isinstance(text, str) else json.dumps(text))

    def edit(self, name, before, after):
        with open(os.path.join(self.folder, name), encoding="utf-8") as file:
            text = file.read()
        if before not in text:
            raise Failed(f"{name} has no {before!r}")
        self.write(name, text.replace(before, after, 1))

    def run(self, words, status, program=None, env=None):
        """One command, whose exit status has to be `status`."""
        done = subprocess.run(
            [*(program or [self.program]), *words], cwd=self.folder,
            stdout=subprocess.PIPE, stderr=subprocess.STDOUT, timeout=300,
            encoding="utf-8", check=False, env={**os.environ, **(env or {})})
        self.steps += 1
        self.text = done.stdout
        if self.verbose:
            name = " ".join(program[1:]) if program else "shardc"
            print(f"  $ {name} {' '.join(words)}  # {done.returncode}")
        if done.returncode != status:
            if self.led:
                self.wrong_leads += 1
            raise Failed(f"`{' '.join(words)}` exits with {done.returncode} "
                         f"instead of {status}:\n{done.stdout}")
        self.led = False

    def lead(self, pattern):
        """What the last command printed as the next step."""
        found = re.search(pattern, self.text)
        if not found:
            raise Failed(f"nothing printed matches {pattern!r}:\n{self.text}")
        if self.verbose:
            print(f"    printed: {found.group().strip()}")
        self.led = True
        return found.group(1)

    def look_up(self, page):
        self.docs += 1
        if self.verbose:
            print(f"    looked up: {page}")


def own_tree(t):
    """Scanned layers whose names no pack knows (points 1 and 5)."""
    t.write("tree.json", {"schema": "shardc.manifest/v1", "params": {
        name: {"shape": shape, "dtype": "BF16"}
        for name, shape in TREE.items()}})
    t.run(["plan", *MESH, "--rules", "auto", "--manifest", "tree.json"], 2)
    command = t.lead(r"`shardc (suggest)` proposes rules")
    out = t.lead(r"`-o (rules\.yaml)`")
    t.run([command, *MESH, "--manifest", "tree.json", "-o", out], 0)
    t.run(["plan", *OWN, "-o", "plan.json"], 0)
    t.run(["check", *OWN], 0)
    with open(os.path.join(t.folder, "plan.json"), encoding="utf-8") as file:
        plan = json.load(file)["params"]
    rows = plan.items() if isinstance(plan, dict) else [
        (one["name"], one) for one in plan]
    for name, one in rows:
        if name.startswith("verses/") and any((one["spec"] or [None])[:1]):
            raise Failed(f"the layers of {name} are split: {one['spec']}")


def layers_split(t):
    """The layer dimension is split over an axis (point 1)."""
    own_tree(t)
    t.edit("rules.yaml", "[null, [FSDP, SP], MLP_INTERMEDIATE]",
           "[[FSDP, SP], null, MLP_INTERMEDIATE]")
    t.run(["check", *OWN, "--deny", "warnings"], 2)
    strict = t.lead(r"`(--fail-on warning)`").split()
    t.run(["check", *OWN, *strict], 1)
    t.lead(r"counts 12 layers[^`]*(leave the layer dimension unsharded)")
    t.edit("rules.yaml", "[[FSDP, SP], null, MLP_INTERMEDIATE]",
           "[null, [FSDP, SP], MLP_INTERMEDIATE]")
    t.run(["check", *OWN, *strict], 0)


def two_of_one_name(t):
    """A module whose tree has one name twice (point 2)."""
    if not t.package:
        return
    t.write("mine.py", FACTORY)
    python, env = [sys.executable, "-m", "shardc.manifest"], {
        "PYTHONPATH": t.package}
    t.run(["mine:params", "-o", "tree.json"], 2, python, env)
    option = t.lead(r"another separator \(`(--separator)`\)")
    t.run(["mine:params", option, ".", "-o", "tree.json"], 0, python, env)
    t.run(["show", "manifest", "--manifest", "tree.json"], 0)
    t.run(["-c", "import shardc; print(shardc.__version__)"], 0,
          [sys.executable], env)


def faulty_projection(t):
    """A query projection that is split along the width (point 4)."""
    own_tree(t)
    verify = ["verify", *OWN, *HEADS]
    t.run(verify, 0)
    t.lead(r"not compared with the axis rules: (`verses/lookback/out`)")
    t.edit("rules.yaml", "[null, [FSDP, SP], HEAD, null]",
           "[[FSDP, SP], HEAD, null, null]")
    t.run(verify, 1)
    dim = int(t.lead(r"help: split dimension (\d) over \"tp\""))
    spec = ["null", "[FSDP, SP]", "null", "null"]
    spec[dim] = "HEAD"
    t.edit("rules.yaml", "[[FSDP, SP], HEAD, null, null]",
           f"[{', '.join(spec)}]")
    t.run(verify, 0)


def wrong_words(t):
    """Options of other programs, and a folder that is missing (point 5)."""
    t.write("config.json", CONFIG)
    t.run(["plan"], 2)
    rules = t.lead(r"(--rules auto)").split()
    model = t.lead(r"`(--model config\.json)`").split()
    t.run(["plan", "--mesh", "2x4", *rules, *model], 2)
    axes = t.lead(r"such as `(fsdp:2,tp:4)`")
    whole = ["--mesh", axes, *rules, *model]
    t.run(["plan", *whole, "-o", "plans/a.json"], 2)
    folder = t.lead(r"`mkdir -p ([^`]+)`")
    os.makedirs(os.path.join(t.folder, folder))
    t.run(["plan", *whole, "-o", "plans/a.json"], 0)
    t.run(["check", *whole], 0)
    t.run(["cost", *whole, "--dtype", "bf16"], 2)
    dtype = t.lead(r"write `(bfloat16)`")
    t.run(["cost", *whole, "--dtype", dtype], 0)
    t.run(["explain", "SHD1"], 2)
    t.run(t.lead(r"`shardc (explain --codes)`").split(), 0)
    t.run(["explain", t.lead(r"(SHD101)")], 0)
    t.run(["plan", *whole, "--verbose"], 2)
    t.run([t.lead(r"`shardc (explain) PARAM`"), "model.norm.weight", *whole],
          0)


def typing_error(t):
    """A rule with a letter missing (point 6)."""
    own_tree(t)
    t.edit("rules.yaml", "mull/up$", "mul/up$")
    t.run(["check", *OWN], 1)
    t.edit("rules.yaml", "mul/up$", t.lead(r"write `([^`]+)`"))
    t.run(["check", *OWN], 0)
    if len(t.text.strip().splitlines()) > 2:
        raise Failed(f"`check` prints more than two lines:\n{t.text}")


def silenced(t):
    """A rule kept for later, which is reported until it is ignored (point 7)."""
    own_tree(t)
    t.edit("rules.yaml", "rules:\n",
           "rules:\n  - match: 'later$'\n    spec: Replicated\n")
    t.run(["check", *OWN, "--deny", "warnings"], 2)
    strict = t.lead(r"`(--fail-on warning)`").split()
    t.run(["check", *OWN, *strict], 1)
    code = t.lead(r"\[(SHD105) dead-rule\]")
    t.look_up("docs/guides/ci.md")
    t.edit("rules.yaml", "  - match: 'later$'",
           f"  # shardc: ignore[{code}] for the next model\n"
           "  - match: 'later$'")
    t.run(["check", *OWN, *strict], 0)


TRIALS = {"a tree of its own names": own_tree,
          "layers that are split": layers_split,
          "two parameters of one name": two_of_one_name,
          "a faulty query projection": faulty_projection,
          "wrong words": wrong_words,
          "a typing error": typing_error,
          "a finding is silenced": silenced}


def run_all(program, package="", verbose=False):
    """The rows of the table, and the texts of failures."""
    rows, failures = [], []
    for title, trial in TRIALS.items():
        with tempfile.TemporaryDirectory() as folder:
            t = Trial(title, folder, program, package, verbose)
            if verbose:
                print(title)
            try:
                trial(t)
            except Failed as error:
                failures.append(f"{title}: {error}")
            if t.docs > BUDGET.get(title, 0):
                failures.append(f"{title}: {t.docs} docs looked up")
            if t.wrong_leads:
                failures.append(f"{title}: {t.wrong_leads} wrong leads")
            rows.append((title, t.steps, t.docs, t.wrong_leads))
    return rows, failures


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n", 1)[0])
    parser.add_argument("--program", default="shardc")
    parser.add_argument("--package", default="",
                        help="folder that has the Python package; empty: the "
                             "trial of it is skipped")
    parser.add_argument("-v", action="store_true", dest="verbose",
                        help="print each command and what it led to")
    options = parser.parse_args()
    program = options.program
    if os.sep in program:
        program = os.path.abspath(program)
    package = options.package and os.path.abspath(options.package)
    rows, failures = run_all(program, package, options.verbose)
    print("%-28s %8s %5s %12s" % ("trial", "commands", "docs", "wrong leads"))
    for row in rows:
        print("%-28s %8d %5d %12d" % row)
    for failure in failures:
        print(failure, file=sys.stderr)
    return 1 if failures else 0


if __name__ == "__main__":
    sys.exit(main())
