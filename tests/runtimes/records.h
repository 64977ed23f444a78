// Reads records of what other systems returned (testdata/runtimes), and
// converts the shardings in them to shardc's structs.
#ifndef SHARDC_TESTS_RUNTIMES_RECORDS_H_
#define SHARDC_TESTS_RUNTIMES_RECORDS_H_

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "model/manifest.h"
#include "model/mesh.h"
#include "source/json.h"

namespace shardc {

// Loads a record. `name` is its name without the ending: "jax/shardings". If it
// is absent or not JSON, the test fails.
std::unique_ptr<const JsonDocument> LoadRecord(const std::string& name);

JsonValue Member(JsonValue object, std::string_view key);
std::vector<int64_t> Integers(JsonValue list);

Mesh RecordedMesh(JsonValue axes);  // {"dp": 2, "tp": 4}
Spec RecordedSpec(JsonValue spec);  // [null, "tp", ["dp", "fsdp"]]

// The inputs of a case, which are the same in all records of shardings.
struct ShardingCase {
  Mesh mesh;
  Shape shape;
  Spec spec;
  std::string text;  // for messages
};
ShardingCase RecordedCase(JsonValue entry);

}  // namespace shardc

#endif  // SHARDC_TESTS_RUNTIMES_RECORDS_H_
