// Reads the file of `--program`: a traced program, and the facts that it shows.
#ifndef SHARDC_CLI_TRACED_PROGRAM_H_
#define SHARDC_CLI_TRACED_PROGRAM_H_

#include <optional>
#include <string>

#include "cli/command.h"
#include "program/facts.h"
#include "program/program.h"
#include "source/finding.h"

namespace shardc::cli {

struct TracedProgram {
  program::Program program;
  program::Facts facts;
};

// Reads a traced program. Returns nullopt after a finding.
std::optional<TracedProgram> ReadTraced(const SourceRef& source,
                                        Findings& findings);

// Reads the traced program of a file. Returns nullopt after a finding.
std::optional<TracedProgram> ReadTracedFile(const std::string& path,
                                            Findings& findings);

// Prints what a traced program shows about the parameter `name`, or about
// all parameters if the name is empty. Returns the exit status.
int ExplainTraced(const SourceRef& source, const std::string& name,
                  const Common& common, Findings& findings);

}  // namespace shardc::cli

#endif  // SHARDC_CLI_TRACED_PROGRAM_H_
