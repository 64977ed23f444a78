// The effects of the faults of pipelines. Each function changes a copy of a
// case's table, of its programs of sends and receives, or of the division of
// its layers, or changes the run.
#ifndef SHARDC_TESTS_VERIFY_STEP_STAGED_BREAKS_H_
#define SHARDC_TESTS_VERIFY_STEP_STAGED_BREAKS_H_

#include <cstdint>

#include "verify/step/staged_cases.h"

namespace shardc::verify {

// The parts of a case that a fault may change. If `programs` is empty, the
// programs of sends and receives are computed from the table.
struct Broken {
  schedule::Table table;
  schedule::Programs programs = {};
  StagedStep step;
  schedule::ChannelScope scope = schedule::ChannelScope::kPairAndKind;
  int64_t capacity = schedule::kUnbounded;
  exec::Seams seams = {};
  StagedFaults faults = {};
};

// Returns the program of each rank of a table: the list of its tasks, sends and
// receives. Ranks receive messages in the order in which these are sent.
schedule::Programs LoweredInTurn(const schedule::Table& table);

// Each function injects the fault that the table in staged_faults.cc describes.
// It returns false if the case has no place for the fault.
namespace breaks {

bool BackwardFirst(const StagedCase& of, Broken& out);
bool WeightFirst(const StagedCase& of, Broken& out);
bool ExchangeChunks(const StagedCase& of, Broken& out);
bool DropWeight(const StagedCase& of, Broken& out);
bool NeverBack(const StagedCase& of, Broken& out);
bool ForwardTwice(const StagedCase& of, Broken& out);
bool BackwardTwice(const StagedCase& of, Broken& out);
bool WrongRank(const StagedCase& of, Broken& out);
bool Cycle(const StagedCase& of, Broken& out);
bool SwapReceives(const StagedCase& of, Broken& out);
bool SwapSends(const StagedCase& of, Broken& out);
bool NoReceive(const StagedCase& of, Broken& out);
bool NoSend(const StagedCase& of, Broken& out);
bool OtherRank(const StagedCase& of, Broken& out);
bool OneByOne(const StagedCase& of, Broken& out);
bool OneChannel(const StagedCase& of, Broken& out);
bool OwnAlone(const StagedCase& of, Broken& out);
bool FewSlots(const StagedCase& of, Broken& out);
bool ChangeWeights(const StagedCase& of, Broken& out);
bool DividedTwice(const StagedCase& of, Broken& out);
bool MeanOfMeans(const StagedCase& of, Broken& out);
bool NormTwice(const StagedCase& of, Broken& out);
bool DataTwice(const StagedCase& of, Broken& out);
bool InNoStage(const StagedCase& of, Broken& out);
bool InTwoStages(const StagedCase& of, Broken& out);

}  // namespace breaks
}  // namespace shardc::verify

#endif  // SHARDC_TESTS_VERIFY_STEP_STAGED_BREAKS_H_
