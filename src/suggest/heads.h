// How many heads a block's projections have, which a cut must keep whole.
#ifndef SHARDC_SUGGEST_HEADS_H_
#define SHARDC_SUGGEST_HEADS_H_

#include <cstdint>

#include "suggest/dims.h"

namespace shardc::suggest {

// Fills `units` of attention's projections and of feed-forward halves.
// `tensor_parts` is what heads will be cut into: where their size is assumed,
// and the parts are no power of two, every likely size has to allow it.
void ReadHeads(const Tree& tree, const ModelConfig* model, int64_t tensor_parts,
               Readings& readings);

}  // namespace shardc::suggest

#endif  // SHARDC_SUGGEST_HEADS_H_
