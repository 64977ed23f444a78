"""Every call to the system fails once, and nothing is lost.

For each command below, for each kind of call and each error that it can have,
the n-th call fails, for n from 1 until the command runs without a fault. Then the
following must hold:

- the command ends by itself, with status 2 and a message that names a file
  (or with 0, if it did not need the call, and then its outputs are complete);
- its inputs are unchanged, each output is the old or the new file, complete, and
  a set of files is marked if it is neither;
- the same command run again makes what it would have made.

    faults_test.py          a sample, in seconds
    faults_test.py --all    each n; prints the counts
"""

import errno
import json
import os
import random
import shutil
import subprocess
import sys
import tempfile
import time

ROOT = os.environ["SHARDC_SOURCE_ROOT"]
sys.path.insert(0, os.path.join(ROOT, "tests", "cli"))
from checkpoint_case import (BIN, clean_env, make_plan,  # noqa: E402
                             write_safetensors)
from driver import INTERNAL  # noqa: E402

LIBRARY = os.environ["SHARDC_FAULTS"]

# What each call can say, as its manual page has it; `short` is half of a
# transfer, `+` all calls from the n-th on, as on a disk that is full.
ERRORS = {
    "open": ["EACCES", "EMFILE", "ENFILE", "ENOSPC", "EINTR", "EIO", "ENOMEM"],
    "read": ["EIO", "EINTR", "EAGAIN", "short", "short+"],
    "pread": ["EIO", "EINTR", "short", "short+"],
    "write": ["ENOSPC", "ENOSPC+", "EIO", "EDQUOT", "EINTR", "EPIPE", "short",
              "short+"],
    "pwrite": ["ENOSPC", "ENOSPC+", "EIO", "EDQUOT", "EINTR", "short",
               "short+"],
    "fsync": ["EIO", "ENOSPC"],
    "rename": ["EIO", "EACCES", "ENOSPC"],
    "link": ["EPERM", "ENOSPC", "EXDEV"],
    "ftruncate": ["ENOSPC", "EIO", "EFBIG"],
    "close": ["EIO", "EINTR", "ENOSPC"],
    "opendir": ["EACCES", "EMFILE", "ENOMEM"],
    "mkdir": ["EACCES", "ENOSPC"],
    "mmap": ["ENOMEM"],
    "thread": ["EAGAIN", "EAGAIN+"],
    "malloc": ["ENOMEM", "ENOMEM+"],
}
# About one in so many of these, of which there are many or few.
SAMPLED = {"malloc": 400, "thread": 1, "link": 1, "mkdir": 1, "rename": 2,
           "fsync": 2, "ftruncate": 2}
# Faults that a command handles by itself: it prints nothing and succeeds.
SILENT = {"short", "short+", "EINTR", "EAGAIN", "EAGAIN+"}


def tensors(seed):
    data = random.Random(seed)
    return {"a.w": ("F32", [8, 16], data.randbytes(512)),
            "a.norm": ("F32", [16], data.randbytes(64)),
            "b.w": ("BF16", [4, 8], data.randbytes(64))}


def params(axis):
    return {"a.w": ([8, 16], [axis]), "a.norm": ([16], []),
            "b.w": ([4, 8], [None, axis])}


class Case:
    """A command over files of its own; `out` is what it writes."""

    def __init__(self, name, *args, out, before=None, index=None,
                 reports=False, once=False):
        self.name = name
        self.args = args
        self.out = out
        self.before = before  # a command that makes what stood there
        self.index = index  # of a set of files
        self.reports = reports  # reading errors are its result, in JSON
        self.once = once  # a result that exists is not replaced


def cases(at):
    inputs = ["--no-project", "--mesh", at("in/mesh.yaml"), "--rules",
              at("in/rules.yaml"), "--manifest", at("in/one.safetensors")]
    split = ["checkpoint", "split", "--plan", at("in/plan.json"), "--output",
             at("out/set")]
    alone = ["--threads", "1"]
    one = ["--checkpoint", at("in/one.safetensors")]
    two = ["--checkpoint", at("in/two.safetensors"), *alone]
    merge = ["checkpoint", "merge", at("in/set"), "--threads", "1", "--output"]
    whole = at("out/whole.safetensors")
    parts = at("out/parts")
    many = [parts, "--max-shard-size", "600B"]
    old = ["checkpoint", "merge", at("in/old"), "--threads", "1", "--output"]
    hf = "model.safetensors.index.json"
    reshard = ["checkpoint", "reshard", at("in/set"), "--threads", "1", "--plan",
               at("in/other.json"), "--output", at("out/set")]
    plan = ["plan", "--threads", "1", *inputs]
    tree = ["--output", at("out/tree"), "--threads", "1"]
    place = ["--plan", at("in/other.json"), *tree]
    return [
        Case("plan to standard output", *plan, out=None),
        Case("plan to a new file", *plan, "-o", at("out/p.json"),
             out="p.json"),
        Case("plan over a plan", *plan, "-o", at("out/p.json"), out="p.json",
             before=[*plan, "--modes", "train", "-o", at("out/p.json")]),
        Case("check", "check", "--threads", "1", *inputs, "--format", "json",
             "--fail-on", "never", "-o", at("out/c.json"), out="c.json",
             reports=True),
        Case("import", "import", "eformer", at("in/eformer.json"), "-o",
             at("out/r.yaml"), out="r.yaml"),
        Case("split", *split, *one, *alone, out="set", index="shards.json"),
        Case("split over a set", *split, *one, *alone, out="set",
             index="shards.json", before=[*split, *two]),
        Case("split by threads", *split, *one, "--threads", "4", out="set",
             index="shards.json"),
        Case("split into a set's files", *split, *one, *alone, "--reuse",
             out="set",
             index="shards.json", before=[*split, *two]),
        Case("merge", *merge, whole, out="whole.safetensors"),
        Case("merge over a file", *merge, whole, out="whole.safetensors",
             before=[*old, whole]),
        Case("merge to several files", *merge, *many, out="parts", index=hf),
        Case("merge over several files", *merge, *many, out="parts", index=hf,
             before=[*old, *many]),
        Case("reshard", *reshard, out="set", index="shards.json"),
        Case("reshard over a set", *reshard, out="set", index="shards.json",
             before=["checkpoint", "reshard", at("in/old"), *reshard[3:]]),
        Case("merge to orbax", "checkpoint", "merge", at("in/set"), "--as", "orbax", *tree,
             out="tree", once=True),
        Case("merge to dcp", "checkpoint", "merge", at("in/set"), "--as", "dcp", *tree,
             out="tree", once=True),
        Case("reshard orbax to dcp", "checkpoint", "reshard", at("in/orbax"), "--as", "dcp",
             *place, out="tree", once=True),
        Case("reshard dcp to orbax", "checkpoint", "reshard", at("in/dcp"), "--as", "orbax",
             *place[:-1], "4", out="tree", once=True),
        Case("merge an orbax checkpoint", "checkpoint", "merge", at("in/orbax"), "--threads",
             "1", "--output", whole, out="whole.safetensors"),
        Case("split a dcp checkpoint", *split, "--checkpoint", at("in/dcp"),
             *alone, out="set", index="shards.json"),
    ]


class Fault(Exception):
    """What does not hold."""


def require(good, why):
    if not good:
        raise Fault(why)


def contents(path):
    """Bytes of a file or of all files below a folder, by name."""
    if os.path.isfile(path):
        with open(path, "rb") as file:
            return file.read()
    if not os.path.isdir(path):
        return None
    return {name: contents(os.path.join(path, name))
            for name in sorted(os.listdir(path))}


class Bench:
    """The folder of one case, set back before each run."""

    def __init__(self, folder):
        self.folder = folder
        os.makedirs(self.at("in"))
        os.makedirs(self.at("out"))
        self.env = {**clean_env(), "LC_ALL": "C.UTF-8"}
        write_safetensors(self.at("in/one.safetensors"), tensors(1))
        write_safetensors(self.at("in/two.safetensors"), tensors(2))
        for name, axes in (("plan", [("tp", 2)]), ("other", [("tp", 4)])):
            self.write(f"in/{name}.json", json.dumps(make_plan(
                axes, params("tp"))))
        self.write("in/mesh.yaml", "axes: {tp: 2}\n")
        self.write("in/rules.yaml", "version: 1\nrules:\n"
                   "  - {match: 'a.w$', spec: [TP]}\n"
                   "  - {match: '.*', spec: []}\n")
        self.write("in/eformer.json", '{"batch_axis": "dp"}')
        for out, source in (("in/set", "one"), ("in/old", "two")):
            self.good("checkpoint", "split", "--plan", self.at("in/plan.json"), "--output",
                      self.at(out), "--checkpoint",
                      self.at(f"in/{source}.safetensors"))
        for form in ("orbax", "dcp"):
            self.good("checkpoint", "merge", self.at("in/set"), "--as", form, "--output",
                      self.at("in/" + form))
        self.inputs = contents(self.at("in"))

    def at(self, name):
        return os.path.join(self.folder, name)

    def write(self, name, text):
        with open(self.at(name), "w", encoding="utf-8") as file:
            file.write(text)

    def run(self, args, env=None):
        return subprocess.run([BIN, *args], stdin=subprocess.DEVNULL,
                              capture_output=True, timeout=60,
                              env={**self.env, **(env or {})})

    def good(self, *args):
        done = self.run(args)
        require(done.returncode == 0,
                f"{args}: {done.returncode}: {done.stderr!r}")
        return done

    def clear(self):
        shutil.rmtree(self.at("out"), ignore_errors=True)
        os.makedirs(self.at("out"))

    def put(self, made):
        """What `contents` gave, back under `out`."""
        self.clear()
        self.put_at(self.at("out"), made)

    def put_at(self, path, made):
        if isinstance(made, bytes):
            with open(path, "wb") as file:
                file.write(made)
            return
        os.makedirs(path, exist_ok=True)
        for name, inner in made.items():
            self.put_at(os.path.join(path, name), inner)

    # Returns the contents of `out` before and after, and standard output.
    def prepare(self, case):
        self.clear()
        if case.before:
            self.good(*case.before)
        before = contents(self.at("out"))
        said = self.good(*case.args).stdout
        return before, contents(self.at("out")), said


def is_hidden(name):
    """What a killed run may leave, which no reader takes for a result."""
    return name.startswith(".") or "-tmp-shardc" in name


def check_output(case, before, wanted, now, orderly):
    """The output is the old or the new one, or is marked as neither."""
    if case.out is None:
        require(now == before, "a file appeared")
        return
    for name in now:
        require(name == case.out or not orderly and is_hidden(name),
                f"{name} is left")
    old, new, here = (made.get(case.out) for made in (before, wanted, now))
    if case.index is None:
        told = case.reports and here and all(
            finding["level"] == "error"
            for finding in json.loads(here))
        require(here in (old, new) or told,
                f"{case.out} is neither old nor new")
        return
    if here is None:
        require(old is None, "the old set is gone")
        return
    shown = {name: made for name, made in here.items() if not is_hidden(name)}
    index = shown.get(case.index)
    # Where only the index is wanting, the record of the rest helps to write it.
    complete = {**shown, case.index: new[case.index]} == new
    hidden = [name for name in here if is_hidden(name)
              and not (complete and name.endswith(".journal"))]
    require(not orderly or not hidden, f"{hidden} are left")
    if index is None:
        require(old is None, "the old set's index is gone")
        # Files without an index are no set; whole ones they must be.
        for name, made in shown.items():
            require(made == new[name], f"{name} is not whole")
    elif b"shardc.unfinished/v1" in index:
        require(old is not None, "unfinished where nothing was")
    else:
        require(shown in (old, new), "an index over files that are not its")


class Hunt:
    def __init__(self, bench, every):
        self.bench = bench
        self.every = every  # about one n in so many
        self.chance = random.Random(7)
        self.counts = {}
        self.failed = []

    def environment(self, call, how, n):
        report = self.bench.at("report")
        if os.path.exists(report):
            os.unlink(report)
        every = "1" if how.endswith("+") else "0"
        number = how.rstrip("+")
        if number not in ("short", "kill"):
            number = str(getattr(errno, number))
        return {"LD_PRELOAD": LIBRARY, "FAULT_CALL": call,
                "FAULT_FROM": str(n), "FAULT_EVERY": every,
                "FAULT_HOW": number, "FAULT_REPORT": report}

    def check(self, case, call, how, made, done):
        before, wanted, said = made
        text = done.stderr.decode("utf-8", "replace")
        require(done.returncode in (0, 2),
                f"ended with {done.returncode}: {text[-400:]}")
        require(contents(self.bench.at("in")) == self.bench.inputs,
                "an input has changed")
        now = contents(self.bench.at("out"))
        if done.returncode == 0:
            require(now == wanted, "done, with other outputs")
            # A reader that left early has what it wanted.
            require(done.stdout == said or how == "EPIPE" or case.out,
                    "done, with another result")
            return
        require(how not in SILENT, f"{how} is no error: {text[-300:]}")
        # For want of memory a run ends at once, as if it were killed.
        orderly = call not in ("malloc", "mmap") and how != "ENOMEM"
        check_output(case, before, wanted, now, orderly)
        require(not INTERNAL.search(text), f"internal words: {text[-300:]}")
        if case.reports and case.out in now:
            text += now[case.out].decode()
        require("error" in text, f"no message: {text!r}")
        require(self.bench.folder in text or "standard output" in text or
                "out of memory" in text, f"names no file: {text[-300:]}")

    def rerun(self, case, made):
        _, wanted, _ = made
        if case.once and contents(self.bench.at("out")) == wanted:
            return
        self.bench.good(*case.args)
        require(contents(self.bench.at("out")) == wanted,
                "run again, other outputs")

    def one(self, case, call, how, n, made):
        """Whether the call was reached."""
        self.bench.put(made[0])
        done = self.bench.run(case.args, self.environment(call, how, n))
        if not os.path.exists(self.bench.at("report")):
            return False
        self.counts[call] = self.counts.get(call, 0) + 1
        try:
            self.check(case, call, how, made, done)
            self.rerun(case, made)
        except Fault as fault:
            self.failed.append(f"{case.name}: {call} {n}, {how}: {fault}")
            print(self.failed[-1], flush=True)
        return True

    def next(self, call, n):
        if self.every == 1:
            # By hand too the many calls for memory are gone through in steps.
            return n + 1 if call != "malloc" or n < 200 else n + n // 40
        every = SAMPLED.get(call, self.every)
        return n + 1 + self.chance.randrange(2 * every)

    def all_of(self, case, calls):
        made = self.bench.prepare(case)
        for call in calls:
            for how in ERRORS[call]:
                n = 1 if self.every == 1 else 1 + self.chance.randrange(
                    SAMPLED.get(call, self.every))
                while self.one(case, call, how, n, made):
                    n = self.next(call, n)


def kills(bench, hunt, case, every, timed):
    """SIGKILL at each call, and at `timed` instants by the clock."""
    made = bench.prepare(case)
    before, wanted, _ = made
    seen = 0

    def judge(what):
        nonlocal seen
        seen += 1
        try:
            require(contents(bench.at("in")) == bench.inputs,
                    "an input has changed")
            check_output(case, before, wanted, contents(bench.at("out")),
                         False)
            hunt.rerun(case, made)
        except Fault as fault:
            hunt.failed.append(f"{case.name}: killed at {what}: {fault}")
            print(hunt.failed[-1], flush=True)

    n = 1 + hunt.chance.randrange(every)
    while True:
        bench.put(before)
        done = bench.run(case.args, hunt.environment("any", "kill", n))
        if done.returncode != -9:
            break
        judge(f"call {n}")
        n += 1 + (hunt.chance.randrange(2 * every) if every > 1 else 0)
    bench.put(before)
    start = time.monotonic()
    bench.good(*case.args)
    whole = time.monotonic() - start
    for _ in range(timed):
        bench.put(before)
        moment = hunt.chance.uniform(0, 1.1 * whole)
        run = subprocess.Popen([BIN, *case.args], stdin=subprocess.DEVNULL,
                               stdout=subprocess.DEVNULL,
                               stderr=subprocess.DEVNULL, env=bench.env)
        time.sleep(moment)
        run.kill()
        run.wait()
        judge(f"{moment * 1000:.2f} ms")
    return seen


def main():
    whole = "--all" in sys.argv[1:]
    only = [word for word in sys.argv[1:] if not word.startswith("-")]
    base = "/dev/shm" if os.access("/dev/shm", os.W_OK) else None
    folder = tempfile.mkdtemp(prefix="shardc_faults_", dir=base)
    try:
        bench = Bench(folder)
        hunt = Hunt(bench, 1 if whole else 12)
        killed = 0
        for case in cases(bench.at):
            if only and not any(word in case.name for word in only):
                continue
            calls = list(ERRORS)
            if not whole:
                # Each run of the tests takes another part by the case's name.
                calls = [call for call in calls if call != "malloc"] + ["malloc"]
            hunt.all_of(case, calls)
            if case.index or case.once or case.out == "whole.safetensors":
                killed += kills(bench, hunt, case, 1 if whole else 8,
                                60 if whole else 2)
        counts = ", ".join(f"{call} {count}"
                           for call, count in sorted(hunt.counts.items()))
        print(f"{sum(hunt.counts.values())} faults ({counts}), {killed} kills, "
              f"{len(hunt.failed)} failed")
    finally:
        shutil.rmtree(folder, ignore_errors=True)
    return 1 if hunt.failed or not hunt.counts else 0


if __name__ == "__main__":
    sys.exit(main())
