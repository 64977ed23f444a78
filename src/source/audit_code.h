// Lists the codes of family 6 (SHD6xx), which `shardc audit` and `shardc check`
// report about compiled programs and about the budgets of steps.
#ifndef SHARDC_SOURCE_AUDIT_CODE_H_
#define SHARDC_SOURCE_AUDIT_CODE_H_

#include <span>

#include "source/code.h"

namespace shardc {

namespace code {
inline constexpr Code kActivationGathered{
    601, "activation-gathered", Level::kWarning,
    "an activation is gathered over axes of the batch"};
inline constexpr Code kGatheredThenSliced{
    602, "gathered-then-sliced", Level::kWarning,
    "a tensor is gathered only to be sliced again"};
inline constexpr Code kWeightGatheredTwice{
    603, "weight-gathered-twice", Level::kWarning,
    "a parameter is gathered more than once in a pass"};
inline constexpr Code kWeightHoisted{
    604, "weight-hoisted", Level::kWarning,
    "all layers of a parameter are gathered before the loop over them"};
inline constexpr Code kGradientNotScattered{
    605, "gradient-not-scattered", Level::kWarning,
    "each device gets the entire gradient of a sharded parameter"};
inline constexpr Code kOutputGathered{
    606, "output-gathered", Level::kWarning,
    "an output is gathered because of its declared sharding"};
inline constexpr Code kSentInWiderDtype{
    607, "sent-in-wider-dtype", Level::kWarning,
    "a tensor is sent in a wider dtype than it is kept in"};
inline constexpr Code kManySmallCollectives{
    608, "many-small-collectives", Level::kWarning,
    "many collectives of a few bytes run one after another"};
inline constexpr Code kAxisUnusedInProgram{
    609, "axis-unused-in-program", Level::kWarning,
    "no argument and no collective of the program uses a mesh axis"};
inline constexpr Code kHostTransfer{610, "host-transfer", Level::kWarning,
                                    "the step sends data to the host"};
inline constexpr Code kOverAuditBudget{
    611, "over-audit-budget", Level::kError,
    "a compiled program sends more than its budget"};
inline constexpr Code kTrafficGrew{
    612, "traffic-grew", Level::kError,
    "a compiled program sends more than its committed summary"};
inline constexpr Code kWeightResharded{
    613, "weight-resharded", Level::kWarning,
    "a parameter is moved because its spec does not fit its use"};
inline constexpr Code kLookupOfBatch{
    614, "lookup-of-batch", Level::kWarning,
    "each device looks up the tokens of other devices"};
inline constexpr Code kOverStepBudget{
    615, "over-step-budget", Level::kError,
    "a step of a target takes more than its budget"};
}  // namespace code

// Returns every code of family 6, ascending.
std::span<const Code* const> AuditCodes();

}  // namespace shardc

#endif  // SHARDC_SOURCE_AUDIT_CODE_H_
