"""Records of what other systems answered: JSON documents, gzipped.

A record is an object whose `cases` (or `params`) are lists with one entry per
line, so that two versions differ by lines; the same content gives the same
bytes.
"""

import gzip
import io
import json
import math
import os

HERE = os.path.dirname(os.path.abspath(__file__))
ROOT = os.environ.get("SHARDC_SOURCE_ROOT",
                      os.path.join(HERE, "..", ".."))
RECORDS = os.path.join(ROOT, "testdata", "runtimes")


def finite(value):
    """Without the numbers that JSON has not: they become strings."""
    if isinstance(value, float) and not math.isfinite(value):
        return str(value)
    if isinstance(value, dict):
        return {key: finite(item) for key, item in value.items()}
    if isinstance(value, (list, tuple)):
        return [finite(item) for item in value]
    return value


def infinite(value):
    """A copy with those numbers again."""
    if value in ("inf", "-inf"):
        return float(value)
    if isinstance(value, dict):
        return {key: infinite(item) for key, item in value.items()}
    if isinstance(value, (list, tuple)):
        return [infinite(item) for item in value]
    return value


def compact(value):
    return json.dumps(finite(value), ensure_ascii=False, allow_nan=False,
                      separators=(",", ":"))


def text(record):
    """The record as JSON, its long lists and objects an entry per line."""
    parts = []
    for key, value in record.items():
        if isinstance(value, list) and value:
            inner = ",\n".join(compact(item) for item in value)
            parts.append(f"{compact(key)}:[\n{inner}\n]")
        elif isinstance(value, dict) and len(value) > 8:
            inner = ",\n".join(f"{compact(str(name))}:{compact(item)}"
                               for name, item in value.items())
            parts.append(f"{compact(key)}:{{\n{inner}\n}}")
        else:
            parts.append(f"{compact(key)}:{compact(value)}")
    return "{" + ",\n".join(parts) + "}\n"


def path(name):
    return os.path.join(RECORDS, *name.split("/")) + ".json.gz"


def write_packed(name, content):
    """Writes a file of gzip, the same for the same text; its size in bytes."""
    os.makedirs(os.path.dirname(name), exist_ok=True)
    packed = io.BytesIO()
    with gzip.GzipFile(fileobj=packed, mode="wb", compresslevel=9, mtime=0,
                       filename="") as file:
        file.write(content.encode())
    with open(name, "wb") as file:
        file.write(packed.getvalue())
    return len(packed.getvalue())


def save(name, record):
    """Writes testdata/runtimes/NAME.json.gz; its size in bytes."""
    return write_packed(path(name), text(record))


def load(name):
    with gzip.open(path(name), "rb") as file:
        return json.loads(file.read())


def versions(*packages):
    """Installed versions by package, without local build tags."""
    from importlib import metadata
    return {name: metadata.version(name) for name in packages}
