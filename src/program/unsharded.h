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
  // For a weight that a module without parameters of its own multiplies with,
  // the name of that module: a head that has the weight of the embedding.
  std::map<std::string, std::string, std::less<>> heads;
  // For an embedding, the modules without parameters of their own that look up
  // in it, such as those of an encoder and of a decoder.
  std::map<std::string, std::set<std::string>, std::less<>> lookups;
};
ModuleReads ReadsElsewhere(const Program& program);

// Returns for each dimension of a matrix why an axis of `parts` devices does
// not shard it, joined by `; `. Empty for vectors, and for a matrix that the
// axis can shard.
std::string WhyUnsharded(const Program& program, const Facts& facts,
                         const ParamFacts& param, int64_t parts);

// Returns the type of transformers whose code runs most ops, such as `llama`
// for `transformers/models/llama/modeling_llama.py`; empty if none does.
std::string TransformersType(const Program& program);

}  // namespace shardc::program

#endif  // SHARDC_PROGRAM_UNSHARDED_H_
