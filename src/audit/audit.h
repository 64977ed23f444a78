// Directory: audit. Measures what a compiled program sends. For each collective
// it finds the devices, the number of runs, the source line and the moved
// tensor.
// Its files include headers of these directories: source, model, devices, hlo,
// importers/rules, comm, cost.
#ifndef SHARDC_AUDIT_AUDIT_H_
#define SHARDC_AUDIT_AUDIT_H_

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "audit/entry.h"
#include "audit/flaw.h"
#include "audit/graph.h"
#include "audit/members.h"
#include "comm/collective.h"
#include "devices/profiles.h"
#include "hlo/frames.h"
#include "hlo/program.h"
#include "model/mesh.h"
#include "source/finding.h"
#include "source/size.h"

namespace shardc::audit {

// The part of a training step that an operation belongs to. It is read from the
// operation's name (audit/origin.h). kRecomputed is a rematerialised operation.
enum class Phase : uint8_t { kNone, kForward, kBackward, kRecomputed };
std::string_view PhaseName(Phase phase);  // "forward"; empty for kNone

// The traffic of one operand of a collective, summed over all its runs.
struct Traffic {
  Collective kind = Collective::kAllGather;
  bool at_most = false;  // whether `sent` is only an upper bound
  std::shared_ptr<const Members> members;  // never null
  Phase phase = Phase::kNone;
  Moved moved;
  // The HLO metadata of the collective or, if these have no source line, of the
  // instruction that calls the collective's computation.
  std::string_view metadata;
  Node node = 0;         // instruction of the collective
  int64_t operand = 0;   // index among the collective's operands
  hlo::SourceLine line;  // line of the user's source; may be unknown
  std::string scope;     // named scopes, as "layer/attn"; may be empty
  Size times = 0;        // number of times the operand is sent
  // The number of runs of the collective, if this is its first operand. It is 0
  // for the other operands, so that a sum over all operands counts each run
  // once.
  Size calls = 0;
  Size sent = 0;  // bytes that the busiest device sends in all
  // The estimated time. It is nullopt without a profile, or if the collective's
  // groups of devices are not the groups along any mesh axes.
  std::optional<double> seconds;
};

// An instruction whose bytes are not counted exactly: a loop that is counted
// with one iteration, a conditional of which one branch is counted, or a
// transfer that is not counted. The totals of the report are then not exact.
struct Remark {
  std::string name;  // name of the instruction
  hlo::SourceLine line;
  std::string_view at;  // points to `name` in the program's text
};

struct Report {
  std::string program;
  int64_t devices = 1;
  std::optional<Mesh> mesh;
  const DeviceProfile* profile = nullptr;
  // The stack frames of the program. They give the source line for
  // Traffic::metadata.
  const hlo::Frames* frames = nullptr;
  std::vector<Traffic> traffic;  // in the order of the program's text
  // Loops whose trip count is unknown. They are counted with one iteration.
  std::vector<Remark> unknown_loops;
  // Conditionals whose branches differ in bytes; the largest branch is counted.
  std::vector<Remark> conditionals;
  // Transfers to or from the host, whose bytes are not counted.
  std::vector<Remark> host_transfers;
  std::vector<Flaw> flaws;
  int64_t calls = 0;  // number of runs of collectives on each device
  int64_t sent = 0;   // bytes that the busiest device sends; sum over `traffic`
  // The sum of the known Traffic::seconds; nullopt without a mesh or a profile.
  std::optional<double> seconds;
};

// Options of an audit; each may be null. `mesh` names groups of devices by
// axes. `profile` estimates times, and has an effect only with `mesh`.
struct Settings {
  const Mesh* mesh = nullptr;
  const DeviceProfile* profile = nullptr;
};

// Returns the audit of a program. The report refers to the program, which must
// outlive it. Returns nullopt after one of these findings: foreign-syntax if
// calls, groups or operands cannot be read or the program is not partitioned;
// overflow if a total does not fit in 64 bits; device-count if the mesh has
// another number of devices than the program.
std::optional<Report> Audit(const hlo::Program& program,
                            const Settings& settings, Findings& findings);

}  // namespace shardc::audit

#endif  // SHARDC_AUDIT_AUDIT_H_
