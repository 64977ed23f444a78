#include "emit/emit.h"

#include "source/wording.h"

namespace shardc {

std::string NotKnownLines(std::span<const NotKnown> facts) {
  std::string out;
  for (const NotKnown& fact : facts) {
    out += "not known: " + Printable(NotKnownText(fact)) + "\n";
  }
  return out;
}

void WriteNotKnown(JsonWriter& json, std::span<const NotKnown> facts) {
  json.Key("not_known");
  json.BeginArray(JsonLayout::kLines);
  for (const NotKnown& fact : facts) {
    json.BeginObject();
    json.Member("what", fact.what);
    json.Key("params");
    json.Array(fact.params);
    json.Member("bytes", fact.bytes);
    json.TextOrNull("settled_by", fact.settled_by);
    json.EndObject();
  }
  json.EndArray();
  json.Member("at_least", !facts.empty());
}

}  // namespace shardc
