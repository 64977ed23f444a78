// All ways of matching, compared; for random tests and fuzzing.
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

// Matches every name by RE2 (the set of all patterns; where `one_by_one`, each
// pattern by itself, too), by the automaton, and by one that may hold only few
// states. Patterns that RE2 refuses are left out.
Compared CompareMatching(const MatchCase& one, bool one_by_one);

}  // namespace shardc

#endif  // SHARDC_TESTS_MATCH_DIFFERENTIAL_H_
