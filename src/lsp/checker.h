// What checks a project for the server: `check`'s own machinery, which stands
// in a room that this one does not know.
#ifndef SHARDC_LSP_CHECKER_H_
#define SHARDC_LSP_CHECKER_H_

#include <memory>
#include <set>
#include <string>
#include <vector>

#include "lint/fix.h"
#include "model/project.h"
#include "plan/compile.h"
#include "source/file_texts.h"
#include "source/finding.h"

namespace shardc::lsp {

struct CheckedTarget {
  Target target;
  Findings errors;                           // of reading, with what was read
  std::shared_ptr<const Compiled> compiled;  // null: it cannot be
  std::vector<RuleFix> fixes;
};

struct CheckedProject {
  std::string path;   // of its file
  Findings findings;  // as `check` tells them
  std::vector<CheckedTarget> targets;
};

// A text that is to stand in place of another.
struct NewText {
  std::string path, text;
};

class Checker {
 public:
  virtual ~Checker() = default;

  // `texts` stand in for what files hold.
  virtual CheckedProject Check(const std::string& project,
                               const FileTexts& texts) = 0;
  // Whether the fix keeps every spec of the project's targets.
  virtual bool IsSafe(const RuleFix& fix, const CheckedProject& project,
                      const FileTexts& texts) = 0;
  // All fixes that do so together.
  virtual std::vector<NewText> SafeFixes(const CheckedProject& project,
                                         const FileTexts& texts) = 0;
};

}  // namespace shardc::lsp

#endif  // SHARDC_LSP_CHECKER_H_
