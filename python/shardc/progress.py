"""A line on a terminal that shows that a long call still runs, and for how long.

It has the form of the line that the program draws (src/cli/progress.cc): it is drawn on
standard error after the first second, and erased at the end. Nothing is written if
standard error is no terminal.
"""

from __future__ import annotations

import contextlib
import os
import shutil
import sys
import threading
import time
from collections.abc import Iterator

from shardc import files

_ERASE = "\r\x1b[K"
_FIRST_S = 1.0
_BETWEEN_S = 0.1


def _draws() -> bool:
    try:
        return sys.stderr.isatty() and os.environ.get("TERM") != "dumb"
    except (AttributeError, ValueError):  # pythonw, or a closed stream
        return False


def _draw(what: str, ended: threading.Event) -> None:
    start = time.monotonic()
    drawn = ""
    wait = _FIRST_S
    while not ended.wait(wait):
        wait = _BETWEEN_S
        end = f", {int(time.monotonic() - start)} s"
        width = shutil.get_terminal_size().columns - 1
        line = files.printable(what)[: max(0, width - len(end))] + end
        if line != drawn:
            sys.stderr.write(_ERASE + line)
            sys.stderr.flush()
            drawn = line
    if drawn:
        sys.stderr.write(_ERASE)
        sys.stderr.flush()


@contextlib.contextmanager
def line(what: str) -> Iterator[None]:
    """Shows what runs until the block ends."""
    if not _draws():
        yield
        return
    ended = threading.Event()
    thread = threading.Thread(target=_draw, args=(what, ended), daemon=True)
    thread.start()
    try:
        yield
    finally:
        ended.set()
        thread.join()
