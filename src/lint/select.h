// Selects which diagnostics are reported, and their levels.
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

}  // namespace shardc

#endif  // SHARDC_LINT_SELECT_H_
