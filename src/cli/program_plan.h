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
#include "model/manifest.h"
#include "model/mesh.h"
#include "model/project.h"
#include "plan/compile.h"
#include "program/facts.h"
#include "program/program.h"
#include "source/finding.h"

namespace shardc::cli {

// Returns the program of a file; nullopt after a finding.
std::optional<program::Program> ReadTracedProgram(const std::string& path,
                                                  Findings& findings);

struct ProgramPlan {
  Mesh mesh;
  std::vector<Spec> specs;         // of each input
  std::vector<std::string> notes;  // inputs whose specs could not be used
  std::optional<int64_t> memory;   // of a device, as the target states it
  bool found = false;  // whether the plan has errors, which were added
};

// The most devices on which a program is proved.
inline constexpr int64_t kMostProvedDevices = 64;

// Returns the plan of `file` or, if it is empty, of the rules. Axes of which
// specs name factors become these factors. Returns nullopt after a finding.
std::optional<ProgramPlan> PlanOfProgram(const program::Program& program,
                                         const std::string& file,
                                         const InputFlags& flags, Mode mode,
                                         const Common& common,
                                         Findings& findings);

// Returns the factors that tensor parallelism should shard, by what the program
// costs under the specs that follow (search/factors.h).
std::set<uint32_t> CheapestFactors(const program::Program& program,
                                   const program::Facts& facts,
                                   const Mesh& mesh, const Manifest& manifest);

// Returns the plan of compiled rules.
ProgramPlan PlanOfCompiled(const program::Program& program,
                           const Compiled& compiled, Mode mode);

// Returns false after a finding if the program is malformed beyond its shapes,
// or has a manual region over axes that the mesh lacks.
bool CanRunOn(const program::Program& program, const Mesh& mesh,
              Findings& findings);

// Returns false after a finding if `--donate` is given without a program.
bool CheckDonate(bool donate, const std::string& program, Findings& findings);

// Adds an error for each option whose value is not that in `usual`, the same
// options with their defaults, and that `allowed` does not name. Returns false
// after a finding.
bool RefuseOptions(const Options& given, const Options& usual,
                   std::initializer_list<std::string_view> allowed,
                   Findings& findings);

// Calls RefuseOptions for the flags of a command.
template <class Flags>
bool RefuseOthers(Options (*options)(Flags&), Flags given,
                  std::initializer_list<std::string_view> allowed,
                  Findings& findings) {
  Flags usual;
  return RefuseOptions(options(given), options(usual), allowed, findings);
}

}  // namespace shardc::cli

#endif  // SHARDC_CLI_PROGRAM_PLAN_H_
