"""The tables that manual, completions, documentation and schemas are made from
agree with the program. `tables_test.py --write` writes them again."""

import json
import os
import re
import subprocess
import sys
import unittest

import driver
from driver import BIN, ROOT, Case, run

DESCRIBE = os.environ.get(
    "SHARDC_DESCRIBE_COMMANDS",
    os.path.join(os.path.dirname(BIN), "..", "..", "tests", "programs",
                 "describe_commands"))
COMMANDS = os.path.join(ROOT, "man", "commands.json")
SETTINGS = os.path.join(ROOT, "schemas", "operations.schema.json")
VERDICTS = os.path.join(ROOT, "schemas", "verify.schema.json")
MANUAL = os.path.join(ROOT, "man", "shardc-operations.5")
PROJECT = os.path.join(ROOT, "schemas", "project.schema.json")
MESHES = [os.path.join(ROOT, "schemas", "mesh.schema.json"), PROJECT]
# The definitions of each schema that name a collective.
COLLECTIVES = {
    os.path.join(ROOT, "schemas", name + ".schema.json"): definitions
    for name, definitions in (("audit", ["collective"]), ("cost", ["transfer"]),
                              ("step", ["op", "traffic"]))}
MESH_MANUAL = os.path.join(ROOT, "man", "shardc-mesh.5")
PROJECT_MANUAL = os.path.join(ROOT, "man", "shardc-project.5")
CODES = os.path.join(ROOT, "docs", "diagnostics.md")
MODELS = os.path.join(ROOT, "docs", "guides", "model-section.md")
RULES = os.path.join(ROOT, "schemas", "rules.schema.json")
HINT = "tests/cli/tables_test.py --write brings it up to date"


def read(path):
    with open(path, encoding="utf-8") as file:
        return file.read()


def describe(*what):
    return subprocess.run([DESCRIBE, *what], check=True, capture_output=True,
                          text=True).stdout


def with_operations(path, schema):
    """A schema with the operations that the program has."""
    operations = json.loads(describe("operations"))
    definitions = schema["definitions"]
    if path == VERDICTS:
        definitions["operation"]["enum"] = [o["name"] for o in operations]
        return schema
    definition = "#/definitions/settings/properties/"
    definitions["operations"]["properties"] = {
        operation["name"]: {
            "description": f"Settings of {operation['name']}.",
            "anyOf": [
                {"type": "null"},
                {"type": "object",
                 "properties": {name: {"$ref": definition + name}
                                for name in operation["settings"]},
                 "additionalProperties": False}]}
        for operation in operations}
    return schema


def collectives():
    return json.loads(describe("collectives"))


def with_collectives(path, schema):
    """A schema with the collectives that the program has."""
    names = [one["name"] for one in collectives()]
    definitions = schema["definitions"]
    for definition in COLLECTIVES.get(path, ()):
        kind = definitions[definition]["properties"]["collective"]
        kind["enum"] = names + [one for one in kind["enum"] if one is None]
    if path == VERDICTS:
        definitions["collective"]["enum"] = names
        definitions["communication"]["required"] = [
            one["name"] for one in collectives() if not one["listed_if_sent"]]
    if path == PROJECT:
        budget = definitions["audit"]["properties"]["budget"]["properties"]
        limit = budget["all_gather"]
        sums = {name: budget[name]
                for name in ("total", "activations_gathered")}
        budget.clear()
        budget.update(sums, **dict.fromkeys(names, limit))
    return schema


def project_manual(text):
    """The page with the collectives that a budget can limit."""
    begin = text.index("or by kind of collective\n") + len(
        "or by kind of collective\n")
    end = text.index("\n", begin)
    names = " , ".join(one["name"] for one in collectives())
    return text[:begin] + f".Ic ( {names} ) ," + text[end:]


def listed_words(names):
    """`.Ic a , b` and `.Ic c`, as a sentence's end."""
    if len(names) == 1:
        return [f".Ic {names[0]} ."]
    head = [".Ic " + " , ".join(names[:-1])]
    return [*head, "and", f".Ic {names[-1]} ."]


def manual(text):
    """The page with the operations that the program has, and what each takes
    beyond what all take. Those that take the same stand together."""
    operations = json.loads(describe("operations"))
    common = [name for name in operations[0]["settings"]
              if all(name in one["settings"] for one in operations)]
    groups = {}
    for one in operations:
        own = tuple(s for s in one["settings"] if s not in common)
        groups.setdefault(own, []).append(one["name"])
    lines = ["All take", *listed_words(common), "Beyond these,",
             ".Bl -tag -width Ds"]
    for own, names in groups.items():
        lines += [f".It Ic {name}" for name in names]
        lines += ["takes" if len(names) == 1 else "take",
                  *listed_words(own or ("nothing",))]
    begin = text.index(".Ss Operations\n") + len(".Ss Operations\n")
    end = text.index(".El\n", begin)
    return text[:begin] + "\n".join(lines) + "\n" + text[end:]


def with_devices(schema):
    """A schema of meshes with the accelerators that the program knows."""
    names = []
    for one in json.loads(describe("devices")):
        names += [one[key] for key in ("name", "alias") if key in one]
    schema["definitions"]["profile"] = {
        "description": "An accelerator that the program knows.",
        "enum": names}
    return schema


def mesh_manual(text):
    """The page with those accelerators and their memory."""
    lines = [".Bl -column \"a100-80-sxm\" \"h200-141gb\" \"memory\"",
             ".It Name Ta Also Ta Memory"]
    lines += [f".It Cm {one['name']} Ta " +
              (f"Cm {one['alias']}" if "alias" in one else "") +
              f" Ta {one['memory']}"
              for one in json.loads(describe("devices"))]
    begin = text.index(".Ss Accelerators\n") + len(".Ss Accelerators\n")
    end = text.index(".El\n", begin)
    return text[:begin] + "\n".join(lines) + "\n" + text[end:]


def arguments(letters):
    """`V, R[, W]` of "vr?w", and `V, ...` of "v*"."""
    required, _, optional = letters.rstrip("*").upper().partition("?")
    text = ", ".join(required)
    text += "".join(f"[, {letter}]" for letter in optional)
    return text + (", ..." if letters.endswith("*") else "")


def keys_table(title, definition):
    """A table of a definition's keys and their descriptions."""
    rows = []
    for name, value in sorted(definition["properties"].items()):
        text = value.get("description", "see the table below")
        rows.append(f"| `{name}` | {text} |")
    return "\n".join([f"### {title}", "", "| key | meaning |", "|---|---|",
                      *rows, ""])


def model_reference(text):
    """The guide with tables of the section's keys and of the ops."""
    definitions = json.loads(read(RULES))["definitions"]
    parts = [keys_table(title, definitions[name]) for title, name in (
        ("Keys of `model:`", "model"), ("Options of a role", "modelOptions"),
        ("Keys of `encoder`", "modelEncoder"),
        ("Keys of `router`", "modelRouter"), ("Keys of `rope`", "modelRope"),
        ("Keys of `norm`", "modelNorm"), ("Keys of `slopes`", "modelSlopes"))]
    rows = [f"| `{op['name']}({arguments(op['arguments'])})` | {op['text']} |"
            for op in json.loads(describe("ops"))]
    parts.append("\n".join(["### Ops", "", "| op | result |", "|---|---|",
                            *rows, ""]))
    head = text[:text.index("## Reference\n")]
    rest = text[len(head):]
    intro = rest[:rest.index(" repeats.\n") + len(" repeats.\n")]
    return head + intro + "\n" + "\n".join(parts)


def now(path):
    """The text that the program gives for a file."""
    if path == COMMANDS:
        return describe()
    if path.endswith(".schema.json"):
        schema = with_collectives(path, json.loads(read(path)))
        if path in (SETTINGS, VERDICTS):
            schema = with_operations(path, schema)
        if path in MESHES:
            schema = with_devices(schema)
        return json.dumps(schema, indent=2, ensure_ascii=False) + "\n"
    if path == MODELS:
        return model_reference(read(path))
    if path == MANUAL:
        return manual(read(path))
    if path == MESH_MANUAL:
        return mesh_manual(read(path))
    if path == PROJECT_MANUAL:
        return project_manual(read(path))
    listed = run("explain", "--codes").out
    text = read(path)
    return text[:text.index(listed.split("\n", 1)[0])] + listed


TABLES = (COMMANDS, CODES, SETTINGS, VERDICTS, *MESHES, *COLLECTIVES, MANUAL,
          MESH_MANUAL, PROJECT_MANUAL, MODELS)


class Tables(Case):
    maxDiff = None

    def test_they_are_the_programs_own(self):
        for path in TABLES:
            self.assertEqual(read(path), now(path), f"{path}: {HINT}")

    def test_the_parser_knows_every_option(self):
        """The table and CLI11's own account of itself agree."""
        commands = json.loads(read(COMMANDS))
        listing = run("--help").out.split("Start:\n")[1]
        self.assertEqual(
            [f"{command['name']} {command['summary']}" for command in commands
             if " " not in command["name"]],
            [" ".join(entry.split()) for entry in re.split(
                r"\n  (?=\w)", "\n" + re.sub(r"\n\n[A-Z]\w+:", "", listing))
             if entry.strip()])
        for command in commands:
            text = self.check(run(*command["name"].split(), "--help"), 0).out
            flat = " ".join(text.replace("\\\n", "").split())
            example = command["example"].replace("\\\n", "")
            self.assertIn(" ".join(example.split()), flat)
            for option in command["options"]:
                letter = option.get("letter")
                self.assertIn("\n  " + (f"-{letter}," if letter else "") +
                              option["name"], text)
                self.assertIn(" ".join(option["help"].split()), flat)


if __name__ == "__main__":
    if sys.argv[1:] == ["--write"]:
        for table in TABLES:
            text = now(table)
            with open(table, "w", encoding="utf-8") as out:
                out.write(text)
    else:
        unittest.main()
