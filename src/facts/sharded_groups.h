// Reads parameter groups with their specs as evidence of what the axes of the
// mesh are for.
#ifndef SHARDC_FACTS_SHARDED_GROUPS_H_
#define SHARDC_FACTS_SHARDED_GROUPS_H_

#include <cstdint>
#include <span>
#include <string_view>
#include <vector>

#include "facts/axes.h"
#include "facts/parameters.h"
#include "model/manifest.h"
#include "program/facts.h"
#include "resolve/resolve.h"

namespace shardc::facts {

// The spec of the parameters of one group. All pointers but those to the
// program must be set.
struct WrittenSpec {
  uint32_t group = 0;  // index into ParameterTable::groups
  const Shape* shape = nullptr;
  // The spec as the rules write it, with an entry for each dimension, and for
  // each dimension how its names became axes.
  const Spec* spec = nullptr;
  std::span<const std::vector<NameTrace>> traces = {};
  std::string_view placed_along = {};  // the axis of a placement, or empty
  int32_t rule = -1;
  // What a traced program shows about the parameter; null if there is none.
  const program::Facts* program = nullptr;
  const program::ParamFacts* traced = nullptr;
};

// Returns the group as evidence. The result refers to the table and to what
// `written` refers to.
ShardedGroup ShardedGroupOf(const ParameterTable& table,
                            const WrittenSpec& written);

}  // namespace shardc::facts

#endif  // SHARDC_FACTS_SHARDED_GROUPS_H_
