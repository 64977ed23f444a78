"""A client of `shardc lsp`, for its tests: messages over pipes, in order."""

import json
import os
import select
import subprocess
import time
import urllib.parse

import driver


def uri_of(path):
    return "file://" + urllib.parse.quote(str(path))


def framed(message):
    body = message if isinstance(message, bytes) else json.dumps(
        message).encode()
    return b"Content-Length: %d\r\n\r\n%s" % (len(body), body)


def units(text, encoding):
    """The length of a text in an encoding's units."""
    if encoding == "utf-16":
        return len(text.encode("utf-16-le")) // 2
    return len(text.encode() if encoding == "utf-8" else text)


class Client:
    """One server; its diagnostics of files are kept in `found`, by URI."""

    def __init__(self, encodings=None, capabilities=None, cwd=driver.ROOT,
                 args=("lsp", "--stdio"), env=None):
        self.process = subprocess.Popen(
            [driver.BIN, *args], cwd=cwd, stdin=subprocess.PIPE,
            stdout=subprocess.PIPE, stderr=subprocess.PIPE, env=env)
        os.set_blocking(self.process.stdout.fileno(), False)
        self.held = b""
        self.next_id = 0
        self.found = {}
        self.versions = {}
        self.published = 0
        self.texts = {}
        self.logged = []
        client = dict(capabilities or {})
        if encodings:
            client["general"] = {"positionEncodings": encodings}
        self.server = self.ask("initialize", {
            "processId": os.getpid(), "rootUri": None,
            "capabilities": client})
        self.encoding = self.server["capabilities"]["positionEncoding"]
        self.tell("initialized", {})

    # Messages.

    def send(self, data):
        self.process.stdin.write(data)
        self.process.stdin.flush()

    def tell(self, method, params):
        self.send(framed({"jsonrpc": "2.0", "method": method,
                          "params": params}))

    def begin(self, method, params):
        self.next_id += 1
        self.send(framed({"jsonrpc": "2.0", "id": self.next_id,
                          "method": method, "params": params}))
        return self.next_id

    def ask(self, method, params):
        answer = self.answer(self.begin(method, params))
        if "error" in answer:
            raise AssertionError(f"{method}: {answer['error']}")
        return answer["result"]

    def answer(self, wanted):
        while True:
            message = self.read()
            if message is None:
                raise AssertionError("no answer: " + self.stderr())
            if "method" not in message and message.get("id") == wanted:
                return message

    def read(self, seconds=60):
        """The next message; None where none comes, or the server has gone."""
        end = time.monotonic() + seconds
        while True:
            head, mark, rest = self.held.partition(b"\r\n\r\n")
            if mark:
                length = int(head.split(b":")[1])
                if len(rest) >= length:
                    self.held = rest[length:]
                    return self.take(json.loads(rest[:length]))
            left = end - time.monotonic()
            if left <= 0 or not select.select(
                    [self.process.stdout], [], [], left)[0]:
                return None
            more = self.process.stdout.read()
            if not more:
                return None
            self.held += more

    def take(self, message):
        params = message.get("params")
        if message.get("method") == "textDocument/publishDiagnostics":
            self.published += 1
            self.found[params["uri"]] = params["diagnostics"]
            self.versions[params["uri"]] = params.get("version")
        elif message.get("method") == "window/logMessage":
            self.logged.append(params["message"])
        return message

    def stderr(self):
        self.process.kill()
        return self.process.stderr.read().decode(errors="replace")

    # Documents.

    def open(self, path, text=None):
        if text is None:
            with open(path, encoding="utf-8", newline="") as file:
                text = file.read()
        uri = path if str(path).startswith("untitled:") else uri_of(path)
        self.texts[uri] = (1, text)
        self.tell("textDocument/didOpen", {"textDocument": {
            "uri": uri, "languageId": "yaml", "version": 1, "text": text}})
        return uri

    def position(self, uri, index):
        """The position of a character of the text, by its index."""
        text = self.texts[uri][1]
        line = text.count("\n", 0, index)
        start = text.rfind("\n", 0, index) + 1
        return {"line": line,
                "character": units(text[start:index], self.encoding)}

    def index(self, uri, position):
        text = self.texts[uri][1]
        lines = text.split("\n")
        at = sum(len(line) + 1 for line in lines[:position["line"]])
        left = position["character"]
        while left > 0:
            left -= units(text[at], self.encoding)
            at += 1
        return at

    def edit(self, uri, begin, end, new):
        """Replaces a range of the text, as one change of the protocol."""
        version, text = self.texts[uri]
        change = {"range": {"start": self.position(uri, begin),
                            "end": self.position(uri, end)}, "text": new}
        self.texts[uri] = (version + 1, text[:begin] + new + text[end:])
        self.tell("textDocument/didChange", {
            "textDocument": {"uri": uri, "version": version + 1},
            "contentChanges": [change]})

    def replace(self, uri, old, new):
        at = self.texts[uri][1].index(old)
        self.edit(uri, at, at + len(old), new)

    def put(self, uri, text):
        """Replaces the complete text."""
        version = self.texts[uri][0] + 1
        self.texts[uri] = (version, text)
        self.tell("textDocument/didChange", {
            "textDocument": {"uri": uri, "version": version},
            "contentChanges": [{"text": text}]})

    def findings(self, uri):
        """Those of the text as it is now: waits for its version."""
        while self.versions.get(uri) != self.texts[uri][0]:
            if self.read() is None:
                raise AssertionError("no findings: " + self.stderr())
        # The findings of a check are sent before any response.
        self.ask("textDocument/documentSymbol", {"textDocument": {"uri": uri}})
        return self.found[uri]

    def codes(self, uri):
        return sorted(one["code"] for one in self.findings(uri))

    # Questions about the place where a word of the text stands.

    def at(self, method, uri, word, shift=0, **more):
        index = self.texts[uri][1].index(word) + shift
        return self.ask("textDocument/" + method, {
            "textDocument": {"uri": uri},
            "position": self.position(uri, index), **more})

    def hover(self, uri, word, shift=0):
        result = self.at("hover", uri, word, shift)
        return result["contents"]["value"] if result else None

    def complete(self, uri, word):
        """Labels that may stand at the end of a word."""
        result = self.at("completion", uri, word, len(word))
        return [item["label"] for item in result["items"]]

    def actions(self, uri, word, only=None):
        index = self.texts[uri][1].index(word)
        place = self.position(uri, index)
        context = {"diagnostics": []}
        if only:
            context["only"] = only
        return self.ask("textDocument/codeAction", {
            "textDocument": {"uri": uri},
            "range": {"start": place, "end": place}, "context": context})

    def lines(self, uri, lines=None):
        """The parameters of a request about some lines, else all."""
        first, last = lines or (0, 1 << 20)
        return {"textDocument": {"uri": uri},
                "range": {"start": {"line": first, "character": 0},
                          "end": {"line": last, "character": 0}}}

    def hints(self, uri, lines=None):
        """Labels by the text of the line before them, after a quote."""
        text = self.texts[uri][1]
        out = {}
        for hint in self.ask("textDocument/inlayHint", self.lines(uri, lines)):
            at = self.index(uri, hint["position"])
            line = text[text.rfind("\n", 0, at) + 1:at]
            out[line.split("match: '")[1]] = hint["label"]
        return out

    def apply(self, action):
        """An action's edits, sent to the server as an editor does."""
        edit = action["edit"]
        changes = dict(edit.get("changes", {}))
        for one in edit.get("documentChanges", []):
            changes[one["textDocument"]["uri"]] = one["edits"]
        for uri, edits in changes.items():
            for one in sorted(edits, reverse=True, key=lambda e: (
                    e["range"]["start"]["line"],
                    e["range"]["start"]["character"])):
                self.edit(uri, self.index(uri, one["range"]["start"]),
                          self.index(uri, one["range"]["end"]),
                          one["newText"])

    def end(self):
        """Ends the server as the protocol wants; its exit status and words."""
        self.ask("shutdown", None)
        self.tell("exit", None)
        self.process.stdin.close()
        status = self.process.wait(60)
        words = self.process.stderr.read().decode(errors="replace")
        self.process.stderr.close()
        self.process.stdout.close()
        return status, words
