"""Writes a shell's completion script: SHELL COMMANDS.json OUTPUT

A shell offers commands, then a command's options, what an option's value may
be, and files where one is meant. After a single hyphen bash offers the options of
-h, and after two all of them; fish and zsh describe options as -h does. The targets of the nearest shardc.yaml are read
when a target is completed.
"""

import json
import re
import sys


def spellings(option):
    short = ["-" + option["letter"]] if "letter" in option else []
    return short + [option["name"]] + [option[k] for k in ("also",)
                                       if k in option]


def brief_help(option):
    """What -h prints of an option's help."""
    return re.split(r"; | \(default", option["help"])[0]


def options(command):
    """The options, and arguments that can be given as one: DIR, --from DIR."""
    out = []
    for option in command["options"]:
        if option["name"].startswith("-"):
            out.append(option)
        elif "also" in option:
            as_option = {**option, "name": option["also"],
                         "value": option["name"]}
            del as_option["also"]
            out.append(as_option)
    return out


def argument_words(command):
    """What the arguments may be; empty: files."""
    return [word for o in command["options"] if not o["name"].startswith("-")
            for word in o.get("words", [])]


def nested(command, commands):
    """The second words of commands that begin with this one's word."""
    return [c["name"].split()[1] for c in commands
            if c["name"].startswith(command["name"] + " ")]


def top_level(commands):
    return [c for c in commands if " " not in c["name"]]


def of_two_words(commands):
    return [c for c in commands if " " in c["name"]]


# The usual names of mesh axes; a plan may have others.
AXES = ["dp", "fsdp", "ep", "tp", "sp"]

# Prints the names below `targets:` of the nearest project file.
TARGETS = r"""/^targets:/ { on = 1; next }
  on && /^[^ #]/ { on = 0 }
  on && match($0, /^ +[^ #:]+:/) {
    at = match($0, /[^ ]/)
    if (!first) first = at
    if (at == first) { sub(/^ +/, ""); sub(/:.*/, ""); print }
  }"""


def complete(commands):
    """Adds the words that more than one option has: codes, axes."""
    codes = next((argument_words(c) for c in commands
                  if c["name"] == "explain"), [])
    for option in (o for c in commands for o in options(c)):
        if option.get("value", "").startswith("CODE,"):
            option["words"] = codes
        elif option.get("value", "").startswith("AXIS"):
            option["words"] = AXES
        elif option["name"] == "--mesh":
            option["words"] = [axis + ":" for axis in AXES]
    return commands


BASH = r"""# bash completion for shardc
_shardc_targets() {
  local folder=$PWD
  while [ -n "$folder" ] && [ ! -f "$folder/shardc.yaml" ]; do
    folder=${folder%/*}
  done
  [ -f "$folder/shardc.yaml" ] && awk '@TARGETS@' "$folder/shardc.yaml"
}
_shardc() {
  local line=${COMP_LINE:0:COMP_POINT}
  local word=${line##*[[:space:]]}
  local before=${line%"$word"}
  local options='' brief='' arguments=''
  local -a words
  read -r -a words <<< "$before"
  COMPREPLY=()
  reply() {
    local colon=${word%"${word##*[:=]}"}
    mapfile -t COMPREPLY < <(compgen "$@" -- "$word")
    COMPREPLY=("${COMPREPLY[@]#"$colon"}")
  }
  if [ "${#words[@]}" -le 1 ]; then
    reply -W '@NAMES@ --help --version --libraries'
    return
  fi
  local command=${words[1]}
  case "$command ${words[2]}" in
    @NESTED@) command="$command ${words[2]}" ;;
  esac
  case "$command ${words[-1]}" in
@VALUES@  esac
  case "$command" in
@WORDS@  esac
  if [[ $word == - && -n $brief ]]; then
    reply -W "$brief"
  elif [[ $word == -* ]]; then
    reply -W "$options"
  elif [ -n "$arguments" ]; then
    reply -W "$arguments"
  else
    reply -f
  fi
}
complete -o filenames -o bashdefault -F _shardc shardc
"""


def bash_value(command, option):
    """The reply for what follows an option; words with a colon are found
    whole, though bash splits the line there."""
    patterns = " | ".join(f"'{command['name']} {spelling}'"
                          for spelling in spellings(option))
    reply = ""
    if option["name"] == "--target":
        reply += ' -W "$(_shardc_targets)"'
    elif "words" in option:
        reply += f" -W '{' '.join(option['words'])}'"
    if "file" in option:
        reply += " -f"
    text = f"    {patterns})\n"
    if reply:
        text += f"      reply{reply}\n"
    if option["name"] == "--mesh":
        # A size follows the colon.
        text += "      compopt -o nospace 2>/dev/null\n"
    return text + "      return ;;\n"


def bash(commands):
    values = words = ""
    for command in commands:
        known = [s for o in options(command) for s in spellings(o)]
        values += "".join(bash_value(command, o) for o in options(command)
                          if "flag" not in o)
        words += f"    '{command['name']}')\n      options='{' '.join(known)}'\n"
        brief = [s for o in options(command) if "brief" in o
                 for s in spellings(o)]
        words += f"      brief='{' '.join(brief)}'\n" if brief else ""
        if argument_words(command):
            words += (f"      arguments="
                      f"'{' '.join(argument_words(command))}'\n")
        if nested(command, commands):
            words += ("      [ \"${#words[@]}\" -gt 2 ] || arguments="
                      f"'{' '.join(nested(command, commands))}'\n")
        words += "      ;;\n"
    names = " ".join(c["name"] for c in top_level(commands))
    pairs = " | ".join(f"'{c['name']}'" for c in of_two_words(commands))
    return (BASH.replace("@NAMES@", names).replace("@NESTED@", pairs)
            .replace("@VALUES@", values).replace("@WORDS@", words)
            .replace("@TARGETS@", TARGETS))


ZSH = r"""#compdef shardc
# zsh completion for shardc
_shardc_targets() {
  local folder=$PWD
  while [[ -n $folder && ! -f $folder/shardc.yaml ]]; do
    folder=${folder%/*}
  done
  [[ -f $folder/shardc.yaml ]] || return
  local -a targets=(${(f)"$(awk '@TARGETS@' $folder/shardc.yaml)"})
  compadd -a targets
}
_shardc() {
  local -a commands=(
@NAMES@  )
  if (( CURRENT == 2 )); then
    _describe command commands
    return
  fi
  local command=$words[2]
  shift words
  (( CURRENT -= 1 ))
  case "$command $words[2]" in
    @NESTED@)
      if (( CURRENT > 2 )); then
        command="$command $words[2]"
        shift words
        (( CURRENT -= 1 ))
      fi
      ;;
  esac
  case $command in
@CASES@  esac
}
if [[ $funcstack[1] == _shardc ]]; then
  _shardc "$@"
else
  compdef _shardc shardc
fi
"""


def zsh_quoted(text):
    return re.sub(r"([\[\]:])", r"\\\1", text.replace("'", "'\\''"))


def zsh_action(option):
    if option["name"] == "--target":
        return "_shardc_targets"
    words = " ".join(w.replace(":", "\\:") for w in option.get("words", []))
    if "file" not in option:
        return f"({words})" if words else " "
    if not words:
        return "_files"
    return f'_alternative "words:word:({words})" "files:file:_files"'


def zsh_option(option):
    known = spellings(option)
    names = ("'*" + known[0] if len(known) == 1
             else f"'*'{{{','.join(known)}}}'")
    text = f"{names}[{zsh_quoted(brief_help(option))}]"
    if "flag" not in option:
        text += f":{zsh_quoted(option['value'])}:{zsh_action(option)}"
    return text + "'"


def zsh(commands):
    names = cases = ""
    for command in top_level(commands):
        names += f"    '{command['name']}:{zsh_quoted(command['summary'])}'\n"
    for command in commands:
        cases += f"    '{command['name']}')\n      _arguments \\\n"
        for option in options(command):
            cases += f"        {zsh_option(option)} \\\n"
        words = argument_words(command) or nested(command, commands)
        cases += (f"        ':argument:({' '.join(words)})'\n" if words
                  else "        '*:file:_files'\n")
        cases += "      ;;\n"
    pairs = " | ".join(f"'{c['name']}'" for c in of_two_words(commands))
    return (ZSH.replace("@NAMES@", names).replace("@NESTED@", pairs)
            .replace("@CASES@", cases).replace("@TARGETS@", TARGETS))


FISH = r"""# fish completion for shardc
function __shardc_targets
  set -l folder $PWD
  while test -n "$folder"; and not test -f "$folder/shardc.yaml"
    set folder (string replace -r '/[^/]*$' '' -- $folder)
  end
  test -f "$folder/shardc.yaml"; and awk '@TARGETS@' $folder/shardc.yaml
end
complete -c shardc -n __fish_use_subcommand -f
complete -c shardc -n __fish_use_subcommand -l help -s h
complete -c shardc -n __fish_use_subcommand -l version
complete -c shardc -n __fish_use_subcommand -l libraries
"""


def fish_quoted(text):
    return "'" + text.replace("\\", "\\\\").replace("'", "\\'") + "'"


def fish_condition(command, commands):
    """When the words typed so far are this command's."""
    seen = [f"__fish_seen_subcommand_from {word}"
            for word in command["name"].split()]
    seen += [f"not __fish_seen_subcommand_from {word}"
             for word in nested(command, commands)]
    return "; and ".join(seen)


def fish_option(condition, option):
    text = f"complete -c shardc -n '{condition}' -l {option['name'][2:]}"
    if "letter" in option:
        text += " -s " + option["letter"]
    if "also" in option:
        text += " -l " + option["also"][2:]
    if "file" in option:
        text += " -r -F"
    elif "flag" not in option:
        text += " -x"
    if option["name"] == "--target":
        text += " -a '(__shardc_targets)'"
    elif "words" in option:
        text += f" -a '{' '.join(option['words'])}'"
    return f"{text} -d {fish_quoted(brief_help(option))}\n"


def fish(commands):
    text = FISH.replace("@TARGETS@", TARGETS)
    for command in commands:
        first, _, second = command["name"].partition(" ")
        when = (f"'__fish_seen_subcommand_from {first}; and not "
                f"__fish_seen_subcommand_from {second}'" if second
                else "__fish_use_subcommand")
        text += (f"complete -c shardc -n {when} -a {second or first} -d "
                 f"{fish_quoted(command['summary'])}\n")
        condition = fish_condition(command, commands)
        words = argument_words(command)
        if words:
            text += (f"complete -c shardc -n '{condition}' -f -a "
                     f"'{' '.join(words)}'\n")
        text += "".join(fish_option(condition, o) for o in options(command))
    return text


def main():
    shell, commands, output = sys.argv[1:]
    with open(commands, encoding="utf-8") as file:
        commands = complete(json.load(file))
    text = {"bash": bash, "fish": fish, "zsh": zsh}[shell](commands)
    with open(output, "w", encoding="utf-8") as file:
        file.write(text)


if __name__ == "__main__":
    main()
