// Texts for sets of devices and for coordinates. The terminal pictures and the
// HTML page use the same texts.
#ifndef SHARDC_EMIT_PICTURES_WORDS_H_
#define SHARDC_EMIT_PICTURES_WORDS_H_

#include <cstdint>
#include <string>
#include <string_view>

#include "picture/array.h"
#include "picture/device_set.h"
#include "picture/mesh.h"

namespace shardc {

// Returns the text of a set of devices: `0, 32`; `0-60 step 4`; `0-3`; `0 and
// 15 more`. `dash` is the character between the ends of a range.
std::string DevicesText(const picture::DeviceSet& devices,
                        std::string_view dash = "-");
// Returns the shortest text of a set of devices: `0 +15` for 0 and 15 more.
std::string DevicesShort(const picture::DeviceSet& devices);
// Returns where the devices of an axis are: `inside one host`, `each on another
// host`, `2 a host, 4 hosts`. The text is empty if the hosts are unknown or the
// axis has one device.
std::string HostSpanText(const picture::AxisLine& line);

// Returns the coordinates of shard `piece` along the axes that shard the
// dimension: `3`, or `0.3` for two axes. Returns `0` for an unsharded
// dimension.
std::string CoordinateText(const Mesh& mesh, const picture::ArrayDim& dim,
                           int64_t piece);

}  // namespace shardc

#endif  // SHARDC_EMIT_PICTURES_WORDS_H_
