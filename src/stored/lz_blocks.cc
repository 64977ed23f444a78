// Decodes the three LZ77 formats of blosc chunks: LZ4, blosclz and snappy.
// Their blocks are sequences of literal bytes and matches. A match repeats
// earlier bytes of the output. In LZ4 the four upper bits of a token are the
// number of literals, and the lower bits the match's length minus 4. If one of
// these values is 15, further bytes are added to it.
//
//   20 'a' 'b' 02 00 | 10 'c'
//     ->  literals "ab"; a match of 4 bytes from 2 bytes back: "abab";
//         the last literal "c":  "abababc"
//
// A match may be longer than its distance. It then also repeats bytes that it
// has appended itself.
#include "stored/lz_blocks.h"

#include <algorithm>
#include <cstdint>

#include "source/little_endian.h"

namespace shardc::stored {
namespace {

// Reads a block from start to end. After a read beyond the end, failed()
// returns true and all further reads return zeros.
class Input {
 public:
  explicit Input(std::string_view bytes) : left_(bytes) {}

  std::string_view Take(size_t count) {
    if (count > left_.size()) {
      failed_ = true;
      left_ = {};
      return {};
    }
    const std::string_view out = left_.substr(0, count);
    left_.remove_prefix(count);
    return out;
  }
  size_t Number(size_t bytes) { return LittleEndian(Take(bytes)); }
  size_t Byte() { return Number(1); }

  // Reads the bytes that extend a length: all bytes up to and including the
  // first byte that is not 255. Returns their sum.
  size_t Extension() {
    size_t out = 0;
    for (size_t byte = 255; byte == 255;) {
      byte = Byte();
      out += byte;
    }
    return out;
  }

  bool AtEnd() const { return left_.empty(); }
  bool failed() const { return failed_; }

 private:
  std::string_view left_;
  bool failed_ = false;
};

class Output {
 public:
  Output(size_t size, std::string& out)
      : begin_(out.size()), end_(out.size() + size), out_(out) {}

  bool Literals(std::string_view bytes) {
    if (bytes.size() > end_ - out_.size()) return false;
    out_.append(bytes);
    return true;
  }

  bool Match(size_t distance, size_t length) {
    const size_t written = out_.size() - begin_;
    if (distance == 0 || distance > written || length > end_ - out_.size()) {
      return false;
    }
    // Each copy appends the last `distance` bytes of the output again, which
    // doubles the length of the repeated text. The next copy may therefore
    // append twice as many bytes.
    while (length > 0) {
      const size_t count = std::min(distance, length);
      out_.append(out_, out_.size() - distance, count);
      length -= count;
      distance += count;
    }
    return true;
  }

  bool IsFull() const { return out_.size() == end_; }

 private:
  size_t begin_;
  size_t end_;
  std::string& out_;
};

}  // namespace

bool AppendLz4(std::string_view bytes, size_t size, std::string& out) {
  constexpr size_t kMinMatch = 4;
  Input in(bytes);
  Output to(size, out);
  for (;;) {
    const size_t token = in.Byte();
    size_t literals = token >> 4;
    if (literals == 15) literals += in.Extension();
    if (!to.Literals(in.Take(literals)) || in.failed()) return false;
    if (in.AtEnd()) return to.IsFull();
    const size_t distance = in.Number(2);
    size_t length = token & 15;
    if (length == 15) length += in.Extension();
    if (in.failed() || !to.Match(distance, length + kMinMatch)) return false;
  }
}

// Decodes blosclz. An instruction N below 32 is followed by N + 1 literals. Any
// other instruction is a match. The three upper bits of its first byte are the
// length minus 2, where 7 means that more bytes of the length follow. The five
// lower bits are the upper bits of the distance minus 1. If all bits of the
// distance are set, two bytes with a larger distance follow.
bool AppendBloscLz(std::string_view bytes, size_t size, std::string& out) {
  // The largest value of the distance minus 1 that fits in the 13 bits of a
  // short distance. That value itself marks a longer distance.
  constexpr size_t kNearDistance = 8191;
  Input in(bytes);
  Output to(size, out);
  // The upper bits of the first instruction are a version number.
  for (size_t instruction = in.Byte() & 31;; instruction = in.Byte()) {
    if (instruction < 32) {
      if (!to.Literals(in.Take(instruction + 1))) return false;
    } else {
      size_t length = (instruction >> 5) + 2;
      if (instruction >> 5 == 7) length += in.Extension();
      size_t distance = (instruction & 31) << 8;
      const size_t low = in.Byte();
      if (distance == 31 << 8 && low == 255) {
        const size_t high = in.Byte();
        distance = kNearDistance + (high << 8) + in.Byte();
      } else {
        distance += low;
      }
      if (in.failed() || !to.Match(distance + 1, length)) return false;
    }
    if (in.failed()) return false;
    if (in.AtEnd()) return to.IsFull();
  }
}

// Decodes snappy. The size is stored first, as a varint, and is followed by
// elements. The two lower bits of an element's first byte are the type of the
// element.
bool AppendSnappy(std::string_view bytes, size_t size, std::string& out) {
  Input in(bytes);
  Output to(size, out);
  size_t stated = 0;
  for (unsigned shift = 0;; shift += 7) {
    const size_t byte = in.Byte();
    if (shift > 28) return false;
    stated |= (byte & 127) << shift;
    if (byte < 128) break;
  }
  if (in.failed() || stated != size) return false;
  while (!in.AtEnd()) {
    const size_t tag = in.Byte();
    const size_t upper = tag >> 2;
    bool valid = false;
    switch (tag & 3) {
      case 0: {
        const size_t count = upper < 60 ? upper : in.Number(upper - 59);
        valid = to.Literals(in.Take(count + 1));
        break;
      }
      case 1:
        valid = to.Match((tag >> 5) << 8 | in.Byte(), (upper & 7) + 4);
        break;
      default:
        valid = to.Match(in.Number((tag & 3) == 2 ? 2 : 4), upper + 1);
    }
    if (!valid || in.failed()) return false;
  }
  return to.IsFull();
}

}  // namespace shardc::stored
