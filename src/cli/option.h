// A command's options and arguments as data: what the parser fills, and what
// help, manual and completions say.
#ifndef SHARDC_CLI_OPTION_H_
#define SHARDC_CLI_OPTION_H_

#include <optional>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

namespace shardc::cli {

using Strings = std::vector<std::string>;

// A whole number that the parser itself reads and bounds.
struct Bounded {
  int* number;
  int least, most;
};

// Where what was given goes. A bool is a flag, without a value; a list grows
// each time that the option is given. What a text means is for its reader to
// say: the parser's own numbers take 010 for 8.
using Destination =
    std::variant<bool*, std::string*, std::optional<std::string>*, Strings*,
                 Bounded>;

// How a list takes several values.
enum class Several {
  kAgain,  // -x a -x b
  kWords,  // and -x a b
  kCommas  // and -x a,b; words only where the command takes no argument
};

struct Option {
  std::string name;  // "--output"; of an argument what stands for it: "FILE"
  Destination to;
  std::string value =
      {};            // what stands for the value: "FILE", "N", "json|text"
  std::string help;  // lower case, no final period
  char letter = 0;   // 'o' where `-o` serves too
  bool required = false;
  bool checked = false;  // the parser refuses what `value` does not list
  Several several = Several::kAgain;
  Strings words = {};      // what a shell offers besides Choices()
  std::string also = {};   // another spelling of the name
  std::string group = {};  // its heading in --help; empty: its command's own

  bool IsArgument() const { return name.front() != '-'; }
  bool IsFlag() const { return std::holds_alternative<bool*>(to); }
  bool IsList() const { return std::holds_alternative<Strings*>(to); }
  // Whether the value is a path.
  bool TakesFile() const;
  // The values that "json|text" lists; none for "FILE|AXES".
  Strings Choices() const;
};

using Options = std::vector<Option>;

void Append(Options& options, Options more);

// `-o FILE`: where a command's result goes.
Option OutputOption(std::string* to, std::string help =
                                         "where the result goes (default: "
                                         "stdout)");

// Those of no group yet stand under `heading`.
Options Under(std::string_view heading, Options options);

// The values of a list, each of which may hold several: "a,b c" is three.
Strings SplitList(const Strings& given);

}  // namespace shardc::cli

#endif  // SHARDC_CLI_OPTION_H_
