// Ops whose own mathematics a proof does not have: what nothing is known of,
// and numbers that the program does not state.
#ifndef SHARDC_VERIFY_PROGRAM_STAND_INS_H_
#define SHARDC_VERIFY_PROGRAM_STAND_INS_H_

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <unordered_map>
#include <utility>
#include <vector>

#include "exec/machine/random.h"
#include "program/program.h"

namespace shardc::verify {

// Returns whether the numbers of an op are drawn: it is random, or a constant
// whose elements the program does not state.
bool IsDrawn(const program::Program& program, const program::Op& op);

// Returns what an op is whose own mathematics the proof does not have, such as
// "fft"; empty if it has them. The shape of a constant is that in `traced`.
std::string StandInName(const program::Program& program,
                        const program::Program& traced, const program::Op& op);

struct StandIn {
  const program::Op* op = nullptr;
  bool region = false;  // it runs on the shards of a manual region
};

// Returns the stand-ins from whose results an op computes its own, itself too,
// in the order of the program. Those with the same name and line are returned
// once. `op` is outside of bodies.
std::vector<StandIn> StandInsBefore(const program::Program& program,
                                    const program::Program& traced,
                                    const program::Op& op);

// Draws the numbers of values that a program does not determine. They depend on
// the seed, and on how many earlier values of the same shape and dtype are
// drawn, so that two programs of one function have the same ones.
class DrawnValues {
 public:
  // `bounds` has for each value how many different integers it may have, or 0
  // if that is unknown.
  DrawnValues(const program::Program& program, std::vector<int64_t> bounds,
              const exec::Random& random);
  std::vector<double> Of(program::ValueId id) const;

 private:
  // How many values of a shape and dtype were numbered.
  using Counts = std::map<std::pair<Shape, std::optional<Dtype>>, uint64_t>;
  void Number(const std::vector<program::Op>& ops, Counts& counts);

  const program::Program& program_;
  const std::vector<int64_t> bounds_;
  const exec::Random random_;
  std::unordered_map<program::ValueId, uint64_t> numbers_;
};

}  // namespace shardc::verify

#endif  // SHARDC_VERIFY_PROGRAM_STAND_INS_H_
