// Finds the first byte that is not plain. In `wte/kernel"` this is the quote,
// at offset 10. Sixteen bytes are compared at a time, with vector types that
// compilers support on every architecture. A byte that is negative as a signed
// char is not ASCII.
#include "source/plain_json.h"

#include <algorithm>
#include <array>
#include <bit>
#include <cstdint>
#include <cstring>

#include "source/finding.h"

#ifdef __SSE2__
#include <emmintrin.h>
#endif

namespace shardc {
namespace {

using Bytes = int8_t __attribute__((vector_size(16)));

constexpr Bytes Each(int8_t c) {
  return Bytes{c, c, c, c, c, c, c, c, c, c, c, c, c, c, c, c};
}

bool IsSpecial(char c) {
  const auto byte = static_cast<unsigned char>(c);
  return byte < 0x20 || byte >= 0x7F || byte == '"' || byte == '\\';
}

// Returns how many of the 16 bytes at `from` precede the first byte that is not
// plain.
size_t PlainOf(const char* from) {
  Bytes bytes;
  std::memcpy(&bytes, from, sizeof(bytes));
  const auto special = (bytes < Each(0x20)) | (bytes == Each(0x7F)) |
                       (bytes == Each('"')) | (bytes == Each('\\'));
#ifdef __SSE2__
  const int mask = _mm_movemask_epi8(std::bit_cast<__m128i>(special));
  if (mask == 0) return sizeof(Bytes);
  return static_cast<size_t>(std::countr_zero(static_cast<unsigned>(mask)));
#else
  const auto words = std::bit_cast<std::array<uint64_t, 2> >(special);
  if ((words[0] | words[1]) == 0) return sizeof(Bytes);
  const size_t half = words[0] != 0 ? 0 : 1;
  return half * sizeof(uint64_t) +
         static_cast<size_t>(std::countr_zero(words[half])) / 8;
#endif
}

}  // namespace

size_t EndOfPlain(std::string_view text, size_t at) {
  constexpr size_t kStep = sizeof(Bytes);
  if constexpr (std::endian::native == std::endian::little) {
    for (; at + kStep <= text.size(); at += kStep) {
      const size_t plain = PlainOf(text.data() + at);
      if (plain < kStep) return at + plain;
    }
    // Fewer than kStep bytes are left. Compare the last kStep bytes of the
    // text, which include bytes that are already known to be plain.
    if (text.size() >= kStep && at < text.size()) {
      const size_t last = text.size() - kStep;
      const size_t plain = last + PlainOf(text.data() + last);
      if (plain >= at) return plain;
    }
  }
  while (at < text.size() && !IsSpecial(text[at])) ++at;
  return at;
}

TextWindow::TextWindow(const InputFile& file, size_t bytes)
    : file_(&file),
      buffer_(std::make_unique_for_overwrite<char[]>(bytes)),
      capacity_(bytes),
      end_(0) {
  Advance(0);
}

bool TextWindow::Advance(size_t count) {
  if (file_ == nullptr) return false;
  const size_t kept = text_.size() - count;
  const int64_t unread = file_->size() - end_;
  const size_t more =
      unread <= 0 ? 0 : std::min(capacity_ - kept, static_cast<size_t>(unread));
  if (more == 0) return false;
  std::memmove(buffer_.get(), buffer_.get() + count, kept);
  // The error is not reported here: after a failure the caller reads the
  // complete file, which reports the error.
  Findings unreported;
  if (!file_->ReadAt(end_, buffer_.get() + kept, more, unreported)) {
    text_ = {};
    end_ = file_->size();
    failed_ = true;
    return false;
  }
  text_ = std::string_view(buffer_.get(), kept + more);
  end_ += static_cast<int64_t>(more);
  dropped_ += static_cast<int64_t>(count);
  return true;
}

}  // namespace shardc
