// The values of a step's graph that a program has so far, and how their
// dimensions are put in the order of other labels.
#ifndef SHARDC_EMIT_STEP_PROGRAMS_STEP_VALUES_H_
#define SHARDC_EMIT_STEP_PROGRAMS_STEP_VALUES_H_

#include <cstddef>
#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "emit/step_programs/translate.h"
#include "emit/step_programs/writer.h"
#include "model/dtype.h"
#include "model/step_graph.h"
#include "source/size.h"

namespace shardc::program {

using step::LabelId;
using Labels = std::vector<LabelId>;
using GraphValue = step::ValueId;

bool HasLabel(const Labels& labels, LabelId label);
// Returns the index of a label that the list has.
size_t PlaceOf(const Labels& labels, LabelId label);
Labels Without(Labels labels, LabelId gone);
Labels Replaced(const Labels& labels, LabelId from, const Labels& to);

class StepValues {
 public:
  explicit StepValues(const StepSource& source)
      : source_(source), graph_(source.graph), made_(graph_.values.size()) {}

  const StepSource& source() const { return source_; }
  const step::Graph& graph() const { return graph_; }
  ProgramWriter& write() { return write_; }

  int64_t SizeOf(LabelId label) const { return source_.sizes[AsIndex(label)]; }
  Shape Sized(const Labels& labels) const;
  const Labels& LabelsOf(GraphValue value) const {
    return graph_.values[AsIndex(value)].labels;
  }
  bool IsMade(GraphValue value) const {
    return value != step::kNoValue && made_[AsIndex(value)];
  }
  ValueId Of(GraphValue value) const { return *made_[AsIndex(value)]; }
  void Set(GraphValue value, ValueId made) { made_[AsIndex(value)] = made; }
  // Returns a value in the dtype of the step.
  ValueId Real(GraphValue value) {
    return write_.Converted(Of(value), source_.dtype);
  }

  // Returns x with its dimensions in the order of `to`, and a dimension of size
  // 1 for each label that x lacks.
  ValueId Arranged(ValueId x, const Labels& from, const Labels& to);
  // Returns x with all dimensions in their full sizes.
  ValueId Full(ValueId x, const Labels& from, const Labels& to);

 protected:
  const StepSource& source_;
  const step::Graph& graph_;
  ProgramWriter write_;
  // The value of the program for each value of the graph.
  std::vector<std::optional<ValueId>> made_;
};

// Reads and writes the rows of an array that ids select.

// A value of the program, and the labels of its dimensions.
struct Labelled {
  ValueId id = 0;
  const Labels& labels;
};

// Returns for each id the row of the array with this index along `rows`. An id
// without a row gives zeros. Labels that the array and the ids share are
// matched.
ValueId GatherRows(StepValues& values, const Labelled& array,
                   const Labelled& ids, LabelId rows, const Labels& out);

// Returns the array after each of `updates` was written to the row of its id
// along `rows` ("set"), or added to it ("add"). Updates whose id has no row are
// left out.
ValueId ScatterRows(StepValues& values, std::string_view fn,
                    const Labelled& array, const Labelled& updates,
                    const Labelled& ids, LabelId rows);

// The tensors of a manifest that hold the parameters of a step.

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

#endif  // SHARDC_EMIT_STEP_PROGRAMS_STEP_VALUES_H_
