// Writes what the drawings of a terminal show as JSON, for scripts. For
// example, an array [8, 4] over tp=2 is:
//
//   {"title": ["w", "[8, 4]"], "dims": [{"name": "dim 0", "size": 8,
//    "parts": 2, "axes": ["tp"]}, ...], "copies": 1, "shards": [
//    {"ranges": [[0, 4], [0, 4]], "devices": [0]}, ...]}
#include <array>
#include <cstdint>
#include <string>
#include <vector>

#include "emit/pictures/line.h"
#include "source/json_writer.h"
#include "source/sink.h"

namespace shardc {
namespace {

void WriteShard(JsonWriter& json, const picture::ArrayPicture& array,
                const std::vector<int64_t>& index,
                const picture::DeviceSet& devices) {
  json.BeginObject();
  json.Key("ranges");
  json.BeginArray();
  for (size_t dim = 0; dim < index.size(); ++dim) {
    const auto range = array.dims()[dim].Range(index[dim]);
    if (range) {
      json.Array(std::array{range->first, range->second});
    } else {
      json.Null();
    }
  }
  json.EndArray();
  json.Key("devices");
  json.BeginArray();
  for (int64_t i = 0; i < devices.count(); ++i) json.Integer(devices.At(i));
  json.EndArray();
  json.EndObject();
}

}  // namespace

std::string ArrayJson(const picture::ArrayPicture& array,
                      const std::vector<std::string>& title) {
  return TextOf([&](Sink& out) {
    JsonWriter json(out);
    json.BeginObject(JsonLayout::kLines);
    json.Member("title", title);
    json.Array("dims", array.dims(), [&](const picture::ArrayDim& dim) {
      json.Value(Record("name", dim.name, "size", dim.size, "parts", dim.parts,
                        "axes", dim.axes));
    });
    json.Member("copies", array.copies());
    json.Key("shards");
    json.BeginArray(JsonLayout::kLines);
    for (int64_t panel = 0; panel < array.PanelCount(); ++panel) {
      for (int64_t row = 0; row < array.RowCount(); ++row) {
        for (int64_t column = 0; column < array.ColumnCount(); ++column) {
          WriteShard(json, array, array.IndexOf(panel, row, column),
                     array.At(panel, row, column));
        }
      }
    }
    json.EndArray();
    json.EndObject();
  });
}

std::string MemoryJson(const MemoryBars& memory) {
  return TextOf([&](Sink& out) {
    JsonWriter json(out);
    json.BeginObject(JsonLayout::kLines);
    json.Member("capacity", memory.budget);
    json.Array(memory.of_ranks ? "ranks" : "modes", memory.bars,
               [&](const MemoryBar& bar) {
                 json.BeginObject();
                 json.Members("name", bar.name, "at_least", bar.at_least);
                 for (size_t i = 0; i < memory.parts.size(); ++i) {
                   json.Member(memory.parts[i].name, bar.parts[i]);
                 }
                 json.EndObject();
               });
    json.Member("not_known", memory.unknown);
    json.EndObject();
  });
}

std::string CoverageJson(const picture::Coverage& coverage) {
  return TextOf([&](Sink& out) {
    JsonWriter json(out);
    json.BeginObject(JsonLayout::kLines);
    json.Array("rules", coverage.rules, [&](const picture::RuleLine& rule) {
      json.Value(Record("pattern", rule.match, "parameters", rule.won, "bytes",
                        rule.bytes));
    });
    json.Members("no_rule", coverage.no_rule, "no_rule_bytes",
                 coverage.no_rule_bytes);
    json.EndObject();
  });
}

}  // namespace shardc
