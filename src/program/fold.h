// Folds ops that repeat, such as those of the layers of a loop that was
// unrolled: one op of each class runs, and stands for the others.
#ifndef SHARDC_PROGRAM_FOLD_H_
#define SHARDC_PROGRAM_FOLD_H_

#include <cstddef>
#include <cstdint>
#include <optional>
#include <vector>

#include "program/program.h"
#include "program/sharding.h"

namespace shardc::program {

struct FoldRequest {
  const Program* program = nullptr;
  // The same program at the sizes whose traffic is reported; may be `program`.
  const Program* traced = nullptr;
  const Sharding* sharding = nullptr;  // of `program`
};

struct FoldedProgram {
  // A part of the inputs, ops and results of the program, in their order, with
  // the numbers that their values have there. An op reads the values of the ops
  // that stand for others.
  Program program, traced;
  Sharding sharding;           // what the whole program has
  std::vector<int64_t> times;  // how many ops each op stands for, itself too
  // Of each input of the whole program the one in `program`; nullopt if no op
  // reads it there.
  std::vector<std::optional<size_t>> inputs;
  // Of each result of the whole program the one that stands for it.
  std::vector<size_t> results;
};

// Leaves out the ops for which another one stands. Two ops have one class if
// all is the same by which devices compute and send: the kind, attributes and
// bodies, the line, the shapes and dtypes at both sizes, the shardings before
// and after the op, which operands are resharded for this op, and the numbers
// of operands that no input determines. An op that is proved on its operands
// then proves the others of its class on theirs.
//
// What is computed with the program's numbers is another function, so that
// results are not those of the program. Returns nullopt if few ops repeat.
std::optional<FoldedProgram> FoldRepeated(const FoldRequest& request);

}  // namespace shardc::program

#endif  // SHARDC_PROGRAM_FOLD_H_
