"""Whole processes: our commands against the Python matching loop.

Processor time of the process and all its threads.
"""

import json
import os
import resource
import subprocess
import sys
import tempfile

import names

HERE = os.path.dirname(os.path.abspath(__file__))
MESH = "dp:2,fsdp:8,tp:4"
MESH_JSON = '{"dp": 2, "fsdp": 8, "tp": 4}'
SIZES = ((1000, 20), (1000, 100), (100000, 100))


def processor_seconds():
    """Of all child processes so far."""
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


class Suite:
    def __init__(self, build):
        self.program = os.path.join(build, "src", "cli", "shardc")

    def __enter__(self):
        self.folder = tempfile.TemporaryDirectory()
        self.bases = {size: names.write(self.folder.name, *size)
                      for size in SIZES}
        return self

    def __exit__(self, *_):
        self.folder.cleanup()

    def rows(self):
        out = []
        for size in SIZES:
            for command in ("plan", "check", "manifest"):
                out.append({
                    "name": "%s, %d names, %d rules" % ((command,) + size),
                    "against": "Python json.load" if command == "manifest"
                    else "Python re.search loop",
                    "command": command, "size": size, "rate": False,
                    "unit": "s"})
        return out

    def _run(self, command):
        before = processor_seconds()
        try:
            done = subprocess.run(command, stdout=subprocess.DEVNULL,
                                  stderr=subprocess.PIPE,
                                  cwd=self.folder.name)
        except OSError as error:
            return str(error)
        seconds = processor_seconds() - before
        if done.returncode not in (0, 1):
            lines = done.stderr.decode(errors="replace").splitlines()
            return lines[0] if lines else "exit %d" % done.returncode
        return seconds

    def round(self, spec):
        base = self.bases[spec["size"]]
        inputs = ["--manifest", base + ".json"]
        if spec["command"] != "manifest":
            inputs += ["--mesh", MESH, "--rules", base + ".yaml"]
        extra = ["-o", base + ".plan"] if spec["command"] == "plan" else []
        ours = self._run([self.program, spec["command"]] + inputs + extra)
        if spec["command"] == "manifest":
            theirs = self._run([
                sys.executable, "-c",
                "import json,sys;json.load(open(sys.argv[1]))",
                base + ".json"])
        else:
            theirs = self._run([
                sys.executable, os.path.join(HERE, "match_baseline.py"),
                base + ".json", base + ".rules.json", MESH_JSON,
                base + ".baseline"])
        for side in (ours, theirs):
            if isinstance(side, str):
                return {"absent": side}
        if spec["command"] == "plan":
            check_same(base)
        return {"ours": ours, "against": theirs}


def check_same(base):
    """Both chose the same spec for every parameter."""
    with open(base + ".plan") as source:
        plan = json.load(source)
    with open(base + ".baseline") as source:
        baseline = json.load(source)

    def flat(spec):
        return [[] if g is None else [g] if isinstance(g, str) else g
                for g in spec]

    layouts = plan.get("params")
    entries = layouts if isinstance(layouts, dict) else {
        p["name"]: p for p in layouts}
    for line in baseline:
        got = flat(entries[line["name"]]["spec"])
        if got != line["spec"]:
            raise SystemExit("%s: %s where the loop says %s" % (
                line["name"], got, line["spec"]))
