// States why parameters of a traced program cannot be sharded by a runtime that
// shards the modules of PyTorch.
#ifndef SHARDC_PROGRAM_UNSHARDED_H_
#define SHARDC_PROGRAM_UNSHARDED_H_

#include <cstdint>
#include <map>
#include <set>
#include <string>

#include "program/facts.h"
#include "program/program.h"

namespace shardc::program {

// The parameters that another module of PyTorch than their own reads.
struct ModuleReads {
  // Why a parameter must be replicated, such as "the code of `layers.*.mixer`
  // reads `layers.0.mixer.dt_proj.bias` at model.py:12, where no style of the
  // module acts", or "the program does not read it".
  std::map<std::string, std::string, std::less<>> replicated;
  // Heads that share the weight of an embedding: the module that multiplies
  // with the weight and has no parameters of its own, by the weight's name.
  std::map<std::string, std::string, std::less<>> heads;
  // Modules that share an embedding, such as those of an encoder and of a
  // decoder: the modules that look up rows of the weight and have no parameters
  // of their own, by the weight's name.
  std::map<std::string, std::set<std::string>, std::less<>> lookups;
};
ModuleReads ReadsElsewhere(const Program& program);

// Returns for each dimension of a matrix why an axis of `parts` devices does
// not shard it, joined by `; `. The text has a meaning only if the plan shards
// no dimension of the matrix over the axis. Empty for vectors.
std::string WhyUnsharded(const Program& program, const Facts& facts,
                         const ParamFacts& param, int64_t parts);

// Returns the type of transformers whose code runs most ops, such as `llama`
// for `transformers/models/llama/modeling_llama.py`; empty if none does.
std::string TransformersType(const Program& program);

}  // namespace shardc::program

#endif  // SHARDC_PROGRAM_UNSHARDED_H_
