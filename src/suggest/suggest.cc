// The stages in their order:
//
//   names -> kinds -> what dimensions count -> specs -> groups -> patterns
//         -> a file, and the rule that each tensor is meant to get by it
#include "suggest/suggest.h"

#include <algorithm>
#include <set>
#include <tuple>
#include <utility>

#include "source/checked.h"
#include "source/wording.h"
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

double RatioOf(const Tree& tree, const MeshAxes& mesh, int64_t bytes) {
  if (tree.bytes <= 0) return 1;
  return static_cast<double>(bytes) * static_cast<double>(mesh.devices()) /
         static_cast<double>(mesh.dp) / static_cast<double>(tree.bytes);
}

// Axes of the mesh that cut nothing, with their sizes; copies over dp and
// tokens over sp aside.
std::vector<std::pair<std::string, int64_t>> UnusedAxes(
    const MeshAxes& mesh, const Choices& choices) {
  std::set<std::string> used;
  for (const Choice& choice : choices.kinds) {
    for (const auto& dim : choice.spec) {
      for (const Cut& cut : dim) {
        const std::string& t = cut.token;
        const bool data = t == "FSDP" || t == "SP" || t == "EP";
        used.insert(data ? t : t == "EXPERT" ? "EP" : "TP");
      }
    }
    if (!choice.place_axis.empty()) used.insert(choice.place_axis);
  }
  std::vector<std::pair<std::string, int64_t>> out;
  for (const auto& [token, name, size] :
       {std::tuple("FSDP", "fsdp", mesh.fsdp), std::tuple("TP", "tp", mesh.tp),
        std::tuple("EP", "ep", mesh.ep)}) {
    if (size > 1 && !used.contains(token)) out.emplace_back(name, size);
  }
  return out;
}

}  // namespace

double Suggestion::Ratio() const {
  return RatioOf(tree, mesh, bytes_per_device);
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
  out.misfit =
      out.tree.kinds.size() > kMostKinds
          ? "the names have no counters to go by: " +
                CountText(static_cast<int64_t>(out.tree.kinds.size())) +
                " parameters would need a pattern each"
          : MisfitOf(out.tree, out.mesh, out.choices);
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

std::string MisfitOf(const Tree& tree, const MeshAxes& mesh,
                     const Choices& choices) {
  std::string out;
  for (const std::string& axis : mesh.unused) {
    out += (out.empty() ? "nothing uses axis `" : "`, `") + axis;
  }
  if (!out.empty()) return out + "`";
  for (const auto& [name, size] : UnusedAxes(mesh, choices)) {
    out += (out.empty() ? "" : "; ") + name + " of size " +
           std::to_string(size) + " divides no parameter";
  }
  if (!out.empty()) return out;
  const int64_t bytes = BytesPerDevice(tree, choices);
  if (bytes <= kLittle || RatioOf(tree, mesh, bytes) <= kPoorRatio) return out;
  int64_t whole = 0;
  int64_t weights = 0;
  for (size_t k = 0; k < tree.kinds.size(); ++k) {
    if (tree.kinds[k].rank() < 2) continue;
    ++weights;
    if (2 * choices.kinds[k].Parts() <= mesh.devices() / mesh.dp) ++whole;
  }
  return std::to_string(whole) + " of " +
         Counted(weights, "kind of weight", "kinds of weights") +
         " do not divide by every axis";
}

}  // namespace shardc::suggest
