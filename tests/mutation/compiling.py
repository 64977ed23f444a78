"""Puts changes into copies of sources, compiles the copies and links them
before the build's own library. Each change is `(Mutant(17) ? new : old)` there, and
SHARDC_MUTANT=17 switches it on.

At -Og a changed source is compiled without the unit that joins it with its
neighbours, and its functions replace those of the unit when a program is linked:
no call of another source's function is inlined there. At -O2 it may be, and the
unit is compiled with its changed sources."""

import concurrent.futures
import dataclasses
import json
import os
import re
import shlex
import subprocess
import zlib

ROOT = os.environ.get(
    "SHARDC_SOURCE_ROOT",
    os.path.abspath(os.path.join(os.path.dirname(__file__), "..", "..")))
BUILD = os.environ.get("SHARDC_BUILD_ROOT", os.path.join(ROOT, "build"))
# Bodies that are compiled once for each processor.
APART = ("_simd.cc",)
MOST = 4096  # changes at a time
# The processes of a run share a file of one byte for each change, which is set
# where the change is evaluated: no process has to end normally for that.
HEADER = f"""#pragma once
#include <cstdlib>
#include <fcntl.h>
#include <sys/mman.h>
#include <unistd.h>
inline int ChosenMutant() {{
  const char* text = std::getenv("SHARDC_MUTANT");
  return text == nullptr ? 0 : std::atoi(text);
}}
inline const int kChosenMutant = ChosenMutant();
inline char* ReachedMutants() {{
  const char* path = std::getenv("SHARDC_MUTANTS_REACHED");
  const int fd = path == nullptr ? -1 : open(path, O_RDWR | O_CLOEXEC);
  if (fd < 0) return nullptr;
  void* at = mmap(nullptr, {MOST}, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
  close(fd);
  return at == MAP_FAILED ? nullptr : static_cast<char*>(at);
}}
inline char* const kReachedMutants = ReachedMutants();
inline bool Mutant(int number) {{
  if (kReachedMutants != nullptr) kReachedMutants[number] = 1;
  return kChosenMutant == number;
}}
"""


class Broken(Exception):
    """A build or a test that cannot be used."""


@dataclasses.dataclass(frozen=True, order=True)
class Mutant:
    file: str  # below src
    line: str  # stands once in it, without indentation
    old: str   # an expression or a call that stands once in the line
    new: str   # empty: the call is left out


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
            if self.stripped.count(mutant.line) != 1:
                raise Broken(f"{self.path}: `{mutant.line}` stands "
                             f"{self.stripped.count(mutant.line)} times")
            at = self.stripped.index(mutant.line)
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


def sources(rooms):
    """Paths below src that may be changed."""
    out = []
    for room in rooms:
        for here, _, names in os.walk(os.path.join(ROOT, "src", room)):
            out += [os.path.relpath(os.path.join(here, name),
                                    os.path.join(ROOT, "src"))
                    for name in names
                    if name.endswith(".cc") and not name.endswith(APART)]
    return sorted(out)


def apart(mutants):
    """Those that do not stand in the way of an earlier one of their line,
    sorted."""
    taken, out = {}, []
    for mutant in sorted(set(mutants)):
        begin = mutant.line.index(mutant.old)
        end = begin + len(mutant.old)
        others = taken.setdefault((mutant.file, mutant.line), [])
        if not any(begin < b and a < end for a, b in others):
            others.append((begin, end))
            out.append(mutant)
    return out


def in_order(threads, work, items):
    """Pairs of an item and what `work` returns of it. What has not started when
    the caller is stopped is left out."""
    pool = concurrent.futures.ThreadPoolExecutor(threads)
    try:
        yield from zip(items, pool.map(work, items))
    finally:
        pool.shutdown(cancel_futures=True)


def write(path, text):
    """Leaves a file that has this text as it is, with its date."""
    os.makedirs(os.path.dirname(path), exist_ok=True)
    if os.path.exists(path):
        with open(path, encoding="utf-8") as file:
            if file.read() == text:
                return
    with open(path + ".new", "w", encoding="utf-8") as file:
        file.write(text)
    os.replace(path + ".new", path)


class Record:
    """Next to an object, what it was compiled of and which changes compiled."""

    def __init__(self, target, changes):
        self.target = target
        self.path = target + ".json"
        # Numbers of changes are part of the object, and so is the header.
        self.of = zlib.crc32(repr((HEADER, changes)).encode())

    def read(self):
        """The changes that compiled; None unless the object is up to date."""
        try:
            with open(self.path, encoding="utf-8") as file:
                record = json.load(file)
            made = os.stat(self.target).st_mtime_ns
            if record["of"] != self.of or any(
                    os.stat(name).st_mtime_ns > made
                    for name in record["sources"]):
                return None
        except (OSError, ValueError, KeyError):
            return None
        return [Mutant(*row) for row in record["compiled"]]

    def write(self, folder, left):
        with open(self.target + ".d", encoding="utf-8") as file:
            words = file.read().replace("\\\n", " ").split()
        # mutant.h is part of `of`, and the copies are made of the sources.
        names = [word if os.path.isabs(word) else os.path.join(BUILD, word)
                 for word in words if not word.endswith(":")]
        names += [os.path.join(ROOT, "src", os.path.relpath(
            name, os.path.join(folder, "src")))
                  for name in names if name.startswith(os.path.join(folder, "src"))]
        names = [name for name in names if not name.startswith(folder)]
        write(self.path, json.dumps({
            "of": self.of, "sources": names,
            "compiled": [dataclasses.astuple(m) for m in left]}))


class Compiler:
    """Compiles what it can of the changes, and leaves the others out."""

    def __init__(self, mutants, folder, threads=1):
        self.mutants = list(mutants)
        if len(self.mutants) >= MOST:
            raise Broken(f"at most {MOST - 1} changes at a time")
        self.numbers = {m: i + 1 for i, m in enumerate(self.mutants)}
        self.folder, self.threads = folder, threads
        with open(os.path.join(BUILD, "compile_commands.json"),
                  encoding="utf-8") as file:
            self.commands = {
                os.path.normpath(os.path.join(one["directory"], one["file"])):
                shlex.split(one["command"]) for one in json.load(file)}
        # By a source below src, the unit that compiles it together with others
        # of its folder, where calls between them may be inlined.
        self.unit_of, self.joined = {}, {}
        for unit in self.commands:
            if unit.endswith(".unit.cc"):
                with open(unit, encoding="utf-8") as file:
                    names = re.findall(r'#include "([^"]+)"', file.read())
                self.unit_of.update(dict.fromkeys(names, unit))
                if "-Og" not in self.commands[unit]:
                    self.joined.update(dict.fromkeys(names, unit))
        self.header = os.path.join(folder, "mutant.h")
        write(self.header, HEADER)

    def compiled_together(self):
        """The changed sources, those of one object in a list."""
        groups = {}
        for path in sorted({m.file for m in self.mutants}):
            groups.setdefault(self.joined.get(path, path), []).append(path)
        return list(groups.values())

    def object_of(self, paths):
        return os.path.join(self.folder, paths[0].replace("/", "_") + ".o")

    def compile(self):
        """Returns the changes that compile."""
        out = []
        for _, left in in_order(self.threads, self.compile_object,
                                self.compiled_together()):
            out += left
        return sorted(out)

    def compile_object(self, paths):
        left = [m for m in self.mutants if m.file in paths]
        record = Record(self.object_of(paths),
                        [(self.numbers[m], m) for m in left])
        before = record.read()
        if before is not None:
            return before
        places = {path: Place(path) for path in paths}
        while True:
            errors = self.errors(places, left)
            if not errors:
                record.write(self.folder, left)
                return left
            # A compiler cache may print paths relative to the build folder.
            # An error in a template is in a header: the line that requires it has
            # the change.
            wrong = {f"{os.path.normpath(os.path.join(BUILD, path))}:{line}"
                     for path, line in re.findall(
                         r"^(\S+):(\d+):\d+: +(?:error|required)", errors, re.M)}
            # A text may be continued in the line after.
            for back in range(3):
                fewer = [m for m in left if
                         f"{os.path.normpath(self.copy_of(m.file))}:"
                         f"{places[m.file].stripped.index(m.line) + 1 + back}"
                         not in wrong]
                if len(fewer) < len(left):
                    break
            else:
                raise Broken(f"{paths}: {errors[:2000]}")
            left = fewer

    def copy_of(self, path):
        return os.path.join(self.folder, "src", path)

    def errors(self, places, mutants):
        """What the compiler prints of sources with these mutants; nothing if
        their object is made."""
        for path, place in places.items():
            write(self.copy_of(path), place.put(
                [(self.numbers[m], m) for m in mutants if m.file == path]))
        first = next(iter(places))
        source = os.path.join(ROOT, "src", first)
        compiled = self.copy_of(first)
        if first in self.joined:
            compiled = os.path.join(self.folder,
                                    os.path.basename(self.joined[first]))
            with open(self.joined[first], encoding="utf-8") as file:
                text = file.read()
            for path in places:
                text = text.replace(f'"{path}"', f'"{self.copy_of(path)}"')
            write(compiled, text)
        target = self.object_of(list(places))
        command = list(self.commands[self.unit_of.get(first, source)])
        command[command.index("-o") + 1] = target
        command[command.index("-c") + 1] = compiled
        for flag in ("-MF", "-MQ"):
            command[command.index(flag) + 1] = target + ".d"
        # A copy's neighbours are those of its source.
        command += ["-include", self.header, "-w",
                    "-fdiagnostics-color=never", "-I", os.path.dirname(source)]
        done = subprocess.run(command, cwd=BUILD, check=False,
                              stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
                              encoding="utf-8", errors="replace")
        return "" if done.returncode == 0 else done.stdout

    def link(self, program):
        """Links a program of the build's with the changed objects; only the
        program of commands has those of src/cli."""
        listed = subprocess.run(
            ["ninja", "-C", BUILD, "-t", "commands", program], check=True,
            stdout=subprocess.PIPE, encoding="utf-8").stdout
        link = shlex.split(listed.strip().split("\n")[-1])
        at = link.index("-o")
        link[at + 1] = os.path.join(self.folder, os.path.basename(program))
        first = next(i for i, word in enumerate(link)
                     if word.endswith(".o") and i > at + 1)
        # The build's own objects stay, and the first definition counts.
        link[first:first] = [
            self.object_of(paths) for paths in self.compiled_together()
            if program.startswith("src/") or not paths[0].startswith("cli/")]
        link.append("-Wl,-z,muldefs")
        done = subprocess.run(link, cwd=BUILD, check=False,
                              stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
                              encoding="utf-8", errors="replace")
        if done.returncode != 0:
            raise Broken(done.stdout[-2000:])
