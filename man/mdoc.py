"""Plain text to mdoc."""

import re
import textwrap

# What stands out in prose: `code`, *emphasis*, a page such as shardc-plan(5).
SPAN = re.compile(r"`([^`]+)`|(?<!\w)\*([^*]+)\*|\b(shardc(?:-\w+)?)\((\d)\)")
FILE = re.compile(r"[\w-]+\.(?:json|yaml|safetensors)$")


def escaped(text):
    text = text.replace("\\", "\\e").replace("-", "\\-")
    return re.sub(r"^([.'])", r"\\&\1", text)


def macro(span):
    """Its name and arguments."""
    code, emphasis, page, section = span.groups()
    if page:
        return "Xr", f"{page} {section}"
    if emphasis:
        return "Em", escaped(emphasis)
    if code.startswith("--"):
        return "Fl", escaped(code[1:])
    if FILE.match(code):
        return "Pa", escaped(code)
    return "Ql" if " " in code else "Cm", escaped(code)


def paragraph(text):
    """Macros stand on lines of their own, with the punctuation around them:
    "with (`--a`), see" is `with`, `.Fl ( -a ) ,` and `see`."""
    lines = []
    rest = " ".join(text.split())
    while span := SPAN.search(rest):
        before, rest = rest[:span.start()], rest[span.end():]
        name, arguments = macro(span)
        if before.endswith("("):
            before, arguments = before[:-1], "( " + arguments
        closing = re.match(r"[).,:;]*", rest).group()
        rest = rest[len(closing):]
        lines += sentences(before)
        lines.append(" ".join(["." + name, arguments, *closing]))
    return "\n".join(lines + sentences(rest)) + "\n"


def sentences(text):
    """Lines of at most 79 characters; a sentence begins one."""
    lines = []
    for sentence in re.split(r"(?<=\.) ", text.strip()):
        lines += map(escaped, textwrap.wrap(
            sentence, 79, break_long_words=False, break_on_hyphens=False))
    return lines


def prose(text):
    return ".Pp\n".join(map(paragraph, re.split(r"\n\s*\n", text)))
