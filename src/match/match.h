// Room: match. Names x patterns to winners. Knows source and model; the only
// room that sees RE2.
//
// All patterns of one separator are one RE2::Set, so a name is scanned once
// for all rules. The set says every pattern found in a name; the least index
// wins. Costs O(total name bytes), independent of the number of rules until
// the automaton's memory is full, where RE2 falls back to a slower engine
// with the same answer.
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

// Which patterns are found in each name.
struct Matches {
  static constexpr int32_t kNone = -1;
  std::vector<int32_t> first;   // per name: least matching index, or kNone
  std::vector<uint32_t> begin;  // per name + 1: range into `all`
  std::vector<uint32_t> all;    // every matching index, ascending

  std::span<const uint32_t> Of(size_t name) const {
    return std::span(all).subspan(begin[name], begin[name + 1] - begin[name]);
  }
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
                int threads = 1) const;

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
  std::optional<std::string> Group1(std::string_view text) const;
  int groups() const;

 private:
  struct State;
  explicit Regex(std::unique_ptr<State> state);
  std::unique_ptr<State> state_;
};

}  // namespace shardc

#endif  // SHARDC_MATCH_MATCH_H_
