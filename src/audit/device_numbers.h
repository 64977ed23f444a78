// Finds integers that a program computes from the number of the device that
// runs it, such as the positions of slices.
#ifndef SHARDC_AUDIT_DEVICE_NUMBERS_H_
#define SHARDC_AUDIT_DEVICE_NUMBERS_H_

#include <cstdint>
#include <map>
#include <optional>
#include <vector>

#include "audit/graph.h"
#include "audit/trace.h"
#include "model/mesh.h"
#include "model/spec.h"

namespace shardc::audit {

class DeviceNumbers {
 public:
  DeviceNumbers(const Graph& graph, Tracer& tracer, const Mesh& mesh)
      : graph_(graph), tracer_(tracer), mesh_(mesh) {}

  // Returns the mesh axes, in the mesh's order, over which a `dynamic-slice`
  // takes each device's shard: the axes along which the position of the slice
  // differs. The product of their sizes must be the number of shards, which is
  // the operand's size divided by the slice's size; otherwise returns nullopt.
  // If the position is unknown, returns the only subset of `among` with this
  // product, or nullopt if there are several or none. On a:2, b:4, for example,
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

}  // namespace shardc::audit

#endif  // SHARDC_AUDIT_DEVICE_NUMBERS_H_
