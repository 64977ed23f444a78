// Fuzz targets for the input from an editor: the language server's messages,
// and texts that are being typed.
#include <array>
#include <string>

#include "fuzz/targets.h"
#include "lsp/complete.h"
#include "lsp/hover.h"
#include "lsp/position.h"
#include "lsp/references.h"
#include "lsp/server.h"
#include "source/json_writer.h"
#include "source/utf8.h"

namespace shardc::fuzz {
namespace {

// A checker that finds no projects, because there are no files.
class NoProjects final : public lsp::Checker {
 public:
  bool AllowsOutside() const override { return true; }
  lsp::CheckedProject Check(const std::string& project,
                            const FileTexts&) override {
    lsp::CheckedProject out;
    out.path = project;
    return out;
  }
  bool IsSafe(const RuleFix&, const lsp::CheckedProject&) override {
    return false;
  }
  std::vector<lsp::NewText> SafeFixes(const lsp::CheckedProject&) override {
    return {};
  }
};

// Checks that every message that is sent is complete and is JSON.
void CheckOutput(const std::string& output) {
  lsp::FrameReader reader;
  reader.Feed(output);
  while (const auto frame = reader.Next()) {
    Findings findings;
    Require(frame->kind == lsp::Frame::Kind::kMessage &&
                JsonDocument::Parse(MakeSource("out", frame->body), findings),
            "messages of JSON");
  }
  Require(reader.empty(), "whole messages");
}

void Messages(std::string_view bytes) {
  NoProjects checker;
  lsp::Server server(checker, "0");
  server.Receive(lsp::Framed(R"({"id": 0, "method": "initialize"})"));
  // One server receives the bytes unchanged, in two pieces. Another receives
  // each line as a message.
  server.Receive(bytes.substr(0, bytes.size() / 2));
  server.Receive(bytes.substr(bytes.size() / 2));
  while (server.Step()) {
  }
  lsp::Server other(checker, "0");
  other.Receive(lsp::Framed(R"({"id": 0, "method": "initialize"})"));
  while (!bytes.empty()) {
    const size_t end = bytes.find('\n');
    other.Receive(lsp::Framed(bytes.substr(0, end)));
    bytes.remove_prefix(end == bytes.npos ? bytes.size() : end + 1);
  }
  while (other.Step()) {
  }
  other.CheckNow();
  CheckOutput(server.TakeOutput());
  CheckOutput(other.TakeOutput());
}

// Checks that edits are in order, and that formatting the formatted text
// changes no white space.
void CheckFormat(const std::string& text) {
  const SourceRef source = MakeSource("x", text);
  RuleFix all;
  all.edits = lsp::FormatEdits(source);
  size_t last = 0;
  for (const TextEdit& edit : all.edits) {
    Require(
        last <= edit.begin && edit.begin <= edit.end && edit.end <= text.size(),
        "edits in order");
    last = edit.end;
  }
  const SourceRef after = MakeSource("x", Fixed(text, {&all, 1}));
  Require(all.edits.empty() || lsp::FormatEdits(after).empty(),
          "a formatted text stays");
}

void Buffer(std::string_view bytes) {
  if (!IsUtf8(bytes)) return;
  NoProjects checker;
  lsp::Workspace workspace(checker);
  workspace.documents().Open("untitled:x", std::string(bytes), 1);
  workspace.Check();
  const lsp::Document& document = *workspace.documents().Find("untitled:x");
  const lsp::Lines lines(document.text);
  constexpr size_t kPlaces = 16;
  for (size_t i = 0; i <= kPlaces; ++i) {
    const size_t offset = bytes.size() * i / kPlaces;
    const auto position = lines.PositionOf(offset, lsp::Encoding::kUtf16);
    Require(lines.OffsetOf(position, lsp::Encoding::kUtf16) <= offset,
            "a position at its offset or before");
    lsp::HoverAt(workspace, document, offset);
    lsp::DefinitionsAt(workspace, document, offset);
    lsp::ReferencesAt(workspace, document, offset);
    lsp::RenameAt(workspace, document, offset, "renamed");
    Require(lsp::CompletionsAt(workspace, document, offset).begin <= offset,
            "a word that ends at the cursor");
  }
  lsp::InlayHintsIn(workspace, document, 0, bytes.size());
  Require(
      lsp::SemanticTokensOf(workspace, document, lsp::Encoding::kUtf16).size() %
              5 ==
          0,
      "five numbers of each token");
  CheckFormat(document.text);
  for (const lsp::Symbol& symbol : lsp::SymbolsOf(document)) {
    Require(symbol.begin <= symbol.name_begin &&
                symbol.name_end <= symbol.end && symbol.end <= bytes.size(),
            "a symbol's name in the symbol");
  }
}

}  // namespace

std::span<const NamedTarget> EditorTargets() {
  static constexpr std::array<NamedTarget, 2> kTargets = {{
      {"messages", Messages},
      {"buffer", Buffer},
  }};
  return kTargets;
}

}  // namespace shardc::fuzz
