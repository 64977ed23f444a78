"""Writes the recipes of conda and Homebrew: recipes.py FOLDER REPOSITORY SOURCE

SOURCE is the source distribution of the version that meson.build states, and
REPOSITORY the address of the project, whose release `vVERSION` holds it. For
example shardc-0.2.0.tar.gz gives FOLDER/meta.yaml and FOLDER/shardc.rb, which
name REPOSITORY/releases/download/v0.2.0/shardc-0.2.0.tar.gz and its SHA-256.
"""

import hashlib
import os
import re
import sys

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, HERE)
import version  # noqa: E402

TEMPLATES = ("conda/meta.yaml.in", "homebrew/shardc.rb.in")


def recipes(repository, source):
    """The text of each recipe by its file name."""
    current = version.version()
    name = os.path.basename(source)
    if name != f"shardc-{current}.tar.gz":
        raise SystemExit(f"{name}: the version of the project is {current}")
    with open(source, "rb") as file:
        digest = hashlib.sha256(file.read()).hexdigest()
    values = {
        "VERSION": current,
        "HOMEPAGE": repository,
        "URL": f"{repository}/releases/download/v{current}/{name}",
        "SHA256": digest,
    }
    out = {}
    for template in TEMPLATES:
        with open(os.path.join(HERE, template), encoding="utf-8") as file:
            text = file.read()
        out[os.path.basename(template)[:-len(".in")]] = re.sub(
            "@([A-Z0-9]+)@", lambda match: values[match[1]], text)
    return out


def main(folder, repository, source):
    for name, text in recipes(repository, source).items():
        with open(os.path.join(folder, name), "w", encoding="utf-8") as file:
            file.write(text)


if __name__ == "__main__":
    main(*sys.argv[1:])
