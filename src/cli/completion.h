// What completion scripts say, apart from how each shell says it.
#ifndef SHARDC_CLI_COMPLETION_H_
#define SHARDC_CLI_COMPLETION_H_

#include <string>
#include <vector>

namespace shardc::cli {

using Strings = std::vector<std::string>;

// What may follow an option.
enum class CompletedValue { kNone, kWords, kFile, kOther };

struct CompletedOption {
  std::string long_name;   // without dashes
  std::string short_name;  // one letter, or empty
  std::string description;
  std::string type;
  CompletedValue value = CompletedValue::kNone;
  Strings words;  // kWords, or besides the files of kFile

  Strings Spellings() const;  // with dashes, the short one first
};

struct CompletedCommand {
  std::string name;
  std::string summary;
  std::vector<CompletedOption> options;
  Strings arguments;  // words of its positional argument; empty: files
};

std::string BashCompletion(const std::vector<CompletedCommand>& commands);
std::string FishCompletion(const std::vector<CompletedCommand>& commands);
std::string ZshCompletion(const std::vector<CompletedCommand>& commands);

}  // namespace shardc::cli

#endif  // SHARDC_CLI_COMPLETION_H_
