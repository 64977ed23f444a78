// Reads the built-in profiles, which are the files of profiles/. The files cite
// the sources of their figures as texts. `shardc cost --profiles` lists all
// figures. It does not repeat these long texts, but prints a letter after each
// figure. Each source gets a letter, in the order of first occurrence over all
// files. For example, this source gets the letter B if it is the second source
// of all files:
//
//   sources: {peaks: ["glennklockwood.com on A100"]}
#include "devices/profiles.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <map>
#include <memory>
#include <mutex>
#include <string_view>
#include <utility>

#include "source/wording.h"
#include "yaml/read.h"

namespace shardc {
namespace {

// A file is parsed when its profile is first needed: a command that names one
// accelerator parses one of them.
class KnownProfiles {
 public:
  static KnownProfiles& Get() {
    static KnownProfiles known;
    return known;
  }

  const DeviceProfile& At(size_t i) {
    std::call_once(parsed_[i], [&] {
      Findings findings;
      files_[i] = ParseBuiltinProfile(EmbeddedProfiles()[i], findings);
      if (files_[i] != nullptr) profiles_[i] = files_[i]->profile;
    });
    return profiles_[i];
  }

  std::span<const DeviceProfile> All() {
    for (size_t i = 0; i < profiles_.size(); ++i) At(i);
    return profiles_;
  }

  const OwnProfile& FileOf(const DeviceProfile& one) {
    return *files_[static_cast<size_t>(&one - profiles_.data())];
  }

 private:
  KnownProfiles() = default;

  std::vector<DeviceProfile> profiles_{EmbeddedProfiles().size()};
  // These objects own the texts of the names and aliases in profiles_, which
  // are string views.
  std::vector<std::shared_ptr<const OwnProfile>> files_{profiles_.size()};
  std::vector<std::once_flag> parsed_{profiles_.size()};
};

// The publications from which the figures of the built-in profiles are taken.
// Tables cite a publication by a letter, so each has one letter in all
// profiles.
class KnownSources {
 public:
  static const KnownSources& Get() {
    static const KnownSources known;
    return known;
  }

  std::span<const ProfileSource> all() const { return all_; }

  FigureSources Of(std::string_view profile) const {
    const auto known = letters_.find(profile);
    return known == letters_.end() ? FigureSources() : known->second;
  }

 private:
  KnownSources() {
    for (const DeviceProfile& one : DeviceProfiles()) {
      const OwnProfile& file = KnownProfiles::Get().FileOf(one);
      FigureSources& letters = letters_[one.name];
      for (size_t i = 0; i < kFigureGroups.size(); ++i) {
        for (const std::string& text : file.sources[i]) {
          letters[i] += LetterOf(text);
        }
      }
    }
  }

  char LetterOf(const std::string& text) {
    const auto known = std::find_if(
        all_.begin(), all_.end(),
        [&](const ProfileSource& one) { return one.text == text; });
    if (known != all_.end()) return known->letter;
    const size_t at = all_.size();
    const char letter = static_cast<char>(at < 26 ? 'A' + at : 'a' + (at - 26));
    all_.push_back({letter, text});
    return letter;
  }

  std::map<std::string_view, FigureSources> letters_;
  std::vector<ProfileSource> all_;
};

}  // namespace

std::span<const DeviceProfile> DeviceProfiles() {
  return KnownProfiles::Get().All();
}

std::span<const ProfileSource> ProfileSources() {
  return KnownSources::Get().all();
}

FigureSources SourcesOf(const DeviceProfile& profile) {
  return KnownSources::Get().Of(profile.name);
}

std::string_view FabricName(Fabric fabric) {
  return kFabricNames[static_cast<size_t>(fabric)];
}

const DeviceProfile* FindDeviceProfile(std::string_view name) {
  if (name.empty()) return nullptr;
  const std::span<const EmbeddedFile> files = EmbeddedProfiles();
  for (size_t i = 0; i < files.size(); ++i) {
    const std::string_view file = files[i].name;
    if (file.starts_with(name) && file.substr(name.size()) == ".yaml") {
      return &KnownProfiles::Get().At(i);
    }
  }
  for (const DeviceProfile& one : DeviceProfiles()) {
    if (one.alias == name) return &one;
  }
  const std::string folded = FoldCase(name);
  for (const DeviceProfile& one : DeviceProfiles()) {
    for (const std::string& reported :
         KnownProfiles::Get().FileOf(one).device_names) {
      if (FoldCase(reported) == folded) return &one;
    }
  }
  return nullptr;
}

std::vector<std::string_view> DeviceNames() {
  std::vector<std::string_view> out;
  for (const DeviceProfile& profile : DeviceProfiles()) {
    out.push_back(profile.name);
    if (!profile.alias.empty()) out.push_back(profile.alias);
  }
  return out;
}

double ValueAt(const Curve& curve, double at) {
  const auto next =
      std::find_if(curve.begin(), curve.end(),
                   [&](const CurvePoint& point) { return point.at >= at; });
  if (next == curve.begin()) return curve.front().value;
  if (next == curve.end()) return curve.back().value;
  const CurvePoint& before = *(next - 1);
  return before.value + (next->value - before.value) * (at - before.at) /
                            (next->at - before.at);
}

double SecondsAt(const Curve& rates, double bytes) {
  double out = bytes / ValueAt(rates, bytes);
  for (const CurvePoint& point : rates) {
    // Between two points of the curve, the time of a message only rises or only
    // falls with its size. So the fastest message of at least `bytes` has this
    // size or the size of a point of the curve.
    if (point.at > bytes) out = std::min(out, point.at / point.value);
  }
  return out;
}

bool Ascends(const Curve& curve) {
  return std::is_sorted(curve.begin(), curve.end(),
                        [](const CurvePoint& a, const CurvePoint& b) {
                          return a.value < b.value;
                        });
}

namespace {

using Name = std::string_view;

constexpr std::array<Name, 14> kProfileKeys = {
    "schema", "base",     "name",       "alias",  "device_names",
    "peaks",  "memory",   "efficiency", "chips",  "links",
    "scale",  "measured", "sources",    "serving"};
constexpr std::array<Name, 4> kPeaksKeys = {"bf16", "fp8", "int8", "fp4"};
constexpr std::array<Name, 2> kProfileMemoryKeys = {"bytes", "bandwidth"};
constexpr std::array<Name, 6> kEfficiencyKeys = {
    "matmul", "attention", "memory_ops", "experts", "messages", "runs"};
constexpr std::array<Name, 3> kMatmulKeys = {"bf16", "fp8", "fp4"};
constexpr std::array<Name, 5> kAttentionKeys = {
    "flash_attn1", "flash_attn2", "cudnn", "other", "narrow_head"};
constexpr std::array<Name, 3> kExpertsKeys = {"compute", "dispatch", "host"};
constexpr std::array<Name, 4> kLinksKeys = {"near", "far", "host", "curve"};
constexpr std::array<Name, 3> kLinkKeys = {"bandwidth", "efficiency",
                                           "latency"};
constexpr std::array<Name, 1> kHostMemoryKeys = {"bandwidth"};
constexpr std::array<Name, 5> kChipsKeys = {"fabric", "links", "per_host",
                                            "devices", "connected"};

}  // namespace

namespace keys {
const KeyTable kProfile{"profile", "a device profile", kProfileKeys};
const KeyTable kPeaks{"profile.peaks", "`peaks`", kPeaksKeys};
const KeyTable kProfileMemory{"profile.memory", "`memory`", kProfileMemoryKeys};
const KeyTable kEfficiency{"profile.efficiency", "`efficiency`",
                           kEfficiencyKeys};
const KeyTable kMatmul{"profile.matmul", "`matmul`", kMatmulKeys};
const KeyTable kAttention{"profile.attention", "`attention`", kAttentionKeys};
const KeyTable kExperts{"profile.experts", "`experts`", kExpertsKeys};
const KeyTable kLinks{"profile.links", "`links`", kLinksKeys};
const KeyTable kRateCurves{"profile.curve", "`curve`", kCurveCollectives};
const KeyTable kLink{"profile.link", "a link", kLinkKeys};
const KeyTable kHostMemory{"profile.host", "`host`", kHostMemoryKeys};
const KeyTable kChips{"profile.chips", "`chips`", kChipsKeys};
const KeyTable kSources{"profile.sources", "`sources`", kFigureGroups};
}  // namespace keys

// Reads a device profile. A user's file may have a `base`: the name of a
// built-in profile. The file may then omit any other figure. An omitted figure
// is copied from the base. For example:
//
//   {schema: shardc.profile/v1, base: h100-sxm, memory: {bandwidth: 2.4e12},
//    efficiency: {matmul: {bf16: 0.52}}}
//
// In a file without a base, a figure that has no default is required. For
// example:
//
//   {schema: shardc.profile/v1, name: acme-1,
//    memory: {bytes: 48GiB, bandwidth: 1e12}, peaks: {bf16: 200e12},
//    chips: {fabric: switch, links: 4, per_host: 8},
//    links: {near: {bandwidth: 200e9}, far: {bandwidth: 12.5e9}}}

namespace {

constexpr std::string_view kSchema = "shardc.profile/v1";
// The valid ranges of rates (bytes or operations per second), of fractions, and
// of times in seconds.
constexpr RealRange kRate = {1, 1e18};
constexpr RealRange kShare = {0.001, 1};
constexpr RealRange kExperts = {0.001, 10};
constexpr RealRange kSeconds = {0, 1};
constexpr RealRange kMeasuredSeconds = {1e-9, 1e9};
// The valid range of CurvePoint::at, which is a size of a dimension in
// elements, or a number of bytes.
constexpr RealRange kPointSize = {0, 1e18};
constexpr size_t kMostPoints = 1000;
constexpr IntegerRange kCount = {1, 1'000'000};
constexpr IntegerRange kRuns = {0, 1'000'000};

class ProfileReader {
 public:
  // A built-in profile cannot have a base, because bases are looked up among
  // the built-in profiles, which are still being read.
  ProfileReader(const YamlContext& context, bool builtin, OwnProfile& out)
      : context_(context),
        builtin_(builtin),
        out_(out),
        profile_(out.profile) {}

  void Read(const YamlNode& root) {
    const auto fields = Fields::Read(context_, root, keys::kProfile);
    if (!fields) return;
    const YamlNode* schema = fields->Require(context_, root, "schema");
    if (schema != nullptr) ReadSchema(*schema);
    const YamlNode* base = fields->Find("base");
    if (base != nullptr) ReadBase(*base);
    complete_ = builtin_ || base == nullptr;
    if (complete_ && Lacks(*fields, root)) return;
    Name(*fields, root);
    Section(*fields, root, "peaks", keys::kPeaks,
            [&](const Fields& peaks, const YamlNode& node) {
              Required(peaks, node, "bf16", kRate, profile_.bf16_rate);
              Real(peaks, "fp8", kRate, profile_.fp8_rate);
              Real(peaks, "int8", kRate, profile_.int8_rate);
              Real(peaks, "fp4", kRate, profile_.fp4_rate);
            });
    Section(*fields, root, "memory", keys::kProfileMemory,
            [&](const Fields& memory, const YamlNode& node) {
              if (const YamlNode* bytes = Wanted(memory, node, "bytes")) {
                profile_.memory_bytes = ReadBytes(context_, *bytes, "`bytes`")
                                            .value_or(profile_.memory_bytes);
              }
              Required(memory, node, "bandwidth", kRate, profile_.memory_rate);
            });
    // `chips` is read before `links`, because the rates of the links depend on
    // the numbers of links, devices and chips.
    Section(*fields, root, "chips", keys::kChips,
            [&](const Fields& chips, const YamlNode& node) {
              ReadChips(chips, node);
            });
    Section(*fields, root, "links", keys::kLinks,
            [&](const Fields& links, const YamlNode& node) {
              ReadLinks(links, node);
            });
    if (const YamlNode* node = fields->Find("efficiency")) {
      ReadEfficiency(*node);
    }
    Real(*fields, "scale", kShare, profile_.efficiency.scale);
    if (const YamlNode* node = fields->Find("serving")) {
      const bool all = !profile_.serving;
      if (all) profile_.serving.emplace();
      ReadServing(context_, *node, all, *profile_.serving);
    }
    if (const YamlNode* node = fields->Find("measured")) ReadMeasured(*node);
    if (const YamlNode* node = fields->Find("sources")) ReadSources(*node);
  }

 private:
  // Returns a member of a mapping, or null if the member is missing. In a file
  // without a base, a missing member is reported. With a base, the base's
  // figure is kept.
  const YamlNode* Wanted(const Fields& fields, const YamlNode& node,
                         std::string_view key) const {
    return complete_ ? fields.Require(context_, node, key) : fields.Find(key);
  }

  template <typename Read>
  void Section(const Fields& fields, const YamlNode& parent,
               std::string_view key, const KeyTable& table, const Read& read) {
    const YamlNode* node = Wanted(fields, parent, key);
    if (node == nullptr) return;
    if (const auto section = Fields::Read(context_, *node, table)) {
      read(*section, *node);
    }
  }

  template <typename Read>
  void Optional(const Fields& fields, std::string_view key,
                const KeyTable& table, const Read& read) {
    const YamlNode* node = fields.Find(key);
    if (node == nullptr) return;
    if (const auto section = Fields::Read(context_, *node, table)) {
      read(*section);
    }
  }

  template <typename To>
  void Required(const Fields& fields, const YamlNode& node,
                std::string_view key, RealRange range, To& to) {
    if (Wanted(fields, node, key) != nullptr) Real(fields, key, range, to);
  }

  template <typename To>
  void Real(const Fields& fields, std::string_view key, RealRange range,
            To& to) {
    const YamlNode* node = fields.Find(key);
    if (node == nullptr) return;
    const auto value =
        ReadReal(context_, *node, "`" + std::string(key) + "`", range);
    if (value) to = *value;
  }

  void Integer(const Fields& fields, std::string_view key, IntegerRange range,
               int64_t& to) {
    const YamlNode* node = fields.Find(key);
    if (node == nullptr) return;
    to = ReadInteger(context_, *node, "`" + std::string(key) + "`", range)
             .value_or(to);
  }

  // Returns whether a file without a base lacks required sections. Reports all
  // missing sections in one error.
  bool Lacks(const Fields& fields, const YamlNode& root) const {
    std::vector<std::string_view> missing;
    for (const std::string_view key :
         {"name", "peaks", "memory", "chips", "links"}) {
      if (fields.Find(key) == nullptr) missing.push_back(key);
    }
    if (missing.empty()) return false;
    context_.Add(code::kSchema, root,
                 "a device profile without `base` has no " + Listed(missing),
                 "`base` is a built-in profile that has what the file lacks; "
                 "`shardc cost --profiles` lists them");
    return true;
  }

  // Sets the device's name and alias. If a file with a base omits the name,
  // ReadBase has already set it to `BASE of FILE`.
  void Name(const Fields& fields, const YamlNode& root) {
    const YamlNode* name = Wanted(fields, root, "name");
    if (name != nullptr) {
      if (auto text = ReadText(context_, *name, "`name`", true)) {
        out_.text = std::move(*text);
      }
    }
    if (const YamlNode* alias = fields.Find("alias")) {
      out_.alias =
          ReadText(context_, *alias, "`alias`", true).value_or(std::string());
    }
    if (const YamlNode* names = fields.Find("device_names")) {
      out_.device_names = ReadTexts(context_, *names, "`device_names`")
                              .value_or(std::vector<std::string>());
    }
  }

  void ReadSchema(const YamlNode& node) {
    const auto text = ReadText(context_, node, "`schema`");
    if (text && *text != kSchema) {
      context_.Add(code::kSchema, node,
                   "`schema` is " + ShortQuote(*text) + ", not `" +
                       std::string(kSchema) + "`");
    }
  }

  void ReadBase(const YamlNode& node) {
    const auto text = ReadText(context_, node, "`base`");
    if (!text || builtin_) return;
    const DeviceProfile* base = FindDeviceProfile(*text);
    if (base == nullptr) {
      context_.Add(code::kReference, node,
                   "`base` is " + ShortQuote(*text) + ", which is no profile",
                   DidYouMean(*text, DeviceNames(),
                              "`shardc cost --profiles` lists them"));
      return;
    }
    profile_ = *base;
    // The calibration runs were made on the base's device, so their number does
    // not apply to this device.
    profile_.efficiency.runs = 0;
    out_.text = std::string(base->name) + " of " +
                context_.document.PlaceOf(node).source->name();
  }

  void ReadChips(const Fields& chips, const YamlNode& node) {
    if (const YamlNode* fabric = Wanted(chips, node, "fabric")) {
      if (const auto at =
              ReadChoice(context_, *fabric, "`fabric`", kFabricNames)) {
        profile_.fabric = static_cast<Fabric>(*at);
      }
    }
    Integer(chips, "links", kCount, profile_.links);
    if (Wanted(chips, node, "per_host") != nullptr) {
      Integer(chips, "per_host", kCount, profile_.chips_per_host);
    }
    Integer(chips, "devices", kCount, profile_.devices_per_chip);
    Integer(chips, "connected", kCount, profile_.fabric_chips);
  }

  void ReadSources(const YamlNode& node) {
    const auto fields = Fields::Read(context_, node, keys::kSources);
    if (!fields) return;
    for (size_t i = 0; i < kFigureGroups.size(); ++i) {
      const YamlNode* texts = fields->Find(kFigureGroups[i]);
      if (texts == nullptr) continue;
      out_.sources[i] =
          ReadTexts(context_, *texts, "`" + std::string(kFigureGroups[i]) + "`")
              .value_or(std::vector<std::string>{});
    }
  }

  void ReadEfficiency(const YamlNode& node) {
    const auto read = Fields::Read(context_, node, keys::kEfficiency);
    if (!read) return;
    const Fields& fields = *read;
    Efficiency& out = profile_.efficiency;
    Optional(fields, "matmul", keys::kMatmul, [&](const Fields& matmul) {
      Share(matmul, "bf16", out.matmul, out.matmul_curve);
      Share(matmul, "fp8", out.matmul_fp8, out.matmul_fp8_curve);
      Real(matmul, "fp4", kShare, out.matmul_fp4);
    });
    Optional(fields, "attention", keys::kAttention, [&](const Fields& kernels) {
      Real(kernels, "flash_attn1", kShare, out.flash_attn1);
      Real(kernels, "flash_attn2", kShare, out.flash_attn2);
      Real(kernels, "cudnn", kShare, out.cudnn);
      Real(kernels, "other", kShare, out.attention);
      Real(kernels, "narrow_head", kShare, out.narrow_head);
    });
    Real(fields, "memory_ops", kShare, out.memory_ops);
    ReadExperts(fields, out);
    Real(fields, "messages", kExperts, out.messages);
    int64_t runs = out.runs;
    Integer(fields, "runs", kRuns, runs);
    out.runs = static_cast<int>(runs);
  }

  // Reads one factor for all parts of experts, or one for each.
  void ReadExperts(const Fields& fields, Efficiency& out) {
    const YamlNode* const node = fields.Find("experts");
    if (node != nullptr && !node->IsMapping()) {
      Real(fields, "experts", kExperts, out.experts);
      out.dispatch = out.expert_host = out.experts;
      return;
    }
    Optional(fields, "experts", keys::kExperts, [&](const Fields& parts) {
      Real(parts, "compute", kExperts, out.experts);
      Real(parts, "dispatch", kExperts, out.dispatch);
      Real(parts, "host", kExperts, out.expert_host);
    });
  }

  // Reads the steps to which the figures were fitted, for the statement about
  // the accuracy of times. Other evidence is not read.
  void ReadMeasured(const YamlNode& node) {
    Efficiency& out = profile_.efficiency;
    for (const YamlNode& one : node.items) {
      const YamlNode* const measured = MemberOf(one, "step_s");
      const YamlNode* const after = MemberOf(one, "expected_s");
      if (measured == nullptr || after == nullptr) continue;
      const auto step =
          ReadReal(context_, *measured, "`step_s`", kMeasuredSeconds);
      const auto expected =
          ReadReal(context_, *after, "`expected_s`", kMeasuredSeconds);
      if (!step || !expected) continue;
      ++out.measured;
      if (MemberOf(one, "stages") != nullptr) ++out.measured_pipelines;
      out.measured_error =
          std::max(out.measured_error, std::abs(*expected / *step - 1));
    }
  }

  // Reads a fraction, or a curve of fractions by the size of a matmul.
  // For a curve, `share` becomes the value of its last point, which is the
  // fraction that the largest matmuls reach.
  void Share(const Fields& fields, std::string_view key, double& share,
             Curve& curve) {
    const YamlNode* const node = fields.Find(key);
    if (node == nullptr) return;
    curve.clear();
    if (!node->IsSequence()) return Real(fields, key, kShare, share);
    if (!ReadCurve(*node, key, kShare, curve)) return;
    share = curve.back().value;
  }

  bool ReadCurve(const YamlNode& node, std::string_view key, RealRange values,
                 Curve& out) {
    const std::string what = "`" + std::string(key) + "`";
    const auto refuse = [&](const YamlNode& at, const std::string& message) {
      context_.Add(code::kSchema, at, message,
                   "write points such as [[512, 0.4], [4096, 0.71]]");
      out.clear();
      return false;
    };
    if (!node.IsSequence() || node.items.empty() ||
        node.items.size() > kMostPoints) {
      return refuse(node, what + " is not a curve of 1 to " +
                              CountText(int64_t{kMostPoints}) + " points");
    }
    for (const YamlNode& point : node.items) {
      if (!point.IsSequence() || point.items.size() != 2) {
        return refuse(point, "a point of " + what + " is not a pair");
      }
      const auto at =
          ReadReal(context_, point.items[0], "a point's size", kPointSize);
      const auto value =
          ReadReal(context_, point.items[1], "a point's value", values);
      if (!at || !value) {
        out.clear();
        return false;
      }
      if (!out.empty() && *at <= out.back().at) {
        return refuse(point, "the sizes of " + what + " do not rise");
      }
      out.push_back({*at, *value});
    }
    return true;
  }

  void ReadLinks(const Fields& links, const YamlNode& node) {
    Efficiency& out = profile_.efficiency;
    Optional(links, "curve", keys::kRateCurves, [&](const Fields& curves) {
      for (size_t i = 0; i < kCurveCollectives.size(); ++i) {
        const YamlNode* const curve = curves.Find(kCurveCollectives[i]);
        if (curve == nullptr) continue;
        out.rate_curves[i].clear();
        ReadCurve(*curve, kCurveCollectives[i], kRate, out.rate_curves[i]);
      }
    });
    Optional(links, "host", keys::kHostMemory, [&](const Fields& host) {
      Real(host, "bandwidth", kRate, profile_.host_memory_rate);
    });
    Section(links, node, "near", keys::kLink,
            [&](const Fields& near, const YamlNode& of) {
              std::optional<double> bandwidth;
              Required(near, of, "bandwidth", kRate, bandwidth);
              if (bandwidth) {
                profile_.link_rate =
                    *bandwidth / static_cast<double>(profile_.links) *
                    static_cast<double>(profile_.devices_per_chip);
              }
              Real(near, "efficiency", kShare, out.near);
              Real(near, "latency", kSeconds, out.latency_s);
            });
    Section(links, node, "far", keys::kLink,
            [&](const Fields& far, const YamlNode& of) {
              std::optional<double> bandwidth;
              Required(far, of, "bandwidth", kRate, bandwidth);
              if (bandwidth) {
                profile_.host_rate =
                    *bandwidth * static_cast<double>(profile_.chips_per_host *
                                                     profile_.devices_per_chip);
              }
              Real(far, "efficiency", kShare, out.far);
              if (const YamlNode* latency = far.Find("latency")) {
                context_.Add(code::kSchema, *latency,
                             "`far` has no latency of its own",
                             "write it under `near`, for all collectives");
              }
            });
  }

  const YamlContext& context_;
  bool builtin_;
  bool complete_ = false;  // required figures must be in the file
  OwnProfile& out_;
  DeviceProfile& profile_;
};

std::shared_ptr<const OwnProfile> ParseOwnProfile(SourceRef source,
                                                  bool builtin,
                                                  Findings& findings) {
  const size_t before = findings.errors();
  const auto document = YamlDocument::Parse(std::move(source), findings);
  if (!document) return nullptr;
  auto out = std::make_shared<OwnProfile>();
  ProfileReader({*document, findings}, builtin, *out).Read(document->root());
  if (findings.errors() > before) return nullptr;
  out->profile.name = out->text;
  out->profile.alias = out->alias;
  return out;
}

}  // namespace

std::shared_ptr<const OwnProfile> ParseProfile(SourceRef source,
                                               Findings& findings) {
  return ParseOwnProfile(std::move(source), false, findings);
}

std::shared_ptr<const OwnProfile> ParseBuiltinProfile(const EmbeddedFile& file,
                                                      Findings& findings) {
  return ParseOwnProfile(std::make_shared<const Source>(std::string(file.name),
                                                        std::string(file.text)),
                         true, findings);
}

}  // namespace shardc
