"""Every command that README.md shows, with the output that it shows.

A block marked `console` is a session in one folder: `$ ` begins a command,
what follows is its output (both streams), and a line `...` stands for any
number of lines. `# exits with N` ends a command that finds something. A
block marked `sh` holds the two commands that install and build.

`readme_test.py --write` puts the output of now into the page, to be read
before it is committed.
"""

import os
import re
import shutil
import subprocess
import sys
import tempfile
import unittest

from driver import BIN, ROOT, Case

FENCE = re.compile(r"^```(\w*)\n(.*?)^```$", re.M | re.S)


PAGE = os.path.join(ROOT, "README.md")


def page():
    with open(PAGE, encoding="utf-8") as file:
        return file.read()


def blocks(language):
    return [text for found, text in FENCE.findall(page())
            if found == language]


def session(block):
    """(command, expected output) in order."""
    steps = []
    for line in block.splitlines():
        if line.startswith("$ "):
            steps.append([line[2:], []])
        elif steps[-1][0].endswith("\\") and not steps[-1][1]:
            steps[-1][0] += "\n" + line
        else:
            steps[-1][1].append(line)
    return steps


def pattern(lines):
    parts = [r"(?:.*\n)*?" if line == "..." else re.escape(line) + "\n"
             for line in lines]
    return "".join(parts)


def fits(output, lines):
    return re.fullmatch(pattern(lines), output) is not None


class Folder:
    """Where the page's commands run: the source's data, with the examples
    copied, so that they may write."""

    def __init__(self):
        self.path = tempfile.mkdtemp()
        for name in ("testdata", "rules", "schemas"):
            os.symlink(os.path.join(ROOT, name),
                       os.path.join(self.path, name))
        shutil.copytree(os.path.join(ROOT, "examples"),
                        os.path.join(self.path, "examples"))
        self.env = dict(os.environ, TERM="dumb",
                        PATH=os.path.dirname(BIN) + ":" + os.environ["PATH"])

    def run(self, command):
        return subprocess.run(
            ["sh", "-c", "exec 2>&1\n" + command], check=False,
            cwd=self.path, env=self.env, text=True, stdout=subprocess.PIPE,
            timeout=900)


def write():
    folder = Folder()

    def block(match):
        if match.group(1) != "console":
            return match.group(0)
        text = "```console\n"
        for command, lines in session(match.group(2)):
            output = folder.run(command).stdout
            if fits(output, lines):
                output = "".join(line + "\n" for line in lines)
            text += f"$ {command}\n{output}"
        return text + "```"

    text = FENCE.sub(block, page())
    with open(PAGE, "w", encoding="utf-8") as file:
        file.write(text)
    shutil.rmtree(folder.path)


class Readme(Case):
    maxDiff = None

    def setUp(self):
        self.folder = Folder()
        self.addCleanup(shutil.rmtree, self.folder.path)

    def test_every_command_prints_what_the_page_shows(self):
        count = 0
        for block in blocks("console"):
            for command, expected in session(block):
                status = re.search(r"# exits with (\d)$", command)
                with self.subTest(command):
                    done = self.folder.run(command)
                    self.assertEqual(done.returncode,
                                     int(status.group(1)) if status else 0,
                                     done.stdout)
                    if not fits(done.stdout, expected):
                        self.assertEqual("\n".join(expected) + "\n",
                                         done.stdout)
                    count += 1
        self.assertGreater(count, 5)

    def test_the_two_commands(self):
        self.assertEqual(blocks("sh"),
                         ["tests/bootstrap demo\n", "tests/bootstrap test\n"])
        with open(os.path.join(ROOT, "tests", "bootstrap"),
                  encoding="utf-8") as file:
            script = file.read()
        for verb in ("demo", "test"):
            self.assertRegex(script, rf"(?m)^  {verb}\) ")

    def test_every_file_that_the_page_links_to_is_there(self):
        for link in re.findall(r"\]\(([^)#:]+)\)", page()):
            self.assertTrue(os.path.exists(os.path.join(ROOT, link)), link)


if __name__ == "__main__":
    if sys.argv[1:] == ["--write"]:
        write()
    else:
        unittest.main()
