// Finds roles by the factors of a description. The matrices of a layer that
// read the stream, and those that write it, form blocks:
//
//   [kv_heads x group x head_dim, stream], [kv_heads x head_dim, stream] twice,
//   [stream, kv_heads x group x head_dim]   ->  query, key, value and output
//   [inner, stream] twice, [stream, inner]  ->  gate, up and down
//
// A layer with other numbers of such matrices, or with a convolution, a latent
// or a vector of heads, may have a mixer or latent attention, whose matrices
// have no role here.
#include "roles/described.h"

#include <algorithm>
#include <array>
#include <set>
#include <string>
#include <string_view>
#include <utility>

#include "source/size.h"
#include "source/utf8.h"

namespace shardc {
namespace {

using program::Factor;
using program::FactorList;
using program::FactorRole;
using program::Facts;
using program::ParamFacts;
using enum FactorRole;

// What a matrix reads and writes, as far as a role shows it.
enum class Side : uint8_t {
  kElsewhere,
  kTable,
  kLogits,
  kIntoHeads,
  kOutOfHeads,
  kIntoInner,
  kOutOfInner,
  kChoosing
};

Side SideOf(Role role) {
  switch (role) {
    case Role::kEmbedding:
      return Side::kTable;
    case Role::kHead:
      return Side::kLogits;
    case Role::kQuery:
    case Role::kKey:
    case Role::kValue:
    case Role::kFusedKeyValue:
    case Role::kFusedQkv:
      return Side::kIntoHeads;
    case Role::kOutput:
      return Side::kOutOfHeads;
    case Role::kGate:
    case Role::kUp:
    case Role::kFusedGateUp:
      return Side::kIntoInner;
    case Role::kDown:
      return Side::kOutOfInner;
    case Role::kRouter:
      return Side::kChoosing;
    default:
      return Side::kElsewhere;
  }
}

// Returns the beginning of a name up to its last part that is a number: the
// layer, or the expert of a layer.
std::string_view InnermostLayer(std::string_view name) {
  const auto last = [&](std::string_view text) {
    const size_t at = text.find_last_of("./");
    return at == text.npos ? size_t{0} : at + 1;
  };
  for (size_t end = name.size(); end > 0;) {
    const size_t begin = last(name.substr(0, end));
    const std::string_view part = name.substr(begin, end - begin);
    if (part.find_first_not_of("0123456789") == part.npos) {
      return name.substr(0, end);
    }
    end = begin == 0 ? 0 : begin - 1;
  }
  return {};
}

// Returns the role of a vector by the last part of its name, which a module of
// a description gives: a bias, or the scale of a norm of the stream.
Role RoleOfVector(std::string_view name, bool of_stream) {
  const size_t at = name.find_last_of("./");
  const Leaf leaf = LeafOfWord(at == name.npos ? name : name.substr(at + 1));
  if (leaf == Leaf::kBias) return Role::kBias;
  const bool scales =
      leaf == Leaf::kWeight || leaf == Leaf::kKernel || leaf == Leaf::kScale;
  return of_stream && scales ? Role::kNorm : Role::kOther;
}

// The roles of the factors of some dimensions, with those of their parts.
struct Seen {
  uint32_t roles = 0;             // a bit for each role
  std::vector<uint32_t> factors;  // sorted
  bool fused = false;             // whether a factor is a sum of parts

  bool Has(FactorRole role) const {
    return (roles >> static_cast<unsigned>(role) & 1U) != 0;
  }
  bool HasFactor(uint32_t factor) const {
    return std::ranges::binary_search(factors, factor);
  }
  bool HasHeads() const {
    return Has(kHeads) || Has(kKvHeads) || Has(kStateGroups);
  }
};

void See(const Facts& facts, const FactorList& dim, Seen& out) {
  for (const uint32_t index : dim) {
    const Factor& factor = facts.factors[index];
    out.roles |= 1U << static_cast<unsigned>(factor.role);
    const auto at = std::ranges::lower_bound(out.factors, index);
    if (at == out.factors.end() || *at != index) out.factors.insert(at, index);
    out.fused = out.fused || !factor.parts.empty();
    for (const FactorList& part : factor.parts) See(facts, part, out);
  }
}

// What all dimensions of a parameter show.
struct SeenParam {
  Seen all;
  size_t rank = 0;    // the number of dimensions of more than one element
  bool known = true;  // whether each of them has factors
};

SeenParam SeeParam(const Facts& facts, const ParamFacts& param) {
  SeenParam out;
  for (size_t d = 0; d < param.dims.size(); ++d) {
    See(facts, param.dims[d], out.all);
    out.rank += param.shape[d] > 1 ? 1 : 0;
    out.known = out.known && (param.shape[d] == 1 || !param.dims[d].empty());
  }
  return out;
}

// Returns whether a parameter shows that its layer may have a mixer or latent
// attention: a convolution, a latent, or a vector with a number for each head.
bool MayMix(const Seen& seen, size_t rank) {
  return seen.Has(kWindow) || seen.Has(kLatent) ||
         (rank < 2 && seen.HasHeads() && !seen.Has(kHeadDim)) ||
         (rank > 2 && !seen.Has(kExperts));
}

// A matrix of a layer: what it contracts and what it has besides.
struct LayerMatrix {
  const ParamFacts* param = nullptr;
  Seen in, out;
};

struct Layer {
  std::vector<LayerMatrix> into_heads, out_of_heads, into_inner, out_of_inner;
  // The tensors of all experts, of which it is not stated what they contract.
  std::vector<LayerMatrix> stacked;
  bool may_mix = false;
};

}  // namespace

DescribedRoles::DescribedRoles(std::shared_ptr<const program::Facts> facts)
    : facts_(std::move(facts)) {
  if (facts_ == nullptr) return;
  for (uint32_t i = 0; i < facts_->params.size(); ++i) {
    by_name_.emplace(facts_->params[i].name, i);
  }
  FindRoles();
}

void DescribedRoles::FindRoles() {
  const Facts& facts = *facts_;
  roles_.resize(facts.params.size());
  shared_.resize(facts.params.size());
  const auto role_of = [&](const ParamFacts& param) -> Role& {
    return roles_[AsIndex(&param - facts.params.data())];
  };
  std::unordered_map<std::string_view, Layer> layers;
  for (const ParamFacts& param : facts.params) {
    const SeenParam seen = SeeParam(facts, param);
    const Seen& all = seen.all;
    Layer& layer = layers[InnermostLayer(param.name)];
    layer.may_mix = layer.may_mix || MayMix(all, seen.rank);
    if (!seen.known) continue;
    if (seen.rank < 2) {
      if (param.dims.size() == 1) {
        role_of(param) = RoleOfVector(param.name, all.Has(kStream));
      }
      continue;
    }
    if (all.Has(kVocab) && all.Has(kStream)) {
      role_of(param) = param.looked_up ? Role::kEmbedding : Role::kHead;
      continue;
    }
    if (!all.Has(kStream) || param.looked_up || all.Has(kVocab)) continue;
    LayerMatrix matrix{.param = &param, .in = {}, .out = {}};
    See(facts, param.contracted, matrix.in);
    for (const FactorList& dim : param.dims) {
      Seen one;
      See(facts, dim, one);
      if (one.factors != matrix.in.factors) See(facts, dim, matrix.out);
    }
    const bool reads = matrix.in.Has(kStream);
    const Seen& other = reads ? matrix.out : matrix.in;
    if (param.contracted.empty()) {
      if (all.Has(kExperts) && all.Has(kInner)) {
        layer.stacked.push_back(std::move(matrix));
      }
    } else if (other.Has(kExperts)) {
      if (reads) role_of(param) = Role::kRouter;
    } else if (other.HasHeads() && !other.Has(kInner)) {
      (reads ? layer.into_heads : layer.out_of_heads)
          .push_back(std::move(matrix));
    } else if (other.Has(kInner) && !other.HasHeads()) {
      (reads ? layer.into_inner : layer.out_of_inner)
          .push_back(std::move(matrix));
    }
  }
  for (auto& [name, layer] : layers) {
    const auto& heads = layer.into_heads;
    const auto grouped = [](const LayerMatrix& one) {
      return one.out.Has(kGroup);
    };
    const auto queries = std::ranges::count_if(heads, grouped);
    const bool fused = heads.size() == 1 && heads[0].out.fused;
    const bool apart = heads.size() == 3 && queries < 2 &&
                       std::ranges::none_of(heads, [](const LayerMatrix& one) {
                         return one.out.fused;
                       });
    if (!layer.may_mix && layer.out_of_heads.size() == 1 && (fused || apart)) {
      bool has_query = false, has_key = false;
      for (const LayerMatrix& one : heads) {
        Role& role = role_of(*one.param);
        if (fused) {
          role = Role::kFusedQkv;
        } else if (!has_query && (queries == 0 || grouped(one))) {
          role = Role::kQuery;
          has_query = true;
        } else {
          role = std::exchange(has_key, true) ? Role::kValue : Role::kKey;
        }
      }
      role_of(*layer.out_of_heads[0].param) = Role::kOutput;
    }
    for (const LayerMatrix& down : layer.out_of_inner) {
      std::vector<const LayerMatrix*> ups;
      for (const LayerMatrix& one : layer.into_inner) {
        if (std::ranges::includes(one.out.factors, down.in.factors)) {
          ups.push_back(&one);
        }
      }
      if (ups.empty() || ups.size() > 2) continue;
      role_of(*down.param) = Role::kDown;
      for (const LayerMatrix* up : ups) {
        role_of(*up->param) = up->out.fused ? Role::kFusedGateUp : Role::kUp;
      }
      if (ups.size() == 2) role_of(*ups[0]->param) = Role::kGate;
      if (layer.stacked.empty()) continue;
      ups.push_back(&down);
      for (const LayerMatrix* one : ups) {
        shared_[AsIndex(one->param - facts.params.data())] = true;
      }
    }
    if (layer.stacked.size() == 2 &&
        layer.stacked[0].out.fused != layer.stacked[1].out.fused) {
      for (const LayerMatrix& one : layer.stacked) {
        role_of(*one.param) = one.out.fused ? Role::kFusedGateUp : Role::kDown;
      }
    }
  }
}

namespace {

// The sizes that the parameters of a model show.
struct ShownSizes {
  std::set<int64_t> heads, kv_heads, head_dims, experts, inner, expert_inner;
};

// Adds the heads of a list of factors: their number, that of the queries for
// each KV head, and the columns of a head. Of a sum, each part is read on its
// own: kv_heads x (group x head_dim | head_dim) has two lists.
void AddHeads(const Facts& facts, const FactorList& dim, ShownSizes& out) {
  const auto sum = std::ranges::find_if(
      dim, [&](uint32_t index) { return !facts.factors[index].parts.empty(); });
  if (sum != dim.end()) {
    for (const FactorList& part : facts.factors[*sum].parts) {
      FactorList whole(dim.begin(), sum);
      whole.insert(whole.end(), part.begin(), part.end());
      whole.insert(whole.end(), sum + 1, dim.end());
      AddHeads(facts, whole, out);
    }
    return;
  }
  int64_t heads = 1;
  size_t i = 0;
  bool keys = false, grouped = false;
  for (; i < dim.size(); ++i) {
    const Factor& factor = facts.factors[dim[i]];
    if (factor.role == kStateGroups) return;  // those of a mixer
    if (factor.role != kHeads && factor.role != kKvHeads &&
        factor.role != kGroup) {
      break;
    }
    keys = keys || factor.role == kKvHeads;
    grouped = grouped || factor.role == kGroup;
    heads *= factor.size;
    if (factor.role == kKvHeads) out.kv_heads.insert(factor.size);
  }
  if (i == 0) {
    // The columns of the only KV head.
    if (!dim.empty() && facts.factors[dim[0]].role == kHeadDim) {
      out.kv_heads.insert(1);
    }
    return;
  }
  if (!keys || grouped) out.heads.insert(heads);
  if (i + 1 != dim.size()) return;
  const Factor& last = facts.factors[dim[i]];
  if (last.role == kHeadDim) out.head_dims.insert(last.size);
}

void Complete(const std::set<int64_t>& shown, std::optional<int64_t>& size) {
  if (shown.size() == 1) size = *shown.begin();
}

}  // namespace

void CompleteSizes(const Facts& facts, ModelConfig& model) {
  // The streams next to a vocabulary, and the layers that may have mixers.
  std::set<uint32_t> streams;
  std::set<std::string_view> mixed;
  std::set<int64_t> widths, vocabularies;
  for (const ParamFacts& param : facts.params) {
    const SeenParam seen = SeeParam(facts, param);
    const Seen& all = seen.all;
    if (MayMix(all, seen.rank)) mixed.insert(InnermostLayer(param.name));
    if (!all.Has(kVocab) || !all.Has(kStream)) continue;
    for (const uint32_t factor : all.factors) {
      const Factor& one = facts.factors[factor];
      if (one.role == kVocab) vocabularies.insert(one.size);
      if (one.role != kStream) continue;
      widths.insert(one.size);
      streams.insert(factor);
    }
  }
  ShownSizes shown;
  // The layers with an output of attention, and their names without numbers.
  std::set<std::string_view> attend;
  std::set<std::string> stacks;
  for (const ParamFacts& param : facts.params) {
    const SeenParam seen = SeeParam(facts, param);
    const Seen& all = seen.all;
    const bool reads = std::ranges::any_of(
        streams, [&](uint32_t one) { return all.HasFactor(one); });
    if (!reads || !seen.known || param.looked_up) continue;
    for (const uint32_t factor : all.factors) {
      const Factor& one = facts.factors[factor];
      if (one.role == kExperts) shown.experts.insert(one.size);
      if (one.role != kInner) continue;
      (all.Has(kExperts) ? shown.expert_inner : shown.inner).insert(one.size);
    }
    if (mixed.contains(InnermostLayer(param.name)) || all.Has(kInner)) continue;
    for (const FactorList& dim : param.dims) AddHeads(facts, dim, shown);
    const bool contracts_heads =
        std::ranges::any_of(param.contracted, [&](uint32_t factor) {
          const FactorRole role = facts.factors[factor].role;
          return role == kHeads || role == kKvHeads;
        });
    if (contracts_heads && attend.insert(InnermostLayer(param.name)).second) {
      std::string stack(InnermostLayer(param.name));
      std::erase_if(stack, [](char c) { return IsDigit(c); });
      stacks.insert(std::move(stack));
    }
  }
  if (!model.layers && stacks.size() == 1) model.layers = std::ssize(attend);
  if (!model.hidden) Complete(widths, model.hidden);
  if (!model.vocab) Complete(vocabularies, model.vocab);
  if (!model.experts) Complete(shown.experts, model.experts);
  if (!model.intermediate) Complete(shown.inner, model.intermediate);
  if (!model.moe_intermediate) {
    Complete(shown.expert_inner, model.moe_intermediate);
  }
  Complete(shown.heads, model.heads);
  // Without numbers of their own, keys have those of queries.
  Complete(shown.kv_heads.empty() ? shown.heads : shown.kv_heads,
           model.kv_heads);
  Complete(shown.head_dims, model.head_dim);
}

const ParamFacts* DescribedRoles::Find(std::string_view name,
                                       const Shape& shape) const {
  const auto at = by_name_.find(name);
  if (at == by_name_.end()) return nullptr;
  const ParamFacts& param = facts_->params[at->second];
  return param.shape == shape ? &param : nullptr;
}

const ParamFacts* DescribedRoles::FindUnquantised(std::string_view name,
                                                  char separator) const {
  const size_t at = name.rfind(separator);
  if (at == name.npos || facts_ == nullptr) return nullptr;
  const auto joined = SplitLeaf(name.substr(at + 1));
  std::string weight(name.substr(0, at + 1));
  weight += joined ? joined->module : "weight";
  const auto found = by_name_.find(weight);
  return found == by_name_.end() ? nullptr : &facts_->params[found->second];
}

Role DescribedRoles::RoleOf(const ParamFacts& param, Role named) const {
  const Role shown = roles_[AsIndex(&param - facts_->params.data())];
  if (shown == Role::kOther || named == Role::kOther) {
    return shown == Role::kOther ? named : shown;
  }
  const Side side = SideOf(shown);
  const Side other = SideOf(named);
  const bool contradicts =
      side != Side::kElsewhere && other != Side::kElsewhere && side != other;
  return contradicts ? shown : named;
}

bool DescribedRoles::IsShared(const ParamFacts& param) const {
  return shared_[AsIndex(&param - facts_->params.data())];
}

bool DescribedRoles::Interleaves(const ParamFacts& param,
                                 int64_t shards) const {
  return std::ranges::any_of(param.dims, [&](const FactorList& dim) {
    const auto parts = std::ranges::find_if(dim, [&](uint32_t index) {
      const Factor& factor = facts_->factors[index];
      return !factor.parts.empty();
    });
    return parts != dim.begin() && parts != dim.end() &&
           facts_->CanShard(FactorList(dim.begin(), parts), shards);
  });
}

std::optional<Heads> HeadsOf(const ModelConfig& model) {
  constexpr int64_t kMost = 1 << 20;
  Heads out;
  out.heads = model.heads.value_or(0);
  out.kv_heads = model.kv_heads.value_or(out.heads);
  if (out.heads <= 0 || out.kv_heads <= 0) return std::nullopt;
  out.head_dim = model.head_dim.value_or(model.hidden.value_or(0) / out.heads);
  if (out.head_dim <= 0 || out.heads > kMost || out.head_dim > kMost) {
    return std::nullopt;
  }
  return out;
}

std::vector<StatedWidth> StatedWidths(const Heads& heads, bool gated) {
  const auto text = [&](int64_t count, std::string_view what) {
    return std::to_string(count) + " " + std::string(what) + " of " +
           std::to_string(heads.head_dim);
  };
  const int64_t query = heads.heads * heads.head_dim;
  const int64_t key = heads.kv_heads * heads.head_dim;
  std::vector<int64_t> query_widths = {query};
  if (gated) query_widths.push_back(2 * query);
  // A fused projection may store each KV head once for every query head.
  return {{Role::kQuery, query_widths, text(heads.heads, "heads")},
          {Role::kKey, {key}, text(heads.kv_heads, "KV heads")},
          {Role::kFusedQkv,
           {query + 2 * key, 3 * query},
           text(heads.heads, "heads") + " with " +
               std::to_string(heads.kv_heads) + " KV heads"}};
}

}  // namespace shardc
