"""Rule sets in Python, and what Python itself reads from them."""

import contextlib
import io
import os
import sys

from driver import BIN, ROOT, Case, Result

sys.path.insert(0, os.path.join(ROOT, "python"))
from shardc import import_python  # noqa: E402

A, B = "('a', P('x'))", "('b', P('y'))"


class Spec(tuple):
    pass


def leaves(tree, path=()):
    if isinstance(tree, Spec):
        yield "/".join(path), list(tree)
    elif tree is not None:
        parts = (tree if isinstance(tree, dict) else
                 dict(enumerate(tree)) if isinstance(tree, list) else
                 vars(tree))
        for key, part in parts.items():
            yield from leaves(part, (*path, str(key)))


def as_python(source):
    """What Python has in R or gets from rules()."""
    names = {"P": lambda *entries: Spec(entries)}
    exec(source, names)  # ours, from the table above
    rules = names["rules"]() if "rules" in names else names["R"]
    return [[pattern, list(spec)] for pattern, spec in rules]


class Done:
    """As subprocess.CompletedProcess."""


def imported(*flags, stdin=""):
    """python -m shardc.import_python in this process."""
    os.environ["SHARDC"] = BIN
    done = Done()
    out, err = io.StringIO(), io.StringIO()
    before = sys.stdin
    sys.stdin = io.TextIOWrapper(io.BytesIO(
        stdin if isinstance(stdin, bytes) else stdin.encode()))
    try:
        with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
            done.returncode = import_python.main([str(one) for one in flags])
    except SystemExit as end:  # of argparse
        done.returncode = end.code
    finally:
        sys.stdin = before
    done.stdout, done.stderr = out.getvalue(), err.getvalue()
    return Result(done)


class PythonCase(Case):
    def read(self, source, rc=0, *flags):
        return self.check(imported("-", "--format", "json", *flags,
                                   stdin=source), rc)

    def rules(self, source, *flags):
        return [[rule["match"], rule["spec"]]
                for rule in self.read(source, 0, *flags).json()["rules"]]
