"""`shardc lsp`: hover, completion, inlay hints, symbols, references, renaming
and semantic tokens."""

import json
import os
import unittest

from lsp_client import uri_of
from lsp_files import BASE, PROJECT, RULES, Files, manifest


class Features(Files):
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

    def test_names_with_dashes_and_dots(self):
        self.write("mesh.yaml", "axes: {tp: 2, tp-x: 2, tp.y: 2}\n")
        self.write("rules.yaml", "version: 1\n"
                   "bundles: {my-b: [tp-x], tp: [tp-x]}\n"
                   "register: {A.B: {rule: tp.y}}\nrules:\n"
                   "- {match: q_proj, spec: my-b}\n"
                   "- {match: embed, spec: [tp, A.B]}\n"
                   "- {match: up, spec: [tp.y, [tp-x]]}\n"
                   "- {match: norm, spec: tp}\n")
        client = self.start()
        uri = self.open("rules.yaml")
        for word, shift, kind, name, line in (
                ("spec: my-b", 7, "bundle", "my-b", 1),
                ("A.B]", 2, "registered", "A.B", 2),
                ("tp.y, [", 1, "mesh axis", "tp.y", None),
                ("tp-x]]", 3, "mesh axis", "tp-x", None),
                ("tp, A", 1, "mesh axis", "tp", None),
                ("spec: tp}", 7, "bundle", "tp", 1)):
            self.assertIn(f"{kind} `{name}` in", client.hover(uri, word, shift))
            places = client.at("definition", uri, word, shift) or []
            self.assertEqual([p["range"]["start"]["line"] for p in places],
                             [] if line is None else [line], word)

    def test_inlay_hints(self):
        """The counts of each pattern, with those of other texts in view."""
        client = self.start()
        uri = self.open("rules.yaml")
        self.assertEqual(client.hints(uri), {
            "q_proj/kernel$'": "4 parameters, 32 KiB",
            "mlp/up/kernel'": "4 parameters, 128 KiB",
            "embed$'": "1 parameter, 64 KiB"})
        base = self.open("base.yaml")
        self.assertEqual(client.hints(base), {
            "norm$'": "4 parameters, 512 B",
            "up/kernel$'": "0 of 4 parameters"})
        client.replace(uri, "q_proj/kernel$", "[qk]_proj/nothing$")
        client.replace(uri, "mlp/up/kernel", "0/mlp/up/kernel")
        self.assertEqual(client.hints(uri), {
            "[qk]_proj/nothing$'": "0 parameters",
            "0/mlp/up/kernel'": "1 parameter, 32 KiB",
            "embed$'": "1 parameter, 64 KiB"})
        self.assertEqual(client.hints(base)["up/kernel$'"],
                         "3 of 4 parameters, 96 KiB")
        # Another rule that cannot be read hides none of them.
        client.replace(uri, "[qk]_proj", "[qk_proj")
        self.assertEqual(client.hints(uri), {
            "0/mlp/up/kernel'": "1 parameter, 32 KiB",
            "embed$'": "1 parameter, 64 KiB"})
        # Only of the lines in the range of the request.
        self.assertEqual(client.hints(uri, lines=(0, 12)), {
            "0/mlp/up/kernel'": "1 parameter, 32 KiB"})
        hint = client.ask("textDocument/inlayHint", client.lines(uri))[-1]
        self.assertEqual(hint["tooltip"],
                         "small: 1 parameter, 64 KiB, 4 KiB per device")

    def test_inlay_hints_of_several_targets(self):
        self.write("shardc.yaml", PROJECT + """  other:
    mesh: mesh.yaml
    rules: [rules.yaml]
    manifest: other.json
""")
        more = json.loads(manifest())
        more["params"] = more["params"][:3] + more["params"][-1:]
        self.write("other.json", json.dumps(more))
        client = self.start()
        self.assertEqual(client.hints(self.open("rules.yaml")), {
            "q_proj/kernel$'": "other: 1 parameter, 8 KiB; "
                               "small: 4 parameters, 32 KiB",
            "mlp/up/kernel'": "other: 1 parameter, 32 KiB; "
                              "small: 4 parameters, 128 KiB",
            "embed$'": "1 parameter, 64 KiB"})

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


class Names(Files):
    """References, renaming, and the colours of names."""

    def references(self, uri, word, shift=1, definitions=True):
        """File, line and text of each reference."""
        index = self.client.texts[uri][1].index(word) + shift
        places = self.client.ask("textDocument/references", {
            "textDocument": {"uri": uri},
            "position": self.client.position(uri, index),
            "context": {"includeDeclaration": definitions}}) or []
        out = []
        for place in places:
            name = os.path.basename(place["uri"])
            start, end = place["range"]["start"], place["range"]["end"]
            self.assertEqual(start["line"], end["line"])
            with open(os.path.join(self.folder, name), encoding="utf-8",
                      newline="") as file:
                line = file.read().split("\n")[start["line"]]
            units = line.encode("utf-16-le")[2 * start["character"]:
                                             2 * end["character"]]
            out.append((name, start["line"] + 1, units.decode("utf-16-le")))
        return sorted(out)

    def rename(self, uri, word, to, shift=1):
        """The texts of all files after it."""
        edit = self.client.at("rename", uri, word, shift, newName=to)
        for other in edit["changes"]:
            if other not in self.client.texts:
                self.client.open(other[len("file://"):])
        self.client.apply({"edit": edit})
        return {os.path.basename(one): text
                for one, (_, text) in self.client.texts.items()}

    def refusal(self, uri, word, to, shift=1):
        index = self.client.texts[uri][1].index(word) + shift
        answer = self.client.answer(self.client.begin("textDocument/rename", {
            "textDocument": {"uri": uri}, "newName": to,
            "position": self.client.position(uri, index)}))
        self.assertEqual(answer["error"]["code"], -32803, answer)
        return answer["error"]["message"]

    def test_the_bytes_of_placed_experts_are_of_one_coordinate(self):
        self.write("manifest.json", json.dumps({
            f"experts/{i}/w": {"shape": [8, 8], "dtype": "F32"}
            for i in range(6)}))
        self.write("mesh.yaml", "axes: {ep: 2, tp: 2}\n")
        self.write("rules.yaml", """version: 1
rules:
  - match: 'experts/\\d+/w'
    spec: [tp, null]
    place: {axis: ep, index: 'experts/(\\d+)/', count: 6}
""")
        self.start()
        uri = self.open("rules.yaml")
        self.assertIn("6 parameters, 1.5 KiB, 384 B per device",
                      self.client.hover(uri, "experts", 2))

    def test_references(self):
        client = self.start()
        uri = self.open("rules.yaml")
        self.assertEqual(self.references(uri, "COLUMN"), [
            ("rules.yaml", 5, "COLUMN"), ("rules.yaml", 10, "COLUMN")])
        self.assertEqual(self.references(uri, "COLUMN", definitions=False), [
            ("rules.yaml", 10, "COLUMN")])
        self.assertEqual(self.references(uri, "WIDE]"), [
            ("rules.yaml", 7, "WIDE"), ("rules.yaml", 14, "WIDE")])
        self.assertEqual(self.references(uri, "FSDP, TP]\n  -"), [
            ("base.yaml", 7, "FSDP"), ("rules.yaml", 5, "FSDP"),
            ("rules.yaml", 12, "FSDP")])
        # A mesh axis: in the mesh, and where rules name it.
        mesh = self.open("mesh.yaml")
        self.assertEqual(self.references(mesh, "dp"), [
            ("base.yaml", 2, "dp"), ("mesh.yaml", 1, "dp")])
        self.assertEqual(self.references(uri, "embed$"), [])
        # Where a rule cannot be read, the references of the others stay.
        client.replace(uri, "'mlp/up/kernel'", "'mlp/up/kernel")
        self.assertEqual(self.references(uri, "COLUMN"), [
            ("rules.yaml", 5, "COLUMN"), ("rules.yaml", 10, "COLUMN")])

    def test_rename_a_bundle_and_a_registered_axis(self):
        client = self.start()
        base = self.open("base.yaml", BASE.replace("[TP, FSDP]", "COLUMN"))
        uri = self.open("rules.yaml", RULES.replace("[VOCAB, WIDE]",
                                                    "[VOCAB, __WIDE__]"))
        before = {one: client.codes(one) for one in (uri, base)}
        place = client.at("prepareRename", base, "COLUMN", 2)
        self.assertEqual(place["end"]["character"]
                         - place["start"]["character"], len("COLUMN"))
        texts = self.rename(base, "COLUMN", "Column2")
        self.assertEqual(texts["base.yaml"],
                         BASE.replace("[TP, FSDP]", "Column2"))
        self.assertEqual(texts["rules.yaml"].count("Column2"), 2)
        self.assertNotIn("COLUMN", texts["rules.yaml"])
        texts = self.rename(uri, "WIDE", "BROAD")
        self.assertIn("  BROAD: {rule: [fsdp, tp]}", texts["rules.yaml"])
        self.assertIn("[VOCAB, __BROAD__]", texts["rules.yaml"])
        self.assertEqual({one: client.codes(one) for one in (uri, base)},
                         before)

    def test_rename_a_mesh_axis(self):
        self.write("mesh.yaml", "axes: {data: 2, fsdp: 4, tp: 2}\n"
                   "axis_types: {data: auto}\n")
        self.write("base.yaml", BASE.replace("vocab: [dp]", "vocab: [data]"))
        self.write("shardc.yaml", PROJECT + """  other:
    mesh: mesh.yaml
    rules: [more.yaml]
    manifest: manifest.json
  own:
    mesh: {axes: {data: 8}}
    rules: [own.yaml]
    manifest: manifest.json
""")
        self.write("more.yaml", "version: 1\nrules:\n"
                   "  - {match: '.*', spec: [data], modes: {decode: [data]}}\n")
        self.write("own.yaml",
                   "version: 1\nrules: [{match: '.*', spec: [data]}]\n")
        self.start()
        uri = self.open("base.yaml")
        # An axis rule is `sp` by default, which this mesh lacks.
        self.assertIn("is `sp` by default",
                      self.refusal(uri, "[data]", "sp", 2))
        texts = self.rename(uri, "[data]", "rows_of_data", shift=2)
        self.assertIn("vocab: [rows_of_data]", texts["base.yaml"])
        self.assertEqual(texts["mesh.yaml"],
                         "axes: {rows_of_data: 2, fsdp: 4, tp: 2}\n"
                         "axis_types: {rows_of_data: auto}\n")
        # Of a target that shares the mesh; the third target has its own.
        self.assertEqual(texts["more.yaml"].count("[rows_of_data]"), 2)
        self.assertEqual(set(texts), {"base.yaml", "mesh.yaml", "more.yaml"})
        # That target alone, from its project file.
        project = self.open("shardc.yaml")
        texts = self.rename(project, "data: 8", "rows")
        self.assertIn("mesh: {axes: {rows: 8}}", texts["shardc.yaml"])
        self.assertIn("spec: [rows]", texts["own.yaml"])
        self.assertNotIn("[rows]", texts["more.yaml"])

    def test_rename_an_axis_of_a_mesh_text(self):
        self.write("mesh.yaml", "axes: {data: 2, fsdp: 4, tp: 2}\n")
        self.write("base.yaml", BASE.replace("vocab: [dp]", "vocab: [data]"))
        self.write("shardc.yaml", PROJECT + """  text:
    mesh: "data:8, tp = 2"
    rules: [rules.yaml]
    manifest: manifest.json
""")
        self.start()
        uri = self.open("base.yaml")
        project = self.open("shardc.yaml")
        texts = self.rename(uri, "[data]", "rows", shift=2)
        self.assertEqual(texts["mesh.yaml"],
                         "axes: {rows: 2, fsdp: 4, tp: 2}\n")
        self.assertIn("vocab: [rows]", texts["base.yaml"])
        self.assertIn('mesh: "rows:8, tp = 2"', texts["shardc.yaml"])
        # From the text itself.
        texts = self.rename(project, "rows:8", "data")
        self.assertIn('mesh: "data:8, tp = 2"', texts["shardc.yaml"])
        self.assertIn("vocab: [data]", texts["base.yaml"])

    def test_what_cannot_be_renamed(self):
        self.start()
        uri = self.open("rules.yaml")
        mesh = self.open("mesh.yaml")
        for word, to, reason in (
                ("VOCAB", "X", "is a name of shardc"),
                ("COLUMN", "TP", "`TP` already has a meaning"),
                ("COLUMN", "WIDE", "already has a meaning"),
                ("COLUMN", "ColumnWise", "already has a meaning"),
                ("COLUMN", "a b", "holds something else"),
                ("COLUMN", "true", "has a meaning in YAML"),
                ("embed$", "X", "the cursor is not at a bundle")):
            self.assertIn(reason, self.refusal(uri, word, to), (word, to))
        # Axis rules have these axes by default.
        self.assertIn("the axis rule `tensor_parallel` is `tp` by default",
                      self.refusal(mesh, "tp", "model"))
        # Uses that cannot be read could be missed.
        self.client.replace(uri, "'mlp/up/kernel'", "'mlp/up/kernel")
        self.assertIn("rules.yaml` is not valid YAML",
                      self.refusal(uri, "COLUMN", "X"))

    def test_the_axes_of_a_pack_stay(self):
        self.write("mesh.yaml", "axes: {dp: 2, fsdp: 4, tp: 2}\n")
        self.write("shardc.yaml", PROJECT.replace("[rules.yaml]",
                                                  "[builtin:llama/flax]"))
        self.start()
        uri = self.open("mesh.yaml")
        self.assertIn("by default", self.refusal(uri, "fsdp", "x"))

    def test_semantic_tokens(self):
        client = self.start()
        legend = client.server["capabilities"]["semanticTokensProvider"][
            "legend"]

        def tokens(uri):
            data = client.ask("textDocument/semanticTokens/full", {
                "textDocument": {"uri": uri}})["data"]
            out, line, column = [], 0, 0
            for at in range(0, len(data), 5):
                down, right, length, kind, bits = data[at:at + 5]
                line, column = line + down, right + (0 if down else column)
                start = client.index(uri, {"line": line, "character": column})
                end = client.index(uri, {"line": line,
                                         "character": column + length})
                names = [name for bit, name in enumerate(
                    legend["tokenModifiers"]) if bits >> bit & 1]
                out.append((client.texts[uri][1][start:end],
                            legend["tokenTypes"][kind], *names))
            return out

        uri = self.open("rules.yaml")
        self.assertEqual(tokens(uri), [
            ("COLUMN", "struct", "declaration"),
            ("FSDP", "enumMember", "defaultLibrary"),
            ("TP", "enumMember", "defaultLibrary"),
            ("WIDE", "type", "declaration"),
            ("fsdp", "variable"), ("tp", "variable"),
            ("q_proj/kernel$", "regexp"), ("COLUMN", "struct"),
            ("mlp/up/kernel", "regexp"),
            ("FSDP", "enumMember", "defaultLibrary"),
            ("TP", "enumMember", "defaultLibrary"),
            ("embed$", "regexp"),
            ("VOCAB", "enumMember", "defaultLibrary"), ("WIDE", "type")])
        # A rule that is no YAML loses its own only.
        before = tokens(uri)
        client.replace(uri, "'mlp/up/kernel'", "'mlp/up/kernel")
        self.assertEqual(tokens(uri), before[:8] + before[11:])
        self.assertEqual(tokens(self.open("mesh.yaml")), [
            (name, "variable", "declaration") for name in ("dp", "fsdp", "tp")])

    def test_formatting(self):
        client = self.start()
        uri = self.open("rules.yaml", RULES.replace(
            "  - match", "-   match").replace("[VOCAB, WIDE]", "[ VOCAB,WIDE ]"))
        client.apply({"edit": {"changes": {uri: client.ask(
            "textDocument/formatting", {
                "textDocument": {"uri": uri},
                "options": {"tabSize": 2, "insertSpaces": True}})}}})
        self.assertEqual(client.texts[uri][1], RULES)


if __name__ == "__main__":
    unittest.main()
