// Reads a traced program from its JSON.
#ifndef SHARDC_PROGRAM_READ_H_
#define SHARDC_PROGRAM_READ_H_

#include <optional>

#include "program/program.h"
#include "source/finding.h"
#include "source/source.h"

namespace shardc::program {

// Returns whether the text is a JSON object with a schema `shardc.program/...`
// in its first 4096 bytes.
bool IsProgram(const SourceRef& source);

// Reads and checks a program: every number of a value is in range and defined
// before its use, and every shape follows from those of the operands. Returns
// nullopt after a finding.
std::optional<Program> ReadProgram(const SourceRef& source, Findings& findings);

}  // namespace shardc::program

#endif  // SHARDC_PROGRAM_READ_H_
