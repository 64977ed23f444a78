"""Measures whether `verify`, its fault catalogue and the tests detect small changes to
the executor, the judge and the dense reference; with `--rooms`, whether each
other room's tests detect changes to that room.

    tests/mutation/trial.py [--rooms] [--sample N] [--only TEXT] [--after N]
                            [--threads N] [--all]

Each of their changes, which changes/ lists, becomes `(Mutant(17) ? new : old)`
in a copy of its source; the copies are compiled and linked once, before the
build's own library, and SHARDC_MUTANT=17 switches one on. A line reports what
detected it: the matrices of `shardc verify`, tests/detected_faults, or the tests of
exec, dense and verify; only the first of them without `--all`. Verify itself must detect those
that have no reason in the list, the tests those whose reason is that only they
do, and nothing may detect the others; otherwise the exit status is 1.

With `--rooms` the changes are those of other rooms. A change of src/cost is
detected by the test program cost_test, unless the list names the test that
detects it or the reason why none can. docs/source.md has the counts by room.

`--sample N` takes N that verify itself must detect, others wherever the sources
or the list differ, and runs no tests, or with `--rooms` N of one room; `--after N` continues
a run that was stopped; `--check` only checks whether every change applies.
"""

import argparse
import concurrent.futures
import os
import sys
import time
import zlib

from changes import MUTANTS, ROOM_MUTANTS
from compiling import (BUILD, ROOT, Broken, Compiler, Mutant, Place,
                       overlapping, sources)
from judges import TESTS, Judges, RoomTests, own_test, test_of


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
    compiler = Compiler(mutants, alone=args.sample > 0)
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
                        ("catalogue", judges.catalogue),
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
    compiler = Compiler(mutants, alone=args.sample > 0)
    compiler.build(["src/cli/shardc", "tests/detected_faults"] + (
        [] if args.sample else [f"tests/{name}_test" for name in TESTS]))
    judges = Judges(args.seconds)
    if any(right is None or "fail" in [status for _, status in right]
           for right in judges.right):
        raise Broken("the unchanged program fails")
    # A sample takes its few changes from a list that was tried as a whole.
    if not args.sample and judges.catalogue(0):
        raise Broken("the unchanged program misses a fault of the catalogue")
    started = time.monotonic()
    missed, count = [], {"matrix": 0, "catalogue": 0, "tests": 0}

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
    by_verify = count["matrix"] + count["catalogue"]
    print(f"{changing} changes of a result: matrices detected {count['matrix']}, "
          f"the catalogue {count['catalogue']}, tests {count['tests']}"
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
