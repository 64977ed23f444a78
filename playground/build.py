"""Compiles the commands of the playground to WebAssembly and packs its page.

build.py [--out FOLDER] [--jobs N] needs `ziglang` (pinned in requirements.txt)
for this Python, ninja, and the sources of RE2, yaml-cpp and zlib, which it
takes from Debian's source packages. It writes a folder that web server or a
browser's `file:` can open:

    build-playground/site/index.html, *.css, *.js

Steps: fetch the libraries' sources; write build.ninja; run it; pack the module
and the models into JavaScript files, because the page's policy forbids every
connection, even to its own server.
"""

import argparse
import base64
import gzip
import hashlib
import importlib.util
import json
import os
import re
import shlex
import shutil
import subprocess
import sys

import licences

HERE = os.path.dirname(os.path.abspath(__file__))
ROOT = os.path.dirname(HERE)
SRC = os.path.join(ROOT, "src")

# Debian 12's own, so that the playground has the libraries of the program.
LIBRARIES = {"re2": "20220601+dfsg-1", "yaml-cpp": "0.7.0+dfsg-8",
             "zlib": "1:1.2.13.dfsg-1"}

# The rooms that the commands link. Kernels that compute with
# vectors are left out: no command of the playground computes attention.
ROOMS = """source devices model floats yaml parse families stored importers match
  resolve legalize roles comm step plan program kv lint target dense exec schedule cost
  picture hlo audit emit suggest search verify""".split()
# In the order of `shardc --help`.
COMMANDS = """suggest plan check explain show show_mesh show_manifest show_rules diff
  cost report export resolve resolve_attention""".split()
# What those commands share with each other.
SHARED = """check_targets command committed_plan compared_program cost_flags fixes inputs
  main output parser pictured plan_findings program_check program_plan ranks
  serving_flags stray suggested target_audit verify_request verify_step""".split()
LEFT_OUT = re.compile(r"""
    _simd\.cc$ | ^floats/bf16_products\.cc$ | ^source/digest\.cc$ | ^stored/(?!box)
    | ^emit/costs/fit_report\.cc$ | ^emit/report/search_page\.cc$""",
                      re.VERBOSE)

# libc++ is built here: the wheel's own copy would be built without exceptions,
# and yaml-cpp reports errors of syntax by exceptions. Threads are WASI's stubs:
# none can be started, and a pool then works in its caller.
LIBCXX_SITE = """ABI_VERSION=1 ABI_NAMESPACE=__1 HAS_THREADS=1
  HAS_THREAD_API_PTHREAD=1 HAS_THREAD_API_EXTERNAL=0 HAS_THREAD_API_WIN32=0
  HAS_THREAD_API_C11=0 HAS_MONOTONIC_CLOCK=1 HAS_TERMINAL=0 HAS_MUSL_LIBC=1
  HAS_FILESYSTEM=1 HAS_RANDOM_DEVICE=1 HAS_LOCALIZATION=1 HAS_UNICODE=1
  HAS_WIDE_CHARACTERS=1 HAS_TIME_ZONE_DATABASE=0
  HAS_VENDOR_AVAILABILITY_ANNOTATIONS=0 HARDENING_MODE_DEFAULT=2
  ASSERTION_SEMANTIC_DEFAULT=_LIBCPP_ASSERTION_SEMANTIC_IGNORE
  PSTL_BACKEND_SERIAL=1""".split()
LIBCXX = """algorithm any atomic call_once charconv chrono condition_variable
  condition_variable_destructor error_category exception
  filesystem/directory_entry filesystem/directory_iterator
  filesystem/filesystem_clock filesystem/filesystem_error filesystem/operations
  filesystem/path fstream functional future hash ios ios.instantiations iostream
  locale memory mutex mutex_destructor new_handler new_helpers optional ostream random
  ryu/d2fixed ryu/d2s ryu/f2s stdexcept string
  system_error thread typeinfo variant vector verbose_abort""".split()
LIBCXXABI = """abort_message cxa_aux_runtime cxa_default_handlers cxa_exception
  cxa_exception_storage cxa_guard cxa_handlers cxa_personality cxa_vector
  cxa_virtual fallback_malloc private_typeinfo stdlib_exception
  stdlib_new_delete stdlib_stdexcept stdlib_typeinfo""".split()
RE2 = """re2/bitstate re2/compile re2/dfa re2/filtered_re2 re2/mimics_pcre
  re2/nfa re2/onepass re2/parse re2/perl_groups re2/prefilter
  re2/prefilter_tree re2/prog re2/re2 re2/regexp re2/set re2/simplify
  re2/stringpiece re2/tostring re2/unicode_casefold re2/unicode_groups util/rune
  util/strutil""".split()
ZLIB = "adler32 crc32 inffast inflate inftrees zutil".split()


def compiler():
    """The folder of the installed `ziglang`."""
    found = importlib.util.find_spec("ziglang")
    if found is None:
        sys.exit("the Python package `ziglang` is not installed\n"
                 "install it: pip install -r playground/requirements.txt")
    return os.path.dirname(found.origin)


def listing(folder, ending):
    for here, below, names in os.walk(folder):
        below.sort()
        for name in sorted(names):
            if name.endswith(ending):
                yield os.path.relpath(os.path.join(here, name), folder)


def project_sources():
    """The sources of the program, relative to src/."""
    for room in ROOMS:
        for name in listing(os.path.join(SRC, room), ".cc"):
            path = f"{room}/{name}"
            if not LEFT_OUT.search(path):
                yield path
    for name in COMMANDS + SHARED:
        yield f"cli/{name}.cc"


class Ninja:
    """Writes build.ninja, whose paths are relative to the build's folder."""

    def __init__(self, out, zig):
        self.out = out
        self.lines = []
        self.objects = []
        self.zig = os.path.join(zig, "zig")
        self.library = os.path.join(zig, "lib")

    def flags(self):
        library = self.library
        common = [
            "--target=wasm32-wasip1", "-nostdinc", "-nostdlibinc", "-Os", "-g0",
            "-DNDEBUG", "-ffp-contract=off", "-fvisibility=hidden",
            "-ffunction-sections", "-fdata-sections", "-fwasm-exceptions",
            "-mllvm", "-wasm-use-legacy-eh=true", "-D_WASI_EMULATED_SIGNAL",
            "-D_WASI_EMULATED_GETPID", "-D_WASI_EMULATED_PROCESS_CLOCKS"]
        system = [f"-isystem{library}/{name}" for name in (
            "include", "libc/include/wasm-wasi-musl",
            "libc/include/generic-musl")]
        cxx = ["-std=c++20"] + [f"-D_LIBCPP_{name}" for name in LIBCXX_SITE] + [
            f"-isystem{library}/libcxx/include",
            f"-isystem{library}/libcxxabi/include"]
        return (" ".join(map(shlex.quote, common + system)),
                " ".join(map(shlex.quote, common + cxx + system)))

    def write(self, text):
        self.lines.append(text)

    def rules(self):
        c, cxx = self.flags()
        zig = shlex.quote(self.zig)
        self.write(f"""\
ninja_required_version = 1.8
c = {c}
cxx = {cxx}
rule c
  command = {zig} clang $c $flags -MD -MF $out.d -c $in -o $out
  depfile = $out.d
  deps = gcc
  description = C $out
rule cxx
  command = {zig} clang -x c++ $cxx $flags -MD -MF $out.d -c $in -o $out
  depfile = $out.d
  deps = gcc
  description = C++ $out
rule assemble
  command = {zig} clang --target=wasm32-wasip1 -mexception-handling -c $in $
    -o $out
  description = assemble $out
rule pch
  command = {zig} clang -x c++-header $cxx $flags -MD -MF $out.d $in -o $out
  depfile = $out.d
  deps = gcc
  description = header $out
rule embed
  command = {shlex.quote(sys.executable)} $embed $header $function $out $in
  description = embed $out
rule words
  command = {shlex.quote(sys.executable)} {ROOT}/rules/words.py $out $in
  description = words $out
rule pages
  command = {shlex.quote(sys.executable)} {ROOT}/texts/embed_pages.py $table $
    $made.d $out $names
  depfile = $made.d
  restat = 1
  description = pages $table
rule link
  command = env ZIG_GLOBAL_CACHE_DIR=zig ZIG_LOCAL_CACHE_DIR=zig {zig} cc $
    -target wasm32-wasi -s -Wl,--gc-sections -o $out @$out.rsp $libs
  rspfile = $out.rsp
  rspfile_content = $in
  description = link $out
""")

    def compile(self, rule, source, name, flags, after=""):
        made = f"obj/{name}.o"
        self.write(f"build {made}: {rule} {escape(source)}"
                   + (f" | {after}" if after else "")
                   + f"\n  flags = {flags}\n")
        self.objects.append(made)

    def runtime(self):
        library = self.library
        flags = (f"-D_LIBCPP_BUILDING_LIBRARY -DLIBCXX_BUILDING_LIBCXXABI "
                 f"-I{library}/libcxx/src -I{library}/libcxx "
                 f"-I{library}/libcxx/libc -w")
        for name in LIBCXX:
            lacking = (f" -include {HERE}/compat/libcxx.h"
                       if name == "filesystem/operations" else "")
            self.compile("cxx", f"{library}/libcxx/src/{name}.cpp",
                         f"libcxx/{name}", "-std=c++23 " + flags + lacking)
        flags = (f"-D_LIBCXXABI_BUILDING_LIBRARY -D_LIBCPP_BUILDING_LIBRARY "
                 f"-DLIBCXX_BUILDING_LIBCXXABI -DHAVE___CXA_THREAD_ATEXIT_IMPL "
                 f"-DLIBCXXABI_NON_DEMANGLING_TERMINATE "
                 f"-I{library}/libcxx/src -I{library}/libunwind/include -w")
        for name in LIBCXXABI:
            self.compile("cxx", f"{library}/libcxxabi/src/{name}.cpp",
                         f"libcxxabi/{name}", "-std=c++23 " + flags)
        self.compile("c", f"{library}/libunwind/src/Unwind-wasm.c", "unwind",
                     f"-I{library}/libunwind/include "
                     "-D_LIBUNWIND_HIDE_SYMBOLS -w")
        self.write(f"build obj/tag.o: assemble {HERE}/compat/exception_tag.s\n")
        self.objects.append("obj/tag.o")

    def libraries(self, folders):
        re2 = folders["re2"]
        for name in RE2:
            self.compile("cxx", f"{re2}/{name}.cc", f"re2/{name}",
                         f"-I{re2} -w")
        yaml = folders["yaml-cpp"]
        for name in sorted(os.listdir(os.path.join(yaml, "src"))):
            if name.endswith(".cpp") and not name.startswith("emit"):
                self.compile("cxx", f"{yaml}/src/{name}", f"yaml/{name}",
                             f"-I{yaml}/include -DYAML_CPP_STATIC_DEFINE -w")
        zlib = folders["zlib"]
        for name in ZLIB:
            self.compile("c", f"{zlib}/{name}.c", f"zlib/{name}",
                         f"-I{zlib} -DHAVE_UNISTD_H -w")

    def project(self, folders):
        flags = " ".join(
            f"-isystem{folder}" for folder in (
                f"{folders['re2']}", f"{folders['yaml-cpp']}/include",
                folders["zlib"], "headers"))
        flags = (f"-I{SRC} -Igen -I{HERE}/compat -include {HERE}/compat/wasi.h "
                 f"-DYAML_CPP_STATIC_DEFINE -Wall -Wextra {flags}")
        for name in ("standard", "lint"):
            self.write(f"build {name}.pch: pch {SRC}/pch/{name}.h\n"
                       f"  flags = {flags} -DSHARDC_COMMON_HEADERS\n")
        for path in project_sources():
            pch = "lint" if path.startswith("lint/rules/") else "standard"
            self.compile("cxx", f"{SRC}/{path}", f"src/{path}",
                         f"-include-pch {pch}.pch {flags}",
                         f"{pch}.pch gen/cli/version.h gen/lint/rules/all.h "
                         "gen/cli/commands.h")
        self.pages("lints", flags, "gen/lint/rules/all.h",
                   "gen/lint/rules/lints.cc")
        self.pages("explanations", flags, "gen/explanations.cc")
        self.pages("commands", flags, "gen/cli/commands.h",
                   "gen/cli/commands.cc", names=COMMANDS)
        for path in ("compat/sha256.cc", "compat/no_kernels.cc",
                     "compat/no_stored.cc"):
            self.compile("cxx", f"{HERE}/{path}", path,
                         f"-include-pch standard.pch {flags}", "standard.pch")
        for name, header, function, folder, ending in (
                ("packs", "target/packs.h", "shardc::EmbeddedPacks",
                 f"{ROOT}/rules", ".yaml"),
                ("families", "families/description.h",
                 "shardc::families::EmbeddedFamilies", f"{ROOT}/families",
                 ".yaml"),
                ("profiles", "devices/profiles.h", "shardc::EmbeddedProfiles",
                 f"{ROOT}/profiles", ".yaml"),
                ("engines", "devices/serving.h", "shardc::EmbeddedEngines",
                 f"{ROOT}/engines", ".yaml"),
                ("page", "emit/report/report.h",
                 "shardc::report::EmbeddedPage", f"{SRC}/emit/report",
                 ("page.css", "page.js")),
                ("arrays", "emit/exports/exporter.h",
                 "shardc::exports::EmbeddedArrays", f"{ROOT}/python/shardc",
                 "arrays.py"),
                ("libraries", "cli/command.h",
                 "shardc::cli::EmbeddedLibraries", f"{self.out}/gen",
                 "libraries.txt")):
            files = " ".join(escape(os.path.join(folder, file))
                             for file in listing(folder, ending))
            made = f"gen/embedded_{name}.cc"
            self.write(f"build {made}: embed {files} | {ROOT}/rules/embed.py\n"
                       f"  embed = {ROOT}/rules/embed.py\n"
                       f"  header = {header}\n  function = {function}\n")
            self.compile("cxx", made, f"embedded_{name}", flags)

        files = " ".join(escape(os.path.join(folder, file))
                         for folder in (f"{ROOT}/families", f"{ROOT}/rules")
                         for file in listing(folder, ".yaml"))
        made = "gen/published_words.cc"
        self.write(f"build {made}: words {files} | {ROOT}/rules/words.py\n")
        self.compile("cxx", made, "published_words", flags)

    def pages(self, table, flags, *made, names=()):
        """The pages of texts/ as a source, and a header if it has one."""
        self.write(f"build {' '.join(made)}: pages | "
                   f"{ROOT}/texts/embed_pages.py\n"
                   f"  table = {table}\n  made = {made[0]}\n"
                   f"  names = {' '.join(names)}\n")
        self.compile("cxx", made[-1], f"pages_{table}", flags,
                     "gen/lint/rules/all.h gen/cli/commands.h")

    def link(self):
        self.write(f"build shardc.wasm: link {' '.join(self.objects)}\n"
                   "  libs = -lwasi-emulated-signal -lwasi-emulated-getpid "
                   "-lwasi-emulated-process-clocks\n")


def escape(path):
    return path.replace("$", "$$").replace(" ", "$ ").replace(":", "$:")


def run(command, **options):
    subprocess.run(command, check=True, **options)


def debian_sources(out):
    """Folders of the libraries' sources, from Debian's source packages."""
    folder = os.path.join(out, "libraries")
    os.makedirs(folder, exist_ok=True)
    found = {}
    for name, version in LIBRARIES.items():
        upstream = version.split(":")[-1].rsplit("-", 1)[0]
        found[name] = os.path.join(folder, f"{name}-{upstream}")
    missing = [name for name in found if not os.path.isdir(found[name])]
    if not missing:
        return found
    # The machine's own list of packages, read as a list of their sources.
    lists = os.path.join(folder, "lists.d")
    for made in (lists, f"{folder}/state/lists/partial",
                 f"{folder}/cache/archives/partial"):
        os.makedirs(made, exist_ok=True)
    parts = "/etc/apt/sources.list.d"
    for path in ["/etc/apt/sources.list"] + [
            os.path.join(parts, name) for name in sorted(os.listdir(parts))]:
        if not os.path.isfile(path) or not path.endswith((".list", ".sources")):
            continue
        with open(path, encoding="utf-8") as file:
            text = file.read()
        text = re.sub(r"(?m)^Types: .*$", "Types: deb-src", text)
        text = re.sub(r"(?m)^deb(?=\s)", "deb-src", text)
        with open(os.path.join(lists, os.path.basename(path)), "w",
                  encoding="utf-8") as file:
            file.write(text)
    apt = ["apt-get", "-q", "-o", "Dir::Etc::sourcelist=/dev/null",
           "-o", f"Dir::Etc::sourceparts={lists}",
           "-o", f"Dir::State::lists={folder}/state/lists",
           "-o", f"Dir::Cache={folder}/cache"]
    run(apt + ["update"], stdout=subprocess.DEVNULL)
    # apt checks the signatures of the archive, and with them the hashes.
    run(apt + ["source", "--download-only"]
        + [f"{name}={LIBRARIES[name]}" for name in missing], cwd=folder,
        stdout=subprocess.DEVNULL)
    for name in missing:
        file = LIBRARIES[name].split(":")[-1]
        run(["dpkg-source", "--no-check", "-x", f"{name}_{file}.dsc",
             found[name]], cwd=folder, stdout=subprocess.DEVNULL)
    return found


def re2_tables(folder):
    """Debian's source of RE2 leaves its tables out and makes them, as here."""
    for name, script in (("perl_groups", ["perl", "make_perl_groups.pl"]),
                         ("unicode_casefold",
                          ["/usr/bin/python3", "make_unicode_casefold.py"]),
                         ("unicode_groups",
                          ["/usr/bin/python3", "make_unicode_groups.py"])):
        made = os.path.join(folder, "re2", f"{name}.cc")
        if os.path.exists(made):
            continue
        text = subprocess.run(script, cwd=os.path.join(folder, "re2"),
                              check=True, capture_output=True, text=True).stdout
        write(made, text)


def headers(out):
    """A folder with the header-only libraries of the system, and no others."""
    folder = os.path.join(out, "headers")
    os.makedirs(folder, exist_ok=True)
    for name in ("nlohmann", "CLI"):
        link = os.path.join(folder, name)
        if not os.path.islink(link):
            os.symlink(f"/usr/include/{name}", link)


def version_header(out):
    with open(os.path.join(ROOT, "meson.build"), encoding="utf-8") as file:
        version = re.search(r"version: '([^']+)'", file.read()).group(1)
    with open(os.path.join(SRC, "cli/version.h.in"), encoding="utf-8") as file:
        text = file.read().replace("@VERSION@", version)
    write(os.path.join(out, "gen/cli/version.h"), text)


def write(path, text):
    os.makedirs(os.path.dirname(path), exist_ok=True)
    if os.path.exists(path):
        with open(path, encoding="utf-8") as file:
            if file.read() == text:
                return
    with open(path, "w", encoding="utf-8") as file:
        file.write(text)


def packed(content):
    """Base64 text of the gzipped bytes, the same for the same bytes."""
    return base64.b64encode(gzip.compress(content, 9, mtime=0)).decode()


def source_of(path):
    """A source of a content security policy: the digest of a file."""
    digest = hashlib.sha256(read(path)).digest()
    return f"'sha256-{base64.b64encode(digest).decode()}'"


def read(path):
    with open(path, "rb") as file:
        return file.read()


def config(model):
    """The text of the model's config.json, or nothing."""
    path = os.path.join(ROOT, "testdata", "configs", f"{model}.config.json")
    return read(path).decode() if os.path.exists(path) else ""


def models():
    """Bundled manifests by name, and the rules of their packs."""
    folder = os.path.join(ROOT, "testdata", "models")
    out, packs = {}, {}
    for entry in json.loads(read(os.path.join(folder, "CATALOG.json"))):
        if entry["file"].startswith("real-"):
            continue
        content = read(os.path.join(folder, entry["file"]))
        if entry["file"].endswith(".gz"):
            content = gzip.decompress(content)
        family, naming = entry["pack"].removeprefix("builtin:").split("/")
        kind = {"hf": "Hugging Face", "flax": "Flax"}[naming]
        out[f"{entry['model']}.{naming}"] = {
            "title": f"{entry['model']}, names of {kind}",
            "pack": entry["pack"], "tensors": entry["tensors"],
            "parameters": entry["parameters"], "config": config(entry["model"]),
            "manifest": packed(content)}
        packs[entry["pack"]] = read(os.path.join(
            ROOT, "rules", f"{family}.{naming}.yaml")).decode()
    return dict(sorted(out.items())), packs


def pack(out, quiet=False):
    """Writes the page's folder. The report's own script and style run in a
    frame, which takes over the page's policy, so the policy allows both."""
    site = os.path.join(out, "site")
    shutil.rmtree(site, ignore_errors=True)
    shutil.copytree(os.path.join(HERE, "page"), site)
    page = os.path.join(site, "index.html")
    text = read(page).decode()
    for name, file in (("@SCRIPT@", "page.js"), ("@STYLE@", "page.css")):
        text = text.replace(name, source_of(
            os.path.join(SRC, "emit", "report", file)))
    write(page, text)
    module = read(os.path.join(out, "shardc.wasm"))
    version = re.search(r'kVersion = "([^"]+)"', read(
        os.path.join(out, "gen/cli/version.h")).decode()).group(1)
    write(os.path.join(site, "module.js"),
          f"const SHARDC_VERSION = {json.dumps(version)};\n"
          f"const SHARDC_MODULE = '{packed(module)}';\n")
    shutil.copy(os.path.join(out, "gen", "licences.txt"), site)
    bundled, packs = models()
    write(os.path.join(site, "models.js"),
          f"const SHARDC_MODELS = {json.dumps(bundled, indent=1)};\n"
          f"const SHARDC_PACKS = {json.dumps(packs, indent=1)};\n")
    size = os.path.getsize(os.path.join(site, "module.js"))
    if quiet:
        return
    print(f"shardc.wasm: {len(module):,} bytes, {size:,} as module.js\n"
          f"open {os.path.relpath(page)}")


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--out", default=os.path.join(ROOT, "build-playground"))
    parser.add_argument("--jobs", default="2")
    parser.add_argument("--pack-only", action="store_true",
                        help="compile nothing: use the module that is there")
    arguments = parser.parse_args()
    out = os.path.abspath(arguments.out)
    if not arguments.pack_only:
        compile_module(out, arguments.jobs)
    pack(out)


def compile_module(out, jobs):
    folders = debian_sources(out)
    re2_tables(folders["re2"])
    headers(out)
    version_header(out)
    licences.written(os.path.join(out, "gen"), folders, LIBRARIES, compiler())
    ninja = Ninja(out, compiler())
    ninja.rules()
    ninja.runtime()
    ninja.libraries(folders)
    ninja.project(folders)
    ninja.link()
    write(os.path.join(out, "build.ninja"), "\n".join(ninja.lines))
    run(["ninja", "-C", out, "-j", jobs, "shardc.wasm"])


if __name__ == "__main__":
    main()
