// Runs `check` for the language server.
#ifndef SHARDC_CLI_LSP_CHECKER_H_
#define SHARDC_CLI_LSP_CHECKER_H_

#include <string>
#include <vector>

#include "cli/check_targets.h"
#include "cli/target_audit.h"
#include "lsp/checker.h"
#include "target/manifest_cache.h"

namespace shardc::cli {

class LspChecker final : public lsp::Checker {
 public:
  LspChecker(const Common& common, bool allow_outside)
      : common_(common), allow_outside_(allow_outside) {}

  bool AllowsOutside() const override { return allow_outside_; }

  lsp::CheckedProject Check(const std::string& project,
                            const FileTexts& texts) override;
  bool IsSafe(const RuleFix& fix, const lsp::CheckedProject& project) override;
  std::vector<lsp::NewText> SafeFixes(
      const lsp::CheckedProject& project) override;

 private:
  lsp::CheckedProject Read(const std::string& path, const FileTexts& texts,
                           bool partial);
  InputFlags InputsWith(const FileTexts& texts);
  CheckOptions OptionsWith(const FileTexts& texts);

  Common common_;
  bool allow_outside_;
  ManifestCache manifests_;
  ProgramSums programs_;
};

}  // namespace shardc::cli

#endif  // SHARDC_CLI_LSP_CHECKER_H_
