// Directory: step. One step of a model as a graph of ops, and the program to
// which the graph is lowered for a mesh: the same ops on shards, with the
// collectives between them. Instructions contain no sizes, so shapes and bytes
// can be computed for real sizes and for reduced ones.
// Its files include headers of these directories: source, model, match,
// families, resolve, roles, comm.
#ifndef SHARDC_STEP_PROGRAM_H_
#define SHARDC_STEP_PROGRAM_H_

#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "comm/collective.h"
#include "model/dtype.h"
#include "model/manifest.h"
#include "model/mesh.h"
#include "model/step_graph.h"
#include "step/build.h"

namespace shardc::step {

using AxisId = uint8_t;  // index into Axes
// A set of axes: bit i is set if it contains AxisId i.
using AxisSet = uint16_t;
inline constexpr size_t kMaxAxes = 15;
inline constexpr size_t kMaxRank = 8;

inline AxisSet Bit(AxisId axis) { return static_cast<AxisSet>(1U << axis); }
inline bool Holds(AxisSet set, AxisId axis) { return (set & Bit(axis)) != 0; }

// The axes that shard a dimension, the major axis first.
class AxisList {
 public:
  AxisList() = default;
  size_t size() const { return count_; }
  bool empty() const { return count_ == 0; }
  AxisId operator[](size_t i) const { return axes_[i]; }
  AxisId back() const { return axes_[count_ - 1U]; }
  const AxisId* begin() const { return axes_.data(); }
  const AxisId* end() const { return axes_.data() + count_; }
  void push_back(AxisId axis) {
    axes_[count_++] = axis;
    set_ = static_cast<AxisSet>(set_ | Bit(axis));
  }
  void push_front(AxisId axis) {
    for (size_t i = count_; i > 0; --i) axes_[i] = axes_[i - 1];
    axes_[0] = axis;
    ++count_;
    set_ = static_cast<AxisSet>(set_ | Bit(axis));
  }
  void pop_back() {
    const AxisId last = axes_[--count_];
    axes_[count_] = 0;
    set_ = static_cast<AxisSet>(set_ & ~Bit(last));
  }
  AxisSet set() const { return set_; }
  bool operator==(const AxisList& other) const {
    if (set_ != other.set_ || count_ != other.count_) return false;
    for (size_t i = 0; i < count_; ++i) {
      if (axes_[i] != other.axes_[i]) return false;
    }
    return true;
  }

 private:
  std::array<AxisId, kMaxAxes - 1> axes_{};
  AxisSet set_ = 0;
  uint8_t count_ = 0;
};

bool IsPrefix(const AxisList& prefix, const AxisList& whole);

// The axes of the mesh that have more than one device, in the mesh's order.
struct Axes {
  std::vector<std::string> names = {};
  std::vector<int64_t> sizes = {};

  size_t count() const { return names.size(); }
  int64_t Parts(const AxisList& list) const;
  // Returns the ids of a group's axes, each axis once. Axes of size 1 and axes
  // that the mesh lacks are left out.
  AxisList Of(const AxisGroup& group) const;
  AxisGroup Group(const AxisList& list) const;
  AxisSet SetOf(const AxisGroup& group) const { return Of(group).set(); }
};
Axes AxesOf(const Mesh& mesh);

// The sharding of a value: for each dimension the axes that shard it, and the
// axes over which the value is partial, that is, still to be summed. An axis is
// used at most once. The value is replicated over axes that are not used.
struct Sharding {
  std::array<AxisList, kMaxRank> dims{};
  uint8_t rank = 0;
  AxisSet partial = 0;

  AxisSet sharded_over() const;  // Returns the axes that shard any dimension.
  AxisSet used() const {
    return static_cast<AxisSet>(sharded_over() | partial);
  }
  // Compares only the dimensions below the rank; the other entries are unused.
  bool operator==(const Sharding& other) const {
    if (rank != other.rank || partial != other.partial) return false;
    for (size_t d = 0; d < rank; ++d) {
      if (!(dims[d] == other.dims[d])) return false;
    }
    return true;
  }
};
Spec SpecOf(const Axes& axes, const Sharding& sharding);

// A value in one sharding. A program has several slots for a value that is
// resharded.
struct Slot {
  ValueId value = kNoValue;
  Sharding sharding = {};
};

enum class InstructionKind : uint8_t { kInput, kLocal, kSlice, kCollective };

struct Instruction {
  InstructionKind kind = InstructionKind::kLocal;
  // The op of the graph that the instruction runs, or whose operand or result
  // the instruction reshards. -1 if the instruction reshards a result of the
  // step after the last op.
  int32_t op = -1;
  std::vector<int32_t> in = {};  // the slots of the operands
  int32_t out = -1;
  // The axes of a slice or of a collective, the major axis first.
  AxisList axes = {};
  uint8_t dim = 0;    // The dimension that is sliced, gathered or scattered.
  uint8_t other = 0;  // For an all_to_all: the dimension that is gathered.
  Collective collective = Collective::kAllGather;
  bool max = false;  // True if an all_reduce computes maxima.
  // For a ppermute: the number of indices along `axes` by which shards move. 0
  // means that the order of the axes changes, and each shard moves to the
  // device that holds it in the new order.
  int8_t shift = 0;
};

// An op and an axis that could shard several of the op's labels.
struct ShardingConflict {
  int32_t op = -1;
  AxisId axis = 0;
  std::vector<LabelId> labels = {};
  // The label that the axis shards in the program; kNoLabel if the axis is
  // gathered.
  LabelId chosen = kNoLabel;
  // The bytes that a device sends for the chosen label, at the model's real
  // sizes (LowerRequest::sizes).
  int64_t bytes = 0;
  // The label with which a device sends the fewest bytes.
  LabelId cheapest = kNoLabel;
  int64_t least = 0;  // The bytes that a device sends for `cheapest`.
};

struct Program {
  Axes axes = {};
  std::vector<Slot> slots = {};
  std::vector<Instruction> code = {};
  std::vector<ShardingConflict> conflicts = {};
  // Indexed by ValueId: the slot of the value at the end of the step, or -1 if
  // the value has no slot.
  std::vector<int32_t> result = {};
  // Messages about axes that a sharding constraint names but that cannot shard
  // the dimension: the axis does not divide the size of the dimension, or
  // another dimension uses the axis.
  std::vector<std::string> notes = {};
};

// ShapeOf returns the unsharded shape of a value. LocalShapeOf returns the
// shape of a slot on one device. LocalElements returns the number of elements
// of a sharded value on one device.
Shape ShapeOf(const Graph& graph, ValueId value, const Sizes& sizes);
Shape LocalShapeOf(const Graph& graph, const Program& program, int32_t slot,
                   const Sizes& sizes);
int64_t LocalElements(const Axes& axes, const Value& value,
                      const Sharding& sharding, const Sizes& sizes);

// Returns the bytes of one element of a value: 4 for integers; for real values
// Value::bytes (step/program.h), or `element_bytes` if Value::bytes is 0.
int64_t ElementBytesOf(const Value& value, int64_t element_bytes);
// Returns the bytes that the busiest device sends for an instruction; 0 if it
// is no collective.
int64_t SentBytes(const Graph& graph, const Program& program,
                  const Instruction& instruction, const Sizes& sizes,
                  int64_t element_bytes);
inline constexpr int64_t kIntegerBytes = 4;

// Returns the text of a sharding, such as `b:fsdp+dp d:tp pending dp`, or
// `whole` if the value is replicated. The words `pending` (partial over) and
// `whole` are part of the format shardc.step/v1 and of committed steps.
std::string ShardingText(const Graph& graph, const Axes& axes, ValueId value,
                         const Sharding& sharding);

// Returns the sizes for `batch` sequences of `length` tokens. In decoding, each
// sequence has one token after a cache of `length` tokens. If the queue of an
// expert has no limit, it has as many slots as it needs when all experts get
// the same number of tokens.
Sizes RealSizes(const StepModel& step, int64_t batch, int64_t length);

// If there is no configuration, passes to the formulas the sizes that
// AssignRoles has inferred from shapes.
void SetInferredSizes(const ModelDescription& description, const Roles& roles,
                      Formulas& formulas);

// Sets the sizes of labels with factors or parts, and of the rows of a block in
// ring attention.
void FinishSizes(const Graph& graph, Sizes& sizes);

// Returns whether parameters of this dtype are trained: floats of at least 16
// bits. Integers and narrower floats are quantised weights.
bool IsTrained(Dtype dtype);

struct ElementWidths {
  int64_t activations = 2;
  int64_t cache = 2;
  // The bytes of an element of each stored parameter; 0 if unknown.
  std::vector<int64_t> parameters = {};
  // The bytes of an element of a gradient while it is reduced; nullopt if each
  // gradient has the width of its parameter.
  std::optional<int64_t> gradients = {};
  bool trains = false;
};

// Sets Value::bytes of values whose width differs from the activations' width.
// In training, wider weights are cast to the activations' width before they are
// gathered. In serving, weights have their stored width. An updated parameter
// has its stored width.
void SetWidths(Graph& graph, const ElementWidths& widths);

// Returns for each value 1 if it is a parameter's gradient, or if it only
// becomes part of a gradient by reshapes and additions. Returns 0 for all other
// values.
std::vector<char> FindGradientValues(const Graph& graph);

// Finds the values that are treated as weights: parameters, and values that
// depend on parameters only, such as the halves of a fused weight or `1 +
// scale` of a norm.

// Returns for each value 1 if it is treated as a weight, else 0.
std::vector<char> FindWeights(const Graph& graph);

// Computes the memory that a device uses while a program runs, and its peak.

enum class Held : uint8_t {
  kParameters,
  kMoments,
  kGradients,  // The gradients, including partial gradients.
  kCaches,
  kInputs,       // Data such as ids, labels and positions.
  kGathered,     // Copies of parameters in other shardings.
  kActivations,  // All other values.
};
inline constexpr size_t kHeldCount = 7;
// Returns the name of a class of memory, such as "parameters".
std::string_view HeldName(Held held);

using HeldBytes = std::array<int64_t, kHeldCount>;
int64_t TotalOf(const HeldBytes& bytes);

struct ElementBytes {
  int64_t values = 2;
  int64_t moments = 4;
};

struct PeakMemory {
  int64_t instruction = -1;  // The first instruction at the peak.
  // The bytes of each class of memory at that instruction.
  HeldBytes bytes = {};
  int64_t Total() const { return TotalOf(bytes); }
};

// Returns the peak memory of a device. The peak is the same for all devices,
// because their shards have the same sizes. Inputs of the step are held from
// the first instruction to the last, and results from the instruction that
// computes them to the last. Updates overwrite the old values. Ops that split,
// merge or rename dimensions take no memory. An elementwise op or an all-reduce
// overwrites an operand of the same size that no later op reads. No other
// fusion is assumed.
PeakMemory PeakOf(const Graph& graph, const Program& program,
                  const Sizes& sizes, const ElementBytes& bytes);
// Returns for each instruction the bytes that are held while it runs.
std::vector<HeldBytes> HeldOver(const Graph& graph, const Program& program,
                                const Sizes& sizes, const ElementBytes& bytes);

// Returns the floating-point operations of one device for an instruction. An
// exponential, a root or a quotient is one operation. Collectives, and ops that
// only move elements, have no operations. A slot of an expert's queue holds at
// most one token, so a product over tokens and slots is counted as if it had
// only the slots.
double FlopsOf(const Graph& graph, const Program& program,
               const Instruction& instruction, const Sizes& sizes);

// Returns whether an op is a matmul: an einsum that sums a dimension.
bool IsMatmul(const Graph& graph, const Op& op);

}  // namespace shardc::step

#endif  // SHARDC_STEP_PROGRAM_H_
