// `shardc completion SHELL`: what the argument parser knows of itself, as a
// completion script.
#include <CLI/CLI.hpp>
#include <algorithm>
#include <memory>

#include "cli/builtin_packs.h"
#include "cli/commands.h"
#include "cli/completion.h"
#include "cli/embedded.h"
#include "cli/output.h"
#include "model/axis_rules.h"

namespace shardc::cli {
namespace {

Strings Split(std::string_view text, char between) {
  Strings parts;
  for (size_t at = 0; at <= text.size();) {
    const size_t end = std::min(text.find(between, at), text.size());
    parts.emplace_back(text.substr(at, end - at));
    at = end + 1;
  }
  return parts;
}

Strings PackNames() {
  Strings names = {"auto"};
  for (const BuiltinPack& pack : BuiltinPacks()) {
    names.push_back("builtin:" + pack.name);
    names.push_back(pack.FullName());
  }
  std::sort(names.begin(), names.end());
  names.erase(std::unique(names.begin(), names.end()), names.end());
  return names;
}

Strings ModeNames() {
  Strings names;
  for (const Mode mode : kAllModes) names.emplace_back(ModeName(mode));
  return names;
}

// `error|drop|shrink` are words, FILE and DIR are paths.
void ReadType(CompletedOption& option) {
  option.value = CompletedValue::kOther;
  if (option.type.find("FILE") != option.type.npos ||
      option.type.find("DIR") != option.type.npos) {
    option.value = CompletedValue::kFile;
    if (option.long_name == "rules") option.words = PackNames();
  } else if (option.long_name == "mode" || option.long_name == "modes") {
    option.value = CompletedValue::kWords;
    option.words = ModeNames();
  } else if (option.type.find('|') != option.type.npos) {
    option.value = CompletedValue::kWords;
    option.words = Split(option.type, '|');
  }
}

CompletedOption ReadOption(const CLI::Option& from) {
  CompletedOption option;
  option.long_name = from.get_lnames().front();
  if (!from.get_snames().empty()) option.short_name = from.get_snames().front();
  option.description = from.get_description();
  const std::string type = from.get_type_name();
  option.type = type.substr(0, type.find(':'));  // what follows is a check
  if (from.get_items_expected_max() > 0) ReadType(option);
  return option;
}

Strings ArgumentWords(std::string_view command) {
  Strings words;
  if (command == "completion") return {"bash", "fish", "zsh"};
  if (command == "schema") {
    for (const EmbeddedFile& file : EmbeddedSchemas()) {
      words.emplace_back(file.name.substr(0, file.name.find('.')));
    }
  }
  return words;
}

std::vector<CompletedCommand> ReadCommands() {
  CLI::App app;
  Common common;
  std::vector<std::pair<CLI::App*, Run>> runs;
  DeclareAll(app, common, runs);
  std::vector<CompletedCommand> commands;
  for (const Command& command : Commands()) {
    CompletedCommand line{std::string(command.name),
                          std::string(command.summary),
                          {},
                          ArgumentWords(command.name)};
    const CLI::App* sub = app.get_subcommand(line.name);
    for (const CLI::Option* option : sub->get_options()) {
      if (!option->get_lnames().empty()) {
        line.options.push_back(ReadOption(*option));
      }
    }
    commands.push_back(std::move(line));
  }
  return commands;
}

int RunCompletion(const std::string& shell, Findings& findings) {
  std::string (*write)(const std::vector<CompletedCommand>&) =
      shell == "bash"   ? BashCompletion
      : shell == "fish" ? FishCompletion
      : shell == "zsh"  ? ZshCompletion
                        : nullptr;
  if (write == nullptr) {
    findings.Add(code::kUsage, {},
                 "`" + shell + "` is none of: bash, fish, zsh");
    return kFailed;
  }
  return PutOut(write(ReadCommands()), findings) ? kDone : kFailed;
}

}  // namespace

Run DeclareCompletion(CLI::App& app) {
  auto shell = std::make_shared<std::string>();
  app.add_option("SHELL", *shell, "bash, fish or zsh")->required();
  return [shell](const Common&, Findings& findings) {
    return RunCompletion(*shell, findings);
  };
}

}  // namespace shardc::cli
