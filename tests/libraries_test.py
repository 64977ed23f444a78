"""Compares the list of libraries with what is in the program.

The program is linked once more with a link map, the headers of its objects are
read from the build, and the libraries that it loads from its ELF header. Every
package that owns one of these files must be listed, and every listed package
must own one.
"""

import importlib.util
import json
import os
import re
import shlex
import shutil
import subprocess
import sys
import tempfile
import unittest

ROOT = os.environ["SHARDC_SOURCE_ROOT"]
BUILD = os.environ["SHARDC_BUILD_ROOT"]
BIN = os.environ["SHARDC_BIN"]
TARGET = "src/cli/shardc"
# The kernel's interface and clang's intrinsics: declarations without code.
DECLARATIONS = re.compile(r"^(linux|llvm-toolchain-\d+)$")


def load(name):
    path = os.path.join(ROOT, "packaging", name + ".py")
    spec = importlib.util.spec_from_file_location(name, path)
    module = importlib.util.module_from_spec(spec)
    sys.dont_write_bytecode = True
    spec.loader.exec_module(module)
    return module


collect = load("collect_libraries")


def output_of(*command):
    return subprocess.run(command, capture_output=True, text=True, check=True,
                          cwd=BUILD).stdout


def made(name):
    with open(os.path.join(BUILD, "packaging", name), encoding="utf-8") as file:
        return file.read()


def options():
    path = os.path.join(BUILD, "meson-info", "intro-buildoptions.json")
    with open(path, encoding="utf-8") as file:
        return {option["name"]: option["value"] for option in json.load(file)}


def headers():
    """Files outside of the project that the program's objects include."""
    found = set()
    ours = False
    for line in output_of("ninja", "-t", "deps").splitlines():
        if not line.startswith(" "):
            ours = line.startswith("src/")
        elif ours and os.path.isabs(line.strip()):
            path = os.path.normpath(line.strip())
            if not path.startswith((os.path.realpath(ROOT) + os.sep,
                                    os.path.realpath(BUILD) + os.sep)):
                found.add(path)
    return found


def linked():
    """The archives and objects whose members are in the program."""
    commands = output_of("ninja", "-t", "commands", TARGET).splitlines()
    words = shlex.split(commands[-1])
    with tempfile.TemporaryDirectory() as folder:
        words[words.index("-o") + 1] = os.path.join(folder, "program")
        link_map = os.path.join(folder, "map")
        output_of(*words, "-Wl,-Map=" + link_map)
        with open(link_map, encoding="utf-8") as file:
            text = file.read()
    # A section of a member: ` .text  0x1000  0x20  /usr/lib/libz.a(inflate.o)`.
    files = set(re.findall(r"0x[0-9a-f]+ +0x[1-9a-f][0-9a-f]* +(/\S+?\.[ao])"
                           r"(?:\(\S+\))?$", text, re.MULTILINE))
    return {path for path in map(os.path.normpath, files)
            if not path.startswith(os.path.realpath(BUILD) + os.sep)
            and not path.startswith("/tmp/")}


def loaded():
    """The shared libraries that the program's header names."""
    names = re.findall(r"NEEDED.*\[(.*)\]", output_of("readelf", "-d", BIN))
    command = output_of("ninja", "-t", "commands", TARGET).splitlines()[-1]
    compiler = [word for word in shlex.split(command)[:2]
                if not word.startswith("-")]
    paths = [output_of(*compiler, "-print-file-name=" + name).strip()
             for name in names]
    return {os.path.realpath(path) for path in paths if os.path.isabs(path)}


def sources_of(paths):
    """The source packages that own `paths`, each with one of them."""
    owners = {}
    spelled = {}
    for path in paths:
        spelled[path] = path
        if path.startswith("/usr/lib"):
            spelled[path[len("/usr"):]] = path
    done = subprocess.run(["dpkg-query", "-S", *sorted(spelled)],
                          capture_output=True, text=True, check=False).stdout
    for line in done.splitlines():
        names, _, path = line.partition(": ")
        owners.setdefault(names.split(",")[0], path)
    out = {}
    for package, path in owners.items():
        source = output_of("dpkg-query", "-W", "-f", "${source:Package}",
                           package)
        out[re.sub(r"-cross(-ports)?$", "", source)] = path
    return out


def unlisted(used, listed):
    """Source packages of `used` that are not in `listed`, with a file each."""
    return {name: path for name, path in used.items()
            if name not in listed and not DECLARATIONS.match(name)}


@unittest.skipUnless(shutil.which("dpkg-query"), "no Debian packages")
@unittest.skipUnless(options()["b_sanitize"] == "none",
                     "a sanitized program has a runtime of its own")
class Libraries(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.used = {}
        for paths in (headers(), linked(), loaded()):
            cls.used.update(sources_of(paths))
        cls.bill = json.loads(made("shardc.cdx.json"))
        cls.listed = {one["name"]: one for one in cls.bill["components"]}

    def test_every_library_in_the_program_is_listed(self):
        self.assertEqual(unlisted(self.used, self.listed), {})

    def test_a_library_that_is_left_out_is_found(self):
        for name in self.listed:
            others = set(self.listed) - {name}
            self.assertEqual(set(unlisted(self.used, others)), {name})

    def test_every_listed_library_is_in_the_program(self):
        for name in self.listed:
            self.assertIn(name, self.used)

    def test_each_has_a_version_a_licence_and_its_text(self):
        notices = made("THIRD-PARTY-NOTICES")
        for name, one in self.listed.items():
            [licence] = one["licenses"]
            self.assertRegex(one["version"], r"^\d")
            self.assertNotIn("NOASSERTION", licence["expression"])
            self.assertIn(f"\n{name} {one['version']}: "
                          f"{licence['expression']}\n", notices)
        self.assertNotIn("No licence file was found", notices)
        # Texts that copyright files only name.
        self.assertIn("TERMS AND CONDITIONS FOR USE, REPRODUCTION", notices)
        self.assertIn("GCC RUNTIME LIBRARY EXCEPTION", notices)

    def test_archives_have_their_digests(self):
        for name in ("re2", "zlib", "openssl", "yaml-cpp", "libzstd"):
            if not options()["prefer_static"]:
                self.skipTest("archives are not linked")
            [digest] = self.listed[name]["hashes"]
            self.assertRegex(digest["content"], "^[0-9a-f]{64}$")

    def test_the_bill_is_cyclonedx(self):
        self.assertEqual((self.bill["bomFormat"], self.bill["specVersion"]),
                         ("CycloneDX", "1.5"))
        self.assertRegex(self.bill["serialNumber"],
                         r"^urn:uuid:[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}$")
        references = {one["bom-ref"] for one in self.bill["components"]}
        references.add(self.bill["metadata"]["component"]["bom-ref"])
        for entry in self.bill["dependencies"]:
            self.assertLessEqual(
                {entry["ref"], *entry.get("dependsOn", [])}, references)
        for one in self.bill["components"]:
            self.assertTrue(one["purl"].startswith("pkg:"))

    def test_the_program_prints_the_list(self):
        shown = output_of(BIN, "--version", "--libraries")
        self.assertEqual(
            shown, output_of(BIN, "--version") + made("libraries.txt"))
        self.assertEqual(shown, output_of(BIN, "version", "--libraries"))
        self.assertEqual(
            [line.split(maxsplit=2) for line in shown.splitlines()[1:]],
            [[one["name"], one["version"], one["licenses"][0]["expression"]]
             for one in self.bill["components"]])

    def test_the_flag_alone_is_refused(self):
        for words in (["--libraries"], ["--libraries", "schema"]):
            done = subprocess.run([BIN, *words], capture_output=True,
                                  text=True, check=False)
            self.assertEqual(done.returncode, 2)
            self.assertIn("`--libraries` needs `--version`", done.stderr)


class Licences(unittest.TestCase):
    def test_licences_are_those_of_compiled_files(self):
        text = ("Format: https://www.debian.org/doc/packaging-manuals/"
                "copyright-format/1.0/\n\nFiles: *\nLicense: Mine\n"
                " Permission is hereby granted, free of charge, to any\n"
                " person obtaining a copy\n\n"
                "Files: {}\nLicense: GPL\n GCC RUNTIME LIBRARY EXCEPTION\n")
        self.assertEqual(collect.licences(text.format("debian/*")), "MIT")
        self.assertEqual(collect.licences(text.format("tests/a.c debian/*")),
                         "MIT")
        self.assertEqual(
            collect.licences(text.format("src/a.c")),
            "MIT AND GPL-3.0-or-later WITH GCC-exception-3.1")
        self.assertEqual(collect.licences("Do what you want."), "NOASSERTION")

    def test_versions_are_those_of_the_authors(self):
        for version, expected in (
                ("1:1.2.13.dfsg-1", "1.2.13"), ("2.1.2+ds-1", "2.1.2"),
                ("20220601+dfsg-1+b1", "20220601"), ("3.0.22-1~deb12u2",
                                                     "3.0.22"), ("5", "5")):
            self.assertEqual(collect.upstream_version(version), expected)

    def test_without_packages_the_files_of_the_prefix_are_used(self):
        with tempfile.TemporaryDirectory() as prefix:
            folder = os.path.join(prefix, "lib", "pkgconfig")
            os.makedirs(folder)
            found = collect.unpackaged("re2", "11.0.0", folder)
            self.assertEqual((found.licence, found.notice),
                             ("BSD-3-Clause", ""))
            with open(os.path.join(prefix, "LICENSE"), "w",
                      encoding="utf-8") as file:
                file.write("Apache License, Version 2.0")
            found = collect.unpackaged("re2", "11.0.0", folder)
            self.assertEqual(found.licence, "Apache-2.0")
            self.assertEqual(found.url(), "pkg:generic/re2@11.0.0")


if __name__ == "__main__":
    unittest.main()
