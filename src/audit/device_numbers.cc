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
#include "audit/device_numbers.h"

#include <algorithm>
#include <numeric>
#include <string_view>
#include <utility>

#include "hlo/shapes.h"
#include "source/checked.h"
#include "source/index.h"

namespace shardc::audit {
namespace {

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

}  // namespace

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

}  // namespace shardc::audit
