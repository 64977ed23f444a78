// Proves shardings that a search found. The rules of the sharding are first
// written as text, and read again in the same way as by other commands. The
// proof therefore uses the rules that `cost` and `plan` will compile.
#include "cli/search_proof.h"

#include <optional>
#include <string>
#include <utility>

#include "cli/suggested.h"
#include "cli/verify_step.h"
#include "plan/kv_layout.h"
#include "plan/mesh_purposes.h"
#include "source/wording.h"

namespace shardc::cli {
namespace {

// The most devices of a step that is proved. A mesh of up to 16 devices shows
// the same mistakes as a larger mesh, in a fraction of the time.
constexpr int64_t kMostProofDevices = 16;

std::string ReducedText(const verify::StepReport& report) {
  const bool trains = report.mode == Mode::kTrain;
  return "passes `verify step" +
         (trains ? "" : " --mode " + std::string(ModeName(report.mode))) +
         "` at reduced sizes on " + MeshWords(report.reduced_mesh) +
         (report.stages ? ", in stages: " : ": ") +
         (trains ? Counted(report.gradients, "gradient") + ", " +
                       Counted(report.updates, "updated parameter")
                 : Counted(report.caches, "cache")) +
         ", every value equal to the dense model's";
}

std::string UnprovedText(const Findings& findings) {
  return "not proved: " + (findings.all().empty()
                               ? std::string("no step can be built")
                               : findings.all().front().message);
}

SearchProof VerdictOf(const std::optional<verify::StepReport>& report, int zero,
                      const Findings& findings) {
  SearchProof out;
  out.status = SearchProof::Status::kUnsupported;
  if (!report) {
    out.text = UnprovedText(findings);
  } else if (report->status == verify::StepStatus::kPass) {
    out.status = SearchProof::Status::kPass;
    out.text = ReducedText(*report);
    if (zero > 0) {
      out.text +=
          "; ZeRO " + std::to_string(zero) + " is not part of the proof";
    }
  } else if (report->status == verify::StepStatus::kFail) {
    out.status = SearchProof::Status::kFail;
    out.text = "fails, which is a defect of shardc: " +
               (report->problems.empty() ? std::string("a value differs")
                                         : report->problems.front());
  } else {
    out.text = "not proved: " + report->reason;
  }
  return out;
}

}  // namespace

std::unique_ptr<const Compiled> CompileSearched(
    const Mesh& mesh, const search::RulesFile& file, const SearchInputs& inputs,
    const CompileOptions& options,
    const std::function<std::string(const std::string&)>& source_name,
    Findings& findings) {
  const search::Request& request = inputs.request;
  const ModelConfig* const model = request.model ? &*request.model : nullptr;
  auto rules = request.read(file);
  if (!rules) return nullptr;
  ChoosePackAxes(*rules, model, mesh);
  for (Rule& rule : rules->rules) {
    if (source_name && rule.place.source != nullptr) {
      rule.source_name = source_name(rule.place.source->name());
    }
  }
  auto out =
      Compile(mesh, std::move(*rules), request.manifest, options, findings);
  if (out != nullptr) SetKv(model, *out);
  return out;
}

SearchProof ProveStep(const Mesh& mesh, const search::RulesFile& file,
                      const SearchInputs& inputs, int zero,
                      const SetStep& set) {
  SearchProof out;
  out.status = SearchProof::Status::kUnsupported;
  const search::Request& request = inputs.request;
  Findings findings;
  const auto compiled =
      CompileSearched(mesh, file, inputs, request.options, {}, findings);
  if (compiled == nullptr) {
    out.status = SearchProof::Status::kFail;
    out.text = "fails, which is a defect of shardc: the rules do not compile";
    return out;
  }
  if (compiled->rules.model == nullptr) {
    out.text = "not proved: no rules file describes the model's step";
    return out;
  }
  verify::StepRequest step = UsualStep(*compiled, request.model, std::nullopt);
  step.dtype = Dtype::kF64;
  step.threads = request.threads;
  step.most_devices = kMostProofDevices;
  if (!set(*compiled, step, findings)) {
    out.text = UnprovedText(findings);
    return out;
  }
  return VerdictOf(verify::VerifyStep(step, findings), zero, findings);
}

}  // namespace shardc::cli
