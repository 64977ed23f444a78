// Checks that a plan was not edited after the compiler wrote it. The
// fingerprint covers the plan's meaning: mesh, modes, attention specs, stages,
// and the shape, dtype, specs, parts of dimensions, placement, stages, weight
// decay and unevenness of each parameter. Members that follow from these
// members, such as shard shapes, are recomputed and compared:
//
//   "shape": [8], "spec": ["tp"] with tp 4, "shard_shape": [4]
//     ->  `shard_shape` is [4], and the rest of the plan gives [2]
//
// The fingerprint is computed from the JSON itself, and not from the structs
// into which it is read, so it also covers members that are not read.
#include "plan/read.h"

#include <algorithm>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "comm/memory.h"
#include "legalize/legalize.h"
#include "model/axis_rules.h"
#include "model/mesh_layout.h"
#include "plan/fingerprint.h"
#include "plan/kv_layout.h"
#include "source/digest.h"
#include "source/finding.h"
#include "source/json.h"
#include "source/json_form.h"
#include "source/json_writer.h"
#include "source/sink.h"
#include "source/size.h"

namespace shardc {
namespace {

constexpr std::string_view kHelp =
    "write the plan again with `shardc plan -o FILE`, or pass `--allow-edited` "
    "to use it as it is";

void WriteCanonical(JsonWriter& json, const JsonValue& value);

// Writes an object without the member `left_out`. The other members are sorted,
// as RFC 8785 requires.
void WriteSorted(JsonWriter& json, const JsonValue& object,
                 std::string_view left_out = {}) {
  std::vector<std::string_view> names;
  std::vector<JsonValue> values;
  for (const JsonMember member : object.members()) {
    if (!left_out.empty() && member.name() == left_out) continue;
    names.push_back(member.name());
    values.push_back(member.value);
  }
  json.BeginObject();
  for (const uint32_t at : CanonicalOrder(names)) {
    json.Key(names[at]);
    WriteCanonical(json, values[at]);
  }
  json.EndObject();
}

void WriteCanonical(JsonWriter& json, const JsonValue& value) {
  if (value.IsObject()) {
    WriteSorted(json, value);
  } else if (value.IsArray()) {
    json.BeginArray();
    for (const JsonValue item : value.items()) WriteCanonical(json, item);
    json.EndArray();
  } else if (value.IsString()) {
    json.String(value.string());
  } else if (value.kind() == JsonKind::kInteger) {
    json.Integer(value.integer());
  } else if (value.kind() == JsonKind::kBool) {
    json.Bool(value.boolean());
  } else {
    json.Null();
  }
}

// Returns the members of a parameter that the fingerprint covers, sorted. Of
// each mode, the fingerprint covers only the spec.
std::string CanonicalEntry(const JsonValue& param) {
  return TextOf([&](Sink& out) {
    JsonWriter json(out, JsonStyle::kCanonical);
    json.BeginObject();
    for (const std::string_view key :
         {"dtype", "modes", "parts", "placement", "shape", "slices", "spec",
          "stages", "uneven", "weight_decay"}) {
      const auto value = param.Find(key);
      if (!value || value->IsNull()) continue;
      if (key != "modes") {
        json.Member(key, WrittenBy(WriteCanonical, *value));
        continue;
      }
      std::vector<std::pair<std::string_view, JsonValue>> specs;
      for (const JsonMember mode : value->members()) {
        specs.emplace_back(mode.name(), MemberOrNull(mode.value, "spec"));
      }
      if (specs.empty()) continue;
      std::sort(specs.begin(), specs.end(),
                [](const auto& a, const auto& b) { return a.first < b.first; });
      json.Key(key);
      json.BeginObject();
      for (const auto& [mode, spec] : specs) {
        json.Member(mode, WrittenBy(WriteCanonical, spec));
      }
      json.EndObject();
    }
    json.EndObject();
  });
}

std::string FingerprintOf(const JsonValue& root, const PlanClasses& classes) {
  std::vector<std::string> entries;
  for (const JsonMember param : MemberOrNull(root, "params").members()) {
    entries.push_back(CanonicalEntry(param.value));
  }
  Sha256Sink digest;
  JsonWriter json(digest, JsonStyle::kCanonical);
  json.BeginObject();
  for (const std::string_view key :
       {"activations", "attention", "kv", "mesh", "modes"}) {
    const auto value = root.Find(key);
    if (!value || (key == "attention" && value->size() == 0)) continue;
    // Specs that follow from the axis rules are not part of it.
    if (key == "activations" && !root.Find("activations_stated")) continue;
    json.Member(key, WrittenBy(WriteCanonical, *value));
  }
  json.Key("params");
  json.BeginObject();
  for (const uint32_t at : CanonicalOrder(classes.names)) {
    json.Key(classes.names[at]);
    json.Written(entries[classes.class_of[at]]);
  }
  json.EndObject();
  if (const auto stages = root.Find("stages")) {
    json.Key("stages");
    // The member `schedule`, the name of the pipeline schedule, is left out.
    // The fingerprint covers the schedule's tasks instead, by the member
    // `table`.
    WriteSorted(json, *stages, "schedule");
  }
  json.EndObject();
  return "sha256:" + digest.Hex();
}

// Returns the digest of the activations; an empty text for a plan without them.
std::string ActivationsDigestOf(const JsonValue& root) {
  if (!root.Find("activations")) return {};
  Sha256Sink digest;
  JsonWriter json(digest, JsonStyle::kCanonical);
  json.BeginObject();
  for (const std::string_view key :
       {"activations", "activations_stated", "axes"}) {
    const auto value = root.Find(key);
    if (value) json.Member(key, WrittenBy(WriteCanonical, *value));
  }
  json.EndObject();
  return "sha256:" + digest.Hex();
}

// The shard of a parameter on one device in one mode. Unknown members are
// nullopt.
struct Held {
  std::optional<Shape> shape;
  std::optional<int64_t> bytes;
};

// Returns the largest shard of a parameter with this spec. The sizes of an
// illegal spec are unknown. Only a plan that was written with --keep-going has
// illegal specs.
Held HeldOf(const ReadParam& param, const Spec& spec, const Mesh& mesh) {
  Held out;
  const TensorType& type = param.type;
  if (!type.shape) return out;
  const LegalizeOptions options{.illegal = param.Illegal(),
                                .parts = param.parts};
  if (!LegalizeStored(spec, type, mesh, options).problems.empty()) return out;
  out.shape = ShardShape(mesh, *type.shape, spec);
  const auto elements = CheckedProduct(*out.shape);
  if (elements && type.dtype) out.bytes = BytesOf(*elements, *type.dtype);
  return out;
}

std::string TextOfNumber(std::optional<int64_t> number) {
  return number ? std::to_string(*number) : "null";
}

class Checker {
 public:
  Checker(const JsonValue& root, const ReadPlan& plan,
          const PlanClasses& classes, Findings& findings)
      : root_(root),
        plan_(plan),
        classes_(classes),
        findings_(findings),
        counts_(plan.params.size(), 0),
        won_(plan.rules.size(), 0) {
    for (const uint32_t of_class : classes.class_of) ++counts_[of_class];
    if (plan.stages) by_rank_.emplace(*plan.stages);
  }

  bool Run() { return CheckSizes() && CheckTotals() && CheckFingerprint(); }

 private:
  // Compares a member with the value that it should have. `name` is the
  // member's name, `written` its value in the file and `given` the expected
  // value. Adds a finding and returns false if they differ.
  bool Equal(const JsonValue& written, std::string_view name,
             const std::string& given) {
    if (NormalText(written) == given) return true;
    findings_.Add(code::kSchema, written.place(),
                  "the plan was edited: `" + std::string(name) + "` is " +
                      NormalText(written) +
                      ", and the rest of the plan gives " + given,
                  std::string(kHelp));
    return false;
  }

  bool Equal(const JsonValue& object, std::string_view name,
             std::optional<int64_t> number) {
    const JsonValue written = MemberOrNull(object, name);
    // The numbers are compared first. Most numbers are equal, so the text of a
    // number is built only for the few that may differ.
    if (number ? written.kind() == JsonKind::kInteger &&
                     written.integer() == *number
               : written.IsNull()) {
      return true;
    }
    return Equal(written, name, TextOfNumber(number));
  }

  // Checks the member `kv_replicate` of a layout: its heads over its axes give
  // the spec.
  bool CheckReplicas(const JsonValue& layout, const Spec& spec) {
    const auto replicas = layout.Find("kv_replicate");
    if (!replicas) return true;
    const auto dim =
        static_cast<size_t>(MemberOrNull(*replicas, "dim").integer());
    const auto divided =
        KvHeadAxes(plan_.mesh, AxesOf(MemberOrNull(*replicas, "axes")),
                   MemberOrNull(*replicas, "heads").integer());
    if (divided && *divided == AxesAt(spec, dim)) return true;
    findings_.Add(code::kSchema, replicas->place(),
                  "the plan was edited: `kv_replicate` is " +
                      NormalText(*replicas) + ", and the spec is " +
                      SpecText(spec),
                  std::string(kHelp));
    return false;
  }

  bool CheckHeld(const JsonValue& layout, const Held& held) {
    const std::string shape = held.shape ? TextOf([&](Sink& out) {
      JsonWriter json(out);
      json.Array(*held.shape);
    })
                                         : "null";
    return Equal(MemberOrNull(layout, "shard_shape"), "shard_shape", shape) &&
           Equal(layout, "bytes_per_device", held.bytes);
  }

  // Checks that the axes of a parameter with the member `uneven` do not divide
  // its shape in some mode.
  bool CheckUneven(const JsonValue& param, const ReadParam& read) {
    if (!read.uneven) return true;
    for (const Mode mode : plan_.modes) {
      const Spec& spec = read.SpecOf(mode);
      if (HeldOf(read, spec, plan_.mesh).shape &&
          !DividesEvenly(plan_.mesh, *read.type.shape, spec)) {
        return true;
      }
    }
    return Equal(MemberOrNull(param, "uneven"), "uneven", "absent");
  }

  // Checks the sizes of every parameter and adds them to the plan's totals.
  bool CheckSizes() {
    size_t i = 0;
    for (const JsonMember param : MemberOrNull(root_, "params").members()) {
      const ReadParam& read = plan_.params[i];
      const Held train = HeldOf(read, read.spec, plan_.mesh);
      if (!CheckHeld(param.value, train) || !CheckUneven(param.value, read) ||
          !CheckReplicas(param.value, read.spec)) {
        return false;
      }
      if (const auto modes = param.value.Find("modes")) {
        size_t mode = 0;
        for (const JsonMember member : modes->members()) {
          const Spec& spec = read.modes[mode++].second;
          if (!CheckHeld(member.value, HeldOf(read, spec, plan_.mesh)) ||
              !CheckReplicas(member.value, spec)) {
            return false;
          }
        }
      }
      AddTotals(read, train, counts_[i]);
      ++i;
    }
    return true;
  }

  void AddTotals(const ReadParam& read, const Held& train, int64_t count) {
    const auto add = [&](std::optional<int64_t>& sum,
                         std::optional<int64_t> term) {
      if (term) term = CheckedMul(*term, count);
      sum = sum && term ? CheckedAdd(*sum, *term) : std::nullopt;
    };
    add(elements_, read.type.Elements());
    add(bytes_, read.type.Bytes());
    if (by_rank_) {
      const auto& placed = read.placement;
      by_rank_->Add(read.stages, train.bytes, count,
                    placed ? &placed->axis : nullptr,
                    placed ? placed->coordinate : 0);
    }
    const auto held =
        train.bytes ? CheckedMul(*train.bytes, count) : std::nullopt;
    known_ = known_ && held.has_value();
    if (held && read.placement) {
      held_.AddAt(read.placement->axis, read.placement->coordinate, *held);
    } else if (held) {
      held_.Add(*held);
    }
    if (!read.corrections.empty()) corrected_ += count;
    const bool scalar = read.type.shape && read.type.shape->empty();
    if (read.rule >= 0) {
      won_[AsIndex(read.rule)] += count;
    } else if (!scalar) {
      unmatched_ += count;
    }
  }

  bool CheckTotals() {
    const auto params = static_cast<int64_t>(classes_.names.size());
    size_t i = 0;
    for (const JsonValue rule : MemberOrNull(root_, "rules").items()) {
      const int64_t won = won_[i++];
      if (!Equal(rule, "params", won)) return false;
      // A pattern may also match parameters that an earlier rule matches first.
      // `matched` may therefore be larger than `won`.
      const auto matched = rule.Find("matched");
      if (matched &&
          (matched->integer() < won || matched->integer() > params)) {
        return Equal(*matched, "matched",
                     std::to_string(won) + " to " + std::to_string(params));
      }
    }
    const JsonValue summary = MemberOrNull(root_, "summary");
    auto fullest = known_ ? held_.Fullest() : std::nullopt;
    if (by_rank_) {
      const auto bytes = by_rank_->Fullest();
      fullest = MostOf(bytes);
      const std::string given = TextOf([&](Sink& out) {
        JsonWriter json(out);
        WriteBytesByRank(json, bytes);
      });
      const auto written = summary.Find("bytes_by_rank");
      if (!written) {
        findings_.Add(code::kSchema, summary.place(),
                      "the summary has no `bytes_by_rank`", std::string(kHelp));
        return false;
      }
      if (!Equal(*written, "bytes_by_rank", given)) return false;
    }
    if (!Equal(summary, "params", params) ||
        !Equal(summary, "elements", elements_) ||
        !Equal(summary, "bytes", bytes_) ||
        !Equal(summary, "bytes_per_device", fullest) ||
        !Equal(summary, "unmatched", unmatched_)) {
      return false;
    }
    // The compiler also counts corrections in modes that the plan does not
    // list, so `corrected` may exceed the number that is found here.
    const int64_t corrected = MemberOrNull(summary, "corrected").integer();
    return (corrected >= corrected_ && corrected <= params) ||
           Equal(summary, "corrected", corrected_);
  }

  bool CheckFingerprint() {
    const auto digest = root_.Find("activations_digest");
    if (ActivationsDigestOf(root_) != (digest ? digest->string() : "")) {
      findings_.Add(
          code::kSchema,
          root_.Find(digest ? "activations_digest" : "activations")->place(),
          "the plan was edited: its activations do not have the "
          "digest that it states",
          std::string(kHelp));
      return false;
    }
    const std::string now = FingerprintOf(root_, classes_);
    if (now == plan_.fingerprint) return true;
    findings_.Add(code::kSchema, MemberOrNull(root_, "fingerprint").place(),
                  "the plan was edited: its content has the fingerprint `" +
                      now + "`, not the one that it states",
                  std::string(kHelp));
    return false;
  }

  const JsonValue root_;
  const ReadPlan& plan_;
  const PlanClasses& classes_;
  Findings& findings_;
  // Indexed by class (parameters with the same entry, see PlanClasses): the
  // number of parameters of the class.
  std::vector<int64_t> counts_;
  // Indexed by rule: the number of parameters that it is the first to match.
  std::vector<int64_t> won_;
  std::optional<int64_t> elements_ = 0, bytes_ = 0;
  HeldBytes held_;
  // The bytes of parameters that the devices of each pipeline rank hold;
  // nullopt for a plan without stages.
  std::optional<BytesByRank> by_rank_;
  // Whether the bytes of all parameters are known.
  bool known_ = true;
  int64_t unmatched_ = 0, corrected_ = 0;
};

}  // namespace

bool IsUnedited(const JsonValue& root, const ReadPlan& plan,
                const PlanClasses& classes, Findings& findings) {
  return Checker(root, plan, classes, findings).Run();
}

}  // namespace shardc
