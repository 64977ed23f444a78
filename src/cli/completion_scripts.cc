// The three shells' completion scripts.
#include "cli/completion.h"

#include <string_view>

namespace shardc::cli {
namespace {

std::string Join(const Strings& words, std::string_view between) {
  std::string joined;
  for (const std::string& word : words) {
    if (!joined.empty()) joined += between;
    joined += word;
  }
  return joined;
}

std::string Replace(std::string text, std::string_view from,
                    std::string_view to) {
  for (size_t at = text.find(from); at != text.npos;
       at = text.find(from, at + to.size())) {
    text.replace(at, from.size(), to);
  }
  return text;
}

// The reply for what follows `option`; words with a colon are found whole,
// though bash splits the line there.
std::string BashCase(const CompletedCommand& command,
                     const CompletedOption& option) {
  Strings patterns;
  for (const std::string& spelling : option.Spellings()) {
    patterns.push_back("'" + command.name + " " + spelling + "'");
  }
  std::string reply;
  if (!option.words.empty()) reply += " -W '" + Join(option.words, " ") + "'";
  if (option.value == CompletedValue::kFile) reply += " -f";
  std::string text = "    " + Join(patterns, " | ") + ")\n";
  if (!reply.empty()) text += "      reply" + reply + "\n";
  return text + "      return ;;\n";
}

}  // namespace

std::string BashCompletion(const std::vector<CompletedCommand>& commands) {
  std::string after_option;
  std::string words;
  Strings names;
  for (const CompletedCommand& command : commands) {
    names.push_back(command.name);
    Strings spellings;
    for (const CompletedOption& option : command.options) {
      for (const std::string& s : option.Spellings()) spellings.push_back(s);
      if (option.value != CompletedValue::kNone) {
        after_option += BashCase(command, option);
      }
    }
    words += "    " + command.name + ")\n      options='" +
             Join(spellings, " ") + "'\n";
    if (!command.arguments.empty()) {
      words += "      arguments='" + Join(command.arguments, " ") + "'\n";
    }
    words += "      ;;\n";
  }
  return R"(# bash completion for shardc
_shardc() {
  local line=${COMP_LINE:0:COMP_POINT}
  local word=${line##*[[:space:]]}
  local before=${line%"$word"}
  local options='' arguments=''
  local -a words
  read -r -a words <<< "$before"
  COMPREPLY=()
  reply() {
    local colon=${word%"${word##*[:=]}"}
    mapfile -t COMPREPLY < <(compgen "$@" -- "$word")
    COMPREPLY=("${COMPREPLY[@]#"$colon"}")
  }
  if [ "${#words[@]}" -le 1 ]; then
    reply -W ')" +
         Join(names, " ") + R"( --help --version'
    return
  fi
  case "${words[1]} ${words[-1]}" in
)" + after_option +
         R"(  esac
  case "${words[1]}" in
)" + words +
         R"(  esac
  if [[ $word == -* ]]; then
    reply -W "$options"
  elif [ -n "$arguments" ]; then
    reply -W "$arguments"
  else
    reply -f
  fi
}
complete -o filenames -o bashdefault -F _shardc shardc
)";
}

namespace {

std::string ZshQuoted(const std::string& text) {
  std::string safe = Replace(text, "'", "'\\''");
  for (const char* special : {"[", "]", ":"}) {
    safe = Replace(safe, special, std::string("\\") + special);
  }
  return safe;
}

std::string ZshAction(const CompletedOption& option) {
  Strings words;
  for (const std::string& word : option.words) {
    words.push_back(Replace(word, ":", "\\:"));
  }
  const std::string list = Join(words, " ");
  if (option.value == CompletedValue::kWords) return "(" + list + ")";
  if (option.value != CompletedValue::kFile) return " ";
  return list.empty() ? "_files"
                      : "_alternative \"words:pack:(" + list +
                            ")\" \"files:file:_files\"";
}

std::string ZshOption(const CompletedOption& option) {
  const Strings spellings = option.Spellings();
  const std::string names = spellings.size() == 1
                                ? "'*" + spellings[0]
                                : "'*'{" + Join(spellings, ",") + "}'";
  std::string text = names + "[" + ZshQuoted(option.description) + "]";
  if (option.value != CompletedValue::kNone) {
    text += ":" + ZshQuoted(option.type) + ":" + ZshAction(option);
  }
  return text + "'";
}

}  // namespace

std::string ZshCompletion(const std::vector<CompletedCommand>& commands) {
  std::string names;
  std::string cases;
  for (const CompletedCommand& command : commands) {
    names += "    '" + command.name + ":" + ZshQuoted(command.summary) + "'\n";
    cases += "    " + command.name + ")\n      _arguments \\\n";
    for (const CompletedOption& option : command.options) {
      cases += "        " + ZshOption(option) + " \\\n";
    }
    cases +=
        command.arguments.empty()
            ? "        '*:file:_files'\n"
            : "        ':argument:(" + Join(command.arguments, " ") + ")'\n";
    cases += "      ;;\n";
  }
  return R"(#compdef shardc
# zsh completion for shardc
_shardc() {
  local -a commands=(
)" + names +
         R"(  )
  if (( CURRENT == 2 )); then
    _describe command commands
    return
  fi
  local command=$words[2]
  shift words
  (( CURRENT -= 1 ))
  case $command in
)" + cases +
         R"(  esac
}
if [[ $funcstack[1] == _shardc ]]; then
  _shardc "$@"
else
  compdef _shardc shardc
fi
)";
}

namespace {

std::string FishQuoted(const std::string& text) {
  return "'" + Replace(Replace(text, "\\", "\\\\"), "'", "\\'") + "'";
}

std::string FishOption(const CompletedCommand& command,
                       const CompletedOption& option) {
  std::string text = "complete -c shardc -n '__fish_seen_subcommand_from " +
                     command.name + "' -l " + option.long_name;
  if (!option.short_name.empty()) text += " -s " + option.short_name;
  if (option.value == CompletedValue::kFile) text += " -r -F";
  if (option.value == CompletedValue::kWords ||
      option.value == CompletedValue::kOther) {
    text += " -x";
  }
  if (!option.words.empty()) text += " -a '" + Join(option.words, " ") + "'";
  return text + " -d " + FishQuoted(option.description) + "\n";
}

}  // namespace

std::string FishCompletion(const std::vector<CompletedCommand>& commands) {
  std::string text =
      "# fish completion for shardc\n"
      "complete -c shardc -n __fish_use_subcommand -f\n"
      "complete -c shardc -n __fish_use_subcommand -l help -s h\n"
      "complete -c shardc -n __fish_use_subcommand -l version\n";
  for (const CompletedCommand& command : commands) {
    text += "complete -c shardc -n __fish_use_subcommand -a " + command.name +
            " -d " + FishQuoted(command.summary) + "\n";
    if (!command.arguments.empty()) {
      text += "complete -c shardc -n '__fish_seen_subcommand_from " +
              command.name + "' -f -a '" + Join(command.arguments, " ") + "'\n";
    }
    for (const CompletedOption& option : command.options) {
      text += FishOption(command, option);
    }
  }
  return text;
}

Strings CompletedOption::Spellings() const {
  Strings all = {"--" + long_name};
  if (!short_name.empty()) all.insert(all.begin(), "-" + short_name);
  return all;
}

}  // namespace shardc::cli
