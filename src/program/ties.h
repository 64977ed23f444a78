// Ties the dimensions of a program's values: which factors each dimension has,
// and what ops do with them.
#ifndef SHARDC_PROGRAM_TIES_H_
#define SHARDC_PROGRAM_TIES_H_

#include <cstdint>
#include <vector>

#include "program/factors.h"
#include "program/program.h"

namespace shardc::program {

// What an op does with a dimension, in the words of Shardy where it has one.
enum class Use : uint8_t {
  kContracted,    // a dot sums over it: a reduction
  kProduced,      // a dot passes it from a weight to activations
  kBatched,       // a batch dimension of a dot
  kFree,          // a dot of two activations passes it
  kReduced,       // a reduction over it
  kDivided,       // slices separate its parts
  kJoined,        // a concatenation makes it of parts
  kScanned,       // a loop runs over it
  kLookedUp,      // rows are picked by indices
  kOrdered,       // a sort, cumulative op or argmax along it: need-replication
  kSearched,      // a top_k over it: need-replication
  kShifted,       // elements move along it: a halo, or need-replication
  kWindow,        // a window of a convolution
  kFeature,       // a feature dimension of a convolution
  kGrouped,       // groups of a ragged dot
  kOpaque,        // an op that nothing is known of reads it: need-replication
  kRepeated,      // another dimension of the same value has the factor too
  kUnreconciled,  // an op ties it to a dimension that has other factors
};

// What a value depends on, as bits.
inline constexpr uint8_t kOnParams = 1;
inline constexpr uint8_t kOnData = 2;

struct Event {
  Use use = Use::kContracted;
  // The position of the op in Ties::ops.
  uint32_t op = 0;
  Factors factors;
  // For dots what the operand with the dimension depends on, and the other one.
  // For kLookedUp the indexed value and the indices.
  uint8_t own = 0, other = 0;
  // For dots: which operand, 0 or 1, has the dimension.
  uint8_t side = 0;
};

struct Ties {
  FactorTable table;
  std::vector<std::vector<Factors>> dims;  // of each value, by dimension
  std::vector<uint8_t> depends;            // of each value
  // Of each value the only parameter that it depends on, as one more than its
  // index in Program::inputs; 0 if it depends on none, on several, or on data.
  std::vector<uint32_t> origin;
  std::vector<const Op*> ops;  // with those of bodies, in order
  std::vector<double> turns;   // how often loops run each op
  std::vector<Event> events;   // of the forward pass only
};

// The program must outlive the result.
Ties TieDimensions(const Program& program);

}  // namespace shardc::program

#endif  // SHARDC_PROGRAM_TIES_H_
