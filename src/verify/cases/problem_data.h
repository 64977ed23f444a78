// Creates the test data of a case. The data is random, with different means and
// scales, so that an element from a wrong place changes the result.
#ifndef SHARDC_VERIFY_CASES_PROBLEM_DATA_H_
#define SHARDC_VERIFY_CASES_PROBLEM_DATA_H_

#include "dense/attention.h"
#include "dense/narrow.h"
#include "exec/attention/attention_problem.h"
#include "model/axis_rules.h"
#include "verify/cases/case.h"

namespace shardc::verify {

// Returns the inputs of a case, computed from its seed. Mean and norm depend on
// head and batch row, and the mean also on the position. An element in a wrong
// place therefore causes an error above the rounding of bfloat16. The query is
// rounded to the case's dtype, and key and value to the dtype in which they are
// stored (KeyDtype), so that the reference reads the rounded numbers too.
exec::AttentionProblem MakeProblem(const Case& test, int threads = 1);

// Sets key_heads to heads, and value_dim to latent_value_dim if that is set.
void SizeLatent(Sizes& sizes);

// Returns true if the case's keys are computed from a latent. The operation
// must be a latent one, there must be as many key heads as query heads, and a
// head must have at least one rotated dim.
bool HasLatent(const Case& test);

// If HasLatent(test), adds to `problem` a latent of the case's sizes.
void AddLatent(const Case& test, exec::AttentionProblem& problem);

// Converts a test case into the inputs of the dense reference: unsharded
// float64 tensors, and options. The conversion does not call the operations
// that are verified, so that an error in them cannot change the reference.

// Returns [B, L, N, D] in float64 for a tensor in `layout`.
dense::Array DenseOf(const exec::Buffer& buffer, Layout layout);
dense::Latent LatentOf(const exec::LatentInputs& latent);

dense::Options OptionsOf(const exec::AttentionOptions& options);
// Returns the settings of the case that require arithmetic narrower than
// float32, such as matmuls of 4-bit numbers.
dense::Narrow NarrowOf(const Case& test);

// Returns the reference's inputs. Query, key and value are rounded to the
// runtime dtype if there is one. Keys and values of int8 pages are rounded to
// int8. Packed tokens get positions from their segments. A table of blocks
// states which blocks of keys a block of queries reads. The reference gets the
// table only if the setting `block_mask` is `custom`. With `causal`, `sliding`
// or `global`, the table hides only keys that the masks hide anyway.
dense::Inputs InputsOf(const Case& test, const exec::AttentionProblem& problem);

}  // namespace shardc::verify

#endif  // SHARDC_VERIFY_CASES_PROBLEM_DATA_H_
