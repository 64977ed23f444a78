// Directory: cost. Computes the bytes that devices hold and send under a plan,
// and the time of a step. The formulas of collectives, of shards and of caches
// are in comm; this directory decides which of them a step of a model needs.
// Its files include headers of these directories: source, model, devices,
// program, resolve, legalize, roles, comm, schedule, step, facts, plan,
// exec/machine, exec/attention, exec/operations, exec/step.
//
// This file holds the input of the cost model: a plan's parameters by class,
// and how tokens are sharded over the mesh.
#ifndef SHARDC_COST_INPUTS_H_
#define SHARDC_COST_INPUTS_H_

#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "model/not_known.h"
#include "model/project.h"
#include "plan/compile.h"
#include "plan/plan_table.h"
#include "plan/representatives.h"
#include "roles/classify.h"
#include "roles/described.h"
#include "source/size.h"

namespace shardc::step {
struct RoleUse;
}  // namespace shardc::step

namespace shardc::facts {
struct ParameterTable;
}  // namespace shardc::facts

namespace shardc::cost {

// Returns the product of sizes, saturated at the largest 64-bit integer.
template <class... Sizes>
int64_t Times(Sizes... sizes) {
  return (Size(sizes) * ...).value();
}

inline double Real(int64_t value) { return static_cast<double>(value); }

// The tokens that a parameter is applied to.
enum class Stream : uint8_t {
  kModel,    // the tokens of the step
  kEncoder,  // the tokens of an encoder, which decoding does not run
  // The encoder's result, from which a decoder's cross-attention computes keys
  // and values. These are constant while a row is decoded, so decoding does not
  // compute them.
  kCrossed,
  // No tokens: the parameter belongs to a vision or audio tower, an encoder
  // next to a language model. The step of such a model is assumed to have only
  // text, so it does not run the tower.
  kNone
};

// Parameters whose names differ only in numbers and that have the same type and
// sharding.
struct ParamClass {
  // The name of the parameters, with `*` in place of each number.
  std::string name;
  TensorType type;
  // The spec in the mode that is costed, with one entry per dimension.
  Spec spec;
  ParameterRole role;
  int64_t count = 0;
  // A rule with `place` puts each tensor at a single coordinate of an axis, so
  // that only the devices there hold it. `placed_along` is this axis, or empty
  // without such a rule. `placed` has the number of tensors at each coordinate.
  std::string placed_along;
  std::map<int64_t, int64_t> placed;
  // The dimensions that count scanned layers, as the parameter is stored or, if
  // it is a slice of a stack, with the slice's layers first.
  std::vector<int> scanned = {};
  // The number of leading dimensions that count layers.
  int layer_dims = 0;
  // The output and input dimension of a weight; -1 for other parameters.
  int out_dim = -1, in_dim = -1;
  // The heads of a query or output projection that is stored with a dimension
  // of heads: 32 for [4096, 32, 128]. 0 for other parameters.
  int64_t heads = 0;
  // The number of weights that one stored number of a quantised tensor holds.
  int64_t packing = 1;
  Stream stream = Stream::kModel;
  // True for all parameters next to LoRA adapters in training: only adapters
  // are trained. The others have no gradient and no optimizer states.
  bool frozen = false;
  // Whether a `model:` section gives the role, and not the name.
  bool described = false;
  // Whether a device holds a share of each part of a fused matrix (`parts` in
  // its rule, or interleaved parts), in place of one range of all parts.
  bool by_part = false;
  // What the description of the model's family states about the parameter, and
  // about the weight of which it is a part; null if it has neither.
  const program::ParamFacts* facts = nullptr;
  const program::ParamFacts* weight = nullptr;
  // Whether the name has a word of no published model, so that its other words
  // are no evidence of a role (facts/strange_names.h).
  bool strange = false;
  // True if the parameter is a projection into or out of a mixer. A mixer is a
  // state-space block, or linear attention whose projections have names such as
  // `in_proj_qkvz` in place of `q_proj`. The projection out of the mixer has
  // the role of an output projection.
  bool mixes = false;
  // The number of layers that apply these tensors, if the tensors belong to a
  // block that several layers share, as in Zamba2. It is 0 if each tensor
  // belongs to one layer.
  int64_t sharing_layers = 0;

  bool IsWeight() const { return out_dim >= 0; }
  // Returns whether the step multiplies its tokens, or the tokens of its
  // encoder, with this weight.
  bool IsApplied() const { return IsWeight() && stream != Stream::kNone; }
  // Returns the number of matrices in all tensors of this class; 0 if the class
  // is not a weight. A tensor holds one matrix for each index of its leading
  // dimensions.
  int64_t Matrices() const;
  // Returns the number of tensors of this class on the device that holds the
  // most of them. The number is `count`, unless a rule with `place` puts each
  // tensor on a part of the devices.
  int64_t CountOnDevice() const;
  int64_t SizeAt(int dim) const;
  // Returns the number of inputs of a weight's matrix. It is the size of
  // `in_dim`, except in quantised weights, where a stored number or a block of
  // 4-bit numbers holds several inputs.
  int64_t Inputs() const;
  const AxisGroup& AxesAt(int dim) const;
  // Returns the number of dimensions. In quantised weights, the dimension of
  // the bytes of a block is not counted.
  int Rank() const {
    return static_cast<int>(type.shape->size()) - (role.packed_blocks ? 1 : 0);
  }
  // Returns whether `dim` may be the dimension of the experts. It may be if the
  // tensor holds several experts, and if the dimension precedes the dimensions
  // of the matrix or, for a bias, of the vector.
  bool MayCountExperts(int dim) const;
};

// How the note begins about axes over which a step shards nothing.
inline constexpr std::string_view kRepeatedWork = "nothing is sharded over ";

// The number of layers that have each number of KV heads.
using LayersByKvHeads = std::map<int64_t, int64_t>;

struct CostInputs {
  // The mesh, with factors in place of axes over which KV heads are replicated
  // (RefinedMesh() in model/mesh_layout.h).
  Mesh mesh;
  // The mesh of all stages of a pipeline, if `mesh` is that of one stage. It
  // determines on which hosts the stage's devices are.
  std::optional<Mesh> all_stages;
  Mode mode = Mode::kTrain;
  std::vector<ParamClass> params;
  std::optional<ModelConfig> model;
  // The number of the stage's layers with attention, and the number of its
  // layers with a sliding window. Both are nullopt for a complete model. Both
  // may be fractions: it is not known which layers have a window, so each stage
  // gets a share of the model's number. LayersWithAttention() and
  // LayersWithWindow() return the numbers for stages and for complete models.
  std::optional<double> attention_layers, windowed_layers;
  // True if a query attends only to its own and to earlier keys.
  bool causal = true;
  // The specs of attention's operands and result, in dimension order bthd.
  Spec query, key, value, output;
  // With replicated KV heads (`kv_replicate`), the number of devices over which
  // the heads are divided or replicated. A device has one head in layers with
  // fewer heads than this. nullopt if no KV heads are replicated.
  std::optional<int64_t> kv_parts;
  // The axes that shard the hidden state between the layers besides those of
  // the tokens: its width, or further its length. `hidden_known` is false if
  // the axes are unknown because a plan's file has no `activations`.
  AxisGroup hidden;
  bool hidden_known = false;
  // The missing fact if rules write mesh axes in specs that no axis rule of the
  // mode names: whether such an axis also shards tokens or heads.
  std::optional<NotKnown> unknown_axes;
  // The missing facts about specs of activations that the rules state.
  std::vector<NotKnown> stated_elsewise;
  // The hidden size of the entire model. It is set if `params` are only a part
  // of the model's parameters, such as those of a stage without the embedding.
  std::optional<int64_t> hidden_size;
  // The layers behind the last layer that predict further tokens, which the
  // parameters do not contain (NextTokenLayers in cost/experts.h).
  int64_t next_token_layers = 0;
  // The parameters of these layers, which `params` does not have; empty if they
  // are not known (NextTokenParams in cost/next_token.h). In the last stage of
  // a pipeline, they include the copy of the embedding.
  std::vector<ParamClass> next_token_params;
  // The axes over which experts are sharded; nullopt if a plan's file has no
  // `activations`.
  std::optional<AxisGroup> expert_axes;
  std::vector<std::string> notes;
  // True if the config.json, from which the tree was built, states that the
  // weights are quantised (kBeforeQuantisation). The bytes of the tree are
  // those of training, and more than a server of the quantised weights holds.
  bool before_quantisation = false;
  // What the parameters do as far as there is no evidence for it, such as the
  // roles of matrices. Figures that need a role leave these parameters out, so
  // bytes are lower bounds, and the time of a step is not computed.
  std::vector<NotKnown> not_known;
  // What each parameter of the plan does by the `model:` section; null without
  // one. The compiled target shares the list.
  std::shared_ptr<const std::vector<step::RoleUse>> uses;
  // What the description of the model's family shows; never null.
  std::shared_ptr<const DescribedRoles> family;
  // The facts about the parameters of the plan, by which their roles are known.
  std::shared_ptr<const facts::ParameterTable> parameters;
  // StrangeGroups() of `parameters` (facts/parameters.h).
  std::shared_ptr<const std::vector<bool>> strange;

  // Returns whether the bytes of the weights are not those of the tree.
  bool ServesQuantised() const {
    return before_quantisation && mode != Mode::kTrain;
  }
  // Returns whether a step has layers whose parameters are not known.
  bool LacksLayers() const {
    return next_token_layers > 0 && next_token_params.empty();
  }
  const AxisGroup& Batch() const { return query[0]; }
  const AxisGroup& Length() const { return query[1]; }
  const Mesh& WholeMesh() const { return all_stages ? *all_stages : mesh; }
  // Returns the axes that shard the tokens, without axes of size 1.
  AxisGroup TokenAxes() const;
  // Returns those of `axes` over which a weight stays sharded while it is used.
  // They are the axes that shard no tokens, and the axes of the heads. Weights
  // are gathered over all other axes.
  AxisGroup Kept(const AxisGroup& axes) const;
  // Returns those of `axes` that Kept(axes) does not return.
  AxisGroup Gathered(const AxisGroup& axes) const;
  // KeptAt returns the axes over which a dimension of a parameter stays sharded
  // while the parameter is used. GatheredAt returns the other axes of the
  // dimension. In most dimensions they are those that Kept() and Gathered()
  // return.
  //
  // A dimension that counts experts differs, because tokens are sent to the
  // experts, and experts are not gathered. It stays sharded over its first axes
  // as long as they belong to the axis rule `expert`, even if they shard
  // tokens. For example, with `expert: ep` and tokens sharded over ep and fsdp,
  // a dimension sharded over (ep, fsdp) stays sharded over ep and is gathered
  // over fsdp. Without rules, all axes of such a dimension are assumed to be
  // experts' axes.
  AxisGroup KeptAt(const ParamClass& param, int dim) const;
  AxisGroup GatheredAt(const ParamClass& param, int dim) const;
  // Returns whether a parameter is gathered over any axis before it is used.
  bool IsGathered(const ParamClass& param) const;
  // Returns the shape of a device's shard of a parameter while the parameter is
  // used: each dimension is divided over its axes in KeptAt(). The parameter
  // must have a shape.
  Shape UsedShape(const ParamClass& param) const;
  int64_t Parts(const AxisGroup& axes) const {
    return mesh.Parts(axes).value_or(1);
  }
  // Returns the number of layers that have a projection of this role. Only
  // parameters that the step applies are counted. Shared experts are left out,
  // because they are in layers that have other experts too.
  int64_t LayersWith(Role role) const;
  // Returns the number of layers with attention, which may be a fraction for a
  // stage. Returns nullopt for a complete model if its configuration gives no
  // separate number, because all layers have attention or because the number is
  // unknown.
  std::optional<double> LayersWithAttention() const;
  // Returns the number of layers whose attention has a window or chunks, which
  // may be a fraction for a stage.
  double LayersWithWindow() const;
  // Returns the KV heads of the layers by the shapes of their key projections,
  // for models whose layers differ, as in DeciLM and Nemotron-NAS: their
  // configuration states only one number, which is that of some layers. Returns
  // an empty map if the shapes show no such difference.
  LayersByKvHeads KvHeadsByShape() const;
  // Returns the number of experts of a layer; 0 if there are no experts. The
  // number is read from the shapes of the parameters or, if they do not show
  // it, from the configuration. If both lack it, it is computed from the
  // numbers of expert tensors and of routers.
  int64_t Experts() const;
  // Returns the first weight or embedding of a role that is applied to the
  // tokens of the step (Stream::kModel); null if there is none. Only experts'
  // weights are searched if `expert` is true, and only other weights if it is
  // false.
  const ParamClass* Find(Role role, bool expert = false) const;
  std::optional<int64_t> Hidden() const;

 private:
  // Returns whether a weight that is sharded over the axis stays sharded over
  // it while the weight is used.
  bool Keeps(const std::string& axis) const;
  // Calls take(axis, kept) for each axis of more than one device that shards a
  // parameter's dimension. A search calls this function for every parameter of
  // every sharding. So, to be fast, the function does not allocate lists of
  // axes.
  template <typename Take>
  void ForAxesAt(const ParamClass& param, int dim, const Take& take) const;
};

// Counts the layers that apply a weight. For a weight of experts, this requires
// the number of experts of a layer, for which all parameters are read. The
// object finds that number only once.
class LayerCounts {
 public:
  // The inputs must outlive this object, and their parameters must not change.
  explicit LayerCounts(const CostInputs& work) : work_(work) {}
  // Returns the number of layers that apply this weight; 0 if the parameter is
  // not a weight. Several layers may apply one tensor.
  int64_t Of(const ParamClass& param);

 private:
  const CostInputs& work_;
  // The number of experts of a layer, at least 1. It is 0 while the experts
  // have not been counted yet.
  int64_t experts_ = 0;
};

// Some of the layers in a tensor of stacked layers: `layers` layers of the
// tensor's `all` layers. The layers are in dimension `dim`, or in three
// dimensions from `dim` on, which are [virtual stages, ranks, layers of a
// stage].
struct StackSlice {
  int dim = 0;
  int64_t layers = 0, all = 0;
};
// The slices of layer stacks, indexed by the plan's parameter. An entry that is
// nullopt means the complete tensor.
using StackSlices = std::vector<std::optional<StackSlice>>;

// Makes the inputs of a compiled target, with the specs of the mode. If the
// plan does not have the mode, the specs of train are used. Axes that do not
// divide the model's heads are dropped from the specs of attention, or shrunk,
// if the policy for illegal specs is not `error` (DropUnevenHeads in
// legality.h). `compiled` may have only one parameter of each group, such as
// `layers.0.w` for all `layers.*.w` with the same layout. In this case
// `representatives` must be given, because it has the number of parameters in
// each group. With `slices`, only the given layers of a layer stack are
// included, and the layers become the first dimension.
CostInputs MakeCostInputs(const Compiled& compiled,
                          std::optional<ModelConfig> model, Mode mode,
                          const Representatives* representatives = nullptr,
                          const StackSlices* slices = nullptr);
// Makes the inputs of a plan that was read from a file. If the plan has no
// `activations`, `hidden_known` is false.
CostInputs MakeCostInputs(const ReadPlan& plan,
                          std::optional<ModelConfig> model, Mode mode);

// Gives every weight the dimensions that the cost model expects: first the
// dimensions that count layers and experts, then the two dimensions of a
// matrix.

// Changes the shapes and specs of weights that are not stored as a matrix.
// There are three cases: projections of attention with a dimension of heads,
// fused gate and up projections with a dimension of size 2, and weights that
// hold all experts in one matrix. The number of elements stays the same, in
// total and on a device. If only the sizes of a weight show that it belongs to
// experts, and not its name, ParameterRole::expert is set.
void FindMatrixDims(CostInputs& work);

// Sets ParamClass::packing, the number of weights in one stored number, for
// each quantised matrix. The output and input dimensions of the matrices must
// be set.
void FindPacking(CostInputs& work, std::optional<int64_t> hidden);

// Sets ParamClass::sharing_layers of the weights of blocks of attention and MLP
// that layers share, as in Zamba. The dimensions of the weights must be known.
void FindSharedBlocks(CostInputs& work, char separator);
// Sets ParamClass::sharing_layers of `chosen`, which has some of the parameters
// of `whole`. All layers that share a block are assumed to be in the stage that
// has the block's tensors, because the checkpoint has these tensors only once.
void ShareBlocksAs(const CostInputs& whole, CostInputs& chosen);

// Returns the missing fact if the configuration states experts, the names and
// sizes show none, and a layer has several feed-forward blocks. These are then
// computed as if every token used all of them. Returns nullopt otherwise.
std::optional<NotKnown> UnfoundExperts(const CostInputs& work);

}  // namespace shardc::cost

#endif  // SHARDC_COST_INPUTS_H_
