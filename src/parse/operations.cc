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
#include "source/list.h"
#include "source/wording.h"
#include "yaml/read.h"
#include "yaml/scan.h"

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
      if (IsAmong(name, seen)) {
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

// Reads the description of a measured run. Most of its keys are options of the
// command `cost`, with `_` in place of `-`:
//
//   {schema: shardc.run/v1, mesh: 'fsdp:8', rules: auto, manifest: m.json,
//    model: config.json, batch: 16, seq: 8192, step_s: 2.46}

namespace {

constexpr std::string_view kRunSchema = "shardc.run/v1";
constexpr RealRange kSeconds = {1e-9, 1e9};
constexpr RealRange kRate = {1e-6, 1e12};

// The keys that are no options of `cost`.
constexpr std::string_view kOwn[] = {
    "schema",   "name",  "mesh",   "rules",
    "manifest", "model", "step_s", "tokens_per_second_per_device"};
// Of the keys that are options, those that are true or false, and those whose
// value is an integer. The value of each other one is a text.
constexpr std::string_view kSwitches[] = {"overlap_tp", "ep_overlap",
                                          "offload_optimizer"};
constexpr std::string_view kCounts[] = {"batch", "seq", "microbatches", "zero",
                                        "virtual"};

std::string OptionOf(std::string_view key) {
  std::string out = "--" + std::string(key);
  std::replace(out.begin(), out.end(), '_', '-');
  return out;
}

std::string Quoted(std::string_view key) {
  return "`" + std::string(key) + "`";
}

class RunReader {
 public:
  RunReader(const YamlContext& context, const Fields& fields, MeasuredRun& out)
      : context_(context), fields_(fields), out_(out) {}

  void Read(const YamlNode& root) {
    const YamlNode* schema = fields_.Require(context_, root, "schema");
    if (schema != nullptr) ReadSchema(*schema);
    Text("name", out_.name);
    Path("mesh", out_.mesh);
    Path("manifest", out_.manifest);
    Path("model", out_.model);
    if (const YamlNode* rules = fields_.Find("rules")) {
      auto texts = ReadTexts(context_, *rules, "`rules`");
      if (texts) out_.rules = std::move(*texts);
      PutPlace("rules", *rules);
      for (std::string& one : out_.rules) one = Beside(one);
    }
    for (const std::string_view key : keys::kRun.keys) {
      if (IsAmong(key, kOwn) || IsAmong(key, kSwitches) ||
          IsAmong(key, kCounts)) {
        continue;
      }
      std::string text;
      // `cost` reads the number, as it reads that of its option.
      const bool strict = key != "capacity_factor";
      if (!Text(key, text, strict)) continue;
      // A schedule is a name or a file.
      const bool file = text.find_first_of("./\\") != std::string::npos;
      if (key == "schedule" && file) text = Beside(text);
      out_.options.emplace_back(OptionOf(key), text);
    }
    for (const std::string_view key : kCounts) {
      const YamlNode* node = fields_.Find(key);
      if (node == nullptr) continue;
      const auto value = ReadInteger(context_, *node, Quoted(key), {});
      if (value) {
        out_.options.emplace_back(OptionOf(key), std::to_string(*value));
        PutPlace(key, *node);
      }
    }
    for (const std::string_view key : kSwitches) {
      const YamlNode* node = fields_.Find(key);
      if (node != nullptr &&
          ReadBool(context_, *node, Quoted(key)).value_or(false)) {
        out_.flags.push_back(OptionOf(key));
      }
    }
    ReadTime(root);
  }

 private:
  bool Text(std::string_view key, std::string& to, bool strict = true) {
    const YamlNode* node = fields_.Find(key);
    if (node == nullptr) return false;
    auto text = ReadText(context_, *node, Quoted(key), strict);
    if (!text) return false;
    if (text->empty() && key != "name") {
      context_.Add(code::kSchema, *node, Quoted(key) + " is empty",
                   "give it a value, or remove the key");
      return false;
    }
    to = std::move(*text);
    PutPlace(key, *node);
    return true;
  }

  void PutPlace(std::string_view key, const YamlNode& node) {
    out_.places[OptionOf(key)] = context_.document.PlaceOf(node);
  }

  void Path(std::string_view key, std::string& to) {
    if (Text(key, to)) to = Beside(to);
  }

  // Returns a path relative to the working directory. The path in the file is
  // relative to the file's folder. Texts that are not paths are returned
  // unchanged, such as axes (`dp:2,tp:4`) and rule packs (`builtin:llama`).
  std::string Beside(const std::string& text) const {
    const bool path = text != "auto" && text.find(':') == std::string::npos;
    return path ? PathNextTo(context_.document.source()->name(), text) : text;
  }

  void ReadSchema(const YamlNode& node) {
    const auto text = ReadText(context_, node, "`schema`");
    if (text && *text != kRunSchema) {
      context_.Add(code::kSchema, node,
                   "`schema` is " + ShortQuote(*text) + ", not `" +
                       std::string(kRunSchema) + "`");
    }
  }

  void ReadTime(const YamlNode& root) {
    const YamlNode* step = fields_.Find("step_s");
    const YamlNode* rate = fields_.Find("tokens_per_second_per_device");
    if ((step == nullptr) == (rate == nullptr)) {
      context_.Add(code::kSchema, rate != nullptr ? *rate : root,
                   rate != nullptr ? "the run has both `step_s` and "
                                     "`tokens_per_second_per_device`"
                                   : "the run has no time",
                   "give `step_s`, the seconds of a step, or "
                   "`tokens_per_second_per_device`");
      return;
    }
    if (step != nullptr) {
      out_.step_s = ReadReal(context_, *step, "`step_s`", kSeconds);
      out_.place = context_.document.PlaceOf(*step);
    } else {
      out_.tokens_per_second_per_device =
          ReadReal(context_, *rate, "`tokens_per_second_per_device`", kRate);
      out_.place = context_.document.PlaceOf(*rate);
    }
  }

  const YamlContext& context_;
  const Fields& fields_;
  MeasuredRun& out_;
};

}  // namespace

std::optional<MeasuredRun> ParseMeasuredRun(SourceRef source,
                                            Findings& findings) {
  const size_t before = findings.errors();
  const std::string file = source->name();
  const auto document = YamlDocument::Parse(std::move(source), findings);
  if (!document) return std::nullopt;
  const YamlContext context{*document, findings};
  const auto fields = Fields::Read(context, document->root(), keys::kRun);
  if (!fields) return std::nullopt;
  MeasuredRun out;
  RunReader(context, *fields, out).Read(document->root());
  if (findings.errors() > before) return std::nullopt;
  if (out.name.empty()) out.name = file;
  return out;
}

}  // namespace shardc
