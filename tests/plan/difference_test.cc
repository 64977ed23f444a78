// Compares a plan or a step program with an edited copy. The expected
// differences are in testdata/tables/differences.txt.
#include "plan/difference/plan_difference.h"

#include <doctest/doctest.h>

#include <optional>
#include <sstream>
#include <string>
#include <string_view>
#include <vector>

#include "tables.h"

namespace shardc {
namespace {

// A plan with parameters whose names differ only in numbers, one that is
// placed, and modes with other specs.
constexpr std::string_view kPlan = R"({
  "schema": "shardc.plan/v1",
  "fingerprint": "sha256:0",
  "mesh": {"axes": [{"name": "dp", "size": 2, "type": "auto"}, {"name": "tp", "size": 2, "type": "auto"}], "devices": 4, "processes": 2},
  "modes": ["train", "decode"],
  "rules": [{"match": "up", "source": "r:1", "params": 2}, {"match": ".*", "source": "r:2", "params": 2}],
  "params": {
    "layers.0.up": {"shape": [8, 4], "dtype": "F32", "spec": ["tp", null], "rule": 0, "shard_shape": [4, 4], "bytes_per_device": 64},
    "layers.1.up": {"shape": [8, 4], "dtype": "F32", "spec": ["tp", null], "rule": 0, "shard_shape": [4, 4], "bytes_per_device": 64},
    "experts.w": {"shape": [4], "dtype": "F32", "spec": [null], "rule": 1, "placement": {"axis": "tp", "coordinate": 1}, "shard_shape": [4], "bytes_per_device": 16},
    "norm": {"shape": [4], "dtype": "BF16", "spec": ["dp"], "rule": 1, "weight_decay": false, "shard_shape": [2], "bytes_per_device": 4, "modes": {"decode": {"spec": [null], "shard_shape": [4], "bytes_per_device": 8}}}
  },
  "attention": {"train": {"query": ["dp", null], "key": ["dp", null], "output": ["tp"]}, "decode": {"query": ["dp", null], "key": ["dp", null]}},
  "summary": {"params": 4, "elements": 72}
})";

constexpr std::string_view kStep = R"({
  "schema": "shardc.step/v1",
  "steps": [
    {"mode": "train", "status": "ok", "mesh": {"dp": 2}, "batch": 4, "length": 16,
     "ops": [
      {"phase": "forward", "part": "layer 0", "op": "linear q", "result": "[d,n]", "specs": "a to b", "collective": "all_gather", "axes": ["dp", "tp"], "bytes_per_device": 1024},
      {"phase": "forward", "part": "layer 0", "op": "linear q", "result": "[d,n]", "specs": "a to b", "collective": "all_gather", "axes": ["dp", "tp"], "bytes_per_device": 1024},
      {"phase": "backward", "part": "layer 0", "op": "linear k", "result": "[d,n]", "specs": "b to a", "collective": "all_reduce", "axes": ["tp"], "bytes_per_device": 2048}],
     "program": [0, 1, 2], "notes": ["n"], "problems": []},
    {"mode": "decode", "status": "unknown", "reason": "no model", "ops": []}
  ]
})";

std::string ModesText(const std::vector<Mode>& modes) {
  std::string out;
  for (const Mode mode : modes) {
    out += (out.empty() ? "" : "+") + std::string(ModeName(mode));
  }
  return out;
}

std::string Shown(const std::optional<int64_t>& bytes) {
  return bytes ? std::to_string(*bytes) : "unknown";
}

std::string Placed(const std::optional<ReadPlacement>& placed) {
  return placed ? placed->axis + "@" + std::to_string(placed->coordinate)
                : "not placed";
}

std::string NamesText(const NamedGroup& group) {
  return "`" + group.shown + "` (" + std::to_string(group.names.size()) + ", " +
         (group.type.shape ? ShapeText(*group.type.shape) : "?") + " of " +
         Shown(group.held) + ")";
}

std::string At(const Place& place) {
  return std::string(
      place.source->text().substr(place.begin, place.end - place.begin));
}

std::string TextOf(const PlanDifference& all) {
  std::ostringstream out;
  if (all.detailed) {
    out << "detailed, " << all.params_before << " and " << all.params_after
        << " parameters" << (all.other_mesh ? ", another mesh" : "") << '\n';
  }
  for (const HeldChange& one : all.held) {
    out << "held in " << ModesText(one.modes) << ": " << Shown(one.before)
        << " -> " << Shown(one.after) << '\n';
  }
  for (const NamedGroup& one : all.added) {
    out << "added " << NamesText(one) << '\n';
  }
  for (const NamedGroup& one : all.removed) {
    out << "removed " << NamesText(one) << '\n';
  }
  for (const TypeChange& one : all.reshaped) {
    out << "reshaped " << NamesText(one) << " from "
        << (one.before.shape ? ShapeText(*one.before.shape) : "?") << " of "
        << Shown(one.held_before) << '\n';
  }
  for (const SpecChange& one : all.specs) {
    out << "spec of " << NamesText(one) << " in " << ModesText(one.modes)
        << ": " << SpecText(one.before) << " -> " << SpecText(one.after) << ", "
        << Placed(one.placed_before) << " -> " << Placed(one.placed_after)
        << ", held " << Shown(one.held_before) << " -> "
        << Shown(one.held_after) << ", in all " << Shown(one.group_before)
        << " -> " << Shown(one.group_after);
    if (one.move) {
      out << ", " << CollectiveName(one.move->kind) << " over "
          << GroupText(one.move->axes) << " of "
          << Shown(one.sent_bytes_per_device);
    }
    out << '\n';
  }
  for (const RuleChange& one : all.rules) {
    out << "rule of " << NamesText(one) << ": " << one.before << " -> "
        << one.after << '\n';
  }
  for (const ActivationChange& one : all.attention) {
    out << "attention " << one.tensor << " in " << ModesText(one.modes) << ": "
        << SpecText(one.before) << " -> " << SpecText(one.after) << '\n';
  }
  for (const FieldChange& one : all.fields) {
    const std::string at = At(one.place);
    out << one.field << (one.detailed ? " (detailed)" : "") << " of "
        << one.names.size() << " at "
        << at.substr(0, at.find('\n')).substr(0, 24) << ": " << one.message
        << " [" << one.before.value_or("absent") << " -> "
        << one.after.value_or("absent") << "]\n";
  }
  for (const StepChange& one : all.steps) {
    const std::string at = At(one.place);
    out << one.mode << " at " << at.substr(0, at.find('\n')).substr(0, 40)
        << ": " << one.message << " (" << one.subject << "; "
        << one.count_before << " and " << one.count_after << " times, "
        << one.bytes_before << " and " << one.bytes_after << " bytes)\n";
  }
  return out.str().empty() ? "no difference\n" : out.str();
}

// Returns `text`, in which each line `from => to` of `edits` is replaced once.
std::string Edited(std::string text, const std::string& edits) {
  std::istringstream lines(edits);
  for (std::string line; std::getline(lines, line);) {
    const size_t arrow = line.find(" => ");
    REQUIRE_MESSAGE(arrow != std::string::npos, line);
    const std::string from = line.substr(0, arrow);
    const size_t at = text.find(from);
    REQUIRE_MESSAGE(at != std::string::npos, line);
    text.replace(at, from.size(), line.substr(arrow + 4));
  }
  return text;
}

TEST_CASE("what differs between two files") {
  CheckTable("differences.txt", [](const TableCase& given) {
    Findings errors;
    std::optional<PlanDifference> found;
    if (given.Find("modes") != nullptr) {
      const auto plan = ReadPlanTable(
          MakeSource("p", Edited(std::string(kPlan), given.Text("before"))),
          EditedPlan::kAllowed, errors);
      REQUIRE(plan);
      return TextOf(CompareModes(*plan, Mode::kTrain, Mode::kDecode));
    }
    const bool steps = given.Find("steps") != nullptr;
    const std::string text =
        Edited(std::string(steps ? kStep : kPlan), given.Text("before"));
    const auto compare = [&](const std::string& a, const std::string& b) {
      const SourceRef before = MakeSource("a", a), after = MakeSource("b", b);
      found = steps ? CompareSteps(before, after, errors)
                    : ComparePlans(before, after, errors);
    };
    compare(text, Edited(text, given.Text("edits")));
    if (found) return TextOf(*found);
    REQUIRE(!errors.empty());
    const Finding& error = errors.all()[0];
    return error.place.source->name() + ": " + error.message + " (" +
           error.help + ")\n";
  });
}

}  // namespace
}  // namespace shardc
