// Prints the attention operations, and how each operation supports the sharding
// of each dimension (batch, lengths, heads, head size). If an operation does
// not support the sharding of a dimension, exec::Supports has `-` for this
// dimension. The text then has `unsupported`, and JSON has null.
#include "cli/verify_list.h"

#include <algorithm>
#include <array>
#include <string_view>
#include <vector>

#include "exec/operations/operation.h"
#include "source/json_writer.h"

namespace shardc::cli {
namespace {

constexpr std::array<std::string_view, 5> kDims = {
    "batch", "query_length", "key_length", "heads", "dim"};

std::array<std::string_view, 5> Splits(const exec::Supports& s) {
  return {s.batch, s.query_length, s.key_length, s.heads, s.dim};
}

}  // namespace

std::string OperationsText() {
  size_t width = 0;
  for (const std::string_view dim : kDims) width = std::max(width, dim.size());
  std::string out;
  for (const exec::Operation* operation : exec::Operations()) {
    if (!out.empty()) out += '\n';
    out += operation->name;
    out += ": ";
    out += operation->summary;
    out += '\n';
    const auto splits = Splits(operation->supports);
    for (size_t i = 0; i < kDims.size(); ++i) {
      out += "  ";
      out += kDims[i];
      out.append(width - kDims[i].size() + 2, ' ');
      out += splits[i] == "-" ? "unsupported" : splits[i];
      out += '\n';
    }
  }
  return out;
}

void WriteOperationsJson(Sink& out) {
  JsonWriter json(out);
  json.BeginObject();
  json.Key("operations");
  json.BeginArray(JsonLayout::kLines);
  for (const exec::Operation* operation : exec::Operations()) {
    json.BeginObject();
    json.Member("name", operation->name);
    json.Member("summary", operation->summary);
    json.Key("supports");
    json.BeginObject();
    const auto splits = Splits(operation->supports);
    for (size_t i = 0; i < kDims.size(); ++i) {
      json.Key(kDims[i]);
      if (splits[i] == "-") {
        json.Null();
      } else {
        json.String(splits[i]);
      }
    }
    json.EndObject();
    json.EndObject();
  }
  json.EndArray();
  json.EndObject();
  out.Put('\n');
}

}  // namespace shardc::cli
