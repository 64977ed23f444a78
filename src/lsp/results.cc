// Writes the results of requests as JSON. Other files compute the values, and
// the server (server.h) sends the text:
//
//   hover of bytes 8 to 12 of line 3
//     ->  {"contents": {"kind": "markdown", ...}, "range": {"start": ...}}
#include "lsp/results.h"

#include <algorithm>
#include <array>
#include <map>
#include <span>

#include "emit/findings/formats.h"
#include "lint/rules/all.h"
#include "lsp/hover.h"
#include "lsp/position.h"
#include "lsp/server.h"

namespace shardc::lsp {
namespace {

// Returns the number of a level in LSP's DiagnosticSeverity.
int SeverityOf(Level level) {
  switch (level) {
    case Level::kError:
      return 1;
    case Level::kWarning:
      return 2;
    case Level::kNote:
      return 3;
  }
  return 3;
}

Range RangeOf(const Lines& lines, const Place& place, Encoding encoding) {
  if (!place.HasPosition()) return {};
  return lines.RangeOf(place.begin, std::max(place.begin, place.end), encoding);
}

// Writes a range of a file as a Location of LSP.
void WriteLocation(JsonWriter& json, const std::string& uri,
                   const Range& range) {
  json.Object("uri", uri, "range", WrittenBy(WriteRange, range));
}

void WriteSymbols(JsonWriter& json, const std::vector<Symbol>& symbols,
                  const Lines& lines, Encoding encoding) {
  json.BeginArray();
  for (const Symbol& symbol : symbols) {
    json.Object(
        "name", symbol.name, "kind", static_cast<int>(symbol.kind), "range",
        WrittenBy(WriteRange,
                  lines.RangeOf(symbol.begin, symbol.end, encoding)),
        "selectionRange",
        WrittenBy(WriteRange,
                  lines.RangeOf(symbol.name_begin, symbol.name_end, encoding)),
        "children", WrittenBy(WriteSymbols, symbol.children, lines, encoding));
  }
  json.EndArray();
}

void WriteCapabilities(JsonWriter& json, Encoding encoding) {
  json.Object(
      "positionEncoding", EncodingName(encoding), "textDocumentSync",
      Record("openClose", true, "change", 2, "save", true), "hoverProvider",
      true, "definitionProvider", true, "documentSymbolProvider", true,
      "inlayHintProvider", true, "referencesProvider", true,
      "documentFormattingProvider", true, "renameProvider",
      Record("prepareProvider", true), "semanticTokensProvider",
      Record("legend",
             Record("tokenTypes", TokenTypes(), "tokenModifiers",
                    TokenModifiers()),
             "full", true),
      "completionProvider",
      Record("triggerCharacters", std::array{"[", ",", ":", "/"}),
      "codeActionProvider",
      Record("codeActionKinds", std::array{"quickfix", "source.fixAll"}));
}

// The URI by which LSP locations name a file, and the lines of the file's text.
struct Shown {
  std::string uri;  // the document's URI if the file is open
  Lines lines;
};

// Returns the URI and the lines of a file. Both are computed only once, for the
// first location in the file.
const Shown& ShownIn(std::map<const Source*, Shown>& files,
                     const ResultForm& form, const Source& source) {
  const auto at = files.find(&source);
  if (at != files.end()) return at->second;
  const Document* const open = form.documents.Showing(source.name());
  Shown shown{open == nullptr ? UriOfPath(source.name()) : open->uri,
              Lines(source.text())};
  return files.emplace(&source, std::move(shown)).first->second;
}

// Writes findings as LSP diagnostics. The lines of each file are indexed once.
class DiagnosticWriter {
 public:
  DiagnosticWriter(JsonWriter& json, Encoding encoding)
      : json_(json), encoding_(encoding) {}

  void Write(const Finding& finding) {
    json_.BeginObject();
    json_.Members("range", WrittenBy(WriteRange, RangeIn(FilePlace(finding))),
                  "severity", SeverityOf(finding.level), "code",
                  finding.code->Id(), "source", "shardc");
    std::string text = PlacedMessageText(finding);
    if (!finding.help.empty()) text += "\n" + finding.help;
    json_.Member("message", text);
    if (finding.code == &kDeadRule.code) {
      constexpr int kUnnecessary = 1;
      json_.Member("tags", std::array{kUnnecessary});
    }
    json_.Array("relatedInformation", finding.labels,
                [&](const Label& label) { Write(label); });
    json_.EndObject();
  }

 private:
  void Write(const Label& label) {
    if (label.place.source == nullptr || !IsFile(label.place)) return;
    json_.Object("location",
                 WrittenBy(WriteLocation, UriOfPath(label.place.source->name()),
                           RangeIn(label.place)),
                 "message", label.text);
  }

  Range RangeIn(const Place& place) {
    // Do not index the lines of a file if the place has no position: the file
    // may be a manifest of megabytes.
    if (!place.HasPosition()) return {};
    const auto at =
        lines_.try_emplace(place.source.get(), place.source->text()).first;
    return RangeOf(at->second, place, encoding_);
  }

  JsonWriter& json_;
  Encoding encoding_;
  std::map<const Source*, Lines> lines_;
};

void WriteTextEdits(JsonWriter& json, const Lines& lines,
                    const std::vector<TextEdit>& edits, Encoding encoding) {
  json.BeginArray();
  for (const TextEdit& edit : edits) {
    json.Object(
        "range",
        WrittenBy(WriteRange, lines.RangeOf(edit.begin, edit.end, encoding)),
        "newText", edit.text);
  }
  json.EndArray();
}

// Writes the edits of one file. If the client supports it, the edits are
// written with the version of the open document. Otherwise they are written as
// a member whose key is the file's URI.
void WriteEdits(JsonWriter& json, const ResultForm& form,
                const std::string& path, std::string_view text,
                const std::vector<TextEdit>& edits) {
  const Document* const open = form.documents.Showing(path);
  const std::string uri = open == nullptr ? UriOfPath(path) : open->uri;
  const Lines lines(text);
  const auto write = [&] { WriteTextEdits(json, lines, edits, form.encoding); };
  if (!form.versioned_edits) {
    json.Key(uri);
    write();
    return;
  }
  json.BeginObject();
  json.Member("textDocument",
              Record("uri", uri, "version",
                     open == nullptr ? std::nullopt : open->version));
  json.Key("edits");
  write();
  json.EndObject();
}

// Writes an LSP WorkspaceEdit. `write` writes the edits of each file.
template <class Write>
void WriteWorkspaceEdit(JsonWriter& json, const ResultForm& form,
                        const Write& write) {
  json.BeginObject();
  json.Key(form.versioned_edits ? "documentChanges" : "changes");
  form.versioned_edits ? json.BeginArray() : json.BeginObject();
  write();
  form.versioned_edits ? json.EndArray() : json.EndObject();
  json.EndObject();
}

void WriteFileEdits(JsonWriter& json, const ResultForm& form,
                    const std::vector<FileEdits>& files) {
  WriteWorkspaceEdit(json, form, [&] {
    for (const FileEdits& file : files) {
      WriteEdits(json, form, file.path, file.text, file.edits);
    }
  });
}

}  // namespace

std::string CapabilitiesResult(Encoding encoding, std::string_view version) {
  return Json([&](JsonWriter& json) {
    json.Object("capabilities", WrittenBy(WriteCapabilities, encoding),
                "serverInfo", Record("name", "shardc", "version", version));
  });
}

std::string WatchRequest() {
  return Json([](JsonWriter& json) {
    json.BeginObject();
    json.Members("jsonrpc", "2.0", "id", "watch", "method",
                 "client/registerCapability");
    json.Key("params");
    json.BeginObject();
    json.Key("registrations");
    json.BeginArray();
    json.BeginObject();
    json.Members("id", "watch", "method", "workspace/didChangeWatchedFiles");
    json.Key("registerOptions");
    json.BeginObject();
    json.Key("watchers");
    json.BeginArray();
    json.Object("globPattern", "**/*.{yaml,yml,json,gz,safetensors}");
    json.EndArray();
    json.EndObject();
    json.EndObject();
    json.EndArray();
    json.EndObject();
    json.EndObject();
  });
}

std::string LogParams(std::string_view text) {
  constexpr int kWarning = 2;
  return Json([&](JsonWriter& json) {
    json.Object("type", kWarning, "message", text);
  });
}

std::string DiagnosticsParams(const ResultForm& form, const std::string& name,
                              const std::vector<Finding>& findings) {
  const Document* const document = form.documents.Showing(name);
  return Json([&](JsonWriter& json) {
    json.BeginObject();
    json.Member("uri", document == nullptr ? UriOfPath(name) : document->uri);
    if (document != nullptr && document->version) {
      json.Member("version", *document->version);
    }
    json.Key("diagnostics");
    json.BeginArray();
    DiagnosticWriter writer(json, form.encoding);
    for (const Finding& finding : findings) writer.Write(finding);
    json.EndArray();
    json.EndObject();
  });
}

std::string NoDiagnosticsParams(const std::string& uri) {
  return Json([&](JsonWriter& json) {
    json.BeginObject();
    json.Member("uri", uri);
    json.Key("diagnostics");
    json.BeginArray();
    json.EndArray();
    json.EndObject();
  });
}

std::string HoverResult(const ResultForm& form, const Lines& lines,
                        const Hover& hover) {
  return Json([&](JsonWriter& json) {
    json.Object("contents", Record("kind", "markdown", "value", hover.markdown),
                "range",
                WrittenBy(WriteRange, lines.RangeOf(hover.begin, hover.end,
                                                    form.encoding)));
  });
}

std::string CompletionResult(const ResultForm& form, const Lines& lines,
                             const Completions& found, size_t offset) {
  return Json([&](JsonWriter& json) {
    json.BeginObject();
    json.Member("isIncomplete", false);
    json.Records("items", found.items, [&](const Completion& item) {
      json.Members(
          "label", item.label, "kind", static_cast<int>(item.kind), "detail",
          item.detail, "textEdit",
          Record("range",
                 WrittenBy(WriteRange,
                           lines.RangeOf(found.begin, offset, form.encoding)),
                 "newText", item.label));
    });
    json.EndObject();
  });
}

std::string LocationsResult(const ResultForm& form,
                            const std::vector<Place>& places) {
  return Json([&](JsonWriter& json) {
    std::map<const Source*, Shown> files;
    json.BeginArray();
    for (const Place& place : places) {
      const Shown& file = ShownIn(files, form, *place.source);
      WriteLocation(json, file.uri, RangeOf(file.lines, place, form.encoding));
    }
    json.EndArray();
  });
}

std::string SymbolsResult(const ResultForm& form, const Lines& lines,
                          const std::vector<Symbol>& symbols) {
  return Json([&](JsonWriter& json) {
    WriteSymbols(json, symbols, lines, form.encoding);
  });
}

std::string InlayHintsResult(const ResultForm& form, const Lines& lines,
                             const std::vector<InlayHint>& hints) {
  return Json([&](JsonWriter& json) {
    json.BeginArray();
    for (const InlayHint& hint : hints) {
      json.Object("position",
                  WrittenBy(WritePosition,
                            lines.PositionOf(hint.offset, form.encoding)),
                  "label", hint.label, "tooltip", hint.tooltip, "paddingLeft",
                  true);
    }
    json.EndArray();
  });
}

std::string WorkspaceEditResult(const ResultForm& form,
                                const std::vector<FileEdits>& files) {
  return Json([&](JsonWriter& json) { WriteFileEdits(json, form, files); });
}

std::string EditsResult(const ResultForm& form, const Lines& lines,
                        const std::vector<TextEdit>& edits) {
  return Json([&](JsonWriter& json) {
    WriteTextEdits(json, lines, edits, form.encoding);
  });
}

std::string RangeResult(const ResultForm& form, const Lines& lines,
                        size_t begin, size_t end) {
  return Json([&](JsonWriter& json) {
    WriteRange(json, lines.RangeOf(begin, end, form.encoding));
  });
}

std::string TokensResult(const std::vector<int64_t>& numbers) {
  return Json([&](JsonWriter& json) { json.Object("data", numbers); });
}

std::string ActionsResult(const ResultForm& form, const Document& document,
                          const std::vector<Action>& actions,
                          const std::vector<FileEdits>& all) {
  return Json([&](JsonWriter& json) {
    json.BeginArray();
    for (const Action& action : actions) {
      json.BeginObject();
      json.Members("title", action.title, "kind", "quickfix");
      if (action.preferred) json.Member("isPreferred", true);
      json.Key("diagnostics");
      json.BeginArray();
      DiagnosticWriter(json, form.encoding).Write(*action.finding);
      json.EndArray();
      json.Key("edit");
      WriteWorkspaceEdit(json, form, [&] {
        WriteEdits(json, form, document.name(), document.text, action.edits);
      });
      json.EndObject();
    }
    if (!all.empty()) {
      json.Object("title", "Apply all fixes that change no spec", "kind",
                  "source.fixAll", "edit",
                  WrittenBy(WriteFileEdits, form, all));
    }
    json.EndArray();
  });
}

}  // namespace shardc::lsp
