// The definition of an op: the rules of one OpKind for dimensions, derivatives,
// work and memory, in one record. The records are in op_*.cc, grouped by
// families of ops, and DefOf() returns them. An op has two more parts. Its
// kernel on a device is an entry of the table in exec/step/local_op.cc. Its
// function in the dense reference, which shares no code with the kernels, is an
// entry of the table in dense/step.cc.
//
// To add an op, add an enumerator to OpKind, a record, which op_def.cc lists,
// and an entry in each of these two tables. Ops that split, merge or repeat a
// dimension also need rules in factors.cc.
#ifndef SHARDC_STEP_OP_DEF_H_
#define SHARDC_STEP_OP_DEF_H_

#include <array>
#include <cstddef>
#include <cstdint>
#include <string_view>
#include <type_traits>
#include <variant>

#include "model/step_graph.h"
#include "step/op_labels.h"

namespace shardc::step {

class Backward;  // is declared in step/backward.h

// Returns the index of the type T in the variant OpAttributes.
template <class T, class... Types>
constexpr size_t PlaceIn(const std::variant<Types...>*) {
  size_t place = 0;
  static_cast<void>(
      ((std::is_same_v<T, Types> ? false : (++place, true)) && ...));
  return place;
}
template <class T>
inline constexpr size_t kTypeOf =
    PlaceIn<T>(static_cast<const OpAttributes*>(nullptr));

// States in which operands an op is linear. If a linear operand is partial over
// an axis that no other operand uses, the op can run before the reduction. Its
// result is then partial over the axis.
enum class Linearity : uint8_t {
  kNone,
  kFirst,
  kSecond,
  // In each operand while the other operands are fixed. A product is an
  // example.
  kEach,
  // Only in all operands together, like a sum. All must be partial over the
  // axis.
  kTogether,
};

// The buffer in which the result of an op is stored on a device.
enum class Storage : uint8_t {
  kOwn,  // A separate buffer of the result.
  // The buffer of the first operand. Views and writes to a cache use it.
  kFirstOperand,
  kUpdated,  // The buffer of the operand that the op updates (AdamW).
  // The buffer of an operand of the same size that no later op reads, if there
  // is one; otherwise a separate buffer.
  kOverwrites,
  // As kOverwrites if the result has all labels of the operands, otherwise a
  // separate buffer.
  kIfNothingSums,
};

// Appends the ops that compute the cotangents of the operands from `cotangent`,
// the cotangent of the result. The rule must read forward values through
// Backward::Forward(), because the forward pass may not keep them.
using VjpRule = void (*)(Backward& backward, const Op& op, ValueId cotangent);

// Returns the labels (at most two) along which operands and result must be
// unsharded. Unused entries are kNoLabel.
using UnshardedRule = std::array<LabelId, 2> (*)(const Graph& graph,
                                                 const Op& op);

// The sizes of an op on a device, in elements.
struct OpExtent {
  // The number of combinations of the indices of all labels of operands and
  // result. For a product this is the number of multiplications.
  double combinations = 1;
  double result = 1, last_operand = 1;
  double operands = 0;  // The number of operands.
};

using FlopsRule = double (*)(const Op& op, const OpExtent& extent);

struct OpDef {
  OpKind kind = OpKind::kInput;
  // Explains the result in words, by the operands and attributes of the op.
  std::string_view text = {};
  // The index of the type of the attributes in OpAttributes (kTypeOf).
  size_t attributes = kTypeOf<NoAttributes>;

  // --- dimension rule ---
  Linearity linear = Linearity::kNone;
  UnshardedRule unsharded = nullptr;  // Null if no label must be unsharded.
  // Whether the op splits, merges or repeats a dimension, by the rules of
  // factors.h.
  bool structural = false;
  // Whether the preferred sharding of the result is propagated to the first
  // operand or, for a sum, to all operands.
  bool passes_preference = false;
  // The kind of the labels that operands have and the result lacks, such as
  // kSum for an einsum and kMax for a maximum.
  LabelKind dropped = LabelKind::kSum;

  // --- derivative ---
  VjpRule vjp = nullptr;  // Null if the operands get no cotangent.
  // Returns whether no gradient passes through the op. Null if gradients always
  // pass.
  bool (*stops_gradient)(const Op& op) = nullptr;

  // --- work ---
  FlopsRule flops = nullptr;  // Null if the op has no operations.

  // --- memory ---
  Storage storage = Storage::kOwn;
  // Whether the result has the same name as its operand in rematerialisation
  // policies. A policy that keeps the operand by name then also keeps the
  // result.
  bool keeps_name = false;
};

// Rules for `flops`. OnePerResult counts one operation for each element of the
// result, and OnePerOperand one for each element of the last operand.
double OnePerResult(const Op& op, const OpExtent& extent);
double OnePerOperand(const Op& op, const OpExtent& extent);

bool StopsAlways(const Op& op);

const OpDef& DefOf(OpKind kind);

// Returns whether the op is linear in the operand with this index.
bool IsLinearIn(OpKind kind, size_t operand);

// The definitions, in the order of OpKind.
extern const OpDef kInputDef, kEinsumDef, kAddDef, kScaleDef, kFnDef, kSumDef,
    kMaxDef, kBroadcastDef, kLookupDef, kScatterDef, kPickDef, kPlaceDef,
    kSplitDef, kMergeDef, kPartDef, kUnpartDef, kIndexDef, kUnindexDef,
    kRenameDef, kIdentityDef, kRopeDef, kMaskDef, kRepeatDef, kGroupSumDef,
    kTopGroupsDef, kTopKDef, kSlotsDef, kDropoutDef, kCacheWriteDef, kAdamWDef,
    kRollDef, kDistanceDef;

}  // namespace shardc::step

#endif  // SHARDC_STEP_OP_DEF_H_
