// Computes CRC-32C. On processors with carry-less multiplication of vectors, a
// long text is first replaced by a shorter text with the same CRC
// (checksum_simd.cc). The remaining bytes are processed by the processor's CRC
// instruction. If there is no such instruction, they are processed by table
// look-ups.
//
// The instruction accepts eight bytes per cycle but has a latency of three
// cycles. So the text is divided into runs of 4,096 bytes, and the CRCs of
// three runs are computed in parallel. If a run with CRC a is followed by a run
// of n bytes with CRC b, the CRC of both is a x^(8n) + b, modulo the
// polynomial. All runs have the same length, so this multiplication is done by
// four table look-ups. For the three runs a, b and c:
//
//   crc(abc) = (crc(a) x^32768 + crc(b)) x^32768 + crc(c)
#include "stored/checksum.h"

#include <array>
#include <charconv>
#include <cstring>

#include "floats/targets_simd.h"

#if defined(__x86_64__)
#define SHARDC_CRC_INSTRUCTION __attribute__((target("sse4.2")))
#elif defined(__ARM_FEATURE_CRC32)
// Empty, because the flags of the build already allow the instruction.
#define SHARDC_CRC_INSTRUCTION
#elif defined(__aarch64__) && defined(__linux__) && !defined(__clang__)
#define SHARDC_CRC_INSTRUCTION __attribute__((target("+crc")))
#endif

#if defined(SHARDC_CRC_INSTRUCTION) && !defined(__x86_64__)
#include <arm_acle.h>
#ifdef __linux__
#include <asm/hwcap.h>
#include <sys/auxv.h>
#endif
#endif

namespace shardc {
namespace {

constexpr std::array<uint32_t, 256> kBytes = [] {
  std::array<uint32_t, 256> table{};
  for (uint32_t i = 0; i < 256; ++i) {
    uint32_t value = i;
    for (int bit = 0; bit < 8; ++bit) {
      value = (value & 1) != 0 ? value >> 1 ^ kCrc32cPolynomial : value >> 1;
    }
    table[i] = value;
  }
  return table;
}();

#ifdef SHARDC_CRC_INSTRUCTION

constexpr size_t kRun = 4096;  // bytes of each of the three parallel runs

// Multiplies a CRC by x^(8 * Bytes), with one table for each byte of the CRC.
template <size_t Bytes>
struct Mover {
  std::array<std::array<uint32_t, 256>, 4> table{};
  constexpr Mover() {
    const uint32_t power = CrcPowerOfBytes(Bytes);
    for (uint32_t k = 0; k < 4; ++k) {
      // Multiplication is linear, so the entries of all other values are sums
      // of the entries of single bits.
      for (uint32_t bit = 0; bit < 8; ++bit) {
        table[k][uint32_t{1} << bit] =
            CrcMultiply(uint32_t{1} << (8 * k + bit), power);
      }
      for (uint32_t i = 1; i < 256; ++i) {
        table[k][i] = table[k][i & (i - 1)] ^ table[k][i & (~i + 1)];
      }
    }
  }
  uint32_t operator()(uint32_t value) const {
    return table[0][value & 0xFF] ^ table[1][value >> 8 & 0xFF] ^
           table[2][value >> 16 & 0xFF] ^ table[3][value >> 24];
  }
};

constexpr Mover<kRun> kOverOne;
constexpr Mover<2 * kRun> kOverTwo;

#ifdef __x86_64__
using State = uint64_t;  // the instruction's operand type
bool HasInstruction() { return HasSse42(); }
SHARDC_CRC_INSTRUCTION inline State AddWord(State state, uint64_t word) {
  return __builtin_ia32_crc32di(state, word);
}
SHARDC_CRC_INSTRUCTION inline uint32_t AddByte(uint32_t state, char byte) {
  return __builtin_ia32_crc32qi(state, static_cast<unsigned char>(byte));
}
#else
using State = uint32_t;
bool HasInstruction() {
#ifdef __linux__
  return (getauxval(AT_HWCAP) & HWCAP_CRC32) != 0;
#else
  return true;
#endif
}
SHARDC_CRC_INSTRUCTION inline State AddWord(State state, uint64_t word) {
  return __crc32cd(state, word);
}
SHARDC_CRC_INSTRUCTION inline uint32_t AddByte(uint32_t state, char byte) {
  return __crc32cb(state, static_cast<unsigned char>(byte));
}
#endif

SHARDC_CRC_INSTRUCTION uint32_t Hardware(const char* at, size_t count,
                                         uint32_t state) {
  const auto word = [](const char* from) {
    uint64_t value = 0;
    std::memcpy(&value, from, sizeof(value));
    return value;
  };
  for (; count >= 3 * kRun; count -= 3 * kRun, at += 3 * kRun) {
    State a = state, b = 0, c = 0;
    for (size_t i = 0; i < kRun; i += 8) {
      a = AddWord(a, word(at + i));
      b = AddWord(b, word(at + kRun + i));
      c = AddWord(c, word(at + 2 * kRun + i));
    }
    state = kOverTwo(static_cast<uint32_t>(a)) ^
            kOverOne(static_cast<uint32_t>(b)) ^ static_cast<uint32_t>(c);
  }
  State wide = state;
  for (; count >= 8; count -= 8, at += 8) wide = AddWord(wide, word(at));
  state = static_cast<uint32_t>(wide);
  for (; count > 0; --count, ++at) state = AddByte(state, *at);
  return state;
}

#endif

uint32_t AdvanceByTable(const char* at, size_t count, uint32_t state) {
  for (; count > 0; --count, ++at) {
    state =
        kBytes[(state ^ static_cast<unsigned char>(*at)) & 0xFF] ^ state >> 8;
  }
  return state;
}

uint32_t Advance(const char* at, size_t count, uint32_t state) {
#ifdef SHARDC_CRC_INSTRUCTION
  static const bool has_instruction = HasInstruction();
  if (has_instruction) return Hardware(at, count, state);
#endif
  return AdvanceByTable(at, count, state);
}

}  // namespace

uint32_t Crc32cByTable(std::string_view bytes, uint32_t before) {
  return ~AdvanceByTable(bytes.data(), bytes.size(), ~before);
}

uint32_t Crc32c(std::string_view bytes, uint32_t before) {
  uint32_t state = ~before;
  char folded[kMaxFoldedBytes];
  size_t kept = 0;
  const size_t done =
      FoldCrc32c(bytes.data(), bytes.size(), state, folded, &kept);
  if (done > 0) state = Advance(folded, kept, 0);
  return ~Advance(bytes.data() + done, bytes.size() - done, state);
}

uint32_t CombineCrc32c(uint32_t first, uint32_t second, uint64_t second_size) {
  return CrcMultiply(CrcPowerOfBytes(second_size), first) ^ second;
}

std::string ChecksumText(uint32_t crc) {
  static constexpr std::string_view kDigits = "0123456789abcdef";
  std::string out = "crc32c:";
  for (int shift = 28; shift >= 0; shift -= 4) {
    out += kDigits[crc >> shift & 0xF];
  }
  return out;
}

std::optional<uint32_t> ParseChecksum(std::string_view text) {
  constexpr std::string_view kPrefix = "crc32c:";
  if (!text.starts_with(kPrefix) || text.size() != kPrefix.size() + 8) {
    return std::nullopt;
  }
  uint32_t crc = 0;
  const auto [end, error] = std::from_chars(text.data() + kPrefix.size(),
                                            text.data() + text.size(), crc, 16);
  if (error != std::errc() || end != text.data() + text.size()) {
    return std::nullopt;
  }
  return crc;
}

}  // namespace shardc
