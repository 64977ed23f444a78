#include "emit/costs/time_parts.h"

namespace shardc {

void WriteTimeParts(JsonWriter& json, std::span<const cost::TimePart> parts,
                    JsonLayout layout) {
  json.Key("parts");
  json.BeginArray(layout);
  for (const cost::TimePart& part : parts) {
    json.BeginObject();
    json.Member("name", part.name);
    json.Member("seconds", part.seconds);
    json.EndObject();
  }
  json.EndArray();
}

}  // namespace shardc
