"""`shardc lsp` by its protocol: the diagnostics of texts as they are in
an editor's buffers, and that no message of a client ends the server."""

import json
import os
import random
import re
import tempfile
import unittest

import driver
from lsp_client import Client, framed, uri_of

PROJECT = """version: 1
targets:
  small:
    mesh: mesh.yaml
    rules: [rules.yaml]
    manifest: manifest.json
"""
MESH = "axes: {dp: 2, fsdp: 4, tp: 2}\n"
RULES = """# \U0001F600 rules \u00e9
version: 1
extends: [./base.yaml]
bundles:
  COLUMN: [FSDP, TP]
register:
  WIDE: {rule: [fsdp, tp]}
rules:
  - match: 'q_proj/kernel$'  # \U0001F600
    spec: COLUMN
  - match: 'mlp/up/kernel'
    spec: [FSDP, TP]
  - match: 'embed$'
    spec: [VOCAB, WIDE]
    note: '\U0001F600'
"""
BASE = """version: 1
axes: {vocab: [dp], decode_kv_head: []}
rules:
  - match: 'norm$'
    spec: [null]
  - match: 'up/kernel$'
    spec: [TP, FSDP]
"""


def manifest():
    params = [{"name": f"layers/{i}/{name}", "shape": shape, "dtype": "BF16"}
              for i in range(4)
              for name, shape in (("q_proj/kernel", [64, 64]),
                                  ("mlp/up/kernel", [64, 256]),
                                  ("norm", [64]))]
    params.append({"name": "embed", "shape": [512, 64], "dtype": "BF16"})
    return json.dumps({"schema": "shardc.manifest/v1", "params": params})


def write(folder, name, text):
    path = os.path.join(folder, name)
    os.makedirs(os.path.dirname(path), exist_ok=True)
    with open(path, "w", encoding="utf-8", newline="") as file:
        file.write(text)
    return path


class Files(driver.Case):
    """A project in a folder of its own, and a server."""

    client = None

    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = os.path.realpath(folder.name)
        self.write("shardc.yaml", PROJECT)
        self.write("mesh.yaml", MESH)
        self.write("rules.yaml", RULES)
        self.write("base.yaml", BASE)
        self.write("manifest.json", manifest())

    def tearDown(self):
        if self.client is None:
            return
        status, words = self.client.end()
        self.assertEqual((status, words), (0, ""))

    def write(self, name, text):
        return write(self.folder, name, text)

    def start(self, **how):
        self.client = Client(**how)
        return self.client

    def open(self, name, text=None):
        return self.client.open(os.path.join(self.folder, name), text)


class Editing(Files):
    def test_a_mistake_is_found_and_mended_by_its_action(self):
        for encoding in ("utf-16", "utf-8", "utf-32"):
            client = self.start(encodings=["utf-7", encoding])
            self.assertEqual(client.encoding, encoding)
            uri = self.open("rules.yaml")
            before = client.codes(uri)
            client.replace(uri, "[VOCAB, WIDE]", "[VOCBA, WIDE]")
            (one,) = client.findings(uri)
            self.assertEqual((one["code"], one["severity"], one["source"]),
                             ("SHD028", 1, "shardc"))
            self.assertIn("`VOCBA`", one["message"])
            start = client.index(uri, one["range"]["start"])
            end = client.index(uri, one["range"]["end"])
            self.assertEqual(client.texts[uri][1][start:end], "VOCBA")
            (action,) = client.actions(uri, "VOCBA")
            self.assertEqual(action["title"], "Replace by `VOCAB`")
            self.assertEqual(action["diagnostics"], [one])
            client.apply(action)
            self.assertEqual(client.texts[uri][1], RULES)
            self.assertEqual(client.codes(uri), before)
            self.assertEqual(client.end(), (0, ""))
        self.client = None

    def test_machine_fixes(self):
        client = self.start(capabilities={
            "workspace": {"workspaceEdit": {"documentChanges": True}}})
        twice = RULES + "  - match: 'q_proj/kernel$'\n    spec: COLUMN\n"
        uri = self.open("rules.yaml", twice)
        self.assertEqual(client.codes(uri), ["SHD107"])
        place = "kernel$'\n    spec: COLUMN"
        (fix, ignore) = client.actions(uri, place)
        self.assertEqual(fix["title"], "Remove the duplicate rule")
        self.assertTrue(fix["isPreferred"])
        self.assertEqual(ignore["title"],
                         "Ignore SHD107 (duplicate-rule) here")
        self.assertNotIn("isPreferred", ignore)
        client.apply(fix)
        self.assertEqual(client.texts[uri][1], RULES)
        self.assertEqual(client.codes(uri), [])
        # All of them at once, as `check --fix` makes them.
        client.put(uri, twice)
        (everything,) = client.actions(uri, "rules", only=["source.fixAll"])
        client.apply(everything)
        self.write("rules.yaml", twice)
        self.check(driver.run("check", "--fix", "--quiet", cwd=self.folder), 0)
        with open(os.path.join(self.folder, "rules.yaml"),
                  encoding="utf-8") as file:
            self.assertEqual(client.texts[uri][1], file.read())

    def test_of_a_wide_selection_the_first_fixes_are_proven(self):
        """Each is by compiling every target: a thousand took minutes."""
        client = self.start()
        uri = self.open("rules.yaml", RULES + 40 * (
            "  - match: 'q_proj/kernel$'\n    spec: COLUMN\n"))
        self.assertEqual(client.codes(uri), ["SHD107"] * 40)
        titles = [one["title"] for one in client.ask(
            "textDocument/codeAction", {
                "textDocument": {"uri": uri}, "context": {"diagnostics": []},
                "range": {"start": {"line": 0, "character": 0},
                          "end": {"line": 999, "character": 0}}})]
        self.assertEqual(titles.count("Remove the duplicate rule"), 16)
        self.assertEqual(
            titles.count("Ignore SHD107 (duplicate-rule) here"), 40)

    def test_a_fix_that_changes_specs_is_marked(self):
        more = json.loads(manifest())
        more["params"].append({"name": "layers/0/mlp/up/kernel_scale",
                               "shape": [64, 256], "dtype": "F32"})
        self.write("manifest.json", json.dumps(more))
        client = self.start()
        uri = self.open("rules.yaml")
        self.assertIn("SHD110", client.codes(uri))
        fix = client.actions(uri, "mlp/up/kernel")[0]
        self.assertEqual(fix["title"],
                         "Match the pattern only at the end of a name (changes specs)")
        self.assertNotIn("isPreferred", fix)
        client.apply(fix)
        self.assertIn("'mlp/up/kernel$'", client.texts[uri][1])
        self.assertNotIn("SHD110", client.codes(uri))

    def test_ignores(self):
        for line_end in ("\n", "\r\n"):
            client = self.start()
            dead = (RULES + "  - match: 'nothing$'\n    spec: COLUMN\n").replace(
                "\n", line_end)
            uri = self.open("rules.yaml", dead)
            self.assertEqual(client.codes(uri), ["SHD105"])
            (ignore,) = client.actions(uri, "nothing")
            client.apply(ignore)
            self.assertIn("  # shardc: ignore[SHD105]" + line_end +
                          "  - match: 'nothing$'", client.texts[uri][1])
            self.assertEqual(client.codes(uri), [])
            # A comment that is there takes one more.
            client.replace(uri, "[SHD105]", "[SHD107]")
            (ignore,) = [a for a in client.actions(uri, "nothing")
                         if "SHD105" in a["title"]]
            client.apply(ignore)
            self.assertIn("# shardc: ignore[SHD107, SHD105]" + line_end,
                          client.texts[uri][1])
            self.assertEqual(client.codes(uri), ["SHD190"])
            self.assertEqual(client.end(), (0, ""))
        self.client = None

    def test_buffers_count_and_not_the_disk(self):
        client = self.start()
        rules = self.open("rules.yaml")
        mesh = self.open("mesh.yaml")
        base = self.open("base.yaml")
        self.assertNotIn("SHD222", client.codes(rules))
        # In the mesh's buffer alone: 3 divides nothing.
        client.replace(mesh, "fsdp: 4", "fsdp: 3")
        client.findings(mesh)
        self.assertTrue(any("64 % 3" in one["message"]
                            for one in client.findings(rules)))
        client.replace(mesh, "fsdp: 3", "fsdp:")
        self.assertTrue(client.findings(mesh))
        client.replace(mesh, "fsdp:,", "fsdp: 4,")
        self.assertEqual(client.findings(mesh), [])
        client.replace(base, "[TP, FSDP]", "[TPP, FSDP]")
        self.assertEqual(client.codes(base), ["SHD028"])
        self.assertEqual(client.findings(rules), [])
        # Closed again, the disk counts.
        client.tell("textDocument/didClose", {"textDocument": {"uri": base}})
        client.put(rules, RULES)
        client.findings(rules)
        self.assertNotIn("SHD028",
                         [one["code"] for one in client.found[base]])

    def test_project_files(self):
        client = self.start()
        uri = self.open("shardc.yaml")
        self.assertEqual(client.findings(uri), [])
        self.assertIn("13 parameters", client.hover(uri, "small"))
        client.replace(uri, "manifest: ", "manifset: ")
        self.assertEqual(client.codes(uri), ["SHD021"])
        (action,) = client.actions(uri, "manifset")
        client.apply(action)
        self.assertEqual(client.findings(uri), [])
        for word, name in (("rules.yaml", "rules.yaml"),
                           ("mesh.yaml", "mesh.yaml"),
                           ("manifest.json", "manifest.json")):
            (place,) = client.at("definition", uri, word, 2)
            self.assertEqual(place["uri"],
                             uri_of(os.path.join(self.folder, name)))
        client.replace(uri, "rules: [rules.yaml]", "rules: []")
        self.assertIn("builtin:llama", client.complete(uri, "rules: ["))
        client.edit(uri, 0, 0, "lint: {ignore: [SHD]}\n")
        self.assertIn("SHD105", client.complete(uri, "[SHD"))
        symbols = client.ask("textDocument/documentSymbol",
                             {"textDocument": {"uri": uri}})
        self.assertEqual([one["name"] for one in symbols],
                         ["lint", "version", "targets"])
        self.assertEqual([one["name"] for one in symbols[2]["children"]],
                         ["small"])


class Asking(Files):
    def test_hover(self):
        client = self.start()
        uri = self.open("rules.yaml")
        text = client.hover(uri, "mlp/up/kernel")
        self.assertIn("**small**: 4 parameters, 128 KiB, 16 KiB per device",
                      text)
        self.assertIn("layers/0/mlp/up/kernel\nlayers/1/", text)
        self.assertIn("wins 4 parameters that a later rule matches too: "
                      "`up/kernel$` (base.yaml:6)", text)
        base = self.open("base.yaml")
        text = client.hover(base, "up/kernel$")
        self.assertIn("0 parameters of 4 that it matches", text)
        self.assertIn("loses 4 parameters to an earlier rule", text)
        self.assertIn('token `VOCAB` in **small**:\n- every mode: `"dp"`',
                      client.hover(uri, "VOCAB", 2))
        self.assertIn('registered `WIDE`', client.hover(uri, "WIDE]"))
        self.assertIn('`["fsdp", "tp"]`', client.hover(uri, "WIDE]"))
        self.assertIn('bundle `COLUMN` in **small**:\n- every mode: '
                      '`["fsdp", "tp"]`', client.hover(uri, "spec: COLUMN", 7))
        client.replace(uri, "[VOCAB, WIDE]", "[KV_HEAD, WIDE]")
        text = client.hover(uri, "KV_HEAD")
        self.assertIn('- train, prefill: `"tp"`\n- decode, insert: `null`',
                      text)
        for word in ("version", "match", "# \U0001F600 rules", "note"):
            self.assertIsNone(client.hover(uri, word))

    def test_hover_is_about_the_text_as_it_is(self):
        client = self.start()
        uri = self.open("rules.yaml")
        client.edit(uri, 0, 0, "#\n" * 30)
        self.assertIn("4 parameters", client.hover(uri, "q_proj"))
        client.replace(uri, "q_proj/kernel$", "[qk]_proj/kernel$")
        self.assertIn("4 parameters", client.hover(uri, "[qk]_proj"))
        # What cannot be read has no counts, but its names still mean something.
        client.edit(uri, 0, 0, "{\n")
        self.assertIsNone(client.hover(uri, "[qk]_proj"))
        self.assertIn("token `VOCAB`", client.hover(uri, "VOCAB"))

    def test_completion(self):
        client = self.start()
        uri = self.open("rules.yaml")
        client.findings(uri)
        # In a line that is no YAML yet.
        client.edit(uri, len(RULES), len(RULES),
                    "  - match: 'x'\n    spec: [V")
        labels = client.complete(uri, "spec: [V")
        self.assertLessEqual({"VOCAB", "WIDE", "fsdp", "kv_head"}, set(labels))
        self.assertNotIn("COLUMN", labels)
        client.put(uri, RULES + "  - match: 'x'\n    spec: C")
        self.assertIn("COLUMN", client.complete(uri, "'x'\n    spec: C"))
        client.put(uri, RULES + "  # shardc: ignore[un")
        labels = client.complete(uri, "ignore[un")
        self.assertLessEqual({"SHD112", "unanchored-pattern"}, set(labels))
        client.put(uri, RULES.replace("./base.yaml", "builtin:"))
        self.assertIn("builtin:llama/hf", client.complete(uri, "builtin:"))
        client.put(uri, RULES + "pol")
        self.assertIn("policy", client.complete(uri, "\npol"))
        client.put(uri, RULES + "  - ma")
        self.assertIn("match", client.complete(uri, "  - ma"))
        mesh = self.open("mesh.yaml", "axes: {dp: 2}\ndevice: h")
        self.assertIn("h100-80gb", client.complete(mesh, "device: h"))
        # An item replaces the word that is there.
        item = next(i for i in client.at("completion", mesh, "device: h", 9)
                    ["items"] if i["label"] == "h100-80gb")
        self.assertEqual(item["textEdit"]["range"],
                         {"start": {"line": 1, "character": 8},
                          "end": {"line": 1, "character": 9}})

    def test_definitions_and_symbols(self):
        client = self.start()
        uri = self.open("rules.yaml")
        base = os.path.join(self.folder, "base.yaml")
        (place,) = client.at("definition", uri, "./base.yaml", 3)
        self.assertEqual(place["uri"], uri_of(base))
        for use, definition in (("spec: COLUMN", "COLUMN"), ("WIDE]", "WIDE")):
            shift = use.index(definition)
            (place,) = client.at("definition", uri, use, shift)
            line = client.texts[uri][1].split("\n")[
                place["range"]["start"]["line"]]
            self.assertEqual(place["uri"], uri)
            self.assertIn(definition, line)
        (place,) = client.at("definition", uri, "VOCAB")
        self.assertEqual((place["uri"], place["range"]["start"]["line"]),
                         (uri_of(base), 1))
        self.assertIsNone(client.at("definition", uri, "version"))
        symbols = client.ask("textDocument/documentSymbol",
                             {"textDocument": {"uri": uri}})
        names = {one["name"]: [c["name"] for c in one["children"]]
                 for one in symbols}
        self.assertEqual(names["rules"],
                         ["q_proj/kernel$", "mlp/up/kernel", "embed$"])
        self.assertEqual(names["bundles"], ["COLUMN"])
        rules = next(one for one in symbols if one["name"] == "rules")
        for child in rules["children"]:
            start = client.index(uri, child["selectionRange"]["start"])
            self.assertTrue(client.texts[uri][1][start:].lstrip("'").startswith(
                child["name"]))
            self.assertLessEqual(
                child["range"]["start"]["line"],
                child["selectionRange"]["start"]["line"])


class Packs(Files):
    """What stands in a pack is shown in a file of the user's cache."""

    def place(self, uri, word, shift=2):
        (place,) = self.client.at("definition", uri, word, shift)
        path = os.path.join(self.cache, "shardc", "packs", "llama.flax.yaml")
        self.assertEqual(place["uri"], uri_of(path))
        with open(path, encoding="utf-8") as file:
            text = file.read()
        pack = self.check(driver.run("rules", "--rules", "builtin:llama/flax",
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
        (first, second) = client.findings(base)
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


SNIPPETS = ["'", '"', "[", "]", "{", "}", ":", ": ", "\n", "\r\n", "  ", "- ",
            "#", "\t", "\U0001F600", "\u00e9", "FSDP", "TP", "nope", "*a", "&a",
            "match: 'x'\n", "  - match: '.*'\n    spec: Replicated\n",
            "# shardc: ignore[SHD112]\n", "rules:\n", "extends: [base.yaml]\n",
            "(", "\\", "|", "!!int", "null", "0", "axes: {dp: 2}\n", "---\n"]


def random_edits(seed, count, every, case):
    """Edits of three buffers; `every` so many the findings are compared with
    those of `check` over the same texts, saved elsewhere by the same name."""
    draw = random.Random(seed)
    files = {"rules.yaml": RULES, "base.yaml": BASE, "mesh.yaml": MESH}
    client = case.start()
    uris = {name: case.open(name) for name in files}
    compared = 0
    before = 0
    for step in range(count):
        name = draw.choice(list(files))
        uri = uris[name]
        text = client.texts[uri][1]
        if draw.random() < 0.15 or len(text) > 4000:
            client.put(uri, files[name])
        else:
            begin = draw.randint(0, len(text))
            end = min(len(text), begin + draw.choice([0, 0, 0, 1, 1, 3, 20]))
            # No position is between the two bytes of a line's break.
            while 0 < begin < len(text) and text[begin - 1:begin + 1] == "\r\n":
                begin -= 1
            while 0 < end < len(text) and text[end - 1:end + 1] == "\r\n":
                end += 1
            client.edit(uri, begin, max(begin, end),
                        draw.choice(SNIPPETS + [""] * 6))
        if draw.random() < 0.2:
            where = client.position(uri, draw.randint(
                0, len(client.texts[uri][1])))
            asked = {"textDocument": {"uri": uri}, "position": where,
                     "range": {"start": where, "end": where}, "context": {}}
            client.ask("textDocument/" + draw.choice(
                ["hover", "completion", "definition", "documentSymbol",
                 "codeAction"]), asked)
        if step == 50:
            before = memory(client)
        if step % every == every - 1:
            for each in uris.values():
                client.findings(each)
            compared += 1
            compare(case, client, uris, step)
    if not driver.is_sanitized():
        case.assertLess(memory(client), before + (32 << 20))
    return compared


def memory(client):
    """Bytes of the server that are in memory."""
    with open(f"/proc/{client.process.pid}/statm", encoding="ascii") as file:
        return int(file.read().split()[1]) * os.sysconf("SC_PAGE_SIZE")


LEVELS = {1: "error", 2: "warning", 3: "note"}


def told(code, level, line, message):
    """What two tellings of a finding have in common."""
    return code, level, line, message.split("\n")[0].split(" (in target")[0]


def alone(name, path):
    """The codes of a file that no target reads."""
    kind = "mesh" if name == "mesh.yaml" else "rules"
    result = driver.run(kind, "--" + kind, path, "--quiet")
    return set(re.findall(r"\[(SHD\d+) ", result.err))


def compare(case, client, uris, step):
    """The server reports for its buffers what `check` reports for files."""
    for name, uri in uris.items():
        case.write(name, client.texts[uri][1])
    project = os.path.join(case.folder, "shardc.yaml")
    found = driver.run("check", "--project", project, "--format", "json",
                       "--quiet", cwd=case.folder).json()
    for name, uri in uris.items():
        path = os.path.join(case.folder, name)
        wanted = sorted(told(one["code"], one["level"], one["line"] or 1,
                             one["message"])
                        for one in found
                        if os.path.normpath(one["file"]) == path)
        seen = sorted(told(one["code"], LEVELS[one["severity"]],
                           one["range"]["start"]["line"] + 1, one["message"])
                      for one in client.found[uri])
        if seen and not wanted:
            case.assertEqual({one[0] for one in seen}, alone(name, path),
                             f"step {step}, {name} alone")
        else:
            case.assertEqual(seen, wanted, f"step {step}, {name}")


class RandomEdits(Files):
    def test_no_finding_is_stale(self):
        count = int(os.environ.get("SHARDC_LSP_EDITS", "150"))
        self.assertTrue(random_edits(
            int(os.environ.get("SHARDC_LSP_SEED", "1")), count, 3, self))


if __name__ == "__main__":
    unittest.main()
