"""Fills shardc-diagnostics.7.in from what the program says of itself.

Usage: make_codes.py PROGRAM PAGE.in OUTPUT
"""

import re
import subprocess
import sys

from make_page import escaped

FAMILIES = ["Reading", "Rules", "Specs", "Meshes", "Modes and caches",
            "Memory and traffic", "Checkpoints", "Interchange"]


def codes(program):
    table = subprocess.run([program, "explain", "--codes"], check=True,
                           capture_output=True, text=True).stdout
    return re.findall(
        r"^\| (SHD(\d)\d\d) \| (\S+) \| (.+?) \| (.+?) \|$", table, re.M)


def section(program):
    text = ""
    family = None
    for code, digit, name, level, meaning in codes(program):
        if digit != family:
            text += (".El\n" if family else "") + f".Ss {FAMILIES[int(digit)]}"
            text += "\n.Bl -tag -width Ds\n"
            family = digit
        text += (f".It {code} {escaped(name)} ({escaped(level)})\n"
                 f"{escaped(meaning[:1].upper() + meaning[1:])}.\n")
    return text + ".El\n"


def main():
    program, page, output = sys.argv[1:]
    with open(page, encoding="utf-8") as file:
        text = file.read()
    with open(output, "w", encoding="utf-8") as file:
        file.write(text.replace("@CODES@\n", section(program)))


if __name__ == "__main__":
    main()
