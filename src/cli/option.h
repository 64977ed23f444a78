// Describes a command's options and arguments as data. The parser reads this
// data, and the help, the manual and the completions are written from it.
#ifndef SHARDC_CLI_OPTION_H_
#define SHARDC_CLI_OPTION_H_

#include <optional>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

namespace shardc::cli {

using Strings = std::vector<std::string>;

// An integer that the parser library reads and checks against bounds.
struct Bounded {
  int* number;
  int least, most;
};

// Where an option's value is stored. An option without a value has a bool. A
// list gets a further element each time the option is given. Numbers other than
// Bounded are stored as text and parsed later, because the parser library reads
// 010 as 8.
using Destination =
    std::variant<bool*, std::string*, std::optional<std::string>*, Strings*,
                 Bounded>;

// The ways to pass several values to a list option. `-x a b` is accepted only
// if the command has no positional arguments, because b could be one.
enum class Several {
  kAgain,  // -x a -x b
  kWords,  // -x a -x b, or -x a b
  kCommas  // -x a -x b, or -x a b, or -x a,b
};

struct Option {
  std::string name;  // "--output", or "FILE" for an argument
  Destination to;
  // The placeholder of the value: "FILE", "N", "json|text".
  std::string value = {};
  std::string help;  // lower case, without a final period
  char letter = 0;   // 'o' if `-o` is a short form, else 0
  bool required = false;
  bool checked = false;  // whether only Choices() are accepted
  Several several = Several::kAgain;
  Strings words = {};     // completions in addition to Choices()
  std::string also = {};  // another name of the option
  // The heading of the option in --help. It is empty for the command's own
  // options.
  std::string group = {};

  bool IsArgument() const { return name.front() != '-'; }
  bool IsFlag() const { return std::holds_alternative<bool*>(to); }
  bool IsList() const { return std::holds_alternative<Strings*>(to); }
  // Returns whether the value is a path.
  bool TakesFile() const;
  // Returns the values of a placeholder that lists them, such as "json|text".
  // Returns an empty list for other placeholders, such as "FILE|AXES".
  Strings Choices() const;
};

using Options = std::vector<Option>;

void Append(Options& options, Options more);

// Returns the option `-o FILE`, which names the output of a command.
Option OutputOption(
    std::string* to,
    std::string help = "file to write the result to (default: stdout)");

// Returns the options with `heading` set for those that have no heading.
Options Under(std::string_view heading, Options options);

// Splits each value at commas and spaces: the value "a,b c" gives the three
// values a, b and c.
Strings SplitList(const Strings& given);

}  // namespace shardc::cli

#endif  // SHARDC_CLI_OPTION_H_
