"""Transcripts: files, commands, and what the commands print, as one text.

    === a title begins a section, in an empty folder of its own
    # A remark.
    --- rules.yaml
    version: 1
    --- manifest.json params
    layers/{0..3}/w [4, 4] F32
    $ shardc plan --mesh tp:4 --rules rules.yaml --manifest manifest.json
      what goes to standard output, two spaces before it
    ! what goes to standard error
    [2]

`--- NAME` writes the lines below it to a file; what stands above the first
title is there in every section. With `params` the lines are a manifest in
short (name, shape, dtype; `{0..3}` counts, `?` is not known), with `tensors` a
safetensors file of such tensors. A command goes to sh; the last line is its
exit status where that is not 0. Whoever reads a transcript may change files
and commands and leave what is printed to be written again.
"""

import json
import os
import re
import shlex
import struct
import subprocess
import tempfile

# What the environment may say to a program, kept away from it.
KEPT = ("PATH", "TMPDIR", "ASAN_OPTIONS", "LSAN_OPTIONS", "TSAN_OPTIONS",
        "UBSAN_OPTIONS")
SHELL = re.compile(r"[|&;<>()$`*?\[#~=%{!\n]")
RANGE = re.compile(r"\{(\d+)\.\.(\d+)\}")
PARAM = re.compile(r"(.*?) +(\?|\[[\d, ]*\])(?: +(\S+))?$")
SIZES = {"F64": 8, "I64": 8, "F32": 4, "I32": 4, "BF16": 2, "F16": 2,
         "I8": 1, "U8": 1, "BOOL": 1, "F8_E4M3": 1}


class Step:
    """A line of prose, a file to write, or a command to run."""

    def __init__(self, kind, text, lines=()):
        self.kind = kind  # "prose", "file", "command"; "hidden": a file
        # that the transcript does not show
        self.text = text
        self.lines = list(lines)


class Section:
    def __init__(self, title, steps=()):
        self.title = title
        self.steps = list(steps)


def parse(source):
    """Sections with what was printed left out."""
    sections = [Section("")]
    steps = sections[0].steps
    state = "prose"
    for line in source.rstrip("\n").split("\n"):
        if state == "continued":
            steps[-1].text += "\n" + line
            state = "continued" if line.endswith("\\") else "output"
        elif line.startswith("=== "):
            sections.append(Section(line[4:]))
            steps = sections[-1].steps
            state = "prose"
        elif line.startswith("--- "):
            steps.append(Step("file", line[4:]))
            state = "file"
        elif line.startswith("$ "):
            steps.append(Step("command", line[2:]))
            state = "continued" if line.endswith("\\") else "output"
        elif state == "file":
            steps[-1].lines.append(line)
        elif state == "prose" or line.startswith("# "):
            state = "prose"
            if line:
                steps.append(Step("prose", line))
    return [s for s in sections if s.title or s.steps]


def head(sections):
    """The files that stand above the first title."""
    return [step for section in sections[:1] if not section.title
            for step in section.steps if step.kind == "file"]


def counted(name):
    """`a/{0..2}` to its three names."""
    found = RANGE.search(name)
    if not found:
        return [name]
    low, high = int(found.group(1)), int(found.group(2))
    before, after = name[:found.start()], counted(name[found.end():])
    return [f"{before}{i}{rest}" for i in range(low, high + 1)
            for rest in after]


def params(lines):
    """(name, shape or None, dtype or None) of each parameter."""
    for line in lines:
        match = PARAM.match(line)
        if not match:
            raise ValueError(f"no parameter: {line}")
        name, shape, dtype = match.groups()
        shape = None if shape == "?" else json.loads(shape)
        for one in counted(name):
            yield one, shape, dtype


def manifest(lines):
    entries = ",\n".join(
        f"  {json.dumps(name)}: {json.dumps({'shape': shape, 'dtype': dtype})}"
        for name, shape, dtype in params(lines))
    return ('{"schema": "shardc.manifest/v1", "params": {\n'
            + entries + "}}\n").encode()


def tensors(lines):
    """A safetensors file whose bytes count up."""
    header, data = {}, b""
    for name, shape, dtype in params(lines):
        size = SIZES[dtype]
        for dim in shape:
            size *= dim
        begin = len(data)
        data += bytes((begin + i) % 251 for i in range(size))
        header[name] = {"dtype": dtype, "shape": shape,
                        "data_offsets": [begin, len(data)]}
    text = json.dumps(header, separators=(",", ":")).encode()
    text += b" " * (-len(text) % 8)
    return struct.pack("<Q", len(text)) + text + data


def text(lines):
    return "".join(line + "\n" for line in lines).encode()


MAKERS = {"params": manifest, "tensors": tensors, "text": text}


def write_file(folder, step):
    name, _, kind = step.text.rpartition(" ")
    if kind not in MAKERS:
        name, kind = step.text, "text"
    lines = list(step.lines)
    while lines and not lines[-1]:
        lines.pop()
    path = os.path.join(folder, name)
    os.makedirs(os.path.dirname(path), exist_ok=True)
    with open(path, "wb") as file:
        file.write(MAKERS[kind](lines))


class Runner:
    """Runs sections with a program, in folders of their own."""

    def __init__(self, program, root):
        self.env = {name: os.environ[name] for name in KEPT
                    if name in os.environ}
        self.env.update(TERM="dumb", LC_ALL="C.UTF-8", ROOT=root,
                        PYTHONDONTWRITEBYTECODE="1")
        self.env["PATH"] = (os.path.dirname(program) + os.pathsep
                            + self.env["PATH"])
        self.program = program

    def command(self, text, folder):
        if SHELL.search(text):
            words = ["sh", "-c", text]
        else:
            words = shlex.split(text)
            if words[0] == "shardc":
                words[0] = self.program
        return subprocess.run(
            words, cwd=folder, env=self.env, input=b"", timeout=900,
            stdout=subprocess.PIPE, stderr=subprocess.PIPE, check=False)

    def section(self, section, common=()):
        """The section's text with what its commands print now; `common` are
        files of the head."""
        out = [f"=== {section.title}"] if section.title else []
        with tempfile.TemporaryDirectory() as folder:
            for step in common:
                write_file(folder, step)
            for step in section.steps:
                if step.kind == "prose":
                    out.append(step.text)
                elif step.kind == "file":
                    write_file(folder, step)
                    out += [f"--- {step.text}", *step.lines]
                elif step.kind == "hidden":
                    write_file(folder, step)
                else:
                    out.append(f"$ {step.text}")
                    out += printed(self.command(step.text, folder))
        return "".join(line + "\n" for line in out)


def prefixed(mark, printed_bytes):
    lines = printed_bytes.decode("utf-8", "backslashreplace").split("\n")
    last = lines.pop()
    lines = [f"{mark} {line}".rstrip() if not line.strip() else
             f"{mark} {line}" for line in lines]
    if last:
        lines += [f"{mark} {last}", "\\ no line break at the end"]
    return lines


def printed(done):
    out = prefixed(" ", done.stdout) + prefixed("!", done.stderr)
    if done.returncode != 0:
        out.append(f"[{done.returncode}]")
    return [*out, ""]
