// The texts with which every match of a pattern begins and ends, and the pairs
// of rules that these do not exclude.
#ifndef SHARDC_MATCH_PROOF_LITERAL_ENDS_H_
#define SHARDC_MATCH_PROOF_LITERAL_ENDS_H_

#include <cstdint>
#include <map>
#include <string>
#include <string_view>
#include <vector>

namespace shardc {

struct LiteralEnds {
  std::u32string begin;  // every name that matches begins so
  std::u32string end;  // every name that matches ends so, last character first
};

// Returns empty texts for a pattern without `^` or `$`, or that the automata do
// not support. With `either_separator`, names may have another separator than
// the pattern, and the texts stop before the first one.
LiteralEnds LiteralEndsOf(std::string_view pattern, bool either_separator);

// A list of rules to which rules are added one by one, and which finds the
// earlier rules that may match a name that the new rule matches.
class EarlierRules {
 public:
  // Returns how many of the rules added so far have an end that does not
  // exclude this rule.
  int64_t Count(const LiteralEnds& rule) const;
  // Returns these rules in order, without those whose beginning excludes it.
  std::vector<uint32_t> List(const LiteralEnds& rule) const;
  void Add(LiteralEnds rule);

 private:
  template <typename Visit>
  void ForEachEnd(std::u32string_view end, const Visit& visit) const;

  std::vector<std::u32string> begins_;  // by rule
  std::map<std::u32string, std::vector<uint32_t>, std::less<>> by_end_;
};

}  // namespace shardc

#endif  // SHARDC_MATCH_PROOF_LITERAL_ENDS_H_
