"""What people see, letter by letter: every file of testdata/golden is a
transcript (see transcript.py) that a run of today gives again.

`golden_test.py --write [NAME...]` puts the output of now into the files, to
be read before it is committed; `--first` names the first file that differs.
The files of codes/ from SHD100 on are made of the findings' own examples, so a
new finding gets its file by the same command.
"""

import concurrent.futures
import difflib
import os
import sys
import unittest

import code_examples
import transcript
from driver import BIN, ROOT, TESTDATA, is_sanitized, one_in

GOLDEN = os.path.join(TESTDATA, "golden")
SHOWN = 60  # lines of a difference
HINT = "tests/cli/golden_test.py --write writes what is printed now\n"


def read(name):
    path = os.path.join(GOLDEN, name)
    if not os.path.exists(path):
        return ""
    with open(path, encoding="utf-8", newline="") as file:
        return file.read()


def made():
    """Files whose commands come from the program: name to sections."""
    with concurrent.futures.ThreadPoolExecutor(os.cpu_count()) as pool:
        codes = list(filter(code_examples.is_finding, code_examples.codes(BIN)))
        return dict(zip(
            (f"codes/{code}.txt" for code in codes),
            pool.map(lambda code: list(code_examples.sections(BIN, code)),
                     codes)))


def written():
    """Names of all files there."""
    return sorted(
        os.path.relpath(os.path.join(folder, name), GOLDEN)
        for folder, _, names in os.walk(GOLDEN) for name in names)


def run_all(names, every=1):
    """(name, text that is there, text that a run gives) of each file."""
    sections = made()
    for name in written():
        sections.setdefault(name, None)
    jobs = []
    for name in sorted(sections)[::every]:
        if names and not any(wanted in name for wanted in names):
            continue
        parts = sections[name]
        jobs.append((name, transcript.parse(read(name)) if parts is None
                     else parts))
    runner = transcript.Runner(BIN, ROOT)
    pool = concurrent.futures.ThreadPoolExecutor(os.cpu_count())
    try:
        texts = [[pool.submit(runner.section, part, transcript.head(parts))
                  for part in parts] for _, parts in jobs]
        for (name, _), text in zip(jobs, texts):
            now = "\n".join(part.result().rstrip("\n") + "\n"
                            for part in text)
            yield name, read(name), now
    finally:
        pool.shutdown(cancel_futures=True)


def write(names):
    for name, before, now in run_all(names):
        if before == now:
            continue
        path = os.path.join(GOLDEN, name)
        os.makedirs(os.path.dirname(path), exist_ok=True)
        with open(path, "w", encoding="utf-8", newline="") as file:
            file.write(now)
        print(name)


def first():
    """The first file that differs, or nothing."""
    return next((name for name, before, now in run_all([])
                 if before != now), None)


class Golden(unittest.TestCase):
    def test_every_file_is_what_a_run_prints(self):
        count = 0
        every = one_in(8 if is_sanitized() else 1)
        for name, before, now in run_all([], every):
            count += 1
            with self.subTest(name):
                lines = list(difflib.unified_diff(
                    before.splitlines(True), now.splitlines(True),
                    f"testdata/golden/{name}", "what is printed now"))
                more = [f"... {len(lines) - SHOWN} more lines\n"] \
                    if len(lines) > SHOWN else []
                if lines:
                    self.fail("\n" + "".join(lines[:SHOWN] + more) + HINT)
        self.assertGreater(count, 90 // every)

    def test_every_code_has_a_file(self):
        self.assertEqual(
            sorted(f"codes/{code}.txt" for code in code_examples.codes(BIN)),
            [name for name in written() if name.startswith("codes/")])


if __name__ == "__main__":
    if sys.argv[1:2] == ["--write"]:
        write(sys.argv[2:])
    elif sys.argv[1:2] == ["--first"]:
        sys.exit(first())
    else:
        unittest.main()
