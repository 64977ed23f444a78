// Keeps the order of products and sums where a size is computed of factors:
//
//   kv_heads * (group + 2) * head_dim  ->  for each KV head the queries of its
//                                          group, a key and a value
//   2 * inner                          ->  (inner | inner)
//
// A product with a sum is the sum of products, so that each part is complete:
// (heads + 2 * kv_heads) * head_dim is (heads x head_dim | kv_heads x head_dim
// | kv_heads x head_dim).
#include "families/layout.h"

#include <algorithm>
#include <array>
#include <utility>

#include "source/size.h"

namespace shardc::families {
namespace {

using program::FactorRole;

// The most terms of one layout.
constexpr size_t kMostTerms = 256;

size_t TermsOf(const Layout& layout) {
  size_t out = layout.size();
  for (const Term& term : layout) {
    out += term.parts.size();
    for (const Layout& part : term.parts) out += TermsOf(part);
  }
  return out;
}

std::optional<Layout> IfFew(Layout layout) {
  if (TermsOf(layout) > kMostTerms) return std::nullopt;
  return layout;
}

int64_t SizeOf(const Layout& layout) {
  int64_t out = 1;
  for (const Term& term : layout) {
    out = CheckedMul(out, term.size).value_or(INT64_MAX);
  }
  return out;
}

bool IsParts(const Layout& layout) {
  return layout.size() == 1 && !layout[0].parts.empty();
}

// Returns the beginning of a name up to its last part that is a number.
std::string_view ScopeOf(std::string_view name, char separator) {
  for (size_t end = name.size(); end > 0;) {
    const size_t at = name.substr(0, end).rfind(separator);
    const size_t begin = at == name.npos ? 0 : at + 1;
    const std::string_view part = name.substr(begin, end - begin);
    if (!part.empty() && part.find_first_not_of("0123456789") == part.npos) {
      return name.substr(0, end);
    }
    end = begin == 0 ? 0 : begin - 1;
  }
  return {};
}

bool IsOfModel(FactorRole role) {
  constexpr std::array<FactorRole, 4> kOfModel = {
      FactorRole::kStream, FactorRole::kHeadDim, FactorRole::kPosition,
      FactorRole::kVocab};
  return std::ranges::find(kOfModel, role) != kOfModel.end();
}

}  // namespace

std::optional<FactorRole> RoleOf(std::string_view word) {
  if (word == program::RoleName(FactorRole::kUnknown)) {
    return FactorRole::kUnknown;
  }
  for (auto i = static_cast<int>(FactorRole::kPosition);
       i <= static_cast<int>(FactorRole::kOut); ++i) {
    const auto role = static_cast<FactorRole>(i);
    if (program::RoleName(role) == word && role != FactorRole::kParts) {
      return role;
    }
  }
  return std::nullopt;
}

std::optional<Layout> LayoutOfNumber(int64_t number) {
  if (number < 1 || number > static_cast<int64_t>(kMostTerms)) {
    return std::nullopt;
  }
  if (number == 1) return Layout();
  return IfFew({{"", FactorRole::kParts, false, number,
                 std::vector<Layout>(AsIndex(number))}});
}

std::optional<Layout> ProductOf(Layout outer, const Layout& inner) {
  if (inner.empty()) return outer;
  if (outer.empty() || outer.back().parts.empty()) {
    outer.insert(outer.end(), inner.begin(), inner.end());
    return IfFew(std::move(outer));
  }
  Term& sum = outer.back();
  sum.role = FactorRole::kUnknown;
  sum.size = CheckedMul(sum.size, SizeOf(inner)).value_or(INT64_MAX);
  for (Layout& part : sum.parts) {
    auto product = ProductOf(std::move(part), inner);
    if (!product) return std::nullopt;
    part = std::move(*product);
  }
  return IfFew(std::move(outer));
}

std::optional<Layout> SumOf(Layout first, const Layout& second) {
  Term sum;
  sum.size = CheckedAdd(SizeOf(first), SizeOf(second)).value_or(INT64_MAX);
  for (const Layout& one : {std::move(first), second}) {
    if (IsParts(one)) {
      sum.parts.insert(sum.parts.end(), one[0].parts.begin(),
                       one[0].parts.end());
    } else {
      sum.parts.push_back(one);
    }
  }
  return IfFew({std::move(sum)});
}

program::FactorList FactsOfTree::ListOf(const Layout& layout,
                                        const Scopes& scopes,
                                        std::set<uint32_t>& all) {
  program::FactorList out;
  for (const Term& term : layout) {
    uint32_t index = static_cast<uint32_t>(facts_.factors.size());
    if (term.parts.empty()) {
      const bool of_model = term.of_model || IsOfModel(term.role);
      const std::string& scope = of_model ? scopes.model : scopes.layer;
      index = known_.try_emplace(scope + '\n' + term.name, index).first->second;
    }
    if (index == facts_.factors.size()) {
      program::Factor& made = facts_.factors.emplace_back();
      made.size = term.size;
      made.role = term.role;
    }
    all.insert(index);
    for (const Layout& part : term.parts) {
      program::FactorList list = ListOf(part, scopes, all);
      facts_.factors[index].parts.push_back(std::move(list));
    }
    out.push_back(index);
  }
  return out;
}

void FactsOfTree::Add(const std::string& name, char separator,
                      const std::vector<Dimension>& dims, size_t model,
                      TensorUse use) {
  const Scopes scopes = {std::string(ScopeOf(name, separator)),
                         "/" + std::to_string(model)};
  const auto number = static_cast<uint32_t>(facts_.params.size());
  program::ParamFacts param;
  param.name = name;
  param.looked_up = use.looked_up;
  for (uint32_t d = 0; d < dims.size(); ++d) {
    std::set<uint32_t> all;
    param.shape.push_back(dims[d].size);
    param.dims.emplace_back();
    // A number alone counts parts of nothing that is named.
    const auto& layout = dims[d].layout;
    if (layout &&
        !(layout->size() == 1 && layout->front().role == FactorRole::kParts)) {
      param.dims.back() = ListOf(*layout, scopes, all);
    }
    for (const uint32_t factor : all) {
      facts_.factors[factor].occurrences.push_back({number, d});
    }
    if (static_cast<int>(d) == use.contracted) {
      param.contracted.assign(all.begin(), all.end());
    }
  }
  facts_.params.push_back(std::move(param));
}

program::Facts FactsOfTree::Take() { return std::move(facts_); }

}  // namespace shardc::families
