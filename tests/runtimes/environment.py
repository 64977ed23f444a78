"""Makes a virtual environment with one of the lists of requirements.

Usage: environment.py NAME [--within SECONDS]; NAME is `live` or one of
requirements-NAME.txt. It is made in build-runtimes/NAME, which git ignores, or
below the folder that SHARDC_RUNTIMES names, and made again only when its list changes. Where it cannot be made in time,
one line prints the reason, nothing is left behind, and the exit status is 1.
"""

import argparse
import glob
import os
import shutil
import subprocess
import sys
import time

from records import HERE, ROOT

MADE = os.environ.get("SHARDC_RUNTIMES") or os.path.join(
    ROOT, "build-runtimes")
# The Python that an environment needs, where 3.11 does not do.
NEEDED = {"maxtext": (3, 12), "jax_0_12": (3, 12)}


def requirements(name):
    ending = "" if name == "live" else "-" + name
    return os.path.join(HERE, f"requirements{ending}.txt")


def python(name):
    return os.path.join(MADE, name, "bin", "python")


def wanted(name):
    with open(requirements(name), encoding="utf-8") as file:
        return file.read()


def is_made(name):
    """Whether the environment has the packages of its list."""
    stamp = os.path.join(MADE, name, "made-from.txt")
    if not os.path.exists(stamp):
        return False
    with open(stamp, encoding="utf-8") as file:
        return file.read() == wanted(name)


def attempt(steps, seconds):
    """Runs the steps; why the first that failed did, or nothing."""
    end = time.monotonic() + seconds
    for step in steps:
        try:
            done = subprocess.run(
                step, timeout=max(1, end - time.monotonic()), check=False,
                stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                stderr=subprocess.STDOUT, encoding="utf-8", errors="replace")
        except subprocess.TimeoutExpired:
            return f"not made within {seconds} s"
        except OSError as error:
            return str(error)
        if done.returncode:
            said = done.stdout.strip().splitlines() or ["no word why"]
            return said[-1]
    return None


def starter(name):
    """A Python that is new enough; nothing where none is found."""
    needed = NEEDED.get(name, (3, 11))
    found = [sys.executable]
    for minor in range(needed[1], needed[1] + 4):
        named = f"python{needed[0]}.{minor}"
        found += filter(None, [shutil.which(named)])
        found += sorted(glob.glob(os.path.join(
            os.environ.get("PYENV_ROOT", os.path.expanduser("~/.pyenv")),
            "versions", "*", "bin", named)))
    wanted_version = f"import sys; sys.exit(sys.version_info < {needed})"
    for one in found:
        if subprocess.run([one, "-c", wanted_version], check=False,
                          stderr=subprocess.DEVNULL).returncode == 0:
            return one
    return None


def make(name, seconds):
    """Why it was not made, or nothing."""
    folder = os.path.join(MADE, name)
    shutil.rmtree(folder, ignore_errors=True)
    start = starter(name)
    if start is None:
        return "no Python that is new enough"
    why = attempt([
        [start, "-m", "venv", folder],
        [python(name), "-m", "pip", "install", "--quiet", "--no-deps",
         "--disable-pip-version-check", "--no-input", "--retries", "1",
         "--timeout", "20", "--prefer-binary", "-r",
         requirements(name)]], seconds)
    if why is None:
        with open(os.path.join(folder, "made-from.txt"), "w",
                  encoding="utf-8") as file:
            file.write(wanted(name))
    else:
        shutil.rmtree(folder, ignore_errors=True)
    return why


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("name")
    parser.add_argument("--within", type=float, default=1800)
    flags = parser.parse_args()
    if is_made(flags.name):
        return
    why = make(flags.name, flags.within)
    if why is not None:
        sys.exit(f"no environment `{flags.name}`: {why}")


if __name__ == "__main__":
    main()
