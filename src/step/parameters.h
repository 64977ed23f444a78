// Creates the parameters of a step: an input of the graph for each role and
// layer, or for each role outside of layers. A role that is tied to another
// role may use the other role's input, and layers may share an input.
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

  // Creates the inputs for parameters outside of layers and for the layers in
  // `only_layers`, which are all layers if it is empty. Also creates the inputs
  // of a layer whose parameters other layers share.
  void Make(std::span<const int32_t> only_layers, LabelTable& labels);

  // Returns the parameter of a role in a layer, or kNoValue if there is none.
  // If the role is shared and the layer lacks it, returns the parameter of the
  // first layer of the stack. If the role is tied to another role and has no
  // parameter, returns the other role's parameter. `layer` is -1 outside of
  // layers.
  ValueId Of(int32_t role, int32_t layer) const;
  // Returns the parameter of the role ROLE.bias, where ROLE is the name of
  // `role`, or kNoValue.
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
  // The input of each role and layer, indexed by role and layer.
  std::vector<ValueId> values_;
  // Maps a role to the role of its bias, or to -1 if it has none.
  std::map<int32_t, int32_t> biases_;
};

// Returns whether the ops of a layer are written, that is, whether
// `only_layers` is empty or contains the layer.
bool IsWritten(std::span<const int32_t> only_layers, int32_t layer);

}  // namespace shardc::step

#endif  // SHARDC_STEP_PARAMETERS_H_
