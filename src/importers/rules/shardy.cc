// Imports Shardy's MLIR: the mesh, and the shardings of the arguments of
// `@main`. The name of an argument is its attribute `jax.arg_info`. If the
// attribute is absent, the name is that of the argument's location, provided
// that no other argument has the same location name. Otherwise it is `arg` and
// the argument's number:
//
//   %arg0: tensor<8x4xf32> {sdy.sharding = #sdy.sharding<@mesh, [{"tp"}, {}]>}
//     loc("p['w']")  ->  ^w$ [tp, null]
//
// JSON is accepted too. It is an object in which `mesh` is the text of the
// mesh, and `params` contains the text of each parameter's sharding.
#include <algorithm>
#include <map>

#include "importers/rules/exact.h"
#include "importers/rules/importer.h"

namespace shardc::imports {
namespace {

class ShardyModule {
 public:
  ShardyModule(const Request& request, Findings& findings)
      : source_(request.source), findings_(findings) {}

  std::optional<Imported> Read() {
    const std::string_view text = source_->text();
    const size_t first = text.find_first_not_of(" \t\r\n");
    const bool json = first != std::string_view::npos && text[first] == '{';
    if (!(json ? ReadJson() : ReadModule())) return std::nullopt;
    if (open_) {
      imported_.comments.push_back(
          "Open dimensions are taken as they are: nothing splits them "
          "further.");
    }
    if (!AddExact(params_, imported_, findings_)) return std::nullopt;
    return std::move(imported_);
  }

 private:
  bool ReadJson() {
    const auto document = JsonDocument::Parse(source_, findings_);
    if (!document) return false;
    const auto mesh = document->root().Find("mesh");
    const auto params = document->root().Find("params");
    if (!mesh || !mesh->IsString() || !params || !params->IsObject()) {
      findings_.Add(code::kSchema, document->root().place(),
                    "this holds no `mesh` and `params`");
      return false;
    }
    Scan scan(mesh->string(), mesh->place());
    if (!ReadMesh(scan)) return false;
    for (const JsonMember member : params->members()) {
      Scan inside(member.value.string(), member.value.place());
      NamedSpec& param = params_.emplace_back();
      param.name = std::string(member.name());
      if (!Sharding(inside, param)) return false;
    }
    return true;
  }

  bool ReadModule() {
    const std::string_view text = source_->text();
    Scan scan(text, {source_, 0, text.size()});
    if (!ReadMesh(scan)) return false;
    if (!scan.Find("@main(")) {
      scan.Refuse("this module has no function `@main`", findings_);
      return false;
    }
    for (int64_t number = 0; scan.Take("%"); ++number) {
      scan.Word();
      if (!Argument(scan, number)) return false;
      scan.Take(",");
    }
    if (scan.Take(")")) {
      NameByLocation();
      return true;
    }
    scan.Refuse("an argument is missing here", findings_);
    return false;
  }

  // Reads a mesh such as `sdy.mesh @mesh = <["a"=2], device_ids=[1, 0]>`.
  bool ReadMesh(Scan& scan) {
    if (!scan.Find("sdy.mesh @")) {
      scan.Refuse("there is no `sdy.mesh` here", findings_);
      return false;
    }
    mesh_ = scan.Word();
    Mesh mesh;
    if (!scan.Take("=") || !scan.Take("<[")) {
      scan.Refuse("the axes of the mesh are missing here", findings_);
      return false;
    }
    while (!scan.Take("]")) {
      if (!mesh.axes.empty()) scan.Take(",");
      const size_t at = scan.at();
      const auto name = scan.Quoted();
      const auto size =
          name && scan.Take("=") ? scan.Number() : std::optional<int64_t>();
      if (!size) {
        scan.Refuse("an axis and its size are missing here", findings_);
        return false;
      }
      if (!AddAxis(*name, *size, scan.PlaceOf(at, scan.at()), mesh,
                   findings_)) {
        return false;
      }
    }
    if (scan.Take(",") && !DeviceIds(scan, mesh)) return false;
    if (!scan.Take(">")) {
      scan.Refuse("the mesh should end here", findings_);
      return false;
    }
    imported_.mesh = std::move(mesh);
    return true;
  }

  // Reads a list such as `device_ids=[0, 2, 1, 3]`, which has the device
  // numbers in the row-major order of the mesh.
  bool DeviceIds(Scan& scan, Mesh& mesh) {
    const size_t begin = scan.at();
    if (!scan.Take("device_ids=[")) {
      scan.Refuse("the devices of the mesh are missing here", findings_);
      return false;
    }
    std::vector<int64_t> devices;
    while (!scan.Take("]")) {
      if (!devices.empty()) scan.Take(",");
      const auto device = scan.Number();
      if (!device) {
        scan.Refuse("the number of a device is missing here", findings_);
        return false;
      }
      devices.push_back(*device);
    }
    return AddDeviceOrder(devices, "device_ids", scan.PlaceOf(begin, scan.at()),
                          mesh, findings_);
  }

  // Reads an argument after its number: `: tensor<8x4xf32> {attributes}` and an
  // optional location.
  bool Argument(Scan& scan, int64_t number) {
    if (!scan.Take(":") || !scan.Take("tensor<") || !scan.Find(">")) {
      scan.Refuse("a tensor's type is missing here", findings_);
      return false;
    }
    scan.Take(">");  // the second `>` of a type such as `complex<f32>`
    NamedSpec param;
    param.place = scan.PlaceOf(0, 0);
    if (scan.Take("{") && !Attributes(scan, param)) return false;
    const bool named = !param.name.empty();
    param.is_path = named;
    if (!named) param.name = "arg" + std::to_string(number);
    if (scan.Take("loc(")) {
      const auto location = Location(scan);
      if (!location) return false;
      if (!named && !location->empty()) {
        ++located_[*location];
        locations_.emplace_back(params_.size(), *location);
      }
    }
    params_.push_back(std::move(param));
    return true;
  }

  // Reads a location after `loc(` and returns its name. The text is `"name")`,
  // `"name"("file.py":1:2))` or `#loc5)`. Other locations have no name. Returns
  // nullopt after a finding.
  std::optional<std::string> Location(Scan& scan) {
    const size_t begin = scan.at();
    std::string name;
    if (scan.Take("#")) {
      name = AliasOf(scan.Word());
    } else if (scan.Peek() == '"') {
      const auto quoted = scan.Quoted();
      // If a colon follows, the text is the path of a file and not a name.
      if (quoted && scan.Peek() != ':') name = *quoted;
    }
    for (int depth = 1; depth > 0;) {
      scan.Blanks();
      const char c = scan.Peek();
      if (scan.AtEnd() || (c == '"' && !scan.Quoted())) {
        scan.MoveTo(begin);
        scan.Refuse("this place never ends", findings_);
        return std::nullopt;
      }
      if (c == '"') continue;
      if (c == '(') ++depth;
      if (c == ')') --depth;
      scan.MoveTo(scan.at() + 1);
    }
    return name;
  }

  // Returns the name in the definition of an alias, such as `#loc5 =
  // loc("name")`. Returns an empty text if the alias has no name.
  std::string AliasOf(const std::string& word) {
    if (!aliases_) ReadAliases();
    const auto found = aliases_->find(word);
    return found == aliases_->end() ? "" : found->second;
  }

  void ReadAliases() {
    aliases_.emplace();
    const std::string_view text = source_->text();
    constexpr std::string_view kAlias = "#loc";
    for (size_t begin = 0; begin < text.size();) {
      const size_t end = std::min(text.find('\n', begin), text.size());
      const std::string_view line = text.substr(begin, end - begin);
      Scan scan(line, {source_, begin, end});
      begin = end + 1;
      if (!line.starts_with(kAlias)) continue;
      scan.MoveTo(1);
      const std::string word = scan.Word();
      if (!scan.Take("=") || !scan.Take("loc(")) continue;
      const auto name = scan.Quoted();
      if (name && scan.Peek() != ':') aliases_->emplace(word, *name);
    }
  }

  // Names each argument by its location if no other argument has the same
  // location name.
  void NameByLocation() {
    for (const auto& [index, name] : locations_) {
      if (located_[name] > 1) continue;
      params_[index].name = name;
      params_[index].is_path = true;
    }
  }

  bool Attributes(Scan& scan, NamedSpec& param) {
    size_t sharding = 0;
    while (!scan.Take("}")) {
      const std::string key = scan.Word();
      if (scan.AtEnd()) {
        scan.Refuse("these attributes never end", findings_);
        return false;
      }
      if (scan.Take("=")) {
        scan.Blanks();
        if (key == "sdy.sharding") sharding = scan.at();
        if (key == "jax.arg_info") {
          const auto quoted = scan.Quoted();
          if (quoted) param.name = *quoted;
        } else if (!Skip(scan)) {
          return false;
        }
      } else if (key.empty() && !scan.Take(",")) {
        scan.Refuse("an attribute is missing here", findings_);
        return false;
      }
      scan.Take(",");
    }
    const size_t end = scan.at();
    if (sharding == 0) return true;
    scan.MoveTo(sharding);
    if (!Sharding(scan, param)) return false;
    scan.MoveTo(end);
    return true;
  }

  // Skips the value of an attribute, including the value's brackets and
  // strings.
  bool Skip(Scan& scan) {
    int depth = 0;
    while (!scan.AtEnd()) {
      const char c = scan.Peek();
      if (depth == 0 && (c == ',' || c == '}')) return true;
      if (c == '"') {
        if (!scan.Quoted()) break;
        continue;
      }
      if (c == '{' || c == '[' || c == '<' || c == '(') ++depth;
      if (c == '}' || c == ']' || c == '>' || c == ')') --depth;
      scan.MoveTo(scan.at() + 1);
    }
    scan.Refuse("this value never ends", findings_);
    return false;
  }

  // Reads a sharding such as `#sdy.sharding<@mesh, [{"tp", ?}p0, {}],
  // replicated={"dp"}>`.
  bool Sharding(Scan& scan, NamedSpec& param) {
    const size_t begin = scan.at();
    if (!scan.Take("#sdy.sharding<@") || scan.Word() != mesh_ ||
        !scan.Take(",") || !scan.Take("[")) {
      scan.Refuse("this is no sharding over `@" + mesh_ + "`", findings_);
      return false;
    }
    while (!scan.Take("]")) {
      if (!param.spec.empty()) scan.Take(",");
      if (!Dimension(scan, param.spec.emplace_back())) return false;
    }
    if (scan.Take(", replicated={") && !scan.Find("}")) {
      scan.Refuse("these axes never end", findings_);
      return false;
    }
    if (!scan.Take(">")) {
      scan.Refuse("the sharding should end here", findings_);
      return false;
    }
    param.place = scan.PlaceOf(begin, scan.at());
    return true;
  }

  bool Dimension(Scan& scan, AxisGroup& group) {
    if (!scan.Take("{")) {
      scan.Refuse("the axes of a dimension are missing here", findings_);
      return false;
    }
    while (!scan.Take("}")) {
      if (!group.empty()) scan.Take(",");
      if (scan.Take("?")) {
        open_ = true;
        continue;
      }
      const auto axis = scan.Quoted();
      if (!axis || !imported_.mesh->Find(*axis) || scan.Peek() == ':') {
        scan.Refuse("this is no whole axis of the mesh", findings_);
        return false;
      }
      group.push_back(*axis);
    }
    if (scan.Peek() == 'p') {
      scan.Take("p");
      scan.Number();
    }
    return true;
  }

  SourceRef source_;
  Findings& findings_;
  Imported imported_;
  std::string mesh_;
  std::vector<NamedSpec> params_;
  // The names of locations. Each is stored with the index of its argument in
  // `params_`.
  std::vector<std::pair<size_t, std::string>> locations_;
  // The number of arguments whose location has this name, keyed by the name.
  std::map<std::string, int> located_;
  std::optional<std::map<std::string, std::string>> aliases_;
  bool open_ = false;
};

std::optional<Imported> ReadShardy(const Request& request, Findings& findings) {
  return ShardyModule(request, findings).Read();
}

}  // namespace

constexpr Importer kShardy{
    "shardy", "a module with `sdy.mesh` and shardings of its arguments", "",
    ReadShardy};

}  // namespace shardc::imports
