"""Prints the version of the project, which meson.build alone states."""

import os
import re

ROOT = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))


def version():
    with open(os.path.join(ROOT, "meson.build"), encoding="utf-8") as file:
        return re.search(r"^  version: '([^']+)'", file.read(), re.MULTILINE)[1]


if __name__ == "__main__":
    print(version())
