"""Draws small changes of the source at random and reports what detects each: the
own tests of its room, or else a test of commands.

    tests/mutation/draw.py NUMBER [--seed N] [--rooms A,B] [--each] [--verify]
                           [--only-own] [--write FILE] [--rows FILE]
                           [--threads N]

NUMBER changes are drawn from those that propose.py proposes, of all rooms
together or, with `--each`, of each room. They are compiled into one program, in
which a variable selects one. Then

1. the test program of each changed room runs once without a change and records
   which changes it evaluates, and once with each of those;
2. the golden transcripts, and for what they leave the test scripts of commands,
   are run in the same way: a change that the own tests do not detect is tried
   with those that evaluate it until one fails.

With `--verify`, `shardc verify` and its catalogue of faults come before the own
tests, for changes of the executor, the judge and the dense reference.
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
import dataclasses
import json
import os
import random
import re
import signal
import sys
import time

from compiling import (BUILD, ROOT, Broken, Compiler, Mutant, apart, in_order)
from judges import Tests, Transcripts, Verification, scripts
from propose import proposals

OF_VERIFY = ("exec", "dense", "verify")


def every_room():
    """Rooms below src, in the order of the build. The last one, of commands,
    has no tests of its own."""
    with open(os.path.join(ROOT, "src", "meson.build"),
              encoding="utf-8") as file:
        listed = re.search(r"^rooms = \[(.*?)\]", file.read(), re.M | re.S)[1]
    return [*re.findall(r"'(\w+)'", listed), "cli"]


def room_of(mutant):
    return mutant.file.split("/")[0]


def own_test(room):
    return f"tests/{room}_test"


def drawn(args):
    """The changes that are chosen, in the order of files."""
    if args.rows:
        with open(args.rows, encoding="utf-8") as file:
            return apart(Mutant(*row[:4]) for row in json.load(file))
    rooms = args.rooms.split(",") if args.rooms else [
        f"{room}/" for room in every_room()]
    # `exec/step` names a part of a room, `cli/searched` the files named so.
    parts = [room if os.path.isdir(os.path.join(ROOT, "src", room)) else
             os.path.dirname(room) for room in rooms]
    every = [m for m in proposals(sorted(set(parts)))
             if m.file.startswith(tuple(rooms))]
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


@dataclasses.dataclass
class Verdict:
    by: str = ""  # the test that detected it
    own: bool = False
    reached: int = 0  # tests that evaluate it
    # Whether it was tried with all tests, or until one detected it.
    finished: bool = False


class Trial:
    """Tries compiled changes with one judge after another. What it finds goes
    into `verdicts`."""

    def __init__(self, compiler, mutants, verdicts):
        self.numbers, self.threads = compiler.numbers, compiler.threads
        self.verdicts = verdicts
        verdicts.update({m: Verdict() for m in mutants})

    def left(self):
        return [m for m, verdict in self.verdicts.items() if not verdict.by]

    def with_test(self, judge, test, mutants, own=False):
        """Tries those of the changes that the test evaluates and nothing has
        detected."""
        started = time.monotonic()
        reached = judge.reach(test)
        tried = [m for m in mutants if self.numbers[m] in reached
                 and not self.verdicts[m].by]
        print(f"{test}: {time.monotonic() - started:.0f} s, evaluates "
              f"{len(tried)} of {len(mutants)}", file=sys.stderr, flush=True)
        for mutant, failed in in_order(
                self.threads, lambda m: judge.detects(self.numbers[m], test),
                tried):
            verdict = self.verdicts[mutant]
            verdict.reached += 1
            if failed:
                verdict.by, verdict.own = test, own

    def with_own(self, judge, last):
        """Tries changes with their rooms' own tests, which may be the last."""
        for room in sorted(set(map(room_of, self.verdicts)) - {"cli"}):
            own = [m for m in self.verdicts if room_of(m) == room]
            self.with_test(judge, own_test(room), own, own=True)
            for mutant in own:
                self.verdicts[mutant].finished = last

    def with_verification(self, judge):
        for name in judge.NAMES:
            self.with_test(judge, name, [m for m in self.left()
                                         if room_of(m) in OF_VERIFY])

    def with_transcripts(self, judge):
        """Of the transcripts that evaluate a change, the quickest first."""
        seconds, reached = {}, {}

        def record(name):
            started = time.monotonic()
            try:
                reached[name] = judge.reach(name)
                seconds[name] = time.monotonic() - started
            except Broken:
                pass

        names = judge.names()
        for _ in in_order(self.threads, record, names):
            pass
        print(f"{len(reached)} of {len(names)} transcripts are as written",
              file=sys.stderr, flush=True)

        def work(mutant):
            number, verdict = self.numbers[mutant], self.verdicts[mutant]
            for name in sorted(reached, key=lambda name: seconds[name]):
                if number in reached[name]:
                    verdict.reached += 1
                    if judge.detects(number, name):
                        verdict.by = f"golden/{name}"
                        return
        for _ in in_order(self.threads, work, self.left()):
            pass
        print(f"{len(self.left())} are left", file=sys.stderr, flush=True)

    def with_scripts(self, judge):
        """One script after another, those of the rooms' names first, until
        nothing is left. Some fail in a draw: they count processor time."""
        rooms = set(map(room_of, self.left()))
        for name in sorted(scripts(), key=lambda name: not any(
                room in name for room in rooms)):
            if not self.left():
                return
            try:
                self.with_test(judge, name, self.left())
            except Broken as broken:
                print(f"{name} is left out: {str(broken)[-300:]}",
                      file=sys.stderr)


def report(verdicts):
    """Prints a line for each change and the table of rooms. A draw that was
    stopped has a column of the changes that more tests had to be tried with."""
    table = {}
    for mutant, verdict in sorted(verdicts.items(), key=lambda item: item[0]):
        unfinished = not verdict.by and not verdict.finished
        counts = table.setdefault(room_of(mutant), [0, 0, 0, 0])
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
    folder = os.path.join(BUILD, f"draw_{args.seed}")
    compiler = Compiler(drawn(args), folder, args.threads)
    mutants = compiler.compile()
    print(f"{len(mutants)} of {len(compiler.mutants)} compile", file=sys.stderr,
          flush=True)
    trial = Trial(compiler, mutants, verdicts)
    rooms = set(map(room_of, mutants))
    for room in rooms - {"cli"}:
        compiler.link(own_test(room))
    if not args.only_own or args.verify:
        compiler.link("src/cli/shardc")
    if args.verify:
        compiler.link("tests/detected_faults")
        trial.with_verification(Verification(folder, args.seconds))
    tests = Tests(folder, args.seconds, complete=True)
    trial.with_own(tests, args.only_own)
    if trial.left() and not args.only_own:
        trial.with_transcripts(Transcripts(folder))
        trial.with_scripts(tests)
    for mutant in mutants:
        verdicts[mutant].finished = True


def arguments():
    parser = argparse.ArgumentParser()
    parser.add_argument("number", type=int)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--rooms", default="")
    parser.add_argument("--each", action="store_true")
    parser.add_argument("--verify", action="store_true")
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
            json.dump([[*dataclasses.astuple(m), verdicts[m].by]
                       for m in sorted(verdicts)], file, indent=1)
    return 0


if __name__ == "__main__":
    try:
        sys.exit(main())
    except Broken as error:
        sys.exit(str(error))
