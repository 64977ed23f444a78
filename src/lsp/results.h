// Writes the results and notifications of the language server as the JSON that
// the Language Server Protocol (LSP) defines.
#ifndef SHARDC_LSP_RESULTS_H_
#define SHARDC_LSP_RESULTS_H_

#include <string>
#include <string_view>
#include <vector>

#include "lsp/complete.h"
#include "lsp/hover.h"
#include "lsp/position.h"
#include "lsp/references.h"

namespace shardc::lsp {

// The open documents, and two settings that the client and the server have
// agreed on: the unit of columns, and whether edits state the version of their
// document.
struct ResultForm {
  const Documents& documents;
  Encoding encoding = Encoding::kUtf16;
  bool versioned_edits = false;  // edits state the version of their document
};

// Returns the result of `initialize`.
std::string CapabilitiesResult(Encoding encoding, std::string_view version);

// Returns the request `client/registerCapability`. After it, the client reports
// changes of files on disk.
std::string WatchRequest();

// Returns the parameters of `window/logMessage`, as a warning.
std::string LogParams(std::string_view text);

// Returns the parameters of `textDocument/publishDiagnostics`. `name` is the
// name of a document or the path of a file.
std::string DiagnosticsParams(const ResultForm& form, const std::string& name,
                              const std::vector<Finding>& findings);

// Returns the parameters of `textDocument/publishDiagnostics` for a document
// without findings. The editor then removes the findings that it still shows.
std::string NoDiagnosticsParams(const std::string& uri);

// Returns the result of `textDocument/hover`. `lines` are the lines of the
// request's document.
std::string HoverResult(const ResultForm& form, const Lines& lines,
                        const Hover& hover);

// Returns the result of `textDocument/completion`. `offset` is the cursor's
// offset in bytes.
std::string CompletionResult(const ResultForm& form, const Lines& lines,
                             const Completions& found, size_t offset);

std::string LocationsResult(const ResultForm& form,
                            const std::vector<Place>& places);

std::string SymbolsResult(const ResultForm& form, const Lines& lines,
                          const std::vector<Symbol>& symbols);

std::string InlayHintsResult(const ResultForm& form, const Lines& lines,
                             const std::vector<InlayHint>& hints);

// A file with its current text and the edits to apply to it.
struct FileEdits {
  std::string path;
  std::string text;
  std::vector<TextEdit> edits;
};

// Returns the edits of several files as a WorkspaceEdit of LSP.
std::string WorkspaceEditResult(const ResultForm& form,
                                const std::vector<FileEdits>& files);
// Returns the edits of the request's document as a list of TextEdit.
std::string EditsResult(const ResultForm& form, const Lines& lines,
                        const std::vector<TextEdit>& edits);
std::string RangeResult(const ResultForm& form, const Lines& lines,
                        size_t begin, size_t end);
// Returns the result of `textDocument/semanticTokens`. `numbers` are the tokens
// in the form of SemanticTokensOf (lsp/hover.h).
std::string TokensResult(const std::vector<int64_t>& numbers);

// Returns the code actions for a document. `all` are the edits of one more
// action, which applies all fixes that change no spec. If `all` is empty, this
// action is not offered.
std::string ActionsResult(const ResultForm& form, const Document& document,
                          const std::vector<Action>& actions,
                          const std::vector<FileEdits>& all);

}  // namespace shardc::lsp

#endif  // SHARDC_LSP_RESULTS_H_
