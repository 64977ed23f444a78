"""Tables of the documentation that a test makes, each between two marks."""

import sys
import unittest


class Page:
    """A page, and what makes the text between marks such as `<!-- table -->`."""

    def __init__(self, path, **tables):
        self.path = path
        self.tables = tables

    def read(self):
        with open(self.path, encoding="utf-8") as file:
            return file.read()

    def made(self):
        """The text of the page with all its tables made again."""
        text = self.read()
        for name, make in self.tables.items():
            begin, end = f"<!-- {name} -->\n", f"<!-- /{name} -->\n"
            first, last = text.index(begin) + len(begin), text.index(end)
            text = text[:first] + make() + text[last:]
        return text

    def main(self):
        """Runs the tests of the calling module, or writes the page."""
        if "--write" not in sys.argv:
            unittest.main()
        text = self.made()
        with open(self.path, "w", encoding="utf-8") as file:
            file.write(text)
