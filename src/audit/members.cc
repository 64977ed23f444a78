// Finds the mesh axes that describe groups of devices. On a mesh dp:2,tp:2 the
// groups {0,2},{1,3} differ along dp: device 0 has the coordinates (0,0) and
// device 2 has (1,0). A set of axes describes the groups on two conditions.
// Each group has one member for each coordinate along these axes, and the
// members of a group have the same coordinates along all other axes. The order
// of groups and of members does not matter.
#include "audit/members.h"

#include <algorithm>
#include <vector>

#include "hlo/instruction.h"
#include "model/mesh_layout.h"
#include "source/index.h"

namespace shardc::audit {
namespace {

// The text of a group without axis names lists at most this many devices.
constexpr size_t kShown = 8;

std::string DevicesText(const std::vector<int64_t>& group) {
  std::string out = "devices";
  for (size_t i = 0; i < std::min(group.size(), kShown); ++i) {
    out += " " + std::to_string(group[i]);
  }
  return group.size() > kShown ? out + " ..." : out;
}

// Marks the axes along which the coordinates of the devices `first` and `other`
// differ.
void MarkDifferent(const Mesh& mesh, int64_t first, int64_t other,
                   std::vector<bool>& differs) {
  int64_t stride = 1;
  for (size_t i = mesh.axes.size(); i > 0; --i) {
    const int64_t size = mesh.axes[i - 1].size;
    if (first / stride % size != other / stride % size) differs[i - 1] = true;
    stride *= size;
  }
}

// Returns the groups at the beginning of `text`, without the attributes that
// follow. The result is the key of a cache, so that equal groups are read only
// once.
std::string_view GroupsText(std::string_view text) {
  const bool mesh = text.starts_with("mesh") || text.starts_with('@');
  std::string_view rest = text;
  std::string_view item;
  if (!hlo::NextItem(rest, item)) return {};
  if (mesh && item.find('{') == std::string_view::npos) {
    // The axes are in the next item, as in `device_ids=(...) {'a'}`.
    hlo::NextItem(rest, item);
  }
  return text.substr(
      0, static_cast<size_t>(item.data() + item.size() - text.data()));
}

}  // namespace

std::string AxesText(const AxisGroup& axes) {
  std::string out;
  for (const std::string& axis : axes) out += (out.empty() ? "" : "+") + axis;
  return out.empty() ? "none" : out;
}

bool MemberNames::Afford(std::string_view text) {
  steps_left_ -= devices_ + static_cast<int64_t>(text.size());
  return steps_left_ >= 0;
}

std::shared_ptr<const Members> MemberNames::OfGroups(std::string_view text) {
  text = GroupsText(text);
  const auto [found, added] = groups_.try_emplace(text);
  if (!added) return found->second;
  if (!Afford(text)) return nullptr;
  auto groups = hlo::ReadGroups(text, devices_);
  if (!groups) return nullptr;
  Members out;
  for (auto& group : *groups) {
    std::ranges::sort(group);
    out.size = std::max<int64_t>(out.size, std::ssize(group));
  }
  Name(*groups, out);
  return found->second = std::make_shared<const Members>(std::move(out));
}

void MemberNames::Name(const hlo::Groups& groups, Members& out) const {
  if (!groups.empty())
    out.text = DevicesText(*std::ranges::min_element(groups));
  if (out.size == 1) out.text = "none";
  if (mesh_ == nullptr) return;
  std::vector<bool> differs(mesh_->axes.size(), false);
  for (const auto& group : groups) {
    for (const int64_t device : group) {
      MarkDifferent(*mesh_, group.front(), device, differs);
    }
  }
  AxisGroup axes;
  int64_t size = 1;
  for (size_t i = 0; i < differs.size(); ++i) {
    if (!differs[i]) continue;
    axes.push_back(mesh_->axes[i].name);
    size *= mesh_->axes[i].size;
  }
  // The members of a group are distinct devices that differ only along these
  // axes, so a group has at most `size` members: 4 for the axes dp:2 and tp:2.
  // A group of `size` members therefore has every coordinate along the axes.
  const bool exact = std::ranges::all_of(groups, [&](const auto& group) {
    return std::ssize(group) == size &&
           std::ranges::adjacent_find(group) == group.end();
  });
  if (!exact) return;
  out.named = true;
  out.text = AxesText(axes);
  out.axes = std::move(axes);
}

std::shared_ptr<const Members> MemberNames::OfPairs(std::string_view text) {
  const auto [found, added] = pairs_.try_emplace(text);
  if (!added) return found->second;
  if (!Afford(text)) return nullptr;
  const auto pairs = hlo::ReadPairs(text, devices_);
  if (!pairs) return nullptr;
  Members out;
  std::vector<bool> differs(mesh_ == nullptr ? 0 : mesh_->axes.size(), false);
  std::vector<int64_t> sends(AsIndex(devices_), 0);
  for (const auto& [source, target] : *pairs) {
    if (source == target) continue;  // a device sends nothing to itself
    out.edges = std::max(out.edges, ++sends[AsIndex(source)]);
    if (out.text.empty()) out.text = DevicesText({source, target});
    if (mesh_ != nullptr) MarkDifferent(*mesh_, source, target, differs);
  }
  out.size = out.edges == 0 ? 1 : 2;
  if (out.edges == 0) out.text = "none";
  for (size_t i = 0; i < differs.size(); ++i) {
    if (differs[i]) out.axes.push_back(mesh_->axes[i].name);
  }
  out.named = mesh_ != nullptr;
  if (!out.axes.empty()) out.text = AxesText(out.axes);
  return found->second = std::make_shared<const Members>(std::move(out));
}

}  // namespace shardc::audit
