// Directory: lsp. A language server for rules, mesh and project files:
// messages, open documents, and the requests of an editor. The caller supplies
// the checking itself (checker.h).
// Its files include headers of these directories: source, model, yaml, devices,
// parse, resolve, plan, lint/analysis, lint/rules, lint, target, emit/findings.
//
// This file divides a stream of bytes into messages. Each message follows a
// header that states its length.
#ifndef SHARDC_LSP_FRAME_H_
#define SHARDC_LSP_FRAME_H_

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

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

}  // namespace shardc::lsp

#endif  // SHARDC_LSP_FRAME_H_
