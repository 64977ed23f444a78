"""Runs the systems and writes their results to testdata/runtimes.

Usage: record.py [FAMILY...], the families being the files
FAMILY_answers.py; each runs in the environment of its system.
"""

import importlib
import os
import subprocess
import sys

import environment
import live
import records


def record(family):
    """In the environment of the family's system."""
    for name, answers in importlib.import_module(
            family + "_answers").record():
        print(f"{name}: {records.save(name, answers)} bytes", flush=True)


def main():
    if sys.argv[1:2] == ["--here"]:
        record(sys.argv[2])
        return
    recorded = [family for family in live.FAMILIES if os.path.exists(
        os.path.join(records.HERE, family + "_answers.py"))]
    for family in sys.argv[1:] or recorded:
        subprocess.run(
            [environment.python(live.FAMILIES[family]),
             os.path.abspath(__file__), "--here", family],
            check=True, cwd=records.HERE)


if __name__ == "__main__":
    main()
