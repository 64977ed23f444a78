// Lists the accelerators in two tables, one per line. The first table has an
// accelerator's names, memory, peak rates and links. The second table has the
// fractions of the peak rates that programs reach. The letters after a figure
// name its sources, which are listed last. For example, a line of the first
// table, here in two parts, is:
//
//   h100-sxm  h100-80gb  79.65 GiB A  3350 GB/s I  989, 1979, 1979 IL
//       18 x 25 GB/s I ...
#include "emit/costs/cost_report.h"

#include <array>
#include <cstdio>
#include <optional>
#include <string_view>
#include <vector>

#include "devices/profiles.h"
#include "source/json_writer.h"
#include "source/wording.h"

namespace shardc {
namespace {

std::string Number(double value) {
  std::array<char, 32> text{};
  std::snprintf(text.data(), text.size(), "%.5g", value);
  return text.data();
}

std::string Rate(double bytes, std::string_view source) {
  return Number(bytes / 1e9) + " GB/s " + std::string(source);
}

std::string Peak(const std::optional<double>& rate) {
  return rate ? Number(*rate / 1e12) : "-";
}

std::string Share(const std::optional<double>& share) {
  return share ? Number(*share) : "-";
}

const std::string& From(const FigureSources& sources, FigureGroup group) {
  return sources[static_cast<size_t>(group)];
}

std::string EfficiencyText() {
  Columns table;
  table.Row({"share of the peak rates in training", "matmuls, bf16", "fp8",
             "flash attention 1", "2", "cuDNN", "others", "memory",
             "published runs"});
  for (const DeviceProfile& one : DeviceProfiles()) {
    const Efficiency& of = one.efficiency;
    table.Row({std::string(one.name), Number(of.matmul),
               one.fp8_rate ? Number(of.matmul_fp8) : "-",
               Share(of.flash_attn1), Share(of.flash_attn2), Share(of.cudnn),
               Number(of.attention), Number(of.memory_ops),
               (of.runs > 0 ? std::to_string(of.runs) : "none") + " " +
                   From(SourcesOf(one), FigureGroup::kEfficiency)});
  }
  return table.Text();
}

}  // namespace

std::string ProfileListText() {
  Columns table;
  table.Row({"profile", "also", "memory", "at", "bf16, fp8, int8 Top/s",
             "link rate, one way", "joined", "per host", "out of host"});
  for (const DeviceProfile& one : DeviceProfiles()) {
    const FigureSources from = SourcesOf(one);
    table.Row(
        {std::string(one.name), std::string(one.alias),
         BytesText(one.memory_bytes) + " " + From(from, FigureGroup::kMemory),
         Rate(one.memory_rate, From(from, FigureGroup::kMemoryRate)),
         Peak(one.bf16_rate) + ", " + Peak(one.fp8_rate) + ", " +
             Peak(one.int8_rate) + " " + From(from, FigureGroup::kPeaks),
         std::to_string(one.links) + " x " +
             Rate(one.link_rate, From(from, FigureGroup::kLinks)),
         std::string(FabricName(one.fabric)),
         std::to_string(one.chips_per_host) +
             (one.devices_per_chip > 1
                  ? " of " + std::to_string(one.devices_per_chip)
                  : ""),
         Rate(one.host_rate, From(from, FigureGroup::kHost))});
  }
  std::string out = table.Text() + EfficiencyText() + "sources\n";
  for (const ProfileSource& one : ProfileSources()) {
    out += "  " + std::string(1, one.letter) + "  " + one.text + "\n";
  }
  return out;
}

void WriteProfileListJson(Sink& out) {
  WriteDocument(out, "shardc.profiles/v1", [&](JsonWriter& json) {
    json.Key("profiles");
    json.BeginArray(JsonLayout::kLines);
    for (const DeviceProfile& one : DeviceProfiles()) {
      const auto figure = [&](std::string_view key, const auto& value,
                              std::string_view source) {
        json.Member(key, Record("value", value, "source", source));
      };
      const FigureSources from = SourcesOf(one);
      json.BeginObject(JsonLayout::kLines);
      json.Members("name", one.name, "also", one.alias);
      figure("memory_bytes", one.memory_bytes,
             From(from, FigureGroup::kMemory));
      figure("memory_bytes_per_s", one.memory_rate,
             From(from, FigureGroup::kMemoryRate));
      figure("bf16_flops", one.bf16_rate, From(from, FigureGroup::kPeaks));
      figure("fp8_flops", one.fp8_rate, From(from, FigureGroup::kPeaks));
      figure("int8_ops", one.int8_rate, From(from, FigureGroup::kPeaks));
      figure("link_bytes_per_s", one.link_rate,
             From(from, FigureGroup::kLinks));
      figure("links", one.links, From(from, FigureGroup::kLinks));
      figure("host_bytes_per_s", one.host_rate, From(from, FigureGroup::kHost));
      if (one.host_memory_rate) {
        figure("host_memory_bytes_per_s", one.host_memory_rate,
               From(from, FigureGroup::kHostMemory));
      }
      json.Members("fabric", FabricName(one.fabric), "chips_per_host",
                   one.chips_per_host, "devices_per_chip",
                   one.devices_per_chip);
      const Efficiency& of = one.efficiency;
      json.Member(
          "efficiency",
          Record("matmul_bf16", of.matmul, "matmul_fp8", of.matmul_fp8,
                 "flash_attn1", of.flash_attn1, "flash_attn2", of.flash_attn2,
                 "cudnn", of.cudnn, "other_attention", of.attention,
                 "memory_ops", of.memory_ops, "runs", of.runs, "source",
                 From(from, FigureGroup::kEfficiency)));
      json.EndObject();
    }
    json.EndArray();
    json.Key("sources");
    json.BeginObject(JsonLayout::kLines);
    for (const ProfileSource& one : ProfileSources()) {
      json.Member(std::string_view(&one.letter, 1), one.text);
    }
    json.EndObject();
  });
}

}  // namespace shardc
