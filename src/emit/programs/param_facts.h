// Directory: emit/programs. Writes what a traced program shows about
// parameters.
// Its files include headers of these directories: source, program.
#ifndef SHARDC_EMIT_PROGRAMS_PARAM_FACTS_H_
#define SHARDC_EMIT_PROGRAMS_PARAM_FACTS_H_

#include <cstddef>
#include <optional>
#include <string>

#include "program/facts.h"
#include "program/program.h"
#include "source/sink.h"

namespace shardc {

// Returns the factors of each dimension of a parameter, the parameters that are
// tied to it, how many devices can shard it, and the lines of evidence. `param`
// is an index into Facts::params.
std::string ParamFactsText(const program::Program& program,
                           const program::Facts& facts, size_t param);
// Returns a line with the factors of each parameter.
std::string AllParamFactsText(const program::Facts& facts);
// Writes the facts of one parameter, or of all.
void WriteParamFactsJson(const program::Program& program,
                         const program::Facts& facts,
                         std::optional<size_t> param, Sink& out);

}  // namespace shardc

#endif  // SHARDC_EMIT_PROGRAMS_PARAM_FACTS_H_
