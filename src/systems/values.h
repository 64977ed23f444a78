// The values of a configuration's keys, as the JSON object that expressions of
// a system's file read.
#ifndef SHARDC_SYSTEMS_VALUES_H_
#define SHARDC_SYSTEMS_VALUES_H_

#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "families/evaluate.h"
#include "source/finding.h"
#include "source/json.h"
#include "source/source.h"
#include "systems/config_text.h"
#include "systems/system.h"

namespace shardc::systems {

// The value of a key, and where it is.
struct KnownValue {
  std::string text;
  bool quoted = false;  // whether the text is a string in any case
  Place place;
  std::string written;  // the key as the file has it
  // Whether the file does not have the value. No expression can use it.
  bool unknown = false;
  // Whether it is not known either if the key is given.
  bool maybe = false;
};

// The layers of a pipeline as a text states them. `E` is the embedding, `t` a
// layer, `m` a layer for the prediction of further tokens and `L` the loss.
//
//   Ett|t|tt|L  ->  {2, 1, 2, 0}
struct LayoutText {
  std::vector<int64_t> layers;  // of each stage
  bool begins_with_embedding = false, ends_with_loss = false;
};
// Returns nullopt if the text is no layout.
std::optional<LayoutText> ParseLayout(std::string_view text);

// Returns the numbers of a text such as `31,30`; nullopt for other texts.
std::optional<std::vector<int64_t>> ParseNumbers(std::string_view text);

// Returns the JSON text of a value: a number, a truth value, a list of integers
// such as `[0]+[1]*4`, or a string. Returns nullopt for a null.
std::optional<std::string> JsonOf(const KnownValue& value);

// Evaluates the expressions of a system for one configuration.
class Values {
 public:
  // `sections` are further members of the object, as JSON.
  static std::unique_ptr<Values> Make(
      const System& system, std::map<std::string, KnownValue> known,
      const std::vector<std::pair<std::string, std::string>>& sections);

  // Each returns nullopt if a key that is needed is absent. `why` is then what
  // is missing; it may be null.
  std::optional<int64_t> Integer(const families::Expression& expression,
                                 std::string* why = nullptr);
  std::optional<bool> Condition(const families::Expression& expression,
                                std::string* why = nullptr);
  std::optional<std::string> Text(const families::Expression& expression,
                                  std::string* why = nullptr);
  // Returns the value of a name that `let` defines or that is a key.
  std::optional<int64_t> Named(const std::string& name,
                               std::string* why = nullptr);
  // Returns the text of a message.
  std::string Write(const Message& message);
  // Returns the place of the first of the keys that is given.
  Place PlaceOf(const std::vector<std::string>& keys,
                const Place& otherwise) const;

  const std::map<std::string, KnownValue>& known() const { return known_; }
  JsonValue root() const { return document_->root(); }

 private:
  Values() = default;
  template <class Use>
  auto With(const Use& use, std::string* why);

  const System* system_ = nullptr;
  std::map<std::string, KnownValue> known_;
  std::vector<std::string> unknown_;  // keys whose values are not known
  std::unique_ptr<const JsonDocument> document_;
};

}  // namespace shardc::systems

#endif  // SHARDC_SYSTEMS_VALUES_H_
