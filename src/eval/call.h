// Room: eval. Evaluates a function of the reference libraries (eformer,
// fjformer) on given inputs, with the code that shardc's commands run. Input
// and output are JSON. `shardc eval NAME` calls functions that have no command
// of their own. Tests compare the results with recorded and live results of the
// libraries. A list of inputs is evaluated in one process.
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
// Reads F32, F64, I8, I32 and I64 tensors. Returns nullopt after a finding if
// the file is no safetensors file, or has a tensor of another dtype or with
// bytes that do not fit its shape.
std::optional<Arrays> ReadArrays(const SourceRef& source, Findings& findings);

// The arrays that a call returns outside of the JSON, for a safetensors file.
using Returned = std::vector<std::pair<std::string, exec::Buffer>>;

// The members of one call's input, read by name. If a required member is
// missing or a member has the wrong type, the reader adds a finding and returns
// an empty value (Flag() returns its default). Finish() then returns false.
class Call {
 public:
  Call(JsonValue input, const Arrays* arrays, Findings& findings)
      : input_(input), arrays_(arrays), findings_(findings) {}

  // Returns nullopt if the input has no such member. A member that is JSON's
  // null is returned.
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
  // Reads a mesh such as {"dp": 2, "tp": 4}; its axes have the order of the
  // members. {} is a mesh without axes.
  Mesh MeshOf(std::string_view key);
  // Reads nested lists of numbers, or {"tensor": NAME} of the safetensors file.
  // Adds a finding if the rank is not `rank` (0: any). Values are rounded to
  // float32, unless `wide`.
  dense::Array Array(std::string_view key, size_t rank = 0, bool wide = false);
  // Reads a list of objects, each as a Call of its own.
  std::vector<Call> Calls(std::string_view key);
  // Returns the text of a member as if it were a file named `name`, for the
  // readers of files. Returns null if the member is absent.
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

// Writes the result of a call, a JSON object, one member at a time. Arrays are
// written as nested lists, or returned separately.
class Reply {
 public:
  // If `aside` is not null, arrays are appended to it under `prefix` and their
  // name, and the JSON has {"tensor": NAME} in their place.
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

// A function that `shardc eval` calls by name. `run` writes the members of the
// result into `reply`. It returns false after a finding if the input is
// invalid; its output is then discarded.
struct Function {
  std::string_view name;
  std::string_view what;  // for lists: the result, then the input's members
  bool (*run)(Call& call, Reply& reply);
};

// The functions, grouped by their subject: axes, rules, meshes, arrays, texts.
std::span<const Function> AxisFunctions();
std::span<const Function> RuleFunctions();
std::span<const Function> MeshFunctions();
std::span<const Function> ArrayFunctions();
std::span<const Function> TextFunctions();

// Functions() returns the functions of all groups, sorted by name.
// FindFunction() returns the function with this name, or null if no function
// has it.
std::vector<const Function*> Functions();
const Function* FindFunction(std::string_view name);

// Evaluates `input` and writes the result. If `input` is an object, writes an
// object, or returns false after findings if the input is invalid. If `input`
// is a list, writes a list with {"result": ...} or {"error": {"code", "name",
// "message"}} for each element.
bool Evaluate(const Function& function, JsonValue input, const Arrays* arrays,
              Returned* aside, JsonWriter& json, Findings& findings);

}  // namespace shardc::eval

#endif  // SHARDC_EVAL_CALL_H_
