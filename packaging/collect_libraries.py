"""Lists the libraries whose code is in the program, with versions and licences.

Usage: collect_libraries.py --output FOLDER --name NAME --version VERSION
           [--static] [--c-library] [--root FOLDER] [--depfile FILE] --compiler COMMAND NAME=VERSION=FOLDER...

A dependency is a name that pkg-config knows, with the version and the folder
of its .pc file as the build found them. The linker options of pkg-config give
the files that are linked, and the packages that own these files and the .pc
files give names, versions and copyright files. The compiler's runtime and the
C library's startup objects are listed too; with --c-library the program
contains all of the C library. Files below --root, where a program for another
machine is linked from, belong to the packages that are unpacked there. For example `re2=0.0.0=/usr/lib/
x86_64-linux-gnu/pkgconfig` gives `-lre2`, that is libre2.a of the package
libre2-dev, whose source package re2 has version 20220601 and whose copyright
file states BSD-3-Clause.

Where no package manager knows a file, the dependency's own name and version
are used, with a licence file of the same prefix if there is one. Three files are written:
libraries.txt, a table for `shardc --version --libraries`; THIRD-PARTY-NOTICES,
the copyright files; and NAME.cdx.json, a bill of materials in CycloneDX 1.5.
They hold no time and no path of the build, so equal inputs give equal bytes.
"""

import argparse
import hashlib
import json
import os
import re
import shutil
import subprocess
import uuid

# The compiler's runtime, and what the C library adds to every program.
RUNTIME = ("libstdc++.a", "libgcc.a", "libgcc_eh.a", "libc_nonshared.a",
           "crt1.o")
C_LIBRARY = ("libc.a",)
COMMON_LICENSES = "/usr/share/common-licenses"
LIBRARY_ENDINGS = ("so", "dylib", "tbd")
# Parts of a source package that are in no library.
NOT_COMPILED = re.compile(
    r"(^|/)(debian|tests?|testing|tools|cmake|docs?|examples|contrib|amiga|"
    r"fuzzing|benchmarks?|external/perl|zlibWrapper)(/|$)")
# Licences by phrases of their texts, the most specific first.
PHRASES = (
    ("GPL-3.0-or-later WITH GCC-exception-3.1",
     "GCC RUNTIME LIBRARY EXCEPTION"),
    ("LGPL-2.1-or-later", "GNU Lesser General Public License as published by "
     "the Free Software Foundation; either version 2.1 of the License, or"),
    ("Apache-2.0 WITH LLVM-exception", "LLVM exception"),
    ("Apache-2.0", "Apache License, Version 2.0"),
    ("Apache-2.0", "Apache License Version 2.0"),
    ("Apache-2.0", "common-licenses/Apache-2.0"),
    ("LicenseRef-Lucent", "for any purpose without fee is hereby granted, "
     "provided that this entire"),
    ("X11", "Except as contained in this"),
    ("MIT", "Permission is hereby granted, free of charge, to any person"),
    ("BSD-3-Clause", "Neither the name"),
    ("BSD-2-Clause", "Redistribution and use in source and binary forms"),
    ("Zlib", "This software is provided 'as-is', without any express"),
)
# By the names of dependencies, for systems whose packages carry no copyright
# file that is found here.
KNOWN = {
    "absl": "Apache-2.0", "cli11": "BSD-3-Clause", "highway": "Apache-2.0",
    "libcrypto": "Apache-2.0", "libhwy": "Apache-2.0", "libzstd": "BSD-3-Clause", "musl": "MIT",
    "nlohmann_json": "MIT", "openssl": "Apache-2.0", "re2": "BSD-3-Clause",
    "yaml-cpp": "MIT", "zlib": "Zlib",
}
# The texts that copyright files name instead of quoting them.
FULL_TEXTS = {
    "Apache-2.0": "Apache-2.0",
    "LGPL-2.1-or-later": "LGPL-2.1",
    "GPL-3.0-or-later": "GPL-3",
}


def output_of(*command, **more):
    """The command's output; empty if it fails or is not installed."""
    if shutil.which(command[0]) is None:
        return ""
    done = subprocess.run(command, capture_output=True, text=True,
                          check=False, **more)
    return done.stdout if done.returncode == 0 else ""


def sha256(path):
    with open(path, "rb") as file:
        return hashlib.sha256(file.read()).hexdigest()


def upstream_version(version):
    """`1:1.2.13.dfsg-1` is 1.2.13: no epoch, revision or repackaging mark."""
    version = version.split(":", 1)[-1]
    version = version.rsplit("-", 1)[0] if "-" in version else version
    return re.sub(r"[.+~](dfsg|ds|repack)[.\d]*$", "", version)


def packages(root, *words):
    """What dpkg-query prints about the packages of the system or of a root."""
    place = ["--admindir", os.path.join(root, "var/lib/dpkg")] if root else []
    return output_of("dpkg-query", *place, *words)


def owner(path, root=""):
    """The package that owns a file, with its architecture if it has one."""
    for spelling in (path, os.path.realpath(path)):
        spelling = spelling.removeprefix(root)
        for line in packages(root, "-S", spelling).splitlines():
            names, found, _ = line.partition(": ")
            if found and not line.startswith("diversion"):
                return names.split(",")[0]
        # Before the merge of / and /usr packages named files below /lib.
        if spelling.startswith("/usr/lib"):
            line = packages(root, "-S", spelling[len("/usr"):])
            if ": " in line:
                return line.partition(": ")[0].split(",")[0]
    return None


def licence_of(text):
    """The SPDX identifier of a licence's text, or None."""
    text = re.sub(r"[\s*#/]+", " ", text)
    for name, phrase in PHRASES:
        if re.sub(r"[\s*#/]+", " ", phrase) in text:
            return name
    return None


def paragraphs(text):
    """The fields of each paragraph of a machine-readable copyright file."""
    for block in re.split(r"\n\s*\n", text):
        fields = {}
        name = None
        for line in block.splitlines():
            field = re.match(r"([A-Za-z-]+):(.*)", line)
            if field:
                name = field.group(1)
                fields[name] = field.group(2).strip()
            elif name:
                fields[name] += "\n" + line.strip()
        yield fields


def licences(text):
    """An SPDX expression for the compiled files of a copyright file's package.

    In a machine-readable file each paragraph names files and a licence, whose
    text is there or in a paragraph of its own. Any other file is searched for
    the phrases of known licences.
    """
    if not re.match(r"Format:.*copyright-format", text):
        return licence_of(text) or "NOASSERTION"
    texts = {}
    used = []
    for fields in paragraphs(text):
        name, _, body = fields.get("License", "").partition("\n")
        if body:
            texts.setdefault(name, body)
        files = fields.get("Files", "").split()
        if any(not NOT_COMPILED.search(file) for file in files):
            used.append(name)
    found = []
    for name in used:
        # Of alternatives, the first.
        name = name.partition(" or ")[0] if name not in texts else name
        licence = licence_of(texts.get(name, "")) or licence_of(name)
        if licence not in found:
            found.append(licence or "NOASSERTION")
    return " AND ".join(dict.fromkeys(found)) or "NOASSERTION"


class Component:
    """One library: `package` is None where no package owns its files."""

    def __init__(self, name, version, licence, notice, package=None):
        self.name = name
        self.version = version
        self.licence = licence
        self.notice = notice
        self.package = package  # (name, version, architecture)
        self.files = {}  # linked file's name -> SHA-256

    def url(self):
        if self.package is None:
            return f"pkg:generic/{self.name}@{self.version}"
        name, version, architecture = self.package
        version = version.replace(":", "%3A").replace("+", "%2B")
        return (f"pkg:deb/debian/{name.replace('+', '%2B')}@{version}"
                f"?arch={architecture}")

    def described(self):
        out = {
            "type": "library",
            "bom-ref": self.url(),
            "name": self.name,
            "version": self.version,
            "licenses": [{"expression": self.licence}],
            "purl": self.url(),
        }
        if len(self.files) == 1:
            [digest] = self.files.values()
            out["hashes"] = [{"alg": "SHA-256", "content": digest}]
        elif self.files:
            out["components"] = [
                {"type": "file", "bom-ref": f"{self.url()}#{name}",
                 "name": name,
                 "hashes": [{"alg": "SHA-256", "content": digest}]}
                for name, digest in sorted(self.files.items())]
        return out


def copyright_file(package, root=""):
    return os.path.join(root + "/usr/share/doc", package, "copyright")


def packaged(package, root=""):
    """The component of an installed Debian package."""
    fields = packages(
        root, "-W", "-f",
        "${source:Package}\n${Version}\n${Architecture}", package).split("\n")
    source, version, architecture = fields
    # Cross compilers' libraries are the same sources in other packages.
    source = re.sub(r"-cross(-ports)?$", "", source)
    name = package.split(":")[0]
    path = copyright_file(name, root)
    with open(path, encoding="utf-8") as file:
        notice = file.read()
    return Component(source, upstream_version(version), licences(notice),
                     notice, (name, version, architecture))


def notice_beside(name, folder):
    """A licence file near the folder of a .pc file, where prefixes keep it."""
    here = os.path.realpath(folder)
    for _ in range(3):
        here = os.path.dirname(here)
        for place in (here, os.path.join(here, "share", "doc", name),
                      os.path.join(here, "share", "licenses", name)):
            if not os.path.isdir(place):
                continue
            for file in sorted(os.listdir(place)):
                if re.match(r"(LICEN[CS]E|COPYING|copyright)(\.|$)", file):
                    with open(os.path.join(place, file), encoding="utf-8",
                              errors="replace") as text:
                        return text.read()
    return ""


def unpackaged(name, version, folder):
    notice = notice_beside(name, folder) if folder else ""
    licence = licences(notice) if notice else "NOASSERTION"
    if licence == "NOASSERTION":
        licence = KNOWN.get(name.lower().split("_")[0],
                            KNOWN.get(name.lower(), licence))
    return Component(name, version, licence, notice)


class Collector:
    """Components by source package, or by name where there is no package."""

    def __init__(self, compiler, static, c_library=False, root=""):
        self.compiler = compiler
        self.static = static
        self.runtime = RUNTIME + (C_LIBRARY if c_library else ())
        self.root = root
        self.components = {}
        self.read = set()  # files whose change makes the outputs stale

    def add_file(self, path):
        """Returns the component of a file, or None if no package owns it."""
        root = self.root if path.startswith(self.root + os.sep) else ""
        package = owner(path, root)
        if package is None:
            return None
        notice = copyright_file(package.split(":")[0], root)
        # Minimal images may leave out what is below /usr/share/doc.
        if not os.path.exists(notice):
            return None
        self.read |= {path, notice}
        component = packaged(package, root)
        component = self.components.setdefault(component.name, component)
        if path.endswith((".a", ".o")):
            component.files[os.path.basename(path)] = sha256(path)
        return component

    def found_by_compiler(self, name):
        path = output_of(*self.compiler, f"-print-file-name={name}").strip()
        return os.path.abspath(path) if os.path.isabs(path) else None

    def library(self, name, folders):
        """The file that `-lNAME` links, or None."""
        endings = (["a"] if self.static else []) + list(LIBRARY_ENDINGS) + ["a"]
        for ending in endings:
            file = f"lib{name}.{ending}"
            for folder in folders:
                if os.path.isfile(os.path.join(folder, file)):
                    return os.path.join(folder, file)
            path = self.found_by_compiler(file)
            if path:
                return path
        return None

    def add_dependency(self, name, version, folder, folders):
        env = dict(os.environ, PKG_CONFIG_LIBDIR=os.pathsep.join(folders),
                   PKG_CONFIG_SYSROOT_DIR=self.root)
        flags = output_of("pkg-config", "--static", "--libs", name,
                          env=env).split()
        places = [flag[2:] for flag in flags if flag.startswith("-L")]
        known = None
        for flag in dict.fromkeys(flags):
            path = (self.library(flag[2:], places) if flag.startswith("-l")
                    else flag if flag.endswith(".a") else None)
            if path:
                known = self.add_file(path) or known
        pc = os.path.join(folder, name + ".pc")
        if folder and os.path.exists(pc):
            known = self.add_file(pc) or known
        if known is None:
            component = unpackaged(name, version, folder)
            self.components.setdefault(component.name, component)

    def add_runtime(self):
        for name in self.runtime:
            path = self.found_by_compiler(name)
            if path:
                self.add_file(path)

    def sorted(self):
        return [self.components[name] for name in sorted(self.components)]


def table(components):
    widths = [max([len(getattr(one, field)) for one in components] + [0])
              for field in ("name", "version")]
    return "".join(f"{one.name:{widths[0]}}  {one.version:{widths[1]}}  "
                   f"{one.licence}\n" for one in components)


def notices(program, components):
    line = "=" * 78 + "\n"
    out = (f"This file lists the libraries whose code is in {program}, with "
           "the copyright file\nof each. The texts of licences that these "
           "files only name are at the end.\n\n" + table(components))
    texts = {"Apache-2.0"}
    for one in components:
        out += (f"\n{line}{one.name} {one.version}: {one.licence}\n{line}\n"
                + (one.notice or "No licence file was found with the "
                   "library.\n"))
        texts.update(re.split(r" (?:AND|OR|WITH) ", one.licence))
    for licence, file in sorted(FULL_TEXTS.items()):
        path = os.path.join(COMMON_LICENSES, file)
        if licence in texts and os.path.exists(path):
            with open(path, encoding="utf-8") as text:
                out += f"\n{line}{licence}\n{line}\n{text.read()}"
    return out


def bill(program, version, components):
    """CycloneDX 1.5; its serial number is derived from its content."""
    described = [one.described() for one in components]
    root = f"pkg:generic/{program}@{version}"
    serial = uuid.uuid5(uuid.NAMESPACE_URL, root + json.dumps(described))
    return {
        "bomFormat": "CycloneDX",
        "specVersion": "1.5",
        "serialNumber": f"urn:uuid:{serial}",
        "version": 1,
        "metadata": {"component": {
            "type": "application", "bom-ref": root, "name": program,
            "version": version, "purl": root,
            "licenses": [{"expression": "Apache-2.0"}]}},
        "components": described,
        "dependencies": [
            {"ref": root, "dependsOn": [one.url() for one in components]},
        ] + [{"ref": one.url()} for one in components],
    }


def written(path, text):
    with open(path, "w", encoding="utf-8") as file:
        file.write(text)


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--output", required=True)
    parser.add_argument("--name", required=True)
    parser.add_argument("--version", required=True)
    parser.add_argument("--static", action="store_true")
    parser.add_argument("--c-library", action="store_true")
    parser.add_argument("--root", default="")
    parser.add_argument("--depfile")
    parser.add_argument("--compiler", required=True,
                        help="the words of its command, with | between")
    parser.add_argument("dependencies", nargs="*")
    options = parser.parse_args()
    collector = Collector(options.compiler.split("|"), options.static,
                          options.c_library, options.root)
    split = [one.split("=") for one in options.dependencies]
    folders = list(dict.fromkeys(folder for _, _, folder in split if folder))
    for name, version, folder in split:
        collector.add_dependency(name, version, folder, folders)
    collector.add_runtime()
    components = collector.sorted()
    written(os.path.join(options.output, "libraries.txt"), table(components))
    written(os.path.join(options.output, "THIRD-PARTY-NOTICES"),
            notices(options.name, components))
    written(os.path.join(options.output, options.name + ".cdx.json"),
            json.dumps(bill(options.name, options.version, components),
                       indent=2) + "\n")
    if options.depfile:
        written(options.depfile, "libraries.txt: "
                + " ".join(sorted(collector.read)) + "\n")


if __name__ == "__main__":
    main()
