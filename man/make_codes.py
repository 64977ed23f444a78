"""Writes the codes into shardc-diagnostics.7.in: PAGE.in CODES.md OUTPUT"""

import re
import sys

from mdoc import escaped

FAMILIES = ["Reading", "Rules", "Specs", "Meshes", "Modes and caches",
            "Memory and traffic", "Checkpoints", "Interchange"]


def codes(table):
    return re.findall(
        r"^\| (SHD(\d)\d\d) \| (\S+) \| (.+?) \| (.+?) \|$", table, re.M)


def section(table):
    text = ""
    family = None
    for code, digit, name, level, meaning in codes(table):
        if digit != family:
            text += (".El\n" if family else "") + f".Ss {FAMILIES[int(digit)]}"
            text += "\n.Bl -tag -width Ds\n"
            family = digit
        text += (f".It {code} {escaped(name)} ({escaped(level)})\n"
                 f"{escaped(meaning[:1].upper() + meaning[1:])}.\n")
    return text + ".El\n"


def main():
    page, table, output = sys.argv[1:]
    with open(table, encoding="utf-8") as file:
        codes_section = section(file.read())
    with open(page, encoding="utf-8") as file:
        text = file.read()
    with open(output, "w", encoding="utf-8") as file:
        file.write(text.replace("@CODES@\n", codes_section))


if __name__ == "__main__":
    main()
