// The codes of diagnostics: `SHD` and three digits, the first of which is the
// family. A number is never reused. The codes of family 0 (input, output and
// the command line) are listed here. Each lint defines its code in its own
// file. The other codes are in headers such as audit_code.h and stage_code.h.
#ifndef SHARDC_SOURCE_CODE_H_
#define SHARDC_SOURCE_CODE_H_

#include <span>
#include <string>
#include <string_view>

namespace shardc {

enum class Level { kError, kWarning, kNote };

std::string_view LevelName(Level level);  // "error", "warning", "note"

struct Code {
  int number = 0;         // 203 is printed as SHD203
  std::string_view name;  // kebab-case
  Level level = Level::kError;
  std::string_view meaning;  // one line without a final period

  std::string Id() const;  // "SHD203"
};

namespace code {
// Family 0: input files, output files and the command line.
inline constexpr Code kUsage{1, "usage", Level::kError,
                             "the command line cannot be used as given"};
inline constexpr Code kMissing{2, "missing", Level::kError,
                               "a file that is needed does not exist"};
inline constexpr Code kUnreadable{3, "unreadable", Level::kError,
                                  "a file cannot be opened or read"};
inline constexpr Code kNotRegular{4, "not-regular", Level::kError,
                                  "a path is not a regular file"};
inline constexpr Code kLimit{5, "limit", Level::kError,
                             "an input exceeds a limit"};
inline constexpr Code kEncoding{6, "encoding", Level::kError,
                                "a file is not UTF-8 text"};
inline constexpr Code kEmpty{7, "empty", Level::kError,
                             "a file holds no document"};
inline constexpr Code kYamlSyntax{10, "yaml-syntax", Level::kError,
                                  "a file is not well-formed YAML"};
inline constexpr Code kYamlDepth{11, "yaml-depth", Level::kError,
                                 "YAML is nested too deeply"};
inline constexpr Code kYamlAlias{
    12, "yaml-alias", Level::kError,
    "YAML aliases form a cycle or expand to too many nodes"};
inline constexpr Code kYamlTag{13, "yaml-tag", Level::kError,
                               "YAML tags are not supported"};
inline constexpr Code kMergeKey{14, "merge-key", Level::kError,
                                "YAML merge keys are not supported"};
inline constexpr Code kMultiDocument{15, "multi-document", Level::kError,
                                     "a YAML file holds several documents"};
inline constexpr Code kJsonSyntax{16, "json-syntax", Level::kError,
                                  "a file is not well-formed JSON"};
inline constexpr Code kJsonDepth{17, "json-depth", Level::kError,
                                 "JSON is nested too deeply"};
inline constexpr Code kDuplicateKey{20, "duplicate-key", Level::kError,
                                    "a key or name is given twice"};
inline constexpr Code kUnknownKey{21, "unknown-key", Level::kError,
                                  "a key is not defined in this file format"};
inline constexpr Code kSchema{22, "schema", Level::kError,
                              "a value has the wrong type or form"};
inline constexpr Code kNumber{23, "number", Level::kError,
                              "a number is malformed or out of range"};
inline constexpr Code kOverflow{24, "overflow", Level::kError,
                                "a size does not fit in 64 bits"};
inline constexpr Code kName{25, "name", Level::kError,
                            "a parameter name cannot be used"};
inline constexpr Code kAxisName{26, "axis-name", Level::kError,
                                "an axis name cannot be used"};
inline constexpr Code kSpec{27, "spec", Level::kError,
                            "a partition spec cannot be read"};
inline constexpr Code kUnknownName{28, "unknown-name", Level::kError,
                                   "a name in a spec is not defined"};
inline constexpr Code kCycle{29, "cycle", Level::kError,
                             "definitions refer to each other in a cycle"};
inline constexpr Code kRegexSyntax{30, "regex-syntax", Level::kError,
                                   "a pattern is not a valid RE2 expression"};
inline constexpr Code kRegexLimit{31, "regex-limit", Level::kError,
                                  "a pattern is too large to compile"};
inline constexpr Code kRegexSemantic{
    32, "regex-semantic", Level::kError,
    "a pattern cannot do what it is written for"};
inline constexpr Code kDeviceCount{40, "device-count", Level::kError,
                                   "axis sizes and devices do not agree"};
inline constexpr Code kSeparator{41, "separator", Level::kError,
                                 "the separator of names cannot be inferred"};
inline constexpr Code kHeader{50, "header", Level::kError,
                              "a binary file's header is malformed"};
inline constexpr Code kDtype{51, "dtype", Level::kError,
                             "a data type is not known"};
inline constexpr Code kOffsets{52, "offsets", Level::kError,
                               "tensor offsets overlap, leave gaps or end"
                               " outside the file"};
inline constexpr Code kSize{53, "size", Level::kError,
                            "a tensor's byte range differs from its shape"};
inline constexpr Code kAlignment{54, "alignment", Level::kError,
                                 "an alignment cannot be used"};
inline constexpr Code kPath{55, "path", Level::kError,
                            "a file name points outside its directory"};
inline constexpr Code kTensorMissing{56, "tensor-missing", Level::kError,
                                     "an indexed tensor is not in its file"};
inline constexpr Code kTensorExtra{57, "tensor-extra", Level::kError,
                                   "a file holds a tensor that its index"
                                   " lacks"};
inline constexpr Code kWrite{60, "write", Level::kError,
                             "an output cannot be written"};
inline constexpr Code kReference{
    61, "reference", Level::kError,
    "a name refers to something that does not exist"};
inline constexpr Code kInexpressible{62, "inexpressible", Level::kError,
                                     "another system's format cannot express"
                                     " this"};
inline constexpr Code kForeignSyntax{64, "foreign-syntax", Level::kError,
                                     "another system's text is malformed"};
}  // namespace code

// Returns every code of family 0, ascending.
std::span<const Code* const> ReadingCodes();

}  // namespace shardc

#endif  // SHARDC_SOURCE_CODE_H_
