// The message of a failure: tensor, devices, first positions, the axis at
// fault, and what to change.
#ifndef SHARDC_VERIFY_JUDGE_EXPLAIN_H_
#define SHARDC_VERIFY_JUDGE_EXPLAIN_H_

#include <optional>
#include <vector>

#include "dense/array.h"
#include "exec/machine/sharded.h"
#include "verify/cases/case.h"

namespace shardc::verify {

// Returns which rules between the tensors' layouts a case violates, joined:
// equal batch, key heads nested in query heads, equal lengths of key and value,
// equal head dimension. Nullopt if all hold.
std::optional<exec::LayoutError> LayoutFault(const Case& test);

// Explains a numeric failure; `got` and `reference` are [B, T, H, D].
void ExplainNumbers(const Case& test, const dense::Array& got,
                    const dense::Array& reference, CaseResult& result);

// Returns the maximum absolute error of each device's shard of the output.
std::vector<double> DeviceErrors(const Case& test, const dense::Array& got,
                                 const dense::Array& reference);

// Describes a ledger that differs from the formulas.
std::string BytesDiffer(const exec::SimMesh& mesh, const exec::SentBytes& sent,
                        const exec::SentBytes& expected);
// Compares the bytes that ranks really sent with the ledger, and describes the
// difference; empty if they agree. The share of an all_reduce or broadcast that
// each device sends is up to the sender, so only the sum over devices is
// compared.
std::string MovedDiffers(const exec::SimMesh& mesh, const exec::Ledger& ledger);

// Returns "1.23e-4", the same in every locale.
std::string ErrorText(double value);

}  // namespace shardc::verify

#endif  // SHARDC_VERIFY_JUDGE_EXPLAIN_H_
