// An equal fingerprint ends it. Otherwise specs, shapes and meshes are
// compared as compact JSON text, with the plan that would be written now; a
// mode that the committed plan leaves out had the common spec.
//
//   "spec": ["tp", "fsdp"], and now ["fsdp", "tp"]
//     ->  the spec of `up/kernel` was ["tp", "fsdp"] and is ["fsdp", "tp"]
#include "lint/locked.h"

#include <charconv>
#include <map>
#include <string>
#include <string_view>
#include <unordered_map>
#include <utility>
#include <vector>

#include "lint/analysis/phrase.h"
#include "lint/rules/all.h"
#include "source/json.h"
#include "source/json_writer.h"
#include "source/wording.h"

namespace shardc {
namespace {

// A JSON value's text without white space between its parts: specs, shapes
// and meshes are compared as text.
std::string Compact(const JsonValue& value) {
  std::string out;
  switch (value.kind()) {
    case JsonKind::kNull:
      return "null";
    case JsonKind::kString:
      return JsonString(value.string());
    case JsonKind::kArray:
      out = "[";
      for (const JsonValue item : value.items()) {
        if (out.size() > 1) out += ", ";
        out += Compact(item);
      }
      return out + "]";
    case JsonKind::kInteger:
      return std::to_string(value.integer());
    default:
      break;
  }
  const Place place = value.place();
  return std::string(
      place.source->text().substr(place.begin, place.end - place.begin));
}

class Comparison {
 public:
  Comparison(const Plan& plan, size_t limit) : plan_(plan), limit_(limit) {}

  FindingSink Run(const JsonValue& root) {
    CompareMesh(root);
    CompareModes(root);
    const auto params = root.Find("params");
    if (params && params->IsObject()) CompareParams(*params);
    if (count_ > found_.size()) {
      Finding more = Make(root.place(),
                          Counted(static_cast<int64_t>(count_ - found_.size()),
                                  "more difference"));
      found_.push_back(std::move(more));
    }
    return std::move(found_);
  }

 private:
  static Finding Make(Place place, std::string message) {
    Finding out;
    out.code = &kPlanOutOfDate.code;
    out.level = out.code->level;
    // The place of a whole object would be underlined to its end.
    if (place.HasPosition()) place.end = place.begin + 1;
    out.place = std::move(place);
    out.message = std::move(message);
    out.help = "look at the change, then run `shardc plan --write-locked`";
    return out;
  }

  void Say(const Place& place, std::string message, std::string param = {}) {
    ++count_;
    if (found_.size() >= limit_) return;
    Finding finding = Make(place, std::move(message));
    if (!param.empty()) finding.params.push_back(std::move(param));
    found_.push_back(std::move(finding));
  }

  void CompareMesh(const JsonValue& root) {
    std::string was;
    const auto mesh = root.Find("mesh");
    const auto axes =
        mesh && mesh->IsObject() ? mesh->Find("axes") : std::nullopt;
    if (axes && axes->IsArray()) {
      for (const JsonValue axis : axes->items()) {
        if (!axis.IsObject()) continue;
        const auto name = axis.Find("name");
        const auto size = axis.Find("size");
        if (!name || !name->IsString() || !size) continue;
        was += (was.empty() ? "" : " ") + std::string(name->string()) + "=" +
               Compact(*size);
      }
    }
    const std::string now = MeshText(plan_.mesh);
    if (was != now) {
      Say(mesh ? mesh->place() : root.place(),
          "the mesh was " + was + " and is " + now);
    }
  }

  void CompareModes(const JsonValue& root) {
    const std::string now =
        JsonText([&](JsonWriter& json) { json.Array(plan_.modes, ModeName); });
    const auto modes = root.Find("modes");
    const std::string was = modes ? Compact(*modes) : "[]";
    if (was != now) {
      Say(modes ? modes->place() : root.place(),
          "the modes were " + was + " and are " + now);
    }
  }

  void CompareParams(const JsonValue& params) {
    std::unordered_map<std::string_view, size_t> now;
    for (size_t i = 0; i < plan_.names.size(); ++i) now[plan_.names[i]] = i;
    std::vector<bool> seen(plan_.names.size());
    for (const JsonMember member : params.members()) {
      const std::string name(member.name());
      const auto at = now.find(name);
      if (at == now.end()) {
        Say(member.key.place(), Quoted(name) + " is no longer there", name);
        continue;
      }
      seen[at->second] = true;
      CompareParam(name, member.value, at->second);
    }
    for (size_t i = 0; i < seen.size(); ++i) {
      if (seen[i]) continue;
      Say(params.place(), Quoted(plan_.names[i]) + " is new", plan_.names[i]);
    }
  }

  void CompareParam(const std::string& name, const JsonValue& was,
                    size_t index) {
    if (!was.IsObject()) return;
    const PlannedParam& param = plan_.params[index];
    const ParamLayout& layout = plan_.layouts[param.layout];
    const TensorType& type = plan_.types[layout.type];
    const auto changed = [&](std::string_view what, const std::string& before,
                             const std::string& after) {
      if (before == after) return;
      Say(was.place(),
          std::string(what) + " of " + Quoted(name) + " was " + before +
              " and is " + after,
          name);
    };
    const auto text = [&](std::string_view key) {
      const auto value = was.Find(key);
      return value ? Compact(*value) : std::string("null");
    };
    changed("shape", text("shape"),
            type.shape ? ShapeText(*type.shape) : "null");
    changed("data type", text("dtype"),
            type.dtype ? JsonString(DtypeName(*type.dtype)) : "null");
    const Spec& train = layout.modes.front().spec;
    changed("the spec", text("spec"), SpecText(train));
    const auto modes = was.Find("modes");
    for (const ModeLayout& mode : layout.modes) {
      if (mode.mode == Mode::kTrain) continue;
      std::string before = text("spec");
      if (modes && modes->IsObject()) {
        const auto own = modes->Find(ModeName(mode.mode));
        const auto spec =
            own && own->IsObject() ? own->Find("spec") : std::nullopt;
        if (spec) before = Compact(*spec);
      }
      // A change in train is said once.
      if (text("spec") != SpecText(train) && before == text("spec") &&
          mode.spec == train) {
        continue;
      }
      changed("the " + std::string(ModeName(mode.mode)) + " spec", before,
              SpecText(mode.spec));
    }
    const auto placement = was.Find("placement");
    const auto coordinate = placement && placement->IsObject()
                                ? placement->Find("coordinate")
                                : std::nullopt;
    changed("the coordinate", coordinate ? Compact(*coordinate) : "null",
            param.coordinate ? std::to_string(*param.coordinate) : "null");
  }

  const Plan& plan_;
  size_t limit_;
  size_t count_ = 0;
  FindingSink found_;
};

}  // namespace

FindingSink CompareLocked(const Plan& plan, const SourceRef& committed,
                          Findings& errors, size_t limit) {
  const auto document = JsonDocument::Parse(committed, errors);
  if (document == nullptr) return {};
  const JsonValue root = document->root();
  const auto schema =
      root.IsObject() ? root.Find("schema") : std::optional<JsonValue>();
  if (!schema || !schema->IsString() || schema->string() != "shardc.plan/v1") {
    errors.Add(code::kSchema, root.place(), "this is not a plan of `shardc`",
               "write it with `shardc plan --write-locked`");
    return {};
  }
  const auto fingerprint = root.Find("fingerprint");
  if (fingerprint && fingerprint->IsString() &&
      fingerprint->string() == plan.fingerprint) {
    return {};
  }
  return Comparison(plan, limit).Run(root);
}

}  // namespace shardc
