"""The recorded answers judge the program: a change of one line in the resolver,
in matching, in correcting and in the reader of meshes makes some of them fail.

The changed sources are linked before the objects of the build, switchable by
the variable SHARDC_MUTANT, as tests/mutation/trial.py does it, and linked once.
"""

import os
import sys
import unittest

ROOT = os.environ["SHARDC_SOURCE_ROOT"]
sys.path[:0] = [os.path.join(ROOT, "tests", name) for name in ("mutation", "cli")]

import compiling  # noqa: E402
import trial  # noqa: E402
from driver import part_of  # noqa: E402

# Objects and programs of this test have a folder of their own, because the
# sample of all changes may be compiled at the same time.
compiling.TRIAL = os.path.join(compiling.BUILD, "trial-vectors")

import product_test  # noqa: E402

# (file below src, a line of it, an expression, what it becomes), and the
# families of which one must fail.
CHANGES = (
    (("resolve/resolve.cc",
      "if (!IsGeneration(mode)) return OfRegisteredRule(rule);",
      "!IsGeneration(mode)", "IsGeneration(mode)"), ["register"]),
    (("resolve/resolve.cc",
      "if (auto twin = DecodeTwin(rule); twin && IsGeneration(mode)) {",
      "twin && IsGeneration(mode)", "!IsGeneration(mode) && twin"),
     ["resolve", "attn_rules", "bundles"]),
    (("match/match.cc",
      "rules.empty() ? Matches::kNone : "
      "static_cast<int32_t>(rules.front());",
      "rules.front()", "rules.back()"), ["match"]),
    (("legalize/legalize.cc",
      "size / dim_parts / block % *parts == 0;",
      "size / dim_parts / block % *parts == 0",
      "size / dim_parts / block % *parts != 0"),
     ["correct", "bundles"]),
    (("parse/mesh.cc",
      "mesh.axes[*sizes.free].size = devices / sizes.product;",
      "devices / sizes.product", "devices"), ["mesh"]),
)


class Changes(unittest.TestCase):
    def test_a_change_of_one_line_fails(self):
        # Most of the time is that of the compiler.
        changes = part_of(CHANGES, 2)
        mutants = [trial.Mutant(*change, "") for change, _ in changes]
        compiler = trial.Compiler(mutants)
        compiler.build(["src/cli/shardc"])
        os.environ["SHARDC_BIN"] = os.path.join(compiling.TRIAL, "shardc")
        for number, (change, families) in enumerate(changes, start=1):
            for switch, expected in ((0, False), (number, True)):
                found = product_test.run(
                    families, {**os.environ, "SHARDC_MUTANT": str(switch)})
                failed = [name for outcomes in found.values()
                          for name, o in outcomes if o.kind == "failed"]
                with self.subTest(change=change, switch=switch):
                    self.assertEqual(bool(failed), expected, failed[:3])
            print(f"{change[0]}: {len(failed)} answers change")


if __name__ == "__main__":
    unittest.main(argv=sys.argv)
