// Groups parameters into the modules that own them. Modules whose names differ
// only in numbers become one module. Its name has `*` for each number, as in
// transformers' plans. For example:
//
//   model.layers.0.mlp.up_proj.weight, .bias, model.layers.1.mlp.up_proj.weight
//     -> `model.layers.*.mlp.up_proj` with the tensors `weight` and `bias`
#include "emit/exports/hf_modules.h"

#include <algorithm>
#include <array>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "emit/exports/exporter.h"
#include "facts/parameters.h"
#include "model/name.h"
#include "plan/read.h"
#include "source/list.h"
#include "source/size.h"
#include "source/wording.h"

namespace shardc::exports {
namespace {

// Converts names of files to names of modules. From version 5 on, modules of
// transformers have other names than the tensors in the files that it reads and
// writes, and the weights of all experts of a layer are one parameter. For
// example:
//
//   model.layers.0.block_sparse_moe.experts.3.w1.weight [inner, width]
//     -> model.layers.*.mlp.experts.gate_up_proj [experts, 2 * inner, width]
//
// A tensor of a name that is not in a table here has its name in the model too.
// If that is wrong, transformers refuses the plan, because it has a key that
// matches no module.

// The parameter that transformers makes of a tensor.
struct HfName {
  // The name, with `*` for numbers.
  std::string name;
  // Whether the tensor is that of one expert, and the parameter has those of
  // all experts: it has a dimension more, the first.
  bool stacked = false;
  // The number of tensors that the parameter has one after the other in the
  // first dimension of a tensor: 2 for a gate and a projection up.
  int64_t packed = 1;
  // Whether the tensor is a buffer of its module in most models. A plan with
  // its name is refused then.
  bool buffer = false;
};

class HfNames {
 public:
  // `converts` is false for versions of transformers whose modules have the
  // names of the files.
  HfNames(const ReadPlan& plan, bool converts);

  // Returns the parameter of a tensor. In `generic`, its name, `*` replaces
  // numbers.
  HfName Of(std::string_view generic) const;

 private:
  struct Renaming {
    std::string_view from, to;
    // The renaming applies if some name of the plan contains this text.
    std::string_view sign;
  };
  static const Renaming kRenamings[];

  std::vector<const Renaming*> renamings_;
  bool converts_;
};

// The last parts of names of tensors that are buffers of modules.
constexpr std::array<std::string_view, 9> kBuffers = {"e_score_correction_bias",
                                                      "expert_bias",
                                                      "layer_scalar",
                                                      "inv_freq",
                                                      "masked_bias",
                                                      "slope_rate",
                                                      "query_decay",
                                                      "key_decay",
                                                      "diagonal_decay"};

// The part of a stacked parameter that a tensor of one expert is.
struct ExpertPart {
  std::string_view module;
  std::string_view name;
  int64_t packed;
};
constexpr std::array<ExpertPart, 6> kExpertParts = {
    {{"gate_proj", "gate_up_proj", 2},
     {"up_proj", "gate_up_proj", 2},
     {"down_proj", "down_proj", 1},
     {"w1", "gate_up_proj", 2},
     {"w3", "gate_up_proj", 2},
     {"w2", "down_proj", 1}}};

// Returns the parameter of all experts of which the tensor of an expert, such
// as `mlp.experts.*.up_proj.weight`, is a part. Returns nullopt for other
// tensors.
std::optional<HfName> OfAllExperts(std::string_view name) {
  constexpr std::string_view kLeaf = ".weight";
  constexpr std::string_view kExperts = "experts.*.";
  if (!name.ends_with(kLeaf)) return std::nullopt;
  const std::string_view module = name.substr(0, name.size() - kLeaf.size());
  const std::string_view part = AfterLast(module, '.');
  const std::string_view before = module.substr(0, module.size() - part.size());
  if (!before.ends_with(kExperts)) return std::nullopt;
  const size_t start = before.size() - kExperts.size();
  if (start > 0 && before[start - 1] != '.') return std::nullopt;
  for (const ExpertPart& one : kExpertParts) {
    if (one.module != part) continue;
    return HfName{std::string(before.substr(0, before.size() - 2)) +
                      std::string(one.name),
                  true, one.packed};
  }
  return std::nullopt;
}

// The first renaming whose `from` occurs in a name is applied. Texts that begin
// without a dot are compared with the start of the name.
const HfNames::Renaming HfNames::kRenamings[] = {
    {"embed_out.", "lm_head.", "gpt_neox."},
    // PhiMoE, whose norms have a bias.
    {".block_sparse_moe.gate.", ".mlp.router.", "model.norm.bias"},
    // Mixtral and MiniMax.
    {".block_sparse_moe.", ".mlp.", ".block_sparse_moe.experts.*.w1."},
    // The models of Granite, whose files have the stacked weights.
    {".block_sparse_moe.input_linear.weight",
     ".block_sparse_moe.experts.gate_up_proj",
     ".block_sparse_moe.input_linear."},
    {".block_sparse_moe.output_linear.weight",
     ".block_sparse_moe.experts.down_proj", ".block_sparse_moe.input_linear."},
    {".block_sparse_moe.router.layer.weight", ".block_sparse_moe.router.weight",
     ".block_sparse_moe.input_linear."},
};

HfNames::HfNames(const ReadPlan& plan, bool converts) : converts_(converts) {
  if (!converts) return;
  std::vector<std::string> names;
  for (const ReadParam& param : plan.params) {
    names.push_back(NameTemplate(param.name, '.', TemplateNumbers::kParts));
  }
  for (const Renaming& one : kRenamings) {
    const bool applies =
        std::any_of(names.begin(), names.end(), [&](const std::string& name) {
          return name.find(one.sign) != std::string::npos;
        });
    if (applies) renamings_.push_back(&one);
  }
}

HfName HfNames::Of(std::string_view generic) const {
  if (!converts_) return {std::string(generic)};
  std::string name(generic);
  for (const Renaming* one : renamings_) {
    const size_t at = name.find(one->from);
    if (at == std::string::npos || (!one->from.starts_with('.') && at > 0)) {
      continue;
    }
    name.replace(at, one->from.size(), one->to);
    break;
  }
  if (auto expert = OfAllExperts(name)) return std::move(*expert);
  const std::string_view last = AfterLast(generic, '.');
  const bool buffer = IsAmong(last, kBuffers);
  return {std::move(name), false, 1, buffer};
}

}  // namespace

const AxisSharding* HfTensor::Same() const {
  return shardings.size() == 1 ? &*shardings.begin() : nullptr;
}

std::string HfTensor::FixedBy() const {
  const AxisSharding* const same = Same();
  const bool known =
      same != nullptr && same->split() && AsIndex(same->dim) < fixed.size();
  return known ? fixed[AsIndex(same->dim)] : "";
}

bool HfTensor::AnySplit() const {
  return std::any_of(shardings.begin(), shardings.end(),
                     [](const AxisSharding& sharding) {
                       return sharding.split() || sharding.placed;
                     });
}

bool HfTensor::AllVectors() const {
  return !shapes.empty() &&
         std::all_of(shapes.begin(), shapes.end(),
                     [](const Shape& shape) { return shape.size() == 1; });
}

bool HfTensor::AllScalars() const {
  return !shapes.empty() &&
         std::all_of(shapes.begin(), shapes.end(), [](const Shape& shape) {
           return std::all_of(shape.begin(), shape.end(),
                              [](int64_t size) { return size == 1; });
         });
}

const HfTensor* HfModule::Find(std::string_view leaf) const {
  const auto found = tensors.find(leaf);
  return found == tensors.end() ? nullptr : &found->second;
}

bool HfModule::AnySplit() const {
  return std::any_of(tensors.begin(), tensors.end(), [](const auto& tensor) {
    return tensor.second.AnySplit();
  });
}

namespace {

AxisSharding ShardingOf(const Request& request, const std::string& axis,
                        const ReadParam& param) {
  AxisSharding out;
  const Spec& spec = param.SpecOf(request.options.mode);
  if (const auto split = SplitBy(request.plan.mesh, axis, spec)) {
    out.dim = split->dim;
    out.stride = split->stride;
    // StateParts refuses parts whose sizes are stated.
    out.parts = PartsAt(param.parts, AsIndex(split->dim)).count;
  }
  out.placed = param.placement.has_value();
  const auto& shape = param.type.shape;
  out.rank = static_cast<int64_t>(shape ? shape->size()
                                        : std::max<size_t>(spec.size(), 1));
  return out;
}

// Changes the sharding of a tensor of one expert to that of the parameter that
// has the tensors of all experts.
void Stack(const HfName& name, const std::string& axis, const ReadParam& param,
           AxisSharding& sharding) {
  ++sharding.rank;
  if (sharding.split()) {
    if (sharding.dim == 0) sharding.parts *= name.packed;
    ++sharding.dim;
  } else if (param.placement && param.placement->axis == axis) {
    sharding.dim = 0;
    sharding.placed = false;
  }
}

}  // namespace

HfModules ModulesOf(const Request& request, const std::string& axis,
                    bool converts) {
  HfModules out;
  const HfNames names(request.plan, converts);
  for (const ReadParam& param : request.plan.params) {
    const HfName name =
        names.Of(NameTemplate(param.name, '.', TemplateNumbers::kParts));
    const std::string module(ParentOf(name.name));
    if (name.buffer && HoldsExperts(module)) continue;
    const auto [at, fresh] = out.of.try_emplace(module);
    if (fresh) {
      out.order.push_back(module);
      at->second.place = param.place;
    }
    AxisSharding sharding = ShardingOf(request, axis, param);
    if (request.program != nullptr) {
      const auto why = request.program->reads.replicated.find(param.name);
      if (why != request.program->reads.replicated.end() && sharding.split()) {
        sharding.dim = -1;
        sharding.parts = 1;
        at->second.unsharded = why->second;
      }
      const auto role = request.program->roles.find(param.name);
      if (role != request.program->roles.end()) {
        at->second.role = role->second;
      }
      at->second.table =
          at->second.table || request.program->tables.contains(param.name);
      const auto no = request.program->unsharded.find(param.name);
      if (no != request.program->unsharded.end() &&
          at->second.unsharded.empty()) {
        at->second.unsharded = no->second;
      }
    }
    if (name.stacked) Stack(name, axis, param, sharding);
    HfTensor& tensor =
        at->second.tensors[std::string(AfterLast(name.name, '.'))];
    tensor.shardings.insert(sharding);
    tensor.buffer = name.buffer;
    if (request.program != nullptr && !name.stacked) {
      const auto fixed = request.program->fixed.find(param.name);
      if (fixed != request.program->fixed.end()) tensor.fixed = fixed->second;
    }
    if (!param.type.shape) continue;
    Shape shape = *param.type.shape;
    if (name.stacked) {
      // The number of experts is not counted: no style depends on it.
      if (!shape.empty()) shape[0] *= name.packed;
      shape.insert(shape.begin(), 1);
    }
    tensor.shapes.insert(std::move(shape));
  }
  return out;
}

std::string_view ParentOf(std::string_view name) {
  const size_t dot = name.rfind('.');
  return dot == std::string_view::npos ? std::string_view()
                                       : name.substr(0, dot);
}

Role RoleOfModule(const std::string& name) {
  return facts::RoleOfModule(name, '.').module_role;
}

bool HasChildren(const HfModules& modules, std::string_view name) {
  const std::string inside = std::string(name) + ".";
  const auto next = modules.of.lower_bound(inside);
  return next != modules.of.end() && next->first.starts_with(inside);
}

bool HoldsExperts(std::string_view name) {
  return AfterLast(name, '.') == "experts";
}

// Finds the local blocks of a model: the blocks in which the outputs of
// projections may stay sharded. A column-wise projection may leave its output
// sharded only if the computation after it, up to a row-wise projection, works
// on each part separately. The plan does not contain that computation. A block
// is therefore local only if its modules have one of the forms for which
// transformers is known to compute in that way:
//
//   mlp        gate, up -> element by element -> down
//   mlp        gate_up in two parts -> element by element -> down
//   self_attn  q, k, v -> norms of each head, attention by heads -> o
//   self_attn  q or q_b, kv_b -> attention by heads -> o   (latent attention)
//   attention  query_key_value -> attention by heads -> dense  (GPT-NeoX)
//
// For example:
//
//   mlp.up_proj ["tp"], mlp.down_proj [null, "tp"]     -> both local
//   mlp.gate_up_proj ["tp"] in parts [2]               -> local, packed
//   mlp.gate_up_proj ["tp"], sharded as one part       -> not local
//   self_attn.q_norm of all heads, as of OLMo 2        -> not local
//
// In a block that is not local, outputs are gathered and inputs are split
// again. The result is then correct for any computation in between, but slower.

namespace {

// Models whose attention has the parameters of a form below, but whose code
// views the outputs of the projections as those of all heads of the
// configuration
// (`view(..., self.num_heads, self.head_dim)`). The outputs are gathered.
constexpr std::array<std::string_view, 7> kOfAllHeads = {
    "blt",       "chameleon",       "idefics", "mllama",
    "persimmon", "recurrent_gemma", "stablelm"};

// The number of matrices that a fused gate and up projection holds.
constexpr int64_t kGateAndUp = 2;

struct Child {
  std::string name;
  Role role = Role::kOther;
  const HfModule* module = nullptr;
};

bool SplitsWeight(const HfModule& module, int64_t dim, int64_t parts = 1) {
  const HfTensor* const weight = module.Find("weight");
  const AxisSharding* const same = weight ? weight->Same() : nullptr;
  if (same == nullptr || same->rank != 2 || same->dim != dim ||
      same->stride != 1 || same->parts != parts || !weight->FixedBy().empty()) {
    return false;
  }
  return std::all_of(
      module.tensors.begin(), module.tensors.end(), [&](const auto& tensor) {
        if (tensor.first == "weight") return true;
        return tensor.first == "bias" && tensor.second.Same() != nullptr &&
               tensor.second.Same()->parts == 1 &&
               tensor.second.Same()->split() == (dim == 0);
      });
}

// Returns whether `norm` has only an unsharded scale vector, and each device
// has complete heads of `projection`. The length of the scale is the length of
// a head.
bool NormsEachHead(const Child& norm, const Child& projection,
                   int64_t devices) {
  const HfTensor* const scale = norm.module->Find("weight");
  const HfTensor* const weight = projection.module->Find("weight");
  if (scale == nullptr || norm.module->tensors.size() != 1 ||
      scale->AnySplit() || !scale->AllVectors() || weight->shapes.empty()) {
    return false;
  }
  for (const Shape& of_norm : scale->shapes) {
    for (const Shape& rows : weight->shapes) {
      if (of_norm[0] == 0 || rows[0] % (of_norm[0] * devices) != 0) {
        return false;
      }
    }
  }
  return true;
}

class Block {
 public:
  Block(std::string name, const HfModule* owner, std::vector<Child> children,
        int64_t devices)
      : name_(std::move(name)),
        owner_(owner),
        children_(std::move(children)),
        devices_(devices) {}

  // `heads` is false if attention is computed with all heads.
  void AddTo(bool heads, LocalBlocks& out) const {
    for (const auto form :
         {&Block::Mlp, &Block::Heads, &Block::Latent, &Block::FusedHeads}) {
      if (!heads && form != &Block::Mlp) break;
      LocalBlocks found;
      if (!(this->*form)(found)) continue;
      out.projections.merge(found.projections);
      out.packed.merge(found.packed);
      out.hooks.merge(found.hooks);
      return;
    }
  }

 private:
  const Child* Only(Role role) const {
    const Child* found = nullptr;
    for (const Child& child : children_) {
      if (child.role != role) continue;
      if (found != nullptr) return nullptr;
      found = &child;
    }
    return found;
  }

  const Child* Named(std::string_view part) const {
    for (const Child& child : children_) {
      if (AfterLast(child.name, '.') == part) return &child;
    }
    return nullptr;
  }

  static bool Take(const Child* child, int64_t dim, LocalBlocks& found) {
    if (child == nullptr || !SplitsWeight(*child->module, dim)) return false;
    found.projections.insert(child->name);
    return true;
  }

  bool Mlp(LocalBlocks& found) const {
    if (owner_ != nullptr) return false;
    if (!Take(Only(Role::kDown), 1, found)) return false;
    bool up = false;
    for (const Child& child : children_) {
      switch (child.role) {
        case Role::kUp:
        case Role::kGate:
          if (!Take(&child, 0, found)) return false;
          up = true;
          break;
        case Role::kFusedGateUp:
          // transformers shards the bias of a packed layer as one part.
          if (child.module->Find("bias") != nullptr ||
              !SplitsWeight(*child.module, 0, kGateAndUp)) {
            return false;
          }
          found.packed.insert(child.name);
          up = true;
          break;
        case Role::kDown:
        // One name stands for this block in all layers. In some of these
        // layers, the block may have experts and a router instead of one MLP,
        // so a router is accepted here.
        case Role::kRouter:
          break;
        default:
          // Any other module is allowed only if it holds experts or if all its
          // tensors are scalars, such as the parameters of activation
          // functions.
          if (HoldsExperts(child.name)) break;
          for (const auto& [leaf, tensor] : child.module->tensors) {
            if (!tensor.AllScalars()) return false;
          }
          found.hooks[child.name] = "replicated_with_grad_allreduce";
      }
    }
    return up;
  }

  bool Heads(LocalBlocks& found) const {
    const Child* const query = Named("q_proj");
    const Child* const key = Named("k_proj");
    const Child* const value = Named("v_proj");
    if (!Take(query, 0, found) || !Take(key, 0, found) ||
        !Take(value, 0, found)) {
      return false;
    }
    for (const Child& child : children_) {
      const std::string_view part = AfterLast(child.name, '.');
      if (&child == query || &child == key || &child == value) continue;
      if (part == "o_proj" || part == "dense") {
        if (!Take(&child, 1, found)) return false;
        continue;
      }
      const Child* const normed = part == "q_norm"   ? query
                                  : part == "k_norm" ? key
                                  : part == "v_norm" ? value
                                                     : nullptr;
      if (normed == nullptr || !NormsEachHead(child, *normed, devices_)) {
        return false;
      }
      found.hooks[child.name] = "replicated_with_grad_allreduce";
    }
    return found.projections.size() == 4 && Sinks(found);
  }

  // Returns whether the block has no parameters outside of its modules, except
  // attention sinks. There is one sink for each head, and the tensor parallel
  // axis must shard the sinks.
  bool Sinks(LocalBlocks& found) const {
    if (owner_ == nullptr) return true;
    const HfTensor* const sinks = owner_->Find("sinks");
    if (sinks == nullptr || owner_->tensors.size() != 1) return false;
    const AxisSharding* const same = sinks->Same();
    if (same == nullptr || same->rank != 1 || !same->split() ||
        same->parts > 1) {
      return false;
    }
    found.hooks[name_ + ".sinks"] = "colwise";
    found.hooks[name_] = "local_params";
    return true;
  }

  bool Latent(LocalBlocks& found) const {
    const bool two_steps = Named("q_a_proj") != nullptr;
    if (owner_ != nullptr || two_steps == (Named("q_proj") != nullptr)) {
      return false;
    }
    for (const Child& child : children_) {
      const std::string_view part = AfterLast(child.name, '.');
      if (part == "q_proj" || part == "q_b_proj" || part == "kv_b_proj") {
        if (!Take(&child, 0, found)) return false;
      } else if (part == "o_proj") {
        if (!Take(&child, 1, found)) return false;
      } else if (part == "kv_a_proj_with_mqa") {
        if (child.module->AnySplit()) return false;
        found.hooks[child.name] = "mla_kv_a_proj";
      } else if (part != "q_a_proj" && part != "q_a_layernorm" &&
                 part != "kv_a_layernorm") {
        return false;
      }
    }
    return found.projections.size() == 3 && found.hooks.size() == 1;
  }

  // Returns whether the block has the form of GPT-NeoX, where the query, key
  // and value of each head are consecutive rows of one weight.
  bool FusedHeads(LocalBlocks& found) const {
    return owner_ == nullptr && children_.size() == 2 &&
           AfterLast(name_, '.') == "attention" &&
           Take(Named("query_key_value"), 0, found) &&
           Take(Named("dense"), 1, found);
  }

  std::string name_;
  // The parameters that are in the block but in none of its modules, such as
  // `self_attn.sinks`; null if there are none.
  const HfModule* owner_;
  std::vector<Child> children_;
  int64_t devices_;
};

}  // namespace

LocalBlocks LocalBlocksOf(const HfModules& modules, int64_t devices,
                          std::string_view model_type) {
  const bool heads = !IsAmong(model_type, kOfAllHeads);
  std::map<std::string, std::vector<Child>, std::less<>> children;
  for (const auto& [name, module] : modules.of) {
    const Role role = RoleOfModule(name);
    children[std::string(ParentOf(name))].push_back(
        {name, role == Role::kOther && !HoldsExperts(name) ? module.role : role,
         &module});
  }
  LocalBlocks out;
  for (auto& [name, of_block] : children) {
    const auto owner = modules.of.find(name);
    Block(name, owner == modules.of.end() ? nullptr : &owner->second,
          std::move(of_block), devices)
        .AddTo(heads, out);
  }
  return out;
}

// Chooses the styles of experts for transformers. A style is the name of the
// way in which transformers shards a module or tensor. If all tensors are
// sharded over the experts, each tensor has the style `grouped_gemm`.
//
// Otherwise each device computes its part of every expert's inner width, and
// the module's hook `moe_tp_experts` sums the results of all devices. The sum
// is correct only if all projections are sharded over the inner width. Which
// dimension this is depends on the orientation of the tensors. For example:
//
//   gate_up_proj [experts, 2 * inner, width], down_proj [experts, width, inner]
//     -> "packed_colwise", "rowwise"
//   gate_up_proj [experts, width, 2 * inner], down_proj [experts, inner, width]
//     -> "packed_rowwise", "colwise"

namespace {

constexpr std::string_view kUneven =
    "its projections are not sharded over one inner width";

// Returns the style of a projection of experts that is sharded along dimension
// `dim`. The tensors are [experts, inner, width] or [experts, width, inner].
// `down_dim` is the dimension of the inner width in `down_proj`: 1 or 2. In all
// other projections, the inner width is the other of these two dimensions. If
// such a projection is sharded along another dimension, returns an empty text.
std::string StyleOf(std::string_view leaf, int64_t dim, int64_t down_dim) {
  if (leaf == "down_proj") return dim == 2 ? "rowwise" : "colwise";
  if (dim + down_dim != 3) return "";
  const bool packed = leaf == "gate_up_proj";
  return std::string(packed ? "packed_" : "") +
         (dim == 2 ? "rowwise" : "colwise");
}

// Returns whether two projections of experts have the same inner width and the
// same width. `up_dim` is the dimension of the inner width in `up`, and
// `down_dim` is that in `down`. `parts` is the number of projections that `up`
// holds. For example, `up` [experts, 2 * inner, width] has 2 parts and `up_dim`
// 1, and `down` [experts, width, inner] has `down_dim` 2. Returns true if a
// shape is unknown or differs between layers.
bool SameWidth(const HfTensor& up, int64_t up_dim, int64_t parts,
               const HfTensor& down, int64_t down_dim) {
  if (up.shapes.size() != 1 || down.shapes.size() != 1) return true;
  const Shape& in = *up.shapes.begin();
  const Shape& out = *down.shapes.begin();
  const auto at = [](const Shape& shape, int64_t dim) {
    return shape[AsIndex(dim)];
  };
  return at(in, up_dim) == parts * at(out, down_dim) &&
         at(in, 3 - up_dim) == at(out, 3 - down_dim);
}

ExpertStyles Because(std::string reason) {
  ExpertStyles out;
  out.reason = std::move(reason);
  return out;
}

}  // namespace

bool HasIdentityExperts(const HfModule& experts) {
  const HfTensor* const up = experts.Find("gate_up_proj");
  const HfTensor* const down = experts.Find("down_proj");
  if (up == nullptr || down == nullptr || up->shapes.size() != 1 ||
      down->shapes.size() != 1) {
    return false;
  }
  const Shape& in = *up->shapes.begin();
  const Shape& out = *down->shapes.begin();
  return in.size() == 3 && out.size() == 3 && in[0] > out[0];
}

ExpertStyles StylesOfExperts(const HfModule& experts, bool packed,
                             bool parts_known) {
  ExpertStyles out;
  bool all_first = true;
  for (const auto& [leaf, tensor] : experts.tensors) {
    const AxisSharding* const same = tensor.Same();
    if (same == nullptr) {
      return Because("layers have different shardings of " + ShortQuote(leaf));
    }
    if (same->placed) {
      return Because("its tensors are placed at one coordinate of an axis");
    }
    if (same->stride > 1) {
      return Because("other axes shard a dimension before the exported axis");
    }
    // A `gate_up_proj` that the plan shards as one part is packed as well,
    // because the computation needs a part of both matrices.
    const int64_t most = leaf == "gate_up_proj" && same->dim > 0 ? 2 : 1;
    if (same->parts > most) {
      return Because("the plan divides each of " +
                     Counted(same->parts, "part") + " of " + ShortQuote(leaf));
    }
    all_first = all_first && same->dim == 0;
    out.leaves[leaf] = "grouped_gemm";
  }
  if (all_first) {
    out.module = "ep_dispatch_experts";
    out.by_expert = true;
    return out;
  }
  const HfTensor* const down = experts.Find("down_proj");
  if (down == nullptr) return Because("it has no `down_proj`");
  const int64_t down_dim = down->Same()->dim;
  if (down->Same()->rank != 3 || down_dim < 1) {
    return Because(std::string(kUneven));
  }
  for (auto& [leaf, style] : out.leaves) {
    const HfTensor& tensor = *experts.Find(leaf);
    if (tensor.Same()->rank != 3) {
      return Because("each device would add all of " + ShortQuote(leaf));
    }
    if (const std::string line = tensor.FixedBy(); !line.empty()) {
      return Because("the code gives the size of a part of " +
                     ShortQuote(leaf) + " as a number at " + line);
    }
    style = StyleOf(leaf, tensor.Same()->dim, down_dim);
    const int64_t parts = leaf == "gate_up_proj" ? 2 : 1;
    if (parts_known && parts != tensor.Same()->parts) {
      return Because(
          "the program does not store gate and up one after the "
          "other in " +
          ShortQuote(leaf));
    }
    if (style.empty() || tensor.Same()->dim < 1 ||
        (leaf != "down_proj" &&
         !SameWidth(tensor, tensor.Same()->dim, parts, *down, down_dim))) {
      return Because(std::string(kUneven));
    }
    if (!packed && style.starts_with("packed_")) {
      return Because(
          "it packs two projections, which this version of "
          "transformers cannot shard");
    }
  }
  out.module = "moe_tp_experts";
  return out;
}

}  // namespace shardc::exports
