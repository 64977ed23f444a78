// Columns as wide as what stands in them; what is not known is a dash, and
// below it why.
//
//   parameters     239.4 MiB
//   total          2.81 GiB  of 79.65 GiB, 96.5 % free
#include "emit/costs/cost_report.h"

#include <algorithm>
#include <array>
#include <cstdio>
#include <optional>
#include <vector>

#include "source/json_writer.h"
#include "source/wording.h"

namespace shardc {
namespace {

using cost::Component;
using cost::Report;

std::string BytesOr(const std::optional<int64_t>& bytes) {
  return bytes ? BytesText(*bytes) : "-";
}

std::string Percent(int64_t part, int64_t whole) {
  std::array<char, 32> text{};
  std::snprintf(text.data(), text.size(), "%.1f %%",
                100.0 * static_cast<double>(part) / static_cast<double>(whole));
  return text.data();
}

// Rows of cells, each column as wide as its widest.
class Table {
 public:
  void Row(std::vector<std::string> cells) {
    widths_.resize(std::max(widths_.size(), cells.size()));
    for (size_t i = 0; i < cells.size(); ++i) {
      widths_[i] = std::max(widths_[i], cells[i].size());
    }
    rows_.push_back(std::move(cells));
  }
  std::string Text() const {
    std::string out;
    for (const auto& row : rows_) {
      std::string line;
      for (size_t i = 0; i < row.size(); ++i) {
        line += row[i];
        if (i + 1 < row.size()) {
          line.append(widths_[i] - row[i].size() + 2, ' ');
        }
      }
      while (line.ends_with(' ')) line.pop_back();
      out += line + "\n";
    }
    return out;
  }

 private:
  std::vector<size_t> widths_;
  std::vector<std::vector<std::string>> rows_;
};

// A component that this mode has not is left out.
bool Shown(const Report& report, Component one) {
  const auto& bytes = report.memory.most.Of(one);
  return !bytes || *bytes > 0;
}

std::string CapacityText(const cost::Memory& memory) {
  if (!memory.capacity || !memory.most.total) return "";
  const int64_t has = *memory.capacity, needs = *memory.most.total;
  if (needs > has) {
    return "of " + BytesText(has) + ": " + BytesText(needs - has) + " too much";
  }
  return "of " + BytesText(has) + ", " + Percent(has - needs, has) + " free";
}

std::string MemoryText(const Report& report) {
  const cost::Memory& memory = report.memory;
  const bool uneven = memory.most.total != memory.least.total;
  Table table;
  table.Row(
      {"bytes per device", uneven ? "fullest" : "", uneven ? "emptiest" : ""});
  for (size_t i = 0; i < cost::kComponentCount; ++i) {
    const auto one = static_cast<Component>(i);
    if (!Shown(report, one)) continue;
    table.Row({"  " + std::string(cost::kComponentNames[i]),
               BytesOr(memory.most.by[i]),
               uneven ? BytesOr(memory.least.by[i]) : ""});
  }
  const std::string least = uneven ? BytesOr(memory.least.total) : "";
  table.Row({"  total", BytesOr(memory.most.total),
             uneven ? least : CapacityText(memory)});
  std::string out = table.Text();
  if (uneven && memory.capacity) {
    out += "  the fullest: " + CapacityText(memory) + "\n";
  }
  return out;
}

std::string TensorsText(const cost::Activations& activations) {
  Table table;
  table.Row({"tensors of a layer", "bytes per device", "layers", ""});
  for (const cost::LayerTensor& tensor : activations.tensors) {
    table.Row({"  " + std::string(tensor.what.name), BytesText(tensor.bytes),
               std::to_string(tensor.layers), tensor.kept ? "kept" : ""});
  }
  return table.Text();
}

void WriteHeld(JsonWriter& json, const cost::Held& held) {
  for (size_t i = 0; i < cost::kComponentCount; ++i) {
    json.Member(cost::kComponentNames[i], held.by[i]);
  }
  json.Member("total", held.total);
}

void WriteActivations(JsonWriter& json, const cost::Activations& activations) {
  json.Key("activations");
  json.BeginObject(JsonLayout::kLines);
  json.Member("kept", activations.kept);
  json.Member("working", activations.working);
  json.Key("tensors");
  json.BeginArray(JsonLayout::kLines);
  for (const cost::LayerTensor& tensor : activations.tensors) {
    json.BeginObject();
    json.Member("name", tensor.what.name);
    json.Member("bytes", tensor.bytes);
    json.Member("layers", tensor.layers);
    json.Member("kept", tensor.kept);
    json.EndObject();
  }
  json.EndArray();
  json.EndObject();
}

void WriteTexts(JsonWriter& json, std::string_view key,
                const std::vector<std::string>& texts) {
  json.Key(key);
  json.BeginArray(JsonLayout::kLines);
  for (const std::string& text : texts) json.String(text);
  json.EndArray();
}

}  // namespace

std::string CostReportText(const Report& report, const CostText& how) {
  std::string out = std::string(ModeName(report.mode)) + " on " +
                    MeshText(report.mesh) + ", " +
                    Counted(report.mesh.devices, "device") + "\n";
  out += MemoryText(report);
  for (const std::string& text : report.memory.unknown) {
    out += "not known: " + text + "\n";
  }
  if (!how.explain) return out;
  if (report.memory.activations) {
    out += TensorsText(*report.memory.activations);
  }
  out += "assumed\n";
  for (const std::string& text : report.assumptions) {
    out += "  " + text + "\n";
  }
  return out;
}

void WriteCostJson(const Report& report, Sink& out) {
  JsonWriter json(out);
  json.BeginObject(JsonLayout::kLines);
  json.Member("schema", "shardc.cost/v1");
  json.Member("target", report.target);
  json.Member("mode", ModeName(report.mode));
  json.Key("mesh");
  json.BeginObject();
  WriteMeshMembers(json, report.mesh, MeshDetail::kSizes);
  json.EndObject();
  json.Key("memory");
  json.BeginObject(JsonLayout::kLines);
  WriteHeld(json, report.memory.most);
  json.Key("least");
  json.BeginObject();
  WriteHeld(json, report.memory.least);
  json.EndObject();
  json.Member("capacity", report.memory.capacity);
  json.Member("fits", report.memory.Fits());
  json.EndObject();
  if (report.memory.activations) {
    WriteActivations(json, *report.memory.activations);
  }
  WriteTexts(json, "unknown", report.memory.unknown);
  WriteTexts(json, "assumptions", report.assumptions);
  json.EndObject();
  out.Put('\n');
}

}  // namespace shardc
