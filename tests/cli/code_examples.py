"""Every lint's own examples, as `shardc explain CODE` shows them, put to
`shardc check` in every format."""

import re
import subprocess

from transcript import Section, Step

FILES = {"rules": "rules.yaml", "manifest": "manifest.json",
         "config.json": "config.json", "committed plan": "locked.json",
         "program": "program.json"}
FORMATS = ("concise", "json", "sarif", "github", "junit", "markdown")


def said(program, *args):
    return subprocess.run([program, "explain", *args], check=True,
                          stdout=subprocess.PIPE, encoding="utf-8").stdout


def codes(program):
    return re.findall(r"^\| (SHD\d{3}) \|", said(program, "--codes"), re.M)


# Stages and schedules of pipelines, which no lint reads.
SCHEDULES = ("SHD241", "SHD242", "SHD243", "SHD244", "SHD245", "SHD247",
             "SHD248", "SHD249")


def is_lint(code):
    """Codes from 100 on are lints, whose records have the examples; those of
    schedules, and those from 600 on, which are findings of `shardc audit`, have
    pages as input errors have."""
    return "SHD100" <= code < "SHD600" and code not in SCHEDULES


def is_finding(code):
    return code >= "SHD100"


def inputs(text):
    """The indented parts of an example by title."""
    parts, at = {}, None
    for line in text.splitlines():
        title = re.match(r"  (\S.*?):(?: (\d+))?$", line)
        if title and title.group(2):
            parts[title.group(1)] = title.group(2)
        elif title:
            at = parts.setdefault(title.group(1), [])
        elif line.startswith("    ") or not line:
            if at is not None:
                at.append(line[4:])
        else:
            at = None
    return {title: part if isinstance(part, str) else
            "\n".join(part).rstrip("\n") + "\n"
            for title, part in parts.items()}


def examples(text):
    """The bad one and the good one, the latter filled from the former."""
    bad = inputs(text[text.index("\nExample\n"):
                      text.index("\nWhat to write instead\n")])
    good = inputs(text[text.index("\nWhat to write instead\n"):])
    return bad, {**bad, **good}


def setup(example):
    """(hidden files, flags) that give an example to a command."""
    files = [(FILES[title], text) for title, text in example.items()
             if title in FILES]
    mesh = example["mesh"].rstrip("\n")
    if "{" in mesh:
        files.append(("mesh.yaml", example["mesh"]))
        mesh = "mesh.yaml"
    flags = f"--mesh {mesh} --rules rules.yaml --manifest manifest.json"
    if "committed plan" in example or "target" in example:
        project = ("version: 1\ntargets:\n  t:\n"
                   f"    mesh: {mesh}\n    rules: [rules.yaml]\n"
                   "    manifest: manifest.json\n")
        flags = ""
        if "committed plan" in example:
            project += "    plan: locked.json\n"
            flags = "--locked"
        project += "".join(
            f"    {line}\n" for line in example.get("target", "").splitlines())
        files.append(("shardc.yaml", project))
    if "config.json" in example:
        flags += " --model config.json"
    if "program" in example:
        flags += " --program program.json"
    for key, option in (("batch", "--batch"), ("kv_len", "--kv-len")):
        if key in example:
            flags += f" {option} {example[key]}"
    if "memory in bytes" in example:
        flags += " --memory " + example["memory in bytes"]
    return [Step("hidden", name, text.splitlines())
            for name, text in files], flags.strip()


def audit_sections(program, code):
    """The commands of a page's examples, each with the files before it."""
    text = said(program, code)
    bad, good = (inputs(part) for part in
                 text[text.index("\nExample\n"):].split("\nFixed\n"))
    steps = [Step("command", f"shardc explain {code}")]
    for example, title in ((bad, "the example"), (good, "the fixed program")):
        command = example.pop("command").rstrip("\n")
        steps += [Step("hidden", name, lines.splitlines())
                  for name, lines in example.items()]
        steps.append(Step("command", command))
        if title == "the example" and code not in SCHEDULES:
            steps += [Step("command", f"{command} --format {form}")
                      for form in ("github", "concise")]
        yield Section(title, steps)
        steps = []


def sections(program, code):
    if not is_lint(code):
        yield from audit_sections(program, code)
        return
    text = said(program, code)
    bad, good = examples(text)
    preview = " --preview" if "\nIn preview:" in text else ""
    if "(note)" in text.splitlines()[0]:
        preview += " --notes"
    files, flags = setup(bad)
    steps = [Step("command", f"shardc explain {code}")]
    steps += files
    steps.append(Step("command", f"shardc check {flags}{preview} -q"))
    for form in FORMATS:
        command = f"shardc check {flags} --select {code} -q --format {form}"
        if form == "sarif":  # the list of all rules is in formats.txt
            command += (f" | sed -n '/{code}/"
                        "{s/Index\": [0-9]*/Index\": N/; p}'")
        steps.append(Step("command", command))
    yield Section("the example", steps)
    files, flags = setup(good)
    yield Section("what to write instead", files + [
        Step("command", f"shardc check {flags}{preview} -q")])
