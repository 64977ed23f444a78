// Room: eval. Evaluates one function of the reference on given inputs, with the
// code that the commands run: JSON in, JSON out. `shardc eval NAME` calls the
// functions that have no command of their own, and tests use it to compare them
// with recorded and live results, many in one process.
// Includes: source, model, parse, importers, resolve, legalize, plan, dense,
// exec/kernels, exec/machine, exec/attention, exec/cache.
#ifndef SHARDC_EVAL_CALL_H_
#define SHARDC_EVAL_CALL_H_

#include <cstdint>
#include <map>
#include <optional>
#include <set>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "dense/array.h"
#include "exec/machine/buffer.h"
#include "model/dtype.h"
#include "model/manifest.h"
#include "model/mesh.h"
#include "source/finding.h"
#include "source/json.h"
#include "source/json_writer.h"

namespace shardc::eval {

// Arrays of a safetensors file, by name.
using Arrays = std::map<std::string, dense::Array, std::less<>>;
// Reads F32, F64, I8, I32 and I64 tensors. Returns nullopt after a finding: the
// file is no safetensors file, or it has another dtype.
std::optional<Arrays> ReadArrays(const SourceRef& source, Findings& findings);

// Arrays that a call returns, for a safetensors file.
using Returned = std::vector<std::pair<std::string, exec::Buffer>>;

// The members of one call's input, read by name. A member that is missing or
// has another type is a finding at its place; the reader then returns an empty
// value, and Finish() returns false.
class Call {
 public:
  Call(JsonValue input, const Arrays* arrays, Findings& findings)
      : input_(input), arrays_(arrays), findings_(findings) {}

  // Returns nullopt if the member is absent; null is a value.
  std::optional<JsonValue> Find(std::string_view key);
  bool Has(std::string_view key);  // present and not null
  std::string Text(std::string_view key);
  std::string TextOr(std::string_view key, std::string_view otherwise);
  int64_t Integer(std::string_view key);
  int64_t IntegerOr(std::string_view key, int64_t otherwise);
  double Number(std::string_view key);
  double NumberOr(std::string_view key, double otherwise);
  bool Flag(std::string_view key, bool otherwise);
  Shape Integers(std::string_view key);
  std::vector<std::string> Names(std::string_view key);
  // Reads a mesh, {"dp": 2, "tp": 4}, with the axes in this order; {} is no
  // mesh.
  Mesh MeshOf(std::string_view key);
  // Reads nested lists of numbers, or {"tensor": NAME} of the safetensors file.
  // Adds a finding if the rank is not `rank` (0: any). Values are rounded to
  // float32, unless `wide`.
  dense::Array Array(std::string_view key, size_t rank = 0, bool wide = false);
  // The members of a list of objects.
  std::vector<Call> Calls(std::string_view key);
  // Returns the text of a member as a source, for the readers of files; null if
  // the member is absent.
  SourceRef Source(std::string_view key, const std::string& name);

  // Returns whether all members were valid and none is unknown. Call it after
  // the last member has been read.
  bool Finish();
  void Fail(std::string message, std::string help = {});
  void FailAt(const Place& place, std::string message, std::string help = {});
  Findings& findings() { return findings_; }
  JsonValue input() const { return input_; }

 private:
  std::optional<JsonValue> Need(std::string_view key);

  JsonValue input_;
  const Arrays* arrays_;
  Findings& findings_;
  std::set<std::string, std::less<>> known_;
  bool fine_ = true;
};

// The result of a call: an object's members. Arrays are written into it, or
// returned separately.
class Reply {
 public:
  // If `aside` is not null, arrays are appended to it under `prefix` and their
  // name, and the JSON has {"tensor": NAME} instead.
  Reply(JsonWriter& json, Returned* aside, std::string prefix)
      : json_(json), aside_(aside), prefix_(std::move(prefix)) {}

  JsonWriter& json() { return json_; }
  // Returns a reply to the same document with `prefix` appended to the names of
  // arrays.
  Reply Inside(const std::string& prefix) const {
    return {json_, aside_, prefix_ + prefix};
  }
  void Array(std::string_view key, const Shape& shape,
             std::span<const double> data, Dtype dtype = Dtype::kF32);
  void Array(std::string_view key, const dense::Array& x,
             Dtype dtype = Dtype::kF32) {
    Array(key, x.shape, x.data, dtype);
  }

 private:
  JsonWriter& json_;
  Returned* aside_;
  std::string prefix_;
};

// Writes its members into `reply`. Returns false after a finding if the input
// is invalid; the members that it wrote are then discarded.
struct Function {
  std::string_view name;
  std::string_view what;  // for lists: input members, and what comes out
  bool (*run)(Call& call, Reply& reply);
};

// The functions by subject in the reference: axes, rules, meshes, arrays,
// texts.
std::span<const Function> AxisFunctions();
std::span<const Function> RuleFunctions();
std::span<const Function> MeshFunctions();
std::span<const Function> ArrayFunctions();
std::span<const Function> TextFunctions();

// All of them, by name.
std::vector<const Function*> Functions();
const Function* FindFunction(std::string_view name);

// Evaluates `input`: an object, to an object; or a list of objects, to a list
// of {"result": ...} or {"error": {"code", "name", "message"}}. Returns false
// after findings if a single input is invalid.
bool Evaluate(const Function& function, JsonValue input, const Arrays* arrays,
              Returned* aside, JsonWriter& json, Findings& findings);

}  // namespace shardc::eval

#endif  // SHARDC_EVAL_CALL_H_
