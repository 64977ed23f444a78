// Runs the recorded behaviour of the reference systems through tests/reference
// and the library.
#ifndef SHARDC_TESTS_VECTORS_VECTORS_H_
#define SHARDC_TESTS_VECTORS_VECTORS_H_

#include <functional>
#include <span>
#include <string>
#include <string_view>

#include "model/mesh.h"
#include "reference/values.h"
#include "source/json.h"

namespace shardc::vectors {

enum class Outcome {
  kPassed,
  kFailed,
  kDiffers,    // a difference listed in Quirks; our result is checked
  kPythonOnly  // a pattern that RE2 cannot express
};

struct Verdict {
  Outcome outcome = Outcome::kPassed;
  std::string why;  // of a failure; the quirk's name of a difference
};
Verdict Pass();
Verdict Fail(std::string why);
Verdict Differs(std::string_view quirk);

// Runs the cases of one file. It may keep state from one case to the next.
using Runner = std::function<Verdict(JsonValue test)>;
using MakeRunner = Runner (*)();

Runner ResolveFamily();
Runner RegisterFamily();
Runner BundlesFamily();
Runner AttentionFamily();
Runner MatchFamily();
Runner CorrectFamily();
Runner MeshFamily();
Runner NamesFamily();
Runner LogicalFamily();
Runner NumericFamily();

// A deliberate difference from the reference systems.
struct Quirk {
  std::string_view name;
  std::string_view family;
  std::string_view reason;
  std::string_view ours;
};
// Returns the deliberate differences of all families except numeric, for which
// see numeric.h.
std::span<const Quirk> Quirks();

// Convert JSON to the reference's values. Arrays become tuples, or lists if
// `lists` is set.
reference::Value ToValue(JsonValue json, bool lists = false);
std::vector<reference::Value> ToValues(JsonValue json, bool lists = false);
reference::PartitionAxis::Given ToGiven(JsonValue json, bool lists = false);
reference::PartitionAxis ToPartitionAxis(JsonValue input);
reference::Tree ToTree(JsonValue json);
Shape ToShape(JsonValue json);
Mesh ToMesh(JsonValue json);
std::vector<std::string> ToStrings(JsonValue json);

std::string Text(JsonValue json);
std::string Text(const reference::Value& value);
std::string Text(std::span<const reference::Value> values);

// Return whether values equal recorded ones. A tuple or a list equals an array.
bool Same(const reference::Value& value, JsonValue json);
bool Same(std::span<const reference::Value> values, JsonValue json);

// Compares an error with the recorded one: kind, class, and a part of the
// message.
Verdict CompareError(const reference::Error& error, JsonValue expected);
Verdict CompareValues(std::span<const reference::Value> values,
                      JsonValue expected, std::string_view what);

// Returns a required member of an object. Throws Malformed, which fails the
// case, if the object lacks it.
struct Malformed {
  std::string what;
};
JsonValue At(JsonValue object, std::string_view key);
// Returns a required member; an empty text if it is not a string.
std::string_view StringAt(JsonValue object, std::string_view key);

}  // namespace shardc::vectors

#endif  // SHARDC_TESTS_VECTORS_VECTORS_H_
