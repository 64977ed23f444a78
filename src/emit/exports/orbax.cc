// Exports the `_sharding` file of an orbax checkpoint. The file is a JSON
// object. Its keys are names of arrays in base64, and its values are JSON
// strings. If orbax restores a checkpoint without a target, each array of the
// checkpoint must have an entry. A checkpoint of a train state also has arrays
// of the optimizer. The option `--state` names these arrays, and the file then
// has entries for all of them. For example, an entry for the parameter `w` is:
//
//   {"dw==": "{\"sharding_type\": \"NamedSharding\", \"shape\": [2], ...}"}
#include "emit/exports/exporter.h"

#include <algorithm>
#include <map>
#include <optional>
#include <set>
#include <string_view>
#include <utility>

#include "model/manifest.h"
#include "model/mesh_layout.h"
#include "model/name.h"
#include "source/json_writer.h"
#include "source/size.h"
#include "source/utf8.h"
#include "source/wording.h"

namespace shardc::exports {
namespace {

// Returns a parameter's name in orbax, which joins the parts of a path with
// dots even if the plan's separator is a slash.
std::string OrbaxName(std::string name, char separator) {
  if (separator != '/') return name;
  for (char& c : name) c = c == '/' ? '.' : c;
  return name;
}

// Returns the device numbers in the order of the mesh. Returns an empty list
// for more than kMostListed devices. Such a mesh has only one slice
// (CanListDevices), so orbax's default, the order of the device ids, is right.
std::vector<int64_t> Devices(const Mesh& mesh) {
  std::vector<int64_t> devices;
  if (mesh.devices > kMostListed) return devices;
  devices = DeviceOrder(mesh);
  if (!devices.empty()) return devices;
  for (int64_t n = 0; n < mesh.devices; ++n) devices.push_back(n);
  return devices;
}

std::string ShardingText(const Mesh& mesh, const Spec& spec) {
  return JsonText([&](JsonWriter& json) {
    json.BeginObject();
    json.Member("sharding_type", "NamedSharding");
    json.Key("shape");
    json.Array(mesh.axes, &MeshAxis::size);
    json.Key("axis_names");
    json.Array(mesh.axes, &MeshAxis::name);
    json.Key("axis_types");
    json.Array(mesh.axes, [](const MeshAxis& axis) {
      return axis.type == AxisType::kExplicit ? "AxisType.Explicit"
             : axis.type == AxisType::kManual ? "AxisType.Manual"
                                              : "AxisType.Auto";
    });
    json.Member("partition_spec", WrittenBy(WriteSpec, spec));
    const std::vector<int64_t> devices = Devices(mesh);
    if (!mesh.axes.empty() && !devices.empty()) {
      json.Member("device_mesh",
                  Record("mesh", WrittenBy(WriteDeviceGrid, mesh, devices)));
    }
    json.EndObject();
  });
}

void WriteOrbax(const Request& request, Sink& out, Findings& findings) {
  const ReadPlan& plan = request.plan;
  if (!NoPlacements(plan, "orbax", findings) ||
      !CanListDevices(plan.mesh, "orbax", findings) ||
      !EvenShards(plan, {"orbax", kEqualParts, request.options.mode},
                  findings)) {
    return;
  }
  const Mode mode = request.options.mode;
  std::vector<StateArray> arrays;
  char separator = SeparatorOf(plan);
  if (request.state != nullptr) {
    arrays = ArraysOfState(plan, mode, *request.state, findings);
    if (request.state->separator != 0) separator = request.state->separator;
  } else {
    for (const ReadParam& param : plan.params) {
      arrays.push_back({param.name, param.SpecOf(mode)});
    }
  }
  JsonWriter json(out);
  json.BeginObject(JsonLayout::kLines);
  std::map<Spec, std::string> texts;
  // the JSON text of each distinct spec
  for (const StateArray& array : arrays) {
    const auto [text, fresh] = texts.try_emplace(array.spec);
    if (fresh) text->second = ShardingText(plan.mesh, array.spec);
    json.Member(EncodeUrlBase64(OrbaxName(array.name, separator)),
                text->second);
  }
  json.EndObject();
  out.Put('\n');
}

}  // namespace

constexpr Exporter kOrbax{"orbax",
                          "the `_sharding` file of an orbax checkpoint", "json",
                          "--mode --state", WriteOrbax};

// Finds the parameter to which each array of a train state belongs. An
// optimizer's state contains trees with the same structure as the parameters.
// An array therefore belongs to the parameter whose name occurs last in the
// array's path. The Python package (python/shardc/arrays.py) uses the same
// rule. For example:
//
//   params/up/kernel             [8, 16]  ->  up/kernel, dimensions 0 and 1
//   opt_state/0/mu/up/kernel     [8, 16]  ->  up/kernel, dimensions 0 and 1
//   opt_state/0/v_row/up/kernel  [8]      ->  up/kernel, dimension 0
//   opt_state/0/count            []       ->  no parameter: replicated

namespace {

using Parts = std::vector<std::string>;

// An array may have another number of dimensions than its parameter. All ways
// to assign the dimensions of one to those of the other are then tried. If the
// array or the parameter has more dimensions than this, that would take too
// long, and the array is replicated.
constexpr size_t kMostDimensions = 12;

int64_t Elements(const Shape& shape) {
  // The result is exact up to 1. It is 2 for all larger numbers of elements.
  int64_t count = 1;
  for (const int64_t size : shape) {
    count = size == 0 || count == 0 ? 0 : count > 1 || size > 1 ? 2 : 1;
  }
  return count;
}

// Finds the spec of an array from its parameter's spec. If their ranks differ,
// each dimension of the tensor with fewer dimensions is assigned to a dimension
// of equal size of the other tensor, in ascending order. An array [8] of a
// parameter [8, 8] has two such assignments. The class collects the specs of
// all assignments.
class Ways {
 public:
  Ways(const Shape& array, const Shape& param, const Spec& spec)
      : array_(array), param_(param), spec_(spec) {}

  // Returns the spec of the array. If different assignments lead to different
  // specs, returns the empty spec, which means replicated. Returns nullopt if
  // no assignment exists, or if there are more than kMostDimensions dimensions.
  std::optional<Spec> Only() {
    if (array_.size() == param_.size()) {
      SameRank();
    } else if (std::max(array_.size(), param_.size()) <= kMostDimensions) {
      Choose({});
    }
    if (found_.empty()) return std::nullopt;
    return found_.size() == 1 ? *found_.begin() : Spec();
  }

 private:
  AxisGroup GroupAt(size_t dim) const {
    return dim < spec_.size() ? spec_[dim] : AxisGroup();
  }

  // Sets the spec of an array that has the parameter's rank. A dimension of
  // size 1 of the array is unsharded: there, the optimizer stores one value for
  // all indices of the parameter's dimension.
  void SameRank() {
    Spec out(array_.size());
    for (size_t d = 0; d < array_.size(); ++d) {
      if (array_[d] != param_[d] && array_[d] != 1) return;
      if (array_[d] == param_[d]) out[d] = GroupAt(d);
    }
    found_.insert(std::move(out));
  }

  // Tries all assignments that begin with `taken`, and collects their specs.
  // `taken[i]` is the dimension of the tensor with more dimensions to which
  // dimension `i` of the other tensor is assigned.
  void Choose(std::vector<size_t> taken) {
    const bool fewer = array_.size() < param_.size();
    const Shape& few = fewer ? array_ : param_;
    const Shape& many = fewer ? param_ : array_;
    if (taken.size() == few.size()) {
      Spec out(array_.size());
      for (size_t i = 0; i < taken.size(); ++i) {
        out[fewer ? i : taken[i]] = GroupAt(fewer ? taken[i] : i);
      }
      found_.insert(std::move(out));
      return;
    }
    const size_t from = taken.empty() ? 0 : taken.back() + 1;
    for (size_t dim = from; dim < many.size(); ++dim) {
      if (many[dim] != few[taken.size()]) continue;
      std::vector<size_t> next = taken;
      next.push_back(dim);
      Choose(std::move(next));
    }
  }

  const Shape& array_;
  const Shape& param_;
  const Spec& spec_;
  std::set<Spec> found_;
};

class State {
 public:
  State(const ReadPlan& plan, Mode mode)
      : mode_(mode), separator_(SeparatorOf(plan)) {
    for (const ReadParam& param : plan.params) {
      Parts parts = PartsOf(param.name, separator_);
      longest_ = std::max(longest_, parts.size() + 1);
      names_.emplace(std::move(parts), &param);
    }
  }

  std::vector<StateArray> Arrays(const Manifest& state, Findings& findings) {
    std::vector<Array> arrays;
    for (const Tensor& tensor : state.tensors) {
      Array& array = arrays.emplace_back();
      array.name = std::string(tensor.name);
      for (const std::string& part : PartsOf(array.name, state.separator)) {
        for (std::string& one : PartsOf(part, separator_)) {
          array.parts.push_back(std::move(one));
        }
      }
      array.shape = state.TypeOf(tensor).shape;
      Find(array);
    }
    std::vector<StateArray> out;
    for (const Array& array : arrays) {
      out.push_back({array.name, SpecOf(array, findings)});
    }
    Report(state, findings);
    return out;
  }

 private:
  struct Array {
    std::string name;
    Parts parts;
    std::optional<Shape> shape;
    // Null if no parameter's name is in the path.
    const ReadParam* param = nullptr;
    size_t begin = 0, end = 0;  // range of the parameter's name in `parts`
    // True if the array and the parameter have the same shape, or if one of the
    // two shapes is unknown.
    bool same = false;
  };

  static Parts PartsOf(std::string_view name, char separator) {
    Parts out;
    for (const std::string_view part : SplitName(name, separator)) {
      out.emplace_back(part);
    }
    return out;
  }

  // Returns the parameter whose name has these parts. Flax puts parameters
  // under a key `params`, which only the plan or only the state may have in its
  // names. So if no parameter is found, the function tries the parts without a
  // leading `params`, and then the parts with an additional leading `params`.
  // Returns null if no parameter is found.
  const ReadParam* Known(const Parts& parts) const {
    const auto find = [&](const Parts& wanted) -> const ReadParam* {
      const auto found = names_.find(wanted);
      return found == names_.end() ? nullptr : found->second;
    };
    if (const ReadParam* param = find(parts)) return param;
    Parts other = parts;
    if (!parts.empty() && parts.front() == "params") {
      other.erase(other.begin());
      if (const ReadParam* param = find(other)) return param;
    }
    other = parts;
    other.insert(other.begin(), "params");
    return find(other);
  }

  // Finds the parameter whose name occurs last in the array's path. If several
  // names end at the same part of the path, the longest name is used.
  void Find(Array& array) {
    const Parts& parts = array.parts;
    for (size_t end = parts.size(); end > 0 && !array.param; --end) {
      size_t begin = end > longest_ ? end - longest_ : 0;
      for (; begin < end && !array.param; ++begin) {
        array.param =
            Known({parts.begin() + Offset(begin), parts.begin() + Offset(end)});
        array.begin = begin;
        array.end = end;
      }
    }
    if (array.param == nullptr) return;
    const auto& shape = array.param->type.shape;
    array.same = !shape || !array.shape || *shape == *array.shape;
    if (!array.same || (array.shape && Elements(*array.shape) < 2)) return;
    const size_t root = array.begin + (parts[array.begin] == "params" ? 1 : 0);
    roots_.insert(Parts(parts.begin(), parts.begin() + Offset(root)));
  }

  static std::ptrdiff_t Offset(size_t index) {
    return static_cast<std::ptrdiff_t>(index);
  }

  // Returns whether the array is in a copy of the parameters' tree. Its path
  // then begins with one of roots_, such as `opt_state/0/mu`.
  bool AmongParameters(const Array& array) const {
    for (size_t n = 0; n < array.parts.size(); ++n) {
      if (roots_.contains(
              Parts(array.parts.begin(), array.parts.begin() + Offset(n)))) {
        return true;
      }
    }
    return false;
  }

  Spec SpecOf(const Array& array, Findings& findings) {
    if (array.param != nullptr && array.same) return array.param->SpecOf(mode_);
    if (!array.shape || array.shape->empty()) return {};
    // An array of at most one element is replicated whatever its name:
    // optimizers use such arrays as placeholders.
    if (array.param != nullptr && Elements(*array.shape) < 2) return {};
    if (AmongParameters(array)) {
      if (array.param == nullptr) {
        unknown_.push_back(array.name);
        return {};
      }
      findings.Add(code::kInexpressible, array.param->place,
                   ShortQuote(array.param->name) + " is " +
                       ShapeText(*array.param->type.shape) +
                       " in the plan, and " + ShortQuote(array.name) + " is " +
                       ShapeText(*array.shape) + " in the train state",
                   "compile the plan from the parameters of this state");
      return {};
    }
    if (array.param == nullptr) return {};
    return Ways(*array.shape, *array.param->type.shape,
                array.param->SpecOf(mode_))
        .Only()
        .value_or(Spec());
  }

  void Report(const Manifest& state, Findings& findings) const {
    if (unknown_.empty()) return;
    const auto count = static_cast<int64_t>(unknown_.size());
    Finding finding;
    finding.code = &code::kInexpressible;
    finding.level = Level::kWarning;
    finding.place = {state.source};
    finding.params = unknown_;
    finding.message =
        "the plan lacks " + ShortQuote(unknown_.front()) +
        (count > 1 ? " and " + CountText(count - 1) + " more" : "") +
        " among the parameters: the file replicates " +
        (count > 1 ? "them" : "it");
    findings.Add(std::move(finding));
  }

  Mode mode_;
  char separator_;
  std::map<Parts, const ReadParam*> names_;
  size_t longest_ = 1;
  // The paths at which copies of the parameters' tree begin, such as `params`
  // and `opt_state/0/mu`.
  std::set<Parts> roots_;
  std::vector<std::string> unknown_;
};

}  // namespace

std::vector<StateArray> ArraysOfState(const ReadPlan& plan, Mode mode,
                                      const Manifest& state,
                                      Findings& findings) {
  Findings found;
  std::vector<StateArray> out = State(plan, mode).Arrays(state, found);
  if (found.HasErrors()) out.clear();
  findings.Append(std::move(found));
  return out;
}

}  // namespace shardc::exports
