// Reads and writes JSON-RPC messages. The id of a request is stored as it was
// written, so that the response repeats the id exactly. An invalid message gets
// an error response:
//
//   {"id": 1, "method": 2}  ->  error -32600 with id 1
//
// A response that the client sends is ignored, because a response must not be
// answered.
#include "lsp/message.h"

#include <utility>

namespace shardc::lsp {
namespace {

bool IsId(const JsonValue& value) {
  return value.IsString() || value.kind() == JsonKind::kInteger ||
         value.kind() == JsonKind::kUnsigned;
}

std::string Written(const JsonValue& value) {
  const Place place = value.place();
  return std::string(
      place.source->text().substr(place.begin, place.end - place.begin));
}

}  // namespace

std::optional<Message> ParseMessage(const std::string& text,
                                    std::string* fault) {
  fault->clear();
  Findings findings;
  Message out;
  out.json = JsonDocument::Parse(MakeSource("message", text), findings);
  if (out.json == nullptr) {
    *fault = ErrorResponse(
        "null", ErrorCode::kParseError,
        findings.empty() ? "not valid JSON" : findings.all()[0].message);
    return std::nullopt;
  }
  const JsonValue root = out.json->root();
  const auto id = Below(root, {"id"});
  const auto method = Below(root, {"method"});
  if (id && IsId(*id)) out.id = Written(*id);
  const bool answer = root.IsObject() && !method &&
                      (Below(root, {"result"}) || Below(root, {"error"}));
  if (answer) return std::nullopt;
  if (!method || !method->IsString() || (id && out.id.empty())) {
    *fault = ErrorResponse(out.id.empty() ? "null" : out.id,
                           ErrorCode::kInvalidRequest, "not a valid request");
    return std::nullopt;
  }
  out.method = method->string();
  out.params = Below(root, {"params"});
  return out;
}

std::optional<JsonValue> Below(std::optional<JsonValue> value,
                               std::initializer_list<std::string_view> keys) {
  for (const std::string_view key : keys) {
    if (!value || !value->IsObject()) return std::nullopt;
    value = value->Find(key);
  }
  return value;
}

std::optional<std::string> TextBelow(
    const std::optional<JsonValue>& value,
    std::initializer_list<std::string_view> keys) {
  const auto found = Below(value, keys);
  if (!found || !found->IsString()) return std::nullopt;
  return std::string(found->string());
}

std::optional<int64_t> NumberBelow(
    const std::optional<JsonValue>& value,
    std::initializer_list<std::string_view> keys) {
  const auto found = Below(value, keys);
  if (!found || found->kind() != JsonKind::kInteger) return std::nullopt;
  return found->integer();
}

bool TrueBelow(const std::optional<JsonValue>& value,
               std::initializer_list<std::string_view> keys) {
  const auto found = Below(value, keys);
  return found && found->kind() == JsonKind::kBool && found->boolean();
}

std::optional<Position> PositionBelow(
    const std::optional<JsonValue>& value,
    std::initializer_list<std::string_view> keys) {
  const auto found = Below(value, keys);
  const auto line = NumberBelow(found, {"line"});
  const auto character = NumberBelow(found, {"character"});
  if (!line || !character || *line < 0 || *character < 0) return std::nullopt;
  return Position{*line, *character};
}

std::optional<Range> RangeBelow(const std::optional<JsonValue>& value,
                                std::initializer_list<std::string_view> keys) {
  const auto found = Below(value, keys);
  const auto start = PositionBelow(found, {"start"});
  const auto end = PositionBelow(found, {"end"});
  if (!start || !end) return std::nullopt;
  return Range{*start, *end};
}

void WritePosition(JsonWriter& json, const Position& position) {
  json.BeginObject();
  json.Member("line", position.line);
  json.Member("character", position.character);
  json.EndObject();
}

void WriteRange(JsonWriter& json, const Range& range) {
  json.BeginObject();
  json.Key("start");
  WritePosition(json, range.start);
  json.Key("end");
  WritePosition(json, range.end);
  json.EndObject();
}

std::string Response(std::string_view id, std::string_view result) {
  return Json([&](JsonWriter& json) {
    json.BeginObject();
    json.Member("jsonrpc", "2.0");
    json.Key("id");
    json.Written(id);
    json.Key("result");
    json.Written(result);
    json.EndObject();
  });
}

std::string ErrorResponse(std::string_view id, ErrorCode code,
                          std::string_view message) {
  return Json([&](JsonWriter& json) {
    json.BeginObject();
    json.Member("jsonrpc", "2.0");
    json.Key("id");
    json.Written(id);
    json.Key("error");
    json.BeginObject();
    json.Member("code", static_cast<int>(code));
    json.Member("message", message);
    json.EndObject();
    json.EndObject();
  });
}

std::string Notification(std::string_view method, std::string_view params) {
  return Json([&](JsonWriter& json) {
    json.BeginObject();
    json.Member("jsonrpc", "2.0");
    json.Member("method", method);
    json.Key("params");
    json.Written(params);
    json.EndObject();
  });
}

}  // namespace shardc::lsp
