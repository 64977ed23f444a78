"""Files that the package reads and writes, and its messages about them.

Every file that the package writes goes through `write` or `write_set`, and every
file of others that it reads through `read` or `read_json`:

    write      A reader of the path sees the old file or all of the new one, whatever
               happens in between: a full disk, an error, a kill.
    read       A regular file of a bounded size; FIFOs and devices are not awaited.
    read_json  Its JSON, inflated if it is compressed. What it becomes in memory is
               counted before it is made.

`exit_status` turns what they raise into the messages of the program, with exit
status 2, and `printable` escapes the texts of files in messages.
"""

from __future__ import annotations

import contextlib
import errno
import importlib
import json
import os
import re
import signal
import stat
import sys
import tempfile
import traceback
import zlib
from collections.abc import Iterable, Iterator, Sequence
from typing import Any, BinaryIO, Callable, Union

Path = Union[str, "os.PathLike[str]"]

# The codes of the program's messages (docs/diagnostics.md) that the package prints.
CODES = {
    "usage": 1,
    "unreadable": 3,
    "not-regular": 4,
    "limit": 5,
    "encoding": 6,
    "json-syntax": 16,
    "json-depth": 17,
    "duplicate-key": 20,
    "schema": 22,
    "axis-name": 26,
    "spec": 27,
    "write": 60,
    "inexpressible": 62,
}

# Limits of what is read. The text of a compressed file may have as many bytes as the
# program allows (src/source/file.cc).
MOST_BYTES = 2 << 30
_INFLATED_RATIO, _INFLATED_FREE = 64, 32 << 20
# JSON becomes objects of Python, which take some 100 bytes each. A trace of PyTorch
# has about one value for each byte of its compressed file.
_FREE_VALUES, _VALUES_A_BYTE = 1 << 20, 2
_GZIP = b"\x1f\x8b"


class FileError(ValueError):
    """A file does not hold what is needed; `code` is one of CODES."""

    def __init__(
        self, path: Path, message: str, help: str = "", code: str = "unreadable"
    ) -> None:
        super().__init__(f"{os.fspath(path)}: {message}")
        self.path, self.message = os.fspath(path), message
        self.help, self.code = help, code


# ---- Reading


def read(path: Path, most: int = MOST_BYTES) -> bytes:
    """The bytes of a regular file, or of standard input for `-`, of at most `most`
    bytes. Raises FileError, or the OSError of the system."""
    name = os.fspath(path)
    if name == "-":
        return _limited(sys.stdin.buffer, 0, name, most)
    fd = os.open(name, os.O_RDONLY | getattr(os, "O_NONBLOCK", 0))
    status = os.fstat(fd)
    if not stat.S_ISREG(status.st_mode):
        os.close(fd)
        raise FileError(path, "this is not a regular file", code="not-regular")
    with open(fd, "rb") as file:
        return _limited(file, status.st_size, name, most)


def _limited(file: BinaryIO, size: int, name: str, most: int) -> bytes:
    """The bytes of an open file. Python allocates as many as it is to read at most, so
    that they are read by the file's size, and by a few more until there are none."""
    parts = [file.read(min(size, most) + 1)]
    total = len(parts[0])
    while parts[-1] and total <= most:
        parts.append(file.read(1 << 20))
        total += len(parts[-1])
    data = b"".join(parts)
    if total > most:
        size = f"{most >> 20} MiB" if most >> 20 else f"{most} bytes"
        raise FileError(name, f"this file is larger than {size}", code="limit")
    return data


def read_text(path: Path, most: int = MOST_BYTES) -> str:
    """The text of a file in UTF-8, inflated if it is compressed with gzip."""
    return _decoded(_inflated(read(path, most), path), path)


def read_json(path: Path, most: int = MOST_BYTES) -> Any:
    """The data of a JSON file, which may be compressed with gzip."""
    packed = read(path, most)
    text = _decoded(_inflated(packed, path), path)
    if packed.startswith(_GZIP):
        # A value follows an opening bracket, a comma or a colon.
        values = sum(map(text.count, "[{,:"))
        allowed = _FREE_VALUES + len(packed) * _VALUES_A_BYTE
        if values > allowed:
            reason = (
                f"this JSON has up to {values:,} values, and a compressed file of"
                f" {len(packed):,} bytes may have {allowed:,}"
            )
            raise FileError(path, reason, "decompress it first, with `gzip -d`", "limit")
    try:
        return json.loads(text)
    except json.JSONDecodeError as error:
        message = f"this is no JSON: {error.msg} in line {error.lineno}, column {error.colno}"
        raise FileError(path, message, code="json-syntax") from None
    except RecursionError:
        raise FileError(
            path, "this JSON is nested too deeply", code="json-depth"
        ) from None
    except ValueError as error:  # an integer of thousands of digits
        raise FileError(path, f"this is no JSON: {error}", code="json-syntax") from None


def _inflated(data: bytes, path: Path) -> bytes:
    if not data.startswith(_GZIP):
        return data
    most = min(MOST_BYTES, len(data) * _INFLATED_RATIO + _INFLATED_FREE)
    out = bytearray()
    while data:
        stream = zlib.decompressobj(16 + zlib.MAX_WBITS)
        try:
            out += stream.decompress(data, most + 1 - len(out))
        except zlib.error as error:
            raise FileError(path, f"cannot be inflated: {error}") from None
        if len(out) > most:
            message = f"it inflates to more than {most >> 20} MiB"
            raise FileError(path, message, code="limit")
        if not stream.eof:
            raise FileError(path, "cannot be inflated: it is cut off")
        # Zeros after the last member are ignored, as gzip does.
        data = stream.unused_data.lstrip(b"\0")
        if data and not data.startswith(_GZIP):
            raise FileError(path, "cannot be inflated: something else follows its end")
    return bytes(out)


def _decoded(data: bytes, path: Path) -> str:
    try:
        return data.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        line = data.count(b"\n", 0, error.start) + 1
        message = f"a byte in line {line} is not UTF-8"
        raise FileError(path, message, code="encoding") from None


# ---- Writing


def write(path: Path, data: str | bytes, *, read: Iterable[Path] = ()) -> None:
    """Writes a file as a whole, or leaves the old one as it is and raises OSError.
    `-` is standard output. `read` are the paths of inputs, which are not replaced."""
    write_set([(path, data)], read=read)


def write_set(
    files: Sequence[tuple[Path, str | bytes]], *, read: Iterable[Path] = ()
) -> None:
    """Writes several files of one result. All are complete on the disk before the
    first gets its name. The last is the index of the set: while the others replace
    files, it is a mark that every reader refuses, so that a run that is killed
    leaves the old set, the new one, or the mark."""
    inputs = [(status.st_dev, status.st_ino) for status in map(_status, read) if status]
    pending: list[_Pending] = []
    try:
        for path, data in files:
            raw = data.encode("utf-8") if isinstance(data, str) else data
            pending.append(_Pending(os.fspath(path), raw, inputs))
        if any(one.replaces for one in pending[:-1]) and not pending[-1].in_place:
            pending.insert(0, _Pending(pending[-1].path, _MARK, inputs))
        for one in pending:
            one.publish()
    finally:
        for one in pending:
            one.discard()


# As src/source/sink.h has it.
_MARK = (
    b'{"schema": "shardc.unfinished/v1",\n "message": "a run was interrupted while it'
    b" put a new set in place of an earlier one; run the same command again\"}\n"
)


def scratch(folder: Path, name: str, data: str | bytes) -> str:
    """The path of a file in a temporary folder of the package's own, which goes with
    the folder."""
    path = os.path.join(folder, name)
    with open(path, "wb") as file:
        file.write(data.encode("utf-8") if isinstance(data, str) else data)
    return path


def _status(path: Path) -> os.stat_result | None:
    try:
        return os.stat(path)
    except (OSError, ValueError):
        return None


class _Pending:
    """A file whose bytes are on the disk, and which gets its name by publish(). As the
    program writes (src/source/sink.cc), it is an unnamed file where the system has
    these, and else a temporary one next to the target."""

    def __init__(self, path: str, data: bytes, inputs: Sequence[tuple[int, int]]):
        self.path, self._data = path, data
        self._fd, self._temporary = -1, ""
        self.replaces = False
        if not path or path.endswith(os.sep):
            reason = errno.EISDIR if path else errno.ENOENT
            raise WriteError(reason, os.strerror(reason), path)
        status = None if path == "-" else _status(path)
        self.in_place = path == "-" or (
            status is not None and not stat.S_ISREG(status.st_mode)
        )
        if status is not None:
            if stat.S_ISDIR(status.st_mode):
                raise WriteError(errno.EISDIR, os.strerror(errno.EISDIR), path)
            if (status.st_dev, status.st_ino) in inputs:
                message = "this is one of the files that are read"
                raise FileError(path, message, "write to another file", "usage")
            self.replaces = not self.in_place
        # What a link leads to is replaced, and not the link.
        self._target = path if self.in_place else os.path.realpath(path)
        self._mode = stat.S_IMODE(status.st_mode) if status and self.replaces else None
        if not self.in_place:
            if os.path.islink(self._target):
                raise WriteError(errno.ELOOP, os.strerror(errno.ELOOP), path)
            try:
                with _writing(path):
                    self._prepare()
            except BaseException:
                self.discard()
                raise

    def _prepare(self) -> None:
        folder = os.path.dirname(self._target) or "."
        if hasattr(os, "O_TMPFILE"):
            try:
                self._fd = os.open(folder, os.O_RDWR | os.O_TMPFILE, 0o666)
            except OSError:
                self._fd = -1
            if self._fd >= 0 and not os.path.exists(f"/proc/self/fd/{self._fd}"):
                self.discard()
        if self._fd < 0:
            self._open_temporary(folder)
        self._fill()

    def _open_temporary(self, folder: str) -> None:
        name = os.path.basename(self._target)[:200]
        self._fd, self._temporary = tempfile.mkstemp(".tmp", f".{name}.", folder)
        if self._mode is None and hasattr(os, "fchmod"):
            umask = os.umask(0)
            os.umask(umask)
            os.fchmod(self._fd, 0o666 & ~umask)

    def _fill(self) -> None:
        rest = memoryview(self._data)
        while rest:
            rest = rest[os.write(self._fd, rest) :]
        if self._mode is not None and hasattr(os, "fchmod"):
            os.fchmod(self._fd, self._mode)
        os.fsync(self._fd)

    def publish(self) -> None:
        with _writing(self.path):
            if self.path == "-":
                sys.stdout.write(self._data.decode("utf-8"))
                sys.stdout.flush()
            elif self.in_place:
                with open(self.path, "wb") as file:
                    file.write(self._data)
            else:
                self._name()
                _sync_folder(os.path.dirname(self._target) or ".")

    def _name(self) -> None:
        if self._temporary or not self._link():
            if not self._temporary:  # the system cannot name what has no name
                self.discard()
                self._open_temporary(os.path.dirname(self._target) or ".")
                self._fill()
            os.close(self._fd)
            self._fd = -1
            os.replace(self._temporary, self._target)
            self._temporary = ""

    def _link(self) -> bool:
        """Gives an unnamed file its name; returns whether the system can. A file that
        is there is replaced in two steps: by the name `next`, and by renaming it. If
        there is such a name already, another run is between the steps, or was killed
        there: that run makes it once more, if it still runs."""
        folder, name = os.path.split(self._target)
        next_ = os.path.join(folder, f".{name[:200]}.new.tmp")
        for _ in range(100):
            failed = self._link_error(self._target)
            if failed != errno.EEXIST:
                return failed == 0
            failed = self._link_error(next_)
            if failed not in (0, errno.EEXIST):
                return False
            with contextlib.suppress(FileNotFoundError):
                if failed == 0:
                    os.replace(next_, self._target)
                    return True
                os.unlink(next_)
        return False

    def _link_error(self, to: str) -> int | None:
        """Links the unnamed file; returns 0 or the number of the error."""
        try:
            # A folder's descriptor, which an absolute path does not use, makes
            # Python call linkat(), which follows the link in /proc.
            os.link(
                f"/proc/self/fd/{self._fd}", to, src_dir_fd=self._fd,
                follow_symlinks=True,
            )  # fmt: skip
        except OSError as error:
            return error.errno
        return 0

    def discard(self) -> None:
        if self._fd >= 0:
            os.close(self._fd)
            self._fd = -1
        if self._temporary:
            with contextlib.suppress(OSError):
                os.unlink(self._temporary)
            self._temporary = ""


class WriteError(OSError):
    """The system refuses to write a file."""


@contextlib.contextmanager
def _writing(path: str) -> Iterator[None]:
    """Errors of the system name the path that the user gave."""
    try:
        yield
    except BrokenPipeError:
        raise
    except OSError as error:
        raise WriteError(error.errno, error.strerror, path) from None


def _sync_folder(folder: str) -> None:
    """Errors are ignored, because some file systems cannot sync a folder."""
    with contextlib.suppress(OSError):
        fd = os.open(folder, os.O_RDONLY)
        try:
            os.fsync(fd)
        finally:
            os.close(fd)


# ---- Messages


def printable(text: str) -> str:
    """The text with an escape for each character that no terminal shows, and for
    each that Unicode calls ignorable: the table of src/source/utf8.cc."""
    if text.isprintable() and not _HIDDEN.search(text):
        return text
    return "".join(
        c if c.isprintable() and not _HIDDEN.match(c) else _escape(c) for c in text
    )


# What Unicode calls a control, a mark of direction or ignorable: the ranges of
# src/source/utf8.cc above 0x1F.
_HIDDEN = re.compile(
    "[\x7f-\x9f\xad\u034f\u061c\u115f\u1160\u17b4\u17b5\u180b-\u180f\u200b-\u200f"
    "\u2028-\u202e\u2060-\u206f\u2800\u3164\ufe00-\ufe0f\ufeff\uffa0\ufff0-\ufffb"
    "\U00013430-\U00013438\U0001bca0-\U0001bca3\U0001d173-\U0001d17a"
    "\U000e0000-\U000e0fff]"
)


def _escape(c: str) -> str:
    return c.encode("unicode_escape").decode()


def message(
    text: str, where: str = "", help: str = "", code: str = "unreadable",
    level: str = "error",
) -> str:  # fmt: skip
    """A message in the program's form. Its parts may hold texts of files."""
    out = f"{level}[SHD{CODES[code]:03} {code}]: {printable(text)}\n"
    out += f"  --> {printable(where)}\n" if where else ""
    return out + (f"   = help: {printable(help)}\n" if help else "")


def failed(text: str) -> int:
    """Prints a message about how a command was called; returns its exit status."""
    sys.stderr.write(message(text, code="usage"))
    return 2


def _system_message(error: OSError) -> str:
    name = str(error.filename) if error.filename is not None else ""
    reason = error.strerror or str(error)
    full = error.errno in (errno.ENOSPC, getattr(errno, "EDQUOT", None))
    if isinstance(error, WriteError):
        shown = "standard output" if name == "-" else f"`{name}`"
        return message(
            f"cannot write {shown}: {reason}", "" if name == "-" else name,
            "free some space or choose another place" if full else "", "write",
        )  # fmt: skip
    shown = f"cannot open `{name}`: {reason}" if name else reason
    return message(shown, name)


def exit_status(main: Callable[[], int]) -> int:
    """What a command of the package ends with: the status of `main`, or 2 with one
    message for a file that cannot be read or written, or too little memory."""
    try:
        status = main()
        with _writing("-"):
            sys.stdout.flush()
        return status
    except BrokenPipeError:
        # A reader such as `head` has enough.
        _drop_output()
        return 0
    except KeyboardInterrupt:
        signal.signal(signal.SIGINT, signal.SIG_DFL)
        os.kill(os.getpid(), signal.SIGINT)
        return 2
    except FileError as error:
        text = message(error.message, error.path, error.help, error.code)
    except OSError as error:
        text = _system_message(error)
    except MemoryError:
        text = message("there is too little memory", code="limit")
    _drop_output()
    sys.stderr.write(text)
    return 2


@contextlib.contextmanager
def running(what: str, passing: tuple[type[Exception], ...] = ()) -> Iterator[None]:
    """Runs code of the user, MODULE:FACTORY. What it raises becomes a FileError with
    the innermost line that is theirs, except for the errors of `passing`."""
    try:
        yield
    except (*passing, FileError, MemoryError):
        raise
    except Exception as error:
        raise _of_user(error, what) from error


def _of_user(error: Exception, what: str) -> FileError:
    own = os.path.dirname(os.path.abspath(__file__)) + os.sep
    frames = [
        one
        for one in traceback.extract_tb(error.__traceback__)
        if not one.filename.startswith((own, "<"))
        and os.path.dirname(importlib.__file__) not in one.filename
    ]
    where = f"{frames[-1].filename}:{frames[-1].lineno}" if frames else what
    text = str(error)
    text = text if len(text) <= 2000 else text[:2000] + " ..."
    kind = type(error).__name__
    module, _, name = what.partition(":")
    if isinstance(error, TypeError) and not frames and name:
        return FileError(
            where, f"`{what}` is called without arguments: {text}",
            "write a function without arguments that returns what it needs: "
            "`(function, params, batch)` for shardc.program, a model or its "
            "parameters for shardc.manifest",
            "usage",
        )  # fmt: skip
    return FileError(
        where, f"`{what}` raises {kind}{': ' if text else ''}{text}",
        f"`python3 -c 'import {module}; {module}.{name}()'` prints the traceback"
        if name else "", "usage",
    )  # fmt: skip


def _drop_output() -> None:
    """What standard output still holds is not written at the end of the process."""
    with contextlib.suppress(OSError, ValueError, AttributeError):
        null = os.open(os.devnull, os.O_WRONLY)
        os.dup2(null, sys.stdout.fileno())
        os.close(null)
