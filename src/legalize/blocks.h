// Makes specs legal for tensors that are stored in blocks of a quantized dtype:
// no shard may end inside a block.
#ifndef SHARDC_LEGALIZE_BLOCKS_H_
#define SHARDC_LEGALIZE_BLOCKS_H_

#include <optional>

#include "legalize/legalize.h"

namespace shardc {

// Makes a spec legal for a tensor with the shape and dtype of `type`. If the
// dtype stores blocks of elements, the last dimension may be split only between
// two blocks.
Legal LegalizeStored(const Spec& spec, const TensorType& type, const Mesh& mesh,
                     const LegalizeOptions& options);

}  // namespace shardc

#endif  // SHARDC_LEGALIZE_BLOCKS_H_
