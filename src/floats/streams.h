// Detects whether this processor decodes faster if it reads the keys of the KV
// cache in one sequential stream of addresses, or in two streams.
#ifndef SHARDC_FLOATS_STREAMS_H_
#define SHARDC_FLOATS_STREAMS_H_

namespace shardc {

// Returns true if decoding should read the keys of the KV cache in one
// sequential stream without prefetch instructions. Returns false if two streams
// with prefetching are faster. The processor is queried at the first call. The
// results of decoding do not depend on this choice.
bool OneStreamIsFaster();

}  // namespace shardc

#endif  // SHARDC_FLOATS_STREAMS_H_
