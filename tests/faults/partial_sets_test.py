"""No reader takes a part of a checkpoint for all of it.

Commands that write sets of files are killed at a system call or by the clock,
or one of their system calls fails. Then every command that reads a checkpoint
reads the folder. Each must return exactly what it returns for the earlier set
or for the new one, or end with status 2 and an error. Afterwards the same
command, run again, must complete the set. Of two processes that share a
checkpoint one or both are killed, or --finalize, which is also run before
they have ended; all of them, run again, must write the same files. The same holds for readers that run
while two sets replace each other.

    partial_sets_test.py                        a sample, in seconds
    SHARDC_KILLS=1000 partial_sets_test.py      that many kills, and a fifth as
                                                many faults; prints the counts
"""

import errno
import os
import random
import shutil
import subprocess
import sys
import tempfile
import threading
import time

ROOT = os.environ["SHARDC_SOURCE_ROOT"]
sys.path.insert(0, os.path.join(ROOT, "tests", "faults"))
from faults_test import (Bench, BIN, Fault, LIBRARY, contents,  # noqa: E402
                         require)

INDEX = "model.safetensors.index.json"
# Calls whose failure leaves a set in parts.
FAULTS = [("rename", "EIO"), ("rename", "ENOSPC"), ("link", "EIO"),
          ("write", "ENOSPC"), ("pwrite", "EIO"), ("fsync", "EIO"),
          ("open", "EMFILE"), ("close", "EIO"), ("ftruncate", "ENOSPC")]


class Writer:
    """A command that writes the set `folder`, and what is there before."""

    def __init__(self, name, args, folder, before=(), without=(), hf=True,
                 once=False):
        self.name = name
        self.args = args
        self.folder = folder
        self.before = before    # commands that write what is there before
        self.without = without  # files that are then removed
        self.hf = hf            # full tensors, not shards
        self.once = once        # a folder that is complete is not replaced


def writers(at):
    one = ["--threads", "1", "--no-sync"]
    parts = ["--output", at("out/parts"), "--max-shard-size", "100B", *one]
    new = ["checkpoint", "merge", at("in/set"), *parts]
    old = ["checkpoint", "merge", at("in/old"), *parts]
    split = ["checkpoint", "split", "--plan", at("in/plan.json"), "--output", at("out/set"),
             *one]
    splits = [[*split, "--checkpoint", at(f"in/{name}.safetensors")]
              for name in ("one", "two")]
    reshard = ["--plan", at("in/other.json"), "--output", at("out/set"), *one]
    file = ["--output", at("out/files/model.safetensors"), *one]

    def process(command, index):
        return [*command, "--process-index", str(index), "--process-count",
                "2"]

    return [
        Writer("merge", new, "parts"),
        Writer("merge over a set", new, "parts", [old]),
        Writer("merge into a set's files", [*new, "--reuse"], "parts", [old]),
        Writer("merge over a set without index", new, "parts", [old], [INDEX]),
        Writer("merge by processes", process(new, 1), "parts",
               [process(new, 0)]),
        Writer("merge by processes over a set", process(new, 1), "parts",
               [old, process(new, 0)]),
        Writer("finalize a merge", [*new, "--finalize"], "parts",
               [process(new, 0), process(new, 1)]),
        Writer("merge to one file", ["checkpoint", "merge", at("in/set"), *file], "files"),
        Writer("merge over one file", ["checkpoint", "merge", at("in/set"), *file], "files",
               [["checkpoint", "merge", at("in/old"), *file]]),
        Writer("split", splits[0], "set", hf=False),
        Writer("split over a set", splits[0], "set", [splits[1]], hf=False),
        Writer("split into a set's files", [*splits[0], "--reuse"], "set",
               [splits[1]], hf=False),
        Writer("split over a set without index", splits[0], "set",
               [splits[1]], ["shards.json"], hf=False),
        Writer("reshard over a set", ["checkpoint", "reshard", at("in/set"), *reshard],
               "set", [["checkpoint", "reshard", at("in/old"), *reshard]], hf=False),
        *(Writer(f"{source} to {to}",
                 [*command, "--as", to, "--threads", "1", "--output",
                  at("out/tree")], "tree", once=True)
          for to in ("orbax", "dcp")
          for source, command in (
              ("merge", ["checkpoint", "merge", at("in/set")]),
              ("reshard", ["checkpoint", "reshard", at("in/orbax"), "--plan",
                           at("in/other.json")]))),
        *(one for to, command in rank_commands(at).items()
          if to.startswith(("orbax", "dcp")) for one in (
              Writer(f"{to} by processes", process(command, 1), "tree",
                     [process(command, 0)], once=True),
              Writer(f"finalize {to}", [*command, "--finalize"], "tree",
                     [process(command, 0), process(command, 1)], once=True))),
        Writer("finalize a reshard", [*resharded(at), "--finalize"], "set",
               [process(resharded(at), 0), process(resharded(at), 1)],
               hf=False),
    ]


def resharded(at):
    return ["checkpoint", "reshard", at("in/set"), "--plan", at("in/other.json"), "--output",
            at("out/set"), "--threads", "1", "--no-sync"]


def rank_commands(at):
    """Commands that several processes share, by format and source."""
    out = {f"{to} of {source}": [*command, "--as", to, "--threads", "1",
                                 "--output", at("out/tree")]
           for to in ("orbax", "dcp")
           for source, command in (
               ("merge", ["checkpoint", "merge", at("in/set")]),
               ("reshard", ["checkpoint", "reshard", at("in/orbax"), "--plan",
                            at("in/other.json")]))}
    out["safetensors of merge"] = [
        "checkpoint", "merge", at("in/set"), "--as", "safetensors", "--output",
        at("out/parts"), "--max-shard-size", "100B", "--threads", "1",
        "--no-sync"]
    out["safetensors of reshard"] = resharded(at)
    return out


def readers(at, folder):
    """Name, arguments; each may write below out/read, which is compared."""
    place = at("out/" + folder)
    mesh = ["--mesh", at("in/mesh.yaml")]
    inputs = ["--no-project", "--threads", "1", *mesh, "--rules",
              at("in/rules.yaml"), "--manifest", place]
    result = ["--threads", "1", "--no-sync", "--output", at("out/read/made")]
    out = [
        ("manifest", ["show", "manifest", "--manifest", place, "--format", "json"]),
        ("check", ["check", *inputs, "--format", "json", "--fail-on",
                   "never"]),
        ("plan", ["plan", *inputs]),
        ("diff", ["diff", at("in/full.json"), *inputs]),
        ("suggest", ["suggest", "--force", *mesh, "--manifest", place]),
        ("init", ["init", place, *mesh, "--folder",
                  at("out/read/project")]),
        ("split", ["checkpoint", "split", "--plan", at("in/plan.json"), "--checkpoint",
                   place, *result]),
        ("merge", ["checkpoint", "merge", place, *result[:-1],
                   at("out/read/made.safetensors")]),
        ("reshard", ["checkpoint", "reshard", place, "--plan", at("in/other.json"),
                     *result]),
    ]
    for name in (INDEX, "model.safetensors"):
        out.append((f"manifest of {name}",
                    ["show", "manifest", "--manifest", os.path.join(place, name),
                     "--format", "json"]))
    return out


class Trial:
    def __init__(self, bench, chance):
        self.bench = bench
        self.chance = chance
        self.kills = self.faults = self.races = 0
        self.reads = self.refused = 0
        self.failed = []

    def read(self, args):
        """Status, what was printed and what was written; the message."""
        made = self.bench.at("out/read")  # init needs a folder that exists
        shutil.rmtree(made, ignore_errors=True)
        os.makedirs(os.path.join(made, "project"))
        done = self.bench.run(args)
        result = (done.returncode, done.stdout, contents(made))
        shutil.rmtree(made)
        return result, done.stderr

    def states(self, writer):
        """The folder before and after, and what every reader returns."""
        bench = self.bench
        bench.clear()
        for command in writer.before:
            bench.good(*command)
        for name in writer.without:
            os.unlink(bench.at(f"out/{writer.folder}/{name}"))
        self.before = contents(bench.at("out"))
        self.valid = [{}, {}]
        for state in (0, 1):
            if state == 1:
                bench.good(*writer.args)
                self.after = contents(bench.at("out"))
            for name, args in readers(bench.at, writer.folder):
                self.valid[state][name], _ = self.read(args)
        # A part of a set by processes that is not the last completes nothing.
        done = writer.folder in self.after and (writer.once or not any(
            name.startswith(".") for name in self.after[writer.folder]))
        expected = {"merge", "reshard"}
        if writer.hf:
            expected |= {"manifest", "check", "plan", "diff", "suggest",
                         "init", "split"}
        read = {name for name, (status, _, _) in self.valid[1].items()
                if status in (0, 1) and " " not in name}
        require(not done or read == expected, f"{read} can read it")

    def judge(self, writer, what):
        try:
            for name, args in readers(self.bench.at, writer.folder):
                result, message = self.read(args)
                self.reads += 1
                if result in (self.valid[0][name], self.valid[1][name]):
                    continue
                require(result[0] == 2 and b"error" in message,
                        f"{name} returns neither set: {result[0]} "
                        f"{result[1][:300]!r} {message[-300:]!r}")
                require(result[2] == {"project": {}},
                        f"{name} has left {result[2]}")
                self.refused += 1
            if writer.once:
                self.judge_unfinished(writer)
            if (writer.once and writer.folder
                    in contents(self.bench.at("out"))):
                # It is never replaced, and running again is an error, unless
                # only the removal of journals was left to do.
                same = contents(self.bench.at("out")) == self.after
                done = self.bench.run(writer.args)
                require(done.returncode == (2 if same else 0),
                        f"run again, status {done.returncode}")
                require(contents(self.bench.at("out")) == self.after,
                        "run again, other files")
                return
            self.bench.good(*writer.args)
            require(contents(self.bench.at("out")) == self.after,
                    "run again, other files")
        except Fault as fault:
            here = contents(self.bench.at("out")).get(writer.folder) or {}
            self.failed.append(f"{writer.name}: {what}: {fault}; "
                               f"{sorted(here)}")
            print(self.failed[-1], flush=True)

    def judge_unfinished(self, writer):
        """What is left under another name is refused, or has every tensor."""
        out = self.bench.at("out")
        for name in os.listdir(out):
            if name == writer.folder:
                continue
            result, message = self.read(
                ["checkpoint", "merge", os.path.join(out, name), "--threads", "1",
                 "--no-sync", "--output",
                 self.bench.at("out/read/made.safetensors")])
            self.reads += 1
            if result == self.valid[1]["merge"]:
                continue
            require(result[0] == 2 and b"error" in message
                    and result[2] == {"project": {}},
                    f"{name} is read: {result[0]} {message[-300:]!r}")
            self.refused += 1

    def run_with(self, writer, call, how, n):
        self.bench.put(self.before)
        report = self.bench.at("report")
        if os.path.exists(report):
            os.unlink(report)
        done = self.bench.run(writer.args, {
            "LD_PRELOAD": LIBRARY, "FAULT_CALL": call, "FAULT_FROM": str(n),
            "FAULT_EVERY": "0", "FAULT_HOW": how, "FAULT_REPORT": report})
        return done, os.path.exists(report)

    def count_calls(self, writer, call, how):
        """How many calls there are: the last n that is reached."""
        low, high = 0, 1
        while self.run_with(writer, call, how, high)[1]:
            low, high = high, 2 * high
        while high - low > 1:
            middle = (low + high) // 2
            if self.run_with(writer, call, how, middle)[1]:
                low = middle
            else:
                high = middle
        return low

    def instants(self, calls, count):
        """Half of them of the last third, in which files get their names."""
        late = range(calls - calls // 3 + 1, calls + 1)
        chosen = set(self.chance.sample(late, min(count // 2, len(late))))
        rest = [n for n in range(1, calls + 1) if n not in chosen]
        chosen.update(self.chance.sample(
            rest, min(count - len(chosen), len(rest))))
        return sorted(chosen)

    def kill(self, writer, count):
        calls = self.count_calls(writer, "any", "kill")
        chosen = self.instants(calls, count)
        for n in chosen:
            done, _ = self.run_with(writer, "any", "kill", n)
            self.kills += done.returncode == -9
            self.judge(writer, f"killed at call {n} of {calls}")
        start = time.monotonic()
        self.bench.put(self.before)
        self.bench.good(*writer.args)
        whole = time.monotonic() - start
        for _ in range(count - len(chosen)):
            self.bench.put(self.before)
            moment = self.chance.uniform(0, whole)
            run = subprocess.Popen([BIN, *writer.args],
                                   stdin=subprocess.DEVNULL,
                                   stdout=subprocess.DEVNULL,
                                   stderr=subprocess.DEVNULL,
                                   env=self.bench.env)
            time.sleep(moment)
            run.kill()
            run.wait()
            self.kills += 1
            self.judge(writer, f"killed after {moment * 1000:.2f} ms")

    def fail(self, writer, count):
        picks = self.chance.sample(FAULTS, min(count, len(FAULTS)))
        while len(picks) < count:
            picks.append(self.chance.choice(FAULTS))
        for call, how in picks:
            number = str(getattr(errno, how))
            calls = self.count_calls(writer, call, number)
            if calls == 0:
                continue
            n = self.chance.randrange(calls) + 1
            self.run_with(writer, call, number, n)
            self.faults += 1
            self.judge(writer, f"{call} {n} of {calls} fails with {how}")


    def ranks(self, name, command, count):
        """Two processes and --finalize, some of which are killed at a random
        moment, then all again: what a run without kills writes."""
        def started(*extra):
            return subprocess.Popen(
                [BIN, *command, *extra], stdin=subprocess.DEVNULL,
                stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
                env=self.bench.env)

        def all_steps():
            both = [started("--process-index", str(i), "--process-count", "2")
                    for i in (0, 1)]
            statuses = [run.wait() for run in both]
            return [*statuses, started("--finalize").wait()]

        place = command[command.index("--output") + 1]
        reader = ["checkpoint", "merge", place, "--threads", "1", "--no-sync", "--output",
                  self.bench.at("out/read/made.safetensors")]
        self.bench.clear()
        start = time.monotonic()
        require(all_steps() == [0, 0, 0], f"{name} by two processes")
        whole = time.monotonic() - start
        complete = contents(self.bench.at("out"))
        new, _ = self.read(reader)
        require(new[0] == 0, f"what {name} writes is not read")
        for i in range(count):
            kind = ("one rank", "all ranks", "finalize",
                    "finalize before the end")[i % 4]
            self.bench.clear()
            try:
                both = [started("--process-index", str(i), "--process-count",
                                "2") for i in (0, 1)]
                if kind == "finalize":
                    for run in both:
                        run.wait()
                    both = [started("--finalize")]
                time.sleep(self.chance.uniform(
                    0, whole / 2 if kind == "finalize" else whole))
                if kind == "finalize before the end":
                    started("--finalize").wait()
                else:
                    for run in both[:1] if kind == "one rank" else both:
                        run.kill()
                        self.kills += 1
                for run in both:
                    run.wait()
                result, message = self.read(reader)
                self.reads += 1
                if result != new:
                    require(result[0] == 2 and b"error" in message
                            and result[2] == {"project": {}},
                            f"a part is read: {result[0]} {message[-300:]!r}")
                    self.refused += 1
                all_steps()
                require(contents(self.bench.at("out")) == complete,
                        "run again, other files")
                result, _ = self.read(reader)
                require(result == new, "run again, read otherwise")
            except Fault as fault:
                self.failed.append(f"{name}: {kind}: {fault}")
                print(self.failed[-1], flush=True)

    def race(self, name, new, old, index, seconds):
        """Reads while two sets replace each other; `index` is then removed."""
        place = self.bench.at("out/parts")
        reader = ["checkpoint", "split", "--plan", self.bench.at("in/plan.json"),
                  "--checkpoint", place, "--threads", "1", "--no-sync",
                  "--output", self.bench.at("out/read/made")]
        self.bench.clear()
        valid = []
        for command in (new, old):
            self.bench.good(*command)
            valid.append(self.read(reader)[0][2])
        require(valid[0] != valid[1], "two sets of the same tensors")
        ended = threading.Event()

        def write():
            while not ended.is_set():
                for command in (new, old):
                    self.bench.run(command)
                    if index and os.path.exists(f"{place}/{index}"):
                        os.unlink(f"{place}/{index}")

        writer = threading.Thread(target=write)
        writer.start()
        end = time.monotonic() + seconds
        while time.monotonic() < end:
            (status, _, made), message = self.read(reader)
            self.reads += 1
            self.races += 1
            if status == 2 and b"error" in message:
                self.refused += 1
            elif status != 0 or made not in valid:
                self.failed.append(f"{name}: {status}, a mixture is read")
                print(self.failed[-1], flush=True)
        ended.set()
        writer.join()


def main():
    kills = int(os.environ.get("SHARDC_KILLS", "0"))
    only = sys.argv[1:]
    base = "/dev/shm" if os.access("/dev/shm", os.W_OK) else None
    folder = tempfile.mkdtemp(prefix="shardc_sets_", dir=base)
    # The sample is of other instants in every run, and prints its seed.
    seed = int(os.environ.get("SHARDC_SEED", random.randrange(1 << 30)))
    try:
        bench = Bench(folder)
        bench.good("plan", "--no-project", "--mesh", "tp:4", "--rules",
                   bench.at("in/rules.yaml"), "--manifest",
                   bench.at("in/one.safetensors"), "-o",
                   bench.at("in/full.json"))
        trial = Trial(bench, random.Random(seed))
        chosen = [writer for writer in writers(bench.at)
                  if not only or any(word in writer.name for word in only)]
        for writer in chosen:
            trial.states(writer)
            each = -(-kills // len(chosen)) if kills else 2
            trial.kill(writer, each)
            trial.fail(writer, each // 5 if kills else 1)
        for name, command in rank_commands(bench.at).items():
            if not only or any(word in name for word in only):
                trial.ranks(name, command, -(-kills // 25) if kills else 4)
        for writer in chosen:
            if writer.name in ("merge over a set",
                               "merge over a set without index"):
                trial.race(writer.name, writer.args, writer.before[0],
                           next(iter(writer.without), None),
                           30 if kills else 1)
        print(f"{trial.kills} kills, {trial.faults} faults, {trial.reads} "
              f"reads ({trial.races} while sets were replaced), "
              f"{trial.refused} refused, "
              f"{len(trial.failed)} failed (SHARDC_SEED={seed})")
    finally:
        shutil.rmtree(folder, ignore_errors=True)
    return 1 if trial.failed or not trial.reads else 0


if __name__ == "__main__":
    sys.exit(main())
