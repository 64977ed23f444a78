// Accesses values of a parsed pickle. Lists, tuples and dictionaries store the
// ids of their elements. In a dictionary, keys and values alternate. For
// example, {'a': 3, 'b': 3} stores the ids of 'a', 3, 'b' and 3. Both ids of 3
// are equal, because small integers are stored once.
#include "stored/pickle.h"

#include <bit>

namespace shardc::stored {
namespace {

using Type = PickleValue::Type;

}  // namespace

std::span<const uint32_t> Pickle::Elements(const Node& node) const {
  switch (node.type) {
    case Type::kTuple:
      return std::span(items_).subspan(node.value, node.count);
    case Type::kList:
    case Type::kDictionary:
      return lists_[node.value];
    default:
      return {};
  }
}

PickleValue::Type PickleValue::type() const {
  return pickle_ == nullptr ? Type::kAbsent : pickle_->nodes_[id_].type;
}

std::optional<int64_t> PickleValue::Int() const {
  if (type() != Type::kInt) return std::nullopt;
  return std::bit_cast<int64_t>(pickle_->nodes_[id_].value);
}

std::optional<bool> PickleValue::Bool() const {
  if (type() != Type::kBool) return std::nullopt;
  return pickle_->nodes_[id_].value != 0;
}

std::optional<double> PickleValue::Float() const {
  if (type() != Type::kFloat) return std::nullopt;
  return std::bit_cast<double>(pickle_->nodes_[id_].value);
}

std::optional<std::string_view> PickleValue::Text() const {
  if (type() != Type::kText) return std::nullopt;
  const Pickle::Node& node = pickle_->nodes_[id_];
  return pickle_->bytes_.substr(node.value, node.count);
}

size_t PickleValue::size() const {
  if (pickle_ == nullptr) return 0;
  const size_t count = pickle_->Elements(pickle_->nodes_[id_]).size();
  return type() == Type::kDictionary ? count / 2 : count;
}

PickleValue PickleValue::operator[](size_t i) const {
  return {pickle_, pickle_->Elements(pickle_->nodes_[id_])[i]};
}

PickleValue PickleValue::Key(size_t i) const { return (*this)[2 * i]; }

PickleValue PickleValue::Value(size_t i) const { return (*this)[2 * i + 1]; }

const PickleGlobal* PickleValue::Global() const {
  switch (type()) {
    case Type::kGlobal:
    case Type::kRecord:
    case Type::kCall:
      return &pickle_->globals_[pickle_->nodes_[id_].count];
    default:
      return nullptr;
  }
}

bool PickleValue::Is(std::string_view name) const {
  const PickleGlobal* global = Global();
  return global != nullptr && global->name == name;
}

PickleValue PickleValue::Content() const {
  switch (type()) {
    case Type::kRecord:
    case Type::kCall:
    case Type::kPersistent: {
      const uint64_t id = pickle_->nodes_[id_].value;
      if (id == kNoId) return {};
      return {pickle_, static_cast<uint32_t>(id)};
    }
    default:
      return {};
  }
}

PickleValue PickleValue::Field(std::string_view name) const {
  if (type() != Type::kRecord) return {};
  const PickleValue state = Content();
  if (state.type() != Type::kDictionary || state.size() > kMaxFields) return {};
  // As in Python, the last assignment to a key is the valid one.
  for (size_t i = state.size(); i > 0; --i) {
    if (state.Key(i - 1).Text() == name) return state.Value(i - 1);
  }
  return {};
}

}  // namespace shardc::stored
