// Compares what a traced program shows with the config.json and the `model:`
// section, by the factors of its parameters. Every size is looked up among all
// sizes of the program, since a model may have several towers:
//
//   num_attention_heads 40, and `elk` is heads 32 x head_dim 128  ->  misfit
//   role q: [n h] of 16 x 256, and `elk` is heads 32 x head_dim 128
//     ->  different: neither division is finer than the other one
#include "lint/analysis/traced.h"

#include <algorithm>
#include <optional>
#include <set>
#include <string_view>
#include <unordered_map>
#include <utility>

#include "lint/analysis/groups.h"
#include "lint/analysis/heads.h"
#include "lint/analysis/phrase.h"
#include "lint/analysis/step_facts.h"
#include "source/size.h"
#include "source/wording.h"
#include "step/roles.h"

namespace shardc {
namespace {

using program::Factor;
using program::FactorList;
using program::FactorRole;
using program::ParamFacts;

class SizeFinder {
 public:
  explicit SizeFinder(const program::TracedProgram& traced) : traced_(traced) {}

  TracedSizes Find() {
    for (const ParamFacts& param : traced_.facts.params) {
      // The factors of all dimensions, since a head may be one of its own.
      FactorList all;
      for (const FactorList& dim : param.dims) {
        all.insert(all.end(), dim.begin(), dim.end());
      }
      Add(param, all);
    }
    return std::move(out_);
  }

 private:
  // Consecutive factors of one role, such as experts 2 x experts 4 where a
  // router chooses among groups of experts.
  struct Run {
    FactorRole role = FactorRole::kUnknown;
    int64_t size = 1;
    const Factor* first = nullptr;
  };

  const Factor& At(uint32_t factor) const {
    return traced_.facts.factors[factor];
  }

  // Returns the role that all factors of a factor's parts have, or the factor's
  // own: heads for (heads 4 | heads 2).
  FactorRole RoleOf(const Factor& factor) const {
    if (factor.parts.empty()) return factor.role;
    std::optional<FactorRole> out;
    for (const FactorList& part : factor.parts) {
      for (const uint32_t one : part) {
        const FactorRole role = RoleOf(At(one));
        if (out && *out != role) return FactorRole::kUnknown;
        out = role;
      }
    }
    return out.value_or(FactorRole::kUnknown);
  }

  std::vector<Run> RunsOf(const FactorList& list) const {
    std::vector<Run> out;
    for (const uint32_t one : list) {
      const Factor& factor = At(one);
      const FactorRole role = RoleOf(factor);
      if (out.empty() || out.back().role != role) {
        out.push_back({role, 1, &factor});
      }
      out.back().size *= factor.size;
    }
    return out;
  }

  void Note(TracedSizes::Sizes& sizes, int64_t size, const ParamFacts& param,
            const Factor& factor) {
    auto [at, fresh] = sizes.try_emplace(size, ShortQuote(param.name));
    if (!fresh) return;
    const auto line = std::ranges::find_if(
        factor.evidence,
        [](const program::Evidence& one) { return one.at.known(); });
    if (line == factor.evidence.end()) return;
    at->second += " at " + traced_.program.LineText(line->at);
  }

  void Add(const ParamFacts& param, const FactorList& list) {
    using enum FactorRole;
    for (const uint32_t one : list) {
      if (RoleOf(At(one)) != kUnknown) continue;
      for (const FactorList& part : At(one).parts) Add(param, part);
    }
    const std::vector<Run> runs = RunsOf(list);
    for (size_t i = 0; i < runs.size(); ++i) {
      const Run& run = runs[i];
      if (run.role == kExperts) {
        Note(out_.experts, run.size, param, *run.first);
      } else if (run.role == kVocab) {
        Note(out_.vocabularies, run.size, param, *run.first);
      } else if (run.role == kHeads || run.role == kKvHeads) {
        const bool grouped = i + 1 < runs.size() && runs[i + 1].role == kGroup;
        const int64_t group = grouped ? runs[i + 1].size : 1;
        if (run.role == kHeads || grouped) {
          Note(out_.heads, run.size * group, param, *run.first);
        }
        if (run.role == kKvHeads) {
          Note(out_.kv_heads, run.size, param, *run.first);
        }
        const size_t next = i + (grouped ? 2 : 1);
        if (next < runs.size() && runs[next].role == kHeadDim) {
          Note(out_.head_dims, runs[next].size, param, *run.first);
        }
      }
    }
  }

  const program::TracedProgram& traced_;
  TracedSizes out_;
};

// Adds a misfit if the program shows other sizes of this kind only.
void Compare(int64_t stated, const TracedSizes::Sizes& sizes, bool heads,
             std::string_view what, std::vector<Misfit>& out) {
  if (sizes.empty() || sizes.contains(stated)) return;
  const auto& [size, where] = *sizes.begin();
  out.push_back({heads,
                 "the configuration gives " + std::to_string(stated) + " " +
                     std::string(what) + ", and the program shows " +
                     std::to_string(size) + " in " + where,
                 nullptr});
}

}  // namespace

std::vector<const ParamFacts*> ParamsOfPlan(const program::Facts& facts,
                                            const Plan& plan) {
  std::unordered_map<std::string_view, const ParamFacts*> by_name;
  for (const ParamFacts& param : facts.params) {
    by_name.emplace(param.name, &param);
  }
  std::vector<const ParamFacts*> out(plan.params.size());
  for (size_t i = 0; i < out.size(); ++i) {
    const auto at = by_name.find(plan.names[i]);
    if (at == by_name.end()) continue;
    const ParamLayout& layout = plan.layouts[plan.params[i].layout];
    if (plan.types[layout.type].shape == at->second->shape) out[i] = at->second;
  }
  return out;
}

TracedSizes TracedSizesOf(const Facts& facts) {
  const program::TracedProgram* const traced = facts.inputs().traced;
  return traced == nullptr ? TracedSizes() : SizeFinder(*traced).Find();
}

void AddTracedMisfits(const Facts& facts, const TracedSizes& traced,
                      std::vector<Misfit>& out) {
  const ModelConfig& model = *facts.model();
  if (const auto heads = HeadsOf(model)) {
    Compare(heads->heads, traced.heads, true, "attention heads", out);
    // The groups of a state space mixer have the form of KV heads.
    if (model.kv_heads && !model.state_groups) {
      Compare(heads->kv_heads, traced.kv_heads, true, "KV heads", out);
    }
    // Latent attention has heads of two sizes.
    if (!model.latent_rank) {
      Compare(heads->head_dim, traced.head_dims, true,
              "elements for each attention head", out);
    }
  }
  if (model.experts) {
    Compare(*model.experts, traced.experts, false, "experts", out);
  }
  // A table with more rows than the vocabulary is padded and fits.
  if (model.vocab && !traced.vocabularies.empty() &&
      traced.vocabularies.rbegin()->first < *model.vocab) {
    Compare(*model.vocab, traced.vocabularies, false, "rows of the vocabulary",
            out);
  }
}

namespace {

// The elements of a dimension after which a new block begins, or the sizes of
// equal blocks at each level.
struct Division {
  std::set<int64_t> bounds, blocks;
};

bool Nest(const std::set<int64_t>& a, const std::set<int64_t>& b) {
  return std::ranges::includes(a, b) || std::ranges::includes(b, a);
}

Division DivisionOf(const program::Facts& facts, const FactorList& dim) {
  Division out;
  int64_t inner = 1;
  for (size_t i = dim.size(); i-- > 1;) {
    inner *= facts.factors[dim[i]].size;
    out.blocks.insert(inner);
  }
  int64_t begin = 0;
  for (const FactorList& part : facts.factors[dim[0]].parts) {
    begin += facts.SizeOf(part) * inner;
    out.bounds.insert(begin);
  }
  return out;
}

// Returns nullopt if a size is unknown.
std::optional<Division> DivisionOf(const StepFacts& step,
                                   const DescribedDim& dim) {
  const auto& names = step.description().dims;
  const auto sum = [&](const std::vector<std::string>& parts,
                       std::set<int64_t>* bounds, int64_t inner) {
    int64_t out = 0;
    for (const std::string& part : parts) {
      const auto at = std::ranges::find(
          names, part,
          [](const auto& one) -> const auto& { return one.first; });
      const int64_t size =
          at == names.end() ? 0
                            : step.roles().sizes[AsIndex(at - names.begin())];
      if (size <= 0) return int64_t{0};
      out += size;
      if (bounds != nullptr) bounds->insert(out * inner);
    }
    return out;
  };
  Division out;
  int64_t inner = 1;
  for (size_t i = dim.factors.size(); i-- > 0;) {
    const bool leads = i == 0 && dim.factors[i].size() > 1;
    const int64_t size =
        sum(dim.factors[i], leads ? &out.bounds : nullptr, inner);
    if (size == 0) return std::nullopt;
    inner *= size;
    if (i > 0) out.blocks.insert(inner);
  }
  return out;
}

}  // namespace

void ReportTracedRoles(const Facts& facts, const Code& code,
                       FindingSink& sink) {
  const program::TracedProgram* const traced = facts.inputs().traced;
  const StepFacts* const step = facts.Step();
  if (traced == nullptr || step == nullptr) return;
  std::set<const ParameterGroup*> reported;
  for (size_t row = 0; row < step->roles().tensors.size(); ++row) {
    const step::TensorRole& tensor = step->roles().tensors[row];
    if (tensor.role < 0) continue;
    const ParameterGroup& group = step->GroupOf(static_cast<int64_t>(row));
    const ParamFacts* const param =
        facts.TracedParam(facts.Members(group).front());
    if (param == nullptr || !reported.insert(&group).second) continue;
    const DescribedRole& role = step->description().roles[AsIndex(tensor.role)];
    // The first dimension of a role counts experts that have their own tensors.
    const size_t first = tensor.expert >= 0 ? 1 : 0;
    std::vector<FactorList> dims = param->dims;
    if (tensor.stack_dim >= 0) dims.erase(dims.begin() + tensor.stack_dim);
    if (dims.size() + first != role.dims.size()) continue;
    for (size_t d = 0; d < dims.size(); ++d) {
      if (dims[d].empty()) continue;
      const DescribedDim& stated = role.dims[d + first];
      const auto by_role = DivisionOf(*step, stated);
      const Division shown = DivisionOf(traced->facts, dims[d]);
      if (!by_role || (Nest(by_role->blocks, shown.blocks) &&
                       Nest(by_role->bounds, shown.bounds))) {
        continue;
      }
      sink.push_back(GroupFinding(
          facts, code, group,
          ParametersText(facts, group) + " has the role " + Quote(role.name) +
              ", whose dimension `" + step::DimText(stated) +
              "` the traced program divides as " + traced->facts.Text(dims[d]),
          "correct the sizes of the role's dimensions in the `model:` section, "
          "or the configuration"));
      break;
    }
  }
}

}  // namespace shardc
