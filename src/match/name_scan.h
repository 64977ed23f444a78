// Matches many names against all patterns, by the automaton or by RE2.
#ifndef SHARDC_MATCH_NAME_SCAN_H_
#define SHARDC_MATCH_NAME_SCAN_H_

#include <span>

#include "match/match.h"
#include "match/re2_finder.h"
#include "source/texts.h"

namespace shardc {

// Returns the patterns that match each name. `all` must be a finder for all of
// `patterns`.
Matches ScanNames(std::span<const CompiledPattern> patterns,
                  const Re2Finder& all, Texts names, char separator,
                  const MatchOptions& options);

}  // namespace shardc

#endif  // SHARDC_MATCH_NAME_SCAN_H_
