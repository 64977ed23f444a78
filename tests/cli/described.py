"""Commands whose output in JSON follows a schema that the program prints."""

import json

import jsonschema

from driver import Case, run


class DescribedCase(Case):
    SCHEMA = ""  # as `shardc schema` names it

    @classmethod
    def setUpClass(cls):
        cls.schema = jsonschema.Draft7Validator(
            json.loads(run("schema", cls.SCHEMA).out))

    def described(self, result, rc):
        """The value that a run printed, if it follows the schema."""
        value = self.check(result, rc).json()
        errors = [f"{'/'.join(map(str, e.absolute_path))}: {e.message[:200]}"
                  for e in self.schema.iter_errors(value)]
        self.assertEqual(errors, [])
        return value
