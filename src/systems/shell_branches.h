// Which branches of a shell script run, as far as the text states it:
//
//   SIZE=8B
//   if [ $SIZE = 8B ]; then TP=2; else TP=8; fi    ->  TP=2
//   if [ $1 = 8B ]; then TP=2; else TP=8; fi       ->  either
#ifndef SHARDC_SYSTEMS_SHELL_BRANCHES_H_
#define SHARDC_SYSTEMS_SHELL_BRANCHES_H_

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "systems/config_text.h"

namespace shardc::systems {

enum class Truth : uint8_t { kFalse, kUnknown, kTrue };

// Returns whether the words are a test, such as `[ $A = b ]`, and what it
// yields. Other commands return nullopt.
std::optional<Truth> TestOf(std::span<const Word> words);

// How a command ends.
enum class CommandEnd : uint8_t { kOther, kAnd, kOr, kParenthesis, kBar };

// Follows the keywords and the commands of a script in the order of its text.
class Branches {
 public:
  // Reads the first word of a command. Returns whether it is a keyword, after
  // which another command begins.
  bool Keyword(std::string_view word);
  // Reads the words of a command, with the way in which it ends, and whether
  // assignments come before them. Returns whether the words are a part of a
  // condition rather than a command that is run.
  bool Command(const std::vector<Word>& words, CommandEnd end, bool assigns);
  // Reads the `;;` after a branch of `case`.
  void EndOfPattern();

  // Whether commands at this place are run.
  Truth live() const;
  // Why that is not known, such as "`$1` is an argument of the script".
  std::string why() const;

 private:
  struct Frame {
    bool of_case = false;
    bool in_condition = false;    // of `if`: before `then`
    bool in_pattern = false;      // of `case`: before `)`
    Truth taken = Truth::kFalse;  // whether an earlier branch runs
    Truth condition = Truth::kTrue;
    bool has_condition = false;
    Truth live = Truth::kTrue;
    std::string why;
    std::optional<Word> value;  // of `case`
  };
  void Take(Frame& frame, Truth condition);

  std::vector<Frame> frames_;
  // Of the list of commands: what the commands before yield, and how they are
  // joined with the next one.
  Truth chain_ = Truth::kTrue;
  CommandEnd joined_ = CommandEnd::kOther;
  std::string chain_why_;
};

}  // namespace shardc::systems

#endif  // SHARDC_SYSTEMS_SHELL_BRANCHES_H_
