// Reads the settings of attention operations. Each setting has its own range or
// choices. A setting that does not apply to its operation is a finding, because
// it would have no effect:
//
//   {operations: {ring: {page_size: 4}}}  ->  `page_size` has no meaning for
//                                             `ring`
#include "parse/operations.h"

#include <algorithm>
#include <array>
#include <utility>
#include <vector>

#include "parse/keys.h"
#include "source/file.h"
#include "source/wording.h"
#include "yaml/error.h"
#include "yaml/read.h"

namespace shardc {
namespace {

// The ranges of sizes. Larger blocks and pages would only waste memory.
constexpr IntegerRange kBlocks = {1, int64_t{1} << 20};
constexpr IntegerRange kPages = {1, 4096};
constexpr IntegerRange kGlobals = {0, int64_t{1} << 20};
// The ranges of factors. float32 can represent all values in these ranges, and
// their squares.
constexpr RealRange kScales = {1e-6, 1e6};
constexpr RealRange kCaps = {0, 1e6};
constexpr RealRange kProbabilities = {0, 1, true};

constexpr std::array<std::string_view, 3> kDotBitsNames = {"0", "8", "4"};
constexpr std::array<int64_t, 3> kDotBitsValues = {0, 8, 4};

class SettingsReader {
 public:
  SettingsReader(const YamlContext& context,
                 std::span<const KnownOperation> operations)
      : context_(context), operations_(operations) {
    for (const KnownOperation& operation : operations) {
      names_.push_back(operation.name);
    }
  }

  OperationsFile Read(const YamlNode& node) {
    OperationsFile file;
    const auto fields = Fields::Read(context_, node, keys::kOperations);
    if (!fields) return file;
    CheckVersion(context_, fields->Find("version"));
    const YamlNode* defaults = fields->Find("defaults");
    if (defaults != nullptr && !defaults->IsNull()) {
      ReadRecord(*defaults, nullptr, file.defaults);
    }
    const YamlNode* operations = fields->Find("operations");
    if (operations != nullptr && !operations->IsNull()) {
      ReadNamed(*operations, file);
    }
    return file;
  }

  void ReadValue(Setting setting, const YamlNode& node, SettingsRecord& out) {
    const std::string what = "`" + std::string(SettingName(setting)) + "`";
    switch (setting) {
      case Setting::kRuntimeDtype:
        out.runtime_dtype = ReadRealDtype(node, what);
        return;
      case Setting::kSoftmaxDtype:
        out.softmax_dtype = ReadRealDtype(node, what);
        return;
      case Setting::kSoftmaxScale:
        out.softmax_scale = ReadReal(context_, node, what, kScales);
        return;
      case Setting::kSoftCap:
        out.soft_cap = ReadCap(node, what);
        return;
      case Setting::kDropout:
        out.dropout = ReadReal(context_, node, what, kProbabilities);
        return;
      case Setting::kBlocksizeQ:
        out.blocksize_q = ReadInteger(context_, node, what, kBlocks);
        return;
      case Setting::kBlocksizeK:
        out.blocksize_k = ReadInteger(context_, node, what, kBlocks);
        return;
      case Setting::kBlocksizeB:
        out.blocksize_b = ReadInteger(context_, node, what, kBlocks);
        return;
      case Setting::kPageSize:
        out.page_size = ReadInteger(context_, node, what, kPages);
        return;
      case Setting::kSequenceAxis:
        ReadAxis(node, what, out);
        return;
      case Setting::kRingAxes:
        ReadAxes(node, what, out);
        return;
      case Setting::kScanRing:
        out.scan_ring_attention = ReadBool(context_, node, what);
        return;
      case Setting::kOrder:
        out.order = ReadName<SequenceOrder>(node, what, kSequenceOrderNames);
        return;
      case Setting::kMerge:
        out.merge = ReadName<DecodeMerge>(node, what, kDecodeMergeNames);
        return;
      case Setting::kBlockMask:
        out.block_mask = ReadName<BlockMask>(node, what, kBlockMaskNames);
        return;
      case Setting::kGlobalBlocks:
        out.global_blocks = ReadInteger(context_, node, what, kGlobals);
        return;
      case Setting::kDotBits:
        if (const auto at = ReadChoice(context_, node, what, kDotBitsNames)) {
          out.dot_bits = kDotBitsValues[*at];
        }
        return;
    }
  }

 private:
  void ReadNamed(const YamlNode& node, OperationsFile& file) {
    if (!node.IsMapping()) {
      context_.Add(code::kSchema, node,
                   "`operations` is " + Describe(node) +
                       ", not a mapping of operations to settings",
                   "write `operations: {ring: {order: zig_zag}}`");
      return;
    }
    for (const YamlMember& member : node.members) {
      if (context_.findings.Full()) return;
      const auto name =
          ReadKey(context_, member.key, code::kSchema, "an operation's name");
      if (!name) continue;
      const auto known = std::find(names_.begin(), names_.end(), *name);
      if (known == names_.end()) {
        context_.Add(code::kUnknownKey, member.key,
                     "no operation is called " + ShortQuote(*name),
                     DidYouMean(*name, names_, "there are " + Listed(names_)));
        continue;
      }
      SettingsRecord record;
      const auto at = static_cast<size_t>(known - names_.begin());
      if (!member.value.IsNull()) {
        ReadRecord(member.value, &operations_[at], record);
      }
      file.operations.emplace_back(*name, std::move(record));
    }
  }

  // Reads the settings of one operation. `operation` is null if the settings
  // are the defaults for all operations, which may contain any setting.
  void ReadRecord(const YamlNode& node, const KnownOperation* operation,
                  SettingsRecord& out) {
    const auto fields = Fields::Read(context_, node, keys::kSettings);
    if (!fields) return;
    for (const YamlMember& member : node.members) {
      if (context_.findings.Full()) return;
      const auto found = std::find(kSettingNames.begin(), kSettingNames.end(),
                                   member.key.text);
      if (found == kSettingNames.end() || !member.key.IsScalar()) continue;
      const auto setting = static_cast<Setting>(found - kSettingNames.begin());
      if (operation != nullptr && !operation->settings.Has(setting)) {
        context_.Add(
            code::kSchema, member.key,
            "`" + member.key.text + "` has no meaning for `" +
                std::string(operation->name) + "`",
            "it is a setting of " + Listed(TakenBy(setting, operations_)));
        continue;
      }
      // If a key is duplicated, its second value is skipped. The YAML reader
      // has already reported the key.
      if (fields->Find(member.key.text) != &member.value) continue;
      ReadValue(setting, member.value, out);
    }
  }

  std::optional<Dtype> ReadRealDtype(const YamlNode& node,
                                     const std::string& what) {
    const auto text = ReadText(context_, node, what);
    if (!text) return std::nullopt;
    const auto dtype = ParseDtype(*text);
    if (dtype == Dtype::kF32 || dtype == Dtype::kBF16 || dtype == Dtype::kF16) {
      return dtype;
    }
    context_.Add(code::kDtype, node, what + " is " + Describe(node),
                 "it can be `float32`, `bfloat16` or `float16`");
    return std::nullopt;
  }

  std::optional<double> ReadCap(const YamlNode& node, const std::string& what) {
    const auto value = ReadReal(context_, node, what, kCaps);
    if (!value || *value == 0 || *value >= kLeastSoftCap) return value;
    context_.Add(code::kNumber, node,
                 what + " is " + ShortQuote(node.text) + ", less than 0.001",
                 "0 is no cap");
    return std::nullopt;
  }

  void ReadAxis(const YamlNode& node, const std::string& what,
                SettingsRecord& out) {
    auto text = ReadText(context_, node, what, true);
    if (!text) return;
    const std::string fault = AxisNameFault(*text);
    if (!fault.empty()) {
      context_.Add(code::kAxisName, node,
                   what + " is " + ShortQuote(*text) + ", which " + fault);
      return;
    }
    out.sequence_axis = std::move(*text);
    out.sequence_axis_place = context_.document.PlaceOf(node);
  }

  void ReadAxes(const YamlNode& node, const std::string& what,
                SettingsRecord& out) {
    auto names = ReadTexts(context_, node, what);
    if (!names) return;
    std::vector<std::string> seen;
    for (const std::string& name : *names) {
      std::string fault = AxisNameFault(name);
      if (std::find(seen.begin(), seen.end(), name) != seen.end()) {
        fault = "is named twice";
      }
      seen.push_back(name);
      if (fault.empty()) continue;
      context_.Add(code::kAxisName, node,
                   what + " names " + ShortQuote(name) + ", which " + fault);
      return;
    }
    out.ring_axes = std::move(*names);
    out.ring_axes_place = context_.document.PlaceOf(node);
  }

  template <class T, size_t kCount>
  std::optional<T> ReadName(const YamlNode& node, const std::string& what,
                            const std::array<std::string_view, kCount>& names) {
    const auto at = ReadChoice(context_, node, what, names);
    if (!at) return std::nullopt;
    return static_cast<T>(*at);
  }

  const YamlContext& context_;
  std::span<const KnownOperation> operations_;
  std::vector<std::string_view> names_;
};

}  // namespace

std::optional<OperationsFile> ReadOperations(
    const std::string& path, std::span<const KnownOperation> operations,
    Findings& findings) {
  SourceRef source = ReadSource(path, findings);
  if (source == nullptr) return std::nullopt;
  return ParseOperations(std::move(source), operations, findings);
}

std::optional<OperationsFile> ParseOperations(
    SourceRef source, std::span<const KnownOperation> operations,
    Findings& findings) {
  const size_t before = findings.errors();
  const auto document = YamlDocument::Parse(std::move(source), findings);
  if (!document) return std::nullopt;
  const YamlContext context{*document, findings};
  OperationsFile file =
      SettingsReader(context, operations).Read(document->root());
  if (findings.errors() > before) return std::nullopt;
  return file;
}

std::optional<OperationsFile> ReadOperationsAt(
    const Place& place, std::span<const KnownOperation> operations,
    Findings& findings) {
  const size_t before = findings.errors();
  const auto document = YamlDocument::Parse(place.source, findings);
  const YamlNode* node = document ? FindNode(document->root(), place) : nullptr;
  if (node == nullptr) return std::nullopt;
  const YamlContext context{*document, findings};
  OperationsFile file = SettingsReader(context, operations).Read(*node);
  if (findings.errors() > before) return std::nullopt;
  return file;
}

bool ReadSetting(std::string_view flag, Setting setting,
                 const std::string& text, SettingsRecord& record,
                 Findings& findings) {
  const size_t before = findings.errors();
  const auto document =
      YamlDocument::Parse(MakeSource(std::string(flag), text), findings);
  if (!document) return false;
  const YamlContext context{*document, findings};
  SettingsReader(context, {}).ReadValue(setting, document->root(), record);
  return findings.errors() == before;
}

}  // namespace shardc
