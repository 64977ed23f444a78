// `shardc diff`: prints the differences between two plans, a plan and the plan
// of the current inputs, two modes of one plan, two step programs, or the
// sharding of a checkpoint and a plan.
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "cli/commands.h"
#include "cli/inputs.h"
#include "cli/output.h"
#include "cli/planned.h"
#include "emit/plans/plan_diff.h"
#include "plan/difference/plan_difference.h"
#include "source/file.h"
#include "source/finding.h"
#include "source/json_writer.h"
#include "source/list.h"
#include "source/wording.h"
#include "stored/tree.h"

namespace shardc::cli {
namespace {

// Compares a checkpoint's sharding with a plan. The checkpoint's shapes and
// shardings are first written as a plan, and this plan is compared with the
// given one:
//
//   `w` [16, 32] saved as P('fsdp', 'tp') on fsdp 2, tp 4
//     ->  {"mesh": fsdp 2, tp 4, "params": {"w": {"spec": ["fsdp", "tp"]}}}

// Returns the mesh on which all sharded arrays were saved. Returns nullopt
// after a finding, for example if there are several meshes.
std::optional<Mesh> MeshOf(const stored::Tree& tree, Findings& findings) {
  const stored::Array* first = nullptr;
  for (const stored::Array& array : tree.arrays) {
    if (!array.sharding) continue;
    if (first == nullptr) first = &array;
    if (array.sharding->mesh.axes == first->sharding->mesh.axes) continue;
    findings.Add(code::kInexpressible, {MakeSource(tree.path, {})},
                 "the checkpoint has arrays of several meshes: " +
                     ShortQuote(first->name) + " was saved on " +
                     MeshText(first->sharding->mesh) + ", and " +
                     ShortQuote(array.name) + " on " +
                     MeshText(array.sharding->mesh),
                 "compare a checkpoint of one mesh");
    return std::nullopt;
  }
  if (first != nullptr) return first->sharding->mesh;
  findings.Add(code::kMissing, {MakeSource(tree.path, {})},
               "the checkpoint records no sharding",
               "compare the plan by which it was saved");
  return std::nullopt;
}

void WriteParam(JsonWriter& json, const stored::Array& array) {
  json.Member(
      array.name,
      Record(
          "shape", array.shape, "dtype",
          array.dtype ? std::optional(DtypeName(*array.dtype)) : std::nullopt,
          "rule", nullptr, "spec",
          WrittenBy(WriteSpec, array.sharding ? array.sharding->spec : Spec()),
          "shard_shape", nullptr, "bytes_per_device", nullptr));
}

std::string PlanOf(const stored::Tree& tree, const Mesh& mesh,
                   const std::vector<Mode>& modes) {
  return JsonText([&](JsonWriter& json) {
    json.BeginObject();
    json.Members("schema", "shardc.plan/v1", "fingerprint", "", "mesh",
                 WrittenBy(WriteMesh, mesh, MeshDetail::kAll));
    json.Array("modes", modes, ModeName);
    json.Key("rules");
    json.BeginArray();
    json.EndArray();
    json.Key("params");
    json.BeginObject();
    for (const stored::Array& array : tree.arrays) WriteParam(json, array);
    json.EndObject();
    json.Key("attention");
    json.BeginObject();
    json.EndObject();
    json.EndObject();
  });
}

// Removes the differences in members that a plan has but a checkpoint lacks.
void RemoveOtherMembers(PlanDifference& difference) {
  difference.rules.clear();
  difference.attention.clear();
  difference.activations.clear();
  std::erase_if(difference.fields, [](const FieldChange& change) {
    return !change.detailed || change.field.ends_with("rule") ||
           change.field.starts_with("attention") ||
           change.field.starts_with("activations");
  });
}

// Compares the sharding that the checkpoint records with the plan's specs in
// each of the plan's modes. The difference lists the parameters that are
// resharded when the checkpoint is restored, and the names, shapes and data
// types that differ. Parameters without a recorded sharding are compared as
// replicated. Members that a checkpoint does not have, such as rules, are not
// compared. Returns nullopt after a finding: missing (the checkpoint records no
// sharding), inexpressible (several meshes), or an error in reading the
// checkpoint or the plan.
std::optional<PlanDifference> CompareCheckpoint(const std::string& path,
                                                const PlanTable& plan,
                                                Findings& findings) {
  const auto tree = stored::OpenTree(path, findings);
  if (!tree) return std::nullopt;
  const auto mesh = MeshOf(*tree, findings);
  if (!mesh) return std::nullopt;
  const auto saved =
      ReadPlanTable(MakeSource(path, PlanOf(*tree, *mesh, plan.classes.modes)),
                    EditedPlan::kAllowed, findings);
  if (!saved) return std::nullopt;
  auto difference = ComparePlans(*saved, plan, findings);
  if (difference) RemoveOtherMembers(*difference);
  return difference;
}

struct DiffFlags {
  InputFlags inputs;
  std::string before, after, output;
  Strings between;
  bool allow_edited = false;
};

// Compiles the inputs to a plan. Returns nullopt after a finding.
std::optional<PlanTable> ViewInputs(const DiffFlags& flags,
                                    const Common& common, Findings& findings) {
  const auto target = ChooseTarget(flags.inputs.asked, findings);
  if (!target) return std::nullopt;
  if (!IsNamed(target->mesh) && target->rules.empty() &&
      target->manifest.empty() && target->model.empty()) {
    findings.Add(
        code::kUsage, {},
        "there is nothing to compare " + ShortQuote(flags.before) + " with",
        "give a second plan, `shardc diff " + flags.before +
            " OTHER`, or the inputs of one: `--mesh`, `--rules` and "
            "`--manifest` or `--model`, or a target of `shardc.yaml`");
    return std::nullopt;
  }
  const auto compiled = LoadAndCompile(flags.inputs, *target, common, findings);
  if (compiled == nullptr) return std::nullopt;
  return TableOf(*compiled, findings);
}

std::optional<PlanDifference> Between(const DiffFlags& flags,
                                      Findings& findings) {
  const auto modes = ParseModes(flags.between, findings);
  if (!modes) return std::nullopt;
  if (modes->size() != 2 || !flags.after.empty()) {
    findings.Add(code::kUsage, {}, "--between compares two modes of one plan",
                 "write `shardc diff --between prefill,decode PLAN`");
    return std::nullopt;
  }
  const auto table =
      ReadTable(flags.before, EditedPlanOf(flags.allow_edited), findings);
  if (!table) return std::nullopt;
  const std::vector<Mode>& planned = table->classes.modes;
  for (const Mode mode : *modes) {
    // A plan always has the specs of train, even if its list of modes lacks
    // train.
    if (mode == Mode::kTrain || IsAmong(mode, planned)) {
      continue;
    }
    findings.Add(code::kUsage, {},
                 "the plan `" + flags.before + "` has no mode `" +
                     std::string(ModeName(mode)) + "`",
                 "write it with `shardc plan --modes`, or compare other modes");
    return std::nullopt;
  }
  return CompareModes(*table, modes->front(), modes->back());
}

// Returns whether the beginning of a file has the schema of a step program.
bool IsStepProgram(const SourceRef& source) {
  constexpr size_t kHead = 4096;
  return source->text().substr(0, kHead).find("\"shardc.step/") !=
         std::string_view::npos;
}

std::optional<PlanDifference> DiffOf(const DiffFlags& flags,
                                     const Common& common, Findings& findings) {
  const bool compiles = flags.after.empty() && flags.between.empty();
  if (!compiles &&
      !RefuseInputs(flags.inputs, "both sides are read from files", findings)) {
    return std::nullopt;
  }
  if (flags.before == "-" && flags.after == "-") {
    findings.Add(code::kUsage, {},
                 "both sides are `-`, and standard input has the text of one "
                 "file",
                 "give the path of a file for one of them");
    return std::nullopt;
  }
  if (!flags.between.empty()) return Between(flags, findings);
  if (stored::IsTree(flags.before)) {
    const auto plan =
        flags.after.empty()
            ? ViewInputs(flags, common, findings)
            : ReadTable(flags.after, EditedPlanOf(flags.allow_edited),
                        findings);
    if (!plan) return std::nullopt;
    return CompareCheckpoint(flags.before, *plan, findings);
  }
  const SourceRef source = ReadSource(flags.before, findings);
  if (source == nullptr) return std::nullopt;
  if (!flags.after.empty() && IsStepProgram(source)) {
    const SourceRef other = ReadSource(flags.after, findings);
    if (other == nullptr) return std::nullopt;
    return CompareSteps(source, other, findings);
  }
  const EditedPlan edited = EditedPlanOf(flags.allow_edited);
  const auto before = ReadPlanTable(source, edited, findings);
  const auto after = flags.after.empty()
                         ? ViewInputs(flags, common, findings)
                         : ReadTable(flags.after, edited, findings);
  if (!before || !after) return std::nullopt;
  return ComparePlans(*before, *after, findings);
}

int RunDiff(const DiffFlags& flags, const Common& common, Findings& findings) {
  const auto diff = DiffOf(flags, common, findings);
  if (!diff) return kFailed;
  const auto write = [&](Sink& out) {
    if (common.format == "json") {
      WriteDiffJson(*diff, out);
    } else if (common.format == "markdown") {
      WriteDiffMarkdown(*diff, out);
    } else {
      WriteDiffText(*diff, out);
    }
  };
  if (!PutResult(write, flags.output, findings)) return kFailed;
  return diff->empty() ? kDone : kFound;
}

Options OptionsOf(DiffFlags& flags) {
  Options options = {
      {.name = "BEFORE",
       .to = &flags.before,
       .value = "FILE",
       .help = "a plan, a step program, or the folder of a checkpoint of orbax",
       .required = true},
      {.name = "AFTER",
       .to = &flags.after,
       .value = "FILE",
       .help = "the other one; default: the plan of the inputs"}};
  Append(options, AllInputs(flags.inputs));
  Append(options, {{.name = "--between",
                    .need = HelpNeed::kOften,
                    .to = &flags.between,
                    .value = "MODE,MODE",
                    .help = "compare two modes of one plan, such as "
                            "prefill,decode",
                    .several = Several::kCommas},
                   AllowEditedOption(&flags.allow_edited),
                   OutputOption(&flags.output)});
  return options;
}

}  // namespace

Declared DeclareDiff() { return Declare(OptionsOf, RunDiff); }

}  // namespace shardc::cli
