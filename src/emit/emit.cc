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
  json.Rows("not_known", facts, [&](const NotKnown& fact) {
    json.Members("what", fact.what, "params", fact.params, "bytes", fact.bytes,
                 "settled_by", TextOrNull(fact.settled_by));
  });
  json.Member("at_least", !facts.empty());
}

}  // namespace shardc
