// Parses pickles. A pickle is a program for a stack machine. Most supported
// operations push a value, or replace values on top of the stack by one value
// that contains them. MARK remembers the height of the stack. MEMOIZE assigns a
// number to the top value, and BINGET pushes the value with a number again. For
// example (3, 'a') is:
//
//   80 04      PROTO 4
//   4b 03      BININT1 3             stack: 3
//   8c 01 61   SHORT_BINUNICODE 'a'  stack: 3 'a'
//   86         TUPLE2                stack: (3, 'a')
//   2e         STOP
//
// Every value is a node of 16 bytes in one table, and refers to other values by
// their index in the table. So values that contain themselves or are deeply
// nested need no recursion. Time and memory are linear in the number of bytes,
// because every operation adds at most one node, and a reference is removed
// from the stack only once.
#include "stored/pickle.h"

#include <bit>
#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

#include "source/input_file.h"
#include "source/utf8.h"
#include "source/wording.h"
#include "stored/write_ocdbt.h"

namespace shardc::stored {

// Reads the operations of a pickle, and the operands that follow them, from its
// bytes.

// A reader with a position in the bytes. All functions that return bool return
// false after they have called Refuse().
class PickleOperations {
 public:
  // `bytes` and `why` must outlive the reader.
  PickleOperations(std::string_view bytes, std::string* why)
      : bytes_(bytes), why_(why) {}

  // Sets `*why` to the reason why the pickle is refused, with the place of the
  // current operation. Returns false.
  bool Refuse(const std::string& what);

  // Reads the operation PROTO, with which pickles of protocol 2 to 5 begin.
  bool Begin();
  // Reads the next operation.
  bool Operation(uint8_t* op);

  // Reads an unsigned integer of `count` bytes, low byte first.
  bool Unsigned(size_t count, uint64_t* out);
  // Reads a signed integer (two's complement) of at most 8 bytes.
  bool Signed(size_t count, int64_t* out);
  // Reads a line, and skips the newline that ends the line.
  bool Line(std::string_view* out);
  // Reads the length of a text, which is an integer of `length_bytes` bytes,
  // and skips the text. Sets `*begin` to the position of the text.
  bool Text(size_t length_bytes, size_t* begin, uint32_t* length);
  // Reads the length of a frame. Refuses the pickle if fewer bytes remain.
  bool Frame();

  // Returns the number of bytes that have not been read yet.
  size_t left() const { return bytes_.size() - at_; }

 private:
  bool Truncated();
  uint8_t Byte(size_t at) const { return static_cast<uint8_t>(bytes_[at]); }

  std::string_view bytes_;
  std::string* why_;
  size_t at_ = 0;
  size_t op_at_ = 0;  // start of the current operation
};

bool PickleOperations::Refuse(const std::string& what) {
  *why_ = what + " (at byte " + std::to_string(op_at_) + ")";
  return false;
}

bool PickleOperations::Truncated() {
  return Refuse("the pickle ends inside an operation");
}

bool PickleOperations::Begin() {
  using enum pickle::Op;
  if (bytes_.size() < 2 || Byte(0) != kProto || Byte(1) < 2 || Byte(1) > 5) {
    return Refuse("the file does not begin as a pickle of protocol 2 to 5");
  }
  at_ = 2;
  return true;
}

bool PickleOperations::Operation(uint8_t* op) {
  op_at_ = at_;
  if (left() == 0) return Refuse("the pickle ends without a STOP");
  *op = Byte(at_++);
  return true;
}

bool PickleOperations::Unsigned(size_t count, uint64_t* out) {
  if (left() < count) return Truncated();
  *out = LittleEndian(bytes_.substr(at_, count));
  at_ += count;
  return true;
}

bool PickleOperations::Signed(size_t count, int64_t* out) {
  uint64_t value = 0;
  if (!Unsigned(count, &value)) return false;
  if (count > 0 && count < 8 && (value >> (8 * count - 1) & 1) != 0) {
    value |= UINT64_MAX - ((uint64_t{1} << (8 * count)) - 1);
  }
  *out = std::bit_cast<int64_t>(value);
  return true;
}

bool PickleOperations::Line(std::string_view* out) {
  const size_t end = bytes_.find('\n', at_);
  if (end == std::string_view::npos) return Truncated();
  *out = bytes_.substr(at_, end - at_);
  at_ = end + 1;
  return true;
}

bool PickleOperations::Text(size_t length_bytes, size_t* begin,
                            uint32_t* length) {
  uint64_t size = 0;
  if (!Unsigned(length_bytes, &size)) return false;
  if (size > left() || size >= UINT32_MAX) return Truncated();
  if (!IsUtf8(bytes_.substr(at_, size))) {
    return Refuse("a text of the pickle is not UTF-8");
  }
  *begin = at_;
  *length = static_cast<uint32_t>(size);
  at_ += size;
  return true;
}

bool PickleOperations::Frame() {
  uint64_t length = 0;
  return Unsigned(8, &length) && (length <= left() || Truncated());
}

using enum pickle::Op;
using ValueType = PickleValue::Type;
using GlobalUse = PickleGlobal::Use;

constexpr uint32_t kNoNode = PickleValue::kNoId;

class PickleParser {
 public:
  PickleParser(std::string_view bytes, const Pickle::Options& options,
               std::string* why)
      : in_(bytes, why), options_(options) {
    out_.bytes_ = bytes;
    out_.globals_ = options.globals;
  }

  std::optional<Pickle> Run() {
    if (!in_.Begin()) return std::nullopt;
    while (!stopped_) {
      uint8_t op = 0;
      if (!in_.Operation(&op) || !Step(op)) return std::nullopt;
    }
    return std::move(out_);
  }

 private:
  using Node = Pickle::Node;

  bool Refuse(const std::string& what) { return in_.Refuse(what); }
  bool Underflow() {
    return Refuse("an operation of the pickle needs a value that it lacks");
  }

  bool Push(uint32_t id) {
    if (stack_.size() >= options_.max_values) return TooMany();
    stack_.push_back(id);
    return true;
  }
  bool TooMany() {
    return Refuse("the pickle holds more than " +
                  CountText(static_cast<int64_t>(options_.max_values)) +
                  " values");
  }
  bool Add(Node node, uint32_t* id) {
    if (out_.nodes_.size() >= options_.max_values) return TooMany();
    *id = static_cast<uint32_t>(out_.nodes_.size());
    out_.nodes_.push_back(node);
    return true;
  }
  bool PushNew(Node node) {
    uint32_t id = 0;
    return Add(node, &id) && Push(id);
  }
  // Pushes a value that occurs often, such as None. All its occurrences share
  // one node, whose id is in `*shared`.
  bool PushShared(Node node, uint32_t* shared) {
    if (*shared == kNoNode && !Add(node, shared)) return false;
    return Push(*shared);
  }
  bool PushInt(int64_t value) {
    const Node node{ValueType::kInt, 0, std::bit_cast<uint64_t>(value)};
    if (value < 0 || value > 255) return PushNew(node);
    return PushShared(node, &small_[static_cast<size_t>(value)]);
  }
  // Pops a value. Values below the last MARK cannot be popped.
  bool Pop(uint32_t* out) {
    if (stack_.size() <= (marks_.empty() ? 0 : marks_.back())) {
      return Underflow();
    }
    *out = stack_.back();
    stack_.pop_back();
    return true;
  }
  bool PopMark(size_t* begin) {
    if (marks_.empty()) return Refuse("the pickle has no MARK to end");
    *begin = marks_.back();
    marks_.pop_back();
    return true;
  }

  bool PushText(size_t length_bytes) {
    size_t begin = 0;
    uint32_t length = 0;
    return in_.Text(length_bytes, &begin, &length) &&
           PushNew({ValueType::kText, length, begin});
  }

  // Makes a tuple of the values on the stack from position `begin` to the top.
  bool MakeTuple(size_t begin) {
    const size_t count = stack_.size() - begin;
    const Node node{ValueType::kTuple, static_cast<uint32_t>(count),
                    out_.items_.size()};
    out_.items_.insert(out_.items_.end(),
                       stack_.begin() + static_cast<std::ptrdiff_t>(begin),
                       stack_.end());
    stack_.resize(begin);
    return count == 0 ? PushShared(node, &empty_tuple_) : PushNew(node);
  }
  bool TupleOf(size_t count) {
    const size_t floor = marks_.empty() ? 0 : marks_.back();
    if (stack_.size() - floor < count) return Underflow();
    return MakeTuple(stack_.size() - count);
  }

  bool PushContainer(ValueType type) {
    // A container takes more memory than other values, so at most a quarter of
    // the permitted number of values may be containers. This is enough: in real
    // files 3 of 20 values are containers.
    if (out_.lists_.size() >= options_.max_values / 4) {
      return Refuse("the pickle holds too many lists and dictionaries");
    }
    const Node node{type, 0, out_.lists_.size()};
    out_.lists_.emplace_back();
    return PushNew(node);
  }
  // Removes all values from the stack whose position is `begin` or above, and
  // appends them to the container below them, which has position `begin` - 1.
  bool Extend(size_t begin, ValueType type) {
    const size_t floor = marks_.empty() ? 0 : marks_.back();
    if (begin <= floor) return Underflow();
    const Node& node = out_.nodes_[stack_[begin - 1]];
    if (node.type != type) {
      return Refuse(
          "the pickle adds elements to a value that is no " +
          std::string(type == ValueType::kList ? "list" : "dictionary"));
    }
    if (type == ValueType::kDictionary && (stack_.size() - begin) % 2 != 0) {
      return Refuse("a key of a dictionary has no value");
    }
    std::vector<uint32_t>& list = out_.lists_[node.value];
    list.insert(list.end(), stack_.begin() + static_cast<std::ptrdiff_t>(begin),
                stack_.end());
    stack_.resize(begin);
    return true;
  }
  bool ExtendOne(size_t count, ValueType type) {
    return stack_.size() < count ? Underflow()
                                 : Extend(stack_.size() - count, type);
  }
  bool ExtendToMark(ValueType type) {
    size_t begin = 0;
    return PopMark(&begin) && Extend(begin, type);
  }

  bool PushGlobal(std::string_view module, std::string_view name) {
    const auto globals = options_.globals;
    for (size_t i = 0; i < globals.size(); ++i) {
      if (globals[i].module != module || globals[i].name != name) continue;
      if (global_ids_.empty()) global_ids_.resize(globals.size(), kNoNode);
      return PushShared({ValueType::kGlobal, static_cast<uint32_t>(i), 0},
                        &global_ids_[i]);
    }
    return Refuse("the pickle refers to " +
                  ShortQuote(std::string(module) + "." + std::string(name)) +
                  ", which checkpoints do not need; nothing of it was run");
  }
  bool GlobalByLines() {
    std::string_view lines[2];  // module and name
    if (!in_.Line(&lines[0]) || !in_.Line(&lines[1])) return false;
    return PushGlobal(lines[0], lines[1]);
  }
  bool GlobalByStack() {
    uint32_t name = 0;
    uint32_t module = 0;
    if (!Pop(&name) || !Pop(&module)) return false;
    const auto module_text = PickleValue(&out_, module).Text();
    const auto name_text = PickleValue(&out_, name).Text();
    if (!module_text || !name_text) {
      return Refuse("the name of a global in the pickle is not a text");
    }
    return PushGlobal(*module_text, *name_text);
  }

  // Finds the global whose value has the id `id`, and sets `*index` to the
  // global's index in Options::globals. Returns false after Refuse() if the
  // value is not a global.
  bool GlobalOf(uint32_t id, uint32_t* index) {
    const Node& node = out_.nodes_[id];
    if (node.type != ValueType::kGlobal) {
      return Refuse("the pickle calls a value that is no function or class");
    }
    *index = node.count;
    return true;
  }
  bool NewObject() {
    uint32_t arguments = 0;
    uint32_t of = 0;
    uint32_t global = 0;
    if (!Pop(&arguments) || !Pop(&of) || !GlobalOf(of, &global)) return false;
    const Node& given = out_.nodes_[arguments];
    if (options_.globals[global].use != GlobalUse::kRecord ||
        given.type != ValueType::kTuple || given.count != 0) {
      return Refuse("the pickle makes an object of " + NameOf(global) +
                    " in a way that checkpoints do not");
    }
    return PushNew({ValueType::kRecord, global, kNoNode});
  }
  bool Call() {
    uint32_t arguments = 0;
    uint32_t of = 0;
    uint32_t global = 0;
    if (!Pop(&arguments) || !Pop(&of) || !GlobalOf(of, &global)) return false;
    const Node given = out_.nodes_[arguments];
    const auto use = options_.globals[global].use;
    const bool is_call =
        use == GlobalUse::kCall || use == GlobalUse::kEnumeration ||
        (use == GlobalUse::kMember && IsMember(PickleValue(&out_, arguments)));
    if (given.type == ValueType::kTuple && is_call) {
      return PushNew({ValueType::kCall, global, arguments});
    }
    if (given.type == ValueType::kTuple && given.count == 0 &&
        use == GlobalUse::kDictionary) {
      return PushContainer(ValueType::kDictionary);
    }
    return Refuse("the pickle calls " + NameOf(global) +
                  " in a way that checkpoints do not");
  }
  // Returns whether these arguments of Python's getattr refer to a member of an
  // enumeration.
  static bool IsMember(const PickleValue& arguments) {
    return arguments.size() == 2 && arguments[0].type() == ValueType::kGlobal &&
           arguments[0].Global()->use == GlobalUse::kEnumeration &&
           arguments[1].Text().has_value();
  }
  bool Build() {
    uint32_t state = 0;
    if (!Pop(&state)) return false;
    if (stack_.size() <= (marks_.empty() ? 0 : marks_.back())) {
      return Underflow();
    }
    Node& node = out_.nodes_[stack_.back()];
    if (node.type != ValueType::kRecord || node.value != kNoNode) {
      return Refuse(
          "the pickle sets the state of a value that has none to set");
    }
    if (PickleValue(&out_, state).size() > PickleValue::kMaxFields) {
      return Refuse("a record of the pickle has more than " +
                    std::to_string(PickleValue::kMaxFields) + " fields");
    }
    node.value = state;
    return true;
  }
  std::string NameOf(uint32_t global) const {
    const PickleGlobal& entry = options_.globals[global];
    return Quote(std::string(entry.module) + "." + std::string(entry.name));
  }

  bool Put(uint64_t number) {
    if (stack_.empty()) return Underflow();
    // Writers of pickles number values consecutively. A much larger number
    // would only waste memory, so it is refused.
    if (number > memo_.size() + 1024 || number >= options_.max_values) {
      return Refuse("the pickle numbers a value " + std::to_string(number) +
                    ", and there are " + std::to_string(memo_.size()) +
                    " before it");
    }
    if (number >= memo_.size()) memo_.resize(number + 1, kNoNode);
    memo_[number] = stack_.back();
    return true;
  }
  bool Get(size_t bytes) {
    uint64_t number = 0;
    if (!in_.Unsigned(bytes, &number)) return false;
    if (number >= memo_.size() || memo_[number] == kNoNode) {
      return Refuse("the pickle refers to value " + std::to_string(number) +
                    " of its memo, which was never set");
    }
    return Push(memo_[number]);
  }
  bool PutNumbered(size_t bytes) {
    uint64_t number = 0;
    return in_.Unsigned(bytes, &number) && Put(number);
  }
  bool Stop() {
    if (!marks_.empty() || stack_.size() != 1) {
      return Refuse("the pickle stops with " + std::to_string(stack_.size()) +
                    " values and " + std::to_string(marks_.size()) +
                    " open marks, and should leave one value");
    }
    if (in_.left() > 0) {
      return Refuse("the pickle is followed by " +
                    CountText(static_cast<int64_t>(in_.left())) +
                    " other bytes");
    }
    out_.root_ = stack_.back();
    stopped_ = true;
    return true;
  }

  bool Long() {
    uint64_t count = 0;
    int64_t value = 0;
    if (!in_.Unsigned(1, &count)) return false;
    if (count > 8) return Refuse("a number of the pickle exceeds 64 bits");
    return in_.Signed(count, &value) && PushInt(value);
  }
  bool Float() {
    uint64_t bits = 0;
    if (!in_.Unsigned(8, &bits)) return false;
    return PushNew({ValueType::kFloat, 0, __builtin_bswap64(bits)});
  }
  bool Integer(size_t bytes, bool is_signed) {
    int64_t value = 0;
    uint64_t raw = 0;
    return is_signed ? in_.Signed(bytes, &value) && PushInt(value)
                     : in_.Unsigned(bytes, &raw) &&
                           PushInt(static_cast<int64_t>(raw));
  }
  bool Persistent() {
    uint32_t id = 0;
    if (!options_.persistent) return Unknown(kBinPersId);
    return Pop(&id) && PushNew({ValueType::kPersistent, 0, id});
  }
  bool Unknown(uint8_t op) {
    return Refuse("the pickle uses the operation " + pickle::NameOfUnknown(op) +
                  ", which checkpoints do not need; nothing of it was run");
  }

  bool Mark() {
    if (marks_.size() >= options_.max_values) return TooMany();
    marks_.push_back(stack_.size());
    return true;
  }
  bool TupleToMark() {
    size_t begin = 0;
    return PopMark(&begin) && MakeTuple(begin);
  }
  bool Step(uint8_t op) {
    switch (op) {
      case kFrame:
        return in_.Frame();
      case kMark:
        return Mark();
      case kStop:
        return Stop();
      case kPop:
        return Pop(&discarded_);
      case kNone:
        return PushShared({ValueType::kNone, 0, 0}, &none_);
      case kNewTrue:
        return PushShared({ValueType::kBool, 0, 1}, &true_);
      case kNewFalse:
        return PushShared({ValueType::kBool, 0, 0}, &false_);
      case kBinInt:
        return Integer(4, /*is_signed=*/true);
      case kBinInt1:
        return Integer(1, /*is_signed=*/false);
      case kBinInt2:
        return Integer(2, /*is_signed=*/false);
      case kLong1:
        return Long();
      case kBinFloat:
        return Float();
      case kShortBinUnicode:
        return PushText(1);
      case kBinUnicode:
        return PushText(4);
      case kBinUnicode8:
        return PushText(8);
      case kEmptyTuple:
        return MakeTuple(stack_.size());
      case kTuple1:
      case kTuple2:
      case kTuple3:
        return TupleOf(op - kTuple1 + size_t{1});
      case kTuple:
        return TupleToMark();
      case kEmptyList:
        return PushContainer(ValueType::kList);
      case kAppend:
        return ExtendOne(1, ValueType::kList);
      case kAppends:
        return ExtendToMark(ValueType::kList);
      case kEmptyDict:
        return PushContainer(ValueType::kDictionary);
      case kSetItem:
        return ExtendOne(2, ValueType::kDictionary);
      case kSetItems:
        return ExtendToMark(ValueType::kDictionary);
      case kGlobalName:
        return GlobalByLines();
      case kStackGlobal:
        return GlobalByStack();
      case kNewObj:
        return NewObject();
      case kReduce:
        return Call();
      case kBuild:
        return Build();
      case kMemoize:
        return Put(memo_.size());
      case kBinPut:
        return PutNumbered(1);
      case kLongBinPut:
        return PutNumbered(4);
      case kBinGet:
        return Get(1);
      case kLongBinGet:
        return Get(4);
      case kBinPersId:
        return Persistent();
      default:
        return Unknown(op);
    }
  }

  PickleOperations in_;
  const Pickle::Options& options_;
  Pickle out_;
  bool stopped_ = false;
  uint32_t discarded_ = 0;
  std::vector<uint32_t> stack_;
  std::vector<size_t> marks_;  // height of the stack at each MARK
  std::vector<uint32_t> memo_;
  // Ids of the values that are stored once: small integers, globals, constants.
  std::vector<uint32_t> small_ = std::vector<uint32_t>(256, kNoNode);
  std::vector<uint32_t> global_ids_;
  uint32_t none_ = kNoNode;
  uint32_t true_ = kNoNode;
  uint32_t false_ = kNoNode;
  uint32_t empty_tuple_ = kNoNode;
};

std::optional<Pickle> Pickle::Parse(std::string_view bytes,
                                    const Options& options, std::string* why) {
  return PickleParser(bytes, options, why).Run();
}

// Accesses values of a parsed pickle. Lists, tuples and dictionaries store the
// ids of their elements. In a dictionary, keys and values alternate. For
// example, {'a': 3, 'b': 3} stores the ids of 'a', 3, 'b' and 3. Both ids of 3
// are equal, because small integers are stored once.

std::span<const uint32_t> Pickle::Elements(const Node& node) const {
  switch (node.type) {
    case ValueType::kTuple:
      return std::span(items_).subspan(node.value, node.count);
    case ValueType::kList:
    case ValueType::kDictionary:
      return lists_[node.value];
    default:
      return {};
  }
}

PickleValue::Type PickleValue::type() const {
  return pickle_ == nullptr ? ValueType::kAbsent : pickle_->nodes_[id_].type;
}

std::optional<int64_t> PickleValue::Int() const {
  if (type() != ValueType::kInt) return std::nullopt;
  return std::bit_cast<int64_t>(pickle_->nodes_[id_].value);
}

std::optional<bool> PickleValue::Bool() const {
  if (type() != ValueType::kBool) return std::nullopt;
  return pickle_->nodes_[id_].value != 0;
}

std::optional<double> PickleValue::Float() const {
  if (type() != ValueType::kFloat) return std::nullopt;
  return std::bit_cast<double>(pickle_->nodes_[id_].value);
}

std::optional<std::string_view> PickleValue::Text() const {
  if (type() != ValueType::kText) return std::nullopt;
  const Pickle::Node& node = pickle_->nodes_[id_];
  return pickle_->bytes_.substr(node.value, node.count);
}

size_t PickleValue::size() const {
  if (pickle_ == nullptr) return 0;
  const size_t count = pickle_->Elements(pickle_->nodes_[id_]).size();
  return type() == ValueType::kDictionary ? count / 2 : count;
}

PickleValue PickleValue::operator[](size_t i) const {
  return {pickle_, pickle_->Elements(pickle_->nodes_[id_])[i]};
}

PickleValue PickleValue::Key(size_t i) const { return (*this)[2 * i]; }

PickleValue PickleValue::Value(size_t i) const { return (*this)[2 * i + 1]; }

const PickleGlobal* PickleValue::Global() const {
  switch (type()) {
    case ValueType::kGlobal:
    case ValueType::kRecord:
    case ValueType::kCall:
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
    case ValueType::kRecord:
    case ValueType::kCall:
    case ValueType::kPersistent: {
      const uint64_t id = pickle_->nodes_[id_].value;
      if (id == kNoId) return {};
      return {pickle_, static_cast<uint32_t>(id)};
    }
    default:
      return {};
  }
}

PickleValue PickleValue::Field(std::string_view name) const {
  if (type() != ValueType::kRecord) return {};
  const PickleValue state = Content();
  if (state.type() != ValueType::kDictionary || state.size() > kMaxFields)
    return {};
  // As in Python, the last assignment to a key is the valid one.
  for (size_t i = state.size(); i > 0; --i) {
    if (state.Key(i - 1).Text() == name) return state.Value(i - 1);
  }
  return {};
}

// Writes pickles, which are programs of a stack machine. The tuple (2, 300) is
//
//   (       MARK
//   K\x02   BININT1, 2
//   M\x2c\x01   BININT2, 300
//   t       TUPLE of everything above the mark
//
// All operations are of protocol 2, which every version of torch reads.

PickleWriter::PickleWriter() {
  Op(pickle::kProto);
  out_ += '\x02';
}

void PickleWriter::Int(int64_t value) {
  const auto bits = static_cast<uint64_t>(value);
  if (value >= 0 && value <= UINT8_MAX) {
    Op(pickle::kBinInt1);
    AppendLittle(out_, bits, 1);
  } else if (value >= 0 && value <= UINT16_MAX) {
    Op(pickle::kBinInt2);
    AppendLittle(out_, bits, 2);
  } else if (value >= INT32_MIN && value <= INT32_MAX) {
    Op(pickle::kBinInt);
    AppendLittle(out_, bits, 4);
  } else {
    Op(pickle::kLong1);
    out_ += '\x08';
    AppendLittle(out_, bits, 8);
  }
}

void PickleWriter::Text(std::string_view text) {
  const std::string key = "t" + std::string(text);
  if (Recall(key)) return;
  Op(pickle::kBinUnicode);
  AppendLittle(out_, text.size(), 4);
  out_ += text;
  Keep(key);
}

void PickleWriter::Global(std::string_view module, std::string_view name) {
  std::string key = "c";
  key.append(module).append("\n").append(name).append("\n");
  if (Recall(key)) return;
  out_ += key;  // GLOBAL: the letter c, and module and name as lines
  Keep(key);
}

void PickleWriter::Ints(std::span<const int64_t> values) {
  Op(pickle::kMark);
  for (const int64_t value : values) Int(value);
  Op(pickle::kTuple);
}

void PickleWriter::Sizes(std::span<const int64_t> values) {
  Global("torch", "Size");
  Ints(values);
  Op(pickle::kTuple1);
  Op(pickle::kReduce);
}

std::string PickleWriter::Take() {
  Op(pickle::kStop);
  return std::move(out_);
}

bool PickleWriter::Recall(const std::string& key) {
  const auto found = memo_.find(key);
  if (found == memo_.end()) return false;
  Op(pickle::kLongBinGet);
  AppendLittle(out_, found->second, 4);
  return true;
}

void PickleWriter::Keep(const std::string& key) {
  const auto number = static_cast<uint32_t>(memo_.size());
  memo_.emplace(key, number);
  Op(pickle::kLongBinPut);
  AppendLittle(out_, number, 4);
}

}  // namespace shardc::stored
