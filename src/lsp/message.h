// Reads and writes JSON-RPC messages.
#ifndef SHARDC_LSP_MESSAGE_H_
#define SHARDC_LSP_MESSAGE_H_

#include <cstdint>
#include <initializer_list>
#include <memory>
#include <optional>
#include <string>
#include <string_view>

#include "lsp/position.h"
#include "source/json.h"
#include "source/json_writer.h"

namespace shardc::lsp {

enum class ErrorCode : int {
  kParseError = -32700,
  kInvalidRequest = -32600,
  kMethodNotFound = -32601,
  kInvalidParams = -32602,
  kNotInitialized = -32002,
  kCancelled = -32800,
  kRequestFailed = -32803,
};

struct Message {
  std::shared_ptr<const JsonDocument> json;
  std::string id;  // JSON text as received; empty for a notification
  std::string method;
  std::optional<JsonValue> params;
  bool cancelled = false;

  bool IsRequest() const { return !id.empty(); }
};

// Parses a request or a notification. For any other text, returns nullopt and
// sets `*fault` to the error response. If the text is a response of the client,
// `*fault` is empty, because a response is never answered.
std::optional<Message> ParseMessage(const std::string& text,
                                    std::string* fault);

// Each function follows nested keys and returns the value at the last key, if
// it has the function's type. TrueBelow returns whether the value is `true`.
std::optional<JsonValue> Below(std::optional<JsonValue> value,
                               std::initializer_list<std::string_view> keys);
std::optional<std::string> TextBelow(
    const std::optional<JsonValue>& value,
    std::initializer_list<std::string_view> keys);
std::optional<int64_t> NumberBelow(
    const std::optional<JsonValue>& value,
    std::initializer_list<std::string_view> keys);
bool TrueBelow(const std::optional<JsonValue>& value,
               std::initializer_list<std::string_view> keys);
std::optional<Position> PositionBelow(
    const std::optional<JsonValue>& value,
    std::initializer_list<std::string_view> keys);
std::optional<Range> RangeBelow(const std::optional<JsonValue>& value,
                                std::initializer_list<std::string_view> keys);

void WritePosition(JsonWriter& json, const Position& position);
void WriteRange(JsonWriter& json, const Range& range);

// These functions return the text of a message to the client. `id`, `result`
// and `params` are JSON texts.
std::string Response(std::string_view id, std::string_view result);
std::string ErrorResponse(std::string_view id, ErrorCode code,
                          std::string_view message);
std::string Notification(std::string_view method, std::string_view params);

// Returns the JSON text that `write(JsonWriter&)` writes, without spaces and
// line breaks.
template <class Write>
std::string Json(const Write& write) {
  return TextOf([&](Sink& out) {
    JsonWriter json(out, JsonStyle::kCompact);
    write(json);
  });
}

}  // namespace shardc::lsp

#endif  // SHARDC_LSP_MESSAGE_H_
