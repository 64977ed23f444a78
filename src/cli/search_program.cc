// Computes the cost of a traced program on each mesh of a number of devices, as
// `cost --program` does: with the given rules, or with those that `suggest
// --program` writes for the mesh. The cheapest mesh is proved as `verify step
// --program` proves it. For example, 8 devices are 10 meshes of dp, fsdp and
// tp; suggested rules do not suit those whose tp divides no heads.
#include <algorithm>
#include <map>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "cli/compared_program.h"
#include "cli/output.h"
#include "cli/program_plan.h"
#include "cli/progress.h"
#include "cli/search_inputs.h"
#include "cli/suggested.h"
#include "cost/fit.h"
#include "cost/memory.h"
#include "cost/traced_program.h"
#include "emit/costs/cost_report.h"
#include "model/option_value.h"
#include "source/wording.h"
#include "verify/program/proof.h"

namespace shardc::cli {
namespace {

constexpr size_t kMostProgramMeshes = 10000;

class MeshSearch {
 public:
  MeshSearch(const SearchFlags& flags, const Common& common,
             const program::TracedProgram& traced,
             const cost::Settings& settings)
      : flags_(flags),
        common_(common),
        traced_(traced),
        settings_(settings),
        manifest_(program::ManifestOf(traced.program)) {
    common_.quiet = true;  // nobody answers questions about each mesh
  }

  // Returns the cost on a mesh, or why the program cannot run there.
  ProgramOnMesh On(const Mesh& mesh) {
    ProgramOnMesh out{.mesh = mesh};
    auto made = PlanOn(mesh, out.why_not);
    if (!made) return out;
    const ProgramPlan* const plan =
        &plans_.insert_or_assign(MeshWords(mesh), *std::move(made))
             .first->second;
    Findings findings;
    if (!CanRunOn(traced_.program, plan->mesh, findings)) {
      out.why_not = FirstOf(findings);
      return out;
    }
    out.cost =
        cost::CostOfProgram({.program = &plan->Of(traced_.program),
                             .mesh = plan->mesh,
                             .specs = plan->specs,
                             .profile = settings_.profile,
                             .capacity = cost::CapacityOf(Device{}, settings_),
                             .donates = flags_.donate});
    return out;
  }

  // Returns the verdict of a proof on a mesh that has a cost, or why there is
  // none.
  std::string ProofOn(const Mesh& mesh, bool& fails) const {
    const ProgramPlan* const plan = &plans_.at(MeshWords(mesh));
    if (mesh.devices > kMostProvedDevices) {
      return "not proved: more than " + std::to_string(kMostProvedDevices) +
             " devices";
    }
    Findings findings;
    const auto proof =
        verify::ProveProgram({.program = &plan->Of(traced_.program),
                              .mesh = plan->mesh,
                              .specs = plan->specs,
                              .threads = std::max(common_.threads, 1)},
                             findings);
    if (!proof) return "not proved: " + FirstOf(findings);
    fails = proof->failure.has_value();
    if (fails) {
      return "differs at " + Printable(proof->failure->line) + ": " +
             Printable(proof->failure->message);
    }
    return std::string("equal") +
           (proof->stand_ins.empty() ? "" : " but for stand-ins") + ": " +
           Counted(proof->values, "value");
  }

 private:
  static std::string FirstOf(const Findings& findings) {
    return findings.empty() ? "" : findings.all().front().message;
  }

  std::optional<ProgramPlan> PlanOn(const Mesh& mesh, std::string& why) const {
    std::optional<ProgramPlan> out;
    Findings findings;
    if (flags_.cost.inputs.asked.rules.empty()) {
      suggest::Preferences preferences;
      preferences.traced = &traced_;
      preferences.tensor_factors =
          FactorSearch(traced_, mesh, manifest_).Cheapest(false).factors;
      const auto rules = SuggestFor(manifest_, mesh, std::nullopt, preferences,
                                    common_, "rules");
      if (rules.Good() && rules.compiled != nullptr) {
        out = PlanOfCompiled(traced_.program, *rules.compiled, Mode::kTrain,
                             PlannedParts::kSplit);
      } else {
        why = rules.misfit.empty() && !rules.left.empty()
                  ? rules.left.front().message
                  : rules.misfit;
      }
    } else {
      InputFlags inputs = flags_.cost.inputs;
      inputs.asked.mesh = MeshWords(mesh);
      inputs.devices.clear();
      out = PlanOfProgram(traced_.program, "", inputs, Mode::kTrain,
                          PlannedParts::kSplit, common_, findings);
      if (!out || out->found) {
        why = FirstOf(findings);
        out.reset();
      }
    }
    if (!out && why.empty()) why = "the rules do not suit the mesh";
    return out;
  }

  const SearchFlags& flags_;
  Common common_;
  const program::TracedProgram& traced_;
  const cost::Settings& settings_;
  const Manifest manifest_;
  std::map<std::string, ProgramPlan> plans_;  // by the words of the mesh
};

}  // namespace

int SearchProgram(const SearchFlags& flags, const Common& common,
                  Findings& findings) {
  if (!RefuseOthers(
          OptionsOfSearch, flags,
          {"--program", "--donate", "--devices", "--rules", "--profile",
           "--memory", "--allow-outside", "--no-project"},
          findings)) {
    return kFailed;
  }
  if (common.format == "html") {
    findings.Add(code::kUsage, FlagPlace("--format", common.format),
                 "the search of a program has no page",
                 "write `--format text` or `--format json`");
    return kFailed;
  }
  const std::string& given = flags.cost.inputs.devices;
  if (given.empty()) {
    findings.Add(code::kUsage, {}, "no number of devices is given",
                 "write `--devices N`");
    return kFailed;
  }
  const auto devices = ParseInteger("--devices", given, 1, findings);
  const auto traced = ReadTracedFile(flags.program, findings);
  const auto settings =
      CostSettings(flags.cost, Target(), Mode::kTrain, findings);
  if (!devices || !traced || !settings) return kFailed;
  const auto meshes =
      *devices > kMostDevices
          ? std::nullopt
          : cost::MeshesOf(*devices, {"dp", "fsdp", "tp"}, kMostProgramMeshes);
  if (!meshes) {
    findings.Add(
        code::kLimit, FlagPlace("--devices", given),
        "meshes of " + CountText(*devices) + " devices are too many to search",
        "give fewer devices");
    return kFailed;
  }
  MeshSearch search(flags, common, *traced, *settings);
  ProgramSearch found{.function = traced->program.function,
                      .devices = *devices};
  if (settings->profile != nullptr) found.profile = settings->profile->name;
  const auto progress = CountedProgress(common, "meshes");
  for (const Mesh& mesh : *meshes) {
    if (progress) progress(found.meshes.size(), meshes->size(), "");
    found.meshes.push_back(search.On(mesh));
  }
  std::ranges::stable_sort(found.meshes,
                           [](const ProgramOnMesh& a, const ProgramOnMesh& b) {
                             if (!a.cost || !b.cost) return a.cost.has_value();
                             return cost::IsCheaper(*a.cost, *b.cost);
                           });
  const auto& best = found.meshes.front().cost;
  bool fails = false;
  ShowStage(common, "proving the cheapest mesh");
  if (best) found.proof = search.ProofOn(found.meshes.front().mesh, fails);
  const auto write = [&](Sink& out) {
    if (common.format == "json") return WriteProgramSearchJson(found, out);
    out.Append(ProgramSearchText(found));
  };
  if (!PutOut(write, findings)) return kFailed;
  const bool missing = best && (!best->Fits().value_or(!best->capacity) ||
                                (settings->profile != nullptr && !best->time));
  return best && !missing && !fails ? kDone : kFound;
}

}  // namespace shardc::cli
