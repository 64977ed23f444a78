// Rewrites a program's collectives, so that they can be compared with a plan's
// step program. Both may all-reduce the same value at different points, because
// a sum over devices commutes with linear operations. The linear operations are
// a copy, cast, reshape or transpose, an addition, a sum over dimensions, and a
// slice. Each all_reduce is moved forward while all consumers of the value are
// the same linear operation:
//
//   %r1 = all-reduce(%dq), over tp      %dq and %dk are partial over tp
//   %r2 = all-reduce(%dk), over tp  ->  one all_reduce over tp after %a
//   %a  = add(%r1, %r2)
//   %s  = dynamic-slice(%a, %i)     ->  a reduce_scatter, if %i is the device's
//                                       coordinate along tp
//
// A moved all_reduce is counted once, at the last point that it reaches. An
// all_gather is not moved. It is not counted if its result is only sorted, or
// if the same value was gathered before over the same axes. All other
// collectives are counted unchanged.
#include "audit/equivalent.h"

#include <algorithm>
#include <cstdint>
#include <functional>
#include <limits>
#include <map>
#include <numeric>
#include <optional>
#include <set>
#include <span>
#include <string_view>
#include <utility>
#include <vector>

#include "audit/graph.h"
#include "audit/uses.h"
#include "comm/collective.h"
#include "hlo/groups.h"
#include "model/mesh.h"
#include "source/size.h"

namespace shardc::audit {
namespace {

// Finds the mesh axes over which a `dynamic-slice` takes a device's shard. They
// are the axes along which the position of the slice differs between devices. A
// partitioned program computes this position from the number of the device,
// often by a look-up in a constant:
//
//   %t = s32[4] constant({0, 0, 32, 32})       mesh a:2,b:2, 4 devices
//   %i = s32[1] dynamic-slice(%t, %partition-id)
//   %s = f32[32,64] dynamic-slice(%sum, %i, %zero)
//
// The position %i is 0, 0, 32 and 32 on the devices 0 to 3. It differs along
// `a` only, so %s is the device's shard over `a`.

class DeviceNumbers {
 public:
  DeviceNumbers(const Graph& graph, Tracer& tracer, const Mesh& mesh)
      : graph_(graph), tracer_(tracer), mesh_(mesh) {}

  // Returns the mesh axes, in the mesh's order, over which a `dynamic-slice`
  // takes each device's shard: the axes along which the position of the slice
  // differs. The product of their sizes must be the number of shards, which is
  // the operand's size divided by the slice's size; otherwise returns nullopt.
  // If the position is unknown, returns the only subset of `among` with this
  // matmul, or nullopt if there are several or none. On a:2, b:4, for example,
  // a slice of a quarter can only be over b.
  std::optional<AxisGroup> SliceAxes(Node slice, const AxisGroup& among);

 private:
  struct Number {
    bool depends = false;  // whether the values differ between devices
    bool known = false;
    // Empty unless `known`. If `depends`, `values` has one value for each
    // device. Otherwise it has the elements of a constant.
    std::vector<int64_t> values = {};
  };

  const Number& Of(Value value);
  Number Compute(const Value& value);
  Number Constant(const hlo::Instruction& at) const;
  Number Element(Node slice);
  Number Combine(Node node);
  std::optional<AxisGroup> KnownAxes(Node slice, size_t operands);

  const Graph& graph_;
  Tracer& tracer_;
  const Mesh& mesh_;
  int depth_ = 0;
  int64_t steps_left_ = int64_t{1} << 26;
  std::map<std::pair<Node, std::vector<int64_t>>, Number> known_;
};

constexpr int kDeepestValue = 64;
constexpr size_t kMostElements = 1 << 16;  // larger constants are not read

bool IsSame(std::string_view opcode) {
  constexpr std::string_view kSame[] = {"bitcast", "broadcast", "convert",
                                        "copy", "reshape"};
  return std::ranges::find(kSame, opcode) != std::end(kSame);
}

std::optional<int64_t> Apply(std::string_view opcode, int64_t a, int64_t b) {
  if (opcode == "add") return CheckedAdd(a, b);
  if (opcode == "subtract") return b < 0 ? std::nullopt : CheckedAdd(a, -b);
  if (opcode == "multiply") return CheckedMul(a, b);
  if (opcode == "minimum") return std::min(a, b);
  if (opcode == "maximum") return std::max(a, b);
  if (opcode == "and") return a & b;
  const bool whole = a >= 0 && b > 0;
  if (opcode == "divide" && whole) return a / b;
  if (opcode == "remainder" && whole) return a % b;
  if (opcode == "shift-right-logical" && a >= 0 && b >= 0 && b < 63) {
    return a >> b;
  }
  return std::nullopt;
}

// Returns the number of elements of an instruction's result; nullopt if the
// result is not a single array, is empty, or has too many elements for 64 bits.
std::optional<int64_t> ElementsOf(const hlo::Instruction& at) {
  const auto arrays = hlo::ArraysOf(at.type, hlo::kOneOrMore);
  if (arrays.size() != 1) return std::nullopt;
  const Size elements = arrays[0].Elements();
  return elements.Fits() && elements.value() > 0
             ? std::optional(elements.value())
             : std::nullopt;
}

DeviceNumbers::Number DeviceNumbers::Constant(
    const hlo::Instruction& at) const {
  Number out;
  if (!at.type.starts_with('s') && !at.type.starts_with('u')) return out;
  std::string_view text = at.operands;
  // XLA prints a long table as `{...}`, without its values, so they are
  // unknown.
  if (text.find("...") != std::string_view::npos) return out;
  while (true) {
    const size_t begin = text.find_first_of("-0123456789");
    if (begin == std::string_view::npos) break;
    text.remove_prefix(begin);
    const bool negative = text.starts_with('-');
    const auto number = hlo::LeadingNumber(text.substr(negative ? 1 : 0));
    if (!number || out.values.size() >= kMostElements) return out;
    out.values.push_back(negative ? -*number : *number);
    text.remove_prefix(std::min(text.find_first_of(",} ", 1), text.size()));
  }
  out.known = !out.values.empty();
  return out;
}

DeviceNumbers::Number DeviceNumbers::Element(Node slice) {
  const auto table = graph_.Operand(slice, 0);
  const auto place = graph_.Operand(slice, 1);
  if (!table || !place || graph_.Operand(slice, 2)) return {};
  const Number& all = Of({*table});
  const Number& at = Of({*place});
  Number out{all.depends || at.depends};
  if (!all.known || !at.known || all.depends) return out;
  const auto last = std::ssize(all.values) - 1;
  for (const int64_t i : at.values) {
    out.values.push_back(
        all.values[AsIndex(std::clamp(i, int64_t{0}, int64_t{last}))]);
  }
  out.known = true;
  return out;
}

DeviceNumbers::Number DeviceNumbers::Combine(Node node) {
  const hlo::Instruction at = graph_.At(node);
  const auto operands = graph_.Operands(node);
  Number out;
  std::vector<const Number*> of;
  for (const Node operand : operands) {
    if (operand == kNoNode) return out;
    of.push_back(&Of({operand}));
    out.depends = out.depends || of.back()->depends;
  }
  if (of.size() == 1 && IsSame(at.opcode)) return *of[0];
  if (of.size() != 2 || !of[0]->known || !of[1]->known) return out;
  const size_t count = std::max(of[0]->values.size(), of[1]->values.size());
  for (size_t i = 0; i < count; ++i) {
    int64_t sides[2];
    for (size_t side = 0; side < 2; ++side) {
      const auto& values = of[side]->values;
      // An operand with one value has this value on every device. Operands with
      // different numbers of values cannot be combined.
      if (values.size() != count && values.size() != 1) return out;
      sides[side] = values.size() == 1 ? values[0] : values[i];
    }
    const auto value = Apply(at.opcode, sides[0], sides[1]);
    if (!value) return out;
    out.values.push_back(*value);
  }
  out.known = true;
  return out;
}

DeviceNumbers::Number DeviceNumbers::Compute(const Value& value) {
  const hlo::Instruction at = graph_.At(value.node);
  if (at.opcode == "partition-id") {
    Number out{true, true, std::vector<int64_t>(AsIndex(mesh_.devices))};
    std::iota(out.values.begin(), out.values.end(), 0);
    return out;
  }
  if (!value.path.empty()) return {};
  if (at.opcode == "constant") return Constant(at);
  if (at.opcode == "dynamic-slice") return Element(value.node);
  return Combine(value.node);
}

const DeviceNumbers::Number& DeviceNumbers::Of(Value value) {
  value = tracer_.ResultOf(std::move(value));
  const auto [found, added] = known_.try_emplace({value.node, value.path});
  steps_left_ -= mesh_.devices;
  if (added && depth_ < kDeepestValue && steps_left_ > 0) {
    ++depth_;
    found->second = Compute(value);
    --depth_;
  }
  return found->second;
}

std::optional<AxisGroup> DeviceNumbers::KnownAxes(Node slice, size_t operands) {
  AxisGroup out;
  // The difference between the device numbers of two neighbours along `axis`:
  // the product of the sizes of all axes after it.
  int64_t inner = 1;
  for (size_t after = mesh_.axes.size(); after > 0; --after) {
    const MeshAxis& axis = mesh_.axes[after - 1];
    bool differs = false;
    for (size_t i = 1; i < operands && !differs; ++i) {
      const auto operand = graph_.Operand(slice, i);
      if (!operand) return std::nullopt;
      const Number& number = Of({*operand});
      if (!number.depends) continue;
      if (!number.known) return std::nullopt;
      for (size_t d = 0; d + AsIndex(inner) < number.values.size(); ++d) {
        const bool neighbours =
            static_cast<int64_t>(d) / inner % axis.size + 1 < axis.size;
        if (neighbours &&
            number.values[d] != number.values[d + AsIndex(inner)]) {
          differs = true;
          break;
        }
      }
    }
    if (differs) out.insert(out.begin(), axis.name);
    inner *= axis.size;
  }
  return out;
}

std::optional<AxisGroup> DeviceNumbers::SliceAxes(Node slice,
                                                  const AxisGroup& among) {
  const auto operands = graph_.Operands(slice);
  if (operands.empty() || operands[0] == kNoNode) return std::nullopt;
  const auto before = ElementsOf(graph_.At(operands[0]));
  const auto after = ElementsOf(graph_.At(slice));
  if (!before || !after || *before % *after != 0) return std::nullopt;
  const int64_t parts = *before / *after;
  const auto known = KnownAxes(slice, operands.size());
  if (known) {
    return mesh_.Parts(*known) == parts && parts > 1 ? known : std::nullopt;
  }
  // The position cannot be evaluated. The axes are then known only if the sizes
  // of exactly one subset of `among` multiply to the number of slices.
  std::optional<AxisGroup> only;
  for (size_t chosen = 1;
       chosen < (size_t{1} << std::min<size_t>(among.size(), 16)); ++chosen) {
    AxisGroup axes;
    for (size_t i = 0; i < among.size(); ++i) {
      if ((chosen >> i & 1) != 0) axes.push_back(among[i]);
    }
    if (mesh_.Parts(axes) != parts) continue;
    if (only) return std::nullopt;
    only = std::move(axes);
  }
  return only;
}

constexpr int kLongestChain = 64;

// Returns whether the result of this opcode has the elements of its operand in
// another order, shape or dtype.
bool IsView(std::string_view opcode) {
  constexpr std::string_view kViews[] = {"bitcast", "convert", "copy",
                                         "reshape", "transpose"};
  return std::ranges::find(kViews, opcode) != std::end(kViews);
}

constexpr uint8_t BitOf(Rewrite one) {
  return static_cast<uint8_t>(1U << static_cast<int>(one));
}

// A result of an instruction: the node, and an index into the tuple that the
// node returns. The index is -1 if the node does not return a tuple.
using Point = std::pair<Node, int64_t>;

std::optional<int64_t> ElementOf(const Point& point) {
  return point.second < 0 ? std::nullopt : std::optional(point.second);
}

struct Partial {
  const Traffic* from = nullptr;
  AxisGroup axes;
  // The axes over which each device keeps only its slice of the value.
  AxisGroup taken;
  // Whether the program itself all-reduces the slices, over axes that are not
  // in `taken`. If not, an all-reduce of the slices is a result of
  // Rewrite::kSliced. For example, an all-reduce over dp and tp, of which each
  // device uses a slice along tp, becomes a reduce-scatter over tp and an
  // all-reduce of the slices over dp.
  bool sums_slice = false;
  uint8_t rewrites = 0;
  // The results that hold this value. There are several if several instructions
  // compute the same value, such as two fusions with the same sum.
  std::vector<Point> copies;
};

class Rewriter {
 public:
  Rewriter(const Graph& graph, const Report& report)
      : graph_(graph),
        report_(report),
        tracer_(graph),
        uses_(graph),
        numbers_(graph, tracer_, *report.mesh) {}

  std::vector<Sending> Run() {
    for (const Traffic& one : report_.traffic) {
      if (one.kind == Collective::kAllReduce && one.members->named &&
          Adds(one.node)) {
        owner_.emplace(PointOf(one), partial_.size());
        partial_.push_back(
            {&one, one.members->axes, {}, false, 0, {PointOf(one)}});
      } else if (one.kind == Collective::kAllGather) {
        AddGather(one);
      } else {
        Add(one);
      }
    }
    // Moves each all-reduce behind the consumers of its result, as far as
    // possible, in the program's order.
    std::set<size_t> waiting;
    for (size_t i = 0; i < partial_.size(); ++i) waiting.insert(i);
    while (!waiting.empty()) {
      const size_t first = *waiting.begin();
      waiting.erase(waiting.begin());
      if (partial_[first].copies.empty()) continue;
      if (const auto moved = Move(first)) waiting.insert(*moved);
    }
    for (const Partial& one : partial_) {
      if (!one.copies.empty()) Reduce(one);
    }
    return std::move(out_);
  }

 private:
  Point PointOf(const Traffic& one) const {
    const bool several = graph_.Operands(one.node).size() > 1;
    return {one.node, several ? one.operand : -1};
  }

  // Returns whether the function that an all-reduce or a reduction applies is
  // an addition, and not, for example, a maximum.
  bool Adds(Node node) const {
    const auto name = hlo::AttributeOf(graph_.At(node).attributes, "to_apply");
    if (!name) return false;
    const auto& all = graph_.program().by_name;
    const auto found = all.find(hlo::NameOfOperand(*name));
    if (found == all.end()) return false;
    const hlo::Computation& applied = graph_.BlockAt(found->second);
    return !applied.empty() && graph_.At(applied.root).opcode == "add";
  }

  std::optional<hlo::Array> ArrayAt(const Point& point) const {
    const size_t index = point.second < 0 ? 0 : AsIndex(point.second);
    const auto arrays = hlo::ArraysOf(graph_.At(point.first).type, index + 1);
    if (index >= arrays.size()) return std::nullopt;
    return arrays[index];
  }

  Sending Begin(const Traffic& one) const {
    Sending out;
    out.kind = one.kind;
    out.named = one.members->named;
    out.axes = one.members->axes;
    out.members = one.members->size;
    out.edges = one.members->edges;
    out.times = one.times.value();
    out.from = &one;
    const auto arrays = hlo::ArraysOf(one.moved.shape);
    if (!arrays.empty()) {
      const Size elements = arrays[0].Elements();
      out.elements = elements.Fits() ? elements.value() : 0;
      out.bits = arrays[0].bits;
      const char first = arrays[0].element.front();
      out.integral = first == 's' || first == 'u' || first == 'p';
    }
    return out;
  }

  void Add(const Traffic& one) { out_.push_back(Begin(one)); }

  void AddGather(const Traffic& one) {
    const auto consumers = uses_.ConsumersOf(one.node, GatherElement(one));
    if (consumers && OnlySorted(*consumers, 0)) return;
    const auto operand = graph_.Operand(one.node, AsIndex(one.operand));
    if (operand && one.members->named) {
      const Value source = Shown({*operand});
      const auto [at, added] = gathered_.try_emplace(
          {source.node, source.path, one.members->axes}, out_.size());
      if (!added) {
        out_[at->second].rewrites |= BitOf(Rewrite::kAgain);
        return;
      }
    }
    Add(one);
  }

  std::optional<int64_t> GatherElement(const Traffic& one) const {
    // An asynchronous gather returns a tuple of its operands, then its results.
    // An operand's index is therefore not the index of its result.
    if (graph_.At(one.node).opcode.ends_with("-start")) return std::nullopt;
    return ElementOf(PointOf(one));
  }

  // Follows a value back through instructions that only change the order, shape
  // or dtype of its elements. Returns the value before these instructions.
  Value Shown(Value value) {
    for (int i = 0; i < kLongestChain; ++i) {
      value = tracer_.ResultOf(std::move(value));
      if (!value.path.empty() || !IsView(graph_.At(value.node).opcode)) break;
      const auto operand = graph_.Operand(value.node, 0);
      if (!operand) break;
      value = {*operand};
    }
    return value;
  }

  bool OnlySorted(std::span<const Uses::Consumer> consumers, int depth) {
    if (consumers.empty() || depth > kLongestChain) return false;
    return std::ranges::all_of(consumers, [&](const Uses::Consumer& one) {
      const hlo::Instruction at = graph_.At(one.user);
      if (at.opcode == "sort" || at.opcode == "topk" ||
          at.attributes.find("TopK") != std::string_view::npos) {
        return true;
      }
      if (!IsView(at.opcode)) return false;
      const auto next = uses_.ConsumersOf(one.user);
      return next && OnlySorted(*next, depth + 1);
    });
  }

  // Returns the consumers of all copies of the value. Returns nullopt if the
  // value has no consumers, or if not all of them can be found.
  std::optional<std::vector<Uses::Consumer>> ConsumersOf(const Partial& of) {
    std::vector<Uses::Consumer> out;
    for (const Point& point : of.copies) {
      const auto some = uses_.ConsumersOf(point.first, ElementOf(point));
      if (!some) return std::nullopt;
      out.insert(out.end(), some->begin(), some->end());
    }
    return out.empty() ? std::nullopt : std::optional(std::move(out));
  }

  // Returns whether all consumers have the same opcode and use the value as the
  // operand of the same index. Returns false if one is a sharding constraint.
  bool AllEqual(std::span<const Uses::Consumer> all) const {
    const hlo::Instruction first = graph_.At(all[0].user);
    return std::ranges::all_of(all, [&](const Uses::Consumer& one) {
      const hlo::Instruction at = graph_.At(one.user);
      const auto name = hlo::OpNameOf(at).value_or("");
      return at.opcode == first.opcode && one.index == all[0].index &&
             name.find("sharding_constraint") == std::string::npos;
    });
  }

  // Moves the all-reduce of a partial value behind the consumers of the value.
  // Returns the index in `partial_` of the value that the consumers compute, or
  // nullopt if the all-reduce cannot be moved.
  std::optional<size_t> Move(size_t here) {
    auto consumers = ConsumersOf(partial_[here]);
    if (!consumers) return std::nullopt;
    const std::string_view opcode = graph_.At(consumers->front().user).opcode;
    // Addition is commutative, so the operand's index does not matter.
    if (opcode == "add") {
      for (Uses::Consumer& one : *consumers) one.index = 0;
    }
    if (!AllEqual(*consumers)) return std::nullopt;
    std::vector<Point> next;
    for (const Uses::Consumer& one : *consumers) {
      const Point point{one.user, -1};
      if (std::ranges::find(next, point) == next.end()) next.push_back(point);
    }
    if (IsView(opcode)) return MoveTo(here, next);
    const Uses::Consumer& first = consumers->front();
    if (opcode == "reduce" && first.index == 0 && AllReduce(next)) {
      Mark(here, Rewrite::kDeferred);
      return MoveTo(here, next);
    }
    if (opcode == "add") return MoveAdded(here, next);
    if (opcode == "dynamic-slice" && first.index == 0) {
      return MoveSliced(here, next);
    }
    const bool joins = opcode == "all-reduce" || opcode == "all-reduce-start";
    return joins && next.size() == 1 ? Join(here, first) : std::nullopt;
  }

  // Returns whether each node reduces a single array by addition, and whether
  // the results of all nodes have the same type.
  bool AllReduce(const std::vector<Point>& nodes) const {
    return std::ranges::all_of(nodes, [&](const Point& point) {
      return Adds(point.first) && graph_.Operands(point.first).size() == 2 &&
             graph_.At(point.first).type == graph_.At(nodes[0].first).type;
    });
  }

  void Mark(size_t here, Rewrite rewrite) {
    partial_[here].rewrites |= BitOf(rewrite);
  }

  size_t MoveTo(size_t here, std::vector<Point> next) {
    for (const Point& point : partial_[here].copies) owner_.erase(point);
    for (const Point& point : next) owner_[point] = here;
    partial_[here].copies = std::move(next);
    return here;
  }

  void Drop(size_t here) { MoveTo(here, {}); }

  // Returns the indices of the partial values that an addition adds. Returns an
  // empty set if an operand is not partial.
  std::set<size_t> PartsOf(Node sum) {
    std::set<size_t> out;
    for (const Node operand : graph_.Operands(sum)) {
      if (operand == kNoNode) return {};
      const Value value = tracer_.ResultOf({operand});
      if (value.path.size() > 1) return {};
      const auto found =
          owner_.find({value.node, value.path.empty() ? -1 : value.path[0]});
      if (found == owner_.end()) return {};
      out.insert(found->second);
    }
    return out;
  }

  // Replaces the all-reduces of the operands of an addition by one all-reduce
  // of the sum. Returns nullopt if the operands are not all partial over the
  // same axes, if they are sliced over different axes, if their all-reduces do
  // not run equally often, or if an operand has another consumer.
  std::optional<size_t> MoveAdded(size_t here, const std::vector<Point>& next) {
    const std::set<size_t> parts = PartsOf(next[0].first);
    if (!parts.contains(here)) return std::nullopt;
    for (const Point& point : next) {
      if (PartsOf(point.first) != parts) return std::nullopt;
    }
    for (const size_t part : parts) {
      const Partial &a = partial_[here], &b = partial_[part];
      if (a.axes != b.axes || a.taken != b.taken ||
          a.from->times.value() != b.from->times.value()) {
        return std::nullopt;
      }
      const auto consumers = ConsumersOf(b);
      if (!consumers || !std::ranges::all_of(*consumers, [&](const auto& one) {
            return std::ranges::find(next, Point(one.user, -1)) != next.end();
          })) {
        return std::nullopt;
      }
    }
    for (const size_t part : parts) {
      if (part != here) Drop(part);
    }
    Mark(here, Rewrite::kDeferred);
    return MoveTo(here, next);
  }

  std::optional<size_t> MoveSliced(size_t here,
                                   const std::vector<Point>& next) {
    const Partial& at = partial_[here];
    if (!at.taken.empty()) return std::nullopt;
    const auto axes = numbers_.SliceAxes(next[0].first, at.axes);
    if (!axes || axes->empty() || !Includes(at.axes, *axes)) {
      return std::nullopt;
    }
    for (const Point& point : next) {
      if (numbers_.SliceAxes(point.first, at.axes) != axes) return std::nullopt;
    }
    Mark(here, Rewrite::kSliced);
    partial_[here].taken = *axes;
    return MoveTo(here, next);
  }

  // Joins an all_reduce with a later all_reduce of the same value over other
  // axes. If each device has taken a slice of the value, the later all_reduce
  // reduces only this slice.
  std::optional<size_t> Join(size_t here, const Uses::Consumer& user) {
    const bool several = graph_.Operands(user.user).size() > 1;
    const Point next{user.user,
                     several ? static_cast<int64_t>(user.index) : -1};
    const auto found = owner_.find(next);
    if (found == owner_.end()) return std::nullopt;
    const Partial& other = partial_[found->second];
    for (const std::string& axis : partial_[here].axes) {
      if (Includes(other.axes, {axis})) return std::nullopt;
    }
    if (partial_[here].taken.empty()) {
      Mark(here, Rewrite::kJoined);
    } else {
      partial_[here].sums_slice = true;
    }
    partial_[here].rewrites |= other.rewrites;
    partial_[here].axes = Together(partial_[here].axes, other.axes);
    Drop(found->second);
    return MoveTo(here, {next});
  }

  static bool Includes(const AxisGroup& all, const AxisGroup& some) {
    return std::ranges::all_of(some, [&](const std::string& axis) {
      return std::ranges::find(all, axis) != all.end();
    });
  }

  // Returns the axes that are in `a` or in `b`, in the mesh's order.
  AxisGroup Together(const AxisGroup& a, const AxisGroup& b) const {
    AxisGroup out;
    for (const MeshAxis& axis : report_.mesh->axes) {
      if (Includes(a, {axis.name}) || Includes(b, {axis.name})) {
        out.push_back(axis.name);
      }
    }
    return out;
  }

  AxisGroup Rest(const AxisGroup& all, const AxisGroup& some) const {
    AxisGroup out = all;
    std::erase_if(
        out, [&](const std::string& axis) { return Includes(some, {axis}); });
    return out;
  }

  // Returns the axes over which all consumers slice the value. Returns nullopt
  // if a consumer uses more than a slice, if two consumers slice over different
  // axes, if a consumer cannot be found, or if a chain of consumers is longer
  // than kLongestChain.
  std::optional<AxisGroup> OnlySliced(const std::vector<Point>& copies,
                                      const AxisGroup& axes, int depth) {
    const auto all = ConsumersOf({nullptr, {}, {}, false, 0, copies});
    if (!all || depth > kLongestChain) return std::nullopt;
    std::optional<AxisGroup> out;
    for (const Uses::Consumer& one : *all) {
      const std::string_view opcode = graph_.At(one.user).opcode;
      std::optional<AxisGroup> by;
      if (IsView(opcode)) {
        by = OnlySliced({{one.user, -1}}, axes, depth + 1);
      } else if (opcode == "dynamic-slice" && one.index == 0) {
        by = numbers_.SliceAxes(one.user, axes);
      }
      if (!by || (out && *out != *by)) return std::nullopt;
      out = std::move(by);
    }
    return out;
  }

  // Adds to `out_` the collectives that reduce a partial value, at the last
  // point to which the reduction could be moved.
  void Reduce(const Partial& partial) {
    Sending all = Begin(*partial.from);
    all.rewrites = partial.rewrites;
    all.axes = partial.axes;
    all.members = report_.mesh->Parts(all.axes).value_or(1);
    if (const auto array = ArrayAt(partial.copies[0])) {
      const Size elements = array->Elements();
      if (elements.Fits()) all.elements = elements.value();
    }
    AxisGroup taken = partial.taken;
    if (!taken.empty()) {
      all.elements =
          CheckedMul(all.elements, report_.mesh->Parts(taken).value_or(1))
              .value_or(all.elements);
    } else if (const auto axes = OnlySliced(partial.copies, partial.axes, 0)) {
      taken = *axes;
      std::erase_if(taken, [&](const std::string& axis) {
        return !Includes(partial.axes, {axis});
      });
    }
    if (taken.empty()) {
      out_.push_back(std::move(all));
      return;
    }
    Sending scatter = all;
    scatter.kind = Collective::kReduceScatter;
    scatter.axes = taken;
    scatter.members = report_.mesh->Parts(taken).value_or(1);
    scatter.rewrites |= BitOf(Rewrite::kSliced);
    all.axes = Rest(partial.axes, taken);
    all.members = report_.mesh->Parts(all.axes).value_or(1);
    all.elements /= scatter.members;
    all.rewrites = scatter.rewrites;
    if (partial.sums_slice) {
      constexpr auto kOthers =
          static_cast<uint8_t>(0xFF - BitOf(Rewrite::kSliced));
      all.rewrites &= kOthers;
    }
    out_.push_back(std::move(scatter));
    if (!all.axes.empty()) out_.push_back(std::move(all));
  }

  const Graph& graph_;
  const Report& report_;
  Tracer tracer_;
  Uses uses_;
  DeviceNumbers numbers_;
  std::vector<Partial> partial_;
  // Maps each result that holds a partial value to its index in `partial_`.
  std::map<Point, size_t> owner_;
  std::map<std::tuple<Node, std::vector<int64_t>, AxisGroup>, size_t> gathered_;
  std::vector<Sending> out_;
};

}  // namespace

int64_t Sending::Sent(int64_t element_bits) const {
  constexpr int64_t kMost = std::numeric_limits<int64_t>::max();
  const auto all = CheckedMul(elements, element_bits);
  if (!all) return kMost;
  const int64_t bytes = *all / 8 + (*all % 8 != 0 ? 1 : 0);
  return element_bits % 8 == 0
             ? CompiledSent(kind, elements, element_bits / 8, members, edges)
             : CompiledSent(kind, bytes, 1, members, edges);
}

std::optional<std::vector<Sending>> EquivalentOf(const hlo::Program& program,
                                                 const Report& report,
                                                 Findings& findings) {
  const auto graph = Graph::Of(program, findings);
  if (!graph) return std::nullopt;
  return Rewriter(*graph, report).Run();
}

}  // namespace shardc::audit
