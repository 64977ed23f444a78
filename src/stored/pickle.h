// Reads Python pickles as data: builds a table of values and runs no code.
//
// Python's own reader calls any function that a pickle names. The reader in
// this file supports only the operations that build numbers, texts, lists,
// tuples, dictionaries and records. It accepts only global names that the
// caller lists, and does not resolve these names. A class is read as a label on
// a record. A call is read as the name of the function with the arguments.
#ifndef SHARDC_STORED_PICKLE_H_
#define SHARDC_STORED_PICKLE_H_

#include <cstddef>
#include <cstdint>
#include <map>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace shardc::stored {

// The largest number of dimensions of a tensor in a file of PyTorch. PyTorch
// itself has this limit.
inline constexpr size_t kMostTensorDims = 64;

// A global name that a pickle may contain, and its permitted use.
struct PickleGlobal {
  enum class Use : uint8_t {
    kConstant,     // a value that is kept as a name, such as torch.float32
    kRecord,       // the class of a record (operations NEWOBJ and BUILD)
    kCall,         // a function whose arguments are kept (operation REDUCE)
    kDictionary,   // a class such as OrderedDict; a call makes an empty dict
    kEnumeration,  // an enumeration, whose members are pickled as calls
    // Python's getattr, which some versions use to store a member of an
    // enumeration. Its arguments must be an enumeration and a text.
    kMember,
  };
  std::string_view module;
  std::string_view name;
  Use use = Use::kConstant;
};

class Pickle;

// A reference to a value of a pickle, which is valid as long as the Pickle
// exists. If the value does not have the type that a function reads, the
// function returns nullopt, null, 0, or a value of type kAbsent. Values are
// shared and may contain themselves, so no function visits nested values.
class PickleValue {
 public:
  enum class Type : uint8_t {
    kAbsent,
    kNone,
    kBool,
    kInt,
    kFloat,
    kText,
    kList,
    kTuple,
    kDictionary,
    kGlobal,
    kRecord,
    kCall,
    kPersistent,  // an object outside the pickle, such as a torch storage
  };
  static constexpr uint32_t kNoId = UINT32_MAX;
  // The limit on the fields of a record, because they are searched linearly.
  static constexpr size_t kMaxFields = 32;

  PickleValue() = default;

  Type type() const;
  // Returns the id of the value. If the pickle refers to one value several
  // times, all these references have the same id.
  uint32_t id() const { return id_; }
  std::optional<int64_t> Int() const;
  std::optional<bool> Bool() const;
  std::optional<double> Float() const;
  std::optional<std::string_view> Text() const;  // UTF-8

  // Returns the number of elements of a list or tuple, or the number of pairs
  // of a dictionary.
  size_t size() const;
  PickleValue operator[](size_t i) const;  // for a list or tuple; i < size()
  PickleValue Key(size_t i) const;         // for a dictionary; i < size()
  PickleValue Value(size_t i) const;

  // Returns the entry in Options::globals for a global, for a record's class,
  // or for a call's function. Returns null for values of other types.
  const PickleGlobal* Global() const;
  // Returns whether the entry that Global() returns has this name, in any
  // module.
  bool Is(std::string_view name) const;
  // Returns the tuple of arguments of a call, the identifier of a kPersistent,
  // or the state from which a record was built. The state is of type kAbsent if
  // the record has none.
  PickleValue Content() const;
  // Returns a field of a record whose state is a dictionary.
  PickleValue Field(std::string_view name) const;

 private:
  friend class Pickle;
  friend class PickleParser;
  PickleValue(const Pickle* pickle, uint32_t id) : pickle_(pickle), id_(id) {}
  const Pickle* pickle_ = nullptr;
  uint32_t id_ = 0;
};

class Pickle {
 public:
  struct Options {
    std::span<const PickleGlobal> globals;  // must outlive the pickle
    bool persistent = false;  // whether kPersistent values may occur
    // The limit on the number of values. Each value takes 16 bytes of memory,
    // and each reference to a value takes 4 bytes. A list or a dictionary takes
    // 24 bytes more.
    size_t max_values = size_t{1} << 25;
  };
  // Reads a pickle of protocol 2 to 5, which must be all of `bytes`. `bytes`
  // must outlive the result. Returns nullopt if the pickle is malformed or
  // contains anything that the options do not allow. `*why` is then the
  // message, with the offset.
  static std::optional<Pickle> Parse(std::string_view bytes,
                                     const Options& options, std::string* why);

  PickleValue root() const { return {this, root_}; }

 private:
  friend class PickleValue;
  friend class PickleParser;
  struct Node {
    PickleValue::Type type = PickleValue::Type::kNone;
    // The number of bytes of a text, or the number of elements of a tuple. For
    // a global, a record or a call: the index of the class or function in
    // `globals_`.
    uint32_t count = 0;
    // For a number: its value. For a text: its offset in the bytes. For a
    // tuple: the index of its first element in `items_`. For a list or a
    // dictionary: its index in `lists_`. Otherwise the id of another value: of
    // a record's state, of a call's arguments, or of the identifier of a
    // kPersistent.
    uint64_t value = 0;
  };
  // Returns the ids of the elements of a tuple, a list or a dictionary. For a
  // dictionary, the ids of keys and values alternate.
  std::span<const uint32_t> Elements(const Node& node) const;

  std::string_view bytes_;
  std::span<const PickleGlobal> globals_;
  std::vector<Node> nodes_;
  std::vector<uint32_t> items_;
  std::vector<std::vector<uint32_t>> lists_;
  uint32_t root_ = 0;
};

}  // namespace shardc::stored

namespace shardc::stored::pickle {

enum Op : uint8_t {
  kMark = '(',
  kEmptyTuple = ')',
  kStop = '.',
  kPop = '0',
  kBinFloat = 'G',
  kBinInt = 'J',
  kBinInt1 = 'K',
  kBinInt2 = 'M',
  kNone = 'N',
  kBinPersId = 'Q',
  kReduce = 'R',
  kBinUnicode = 'X',
  kEmptyList = ']',
  kAppend = 'a',
  kBuild = 'b',
  kGlobalName = 'c',
  kAppends = 'e',
  kBinGet = 'h',
  kLongBinGet = 'j',
  kBinPut = 'q',
  kLongBinPut = 'r',
  kSetItem = 's',
  kTuple = 't',
  kSetItems = 'u',
  kEmptyDict = '}',
  kProto = 0x80,
  kNewObj = 0x81,
  kTuple1 = 0x85,
  kTuple2 = 0x86,
  kTuple3 = 0x87,
  kNewTrue = 0x88,
  kNewFalse = 0x89,
  kLong1 = 0x8a,
  kShortBinUnicode = 0x8c,
  kBinUnicode8 = 0x8d,
  kStackGlobal = 0x93,
  kMemoize = 0x94,
  kFrame = 0x95,
};

// Returns the name of an operation that is not supported. Returns its number if
// the name is not listed here.
inline std::string NameOfUnknown(uint8_t op) {
  switch (op) {
    case 'i':
      return "INST";
    case 'o':
      return "OBJ";
    case 0x82:
    case 0x83:
    case 0x84:
      return "EXT";
    case 0x92:
      return "NEWOBJ_EX";
    case 'P':
      return "PERSID";
    case 'd':
      return "DICT";
    case 'l':
      return "LIST";
    case '2':
      return "DUP";
    default:
      break;
  }
  constexpr std::string_view kDigits = "0123456789abcdef";
  return {'0', 'x', kDigits[op >> 4], kDigits[op & 15]};
}

}  // namespace shardc::stored::pickle

namespace shardc::stored {

// Builds a pickle. Op appends a single operation. Int, Text, Global, Ints and
// Sizes append the operations that push a value. If a text or a global was
// pushed before, it is pushed from the pickle's memo.
class PickleWriter {
 public:
  PickleWriter();

  void Op(pickle::Op op) { out_ += static_cast<char>(op); }
  void Int(int64_t value);
  // Pushes a text in UTF-8 of less than 4 GiB.
  void Text(std::string_view text);
  void Global(std::string_view module, std::string_view name);
  void Ints(std::span<const int64_t> values);   // pushes a tuple
  void Sizes(std::span<const int64_t> values);  // pushes a torch.Size
  // Ends the pickle and returns it.
  std::string Take();

 private:
  // If the memo has the value, pushes the value and returns true. Otherwise
  // returns false, and the caller must push the value and call Keep.
  bool Recall(const std::string& key);
  void Keep(const std::string& key);

  std::string out_;
  std::map<std::string, uint32_t> memo_;
};

}  // namespace shardc::stored

#endif  // SHARDC_STORED_PICKLE_H_
