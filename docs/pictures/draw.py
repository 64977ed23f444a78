"""Draws the pictures of the documentation: the drawings of `shardc report`, each
as an SVG file of its own, and the folders of the source (source.py).

    draw.py [FOLDER]    # default: this folder; SHARDC_BIN names the program

A drawing is taken out of the page's HTML together with the CSS rules of its
classes. It follows the reader's light or dark theme.
"""

import html.parser
import os
import re
import subprocess
import sys
import tempfile
from xml.sax.saxutils import escape, quoteattr

import source

HERE = os.path.dirname(os.path.abspath(__file__))
ROOT = os.path.dirname(os.path.dirname(HERE))
BIN = os.environ.get("SHARDC_BIN",
                     os.path.join(ROOT, "build", "src", "cli", "shardc"))

CONFIG = "testdata/configs/llama-3-8b.config.json"
LLAMA = ["--rules", "builtin:llama", "--model", CONFIG, "--manifest",
         "testdata/models/llama-3-8b.hf.manifest.json"]
EIGHT = ["--mesh", "dp:2,fsdp:2,tp:2", "--processes", "2", *LLAMA]

# The mistake at the top of the README: rules that leave experts replicated.
SUGGESTED = "suggested.yaml"
QWEN = ["--mesh", "fsdp:8,ep:4,tp:2", "--manifest", "testdata/corpus/manifests/"
        "qwen3-30b-a3b.easydel.manifest.json.gz", "--rules"]

# File: arguments of `report`, or several, whose drawings are one below the other;
# the section of the page, how many of the section's drawings to take from the
# first one on, and captions, in which {held} stands for a device's parameters.
PICTURES = {
    "mesh.svg": (EIGHT, "mesh", 2, ["dp 0", "dp 1"]),
    "spec.svg": (EIGHT, "layouts", 1, []),
    "plan.svg": (EIGHT, "memory", 1, []),
    "mistake.svg": (
        [[*QWEN, "examples/qwen3-moe/rules.yaml"], [*QWEN, SUGGESTED]], "memory",
        1,
        ["With the rules as they were a device holds {held}: hatched is "
         "replicated on all 64",
         "With the rules that `shardc suggest` writes a device holds {held}"]),
    "five-minutes.svg": (["--mesh", "fsdp:4,tp:2", *LLAMA], "memory", 1, []),
}
MARGIN, GAP, CAPTION = 8, 24, 18
MAP = (860, 300)  # of a drawing whose size is that of the page


class Svg:
    def __init__(self, attributes):
        self.attributes = attributes
        self.parts = []
        self.classes = set()

    def size(self):
        if "width" not in self.attributes:
            return MAP
        return tuple(float(self.attributes[name])
                     for name in ("width", "height"))


class Page(html.parser.HTMLParser):
    """The page's drawings by section, as XML, its fill patterns and its CSS."""

    def __init__(self, text):
        super().__init__()
        self.drawings = {}
        self.patterns = None
        self.css = ""
        self.section = None
        self.svg = None
        self.in_style = False
        self.feed(text)
        found = re.search(r"bytes of parameters: (.*?)(?:\.\s|\.?<)", text)
        self.held = found[1].replace("\N{NO-BREAK SPACE}", " ") if found else ""

    def handle_starttag(self, tag, attrs):
        attributes = dict(attrs)
        if tag == "section":
            self.section = attributes.get("id")
        elif tag == "style":
            self.in_style = True
        elif tag == "svg":
            self.svg = Svg(attributes)
            if attributes.get("class") == "v":
                self.patterns = self.svg
            elif "role" in attributes:
                self.drawings.setdefault(self.section, []).append(self.svg)
        if self.svg is None or tag in ("svg", "wbr"):
            return
        self.svg.classes.update(attributes.get("class", "").split())
        # The page's script uses data-d, which a picture has no use for.
        text = "".join(f" {self.case(name)}={quoteattr(value or '')}"
                       for name, value in attrs if name != "data-d")
        self.svg.parts.append(f"<{tag}{text}>")

    def handle_startendtag(self, tag, attrs):
        self.handle_starttag(tag, attrs)
        if self.svg is not None:
            self.svg.parts.append(f"</{tag}>")

    def handle_endtag(self, tag):
        if tag == "style":
            self.in_style = False
        elif tag == "svg":
            self.svg = None
        elif self.svg is not None and tag != "wbr":
            self.svg.parts.append(f"</{tag}>")

    def handle_data(self, data):
        if self.in_style:
            self.css += data
        elif self.svg is not None:
            self.svg.parts.append(escape(data))

    @staticmethod
    def case(name):
        """XML names of SVG, which HTML writes in lower case."""
        return {"patternunits": "patternUnits", "viewbox": "viewBox",
                "patterntransform": "patternTransform"}.get(name, name)


def literal(rule, variables):
    """A rule with the values of its variables, which not every viewer knows."""
    found = None
    while found != rule:
        found, rule = rule, re.sub(
            r"var\(--([\w-]+)(?:,(var\([^()]*\)))?\)",
            lambda m: variables.get(m.group(1)) or m.group(2) or "none", rule)
    return re.sub(r"calc\(([\d.]+)\*([\d.]+)\)",
                  lambda m: f"{float(m.group(1)) * float(m.group(2)):.3g}",
                  rule)


def style(page, classes):
    """The page's rules for text and these classes, for both themes."""
    rules, themes = [], []
    for selector, rule in re.findall(r"([^{}]+)\{([^{}]*)\}", page.css):
        selector = selector.strip()
        names = set(re.findall(r"\.([\w-]+)", selector))
        tags = set(re.findall(r"(?<![\w.#-])([a-z]\w*)", selector))
        if selector == ":root":
            themes.append(dict(re.findall(r"--([\w-]+):([^;]+)", rule)))
        elif names <= classes and tags <= {"svg", "text", "rect", "path"} and (
                names or "text" in tags) and ":" not in selector and (
                    "width:100%" not in rule):
            rules.append((selector, rule))
    axes = {selector: value for selector, value in rules if "--c:" in value}

    def written(variables):
        for selector, rule in rules:
            if selector in axes:
                continue
            yield f"{selector}{{{literal(rule, variables)}}}"
            if "var(--c" in rule:  # the colour of the axis
                for axis, value in axes.items():
                    own = {**variables, "c": value.split(":", 1)[1]}
                    yield f"{selector}{axis}{{{literal(rule, own)}}}"

    light, dark = [list(written(theme)) for theme in themes[:2]]
    dark = [rule for rule in dark if rule not in light]
    return "\n".join([*light, "@media (prefers-color-scheme:dark){", *dark, "}"])


def row(page, drawings, captions, top, body, classes):
    """Adds drawings side by side; returns the width and the lowest edge."""
    top += CAPTION if captions else 0
    x, bottom = MARGIN, 0
    for index, svg in enumerate(drawings):
        width, height = svg.size()
        classes |= svg.classes | set(
            svg.attributes.get("class", "").split())
        if captions:
            caption = captions[index].replace("{held}", page.held)
            body.append(f'<text x="{x:g}" y="{top - CAPTION + 11}">'
                        f"{escape(caption)}</text>")
        own = svg.attributes.get("class")
        body.append(f'<svg x="{x:g}" y="{top:g}" width="{width:g}" '
                    f'height="{height:g}"' +
                    (f' class="{own}"' if own else "") + ">" +
                    "".join(svg.parts) + "</svg>")
        x += width + GAP
        bottom = max(bottom, top + height)
    return x - GAP + MARGIN, bottom


def picture(pages, section, count, captions):
    page = pages[0]
    classes = set(page.patterns.classes)
    body, width, top = [], 0, MARGIN
    for index, one in enumerate(pages):
        wide, bottom = row(one, one.drawings[section][:count],
                           captions[index * count:][:count], top, body, classes)
        width, top = max(width, wide), bottom + GAP / 2
    height = top - GAP / 2 + MARGIN
    return (f'<svg xmlns="http://www.w3.org/2000/svg" width="{width:g}" '
            f'height="{height:g}" viewBox="0 0 {width:g} {height:g}">\n'
            f"<style>\n{style(page, classes)}\n</style>\n"
            + "".join(page.patterns.parts) +
            '\n<rect width="100%" height="100%" rx="6" class="back"/>\n'
            + "\n".join(body) + "\n</svg>\n")


def page_of(name, arguments):
    with tempfile.TemporaryDirectory() as scratch:
        path = os.path.join(scratch, "report.html")
        if arguments[-1] == SUGGESTED:
            rules = os.path.join(scratch, SUGGESTED)
            subprocess.run([BIN, "suggest", *arguments[:-2], "--no-project",
                            "-o", rules, "--quiet"], check=True, cwd=ROOT)
            arguments = [*arguments[:-1], rules]
        # A page about a mistake is written with status 1.
        done = subprocess.run(
            [BIN, "report", *arguments, "--no-project", "-o", path, "--quiet"],
            check=False, cwd=ROOT)
        if done.returncode not in (0, 1):
            raise SystemExit(f"{name}: status {done.returncode}")
        with open(path, encoding="utf-8") as file:
            return Page(file.read())


def draw(folder):
    for name, (arguments, section, count, captions) in PICTURES.items():
        several = arguments if isinstance(arguments[0], list) else [arguments]
        pages = [page_of(name, one) for one in several]
        with open(os.path.join(folder, name), "w", encoding="utf-8") as out:
            out.write(picture(pages, section, count, captions))
    with open(os.path.join(folder, "source.svg"), "w", encoding="utf-8") as out:
        out.write(source.picture())


if __name__ == "__main__":
    draw(sys.argv[1] if sys.argv[1:] else HERE)
