// The selected diagnostics and their levels.
#ifndef SHARDC_LINT_SELECT_H_
#define SHARDC_LINT_SELECT_H_

#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "lint/rules/lint.h"
#include "model/project.h"
#include "source/finding.h"

namespace shardc {

// The project's `lint` and the command line's flags, checked.
class Selection {
 public:
  // Takes codes, names, or families (`SHD2`). An unknown name is a usage
  // finding with the nearest name.
  static std::optional<Selection> Make(const LintSettings& settings,
                                       bool preview, Findings& findings);

  // Whether the lint runs. A preview lint needs --preview or its own code in
  // `select`.
  bool Selects(const Lint& lint) const;
  // Whether findings of a code that is no lint are reported.
  bool Selects(const Code& code) const;
  Level LevelOf(const Finding& finding) const;
  // Whether a finding of this level fails the check.
  bool Fails(Level level) const;

 private:
  struct Pick {
    const Code* code = nullptr;  // or a family
    int family = -1;
    bool Covers(const Code& other) const {
      return code != nullptr ? code == &other : family == other.number / 100;
    }
  };
  static std::optional<Pick> ParsePick(std::string_view text,
                                       std::string_view flag,
                                       Findings& findings);

  std::vector<Pick> select_;
  std::vector<Pick> ignore_;
  std::map<int, Level> severity_;
  std::optional<Level> fail_on_ = Level::kError;  // nothing: never
  bool preview_ = false;
};

}  // namespace shardc

#endif  // SHARDC_LINT_SELECT_H_
