"""Counts what the last `meson test` of build folders ran, case by case.

Usage: count.py BUILD [BUILD...]. The first folder's cases are the count; the
others run the same cases built otherwise, so only their failures are added.
The last line is `N passed, N failed`; exit 1 when any failed or none ran.
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
# What a program that runs recorded cases says of them, family by family.
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


def total(build):
    passed = failed = 0
    path = os.path.join(build, "meson-logs", "testlog.json")
    if not os.path.exists(path):
        return 0, 1  # no test ran
    with open(path, encoding="utf-8") as log:
        for line in log:
            more = counts(json.loads(line))
            passed += more[0]
            failed += more[1]
    return passed, failed


def main():
    results = [total(build) for build in sys.argv[1:]]
    for build, (passed, failed) in zip(sys.argv[1:], results):
        print(f"{build}: {passed} passed, {failed} failed")
    passed = results[0][0]
    failed = sum(result[1] for result in results)
    print(f"{passed} passed, {failed} failed")
    sys.exit(1 if failed or not passed else 0)


if __name__ == "__main__":
    main()
