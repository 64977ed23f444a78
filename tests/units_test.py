"""A source means the same alone and compiled together with its folder.

Sources of one folder share an unnamed namespace if they are compiled together
(-Dunits=folders). A function there hides a function of the same name in an
outer namespace, in all later sources of the unit. So what a source refers to
when it is compiled alone, its unit must refer to as well. SHARDC_PEER names a
program that was built with -Dunits=folders, and the build that is tested must
have compiled each source alone (`tests/bootstrap long`); else nothing is
compared.
"""

import json
import os
import re
import shutil
import subprocess
import unittest

BUILD = os.environ.get("SHARDC_BUILD_ROOT", "build")
PEER = os.environ.get("SHARDC_PEER")
PEER_BUILD = os.path.normpath(os.path.join(os.path.dirname(PEER or ""), "../.."))
LIBRARIES = ("src/libshardc.a.p", "src/liblints.a.p",
             "src/cli/libshardc_cli.a.p")


def compiled(build):
    """By the path of an object in the build, that of its source: older objects
    of other units may be in the folder too."""
    with open(os.path.join(build, "compile_commands.json"),
              encoding="utf-8") as file:
        return {entry["output"]: os.path.join(entry["directory"], entry["file"])
                for entry in json.load(file)}


def symbols(build):
    """By library and object, its (undefined, defined) symbols that are ours."""
    out = {}
    objects = compiled(build)
    for library in LIBRARIES:
        folder = os.path.join(build, library)
        names = [os.path.basename(path) for path in objects
                 if os.path.dirname(path) == library and path.endswith(".o")]
        if not names:
            continue  # lints are a library only where sources are alone
        run = subprocess.run(["nm", "-A", *names], capture_output=True,
                             text=True, check=True, cwd=folder)
        for name in names:
            out[library, name] = (set(), set())
        for line in run.stdout.splitlines():
            name, _, symbol = line.partition(":")
            words = symbol.split()
            if "shardc" in words[-1]:
                # A compiler may delete an object of a final class by its
                # complete destructor in place of its deleting one.
                kind = re.sub(r"D0Ev$", "D1Ev", words[-1])
                out[library, name][words[-2] != "U"].add(kind)
    return out


def units(build):
    """The sources of each unit, by the name of its object."""
    for path in sorted(set(compiled(build).values())):
        if path.endswith(".unit.cc"):
            with open(path, encoding="utf-8") as file:
                yield (os.path.basename(path),
                       re.findall(r'"([^"]+)"', file.read()))


def unexplained(alone, unit):
    """The symbols that sources refer to and that their unit does not know."""
    undefined, defined = unit
    needed = set().union(*(u for u, _ in alone)) - set().union(
        *(d for _, d in alone))
    return sorted(needed - undefined - defined)


@unittest.skipUnless(PEER and shutil.which("nm"),
                     "SHARDC_PEER names no program of units, or there is no nm")
@unittest.skipIf(any(path.endswith(".unit.cc")
                     for path in compiled(BUILD).values()),
                 "this build compiles the sources of folders together")
class Units(unittest.TestCase):
    maxDiff = None

    def test_a_unit_refers_to_what_its_sources_refer_to(self):
        alone = symbols(BUILD)
        # An object has the path of its source, from the library's folder.
        together = {re.sub(r"^meson-generated_(\.\._)+", "", name): found
                    for (_, name), found in symbols(PEER_BUILD).items()}
        compared = 0
        for unit, sources in units(PEER_BUILD):
            found = together[unit + ".o"]
            parts = []
            for source in sources:
                cli = source.startswith("cli/")
                flat = source.removeprefix("cli/").replace("/", "_") + ".o"
                parts += [alone[library, flat] for library in LIBRARIES
                          if (library, flat) in alone
                          and cli == ("cli" in library)]
            self.assertEqual(len(parts), len(sources), unit)
            with self.subTest(unit=unit):
                self.assertEqual(unexplained(parts, found), [])
            compared += len(sources)
        self.assertGreater(compared, 500)


class Comparison(unittest.TestCase):
    def test_a_hidden_function_is_found(self):
        alone = [({"shardc::Outer"}, {"shardc::f"}),
                 ({"shardc::f"}, {"shardc::g"})]
        self.assertEqual(
            unexplained(alone, ({"shardc::Outer"}, {"shardc::f"})), [])
        self.assertEqual(unexplained(alone, (set(), {"shardc::f"})),
                         ["shardc::Outer"])


if __name__ == "__main__":
    unittest.main()
