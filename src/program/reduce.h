// Reduces the sizes of a program's dimensions, so that a run of the program is
// short and computes what the program computes.
#ifndef SHARDC_PROGRAM_REDUCE_H_
#define SHARDC_PROGRAM_REDUCE_H_

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "model/mesh.h"
#include "program/program.h"
#include "program/sharding.h"
#include "program/ties.h"

namespace shardc::program {

struct ReducedProgram;

struct ReduceRequest {
  const Program* program = nullptr;
  // If not null, a program that has some of the inputs and results of the same
  // shapes, which is reduced in the same way.
  const Program* reference = nullptr;
  const Mesh* mesh = nullptr;
  const std::vector<Spec>* inputs = nullptr;  // the sharding of each input
  const Sharding* sharding = nullptr;         // ShardProgram() of the program
  // Keeps the sizes of dimensions whose indices an op counts, everywhere: an
  // iota, a slice or a lookup. Otherwise they are kept where the user's own
  // collectives are, in the body of a manual region.
  bool keeps_counted = false;
  // If not null, what the same request gave before. Every size that is reduced
  // then becomes another one than there, than that of another factor, and than
  // a number of the programs. What equals a size there by chance, such as a
  // number by which the function divides, does not equal it here.
  const ReducedProgram* unlike = nullptr;
};

// A size of the program, which is a factor of its dimensions.
struct ReducedSize {
  int64_t traced = 0, run = 0;
  // An input that has the factor, and the dimension there. Empty if there is
  // none.
  std::string input;
  size_t dim = 0;
  // Of a factor that keeps its size although it is large: the name of the op
  // that needs it, and its line, which may be unknown.
  std::string kept_by;
  Line at;
};

struct ReducedProgram {
  // Has the ops and the values of the program, in the same order.
  Program program;
  std::optional<Program> reference;
  // ShardProgram() of the reduced program, which chose for every op what it
  // chose for the real one.
  Sharding sharding;
  std::vector<ReducedSize> sizes;  // those that differ, or that an op keeps
  // The sizes of all factors that are neither products nor sums.
  std::map<FactorId, int64_t> factors;
};

// Returns the program with smaller sizes. Each dimension is a product of
// factors (TieDimensions), and a factor becomes the least multiple, from 4 on,
// of twice its number of shards. The shapes and the attributes of all ops are
// then those that the ops would have had if the function had been traced with
// these sizes. A factor keeps its size if an op would be another one without
// it. Every op has the same rule (RuleOf) and the same sharding as before.
//
// Returns nullopt if no size can be reduced.
std::optional<ReducedProgram> ReduceProgram(const ReduceRequest& request);

}  // namespace shardc::program

#endif  // SHARDC_PROGRAM_REDUCE_H_
