"""Attention: our kernels against the machine and against other libraries."""

import os
import shutil
import subprocess

import peers

HERE = os.path.dirname(os.path.abspath(__file__))


class Worker:
    """A process that times the cases it is named."""

    def __init__(self, command):
        self.command = command
        self.process = None

    def time(self, case):
        """(seconds, work), or the reason why there is none."""
        if self.process is None:
            if shutil.which(self.command[0]) is None:
                return "%s not found" % self.command[0]
            self.process = subprocess.Popen(
                self.command, stdin=subprocess.PIPE, stdout=subprocess.PIPE,
                stderr=subprocess.DEVNULL, text=True, cwd=HERE)
        try:
            self.process.stdin.write(case + "\n")
            self.process.stdin.flush()
            answer = self.process.stdout.readline().strip()
        except BrokenPipeError:
            answer = ""
        if not answer or answer.startswith("absent"):
            return answer[len("absent "):] or "the worker ended"
        seconds, work = answer.split()
        return float(seconds), float(work)

    def close(self):
        if self.process is not None:
            self.process.stdin.close()
            self.process.wait()


def row(name, against, ours, theirs, worker="ours", rate=False, unit="s",
        **more):
    return dict(name=name, against=against, ours=ours, theirs=theirs,
                worker=worker, rate=rate, unit=unit, **more)


def rows():
    out = []
    for length, target in ((1024, 0.70), (2048, 0.78)):
        causal = "prefill %d causal f32" % length
        causal_bf16 = "prefill %d causal bf16" % length
        full = "prefill %d full f32" % length
        full_bf16 = "prefill %d full bf16" % length
        out += [
            row(causal, "floor: FMA peak", causal, "peak", rate=True,
                unit="flop/s", target=target),
            row(causal_bf16, "our f32", causal_bf16, causal, target=0.9),
            row(causal, "ONNX Runtime", causal, causal, "ort", target=2.5),
            row(causal, "PyTorch", causal, causal, "torch"),
            row(causal_bf16, "PyTorch", causal_bf16, causal_bf16, "torch",
                target=1.0),
            row(causal, "numpy", causal, causal, "numpy"),
            row(full, "floor: FMA peak", full, "peak", rate=True,
                unit="flop/s"),
            row(full, "ONNX Runtime", full, full, "ort", target=1.0),
            row(full, "PyTorch", full, full, "torch"),
            row(full_bf16, "PyTorch", full_bf16, full_bf16, "torch",
                target=1.0),
        ]
    for length, target in ((8192, 0.85), (32768, 0.90)):
        for dtype in ("f32", "bf16"):
            case = "decode %d %s" % (length, dtype)
            out.append(row(case, "floor: read of the bytes", case,
                           "read %d %s" % (length, dtype), target=target))
        f32 = "decode %d f32" % length
        out += [
            row("decode %d int8" % length, "floor: read of the bytes",
                "decode %d int8" % length, "read %d int8" % length,
                target=0.85),
            row("decode %d int8" % length, "our f32",
                "decode %d int8" % length, f32, target=2.5),
            row(f32, "PyTorch", f32, f32, "torch"),
            row("decode %d bf16" % length, "PyTorch",
                "decode %d bf16" % length, "decode %d bf16" % length,
                "torch"),
            row(f32, "numpy", f32, f32, "numpy"),
        ]
    for length in (512, 1024):
        out.append(row("8 devices, heads split, %d" % length,
                       "one device", "mesh 8 %d" % length,
                       "mesh 1 %d" % length, target=0.91))
    return out


class Suite:
    def __init__(self, build):
        python = peers.python()
        self.workers = {
            "ours": Worker([os.path.join(build, "bench", "attention_worker")]),
            "ort": Worker([python, "ort_worker.py"]),
            "torch": Worker([python, "torch_worker.py"]),
            "numpy": Worker([python, "numpy_worker.py"]),
        }

    def __enter__(self):
        return self

    def __exit__(self, *_):
        for worker in self.workers.values():
            worker.close()

    def rows(self):
        return rows()

    def round(self, spec):
        ours = self.workers["ours"].time(spec["ours"])
        theirs = self.workers[spec["worker"]].time(spec["theirs"])
        for side in (ours, theirs):
            if isinstance(side, str):
                return {"absent": side}
        if spec["rate"]:
            return {"ours": ours[1] / ours[0],
                    "against": theirs[1] / theirs[0]}
        return {"ours": ours[0], "against": theirs[0]}
