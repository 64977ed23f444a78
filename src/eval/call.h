// Directory: eval. Evaluates functions of the reference libraries (eformer,
// fjformer) on given inputs, with the code that shardc's commands run. Input
// and output are JSON. `shardc eval NAME` calls functions for which there is no
// other command. Tests compare the results with recorded and live results of
// the libraries. A list of inputs is evaluated in one process.
// Its files include headers of these directories: source, model, parse,
// importers, resolve, legalize, plan, dense, exec/kernels, exec/machine,
// exec/attention, exec/cache.
#ifndef SHARDC_EVAL_CALL_H_
#define SHARDC_EVAL_CALL_H_

#include <cstdint>
#include <initializer_list>
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
#include "model/axis_rules.h"
#include "model/dtype.h"
#include "model/manifest.h"
#include "model/mesh.h"
#include "model/rules.h"
#include "source/finding.h"
#include "source/json.h"
#include "source/json_writer.h"

namespace shardc::eval {

// The arrays of a safetensors file, keyed by name.
using Arrays = std::map<std::string, dense::Array, std::less<>>;
// Reads a safetensors file with F32, F64, I8, I32 and I64 tensors. Returns
// nullopt after a finding if the file is not a safetensors file, if a tensor
// has another dtype, or if its bytes do not fit its shape.
std::optional<Arrays> ReadArrays(const SourceRef& source, Findings& findings);

// The arrays of a result that are written to a safetensors file and not into
// the JSON, each with its name in that file.
using Returned = std::vector<std::pair<std::string, exec::Buffer>>;

// The numbers that the arrays of one input may have together: those that are
// read, those that are returned and those of simulated devices. The results of
// a list of inputs are kept until the last one is evaluated, so the limit is
// for the whole list. With it, a run stays below 1 GiB of memory.
inline constexpr int64_t kMostNumbers = int64_t{1} << 23;

// The ranks of an array that a function reads, and how its numbers are read.
struct ArrayForm {
  size_t least = 0, most = 64;  // 64 is the highest rank of NumPy
  bool wide = false;            // float64 if true, otherwise float32
};

// The members of one call's input, which are read by name. If a required member
// is missing, or a member has the wrong type, the reader adds a finding and
// returns an empty value (Flag() returns its default). Finish() then returns
// false.
class Call {
 public:
  // `left` is the number of numbers that arrays may still have; it is shared by
  // all calls of an input.
  Call(JsonValue input, const Arrays* arrays, int64_t& left, Findings& findings)
      : input_(input), arrays_(arrays), left_(left), findings_(findings) {}

  // Returns the member with this name; nullopt if the input does not have it. A
  // member whose value is null is returned.
  std::optional<JsonValue> Find(std::string_view key);
  bool Has(std::string_view key);  // false if missing or null
  std::string Text(std::string_view key);
  std::string TextOr(std::string_view key, std::string_view otherwise);
  int64_t Integer(std::string_view key);
  int64_t IntegerOr(std::string_view key, int64_t otherwise);
  double Number(std::string_view key);
  double NumberOr(std::string_view key, double otherwise);
  bool Flag(std::string_view key, bool otherwise);
  Shape Integers(std::string_view key);
  std::vector<std::string> Names(std::string_view key);
  // Reads a mesh such as {"dp": 2, "tp": 4}. Its axes have the order of the
  // members. {} is a mesh without axes.
  Mesh MeshOf(std::string_view key);
  // Reads an array: nested lists of numbers, or {"tensor": NAME}, which names a
  // tensor of the safetensors file. Adds a finding if the array does not have
  // the form, or if Reserve() refuses its shape.
  dense::Array Array(std::string_view key, const ArrayForm& form);
  // Subtracts the numbers of arrays with these shapes from kMostNumbers, where
  // an empty dimension counts as 1. Call it before the arrays are allocated.
  // Returns false after a finding if a size is negative or too few numbers are
  // left.
  bool Reserve(std::initializer_list<Shape> shapes);
  // Reads a list of objects. Each object is returned as a Call.
  std::vector<Call> Calls(std::string_view key);
  // Returns the text of a member as the content of a file named `name`, so that
  // the readers of files can read it. Returns null if the member is absent.
  SourceRef Source(std::string_view key, const std::string& name);

  // Returns whether all members were valid and no other member exists. It must
  // be called after the last member was read.
  bool Finish();
  void Fail(std::string message, std::string help = {});
  void FailAt(const Place& place, std::string message, std::string help = {});
  Findings& findings() { return findings_; }
  JsonValue input() const { return input_; }

 private:
  std::optional<JsonValue> Need(std::string_view key);

  JsonValue input_;
  const Arrays* arrays_;
  int64_t& left_;
  Findings& findings_;
  std::set<std::string, std::less<>> known_;
  bool fine_ = true;
};

// Writes the result of a call, which is a JSON object, one member at a time.
// Arrays become nested lists in the JSON, or are returned to the caller, which
// writes them to a safetensors file.
class Reply {
 public:
  // If `aside` is not null, arrays are appended to it, and the JSON has
  // {"tensor": NAME} in their place. The name of an array is `prefix` followed
  // by its key.
  Reply(JsonWriter& json, Returned* aside, std::string prefix)
      : json_(json), aside_(aside), prefix_(std::move(prefix)) {}

  JsonWriter& json() { return json_; }
  // Returns a reply that writes to the same JSON. `prefix` is appended to the
  // prefix of array names.
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
// result into `reply`. If the input is invalid, `run` returns false after a
// finding, and what it wrote is discarded.
struct Function {
  std::string_view name;
  // The text that a list of the functions shows: the result, a colon, and the
  // members of the input. For example: "rotary embedding: tensor, sin, cos".
  std::string_view what;
  bool (*run)(Call& call, Reply& reply);
};

// The functions of each subject: axes, rules, meshes, arrays, texts.
std::span<const Function> AxisFunctions();
std::span<const Function> RuleFunctions();
std::span<const Function> MeshFunctions();
std::span<const Function> ArrayFunctions();
std::span<const Function> TextFunctions();

// Functions() returns the functions of all subjects, sorted by name.
// FindFunction() returns the function with this name; null if there is none.
std::vector<const Function*> Functions();
const Function* FindFunction(std::string_view name);

// Evaluates `input` and writes the result. If `input` is an object, writes an
// object; returns false after findings if the input is invalid. If `input` is a
// list, writes a list with an element {"result": ...} or {"error": {"code",
// "name", "message"}} for each of its elements.
bool Evaluate(const Function& function, JsonValue input, const Arrays* arrays,
              Returned* aside, JsonWriter& json, Findings& findings);

// Reads rules and specs from a call's input, which is JSON with the keys of a
// rules file. A function that returns an optional returns nullopt after a
// finding.

// Reads the member `rules`, which has the keys of a rules file but cannot
// extend a rule pack such as `builtin:llama/hf`. If the member is absent,
// returns the default rules.
std::optional<RuleSet> RulesOf(Call& call);
// Reads a member that is written like `spec:` of a rule, such as ["FSDP",
// "TP"].
std::optional<SpecSource> SpecOf(Call& call, std::string_view key);
// Reads a spec that names only mesh axes: a list of nulls, names and lists of
// names.
std::optional<Spec> MeshSpecOf(Call& call, std::string_view key);
std::optional<Mode> ModeOf(Call& call, std::string_view key);

// Reads the member `mesh`. If it is absent or null, returns a mesh that has
// every axis that the axis rules name; each axis has size 1.
Mesh MeshFor(Call& call, const AxisRules& axes);

}  // namespace shardc::eval

#endif  // SHARDC_EVAL_CALL_H_
