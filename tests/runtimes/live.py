"""Runs the tests of the live systems whose environment is made.

Usage: live.py [FAMILY...], the families being the files FAMILY_live_test.py.
`checkpoints` stands for those that save and restore checkpoints, each with the
earlier versions in EARLIER too. With --environments nothing is run, and the
names of the environments that the families need are printed. Those without an
environment are skipped and counted; the exit status is 77 where that leaves
none, and 1 where a test failed.
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
            "package": "live", "first_hour_jax": "live",
            "first_hour_huggingface": "record", "states": "live", "package_torch": "record",
            "distribute": "record",
            "exports_torch": "record",
            "sources": "sources", "cost": "live", "step": "record",
            "tp_logits": "record", "tp_checkpoints": "record",
            "packed": "record",
            "family": "record",
            "megatron_vllm": "megatron_vllm", "declared_torch": "record",
            "declared_jax": "declared", "pipelining": "record",
            "xla": "live", "programs": "live", "torch_programs": "record",
            "levanter": "levanter", "levanter_mesh": "levanter_mesh",
            "maxtext": "maxtext", "reference": "reference"}
# Environments of earlier versions, in which `checkpoints` runs a family too.
EARLIER = {"orbax": ("orbax_0_11_20", "orbax_0_11_5"),
           "restore_orbax": ("orbax_0_11_20", "orbax_0_11_5"),
           "dcp": ("torch_2_6",), "restore_dcp": ("torch_2_6",)}
# Environments of later versions, in which a family always runs too.
LATER = {"programs": ("jax_0_12",)}
# Environments that a family reads files of, without which it has fewer cases.
READ = {"reference": ("sources", "int8_cache")}
SKIPPED = 77


def path(family):
    return os.path.join(HERE, family + "_live_test.py")


def tests_in(family):
    with open(path(family), encoding="utf-8") as file:
        return len(re.findall(r"^    def test_", file.read(), re.M))


def runs_of(families):
    """The families and the environment of each run."""
    runs = []
    for family in families or FAMILIES:
        if family == "checkpoints":
            runs += [(one, name) for one, earlier in EARLIER.items()
                     for name in (FAMILIES[one], *earlier)]
        elif family in FAMILIES:
            runs += [(family, name)
                     for name in (FAMILIES[family], *LATER.get(family, ()))]
        else:
            sys.exit(f"no such family: {family}; there are: checkpoints, "
                     + ", ".join(FAMILIES))
    return runs


def skipped_in(runs):
    """The runs without an environment, which are printed."""
    skipped = [run for run in runs if not environment.is_made(run[1])]
    for family, name in skipped:
        print(f"{family}: skipped {tests_in(family)} tests of the live "
              f"system: no environment `{name}`")
    total = sum(tests_in(family) for family, _ in skipped)
    print(f"live: {total} tests skipped", flush=True)
    return skipped


def main():
    if sys.argv[1:2] == ["--environments"]:
        print(*dict.fromkeys(
            needed for family, name in runs_of(sys.argv[2:])
            for needed in (name, *READ.get(family, ()))))
        return
    runs = runs_of(sys.argv[1:])
    skipped = skipped_in(runs)
    failed = False
    for run in runs:
        if run not in skipped:
            family, name = run
            done = subprocess.run([environment.python(name), path(family)],
                                  check=False, cwd=HERE)
            failed = failed or done.returncode != 0
    sys.exit(1 if failed else SKIPPED if skipped == runs else 0)


if __name__ == "__main__":
    main()
