"""`meson install` into an empty folder, and a program built against it."""

import os
import re
import shutil
import subprocess
import tempfile
import unittest

ROOT = os.environ["SHARDC_SOURCE_ROOT"]
BUILD = os.environ["SHARDC_BUILD_ROOT"]
MANIFEST = os.path.join(ROOT, "testdata", "models",
                        "llama-3-8b.hf.manifest.json")

EXAMPLE = os.path.join(ROOT, "examples", "library", "plan.cc")
# Linked with it: the program then runs in the locale of the environment.
LOCALE = r"""
#include <locale>

static const std::locale before = std::locale::global(std::locale(""));
"""


def run(*command, **more):
    done = subprocess.run(command, capture_output=True, text=True,
                          check=False, **more)
    if done.returncode != 0:
        raise AssertionError(f"{command}\n{done.stdout}{done.stderr}")
    return done.stdout


class Install(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.folder = tempfile.mkdtemp()
        cls.addClassCleanup(shutil.rmtree, cls.folder)
        run("meson", "install", "-C", BUILD, "--no-rebuild", "--destdir",
            cls.folder)
        cls.files = {}  # path below the prefix, without lib/ARCH
        for here, _, names in os.walk(cls.folder):
            for name in names:
                path = os.path.join(here, name)
                short = os.path.relpath(path, cls.folder)
                short = re.sub(r"^usr/(local/)?", "", short)
                short = re.sub(r"^lib/[^/]+-linux-[^/]+/", "lib/", short)
                cls.files[short] = path

    def test_files_are_where_a_distribution_expects_them(self):
        expected = [
            "bin/shardc", "lib/libshardc.a", "lib/pkgconfig/shardc.pc",
            "include/shardc/shardc.h",
            "share/bash-completion/completions/shardc",
            "share/fish/vendor_completions.d/shardc.fish",
            "share/zsh/site-functions/_shardc",
            "share/man/man1/shardc.1",
            "share/man/man7/shardc-diagnostics.7",
            "share/doc/shardc/THIRD-PARTY-NOTICES",
            "share/doc/shardc/shardc.cdx.json",
        ]
        for folder, below in (("rules", ".yaml"), ("profiles", ".yaml"),
                              ("schemas", ".json")):
            for name in os.listdir(os.path.join(ROOT, folder)):
                if name.endswith(below):
                    expected.append(f"share/shardc/{folder}/{name}")
        for name in os.listdir(os.path.join(ROOT, "man")):
            if re.search(r"\.\d$", name):
                expected.append(f"share/man/man{name[-1]}/{name}")
        for path in expected:
            self.assertIn(path, self.files)

    def test_the_installed_program_plans(self):
        with tempfile.TemporaryDirectory() as elsewhere:
            out = run(self.files["bin/shardc"], "plan", "--mesh",
                      "fsdp:8,tp:4", "--rules", "builtin:llama", "--manifest",
                      MANIFEST, cwd=elsewhere)
        self.assertIn('"shardc.plan/v1"', out)

    def pkg(self, *what):
        pc = os.path.dirname(self.files["lib/pkgconfig/shardc.pc"])
        known = run("pkg-config", "--variable", "pc_path", "pkg-config")
        env = dict(os.environ, PKG_CONFIG_SYSROOT_DIR=self.folder,
                   PKG_CONFIG_PATH=pc, PKG_CONFIG_LIBDIR=known.strip())
        return run("pkg-config", *what, "shardc", env=env).strip()

    def compile(self, text, *more):
        flags = self.pkg("--cflags", "--libs").split()
        source = os.path.join(self.folder, "more.cc")
        with open(source, "w", encoding="utf-8") as file:
            file.write(text)
        output = os.path.join(self.folder, "program")
        run(*os.environ.get("CXX", "c++").split(), "-std=c++20", "-Wall",
            "-Wextra", "-Wpedantic", "-Wshadow", "-Werror", source, *more,
            "-o", output, *flags)
        return output

    def test_the_example_is_built_against_the_library(self):
        program = self.compile(LOCALE, EXAMPLE)
        rules = self.files["share/shardc/rules/llama.hf.yaml"]
        out = run(program, "dp:2,fsdp:8,tp:4", rules, MANIFEST,
                  env=dict(os.environ, LC_ALL="C"))
        self.assertEqual(out.splitlines()[0],
                         'model.embed_tokens.weight ["tp", "fsdp"]')
        self.assertEqual(out.splitlines()[291], "502407168")
        self.decimal_commas_change_nothing(program, rules, out)

    def test_an_error_is_reported_with_its_place(self):
        program = self.compile(LOCALE, EXAMPLE)
        bad = os.path.join(self.folder, "bad.yaml")
        with open(bad, "w", encoding="utf-8") as file:
            file.write("version: 1\nrules:\n  - match: a\n    spec: Nothing\n")
        done = subprocess.run([program, "tp:2", bad, MANIFEST],
                              capture_output=True, text=True, check=False)
        self.assertEqual(done.returncode, 2)
        self.assertIn("bad.yaml:4:11", done.stderr)

    def test_the_version_is_that_of_the_package(self):
        with open(self.files["include/shardc/version.h"],
                  encoding="utf-8") as file:
            self.assertIn(f'#define SHARDC_VERSION "{self.pkg("--modversion")}"',
                          file.read())

    def decimal_commas_change_nothing(self, program, rules, expected):
        if not os.path.exists("/usr/share/i18n/locales/de_DE"):
            self.skipTest("no sources of locales")
        # localedef warns of what it cannot find and writes the locale.
        subprocess.run(["localedef", "-i", "de_DE", "-f", "UTF-8",
                        os.path.join(self.folder, "de_DE.UTF-8")],
                       capture_output=True, check=False)
        env = dict(os.environ, LOCPATH=self.folder)
        german = run("locale", "-k", "decimal_point",
                     env=dict(env, LC_ALL="de_DE.UTF-8"))
        self.assertIn('","', german)
        self.assertEqual(
            run(program, "dp:2,fsdp:8,tp:4", rules, MANIFEST,
                env=dict(env, LC_ALL="de_DE.UTF-8")), expected)

    def test_headers_are_few_and_read_no_others(self):
        headers = sorted(path[len("include/"):] for path in self.files
                         if path.endswith(".h"))
        self.assertGreaterEqual(len(headers), 10)
        self.assertLessEqual(len(headers), 15)
        for header in headers:
            self.compile(f"#include <{header}>\n", "-fsyntax-only")
            with open(self.files["include/" + header],
                      encoding="utf-8") as file:
                text = file.read()
            self.assertEqual(re.findall(r"#\s*include\s*<(.*[./].*)>", text),
                             [], header)
            for ours in re.findall(r'#\s*include\s*"(.*)"', text):
                self.assertIn(ours, headers, header)
            if header != "shardc/shardc.h":
                self.assertIn("namespace shardc::SHARDC_V1 {", text, header)


if __name__ == "__main__":
    unittest.main()
