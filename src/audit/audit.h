// Directory: audit. Measures what a compiled program sends. For each collective
// it finds the devices, the number of runs, the source line and the moved
// tensor.
// Its files include headers of these directories: source, model, devices, hlo,
// importers/rules, comm, cost.
#ifndef SHARDC_AUDIT_AUDIT_H_
#define SHARDC_AUDIT_AUDIT_H_

#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "audit/graph.h"
#include "comm/collective.h"
#include "devices/profiles.h"
#include "hlo/groups.h"
#include "hlo/program.h"
#include "model/mesh.h"
#include "source/finding.h"
#include "source/size.h"

namespace shardc::audit {

struct Flaw {
  const Code* code = nullptr;  // one of AuditCodes(), never null
  Level level = Level::kWarning;
  std::string message, help;
  hlo::SourceLine line;   // line of the user's source; may be unknown
  std::string_view at;    // the instruction's name in the program's text
  std::string parameter;  // name of the parameter; may be empty
  // The mesh axis, if the flaw is that nothing uses this axis; otherwise empty.
  std::string axis;
  // The HLO metadata of the collective, as in Traffic::metadata.
  std::string_view metadata;
};

struct Members {
  // The number of devices of the largest group. For a permute it is 2 (a sender
  // and a receiver), or 1 if the permute sends nothing.
  int64_t size = 1;
  int64_t edges = 0;   // for a permute: messages that the busiest device sends
  AxisGroup axes;      // in the mesh's order
  bool named = false;  // whether mesh axes describe the groups
  std::string text;    // "fsdp+tp", "none", or one group: "devices 0 2 4"
  bool operator==(const Members&) const = default;
};

// Returns the axes joined by `+`, or "none" if there are no axes.
std::string AxesText(const AxisGroup& axes);

// Names groups by the axes along which their members differ. The text of a
// program need not have the names of mesh axes. Its groups are therefore
// expanded to device numbers, and these are compared with the device numbers of
// the mesh. A text that occurs several times is read once.
class MemberNames {
 public:
  // Without a mesh, groups have no names.
  MemberNames(const Mesh* mesh, int64_t devices)
      : mesh_(mesh), devices_(devices) {}

  // Reads the value of `replica_groups`; `text` may contain further attributes
  // after the value. Returns null if the groups cannot be read, or if all texts
  // read so far are together longer than a limit.
  std::shared_ptr<const Members> OfGroups(std::string_view text);
  // Reads the value of `source_target_pairs`. Returns null in the same cases as
  // OfGroups.
  std::shared_ptr<const Members> OfPairs(std::string_view text);

 private:
  void Name(const hlo::Groups& groups, Members& out) const;
  bool Afford(std::string_view text);

  const Mesh* mesh_;
  int64_t devices_;
  int64_t steps_left_ = int64_t{1} << 28;
  // The results of OfGroups and OfPairs, keyed by text. There are two maps
  // because `{{0,1}}` can be the groups of an all-reduce and the pairs of a
  // permute.
  std::map<std::string_view, std::shared_ptr<const Members>> groups_, pairs_;
};

// The part of a training step that an operation belongs to. It is read from the
// operation's name (audit/runs.h). kRecomputed is a rematerialised operation.
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

enum class By : uint8_t {
  kAll,  // by kind, devices, phase, tensor, shape and source line together
  kLine,
  kParameter,
  kAxes,
  kKind,
  kScope
};
inline constexpr std::string_view kByNames[] = {"all",  "line", "parameter",
                                                "axes", "kind", "scope"};
std::optional<By> ParseBy(std::string_view name);

struct Row {
  std::string key;         // "model.py:28 layer"; empty for kAll
  const Traffic* example;  // the first traffic of the row
  int64_t times = 0, calls = 0, sent = 0;
  // The sum of the known Traffic::seconds; nullopt if none is known.
  std::optional<double> seconds;
};

// Returns the text of a source line, such as "model.py:28 layer", or "-" if the
// line is not known.
std::string LineText(const hlo::SourceLine& line);
// Returns the name of the moved tensor: "layers/gate", "gradient of
// layers/gate", "activation".
std::string MovedText(const Moved& moved);

// Returns the rows, sorted by descending bytes, then by key. Rows have pointers
// into the report.
std::vector<Row> Tabulate(const Report& report, By by);

}  // namespace shardc::audit

#endif  // SHARDC_AUDIT_AUDIT_H_
