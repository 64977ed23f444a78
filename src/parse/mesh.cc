// Reads a mesh from a file, from a mapping of a project file, or from a string
// such as `dp:2`, which is parsed here. The result is a MeshDraft, the mesh as
// it is written, which is completed last. If a file has the same name as the
// string, the file is read.
//
//   "dp:2, tp:-1" with 8 devices  ->  dp 2, tp 4
#include "parse/mesh.h"

#include <algorithm>
#include <array>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "devices/profiles.h"
#include "model/mesh.h"
#include "parse/keys.h"
#include "source/file.h"
#include "source/finding.h"
#include "source/size.h"
#include "source/wording.h"
#include "yaml/read.h"
#include "yaml/scan.h"

namespace shardc {
namespace {

// Completes a mesh. An axis of size -1 gets the number of devices divided by
// the product of the other sizes. If `dcn` does not state the number of slices
// (pods) along each axis, all slices are placed on the first axis whose size is
// divisible by their number. In this example both slices are placed on `dp`:
//
//   {dp: -1, tp: 4}, 16 devices, 2 slices  ->  dp 16 / 4 = 4, dcn [2, 1]

// The largest number of axes that a mesh may have. Real meshes have far fewer.
inline constexpr size_t kAxisLimit = 256;

struct Counted64 {
  int64_t value = 0;
  Place place;
};

struct MeshDraft {
  struct Axis {
    std::string name;
    int64_t size = 1;  // -1: computed from the other sizes
    AxisType type = AxisType::kAuto;
    Place place;  // the size in a YAML file, or the entry `dp:2` in a string
  };
  std::vector<Axis> axes;
  std::optional<Counted64> devices;
  std::optional<Counted64> processes;
  std::optional<Counted64> slices;
  // The number of slices (pods) along each axis, indexed by axis. The default
  // is 1. The value -1 means all slices that the other axes do not use. Empty
  // if the file has no `dcn`.
  std::vector<int64_t> dcn;
  Place dcn_place;
  std::optional<Device> device;
  Place place;  // place of the list of axes
};

constexpr std::string_view kOneFree = "one size at most can be -1";

// The product of the sizes other than -1, and the index of the axis of size -1.
struct Sizes {
  int64_t product = 1;
  std::optional<size_t> free;
};

std::optional<Sizes> Multiply(const MeshDraft& draft, Findings& findings) {
  Sizes sizes;
  bool good = true;
  for (size_t i = 0; i < draft.axes.size(); ++i) {
    const MeshDraft::Axis& axis = draft.axes[i];
    if (axis.size == -1) {
      if (sizes.free) {
        findings
            .Add(code::kNumber, axis.place,
                 "the sizes of both `" + draft.axes[*sizes.free].name +
                     "` and `" + axis.name + "` are -1",
                 std::string(kOneFree))
            .labels.push_back(
                {draft.axes[*sizes.free].place, "the first is here"});
        good = false;
        continue;
      }
      sizes.free = i;
      continue;
    }
    const auto product = CheckedMul(sizes.product, axis.size);
    if (!product) {
      findings.Add(code::kOverflow, axis.place,
                   "with axis `" + axis.name + "` of size " +
                       CountText(axis.size) +
                       " the device count does not fit in 64 bits");
      return std::nullopt;
    }
    sizes.product = *product;
  }
  if (!good) return std::nullopt;
  return sizes;
}

// Returns the sizes other than -1 and their product as a text, such as "2 * 4 =
// 8". For a single size, the product is omitted.
std::string SizesText(const MeshDraft& draft, int64_t product) {
  std::string out;
  size_t count = 0;

  for (const MeshDraft::Axis& axis : draft.axes) {
    if (axis.size == -1) continue;
    AppendItem(out, " * ", CountText(axis.size));
    ++count;
  }
  if (count != 1) out += (count > 1 ? " = " : "") + CountText(product);
  return out;
}

// Returns advice on how to make the sizes agree with the number of devices. The
// text names an axis that may be -1, because the product of the other sizes
// divides the number of devices. If there is no such axis, the text requests
// sizes with the right product.
std::string DevicesHelp(const MeshDraft& draft, int64_t product,
                        int64_t devices) {
  std::string first;
  bool all = !draft.axes.empty();
  for (const MeshDraft::Axis& axis : draft.axes) {
    if (axis.size < 1 || devices % (product / axis.size) != 0) {
      all = false;
    } else if (first.empty()) {
      first = axis.name;
    }
  }
  if (all) return "make one axis -1 to let it take what remains";
  if (first.empty()) {
    return "give sizes whose product is " + CountText(devices);
  }
  return "make `" + first + "` -1 to let it take what remains";
}

// Computes the size that is written as -1, and returns the number of devices.
// Returns nullopt after a finding.
std::optional<int64_t> SettleDevices(const MeshDraft& draft, const Sizes& sizes,
                                     Mesh& mesh, Findings& findings) {
  if (!sizes.free) {
    if (draft.devices && draft.devices->value != sizes.product) {
      findings.Add(code::kDeviceCount, draft.devices->place,
                   "the axes make " + SizesText(draft, sizes.product) +
                       " devices, not " + CountText(draft.devices->value),
                   DevicesHelp(draft, sizes.product, draft.devices->value));
      return std::nullopt;
    }
    return sizes.product;
  }
  const MeshDraft::Axis& free = draft.axes[*sizes.free];
  if (!draft.devices) {
    findings.Add(code::kDeviceCount, free.place,
                 "the size of axis `" + free.name +
                     "` is -1, and the device count is not given",
                 "give `devices` in the mesh, or --devices");
    return std::nullopt;
  }
  const int64_t devices = draft.devices->value;
  if (devices % sizes.product != 0) {
    findings.Add(code::kDeviceCount, draft.devices->place,
                 CountText(devices) + " devices cannot be divided by " +
                     SizesText(draft, sizes.product) + " to give axis `" +
                     free.name + "` its size",
                 "give other sizes, or a number of devices that " +
                     CountText(sizes.product) + " divides");
    return std::nullopt;
  }
  mesh.axes[*sizes.free].size = devices / sizes.product;
  return devices;
}

bool SettleProcesses(const MeshDraft& draft, Mesh& mesh, Findings& findings) {
  if (!draft.processes) return true;
  mesh.processes = draft.processes->value;
  if (mesh.devices % mesh.processes == 0) return true;
  findings.Add(code::kDeviceCount, draft.processes->place,
               CountText(mesh.devices) + " devices cannot be divided among " +
                   CountText(mesh.processes) + " processes");
  return false;
}

// Places all slices (pods) on the first axis whose size is divisible by the
// number of slices. Adds a finding and returns false if there is no such axis.
bool InferSlices(const MeshDraft& draft, Mesh& mesh, Findings& findings) {
  mesh.dcn.assign(mesh.axes.size(), 1);
  for (size_t i = 0; i < mesh.axes.size(); ++i) {
    if (mesh.axes[i].size % mesh.slices != 0) continue;
    mesh.dcn[i] = mesh.slices;
    return true;
  }
  if (mesh.devices % mesh.slices != 0) {
    findings.Add(code::kDeviceCount, draft.slices->place,
                 CountText(mesh.devices) + " devices cannot be divided among " +
                     CountText(mesh.slices) + " slices");
    return false;
  }
  findings.Add(
      code::kDeviceCount, draft.slices->place,
      "no axis can be divided among " + CountText(mesh.slices) + " slices",
      "divide the slices among several axes, such as `dcn: {dp: 2, fsdp: 2}` "
      "for 4 slices");
  return false;
}

bool SettleDcn(const MeshDraft& draft, Mesh& mesh, Findings& findings) {
  mesh.dcn = draft.dcn;
  std::optional<size_t> free;
  int64_t product = 1;
  for (size_t i = 0; i < mesh.dcn.size(); ++i) {
    if (mesh.dcn[i] == -1) {
      if (free) {
        findings.Add(code::kNumber, draft.dcn_place,
                     "two factors of `dcn` are -1",
                     "one factor at most can be -1");
        return false;
      }
      free = i;
      continue;
    }
    const auto next = CheckedMul(product, mesh.dcn[i]);
    if (!next) {
      findings.Add(code::kOverflow, draft.dcn_place,
                   "the product of `dcn` does not fit in 64 bits");
      return false;
    }
    product = *next;
  }
  if (free && mesh.slices % product == 0) {
    mesh.dcn[*free] = mesh.slices / product;
    product = mesh.slices;
  }
  if (product != mesh.slices) {
    findings.Add(code::kDeviceCount, draft.dcn_place,
                 "the factors of `dcn` make " + CountText(product) +
                     ", and there are " + Counted(mesh.slices, "slice"),
                 "the product of the factors is the number of slices");
    return false;
  }
  for (size_t i = 0; i < mesh.dcn.size(); ++i) {
    if (mesh.axes[i].size % mesh.dcn[i] == 0) continue;
    findings.Add(code::kDeviceCount, draft.dcn_place,
                 "axis `" + mesh.axes[i].name + "` of size " +
                     CountText(mesh.axes[i].size) +
                     " cannot be divided by its factor " +
                     CountText(mesh.dcn[i]));
    return false;
  }
  if (mesh.slices == 1) mesh.dcn.clear();
  return true;
}

bool SettleSlices(const MeshDraft& draft, Mesh& mesh, Findings& findings) {
  if (draft.slices) mesh.slices = draft.slices->value;
  if (!draft.dcn.empty()) return SettleDcn(draft, mesh, findings);
  if (mesh.slices == 1) return true;
  return InferSlices(draft, mesh, findings);
}

// Computes missing sizes and checks the mesh. Returns nullopt after a finding.
std::optional<Mesh> FinishMesh(const MeshDraft& draft, Findings& findings) {
  const auto sizes = Multiply(draft, findings);
  if (!sizes) return std::nullopt;
  Mesh mesh;
  for (const MeshDraft::Axis& axis : draft.axes) {
    mesh.axes.push_back({axis.name, axis.size, axis.type});
  }
  mesh.device = draft.device;
  const auto devices = SettleDevices(draft, *sizes, mesh, findings);
  if (!devices) return std::nullopt;
  mesh.devices = *devices;
  const bool processes = SettleProcesses(draft, mesh, findings);
  const bool slices = SettleSlices(draft, mesh, findings);
  if (!processes || !slices) return std::nullopt;
  return mesh;
}

// Reads the keys of a mesh file into a MeshDraft, which FinishMesh above
// completes. The draft stores the place of each number, because some findings
// concern several numbers. Axes are read first, because other keys refer to
// them. The flag --devices replaces the number of devices in the file:
//
//   {axes: {dp: 2, tp: -1}, devices: 8} and --devices 16  ->  dp 2, tp 8

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

// Returns whether a mapping has several names with numbers and no key of a
// mesh:
// `{fsdp: 4, tp: 2}` in place of `{axes: {fsdp: 4, tp: 2}}`.
bool HasBareAxes(const YamlNode& node) {
  return node.IsMapping() && node.members.size() > 1 &&
         std::ranges::all_of(node.members, [](const YamlMember& member) {
           const std::string& key = member.key.text;
           const bool own = std::ranges::find(keys::kMesh.keys, key) !=
                            keys::kMesh.keys.end();
           return !own && member.value.IsScalar() &&
                  !member.value.text.empty() &&
                  member.value.text.find_first_not_of("0123456789") ==
                      std::string::npos;
         });
}

// Reads and completes a mesh. `devices` is the value of the flag --devices,
// which replaces the number of devices in the mapping. Returns nullopt after a
// finding.
std::optional<Mesh> ReadMeshNode(const YamlContext& context,
                                 const YamlNode& node,
                                 std::optional<int64_t> devices) {
  const size_t before = context.findings.errors();
  if (HasBareAxes(node)) {
    context.Add(code::kSchema, node, "axes are not below `axes`",
                "write them there, as in `axes: {dp: 2, tp: 4}`");
    return std::nullopt;
  }
  const auto fields = Fields::Read(context, node, keys::kMesh);
  if (!fields) return std::nullopt;
  const MeshDraft draft = MeshReader(context, *fields).Read(node, devices);
  if (context.findings.errors() > before) return std::nullopt;
  return FinishMesh(draft, context.findings);
}

// Returns the text `tp8,dp2` as `tp:8,dp:2`. Returns an empty string if an
// entry of the text is not a name followed by digits.
std::string WithColons(std::string_view text) {
  std::string out;
  while (!text.empty()) {
    const std::string_view entry = text.substr(0, text.find(','));
    const size_t digits = entry.find_first_of("0123456789");
    if (digits == 0 || digits == entry.npos ||
        entry.find_first_not_of("0123456789", digits) != entry.npos ||
        !AxisNameFault(std::string(entry.substr(0, digits))).empty()) {
      return {};
    }
    out.append(out.empty() ? "" : ",").append(entry.substr(0, digits));
    out.append(":").append(entry.substr(digits));
    text.remove_prefix(std::min(text.size(), entry.size() + 1));
  }
  return out;
}

// Returns `fsdp:2,tp:4` for `2x4` and `fsdp:8` for `8`. Returns an empty string
// for texts that are not one to three sizes joined by `x` or `*`.
std::string WithNames(std::string_view text) {
  constexpr std::array<std::string_view, 3> kNames = {"dp", "fsdp", "tp"};
  std::vector<std::string_view> sizes;
  while (!text.empty()) {
    const size_t end = std::min(text.find_first_of("xX*"), text.size());
    sizes.push_back(text.substr(0, end));
    text.remove_prefix(std::min(text.size(), end + 1));
    if (sizes.back().empty() || sizes.size() > kNames.size() ||
        sizes.back().find_first_not_of("0123456789") != sizes.back().npos) {
      return {};
    }
  }
  const size_t first = sizes.size() > 2 ? 0 : 1;
  std::string out;
  for (size_t i = 0; i < sizes.size(); ++i) {
    AppendItem(out, ",",
               std::string(kNames[first + i]) + ":" + std::string(sizes[i]));
  }
  return out;
}

std::optional<Mesh> ParseInline(const Place& place,
                                std::optional<int64_t> devices,
                                Findings& findings) {
  const auto document = YamlDocument::Parse(place.source, findings);
  if (!document) return std::nullopt;
  const YamlNode* node = FindNode(document->root(), place);
  if (node == nullptr) return std::nullopt;
  return ReadMeshNode({*document, findings}, *node, devices);
}

// The names of the axes if a mesh is given only as sizes, such as `1,8,1,2,1`.
// Five sizes are those of the JAX library eformer. Four sizes are those of its
// predecessor fjformer, which had no expert parallelism.
constexpr std::array<std::string_view, 5> kFiveAxes = {"dp", "fsdp", "ep", "tp",
                                                       "sp"};
constexpr std::array<std::string_view, 4> kFourAxes = {"dp", "fsdp", "tp",
                                                       "sp"};

std::span<const std::string_view> DefaultAxes(size_t sizes) {
  if (sizes == kFiveAxes.size()) return kFiveAxes;
  if (sizes == kFourAxes.size()) return kFourAxes;
  return {};
}

bool IsSizes(std::string_view text) {
  if (text.starts_with('!')) text.remove_prefix(1);
  return text.find(',') != std::string_view::npos &&
         text.find_first_of("0123456789") != std::string_view::npos &&
         text.find_first_not_of("0123456789-, \t") == std::string_view::npos;
}

bool IsBlank(char c) { return c == ' ' || c == '\t' || c == '\n'; }

// Reads one entry of a mesh string, such as `dp:2`. The entry is a byte range
// of the source.
class EntryReader {
 public:
  EntryReader(SourceRef source, Findings& findings)
      : source_(std::move(source)), findings_(findings) {}

  std::optional<MeshDraft::Axis> Read(size_t begin, size_t end) {
    Trim(begin, end);
    const std::string_view text = source_->text();
    const size_t mark = text.substr(0, end).find_first_of(":=", begin);
    if (mark == std::string_view::npos) {
      Add(code::kSchema, begin, end,
          begin == end
              ? "an empty entry between commas"
              : "entry " + Shown(begin, end) + " is no axis with a size",
          "write `name:size`, such as `dp:2,tp:4`");
      return std::nullopt;
    }
    size_t name_end = mark;
    size_t name_begin = begin;
    Trim(name_begin, name_end);
    size_t size_begin = mark + 1;
    size_t size_end = end;
    Trim(size_begin, size_end);
    const auto name = Name(name_begin, name_end);
    if (!name) return std::nullopt;
    const auto size = Size(size_begin, size_end,
                           text.substr(name_begin, name_end - name_begin));
    if (!size) return std::nullopt;
    return MeshDraft::Axis{
        *name, *size, AxisType::kAuto, {source_, begin, end}};
  }

  std::optional<MeshDraft::Axis> ReadSize(size_t begin, size_t end,
                                          std::string_view axis) {
    Trim(begin, end);
    const auto size = Size(begin, end, axis);
    if (!size) return std::nullopt;
    return MeshDraft::Axis{
        std::string(axis), *size, AxisType::kAuto, {source_, begin, end}};
  }

 private:
  void Trim(size_t& begin, size_t& end) const {
    const std::string_view text = source_->text();
    while (begin < end && IsBlank(text[begin])) ++begin;
    while (end > begin && IsBlank(text[end - 1])) --end;
  }
  std::string Shown(size_t begin, size_t end) const {
    return ShortQuote(source_->text().substr(begin, end - begin));
  }
  Finding& Add(const Code& code, size_t begin, size_t end, std::string message,
               std::string help = {}) {
    return findings_.Add(code, {source_, begin, end}, std::move(message),
                         std::move(help));
  }

  std::optional<std::string> Name(size_t begin, size_t end) {
    const std::string name(source_->text().substr(begin, end - begin));
    const std::string fault = AxisNameFault(name);
    if (fault.empty()) return name;
    Add(code::kAxisName, begin, end,
        "axis name " + Shown(begin, end) + " " + fault,
        "write `name:size`, such as `dp:2,tp:4`");
    return std::nullopt;
  }

  std::optional<int64_t> Size(size_t begin, size_t end, std::string_view axis) {
    const std::string subject = "the size of axis " + ShortQuote(axis) + " ";
    IntegerFault fault;
    const std::string_view digits = source_->text().substr(begin, end - begin);
    const auto size = ParseInteger(digits, kAnyInteger, &fault);
    if (!size && digits.find_first_of(":=") != std::string_view::npos) {
      Add(code::kNumber, begin, end, subject + fault.message,
          "separate the axes by commas, such as `dp:2,tp:4`");
    } else if (!size) {
      Add(code::kNumber, begin, end, subject + fault.message, fault.help);
    } else if (*size == 0 || *size < -1) {
      Add(code::kNumber, begin, end, subject + "is " + std::to_string(*size),
          "a size is 1 or more, or -1 for what remains");
      return std::nullopt;
    }
    return size;
  }

  SourceRef source_;
  Findings& findings_;
};

bool CheckDistinct(const MeshDraft& draft, Findings& findings) {
  bool good = true;
  for (size_t i = 0; i < draft.axes.size(); ++i) {
    for (size_t j = 0; j < i; ++j) {
      if (draft.axes[i].name != draft.axes[j].name) continue;
      findings
          .Add(code::kDuplicateKey, draft.axes[i].place,
               "axis `" + draft.axes[i].name + "` is given twice",
               "remove one of the two")
          .labels.push_back({draft.axes[j].place, "first given here"});
      good = false;
      break;
    }
  }
  return good;
}

// Converts a place in a mesh string to a place in the project file. `value` is
// the place of the YAML scalar that contains the string. Returns `value` itself
// if the scalar spells the string differently, for example with escapes.
Place PlaceInFile(const Place& place, const SourceRef& text,
                  const Place& value) {
  if (place.source != text) return place;
  const std::string_view written =
      value.source->text().substr(value.begin, value.end - value.begin);
  const size_t at = written.find(text->text());
  if (!place.HasPosition() || at == std::string_view::npos) return value;
  const size_t begin = value.begin + at;
  return {value.source, begin + place.begin, begin + place.end};
}

// Parses a mesh string `text`, which is a scalar at the place `value` of a
// project file.
std::optional<Mesh> ParseMeshIn(const Place& value, const std::string& text,
                                std::optional<int64_t> devices,
                                Findings& findings) {
  const SourceRef source = MakeSource("--mesh", text);
  Findings own;
  auto mesh = ParseMeshString(source, devices, own);
  for (Finding finding : own.all()) {
    finding.place = PlaceInFile(finding.place, source, value);
    for (Label& label : finding.labels) {
      label.place = PlaceInFile(label.place, source, value);
    }
    findings.Add(std::move(finding));
  }
  return mesh;
}

}  // namespace

bool IsMeshText(std::string_view text) {
  return text.find_first_of(":=") != std::string_view::npos || IsSizes(text);
}

std::optional<Mesh> ParseMesh(SourceRef source, std::optional<int64_t> devices,
                              Findings& findings) {
  const size_t before = findings.errors();
  const auto document = YamlDocument::Parse(std::move(source), findings);
  if (!document) return std::nullopt;
  auto mesh = ReadMeshNode({*document, findings}, document->root(), devices);
  if (findings.errors() > before) return std::nullopt;
  return mesh;
}

std::optional<Mesh> ParseMeshString(SourceRef source,
                                    std::optional<int64_t> devices,
                                    Findings& findings) {
  const size_t before = findings.errors();
  const std::string_view text = source->text();
  MeshDraft draft;
  draft.place = {source, 0, text.size()};
  if (devices) draft.devices = {*devices, draft.place};
  if (text.find('{') != std::string_view::npos) {
    findings.Add(code::kSchema, draft.place,
                 ShortQuote(text) + " is YAML or JSON, not axes with sizes",
                 "write `dp:2,tp:4`, or give the name of a YAML file");
    return std::nullopt;
  }
  EntryReader reader(source, findings);
  const bool sizes = IsSizes(text);
  const auto count =
      static_cast<size_t>(std::count(text.begin(), text.end(), ',')) + 1;
  const auto axes = DefaultAxes(count);
  if (sizes && axes.empty()) {
    findings.Add(code::kSchema, draft.place,
                 Counted(static_cast<int64_t>(count), "size") +
                     " without the names of axes",
                 "name them, such as `dp:2,tp:4`; four sizes alone are those "
                 "of dp, fsdp, tp and sp, five those of dp, fsdp, ep, tp and "
                 "sp");
    return std::nullopt;
  }
  // Skip a leading `!`. In eformer, `!` requests row-major order of devices,
  // which shardc always uses.
  size_t begin = text.starts_with('!') ? 1 : 0;
  for (size_t i = 0; begin <= text.size() && !findings.Full(); ++i) {
    const size_t end = std::min(text.find(',', begin), text.size());
    auto axis =
        sizes ? reader.ReadSize(begin, end, axes[i]) : reader.Read(begin, end);
    if (axis) draft.axes.push_back(std::move(*axis));
    begin = end + 1;
  }
  if (draft.axes.size() > kAxisLimit) {
    findings.Add(
        code::kLimit, draft.place,
        Counted(static_cast<int64_t>(draft.axes.size()), "axis", "axes") +
            " in a mesh",
        "the limit is " + CountText(static_cast<int64_t>(kAxisLimit)));
    return std::nullopt;
  }
  if (findings.errors() > before || !CheckDistinct(draft, findings)) {
    return std::nullopt;
  }
  return FinishMesh(draft, findings);
}

std::optional<Mesh> ReadMesh(const std::string& file_or_text,
                             std::optional<int64_t> devices, Findings& findings,
                             const FileTexts* texts) {
  if (IsMeshText(file_or_text) && !IsThere(file_or_text, texts)) {
    return ParseMeshString(MakeSource("--mesh", file_or_text), devices,
                           findings);
  }
  Findings own;
  SourceRef source = ReadSource(file_or_text, texts, own);
  findings.NoteReadsOf(own);
  const std::string axes = WithColons(file_or_text);
  const bool meant = source == nullptr && !axes.empty();
  const std::string named = WithNames(file_or_text);
  if (source == nullptr && !named.empty()) {
    findings.Add(code::kSchema,
                 {MakeSource("--mesh", file_or_text), 0, file_or_text.size()},
                 "`" + file_or_text + "` has sizes without the names of axes",
                 "name each axis, such as `" + named + "`");
    return std::nullopt;
  }
  for (Finding finding : own.all()) {
    if (meant) finding.help = "axes are written `" + axes + "`";
    if (source == nullptr && finding.help.empty()) {
      finding.help = "a mesh is a file, or axes such as `dp:2,tp:4`";
    }
    findings.Add(std::move(finding));
  }
  if (source == nullptr) return std::nullopt;
  return ParseMesh(std::move(source), devices, findings);
}

std::optional<Mesh> ReadMesh(const MeshInput& input,
                             std::optional<int64_t> devices, Findings& findings,
                             const FileTexts* texts) {
  if (input.inline_place) {
    return ParseInline(*input.inline_place, devices, findings);
  }
  if (input.text_place) {
    return ParseMeshIn(*input.text_place, input.text, devices, findings);
  }
  if (!input.text.empty()) {
    return ParseMeshString(MakeSource("--mesh", input.text), devices, findings);
  }
  return ReadMesh(input.file, devices, findings, texts);
}

}  // namespace shardc
