"""Lists files for the build, so that a new one needs no line in it.

list_files.py ROOT ENDING FOLDER... prints, for each of ROOT's FOLDERs, the
files below it whose names end so, relative to ROOT. With --check LIST as the
first words it compares instead: LIST is what the build was configured with.
"""

import os
import sys


def listing(root, ending, folders):
    for folder in folders:
        for here, below, names in os.walk(os.path.join(root, folder)):
            below.sort()
            for name in sorted(names):
                if name.endswith(ending):
                    path = os.path.relpath(os.path.join(here, name), root)
                    yield path.replace(os.sep, "/")


def main():
    arguments = sys.argv[1:]
    configured = None
    if arguments[0] == "--check":
        with open(arguments[1], encoding="utf-8") as file:
            configured = set(file.read().split())
        arguments = arguments[2:]
    root, ending, *folders = arguments
    found = list(listing(root, ending, folders))
    if configured is None:
        print("\n".join(found))
    elif configured != set(found):
        changed = " ".join(sorted(configured ^ set(found)))
        sys.exit(f"files came or went: {changed}\n"
                 "configure again: meson setup --reconfigure BUILD")


main()
