// Runs the recorded vectors of the family mesh. eformer remembers the first
// mesh that it made for given sizes and names. All cases were recorded in one
// process, and a file may contain only some of them. If a recorded mesh was
// remembered from a call that the file lacks, this is a deliberate difference
// (quirk `remembered-mesh`): the library's mesh has the present devices, which
// is checked here.
#include "reference/mesh.h"

#include <memory>

#include "vectors.h"

namespace shardc::vectors {
namespace {

using reference::Error;
using reference::Failure;
using reference::Get;
using reference::MeshCache;
using reference::MeshShape;
using Made = reference::Result<MeshShape>;

std::vector<int64_t> Sizes(JsonValue json) { return ToShape(json); }

Verdict CompareMesh(const Made& made, JsonValue test) {
  auto expected_error = test.Find("error");
  if (const Error* error = Failure(made)) {
    return expected_error ? CompareError(*error, *expected_error)
                          : Fail("error " + error->message);
  }
  const auto& mesh = std::get<MeshShape>(made);
  if (expected_error) return Fail("no error");
  const JsonValue expect = At(test, "expect");
  if (mesh.names != ToStrings(At(expect, "axis_names"))) return Fail("names");
  if (mesh.sizes != Sizes(At(expect, "shape"))) {
    return Fail("shape " + ShapeText(mesh.sizes) + ", expected " +
                Text(At(expect, "shape")));
  }
  size_t i = 0;
  int64_t devices = 1;
  for (JsonMember member : At(expect, "mesh").members()) {
    if (i >= mesh.names.size() || member.name() != mesh.names[i] ||
        member.value.integer() != mesh.sizes[i]) {
      return Fail("mesh");
    }
    devices *= mesh.sizes[i++];
  }
  if (auto ids = expect.Find("device_ids")) {
    int64_t next = 0;
    for (JsonValue id : ids->items()) {
      if (id.integer() != next++) return Fail("device_ids");
    }
    if (next != devices) return Fail("number of device_ids");
  }
  return Pass();
}

// Returns the sizes and names that are passed to create_mesh, which do not
// depend on the devices.
std::optional<MeshShape> RequestedMesh(JsonValue input) {
  if (StringAt(input, "op") == "parse_mesh_from_string") {
    auto read = MeshCache::ReadText(StringAt(input, "axis_dims"),
                                    ToStrings(At(input, "names")));
    const auto* mesh = Get<MeshShape>(read);
    return mesh ? std::optional(*mesh) : std::nullopt;
  }
  MeshShape asked{MeshCache::DefaultNames(), MeshCache::DefaultSizes()};
  if (auto sizes = input.Find("axis_dims")) asked.sizes = Sizes(*sizes);
  if (auto names = input.Find("axis_names")) asked.names = ToStrings(*names);
  return asked;
}

// Returns whether `expected` is the mesh of the same request for another number
// of devices, while `fresh` has all `devices`, or is the error `cannot_reshape`
// if there is no such mesh.
bool IsRememberedMesh(const MeshShape& asked, const Made& fresh,
                      const MeshShape& expected, int64_t devices) {
  if (expected.names != asked.names) return false;
  int64_t total = 1;
  for (int64_t size : expected.sizes) total *= size;
  auto other = MeshCache().CreateMesh(total, asked.sizes, asked.names);
  const auto* recorded = Get<MeshShape>(other);
  if (total == devices || recorded == nullptr || *recorded != expected) {
    return false;
  }
  if (const Error* error = Failure(fresh)) {
    return error->kind == "cannot_reshape";
  }
  int64_t ours = 1;
  for (int64_t size : std::get<MeshShape>(fresh).sizes) ours *= size;
  return ours == devices;
}

class MeshRunner {
 public:
  Verdict operator()(JsonValue test) {
    const JsonValue input = At(test, "input");
    const auto op = StringAt(input, "op");
    if (op == "calculate_host_mesh_shape") return HostShape(test);
    const int64_t devices = At(input, "device_count").integer();
    if (op == "fjformer_create_mesh") {
      return CompareMesh(
          reference::FjformerCreateMesh(devices, OptionalSizes(input),
                                        OptionalNames(input)),
          test);
    }
    if (op == "get_jax_mesh") {
      return CompareMesh(
          reference::GetJaxMesh(devices, StringAt(input, "axis_dims"),
                                ToStrings(At(input, "names"))),
          test);
    }
    if (op == "create_mesh" || op == "parse_mesh_from_string") {
      return Eformer(test, devices);
    }
    return Fail("op " + std::string(op) + " is not known");
  }

 private:
  static std::optional<std::vector<int64_t>> OptionalSizes(JsonValue input) {
    auto sizes = input.Find("axis_dims");
    return sizes ? std::optional(Sizes(*sizes)) : std::nullopt;
  }
  static std::optional<std::vector<std::string>> OptionalNames(
      JsonValue input) {
    auto names = input.Find("axis_names");
    return names ? std::optional(ToStrings(*names)) : std::nullopt;
  }

  static Made Make(MeshCache& cache, JsonValue input, int64_t devices) {
    if (StringAt(input, "op") == "create_mesh") {
      return cache.CreateMesh(devices, OptionalSizes(input),
                              OptionalNames(input));
    }
    return cache.ParseMeshFromString(devices, StringAt(input, "axis_dims"),
                                     ToStrings(At(input, "names")));
  }

  Verdict Eformer(JsonValue test, int64_t devices) {
    const JsonValue input = At(test, "input");
    const Verdict verdict = CompareMesh(Make(*cache_, input, devices), test);
    auto expect = test.Find("expect");
    if (verdict.outcome == Outcome::kPassed || !expect) return verdict;
    const MeshShape expected{ToStrings(At(*expect, "axis_names")),
                             Sizes(At(*expect, "shape"))};
    const auto asked = RequestedMesh(input);
    MeshCache none;
    const Made fresh = Make(none, input, devices);
    if (!asked || !IsRememberedMesh(*asked, fresh, expected, devices)) {
      return verdict;
    }
    cache_->Remember(asked->sizes, expected);
    return Differs("remembered-mesh");
  }

  static Verdict HostShape(JsonValue test) {
    const JsonValue input = At(test, "input");
    const auto shape =
        reference::HostMeshShape(Sizes(At(input, "global_mesh_shape")),
                                 At(input, "local_devices").integer(),
                                 At(input, "num_processes").integer());
    auto expected_error = test.Find("error");
    if (const Error* error = Failure(shape)) {
      return expected_error ? CompareError(*error, *expected_error)
                            : Fail("error " + error->message);
    }
    if (expected_error) return Fail("no error");
    const auto& sizes = std::get<std::vector<int64_t>>(shape);
    if (sizes == Sizes(At(At(test, "expect"), "shape"))) return Pass();
    return Fail("shape " + ShapeText(sizes));
  }

  // Shared, because a Runner is copied.
  std::shared_ptr<MeshCache> cache_ = std::make_shared<MeshCache>();
};

}  // namespace

Runner MeshFamily() { return MeshRunner(); }

}  // namespace shardc::vectors
