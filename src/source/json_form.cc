// Reads a JSON Schema into a graph of forms, and checks values by it. An object
// is checked member by member, so that a message names the innermost member.
// For example, with the schema of plans:
//
//   {"shape": [8, "4"], ..}
//     ->  at "4": `shape` of a parameter is not a list of integers of 0 or more
//
// Forms are made when a schema is first used. They are not changed afterwards.
#include "source/json_form.h"

#include <algorithm>
#include <cstdlib>
#include <deque>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "source/list.h"
#include "source/wording.h"

namespace shardc {
namespace {

using Kinds = uint32_t;  // a bit for each JsonKind
constexpr Kinds kEveryKind = ~Kinds{0};

constexpr Kinds BitOf(JsonKind kind) {
  return Kinds{1} << static_cast<unsigned>(kind);
}
constexpr Kinds kNumbers = BitOf(JsonKind::kInteger) |
                           BitOf(JsonKind::kUnsigned) | BitOf(JsonKind::kReal);

struct Type {
  std::string_view name;
  Kinds kinds;
  // The type in messages, alone and in a list.
  std::string_view one, several;
};
constexpr Type kTypes[] = {
    {"boolean", BitOf(JsonKind::kBool), "true or false", ""},
    {"integer", BitOf(JsonKind::kInteger), "an integer", "integers"},
    {"string", BitOf(JsonKind::kString), "a string", "strings"},
    {"array", BitOf(JsonKind::kArray), "a list", "lists"},
    {"object", BitOf(JsonKind::kObject), "an object", "objects"},
    {"null", BitOf(JsonKind::kNull), "null", ""},
};

// The keywords that state no form, or that are read elsewhere.
constexpr std::string_view kUnchecked[] = {"$schema",     "$comment",
                                           "definitions", "description",
                                           "readOnly",    "required"};

// A pattern that is a text and a number of characters of a set, such as
// `^SHD[0-9]{3}$`.
class Pattern {
 public:
  explicit Pattern(std::string_view text) {
    const size_t open = text.find('['), close = text.find("]{", open);
    const size_t end = text.find("}$", close);
    if (!text.starts_with('^') || end == std::string_view::npos) std::abort();
    prefix_ = text.substr(1, open - 1);
    const std::string_view set = text.substr(open + 1, close - open - 1);
    for (size_t i = 0; i + 2 < set.size(); i += 3) {
      ranges_.emplace_back(set[i], set[i + 2]);
    }
    count_ = std::stoul(std::string(text.substr(close + 2, end - close - 2)));
  }

  bool Matches(std::string_view text) const {
    return text.size() == prefix_.size() + count_ &&
           text.starts_with(prefix_) &&
           std::all_of(
               text.begin() + std::ssize(prefix_), text.end(), [&](char c) {
                 return std::any_of(ranges_.begin(), ranges_.end(),
                                    [&](const std::pair<char, char>& range) {
                                      return range.first <= c &&
                                             c <= range.second;
                                    });
               });
  }

 private:
  std::string_view prefix_;
  std::vector<std::pair<char, char>> ranges_;
  size_t count_ = 0;
};

struct Form {
  struct Member {
    std::string_view name;
    const Form* form = nullptr;
    bool required = false;
    bool read_only = false;
  };

  std::string_view title;
  Kinds kinds = kEveryKind;
  std::optional<int64_t> minimum;
  size_t least = 0, most = SIZE_MAX;    // the limits on the size of a list
  bool is_true = false;                 // The only value is true.
  std::vector<std::string_view> words;  // the only texts, if not empty
  std::optional<Pattern> pattern;       // of a text
  std::vector<const Form*> choices;     // one of which the value has
  const Form* items = nullptr;          // of a list
  std::vector<Member> members;          // of an object
  const Form* other_members = nullptr;  // null if the form is not known
  const Form* other_names = nullptr;    // the form of the names of these
  bool only_members = false;            // There are no other members.
  size_t required = 0;                  // the number of required members

  bool Allows(JsonKind kind) const { return (kinds & BitOf(kind)) != 0; }
  bool IsObject() const { return kinds == BitOf(JsonKind::kObject); }
  bool IsNullable() const {
    return choices.empty() ? Allows(JsonKind::kNull)
                           : std::any_of(choices.begin(), choices.end(),
                                         [](const Form* choice) {
                                           return choice->IsNullable();
                                         });
  }
};

// The forms of a schema and of its definitions.
class Schema {
 public:
  explicit Schema(const EmbeddedFile& file) {
    Findings findings;
    document_ = JsonDocument::Parse(
        MakeSource(std::string(file.name), std::string(file.text)), findings);
    if (document_ == nullptr) std::abort();
    definitions_["#"] = FormAt(document_->root());
  }

  const Form& Named(std::string_view definition) {
    return *Definition(definition.empty() ? "#" : definition);
  }

 private:
  const Form* Definition(std::string_view name) {
    const auto known = definitions_.find(name);
    if (known != definitions_.end()) return known->second;
    const auto at = document_->root().Find("definitions")->Find(name);
    if (!at) std::abort();
    return definitions_[name] = FormAt(*at);
  }

  const Form* FormAt(const JsonValue& schema) {
    if (const auto ref = schema.Find("$ref")) {
      return Definition(ref->string().substr(ref->string().rfind('/') + 1));
    }
    if (const auto all = schema.Find("allOf"))
      return FormAt(*all->items().begin());
    Form& form = forms_.emplace_back();
    for (const JsonMember member : schema.members()) {
      Read(member.name(), member.value, form);
    }
    if (const auto required = schema.Find("required")) {
      form.required = required->size();
      for (const JsonValue name : required->items()) {
        std::find_if(form.members.begin(), form.members.end(),
                     [&](const Form::Member& member) {
                       return member.name == name.string();
                     })
            ->required = true;
      }
    }
    return &form;
  }

  void Read(std::string_view key, const JsonValue& value, Form& form) {
    if (key == "title") {
      form.title = value.string();
    } else if (key == "type") {
      form.kinds = 0;
      ForEach(value, [&](const JsonValue& name) {
        form.kinds |= std::find_if(std::begin(kTypes), std::end(kTypes),
                                   [&](const Type& type) {
                                     return type.name == name.string();
                                   })
                          ->kinds;
      });
    } else if (key == "minimum") {
      form.minimum = value.integer();
    } else if (key == "minItems") {
      form.least = static_cast<size_t>(value.integer());
    } else if (key == "maxItems") {
      form.most = static_cast<size_t>(value.integer());
    } else if (key == "const") {
      form.is_true = true;
    } else if (key == "enum") {
      form.kinds = BitOf(JsonKind::kString);
      for (const JsonValue word : value.items()) {
        form.words.push_back(word.string());
      }
    } else if (key == "pattern") {
      form.pattern.emplace(value.string());
    } else if (key == "anyOf") {
      for (const JsonValue choice : value.items()) {
        form.choices.push_back(FormAt(choice));
      }
    } else if (key == "items") {
      form.items = FormAt(value);
    } else if (key == "properties") {
      for (const JsonMember member : value.members()) {
        form.members.push_back({member.name(), FormAt(member.value), false,
                                member.value.Find("readOnly").has_value()});
      }
    } else if (key == "propertyNames") {
      form.other_names = FormAt(value);
    } else if (key == "additionalProperties") {
      form.only_members = !value.IsObject();
      if (value.IsObject()) form.other_members = FormAt(value);
    } else if (!IsAmong(key, kUnchecked)) {
      // A part of the schema would silently not be checked.
      std::abort();
    }
  }

  template <class Function>
  static void ForEach(const JsonValue& value, const Function& function) {
    if (!value.IsArray()) return function(value);
    for (const JsonValue item : value.items()) function(item);
  }

  std::unique_ptr<const JsonDocument> document_;
  std::deque<Form> forms_;
  std::map<std::string_view, const Form*> definitions_;
};

const Form& FormNamed(std::string_view schema, std::string_view definition) {
  static std::mutex mutex;
  static std::map<std::string_view, Schema> schemas;
  const std::scoped_lock lock(mutex);
  auto known = schemas.find(schema);
  if (known == schemas.end()) {
    const auto files = EmbeddedSchemas();
    const auto file =
        std::find_if(files.begin(), files.end(), [&](const EmbeddedFile& one) {
          return one.name.substr(0, one.name.find('.')) == schema;
        });
    known = schemas.try_emplace(schema, *file).first;
  }
  return known->second.Named(definition);
}

// Returns the form as text for messages, such as "an integer of 0 or more, or
// null", or the same for the items of a list.
std::string TextOf(const Form& form, bool several = false) {
  if (!form.title.empty()) return std::string(form.title);
  if (form.is_true) return "true";
  if (!form.words.empty()) return "one of " + ListInWords(form.words, Quote);
  std::string out;
  for (const Type& type : kTypes) {
    if ((form.kinds & type.kinds) == 0) continue;
    if (!out.empty()) out += form.minimum ? ", or " : " or ";
    out += several && !type.several.empty() ? type.several : type.one;
    if (form.minimum && type.name == "integer") {
      out += " of " + std::to_string(*form.minimum) + " or more";
    }
    if (form.items != nullptr && !form.items->IsObject()) {
      out += " of " + TextOf(*form.items, true);
    }
  }
  return out;
}

bool IsTextOf(const Form& form, std::string_view text) {
  return (form.words.empty() || IsAmong(text, form.words)) &&
         (!form.pattern || form.pattern->Matches(text));
}

// A value that does not have its form.
struct Misfit {
  JsonValue at;
  const Form* form = nullptr;  // The form that the value should have.
  int depth = 0;               // The number of lists in which the value is.
};

// Returns the innermost value that does not have its form, or nullopt if the
// value has the form. The members of objects are not checked.
std::optional<Misfit> MisfitOf(const Form& form, const JsonValue& value,
                               int depth = 0) {
  const Misfit misfit{value, &form, depth};
  if (!form.choices.empty()) {
    Misfit deepest = misfit;
    for (const Form* choice : form.choices) {
      const auto inner = MisfitOf(*choice, value, depth);
      if (!inner) return std::nullopt;
      if (inner->depth > deepest.depth) deepest = *inner;
    }
    return deepest;
  }
  if (!form.Allows(value.kind())) return misfit;
  const bool fits =
      value.kind() == JsonKind::kInteger
          ? !form.minimum || value.integer() >= *form.minimum
      : value.kind() == JsonKind::kBool ? !form.is_true || value.boolean()
      : value.IsArray()
          ? value.size() >= form.least && value.size() <= form.most
          : !value.IsString() || IsTextOf(form, value.string());
  if (!fits) return misfit;
  if (value.IsArray() && form.items != nullptr && !form.items->IsObject()) {
    for (const JsonValue item : value.items()) {
      if (auto inner = MisfitOf(*form.items, item, depth + 1)) return inner;
    }
  }
  return std::nullopt;
}

class FormChecker {
 public:
  FormChecker(FormMembers members, Findings& findings)
      : all_(members == FormMembers::kAll), findings_(findings) {}

  // What messages call a value: a member of an object, or an object.
  struct Name {
    std::string_view member, object;
    std::string Text() const {
      return member.empty() ? std::string(object)
                            : Quote(member) + " of " + std::string(object);
    }
  };

  bool Check(const Form& form, const JsonValue& value, const Name& name) {
    if (const auto misfit = MisfitOf(form, value)) {
      const Kinds kind = BitOf(misfit->at.kind());
      const bool number = (kind & kNumbers) != 0 &&
                          misfit->form->Allows(JsonKind::kInteger) &&
                          misfit->form->choices.empty();
      return Refuse(number ? code::kNumber : code::kSchema, misfit->at,
                    name.Text() + " is not " +
                        (form.IsObject() ? "an object" : TextOf(form)));
    }
    if (value.IsObject()) {
      return CheckMembers(
          form, value,
          form.title.empty() ? Quote(name.member) : std::string(form.title));
    }
    if (form.items == nullptr || !form.items->IsObject()) return true;
    bool good = true;
    for (const JsonValue item : value.items()) {
      good &= Check(*form.items, item, {{}, form.items->title});
    }
    return good;
  }

 private:
  bool CheckMembers(const Form& form, const JsonValue& value,
                    const std::string& name) {
    bool good = true;
    size_t required = 0;
    for (const JsonMember member : value.members()) {
      if (findings_.Full()) return false;
      const auto known = std::find_if(
          form.members.begin(), form.members.end(),
          [&](const Form::Member& one) { return one.name == member.name(); });
      if (known != form.members.end()) {
        required += known->required;
        good &= (known->read_only && !all_) ||
                Check(*known->form, member.value, {known->name, name});
      } else if (form.other_members != nullptr) {
        good &= CheckOther(form, member, name);
      } else if (form.only_members && all_) {
        good &= Refuse(code::kUnknownKey, member.key,
                       Quote(member.name()) + " is not a member of " + name);
      }
    }
    return HasMembers(form, value, required, name) && good;
  }

  // Checks a member of an object whose names are not those of the schema, such
  // as a parameter.
  bool CheckOther(const Form& form, const JsonMember& member,
                  const std::string& object) {
    if (form.other_names != nullptr &&
        MisfitOf(*form.other_names, member.key)) {
      return Refuse(
          code::kSchema, member.key,
          Quote(member.name()) + " is not " + TextOf(*form.other_names));
    }
    const Form& other = *form.other_members;
    return Check(
        other, member.value,
        other.IsObject() ? Name{{}, other.title} : Name{member.name(), object});
  }

  // Returns whether the object has the required members, of which `found` were
  // found.
  bool HasMembers(const Form& form, const JsonValue& value, size_t found,
                  const std::string& name) {
    bool good = true;
    for (const Form::Member& member : form.members) {
      if (!member.required) continue;
      if (found == form.required) break;
      if (value.Find(member.name)) continue;
      if (!all_ && (member.read_only || member.form->IsNullable())) continue;
      good =
          Refuse(code::kSchema, value, name + " has no " + Quote(member.name));
    }
    return good;
  }

  bool Refuse(const Code& code, const JsonValue& at, std::string message) {
    findings_.Add(code, at.place(), std::move(message));
    return false;
  }

  const bool all_;
  Findings& findings_;
};

}  // namespace

bool HasForm(const JsonValue& value, std::string_view schema,
             std::string_view definition, FormMembers members,
             Findings& findings) {
  const Form& form = FormNamed(schema, definition);
  return FormChecker(members, findings)
      .Check(form, value, {{}, form.IsObject() ? form.title : "this value"});
}

}  // namespace shardc
