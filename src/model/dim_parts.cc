// Splits a dimension of several parts into two, and joins it again:
//
//   [8, 2] in parts [2]  ->  [2, 4, 2], and [2, 2, 2] of it  ->  [4, 2]
#include "model/dim_parts.h"

#include "source/json_writer.h"

namespace shardc {

int64_t PartsAt(const DimParts& parts, size_t dim) {
  return dim < parts.size() ? parts[dim] : 1;
}

std::string DimPartsText(const DimParts& parts) {
  std::string out = "[";
  for (size_t i = 0; i < parts.size(); ++i) {
    out += (i == 0 ? "" : ", ") +
           (parts[i] == 1 ? std::string("null") : std::to_string(parts[i]));
  }
  return out + "]";
}

void WriteDimParts(JsonWriter& json, const DimParts& parts) {
  json.BeginArray();
  for (const int64_t count : parts) {
    if (count == 1) {
      json.Null();
    } else {
      json.Integer(count);
    }
  }
  json.EndArray();
}

std::string InPartsText(const DimParts& parts) {
  return parts.empty() ? "" : " in parts " + DimPartsText(parts);
}

bool PartsDivide(const DimParts& parts, const Shape& shape) {
  for (size_t dim = 0; dim < parts.size(); ++dim) {
    if (parts[dim] == 1) continue;
    if (dim >= shape.size() || shape[dim] % parts[dim] != 0) return false;
  }
  return true;
}

DimParts ShardedParts(const DimParts& parts, const Spec& spec) {
  DimParts out;
  for (size_t dim = 0; dim < parts.size() && dim < spec.size(); ++dim) {
    out.push_back(spec[dim].empty() ? 1 : parts[dim]);
  }
  while (!out.empty() && out.back() == 1) out.pop_back();
  return out;
}

Shape SplitShape(const Shape& shape, const DimParts& parts) {
  Shape out;
  for (size_t dim = 0; dim < shape.size(); ++dim) {
    const int64_t count = PartsAt(parts, dim);
    if (count > 1) out.push_back(count);
    out.push_back(shape[dim] / count);
  }
  return out;
}

Spec SplitSpec(const Spec& spec, const DimParts& parts) {
  Spec out;
  for (size_t dim = 0; dim < spec.size(); ++dim) {
    if (PartsAt(parts, dim) > 1) out.emplace_back();
    out.push_back(spec[dim]);
  }
  return out;
}

Shape JoinShape(const Shape& split, const DimParts& parts) {
  Shape out;
  for (size_t at = 0; at < split.size(); ++at) {
    const bool several = PartsAt(parts, out.size()) > 1;
    const int64_t count = several ? split[at++] : 1;
    out.push_back(count * split[at]);
  }
  return out;
}

size_t SplitDim(size_t dim, const DimParts& parts) {
  size_t out = dim;
  for (size_t before = 0; before <= dim; ++before) {
    out += PartsAt(parts, before) > 1 ? 1 : 0;
  }
  return out;
}

}  // namespace shardc
