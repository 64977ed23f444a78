"""What a program that XLA compiled computes, sends and holds: the module right after
partitioning with the collectives of its loops, and the live ranges at the peak.

The rules of tests/runtimes/xla_hlo.py make the collectives those of a back end with a
reduce-scatter: sums of partial sums are reduced once (`deferred`), and a sum of which a
device needs its slice only is a reduce-scatter (`sliced`)."""

import collections
import glob
import math
import os
import re
import tempfile

import xla_hlo

HEAD = re.compile(r"^(?:ENTRY )?%?([\w.-]+) \(.*\{$", re.M)
OPTIONS = {"xla_dump_hlo_as_text": True, "xla_dump_large_constants": True,
           "xla_dump_hlo_pass_re": "spmd-partitioning"}
# Results of ops that compute each element alone, by the names of XLA's fusions.
ELEMENTS = ("add", "broadcast", "compare", "concatenate", "convert", "divide",
            "exponential", "maximum", "minimum", "multiply", "negate", "power", "rsqrt",
            "select", "subtract", "tanh")


def called(one, key):
    return re.search(key + r"=%?([\w.-]+)", one.rest).group(1)


class Reader(xla_hlo.Reader):
    """The collectives of one computation. Groups that are no axes of the mesh have the
    axis `?`."""

    def axes(self, one):
        if one.opcode == "collective-permute":
            return ("?",)
        return self.module.axes_of(one.groups()) or ("?",)

    def parts(self, axes):
        return 2 if axes == ("?",) else super().parts(axes)

    def gather(self, one):
        """Gathers a value again where XLA does, which the rule `again` names."""
        again = self.gathered.copy()
        for made in super().gather(one):
            yield made
            return
        if again == self.gathered:
            yield self.make(one, "all_gather", self.axes(one), self.held(one),
                            ("again",))


class Compiled:
    """The module after partitioning of a lowered function, and its memory."""

    def __init__(self, lowered, mesh):
        with tempfile.TemporaryDirectory() as folder:
            self.made = lowered.compile({**OPTIONS, "xla_dump_to": folder})
            self.text = self._read(folder, "after_spmd-partitioning")
            self.ranges = self._read(folder, "live-range")
        self.mesh = mesh
        self.computations = {}
        starts = [*HEAD.finditer(self.text)]
        for found in starts:
            end = self.text.index("\n}", found.end())
            self.computations[found.group(1)] = self.text[found.end():end]
            if found.group(0).startswith("ENTRY"):
                entry = found.group(1)
        self.readers, self.times = {}, collections.Counter()
        self._visit(entry, 1)

    @staticmethod
    def _read(folder, name):
        (path,) = glob.glob(os.path.join(folder, f"*{name}*.txt"))
        with open(path, encoding="utf-8") as file:
            return file.read()

    def _visit(self, name, times):
        """Counts how often each computation with collectives or matmuls runs."""
        self.times[name] += times
        if name not in self.readers:
            body = "\nENTRY\n" + self.computations[name] + "\n}\n"
            self.readers[name] = Reader(
                self.text.replace("\nENTRY ", "\n") + body, self.mesh)
        for one in self.readers[name].module.all.values():
            if one.opcode == "call":
                self._visit(called(one, "to_apply"), times)
            elif one.opcode == "while":
                (turns,) = re.findall(r"s32\[\] constant\((\d+)\)",
                                      self.computations[called(one, "condition")])
                self._visit(called(one, "body"), times * int(turns))
            assert one.opcode != "conditional", "a branch"

    def sent(self):
        """Bytes of the busiest device by `kind axes`, and by `again` those of values
        that were gathered before."""
        out = collections.Counter()
        for name, times in self.times.items():
            for one in self.readers[name].rewritten():
                axes = "+".join(one.axes)
                out[f"{one.kind} {axes}"] += times * one.sent
                if "again" in one.rules:
                    out[f"again {axes}"] += times * one.sent
        return dict(out)

    def products(self):
        """The operations of a device's matmuls and convolutions."""
        total = 0
        for name, times in self.times.items():
            module = self.readers[name].module
            for one in (module.all[name] for name in module.live):
                if one.opcode not in ("dot", "convolution"):
                    continue
                sides = [xla_hlo.sides(module.all[o].shape)[1] for o in one.operands]
                if one.opcode == "dot":
                    dims = re.search(r"lhs_contracting_dims=\{([\d,]*)\}", one.rest)
                    each = math.prod(sides[0][int(d)]
                                     for d in dims.group(1).split(",") if d)
                else:
                    dims = re.search(r"dim_labels=\w+_(\w+)->", one.rest)
                    each = math.prod(n for n, label in zip(sides[1], dims.group(1))
                                     if label != "o")
                    # Zeros between the elements of an operand are not multiplied.
                    apart = re.search(r"lhs_dilate=([\dx]+)", one.rest)
                    if apart:
                        each /= math.prod(map(int, apart.group(1).split("x")))
                total += times * 2 * each * math.prod(xla_hlo.sides(one.shape)[1])
        return int(total)

    def memory(self):
        """Bytes of arguments, results and temporaries, and of the values at the peak:
        copies to other layouts or with wider windows, gathered values, and values computed element by
        element."""
        made = self.made.memory_analysis()
        out = {"arguments": made.argument_size_in_bytes,
               "results": made.output_size_in_bytes,
               "temporaries": made.temp_size_in_bytes,
               "copies": 0, "gathered": 0, "elements": 0}
        peak = re.search(r"Live ranges at \d+ \(peak\):\n((?:    .*\n)*)", self.ranges)
        for name, size in re.findall(r"^    ([\w.-]+)\{.*\}: (\d+) bytes",
                                     peak.group(1), re.M):
            if any(one in name for one in ("copy", "transpose", "window")):
                out["copies"] += int(size)
            elif name.startswith("all-gather"):
                out["gathered"] += int(size)
            elif "update" not in name and any(one in name for one in ELEMENTS):
                out["elements"] += int(size)
        return out
