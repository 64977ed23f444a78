"""Every command that README.md, the guides and PAGES show, with the output that
they show.

Blocks marked `console` are sessions (page_sessions.py). A
block marked `sh` holds the two commands that install and build; those marked
`python` are run where JAX and PyTorch are (tests/runtimes/package_*). An ordinary
run of the tests leaves out two thirds of the long searches.

Pages of FIRST_HOURS start in an empty folder. A command of theirs that needs JAX or
PyTorch is not run here: what it writes is in testdata/first_hour, and
tests/runtimes/first_hour_*_live_test.py run the whole page.

`readme_test.py --write [PAGE...]` puts the output of now into the pages, to be
read before they are committed.
"""

import os
import re
import shutil
import subprocess
import sys
import tempfile
import unittest

from driver import BIN, ROOT, Case, part_of
from page_sessions import (FENCE, blocks, changed_folder, fits, needed, session,
                           status)

README = "README.md"
GUIDES = os.path.join("docs", "guides")
# Other pages whose commands run as well.
PAGES = [os.path.join("docs", name)
         for name in ("concepts.md", "five-minutes.md")]


# What these pages describe is clicked, or runs where JAX is: tests/playground and
# tests/runtimes compare what they print.
WITHOUT_COMMANDS = {"docs/guides/playground.md", "docs/guides/train-jax.md"}
# The first hour of three kinds of work, and the folder of what was recorded.
FIRST_HOURS = {os.path.join(GUIDES, f"first-hour-{kind}.md"): kind
               for kind in ("jax", "huggingface", "configs")}
RECORDED = os.path.join(ROOT, "testdata", "first_hour")


def pages():
    """The pages, relative to the source."""
    guides = sorted(os.listdir(os.path.join(ROOT, GUIDES)))
    return [README] + PAGES + [os.path.join(GUIDES, name) for name in guides
                               if name.endswith(".md")]


def page(name):
    with open(os.path.join(ROOT, name), encoding="utf-8") as file:
        return file.read()


def heading_id(title):
    """The fragment of a heading's link, as GitHub makes it."""
    text = re.sub(r"[^\w\- ]", "", title.lower())
    return text.replace(" ", "-")


def searches_of(name):
    """The page's searches over thousands of layouts that write no file, of which
    each takes as long as all other commands of its page."""
    return [(name, command) for block in blocks(page(name), "console")
            for command, _ in session(block)
            if command.startswith("shardc search --details ")
            and "-o" not in command.split()]


class Folder:
    """Where the page's commands run: the source's data, with the examples
    copied, so that they may write. `data` is the `testdata` of another folder,
    whose files the pages share, because they only read them. The folder of a first
    hour is empty."""

    def __init__(self, name, data=None):
        self.recorded = FIRST_HOURS.get(name)
        self.path = self.at = tempfile.mkdtemp()
        # As where the wheel is installed.
        self.env = dict(os.environ, TERM="dumb", SHARDC=BIN,
                        PATH=os.path.dirname(BIN) + ":" + os.environ["PATH"],
                        PYTHONPATH=os.path.join(ROOT, "python"),
                        PYTHONDONTWRITEBYTECODE="1")
        if self.recorded is None:
            self.fill(data)

    def fill(self, data):
        # Copies, not symbolic links: a project's paths stay inside its
        # repository.
        os.mkdir(os.path.join(self.path, ".git"))
        for name in ("rules", "schemas", "examples"):
            shutil.copytree(os.path.join(ROOT, name),
                            os.path.join(self.path, name), symlinks=True)
        self.data = os.path.join(self.path, "testdata")
        if data:
            shutil.copytree(data, self.data, copy_function=os.link)
        else:
            shutil.copytree(os.path.join(ROOT, "testdata"), self.data)

    def take_recorded(self, command):
        """Puts the files that the command names, and that were recorded, where it
        writes them."""
        folder = os.path.join(RECORDED, self.recorded)
        for name in sorted(os.listdir(folder)):
            if f" {name}" in command:
                shutil.copyfile(os.path.join(folder, name),
                                os.path.join(self.at, name))

    def run(self, command):
        folder = changed_folder(command)
        if folder is not None:
            self.at = os.path.normpath(os.path.join(self.at, folder))
            command = "true"
        return subprocess.run(
            ["sh", "-c", "exec 2>&1\n" + command], check=False,
            cwd=self.at, env=self.env, text=True, stdout=subprocess.PIPE,
            timeout=900)


def written_at(path):
    """When each file below a folder was written."""
    return {os.path.join(folder, name):
            os.stat(os.path.join(folder, name)).st_mtime_ns
            for folder, _, names in os.walk(path) for name in names}


def write(name):
    folder = Folder(name)

    def block(match):
        if match.group(1) != "console":
            return match.group(0)
        text = "```console\n"
        for command, lines in session(match.group(2)):
            if needed(command):
                folder.take_recorded(command)
                text += "\n".join([f"$ {command}", *lines]) + "\n"
                continue
            output = folder.run(command).stdout
            if fits(output, lines):
                output = "".join(line + "\n" for line in lines)
            text += f"$ {command}\n{output}"
        return text + "```"

    text = FENCE.sub(block, page(name))
    with open(os.path.join(ROOT, name), "w", encoding="utf-8") as file:
        file.write(text)
    shutil.rmtree(folder.path)


class Readme(Case):
    maxDiff = None

    def test_every_command_prints_what_the_page_shows(self):
        first = Folder(README)
        self.addCleanup(shutil.rmtree, first.path)
        times = written_at(first.data)
        searches = [one for name in pages() for one in searches_of(name)]
        left_out = set(searches) - set(part_of(searches, 3))
        for name in pages():
            folder = Folder(name, first.data)
            self.addCleanup(shutil.rmtree, folder.path)
            count = 0
            for block in blocks(page(name), "console"):
                for command, expected in session(block):
                    count += 1
                    if (name, command) in left_out:
                        continue
                    if needed(command):
                        folder.take_recorded(command)
                        continue
                    with self.subTest(command, page=name):
                        self.check(folder, command, expected)
            if name in WITHOUT_COMMANDS:
                self.assertEqual(count, 0, name)
            else:
                self.assertGreater(count, 2, name)
        self.assertEqual(written_at(first.data), times)

    def check(self, folder, command, expected):
        done = folder.run(command)
        self.assertEqual(done.returncode, status(command), done.stdout)
        if not fits(done.stdout, expected):
            self.assertEqual("\n".join(expected) + "\n", done.stdout)

    def test_the_two_commands(self):
        self.assertEqual(blocks(page(README), "sh"),
                         ["tests/bootstrap demo\n", "tests/bootstrap test\n"])
        with open(os.path.join(ROOT, "tests", "bootstrap"),
                  encoding="utf-8") as file:
            script = file.read()
        for verb in ("demo", "test"):
            self.assertRegex(script, rf"(?m)^  {verb}\) ")

    def test_every_file_that_the_page_links_to_is_there(self):
        for name in pages():
            folder = os.path.dirname(os.path.join(ROOT, name))
            for link in re.findall(r"\]\(([^)#:]+)\)", page(name)):
                self.assertTrue(os.path.exists(os.path.join(folder, link)),
                                f"{name}: {link}")

    def test_every_fragment_of_a_link_is_a_heading(self):
        docs = os.path.join(ROOT, "docs")
        others = [os.path.join("docs", name) for name in os.listdir(docs)
                  if name.endswith(".md")]
        for name in {*pages(), *others}:
            folder = os.path.dirname(os.path.join(ROOT, name))
            for link, heading in re.findall(r"\]\(([^)#:]*)#([^)]+)\)",
                                            page(name)):
                target = os.path.join(folder, link) if link else \
                    os.path.join(ROOT, name)
                titles = re.findall(r"^#+ (.*)$", page(target), re.M)
                self.assertIn(heading, map(heading_id, titles),
                              f"{name}: {link}")

    def test_every_guide_opens_with_its_readers(self):
        for name in pages()[1:]:
            text = page(name).split("\n\n")[1]
            self.assertRegex(text, r"^For [^.]*\.", name)

    def test_the_pictures_are_drawn_by_the_program(self):
        pictures = os.path.join(ROOT, "docs", "pictures")
        with tempfile.TemporaryDirectory() as folder:
            subprocess.run([sys.executable, "-B",
                            os.path.join(pictures, "draw.py"), folder],
                           check=True, env=dict(os.environ, SHARDC_BIN=BIN))
            drawn = sorted(os.listdir(folder))
            self.assertEqual(drawn, sorted(
                name for name in os.listdir(pictures)
                if name.endswith(".svg")))
            for name in drawn:
                self.assertEqual(
                    page(os.path.join(folder, name)),
                    page(os.path.join(pictures, name)),
                    f"{name}: docs/pictures/draw.py draws it again")

    def test_the_page_of_the_source_lists_every_folder(self):
        table = page(os.path.join("docs", "source.md"))
        source = os.path.join(ROOT, "src")
        for name in sorted(os.listdir(source)):
            if os.path.isdir(os.path.join(source, name)):
                self.assertIn(f"`{name}`", table)

    def test_the_readme_leads_to_every_guide(self):
        for name in pages()[1:]:
            self.assertIn(f"]({name})", page(README))


if __name__ == "__main__":
    if sys.argv[1:2] == ["--write"]:
        for page_name in sys.argv[2:] or pages():
            write(page_name)
    else:
        unittest.main()
