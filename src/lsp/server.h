// The server, apart from the streams that it speaks over and from time.
#ifndef SHARDC_LSP_SERVER_H_
#define SHARDC_LSP_SERVER_H_

#include <deque>
#include <map>
#include <optional>
#include <string>
#include <string_view>

#include "lsp/frame.h"
#include "lsp/message.h"
#include "lsp/position.h"
#include "lsp/workspace.h"

namespace shardc::lsp {

class Server {
 public:
  Server(Checker& checker, std::string version)
      : workspace_(checker), version_(std::move(version)) {}

  // Bytes of the client, of any size. What is cancelled in them is not begun.
  void Receive(std::string_view bytes);
  // Handles one message; false: there is none whole.
  bool Step();
  // Texts have changed since they were checked last.
  bool HasEdits() const { return edited_; }
  // Checks and tells what is found.
  void CheckNow();
  // What is to be sent; empty afterwards.
  std::string TakeOutput();
  // Set once the client has ended.
  std::optional<int> exit_status() const { return exit_; }
  // The client has gone: as it said that it would, or not.
  int StatusAtEnd() const { return shutdown_ ? 0 : 1; }

 private:
  void Handle(const Message& message);
  void HandleNotification(const Message& message);
  std::string ResultOf(const Message& message);
  void Send(std::string_view message) { output_ += Framed(message); }
  void Fail(ErrorCode code, std::string message);

  std::string Initialize(const Message& message);
  std::string Hover(const Document& document, const Position& position);
  std::string Complete(const Document& document, const Position& position);
  std::string Define(const Document& document, const Position& position);
  std::string Symbols(const Document& document);
  std::string Actions(const Document& document, const Message& message);
  void WriteEdits(JsonWriter& json, const std::string& path,
                  std::string_view text,
                  const std::vector<TextEdit>& edits) const;
  void Open(const Message& message);
  void Change(const Message& message);
  void Close(const Message& message);
  void Watch();
  void Log(std::string_view text);

  const Document* DocumentOf(const Message& message);
  void EnsureChecked();
  std::string DiagnosticsOf(const std::string& name,
                            const std::vector<Finding>& findings) const;
  void Publish();

  Workspace workspace_;
  std::string version_;
  FrameReader reader_;
  std::deque<Message> queue_;
  std::string output_;
  Encoding encoding_ = Encoding::kUtf16;
  bool initialized_ = false;
  bool shutdown_ = false;
  bool edited_ = false;
  bool can_watch_ = false;
  bool versioned_edits_ = false;
  std::optional<int> exit_;
  // Of the request at hand; then it is answered so.
  std::optional<std::pair<ErrorCode, std::string>> error_;
  std::map<std::string, std::string> published_;  // parameters by uri
};

}  // namespace shardc::lsp

#endif  // SHARDC_LSP_SERVER_H_
