// Converts XLA's shardings to specs over a mesh. The shardings are read from
// the output of `export hlo`, or from the parameters of a compiled program's
// text. A sharding lists devices (`{devices=[2,1]0,1}`) or describes them by an
// iota (`{devices=[2,4]<=[8]}`), but names no axes. The axes are inferred from
// the devices of the tiles. A program has many parameters and few distinct
// shardings, so the spec of each sharding's text is cached. The cached texts
// have at most kMostKept bytes.
#include "importers/rules/hlo.h"

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <map>
#include <numeric>
#include <optional>
#include <utility>
#include <vector>

#include "hlo/groups.h"
#include "hlo/program.h"
#include "importers/rules/exact.h"
#include "importers/rules/importer.h"
#include "model/mesh.h"
#include "model/mesh_layout.h"
#include "source/file.h"
#include "source/finding.h"
#include "source/json.h"
#include "source/size.h"
#include "source/wording.h"

namespace shardc::imports {

// Infers the mesh axes that shard a tensor from an XLA sharding, which states
// the device of each tile (shard). If two tiles are neighbours along a
// dimension, their devices differ along an axis that shards this dimension. In
// this example, the mesh has the axes a:2 and b:4:
//
//   {devices=[4,1,2]<=[2,4]T(1,0) last_tile_dim_replicate}
//   The four tiles are on devices 0 1 2 3, which differ only along b
//     ->  [b, null]
//
// A spec is accepted only if it places every tile on the same device as the
// sharding.

struct Tiles {
  // The number of tiles along each dimension. If several devices have the same
  // tile (`last_tile_dim_replicate`), the last element is the number of copies
  // of each tile.
  const std::vector<int64_t>& dims;
  // For each tile, the position in the mesh of the device that has the tile.
  const std::vector<int64_t>& devices;
  size_t rank = 0;  // rank of the tensor
};

namespace {

// Finds the axes that shard one dimension, beginning with the minor axis.
// Suppose that the axes found so far split the dimension into n parts. Then
// compare tile 0 with the tile that is n steps after it. Their devices differ
// only in the coordinate on the next axis. Returns false if no axes split the
// dimension into `parts` parts.
bool GroupOf(const Mesh& mesh, int64_t parts, int64_t stride,
             const std::vector<int64_t>& devices, AxisGroup& group) {
  for (int64_t step = 1; step < parts;) {
    const int64_t device = devices[AsIndex(step * stride)];
    if (device < 0 || device >= mesh.devices) return false;
    const auto coordinates = CoordinatesOf(mesh, device);
    size_t axis = 0;
    while (axis < coordinates.size() && coordinates[axis] == 0) ++axis;
    if (axis == coordinates.size()) return false;
    group.insert(group.begin(), mesh.axes[axis].name);
    step *= mesh.axes[axis].size;
  }
  return mesh.Parts(group) == parts;
}

// A device's position in the mesh is a number with one digit for each axis. The
// digit of an axis is the coordinate on this axis, position / stride % size,
// where `size` is the size of the axis.
struct Digit {
  int64_t stride = 1, size = 1;
};

std::vector<Digit> DigitsOf(const Mesh& mesh, const AxisGroup& group) {
  std::vector<Digit> digits;
  for (const std::string& name : group) {
    Digit& digit = digits.emplace_back();
    for (const MeshAxis& axis : mesh.axes) {
      digit.stride *= axis.size;
      if (axis.name != name) continue;
      digit = {1, axis.size};
    }
  }
  return digits;
}

// Returns whether the spec places each tile on the device that the sharding
// states.
bool Holds(const Mesh& mesh, const Tiles& tiles, const Spec& spec) {
  std::vector<std::vector<Digit>> digits;
  for (const AxisGroup& group : spec) digits.push_back(DigitsOf(mesh, group));
  for (size_t tile = 0; tile < tiles.devices.size(); ++tile) {
    const int64_t device = tiles.devices[tile];
    if (device < 0 || device >= mesh.devices) return false;
    auto rest = static_cast<int64_t>(tile);
    for (size_t d = tiles.dims.size(); d > 0;) {
      --d;
      const int64_t tile_index = rest % tiles.dims[d];
      rest /= tiles.dims[d];
      if (d >= spec.size()) continue;
      int64_t index = 0;
      for (const Digit& digit : digits[d]) {
        index = index * digit.size + device / digit.stride % digit.size;
      }
      if (index != tile_index) return false;
    }
  }
  return true;
}

}  // namespace

// Returns the spec over the mesh that places each tile on its device, or
// nullopt if no spec does this. The number of tiles must equal the number of
// devices of the mesh.
std::optional<Spec> SpecOfTiles(const Mesh& mesh, const Tiles& tiles) {
  Spec spec(tiles.rank);
  auto stride = static_cast<int64_t>(tiles.devices.size());
  for (size_t d = 0; d < tiles.rank; ++d) {
    stride /= tiles.dims[d];
    if (!GroupOf(mesh, tiles.dims[d], stride, tiles.devices, spec[d])) {
      return std::nullopt;
    }
  }
  if (!Holds(mesh, tiles, spec)) return std::nullopt;
  return spec;
}

namespace {

// Reads `dcn`, the list of the number of slices (pods) along each axis.
bool ReadDcn(JsonValue value, Mesh& mesh, Findings& findings) {
  std::vector<int64_t> dcn;
  int64_t slices = 1;
  if (value.IsArray() && value.size() == mesh.axes.size()) {
    for (const JsonValue factor : value.items()) {
      const int64_t count =
          factor.kind() == JsonKind::kInteger ? factor.integer() : 0;
      if (count < 1 || mesh.axes[dcn.size()].size % count != 0) break;
      dcn.push_back(count);
      slices *= count;
    }
  }
  if (dcn.size() != mesh.axes.size()) {
    findings.Add(code::kSchema, value.place(),
                 "`dcn` has a factor of each axis, which divides its size");
    return false;
  }
  if (slices == 1) return true;
  mesh.slices = slices;
  mesh.dcn = std::move(dcn);
  return true;
}

// Reads a mesh such as {"axes": [{"name", "size"}, ...], "dcn": [...]}. Returns
// nullopt after a finding. If there is no list `axes`, the mesh has no axes.
std::optional<Mesh> JsonMesh(JsonValue value, Findings& findings) {
  const auto axes = value.Find("axes");
  Mesh mesh;
  if (axes && axes->IsArray()) {
    for (const JsonValue axis : axes->items()) {
      const auto name = axis.Find("name");
      const auto size = axis.Find("size");
      if (!name || !size || !name->IsString() ||
          size->kind() != JsonKind::kInteger) {
        findings.Add(code::kSchema, axis.place(),
                     "a mesh axis has a `name` and a `size`");
        return std::nullopt;
      }
      if (!AddAxis(name->string(), size->integer(), axis.place(), mesh,
                   findings)) {
        return std::nullopt;
      }
    }
  }
  const auto dcn = value.Find("dcn");
  if (dcn && !ReadDcn(*dcn, mesh, findings)) return std::nullopt;
  return mesh;
}

constexpr int64_t kMostDevices = 1 << 20;
// Limits on the work. kMostSteps limits the sum, over all distinct shardings,
// of tiles times dimensions. kMostKept limits the bytes of cached sharding
// texts.
constexpr int64_t kMostSteps = 1 << 28;
constexpr size_t kMostKept = size_t{16} << 20;

class HloShardings {
 public:
  HloShardings(const Request& request, Findings& findings)
      : source_(request.source), findings_(findings) {
    imported_.mesh = request.mesh;
  }

  std::optional<Imported> Read() {
    const std::string_view text = source_->text();
    const size_t first = text.find_first_not_of(" \t\r\n");
    const bool json = first != std::string_view::npos && text[first] == '{';
    if (!(json ? ReadJson() : ReadText())) return std::nullopt;
    if (params_.empty()) {
      if (ReportOtherText(source_, findings_, code::kForeignSyntax)) {
        return std::nullopt;
      }
      findings_.Add(code::kForeignSyntax, {source_},
                    "this file holds no sharding of a parameter",
                    "expected what `export hlo` writes, or the text of a "
                    "compiled program");
      return std::nullopt;
    }
    if (!AddExact(params_, imported_, findings_)) return std::nullopt;
    return std::move(imported_);
  }

  // Reads the sharding at the cursor, such as `{devices=[2,4]<=[8]}`. Returns
  // nullopt after a finding.
  std::optional<Spec> Sharding(Scan& scan) {
    Scan end = scan;
    for (int brace = 0; brace < 2 && end.Find("}"); ++brace) {
      const auto known = known_.find(end.Since(scan.at()));
      if (known == known_.end()) continue;
      scan.MoveTo(end.at());
      return known->second;
    }
    const size_t begin = scan.at();
    auto spec = NewSharding(scan);
    if (spec && kept_ + scan.at() - begin <= kMostKept) {
      kept_ += scan.at() - begin;
      known_.emplace(scan.Since(begin), *spec);
    }
    return spec;
  }

 private:
  bool Inexpressible(const Place& place, std::string message,
                     std::string help = {}) {
    findings_.Add(code::kInexpressible, place, std::move(message),
                  std::move(help));
    return false;
  }

  bool ReadJson() {
    const auto document = JsonDocument::Parse(source_, findings_);
    if (!document) return false;
    const auto params = document->root().Find("params");
    if (!params || !params->IsObject()) {
      findings_.Add(code::kSchema, document->root().place(),
                    "this holds no `params`");
      return false;
    }
    const auto mesh = document->root().Find("mesh");
    if (mesh && !imported_.mesh) {
      imported_.mesh = JsonMesh(*mesh, findings_);
      if (!imported_.mesh) return false;
    }
    if (!NumberDevices(document->root().place())) return false;
    for (const JsonMember member : params->members()) {
      if (!member.value.IsString()) {
        findings_.Add(code::kSchema, member.value.place(),
                      "a sharding is a text");
        return false;
      }
      Place inside = member.value.place();
      ++inside.begin;
      --inside.end;
      Scan scan(member.value.string(), inside);
      if (!AddParam(std::string(member.name()), scan)) return false;
    }
    return true;
  }

  // Fills `positions_`, which converts device numbers in the output of `export
  // hlo` to positions. On a mesh of several slices (pods), a device's number
  // differs from its position in the mesh (model/mesh_layout.h). Compiled
  // programs number their partitions by position, so their numbers are not
  // converted. Returns false after a finding.
  bool NumberDevices(const Place& place) {
    if (!imported_.mesh || imported_.mesh->slices == 1) return true;
    if (imported_.mesh->devices > kMostDevices) {
      findings_.Add(code::kLimit, place,
                    "a mesh of several slices has more than " +
                        CountText(kMostDevices) + " devices");
      return false;
    }
    const std::vector<int64_t> order = DeviceOrder(*imported_.mesh);
    positions_.resize(order.size());
    for (size_t i = 0; i < order.size(); ++i) {
      positions_[AsIndex(order[i])] = static_cast<int64_t>(i);
    }
    return true;
  }

  // Reads lines such as `"name": {...}`, or the instructions of a compiled
  // program.
  bool ReadText() {
    size_t begin = 0;
    const std::string_view text = source_->text();
    while (begin < text.size()) {
      const size_t end = std::min(text.find('\n', begin), text.size());
      const std::string_view line = text.substr(begin, end - begin);
      Scan scan(line, {source_, begin, end});
      scan.Blanks();
      const bool good =
          scan.Peek() == '"' ? ReadLine(scan) : ReadInstruction(scan, line);
      if (!good) return false;
      begin = end + 1;
    }
    return true;
  }

  bool ReadLine(Scan& scan) {
    const size_t begin = scan.at();
    const auto name = scan.Quoted();
    if (!name || !scan.Take(":")) {
      scan.Refuse("a name and a colon are missing here", findings_);
      return false;
    }
    if (params_.empty() && !NumberDevices(scan.PlaceOf(begin, scan.at()))) {
      return false;
    }
    return AddParam(*name, scan);
  }

  bool ReadInstruction(Scan& scan, std::string_view line) {
    if (line.find(" parameter(") == std::string_view::npos) return true;
    const auto instruction = hlo::SplitInstruction(line);
    if (!instruction || instruction->opcode != "parameter") return true;
    const auto sharding = hlo::AttributeOf(instruction->attributes, "sharding");
    if (!sharding) return true;
    std::string name(instruction->name);
    bool is_path = false;
    const auto member = hlo::MemberOf(hlo::MetadataOf(*instruction), "op_name");
    if (member) {  // The opening quote is the character before `member`.
      scan.MoveTo(static_cast<size_t>(member->data() - line.data()) - 1);
      if (!scan.Quoted()) {
        scan.Refuse("this name never ends", findings_);
        return false;
      }
      name = hlo::Unescaped(*member);
      is_path = true;
    }
    scan.MoveTo(static_cast<size_t>(sharding->data() - line.data()));
    return AddParam(name, scan, is_path);
  }

  bool AddParam(const std::string& name, Scan& scan, bool is_path = false) {
    const size_t begin = scan.at();
    auto spec = Sharding(scan);
    if (!spec) return false;
    params_.push_back(
        {name, std::move(*spec), scan.PlaceOf(begin, scan.at()), is_path});
    return true;
  }

  std::optional<Spec> NewSharding(Scan& scan) {
    const size_t begin = scan.at();
    if (!scan.Take("{")) {
      scan.Refuse("a sharding begins with a brace", findings_);
      return std::nullopt;
    }
    if (scan.Take("replicated}")) return Spec();
    if (scan.Take("devices=")) return Tiled(scan, begin);
    if (scan.Take("mesh[")) return Named(scan);
    const std::string word = scan.Word();
    Inexpressible(scan.PlaceOf(begin, scan.at()),
                  word.empty() ? "this is no sharding of one tensor"
                               : "a plan has no `" + word + "` sharding");
    return std::nullopt;
  }

  std::optional<std::vector<int64_t>> Numbers(Scan& scan,
                                              std::string_view end) {
    std::vector<int64_t> out;
    while (!scan.Take(end)) {
      if (!out.empty()) scan.Take(",");
      const auto number = scan.Number();
      if (!number || out.size() > AsIndex(kMostDevices)) {
        scan.Refuse("a list of numbers is malformed here", findings_);
        return std::nullopt;
      }
      out.push_back(*number);
    }
    return out;
  }

  std::optional<Spec> Tiled(Scan& scan, size_t begin) {
    if (!scan.Take("[")) {
      scan.Refuse("the sizes of the tiles are missing here", findings_);
      return std::nullopt;
    }
    const auto dims = Numbers(scan, "]");
    if (!dims) return std::nullopt;
    auto devices = Devices(scan);
    if (!devices) return std::nullopt;
    for (int64_t& device : *devices) {
      if (device < std::ssize(positions_)) {
        device = positions_[AsIndex(device)];
      }
    }
    if (!Afford(devices->size(), dims->size(), scan)) return std::nullopt;
    size_t rank = dims->size();
    if (scan.Take("last_tile_dim_replicate") ||
        scan.Take("last_tile_dims={replicated}")) {
      rank -= rank == 0 ? 0 : 1;
    } else if (scan.Take("last_tile_dims=")) {
      Inexpressible(scan.PlaceOf(begin, scan.at()),
                    "a plan has no subgroups other than copies");
      return std::nullopt;
    }
    if (!scan.Take("}")) {
      scan.Refuse("the sharding should end here", findings_);
      return std::nullopt;
    }
    return SpecOf(*dims, *devices, rank, scan.PlaceOf(begin, scan.at()));
  }

  // Reads the device numbers in the order of the tiles. Returns nullopt after a
  // finding.
  std::optional<std::vector<int64_t>> Devices(Scan& scan) {
    std::vector<int64_t> out;
    if (!scan.Take("<=[")) {
      while (scan.Peek() >= '0' && scan.Peek() <= '9') {
        const auto number = scan.Number();
        if (!number || out.size() > AsIndex(kMostDevices)) break;
        out.push_back(*number);
        if (scan.Peek() == ',') scan.Take(",");
      }
      return out;
    }
    return IotaOf(scan);
  }

  // Reads the rest of an iota after `<=[`, such as `2,4]T(1,0)`. Returns the
  // numbers that the iota describes.
  std::optional<std::vector<int64_t>> IotaOf(Scan& scan) {
    const auto sizes = Numbers(scan, "]");
    if (!sizes) return std::nullopt;
    std::vector<int64_t> order(sizes->size());
    std::iota(order.begin(), order.end(), int64_t{0});
    if (scan.Take("T(")) {
      const auto given = Numbers(scan, ")");
      if (!given) return std::nullopt;
      std::vector<int64_t> sorted = *given;
      std::sort(sorted.begin(), sorted.end());
      if (sorted != order) {
        scan.Refuse("this is no order of the dimensions", findings_);
        return std::nullopt;
      }
      order = *given;
    }
    const auto count = CheckedProduct(*sizes);
    if (!count || *count < 1 || *count > kMostDevices) {
      scan.Refuse("this is no number of devices", findings_);
      return std::nullopt;
    }
    if (!Afford(AsIndex(*count), sizes->size(), scan)) {
      return std::nullopt;
    }
    return hlo::IotaNumbers(*sizes, order, *count);
  }

  bool Afford(size_t tiles, size_t dims, const Scan& scan) {
    steps_ += static_cast<int64_t>(tiles * std::max(dims, size_t{1}));
    if (steps_ <= kMostSteps) return true;
    findings_.Add(code::kLimit, scan.PlaceOf(scan.at(), scan.at()),
                  "the different shardings up to here have more than " +
                      CountText(kMostSteps) + " tiles times dimensions");
    return false;
  }

  std::optional<Spec> SpecOf(const std::vector<int64_t>& dims,
                             const std::vector<int64_t>& devices, size_t rank,
                             const Place& place) {
    const auto count = CheckedProduct(dims);
    if (!imported_.mesh) {
      findings_.Add(code::kUsage, place,
                    "device numbers name no axes, and no mesh is given",
                    "say with `--mesh` what mesh the program was made for");
      return std::nullopt;
    }
    const Mesh& mesh = *imported_.mesh;
    if (!count || *count != static_cast<int64_t>(devices.size()) ||
        *count != mesh.devices) {
      findings_.Add(code::kDeviceCount, place,
                    "the mesh has " + CountText(mesh.devices) +
                        " devices, and the sharding is over " +
                        CountText(static_cast<int64_t>(devices.size())));
      return std::nullopt;
    }
    auto spec = SpecOfTiles(mesh, {dims, devices, rank});
    if (spec) return spec;
    Inexpressible(place,
                  "no order of the axes " + MeshText(*imported_.mesh) +
                      " gives the devices these tiles",
                  "whole axes split a dimension; is the mesh the program's?");
    return std::nullopt;
  }

  // Reads the rest of a sharding that names axes, such as `{mesh['a'=2,'b'=4],
  // [{'a'}, {}]}`.
  std::optional<Spec> Named(Scan& scan) {
    Mesh mesh;
    while (!scan.Take("]")) {
      if (!mesh.axes.empty()) scan.Take(",");
      const auto name = Name(scan);
      const size_t at = scan.at();
      const auto size =
          name && scan.Take("=") ? scan.Number() : std::optional<int64_t>();
      if (!size) {
        scan.Refuse("an axis and its size are missing here", findings_);
        return std::nullopt;
      }
      if (!AddAxis(*name, *size, scan.PlaceOf(at, scan.at()), mesh,
                   findings_)) {
        return std::nullopt;
      }
    }
    if (imported_.mesh && MeshText(*imported_.mesh) != MeshText(mesh)) {
      scan.Refuse("this mesh is not " + MeshText(*imported_.mesh), findings_);
      return std::nullopt;
    }
    const bool comma = scan.Take(",");
    if (comma && scan.Take("device_ids=(") && !DeviceIds(scan, mesh)) {
      return std::nullopt;
    }
    if (!imported_.mesh) imported_.mesh = mesh;
    Spec spec;
    if (comma && scan.Take("replicated}")) return spec;
    if (!comma || !scan.Take("[")) {
      scan.Refuse("the dimensions are missing here", findings_);
      return std::nullopt;
    }
    while (!scan.Take("]")) {
      if (!spec.empty()) scan.Take(",");
      if (!Group(scan, spec.emplace_back())) return std::nullopt;
    }
    if (scan.Take("}")) return spec;
    scan.Refuse("a plan has no more to say of a sharding than its dimensions",
                findings_);
    return std::nullopt;
  }

  // Reads the devices after `device_ids=(`, such as `[2,2,2]T(1,0,2)),` or
  // `0,2,1,3),`. Divides `mesh` into slices (pods) so that its devices have
  // this order. If the mesh of the import is already known, their order is not
  // used.
  bool DeviceIds(Scan& scan, Mesh& mesh) {
    const size_t begin = scan.at();
    const bool iota = scan.Take("[");
    const auto devices = iota ? IotaOf(scan) : Numbers(scan, ")");
    if (!devices) return false;
    if ((iota && !scan.Take(")")) || !scan.Take(",")) {
      scan.Refuse("the devices should end here", findings_);
      return false;
    }
    return imported_.mesh.has_value() ||
           AddDeviceOrder(*devices, "device_ids",
                          scan.PlaceOf(begin, scan.at()), mesh, findings_);
  }

  static std::optional<std::string> Name(Scan& scan) {
    scan.Blanks();
    if (scan.Peek() == '\'' || scan.Peek() == '"') return scan.Quoted();
    std::string word = scan.Word();
    if (word.empty()) return std::nullopt;
    return word;
  }

  bool Group(Scan& scan, AxisGroup& group) {
    if (!scan.Take("{")) {
      scan.Refuse("the axes of a dimension are missing here", findings_);
      return false;
    }
    while (!scan.Take("}")) {
      if (!group.empty()) scan.Take(",");
      const auto name = Name(scan);
      if (!name || !imported_.mesh->Find(*name) || scan.Peek() == ':') {
        scan.Refuse("this is no whole axis of the mesh", findings_);
        return false;
      }
      group.push_back(*name);
    }
    return true;
  }

  SourceRef source_;
  Findings& findings_;
  Imported imported_;
  std::vector<NamedSpec> params_;
  // The position in the mesh, indexed by device number. Empty if the position
  // of each device is its number.
  std::vector<int64_t> positions_;
  // The cached specs, keyed by the text of the sharding.
  std::map<std::string, Spec, std::less<>> known_;
  size_t kept_ = 0;
  int64_t steps_ = 0;
};

std::optional<Imported> ReadHlo(const Request& request, Findings& findings) {
  return HloShardings(request, findings).Read();
}

}  // namespace

std::vector<std::optional<Spec>> SpecsOfShardings(
    const SourceRef& source, const Mesh& mesh,
    std::span<const std::string_view> shardings) {
  Request request;
  request.source = source;
  request.mesh = mesh;
  Findings refused;  // not reported: a refused sharding becomes nullopt
  HloShardings reader(request, refused);
  std::vector<std::optional<Spec>> out;
  for (const std::string_view one : shardings) {
    const auto begin = static_cast<size_t>(one.data() - source->text().data());
    Scan scan(one, {source, begin, begin + one.size()});
    out.push_back(reader.Sharding(scan));
  }
  return out;
}

constexpr Importer kHlo{
    "hlo",
    "XLA's shardings: what `export hlo` writes, or a compiled program's text",
    "--mesh", ReadHlo};

}  // namespace shardc::imports
