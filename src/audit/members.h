// Finds which devices take part in a collective, and which mesh axes describe
// the groups of these devices.
#ifndef SHARDC_AUDIT_MEMBERS_H_
#define SHARDC_AUDIT_MEMBERS_H_

#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <string_view>

#include "hlo/groups.h"
#include "model/mesh.h"
#include "model/spec.h"

namespace shardc::audit {

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

}  // namespace shardc::audit

#endif  // SHARDC_AUDIT_MEMBERS_H_
