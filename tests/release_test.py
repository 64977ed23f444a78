"""What is released and how it is fetched: the workflows, the files of a release
and the script by which the action and the hooks take a program."""

import hashlib
import importlib.util
import json
import os
import re
import shutil
import subprocess
import sys
import tempfile
import unittest
import zipfile

import yaml

ROOT = os.environ["SHARDC_SOURCE_ROOT"]
RELEASE = os.path.join(ROOT, "packaging", "release")
WORKFLOWS = os.path.join(ROOT, ".github", "workflows")
PROGRAM = b"#!/bin/sh\necho fetched\n"
DIGEST = hashlib.sha256(PROGRAM).hexdigest()
PLATFORM = f"{os.uname().sysname.lower()}-{os.uname().machine}"
TABLE = "packaging/release/releases.txt"
sys.dont_write_bytecode = True


def load(*path):
    spec = importlib.util.spec_from_file_location(
        path[-1][:-len(".py")], os.path.join(ROOT, *path))
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


class Fetch(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = folder.name
        self.cache = os.path.join(self.folder, "cache")
        self.source = self.write("source", PROGRAM)
        # A clone of version 0.2.0 whose table has no release.
        self.write("meson.build", b"project(\n  'shardc', 'cpp',\n"
                   b"  version: '0.2.0',\n")
        self.write(TABLE, b"# a comment\n")
        shutil.copy(os.path.join(RELEASE, "fetch"),
                    os.path.join(self.folder, "packaging", "release"))

    def write(self, name, content):
        path = os.path.join(self.folder, name)
        os.makedirs(os.path.dirname(path), exist_ok=True)
        with open(path, "wb") as file:
            file.write(content)
        return path

    def fetch(self, **env):
        return subprocess.run(
            [os.path.join(self.folder, "packaging", "release", "fetch"),
             self.cache], check=False,
            capture_output=True, text=True,
            env={"PATH": os.environ["PATH"], "HOME": self.folder, **env})

    def kept(self):
        return [name for _, _, names in os.walk(self.cache) for name in names]

    def refused(self, expected, **env):
        done = self.fetch(**env)
        self.assertEqual(done.returncode, 2, done.stderr)
        self.assertIn(expected, done.stderr)
        self.assertIn("= help: ", done.stderr)
        self.assertEqual(done.stdout, "")
        self.assertEqual(self.kept(), [])

    def test_a_program_with_its_digest_is_fetched_once(self):
        done = self.fetch(SHARDC_URL=self.source, SHARDC_SHA256=DIGEST)
        self.assertEqual(done.returncode, 0, done.stderr)
        path = done.stdout.strip()
        self.assertEqual(subprocess.run([path], capture_output=True,
                                        check=True).stdout, b"fetched\n")
        os.remove(self.source)
        again = self.fetch(SHARDC_URL=self.source, SHARDC_SHA256=DIGEST)
        self.assertEqual(again.stdout, done.stdout)
        self.assertEqual(self.kept(), ["shardc"])

    def test_a_changed_copy_is_fetched_again(self):
        path = self.fetch(SHARDC_URL=self.source,
                          SHARDC_SHA256=DIGEST).stdout.strip()
        with open(path, "ab") as file:
            file.write(b"echo more\n")
        again = self.fetch(SHARDC_URL=self.source, SHARDC_SHA256=DIGEST)
        self.assertEqual(again.returncode, 0)
        with open(path, "rb") as file:
            self.assertEqual(file.read(), PROGRAM)

    def test_another_digest_is_refused(self):
        self.refused(f"is {DIGEST}, not {'0' * 64}", SHARDC_URL=self.source,
                     SHARDC_SHA256="0" * 64)

    def test_what_is_no_digest_or_address_is_refused(self):
        for digest in ("", "0" * 63, "g" * 64, DIGEST.upper(), "../" * 22):
            self.refused("SHA", SHARDC_URL=self.source, SHARDC_SHA256=digest)
        for url in ("http://localhost/shardc", "shardc", "file:///etc/passwd",
                    "-ofile"):
            self.refused("neither an https address", SHARDC_URL=url,
                         SHARDC_SHA256=DIGEST)
        self.refused("cannot be read", SHARDC_SHA256=DIGEST,
                     SHARDC_URL=os.path.join(self.folder, "gone"))

    def test_the_release_of_the_version_and_the_machine_is_fetched(self):
        old = "0" * 64
        self.write(TABLE, f"# a comment\n0.1.0 {PLATFORM} {old} old\n"
                   f"0.2.0 other-cpu {old} old\n"
                   f"0.2.0 {PLATFORM} {DIGEST} name\n"
                   f"0.3.0 {PLATFORM} {old} new\n".encode())
        self.write("mirror/v0.2.0/name", PROGRAM)
        done = self.fetch(SHARDC_RELEASES=os.path.join(self.folder, "mirror"))
        self.assertEqual(done.returncode, 0, done.stderr)

    def test_releases_are_those_of_the_origin_of_the_clone(self):
        """Its table has no row of this version, so the release's is fetched."""
        self.write(TABLE, f"0.1.0 {PLATFORM} {DIGEST} name\n".encode())
        origin = os.path.join(self.folder, "origin")
        for command in (["init", "--quiet"],
                        ["remote", "add", "origin", origin + ".git"]):
            subprocess.run(["git", *command], cwd=self.folder, check=True)
        self.refused("v0.2.0/releases.txt` cannot be read")
        release = "origin/releases/download/v0.2.0/"
        self.write(release + "name", PROGRAM)
        self.write(release + "releases.txt",
                   f"0.2.0 {PLATFORM} {DIGEST} name\n".encode())
        self.assertEqual(self.fetch().returncode, 0)
        # Both are kept: a commit in a train needs no network.
        shutil.rmtree(origin)
        self.assertEqual(self.fetch().returncode, 0)

    def test_a_release_without_the_machine_is_refused(self):
        self.write("mirror/v0.2.0/releases.txt",
                   f"0.2.0 other-cpu {DIGEST} name\n".encode())
        done = self.fetch(SHARDC_RELEASES=os.path.join(self.folder, "mirror"))
        self.assertEqual(done.returncode, 2)
        self.assertIn(f"the release 0.2.0 lists no program for {PLATFORM}",
                      done.stderr)


class Files(unittest.TestCase):
    def test_a_wheel_gives_the_files_of_a_release(self):
        files = load("packaging", "release", "files.py")
        with tempfile.TemporaryDirectory() as folder:
            for tag, content in (("manylinux_2_34_x86_64", b"dynamic"),
                                 ("musllinux_1_2_x86_64", b"static"),
                                 ("manylinux_2_34_aarch64", b"arm")):
                with zipfile.ZipFile(os.path.join(
                        folder, f"shardc-0.2.0-py3-none-{tag}.whl"),
                        "w") as archive:
                    data = "shardc-0.2.0.data/data/share/doc/shardc/"
                    archive.writestr("shardc-0.2.0.data/scripts/shardc", content)
                    archive.writestr(data + "shardc.cdx.json", "{}")
                    archive.writestr(data + "THIRD-PARTY-NOTICES", "text")
            found = files.programs(folder, "0.2.0")
            self.assertEqual(found, {
                "linux-x86_64": "shardc-0.2.0-linux-x86_64",
                "linux-aarch64": "shardc-0.2.0-linux-aarch64"})
            with open(os.path.join(folder, found["linux-x86_64"]),
                      "rb") as file:
                self.assertEqual(file.read(), b"static")
            for ending in (".cdx.json", ".notices.txt"):
                self.assertTrue(os.path.exists(os.path.join(
                    folder, found["linux-aarch64"] + ending)))
        self.assertEqual(
            files.platform("shardc-0.2.0-py3-none-manylinux_2_17_x86_64."
                           "manylinux2014_x86_64.musllinux_1_1_x86_64.whl"),
            ("linux-x86_64", True))
        with self.assertRaises(SystemExit):
            files.platform("shardc-0.2.0-py3-none-win_amd64.whl")

    def test_programs_that_differ_from_the_committed_rows_are_refused(self):
        files = load("packaging", "release", "files.py")
        rows = [f"0.2.0 linux-x86_64 {DIGEST} name\n"]
        with tempfile.TemporaryDirectory() as folder:
            table = os.path.join(folder, "releases.txt")
            for committed, good in (
                    ("# none\n", True), (f"0.1.0 linux-x86_64 {DIGEST} n\n", True),
                    (rows[0], True), (rows[0].replace(DIGEST, "0" * 64), False)):
                with open(table, "w", encoding="utf-8") as file:
                    file.write(committed)
                if good:
                    files.check_committed("0.2.0", rows, table)
                else:
                    with self.assertRaises(SystemExit) as refused:
                        files.check_committed("0.2.0", rows, table)
                    self.assertIn(rows[0], str(refused.exception))

    def test_notes_are_the_section_of_the_version(self):
        files = load("packaging", "release", "files.py")
        text = "# C\n## [0.2.0] - 2027\n\n- new\n\n## [0.1.0]\n\n- old\n"
        self.assertEqual(files.notes(text, "0.2.0"), "- new\n")
        self.assertEqual(files.notes(text, "0.1.0"), "- old\n")
        with self.assertRaises(SystemExit):
            files.notes(text, "0.3.0")

    def test_released_programs_are_rows_of_four_words(self):
        with open(os.path.join(RELEASE, "releases.txt"),
                  encoding="utf-8") as file:
            for line in file:
                self.assertRegex(line, r"^#|^\d\S* \w+-\w+ [0-9a-f]{64} \S+$")


class Recipes(unittest.TestCase):
    def setUp(self):
        self.recipes = load("packaging", "recipes.py")
        self.version = load("packaging", "version.py").version()
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = folder.name

    def source(self, version):
        path = os.path.join(self.folder, f"shardc-{version}.tar.gz")
        with open(path, "wb") as file:
            file.write(PROGRAM)
        return path

    def test_recipes_name_the_source_of_the_version(self):
        address = "https://example.org/shardc"
        source = self.source(self.version)
        made = self.recipes.recipes(address, source)
        url = (f"{address}/releases/download/v{self.version}/"
               f"shardc-{self.version}.tar.gz")
        # Jinja's expressions are no YAML.
        conda = yaml.safe_load(re.sub(r"\{\{.*?\}\}", "x", made["meta.yaml"]))
        self.assertEqual(conda["package"]["version"], self.version)
        self.assertEqual(conda["source"], {"url": url, "sha256": DIGEST})
        formula = made["shardc.rb"]
        for line in (f'  url "{url}"', f'  version "{self.version}"',
                     f'  sha256 "{DIGEST}"'):
            self.assertIn(line + "\n", formula)
        if shutil.which("ruby"):
            subprocess.run(["ruby", "-c", "-"], input=formula, text=True,
                           check=True, capture_output=True)
        for text in made.values():
            self.assertNotRegex(text, "@[A-Z0-9]+@")

    def test_the_source_of_another_version_is_refused(self):
        with self.assertRaises(SystemExit):
            self.recipes.recipes("https://example.org", self.source("0.0.9"))

    def test_recipes_need_the_libraries_of_the_build(self):
        """Each dependency of meson.build by its name in either collection."""
        with open(os.path.join(ROOT, "meson.build"), encoding="utf-8") as file:
            needed = set(re.findall(r"= dependency\('([\w-]+)'", file.read()))
        names = {"re2": ("re2", "re2"), "zlib": ("zlib", "zlib"),
                 "yaml-cpp": ("yaml-cpp", "yaml-cpp"),
                 "nlohmann_json": ("nlohmann_json", "nlohmann-json"),
                 "CLI11": ("cli11", "cli11"), "libhwy": ("libhwy", "highway"),
                 "libcrypto": ("openssl", "openssl@3"),
                 "libzstd": ("zstd", "zstd")}
        self.assertEqual(needed - {"threads"}, set(names))
        made = self.recipes.recipes("https://example.org",
                                    self.source(self.version))
        for conda, homebrew in names.values():
            self.assertRegex(made["meta.yaml"], rf"(?m)^    - {conda}( |$)")
            self.assertIn(f'"{homebrew}"', made["shardc.rb"])

    def test_every_package_has_the_version(self):
        with open(os.path.join(ROOT, "debian", "changelog"),
                  encoding="utf-8") as file:
            self.assertEqual(file.readline().split()[:2],
                             ["shardc", f"({self.version})"])
        with open(os.path.join(ROOT, "pyproject.toml"),
                  encoding="utf-8") as file:
            self.assertIn('dynamic = ["version"]', file.read())
        extension = os.path.join(ROOT, "editors", "vscode", "package.json")
        with open(extension, encoding="utf-8") as file:
            self.assertEqual(json.load(file)["version"], self.version)


class Image(unittest.TestCase):
    def test_the_account_has_no_rights_and_the_base_a_digest(self):
        with open(os.path.join(ROOT, "Dockerfile"), encoding="utf-8") as file:
            text = file.read()
        self.assertEqual(re.findall(r"(?m)^FROM (\S+)", text)[-1], "scratch")
        self.assertRegex(text, r"(?m)^FROM \S+@sha256:[0-9a-f]{64} AS build$")
        self.assertRegex(text, r"(?m)^USER [1-9]\d*:[1-9]\d*$")

    @unittest.skipUnless(shutil.which("ldd") and shutil.which("strip"),
                         "no ldd or strip")
    def test_its_files_are_below_40_mb_and_suffice(self):
        build = os.environ.get("SHARDC_BUILD_ROOT")
        program = os.environ.get("SHARDC_BIN")
        if not build or not program:
            self.skipTest("no build")
        with tempfile.TemporaryDirectory() as folder:
            root = os.path.join(folder, "root")
            subprocess.run(
                [os.path.join(ROOT, "packaging", "image", "rootfs"), program,
                 os.path.join(build, "packaging"), root], check=True)
            size = sum(os.path.getsize(os.path.join(here, name))
                       for here, _, names in os.walk(root) for name in names)
            print(f"the image's files have {size / 1e6:.1f} MB")
            if b"libasan" not in subprocess.run(
                    ["readelf", "-d", program], capture_output=True,
                    check=True).stdout:
                self.assertLess(size, 40_000_000)
            if os.geteuid() != 0:
                self.skipTest("chroot needs root")
            done = subprocess.run(
                ["chroot", "--userspec=65532:65532", root, "/usr/bin/shardc",
                 "show", "mesh", "--mesh", "dp:2,tp:4"], capture_output=True,
                text=True, check=False)
            self.assertEqual(done.returncode, 0, done.stderr)
            self.assertIn("8 devices", done.stdout)


class Workflows(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.all = {}
        for name in sorted(os.listdir(WORKFLOWS)):
            with open(os.path.join(WORKFLOWS, name), encoding="utf-8") as file:
                cls.all[name] = yaml.safe_load(file)

    def steps(self):
        for name, workflow in self.all.items():
            for job in workflow["jobs"].values():
                for step in job.get("steps", []):
                    yield name, step

    def test_actions_and_images_are_pinned_by_digest(self):
        pinned = 0
        for name, step in self.steps():
            if "uses" in step:
                self.assertRegex(step["uses"], r"^[\w-]+/[\w-]+@[0-9a-f]{40}$",
                                 name)
                pinned += 1
        self.assertGreater(pinned, 10)
        for workflow in self.all.values():
            for job in workflow["jobs"].values():
                if "container" in job:
                    self.assertRegex(job["container"], "@sha256:[0-9a-f]{64}$")

    def test_permissions_are_stated_and_few(self):
        for name, workflow in self.all.items():
            self.assertIn(workflow["permissions"], ({}, {"contents": "read"}))
            for job in workflow["jobs"].values():
                if name == "ci.yml":
                    self.assertNotIn("permissions", job)
                elif "id-token" not in job["permissions"]:
                    self.assertEqual(job["permissions"], {"contents": "read"})
                else:  # What publishes runs no script of the project.
                    self.assertIn(job["needs"], ("build", "files", "publish"))

    def test_no_credentials_are_left_for_later_steps(self):
        for name, step in self.steps():
            if step.get("uses", "").startswith("actions/checkout@"):
                self.assertIs(step["with"]["persist-credentials"], False, name)

    def test_scripts_contain_no_expression(self):
        """An expression in a script would run text of a pull request."""
        for name, step in self.steps():
            self.assertNotIn("${{", step.get("run", ""), name)

    def test_scripts_run_what_there_is(self):
        with open(os.path.join(ROOT, "tests", "bootstrap"),
                  encoding="utf-8") as file:
            commands = re.findall(r"^  ([a-z]+)\)", file.read(), re.MULTILINE)
        seen = set()
        for _, step in self.steps():
            for path in re.findall(r"(?<![\w./])(?:packaging|tests|\.ci)/[\w./-]+",
                                   step.get("run", "")):
                self.assertTrue(os.path.exists(os.path.join(ROOT, path)), path)
            for command in re.findall(r"tests/bootstrap (\w+)",
                                      step.get("run", "")):
                self.assertIn(command, commands)
                seen.add(command)
        self.assertLessEqual({"wheel", "deb", "site"}, seen)

    def test_a_release_makes_all_that_is_published(self):
        """What publishes downloads one folder, and its workflow makes it."""
        with open(os.path.join(ROOT, "tests", "bootstrap"),
                  encoding="utf-8") as file:
            body = re.search(r"^release\(\) \{(.*?)^\}$", file.read(),
                             re.M | re.S)[1]
        self.assertEqual(re.findall(r"^  timed (\w+)", body, re.M),
                         ["wheel", "aarch64_wheel", "deb", "extension",
                          "site_archive", "python3", "fresh_machine"])
        [download] = [step for step in self.all["release.yml"]["jobs"]
                      ["publish"]["steps"]
                      if "download-artifact" in step.get("uses", "")]
        self.assertEqual(download["with"], {"name": "release", "path": "dist"})

    def test_a_release_has_checksums_and_attestations(self):
        release = self.all["release.yml"]["jobs"]
        self.assertEqual(release["build"]["uses"], "./.github/workflows/ci.yml")
        self.assertIn("tests/bootstrap release", [
            step.get("run") for step in release["files"]["steps"]])
        uses = " ".join(step.get("uses", "")
                        for step in release["publish"]["steps"])
        self.assertIn("actions/attest-build-provenance@", uses)
        self.assertEqual(uses.count("actions/attest-sbom@"), 2)

    def test_the_package_index_trusts_the_workflow_and_no_secret(self):
        index = self.all["release.yml"]["jobs"]["index"]
        self.assertEqual(index["permissions"], {"id-token": "write"})
        self.assertEqual(index["needs"], "publish")
        with open(os.path.join(WORKFLOWS, "release.yml"),
                  encoding="utf-8") as file:
            self.assertNotIn("secrets.", file.read())

    @unittest.skipUnless(shutil.which("actionlint"), "no actionlint")
    def test_actionlint_finds_nothing(self):
        done = subprocess.run(
            ["actionlint", *(os.path.join(WORKFLOWS, name) for name in self.all)],
            capture_output=True, text=True, check=False)
        self.assertEqual(done.returncode, 0, done.stdout)


class Requirements(unittest.TestCase):
    def test_every_package_has_a_version_and_hashes(self):
        paths = [os.path.join(here, "requirements.txt")
                 for top in ("packaging", "playground", "tests/playground")
                 for here, _, names in os.walk(os.path.join(ROOT, top))
                 if "requirements.txt" in names]
        self.assertGreater(len(paths), 2)
        for path in paths:
            with open(path, encoding="utf-8") as file:
                text = file.read()
            packages = [line for line in text.splitlines()
                        if line and not line.startswith((" ", "#"))]
            self.assertGreater(len(packages), 0)
            for line in packages:
                self.assertRegex(line, r"^[\w.-]+==\S+ \\$", path)
            self.assertEqual(len(packages), len(re.findall(
                r"(?<=\\\n)(?:    --hash=sha256:[0-9a-f]{64}(?: \\)?\n?)+",
                text)))
            self.assertNotIn("://", text)
        # New versions of each are proposed.
        with open(os.path.join(ROOT, ".github", "dependabot.yml"),
                  encoding="utf-8") as file:
            proposed = yaml.safe_load(file)["updates"]
        self.assertLessEqual(
            {"/" + os.path.relpath(os.path.dirname(path), ROOT) for path in paths},
            {one["directory"] for one in proposed
             if one["package-ecosystem"] == "pip"})


if __name__ == "__main__":
    unittest.main()
