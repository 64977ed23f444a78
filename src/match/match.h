// Directory: match. Finds, for each parameter name, the rules whose patterns
// match it, and the first of them, which wins. The only directory that includes
// RE2.
// Its files include headers of these directories: source, match/automaton.
//
//   Matcher    compiles the patterns of a list of rules and matches names
//   Automaton  matches a name against all patterns at once (match/automaton)
//   Re2Finder  matches by RE2 what the automaton does not support
//   Sketch     the literal texts of a pattern, to suggest corrections of rules
//   Prover     proves statements about all possible names (match/proof)
//
// The automaton scans a name once for all rules and skips the prefix that the
// name shares with the previous one. It matches exactly what RE2 matches. With
// many names, the cost is about proportional to their bytes and hardly depends
// on the number of rules.
#ifndef SHARDC_MATCH_MATCH_H_
#define SHARDC_MATCH_MATCH_H_

#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "source/finding.h"
#include "source/text_order.h"

namespace shardc {

struct Pattern {
  std::string_view text;
  Place place;  // The place of the text, for messages.
  // The character with which the pattern `text` separates the parts of a name:
  // `/` or `.`.
  char separator = '/';
};

// The patterns that match each name. Models have many names and few different
// sets of matching patterns, so each set is stored once.
struct Matches {
  static constexpr int32_t kNone = -1;
  // Indexed by name: the first matching pattern, or kNone.
  std::vector<int32_t> first;
  // Indexed by name: the number of its set of matching patterns. Sets are
  // numbered in the order of the first name that has the set.
  std::vector<uint32_t> set;
  // Set s is the range [begin[s], begin[s+1]) of `rules`.
  std::vector<uint32_t> begin;
  std::vector<uint32_t> rules;  // Indices of patterns, ascending within a set.

  std::span<const uint32_t> Of(size_t name) const {
    const size_t s = set[name];
    return std::span(rules).subspan(begin[s], begin[s + 1] - begin[s]);
  }
  // Returns for each pattern the number of names that it matches. `patterns` is
  // the number of patterns.
  std::vector<int64_t> Counts(size_t patterns) const;
};

// The implementation of matching. Both engines have the same results, which
// tests compare.
enum class Engine : uint8_t { kAutomaton, kRe2 };

struct MatchOptions {
  int threads = 1;
  Engine engine = Engine::kAutomaton;
};

class Matcher {
 public:
  // Returns nullopt after adding a finding with one of these codes:
  //   regex-syntax    RE2 refuses a pattern, for example one with look-around
  //   regex-limit     one pattern, or all patterns together, are too large
  //   regex-semantic  a pattern contains a NUL byte
  //   limit           there are too many patterns
  static std::optional<Matcher> Compile(std::span<const Pattern> patterns,
                                        Findings& findings);
  ~Matcher();
  Matcher(Matcher&&) noexcept;
  Matcher& operator=(Matcher&&) noexcept;

  // Matches all names. `separator` is the separator of the names, or 0 if they
  // have none. For a pattern that is written with another separator, the
  // separator in the names is replaced before matching. The result does not
  // depend on the number of threads.
  Matches Match(Texts names, char separator,
                const MatchOptions& options = {}) const;

  size_t size() const;
  std::string_view text(size_t index) const;
  char separator(size_t index) const;

  // Returns the range [begin, end) of `name` that pattern `index` matches, or
  // nullopt if the pattern does not match.
  std::optional<std::pair<size_t, size_t>> Find(size_t index,
                                                std::string_view name,
                                                char separator) const;
  // Returns `rewrite` with \0 to \9 replaced by the groups of pattern `index`
  // in its match of `name`. The separator of the pattern is replaced by
  // `separator`, the separator of `name`. Returns nullopt if the pattern does
  // not match or lacks a group that `rewrite` uses.
  std::optional<std::string> Rewrite(size_t index, std::string_view name,
                                     char separator,
                                     std::string_view rewrite) const;

 private:
  struct State;
  explicit Matcher(std::unique_ptr<State> state);
  std::unique_ptr<State> state_;
};

// A single compiled pattern, which is not one of the patterns of a list of
// rules.
class Regex {
 public:
  static std::optional<Regex> Compile(const Pattern& pattern,
                                      Findings& findings);
  ~Regex();
  Regex(Regex&&) noexcept;
  Regex& operator=(Regex&&) noexcept;
  bool Found(std::string_view text) const;
  // Returns the text of the first capturing group in the leftmost match.
  // Returns nullopt if the pattern does not match or has no group.
  std::optional<std::string_view> Group1(std::string_view text) const;
  int groups() const;

 private:
  struct State;
  explicit Regex(std::unique_ptr<State> state);
  std::unique_ptr<State> state_;
};

}  // namespace shardc

#endif  // SHARDC_MATCH_MATCH_H_
