"""Changes inputs with their structure in mind: members of YAML and JSON, lines and words
of texts, bytes. The generator `rng` decides everything."""

import copy
import re

ODD = [None, True, False, 0, 1, -1, 2, 3, 7, 64, 2**20, 2**31, 2**40, 2**62, 2**63,
       2**64, 10**30, 0.5, -1.5, 1e300, "", "x", "4", "-1", "0", "tp", "fsdp", ".*",
       "(", "[a-z", "\x1b[31m", "\u202e", "\0", "x" * 300, "null", "~", "&a", "*a", "!!x",
       [], [[]], [0], [1, 2], ["tp", "tp"], [[None]], {}, {"": None}, {"a": {"b": []}}]


def spots(value):
    keys = list(value) if isinstance(value, dict) else (
        range(len(value)) if isinstance(value, list) else ())
    for key in keys:
        yield value, key
        yield from spots(value[key])


def words_of(value):
    if isinstance(value, dict):
        for key, one in value.items():
            yield str(key)
            yield from words_of(one)
    elif isinstance(value, list):
        for one in value:
            yield from words_of(one)
    elif isinstance(value, str):
        yield from re.findall(r"\w+", value)


def change_text(rng, text, words):
    """A text of which a word is another word of the file, or an operation more."""
    parts = re.findall(r"\w+|\W", text)
    if not parts or rng.random() < 0.2:
        return rng.choice(["", text + text, text * 40, text[:-1], text + "\n" + text])
    at = rng.randrange(len(parts))
    how = rng.random()
    if how < 0.5:
        parts[at] = rng.choice(words) if words else "x"
    elif how < 0.7:
        parts[at] = str(rng.choice([0, 1, -1, 2, 1000000, 2**31, 2**63, 10**20]))
    elif how < 0.9:
        parts[at:at] = [rng.choice(["+", "*", "//", "??", "(", ")", "[", "]", ",", ":",
                                    " if ", " and ", "-", ".", "'", "\\", "{", "}", "|"])]
    else:
        del parts[at]
    return "".join(parts)


def mutate_data(rng, data):
    data = copy.deepcopy(data)
    words = list(words_of(data))
    for _ in range(rng.choice([1, 1, 1, 2, 3])):
        found = list(spots(data))
        if not found:
            return data
        holder, key = rng.choice(found)
        old = holder[key]
        how = rng.random()
        if how < 0.25:
            holder[key] = copy.deepcopy(rng.choice(ODD))
        elif how < 0.33:
            del holder[key]
        elif how < 0.4 and isinstance(holder, list):
            holder[key:key] = [copy.deepcopy(old) for _ in range(rng.choice([1, 3, 50]))]
        elif how < 0.48:
            holder[key] = copy.deepcopy(rng.choice(found)[0])
        elif how < 0.55 and isinstance(holder, dict):
            holder[rng.choice(words) if words else "x"] = holder.pop(key)
        elif isinstance(old, bool) or old is None:
            holder[key] = copy.deepcopy(rng.choice(ODD))
        elif isinstance(old, int):
            holder[key] = rng.choice([-old, old + 1, old - 1, old * 2**20, old * 10**4,
                                      old * 100, 0, 2**31, 10**6, 10**5])
        elif isinstance(old, float):
            holder[key] = rng.choice([-old, old * 1e12, 0, 1e-300])
        elif isinstance(old, str):
            holder[key] = change_text(rng, old, words)
        else:
            holder[key] = rng.choice([[old], [old, old], {}, []])
    return data


def mutate_bytes(rng, data):
    data = bytearray(data)
    for _ in range(rng.choice([1, 1, 2, 6])):
        at = rng.randrange(len(data) + 1)
        how = rng.randrange(4)
        if how == 0 and at < len(data):
            data[at] = rng.choice([data[at] ^ 1 << rng.randrange(8), rng.randrange(256)])
        elif how == 1:
            del data[at:at + rng.choice([1, 4, 8, 200])]
        elif how == 2:
            data[at:at] = rng.choice([b"[", b"{", b"\xff" * 8, b"\0" * 4, b"NaN", b"\n",
                                      b"1e999", data[:30], b"[" * 300, b"- " * 200])
        else:
            del data[at:]
    return bytes(data)


def mutate_lines(rng, text):
    """Lines and words of a text: of a compiled program, a schedule, a log."""
    lines = text.split("\n")
    for _ in range(rng.choice([1, 1, 2, 4])):
        i, j = rng.randrange(len(lines)), rng.randrange(len(lines))
        how = rng.random()
        if how < 0.2:
            lines[i], lines[j] = lines[j], lines[i]
        elif how < 0.3:
            lines[i:i] = [lines[j]] * rng.choice([1, 2, 30])
        elif how < 0.4:
            del lines[i]
        else:
            parts = re.findall(r"\w+|\W", lines[i]) or [""]
            others = re.findall(r"\w+", lines[j]) or ["x"]
            at = rng.randrange(len(parts))
            number = parts[at].isdigit() and rng.random() < 0.7
            parts[at] = str(rng.choice([0, 1, 2, 7, 2**20, 2**31, 2**62, 10**19])) \
                if number else rng.choice([*others, "", "(", "}", ",", "{", "-1"])
            lines[i] = "".join(parts)
        if not lines:
            return ""
    return "\n".join(lines)


SHELL = ["$1", "$@", "$(ls)", "`date`", "${A:-2}", "${A:-${B:-3}}", "$((1/0))",
         "$((9223372036854775807+1))", "${X[@]}", "$X", "\"$X $X\"", "'", "\"", "\\\n",
         "\\", "#", ";", "&&", "|", "(", ")", "((", "{", "}", "<<EOF\n", "> x", "if", "fi",
         "then", "else", "for i in 1 2; do", "done", "case x in", "esac", "\nX=1\n",
         "\nX=$X$X\n" * 30, "\nX+=(${X[@]} 1)\n" * 30, "\nX=\"--bf16 $X $X\"\n" * 25,
         "\nX=(1 2)\n", "\nexport A=2\n", "E(" * 400, "${" * 60, "$((" * 60, "-1", "0",
         "1", "3", "7", "64", "1000000", str(2**31), str(2**63), str(10**20), "none",
         "true", "1.5", "\x1b[31m", "\u202e", "x" * 300]


def mutate_flags(rng, text, flags):
    """Words of a shell script: flags, their values, and what a shell expands."""
    words = re.findall(r"\s+|[^\s]+", text)
    for _ in range(rng.choice([1, 1, 2, 3, 6])):
        at = rng.randrange(len(words) + 1)
        how = rng.random()
        if how < 0.3:
            words[at:at] = [" ", rng.choice(flags), " ", *(
                [rng.choice(SHELL), " "] if rng.random() < 0.7 else [])]
        elif how < 0.55:
            words[at:at + 1] = [rng.choice(SHELL)]
        elif how < 0.7:
            words[at:at] = [" ", rng.choice(SHELL), " "]
        elif how < 0.8:
            del words[at:at + rng.choice([1, 2, 6])]
        elif how < 0.9:
            begin = rng.randrange(len(words) + 1)
            words[at:at] = words[begin:begin + rng.choice([2, 8, 30])]
        else:
            numbers = [i for i, word in enumerate(words) if word.isdigit()]
            if numbers:
                words[rng.choice(numbers)] = str(rng.choice(
                    [0, 1, 2, 3, 5, 16, 100, 10**6, 2**31, 2**62, 10**19]))
    return "".join(words)
