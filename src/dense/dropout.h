// Decides which attention weights dropout drops.
#ifndef SHARDC_DENSE_DROPOUT_H_
#define SHARDC_DENSE_DROPOUT_H_

#include <cstdint>

namespace shardc::dense {

// Returns whether dropout drops the weight at these indices of the unsharded
// attention: batch row, query head, and positions of query and key. Philox
// 4x32-10 has the low 32 bits of the four indices as its counter and the seed
// as its key. The weight is dropped if the first output word / 2^32 is below
// `rate`.
bool Drops(uint64_t seed, int64_t row, int64_t head, int64_t query, int64_t key,
           double rate);

}  // namespace shardc::dense

#endif  // SHARDC_DENSE_DROPOUT_H_
