"""Writes the commands into shardc.1.in: PAGE.in COMMANDS.json OUTPUT"""

import json
import sys

from mdoc import escaped, prose


def item(option):
    if not option["name"].startswith("-"):
        macro = f".It Ar {option['name']}"
        if "also" in option:
            macro += (f" , Fl {escaped(option['also'][1:])}"
                      f" Ar {option['name']}")
    else:
        names = ["-" + option["letter"]] if "letter" in option else []
        flags = " , ".join("Fl " + escaped(name[1:])
                           for name in [*names, option["name"],
                                        *filter(None, [option.get("also")])])
        value = option.get("value", "")
        macro = f".It {flags}" + (f" Ar {escaped(value)}" if value else "")
    # As --help has it: a capital would change what is to be typed.
    return f"{macro}\n{escaped(option['help'])}\n"


def listed(options):
    return f".Bl -tag -width Ds\n{''.join(map(item, options))}.El\n"


def section(command):
    # Arguments come first, then the options of -h.
    options = sorted(command["options"],
                     key=lambda option: option["name"].startswith("-"))
    brief = [option for option in options if "brief" in option]
    further = [option for option in options if "brief" not in option]
    lists = listed(brief) if brief else ""
    if further:
        lists += (".Pp\nFurther options:\n" if brief else "") + listed(further)
    return (f".Ss {command['name']}\n{prose(command['about'])}{lists}"
            ".Pp\nExample:\n.Bd -literal -offset indent\n"
            f"{escaped(command['example'])}\n.Ed\n")


def main():
    page, commands, output = sys.argv[1:]
    with open(commands, encoding="utf-8") as file:
        sections = "".join(map(section, json.load(file)))
    with open(page, encoding="utf-8") as file:
        text = file.read()
    with open(output, "w", encoding="utf-8") as file:
        file.write(text.replace("@COMMANDS@\n", sections))


if __name__ == "__main__":
    main()
