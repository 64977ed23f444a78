// Blocks of a model whose devices compute on their own part between a sharded
// projection and the next, without a collective in between.
#ifndef SHARDC_EMIT_EXPORTS_HF_BLOCKS_H_
#define SHARDC_EMIT_EXPORTS_HF_BLOCKS_H_

#include <cstdint>
#include <map>
#include <set>
#include <string>

#include "emit/exports/hf_modules.h"

namespace shardc::exports {

struct LocalBlocks {
  // Projections whose output stays sharded (`colwise`) or whose input is
  // sharded (`rowwise`).
  std::set<std::string, std::less<>> projections;
  // What else has a style in such a block, by module or parameter: norms of
  // heads, the projection to a latent, attention sinks and their owner.
  std::map<std::string, std::string, std::less<>> hooks;
};

// `devices` is the size of the axis.
LocalBlocks LocalBlocksOf(const HfModules& modules, int64_t devices);

}  // namespace shardc::exports

#endif  // SHARDC_EMIT_EXPORTS_HF_BLOCKS_H_
