"""The tables that manual, completions, documentation and schemas are made of
say what the program says of itself. `tables_test.py --write` writes them anew."""

import json
import os
import subprocess
import sys
import unittest

from driver import BIN, ROOT, Case, run

DESCRIBE = os.environ.get(
    "SHARDC_DESCRIBE_COMMANDS",
    os.path.join(os.path.dirname(BIN), "..", "..", "tests", "programs",
                 "describe_commands"))
COMMANDS = os.path.join(ROOT, "man", "commands.json")
SETTINGS = os.path.join(ROOT, "schemas", "operations.schema.json")
VERDICTS = os.path.join(ROOT, "schemas", "verify.schema.json")
CODES = os.path.join(ROOT, "docs", "diagnostics.md")
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


def now(path):
    """The text that the program gives for a file."""
    if path == COMMANDS:
        return describe()
    if path in (SETTINGS, VERDICTS):
        schema = with_operations(path, json.loads(read(path)))
        return json.dumps(schema, indent=2, ensure_ascii=False) + "\n"
    listed = run("explain", "--codes").out
    text = read(path)
    return text[:text.index(listed.split("\n", 1)[0])] + listed


TABLES = (COMMANDS, CODES, SETTINGS, VERDICTS)


class Tables(Case):
    maxDiff = None

    def test_they_are_the_programs_own(self):
        for path in TABLES:
            self.assertEqual(read(path), now(path), f"{path}: {HINT}")

    def test_the_parser_knows_every_option(self):
        """The table and CLI11's own account of itself agree."""
        commands = json.loads(read(COMMANDS))
        listing = run("--help").out.split("Subcommands:\n")[1]
        self.assertEqual(
            [(command["name"], command["summary"]) for command in commands],
            [tuple(line.strip().split(maxsplit=1))
             for line in listing.splitlines() if line])
        for command in commands:
            text = self.check(run(command["name"], "--help"), 0).out
            self.assertIn(command["example"], text)
            for option in command["options"]:
                letter = option.get("letter")
                self.assertIn("\n  " + (f"-{letter}," if letter else "") +
                              option["name"], text)
                self.assertIn(option["help"], text)


if __name__ == "__main__":
    if sys.argv[1:] == ["--write"]:
        for table in TABLES:
            text = now(table)
            with open(table, "w", encoding="utf-8") as out:
                out.write(text)
    else:
        unittest.main()
