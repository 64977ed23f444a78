// Decides which attention weights dropout drops.
#ifndef SHARDC_DENSE_DROPOUT_H_
#define SHARDC_DENSE_DROPOUT_H_

#include <cstdint>

namespace shardc::dense {

// Returns whether dropout drops the weight at these indices of the unsharded
// attention: batch row, query head, and positions of query and key. That is so
// if the first word of Philox 4x32-10 at this counter, keyed by the seed, as a
// fraction of 2^32, is below `rate`.
bool Drops(uint64_t seed, int64_t row, int64_t head, int64_t query, int64_t key,
           double rate);

}  // namespace shardc::dense

#endif  // SHARDC_DENSE_DROPOUT_H_
