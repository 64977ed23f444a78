// The messages for a failed case: tensor, devices, first positions, the axis at
// fault, and what to change; or which bytes differ.
#ifndef SHARDC_VERIFY_JUDGE_EXPLAIN_H_
#define SHARDC_VERIFY_JUDGE_EXPLAIN_H_

#include <optional>
#include <vector>

#include "dense/array.h"
#include "exec/machine/sharded.h"
#include "verify/cases/case.h"

namespace shardc::verify {

// Returns the rules on the tensors' layouts that a case violates, in one error:
// all tensors have the same batch axes; the query's head axes begin with the
// key's (and equal them for most kernels on local slices); key and value have
// the same head axes and the same length axes; query and key have the same axes
// of the head dimension. Returns nullopt if the case violates none.
std::optional<exec::LayoutError> LayoutFault(const Case& test);

// Explains a wrong result in `result`. `got` and `reference` are [B, T, H, D].
void ExplainNumbers(const Case& test, const dense::Array& got,
                    const dense::Array& reference, CaseResult& result);

// Returns the maximum absolute error of each device's shard of the output.
std::vector<double> DeviceErrors(const Case& test, const dense::Array& got,
                                 const dense::Array& reference);

// Returns a message about the difference between the bytes of the ledger and of
// the formulas; empty if they agree.
std::string BytesDiffer(const exec::SimMesh& mesh, const exec::SentBytes& sent,
                        const exec::SentBytes& expected);
// Returns a message about the difference between the bytes that ranks really
// sent and the ledger; empty if they agree. An implementation of all_reduce or
// broadcast may divide the bytes differently between devices, so only their sum
// is compared.
std::string MovedDiffers(const exec::SimMesh& mesh, const exec::Ledger& ledger);

// Returns the number as text such as "1.23e-04", in every locale.
std::string ErrorText(double value);

}  // namespace shardc::verify

#endif  // SHARDC_VERIFY_JUDGE_EXPLAIN_H_
