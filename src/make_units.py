"""Groups sources into units of compilation and prints one unit a line.

    make_units.py ROOT FILE...

A unit has sources of one folder, in their order, up to 7,500 lines together, so
that their common headers are read, and their common templates are compiled,
once for all of them. Files are named from ROOT. Sources of vectors
(_simd.cc) stay alone, because they include themselves once for each instruction
set.
"""

import pathlib
import sys


# A third of a unit's time goes into headers and into templates that other units
# compile as well: units of 2,500 lines take 1.25 times the processor time of
# these. Longer ones would leave processors without work at the end of a build.
LINES = 7500


def main(root, *names):
    units, place, lines = [], None, 0
    for name in names:
        if name.endswith("_simd.cc"):
            print(name)
            continue
        path = pathlib.Path(root) / name
        count = path.read_text(encoding="utf-8").count("\n")
        if path.parent != place or lines + count > LINES:
            units.append([])
            place, lines = path.parent, 0
        units[-1].append(name)
        lines += count
    for unit in units:
        print(" ".join(unit))


if __name__ == "__main__":
    main(*sys.argv[1:])
