#include "dense/dropout.h"

namespace shardc::dense {

// Computes the random number generator Philox 4x32-10 (J. Salmon et al., SC
// 2011). Each round changes the words a, b, c and d. First, a and c are
// multiplied by constants. The product of c gives the new a (its high half XOR
// b XOR a round key) and the new b (its low half). The product of a gives the
// new c (its high half XOR d XOR a round key) and the new d (its low half).
bool Drops(uint64_t seed, int64_t row, int64_t head, int64_t query, int64_t key,
           double rate) {
  constexpr uint64_t kWord = 0xffffffffu;
  uint64_t a = static_cast<uint64_t>(row) & kWord;
  uint64_t b = static_cast<uint64_t>(head) & kWord;
  uint64_t c = static_cast<uint64_t>(query) & kWord;
  uint64_t d = static_cast<uint64_t>(key) & kWord;
  for (uint64_t round = 0; round < 10; ++round) {
    const uint64_t low = ((seed & kWord) + round * 0x9E3779B9u) & kWord;
    const uint64_t high = ((seed >> 32) + round * 0xBB67AE85u) & kWord;
    const uint64_t of_a = a * 0xD2511F53u, of_c = c * 0xCD9E8D57u;
    a = (of_c >> 32) ^ b ^ low;
    c = (of_a >> 32) ^ d ^ high;
    b = of_c & kWord;
    d = of_a & kWord;
  }
  return static_cast<double>(a) < rate * 0x1p32;
}

}  // namespace shardc::dense
