#include "emit/pictures/words.h"

#include "source/wording.h"

namespace shardc {

std::string DevicesText(const picture::DeviceSet& devices,
                        std::string_view dash) {
  const int64_t count = devices.count();
  std::string out = std::to_string(devices.first);
  if (count == 1) return out;
  const auto step = devices.Step();
  if (count == 2 && step != 1) {
    return out + ", " + std::to_string(devices.last());
  }
  if (!step) return out + " and " + std::to_string(count - 1) + " more";
  out += std::string(dash) + std::to_string(devices.last());
  return *step == 1 ? out : out + " step " + std::to_string(*step);
}

std::string DevicesShort(const picture::DeviceSet& devices) {
  const int64_t count = devices.count();
  std::string out = std::to_string(devices.first);
  return count == 1 ? out : out + " +" + std::to_string(count - 1);
}

std::string HostSpanText(const picture::AxisLine& line) {
  if (!line.hosts || line.group.count() == 1) return "";
  if (*line.hosts == 1) return "inside one host";
  if (*line.per_host == 1) return "each on another host";
  return CountText(*line.per_host) + " a host, " + Counted(*line.hosts, "host");
}

std::string CoordinateText(const Mesh& mesh, const picture::ArrayDim& dim,
                           int64_t piece) {
  std::string out;
  for (int64_t one : picture::CoordinatesAlong(mesh, dim.axes, piece)) {
    out += (out.empty() ? "" : ".") + std::to_string(one);
  }
  return out.empty() ? "0" : out;
}

}  // namespace shardc
