// Reads the collectives of a step program from the report of `verify step`.
// These members of each op that is a collective are read:
//
//   {"part": "layer 0-31", "layers": 32, "phase": "backward", "op": "linear q",
//    "result": "[n,h]", "collective": "reduce_scatter", "axes": ["fsdp"],
//    "bytes_per_device": 131072}
//
// This op represents 32 reduce_scatters, one in each layer. The result `[]` is
// a scalar.
#include "audit/planned_step.h"

#include <algorithm>

#include "audit/saved_json.h"
#include "comm/collective_def.h"
#include "source/checked.h"
#include "source/json_members.h"
#include "source/wording.h"

namespace shardc::audit {
namespace {

constexpr std::string_view kHow =
    "write it with `shardc verify step --format json`";

class PlannedStepReader {
 public:
  explicit PlannedStepReader(Findings& findings) : findings_(findings) {}

  std::optional<PlannedStep> Read(const JsonDocument& document,
                                  std::string_view mode) {
    const JsonValue root = document.root();
    const auto steps =
        root.IsObject() ? root.Find("steps") : std::optional<JsonValue>();
    if (SchemaOf(root) != "shardc.step/v1" || !steps || !steps->IsArray()) {
      return saved_.Refuse(root,
                           "this is no report of a step (`shardc.step/v1`)");
    }
    for (const JsonValue step : steps->items()) {
      if (Text(step, "mode") == mode) return ReadStep(step);
      if (saved_.refused()) return std::nullopt;
    }
    findings_.Add(code::kMissing, root.place(),
                  "these steps lack the mode " + ShortQuote(mode),
                  "run `shardc verify step` with `--mode " + std::string(mode) +
                      "`, or give the audit another `--mode`");
    return std::nullopt;
  }

 private:
  std::optional<PlannedStep> ReadStep(const JsonValue& step) {
    if (Text(step, "status") == "unsupported") {
      return saved_.Refuse(step,
                           "this step is not supported, so it has no program");
    }
    PlannedStep out;
    out.mode = Text(step, "mode");
    out.batch = Number(step, "batch");
    out.length = Number(step, "length");
    out.element_bytes = Number(step, "element_bytes");
    out.keep_gathered = saved_.Truth(step, "keep_gathered").value_or(false);
    const auto mesh = step.Find("mesh");
    if (!mesh || !ReadMesh(*mesh, out.mesh)) {
      return saved_.Refuse(step, "the step's `mesh` is missing or wrong");
    }
    const auto ops = step.Find("ops");
    if (!ops || !ops->IsArray()) {
      return saved_.Refuse(step, "the step's list `ops` is missing");
    }
    for (const JsonValue op : ops->items()) {
      if (!op.IsObject()) return saved_.Refuse(op, "an op is an object");
      const auto kind = op.Find("collective");
      if (!kind || kind->IsNull()) continue;
      auto send = ReadSend(op, *kind, out.mesh);
      if (!send) return std::nullopt;
      out.sends.push_back(std::move(*send));
    }
    if (saved_.refused()) return std::nullopt;
    return out;
  }

  std::optional<PlannedSend> ReadSend(const JsonValue& op,
                                      const JsonValue& kind, const Mesh& mesh) {
    PlannedSend out;
    const std::string name = kind.IsString() ? std::string(kind.string()) : "";
    const auto collective = FindCollective(name);
    if (!collective) return saved_.Refuse(kind, "no collective has this name");
    out.kind = *collective;
    const auto axes = op.Find("axes");
    if (!axes || !axes->IsArray()) {
      return saved_.Refuse(op, "the list `axes` of this op is missing");
    }
    std::vector<std::string_view> names;
    for (const JsonValue axis : axes->items()) {
      if (!axis.IsString() || !mesh.Find(axis.string())) {
        return saved_.Refuse(axis, "this is no axis of the step's mesh");
      }
      names.push_back(axis.string());
    }
    for (const MeshAxis& axis : mesh.axes) {
      if (std::ranges::find(names, axis.name) != names.end()) {
        out.axes.push_back(axis.name);
      }
    }
    const std::string phase = Text(op, "phase");
    out.phase = phase == "forward"    ? Phase::kForward
                : phase == "backward" ? Phase::kBackward
                                      : Phase::kNone;
    out.part = Text(op, "part");
    out.op = Text(op, "op");
    out.number = Text(op, "result") == "[]";
    out.layers = Number(op, "layers");
    out.bytes = Number(op, "bytes_per_device");
    const auto all = CheckedMul(out.bytes, out.layers);
    total_ = all && total_ ? CheckedAdd(*total_, *all) : std::nullopt;
    if (!total_)
      return saved_.Refuse(op, "the bytes up to here do not fit in 64 bits");
    if (saved_.refused()) return std::nullopt;
    return out;
  }

  bool ReadMesh(const JsonValue& mesh, Mesh& out) {
    const auto axes =
        mesh.IsObject() ? mesh.Find("axes") : std::optional<JsonValue>();
    if (!axes || !axes->IsArray()) return false;
    for (const JsonValue axis : axes->items()) {
      MeshAxis one;
      one.name = Text(axis, "name");
      one.size = Number(axis, "size");
      const auto devices = CheckedMul(out.devices, one.size);
      if (saved_.refused() || one.size < 1 || !devices) return false;
      out.devices = *devices;
      out.axes.push_back(std::move(one));
    }
    return !saved_.refused();
  }

  int64_t Number(const JsonValue& object, std::string_view key) {
    return saved_.Number(object, key).value_or(0);
  }
  std::string Text(const JsonValue& object, std::string_view key) {
    return saved_.Text(object, key).value_or("");
  }

  Findings& findings_;
  SavedJson saved_{findings_, kHow};
  std::optional<int64_t> total_ = 0;
};

}  // namespace

std::optional<PlannedStep> ReadPlannedStep(const JsonDocument& document,
                                           std::string_view mode,
                                           Findings& findings) {
  return PlannedStepReader(findings).Read(document, mode);
}

}  // namespace shardc::audit
