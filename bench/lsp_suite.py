"""The language server: from a key in a rules file until its diagnostics arrive.

Against the time in which an answer feels immediate, elapsed; and against
`shardc check` of the same files as a process of its own, processor time of all
threads. Each round types a character into a pattern and deletes it again.
"""

import json
import os
import resource
import subprocess
import tempfile
import time

import names

LIMIT = 0.05
KEYS = 10
COUNT, RULES = 91000, 100
KINDS = ("dense", "experts", "digits")
MESH = "axes: {dp: 2, fsdp: 8, tp: 4}\n"


def write_project(folder, kind):
    """Writes names, rules and a target of both; returns the path of the rules."""
    base = os.path.basename(names.write(folder, COUNT, RULES, kind))
    with open(os.path.join(folder, "mesh.yaml"), "w") as file:
        file.write(MESH)
    with open(os.path.join(folder, "shardc.yaml"), "w") as file:
        file.write("version: 1\ntargets:\n  big: {mesh: mesh.yaml, "
                   "rules: [%s.yaml], manifest: %s.json}\n" % (base, base))
    return os.path.join(folder, base + ".yaml")


class Server:
    """One server and one open document."""

    def __init__(self, program, path):
        self.process = subprocess.Popen(
            [program, "lsp", "--stdio", "--threads", "1"],
            stdin=subprocess.PIPE, stdout=subprocess.PIPE)
        self.uri = "file://" + path
        self.version = 1
        with open(path) as file:
            self.text = file.read()
        self._send({"id": 1, "method": "initialize",
                    "params": {"capabilities": {}}})
        self._send({"method": "initialized", "params": {}})
        self._send({"method": "textDocument/didOpen", "params": {
            "textDocument": {"uri": self.uri, "languageId": "yaml",
                             "version": 1, "text": self.text}}})
        self._wait()

    def _send(self, message):
        body = json.dumps(dict(message, jsonrpc="2.0")).encode()
        self.process.stdin.write(b"Content-Length: %d\r\n\r\n%s"
                                 % (len(body), body))
        self.process.stdin.flush()

    def _wait(self):
        """Until the diagnostics of the text as it is."""
        while True:
            length = 0
            for line in iter(self.process.stdout.readline, b"\r\n"):
                if not line:
                    raise OSError("the server has ended")
                if line.lower().startswith(b"content-length:"):
                    length = int(line.split(b":")[1])
            message = json.loads(self.process.stdout.read(length))
            params = message.get("params", {})
            if (message.get("method") == "textDocument/publishDiagnostics"
                    and params["uri"] == self.uri
                    and params.get("version") == self.version):
                return

    def type(self, line, column, text, remove=0):
        """Seconds until the diagnostics arrive."""
        self.version += 1
        start = time.perf_counter()
        self._send({"method": "textDocument/didChange", "params": {
            "textDocument": {"uri": self.uri, "version": self.version},
            "contentChanges": [{"text": text, "range": {
                "start": {"line": line, "character": column},
                "end": {"line": line, "character": column + remove}}}]}})
        self._wait()
        return time.perf_counter() - start

    def processor_seconds(self):
        total = 0
        tasks = "/proc/%d/task" % self.process.pid
        for task in os.listdir(tasks):
            with open(os.path.join(tasks, task, "schedstat")) as file:
                total += int(file.read().split()[0])
        return total / 1e9

    def end(self):
        self.process.stdin.close()
        self.process.wait(60)
        self.process.stdout.close()


class Suite:
    def __init__(self, build):
        self.program = os.path.join(build, "src", "cli", "shardc")

    def __enter__(self):
        self.folder = tempfile.TemporaryDirectory()
        self.servers = {}
        return self

    def __exit__(self, *_):
        for server, _ in self.servers.values():
            server.end()
        self.folder.cleanup()

    def rows(self):
        out = []
        for kind in KINDS:
            for against, target in (("50 ms", 1), ("check", 1)):
                out.append({"name": "a key, %s, %d names, %d rules" % (
                    kind, COUNT, RULES), "kind": kind, "against": against,
                    "target": target, "rate": False, "unit": "s"})
        return out

    def _server(self, kind):
        """A server, and the place before the end of the first pattern."""
        if kind not in self.servers:
            folder = os.path.join(os.path.realpath(self.folder.name), kind)
            os.mkdir(folder)
            server = Server(self.program, write_project(folder, kind))
            lines = server.text.split("\n")
            line = next(i for i, one in enumerate(lines) if "match" in one)
            self.servers[kind] = server, (line, lines[line].rindex("/kernel"))
        return self.servers[kind]

    def _check(self, kind):
        before = resource.getrusage(resource.RUSAGE_CHILDREN)
        done = subprocess.run(
            [self.program, "check", "--threads", "1", "--quiet"],
            stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, check=False,
            cwd=os.path.join(self.folder.name, kind))
        after = resource.getrusage(resource.RUSAGE_CHILDREN)
        if done.returncode not in (0, 1):
            return done.stderr.decode(errors="replace")
        return (after.ru_utime + after.ru_stime
                - before.ru_utime - before.ru_stime)

    def round(self, spec):
        try:
            server, (line, column) = self._server(spec["kind"])
            before = server.processor_seconds()
            taken = []
            for _ in range(KEYS):
                taken.append(server.type(line, column, "x"))
                taken.append(server.type(line, column, "", 1))
            used = (server.processor_seconds() - before) / len(taken)
        except OSError as error:
            return {"absent": str(error)}
        if spec["against"] == "50 ms":
            return {"ours": sorted(taken)[len(taken) // 2], "against": LIMIT}
        theirs = self._check(spec["kind"])
        if isinstance(theirs, str):
            return {"absent": theirs}
        return {"ours": used, "against": theirs}
