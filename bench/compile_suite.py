"""Whole processes: our commands against the Python matching loop, and against
the floor: the manifest read, as many bytes as the plan has written, and synced.

Processor time of the process and all its threads, of which there is one; against
the floor elapsed time, as a disk takes its own.
"""

import hashlib
import json
import os
import resource
import subprocess
import sys
import tempfile
import time

import names

HERE = os.path.dirname(os.path.abspath(__file__))
MESH = "dp:2,fsdp:8,tp:4"
MESH_JSON = '{"dp": 2, "fsdp": 8, "tp": 4}'
KINDS = ("dense", "experts", "digits")
COUNTS = (1000, 10000, 91000, 1000000)
RULES = (20, 100, 1000)
MOST = COUNTS[-1]
PYTHON, FLOOR = "Python re.search loop", "floor: read, write, fsync"
# As many rules that match nothing as names that fold to no template.
DEAD = (1000, 10000)
DEVICES, FEWEST = (256, 1024), 64
VERIFY = "%d devices, scaled" % FEWEST
# The searches that the loop runs in a row: with more it takes minutes, but for
# the row that has a target, which takes half a minute.
MOST_SEARCHES = 20_000_000
CHUNK = 1 << 20


def processor_seconds():
    """Of all child processes so far."""
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


def floor_seconds(base):
    """What a program that does nothing needs for the plan that is there."""
    with open(base + ".plan", "rb") as source:
        plan = source.read()
    output = base + ".floor"
    if os.path.exists(output):
        os.unlink(output)
    start = time.perf_counter()
    with open(base + ".json", "rb", buffering=0) as source:
        kept = source.read()
    with open(output, "wb", buffering=0) as out:
        for at in range(0, len(plan), CHUNK):
            out.write(plan[at:at + CHUNK])
        os.fsync(out.fileno())
    seconds = time.perf_counter() - start
    assert kept
    return seconds


class Suite:
    def __init__(self, build):
        self.program = os.path.join(build, "src", "cli", "shardc")

    def __enter__(self):
        self.folder = tempfile.TemporaryDirectory()
        self.bases = {}
        self.compared = set()
        return self

    def __exit__(self, *_):
        self.folder.cleanup()

    def rows(self):
        out = []

        def add(command, size, against, **more):
            out.append(dict({
                "name": "%s, %s, %d names, %d rules" % ((command,) + size),
                "against": against, "command": command, "size": size,
                "rate": False, "unit": "s"}, **more))

        for kind in KINDS:
            for count in COUNTS:
                for rules in RULES:
                    size = (kind, count, rules)
                    if (count, rules) == (MOST, 100):
                        add("plan", size, PYTHON, target=60)
                    elif count * rules <= MOST_SEARCHES:
                        add("plan", size, PYTHON)
                add("check", (kind, count, 100), "plan", target=0.67)
                add("manifest", (kind, count, 100), "Python json.load")
            add("plan", (kind, MOST, 100), FLOOR, target=0.4)
            add("plan", (kind, MOST, 1000), "100 rules", target=0.67)
            add("plan", (kind, MOST, 100), "91000 names, scaled")
        for dead in DEAD:
            add("check", ("distinct", dead, dead), "plan", target=0.33)
        out += [{"name": "verify --full, attention, %d devices" % devices,
                 "against": VERIFY, "command": "verify", "size": devices,
                 "rate": False, "unit": "s"} for devices in DEVICES]
        return out

    def _base(self, size):
        if size not in self.bases:
            kind, count, rules = size
            self.bases[size] = names.write(
                self.folder.name, count, rules, kind)
        return self.bases[size]

    def _run(self, command, clock=processor_seconds):
        before = clock()
        try:
            done = subprocess.run(command, stdout=subprocess.DEVNULL,
                                  stderr=subprocess.PIPE,
                                  cwd=self.folder.name, check=False)
        except OSError as error:
            return str(error)
        seconds = clock() - before
        if done.returncode not in (0, 1):
            lines = done.stderr.decode(errors="replace").splitlines()
            return lines[0] if lines else "exit %d" % done.returncode
        return seconds

    def _ours(self, command, size, clock=processor_seconds):
        base = self._base(size)
        inputs = ["--threads", "1", "--manifest", base + ".json"]
        if command == "manifest":
            inputs = inputs[2:]
        else:
            inputs += ["--mesh", MESH, "--rules", base + ".yaml"]
        if command == "plan":
            inputs += ["--quiet", "-o", base + ".plan"]
            if os.path.exists(base + ".plan"):
                os.unlink(base + ".plan")
        return self._run([self.program, command] + inputs, clock)

    def _verify(self, devices):
        """The full attention of a row of the batch for each 4 devices."""
        return self._run([
            self.program, "verify", "--full", "--no-project", "--threads", "1",
            "--rules", "builtin:llama/hf", "--mesh",
            "fsdp:%d,tp:4" % (devices // 4), "--operation", "vanilla",
            "--mode", "train", "--layout", "bthd", "--dtype", "float32",
            "--attention", "heads=32,kv_heads=8,head_dim=128", "--batch",
            str(devices // 4), "--seq", "8", "--kv-len", "8"])

    def _theirs(self, spec):
        if spec["against"] == VERIFY:
            seconds = self._verify(FEWEST)
            return seconds if isinstance(seconds, str) else (
                seconds * spec["size"] / FEWEST)
        kind, _, rules = spec["size"]
        base = self._base(spec["size"])
        against = spec["against"]
        if against == FLOOR:
            return floor_seconds(base)
        if against == "plan":
            return self._ours("plan", spec["size"])
        if against == "100 rules":
            return self._ours("plan", (kind, MOST, 100))
        if against == "91000 names, scaled":
            seconds = self._ours("plan", (kind, 91000, rules))
            return seconds if isinstance(seconds, str) else (
                seconds * MOST / 91000)
        if against == PYTHON:
            return self._run([
                sys.executable, os.path.join(HERE, "match_baseline.py"),
                base + ".json", base + ".rules.json", MESH_JSON,
                base + ".baseline"])
        return self._run([
            sys.executable, "-c",
            "import json,sys;json.load(open(sys.argv[1]))", base + ".json"])

    def round(self, spec):
        clock = (time.perf_counter if spec["against"] == FLOOR
                 else processor_seconds)
        ours = (self._verify(spec["size"]) if spec["command"] == "verify"
                else self._ours(spec["command"], spec["size"], clock))
        theirs = self._theirs(spec)
        for side in (ours, theirs):
            if isinstance(side, str):
                return {"absent": side}
        if spec["against"] == PYTHON and spec["size"] not in self.compared:
            self.compared.add(spec["size"])
            check_same(self._base(spec["size"]))
        return {"ours": ours, "against": theirs}


def digest(pairs):
    """Of names and specs, a line each."""
    out = hashlib.sha256()
    for name, spec in pairs:
        out.update(json.dumps([name, spec]).encode())
    return out.hexdigest()


def check_same(base):
    """Both chose the same spec for every parameter."""
    with open(base + ".plan") as source:
        plan = json.load(source)
    with open(base + ".baseline") as source:
        baseline = json.load(source)

    def flat(spec):
        return [[] if g is None else [g] if isinstance(g, str) else g
                for g in spec]

    ours = digest((name, flat(entry["spec"]))
                  for name, entry in plan["params"].items())
    if ours != digest((one["name"], one["spec"]) for one in baseline):
        raise SystemExit("%s: other specs than the loop's" % base)
