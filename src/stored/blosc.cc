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
#include "stored/blosc.h"

#include <algorithm>
#include <utility>

#include "source/index.h"
#include "source/little_endian.h"
#include "source/wording.h"
#include "stored/codecs.h"
#include "stored/lz_blocks.h"

namespace shardc::stored {
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

}  // namespace shardc::stored
