// The tensors of a manifest that hold the parameters of a step.
#ifndef SHARDC_PROGRAM_OF_STEP_TENSORS_H_
#define SHARDC_PROGRAM_OF_STEP_TENSORS_H_

#include <cstddef>
#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include "model/dtype.h"
#include "model/step_graph.h"
#include "program/of_step/step_values.h"

namespace shardc::program {

class StepTensors {
 public:
  // Finds the tensors. Keeps a reference to `values`.
  explicit StepTensors(StepValues& values);

  // Returns the value of the graph that belongs to a parameter: itself, its
  // gradient, a moment, or the update of one of these. It may be kNoValue.
  using ValueOf = std::function<GraphValue(size_t parameter)>;

  // Adds an input for each tensor, named after it, and sets the values of the
  // graph that the tensors hold. Tensors without such a value have no input.
  void AddInputs(InputKind kind, std::string_view prefix,
                 const ValueOf& value_of);
  // Adds a result for each tensor all of whose values are made.
  void AddResults(const ValueOf& value_of);

 private:
  // A tensor holds one parameter, the rows of one that belong to an expert, or
  // the parameters of several layers.
  struct Stored {
    std::vector<size_t> parameters;  // in the order of their layers
    std::string name;
    Dtype dtype = Dtype::kF32;
    Shape shape;
  };

  Shape ShapeOf(const step::Parameter& parameter) const;
  size_t NewTensor(const step::Parameter& parameter, int64_t row);
  ValueId OfLayer(ValueId x, const Stored& stored, size_t parameter);
  ValueId Stacked(std::vector<ValueId> parts);
  ValueId Labelled(ValueId x, const step::Parameter& parameter,
                   bool back = false);

  StepValues& values_;
  const step::Graph& graph_;
  ProgramWriter& write_;
  std::vector<Stored> stored_;
  // For each parameter, the indices in `stored_` of its tensors.
  std::vector<std::vector<size_t>> tensors_of_;
};

}  // namespace shardc::program

#endif  // SHARDC_PROGRAM_OF_STEP_TENSORS_H_
