"""What is reported when a call to the system fails, or when another process
changes or locks a file during a run.

A row is a message, the command that has to report it, the kind of call that
fails, and how (tests/faults/faults.cc). Each call of that kind fails in a run of
its own, from the first on, until a run reports the message. That nothing is lost
then is tested in faults_test.py.
"""

import concurrent.futures
import errno
import fcntl
import os
import random
import shutil
import sys
import tempfile
import unittest

ROOT = os.environ["SHARDC_SOURCE_ROOT"]
sys.path.insert(0, os.path.join(ROOT, "tests", "cli"))
from checkpoint_case import make_plan, write_safetensors  # noqa: E402
from driver import Case, run  # noqa: E402
from gguf_test import gguf  # noqa: E402
from refused_documents import INPUTS  # noqa: E402
from stored_samples import SAMPLES  # noqa: E402
from tree_writer import VALUES, plain, put  # noqa: E402

LIBRARY = os.environ["SHARDC_FAULTS"]
MOST_CALLS = 300
F32 = {"x": ("F32", [4, 2], VALUES), "y": ("F32", [4, 2], VALUES)}
UNFINISHED = b'{"schema": "shardc.unfinished/v1"}'


def inputs(folder):
    for name, text in INPUTS.items():
        put(folder, name, text.encode())


def one_file(folder):
    """A safetensors file and a plan for it."""
    write_safetensors(folder + "/m.safetensors", F32)
    for name, axes in (("p", [("tp", 2)]), ("q", [("tp", 4)])):
        put(folder, name + ".json", make_plan(axes, {
            n: ([4, 2], {"spec": ["tp"], "dtype": "F32"}) for n in F32}))


def large(folder):
    """A tensor that is too large to be stored in a node of a database, and
    that is hardly compressed."""
    write_safetensors(folder + "/m.safetensors", {
        "x": ("F32", [4096, 2], random.Random(1).randbytes(1 << 15))})


SPLIT = "checkpoint split --plan p.json --checkpoint m.safetensors --threads 1 --output "


def pieces(folder):
    """The same file split into the folder `d`."""
    one_file(folder)
    assert run(*(SPLIT + "d").split(), cwd=folder).rc == 0
    put(folder, "d/shards.json.new", UNFINISHED)


def a_set(folder):
    """Two safetensors files with an index, in the folder `d`."""
    for i, name in enumerate(F32):
        os.makedirs(folder + "/d", exist_ok=True)
        write_safetensors(folder + f"/d/{i}.safetensors", {name: F32[name]})
    put(folder, "d/model.safetensors.index.json", {"weight_map": {
        name: f"{i}.safetensors" for i, name in enumerate(F32)}})
    put(folder, "d/model.safetensors.index.json.new", UNFINISHED)


def two_gguf(folder):
    for i in range(2):
        put(folder, f"m-0000{i + 1}-of-00002.gguf",
            gguf({f"a{i}": ([32], 0)}, split=(i, 2, 2)))


def at_d(build):
    return lambda folder: (one_file(folder), build(folder + "/d"))


MERGE = "checkpoint merge d --threads 1 --output o.safetensors"
ROWS = [
    ("cannot write in", SPLIT + "o", "open", "EACCES", one_file),
    ("cannot list", SPLIT + "o", "opendir", "EACCES", one_file),
    ("cannot list", "show manifest --manifest m-00001-of-00002.gguf", "opendir",
     "EACCES", two_gguf),
    ("cannot list", "show manifest --manifest d", "opendir", "EACCES", a_set),
    ("cannot list `d", MERGE, "opendir", "EACCES", at_d(plain)),
    ("cannot list it:", MERGE, "opendir", "EACCES", lambda folder:
     shutil.copytree(os.path.join(SAMPLES, "ts_numbered"), folder + "/d")),
    ("the folder cannot be read", "diff d p.json", "opendir", "EACCES",
     at_d(plain)),
    ("cannot write the journal in", SPLIT + "o", "write", "ENOSPC", one_file),
    ("differs from what was written to it", SPLIT + "o --verify", "pwrite",
     "flip", one_file),
    ("differs from what was written to it",
     "checkpoint merge m.safetensors --as orbax --threads 1 --verify --output o",
     "pwrite,write", "flip", large),
    ("changed while it was read", SPLIT + "o", "pread", "grow m.safetensors",
     one_file),
    (", so it was truncated after it was opened", SPLIT + "o", "pread",
     "cut m.safetensors", one_file),
    ("are needed, and the file ends at byte", MERGE, "any", "cut d/x/0.0",
     at_d(plain)),
    ("`d/shards.json` has changed while it was read", MERGE, "any",
     "swap d/shards.json", pieces),
    ("has changed while its set was read", "show manifest --manifest d", "any",
     "swap d/model.safetensors.index.json", a_set),
    ("has changed while its set was read", "show manifest --manifest d", "any",
     "grow d/model.safetensors.index.json", a_set),
    ("the client does not read the output", "lsp < in", "write", "EPIPE",
     lambda folder: put(folder, "in", (
         lambda text: f"Content-Length: {len(text)}\r\n\r\n{text}")(
             '{"jsonrpc": "2.0", "id": 1, "method": "initialize", "params": '
             '{"capabilities": {}}}').encode())),
    ("standard output cannot be written:",
     "plan --mesh tp:2 --rules r.yaml --manifest m.json", "write", "ENOSPC",
     inputs),
]


def faulty(folder, command, call, how, number):
    """A run whose call with that number fails, and whether it made the call."""
    report = os.path.join(folder, "report")
    how, _, file = how.partition(" ")
    env = {"LD_PRELOAD": LIBRARY, "FAULT_CALL": call, "FAULT_REPORT": report,
           "FAULT_FROM": str(number), "FAULT_EVERY": "0",
           "FAULT_FILE": os.path.join(folder, file),
           "FAULT_HOW": str(getattr(errno, how, how))}
    command, _, given = command.partition(" < ")
    text = ""
    if given:
        with open(os.path.join(folder, given), encoding="utf-8",
                  newline="") as stream:
            text = stream.read()
    done = run(*command.split(), cwd=folder, env=env, stdin=text, timeout=60)
    return done, os.path.exists(report)


def messages(row):
    """What the runs of a row reported, up to the first with its message."""
    message, command, call, how, build = row
    seen = []
    for number in range(1, MOST_CALLS):
        with tempfile.TemporaryDirectory() as folder:
            build(folder)
            done, reached = faulty(folder, command, call, how, number)
        if message in done.err:
            return done.rc, seen
        seen.append(done.err)
        if not reached:
            break
    return None, seen


class Refusals(Case):
    def setUp(self):
        made = tempfile.TemporaryDirectory()
        self.addCleanup(made.cleanup)
        self.folder = made.name

    def test_every_row(self):
        with concurrent.futures.ThreadPoolExecutor(os.cpu_count()) as pool:
            found = pool.map(messages, ROWS)
            for row, (rc, seen) in zip(ROWS, found):
                with self.subTest(row[0], command=row[1]):
                    self.assertEqual(rc, 2, "\n".join(sorted(set(seen))))

    def journal(self, command, out):
        """The journal that a run leaves when it is killed, the first time that
        it leaves one."""
        for number in range(1, MOST_CALLS):
            shutil.rmtree(self.folder)
            os.makedirs(self.folder)
            one_file(self.folder)
            faulty(self.folder, command, "any", "kill", number)
            for folder, _, names in os.walk(self.folder):
                for name in names:
                    path = os.path.join(folder, name)
                    if out in path and "journal" in name and \
                            os.path.getsize(path) > 0:
                        return path
        self.fail("no run left a journal")

    def test_a_journal_that_another_run_has_locked(self):
        command = "checkpoint merge m.safetensors --as orbax --threads 1 --output o"
        path = self.journal(command, "o.")
        with open(path, "rb+") as held:
            fcntl.flock(held, fcntl.LOCK_EX)
            for more, message in (
                    (("--process-index", "0", "--process-count", "2"),
                     "a run with other options or another number of processes "
                     "is writing"),
                    ((), "another run has locked")):
                done = run(*command.split(), *more, cwd=self.folder,
                           timeout=60)
                self.check(done, 2)
                self.assertIn(message, done.err)


if __name__ == "__main__":
    os.makedirs("/tmp", exist_ok=True)
    unittest.main()
