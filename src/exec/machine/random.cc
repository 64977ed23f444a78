// Implements Philox 4x32-10 (Salmon et al., SC 2011), which computes a random
// number from a key and an index. The generator has no state, so any thread can
// draw any element of any tensor, as often as needed. Split computes a new key
// from a key and an index or name, by hashing. The authors publish test
// vectors, of which this is the first:
//
//   counter 0, key 0  ->  6627e8d5 e169c58d bc57ac4c 9b00dbd8
#include "exec/machine/random.h"

#include <algorithm>
#include <cmath>

namespace shardc::exec {
namespace {

constexpr uint32_t kMultiplier0 = 0xD2511F53;
constexpr uint32_t kMultiplier1 = 0xCD9E8D57;
constexpr uint32_t kWeyl0 = 0x9E3779B9;
constexpr uint32_t kWeyl1 = 0xBB67AE85;
constexpr int kRounds = 10;

// The last word of the counter. It differs for the three uses of a key, so that
// they draw different numbers.
constexpr uint32_t kForBits = 0;
constexpr uint32_t kForSplit = 1;
constexpr uint32_t kForName = 2;

uint32_t Low(uint64_t x) { return static_cast<uint32_t>(x); }
uint32_t High(uint64_t x) { return static_cast<uint32_t>(x >> 32); }
uint64_t Join(uint32_t low, uint32_t high) {
  return (uint64_t{high} << 32) | low;
}

std::array<uint32_t, 4> Draw(uint64_t key, uint64_t index, uint32_t use) {
  return Philox({Low(index), High(index), 0, use}, {Low(key), High(key)});
}

// Returns the FNV-1a hash. This simple hash suffices: names are few and short,
// and their hashes only need to differ.
uint64_t HashName(std::string_view name) {
  uint64_t hash = 0xcbf29ce484222325u;
  for (char c : name) {
    hash = (hash ^ static_cast<unsigned char>(c)) * 0x100000001b3u;
  }
  return hash;
}

double ToUnit(uint64_t bits) {
  return static_cast<double>(bits >> 11) * 0x1p-53;
}

}  // namespace

std::array<uint32_t, 4> Philox(std::array<uint32_t, 4> counter,
                               std::array<uint32_t, 2> key) {
  for (int round = 0; round < kRounds; ++round) {
    const uint64_t p0 = uint64_t{kMultiplier0} * counter[0];
    const uint64_t p1 = uint64_t{kMultiplier1} * counter[2];
    counter = {High(p1) ^ counter[1] ^ key[0], Low(p1),
               High(p0) ^ counter[3] ^ key[1], Low(p0)};
    key = {key[0] + kWeyl0, key[1] + kWeyl1};
  }
  return counter;
}

Random Random::Split(uint64_t index) const {
  const auto out = Draw(key_, index, kForSplit);
  return Random(Join(out[0], out[1]));
}

Random Random::Split(std::string_view name) const {
  const auto out = Draw(key_, HashName(name), kForName);
  return Random(Join(out[0], out[1]));
}

uint64_t Random::Bits(uint64_t index) const {
  const auto out = Draw(key_, index, kForBits);
  return Join(out[0], out[1]);
}

double Random::Uniform(uint64_t index) const { return ToUnit(Bits(index)); }

double Random::Normal(uint64_t index) const { return Normals(index)[0]; }

std::array<double, 2> Random::Normals(uint64_t index) const {
  std::array<std::array<double, 2>, 1> out;
  FillNormals(index, out);
  return out[0];
}

// Applies the Box-Muller transform to blocks of numbers, one step at a time for
// a whole block. The processor can overlap the same step of different numbers,
// but each step of one number waits for the previous step.
void Random::FillNormals(uint64_t first,
                         std::span<std::array<double, 2>> out) const {
  constexpr size_t kBlock = 32;
  std::array<double, kBlock> radius, angle, cosine, sine;
  for (size_t begin = 0; begin < out.size(); begin += kBlock) {
    const size_t count = std::min(kBlock, out.size() - begin);
    for (size_t i = 0; i < count; ++i) {
      const auto bits = Draw(key_, first + begin + i, kForBits);
      radius[i] = 1.0 - ToUnit(Join(bits[0], bits[1]));  // (0, 1]
      angle[i] = 2 * M_PI * ToUnit(Join(bits[2], bits[3]));
    }
    for (size_t i = 0; i < count; ++i) radius[i] = -2 * std::log(radius[i]);
    for (size_t i = 0; i < count; ++i) {
      cosine[i] = std::cos(angle[i]);
      sine[i] = std::sin(angle[i]);
    }
    for (size_t i = 0; i < count; ++i) {
      const double length = std::sqrt(radius[i]);
      out[begin + i] = {length * cosine[i], length * sine[i]};
    }
  }
}

uint64_t Random::Below(uint64_t index, uint64_t bound) const {
  __extension__ using Wide = unsigned __int128;
  return static_cast<uint64_t>((Wide{Bits(index)} * bound) >> 64);
}

bool KeepsWeight(uint64_t seed, int64_t b, int64_t h, int64_t pq, int64_t pk,
                 double rate) {
  if (rate <= 0) return true;
  const auto word = [](int64_t x) { return Low(static_cast<uint64_t>(x)); };
  const auto out =
      Philox({word(b), word(h), word(pq), word(pk)}, {Low(seed), High(seed)});
  return out[0] * 0x1p-32 >= rate;
}

}  // namespace shardc::exec
