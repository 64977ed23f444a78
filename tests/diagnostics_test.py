"""Counts the places in src that add a finding whose words no test has.

A place is a call with a code, such as `findings.Add(code::kSchema, place,
"a spec is a list")`. It is named if the longest literal of its message is in a
test or in a file that a test compares with: testdata/golden, testdata/tables.
Each other is in UNREACHED, with the reason why no input of a test gets there;
`--list` prints those that are not.
"""

import glob
import os
import re
import sys
import unittest

ROOT = os.environ.get(
    "SHARDC_SOURCE_ROOT",
    os.path.abspath(os.path.join(os.path.dirname(__file__), "..")))
# Proofs that a run makes of its own result, which fail by a mistake of the
# program alone; what only more memory or time than a test has would show; and
# what an earlier check refuses, where the later one guards against its absence.
UNREACHED = {
    "the written plan differs from what the project compiles to":
        "a proof: the files that `init` writes give the plan that it writes",
    "the stages of a pipeline are run by one process":
        "only a build with MPI has several processes",
    "the loss is no mean over tokens":
        "every loss that a `model:` section can name is a mean over tokens",
    "belongs to two arrays of the checkpoint":
        "each reader of `stored` refuses two arrays of one name before",
    "would be there":
        "families count by sizes of the configuration, all at least 1",
    "a module is a call":
        "descriptions of families are embedded, and a test reads them all",
    "the values of the configuration cannot be read":
        "each value is written as JSON of its type",
    "has no keys that state a plan":
        "each description of a system has `export`",
    "ranks, and there are":
        "the checks of each system refuse sizes with which its grids differ",
    "the axis of the pipeline is not one axis of the mesh":
        "all grids of a system have the same axis of stages at the same place",
    "the JSON is over 4 GiB long": "a file of text has at most 2 GiB",
    "not well-formed JSON:":
        "the JSON library reports errors of a text to the reader, and throws "
        "none",
    "the JSON holds more than": "67,108,864 values take a gibibyte",
    "a program has at most": "16,777,216 values take a gibibyte",
    "the B-tree's nodes decode to more than": "takes a gibibyte",
    "cannot read back":
        "a part of 32,768 pieces that several threads write out of order",
    "the plan shards the logical names in too many ways to find an order of "
    "their rules": "20,000,000 pairs of a rule and a group take seconds",
}
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


def unexplained():
    return [place for place in unnamed() if place[2] not in UNREACHED]


class Diagnostics(unittest.TestCase):
    def test_messages_are_named_by_a_test(self):
        self.assertGreater(sum(1 for _ in places()), 600)
        found = unexplained()
        self.assertEqual(
            len(found), 0,
            "a new message needs a test; without one are now\n" +
            "\n".join(f"{file}:{line}: {words}"
                      for file, line, words in found))

    def test_no_reason_is_stale(self):
        self.assertEqual({words for _, _, words in unnamed()} & set(UNREACHED),
                         set(UNREACHED),
                         "a message with a reason is gone, or a test names it")


if __name__ == "__main__":
    if sys.argv[1:] == ["--list"]:
        for one in unexplained():
            print("{}:{}: {}".format(*one))
    else:
        unittest.main()
