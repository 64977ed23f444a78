#include "cli/verify_list.h"

#include <algorithm>
#include <array>
#include <string_view>
#include <vector>

#include "exec/operation.h"
#include "source/wording.h"

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
  for (const exec::Operation& operation : exec::Operations()) {
    if (!out.empty()) out += '\n';
    out += operation.name;
    out += ": ";
    out += operation.summary;
    out += '\n';
    const auto splits = Splits(operation.supports);
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

std::string OperationsJson() {
  std::string out = "{\"operations\": [";
  std::string_view comma = "\n";
  for (const exec::Operation& operation : exec::Operations()) {
    out += comma;
    comma = ",\n";
    out += "  {\"name\": ";
    AppendJsonString(out, operation.name);
    out += ", \"summary\": ";
    AppendJsonString(out, operation.summary);
    out += ", \"supports\": {";
    const auto splits = Splits(operation.supports);
    for (size_t i = 0; i < kDims.size(); ++i) {
      if (i > 0) out += ", ";
      AppendJsonString(out, kDims[i]);
      out += ": ";
      if (splits[i] == "-") {
        out += "null";
      } else {
        AppendJsonString(out, splits[i]);
      }
    }
    out += "}}";
  }
  return out + "\n]}\n";
}

}  // namespace shardc::cli
