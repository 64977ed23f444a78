// Runs one call of `shardc eval`: reads the members of the call's input and
// evaluates the function. If the input is a list, each element is one call. The
// calls are evaluated separately, so an invalid element does not stop the
// others. For example, the second element lacks the member `text`:
//
//   [{"text": "a"}, {}]  ->  [{"result": {...}}, {"error": {...}}]
//
// The arrays of a call may be in a safetensors file. Such a file has the length
// of its header in eight bytes, then the header, and then the bytes of the
// tensors. The header is JSON and has each tensor's dtype, shape and byte
// range.
#include "eval/call.h"

#include <algorithm>
#include <cstring>

#include "parse/rules.h"
#include "source/file.h"
#include "source/size.h"
#include "source/wording.h"

namespace shardc::eval {
namespace {

template <class T>
void AppendAll(std::string_view bytes, std::vector<double>& out) {
  for (size_t at = 0; at + sizeof(T) <= bytes.size(); at += sizeof(T)) {
    T value;
    std::memcpy(&value, bytes.data() + at, sizeof(T));
    out.push_back(static_cast<double>(value));
  }
}

bool AppendAs(Dtype dtype, std::string_view bytes, std::vector<double>& out) {
  switch (dtype) {
    case Dtype::kF32:
      AppendAll<float>(bytes, out);
      return true;
    case Dtype::kF64:
      AppendAll<double>(bytes, out);
      return true;
    case Dtype::kI8:
      AppendAll<int8_t>(bytes, out);
      return true;
    case Dtype::kI32:
      AppendAll<int32_t>(bytes, out);
      return true;
    case Dtype::kI64:
      AppendAll<int64_t>(bytes, out);
      return true;
    default:
      return false;
  }
}

bool IsNumber(JsonValue value) {
  const JsonKind kind = value.kind();
  return kind == JsonKind::kInteger || kind == JsonKind::kUnsigned ||
         kind == JsonKind::kReal;
}

// Reads one tensor from its entry in a safetensors header. Returns nullopt if
// the entry is malformed, or if AppendAs() does not read its dtype. Also
// returns nullopt if the byte range is not inside the data or does not fit the
// shape.
std::optional<dense::Array> ReadArray(JsonValue entry, std::string_view data) {
  const auto dtype = entry.Find("dtype");
  const auto shape = entry.Find("shape");
  const auto range = entry.Find("data_offsets");
  if (!dtype || !dtype->IsString() || !shape || !shape->IsArray() || !range ||
      !range->IsArray() || range->size() != 2) {
    return std::nullopt;
  }
  dense::Array out;
  for (JsonValue size : shape->items()) {
    if (size.kind() != JsonKind::kInteger || size.integer() < 0) {
      return std::nullopt;
    }
    out.shape.push_back(size.integer());
  }
  std::vector<int64_t> ends;
  for (JsonValue end : range->items()) {
    if (end.kind() != JsonKind::kInteger) return std::nullopt;
    ends.push_back(end.integer());
  }
  const auto known = ParseDtype(dtype->string());
  const auto elements = CheckedProduct(out.shape);
  if (!known || !elements || ends[0] < 0 || ends[1] < ends[0] ||
      ends[1] > static_cast<int64_t>(data.size()) ||
      BytesOf(*elements, *known) != ends[1] - ends[0] ||
      !AppendAs(*known,
                data.substr(AsIndex(ends[0]), AsIndex(ends[1] - ends[0])),
                out.data)) {
    return std::nullopt;
  }
  return out;
}

// Appends the numbers of nested lists. Returns false if an element is not a
// number, or if the lists do not have the shape of `out` (for example because
// they are ragged).
bool AppendNested(JsonValue value, size_t depth, dense::Array& out) {
  if (!value.IsArray()) {
    if (!IsNumber(value) || depth != out.shape.size()) return false;
    out.data.push_back(value.real());
    return true;
  }
  if (depth >= out.shape.size()) return false;
  if (static_cast<int64_t>(value.size()) != out.shape[depth]) return false;
  for (JsonValue item : value.items()) {
    if (!AppendNested(item, depth + 1, out)) return false;
  }
  return true;
}

void WriteNested(JsonWriter& json, const Shape& shape, size_t depth,
                 std::span<const double> data, Dtype dtype) {
  if (depth == shape.size()) {
    if (exec::IsRealDtype(dtype) || dtype == Dtype::kF64) {
      json.Real(data[0]);
    } else {
      json.Integer(static_cast<int64_t>(data[0]));
    }
    return;
  }
  json.BeginArray();
  const auto parts = AsIndex(shape[depth]);
  const size_t step = parts == 0 ? 0 : data.size() / parts;
  for (size_t i = 0; i < parts; ++i) {
    WriteNested(json, shape, depth + 1, data.subspan(i * step, step), dtype);
  }
  json.EndArray();
}

}  // namespace

std::optional<Arrays> ReadArrays(const SourceRef& source, Findings& findings) {
  const auto refuse = [&](std::string message) {
    findings.Add(
        code::kSchema, {source}, std::move(message),
        "write a safetensors file of F32, F64, I8, I32 or I64 tensors");
    return std::nullopt;
  };
  const std::string_view text = source->text();
  uint64_t length = 0;
  if (text.size() < sizeof(length)) {
    return refuse("this is no safetensors file: it has " +
                  Counted(static_cast<int64_t>(text.size()), "byte"));
  }
  std::memcpy(&length, text.data(), sizeof(length));
  if (length > text.size() - sizeof(length)) {
    return refuse("the header is " + std::to_string(length) +
                  " bytes long, which is more than the file");
  }
  const size_t begin = sizeof(length);
  const auto header =
      JsonDocument::Parse(source, findings, {}, begin, begin + length);
  if (header == nullptr) return std::nullopt;
  if (!header->root().IsObject()) return refuse("the header is no JSON object");
  Arrays out;
  for (JsonMember member : header->root().members()) {
    if (member.name() == "__metadata__") continue;
    auto array = member.value.IsObject()
                     ? ReadArray(member.value, text.substr(begin + length))
                     : std::nullopt;
    if (!array) {
      return refuse("tensor " + ShortQuote(std::string(member.name())) +
                    " has another dtype, or bytes that do not fit its shape");
    }
    out.emplace(member.name(), std::move(*array));
  }
  return out;
}

void Call::FailAt(const Place& place, std::string message, std::string help) {
  fine_ = false;
  findings_.Add(code::kSchema, place, std::move(message), std::move(help));
}

void Call::Fail(std::string message, std::string help) {
  FailAt(input_.place(), std::move(message), std::move(help));
}

std::optional<JsonValue> Call::Find(std::string_view key) {
  known_.emplace(key);
  return input_.IsObject() ? input_.Find(key) : std::nullopt;
}

bool Call::Has(std::string_view key) {
  const auto found = Find(key);
  return found && !found->IsNull();
}

std::optional<JsonValue> Call::Need(std::string_view key) {
  auto found = Find(key);
  if (!found) Fail("member `" + std::string(key) + "` is missing");
  return found;
}

std::string Call::Text(std::string_view key) {
  const auto found = Need(key);
  if (!found) return {};
  if (found->IsString()) return std::string(found->string());
  FailAt(found->place(), "`" + std::string(key) + "` is not a string");
  return {};
}

std::string Call::TextOr(std::string_view key, std::string_view otherwise) {
  return Has(key) ? Text(key) : std::string(otherwise);
}

int64_t Call::Integer(std::string_view key) {
  const auto found = Need(key);
  if (!found) return 0;
  if (found->kind() == JsonKind::kInteger) return found->integer();
  FailAt(found->place(), "`" + std::string(key) + "` is not an integer");
  return 0;
}

int64_t Call::IntegerOr(std::string_view key, int64_t otherwise) {
  return Has(key) ? Integer(key) : otherwise;
}

double Call::Number(std::string_view key) {
  const auto found = Need(key);
  if (!found) return 0;
  if (IsNumber(*found)) return found->real();
  FailAt(found->place(), "`" + std::string(key) + "` is not a number");
  return 0;
}

double Call::NumberOr(std::string_view key, double otherwise) {
  return Has(key) ? Number(key) : otherwise;
}

bool Call::Flag(std::string_view key, bool otherwise) {
  const auto found = Find(key);
  if (!found || found->IsNull()) return otherwise;
  if (found->kind() == JsonKind::kBool) return found->boolean();
  FailAt(found->place(),
         "`" + std::string(key) + "` is neither true nor false");
  return otherwise;
}

Shape Call::Integers(std::string_view key) {
  Shape out;
  const auto found = Need(key);
  if (!found) return out;
  bool good = found->IsArray();
  if (good) {
    for (JsonValue item : found->items()) {
      good = good && item.kind() == JsonKind::kInteger;
      if (good) out.push_back(item.integer());
    }
  }
  if (!good) {
    FailAt(found->place(), "`" + std::string(key) + "` is no list of integers");
  }
  return out;
}

std::vector<std::string> Call::Names(std::string_view key) {
  std::vector<std::string> out;
  const auto found = Need(key);
  if (!found) return out;
  bool good = found->IsArray();
  if (good) {
    for (JsonValue item : found->items()) {
      good = good && item.IsString();
      if (good) out.emplace_back(item.string());
    }
  }
  if (!good) {
    FailAt(found->place(), "`" + std::string(key) + "` is no list of strings");
  }
  return out;
}

Mesh Call::MeshOf(std::string_view key) {
  Mesh mesh;
  const auto found = Need(key);
  if (!found) return mesh;
  bool good = found->IsObject();
  if (good) {
    for (JsonMember member : found->members()) {
      good = good && member.value.kind() == JsonKind::kInteger &&
             member.value.integer() > 0;
      if (!good) break;
      mesh.axes.push_back({std::string(member.name()), member.value.integer()});
      mesh.devices = CheckedProduct(Shape{mesh.devices, member.value.integer()})
                         .value_or(0);
      good = mesh.devices > 0;
    }
  }
  if (!good) {
    FailAt(found->place(),
           "`" + std::string(key) + "` is no object of axis sizes",
           "write `{\"dp\": 2, \"tp\": 4}`");
  }
  return mesh;
}

dense::Array Call::Array(std::string_view key, const ArrayForm& form) {
  dense::Array out;
  const auto found = Need(key);
  if (!found) return out;
  const auto refuse = [&](const std::string& why) {
    FailAt(found->place(), "`" + std::string(key) + "` " + why);
    return dense::Array();
  };
  const dense::Array* stored = nullptr;
  if (found->IsObject()) {
    const auto name = found->Find("tensor");
    if (!name || !name->IsString()) return refuse("is no array");
    if (arrays_ != nullptr) {
      const auto at = arrays_->find(name->string());
      if (at != arrays_->end()) stored = &at->second;
    }
    if (stored == nullptr) {
      return refuse("names tensor " + ShortQuote(std::string(name->string())) +
                    ", which no safetensors file has");
    }
    out.shape = stored->shape;
  } else {
    for (JsonValue at = *found; at.IsArray();) {
      out.shape.push_back(static_cast<int64_t>(at.size()));
      if (at.size() == 0) break;
      at = *at.items().begin();
    }
  }
  if (!Reserve({out.shape})) return {};
  if (stored != nullptr) {
    out.data = stored->data;
  } else if (!AppendNested(*found, 0, out)) {
    return refuse("is no array of numbers, or a ragged one");
  }
  if (out.rank() < form.least || out.rank() > form.most) {
    const std::string least = std::to_string(form.least);
    return refuse("has rank " + std::to_string(out.rank()) +
                  (form.least == form.most
                       ? ", not " + least
                       : ", which is not between " + least + " and " +
                             std::to_string(form.most)));
  }
  if (!form.wide) {
    for (double& x : out.data) x = static_cast<float>(x);
  }
  return out;
}

bool Call::Reserve(std::initializer_list<Shape> shapes) {
  for (const Shape& shape : shapes) {
    int64_t numbers = 1;
    for (const int64_t size : shape) {
      // Both factors are at most kMostNumbers, so the product fits int64_t.
      if (size < 0 || size > left_ || numbers > left_) {
        numbers = left_ + 1;
        break;
      }
      numbers *= std::max<int64_t>(size, 1);
    }
    if (numbers > left_) {
      Fail("the arrays of this input have more than " +
               std::to_string(kMostNumbers) + " numbers together",
           "give smaller arrays, or evaluate the inputs of a list one by one");
      return false;
    }
    left_ -= numbers;
  }
  return true;
}

std::vector<Call> Call::Calls(std::string_view key) {
  std::vector<Call> out;
  const auto found = Need(key);
  if (!found) return out;
  bool good = found->IsArray();
  if (good) {
    for (JsonValue item : found->items()) {
      good = good && item.IsObject();
      out.emplace_back(item, arrays_, left_, findings_);
    }
  }
  if (!good) {
    FailAt(found->place(), "`" + std::string(key) + "` is no list of objects");
    out.clear();
  }
  return out;
}

SourceRef Call::Source(std::string_view key, const std::string& name) {
  const auto found = Find(key);
  if (!found) return nullptr;
  const Place place = found->place();
  return MakeSource(name, std::string(place.source->text().substr(
                              place.begin, place.end - place.begin)));
}

bool Call::Finish() {
  if (!input_.IsObject()) {
    Fail("the input is no JSON object");
    return false;
  }
  for (JsonMember member : input_.members()) {
    if (known_.contains(member.name())) continue;
    FailAt(member.key.place(),
           "unknown member " + ShortQuote(std::string(member.name())),
           DidYouMean(std::string(member.name()),
                      std::vector<std::string>(known_.begin(), known_.end()),
                      "remove it"));
  }
  return fine_;
}

void Reply::Array(std::string_view key, const Shape& shape,
                  std::span<const double> data, Dtype dtype) {
  json_.Key(key);
  if (aside_ == nullptr) {
    WriteNested(json_, shape, 0, data, dtype);
    return;
  }
  exec::Buffer buffer = exec::Buffer::Zeros(shape, dtype);
  for (size_t i = 0; i < data.size(); ++i) {
    if (buffer.IsWide()) {
      buffer.wide[i] = data[i];
    } else if (buffer.IsReal()) {
      buffer.real[i] = static_cast<float>(data[i]);
    } else {
      buffer.integers[i] = static_cast<int32_t>(data[i]);
    }
  }
  const std::string name = prefix_ + std::string(key);
  json_.Object("tensor", name);
  aside_->emplace_back(name, std::move(buffer));
}

std::vector<const Function*> Functions() {
  std::vector<const Function*> out;
  for (auto part : {AxisFunctions(), RuleFunctions(), MeshFunctions(),
                    ArrayFunctions(), TextFunctions()}) {
    for (const Function& function : part) out.push_back(&function);
  }
  std::sort(out.begin(), out.end(),
            [](const auto* a, const auto* b) { return a->name < b->name; });
  return out;
}

const Function* FindFunction(std::string_view name) {
  for (const Function* function : Functions()) {
    if (function->name == name) return function;
  }
  return nullptr;
}

bool Evaluate(const Function& function, JsonValue input, const Arrays* arrays,
              Returned* aside, JsonWriter& json, Findings& findings) {
  int64_t left = kMostNumbers;
  const auto one = [&](JsonValue value, const std::string& prefix,
                       Findings& own) {
    bool good = false;
    const size_t kept = aside == nullptr ? 0 : aside->size();
    std::string text = JsonText([&](JsonWriter& inner) {
      inner.BeginObject();
      Call call(value, arrays, left, own);
      Reply reply(inner, aside, prefix);
      good = function.run(call, reply) && !own.HasErrors();
      inner.EndObject();
    });
    if (!good && aside != nullptr) aside->resize(kept);
    return good ? std::optional(std::move(text)) : std::nullopt;
  };
  if (!input.IsArray()) {
    const auto text = one(input, "", findings);
    if (text) json.Written(*text);
    return text.has_value();
  }
  json.BeginArray(JsonLayout::kLines);
  size_t index = 0;
  for (JsonValue value : input.items()) {
    Findings own;
    const auto text = one(value, std::to_string(index++) + "/", own);
    json.BeginObject();
    if (text) {
      json.Key("result");
      json.Written(*text);
    } else {
      const Finding& first = own.all()[0];
      json.Member("error", Record("code", first.code->Id(), "name",
                                  first.code->name, "message", first.message));
    }
    json.EndObject();
  }
  json.EndArray();
  return true;
}

// Reads rules and specs from the JSON input of a call of `shardc eval`. Their
// JSON text is passed to the reader of rules files, so that it has the same
// meaning as in a file. For example:
//
//   {"rules": {"axes": {"head": "ep"}}}  ->  the rules of `axes: {head: ep}`

std::optional<RuleSet> RulesOf(Call& call) {
  const std::string name = "rules";
  const SourceRef source = call.Source(name, name);
  // The functions are eformer's, whose resolution is that of its compat mode.
  RuleSet defaults;
  defaults.policy.compat = Compat::kEformer;
  if (source == nullptr) return defaults;
  const FileTexts texts = {{FileIdOf(name), std::string(source->text())}};
  const PackLookup no_packs = [](std::string_view) { return nullptr; };
  auto rules = ReadRules(std::span(&name, 1), no_packs, call.findings(),
                         nullptr, &texts);
  if (rules && !rules->policy.compat) rules->policy.compat = Compat::kEformer;
  return rules;
}

std::optional<SpecSource> SpecOf(Call& call, std::string_view key) {
  const SourceRef source = call.Source(key, std::string(key));
  if (source == nullptr) {
    call.Fail("member `" + std::string(key) + "` is missing");
    return std::nullopt;
  }
  return ParseSpec(source, call.findings());
}

std::optional<Spec> MeshSpecOf(Call& call, std::string_view key) {
  const auto source = SpecOf(call, key);
  if (!source) return std::nullopt;
  const auto* list = std::get_if<SpecList>(&*source);
  if (list == nullptr) {
    call.Fail("`" + std::string(key) + "` is no list of mesh axes");
    return std::nullopt;
  }
  Spec spec;
  for (const SpecEntry& entry : list->entries) {
    AxisGroup group;
    for (const SpecName& name : entry.names) group.push_back(name.text);
    spec.push_back(std::move(group));
  }
  return spec;
}

std::optional<Mode> ModeOf(Call& call, std::string_view key) {
  const auto given = call.Find(key);
  const std::string text =
      given && given->IsString() ? std::string(given->string()) : "";
  const auto mode = ParseMode(text);
  if (!mode) {
    call.Fail("`" + std::string(key) + "` is no mode",
              "the modes are train, prefill, decode and insert");
  }
  return mode;
}

Mesh MeshFor(Call& call, const AxisRules& axes) {
  if (call.Has("mesh")) return call.MeshOf("mesh");
  Mesh mesh;
  for (size_t i = 0; i < kAxisRuleCount; ++i) {
    for (const std::string& axis : axes.Value(static_cast<AxisRule>(i)).axes) {
      if (!mesh.Find(axis)) mesh.axes.push_back({axis, 1});
    }
  }
  return mesh;
}

}  // namespace shardc::eval
