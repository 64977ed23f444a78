"""The files that the Python package writes and reads.

Writers: a file is the old one or all of the new one, whatever call to the system is
the last one of a run, and where the disk is full. Each writer is killed before, after
and in the middle of its calls, and by the clock.

Readers: files that were changed with their structure in mind (members of JSON, words of
Python, lines of a graph, bytes of what is compressed) give a result, or one message and
status 2: no traceback, at most 500 MB and 10 s of processor time.

    SHARDC_PACKAGE_KILLS=2000 SHARDC_PACKAGE_MUTANTS=50000 files_test.py

prints the counts; without these, a sample runs."""

import contextlib
import copy
import gzip
import io
import json
import os
import random
import re
import resource
import signal
import subprocess
import sys
import tempfile
import time
import unittest
from unittest import mock

ROOT = os.environ.get(
    "SHARDC_SOURCE_ROOT",
    os.path.abspath(os.path.join(os.path.dirname(__file__), "..", "..")))
sys.path.insert(0, os.path.join(ROOT, "python"))
# The package must be found first, and no program, so that nothing else is started.
os.environ["SHARDC"] = os.environ.get("SHARDC_BIN", "")

import shardc  # noqa: E402
from shardc import (  # noqa: E402
    audits, files, import_python, manifest, results, torch_programs)
from shardc.plan_data import PlanData  # noqa: E402

KILLS = int(os.environ.get("SHARDC_PACKAGE_KILLS", "120"))
MUTANTS = int(os.environ.get("SHARDC_PACKAGE_MUTANTS", "400"))
SEED = int(os.environ.get("SHARDC_PACKAGE_SEED", "1"))
PACKAGE = os.path.join(ROOT, "python", "shardc")
TRACES = os.path.join(ROOT, "testdata", "audit", "torch")

MODEL = """
class A:
    def __init__(self, *shape):
        self.shape, self.dtype = shape, "float32"
def factory():
    return {"layer%d" % i: {"w": A(8, 8 + i)} for i in range(400)}
"""
RULES = "from jax.sharding import PartitionSpec as P\nR = [\n" + "".join(
    f"    ('layer{i}/w', P('a', None)),\n" for i in range(400)) + "]\n"


def command(main, *arguments):
    """Runs a command of the package in this process; its status."""
    with mock.patch.object(sys, "argv", ["shardc", *arguments]):
        try:
            return files.exit_status(main)
        except SystemExit as end:
            return end.code


# ---- Writers


def write_manifest(to):
    return command(manifest.main, "files_model:factory", "--framework", "none", "-o", to)


def write_rules(to):
    with mock.patch.object(import_python, "check_patterns"):
        return command(import_python.main, "rules.py", "-o", to)


def write_audit(to):
    data = {"collectives": [], "text": "x" * 20000}
    return command(lambda: audits.Audit.save(mock.Mock(data=data), to) or 0)


def write_report(to):
    page = mock.Mock(stdout="<html>" + "y" * 20000)
    with mock.patch.object(results, "run", return_value=page):
        plan = mock.Mock(spec=PlanData, data={})
        return command(lambda: results.report(plan, to) and 0)


def write_program(to):
    from shardc import program  # needs numpy

    made = {"values": [{"shape": [i]} for i in range(2000)], "inputs": [], "ops": []}
    return command(lambda: program.write(made, to) or 0)


def write_packed(to):
    data = gzip.compress(os.urandom(30000), mtime=0)
    return command(lambda: files.write(to, data) or 0)


WRITERS = [write_manifest, write_rules, write_audit, write_report, write_packed]
with contextlib.suppress(ImportError):
    import numpy  # noqa: F401

    WRITERS.append(write_program)


def write_set(to):
    """As `python -m shardc.rules -o RULES --mesh-out MESH`."""
    new = [("mesh.yaml", "axes: {new: 2}\n" * 900), (to, "rules: new\n" * 900)]
    return command(lambda: files.write_set(new) or 0)


CALLS = ("open", "write", "fsync", "link", "replace", "unlink", "close", "fchmod")


def run_killed(writer, to, call, when, nameless=True):
    """Runs the writer in a process of its own that is killed at a call of the module
    that writes. Returns whether it got there."""
    child = os.fork()
    if child == 0:
        seen = 0

        def wrapped(name):
            real = getattr(os, name)

            def run(*given, **named):
                nonlocal seen
                seen += 1
                if seen == call and when == "before":
                    os.kill(os.getpid(), signal.SIGKILL)
                if seen == call and when == "half" and name == "write":
                    real(given[0], bytes(given[1][:len(given[1]) // 2]))
                    os.kill(os.getpid(), signal.SIGKILL)
                out = real(*given, **named)
                if seen == call and when != "before":
                    os.kill(os.getpid(), signal.SIGKILL)
                return out

            return run

        fake = mock.Mock(wraps=os)
        for name in dir(os):
            if not name.startswith("__"):
                setattr(fake, name, getattr(os, name))
        for name in CALLS:
            setattr(fake, name, wrapped(name))
        if not nameless:
            del fake.O_TMPFILE
        devnull = os.open(os.devnull, os.O_WRONLY)
        os.dup2(devnull, 1)
        os.dup2(devnull, 2)
        with mock.patch.object(files, "os", fake):
            try:
                writer(to)
            finally:
                os._exit(0)
    return os.WIFSIGNALED(os.waitpid(child, 0)[1])


def run_full(writer, to, size):
    """Runs the writer where no file may have more bytes; its status."""
    child = os.fork()
    if child == 0:
        status = 99
        with contextlib.suppress(BaseException):
            devnull = os.open(os.devnull, os.O_WRONLY)
            os.dup2(devnull, 2)
            resource.setrlimit(resource.RLIMIT_FSIZE, (size, size))
            status = writer(to)
        os._exit(status)
    return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])


def content(path):
    if not os.path.exists(path):
        return None
    with open(path, "rb") as file:
        return file.read()


class Writers(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.addCleanup(os.chdir, os.getcwd())
        os.chdir(folder.name)
        for name, text in (("files_model.py", MODEL), ("rules.py", RULES)):
            with open(name, "w", encoding="utf-8") as file:
                file.write(text)
        sys.path.insert(0, folder.name)
        self.addCleanup(sys.path.remove, folder.name)
        sys.modules.pop("files_model", None)

    def test_a_killed_run_leaves_the_old_file_or_the_new_one(self):
        rng = random.Random(SEED)
        done = 0
        inputs = set(os.listdir("."))
        new = {}
        # What is packed is other data in each run.
        names = [one for one in WRITERS if one is not write_packed]
        for writer in names:
            self.assertEqual(writer("new"), 0, writer.__name__)
            new[writer] = content("new")
            os.unlink("new")
        while done < KILLS:
            writer = rng.choice(names)
            old = rng.choice([None, b"the old file\n"])
            if old is not None:
                with open("out", "wb") as file:
                    file.write(old)
            nameless = rng.random() < 0.7
            killed = run_killed(writer, "out", rng.randrange(1, 12),
                                rng.choice(["before", "half", "after"]), nameless)
            done += killed
            self.assertIn(content("out"), (old, new[writer]), writer.__name__)
            left = set(os.listdir(".")) - inputs - {"out", "__pycache__"}
            # A next run is not in the way of what is left, and removes the name
            # between the two steps.
            self.assertEqual(writer("out"), 0)
            self.assertEqual(content("out"), new[writer])
            for name in left:
                self.assertRegex(name, r"^\.out\..*\.tmp$")
            self.assertNotIn(".out.new.tmp", os.listdir("."))
            for name in set(os.listdir(".")) - inputs - {"__pycache__"}:
                os.unlink(name)
        if "SHARDC_PACKAGE_KILLS" in os.environ:
            print(f"{done} kills of {len(names)} writers: 0 files lost", file=sys.stderr)

    def test_two_files_are_the_old_ones_the_new_ones_or_marked(self):
        rng = random.Random(SEED)
        states = {}
        done = 0
        while done < KILLS:
            old = rng.random() < 0.8
            for name in ("mesh.yaml", "out"):
                with contextlib.suppress(FileNotFoundError):
                    os.unlink(name)
                if old:
                    with open(name, "w", encoding="utf-8") as file:
                        file.write(f"old {name}\n")
            killed = run_killed(write_set, "out", rng.randrange(1, 26),
                                rng.choice(["before", "half", "after"]),
                                rng.random() < 0.7)
            done += killed
            mesh, rules = content("mesh.yaml"), content("out")
            kinds = tuple(
                "absent" if one is None else "mark" if b"shardc.unfinished/v1" in one
                else "old" if one.startswith(b"old") else "new" for one in (mesh, rules))
            states[kinds] = states.get(kinds, 0) + 1
            self.assertIn(kinds, {
                ("old", "old"), ("old", "mark"), ("new", "mark"), ("new", "new"),
                ("absent", "absent"), ("new", "absent")})
            if kinds[1] == "new":
                self.assertEqual(rules, b"rules: new\n" * 900)
            self.assertEqual(write_set("out"), 0)
            self.assertEqual(content("out"), b"rules: new\n" * 900)

    def test_a_full_disk_leaves_the_old_file(self):
        for writer in WRITERS:
            with open("out", "wb") as file:
                file.write(b"old")
            self.assertEqual(run_full(writer, "out", 2048), 2, writer.__name__)
            self.assertEqual(content("out"), b"old")
            self.assertEqual(run_full(writer, "absent", 2048), 2)
            self.assertFalse(os.path.exists("absent"))
            self.assertEqual(
                [n for n in os.listdir(".") if n.endswith(".tmp")], [])

    def test_links_permissions_and_what_is_no_file(self):
        with open("target", "w", encoding="utf-8") as file:
            file.write("old")
        os.chmod("target", 0o640)
        os.symlink("target", "link")
        self.assertEqual(write_audit("link"), 0)
        self.assertTrue(os.path.islink("link"))
        self.assertEqual(os.stat("target").st_mode & 0o777, 0o640)
        self.assertGreater(len(content("target")), 20000)
        self.assertEqual(write_audit("/dev/null"), 0)
        self.assertTrue(os.path.exists("/dev/null") and not os.path.isfile("/dev/null"))
        for name in ("", ".", "no/folder", "slash/"):
            with contextlib.redirect_stderr(io.StringIO()) as said:
                self.assertEqual(write_audit(name), 2, name)
            self.assertIn("SHD060 write", said.getvalue())

    def test_inputs_are_not_replaced(self):
        with contextlib.redirect_stderr(io.StringIO()) as said:
            self.assertEqual(write_rules("rules.py"), 2)
        self.assertIn("one of the files that are read", said.getvalue())
        self.assertEqual(content("rules.py").decode(), RULES)

    def test_runs_of_the_real_program_are_killed_by_the_clock(self):
        env = dict(os.environ, PYTHONPATH=os.path.join(ROOT, "python"))
        for i in range(max(2, KILLS // 100)):
            with open("out", "wb") as file:
                file.write(b"old")
            # The process gets its signal before the results are read.
            with subprocess.Popen(
                    [sys.executable, "-m", "shardc.manifest", "files_model:factory",
                     "--framework", "none", "-o", "out"], env=env,
                    stderr=subprocess.DEVNULL) as run:
                time.sleep(0.02 * (i % 12))
                run.kill()
            found = content("out")
            self.assertTrue(found == b"old" or found.endswith(b"}\n"))

    def test_every_file_is_written_by_one_module(self):
        for name in os.listdir(PACKAGE):
            if not name.endswith(".py") or name == "files.py":
                continue
            with open(os.path.join(PACKAGE, name), encoding="utf-8") as file:
                text = file.read()
            self.assertNotRegex(
                text, r"""open\([^)]*["'][wax]b?\+?["']|write_(text|bytes)\(|mkstemp""",
                f"{name} writes a file without shardc.files")


# ---- Readers


ODD = [None, True, False, 0, 1, -1, 2, 7, 2**20, 2**31, 2**40, 2**63, 10**30, 0.5, -1.5,
       1e300, float("nan"), float("inf"), "", "x", "4", "-1", "0, 1", "tp", "\x1b[31m",
       "\u202e", "x" * 300, [], [[]], [0], [1, 2], [[1, 2]], [[[1]]], ["float"], {},
       {"": None}, {"a": []}]


def spots(value):
    keys = list(value) if isinstance(value, dict) else (
        range(len(value)) if isinstance(value, list) else ())
    for key in keys:
        yield value, key
        yield from spots(value[key])


def mutate_json(rng, data):
    """Changes members of JSON, by their structure; sometimes the text."""
    data = json.loads(json.dumps(data))
    for _ in range(rng.choice([1, 1, 1, 2, 4])):
        found = list(spots(data))
        if not found:
            break
        holder, key = rng.choice(found)
        how = rng.random()
        if how < 0.5:
            holder[key] = copy.deepcopy(rng.choice(ODD))
        elif how < 0.6:
            del holder[key]
        elif how < 0.7 and isinstance(holder, list):
            holder[key:key] = [holder[key]] * rng.choice([1, 3, 40])
        elif how < 0.8:
            other, at = rng.choice(found)
            with contextlib.suppress(LookupError, TypeError):
                holder[key] = json.loads(json.dumps(other[at]))
        elif isinstance(holder[key], (int, float)) and not isinstance(holder[key], bool):
            with contextlib.suppress(OverflowError):
                holder[key] = rng.choice([-holder[key], holder[key] * 2**20,
                                          holder[key] + 1, holder[key] * 1.5])
        elif isinstance(holder[key], str):
            holder[key] = mutate_text(rng, holder[key])
        else:
            holder[key] = [holder[key]] * rng.choice([0, 1, 2])
    text = json.dumps(data)
    return mutate_bytes(rng, text.encode()) if rng.random() < 0.15 else text.encode()


def mutate_text(rng, text):
    at = rng.randrange(len(text) + 1)
    other = rng.choice(["", "\n", "'", '"', "(", ")", "[", "9" * 30, "\x1b[2J", "\u2028",
                        "é", "\0", text[:20], "0", ",", "_" * 50])
    return text[:at] + other + text[at + rng.choice([0, 1, 5]):]


def mutate_bytes(rng, data):
    data = bytearray(data)
    for _ in range(rng.choice([1, 1, 2, 6])):
        at = rng.randrange(len(data) + 1)
        how = rng.randrange(4)
        if how == 0 and at < len(data):
            data[at] = rng.randrange(256)
        elif how == 1:
            del data[at:at + rng.choice([1, 4, 200])]
        elif how == 2:
            data[at:at] = rng.choice([b"[", b"{", b"\xff", b"\0", b"\\u00", b"NaN", b"\n",
                                      b"1e999", data[:30], b"[" * 3000])
        else:
            del data[at:]
    return bytes(data)


_WORD = re.compile(r"\w+|\s+|.", re.S)
_WORDS = ["return", "yield", "await x", "lambda: 0", "def f(a=R):", "class C:", "while 1:",
          "for x in R:", "if x:", "R", "P", "None", "True", "...", "0", "-1", "10**9",
          "'a'", "f'{x}'", "b'x'", "*", "**", "=", ":=", "(", ")", "[", "]", "{", "}", ":",
          ",", ".", "@f\n", "\n", "    ", "import os", "from x import *", "del R",
          "global R", "nonlocal R", "raise X", "try:\n    pass\nfinally:\n    pass",
          "with x: pass", "match R:\n    case 1: pass", "R += R", "R * 999999",
          "range(10**9)", "'\x1b[31m'", "'\u202e'", "'a' * 10**8", "[R for R in R]",
          "sorted(R, key=lambda x: x)", "break", "continue", "not", "async def g(): pass"]


def mutate_python(rng, text):
    words = _WORD.findall(text)
    for _ in range(rng.choice([1, 1, 2, 3, 6])):
        at = rng.randrange(len(words) + 1)
        how = rng.random()
        if how < 0.35:
            words[at:at + 1] = [rng.choice(_WORDS)]
        elif how < 0.6:
            words[at:at] = [" ", rng.choice(_WORDS), " "]
        elif how < 0.7:
            del words[at:at + rng.choice([1, 3, 20])]
        elif how < 0.85:
            begin = rng.randrange(len(words) + 1)
            words[at:at] = words[begin:begin + rng.choice([1, 4, 20])]
        else:
            lines = "".join(words).split("\n")
            i, j = rng.randrange(len(lines)), rng.randrange(len(lines))
            lines[i], lines[j] = lines[j], lines[i]
            words = _WORD.findall("\n".join(lines))
    out = "".join(words).encode("utf-8", "surrogatepass")
    return mutate_bytes(rng, out) if rng.random() < 0.05 else out


PYTHON = [
    "from jax.sharding import PartitionSpec as P\nimport functools\n"
    "R = [('a', P('x'))]\n@functools.lru_cache\n"
    "def f(n, to=R): to.append((n, P('y')))\nf('b')\n",
    "from jax.sharding import PartitionSpec as P\n\nclass Config:\n"
    "    fsdp = True\n    axes = ('dp', 'fsdp')\n\n    @staticmethod\n"
    "    def get_partition_rules(full=True):\n        out = []\n"
    "        for name in ('q', 'k', 'v'):\n"
    "            out.append((f'{name}_proj/kernel', P('fsdp', 'tp')))\n"
    "        if full:\n            out += [('.*', P(None))]\n"
    "        return tuple(out)\n",
    "from eformer.escale import PartitionAxis\nimport dataclasses\n"
    "axis = PartitionAxis(batch_axis=('fsdp', 'dp'), head_axis='tp')\n"
    "PartitionAxis.register('KV', 'kv_head', generation_rule='tp')\n"
    "RULES = {'w': {'x': (None, 'tp')}, **{str(i): ('dp',) for i in range(3)}}\n",
    "rules = (('batch', 'data'), ('embed', None), ('mlp', ('model', 'data')))\n"
    "def add(*more, **named):\n    return [*rules, *more]\n"
    "ALL = add(('heads', 'model'))\n",
]


def trace_seeds():
    out = []
    for name in ("fsdp2.trace.json", "nccl.trace.json", "tp.comm.json",
                 "executed/hybrid.trace.json.gz", "executed/ddp.trace.json.gz"):
        path = os.path.join(TRACES, name)
        opened = gzip.open if name.endswith(".gz") else open
        with opened(path, "rt", encoding="utf-8") as file:
            data = json.load(file)
        events = data.get("traceEvents")
        if events is not None:  # of the collectives and what is around them
            kept = [one for one in events
                    if "c10d" in str(one.get("name")) or "FSDP" in str(one.get("name"))
                    or one.get("name") == "record_param_comms"]
            data["traceEvents"] = (kept + events[:8])[:16]
        out.append(data)
    return out


class Readers:
    """The readers of the package; each returns a name, the text and the run of one
    changed file."""

    def __init__(self, rng):
        self.rng = rng
        self.traces = trace_seeds()
        with open(os.path.join(TRACES, "tp.graph.txt"), encoding="utf-8") as file:
            self.graph = file.read()
        with open(os.path.join(TRACES, "groups.json"), encoding="utf-8") as file:
            self.groups = json.load(file)
        with open(os.path.join(ROOT, "testdata", "golden", "plan.json"),
                  encoding="utf-8") if os.path.exists(os.path.join(
                      ROOT, "testdata", "golden", "plan.json")) else io.StringIO(
                          "{}") as file:
            self.plan = json.load(file)

    def save(self, name, data):
        with open(name, "wb") as file:
            file.write(data)
        return name

    def one(self):
        rng = self.rng
        kind = rng.choice(["trace", "trace", "packed", "graph", "groups", "python",
                           "python", "config"])
        mesh = ["--mesh", rng.choice(["", "dp:2,tp:2", "dp:4", "a:2,b:2,c:2"])]
        if rng.random() < 0.15:
            mesh[1] = rng.choice(["a:1,b:1048576", "tp", "tp:0", "x:2,x:2",
                                  "dp:99999999999", "\x1b[31m:2"])
        if kind == "trace":
            data = mutate_json(rng, rng.choice(self.traces))
            self.save("in.json", data)
            return kind, data, torch_programs.main, ["in.json", *mesh]
        if kind == "packed":
            data = gzip.compress(mutate_json(rng, rng.choice(self.traces)), 1)
            if rng.random() < 0.5:
                data = mutate_bytes(rng, data)
            self.save("in.json.gz", data)
            return kind, data, torch_programs.main, ["in.json.gz", *mesh]
        if kind in ("graph", "groups"):
            text, groups = self.graph.encode(), json.dumps(self.groups).encode()
            if kind == "graph":
                text = mutate_python(rng, self.graph)
            else:
                groups = mutate_json(rng, self.groups)
            self.save("graph.txt", text)
            self.save("groups.json", groups)
            return kind, text + groups, torch_programs.main, [
                "graph.txt", "--groups", "groups.json", *mesh]
        if kind == "python":
            data = mutate_python(rng, rng.choice(PYTHON))
            more = rng.choice([[], [], ["--format", "json"], ["--symbol", "R"],
                               ["--set", "full=true"], ["--matching", "glob"]])
            self.save("in.py", data)
            return kind, data, import_python.main, ["in.py", *more]
        data = mutate_json(rng, {"model_type": "llama", "hidden_size": 64})
        self.save("config.json", data)

        def read():
            files.read_json("config.json")
            with contextlib.suppress(shardc.PlanError):
                PlanData.loads(data)
            return 0

        return kind, data, read, []


class Mutants(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.addCleanup(os.chdir, os.getcwd())
        os.chdir(folder.name)

    def test_changed_files_are_read_or_refused(self):
        """In processes of a few hundred files, whose memory is measured."""
        counts = {}
        batch = 500
        for begin in range(0, MUTANTS, batch):
            reading, writing = os.pipe()
            child = os.fork()
            if child == 0:
                os.close(reading)
                self.run_batch(begin, min(batch, MUTANTS - begin), writing)
            os.close(writing)
            with open(reading, encoding="utf-8") as file:
                said = file.read()
            status = os.waitpid(child, 0)[1]
            self.assertEqual(status, 0, said)
            for key, count in json.loads(said).items():
                counts[key] = counts.get(key, 0) + count
        if "SHARDC_PACKAGE_MUTANTS" in os.environ:
            print(f"{MUTANTS} changed files: {counts}", file=sys.stderr)
        # Of each reader some are read and some are refused.
        for kind in {key.split()[0] for key in counts}:
            for status in "02":
                self.assertIn(f"{kind} {status}", counts)

    @staticmethod
    def run_batch(begin, count, writing):
        counts = {}
        wrong = None
        try:
            resource.setrlimit(resource.RLIMIT_AS, (1 << 30, 1 << 30))
            readers = Readers(random.Random(SEED * 1_000_003 + begin))
            import_python.check_patterns = lambda *_: None
            for _ in range(count):
                kind, data, main, arguments = readers.one()
                before = time.process_time()
                out, said = io.StringIO(), io.StringIO()
                with contextlib.redirect_stdout(out), contextlib.redirect_stderr(said):
                    status = command(main, *arguments)
                took = time.process_time() - before
                text = said.getvalue()
                counts[f"{kind} {status}"] = counts.get(f"{kind} {status}", 0) + 1
                memory = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
                bad = (status not in (0, 2) or "Traceback" in text
                       or "too little memory" in text
                       or (status == 2 and "error" not in text)
                       or re.search("[\x00-\x09\x0b-\x1f\x7f-\x9f\u202e\u2028]", text)
                       or took > 10 or memory > 500_000)
                if bad:
                    wrong = (f"{kind} {arguments}: status {status}, {took:.1f} s,"
                             f" {memory} KB\n{text[-2000:]}\n{data[:3000]!r}")
                    break
        except BaseException as error:  # what no command may let through
            import traceback

            wrong = (f"{kind} {arguments}: {traceback.format_exc()}\n{data[:3000]!r}"
                     if count else repr(error))
        os.write(writing, (wrong or json.dumps(counts)).encode("utf-8", "replace"))
        os._exit(1 if wrong else 0)


class Sources(unittest.TestCase):
    """What `python -m shardc.import_python` prints of a source that it refuses."""

    def refused(self, source):
        with tempfile.TemporaryDirectory() as folder:
            path = os.path.join(folder, "a.py")
            with open(path, "w", encoding="utf-8") as file:
                file.write(source)
            with contextlib.redirect_stderr(io.StringIO()) as said:
                self.assertEqual(command(import_python.main, path), 2)
        return said.getvalue()

    def test_what_takes_much_memory_is_counted_before_it_is_parsed(self):
        said = self.refused("R = [" + 490_000 * "1," + "]\n")
        self.assertIn("this file has 980,005 words and signs, and at most 300,000 are read",
                      said)

    def test_jumps_that_only_the_compiler_of_python_refuses(self):
        for source, word, place in (
                ("return\n", "'return' outside function", "1:1"),
                ("class A:\n    return 1\n", "'return' outside function", "2:5"),
                ("if x:\n    break\n", "'break' outside loop", "2:5"),
                ("nonlocal x\n", "'nonlocal' outside function", "1:1"),
                ("for x in y: pass\nelse: continue\n", "'continue' outside loop", "2:7"),
                ("while 1:\n    def f(): break\n", "'break' outside loop", "2:14")):
            said = self.refused(source)
            self.assertIn(word, said)
            self.assertIn(f"a.py:{place}\n", said)

    def test_texts_of_the_source_are_escaped(self):
        said = self.refused(
            "from jax.sharding import PartitionSpec as P\nimport functools\n"
            "R = [('a', P('x'))]\n@functools.lru_cache\n"
            "def f(n, to=R): to.append((n, P('\x1b[31mRED\x1b]0;owned\x07\u202e')))\n"
            "f('b')\n")
        self.assertIn("\\x1b[31mRED", said)
        self.assertNotRegex(said, "[\x00-\x09\x0b-\x1f\u202e]")


class Traces(unittest.TestCase):
    """Damaged traces have one message with the file and the event."""

    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.addCleanup(os.chdir, os.getcwd())
        os.chdir(folder.name)

    def refused(self, data, *arguments, name="t.json"):
        raw = data if isinstance(data, bytes) else json.dumps(data).encode()
        with open(name, "wb") as file:
            file.write(raw)
        with contextlib.redirect_stderr(io.StringIO()) as said:
            status = command(torch_programs.main, name, *arguments)
        self.assertEqual(status, 2, said.getvalue())
        return said.getvalue()

    def test_numbers_that_do_not_fit(self):
        def trace(world=4, **args):
            return {
                "distributedInfo": {"rank": 0, "world_size": world},
                "traceEvents": [{"ph": "X", "cat": "cpu_op", "ts": 1, "dur": 1,
                                 "name": "record_param_comms", "args": {
                                     "Collective name": "all_gather", "dtype": "Float",
                                     "In msg nelems": 8, **args}}]}

        for data, words in (
                (trace(**{"Group size": 2**31}), ["event 1", "2,147,483,648", "is 4"]),
                (trace(**{"Global rank start": 2, "Global rank stride": 1,
                          "Group size": 4}), ["its last rank is 5"]),
                (trace(**{"Process Group Ranks": "[0, 9]"}), ["from 0 to 3"]),
                (trace(**{"In msg nelems": "many"}), ["`In msg nelems` is a string"]),
                (trace(world=2**40), ["`world_size`", "1,048,576"]),
                (trace(world="4"), ["`world_size` of `distributedInfo` is a string"]),
                ({"traceEvents": {}}, ["`traceEvents` is an object"]),
                ({"traceEvents": [3]}, ["event 1 is the number 3"]),
                ({}, ["neither a trace"]),
                (b"{", ["no JSON", "line 1"]),
                (b'{"a": ' + b"[" * 100000, ["nested too deeply"]),
                (b"\xff\xfe{", ["not UTF-8"]),
                (gzip.compress(b"{}")[:-4], ["cut off"]),
                (gzip.compress(b" " * (80 << 20)), ["inflates to more than"]),
                (gzip.compress(b"[" + b"0," * (4 << 20) + b"0]"), ["values"]),
                ({"collectives_forward": [["all_reduce", 10**9]]}, ["200,000"])):
            said = self.refused(data)
            self.assertIn("t.json", said)
            for word in words:
                self.assertIn(word, said)

    def test_a_trace_may_be_compressed(self):
        with open(os.path.join(TRACES, "fsdp2.trace.json"), "rb") as file:
            raw = file.read()
        with open("t.json.gz", "wb") as file:
            file.write(gzip.compress(raw))
        with open("t.json", "wb") as file:
            file.write(raw)
        one, other = (torch_programs.read(name).as_hlo({"dp": 2, "tp": 2})
                      for name in ("t.json", "t.json.gz"))
        self.assertEqual(one, other)

    def test_groups_over_axes_are_written_by_their_sizes(self):
        mesh = {"a": 2, "b": 4, "c": 2}
        expected = {(0, 1): "[8,2]<=[2,4,2]",
                    (0, 2, 4, 6): "[4,4]<=[2,4,2]T(0,2,1)",
                    (1, 9): "[8,2]<=[2,4,2]T(1,2,0)",
                    (0, 1, 8, 9): "[4,4]<=[2,4,2]T(1,0,2)",
                    (0, 3): "{{0,3}}", (0, 1, 2): "{{0,1,2}}"}
        for ranks, text in expected.items():
            step = torch_programs.Program(world=16)
            step.sent.append(torch_programs.Sent("all-gather", "f32", (8,), ranks))
            self.assertIn(f"replica_groups={text},", step.as_hlo(mesh))

    def test_the_work_grows_with_the_events(self):
        def seconds(n):
            events = [{"ph": "X", "cat": "cpu_op", "tid": 1, "ts": 2 * i, "dur": 1,
                       "name": "c10d::allreduce_", "args": {
                           "Input Dims": [[8]], "Input type": ["float"]}}
                      for i in range(n)]
            events += [{"ph": "X", "cat": "python_function", "tid": 1, "ts": i,
                        "dur": 4 * n, "name": "train.py(3): step"} for i in range(n)]
            before = time.process_time()
            torch_programs.of_trace({"traceEvents": events}).as_hlo({"dp": 1024})
            return time.process_time() - before

        self.assertLess(seconds(20000), 16 * max(seconds(2500), 0.02))

    def test_commands_import_no_module_twice(self):
        for name in ("torch_programs", "manifest", "rules", "import_python", "family"):
            done = subprocess.run(
                [sys.executable, "-W", "error", "-m", f"shardc.{name}", "--help"],
                env=dict(os.environ, PYTHONPATH=os.path.join(ROOT, "python")),
                capture_output=True, text=True, check=False)
            self.assertEqual((done.returncode, done.stderr), (0, ""))

    def test_what_the_program_escapes_is_escaped(self):
        with open(os.path.join(ROOT, "src", "source", "utf8.cc"), encoding="utf-8") as file:
            ranges = re.findall(r"\{0x([0-9A-F]+), 0x([0-9A-F]+)\}", file.read())
        self.assertGreater(len(ranges), 15)
        for first, last in ranges:
            for c in {int(first, 16), int(last, 16)}:
                self.assertNotIn(chr(c), files.printable(f"a{chr(c)}b"))
        self.assertEqual(files.printable("é – 漢"), "é – 漢")


if __name__ == "__main__":
    unittest.main()
