"""Counts what the last `meson test` of build folders ran, case by case.

Usage: count.py BUILD [BUILD...]. Of a program that ran in several folders, built
otherwise, the first one's cases are the count, and every failure counts.
Before the counts stands the end of what each program printed that failed. The
last line is `N passed, N failed`; exit 1 when any failed or none ran.
"""

import json
import os
import re
import sys

DOCTEST = re.compile(
    r"^\[doctest\] test cases:\s*\d+ \|\s*(\d+) passed \|\s*(\d+) failed",
    re.M)
UNITTEST = re.compile(r"^Ran (\d+) tests? in ", re.M)
UNITTEST_BAD = re.compile(r"^FAILED \((.*)\)$", re.M)
UNITTEST_SKIPPED = re.compile(r"\bskipped=(\d+)")
# How many lines of a failed program's output are shown.
SHOWN_LINES = 60
# The counts that a program prints for recorded cases, family by family.
RECORDED = re.compile(r": (\d+) passed, (\d+) failed\b")


def unittest_counts(text):
    """Passed and failed; a skipped test is neither."""
    passed = failed = 0
    for ran in UNITTEST.finditer(text):
        passed += int(ran.group(1))
    for bad in UNITTEST_BAD.finditer(text):
        failed += sum(int(n) for kind, n in
                      re.findall(r"(\w+)=(\d+)", bad.group(1))
                      if kind in ("failures", "errors"))
    for skipped in UNITTEST_SKIPPED.finditer(text):
        passed -= int(skipped.group(1))
    return passed - failed, failed


def counts(entry):
    """(passed, failed) of one test program."""
    text = (entry.get("stdout") or "") + "\n" + (entry.get("stderr") or "")
    passed, failed = unittest_counts(text)
    for pattern in (DOCTEST, RECORDED):
        for match in pattern.finditer(text):
            passed += int(match.group(1))
            failed += int(match.group(2))
    if entry["result"] == "SKIP":
        return 0, 0
    if entry["result"] not in ("OK", "EXPECTEDFAIL"):
        return passed, max(failed, 1)  # a crash counts as a failure
    says_counts = any(pattern.search(text)
                      for pattern in (DOCTEST, UNITTEST, RECORDED))
    return (passed if says_counts else 1), failed


def entries_of(build):
    """What meson recorded of each test program of one build."""
    path = os.path.join(build, "meson-logs", "testlog.json")
    if not os.path.exists(path):
        return [{"name": "no test ran", "result": "ERROR"}]
    with open(path, encoding="utf-8") as log:
        return [json.loads(line) for line in log]


def show_failed(build, entries):
    """Prints which programs failed, and the end of what they printed."""
    for entry in entries:
        if not counts(entry)[1]:
            continue
        print(f"failed in {build}: {entry['name']} ({entry['result']})")
        for stream in ("stdout", "stderr"):
            for line in (entry.get(stream) or "").splitlines()[-SHOWN_LINES:]:
                print("    " + line)


def total(results):
    return (sum(passed for passed, _ in results),
            sum(failed for _, failed in results))


def main():
    builds = {}
    for build in sys.argv[1:]:
        entries = entries_of(build)
        show_failed(build, entries)
        builds[build] = {entry["name"]: counts(entry) for entry in entries}
    once = {}
    for build, programs in builds.items():
        print("{}: {} passed, {} failed".format(
            build, *total(programs.values())))
        for name, (passed, _) in programs.items():
            once.setdefault(name, passed)
    passed = sum(once.values())
    failed = sum(total(programs.values())[1] for programs in builds.values())
    print(f"{passed} passed, {failed} failed")
    sys.exit(1 if failed or not passed else 0)


if __name__ == "__main__":
    main()
