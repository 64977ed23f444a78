"""The sessions of a page of the documentation, and whether a command prints what
its page shows.

A block marked `console` is a session in one folder: `$ ` begins a command,
what follows is its output (both streams), and a line `...` stands for any
number of lines. A command may go on after `\\` and up to `END` of `<<'END'`.
`# exits with N` ends a command that finds something, `# needs NAME` one that runs
only where NAME is installed.
"""

import re

FENCE = re.compile(r"^```(\w*)\n(.*?)^```$", re.M | re.S)
NEEDED = re.compile(r"  # needs (\w+)(?: and exits with \d)?$")
STATUS = re.compile(r"# (?:needs \w+ and )?exits with (\d)$")


def blocks(text, language):
    return [block for found, block in FENCE.findall(text) if found == language]


def session(block):
    """(command, expected output) in order."""
    steps = []
    for line in block.splitlines():
        if steps and "<<'END'" in steps[-1][0] and (
                not steps[-1][0].endswith("\nEND")):
            steps[-1][0] += "\n" + line
        elif line.startswith("$ "):
            steps.append([line[2:], []])
        elif steps[-1][0].endswith("\\") and not steps[-1][1]:
            steps[-1][0] += "\n" + line
        else:
            steps[-1][1].append(line)
    return steps


def needed(command):
    """What has to be installed for the command, besides shardc; else ""."""
    found = NEEDED.search(command)
    return found[1] if found else ""


def status(command):
    """The exit status that its page states."""
    found = STATUS.search(command)
    return int(found[1]) if found else 0


def pattern(lines):
    parts = [r"(?:.*\n)*?" if line == "..." else re.escape(line) + "\n"
             for line in lines]
    return "".join(parts)


def fits(output, lines):
    return re.fullmatch(pattern(lines), output) is not None


def changed_folder(command):
    """The folder of a command `cd FOLDER` alone, which holds for those after it."""
    found = re.fullmatch(r"cd ([\w./-]+)", command)
    return found[1] if found else None
