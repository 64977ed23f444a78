// Room: checkpoint. safetensors in and out: split, merge, reshard. Knows
// source, model, importers, legalize and plan.
//
// Casts between floating types, rounded to nearest with ties to even, in one
// step. Infinities stay, what is too large becomes one, NaNs stay NaNs (quiet,
// with their sign and upper payload bits). Vector code and the plain loops of
// cast_scalar.h give the same bits.
#ifndef SHARDC_CHECKPOINT_CAST_H_
#define SHARDC_CHECKPOINT_CAST_H_

#include <cstddef>

#include "model/dtype.h"

namespace shardc {

// From F64, F32, F16 or BF16 to F32, F16 or BF16.
bool CanCast(Dtype from, Dtype to);

// `in` and `out` do not overlap and need no alignment. CanCast holds.
void CastElements(Dtype from, Dtype to, const char* in, char* out,
                  size_t count);

}  // namespace shardc

#endif  // SHARDC_CHECKPOINT_CAST_H_
