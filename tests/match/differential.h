// Compares all implementations of matching, for random tests and fuzzing.
#ifndef SHARDC_TESTS_MATCH_DIFFERENTIAL_H_
#define SHARDC_TESTS_MATCH_DIFFERENTIAL_H_

#include <cstdint>
#include <string>
#include <vector>

namespace shardc {

struct MatchCase {
  std::vector<std::string> patterns;
  std::vector<std::string> names;  // any bytes
  char pattern_separator = '/';
  char name_separator = '/';
};

struct Compared {
  std::string difference;    // empty: none
  int64_t pairs = 0;         // names times usable patterns
  int64_t by_automaton = 0;  // of them, by the automaton alone
};

// Matches every name by RE2 as a set of all patterns, with `one_by_one` also by
// RE2 pattern by pattern, by the automaton, and by an automaton with a low
// limit on its states. Patterns that RE2 refuses are left out.
Compared CompareMatching(const MatchCase& one, bool one_by_one);

}  // namespace shardc

#endif  // SHARDC_TESTS_MATCH_DIFFERENTIAL_H_
