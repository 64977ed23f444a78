// Reads the figures of serving: those of devices, and those of engines. Each
// key of a file is a row of a table with the member that it sets. For example,
// a profile has
//
//   serving: {weights: 0.87, matmul_start: 4e-6, matmuls: {bf16: 690e12}}
#include "devices/serving.h"

#include <algorithm>
#include <iterator>
#include <utility>

#include "source/size.h"
#include "source/wording.h"

namespace shardc {
namespace {

constexpr RealRange kServingShare = {0.001, 1}, kServingRate = {1, 1e18},
                    kServingSeconds = {0, 1};

template <class Of>
struct Figure {
  std::string_view key;
  double Of::*to;
  RealRange range;
};
using Rates = ServingRates;
constexpr Figure<Rates> kRates[] = {
    {"weights", &Rates::weights, kServingShare},
    {"expert_weights", &Rates::expert_weights, kServingShare},
    {"cache", &Rates::cache, kServingShare},
    {"narrow_cache", &Rates::narrow_cache, kServingShare},
    {"latent_cache", &Rates::latent_cache, kServingShare},
    {"latent", &Rates::latent, kServingRate},
    {"prefill", &Rates::prefill, kServingRate},
    {"narrow_prefill", &Rates::narrow_prefill, kServingRate},
    {"all_reduce", &Rates::all_reduce, kServingShare},
    {"all_to_all", &Rates::all_to_all, kServingShare},
    {"matmul_start", &Rates::matmul_start, kServingSeconds},
    {"attention_start", &Rates::attention_start, kServingSeconds},
    {"experts_start", &Rates::experts_start, kServingSeconds},
    {"all_reduce_start", &Rates::all_reduce_start, kServingSeconds},
    {"all_to_all_start", &Rates::all_to_all_start, kServingSeconds}};
constexpr Figure<EngineProfile> kEngineFigures[] = {
    {"layer", &EngineProfile::layer, kServingSeconds},
    {"expert_layer", &EngineProfile::expert_layer, kServingSeconds},
    {"step", &EngineProfile::step, kServingSeconds},
    {"request", &EngineProfile::request, kServingSeconds},
    {"prefill_call", &EngineProfile::prefill_call, kServingSeconds},
    {"prefill_share", &EngineProfile::prefill_share, kServingShare}};
// Without these keys, the members have their defaults.
constexpr Figure<EngineProfile> kFurtherFigures[] = {
    {"prefill_layer", &EngineProfile::prefill_layer, kServingSeconds},
    {"latent_call", &EngineProfile::latent_call, kServingSeconds},
    {"shown_after", &EngineProfile::shown_after, {0, 1000}}};

// Returns the keys of a table of figures, with further keys behind them.
template <size_t kMore, class Of, size_t kRows>
constexpr std::array<std::string_view, kRows + kMore> KeysOf(
    const Figure<Of> (&rows)[kRows],
    const std::array<std::string_view, kMore>& more) {
  std::array<std::string_view, kRows + kMore> out = {};
  for (size_t i = 0; i < kRows; ++i) out[i] = rows[i].key;
  for (size_t i = 0; i < kMore; ++i) out[kRows + i] = more[i];
  return out;
}
constexpr auto kServingKeys =
    KeysOf<4>(kRates, {"matmuls", "experts", "evidence", "assumed"});
constexpr auto kEngineKeys = KeysOf<14>(
    kEngineFigures,
    {kFurtherFigures[0].key, kFurtherFigures[1].key, kFurtherFigures[2].key,
     "schema", "name", "alias", "month", "versions", "points", "evidence",
     "prefill", "prefill_work", "settings", "layout"});
static_assert(std::size(kFurtherFigures) == 3);

template <class Of>
void ReadFigure(const YamlContext& context, const Fields& fields,
                const Figure<Of>& row, Of& out) {
  const YamlNode* const node = fields.Find(row.key);
  if (node == nullptr) return;
  out.*row.to =
      ReadReal(context, *node, "`" + std::string(row.key) + "`", row.range)
          .value_or(out.*row.to);
}

void ReadByFormat(const YamlContext& context, const Fields& fields,
                  std::string_view key, Rates::ByFormat& out) {
  const YamlNode* const node = fields.Find(key);
  if (node == nullptr) return;
  const auto rates = Fields::Read(context, *node, keys::kServedRates);
  for (size_t i = 0; rates && i < kServedFormats.size(); ++i) {
    if (const YamlNode* rate = rates->Find(kServedFormats[i])) {
      out[i] =
          ReadReal(context, *rate, "`" + std::string(kServedFormats[i]) + "`",
                   kServingRate);
    }
  }
}

// Reads the factors of a prefill by the names of profiles.
std::vector<std::pair<std::string, double>> ReadWork(const YamlContext& context,
                                                     const YamlNode& node) {
  constexpr RealRange kFactor = {0.01, 100};
  std::vector<std::pair<std::string, double>> out;
  if (!node.IsMapping()) {
    context.Add(code::kSchema, node,
                "`prefill_work` is " + Describe(node) +
                    ", not a mapping of profiles to factors");
    return out;
  }
  for (const YamlMember& member : node.members) {
    const auto name = ReadKey(context, member.key, code::kSchema, "a profile");
    const auto factor =
        ReadReal(context, member.value, "a factor of `prefill_work`", kFactor);
    if (name && factor) out.emplace_back(*name, *factor);
  }
  return out;
}

class KnownEngines {
 public:
  static const KnownEngines& Get() {
    static const KnownEngines known;
    return known;
  }
  std::vector<EngineProfile> engines;

 private:
  KnownEngines() {
    Findings findings;
    for (const EmbeddedFile& file : EmbeddedEngines()) {
      const auto own =
          ParseEngine(std::make_shared<const Source>(std::string(file.name),
                                                     std::string(file.text)),
                      findings);
      if (own != nullptr) engines.push_back(*own);
    }
  }
};

}  // namespace

namespace keys {
const KeyTable kServing{"profile.serving", "`serving`", kServingKeys};
const KeyTable kServedRates{"profile.rates", "rates by format", kServedFormats};
const KeyTable kEngine{"engine", "an engine", kEngineKeys};
}  // namespace keys

std::optional<int64_t> ServedBytes(int64_t weights, ServedFormat format) {
  // The bits of the 16,384 weights of a block of 128 by 128.
  constexpr int64_t kBlock = 128 * 128, kBits = 8;
  constexpr std::array<int64_t, kServedFormats.size()> kBlockBits = {
      16 * kBlock,
      8 * kBlock,
      8 * kBlock + 32,
      4 * kBlock + 8 * (kBlock / 16),
      4 * kBlock + 8 * (kBlock / 32),
      4 * kBlock + 16 * (kBlock / 32)};
  const auto bits =
      (Size(weights) * kBlockBits[static_cast<size_t>(format)]).Checked();
  if (!bits) return std::nullopt;
  return *bits / (kBlock * kBits) + (*bits % (kBlock * kBits) != 0 ? 1 : 0);
}

void ReadServing(const YamlContext& context, const YamlNode& node,
                 bool complete, ServingRates& out) {
  const auto fields = Fields::Read(context, node, keys::kServing);
  if (!fields) return;
  for (const Figure<Rates>& row : kRates) {
    if (complete) fields->Require(context, node, row.key);
    ReadFigure(context, *fields, row, out);
  }
  ReadByFormat(context, *fields, "matmuls", out.matmuls);
  ReadByFormat(context, *fields, "experts", out.experts);
  if (const YamlNode* texts = fields->Find("evidence")) {
    out.evidence = ReadTexts(context, *texts, "`evidence`")
                       .value_or(std::vector<std::string>{});
  }
  if (const YamlNode* assumed = fields->Find("assumed")) {
    out.assumed = ReadBool(context, *assumed, "`assumed`").value_or(true);
  }
}

std::shared_ptr<const EngineProfile> ParseEngine(SourceRef source,
                                                 Findings& findings) {
  const size_t before = findings.errors();
  const auto document = YamlDocument::Parse(std::move(source), findings);
  if (!document) return nullptr;
  const YamlContext context = {*document, findings};
  const YamlNode& root = document->root();
  const auto fields = Fields::Read(context, root, keys::kEngine);
  if (!fields) return nullptr;
  EngineProfile out;
  const auto text = [&](std::string_view key, std::string& to) {
    const YamlNode* const node = key == "alias"
                                     ? fields->Find(key)
                                     : fields->Require(context, root, key);
    if (node == nullptr) return;
    to = ReadText(context, *node, "`" + std::string(key) + "`").value_or("");
  };
  std::string schema;
  text("schema", schema);
  text("name", out.name);
  text("alias", out.alias);
  text("month", out.month);
  text("versions", out.versions);
  if (!schema.empty() && schema != "shardc.engine/v1") {
    context.Add(
        code::kSchema, root,
        "`schema` is " + ShortQuote(schema) + ", not `shardc.engine/v1`");
  }
  for (const Figure<EngineProfile>& row : kEngineFigures) {
    fields->Require(context, root, row.key);
    ReadFigure(context, *fields, row, out);
  }
  for (const Figure<EngineProfile>& row : kFurtherFigures) {
    ReadFigure(context, *fields, row, out);
  }
  if (const YamlNode* order = fields->Find("prefill")) {
    out.order = static_cast<PrefillOrder>(
        ReadChoice(context, *order, "`prefill`", kPrefillOrders).value_or(0));
  }
  if (const YamlNode* work = fields->Find("prefill_work")) {
    out.prefill_work = ReadWork(context, *work);
  }
  if (const YamlNode* settings = fields->Find("settings")) {
    out.settings = ReadSettings(context, *settings);
  }
  if (const YamlNode* layout = fields->Find("layout")) {
    out.layout = ReadEngineLayout(context, *layout);
  }
  if (const YamlNode* points = fields->Find("points")) {
    out.points =
        ReadInteger(context, *points, "`points`", {0, 1'000'000}).value_or(0);
  }
  if (const YamlNode* node = fields->Require(context, root, "evidence")) {
    out.evidence = ReadTexts(context, *node, "`evidence`")
                       .value_or(std::vector<std::string>{});
  }
  if (findings.errors() > before) return nullptr;
  return std::make_shared<const EngineProfile>(std::move(out));
}

const EngineSetting* EngineProfile::Find(SchedulerSetting setting) const {
  for (const EngineSetting& one : settings) {
    if (one.setting == setting) return &one;
  }
  return nullptr;
}

SchedulerSettings EngineProfile::Defaults() const {
  SchedulerSettings out;
  for (const EngineSetting& one : settings) {
    SetSetting(one.setting, one.value, out);
  }
  return out;
}

double EngineProfile::PrefillWork(std::string_view profile) const {
  for (const auto& [device, factor] : prefill_work) {
    if (device == profile) return factor;
  }
  return 1;
}

std::span<const EngineProfile> Engines() { return KnownEngines::Get().engines; }

const EngineProfile* FindEngine(std::string_view name) {
  if (name.empty()) return nullptr;
  for (const EngineProfile& one : Engines()) {
    if (one.name == name || one.alias == name) return &one;
  }
  return nullptr;
}

}  // namespace shardc
