"""A command that is killed leaves the old files, the new files or a mark.

Commands that write files, other than checkpoints (partial_sets_test.py), are
killed at a system call. Each of their files must then be absent, the old one,
the new one or a mark. Where a command writes several files and they are neither
all old nor all new, there must be a mark or a missing file, and each command
that reads them must return what it returns for the old or for the new files, or
end with status 2 and an error. The same command, run again, must make the files
that a run without a kill makes.

    killed_outputs_test.py                      kills of a sample, in seconds
    SHARDC_KILLS=1000 killed_outputs_test.py    that many kills; prints the counts
"""

import json
import os
import random
import shutil
import subprocess
import sys
import tempfile

ROOT = os.environ["SHARDC_SOURCE_ROOT"]
sys.path[:0] = [os.path.join(ROOT, "tests", "faults"),
                os.path.join(ROOT, "tests", "cli")]
from checkpoint_case import BIN, clean_env  # noqa: E402
from driver import TESTDATA  # noqa: E402
from faults_test import Fault, LIBRARY, contents, require  # noqa: E402

MARK = b"shardc.unfinished/v1"
CONFIG = {
    "architectures": ["LlamaForCausalLM"], "model_type": "llama",
    "hidden_act": "silu", "hidden_size": 64, "intermediate_size": 128,
    "num_attention_heads": 8, "num_key_value_heads": 4,
    "num_hidden_layers": 2, "rms_norm_eps": 1e-05, "vocab_size": 256}
RULES = """version: 1
separator: "."
rules:
  - match: '.*'
    spec: [fsdp]
  - match: 'mlp.*weight$'
    spec: [fsdp]
"""
PROJECT = """version: 1
targets:
  one: {mesh: "MESH", rules: [builtin:llama/hf], model: config.json,
        batch: 8, step: step.json, plan: plan.json}
"""
PLACEMENTS = {"mesh": {"mesh_dim_names": ["a", "b"], "shape": [2, 4]},
              "params": {"one": ["S(0)", "R"], "other": ["R", "Shard(1)"]}}
CSV = "0F0,0F1,,0B0,,0B1\n,1F0,1B0,1F1,1B1,\n"
INPUTS = {
    "config.json": json.dumps(CONFIG), "rules.yaml": RULES,
    "shardc.yaml": PROJECT.replace("MESH", "fsdp:2,tp:2"),
    "old.json": json.dumps({**PLACEMENTS, "mesh": {
        "mesh_dim_names": ["c", "b"], "shape": [4, 2]}}),
    "new.json": json.dumps(PLACEMENTS), "table.csv": CSV,
    "x.json": '{"x": [[1, 2]]}', "y.json": '{"x": [[3, 4]]}'}
MESH = ["--mesh", "fsdp:2,tp:2"]
OTHER_MESH = ["--mesh", "fsdp:4"]
MODEL = ["--rules", "builtin:llama/hf", "--model", "config.json"]
OWN = ["--rules", "rules.yaml", "--model", "config.json"]
ALONE = ["--no-project", "--threads", "1"]
STEP = ["--batch", "8", "--seq", "32"]
VERIFY = ["verify", *ALONE, *MESH, "--attention",
          "heads=8,kv_heads=4,head_dim=4", "--batch", "4", "--seq", "8",
          "--kv-len", "8",
          "--dtype", "float32", "--layout", "bthd", "--mode", "prefill",
          "-q", "--dump", "dump"]
AUDITED = os.path.join(TESTDATA, "audit", "executed", "ring.hlo.txt.gz")


class Writer:
    def __init__(self, name, args, before=(), readers=(), edits=None,
                 status=0, once=False):
        self.name = name
        self.args = args
        self.before = before        # commands that write what is there before
        self.readers = readers
        self.edits = edits or {}    # inputs that are then changed
        self.status = status
        self.once = once            # files that are complete are not replaced


def one(name, args, old=None, **more):
    """A command with one result, to a new file and over an old one."""
    to = ["-o", "result"]
    yield Writer(name, [*args, *to], **more)
    if old is not None:
        yield Writer(name + " over a file", [*args, *to], [[*old, *to]], **more)


def writers():
    plan = ["plan", *ALONE, *MODEL]
    project = [["check", "--locked"], ["plan", "--diff"], ["check"], ["plan"]]
    dumped = [["eval", "rotate_half", "--input", "dump/case-0000.json"]]
    fit = ["search", "--all", *ALONE, *MODEL, *STEP, "--profile", "h100-sxm", "--devices"]
    imported = ["--mesh-output", "mesh.yaml", "-o", "made.yaml"]
    of_import = [["plan", *ALONE, "--mesh", "mesh.yaml", "--rules",
                  "made.yaml", "--model", "config.json"],
                 ["show", "rules", *ALONE, "--rules", "made.yaml"]]
    committed = ["plan", "--write-locked", "-q"]
    init = ["init", "manifest.json", "--model", "config.json", "--folder",
            "new", "--mesh"]
    search = ["search", *ALONE, "--model", "config.json", *STEP, "--profile",
              "h100-sxm", "--prove", "0", "--devices", "2"]
    in_new = [["check", "--project", "new/shardc.yaml"],
              ["plan", "--project", "new/shardc.yaml"],
              ["check", "--locked", "--project", "new/shardc.yaml"]]
    other = {"shardc.yaml": PROJECT.replace("MESH", "fsdp:4")}
    return [
        *one("plan", [*plan, *MESH], [*plan, *OTHER_MESH]),
        Writer("plan --write-locked", committed, readers=project),
        Writer("plan --write-locked over another", committed, [committed],
               project, other),
        Writer("init", [*init, "fsdp:2,tp:2"], readers=in_new,
               once=True),
        Writer("search -o", [*search, "-o", "new"], readers=in_new, once=True),
        Writer("import to two files",
               ["import", "dtensor", "new.json", *imported],
               readers=of_import),
        Writer("import over two files",
               ["import", "dtensor", "new.json", *imported],
               [["import", "dtensor", "old.json", *imported]], of_import),
        Writer("eval to two files over two",
               ["eval", "rotate_half", "--input", "x.json", "--save", "x.st",
                "-o", "x.out"],
               [["eval", "rotate_half", "--input", "y.json", "--save", "x.st",
                 "-o", "x.out"]]),
        Writer("verify --dump", [*VERIFY, "--operation", "vanilla,ring"],
               readers=dumped),
        Writer("verify --dump over more cases",
               [*VERIFY, "--operation", "ring", "--seed", "2"],
               [[*VERIFY, "--operation", "vanilla,ring"]], dumped),
        Writer("verify step --dump over another",
               ["verify", "step", *ALONE, *MESH, *MODEL, "--mode", "prefill",
                "--batch", "4", "--dump", "dump", "-q"],
               [["verify", "step", *ALONE, *MESH, *MODEL, "--mode", "prefill",
                 "--batch", "4", "--seed", "2", "--dump", "dump", "-q"]],
               dumped),
        Writer("check --fix", ["check", *ALONE, *MESH, *OWN, "--fix", "-q",
                               "--fail-on", "never"]),
        Writer("check --write-baseline",
               ["check", *ALONE, *MESH, *OWN, "--write-baseline", "b.json",
                "-q"], [["check", *ALONE, *OTHER_MESH, *OWN,
                         "--write-baseline", "b.json", "-q"]]),
        *one("check", ["check", *ALONE, *MESH, *OWN, "--fail-on", "never"],
             ["check", *ALONE, *OTHER_MESH, *OWN, "--fail-on", "never"]),
        *one("cost", ["cost", *ALONE, *MESH, *MODEL, *STEP],
             ["cost", *ALONE, *OTHER_MESH, *MODEL, *STEP]),
        *one("report", ["report", *ALONE, *MESH, *MODEL, *STEP],
             ["report", *ALONE, *OTHER_MESH, *MODEL, *STEP]),
        *one("fit", [*fit, "4"], [*fit, "2"]),
        *one("export jax", ["export", "jax", *ALONE, *MESH, *MODEL],
             ["export", "jax", *ALONE, *OTHER_MESH, *MODEL]),
        *one("suggest", ["suggest", *ALONE, *MESH, "--model", "config.json",
                         "--force"]),
        *one("manifest", ["show", "manifest", *ALONE, "--model", "config.json"],
             ["show", "mesh", *ALONE, *MESH]),
        *one("rules", ["show", "rules", *ALONE, "--rules", "rules.yaml"]),
        *one("mesh", ["show", "mesh", *ALONE, *MESH], ["show", "mesh", *ALONE, *OTHER_MESH]),
        *one("resolve", ["resolve", "[BATCH]", *ALONE, *MESH, "--rules",
                         "rules.yaml"]),
        *one("attention", ["resolve", "attention", *ALONE, *MESH, "--rules",
                           "rules.yaml"]),
        *one("schedule", ["schedule", "table.csv"],
             ["schedule", "gpipe", "--ranks", "2", "--microbatches", "2"]),
        *one("audit", ["audit", AUDITED, "--format", "json"],
             ["schedule", "table.csv"]),
        *one("diff", ["diff", *ALONE, "config-plan.json", *OTHER_MESH, *MODEL],
             status=1),
        *one("kv", ["kv", "--from", "config-plan.json", "--to",
                    "config-plan.json", "--tokens", "8"]),
    ]


class Trial:
    def __init__(self, folder, chance):
        self.folder = folder
        self.chance = chance
        self.env = {**clean_env(), "LC_ALL": "C.UTF-8"}
        self.kills = self.between = self.reads = 0
        self.failed = []

    def at(self, *names):
        return os.path.join(self.folder, *names)

    def run(self, args, env=None):
        return subprocess.run(
            [BIN, *args], cwd=self.folder, stdin=subprocess.DEVNULL,
            capture_output=True, timeout=60, env={**self.env, **(env or {})})

    def good(self, args, *statuses):
        done = self.run(args)
        require(done.returncode in (statuses or (0, 1)),
                f"{args}: {done.returncode}: {done.stderr!r}")

    def put(self, made):
        for name in os.listdir(self.folder):
            path = self.at(name)
            shutil.rmtree(path) if os.path.isdir(path) else os.unlink(path)
        self.put_at(self.folder, made)

    def put_at(self, path, made):
        if isinstance(made, bytes):
            with open(path, "wb") as file:
                file.write(made)
            return
        os.makedirs(path, exist_ok=True)
        for name, inner in made.items():
            self.put_at(os.path.join(path, name), inner)

    def files(self):
        """All files by path, but those without a final name."""
        out = {}

        def walk(made, path):
            for name, inner in made.items():
                if isinstance(inner, dict):
                    walk(inner, f"{path}{name}/")
                elif not (name.startswith(".") and name.endswith(".tmp")):
                    out[path + name] = inner

        walk(contents(self.folder), "")
        return out

    def result(self, args):
        done = self.run(args)
        return (done.returncode, done.stdout), done.stderr

    def states(self, writer):
        self.put({name: text.encode() for name, text in INPUTS.items()})
        self.good(["plan", *ALONE, *MODEL, *MESH, "-o", "config-plan.json"])
        self.good(["show", "manifest", *ALONE, "--model", "config.json", "--format",
                   "json", "-o", "manifest.json"])
        for command in writer.before:
            self.good(command)
        for name, text in writer.edits.items():
            self.put_at(self.at(name), text.encode())
        self.start = contents(self.folder)
        self.before = self.files()
        self.valid = [[self.result(args)[0] for args in writer.readers]]
        self.good(writer.args, writer.status)
        self.after = self.files()
        require(self.after != self.before, f"{writer.name} writes nothing")
        self.valid.append([self.result(args)[0] for args in writer.readers])

    def judge(self, writer, n):
        try:
            now = self.files()
            marked = False
            for name in sorted({*self.before, *self.after, *now}):
                have = now.get(name)
                if have is None or MARK in have:
                    marked = True
                    continue
                require(have in (self.before.get(name), self.after.get(name)),
                        f"{name} is neither old nor new: {have[:200]!r}")
            if now not in (self.before, self.after):
                self.between += 1
                require(marked, "a mixture without a mark: " + ", ".join(
                    name for name in now
                    if now[name] != self.before.get(name)))
                for i, args in enumerate(writer.readers):
                    result, message = self.result(args)
                    self.reads += 1
                    if result in (self.valid[0][i], self.valid[1][i]):
                        continue
                    require(result[0] == 2 and b"error" in message,
                            f"{args} returns {result}")
            self.good(writer.args, writer.status,
                      *([2] if writer.once and now == self.after else []))
            require(self.files() == self.after, "run again, other files")
        except Fault as fault:
            self.failed.append(f"{writer.name}: killed at call {n}: {fault}")
            print(self.failed[-1], flush=True)

    def killed(self, writer, n):
        self.put(self.start)
        done = self.run(writer.args, {
            "LD_PRELOAD": LIBRARY, "FAULT_CALL": "any", "FAULT_FROM": str(n),
            "FAULT_EVERY": "0", "FAULT_HOW": "kill"})
        return done.returncode == -9

    def kill(self, writer, count):
        """Half of the kills are at the last calls, which give files their
        names."""
        self.states(writer)
        low, high = 0, 1
        while self.killed(writer, high):
            low, high = high, 2 * high
        while high - low > 1:
            middle = (low + high) // 2
            low, high = ((middle, high) if self.killed(writer, middle)
                         else (low, middle))
        late = range(max(1, low - low // 3 + 1), low + 1)
        chosen = set(self.chance.sample(late, min(-(-count // 2), len(late))))
        rest = [n for n in range(1, low + 1) if n not in chosen]
        chosen.update(self.chance.sample(
            rest, min(count - len(chosen), len(rest))))
        for n in sorted(chosen):
            if self.killed(writer, n):
                self.kills += 1
            self.judge(writer, n)


def main():
    kills = int(os.environ.get("SHARDC_KILLS", "0"))
    seed = int(os.environ.get("SHARDC_SEED", random.randrange(1 << 30)))
    base = "/dev/shm" if os.access("/dev/shm", os.W_OK) else None
    folder = tempfile.mkdtemp(prefix="shardc_killed_", dir=base)
    try:
        trial = Trial(folder, random.Random(seed))
        chosen = [writer for writer in writers() if not sys.argv[1:]
                  or any(word in writer.name for word in sys.argv[1:])]
        if not kills and not sys.argv[1:]:
            # Each command is run; which of them are killed is drawn.
            sample = trial.chance.sample(chosen, 8)
            for writer in chosen:
                if writer not in sample:
                    trial.states(writer)
            chosen = sample
        for writer in chosen:
            trial.kill(writer, -(-kills // len(chosen)) if kills else 2)
        print(f"{trial.kills} kills of {len(chosen)} kinds of runs, "
              f"{trial.between} between the old and the new files, "
              f"{trial.reads} reads of these, {len(trial.failed)} failed "
              f"(SHARDC_SEED={seed})")
    finally:
        shutil.rmtree(folder, ignore_errors=True)
    return 1 if trial.failed or not trial.kills else 0


if __name__ == "__main__":
    sys.exit(main())
