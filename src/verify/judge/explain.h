// What a failure says: tensor, devices, first positions, the axis
// responsible, and what would make it right.
#ifndef SHARDC_VERIFY_JUDGE_EXPLAIN_H_
#define SHARDC_VERIFY_JUDGE_EXPLAIN_H_

#include <optional>
#include <vector>

#include "dense/array.h"
#include "exec/machine/sharded.h"
#include "verify/cases/case.h"

namespace shardc::verify {

// What rules between the tensors' layouts a case breaks, all in one: batch
// alike, key heads nested in query heads, lengths of key and value alike, head
// dimension alike. Nothing where all hold.
std::optional<exec::Complaint> LayoutFault(const Case& test);

// Words a numeric failure: `got` and `reference` are [B, T, H, D].
void ExplainNumbers(const Case& test, const dense::Array& got,
                    const dense::Array& reference, CaseResult& result);

// Max abs error of the part of the output that each device holds.
std::vector<double> DeviceErrors(const Case& test, const dense::Array& got,
                                 const dense::Array& reference);

// Of a ledger that is not as the formulas have it.
std::string BytesDiffer(const exec::SimMesh& mesh, const exec::SentBytes& sent,
                        const exec::SentBytes& expected);
// Of bytes that ranks handed over and the ledger's; empty where they are the
// same. How much of an all_reduce or broadcast each device sends is the
// sender's own matter, how much all of them do is not.
std::string MovedDiffers(const exec::SimMesh& mesh, const exec::Ledger& ledger);

// "1.23e-4", for people and the same in every locale.
std::string ErrorText(double value);

}  // namespace shardc::verify

#endif  // SHARDC_VERIFY_JUDGE_EXPLAIN_H_
