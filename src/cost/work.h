// Room: cost. What a plan costs: bytes that devices hold and send, and the time
// that this takes. Knows source, devices, model, resolve, comm, plan, the roles
// of lint and, for the bytes of attention's operations, exec. Formulas of
// collectives, of shards and of caches stand in comm; what is here says which
// of them a step of a model needs.
//
// What is costed: a plan's parameters by class, and how tokens lie on the mesh.
#ifndef SHARDC_COST_WORK_H_
#define SHARDC_COST_WORK_H_

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "lint/analysis/roles.h"
#include "model/project.h"
#include "plan/compile.h"
#include "plan/view.h"
#include "source/checked.h"

namespace shardc::cost {

// The product of sizes, or as much as fits.
template <class... Sizes>
int64_t Times(Sizes... sizes) {
  const int64_t all[] = {sizes...};
  return CheckedProduct(all).value_or(INT64_MAX);
}

// Parameters that are alike but for digits in their names and lie alike.
struct ParamClass {
  std::string name;  // their template, or the one name
  TensorType type;
  Spec spec;  // in the mode; an entry per dimension
  GroupRole role;
  int64_t count = 0;
  std::string placed_along;           // the axis of `placed`
  std::map<int64_t, int64_t> placed;  // how many, by coordinate
  // Of a weight, else -1: dimensions that leave and enter it.
  int out_dim = -1, in_dim = -1;

  bool IsWeight() const { return out_dim >= 0; }
  // Matrices in all: a tensor holds those of its leading dimensions.
  int64_t Matrices() const;
  int64_t SizeAt(int dim) const;
  const AxisGroup& AxesAt(int dim) const;
};

struct Work {
  Mesh mesh;
  Mode mode = Mode::kTrain;
  std::vector<ParamClass> params;
  std::optional<ModelConfig> model;
  // In layout bthd.
  Spec query, key, value, output;
  // Of the hidden state's width; `hidden_known` where rules were at hand.
  AxisGroup hidden;
  bool hidden_known = false;
  std::vector<std::string> notes;

  const AxisGroup& Batch() const { return query[0]; }
  const AxisGroup& Length() const { return query[1]; }
  // Over which tokens are split, those of size 1 dropped.
  AxisGroup TokenAxes() const;
  // Over which a weight stays split while it is used: those that split no
  // tokens, heads' axes, and those of an expert's number.
  AxisGroup Kept(const AxisGroup& axes) const;
  AxisGroup Gathered(const AxisGroup& axes) const;  // the others
  int64_t Parts(const AxisGroup& axes) const {
    return mesh.Parts(axes).value_or(1);
  }
  // Layers that have such a projection.
  int64_t LayersWith(Role role) const;
  int64_t LayersOf(const ParamClass& param) const;
  // Numbers of experts, of the tree where it tells; 0: none.
  int64_t Experts() const;
  const ParamClass* Find(Role role, bool expert = false) const;
  std::optional<int64_t> Hidden() const;
};

// Of legal specs; those of a mode that was not planned are train's.
Work MakeWork(const Compiled& compiled, std::optional<ModelConfig> model,
              Mode mode);
// Of a plan read back: which axes split the hidden state it does not say.
Work MakeWork(const PlanView& plan, std::optional<ModelConfig> model,
              Mode mode);

}  // namespace shardc::cost

#endif  // SHARDC_COST_WORK_H_
