"""Draws the folders of src as a house of floors, for docs/source.md. A folder
stands above all folders that it includes, as tests/rooms_test.py lists them.

draw.py, which draws the other pictures too, calls it.
"""

import os
import sys

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(
    os.path.abspath(__file__))))
sys.path.insert(0, os.path.join(ROOT, "tests"))

from rooms_test import MAY_INCLUDE  # noqa: E402

# What the folders of a colour do, from the files of users to the commands.
PARTS = {
    "read files of users and of other systems": (
        "#d7e8f5", "#27506e", "source model yaml hlo devices parse stored "
        "importers families systems target floats"),
    "names and specs": (
        "#dff0d8", "#35603a", "match resolve legalize roles suggest"),
    "programs and steps": ("#f5e6cf", "#6e5426", "program step schedule comm"),
    "the plan and what is wrong with it": (
        "#f2dede", "#70393b", "facts plan lint checkpoint kv"),
    "what it costs": ("#ece3f4", "#573c70", "cost search audit"),
    "proof by numbers": ("#e4e4e4", "#4a4a4a", "dense exec verify eval"),
    "output and commands": ("#fdf3c0", "#665c17", "picture emit lsp cli"),
}
MARGIN, GAP, HEIGHT, LINE = 8, 4, 24, 18
CHARACTER = 6.6  # the width of a character of the font


def floors():
    """The folders of each floor, from the ground up."""
    at = {}
    for folder, others in MAY_INCLUDE.items():
        if folder != "pch":
            at[folder] = 1 + max((at[other] for other in others), default=-1)
    out = [[] for _ in range(1 + max(at.values()))]
    for folder, floor in at.items():
        out[floor].append(folder)
    return out


def part_of(folder):
    top = folder.split("/")[0]
    return next(index for index, (*_, folders) in enumerate(PARTS.values())
                if top in folders.split())


def width_of(folder):
    return round(len(folder) * CHARACTER + 14)


def picture():
    body, wide = [], 0
    house = floors()
    for index, folders in enumerate(reversed(house)):
        x, y = MARGIN, MARGIN + index * (HEIGHT + GAP)
        for folder in sorted(folders, key=part_of):
            width = width_of(folder)
            body.append(
                f'<rect x="{x}" y="{y}" width="{width}" height="{HEIGHT}" '
                f'rx="3" class="p{part_of(folder)}"/>'
                f'<text x="{x + width / 2:g}" y="{y + 16}" '
                f'class="mid t{part_of(folder)}">{folder}</text>')
            x += width + GAP
        wide = max(wide, x)
    top = MARGIN + len(house) * (HEIGHT + GAP) + GAP
    for index, name in enumerate(PARTS):
        y = top + index * LINE
        body.append(f'<rect x="{MARGIN}" y="{y}" width="12" height="12" rx="2" '
                    f'class="p{index}"/>'
                    f'<text x="{MARGIN + 20}" y="{y + 10}">{name}</text>')
    height = top + len(PARTS) * LINE + MARGIN
    wide += MARGIN - GAP
    colours = "\n".join(
        f".p{index}{{fill:{light};stroke:{dark}}}\n.t{index}{{fill:{dark}}}"
        for index, (light, dark, _) in enumerate(PARTS.values()))
    inverse = "\n".join(
        f".p{index}{{fill:{dark};stroke:{light}}}\n.t{index}{{fill:{light}}}"
        for index, (light, dark, _) in enumerate(PARTS.values()))
    return (f'<svg xmlns="http://www.w3.org/2000/svg" width="{wide}" '
            f'height="{height}" viewBox="0 0 {wide} {height}">\n<style>\n'
            "svg text{fill:#16191d;font:11px ui-monospace,SFMono-Regular,Menlo,"
            "Consolas,monospace}\n"
            f".mid{{text-anchor:middle}}\n.back{{fill:#fff}}\n{colours}\n"
            "@media (prefers-color-scheme:dark){\nsvg text{fill:#e7eaee}\n"
            f".back{{fill:#16191d}}\n{inverse}\n}}\n</style>\n"
            '<rect width="100%" height="100%" rx="6" class="back"/>\n'
            + "\n".join(body) + "\n</svg>\n")
