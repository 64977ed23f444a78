"""Writes the pages of this folder into C++ sources.

    embed_pages.py lints DEPFILE HEADER SOURCE
    embed_pages.py explanations DEPFILE SOURCE
    embed_pages.py examples DEPFILE SOURCE
    embed_pages.py commands DEPFILE HEADER SOURCE NAME...

README.md describes the pages. What a page must have and lacks, or has and must
not have, is an error with its line, so that the program parses nothing. The
depfile names the folder too, so that the build detects a page that is added.
"""

import os
import re
import sys

HERE = os.path.dirname(__file__)
DELIMITER = "shardc"
# What `shardc explain` prints has as many columns.
WIDTH = 76
LEVELS = {"error": "kError", "warning": "kWarning", "note": "kNote"}
NEEDS = {"shapes": "kNeedsShapes", "model": "kNeedsModel",
         "batch": "kNeedsBatch", "kv_len": "kNeedsKvLen",
         "memory": "kNeedsMemory", "heads": "kNeedsHeads"}
# The files and the sizes of a lint's example, with their members of LintExample.
FILES = {"mesh": "mesh", "rules": "rules", "manifest": "manifest",
         "config.json": "model", "committed plan": "locked",
         "target": "target", "program": "program"}
SIZES = {"batch": "batch", "kv_len": "kv_len",
         "memory in bytes": "memory_bytes"}
LINT = ["What it does", "Why that is bad", "Example", "What to write instead"]
OTHER = ["What it means", "Why that is bad", "How to fix it", "Example",
         "Fixed"]


class Page:
    """The fields of a page's header, and the lines of each section."""

    def __init__(self, path):
        self.path = path
        with open(path, encoding="utf-8") as file:
            lines = file.read().split("\n")
        if lines[0] != "---" or "---" not in lines[1:]:
            self.fail(0, "a page begins with fields between lines `---`")
        end = lines.index("---", 1)
        self.fields = {}
        for at in range(1, end):
            key, colon, value = lines[at].partition(": ")
            if not colon or key in self.fields:
                self.fail(at, "a field is written once, as `name: value`")
            # YAML has quotes around a value with a colon.
            self.fields[key] = value.strip('"') if ": " in value else value
        self.used = set()
        self.sections = {"": []}
        section, fence = "", False
        for at in range(end + 1, len(lines)):
            line = lines[at]
            fence ^= line.startswith("```")
            if line.startswith("## ") and not fence:
                section = line[3:]
                if section in self.sections:
                    self.fail(at, f"`{section}` is there twice")
                self.sections[section] = []
            else:
                self.sections[section].append((at, line))
        if fence:
            self.fail(at, "a fence is not closed")

    def fail(self, at, why):
        sys.exit(f"{self.path}:{at + 1}: {why}")

    def field(self, name, default=None):
        self.used.add(name)
        if name not in self.fields and default is None:
            self.fail(0, f"the field `{name}` is missing")
        return self.fields.get(name, default)

    def choice(self, name, values, default=None):
        value = self.field(name, default)
        if value not in values:
            self.fail(0, f"`{name}` is one of " + ", ".join(values))
        return values[value]

    def end_of_fields(self):
        for name in self.fields.keys() - self.used:
            self.fail(0, f"no page of this kind has a field `{name}`")

    def parts(self, section):
        """The paragraph that a section begins with, and (label, text) of each
        example below it, or (label, number)."""
        words, blocks, label = [], [], None
        lines = iter(self.sections[section])
        for at, line in lines:
            if line.startswith("```"):
                if label is None:
                    self.fail(at, "a line `LABEL:` is missing before the text")
                text = ""
                for _, inner in lines:
                    if inner == "```":
                        break
                    text += inner + "\n"
                blocks.append((label, text))
                label = None
            elif not line:
                if words and words[-1]:
                    words.append("")
            elif label is not None:
                self.fail(at, f"the text of `{label}:` is missing")
            elif not blocks and (words[-1:] != [""] if words else
                                 section not in ("Example", "Fixed")):
                words.append(line)
            elif found := re.fullmatch(r"([\w. ]+): (?:`([^`]+)`|(\d+))", line):
                blocks.append((found[1], found[2] or int(found[3])))
            elif found := re.fullmatch(r"([\w. ]+):", line):
                label = found[1]
            else:
                self.fail(at, "a section has one paragraph, then examples")
        return " ".join(filter(None, words)), blocks


class Diagnostic(Page):
    """The page of a code: what it means, why that is bad, and two examples."""

    def __init__(self, path):
        super().__init__(path)
        self.number = int(os.path.basename(path)[3:-3])
        if self.field("code") != os.path.basename(path)[:-3]:
            self.fail(0, "`code` is the name of the file")
        self.name = self.field("name")
        words = re.split("-", self.name)
        self.constant = "k" + "".join(word.capitalize() for word in words)
        titles = list(self.sections)[1:]
        self.is_lint = titles == LINT
        if not self.is_lint and titles != OTHER:
            self.fail(0, "the sections are " + ", ".join(LINT)
                      + " of a lint, or " + ", ".join(OTHER))
        self.preview = self.is_lint and self.choice(
            "preview", {"yes": True, "no": False}, "no")
        if self.is_lint:
            self.meaning = self.field("meaning")
            self.level = self.choice("level", LEVELS)
            self.checks = self.choice("check", {"yes": True, "no": False},
                                      "yes")
            self.needs = self.needed()
            self.guesses = self.choice(
                "guesses", {"yes": True, "no": False}, "no")
        self.end_of_fields()
        fix = LINT[3] if self.is_lint else OTHER[2]
        self.what, self.why, self.fix = map(
            self.paragraph, [titles[0], titles[1], fix])
        self.bad = self.example("Example")
        self.good = self.example(LINT[3] if self.is_lint else OTHER[4])

    def needed(self):
        names = list(filter(None, self.field("needs", "").split(", ")))
        for name in names:
            if name not in NEEDS:
                self.fail(0, "`needs` lists some of " + ", ".join(NEEDS))
        return " | ".join(NEEDS[name] for name in names) or "0"

    def paragraph(self, section):
        text = self.parts(section)[0]
        if not text.endswith("."):
            self.fail(0, f"`{section}` has no sentence")
        return text

    def example(self, section):
        blocks = self.parts(section)[1]
        if not blocks and section == "Example":
            self.fail(0, f"`{section}` has no file")
        for label, text in blocks:
            known = SIZES if isinstance(text, int) else FILES
            if self.is_lint and label not in known:
                self.fail(0, f"no example of a lint has a `{label}`")
        return blocks

    def explanation(self):
        """What `shardc explain` prints below its first line."""
        out = ""
        if self.preview:
            out += wrapped("In preview: it runs with --preview, or when its "
                           "code or name is selected.")
        for section in list(self.sections)[1:]:
            text, blocks = self.parts(section)
            out += ("\n" if out else "") + f"{section}\n"
            out += wrapped(text) if text else ""
            if section == "How to fix it":
                out += "\n" + wrapped(self.consequence())
            for label, block in blocks:
                if isinstance(block, int):
                    out += f"  {label}: {block}\n"
                else:
                    lines = block.removesuffix("\n").split("\n")
                    out += f"  {label}:\n" + "".join(
                        f"    {line}\n" for line in lines)
        return out

    def consequence(self):
        if self.number < 100:
            return ("An input error cannot be ignored or given another level: "
                    "the command ends with exit status 2.")
        if self.number < 600:
            return "The command that reports it ends with exit status 1."
        # Budgets are checked by `check`.
        command = "check" if self.number in (611, 612, 615) else "audit"
        return f"`shardc {command} --ignore` leaves the finding out."


def wrapped(text):
    lines, line = [], None
    for word in text.split(" "):
        longer = word if line is None else f"{line} {word}"
        if line is not None and len(longer.encode()) > WIDTH:
            lines.append(line)
            longer = word
        line = longer
    return "\n".join([*lines, line]) + "\n"


def literal(text):
    """With its length: to count it is more than a constant expression may do."""
    assert f"){DELIMITER}\"" not in text
    return f'{{R"{DELIMITER}({text}){DELIMITER}", {len(text.encode())}}}'


def depends(depfile, output, *paths):
    with open(depfile, "w", encoding="utf-8") as file:
        file.write(f"{output}: {' '.join(paths)}\n")


def diagnostics(depfile, output):
    """The pages of all codes by number."""
    folder = os.path.join(HERE, "diagnostics")
    paths = sorted(os.path.join(folder, name) for name in os.listdir(folder)
                   if name.endswith(".md"))
    depends(depfile, output, folder, *paths)
    pages = [Diagnostic(path) for path in paths]
    names = [page.name for page in pages]
    for page in pages:
        if names.count(page.name) > 1:
            page.fail(0, f"two pages have the name {page.name}")
    return pages


def write(path, *parts):
    """A file that stays as it is keeps its time: nothing is compiled again."""
    text = "// Generated by texts/embed_pages.py.\n" + "".join(parts)
    if os.path.exists(path):
        with open(path, encoding="utf-8") as file:
            if file.read() == text:
                return
    with open(path, "w", encoding="utf-8") as file:
        file.write(text)


def lints(depfile, header, source):
    pages = [page for page in diagnostics(depfile, header)
             if page.is_lint]
    declared, defined, listed = "", "", ""
    for page in pages:
        check = "Check" + page.constant[1:] if page.checks else "nullptr"
        declared += f"extern const Lint {page.constant};\n"
        if page.checks:
            declared += f"void {check}(const Facts& facts, FindingSink& sink);\n"
        defined += (
            f"constinit const Lint {page.constant}{{\n"
            f'    .code = {{{page.number}, "{page.name}", '
            f"Level::{page.level}, {literal(page.meaning)}}},\n"
            f"    .preview = {str(page.preview).lower()},\n"
            f"    .needs = {page.needs},\n"
            f"    .guesses = {str(page.guesses).lower()},\n"
            f"    .check = {check}}};\n\n")
        listed += f"    &{page.constant},\n"
    write(header, "#ifndef SHARDC_LINT_RULES_ALL_H_\n"
          "#define SHARDC_LINT_RULES_ALL_H_\n\n"
          '#include "lint/rules/lint.h"\n\n'
          f"namespace shardc {{\n\n{declared}\n}}  // namespace shardc\n\n"
          "#endif  // SHARDC_LINT_RULES_ALL_H_\n")
    write(source, '#include "lint/rules/all.h"\n\n'
          f"namespace shardc {{\n\n{defined}"
          f"namespace {{\nconstexpr const Lint* kLints[] = {{\n{listed}}};\n"
          "}  // namespace\n\n"
          "std::span<const Lint* const> AllLints() { return kLints; }\n\n"
          "}  // namespace shardc\n")


def explanations(depfile, source):
    rows = ""
    for page in diagnostics(depfile, source):
        texts = [page.what, page.why, page.fix, page.explanation()]
        what, why, fix, _ = (len(text.encode()) for text in texts)
        rows += (f"    {{{page.number}, {what}, {why}, {fix},\n"
                 f"     {literal(''.join(texts))}}},\n")
    write(source, '#include "emit/findings/formats.h"\n\n'
          "namespace shardc {\nnamespace {\n\n"
          f"constexpr CodePage kPages[] = {{\n{rows}}};\n\n"
          "}  // namespace\n\n"
          "std::span<const CodePage> CodePages() { return kPages; }\n\n"
          "}  // namespace shardc\n")


def examples(depfile, source):
    def fields(blocks):
        given = {label: text for label, text in blocks}
        return ", ".join(
            [f".{member} = {literal(given[label])}"
             for label, member in FILES.items() if label in given]
            + [f".{member} = {given[label]}"
               for label, member in SIZES.items() if label in given])
    rows = "".join(
        f'    {{"{page.name}",\n     {{{fields(page.bad)}}},\n'
        f"     {{{fields(page.good)}}}}},\n"
        for page in diagnostics(depfile, source) if page.is_lint)
    write(source, '#include "lint/example.h"\n\n'
          "namespace shardc {\nnamespace {\n\n"
          f"constexpr LintExamples kExamples[] = {{\n{rows}}};\n\n"
          "}  // namespace\n\n"
          "std::span<const LintExamples> AllExamples() { return kExamples; }\n\n"
          "}  // namespace shardc\n")


def command_row(path):
    page = Page(path)
    name = page.field("name")
    if name.replace(" ", "_") + ".md" != os.path.basename(path):
        page.fail(0, "`name` is the name of the file")
    summary, formats = page.field("summary"), page.field("formats", "")
    # A command of two words is listed below the first.
    group = "" if " " in name else page.field("group")
    page.end_of_fields()
    if list(page.sections) != ["", "Example"]:
        page.fail(0, "the text is followed by one section, `Example`")
    about = "\n".join(line for _, line in page.sections[""]).strip("\n")
    lines = [line for _, line in page.sections["Example"] if line]
    if not about or lines[0] != "```sh" or lines[-1] != "```":
        page.fail(0, "the text, or the fence `sh` of the example, is missing")
    declare = "Declare" + "".join(map(str.capitalize, name.split(" ")))
    # The formats of findings are those of a table.
    shown = ("kFindingFormatNames" if formats == "findings"
             else literal(formats))
    return declare, (f'    {{"{name}",\n     {literal(summary)},\n'
                     f"     {literal(about)},\n"
                     f"     {literal(chr(10).join(lines[1:-1]))},\n"
                     f"     {shown},\n     \"{group}\",\n     {declare}}},\n")


def commands(depfile, header, source, *names):
    paths = [os.path.join(HERE, "commands", f"{name}.md") for name in names]
    depends(depfile, header, *paths)
    rows = [command_row(path) for path in paths]
    declared = "".join(f"Declared {declare}();\n" for declare, _ in rows)
    write(header, "#ifndef SHARDC_CLI_COMMANDS_H_\n"
          "#define SHARDC_CLI_COMMANDS_H_\n\n"
          '#include "cli/command.h"\n\n'
          f"namespace shardc::cli {{\n\n{declared}\n"
          "}  // namespace shardc::cli\n\n"
          "#endif  // SHARDC_CLI_COMMANDS_H_\n")
    write(source, '#include "cli/commands.h"\n'
          '#include "emit/findings/formats.h"\n\n'
          "namespace shardc::cli {\nnamespace {\n\n"
          f"constexpr Command kCommands[] = {{\n"
          + "".join(row for _, row in rows) +
          "};\n\n}  // namespace\n\n"
          "std::span<const Command> Commands() { return kCommands; }\n\n"
          "}  // namespace shardc::cli\n")


if __name__ == "__main__":
    {"lints": lints, "explanations": explanations, "examples": examples,
     "commands": commands}[sys.argv[1]](*sys.argv[2:])
