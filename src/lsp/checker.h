// The interface by which the language server checks a project. src/cli
// implements the interface, because src/lsp must not include headers of
// src/cli.
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
  Findings errors;  // errors in reading the target's inputs
  std::shared_ptr<const Compiled> compiled;  // null if compiling failed
  std::vector<RuleFix> fixes;
};

struct CheckedProject {
  std::string path;   // the path of the project file
  Findings findings;  // the findings that `check` reports
  std::vector<CheckedTarget> targets;
  // Whether some entries of rules files had errors, and the targets were
  // checked without these entries.
  bool partial = false;
  // The texts of open files that were checked, in place of the contents on
  // disk. Entries that could not be read are replaced by blanks.
  FileTexts texts = {};
};

struct NewText {
  std::string path, text;
};

class Checker {
 public:
  virtual ~Checker() = default;

  // Returns whether a project may name files outside its repository.
  virtual bool AllowsOutside() const = 0;

  // Checks a project. `texts` are the texts of open files, which are read in
  // place of the files on disk.
  virtual CheckedProject Check(const std::string& project,
                               const FileTexts& texts) = 0;
  // Returns whether the fix changes no spec of the project's targets.
  virtual bool IsSafe(const RuleFix& fix, const CheckedProject& project) = 0;
  // Returns the changed files after applying fixes that together change no
  // spec. Returns an empty list if `project.partial` is true.
  virtual std::vector<NewText> SafeFixes(const CheckedProject& project) = 0;
};

}  // namespace shardc::lsp

#endif  // SHARDC_LSP_CHECKER_H_
