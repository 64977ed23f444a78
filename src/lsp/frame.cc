// Divides a stream of bytes into messages, and skips bytes that belong to no
// message. A message has a header, which ends with an empty line and states the
// number of bytes of the body. Bytes that are not a header are dropped up to
// the next possible header. One faulty message therefore does not affect the
// messages after it. For example:
//
//   "Content-Length: 2\r\n\r\n{}x\r\n\r\n"
//     ->  the message `{}`, then a broken frame for `x` and its empty line
#include "lsp/frame.h"

#include <algorithm>
#include <limits>

#include "source/index.h"
#include "source/wording.h"

namespace shardc::lsp {
namespace {

constexpr std::string_view kEnd = "\r\n\r\n";
constexpr std::string_view kLength = "content-length:";

std::string_view Trim(std::string_view text) {
  while (!text.empty() && text.front() == ' ') text.remove_prefix(1);
  while (!text.empty() && text.back() == ' ') text.remove_suffix(1);
  return text;
}

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

}  // namespace shardc::lsp
