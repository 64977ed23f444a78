// Sorts diagnostics (findings) by file, line, column and code. Computing a line
// and column searches the source, so the sort keys are computed once per
// finding. The sort is stable. For example, three findings are sorted; the one
// without a line is about the entire file:
//
//   b.yaml:1:1, a.yaml:9:2, a.yaml  ->  a.yaml, a.yaml:9:2, b.yaml:1:1
#include "source/finding.h"

#include <algorithm>
#include <array>
#include <iterator>
#include <numeric>
#include <string_view>
#include <tuple>
#include <utility>

namespace shardc {
namespace {

struct SortKey {
  std::string_view file;
  LineColumn at;
  int code = 0;

  explicit SortKey(const Finding& finding) {
    if (finding.place.source != nullptr) {
      file = finding.place.source->name();
      if (finding.place.HasPosition()) {
        at = finding.place.source->At(finding.place.begin);
      }
    }
    if (finding.code != nullptr) code = finding.code->number;
  }
  auto Tie() const { return std::tie(file, at.line, at.column, code); }
};

}  // namespace

Finding& Findings::Add(const Code& code, Place place, std::string message,
                       std::string help) {
  Finding finding;
  finding.code = &code;
  finding.level = code.level;
  finding.place = std::move(place);
  finding.message = std::move(message);
  finding.help = std::move(help);
  Add(std::move(finding));
  return all_.back();
}

void Findings::Add(Finding finding) {
  if (finding.level == Level::kError) ++errors_;
  all_.push_back(std::move(finding));
}

void Findings::Append(Findings other) {
  errors_ += other.errors_;
  NoteReadsOf(other);
  std::move(other.all_.begin(), other.all_.end(), std::back_inserter(all_));
}

void Findings::Sort() {
  std::vector<SortKey> keys;
  keys.reserve(all_.size());
  for (const Finding& finding : all_) keys.emplace_back(finding);
  std::vector<size_t> order(all_.size());
  std::iota(order.begin(), order.end(), size_t{0});
  std::stable_sort(order.begin(), order.end(), [&](size_t a, size_t b) {
    return keys[a].Tie() < keys[b].Tie();
  });
  std::vector<Finding> sorted;
  sorted.reserve(all_.size());
  for (size_t index : order) sorted.push_back(std::move(all_[index]));
  all_ = std::move(sorted);
}

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

std::span<const Code* const> StageCodes() {
  static constexpr std::array kCodes = {
      &code::kStageAxisInSpec,        &code::kLayerWithoutStage,
      &code::kParameterOutsideStages, &code::kStackedVirtual,
      &code::kTiedOverStages,         &code::kMicrobatchesIndivisible,
      &code::kScheduleRefuses,        &code::kScheduleUnsafe,
  };
  return kCodes;
}

std::span<const Code* const> AuditCodes() {
  static constexpr std::array kCodes = {
      &code::kActivationGathered,   &code::kGatheredThenSliced,
      &code::kWeightGatheredTwice,  &code::kWeightHoisted,
      &code::kGradientNotScattered, &code::kOutputGathered,
      &code::kSentInWiderDtype,     &code::kManySmallCollectives,
      &code::kAxisUnusedInProgram,  &code::kHostTransfer,
      &code::kOverAuditBudget,      &code::kTrafficGrew,
      &code::kWeightResharded,      &code::kLookupOfBatch,
      &code::kOverStepBudget,
  };
  return kCodes;
}

}  // namespace shardc
