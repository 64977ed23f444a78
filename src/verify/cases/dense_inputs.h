// Converts a test case into the inputs of the dense reference: unsharded
// float64 tensors, and options. The conversion does not call the operations
// that are verified, so that an error in them cannot change the reference.
#ifndef SHARDC_VERIFY_CASES_DENSE_INPUTS_H_
#define SHARDC_VERIFY_CASES_DENSE_INPUTS_H_

#include "dense/attention.h"
#include "dense/latent.h"
#include "dense/narrow.h"
#include "exec/attention/attention_problem.h"
#include "model/layout.h"
#include "verify/cases/case.h"

namespace shardc::verify {

// Returns [B, L, N, D] in float64 for a tensor in `layout`.
dense::Array DenseOf(const exec::Buffer& buffer, Layout layout);
dense::Latent LatentOf(const exec::LatentInputs& latent);

dense::Options OptionsOf(const exec::AttentionOptions& options);
// Returns the settings of the case that require arithmetic narrower than
// float32, such as matrix products of 4-bit numbers.
dense::Narrow NarrowOf(const Case& test);

// Returns the reference's inputs. Query, key and value are rounded to the
// runtime dtype if there is one. Keys and values of int8 pages are rounded to
// int8. Packed tokens get positions from their segments. A table of blocks
// states which blocks of keys a block of queries reads. The reference gets the
// table only if the setting `block_mask` is `custom`. With `causal`, `sliding`
// or `global`, the table hides only keys that the masks hide anyway.
dense::Inputs InputsOf(const Case& test, const exec::AttentionProblem& problem);

}  // namespace shardc::verify

#endif  // SHARDC_VERIFY_CASES_DENSE_INPUTS_H_
