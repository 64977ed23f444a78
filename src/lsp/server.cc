// Handles the messages of an editor one after the other, so that a response
// uses the texts at the time of its request. An edit only marks its document as
// changed. The check of changed documents runs after a pause, or when a request
// needs the result of the check:
//
//   didChange, didChange, hover  ->  one check, then the hover
#include "lsp/server.h"

#include <algorithm>
#include <limits>
#include <utility>

#include "lsp/complete.h"
#include "lsp/hover.h"
#include "lsp/position.h"
#include "lsp/references.h"
#include "lsp/results.h"
#include "source/file.h"
#include "source/size.h"
#include "source/wording.h"

namespace shardc::lsp {
namespace {

constexpr std::string_view kNull = "null";

// Returns whether the kinds of code actions that a request lists (`only`)
// include `kind`. If the request has no list, returns `unasked`.
bool Includes(const std::optional<JsonValue>& only, std::string_view kind,
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
                             ? "the message is too large"
                             : "the header has no Content-Length"));
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

void Server::Log(std::string_view text) {
  Send(Notification("window/logMessage", LogParams(text)));
}

ResultForm Server::Form() const {
  return {workspace_.documents(), encoding_, versioned_edits_};
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
    if (can_watch_) Send(WatchRequest());
  } else if (method == "textDocument/didOpen") {
    Open(message);
  } else if (method == "textDocument/didChange") {
    Change(message);
  } else if (method == "textDocument/didClose") {
    Close(message);
  } else if (method == "textDocument/didSave" ||
             method == "workspace/didChangeWatchedFiles") {
    check_all_ = true;
  }
}

std::string Server::ResultOf(const Message& message) {
  const std::string& method = message.method;
  if (method == "initialize") return Initialize(message);
  if (!initialized_) {
    Fail(ErrorCode::kNotInitialized, "the first request must be `initialize`");
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
  const Handler answer = HandlerOf(method);
  if (answer == nullptr) {
    Fail(ErrorCode::kMethodNotFound, "unknown method `" + method + "`");
    return {};
  }
  const Document* const document = DocumentOf(message);
  return document == nullptr ? "" : (this->*answer)(*document, message);
}

Server::Handler Server::HandlerOf(std::string_view method) {
  constexpr std::string_view kAbout = "textDocument/";
  if (!method.starts_with(kAbout)) return nullptr;
  method.remove_prefix(kAbout.size());
  static constexpr std::pair<std::string_view, Handler> kHandlers[] = {
      {"hover", &Server::Hover},
      {"completion", &Server::Complete},
      {"definition", &Server::Define},
      {"documentSymbol", &Server::Symbols},
      {"codeAction", &Server::Actions},
      {"inlayHint", &Server::InlayHints},
      {"references", &Server::References},
      {"prepareRename", &Server::PrepareRename},
      {"rename", &Server::Rename},
      {"formatting", &Server::Format},
      {"semanticTokens/full", &Server::Tokens},
  };
  for (const auto& [name, answer] : kHandlers) {
    if (name == method) return answer;
  }
  return nullptr;
}

std::optional<size_t> Server::OffsetOf(const Lines& lines,
                                       const Message& message) {
  const auto position = PositionBelow(message.params, {"position"});
  if (position) return lines.OffsetOf(*position, encoding_);
  Fail(ErrorCode::kInvalidParams, "the request has no position");
  return std::nullopt;
}

std::optional<Server::Offsets> Server::RangeOf(const Lines& lines,
                                               const Message& message) {
  const auto range = RangeBelow(message.params, {"range"});
  if (range) {
    return Offsets{lines.OffsetOf(range->start, encoding_),
                   lines.OffsetOf(range->end, encoding_)};
  }
  Fail(ErrorCode::kInvalidParams, "the request has no range");
  return std::nullopt;
}

std::string Server::Initialize(const Message& message) {
  if (initialized_) {
    Fail(ErrorCode::kInvalidRequest, "the server is already initialized");
    return {};
  }
  initialized_ = true;
  const auto client = Below(message.params, {"capabilities"});
  // Use the first encoding of the client's list that the server supports. The
  // default is UTF-16.
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
  return CapabilitiesResult(encoding_, version_);
}

const Document* Server::DocumentOf(const Message& message) {
  const auto uri = TextBelow(message.params, {"textDocument", "uri"});
  const Document* const document =
      uri ? std::as_const(workspace_).documents().Find(*uri) : nullptr;
  if (document == nullptr) {
    Fail(ErrorCode::kInvalidParams, "the document is not open");
  }
  return document;
}

void Server::Open(const Message& message) {
  auto uri = TextBelow(message.params, {"textDocument", "uri"});
  auto text = TextBelow(message.params, {"textDocument", "text"});
  if (!uri || !text) return Log("the document was opened without a text");
  workspace_.documents().Open(
      std::move(*uri), std::move(*text),
      NumberBelow(message.params, {"textDocument", "version"}));
  check_all_ = true;
}

void Server::Change(const Message& message) {
  const auto uri = TextBelow(message.params, {"textDocument", "uri"});
  Document* const document = uri ? workspace_.documents().Find(*uri) : nullptr;
  const auto changes = Below(message.params, {"contentChanges"});
  if (document == nullptr || !changes || !changes->IsArray()) {
    return Log("the changed document is not open");
  }
  changed_.insert(*uri);
  EditBuffer buffer(std::move(document->text));
  for (const JsonValue change : changes->items()) {
    auto text = TextBelow(change, {"text"});
    const auto written = Below(change, {"range"});
    lsp::Change one{RangeBelow(change, {"range"}), text.value_or("")};
    const bool whole = !written || written->IsNull();
    if (!text || (!whole && !one.range)) {
      // The change cannot be applied, so the document's text is unknown until
      // the editor opens the document again.
      workspace_.documents().Close(*uri);
      check_all_ = true;
      return Log("the change cannot be parsed; the document is closed");
    }
    buffer.Apply(std::move(one), encoding_);
  }
  document->text = buffer.Take();
  document->version = NumberBelow(message.params, {"textDocument", "version"});
}

void Server::Close(const Message& message) {
  const auto uri = TextBelow(message.params, {"textDocument", "uri"});
  if (!uri) return;
  workspace_.documents().Close(*uri);
  check_all_ = true;
}

void Server::EnsureChecked() {
  if (HasEdits()) CheckNow();
}

void Server::CheckNow() {
  if (std::exchange(check_all_, false)) {
    workspace_.Check();
  } else {
    workspace_.CheckChanges(changed_);
  }
  changed_.clear();
  Publish();
}

// Publishes the findings of every open document, and of every other file that
// has or had findings. Findings that the client already has are not sent again.
void Server::Publish() {
  std::map<std::string, std::string> next;
  const auto add = [&](const std::string& name,
                       const std::vector<Finding>& findings) {
    const Document* const document = workspace_.documents().Showing(name);
    next[document == nullptr ? UriOfPath(name) : document->uri] =
        DiagnosticsParams(Form(), name, findings);
  };
  for (const auto& [uri, document] : workspace_.documents().all()) {
    add(document.name(), {});
  }
  for (const auto& [name, findings] : workspace_.found()) add(name, findings);
  for (const auto& earlier : published_) {
    const std::string& uri = earlier.first;
    if (next.contains(uri)) continue;
    Send(Notification("textDocument/publishDiagnostics",
                      NoDiagnosticsParams(uri)));
  }
  for (const auto& [uri, params] : next) {
    const auto before = published_.find(uri);
    if (before != published_.end() && before->second == params) continue;
    Send(Notification("textDocument/publishDiagnostics", params));
  }
  published_ = std::move(next);
}

std::string Server::Hover(const Document& document, const Message& message) {
  const Lines lines(document.text);
  const auto offset = OffsetOf(lines, message);
  if (!offset) return {};
  EnsureChecked();
  const auto hover = HoverAt(workspace_, document, *offset);
  return hover ? HoverResult(Form(), lines, *hover) : std::string(kNull);
}

std::string Server::Complete(const Document& document, const Message& message) {
  const Lines lines(document.text);
  const auto offset = OffsetOf(lines, message);
  if (!offset) return {};
  return CompletionResult(
      Form(), lines, CompletionsAt(workspace_, document, *offset), *offset);
}

std::string Server::Define(const Document& document, const Message& message) {
  const auto offset = OffsetOf(Lines(document.text), message);
  if (!offset) return {};
  EnsureChecked();
  const auto places = DefinitionsAt(workspace_, document, *offset);
  return places.empty() ? std::string(kNull) : LocationsResult(Form(), places);
}

std::string Server::Symbols(const Document& document, const Message&) {
  return SymbolsResult(Form(), Lines(document.text), SymbolsOf(document));
}

std::string Server::InlayHints(const Document& document,
                               const Message& message) {
  const Lines lines(document.text);
  const auto range = RangeOf(lines, message);
  if (!range) return {};
  EnsureChecked();
  return InlayHintsResult(
      Form(), lines,
      InlayHintsIn(workspace_, document, range->begin, range->end));
}

std::string Server::References(const Document& document,
                               const Message& message) {
  const auto offset = OffsetOf(Lines(document.text), message);
  if (!offset) return {};
  EnsureChecked();
  const bool definitions =
      TrueBelow(message.params, {"context", "includeDeclaration"});
  std::vector<Place> places;
  for (Reference& one : ReferencesAt(workspace_, document, *offset)) {
    if (!one.definition || definitions) places.push_back(std::move(one.place));
  }
  return places.empty() ? std::string(kNull) : LocationsResult(Form(), places);
}

std::string Server::PrepareRename(const Document& document,
                                  const Message& message) {
  const Lines lines(document.text);
  const auto offset = OffsetOf(lines, message);
  if (!offset) return {};
  EnsureChecked();
  const Renaming renaming = RenameAt(workspace_, document, *offset, {});
  if (!renaming.refusal.empty()) {
    Fail(ErrorCode::kRequestFailed, renaming.refusal);
    return {};
  }
  return RangeResult(Form(), lines, renaming.name.begin, renaming.name.end);
}

std::string Server::Rename(const Document& document, const Message& message) {
  const auto offset = OffsetOf(Lines(document.text), message);
  const auto name = TextBelow(message.params, {"newName"});
  if (!offset) return {};
  if (!name || name->empty()) {
    Fail(ErrorCode::kInvalidParams, "the request has no new name");
    return {};
  }
  EnsureChecked();
  Renaming renaming = RenameAt(workspace_, document, *offset, *name);
  if (!renaming.refusal.empty()) {
    Fail(ErrorCode::kRequestFailed, renaming.refusal);
    return {};
  }
  std::vector<FileEdits> files;
  for (RenamedFile& file : renaming.files) {
    files.push_back({file.source->name(), std::string(file.source->text()),
                     std::move(file.edits)});
  }
  return WorkspaceEditResult(Form(), files);
}

std::string Server::Format(const Document& document, const Message&) {
  if (workspace_.KindOf(document) == FileKind::kOther) {
    return std::string(kNull);
  }
  return EditsResult(Form(), Lines(document.text),
                     FormatEdits(MakeSource(document.name(), document.text)));
}

std::string Server::Tokens(const Document& document, const Message&) {
  return TokensResult(SemanticTokensOf(workspace_, document, encoding_));
}

std::string Server::Actions(const Document& document, const Message& message) {
  const Lines lines(document.text);
  const auto range = RangeOf(lines, message);
  if (!range) return {};
  EnsureChecked();
  const auto only = Below(message.params, {"context", "only"});
  std::vector<Action> actions;
  if (Includes(only, "quickfix", true)) {
    actions = ActionsAt(workspace_, document, range->begin, range->end);
  }
  std::vector<FileEdits> all;
  if (Includes(only, "source.fixAll", false)) {
    for (NewText& text : FixAll(workspace_, document)) {
      Findings none;
      const SourceRef before = ReadSource(text.path, &workspace_.texts(), none);
      if (before == nullptr) continue;
      std::string now(before->text());
      const size_t size = now.size();
      all.push_back({text.path, std::move(now), {{0, size, text.text}}});
    }
  }
  return ActionsResult(Form(), document, actions, all);
}

// Divides a stream of bytes into messages, and skips bytes that belong to no
// message. A message has a header, which ends with an empty line and states the
// number of bytes of the body. Bytes that are not a header are dropped up to
// the next possible header. One faulty message therefore does not affect the
// messages after it. For example:
//
//   "Content-Length: 2\r\n\r\n{}x\r\n\r\n"
//     ->  the message `{}`, then a broken frame for `x` and its empty line

namespace {

constexpr std::string_view kEnd = "\r\n\r\n";
constexpr std::string_view kLength = "content-length:";

// Parses decimal digits, which spaces may surround. Returns nullopt for other
// text. A number that does not fit in 64 bits yields the largest value.
std::optional<uint64_t> ParseLength(std::string_view text) {
  text = Trim(text);
  if (text.empty() || text.find_first_not_of("0123456789") != text.npos) {
    return std::nullopt;
  }
  uint64_t out = 0;
  for (const char c : text) {
    if (__builtin_mul_overflow(out, uint64_t{10}, &out) ||
        __builtin_add_overflow(out, static_cast<uint64_t>(c - '0'), &out)) {
      return std::numeric_limits<uint64_t>::max();
    }
  }
  return out;
}

// Returns the length that a header states. Returns nullopt in these cases: the
// header states no length or several, the length is not a number, or a line of
// the header is not a field.
std::optional<uint64_t> LengthIn(std::string_view header) {
  std::optional<uint64_t> length;
  while (!header.empty()) {
    const size_t end = std::min(header.find("\r\n"), header.size());
    const std::string line = FoldCase(std::string(header.substr(0, end)));
    header.remove_prefix(std::min(end + 2, header.size()));
    if (line.find(':') == std::string::npos) return std::nullopt;
    if (!line.starts_with(kLength)) continue;
    if (length) return std::nullopt;
    length = ParseLength(std::string_view(line).substr(kLength.size()));
    if (!length) return std::nullopt;
  }
  return length;
}

}  // namespace

void FrameReader::Feed(std::string_view bytes) {
  const size_t passed =
      static_cast<size_t>(std::min<uint64_t>(skip_, bytes.size()));
  skip_ -= passed;
  buffer_.append(bytes.substr(passed));
}

std::optional<Frame> FrameReader::Next() {
  if (!body_) {
    if (auto fault = ReadHeader()) return fault;
  }
  if (!body_ || buffer_.size() < *body_) return std::nullopt;
  Frame out{Frame::Kind::kMessage, buffer_.substr(0, *body_)};
  buffer_.erase(0, *body_);
  body_.reset();
  return out;
}

Frame FrameReader::Broken(size_t drop) {
  // If the bytes to drop contain `Content-Length:` after their first byte, keep
  // them from there on, because a valid header may begin there.
  const size_t next =
      FoldCase(buffer_.substr(0, drop)).find(kLength, drop > 0 ? 1 : 0);
  buffer_.erase(0, std::min(next, drop));
  return {Frame::Kind::kBroken, {}};
}

std::optional<Frame> FrameReader::ReadHeader() {
  const size_t end = buffer_.find(kEnd);
  if (end > kHeaderLimit) {  // no header ends within the limit
    if (buffer_.size() <= kHeaderLimit) return std::nullopt;
    return Broken(std::min(end, buffer_.size()));
  }
  const auto length = LengthIn(std::string_view(buffer_).substr(0, end));
  if (!length) return Broken(end + kEnd.size());
  buffer_.erase(0, end + kEnd.size());
  if (*length <= kBodyLimit) {
    body_ = static_cast<size_t>(*length);
    return std::nullopt;
  }
  const uint64_t there = std::min<uint64_t>(*length, buffer_.size());
  buffer_.erase(0, AsIndex(there));
  skip_ = *length - there;
  return Frame{Frame::Kind::kTooLarge, {}};
}

std::string Framed(std::string_view body) {
  std::string out = "Content-Length: " + std::to_string(body.size());
  return out.append(kEnd).append(body);
}

// Reads and writes JSON-RPC messages. The id of a request is stored as it was
// written, so that the response repeats the id exactly. An invalid message gets
// an error response:
//
//   {"id": 1, "method": 2}  ->  error -32600 with id 1
//
// A response that the client sends is ignored, because a response must not be
// answered.

namespace {

bool IsId(const JsonValue& value) {
  return value.IsString() || value.kind() == JsonKind::kInteger ||
         value.kind() == JsonKind::kUnsigned;
}

std::string Written(const JsonValue& value) {
  const Place place = value.place();
  return std::string(
      place.source->text().substr(place.begin, place.end - place.begin));
}

}  // namespace

std::optional<Message> ParseMessage(const std::string& text,
                                    std::string* fault) {
  fault->clear();
  Findings findings;
  Message out;
  out.json = JsonDocument::Parse(MakeSource("message", text), findings);
  if (out.json == nullptr) {
    *fault = ErrorResponse(
        "null", ErrorCode::kParseError,
        findings.empty() ? "not valid JSON" : findings.all()[0].message);
    return std::nullopt;
  }
  const JsonValue root = out.json->root();
  const auto id = Below(root, {"id"});
  const auto method = Below(root, {"method"});
  if (id && IsId(*id)) out.id = Written(*id);
  const bool answer = root.IsObject() && !method &&
                      (Below(root, {"result"}) || Below(root, {"error"}));
  if (answer) return std::nullopt;
  if (!method || !method->IsString() || (id && out.id.empty())) {
    *fault = ErrorResponse(out.id.empty() ? "null" : out.id,
                           ErrorCode::kInvalidRequest, "not a valid request");
    return std::nullopt;
  }
  out.method = method->string();
  out.params = Below(root, {"params"});
  return out;
}

std::optional<JsonValue> Below(std::optional<JsonValue> value,
                               std::initializer_list<std::string_view> keys) {
  for (const std::string_view key : keys) {
    if (!value || !value->IsObject()) return std::nullopt;
    value = value->Find(key);
  }
  return value;
}

std::optional<std::string> TextBelow(
    const std::optional<JsonValue>& value,
    std::initializer_list<std::string_view> keys) {
  const auto found = Below(value, keys);
  if (!found || !found->IsString()) return std::nullopt;
  return std::string(found->string());
}

std::optional<int64_t> NumberBelow(
    const std::optional<JsonValue>& value,
    std::initializer_list<std::string_view> keys) {
  const auto found = Below(value, keys);
  if (!found || found->kind() != JsonKind::kInteger) return std::nullopt;
  return found->integer();
}

bool TrueBelow(const std::optional<JsonValue>& value,
               std::initializer_list<std::string_view> keys) {
  const auto found = Below(value, keys);
  return found && found->kind() == JsonKind::kBool && found->boolean();
}

std::optional<Position> PositionBelow(
    const std::optional<JsonValue>& value,
    std::initializer_list<std::string_view> keys) {
  const auto found = Below(value, keys);
  const auto line = NumberBelow(found, {"line"});
  const auto character = NumberBelow(found, {"character"});
  if (!line || !character || *line < 0 || *character < 0) return std::nullopt;
  return Position{*line, *character};
}

std::optional<Range> RangeBelow(const std::optional<JsonValue>& value,
                                std::initializer_list<std::string_view> keys) {
  const auto found = Below(value, keys);
  const auto start = PositionBelow(found, {"start"});
  const auto end = PositionBelow(found, {"end"});
  if (!start || !end) return std::nullopt;
  return Range{*start, *end};
}

void WritePosition(JsonWriter& json, const Position& position) {
  json.Object("line", position.line, "character", position.character);
}

void WriteRange(JsonWriter& json, const Range& range) {
  json.Object("start", WrittenBy(WritePosition, range.start), "end",
              WrittenBy(WritePosition, range.end));
}

std::string Response(std::string_view id, std::string_view result) {
  return Json([&](JsonWriter& json) {
    json.BeginObject();
    json.Member("jsonrpc", "2.0");
    json.Key("id");
    json.Written(id);
    json.Key("result");
    json.Written(result);
    json.EndObject();
  });
}

std::string ErrorResponse(std::string_view id, ErrorCode code,
                          std::string_view message) {
  return Json([&](JsonWriter& json) {
    json.BeginObject();
    json.Member("jsonrpc", "2.0");
    json.Key("id");
    json.Written(id);
    json.Member("error",
                Record("code", static_cast<int>(code), "message", message));
    json.EndObject();
  });
}

std::string Notification(std::string_view method, std::string_view params) {
  return Json([&](JsonWriter& json) {
    json.BeginObject();
    json.Members("jsonrpc", "2.0", "method", method);
    json.Key("params");
    json.Written(params);
    json.EndObject();
  });
}

}  // namespace shardc::lsp
