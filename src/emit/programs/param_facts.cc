// Writes the facts about one parameter. A dimension that holds several parts
// one after the other has a line for each part, and no number of devices:
//
//   dimension 1  1536 = (heads 8 x head_dim 64 | heads 8 x head_dim 64 | ...)
//     part       0 to 511: heads 8 x head_dim 64
//     devices    none: contiguous ranges would mix its 3 parts
//     the 3 parts
//       slices separate its parts (model.py:12)
#include "emit/programs/param_facts.h"

#include <algorithm>
#include <optional>
#include <set>
#include <utility>
#include <vector>

#include "source/json_writer.h"
#include "source/wording.h"

namespace shardc {
namespace {

using program::Evidence;
using program::Factor;
using program::FactorList;
using program::Facts;
using program::ParamFacts;
using program::Program;
using program::Use;

// Larger meshes are not listed.
constexpr int64_t kMostDevices = 4096;
constexpr size_t kListedTies = 4;
constexpr size_t kListedNumbers = 8;
constexpr size_t kListedEvidence = 3;

struct UseRow {
  std::string_view name;  // in JSON
  std::string_view text;
};

// In the order of Use.
constexpr UseRow kUses[] = {
    {"contracted",
     "a dot contracts it: devices that shard it have partial sums"},
    {"produced", "a dot with a weight produces it"},
    {"batched", "it is a batch dimension of a dot"},
    {"passed", "a dot of activations passes it"},
    {"reduced", "a reduction combines it"},
    {"divided", "slices separate its parts"},
    {"joined", "a concatenation joins its parts"},
    {"scanned", "a loop runs over it, one element a turn"},
    {"looked_up", "indices pick its elements"},
    {"ordered", "a sort or a cumulative op needs all of it"},
    {"searched", "a top_k searches all of it"},
    {"shifted", "elements move along it"},
    {"window", "it counts taps of a convolution"},
    {"feature", "it is a feature dimension of a convolution"},
    {"grouped", "it counts the groups of a ragged dot"},
    {"opaque", "an op that is not known reads it"},
    {"repeated", "two dimensions of one value have it: an axis shards one"},
    {"unreconciled", "it is tied to a dimension with other factors"},
};

const UseRow& RowOf(Use use) { return kUses[static_cast<size_t>(use)]; }

// Returns the numbers of devices that can shard a dimension.
std::vector<int64_t> DevicesOf(const Facts& facts, const FactorList& dim) {
  std::vector<int64_t> out;
  const int64_t most = std::min(kMostDevices, facts.SizeOf(dim));
  for (int64_t n = 2; n <= most; ++n) {
    if (facts.CanShard(dim, n)) out.push_back(n);
  }
  return out;
}

std::string NumbersText(std::span<const int64_t> numbers) {
  return Join(First(numbers, kListedNumbers), ", ") +
         (numbers.size() > kListedNumbers ? ", ..." : "");
}

// Returns lines for the numbers of devices, one for each list of factors that
// they shard.
std::string DevicesText(const Facts& facts, const FactorList& dim) {
  const auto numbers = DevicesOf(facts, dim);
  if (!numbers.empty()) {
    std::string out;
    for (size_t i = 0; i < numbers.size();) {
      const FactorList sharded = facts.Sharded(dim, numbers[i]);
      const size_t begin = i;
      while (i < numbers.size() &&
             facts.Sharded(dim, numbers[i]).size() == sharded.size()) {
        ++i;
      }
      out += "    devices    " +
             NumbersText(std::span(numbers).subspan(begin, i - begin)) +
             ": shard " + facts.Text(sharded) + "\n";
    }
    return out;
  }
  if (dim.empty()) return "";
  const Factor& lead = facts.factors[dim[0]];
  std::string why = "its size has no other divisors";
  if (!lead.parts.empty()) {
    why = "contiguous ranges would mix its " +
          std::to_string(lead.parts.size()) + " parts";
  }
  return "    devices    none: " + why + "\n";
}

std::string PartsText(const Facts& facts, const FactorList& dim) {
  std::string out;
  if (dim.empty() || facts.factors[dim[0]].parts.empty()) return out;
  const int64_t inner = facts.SizeOf(dim) / facts.factors[dim[0]].size;
  const FactorList rest(dim.begin() + 1, dim.end());
  int64_t begin = 0;
  for (const FactorList& part : facts.factors[dim[0]].parts) {
    const int64_t end = begin + facts.SizeOf(part) * inner;
    FactorList list = part;
    list.insert(list.end(), rest.begin(), rest.end());
    out += "    part       " + std::to_string(begin) + " to " +
           std::to_string(end - 1) + ": " + facts.Text(list) + "\n";
    begin = end;
  }
  return out;
}

// Returns the factors of a dimension, and those of its parts.
void Collect(const Facts& facts, const FactorList& dim,
             std::vector<uint32_t>& out) {
  for (const uint32_t factor : dim) {
    if (std::ranges::find(out, factor) != out.end()) continue;
    out.push_back(factor);
    for (const FactorList& part : facts.factors[factor].parts) {
      Collect(facts, part, out);
    }
  }
}

std::string TiesText(const Facts& facts, uint32_t factor, size_t param) {
  std::string out;
  size_t listed = 0;
  size_t more = 0;
  for (const program::Occurrence& one : facts.factors[factor].occurrences) {
    if (one.param == param) continue;
    if (listed == kListedTies) {
      ++more;
      continue;
    }
    out += (listed++ == 0 ? "" : ", ") +
           Printable(facts.params[one.param].name) + " dimension " +
           std::to_string(one.dim);
  }
  if (more > 0) out += ", " + std::to_string(more) + " more";
  return out.empty() ? "" : "      tied to " + out + "\n";
}

// Evidence of a sum is not repeated for its parts; `of_sum` has it.
std::string EvidenceText(const Program& program, const Factor& factor,
                         std::span<const Evidence> of_sum) {
  std::vector<std::pair<std::pair<Use, bool>, std::vector<const Evidence*>>>
      groups;
  for (const Evidence& one : factor.evidence) {
    if (std::ranges::find(of_sum, one) != of_sum.end()) continue;
    const std::pair key(one.use, one.activations);
    auto at = std::ranges::find(groups, key,
                                [](const auto& group) { return group.first; });
    if (at == groups.end()) {
      groups.push_back({key, {}});
      at = groups.end() - 1;
    }
    at->second.push_back(&one);
  }
  std::string out;
  for (const auto& [key, lines] : groups) {
    std::string text(RowOf(key.first).text);
    if (key.second && key.first != Use::kFree && key.first != Use::kLookedUp) {
      const size_t dot = text.find("a dot");
      if (dot != std::string::npos) text.insert(dot + 5, " of activations");
    }
    std::string places;
    size_t listed = 0;
    for (const Evidence* const one : lines) {
      if (!one->at.known() || listed == kListedEvidence) continue;
      places +=
          (listed++ == 0 ? "" : ", ") + Printable(program.LineText(one->at));
    }
    if (lines.size() > listed && listed > 0) {
      places += ", " + std::to_string(lines.size() - listed) + " more";
    }
    out += "      " + text + (places.empty() ? "" : " (" + places + ")") + "\n";
  }
  return out;
}

// A dimension of a description without factors is not known.
bool IsKnown(const ParamFacts& param, size_t d) {
  return !param.dims[d].empty() || param.shape[d] <= 1;
}

std::string TextOf(const Facts& facts, const ParamFacts& param, size_t d) {
  if (IsKnown(param, d)) return facts.Text(param.dims[d]);
  return std::to_string(param.shape[d]) + ", not known";
}

void WriteList(JsonWriter& json, const Facts& facts, const FactorList& dim,
               std::set<uint32_t>& used) {
  json.BeginArray();
  for (const uint32_t factor : dim) {
    json.Integer(static_cast<int64_t>(factor));
    used.insert(factor);
    for (const FactorList& part : facts.factors[factor].parts) {
      std::vector<uint32_t> inner;
      Collect(facts, part, inner);
      used.insert(inner.begin(), inner.end());
    }
  }
  json.EndArray();
}

void WriteFactor(JsonWriter& json, const Program& program, const Facts& facts,
                 uint32_t index) {
  const Factor& factor = facts.factors[index];
  json.BeginObject(JsonLayout::kLines);
  json.Members("size", factor.size, "role", RoleName(factor.role));
  json.Key("parts");
  json.BeginArray();
  for (const FactorList& part : factor.parts) {
    json.Array(part, [](uint32_t one) { return static_cast<int64_t>(one); });
  }
  json.EndArray();
  json.Records("tied", factor.occurrences, [&](const program::Occurrence& one) {
    json.Members("param", facts.params[one.param].name, "dim",
                 static_cast<int64_t>(one.dim));
  });
  json.Key("evidence");
  json.BeginArray(factor.evidence.empty() ? JsonLayout::kInline
                                          : JsonLayout::kLines);
  for (const Evidence& one : factor.evidence) {
    json.Object("use", RowOf(one.use).name, "activations", one.activations,
                "at", TextOrNull(program.LineText(one.at)), "count", one.count);
  }
  json.EndArray();
  json.EndObject();
}

}  // namespace

std::string ParamFactsText(const Program& program, const Facts& facts,
                           size_t param) {
  const ParamFacts& one = facts.params[param];
  std::string out = Printable(one.name) + " " + ShapeText(one.shape) + " in " +
                    Printable(program.function) + "\n";
  for (size_t d = 0; d < one.dims.size(); ++d) {
    const FactorList& dim = one.dims[d];
    out += "  dimension " + std::to_string(d) + "  " +
           std::to_string(one.shape[d]) +
           (!IsKnown(one, d) ? ", not known"
            : dim.empty()    ? ""
                             : " = " + facts.Text(dim)) +
           "\n";
    out += PartsText(facts, dim);
    out += DevicesText(facts, dim);
    std::vector<uint32_t> all;
    Collect(facts, dim, all);
    const std::span<const Evidence> of_sum =
        dim.empty() || facts.factors[dim[0]].parts.empty()
            ? std::span<const Evidence>()
            : std::span<const Evidence>(facts.factors[dim[0]].evidence);
    for (const uint32_t index : all) {
      const Factor& factor = facts.factors[index];
      const bool sum = !factor.parts.empty();
      out +=
          "    " +
          (sum ? "the " + std::to_string(factor.parts.size()) + " parts"
               : facts.Text({index})) +
          "\n" + TiesText(facts, index, param) +
          EvidenceText(program, factor,
                       index == dim[0] ? std::span<const Evidence>() : of_sum);
    }
  }
  return out;
}

std::string AllParamFactsText(const Facts& facts) {
  size_t width = 0;
  for (const ParamFacts& one : facts.params) {
    width = std::max(width, Printable(one.name).size());
  }
  std::string out;
  for (const ParamFacts& one : facts.params) {
    std::string line = Printable(one.name);
    line.resize(width, ' ');
    for (size_t d = 0; d < one.dims.size(); ++d) {
      line += "  [" + TextOf(facts, one, d) + "]";
    }
    out += line + "\n";
  }
  return out;
}

void WriteParamFactsJson(const Program& program, const Facts& facts,
                         std::optional<size_t> param, Sink& out) {
  JsonWriter json(out);
  json.BeginObject(JsonLayout::kLines);
  json.Members("schema", "shardc.param-facts/v1", "function", program.function);
  json.Key("params");
  json.BeginArray(JsonLayout::kLines);
  std::set<uint32_t> used;
  for (size_t i = 0; i < facts.params.size(); ++i) {
    if (param && *param != i) continue;
    const ParamFacts& one = facts.params[i];
    json.BeginObject();
    json.Member("param", one.name);
    json.Key("dims");
    json.BeginArray();
    for (size_t d = 0; d < one.dims.size(); ++d) {
      json.BeginObject();
      json.Member("size", one.shape[d]);
      json.Key("factors");
      if (IsKnown(one, d)) {
        WriteList(json, facts, one.dims[d], used);
      } else {
        json.Null();
      }
      json.Member("devices", DevicesOf(facts, one.dims[d]));
      json.EndObject();
    }
    json.EndArray();
    json.EndObject();
  }
  json.EndArray();
  json.Key("factors");
  json.BeginObject(JsonLayout::kLines);
  for (const uint32_t factor : used) {
    json.Member(std::to_string(factor),
                WrittenBy(WriteFactor, program, facts, factor));
  }
  json.EndObject();
  json.EndObject();
  out.Append("\n");
}

}  // namespace shardc
