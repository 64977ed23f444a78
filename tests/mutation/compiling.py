"""Puts changes into copies of sources, compiles the copies and links them
before the build's own library. Each change is `(Mutant(17) ? new : old)` there, and
SHARDC_MUTANT=17 switches it on."""

import concurrent.futures
import dataclasses
import json
import os
import re
import shlex
import subprocess
import sys

from changes import ONLY_TESTS

ROOT = os.environ.get(
    "SHARDC_SOURCE_ROOT",
    os.path.abspath(os.path.join(os.path.dirname(__file__), "..", "..")))
BUILD = os.environ.get("SHARDC_BUILD_ROOT", os.path.join(ROOT, "build"))
# Both trials may run at once: neither writes what the other reads.
TRIAL = os.path.join(BUILD, "trial_rooms" if "--rooms" in sys.argv else "trial")
ROOMS = ("exec", "dense", "verify/cases", "verify/judge", "verify/traces")
# Bodies that are compiled once for each processor.
APART = ("_simd.cc",)
HEADER = """#pragma once
#include <cstdlib>
inline int ChosenMutant() {
  const char* text = std::getenv("SHARDC_MUTANT");
  return text == nullptr ? 0 : std::atoi(text);
}
inline const int kChosenMutant = ChosenMutant();
inline bool Mutant(int number) { return kChosenMutant == number; }
"""


class Broken(Exception):
    """A list or a build that cannot be used."""


@dataclasses.dataclass(frozen=True, order=True)
class Mutant:
    file: str    # below src
    # That stands once in it, without indentation; lines before it may precede.
    line: str
    old: str     # an expression or a call that stands once in the line
    new: str     # empty: the call is left out
    # Why nothing can detect it, or ONLY_TESTS; empty: verify itself must.
    reason: str

    def noticers(self):
        return {"": "verify", ONLY_TESTS: "tests"}.get(self.reason, "")


class Place:
    """A source with some of its mutants put in."""

    def __init__(self, path):
        with open(os.path.join(ROOT, "src", path), encoding="utf-8") as file:
            self.lines = file.read().split("\n")
        self.path = path
        self.stripped = [line.strip() for line in self.lines]

    def put(self, numbered):
        """The text with (number, mutant) switchable; several in a line nest
        from its end on."""
        lines = list(self.lines)
        by_line = {}
        for number, mutant in numbered:
            wanted = mutant.line.split("\n")
            before = wanted[:-1]
            found = [at for at in range(len(before), len(self.stripped))
                     if self.stripped[at - len(before):at + 1] == wanted]
            if len(found) != 1:
                raise Broken(f"{self.path}: `{mutant.line}` stands "
                             f"{len(found)} times")
            at = found[0]
            by_line.setdefault(at, []).append((number, mutant))
        for at, several in by_line.items():
            lines[at] = self.merged(lines[at], several)
        return "\n".join(lines)

    @staticmethod
    def merged(line, several):
        """One of them at most is on, so whole lines may be chosen between
        where changes overlap; else each expression is."""
        spans = sorted(((line.index(m.old), n, m) for n, m in several),
                       reverse=True)
        end = len(line) + 1
        for begin, number, mutant in spans:
            if begin + len(mutant.old) > end:
                raise Broken(f"changes overlap in {line.strip()}")
            end = begin
            head, tail = line[:begin], line[begin + len(mutant.old):]
            if mutant.new:
                line = (f"{head}(Mutant({number}) ? ({mutant.new}) : "
                        f"({mutant.old})){tail}")
            else:
                line = f"{head}if (!Mutant({number})) {mutant.old}{tail}"
        return line


def sources(rooms=ROOMS):
    """Paths below src that may be changed."""
    out = []
    for room in rooms:
        for here, _, names in os.walk(os.path.join(ROOT, "src", room)):
            out += [os.path.relpath(os.path.join(here, name),
                                    os.path.join(ROOT, "src"))
                    for name in names
                    if name.endswith(".cc") and not name.endswith(APART)]
    return sorted(out)


def overlapping(mutants):
    """Those that stand in the way of an earlier one of their line."""
    taken, out = {}, set()
    for mutant in mutants:
        begin = mutant.line.index(mutant.old)
        span = (begin, begin + len(mutant.old))
        others = taken.setdefault((mutant.file, mutant.line), [])
        if any(span[0] < b and a < span[1] for a, b in others):
            out.add(mutant)
        else:
            others.append(span)
    return out


class Compiler:
    """With `alone`, a changed source is compiled without its unit, in a fraction
    of the time, and its functions replace those of the unit when a program is
    linked. That takes objects in which each call of another source's function
    goes through the linker (-fPIC)."""

    def __init__(self, mutants, alone=False):
        self.mutants = list(mutants)
        self.alone = alone
        self.numbers = {m: i + 1 for i, m in enumerate(self.mutants)}
        with open(os.path.join(BUILD, "compile_commands.json"),
                  encoding="utf-8") as file:
            listed = json.load(file)
        self.commands = {
            os.path.normpath(os.path.join(entry["directory"], entry["file"])):
            shlex.split(entry["command"]) for entry in listed}
        # By a source below src, the unit that compiles it together with others
        # of its folder.
        self.unit_of = {
            name: unit for unit in self.commands if unit.endswith(".unit.cc")
            for name in re.findall(r'#include "([^"]+)"', self.read(unit))}
        os.makedirs(TRIAL, exist_ok=True)
        self.write(os.path.join(TRIAL, "mutant.h"), HEADER)

    @staticmethod
    def read(path):
        with open(path, encoding="utf-8") as file:
            return file.read()

    @staticmethod
    def write(path, text):
        os.makedirs(os.path.dirname(path), exist_ok=True)
        if os.path.exists(path) and Compiler.read(path) == text:
            return
        with open(path + ".new", "w", encoding="utf-8") as file:
            file.write(text)
        os.replace(path + ".new", path)

    def files(self):
        return sorted({m.file for m in self.mutants})

    def units(self):
        """The sources with changes, or one of each unit that has some."""
        if self.alone:
            return self.files()
        return sorted({self.unit_of.get(path, path): path
                       for path in reversed(self.files())}.values())

    def with_its_unit(self, path):
        """The sources with changes that are compiled together with this one."""
        if self.alone:
            return [path]
        unit = self.unit_of.get(path, path)
        return [f for f in self.files() if self.unit_of.get(f, f) == unit]

    def command(self, path):
        return list(self.commands[
            self.unit_of.get(path, os.path.join(ROOT, "src", path))])

    def compiled(self, path, mutants, *more):
        """(object, errors) of a source with its mutants, or of its unit with
        those of all its sources."""
        copies = {}
        for changed in sorted({path, *(m.file for m in mutants)}):
            copies[changed] = os.path.join(TRIAL, "src", changed)
            self.write(copies[changed], Place(changed).put(
                [(self.numbers[m], m) for m in mutants if m.file == changed]))
        unit = None if self.alone else self.unit_of.get(path)
        if unit:
            text = self.read(unit)
            for changed, copy in copies.items():
                text = text.replace(f'"{changed}"', f'"{copy}"')
            copy = os.path.join(TRIAL, os.path.basename(unit))
            self.write(copy, text)
        else:
            copy = copies[path]
        target = os.path.join(TRIAL, os.path.basename(copy) if unit
                              else path.replace("/", "_")) + ".o"
        command = self.command(path)
        command[command.index("-o") + 1] = target
        command[command.index("-c") + 1] = copy
        for flag in ("-MF", "-MQ"):
            command[command.index(flag) + 1] = target + ".d"
        # A copy's neighbours are those of its source.
        command += ["-include", os.path.join(TRIAL, "mutant.h"), "-w",
                    "-fdiagnostics-color=never", "-I", os.path.dirname(
                        os.path.join(ROOT, "src", path)), *more]
        done = subprocess.run(command, cwd=BUILD, check=False,
                              stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
                              encoding="utf-8", errors="replace")
        return target, done.stdout if done.returncode != 0 else ""

    def that_compile(self):
        skip = overlapping(self.mutants)
        good = [m for m in self.mutants if m not in skip]

        def work(path):
            left = [m for m in good if m.file == path]
            for _ in range(12):
                _, errors = self.compiled(path, left, "-fsyntax-only")
                if not errors:
                    return left
                lines = {int(n) for n in re.findall(
                    rf"{re.escape(os.path.basename(path))}:(\d+):\d+: error",
                    errors)}
                place = Place(path)
                fewer = [m for m in left if place.stripped.index(m.line) + 1
                         not in lines]
                if len(fewer) == len(left):
                    return []
                left = fewer
            return []

        with concurrent.futures.ThreadPoolExecutor(2) as pool:
            return [m for part in pool.map(work, self.files()) for m in part]

    def build(self, programs):
        """Links each program of the build's with the changed objects."""
        def work(path):
            together = self.with_its_unit(path)
            return self.compiled(path,
                                 [m for m in self.mutants if m.file in together])
        with concurrent.futures.ThreadPoolExecutor(2) as pool:
            made = list(pool.map(work, self.units()))
        for _, errors in made:
            if errors:
                raise Broken(errors[:2000])
        objects = [target for target, _ in made]
        for program in programs:
            listed = subprocess.run(
                ["ninja", "-C", BUILD, "-t", "commands", program], check=True,
                stdout=subprocess.PIPE, encoding="utf-8").stdout
            link = shlex.split(listed.strip().split("\n")[-1])
            at = link.index("-o")
            link[at + 1] = os.path.join(TRIAL, os.path.basename(program))
            first = next(i for i, word in enumerate(link)
                         if word.endswith(".o") and i > at + 1)
            # The build's own objects stay, and the first definition counts.
            link[first:first] = objects
            link.append("-Wl,-z,muldefs")
            done = subprocess.run(link, cwd=BUILD, check=False,
                                  stdout=subprocess.PIPE,
                                  stderr=subprocess.STDOUT, encoding="utf-8",
                                  errors="replace")
            if done.returncode != 0:
                raise Broken(done.stdout[-2000:])
