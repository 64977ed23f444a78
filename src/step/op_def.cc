// The table of the definitions of all ops. A graph refers to an op's definition
// by its OpKind, which is the index into the table. For example:
//
//   DefOf(OpKind::kTopK).unsharded  ->  the function that returns the label of
//                                       experts, which must be unsharded
#include "step/op_def.h"

#include <array>

namespace shardc::step {
namespace {

constexpr std::array<const OpDef*, kOpKinds> kDefs = {
    &kInputDef,  &kEinsumDef,  &kAddDef,       &kScaleDef,      &kFnDef,
    &kSumDef,    &kMaxDef,     &kBroadcastDef, &kLookupDef,     &kScatterDef,
    &kPickDef,   &kPlaceDef,   &kSplitDef,     &kMergeDef,      &kPartDef,
    &kUnpartDef, &kIndexDef,   &kUnindexDef,   &kRenameDef,     &kIdentityDef,
    &kRopeDef,   &kMaskDef,    &kRepeatDef,    &kGroupSumDef,   &kTopGroupsDef,
    &kTopKDef,   &kSlotsDef,   &kDropoutDef,   &kCacheWriteDef, &kAdamWDef,
    &kRollDef,   &kDistanceDef};

}  // namespace

const OpDef& DefOf(OpKind kind) { return *kDefs[static_cast<size_t>(kind)]; }

bool StopsAlways(const Op&) { return true; }

double OnePerResult(const Op&, const OpExtent& extent) { return extent.result; }

double OnePerOperand(const Op&, const OpExtent& extent) {
  return extent.last_operand;
}

bool IsLinearIn(OpKind kind, size_t operand) {
  switch (DefOf(kind).linear) {
    case Linearity::kNone:
      return false;
    case Linearity::kFirst:
      return operand == 0;
    case Linearity::kSecond:
      return operand == 1;
    case Linearity::kEach:
    case Linearity::kTogether:
      return true;
  }
  return false;
}

}  // namespace shardc::step
