// Computes the completions that an editor offers at a cursor.
#ifndef SHARDC_LSP_COMPLETE_H_
#define SHARDC_LSP_COMPLETE_H_

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "lint/fix.h"
#include "lsp/workspace.h"

namespace shardc::lsp {

struct Completion {
  // The values that LSP defines for CompletionItemKind.
  enum class Kind : uint8_t {
    kVariable = 6,   // axes
    kModule = 9,     // packs
    kProperty = 10,  // keys
    kValue = 12,
    kConstant = 21,  // logical axes
    kStruct = 22,    // bundles
    kEvent = 23,     // diagnostics
  };
  std::string label;
  Kind kind = Kind::kValue;
  std::string detail;
};

struct Completions {
  size_t begin = 0;  // offset where the replaced word begins
  std::vector<Completion> items;
};

Completions CompletionsAt(const Workspace& workspace, const Document& document,
                          size_t offset);

struct Action {
  std::string title;
  const Finding* finding = nullptr;  // the finding to which the action applies
  bool preferred = false;            // whether the fix changes no spec
  std::vector<TextEdit> edits;       // edits of the document
};

// Returns the actions for the findings that are on the lines of the range
// [begin, end] of a checked document.
std::vector<Action> ActionsAt(const Workspace& workspace,
                              const Document& document, size_t begin,
                              size_t end);

// Returns the new texts of the files of the document's projects after applying
// all fixes that change no spec. Writes no file.
std::vector<NewText> FixAll(const Workspace& workspace,
                            const Document& document);

// Returns `x` if the help begins "did you mean `x`?" (source/wording.h).
// Returns nullopt for other texts.
std::optional<std::string> MeantIn(std::string_view help);

// Returns `x` and `y` if the help contains "write `x` or `y`". Returns an empty
// list for other texts.
std::vector<std::string> WrittenIn(std::string_view help);

}  // namespace shardc::lsp

#endif  // SHARDC_LSP_COMPLETE_H_
