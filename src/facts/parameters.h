// States for each parameter group of a model what it does and which of its
// dimensions enters and leaves its module, each with its evidence. Lints and
// other rooms read these facts and correct none of them.
//
// The same question has one answer for every reader. Sources of evidence that
// contradict each other are ordered, and the strongest one decides. A reader
// that must not be wrong, such as a lint, states the weakest evidence that it
// accepts, and gets the facts that stronger evidence shows.
#ifndef SHARDC_FACTS_PARAMETERS_H_
#define SHARDC_FACTS_PARAMETERS_H_

#include <cstdint>
#include <mutex>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "model/manifest.h"
#include "model/model_description.h"
#include "model/project.h"
#include "roles/classify.h"
#include "roles/described.h"
#include "roles/layer_stacks.h"
#include "source/text_order.h"
#include "step/role_uses.h"

namespace shardc::facts {

// What shows the role of a module, from the weakest to the strongest.
enum class Evidence : uint8_t {
  kNone,
  // A word of the name that a few frameworks use, some with other meanings.
  kLikelyWord,
  // A likely word, and the shapes of the other parameters of its block: the
  // output projection reads as many values as the query projection computes.
  kShapes,
  // A word of the name with one meaning in every framework.
  kSureWord,
  // The factors that the description of the model's family states.
  kFamily,
  // The ops of the `model:` section of the rules that use the parameter.
  kSection
};
std::string_view EvidenceText(Evidence evidence);
// Returns the word of output, such as `shapes`.
std::string_view EvidenceWord(Evidence evidence);

// The parameters of one type (shape and dtype) whose names differ only in
// numbers, and which have one use in the `model:` section.
struct Group {
  std::string name;    // has `*` in place of the numbers, as `layers.*.up`
  uint32_t type = 0;   // index into Manifest::types
  uint32_t first = 0;  // index of the first parameter
  int64_t count = 0;   // the number of parameters
  Evidence evidence = Evidence::kNone;  // of ParameterRole::module_role
  // Whether the section states that the step does not use the parameters.
  bool skipped = false;
  // Whether the parameters project into or out of a mixer: a state-space block,
  // or linear attention with names such as `in_proj_qkvz` in place of `q_proj`.
  // The module of a projection out of a mixer has the role of an output
  // projection.
  bool mixes = false;

  // Returns the role that evidence of at least this strength shows. If only
  // weaker evidence shows a role, returns what else the name shows, such as the
  // leaf, and the role kOther.
  const ParameterRole& RoleBy(Evidence least) const {
    return evidence >= least || !sure_ ? role_ : *sure_;
  }
  const ParameterRole& role() const { return role_; }

 private:
  friend class Finder;

  ParameterRole role_;  // by all evidence
  // By words with one meaning only; nullopt if it is the same.
  std::optional<ParameterRole> sure_;
};

// What the facts of a model's parameters are found from.
struct ParameterInputs {
  std::span<const Tensor> tensors;
  std::span<const TensorType> types;
  char separator = 0;
  const ModelConfig* config = nullptr;  // null if there is none
  // What the description of the model's family shows; null if there is none.
  const DescribedRoles* family = nullptr;
  // Indexed by parameter: the uses that the `model:` section of the rules
  // shows; empty if there is no section, or if it is invalid.
  std::span<const step::RoleUse> uses = {};
};

// The parameter groups of a model, in the order of their first parameters.
struct ParameterTable {
  std::vector<Group> groups;
  // Indexed by parameter: the index of its group.
  std::vector<uint32_t> group_of;
  // The scanned layers of the model. LayerStacks::dims is indexed by group.
  LayerStacks stacks;

  const Group& Of(size_t parameter) const {
    return groups[group_of[parameter]];
  }
  // Returns the dimensions of a group that count scanned layers, in ascending
  // order; none if one of them is undecided.
  std::vector<int> ScannedDims(uint32_t group) const;
};

ParameterTable FindParameters(const ParameterInputs& inputs);

// Returns for each group of a table whether its name has a word of no published
// model, so that its other words are weak evidence of the role
// (facts/strange_names.h). False where stronger evidence shows the role.
std::vector<bool> StrangeGroups(const ParameterTable& table,
                                std::span<const TensorType> types,
                                char separator);

// A parameter group whose layers are to be found.
struct NamedGroup {
  std::string_view name;         // has `*` in place of each number
  const Shape* shape = nullptr;  // null if unknown
};

// Finds the layer stacks of a model that has no table yet, or where the user
// states the dimension that counts layers. `layers` is the number of layers in
// the configuration; nullopt if it is unknown.
LayerStacks FindStacks(std::span<const NamedGroup> groups, char separator,
                       std::optional<int64_t> layers = std::nullopt,
                       const ScanAxis& axis = {});

// Returns what words with one meaning show about the weight of a module, also
// of a module without parameters of its own, such as a list of heads.
ParameterRole RoleOfModule(std::string_view name, char separator);

// Returns the dimensions of a shape that do not count scanned layers, in
// ascending order: 1 and 2 for [layers, in, out]. `scanned` is an entry of
// LayerStacks::dims. Dimensions of stacks that are undecided are returned.
std::vector<int> UnscannedDims(const Shape& shape, const LayerStacks& stacks,
                               const std::vector<ScannedDim>& scanned);

// The table of one compiled target. It is found at the first call, so that
// commands that read no facts do not wait for it. Several threads may call Of()
// at the same time. All calls must have the same inputs.
class TargetParameters {
 public:
  TargetParameters() = default;
  // Takes those of the facts of `whole` that are about the parameters `chosen`,
  // which are some of the parameters `names`. The facts are those of all
  // parameters, such as the number of parameters in a group.
  TargetParameters(const ParameterTable& whole, Texts names, Texts chosen);
  const ParameterTable& Of(const Manifest& manifest, const ModelConfig* config,
                           const DescribedRoles* family,
                           const ModelDescription* section,
                           step::ParameterUses& uses);
  // Returns StrangeGroups() of the table, after Of() was called.
  const std::vector<bool>& Strange(const Manifest& manifest);

 private:
  std::once_flag once_, strange_once_;
  ParameterTable table_;
  std::vector<bool> strange_;
};

}  // namespace shardc::facts

#endif  // SHARDC_FACTS_PARAMETERS_H_
