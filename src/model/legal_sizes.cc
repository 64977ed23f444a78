// Checks the sizes of a model. The message of each check explains the mistake
// in one sentence:
//
//   6 heads, 4 KV heads   ->  4 KV heads cannot serve 6 attention heads: 4 does
//                             not divide 6
//   6 of 4 experts        ->  each token goes to 6 experts, and the model has 4
//                             experts
//   rotary dimension 63   ->  the rotary dimension is 63, which is not even and
//                             above 0
#include "model/legal_sizes.h"

#include <algorithm>
#include <cmath>
#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "source/json_writer.h"
#include "source/size.h"
#include "source/wording.h"

namespace shardc {
namespace {

using Which = IllegalSize::Which;

std::string NumberOfNouns(int64_t number, std::string_view one) {
  return std::to_string(number) + " " + std::string(one) +
         (number == 1 ? "" : "s");
}

// Returns whether the sizes of a dimension's parts sum to its size.
bool SumsTo(const std::vector<int64_t>& sizes, int64_t size) {
  int64_t left = size;
  for (const int64_t one : sizes) {
    if (one > left) return false;
    left -= one;
  }
  return left == 0;
}

void CheckHeads(int64_t heads, int64_t kv_heads,
                std::vector<IllegalSize>& out) {
  if (kv_heads > 0 && heads % kv_heads == 0) return;
  out.push_back({Which::kKvHeads,
                 NumberOfNouns(kv_heads, "KV head") + " cannot serve " +
                     NumberOfNouns(heads, "attention head") + ": " +
                     std::to_string(kv_heads) + " does not divide " +
                     std::to_string(heads),
                 "each KV head serves the same number of attention heads: "
                 "write a divisor of " +
                     std::to_string(heads)});
}

void CheckExperts(int64_t experts, int64_t chosen,
                  std::vector<IllegalSize>& out) {
  if (experts == 0 || (chosen >= 1 && chosen <= experts)) return;
  out.push_back({Which::kExpertsPerToken,
                 "each token goes to " + NumberOfNouns(chosen, "expert") +
                     ", and the model has " + NumberOfNouns(experts, "expert"),
                 "write a number from 1 to " + std::to_string(experts)});
}

void CheckRotary(int64_t rotary, std::optional<int64_t> head_dim,
                 std::vector<IllegalSize>& out) {
  const std::string text = "the rotary dimension is " + std::to_string(rotary);
  if (rotary < 2 || rotary % 2 != 0) {
    out.push_back({Which::kRotaryDim, text + ", which is not even and above 0",
                   "rotary embeddings rotate pairs of a head's elements"});
  } else if (head_dim && rotary > *head_dim) {
    out.push_back(
        {Which::kRotaryDim,
         text + ", and a head has " + NumberOfNouns(*head_dim, "element"),
         "write a number up to " + std::to_string(*head_dim)});
  }
}

}  // namespace

std::vector<IllegalSize> IllegalSizes(const ModelSizes& sizes) {
  std::vector<IllegalSize> out;
  if (sizes.heads && sizes.kv_heads) {
    CheckHeads(*sizes.heads, *sizes.kv_heads, out);
  }
  if (sizes.experts && sizes.experts_per_token) {
    CheckExperts(*sizes.experts, *sizes.experts_per_token, out);
  }
  if (sizes.rotary_dim) CheckRotary(*sizes.rotary_dim, sizes.head_dim, out);
  return out;
}

int64_t RotaryDim(int64_t head_dim, double fraction) {
  // A small margin is added before rounding down, because a product such as
  // 0.29 * 100 may be just below the intended integer.
  constexpr double kRounding = 1e-9;
  // The largest result, which fits int64_t. Callers refuse such a size.
  constexpr double kMost = 1e18;
  const double count = static_cast<double>(head_dim) * fraction + kRounding;
  return static_cast<int64_t>(std::floor(std::min(count, kMost)));
}

// The parts of dimensions, and dimensions of equal parts as two. For example:
//
//   [8, 2] in parts [2]  ->  [2, 4, 2], and [2, 2, 2] of it  ->  [4, 2]

const PartsOfDim& PartsAt(const DimParts& parts, size_t dim) {
  static const PartsOfDim one;
  return dim < parts.size() ? parts[dim] : one;
}

std::string PartsText(const PartsOfDim& parts) {
  if (!parts.several()) return "null";
  return parts.sizes.empty() ? std::to_string(parts.count)
                             : "[" + Join(parts.sizes, ", ") + "]";
}

std::string DimPartsText(const DimParts& parts) {
  return "[" + Join(parts, ", ", PartsText) + "]";
}

void WriteDimParts(JsonWriter& json, const DimParts& parts) {
  json.BeginArray();
  for (const PartsOfDim& of : parts) {
    if (!of.several()) {
      json.Null();
    } else if (of.sizes.empty()) {
      json.Integer(of.count);
    } else {
      json.Array(of.sizes);
    }
  }
  json.EndArray();
}

std::string InPartsText(const DimParts& parts) {
  return parts.empty() ? "" : " in parts " + DimPartsText(parts);
}

std::optional<std::vector<int64_t>> SizesOfParts(const PartsOfDim& parts,
                                                 int64_t size) {
  if (parts.sizes.empty()) {
    if (size % parts.count != 0) return std::nullopt;
    return std::vector<int64_t>(AsIndex(parts.count), size / parts.count);
  }
  return SumsTo(parts.sizes, size) ? std::optional(parts.sizes) : std::nullopt;
}

bool PartsDivide(const DimParts& parts, const Shape& shape) {
  for (size_t dim = 0; dim < parts.size(); ++dim) {
    const PartsOfDim& of = parts[dim];
    if (!of.several()) continue;
    if (dim >= shape.size()) return false;
    if (of.sizes.empty() ? shape[dim] % of.count != 0
                         : !SumsTo(of.sizes, shape[dim])) {
      return false;
    }
  }
  return true;
}

bool StatesSizes(const DimParts& parts) {
  return std::any_of(parts.begin(), parts.end(),
                     [](const PartsOfDim& of) { return !of.sizes.empty(); });
}

DimParts ShardedParts(const DimParts& parts, const Spec& spec) {
  DimParts out;
  for (size_t dim = 0; dim < parts.size() && dim < spec.size(); ++dim) {
    out.push_back(spec[dim].empty() ? PartsOfDim() : parts[dim]);
  }
  while (!out.empty() && !out.back().several()) out.pop_back();
  return out;
}

DimParts NumbersOfEqual(DimParts parts, const Shape& shape) {
  for (size_t dim = 0; dim < parts.size() && dim < shape.size(); ++dim) {
    std::vector<int64_t>& sizes = parts[dim].sizes;
    const bool equal = std::adjacent_find(sizes.begin(), sizes.end(),
                                          std::not_equal_to<>()) == sizes.end();
    if (equal && SumsTo(sizes, shape[dim])) sizes.clear();
  }
  return parts;
}

int64_t PartsAt(const EqualParts& parts, size_t dim) {
  return dim < parts.size() ? parts[dim] : 1;
}

DimParts DimPartsOf(const EqualParts& parts) {
  DimParts out;
  for (const int64_t count : parts) out.push_back({.count = count});
  return out;
}

std::optional<EqualParts> EqualPartsOf(const DimParts& parts) {
  return StatesSizes(parts) ? std::nullopt : std::optional(EqualAmong(parts));
}

EqualParts EqualAmong(const DimParts& parts) {
  EqualParts out;
  for (const PartsOfDim& of : parts) {
    out.push_back(of.sizes.empty() ? of.count : 1);
  }
  return out;
}

Shape SplitShape(const Shape& shape, const EqualParts& parts) {
  Shape out;
  for (size_t dim = 0; dim < shape.size(); ++dim) {
    const int64_t count = PartsAt(parts, dim);
    if (count > 1) out.push_back(count);
    out.push_back(shape[dim] / count);
  }
  return out;
}

Spec SplitSpec(const Spec& spec, const EqualParts& parts) {
  Spec out;
  for (size_t dim = 0; dim < spec.size(); ++dim) {
    if (PartsAt(parts, dim) > 1) out.emplace_back();
    out.push_back(spec[dim]);
  }
  return out;
}

Shape JoinShape(const Shape& split, const EqualParts& parts) {
  Shape out;
  for (size_t at = 0; at < split.size(); ++at) {
    const bool several = PartsAt(parts, out.size()) > 1;
    const int64_t count = several ? split[at++] : 1;
    out.push_back(count * split[at]);
  }
  return out;
}

size_t SplitDim(size_t dim, const EqualParts& parts) {
  size_t out = dim;
  for (size_t before = 0; before <= dim; ++before) {
    out += PartsAt(parts, before) > 1 ? 1 : 0;
  }
  return out;
}

}  // namespace shardc
