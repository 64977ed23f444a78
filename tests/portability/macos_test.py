"""The sources compile where a system has nothing but what macOS has.

There is no Mac here. clang reads every source that includes a header of the
system, with the names that only Linux has removed (macos.h), headers that only
Linux has replaced by errors, and `__linux__` undefined. Whether the program
does the same without them, system_test.py checks.
"""

import concurrent.futures
import os
import re
import shutil
import subprocess
import sys
import tempfile
import unittest

ROOT = os.environ["SHARDC_SOURCE_ROOT"]
BUILD = os.environ["SHARDC_BUILD_ROOT"]
sys.path.insert(0, os.path.join(ROOT, "tests", "cli"))

from driver import part_of  # noqa: E402

CLANG = shutil.which("clang++")
ABSENT = ["asm/hwcap.h", "endian.h", "error.h", "linux/fs.h",
          "malloc.h", "sys/auxv.h", "sys/epoll.h", "sys/eventfd.h",
          "sys/inotify.h", "sys/prctl.h", "sys/random.h", "sys/sendfile.h",
          "sys/sysinfo.h", "sys/sysmacros.h", "sys/vfs.h"]
# Headers that are found on macOS too, from the compiler or a library.
ELSEWHERE = re.compile(r"(hwy|openssl)/|(zlib|zstd|mpi|arm_acle|cpuid|emmintrin)\.h")
# Each must not compile.
FAULTS = {
    "O_TMPFILE": "#include <fcntl.h>\nint flag = O_TMPFILE;\n",
    "st_mtim": "#include <sys/stat.h>\n"
               "long f(struct stat& s) { return s.st_mtim.tv_nsec; }\n",
    "malloc.h": "#include <malloc.h>\n",
    "pipe2": "#include <unistd.h>\nint f(int* p) { return pipe2(p, 0); }\n",
}
FINE = """#include <fcntl.h>
#include <sys/stat.h>
#ifdef O_TMPFILE
int never = no_such_name;
#endif
long f(struct stat& s) { return s.st_mtimespec.tv_nsec; }
"""


def system_sources():
    found = []
    for folder, _, names in os.walk(os.path.join(ROOT, "src")):
        for name in names:
            if not name.endswith((".cc", ".h")):
                continue
            path = os.path.join(folder, name)
            with open(path, encoding="utf-8") as file:
                headers = re.findall(r"^ *#include <([\w/]+\.h)>", file.read(),
                                     re.M)
            if any(not ELSEWHERE.match(header) for header in headers):
                found.append(path)
    return sorted(found)


@unittest.skipUnless(CLANG, "no clang++")
class Macos(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        folder = tempfile.TemporaryDirectory()
        cls.addClassCleanup(folder.cleanup)
        cls.folder = folder.name
        for name in ABSENT:
            path = os.path.join(folder.name, "absent", name)
            os.makedirs(os.path.dirname(path), exist_ok=True)
            with open(path, "w", encoding="utf-8") as file:
                file.write(f'#error "macOS has no <{name}>"\n')
        cls.flags = [CLANG, "-std=c++20", "-U__linux__", "-U__linux", "-Ulinux",
                     "-U__gnu_linux__", "-I" + os.path.join(ROOT, "src"),
                     "-I" + os.path.join(BUILD, "src")]
        cls.header = os.path.join(folder.name, "macos.pch")
        # clang compares the times of the headers with those of the compilation,
        # and a compiler cache could return an earlier one.
        subprocess.run([*cls.flags, "-x", "c++-header", "-o", cls.header,
                        os.path.join(ROOT, "tests", "portability", "macos.h")],
                       check=True, env={**os.environ, "CCACHE_DISABLE": "1"})

    def compiled(self, path):
        """Returns the compiler's messages; empty if `path` compiles."""
        done = subprocess.run(
            [*self.flags, "-include-pch", self.header, "-isystem",
             os.path.join(self.folder, "absent"), "-fsyntax-only", "-Wall",
             "-Werror", path], capture_output=True, text=True, check=False)
        return done.stderr if done.returncode != 0 else ""

    def compiled_text(self, text):
        path = os.path.join(self.folder, "text.cc")
        with open(path, "w", encoding="utf-8") as file:
            file.write(text)
        return self.compiled(path)

    def test_what_only_linux_has_is_detected(self):
        for name, text in FAULTS.items():
            self.assertIn(name, self.compiled_text(text))
        self.assertEqual(self.compiled_text(FINE), "")

    def test_every_source_with_a_system_header_compiles(self):
        sources = [path for path in system_sources() if path.endswith(".cc")]
        self.assertGreater(len(sources), 15)
        with concurrent.futures.ThreadPoolExecutor(2) as pool:
            errors = [text for text in
                      pool.map(self.compiled, part_of(sources, 4)) if text]
        self.assertFalse(errors, "\n".join(errors))


if __name__ == "__main__":
    unittest.main()
