// A counter-based generator: every number is a pure function of a key and a
// counter, so the order of drawing, sharding and threads cannot change it.
//
// Philox4x32-10 of Salmon et al., "Parallel random numbers: as easy as 1, 2,
// 3" (SC 2011), checked against that paper's known answers.
#ifndef SHARDC_EXEC_MACHINE_RANDOM_H_
#define SHARDC_EXEC_MACHINE_RANDOM_H_

#include <array>
#include <cstdint>
#include <span>
#include <string_view>

namespace shardc::exec {

std::array<uint32_t, 4> Philox(std::array<uint32_t, 4> counter,
                               std::array<uint32_t, 2> key);

// A stream of random numbers, each of which is drawn by its index. Further
// independent streams can be split off.
class Random {
 public:
  explicit Random(uint64_t seed) : key_(seed) {}

  // Return an independent stream for each index or name; this stream is
  // unchanged.
  Random Split(uint64_t index) const;
  Random Split(std::string_view name) const;

  uint64_t Bits(uint64_t index) const;
  double Uniform(uint64_t index) const;  // [0, 1), 53 bits
  double Normal(uint64_t index) const;   // mean 0, variance 1
  // Returns two independent normal numbers, in about the time that Normal takes
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

// Draws numbers by consecutive indices, for code that picks test cases.
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

// Returns whether dropout keeps the weight of batch row b, query head h, query
// position pq and key position pk of the unsharded attention. Philox has these
// four numbers modulo 2^32 as its counter and the seed as its key. The weight
// is kept if the first output word / 2^32 is at least `rate`.
bool KeepsWeight(uint64_t seed, int64_t b, int64_t h, int64_t pq, int64_t pk,
                 double rate);

}  // namespace shardc::exec

#endif  // SHARDC_EXEC_MACHINE_RANDOM_H_
