// Computes the part of a parameter that a device holds. A device's shard index
// along a dimension is a mixed-radix number. Its digits are the device's
// coordinates on the axes that shard the dimension, the major axis first. If
// all shards have the same length, the device's part starts at the index times
// this length (model/shard_range.h has the general case). For example:
//
//   [tp, dp] of 2 and 2, tp=1 dp=1, shards of 16: index 3, elements 48:64
#include "emit/plans/device_share.h"

#include "model/shard_range.h"
#include "source/json_writer.h"
#include "source/wording.h"

namespace shardc {

std::string PlaceText(const Mesh& mesh, const DevicePlace& place) {
  std::string out = "device " + std::to_string(place.device) + ":";
  for (size_t i = 0; i < mesh.axes.size(); ++i) {
    out += " " + Printable(mesh.axes[i].name) + "=" +
           std::to_string(place.coordinates[i]);
  }
  out += ", process " + std::to_string(place.process);
  if (mesh.slices > 1) {
    out += ", slice " + std::to_string(place.slice) + ", position " +
           std::to_string(place.position);
  }
  return out;
}

void WritePlace(JsonWriter& json, const Mesh& mesh, const DevicePlace& place) {
  json.BeginObject();
  json.Member("device", place.device);
  json.Member("position", place.position);
  json.Key("coordinates");
  json.BeginObject();
  for (size_t i = 0; i < mesh.axes.size(); ++i) {
    json.Member(mesh.axes[i].name, place.coordinates[i]);
  }
  json.EndObject();
  json.Member("process", place.process);
  json.Member("slice", place.slice);
  json.EndObject();
}

std::optional<Slices> SlicesOf(const Mesh& mesh, const DevicePlace& place,
                               const TensorType& type, const DimParts& parts,
                               const ModeLayout& mode) {
  if (!mode.shard_shape || !mode.problems.empty()) return std::nullopt;
  const DimParts sharded = ShardedParts(parts, mode.spec);
  Slices out;
  for (size_t d = 0; d < type.shape->size(); ++d) {
    const int64_t count = PartsAt(sharded, d);
    const int64_t size = (*type.shape)[d] / count;
    const ShardRange range =
        RangeAlong(mesh, place.coordinates, AxesAt(mode.spec, d), size);
    out.emplace_back();
    for (int64_t part = 0; part < count; ++part) {
      out.back().emplace_back(part * size + range.begin,
                              part * size + range.end());
    }
  }
  return out;
}

std::string UnevenText(const Mesh& mesh, const AxisGroup& axes, int64_t size) {
  const int64_t parts = mesh.Parts(axes).value_or(1);
  const auto of_shard = [&](int64_t index) {
    return std::to_string(
        RangeOfShard(size, AxisSizes(mesh, axes), index).size);
  };
  return std::to_string(size) + ", which " + GroupText(axes) + " splits into " +
         std::to_string(parts) + " shards of at most " + of_shard(0) +
         ", the last of " + of_shard(parts - 1);
}

std::string SlicesText(const Slices& slices) {
  std::string out = "[";
  for (const auto& ranges : slices) {
    out += out.size() > 1 ? ", " : "";
    for (size_t i = 0; i < ranges.size(); ++i) {
      out += (i > 0 ? "+" : "") + std::to_string(ranges[i].first) + ":" +
             std::to_string(ranges[i].second);
    }
  }
  return out + "]";
}

void WriteSlices(JsonWriter& json, const std::optional<Slices>& slices) {
  if (!slices) {
    json.Null();
    return;
  }
  json.BeginArray();
  for (const auto& ranges : *slices) {
    if (ranges.size() > 1) json.BeginArray();
    for (const auto& [begin, end] : ranges) {
      json.BeginArray();
      json.Integer(begin);
      json.Integer(end);
      json.EndArray();
    }
    if (ranges.size() > 1) json.EndArray();
  }
  json.EndArray();
}

}  // namespace shardc
