// Directory: emit/verify. Writes the results of verification as text, JSON and
// tensor files.
// Its files include headers of these directories: source, model, floats, comm,
// exec/machine, verify/cases, verify/judge, verify, verify/step,
// verify/program, emit.
//
// Writes the results of `shardc verify` as JSON with the schema
// `shardc.verify/v1`.
#ifndef SHARDC_EMIT_VERIFY_VERIFY_JSON_H_
#define SHARDC_EMIT_VERIFY_VERIFY_JSON_H_

#include <string>
#include <vector>

#include "source/json_writer.h"
#include "source/sink.h"
#include "verify/cases/case.h"
#include "verify/program/proof.h"
#include "verify/report.h"

namespace shardc {

// How values per device are written: one value per device (kStacked), or the
// minimum, mean and maximum over devices (kReduced).
enum class Metrics { kReduced, kStacked };

void WriteVerifyCase(JsonWriter& json, const verify::Case& test,
                     const verify::CaseResult& result, Metrics metrics);
void WriteVerifyJson(const verify::Report& report, Metrics metrics, Sink& out);

// Returns a table with a line per case. The reasons of failures and of
// unsupported cases follow. Then come the attention projections whose sharding
// of heads differs from that of the cases, remarks, the sizes of the inputs
// (such as batch=2 and heads=8), and the number of cases by status.
std::string ReportText(const verify::Report& report);

// Writes the settings as members of an object. If `all` is true, all settings
// are written, each under its key in a settings file. Otherwise only the
// settings that apply to the operation are written.
void WriteSettingsMembers(JsonWriter& json, const verify::Case& test, bool all);

// Writes the proof of a traced program as text, and as JSON with the schema
// `shardc.program-proof/v1`.

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

#endif  // SHARDC_EMIT_VERIFY_VERIFY_JSON_H_
