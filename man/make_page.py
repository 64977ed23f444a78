"""Fills shardc.1.in from what the program says of itself.

Usage: make_page.py PROGRAM PAGE.in COMMANDS.mdoc OUTPUT
"""

import re
import subprocess
import sys


def run(program, *args):
    return subprocess.run([program, *args], check=True, capture_output=True,
                          text=True).stdout


def commands(program):
    listing = run(program, "--help").split("Subcommands:\n", 1)[1]
    return re.findall(r"^  (\S+) ", listing, re.M)


def options(help_text):
    """(spelling, description) of each option and argument, in order."""
    found = []
    part = help_text.split("\nExample:", 1)[0]
    for heading in ("Positionals:\n", "Options:\n"):
        if heading not in part:
            continue
        body = part.split(heading, 1)[1].split("\n\n", 1)[0]
        for line in body.splitlines():
            if re.match(r"  \S", line):
                halves = re.split(r" {2,}", line.strip(), maxsplit=1)
                found.append([halves[0], halves[1] if len(halves) > 1 else ""])
            elif found:
                found[-1][1] = (found[-1][1] + " " + line.strip()).strip()
    return found


def escaped(text):
    text = text.replace("\\", "\\e").replace("-", "\\-")
    return re.sub(r"^([.'])", r"\\&\1", text)


def option_item(spelling, description):
    names, _, value = spelling.partition(" ")
    value = value.split(":", 1)[0].removesuffix(" ...").removesuffix(
        " REQUIRED")
    if not names.startswith("-"):
        macro = f".It Ar {names}"
    else:
        flags = " , ".join("Fl " + escaped(name[1:])
                           for name in names.split(","))
        macro = f".It {flags}" + (f" Ar {escaped(value)}" if value else "")
    sentence = description[:1].upper() + description[1:]
    return f"{macro}\n{escaped(sentence)}.\n"


def prose(path):
    parts = {}
    with open(path, encoding="utf-8") as file:
        for part in re.split(r"^@command ", file.read(), flags=re.M)[1:]:
            name, text = part.split("\n", 1)
            parts[name] = text
    return parts


def section(program, command, text):
    help_text = run(program, command, "--help")
    items = "".join(option_item(*option) for option in options(help_text))
    example = help_text.split("\nExample:\n", 1)[1].strip()
    return (f".Ss {command}\n{text}"
            f".Bl -tag -width Ds\n{items}.El\n.Pp\nExample:\n"
            f".Bd -literal -offset indent\n{escaped(example)}\n.Ed\n")


def main():
    program, page, commands_path, output = sys.argv[1:]
    texts = prose(commands_path)
    sections = "".join(section(program, command, texts.get(command, ""))
                       for command in commands(program))
    with open(page, encoding="utf-8") as file:
        text = file.read()
    with open(output, "w", encoding="utf-8") as file:
        file.write(text.replace("@COMMANDS@\n", sections))


if __name__ == "__main__":
    main()
