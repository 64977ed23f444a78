"""Completes the files of a release: files.py FOLDER VERSION REPOSITORY

FOLDER holds the source distribution and the wheels of all platforms, and
REPOSITORY is the address of the project. The recipes of conda and Homebrew are
written (recipes.py). Each wheel's program, bill of materials
and copyright files are written next to it; then SHA256SUMS, the rows for
releases.txt, and notes.md, the section of CHANGELOG.md about VERSION. For
example shardc-0.2.0-py3-none-manylinux_2_34_x86_64.whl gives
shardc-0.2.0-linux-x86_64, `.cdx.json` and `.notices.txt`. A program that is linked
statically (musllinux) is preferred, because it runs on every Linux.
"""

import hashlib
import os
import re
import sys
import zipfile

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(
    os.path.abspath(__file__))))
sys.path.insert(0, os.path.join(ROOT, "packaging"))
import recipes  # noqa: E402

# The ending of a file in the wheel, and that of the released one.
PARTS = (("/scripts/shardc", ""), ("/doc/shardc/shardc.cdx.json", ".cdx.json"),
         ("/doc/shardc/THIRD-PARTY-NOTICES", ".notices.txt"))


def platform(wheel):
    """`linux-x86_64` of a wheel's name, and whether it is preferred."""
    tag = wheel[:-len(".whl")].rpartition("-")[2]
    found = re.search(r"(manylinux|musllinux|macosx)_.*?"
                      r"(x86_64|aarch64|arm64)$", tag)
    if found is None:
        raise SystemExit(f"{wheel}: the platform `{tag}` is not known")
    system = "darwin" if found[1] == "macosx" else "linux"
    return f"{system}-{found[2]}", "musllinux" in tag


def sha256(path):
    with open(path, "rb") as file:
        return hashlib.sha256(file.read()).hexdigest()


def programs(folder, version):
    """Writes the parts of the wheels; returns the programs by platform."""
    wheels = {}
    for name in sorted(os.listdir(folder)):
        if name.endswith(".whl"):
            found, preferred = platform(name)
            if preferred or found not in wheels:
                wheels[found] = name
    out = {}
    for found, wheel in wheels.items():
        program = f"shardc-{version}-{found}"
        with zipfile.ZipFile(os.path.join(folder, wheel)) as archive:
            for inside, ending in PARTS:
                [name] = [one for one in archive.namelist()
                          if one.endswith(inside)]
                path = os.path.join(folder, program + ending)
                with open(path, "wb") as file:
                    file.write(archive.read(name))
        os.chmod(os.path.join(folder, program), 0o755)
        out[found] = program
    return out


def notes(changelog, version):
    section = re.search(rf"^## \[{re.escape(version)}\][^\n]*\n(.*?)(?=^## |\Z)",
                        changelog, re.MULTILINE | re.DOTALL)
    if section is None:
        raise SystemExit(f"CHANGELOG.md has no section about {version}")
    return section[1].strip() + "\n"


def check_committed(version, rows, table=os.path.join(
        ROOT, "packaging", "release", "releases.txt")):
    """Rows of the version that are committed, if any, are those built here."""
    with open(table, encoding="utf-8") as file:
        committed = [row for row in file if row.startswith(version + " ")]
    if committed and committed != rows:
        raise SystemExit(
            f"{table} lists other programs of {version} than were built:\n"
            + "".join(rows) + "write these rows there, or build what it lists")


def main(folder, version, repository):
    with open(os.path.join(ROOT, "CHANGELOG.md"), encoding="utf-8") as file:
        text = notes(file.read(), version)
    recipes.main(folder, repository,
                 os.path.join(folder, f"shardc-{version}.tar.gz"))
    found = programs(folder, version)
    rows = [f"{version} {name} {sha256(os.path.join(folder, program))} {program}\n"
            for name, program in sorted(found.items())]
    check_committed(version, rows)
    with open(os.path.join(folder, "releases.txt"), "w",
              encoding="utf-8") as file:
        file.writelines(rows)
    names = sorted(os.listdir(folder))
    with open(os.path.join(folder, "SHA256SUMS"), "w",
              encoding="utf-8") as file:
        for name in names:
            file.write(f"{sha256(os.path.join(folder, name))}  {name}\n")
    with open(os.path.join(folder, "notes.md"), "w", encoding="utf-8") as file:
        file.write(text)


if __name__ == "__main__":
    main(*sys.argv[1:])
