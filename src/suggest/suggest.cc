// The stages in their order:
//
//   names -> kinds -> what dimensions count -> specs -> groups -> patterns
//         -> a file, and the rule that each tensor is meant to get by it
#include "suggest/suggest.h"

#include <algorithm>
#include <set>

#include "source/checked.h"
#include "suggest/write.h"

namespace shardc::suggest {
namespace {

// More than these times the ideal bytes, and rules are not to blame.
constexpr double kPoorRatio = 1.5;

// Of what is less, any device may hold all.
constexpr int64_t kLittle = int64_t{16} << 20;

// Trees of more kinds than these have names without counters.
constexpr size_t kMostKinds = 4096;

int64_t BytesPerDevice(const Tree& tree, const Choices& choices) {
  int64_t out = 0;
  for (size_t k = 0; k < tree.kinds.size(); ++k) {
    const Kind& kind = tree.kinds[k];
    const int64_t parts = choices.kinds[k].Parts();
    out = CheckedAdd(out, kind.total_bytes() / parts).value_or(INT64_MAX);
  }
  return out;
}

}  // namespace

double Suggestion::Ratio() const {
  if (tree.bytes <= 0) return 1;
  return static_cast<double>(bytes_per_device) *
         static_cast<double>(mesh.devices()) / static_cast<double>(mesh.dp) /
         static_cast<double>(tree.bytes);
}

Suggestion Suggest(const Request& request) {
  Suggestion out;
  out.mesh = AxesOf(*request.mesh);
  out.tree = KindsOf(*request.manifest);
  out.readings = ReadDims(out.tree, request.model, out.mesh.tp);
  out.choices = Choose(out.tree, out.readings, out.mesh, request.wishes);
  out.groups = GroupsOf(out.tree, out.readings, out.choices);
  std::vector<std::vector<uint32_t>> kinds;
  for (const Group& group : out.groups) kinds.push_back(group.kinds);
  if (out.tree.kinds.size() <= kMostKinds) {
    out.patterns = PatternsOf(out.tree, kinds);
  } else {
    out.patterns.groups.resize(out.groups.size());
  }
  out.bytes_per_device = BytesPerDevice(out.tree, out.choices);
  out.file = WriteFile(out, *request.mesh);
  out.rule_of.assign(request.manifest->tensors.size(), -1);
  int32_t rule = 0;
  for (const auto& group : out.patterns.groups) {
    for (const PatternOf& pattern : group) {
      for (const uint32_t k : pattern.kinds) {
        for (const uint32_t member : out.tree.Members(out.tree.kinds[k])) {
          out.rule_of[member] = rule;
        }
      }
      ++rule;
    }
  }
  return out;
}

std::string MisfitText(const Suggestion& suggestion) {
  std::string out;
  if (suggestion.tree.kinds.size() > kMostKinds) {
    return "the names have no counters to go by: " +
           std::to_string(suggestion.tree.kinds.size()) +
           " parameters would need a pattern each";
  }
  for (const std::string& axis : suggestion.mesh.unused) {
    out += (out.empty() ? "nothing uses axis `" : ", `") + axis + "`";
  }
  const MeshAxes& mesh = suggestion.mesh;
  std::set<std::string> used;
  for (const Choice& choice : suggestion.choices.kinds) {
    for (const auto& dim : choice.spec) {
      for (const Cut& cut : dim) {
        const std::string& t = cut.token;
        const bool data = t == "FSDP" || t == "SP" || t == "EP";
        used.insert(data ? t : t == "EXPERT" ? "EP" : "TP");
      }
    }
    if (!choice.place_axis.empty()) used.insert(choice.place_axis);
  }
  const std::pair<const char*, int64_t> axes[] = {
      {"FSDP", mesh.fsdp}, {"TP", mesh.tp}, {"EP", mesh.ep}};
  for (const auto& [token, size] : axes) {
    if (size <= 1 || used.contains(token)) continue;
    out += (out.empty() ? "" : "; ") + std::string(token) + " of size " +
           std::to_string(size) + " divides no parameter";
  }
  if (out.empty() && suggestion.Ratio() > kPoorRatio &&
      suggestion.bytes_per_device > kLittle) {
    int64_t whole = 0;
    int64_t weights = 0;
    for (size_t k = 0; k < suggestion.tree.kinds.size(); ++k) {
      const Kind& kind = suggestion.tree.kinds[k];
      if (kind.rank() < 2) continue;
      ++weights;
      const int64_t parts = suggestion.choices.kinds[k].Parts();
      if (2 * parts <= mesh.devices() / mesh.dp) ++whole;
    }
    out = std::to_string(whole) + " of " + std::to_string(weights) +
          " kinds of weights do not divide by every axis";
  }
  return out;
}

}  // namespace shardc::suggest
