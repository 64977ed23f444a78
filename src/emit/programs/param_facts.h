// Directory: emit/programs. Writes what a traced program shows about
// parameters.
// Its files include headers of these directories: source, program.
#ifndef SHARDC_EMIT_PROGRAMS_PARAM_FACTS_H_
#define SHARDC_EMIT_PROGRAMS_PARAM_FACTS_H_

#include <cstddef>
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
void WriteParamFactsJson(const program::Program& program,
                         const program::Facts& facts, size_t param, Sink& out);

}  // namespace shardc

#endif  // SHARDC_EMIT_PROGRAMS_PARAM_FACTS_H_
