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

# Reads a mesh, a pack and a manifest, compiles them, prints bytes per device,
# the plan and its summary, all in the locale that it is given.
PROGRAM = r"""
#include <cstdio>
#include <locale>

#include "emit/emit.h"
#include "importers/manifest.h"
#include "parse/manifest.h"
#include "parse/mesh.h"
#include "parse/rules.h"
#include "plan/compile.h"
#include "source/file.h"

int main(int, char** argv) {
  std::locale::global(std::locale(argv[3]));  // sets the one of C as well
  shardc::Findings findings;
  auto mesh = shardc::ParseMesh(
      shardc::MakeSource("mesh", "axes: {dp: 2, fsdp: 8, tp: 4}"), {},
      findings);
  const std::string pack = argv[1];
  auto rules = shardc::ReadRules(std::span(&pack, 1), {}, findings);
  auto manifest = shardc::ReadManifest(argv[2], shardc::ParseManifest,
                                       {}, findings);
  if (!mesh || !rules || !manifest) return 1;
  const auto compiled =
      shardc::Compile(std::move(*mesh), std::move(*rules),
                      std::move(*manifest), {}, findings);
  if (!compiled) return 1;
  std::printf("%lld\n", static_cast<long long>(
                            *compiled->plan.summary.bytes_per_device));
  const std::string plan = shardc::TextOf([&](shardc::Sink& out) {
    shardc::WritePlanJson(compiled->plan, {}, out);
  });
  std::fputs(plan.c_str(), stdout);
  std::fputs(shardc::PlanSummaryText(*compiled).c_str(), stdout);
}
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
            "include/shardc/plan/compile.h",
            "share/bash-completion/completions/shardc",
            "share/fish/vendor_completions.d/shardc.fish",
            "share/zsh/site-functions/_shardc",
            "share/man/man1/shardc.1",
            "share/man/man7/shardc-diagnostics.7",
        ]
        for folder, below in (("rules", ".yaml"), ("schemas", ".json")):
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

    def compile(self, text, *more):
        pc = os.path.dirname(self.files["lib/pkgconfig/shardc.pc"])
        known = run("pkg-config", "--variable", "pc_path", "pkg-config")
        env = dict(os.environ, PKG_CONFIG_SYSROOT_DIR=self.folder,
                   PKG_CONFIG_PATH=pc, PKG_CONFIG_LIBDIR=known.strip())
        flags = run("pkg-config", "--cflags", "--libs", "shardc",
                    env=env).split()
        source = os.path.join(self.folder, "program.cc")
        with open(source, "w", encoding="utf-8") as file:
            file.write(text)
        output = os.path.join(self.folder, "program")
        run(os.environ.get("CXX", "c++"), "-std=c++20", "-Wall", "-Werror",
            source, "-o", output, *flags, *more)
        return output

    def test_a_program_is_built_against_the_library(self):
        program = self.compile(PROGRAM)
        rules = self.files["share/shardc/rules/llama.hf.yaml"]
        out = run(program, rules, MANIFEST, "C")
        self.assertEqual(out.splitlines()[0], "502407168")
        self.decimal_commas_change_nothing(program, rules, out)

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
            run(program, rules, MANIFEST, "de_DE.UTF-8", env=env), expected)

    def test_every_header_stands_alone_with_no_other_library(self):
        headers = sorted(path[len("include/shardc/"):] for path in self.files
                         if path.endswith(".h"))
        self.assertGreater(len(headers), 20)
        # A table.h is lines of macros, read by a header that stands alone.
        text = "".join(f'#include "{header}"\n' for header in headers
                       if not header.endswith("/table.h"))
        self.compile(text, "-fsyntax-only")
        for header in headers:
            with open(self.files["include/shardc/" + header],
                      encoding="utf-8") as file:
                foreign = re.findall(
                    r"#\s*include\s*<((?:yaml-cpp|re2|nlohmann|CLI|hwy)/.*)>",
                    file.read())
            self.assertEqual(foreign, [], header)


if __name__ == "__main__":
    unittest.main()
