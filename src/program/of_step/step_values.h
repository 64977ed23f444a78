// The values of a step's graph that a program has so far, and how their
// dimensions are put in the order of other labels.
#ifndef SHARDC_PROGRAM_OF_STEP_STEP_VALUES_H_
#define SHARDC_PROGRAM_OF_STEP_STEP_VALUES_H_

#include <cstddef>
#include <cstdint>
#include <optional>
#include <vector>

#include "model/step_graph.h"
#include "program/of_step/translate.h"
#include "program/of_step/writer.h"
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

}  // namespace shardc::program

#endif  // SHARDC_PROGRAM_OF_STEP_STEP_VALUES_H_
