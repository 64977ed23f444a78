"""`shardc lsp` reports for buffers under random edits what `shardc check`
reports for files with the same text."""

import os
import random
import re
import unittest

import driver
from lsp_files import BASE, MESH, RULES, Files

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


def summary(code, level, line, message):
    """What `check` and the server both report of a finding."""
    return code, level, line, message.split("\n")[0].split(" (in target")[0]


def alone(name, path):
    """The codes of a file that no target reads."""
    kind = "mesh" if name == "mesh.yaml" else "rules"
    result = driver.run("show", kind, "--" + kind, path, "--quiet")
    return set(re.findall(r"\[(SHD\d+) ", result.err))


def compare(case, client, uris, step):
    """The server reports for its buffers what `check` reports for files."""
    for name, uri in uris.items():
        case.write(name, client.texts[uri][1])
    project = os.path.join(case.folder, "shardc.yaml")
    checked = driver.run("check", "--project", project, "--format", "json",
                         "--quiet", cwd=case.folder)
    found = checked.json()
    for name, uri in uris.items():
        path = os.path.join(case.folder, name)
        wanted = sorted(summary(one["code"], one["level"], one["line"] or 1,
                             one["message"])
                        for one in found
                        if os.path.normpath(one["file"]) == path)
        seen = sorted(summary(one["code"], LEVELS[one["severity"]],
                           one["range"]["start"]["line"] + 1, one["message"])
                      for one in client.found[uri])
        if checked.rc == 2:
            # `check` stops at these; the server goes on without their entries.
            more = list(seen)
            for one in wanted:
                case.assertIn(one, more, f"step {step}, {name}")
                more.remove(one)
        elif seen and not wanted:
            case.assertLessEqual(alone(name, path), {one[0] for one in seen},
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
