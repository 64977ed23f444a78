"""Matching alone: names against rules, ours against Python and RE2::Set."""

import json
import math
import os
import subprocess
import sys
import tempfile

import names

HERE = os.path.dirname(os.path.abspath(__file__))
KINDS = ("dense", "experts", "digits")
COUNTS = (1000, 10000, 91000, 1000000)
RULES = (20, 100, 1000)
MOST = COUNTS[-1]
# As many rules with gaps as names.
GAPS = (1000, 4000)
PYTHON, SET = "Python re.search", "RE2::Set"
# Python takes so many names, spread over all.
TAKEN = {20: 4000, 100: 2000, 1000: 400, 4000: 100}


class Suite:
    def __init__(self, build):
        self.worker = os.path.join(build, "bench", "match_worker")

    def __enter__(self):
        self.folder = tempfile.TemporaryDirectory()
        self.bases = {}
        return self

    def __exit__(self, *_):
        self.folder.cleanup()

    def rows(self):
        out = []

        def add(kind, count, rules, against, **more):
            out.append(dict({
                "name": "%s, %d names, %d rules" % (kind, count, rules),
                "against": against, "size": (kind, count, rules),
                "rate": False, "unit": "s"}, **more))

        for kind in KINDS:
            for count in COUNTS:
                for rules in RULES:
                    target = {"target": 150} if (count, rules) == (
                        MOST, 100) else {}
                    add(kind, count, rules, PYTHON, **target)
            for rules in RULES:
                add(kind, MOST, rules, SET)
            add(kind, MOST, 1000, "100 rules", target=0.67)
        for count in GAPS:
            add("gaps", count, count, PYTHON)
            add("gaps", count, count, SET)
            add("gaps", count, count, "distinct")
        return out

    def _base(self, kind, count, rules):
        size = (kind, count, rules)
        if size not in self.bases:
            self.bases[size] = names.write_lines(
                self.folder.name, count, rules, kind)
        return self.bases[size]

    def _run(self, command, size):
        base = self._base(*size)
        step = max(1, size[1] // TAKEN[size[2]])
        # Not in step with the model's parts, which repeat.
        while math.gcd(step, len(names.LEAVES) * names.EXPERTS) > 1:
            step += 1
        done = subprocess.run(
            command + [base + ".patterns", base + ".names", str(step)],
            stdout=subprocess.PIPE, check=False)
        if done.returncode != 0:
            raise SystemExit("%s: exit %d" % (command[0], done.returncode))
        return json.loads(done.stdout)

    def round(self, spec):
        kind, count, _ = spec["size"]
        if not os.path.exists(self.worker):
            return {"absent": "match_worker is not built"}
        ours = self._run([self.worker, "automaton"], spec["size"])
        if spec["against"] == PYTHON:
            theirs = self._run(
                [sys.executable, os.path.join(HERE, "match_names.py")],
                spec["size"])
        elif spec["against"] == SET:
            theirs = self._run([self.worker, "re2"], spec["size"])
        elif spec["against"] == "distinct":
            theirs = self._run([self.worker, "automaton"],
                               ("distinct", count, count))
        else:
            theirs = self._run([self.worker, "automaton"], (kind, count, 100))
        if spec["against"] in (PYTHON, SET) and (
                ours["first"] != theirs["first"]):
            raise SystemExit("%s: other rules than %s" % (
                spec["name"], spec["against"]))
        return {"ours": ours["seconds"], "against": theirs["seconds"]}
