"""How the processor time of each command grows with each size of its input.

    growth.py PROGRAM [--most 100000] [--only TEXT] [--limit SECONDS] [--tries N]
              [-o FILE] [--table FILE]

The cases are those of tests/cli/growth_test.py, which counts instructions at small
sizes. Here each size is doubled up to --most, or until the program refuses the input or
a run takes --limit seconds. Time is that of the processor, of the program and of the
system for it, without what `--version` takes: the least of three runs. The exponent is
that between the largest size and a quarter of it:

    exponent = log4(time(n) / time(n / 4))

It is 1 for linear work. A machine that is busy with something else gives the program
less of the caches, so the three sizes take turns, up to --tries times, until the least
times of each give an exponent within the limit. A case that takes less than a tenth of a
second at its largest size has no exponent. Exits with 1 if an exponent is above 1.2.
"""

import argparse
import json
import math
import os
import subprocess
import sys
import tempfile

ROOT = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..")
LIMIT = 1.2
LEAST_SECONDS = 0.1
RUNS = 3


def seconds(arguments, stdin):
    """Processor time of a run, and its status."""
    with tempfile.TemporaryFile() as given:
        given.write(stdin)
        given.seek(0)
        child = subprocess.Popen(arguments, stdin=given, stdout=subprocess.DEVNULL,
                                 stderr=subprocess.DEVNULL)
        _, status, used = os.wait4(child.pid, 0)
        child.returncode = os.waitstatus_to_exitcode(status)
    return used.ru_utime + used.ru_stime, child.returncode


class Case:
    """The least times of a case by its size."""

    def __init__(self, program, inputs, case, most):
        self.program, self.inputs, self.most = program, inputs, most
        self.what, self.command, self.smallest, self.make = case
        self.times, self.refused = {}, None

    def sizes(self):
        n = self.most
        while n >= 2 * self.smallest:
            n //= 2
        while n <= self.most:
            yield n
            n *= 2

    def run(self, n, limit):
        """Runs one size a few times. Returns whether it is accepted."""
        with tempfile.TemporaryDirectory() as folder:
            files = self.inputs(folder)
            try:
                arguments = [self.program, *map(str, self.make(files, n))]
                for _ in range(RUNS):
                    took, status = seconds(arguments, files.stdin)
                    if status not in (0, 1):
                        return False
                    self.times[n] = min(took, self.times.get(n, took))
                    if took > limit:
                        break
            except (OSError, subprocess.CalledProcessError):
                return False  # such as more arguments than a process may have
        return True

    def measure(self, start, limit, tries):
        for n in self.sizes():
            if not self.run(n, limit):
                self.refused = n
                break
            if self.times[n] > limit:
                break
        for _ in range(tries):
            if (self.exponent(start) or 0) <= LIMIT:
                break
            for n in list(self.times)[-3:]:
                self.run(n, limit)

    def exponent(self, start):
        """None if it takes too little time."""
        if len(self.times) < 3:
            return None
        quarter, _, largest = list(self.times.values())[-3:]
        if largest - start < LEAST_SECONDS:
            return None
        return math.log((largest - start) / max(quarter - start, 1e-3), 4)

    def row(self, start):
        largest = max(self.times, default=0)
        grown = self.exponent(start)
        return [self.command, self.what, f"{largest:,}",
                f"{self.times.get(largest, 0):.2f} s",
                "-" if grown is None else f"{grown:.2f}",
                f"{self.refused:,}" if self.refused else ""]


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n", maxsplit=1)[0])
    parser.add_argument("program")
    parser.add_argument("--most", type=int, default=100_000)
    parser.add_argument("--limit", type=float, default=20)
    parser.add_argument("--tries", type=int, default=5)
    parser.add_argument("--only", default="")
    parser.add_argument("-o", "--output", help="file for the measured times, in JSON")
    parser.add_argument("--table", help="file for the table, in Markdown")
    flags = parser.parse_args()
    os.environ["SHARDC_BIN"] = os.path.abspath(flags.program)
    os.environ.setdefault("SHARDC_SOURCE_ROOT", ROOT)
    sys.path.insert(0, os.path.join(ROOT, "tests", "cli"))
    import growth_test

    program = os.environ["SHARDC_BIN"]
    start = min(seconds([program, "--version"], b"")[0] for _ in range(20))
    cases, rows, worst = [], [], 0
    for case in growth_test.CASES:
        if flags.only not in f"{case[1]}: {case[0]}":
            continue
        one = Case(program, growth_test.Inputs, case, flags.most)
        one.measure(start, flags.limit, flags.tries)
        grown = one.exponent(start)
        worst = max(worst, grown or 0)
        rows.append(one.row(start))
        cases.append({"command": one.command, "size": one.what, "times": one.times,
                      "refused": one.refused, "exponent": grown})
        print("{:22} {:38} {:>9} {:>9} {:>6} {}".format(*rows[-1]), flush=True)
    if flags.output:
        with open(flags.output, "w", encoding="utf-8") as file:
            json.dump(cases, file, indent=1)
    if flags.table:
        with open(flags.table, "w", encoding="utf-8") as file:
            head = ["command", "what grows", "largest", "time", "exponent", "refused from"]
            for row in (head, ["---"] * len(head), *rows):
                file.write("| " + " | ".join(row) + " |\n")
    print(f"the largest exponent is {worst:.2f}, of at most {LIMIT}")
    return 1 if worst > LIMIT else 0


if __name__ == "__main__":
    sys.exit(main())
