"""The Python side of the suite `match`: which rule is found first, alone.

match_names.py PATTERNS NAMES STEP, each file with one a line: takes each
STEP-th name. Prints seconds of processor time for all names as if all had
been taken, and the rules. Up to 512 patterns `re` keeps what it compiled, as
in the loop that users run; more are compiled beforehand, once.
"""

import json
import re
import sys
import time

KEPT = 512


def main():
    patterns_file, names_file, step = sys.argv[1:]
    with open(patterns_file) as source:
        patterns = source.read().splitlines()
    with open(names_file) as source:
        names = source.read().splitlines()
    taken = names[::int(step)]
    if len(patterns) > KEPT:
        searches = [re.compile(pattern).search for pattern in patterns]

        def first(name):
            for index, search in enumerate(searches):
                if search(name):
                    return index
            return -1
    else:
        def first(name):
            for index, pattern in enumerate(patterns):
                if re.search(pattern, name):
                    return index
            return -1
    found = [first(name) for name in taken]
    calls = []
    start = time.process_time()
    while not calls or time.process_time() - start < 0.06:
        before = time.process_time()
        for name in taken:
            first(name)
        calls.append(time.process_time() - before)
    calls.sort()
    seconds = calls[len(calls) // 2] * len(names) / len(taken)
    json.dump({"seconds": seconds, "first": found}, sys.stdout)


main()
