// Compares the sizes in the model's configuration with the shapes of
// parameters. A parameter tree may hold several towers (such as text and
// vision) with different sizes. Therefore it is enough that one parameter of a
// role has the size in the configuration. If none has it, the size is a misfit.
// For example:
//
//   32 heads of 128, every q_proj 2048 wide  ->  4096 is not 2048
//   40 heads of 128, q_proj 5120 wide        ->  fits
#include "lint/analysis/model_fit.h"

#include <algorithm>

#include "lint/analysis/facts.h"
#include "lint/analysis/groups.h"
#include "lint/analysis/heads.h"
#include "lint/analysis/phrase.h"
#include "lint/analysis/scanned.h"
#include "lint/analysis/vocabulary.h"
#include "roles/quantisation.h"
#include "source/index.h"

namespace shardc {
namespace {

// Returns whether each stored element is one weight. Returns false for dtypes
// in which an element may pack several, such as two 4-bit weights.
bool IsPlain(const Facts& facts, const ParameterGroup& group) {
  const auto dtype = facts.TypeOf(group).dtype;
  return !dtype || !MayPack(*dtype);
}

// Returns the output size of a query, key or fused projection, without
// dimensions that count scanned layers; 0 if it is unknown.
int64_t HeadsWidth(const Facts& facts, const ParameterGroup& group) {
  const int side = OutDim(group.role, 2);
  if (side < 0 || !IsWeight(group) || !IsPlain(facts, group)) return 0;
  const auto dims = MatrixDimsOf(facts, facts.stacks(), group);
  if (!dims) return 0;
  return (*facts.TypeOf(group).shape)[AsIndex((*dims)[AsIndex(side)])];
}

struct Wanted {
  Role role;
  std::vector<int64_t> widths;  // accepted output sizes
  std::string text;             // as in "32 heads of 128"
};

struct Found {
  const ParameterGroup* first = nullptr;  // the first group of this role
  // Whether some group of this role has one of the accepted output sizes.
  bool fits = false;
};
Found Look(const Facts& facts, const Wanted& wanted) {
  Found out;
  for (const ParameterGroup& group : facts.groups()) {
    if (group.role.module_role != wanted.role) continue;
    const int64_t width = HeadsWidth(facts, group);
    if (width == 0) continue;
    if (out.first == nullptr) out.first = &group;
    out.fits |= std::find(wanted.widths.begin(), wanted.widths.end(), width) !=
                wanted.widths.end();
  }
  return out;
}

// Returns whether some output projection has an input of this size.
bool EntersOutput(const Facts& facts, int64_t width) {
  return std::any_of(
      facts.groups().begin(), facts.groups().end(),
      [&](const ParameterGroup& group) {
        if (group.role.module_role != Role::kOutput) return false;
        const auto dims = MatrixDimsOf(facts, facts.stacks(), group);
        const int dim =
            dims ? InDim(group.role, 2) : InDim(group.role, facts.Rank(group));
        if (dim < 0) return false;
        const int stored = dims ? (*dims)[AsIndex(dim)] : dim;
        return (*facts.TypeOf(group).shape)[AsIndex(stored)] == width;
      });
}

bool HasAttention(const Facts& facts) {
  return std::any_of(facts.groups().begin(), facts.groups().end(),
                     [](const ParameterGroup& group) {
                       return group.role.attention &&
                              (group.role.module_role == Role::kQuery ||
                               group.role.module_role == Role::kFusedQkv);
                     });
}

void AddHeads(const Facts& facts, std::vector<Misfit>& out) {
  const auto heads = HeadsOf(*facts.model());
  if (!heads) {
    if (HasAttention(facts)) {
      out.push_back({true,
                     "the configuration gives no number or no size of "
                     "attention heads, and the model has attention",
                     nullptr});
    }
    return;
  }
  const auto text = [&](int64_t count, std::string_view what) {
    return std::to_string(count) + " " + std::string(what) + " of " +
           std::to_string(heads->head_dim);
  };
  const int64_t query = heads->heads * heads->head_dim;
  const int64_t key = heads->kv_heads * heads->head_dim;
  // A query projection may be fused with a gate. Its output is then twice as
  // large as the input of the output projection. A fused projection may store
  // each KV head once for every query head.
  std::vector<int64_t> query_widths = {query};
  if (EntersOutput(facts, query)) query_widths.push_back(2 * query);
  const Wanted all[] = {
      {Role::kQuery, query_widths, text(heads->heads, "heads")},
      {Role::kKey, {key}, text(heads->kv_heads, "KV heads")},
      {Role::kFusedQkv,
       {query + 2 * key, 3 * query},
       text(heads->heads, "heads") + " with " +
           std::to_string(heads->kv_heads) + " KV heads"}};
  bool has_queries = false;
  for (const Wanted& wanted : all) {
    const Found found = Look(facts, wanted);
    const ParameterGroup* const group = found.first;
    has_queries |= found.fits && wanted.role == Role::kQuery;
    // If the separate query projections fit, a fused projection of another size
    // belongs to another tower of the model.
    const bool other = wanted.role == Role::kFusedQkv && has_queries;
    if (group == nullptr || found.fits || other) continue;
    out.push_back({true,
                   "the configuration gives " + wanted.text + ", which is " +
                       std::to_string(wanted.widths.front()) + ", and " +
                       ParametersText(facts, *group) + " is " +
                       std::to_string(HeadsWidth(facts, *group)) + " wide",
                   group});
    return;
  }
}

void AddHidden(const Facts& facts, std::vector<Misfit>& out) {
  const auto hidden = facts.model()->hidden;
  if (!hidden) return;
  const ParameterGroup* first = nullptr;
  for (const ParameterGroup& group : facts.groups()) {
    const auto& shape = facts.TypeOf(group).shape;
    if (!shape || shape->size() < 2 || !IsPlain(facts, group)) continue;
    if (std::find(shape->begin(), shape->end(), *hidden) != shape->end()) {
      return;
    }
    if (first == nullptr) first = &group;
  }
  if (first == nullptr) return;
  out.push_back({false,
                 "the configuration gives a hidden size of " +
                     std::to_string(*hidden) +
                     ", which is no dimension of any matrix",
                 first});
}

void AddVocabulary(const Facts& facts, std::vector<Misfit>& out) {
  const auto vocab = facts.model()->vocab;
  const Vocabulary vocabulary = VocabularyOf(facts);
  if (!vocab || vocabulary.embedding == nullptr) return;
  const int64_t rows =
      (*facts.TypeOf(*vocabulary.embedding)
            .shape)[static_cast<size_t>(vocabulary.embedding_dim)];
  // An embedding with more rows than the vocabulary is padded and fits.
  if (rows >= *vocab) return;
  out.push_back({false,
                 "the configuration gives a vocabulary of " +
                     std::to_string(*vocab) + ", and " +
                     ParametersText(facts, *vocabulary.embedding) + " has " +
                     std::to_string(rows) + " rows",
                 vocabulary.embedding});
}

void AddExperts(const Facts& facts, std::vector<Misfit>& out) {
  const auto experts = facts.model()->experts;
  if (!experts) return;
  const ParameterGroup* first = nullptr;
  // The number of experts in `first`, which is the size of its first dimension
  // that does not count layers.
  int64_t held = 0;
  for (const ParameterGroup& group : facts.groups()) {
    const auto& shape = facts.TypeOf(group).shape;
    if (!group.role.expert || !shape) continue;
    const std::vector<int> dims = UnscannedDims(facts, facts.stacks(), group);
    const bool one_layer = shape->size() == 3;
    if (!one_layer && dims.size() != 3) continue;
    if (std::find(shape->begin(), shape->end(), *experts) != shape->end()) {
      return;
    }
    if (first == nullptr) {
      first = &group;
      held = one_layer ? shape->front() : (*shape)[AsIndex(dims.front())];
    }
  }
  if (first == nullptr) return;
  out.push_back({false,
                 "the configuration gives " + std::to_string(*experts) +
                     " experts, and " + ParametersText(facts, *first) +
                     " holds " + std::to_string(held),
                 first});
}

}  // namespace

std::vector<Misfit> MisfitsOf(const Facts& facts) {
  std::vector<Misfit> out;
  if (facts.model() == nullptr) return out;
  AddHeads(facts, out);
  AddHidden(facts, out);
  AddVocabulary(facts, out);
  AddExperts(facts, out);
  return out;
}

}  // namespace shardc
