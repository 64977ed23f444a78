"""Runs the tests of the live systems whose environment is made.

Usage: live.py [FAMILY...], the families being the files FAMILY_live_test.py.
Those without an environment are skipped and counted; the exit status is 77
where that leaves none, and 1 where a test failed. With --skipped nothing is
run, and only what would be skipped is printed.
"""

import os
import re
import subprocess
import sys

import environment
from records import HERE

# Which environment each family's system is installed in.
FAMILIES = {"jax": "live", "exports": "live", "eformer": "live",
            "parity": "live", "dtensor": "record", "dcp": "record",
            "orbax": "live", "restore_orbax": "live",
            "restore_dcp": "record", "tree": "record", "flax": "flax",
            "package": "live", "states": "live", "package_torch": "record",
            "sources": "sources", "cost": "live", "step": "record",
            "tp_logits": "record", "declared_torch": "record",
            "declared_jax": "declared",
            "xla": "live",
            "levanter": "levanter", "levanter_mesh": "levanter_mesh",
            "maxtext": "maxtext"}
SKIPPED = 77


def path(family):
    return os.path.join(HERE, family + "_live_test.py")


def tests_in(family):
    with open(path(family), encoding="utf-8") as file:
        return len(re.findall(r"^    def test_", file.read(), re.M))


def skipped_in(families):
    """The families without an environment, which are printed."""
    skipped = [family for family in families
               if not environment.is_made(FAMILIES[family])]
    for family in skipped:
        print(f"{family}: skipped {tests_in(family)} tests of the live "
              f"system: no environment `{FAMILIES[family]}`")
    total = sum(tests_in(family) for family in skipped)
    print(f"live: {total} tests skipped", flush=True)
    return skipped


def main():
    if sys.argv[1:] == ["--skipped"]:
        skipped_in(FAMILIES)
        return
    families = sys.argv[1:] or list(FAMILIES)
    unknown = [family for family in families if family not in FAMILIES]
    if unknown:
        sys.exit(f"no such family: {unknown[0]}; there are: "
                 + ", ".join(FAMILIES))
    skipped = skipped_in(families)
    failed = False
    for family in families:
        if family not in skipped:
            done = subprocess.run(
                [environment.python(FAMILIES[family]), path(family)],
                check=False, cwd=HERE)
            failed = failed or done.returncode != 0
    sys.exit(1 if failed else SKIPPED if skipped == families else 0)


if __name__ == "__main__":
    main()
