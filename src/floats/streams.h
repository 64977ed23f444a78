// Whether this processor reads memory fastest in one or in two streams.
#ifndef SHARDC_FLOATS_STREAMS_H_
#define SHARDC_FLOATS_STREAMS_H_

namespace shardc {

// Returns whether decoding should read the keys of the KV cache in one
// sequential stream without prefetch instructions. Otherwise two streams with
// prefetching are faster. The processor is queried at the first call; results
// never depend on it.
bool OneStreamIsFaster();

}  // namespace shardc

#endif  // SHARDC_FLOATS_STREAMS_H_
