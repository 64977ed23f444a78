"""Runs of `shardc search` in a temporary folder, with results that follow their
schema."""

import os
import tempfile

from described import DescribedCase


class SearchCase(DescribedCase):
    SCHEMA = "search"

    def setUp(self):
        self.folder = tempfile.TemporaryDirectory()
        self.addCleanup(self.folder.cleanup)

    def path(self, *names):
        return os.path.join(self.folder.name, *names)
