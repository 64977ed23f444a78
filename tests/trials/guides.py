#!/usr/bin/env python3
"""The guides of a first hour as their readers follow them: every command of a page,
in an empty folder, with the `shardc` and the `python3` that PATH has.

    PATH=env/bin:$PATH python3 tests/trials/guides.py PAGE...

Each command is printed with its time. Exits with 1 if one prints something else
than its page, or ends with another exit status. `tests/cli/readme_test.py` runs
what needs shardc alone.
"""

import argparse
import os
import subprocess
import sys
import tempfile
import time

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)),
                                "..", "cli"))

from page_sessions import (  # noqa: E402
    blocks,
    changed_folder,
    fits,
    needed,
    session,
    status,
)


def commands(page):
    with open(page, encoding="utf-8") as file:
        text = file.read()
    for block in blocks(text, "console"):
        yield from session(block)


def run(page, env, folder, kept=None):
    """(command, seconds, what differs) of each command. Files named in `kept`, by
    name, are read after the page has run."""
    at = folder
    for command, expected in commands(page):
        below = changed_folder(command)
        if below is not None:
            at = os.path.normpath(os.path.join(at, below))
            continue
        begin = time.monotonic()
        done = subprocess.run(
            ["sh", "-c", "exec 2>&1\n" + command], cwd=at, env=env, text=True,
            check=False, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
            timeout=1800)
        seconds = time.monotonic() - begin
        wrong = ""
        if done.returncode != status(command):
            wrong = (f"exits with {done.returncode} in place of "
                     f"{status(command)}:\n{done.stdout}")
        elif not fits(done.stdout, expected):
            wrong = "prints\n" + done.stdout + "in place of\n" + "".join(
                line + "\n" for line in expected)
        yield command, seconds, wrong
    for name in kept or ():
        with open(os.path.join(folder, name), "rb") as file:
            kept[name] = file.read()


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n\n", 1)[0])
    parser.add_argument("pages", nargs="+", metavar="PAGE")
    options = parser.parse_args()
    env = dict(os.environ, TERM="dumb", PYTHONDONTWRITEBYTECODE="1")
    failed = False
    for page in options.pages:
        total = count = 0
        print(os.path.basename(page))
        with tempfile.TemporaryDirectory() as folder:
            for command, seconds, wrong in run(page, env, folder):
                first = command.splitlines()[0]
                mark = "  " if not needed(command) else "* "
                print(f"{seconds:8.2f} s {mark}{first}", flush=True)
                total, count = total + seconds, count + 1
                if wrong:
                    failed = True
                    print(wrong)
        print(f"{total:8.2f} s   {count} commands")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
