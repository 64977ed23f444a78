"""Measures whether `verify`, its self-test and the tests detect small changes to
the executor, the judge and the dense reference; with `--rooms`, whether each
other room's tests detect changes to that room.

    tests/mutation/trial.py [--rooms] [--sample N] [--only TEXT] [--after N]
                            [--threads N] [--all]

Every change of mutants.py becomes `(Mutant(17) ? new : old)` in a copy of its
source; the copies are compiled and linked once, before the build's own
library, and SHARDC_MUTANT=17 switches one on. A line reports what detected it: the
matrices of `shardc verify`, its self-test, or the tests of exec, dense and
verify; only the first of them without `--all`. Verify itself must detect those
that have no reason in the list, the tests those whose reason is that only they
do, and nothing may detect the others; otherwise the exit status is 1.

With `--rooms` the changes are those of room_mutants.py. A change of src/cost is
detected by the test program cost_test, unless the list names the test that
detects it or the reason why none can. docs/source.md has the counts by room.

`--sample N` takes N that verify itself must detect, others wherever the sources
or the list differ, and runs no tests, or with `--rooms` N of one room; `--after N` continues a run that was
stopped; `--check` only checks whether every change applies.
"""

import argparse
import concurrent.futures
import dataclasses
import json
import os
import re
import shlex
import subprocess
import sys
import time
import zlib

from mutants import MUTANTS, ONLY_TESTS
from room_mutants import ROOM_MUTANTS

ROOT = os.environ.get(
    "SHARDC_SOURCE_ROOT",
    os.path.abspath(os.path.join(os.path.dirname(__file__), "..", "..")))
BUILD = os.environ.get("SHARDC_BUILD_ROOT", os.path.join(ROOT, "build"))
# Both trials may run at once: neither writes what the other reads.
TRIAL = os.path.join(BUILD, "trial_rooms" if "--rooms" in sys.argv else "trial")
ROOMS = ("exec", "dense", "verify/cases", "verify/judge", "verify/traces")
# Bodies that are compiled once for each processor.
APART = ("_simd.cc",)
TESTS = ("exec", "dense", "verify")
HEADER = """#pragma once
#include <cstdlib>
inline int ChosenMutant() {
  const char* text = std::getenv("SHARDC_MUTANT");
  return text == nullptr ? 0 : std::atoi(text);
}
inline const int kChosenMutant = ChosenMutant();
inline bool Mutant(int number) { return kChosenMutant == number; }
"""
SMALL = "heads=8,kv_heads=4,head_dim=16,batch=4,q_len=16,kv_len=32"
# A head dimension that no vector of a processor divides.
ODD = "heads=8,kv_heads=4,head_dim=20,batch=4,q_len=16,kv_len=32"
CACHES = ("--mode", "decode,insert")
# What people would run: axes of every kind, then what only some settings reach;
# words that name a file of FILES stand for it.
MATRICES = (
    ("--mesh", "sp:4,tp:2", "--attention", SMALL, "--dtype", "float32",
     "--operation", "ring,ulysses", "--order", "zig_zag", "--mode", "train"),
    ("--mesh", "dp:2,tp:2", "--attention", SMALL, "--dtype", "float32",
     "--mode", "train,decode", "--operation",
     "vanilla,sdpa,flash_attn2", "--dot-bits", "8"),
    ("--mesh", "sp:2,tp:4", "--attention", SMALL, "--dtype", "float32",
     "--rules", "dim.yaml"),
    ("--mesh", "dp:2,sp:2,tp:2", "--attention", SMALL, "--dtype", "float32",
     *CACHES, "--kv-dtype", "int8"),
    ("--mesh", "dp:2,tp:4", "--attention", SMALL, "--dtype",
     "bfloat16,float16"),
    ("--mesh", "dp:2,sp:2,tp:2", "--attention", SMALL + ",window=12",
     "--dtype", "float32", "--features", "all"),
    # Models that stretch their positions, each in its way.
    *(("--mesh", "sp:2,tp:2", "--model", f"{name}.config.json", "--dtype",
       "float32", *CACHES) for name in ("linear", "dynamic", "yarn", "llama3",
                                        "longrope", "latent")),
    ("--mesh", "dp:2,tp:4", "--model", "latent.config.json", "--dtype",
     "float32", "--settings", "cast.yaml"),
    # One device of many key heads, and more devices than key heads.
    ("--mesh", "dp:1", "--attention",
     "heads=8,kv_heads=8,head_dim=16,batch=4,q_len=1,kv_len=32", "--dtype",
     "float32", "--features", "bias_by_head,segments,left_padding"),
    ("--mesh", "dp:2,sp:8", "--attention",
     "heads=16,kv_heads=2,head_dim=20,batch=4,q_len=16,kv_len=32", "--dtype",
     "float32", "--features", "all", "--operation", "ulysses"),
    ("--mesh", "tp:8", "--attention", ODD, "--dtype", "bfloat16", "--features",
     "sinks,soft_cap,additive_mask", "--kv-dtype", "bfloat16"),
    # Rings within an exchange, striped and alone.
    ("--mesh", "sp:4,tp:2", "--attention", ODD, "--dtype", "float32",
     "--features", "all", "--operation", "ring", "--order", "striped"),
    ("--mesh", "dp:2,sp:2,cp:2", "--attention", ODD, "--dtype", "float32",
     "--features", "all", "--mode", "train", "--operation", "ring,ulysses",
     "--rules", "two.yaml", "--settings", "ring.yaml"),
    # Partial softmaxes joined in other ways, and arithmetic of other widths.
    ("--mesh", "sp:4,tp:2", "--attention", ODD, "--dtype", "float32,bfloat16",
     "--features", "all", "--mode", "decode", "--operation", "flash_decoding",
     "--settings", "gather.yaml"),
    ("--mesh", "dp:2,tp:2,tq:2", "--attention",
     "heads=8,kv_heads=2,head_dim=20,batch=4,q_len=16,kv_len=32", "--dtype",
     "float32", "--features", "all", "--mode", "decode", "--operation",
     "flash_decoding", "--rules", "shared.yaml"),
    ("--mesh", "dp:2,tp:2", "--attention", ODD, "--dtype", "float32",
     "--features", "all", "--mode", "train,decode", "--settings",
     "narrow.yaml", "--soft-cap", "5"),
    ("--mesh", "dp:2,tp:2,tq:2", "--attention", ODD, "--dtype", "float32",
     "--mode", "train,decode", "--features", "bias,sinks_by_key_head",
     "--rules", "value.yaml"),
    # Caches as they are given, not reduced: rounded, rolling, split by dims,
    # moved between modes.
    ("--full", "--mesh", "dp:2,tp:2", "--attention", ODD, "--dtype", "float32",
     "--kv-dtype", "bfloat16", *CACHES, "--page-size", "4"),
    ("--full", "--mesh", "dp:2,tp:2", "--attention", ODD + ",window=12",
     "--dtype", "float32", "--kv-dtype", "int8", *CACHES, "--rules",
     "dim.yaml"),
    ("--full", "--mesh", "dp:2,sp:2,tp:2", "--attention", ODD + ",window=12",
     "--dtype", "float32", "--kv-dtype", "int8", *CACHES, "--rules",
     "rows.yaml"),
    ("--full", "--mesh", "dp:2,sp:2,tp:2", "--attention", ODD + ",window=12",
     "--dtype", "bfloat16,float16", *CACHES, "--rules", "length.yaml"),
)
RULES = {
    "dim": "head: [], kv_head: [], attention_dim: tp, attention_kv_dim: tp",
    "value": "attention_dim: [], attention_kv_dim: tq",
    "two": "query_sequence: [sp, cp], key_sequence: [sp, cp]",
    "shared": "head: [tp, tq], kv_head: tp, decode_key_sequence: tq",
    "rows": "batch: dp, decode_batch: [dp, sp], decode_key_sequence: []",
    "length": "batch: dp, decode_batch: [], decode_key_sequence: [dp, sp]",
}
SETTINGS = {
    "cast": "defaults: {runtime_dtype: bfloat16}",
    "gather": "operations: {flash_decoding: {merge: all_gather}}",
    "ring": "operations: {ulysses: {ring_axes: [cp]}, ring: {order: striped}}",
    "narrow": "operations: {vanilla: {softmax_dtype: float16}, "
              "sdpa: {softmax_dtype: bfloat16, dropout: 0.25}, "
              "blocksparse: {block_mask: global, global_blocks: 2}}",
}
MODEL = {
    "model_type": "llama", "hidden_size": 128, "num_attention_heads": 8,
    "num_key_value_heads": 4, "head_dim": 16, "rope_theta": 500000.0,
    "max_position_embeddings": 131072,
}
MODELS = {
    "linear": {"rope_scaling": {"rope_type": "linear", "factor": 4.0}},
    "dynamic": {"max_position_embeddings": 8,
                "rope_scaling": {"rope_type": "dynamic", "factor": 2.0}},
    "yarn": {"rope_scaling": {"rope_type": "yarn", "factor": 4.0,
                              "original_max_position_embeddings": 32768}},
    "llama3": {"rope_scaling": {
        "rope_type": "llama3", "factor": 8.0, "low_freq_factor": 1.0,
        "high_freq_factor": 4.0, "original_max_position_embeddings": 8192}},
    "longrope": {"original_max_position_embeddings": 8, "rope_scaling": {
        "rope_type": "longrope", "short_factor": [1 + i / 10 for i in range(8)],
        "long_factor": [1.5 + i / 2 for i in range(8)]}},
    "latent": {"model_type": "deepseek_v3", "num_key_value_heads": 8,
               "kv_lora_rank": 24, "q_lora_rank": 48, "qk_nope_head_dim": 12,
               "qk_rope_head_dim": 8, "v_head_dim": 10, "head_dim": 20,
               "rope_scaling": {"type": "yarn", "factor": 40, "beta_fast": 32,
                                "beta_slow": 1, "mscale": 1.0,
                                "mscale_all_dim": 1.0,
                                "original_max_position_embeddings": 4096}},
}
FILES = {
    **{f"{name}.yaml": f"version: 1\naxes: {{{axes}}}\n"
       for name, axes in RULES.items()},
    **{f"{name}.yaml": f"version: 1\n{text}\n"
       for name, text in SETTINGS.items()},
    **{f"{name}.config.json": json.dumps({**MODEL, **own})
       for name, own in MODELS.items()},
}


class Broken(Exception):
    """A list or a build that cannot be used."""


@dataclasses.dataclass(frozen=True, order=True)
class Mutant:
    file: str    # below src
    line: str    # that stands once in it, without indentation
    old: str     # an expression or a call that stands once in the line
    new: str     # empty: the call is left out
    # Why nothing can detect it, or ONLY_TESTS; empty: verify itself must.
    reason: str

    def noticers(self):
        return {"": "verify", ONLY_TESTS: "tests"}.get(self.reason, "")


class Place:
    """A source with some of its mutants put in."""

    def __init__(self, path):
        with open(os.path.join(ROOT, "src", path), encoding="utf-8") as file:
            self.lines = file.read().split("\n")
        self.path = path
        self.stripped = [line.strip() for line in self.lines]

    def put(self, numbered):
        """The text with (number, mutant) switchable; several in a line nest
        from its end on."""
        lines = list(self.lines)
        by_line = {}
        for number, mutant in numbered:
            if self.stripped.count(mutant.line) != 1:
                raise Broken(f"{self.path}: `{mutant.line}` stands "
                             f"{self.stripped.count(mutant.line)} times")
            at = self.stripped.index(mutant.line)
            by_line.setdefault(at, []).append((number, mutant))
        for at, several in by_line.items():
            lines[at] = self.merged(lines[at], several)
        return "\n".join(lines)

    @staticmethod
    def merged(line, several):
        """One of them at most is on, so whole lines may be chosen between
        where changes overlap; else each expression is."""
        spans = sorted(((line.index(m.old), n, m) for n, m in several),
                       reverse=True)
        end = len(line) + 1
        for begin, number, mutant in spans:
            if begin + len(mutant.old) > end:
                raise Broken(f"changes overlap in {line.strip()}")
            end = begin
            head, tail = line[:begin], line[begin + len(mutant.old):]
            if mutant.new:
                line = (f"{head}(Mutant({number}) ? ({mutant.new}) : "
                        f"({mutant.old})){tail}")
            else:
                line = f"{head}if (!Mutant({number})) {mutant.old}{tail}"
        return line


def sources(rooms=ROOMS):
    """Paths below src that may be changed."""
    out = []
    for room in rooms:
        for here, _, names in os.walk(os.path.join(ROOT, "src", room)):
            out += [os.path.relpath(os.path.join(here, name),
                                    os.path.join(ROOT, "src"))
                    for name in names
                    if name.endswith(".cc") and not name.endswith(APART)]
    return sorted(out)


def overlapping(mutants):
    """Those that stand in the way of an earlier one of their line."""
    taken, out = {}, set()
    for mutant in mutants:
        begin = mutant.line.index(mutant.old)
        span = (begin, begin + len(mutant.old))
        others = taken.setdefault((mutant.file, mutant.line), [])
        if any(span[0] < b and a < span[1] for a, b in others):
            out.add(mutant)
        else:
            others.append(span)
    return out


class Compiler:
    def __init__(self, mutants):
        self.mutants = list(mutants)
        self.numbers = {m: i + 1 for i, m in enumerate(self.mutants)}
        with open(os.path.join(BUILD, "compile_commands.json"),
                  encoding="utf-8") as file:
            listed = json.load(file)
        self.commands = {
            os.path.normpath(os.path.join(entry["directory"], entry["file"])):
            shlex.split(entry["command"]) for entry in listed}
        os.makedirs(TRIAL, exist_ok=True)
        self.write(os.path.join(TRIAL, "mutant.h"), HEADER)

    @staticmethod
    def write(path, text):
        os.makedirs(os.path.dirname(path), exist_ok=True)
        if os.path.exists(path):
            with open(path, encoding="utf-8") as file:
                if file.read() == text:
                    return
        with open(path + ".new", "w", encoding="utf-8") as file:
            file.write(text)
        os.replace(path + ".new", path)

    def files(self):
        return sorted({m.file for m in self.mutants})

    def compiled(self, path, mutants, *more):
        """(object, errors) of a source with its mutants."""
        name = path.replace("/", "_")
        copy = os.path.join(TRIAL, "src", path)
        self.write(copy, Place(path).put(
            [(self.numbers[m], m) for m in mutants]))
        target = os.path.join(TRIAL, name + ".o")
        command = list(self.commands[os.path.join(ROOT, "src", path)])
        command[command.index("-o") + 1] = target
        command[command.index("-c") + 1] = copy
        for flag in ("-MF", "-MQ"):
            command[command.index(flag) + 1] = target + ".d"
        # A copy's neighbours are those of its source.
        command += ["-include", os.path.join(TRIAL, "mutant.h"), "-w",
                    "-fdiagnostics-color=never", "-I", os.path.dirname(
                        os.path.join(ROOT, "src", path)), *more]
        done = subprocess.run(command, cwd=BUILD, check=False,
                              stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
                              encoding="utf-8", errors="replace")
        return target, done.stdout if done.returncode != 0 else ""

    def that_compile(self):
        skip = overlapping(self.mutants)
        good = [m for m in self.mutants if m not in skip]

        def work(path):
            left = [m for m in good if m.file == path]
            for _ in range(12):
                _, errors = self.compiled(path, left, "-fsyntax-only")
                if not errors:
                    return left
                lines = {int(n) for n in re.findall(
                    rf"{re.escape(os.path.basename(path))}:(\d+):\d+: error",
                    errors)}
                place = Place(path)
                fewer = [m for m in left if place.stripped.index(m.line) + 1
                         not in lines]
                if len(fewer) == len(left):
                    return []
                left = fewer
            return []

        with concurrent.futures.ThreadPoolExecutor(2) as pool:
            return [m for part in pool.map(work, self.files()) for m in part]

    def build(self, programs):
        """Links each program of the build's with the changed objects."""
        def work(path):
            return self.compiled(path,
                                 [m for m in self.mutants if m.file == path])
        with concurrent.futures.ThreadPoolExecutor(2) as pool:
            made = list(pool.map(work, self.files()))
        for _, errors in made:
            if errors:
                raise Broken(errors[:2000])
        objects = [target for target, _ in made]
        for program in programs:
            listed = subprocess.run(
                ["ninja", "-C", BUILD, "-t", "commands", program], check=True,
                stdout=subprocess.PIPE, encoding="utf-8").stdout
            link = shlex.split(listed.strip().split("\n")[-1])
            at = link.index("-o")
            link[at + 1] = os.path.join(TRIAL, os.path.basename(program))
            first = next(i for i, word in enumerate(link)
                         if word.endswith(".o") and i > at + 1)
            link[first:first] = objects
            done = subprocess.run(link, cwd=BUILD, check=False,
                                  stdout=subprocess.PIPE,
                                  stderr=subprocess.STDOUT, encoding="utf-8",
                                  errors="replace")
            if done.returncode != 0:
                raise Broken(done.stdout[-2000:])


class Judges:
    """Each returns whether it detects the mutant that is switched on."""

    def __init__(self, seconds):
        self.seconds = seconds
        self.shardc = os.path.join(TRIAL, "shardc")
        self.files = {}
        for name, text in FILES.items():
            self.files[name] = os.path.join(TRIAL, name)
            Compiler.write(self.files[name], text)
        self.right = [self.verdicts(0, matrix) for matrix in MATRICES]

    def run(self, number, command):
        env = {**os.environ, "SHARDC_MUTANT": str(number),
               "SHARDC_SOURCE_ROOT": ROOT, "SHARDC_BUILD_ROOT": BUILD,
               "SHARDC_BIN": self.shardc}
        try:
            return subprocess.run(command, env=env, check=False, cwd=TRIAL,
                                  stdout=subprocess.PIPE,
                                  stderr=subprocess.DEVNULL,
                                  timeout=self.seconds)
        except subprocess.TimeoutExpired:
            return None

    def verdicts(self, number, matrix):
        """Of each case its status; nothing where the program failed."""
        words = [self.files.get(word, word) for word in matrix]
        done = self.run(number, [self.shardc, "verify", "--no-project",
                                 "--threads", "1", "--format", "json", *words])
        if done is None or done.returncode not in (0, 1):
            return None
        try:
            report = json.loads(done.stdout)
        except ValueError:
            return None
        return [(case["operation"], case["status"])
                for case in report["cases"]]

    def matrix(self, number):
        """A case that passed and does not, or is not there."""
        return any(self.verdicts(number, matrix) != right
                   for matrix, right in zip(MATRICES, self.right))

    def self_test(self, number):
        done = self.run(number, [self.shardc, "verify", "--self-test",
                                 "--threads", "1"])
        return done is None or done.returncode != 0

    def tests(self, number):
        for name in TESTS:
            done = self.run(number, [os.path.join(TRIAL, name + "_test"),
                                     "--abort-after=1",
                                     "--no-path-filenames=true"])
            if done is None or done.returncode != 0:
                return True
        return False


class RoomTests:
    """Whether the test that the list names detects a change of a room: the
    room's own test program, or a Python test that runs the command.

    A change that makes a loop endless is detected by the processor time that
    each process may use, which does not depend on what else the machine does:
    10 s and 5 times those that the unchanged test uses."""

    MOST_VIRTUAL_KIB = 8 << 20

    def __init__(self, seconds):
        self.seconds = seconds
        self.processor_seconds = {}

    def accept(self, test):
        """Runs the test without a change; Broken, with what the test printed,
        if it fails."""
        started = self.used_by_processes()
        failed = self.failure(0, test)
        if failed is not None:
            raise Broken(f"{test} fails without a change: {failed[-2000:]}")
        self.processor_seconds[test] = 10 + 5 * int(
            self.used_by_processes() - started + 1)

    @staticmethod
    def used_by_processes():
        """The processor seconds of the processes that have ended."""
        times = os.times()
        return times.children_user + times.children_system

    def detects(self, number, test):
        return self.failure(number, test) is not None

    def failure(self, number, test):
        """What the failing test printed; None if it passes."""
        if test.endswith(".py"):
            command = [sys.executable, "-W", "ignore",
                       os.path.join(ROOT, test), "-f"]
        else:
            command = [os.path.join(TRIAL, test), "--abort-after=1"]
        limits = (f"ulimit -v {self.MOST_VIRTUAL_KIB}; "
                  f"ulimit -t {self.processor_seconds.get(test, self.seconds)}; "
                  'exec "$@"')
        env = {**os.environ, "SHARDC_MUTANT": str(number),
               "SHARDC_SOURCE_ROOT": ROOT, "SHARDC_BUILD_ROOT": BUILD,
               "SHARDC_BIN": os.path.join(TRIAL, "shardc"),
               # What was never written reads the same in every run.
               "MALLOC_PERTURB_": "165"}
        try:
            done = subprocess.run(["sh", "-c", limits, "sh", *command],
                                  env=env, check=False, cwd=TRIAL,
                                  stdin=subprocess.DEVNULL,
                                  stdout=subprocess.PIPE,
                                  stderr=subprocess.STDOUT,
                                  encoding="utf-8", errors="replace",
                                  timeout=self.seconds)
        except subprocess.TimeoutExpired:
            return f"not finished after {self.seconds} s"
        return None if done.returncode == 0 else (
            f"{done.stdout}\nexit status {done.returncode}")


def own_test(mutant):
    return mutant.file.split("/")[0] + "_test"


def test_of(mutant):
    """The test that must detect it; the room's own where none can."""
    named = mutant.reason.split(" ")[0]
    return (named if named.endswith((".py", "_test")) else own_test(mutant))


def sample_of_rooms(mutants, count):
    """`count` changes of one room that its own tests must detect. Which room
    follows from the sources, so that all have their turn."""
    digest = zlib.crc32(repr(mutants).encode())
    rooms = sorted({m.file.split("/")[0] for m in mutants if not m.reason})
    # Some rooms have their tests in the sanitized build alone.
    rooms = [room for room in rooms
             if os.path.exists(os.path.join(BUILD, "tests", f"{room}_test"))]
    if not rooms:
        raise Broken(f"{BUILD} has no test program of a room with changes")
    for path in sources(rooms):
        with open(os.path.join(ROOT, "src", path), "rb") as file:
            digest = zlib.crc32(file.read(), digest)
    room = rooms[digest % len(rooms)]
    sound = [m for m in mutants
             if not m.reason and m.file.split("/")[0] == room]
    step = max(1, len(sound) // count)
    return sound[digest % step::step][:count]


def trial_of_rooms(args):
    mutants = [Mutant(*row) for row in ROOM_MUTANTS]
    mutants = [m for m in mutants if args.only in m.file][args.after:]
    if args.sample:
        mutants = sample_of_rooms(mutants, args.sample)
    compiler = Compiler(mutants)
    tests = sorted({test_of(m) for m in mutants})
    compiler.build([f"tests/{test}" for test in tests
                    if not test.endswith(".py")] +
                   (["src/cli/shardc"] if any(test.endswith(".py")
                                              for test in tests) else []))
    judge = RoomTests(args.seconds)
    for test in tests:
        judge.accept(test)
    started = time.monotonic()
    table, missed = {}, []

    def work(mutant):
        return mutant, judge.detects(compiler.numbers[mutant], test_of(mutant))
    with concurrent.futures.ThreadPoolExecutor(args.threads) as pool:
        for mutant, detected in pool.map(work, mutants):
            must = not mutant.reason or " " not in mutant.reason
            counts = table.setdefault(mutant.file.split("/")[0], [0, 0, 0])
            counts[0] += must
            counts[1] += detected and test_of(mutant) == own_test(mutant)
            counts[2] += detected
            verdict = test_of(mutant) if detected else "nobody"
            if detected != must:
                verdict += " (NOT AS LISTED)"
                missed.append(mutant)
            print(f"{verdict:<24}  {mutant.file}: {mutant.old} -> "
                  f"{mutant.new or 'nothing'}   in `{mutant.line}`"
                  + ("" if must else f"; {mutant.reason}"), flush=True)
    for room, (all_, own, by_any) in sorted(table.items()):
        print(f"{room}: {all_} changes of a result, {own} detected by its own "
              f"tests, {by_any} by the tests listed")
    print(f"{len(missed)} are not as listed. {time.monotonic() - started:.0f} s")
    return 1 if missed else 0


def sample(mutants, count):
    """`count` of those that must be detected, spread over the list; where they
    begin follows from what is tried."""
    # Memory after an array's end decides what detects that it is read.
    sound = [m for m in mutants
             if not m.reason and m.new != m.old.replace("<", "<=")]
    digest = zlib.crc32(repr(mutants).encode())
    for path in sources():
        with open(os.path.join(ROOT, "src", path), "rb") as file:
            digest = zlib.crc32(file.read(), digest)
    step = max(1, len(sound) // count)
    return sound[digest % step::step][:count]


def who(judges, number, every, only_verify):
    names = []
    for name, judge in (("matrix", judges.matrix),
                        ("self-test", judges.self_test),
                        ("tests", judges.tests)):
        if only_verify and name == "tests":
            break
        if judge(number):
            names.append(name)
            if not every:
                break
    return names


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--sample", type=int, default=0)
    parser.add_argument("--only", default="")
    parser.add_argument("--after", type=int, default=0)
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--seconds", type=int, default=900)
    parser.add_argument("--all", action="store_true")
    parser.add_argument("--check", action="store_true")
    parser.add_argument("--rooms", action="store_true")
    args = parser.parse_args()
    if args.rooms:
        return trial_of_rooms(args)
    mutants = [Mutant(*row) for row in MUTANTS]
    if args.check:
        mutants += [Mutant(*row) for row in ROOM_MUTANTS]
        if overlapping(mutants):
            raise Broken("changes overlap: "
                         f"{sorted(overlapping(mutants))[0]}")
        for path in sorted({m.file for m in mutants}):
            Place(path).put([(1, m) for m in mutants if m.file == path])
        print(f"{len(mutants)} changes apply")
        return 0
    mutants = [m for m in mutants if args.only in m.file][args.after:]
    if args.sample:
        mutants = sample(mutants, args.sample)
    compiler = Compiler(mutants)
    compiler.build(["src/cli/shardc"] + (
        [] if args.sample else [f"tests/{name}_test" for name in TESTS]))
    judges = Judges(args.seconds)
    if any(right is None or "fail" in [status for _, status in right]
           for right in judges.right):
        raise Broken("the unchanged program fails")
    started = time.monotonic()
    missed, count = [], {"matrix": 0, "self-test": 0, "tests": 0}

    def work(mutant):
        return mutant, who(judges, compiler.numbers[mutant], args.all,
                           args.sample > 0)
    with concurrent.futures.ThreadPoolExecutor(args.threads) as pool:
        for mutant, names in pool.map(work, mutants):
            for name in names:
                count[name] += 1
            verdict = ", ".join(names) or "nobody"
            by = ("" if not names else
                  "tests" if names == ["tests"] else "verify")
            if by != mutant.noticers():
                verdict += " (NOT AS LISTED)"
                missed.append(mutant)
            print(f"{verdict:<24}  {mutant.file}: {mutant.old} -> "
                  f"{mutant.new or 'nothing'}   in `{mutant.line}`"
                  + ("" if names else f"; {mutant.reason}"), flush=True)
    same = sum(1 for m in mutants if m.noticers() == "")
    changing = len(mutants) - same
    by_verify = count["matrix"] + count["self-test"]
    print(f"{changing} changes of a result: matrices detected {count['matrix']}, "
          f"the self-test {count['self-test']}, tests {count['tests']}"
          + ("" if args.all else " of those left")
          + ("" if args.all or args.sample or not changing else
             f"; {100 * by_verify / changing:.1f} % by verify itself")
          + f". {same} change none. {len(missed)} are not as listed. "
          f"{time.monotonic() - started:.0f} s")
    return 1 if missed else 0


if __name__ == "__main__":
    try:
        sys.exit(main())
    except Broken as error:
        sys.exit(str(error))
