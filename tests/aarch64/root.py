"""Debian's libraries for 64-bit Arm in a folder, and a description of that
machine for meson.

Usage: root.py FOLDER [PACKAGE...]

FOLDER/root gets the packages and all that they depend on, unpacked, without any
being installed on this system: some, as libyaml-cpp-dev, can be installed for
one architecture only. dpkg-query --admindir FOLDER/root/var/lib/dpkg knows which
package each file is from. FOLDER/cross.ini is the file for `meson --cross-file`.
Packages that are in the folder already are not downloaded again.
"""

import os
import shutil
import subprocess
import sys

CROSS = """\
[binaries]
cpp = {compiler}
ar = 'aarch64-linux-gnu-gcc-ar'
strip = 'aarch64-linux-gnu-strip'
pkgconfig = 'pkg-config'
exe_wrapper = ['qemu-aarch64-static', '-L', '{root}']
[properties]
sys_root = '{root}'
pkg_config_libdir = ['{root}/usr/lib/aarch64-linux-gnu/pkgconfig',
                     '{root}/usr/lib/pkgconfig', '{root}/usr/share/pkgconfig']
[host_machine]
system = 'linux'
cpu_family = 'aarch64'
cpu = 'aarch64'
endian = 'little'
"""


def apt_options(folder):
    """Options that make apt keep its state in `folder`, where nothing is
    installed and every package is one for 64-bit Arm."""
    status = os.path.join(folder, "status")
    for name in ("lists/partial", "cache/archives/partial"):
        os.makedirs(os.path.join(folder, name), exist_ok=True)
    with open(status, "a", encoding="utf-8"):
        pass
    options = {"APT::Architecture": "arm64", "APT::Architectures": "arm64",
               "APT::Install-Recommends": "false", "Dir::State": folder,
               "Dir::State::status": status,
               "Dir::State::lists": os.path.join(folder, "lists"),
               "Dir::Cache": os.path.join(folder, "cache"),
               # Otherwise apt, as root, downloads as a user who may be unable
               # to write to the folder.
               "APT::Sandbox::User": "root"}
    return [f"-o{name}={value}" for name, value in options.items()]


def admin(root):
    return os.path.join(root, "var", "lib", "dpkg")


def output_of(*command):
    return subprocess.run(command, check=True, capture_output=True,
                          text=True).stdout


def unpack_one(package, root, status):
    """Unpacks a package, and records its files and its description as dpkg
    does when it installs one."""
    files = output_of("dpkg-deb", "-X", package, root).splitlines()
    described = output_of("dpkg-deb", "-f", package)
    status.write("Status: install ok installed\n" + described + "\n")
    fields = dict(line.split(": ", 1) for line in described.splitlines()
                  if ": " in line and not line.startswith(" "))
    name = fields["Package"]
    if fields.get("Multi-Arch") == "same":
        name += ":" + fields["Architecture"]
    with open(os.path.join(admin(root), "info", name + ".list"), "w",
              encoding="utf-8") as file:
        for path in files:  # as `./usr/`; the root itself is `/.`
            file.write("/" + (path[2:].rstrip("/") or ".") + "\n")


def unpack(folder, packages):
    root = os.path.join(folder, "root")
    listed = os.path.join(folder, "unpacked")
    wanted = " ".join(sorted(packages)) + "\n"
    if os.path.exists(listed):
        with open(listed, encoding="utf-8") as file:
            if file.read() == wanted:
                return
    options = apt_options(os.path.join(folder, "apt"))
    subprocess.run(["apt-get", "-q", *options, "update"], check=True)
    subprocess.run(["apt-get", "-q", "-y", *options, "--download-only",
                    "install", *packages], check=True)
    shutil.rmtree(root, ignore_errors=True)
    os.makedirs(os.path.join(admin(root), "info"))
    with open(os.path.join(admin(root), "info", "format"), "w",
              encoding="utf-8") as file:
        file.write("1\n")
    archives = os.path.join(folder, "apt", "cache", "archives")
    with open(os.path.join(admin(root), "status"), "w",
              encoding="utf-8") as status:
        for name in sorted(os.listdir(archives)):
            if name.endswith(".deb"):
                unpack_one(os.path.join(archives, name), root, status)
    with open(listed, "w", encoding="utf-8") as file:
        file.write(wanted)


def describe(folder):
    root = os.path.join(folder, "root")
    cache = ["ccache"] if shutil.which("ccache") else []
    compiler = [*cache, "aarch64-linux-gnu-g++", "--sysroot=" + root]
    with open(os.path.join(folder, "cross.ini"), "w",
              encoding="utf-8") as file:
        file.write(CROSS.format(compiler=compiler, root=root))


if __name__ == "__main__":
    FOLDER = os.path.abspath(sys.argv[1])
    os.makedirs(FOLDER, exist_ok=True)
    unpack(FOLDER, sys.argv[2:])
    describe(FOLDER)
