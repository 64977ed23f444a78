// Correct small steps, into whose runs faults are injected. Together the steps
// contain everything that a fault may break.
#ifndef SHARDC_TESTS_VERIFY_STEP_SOUND_CASES_H_
#define SHARDC_TESTS_VERIFY_STEP_SOUND_CASES_H_

#include <cstdint>
#include <memory>
#include <string_view>

#include "model/dtype.h"
#include "model/mesh.h"
#include "step/program.h"
#include "verify/step/prove.h"

namespace shardc::verify {

enum class SoundStep : uint8_t {
  kTensor,     // dp 2, fsdp 2, tp 4: two layers, KV heads replicated over tp
  kSequence,   // dp 2, sp 2, tp 2: residual stream's tokens sharded over sp, tp
  kSplit,      // fsdp 2, tp 2: hidden size sharded over tp; latent attention
  kExperts,    // ep 4, sp 2, tp 2: tokens and experts sharded over ep
  kTokens,     // dp 2, ep 4: experts sharded over ep, but tokens not
  kDecode,     // sp 4, tp 2: attention sinks, and a cache sharded over sp
  kMicro,      // dp 2, fsdp 2: a step of two micro-batches
  kNarrow,     // as kTensor, but in float32
  kRecompute,  // as kTensor, with rematerialised layers and dropout
  kRing,       // sp 4, tp 2: attention sinks, and ring attention over sp
  // dp 2, tp 4 as the factors 2 * 2: each of 2 KV heads on the 2 devices of tp
  // whose query heads use it
  kFactored,
};
inline constexpr int kSoundSteps = 11;
std::string_view SoundStepName(SoundStep which);  // "tensor"

struct SoundCase {
  step::Graph graph = {};
  step::Sizes sizes = {};
  Mesh mesh = {};
  Dtype dtype = Dtype::kF64;
  step::Program program = {}, alone = {};
  StepData reference = {};

  StepCase Case() const;
};
// Builds and lowers a case. Returns null if it cannot be lowered.
std::unique_ptr<SoundCase> MakeSoundCase(SoundStep which);

}  // namespace shardc::verify

#endif  // SHARDC_TESTS_VERIFY_STEP_SOUND_CASES_H_
