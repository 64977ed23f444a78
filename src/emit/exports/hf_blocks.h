// Finds blocks of a model in which each device computes with its own part from
// one sharded projection to the next, so that no collective is needed between
// them.
#ifndef SHARDC_EMIT_EXPORTS_HF_BLOCKS_H_
#define SHARDC_EMIT_EXPORTS_HF_BLOCKS_H_

#include <cstdint>
#include <map>
#include <set>
#include <string>

#include "emit/exports/hf_modules.h"

namespace shardc::exports {

struct LocalBlocks {
  // Projections of local blocks: their output stays sharded (`colwise`) or
  // their input is sharded (`rowwise`).
  std::set<std::string, std::less<>> projections;
  // The styles of other modules and parameters in local blocks: norms of heads,
  // the projection to a latent, attention sinks and the module that owns them,
  // activation functions with scalar parameters.
  std::map<std::string, std::string, std::less<>> hooks;
};

// `devices` is the size of the tensor parallel axis.
LocalBlocks LocalBlocksOf(const HfModules& modules, int64_t devices);

}  // namespace shardc::exports

#endif  // SHARDC_EMIT_EXPORTS_HF_BLOCKS_H_
