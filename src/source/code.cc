#include "source/code.h"

#include <array>

namespace shardc {

std::string_view LevelName(Level level) {
  switch (level) {
    case Level::kError:
      return "error";
    case Level::kWarning:
      return "warning";
    case Level::kNote:
      return "note";
  }
  return "error";
}

std::string Code::Id() const {
  const std::string digits = std::to_string(number);
  const size_t pad = digits.size() < 3 ? 3 - digits.size() : 0;
  return "SHD" + std::string(pad, '0') + digits;
}

std::span<const Code* const> ReadingCodes() {
  static constexpr std::array kCodes = {
      &code::kUsage,         &code::kMissing,       &code::kUnreadable,
      &code::kNotRegular,    &code::kLimit,         &code::kEncoding,
      &code::kEmpty,         &code::kYamlSyntax,    &code::kYamlDepth,
      &code::kYamlAlias,     &code::kYamlTag,       &code::kMergeKey,
      &code::kMultiDocument, &code::kJsonSyntax,    &code::kJsonDepth,
      &code::kDuplicateKey,  &code::kUnknownKey,    &code::kSchema,
      &code::kNumber,        &code::kOverflow,      &code::kName,
      &code::kAxisName,      &code::kSpec,          &code::kUnknownName,
      &code::kCycle,         &code::kRegexSyntax,   &code::kRegexLimit,
      &code::kRegexSemantic, &code::kDeviceCount,   &code::kSeparator,
      &code::kHeader,        &code::kDtype,         &code::kOffsets,
      &code::kSize,          &code::kAlignment,     &code::kPath,
      &code::kTensorMissing, &code::kTensorExtra,   &code::kWrite,
      &code::kReference,     &code::kInexpressible, &code::kForeignSyntax,
  };
  return kCodes;
}

}  // namespace shardc
