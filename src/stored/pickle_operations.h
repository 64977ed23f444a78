// The operations of Python pickles that occur in checkpoints.
#ifndef SHARDC_STORED_PICKLE_OPERATIONS_H_
#define SHARDC_STORED_PICKLE_OPERATIONS_H_

#include <cstdint>
#include <string>
#include <string_view>

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

#endif  // SHARDC_STORED_PICKLE_OPERATIONS_H_
