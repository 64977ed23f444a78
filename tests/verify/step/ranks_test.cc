// Proves a step whose devices are distributed over several ranks. All ranks
// must have the result of a proof in one process.
#include <doctest/doctest.h>

#include <mutex>
#include <string>
#include <vector>

#include "exec/machine/thread_transport.h"
#include "verify/step/prove.h"
#include "verify/step/sound_cases.h"

namespace shardc::verify {
namespace {

struct Proofs {
  StepProof alone;
  std::vector<StepProof> ranks;
};

Proofs Prove(StepCase test, int ranks) {
  Proofs out;
  out.alone = ProveStep(test);
  std::mutex mutex;
  exec::OnRanks(ranks, [&](exec::Transport& transport) {
    StepCase own = test;
    own.transport = &transport;
    StepProof proof = ProveStep(own);
    const std::lock_guard lock(mutex);
    out.ranks.push_back(std::move(proof));
  });
  return out;
}

void CheckSame(const StepProof& got, const StepProof& want) {
  REQUIRE(got.values.size() == want.values.size());
  for (size_t i = 0; i < want.values.size(); ++i) {
    CHECK(got.values[i].judged == want.values[i].judged);
    CHECK(got.values[i].error == want.values[i].error);
    CHECK(got.values[i].allowed == want.values[i].allowed);
  }
  REQUIRE(got.problems.size() == want.problems.size());
  for (size_t i = 0; i < want.problems.size(); ++i) {
    CHECK(got.problems[i].check == want.problems[i].check);
    CHECK(got.problems[i].op == want.problems[i].op);
    CHECK(got.problems[i].message == want.problems[i].message);
  }
  CHECK(got.ledger.TotalSent() == want.ledger.TotalSent());
  CHECK(got.ledger.moved().Total() == got.ledger.TotalSent());
  CHECK(got.ledger.crossed() > 0);
}

TEST_CASE("ranks prove what one process proves") {
  for (int i = 0; i < kSoundSteps; ++i) {
    const auto which = static_cast<SoundStep>(i);
    CAPTURE(SoundStepName(which));
    const auto sound = MakeSoundCase(which);
    REQUIRE(sound != nullptr);
    StepCase test = sound->Case();
    if (which == SoundStep::kNarrow) {
      test.dtype = Dtype::kBF16;
      test.reference = nullptr;
      test.more_sets = 1;
    }
    for (const int ranks : {2, 3}) {
      CAPTURE(ranks);
      const Proofs proofs = Prove(test, ranks);
      CHECK(proofs.alone.Holds());
      for (const StepProof& proof : proofs.ranks) {
        CheckSame(proof, proofs.alone);
      }
    }
  }
}

// All ranks must know of an error on one device.
TEST_CASE("ranks find what one process finds") {
  const auto sound = MakeSoundCase(SoundStep::kTensor);
  REQUIRE(sound != nullptr);
  for (const int wrong : {0, 7, 15}) {
    CAPTURE(wrong);
    StepCase test = sound->Case();
    exec::LocalOpSeam seam;
    seam.run = [wrong](const exec::LocalOp& local) {
      exec::RunLocalOp(local);
      if (local.device != wrong || local.out->wide.empty()) return;
      local.out->wide.front() += 1e-6;
    };
    test.seams.Set(seam);
    const Proofs proofs = Prove(test, 4);
    CHECK_FALSE(proofs.alone.Holds());
    CHECK(proofs.alone.Failed(StepCheck::kConstraints));
    for (const StepProof& proof : proofs.ranks) {
      CHECK_FALSE(proof.Holds());
      REQUIRE_FALSE(proof.problems.empty());
      CHECK(proof.problems.front().op == proofs.alone.problems.front().op);
    }
  }
}

}  // namespace
}  // namespace shardc::verify
