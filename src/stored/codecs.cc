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
#include <cstring>
#include <memory>
#include <new>
#include <utility>

#include "source/index.h"
#include "source/little_endian.h"
#include "source/size.h"
#include "source/wording.h"
#include "stored/blosc.h"
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

}  // namespace shardc::stored
