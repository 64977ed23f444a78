#include "emit/audits/group_json.h"

namespace shardc {

void WriteGroup(JsonWriter& json, const audit::Traffic& one) {
  json.Member("collective", CollectiveName(one.kind));
  json.Key("axes");
  if (one.members->named) {
    json.Array(one.members->axes);
  } else {
    json.Null();
  }
  json.Member("group_size", one.members->size);
}

}  // namespace shardc
