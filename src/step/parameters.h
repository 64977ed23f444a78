// The parameters of a step: an input for each role's row of each layer.
#ifndef SHARDC_STEP_PARAMETERS_H_
#define SHARDC_STEP_PARAMETERS_H_

#include <cstdint>
#include <map>
#include <span>
#include <string_view>
#include <vector>

#include "model/model_description.h"
#include "step/graph_writer.h"
#include "step/label_table.h"
#include "step/roles.h"

namespace shardc::step {

class Parameters {
 public:
  // What is given stays with the caller.
  Parameters(const ModelDescription& description, const Roles& roles,
             GraphWriter& write)
      : description_(description), roles_(roles), write_(write) {}

  // Of the layers named, all where none is; and of those that serve others.
  void Make(std::span<const int32_t> only_layers, LabelTable& labels);

  // Absent: kNoValue. A tied role is another's tensor, and a shared one that of
  // its stack's first layer; outside the layers `layer` is -1.
  ValueId Of(int32_t role, int32_t layer) const;
  // The role's bias; what it is called follows from the role.
  ValueId BiasOf(int32_t role, int32_t layer);
  // -1: there is none.
  int32_t RoleNamed(std::string_view name) const;

 private:
  bool Serves(size_t role, int64_t layer) const;
  bool AnyRow(size_t role) const;
  void MakeOne(size_t role, int32_t layer, const Labels& labels);

  const ModelDescription& description_;
  const Roles& roles_;
  GraphWriter& write_;
  std::vector<ValueId> values_;        // by role and layer
  std::map<int32_t, int32_t> biases_;  // by role
};

// Whether a layer is among them; all are where none is named.
bool IsWritten(std::span<const int32_t> only_layers, int32_t layer);

}  // namespace shardc::step

#endif  // SHARDC_STEP_PARAMETERS_H_
