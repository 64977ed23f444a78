// A finding is a diagnostic about the input. It has a code, a level, a place, a
// message with the numbers, and help. Findings are collected, never thrown.
#ifndef SHARDC_SOURCE_FINDING_H_
#define SHARDC_SOURCE_FINDING_H_

#include <set>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "source/source.h"

namespace shardc {

// The codes of diagnostics: `SHD` and three digits, the first of which is the
// family. A number is never reused. The codes of family 0 (input, output and
// the command line) are listed here. Each lint defines its code in its own
// file. The other codes follow further below.

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

// A second place that explains a finding, such as the rule that shadows
// another.
struct Label {
  Place place;
  std::string text;
};

struct Finding {
  const Code* code = nullptr;  // points into a table of codes
  Level level = Level::kError;
  // A message has no final period, and quotes code in backticks. The code that
  // prints the message escapes control characters.
  std::string message;
  Place place;
  std::string help;  // what the user should do; may be empty
  std::vector<Label> labels;
  std::vector<std::string> params;   // affected parameters, in manifest order
  std::vector<std::string> targets;  // affected targets of a project file
  // The file in which reports show the finding if its place is not in a file
  // but, for example, in a rule pack or a flag. May be empty.
  Place main_file;
};

// The identity of a file: its device and inode, so that all paths of the file
// have the same FileId. If there is no file at a path, the identity is the path
// itself. FileIdOf (source/file.h) returns it.
using FileId = std::string;

// Collects the diagnostics (findings) of a run, and records the files that the
// run has read. No command may write a file that it has read.
class Findings {
 public:
  // After this many errors a parser may stop. Later errors are still counted.
  static constexpr size_t kErrorLimit = 50;

  Finding& Add(const Code& code, Place place, std::string message,
               std::string help = {});
  void Add(Finding finding);
  void Append(Findings other);

  bool HasErrors() const { return errors_ > 0; }
  size_t errors() const { return errors_; }
  bool Full() const { return errors_ >= kErrorLimit; }
  bool empty() const { return all_.empty(); }
  std::span<const Finding> all() const { return all_; }

  void NoteRead(const FileId& file) { read_.insert(file); }
  bool WasRead(const FileId& file) const { return read_.contains(file); }
  // Copies from `other` the list of the files that were read. Callers that copy
  // only the diagnostics of `other`, one by one, call this function as well.
  void NoteReadsOf(const Findings& other) {
    read_.insert(other.read_.begin(), other.read_.end());
  }

  // Sorts by file, line, column and code. The sort is stable.
  void Sort();

 private:
  std::vector<Finding> all_;
  size_t errors_ = 0;
  std::set<FileId> read_;
};

// The codes of diagnostics about pipelines, from SHD241 to SHD249: stages or
// schedules that cannot be used. The other codes of this family (SHD2xx) belong
// to lints. These diagnostics are not reported by lints, but while a model is
// divided into stages or a schedule is read.

namespace code {
inline constexpr Code kStageAxisInSpec{
    241, "stage-axis-in-spec", Level::kError,
    "a spec splits over the axis of the pipeline's stages"};
inline constexpr Code kLayerWithoutStage{
    242, "layer-without-stage", Level::kError,
    "the stages of a pipeline do not have exactly the model's layers"};
inline constexpr Code kParameterOutsideStages{
    243, "parameter-outside-stages", Level::kError,
    "a parameter is of no layer, and of neither end of the model"};
inline constexpr Code kStackedVirtual{
    244, "stacked-virtual", Level::kError,
    "no spec states which layers of a stack a rank of the pipeline has"};
inline constexpr Code kTiedOverStages{
    245, "tied-over-stages", Level::kError,
    "the head is the embedding, which another rank of the pipeline has"};
inline constexpr Code kMicrobatchesIndivisible{
    247, "microbatches-indivisible", Level::kError,
    "the rows of a replica are not divided by the micro-batches"};
inline constexpr Code kScheduleRefuses{
    248, "schedule-refuses", Level::kError,
    "a pipeline schedule does not accept these sizes"};
inline constexpr Code kScheduleUnsafe{
    249, "schedule-unsafe", Level::kError,
    "a pipeline schedule computes the wrong thing, or never ends"};
}  // namespace code

// Returns the codes SHD241 to SHD249, in ascending order.
std::span<const Code* const> StageCodes();

namespace code {
inline constexpr Code kActivationGathered{
    601, "activation-gathered", Level::kWarning,
    "an activation is gathered over axes of the batch"};
inline constexpr Code kGatheredThenSliced{
    602, "gathered-then-sliced", Level::kWarning,
    "a tensor is gathered only to be sliced again"};
inline constexpr Code kWeightGatheredTwice{
    603, "weight-gathered-twice", Level::kWarning,
    "a parameter is gathered more than once in a pass"};
inline constexpr Code kWeightHoisted{
    604, "weight-hoisted", Level::kWarning,
    "all layers of a parameter are gathered before the loop over them"};
inline constexpr Code kGradientNotScattered{
    605, "gradient-not-scattered", Level::kWarning,
    "each device gets the entire gradient of a sharded parameter"};
inline constexpr Code kOutputGathered{
    606, "output-gathered", Level::kWarning,
    "an output is gathered because of its declared sharding"};
inline constexpr Code kSentInWiderDtype{
    607, "sent-in-wider-dtype", Level::kWarning,
    "a tensor is sent in a wider dtype than it is kept in"};
inline constexpr Code kManySmallCollectives{
    608, "many-small-collectives", Level::kWarning,
    "many collectives of a few bytes run one after another"};
inline constexpr Code kAxisUnusedInProgram{
    609, "axis-unused-in-program", Level::kWarning,
    "no argument and no collective of the program uses a mesh axis"};
inline constexpr Code kHostTransfer{610, "host-transfer", Level::kWarning,
                                    "the step sends data to the host"};
inline constexpr Code kOverAuditBudget{
    611, "over-audit-budget", Level::kError,
    "a compiled program sends more than its budget"};
inline constexpr Code kTrafficGrew{
    612, "traffic-grew", Level::kError,
    "a compiled program sends more than its committed summary"};
inline constexpr Code kWeightResharded{
    613, "weight-resharded", Level::kWarning,
    "a parameter is moved because its spec does not fit its use"};
inline constexpr Code kLookupOfBatch{
    614, "lookup-of-batch", Level::kWarning,
    "each device looks up the tokens of other devices"};
inline constexpr Code kOverStepBudget{
    615, "over-step-budget", Level::kError,
    "a step of a target takes more than its budget"};
}  // namespace code

// Returns every code of family 6, ascending.
std::span<const Code* const> AuditCodes();

}  // namespace shardc

#endif  // SHARDC_SOURCE_FINDING_H_
