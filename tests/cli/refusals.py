"""Refused files: what each message of the readers is caused by, and its place.

A row is a file's content, and the code, the place (line:column, or - for the
file itself) and the message of the first error. Those of importers are in
testdata/tables/imports.txt. The rows are divided by who writes such a file.
"""

from refused_configurations import CONFIGURATIONS
from refused_flags import FLAGS
from refused_outputs import WRITTEN_BY_PROGRAMS
from refused_texts import WRITTEN_BY_PEOPLE

READERS = [*WRITTEN_BY_PROGRAMS, *FLAGS, *WRITTEN_BY_PEOPLE, *CONFIGURATIONS]
