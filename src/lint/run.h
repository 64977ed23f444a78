// Directory: lint. Runs the lints and selects, suppresses and fixes their
// findings.
// Its files include headers of these directories: source, model, yaml, match,
// facts, plan, plan/difference, lint/analysis, lint/rules.
//
// This file runs the selected lints whose inputs are given.
#ifndef SHARDC_LINT_RUN_H_
#define SHARDC_LINT_RUN_H_

#include <functional>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "lint/analysis/facts.h"
#include "lint/analysis/topic.h"
#include "lint/rules/lint.h"
#include "model/project.h"
#include "source/finding.h"
#include "source/text_order.h"

namespace shardc {

// Decides which lints run and at which levels, from the key `lint` of the
// project file and from flags. Make() has checked that every name of a code
// exists.
class Selection {
 public:
  // Reads codes, names of lints, and families (`SHD2`). Returns nullopt after a
  // finding if a name is unknown or if `fail_on` is not a level. The finding is
  // at the name's place in the project file. A wrong name in a flag is reported
  // as a usage error without a place.
  static std::optional<Selection> Make(const LintSettings& settings,
                                       bool preview, Findings& findings);

  // Returns whether the lint is selected. A lint in preview is selected only
  // with --preview, or if `select` has its own code.
  bool Selects(const Lint& lint) const;
  // Returns whether findings of a code that belongs to no lint are reported.
  bool Selects(const Code& code) const;
  bool Ignores(const Code& code) const;
  Level LevelOf(const Finding& finding) const;
  // Returns whether a finding of this level makes the check fail.
  bool Fails(Level level) const;

 private:
  struct Pick {
    const Code* code = nullptr;  // null if the pick is a family of codes
    int family = -1;
    bool Covers(const Code& other) const {
      return code != nullptr ? code == &other : family == other.number / 100;
    }
  };
  static std::optional<Pick> ParsePick(const std::string& text,
                                       std::string_view flag,
                                       const LintSettings& settings,
                                       Findings& findings);

  std::vector<Pick> select_;
  std::vector<Pick> ignore_;
  std::map<int, Level> severity_;
  // The lowest level that fails the check; nullopt if no level does.
  std::optional<Level> fail_on_ = Level::kError;
  bool preview_ = false;
};

struct SkippedLint {
  const Lint* lint = nullptr;
  std::string missing;  // in words: "a model's config.json, a batch"
};

struct LintResult {
  std::vector<Finding> findings;  // in no particular order
  std::vector<SkippedLint> skipped;
  int64_t ignored = 0;  // number of findings that ignore comments removed
};

// Returns findings that other parts of the program make from facts. Called once
// more for each axis whose use of weights is not known (Facts::Assume()).
using MoreLints = std::function<FindingSink(const Facts& facts)>;

// Runs the selected lints. `extra` are findings of other parts of the program,
// such as findings about the committed plan. Ignore comments and changed levels
// apply to them and to those of `more` as well.
LintResult RunLints(Facts& facts, const Selection& selection,
                    FindingSink extra = {}, const MoreLints& more = {});

// Removes findings that other findings make redundant, and joins findings that
// have the same cause. Such findings come from several lints, or from one lint
// about many parameters.

// Removes redundant findings. Joins findings that have the same cause, or that
// are at the same place and differ only in the parameters of their messages.
// Each set of such findings is joined into its first finding. Findings keep
// their order. `names` are the names of the plan's parameters, to which
// LintFinding::members refers. A finding names each of its members once, in the
// order of their first mention. The argument must not contain ignored or
// deselected findings: these are not printed, so they must not make others
// redundant.
std::vector<Finding> OnceEach(FindingSink findings, const Texts& names);

}  // namespace shardc

#endif  // SHARDC_LINT_RUN_H_
