"""Finds dead links in a folder of HTML pages: links.py FOLDER

A link to a page, a file or a fragment inside the folder must have a target, and
nothing that a browser loads by itself may come from another host. Links to
other hosts are counted and not followed.
"""

import html.parser
import os
import posixpath
import sys
import urllib.parse

# What a browser loads together with the page, by element.
LOADED = {"script": "src", "img": "src", "iframe": "src", "source": "src",
          "audio": "src", "video": "src"}
LOADED_RELATIONS = {"stylesheet", "icon", "preload", "modulepreload"}


class Page(html.parser.HTMLParser):
    def __init__(self, text):
        super().__init__()
        self.targets = set()
        self.links = []  # (address, whether the browser loads it)
        self.feed(text)

    def handle_starttag(self, tag, attributes):
        values = dict(attributes)
        for name in ("id", "name"):
            if values.get(name):
                self.targets.add(values[name])
        if tag in LOADED and values.get(LOADED[tag]):
            self.links.append((values[LOADED[tag]], True))
        if tag in ("a", "area") and values.get("href"):
            self.links.append((values["href"], False))
        if tag == "link" and values.get("href"):
            relations = set((values.get("rel") or "").split())
            self.links.append((values["href"],
                               bool(relations & LOADED_RELATIONS)))


def pages(folder):
    out = {}
    for here, _, names in os.walk(folder):
        for name in names:
            path = os.path.relpath(os.path.join(here, name), folder)
            if name.endswith(".html"):
                with open(os.path.join(folder, path), encoding="utf-8") as file:
                    out[path] = Page(file.read())
    return out


def problem(folder, known, page, address, loaded):
    """What is wrong with a link, or None. '' is a link to another host."""
    parts = urllib.parse.urlsplit(address)
    if parts.scheme in ("data", "mailto", "javascript"):
        return None
    if parts.scheme or parts.netloc:
        return "is loaded from another host" if loaded else ""
    path = urllib.parse.unquote(parts.path)
    if path.startswith("/"):
        target = posixpath.normpath(path.lstrip("/") or ".")
    else:
        target = posixpath.normpath(
            posixpath.join(posixpath.dirname(page), path)) if path else page
    if target.startswith(".."):
        return "leaves the site"
    if os.path.isdir(os.path.join(folder, target)):
        target = posixpath.normpath(posixpath.join(target, "index.html"))
    if not os.path.isfile(os.path.join(folder, target)):
        return "has no target"
    fragment = urllib.parse.unquote(parts.fragment)
    # Fragments of programs hold their state; those of the top have no element.
    if fragment in ("", "top") or target not in known:
        return None
    return None if fragment in known[target].targets else "has no such fragment"


def dead(folder):
    """The problems of all links, and how many were checked and left out."""
    known = pages(folder)
    problems = []
    checked = elsewhere = 0
    for page, parsed in sorted(known.items()):
        for address, loaded in parsed.links:
            found = problem(folder, known, page, address, loaded)
            if found == "":
                elsewhere += 1
                continue
            checked += 1
            if found:
                problems.append(f"{page}: `{address}` {found}")
    return problems, checked, elsewhere, len(known)


def report(folder):
    problems, checked, elsewhere, count = dead(folder)
    for line in problems:
        print(line, file=sys.stderr)
    print(f"{count} pages, {checked} links, {len(problems)} dead; "
          f"{elsewhere} links to other hosts were not followed")
    return 1 if problems or not count else 0


if __name__ == "__main__":
    sys.exit(report(sys.argv[1]))
