// The definition of an op: the rules of one OpKind for dimensions, derivatives,
// work and memory, in one record. The records are in op_*.cc, grouped by
// families of ops, and DefOf() returns them. An op has two more parts. Its
// kernel on a device is an entry of the table in exec/step/run.cc. Its
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
#include "step/constraints.h"

namespace shardc::step {

class Backward;  // is declared in step/graph_writer.h

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
  // rule_options.h.
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

// The functions of one number that the ops of a step apply, and the derivatives
// that a backward graph needs. In the texts of Function::meaning, x is the
// operand and c is the constant of the op.

struct Function {
  std::string_view name;
  // The name of the function that is the derivative; "=" if the function is its
  // own derivative. Empty if no gradient passes through the function, because
  // its derivative is zero or because no gradient is needed where it occurs.
  std::string_view derivative;
  std::string_view meaning;
};

inline constexpr std::array<Function, 35> kFunctions = {{
    {"recip", "recip_d", "1/x"},
    {"recip_d", "recip_dd", "-1/x^2"},
    {"recip_dd", "", "2/x^3"},
    {"rsqrt", "rsqrt_d", "1/sqrt(x + c)"},
    {"rsqrt_d", "", "-1/2 (x + c)^(-3/2)"},
    {"sqrt", "sqrt_d", "sqrt(x)"},
    {"sqrt_d", "", "1/2 / sqrt(x)"},
    {"exp", "=", "e^x"},
    {"log", "recip", "ln x"},
    {"tanh", "tanh_d", "tanh x"},
    {"tanh_d", "", "1 - tanh^2 x"},
    {"cap", "cap_d", "c tanh(x / c)"},
    {"cap_d", "", "1 - tanh^2(x / c)"},
    {"sigmoid", "sigmoid_d", "1/(1 + e^-x)"},
    {"sigmoid_d", "", "s (1 - s), s = sigmoid x"},
    {"silu", "silu_d", "x sigmoid x"},
    {"silu_d", "", "s + x s (1 - s), s = sigmoid x"},
    {"swish", "swish_d", "x sigmoid(c x)"},
    {"swish_d", "", "s + c x s (1 - s), s = sigmoid(c x)"},
    {"gelu", "gelu_d", "x/2 (1 + erf(x / sqrt 2))"},
    {"gelu_d", "", "(1 + erf(x / sqrt 2))/2 + x e^(-x^2/2) / sqrt(2 pi)"},
    {"gelu_tanh", "gelu_tanh_d",
     "x/2 (1 + tanh u), u = k (x + a x^3), k ="
     " sqrt(2 / pi), a = 0.044715"},
    {"gelu_tanh_d", "", "(1 + tanh u)/2 + x/2 (1 - tanh^2 u) k (1 + 3 a x^2)"},
    {"relu", "step", "max(x, 0)"},
    {"step", "", "1 where x > 0, else 0"},
    {"relu2", "relu2_d", "max(x, 0)^2"},
    {"relu2_d", "", "2 max(x, 0)"},
    {"shift", "one", "x + c"},
    {"one", "", "1"},
    {"at_most", "below", "min(x, c)"},
    {"below", "", "1 where x < c, else 0"},
    {"clamp", "inside", "min(max(x, -c), c)"},
    {"inside", "", "1 where -c < x < c, else 0"},
    {"clip", "", "min(1, c / x)"},
    {"floor", "", "the greatest whole number that is not above x"},
}};

// The maximum of two numbers, which is the only function of two operands. It
// has no gradient.
inline constexpr std::string_view kGreater = "max2";

constexpr const Function* FindFunction(std::string_view name) {
  for (const Function& function : kFunctions) {
    if (function.name == name) return &function;
  }
  return nullptr;
}

}  // namespace shardc::step

#endif  // SHARDC_STEP_OP_DEF_H_
