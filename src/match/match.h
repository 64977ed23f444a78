// Room: match. Names x patterns to winners. Knows source and model; the only
// room that sees RE2.
//
// A name is scanned once for all rules, by an automaton of our own that reads
// only what a name does not share with the one before. It finds the patterns
// that RE2 finds; the least index wins. Costs O(name bytes), hardly dependent
// on the number of rules. What it cannot do, or not within bounds, RE2 does.
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

namespace shardc {

struct Pattern {
  std::string_view text;
  Place place;           // of the text, for messages
  char separator = '/';  // the one the pattern is written for
};

// Which patterns are found in each name. Many names, few sets: each set of
// patterns stands once.
struct Matches {
  static constexpr int32_t kNone = -1;
  std::vector<int32_t> first;   // per name: least matching index, or kNone
  std::vector<uint32_t> set;    // per name: its set, numbered as first met
  std::vector<uint32_t> begin;  // per set + 1: range into `rules`
  std::vector<uint32_t> rules;  // matching indices, ascending in a set

  std::span<const uint32_t> Of(size_t name) const {
    const size_t s = set[name];
    return std::span(rules).subspan(begin[s], begin[s + 1] - begin[s]);
  }
};

// How names are matched; both give the same result.
enum class Engine : uint8_t { kAutomaton, kRe2 };

struct MatchOptions {
  int threads = 1;
  Engine engine = Engine::kAutomaton;
};

class Matcher {
 public:
  // Findings: regex-syntax (RE2's reason, the position in the pattern, a
  // rewrite for look-around and back-references), regex-limit (one pattern
  // or all together too large), regex-semantic.
  static std::optional<Matcher> Compile(std::span<const Pattern> patterns,
                                        Findings& findings);
  ~Matcher();
  Matcher(Matcher&&) noexcept;
  Matcher& operator=(Matcher&&) noexcept;

  // `separator` is the names' own (0: none); where a pattern is written for
  // the other one, it is replaced in the names before matching. Any number
  // of threads gives the same result.
  Matches Match(std::span<const std::string_view> names, char separator,
                const MatchOptions& options = {}) const;

  size_t size() const;
  std::string_view text(size_t index) const;
  char separator(size_t index) const;

  // Does pattern `index` match `name`, and where: the matched range.
  std::optional<std::pair<size_t, size_t>> Find(size_t index,
                                                std::string_view name,
                                                char separator) const;
  // The name that `rewrite` (\0..\9) makes of the match of pattern `index`,
  // whole (the rewrite gives the entire name), in `name`'s own separator.
  std::optional<std::string> Rewrite(size_t index, std::string_view name,
                                     char separator,
                                     std::string_view rewrite) const;

 private:
  struct State;
  explicit Matcher(std::unique_ptr<State> state);
  std::unique_ptr<State> state_;
};

// A single pattern, for everything that is not a rule list: `--select`,
// `place.index`, `--weight-decay-exclude`.
class Regex {
 public:
  static std::optional<Regex> Compile(const Pattern& pattern,
                                      Findings& findings);
  ~Regex();
  Regex(Regex&&) noexcept;
  Regex& operator=(Regex&&) noexcept;
  bool Found(std::string_view text) const;
  // First capturing group of the first match.
  std::optional<std::string_view> Group1(std::string_view text) const;
  int groups() const;

 private:
  struct State;
  explicit Regex(std::unique_ptr<State> state);
  std::unique_ptr<State> state_;
};

}  // namespace shardc

#endif  // SHARDC_MATCH_MATCH_H_
