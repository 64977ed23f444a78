"""How the processor time of each command grows with each size of its input.

    growth.py PROGRAM [--most 100000] [--only TEXT] [--limit SECONDS] [-o FILE]

The cases are those of tests/cli/growth_test.py, which counts instructions at small
sizes. Here each size is doubled up to --most, or until a run takes --limit seconds, and
the last three that were accepted give the exponent:

    exponent = log2((time(4n) - time(2n)) / (time(2n) - time(n)))

It is 1 for linear work. What every run costs is left out by the differences, and a case
whose times differ by less than a twentieth of a second does not grow. Exits with 1 if
an exponent is above 1.2.
"""

import argparse
import json
import math
import os
import resource
import subprocess
import sys
import tempfile

ROOT = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..")
LIMIT = 1.2
LEAST_SECONDS = 0.05


def seconds(arguments, stdin):
    """Processor time of a run in user mode, its greatest memory in MB and its status."""
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    done = subprocess.run(arguments, input=stdin, stdout=subprocess.DEVNULL,
                          stderr=subprocess.PIPE, check=False)
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    return after.ru_utime - before.ru_utime, done.returncode


def measure(program, inputs, case, most, limit):
    """The sizes that are accepted and their times, and the first that is refused."""
    _, _, n, make = case
    times, refused = {}, None
    while n <= most:
        with tempfile.TemporaryDirectory() as folder:
            files = inputs(folder)
            arguments = [program, *map(str, make(files, n))]
            took, status = seconds(arguments, files.stdin)
        if status not in (0, 1):
            refused = n
            break
        times[n] = took
        if took > limit:
            break
        n *= 2
    return times, refused


def exponent(times):
    """Of the last three sizes; None if the work does not grow."""
    if len(times) < 3:
        return None
    first, second, third = list(times.values())[-3:]
    if third - second < LEAST_SECONDS or second - first < LEAST_SECONDS / 4:
        return None
    return math.log2((third - second) / (second - first))


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n", maxsplit=1)[0])
    parser.add_argument("program")
    parser.add_argument("--most", type=int, default=100_000)
    parser.add_argument("--limit", type=float, default=4)
    parser.add_argument("--only", default="")
    parser.add_argument("-o", "--output", help="file for the measured times, in JSON")
    flags = parser.parse_args()
    os.environ["SHARDC_BIN"] = os.path.abspath(flags.program)
    os.environ.setdefault("SHARDC_SOURCE_ROOT", ROOT)
    sys.path.insert(0, os.path.join(ROOT, "tests", "cli"))
    import growth_test

    rows, worst = [], 0
    for case in growth_test.CASES:
        name = f"{case[1]}: {case[0]}"
        if flags.only not in name:
            continue
        times, refused = measure(os.environ["SHARDC_BIN"], growth_test.Inputs, case,
                                 flags.most, flags.limit)
        grown = exponent(times)
        worst = max(worst, grown or 0)
        largest = max(times, default=0)
        rows.append({"case": name, "times": times, "refused": refused,
                     "exponent": grown})
        print(f"{name:54} {largest:>8,} {times.get(largest, 0):>7.2f} s "
              f" {'flat' if grown is None else f'{grown:.2f}'}"
              f"{f'  refused from {refused:,}' if refused else ''}", flush=True)
    if flags.output:
        with open(flags.output, "w", encoding="utf-8") as file:
            json.dump(rows, file, indent=1)
    print(f"the largest exponent is {worst:.2f}, of at most {LIMIT}")
    return 1 if worst > LIMIT else 0


if __name__ == "__main__":
    sys.exit(main())
