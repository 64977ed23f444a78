// The parameters of a step: an input for each role and layer, or for a role
// outside of layers. A tied role may use the input of another role, and layers
// may share an input.
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
  // Keeps references to all arguments.
  Parameters(const ModelDescription& description, const Roles& roles,
             GraphWriter& write)
      : description_(description), roles_(roles), write_(write) {}

  // Creates inputs for the parameters outside of layers, of the layers
  // `only_layers` (of all layers if it is empty), and of layers whose
  // parameters other layers share.
  void Make(std::span<const int32_t> only_layers, LabelTable& labels);

  // Returns the parameter of a role, or kNoValue. A layer without a parameter
  // of a shared role uses the parameter of the first layer of its stack. A role
  // that is tied to another role uses the other role's parameter if it has
  // none. `layer` is -1 outside of layers.
  ValueId Of(int32_t role, int32_t layer) const;
  // Returns the parameter of the role's bias, ROLE.bias, or kNoValue.
  ValueId BiasOf(int32_t role, int32_t layer);
  // Returns the index of the role with this name, or -1.
  int32_t RoleNamed(std::string_view name) const;

 private:
  bool Serves(size_t role, int64_t layer) const;
  bool AnyRow(size_t role) const;
  void MakeOne(size_t role, int32_t layer, const Labels& labels);

  const ModelDescription& description_;
  const Roles& roles_;
  GraphWriter& write_;
  std::vector<ValueId> values_;        // indexed by role and layer
  std::map<int32_t, int32_t> biases_;  // role to the role of its bias, or -1
};

// Returns whether the ops of a layer are written: `only_layers` is empty or has
// the layer.
bool IsWritten(std::span<const int32_t> only_layers, int32_t layer);

}  // namespace shardc::step

#endif  // SHARDC_STEP_PARAMETERS_H_
