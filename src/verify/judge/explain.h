// The messages for a failed case. A message names the tensor, the devices, the
// first positions, the axis that causes the error, and what to change. If the
// bytes sent differ from the formula, the message has both numbers.
#ifndef SHARDC_VERIFY_JUDGE_EXPLAIN_H_
#define SHARDC_VERIFY_JUDGE_EXPLAIN_H_

#include <optional>
#include <vector>

#include "dense/array.h"
#include "exec/machine/sharded.h"
#include "verify/cases/case.h"

namespace shardc::verify {

// Returns the rules on the tensors' layouts that a case violates, in one error,
// or nullopt. The rules are:
// - All tensors have the same batch axes.
// - The head axes of the query begin with those of the key. Most kernels on
//   local slices require equal head axes.
// - Key and value have the same head axes and the same length axes.
// - Query and key have the same axes of the head dimension.
std::optional<exec::LayoutError> LayoutFault(const Case& test);

// Adds to `result` an explanation of a wrong output. `got` is the output and
// `reference` the correct output, both [B, T, H, D].
void ExplainNumbers(const Case& test, const dense::Array& got,
                    const dense::Array& reference, CaseResult& result);

// Returns the maximum absolute error of each device's shard of the output,
// indexed by device.
std::vector<double> DeviceErrors(const Case& test, const dense::Array& got,
                                 const dense::Array& reference);

// Returns a message about the difference between the bytes in the ledger
// (`sent`) and the bytes by formula (`expected`). It is empty if they agree.
std::string BytesDiffer(const exec::SimMesh& mesh, const exec::SentBytes& sent,
                        const exec::SentBytes& expected);
// Returns a message if the bytes that ranks really sent differ from the bytes
// that the ledger has recorded, and an empty text if they are equal. An
// implementation of all_reduce or broadcast may divide the bytes differently
// between devices, so for these only the sum over all devices is compared.
std::string MovedDiffers(const exec::SimMesh& mesh, const exec::Ledger& ledger);

// Returns the number as text such as "1.23e-04", in every locale.
std::string ErrorText(double value);

}  // namespace shardc::verify

#endif  // SHARDC_VERIFY_JUDGE_EXPLAIN_H_
