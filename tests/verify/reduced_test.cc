// Compares results at reduced sizes with those at the given sizes, for random
// meshes, axis rules, sizes and settings. To run more of them by hand:
//
//   SHARDC_SETTINGS=1000 build/tests/verify_test --test-case='reduced*'
#include <doctest/doctest.h>

#include <cstdlib>
#include <string>
#include <utility>
#include <vector>

#include "complete.h"
#include "exec/machine/random.h"
#include "model/rules.h"
#include "resolve/resolve.h"
#include "verify/cases/case.h"
#include "verify/cases/grid.h"
#include "verify/cases/matrix.h"
#include "verify/cases/reduced_sizes.h"
#include "verify/judge/explain.h"
#include "verify/report.h"
#include "verify/traces/cache_trace.h"

namespace shardc::verify {
namespace {

using exec::RandomSequence;

template <class T>
const T& Pick(RandomSequence& random, const std::vector<T>& from) {
  return from[random.Below(from.size())];
}

// A request with its mesh and axis rules.
struct Setting {
  Mesh mesh;
  RuleSet rules;
  Request request;
  std::string text;
};

Mesh PickMesh(RandomSequence& random) {
  while (true) {
    std::vector<std::pair<std::string, int64_t>> axes;
    int64_t total = 1;
    for (const char* name : {"dp", "fsdp", "sp", "tp", "tq"}) {
      const int64_t size = Pick(random, std::vector<int64_t>{1, 1, 2, 2, 3, 4});
      if (total * size > 12) continue;
      total *= size;
      axes.emplace_back(name, size);
    }
    if (total > 1) return MeshOf(axes);
  }
}

void Set(Setting& setting, AxisRule rule, AxisGroup axes) {
  std::erase_if(
      axes, [&](const std::string& axis) { return !setting.mesh.Find(axis); });
  setting.text += " " + std::string(AxisRuleName(rule)) + "=[";
  for (const std::string& axis : axes) setting.text += axis + " ";
  setting.text += "]";
  setting.rules.axes.Set(rule, {.is_null = false, .axes = std::move(axes)});
}

void PickRules(RandomSequence& random, Setting& setting) {
  const auto maybe = [&](AxisRule rule, double chance,
                         const std::vector<AxisGroup>& from) {
    if (random.Chance(chance)) Set(setting, rule, Pick(random, from));
  };
  const std::vector<AxisGroup> batch = {
      {"dp"}, {"fsdp", "dp"}, {"dp", "fsdp"}, {}};
  const std::vector<AxisGroup> length = {{"sp"}, {}, {"sp", "tq"}, {"fsdp"}};
  const std::vector<AxisGroup> heads = {
      {"tp"}, {"tp", "tq"}, {"tq", "tp"}, {"tq"}, {}};
  const std::vector<AxisGroup> dim = {{}, {"tq"}, {"tp"}};
  maybe(AxisRule::kBatch, 0.5, batch);
  maybe(AxisRule::kQuerySequence, 0.3, length);
  maybe(AxisRule::kKeySequence, 0.3, length);
  maybe(AxisRule::kHead, 0.5, heads);
  maybe(AxisRule::kKvHead, 0.5, heads);
  maybe(AxisRule::kAttentionDim, 0.15, dim);
  maybe(AxisRule::kAttentionKvDim, 0.15, dim);
  maybe(AxisRule::kBiasHeadSequence, 0.2, heads);
  maybe(AxisRule::kBiasKeySequence, 0.2, length);
  maybe(AxisRule::kDecodeBatch, 0.2, batch);
  maybe(AxisRule::kDecodeQuerySequence, 0.5, {{}});
  maybe(AxisRule::kDecodeKeySequence, 0.3, length);
  maybe(AxisRule::kDecodeHead, 0.2, heads);
  maybe(AxisRule::kDecodeKvHead, 0.3, heads);
  maybe(AxisRule::kDecodeAttentionDim, 0.15, dim);
  maybe(AxisRule::kDecodeAttentionKvDim, 0.15, dim);
}

Setting RandomSetting(uint64_t index) {
  RandomSequence random(exec::Random(29).Split(index));
  Setting out;
  out.mesh = PickMesh(random);
  for (const MeshAxis& axis : out.mesh.axes) {
    out.text += axis.name + ":" + std::to_string(axis.size) + " ";
  }
  PickRules(random, out);
  Request& r = out.request;
  r.illegal = Pick(random, std::vector<IllegalPolicy>{
                               IllegalPolicy::kError, IllegalPolicy::kError,
                               IllegalPolicy::kDrop, IllegalPolicy::kShrink});
  out.text += " " + std::string(IllegalPolicyName(r.illegal));
  Sizes& n = r.sizes;
  n.key_heads = Pick(random, std::vector<int64_t>{1, 2, 3, 4, 6, 8, 12});
  n.heads =
      n.key_heads * Pick(random, std::vector<int64_t>{1, 1, 2, 3, 4, 6, 8});
  n.head_dim = Pick(random, std::vector<int64_t>{8, 16, 24, 32, 36, 64});
  n.batch = random.Between(1, 12);
  n.key_length = random.Between(8, 72);
  if (random.Chance(0.5)) n.key_length = n.key_length / 12 * 12 + 12;
  n.query_length =
      random.Chance(0.6) ? n.key_length : random.Between(1, n.key_length);
  out.text +=
      " B" + std::to_string(n.batch) + " T" + std::to_string(n.query_length) +
      " S" + std::to_string(n.key_length) + " H" + std::to_string(n.heads) +
      " K" + std::to_string(n.key_heads) + " D" + std::to_string(n.head_dim);
  const auto operations = exec::Operations();
  for (int i = 0; i < 2; ++i) {
    const exec::Operation* one = operations[random.Below(operations.size())];
    if (!r.operations.empty() && r.operations[0] == one) continue;
    r.operations.push_back(one);
    out.text += " " + std::string(one->name);
    SettingsRecord record;
    if (one->Takes(shardc::Setting::kOrder) && random.Chance(0.3)) {
      record.order =
          random.Chance(0.5) ? SequenceOrder::kZigZag : SequenceOrder::kStriped;
      out.text += "(order)";
    }
    if (one->Takes(shardc::Setting::kRingAxes) && random.Chance(0.4)) {
      record.ring_axes = AxisGroup{random.Chance(0.5) ? "sp" : "fsdp"};
      out.text += "(ring " + record.ring_axes->front() + ")";
    }
    r.records.emplace_back(one->name, std::move(record));
  }
  const std::vector<Mode> modes(kAllModes.begin(), kAllModes.end());
  r.modes = {Pick(random, modes)};
  if (random.Chance(0.3)) r.modes.push_back(Pick(random, modes));
  if (r.modes.size() == 2 && r.modes[0] == r.modes[1]) r.modes.pop_back();
  for (const Mode mode : r.modes) out.text += " " + std::string(ModeName(mode));
  const std::vector<Layout> layouts(kAllLayouts.begin(), kAllLayouts.end());
  r.layouts = {Pick(random, layouts)};
  if (random.Chance(0.3)) r.layouts = layouts;
  for (const Layout layout : r.layouts) {
    out.text += " " + std::string(LayoutName(layout));
  }
  r.dtypes = {random.Chance(0.7) ? Dtype::kF32 : Dtype::kBF16};
  if (random.Chance(0.15)) r.kv_dtype = Dtype::kI8;
  if (random.Chance(0.25)) r.window = random.Between(1, n.key_length + 4);
  if (random.Chance(0.4)) {
    const auto features = AllFeatures();
    r.more = {features[random.Below(features.size())]};
    out.text += " " + std::string(FeatureName(r.more[0]));
  }
  r.named = random.Chance(0.3);
  r.large_logits = false;
  r.steps = 2;
  r.seed = index;
  return out;
}

// Returns the name of a case, such as `ring train bthd bias`.
std::string NameOf(const Case& test) {
  std::string out(test.operation->name);
  out += " " + std::string(ModeName(test.mode)) + " ";
  out += test.trace ? test.trace->pages        ? "pages"
                      : test.trace->window > 0 ? "rolling cache"
                                               : "cache"
                    : LayoutName(test.layout);
  for (const std::string_view name : FeatureNames(test)) {
    if (name != "window") out += " " + std::string(name);
  }
  return out;
}

std::string Verdict(const CaseResult& result) {
  std::string out(StatusName(result.status));
  if (result.status == Status::kPass) return out;
  return out + " over `" + result.axis + "`";
}

struct Compared {
  int64_t verdicts = 0;
  int64_t meshes = 0;  // settings that ran on a smaller mesh
};

// Returns the differences, one line each. With `most_devices` the mesh is
// reduced as well.
std::vector<std::string> Differences(const Setting& setting,
                                     std::optional<int64_t> most_devices,
                                     Compared& compared) {
  Findings findings;
  const auto resolver = Resolver::Make(setting.rules, setting.mesh, findings);
  REQUIRE(resolver);
  Request full = setting.request;
  full.full = true;
  Matrix given = BuildMatrix(full, *resolver, setting.mesh);
  std::optional<SmallMesh> mesh;
  if (most_devices) {
    const auto meshes = ReducedMeshes(setting.mesh, *most_devices);
    if (meshes.empty()) return {};
    const Mesh& fewer = meshes[setting.request.seed % meshes.size()];
    const auto its = Resolver::Make(setting.rules, fewer, findings);
    REQUIRE(its);
    mesh = SmallMesh{fewer, *its};
  }
  Matrix small = BuildMatrix(setting.request, *resolver, setting.mesh,
                             mesh ? &*mesh : nullptr);
  std::vector<std::string> out;
  if (most_devices) {
    if (small.used_mesh.devices == setting.mesh.devices) return out;
    ++compared.meshes;
  }
  if (!small.reduced) return out;
  // If `given` is reset, no result at reduced sizes is computed from the given
  // sizes.
  const Matrix sent = small;
  for (Case& test : small.cases) test.given.reset();
  for (Matrix::Variant& variant : small.variants) variant.test.given.reset();
  const Report a = RunMatrix(setting.request, small, 1);
  const Report b = RunMatrix(full, given, 1);
  for (size_t i = 0; i < b.cases.size(); ++i) {
    if (b.cases[i].longer) continue;
    const std::string name = NameOf(b.cases[i]);
    if (i >= a.cases.size() || NameOf(a.cases[i]) != name) {
      out.push_back(name + ": not among those at reduced sizes");
      break;
    }
    ++compared.verdicts;
    const std::string small_one = Verdict(a.results[i]);
    const std::string full_one = Verdict(b.results[i]);
    if (small_one != full_one) {
      out.push_back(name + ": " + small_one + " (" + a.results[i].reason +
                    ") for " + full_one + " (" + b.results[i].reason + ")");
    }
    if (i >= sent.cases.size() || !sent.cases[i].given) continue;
    // The check of shapes alone must give the same result as the run.
    std::string reason;
    if (const auto* trace = std::get_if<CacheTrace>(&sent.given_traces[i])) {
      const auto refused = TraceRefusal(*trace);
      if (refused) reason = refused->message;
    } else if (!sent.cases[i].trace) {
      const auto refused = RefusalAt(*sent.cases[i].given);
      if (refused) reason = refused->reason;
      if (b.results[i].status == Status::kPass &&
          !(SentAt(*sent.cases[i].given) == b.results[i].ledger.Sent())) {
        out.push_back(name + ": sends other bytes than foretold");
      }
    } else {
      continue;
    }
    const bool runs = b.results[i].status != Status::kUnsupported;
    const std::string told =
        b.results[i].reason.substr(0, b.results[i].reason.find(", at step"));
    if (runs ? !reason.empty() : !reason.empty() && reason != told) {
      out.push_back(name + ": foretold `" + reason + "`, was `" + told + "`");
    }
  }
  return out;
}

int64_t Number(const char* name, int64_t otherwise) {
  const char* const text = std::getenv(name);
  return text == nullptr ? otherwise : std::strtoll(text, nullptr, 10);
}

void CompareSettings(std::optional<int64_t> most_devices) {
  const int64_t first = Number("SHARDC_FIRST_SETTING", 0);
  const int64_t settings = Number("SHARDC_SETTINGS", RunsAllCases() ? 40 : 20);
  Compared compared;
  for (int64_t i = first; i < first + settings; ++i) {
    const Setting setting = RandomSetting(static_cast<uint64_t>(i));
    for (const std::string& line :
         Differences(setting, most_devices, compared)) {
      FAIL_CHECK("setting " << i << ": " << setting.text << "\n    " << line);
    }
  }
  MESSAGE(compared.verdicts << " verdicts of " << settings
                            << " settings compared");
  if (most_devices) {
    MESSAGE(compared.meshes << " ran on a smaller mesh");
    CHECK(compared.meshes > settings / 4);
  }
  CHECK(compared.verdicts > settings / 2);
}

TEST_CASE("reduced sizes get the verdict of the given ones") {
  CompareSettings(std::nullopt);
}

TEST_CASE("a reduced mesh gets the verdicts of the given one") {
  CompareSettings(2);
}

}  // namespace
}  // namespace shardc::verify
