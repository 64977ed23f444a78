"""What shardc, the program, makes of the cases of the records."""

import json
import math
import os
import struct
import subprocess
import tempfile

from records import ROOT

BIN = os.environ.get("SHARDC_BIN",
                     os.path.join(ROOT, "build", "src", "cli", "shardc"))


def run(*args, check=True):
    done = subprocess.run([BIN, *args], stdout=subprocess.PIPE,
                          stderr=subprocess.PIPE, check=False, timeout=300,
                          encoding="utf-8")
    if check and done.returncode:
        raise AssertionError(f"{args}: {done.returncode}\n{done.stderr}")
    return done


def write(path, content):
    with open(path, "w", encoding="utf-8") as file:
        json.dump(content, file)


def write_checkpoint(path, shapes):
    """Tensors w0, w1, ... of I32, each 0, 1, 2, ... in row-major order."""
    header, data = {}, b""
    for i, shape in enumerate(shapes):
        count = math.prod(shape)
        more = struct.pack(f"<{count}i", *range(count))
        header[f"w{i}"] = {"dtype": "I32", "shape": shape,
                           "data_offsets": [len(data), len(data) + len(more)]}
        data += more
    text = json.dumps(header).encode()
    text += b" " * (-len(text) % 8)
    with open(path, "wb") as file:
        file.write(struct.pack("<Q", len(text)) + text + data)


def read_checkpoint(path):
    """{name: (shape, elements)} of I32 tensors."""
    with open(path, "rb") as file:
        raw = file.read()
    (length,) = struct.unpack("<Q", raw[:8])
    header, tensors = json.loads(raw[8:8 + length]), {}
    header.pop("__metadata__", None)
    for name, entry in header.items():
        begin, end = (8 + length + n for n in entry["data_offsets"])
        count = (end - begin) // 4
        tensors[name] = (entry["shape"],
                         list(struct.unpack(f"<{count}i", raw[begin:end])))
    return tensors


def plan(folder, mesh, cases, *more, slices=None):
    """The plan of cases that share a mesh: parameters w0, w1, ... `slices`
    has the number of slices along each axis."""
    checkpoint = os.path.join(folder, "model.safetensors")
    write_checkpoint(checkpoint, [case["shape"] for case in cases])
    rules = os.path.join(folder, "rules.yaml")
    with open(rules, "w", encoding="utf-8") as text:
        text.write('version: 1\nseparator: "/"\nrules:\n')
        for i, case in enumerate(cases):
            # A case may replicate everything.
            text.write("  # shardc: ignore[SHD207] as recorded\n  - " +
                       json.dumps({"match": f"^w{i}$", "spec": case["spec"]}) +
                       "\n")
    file = {"axes": mesh}
    if slices and math.prod(slices) > 1:
        file |= {"slices": math.prod(slices),
                 "dcn": dict(zip(mesh, slices, strict=True))}
    write(os.path.join(folder, "mesh.yaml"), file)
    out = os.path.join(folder, "plan.json")
    run("plan", "--no-project", "-q", "--mesh",
        os.path.join(folder, "mesh.yaml"), "--rules", rules, "--manifest",
        checkpoint, "-o", out, *more)
    return out


def local_tensors(mesh, cases):
    """What `split` gives each device of each case: lists of (shape,
    elements), by case and device."""
    with tempfile.TemporaryDirectory() as folder:
        out = os.path.join(folder, "pieces")
        run("checkpoint", "split", "-q", "--no-sync", "--checkpoint",
            os.path.join(folder, "model.safetensors"), "--plan",
            plan(folder, mesh, cases), "--output", out)
        devices = [read_checkpoint(os.path.join(out, name))
                   for name in sorted(os.listdir(out))
                   if name.startswith("device-")]
    return [[tensors[f"w{i}"] for tensors in devices]
            for i in range(len(cases))]
