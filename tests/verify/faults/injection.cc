#include "verify/faults/injection.h"

#include <algorithm>

namespace shardc::verify {
namespace {

using exec::AttentionProblem;
using exec::AttentionSpecs;
using exec::Machine;
using exec::OperationSettings;

// Makes the length of keys and values unsharded, as if their specs came from
// another mode.
void OtherModesSpecs(const AttentionProblem&, const Machine&,
                     AttentionSpecs& specs, OperationSettings&) {
  for (Spec* spec : {&specs.key, &specs.value}) {
    *spec = exec::PadSpec(std::move(*spec), 4);
    (*spec)[1].clear();
  }
}

void DtypeOfQuery(const AttentionProblem& problem, const Machine&,
                  AttentionSpecs&, OperationSettings& settings) {
  settings.runtime_dtype = problem.query.dtype;
}

void BlocksByLocalSize(const AttentionProblem&, const Machine& machine,
                       AttentionSpecs&, OperationSettings& settings) {
  settings.blocksize_k =
      std::max<int64_t>(1, settings.blocksize_k / machine.devices());
}

void OneBitLess(const AttentionProblem&, const Machine&, AttentionSpecs&,
                OperationSettings& settings) {
  --settings.dot_bits;
}

ReplaceInputs WrongInputs(Fault fault) {
  switch (fault) {
    case Fault::kOtherModesSpec:
      return OtherModesSpecs;
    case Fault::kNarrowerDtype:
      return DtypeOfQuery;
    case Fault::kTileByLocalSize:
      return BlocksByLocalSize;
    case Fault::kDotFewerBits:
      return OneBitLess;
    default:
      return {};
  }
}

}  // namespace

Injection InjectionOf(Fault fault) {
  Injection out;
  out.replace_inputs = WrongInputs(fault);
  InjectIntoCollectives(fault, out.seams);
  InjectIntoSlices(fault, out.seams);
  InjectIntoArithmetic(fault, out.seams);
  InjectIntoCaches(fault, out.seams);
  InjectIntoPages(fault, out.seams);
  return out;
}

void Inject(const Injection& injection, RunOptions& options) {
  options.seams = injection.seams;
  options.replace_inputs = injection.replace_inputs;
}

}  // namespace shardc::verify
