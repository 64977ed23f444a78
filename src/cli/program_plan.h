// The plan of a traced program: the mesh, and the sharding of each input of the
// program, from rules or from a plan file.
#ifndef SHARDC_CLI_PROGRAM_PLAN_H_
#define SHARDC_CLI_PROGRAM_PLAN_H_

#include <initializer_list>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "cli/command.h"
#include "cli/inputs.h"
#include "model/legal_sizes.h"
#include "model/manifest.h"
#include "model/mesh.h"
#include "model/project.h"
#include "plan/compile.h"
#include "program/facts.h"
#include "program/program.h"
#include "search/rule_options.h"
#include "source/finding.h"
#include "suggest/by_program.h"
#include "suggest/mesh.h"
#include "suggest/parameter_groups.h"

namespace shardc::cli {

// Returns the program of a file; nullopt after a finding.
std::optional<program::Program> ReadTracedProgram(const std::string& path,
                                                  Findings& findings);

struct ProgramPlan {
  Mesh mesh;
  // The program with dimensions of their own for the parts that the plan
  // divides, if it divides any. The other members are then about this one.
  std::optional<program::Program> split;
  std::vector<Spec> specs;         // of each input
  std::vector<std::string> notes;  // inputs whose specs could not be used
  std::optional<int64_t> memory;   // of a device, as the target states it
  bool found = false;  // whether the plan has errors, which were added

  const program::Program& Of(const program::Program& own) const {
    return split ? *split : own;
  }
};

// Whether a plan's parts of a dimension become a dimension of the program
// (program/read.h). XLA shards a dimension in contiguous ranges only, so
// this is never done to a program of JAX.
enum class PlannedParts : uint8_t { kSplit, kContiguous };

// The most devices on which a program is proved.
inline constexpr int64_t kMostProvedDevices = 64;

// Returns the plan of `file` or, if it is empty, of the rules. Axes of which
// specs name factors become these factors. Returns nullopt after a finding.
std::optional<ProgramPlan> PlanOfProgram(const program::Program& program,
                                         const std::string& file,
                                         const InputFlags& flags, Mode mode,
                                         PlannedParts parts,
                                         const Common& common,
                                         Findings& findings);

// Searches the factors that tensor parallelism should shard, by what the
// program costs under the specs that follow (search/rule_options.h). The
// arguments must outlive the object.
class FactorSearch {
 public:
  FactorSearch(const program::TracedProgram& traced, const Mesh& mesh,
               const Manifest& manifest);

  search::FactorChoice Cheapest(bool divides_parts) const;
  // Returns whether some dimension has parts that could be divided.
  bool MayDivideParts() const { return by_program_.MayDivideParts(); }
  // Returns the parts of dimensions that a choice with parts divides, for each
  // parameter of the program.
  std::vector<EqualParts> DividedBy(const std::set<uint32_t>& factors) const;

 private:
  const program::TracedProgram& traced_;
  const Mesh& mesh_;
  suggest::Tree tree_;
  suggest::MeshAxes axes_;
  suggest::ByProgram by_program_;
};

// Returns the plan of compiled rules.
ProgramPlan PlanOfCompiled(const program::Program& program,
                           const Compiled& compiled, Mode mode,
                           PlannedParts parts);

// Returns false after a finding if the program is malformed beyond its shapes,
// or has a manual region over axes that the mesh lacks.
bool CanRunOn(const program::Program& program, const Mesh& mesh,
              Findings& findings);

// Returns false after a finding if `--donate` is given without a program.
bool CheckDonate(bool donate, const std::string& program, Findings& findings);

// Completes the message "`--zero` has no effect on ...", and its help.
struct NoEffect {
  std::string_view reason = "a traced program, which has its own sizes and ops";
  std::string_view help = "leave it out, or leave out `--program`";
};
// Adds an error for each option whose value is not that in `usual`, the same
// options with their defaults, and that `allowed` does not name. Returns false
// after a finding.
bool RefuseOptions(const Options& given, const Options& usual,
                   std::initializer_list<std::string_view> allowed,
                   Findings& findings, const NoEffect& of = {});

// Calls RefuseOptions for the flags of a command.
template <class Flags>
bool RefuseOthers(Options (*options)(Flags&), Flags given,
                  std::initializer_list<std::string_view> allowed,
                  Findings& findings, const NoEffect& of = {}) {
  Flags usual;
  return RefuseOptions(options(given), options(usual), allowed, findings, of);
}

}  // namespace shardc::cli

#endif  // SHARDC_CLI_PROGRAM_PLAN_H_
