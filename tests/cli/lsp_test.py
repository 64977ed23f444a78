"""`shardc lsp` by its protocol: files, projects and packs, and that no message
of a client ends the server."""

import json
import os
import tempfile
import unittest

import driver
from lsp_client import Client, framed, uri_of
from lsp_files import MESH, PROJECT, RULES, Files, manifest, write


class Packs(Files):
    """What stands in a pack is shown in a file of the user's cache."""

    def place(self, uri, word, shift=2):
        (place,) = self.client.at("definition", uri, word, shift)
        path = os.path.join(self.cache, "shardc", "packs", "llama.flax.yaml")
        self.assertEqual(place["uri"], uri_of(path))
        with open(path, encoding="utf-8") as file:
            text = file.read()
        pack = self.check(driver.run("show", "rules", "--rules", "builtin:llama/flax",
                                     "--format", "yaml"), 0)
        self.assertEqual(text.count("- match:"), pack.out.count("- match:"))
        return path, text.split("\n")[place["range"]["start"]["line"]]

    def start(self, **how):
        self.cache = os.path.join(self.folder, "caches \u00e9")
        return super().start(env=dict(os.environ, XDG_CACHE_HOME=self.cache))

    def test_definitions_in_packs(self):
        client = self.start()
        uri = self.open("rules.yaml", RULES.replace(
            "[./base.yaml]", "['builtin:llama', ./base.yaml]"))
        client.findings(uri)
        path, _ = self.place(uri, "builtin:llama")
        # Not written while it is as it should be; mended where it is not.
        when = os.stat(path).st_mtime_ns
        self.place(uri, "builtin:llama")
        self.assertEqual(os.stat(path).st_mtime_ns, when)
        self.assertEqual(os.stat(path).st_mode & 0o777, 0o444)
        os.chmod(path, 0o600)
        with open(path, "a", encoding="utf-8") as file:
            file.write("rubbish")
        self.place(uri, "builtin:llama")
        # It is a rules file as any other.
        pack = self.open(path)
        self.assertEqual(client.findings(pack), [])

    def test_packs_that_a_project_names(self):
        project = PROJECT.replace("[rules.yaml]", "auto")
        self.write("manifest.json", json.dumps({
            "schema": "shardc.manifest/v1", "params": {
                f"model/layers/0/{name}/kernel": {"shape": [64, 64],
                                                  "dtype": "BF16"}
                for name in ("self_attn/q_proj", "self_attn/k_proj",
                             "mlp/gate_proj", "mlp/up_proj")}}))
        other = project.replace("small", "other").replace(
            "auto", "[builtin:llama/flax]").replace(
                "version: 1\ntargets:\n", "")
        client = self.start()
        uri = self.open("shardc.yaml", project + other)
        client.findings(uri)
        self.place(uri, "auto")
        self.place(uri, "builtin:llama/flax")
        client.replace(uri, "builtin:llama/flax", "builtin:none")
        client.findings(uri)
        self.assertIsNone(client.at("definition", uri, "builtin:none", 2))

    def test_without_a_cache_there_is_no_place(self):
        for env in ({"XDG_CACHE_HOME": "relative", "HOME": ""},
                    {"XDG_CACHE_HOME": os.path.join(self.folder,
                                                    "mesh.yaml")}):
            client = Files.start(self, env=dict(os.environ, **env))
            uri = self.open("rules.yaml", "extends: ['builtin:llama']\nrules: "
                            "[]\n")
            client.findings(uri)
            self.assertIsNone(client.at("definition", uri, "builtin", 2))
            self.assertEqual(client.end(), (0, ""))
        self.client = None


class Places(Files):
    def test_files_outside_of_any_project(self):
        with tempfile.TemporaryDirectory() as folder:
            client = self.start()
            alone = client.open(write(folder, "alone.yaml", RULES.replace(
                "extends: [./base.yaml]\n", "")))
            self.assertEqual(client.findings(alone), [])
            self.assertIn("COLUMN", client.complete(alone, "spec: C"))
            self.assertIn("bundle `COLUMN`:\n- every mode",
                          client.hover(alone, "spec: COLUMN", 7))
            client.replace(alone, "q_proj", "(q_proj")
            self.assertEqual(client.codes(alone), ["SHD030"])
            mesh = client.open(write(folder, "m.yaml", "axes: {dp: 0}\n"))
            self.assertEqual(client.codes(mesh), ["SHD023"])
            other = client.open(write(folder, "ci.yaml", "jobs: {a: [\n"))
            self.assertEqual(client.findings(other), [])
            untitled = client.open("untitled:Untitled-1", "rules:\n- match: x")
            self.assertTrue(client.findings(untitled))

    def test_several_projects_and_files_of_no_target(self):
        self.write(".git/HEAD", "")  # both projects are in one repository
        self.write("sub/shardc.yaml", PROJECT.replace("small", "other"))
        self.write("sub/mesh.yaml", MESH)
        self.write("sub/rules.yaml", RULES.replace("./base", "../base"))
        self.write("sub/manifest.json", manifest())
        self.write("free.yaml", "version: 1\nrules:\n- match: 'a['\n")
        client = self.start()
        one = self.open("rules.yaml")
        two = self.open("sub/rules.yaml")
        free = self.open("free.yaml")
        base = self.open("base.yaml")
        self.assertTrue(client.findings(free))
        text = client.hover(base, "up/kernel$")
        self.assertIn("**small**", text)
        self.assertIn("**other**", text)
        client.replace(base, "[TP, FSDP]", "[TPP, FSDP]")
        (first, second) = [found for found in client.findings(base)
                           if found["code"] == "SHD028"]
        self.assertIn("`small`", first["message"] + second["message"])
        self.assertIn("`other`", first["message"] + second["message"])
        self.assertEqual(client.findings(one) + client.findings(two), [])

    def test_a_file_that_is_not_saved_yet(self):
        client = self.start()
        project = self.open("shardc.yaml")
        client.replace(project, "rules.yaml", "new.yaml")
        self.assertEqual(client.codes(project), ["SHD002"])
        new = self.open("new.yaml", RULES.replace("VOCAB", "VOCBA"))
        self.assertEqual(client.codes(new), ["SHD028"])
        self.assertEqual(client.found[project], [])

    def test_a_file_changes_on_disk(self):
        client = self.start(capabilities={"workspace": {
            "didChangeWatchedFiles": {"dynamicRegistration": True}}})
        uri = self.open("rules.yaml")
        client.findings(uri)
        self.assertIn("4 parameters", client.hover(uri, "q_proj"))
        smaller = json.loads(manifest())
        smaller["params"] = smaller["params"][:3] + smaller["params"][-1:]
        self.write("manifest.json", json.dumps(smaller))
        client.tell("workspace/didChangeWatchedFiles", {"changes": []})
        self.assertIn("1 parameter,", client.hover(uri, "q_proj"))

    def test_the_same_with_crlf(self):
        client = self.start()
        text = RULES.replace("\n", "\r\n").replace("VOCAB", "VOCBA")
        uri = self.open("rules.yaml", text)
        (one,) = client.findings(uri)
        self.assertEqual(client.texts[uri][1].split("\r\n")[
            one["range"]["start"]["line"]].strip(), "spec: [VOCBA, WIDE]")
        self.assertEqual(one["range"]["end"]["character"], 16)


class Protocol(Files):
    def raw(self, method, params):
        return self.client.answer(self.client.begin(method, params))

    def test_errors_are_answered_and_the_server_goes_on(self):
        client = self.start()
        uri = self.open("rules.yaml")
        at = {"textDocument": {"uri": uri}}
        for method, params, code in (
                ("no/method", {}, -32601),
                ("initialize", {}, -32600),
                ("textDocument/hover", at, -32602),
                ("textDocument/hover", None, -32602),
                ("textDocument/hover", [1], -32602),
                ("textDocument/codeAction", at, -32602),
                ("textDocument/hover",
                 {**at, "position": {"line": -1, "character": 0}}, -32602),
                ("textDocument/hover",
                 {**at, "position": {"line": 1e30, "character": 0}}, -32602),
                ("textDocument/documentSymbol",
                 {"textDocument": {"uri": "file:///none"}}, -32602)):
            self.assertEqual(self.raw(method, params)["error"]["code"], code,
                             method)
        for broken, code in (
                (b"{", -32700), (b"\xff", -32700), (b"", -32700),
                (b"[]", -32600), (b"1", -32600), (b'{"id": 7}', -32600),
                (b'{"method": 1}', -32600),
                (b'{"id": {}, "method": "x"}', -32600),
                (b"[" * 100000, -32700),
                (b'{"method": "\\ud83d"}', -32700)):
            client.send(framed(broken))
            while True:
                message = client.read()
                self.assertIsNotNone(message, broken)
                if "error" in message:
                    break
            self.assertEqual(message["error"]["code"], code, broken)
        for header in (b"Content-Length: x\r\n\r\n", b"rubbish\r\n\r\n",
                       b"Content-Length: 1e3\r\n\r\n",
                       b"Content-Length: " + b"9" * 40 + b"\r\n\r\n"):
            if header.startswith(b"Content-Length: 9"):
                continue
            client.send(header)
            while "error" not in client.read():
                pass
        # Larger than any message, and passed over.
        size = (64 << 20) + 1
        client.send(b"Content-Length: %d\r\n\r\n" % size)
        for _ in range(64):
            client.send(b"x" * (1 << 20))
        client.send(b"x")
        for notification in ("textDocument/didOpen", "textDocument/didChange",
                             "textDocument/didClose", "no/notification",
                             "$/setTrace", "$/cancelRequest", "initialized"):
            for params in (None, {}, [], {"textDocument": 1},
                           {"textDocument": {"uri": 5}},
                           {"textDocument": {"uri": "file:///none"},
                            "contentChanges": 1}):
                client.tell(notification, params)
        client.send(framed({"jsonrpc": "2.0", "id": 9999, "result": None}))
        self.assertIn("4 parameters", client.hover(uri, "q_proj"))

    def test_a_change_that_cannot_be_read_leaves_no_stale_text(self):
        client = self.start()
        uri = self.open("rules.yaml", RULES.replace("VOCAB", "VOCBA"))
        self.assertTrue(client.findings(uri))
        client.tell("textDocument/didChange", {
            "textDocument": {"uri": uri, "version": 2},
            "contentChanges": [{"range": {"start": 1}, "text": "x"}]})
        while client.found[uri]:
            self.assertIsNotNone(client.read())
        self.assertTrue(client.logged)

    def test_what_is_cancelled_is_answered_so(self):
        client = self.start()
        uri = self.open("rules.yaml")
        params = {"textDocument": {"uri": uri},
                  "position": {"line": 8, "character": 14}}
        many = b""
        for request in range(1000, 1010):
            many += framed({"jsonrpc": "2.0", "id": request,
                            "method": "textDocument/hover", "params": params})
        many += framed({"jsonrpc": "2.0", "method": "$/cancelRequest",
                        "params": {"id": 1009}})
        client.send(many)
        answers = {}
        while len(answers) < 10:
            message = client.read()
            if "method" not in message:
                answers[message["id"]] = message
        self.assertIn("result", answers[1000])
        self.assertEqual(answers[1009]["error"]["code"], -32800)

    def test_ends(self):
        client = self.start()
        uri = self.open("rules.yaml")
        client.ask("shutdown", None)
        answer = self.raw("textDocument/hover", {"textDocument": {"uri": uri}})
        self.assertEqual(answer["error"]["code"], -32600)
        client.tell("exit", None)
        self.assertEqual(client.process.wait(60), 0)
        for data, status in ((b"", 1), (framed({"method": "exit"}), 1),
                             (b"Content-Len", 1)):
            other = Client()
            other.send(data)
            other.process.stdin.close()
            self.assertEqual(other.process.wait(60), status)
            for stream in (other.process.stdout, other.process.stderr):
                stream.close()
        for stream in (client.process.stdin, client.process.stdout,
                       client.process.stderr):
            stream.close()
        self.client = None

    def test_nothing_before_initialize(self):
        bare = driver.run("lsp", stdin=(
            framed({"id": "a", "method": "textDocument/hover"})
            + framed({"method": "textDocument/didOpen"})
            + framed({"method": "exit"})).decode())
        self.check(bare, 1)
        self.assertIn('"id":"a","error":{"code":-32002', bare.out)
        self.assertEqual(bare.err, "")


if __name__ == "__main__":
    unittest.main()
