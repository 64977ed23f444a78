#!/usr/bin/env python3
"""From a key in Neovim until its diagnostics arrive, elapsed, with 91,000 names.

    python3 bench/neovim_keys.py [--build FOLDER] [--keys N] [--pause MS]

Prints the median and the slowest of the keys for each form of names. Needs `nvim`
0.7 or later, and a machine that does nothing else.
"""

import argparse
import json
import os
import subprocess
import sys
import tempfile

import lsp_suite

HERE = os.path.dirname(os.path.abspath(__file__))


def measure(program, kind, keys, pause):
    with tempfile.TemporaryDirectory() as folder:
        folder = os.path.realpath(folder)
        rules = lsp_suite.write_project(folder, kind)
        result = os.path.join(folder, "result.json")
        subprocess.run(
            ["nvim", "--headless", "-u", "NONE", "-i", "NONE", "-n", "-c",
             "luafile " + os.path.join(HERE, "neovim_keys.lua")],
            cwd=folder, timeout=600, stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL, check=False,
            env={**os.environ, "SHARDC_BIN": program, "SHARDC_RULES": rules,
                 "SHARDC_RESULT": result, "SHARDC_KEYS": str(keys),
                 "SHARDC_PAUSE": str(pause), "HOME": folder,
                 "XDG_STATE_HOME": folder, "XDG_CACHE_HOME": folder,
                 "SHARDC_SNIPPET": os.path.join(HERE, "..", "editors",
                                                "neovim")})
        with open(result, encoding="utf-8") as file:
            out = json.load(file)
        if "error" in out:
            sys.exit(out["error"])
        return sorted(out["milliseconds"])


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n", 1)[0])
    parser.add_argument("--build", default=os.path.join(HERE, "..", "build"))
    parser.add_argument("--keys", type=int, default=40)
    parser.add_argument("--pause", type=int, default=200,
                        help="milliseconds between keys")
    options = parser.parse_args()
    program = os.path.abspath(os.path.join(options.build, "src/cli/shardc"))
    print("%-10s %6s %8s %10s" % ("names", "keys", "median", "slowest"))
    for kind in lsp_suite.KINDS:
        taken = measure(program, kind, options.keys, options.pause)
        print("%-10s %6d %5.1f ms %7.1f ms" % (
            kind, len(taken), taken[len(taken) // 2], taken[-1]))


if __name__ == "__main__":
    main()
