"""Counts the places in src that add a finding whose words no test has.

A place is a call with a code, such as `findings.Add(code::kSchema, place,
"a spec is a list")`. It is named if the longest literal of its message is in a
test or in a file that a test compares with: testdata/golden, testdata/tables.
The number of others may only fall; `--list` prints them.
"""

import glob
import os
import re
import sys
import unittest

ROOT = os.environ.get(
    "SHARDC_SOURCE_ROOT",
    os.path.abspath(os.path.join(os.path.dirname(__file__), "..")))
# Of some 730 places.
MOST_UNNAMED = 80
LITERAL = re.compile(
    r'"((?:[^"\\\n]|\\.)*)"|R"(\w*)\((.*?)\)\2"', re.S)
CALL = re.compile(r"\b\w+\(\s*(?=code::k\w+|\w+ \? code::k\w+)")
TEXTS = ("tests/**/*.cc", "tests/**/*.h", "tests/**/*.py",
         "testdata/golden/**/*.txt", "testdata/tables/*.txt")


def unescaped(text):
    return (text.replace('\\"', '"').replace("\\'", "'")
            .replace("\\n", "\n").replace("\\\\", "\\"))


def read(path):
    with open(path, encoding="utf-8", errors="replace") as file:
        return file.read()


def arguments(text, at):
    """Those of the call whose parenthesis ends before `at`."""
    depth, begin, out = 0, at, []
    while at < len(text):
        skipped = (LITERAL.match(text, at) or
                   re.compile(r"'(\\.|[^'\\])'").match(text, at))
        if skipped:
            at = skipped.end()
            continue
        if text[at] in ")]}" and depth == 0:
            break
        depth += (text[at] in "([{") - (text[at] in ")]}")
        if text[at] == "," and depth == 0:
            out.append(text[begin:at])
            begin = at + 1
        at += 1
    return out + [text[begin:at]]


def literals(argument):
    """Texts of its literals, those that follow each other joined."""
    out, last = [], None
    for found in LITERAL.finditer(argument):
        text = (unescaped(found[1]) if found[1] is not None else found[3])
        if last is not None and not argument[last:found.start()].strip():
            out[-1] += text
        else:
            out.append(text)
        last = found.end()
    return out


def places():
    """(file, line, longest literal of the message) of each place."""
    for path in sorted(glob.glob(os.path.join(ROOT, "src/**/*.cc"),
                                 recursive=True)):
        text = re.sub(r"(?m)^\s*//.*$", "", read(path))
        for call in CALL.finditer(text):
            message = next(filter(None, map(
                literals, arguments(text, call.end())[1:])), [""])
            line = text.count("\n", 0, call.start()) + 1
            words = max((re.sub(r"\s+", " ", one).strip('`" ')
                         for one in message), key=len)
            yield os.path.relpath(path, ROOT), line, words


def corpus():
    out = []
    for pattern in TEXTS:
        for path in glob.glob(os.path.join(ROOT, pattern), recursive=True):
            if os.path.abspath(path) == os.path.abspath(__file__):
                continue
            text = read(path)
            if not path.endswith(".txt"):
                text = re.sub(r"\"\s*\n\s*f?r?\"|'\s*\n\s*f?r?'", "", text)
                text = unescaped(text)
            out.append(re.sub(r"\s+", " ", text))
    return "\n".join(out)


def unnamed():
    """Places with words of their own; others get their message from a call."""
    tests = corpus()
    return [place for place in places()
            if len(place[2]) > 5 and place[2] not in tests]


class Diagnostics(unittest.TestCase):
    def test_most_messages_are_named_by_a_test(self):
        self.assertGreater(sum(1 for _ in places()), 600)
        found = unnamed()
        self.assertLessEqual(
            len(found), MOST_UNNAMED,
            "a new message needs a test; without one are now\n" +
            "\n".join(f"{file}:{line}: {words}"
                      for file, line, words in found))


if __name__ == "__main__":
    if sys.argv[1:] == ["--list"]:
        for one in unnamed():
            print("{}:{}: {}".format(*one))
    else:
        unittest.main()
