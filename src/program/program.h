// Directory: program. Reads a program that was traced from the user's own
// function, and finds by factor analysis how the dimensions of its parameters
// are tied, fused and shardable. No name of a parameter is interpreted.
// Its files include headers of these directories: source, model.
//
// This header declares the program as read: values, and ops in the order in
// which the function runs them. A value is a number, and its shape is in
// Program::values. The bodies of loops and branches are lists of ops too:
//
//   {"op": "dot", "in": [3, 0], "out": [4], "at": [0, 41],
//    "lhs_contract": [1], "rhs_contract": [0], "lhs_batch": [],
//    "rhs_batch": []}
//     ->  value 4 is the matmul of values 3 and 0, and line 41 of the
//         first file computes it
#ifndef SHARDC_PROGRAM_PROGRAM_H_
#define SHARDC_PROGRAM_PROGRAM_H_

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <unordered_set>
#include <utility>
#include <vector>

#include "model/dtype.h"
#include "model/manifest.h"
#include "model/mesh.h"

namespace shardc::program {

// The classes of ops, in the order of the table in program.cc.
enum class OpKind : uint8_t {
  kConst,
  kIota,
  kRandom,
  kMap,
  kBroadcast,
  kReduce,
  kReshape,
  kTranspose,
  kSlice,
  kConcat,
  kPad,
  kRev,
  kDot,
  kRaggedDot,
  kConv,
  kCumulative,
  kSort,
  kTopK,
  kGather,
  kScatter,
  kDynamicSlice,
  kDynamicUpdateSlice,
  kScan,
  kWhile,
  kCond,
  kSolve,
  kManual,
  kCollective,
  kConstraint,
  kOpaque
};

// The numeric attributes of ops. A number is stored as a list of one.
enum class Attr : uint8_t {
  kAxes,
  kBatchGroups,
  kBodyConsts,
  kCarry,
  kCollapsedDims,
  kConcatDim,
  kConditionConsts,
  kConsts,
  kDim,
  kDims,
  kExponent,
  kGroups,
  kHigh,
  kIndicesBatchDims,
  kInsertedDims,
  kInterior,
  kK,
  kKeys,
  kLeftSide,
  kLength,
  kLhs,
  kLhsBatch,
  kLhsContract,
  kLhsDilation,
  kLhsRagged,
  kLimit,
  kLow,
  kLower,
  kMethod,
  kOffsetDims,
  kOperandBatchDims,
  kOperandDims,
  kPadding,
  kPairs,
  kPerm,
  kResult,
  kReverse,
  kRhs,
  kRhsBatch,
  kRhsContract,
  kRhsDilation,
  kRhsGroup,
  kSizes,
  kSliceSizes,
  kSplitDim,
  kStart,
  kStartIndexMap,
  kStride,
  kStrides,
  kTiled,
  kTranspose,
  kUnitDiagonal,
  kUpdateWindowDims
};

using ValueId = uint32_t;
using Numbers = std::vector<int64_t>;

struct Value {
  Shape shape;
  std::optional<Dtype> dtype;  // nullopt if manifests have no such dtype
  Numbers integers;            // the elements of a small integer constant
  std::vector<double> floats;  // the elements of another small constant
};

// The parts of a training step, in the order in which they run.
enum class Phase : uint8_t { kForward, kBackward, kOptimizer };
inline constexpr std::string_view kPhaseNames[] = {"forward", "backward",
                                                   "optimizer"};
inline std::string_view PhaseName(Phase phase) {
  return kPhaseNames[static_cast<size_t>(phase)];
}

// A line of the user's code; `file` is -1 if the line is unknown.
struct Line {
  int32_t file = -1;
  int32_t line = 0;

  bool known() const { return file >= 0; }
  auto operator<=>(const Line&) const = default;
};

struct Body;

// The mesh of a manual region (shard_map) and the specs at its boundary.
struct Region {
  std::vector<std::pair<std::string, int64_t>> mesh;
  // The axes over which the body runs on shards; all if empty.
  std::vector<std::string> manual_axes;
  std::vector<Spec> in_specs, out_specs;

  bool IsManual(std::string_view axis) const;
};

// What an index outside of the indexed value does.
enum class IndexMode : uint8_t { kPromised, kClip, kFill };
inline constexpr std::string_view kIndexModeNames[] = {"promise_in_bounds",
                                                       "clip", "fill"};

struct Op {
  OpKind kind = OpKind::kConst;
  Phase phase = Phase::kForward;
  Line at;
  // The innermost module of PyTorch that runs the op: an index into
  // Program::modules; -1 outside of all modules.
  int32_t module = -1;
  std::vector<ValueId> in, out;
  // The function of a map, reduction or scatter, the kind of a collective, or
  // the primitive of an opaque op.
  std::string word;
  std::vector<std::pair<Attr, Numbers>> numbers;
  IndexMode mode = IndexMode::kPromised;  // of a gather or scatter
  std::optional<double> fill;             // of a gather; else the dtype's
  std::vector<std::string> axes;          // of a collective
  std::optional<Region> region;           // of a manual region
  // The spec of a constraint: nullopt for a dimension that the compiler may
  // shard. Dimensions beyond its end are unsharded. No spec if it is not known.
  std::optional<std::vector<std::optional<AxisGroup>>> constraint;
  // The body of a scan or of a manual region, the condition and the body of a
  // while loop, or the branches of a cond.
  std::vector<Body> bodies;

  // Returns the numbers of an attribute; empty if the op lacks it.
  std::span<const int64_t> Of(Attr attr) const;
  // Returns the only number of an attribute, or `otherwise` if the op lacks it.
  int64_t NumberOf(Attr attr, int64_t otherwise = 0) const;
};

struct Body {
  std::vector<ValueId> in;
  std::vector<Op> ops;
  std::vector<ValueId> out;
};

// Returns the name of an op in reports, such as "dot" or "reduce sum".
std::string NameOf(const Op& op);

// Returns whether a list of dimensions has `dim`.
bool HasDim(std::span<const int64_t> list, size_t dim);

// `state` is neither a parameter nor data, such as a moment of the optimizer.
enum class InputKind : uint8_t { kParam, kData, kState };
inline constexpr std::string_view kInputKindNames[] = {"param", "data",
                                                       "state"};

struct Input {
  ValueId value = 0;
  InputKind kind = InputKind::kData;
  std::string name;
};

struct Unknown {
  std::string primitive;
  int64_t count = 0;
  Line at;
};

struct Program {
  std::string traced_by, function;
  std::vector<std::string> files;
  std::vector<std::string> modules;  // of PyTorch, by their paths
  std::vector<Value> values;
  std::vector<Input> inputs;
  std::vector<Op> ops;
  std::vector<ValueId> outputs;
  std::vector<std::string> assumptions;
  std::vector<Unknown> unknown;  // primitives that the tracer does not know

  const Shape& ShapeOf(ValueId value) const { return values[value].shape; }
  // Whether a module or a function of PyTorch was traced, and not one of JAX.
  bool IsOfTorch() const { return traced_by.starts_with("torch"); }
  // Returns "models/block.py:41", or an empty text if the line is unknown.
  std::string LineText(const Line& line) const;
};

// Returns the parameter whose state an input is, such as a moment of the
// optimizer: the one of the same shape with the longest name that ends the
// state's, as `mu/layer/w` ends in `w` and in `layer/w`. It is an index among
// the parameters alone. Returns nullopt for a state of no parameter.
std::optional<size_t> ParamOfState(const Program& program, const Input& state);

// Returns the parameters of the program as a manifest.
Manifest ManifestOf(const Program& program);

// Counts what the ops of a program compute, and which values a compiler stores.

// Returns whether an op is a matmul or a convolution.
bool IsMatmul(const Op& op);

// Returns the floating-point operations of a product whose operands and result
// have these shapes, which may be those of a device. A multiply-add is two
// operations. The rows of a ragged product are multiplied once each.
double ProductFlops(const Op& op, std::span<const Shape> in, const Shape& out);

// Returns the products of which a causal mask hides half: those that read
// masked values, and those whose result is only read behind the mask. A mask is
// a comparison of the numbers of the rows with those of the columns.
std::unordered_set<const Op*> MaskedMatmuls(const Program& program);

// Returns for each value the stored values that an op reads to have it: itself
// if a compiler stores it. Others are views, or are computed again by each op
// that reads them, as XLA's loop fusions do.
std::vector<std::vector<ValueId>> StoredSources(const Program& program);

}  // namespace shardc::program

#endif  // SHARDC_PROGRAM_PROGRAM_H_
