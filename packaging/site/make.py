"""Builds the site of the documentation.

Usage: make.py PROGRAM OUTPUT [--playground FOLDER] [--stage]

The pages are written into OUTPUT/docs: the documentation with its links
adjusted, one page for each diagnostic from `shardc explain`, the manual through
mandoc, the JSON schemas, pictures and a report that the program draws. mkdocs
then builds OUTPUT/site, and links.py checks it; with --stage both are left out.

A link to another file of the repository, such as an example, becomes a page
that shows the file, so that the site refers to no host. For example the link
`../../action.yml` in docs/guides/ci.md becomes `../files/action.yml.md`.
"""

import argparse
import html
import json
import os
import posixpath
import re
import shutil
import subprocess
import sys

import links

HERE = os.path.dirname(os.path.abspath(__file__))
ROOT = os.path.dirname(os.path.dirname(HERE))
PROJECT = {
    "README.md": "index.md",
    "CHANGELOG.md": "project/changelog.md",
    "CONTRIBUTING.md": "project/contributing.md",
    "SECURITY.md": "project/security-policy.md",
    "LICENSE": "project/licence.md",
}
LANGUAGES = {".py": "python", ".yml": "yaml", ".yaml": "yaml", ".cc": "cpp",
             ".h": "cpp", ".json": "json", ".lua": "lua", ".patch": "diff"}
# A link's target; code is left out before.
LINK = re.compile(r"\]\(([^)\s]+)\)")
CODE = re.compile(r"^(`{3,})[^\n]*\n.*?^\1`*\s*$|`[^`\n]+`",
                  re.MULTILINE | re.DOTALL)
SECTION = re.compile(r"[A-Z][a-z ]{3,30}")


def read(path):
    with open(os.path.join(ROOT, path), encoding="utf-8") as file:
        return file.read()


def fenced(text, language=""):
    ticks = "`" * max([3] + [len(run) + 1 for run in re.findall("`+", text)])
    return f"{ticks}{language}\n{text.rstrip()}\n{ticks}\n"


def page_of(path):
    """The page that shows a file or folder of the repository."""
    if path in PROJECT:
        return PROJECT[path]
    if path.startswith("docs/"):
        return path[len("docs/"):]
    if path == "schemas":
        return "schemas/index.md"
    if path.startswith("schemas/") and path.endswith(".json"):
        return path
    if re.fullmatch(r"man/[\w-]+\.\d", path):
        return path + ".md"
    # mkdocs leaves out names that begin with a point.
    shown = "files/" + "/".join(part.lstrip(".") for part in path.split("/"))
    if os.path.isdir(os.path.join(ROOT, path)):
        inner = path + "/README.md"
        return (page_of(inner) if os.path.exists(os.path.join(ROOT, inner))
                else shown + "/index.md")
    return shown if path.endswith(".md") else shown + ".md"


class Site:
    def __init__(self, program, folder):
        self.program = program
        self.folder = folder
        self.staged = set()
        self.waiting = []  # files and folders of the repository to show

    def write(self, page, text):
        path = os.path.join(self.folder, page)
        os.makedirs(os.path.dirname(path), exist_ok=True)
        with open(path, "w", encoding="utf-8") as file:
            file.write(text)

    def run(self, *words):
        return subprocess.run([self.program, *words], cwd=ROOT, check=True,
                              capture_output=True, text=True).stdout

    def target(self, link, source, page):
        """`link` of the file `source`, as a link of `page`."""
        path, mark, fragment = link.partition("#")
        if not path or re.match(r"[a-z]+:", path):
            return link
        path = posixpath.normpath(posixpath.join(posixpath.dirname(source),
                                                 path))
        if not os.path.exists(os.path.join(ROOT, path)):
            raise SystemExit(f"{source}: no file for the link `{link}`")
        self.waiting.append(path)
        return posixpath.relpath(page_of(path),
                                 posixpath.dirname(page) or ".") + mark + fragment

    def linked(self, text, source, page):
        def adjusted(part):
            return LINK.sub(
                lambda match: f"]({self.target(match[1], source, page)})", part)
        out = ""
        end = 0
        for code in CODE.finditer(text):
            out += adjusted(text[end:code.start()]) + code.group()
            end = code.end()
        return out + adjusted(text[end:])

    def show(self, path):
        """Writes the page of a file or folder, once."""
        page = page_of(path)
        if page in self.staged:
            return
        self.staged.add(page)
        full = os.path.join(ROOT, path)
        if os.path.isdir(full):
            self.show_folder(path, page)
        elif re.fullmatch(r"man/[\w-]+\.\d", path):
            pass  # manual() writes them all
        elif path.endswith(".md"):
            self.write(page, self.linked(read(path), path, page))
        elif page == path or path.startswith("docs/pictures/"):
            os.makedirs(os.path.join(self.folder, os.path.dirname(page)),
                        exist_ok=True)
            shutil.copyfile(full, os.path.join(self.folder, page))
        else:
            language = LANGUAGES.get(os.path.splitext(path)[1], "")
            name = posixpath.basename(path)
            self.write(page, f"---\nsearch: {{exclude: true}}\n---\n\n# {name}\n"
                       f"\n`{path}`\n\n" + fenced(read(path), language))

    def show_folder(self, path, page):
        if page.endswith("README.md"):
            self.staged.discard(page)
            self.show(path + "/README.md")
        elif page != "schemas/index.md":
            names = sorted(name for name in os.listdir(os.path.join(ROOT, path))
                           if name != "__pycache__")
            self.write(page, f"---\nsearch: {{exclude: true}}\n---\n\n"
                       f"# {path}\n\n"
                       + "".join(f"- `{name}`\n" for name in names))

    def show_waiting(self):
        while self.waiting:
            self.show(self.waiting.pop())

    def documentation(self):
        for here, _, names in os.walk(os.path.join(ROOT, "docs")):
            for name in names:
                path = os.path.relpath(os.path.join(here, name), ROOT)
                if name.endswith((".md", ".svg")):
                    self.waiting.append(path)
        self.waiting += PROJECT
        self.show_waiting()

    def diagnostics(self):
        """A page for each code, to which the table of all codes links."""
        index = read("docs/diagnostics.md")
        for code in re.findall(r"^\| (SHD\d+) ", index, re.MULTILINE):
            self.write(f"diagnostics/{code}.md",
                       diagnostic_page(self.run("explain", code)))
        self.write("diagnostics.md", re.sub(
            r"^\| (SHD\d+) ", r"| [\1](diagnostics/\1.md) ", index,
            flags=re.MULTILINE))

    def manual(self, pages):
        """Pages that are generated come from the build of the program."""
        names = sorted(os.path.basename(page) for page in pages)
        for path in pages:
            name = os.path.basename(path)
            made = subprocess.run(
                ["mandoc", "-T", "html", "-O", "fragment,man=../%N.%S/", path],
                check=True, capture_output=True, text=True).stdout
            # Pages of other systems have no page here.
            made = re.sub(
                r'<a class="Xr" href="\.\./([^/"]*)/"[^>]*>([^<]*)</a>',
                lambda match: match[0] if match[1] in names else match[2], made)
            made = re.sub(r"<(/?)h1\b", r"<\1h2", made)
            title, _, section = name.rpartition(".")
            self.write(f"man/{name}.md",
                       f"# {title}({section})\n\n"
                       f"<div class=\"manual\">\n{made}</div>\n")
        return names

    def schemas(self):
        text = ("# JSON schemas\n\nEach file and each output of the program has "
                "a JSON schema, whose address\nstays as it is. `shardc schema "
                "NAME` prints the same text.\n\n| schema | describes |\n"
                "|---|---|\n")
        for name in sorted(os.listdir(os.path.join(ROOT, "schemas"))):
            if not name.endswith(".json"):
                continue
            self.show("schemas/" + name)
            title = json.loads(read("schemas/" + name))["title"]
            text += f"| [{name}]({name}) | {title} |\n"
        self.write("schemas/index.md", text)

    def drawings(self):
        """The pictures of the guides, drawn by this program, and a report."""
        subprocess.run(
            [sys.executable, "-B", os.path.join(ROOT, "docs/pictures/draw.py"),
             os.path.join(self.folder, "pictures")], check=True,
            stdout=subprocess.DEVNULL,
            env=dict(os.environ, SHARDC_BIN=self.program))
        self.run("report", "--mesh", "dp:2,fsdp:8,tp:4", "--rules",
                 "builtin:llama", "--manifest",
                 "testdata/models/llama-3-8b.hf.manifest.json", "--model",
                 "testdata/configs/llama-3-8b.config.json", "-o",
                 os.path.join(self.folder, "pictures", "report.html"))


def diagnostic_page(text):
    """`shardc explain CODE` as Markdown: headings, prose and code blocks."""
    title, *lines = text.rstrip().split("\n")
    code, name, rest = title.split(" ", 2)
    level, _, summary = rest.partition(": ")
    out = (f"# {code} {name}\n\n{html.escape(summary)}. "
           f"Level: {level.strip('()')}.\n")
    block = []

    def end_block():
        nonlocal block
        if block:
            indent = min(len(line) - len(line.lstrip())
                         for line in block if line.strip())
            out_lines = [line[indent:] for line in block]
            block = []
            return "\n" + fenced("\n".join(out_lines)) + "\n"
        return ""

    for before, line in zip(["", *lines], lines):
        if line.startswith("    ") or (block and not line.strip()):
            block.append(line)
            continue
        out += end_block()
        if line.startswith("  "):
            out += f"\n`{line.strip().rstrip(':')}`\n"
        elif not before.strip() and SECTION.fullmatch(line):
            out += f"\n## {line}\n\n"
        else:
            out += line + "\n"
    return out + end_block()


def navigation(manual, playground):
    def guide(name):
        return f"guides/{name}.md"
    nav = [
        {"shardc": "index.md"},
        {"Start": [{"Five minutes": "five-minutes.md"},
                   {"First hour: a JAX model": guide("first-hour-jax")},
                   {"First hour: Hugging Face and serving":
                    guide("first-hour-huggingface")},
                   {"First hour: configurations in CI":
                    guide("first-hour-configs")},
                   {"Concepts": "concepts.md"}]},
        {"Guides": [
            {"A first plan": guide("first-plan")},
            {"Rules for a model of your own": guide("rules")},
            {"A model that is not known": guide("families")},
            {"What is not known": guide("evidence")},
            {"Scanned layers": guide("scanned-layers")},
            {"Sharding in CI": guide("ci")},
            {"You run Megatron-LM": guide("megatron")},
            {"You run torchtitan": guide("torchtitan")},
            {"You run DeepSpeed": guide("deepspeed")},
            {"You run Accelerate": guide("accelerate")},
            {"You run vLLM": guide("vllm")},
            {"You run SGLang": guide("sglang")},
            {"KV heads that do not divide": guide("kv-heads")},
            {"LoRA, from fit to serving": guide("lora")},
            {"What an engine reaches": guide("serving")},
            {"From prefill to decode": guide("kv-map")},
            {"Your model, no names needed": guide("program")},
            {"What a plan costs": guide("cost")},
            {"The cheapest sharding": guide("search")},
            {"Searches of known models": guide("search-published")},
            {"What a program sends": guide("audit")},
            {"A step that is too slow": guide("slow-step")},
            {"Pictures and reports": guide("report")},
            {"A report": "pictures/report.html"},
            {"JAX and PyTorch": guide("python")},
            {"Train and decode in JAX": guide("train-jax")},
            {"Checkpoints": guide("checkpoints")},
            {"What is in a checkpoint": guide("contents")},
            {"Restore on another topology": guide("restore")},
            {"From JAX to PyTorch and back": guide("jax-pytorch")},
            {"Verification": guide("verification")},
            {"A complete step": guide("step")},
            {"Pipelines": guide("pipelines")},
            {"The model section": guide("model-section")},
            {"Editors": guide("editors")},
            {"The playground": guide("playground")},
            {"Other systems": guide("exchange")}]},
        {"Reference": [
            {"Diagnostics": "diagnostics.md"},
            {"Rule packs": "packs.md"},
            {"Functions of eformer": "parity.md"},
            {"JSON schemas": "schemas/index.md"},
            {"Manual": [{re.sub(r"\.(\d)$", r"(\1)", name): f"man/{name}.md"}
                        for name in manual]}]},
        {"Background": [
            {"How suggest chooses": "suggest.md"},
            {"What a compiler sends": "compiler.md"},
            {"Compared with other systems": "runtimes.md"},
            {"Detected faults": "detected-faults.md"},
            {"Security": "security.md"}]},
        {"Project": [
            {"Changes": "project/changelog.md"},
            {"What stays stable": "stability.md"},
            {"Building and packaging": "building.md"},
            {"Contributing": "project/contributing.md"},
            {"Extending": "extending.md"},
            {"The source": "source.md"},
            {"Reporting a vulnerability": "project/security-policy.md"},
            {"Licence": "project/licence.md"}]},
    ]
    if playground:
        nav.insert(2, {"Playground": "playground/index.html"})
    return nav


def built(folder):
    """Runs mkdocs on the staged pages; returns the folder of the site."""
    for name in ("docs", "site"):
        os.makedirs(os.path.join(folder, name), exist_ok=True)
    subprocess.run(
        [sys.executable, "-m", "mkdocs", "build", "--quiet", "--strict",
         "--clean", "--config-file", os.path.join(folder, "mkdocs.yml")],
        check=True, env=dict(os.environ, NO_MKDOCS_2_WARNING="1"))
    return os.path.join(folder, "site")


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("program")
    parser.add_argument("output")
    parser.add_argument("--playground")
    parser.add_argument("--stage", action="store_true")
    options = parser.parse_args()
    program = os.path.abspath(options.program)
    output = os.path.abspath(options.output)
    docs = os.path.join(output, "docs")
    shutil.rmtree(docs, ignore_errors=True)
    site = Site(program, docs)
    site.documentation()
    site.diagnostics()
    generated = os.path.join(os.path.dirname(program), "..", "..", "man")
    manual = site.manual([
        os.path.join(folder, name)
        for folder in (os.path.join(ROOT, "man"), generated)
        if os.path.isdir(folder)
        for name in sorted(os.listdir(folder))
        if re.search(r"^shardc.*\.\d$", name)])
    site.schemas()
    site.drawings()
    for name in ("site.css", "icon.svg"):
        shutil.copyfile(os.path.join(HERE, name), os.path.join(docs, name))
    if options.playground:
        shutil.copytree(options.playground, os.path.join(docs, "playground"))
    with open(os.path.join(output, "mkdocs.yml"), "w",
              encoding="utf-8") as file:
        json.dump({"INHERIT": os.path.join(HERE, "mkdocs.yml"),
                   "docs_dir": docs,
                   "site_dir": os.path.join(output, "site"),
                   "nav": navigation(manual, options.playground)}, file,
                  indent=1)
    if options.stage:
        return 0
    return links.report(built(output))


if __name__ == "__main__":
    sys.exit(main())
