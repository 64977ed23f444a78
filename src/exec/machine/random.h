// A counter-based generator: every number is a pure function of a key and a
// counter. The order of drawing, the sharding and the threads cannot change a
// number.
//
// The generator is Philox4x32-10 of Salmon et al., "Parallel random numbers: as
// easy as 1, 2, 3" (SC 2011). A test compares it with the authors' test
// vectors.
#ifndef SHARDC_EXEC_MACHINE_RANDOM_H_
#define SHARDC_EXEC_MACHINE_RANDOM_H_

#include <array>
#include <cstdint>
#include <span>
#include <string_view>

namespace shardc::exec {

std::array<uint32_t, 4> Philox(std::array<uint32_t, 4> counter,
                               std::array<uint32_t, 2> key);

// A stream of random numbers. An index selects a number of the stream. Split
// returns further independent streams.
class Random {
 public:
  explicit Random(uint64_t seed) : key_(seed) {}

  // Return an independent stream for each index or name. This object is not
  // changed.
  Random Split(uint64_t index) const;
  Random Split(std::string_view name) const;

  uint64_t Bits(uint64_t index) const;
  double Uniform(uint64_t index) const;  // in [0, 1), with 53 random bits
  double Normal(uint64_t index) const;   // normal: mean 0, variance 1
  // Returns two independent normal numbers in about the time that Normal needs
  // for one. The first equals Normal(index).
  std::array<double, 2> Normals(uint64_t index) const;
  // Sets `out` to Normals(first), Normals(first + 1) and so on, faster than
  // single calls.
  void FillNormals(uint64_t first, std::span<std::array<double, 2>> out) const;
  // Returns an integer in [0, bound), bound > 0, with a bias below bound/2^64.
  uint64_t Below(uint64_t index, uint64_t bound) const;

  uint64_t key() const { return key_; }

 private:
  uint64_t key_;
};

// Draws numbers at consecutive indices. Used by code that picks test cases.
class RandomSequence {
 public:
  explicit RandomSequence(Random random) : random_(random) {}
  uint64_t Below(uint64_t bound) { return random_.Below(next_++, bound); }
  double Uniform() { return random_.Uniform(next_++); }
  double Normal() { return random_.Normal(next_++); }
  bool Chance(double p) { return Uniform() < p; }
  // Returns an integer from low to high, both included.
  int64_t Between(int64_t low, int64_t high) {
    return low + static_cast<int64_t>(Below(uint64_t(high - low) + 1));
  }

 private:
  Random random_;
  uint64_t next_ = 0;
};

// Returns true if dropout keeps the weight of batch row b, query head h, query
// position pq and key position pk of the unsharded attention. The counter of
// Philox is these four numbers modulo 2^32, and its key is the seed. The weight
// is kept if the first output word / 2^32 is at least `rate`.
bool KeepsWeight(uint64_t seed, int64_t b, int64_t h, int64_t pq, int64_t pk,
                 double rate);

}  // namespace shardc::exec

#endif  // SHARDC_EXEC_MACHINE_RANDOM_H_
