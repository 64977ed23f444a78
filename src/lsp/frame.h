// Room: lsp. A language server for rules, mesh and project files: messages,
// open documents, and what an editor asks of them. Knows source, model, yaml,
// parse, match, resolve, plan, lint, target and emit; checking itself is given
// to it (checker.h).
//
// Messages in a stream of bytes, each behind a header with its length.
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
    kTooLarge,  // its bytes are passed over as they come
    kBroken     // a header that gives no length; it is dropped
  };
  Kind kind = Kind::kMessage;
  std::string body;
};

class FrameReader {
 public:
  static constexpr size_t kBodyLimit = size_t{64} << 20;
  static constexpr size_t kHeaderLimit = size_t{8} << 10;

  void Feed(std::string_view bytes);
  // The next frame that is there whole; nothing: more bytes are needed.
  std::optional<Frame> Next();
  // Nothing is held of a message that has begun.
  bool empty() const { return buffer_.empty() && skip_ == 0 && !body_; }

 private:
  std::optional<Frame> ReadHeader();
  Frame Broken(size_t drop);

  std::string buffer_;          // what has come and is not used yet
  uint64_t skip_ = 0;           // bytes of a body that is too large
  std::optional<size_t> body_;  // the length that a header gave
};

// The message with its header.
std::string Framed(std::string_view body);

}  // namespace shardc::lsp

#endif  // SHARDC_LSP_FRAME_H_
