// Room: lint/rules. The lints: one file each, with its check, its explanation
// and two examples.
// Includes: source, model, match, match/proof, resolve, roles, comm, step,
// lint/analysis.
//
// table.h lists the lints. `explain`, the SARIF rule list and the documentation
// are generated from it. The two examples of a lint are its test.
#ifndef SHARDC_LINT_RULES_LINT_H_
#define SHARDC_LINT_RULES_LINT_H_

#include <cstdint>
#include <span>
#include <string_view>
#include <vector>

#include "lint/analysis/need.h"
#include "lint/analysis/topic.h"
#include "source/code.h"
#include "source/finding.h"

namespace shardc {

class Facts;

// A small complete input, with the texts of its files. In a good example,
// fields that are empty or 0 have the values of the bad example.
struct LintExample {
  std::string_view mesh = {};      // mesh string or YAML
  std::string_view rules = {};     // YAML
  std::string_view manifest = {};  // JSON
  std::string_view model = {};     // config.json, or empty
  std::string_view locked = {};    // a committed plan, or empty
  std::string_view target = {};    // more keys of the target, YAML
  int64_t batch = 0;               // 0: not given
  int64_t kv_len = 0;
  int64_t memory_bytes = 0;
};

struct Lint {
  Code code;
  bool preview = false;
  unsigned needs = 0;
  std::string_view what = {};     // what it finds, in full sentences
  std::string_view why = {};      // why that is bad
  std::string_view instead = {};  // what to write instead
  LintExample bad = {};           // gives this finding
  LintExample good = {};          // does not give it
  // Null for two lints that other files report: unused ignores and the
  // committed plan.
  void (*check)(const Facts& facts, FindingSink& sink) = nullptr;
};

// Returns all lints, sorted by number.
std::span<const Lint* const> AllLints();

// Returns the codes of reading files, of lints, of pipeline stages and of
// compiled programs, sorted by number.
std::span<const Code* const> AllCodes();

// Finds a code by "SHD203", "203" or "too-long"; null if there is none.
const Code* FindCode(std::string_view text);
const Lint* FindLint(const Code& code);

}  // namespace shardc

#endif  // SHARDC_LINT_RULES_LINT_H_
