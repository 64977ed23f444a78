// Decides which attention weights are dropped by dropout.
#ifndef SHARDC_DENSE_DROPOUT_H_
#define SHARDC_DENSE_DROPOUT_H_

#include <cstdint>

namespace shardc::dense {

// Returns whether dropout drops the weight with these indices of the unsharded
// attention: batch row, query head, and positions of query and key. A random
// number is computed by Philox 4x32-10. Its counter is the low 32 bits of the
// four indices, and its key is the seed. The weight is dropped if the first
// output word, divided by 2^32, is below `rate`.
bool Drops(uint64_t seed, int64_t row, int64_t head, int64_t query, int64_t key,
           double rate);

}  // namespace shardc::dense

#endif  // SHARDC_DENSE_DROPOUT_H_
