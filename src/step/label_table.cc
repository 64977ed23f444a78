// Creates the labels of a step, and each composite label only once. An existing
// composite is found by its name, which lists its factors (separated by spaces)
// or its parts (separated by `+`) in parentheses. For example:
//
//   parts c and r           ->  (c+r)
//   factors n and (c+r)     ->  (n (c+r))
#include "step/label_table.h"

#include <algorithm>
#include <utility>

namespace shardc::step {

void LabelTable::MakeCommon(std::span<const int64_t> dims) {
  CommonLabels& common = graph_.common;
  common.batch = New("b", "BATCH", 0);
  common.query = New("t", "QUERY_LENGTH", 0);
  common.key = New("s", "KV_LENGTH", 0);
  if (description_.HasEncoder()) {
    common.encoder_query = New("te", "QUERY_LENGTH", 0);
    common.encoder_key = New("se", "KV_LENGTH", 0);
  }
  for (size_t i = 0; i < description_.dims.size(); ++i) {
    const std::string& name = description_.dims[i].first;
    const auto axis = description_.axes.find(name);
    dims_.push_back(New(
        name, axis == description_.axes.end() ? "" : axis->second, dims[i]));
  }
}

LabelId LabelTable::New(std::string name, std::string_view semantic,
                        int64_t size) {
  DimLabel label;
  label.name = std::move(name);
  label.semantic = semantic;
  graph_.labels.push_back(std::move(label));
  sizes_.push_back(size);
  return static_cast<LabelId>(graph_.labels.size() - 1);
}

LabelId LabelTable::OfParts(const std::vector<LabelId>& parts) {
  return Composite(parts, "+", &DimLabel::parts);
}

LabelId LabelTable::OfFactors(const std::vector<LabelId>& factors) {
  return Composite(factors, " ", &DimLabel::factors);
}

LabelId LabelTable::Of(const DescribedDim& dim) {
  std::vector<LabelId> factors;
  for (const auto& names : dim.factors) {
    std::vector<LabelId> parts;
    for (const std::string& name : names) parts.push_back(Named(name));
    factors.push_back(OfParts(parts));
  }
  if (description_.IsFusedByPart()) {
    const auto axis =
        std::find_if_not(factors.begin(), factors.end(),
                         [&](LabelId label) { return IsCount(label); });
    if (axis != factors.end() && (*this)[*axis].parts.empty()) {
      std::rotate(factors.begin(), axis, axis + 1);
    }
  }
  return OfFactors(factors);
}

bool LabelTable::IsCount(LabelId label) const {
  const DimLabel& of = graph_.labels[AsIndex(label)];
  return of.semantic.empty() && of.parts.empty();
}

LabelId LabelTable::Named(std::string_view dim) const {
  for (size_t i = 0; i < description_.dims.size(); ++i) {
    if (description_.dims[i].first == dim) return dims_[i];
  }
  return kNoLabel;
}

LabelId LabelTable::Composite(const std::vector<LabelId>& of,
                              std::string_view between,
                              std::vector<LabelId> DimLabel::*made_of) {
  if (of.size() == 1) return of[0];
  std::string name;
  for (const LabelId one : of) {
    name += name.empty() ? "(" : between;
    name += (*this)[one].name;
  }
  name += ")";
  const auto known = composites_.find(name);
  if (known != composites_.end()) return known->second;
  const LabelId label = New(name, "", 0);
  (*this)[label].*made_of = of;
  composites_[name] = label;
  return label;
}

}  // namespace shardc::step
