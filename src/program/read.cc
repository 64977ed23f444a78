// Reads `shardc.program/v1`. A program may come from anywhere, so nothing in it
// is trusted: numbers of values, dimensions and files are checked against what
// they count, each value must be defined once and before its use in the same
// body, and the shapes must follow from the operands. Factor analysis may then
// rely on all of this. The first error ends the reading.
#include "program/read.h"

#include <algorithm>
#include <limits>
#include <set>
#include <string>
#include <utility>

#include "model/manifest.h"
#include "source/json.h"
#include "source/list.h"
#include "source/size.h"
#include "source/wording.h"

namespace shardc::program {
namespace {

constexpr std::string_view kSchema = "shardc.program/v1";
constexpr std::string_view kHow =
    "`python -m shardc.program` writes a program of a function";
constexpr size_t kMostValues = size_t{1} << 24;
constexpr size_t kMostRank = 32;
constexpr int kMostNested = 32;
constexpr int64_t kMostLine = int64_t{1} << 30;
constexpr int64_t kMostDevices = int64_t{1} << 20;

class ProgramReader {
 public:
  explicit ProgramReader(Findings& findings) : findings_(findings) {}

  std::optional<Program> Read(const JsonValue& root) {
    const std::string_view schema = SchemaOf(root);
    if (schema != kSchema) {
      Refuse(code::kSchema, root.Find("schema").value_or(root),
             "this is not a traced program: its `schema` is not `" +
                 std::string(kSchema) + "`",
             kHow);
      return std::nullopt;
    }
    const bool good = ReadHead(root) && ReadValues(root) && ReadInputs(root) &&
                      ReadOps(root, out_.ops, 0, Phase::kForward) &&
                      ReadIds(root, "outputs", out_.outputs, true);
    if (!good) return std::nullopt;
    return std::move(out_);
  }

 private:
  bool Refuse(const Code& code, const JsonValue& at, std::string message,
              std::string_view help = {}) {
    findings_.Add(code, at.place(), std::move(message), std::string(help));
    return false;
  }

  std::optional<JsonValue> Member(const JsonValue& object, std::string_view key,
                                  JsonKind kind, std::string_view what) {
    const auto member = object.IsObject() ? object.Find(key) : std::nullopt;
    if (member && member->kind() == kind) return member;
    Refuse(code::kSchema, member.value_or(object),
           "`" + std::string(key) + "` must be " + std::string(what));
    return std::nullopt;
  }

  // Reads an integer from `least` to `most`.
  std::optional<int64_t> Integer(const JsonValue& value, int64_t least,
                                 int64_t most, std::string_view what) {
    if (value.kind() == JsonKind::kInteger && value.integer() >= least &&
        value.integer() <= most) {
      return value.integer();
    }
    Refuse(code::kNumber, value,
           most < least
               ? std::string(what) + " refers to nothing: there is none"
               : std::string(what) + " must be an integer from " +
                     std::to_string(least) + " to " + std::to_string(most));
    return std::nullopt;
  }

  bool ReadTexts(const JsonValue& root, std::string_view key,
                 std::vector<std::string>& out) {
    const auto list = Member(root, key, JsonKind::kArray, "a list of texts");
    if (!list) return false;
    for (const JsonValue item : list->items()) {
      if (!item.IsString()) {
        return Refuse(code::kSchema, item,
                      "an entry of `" + std::string(key) + "` must be a text");
      }
      out.emplace_back(item.string());
    }
    return true;
  }

  bool ReadLine(const JsonValue& value, Line& out) {
    if (!value.IsArray() || value.size() != 2) {
      return Refuse(code::kSchema, value,
                    "`at` must be the index of a file and a line");
    }
    const auto most = static_cast<int64_t>(out_.files.size()) - 1;
    auto item = value.items().begin();
    const auto file = Integer(*item, 0, most, "the file of `at`");
    ++item;
    const auto line =
        file ? Integer(*item, 0, kMostLine, "the line of `at`") : std::nullopt;
    if (!line) return false;
    out = {static_cast<int32_t>(*file), static_cast<int32_t>(*line)};
    return true;
  }

  bool ReadHead(const JsonValue& root) {
    // ReadFixedSizes() reads `literals`.
    constexpr std::string_view kKeys[] = {
        "schema", "traced",   "files",   "modules",     "values", "inputs",
        "ops",    "literals", "outputs", "assumptions", "unknown"};
    for (const JsonMember member : root.members()) {
      if (IsAmong(member.name(), kKeys)) continue;
      return Refuse(code::kUnknownKey, member.key,
                    "a program has no key " + ShortQuote(member.name()),
                    DidYouMean(member.name(), kKeys));
    }
    const auto traced = Member(root, "traced", JsonKind::kObject, "an object");
    const auto by = traced ? Member(*traced, "by", JsonKind::kString, "a text")
                           : std::nullopt;
    const auto function =
        by ? Member(*traced, "function", JsonKind::kString, "a text")
           : std::nullopt;
    if (!function || !ReadTexts(root, "files", out_.files)) return false;
    out_.traced_by = by->string();
    out_.function = function->string();
    if (root.Find("modules") && !ReadTexts(root, "modules", out_.modules)) {
      return false;
    }
    if (root.Find("assumptions") &&
        !ReadTexts(root, "assumptions", out_.assumptions)) {
      return false;
    }
    const auto unknown = root.Find("unknown");
    if (unknown && !unknown->IsArray()) {
      return Refuse(code::kSchema, *unknown, "`unknown` must be a list");
    }
    if (!unknown) return true;
    for (const JsonValue item : unknown->items()) {
      Unknown one;
      const auto name = Member(item, "primitive", JsonKind::kString, "a text");
      const auto count =
          name ? Member(item, "count", JsonKind::kInteger, "a number")
               : std::nullopt;
      if (!count) return false;
      one.primitive = name->string();
      one.count = count->integer();
      const auto at = item.Find("at");
      if (at && !ReadLine(*at, one.at)) return false;
      out_.unknown.push_back(std::move(one));
    }
    return true;
  }

  bool ReadValues(const JsonValue& root) {
    const auto list = Member(root, "values", JsonKind::kArray, "a list");
    if (!list) return false;
    if (list->size() > kMostValues) {
      return Refuse(code::kLimit, *list,
                    "a program has at most " +
                        CountText(static_cast<int64_t>(kMostValues)) +
                        " values");
    }
    out_.values.reserve(list->size());
    for (const JsonValue item : list->items()) {
      Value value;
      const auto shape =
          Member(item, "shape", JsonKind::kArray, "a list of sizes");
      const auto dtype =
          shape ? Member(item, "dtype", JsonKind::kString, "a text")
                : std::nullopt;
      if (!dtype) return false;
      if (shape->size() > kMostRank) {
        return Refuse(
            code::kLimit, *shape,
            "a value has at most " + std::to_string(kMostRank) + " dimensions");
      }
      for (const JsonValue size : shape->items()) {
        const auto read = Integer(size, 0, INT64_MAX, "a size");
        if (!read) return false;
        value.shape.push_back(*read);
      }
      const auto elements = CheckedProduct(value.shape);
      if (!elements) {
        return Refuse(code::kOverflow, *shape,
                      "the size of shape " + ShapeText(value.shape) +
                          " does not fit in 64 bits");
      }
      value.dtype = ParseStoredDtype(dtype->string());
      if (const auto integers = item.Find("integers")) {
        if (!integers->IsArray() ||
            static_cast<int64_t>(integers->size()) != *elements) {
          return Refuse(code::kSchema, *integers,
                        "`integers` must have the " + CountText(*elements) +
                            " elements of the value");
        }
        for (const JsonValue one : integers->items()) {
          // An unsigned constant may be beyond the range; it is no index then.
          value.integers.push_back(
              one.kind() == JsonKind::kInteger ? one.integer() : -1);
        }
      }
      const auto floats = item.Find("floats");
      if (floats && !ReadFloats(*floats, *elements, value.floats)) return false;
      out_.values.push_back(std::move(value));
    }
    defined_.assign(out_.values.size(), kUndefined);
    return true;
  }

  // Reads a number, or a text such as "-inf".
  bool ReadFloat(const JsonValue& value, double& out) {
    if (value.kind() == JsonKind::kInteger ||
        value.kind() == JsonKind::kUnsigned ||
        value.kind() == JsonKind::kReal) {
      out = value.real();
      return true;
    }
    constexpr double kInfinity = std::numeric_limits<double>::infinity();
    constexpr std::pair<std::string_view, double> kTexts[] = {
        {"inf", kInfinity},
        {"-inf", -kInfinity},
        {"nan", std::numeric_limits<double>::quiet_NaN()}};
    for (const auto& [text, number] : kTexts) {
      if (!value.IsString() || value.string() != text) continue;
      out = number;
      return true;
    }
    return Refuse(code::kSchema, value,
                  "an element is a number, `nan`, `inf` or `-inf`");
  }

  bool ReadFloats(const JsonValue& list, int64_t elements,
                  std::vector<double>& out) {
    if (!list.IsArray() || static_cast<int64_t>(list.size()) != elements) {
      return Refuse(code::kSchema, list,
                    "`floats` must have the " + CountText(elements) +
                        " elements of the value");
    }
    for (const JsonValue one : list.items()) {
      if (!ReadFloat(one, out.emplace_back())) return false;
    }
    return true;
  }

  bool ReadAxes(const JsonValue& list, std::vector<std::string>& out) {
    if (!list.IsArray()) {
      return Refuse(code::kSchema, list, "axes must be a list of names");
    }
    for (const JsonValue one : list.items()) {
      if (!one.IsString()) {
        return Refuse(code::kSchema, one, "an axis must be a name");
      }
      out.emplace_back(one.string());
    }
    return true;
  }

  bool ReadSpecs(const JsonValue& item, std::string_view key, size_t count,
                 std::vector<Spec>& out) {
    const auto list = Member(item, key, JsonKind::kArray, "a list of specs");
    if (!list) return false;
    if (list->size() != count) {
      return Refuse(code::kSchema, *list,
                    "`" + std::string(key) + "` must have " +
                        Counted(static_cast<int64_t>(count), "spec"));
    }
    for (const JsonValue spec : list->items()) {
      if (!spec.IsArray() || spec.size() > kMostRank) {
        return Refuse(code::kSchema, spec,
                      "a spec is a list of lists of axis names");
      }
      Spec& one = out.emplace_back();
      for (const JsonValue dim : spec.items()) {
        if (!ReadAxes(dim, one.emplace_back())) return false;
      }
    }
    return true;
  }

  bool ReadRegion(const JsonValue& item, Op& op) {
    Region& region = op.region.emplace();
    const auto mesh = Member(item, "mesh", JsonKind::kObject, "an object");
    if (!mesh) return false;
    for (const JsonMember axis : mesh->members()) {
      const auto size =
          Integer(axis.value, 1, kMostDevices, "the size of an axis");
      if (!size) return false;
      region.mesh.emplace_back(axis.name(), *size);
    }
    const auto manual = item.Find("manual_axes");
    return (!manual || ReadAxes(*manual, region.manual_axes)) &&
           ReadSpecs(item, "in_specs", op.in.size(), region.in_specs) &&
           ReadSpecs(item, "out_specs", op.out.size(), region.out_specs);
  }

  bool ReadConstraint(const JsonValue& item, Op& op) {
    const auto spec = item.Find("spec");
    if (!spec || spec->kind() == JsonKind::kNull) return true;
    if (!spec->IsArray() || spec->size() > out_.ShapeOf(op.in[0]).size()) {
      return Refuse(code::kSchema, *spec,
                    "`spec` must be a list with an entry for each dimension at "
                    "most");
    }
    auto& dims = op.constraint.emplace();
    for (const JsonValue dim : spec->items()) {
      auto& axes = dims.emplace_back();
      if (dim.kind() == JsonKind::kNull) continue;
      if (!ReadAxes(dim, axes.emplace())) return false;
    }
    return true;
  }

  // Reads the attributes that are not numbers.
  bool ReadOthers(const JsonValue& item, Op& op) {
    if (op.kind == OpKind::kManual) return ReadRegion(item, op);
    if (op.kind == OpKind::kConstraint) return ReadConstraint(item, op);
    if (op.kind == OpKind::kCollective) {
      const auto axes = Member(item, "axes", JsonKind::kArray, "a list");
      return axes && ReadAxes(*axes, op.axes);
    }
    if (op.kind != OpKind::kGather && op.kind != OpKind::kScatter) return true;
    const auto mode = Member(item, "mode", JsonKind::kString, "a text");
    if (!mode) return false;
    const auto* const at = std::ranges::find(kIndexModeNames, mode->string());
    if (at == std::end(kIndexModeNames)) {
      return Refuse(code::kSchema, *mode,
                    "a mode is `promise_in_bounds`, `clip` or `fill`");
    }
    op.mode = static_cast<IndexMode>(at - std::begin(kIndexModeNames));
    const auto fill = item.Find("fill");
    return !fill || fill->kind() == JsonKind::kNull ||
           fill->kind() == JsonKind::kBool ||
           ReadFloat(*fill, op.fill.emplace());
  }

  bool Define(const JsonValue& at, ValueId id) {
    if (defined_[id] != kUndefined) {
      return Refuse(code::kDuplicateKey, at,
                    "value " + std::to_string(id) + " is defined twice");
    }
    defined_[id] = body_;
    return true;
  }

  // Reads the number of a value, which the current body must have defined if
  // `used`, and which is defined here otherwise.
  bool ReadId(const JsonValue& value, bool used, ValueId& out) {
    const auto most = static_cast<int64_t>(out_.values.size()) - 1;
    const auto id = Integer(value, 0, most, "the number of a value");
    if (!id) return false;
    out = static_cast<ValueId>(*id);
    if (!used) return Define(value, out);
    if (defined_[out] == body_) return true;
    return Refuse(
        code::kReference, value,
        "value " + std::to_string(out) +
            (defined_[out] == kUndefined ? " is used before any op defines it"
                                         : " is defined in another body"));
  }

  bool ReadIds(const JsonValue& object, std::string_view key,
               std::vector<ValueId>& out, bool used) {
    const auto list = Member(object, key, JsonKind::kArray, "a list of values");
    if (!list) return false;
    for (const JsonValue item : list->items()) {
      ValueId id = 0;
      if (!ReadId(item, used, id)) return false;
      out.push_back(id);
    }
    return true;
  }

  bool ReadInputs(const JsonValue& root) {
    const auto list = Member(root, "inputs", JsonKind::kArray, "a list");
    if (!list) return false;
    std::set<std::string, std::less<>> names;
    for (const JsonValue item : list->items()) {
      const auto value = Member(item, "value", JsonKind::kInteger, "a number");
      const auto kind = value
                            ? Member(item, "kind", JsonKind::kString, "a text")
                            : std::nullopt;
      const auto name = kind ? Member(item, "name", JsonKind::kString, "a text")
                             : std::nullopt;
      Input input;
      if (!name || !ReadId(*value, false, input.value)) return false;
      const auto* const at = std::ranges::find(kInputKindNames, kind->string());
      if (at == std::end(kInputKindNames)) {
        return Refuse(code::kSchema, *kind,
                      "the kind of an input is `param`, `data` or `state`");
      }
      input.kind = static_cast<InputKind>(at - std::begin(kInputKindNames));
      input.name = name->string();
      if (input.kind == InputKind::kParam && input.name.empty()) {
        return Refuse(code::kName, *name, "a parameter needs a name");
      }
      if (input.kind == InputKind::kParam && !names.insert(input.name).second) {
        return Refuse(code::kDuplicateKey, *name,
                      "two parameters are named " + ShortQuote(input.name));
      }
      out_.inputs.push_back(std::move(input));
    }
    return true;
  }

  bool ReadOps(const JsonValue& object, std::vector<Op>& out, int depth,
               Phase phase) {
    const auto list = Member(object, "ops", JsonKind::kArray, "a list of ops");
    if (!list) return false;
    out.reserve(list->size());
    for (const JsonValue item : list->items()) {
      Op op;
      op.phase = phase;
      if (!ReadOp(item, op, depth)) return false;
      out.push_back(std::move(op));
    }
    return true;
  }

  bool ReadBody(const JsonValue& value, const Op& op, Body& out, int depth) {
    if (depth >= kMostNested) {
      return Refuse(code::kLimit, value,
                    "bodies are nested more than " +
                        std::to_string(kMostNested) + " deep");
    }
    if (!value.IsObject()) {
      return Refuse(code::kSchema, value, "a body must be an object");
    }
    const uint32_t outer = std::exchange(body_, ++bodies_);
    const bool good = ReadIds(value, "in", out.in, false) &&
                      ReadOps(value, out.ops, depth + 1, op.phase) &&
                      ReadIds(value, "out", out.out, true);
    body_ = outer;
    return good;
  }

  bool ReadOp(const JsonValue& item, Op& op, int depth) {
    const auto name =
        Member(item, "op", JsonKind::kString, "the name of an op");
    if (!name) return false;
    const OpRow* const row = FindOpRow(name->string());
    if (row == nullptr) {
      std::vector<std::string_view> names;
      for (const OpRow& one : OpRows()) names.push_back(one.name);
      return Refuse(code::kSchema, *name,
                    ShortQuote(name->string()) + " is no class of ops",
                    DidYouMean(name->string(), names, kHow));
    }
    op.kind = row->kind;
    if (!ReadIds(item, "in", op.in, true)) return false;
    const auto operands = static_cast<int>(op.in.size());
    if (operands < row->least || (row->most >= 0 && operands > row->most)) {
      return Refuse(code::kSchema, item,
                    "`" + std::string(row->name) + "` has " +
                        Counted(operands, "operand") + ", not " +
                        std::to_string(row->least) +
                        (row->most < 0 ? " or more" : ""));
    }
    if (const auto phase = item.Find("phase")) {
      constexpr std::string_view kPhases[] = {"forward", "backward",
                                              "optimizer"};
      const auto* const at = std::ranges::find(kPhases, phase->string());
      if (at == std::end(kPhases)) {
        return Refuse(code::kSchema, *phase,
                      "a phase is `forward`, `backward` or `optimizer`");
      }
      // An op in the body of a loop of the backward pass is in that pass too.
      op.phase =
          std::max(op.phase, static_cast<Phase>(at - std::begin(kPhases)));
    }
    const auto at = item.Find("at");
    if (at && !ReadLine(*at, op.at)) return false;
    if (const auto module = item.Find("module")) {
      const auto index =
          Integer(*module, 0, std::ssize(out_.modules) - 1, "`module`");
      if (!index) return false;
      op.module = static_cast<int32_t>(*index);
    }
    for (const std::string_view key : row->bodies) {
      const bool several = key == "branches";
      const auto body =
          Member(item, key, several ? JsonKind::kArray : JsonKind::kObject,
                 several ? "a list of bodies" : "a body");
      if (!body) return false;
      if (!several) {
        if (!ReadBody(*body, op, op.bodies.emplace_back(), depth)) return false;
        continue;
      }
      for (const JsonValue one : body->items()) {
        if (!ReadBody(one, op, op.bodies.emplace_back(), depth)) return false;
      }
    }
    if (!ReadIds(item, "out", op.out, false)) return false;
    if (row->results >= 0 && AsIndex(row->results) != op.out.size()) {
      return Refuse(code::kSchema, item,
                    "`" + std::string(row->name) + "` has " +
                        Counted(row->results, "result") + ", not " +
                        std::to_string(op.out.size()));
    }
    if (!row->word.empty()) {
      const auto word = Member(item, row->word, JsonKind::kString, "a text");
      if (!word) return false;
      op.word = word->string();
    }
    for (const AttrRow& attribute : row->attributes) {
      const auto value = item.Find(attribute.key);
      if (!value && attribute.optional) continue;
      if (!value) {
        return Refuse(code::kSchema, item,
                      "`" + std::string(row->name) + "` needs `" +
                          std::string(attribute.key) + "`");
      }
      if (!ReadAttribute(*value, attribute, op)) return false;
    }
    if (!KeysAreKnown(item, *row) || !ReadOthers(item, op)) return false;
    const std::string fault = ShapeFault(out_, op);
    return fault.empty() || Refuse(code::kSchema, item,
                                   "this `" + std::string(row->name) +
                                       "` is malformed: " + fault,
                                   kHow);
  }

  bool KeysAreKnown(const JsonValue& item, const OpRow& row) {
    constexpr std::string_view kKeys[] = {"op", "in", "out", "at", "phase"};
    for (const JsonMember member : item.members()) {
      const std::string_view key = member.name();
      if (IsAmong(key, kKeys) || key == row.word || IsUnread(key) ||
          IsAmong(key, row.bodies) ||
          std::ranges::find(row.attributes, key, &AttrRow::key) !=
              row.attributes.end()) {
        continue;
      }
      return Refuse(
          code::kUnknownKey, member.key,
          "`" + std::string(row.name) + "` has no key " + ShortQuote(key));
    }
    return true;
  }

  bool ReadAttribute(const JsonValue& value, const AttrRow& row, Op& op) {
    Numbers numbers;
    const std::string what = "`" + std::string(row.key) + "`";
    int64_t rank = 0;
    const bool of_value =
        row.form == AttrForm::kDim || row.form == AttrForm::kDims;
    if (of_value || row.form == AttrForm::kSizes ||
        row.form == AttrForm::kSteps || row.form == AttrForm::kPads) {
      const ValueId id =
          row.of == kResultValue ? op.out[0] : op.in[AsIndex(row.of)];
      rank = static_cast<int64_t>(out_.ShapeOf(id).size());
    }
    const bool pairs = row.form == AttrForm::kPairs;
    const bool any = pairs || row.form == AttrForm::kNumber;
    const int64_t least = row.form == AttrForm::kPads || any ? INT64_MIN / 4
                          : row.form == AttrForm::kSteps     ? 1
                                                             : 0;
    const int64_t most = of_value ? rank - 1 : INT64_MAX / 4;
    const bool single = row.form == AttrForm::kDim ||
                        row.form == AttrForm::kCount ||
                        row.form == AttrForm::kNumber;
    if (row.form == AttrForm::kFlag) {
      if (value.kind() != JsonKind::kBool) {
        return Refuse(code::kSchema, value, what + " must be true or false");
      }
      numbers.push_back(value.boolean() ? 1 : 0);
    } else if (single) {
      const auto number = Integer(value, least, most, what);
      if (!number) return false;
      numbers.push_back(*number);
    } else {
      if (!value.IsArray()) {
        return Refuse(code::kSchema, value, what + " must be a list");
      }
      for (const JsonValue item : value.items()) {
        if (pairs) {
          if (!item.IsArray() || item.size() != 2) {
            return Refuse(code::kSchema, item, what + " must have pairs");
          }
          for (const JsonValue one : item.items()) {
            const auto number = Integer(one, least, most, "one of " + what);
            if (!number) return false;
            numbers.push_back(*number);
          }
          continue;
        }
        const auto number = Integer(item, least, most, "an entry of " + what);
        if (!number) return false;
        if (row.form == AttrForm::kDims &&
            std::ranges::find(numbers, *number) != numbers.end()) {
          return Refuse(
              code::kDuplicateKey, item,
              what + " has dimension " + std::to_string(*number) + " twice");
        }
        numbers.push_back(*number);
      }
      if (!of_value && row.form != AttrForm::kList && !pairs &&
          static_cast<int64_t>(numbers.size()) != rank) {
        return Refuse(code::kSchema, value,
                      what + " must have " + Counted(rank, "entry", "entries"));
      }
    }
    op.numbers.emplace_back(row.attr, std::move(numbers));
    return true;
  }

  static constexpr uint32_t kUndefined = UINT32_MAX;

  Findings& findings_;
  Program out_;
  // For each value the number of the body that defines it.
  std::vector<uint32_t> defined_;
  uint32_t body_ = 0;    // the number of the body that is read
  uint32_t bodies_ = 0;  // how many bodies have been numbered
};

}  // namespace

bool IsProgram(const SourceRef& source) {
  constexpr size_t kHead = 4096;
  const std::string_view head = source->text().substr(0, kHead);
  const size_t first = head.find_first_not_of(" \t\r\n");
  return first != std::string_view::npos && head[first] == '{' &&
         head.find("\"shardc.program/") != std::string_view::npos;
}

std::optional<Program> ReadProgram(const SourceRef& source,
                                   Findings& findings) {
  const auto document = JsonDocument::Parse(source, findings);
  if (document == nullptr) return std::nullopt;
  return ReadProgram(*document, findings);
}

std::optional<Program> ReadProgram(const JsonDocument& document,
                                   Findings& findings) {
  return ProgramReader(findings).Read(document.root());
}

}  // namespace shardc::program
