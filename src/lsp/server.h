// A language server that has no input and output streams and no clock of its
// own. The caller passes bytes in and takes bytes out, so that tests can drive
// the server.
#ifndef SHARDC_LSP_SERVER_H_
#define SHARDC_LSP_SERVER_H_

#include <deque>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <string_view>

#include "lsp/frame.h"
#include "lsp/message.h"
#include "lsp/position.h"
#include "lsp/results.h"
#include "lsp/workspace.h"

namespace shardc::lsp {

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
