// Directory: verify/program. Proves a user's traced program under a plan: the
// program runs sharded on a simulated mesh and dense on one device, and every
// value must be the same.
// Its files include headers of these directories: source, model, program, comm,
// dense/program, exec/machine, exec/program, verify/judge.
#ifndef SHARDC_VERIFY_PROGRAM_PROOF_H_
#define SHARDC_VERIFY_PROGRAM_PROOF_H_

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "comm/collective.h"
#include "dense/program/run.h"
#include "exec/machine/machine.h"
#include "model/mesh.h"
#include "program/program.h"
#include "source/finding.h"

namespace shardc::verify {

// The sizes at which a program is proved.
enum class ProofSizes : uint8_t {
  // The traced sizes if a run takes a moment, and reduced ones otherwise
  // (program::ReduceProgram). What differs at reduced sizes is run at the
  // traced
  // ones, if these are not too large.
  kChosen,
  kTraced,
  kReduced,  // wherever a size can be reduced
};

struct ProgramRequest {
  const program::Program* program = nullptr;
  // If not null, a program of the same inputs whose dense results must be the
  // same, such as the function without `shard_map`.
  const program::Program* reference = nullptr;
  Mesh mesh;
  std::vector<Spec> specs;  // of each input
  uint64_t seed = 0;
  int threads = 1;
  ProofSizes sizes = ProofSizes::kChosen;
  // The memory that a proof of the traced sizes may use if these are demanded
  // (kTraced); 0 if it may use what any proof may.
  int64_t memory_bytes = 0;
  // Whether ops that repeat are folded where sizes are chosen
  // (program::FoldRepeated). With seams that change what an op computes all
  // must run.
  bool folds = true;
  // Called after each op of the sharded run, with how many are done and how
  // many there are, and what runs.
  std::function<void(size_t done, size_t all, const std::string& within)>
      progress = {};
  exec::Seams seams = {};  // replacements that tests set
};

// A result of the program.
struct ProgramResult {
  Shape shape;
  double difference = 0;  // the largest absolute one
  double allowed = 0;
  double largest = 0;  // the largest absolute number of the dense result
  // The sum of the dense result's numbers, and of their squares.
  double sum = 0, squares = 0;
};

// The collectives of a line of the user's that have the same op, kind and axes.
struct ProgramRow {
  std::string line;  // "model.py:41", or empty if it is unknown
  program::Phase phase = program::Phase::kForward;
  std::string op;
  Collective kind = Collective::kAllGather;
  AxisGroup axes;
  int64_t count = 0;
  int64_t bytes = 0;  // that the busiest device sends, at the traced sizes
};

// An op that cannot use the sharding of an operand.
struct ProgramGather {
  std::string line;
  std::string op;
  size_t operand = 0, dim = 0;
  AxisGroup axes;
  // Whether no rule of the op permits the axes. Otherwise they shard another
  // dimension of it.
  bool needed = false;
  int64_t count = 1;
};

// An op whose own mathematics the proof does not have: what ran in its place is
// a stand-in, or numbers that were drawn.
struct ProgramStandIn {
  std::string line;
  std::string what;  // such as "fft"
  bool drawn = false;
  bool region = false;  // it runs on the shards of a manual region
  int64_t count = 1;
};

// A factor of the program's dimensions that was run with another size, or that
// kept its size since an op needs it.
struct ProofSize {
  int64_t traced = 0, run = 0;
  int64_t again = 0;  // the size in a second proof; 0 if there is none
  std::string where;  // an input with the factor, such as "w dimension 1"
  std::string kept_by, line;
};

struct ProgramFailure {
  std::string line;  // of the first op whose result differs; may be empty
  std::string message;
};

struct ProgramProof {
  // Of each input: integers that were drawn are from 0 to before this number; 0
  // if it has no integers, or others.
  std::vector<int64_t> bounds;
  std::vector<ProgramResult> results;
  int64_t values = 0;  // how many values were compared
  int64_t manual = 0;  // how many manual regions ran
  std::vector<ProgramRow> rows;
  std::vector<ProgramGather> gathers;
  std::vector<ProgramStandIn> stand_ins;
  bool reduced = false;  // whether it ran at reduced sizes
  std::vector<ProofSize> sizes;
  // The ops outside of bodies, and how many of them ran. Each other one is
  // of the class of one that ran.
  int64_t ops = 0, ops_run = 0;
  std::optional<ProgramFailure> failure;
  // Whether nothing is proved although nothing differs: a result is not a
  // number in either run. `failure` has the reason.
  bool unproved = false;
};

// Returns nullopt after a finding if the program cannot be run on the mesh, or
// is too large and no smaller sizes have the same ops.
std::optional<ProgramProof> ProveProgram(const ProgramRequest& request,
                                         Findings& findings);

// Returns the first manual region with an axis that the mesh lacks or has in
// another size, with its line; nullopt if there is none.
std::optional<std::string> RegionFault(const program::Program& program,
                                       const Mesh& mesh);

// Returns the sharding of each input. A parameter has its spec in `specs`,
// which has one entry for each parameter in the order of the inputs. A state
// whose name ends in that of a parameter of the same shape has its spec.
// Another state, such as a KV cache, is sharded as the data and the parameters
// with which it has factors in common. The first dimension of data is sharded
// over those of the axes `batch` that divide it. Adds a note for each spec that
// the shape does not allow.
std::vector<Spec> InputSpecs(const program::Program& program, const Mesh& mesh,
                             const std::vector<Spec>& specs,
                             const AxisGroup& batch,
                             std::vector<std::string>& notes);

// Returns by how much elements of a value may differ whose largest finite
// number is `largest`, by magnitude: a part of it, and a little in any case.
// Results of the recorded programs differ by at most 1e-14 of it.
constexpr double AllowedFor(double largest) { return 1e-8 * largest + 1e-12; }

// Returns the first op with a result that equals no value of the reference: of
// the first manual region with such results, or if there is none, of the
// program. A region's values are compared as wholes, whose shards the devices
// have. `wrong` is a result of the program that counts as such a value. Returns
// the region itself if it differs from the reference within a loop, and nullptr
// if nothing differs.
const program::Op* FirstStrange(const program::Program& program,
                                const dense::ProgramRun& run,
                                const dense::ProgramRun& reference,
                                std::optional<program::ValueId> wrong);

}  // namespace shardc::verify

#endif  // SHARDC_VERIFY_PROGRAM_PROOF_H_
