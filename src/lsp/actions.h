// The code actions of an editor: fixes, and comments that ignore a finding.
#ifndef SHARDC_LSP_ACTIONS_H_
#define SHARDC_LSP_ACTIONS_H_

#include <cstddef>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "lint/fix.h"
#include "lsp/workspace.h"

namespace shardc::lsp {

struct Action {
  std::string title;
  const Finding* finding = nullptr;  // the finding that the action is for
  bool preferred = false;            // the fix changes no spec
  std::vector<TextEdit> edits;       // edits of the document
};

// Returns the actions for findings on the lines of [begin, end] of a checked
// document.
std::vector<Action> ActionsAt(const Workspace& workspace,
                              const Document& document, size_t begin,
                              size_t end);

// Returns the files of the document's projects after all fixes that change no
// spec.
std::vector<NewText> FixAll(const Workspace& workspace,
                            const Document& document);

// Returns `x` of a help that begins "did you mean `x`?" (source/wording.h);
// nullopt for other texts.
std::optional<std::string> MeantIn(std::string_view help);

// Returns `x` and `y` of a help with "write `x` or `y`"; empty if the help has
// no such words.
std::vector<std::string> WrittenIn(std::string_view help);

}  // namespace shardc::lsp

#endif  // SHARDC_LSP_ACTIONS_H_
