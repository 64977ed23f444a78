"""Draws small changes at random and reports what detects each: the own tests of
its room, or else a test of commands.

    tests/mutation/draw.py NUMBER [--seed N] [--rooms A,B] [--each]
                           [--only-own] [--write FILE] [--rows FILE]
                           [--threads N]

NUMBER changes are drawn from those that propose.py proposes, of all rooms
together or, with `--each`, of each room; changes that changes/
lists are left out. As in trial.py they are compiled into one
program, in which a variable selects one. Then

1. the test program of each changed room runs once without a change and records
   which changes it evaluates, and once with each of those;
2. the golden transcripts, and for what they leave the test scripts of commands,
   are run in the same way: a change that the own tests do not detect is tried
   with those that evaluate it until one fails.

`--only-own` leaves the second step out. `--rows FILE` tries the changes that
`--write FILE` has written, such as those of a draw before a test was added. A
line reports each change, a table the rooms. Changes that nothing detects are
for the reader to judge: either no output depends on the expression, or a test
is missing.

A draw runs at the lowest priority and uses `--threads N` processors, one by
default. Next to each object is a record of what it was compiled of, so that the
same command continues a draw that was stopped: only sources that are missing,
or that changed since, are compiled. SIGINT, SIGTERM and `--limit SECONDS` stop
a draw; it then reports the changes that were tried until then, and `--write
FILE` writes them.
"""

import argparse
import concurrent.futures
import dataclasses
import json
import os
import random
import re
import signal
import subprocess
import sys
import tempfile
import time
import zlib

import compiling
from changes import MUTANTS, ROOM_MUTANTS
from compiling import (BUILD, ROOT, Broken, Compiler, Mutant, Place,
                       overlapping)
from judges import RoomTests, own_test
from propose import proposals

sys.path.insert(0, os.path.join(ROOT, "tests", "cli"))
MOST = 4096  # changes of one draw
# The processes of a run share a file of one byte for each change, which is set
# where the change is evaluated: no process has to end normally for that.
HEADER = f"""#pragma once
#include <cstdlib>
#include <fcntl.h>
#include <sys/mman.h>
#include <unistd.h>
inline int ChosenMutant() {{
  const char* text = std::getenv("SHARDC_MUTANT");
  return text == nullptr ? 0 : std::atoi(text);
}}
inline const int kChosenMutant = ChosenMutant();
inline char* ReachedMutants() {{
  const char* path = std::getenv("SHARDC_MUTANTS_REACHED");
  const int fd = path == nullptr ? -1 : open(path, O_RDWR | O_CLOEXEC);
  if (fd < 0) return nullptr;
  void* at = mmap(nullptr, {MOST}, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
  close(fd);
  return at == MAP_FAILED ? nullptr : static_cast<char*>(at);
}}
inline char* const kReachedMutants = ReachedMutants();
inline bool Mutant(int number) {{
  if (kReachedMutants != nullptr) kReachedMutants[number] = 1;
  return kChosenMutant == number;
}}
"""
compiling.HEADER = HEADER
# Scripts that need a program which may be missing, that count instructions, or
# whose files are written by others.
LEFT_OUT = ("growth", "lsp_neovim", "lsp_vscode", "compilers")


def every_room():
    """Rooms below src, in the order of the build. The last one, of commands,
    has no tests of its own."""
    with open(os.path.join(ROOT, "src", "meson.build"),
              encoding="utf-8") as file:
        listed = re.search(r"^rooms = \[(.*?)\]", file.read(), re.M | re.S)[1]
    return [*re.findall(r"'(\w+)'", listed), "cli"]


def scripts():
    """The test scripts of commands, relative to the source root."""
    with open(os.path.join(ROOT, "tests", "cli", "meson.build"),
              encoding="utf-8") as file:
        text = file.read()
    names = re.findall(r"'(\w+)'", re.search(
        r"^cli_tests = \[(.*?)\]", text, re.M | re.S)[1])
    names += re.findall(r"'(\w+)'", re.search(
        r"take longer.*?foreach name : \[(.*?)\]", text, re.S)[1])
    return [f"tests/cli/{name}_test.py" for name in names
            if name not in (*LEFT_OUT, "golden")]


def apart(mutants):
    """Those that do not stand in the way of another one, sorted."""
    mutants = sorted(set(mutants))
    skip = overlapping(mutants)
    return [m for m in mutants if m not in skip]


def drawn(args):
    """The changes that are chosen, in the order of files."""
    if args.rows:
        with open(args.rows, encoding="utf-8") as file:
            return apart(Mutant(*row[:4], "") for row in json.load(file))
    listed = {Mutant(*row[:4], "") for row in (*MUTANTS, *ROOM_MUTANTS)}
    rooms = args.rooms.split(",") if args.rooms else [
        f"{room}/" for room in every_room()]
    # `exec/step` names a part of a room, `cli/searched` the files named so.
    parts = [room if os.path.isdir(os.path.join(ROOT, "src", room)) else
             os.path.dirname(room) for room in rooms]
    every = [m for m in proposals(sorted(set(parts)))
             if m not in listed and m.file.startswith(tuple(rooms))]
    random.Random(args.seed).shuffle(every)
    if args.each:
        chosen = []
        for room in rooms:
            own = [m for m in every if m.file.startswith(room)]
            chosen += own[:args.number]
    else:
        chosen = every[:args.number]
    return apart(chosen)


class Stopped(BaseException):
    """A signal or the end of the time; no Exception of a thread's work."""


def stop(*_):
    raise Stopped


def in_order(threads, work, items):
    """Pairs of an item and what `work` returns of it. What has not started when
    the draw is stopped is left out."""
    pool = concurrent.futures.ThreadPoolExecutor(threads)
    try:
        yield from zip(items, pool.map(work, items))
    finally:
        pool.shutdown(cancel_futures=True)


class Record:
    """Next to an object, what it was compiled of and which changes compiled."""

    def __init__(self, target, drawn_of):
        self.target = target
        self.path = target + ".json"
        # Numbers of changes are part of the object, and so is the header.
        self.of = zlib.crc32(repr((HEADER, drawn_of)).encode())

    def read(self):
        """The changes that compiled; None unless the object is up to date."""
        try:
            with open(self.path, encoding="utf-8") as file:
                record = json.load(file)
            made = os.stat(self.target).st_mtime_ns
            if record["of"] != self.of or any(
                    os.stat(name).st_mtime_ns > made
                    for name in record["sources"]):
                return None
        except (OSError, ValueError, KeyError):
            return None
        return [Mutant(*row) for row in record["compiled"]]

    def write(self, source, left):
        with open(self.target + ".d", encoding="utf-8") as file:
            words = file.read().replace("\\\n", " ").split()
        # The copy and mutant.h are part of `of`.
        sources = [word if os.path.isabs(word) else os.path.join(BUILD, word)
                   for word in words if not word.endswith(":")]
        sources = [name for name in sources
                   if not name.startswith(compiling.TRIAL)]
        Compiler.write(self.path, json.dumps({
            "of": self.of, "sources": [source, *sources],
            "compiled": [dataclasses.astuple(m) for m in left]}))


class Draw(Compiler):
    """Compiles what it can and leaves out the changes that do not compile."""

    def __init__(self, mutants, threads):
        super().__init__(mutants)
        # Each source's own changes are kept apart from those of others.
        if self.unit_of:
            raise Broken("sources are compiled together here; run "
                         f"meson configure {BUILD} -Dunits=files")
        self.threads = threads

    def compile(self):
        if len(self.mutants) >= MOST:
            raise Broken(f"at most {MOST - 1} changes at a time")
        out = []
        for path, left in in_order(self.threads, self.compile_file,
                                   self.files()):
            out += left
            print(f"compiled {path}", file=sys.stderr, flush=True)
        return out

    def compile_file(self, path):
        left = [m for m in self.mutants if m.file == path]
        record = Record(
            os.path.join(compiling.TRIAL, path.replace("/", "_") + ".o"),
            [(self.numbers[m], m) for m in left])
        before = record.read()
        if before is not None:
            return before
        left = self.compile_anew(path, left)
        record.write(os.path.join(ROOT, "src", path), left)
        return left

    def compile_anew(self, path, left):
        place = Place(path)
        while True:
            target, errors = self.compiled(path, left)
            if not errors:
                return left
            lines = {int(n) for n in re.findall(
                rf"{re.escape(os.path.basename(path))}:(\d+):\d+: error",
                errors)}
            fewer = [m for m in left
                     if place.stripped.index(m.line) + 1 not in lines]
            if len(fewer) == len(left) or not left:
                raise Broken(f"{target}: {errors[:2000]}")
            left = fewer

    def build(self, programs):
        """As that of the trial, of objects that are compiled already. Only the
        program of commands has those of src/cli."""
        every = self.mutants
        self.compiled = lambda path, _: (
            os.path.join(compiling.TRIAL, path.replace("/", "_") + ".o"), "")
        for program in programs:
            if not program.startswith("src/"):
                self.mutants = [m for m in every
                                if not m.file.startswith("cli/")]
            super().build([program])
            self.mutants = every
        del self.compiled


def reached_by(work):
    """Runs `work(path)` and returns the changes that its processes evaluated,
    to which it gives the path."""
    with tempfile.NamedTemporaryFile(dir=compiling.TRIAL) as file:
        file.truncate(MOST)
        work(file.name)
        file.seek(0)
        return {i for i, seen in enumerate(file.read()) if seen}


class Tests(RoomTests):
    """A test program or script, which may record what it evaluates."""

    def __init__(self, seconds):
        super().__init__(seconds)
        os.environ["SHARDC_DESCRIBE_COMMANDS"] = os.path.join(
            BUILD, "tests", "programs", "describe_commands")

    def reach(self, test):
        def work(path):
            os.environ["SHARDC_MUTANTS_REACHED"] = path
            try:
                self.accept(test)
            finally:
                del os.environ["SHARDC_MUTANTS_REACHED"]
        return reached_by(work)


class Transcripts:
    """The golden transcripts, each a test of its own."""

    def __init__(self):
        # Both are read of the environment when the modules are loaded.
        os.environ["SHARDC_BIN"] = os.path.join(compiling.TRIAL, "shardc")
        os.environ["SHARDC_SOURCE_ROOT"] = ROOT
        import golden_test  # pylint: disable=import-outside-toplevel
        import transcript  # pylint: disable=import-outside-toplevel
        self.golden, self.transcript = golden_test, transcript
        self.sections = golden_test.made()

    def names(self):
        return self.golden.written()

    def differs(self, name, **variables):
        """Whether a run with these variables prints something else."""
        runner = self.transcript.Runner(os.environ["SHARDC_BIN"], ROOT)
        runner.env.update(variables, MALLOC_PERTURB_="165")
        before = self.golden.read(name)
        parts = self.sections.get(name) or self.transcript.parse(before)
        try:
            now = [runner.section(part, self.transcript.head(parts))
                   for part in parts]
        except subprocess.TimeoutExpired:
            return True
        return before != "\n".join(text.rstrip("\n") + "\n" for text in now)

    def reach(self, name):
        """What it evaluates; Broken if it differs without a change."""
        def work(path):
            if self.differs(name, SHARDC_MUTANTS_REACHED=path):
                raise Broken("it is not as written")
        return reached_by(work)


@dataclasses.dataclass
class Verdict:
    by: str = ""  # the test that detected it
    own: bool = False
    reached: int = 0  # tests that evaluate it
    # Whether it was tried with all tests, or until one detected it.
    finished: bool = False


def own_tests(mutants):
    return sorted({own_test(m) for m in mutants} - {"cli_test"})


def try_own(verdicts, numbers, tests, threads, last):
    """Tries changes with the rooms' own tests, which may be the last ones."""
    for test in own_tests(verdicts):
        own = [m for m in verdicts if own_test(m) == test]
        reached = tests.reach(test)
        print(f"{test}: evaluates {sum(numbers[m] in reached for m in own)} of "
              f"{len(own)}", file=sys.stderr, flush=True)
        for mutant in own:
            verdicts[mutant].finished = last and numbers[mutant] not in reached
        tried = [m for m in own if numbers[m] in reached]
        for mutant, failed in in_order(
                threads, lambda m, test=test: tests.detects(numbers[m], test),
                tried):
            verdicts[mutant].reached += 1
            verdicts[mutant].finished = last
            if failed:
                verdicts[mutant].by, verdicts[mutant].own = test, True


def record(name, seconds, reach):
    """(seconds, name, changes) that a test evaluates; none if it fails."""
    started = time.monotonic()
    try:
        reached = reach(name)
    except Broken as broken:
        print(f"{name} is left out: {str(broken)[-300:]}", file=sys.stderr)
        return None
    seconds[name] = time.monotonic() - started
    return reached


def try_commands(left, verdicts, numbers, tests, threads):
    """Tries changes with the transcripts and scripts that evaluate them."""
    transcripts = Transcripts()
    seconds, reached = {}, {}
    names = transcripts.names()
    for name, of in in_order(
            threads, lambda n: record(n, seconds, transcripts.reach), names):
        if of is not None:
            reached[name] = of
    print(f"{len(reached)} of {len(names)} transcripts are as written",
          file=sys.stderr, flush=True)

    def by_transcripts(mutant):
        number = numbers[mutant]
        for name in sorted(reached, key=lambda name: seconds[name]):
            if number not in reached[name]:
                continue
            verdicts[mutant].reached += 1
            if transcripts.differs(name, SHARDC_MUTANT=str(number)):
                verdicts[mutant].by = f"golden/{name}"
                return
    for _ in in_order(threads, by_transcripts, left):
        pass
    left = [m for m in left if not verdicts[m].by]
    print(f"{len(left)} are left to the scripts", file=sys.stderr, flush=True)
    by_scripts(left, verdicts, numbers, tests, threads)


def by_scripts(left, verdicts, numbers, tests, threads):
    """One script after another, those of the rooms' names first, until nothing
    is left."""
    rooms = {m.file.split("/")[0] for m in left}
    seconds = {}
    for name in sorted(scripts(), key=lambda name: not any(
            room in name for room in rooms)):
        left = [m for m in left if not verdicts[m].by]
        if not left:
            return
        reached = record(name, seconds, tests.reach)
        if reached is None:
            continue
        tried = [m for m in left if numbers[m] in reached]
        print(f"{name}: {seconds[name]:.0f} s, evaluates {len(tried)} of "
              f"{len(left)}", file=sys.stderr, flush=True)
        for mutant, failed in in_order(
                threads, lambda m, name=name: tests.detects(numbers[m], name),
                tried):
            verdicts[mutant].reached += 1
            if failed:
                verdicts[mutant].by = name


def report(verdicts):
    """Prints a line for each change and the table of rooms. A draw that was
    stopped has a column of the changes that more tests had to be tried with."""
    table = {}
    for mutant, verdict in sorted(verdicts.items(), key=lambda item: item[0]):
        unfinished = not verdict.by and not verdict.finished
        counts = table.setdefault(mutant.file.split("/")[0], [0, 0, 0, 0])
        counts[0] += 1
        counts[1] += verdict.own
        counts[2] += verdict.by != ""
        counts[3] += unfinished
        by = verdict.by or ("unfinished" if unfinished else
                            f"nobody ({verdict.reached} evaluate it)")
        print(f"{by:<28}  {mutant.file}: {mutant.old} -> "
              f"{mutant.new or 'nothing'}   in `{mutant.line}`")
    if not table:
        return
    total = [sum(c) for c in zip(*table.values())]
    columns = ["changes", "by its own tests", "by any test"]
    columns += ["unfinished"] if total[3] else []
    print(f"| room | {' | '.join(columns)} |")
    print("|---|" + "---|" * len(columns))
    for room, counts in (*sorted(table.items()), ("all", total)):
        numbers = " | ".join(map(str, counts[:len(columns)]))
        print(f"| `{room}` | {numbers} |")


def run(args, verdicts):
    """Compiles, links and tries; what it finds goes into `verdicts`."""
    draw = Draw(drawn(args), args.threads)
    mutants = draw.compile()
    print(f"{len(mutants)} of {len(draw.mutants)} compile", file=sys.stderr,
          flush=True)
    verdicts.update({m: Verdict() for m in mutants})
    draw.build([f"tests/{test}" for test in own_tests(mutants)] +
               ([] if args.only_own else ["src/cli/shardc"]))
    tests = Tests(args.seconds)
    try_own(verdicts, draw.numbers, tests, args.threads, args.only_own)
    left = [m for m in mutants if not verdicts[m].by]
    if left and not args.only_own:
        try_commands(left, verdicts, draw.numbers, tests, args.threads)
    for mutant in left:
        verdicts[mutant].finished = True


def arguments():
    parser = argparse.ArgumentParser()
    parser.add_argument("number", type=int)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--rooms", default="")
    parser.add_argument("--each", action="store_true")
    parser.add_argument("--only-own", action="store_true")
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--seconds", type=int, default=900)
    parser.add_argument("--limit", type=int, default=0)
    parser.add_argument("--write", default="")
    parser.add_argument("--rows", default="")
    return parser.parse_args()


def main():
    args = arguments()
    os.nice(19)
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGALRM):
        signal.signal(number, stop)
    signal.alarm(args.limit)
    compiling.TRIAL = os.path.join(BUILD, f"trial_draw{args.seed}")
    verdicts = {}
    try:
        run(args, verdicts)
    except Stopped:
        signal.alarm(0)
        print("stopped; the same command uses what is compiled",
              file=sys.stderr)
    report(verdicts)
    if args.write and verdicts:
        with open(args.write, "w", encoding="utf-8") as file:
            json.dump([[*dataclasses.astuple(m)[:4], verdicts[m].by]
                       for m in sorted(verdicts)], file, indent=1)
    return 0


if __name__ == "__main__":
    try:
        sys.exit(main())
    except Broken as error:
        sys.exit(str(error))
