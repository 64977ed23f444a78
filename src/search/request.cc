// Decides whether a measured run is like a sharding that the search considers.
// The measured runs are the 364 published runs to which the cost model was
// fitted. On GPUs, no tensor-parallel group had more than the eight devices of
// a host. The sequence was sharded only with a fused attention kernel: at
// 32,768 tokens or more, or over two devices with cuDNN's attention at 8,192 or
// more. On TPUs, a step had one micro-batch, and a tensor-parallel group at
// most 16 devices. A sharding beyond these limits gets a reason such as
//
// Models with experts were measured apart, and none of their runs sent tokens
// to experts over more than eight hosts or had a tensor-parallel group of more
// than four devices. The axis of the experts is assumed to be next to those of
// the sequence and of tensor parallelism.
//
//   tp=16 on hosts of 8 H100s
//     ->  "no measured run has a tensor group of 16 over hosts of 8 devices"
#include "search/request.h"

#include <algorithm>

#include "cost/inputs.h"
#include "cost/rates.h"
#include "source/wording.h"

namespace shardc::search {
namespace {

constexpr int64_t kLongSequence = 32768, kSplitInTwo = 8192;
constexpr int64_t kMostTensorOnTorus = 16;
constexpr int64_t kMostExpertHosts = 8, kMostExpertsOnDevice = 32;
constexpr int64_t kMostTensorWithExperts = 4;

bool IsTorus(const DeviceProfile& profile) {
  return profile.fabric == Fabric::kTorus2d ||
         profile.fabric == Fabric::kTorus3d;
}

int64_t Product(const Mesh& mesh, const AxisRules& rules, AxisRule rule) {
  int64_t out = 1;
  for (const std::string& axis : rules.Value(rule).axes) {
    out *= mesh.SizeOf(axis);
  }
  return out;
}

}  // namespace

AxisSizes SizesOf(const Mesh& mesh, const AxisRules& rules) {
  return {Product(mesh, rules, AxisRule::kDataParallel),
          Product(mesh, rules, AxisRule::kFullyShardedDataParallel),
          Product(mesh, rules, AxisRule::kExpertParallel),
          Product(mesh, rules, AxisRule::kSequenceParallel),
          Product(mesh, rules, AxisRule::kTensorParallel),
          Product(mesh, rules, AxisRule::kExpert)};
}

std::string NoTorusRun(const DeviceProfile& profile, std::string_view what) {
  if (!IsTorus(profile)) return "";
  const std::string start =
      profile.name.starts_with("tpu-")
          ? "no measured TPU run has "
          : "no measured run on a torus, all of which are of TPUs, has ";
  return start + std::string(what);
}

std::string WhyUnmeasured(const AxisSizes& sizes,
                          const cost::Settings& settings, int64_t experts) {
  const DeviceProfile& profile = *settings.profile;
  const int64_t host = profile.chips_per_host * profile.devices_per_chip;
  if (IsTorus(profile)) {
    if (sizes.tensor > kMostTensorOnTorus) {
      return NoTorusRun(profile, "more than 16 devices in a tensor group");
    }
  } else if (sizes.tensor > host) {
    return "no measured run has a tensor group of " + CountText(sizes.tensor) +
           " over hosts of " + CountText(host) + " devices";
  }
  // The hosts of a rack with one switch count as one.
  const int64_t domain =
      std::max(host, profile.fabric_chips * profile.devices_per_chip);
  const int64_t reached =
      cost::Times(sizes.experts, sizes.sequence, sizes.tensor) / domain;
  if (sizes.experts > 1 && !IsTorus(profile) && reached > kMostExpertHosts) {
    return "no measured run sends tokens to experts over " +
           CountText(reached) + " hosts";
  }
  if (!IsTorus(profile) && experts > kMostExpertsOnDevice * sizes.holders) {
    return "no measured run on GPUs has more than " +
           CountText(kMostExpertsOnDevice) + " experts of a layer on a device";
  }
  if (experts > 0 && !IsTorus(profile) &&
      sizes.tensor > kMostTensorWithExperts) {
    return "no measured run of a model with experts has a tensor group of " +
           CountText(sizes.tensor);
  }
  const int64_t length = settings.length.value_or(0);
  const cost::Stack* const stack = settings.stack;
  const bool unfused =
      stack != nullptr && stack->kernel == cost::Kernel::kUnfused;
  const bool cudnn = stack != nullptr && stack->kernel == cost::Kernel::kCudnn;
  const bool split =
      !unfused && (length >= kLongSequence ||
                   (sizes.sequence == 2 && length >= kSplitInTwo && cudnn));
  if (sizes.sequence > 1 && !split) {
    return "no measured run divides a sequence of " + CountText(length) +
           " tokens by " + CountText(sizes.sequence);
  }
  return "";
}

std::string WhyUnmeasuredSettings(const cost::Settings& settings) {
  if (settings.microbatches <= 1) return "";
  return NoTorusRun(*settings.profile, "more than one micro-batch a step");
}

std::vector<Known> KnownChoices(bool has_experts) {
  std::vector<Known> out = {
      {"mesh",
       has_experts
           ? "of pairs of published runs of one model with experts on two "
             "meshes, whose speeds differ by more than 5 %, 87 of 101 have the "
             "expected order; of these meshes, the one that is expected to be "
             "the fastest is 2 % slower than the fastest on average, and 18 % "
             "at worst; no figure was fitted to these runs"
           : "of pairs of published runs of one model on two meshes, whose "
             "speeds differ by more than 5 %, 31 of 32 have the expected "
             "order"},
      {"rules",
       "no published run differs from another only in its rules; their parts "
       "of a step are those of the mesh"},
      {"rematerialisation",
       "published runs keep everything, nothing, half of the matmuls or all "
       "of them; other policies take times between theirs"},
      {"micro-batches",
       "GPU runs have up to 32 a step; TPU runs have one, and more are not "
       "measured there"},
      {"ZeRO stage",
       "published runs have the stages 0 to 3, but none differs from another "
       "only in the stage"},
      {"memory",
       std::string("28 published peaks have a median error of 3 %, and each "
                   "of 207 published runs fits its device") +
           (has_experts ? "; none of these models has experts" : "")},
      {"pipelines",
       "no figure was fitted to them: " + std::string(kPipelineErrors) +
           "; of a third of these, drawn at random, 90 of 100 within 11 %"},
      {"layers of a stage",
       "published runs divide layers evenly, some with the embedding and the "
       "head as a layer each; none divides them by the times of stages"},
      {"divided sequences",
       "seven of 36 published pipelines divide the sequence of 8,192 tokens or "
       "more on their ranks; their expected times are up to 20 % too short"},
      {"weights of stages",
       "six of the 36 runs have fully sharded data and gather the weights of a "
       "stage once a step; the expected peaks of memory are 2 to 16 % below "
       "the published ones. Three others are expected to take more than their "
       "device has: Nemotron 340B by 5 %, Llama 3 405B by 10 and 20 %, where "
       "it is not published which activations are kept"}};
  if (!has_experts) return out;
  out.push_back(
      {"experts",
       "not fitted: the expected times of published runs of models with "
       "experts that were kept apart have a median error of 12 %, and 90 of "
       "100 are within 32 %; first software of a device, and a router early in "
       "its training, are slower; differences below 10 % between two meshes "
       "mean nothing"});
  return out;
}

}  // namespace shardc::search
