"""Reading a compiled program's text: `audit` against reading the bytes and
counting their line breaks, in processor time, and its memory against the file.

The texts are programs of testdata/audit, repeated under other names.
"""

import gzip
import os
import re
import subprocess
import sys
import tempfile
import time

HERE = os.path.dirname(os.path.abspath(__file__))
PROGRAMS = os.path.join(HERE, "..", "testdata", "audit")
SIZE = 100_000_000
SOURCES = {"unrolled layers": "executed/unrolled",
           "a Flax model": "executed/linen_adam",
           "TPU, unrolled layers": "tpu/v5p.unrolled"}
COUNT, FILE = "floor: read, count line breaks", "the file's bytes"
NAME = re.compile(r"%([\w.-]+)")
# Runs the program and prints its processor time and peak memory.
MEASURE = """
import resource, subprocess, sys
done = subprocess.run(sys.argv[1:], stdout=subprocess.DEVNULL)
used = resource.getrusage(resource.RUSAGE_CHILDREN)
print(done.returncode, used.ru_utime + used.ru_stime, used.ru_maxrss)
"""


def repeated(text, path):
    """Writes copies of all computations, and an entry that calls each copy of
    the entry."""
    begin = text.index("\n%") + 1
    head, body = text[:begin], text[begin:]
    entry = body[body.index("ENTRY %"):]
    name, params, result = re.match(
        r"ENTRY %([\w.-]+) \((.*)\) -> (.*) \{", entry).groups()
    lines = sorted((line for line in entry.splitlines()
                    if " parameter(" in line),
                   key=lambda line: int(re.search(
                       r" parameter\((\d+)\)", line).group(1)))
    parts = NAME.split(body.replace("ENTRY %", "%"))
    with open(path, "w", encoding="utf-8") as out:
        out.write(head)
        copies, written = 0, 0
        while written < SIZE:
            copy = "".join("%%%s.c%d" % (part, copies) if i % 2 else part
                           for i, part in enumerate(parts)) + "\n"
            written += len(copy)
            out.write(copy)
            copies += 1
        out.write("ENTRY %%all (%s) -> %s {\n" % (params, result))
        out.write("".join(line + "\n" for line in lines))
        operands = ", ".join("%" + NAME.search(line).group(1)
                             for line in lines)
        for i in range(copies):
            out.write("  %s%%call.%d = %s call(%s), to_apply=%%%s.c%d\n" % (
                "ROOT " if i + 1 == copies else "", i, result, operands, name,
                i))
        out.write("}\n")


class Suite:
    def __init__(self, build):
        self.program = os.path.join(build, "src", "cli", "shardc")

    def __enter__(self):
        self.folder = tempfile.TemporaryDirectory()
        self.paths = {}
        for name, source in SOURCES.items():
            with gzip.open(os.path.join(PROGRAMS, source + ".hlo.txt.gz"),
                           "rt", encoding="utf-8") as file:
                text = file.read()
            self.paths[name] = os.path.join(
                self.folder.name, name.replace(" ", "_") + ".txt")
            repeated(text, self.paths[name])
        return self

    def __exit__(self, *_):
        self.folder.cleanup()

    def rows(self):
        out = []
        for name in SOURCES:
            out.append({"name": "time, " + name, "program": name,
                        "against": COUNT, "rate": False, "unit": "s"})
            out.append({"name": "memory, " + name, "program": name,
                        "against": FILE, "target": 0.5, "rate": False,
                        "unit": "byte"})
        return out

    def round(self, spec):
        path = self.paths[spec["program"]]
        done = subprocess.run(
            [sys.executable, "-c", MEASURE, self.program, "audit", path,
             "--mesh", "dp:2,fsdp:2,tp:2", "--by", "kind"],
            stdout=subprocess.PIPE, check=True, encoding="utf-8")
        status, seconds, kib = done.stdout.split()
        if status not in ("0", "1"):
            return {"absent": "exit " + status}
        if spec["against"] == FILE:
            return {"ours": int(kib) * 1024, "against": os.path.getsize(path)}
        before = time.process_time()
        with open(path, "rb", buffering=0) as file:
            lines = file.read().count(b"\n")
        assert lines
        return {"ours": float(seconds),
                "against": time.process_time() - before}
