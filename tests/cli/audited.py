"""Runs `shardc audit` over programs of testdata/audit, which JAX compiled."""

import gzip
import os

from described import DescribedCase
from driver import TESTDATA, run

FOLDER = os.path.join(TESTDATA, "audit")
MESH = ["--mesh", "dp:2,fsdp:2,tp:2"]


def path(name):
    return os.path.join(FOLDER, name + ".hlo.txt.gz")


def text(name):
    with gzip.open(path(name), "rt", encoding="utf-8") as file:
        return file.read()


class AuditCase(DescribedCase):
    SCHEMA = "audit"

    def audit(self, program, *args, stdin=""):
        return self.described(run("audit", program, *args, "--format", "json",
                                  stdin=stdin), 0)

    def refused(self, *args, stdin="", said=""):
        done = self.check(run("audit", *args, stdin=stdin), 2)
        self.assertEqual(done.out, "")
        self.assertEqual(done.err.count("error["), 1, done.err)
        self.assertIn("-->", done.err)
        self.assertIn("help:", done.err)
        self.assertIn(said, done.err)
