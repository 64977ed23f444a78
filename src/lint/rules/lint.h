// Directory: lint/rules. The lints: functions that compare the facts of a
// compiled target with what is usual, each for one diagnostic code.
// Its files include headers of these directories: source, model, match,
// match/proof, program, resolve, roles, comm, step, facts, plan, lint/analysis.
//
// The page of a lint in texts/diagnostics has its code, what it needs, what it
// finds and two examples. The build makes lint/rules/all.h from the pages: it
// declares a constant Lint and a function for each of them, `kDeadRule` and
// `CheckDeadRule` for the page of dead-rule.
#ifndef SHARDC_LINT_RULES_LINT_H_
#define SHARDC_LINT_RULES_LINT_H_

#include <span>
#include <string_view>

#include "lint/analysis/topic.h"
#include "source/finding.h"

namespace shardc {

class Facts;

struct Lint {
  Code code;
  bool preview = false;
  unsigned needs = 0;  // bits of Need
  // Whether it guesses by names what parameters do. Its findings about
  // parameters of a traced program are left out.
  bool guesses = false;
  // The function that runs the lint. Null for the lints of unused ignores and
  // of the committed plan, whose findings lint/baseline.cc
  // makes.
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
