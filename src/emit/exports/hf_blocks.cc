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
#include "emit/exports/hf_blocks.h"

#include <algorithm>
#include <array>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "source/after_last.h"

namespace shardc::exports {
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
      same->stride != 1 || same->parts != parts) {
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
  const bool heads = std::find(kOfAllHeads.begin(), kOfAllHeads.end(),
                               model_type) == kOfAllHeads.end();
  std::map<std::string, std::vector<Child>, std::less<>> children;
  for (const auto& [name, module] : modules.of) {
    children[std::string(ParentOf(name))].push_back(
        {name, RoleOfModule(name), &module});
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

}  // namespace shardc::exports
