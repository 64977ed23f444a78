"""python -m shardc.family MODEL_TYPE | MODULE:CLASS -- describe a family of models.

Writes the description of a model type that the program does not know, so that

    shardc plan --families DIR --model config.json

works for each config.json of the type. The class, one of transformers or your own, is
built on PyTorch's meta device from many small random configs; nothing is allocated. The
description is written only if the program's tree equals the class's for other random
configs and for the class's default config, or for an example (--config) where the class
is not built from its default.

    python3 -m shardc.family lfm2 -o families
    python3 -m shardc.family my_models.acme:AcmeForCausalLM --trust-code -o families
"""

from __future__ import annotations

import argparse
import contextlib
import itertools
import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Mapping, Sequence
from typing import Any, Optional

from shardc import files
from shardc.family_configs import Drawer
from shardc.family_facts import (
    Dims, Finder, Wrong, differences, programmed, programs_of, shown_facts)
from shardc.family_expressions import Expression
from shardc.family_fit import Fitter, Node, Table, grown
from shardc.family_subject import Built, FamilyError, Subject, find
from shardc.family_text import Writer, fitted
from shardc.command import find_program

SAMPLES, HELD_OUT = 40, 24
_MOST_SHOWN = 6  # differences
_AS_SAVED = 6  # configs that are also compared in the form in which the class saves them
# Programs of the fit of factors, those of a fit that differs from one, and those of the
# comparison.
_PROGRAMS, _MOST_PROGRAMS, _HELD_OUT_PROGRAMS = 8, 32, 4
# How often factors are compared: with more programs, then with dimensions left open.
_ROUNDS = 7
# How often a description that differs is fitted again, with the configs that showed it.
_REFITS = 4


class Description:
    """A description of a class, and how it differs from the class."""

    def __init__(self, subject: Subject, samples: int, seed: int) -> None:
        self.subject = subject
        self.drawer = Drawer(subject, seed)
        self.built = [self.drawer.draw() for _ in range(samples)] + self.drawer.single()
        self.unfitted: list[str] = []
        self.programs: dict[int, Dims] = {}
        # Dimensions of which programs show something else than what would be stated,
        # and the reason.
        self.left_open: dict[tuple[str, int], str] = {}
        self.text = self._text()

    def refit(self, more: Sequence[Built]) -> None:
        """Fits the description to further configs too."""
        self.built += more
        self.text = self._text()

    def with_facts(self, most: int = _PROGRAMS) -> str:
        """The description with what programs of its class show; without programs, the
        same text."""
        if len(self.programs) < most:
            self.programs = programs_of(self.subject, self.built, most, self.programs)
        return self._text() if self.programs else self.text

    def _text(self) -> str:
        built = self.built
        table = Table(built)
        fitter = Fitter(table, [_dtype(x) for x in built])
        live = grown([x.tensors for x in built])
        files = None
        if any(x.files is not None for x in built):
            files = grown([x.tensors if x.files is None else x.files for x in built])
        failed = fitted(table, fitter, live, files)
        kind = self.subject.config_kind
        aliases: dict[str, list[str]] = {}
        for other, name in (getattr(kind, "attribute_map", None) or {}).items():
            aliases.setdefault(name, []).append(other)
        writer = Writer(table, self.subject.model_type, self.subject.classes, aliases)
        if self.programs:
            before = sizes_of(live)
            Finder(table, writer, self.programs).state(live, self.left_open)
            if files is not None:
                carry(live, before, files)
        text = writer.text(live, files, "\n".join([self.comment(), *self.unknown()]),
                           self.drawer.never(built))
        self.unfitted = list(dict.fromkeys([*failed, *writer.failed]))
        return text

    def unknown(self) -> list[str]:
        """Sentences about dimensions that are left open, one for all layers."""
        shown: dict[str, str] = {}
        for (param, d), why in self.left_open.items():
            name = ".".join("*" if x.isdigit() else x for x in param.split("."))
            shown.setdefault(f"What dimension {d} of `{name}` counts is unknown", why)
        return [f"{what}:\n  {why}." for what, why in shown.items()]

    def comment(self) -> str:
        return (f"Made by `python -m shardc.family` from the trees that"
                f" {self.subject.classes}\nbuilds on the meta device.")


def sizes_of(tree: Node) -> dict[int, tuple[Expression, ...]]:
    """The sizes of all tensors of a tree, by the identity of their node."""
    found = {id(tree): tree.sizes}
    for child in tree.children.values():
        found.update(sizes_of(child))
    return found


def carry(live: Node, before: Mapping[int, tuple[Expression, ...]], files: Node) -> None:
    """Gives the tensors of files the names of the sizes that the same tensors have in the
    model, so that both are one entry."""
    for name, child in files.children.items():
        other = live.children.get(name)
        if other is not None:
            if child.sizes == before[id(other)]:
                child.sizes = other.sizes
            carry(other, before, child)


def _dtype(built: Built) -> str:
    return {"bfloat16": "BF16", "float16": "F16"}.get(built.given.get("dtype", ""), "F32")


def program_tree(folder: str, config: dict[str, Any], naming: str) -> Any:
    """What the program builds: {name: (shape, dtype)}, or its message."""
    path = files.scratch(folder, "config.json", json.dumps(config))
    ran = subprocess.run(
        [find_program(), "show", "manifest", "--no-project", "--model", path, "--families", folder,
         "--naming", naming, "--format", "json"], capture_output=True, text=True, check=False)
    if ran.returncode != 0:
        return _finding(ran.stdout or ran.stderr)
    return {x["name"]: (tuple(x["shape"]), x["dtype"])
            for x in json.loads(ran.stdout)["params"]}


def _finding(text: str) -> dict[str, Any]:
    """The first of the program's findings."""
    try:
        found = json.loads(text)[0]
    except (ValueError, LookupError, TypeError):
        found = {"message": text.strip()}
    return {"finding": found}


Case = tuple[str, Built]  # a name for messages, and the config with its trees


class Refused(Exception):
    """The program refuses a config whatever the description states, such as one whose
    heads do not divide the hidden size. The class builds it without being able to run."""


def difference(folder: str, built: Built) -> Optional[str]:
    """The first difference between the program's trees and the class's."""
    for naming, wanted in (("hf", built.live()), ("hf-files", built.saved())):
        found = program_tree(folder, built.given, naming)
        if "finding" in found:
            finding = found["finding"]
            if finding.get("name") == "number" and str(finding.get("file")).endswith(
                "config.json"
            ) and "dimension" not in finding["message"]:
                raise Refused(finding["message"])
            return f"the program reports: {finding['message']}"
        for name, (shape, dtype) in wanted.items():
            if name not in found:
                return f"{naming}: `{name}` {list(shape)} is not in the description"
            if found[name] != (shape, dtype):
                return (f"{naming}: `{name}` is {list(shape)} {dtype}, and"
                        f" {list(found[name][0])} {found[name][1]} by the description")
        more = [name for name in found if name not in wanted]
        if more:
            return f"{naming}: the class has no `{more[0]}`"
    return None


def own_cases(made: Description) -> list[Case]:
    """The class's default config, and the example config."""
    subject, drawer = made.subject, made.drawer
    default = drawer.built({}) if subject.config_kind else None
    if default is None:
        default = drawer.built(drawer.fixed if subject.config_kind else {})
    cases = [] if default is None else [("the class's default config", default)]
    if subject.example:
        cases.append(("the example config", subject.build(subject.example)))
    if not cases:
        # What is drawn may then be what nobody trains, such as a model without experts.
        raise FamilyError(
            f"{subject.classes} is not built from its default config, so that nothing shows"
            f" what a model of it has: {drawer.errors[-1]} (name an example with `--config"
            " config.json`)")
    return cases


def drawn_cases(made: Description, number: int, seed: int) -> list[Case]:
    """Configs that took no part in the fit, a few of them also as the class saves them."""
    subject = made.subject
    made.drawer.random.seed(seed)
    cases = [(f"random config {n + 1}", made.drawer.draw()) for n in range(number)]
    for name, built in cases[:_AS_SAVED]:
        saved = subject.saved(built.given)
        if saved is not None:
            with contextlib.suppress(Exception):  # whatever the class raises
                cases.append((f"{name} as the class saves it", subject.build(saved)))
    return cases


def checked(made: Description, cases: Sequence[Case],
            text: str = "") -> tuple[list[tuple[Case, str]], int]:
    """How the program's trees differ from the class's, and how many were compared; `text`
    is another description of the class."""
    found = []
    refused = 0
    with tempfile.TemporaryDirectory() as folder:
        files.scratch(folder, f"{made.subject.model_type}.yaml", text or made.text)
        for case in cases:
            try:
                differs = difference(folder, case[1])
            except Refused:
                refused += 1
                continue
            if differs is not None:
                found.append((case, differs))
    return found, len(cases) - refused


def compared(made: Description, number: int, seed: int
             ) -> tuple[list[Case], list[tuple[Case, str]], int]:
    """The configs that a description was compared with, those that differ, and how many
    are no refusals. A config that differs takes part in another fit, which is compared
    with new ones."""
    own = own_cases(made)
    for turn in range(1, _REFITS + 2):
        cases = drawn_cases(made, number, seed + 1000 * turn) + own
        differs, counted = checked(made, cases)
        if not differs or turn > _REFITS:
            break
        made.refit([built for (_, built), _ in differs])
    return cases, differs, counted


def facts_differ(made: Description, text: str,
                 programs: Sequence[tuple[dict[str, Any], Dims]]) -> tuple[list[Wrong], int]:
    """How the facts of a description differ from those of programs, and how many programs
    were compared; the program may refuse the configs of others."""
    found: list[Wrong] = []
    compared_programs = 0
    with tempfile.TemporaryDirectory() as folder:
        files.scratch(folder, f"{made.subject.model_type}.yaml", text)
        for given, dims in programs:
            path = files.scratch(folder, "config.json", json.dumps(given))
            stated = shown_facts("--facts", "--model", path, "--families", folder)
            if stated is not None:
                compared_programs += 1
                found += differences(stated, dims)[1]
    return found, compared_programs


def stating_facts(made: Description, cases: Sequence[Case]) -> tuple[str, str]:
    """The text of a description with the factors that all programs confirm, and a note.
    Where one program shows something else, the dimension is left open."""
    text = made.with_facts()
    if not made.programs:
        return made.text, ("no factors: the class does not run on tokens alone, so that no"
                           " program shows them")
    held_out_programs = list(itertools.islice(
        ((built.given, dims) for _, built in cases
         if (dims := programmed(made.subject, built.given)) is not None),
        _HELD_OUT_PROGRAMS))
    most = _PROGRAMS
    for _ in range(_ROUNDS):
        wrong = facts_differ(made, text, [(made.built[at].given, dims)
                                          for at, dims in made.programs.items()])[0]
        more, counted = facts_differ(made, text, held_out_programs)
        wrong += more
        if not wrong:
            differs = checked(made, cases, text)[0]
            if differs or counted == 0:
                return made.text, "no factors: " + (
                    f"with them, the tree differs: {differs[0][1]}" if differs else
                    "the program refuses the configs of all programs")
            note = f"factors as in {counted} programs, which took no part in the fit"
            return text, "\n  ".join([note, *made.unknown()])
        if most < _MOST_PROGRAMS:
            # A factor of one size in all programs has no value that they show.
            most *= 2
            text = made.with_facts(most)
            continue
        before = len(made.left_open)
        for param, d, why in wrong:
            made.left_open.setdefault((param, d), why)
        if len(made.left_open) == before:
            break
        text = made.with_facts(most)
    param, d, why = wrong[0]
    return made.text, (f"no factors: {len(wrong)} dimensions differ, such as"
                       f" {param} {d}: {why}")


def main(arguments: Optional[list[str]] = None) -> int:
    parser = argparse.ArgumentParser(
        prog="python -m shardc.family", description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("family", metavar="MODEL_TYPE|MODULE:CLASS")
    parser.add_argument("--trust-code", action="store_true",
                        help="run the code of MODULE")
    parser.add_argument("-o", "--output", default=".", metavar="DIR",
                        help="folder of the description (default: this one)")
    parser.add_argument("--config", metavar="FILE",
                        help="an example config.json, for a class without defaults")
    parser.add_argument("--name", help="the model type (default: that of the class)")
    parser.add_argument("--samples", type=int, default=SAMPLES,
                        help=f"random configs of the fit (default: {SAMPLES})")
    parser.add_argument("--held-out", type=int, default=HELD_OUT,
                        help=f"random configs of the comparison (default: {HELD_OUT})")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--draft", action="store_true",
                        help="write a description that differs, marked as a draft")
    options = parser.parse_args(arguments)
    try:
        find_program()
        with files.running(options.family, (FamilyError, FileNotFoundError)):
            subject = find(options.family, options.trust_code, options.config, options.name)
            made = Description(subject, options.samples, options.seed)
            cases, differs, number = compared(made, options.held_out, options.seed)
    except (FamilyError, FileNotFoundError) as error:
        print(f"error: {files.printable(str(error))}", file=sys.stderr)
        return 2
    if number < len(cases) // 2:
        print(f"error: the program refuses {len(cases) - number} of {len(cases)} configs that"
              " were drawn, so too few are compared: give more of them with `--held-out`",
              file=sys.stderr)
        return 1
    text = made.text
    if differs:
        shown = "\n".join(f"  {name}: {why}" for (name, _), why in differs[:_MOST_SHOWN])
        print(f"error: the description of `{subject.model_type}` differs from the class in"
              f" {len(differs)} of {number} configs, so it is not written:\n{shown}",
              file=sys.stderr)
        if made.unfitted:
            print("  not found: " + ", ".join(f"`{x}`" for x in made.unfitted[:_MOST_SHOWN]),
                  file=sys.stderr)
        if not options.draft:
            print("  = help: `--draft` writes it all the same, to be corrected by hand",
                  file=sys.stderr)
            return 1
        text = f"# A draft: it differs from the class in {len(differs)} of {number}" \
               f" configs.\n{text}"
    else:
        text, note = stating_facts(made, cases)
    os.makedirs(options.output, exist_ok=True)
    path = os.path.join(options.output, f"{subject.model_type}.yaml")
    files.write(path, text, read=[options.config] if options.config else [])
    if not differs:
        print(f"{path}: equal to {subject.classes} in {number} configs, which took no"
              " part in the fit")
        print(f"{path}: {note}")
    return 1 if differs else 0


if __name__ == "__main__":
    sys.exit(files.exit_status(main))
