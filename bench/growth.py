"""How the processor time of each command grows with each size of its input.

    growth.py PROGRAM [--most 100000] [--only TEXT] [--limit SECONDS] [-o FILE]

The cases are those of tests/cli/growth_test.py, which counts instructions at small
sizes. Here each size is doubled up to --most, or until a run takes --limit seconds. Of
each, the least of three runs counts. The exponent is that between the largest size and
a quarter of it, without what a run of the smallest size takes:

    exponent = log4((time(n) - time(smallest)) / (time(n / 4) - time(smallest)))

It is 1 for linear work. A case whose times differ by less than a twentieth of a second
does not grow. Exits with 1 if an exponent is above 1.2.
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
RUNS = 3


def seconds(arguments, stdin):
    """Processor time of a run in user mode, and its status."""
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
            try:
                runs = [seconds(arguments, files.stdin) for _ in range(RUNS)]
            except OSError:  # more arguments than a process may have
                break
        took, status = min(runs)
        if status not in (0, 1):
            refused = n
            break
        times[n] = took
        if took > limit:
            break
        n *= 2
    return times, refused


def exponent(times):
    """None if the work does not grow."""
    if len(times) < 4:
        return None
    smallest, *_, quarter, _, largest = times.values()
    if largest - smallest < LEAST_SECONDS:
        return None
    return math.log((largest - smallest) / max(quarter - smallest, 1e-3), 4)


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
