"""Small changes of single expressions, one file for each room or part of one.

A row is a file below src, a line that stands once in it without indentation,
an expression or a call that stands once in the line, what it becomes (nothing:
the call is left out), and what has to detect the change:

- of the rooms of `verify`: nothing, where `shardc verify` itself must; "tests",
  where only the room's tests can; or, in words, why no check can;
- of other rooms: nothing, where the room's own test program must; the test that
  must, as "plan_test" or "tests/cli/diff_test.py"; or why no test can.
"""

import importlib
import os

# Why a change of a result passes verify: it shows where no case leads.
ONLY_TESTS = "tests"
OF_VERIFY = ("dense", "exec_attention", "exec_machine", "exec_operations",
             "exec_pages", "verify")


def files():
    """Names of the files of rows, sorted."""
    return sorted(name[:-3] for name in os.listdir(os.path.dirname(__file__))
                  if name.endswith(".py") and name != "__init__.py")


def rows(names):
    return [row for name in names
            for row in importlib.import_module(f"changes.{name}").ROWS]


MUTANTS = rows(OF_VERIFY)
ROOM_MUTANTS = rows(name for name in files() if name not in OF_VERIFY)
