// The literal text with which all names that a pattern matches begin, and the
// literal text with which they end. If these texts of two rules contradict each
// other, no name matches both rules, and no search for such a name is needed.
#ifndef SHARDC_MATCH_PROOF_LITERAL_ENDS_H_
#define SHARDC_MATCH_PROOF_LITERAL_ENDS_H_

#include <cstdint>
#include <map>
#include <string>
#include <string_view>
#include <vector>

namespace shardc {

struct LiteralEnds {
  std::u32string begin;  // The text with which every matching name begins.
  // Every matching name ends with this text, which is stored reversed.
  std::u32string end;
};

// Returns the literal ends of a pattern. `begin` is empty unless the pattern
// begins with `^`, and `end` is empty unless the pattern ends with `$`. Both
// are empty if the automata do not support the pattern. With
// `either_separator`, a name may have `.` where the pattern has `/`, or the
// reverse. Therefore `begin` stops before the first `/` or `.`, and `end` has
// only the text after the last one.
LiteralEnds LiteralEndsOf(std::string_view pattern, bool either_separator);

// A list to which rules are added one by one. Before a rule is added, Count()
// and List() find the earlier rules that may match the same name as this rule.
class EarlierRules {
 public:
  // Returns the number of earlier rules that may match the same name as `rule`.
  // Compares only the texts LiteralEnds::end.
  int64_t Count(const LiteralEnds& rule) const;
  // Returns the indices of the rules that Count() counts, in ascending order.
  // Leaves out a rule if LiteralEnds::begin shows that no name matches both
  // rules.
  std::vector<uint32_t> List(const LiteralEnds& rule) const;
  void Add(LiteralEnds rule);

 private:
  template <typename Visit>
  void ForEachEnd(std::u32string_view end, const Visit& visit) const;

  // The beginning (LiteralEnds::begin) of each rule, indexed by rule.
  std::vector<std::u32string> begins_;
  std::map<std::u32string, std::vector<uint32_t>, std::less<>> by_end_;
};

}  // namespace shardc

#endif  // SHARDC_MATCH_PROOF_LITERAL_ENDS_H_
