// Counts what the ops of a program compute, and which values a compiler stores.
#ifndef SHARDC_PROGRAM_WORK_H_
#define SHARDC_PROGRAM_WORK_H_

#include <span>
#include <unordered_set>
#include <vector>

#include "program/program.h"

namespace shardc::program {

// Returns whether an op is a matmul or a convolution.
bool IsMatmul(const Op& op);

// Returns the floating-point operations of a product whose operands and result
// have these shapes, which may be those of a device. A multiply-add is two
// operations. The rows of a ragged product are multiplied once each.
double ProductFlops(const Op& op, std::span<const Shape> in, const Shape& out);

// Returns the products of which a causal mask hides half: those that read
// masked values, and those whose result is only read behind the mask. A mask is
// a comparison of the numbers of the rows with those of the columns.
std::unordered_set<const Op*> MaskedMatmuls(const Program& program);

// Returns for each value the stored values that an op reads to have it: itself
// if a compiler stores it. Others are views, or are computed again by each op
// that reads them, as XLA's loop fusions do.
std::vector<std::vector<ValueId>> StoredSources(const Program& program);

}  // namespace shardc::program

#endif  // SHARDC_PROGRAM_WORK_H_
