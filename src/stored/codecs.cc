// Decodes a chunk with its codecs, in the reverse order of encoding. A
// malicious file may decode to far more bytes than fit in memory. So zstd and
// deflate decode into a small buffer, which is then appended to the result.
// Decoding stops as soon as the result would exceed the limit. For example:
//
//   a chunk of 64 bytes is stored as 32 KiB of zstd that decode to 1 GiB
//     ->  error: it decodes to more than 64 B
#include "stored/codecs.h"

#include <zlib.h>
#include <zstd.h>

#include <algorithm>
#include <cstdint>
#include <cstring>
#include <memory>
#include <new>
#include <utility>

#include "source/input_file.h"
#include "source/size.h"
#include "source/wording.h"
#include "stored/checksum.h"

namespace shardc::stored {
namespace {

constexpr size_t kBuffer = size_t{1} << 17;
// Returns the limit on the bytes that a codec may return if another codec
// decodes these bytes next. The completely decoded chunk has `size` bytes. The
// limit is above `size`, because incompressible data grows when it is
// compressed: DEFLATE adds 5 bytes for each block of 16 KiB or more, Zstandard
// 3 bytes for each block of 128 KiB, and blosc some tens of bytes for each
// block.
int64_t LimitBefore(int64_t size) {
  return (Size(size) + size / 256 + (1 << 16)).value();
}

// Appends decoded bytes. Returns false if the result would exceed the limit.
bool Append(std::string_view decoded, int64_t limit_bytes, std::string& out,
            std::string* why) {
  if (out.size() + decoded.size() > AsIndex(limit_bytes)) {
    *why = "it decodes to more than " + BytesText(limit_bytes);
    return false;
  }
  out.append(decoded);
  return true;
}

std::optional<std::string> CheckedPart(std::string bytes, std::string* why) {
  if (bytes.size() < kCrc32cBytes) {
    *why = "it is too short for a checksum";
    return std::nullopt;
  }
  const uint64_t stored =
      LittleEndian(std::string_view(bytes).substr(bytes.size() - kCrc32cBytes));
  bytes.resize(bytes.size() - kCrc32cBytes);
  if (Crc32c(bytes) == stored) return bytes;
  *why = "its checksum differs from the one stored with it";
  return std::nullopt;
}

}  // namespace

std::optional<std::string> DecodeZstd(std::string_view bytes,
                                      int64_t limit_bytes, std::string* why) {
  const std::unique_ptr<ZSTD_DCtx, decltype(&ZSTD_freeDCtx)> context(
      ZSTD_createDCtx(), ZSTD_freeDCtx);
  if (context == nullptr) throw std::bad_alloc();
  std::string buffer(kBuffer, '\0');
  std::string out;
  ZSTD_inBuffer in = {bytes.data(), bytes.size(), 0};
  for (;;) {
    ZSTD_outBuffer to = {buffer.data(), buffer.size(), 0};
    const size_t before = in.pos;
    const size_t left = ZSTD_decompressStream(context.get(), &to, &in);
    if (ZSTD_isError(left) != 0) {
      *why = std::string("zstd reports: ") + ZSTD_getErrorName(left);
      return std::nullopt;
    }
    if (!Append({buffer.data(), to.pos}, limit_bytes, out, why)) {
      return std::nullopt;
    }
    if (left == 0) break;
    if (in.pos == before && to.pos == 0) {
      *why = "its zstd frame ends too early";
      return std::nullopt;
    }
  }
  if (in.pos == in.size) return out;
  *why = Counted(static_cast<int64_t>(in.size - in.pos), "byte") +
         " follow its zstd frame";
  return std::nullopt;
}

std::optional<std::string> DecodeDeflate(std::string_view bytes,
                                         int64_t limit_bytes,
                                         std::string* why) {
  z_stream stream = {};
  // The value 32 makes zlib accept both zlib and gzip data, and verify their
  // checksums.
  if (::inflateInit2(&stream, 32 + MAX_WBITS) != Z_OK) throw std::bad_alloc();
  const std::unique_ptr<z_stream, decltype(&::inflateEnd)> end(&stream,
                                                               ::inflateEnd);
  std::string buffer(kBuffer, '\0');
  std::string out;
  size_t fed = 0;
  for (int status = Z_OK; status != Z_STREAM_END;) {
    if (stream.avail_in == 0) {
      const size_t count = std::min(bytes.size() - fed, size_t{1} << 30);
      stream.next_in =
          reinterpret_cast<Bytef*>(const_cast<char*>(bytes.data() + fed));
      stream.avail_in = static_cast<uInt>(count);
      fed += count;
    }
    stream.next_out = reinterpret_cast<Bytef*>(buffer.data());
    stream.avail_out = static_cast<uInt>(buffer.size());
    status = ::inflate(&stream, Z_NO_FLUSH);
    if (status == Z_MEM_ERROR) throw std::bad_alloc();
    if (status != Z_OK && status != Z_STREAM_END) {
      *why = status == Z_BUF_ERROR ? "its compressed data ends too early"
             : stream.msg != nullptr
                 ? std::string("zlib reports: ") + stream.msg
                 : "its compressed data is damaged";
      return std::nullopt;
    }
    if (!Append({buffer.data(), buffer.size() - stream.avail_out}, limit_bytes,
                out, why)) {
      return std::nullopt;
    }
  }
  const size_t rest = bytes.size() - fed + stream.avail_in;
  if (rest == 0) return out;
  *why = Counted(static_cast<int64_t>(rest), "byte") +
         " follow its compressed data";
  return std::nullopt;
}

std::optional<std::string> Decode(std::string bytes,
                                  std::span<const Codec> codecs, int64_t size,
                                  std::string* why) {
  std::optional<std::string> out = std::move(bytes);
  for (size_t i = codecs.size(); i > 0 && out;) {
    --i;
    const int64_t limit_bytes = i == 0 ? size : LimitBefore(size);
    switch (codecs[i]) {
      case Codec::kZstd:
        out = DecodeZstd(*out, limit_bytes, why);
        break;
      case Codec::kDeflate:
        out = DecodeDeflate(*out, limit_bytes, why);
        break;
      case Codec::kBlosc:
        out = DecodeBlosc(*out, limit_bytes, why);
        break;
      case Codec::kCrc32c:
        out = CheckedPart(std::move(*out), why);
        break;
    }
  }
  if (!out || out->size() == AsIndex(size)) return out;
  *why = "it has " + CountText(static_cast<int64_t>(out->size())) +
         " bytes, and " + CountText(size) + " are expected";
  return std::nullopt;
}

std::string EncodeZstd(std::string_view bytes, int level) {
  std::string out(ZSTD_compressBound(bytes.size()), '\0');
  const size_t size =
      ZSTD_compress(out.data(), out.size(), bytes.data(), bytes.size(), level);
  // The output buffer is large enough for the worst case, so compression can
  // fail only if memory is exhausted.
  if (ZSTD_isError(size) != 0) throw std::bad_alloc();
  out.resize(size);
  return out;
}

// Decodes chunks that blosc compressed. A chunk consists of a header of 16
// bytes, the offset of each block, and the blocks. If the header has the flag
// kStored, the decoded bytes follow the header directly. For example, the
// header of a chunk of 1 MiB in blocks of 256 KiB begins as follows:
//
//   02 01 21 04   format version 2, codec version 1, flags (shuffled, lz4),
//                 4 bytes per element
//   00 00 10 00 00 00 04 00   1 MiB decoded, blocks of 256 KiB
//   xx xx xx xx   the bytes of the chunk
//
// A block is one stream, or one stream for each byte of an element. A stream
// consists of its length and its bytes. If the length equals the decoded size,
// the bytes are not compressed. A shuffled block stores the first bytes of all
// elements, then all second bytes and so on. Bit shuffling does the same with
// bits.
//
// The format is published in README_CHUNK_FORMAT.rst of c-blosc 1. shardc does
// not use the library c-blosc, because that needs two further libraries (LZ4
// and Snappy). It also allocates the size that a header states before it reads
// the data. In this file the result grows only as data is decoded.

namespace {

constexpr size_t kHeaderBytes = 16;
constexpr size_t kVersion = 2;
// The limits that determine the number of streams of a block. A block is one
// stream in each of these cases: the header has the flag kOneStream, the block
// is shorter than the header's block size, an element has more than kMaxStreams
// bytes, or each of the streams would have fewer than kMinStreamBytes bytes.
constexpr size_t kMaxStreams = 16;
constexpr size_t kMinStreamBytes = 128;
// Bits of the header's flags.
constexpr size_t kShuffled = 1, kStored = 2, kBitShuffled = 4, kOneStream = 16;

enum Compressor : size_t { kBloscLz, kLz4, kSnappy, kZlib, kZstd };

struct Header {
  explicit Header(std::string_view bytes)
      : version(LittleEndian(bytes.substr(0, 1))),
        flags(LittleEndian(bytes.substr(2, 1))),
        element(LittleEndian(bytes.substr(3, 1))),
        size(LittleEndian(bytes.substr(4, 4))),
        block(LittleEndian(bytes.substr(8, 4))),
        chunk(LittleEndian(bytes.substr(12, 4))) {}

  bool Has(size_t flag) const { return (flags & flag) != 0; }
  size_t compressor() const { return flags >> 5; }

  size_t version;
  size_t flags;
  size_t element;  // bytes of one element
  size_t size;     // number of bytes after decoding
  size_t block;    // bytes of each decoded block except the last
  size_t chunk;    // bytes of the chunk, including the header
};

// Undoes byte shuffling: returns the block with the bytes of each element next
// to each other. If bytes remain after the last complete element, they are not
// shuffled.
std::string Unshuffled(const std::string& in, size_t element) {
  std::string out = in;
  const size_t count = in.size() / element;
  for (size_t byte = 0; byte < element; ++byte) {
    const char* from = in.data() + byte * count;
    char* to = out.data() + byte;
    for (size_t i = 0; i < count; ++i) to[i * element] = from[i];
  }
  return out;
}

// Transposes a matrix of 8 x 8 bits, in which each byte is a row.
uint64_t Transposed(uint64_t bits) {
  uint64_t swap = (bits ^ bits >> 7) & 0x00AA00AA00AA00AA;
  bits ^= swap ^ swap << 7;
  swap = (bits ^ bits >> 14) & 0x0000CCCC0000CCCC;
  bits ^= swap ^ swap << 14;
  swap = (bits ^ bits >> 28) & 0x00000000F0F0F0F0;
  return bits ^ swap ^ swap << 28;
}

// Undoes bit shuffling. In the shuffled block, row `8 * byte + bit` contains
// the bit with number `bit` of the byte with number `byte` of every element. A
// block whose number of elements is not a multiple of 8 is not shuffled.
std::string BitUnshuffled(const std::string& in, size_t element) {
  const size_t count = in.size() / element;
  if (count % 8 != 0) return in;
  const size_t row = count / 8;
  std::string out = in;
  for (size_t byte = 0; byte < element; ++byte) {
    const char* from = in.data() + byte * count;
    for (size_t k = 0; k < row; ++k) {
      uint64_t bits = 0;
      for (size_t bit = 8; bit > 0; --bit) {
        bits =
            bits << 8 | static_cast<unsigned char>(from[(bit - 1) * row + k]);
      }
      bits = Transposed(bits);
      for (size_t i = 0; i < 8; ++i) {
        out[(k * 8 + i) * element + byte] =
            static_cast<char>(bits >> (8 * i) & 255);
      }
    }
  }
  return out;
}

bool AppendStream(size_t compressor, std::string_view bytes, size_t size,
                  std::string& out) {
  if (bytes.size() == size) {
    out.append(bytes);
    return true;
  }
  std::optional<std::string> decoded;
  std::string ignored;
  switch (compressor) {
    case kBloscLz:
      return AppendBloscLz(bytes, size, out);
    case kLz4:
      return AppendLz4(bytes, size, out);
    case kSnappy:
      return AppendSnappy(bytes, size, out);
    case kZlib:
      decoded = DecodeDeflate(bytes, static_cast<int64_t>(size), &ignored);
      break;
    default:
      decoded = DecodeZstd(bytes, static_cast<int64_t>(size), &ignored);
  }
  if (!decoded || decoded->size() != size) return false;
  out += *decoded;
  return true;
}

// Decodes a block of `size` bytes and appends it to `out`. The first stream of
// the block begins at the start of `bytes`. Returns false if the block is
// damaged.
bool AppendBlock(const Header& header, std::string_view bytes, size_t size,
                 std::string& out) {
  const bool split = !header.Has(kOneStream) && size == header.block &&
                     header.element <= kMaxStreams &&
                     size / header.element >= kMinStreamBytes;
  const size_t streams = split ? header.element : 1;
  const bool shuffled = header.Has(kShuffled) && header.element > 1;
  const bool bit_shuffled = header.Has(kBitShuffled);
  std::string block;
  std::string& to = shuffled || bit_shuffled ? block : out;
  if (size % streams != 0) return false;
  for (size_t i = 0; i < streams; ++i) {
    if (bytes.size() < 4) return false;
    const size_t length = LittleEndian(bytes.substr(0, 4));
    bytes.remove_prefix(4);
    if (length > bytes.size() ||
        !AppendStream(header.compressor(), bytes.substr(0, length),
                      size / streams, to)) {
      return false;
    }
    bytes.remove_prefix(length);
  }
  if (shuffled) {
    out += Unshuffled(block, header.element);
  } else if (bit_shuffled) {
    out += BitUnshuffled(block, header.element);
  }
  return true;
}

// Returns the reason why the header is refused, or an empty text if it is
// accepted.
std::string Refusal(const Header& header, std::string_view bytes,
                    int64_t limit_bytes) {
  const auto text = [](size_t count) {
    return CountText(static_cast<int64_t>(count));
  };
  if (header.version != kVersion) {
    return "its blosc header states version " + text(header.version) +
           "; shardc reads version " + text(kVersion);
  }
  if (header.size > AsIndex(limit_bytes)) {
    return "it decodes to more than " + BytesText(limit_bytes);
  }
  if (header.chunk != bytes.size()) {
    return "its blosc header states a chunk of " + text(header.chunk) +
           " bytes, and it has " + text(bytes.size());
  }
  if (header.Has(kStored)) {
    if (header.size == bytes.size() - kHeaderBytes) return "";
    return "its blosc header states " + text(header.size) +
           " uncompressed bytes, and " + text(bytes.size() - kHeaderBytes) +
           " follow";
  }
  if (header.compressor() > kZstd) {
    return "its blosc header states an unknown compressor, " +
           text(header.compressor());
  }
  if (header.element == 0 ||
      (header.Has(kShuffled) && header.Has(kBitShuffled)) ||
      (header.size > 0 && (header.block == 0 || header.block > header.size))) {
    return "its blosc header is damaged";
  }
  return "";
}

}  // namespace

std::optional<std::string> DecodeBlosc(std::string_view bytes,
                                       int64_t limit_bytes, std::string* why) {
  if (bytes.size() < kHeaderBytes) {
    *why = "it is too short for a blosc header";
    return std::nullopt;
  }
  const Header header(bytes);
  *why = Refusal(header, bytes, limit_bytes);
  if (!why->empty()) return std::nullopt;
  if (header.Has(kStored)) return std::string(bytes.substr(kHeaderBytes));
  std::string out;
  for (size_t place = kHeaderBytes; out.size() < header.size; place += 4) {
    const size_t size = std::min(header.block, header.size - out.size());
    const size_t offset = place + 4 > bytes.size()
                              ? bytes.size()
                              : LittleEndian(bytes.substr(place, 4));
    if (offset < kHeaderBytes || offset >= bytes.size() ||
        !AppendBlock(header, bytes.substr(offset), size, out)) {
      *why = "its blosc block at byte " +
             CountText(static_cast<int64_t>(offset)) + " is damaged";
      return std::nullopt;
    }
  }
  return out;
}

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
