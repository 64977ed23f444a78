"""python -m shardc: the program itself."""

import os
import subprocess
import sys

from shardc.command import find_program


def main() -> int:
    try:
        program = find_program()
    except FileNotFoundError as error:
        print(f"error: {error}", file=sys.stderr)
        return 2
    if hasattr(os, "execv"):
        os.execv(program, [program, *sys.argv[1:]])
    return subprocess.call([program, *sys.argv[1:]])


if __name__ == "__main__":
    sys.exit(main())
