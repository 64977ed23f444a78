// Every figure is optional but the base:
//
//   {schema: shardc.profile/v1, base: h100-sxm, memory: {bandwidth: 2.4e12},
//    efficiency: {matmul: {bf16: 0.52}}}
#include "parse/profile.h"

#include <string_view>
#include <utility>

#include "parse/keys.h"
#include "source/wording.h"
#include "yaml/read.h"

namespace shardc {
namespace {

constexpr std::string_view kSchema = "shardc.profile/v1";
// Bytes and operations a second, and seconds.
constexpr RealRange kRate = {1, 1e18};
constexpr RealRange kShare = {0.001, 1};
constexpr RealRange kSeconds = {0, 1};

class ProfileReader {
 public:
  ProfileReader(const YamlContext& context, OwnProfile& out)
      : context_(context), out_(out), profile_(out.profile) {}

  void Read(const YamlNode& root) {
    const auto fields = Fields::Read(context_, root, keys::kProfile);
    if (!fields) return;
    const YamlNode* schema = fields->Require(context_, root, "schema");
    if (schema != nullptr) ReadSchema(*schema);
    const YamlNode* base = fields->Require(context_, root, "base");
    if (base != nullptr) ReadBase(*base);
    if (const YamlNode* name = fields->Find("name")) {
      if (auto text = ReadText(context_, *name, "`name`")) {
        out_.text = std::move(*text);
      }
    }
    Section(*fields, "peaks", keys::kPeaks, [&](const Fields& peaks) {
      Real(peaks, "bf16", kRate, profile_.bf16_rate);
      Real(peaks, "fp8", kRate, profile_.fp8_rate);
      Real(peaks, "int8", kRate, profile_.int8_rate);
    });
    Section(*fields, "memory", keys::kProfileMemory, [&](const Fields& memory) {
      if (const YamlNode* bytes = memory.Find("bytes")) {
        profile_.memory_bytes = ReadBytes(context_, *bytes, "`bytes`")
                                    .value_or(profile_.memory_bytes);
      }
      Real(memory, "bandwidth", kRate, profile_.memory_rate);
    });
    Section(*fields, "efficiency", keys::kEfficiency,
            [&](const Fields& efficiency) { ReadEfficiency(efficiency); });
    Section(*fields, "links", keys::kLinks,
            [&](const Fields& links) { ReadLinks(links); });
    Real(*fields, "scale", kShare, profile_.efficiency.scale);
  }

 private:
  template <typename Read>
  void Section(const Fields& fields, std::string_view key,
               const KeyTable& table, const Read& read) {
    const YamlNode* node = fields.Find(key);
    if (node == nullptr) return;
    if (const auto section = Fields::Read(context_, *node, table)) {
      read(*section);
    }
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
    if (!text) return;
    const DeviceProfile* base = FindDeviceProfile(*text);
    if (base == nullptr) {
      context_.Add(code::kReference, node,
                   "`base` is " + ShortQuote(*text) + ", which is no profile",
                   DidYouMean(*text, DeviceNames(),
                              "`shardc cost --profiles` lists them"));
      return;
    }
    profile_ = *base;
    // The runs are those of the base, not of this device.
    profile_.efficiency.runs = 0;
    out_.text = std::string(base->name) + " of " +
                context_.document.PlaceOf(node).source->name();
  }

  void ReadEfficiency(const Fields& fields) {
    Efficiency& out = profile_.efficiency;
    Section(fields, "matmul", keys::kMatmul, [&](const Fields& matmul) {
      Real(matmul, "bf16", kShare, out.matmul);
      Real(matmul, "fp8", kShare, out.matmul_fp8);
    });
    Section(fields, "attention", keys::kAttention, [&](const Fields& kernels) {
      Real(kernels, "flash_attn1", kShare, out.flash_attn1);
      Real(kernels, "flash_attn2", kShare, out.flash_attn2);
      Real(kernels, "cudnn", kShare, out.cudnn);
      Real(kernels, "other", kShare, out.attention);
      Real(kernels, "narrow_head", kShare, out.narrow_head);
    });
    Real(fields, "memory_ops", kShare, out.memory_ops);
  }

  void ReadLinks(const Fields& links) {
    Efficiency& out = profile_.efficiency;
    Section(links, "near", keys::kLink, [&](const Fields& near) {
      std::optional<double> bandwidth;
      Real(near, "bandwidth", kRate, bandwidth);
      if (bandwidth) {
        profile_.link_rate = *bandwidth / static_cast<double>(profile_.links) *
                             static_cast<double>(profile_.devices_per_chip);
      }
      Real(near, "efficiency", kShare, out.near);
      Real(near, "latency", kSeconds, out.latency_s);
    });
    Section(links, "far", keys::kLink, [&](const Fields& far) {
      std::optional<double> bandwidth;
      Real(far, "bandwidth", kRate, bandwidth);
      if (bandwidth) {
        profile_.host_rate =
            *bandwidth * static_cast<double>(profile_.chips_per_host *
                                             profile_.devices_per_chip);
      }
      Real(far, "efficiency", kShare, out.far);
      if (const YamlNode* latency = far.Find("latency")) {
        context_.Add(code::kSchema, *latency, "`far` has no latency of its own",
                     "write it under `near`, for all collectives");
      }
    });
  }

  const YamlContext& context_;
  OwnProfile& out_;
  DeviceProfile& profile_;
};

}  // namespace

std::shared_ptr<const OwnProfile> ParseProfile(SourceRef source,
                                               Findings& findings) {
  const size_t before = findings.errors();
  const auto document = YamlDocument::Parse(std::move(source), findings);
  if (!document) return nullptr;
  auto out = std::make_shared<OwnProfile>();
  ProfileReader({*document, findings}, *out).Read(document->root());
  if (findings.errors() > before) return nullptr;
  out->profile.name = out->text;
  out->profile.alias = {};
  return out;
}

}  // namespace shardc
