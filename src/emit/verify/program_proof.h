// Writes the proof of a traced program as text, and as JSON with the schema
// `shardc.program-proof/v1`.
#ifndef SHARDC_EMIT_VERIFY_PROGRAM_PROOF_H_
#define SHARDC_EMIT_VERIFY_PROGRAM_PROOF_H_

#include <string>
#include <vector>

#include "source/sink.h"
#include "verify/program/proof.h"

namespace shardc {

struct ProofTexts {
  // What was proved: "models:step on dp=2 tp=2".
  std::string function, mesh;
  // The inputs' names, in their order.
  std::vector<std::string> inputs;
  // Inputs whose specs could not be used.
  std::vector<std::string> notes;
};

std::string ProgramProofText(const ProofTexts& texts,
                             const verify::ProgramProof& proof);
void WriteProgramProofJson(const ProofTexts& texts,
                           const verify::ProgramProof& proof, Sink& out);

}  // namespace shardc

#endif  // SHARDC_EMIT_VERIFY_PROGRAM_PROOF_H_
