// The facts that a program shows about its parameters: the factors of each
// dimension, what each factor counts, and the lines of evidence.
#ifndef SHARDC_PROGRAM_FACTS_H_
#define SHARDC_PROGRAM_FACTS_H_

#include <cstdint>
#include <map>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "program/program.h"
#include "program/ties.h"

namespace shardc::program {

// What a factor counts. Only the uses of the factor decide, never a name.
enum class FactorRole : uint8_t {
  kUnknown,
  kBatch,
  kSequence,
  kPosition,  // looked up by what does not depend on data
  kLayers,    // a loop runs over it
  kStream,    // most dots with weights contract and produce it
  kHeads,
  kKvHeads,
  // Groups of a mixer's heads that share B and C, the keys and queries of a
  // state, as in Mamba-2: no keys of them are cached.
  kStateGroups,
  kGroup,  // query heads for each KV head, or heads for each state group
  kHeadDim,
  kInner,   // produced by a dot with a weight and contracted by another
  kLatent,  // an inner of at most half of all sizes that it connects
  kExperts,
  kVocab,   // looked up by data
  kParts,   // counts parts that slices separate
  kWindow,  // taps of a convolution
  kChannels,
  kIn,  // contracted only
  kOut  // produced only
};
std::string_view RoleName(FactorRole role);
// Returns whether factors with this role count heads, or those of keys and
// values, or groups of them. A list of factors may continue with kGroup.
bool CountsHeads(FactorRole role);

// A dimension as indices into Facts::factors, the outermost factor first.
using FactorList = std::vector<uint32_t>;

struct Evidence {
  Use use = Use::kContracted;
  // Whether the other operand of a dot depends on data and the factor's operand
  // does too, so that it is a dot of activations.
  bool activations = false;
  Line at;
  int64_t count = 1;  // how many ops of the line do it

  bool operator==(const Evidence&) const = default;
};

// Where a factor occurs in a parameter.
struct Occurrence {
  uint32_t param = 0;  // index into Facts::params
  uint32_t dim = 0;
};

struct Factor {
  int64_t size = 1;
  FactorRole role = FactorRole::kUnknown;
  // The parts, one after the other, if the factor is their sum.
  std::vector<FactorList> parts;
  std::vector<Evidence> evidence;       // in the order of the program
  std::vector<Occurrence> occurrences;  // in the order of the parameters
  // Measures for the choice of what to shard: the multiplications of dots with
  // a weight that have the factor, and the elements that would be reduced or
  // gathered if it were sharded.
  double flops = 0;
  double communicated = 0;
  // Whether an op needs all elements of the factor on a device: a sort, a loop
  // over it, or an op that nothing is known of.
  bool needs_replication = false;
};

struct ParamFacts {
  std::string name;
  ValueId value = 0;
  Shape shape;
  std::vector<FactorList> dims;
  bool looked_up = false;  // whether lookups read it
  // The factors that dots contract which read the parameter alone.
  FactorList contracted;
};

struct Facts {
  std::vector<Factor> factors;  // in the order of their occurrence in params
  std::vector<ParamFacts> params;
  // For each value of the forward pass with several factors that a mesh axis
  // cannot shard at the same time: the indices of its factors.
  std::vector<FactorList> together;

  // Returns whether an axis of `parts` devices shards the dimension in equal,
  // contiguous ranges that split no inner factor and no part.
  bool CanShard(const FactorList& dim, int64_t parts) const;
  // Returns the factors that an axis of `parts` devices shards; empty if
  // CanShard() is false.
  FactorList Sharded(const FactorList& dim, int64_t parts) const;
  int64_t SizeOf(const FactorList& dim) const;
  // Returns a text such as "heads 8 x head_dim 64", or
  // "(inner 512 | inner 512)" for parts. The role of a factor is left out if
  // it is not known.
  std::string Text(const FactorList& dim) const;
};

Facts FindFacts(const Program& program);

struct TracedProgram {
  Program program;
  Facts facts;
};

// States why parameters of a traced program cannot be sharded by a runtime that
// shards the modules of PyTorch.

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

#endif  // SHARDC_PROGRAM_FACTS_H_
