// Computes the shapes and bytes of a program at given sizes. A collective sends
// the bytes that the formulas of comm/ return for its operand. A dimension of
// size L that is sharded over axes with n devices in total has L / n elements
// on each device:
//
//   q [b, t, n, h] with b:dp n:tp, [8, 4, 16, 4] on dp=2 tp=4
//     ->  [4, 4, 4, 4] on a device
#include "step/program.h"

#include <algorithm>

#include "source/index.h"
#include "source/size.h"

namespace shardc::step {

bool IsPrefix(const AxisList& prefix, const AxisList& whole) {
  return prefix.size() <= whole.size() &&
         std::equal(prefix.begin(), prefix.end(), whole.begin());
}

int64_t Axes::Parts(const AxisList& list) const {
  int64_t out = 1;
  for (AxisId axis : list) out *= sizes[axis];
  return out;
}

AxisList Axes::Of(const AxisGroup& group) const {
  AxisList out;
  for (const std::string& name : group) {
    const auto found = std::find(names.begin(), names.end(), name);
    if (found == names.end()) continue;
    const auto axis = static_cast<AxisId>(found - names.begin());
    if (!Holds(out.set(), axis)) out.push_back(axis);
  }
  return out;
}

AxisGroup Axes::Group(const AxisList& list) const {
  AxisGroup out;
  for (AxisId axis : list) out.push_back(names[axis]);
  return out;
}

Axes AxesOf(const Mesh& mesh) {
  Axes out;
  for (const MeshAxis& axis : mesh.axes) {
    if (axis.size == 1) continue;
    out.names.push_back(axis.name);
    out.sizes.push_back(axis.size);
  }
  return out;
}

AxisSet Sharding::sharded_over() const {
  AxisSet out = 0;
  for (size_t d = 0; d < rank; ++d) {
    out = static_cast<AxisSet>(out | dims[d].set());
  }
  return out;
}

Spec SpecOf(const Axes& axes, const Sharding& sharding) {
  Spec out;
  for (size_t d = 0; d < sharding.rank; ++d) {
    out.push_back(axes.Group(sharding.dims[d]));
  }
  return out;
}

Shape ShapeOf(const Graph& graph, ValueId value, const Sizes& sizes) {
  Shape out;
  for (LabelId label : graph.values[AsIndex(value)].labels) {
    out.push_back(sizes[AsIndex(label)]);
  }
  return out;
}

Shape LocalShapeOf(const Graph& graph, const Program& program, int32_t slot,
                   const Sizes& sizes) {
  const Slot& of = program.slots[AsIndex(slot)];
  Shape out = ShapeOf(graph, of.value, sizes);
  for (size_t d = 0; d < out.size(); ++d) {
    out[d] /= program.axes.Parts(of.sharding.dims[d]);
  }
  return out;
}

int64_t LocalElements(const Axes& axes, const Value& value,
                      const Sharding& sharding, const Sizes& sizes) {
  Size out = 1;
  for (size_t d = 0; d < value.labels.size(); ++d) {
    out *= sizes[AsIndex(value.labels[d])] / axes.Parts(sharding.dims[d]);
  }
  return out.value();
}

int64_t ElementBytesOf(const Value& value, int64_t element_bytes) {
  if (value.integral) return kIntegerBytes;
  return value.bytes > 0 ? value.bytes : element_bytes;
}

int64_t SentBytes(const Graph& graph, const Program& program,
                  const Instruction& instruction, const Sizes& sizes,
                  int64_t element_bytes) {
  if (instruction.kind != InstructionKind::kCollective) return 0;
  const Slot& from = program.slots[AsIndex(instruction.in[0])];
  const Value& value = graph.values[AsIndex(from.value)];
  const int64_t elements =
      LocalElements(program.axes, value, from.sharding, sizes);
  return BusiestSent(instruction.collective, elements,
                     ElementBytesOf(value, element_bytes),
                     program.axes.Parts(instruction.axes));
}

std::string ShardingText(const Graph& graph, const Axes& axes, ValueId value,
                         const Sharding& sharding) {
  const auto joined = [&](const auto& list) {
    std::string out;
    for (AxisId axis : list) {
      if (!out.empty()) out += '+';
      out += axes.names[axis];
    }
    return out;
  };
  std::string out;
  const Value& of = graph.values[AsIndex(value)];
  for (size_t d = 0; d < of.labels.size(); ++d) {
    if (sharding.dims[d].empty()) continue;
    if (!out.empty()) out += ' ';
    out += graph.labels[AsIndex(of.labels[d])].name + ":" +
           joined(sharding.dims[d]);
  }
  if (sharding.partial != 0) {
    AxisList partial;
    for (AxisId a = 0; a < axes.count(); ++a) {
      if (Holds(sharding.partial, a)) partial.push_back(a);
    }
    out += (out.empty() ? "pending " : " pending ") + joined(partial);
  }
  return out.empty() ? "whole" : out;
}

}  // namespace shardc::step
