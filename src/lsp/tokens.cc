// Computes the semantic tokens of a file, by which an editor colours names and
// patterns. Each token is a pattern or a use of a name (lsp/names.h). It has a
// line, a column, a length, a type and modifiers. LSP counts a token's line
// from the line of the previous token. If both tokens are on one line, the
// column is counted from the previous token too. For example, line 2 is
// `spec: [BATCH, tp]`, and the previous token is on line 1:
//
//   BATCH  ->  1 line further, column 7, length 5, enum member, built in
//   tp     ->  same line, 7 columns further, length 2, variable
#include "lsp/tokens.h"

#include <array>

#include "lsp/names.h"
#include "parse/spec_read.h"

namespace shardc::lsp {
namespace {

constexpr std::array<std::string_view, 6> kTypes = {
    "regexp", "struct", "enumMember", "type", "property", "variable"};
constexpr std::array<std::string_view, 2> kModifiers = {"declaration",
                                                        "defaultLibrary"};
constexpr int64_t kDeclaration = 1, kBuiltIn = 2;

int64_t TypeOf(NameKind kind) {
  switch (kind) {
    case NameKind::kPattern:
      return 0;
    case NameKind::kBundle:
      return 1;
    case NameKind::kLogicalAxis:
      return 2;
    case NameKind::kRegistered:
      return 3;
    case NameKind::kAxisRule:
      return 4;
    case NameKind::kMeshAxis:
      return 5;
  }
  return 5;
}

int64_t ModifiersOf(const NameUse& use) {
  return (use.definition ? kDeclaration : 0) |
         (use.kind == NameKind::kLogicalAxis ? kBuiltIn : 0);
}

}  // namespace

std::span<const std::string_view> TokenTypes() { return kTypes; }
std::span<const std::string_view> TokenModifiers() { return kModifiers; }

std::vector<int64_t> SemanticTokensOf(const Workspace& workspace,
                                      const Document& document,
                                      Encoding encoding) {
  std::vector<int64_t> out;
  const FileKind kind = workspace.KindOf(document);
  if (kind == FileKind::kOther) return out;
  const auto tree = TreeOf(MakeSource(document.name(), document.text));
  if (!tree) return out;
  const RegisteredNames registered = RegisteredIn(workspace.ScopesOf(document));
  const Lines lines(document.text);
  Position last;
  for (const NameUse& use : NamesIn(*tree, kind, registered)) {
    const Range range = lines.RangeOf(use.begin, use.end, encoding);
    // Skip a pattern over several lines: a token must be within one line.
    if (range.start.line != range.end.line) continue;
    const int64_t line = range.start.line - last.line;
    out.insert(out.end(), {line,
                           line == 0 ? range.start.character - last.character
                                     : range.start.character,
                           range.end.character - range.start.character,
                           TypeOf(use.kind), ModifiersOf(use)});
    last = range.start;
  }
  return out;
}

}  // namespace shardc::lsp
