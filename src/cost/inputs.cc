// Groups the parameters of a plan for the cost model. Parameters that have the
// same type and sharding, and whose names differ only in numbers, form one
// class. A class of weights also has an input and an output dimension, by the
// facts about the parameters. For example:
//
//   layers.0.q_proj.weight, layers.1.q_proj.weight, both [4096, 4096]
//     -> one class of 2 tensors, output dimension 0, input dimension 1
#include "cost/inputs.h"

#include <algorithm>
#include <functional>
#include <set>
#include <span>
#include <string>
#include <string_view>
#include <tuple>
#include <unordered_map>
#include <utility>

#include "cost/experts.h"
#include "cost/memory.h"
#include "cost/next_token.h"
#include "cost/settings.h"
#include "cost/stage_cost.h"
#include "cost/unknown_roles.h"
#include "facts/parameters.h"
#include "model/mesh_layout.h"
#include "model/name.h"
#include "model/not_known.h"
#include "plan/axis_facts.h"
#include "plan/compile.h"
#include "plan/placement.h"
#include "plan/plan_parameters.h"
#include "resolve/resolve.h"
#include "roles/role.h"
#include "source/list.h"
#include "source/size.h"
#include "source/wording.h"
#include "step/build.h"
#include "step/role_uses.h"

namespace shardc::cost {
namespace {

// Sets the output and the input dimension of a weight that a step multiplies
// with.
void SetSides(ParamClass& param) {
  const ParameterRole& role = param.role;
  const bool other = role.leaf == Leaf::kBias || role.leaf == Leaf::kScale ||
                     role.leaf == Leaf::kZeroPoint;
  const Role module_role = role.module_role;
  // Latent attention projects the hidden state to a latent (kLatentDown), and
  // the latent to the heads (kLatentUp). Only kLatentDown reads the hidden
  // state.
  const bool takes = TakesWidth(module_role) ||
                     module_role == Role::kLatentDown ||
                     module_role == Role::kFusedKeyValue;
  const bool projects = takes || GivesWidth(module_role) ||
                        module_role == Role::kLatentUp || param.mixes ||
                        IsAdapter(module_role) || IsUnnamedMatrix(param);
  if (!param.type.shape || !projects || other) return;
  const int rank = param.Rank();
  if (rank < 2) return;
  if (role.packed_blocks) {
    // The dimensions are [out, blocks, bytes of a block].
    param.out_dim = rank - 2;
    param.in_dim = rank - 1;
    return;
  }
  param.out_dim = OutDim(role, rank);
  param.in_dim = InDim(role, rank);
  if (param.out_dim < 0) {
    // If the name does not show the orientation, as for fused experts, the
    // weight is stored as [in, out].
    param.out_dim = rank - 1;
    param.in_dim = rank - 2;
  }
}

// Groups parameters by a key. The groups are in the order of their first
// parameters.
class ClassBuilder {
 public:
  struct Key {
    uint32_t group = 0;   // index into ParameterTable::groups
    uint32_t layout = 0;  // the number of the spec and its type
    int64_t layers = 0;   // of a slice of a stack; 0 for a complete tensor
    bool operator==(const Key&) const = default;
  };

  ParamClass& At(const Key& key, bool& fresh) {
    const auto [at, is_new] = index_.try_emplace(key, classes_.size());
    fresh = is_new;
    if (is_new) classes_.emplace_back();
    return classes_[at->second];
  }
  std::vector<ParamClass> Take() { return std::move(classes_); }

 private:
  struct Hash {
    size_t operator()(const Key& key) const {
      const size_t both = (size_t{key.group} << 32U) | key.layout;
      return std::hash<size_t>()(both) * 31 + std::hash<int64_t>()(key.layers);
    }
  };
  std::unordered_map<Key, size_t, Hash> index_;
  std::vector<ParamClass> classes_;
};

void Finish(ParamClass& param, const CostInputs& work, size_t index,
            std::string_view name, const TensorType& type, const Spec& spec,
            char separator, const step::RoleUse* use) {
  const facts::ParameterTable& table = *work.parameters;
  const DescribedRoles& family = *work.family;
  const facts::Group& group = table.Of(index);
  const bool strange = (*work.strange)[table.group_of[index]];
  param.name = group.name;
  param.type = type;
  param.spec = spec;
  if (type.shape) {
    param.spec.resize(type.shape->size());
    param.scanned = table.ScannedDims(table.group_of[index]);
    param.facts = family.Find(name, *type.shape);
    param.weight = param.facts != nullptr
                       ? param.facts
                       : family.FindUnquantised(name, separator);
  }
  // Roles by weak evidence are used too, because a missing matmul is a larger
  // error than a wrong role. A word of no published model next to the words
  // that give the role may make the parameter another one than they say.
  param.role = group.role();
  param.mixes = group.mixes;
  param.strange = strange;
  if (strange) {
    ParameterRole unknown;
    unknown.sibling_path = std::move(param.role.sibling_path);
    unknown.module_path = std::move(param.role.module_path);
    unknown.block_path = std::move(param.role.block_path);
    param.role = std::move(unknown);
  }
  param.described = group.evidence == facts::Evidence::kSection;
  if (group.skipped) param.stream = Stream::kNone;
  if (use != nullptr && !use->skipped) {
    if (use->encoder) param.stream = Stream::kEncoder;
    if (use->crossed) param.stream = Stream::kCrossed;
  }
  // An adapter is not a projection of its module, so that it does not count as
  // a layer and shows no heads.
  if (IsAdapter(param.role.role)) param.role.module_role = param.role.role;
}

// Replaces the layer dimension of a layer stack by a first dimension whose size
// is the slice's number of layers. For 8 of 32 layers, [4096, 32, 128] becomes
// [8, 4096, 128]. A stack may have three layer dimensions: [virtual stages,
// ranks, layers of a stage]. All three are then replaced by the first
// dimension.
void TakeSlice(const StackSlice& slice, ParamClass& param) {
  Shape& shape = *param.type.shape;
  const bool three = shape[AsIndex(slice.dim)] != slice.all;
  const ptrdiff_t end = slice.dim + (three ? 3 : 1);
  AxisGroup axes = param.spec[AsIndex(slice.dim)];
  shape.erase(shape.begin() + slice.dim, shape.begin() + end);
  param.spec.erase(param.spec.begin() + slice.dim, param.spec.begin() + end);
  shape.insert(shape.begin(), slice.layers);
  param.spec.insert(param.spec.begin(), std::move(axes));
  std::vector<int> scanned = {0};
  for (const int dim : param.scanned) {
    if (dim < slice.dim) scanned.push_back(dim + 1);
    if (dim >= end) scanned.push_back(dim + 1 - (three ? 3 : 1));
  }
  param.scanned = std::move(scanned);
}

// Moves the dimension of scanned layers to the front, if there is one. The cost
// model expects dimensions that count matrices, such as layers and experts,
// before the dimensions of a matrix.
void MoveStackFirst(ParamClass& param) {
  const auto count = static_cast<int>(param.scanned.size());
  if (count == 0) return;
  const int last = param.scanned.back();
  if (count == 1 || last == count - 1) param.layer_dims = count;
  if (count > 1 || last == 0) return;
  const auto to_front = [&](auto& dims) {
    std::rotate(dims.begin(), dims.begin() + last, dims.begin() + last + 1);
  };
  to_front(*param.type.shape);
  to_front(param.spec);
}

// Marks fused matrices whose parts are interleaved, as those of GPT-NeoX are.
void FindInterleaved(CostInputs& work, char separator) {
  const std::string_view type =
      work.model ? std::string_view(work.model->model_type) : "";
  for (ParamClass& param : work.params) {
    if (param.weight == nullptr) {
      param.by_part |=
          InterleavesParts(type, param.role.module_role, param.name, separator);
    } else if (param.IsWeight()) {
      param.by_part |= work.family->Interleaves(
          *param.weight, work.Parts(work.KeptAt(param, param.out_dim)));
    }
  }
}

void FindSides(CostInputs& work, char separator) {
  for (ParamClass& param : work.params) MoveStackFirst(param);
  FindMatrixDims(work);
  for (ParamClass& param : work.params) SetSides(param);
  FindPacking(work, work.Hidden());
  FindInterleaved(work, separator);
  SetStreams(work, separator);
  FindSharedBlocks(work, separator);
  std::erase_if(work.hidden, [&](const std::string& axis) {
    return work.mesh.SizeOf(axis) == 1 || IsAmong(axis, work.Batch()) ||
           IsAmong(axis, work.Length());
  });
  const auto hidden = work.Hidden();
  if (!hidden || *hidden % work.Parts(work.hidden) != 0) work.hidden.clear();
  work.not_known = UnknownRoles(work);
  if (auto experts = UnfoundExperts(work)) {
    work.not_known.push_back(std::move(*experts));
  }
  AddNotKnown(ContradictedSizes(work), work.not_known);
  if (work.unknown_axes) work.not_known.push_back(*work.unknown_axes);
  AddNotKnown(work.stated_elsewise, work.not_known);
}

// Returns the spec without axes that the mesh lacks or that have size 1, and
// without repetitions of an axis in later dimensions.
Spec Sound(const Mesh& mesh, Spec spec) {
  AxisGroup seen;
  spec.resize(4);
  for (AxisGroup& axes : spec) {
    std::erase_if(axes, [&](const std::string& axis) {
      return mesh.SizeOf(axis) == 1 || IsAmong(axis, seen);
    });
    seen.insert(seen.end(), axes.begin(), axes.end());
  }
  return spec;
}

// With replicated KV heads, shards the keys and values over as many devices as
// the configuration states heads. If layers have different numbers, this is the
// usual number, and `kv_parts` keeps the devices of all axes.
void ReplicateStatedHeads(CostInputs& work) {
  work.kv_parts = work.Parts(work.key[2]);
  if (!work.model || !work.model->heads) return;
  const int64_t heads = work.model->kv_heads.value_or(*work.model->heads);
  for (Spec* spec : {&work.key, &work.value}) {
    const auto axes = KvHeadAxes(work.mesh, (*spec)[2], heads);
    if (axes) (*spec)[2] = *axes;
  }
}

// Writes all axes as the factors in a refined mesh.
void Refine(const Mesh& mesh, CostInputs& work) {
  work.mesh = mesh;
  for (ParamClass& param : work.params) {
    param.spec = RefinedSpec(mesh, param.spec);
  }
  for (Spec* spec : {&work.query, &work.key, &work.value, &work.output}) {
    *spec = RefinedSpec(mesh, *spec);
  }
  work.hidden = RefinedGroup(mesh, work.hidden);
  if (work.expert_axes) {
    work.expert_axes = RefinedGroup(mesh, *work.expert_axes);
  }
}

void TakeSpec(CostInputs& work, std::string_view tensor, const Spec& spec) {
  const std::pair<std::string_view, Spec*> known[] = {{"query", &work.query},
                                                      {"key", &work.key},
                                                      {"value", &work.value},
                                                      {"output", &work.output}};
  for (const auto& [name, to] : known) {
    if (name == tensor) *to = Sound(work.mesh, spec);
  }
}

// Returns whether a spec shards the batch as the query does, and the length
// over the query's axes and maybe further ones.
bool ShardsTokensAsQuery(const CostInputs& work, const Spec& spec) {
  const AxisGroup& length = spec[1];
  return spec[0] == work.Batch() &&
         std::all_of(
             work.Length().begin(), work.Length().end(),
             [&](const std::string& axis) { return IsAmong(axis, length); });
}

// Takes the spec of an activation. The hidden state may have its length sharded
// over further axes between the layers, as in Megatron's sequence parallelism:
// it is gathered over them before a layer's matrices and reduced to them after,
// as over axes that shard its width, so both are in `hidden`. What other specs
// that the rules state send and keep is not computed here.
void TakeActivation(CostInputs& work, std::string_view name, const Spec& spec,
                    bool stated) {
  const Spec sound = Sound(work.mesh, spec);
  bool computed = !stated;
  if (name == "hidden") {
    work.hidden = sound[1];
    for (const std::string& axis : sound[kHiddenWidthDim]) {
      work.hidden.push_back(axis);
    }
    work.hidden_known = true;
    computed |= ShardsTokensAsQuery(work, sound);
  }
  if (name == "experts") work.expert_axes = sound[kExpertsExpertDim];
  if (computed) return;
  work.stated_elsewise.push_back(
      {.what = "what a step sends and keeps where the rules state the spec of "
               "the activation `" +
               std::string(name) + "`",
       .settled_by = "`verify step`, which runs the step with these specs"});
}

CostInputs Empty(const Mesh& mesh, std::optional<ModelConfig> model,
                 Mode mode) {
  CostInputs out;
  out.mesh = mesh;
  out.mode = mode;
  out.model = std::move(model);
  for (Spec* spec : {&out.query, &out.key, &out.value, &out.output}) {
    spec->resize(4);
  }
  return out;
}

char SeparatorOf(const ReadPlan& plan) {
  for (const ReadParam& param : plan.params) {
    if (param.name.find('/') != std::string::npos) return '/';
  }
  return '.';
}

// Adds a note if experts are sharded over axes of tokens. In a plan without
// `activations` it is unknown whether weights are gathered over these axes, or
// whether tokens are sent over them.
void NoteExpertAxes(CostInputs& work) {
  if (work.expert_axes) return;
  const AxisGroup tokens = work.TokenAxes();
  for (const ParamClass& param : work.params) {
    for (int dim = 0; dim < std::ssize(param.spec); ++dim) {
      if (!param.MayCountExperts(dim)) continue;
      for (const std::string& axis : param.AxesAt(dim)) {
        if (!IsAmong(axis, tokens)) continue;
        work.notes.emplace_back(
            "a plan file does not contain the axes of the experts: assumed to "
            "be all axes over which experts are sharded");
        return;
      }
    }
  }
}

// Finds axes of the mesh that specs of matrices have, and that neither `named`
// nor a spec of attention has. `named` are the axes of the axis rules, which
// say which axes shard tokens, heads and hidden states. So an axis that only
// specs of parameters name, as `tensor` in `[tensor, fsdp]`, may shard
// activations as well, or may not.
AxisGroup AxesWithoutRule(AxisGroup named, const CostInputs& work) {
  for (const Spec* spec : {&work.query, &work.key, &work.value, &work.output}) {
    for (const AxisGroup& axes : *spec) {
      named.insert(named.end(), axes.begin(), axes.end());
    }
  }
  AxisGroup found;
  for (const ParamClass& param : work.params) {
    const ptrdiff_t rank = std::ssize(param.spec);
    if (rank < 2) continue;
    for (ptrdiff_t dim = param.role.expert ? 0 : rank - 2; dim < rank; ++dim) {
      for (const std::string& axis : param.spec[AsIndex(dim)]) {
        if (work.mesh.SizeOf(axis) > 1 && !IsAmong(axis, named) &&
            !IsAmong(axis, found)) {
          found.push_back(axis);
        }
      }
    }
  }
  return found;
}

void SetUnknownAxes(const AxisGroup& axes, std::string settled_by,
                    CostInputs& work) {
  work.unknown_axes =
      NotKnown{.what = "what " + GroupText(axes) +
                       " shards besides parameters, such as tokens or heads",
               .settled_by = std::move(settled_by)};
}

// Adds a note about axes over which nothing is sharded, neither tokens nor
// heads nor weights: the devices along them repeat each other's work. `stages`
// is the axis of pipeline stages, or empty.
void NoteIdleAxes(std::string_view stages, CostInputs& work) {
  std::set<std::string, std::less<>> used;
  const auto take = [&](const AxisGroup& axes) {
    for (const std::string& axis : axes) {
      used.insert(std::string(WholeAxis(axis)));
    }
  };
  for (const Spec* spec : {&work.query, &work.key, &work.value, &work.output}) {
    std::ranges::for_each(*spec, take);
  }
  take(work.hidden);
  for (const ParamClass& param : work.params) {
    std::ranges::for_each(param.spec, take);
    used.insert(param.placed_along);
  }
  AxisGroup idle;
  int64_t repeats = 1;
  for (const MeshAxis& axis : work.mesh.axes) {
    if (axis.size <= 1 || axis.name == stages || used.contains(axis.name)) {
      continue;
    }
    idle.push_back(axis.name);
    repeats = Times(repeats, axis.size);
  }
  if (idle.empty()) return;
  AxisGroup batch = work.Batch();
  batch.push_back(idle.front());
  work.notes.push_back(std::string(kRepeatedWork) + GroupText(idle) + ", so " +
                       Counted(repeats, "device") +
                       " repeat the same work: write `axes: {batch: [" +
                       Join(batch, ", ") + "]}` in the rules if " +
                       ShortQuote(idle.front()) + " divides the batch");
}

// Returns what settles the purpose of an axis. `stated` is whether the rules
// state which axes divide the batch, and `experts` whether the axis shards a
// dimension that counts experts.
std::string LineForAxis(const std::string& axis, bool stated, bool experts) {
  if (experts) {
    return "`axes:` in the rules: `axes: {expert_parallel: " + axis +
           "}`, and in `batch` as well if each of its devices has other tokens";
  }
  if (stated) {
    return "`axes:` in the rules: `axes: {tensor_parallel: " + axis +
           "}` if devices compute with their shards of weights, or "
           "`axes: {fully_sharded_data_parallel: " +
           axis + "}` if they gather them";
  }
  return "`axes:` in the rules, such as `axes: {batch: " + axis +
         "}` or `axes: {head: " + axis + "}`";
}

// `given` are the axis rules as the rules file has them, `rules` those of
// figures, and `gathered` axes of neither over which weights are gathered.
void FindUnknownAxes(const AxisRules& given, const AxisRules& rules,
                     const AxisGroup& gathered, CostInputs& work) {
  AxisGroup named = gathered;
  for (size_t i = 0; i < kAxisRuleCount; ++i) {
    const AxisGroup axes = rules.Value(static_cast<AxisRule>(i)).axes;
    named.insert(named.end(), axes.begin(), axes.end());
  }
  const AxisGroup found = AxesWithoutRule(std::move(named), work);
  if (found.empty()) return;
  const bool experts =
      std::ranges::any_of(work.params, [&](const ParamClass& param) {
        return param.role.expert && std::ssize(param.spec) > 2 &&
               IsAmong(found[0], param.spec.front());
      });
  SetUnknownAxes(
      found,
      LineForAxis(found[0], given.Given(AxisRule::kBatch).has_value(), experts),
      work);
}

// The same of a plan that does not state what its axes are for. Its axes of
// experts are taken for those of their rule (NoteExpertAxes()).
void FindUnknownAxesOfFile(const ReadPlan& plan, CostInputs& work) {
  AxisGroup named;
  for (const ReadActivation& one : plan.activations) {
    for (const AxisGroup& axes : one.spec) {
      named.insert(named.end(), axes.begin(), axes.end());
    }
  }
  for (const ParamClass& param : work.params) {
    if (!param.role.expert) continue;
    for (ptrdiff_t dim = 0; dim + 2 < std::ssize(param.spec); ++dim) {
      const AxisGroup& axes = param.spec[AsIndex(dim)];
      named.insert(named.end(), axes.begin(), axes.end());
    }
  }
  const AxisGroup found = AxesWithoutRule(std::move(named), work);
  if (found.empty()) return;
  SetUnknownAxes(
      found,
      "the mesh, rules and manifest in place of the plan, if `axes:` "
      "of the rules has " +
          GroupText(found),
      work);
}

// Marks the parameters that LoRA adapters leave as they are, as PEFT does.
void FreezeBesideAdapters(CostInputs& work) {
  if (work.mode != Mode::kTrain) return;
  const auto adapts = [](const ParamClass& param) {
    return IsAdapter(param.role.role);
  };
  if (std::none_of(work.params.begin(), work.params.end(), adapts)) return;
  for (ParamClass& param : work.params) param.frozen = !adapts(param);
}

// Adds the missing fact if a step trains a tree with weights of a dtype that no
// optimizer updates, such as those of a quantised checkpoint. Only adapters are
// trained next to such weights.
void NoteQuantisedTraining(CostInputs& work) {
  if (work.mode != Mode::kTrain) return;
  if (std::none_of(
          work.params.begin(), work.params.end(), [](const ParamClass& param) {
            return param.IsWeight() && !param.frozen && !IsTrained(param);
          })) {
    return;
  }
  work.not_known.push_back(
      {.what = "the weights that are trained, their gradients and their "
               "states: the tree is that of a quantised checkpoint",
       .settled_by = "--weights-dtype bfloat16"});
}

// Sets the layers that predict further tokens, and adds a note about them.
void AddNextTokenLayers(CostInputs& work) {
  if (work.mode != Mode::kTrain) return;
  const auto layers = NextTokenLayers(work.params, work.model);
  if (!layers) {
    work.not_known.push_back(
        {.what = "the layers that predict further tokens: "
                 "`num_nextn_predict_layers` is no number from 0 to 8",
         .settled_by = "`num_nextn_predict_layers` in config.json"});
  }
  work.next_token_layers = layers.value_or(0);
  if (work.next_token_layers == 0) return;
  work.next_token_params = NextTokenParams(work);
  work.notes.push_back(
      "`num_nextn_predict_layers` is " + CountText(work.next_token_layers) +
      ": a step has that many more layers with experts at the end of the "
      "model, and applies the head once more for each" +
      (work.LacksLayers() ? ""
                          : "; their parameters are those of such a layer"));
}

// Takes the facts about the parameters from `work`. `work.uses` is null without
// a `model:` section, and empty if it is invalid.
std::vector<ParamClass> ClassesOf(const Plan& plan, char separator,
                                  const CostInputs& work,
                                  const Representatives* representatives,
                                  const StackSlices* slices) {
  const std::vector<step::RoleUse>* const uses = work.uses.get();
  ClassBuilder folder;
  for (size_t i = 0; i < plan.params.size(); ++i) {
    const int64_t count =
        representatives == nullptr ? 1 : representatives->counts[i];
    if (count == 0) continue;
    const PlannedParam& param = plan.params[i];
    const ParamLayout& layout = plan.layouts[param.layout];
    const StackSlice* slice =
        slices != nullptr && (*slices)[i] ? &*(*slices)[i] : nullptr;
    bool fresh = false;
    ParamClass& one =
        folder.At({.group = work.parameters->group_of[i],
                   .layout = param.layout,
                   .layers = slice == nullptr ? 0 : slice->layers},
                  fresh);
    if (fresh) {
      Finish(one, work, i, plan.names[i], plan.types[layout.type],
             LayoutIn(layout, work.mode).spec, separator,
             uses == nullptr || uses->empty() ? nullptr : &(*uses)[i]);
      one.by_part = !layout.parts.empty();
      if (slice != nullptr) TakeSlice(*slice, one);
      if (param.IsPlaced() && layout.rule >= 0) {
        one.placed_along = PlacementAxis(plan, layout);
      }
    }
    one.count += count;
    const auto coordinate = plan.CoordinateOf(param);
    if (!coordinate || one.placed_along.empty()) continue;
    if (representatives == nullptr) {
      ++one.placed[*coordinate];
      continue;
    }
    const auto placed =
        representatives->placed[i].Along(plan.mesh.SizeOf(one.placed_along));
    for (const auto& [at, members] : placed) {
      one.placed[at] += members;
    }
  }
  return folder.Take();
}

}  // namespace

int64_t ParamClass::Matrices() const {
  if (!IsWeight()) return 0;
  int64_t out = count;
  for (int d = 0; d < Rank(); ++d) {
    if (d != in_dim && d != out_dim) {
      out = CheckedMul(out, SizeAt(d)).value_or(INT64_MAX);
    }
  }
  return out;
}

int64_t ParamClass::CountOnDevice() const {
  int64_t most = 0;
  for (const auto& [coordinate, tensors] : placed) {
    most = std::max(most, tensors);
  }
  return placed.empty() ? count : most;
}

int64_t ParamClass::SizeAt(int dim) const {
  return (*type.shape)[AsIndex(dim)];
}

const AxisGroup& ParamClass::AxesAt(int dim) const {
  return spec[AsIndex(dim)];
}

bool ParamClass::MayCountExperts(int dim) const {
  const int of_tensor = (IsWeight() ? 2 : 1) + (role.packed_blocks ? 1 : 0);
  return role.expert && !role.counted_expert &&
         dim + of_tensor < std::ssize(spec);
}

const ParamClass* CostInputs::Find(Role role, bool expert) const {
  for (const ParamClass& param : params) {
    const bool weight = param.IsWeight() || role == Role::kEmbedding;
    if (param.role.module_role == role && weight && param.type.shape &&
        param.role.expert == expert && param.stream == Stream::kModel) {
      return &param;
    }
  }
  return nullptr;
}

std::optional<int64_t> CostInputs::Hidden() const {
  if (model && model->hidden) return model->hidden;
  if (hidden_size) return hidden_size;
  const ParamClass* embedding = Find(Role::kEmbedding);
  if (embedding == nullptr || embedding->type.shape->size() != 2) {
    return std::nullopt;
  }
  return embedding->type.shape->back();
}

namespace {

std::shared_ptr<const std::vector<step::RoleUse>> UsesIn(
    const Compiled& compiled) {
  if (compiled.rules.model == nullptr || compiled.uses == nullptr) return {};
  const auto& uses = compiled.uses->Of(
      *compiled.rules.model, compiled.plan.names, compiled.manifest.separator);
  return {compiled.uses, &uses};
}

}  // namespace

CostInputs MakeCostInputs(const Compiled& compiled,
                          std::optional<ModelConfig> model, Mode mode,
                          const Representatives* representatives,
                          const StackSlices* slices) {
  const char separator = compiled.manifest.separator;
  CostInputs out = Empty(compiled.plan.mesh, std::move(model), mode);
  out.uses = UsesIn(compiled);
  out.family = compiled.family;
  out.parameters = {compiled.parameters, &compiled.Parameters()};
  out.strange = {compiled.parameters,
                 &compiled.parameters->Strange(compiled.manifest)};
  out.params =
      ClassesOf(compiled.plan, separator, out, representatives, slices);
  const FigureAxes& axes = compiled.Axes();
  const Resolver& resolver = FigureResolver(compiled);
  out.notes = axes.notes;
  for (const AttentionTensor& tensor : AttentionSpecs(resolver, mode, {})) {
    TakeSpec(out, tensor.name, tensor.resolved.spec);
  }
  if (compiled.rules.policy.kv_replicate.value_or(false)) {
    for (Spec* spec : {&out.key, &out.value}) {
      (*spec)[2] = AttentionKvAxes(compiled.rules, out.mesh, (*spec)[2]);
    }
    ReplicateStatedHeads(out);
  }
  DropUnevenHeads(compiled, out);
  if (compiled.rules.model != nullptr) {
    for (ParamClass& param : out.params) {
      param.by_part |= compiled.rules.model->IsFusedByPart();
    }
    // The mask is assumed to be causal if the model has the mode decode,
    // because only models with a causal mask are decoded.
    out.causal =
        step::HasMode(*compiled.rules.model, out.model ? &*out.model : nullptr,
                      Mode::kDecode);
  }
  for (const ModeActivations& one : compiled.plan.activations) {
    if (one.mode != mode || axes.completed) continue;
    for (const ActivationLayout& layout : one.tensors) {
      TakeActivation(out, layout.tensor, layout.spec, layout.IsStated());
    }
  }
  if (!out.hidden_known) {
    // The plan lacks the mode, or its specs lack axes whose purpose only their
    // names show.
    Findings none;  // Stays empty, because the plan's modes resolve.
    const auto specs = ActivationSpecs(resolver, mode, none);
    for (const ActivationSpec& one :
         specs.value_or(std::vector<ActivationSpec>{})) {
      TakeActivation(out, one.name, one.resolved.spec, one.stated);
    }
  }
  FindUnknownAxes(compiled.rules.axes, resolver.axes(), axes.gathered, out);
  NoteIdleAxes(compiled.stage_axis, out);
  if (compiled.manifest.dtype_assumed) out.notes.emplace_back(kDtypeAssumed);
  const std::vector<std::string>& notes = compiled.manifest.notes;
  out.before_quantisation = IsAmong(kBeforeQuantisation, notes);
  Refine(compiled.step_mesh, out);
  FindSides(out, separator);
  FreezeBesideAdapters(out);
  AddNextTokenLayers(out);
  for (const std::string& note : notes) {
    if (!note.starts_with(kQuantisedAs)) continue;
    out.notes.push_back(note);
  }
  NoteQuantisedTraining(out);
  return out;
}

CostInputs ChosenInputs(const Plan& plan, char separator,
                        const CostInputs& whole,
                        std::optional<ModelConfig> model,
                        const Representatives& chosen,
                        const StackSlices* slices) {
  CostInputs out = whole;
  out.hidden_size = whole.Hidden();
  out.model = std::move(model);
  out.params = ClassesOf(plan, separator, whole, &chosen, slices);
  for (ParamClass& param : out.params) {
    param.spec = RefinedSpec(out.mesh, param.spec);
  }
  FindSides(out, separator);
  ShareBlocksAs(whole, out);
  return out;
}

namespace {

// Returns the axes of a plan's file as figures take them. Nothing is completed
// if KV heads are replicated, because the file has only the factors of their
// axes.
FigureAxes FigureAxesOf(const ReadPlan& plan) {
  const auto has_factors = [](const Spec& spec) { return HasSubAxis(spec); };
  const bool replicated =
      std::ranges::any_of(plan.params, has_factors, &ReadParam::spec) ||
      std::ranges::any_of(plan.attention, has_factors, &ReadActivation::spec);
  if (!plan.axes || replicated) return {};
  RuleSet rules;
  rules.axes = plan.axes->rules;
  return FigureAxesOf(*plan.axes, rules, plan.mesh);
}

// Takes the specs of attention and of the other activations that follow from
// the axis rules.
void TakeCompleted(const Resolver& resolver, Mode mode, CostInputs& work) {
  for (const AttentionTensor& tensor : AttentionSpecs(resolver, mode, {})) {
    TakeSpec(work, tensor.name, tensor.resolved.spec);
  }
  Findings none;  // Stays empty, because the plan's modes resolve.
  for (const ActivationSpec& one :
       ActivationSpecs(resolver, mode, none)
           .value_or(std::vector<ActivationSpec>{})) {
    TakeActivation(work, one.name, one.resolved.spec, one.stated);
  }
}

}  // namespace

CostInputs MakeCostInputs(const ReadPlan& plan,
                          std::optional<ModelConfig> model, Mode mode) {
  CostInputs out = Empty(plan.mesh, std::move(model), mode);
  out.family = std::make_shared<const DescribedRoles>(plan.described);
  const char separator = SeparatorOf(plan);
  out.parameters = std::make_shared<const facts::ParameterTable>(
      ParametersOf(plan, separator, out.model ? &*out.model : nullptr));
  out.strange = std::make_shared<const std::vector<bool>>(
      StrangeGroupsOf(plan, *out.parameters, separator));
  ClassBuilder folder;
  std::unordered_map<std::string, uint32_t> layouts;
  for (size_t i = 0; i < plan.params.size(); ++i) {
    const ReadParam& param = plan.params[i];
    const Spec& spec = param.SpecOf(mode);
    const auto layout = layouts.try_emplace(
        SpecText(spec), static_cast<uint32_t>(layouts.size()));
    bool fresh = false;
    ParamClass& one = folder.At(
        {.group = out.parameters->group_of[i], .layout = layout.first->second},
        fresh);
    if (fresh) {
      Finish(one, out, i, param.name, param.type, spec, separator, nullptr);
      one.by_part = !param.parts.empty();
    }
    ++one.count;
    if (param.placement) {
      one.placed_along = param.placement->axis;
      ++one.placed[param.placement->coordinate];
    }
  }
  out.params = folder.Take();
  const FigureAxes axes = FigureAxesOf(plan);
  out.notes = axes.notes;
  if (axes.completed) {
    TakeCompleted(*axes.completed, mode, out);
  } else {
    for (const ReadActivation& one : plan.attention) {
      if (one.mode == mode) TakeSpec(out, one.tensor, one.spec);
    }
  }
  for (const ReadActivation& one : plan.activations) {
    if (one.mode != mode || (axes.completed && !one.stated)) continue;
    TakeActivation(out, one.tensor, one.spec, one.stated);
  }
  std::vector<Spec> specs = {out.key, out.value};
  for (const ParamClass& param : out.params) specs.push_back(param.spec);
  if (std::any_of(specs.begin(), specs.end(),
                  [](const Spec& spec) { return HasSubAxis(spec); })) {
    ReplicateStatedHeads(out);
    specs.insert(specs.end(), {out.key, out.value});
    if (const auto mesh = RefinedMesh(out.mesh, specs)) Refine(*mesh, out);
  }
  // DropUnevenHeadsOfFile() removes axes of attention that do not divide the
  // heads. What such axes shard is known, so they are looked for first.
  if (plan.axes) {
    const AxisRules& given = plan.axes->rules;
    FindUnknownAxes(given, axes.completed ? axes.completed->axes() : given,
                    axes.gathered, out);
  } else {
    FindUnknownAxesOfFile(plan, out);
  }
  NoteIdleAxes(plan.stages ? plan.stages->axis : "", out);
  DropUnevenHeadsOfFile(out);
  FindSides(out, separator);
  NoteExpertAxes(out);
  FreezeBesideAdapters(out);
  AddNextTokenLayers(out);
  NoteQuantisedTraining(out);
  return out;
}

}  // namespace shardc::cost
