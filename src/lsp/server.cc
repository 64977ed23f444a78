// Messages are handled one after the other, in order, so that a response uses
// the texts at the time of its request. Edits only mark the texts as changed;
// they are checked after a pause, or when a request needs the result:
//
//   didChange, didChange, hover  ->  one check, then the hover
#include "lsp/server.h"

#include <algorithm>
#include <set>
#include <utility>

#include "emit/findings/formats.h"
#include "lint/rules/all.h"
#include "lsp/actions.h"
#include "lsp/complete.h"
#include "lsp/define.h"
#include "lsp/hover.h"
#include "lsp/uri.h"
#include "source/file.h"

namespace shardc::lsp {
namespace {

constexpr std::string_view kNull = "null";

// The severity numbers of the protocol.
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

// Writes a place in another file, whose text was read when it was checked.
void WriteLocation(JsonWriter& json, const std::string& uri,
                   const Range& range) {
  json.BeginObject();
  json.Member("uri", uri);
  json.Key("range");
  WriteRange(json, range);
  json.EndObject();
}

void WriteSymbols(JsonWriter& json, const std::vector<Symbol>& symbols,
                  const Lines& lines, Encoding encoding) {
  json.BeginArray();
  for (const Symbol& symbol : symbols) {
    json.BeginObject();
    json.Member("name", symbol.name);
    json.Member("kind", static_cast<int>(symbol.kind));
    json.Key("range");
    WriteRange(json, lines.RangeOf(symbol.begin, symbol.end, encoding));
    json.Key("selectionRange");
    WriteRange(json,
               lines.RangeOf(symbol.name_begin, symbol.name_end, encoding));
    json.Key("children");
    WriteSymbols(json, symbol.children, lines, encoding);
    json.EndObject();
  }
  json.EndArray();
}

void WriteCapabilities(JsonWriter& json, Encoding encoding) {
  json.BeginObject();
  json.Member("positionEncoding", EncodingName(encoding));
  json.Key("textDocumentSync");
  json.BeginObject();
  json.Member("openClose", true);
  json.Member("change", 2);
  json.Member("save", true);
  json.EndObject();
  json.Member("hoverProvider", true);
  json.Member("definitionProvider", true);
  json.Member("documentSymbolProvider", true);
  json.Key("completionProvider");
  json.BeginObject();
  json.Key("triggerCharacters");
  json.BeginArray();
  for (const char* c : {"[", ",", ":", "/"}) json.String(c);
  json.EndArray();
  json.EndObject();
  json.Key("codeActionProvider");
  json.BeginObject();
  json.Key("codeActionKinds");
  json.BeginArray();
  json.String("quickfix");
  json.String("source.fixAll");
  json.EndArray();
  json.EndObject();
  json.EndObject();
}

// Writes findings in the protocol's form; the lines of each file are indexed
// once.
class DiagnosticWriter {
 public:
  DiagnosticWriter(JsonWriter& json, Encoding encoding)
      : json_(json), encoding_(encoding) {}

  void Write(const Finding& finding) {
    json_.BeginObject();
    json_.Key("range");
    WriteRange(json_, RangeIn(FilePlace(finding)));
    json_.Member("severity", SeverityOf(finding.level));
    json_.Member("code", finding.code->Id());
    json_.Member("source", "shardc");
    std::string text = PlacedMessageText(finding);
    if (!finding.help.empty()) text += "\n" + finding.help;
    json_.Member("message", text);
    if (finding.code == &kDeadRule.code) {
      constexpr int kUnnecessary = 1;
      json_.Key("tags");
      json_.BeginArray();
      json_.Integer(kUnnecessary);
      json_.EndArray();
    }
    json_.Key("relatedInformation");
    json_.BeginArray();
    for (const Label& label : finding.labels) Write(label);
    json_.EndArray();
    json_.EndObject();
  }

 private:
  void Write(const Label& label) {
    if (label.place.source == nullptr || !IsFile(label.place)) return;
    json_.BeginObject();
    json_.Key("location");
    WriteLocation(json_, UriOfPath(label.place.source->name()),
                  RangeIn(label.place));
    json_.Member("message", label.text);
    json_.EndObject();
  }

  Range RangeIn(const Place& place) {
    if (place.source == nullptr) return {};
    const auto at =
        lines_.try_emplace(place.source.get(), place.source->text()).first;
    return RangeOf(at->second, place, encoding_);
  }

  JsonWriter& json_;
  Encoding encoding_;
  std::map<const Source*, Lines> lines_;
};

// Whether the requested kinds of code action include this one.
bool Asks(const std::optional<JsonValue>& only, std::string_view kind,
          bool unasked) {
  if (!only || !only->IsArray()) return unasked;
  for (const JsonValue wanted : only->items()) {
    if (!wanted.IsString()) continue;
    const std::string_view text = wanted.string();
    if (kind == text || (kind.starts_with(text) && kind[text.size()] == '.')) {
      return true;
    }
  }
  return false;
}

}  // namespace

void Server::Receive(std::string_view bytes) {
  reader_.Feed(bytes);
  while (const auto frame = reader_.Next()) {
    if (frame->kind != Frame::Kind::kMessage) {
      Send(ErrorResponse(kNull,
                         frame->kind == Frame::Kind::kTooLarge
                             ? ErrorCode::kInvalidRequest
                             : ErrorCode::kParseError,
                         frame->kind == Frame::Kind::kTooLarge
                             ? "a message larger than any real one"
                             : "a header without a length"));
      continue;
    }
    std::string fault;
    auto message = ParseMessage(frame->body, &fault);
    if (!message) {
      if (!fault.empty()) Send(fault);
      continue;
    }
    if (message->method != "$/cancelRequest") {
      queue_.push_back(std::move(*message));
      continue;
    }
    const auto id = Below(message->params, {"id"});
    if (!id) continue;
    const Place place = id->place();
    const auto text =
        place.source->text().substr(place.begin, place.end - place.begin);
    for (Message& waiting : queue_) {
      if (waiting.id == text) waiting.cancelled = true;
    }
  }
}

bool Server::Step() {
  if (queue_.empty() || exit_) return false;
  const Message message = std::move(queue_.front());
  queue_.pop_front();
  Handle(message);
  return true;
}

std::string Server::TakeOutput() { return std::exchange(output_, {}); }

void Server::Handle(const Message& message) {
  if (!message.IsRequest()) {
    HandleNotification(message);
    return;
  }
  error_.reset();
  std::string result(kNull);
  if (message.cancelled) {
    Fail(ErrorCode::kCancelled, "cancelled");
  } else {
    result = ResultOf(message);
  }
  if (error_) {
    Send(ErrorResponse(message.id, error_->first, error_->second));
  } else {
    Send(Response(message.id, result));
  }
}

void Server::Fail(ErrorCode code, std::string message) {
  error_.emplace(code, std::move(message));
}

void Server::HandleNotification(const Message& message) {
  const std::string& method = message.method;
  if (method == "exit") {
    exit_ = StatusAtEnd();
  } else if (!initialized_ || shutdown_) {
    return;
  } else if (method == "initialized") {
    if (can_watch_) Watch();
  } else if (method == "textDocument/didOpen") {
    Open(message);
  } else if (method == "textDocument/didChange") {
    Change(message);
  } else if (method == "textDocument/didClose") {
    Close(message);
  } else if (method == "textDocument/didSave" ||
             method == "workspace/didChangeWatchedFiles") {
    edited_ = true;
  }
}

std::string Server::ResultOf(const Message& message) {
  const std::string& method = message.method;
  if (method == "initialize") return Initialize(message);
  if (!initialized_) {
    Fail(ErrorCode::kNotInitialized, "`initialize` comes first");
    return {};
  }
  if (shutdown_) {
    Fail(ErrorCode::kInvalidRequest, "the server is shut down");
    return {};
  }
  if (method == "shutdown") {
    shutdown_ = true;
    return std::string(kNull);
  }
  const bool places = method == "textDocument/hover" ||
                      method == "textDocument/completion" ||
                      method == "textDocument/definition";
  const bool actions = method == "textDocument/codeAction";
  if (!places && !actions && method != "textDocument/documentSymbol") {
    Fail(ErrorCode::kMethodNotFound, "there is no method `" + method + "`");
    return {};
  }
  const Document* const document = DocumentOf(message);
  if (document == nullptr) return {};
  if (actions) return Actions(*document, message);
  if (!places) return Symbols(*document);
  const auto position = PositionBelow(message.params, {"position"});
  if (!position) {
    Fail(ErrorCode::kInvalidParams, "no position");
    return {};
  }
  if (method == "textDocument/hover") return Hover(*document, *position);
  if (method == "textDocument/definition") return Define(*document, *position);
  return Complete(*document, *position);
}

std::string Server::Initialize(const Message& message) {
  if (initialized_) {
    Fail(ErrorCode::kInvalidRequest, "the server is initialized");
    return {};
  }
  initialized_ = true;
  const auto client = Below(message.params, {"capabilities"});
  // The client's first encoding that the server supports; UTF-16 by default.
  const auto wanted = Below(client, {"general", "positionEncodings"});
  if (wanted && wanted->IsArray()) {
    for (const JsonValue name : wanted->items()) {
      const auto known = name.IsString() ? ParseEncoding(name.string())
                                         : std::optional<Encoding>();
      if (!known) continue;
      encoding_ = *known;
      break;
    }
  }
  can_watch_ = TrueBelow(
      client, {"workspace", "didChangeWatchedFiles", "dynamicRegistration"});
  versioned_edits_ =
      TrueBelow(client, {"workspace", "workspaceEdit", "documentChanges"});
  return Json([&](JsonWriter& json) {
    json.BeginObject();
    json.Key("capabilities");
    WriteCapabilities(json, encoding_);
    json.Key("serverInfo");
    json.BeginObject();
    json.Member("name", "shardc");
    json.Member("version", version_);
    json.EndObject();
    json.EndObject();
  });
}

// Requests notifications of changes to files on disk.
void Server::Watch() {
  Send(Json([](JsonWriter& json) {
    json.BeginObject();
    json.Member("jsonrpc", "2.0");
    json.Member("id", "watch");
    json.Member("method", "client/registerCapability");
    json.Key("params");
    json.BeginObject();
    json.Key("registrations");
    json.BeginArray();
    json.BeginObject();
    json.Member("id", "watch");
    json.Member("method", "workspace/didChangeWatchedFiles");
    json.Key("registerOptions");
    json.BeginObject();
    json.Key("watchers");
    json.BeginArray();
    json.BeginObject();
    json.Member("globPattern", "**/*.{yaml,yml,json,gz,safetensors}");
    json.EndObject();
    json.EndArray();
    json.EndObject();
    json.EndObject();
    json.EndArray();
    json.EndObject();
    json.EndObject();
  }));
}

void Server::Log(std::string_view text) {
  constexpr int kWarning = 2;
  Send(Notification("window/logMessage", Json([&](JsonWriter& json) {
                      json.BeginObject();
                      json.Member("type", kWarning);
                      json.Member("message", text);
                      json.EndObject();
                    })));
}

const Document* Server::DocumentOf(const Message& message) {
  const auto uri = TextBelow(message.params, {"textDocument", "uri"});
  const Document* const document =
      uri ? std::as_const(workspace_).documents().Find(*uri) : nullptr;
  if (document == nullptr) {
    Fail(ErrorCode::kInvalidParams, "no document that is open");
  }
  return document;
}

void Server::Open(const Message& message) {
  auto uri = TextBelow(message.params, {"textDocument", "uri"});
  auto text = TextBelow(message.params, {"textDocument", "text"});
  if (!uri || !text) return Log("a document was opened without a text");
  workspace_.documents().Open(
      std::move(*uri), std::move(*text),
      NumberBelow(message.params, {"textDocument", "version"}));
  edited_ = true;
}

void Server::Change(const Message& message) {
  const auto uri = TextBelow(message.params, {"textDocument", "uri"});
  Document* const document = uri ? workspace_.documents().Find(*uri) : nullptr;
  const auto changes = Below(message.params, {"contentChanges"});
  if (document == nullptr || !changes || !changes->IsArray()) {
    return Log("a change of no document that is open");
  }
  edited_ = true;
  for (const JsonValue change : changes->items()) {
    auto text = TextBelow(change, {"text"});
    const auto written = Below(change, {"range"});
    lsp::Change one{RangeBelow(change, {"range"}), text.value_or("")};
    const bool whole = !written || written->IsNull();
    if (!text || (!whole && !one.range)) {
      // Its text is unknown until the document is opened again.
      workspace_.documents().Close(*uri);
      return Log("a change that cannot be read; the document is left alone");
    }
    Apply(one, encoding_, document->text);
  }
  document->version = NumberBelow(message.params, {"textDocument", "version"});
}

void Server::Close(const Message& message) {
  const auto uri = TextBelow(message.params, {"textDocument", "uri"});
  if (!uri) return;
  workspace_.documents().Close(*uri);
  edited_ = true;
}

void Server::EnsureChecked() {
  if (edited_) CheckNow();
}

void Server::CheckNow() {
  edited_ = false;
  workspace_.Check();
  Publish();
}

std::string Server::DiagnosticsOf(const std::string& name,
                                  const std::vector<Finding>& findings) const {
  const Document* const document = workspace_.documents().Showing(name);
  return Json([&](JsonWriter& json) {
    json.BeginObject();
    json.Member("uri", document == nullptr ? UriOfPath(name) : document->uri);
    if (document != nullptr && document->version) {
      json.Member("version", *document->version);
    }
    json.Key("diagnostics");
    json.BeginArray();
    DiagnosticWriter writer(json, encoding_);
    for (const Finding& finding : findings) writer.Write(finding);
    json.EndArray();
    json.EndObject();
  });
}

// Publishes the findings of every open document, and of every other file that
// has or had findings.
void Server::Publish() {
  std::map<std::string, std::string> next;
  const auto add = [&](const std::string& name,
                       const std::vector<Finding>& findings) {
    const Document* const document = workspace_.documents().Showing(name);
    next[document == nullptr ? UriOfPath(name) : document->uri] =
        DiagnosticsOf(name, findings);
  };
  for (const auto& [uri, document] : workspace_.documents().all()) {
    add(document.name(), {});
  }
  for (const auto& [name, findings] : workspace_.found()) add(name, findings);
  for (const auto& earlier : published_) {
    const std::string& uri = earlier.first;
    if (next.contains(uri)) continue;
    Send(Notification("textDocument/publishDiagnostics",
                      Json([&](JsonWriter& json) {
                        json.BeginObject();
                        json.Member("uri", uri);
                        json.Key("diagnostics");
                        json.BeginArray();
                        json.EndArray();
                        json.EndObject();
                      })));
  }
  for (const auto& [uri, params] : next) {
    const auto before = published_.find(uri);
    if (before != published_.end() && before->second == params) continue;
    Send(Notification("textDocument/publishDiagnostics", params));
  }
  published_ = std::move(next);
}

std::string Server::Hover(const Document& document, const Position& position) {
  EnsureChecked();
  const Lines lines(document.text);
  const auto hover =
      HoverAt(workspace_, document, lines.OffsetOf(position, encoding_));
  if (!hover) return std::string(kNull);
  return Json([&](JsonWriter& json) {
    json.BeginObject();
    json.Key("contents");
    json.BeginObject();
    json.Member("kind", "markdown");
    json.Member("value", hover->markdown);
    json.EndObject();
    json.Key("range");
    WriteRange(json, lines.RangeOf(hover->begin, hover->end, encoding_));
    json.EndObject();
  });
}

std::string Server::Complete(const Document& document,
                             const Position& position) {
  const Lines lines(document.text);
  const size_t offset = lines.OffsetOf(position, encoding_);
  const Completions found = CompletionsAt(workspace_, document, offset);
  return Json([&](JsonWriter& json) {
    json.BeginObject();
    json.Member("isIncomplete", false);
    json.Key("items");
    json.BeginArray();
    for (const Completion& item : found.items) {
      json.BeginObject();
      json.Member("label", item.label);
      json.Member("kind", static_cast<int>(item.kind));
      json.Member("detail", item.detail);
      json.Key("textEdit");
      json.BeginObject();
      json.Key("range");
      WriteRange(json, lines.RangeOf(found.begin, offset, encoding_));
      json.Member("newText", item.label);
      json.EndObject();
      json.EndObject();
    }
    json.EndArray();
    json.EndObject();
  });
}

std::string Server::Define(const Document& document, const Position& position) {
  EnsureChecked();
  const Lines lines(document.text);
  const auto places =
      DefinitionsAt(workspace_, document, lines.OffsetOf(position, encoding_));
  if (places.empty()) return std::string(kNull);
  return Json([&](JsonWriter& json) {
    json.BeginArray();
    for (const Place& place : places) {
      const std::string& name = place.source->name();
      const Document* const open = workspace_.documents().Showing(name);
      WriteLocation(json, open == nullptr ? UriOfPath(name) : open->uri,
                    RangeOf(Lines(place.source->text()), place, encoding_));
    }
    json.EndArray();
  });
}

std::string Server::Symbols(const Document& document) {
  const Lines lines(document.text);
  return Json([&](JsonWriter& json) {
    WriteSymbols(json, SymbolsOf(document), lines, encoding_);
  });
}

// Writes the edits of one file in a form that the client supports.
void Server::WriteEdits(JsonWriter& json, const std::string& path,
                        std::string_view text,
                        const std::vector<TextEdit>& edits) const {
  const Document* const open = workspace_.documents().Showing(path);
  const std::string uri = open == nullptr ? UriOfPath(path) : open->uri;
  const Lines lines(text);
  const auto write = [&] {
    json.BeginArray();
    for (const TextEdit& edit : edits) {
      json.BeginObject();
      json.Key("range");
      WriteRange(json, lines.RangeOf(edit.begin, edit.end, encoding_));
      json.Member("newText", edit.text);
      json.EndObject();
    }
    json.EndArray();
  };
  if (!versioned_edits_) {
    json.Key(uri);
    write();
    return;
  }
  json.BeginObject();
  json.Key("textDocument");
  json.BeginObject();
  json.Member("uri", uri);
  json.Member("version", open == nullptr ? std::nullopt : open->version);
  json.EndObject();
  json.Key("edits");
  write();
  json.EndObject();
}

std::string Server::Actions(const Document& document, const Message& message) {
  const auto range = RangeBelow(message.params, {"range"});
  if (!range) {
    Fail(ErrorCode::kInvalidParams, "no range");
    return {};
  }
  EnsureChecked();
  const auto only = Below(message.params, {"context", "only"});
  const Lines lines(document.text);
  std::vector<Action> actions;
  if (Asks(only, "quickfix", true)) {
    actions =
        ActionsAt(workspace_, document, lines.OffsetOf(range->start, encoding_),
                  lines.OffsetOf(range->end, encoding_));
  }
  std::vector<NewText> all;
  if (Asks(only, "source.fixAll", false)) all = FixAll(workspace_, document);
  const char* const key = versioned_edits_ ? "documentChanges" : "changes";
  return Json([&](JsonWriter& json) {
    const auto begin_edit = [&] {
      json.Key("edit");
      json.BeginObject();
      json.Key(key);
      versioned_edits_ ? json.BeginArray() : json.BeginObject();
    };
    const auto end_edit = [&] {
      versioned_edits_ ? json.EndArray() : json.EndObject();
      json.EndObject();
    };
    json.BeginArray();
    for (const Action& action : actions) {
      json.BeginObject();
      json.Member("title", action.title);
      json.Member("kind", "quickfix");
      if (action.preferred) json.Member("isPreferred", true);
      json.Key("diagnostics");
      json.BeginArray();
      DiagnosticWriter(json, encoding_).Write(*action.finding);
      json.EndArray();
      begin_edit();
      WriteEdits(json, document.name(), document.text, action.edits);
      end_edit();
      json.EndObject();
    }
    if (!all.empty()) {
      json.BeginObject();
      json.Member("title", "Make all fixes that change no spec");
      json.Member("kind", "source.fixAll");
      begin_edit();
      for (const NewText& text : all) {
        Findings none;
        const SourceRef before =
            ReadSource(text.path, &workspace_.texts(), none);
        if (before == nullptr) continue;
        WriteEdits(json, text.path, before->text(),
                   {{0, before->text().size(), text.text}});
      }
      end_edit();
      json.EndObject();
    }
    json.EndArray();
  });
}

}  // namespace shardc::lsp
