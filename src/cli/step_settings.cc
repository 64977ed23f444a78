// Reads the flags of `verify step`:
//
//   --mode train --microbatches 4 --remat dots_saveable  ->  a request for one
//   training step of four micro-batches
#include "cli/step_settings.h"

#include <algorithm>
#include <cstdint>
#include <string_view>
#include <utility>

#include "cli/output.h"
#include "cli/proof_dtypes.h"
#include "cli/verify_request.h"
#include "cli/verify_stages.h"
#include "source/wording.h"

namespace shardc::cli {
namespace {

constexpr int64_t kMostTokens = int64_t{1} << 32;

bool ReadCount(std::string_view flag, const std::string& text, int64_t& to,
               Findings& findings) {
  if (text.empty()) return true;
  const auto value = ParseInteger(flag, text, 1, findings);
  if (!value) return false;
  if (*value > kMostTokens) {
    findings.Add(code::kUsage, {},
                 "`" + std::string(flag) + "` is " + CountText(*value) + ", " +
                     CountText(kMostTokens) + " at most are counted");
    return false;
  }
  to = *value;
  return true;
}

// Returns false, and adds a finding, if a given flag has no effect in these
// modes.
bool SuitsModes(const StepFlags& flags, const std::vector<Mode>& modes,
                Findings& findings) {
  const bool reduces = flags.reduce_each || !flags.reduce.empty();
  if (reduces && flags.microbatches.empty()) {
    findings.Add(
        code::kUsage, {},
        std::string(flags.reduce_each ? "`--reduce-each`" : "`--reduce`") +
            " has no effect without micro-batches",
        "give their number with `--microbatches`, or leave it out");
    return false;
  }
  if (flags.reduce_each && !flags.reduce.empty() && flags.reduce != "each") {
    findings.Add(code::kUsage, FlagPlace("--reduce", flags.reduce),
                 "`--reduce-each` and `--reduce` differ", "give one of them");
    return false;
  }
  if (std::find(modes.begin(), modes.end(), Mode::kTrain) != modes.end()) {
    return true;
  }
  const std::pair<std::string_view, bool> of_training[] = {
      {"--remat", !flags.remat.empty()},
      {"--microbatches", !flags.microbatches.empty()},
      {"--zero", !flags.step_dtypes.zero.empty()},
      {"--grad-dtype", !flags.step_dtypes.gradients.empty()},
      {"--keep-gathered", flags.keep_gathered},
      {"--stages", flags.stages.Given()}};
  for (const auto& [name, given] : of_training) {
    if (!given) continue;
    findings.Add(code::kUsage, {},
                 "`" + std::string(name) +
                     "` has an effect only in a training step, and `--mode` "
                     "names none",
                 "leave it out, or give `--mode train`");
    return false;
  }
  return true;
}

}  // namespace

std::optional<StepSettings> ReadStepSettings(const StepFlags& flags,
                                             const Target& target,
                                             const Common& common,
                                             const Ranks& ranks,
                                             Findings& findings) {
  StepSettings out;
  auto modes = ParseModes(flags.modes.empty() ? Strings{"train"} : flags.modes,
                          findings);
  if (!modes || !SuitsModes(flags, *modes, findings) ||
      !ReadProofDtypes(flags.dtypes, out.dtypes, findings)) {
    return std::nullopt;
  }
  out.modes = std::move(*modes);
  verify::StepRequest& request = out.request;
  request.batch = target.batch.value_or(0);
  int64_t seed = 0;
  if (!ReadCount("--batch", flags.batch, request.batch, findings) ||
      !ReadCount("--seq", flags.length, request.length, findings)) {
    return std::nullopt;
  }
  if (!flags.seed.empty()) {
    const auto value = ParseInteger("--seed", flags.seed, 0, findings);
    if (!value) return std::nullopt;
    seed = *value;
  }
  if (flags.policy == "cost") request.policy = step::Policy::kCost;
  request.keep_gathered = flags.keep_gathered;
  if (flags.reduce_each) request.reduction = step::Reduction::kEach;
  const auto step_dtypes = ReadStepDtypes(flags.step_dtypes, request, findings);
  if (!step_dtypes) return std::nullopt;
  out.step_dtypes = *step_dtypes;
  if (!ReadReduction(flags.reduce, request.reduction, findings) ||
      !ReadRemat(flags.remat, request.remat, findings) ||
      !ReadCount("--microbatches", flags.microbatches, request.microbatches,
                 findings)) {
    return std::nullopt;
  }
  if (request.microbatches > kMostMicrobatches) {
    findings.Add(code::kUsage, {},
                 "`--microbatches` is " + CountText(request.microbatches) +
                     ", " + CountText(kMostMicrobatches) + " at most are run");
    return std::nullopt;
  }
  if (flags.operations.size() > 1) {
    findings.Add(
        code::kUsage, {},
        "a step has one attention operation, and `--operation` names " +
            std::to_string(flags.operations.size()),
        "name one with `--operation`");
    return std::nullopt;
  }
  if (!flags.operations.empty()) {
    request.operation = NamedOperation(flags.operations[0], {}, findings);
    if (request.operation == nullptr) return std::nullopt;
  }
  request.part = flags.part;
  request.full = flags.full;
  request.keep_tensors = !flags.dump.empty();
  request.seed = static_cast<uint64_t>(seed);
  request.threads = ranks.Threads(common.threads);
  request.transport = ranks.transport();
  return out;
}

}  // namespace shardc::cli
