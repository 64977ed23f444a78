// Finds arguments that a compiled program shards in another way than a plan.
// The text of a partitioned program has the shape of each argument on a device
// and the argument's sharding:
//
//   %p = f32[4,32,64] parameter(3), sharding={devices=[1,2,2,2]<=[2,2,2]T(..)
//       last_tile_dim_replicate}, metadata={op_name="p['layers']['gate']"}
//   ->  layers/gate is sharded as [null, "fsdp", "tp"]
//
// The shape on a device, multiplied by the number of shards of each dimension,
// is the global shape: [4,64,128] here. The sharding is compared with the plan
// only if the plan's parameter of that name has this global shape.
//
// The paths of a parameter's argument and of its optimizer states often end
// in the same words and begin differently, and the plan may have a prefix that
// the path of a state lacks:
//
//   plan                 argument of a training step
//   params/layers/gate   params/layers/gate
//                        opt_state/0/mu/layers/gate
#include "audit/drift.h"

#include <algorithm>
#include <climits>
#include <functional>
#include <map>
#include <string_view>
#include <utility>

#include "hlo/groups.h"
#include "importers/rules/exact.h"
#include "importers/rules/hlo.h"
#include "source/size.h"
#include "source/utf8.h"
#include "source/wording.h"

namespace shardc::audit {
namespace {

struct Argument {
  std::string name;
  std::string_view at;  // the name of the instruction
  hlo::Array array;
  std::string_view sharding;  // empty if the text states none
};

// Returns the arguments that are arrays, in the order of the text.
std::vector<Argument> ArgumentsOf(const hlo::Program& program) {
  std::vector<Argument> out;
  const hlo::Computation& entry = program.computations[program.entry];
  for (uint32_t i = entry.begin; i < entry.end; ++i) {
    const hlo::Instruction at = program.instructions[i];
    if (at.opcode != "parameter") continue;
    const auto sharding = hlo::AttributeOf(at.attributes, "sharding");
    const auto path = hlo::OpNameOf(at);
    auto arrays = hlo::ArraysOf(at.type, hlo::kOneOrMore);
    if (arrays.size() != 1) continue;
    out.push_back({path ? imports::NameOfPath(*path) : std::string(at.name),
                   at.name, std::move(arrays[0]), sharding.value_or("")});
  }
  return out;
}

// Returns the name with slashes in place of dots, so that `a.b` and `a/b`
// compare equal.
std::string WithSlashes(std::string name) {
  std::ranges::replace(name, '.', '/');
  return name;
}

// Returns the spec without axes of size 1 and without unsharded dimensions at
// the end.
Spec Normal(const Mesh& mesh, Spec spec) {
  for (AxisGroup& group : spec) {
    std::erase_if(
        group, [&](const std::string& axis) { return mesh.SizeOf(axis) == 1; });
  }
  while (!spec.empty() && spec.back().empty()) spec.pop_back();
  return spec;
}

// Returns whether `array` is one shard of an array with the global shape
// `shape` under the spec. Without a spec, returns whether the ranks are equal.
bool MakesUp(const Mesh& mesh, const hlo::Array& array,
             const std::optional<Spec>& spec, const Shape& shape) {
  if (array.dims.size() != shape.size()) return false;
  for (size_t d = 0; spec && d < shape.size(); ++d) {
    const auto parts = mesh.Parts(AxesAt(*spec, d));
    if (!parts || CheckedMul(array.dims[d], *parts) != shape[d]) return false;
  }
  return true;
}

// Finds the parameter of a plan in the path of an argument.
class PlanNames {
 public:
  explicit PlanNames(std::span<const Planned> plan) {
    std::vector<std::pair<std::string, const Planned*>> names;
    for (const Planned& one : plan) {
      names.emplace_back(WithSlashes(one.name), &one);
    }
    // Each turn adds the names without one more part at the front, as long as
    // more than half of the plan's names share this part.
    bool only_containers = true;
    for (int dropped = 0; !names.empty();) {
      Add(names, dropped);
      const std::string prefix = CommonPart(names, plan.size());
      if (prefix.empty()) break;
      only_containers = only_containers && IsContainer(prefix);
      if (dropped == 0 || !only_containers) ++dropped;
      std::erase_if(names, [&](const auto& one) {
        return !one.first.starts_with(prefix);
      });
      for (auto& one : names) one.first.erase(0, prefix.size());
    }
  }

  struct Found {
    const Planned* parameter = nullptr;
    // The number of parts of the prefix that the path lacks. Containers of all
    // parameters at its beginning, as in `state/params/`, count as one part.
    int dropped = 0;
  };

  // Returns the parameter whose name ends the path. If there is none, the last
  // part of the path may name a state, as in `opt/layers/gate/mu`.
  Found Of(const std::string& argument) const {
    std::string name = WithSlashes(argument);
    for (int states = 0; states < 2; ++states) {
      const Found found = OfEnding(name);
      if (found.parameter != nullptr) return found;
      const size_t slash = name.rfind('/');
      if (slash == std::string::npos) break;
      name.resize(slash);
    }
    return {};
  }

 private:
  using Names = std::vector<std::pair<std::string, const Planned*>>;

  void Add(const Names& names, int dropped) {
    for (const auto& [name, parameter] : names) {
      const auto [at, added] = known_.try_emplace(name);
      if (added) {
        at->second = {parameter, dropped};
      } else if (dropped > 0 && at->second.dropped == dropped) {
        at->second.parameter = nullptr;  // two have the same end
      }
    }
  }

  // Returns whether a part, with its slash, is a usual name of what contains
  // all parameters of a model.
  static bool IsContainer(std::string_view part) {
    constexpr std::string_view kNames[] = {
        "params/", "param/",  "state/",     "train_state/", "model/",
        "module/", "target/", "variables/", "weights/"};
    return std::ranges::find(kNames, part) != std::end(kNames);
  }

  // Returns the first part, with its slash, that more than half of `all` names
  // share. Returns an empty text if there is none, if the part is a number, or
  // if it names a list, whose elements are numbered: `layers` in `layers/0/w`.
  static std::string CommonPart(const Names& names, size_t all) {
    std::map<std::string_view, size_t> counts;
    for (const auto& [name, parameter] : names) {
      const size_t slash = name.find('/');
      if (slash == std::string::npos || slash + 1 == name.size()) continue;
      if (IsDigit(name[0]) || IsDigit(name[slash + 1])) continue;
      const std::string_view part = std::string_view(name).substr(0, slash + 1);
      if (++counts[part] * 2 > all) return std::string(part);
    }
    return {};
  }

  Found OfEnding(std::string_view name) const {
    while (true) {
      const auto found = known_.find(name);
      if (found != known_.end()) return found->second;
      const size_t slash = name.find('/');
      if (slash == std::string_view::npos) return {};
      name.remove_prefix(slash + 1);
    }
  }

  std::map<std::string, Found, std::less<>> known_;
};

// Returns the parameter of each argument; null if it has none. A program leaves
// out the same prefix in all of its arguments, or the prefix is left out of the
// optimizer states alone. Names without more of the prefix are too short to
// identify a parameter: without `params/decoder`, the state of a parameter of
// an encoder would be taken for that of the decoder.
std::vector<const Planned*> ParametersOf(std::span<const Argument> arguments,
                                         std::span<const Planned> plan) {
  const PlanNames names(plan);
  std::vector<PlanNames::Found> found;
  int fewest = INT_MAX - 1;
  for (const Argument& one : arguments) {
    found.push_back(names.Of(one.name));
    if (found.back().parameter != nullptr) {
      fewest = std::min(fewest, found.back().dropped);
    }
  }
  std::vector<const Planned*> out;
  for (const auto& one : found) {
    out.push_back(one.dropped > fewest + 1 ? nullptr : one.parameter);
  }
  return out;
}

}  // namespace

Drifts DriftsOf(const hlo::Program& program, const Mesh& mesh,
                std::span<const Planned> plan, std::string_view only) {
  const auto arguments = ArgumentsOf(program);
  const auto parameters = ParametersOf(arguments, plan);
  std::vector<std::string_view> shardings;
  for (const Argument& one : arguments) {
    if (!one.sharding.empty()) shardings.push_back(one.sharding);
  }
  const auto specs = imports::SpecsOfShardings(program.source, mesh, shardings);
  Drifts out;
  out.has_shardings = !shardings.empty();
  size_t next = 0;  // index in `specs`
  for (size_t i = 0; i < arguments.size(); ++i) {
    const Argument& one = arguments[i];
    const Planned* planned = parameters[i];
    const bool stated = !one.sharding.empty();
    std::optional<Spec> actual =
        stated ? specs[next++] : std::optional<Spec>(std::nullopt);
    if (!only.empty() && (planned == nullptr || planned->name != only)) {
      continue;
    }
    if (planned == nullptr || !stated ||
        !MakesUp(mesh, one.array, actual, planned->shape)) {
      out.skipped.push_back(one.name);
      continue;
    }
    ++out.compared;
    const Spec expected = Normal(mesh, planned->spec);
    if (actual) actual = Normal(mesh, std::move(*actual));
    if (actual == expected) continue;
    out.all.push_back({one.name, planned->name, expected, std::move(actual),
                       std::string(one.sharding)});
  }
  return out;
}

std::vector<Flaw> BatchFlawsOf(const hlo::Program& program, const Mesh& mesh,
                               std::span<const Planned> plan,
                               const AxisGroup& batch) {
  auto arguments = ArgumentsOf(program);
  const auto parameters = ParametersOf(arguments, plan);
  std::vector<const Argument*> tokens;
  std::vector<std::string_view> shardings;
  for (size_t i = 0; i < arguments.size(); ++i) {
    const Argument& one = arguments[i];
    const bool integer =
        one.array.element == "s32" || one.array.element == "u32";
    if (parameters[i] != nullptr || !integer || one.array.dims.size() < 2 ||
        one.sharding.empty()) {
      continue;
    }
    tokens.push_back(&one);
    shardings.push_back(one.sharding);
  }
  const auto specs = imports::SpecsOfShardings(program.source, mesh, shardings);
  std::vector<Flaw> out;
  for (size_t i = 0; i < tokens.size(); ++i) {
    AxisGroup missing = batch;
    for (const AxisGroup& group : specs[i].value_or(Spec{batch})) {
      std::erase_if(missing, [&](const std::string& axis) {
        return std::ranges::find(group, axis) != group.end();
      });
    }
    std::erase_if(missing, [&](const std::string& axis) {
      return mesh.SizeOf(axis) == 1;
    });
    if (missing.empty()) continue;
    Flaw flaw;
    flaw.code = &code::kAxisUnusedInProgram;
    flaw.at = tokens[i]->at;
    flaw.parameter = tokens[i]->name;
    flaw.axis = missing.front();
    flaw.message = "the input " + ShortQuote(tokens[i]->name) +
                   " is not sharded over `" + AxesText(missing) +
                   "`, over which the plan shards the batch, so the devices " +
                   "along it get the same rows";
    flaw.help = "shard the batch of this input over `" + AxesText(batch) +
                "`: give it this sharding in `in_shardings` or by `device_put`";
    out.push_back(std::move(flaw));
  }
  return out;
}

}  // namespace shardc::audit
