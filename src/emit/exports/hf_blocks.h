// Finds the local blocks of a model. In a local block, each device computes
// with its own part of the activations from one sharded projection to the next,
// so that no collective is needed between the projections.
#ifndef SHARDC_EMIT_EXPORTS_HF_BLOCKS_H_
#define SHARDC_EMIT_EXPORTS_HF_BLOCKS_H_

#include <cstdint>
#include <map>
#include <set>
#include <string>
#include <string_view>

#include "emit/exports/hf_modules.h"

namespace shardc::exports {

struct LocalBlocks {
  // The projections in local blocks, whose activations stay sharded from the
  // first projection (style `colwise`) to the last one (style `rowwise`).
  std::set<std::string, std::less<>> projections;
  // The projections in local blocks that hold two matrices, of each of which a
  // device has a part (style `packed_colwise`).
  std::set<std::string, std::less<>> packed;
  // The styles that the exported plan gives to modules and parameters of local
  // blocks other than those in `projections`, keyed by name. They are norms of
  // heads, the projection to the latent of latent attention, attention sinks
  // and the module that owns them, and activation functions with scalar
  // parameters. For example, `self_attn.q_norm` has the style
  // `replicated_with_grad_allreduce`.
  std::map<std::string, std::string, std::less<>> hooks;
};

// Returns the local blocks. `devices` is the size of the tensor parallel axis.
// `model_type` is that of the configuration, or empty.
LocalBlocks LocalBlocksOf(const HfModules& modules, int64_t devices,
                          std::string_view model_type);

}  // namespace shardc::exports

#endif  // SHARDC_EMIT_EXPORTS_HF_BLOCKS_H_
