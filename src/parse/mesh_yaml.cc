// Reads the keys of a mesh file into a MeshDraft, which mesh_finish.cc
// completes. The draft stores the place of each number, because some findings
// concern several numbers. Axes are read first, because other keys refer to
// them. The flag --devices replaces the number of devices in the file:
//
//   {axes: {dp: 2, tp: -1}, devices: 8} and --devices 16  ->  dp 2, tp 8
#include "parse/mesh_yaml.h"

#include <algorithm>
#include <array>

#include "devices/profiles.h"
#include "parse/keys.h"
#include "parse/mesh_finish.h"
#include "source/wording.h"
#include "yaml/error.h"

namespace shardc {
namespace {

constexpr std::array<std::string_view, 3> kAxisTypes = {"auto", "explicit",
                                                        "manual"};
constexpr std::array<AxisType, 3> kAxisTypeValues = {
    AxisType::kAuto, AxisType::kExplicit, AxisType::kManual};

class MeshReader {
 public:
  MeshReader(const YamlContext& context, const Fields& fields)
      : context_(context), fields_(fields) {}

  MeshDraft Read(const YamlNode& node, std::optional<int64_t> devices) {
    ReadAxes(node);
    ReadCount("devices", draft_.devices);
    ReadCount("processes", draft_.processes);
    ReadCount("slices", draft_.slices);
    if (devices) {
      draft_.devices = {*devices,
                        draft_.devices ? draft_.devices->place : draft_.place};
    }
    if (const YamlNode* types = fields_.Find("axis_types")) ReadTypes(*types);
    if (const YamlNode* dcn = fields_.Find("dcn")) ReadDcn(*dcn);
    if (const YamlNode* device = fields_.Find("device")) ReadDevice(*device);
    return std::move(draft_);
  }

 private:
  void ReadAxes(const YamlNode& node) {
    const YamlNode* axes =
        fields_.Require(context_, node, "axes", "write `axes: {dp: 2, tp: 4}`");
    if (axes == nullptr) return;
    draft_.place = context_.document.PlaceOf(*axes);
    if (!axes->IsMapping()) {
      context_.Add(
          code::kSchema, *axes,
          "`axes` is " + Describe(*axes) + ", not a mapping of names to sizes",
          "write `axes: {dp: 2, tp: 4}`");
      return;
    }
    if (axes->members.empty()) {
      context_.Add(code::kSchema, *axes, "`axes` names no axis",
                   "write `axes: {dp: 2, tp: 4}`");
    }
    if (axes->members.size() > kAxisLimit) {
      context_.Add(
          code::kLimit, *axes,
          "`axes` names " + Counted(static_cast<int64_t>(axes->members.size()),
                                    "axis", "axes"),
          "the limit is " + CountText(static_cast<int64_t>(kAxisLimit)));
      return;
    }
    for (const YamlMember& member : axes->members) {
      if (context_.findings.Full()) return;
      ReadAxis(member);
    }
  }

  void ReadAxis(const YamlMember& member) {
    const YamlNode& key = member.key;
    const auto name =
        ReadKey(context_, key, code::kAxisName, "the name of an axis");
    if (!name) return;
    const std::string fault = AxisNameFault(*name);
    if (!fault.empty() && member.value.IsNull()) {
      context_.Add(code::kNumber, key,
                   "axis " + ShortQuote(*name) + " has no size",
                   "write `name: size`, with a space after the colon");
      return;
    }
    if (!fault.empty()) {
      context_.Add(code::kAxisName, key,
                   "axis name " + ShortQuote(*name) + " " + fault);
      return;
    }
    const auto size =
        ReadInteger(context_, member.value, "the size of axis `" + *name + "`",
                    kAnyInteger);
    if (!size) return;
    if (*size == 0 || *size < -1) {
      context_.Add(
          code::kNumber, member.value,
          "the size of axis `" + *name + "` is " + std::to_string(*size),
          "a size is 1 or more, or -1 for what remains");
      return;
    }
    draft_.axes.push_back({*name, *size, AxisType::kAuto,
                           context_.document.PlaceOf(member.value)});
  }

  void ReadCount(std::string_view key, std::optional<Counted64>& out) {
    const YamlNode* node = fields_.Find(key);
    if (node == nullptr) return;
    const auto value =
        ReadInteger(context_, *node, "`" + std::string(key) + "`", {1});
    if (value) out = Counted64{*value, context_.document.PlaceOf(*node)};
  }

  // Returns the index of the axis that has the name `key`. `what` describes the
  // mapping that contains the key. Returns nullopt after a finding.
  std::optional<size_t> AxisOf(const YamlNode& key, std::string_view what) {
    const auto name = ReadKey(context_, key, code::kAxisName,
                              "a key of " + std::string(what));
    if (!name) return std::nullopt;
    std::vector<std::string_view> names;

    for (size_t i = 0; i < draft_.axes.size(); ++i) {
      if (draft_.axes[i].name == *name) return i;
      names.push_back(draft_.axes[i].name);
    }

    context_.Add(code::kReference, key,
                 std::string(what) + " names " + ShortQuote(*name) +
                     ", which is no axis of this mesh",
                 "the axes are " + Listed(names));
    return std::nullopt;
  }

  void ReadTypes(const YamlNode& node) {
    if (!node.IsMapping()) {
      const auto type = ReadChoice(context_, node, "`axis_types`", kAxisTypes);
      if (!type) return;
      for (MeshDraft::Axis& axis : draft_.axes) {
        axis.type = kAxisTypeValues[*type];
      }
      return;
    }
    for (const YamlMember& member : node.members) {
      if (context_.findings.Full()) return;
      const auto axis = AxisOf(member.key, "`axis_types`");
      const auto type =
          ReadChoice(context_, member.value, "the type of an axis", kAxisTypes);
      if (axis && type) draft_.axes[*axis].type = kAxisTypeValues[*type];
    }
  }

  void ReadDcn(const YamlNode& node) {
    if (!node.IsMapping()) {
      context_.Add(
          code::kSchema, node,
          "`dcn` is " + Describe(node) + ", not a mapping of axes to factors",
          "write `dcn: {dp: 2}`");
      return;
    }
    draft_.dcn_place = context_.document.PlaceOf(node);
    draft_.dcn.assign(draft_.axes.size(), 1);
    for (const YamlMember& member : node.members) {
      if (context_.findings.Full()) return;
      const auto axis = AxisOf(member.key, "`dcn`");
      const auto factor =
          ReadInteger(context_, member.value, "a factor of `dcn`", kAnyInteger);
      if (factor && (*factor == 0 || *factor < -1)) {
        context_.Add(code::kNumber, member.value,
                     "a factor of `dcn` is " + std::to_string(*factor),
                     "a factor is 1 or more, or -1 for what remains");
        continue;
      }
      if (axis && factor) draft_.dcn[*axis] = *factor;
    }
  }

  // Returns a help text for an unknown profile. It lists the profiles whose
  // names begin with `word`, such as `a100`, or suggests the nearest name.
  static std::string ProfileHelp(const std::string& word) {
    std::vector<std::string_view> family;
    for (const DeviceProfile& profile : DeviceProfiles()) {
      if (profile.name.starts_with(word)) family.push_back(profile.name);
    }
    if (family.size() > 1) return "there are " + Listed(family);
    if (!family.empty()) return DidYouMean(family[0], family);
    const std::vector<std::string_view> known = DeviceNames();
    return DidYouMean(word, known,
                      "the profiles are " + Listed(known) +
                          "; another one is `device: {memory: 80GiB}`");
  }

  // Reads the name of a device profile and copies the profile's memory into
  // `out`.
  void ReadProfile(const YamlNode& node, std::string_view what, Device& out) {
    const auto name = ReadText(context_, node, what, true);
    if (!name) return;
    const DeviceProfile* profile = FindDeviceProfile(*name);
    if (profile == nullptr) {
      context_.Add(code::kReference, node,
                   "no accelerator is called " + ShortQuote(*name),
                   ProfileHelp(*name));
      return;
    }
    out.profile = profile->name;
    out.memory_bytes = profile->DeviceMemory();
  }

  void ReadDevice(const YamlNode& node) {
    Device device;
    if (node.IsScalar()) {
      ReadProfile(node, "`device`", device);
      draft_.device = device;
      return;
    }
    const auto fields = Fields::Read(context_, node, keys::kDevice);
    if (!fields) return;
    if (const YamlNode* profile = fields->Find("profile")) {
      ReadProfile(*profile, "`profile`", device);
    }
    if (const YamlNode* memory = fields->Find("memory")) {
      device.memory_bytes = ReadBytes(context_, *memory, "`memory`");
    }
    draft_.device = device;
  }

  const YamlContext& context_;
  const Fields& fields_;
  MeshDraft draft_;
};

}  // namespace

std::optional<Mesh> ReadMeshNode(const YamlContext& context,
                                 const YamlNode& node,
                                 std::optional<int64_t> devices) {
  const size_t before = context.findings.errors();
  const auto fields = Fields::Read(context, node, keys::kMesh);
  if (!fields) return std::nullopt;
  const MeshDraft draft = MeshReader(context, *fields).Read(node, devices);
  if (context.findings.errors() > before) return std::nullopt;
  return FinishMesh(draft, context.findings);
}

}  // namespace shardc
