"""What the playground's module is linked from, in the form of the program's own
list (packaging/collect_libraries.py): names, versions, licences and texts."""

import os
import re
import sys

ROOT = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
sys.path.insert(0, os.path.join(ROOT, "packaging"))

from collect_libraries import Component, licences, notices, table  # noqa: E402

# Header-only libraries of Debian, with the file that names their version.
HEADERS = {"nlohmann_json": "nlohmann-json3-dev", "CLI11": "libcli11-dev"}
# Parts of the compiler's package, with the files of their licences.
RUNTIME = {
    "libc++": ("Apache-2.0 WITH LLVM-exception", ["lib/libcxx/LICENSE.TXT"]),
    "wasi-libc": ("MIT AND Apache-2.0 WITH LLVM-exception",
                  ["lib/libc/wasi/LICENSE", "lib/libc/musl/COPYRIGHT"]),
    "zig-compiler-rt": ("MIT", ["LICENSE"]),
}


def read(*path):
    with open(os.path.join(*path), encoding="utf-8") as file:
        return file.read()


def components(folders, versions, compiler):
    """`folders` and `versions` are those of the libraries that are compiled
    from source, `compiler` the folder of `ziglang`."""
    out = []
    for name, folder in folders.items():
        text = read(folder, "debian", "copyright")
        out.append(Component(name, versions[name], licences(text), text))
    for name, package in HEADERS.items():
        status = read("/var/lib/dpkg/status")
        version = re.search(rf"(?ms)^Package: {package}$.*?^Version: (\S+)",
                            status).group(1)
        text = read("/usr/share/doc", package, "copyright")
        out.append(Component(name, version, licences(text), text))
    version = re.search(r"ziglang==(\S+)",
                        read(ROOT, "playground", "requirements.txt")).group(1)
    for name, (licence, files) in RUNTIME.items():
        text = "\n".join(read(compiler, file) for file in files)
        out.append(Component(name, version, licence, text))
    return sorted(out, key=lambda one: one.name)


def written(folder, *where):
    """Writes libraries.txt and licences.txt into a folder."""
    found = components(*where)
    for name, text in (("libraries.txt", table(found)),
                       ("licences.txt", notices("shardc.wasm", found))):
        with open(os.path.join(folder, name), "w", encoding="utf-8") as file:
            file.write(text)
