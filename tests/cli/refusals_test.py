"""Every message of a reader, by a file that it refuses with it, at its place."""

import concurrent.futures
import os
import re
import tempfile
import unittest

from driver import Case, run
from refusals import READERS

ERROR = re.compile(r"^error\[(SHD\d{3}) [\w-]+\]: (.*)$", re.M)
PLACE = re.compile(r"^  --> ([^\n:]*)(?::(\d+:\d+))?$", re.M)


def refused(reader, content):
    """`CODE PLACE MESSAGE` of the first error, and the exit status."""
    with tempfile.TemporaryDirectory() as folder:
        for name, text in {**reader.files, reader.file: content}.items():
            path = os.path.join(folder, name)
            os.makedirs(os.path.dirname(path), exist_ok=True)
            data = text if isinstance(text, bytes) else text.encode()
            with open(path, "wb") as file:
                file.write(data)
        words = ["in" if word == "IN" else word
                 for word in reader.command.split()]
        result = run(*words, cwd=folder, timeout=60)
    error = ERROR.search(result.err)
    if error is None:
        return result.rc, result.err
    place = PLACE.search(result.err, error.end())
    where = (place.group(2) if place else None) or "-"
    return result.rc, f"{error.group(1)} {where} {error.group(2)}"


class Refusals(Case):
    def test_every_row(self):
        rows = [(reader, content, expected) for reader in READERS
                for content, expected in reader.rows]
        self.assertGreater(len(rows), 150)
        with concurrent.futures.ThreadPoolExecutor(os.cpu_count()) as pool:
            found = pool.map(lambda row: refused(row[0], row[1]), rows)
            for (reader, content, expected), seen in zip(rows, found):
                with self.subTest(reader.command, content=content[:200]):
                    self.assertEqual(seen, (2, expected))


if __name__ == "__main__":
    unittest.main()
