// The literal texts with which all names that a pattern matches begin and end.
// They show quickly that two rules match no common name.
#ifndef SHARDC_MATCH_PROOF_LITERAL_ENDS_H_
#define SHARDC_MATCH_PROOF_LITERAL_ENDS_H_

#include <cstdint>
#include <map>
#include <string>
#include <string_view>
#include <vector>

namespace shardc {

struct LiteralEnds {
  std::u32string begin;  // every name that matches begins with it
  std::u32string end;    // the end of every name that matches, reversed
};

// Returns the literal ends of a pattern. `begin` is empty unless the pattern
// begins with `^`, and `end` is empty unless it ends with `$`. Both are empty
// if the automata do not support the pattern. With `either_separator`, names
// may have another separator than the pattern, so each text stops at the `/` or
// `.` that is nearest to its end of the name.
LiteralEnds LiteralEndsOf(std::string_view pattern, bool either_separator);

// A list to which rules are added one by one. Finds the rules added so far that
// may match a name that a new rule matches.
class EarlierRules {
 public:
  // Returns the number of rules added so far that may match a name that `rule`
  // matches too, judged only by LiteralEnds::end.
  int64_t Count(const LiteralEnds& rule) const;
  // Returns the indices of the rules that Count() counts, in ascending order.
  // Leaves out rules whose LiteralEnds::begin excludes a common name with
  // `rule`.
  std::vector<uint32_t> List(const LiteralEnds& rule) const;
  void Add(LiteralEnds rule);

 private:
  template <typename Visit>
  void ForEachEnd(std::u32string_view end, const Visit& visit) const;

  std::vector<std::u32string> begins_;  // indexed by rule
  std::map<std::u32string, std::vector<uint32_t>, std::less<>> by_end_;
};

}  // namespace shardc

#endif  // SHARDC_MATCH_PROOF_LITERAL_ENDS_H_
