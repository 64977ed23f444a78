// Counts the parameters that each rule of a compiled target matches, and their
// bytes.
#ifndef SHARDC_LSP_COUNTS_H_
#define SHARDC_LSP_COUNTS_H_

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "plan/compile.h"

namespace shardc::lsp {

struct RuleCount {
  int64_t won = 0;    // number of parameters whose first match is this rule
  int64_t found = 0;  // number of parameters that match the rule's pattern
  // The bytes of the `won` parameters, in total and on the fullest device in
  // train mode; nullopt if unknown.
  std::optional<int64_t> bytes = 0;
  std::optional<int64_t> bytes_per_device = 0;
};

// Returns one RuleCount for each rule, in the order of the rules.
std::vector<RuleCount> CountsOf(const Compiled& compiled);

// Returns a text such as "4 of 6 parameters, 128 KiB".
std::string RuleCountText(const RuleCount& count);

}  // namespace shardc::lsp

#endif  // SHARDC_LSP_COUNTS_H_
