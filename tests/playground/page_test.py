"""The playground's sources: its page opens no connection and names no host, its
controls are labelled, and what its build lists exists. The page's own functions
are tested by Node where there is one; the page in a browser, and the compiled
commands, by `tests/bootstrap playground`.
"""

import hashlib
import html.parser
import os
import re
import shutil
import subprocess
import sys
import tempfile
import unittest

ROOT = os.environ.get(
    "SHARDC_SOURCE_ROOT",
    os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", ".."))
PLAYGROUND = os.path.join(ROOT, "playground")
PAGE = os.path.join(PLAYGROUND, "page")
sys.path.insert(0, PLAYGROUND)
sys.dont_write_bytecode = True

import build  # noqa: E402

SHA256_MAIN = """
#include <openssl/sha.h>
#include <cstdio>
#include <string>
// Hashes 0..300 bytes, each in two parts of every length below 70.
int main() {
  std::string text;
  for (size_t size = 0; size <= 300; ++size) {
    for (size_t first = 0; first <= size && first < 70; ++first) {
      SHA256_CTX context;
      SHA256_Init(&context);
      SHA256_Update(&context, text.data(), first);
      SHA256_Update(&context, text.data() + first, size - first);
      unsigned char digest[SHA256_DIGEST_LENGTH];
      SHA256_Final(digest, &context);
      for (const unsigned char byte : digest) std::printf("%02x", byte);
      std::puts("");
    }
    text += static_cast<char>(size * 7 + 3);
  }
}
"""


def read(*path):
    with open(os.path.join(*path), encoding="utf-8") as file:
        return file.read()


class Elements(html.parser.HTMLParser):
    """The page's elements as (tag, attributes)."""

    def __init__(self, text):
        super().__init__()
        self.all = []
        self.feed(text)

    def handle_starttag(self, tag, attrs):
        self.all.append((tag, dict(attrs)))

    def ids(self):
        return [attrs["id"] for _, attrs in self.all if "id" in attrs]


class Page(unittest.TestCase):
    def setUp(self):
        self.elements = Elements(read(PAGE, "index.html"))

    def test_the_page_names_no_host(self):
        for name in sorted(os.listdir(PAGE)):
            with self.subTest(name):
                text = read(PAGE, name)
                self.assertNotRegex(text, r"(?i)\b(https?|wss?|ftp):")
                self.assertNotRegex(text, r"""["'(]//""")

    def test_the_page_has_nothing_that_connects(self):
        for name in sorted(os.listdir(PAGE)):
            with self.subTest(name):
                self.assertNotRegex(
                    read(PAGE, name),
                    r"\b(fetch\(|XMLHttpRequest|WebSocket|EventSource|"
                    r"sendBeacon|RTCPeer|importScripts|import\()")

    def test_the_policy_forbids_every_connection(self):
        policy = next(attrs["content"] for tag, attrs in self.elements.all
                      if tag == "meta" and "http-equiv" in attrs)
        rules = dict(rule.strip().split(" ", 1)
                     for rule in policy.split(";"))
        self.assertEqual("'none'", rules["default-src"])
        self.assertEqual("'none'", rules["connect-src"])
        self.assertEqual("'none'", rules["form-action"])
        self.assertEqual("'none'", rules["base-uri"])
        self.assertEqual("'self' 'wasm-unsafe-eval' @SCRIPT@",
                         rules["script-src"])
        self.assertEqual("'self' @STYLE@", rules["style-src"])
        self.assertNotIn("unsafe-inline", policy)

    def test_the_page_has_no_inline_script_or_style(self):
        for tag, attrs in self.elements.all:
            with self.subTest(tag=tag):
                self.assertNotEqual("style", tag)
                self.assertNotIn("style", attrs)
                self.assertFalse([one for one in attrs if one.startswith("on")])
                if tag == "script":
                    self.assertIn("src", attrs)

    def test_every_control_has_a_label(self):
        labelled = {attrs.get("for") for tag, attrs in self.elements.all
                    if tag == "label"}
        for tag, attrs in self.elements.all:
            if tag in ("input", "select", "textarea"):
                self.assertIn(attrs["id"], labelled)
            if tag == "iframe":
                self.assertIn("title", attrs)

    def test_ids_are_unique_and_those_of_the_script_exist(self):
        ids = self.elements.ids()
        self.assertEqual(sorted(set(ids)), sorted(ids))
        script = read(PAGE, "page.js")
        named = re.findall(r"(?:element|setText)\('([a-z-]+)'[),]", script)
        self.assertGreater(len(named), 40)
        self.assertEqual(set(), set(named) - set(ids) - {"own-option"})

    def test_nothing_is_written_as_html(self):
        for name in ("page.js", "results.js"):
            self.assertNotRegex(
                read(PAGE, name),
                r"innerHTML|outerHTML|insertAdjacentHTML|document\.write|"
                r"eval\(")

    def test_the_report_runs_in_a_frame_of_its_own_origin(self):
        frame = next(attrs for tag, attrs in self.elements.all
                     if tag == "iframe")
        self.assertEqual("allow-scripts", frame["sandbox"])

    @unittest.skipUnless(shutil.which("node"), "Node is not installed")
    def test_the_functions_of_the_page(self):
        version = subprocess.run(["node", "--version"], capture_output=True,
                                 text=True, check=True).stdout
        if int(version.lstrip("v").split(".")[0]) < 18:
            self.skipTest("Node 18 or later is needed")
        tests = os.path.join(ROOT, "tests", "playground", "page.test.js")
        done = subprocess.run(["node", "--test", tests], capture_output=True,
                              text=True, check=False)
        self.assertEqual(0, done.returncode, done.stdout + done.stderr)


class Build(unittest.TestCase):
    def test_every_source_that_the_build_lists_exists(self):
        sources = list(build.project_sources())
        self.assertGreater(len(sources), 300)
        for path in sources:
            self.assertTrue(os.path.isfile(os.path.join(ROOT, "src", path)),
                            path)

    def test_the_link_finds_every_function(self):
        """By the objects of the native build: a use of a source that the
        playground leaves out fails here, without compiling to WebAssembly."""
        folder = os.path.join(os.environ.get("SHARDC_BUILD_ROOT", ""), "src")
        found = {}  # source -> object
        for here, _, names in os.walk(folder):
            room = "cli_" if here.endswith("shardc_cli.a.p") else ""
            for name in names:
                if name.endswith(".cc.o") and here.endswith(".p"):
                    found[room + name[:-len(".cc.o")]] = os.path.join(here, name)
        wanted = [path[:-len(".cc")].replace("/", "_")
                  for path in build.project_sources()]
        # The tables of pages, which both builds make.
        wanted += [name for name in found
                   if re.search(r"^meson-generated_.*(explanations|lints)$", name)]
        objects = {name: found[name] for name in wanted if name in found}
        if not shutil.which("nm") or len(objects) < len(wanted) - 1:
            self.skipTest("there is no native build of every source")

        def symbols(files, *flags):
            done = subprocess.run(["nm", "-C", "-P", "-A", *flags, *files],
                                  capture_output=True, text=True, check=True)
            return {re.search(r": (.*?) [A-Za-z]( |$)", line).group(1)
                    for line in done.stdout.splitlines()}

        here = set(objects.values())
        rest = [file for file in found.values() if file not in here]
        elsewhere = symbols(rest, "--defined-only", "--extern-only")
        defined = symbols(here, "--defined-only", "--extern-only")
        missing = (symbols(here, "--undefined-only") & elsewhere) - defined
        missing = {one for one in missing if one.startswith("shardc::")}
        # What playground/ defines in its own way.
        own = (r"::(Embedded\w+|Commands|Simd\w+|\w+Into|\w+Attention|stored::\w+|Mix"
               r"|Sha256\w*(::~?\w+)?|WordsOfPublishedModels)(\[abi:cxx11\])?\(")
        self.assertEqual(set(), {one for one in missing
                                 if not re.search(own, one)})

    def test_the_commands_are_those_of_the_program_in_its_order(self):
        names = re.search(r"command_names = \[(.*?)\]",
                          read(ROOT, "src", "cli", "meson.build"), re.S)
        every = re.findall(r"'(\w+)'", names[1])
        self.assertEqual([one for one in every if one in build.COMMANDS],
                         build.COMMANDS)

    def test_the_bundled_models_have_manifests_and_rules(self):
        models, packs = build.models()
        self.assertIn("llama-3-8b.hf", models)
        for name, model in models.items():
            with self.subTest(name):
                self.assertIn(model["pack"], packs)
                self.assertGreater(model["tensors"], 0)
                self.assertNotEqual("", model["manifest"])

    def test_the_report_is_allowed_by_the_policy_of_the_page(self):
        with tempfile.TemporaryDirectory() as out:
            os.makedirs(os.path.join(out, "gen", "cli"))
            for name, text in (("shardc.wasm", ""),
                               ("gen/cli/version.h", 'kVersion = "1"'),
                               ("gen/licences.txt", "")):
                with open(os.path.join(out, name), "w",
                          encoding="utf-8") as file:
                    file.write(text)
            build.pack(out, quiet=True)
            policy = read(out, "site", "index.html")
        self.assertNotIn("@", policy)
        program = os.environ.get("SHARDC_BIN")
        if not program:
            self.skipTest("SHARDC_BIN is not set")
        report = subprocess.run(
            [program, "report", "--no-project", "--mesh", "tp:2", "--rules",
             "auto", "--manifest",
             os.path.join(ROOT, "testdata/models/gpt2.hf.manifest.json.gz")],
            capture_output=True, text=True, check=True).stdout
        used = set(re.findall(r"'sha256-[^']+'", report))
        self.assertEqual(2, len(used))
        self.assertEqual(used, set(re.findall(r"'sha256-[^']+'", policy)))

    @unittest.skipUnless(shutil.which("c++"), "there is no compiler")
    def test_the_digest_is_that_of_openssl(self):
        with tempfile.TemporaryDirectory() as folder:
            main = os.path.join(folder, "main.cc")
            with open(main, "w", encoding="utf-8") as file:
                file.write(SHA256_MAIN)
            program = os.path.join(folder, "main")
            compat = os.path.join(PLAYGROUND, "compat")
            subprocess.run(["c++", "-std=c++20", "-I", compat, main,
                            os.path.join(compat, "sha256.cc"), "-o", program],
                           check=True)
            printed = subprocess.run([program], capture_output=True, text=True,
                                     check=True).stdout.split()
        wanted = []
        text = b""
        for size in range(301):
            digest = hashlib.sha256(text).hexdigest()
            wanted += [digest] * min(size + 1, 70)
            text += bytes([(size * 7 + 3) % 256])
        self.assertEqual(wanted, printed)


if __name__ == "__main__":
    unittest.main()
