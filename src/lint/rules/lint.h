// Directory: lint/rules. The lints. Each lint has one file with its check, its
// explanation and two examples.
// Its files include headers of these directories: source, model, match,
// match/proof, resolve, roles, comm, step, plan, lint/analysis.
//
// table.h lists the lints. `explain`, the SARIF rule list and the documentation
// are generated from the members of each lint. The two examples of a lint are
// its test.
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

// A small complete input of a lint, as the texts of its files. If a member of a
// good example is empty or 0, the value of the bad example is used.
struct LintExample {
  std::string_view mesh = {};      // mesh string or YAML
  std::string_view rules = {};     // YAML
  std::string_view manifest = {};  // JSON
  std::string_view model = {};     // config.json; may be empty
  std::string_view locked = {};    // committed plan; may be empty
  std::string_view target = {};    // more YAML keys of the example's target
  int64_t batch = 0;               // 0 if not given
  int64_t kv_len = 0;
  int64_t memory_bytes = 0;
};

struct Lint {
  Code code;
  bool preview = false;
  unsigned needs = 0;
  std::string_view what = {};     // what the lint finds, in full sentences
  std::string_view why = {};      // why the fault that the lint finds is bad
  std::string_view instead = {};  // what the user should write instead
  LintExample bad = {};           // input that is reported
  LintExample good = {};          // input that is not reported
  // The function that runs the lint. Null for the lints of unused ignores and
  // of the committed plan, whose findings are made by lint/suppress.cc and
  // lint/locked.cc.
  void (*check)(const Facts& facts, FindingSink& sink) = nullptr;
};

// Returns all lints, sorted by number.
std::span<const Lint* const> AllLints();

// Returns all codes, sorted by number: the codes of errors in files, of lints,
// of pipeline stages and of compiled programs.
std::span<const Code* const> AllCodes();

// Returns the code with the ID "SHD203", the number "203" or the name
// "too-long". Returns null if there is no such code.
const Code* FindCode(std::string_view text);
const Lint* FindLint(const Code& code);

}  // namespace shardc

#endif  // SHARDC_LINT_RULES_LINT_H_
