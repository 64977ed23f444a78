// Appends ops to a graph. Every op is appended by Append(), which sets the op's
// name, phase and layer to the current ones, and records the op as the producer
// of its result:
//
//   Split(x [b, t, (n h)], (n h))  ->  kSplit of (n h), result [b, t, n, h]
#include "step/graph_writer.h"

#include <algorithm>
#include <utility>

#include "source/size.h"

namespace shardc::step {

GraphWriter::GraphWriter(Graph& graph)
    : graph_(graph), producer_(graph.values.size(), -1) {
  for (size_t i = 0; i < graph.ops.size(); ++i) {
    producer_[AsIndex(graph.ops[i].out)] = static_cast<int32_t>(i);
  }
}

bool HasLabel(const Labels& labels, LabelId label) {
  return std::find(labels.begin(), labels.end(), label) != labels.end();
}

bool GraphWriter::Has(ValueId value, LabelId label) const {
  return HasLabel(LabelsOf(value), label);
}

Labels GraphWriter::Without(const Labels& labels, LabelId gone) {
  Labels out;
  out.reserve(labels.size());
  for (const LabelId label : labels) {
    if (label != gone) out.push_back(label);
  }
  return out;
}

Labels GraphWriter::Replaced(const Labels& labels, LabelId from,
                             std::span<const LabelId> to) {
  Labels out;
  out.reserve(labels.size() + to.size());
  for (const LabelId label : labels) {
    if (label != from) {
      out.push_back(label);
    } else {
      out.insert(out.end(), to.begin(), to.end());
    }
  }
  return out;
}

ValueId GraphWriter::Append(OpKind kind, std::vector<ValueId> in,
                            OpAttributes attributes, Labels labels,
                            bool integral) {
  Op op;
  op.kind = kind;
  op.in = std::move(in);
  op.attributes = std::move(attributes);
  return Append(std::move(op), std::move(labels), integral);
}

ValueId GraphWriter::Append(Op op, Labels labels, bool integral) {
  const auto value = static_cast<ValueId>(graph_.values.size());
  op.out = value;
  op.phase = phase;
  op.layer = layer;
  op.name = name;
  op.line = line;
  graph_.values.push_back({std::move(labels), integral, kNoValue});
  producer_.push_back(static_cast<int32_t>(graph_.ops.size()));
  graph_.ops.push_back(std::move(op));
  return value;
}

ValueId GraphWriter::Input(Labels labels, bool integral) {
  return Append(OpKind::kInput, {}, {}, std::move(labels), integral);
}

ValueId GraphWriter::Einsum(ValueId a, ValueId b, Labels out) {
  return Append(OpKind::kEinsum, {a, b}, {}, std::move(out));
}

ValueId GraphWriter::Add(std::vector<ValueId> terms) {
  if (terms.size() == 1) return terms[0];
  const auto widest =
      *std::max_element(terms.begin(), terms.end(), [&](ValueId a, ValueId b) {
        return LabelsOf(a).size() < LabelsOf(b).size();
      });
  Labels labels = LabelsOf(widest);
  return Append(OpKind::kAdd, std::move(terms), {}, std::move(labels));
}

ValueId GraphWriter::Scaled(ValueId x, Scale scale) {
  return Append(OpKind::kScale, {x}, ScaleAttributes{std::move(scale)},
                LabelsOf(x));
}

ValueId GraphWriter::Fn(std::string_view fn, ValueId x, double constant) {
  return Append(OpKind::kFn, {x}, FnAttributes{std::string(fn), constant},
                LabelsOf(x));
}

ValueId GraphWriter::Greater(ValueId a, ValueId b) {
  return Append(OpKind::kFn, {a, b}, FnAttributes{.fn = "max2"}, LabelsOf(a));
}

ValueId GraphWriter::Sum(ValueId x, LabelId label) {
  return Append(OpKind::kSum, {x}, LabelAttributes{label},
                Without(LabelsOf(x), label));
}

ValueId GraphWriter::Max(ValueId x, LabelId label) {
  return Append(OpKind::kMax, {x}, LabelAttributes{label},
                Without(LabelsOf(x), label));
}

ValueId GraphWriter::Broadcast(ValueId x, LabelId label, Labels out) {
  return Append(OpKind::kBroadcast, {x}, LabelAttributes{label},
                std::move(out));
}

ValueId GraphWriter::Lookup(ValueId table, ValueId ids, int64_t offset) {
  const LookupAttributes rows{LabelsOf(table)[0], offset};
  Labels labels = LabelsOf(ids);
  labels.push_back(LabelsOf(table)[1]);
  return Append(OpKind::kLookup, {table, ids}, rows, std::move(labels));
}

ValueId GraphWriter::Pick(ValueId logits, ValueId ids, LabelId from) {
  return Append(OpKind::kPick, {logits, ids}, LabelAttributes{from},
                Without(LabelsOf(logits), from));
}

ValueId GraphWriter::Split(ValueId x, LabelId label) {
  return Append(
      OpKind::kSplit, {x}, LabelAttributes{label},
      Replaced(LabelsOf(x), label, graph_.labels[AsIndex(label)].factors));
}

ValueId GraphWriter::Merge(ValueId x, LabelId label) {
  const auto& factors = graph_.labels[AsIndex(label)].factors;
  Labels labels;
  for (const LabelId at : LabelsOf(x)) {
    const auto factor = std::find(factors.begin(), factors.end(), at);
    if (factor == factors.end()) labels.push_back(at);
    if (factor == factors.begin()) labels.push_back(label);
  }
  return Append(OpKind::kMerge, {x}, LabelAttributes{label}, std::move(labels));
}

ValueId GraphWriter::Part(ValueId x, LabelId whole, size_t index) {
  const LabelId part = graph_.labels[AsIndex(whole)].parts[index];
  return Append(OpKind::kPart, {x},
                PartAttributes{whole, part, static_cast<int64_t>(index)},
                Replaced(LabelsOf(x), whole, {{part}}));
}

ValueId GraphWriter::Index(ValueId x, LabelId label, int64_t row) {
  return Append(OpKind::kIndex, {x}, IndexAttributes{label, row},
                Without(LabelsOf(x), label));
}

ValueId GraphWriter::Rename(ValueId x, LabelId from, LabelId to) {
  return Append(OpKind::kRename, {x}, RenameAttributes{from, to},
                Replaced(LabelsOf(x), from, {{to}}));
}

ValueId GraphWriter::Shifted(ValueId x, LabelId label, int8_t sign) {
  return Append(OpKind::kRoll, {x}, RollAttributes{label, sign, true},
                LabelsOf(x));
}

ValueId GraphWriter::Identity(ValueId x) {
  return Append(OpKind::kIdentity, {x}, {}, LabelsOf(x));
}

ValueId GraphWriter::Constrained(ValueId value, std::string_view constraint) {
  if (constraint.empty() || Producer(value).constraint == constraint)
    return value;
  const Op& made = Producer(value);
  if (!made.constraint.empty() || made.kind == OpKind::kInput) {
    value = Identity(value);
  }
  Producer(value).constraint = constraint;
  return value;
}

// Creates the labels of a step, and each composite label only once. An existing
// composite is found by its name, which lists its factors (separated by spaces)
// or its parts (separated by `+`) in parentheses. For example:
//
//   parts c and r           ->  (c+r)
//   factors n and (c+r)     ->  (n (c+r))

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

std::vector<LabelId> LabelTable::FactorsOf(const DescribedDim& dim) {
  std::vector<LabelId> factors;
  for (const auto& names : dim.factors) {
    std::vector<LabelId> parts;
    for (const std::string& name : names) parts.push_back(Named(name));
    factors.push_back(OfParts(parts));
  }
  return factors;
}

size_t LabelTable::LeadOf(const DescribedDim& dim) {
  if (!description_.IsFusedByPart()) return 0;
  const std::vector<LabelId> factors = FactorsOf(dim);
  const auto axis =
      std::find_if_not(factors.begin(), factors.end(),
                       [&](LabelId label) { return IsCount(label); });
  const bool moves = axis != factors.end() && (*this)[*axis].parts.empty();
  return moves ? AsIndex(axis - factors.begin()) : 0;
}

LabelId LabelTable::Of(const DescribedDim& dim) {
  std::vector<LabelId> factors = FactorsOf(dim);
  const auto axis = factors.begin() + static_cast<std::ptrdiff_t>(LeadOf(dim));
  if (axis != factors.end()) std::rotate(factors.begin(), axis, axis + 1);
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
