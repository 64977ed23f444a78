// Directory: lsp. A language server for rules, mesh and project files:
// messages, open documents, and the requests of an editor. The caller supplies
// the checking itself.
// Its files include headers of these directories: source, model, yaml, devices,
// parse, resolve, plan, lint/analysis, lint/rules, lint, target, emit/findings.
//
// This file divides a stream of bytes into messages. Each message follows a
// header that states its length.
#ifndef SHARDC_LSP_SERVER_H_
#define SHARDC_LSP_SERVER_H_

#include <cstddef>
#include <cstdint>
#include <deque>
#include <initializer_list>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <string_view>

#include "lsp/position.h"
#include "lsp/results.h"
#include "lsp/workspace.h"
#include "source/json.h"
#include "source/json_writer.h"

namespace shardc::lsp {

struct Frame {
  enum class Kind : uint8_t {
    kMessage,
    kTooLarge,  // a message over the size limit; its bytes are skipped
    kBroken     // bytes without a valid header; they are dropped
  };
  Kind kind = Kind::kMessage;
  std::string body;
};

class FrameReader {
 public:
  static constexpr size_t kBodyLimit = size_t{64} << 20;
  static constexpr size_t kHeaderLimit = size_t{8} << 10;

  void Feed(std::string_view bytes);
  // Returns the next complete frame; nullopt if more bytes are needed.
  std::optional<Frame> Next();
  // Returns whether Next() has returned or dropped all received bytes.
  bool empty() const { return buffer_.empty() && skip_ == 0 && !body_; }

 private:
  std::optional<Frame> ReadHeader();
  Frame Broken(size_t drop);

  std::string buffer_;  // bytes that Next() has not returned or dropped
  // The number of bytes still to be skipped of a message that is too large.
  uint64_t skip_ = 0;
  // The length of the current message's body; nullopt until the message's
  // header has been read.
  std::optional<size_t> body_;
};

// Returns the body of a message with its header before it.
std::string Framed(std::string_view body);

enum class ErrorCode : int {
  kParseError = -32700,
  kInvalidRequest = -32600,
  kMethodNotFound = -32601,
  kInvalidParams = -32602,
  kNotInitialized = -32002,
  kCancelled = -32800,
  kRequestFailed = -32803,
};

struct Message {
  std::shared_ptr<const JsonDocument> json;
  std::string id;  // JSON text as received; empty for a notification
  std::string method;
  std::optional<JsonValue> params;
  bool cancelled = false;

  bool IsRequest() const { return !id.empty(); }
};

// Parses a request or a notification. For any other text, returns nullopt and
// sets `*fault` to the error response. If the text is a response of the client,
// `*fault` is empty, because a response is never answered.
std::optional<Message> ParseMessage(const std::string& text,
                                    std::string* fault);

// Each function follows nested keys and returns the value at the last key, if
// it has the function's type. TrueBelow returns whether the value is `true`.
std::optional<JsonValue> Below(std::optional<JsonValue> value,
                               std::initializer_list<std::string_view> keys);
std::optional<std::string> TextBelow(
    const std::optional<JsonValue>& value,
    std::initializer_list<std::string_view> keys);
std::optional<int64_t> NumberBelow(
    const std::optional<JsonValue>& value,
    std::initializer_list<std::string_view> keys);
bool TrueBelow(const std::optional<JsonValue>& value,
               std::initializer_list<std::string_view> keys);
std::optional<Position> PositionBelow(
    const std::optional<JsonValue>& value,
    std::initializer_list<std::string_view> keys);
std::optional<Range> RangeBelow(const std::optional<JsonValue>& value,
                                std::initializer_list<std::string_view> keys);

void WritePosition(JsonWriter& json, const Position& position);
void WriteRange(JsonWriter& json, const Range& range);

// These functions return the text of a message to the client. `id`, `result`
// and `params` are JSON texts.
std::string Response(std::string_view id, std::string_view result);
std::string ErrorResponse(std::string_view id, ErrorCode code,
                          std::string_view message);
std::string Notification(std::string_view method, std::string_view params);

// Returns the JSON text that `write(JsonWriter&)` writes, without spaces and
// line breaks.
template <class Write>
std::string Json(const Write& write) {
  return TextOf([&](Sink& out) {
    JsonWriter json(out, JsonStyle::kCompact);
    write(json);
  });
}

// A language server that has no input and output streams and no clock of its
// own. The caller passes bytes in and takes bytes out, so that tests can drive
// the server.

class Server {
 public:
  Server(Checker& checker, std::string version)
      : workspace_(checker), version_(std::move(version)) {}

  // Receives bytes from the client, in pieces of any size. A `cancel` message
  // in them is applied at once: the waiting request that it names gets an error
  // response.
  void Receive(std::string_view bytes);
  // Handles one message. Returns false if no complete message is waiting, or
  // after `exit`.
  bool Step();
  // Returns whether a check is due: since the last check, a document was
  // opened, changed, saved or closed, or a file has changed on disk.
  bool HasEdits() const { return check_all_ || !changed_.empty(); }
  // Runs the check that is due. The check covers all documents (`check_all_`)
  // or the changed ones (`changed_`). Publishes the findings of files whose
  // findings have changed.
  void CheckNow();
  // Returns the bytes to send to the client and removes them from the server.
  std::string TakeOutput();
  // Returns the exit status; nullopt until the client has sent `exit`.
  std::optional<int> exit_status() const { return exit_; }
  // Returns the exit status if the client closed the stream: 0 after a
  // `shutdown` request, else 1.
  int StatusAtEnd() const { return shutdown_ ? 0 : 1; }

 private:
  void Handle(const Message& message);
  void HandleNotification(const Message& message);
  std::string ResultOf(const Message& message);
  void Send(std::string_view message) { output_ += Framed(message); }
  void Fail(ErrorCode code, std::string message);

  std::string Initialize(const Message& message);

  // Handlers of requests about a document. Each returns the result, or sets
  // `error_`.
  using Handler = std::string (Server::*)(const Document&, const Message&);
  static Handler HandlerOf(std::string_view method);
  std::string Hover(const Document& document, const Message& message);
  std::string Complete(const Document& document, const Message& message);
  std::string Define(const Document& document, const Message& message);
  std::string Symbols(const Document& document, const Message& message);
  std::string Actions(const Document& document, const Message& message);
  std::string InlayHints(const Document& document, const Message& message);
  std::string References(const Document& document, const Message& message);
  std::string PrepareRename(const Document& document, const Message& message);
  std::string Rename(const Document& document, const Message& message);
  std::string Format(const Document& document, const Message& message);
  std::string Tokens(const Document& document, const Message& message);

  void Open(const Message& message);
  void Change(const Message& message);
  void Close(const Message& message);
  void Log(std::string_view text);
  ResultForm Form() const;

  const Document* DocumentOf(const Message& message);
  // Returns the request's position as an offset. If the request has no
  // position, returns nullopt and sets `error_`.
  std::optional<size_t> OffsetOf(const Lines& lines, const Message& message);
  struct Offsets {
    size_t begin = 0, end = 0;
  };
  std::optional<Offsets> RangeOf(const Lines& lines, const Message& message);
  void EnsureChecked();
  void Publish();

  Workspace workspace_;
  std::string version_;
  FrameReader reader_;
  std::deque<Message> queue_;
  std::string output_;
  Encoding encoding_ = Encoding::kUtf16;
  bool initialized_ = false;
  bool shutdown_ = false;
  // What the next check covers: all documents if `check_all_` is true, else
  // only the projects that read one of the `changed_` documents.
  bool check_all_ = false;
  std::set<std::string> changed_;  // URIs of edited documents
  bool can_watch_ = false;
  bool versioned_edits_ = false;
  std::optional<int> exit_;
  // The error of the current request; nullopt if the request has not failed.
  std::optional<std::pair<ErrorCode, std::string>> error_;
  // The parameters of the last `publishDiagnostics` for each file, keyed by
  // URI.
  std::map<std::string, std::string> published_;
};

}  // namespace shardc::lsp

#endif  // SHARDC_LSP_SERVER_H_
