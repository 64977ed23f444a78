// Commands declare options as data; this is the one place that turns them
// into CLI11's and its exceptions into findings. An unknown command is looked
// for before anything else is said:
//
//   shardc resovle  ->  `resovle` is not a command, did you mean `resolve`?
#include "cli/parser.h"

#include <CLI/CLI.hpp>
#include <algorithm>
#include <sstream>
#include <utility>
#include <vector>

#include "cli/version.h"
#include "source/wording.h"

namespace shardc::cli {
namespace {

// CLI11's IsMember would print the choices a second time.
CLI::Validator OneOf(const Strings& choices) {
  return CLI::Validator(
      [choices](std::string& value) {
        if (std::find(choices.begin(), choices.end(), value) != choices.end()) {
          return std::string();
        }
        std::string known;
        for (const std::string& choice : choices) {
          known += (known.empty() ? "" : ", ") + choice;
        }
        return "`" + value + "` is none of: " + known;
      },
      "");
}

std::string Spelling(const Option& option) {
  if (option.letter == 0) return option.name;
  return std::string("-") + option.letter + "," + option.name;
}

// One overload for each kind of destination.
struct Adder {
  CLI::App& app;
  const Option& option;

  CLI::Option* operator()(bool* flag) const {
    return app.add_flag(Spelling(option), *flag, option.help);
  }
  template <class T>
  CLI::Option* operator()(T* value) const {
    return app.add_option(Spelling(option), *value, option.help);
  }
  CLI::Option* operator()(const Bounded& bounded) const {
    return (*this)(bounded.number)
        ->check(CLI::Range(bounded.least, bounded.most).description(""));
  }
};

void Add(CLI::App& app, const Option& option) {
  if (option.name == "--help") {
    app.set_help_flag(Spelling(option), option.help);
    return;
  }
  CLI::Option* added = std::visit(Adder{app, option}, option.to);
  added->required(option.required);
  if (!option.value.empty()) added->type_name(option.value);
  if (option.checked) added->check(OneOf(option.Choices()));
  if (!option.IsList()) return;
  if (option.several == Several::kAgain) added->allow_extra_args(false);
  if (option.several == Several::kCommas) added->delimiter(',');
}

// The parser of all commands, and what runs each.
struct Parser {
  explicit Parser(Common& common);

  CLI::App app;
  std::vector<std::pair<CLI::App*, Run>> runs;
};

Parser::Parser(Common& common) {
  app.name("shardc");
  app.description(
      "Compile sharding rules to plans, lint them, and prove by numbers that\n"
      "sharded attention computes what the dense model computes.");
  app.set_help_flag("-h,--help", "print this help message and exit");
  app.set_version_flag("--version", std::string("shardc ") + kVersion,
                       "print the version and exit");
  app.require_subcommand(1);
  app.get_formatter()->column_width(34);
  for (const Command* command : Commands()) {
    CLI::App* sub = app.add_subcommand(std::string(command->name),
                                       std::string(command->summary));
    sub->footer("Example:\n  " + std::string(command->example) + "\n");
    Declared declared = command->declare();
    for (const Option& option :
         WithCommon(std::move(declared.options), *command, common)) {
      Add(*sub, option);
    }
    runs.emplace_back(sub, std::move(declared.run));
  }
}

// The first word that is no flag: what was meant as the command.
std::string CommandWord(int argc, char** argv) {
  for (int i = 1; i < argc; ++i) {
    if (argv[i][0] != '-') return argv[i];
  }
  return {};
}

bool IsCommand(std::string_view word) {
  const auto all = Commands();
  return std::any_of(all.begin(), all.end(), [&](const Command* command) {
    return command->name == word;
  });
}

void UnknownCommand(const std::string& word, Findings& findings) {
  Strings names;
  for (const Command* command : Commands()) names.emplace_back(command->name);
  findings.Add(
      code::kUsage, {},
      word.empty() ? "no command is given" : "`" + word + "` is not a command",
      DidYouMean(word, names, "`shardc --help` lists the commands"));
}

}  // namespace

std::optional<Parsed> ParseArguments(int argc, char** argv, Common& common,
                                     Findings& findings) {
  Parser parser(common);
  const std::string word = CommandWord(argc, argv);
  try {
    parser.app.parse(argc, argv);
  } catch (const CLI::Success& asked) {  // --help, --version
    if (!word.empty() && !IsCommand(word)) {
      UnknownCommand(word, findings);
      return std::nullopt;
    }
    std::ostringstream out;
    parser.app.exit(asked, out, out);
    return Parsed{{}, out.str()};
  } catch (const CLI::ParseError& error) {
    if (!IsCommand(word)) {
      UnknownCommand(word, findings);
    } else {
      findings.Add(code::kUsage, {}, error.what(),
                   "`shardc " + word + " --help` shows its options");
    }
    return std::nullopt;
  }
  Parsed parsed;
  for (auto& [command, run] : parser.runs) {
    if (command->parsed()) parsed.run = std::move(run);
  }
  return parsed;
}

}  // namespace shardc::cli
