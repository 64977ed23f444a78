#include "cli/committed_step.h"

#include <utility>

#include "cli/verify_step.h"
#include "source/list.h"
#include "step/build.h"

namespace shardc::cli {
namespace {

// Returns the modes whose step programs are committed. Only train, prefill and
// decode have step programs; insert has none. Of these three, returns the modes
// that the target lists. If it lists no modes, returns those in which the model
// can run: a model without a causal mask cannot decode.
std::vector<Mode> ModesOf(const Target& target, const Compiled& compiled,
                          const ModelConfig* config) {
  std::vector<Mode> out;
  for (const Mode mode : {Mode::kTrain, Mode::kPrefill, Mode::kDecode}) {
    const bool listed = IsAmong(mode, target.modes);
    const bool usual = target.modes.empty() &&
                       step::HasMode(*compiled.rules.model, config, mode);
    if (usual || listed) out.push_back(mode);
  }
  return out;
}

}  // namespace

std::optional<std::vector<verify::StepReport>> StepsToCommit(
    const Target& target, const Compiled& compiled,
    const std::optional<ModelConfig>& model, Findings& findings) {
  if (!HasDescription(compiled, findings)) return std::nullopt;
  std::vector<verify::StepReport> out;
  for (const Mode mode : ModesOf(target, compiled, model ? &*model : nullptr)) {
    verify::StepRequest request = UsualStep(compiled, model, target.batch);
    request.mode = mode;
    request.numbers = false;
    auto report = verify::VerifyStep(request, findings);
    if (!report) return std::nullopt;
    out.push_back(std::move(*report));
  }
  return out;
}

}  // namespace shardc::cli
